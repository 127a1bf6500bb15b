//! The vector vocabulary: the few lane-wise operations every algorithm in this module is written in.
//!
//! A [`Vector`] is a register of `f32` lanes. Each algorithm is written once, generic over `Vector`, and compiled once
//! per instruction set inside a `#[target_feature]` function, so the same source becomes AVX-512, AVX2 and plain code.
//!
//! # Why this is sound
//!
//! An intrinsic may run only where the machine has its instruction set. Two kinds of values prove that:
//!
//! * `Vector::Isa`, a zero-sized token that only a function compiled *for* that instruction set can make. Every
//!   constructor of a vector asks for it.
//! * the vector itself: it exists, so somebody held the token.
//!
//! Methods on `self` therefore need no further proof, and generic code over `Vector` is entirely safe.

use half::bf16;

use super::memory::Line;

/// A register of `f32` lanes. See the [module](self) for what its existence proves.
pub(crate) trait Vector: Copy {
    /// Proof that this machine can run the operations below.
    type Isa: Copy;
    /// One truth value per lane.
    type Mask: Copy;
    /// Lanes in the register.
    const LANES: usize;
    /// Whether [`mul_add`](Self::mul_add) rounds once.
    const IS_FUSED: bool;
    /// Where the remainders of [`split_exp2`](Self::split_exp2) lie.
    const REMAINDER: Remainder;
    /// Whether [`split_exp2`](Self::split_exp2) takes any exponent. Otherwise those below -127 and above 128 are
    /// meaningless.
    const TAKES_ANY_EXPONENT: bool;

    fn splat(isa: Self::Isa, value: f32) -> Self;
    /// The first `LANES` values of `from`. Panics if there are fewer.
    fn load(isa: Self::Isa, from: &[f32]) -> Self;
    /// Widens the first `LANES` values of `from`. Panics if there are fewer.
    fn load_bf16(isa: Self::Isa, from: &[bf16]) -> Self;
    /// Widens the first `2 LANES` values of `from`, in the order that is least work. Panics if there are fewer.
    fn load_two_bf16(isa: Self::Isa, from: &[bf16]) -> [Self; 2];
    /// Overwrites the first `LANES` values of `to`. Panics if there are fewer.
    fn store(self, to: &mut [f32]);
    /// Rounds to nearest even and overwrites the first `LANES` values of `to`. NaN stays NaN; denormals are kept, or
    /// may become 0 if they are not `denormals`. Panics if `to` is shorter.
    fn store_bf16(self, to: &mut [bf16], denormals: bool);
    /// The same for `2 LANES` values, in the order of [`load_two_bf16`](Self::load_two_bf16).
    fn store_two_bf16(vectors: [Self; 2], to: &mut [bf16], denormals: bool);

    /// `to = line`, past the caches. Seen by other threads after [`fence`](super::memory::fence).
    #[inline(always)]
    fn stream(_: Self::Isa, line: &Line, to: &mut Line) {
        to.stream(line);
    }

    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn div(self, other: Self) -> Self;
    /// `self * factor + addend`, rounded once if [`IS_FUSED`](Self::IS_FUSED).
    fn mul_add(self, factor: Self, addend: Self) -> Self;
    /// The larger lane; `other` where either is NaN.
    fn max(self, other: Self) -> Self;
    /// The smaller lane; `other` where either is NaN.
    fn min(self, other: Self) -> Self;
    fn abs(self) -> Self;
    fn neg(self) -> Self;
    /// The magnitude of `self` with the sign of `sign`.
    fn copy_sign(self, sign: Self) -> Self;

    fn less_than(self, other: Self) -> Self::Mask;
    /// Lanes where `self` or `other` is NaN.
    fn unordered(self, other: Self) -> Self::Mask;
    /// `if_true` in the lanes of `mask`, `if_false` in the others.
    fn select(mask: Self::Mask, if_true: Self, if_false: Self) -> Self;
    fn either(a: Self::Mask, b: Self::Mask) -> Self::Mask;
    fn any(mask: Self::Mask) -> bool;

    /// `self * 2^n` for integral `n` in -252..=254, rounded once: it underflows gradually and overflows to infinity.
    fn times_power_of_two(self, n: Self) -> Self;
    /// Splits the exponent in `2^(factor self)` into a remainder `r` and the rest, so that the power is
    /// [`times_power(2^r, rest)`](Self::times_power). NaN stays NaN in the remainder.
    fn split_exp2(self, isa: Self::Isa, factor: Self) -> (Self, Self);
    /// `self` times two to the power of the rest: infinite from 2^128 on or a little before, and below 2^-126 anything
    /// between 0 and that.
    fn times_power(self, rest: Self) -> Self;
    /// The same, plus `addend`.
    fn times_power_add(self, rest: Self, addend: Self) -> Self;
    /// `self * factor + addend` of a [power](Self::times_power) with its rest. If a vector takes any exponent, where
    /// the power is 0 it is `addend`, though the factor be infinite.
    #[inline(always)]
    fn power_mul_add(self, _rest: Self, factor: Self, addend: Self) -> Self {
        self.mul_add(factor, addend)
    }
    /// Splits positive normal lanes into `(mantissa, exponent)` with `self = mantissa * 2^exponent` and
    /// `mantissa` in √½..√2, the interval around one on which a logarithm's polynomial is shortest.
    fn split_exponent(self) -> (Self, Self);

    /// Sum of the lanes.
    fn sum(self) -> f32;
    /// Largest lane. NaN lanes give an unspecified lane.
    fn largest(self) -> f32;

    /// Writes the transpose of `rows` to eight rows of `to`, which start `stride` apart. Words are moved, not read as
    /// numbers. Panics if `to` ends before the last of them.
    fn transpose(isa: Self::Isa, rows: &[[u32; 8]; 8], to: &mut [u32], stride: usize);
}

/// An algorithm with its operands, ready to run on any vector type.
///
/// It is a trait rather than a closure because closures cannot be generic, and because the vectors must be inlined
/// into the `#[target_feature]` function that runs them: every implementation is `#[inline(always)]`.
pub(crate) trait Kernel {
    type Output;
    fn run<V: Vector>(self, isa: V::Isa) -> Self::Output;
}

/// The bits of an `f32` that a `bf16` has.
pub(super) const HIGH_HALF: i32 = 0xffff_0000_u32 as i32;
/// What makes a NaN quiet, in its `f32` or in its `bf16`.
pub(super) const QUIET: i32 = 0x0040_0000;
/// Bits of √½, the lower end of the mantissas that [`Vector::split_exponent`] returns.
pub(super) const SQRT_HALF_BITS: u32 = 0x3f35_04f3;
/// The exponent of the least normal number.
pub(super) const LEAST_NORMAL_EXPONENT: f32 = -126.0;
/// Adding 1.5 * 2^23 to a number far below it rounds that number to an integer, which sits in the low mantissa bits.
pub(super) const ROUND_TO_INTEGER: f32 = 12_582_912.0;

/// An interval as long as what an exponent is a multiple of, once a remainder is split off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Remainder {
    /// 0 to 1: the exponent is rounded down to an integer.
    OfFloor,
    /// On both sides of 0: the exponent is rounded to the nearest number of so many binary digits after the point.
    OfNearest {
        /// As many as a register's lanes can hold a table of powers for.
        fraction_bits: u32,
    },
}

/// Splits `factor x`: what is left of it, and the nearest number of `fraction_bits`, plus what rounds it so. Its digits
/// are in the low mantissa bits of that sum, where an exponent and an index into a table can be read off.
#[inline(always)]
pub(super) fn split_nearest<V: Vector>(isa: V::Isa, x: V, factor: V, fraction_bits: u32) -> (V, V) {
    let rounding = V::splat(isa, ROUND_TO_INTEGER / (1 << fraction_bits) as f32);
    let rounded = x.mul_add(factor, rounding);
    let nearest = rounded.sub(rounding);
    (x.mul_add(factor, nearest.neg()), rounded)
}

/// How far up the low bits of such a sum have to move for the integral part to be an exponent.
pub(super) const fn to_exponent(fraction_bits: u32) -> u32 {
    23 - fraction_bits
}

/// What makes a power of two of the low bits of such a sum once they have moved, added by their fraction `j / N`: the
/// bits of `2^(j / N)`, without the `j` that stands there.
pub(super) const fn fractional_powers<const N: usize>() -> [u32; N] {
    const ROOTS: usize = 8;
    /// `2^(1 / ROOTS)`
    const ROOT: f64 = 1.090_507_732_665_257_7;
    let mut table = [0; N];
    let mut power = 1.0;
    let mut i = 0;
    while i < ROOTS {
        if i.is_multiple_of(ROOTS / N) {
            let j = i * N / ROOTS;
            let moved = (j as u32) << to_exponent(N.trailing_zeros());
            table[j] = (power as f32).to_bits() - moved;
        }
        power *= ROOT;
        i += 1;
    }
    table
}
