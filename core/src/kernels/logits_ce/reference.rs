//! The obvious f64 loop, never optimised: what every backend is compared with.

use alloc::vec;
use alloc::vec::Vec;

use super::LogitsCe;
use crate::kernels::softmax::reference::Row;

/// Results of the forward pass, each `[B]`.
#[derive(Clone, Debug, Default)]
pub struct Forward {
    /// Loss.
    pub loss: Vec<f64>,
    /// Log-probability of the label.
    pub logp: Vec<f64>,
    /// Logsumexp.
    pub lse: Vec<f64>,
}

/// Loss, log-probability and logsumexp of `logits [B,V]`, row-major.
pub fn forward(problem: &LogitsCe, logits: &[f64], labels: &[i32]) -> Forward {
    let options = problem.options();
    let smoothing = f64::from(options.label_smoothing);
    let mut out = Forward::default();
    for (i, &label) in labels.iter().enumerate() {
        let Row { z, lse } = Row::new(problem.logits(), logits, i);
        out.lse.push(lse);
        if options.ignore_index == Some(label) {
            out.loss.push(0.0);
            out.logp.push(0.0);
            continue;
        }
        let picked = z[label as usize];
        let mut loss = lse - (1.0 - smoothing) * picked;
        // 0 * inf is NaN: a term that is switched off must not be computed.
        if smoothing > 0.0 {
            loss -= smoothing * z.iter().sum::<f64>() / z.len() as f64;
        }
        if options.z_loss > 0.0 {
            loss += f64::from(options.z_loss) * lse * lse;
        }
        out.loss.push(loss);
        out.logp.push(picked - lse);
    }
    out
}

/// `d_logits [B,V]` from the cotangents of loss, log-probability and logsumexp, each `[B]`.
pub fn backward(
    problem: &LogitsCe,
    logits: &[f64],
    labels: &[i32],
    [d_loss, d_logp, d_lse]: [&[f64]; 3],
) -> Vec<f64> {
    let options = problem.options();
    let (vocab, smoothing) = (problem.logits().vocab(), f64::from(options.label_smoothing));
    let temperature = f64::from(problem.logits().options().temperature);
    let mut out = vec![0.0; logits.len()];
    for (i, &label) in labels.iter().enumerate() {
        let row = Row::new(problem.logits(), logits, i);
        let (g, g_logp) = match options.ignore_index == Some(label) {
            true => (0.0, 0.0),
            false => (d_loss[i], d_logp[i]),
        };
        let mut probability = g - g_logp + d_lse[i];
        if options.z_loss > 0.0 && g != 0.0 {
            probability += g * 2.0 * f64::from(options.z_loss) * row.lse;
        }
        if g == 0.0 && g_logp == 0.0 && probability == 0.0 {
            continue;
        }
        for (v, out) in out[i * vocab..][..vocab].iter_mut().enumerate() {
            let mut d = probability * row.probability(v) - g * smoothing / vocab as f64;
            if label == v as i32 {
                d -= g * (1.0 - smoothing) - g_logp;
            }
            *out = d / temperature;
        }
    }
    out
}
