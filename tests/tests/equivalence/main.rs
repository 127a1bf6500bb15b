//! Fused linear cross-entropy on every backend: what it computes, how exactly, and that nothing else changes it.

mod accuracy;
mod cases;
mod runs;
