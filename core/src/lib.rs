//! The kernel vocabulary of tilecast.
//!
//! A training kernel is written once, as a generic function over [`TileOps`](ops::TileOps), with a
//! [`KernelSpec`](spec::KernelSpec) that says which blocks of which arrays it sees. Backends run it
//! or record it; [`budget`] says what it needs on a [`Target`](target::Target) before either.
//!
//! | module | what it holds |
//! |---|---|
//! | [`ops`], [`expr`], [`view`] | the primitives, the arithmetic and the handles a kernel is written in |
//! | [`spec`] | grid, windows, index maps and scratch memory, checked when built |
//! | [`program`] | an op: kernel launches and the array operations around them |
//! | [`groups`] | rows that belong to groups, and the steps that visit them |
//! | [`kernels`] | the ops |
//! | [`target`] | TPU generations as data, every figure with unit, source and status |
//! | [`budget`] | VMEM and HBM ledgers against a target |
//!
//! Letters are fixed: `B` tokens, `H` hidden, `V` vocabulary; `b`, `h`, `v` their block sizes.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod budget;
pub mod dtype;
pub mod expr;
pub mod groups;
pub mod kernels;
pub mod ops;
pub mod program;
pub mod spec;
pub mod target;
pub mod view;

pub use dtype::DType;
