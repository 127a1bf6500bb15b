//! The obvious f64 loop, never optimised: what every backend is compared with.

use alloc::vec;
use alloc::vec::Vec;

use num_traits::Float;

use super::{Grpo, Ratio, Variant};
use crate::kernels::softmax::reference::Row;

/// Arrays of the op, in f64 and row-major.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// `[B,V]`
    pub logits: Vec<f64>,
    /// `[B]`
    pub labels: Vec<i32>,
    /// `[B]`
    pub advantage: Vec<f64>,
    /// `[B]`, or empty: the policy is its own past.
    pub old_logp: Vec<f64>,
    /// `[B]`, or empty if there is no KL term.
    pub ref_logp: Vec<f64>,
    /// `[B]`, or empty for ones.
    pub mask: Vec<f64>,
}

/// Results of the forward pass.
#[derive(Clone, Debug, Default)]
pub struct Forward {
    /// `[B]`, or one number.
    pub loss: Vec<f64>,
    /// `[B]`
    pub logp: Vec<f64>,
    /// `[B]`
    pub ratio: Vec<f64>,
    /// `[B]`, 0 or 1.
    pub is_clipped: Vec<f64>,
    /// `[B]`
    pub entropy: Vec<f64>,
    /// `[B]`
    pub lse: Vec<f64>,
}

/// Cotangents of the outputs, each as long as its output.
#[derive(Clone, Debug, Default)]
pub struct Cotangents {
    /// Of the loss.
    pub loss: Vec<f64>,
    /// Of the log-probability.
    pub logp: Vec<f64>,
    /// Of the ratio.
    pub ratio: Vec<f64>,
    /// Of the entropy.
    pub entropy: Vec<f64>,
}

impl Inputs {
    fn counts(&self, i: usize) -> bool {
        self.mask.get(i).is_none_or(|&mask| mask != 0.0)
    }

    /// Tokens of the sequence of token `i` that count.
    fn sequence(&self, problem: &Grpo, i: usize) -> Vec<usize> {
        let length = problem.sequence_length();
        let first = i / length * length;
        (first..first + length)
            .filter(|&j| self.counts(j))
            .collect()
    }

    /// The factor of the loss of token `i` in the result.
    fn share(&self, problem: &Grpo, i: usize) -> f64 {
        let options = problem.options();
        if options.per_token {
            return 1.0;
        }
        let tokens = (0..problem.logits().tokens()).filter(|&j| self.counts(j));
        let tokens = (tokens.count() as f64).max(1.0);
        let sequences = problem.sequences() as f64;
        let divisor = match options.variant {
            Variant::Grpo => sequences * (self.sequence(problem, i).len() as f64).max(1.0),
            Variant::DrGrpo => {
                let length = options.max_length.unwrap_or(problem.sequence_length());
                sequences * length as f64
            }
            Variant::Bnpo => tokens,
            Variant::Dapo | Variant::Cispo => options.tokens_in_batch.map_or(tokens, f64::from),
        };
        1.0 / divisor
    }

    fn log_ratio(&self, logp: &[f64], i: usize) -> f64 {
        self.old_logp.get(i).map_or(0.0, |old| logp[i] - old)
    }

    fn ratio(&self, problem: &Grpo, logp: &[f64], i: usize) -> f64 {
        if !self.counts(i) {
            return 1.0;
        }
        let log_ratio = match problem.options().ratio {
            Ratio::Token => self.log_ratio(logp, i),
            Ratio::Sequence => {
                let sequence = self.sequence(problem, i);
                let sum: f64 = sequence.iter().map(|&j| self.log_ratio(logp, j)).sum();
                sum / sequence.len() as f64
            }
        };
        Float::exp(log_ratio)
    }
}

/// The smaller number; NaN if either is.
fn smaller(a: f64, b: f64) -> f64 {
    if a.is_nan() || a < b { a } else { b }
}

fn rows(problem: &Grpo, inputs: &Inputs) -> Vec<Row> {
    let rows = 0..problem.logits().tokens();
    rows.map(|i| Row::new(problem.logits(), &inputs.logits, i))
        .collect()
}

fn log_probabilities(inputs: &Inputs, rows: &[Row]) -> Vec<f64> {
    let logp = |(i, row): (usize, &Row)| match inputs.counts(i) {
        true => row.z[inputs.labels[i] as usize] - row.lse,
        false => 0.0,
    };
    rows.iter().enumerate().map(logp).collect()
}

/// All outputs.
pub fn forward(problem: &Grpo, inputs: &Inputs) -> Forward {
    let options = problem.options();
    let rows = rows(problem, inputs);
    let logp = log_probabilities(inputs, &rows);
    let mut out = Forward {
        lse: rows.iter().map(|row| row.lse).collect(),
        entropy: rows.iter().map(Row::entropy).collect(),
        logp: logp.clone(),
        ..Forward::default()
    };
    let (low, high) = (f64::from(options.clip_low), f64::from(options.clip_high));
    for i in 0..rows.len() {
        let ratio = inputs.ratio(problem, &logp, i);
        out.ratio.push(ratio);
        if !inputs.counts(i) {
            out.loss.push(0.0);
            out.is_clipped.push(0.0);
            continue;
        }
        let advantage = inputs.advantage[i];
        let (mut loss, clipped) = match options.variant {
            Variant::Cispo => (
                -smaller(ratio, high) * advantage * logp[i],
                ratio > high && advantage > 0.0,
            ),
            _ => {
                let most = options.clip_two_sided.map_or(f64::INFINITY, f64::from);
                let free = smaller(ratio, most) * advantage;
                let bounded = ratio.clamp(1.0 - low, 1.0 + high) * advantage;
                let below = ratio < 1.0 - low && advantage < 0.0;
                let above = ratio > 1.0 + high && advantage > 0.0;
                (-smaller(free, bounded), below || above)
            }
        };
        if options.kl_beta > 0.0 {
            let d = inputs.ref_logp[i] - logp[i];
            loss += f64::from(options.kl_beta) * (Float::exp(d) - d - 1.0);
        }
        out.loss.push(loss * inputs.share(problem, i));
        out.is_clipped.push(if clipped { 1.0 } else { 0.0 });
    }
    if !options.per_token {
        out.loss = vec![out.loss.iter().sum()];
    }
    out
}

/// `d_logits [B,V]` from the cotangents of all outputs that have a gradient.
pub fn backward(problem: &Grpo, inputs: &Inputs, cotangents: &Cotangents) -> Vec<f64> {
    let options = problem.options();
    let rows = rows(problem, inputs);
    let logp = log_probabilities(inputs, &rows);
    let (low, high) = (f64::from(options.clip_low), f64::from(options.clip_high));
    let most = options.clip_two_sided.map_or(f64::INFINITY, f64::from);
    // What reaches the log-probability of each token, directly and by way of its log-ratio.
    let (mut direct, mut by_ratio) = (vec![0.0; rows.len()], vec![0.0; rows.len()]);
    for i in (0..rows.len()).filter(|&i| inputs.counts(i)) {
        let g = inputs.share(problem, i) * cotangents.loss[if options.per_token { i } else { 0 }];
        let (ratio, advantage) = (inputs.ratio(problem, &logp, i), inputs.advantage[i]);
        direct[i] = cotangents.logp[i];
        by_ratio[i] = cotangents.ratio[i] * ratio;
        match options.variant {
            Variant::Cispo => direct[i] -= g * smaller(ratio, high) * advantage,
            _ => {
                let free = smaller(ratio, most) * advantage;
                let bounded = ratio.clamp(1.0 - low, 1.0 + high) * advantage;
                let bound_hit = match bounded < free {
                    true => !(1.0 - low..=1.0 + high).contains(&ratio),
                    false => ratio > most,
                };
                if !bound_hit {
                    by_ratio[i] -= g * advantage * ratio;
                }
            }
        }
        if options.kl_beta > 0.0 {
            let d = inputs.ref_logp[i] - logp[i];
            direct[i] += g * f64::from(options.kl_beta) * (1.0 - Float::exp(d));
        }
    }
    let vocab = problem.logits().vocab();
    let temperature = f64::from(problem.logits().options().temperature);
    let mut out = vec![0.0; inputs.logits.len()];
    for (i, row) in rows.iter().enumerate() {
        let mut g = 0.0;
        if inputs.counts(i) {
            g = direct[i];
            g += match options.ratio {
                Ratio::Token => by_ratio[i],
                Ratio::Sequence => {
                    let sequence = inputs.sequence(problem, i);
                    let sum: f64 = sequence.iter().map(|&j| by_ratio[j]).sum();
                    sum / sequence.len() as f64
                }
            };
        }
        let d_entropy = cotangents.entropy[i];
        for (v, out) in out[i * vocab..][..vocab].iter_mut().enumerate() {
            let mut d = 0.0;
            if g != 0.0 {
                let one_hot = if inputs.labels[i] == v as i32 {
                    1.0
                } else {
                    0.0
                };
                d += g * (one_hot - row.probability(v));
            }
            if d_entropy != 0.0 {
                d -= d_entropy * (row.p_log_p(v) + row.probability(v) * row.entropy());
            }
            *out = d / temperature;
        }
    }
    out
}
