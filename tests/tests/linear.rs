//! The ops on the logits of a head: every case on every column with both strategies, random cases, traps.

use proptest::prelude::*;
use tilecast::core::kernels::grpo::{self, Ratio, Variant};
use tilecast::core::kernels::head::{HeadOptions, Strategy as BackwardStrategy};
use tilecast::core::kernels::linear_op::{Inputs, reference};
use tilecast::core::kernels::logits_op::of_name;
use tilecast::core::kernels::softmax::LogitsOptions;
use tilecast::{DType, Head, Matrix};
use tilecast_tests::linear::{Case, Data, assert_case, check, expected, run, run_at_once};
use tilecast_tests::logits::{Column, Op, ce_everything, policy_everything, warm};
use tilecast_tests::{OnCpu, differences};

/// One of each op, with much of what it can do.
fn ops() -> [Op; 3] {
    [
        Op::Entropy(warm()),
        Op::Grpo(policy_everything(Variant::Grpo)),
        Op::LogitsCe(ce_everything()),
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
fn entropy_at_temperatures() {
    let ops = [0.3, 1.0, 5.0].map(|temperature| {
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
                ..grpo::Options::default()
            },
            everything,
            grpo::Options {
                ratio: Ratio::Sequence,
                max_length: Some(9),
                tokens_in_batch: Some(77.0),
                ..everything
            },
            grpo::Options {
                old_logp: false,
                per_token: true,
                ..everything
            },
        ];
        assert_all(variant.name(), ops.map(Op::Grpo), |case| case);
    }
}

#[test]
fn every_form_of_the_head() {
    let forms = [
        HeadOptions {
            bias: true,
            ..HeadOptions::default()
        },
        HeadOptions {
            soft_cap: Some(5.0),
            ..HeadOptions::default()
        },
        HeadOptions {
            bias: true,
            soft_cap: Some(5.0),
            delta_dtype: Some(DType::F32),
        },
    ];
    for head in forms {
        assert_all("head", ops(), |case| Case { head, ..case });
    }
    let grad_f32 = LogitsOptions {
        grad_dtype: Some(DType::F32),
        ..warm()
    };
    let entropy = [Op::Entropy(grad_f32)];
    assert_all("gradients in f32", entropy, |case| case);
}

/// One block and several, each size ragged and whole; vocabularies as ragged as real ones are.
#[test]
fn ragged_shapes() {
    for (shape, blocks) in [
        ([4, 5, 6], [8, 8, 8]),
        ([8, 16, 16], [8, 16, 16]),
        ([8, 1, 1], [1, 1, 1]),
        ([4, 33, 37], [3, 5, 7]),
        ([300, 130, 260], [128, 128, 128]),
        ([132, 257, 643], [128, 128, 128]),
        ([12, 64, 1643], [8, 64, 256]),
    ] {
        assert_all("shape", ops(), |case| case.shape(shape, blocks));
    }
}

#[test]
fn large_and_small_logits() {
    for scale in [30.0, 1e-3] {
        assert_all("scale", ops(), |mut case| {
            case.op.logit_scale = scale;
            case
        });
    }
}

/// The same arrays, whether one program computes them or two.
#[test]
fn both_passes_in_one_program() {
    for op in ops() {
        let case = Case::new("both", op);
        let data = case.data();
        for column in Column::all() {
            for strategy in BackwardStrategy::ALL {
                let mut apart = run(&case, &data, column, strategy).unwrap();
                let mut at_once = run_at_once(&case, &data, column, strategy).unwrap();
                apart.sort_by_key(|(name, _)| *name);
                at_once.sort_by_key(|(name, _)| *name);
                assert_eq!(apart, at_once, "{op:?} on {column:?}");
            }
        }
    }
}

// ---- the reference is the one thing that nothing else checks ------------------------------------

/// One of the arrays that logits are made of.
type Place = fn(&mut Inputs) -> &mut Vec<f64>;

#[test]
fn gradients_agree_with_finite_differences() {
    let on_policy = |variant| {
        Op::Grpo(grpo::Options {
            per_token: true,
            ratio: Ratio::Sequence,
            ..policy_everything(variant)
        })
    };
    for op in ops().into_iter().chain([on_policy(Variant::Bnpo)]) {
        for soft_cap in [None, Some(4.0)] {
            let head = HeadOptions {
                bias: true,
                soft_cap,
                ..HeadOptions::default()
            };
            let case = Case::new("differences", op).shape([8, 3, 7], [8, 8, 8]);
            let case = Case { head, ..case };
            let (problem, inputs) = (case.problem(), case.data().widened());
            let names = problem.op().differentiable();
            let value = |moved: &Inputs| -> f64 {
                let outputs = reference::forward(&problem, moved);
                let share = |name: &&str| -> f64 {
                    let d = inputs.vector(&format!("d_{name}"));
                    let output = of_name(&outputs, name);
                    assert_eq!(output.len(), d.len());
                    output.iter().zip(d).map(|(y, d)| y * d).sum()
                };
                names.iter().map(share).sum()
            };
            let gradients = reference::backward(&problem, &inputs);
            let places: [(&str, &[f64], Place); 3] = [
                ("dx", &inputs.x, |inputs| &mut inputs.x),
                ("dw", &inputs.w, |inputs| &mut inputs.w),
                ("dbias", &inputs.bias, |inputs| &mut inputs.bias),
            ];
            for (name, at, place) in places {
                let found = differences(at, |values| {
                    let mut moved = inputs.clone();
                    *place(&mut moved) = values.to_vec();
                    value(&moved)
                });
                let gradient = of_name(&gradients, name);
                assert_eq!(gradient.len(), found.len());
                assert!(gradient.iter().any(|d| d.abs() > 1e-3));
                for (i, (a, b)) in gradient.iter().zip(&found).enumerate() {
                    let place = format!("{name}[{i}] of {op:?}, soft cap {soft_cap:?}");
                    assert!((a - b).abs() < 1e-7, "{place} is {a}, differences say {b}");
                }
            }
        }
    }
}

// ---- traps ---------------------------------------------------------------------------------------

/// Each cotangent alone gives a gradient: none is dropped.
#[test]
fn no_cotangent_is_dropped() {
    for op in ops() {
        let case = Case::new("cotangents", op);
        let all = case.data();
        let names: Vec<_> = (all.of_rows.vectors.iter())
            .map(|(name, _)| *name)
            .collect();
        for kept in names.into_iter().filter(|name| name.starts_with("d_")) {
            let mut data = all.clone();
            for (name, values) in &mut data.of_rows.vectors {
                if name.starts_with("d_") && *name != kept {
                    values.fill(0.0);
                }
            }
            let expected = expected(&case, &data, DType::F32);
            let dx = expected.iter().find(|expected| expected.name == "dx");
            assert!(dx.unwrap().values.iter().any(|d| d.abs() > 1e-3), "{kept}");
            check(&case, &data, &Column::all()).unwrap();
        }
    }
}

/// A token that does not count may have any label, advantage and history: its gradient is exactly 0, and
/// nobody else's changes.
#[test]
fn rows_that_do_not_count_cannot_leak() {
    let case = Case::new("poisoned", Op::Grpo(policy_everything(Variant::Dapo)));
    let mut data = case.data();
    let mask = data.of_rows.vector("mask");
    let out = mask.iter().position(|&mask| mask == 0.0).unwrap();
    let set = |data: &mut Data, names: &[&str], value: f32| {
        for (name, values) in &mut data.of_rows.vectors {
            if names.contains(name) {
                values[out] = value;
            }
        }
    };
    set(&mut data, &["d_entropy"], 0.0);
    let mut poisoned = data.clone();
    poisoned.of_rows.labels[out] = -100;
    set(
        &mut poisoned,
        &["advantage", "old_logp", "ref_logp"],
        f32::NAN,
    );
    for column in Column::all() {
        for strategy in BackwardStrategy::ALL {
            let [plain, poisoned] =
                [&data, &poisoned].map(|data| run(&case, data, column, strategy).unwrap());
            assert_eq!(plain, poisoned, "{column:?}");
            let (_, dx) = plain.iter().find(|(name, _)| *name == "dx").unwrap();
            let h = case.hidden;
            assert_eq!(dx[out * h..][..h], vec![0.0; h]);
        }
    }
}

#[test]
fn the_same_bits_on_any_number_of_threads() {
    for op in ops() {
        let case = Case::new("threads", op).shape([100, 33, 300], [8, 16, 64]);
        let data = case.data();
        let on = |threads| {
            let column = Column::Cpu(OnCpu::best(threads));
            run(&case, &data, column, BackwardStrategy::Streaming).unwrap()
        };
        let one = on(1);
        for threads in [2, 3] {
            assert_eq!(on(threads), one);
        }
    }
}

/// The library's calls give what the programs give, and refuse what does not fit.
#[test]
fn calls_on_a_head() {
    let options = grpo::Options {
        sequence_length: Some(4),
        mask: true,
        kl_beta: 0.1,
        ..grpo::Options::default()
    };
    let mut case = Case::new("calls", Op::Grpo(options));
    case.head = HeadOptions {
        bias: true,
        soft_cap: Some(5.0),
        delta_dtype: Some(DType::F32),
    };
    let data = case.data();
    let ([b, v], h) = (case.op.shape, case.hidden);
    let matrix = |data, rows, columns| Matrix::new(data, rows, columns).unwrap();
    let (x, w) = (matrix(&data.x[..], b, h), matrix(&data.w[..], h, v));
    let head = Head::new(x.clone(), w).bias(&data.bias).soft_cap(5.0);
    let rows = &data.of_rows;
    let op = tilecast::grpo::new(&rows.labels, rows.vector("advantage"))
        .old_logp(rows.vector("old_logp"))
        .reference(rows.vector("ref_logp"), 0.1)
        .mask(rows.vector("mask"))
        .sequence_length(4);
    let forward = op.forward_of_head(&head).unwrap();
    let cotangents = tilecast::grpo::Cotangents {
        d_loss: Some(rows.vector("d_loss")),
        d_logp: Some(rows.vector("d_logp")),
        d_ratio: Some(rows.vector("d_ratio")),
        d_entropy: Some(rows.vector("d_entropy")),
    };
    let gradients = op.backward_of_head(&head, &forward, cotangents).unwrap();
    let got = vec![
        ("loss", forward.loss),
        ("logp", forward.logp),
        ("ratio", forward.ratio),
        ("is_clipped", forward.is_clipped),
        ("entropy", forward.entropy),
        ("lse", forward.lse),
        ("dx", gradients.dx.to_f32()),
        ("dw", gradients.dw.to_f32()),
        ("dbias", gradients.dbias.unwrap()),
    ];
    let expected = expected(&case, &data, DType::F32);
    assert_eq!(expected.len(), got.len());
    for expected in expected {
        expected.compare(of(&got, expected.name)).unwrap();
    }

    let error = |head: Head<'_>| op.forward_of_head(&head).unwrap_err().to_string();
    let narrow = matrix(&data.w[..], h - 1, v);
    assert_eq!(
        error(Head::new(x.clone(), narrow)),
        "the number of rows of w is 20, but the number of columns of x is 21"
    );
    let w = matrix(&data.w[..], h, v);
    assert_eq!(
        error(Head::new(x.clone(), w.clone()).soft_cap(0.0)),
        "soft cap is 0; it must be finite and at least 1.2e-38"
    );
    assert!(error(Head::new(x, w).bias(&[0.0; 3])).contains("bias must be f32[70]"));
}

fn of<'a>(outputs: &'a [(&str, Vec<f32>)], name: &str) -> &'a [f32] {
    let found = outputs.iter().find(|(of, _)| *of == name);
    &found.unwrap_or_else(|| panic!("{name} is missing")).1
}

// ---- random cases --------------------------------------------------------------------------------

fn any_op() -> impl Strategy<Value = Op> {
    let logits = (prop_oneof![Just(1.0), 0.3_f32..3.0], any::<bool>()).prop_map(
        |(temperature, grad_f32)| LogitsOptions {
            temperature,
            grad_dtype: grad_f32.then_some(DType::F32),
            in_place: false,
        },
    );
    let policy = (
        prop::sample::select(&Variant::ALL[..]),
        any::<[bool; 4]>(),
        prop_oneof![Just(0.0), 0.01_f32..0.5],
        prop::option::of(prop::sample::select(vec![1, 2, 4])),
    );
    (logits, prop::option::of(policy)).prop_map(|(logits, policy)| match policy {
        None => Op::Entropy(logits),
        Some((variant, [old_logp, mask, per_token, sequence], kl_beta, sequence_length)) => {
            Op::Grpo(grpo::Options {
                logits,
                ratio: match sequence {
                    true => Ratio::Sequence,
                    false => Ratio::Token,
                },
                kl_beta,
                old_logp,
                mask,
                per_token,
                sequence_length,
                ..policy_everything(variant)
            })
        }
    })
}

fn any_case() -> impl Strategy<Value = Case> {
    (
        any_op(),
        (
            1..=10_usize,
            1..=40_usize,
            prop_oneof![1..=40_usize, 1..=500_usize],
        ),
        [1..=40_usize, 1..=40_usize, 1..=200_usize],
        (any::<bool>(), any::<bool>(), prop::option::of(2.0_f32..9.0)),
        1..1000_u64,
        0.5_f32..4.0,
    )
        .prop_map(
            |(op, (b, h, v), blocks, (bf16, bias, soft_cap), seed, logit_scale)| {
                // A multiple of every length of a sequence above.
                let mut case = Case::new("random", op).shape([4 * b, h, v], blocks);
                case.head = HeadOptions {
                    bias,
                    soft_cap,
                    ..HeadOptions::default()
                };
                (case.op.seed, case.op.logit_scale) = (seed, logit_scale);
                if bf16 { case.bf16() } else { case }
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(60)
    })]

    #[test]
    fn random_cases_give_the_reference_result(case in any_case(), threads in 1..4_usize) {
        let columns = [Column::Cpu(OnCpu::best(threads))];
        check(&case, &case.data(), &columns).map_err(TestCaseError::fail)?;
    }
}
