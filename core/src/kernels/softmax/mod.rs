//! What the ops on given logits share: statistics of each row, and a gradient made of them.
//!
//! Logits `x [B,V]` are stored, so there is nothing to compute but one pass over them in each
//! direction, and the time is that of memory. Every loss here depends on a row of `z = x / T` only
//! through a few numbers:
//!
//! ```text
//! lse = log sum_v exp(z_v)         the label's logit z_y       sum_v z_v
//! entropy = -sum_v p_v log p_v     with log p_v = z_v - lse
//! ```
//!
//! The *statistics* kernel reads each logit once and yields these, per token. What an op makes of them
//! is arithmetic on vectors of `B` elements around the kernel. Backward, the op computes
//! coefficients per token, and the *gradient* kernel reads each logit once more:
//!
//! ```text
//! dx_v = (P + Q log p_v) p_v - O 1(v = y) - U
//! ```
//!
//! because `d lse / dz_v = p_v`, `d z_y / dz_v = 1(v = y)` and
//! `d entropy / dz_v = -p_v (log p_v + entropy)`. A factor of `1 / T` is part of the coefficients.
//!
//! A head that is fused keeps `Statistics` over blocks of logits it has just computed; the
//! vectors and coefficients of an op are the same, and so is the program around them: it is written
//! for any `Source` of logits. Here they are stored; [`linear_op`](super::linear_op) has the other.

mod blocks;
mod forward;
mod gradient;
mod logits;
mod program;
pub mod reference;
mod rows;
mod statistics;

pub use blocks::{Blocks, Schedule, candidates};
pub use forward::Forward;
pub use gradient::Gradient;
pub(crate) use gradient::Terms;
pub use logits::{Logits, LogitsError, LogitsOptions};
pub use program::SoftmaxKernel;
pub(crate) use program::{
    Coefficients, Found, SoftmaxProgram, Source, Vectors, gradient, statistics,
};
pub(crate) use statistics::{Fold, Overhang, Pick, Statistics, Wanted};
