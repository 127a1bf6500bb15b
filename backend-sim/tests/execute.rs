//! The kernels of the linear cross-entropy, by way of their text, against the f64 reference.

use half::bf16;
use tilecast_core::DType;
use tilecast_core::kernels::linear_ce::{
    Blocks, LinearCe, Options as Ce, Reduction, Schedule, Strategy, reference,
};
use tilecast_sim::execute::{Array, ExecuteError, Options, Text, program};

/// Numbers in `[-1, 1)`, the same every time (SplitMix64, Steele, Lea and Flood 2014).
fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    (0..count)
        .map(|_| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((z ^ (z >> 31)) >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
        })
        .collect()
}

fn real(dtype: DType, values: &[f32], dims: &[usize]) -> Array {
    let array = match dtype {
        DType::Bf16 => {
            let values: Vec<bf16> = values.iter().map(|&x| bf16::from_f32(x)).collect();
            Array::new(values, dims)
        }
        _ => Array::new(values.to_vec(), dims),
    };
    array.unwrap()
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&x| x.into()).collect()
}

struct Problem {
    ce: LinearCe,
    schedule: Schedule,
    arrays: Vec<(&'static str, Array)>,
    reference: reference::Inputs,
    d_loss: Vec<f32>,
    d_lse: Vec<f32>,
}

impl Problem {
    fn new([b, h, v]: [usize; 3], dtype: DType, ce: Ce, strategy: Strategy) -> Self {
        let scale = 6.0 / (h as f32).sqrt();
        let w: Vec<f32> = numbers(h * v, 2).iter().map(|w| w * scale).collect();
        let (x, w) = (
            real(dtype, &numbers(b * h, 1), &[b, h]),
            real(dtype, &w, &[h, v]),
        );
        let labels: Vec<i32> = (0..b)
            .map(|i| match ce.ignore_index {
                Some(index) if i % 5 == 0 => index,
                _ => (i * 37 % v) as i32,
            })
            .collect();
        let bias = if ce.bias { numbers(v, 3) } else { Vec::new() };
        let weight: Vec<f32> = match ce.weight {
            true => numbers(b, 4).iter().map(|w| w + 1.0).collect(),
            false => Vec::new(),
        };
        let losses = if ce.reduction == Reduction::None {
            b
        } else {
            1
        };
        let (d_loss, d_lse) = (numbers(losses, 5), numbers(b, 6));
        let reference = reference::Inputs {
            x: wide(&x.to_f32()),
            w: wide(&w.to_f32()),
            bias: wide(&bias),
            labels: labels.clone(),
            weight: wide(&weight),
        };
        let vector = |values: &[f32]| real(DType::F32, values, &[values.len()]);
        let arrays = vec![
            ("x", x),
            ("w", w),
            ("bias", vector(&bias)),
            ("labels", Array::new(labels, &[b]).unwrap()),
            ("weight", vector(&weight)),
            ("d_loss", vector(&d_loss)),
            ("d_lse", vector(&d_lse)),
        ];
        let blocks = Blocks {
            b: 128,
            h: 128,
            v: 128,
        };
        Self {
            ce: LinearCe::new(b, h, v, dtype, ce).unwrap(),
            schedule: Schedule {
                chunk_columns: 256,
                cores: 2,
                ..Schedule::plain(blocks, strategy)
            },
            arrays,
            reference,
            d_loss,
            d_lse,
        }
    }

    fn run(&self, options: &Options) -> Result<Vec<(&'static str, Array)>, ExecuteError> {
        let mut arrays = self.arrays.clone();
        let run = |arrays: &[(&'static str, Array)], kernels| {
            let inputs: Vec<_> = arrays.iter().map(|(name, array)| (*name, array)).collect();
            program(&kernels, &inputs, options)
        };
        let mut outputs = run(&arrays, self.ce.forward(&self.schedule).unwrap())?;
        arrays.extend(outputs.iter().filter(|output| output.0 == "lse").cloned());
        outputs.extend(run(&arrays, self.ce.backward(&self.schedule).unwrap())?);
        Ok(outputs)
    }

    /// Every output within a unit of the largest element of its array: one unit for what is not
    /// multiplied with delta, one for `dx` and `dw`.
    fn check(&self, outputs: &[(&'static str, Array)], unit: f64, product_unit: f64) {
        let forward = reference::forward(&self.ce, &self.reference);
        let (d_loss, d_lse) = (wide(&self.d_loss), wide(&self.d_lse));
        let backward = reference::backward(&self.ce, &self.reference, &d_loss, &d_lse);
        let mut compared = 0;
        for (name, expected, unit) in [
            ("loss", &forward.loss, unit),
            ("lse", &forward.lse, unit),
            ("dx", &backward.dx, product_unit),
            ("dw", &backward.dw, product_unit),
            ("dbias", &backward.dbias, unit),
        ] {
            let Some((_, got)) = outputs.iter().find(|output| output.0 == name) else {
                continue;
            };
            compared += 1;
            let largest = expected.iter().fold(0.0_f64, |a, b| a.max(b.abs()));
            assert_eq!(got.to_f32().len(), expected.len());
            for (i, (got, &expected)) in got.to_f32().into_iter().zip(expected).enumerate() {
                let error = (f64::from(got) - expected).abs();
                assert!(
                    error <= unit * largest,
                    "{name}[{i}] is {got}, not {expected}: off by {:.1e} of {largest}",
                    error / largest
                );
            }
        }
        assert_eq!(compared, if self.ce.options().bias { 5 } else { 4 });
    }
}

fn everything() -> Ce {
    Ce {
        soft_cap: Some(6.0),
        z_loss: 1e-2,
        label_smoothing: 0.1,
        ignore_index: Some(-100),
        bias: true,
        weight: true,
        ..Ce::default()
    }
}

const WHOLE: [usize; 3] = [256, 128, 384];
const RAGGED: [usize; 3] = [200, 150, 301];

#[test]
fn f32_in_whole_blocks() {
    for strategy in Strategy::ALL {
        let problem = Problem::new(WHOLE, DType::F32, Ce::default(), strategy);
        problem.check(&problem.run(&Options::default()).unwrap(), 4e-6, 4e-6);
    }
}

#[test]
fn f32_in_ragged_blocks_with_every_option() {
    for strategy in Strategy::ALL {
        for reduction in [Reduction::None, Reduction::Mean] {
            let options = Ce {
                reduction,
                ..everything()
            };
            let problem = Problem::new(RAGGED, DType::F32, options, strategy);
            problem.check(&problem.run(&Options::default()).unwrap(), 1e-5, 1e-5);
        }
    }
}

/// Delta is f32, and rounded to bf16 where it meets `x` and `w` in the matrix unit.
#[test]
fn bf16_with_gradients_in_f32() {
    for strategy in Strategy::ALL {
        let options = Ce {
            grad_dtype: Some(DType::F32),
            delta_dtype: Some(DType::F32),
            ..everything()
        };
        for shape in [WHOLE, RAGGED] {
            let problem = Problem::new(shape, DType::Bf16, options, strategy);
            problem.check(
                &problem.run(&Options::default()).unwrap(),
                1e-5,
                1.0 / 256.0,
            );
        }
    }
}

/// Delta is rounded, and so are the gradients.
#[test]
fn bf16_throughout() {
    for strategy in Strategy::ALL {
        let problem = Problem::new(RAGGED, DType::Bf16, Ce::default(), strategy);
        problem.check(
            &problem.run(&Options::default()).unwrap(),
            1e-5,
            1.0 / 128.0,
        );
    }
}

#[test]
fn neither_the_form_of_the_text_nor_the_order_changes_a_bit() {
    for strategy in Strategy::ALL {
        let problem = Problem::new(RAGGED, DType::F32, everything(), strategy);
        let plain = problem.run(&Options::default()).unwrap();
        let pretty = Options {
            text: Text::Pretty,
            ..Options::default()
        };
        let shuffled = [1, 2].map(|seed| Options {
            parallel_order: Some(seed),
            ..Options::default()
        });
        for options in shuffled.into_iter().chain([pretty]) {
            assert_eq!(problem.run(&options).unwrap(), plain);
        }
    }
}

#[test]
fn inputs_that_are_missing_or_of_another_shape() {
    let problem = Problem::new(WHOLE, DType::F32, Ce::default(), Strategy::Combined);
    let forward = problem.ce.forward(&problem.schedule).unwrap();
    let error = program(&forward, &[], &Options::default()).unwrap_err();
    assert_eq!(error.to_string(), "linear_ce forward: input x is missing");
    let wrong = real(DType::F32, &[0.0; 4], &[2, 2]);
    let error = program(&forward, &[("x", &wrong)], &Options::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "linear_ce forward: x is f32[2, 2], it must be f32[256, 128]"
    );
}

/// Blocks that a TPU cannot take are refused by name, not run.
#[test]
fn blocks_without_a_lowering() {
    let mut problem = Problem::new(WHOLE, DType::F32, Ce::default(), Strategy::Combined);
    problem.schedule.forward.b = 64;
    problem.schedule.rows_per_sub_tile = 64;
    let error = problem.run(&Options::default()).unwrap_err();
    assert!(matches!(error, ExecuteError::Lower(_)), "{error}");
}
