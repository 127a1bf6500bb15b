//! Accuracy against `f64`, in units in the last place of the `f32` result.

use super::{bounded, exp2};
use crate::simd::map::{Map, MapInPlace};
use crate::simd::vector::{Vector, fractional_powers, to_exponent};
use crate::simd::{Simd, Unary};

/// What to check one function against.
struct Case {
    op: Unary,
    exact: fn(f64) -> f64,
    bound_ulp: f64,
}

const CASES: [Case; 3] = [
    Case {
        op: Unary::Exp,
        exact: f64::exp,
        bound_ulp: 1.0,
    },
    Case {
        op: Unary::Log,
        exact: f64::ln,
        bound_ulp: 2.0,
    },
    Case {
        op: Unary::Tanh,
        exact: f64::tanh,
        bound_ulp: 2.0,
    },
];

/// The distance between neighbouring `f32` at `value`.
fn ulp_at(value: f64) -> f64 {
    let magnitude = (value.abs() as f32).max(f32::MIN_POSITIVE);
    let exponent = (magnitude.to_bits() >> 23) as i32 - 127;
    f64::from(exponent - 23).exp2()
}

/// How far `computed` is from `exact`, in units in the last place. Results that no finite `f32` is close to must be
/// exactly the infinity or NaN that is right.
fn error_ulp(computed: f32, exact: f64) -> f64 {
    let rounded = exact as f32;
    if computed.to_bits() == rounded.to_bits() || computed.is_nan() && exact.is_nan() {
        (if rounded.is_finite() {
            f64::from(rounded) - exact
        } else {
            0.0
        })
        .abs()
            / ulp_at(exact)
    } else if computed.is_finite() && rounded.is_finite() {
        (f64::from(computed) - exact).abs() / ulp_at(exact)
    } else {
        f64::INFINITY
    }
}

/// Checks the bit patterns 0, `step`, 2 `step` and so on, on every level.
fn check(step: usize) {
    for case in &CASES {
        let mut worst: Vec<_> = Simd::available().map(|simd| (simd, 0.0, 0.0)).collect();
        let mut bits = (0..=u32::MAX).step_by(step);
        loop {
            let x: Vec<f32> = bits.by_ref().take(4096).map(f32::from_bits).collect();
            if x.is_empty() {
                break;
            }
            let exact: Vec<f64> = x.iter().map(|&x| (case.exact)(f64::from(x))).collect();
            for (simd, largest, at) in &mut worst {
                let mut y = x.clone();
                simd.unary(case.op, &mut y);
                for ((&x, &y), &exact) in x.iter().zip(&y).zip(&exact) {
                    let error = error_ulp(y, exact);
                    if error > *largest {
                        (*largest, *at) = (error, x);
                    }
                }
            }
        }
        for (simd, error, x) in &worst {
            println!("{simd} {:?}: {error:.3} ulp at {x:e}", case.op);
        }
        for (simd, error, x) in worst {
            assert!(
                error <= case.bound_ulp,
                "{simd} {:?}: {error} ulp at {x:e}",
                case.op
            );
        }
    }
}

#[test]
fn samples_of_every_binade_are_within_the_bound() {
    // Prime, so that the low bits vary too.
    check(4093);
}

#[test]
#[ignore = "all 2^32 inputs of three functions take minutes"]
fn every_input_is_within_the_bound() {
    check(1);
}

#[test]
fn special_values() {
    let inf = f32::INFINITY;
    let nan = f32::NAN;
    let cases: [(Unary, &[(f32, f32)]); 3] = [
        (
            Unary::Exp,
            &[
                (inf, inf),
                (-inf, 0.0),
                (nan, nan),
                (0.0, 1.0),
                (-0.0, 1.0),
                (89.0, inf),
                (-104.0, 0.0),
                // Among the last inputs whose result is above zero.
                (-103.0, 1.0e-45),
                (f32::MAX, inf),
                (f32::MIN, 0.0),
            ],
        ),
        (
            Unary::Log,
            &[
                (inf, inf),
                (-inf, nan),
                (nan, nan),
                (0.0, -inf),
                (-0.0, -inf),
                (-1.0, nan),
                (-1.0e-45, nan),
                (1.0, 0.0),
                (1.0e-45, -103.278_93),
            ],
        ),
        (
            Unary::Tanh,
            &[
                (inf, 1.0),
                (-inf, -1.0),
                (nan, nan),
                (0.0, 0.0),
                (-0.0, -0.0),
                (20.0, 1.0),
                (-20.0, -1.0),
                (1.0e-45, 1.0e-45),
                (-1.0e-40, -1.0e-40),
            ],
        ),
    ];
    for simd in Simd::available() {
        for (op, pairs) in cases {
            for &(x, expected) in pairs {
                let mut y = [x];
                simd.unary(op, &mut y);
                let [y] = y;
                assert!(
                    y.to_bits() == expected.to_bits() || y.is_nan() && expected.is_nan(),
                    "{simd} {op:?}({x:e}) is {y:e}, not {expected:e}"
                );
            }
        }
    }
}

/// `2^(factor x)`, for any argument or, where the vector takes any exponent, without bounds.
#[derive(Clone, Copy)]
struct PowerOfTwo {
    factor: f32,
}

impl Map for PowerOfTwo {
    fn apply<V: Vector>(self, isa: V::Isa, x: V) -> V {
        let x = match V::TAKES_ANY_EXPONENT {
            true => x,
            false => bounded(isa, x),
        };
        let (mantissa, rest) = exp2(isa, x, V::splat(isa, self.factor));
        mantissa.times_power(rest)
    }
}

#[test]
fn powers_of_two_and_where_they_end() {
    for simd in Simd::available() {
        let inside: Vec<f32> = (-125_999..127_500).map(|i| i as f32 * 1e-3).collect();
        for factor in [1.0, 1.0 / 3.0_f32] {
            let mut powers = inside.clone();
            simd.run(MapInPlace(&mut powers, PowerOfTwo { factor }));
            for (x, power) in inside.iter().zip(powers) {
                let exponent = f64::from(*x) * f64::from(factor);
                let error = error_ulp(power, exponent.exp2());
                // The product may be rounded, which is half a unit in its last place.
                let bound = if factor == 1.0 {
                    3.0
                } else {
                    3.0 + exponent.abs()
                };
                assert!(error < bound, "{simd} {factor} {x}: {error} ulp");
            }
        }
        let mut ends = [
            -1.0e4,
            1.0e4,
            f32::NEG_INFINITY,
            f32::INFINITY,
            f32::NAN,
            0.0,
        ];
        simd.run(MapInPlace(&mut ends, PowerOfTwo { factor: 1.0 }));
        assert_eq!(ends[..4], [0.0, f32::INFINITY, 0.0, f32::INFINITY]);
        assert!(ends[4].is_nan());
        assert_eq!(ends[5], 1.0);
        // What underflows is tiny, if not right.
        let mut tiny: Vec<f32> = (-2_000..-1_261).map(|i| i as f32 * 0.1).collect();
        simd.run(MapInPlace(&mut tiny, PowerOfTwo { factor: 1.0 }));
        assert!(
            tiny.iter().all(|x| (0.0..=f32::MIN_POSITIVE).contains(x)),
            "{simd}"
        );
    }
}

#[test]
fn tables_hold_the_nearest_powers() {
    for (j, moved) in fractional_powers::<8>().into_iter().enumerate() {
        let power = f32::from_bits(moved + ((j as u32) << to_exponent(3)));
        assert_eq!(power, (j as f64 / 8.0).exp2() as f32, "{j}");
    }
}
