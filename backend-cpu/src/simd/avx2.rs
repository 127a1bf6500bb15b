//! AVX2 with FMA: eight lanes, sixteen registers.

use std::arch::x86_64::*;

use half::bf16;

use super::microkernel::{self, Fused, Strip};
use super::vector::{
    HIGH_HALF, Kernel, QUIET, Remainder, SQRT_HALF_BITS, Vector, fractional_powers, split_nearest,
    to_exponent,
};

/// Rows of a tile of the matrix product: 6 x 2 accumulators, two vectors of columns and one broadcast row fill 15 of
/// the 16 registers.
pub(super) const ROWS: usize = 6;
/// Vectors of columns of a tile of the matrix product.
pub(super) const VECTORS: usize = 2;

/// A table of powers fills a register of eight lanes.
const FRACTION_BITS: u32 = usize::ilog2(8);

/// Proof that the machine has AVX2 and FMA.
#[derive(Clone, Copy)]
pub(super) struct Avx2(());

impl Avx2 {
    /// Safe to call only from code compiled for AVX2 and FMA, which is the proof.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn new() -> Self {
        Self(())
    }
}

/// Runs `kernel` compiled for AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
pub(super) fn run<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<F32x8>(Avx2::new())
}

/// Multiplies one strip compiled for AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
pub(super) fn multiply(strip: Strip<'_>) {
    microkernel::multiply::<F32x8, _, ROWS, VECTORS>(Avx2::new(), Fused, strip);
}

/// The register-only loop of [`microkernel::peak`] compiled for AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
pub(super) fn peak(iterations: u64) {
    microkernel::peak::<F32x8, _, ROWS, VECTORS>(Avx2::new(), Fused, iterations);
}

#[derive(Clone, Copy)]
pub(super) struct F32x8(__m256);

/// An expression of intrinsics that take and return values only: no pointers, so the instruction set is all they ask.
macro_rules! intrinsics {
    ($value:expr) => {
        // SAFETY: the intrinsics need AVX2 and FMA, and the caller holds an `Avx2` token or a vector made with one.
        unsafe { $value }
    };
}

impl F32x8 {
    /// The lanes rounded to `bf16`, in the high half of each.
    #[inline(always)]
    fn rounded(self) -> __m256i {
        intrinsics!({
            let bits = _mm256_castps_si256(self.0);
            let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
            let bias = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
            let rounded = _mm256_add_epi32(bits, bias);
            let quiet = _mm256_or_si256(bits, _mm256_set1_epi32(QUIET));
            _mm256_blendv_epi8(rounded, quiet, _mm256_castps_si256(self.unordered(self)))
        })
    }
}

impl Vector for F32x8 {
    type Isa = Avx2;
    type Mask = __m256;
    const LANES: usize = 8;
    const IS_FUSED: bool = true;
    const REMAINDER: Remainder = Remainder::OfNearest {
        fraction_bits: FRACTION_BITS,
    };
    const TAKES_ANY_EXPONENT: bool = false;

    #[inline(always)]
    fn splat(_: Avx2, value: f32) -> Self {
        intrinsics!(Self(_mm256_set1_ps(value)))
    }

    #[inline(always)]
    fn load(_: Avx2, from: &[f32]) -> Self {
        assert!(from.len() >= Self::LANES);
        // SAFETY: the token proves AVX2, and the eight values read lie in `from`; the load has no alignment.
        Self(unsafe { _mm256_loadu_ps(from.as_ptr()) })
    }

    #[inline(always)]
    fn load_bf16(_: Avx2, from: &[bf16]) -> Self {
        assert!(from.len() >= Self::LANES);
        // SAFETY: the token proves AVX2, and the 16 bytes read lie in `from`; the load has no alignment.
        let narrow = unsafe { _mm_loadu_si128(from.as_ptr().cast()) };
        intrinsics!(Self(_mm256_castsi256_ps(_mm256_slli_epi32::<16>(
            _mm256_cvtepu16_epi32(narrow)
        ))))
    }

    /// Those of even places, and those of odd ones: both sit in the same words.
    #[inline(always)]
    fn load_two_bf16(_: Avx2, from: &[bf16]) -> [Self; 2] {
        assert!(from.len() >= 2 * Self::LANES);
        // SAFETY: the token proves AVX2, and the 32 bytes read lie in `from`; the load has no alignment.
        let pairs = unsafe { _mm256_loadu_si256(from.as_ptr().cast()) };
        intrinsics!({
            let even = _mm256_slli_epi32::<16>(pairs);
            let odd = _mm256_and_si256(pairs, _mm256_set1_epi32(HIGH_HALF));
            [
                Self(_mm256_castsi256_ps(even)),
                Self(_mm256_castsi256_ps(odd)),
            ]
        })
    }

    #[inline(always)]
    fn store(self, to: &mut [f32]) {
        assert!(to.len() >= Self::LANES);
        // SAFETY: `self` proves AVX2, and the eight values written lie in `to`; the store has no alignment.
        unsafe { _mm256_storeu_ps(to.as_mut_ptr(), self.0) }
    }

    #[inline(always)]
    fn store_bf16(self, to: &mut [bf16], _: bool) {
        assert!(to.len() >= Self::LANES);
        let narrow = intrinsics!({
            let words = _mm256_srli_epi32::<16>(self.rounded());
            // Packing works within 128-bit halves: the two useful quarters are then brought together.
            let packed = _mm256_packus_epi32(words, words);
            _mm256_castsi256_si128(_mm256_permute4x64_epi64::<0b1000>(packed))
        });
        // SAFETY: `self` proves AVX2, and the 16 bytes written lie in `to`; the store has no alignment.
        unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), narrow) }
    }

    #[inline(always)]
    fn store_two_bf16([even, odd]: [Self; 2], to: &mut [bf16], _: bool) {
        assert!(to.len() >= 2 * Self::LANES);
        let pairs = intrinsics!(_mm256_blend_epi16::<0b1010_1010>(
            _mm256_srli_epi32::<16>(even.rounded()),
            odd.rounded(),
        ));
        // SAFETY: `even` proves AVX2, and the 32 bytes written lie in `to`; the store has no alignment.
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), pairs) }
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        intrinsics!(Self(_mm256_add_ps(self.0, other.0)))
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        intrinsics!(Self(_mm256_sub_ps(self.0, other.0)))
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        intrinsics!(Self(_mm256_mul_ps(self.0, other.0)))
    }

    #[inline(always)]
    fn div(self, other: Self) -> Self {
        intrinsics!(Self(_mm256_div_ps(self.0, other.0)))
    }

    #[inline(always)]
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        intrinsics!(Self(_mm256_fmadd_ps(self.0, factor.0, addend.0)))
    }

    #[inline(always)]
    fn max(self, other: Self) -> Self {
        intrinsics!(Self(_mm256_max_ps(self.0, other.0)))
    }

    #[inline(always)]
    fn min(self, other: Self) -> Self {
        intrinsics!(Self(_mm256_min_ps(self.0, other.0)))
    }

    #[inline(always)]
    fn abs(self) -> Self {
        intrinsics!(Self(_mm256_andnot_ps(_mm256_set1_ps(-0.0), self.0)))
    }

    #[inline(always)]
    fn neg(self) -> Self {
        intrinsics!(Self(_mm256_xor_ps(_mm256_set1_ps(-0.0), self.0)))
    }

    #[inline(always)]
    fn copy_sign(self, sign: Self) -> Self {
        intrinsics!(Self(_mm256_or_ps(
            _mm256_andnot_ps(_mm256_set1_ps(-0.0), self.0),
            _mm256_and_ps(_mm256_set1_ps(-0.0), sign.0),
        )))
    }

    #[inline(always)]
    fn less_than(self, other: Self) -> __m256 {
        intrinsics!(_mm256_cmp_ps::<_CMP_LT_OQ>(self.0, other.0))
    }

    #[inline(always)]
    fn unordered(self, other: Self) -> __m256 {
        intrinsics!(_mm256_cmp_ps::<_CMP_UNORD_Q>(self.0, other.0))
    }

    #[inline(always)]
    fn select(mask: __m256, if_true: Self, if_false: Self) -> Self {
        intrinsics!(Self(_mm256_blendv_ps(if_false.0, if_true.0, mask)))
    }

    #[inline(always)]
    fn either(a: __m256, b: __m256) -> __m256 {
        intrinsics!(_mm256_or_ps(a, b))
    }

    #[inline(always)]
    fn any(mask: __m256) -> bool {
        intrinsics!(_mm256_movemask_ps(mask) != 0)
    }

    #[inline(always)]
    fn times_power_of_two(self, n: Self) -> Self {
        // Two factors, because 2^n itself may be out of range where the product is not; the first is exact.
        intrinsics!({
            let n = _mm256_cvtps_epi32(n.0);
            let half = _mm256_srai_epi32::<1>(n);
            let bias = _mm256_set1_epi32(127);
            let first = _mm256_slli_epi32::<23>(_mm256_add_epi32(half, bias));
            let rest = _mm256_sub_epi32(n, half);
            let second = _mm256_slli_epi32::<23>(_mm256_add_epi32(rest, bias));
            let scaled = _mm256_mul_ps(self.0, _mm256_castsi256_ps(first));
            Self(_mm256_mul_ps(scaled, _mm256_castsi256_ps(second)))
        })
    }

    #[inline(always)]
    fn split_exp2(self, isa: Avx2, factor: Self) -> (Self, Self) {
        const POWERS: [u32; 1 << FRACTION_BITS] = fractional_powers();
        let (remainder, rounded) = split_nearest(isa, self, factor, FRACTION_BITS);
        // SAFETY: `self` proves AVX2, and the table has the eight words of a register.
        let powers = unsafe { _mm256_loadu_si256(POWERS.as_ptr().cast()) };
        let power = intrinsics!({
            let bits = _mm256_castps_si256(rounded.0);
            // Which of the words is in the lowest bits.
            let fraction = _mm256_permutevar8x32_epi32(powers, bits);
            let moved = _mm256_slli_epi32::<{ to_exponent(FRACTION_BITS) as i32 }>(bits);
            Self(_mm256_castsi256_ps(_mm256_add_epi32(moved, fraction)))
        });
        (remainder, power)
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
        intrinsics!({
            let bits = _mm256_castps_si256(self.0);
            let above = _mm256_sub_epi32(bits, _mm256_set1_epi32(SQRT_HALF_BITS as i32));
            let exponent = _mm256_srai_epi32::<23>(above);
            let mantissa = _mm256_sub_epi32(bits, _mm256_slli_epi32::<23>(exponent));
            (
                Self(_mm256_castsi256_ps(mantissa)),
                Self(_mm256_cvtepi32_ps(exponent)),
            )
        })
    }

    #[inline(always)]
    fn sum(self) -> f32 {
        intrinsics!({
            let quarter = _mm_add_ps(
                _mm256_castps256_ps128(self.0),
                _mm256_extractf128_ps::<1>(self.0),
            );
            let pair = _mm_add_ps(quarter, _mm_movehl_ps(quarter, quarter));
            _mm_cvtss_f32(_mm_add_ss(pair, _mm_movehdup_ps(pair)))
        })
    }

    #[inline(always)]
    fn largest(self) -> f32 {
        intrinsics!({
            let quarter = _mm_max_ps(
                _mm256_castps256_ps128(self.0),
                _mm256_extractf128_ps::<1>(self.0),
            );
            let pair = _mm_max_ps(quarter, _mm_movehl_ps(quarter, quarter));
            _mm_cvtss_f32(_mm_max_ss(pair, _mm_movehdup_ps(pair)))
        })
    }

    #[inline(always)]
    fn transpose(isa: Avx2, rows: &[[u32; 8]; 8], to: &mut [u32], stride: usize) {
        transpose(isa, rows, to, stride);
    }
}

/// [`Vector::transpose`]. Row `i` and row `i + 4` are loaded as the two halves of one register, so that what is left
/// is two 4 x 4 transposes side by side, which stay within halves.
#[inline(always)]
pub(super) fn transpose(isa: Avx2, rows: &[[u32; 8]; 8], to: &mut [u32], stride: usize) {
    for first in [0, 4] {
        let mut halves = [F32x8::splat(isa, 0.0).0; 4];
        for (i, halves) in halves.iter_mut().enumerate() {
            // SAFETY: the token proves AVX2; each load reads the four words of a row from `first`, which is 0 or 4.
            *halves = unsafe {
                let low = _mm_loadu_ps(rows[i].as_ptr().add(first).cast());
                let high = _mm_loadu_ps(rows[i + 4].as_ptr().add(first).cast());
                _mm256_insertf128_ps::<1>(_mm256_castps128_ps256(low), high)
            };
        }
        let [r0, r1, r2, r3] = halves;
        let columns = intrinsics!({
            let r01_low = _mm256_castps_pd(_mm256_unpacklo_ps(r0, r1));
            let r01_high = _mm256_castps_pd(_mm256_unpackhi_ps(r0, r1));
            let r23_low = _mm256_castps_pd(_mm256_unpacklo_ps(r2, r3));
            let r23_high = _mm256_castps_pd(_mm256_unpackhi_ps(r2, r3));
            [
                _mm256_unpacklo_pd(r01_low, r23_low),
                _mm256_unpackhi_pd(r01_low, r23_low),
                _mm256_unpacklo_pd(r01_high, r23_high),
                _mm256_unpackhi_pd(r01_high, r23_high),
            ]
        });
        for (i, column) in columns.into_iter().enumerate() {
            let to = &mut to[(first + i) * stride..][..8];
            // SAFETY: the token proves AVX2, and the eight words written lie in `to`; the store has no alignment.
            unsafe { _mm256_storeu_pd(to.as_mut_ptr().cast(), column) }
        }
    }
}
