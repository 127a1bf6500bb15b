//! Exponential, logarithm and hyperbolic tangent, written once over [`Vector`].
//!
//! All three have the same shape: an exact reduction to a short interval around a point where the function is
//! simple, a polynomial there, and an exact reconstruction. The polynomials minimise the largest relative error over
//! the interval (iteratively reweighted least squares in 40 digits, coefficients rounded to `f32` one by one from the
//! lowest, each time refitting the rest). What a fit adds to the error is stated in units of 2^-24, half a unit in the
//! last place of 1. The ignored test below measures all of it over every `f32`.

use super::vector::{LEAST_NORMAL_EXPONENT, ROUND_TO_INTEGER, Remainder, Vector};

/// The high bits of ln 2: `n * LN_2_HIGH` is exact for every exponent `n` even where it is not fused.
const LN_2_HIGH: f32 = 0.693_359_4;
/// ln 2 - [`LN_2_HIGH`].
const LN_2_LOW: f32 = -2.121_944_4e-4;

/// `e^x` to one unit in the last place, with gradual underflow.
///
/// `x = n ln 2 + r` with integral `n` and `|r| <= ln 2 / 2`, so `e^x = 2^n e^r`.
#[inline(always)]
pub(super) fn exp<V: Vector>(isa: V::Isa, x: V) -> V {
    let c = |value| V::splat(isa, value);
    // Beyond these bounds the result is 0 or infinity; within them 2^n is in reach of `times_power_of_two`. `x` is
    // the second operand so that NaN passes.
    let x = c(-105.0).max(c(90.0).min(x));
    let n = x
        .mul_add(c(std::f32::consts::LOG2_E), c(ROUND_TO_INTEGER))
        .sub(c(ROUND_TO_INTEGER));
    let r = n.mul_add(c(-LN_2_HIGH), x);
    let r = n.mul_add(c(-LN_2_LOW), r);
    // e^r = 1 + r + r² P(r); the fit adds 0.05.
    let p = c(1.382_069_2e-3)
        .mul_add(r, c(8.368_677e-3))
        .mul_add(r, c(4.166_826_6e-2))
        .mul_add(r, c(1.666_652_1e-1))
        .mul_add(r, c(4.999_999_4e-1));
    // The last roundings are the ones that count. Fused, Horner's scheme has the fewest; otherwise it would round
    // r (1 + r P) once more, and squaring keeps that rounding small.
    let p = if V::IS_FUSED {
        p.mul_add(r, c(1.0)).mul_add(r, c(1.0))
    } else {
        r.mul(r).mul_add(p, r).add(c(1.0))
    };
    p.times_power_of_two(n)
}

/// `2^(factor x)` to three units in the last place: a mantissa close to one, and what [`Vector::times_power`] takes.
///
/// Half the work of [`exp`], for loops over memory: what is below 2^-126 may become something else below it, and the
/// exponent has to be [`bounded`] unless the vector [takes any](Vector::TAKES_ANY_EXPONENT). A NaN passes in the
/// mantissa.
#[inline(always)]
pub(super) fn exp2<V: Vector>(isa: V::Isa, x: V, factor: V) -> (V, V) {
    let c = |value| V::splat(isa, value);
    let (r, rest) = x.split_exp2(isa, factor);
    let (highest, lower) = const { powers_of_remainder(V::REMAINDER) };
    let mut p = c(highest);
    for &coefficient in lower {
        p = p.mul_add(r, c(coefficient));
    }
    (p, rest)
}

/// The polynomial `2^r`: the coefficient of the highest power, and those below it. It is 1 at 0.
#[expect(
    clippy::approx_constant,
    reason = "coefficients of the fits, close to ln 2"
)]
const fn powers_of_remainder(remainder: Remainder) -> (f32, &'static [f32]) {
    match remainder {
        // The fit adds 1.4.
        Remainder::OfFloor => (
            1.866_952_6e-3,
            &[
                9.017_481e-3,
                5.579_951_4e-2,
                2.401_646e-1,
                6.931_513e-1,
                1.0,
            ],
        ),
        // 0.4
        Remainder::OfNearest { fraction_bits: 3 } => {
            (5.548_9e-2, &[2.402_575_2e-1, 6.931_472_4e-1, 1.0])
        }
        // 1.6
        Remainder::OfNearest { fraction_bits: 0 } => (
            1.326_953_5e-3,
            &[9.671_292e-3, 5.550_711e-2, 2.402_224_7e-1, 6.931_47e-1, 1.0],
        ),
        Remainder::OfNearest { .. } => panic!("no polynomial is fitted to that interval"),
    }
}

/// An exponent whose power of two is 0, and the largest such integer.
pub(super) const LEAST_EXPONENT: f32 = LEAST_NORMAL_EXPONENT - 1.0;

/// `exponent`, from the first with a power of 0 to the first with an infinite one. NaN passes.
#[inline(always)]
pub(super) fn bounded<V: Vector>(isa: V::Isa, exponent: V) -> V {
    let c = |value| V::splat(isa, value);
    // `exponent` is the second operand so that NaN passes.
    c(LEAST_EXPONENT).max(c(128.0).min(exponent))
}

/// `tanh x` to two units in the last place of the result, however small: odd, ±1 far out.
///
/// Near zero `x + x³ Q(x²)`; elsewhere `1 - 2 / (e^(2|x|) + 1)`, which has no cancellation there.
#[inline(always)]
pub(super) fn tanh<V: Vector>(isa: V::Isa, x: V) -> V {
    let c = |value| V::splat(isa, value);
    let magnitude = x.abs();
    let square = magnitude.mul(magnitude);
    // The fit adds 0.03.
    let q = c(1.741_748_4e-3)
        .mul_add(square, c(-7.665_804_6e-3))
        .mul_add(square, c(2.145_779_1e-2))
        .mul_add(square, c(-5.389_453_5e-2))
        .mul_add(square, c(1.333_272_e-1))
        .mul_add(square, c(-3.333_331_6e-1));
    let near = magnitude.mul(square).mul_add(q, magnitude);
    let far = exp(isa, magnitude.add(magnitude)).add(c(1.0));
    let far = c(1.0).sub(c(2.0).div(far));
    let is_near = magnitude.less_than(c(0.75));
    V::select(is_near, near, far).copy_sign(x)
}

/// `ln x` to two units in the last place; -∞ at zero, NaN below.
///
/// `x = 2^e (1 + f)` with `1 + f` in √½..√2, so `ln x = e ln 2 + ln(1 + f)`.
#[inline(always)]
pub(super) fn log<V: Vector>(isa: V::Isa, x: V) -> V {
    let c = |value| V::splat(isa, value);
    // Denormals have no exponent to split: move them up first.
    let is_denormal = x.less_than(c(f32::MIN_POSITIVE));
    let normal = V::select(is_denormal, x.mul(c(16_777_216.0)), x);
    let (mantissa, exponent) = normal.split_exponent();
    let e = V::select(is_denormal, exponent.add(c(-24.0)), exponent);
    let f = mantissa.sub(c(1.0));
    // ln(1 + f) = f - f²/2 + f³ R(f); the fit adds 0.1.
    let r = c(-7.635_209e-2)
        .mul_add(f, c(1.276_476_1e-1))
        .mul_add(f, c(-1.316_122_6e-1))
        .mul_add(f, c(1.420_13e-1))
        .mul_add(f, c(-1.662_321_4e-1))
        .mul_add(f, c(2.000_124_9e-1))
        .mul_add(f, c(-2.500_082_6e-1))
        .mul_add(f, c(3.333_333e-1));
    let square = f.mul(f);
    // Smallest terms first, the exact e * LN_2_HIGH last.
    let tail = e.mul_add(c(LN_2_LOW), f.mul(square).mul(r));
    let tail = square.mul_add(c(-0.5), tail);
    let finite = e.mul_add(c(LN_2_HIGH), f.add(tail));

    let zero = c(0.0);
    let infinity = c(f32::INFINITY);
    let positive = V::select(x.less_than(infinity), finite, infinity);
    let negative = V::select(x.less_than(zero), c(f32::NAN), infinity.neg());
    let ordered = V::select(zero.less_than(x), positive, negative);
    V::select(x.unordered(x), x, ordered)
}

#[cfg(test)]
mod tests;
