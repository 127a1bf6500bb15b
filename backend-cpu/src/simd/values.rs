//! Numbers as they are stored, in either type.

use half::bf16;

/// Values of an operand as stored.
#[derive(Debug, Clone, Copy)]
pub enum Values<'a> {
    /// 32-bit floats.
    F32(&'a [f32]),
    /// 16-bit brain floats.
    Bf16(&'a [bf16]),
}

impl<'a> Values<'a> {
    /// Some of the values.
    pub(crate) fn range(&self, range: std::ops::Range<usize>) -> Values<'a> {
        match self {
            Self::F32(values) => Values::F32(&values[range]),
            Self::Bf16(values) => Values::Bf16(&values[range]),
        }
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::Bf16(values) => values.len(),
        }
    }

    /// Whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Numbers to write to, in the type they are stored in.
#[derive(Debug)]
pub enum ValuesMut<'a> {
    /// 32-bit floats.
    F32(&'a mut [f32]),
    /// 16-bit brain floats.
    Bf16(&'a mut [bf16]),
}

impl ValuesMut<'_> {
    /// The same numbers for a shorter time.
    pub fn reborrow(&mut self) -> ValuesMut<'_> {
        match self {
            Self::F32(values) => ValuesMut::F32(values),
            Self::Bf16(values) => ValuesMut::Bf16(values),
        }
    }

    /// The same numbers, to read.
    pub fn as_values(&self) -> Values<'_> {
        match self {
            Self::F32(values) => Values::F32(values),
            Self::Bf16(values) => Values::Bf16(values),
        }
    }
}
