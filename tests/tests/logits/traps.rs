//! What has gone wrong elsewhere, and wrong calls.

use tilecast::core::kernels::grpo::{self, Ratio, Variant};
use tilecast::core::kernels::logits_ce;
use tilecast::core::kernels::softmax::LogitsOptions;
use tilecast::{ArrayMut, Cpu, Matrix};
use tilecast_tests::OnCpu;
use tilecast_tests::logits::{
    Case, Column, Data, Expected, Op, ce_everything, check, policy_everything, warm,
};

use super::{at, on_cpu};

/// A token that does not count may hold anything: its row of the gradient is exactly 0, and nobody
/// else's changes.
#[test]
fn rows_that_do_not_count_cannot_leak() {
    for op in [
        Op::LogitsCe(ce_everything()),
        Op::Grpo(policy_everything(Variant::Grpo)),
        Op::Grpo(grpo::Options {
            ratio: Ratio::Sequence,
            ..policy_everything(Variant::Dapo)
        }),
    ] {
        let case = Case::new("poisoned", op);
        let mut data = case.data();
        let v = case.shape[1];
        let out = match op {
            Op::LogitsCe(_) => data.labels.iter().position(|&label| label == -100),
            _ => data.vector("mask").iter().position(|&mask| mask == 0.0),
        };
        let out = out.unwrap();
        for (name, values) in &mut data.vectors {
            if ["d_lse", "d_entropy"].contains(name) {
                values[out] = 0.0;
            }
        }
        if let Op::Grpo(_) = op {
            data.labels[out] = -100;
        }
        let gradient = |data: &Data, column: Column| -> Vec<f32> {
            let outputs = column.run(&case, data).unwrap();
            assert!(outputs.iter().all(|(name, values)| {
                !["loss", "logp", "ratio"].contains(name) || values.iter().all(|x| x.is_finite())
            }));
            outputs
                .into_iter()
                .find(|(name, _)| *name == "d_logits")
                .unwrap()
                .1
        };
        for column in Column::all() {
            let plain = gradient(&data, column);
            let mut poisoned = data.clone();
            poisoned.logits[out * v + 3] = f32::NAN;
            poisoned.logits[out * v + 4] = f32::INFINITY;
            let poisoned = gradient(&poisoned, column);
            assert_eq!(plain, poisoned, "{column:?}");
            assert_eq!(plain[out * v..][..v], vec![0.0; v]);
        }
    }
}

/// Each cotangent alone gives a gradient: none is dropped.
#[test]
fn no_cotangent_is_dropped() {
    for op in at(warm()) {
        let case = Case::new("cotangents", op);
        let all = case.data();
        let names: Vec<_> = all.vectors.iter().map(|(name, _)| *name).collect();
        for kept in names.into_iter().filter(|name| name.starts_with("d_")) {
            let mut data = all.clone();
            for (name, values) in &mut data.vectors {
                if name.starts_with("d_") && *name != kept {
                    values.fill(0.0);
                }
            }
            let expected = Expected::of(&case, &data);
            let gradient = &expected.last().unwrap().values;
            assert!(gradient.iter().any(|d| d.abs() > 1e-3), "{kept}");
            for column in Column::all() {
                check(&case, &data, &expected, column).unwrap();
            }
        }
    }
}

/// Temperature divides logits, not log-probabilities.
#[test]
fn temperature_is_that_of_the_logits() {
    let logits = [1.0_f32, 2.0, 4.0];
    let at = |logits: &[f32], temperature| {
        let op = tilecast::logits_ce::new(&[1]).temperature(temperature);
        op.forward(Matrix::new(logits, 1, 3).unwrap()).unwrap().logp[0]
    };
    let halved: Vec<f32> = logits.iter().map(|x| x / 2.0).collect();
    assert_eq!(at(&logits, 2.0), at(&halved, 1.0));
    assert!((at(&logits, 2.0) - at(&logits, 1.0) / 2.0).abs() > 0.1);
}

/// Columns of -inf (a forbidden vocabulary) have no probability, no entropy and no gradient.
#[test]
fn forbidden_columns_are_as_if_they_were_not_there() {
    for op in at(warm()) {
        for shape in [[36, 50], [36, 1200]] {
            let case = Case::new("forbidden", op).shape(shape, [8, 16]);
            // A smoothed target of a forbidden column has an infinite loss.
            let case = match case.op {
                Op::LogitsCe(options) => Case {
                    op: Op::LogitsCe(logits_ce::Options {
                        label_smoothing: 0.0,
                        ..options
                    }),
                    ..case
                },
                _ => case,
            };
            let mut data = case.data();
            let v = case.shape[1];
            for (i, logits) in data.logits.chunks_mut(v).enumerate() {
                let label = data.labels[i];
                for (c, logit) in logits.iter_mut().enumerate() {
                    // Whole blocks at the start and at the end, and single columns.
                    let forbidden = c < 20 || c >= v - 3 || c % 3 == 0;
                    if forbidden && c as i32 != label {
                        *logit = f32::NEG_INFINITY;
                    }
                }
            }
            let expected = Expected::of(&case, &data);
            assert!(
                expected
                    .iter()
                    .all(|e| e.values.iter().all(|x| x.is_finite()))
            );
            for column in Column::all() {
                check(&case, &data, &expected, column).unwrap();
            }
        }
    }
}

/// The gradient over the logits is bit for bit the one into memory of its own.
#[test]
fn in_place_is_the_same_gradient() {
    for op in at(LogitsOptions::default()) {
        let case = Case::new("in place", op).shape([36, 3000], [5, 700]).bf16();
        let data = case.data();
        let options = LogitsOptions {
            in_place: true,
            ..Default::default()
        };
        let with = |op| match op {
            Op::LogitsCe(o) => Op::LogitsCe(logits_ce::Options {
                logits: options,
                ..o
            }),
            Op::Entropy(_) => Op::Entropy(options),
            Op::Grpo(o) => Op::Grpo(grpo::Options {
                logits: options,
                ..o
            }),
        };
        let in_place = Case {
            op: with(op),
            ..case.clone()
        };
        for column in on_cpu() {
            let [apart, over] =
                [&case, &in_place].map(|case| column.run(case, &data).unwrap().pop().unwrap());
            assert_eq!((apart.0, over.0), ("d_logits", "logits"));
            assert_eq!(apart.1, over.1, "{column:?}");
        }
    }
}

#[test]
fn the_same_bits_on_any_number_of_threads() {
    for op in at(warm()) {
        let case = Case::new("threads", op).shape([100, 777], [4, 100]);
        let data = case.data();
        let run = |threads| Column::Cpu(OnCpu::best(threads)).run(&case, &data).unwrap();
        let one = run(1);
        for threads in [2, 3, 7] {
            assert_eq!(run(threads), one);
        }
    }
}

#[test]
fn wrong_calls_are_errors_with_numbers() {
    let logits = [0.0_f32; 12];
    let matrix = || Matrix::new(&logits[..], 4, 3).unwrap();
    let text = |error: tilecast::Error| error.to_string();
    let error = tilecast::logits_ce::new(&[0, 3, 0, 0])
        .forward(matrix())
        .unwrap_err();
    assert_eq!(
        text(error),
        "label 3 of token 1 is outside 0..3 and no ignore index is set"
    );
    let error = tilecast::logits_ce::new(&[0; 3])
        .forward(matrix())
        .unwrap_err();
    assert_eq!(
        text(error),
        "logits_ce forward: array labels must be i32[4], got i32[3]"
    );
    let error = tilecast::entropy::new()
        .temperature(0.0)
        .forward(matrix())
        .unwrap_err();
    assert_eq!(
        text(error),
        "temperature is 0; it must be positive and between 1.2e-38 and 8.5e37"
    );
    let error = tilecast::grpo::new(&[0; 4], &[1.0; 4])
        .mask(&[0.5; 4])
        .forward(matrix())
        .unwrap_err();
    assert_eq!(
        text(error),
        "an element of the mask is 0.5; it must be 0 or 1"
    );
    // Memory that is no matrix.
    let op = tilecast::entropy::new().on(Cpu::new());
    let forward = op.forward(matrix()).unwrap();
    let mut data = [0.0_f32; 12];
    let vector = ArrayMut::new(&mut data[..], &[12]).unwrap();
    let error = op
        .backward_in_place(vector, &forward, Default::default())
        .unwrap_err();
    assert!(text(error).contains("number of dimensions of the logits is 1"));
}
