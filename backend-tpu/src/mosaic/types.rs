//! Types and attributes.
//!
//! Both are values without identity: two equal ones are the same handle. [`TypeKind`] and
//! [`AttributeKind`] are their structure. What the kernels of this field never look inside of is
//! kept as text: attributes of dialects as a name and the text between the angle brackets (read and
//! written by the typed views in [`super::tpu`]), everything else unknown as balanced text. So
//! nothing is lost between reading and writing.

use super::affine::AffineMap;
use super::float::FloatKind;
use super::ir::{Attribute, AttributeName, Type};

/// The size of a dimension that is known only at run time.
pub const DYNAMIC: i64 = i64::MIN;

/// Whether an integer type carries a sign. Arithmetic uses signless integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Signedness {
    /// `i32`
    Signless,
    /// `si32`
    Signed,
    /// `ui32`
    Unsigned,
}

/// The structure of a type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TypeKind {
    /// `index`
    Index,
    /// `i32`, `si32`, `ui8`
    Integer {
        /// Width in bits.
        width: u32,
        /// Whether it carries a sign.
        sign: Signedness,
    },
    /// `f32`, `bf16`
    Float(FloatKind),
    /// `vector<8x128xf32>`
    Vector {
        /// Sizes of the dimensions.
        shape: Vec<i64>,
        /// Type of one element.
        element: Type,
    },
    /// `memref<8x128xf32, layout, space>`
    Memref {
        /// Sizes of the dimensions, [`DYNAMIC`] where unknown.
        shape: Vec<i64>,
        /// Type of one element.
        element: Type,
        /// The layout; none is row-major.
        layout: Option<Attribute>,
        /// The memory space.
        space: Option<Attribute>,
    },
    /// `(i32, i32) -> i32`
    Function {
        /// Types of the arguments.
        inputs: Vec<Type>,
        /// Types of the results.
        results: Vec<Type>,
    },
    /// `!tpu.semaphore`
    Semaphore,
    /// `!tpu.dma_semaphore`
    DmaSemaphore,
    /// Any other type, as its text.
    Opaque(String),
}

/// The structure of an attribute.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AttributeKind {
    /// Present, without a value.
    Unit,
    /// `true`, `false`
    Bool(bool),
    /// `4 : i32`
    Integer {
        /// The value.
        value: i64,
        /// An integer or index type.
        ty: Type,
    },
    /// `1.0 : f32`
    Float {
        /// The bit pattern in the format of `ty`.
        bits: u64,
        /// A float type.
        ty: Type,
    },
    /// `"text"`
    String(String),
    /// A type as a value.
    Type(Type),
    /// `[a, b]`
    Array(Vec<Attribute>),
    /// `{a = 1 : i32}`, sorted by name.
    Dictionary(Vec<(AttributeName, Attribute)>),
    /// `array<i64: 1, 2>`
    DenseArray {
        /// An integer or float type; floats are bit patterns.
        element: Type,
        /// The values.
        values: Vec<i64>,
    },
    /// `dense<0.0> : vector<8xf32>`
    DenseElements {
        /// A vector type, or an opaque shaped type.
        ty: Type,
        /// Bit patterns in row-major order, or one for all.
        values: Vec<u64>,
    },
    /// `@name`
    Symbol(String),
    /// `affine_map<(d0) -> (d0)>`
    AffineMap(AffineMap),
    /// `#tpu.memory_space<vmem>`
    Dialect {
        /// `tpu.memory_space`
        name: String,
        /// What stands between the angle brackets; none if there are no brackets.
        body: Option<String>,
    },
    /// Any other attribute, as its text.
    Opaque(String),
}

impl TypeKind {
    /// Shape of a vector or memref.
    pub fn shape(&self) -> Option<&[i64]> {
        match self {
            Self::Vector { shape, .. } | Self::Memref { shape, .. } => Some(shape),
            _ => None,
        }
    }

    /// Element type of a vector or memref.
    pub fn element(&self) -> Option<Type> {
        match self {
            Self::Vector { element, .. } | Self::Memref { element, .. } => Some(*element),
            _ => None,
        }
    }
}
