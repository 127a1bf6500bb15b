//! AVX-512: sixteen lanes, thirty-two registers, and products of `bf16` pairs where the machine has AVX512-BF16.

use std::arch::x86_64::*;

use half::bf16;

use super::avx2::{self, Avx2};
use super::memory::Line;
use super::microkernel::{self, Fused, Product, Strip};
use super::vector::{
    HIGH_HALF, Kernel, LEAST_NORMAL_EXPONENT, QUIET, Remainder, SQRT_HALF_BITS, Vector,
};

/// Rows of a tile of the matrix product: 8 x 3 accumulators, three vectors of columns and the broadcast rows fill 28 of
/// the 32 registers. Eight divides the usual numbers of rows, so no row of a tile is wasted.
pub(super) const ROWS: usize = 8;
/// Vectors of columns of a tile of the matrix product.
pub(super) const VECTORS: usize = 3;

/// Proof that the machine has AVX-512 F, BW, DQ and VL, and also AVX2 and FMA; with `BF16` also AVX512-BF16.
#[derive(Clone, Copy)]
pub(super) struct Avx512<const BF16: bool>(Avx2);

impl Avx512<false> {
    /// Safe to call only from code compiled for these instruction sets, which is the proof.
    #[inline]
    #[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]
    fn new() -> Self {
        Self(Avx2::new())
    }
}

impl Avx512<true> {
    /// Safe to call only from code compiled for these instruction sets, which is the proof.
    #[inline]
    #[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
    fn new() -> Self {
        Self(Avx2::new())
    }
}

/// Runs `kernel` compiled for AVX-512.
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn run<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<F32x16<false>>(Avx512::<false>::new())
}

/// Runs `kernel` compiled for AVX-512 with AVX512-BF16.
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
pub(super) fn run_bf16<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<F32x16<true>>(Avx512::<true>::new())
}

/// Multiplies one strip of `f32` compiled for AVX-512.
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn multiply(strip: Strip<'_>) {
    microkernel::multiply::<F32x16<false>, _, ROWS, VECTORS>(Avx512::<false>::new(), Fused, strip);
}

/// The register-only loop of [`microkernel::peak`] compiled for AVX-512.
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn peak(iterations: u64) {
    microkernel::peak::<F32x16<false>, _, ROWS, VECTORS>(Avx512::<false>::new(), Fused, iterations);
}

/// Multiplies one strip of `bf16` pairs compiled for AVX-512 with AVX512-BF16.
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
pub(super) fn multiply_bf16(strip: Strip<'_>) {
    microkernel::multiply::<F32x16<true>, _, ROWS, VECTORS>(Avx512::<true>::new(), Pairs, strip);
}

/// The register-only loop of [`microkernel::peak`] for `bf16` pairs.
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
pub(super) fn peak_bf16(iterations: u64) {
    microkernel::peak::<F32x16<true>, _, ROWS, VECTORS>(Avx512::<true>::new(), Pairs, iterations);
}

/// The product of lanes that each hold two `bf16`: `low * low + high * high`, accumulated in `f32` by `vdpbf16ps`.
#[derive(Clone, Copy)]
struct Pairs;

impl Product<F32x16<true>> for Pairs {
    #[inline(always)]
    fn accumulate(self, sum: F32x16<true>, a: F32x16<true>, b: F32x16<true>) -> F32x16<true> {
        // SAFETY: such a vector proves AVX512-BF16. All three types are 64 bytes in which any bits are valid.
        unsafe {
            let a: __m512bh = std::mem::transmute(a.0);
            let b: __m512bh = std::mem::transmute(b.0);
            F32x16(_mm512_dpbf16_ps(sum.0, a, b))
        }
    }
}

/// Where the `bf16` of even and odd places, one after the other, belong.
const PAIRED: [u16; 32] = {
    let mut places = [0; 32];
    let mut i = 0;
    while i < 32 {
        places[i] = (i / 2 + i % 2 * 16) as u16;
        i += 1;
    }
    places
};

#[derive(Clone, Copy)]
pub(super) struct F32x16<const BF16: bool>(__m512);

/// An expression of intrinsics that take and return values only: no pointers, so the instruction set is all they ask.
macro_rules! intrinsics {
    ($value:expr) => {
        // SAFETY: the intrinsics need AVX-512, and the caller holds an `Avx512` token or a vector made with one.
        unsafe { $value }
    };
}

impl<const BF16: bool> F32x16<BF16> {
    /// Whether a lane has a magnitude below 2^-126, other than 0.
    #[inline(always)]
    fn has_denormal(self) -> bool {
        const DENORMAL: i32 = 0x20;
        intrinsics!(_mm512_fpclass_ps_mask::<DENORMAL>(self.0)) != 0
    }

    /// Where two to the power of this is not taken for 0: what becomes of a smaller one, below 2^-126, would take an
    /// Intel core a hundred cycles. NaN is no small one.
    #[inline(always)]
    fn has_power(self) -> __mmask16 {
        intrinsics!({
            let least = _mm512_set1_ps(LEAST_NORMAL_EXPONENT);
            _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(self.0, least)
        })
    }

    /// The lanes rounded to `bf16` in the high half of each, to nearest even, as all levels round: `vcvtneps2bf16`
    /// would make denormals 0.
    #[inline(always)]
    fn rounded(self) -> __m512i {
        intrinsics!({
            let bits = _mm512_castps_si512(self.0);
            let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
            let bias = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
            let rounded = _mm512_add_epi32(bits, bias);
            let quiet = _mm512_or_si512(bits, _mm512_set1_epi32(QUIET));
            _mm512_mask_mov_epi32(rounded, self.unordered(self), quiet)
        })
    }
}

impl<const BF16: bool> Vector for F32x16<BF16> {
    type Isa = Avx512<BF16>;
    type Mask = __mmask16;
    const LANES: usize = 16;
    const IS_FUSED: bool = true;
    const REMAINDER: Remainder = Remainder::OfFloor;
    const TAKES_ANY_EXPONENT: bool = true;

    #[inline(always)]
    fn splat(_: Avx512<BF16>, value: f32) -> Self {
        intrinsics!(Self(_mm512_set1_ps(value)))
    }

    #[inline(always)]
    fn load(_: Avx512<BF16>, from: &[f32]) -> Self {
        assert!(from.len() >= Self::LANES);
        // SAFETY: the token proves AVX-512, and the sixteen values read lie in `from`; the load has no alignment.
        Self(unsafe { _mm512_loadu_ps(from.as_ptr()) })
    }

    #[inline(always)]
    fn load_bf16(_: Avx512<BF16>, from: &[bf16]) -> Self {
        assert!(from.len() >= Self::LANES);
        // SAFETY: the token proves AVX2, and the 32 bytes read lie in `from`; the load has no alignment.
        let narrow = unsafe { _mm256_loadu_si256(from.as_ptr().cast()) };
        intrinsics!(Self(_mm512_castsi512_ps(_mm512_slli_epi32::<16>(
            _mm512_cvtepu16_epi32(narrow)
        ))))
    }

    /// Those of even places, and those of odd ones: both sit in the same words.
    #[inline(always)]
    fn load_two_bf16(_: Avx512<BF16>, from: &[bf16]) -> [Self; 2] {
        assert!(from.len() >= 2 * Self::LANES);
        // SAFETY: the token proves AVX-512, and the 64 bytes read lie in `from`; the load has no alignment.
        let pairs = unsafe { _mm512_loadu_si512(from.as_ptr().cast()) };
        intrinsics!({
            let even = _mm512_slli_epi32::<16>(pairs);
            let odd = _mm512_and_si512(pairs, _mm512_set1_epi32(HIGH_HALF));
            [
                Self(_mm512_castsi512_ps(even)),
                Self(_mm512_castsi512_ps(odd)),
            ]
        })
    }

    #[inline(always)]
    fn store(self, to: &mut [f32]) {
        assert!(to.len() >= Self::LANES);
        // SAFETY: `self` proves AVX-512, and the sixteen values written lie in `to`; the store has no alignment.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), self.0) }
    }

    #[inline(always)]
    fn store_bf16(self, to: &mut [bf16], denormals: bool) {
        assert!(to.len() >= Self::LANES);
        let narrow = match BF16 && !(denormals && self.has_denormal()) {
            // SAFETY: such a vector proves AVX512-BF16. Both types are 32 bytes in which any bits are valid.
            true => unsafe { std::mem::transmute::<__m256bh, __m256i>(_mm512_cvtneps_pbh(self.0)) },
            false => intrinsics!(_mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(
                self.rounded()
            ))),
        };
        // SAFETY: `self` proves AVX-512, and the 32 bytes written lie in `to`; the store has no alignment.
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), narrow) }
    }

    #[inline(always)]
    fn store_two_bf16([even, odd]: [Self; 2], to: &mut [bf16], denormals: bool) {
        assert!(to.len() >= 2 * Self::LANES);
        let kept = denormals && (even.has_denormal() | odd.has_denormal());
        let pairs = match BF16 && !kept {
            true => {
                // SAFETY: such a vector proves AVX512-BF16. Both types are 64 bytes in which any bits are valid.
                let apart: __m512i =
                    unsafe { std::mem::transmute(_mm512_cvtne2ps_pbh(odd.0, even.0)) };
                // SAFETY: `even` proves AVX-512, and the table has 32 words.
                unsafe {
                    _mm512_permutexvar_epi16(_mm512_loadu_si512(PAIRED.as_ptr().cast()), apart)
                }
            }
            false => intrinsics!(_mm512_mask_blend_epi16(
                0xaaaa_aaaa,
                _mm512_srli_epi32::<16>(even.rounded()),
                odd.rounded(),
            )),
        };
        // SAFETY: `even` proves AVX-512, and the 64 bytes written lie in `to`; the store has no alignment.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), pairs) }
    }

    /// In one store: four small ones kept a map from memory to memory at nine tenths of its speed.
    #[inline(always)]
    fn stream(_: Avx512<BF16>, line: &Line, to: &mut Line) {
        let (line, to): (*const Line, *mut Line) = (line, to);
        // SAFETY: the token proves AVX-512; a line has the 64 bytes read and written, and their alignment.
        unsafe { _mm512_stream_si512(to.cast(), _mm512_load_si512(line.cast())) }
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        intrinsics!(Self(_mm512_add_ps(self.0, other.0)))
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        intrinsics!(Self(_mm512_sub_ps(self.0, other.0)))
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        intrinsics!(Self(_mm512_mul_ps(self.0, other.0)))
    }

    #[inline(always)]
    fn div(self, other: Self) -> Self {
        intrinsics!(Self(_mm512_div_ps(self.0, other.0)))
    }

    #[inline(always)]
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        intrinsics!(Self(_mm512_fmadd_ps(self.0, factor.0, addend.0)))
    }

    #[inline(always)]
    fn max(self, other: Self) -> Self {
        intrinsics!(Self(_mm512_max_ps(self.0, other.0)))
    }

    #[inline(always)]
    fn min(self, other: Self) -> Self {
        intrinsics!(Self(_mm512_min_ps(self.0, other.0)))
    }

    #[inline(always)]
    fn abs(self) -> Self {
        intrinsics!(Self(_mm512_abs_ps(self.0)))
    }

    #[inline(always)]
    fn neg(self) -> Self {
        intrinsics!(Self(_mm512_xor_ps(self.0, _mm512_set1_ps(-0.0))))
    }

    #[inline(always)]
    fn copy_sign(self, sign: Self) -> Self {
        intrinsics!(Self(_mm512_or_ps(
            _mm512_andnot_ps(_mm512_set1_ps(-0.0), self.0),
            _mm512_and_ps(_mm512_set1_ps(-0.0), sign.0),
        )))
    }

    #[inline(always)]
    fn less_than(self, other: Self) -> __mmask16 {
        intrinsics!(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(self.0, other.0))
    }

    #[inline(always)]
    fn unordered(self, other: Self) -> __mmask16 {
        intrinsics!(_mm512_cmp_ps_mask::<_CMP_UNORD_Q>(self.0, other.0))
    }

    #[inline(always)]
    fn select(mask: __mmask16, if_true: Self, if_false: Self) -> Self {
        intrinsics!(Self(_mm512_mask_blend_ps(mask, if_false.0, if_true.0)))
    }

    #[inline(always)]
    fn either(a: __mmask16, b: __mmask16) -> __mmask16 {
        a | b
    }

    #[inline(always)]
    fn any(mask: __mmask16) -> bool {
        mask != 0
    }

    #[inline(always)]
    fn times_power_of_two(self, n: Self) -> Self {
        intrinsics!(Self(_mm512_scalef_ps(self.0, n.0)))
    }

    #[inline(always)]
    fn split_exp2(self, _: Avx512<BF16>, factor: Self) -> (Self, Self) {
        /// What is left of a number rounded down to no digits after the point.
        const OF_FLOOR: i32 = _MM_FROUND_TO_NEG_INF;
        let exponent = self.mul(factor);
        let remainder = intrinsics!(Self(_mm512_reduce_ps::<OF_FLOOR>(exponent.0)));
        (remainder, exponent)
    }

    #[inline(always)]
    fn times_power(self, rest: Self) -> Self {
        // The instruction rounds the exponent down itself.
        intrinsics!(Self(_mm512_maskz_scalef_ps(
            rest.has_power(),
            self.0,
            rest.0
        )))
    }

    #[inline(always)]
    fn power_mul_add(self, rest: Self, factor: Self, addend: Self) -> Self {
        intrinsics!(Self(_mm512_mask3_fmadd_ps(
            self.0,
            factor.0,
            addend.0,
            rest.has_power()
        )))
    }

    #[inline(always)]
    fn times_power_add(self, rest: Self, addend: Self) -> Self {
        self.times_power(rest).add(addend)
    }

    #[inline(always)]
    fn split_exponent(self) -> (Self, Self) {
        intrinsics!({
            let bits = _mm512_castps_si512(self.0);
            let above = _mm512_sub_epi32(bits, _mm512_set1_epi32(SQRT_HALF_BITS as i32));
            let exponent = _mm512_srai_epi32::<23>(above);
            let mantissa = _mm512_sub_epi32(bits, _mm512_slli_epi32::<23>(exponent));
            (
                Self(_mm512_castsi512_ps(mantissa)),
                Self(_mm512_cvtepi32_ps(exponent)),
            )
        })
    }

    #[inline(always)]
    fn sum(self) -> f32 {
        intrinsics!(_mm512_reduce_add_ps(self.0))
    }

    #[inline(always)]
    fn largest(self) -> f32 {
        intrinsics!(_mm512_reduce_max_ps(self.0))
    }

    #[inline(always)]
    fn transpose(isa: Avx512<BF16>, rows: &[[u32; 8]; 8], to: &mut [u32], stride: usize) {
        avx2::transpose(isa.0, rows, to, stride);
    }
}
