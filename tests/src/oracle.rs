//! [`Oracle`]: the reference's results, each with what a correct evaluation may be off by.
//!
//! Errors are followed to first order from the logits to the gradients, for any evaluation in which
//! every sum is f32 and no longer than `H`, `V` or `B`:
//!
//! ```text
//! z      k sqrt(H) u sum_h |x w|                       (the f32 sum over H)
//! lse    sum_v p_v err(z_v) + k sqrt(V) u + ...        (the f32 sum over V)
//! delta  p (|P| (err(z) + err(lse)) + err(P)) + ...    P: coefficient of the probability
//! dx     sum_v err(delta) |w| + k sqrt(V) u sum_v |delta w|
//! dw     sum_i err(delta) |x| + k sqrt(B) u sum_i |delta x|
//! ```
//!
//! Where the streaming strategy is asked to hold delta in bf16, it rounds it: `k u' sqrt(sum (delta w)^2)`, where the
//! signs of `w` are random, and what rounding the exact delta does to the sum, since the roundings may follow these
//! signs; in the bias gradient `u' sum |delta|` for each time that an element is rounded, which is twice if it was
//! made of a stored exponential. A gradient in bf16 is rounded once more, at the end.

use tilecast::{DType, Reduction};
use tilecast_core::kernels::head::reference::Gradients;
use tilecast_core::kernels::linear_ce::reference;
use tilecast_core::kernels::linear_op::rounding::Carried;

use crate::backend::Outputs;
use crate::case::{Case, Data, widen};
use crate::report::{Mismatch, compare};
use crate::tolerance::{K, Term, Tolerance, bf16_unit, f32_unit};

/// Expected results of a case.
#[derive(Clone, Debug)]
pub struct Oracle {
    case: Case,
    /// Loss and logsumexp.
    pub forward: reference::Forward,
    /// Gradients.
    pub backward: Gradients,
    errors: Errors,
}

/// What results may be off by before their last rounding, in units of the f32 roundoff, and the
/// magnitudes that further roundings act on.
#[derive(Clone, Debug)]
struct Errors {
    loss: Vec<f64>,
    lse: Vec<f64>,
    dx: Carried,
    dw: Carried,
    dbias: Carried,
}

/// What delta is multiplied with in a gradient.
#[derive(Clone, Copy)]
enum Factor {
    /// `x` or `w`: errors of delta partly cancel, but for what follows their signs.
    RandomSigns,
    /// Nothing: they may all point the same way.
    One,
}

impl Oracle {
    /// Computes what a case should give.
    pub fn new(case: &Case, data: &Data) -> Self {
        let (problem, inputs) = (case.problem(), data.reference_inputs());
        let (d_loss, d_lse) = (widen(&data.d_loss), widen(&data.d_lse));
        Self {
            case: case.clone(),
            forward: reference::forward(&problem, &inputs),
            backward: reference::backward(&problem, &inputs, &d_loss, &d_lse),
            errors: Errors::new(case, &inputs, &d_loss, &d_lse),
        }
    }

    /// Everything in which `outputs` differ from the reference.
    pub fn compare(&self, outputs: &Outputs) -> Vec<Mismatch> {
        let [b, h, v] = self.case.shape;
        let grad = self.case.problem().grad_dtype();
        let (forward, backward, errors) = (&self.forward, &self.backward, &self.errors);
        let dbias = match self.case.options.bias {
            true => &backward.dbias[..],
            false => &[],
        };
        let f32s = |error: &[f64], what| {
            Tolerance::exact().plus(Term {
                what,
                k: 1.0,
                unit: f32_unit(),
                depth: 1,
                magnitude: error.to_vec(),
            })
        };
        let gradient = |carried: &Carried, depth, other: Factor, values: &[f64], dtype| {
            let error = f32s(&carried.error, "delta in f32").plus(Term {
                what: "sum in f32",
                k: K,
                unit: f32_unit(),
                depth,
                magnitude: carried.magnitude.clone(),
            });
            let in_bf16 = |k, magnitude| Term {
                what: "delta in bf16",
                k,
                unit: bf16_unit(),
                depth: 1,
                magnitude,
            };
            let error = match (outputs.delta, other) {
                (DType::Bf16, Factor::RandomSigns) => error
                    .plus(in_bf16(
                        K,
                        carried.square.iter().map(|x| x.sqrt()).collect(),
                    ))
                    .plus(Term {
                        what: "the exact delta in bf16",
                        k: 1.0,
                        unit: 1.0,
                        depth: 1,
                        magnitude: carried.rounding.iter().map(|x| x.abs()).collect(),
                    }),
                (DType::Bf16, Factor::One) => {
                    let roundings = f64::from(outputs.delta_roundings);
                    error.plus(in_bf16(roundings, carried.magnitude.clone()))
                }
                _ => error,
            };
            match dtype {
                DType::Bf16 => error.rounded(bf16_unit(), values),
                _ => error.rounded(f32_unit(), values),
            }
        };
        let loss = f32s(&errors.loss, "logits and logsumexp in f32");
        let lse = f32s(&errors.lse, "logits and logsumexp in f32");
        let dx = gradient(&errors.dx, v, Factor::RandomSigns, &backward.dx, grad);
        let dw = gradient(&errors.dw, b, Factor::RandomSigns, &backward.dw, grad);
        let db = gradient(&errors.dbias, b, Factor::One, dbias, DType::F32);
        let losses = forward.loss.len();
        let f32 = DType::F32;
        [
            compare("loss", f32, &[losses], &outputs.loss, &forward.loss, &loss),
            compare("lse", f32, &[b], &outputs.lse, &forward.lse, &lse),
            compare("dx", grad, &[b, h], &outputs.dx, &backward.dx, &dx),
            compare("dw", grad, &[h, v], &outputs.dw, &backward.dw, &dw),
            compare("dbias", f32, &[dbias.len()], &outputs.dbias, dbias, &db),
        ]
        .into_iter()
        .filter_map(|result| result.err().map(|mismatch| *mismatch))
        .collect()
    }
}

impl Errors {
    fn new(case: &Case, inputs: &reference::Inputs, d_loss: &[f64], d_lse: &[f64]) -> Self {
        let [b, h, v] = case.shape;
        let options = &case.options;
        let (smoothing, z_loss) = (
            f64::from(options.label_smoothing),
            f64::from(options.z_loss),
        );
        let long_sum = |n: usize| K * (n as f64).sqrt();
        let mut errors = Self {
            loss: Vec::new(),
            lse: Vec::new(),
            dx: Carried::new(b * h),
            dw: Carried::new(h * v),
            dbias: Carried::new(if options.bias { v } else { 0 }),
        };
        for (i, share) in shares(case, inputs).into_iter().enumerate() {
            let Logits { z, error, slope } = Logits::new(case, inputs, i);
            let max = z.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = z.iter().map(|z| (z - max).exp()).sum();
            let lse = max + sum.ln();
            let p: Vec<f64> = z.iter().map(|z| (z - lse).exp()).collect();
            let expected = |of: &dyn Fn(usize) -> f64| -> f64 {
                p.iter().enumerate().map(|(c, p)| p * of(c)).sum()
            };
            // Differences z - max are rounded too, and again where the running maximum moves.
            let lse_error = expected(&|c| error[c] + 4.0 * (z[c] - max).abs())
                + long_sum(v)
                + 2.0 * lse.abs()
                + 2.0 * sum.ln()
                + 8.0;
            errors.lse.push(lse_error);

            let counts = share != 0.0;
            let mut loss_error = 0.0;
            if counts {
                let label = inputs.labels[i] as usize;
                let mean = |of: &dyn Fn(usize) -> f64| (0..v).map(of).sum::<f64>() / v as f64;
                let mean_size = mean(&|c| z[c].abs());
                let sizes = lse.abs() + z[label].abs() + smoothing * mean_size + z_loss * lse * lse;
                loss_error = lse_error * (1.0 + 2.0 * z_loss * lse.abs())
                    + error[label]
                    + smoothing * (mean(&|c| error[c]) + long_sum(v) * mean_size)
                    + 8.0 * sizes;
            }
            errors.loss.push(share.abs() * loss_error);

            let g = match counts {
                true => share * d_loss[if d_loss.len() == 1 { 0 } else { i }],
                false => 0.0,
            };
            let probability = g * (1.0 + 2.0 * z_loss * lse) + d_lse[i];
            let probability_error = g.abs() * 2.0 * z_loss * lse_error
                + 8.0 * (g.abs() * (1.0 + 2.0 * z_loss * lse.abs()) + d_lse[i].abs());
            for c in 0..v {
                let one_hot = match inputs.labels[i] == c as i32 {
                    true => 1.0 - smoothing,
                    false => 0.0,
                };
                let fixed = g * (one_hot + smoothing / v as f64);
                let raw = probability * p[c] - fixed;
                let p_error = p[c] * (error[c] + lse_error + 2.0 * (z[c] - lse).abs() + 4.0);
                let raw_error = probability.abs() * p_error
                    + p[c] * probability_error
                    + 8.0 * ((probability * p[c]).abs() + fixed.abs());
                let mut delta = raw;
                let mut delta_error = raw_error;
                if let Some(cap) = options.soft_cap {
                    let t = (z[c] / f64::from(cap)).abs();
                    let slope_error = 2.0 * t * error[c] / f64::from(cap) + 6.0 * t * t + 2.0;
                    delta = raw * slope[c];
                    delta_error = raw_error * slope[c].abs() + raw.abs() * slope_error;
                }
                if options.bias {
                    errors.dbias.add(c, delta, delta_error, 1.0);
                }
                for k in 0..h {
                    let (x, w) = (inputs.x[i * h + k], inputs.w[k * v + c]);
                    errors.dx.add(i * h + k, delta, delta_error, w);
                    errors.dw.add(k * v + c, delta, delta_error, x);
                }
            }
        }
        if errors.loss.len() != d_loss.len() {
            let sum: f64 = errors.loss.iter().sum();
            errors.loss = vec![sum];
        }
        errors
    }
}

/// A row of logits in f64, and what they may be off by in f32 units.
struct Logits {
    z: Vec<f64>,
    error: Vec<f64>,
    /// Derivative of the soft cap.
    slope: Vec<f64>,
}

impl Logits {
    fn new(case: &Case, inputs: &reference::Inputs, i: usize) -> Self {
        let [_, h, v] = case.shape;
        let mut z = match inputs.bias.is_empty() {
            true => vec![0.0; v],
            false => inputs.bias.clone(),
        };
        let mut size: Vec<f64> = z.iter().map(|z| z.abs()).collect();
        for k in 0..h {
            let x = inputs.x[i * h + k];
            for c in 0..v {
                let product = x * inputs.w[k * v + c];
                z[c] += product;
                size[c] += product.abs();
            }
        }
        let depth = h + usize::from(case.options.bias);
        let mut error: Vec<f64> = size
            .iter()
            .map(|size| K * (depth as f64).sqrt() * size)
            .collect();
        let mut slope = vec![1.0; v];
        if let Some(cap) = case.options.soft_cap.map(f64::from) {
            for c in 0..v {
                let t = (z[c] / cap).tanh();
                z[c] = cap * t;
                slope[c] = 1.0 - t * t;
                // tanh to 2 ulp, one rounding on either side of it.
                error[c] = error[c] * slope[c] + 8.0 * z[c].abs();
            }
        }
        Self { z, error, slope }
    }
}

/// The factor of each token in the result.
fn shares(case: &Case, inputs: &reference::Inputs) -> Vec<f64> {
    let counted = |i: usize| match case.options.ignore_index == Some(inputs.labels[i]) {
        true => 0.0,
        false => inputs.weight.get(i).copied().unwrap_or(1.0),
    };
    let counted: Vec<f64> = (0..case.shape[0]).map(counted).collect();
    let sum: f64 = counted.iter().sum();
    match case.options.reduction {
        Reduction::Mean if sum == 0.0 => vec![0.0; counted.len()],
        Reduction::Mean => counted.iter().map(|share| share / sum).collect(),
        _ => counted,
    }
}
