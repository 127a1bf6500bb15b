//! The grid of a pass over logits, and where the rows of a step lie.

use super::{Blocks, Logits, LogitsError};
use crate::DType;
use crate::ops::{TileOps, Unroll};
use crate::spec::{AxisId, BlockIndex, Blocked, Semantics, SpecBuilder};
use crate::target::LANES;
use crate::view::Span;

/// Grid `(vectors, blocks of a vector, columns)`: a vector is a window of a per-token vector, which may
/// stand beside several blocks of logits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows {
    pub(super) columns: AxisId,
    vector: AxisId,
    block: AxisId,
    logits: Logits,
    pub(super) blocks: Blocks,
}

/// Some rows of a step, as rows of the block and as rows of the vector beside it.
#[derive(Clone, Copy)]
pub(super) struct RowSpans<I> {
    pub(super) block: Span<I>,
    pub(super) vector: Span<I>,
}

impl Rows {
    pub(super) fn declare(
        spec: &mut SpecBuilder,
        logits: &Logits,
        blocks: Blocks,
    ) -> Result<Self, LogitsError> {
        blocks.check(logits)?;
        let vector = spec.axis("vectors", blocks.vectors(logits), Semantics::Parallel);
        let block = spec.axis("blocks", blocks.vector / blocks.b, Semantics::Arbitrary);
        let column_blocks = logits.vocab().div_ceil(blocks.v);
        let columns = spec.axis("columns", column_blocks, Semantics::Arbitrary);
        Ok(Self {
            columns,
            vector,
            block,
            logits: *logits,
            blocks,
        })
    }

    /// An array `[B,V]` in blocks.
    pub(super) fn tile(&self, dtype: DType) -> Blocked {
        let Blocks { b, v, vector, .. } = self.blocks;
        let row =
            BlockIndex::from(self.vector) * (vector / b) as i64 + BlockIndex::from(self.block);
        let dims = [self.logits.tokens(), self.logits.vocab()];
        Blocked::new(dtype, dims, [b, v], [row, self.columns.into()]).masked()
    }

    /// An array `[B]` in windows.
    pub(super) fn vector(&self, dtype: DType) -> Blocked {
        let (dims, block) = ([self.logits.tokens()], [self.blocks.vector]);
        Blocked::new(dtype, dims, block, [self.vector.into()]).masked()
    }

    /// Whether the block is the first one of its vector.
    pub(super) fn is_first<T: TileOps>(&self, t: &T) -> T::Condition {
        t.is_first(self.block)
    }

    /// Whether it is the last one.
    pub(super) fn is_last<T: TileOps>(&self, t: &T) -> T::Condition {
        t.is_last(self.block)
    }

    /// All rows of the step.
    pub(super) fn all<T: TileOps>(&self, t: &T) -> RowSpans<T::Index> {
        self.spans(t, Span::all(self.blocks.b))
    }

    /// Runs `body` on the rows of the step, those of a sub-tile at a time.
    pub(super) fn for_rows<T: TileOps>(&self, t: &T, body: impl Fn(RowSpans<T::Index>)) {
        let Blocks { b, sub_tile, .. } = self.blocks;
        // No product that could overlap: a loop keeps the code small.
        t.for_sub_tiles(b, sub_tile[0], Unroll::Rolled, |span| {
            body(self.spans(t, span))
        });
    }

    /// Runs `body` on the rows of the step, as many as a register has lanes at a time: what is known of more of them at
    /// once would not fit the registers.
    pub(super) fn for_vectors<T: TileOps>(&self, t: &T, body: impl Fn(RowSpans<T::Index>)) {
        let b = self.blocks.b;
        t.for_sub_tiles(b, b.min(LANES), Unroll::Full, |span| {
            body(self.spans(t, span))
        });
    }

    /// Runs `body` on the columns of the block, those of a sub-tile at a time.
    pub(super) fn for_columns<T: TileOps>(&self, t: &T, body: impl Fn(Span<T::Index>)) {
        let Blocks { v, sub_tile, .. } = self.blocks;
        t.for_sub_tiles(v, sub_tile[1], Unroll::Full, body);
    }

    /// The column of the array at which the block starts.
    pub(super) fn first_column<T: TileOps>(&self, t: &T) -> T::Index {
        t.program_id(self.columns) * self.blocks.v as i64
    }

    /// Columns of a block that may lie past the vocabulary, from a group of lanes on: those of the last block do.
    pub(super) fn overhanging_columns<T: TileOps>(&self, t: &T) -> Option<Span<T::Index>> {
        let v = self.blocks.v;
        let inside = self.logits.vocab() % v;
        let first = inside / LANES * LANES;
        (inside > 0).then(|| Span::new(t.index(first as i64), v - first))
    }

    fn spans<T: TileOps>(&self, t: &T, block: Span<T::Index>) -> RowSpans<T::Index> {
        let Blocks { b, vector, .. } = self.blocks;
        if vector == b {
            let vector = block;
            return RowSpans { block, vector };
        }
        let start = t.program_id(self.block) * b as i64 + block.start.unwrap_or_else(|| t.index(0));
        let vector = Span::new(start, block.len);
        RowSpans { block, vector }
    }
}
