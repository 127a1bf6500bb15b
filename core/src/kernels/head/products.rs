//! The two products over a chunk of columns of delta, and the bias gradient.

use super::blocks::{Blocks, ProductBlocks};
use super::chunk::{ChunkArray, SummedOutput, WeightColumns, summed, updated_array};
use super::dealt::Chunks;
use super::logits::{w_window, x_window};
use super::{Head, HeadError};
use crate::DType;
use crate::expr::Expr;
use crate::ops::{Accumulate, Contract, TileOps, Unroll};
use crate::program::Kernel;
use crate::spec::{AxisId, BlockIndex, Blocked, KernelSpec, Semantics, SpecBuilder};
use crate::view::{ColumnsRef, ScalarsRef, Tile, TileRef};

/// `dx += delta w^T` over one chunk, in f32 and in place. Grid `(rows, hidden, columns of the
/// chunk)`. Scalars: the chunk's first column block, and how many of its blocks an earlier chunk
/// has already covered.
#[derive(Clone, Debug)]
pub struct HiddenGradient {
    spec: KernelSpec,
    head: Head,
    blocks: Blocks,
    columns: AxisId,
    chunk: ScalarsRef,
    delta: TileRef,
    w: TileRef,
    before: TileRef,
    after: TileRef,
}

impl HiddenGradient {
    /// The kernel for `head`. Operands: `delta`, `w`, `dx`, `dx` (input, then output).
    ///
    /// # Errors
    /// The spec refuses the blocks.
    pub(super) fn new(
        name: &'static str,
        head: &Head,
        (blocks, own): (Blocks, Option<ProductBlocks>),
        chunks: Chunks,
    ) -> Result<Self, HeadError> {
        let delta = ChunkArray::of_columns(head, blocks, chunks);
        let blocks = ProductBlocks::or(own, blocks);
        let mut spec = SpecBuilder::new(name);
        let row_blocks = head.tokens.div_ceil(blocks.b);
        let rows = spec.axis("rows", row_blocks, Semantics::Parallel);
        let hidden_blocks = head.hidden.div_ceil(blocks.h);
        let hidden = spec.axis("hidden", hidden_blocks, Semantics::Parallel);
        let columns = spec.axis("columns", chunks.blocks, Semantics::Arbitrary);
        let chunk = spec.scalars("chunk", 2);
        // Rows beyond those of the array are of dx what is dropped.
        let delta = delta.in_rows(blocks.b).window(rows, columns).masked();
        let delta = spec.input_tile("delta", delta);
        let of_chunk = WeightColumns::of_chunk(head, (chunks, blocks.v), columns, chunk);
        let w = w_window(&mut spec, head, blocks, hidden.into(), of_chunk);
        let accumulator = Blocked::new(
            DType::F32,
            [head.tokens, head.hidden],
            [blocks.b, blocks.h],
            [rows.into(), hidden.into()],
        )
        .masked();
        let [before, after] = updated_array(&mut spec, ["dx_before", "dx"], accumulator);
        Ok(Self {
            spec: spec.build()?,
            head: *head,
            blocks,
            columns,
            chunk,
            delta,
            w,
            before,
            after,
        })
    }
}

impl Kernel for HiddenGradient {
    fn spec(&self) -> &KernelSpec {
        &self.spec
    }

    fn body<T: TileOps>(&self, t: &T) {
        let column = t.program_id(self.columns);
        let first_block = t.scalar(self.chunk, 0);
        let covered = t.scalar(self.chunk, 1);
        t.when(t.is_first(self.columns), || {
            // Only the first chunk starts at block 0.
            t.when(t.equals(first_block, t.index(0)), || {
                t.element_wise(self.after, Expr::constant(0.0));
            });
            t.when(t.less_than(t.index(0), first_block), || {
                t.cast(self.after, self.before);
            });
        });
        if !self.head.vocab.is_multiple_of(self.blocks.v) {
            let block = column + first_block;
            let left = t.index(self.head.vocab as i64) - block * self.blocks.v as i64;
            t.mask_columns(self.w, left, 0.0);
        }
        t.when(t.less_than(covered, column + 1), || {
            let (delta, w) = (self.delta, self.w);
            t.matmul(self.after, delta, w, Contract::NT, Accumulate::Add);
        });
    }
}

/// `dw = x^T delta` over one chunk. Grid `(hidden, columns of the chunk, rows)`; the scalar is the
/// chunk's first column block. Blocks that an earlier chunk covered get the same values again.
#[derive(Clone, Debug)]
pub struct WeightGradient {
    spec: KernelSpec,
    head: Head,
    blocks: Blocks,
    rows_of_delta: usize,
    product_rows: usize,
    rows: AxisId,
    x: TileRef,
    delta: TileRef,
    dw: SummedOutput,
}

impl WeightGradient {
    /// The kernel for `head`. Operands: `x`, `delta`, `dw`.
    ///
    /// # Errors
    /// The spec refuses the blocks.
    pub(super) fn new(
        name: &'static str,
        head: &Head,
        (blocks, own, product_rows): (Blocks, Option<ProductBlocks>, Option<usize>),
        chunks: Chunks,
    ) -> Result<Self, HeadError> {
        let delta = ChunkArray::of_columns(head, blocks, chunks);
        let blocks = ProductBlocks::or(own, blocks);
        let mut spec = SpecBuilder::new(name);
        let hidden_blocks = head.hidden.div_ceil(blocks.h);
        let hidden = spec.axis("hidden", hidden_blocks, Semantics::Parallel);
        let columns = spec.axis("columns", chunks.blocks, Semantics::Parallel);
        let row_blocks = head.tokens.div_ceil(blocks.b);
        let rows = spec.axis("rows", row_blocks, Semantics::Arbitrary);
        let chunk = spec.scalars("chunk", 1);
        let x = x_window(&mut spec, head, blocks, rows.into(), hidden.into());
        let rows_of_delta = delta.dims[0];
        let delta = delta.in_rows(blocks.b).window(rows, columns).masked();
        let delta = spec.input_tile("delta", delta);
        let operand = Blocked::new(
            head.grad_dtype(),
            [head.hidden, head.vocab],
            [blocks.h, blocks.v],
            [hidden.into(), BlockIndex::from(columns) + chunk.at(0)],
        )
        .masked();
        let dw = SummedOutput::declare(&mut spec, rows, ["dw", "dw_sum"], operand);
        Ok(Self {
            spec: spec.build()?,
            head: *head,
            blocks,
            rows_of_delta,
            product_rows: product_rows.map_or(blocks.h, |rows| rows.min(blocks.h)),
            rows,
            x,
            delta,
            dw,
        })
    }
}

impl Kernel for WeightGradient {
    fn spec(&self) -> &KernelSpec {
        &self.spec
    }

    fn body<T: TileOps>(&self, t: &T) {
        for (tile, rows) in [(self.x, self.head.tokens), (self.delta, self.rows_of_delta)] {
            if !rows.is_multiple_of(self.blocks.b) {
                let left = t.index(rows as i64) - t.program_id(self.rows) * self.blocks.b as i64;
                t.mask_rows(tile, left, 0.0);
            }
        }
        self.dw.add(t, |sum, accumulate| {
            t.for_sub_tiles(self.blocks.h, self.product_rows, Unroll::Full, |rows| {
                let x = Tile {
                    columns: rows,
                    ..self.x.into()
                };
                t.matmul(sum.rows(rows), x, self.delta, Contract::TN, accumulate);
            });
        });
    }
}

/// `dbias = sum of delta over rows` for one chunk. Grid `(columns of the chunk, rows)`.
#[derive(Clone, Debug)]
pub struct BiasGradient {
    spec: KernelSpec,
    rows: AxisId,
    delta: TileRef,
    dbias: ColumnsRef,
}

impl BiasGradient {
    /// The kernel for `head`. Operands: `delta`, `dbias`.
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
        let columns = spec.axis("columns", chunks.blocks, Semantics::Parallel);
        let row_blocks = head.tokens.div_ceil(blocks.b);
        let rows = spec.axis("rows", row_blocks, Semantics::Arbitrary);
        let chunk = spec.scalars("chunk", 1);
        let delta = ChunkArray::of_columns(head, blocks, chunks).window(rows, columns);
        let delta = spec.input_tile("delta", delta);
        let dbias = spec.output_columns(
            "dbias",
            Blocked::new(
                DType::F32,
                [head.vocab],
                [blocks.v],
                [BlockIndex::from(columns) + chunk.at(0)],
            )
            .masked(),
        );
        Ok(Self {
            spec: spec.build()?,
            rows,
            delta,
            dbias,
        })
    }
}

impl Kernel for BiasGradient {
    fn spec(&self) -> &KernelSpec {
        &self.spec
    }

    fn body<T: TileOps>(&self, t: &T) {
        summed(t, self.rows, |accumulate| {
            t.column_sum(self.dbias, self.delta, accumulate);
        });
    }
}
