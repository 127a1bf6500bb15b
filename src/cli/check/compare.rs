//! Errors measured against what they may be.

use serde_json::{Value, json};

/// The comparison of one result with another.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Errors {
    /// Elements compared.
    pub(super) count: usize,
    /// Elements whose error is above the tolerance.
    pub(super) wrong: usize,
    /// Largest error.
    max_abs: f64,
    /// Largest error over the size of the exact value.
    max_rel: f64,
    /// The element whose error is the largest share of its tolerance.
    worst: Element,
    /// The first element that is wrong.
    first: Option<Element>,
}

/// One element.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Element {
    index: usize,
    got: f64,
    exact: f64,
    tolerance: f64,
    /// Error over tolerance.
    share: f64,
}

impl Errors {
    /// The errors of `got`.
    pub(super) fn of(got: &[f32], exact: &[f64], tolerance: &[f64]) -> Self {
        let mut errors = Self::default();
        // A missing element is as wrong as one that is not a number.
        for (i, (&exact, &tolerance)) in exact.iter().zip(tolerance).enumerate() {
            let got = got.get(i).copied().map_or(f64::NAN, f64::from);
            errors.push(got, exact, tolerance);
        }
        errors
    }

    /// Compares the next element.
    pub(super) fn push(&mut self, got: f64, exact: f64, tolerance: f64) {
        let error = (got - exact).abs();
        // Not a number: wrong, and worse than anything.
        let share = match error {
            0.0 => 0.0,
            error if error.is_nan() => f64::INFINITY,
            error => error / tolerance,
        };
        let element = Element {
            index: self.count,
            got,
            exact,
            tolerance,
            share,
        };
        self.count += 1;
        self.max_abs = self.max_abs.max(error);
        if exact != 0.0 {
            self.max_rel = self.max_rel.max(error / exact.abs());
        }
        if share > self.worst.share || self.count == 1 {
            self.worst = element;
        }
        if share > 1.0 {
            self.wrong += 1;
            self.first = self.first.or(Some(element));
        }
    }

    /// Largest error over tolerance; above 1 is a failure.
    pub(super) fn share(&self) -> f64 {
        self.worst.share
    }

    pub(super) fn passed(&self) -> bool {
        self.wrong == 0
    }

    /// What is wrong, if anything is.
    pub(super) fn mismatch(&self) -> Option<String> {
        let Element {
            index,
            got,
            exact,
            tolerance,
            ..
        } = self.first?;
        Some(format!(
            "{} of {} wrong, max abs {:.3e}, max rel {:.3e}, first at {index}: got {got:.9e}, exact {exact:.9e}, \
             tolerance {tolerance:.3e}",
            self.wrong, self.count, self.max_abs, self.max_rel
        ))
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "passed": self.passed(),
            "error_over_tolerance": self.share(),
            "max_abs_error": self.max_abs,
            "max_rel_error": self.max_rel,
            "elements": self.count,
            "wrong": self.wrong,
            "mismatch": self.mismatch(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_above_the_tolerance_are_counted_and_the_first_is_named() {
        let errors = Errors::of(&[1.0, 2.5, 3.0], &[1.0, 2.0, 3.5], &[0.1; 3]);
        assert_eq!((errors.count, errors.wrong), (3, 2));
        assert!((errors.share() - 5.0).abs() < 1e-12);
        assert!(errors.mismatch().unwrap().contains("first at 1: got 2.5"));
    }

    #[test]
    fn nan_and_missing_elements_are_wrong() {
        assert!(!Errors::of(&[f32::NAN], &[1.0], &[1.0]).passed());
        assert!(!Errors::of(&[1.0], &[1.0, 2.0], &[1.0; 2]).passed());
        assert!(Errors::of(&[0.0], &[0.0], &[0.0]).passed());
    }
}
