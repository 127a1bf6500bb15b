//! Grid indices and arithmetic on them, as symbols.

use std::ops::{Add, Mul, Sub};

use super::recording::Recording;
use crate::mosaic::Value;

/// An i32 that is known, or a value of the module.
#[derive(Clone, Copy, Debug)]
pub(super) enum Number {
    Known(i64),
    Symbol(Value),
}

/// An index of a kernel being recorded.
#[derive(Clone, Copy, Debug)]
pub struct Scalar<'r> {
    pub(super) recording: &'r Recording<'r>,
    pub(super) number: Number,
}

impl<'r> Scalar<'r> {
    /// The number as an i32 value.
    pub(super) fn value(self) -> Value {
        match self.number {
            Number::Known(value) => self.recording.i32_constant(value),
            Number::Symbol(value) => value,
        }
    }

    /// The number as an `index`, which memory operations take.
    pub(super) fn index(self) -> Value {
        match self.number {
            Number::Known(value) => self
                .recording
                .index_constant(usize::try_from(value).expect("offsets are not negative")),
            Number::Symbol(value) => {
                let ty = self.recording.index_type();
                self.recording.value("arith.index_cast", &[value], ty, &[])
            }
        }
    }

    fn combine(self, other: Number, name: &str, fold: fn(i64, i64) -> i64) -> Self {
        let number = match (self.number, other) {
            (Number::Known(a), Number::Known(b)) => Number::Known(fold(a, b)),
            (_, other) => {
                let other = Scalar {
                    number: other,
                    ..self
                };
                Number::Symbol(self.recording.same(name, &[self.value(), other.value()]))
            }
        };
        Self { number, ..self }
    }
}

impl Add for Scalar<'_> {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        match (self.number, other.number) {
            (_, Number::Known(0)) => self,
            (Number::Known(0), _) => other,
            _ => self.combine(other.number, "arith.addi", i64::wrapping_add),
        }
    }
}

impl Sub for Scalar<'_> {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        match other.number {
            Number::Known(0) => self,
            _ => self.combine(other.number, "arith.subi", i64::wrapping_sub),
        }
    }
}

impl Add<i64> for Scalar<'_> {
    type Output = Self;
    fn add(self, other: i64) -> Self {
        let number = Number::Known(other);
        self + Self { number, ..self }
    }
}

impl Mul<i64> for Scalar<'_> {
    type Output = Self;
    fn mul(self, factor: i64) -> Self {
        match factor {
            1 => self,
            _ => self.combine(Number::Known(factor), "arith.muli", i64::wrapping_mul),
        }
    }
}
