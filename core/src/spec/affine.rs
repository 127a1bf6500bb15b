//! Integer expressions whose extremes can be known without running anything.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::{Add, Mul};

/// An expression that is affine in its variables `V`, with optional upper clamps.
///
/// This is all an index map needs (blocks, megacore offsets, a clamp for the last, incomplete
/// group), and it keeps the map checkable: interval arithmetic over the grid gives its exact range.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Affine<V> {
    /// A constant.
    Constant(i64),
    /// The value of a variable.
    Variable(V),
    /// `a + b`
    Sum(Box<Self>, Box<Self>),
    /// `a * factor`
    Scaled(Box<Self>, i64),
    /// `min(a, limit)`
    AtMost(Box<Self>, i64),
}

impl<V: Copy> Affine<V> {
    /// `min(self, limit)`
    pub fn at_most(self, limit: i64) -> Self {
        Self::AtMost(Box::new(self), limit)
    }

    /// The value, given that of each variable. Saturates rather than wraps.
    pub fn evaluate(&self, variable: &impl Fn(V) -> i64) -> i64 {
        match self {
            Self::Constant(c) => *c,
            Self::Variable(v) => variable(*v),
            Self::Sum(a, b) => a.evaluate(variable).saturating_add(b.evaluate(variable)),
            Self::Scaled(a, factor) => a.evaluate(variable).saturating_mul(*factor),
            Self::AtMost(a, limit) => a.evaluate(variable).min(*limit),
        }
    }

    /// The least and the greatest value, given those of each variable; `None` if a variable has none.
    ///
    /// Exact when no variable occurs twice; otherwise an enclosure.
    pub fn range(&self, variable: &impl Fn(V) -> Option<(i64, i64)>) -> Option<(i64, i64)> {
        Some(match self {
            Self::Constant(c) => (*c, *c),
            Self::Variable(v) => variable(*v)?,
            Self::Sum(a, b) => {
                let ((a0, a1), (b0, b1)) = (a.range(variable)?, b.range(variable)?);
                (a0.saturating_add(b0), a1.saturating_add(b1))
            }
            Self::Scaled(a, factor) => {
                let (low, high) = a.range(variable)?;
                let (x, y) = (low.saturating_mul(*factor), high.saturating_mul(*factor));
                (x.min(y), x.max(y))
            }
            Self::AtMost(a, limit) => {
                let (low, high) = a.range(variable)?;
                (low.min(*limit), high.min(*limit))
            }
        })
    }

    /// The variables and their factors, if the expression is linear (has no clamp).
    pub fn linear_terms(&self) -> Option<Vec<(V, i64)>> {
        Some(match self {
            Self::Constant(_) => Vec::new(),
            Self::Variable(v) => alloc::vec![(*v, 1)],
            Self::Sum(a, b) => {
                let mut terms = a.linear_terms()?;
                terms.extend(b.linear_terms()?);
                terms
            }
            Self::Scaled(a, factor) => {
                let mut terms = a.linear_terms()?;
                terms
                    .iter_mut()
                    .for_each(|(_, f)| *f = f.saturating_mul(*factor));
                terms
            }
            Self::AtMost(..) => return None,
        })
    }

    /// Calls `body` with each variable.
    pub fn for_each(&self, body: &mut impl FnMut(V)) {
        match self {
            Self::Constant(_) => {}
            Self::Variable(v) => body(*v),
            Self::Sum(a, b) => {
                a.for_each(body);
                b.for_each(body);
            }
            Self::Scaled(a, _) | Self::AtMost(a, _) => a.for_each(body),
        }
    }

    /// Whether a variable that `matches` occurs.
    pub fn depends_on(&self, matches: &impl Fn(V) -> bool) -> bool {
        match self {
            Self::Constant(_) => false,
            Self::Variable(v) => matches(*v),
            Self::Sum(a, b) => a.depends_on(matches) || b.depends_on(matches),
            Self::Scaled(a, _) | Self::AtMost(a, _) => a.depends_on(matches),
        }
    }
}

impl<V> From<i64> for Affine<V> {
    fn from(value: i64) -> Self {
        Self::Constant(value)
    }
}

impl<V, R: Into<Affine<V>>> Add<R> for Affine<V> {
    type Output = Self;
    fn add(self, other: R) -> Self {
        Self::Sum(Box::new(self), Box::new(other.into()))
    }
}

impl<V> Mul<i64> for Affine<V> {
    type Output = Self;
    fn mul(self, factor: i64) -> Self {
        Self::Scaled(Box::new(self), factor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_encloses_every_value() {
        // min(3a - 2b + 1, 7)
        let e = (Affine::Variable(0) * 3 + Affine::Variable(1) * -2 + 1).at_most(7);
        let (low, high) = e
            .range(&|v| Some(if v == 0 { (0, 4) } else { (1, 2) }))
            .unwrap();
        let values: Vec<i64> = (0..=4)
            .flat_map(|a| (1..=2).map(move |b| (a, b)))
            .map(|(a, b)| e.evaluate(&|v| if v == 0 { a } else { b }))
            .collect();
        assert_eq!(low, *values.iter().min().unwrap());
        assert_eq!(high, *values.iter().max().unwrap());
    }

    #[test]
    fn overflow_saturates() {
        let e = Affine::<()>::Variable(()) * i64::MAX + i64::MAX;
        assert_eq!(e.evaluate(&|()| 5), i64::MAX);
    }
}
