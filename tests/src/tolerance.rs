//! [`Tolerance`]: how far a correct result may be from the exact one, and why.
//!
//! A sum of `n` products in f32 is off by at most `k u sqrt(n)` times the sum of their magnitudes,
//! `u` being the unit roundoff, with a probability of all but `2 n exp(-k^2 / 2)` if roundings are
//! independent (Higham and Mary 2019, "A new approach to probabilistic rounding error analysis"). With
//! [`K`] = 8 that is one failure in 10^13 elements. The worst case, `n u`, would hide real errors.
//! `k` counts roundings where there are few of them (`depth` 1).

use std::fmt;

pub use tilecast_core::kernels::logits_op::rounding::K;

/// Unit roundoff of f32: half the distance from 1 to the next number.
pub const fn f32_unit() -> f64 {
    1.0 / (1_u64 << 24) as f64
}

/// Unit roundoff of bf16.
pub const fn bf16_unit() -> f64 {
    1.0 / (1_u64 << 8) as f64
}

/// What underflow may cost: a little above the least normal f32.
const UNDERFLOW: f64 = 1e-36;

/// One source of error: `k * unit * sqrt(depth) * magnitude` for each element.
#[derive(Clone, Debug)]
pub struct Term {
    /// What is rounded.
    pub what: &'static str,
    /// Confidence, or number of roundings.
    pub k: f64,
    /// Unit roundoff.
    pub unit: f64,
    /// Number of summands.
    pub depth: usize,
    /// What is rounded, in size, for each element.
    pub magnitude: Vec<f64>,
}

impl Term {
    fn at(&self, i: usize) -> f64 {
        self.k * self.unit * (self.depth as f64).sqrt() * self.magnitude[i]
    }
}

/// The sum of the errors of a result, element by element.
#[derive(Clone, Debug, Default)]
pub struct Tolerance {
    terms: Vec<Term>,
}

impl Tolerance {
    /// No error.
    pub fn exact() -> Self {
        Self::default()
    }

    /// With another source of error.
    pub fn plus(mut self, term: Term) -> Self {
        self.terms.push(term);
        self
    }

    /// With one rounding of the result `values`, of unit roundoff `unit`.
    pub fn rounded(self, unit: f64, values: &[f64]) -> Self {
        // What is rounded is the computed result, off by what precedes.
        let magnitude = (0..values.len())
            .map(|i| values[i].abs() + self.at(i))
            .collect();
        self.plus(Term {
            what: "rounding of the result",
            k: 1.0,
            unit,
            depth: 1,
            magnitude,
        })
    }

    /// What element `i` may be off by.
    pub fn at(&self, i: usize) -> f64 {
        if self.terms.is_empty() {
            return 0.0;
        }
        self.terms.iter().map(|term| term.at(i)).sum::<f64>() + UNDERFLOW
    }

    /// How the tolerance of element `i` comes about.
    pub fn derivation(&self, i: usize) -> impl fmt::Display + '_ {
        Derivation { tolerance: self, i }
    }
}

struct Derivation<'t> {
    tolerance: &'t Tolerance,
    i: usize,
}

impl fmt::Display for Derivation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, term) in self.tolerance.terms.iter().enumerate() {
            let plus = if n > 0 { " + " } else { "" };
            write!(
                f,
                "{plus}{:.1e} ({}: {} x 2^{} x sqrt({}) x {:.2e})",
                term.at(self.i),
                term.what,
                term.k,
                term.unit.log2(),
                term.depth,
                term.magnitude[self.i],
            )?;
        }
        Ok(())
    }
}
