//! What the examples of frameworks have in common: the text and the sizes of the model that learns from it, what it
//! must have learned, and how time and memory are measured.

mod measurement;
mod memory;
mod words;

use anyhow::{Result, ensure};

pub use measurement::{Measurement, measured};
pub use words::Words;

/// Words from which the next one is predicted.
pub const CONTEXT: usize = 3;
pub const EMBEDDING: usize = 32;
pub const HIDDEN: usize = 128;
pub const BATCH: usize = 512;
pub const STEPS: usize = 60;

/// Prints the first and last loss of the model that learned with the fused loss and of its twin, which started alike
/// and learned with that of the framework.
///
/// # Errors
/// They learned nothing, or not the same.
pub fn compare(framework: &str, fused: (f32, f32), twin: (f32, f32)) -> Result<()> {
    println!(
        "loss after {STEPS} steps from {:.3}: fused {:.3}, {framework} {:.3}",
        fused.0, fused.1, twin.1
    );
    ensure!(fused.1 < 0.75 * fused.0, "it must learn");
    ensure!(
        (fused.1 - twin.1).abs() < 0.02 * twin.1,
        "both must learn the same"
    );
    Ok(())
}
