//! Slice operations against scalar `f64` or `f32`, on every level and at every remainder of a vector.

use approx::assert_relative_eq;
use half::bf16;
use proptest::prelude::*;

use super::{
    Binary, Destination, Level, Simd, SoftmaxDelta, Statistics, Strided, Unary, Values, ValuesMut,
};

/// Lengths around multiples of every vector and of the unrolled loops.
const LENGTHS: [usize; 14] = [0, 1, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 200];

/// Values in -4..4 without pattern.
fn values(length: usize, seed: u32) -> Vec<f32> {
    (0..length as u32)
        .map(|i| {
            (i.wrapping_mul(2_654_435_761)
                .wrapping_add(seed.wrapping_mul(40_503))
                >> 8) as f32
        })
        .map(|x| x / (1 << 24) as f32 * 8.0 - 4.0)
        .collect()
}

#[test]
fn rows_are_converted_and_what_lies_between_them_is_left() {
    const ROWS: usize = 3;
    const LEFT: f32 = 17.0;
    for (simd, columns) in Simd::available().flat_map(|simd| LENGTHS.map(|len| (simd, len))) {
        for destination in [Destination::Caches, Destination::Memory] {
            let [out_stride, x_stride] = [columns + 3, columns + 5];
            let x = values(ROWS * x_stride, 3);
            let mut out = vec![bf16::from_f32(LEFT); ROWS * out_stride];
            let to = Strided {
                values: ValuesMut::Bf16(&mut out),
                stride: out_stride,
            };
            let from = Strided {
                values: Values::F32(&x),
                stride: x_stride,
            };
            simd.convert(to, from, [ROWS, columns], destination);
            for (i, out) in out.iter().enumerate() {
                let [row, column] = [i / out_stride, i % out_stride];
                let expected = match column < columns {
                    true => x[row * x_stride + column],
                    false => LEFT,
                };
                assert_eq!(*out, bf16::from_f32(expected), "{simd}, {columns} columns");
            }
        }
    }
}

#[test]
fn detection_gives_the_last_available_level() {
    let levels: Vec<Level> = Simd::available().map(Simd::level).collect();
    assert_eq!(levels[0], Level::Portable);
    assert!(levels.is_sorted());
    assert_eq!(Simd::detect().level(), *levels.last().unwrap());
    for level in Level::ALL {
        assert_eq!(Simd::with_level(level).is_some(), levels.contains(&level));
    }
}

#[test]
fn reductions_match_f64() {
    for simd in Simd::available() {
        for length in LENGTHS {
            let x = values(length, 1);
            let largest = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            assert_eq!(simd.max(&x), largest, "{simd} {length}");
            let sum: f64 = x.iter().map(|&x| f64::from(x)).sum();
            // Each addition errs by at most half an ulp of a partial sum, itself at most Σ|x|.
            let tolerance = length as f64 * 4.0 * f64::from(f32::EPSILON) * length as f64;
            assert!(
                (f64::from(simd.sum(&x)) - sum).abs() <= tolerance,
                "{simd} {length}"
            );
        }
    }
}

#[test]
fn max_is_nan_wherever_the_nan_is() {
    for simd in Simd::available() {
        for length in LENGTHS {
            for at in 0..length {
                let mut x = values(length, 2);
                x[at] = f32::NAN;
                assert!(simd.max(&x).is_nan(), "{simd} {length} {at}");
            }
        }
        assert_eq!(simd.max(&[]), f32::NEG_INFINITY);
        assert_eq!(simd.max(&[f32::NEG_INFINITY; 20]), f32::NEG_INFINITY);
    }
}

#[test]
fn soft_cap_and_its_derivative() {
    let cap = 1.5;
    for simd in Simd::available() {
        for length in LENGTHS {
            let x = values(length, 4);
            let mut z = x.clone();
            simd.soft_cap(&mut z, cap);
            let mut d = values(length, 5);
            let before = d.clone();
            simd.soft_cap_derivative(&mut d, &z, cap);
            for i in 0..length {
                let exact = f64::from(cap) * (f64::from(x[i]) / f64::from(cap)).tanh();
                assert_relative_eq!(f64::from(z[i]), exact, max_relative = 5.0e-7);
                let slope = 1.0 - (f64::from(z[i]) / f64::from(cap)).powi(2);
                assert_relative_eq!(
                    f64::from(d[i]),
                    f64::from(before[i]) * slope,
                    epsilon = 2.0e-6
                );
            }
        }
    }
}

#[test]
fn exact_operations_equal_scalar_ones() {
    type Scalar = fn(f32, f32) -> f32;
    type ScalarUnary = fn(f32) -> f32;
    let binary: [(Binary, Scalar); 6] = [
        (Binary::Add, |a, b| a + b),
        (Binary::Sub, |a, b| a - b),
        (Binary::Mul, |a, b| a * b),
        (Binary::Div, |a, b| a / b),
        (Binary::Max, f32::max),
        (Binary::Min, f32::min),
    ];
    let unary: [(Unary, ScalarUnary); 3] = [
        (Unary::Neg, |x| -x),
        (Unary::Abs, f32::abs),
        (Unary::Reciprocal, |x| 1.0 / x),
    ];
    for simd in Simd::available() {
        for length in LENGTHS {
            let (x, y) = (values(length, 6), values(length, 7));
            for (op, scalar) in binary {
                let mut z = x.clone();
                simd.binary(op, &mut z, &y);
                let expected: Vec<f32> = x.iter().zip(&y).map(|(&x, &y)| scalar(x, y)).collect();
                assert_eq!(z, expected, "{simd} {op:?} {length}");
                let mut z = x.clone();
                simd.binary_scalar(op, &mut z, 0.3);
                let expected: Vec<f32> = x.iter().map(|&x| scalar(x, 0.3)).collect();
                assert_eq!(z, expected, "{simd} {op:?} {length} scalar");
            }
            for (op, scalar) in unary {
                let mut z = x.clone();
                simd.unary(op, &mut z);
                let expected: Vec<f32> = x.iter().map(|&x| scalar(x)).collect();
                assert_eq!(z, expected, "{simd} {op:?} {length}");
            }
        }
    }
}

#[test]
fn max_and_min_of_two_propagate_nan() {
    for simd in Simd::available() {
        for op in [Binary::Max, Binary::Min] {
            for (x, y) in [(f32::NAN, 1.0), (1.0, f32::NAN), (f32::NAN, f32::NAN)] {
                let mut z = [x; 17];
                simd.binary(op, &mut z, &[y; 17]);
                assert!(z.iter().all(|z| z.is_nan()), "{simd} {op:?}");
            }
        }
    }
}

#[test]
#[should_panic(expected = "equally long")]
fn slices_of_different_length_are_refused() {
    Simd::detect().binary(Binary::Add, &mut [0.0; 3], &[0.0; 4]);
}

proptest! {
    #[test]
    fn conversions_round_as_half_does(bits in proptest::collection::vec(any::<u32>(), 0..70)) {
        let x: Vec<f32> = bits.into_iter().map(f32::from_bits).collect();
        // Among them values around the ties, the denormals and the largest numbers.
        let x: Vec<f32> = x.iter().flat_map(|&x| {
            let high = x.to_bits() & 0xffff_0000;
            [x, f32::from_bits(high | 0x8000), f32::from_bits(high | 0x7fff), f32::from_bits(high & 0x807f_ffff)]
        }).collect();
        for simd in Simd::available() {
            let mut narrow = vec![bf16::ZERO; x.len()];
            simd.f32_to_bf16(&mut narrow, &x);
            for (&x, &y) in x.iter().zip(&narrow) {
                prop_assert_eq!(y.to_bits(), bf16::from_f32(x).to_bits(), "{} {:e}", simd, x);
            }
            let mut wide = vec![0.0; x.len()];
            simd.bf16_to_f32(&mut wide, &narrow);
            for (&y, &z) in narrow.iter().zip(&wide) {
                prop_assert_eq!(z.to_bits(), u32::from(y.to_bits()) << 16);
            }
        }
    }
}

#[test]
#[ignore = "a measurement: run alone, with --nocapture"]
fn elements_per_nanosecond() {
    // Two rows of 8 KiB: from L1.
    let z = values(2048, 8);
    let mut out = values(2048, 9);
    let mut narrow = vec![bf16::ZERO; 2048];
    let y = vec![1.0; 2048];
    for simd in Simd::available() {
        let report = |name: &str, f: &mut dyn FnMut()| {
            let mut best = f64::INFINITY;
            for _ in 0..200 {
                let start = std::time::Instant::now();
                for _ in 0..10 {
                    f();
                }
                best = best.min(start.elapsed().as_secs_f64() / 10.0);
            }
            println!(
                "{simd:11} {name:18} {:6.2} elements/ns",
                z.len() as f64 / best * 1.0e-9
            );
        };
        for moment in [false, true] {
            report(
                if moment { "with entropy" } else { "statistics" },
                &mut || {
                    let x = Strided::row(Values::F32(&z));
                    let mut found = [Statistics::NONE];
                    simd.softmax_statistics(&mut found, x, z.len(), 0.5, moment);
                    std::hint::black_box(found);
                },
            );
        }
        report("sum", &mut || {
            std::hint::black_box(simd.sum(&z));
        });
        report("max", &mut || {
            std::hint::black_box(simd.max(&z));
        });
        let delta = SoftmaxDelta {
            scale: 0.5,
            lse: 4.0,
            probability: 0.5,
            log_probability: 0.0,
            uniform: 0.1,
            one_hot: 0.0,
            label: None,
        };
        report("softmax_delta", &mut || {
            simd.softmax_delta(
                Strided::row(ValuesMut::F32(&mut out)),
                Strided::row(Values::F32(&z)),
                z.len(),
                &[delta],
                Destination::Caches,
            );
        });
        report("softmax_delta_bf16", &mut || {
            simd.softmax_delta(
                Strided::row(ValuesMut::Bf16(&mut narrow)),
                Strided::row(Values::F32(&z)),
                z.len(),
                &[delta],
                Destination::Caches,
            );
        });
        report("f32_to_bf16", &mut || simd.f32_to_bf16(&mut narrow, &z));
        report("bf16_to_f32", &mut || simd.bf16_to_f32(&mut out, &narrow));
        report("tanh", &mut || simd.unary(Unary::Tanh, &mut out));
        report("soft_cap", &mut || simd.soft_cap(&mut out, 30.0));
        report("abs, log", &mut || {
            simd.unary(Unary::Abs, &mut out);
            simd.unary(Unary::Log, &mut out);
        });
        report("mul", &mut || simd.binary(Binary::Mul, &mut out, &y));
    }
}
