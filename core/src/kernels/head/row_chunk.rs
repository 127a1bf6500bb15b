//! What becomes of the delta of a chunk of rows, which stands in the place of their stored logits.
//!
//! The kernels over a chunk of columns are those of [`products`](super::products).

use super::blocks::Blocks;
use super::chunk::{ChunkArray, SummedOutput, WeightColumns, updated_array};
use super::dealt::Chunks;
use super::logits::{w_window, x_window};
use super::{Head, HeadError};
use crate::DType;
use crate::ops::{Accumulate, Contract, Direction, TileOps};
use crate::program::Kernel;
use crate::spec::{AxisId, BlockIndex, Blocked, KernelSpec, Semantics, SpecBuilder};
use crate::view::{ColumnsRef, HbmRef, ScalarsRef, SemaphoreRef, TileRef};

/// `dx = delta w^T` for the rows of one chunk. Grid `(rows of the chunk, hidden, columns)`; the scalar
/// operand is the chunk's first row block.
#[derive(Clone, Debug)]
pub struct StoredHiddenGradient {
    spec: KernelSpec,
    head: Head,
    blocks: Blocks,
    columns: AxisId,
    delta: TileRef,
    w: TileRef,
    dx: SummedOutput,
}

impl StoredHiddenGradient {
    /// The kernel for `head`. Operands: `delta`, `w`, `dx`.
    ///
    /// # Errors
    /// The spec refuses the blocks.
    pub(super) fn new(
        name: &'static str,
        head: &Head,
        blocks: Blocks,
        chunks: Chunks,
    ) -> Result<Self, HeadError> {
        let mut spec = SpecBuilder::new(name);
        let rows = spec.axis("rows", chunks.blocks, Semantics::Parallel);
        let hidden_blocks = head.hidden.div_ceil(blocks.h);
        let hidden = spec.axis("hidden", hidden_blocks, Semantics::Parallel);
        let column_blocks = head.vocab.div_ceil(blocks.v);
        let columns = spec.axis("columns", column_blocks, Semantics::Arbitrary);
        let chunk = spec.scalars("chunk", 1);
        let stored = ChunkArray::of_rows(head, blocks, chunks);
        let delta = spec.input_tile("delta", stored.window(rows, columns));
        let all = WeightColumns::all(head, columns);
        let w = w_window(&mut spec, head, blocks, hidden.into(), all);
        let operand = Blocked::new(
            head.grad_dtype(),
            [head.tokens, head.hidden],
            [blocks.b, blocks.h],
            [BlockIndex::from(rows) + chunk.at(0), hidden.into()],
        )
        .masked();
        let dx = SummedOutput::declare(&mut spec, columns, ["dx", "dx_sum"], operand);
        Ok(Self {
            spec: spec.build()?,
            head: *head,
            blocks,
            columns,
            delta,
            w,
            dx,
        })
    }
}

impl Kernel for StoredHiddenGradient {
    fn spec(&self) -> &KernelSpec {
        &self.spec
    }

    fn body<T: TileOps>(&self, t: &T) {
        let (vocab, v) = (self.head.vocab, self.blocks.v);
        if !vocab.is_multiple_of(v) {
            let left = t.index(vocab as i64) - t.program_id(self.columns) * v as i64;
            t.mask_columns(self.w, left, 0.0);
        }
        self.dx.add(t, |sum, accumulate| {
            t.matmul(sum, self.delta, self.w, Contract::NT, accumulate);
        });
    }
}

/// `dw += x^T delta` over the rows of one chunk, in f32 and in place. Grid `(hidden, columns, rows of the
/// chunk)`. Scalars: the chunk's first row block, and how many of its blocks an earlier chunk has
/// already added.
#[derive(Clone, Debug)]
pub struct StoredWeightGradient {
    spec: KernelSpec,
    head: Head,
    blocks: Blocks,
    rows: AxisId,
    chunk: ScalarsRef,
    x: TileRef,
    delta: TileRef,
    before: TileRef,
    after: TileRef,
}

impl StoredWeightGradient {
    /// The kernel for `head`. Operands: `x`, `delta`, `dw`, `dw` (input, then output).
    ///
    /// # Errors
    /// The spec refuses the blocks.
    pub(super) fn new(
        name: &'static str,
        head: &Head,
        blocks: Blocks,
        chunks: Chunks,
    ) -> Result<Self, HeadError> {
        let mut spec = SpecBuilder::new(name);
        let hidden_blocks = head.hidden.div_ceil(blocks.h);
        let hidden = spec.axis("hidden", hidden_blocks, Semantics::Parallel);
        let column_blocks = head.vocab.div_ceil(blocks.v);
        let columns = spec.axis("columns", column_blocks, Semantics::Parallel);
        let rows = spec.axis("rows", chunks.blocks, Semantics::Arbitrary);
        let chunk = spec.scalars("chunk", 2);
        let row_block = BlockIndex::from(rows) + chunk.at(0);
        let x = x_window(&mut spec, head, blocks, row_block, hidden.into());
        let stored = ChunkArray::of_rows(head, blocks, chunks);
        let delta = spec.input_tile("delta", stored.window(rows, columns));
        let accumulator = Blocked::new(
            DType::F32,
            [head.hidden, head.vocab],
            [blocks.h, blocks.v],
            [hidden.into(), columns.into()],
        )
        .masked();
        let [before, after] = updated_array(&mut spec, ["dw_before", "dw"], accumulator);
        Ok(Self {
            spec: spec.build()?,
            head: *head,
            blocks,
            rows,
            chunk,
            x,
            delta,
            before,
            after,
        })
    }
}

impl Kernel for StoredWeightGradient {
    fn spec(&self) -> &KernelSpec {
        &self.spec
    }

    fn body<T: TileOps>(&self, t: &T) {
        let row = t.program_id(self.rows);
        let row_block = row + t.scalar(self.chunk, 0);
        let (tokens, b) = (self.head.tokens, self.blocks.b);
        if !tokens.is_multiple_of(b) {
            let left = t.index(tokens as i64) - row_block * b as i64;
            t.mask_rows(self.x, left, 0.0);
        }
        let product = |accumulate| {
            t.matmul(self.after, self.x, self.delta, Contract::TN, accumulate);
        };
        // Only the first chunk starts at block 0.
        t.when(t.equals(row_block, t.index(0)), || {
            product(Accumulate::Overwrite);
        });
        t.when(t.less_than(t.index(0), row_block), || {
            t.when(t.is_first(self.rows), || t.cast(self.after, self.before));
            t.when(t.less_than(t.scalar(self.chunk, 1), row + 1), || {
                product(Accumulate::Add);
            });
        });
    }
}

/// The sum of delta over the rows of one chunk, for `dbias`. Grid `(columns, rows of the chunk)`. Scalars:
/// the chunk, and how many of its blocks an earlier chunk has already added.
#[derive(Clone, Debug)]
pub struct StoredBiasGradient {
    spec: KernelSpec,
    columns: AxisId,
    rows: AxisId,
    chunk: ScalarsRef,
    delta: TileRef,
    sum: ColumnsRef,
    partials: HbmRef,
    write: SemaphoreRef,
}

impl StoredBiasGradient {
    /// The kernel for `head`. Operands: `delta`, and in f32 `dbias [chunks,1,V']`, of which it writes a chunk's row:
    /// a matrix of its own, because a copy takes whole tiles.
    ///
    /// # Errors
    /// The spec refuses the blocks.
    pub(super) fn new(
        name: &'static str,
        head: &Head,
        blocks: Blocks,
        chunks: Chunks,
    ) -> Result<Self, HeadError> {
        let mut spec = SpecBuilder::new(name);
        let column_blocks = head.vocab.div_ceil(blocks.v);
        let columns = spec.axis("columns", column_blocks, Semantics::Parallel);
        let rows = spec.axis("rows", chunks.blocks, Semantics::Arbitrary);
        let chunk = spec.scalars("chunk", 2);
        let stored = ChunkArray::of_rows(head, blocks, chunks);
        let delta = spec.input_tile("delta", stored.window(rows, columns));
        let dims = [chunks.count, 1, blocks.whole(head)[2]];
        let window = Blocked::by_copy(DType::F32, dims, [1, 1, blocks.v]);
        let partials = spec.hbm("dbias", window);
        let sum = spec.scratch_columns("dbias_tile", blocks.v);
        let write = spec.semaphore("dbias_write");
        Ok(Self {
            spec: spec.build()?,
            columns,
            rows,
            chunk,
            delta,
            sum,
            partials,
            write,
        })
    }
}

impl Kernel for StoredBiasGradient {
    fn spec(&self) -> &KernelSpec {
        &self.spec
    }

    fn body<T: TileOps>(&self, t: &T) {
        let row = t.program_id(self.rows);
        let (covered, sum) = (t.scalar(self.chunk, 1), self.sum.as_tile(DType::F32));
        t.when(t.equals(row, covered), || {
            t.column_sum(self.sum, self.delta, Accumulate::Overwrite);
        });
        t.when(t.less_than(covered, row), || {
            t.column_sum(self.sum, self.delta, Accumulate::Add);
        });
        t.when(t.is_last(self.rows), || {
            let index = [
                t.scalar(self.chunk, 0),
                t.index(0),
                t.program_id(self.columns),
            ];
            let block = self.partials.block(index);
            t.start_copy(Direction::Store, block, sum, self.write);
            t.wait(Direction::Store, block, sum, self.write);
        });
    }
}
