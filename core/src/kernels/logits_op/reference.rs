//! The references of the ops, by the names of their programs.

use alloc::vec;
use alloc::vec::Vec;

use super::{Inputs, LogitsOp, Named};
use crate::kernels::{entropy, grpo, logits_ce};

/// The outputs of the forward pass.
pub fn forward(op: &LogitsOp, inputs: &Inputs) -> Named {
    match op {
        LogitsOp::LogitsCe(op) => {
            let forward = logits_ce::reference::forward(op, &inputs.logits, &inputs.labels);
            vec![
                ("loss", forward.loss),
                ("logp", forward.logp),
                ("lse", forward.lse),
            ]
        }
        LogitsOp::Entropy(op) => {
            let [lse, entropy] = entropy::reference::forward(op, &inputs.logits);
            vec![("lse", lse), ("entropy", entropy)]
        }
        LogitsOp::Grpo(op) => {
            let forward = grpo::reference::forward(op, &of_grpo(inputs));
            vec![
                ("lse", forward.lse),
                ("entropy", forward.entropy),
                ("logp", forward.logp),
                ("ratio", forward.ratio),
                ("is_clipped", forward.is_clipped),
                ("loss", forward.loss),
            ]
        }
    }
}

/// The gradient of the logits, `[B,V]`, from the cotangents among the inputs.
pub fn backward(op: &LogitsOp, inputs: &Inputs) -> Vec<f64> {
    let vector = |name| inputs.vector(name);
    match op {
        LogitsOp::LogitsCe(op) => {
            let cotangents = ["d_loss", "d_logp", "d_lse"].map(vector);
            logits_ce::reference::backward(op, &inputs.logits, &inputs.labels, cotangents)
        }
        LogitsOp::Entropy(op) => {
            entropy::reference::backward(op, &inputs.logits, vector("d_entropy"))
        }
        LogitsOp::Grpo(op) => {
            let cotangents = grpo::reference::Cotangents {
                loss: vector("d_loss").into(),
                logp: vector("d_logp").into(),
                ratio: vector("d_ratio").into(),
                entropy: vector("d_entropy").into(),
            };
            grpo::reference::backward(op, &of_grpo(inputs), &cotangents)
        }
    }
}

/// The inputs as the reference of the policy loss takes them.
fn of_grpo(inputs: &Inputs) -> grpo::reference::Inputs {
    grpo::reference::Inputs {
        logits: inputs.logits.clone(),
        labels: inputs.labels.clone(),
        advantage: inputs.vector("advantage").into(),
        old_logp: inputs.vector("old_logp").into(),
        ref_logp: inputs.vector("ref_logp").into(),
        mask: inputs.vector("mask").into(),
    }
}
