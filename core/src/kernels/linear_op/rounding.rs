//! What a correct f32 evaluation may be off by, products of bf16 being exact.
//!
//! A logit is a sum over `H` in f32; its error is [followed](mod@crate::kernels::logits_op::rounding) to the outputs
//! and to delta, and from there, with [`K`]:
//!
//! ```text
//! dx     sum_v err(delta) |w| + K sqrt(V) sum_v |delta w|         dw: over B, with x
//! dbias  sum_i err(delta) + K sqrt(B) sum_i |delta|
//! ```
//!
//! Delta that meets its other factor in bf16 is rounded once more: by `K sqrt(sum (delta w)^2)` of that type's
//! roundoffs, where the signs of `w` are random, and by `sum |delta|` in the bias gradient. The roundings need not be
//! independent of `w`, since delta follows from it: with few hidden columns and logits that all but agree, those of
//! positive `w` can all be upwards. So what rounding the exact delta does to the sum, `|sum (bf16(delta) - delta) w|`,
//! is allowed as well. A gradient in bf16 is rounded again, which is not counted here. All errors are in units of the
//! f32 roundoff `2^-24`.

use alloc::vec;
use alloc::vec::Vec;

use half::bf16;
use num_traits::Float;

use super::{Inputs, LinearOp};
use crate::DType;
use crate::kernels::head::Head;
use crate::kernels::head::reference::slope;
use crate::kernels::logits_op::rounding::{K, errors as of_logits};
use crate::kernels::logits_op::{self, Named, of_name};

/// The roundoff of bf16 in units of that of f32.
const BF16: f64 = 65536.0;
/// Roundoffs of bf16 in one.
const IN_ONE: f64 = 256.0;

/// Errors of the outputs of the forward pass, which is `exact`, and of `dx`, `dw` and, with a bias, `dbias`. Delta is
/// of type `delta` where it is multiplied and summed.
pub fn errors(op: &LinearOp, inputs: &Inputs, exact: &Named, delta: DType) -> Named {
    let (head, stored) = (op.head(), inputs.stored(op));
    let given = logit_errors(head, inputs, &stored.logits);
    let mut found = of_logits(op.op(), &stored, &given, exact);
    let of_delta = of_name(&found, "d_logits").to_vec();
    found.retain(|(name, _)| *name != "d_logits");
    let d_logits = logits_op::reference::backward(op.op(), &stored);
    let [b, h, v] = [head.tokens(), head.hidden(), head.vocab()];
    let [mut dx, mut dw, mut dbias] = [b * h, h * v, v].map(Carried::new);
    for (at, (&d, &z)) in d_logits.iter().zip(&stored.logits).enumerate() {
        let (i, c) = (at / v, at % v);
        let derivative = slope(head, z);
        let mut error = of_delta[at] * derivative.abs();
        if let Some(cap) = head.options().soft_cap.map(f64::from) {
            let t = (z / cap).abs();
            error += d.abs() * (2.0 * t * given[at] / cap + 6.0 * t * t + 2.0);
        }
        let delta = d * derivative;
        dbias.add(c, delta, error, 1.0);
        for k in 0..h {
            dx.add(i * h + k, delta, error, inputs.w[k * v + c]);
            dw.add(k * v + c, delta, error, inputs.x[i * h + k]);
        }
    }
    let roundoff = match delta {
        DType::Bf16 => BF16,
        _ => 0.0,
    };
    let random = |of: &Carried, i: usize| {
        roundoff * (K * Float::sqrt(of.square[i]) + IN_ONE * of.rounding[i].abs())
    };
    found.push(("dx", dx.errors(v, random)));
    found.push(("dw", dw.errors(b, random)));
    if head.options().bias {
        let all = |of: &Carried, i: usize| roundoff * of.magnitude[i];
        found.push(("dbias", dbias.errors(b, all)));
    }
    found
}

/// Errors of the logits `z [B,V]`, as a head computes them.
fn logit_errors(head: &Head, inputs: &Inputs, z: &[f64]) -> Vec<f64> {
    let [h, v] = [head.hidden(), head.vocab()];
    let depth = Float::sqrt((h + usize::from(head.options().bias)) as f64);
    let error = |(at, &z): (usize, &f64)| {
        let (i, c) = (at / v, at % v);
        let products = (0..h).map(|k| (inputs.x[i * h + k] * inputs.w[k * v + c]).abs());
        let size = products.sum::<f64>() + inputs.bias.get(c).map_or(0.0, |bias| bias.abs());
        let error = K * depth * size;
        match head.options().soft_cap {
            None => error,
            // tanh to 2 ulp, one rounding on either side of it.
            Some(_) => error * slope(head, z) + 8.0 * z.abs(),
        }
    };
    z.iter().enumerate().map(error).collect()
}

/// What a product with delta carries of the errors of delta, for each of its elements.
#[derive(Clone, Debug)]
pub struct Carried {
    /// Sum of the errors of delta times the other factor.
    pub error: Vec<f64>,
    /// Sum of the magnitudes of the summands.
    pub magnitude: Vec<f64>,
    /// Sum of their squares.
    pub square: Vec<f64>,
    /// What the sum changes by where delta is rounded to bf16.
    pub rounding: Vec<f64>,
}

impl Carried {
    /// That of so many elements, without summands.
    pub fn new(len: usize) -> Self {
        let zero = || vec![0.0; len];
        Self {
            error: zero(),
            magnitude: zero(),
            square: zero(),
            rounding: zero(),
        }
    }

    /// Adds the summand `delta * factor` to element `i`; delta is off by `error`.
    pub fn add(&mut self, i: usize, delta: f64, error: f64, factor: f64) {
        self.error[i] += error * factor.abs();
        self.magnitude[i] += (delta * factor).abs();
        self.square[i] += (delta * factor) * (delta * factor);
        self.rounding[i] += (bf16::from_f64(delta).to_f64() - delta) * factor;
    }

    /// Errors of sums of `n` products; those of `rounding` delta, for each of the sums, among them.
    fn errors(&self, n: usize, rounding: impl Fn(&Self, usize) -> f64) -> Vec<f64> {
        let sum = K * Float::sqrt(n as f64);
        let error = |i: usize| self.error[i] + sum * self.magnitude[i] + rounding(self, i);
        (0..self.error.len()).map(error).collect()
    }
}
