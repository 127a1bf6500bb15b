//! Write a training kernel once; run it on the CPU, emit it for TPU, know beforehand whether it fits.
//!
//! The main op of this version is the fused linear softmax cross-entropy: the loss of a language-model
//! head, with gradients, without ever storing the `tokens x vocabulary` logits. For logits that are
//! there already, [`logits_ce`], [`entropy`] and [`grpo`] read them once in each direction; the latter two
//! also take a [`Head`] in their place, and then no logits are stored either.
//!
//! ```
//! use tilecast::{Cotangents, Matrix, Reduction, linear_ce};
//!
//! # fn main() -> Result<(), tilecast::Error> {
//! // 3 tokens, 4 hidden, 5 words.
//! let x: Vec<f32> = (0..12).map(|i| (i as f32 * 0.7).sin()).collect();
//! let w: Vec<f32> = (0..20).map(|i| (i as f32 * 0.3).cos()).collect();
//! let labels = [4, 0, 2];
//!
//! let loss = linear_ce(Matrix::new(&x[..], 3, 4)?, Matrix::new(&w[..], 4, 5)?, &labels)
//!     .z_loss(1e-4)
//!     .reduction(Reduction::Mean);
//! let forward = loss.forward()?;
//! let gradients = loss.backward(&forward.lse, Cotangents::ones())?;
//!
//! assert_eq!(forward.loss.len(), 1);
//! assert_eq!(gradients.dw.len(), 20);
//! # Ok(())
//! # }
//! ```
//!
//! For one step down, [`core`] builds the kernels and their programs, and [`cpu`] runs them.
#![cfg_attr(
    feature = "tpu",
    doc = "[`tpu`] writes them for the TPU compiler, and [`sim`] says what they need there and how long they take."
)]
#![forbid(unsafe_code)]

pub mod entropy;
pub mod grouped_matmul;
pub mod grpo;
mod head;
mod linear_ce;
mod logits;
pub mod logits_ce;

pub use head::Head;
pub use linear_ce::{
    Cotangents, Error, Forward, Gradients, GradientsMut, LinearCe, Matrix, Values, linear_ce,
};
pub use tilecast_core as core;
pub use tilecast_core::DType;
pub use tilecast_core::kernels::linear_ce::{
    Blocks, InDw, Kept, Lazy, Options, ProductBlocks, Reduction, Schedule, Split, Stored, Strategy,
    Structure, XForm,
};
pub use tilecast_cpu as cpu;
pub use tilecast_cpu::Cpu;
pub use tilecast_cpu::array::ArrayMut;
#[cfg(feature = "tpu")]
pub use tilecast_sim as sim;
#[cfg(feature = "tpu")]
pub use tilecast_tpu as tpu;
