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
    /// The least and the largest that it can be.
    pub(super) range: [i64; 2],
}

impl<'r> Scalar<'r> {
    /// A value of the module, of which nothing is known.
    pub(super) fn symbol(recording: &'r Recording<'r>, value: Value) -> Self {
        Self {
            recording,
            number: Number::Symbol(value),
            range: [i32::MIN, i32::MAX].map(i64::from),
        }
    }

    /// A value of the module that counts from 0 up to before `count`.
    pub(super) fn counter(recording: &'r Recording<'r>, value: Value, count: usize) -> Self {
        Self {
            range: [0, count as i64 - 1],
            ..Self::symbol(recording, value)
        }
    }

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
            Number::Symbol(value) => self.recording.to_index(value),
        }
    }

    fn combine(self, other: Self, name: &str, fold: fn(i64, i64) -> i64) -> Self {
        let number = match (self.number, other.number) {
            (Number::Known(a), Number::Known(b)) => Number::Known(fold(a, b)),
            _ => Number::Symbol(self.recording.same(name, &[self.value(), other.value()])),
        };
        // Sums, differences and products are least and largest at ends.
        let ends = self.range.map(|a| other.range.map(|b| fold(a, b)));
        let ends = ends.as_flattened();
        let least = ends.iter().copied().fold(i64::MAX, i64::min);
        let range = [least, ends.iter().copied().fold(least, i64::max)];
        Self {
            number,
            range,
            ..self
        }
    }
}

impl Add for Scalar<'_> {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        match (self.number, other.number) {
            (_, Number::Known(0)) => self,
            (Number::Known(0), _) => other,
            _ => self.combine(other, "arith.addi", i64::saturating_add),
        }
    }
}

impl Sub for Scalar<'_> {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        match other.number {
            Number::Known(0) => self,
            _ => self.combine(other, "arith.subi", i64::saturating_sub),
        }
    }
}

impl Add<i64> for Scalar<'_> {
    type Output = Self;
    fn add(self, other: i64) -> Self {
        self + self.recording.scalar(other)
    }
}

impl Mul<i64> for Scalar<'_> {
    type Output = Self;
    fn mul(self, factor: i64) -> Self {
        match factor {
            1 => self,
            _ => self.combine(
                self.recording.scalar(factor),
                "arith.muli",
                i64::saturating_mul,
            ),
        }
    }
}
