//! Gradients of the reference against central differences of its loss, in f64.
//!
//! With `L` the sum of `d_loss * loss` and `d_lse * lse`, and `r` a random direction of signs, the
//! derivative `grad . r` is compared with `D(h) = (L(+h r) - L(-h r)) / 2h`. It errs by `a h^2 + O(h^4)`,
//! so `|D(2h) - D(h)|` is three times that of `D(h)`: a bound with room to spare. Rounding adds the
//! error of two sums of `n` terms over `2h`, with the bound of sums of [`tolerance`](super::tolerance)
//! and the roundoff of f64.

use tilecast::core::kernels::head::reference::Gradients;
use tilecast::core::kernels::linear_ce::{LinearCe, reference};

use super::compare::Errors;
use crate::cli::random::Random;

const STEP: f64 = 1e-4;
const DIRECTIONS: usize = 3;

/// The arrays there are gradients of.
#[derive(Clone, Copy, Debug)]
enum Wrt {
    X,
    W,
    Bias,
}

/// A problem and its exact gradients.
#[derive(Clone, Copy, Debug)]
pub(super) struct Differences<'a> {
    pub(super) problem: &'a LinearCe,
    pub(super) inputs: &'a reference::Inputs,
    pub(super) d_loss: &'a [f64],
    pub(super) d_lse: &'a [f64],
    pub(super) backward: &'a Gradients,
}

impl Differences<'_> {
    /// Errors of the directional derivatives.
    pub(super) fn errors(&self, seed: u64) -> Errors {
        let mut random = Random::new(seed);
        let mut errors = Errors::default();
        let gradients = [
            (Wrt::X, &self.backward.dx),
            (Wrt::W, &self.backward.dw),
            (Wrt::Bias, &self.backward.dbias),
        ];
        for (wrt, gradient) in gradients {
            if matches!(wrt, Wrt::Bias) && self.inputs.bias.is_empty() {
                continue;
            }
            for _ in 0..DIRECTIONS {
                let direction: Vec<f64> = gradient.iter().map(|_| random.sign()).collect();
                let terms = gradient.iter().zip(&direction);
                let derivative = terms.map(|(gradient, r)| gradient * r).sum();
                let [wide, near] = [2.0 * STEP, STEP].map(|step| {
                    let [ahead, back] = [step, -step].map(|step| self.at(wrt, &direction, step));
                    (ahead - back) / (2.0 * step)
                });
                let tolerance = (wide - near).abs() + self.rounding() / STEP;
                errors.push(near, derivative, tolerance);
            }
        }
        errors
    }

    /// `L` some steps away.
    fn at(&self, wrt: Wrt, direction: &[f64], step: f64) -> f64 {
        let mut inputs = self.inputs.clone();
        let moved = match wrt {
            Wrt::X => &mut inputs.x,
            Wrt::W => &mut inputs.w,
            Wrt::Bias => &mut inputs.bias,
        };
        for (value, r) in moved.iter_mut().zip(direction) {
            *value += step * r;
        }
        let forward = reference::forward(self.problem, &inputs);
        self.combined(&forward, |x| x)
    }

    fn combined(&self, forward: &reference::Forward, value: fn(f64) -> f64) -> f64 {
        let one_loss = forward.loss.len() == 1;
        let losses = forward.loss.iter().enumerate();
        let losses =
            losses.map(|(i, loss)| value(self.d_loss[if one_loss { 0 } else { i }] * loss));
        let lse = forward.lse.iter().zip(self.d_lse);
        losses.chain(lse.map(|(lse, d)| value(lse * d))).sum()
    }

    /// Rounding error of one value of `L`.
    fn rounding(&self) -> f64 {
        let forward = reference::forward(self.problem, self.inputs);
        let (b, h, v) = (
            self.problem.tokens(),
            self.problem.hidden(),
            self.problem.vocab(),
        );
        // The largest term of a logit, so many of them, for each unit of cotangent.
        let largest = |values: &[f64]| values.iter().fold(0.0_f64, |max, x| max.max(x.abs()));
        let logit = largest(&self.inputs.x) * largest(&self.inputs.w) * h as f64
            + largest(&self.inputs.bias);
        let asked = self
            .d_loss
            .iter()
            .chain(self.d_lse)
            .map(|d| d.abs())
            .sum::<f64>();
        let size = self.combined(&forward, f64::abs) + asked * logit;
        8.0 * ((b + h + v) as f64).sqrt() * (f64::EPSILON / 2.0) * size
    }
}
