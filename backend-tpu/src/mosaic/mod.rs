//! Mosaic modules: the form in which the TPU compiler takes kernels.
//!
//! A kernel reaches the compiler as a module of an intermediate representation: a function over
//! windows in VMEM, scalars in SMEM and references to HBM, made of operations of a few dialects
//! (`arith` and `math` for elements, `vector` and `tpu` for blocks, `memref` for memory, `scf` for
//! control), and one small function per window that says which block a grid step needs. This module
//! holds such programs ([`Module`]), reads them ([`Module::parse`]) and writes them
//! ([`Module::to_pretty`], [`Module::to_stable`]), builds them ([`Builder`]) and checks them
//! ([`Module::verify`]). It knows the dialects as far as kernels use them; operations,
//! types and attributes it does not know are carried through unchanged.
//!
//! ```
//! use tilecast_tpu::mosaic::{Builder, Module};
//!
//! let mut b = Builder::new("double");
//! let tile = b.f32_vector(&[8, 128]);
//! let window = b.vmem(&[8, 128], tile);
//! b.function("double", &[window, window], &[], |b, refs| {
//!     let x = b.load(refs[0], tile);
//!     let y = b.binary("arith.addf", x, x);
//!     b.store(y, refs[1]);
//!     Vec::new()
//! });
//! let module = b.finish();
//! assert_eq!(Module::parse(&module.to_pretty()).unwrap(), module);
//! ```

pub mod affine;
mod bounds;
mod builder;
mod eq;
mod float;
mod ir;
mod parse;
mod print;
pub mod signature;
mod syntax;
pub mod tpu;
mod types;
mod verify;
pub mod version;

pub use builder::{Builder, OpBuilder};
pub use float::FloatKind;
pub use ir::{
    Attribute, AttributeName, Block, Definition, Module, Op, OpParts, Region, Type, Value,
};
pub use parse::{DEPTH_LIMIT, ParseError};
pub use types::{AttributeKind, DYNAMIC, Signedness, TypeKind};
pub use verify::{Problem, VerifyError};
