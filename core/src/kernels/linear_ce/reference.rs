//! The obvious f64 loop, never optimised: what every backend is compared with.

use alloc::vec;
use alloc::vec::Vec;

use num_traits::Float;

use super::{LinearCe, Reduction};

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

/// Gradients.
#[derive(Clone, Debug)]
pub struct Backward {
    /// `[B,H]`
    pub dx: Vec<f64>,
    /// `[H,V]`
    pub dw: Vec<f64>,
    /// `[V]`
    pub dbias: Vec<f64>,
}

/// Loss and logsumexp.
pub fn forward(problem: &LinearCe, inputs: &Inputs) -> Forward {
    let options = problem.options();
    let smoothing = f64::from(options.label_smoothing);
    let share = token_share(problem, inputs);
    let mut loss = Vec::new();
    let mut lse = Vec::new();
    for (i, &share) in share.iter().enumerate() {
        let z = logits(problem, inputs, i);
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
pub fn backward(problem: &LinearCe, inputs: &Inputs, d_loss: &[f64], d_lse: &[f64]) -> Backward {
    let options = problem.options();
    let (hidden, vocab) = (problem.hidden(), problem.vocab());
    let smoothing = f64::from(options.label_smoothing);
    let mut out = Backward {
        dx: vec![0.0; problem.tokens() * hidden],
        dw: vec![0.0; hidden * vocab],
        dbias: vec![0.0; vocab],
    };
    for (i, &share) in token_share(problem, inputs).iter().enumerate() {
        let z = logits(problem, inputs, i);
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
            let mut delta = probability * Float::exp(z - lse)
                - g * ((1.0 - smoothing) * one_hot + smoothing / vocab as f64);
            if let Some(cap) = options.soft_cap {
                let t = z / f64::from(cap);
                delta *= 1.0 - t * t;
            }
            out.dbias[v] += delta;
            for h in 0..hidden {
                out.dx[i * hidden + h] += delta * inputs.w[h * vocab + v];
                out.dw[h * vocab + v] += delta * inputs.x[i * hidden + h];
            }
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

/// Row `i` of the logits, after bias and soft cap.
fn logits(problem: &LinearCe, inputs: &Inputs, i: usize) -> Vec<f64> {
    let (hidden, vocab) = (problem.hidden(), problem.vocab());
    let mut z = match inputs.bias.is_empty() {
        true => vec![0.0; vocab],
        false => inputs.bias.clone(),
    };
    for h in 0..hidden {
        let x = inputs.x[i * hidden + h];
        for (z, w) in z.iter_mut().zip(&inputs.w[h * vocab..]) {
            *z += x * w;
        }
    }
    if let Some(cap) = problem.options().soft_cap {
        let cap = f64::from(cap);
        z.iter_mut().for_each(|z| *z = cap * Float::tanh(*z / cap));
    }
    z
}

fn logsumexp(z: &[f64]) -> f64 {
    let max = z.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    // Not finite: inf - inf below makes the row NaN, as log-softmax does in every framework.
    max + Float::ln(z.iter().map(|&z| Float::exp(z - max)).sum::<f64>())
}
