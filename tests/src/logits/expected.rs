//! What a case should give, with what a correct f32 evaluation may be off by.
//!
//! Errors are followed to first order, in units of the f32 roundoff: `z` is off by two roundings, `lse` and
//! `entropy` by the errors of `z` under their derivatives and by a sum over the vocabulary, a coefficient
//! by those of what it is made of. Last, `d = (P + Q log p) p - O - U` with each of its parts.

use tilecast::DType;
use tilecast::core::kernels::softmax::reference::Row;
use tilecast::core::kernels::{entropy, grpo, logits_ce};

use super::{Case, Data, Problem};
use crate::case::widen;
use crate::report::{Mismatch, compare};
use crate::tolerance::{K, Term, Tolerance, bf16_unit, f32_unit};

/// Expected values of one output.
#[derive(Clone, Debug)]
pub struct Expected {
    /// Output.
    pub name: &'static str,
    dtype: DType,
    dims: Vec<usize>,
    /// Values.
    pub values: Vec<f64>,
    /// What they may be off by, in units of the f32 roundoff.
    errors: Vec<f64>,
}

/// Errors of what is known of a row.
struct RowErrors {
    z: Vec<f64>,
    lse: f64,
    entropy: f64,
}

impl RowErrors {
    fn new(row: &Row) -> Self {
        let Row { z, lse } = row;
        let max = z.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mean = |of: &dyn Fn(usize) -> f64| -> f64 {
            let share = |v| match row.probability(v) {
                0.0 => 0.0,
                p => p * of(v),
            };
            (0..z.len()).map(share).sum()
        };
        let long_sum = K * (z.len() as f64).sqrt();
        let z_error: Vec<f64> = z.iter().map(|z| 2.0 * z.abs()).collect();
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
        }
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

impl Expected {
    /// All outputs of a case.
    pub fn of(case: &Case, data: &Data) -> Vec<Self> {
        match case.problem() {
            Problem::LogitsCe(op) => logits_ce(case, &op, data),
            Problem::Entropy(op) => entropy(case, &op, data),
            Problem::Grpo(op) => grpo(case, &op, data),
        }
    }

    /// Compares what was computed.
    ///
    /// # Errors
    /// The largest differences and the first.
    pub fn compare(&self, got: &[f32]) -> Result<(), Box<Mismatch>> {
        let error = Tolerance::exact().plus(Term {
            what: "f32 arithmetic",
            k: 1.0,
            unit: f32_unit(),
            depth: 1,
            magnitude: self.errors.clone(),
        });
        let unit = match self.dtype {
            DType::Bf16 => bf16_unit(),
            _ => f32_unit(),
        };
        let tolerance = error.rounded(unit, &self.values);
        let Self {
            name, dtype, dims, ..
        } = self;
        compare(name, *dtype, dims, got, &self.values, &tolerance)
    }

    fn vector(name: &'static str, values: &[f64], errors: Vec<f64>) -> Self {
        Self {
            name,
            dtype: DType::F32,
            dims: vec![values.len()],
            values: values.to_vec(),
            errors,
        }
    }

    fn gradient(
        case: &Case,
        rows: &[Row],
        row: impl Fn(usize) -> (Row4, i32),
        values: Vec<f64>,
    ) -> Self {
        let problem = case.problem();
        let scale = 1.0 / f64::from(problem.logits().options().temperature);
        let mut errors = Vec::new();
        for (i, known) in rows.iter().enumerate() {
            let of_row = RowErrors::new(known);
            let (c, label) = row(i);
            for v in 0..known.z.len() {
                let p = known.probability(v);
                // Far down p is 0, and so is its product with any logarithm.
                let log_p = (known.z[v] - known.lse).max(-200.0);
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
                let error = p * (factor * (log_error + 8.0) + factor_error) + one_hot + uniform;
                errors.push(scale * error);
            }
        }
        let name = match problem.logits().options().in_place {
            true => "logits",
            false => "d_logits",
        };
        Self {
            name,
            dtype: problem.logits().grad_dtype(),
            dims: case.shape.to_vec(),
            values,
            errors,
        }
    }
}

fn rows(case: &Case, logits: &[f64]) -> Vec<Row> {
    let problem = case.problem();
    let row = |i| Row::new(problem.logits(), logits, i);
    (0..case.shape[0]).map(row).collect()
}

fn logits_ce(case: &Case, op: &logits_ce::LogitsCe, data: &Data) -> Vec<Expected> {
    let logits = widen(&data.logits);
    let forward = logits_ce::reference::forward(op, &logits, &data.labels);
    let cotangents = ["d_loss", "d_logp", "d_lse"].map(|name| data.wide(name));
    let values = logits_ce::reference::backward(
        op,
        &logits,
        &data.labels,
        cotangents.each_ref().map(|d| &d[..]),
    );
    let rows = rows(case, &logits);
    let options = op.options();
    let (a, zl) = (
        f64::from(options.label_smoothing),
        f64::from(options.z_loss),
    );
    let v = case.shape[1] as f64;
    let counts = |i: usize| options.ignore_index != Some(data.labels[i]);
    let (mut loss, mut logp, mut lse) = (Vec::new(), Vec::new(), Vec::new());
    for (i, row) in rows.iter().enumerate() {
        let error = RowErrors::new(row);
        lse.push(error.lse);
        if !counts(i) {
            (loss.push(0.0), logp.push(0.0));
            continue;
        }
        let z = row.z[data.labels[i] as usize];
        logp.push(error.lse + 4.0 * (z.abs() + row.lse.abs()));
        // 0 * inf is NaN: forbidden columns are infinite.
        let mean = match a > 0.0 {
            true => row.z.iter().map(|z| z.abs()).sum::<f64>() / v,
            false => 0.0,
        };
        let sizes = row.lse.abs() + z.abs() + a * mean + zl * row.lse * row.lse;
        let smooth = a * K * v.sqrt() * mean;
        loss.push(error.lse * (1.0 + 2.0 * zl * row.lse.abs()) + smooth + 8.0 * sizes);
    }
    let coefficients = |i: usize| {
        let g = |d: &[f64]| if counts(i) { d[i] } else { 0.0 };
        let (g, g_logp, g_lse) = (g(&cotangents[0]), g(&cotangents[1]), cotangents[2][i]);
        let slope = 1.0 + 2.0 * zl * rows[i].lse;
        let sizes = g.abs() * (1.0 + 2.0 * zl * rows[i].lse.abs()) + g_logp.abs() + g_lse.abs();
        let through_lse = 2.0 * zl * g.abs() * RowErrors::new(&rows[i]).lse;
        let row = Row4 {
            probability: [g * slope - g_logp + g_lse, 8.0 * sizes + through_lse],
            one_hot: [g * (1.0 - a) - g_logp, 8.0 * (g.abs() + g_logp.abs())],
            uniform: [g * a / v, 4.0 * (g * a / v).abs()],
            ..Row4::default()
        };
        (row, data.labels[i])
    };
    vec![
        Expected::vector("loss", &forward.loss, loss),
        Expected::vector("logp", &forward.logp, logp),
        Expected::vector("lse", &forward.lse, lse),
        Expected::gradient(case, &rows, coefficients, values),
    ]
}

/// What a cotangent of the entropy adds.
fn entropy_terms(d: f64, row: &Row) -> Row4 {
    if d == 0.0 {
        return Row4::default();
    }
    let (entropy, error) = (row.entropy(), RowErrors::new(row).entropy);
    Row4 {
        probability: [d * entropy, d.abs() * (error + 4.0 * entropy.abs())],
        log_probability: [d, 4.0 * d.abs()],
        ..Row4::default()
    }
}

fn entropy(case: &Case, op: &entropy::Entropy, data: &Data) -> Vec<Expected> {
    let logits = widen(&data.logits);
    let [lse, entropy] = entropy::reference::forward(op, &logits);
    let d_entropy = data.wide("d_entropy");
    let values = entropy::reference::backward(op, &logits, &d_entropy);
    let rows = rows(case, &logits);
    let errors: Vec<_> = rows.iter().map(RowErrors::new).collect();
    let each = |of: fn(&RowErrors) -> f64| errors.iter().map(of).collect();
    vec![
        Expected::vector("lse", &lse, each(|error| error.lse)),
        Expected::vector("entropy", &entropy, each(|error| error.entropy)),
        Expected::gradient(
            case,
            &rows,
            |i| (entropy_terms(d_entropy[i], &rows[i]), -1),
            values,
        ),
    ]
}

/// The inputs of the policy loss as its reference takes them.
pub(super) fn grpo_inputs(data: &Data) -> grpo::reference::Inputs {
    grpo::reference::Inputs {
        logits: widen(&data.logits),
        labels: data.labels.clone(),
        advantage: data.wide("advantage"),
        old_logp: data.wide("old_logp"),
        ref_logp: data.wide("ref_logp"),
        mask: data.wide("mask"),
    }
}

fn grpo(case: &Case, op: &grpo::Grpo, data: &Data) -> Vec<Expected> {
    let inputs = grpo_inputs(data);
    let cotangents = grpo::reference::Cotangents {
        loss: data.wide("d_loss"),
        logp: data.wide("d_logp"),
        ratio: data.wide("d_ratio"),
        entropy: data.wide("d_entropy"),
    };
    let forward = grpo::reference::forward(op, &inputs);
    let values = grpo::reference::backward(op, &inputs, &cotangents);
    let options = op.options();
    let rows = rows(case, &inputs.logits);
    let errors: Vec<_> = rows.iter().map(RowErrors::new).collect();
    let tokens = rows.len();
    let counts = |i: usize| inputs.mask.get(i).is_none_or(|&mask| mask != 0.0);
    let logp: Vec<f64> = (0..tokens)
        .map(|i| match counts(i) {
            true => errors[i].lse + 4.0 * (forward.logp[i].abs() + 2.0 * rows[i].lse.abs()),
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
    let old = |i: usize| inputs.old_logp.get(i).map_or(0.0, |old| old.abs());
    let log_ratio = |i: usize| match options.old_logp && counts(i) {
        true => logp[i] + 4.0 * (forward.logp[i].abs() + old(i)),
        false => 0.0,
    };
    let ratio: Vec<f64> = (0..tokens)
        .map(|i| forward.ratio[i] * (over(i, &log_ratio) + 8.0))
        .collect();
    let beta = f64::from(options.kl_beta);
    let kl = |i: usize| match beta > 0.0 {
        true => {
            let d = inputs.ref_logp[i] - forward.logp[i];
            let error = logp[i] + 4.0 * (inputs.ref_logp[i].abs() + forward.logp[i].abs());
            beta * (d.exp() + 1.0) * (error + 8.0 + 8.0 * d.abs())
        }
        false => 0.0,
    };
    let advantage = |i: usize| inputs.advantage[i].abs();
    let cispo = options.variant == grpo::Variant::Cispo;
    let token_loss = |i: usize| {
        let size = if cispo { forward.logp[i].abs() } else { 1.0 };
        let through_logp = if cispo {
            forward.ratio[i] * logp[i]
        } else {
            0.0
        };
        let ratio = size * (ratio[i] + 8.0 * forward.ratio[i]);
        advantage(i) * (ratio + through_logp) + kl(i)
    };
    // No share of the result is larger.
    let share = match options.per_token {
        true => 1.0,
        false => largest_share(op, &inputs),
    };
    let counted = |i: usize, error: f64| if counts(i) { error } else { 0.0 };
    let mut loss: Vec<f64> = (0..tokens)
        .map(|i| counted(i, share * token_loss(i)))
        .collect();
    if !options.per_token {
        loss = vec![loss.iter().sum()];
    }
    let g = |i: usize| share * cotangents.loss[if options.per_token { i } else { 0 }].abs();
    let by_ratio = |i: usize| {
        let factor = if cispo { 0.0 } else { g(i) * advantage(i) };
        counted(
            i,
            (factor + cotangents.ratio[i].abs()) * (ratio[i] + 8.0 * forward.ratio[i]),
        )
    };
    let coefficients = |i: usize| {
        let direct = cotangents.logp[i].abs() * 8.0
            + g(i)
                * (kl(i)
                    + if cispo {
                        advantage(i) * (ratio[i] + 8.0 * forward.ratio[i])
                    } else {
                        0.0
                    });
        let error = counted(i, direct + over(i, &by_ratio));
        let size = counted(
            i,
            direct / 8.0 + over(i, &by_ratio) / 8.0 + g(i) * advantage(i) * forward.ratio[i],
        );
        let mut row = entropy_terms(cotangents.entropy[i], &rows[i]);
        row.probability[0] = row.probability[0].abs() + size;
        row.probability[1] += error + 4.0 * size;
        row.one_hot = [size, error];
        (row, data.labels[i])
    };
    let each = |of: fn(&RowErrors) -> f64| errors.iter().map(of).collect();
    vec![
        Expected::vector("lse", &forward.lse, each(|error| error.lse)),
        Expected::vector("entropy", &forward.entropy, each(|error| error.entropy)),
        Expected::vector("logp", &forward.logp, logp.clone()),
        Expected::vector("ratio", &forward.ratio, ratio.clone()),
        Expected::vector("is_clipped", &forward.is_clipped, vec![0.0; tokens]),
        Expected::vector("loss", &forward.loss, loss),
        Expected::gradient(case, &rows, coefficients, values),
    ]
}

/// The largest factor of a token's loss in the result.
fn largest_share(op: &grpo::Grpo, inputs: &grpo::reference::Inputs) -> f64 {
    let options = op.options();
    let counted = |range: std::ops::Range<usize>| -> f64 {
        let count = range
            .map(|i| inputs.mask.get(i).copied().unwrap_or(1.0))
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
