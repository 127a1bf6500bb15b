//! What a forward and a backward pass take of time and memory, each of them in a process of its own: what one leaves to
//! the allocator would not be new memory in the next.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::memory;

/// Tokens, hidden size and vocabulary.
const SHAPE: [usize; 3] = [1024, 512, 32768];

/// What this process is to measure, if it is one that [`Measurement::of_all`] has started.
///
/// # Errors
/// There is no such case.
pub fn measured<T>(cases: &[T]) -> Result<Option<(Measurement, &T)>> {
    let Some(case) = std::env::args().nth(1) else {
        return Ok(None);
    };
    let known = case.parse().ok().and_then(|case: usize| cases.get(case));
    let known = known.with_context(|| {
        format!(
            "there is no case {case}: 0 to {} are known",
            cases.len() - 1
        )
    })?;
    Ok(Some((Measurement { shape: SHAPE }, known)))
}

/// A measurement in this process.
pub struct Measurement {
    /// Tokens, hidden size and vocabulary.
    pub shape: [usize; 3],
}

impl Measurement {
    /// Measures so many cases, one after the other.
    ///
    /// # Errors
    /// One of them fails.
    pub fn of_all(cases: usize) -> Result<()> {
        let [tokens, hidden, vocab] = SHAPE;
        println!("\none forward and backward, B={tokens} H={hidden} V={vocab}");
        for case in 0..cases {
            let status = Command::new(std::env::current_exe()?)
                .arg(case.to_string())
                .status()?;
            ensure!(status.success(), "case {case}: {status}");
        }
        Ok(())
    }

    /// Prints the time of `passes` (the median of five runs), and memory at the peak (the most of five) beyond what is
    /// there before and the gradients of hidden states and head, whose elements have so many bytes.
    ///
    /// # Errors
    /// Those of `passes`.
    pub fn print<G>(
        &self,
        name: &str,
        element_bytes: usize,
        passes: impl Fn() -> Result<G>,
    ) -> Result<()> {
        let [tokens, hidden, vocab] = self.shape;
        let outputs = (tokens + vocab) * hidden * element_bytes;
        let mut seconds = Vec::new();
        let mut bytes = None;
        for _ in 0..5 {
            let before = memory::reset();
            let start = Instant::now();
            let gradients = passes()?;
            seconds.push(start.elapsed().as_secs_f64());
            let more = before
                .zip(memory::peak())
                .map(|(before, peak)| peak.saturating_sub(before + outputs as u64));
            bytes = bytes.max(more);
            drop(gradients);
        }
        seconds.sort_by(f64::total_cmp);
        let mib = bytes.map_or("unknown".into(), |bytes| {
            format!("{:.0}", bytes as f64 / (1 << 20) as f64)
        });
        println!(
            "{name:11}: {:6.0} ms, {mib} MiB beyond inputs and gradients",
            1e3 * seconds[2]
        );
        Ok(())
    }
}
