//! `x` and `w` in the form in which products take them, who would make it of every block that they read: `w` rounded by
//! chunks of columns, `x` rounded and [packed](crate::spec::Blocked::packed).

use super::blocks::Blocks;
use super::chunk::WeightColumns;
use super::dealt::Chunks;
use super::{Head, HeadError};
use crate::ops::TileOps;
use crate::program::Kernel;
use crate::spec::{BlockIndex, Blocked, KernelSpec, Semantics, SpecBuilder};
use crate::view::TileRef;

/// Rows of a block at most: a block of them is long beside what a step costs, and its windows are small.
const ROWS: usize = 1024;

/// Elements of a block of `x` at most: half of the 16 MiB of a v4, f32 in and bf16 out, twice.
const X_ELEMENTS: usize = 512 * 1024;
/// Rows of one at least, as many as a register has of bf16.
const X_ROWS: usize = 16;

/// An operand rounded. Of `w` the columns of a chunk, grid `(hidden, columns of the chunk)`; the scalar is the chunk's
/// first column block. Of `x` all, grid `(rows, hidden)`.
#[derive(Clone, Debug)]
pub struct Rounded {
    spec: KernelSpec,
    from: TileRef,
    to: TileRef,
}

impl Rounded {
    /// The kernel for a `head` that has `w` rounded. Operands: `w`, then the array of the chunk.
    ///
    /// # Errors
    /// The spec refuses the blocks.
    pub(super) fn weights(
        name: &'static str,
        head: &Head,
        blocks: Blocks,
        chunks: Chunks,
    ) -> Result<Self, HeadError> {
        let rows = blocks.h.min(ROWS);
        let mut spec = SpecBuilder::new(name);
        let hidden_blocks = head.hidden.div_ceil(rows);
        let hidden = spec.axis("hidden", hidden_blocks, Semantics::Parallel);
        let columns = spec.axis("columns", chunks.blocks, Semantics::Parallel);
        let chunk = spec.scalars("chunk", 1);
        let index = [hidden.into(), BlockIndex::from(columns) + chunk.at(0)];
        let dims = [head.hidden, head.vocab];
        let from = Blocked::new(head.dtype, dims, [rows, blocks.v], index).masked();
        let from = spec.input_tile("w", from);
        let of_chunk = WeightColumns::of_chunk(head, (chunks, blocks.v), columns, chunk);
        let (dims, index) = (
            [head.hidden, of_chunk.count],
            [hidden.into(), of_chunk.block],
        );
        let to = Blocked::new(head.w_dtype, dims, [rows, blocks.v], index).masked();
        let to = spec.output_tile("w_rounded", to);
        Ok(Self {
            spec: spec.build()?,
            from,
            to,
        })
    }

    /// The kernel for a `head` that has `x` packed. Operands: `x`, then the array of the packed.
    ///
    /// # Errors
    /// The spec refuses the blocks.
    pub(super) fn x(name: &'static str, head: &Head, blocks: Blocks) -> Result<Self, HeadError> {
        let most_rows = (X_ELEMENTS / blocks.h).max(X_ROWS);
        let block = [blocks.b.min(1 << most_rows.ilog2()), blocks.h];
        let dims = [head.tokens, head.hidden];
        let mut spec = SpecBuilder::new(name);
        let [rows, hidden] = [("rows", 0), ("hidden", 1)]
            .map(|(name, i)| spec.axis(name, dims[i].div_ceil(block[i]), Semantics::Parallel));
        let operand =
            |dtype| Blocked::new(dtype, dims, block, [rows.into(), hidden.into()]).masked();
        let from = spec.input_tile("x", operand(head.dtype));
        let to = operand(head.x_dtype).in_pairs(head.x_packed);
        let to = spec.output_tile("x_packed", to);
        Ok(Self {
            spec: spec.build()?,
            from,
            to,
        })
    }
}

impl Kernel for Rounded {
    fn spec(&self) -> &KernelSpec {
        &self.spec
    }

    fn body<T: TileOps>(&self, t: &T) {
        t.cast(self.to, self.from);
    }
}
