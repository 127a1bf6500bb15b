//! What a kernel reads, keeps and writes for each of its rows.

use alloc::vec::Vec;

use super::Head;
use super::blocks::Blocks;
use crate::DType;
use crate::expr::{Expr, Leaf};
use crate::kernels::softmax::{Statistics, Wanted};
use crate::ops::TileOps;
use crate::spec::{BlockIndex, Blocked, SpecBuilder};
use crate::view::{Rows, RowsRef};

/// Declares vectors `[B]` in windows beside the rows of a step, and scratch of their size.
pub(crate) struct PerRow<'s> {
    spec: &'s mut SpecBuilder,
    head: Head,
    b: usize,
    rows: BlockIndex,
    /// Given if outputs are of a column block.
    of_columns: Option<(ByColumnBlock, BlockIndex)>,
}

/// Vectors that have an element for each row of each column block, those of a row block together.
#[derive(Clone, Copy, Debug)]
pub(super) struct ByColumnBlock {
    pub(super) dims: [usize; 1],
    b: usize,
    column_blocks: usize,
}

impl ByColumnBlock {
    pub(super) fn new(head: &Head, blocks: Blocks) -> Self {
        let column_blocks = head.vocab.div_ceil(blocks.v);
        Self {
            dims: [blocks.whole(head)[0] * column_blocks],
            b: blocks.b,
            column_blocks,
        }
    }

    pub(super) fn window(self, rows: BlockIndex, columns: BlockIndex) -> Blocked {
        let index = rows * self.column_blocks as i64 + columns;
        Blocked::new(DType::F32, self.dims, [self.b], [index])
    }
}

/// Vectors, each with its value from others; computed in this order.
pub(crate) type RowWise = Vec<(RowsRef, Expr<RowsRef>)>;

impl<'s> PerRow<'s> {
    pub(super) fn new(spec: &'s mut SpecBuilder, head: &Head, b: usize, rows: BlockIndex) -> Self {
        let head = *head;
        Self {
            spec,
            head,
            b,
            rows,
            of_columns: None,
        }
    }

    /// The same, but outputs have an element for each row of each column block.
    pub(super) fn by_column_block(mut self, blocks: Blocks, columns: BlockIndex) -> Self {
        self.of_columns = Some((ByColumnBlock::new(&self.head, blocks), columns));
        self
    }

    fn window(&self, dtype: DType) -> Blocked {
        Blocked::new(dtype, [self.head.tokens], [self.b], [self.rows.clone()]).masked()
    }

    /// An f32 input.
    pub(crate) fn input(&mut self, name: &'static str) -> RowsRef {
        let window = self.window(DType::F32);
        self.spec.input_rows(name, window)
    }

    /// An f32 input whose block follows from that of the rows.
    pub(super) fn input_at(
        &mut self,
        name: &'static str,
        window: impl FnOnce(BlockIndex) -> Blocked,
    ) -> RowsRef {
        self.spec.input_rows(name, window(self.rows.clone()))
    }

    /// The labels.
    pub(crate) fn labels(&mut self) -> RowsRef {
        let window = self.window(DType::I32);
        self.spec.input_rows("labels", window)
    }

    /// An f32 output.
    pub(crate) fn output(&mut self, name: &'static str) -> RowsRef {
        let window = match &self.of_columns {
            None => self.window(DType::F32),
            Some((vectors, columns)) => vectors.window(self.rows.clone(), columns.clone()),
        };
        self.spec.output_rows(name, window)
    }

    /// An f32 vector of the kernel's own.
    pub(crate) fn scratch(&mut self, name: &'static str) -> RowsRef {
        self.spec.scratch_rows(name, self.b)
    }

    /// Statistics of `scale` times the logits.
    pub(crate) fn statistics(&mut self, wanted: Wanted, scale: f32) -> Statistics {
        Statistics::declare(self.spec, wanted, self.head.vocab, scale, self.b, self.b)
    }
}

/// Computes vectors for all rows of a step.
pub(super) fn compute<T: TileOps>(t: &T, vectors: &[(RowsRef, Expr<RowsRef>)]) {
    for (out, value) in vectors {
        t.row_wise(
            *out,
            value.map_leaves(&|&rows| Leaf::Rows(Rows::from(rows))),
        );
    }
}
