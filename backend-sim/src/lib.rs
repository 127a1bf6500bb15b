//! Says what tilecast kernels need and how long they take on a TPU, without one.
//!
//! Four questions, each answered from data that can be looked up:
//!
//! 1. *Does it fit VMEM?* The [ledger](tilecast_core::budget::VmemLedger) of windows and scratch is
//!    exact; register spills, which only the compiler's register allocation decides, are missing.
//! 2. *Does it fit HBM?* All arrays of both passes, padded, taken to be alive at once.
//! 3. *How much work is it?* A [tally] executes the kernel body without data and counts the
//!    operations of every unit, for each kind of grid step.
//! 4. *How long does it take?* Each unit's work over its rate is a bound; how far units overlap is
//!    not known, so a time is a range with a value inside it.
//!
//! | module | what it holds |
//! |---|---|
//! | [`signature`], [`grid`], [`memory`], [`pipeline`] | a kernel read from its module: arguments, kinds of steps, VMEM, time |
//! | [`trace`] | what a kernel does as a trace for Perfetto |
//! | [`work`] | operations per unit, and the cycles they take |
//! | [`cost`] | operations of each primitive |
//! | [`tally`] | counts the work of one grid step |
//! | [`steps`] | the grid as a few kinds of steps, and the copies between them |
//! | [`timing`] | from work to cycles and seconds |
//! | [`kernel`], [`op`] | reports on one kernel, on a whole op |
//! | [`tune`] | the same for many block sizes |
//! | [`emission`] | block sizes for a kernel that will be compiled |
//!
//! Every formula, its source and what is left out: `docs/cost-model.md`.
#![forbid(unsafe_code)]

pub mod emission;
pub mod execute;
pub mod grid;
pub mod judge;
pub mod kernel;
pub mod memory;
pub mod op;
pub mod pipeline;
pub mod schedule;
pub mod signature;
pub mod trace;
pub mod tune;
mod verdict;

pub use verdict::{Verdict, bytes_text};
