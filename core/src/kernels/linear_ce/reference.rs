//! The obvious f64 loop, never optimised: what every backend is compared with.

use alloc::vec;
use alloc::vec::Vec;

use num_traits::Float;

use super::{LinearCe, Reduction};
use crate::kernels::head::reference::{Gradients, Operands};

/// Arrays of the op, in f64 and row-major.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// `[B,H]`
    pub x: Vec<f64>,
    /// `[H,V]`
    pub w: Vec<f64>,
    /// `[V]`, or empty for none.
    pub bias: Vec<f64>,
    /// `[B]`
    pub labels: Vec<i32>,
    /// `[B]`, or empty for ones.
    pub weight: Vec<f64>,
}

/// Results of the forward pass.
#[derive(Clone, Debug)]
pub struct Forward {
    /// `[B]`, or one number if reduced.
    pub loss: Vec<f64>,
    /// `[B]`
    pub lse: Vec<f64>,
}

impl Inputs {
    fn operands(&self) -> Operands<'_> {
        Operands {
            x: &self.x,
            w: &self.w,
            bias: &self.bias,
        }
    }
}

/// Loss and logsumexp.
pub fn forward(problem: &LinearCe, inputs: &Inputs) -> Forward {
    let options = problem.options();
    let smoothing = f64::from(options.label_smoothing);
    let share = token_share(problem, inputs);
    let mut loss = Vec::new();
    let mut lse = Vec::new();
    for (i, &share) in share.iter().enumerate() {
        let z = inputs.operands().logits(problem.head(), i);
        lse.push(logsumexp(&z));
        if share == 0.0 {
            loss.push(0.0);
            continue;
        }
        let picked = z[inputs.labels[i] as usize];
        let mean: f64 = z.iter().sum::<f64>() / z.len() as f64;
        // 0 * inf is NaN: a term that is switched off must not be computed.
        let smooth = if smoothing > 0.0 {
            smoothing * mean
        } else {
            0.0
        };
        let z_term = f64::from(options.z_loss) * lse[i] * lse[i];
        let z_term = if options.z_loss > 0.0 { z_term } else { 0.0 };
        loss.push(share * (lse[i] - (1.0 - smoothing) * picked - smooth + z_term));
    }
    if options.reduction != Reduction::None {
        loss = vec![loss.iter().sum()];
    }
    Forward { loss, lse }
}

/// Gradients from the cotangents `d_loss` (one number if reduced) and `d_lse [B]`.
pub fn backward(problem: &LinearCe, inputs: &Inputs, d_loss: &[f64], d_lse: &[f64]) -> Gradients {
    let options = problem.options();
    let vocab = problem.vocab();
    let smoothing = f64::from(options.label_smoothing);
    let (head, operands) = (problem.head(), inputs.operands());
    let mut out = Gradients::new(head);
    for (i, &share) in token_share(problem, inputs).iter().enumerate() {
        let z = inputs.operands().logits(problem.head(), i);
        let lse = logsumexp(&z);
        let g = match share {
            0.0 => 0.0,
            share => share * d_loss[if d_loss.len() == 1 { 0 } else { i }],
        };
        let z_term = 2.0 * f64::from(options.z_loss) * lse;
        let z_term = if options.z_loss > 0.0 && g != 0.0 {
            z_term
        } else {
            0.0
        };
        let probability = g * (1.0 + z_term) + d_lse[i];
        if g == 0.0 && probability == 0.0 {
            continue;
        }
        for (v, &z) in z.iter().enumerate() {
            let one_hot = if inputs.labels[i] == v as i32 {
                1.0
            } else {
                0.0
            };
            let d = probability * Float::exp(z - lse)
                - g * ((1.0 - smoothing) * one_hot + smoothing / vocab as f64);
            out.add(head, &operands, [i, v], z, d);
        }
    }
    out
}

/// The factor of each token in the result: weight, ignored tokens, divisor of a mean.
fn token_share(problem: &LinearCe, inputs: &Inputs) -> Vec<f64> {
    let options = problem.options();
    let counted = |i: usize| {
        if options.ignore_index == Some(inputs.labels[i]) {
            return 0.0;
        }
        inputs.weight.get(i).copied().unwrap_or(1.0)
    };
    let shares: Vec<f64> = (0..problem.tokens()).map(counted).collect();
    let sum: f64 = shares.iter().sum();
    match options.reduction {
        Reduction::Mean if sum == 0.0 => vec![0.0; shares.len()],
        Reduction::Mean => shares.iter().map(|share| share / sum).collect(),
        _ => shares,
    }
}

fn logsumexp(z: &[f64]) -> f64 {
    let max = z.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    // Not finite: inf - inf below makes the row NaN, as log-softmax does in every framework.
    max + Float::ln(z.iter().map(|&z| Float::exp(z - max)).sum::<f64>())
}
