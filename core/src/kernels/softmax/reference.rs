//! A row of logits in f64, the obvious way: what the references of the ops are made of.

use alloc::vec::Vec;

use num_traits::Float;

use super::Logits;

/// Statistics of one row.
#[derive(Clone, Debug)]
pub struct Row {
    /// Logits divided by the temperature.
    pub z: Vec<f64>,
    /// Their logsumexp.
    pub lse: f64,
}

impl Row {
    /// Row `i` of row-major `logits [B,V]`.
    pub fn new(problem: &Logits, logits: &[f64], i: usize) -> Self {
        let (vocab, temperature) = (problem.vocab(), f64::from(problem.options().temperature));
        let z: Vec<f64> = (logits[i * vocab..][..vocab].iter())
            .map(|x| x / temperature)
            .collect();
        let max = z.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        // Not finite: inf - inf makes the row NaN, as log-softmax does in every framework.
        let lse = max + Float::ln(z.iter().map(|z| Float::exp(z - max)).sum::<f64>());
        Self { z, lse }
    }

    /// `p_v`
    pub fn probability(&self, v: usize) -> f64 {
        Float::exp(self.z[v] - self.lse)
    }

    /// `p_v log p_v`, 0 where `p_v` is.
    pub fn p_log_p(&self, v: usize) -> f64 {
        match self.probability(v) {
            0.0 => 0.0,
            p => p * (self.z[v] - self.lse),
        }
    }

    /// `-sum_v p_v log p_v`
    pub fn entropy(&self) -> f64 {
        -(0..self.z.len()).map(|v| self.p_log_p(v)).sum::<f64>()
    }
}
