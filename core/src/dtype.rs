//! Element types of arrays and tiles.

use core::fmt;

/// The type of one array element.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DType {
    /// IEEE 754 single precision.
    F32,
    /// bfloat16: the upper half of an `F32`.
    Bf16,
    /// Signed 32-bit integer (labels, indices).
    I32,
}

impl DType {
    /// Size of one element, in bytes.
    pub const fn size_bytes(self) -> usize {
        match self {
            Self::F32 | Self::I32 => 4,
            Self::Bf16 => 2,
        }
    }

    /// Whether the type is a floating-point type.
    pub const fn is_float(self) -> bool {
        !matches!(self, Self::I32)
    }

    /// The name used on the command line and in reports: `f32`, `bf16`, `i32`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::I32 => "i32",
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
