//! The ops on given logits: every case on every column, random cases, traps.

use proptest::prelude::*;
use tilecast::core::kernels::grpo::{self, Ratio, Variant};
use tilecast::core::kernels::softmax::{Blocks, LogitsOptions};
use tilecast::core::kernels::{entropy, logits_ce};
use tilecast::{ArrayMut, Cpu, DType, Matrix};
use tilecast_tests::OnCpu;
use tilecast_tests::logits::{Case, Column, Data, Expected, Op, Problem, assert_case, check};

fn ce() -> logits_ce::Options {
    logits_ce::Options::default()
}

fn policy() -> grpo::Options {
    grpo::Options::default()
}

fn warm() -> LogitsOptions {
    LogitsOptions {
        temperature: 0.7,
        ..LogitsOptions::default()
    }
}

/// Every option at once.
fn ce_everything() -> logits_ce::Options {
    logits_ce::Options {
        logits: warm(),
        ignore_index: Some(-100),
        label_smoothing: 0.1,
        z_loss: 1e-2,
    }
}

/// Sequences of 4 tokens and every option that all variants have.
fn policy_everything(variant: Variant) -> grpo::Options {
    grpo::Options {
        logits: warm(),
        variant,
        clip_low: 0.2,
        clip_high: if variant == Variant::Cispo { 1.3 } else { 0.28 },
        clip_two_sided: Some(1.9),
        kl_beta: 0.1,
        mask: true,
        sequence_length: Some(4),
        ..policy()
    }
}

fn at(logits: LogitsOptions) -> [Op; 3] {
    [
        Op::LogitsCe(logits_ce::Options {
            logits,
            ..ce_everything()
        }),
        Op::Entropy(logits),
        Op::Grpo(grpo::Options {
            logits,
            ..policy_everything(Variant::Grpo)
        }),
    ]
}

fn assert_all(name: &'static str, ops: impl IntoIterator<Item = Op>, edit: impl Fn(Case) -> Case) {
    for op in ops {
        let case = edit(Case::new(name, op));
        assert_case(&case);
        assert_case(&case.bf16());
    }
}

#[test]
fn cross_entropy_one_option_at_a_time() {
    let ops = [
        ce(),
        logits_ce::Options {
            logits: warm(),
            ..ce()
        },
        logits_ce::Options {
            ignore_index: Some(-100),
            ..ce()
        },
        logits_ce::Options {
            ignore_index: Some(3),
            ..ce()
        },
        logits_ce::Options {
            label_smoothing: 0.1,
            ..ce()
        },
        logits_ce::Options {
            label_smoothing: 1.0,
            ..ce()
        },
        logits_ce::Options {
            z_loss: 0.05,
            ..ce()
        },
        ce_everything(),
    ];
    assert_all("cross-entropy", ops.map(Op::LogitsCe), |case| case);
}

#[test]
fn entropy_at_temperatures() {
    let temperatures = [0.1, 0.7, 1.0, 5.0];
    let ops = temperatures.map(|temperature| {
        Op::Entropy(LogitsOptions {
            temperature,
            ..LogitsOptions::default()
        })
    });
    assert_all("entropy", ops, |case| case);
}

#[test]
fn every_variant_of_the_policy_loss() {
    for variant in Variant::ALL {
        let everything = policy_everything(variant);
        let ops = [
            grpo::Options {
                variant,
                clip_high: everything.clip_high,
                ..policy()
            },
            everything,
            grpo::Options {
                ratio: Ratio::Sequence,
                ..everything
            },
            grpo::Options {
                per_token: true,
                ..everything
            },
            grpo::Options {
                old_logp: false,
                ..everything
            },
            grpo::Options {
                tokens_in_batch: Some(77.0),
                max_length: Some(9),
                ratio: Ratio::Sequence,
                clip_two_sided: None,
                ..everything
            },
        ];
        assert_all(variant.name(), ops.map(Op::Grpo), |case| case);
    }
}

#[test]
fn gradients_in_place_and_in_f32() {
    let in_place = LogitsOptions {
        in_place: true,
        ..warm()
    };
    assert_all("in place", at(in_place), |case| case);
    let grad_f32 = LogitsOptions {
        grad_dtype: Some(DType::F32),
        ..warm()
    };
    assert_all("gradient in f32", at(grad_f32), |case| case);
}

/// Shapes and blocks in which something is one, or longer than the strips of the CPU backend.
#[test]
fn ragged_shapes() {
    for (shape, blocks) in [
        ([4, 50], [8, 16]),
        ([36, 1], [8, 16]),
        ([4, 1], [1, 1]),
        ([8, 32], [8, 32]),
        ([8, 37], [3, 5]),
        ([4, 3001], [4, 1100]),
        ([300, 130], [128, 128]),
        ([256, 384], [128, 128]),
        ([12, 257], [64, 256]),
    ] {
        assert_all("shape", at(warm()), |case| case.shape(shape, blocks));
    }
}

/// Blocks lower than the 128 tokens of a per-token vector.
#[test]
fn low_blocks_in_a_vector() {
    for b in [8, 16, 32, 64] {
        let blocks = Blocks {
            vector: 128,
            sub_tile: 8,
            ..Blocks::new(b, 128)
        };
        assert_all("low blocks", at(warm()), |case| Case {
            shape: [256, 300],
            blocks: Some(blocks),
            ..case
        });
    }
}

#[test]
fn blocks_of_this_machine_and_large_logits() {
    assert_all("default", at(warm()), |case| Case {
        blocks: None,
        shape: [20, 5000],
        ..case
    });
    assert_all("large logits", at(warm()), |case| Case {
        logit_scale: 60.0,
        ..case
    });
    assert_all("small logits", at(warm()), |case| Case {
        logit_scale: 1e-3,
        ..case
    });
}

// ---- the reference is the one thing that nothing else checks ------------------------------------

/// Central differences of `value` at every logit.
fn differences(logits: &[f64], value: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let step = 1e-5;
    let at = |i: usize, step: f64| {
        let mut moved = logits.to_vec();
        moved[i] += step;
        value(&moved)
    };
    let each = |i| (at(i, step) - at(i, -step)) / (2.0 * step);
    (0..logits.len()).map(each).collect()
}

fn assert_close(gradient: &[f64], differences: &[f64], what: &dyn std::fmt::Debug) {
    assert_eq!(gradient.len(), differences.len());
    for (i, (a, b)) in gradient.iter().zip(differences).enumerate() {
        // Error step^2 f''' / 6, and the roundoff of f over the step.
        assert!(
            (a - b).abs() < 2e-8,
            "{what:?}: [{i}] is {a}, differences say {b}"
        );
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&x| x.into()).collect()
}

fn small(op: Op) -> (Case, Data) {
    let case = Case::new("differences", op).shape([8, 7], [8, 8]);
    let data = case.data();
    (case, data)
}

#[test]
fn cross_entropy_and_entropy_agree_with_finite_differences() {
    for options in [ce(), ce_everything()] {
        let (case, data) = small(Op::LogitsCe(options));
        let Problem::LogitsCe(op) = case.problem() else {
            unreachable!()
        };
        let d = ["d_loss", "d_logp", "d_lse"].map(|name| data.wide(name));
        let logits = wide(&data.logits);
        let gradient = logits_ce::reference::backward(
            &op,
            &logits,
            &data.labels,
            d.each_ref().map(|d| &d[..]),
        );
        let value = |logits: &[f64]| {
            let f = logits_ce::reference::forward(&op, logits, &data.labels);
            dot(&f.loss, &d[0]) + dot(&f.logp, &d[1]) + dot(&f.lse, &d[2])
        };
        assert_close(&gradient, &differences(&logits, value), &options);
    }
    let (case, data) = small(Op::Entropy(warm()));
    let Problem::Entropy(op) = case.problem() else {
        unreachable!()
    };
    let (logits, d) = (wide(&data.logits), data.wide("d_entropy"));
    let gradient = entropy::reference::backward(&op, &logits, &d);
    let value = |logits: &[f64]| dot(&entropy::reference::forward(&op, logits)[1], &d);
    assert_close(&gradient, &differences(&logits, value), &"entropy");
}

fn policy_inputs(data: &Data) -> (grpo::reference::Inputs, grpo::reference::Cotangents) {
    let inputs = grpo::reference::Inputs {
        logits: wide(&data.logits),
        labels: data.labels.clone(),
        advantage: data.wide("advantage"),
        old_logp: data.wide("old_logp"),
        ref_logp: data.wide("ref_logp"),
        mask: data.wide("mask"),
    };
    let cotangents = grpo::reference::Cotangents {
        loss: data.wide("d_loss"),
        logp: data.wide("d_logp"),
        ratio: data.wide("d_ratio"),
        entropy: data.wide("d_entropy"),
    };
    (inputs, cotangents)
}

/// What has no gradient is held: the policy's own past, and for cispo the weight.
#[test]
fn the_policy_loss_agrees_with_finite_differences() {
    let mut clipped = 0.0;
    for variant in Variant::ALL {
        for (ratio, old_logp, per_token) in [
            (Ratio::Token, true, false),
            (Ratio::Sequence, true, false),
            (Ratio::Token, false, true),
            (Ratio::Sequence, false, true),
        ] {
            let options = grpo::Options {
                ratio,
                old_logp,
                per_token,
                ..policy_everything(variant)
            };
            for seed in 1..5 {
                let (case, _) = small(Op::Grpo(options));
                let case = Case { seed, ..case };
                let data = case.data();
                let Problem::Grpo(op) = case.problem() else {
                    unreachable!()
                };
                let (mut inputs, d) = policy_inputs(&data);
                let gradient = grpo::reference::backward(&op, &inputs, &d);
                let base = grpo::reference::forward(&op, &inputs);
                clipped += base.is_clipped.iter().sum::<f64>();
                if !old_logp {
                    inputs.old_logp = base.logp.clone();
                }
                // Cispo without its own term, which is added with its weight held.
                let rest = grpo::Grpo::new(
                    8,
                    7,
                    DType::F32,
                    grpo::Options {
                        old_logp: true,
                        ..options
                    },
                )
                .unwrap();
                let held = match variant {
                    Variant::Cispo => inputs.advantage.clone(),
                    _ => vec![0.0; 8],
                };
                if variant == Variant::Cispo {
                    inputs.advantage.fill(0.0);
                }
                let counted = inputs.mask.iter().sum::<f64>().max(1.0);
                let share = if per_token { 1.0 } else { 1.0 / counted };
                let weight: Vec<f64> = (0..8)
                    .map(|i| {
                        let g = share * d.loss[if per_token { i } else { 0 }];
                        -g * held[i] * base.ratio[i].min(f64::from(options.clip_high))
                    })
                    .collect();
                let value = |logits: &[f64]| {
                    let moved = grpo::reference::Inputs {
                        logits: logits.to_vec(),
                        ..inputs.clone()
                    };
                    let f = grpo::reference::forward(&rest, &moved);
                    dot(&f.loss, &d.loss)
                        + dot(&f.logp, &d.logp)
                        + dot(&f.ratio, &d.ratio)
                        + dot(&f.entropy, &d.entropy)
                        + dot(&f.logp, &weight)
                };
                assert_close(&gradient, &differences(&inputs.logits, value), &options);
            }
        }
    }
    assert!(clipped > 5.0, "the data meets the clips: {clipped}");
}

// ---- traps ---------------------------------------------------------------------------------------

fn on_cpu() -> impl Iterator<Item = Column> {
    Column::all()
        .into_iter()
        .filter(|column| matches!(column, Column::Cpu(_)))
}

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
        let mut options = LogitsOptions::default();
        options.in_place = true;
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

// ---- random cases --------------------------------------------------------------------------------

fn logits_options() -> impl Strategy<Value = LogitsOptions> {
    (prop_oneof![Just(1.0), 0.3_f32..3.0], 0..3).prop_map(|(temperature, form)| LogitsOptions {
        temperature,
        grad_dtype: (form == 1).then_some(DType::F32),
        in_place: form == 2,
    })
}

fn any_ce() -> impl Strategy<Value = Op> {
    (
        logits_options(),
        prop::option::of(prop_oneof![Just(-100), Just(0)]),
        prop_oneof![Just(0.0), 0.01_f32..0.5, Just(1.0)],
        prop_oneof![Just(0.0), 1e-4_f32..0.1],
    )
        .prop_map(|(logits, ignore_index, label_smoothing, z_loss)| {
            Op::LogitsCe(logits_ce::Options {
                logits,
                ignore_index,
                label_smoothing,
                z_loss,
            })
        })
}

fn any_policy() -> impl Strategy<Value = Op> {
    (
        (logits_options(), prop::sample::select(&Variant::ALL[..])),
        any::<[bool; 4]>(),
        prop_oneof![Just(0.0), 0.01_f32..0.5],
        prop::option::of(Just(1.9_f32)),
        prop::option::of(prop::sample::select(vec![1, 2, 4])),
        (
            prop::option::of(5_usize..20),
            prop::option::of(1.0_f32..90.0),
        ),
    )
        .prop_map(
            |((logits, variant), flags, kl_beta, clip_two_sided, sequence_length, divisors)| {
                let [old_logp, mask, per_token, sequence] = flags;
                Op::Grpo(grpo::Options {
                    logits,
                    variant,
                    ratio: if sequence {
                        Ratio::Sequence
                    } else {
                        Ratio::Token
                    },
                    clip_two_sided,
                    kl_beta,
                    old_logp,
                    mask,
                    per_token,
                    sequence_length,
                    max_length: divisors.0,
                    tokens_in_batch: divisors.1,
                    ..policy_everything(variant)
                })
            },
        )
}

fn any_case() -> impl Strategy<Value = Case> {
    (
        prop_oneof![
            any_ce(),
            logits_options().prop_map(Op::Entropy),
            any_policy()
        ],
        (1..=30_usize, prop_oneof![1..=40_usize, 1..=2500_usize]),
        (1..=40_usize, prop_oneof![1..=40_usize, 1..=1500_usize]),
        (any::<bool>(), any::<bool>()),
        1..1000_u64,
        prop_oneof![3 => 0.5_f32..4.0, 1 => 10.0_f32..40.0],
    )
        .prop_map(
            |(op, (b, v), (block_b, block_v), (bf16, own), seed, logit_scale)| {
                // A multiple of every length of a sequence above.
                let case = Case::new("random", op).shape([4 * b, v], [block_b, block_v]);
                Case {
                    dtype: if bf16 { DType::Bf16 } else { DType::F32 },
                    blocks: if own { case.blocks } else { None },
                    seed,
                    logit_scale,
                    ..case
                }
            },
        )
        .prop_filter("a gradient in place has the type of the logits", |case| {
            let logits = match case.op {
                Op::LogitsCe(o) => o.logits,
                Op::Entropy(o) => o,
                Op::Grpo(o) => o.logits,
            };
            !logits.in_place || logits.grad_dtype.is_none()
        })
}

fn any_cpu() -> impl Strategy<Value = Column> {
    let columns: Vec<_> = on_cpu().collect();
    prop::sample::select(columns)
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(200)
    })]

    #[test]
    fn random_cases_give_the_reference_result(case in any_case(), column in any_cpu()) {
        let data = case.data();
        let expected = Expected::of(&case, &data);
        check(&case, &data, &expected, column).map_err(TestCaseError::fail)?;
    }

    /// A row with a NaN or an infinity is not finite where the reference is not; other rows are right.
    #[test]
    fn what_is_not_finite_stays_in_its_row(
        case in any_case(),
        column in any_cpu(),
        value in prop::sample::select(vec![f32::NAN, f32::INFINITY]),
        place in any::<prop::sample::Index>(),
    ) {
        // With a ratio per sequence, and in a sum, it spreads as it must.
        let local = match case.op {
            Op::Grpo(o) => o.ratio == Ratio::Token && o.per_token,
            _ => true,
        };
        prop_assume!(local);
        let mut data = case.data();
        let i = place.index(data.logits.len());
        data.logits[i] = value;
        let row = i / case.shape[1];
        let outputs = column.run(&case, &data).map_err(TestCaseError::fail)?;
        for expected in Expected::of(&case, &data) {
            let (_, got) = outputs.iter().find(|(name, _)| *name == expected.name).unwrap();
            let width = got.len() / case.shape[0];
            for (at, (got, want)) in got.iter().zip(&expected.values).enumerate() {
                prop_assert_eq!(got.is_finite(), want.is_finite(), "{}[{}]", expected.name, at);
                prop_assert!(got.is_finite() || at / width == row, "{}[{}]", expected.name, at);
            }
        }
    }
}
