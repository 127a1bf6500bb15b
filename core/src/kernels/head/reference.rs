//! A head in f64, the obvious way: what the references of the ops on it are made of.

use alloc::vec;
use alloc::vec::Vec;

use num_traits::Float;

use super::Head;

/// What logits are made of, row-major.
#[derive(Clone, Copy, Debug)]
pub struct Operands<'a> {
    /// `[B,H]`
    pub x: &'a [f64],
    /// `[H,V]`
    pub w: &'a [f64],
    /// `[V]`, or empty for none.
    pub bias: &'a [f64],
}

/// Gradients.
#[derive(Clone, Debug)]
pub struct Gradients {
    /// `[B,H]`
    pub dx: Vec<f64>,
    /// `[H,V]`
    pub dw: Vec<f64>,
    /// `[V]`
    pub dbias: Vec<f64>,
}

impl Operands<'_> {
    /// Row `i` of the logits, after bias and soft cap.
    pub fn logits(&self, head: &Head, i: usize) -> Vec<f64> {
        let (hidden, vocab) = (head.hidden(), head.vocab());
        let mut z = match self.bias.is_empty() {
            true => vec![0.0; vocab],
            false => self.bias.to_vec(),
        };
        for h in 0..hidden {
            let x = self.x[i * hidden + h];
            for (z, w) in z.iter_mut().zip(&self.w[h * vocab..]) {
                *z += x * w;
            }
        }
        if let Some(cap) = head.options().soft_cap {
            let cap = f64::from(cap);
            z.iter_mut().for_each(|z| *z = cap * Float::tanh(*z / cap));
        }
        z
    }
}

impl Gradients {
    /// Zeros.
    pub fn new(head: &Head) -> Self {
        Self {
            dx: vec![0.0; head.tokens() * head.hidden()],
            dw: vec![0.0; head.hidden() * head.vocab()],
            dbias: vec![0.0; head.vocab()],
        }
    }

    /// Adds what the logit `z` in row `i` and column `v` contributes, `d` being its gradient.
    pub fn add(&mut self, head: &Head, of: &Operands<'_>, [i, v]: [usize; 2], z: f64, d: f64) {
        let (hidden, vocab) = (head.hidden(), head.vocab());
        let delta = d * slope(head, z);
        self.dbias[v] += delta;
        for h in 0..hidden {
            self.dx[i * hidden + h] += delta * of.w[h * vocab + v];
            self.dw[h * vocab + v] += delta * of.x[i * hidden + h];
        }
    }
}

/// The derivative of the soft cap whose result is `z`.
pub fn slope(head: &Head, z: f64) -> f64 {
    match head.options().soft_cap {
        None => 1.0,
        Some(cap) => {
            let t = z / f64::from(cap);
            1.0 - t * t
        }
    }
}
