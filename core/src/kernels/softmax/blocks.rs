//! Block sizes of the ops on logits.

use alloc::vec::Vec;

use super::logits::check_size;
use super::{Logits, LogitsError};
use crate::target::Target;

/// How a pass over logits is cut up, elements.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Blocks {
    /// Tokens of a block (the time block).
    pub b: usize,
    /// Vocabulary columns of a block.
    pub v: usize,
    /// Tokens of a window of a per-token vector, a multiple of `b`. A TPU takes such windows in
    /// multiples of its 128 lanes only; the blocks of logits in them may be lower.
    pub vector: usize,
    /// Tokens and columns handled at once within a block: what a TPU holds in registers.
    pub sub_tile: [usize; 2],
}

/// Rows that one register holds of bf16, two of f32.
const TPU_ROWS: usize = 16;

impl Blocks {
    /// Blocks of `b` tokens and `v` columns, vectors and sub-tiles of `b` tokens.
    pub const fn new(b: usize, v: usize) -> Self {
        Self {
            b,
            v,
            vector: b,
            sub_tile: [b, v],
        }
    }

    /// Blocks of `b` tokens and `v` columns as `target` takes them. In f32 a sub-tile fills half of the registers: all
    /// of it waits for its maximum, and beside exponentials, or more columns, would be spilled.
    pub fn for_target(b: usize, v: usize, target: &Target) -> Self {
        let [lanes, sublanes] = [target.lanes.value, target.sublanes.value];
        let columns = target.registers() / 2 * lanes * sublanes / TPU_ROWS;
        Self {
            vector: b.max(1).next_multiple_of(lanes),
            sub_tile: [b.min(TPU_ROWS), v.min(columns)],
            ..Self::new(b, v)
        }
    }

    /// Tokens rounded up to whole vectors.
    pub(super) fn vectors(&self, logits: &Logits) -> usize {
        logits.tokens().div_ceil(self.vector)
    }

    pub(super) fn check(&self, logits: &Logits) -> Result<(), LogitsError> {
        for (name, size) in [
            ("token block b", self.b),
            ("vocabulary block v", self.v),
            ("tokens of a vector", self.vector),
            ("tokens of a sub-tile", self.sub_tile[0]),
            ("columns of a sub-tile", self.sub_tile[1]),
        ] {
            check_size(name, size)?;
        }
        let multiple = |name, value: usize, of, divisor| {
            if value.is_multiple_of(divisor) {
                return Ok(());
            }
            Err(LogitsError::NoMultiple {
                name,
                value,
                of,
                divisor,
            })
        };
        multiple("tokens of a vector", self.vector, "token block b", self.b)?;
        if self.vector != self.b {
            // The blocks of the last vector would lie outside the logits.
            let of = "the tokens of a vector of several blocks";
            multiple("tokens", logits.tokens(), of, self.vector)?;
        }
        Ok(())
    }
}

/// Blocks worth trying on a TPU: time blocks from the rows of a register to 512 tokens, those that stand beside each
/// other in a vector only where vectors are whole; column blocks from one register's lanes to 32768; powers of two up
/// to what covers the logits.
pub fn candidates(logits: &Logits, target: &Target) -> Vec<Blocks> {
    let powers = |least: usize, most: usize, size: usize| {
        (0..)
            .map(move |i| least << i)
            .take_while(move |&block| block == least || block <= most && block < 2 * size)
    };
    let (tokens, vocab, lanes) = (logits.tokens(), logits.vocab(), target.lanes.value);
    let least = match tokens.is_multiple_of(lanes) {
        true => target.sublanes.value,
        false => lanes,
    };
    let rows = powers(least, 512, tokens);
    let blocks = rows.flat_map(|b| powers(lanes, 32768, vocab).map(move |v| (b, v)));
    blocks
        .map(|(b, v)| Blocks::for_target(b, v, target))
        .collect()
}

/// Blocks of both passes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Schedule {
    /// Blocks of the forward pass.
    pub forward: Blocks,
    /// Blocks of the backward pass.
    pub backward: Blocks,
}

impl Schedule {
    /// The same blocks for both passes.
    pub const fn new(blocks: Blocks) -> Self {
        Self {
            forward: blocks,
            backward: blocks,
        }
    }

    /// Blocks for a CPU with `threads` threads. Forward, whole rows: logits are read where they lie. So they are
    /// backward, and the gradient is written where it goes, over the logits too. Where it cannot be, in an array whose
    /// rows have gaps between elements, it waits in half of `cache_bytes` of fast cache until it is copied out.
    pub fn for_cache(logits: &Logits, threads: usize, cache_bytes: usize) -> Self {
        let (tokens, vocab) = (logits.tokens(), logits.vocab());
        let rows = |at_most: usize| {
            tokens
                .div_ceil(threads.max(1))
                .clamp(1, at_most.clamp(1, 64))
        };
        let elements = (cache_bytes / 8).max(1024);
        let parts = vocab.div_ceil(elements);
        Self {
            forward: Blocks::new(rows(64), vocab),
            backward: Blocks::new(rows(elements / vocab), vocab.div_ceil(parts)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::kernels::softmax::LogitsOptions;
    use crate::target::TARGETS;

    #[test]
    fn every_candidate_can_be_built_and_none_is_larger_than_what_it_covers() {
        for target in &TARGETS {
            for (tokens, vocab) in [(1, 1), (100, 50_257), (384, 5000), (4096, 151_936)] {
                let options = LogitsOptions::default();
                let logits = Logits::new(tokens, vocab, DType::Bf16, options).unwrap();
                let found = candidates(&logits, target);
                assert!(!found.is_empty());
                for blocks in &found {
                    assert_eq!(blocks.check(&logits), Ok(()), "{target}: {blocks:?}");
                    assert!(blocks.b <= 128 || blocks.b < 2 * tokens, "{blocks:?}");
                    assert!(blocks.v <= 128 || blocks.v < 2 * vocab, "{blocks:?}");
                }
                // Below a vector's lanes where whole vectors cover the tokens.
                let low = found.iter().any(|blocks| blocks.b == 8);
                assert_eq!(low, tokens.is_multiple_of(128), "{target}: {tokens}");
            }
        }
    }
}
