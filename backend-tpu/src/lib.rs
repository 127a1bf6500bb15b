//! Records tilecast kernels as Mosaic modules, which the TPU compiler takes.
//!
//! | module | what it holds |
//! |---|---|
//! | [`lower`] | `TileOps` recorded: a kernel becomes a Mosaic module |
//! | [`mosaic`] | the module: a small IR with printer, parser and verifier |
//! | [`stablehlo`] | a program as StableHLO around its kernels, for XLA |
//! | `pjrt` | compiles with libtpu, without a TPU (feature `pjrt`) |
#![deny(unsafe_code)]

pub mod lower;
pub mod mosaic;
#[cfg(feature = "pjrt")]
pub mod pjrt;
pub mod stablehlo;
