//! `w` rounded by chunks of columns, for products that would round it for each block of rows.

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

/// The columns of a chunk in the type in which the kernels of the chunk get them. Grid `(hidden, columns of the chunk)`; the scalar is
/// the chunk's first column block.
#[derive(Clone, Debug)]
pub struct RoundedWeights {
    spec: KernelSpec,
    from: TileRef,
    to: TileRef,
}

impl RoundedWeights {
    /// The kernel for `head`, which has `w` rounded. Operands: `w`, then the array of the chunk.
    ///
    /// # Errors
    /// The spec refuses the blocks.
    pub(super) fn new(
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
}

impl Kernel for RoundedWeights {
    fn spec(&self) -> &KernelSpec {
        &self.spec
    }

    fn body<T: TileOps>(&self, t: &T) {
        t.cast(self.to, self.from);
    }
}
