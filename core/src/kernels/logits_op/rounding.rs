//! What a correct f32 evaluation may be off by.
//!
//! Errors are followed to first order, in units of the f32 roundoff `2^-24`: `z` is off by two roundings, `lse` and
//! `entropy` by the errors of `z` under their derivatives and by a sum over the vocabulary, a coefficient
//! by those of what it is made of. Last, `d = (P + Q log p) p - O - U` with each of its parts. A gradient in bf16 is
//! rounded once more, which is not counted here. Logits that were computed are off by what they come with.

use alloc::vec;
use alloc::vec::Vec;

use num_traits::Float;

use super::{Inputs, LogitsOp, Named, of_name};
use crate::kernels::softmax::Logits;
use crate::kernels::softmax::reference::Row;
use crate::kernels::{entropy, grpo, logits_ce};

/// A sum of `n` terms in f32 is off by at most `K sqrt(n)` units of the sum of their sizes, with a probability of all
/// but `2 exp(-K^2 / 2)` (Higham and Mary 2019, "A new approach to probabilistic rounding error analysis").
pub const K: f64 = 8.0;

/// The f32 roundoff, the unit of all errors here.
const ROUNDOFF: f64 = f32::EPSILON as f64 / 2.0;

/// Errors of the outputs of the forward pass, which is `exact`, and of the gradient of the logits, `d_logits`.
/// The logits are off by `given [B,V]`; empty for those that are exact.
pub fn errors(op: &LogitsOp, inputs: &Inputs, given: &[f64], exact: &Named) -> Named {
    let logits = op.logits();
    let (vocab, scale) = (
        logits.vocab(),
        1.0 / f64::from(logits.options().temperature),
    );
    let row = |i: usize| {
        let row = Row::new(logits, &inputs.logits, i);
        let given = (0..vocab).map(|v| given.get(i * vocab + v).map_or(0.0, |error| error * scale));
        Known::new(row, given.collect())
    };
    let rows: Vec<Known> = (0..logits.tokens()).map(row).collect();
    match op {
        LogitsOp::LogitsCe(op) => logits_ce(op, inputs, &rows),
        LogitsOp::Entropy(op) => entropy(op, inputs, &rows),
        LogitsOp::Grpo(op) => grpo(op, inputs, &rows, exact),
    }
}

/// A row, and what of it is off by how much.
struct Known {
    row: Row,
    /// Of `z` as it comes.
    given: Vec<f64>,
    /// Of `z` as it is used.
    z: Vec<f64>,
    lse: f64,
    entropy: f64,
}

impl Known {
    fn new(row: Row, given: Vec<f64>) -> Self {
        let Row { z, lse } = &row;
        let max = z.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mean = |of: &dyn Fn(usize) -> f64| -> f64 {
            let share = |v| match row.probability(v) {
                0.0 => 0.0,
                p => p * of(v),
            };
            (0..z.len()).map(share).sum()
        };
        let long_sum = K * Float::sqrt(z.len() as f64);
        let z_error: Vec<f64> = (z.iter().zip(&given))
            .map(|(z, given)| given + 2.0 * z.abs())
            .collect();
        // Differences z - max are rounded too, and again where the running maximum moves.
        let each = |v: usize| z_error[v] + 4.0 * (z[v] - max).abs();
        let spread = mean(&|v| (z[v] - max).abs());
        let lse_error = mean(&each) + long_sum + 2.0 * lse.abs() + 2.0 * (lse - max).abs() + 8.0;
        let moment = mean(&|v| (1.0 + (z[v] - max).abs()) * (each(v) + 4.0));
        let entropy = moment + mean(&each) + 2.0 * long_sum * (1.0 + spread) + 8.0;
        Self {
            z: z_error,
            lse: lse_error,
            entropy,
            given,
            row,
        }
    }

    /// The error of the label's logit as it comes.
    fn label(&self, label: i32) -> f64 {
        self.given[label as usize]
    }
}

/// Coefficients of the gradient of a row by `z`, each with its error.
#[derive(Clone, Copy, Default)]
struct Row4 {
    probability: [f64; 2],
    log_probability: [f64; 2],
    one_hot: [f64; 2],
    uniform: [f64; 2],
}

/// Errors of the gradient, from the coefficients and the label of each row.
fn gradient(problem: &Logits, rows: &[Known], row: impl Fn(usize) -> (Row4, i32)) -> Vec<f64> {
    let scale = 1.0 / f64::from(problem.options().temperature);
    let mut errors = Vec::new();
    for (i, of_row) in rows.iter().enumerate() {
        let exact = &of_row.row;
        let (c, label) = row(i);
        for v in 0..exact.z.len() {
            let p = exact.probability(v);
            // Far down p is 0, and so is its product with any logarithm.
            let log_p = (exact.z[v] - exact.lse).max(-200.0);
            let log_error = of_row.z[v] + of_row.lse + 2.0 * log_p.abs();
            let factor = c.probability[0].abs() + (c.log_probability[0] * log_p).abs();
            let factor_error = c.probability[1]
                + c.log_probability[1] * log_p.abs()
                + c.log_probability[0].abs() * log_error;
            let one_hot = match label == v as i32 {
                true => c.one_hot[1] + 4.0 * c.one_hot[0].abs(),
                false => 0.0,
            };
            let uniform = c.uniform[1] + 4.0 * c.uniform[0].abs();
            // What is not a normal number may be 0.
            let flushed = factor * p.min(f64::from(f32::MIN_POSITIVE)) / ROUNDOFF;
            let error =
                p * (factor * (log_error + 8.0) + factor_error) + flushed + one_hot + uniform;
            errors.push(scale * error);
        }
    }
    errors
}

fn logits_ce(op: &logits_ce::LogitsCe, inputs: &Inputs, rows: &[Known]) -> Named {
    let cotangents = ["d_loss", "d_logp", "d_lse"].map(|name| inputs.vector(name));
    let options = op.options();
    let (a, zl) = (
        f64::from(options.label_smoothing),
        f64::from(options.z_loss),
    );
    let v = op.logits().vocab() as f64;
    let counts = |i: usize| options.ignore_index != Some(inputs.labels[i]);
    let (mut loss, mut logp, mut lse) = (Vec::new(), Vec::new(), Vec::new());
    for (i, error) in rows.iter().enumerate() {
        let row = &error.row;
        lse.push(error.lse);
        if !counts(i) {
            loss.push(0.0);
            logp.push(0.0);
            continue;
        }
        let label = inputs.labels[i];
        let z = row.z[label as usize];
        let of_label = error.label(label);
        logp.push(error.lse + of_label + 4.0 * (z.abs() + row.lse.abs()));
        // 0 * inf is NaN: forbidden columns are infinite.
        let mean = match a > 0.0 {
            true => row.z.iter().map(|z| z.abs()).sum::<f64>() / v,
            false => 0.0,
        };
        let sizes = row.lse.abs() + z.abs() + a * mean + zl * row.lse * row.lse;
        let smooth = a * K * Float::sqrt(v) * mean;
        let given = of_label + a * error.given.iter().sum::<f64>() / v;
        loss.push(error.lse * (1.0 + 2.0 * zl * row.lse.abs()) + given + smooth + 8.0 * sizes);
    }
    let coefficients = |i: usize| {
        let g = |d: &[f64]| if counts(i) { d[i] } else { 0.0 };
        let (g, g_logp, g_lse) = (g(cotangents[0]), g(cotangents[1]), cotangents[2][i]);
        let exact = rows[i].row.lse;
        let slope = 1.0 + 2.0 * zl * exact;
        let sizes = g.abs() * (1.0 + 2.0 * zl * exact.abs()) + g_logp.abs() + g_lse.abs();
        let through_lse = 2.0 * zl * g.abs() * rows[i].lse;
        let row = Row4 {
            probability: [g * slope - g_logp + g_lse, 8.0 * sizes + through_lse],
            one_hot: [g * (1.0 - a) - g_logp, 8.0 * (g.abs() + g_logp.abs())],
            uniform: [g * a / v, 4.0 * (g * a / v).abs()],
            ..Row4::default()
        };
        (row, inputs.labels[i])
    };
    let d_logits = gradient(op.logits(), rows, coefficients);
    vec![
        ("loss", loss),
        ("logp", logp),
        ("lse", lse),
        ("d_logits", d_logits),
    ]
}

/// What a cotangent of the entropy adds.
fn entropy_terms(d: f64, known: &Known) -> Row4 {
    if d == 0.0 {
        return Row4::default();
    }
    let (entropy, error) = (known.row.entropy(), known.entropy);
    Row4 {
        probability: [d * entropy, d.abs() * (error + 4.0 * entropy.abs())],
        log_probability: [d, 4.0 * d.abs()],
        ..Row4::default()
    }
}

fn entropy(op: &entropy::Entropy, inputs: &Inputs, rows: &[Known]) -> Named {
    let d_entropy = inputs.vector("d_entropy");
    let each = |of: fn(&Known) -> f64| rows.iter().map(of).collect();
    let coefficients = |i: usize| (entropy_terms(d_entropy[i], &rows[i]), -1);
    vec![
        ("lse", each(|error| error.lse)),
        ("entropy", each(|error| error.entropy)),
        ("d_logits", gradient(op.logits(), rows, coefficients)),
    ]
}

fn grpo(op: &grpo::Grpo, inputs: &Inputs, rows: &[Known], exact: &Named) -> Named {
    let (exact_logp, exact_ratio) = (of_name(exact, "logp"), of_name(exact, "ratio"));
    let [mask, old_logp, ref_logp] =
        ["mask", "old_logp", "ref_logp"].map(|name| inputs.vector(name));
    let [d_loss, d_logp, d_ratio, d_entropy] =
        ["d_loss", "d_logp", "d_ratio", "d_entropy"].map(|name| inputs.vector(name));
    let options = op.options();
    let tokens = rows.len();
    let counts = |i: usize| mask.get(i).is_none_or(|&mask| mask != 0.0);
    let logp: Vec<f64> = (0..tokens)
        .map(|i| match counts(i) {
            true => {
                let sizes = exact_logp[i].abs() + 2.0 * rows[i].row.lse.abs();
                rows[i].lse + rows[i].label(inputs.labels[i]) + 4.0 * sizes
            }
            false => 0.0,
        })
        .collect();
    // A mean over a sequence is as exact as its least exact token, and its sum.
    let length = op.sequence_length();
    let over = |i: usize, of: &dyn Fn(usize) -> f64| -> f64 {
        let first = i / length * length;
        match options.ratio {
            grpo::Ratio::Token => of(i),
            grpo::Ratio::Sequence => {
                (first..first + length).map(of).fold(0.0, f64::max) * (1.0 + K)
            }
        }
    };
    let old = |i: usize| old_logp.get(i).map_or(0.0, |old| old.abs());
    let log_ratio = |i: usize| match options.old_logp && counts(i) {
        true => logp[i] + 4.0 * (exact_logp[i].abs() + old(i)),
        false => 0.0,
    };
    let ratio: Vec<f64> = (0..tokens)
        .map(|i| exact_ratio[i] * (over(i, &log_ratio) + 8.0))
        .collect();
    let beta = f64::from(options.kl_beta);
    let kl = |i: usize| match beta > 0.0 {
        true => {
            let d = ref_logp[i] - exact_logp[i];
            let error = logp[i] + 4.0 * (ref_logp[i].abs() + exact_logp[i].abs());
            beta * (Float::exp(d) + 1.0) * (error + 8.0 + 8.0 * d.abs())
        }
        false => 0.0,
    };
    let advantage = |i: usize| inputs.vector("advantage")[i].abs();
    let cispo = options.variant == grpo::Variant::Cispo;
    let token_loss = |i: usize| {
        let size = if cispo { exact_logp[i].abs() } else { 1.0 };
        let through_logp = if cispo { exact_ratio[i] * logp[i] } else { 0.0 };
        let ratio = size * (ratio[i] + 8.0 * exact_ratio[i]);
        advantage(i) * (ratio + through_logp) + kl(i)
    };
    // No share of the result is larger.
    let share = match options.per_token {
        true => 1.0,
        false => largest_share(op, mask),
    };
    let counted = |i: usize, error: f64| if counts(i) { error } else { 0.0 };
    let mut loss: Vec<f64> = (0..tokens)
        .map(|i| counted(i, share * token_loss(i)))
        .collect();
    if !options.per_token {
        loss = vec![loss.iter().sum()];
    }
    let g = |i: usize| share * d_loss[if options.per_token { i } else { 0 }].abs();
    let by_ratio = |i: usize| {
        let factor = if cispo { 0.0 } else { g(i) * advantage(i) };
        counted(
            i,
            (factor + d_ratio[i].abs()) * (ratio[i] + 8.0 * exact_ratio[i]),
        )
    };
    let coefficients = |i: usize| {
        let direct = d_logp[i].abs() * 8.0
            + g(i)
                * (kl(i)
                    + if cispo {
                        advantage(i) * (ratio[i] + 8.0 * exact_ratio[i])
                    } else {
                        0.0
                    });
        let error = counted(i, direct + over(i, &by_ratio));
        let size = counted(
            i,
            direct / 8.0 + over(i, &by_ratio) / 8.0 + g(i) * advantage(i) * exact_ratio[i],
        );
        let mut row = entropy_terms(d_entropy[i], &rows[i]);
        row.probability[0] = row.probability[0].abs() + size;
        row.probability[1] += error + 4.0 * size;
        row.one_hot = [size, error];
        (row, inputs.labels[i])
    };
    let each = |of: fn(&Known) -> f64| rows.iter().map(of).collect();
    let d_logits = gradient(op.logits(), rows, coefficients);
    vec![
        ("lse", each(|error| error.lse)),
        ("entropy", each(|error| error.entropy)),
        ("logp", logp),
        ("ratio", ratio),
        ("is_clipped", vec![0.0; tokens]),
        ("loss", loss),
        ("d_logits", d_logits),
    ]
}

/// The largest factor of a token's loss in the result.
fn largest_share(op: &grpo::Grpo, mask: &[f64]) -> f64 {
    let options = op.options();
    let counted = |range: core::ops::Range<usize>| -> f64 {
        let count = range
            .map(|i| mask.get(i).copied().unwrap_or(1.0))
            .sum::<f64>();
        count.max(1.0)
    };
    let (tokens, length) = (op.logits().tokens(), op.sequence_length());
    let sequences = op.sequences();
    match options.variant {
        grpo::Variant::Grpo => (0..sequences)
            .map(|s| 1.0 / (sequences as f64 * counted(s * length..(s + 1) * length)))
            .fold(0.0, f64::max),
        grpo::Variant::DrGrpo => 1.0 / (sequences * options.max_length.unwrap_or(length)) as f64,
        grpo::Variant::Dapo | grpo::Variant::Cispo if options.tokens_in_batch.is_some() => {
            1.0 / f64::from(options.tokens_in_batch.unwrap_or(1.0))
        }
        _ => 1.0 / counted(0..tokens),
    }
}
