//! Gradients of the ops on logits against finite differences.

use tilecast::core::kernels::grpo::{self, Grpo, Variant};
use tilecast::core::kernels::logits_op::{self, LogitsOp, Named, of_name, reference, rounding};

use crate::cli::check::compare::Errors;
use crate::cli::error::CliError;
use crate::cli::random::Random;

/// The gradient against central differences of the combination of outputs that the cotangents ask for, in f64: along
/// random directions `r` of signs, as for the [fused head](super::super::differences).
pub(in crate::cli::check) struct Differences {
    op: LogitsOp,
    inputs: logits_op::Inputs,
    /// What is added up: an output, with its weights.
    terms: Named,
}

impl Differences {
    const STEP: f64 = 1e-4;
    const DIRECTIONS: usize = 3;

    /// What is differentiated is not what is computed where the op holds something without a gradient: there it takes
    /// the values of this point.
    pub(in crate::cli::check) fn new(
        op: &LogitsOp,
        inputs: &logits_op::Inputs,
    ) -> Result<Self, CliError> {
        let mut found = Self {
            op: *op,
            inputs: inputs.clone(),
            terms: Vec::new(),
        };
        for name in op.differentiable() {
            let cotangent = inputs.vector(&format!("d_{name}"));
            found.terms.push((name, cotangent.into()));
        }
        let LogitsOp::Grpo(policy) = op else {
            return Ok(found);
        };
        let (logits, options) = (policy.logits(), *policy.options());
        let here = reference::forward(op, inputs);
        if !options.old_logp {
            let old_logp = true;
            let policy = grpo::Options {
                old_logp,
                ..options
            };
            let policy = Grpo::new(logits.tokens(), logits.vocab(), logits.dtype(), policy)?;
            found.op = LogitsOp::Grpo(policy);
            let logp = of_name(&here, "logp").to_vec();
            found.inputs.vectors.push(("old_logp", logp));
        }
        if options.variant == Variant::Cispo {
            // The clipped ratio is a weight of the log-probability.
            let counted = inputs.vector("mask").iter().sum::<f64>().max(1.0);
            let divisor = options.tokens_in_batch.map_or(counted, f64::from);
            let share = if options.per_token {
                1.0
            } else {
                1.0 / divisor
            };
            let (d_loss, advantage) = (inputs.vector("d_loss"), inputs.vector("advantage"));
            let weight = of_name(&here, "ratio")
                .iter()
                .enumerate()
                .map(|(i, ratio)| {
                    let d_loss = d_loss[if d_loss.len() == 1 { 0 } else { i }];
                    -share * d_loss * advantage[i] * ratio.min(f64::from(options.clip_high))
                });
            found.terms.push(("logp", weight.collect()));
            let vectors = found.inputs.vectors.iter_mut();
            let advantages = vectors.filter(|(name, _)| *name == "advantage");
            advantages.for_each(|(_, values)| values.fill(0.0));
        }
        Ok(found)
    }

    /// Of the gradient of the logits.
    pub(in crate::cli::check) fn errors(&self, gradient: &[f64], seed: u64) -> Errors {
        let logits = |direction: &[f64], step: f64| {
            let moved = self.inputs.logits.iter().zip(direction);
            moved.map(|(logit, r)| logit + step * r).collect()
        };
        self.errors_along(gradient, logits, seed)
    }

    /// Of the gradient of what the logits are made of: `logits` are those some steps along a direction.
    pub(in crate::cli::check) fn errors_along(
        &self,
        gradient: &[f64],
        logits: impl Fn(&[f64], f64) -> Vec<f64>,
        seed: u64,
    ) -> Errors {
        let mut random = Random::new(seed);
        let mut errors = Errors::default();
        for _ in 0..Self::DIRECTIONS {
            let direction: Vec<f64> = gradient.iter().map(|_| random.sign()).collect();
            let terms = gradient.iter().zip(&direction);
            let derivative = terms.map(|(gradient, r)| gradient * r).sum();
            let [wide, near] = [2.0 * Self::STEP, Self::STEP].map(|step| {
                let [ahead, back] =
                    [step, -step].map(|step| self.at(logits(&direction, step), |x| x));
                (ahead - back) / (2.0 * step)
            });
            let tolerance = (wide - near).abs() + self.rounding() / Self::STEP;
            errors.push(near, derivative, tolerance);
        }
        errors
    }

    /// The sum of the terms at given logits.
    fn at(&self, logits: Vec<f64>, value: fn(f64) -> f64) -> f64 {
        let inputs = logits_op::Inputs {
            logits,
            ..self.inputs.clone()
        };
        let forward = reference::forward(&self.op, &inputs);
        let of = |(name, weights): &(&str, Vec<f64>)| -> f64 {
            let terms = of_name(&forward, name).iter().zip(weights);
            terms.map(|(output, d)| value(output * d)).sum()
        };
        self.terms.iter().map(of).sum()
    }

    /// Rounding error of one value: that of sums over rows and columns, of terms as large as the largest logit.
    fn rounding(&self) -> f64 {
        let logits = self.op.logits();
        let largest = self
            .inputs
            .logits
            .iter()
            .fold(0.0_f64, |max, x| max.max(x.abs()));
        let largest = largest * f64::from(logits.scale());
        let asked: f64 = self
            .terms
            .iter()
            .flat_map(|(_, d)| d)
            .map(|d| d.abs())
            .sum();
        let size = self.at(self.inputs.logits.clone(), f64::abs) + asked * largest;
        let terms = (logits.tokens() + logits.vocab()) as f64;
        rounding::K * terms.sqrt() * (f64::EPSILON / 2.0) * size
    }
}
