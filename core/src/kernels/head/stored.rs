//! Both passes in one, with logits that the forward pass leaves for the backward pass.
//!
//! A backward pass of its own has to compute the logits again: four products. If the cotangents are known before the
//! forward pass, both can be one program, and the fourth product is saved where there is a place for its result.
//!
//! For the logits of as many tokens as `H` there is one that nobody has to ask for: `dw`, in which nothing is yet. A
//! chunk of columns of it receives its gradient when its logits are no longer needed ([`Kept::InDw`]):
//!
//! ```text
//! z, statistics, loss              the forward pass; z stored in the first rows of dw
//! for each chunk of columns        the streaming backward pass
//!     delta = ... z ...
//!     dx   += delta w^T
//!     dw    = x^T delta
//! ```
//!
//! Where all of `dx` is small enough for each core to have a sum of it, one kernel makes both gradients, each core of
//! its own columns ([`Kept::InDwByCores`], [`by_columns`](super::by_columns)).
//!
//! Where `dw` is bf16 there is no place for logits, but there is for their [exponentials](InDw::Exponentials), of which
//! a bf16 delta can be made. Of more tokens than `H` those of the first are stored, and delta of the others is made as
//! in the streaming pass.
//!
//! Or tokens go chunk by chunk, each finished before the next starts, with the logits of one in memory of their own
//! ([`Kept::Rows`]):
//!
//! ```text
//! for each chunk of rows
//!     z     = x w                  stored, and folded into the statistics of its rows
//!     delta = ... z ...            in the place of z
//!     dx    = delta w^T            of these rows, complete
//!     dw   += x^T delta
//! ```
//!
//! The price of the latter is memory for `rows x V` logits in f32, and a pass over `w`, twice, and over `dw`, to read
//! and to write it, for each chunk. A thread with `r` rows of a chunk saves `2 r` operations for each element of `w`,
//! so it must have enough of them: [`Stored::for_cache`].

use super::blocks::{Blocks, ProductBlocks, Schedule, Split, check_sizes};
use super::cache::Cache;
use super::chunk::ChunkArray;
use super::dealt::Chunks;
use super::logits::{Plan, RowSubTiles};
use super::{Head, HeadError, Structure};
use crate::DType;

mod passes;

pub(crate) use passes::StoredPasses;

/// How both passes in one are cut up.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Stored {
    /// Blocks of every kernel.
    pub blocks: Blocks,
    /// Where logits are stored.
    pub kept: Kept,
    /// Rows whose softmax work follows their product at once; see the forward kernel.
    pub rows_per_sub_tile: usize,
    /// Whether such rows share the memory of their logits, as in a [`Schedule`].
    pub shared_sub_tiles: bool,
}

/// Where logits are stored.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kept {
    /// Where `dw` will be, of as many tokens in whole blocks as it has rows, in a form for which there is
    /// [place](InDw). Those of more tokens, and the block that overhangs the vocabulary, if there is one, are computed
    /// again.
    InDw {
        /// Columns of a chunk of delta, at most (rounded to whole blocks).
        chunk_columns: usize,
        /// Given if threads share columns, of both passes.
        dx: Option<ProductBlocks>,
    },
    /// In the same place; one kernel makes both gradients, each core of its own columns. Its blocks are as high as `H`.
    InDwByCores {
        /// Cores, each with a sum of `dx`, at most. Results depend on how many they are, not on how many threads run
        /// them.
        cores: usize,
    },
    /// In an array of their own, those of a chunk of tokens.
    Rows {
        /// Rows of a chunk, at most (rounded to whole blocks, at least one).
        chunk_rows: usize,
    },
}

/// What is stored in `dw`: as much as there is place for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum InDw {
    /// The logits, in f32.
    Logits,
    /// Exponentials of the logits in bf16, if that is the type of delta and there is no soft cap: each is off by as
    /// much as an element of delta is when it is rounded, where a logit in bf16 would be off by much more.
    Exponentials,
}

impl InDw {
    /// `None` if there is no place.
    pub fn of(head: &Head) -> Option<Self> {
        let is_capped = head.options.soft_cap.is_some();
        match [head.grad_dtype(), head.delta_dtype()] {
            [DType::F32, _] => Some(Self::Logits),
            [_, DType::Bf16] if !is_capped => Some(Self::Exponentials),
            _ => None,
        }
    }
}

/// Columns of a block, at most, where logits take memory: what blocks take less of it is left to rows.
const COLUMNS: usize = 384;
/// Of so many tokens one must have its logits in `dw` at least: it saves a fourth of the work on that token, and the
/// forward pass of all is in the smaller blocks of the backward pass for it.
const MOST_TO_ONE_IN_DW: usize = 8;

impl Stored {
    /// In the blocks of the backward pass of a schedule.
    pub fn like(schedule: &Schedule, kept: Kept) -> Self {
        Self {
            blocks: schedule.backward,
            kept,
            rows_per_sub_tile: schedule.rows_per_sub_tile,
            shared_sub_tiles: schedule.shared_sub_tiles,
        }
    }

    /// Bytes of the array that holds nothing but logits.
    pub fn bytes(&self, head: &Head) -> u128 {
        match self.kept {
            Kept::InDw { .. } | Kept::InDwByCores { .. } => 0,
            Kept::Rows { chunk_rows } => {
                let chunks = Chunks::of_rows(head, self.blocks, chunk_rows);
                let [rows, columns] = ChunkArray::of_rows(head, self.blocks, chunks).dims;
                rows as u128 * columns as u128 * DType::F32.size_bytes() as u128
            }
        }
    }

    /// How many blocks of tokens `dw` has a place for the logits of, or for their exponentials.
    pub fn row_blocks_in_dw(head: &Head, blocks: Blocks) -> usize {
        match InDw::of(head) {
            Some(_) => head.tokens.div_ceil(blocks.b).min(head.hidden / blocks.b),
            None => 0,
        }
    }

    /// Logits in `dw`, or chunks of rows as large as the memory for them allows, in about the blocks of
    /// [`Schedule::for_cache`]; `None` where storing does not pay: too few rows fit, or inputs are bf16 (their logits
    /// are quick to compute again) and `dw` has a place for few, and otherwise would have to be summed outside of its
    /// own array.
    pub fn for_cache(head: &Head, cache: &Cache) -> Option<Self> {
        if head.dtype != head.grad_dtype() {
            return None;
        }
        let streaming = Schedule::for_cache(head, cache);
        let (chunk_columns, dx) = (streaming.chunk_columns, streaming.dx);
        let in_dw = Self::by_cores_for_cache(head, cache)
            .unwrap_or_else(|| Self::like(&streaming, Kept::InDw { chunk_columns, dx }));
        let rows_in_dw = Self::row_blocks_in_dw(head, in_dw.blocks) * in_dw.blocks.b;
        if rows_in_dw >= head.tokens {
            return Some(in_dw);
        }
        Self::by_rows_for_cache(head, cache, &streaming)
            .or_else(|| (rows_in_dw * MOST_TO_ONE_IN_DW >= head.tokens).then_some(in_dw))
    }

    /// The same where each core has columns of its own; `None` if what it holds of all rows would take too much memory.
    fn by_cores_for_cache(head: &Head, cache: &Cache) -> Option<Self> {
        // Each has all rows.
        let alone = Schedule::for_cache(
            head,
            &Cache {
                threads: 1,
                ..*cache
            },
        );
        let cores = cache.threads;
        let mut stored = Self::like(&alone, Kept::InDwByCores { cores });
        let whole = head.hidden / cache.row_multiple * cache.row_multiple;
        stored.blocks.b = stored.blocks.b.min(whole.max(cache.row_multiple));
        let Blocks { b, h, v } = stored.blocks;
        // A sum of dx is made in one place and kept in another. Of x, w and delta there are two packed forms.
        let (packed, word) = (cache.packed_bytes(head.dtype), DType::F32.size_bytes());
        let bytes = [
            (head.tokens * h, 2 * word + 2 * packed),
            (h * v, word + 2 * packed),
            (b * v, word + 2 * packed),
        ];
        let bytes: usize = bytes.iter().map(|(elements, bytes)| elements * bytes).sum();
        (bytes <= cache.stored_bytes).then_some(stored)
    }

    /// The same with logits of chunks of rows.
    fn by_rows_for_cache(head: &Head, cache: &Cache, streaming: &Schedule) -> Option<Self> {
        if head.dtype != DType::F32 {
            return None;
        }
        let Blocks { b, h, v } = streaming.backward;
        let v = v.min(COLUMNS / cache.column_multiple * cache.column_multiple);
        let v = v.max(cache.column_multiple);
        // A row takes its logits, and its part of a packed block of x and of one of logits; besides there is a block of
        // w or dw.
        let packed_bytes = cache.packed_bytes(DType::F32);
        let row_bytes =
            head.vocab.next_multiple_of(v) * DType::F32.size_bytes() + (h + v) * packed_bytes;
        let most_rows = cache.stored_bytes.saturating_sub(h * v * packed_bytes) / row_bytes;
        let whole = if most_rows < b { cache.row_multiple } else { b };
        let most_rows = most_rows / whole * whole;
        if most_rows == 0 {
            return None;
        }
        // All threads have as many rows as any other, and so have all chunks.
        let parts = |size: usize, at_most: usize| size.div_ceil(size.div_ceil(at_most));
        let chunks = head.tokens.div_ceil(most_rows * cache.threads);
        let rows = head.tokens.div_ceil(chunks * cache.threads);
        if chunks > 1 && rows < least_rows(cache) {
            return None;
        }
        let rows = rows.next_multiple_of(cache.row_multiple);
        let b = parts(rows, b).next_multiple_of(cache.row_multiple);
        Some(Self {
            blocks: Blocks { b, h, v },
            kept: Kept::Rows {
                chunk_rows: cache.threads * rows.next_multiple_of(b),
            },
            rows_per_sub_tile: streaming.rows_per_sub_tile,
            shared_sub_tiles: streaming.shared_sub_tiles,
        })
    }

    /// Of the kernels that compute logits.
    fn plan(&self, split: Split) -> Plan {
        Plan {
            blocks: self.blocks,
            sub_tiles: RowSubTiles {
                rows: self.rows_per_sub_tile,
                shared: self.shared_sub_tiles,
                structure: Structure::Overlapped,
            },
            x_in_one_buffer: false,
            lazy: None,
            split,
        }
    }

    fn check(&self, head: &Head) -> Result<(), HeadError> {
        let (chunk, dx) = match self.kept {
            Kept::InDw { chunk_columns, dx } => (("chunk columns", chunk_columns), dx),
            Kept::InDwByCores { cores } => (("cores", cores), None),
            Kept::Rows { chunk_rows } => (("chunk rows", chunk_rows), None),
        };
        check_sizes([
            ("block b", self.blocks.b),
            ("block h", self.blocks.h),
            ("block v", self.blocks.v),
            chunk,
            ("rows per sub-tile", self.rows_per_sub_tile),
        ])?;
        ProductBlocks::check_dx(dx)?;
        let is_in_dw = !matches!(self.kept, Kept::Rows { .. });
        if is_in_dw && Self::row_blocks_in_dw(head, self.blocks) == 0 {
            return Err(HeadError::NoPlaceInDw {
                rows: self.blocks.b,
                hidden: head.hidden,
                dtype: head.grad_dtype(),
            });
        }
        Ok(())
    }
}

/// Rows of a thread from which on the product that is saved takes longer than the bytes that are moved for it.
const fn least_rows(cache: &Cache) -> usize {
    // Of f32: w for logits and for dx, dw to read and to write. Two operations for each row.
    4 * DType::F32.size_bytes() * cache.operations_per_byte / 2
}

#[cfg(test)]
mod tests;
