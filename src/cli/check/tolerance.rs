//! [`Tolerance`]: how far the kernels may be from exact results, element by element.
//!
//! First-order error analysis of the formulas of the op, with `u = 2^-24`, half the distance of f32
//! numbers at 1.
//!
//! A sum of `n` terms in f32, in any order, is off by at most `g(n) = 8 sqrt(n) u` times the sum of
//! the absolute terms, except with probability `2 exp(-8^2 / 2) < 3e-14` per sum (Higham and Mary,
//! "A new approach to probabilistic rounding error analysis", SIAM J. Sci. Comput. 41, 2019,
//! theorem 2.4 with lambda = 8). An expression of a few operations on one element is off by at most
//! `e = 8u` of its absolute terms: no expression here has more than 8 roundings, functions of up to
//! 2 ulp counted as 4.
//!
//! With `d` for the error of what follows it, `c = |g| (1 + 2 zl |lse|) + |d_lse|` and `t` the target
//! distribution:
//!
//! ```text
//! d s     = g(H) (sum_h |x w| + |bias|)
//! d z     = d s                                           (+ e |z| with a soft cap, whose slope is below 1)
//! d lse   = sum_v p (d z + u |z - max|) + g(V) + e (|lse| + 1)
//! d loss  = share (d lse (1 + 2 zl |lse|) + sum_v t (d z + g(V) |z|) + e (|lse| + sum_v t |z| + zl lse^2))
//!           + r |loss|                                    r = g(B) + e for a mean: its divisor is a sum; else e
//! D       = (c p + |g| t) k                               bound of |delta|, k = 1 - (z / cap)^2
//! E       = (c p (d z + d lse + u |z - lse| + e) + |g| p 2 zl d lse + (c p + |g| t) r) k
//!           + (c p + |g| t) (2 |z| d z / cap^2 + e) + q D error of delta
//! d dx    = sum_v (E + g(V) D) |w| + o |dx|
//! d dw    = sum_i |x| (E + g(B) D) + o |dw|
//! d dbias = sum_i (E + g(B) D)
//! ```
//!
//! `q` is 2^-8 where delta meets `x` and `w` as bf16 (streaming, by default for bf16 inputs; in the matrix unit of a
//! TPU whenever they are bf16), twice that where it is made of stored exponentials, else 0; `o` is 2^-8 for a bf16
//! gradient, else 0: the rounding of the result. To all of this the smallest normal f32 is added, below which anything
//! may be 0.

use tilecast::core::kernels::head::reference::Gradients;
use tilecast::core::kernels::linear_ce::{LinearCe, reference};
use tilecast::sim::interpretation::delta_operand_dtype;
use tilecast::{DType, InDw, Reduction, Strategy};

pub(super) const U: f64 = 1.0 / (1 << 24) as f64;
const E: f64 = 8.0 * U;
/// Half the distance of bf16 numbers at 1.
pub(super) const BF16: f64 = 1.0 / (1 << 8) as f64;
pub(super) const SMALLEST: f64 = f32::MIN_POSITIVE as f64;

/// `g(n)`
pub(super) fn sum_of(terms: usize) -> f64 {
    8.0 * (terms as f64).sqrt() * U
}

/// The relative error of a number that is rounded to `dtype`, beside those of f32.
pub(super) fn rounding(dtype: DType) -> f64 {
    match dtype {
        DType::Bf16 => BF16,
        _ => 0.0,
    }
}

/// The largest allowed error of each element of each result.
#[derive(Clone, Debug)]
pub(super) struct Tolerance {
    pub(super) loss: Vec<f64>,
    pub(super) lse: Vec<f64>,
    pub(super) dx: Vec<f64>,
    pub(super) dw: Vec<f64>,
    pub(super) dbias: Vec<f64>,
}

/// A problem with exact results.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exact<'a> {
    pub(super) problem: &'a LinearCe,
    pub(super) inputs: &'a reference::Inputs,
    pub(super) d_loss: &'a [f64],
    pub(super) d_lse: &'a [f64],
    pub(super) forward: &'a reference::Forward,
    pub(super) backward: &'a Gradients,
}

/// One row of logits: values, errors, probabilities.
struct Row {
    z: Vec<f64>,
    d_z: Vec<f64>,
    p: Vec<f64>,
    target: Vec<f64>,
    lse: f64,
    d_lse: f64,
}

impl Exact<'_> {
    /// What a strategy may be off by on a CPU.
    pub(super) fn on_cpu(&self, strategy: Strategy) -> Tolerance {
        self.tolerance(rounding(self.problem.head().held_delta(strategy)))
    }

    /// What both passes in one may be off by on a CPU that stores logits in `dw`: of their exponentials, delta is
    /// rounded twice.
    pub(super) fn stored_in_dw(&self) -> Tolerance {
        let once = rounding(self.problem.delta_dtype());
        self.tolerance(match InDw::of(self.problem.head()) {
            Some(InDw::Exponentials) => 2.0 * once,
            _ => once,
        })
    }

    /// What a strategy may be off by on a TPU.
    pub(super) fn on_sim(&self, strategy: Strategy) -> Tolerance {
        self.tolerance(rounding(delta_operand_dtype(self.problem.head(), strategy)))
    }

    /// What may be off where delta meets `x` and `w` with a relative error of `held`.
    fn tolerance(&self, held: f64) -> Tolerance {
        let problem = self.problem;
        let (b, h, v) = (problem.tokens(), problem.hidden(), problem.vocab());
        let result = rounding(problem.grad_dtype());
        let rounded = |values: &[f64]| -> Vec<f64> {
            let round = |value: &f64| SMALLEST + result * value.abs();
            values.iter().map(round).collect()
        };
        let mut found = Tolerance {
            loss: vec![0.0; b],
            lse: vec![0.0; b],
            dx: rounded(&self.backward.dx),
            dw: rounded(&self.backward.dw),
            dbias: vec![SMALLEST; v],
        };
        let mut losses = 0.0;
        for i in 0..b {
            let row = self.row(i);
            found.lse[i] = row.d_lse + SMALLEST;
            let (loss, error) = self.loss(i, &row);
            losses += loss;
            found.loss[i] = error + SMALLEST;
            for column in 0..v {
                let (delta, error) = self.delta(i, column, &row);
                let error = error + held * delta;
                let (along_v, along_b) = (error + sum_of(v) * delta, error + sum_of(b) * delta);
                found.dbias[column] += along_b;
                for j in 0..h {
                    found.dx[i * h + j] += along_v * self.inputs.w[j * v + column].abs();
                    found.dw[j * v + column] += self.inputs.x[i * h + j].abs() * along_b;
                }
            }
        }
        if problem.options().reduction != Reduction::None {
            found.loss = vec![found.loss.iter().sum::<f64>() + sum_of(b) * losses];
        }
        found
    }

    fn row(&self, i: usize) -> Row {
        let (h, v) = (self.problem.hidden(), self.problem.vocab());
        let options = self.problem.options();
        let (mut z, mut d_z) = match self.inputs.bias.is_empty() {
            true => (vec![0.0; v], vec![0.0; v]),
            false => (
                self.inputs.bias.clone(),
                self.inputs.bias.iter().map(|bias| bias.abs()).collect(),
            ),
        };
        for j in 0..h {
            let x = self.inputs.x[i * h + j];
            let w = &self.inputs.w[j * v..][..v];
            for ((z, d_z), w) in z.iter_mut().zip(&mut d_z).zip(w) {
                *z += x * w;
                *d_z += (x * w).abs();
            }
        }
        for (z, d_z) in z.iter_mut().zip(&mut d_z) {
            *d_z *= sum_of(h);
            if let Some(cap) = options.soft_cap.map(f64::from) {
                *z = cap * (*z / cap).tanh();
                *d_z += E * z.abs();
            }
        }
        let lse = self.forward.lse[i];
        let max = z.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let p: Vec<f64> = z.iter().map(|z| (z - lse).exp()).collect();
        let weighted: f64 = (p.iter().zip(&z).zip(&d_z))
            .map(|((p, z), d_z)| p * (d_z + U * (z - max).abs()))
            .sum();
        let smoothing = f64::from(options.label_smoothing);
        let mut target = vec![smoothing / v as f64; v];
        if let Ok(label) = usize::try_from(self.inputs.labels[i])
            && label < v
        {
            target[label] += 1.0 - smoothing;
        }
        Row {
            d_lse: weighted + sum_of(v) + E * (lse.abs() + 1.0),
            z,
            d_z,
            p,
            target,
            lse,
        }
    }

    /// Relative error of a token's factor.
    fn share_error(&self) -> f64 {
        match self.problem.options().reduction {
            Reduction::Mean => sum_of(self.problem.tokens()) + E,
            _ => E,
        }
    }

    /// The factor of a token in the result.
    fn share(&self, i: usize) -> f64 {
        let options = self.problem.options();
        let counted = |i: usize| match options.ignore_index == Some(self.inputs.labels[i]) {
            true => 0.0,
            false => self.inputs.weight.get(i).copied().unwrap_or(1.0),
        };
        let share = counted(i);
        if share == 0.0 || options.reduction != Reduction::Mean {
            return share;
        }
        share / (0..self.problem.tokens()).map(counted).sum::<f64>()
    }

    /// A bound of the size of a token's loss, and its error.
    fn loss(&self, i: usize, row: &Row) -> (f64, f64) {
        let share = self.share(i).abs();
        let z_loss = f64::from(self.problem.options().z_loss);
        let vocab = self.problem.vocab();
        let over_target = |value: &dyn Fn(usize) -> f64| -> f64 {
            (0..vocab).map(|v| row.target[v] * value(v)).sum()
        };
        let d_target = over_target(&|v| row.d_z[v] + sum_of(vocab) * row.z[v].abs());
        let size = row.lse.abs() + over_target(&|v| row.z[v].abs()) + z_loss * row.lse * row.lse;
        let d_lse = row.d_lse * (1.0 + 2.0 * z_loss * row.lse.abs());
        let error = d_lse + d_target + (E + self.share_error()) * size;
        (share * size, share * error)
    }

    /// `D` and `E` of an element, without the rounding of delta to bf16.
    fn delta(&self, i: usize, v: usize, row: &Row) -> (f64, f64) {
        let options = self.problem.options();
        let z_loss = f64::from(options.z_loss);
        let d_loss = self.d_loss[if self.d_loss.len() == 1 { 0 } else { i }];
        let g = match self.share(i) {
            0.0 => 0.0,
            share => (share * d_loss).abs(),
        };
        let c = g * (1.0 + 2.0 * z_loss * row.lse.abs()) + self.d_lse[i].abs();
        let (z, d_z, p) = (row.z[v], row.d_z[v], row.p[v]);
        let size = c * p + g * row.target[v];
        let mut error = c * p * (d_z + row.d_lse + U * (z - row.lse).abs() + E)
            + g * p * 2.0 * z_loss * row.d_lse
            + size * self.share_error();
        let Some(cap) = options.soft_cap.map(f64::from) else {
            return (size, error);
        };
        let slope = 1.0 - (z / cap) * (z / cap);
        error = error * slope + size * (2.0 * z.abs() * d_z / (cap * cap) + E);
        (size * slope, error)
    }
}
