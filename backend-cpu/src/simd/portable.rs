//! The portable vector: eight `f32` in an array.
//!
//! It compiles everywhere, is what the other vectors are tested against, and compilers turn most of its loops into
//! whatever vector instructions the target guarantees.

use half::bf16;

use super::vector::{
    ROUND_TO_INTEGER, Remainder, SQRT_HALF_BITS, Vector, fractional_powers, split_nearest,
    to_exponent,
};

/// Rows of a tile of the matrix product: with one vector of columns, what sixteen 128-bit registers hold.
pub(super) const ROWS: usize = 4;
/// Vectors of columns of a tile of the matrix product.
pub(super) const VECTORS: usize = 1;

/// There is no looking up in a table.
const FRACTION_BITS: u32 = 0;

#[derive(Clone, Copy)]
pub(super) struct F32x8([f32; 8]);

/// Fused only where that is one instruction, because the software fallback is a hundred times slower.
const IS_FUSED: bool = cfg!(any(target_feature = "fma", target_arch = "aarch64"));

/// `a * b + c`.
#[inline(always)]
fn multiply_add(a: f32, b: f32, c: f32) -> f32 {
    if IS_FUSED { a.mul_add(b, c) } else { a * b + c }
}

/// `value` to the nearest `bf16`, ties to even. A NaN keeps its high bits and is made quiet.
#[inline(always)]
fn round_to_bf16(value: f32) -> bf16 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    let quiet = bits >> 16 | 0x40;
    bf16::from_bits(if value.is_nan() { quiet } else { rounded } as u16)
}

impl F32x8 {
    #[inline(always)]
    fn map(self, f: impl Fn(f32) -> f32) -> Self {
        Self(self.0.map(f))
    }

    #[inline(always)]
    fn zip(self, other: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        Self(std::array::from_fn(|i| f(self.0[i], other.0[i])))
    }

    #[inline(always)]
    fn compare(self, other: Self, f: impl Fn(f32, f32) -> bool) -> [bool; 8] {
        std::array::from_fn(|i| f(self.0[i], other.0[i]))
    }

    /// Combines the lanes pairwise, the way the wide registers do.
    #[inline(always)]
    fn reduce(self, f: impl Fn(f32, f32) -> f32) -> f32 {
        let [a, b, c, d, e, g, h, i] = self.0;
        f(f(f(a, e), f(c, h)), f(f(b, g), f(d, i)))
    }
}

impl Vector for F32x8 {
    type Isa = ();
    type Mask = [bool; 8];
    const LANES: usize = 8;
    const IS_FUSED: bool = IS_FUSED;
    const REMAINDER: Remainder = Remainder::OfNearest {
        fraction_bits: FRACTION_BITS,
    };
    const TAKES_ANY_EXPONENT: bool = false;

    #[inline(always)]
    fn splat((): (), value: f32) -> Self {
        Self([value; 8])
    }

    #[inline(always)]
    fn load((): (), from: &[f32]) -> Self {
        Self(*from.first_chunk().expect("a full vector of values"))
    }

    #[inline(always)]
    fn load_bf16((): (), from: &[bf16]) -> Self {
        let from: &[bf16; 8] = from.first_chunk().expect("a full vector of values");
        Self(from.map(|x| f32::from_bits(u32::from(x.to_bits()) << 16)))
    }

    #[inline(always)]
    fn load_two_bf16((): (), from: &[bf16]) -> [Self; 2] {
        [Self::load_bf16((), from), Self::load_bf16((), &from[8..])]
    }

    #[inline(always)]
    fn store(self, to: &mut [f32]) {
        *to.first_chunk_mut().expect("a full vector of values") = self.0;
    }

    #[inline(always)]
    fn store_bf16(self, to: &mut [bf16], _: bool) {
        *to.first_chunk_mut().expect("a full vector of values") = self.0.map(round_to_bf16);
    }

    #[inline(always)]
    fn store_two_bf16([first, second]: [Self; 2], to: &mut [bf16], denormals: bool) {
        first.store_bf16(to, denormals);
        second.store_bf16(&mut to[8..], denormals);
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.zip(other, |a, b| a + b)
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        self.zip(other, |a, b| a - b)
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self.zip(other, |a, b| a * b)
    }

    #[inline(always)]
    fn div(self, other: Self) -> Self {
        self.zip(other, |a, b| a / b)
    }

    #[inline(always)]
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        Self(std::array::from_fn(|i| {
            multiply_add(self.0[i], factor.0[i], addend.0[i])
        }))
    }

    #[inline(always)]
    fn max(self, other: Self) -> Self {
        self.zip(other, |a, b| if a > b { a } else { b })
    }

    #[inline(always)]
    fn min(self, other: Self) -> Self {
        self.zip(other, |a, b| if a < b { a } else { b })
    }

    #[inline(always)]
    fn abs(self) -> Self {
        self.map(f32::abs)
    }

    #[inline(always)]
    fn neg(self) -> Self {
        self.map(|x| -x)
    }

    #[inline(always)]
    fn copy_sign(self, sign: Self) -> Self {
        self.zip(sign, f32::copysign)
    }

    #[inline(always)]
    fn less_than(self, other: Self) -> [bool; 8] {
        self.compare(other, |a, b| a < b)
    }

    #[inline(always)]
    fn unordered(self, other: Self) -> [bool; 8] {
        self.compare(other, |a, b| a.is_nan() || b.is_nan())
    }

    #[inline(always)]
    fn select(mask: [bool; 8], if_true: Self, if_false: Self) -> Self {
        Self(std::array::from_fn(|i| {
            if mask[i] { if_true.0[i] } else { if_false.0[i] }
        }))
    }

    #[inline(always)]
    fn either(a: [bool; 8], b: [bool; 8]) -> [bool; 8] {
        std::array::from_fn(|i| a[i] | b[i])
    }

    #[inline(always)]
    fn any(mask: [bool; 8]) -> bool {
        mask.contains(&true)
    }

    #[inline(always)]
    fn times_power_of_two(self, n: Self) -> Self {
        self.zip(n, |x, n| {
            // Two factors, because 2^n itself may be out of range where the product is not; the first is exact.
            let n = ((n + ROUND_TO_INTEGER).to_bits() as i32)
                .wrapping_sub(ROUND_TO_INTEGER.to_bits() as i32);
            let half = n >> 1;
            let power = |n: i32| f32::from_bits((n.wrapping_add(127) as u32) << 23);
            x * power(half) * power(n.wrapping_sub(half))
        })
    }

    #[inline(always)]
    fn split_exp2(self, (): (), factor: Self) -> (Self, Self) {
        const POWERS: [u32; 1 << FRACTION_BITS] = fractional_powers();
        let (remainder, rounded) = split_nearest((), self, factor, FRACTION_BITS);
        let power = |x: f32| (x.to_bits() << to_exponent(FRACTION_BITS)).wrapping_add(POWERS[0]);
        (remainder, rounded.map(|x| f32::from_bits(power(x))))
    }

    #[inline(always)]
    fn times_power(self, rest: Self) -> Self {
        self.mul(rest)
    }

    #[inline(always)]
    fn times_power_add(self, rest: Self, addend: Self) -> Self {
        self.mul_add(rest, addend)
    }

    #[inline(always)]
    fn split_exponent(self) -> (Self, Self) {
        let exponent = |x: f32| (x.to_bits().wrapping_sub(SQRT_HALF_BITS) as i32) >> 23;
        (
            self.map(|x| f32::from_bits(x.to_bits().wrapping_sub((exponent(x) as u32) << 23))),
            self.map(|x| exponent(x) as f32),
        )
    }

    #[inline(always)]
    fn sum(self) -> f32 {
        self.reduce(|a, b| a + b)
    }

    #[inline(always)]
    fn largest(self) -> f32 {
        self.reduce(|a, b| if a > b { a } else { b })
    }

    #[inline(always)]
    fn transpose((): (), rows: &[[u32; 8]; 8], to: &mut [u32], stride: usize) {
        for column in 0..8 {
            let to = &mut to[column * stride..][..8];
            for (to, row) in to.iter_mut().zip(rows) {
                *to = row[column];
            }
        }
    }
}
