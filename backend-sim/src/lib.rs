//! Says what kernels need and how long they take on a TPU, without one, and what numbers they give.
//!
//! Everything is read from the Mosaic module that the TPU compiler would get, ours or anyone's:
//!
//! 1. *Does it fit VMEM?* The [ledger](memory) of windows and scratch follows the compiler's own rules;
//!    register spills come from a model of the registers in the [schedule].
//! 2. *Does it fit HBM?* All arrays of both passes, padded, taken to be alive at once.
//! 3. *How long does a step take?* The [schedule] places every vector operation on the units of a
//!    core, block by block, as the compiler's scheduler does.
//! 4. *How long does a kernel take?* The [pipeline] runs the steps of the [grid] with the copies around
//!    them, under three assumptions on how copies share the bandwidth.
//! 5. *What does it compute?* The [interpreter](execute) runs it.
//!
//! | module | what it holds |
//! |---|---|
//! | [`signature`], [`grid`] | what a kernel says of itself; its grid as a few kinds of steps |
//! | [`memory`] | VMEM, allocation by allocation |
//! | [`schedule`] | cycles of a step on every unit, and the registers it needs |
//! | [`pipeline`], [`trace`] | steps and copies over time; the same for a trace viewer |
//! | [`judge`](mod@judge) | all of that for one kernel |
//! | [`kernel`], [`op`] | reports on one kernel, on a whole op |
//! | [`problem`] | what an op is to all of this |
//! | [`tune`], [`experts`] | the same for many block sizes; of the grouped product |
//! | [`emission`] | block sizes for a kernel that will be compiled |
//! | [`validate`] | how far all of that is from what the compiler did, and from what ran |
//! | [`execute`], [`interpretation`] | runs kernels and ops for their numbers |
//!
//! Every formula, its source and what is left out: `docs/cost-model.md`.
#![forbid(unsafe_code)]

mod access;
pub mod emission;
pub mod execute;
pub mod experts;
pub mod grid;
pub mod interpretation;
pub mod judge;
pub mod kernel;
pub mod memory;
pub mod op;
mod parts;
pub mod pipeline;
pub mod plan;
mod prepared;
pub mod problem;
mod reuse;
pub mod schedule;
pub mod signature;
pub mod trace;
pub mod tune;
pub mod validate;
mod verdict;

pub use verdict::{Verdict, bytes_text};
