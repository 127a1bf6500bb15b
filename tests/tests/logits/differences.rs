//! The reference, which is the one thing that nothing else checks, against finite differences.

use tilecast::DType;
use tilecast::core::kernels::grpo::{self, Ratio, Variant};
use tilecast::core::kernels::logits_op::LogitsOp;
use tilecast::core::kernels::{entropy, logits_ce};
use tilecast_tests::differences;
use tilecast_tests::logits::{Case, Data, Op, ce_everything, policy_everything, warm};

use super::ce;

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
        let LogitsOp::LogitsCe(op) = case.problem() else {
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
    let LogitsOp::Entropy(op) = case.problem() else {
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
                let LogitsOp::Grpo(op) = case.problem() else {
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
