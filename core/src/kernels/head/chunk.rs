//! What the kernels over a chunk share, be it one of columns or of rows: the array that holds the chunk, and products
//! summed over the steps of a kernel or over chunks.

use super::Head;
use super::blocks::Blocks;
use super::dealt::Chunks;
use crate::DType;
use crate::ops::{Accumulate, TileOps};
use crate::spec::{AxisId, BlockIndex, Blocked, SpecBuilder};
use crate::view::{ScalarsRef, TileRef};

/// An array of logits or delta, in blocks of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ChunkArray {
    pub(super) dtype: DType,
    /// `[rows, columns]`
    pub(super) dims: [usize; 2],
    block: [usize; 2],
    /// Whether it is [packed](Blocked::packed).
    pub(super) packed: bool,
}

impl ChunkArray {
    /// Delta of all rows and a chunk of columns, in whole blocks from the first of the chunk on. The overhang of delta
    /// is 0, so that sums over it need no mask on this side.
    pub(super) fn of_columns(head: &Head, blocks: Blocks, chunks: Chunks) -> Self {
        Self {
            dtype: head.delta_dtype(),
            dims: [blocks.whole(head)[0], chunks.blocks * blocks.v],
            block: [blocks.b, blocks.v],
            packed: head.delta_packed,
        }
    }

    /// Logits, and in their place delta, of a chunk of rows and all columns, in whole blocks from the first of the
    /// chunk on.
    pub(super) fn of_rows(head: &Head, blocks: Blocks, chunks: Chunks) -> Self {
        Self {
            dtype: DType::F32,
            dims: [chunks.blocks * blocks.b, blocks.whole(head)[2]],
            block: [blocks.b, blocks.v],
            packed: false,
        }
    }

    /// What the forward pass leaves in the first rows of `dw`.
    pub(super) fn in_dw(head: &Head, blocks: Blocks) -> Self {
        Self {
            dtype: head.grad_dtype(),
            dims: [head.hidden, head.vocab],
            block: [blocks.b, blocks.v],
            packed: false,
        }
    }

    /// The same array in blocks of fewer rows.
    pub(super) fn in_rows(mut self, rows: usize) -> Self {
        self.block[0] = rows;
        self
    }

    /// The window onto it at a block.
    pub(super) fn window(
        self,
        rows: impl Into<BlockIndex>,
        columns: impl Into<BlockIndex>,
    ) -> Blocked {
        let index = [rows.into(), columns.into()];
        Blocked::new(self.dtype, self.dims, self.block, index).in_pairs(self.packed)
    }

    /// Parts of so many rows of its blocks, to be copied.
    pub(super) fn by_copy(self, rows: usize) -> Blocked {
        Blocked::by_copy(self.dtype, self.dims, [rows, self.block[1]])
    }
}

/// The `w` of kernels: its columns, and which block of them a step has.
#[derive(Clone, Debug)]
pub(super) struct WeightColumns {
    pub(super) count: usize,
    pub(super) block: BlockIndex,
}

impl WeightColumns {
    /// Of a kernel that gets `w` as it is.
    pub(super) fn all(head: &Head, block: impl Into<BlockIndex>) -> Self {
        Self {
            count: head.vocab,
            block: block.into(),
        }
    }

    /// Of a kernel over blocks of `v` columns of a chunk, the number of whose first block is the first of `chunk`:
    /// those that are rounded are in an array of their own.
    pub(super) fn of_chunk(
        head: &Head,
        (chunks, v): (Chunks, usize),
        columns: AxisId,
        chunk: ScalarsRef,
    ) -> Self {
        match head.w_dtype == head.dtype {
            true => Self::all(head, BlockIndex::from(columns) + chunk.at(0)),
            false => Self {
                count: chunks.blocks * v,
                block: columns.into(),
            },
        }
    }
}

/// A product whose terms are the steps along an axis, summed in f32 and then rounded to the type of the output.
#[derive(Clone, Copy, Debug)]
pub(super) struct SummedOutput {
    axis: AxisId,
    sum: TileRef,
    out: TileRef,
}

impl SummedOutput {
    /// Declares the output, and a sum if it cannot hold that itself.
    pub(super) fn declare(
        spec: &mut SpecBuilder,
        axis: AxisId,
        [name, sum_name]: [&'static str; 2],
        operand: Blocked,
    ) -> Self {
        let (dtype, block) = (operand.dtype, [operand.block[0], operand.block[1]]);
        let out = spec.output_tile(name, operand);
        let sum = match dtype {
            DType::F32 => out,
            _ => spec.scratch_tile(sum_name, DType::F32, block),
        };
        Self { axis, sum, out }
    }

    /// Adds this step's term.
    pub(super) fn add<T: TileOps>(&self, t: &T, product: impl Fn(TileRef, Accumulate)) {
        summed(t, self.axis, |accumulate| product(self.sum, accumulate));
        if self.sum != self.out {
            t.when(t.is_last(self.axis), || t.cast(self.out, self.sum));
        }
    }
}

/// Adds this step's term to a sum whose terms are the steps along an axis.
pub(super) fn summed<T: TileOps>(t: &T, axis: AxisId, add: impl Fn(Accumulate)) {
    t.when(t.is_first(axis), || add(Accumulate::Overwrite));
    t.when(t.is_after_first(axis), || add(Accumulate::Add));
}

/// Declares an array that a kernel updates in place: a block of it before and after.
pub(super) fn updated_array(
    spec: &mut SpecBuilder,
    names: [&'static str; 2],
    operand: Blocked,
) -> [TileRef; 2] {
    let before = spec.input_tile(names[0], operand.clone());
    let after = spec.output_tile(names[1], operand);
    spec.alias(before, after);
    [before, after]
}
