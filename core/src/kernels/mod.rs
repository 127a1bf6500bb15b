//! The kernels, one folder per op.

pub mod linear_ce;
