//! The obvious f64 loop, never optimised: what every backend is compared with.

use alloc::vec;
use alloc::vec::Vec;

use super::Entropy;
use crate::kernels::softmax::reference::Row;

/// Logsumexp and entropy of each row of `logits [B,V]`, row-major.
pub fn forward(problem: &Entropy, logits: &[f64]) -> [Vec<f64>; 2] {
    let rows = (0..problem.logits().tokens()).map(|i| Row::new(problem.logits(), logits, i));
    let (lse, entropy) = rows.map(|row| (row.lse, row.entropy())).unzip();
    [lse, entropy]
}

/// `d_logits [B,V]` from `d_entropy [B]`.
pub fn backward(problem: &Entropy, logits: &[f64], d_entropy: &[f64]) -> Vec<f64> {
    let vocab = problem.logits().vocab();
    let temperature = f64::from(problem.logits().options().temperature);
    let mut out = vec![0.0; logits.len()];
    for (i, &d) in d_entropy.iter().enumerate().filter(|(_, d)| **d != 0.0) {
        let row = Row::new(problem.logits(), logits, i);
        let entropy = row.entropy();
        for (v, out) in out[i * vocab..][..vocab].iter_mut().enumerate() {
            *out = -d * (row.p_log_p(v) + row.probability(v) * entropy) / temperature;
        }
    }
    out
}
