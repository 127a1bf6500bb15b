//! The gradient with respect to the logits: coefficients per row, and the kernel that writes a chunk
//! of it.

use super::blocks::{Blocks, Split};
use super::chunk::{ChunkArray, WeightColumns, updated_array};
use super::dealt::Chunks;
use super::exponentials::FromExponentials;
use super::logits::{Logits, Plan, Position};
use super::per_row::{PerRow, RowWise, compute};
use super::{Head, HeadError, InDw};
use crate::ops::{Delta, OneHot, TileOps};
use crate::program::{Kernel, LoopCounter};
use crate::spec::{Affine, AxisId, BlockIndex, KernelSpec, Semantics, SpecBuilder};
use crate::view::{RowsRef, ScalarsRef, Span, TileRef};

/// The coefficients of delta, per row.
#[derive(Clone, Debug)]
pub(crate) struct Coefficients {
    /// Factor on the logits, as in the statistics that gave the logsumexp.
    pub(crate) scale: f32,
    pub(crate) lse: RowsRef,
    /// `P`
    pub(crate) probability: RowsRef,
    /// `Q`
    pub(crate) log_probability: Option<RowsRef>,
    /// Labels, and `O`.
    pub(crate) one_hot: Option<[RowsRef; 2]>,
    /// `U`
    pub(crate) uniform: Option<RowsRef>,
    /// What is computed once per row block, before any delta.
    pub(crate) prepare: RowWise,
}

impl Coefficients {
    /// The delta of the rows of `span`, for logits out of this soft cap whose first column is `first_column`.
    pub(super) fn delta<I: Copy>(
        &self,
        soft_cap: Option<f32>,
        span: Span<I>,
        first_column: I,
    ) -> Delta<I> {
        let of = |rows: RowsRef| rows.span(span);
        Delta {
            scale: self.scale,
            lse: of(self.lse),
            probability: of(self.probability),
            log_probability: self.log_probability.map(of),
            one_hot: self.one_hot.map(|[labels, coefficient]| OneHot {
                coefficient: of(coefficient),
                labels: of(labels),
                first_column,
            }),
            uniform: self.uniform.map(of),
            soft_cap,
        }
    }
}

/// The row blocks of a chunk of columns that one kernel makes delta of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RowPart {
    /// All.
    All,
    /// So many, where another kernel makes the rest.
    Blocks {
        /// The kernel's second scalar operand.
        first: usize,
        count: usize,
    },
}

impl RowPart {
    /// The two parts with so many row blocks in the first, or all in one.
    pub(super) fn split_at(head: &Head, blocks: Blocks, first: usize) -> (Self, Option<Self>) {
        let all = head.tokens.div_ceil(blocks.b);
        if first >= all {
            return (Self::All, None);
        }
        let part = |first, count| Self::Blocks { first, count };
        (part(0, first), Some(part(first, all - first)))
    }

    fn count(self, head: &Head, blocks: Blocks) -> usize {
        match self {
            Self::All => head.tokens.div_ceil(blocks.b),
            Self::Blocks { count, .. } => count,
        }
    }

    /// Declares the scalar operands: the first column block, and of a part the first row block.
    fn declare(self, spec: &mut SpecBuilder) -> ScalarsRef {
        spec.scalars("chunk", if self == Self::All { 1 } else { 2 })
    }

    /// The block of the array at a step.
    fn block(self, rows: AxisId, chunk: ScalarsRef) -> BlockIndex {
        match self {
            Self::All => rows.into(),
            Self::Blocks { .. } => BlockIndex::from(rows) + chunk.at(1),
        }
    }

    /// The same in the body of a kernel.
    fn program_id<T: TileOps>(self, t: &T, rows: AxisId, chunk: ScalarsRef) -> T::Index {
        match self {
            Self::All => t.program_id(rows),
            Self::Blocks { .. } => t.program_id(rows) + t.scalar(chunk, 1),
        }
    }

    /// What a launch passes behind the first column block.
    pub(super) fn scalar(self) -> Option<Affine<LoopCounter>> {
        match self {
            Self::All => None,
            Self::Blocks { first, .. } => Some(Affine::Constant(first as i64)),
        }
    }
}

/// Writes the delta of one chunk of columns. Grid `(rows, columns of the chunk, hidden)`; the scalar operands are the
/// chunk's first column block and, if it is of a part of the rows, the first row block. The chunk array covers whole
/// blocks; its overhang is 0, so that products over it need no mask on this side.
#[derive(Clone, Debug)]
pub struct DeltaChunk {
    spec: KernelSpec,
    blocks: Blocks,
    split: Split,
    part: RowPart,
    rows: AxisId,
    columns: AxisId,
    hidden: AxisId,
    chunk: ScalarsRef,
    logits: Logits,
    coefficients: Coefficients,
    out: TileRef,
}

impl DeltaChunk {
    /// The kernel for `head`. Operands: `x`, `w`, (`bias`), then the vectors of the coefficients in the order in
    /// which they are declared, `delta`.
    ///
    /// # Errors
    /// The spec refuses the blocks.
    pub(super) fn new(
        name: &'static str,
        head: &Head,
        plan: Plan,
        part: RowPart,
        chunks: Chunks,
        coefficients: impl FnOnce(&mut PerRow<'_>) -> Coefficients,
    ) -> Result<Self, HeadError> {
        let Plan { blocks, split, .. } = plan;
        let mut spec = SpecBuilder::new(name);
        let rows = spec.axis("rows", part.count(head, blocks), Semantics::Parallel);
        let columns = spec.axis("columns", chunks.blocks, split.of_columns());
        let hidden_blocks = head.hidden.div_ceil(blocks.h);
        let hidden = spec.axis("hidden", hidden_blocks, Semantics::Arbitrary);
        let chunk = part.declare(&mut spec);
        let row_block = part.block(rows, chunk);
        let position = Position {
            rows: row_block.clone(),
            columns: BlockIndex::from(columns) + chunk.at(0),
            hidden,
            w: WeightColumns::of_chunk(head, (chunks, blocks.v), columns, chunk),
        };
        let logits = Logits::declare(&mut spec, head, plan, position);
        let per_row = &mut PerRow::new(&mut spec, head, blocks.b, row_block.clone());
        let coefficients = coefficients(per_row);
        let chunk_array = ChunkArray::of_columns(head, blocks, chunks);
        let out = spec.output_tile("delta", chunk_array.window(row_block, columns));
        Ok(Self {
            spec: spec.build()?,
            blocks,
            split,
            part,
            rows,
            columns,
            hidden,
            chunk,
            logits,
            coefficients,
            out,
        })
    }
}

impl Kernel for DeltaChunk {
    fn spec(&self) -> &KernelSpec {
        &self.spec
    }

    fn body<T: TileOps>(&self, t: &T) {
        let first = match self.split {
            Split::Rows => t.and(t.is_first(self.columns), t.is_first(self.hidden)),
            // Nobody has the first column block but one.
            Split::Columns => t.is_first(self.hidden),
        };
        t.when(first, || compute(t, &self.coefficients.prepare));
        let column = t.program_id(self.columns) + t.scalar(self.chunk, 0);
        self.logits.compute(t, |part| {
            let first_column = column * self.blocks.v as i64;
            let delta = (self.coefficients).delta(self.logits.soft_cap(), part.rows, first_column);
            let out = self.out.rows(part.rows);
            t.softmax_delta(out, part.logits, delta);
            if self.logits.ragged_columns() {
                t.mask_columns(out, self.logits.columns_left(t, column), 0.0);
            }
        });
        if self.logits.ragged_rows() {
            t.when(t.is_last(self.hidden), || {
                let row = self.part.program_id(t, self.rows, self.chunk);
                let left = self.logits.rows_left(t, row);
                t.mask_rows(self.out, left, 0.0);
            });
        }
    }
}

/// Makes delta of the stored logits of one chunk. Grid `(rows, columns)` of the chunk; the scalar operands are its
/// first block along the dimension that is cut into chunks and, if it is of a part of the rows, the first row block.
#[derive(Clone, Debug)]
pub struct StoredDelta {
    spec: KernelSpec,
    head: Head,
    blocks: Blocks,
    rows: AxisId,
    columns: AxisId,
    cut: Cut,
    chunk: ScalarsRef,
    coefficients: Coefficients,
    /// Given if exponentials are stored in the place of logits.
    exponentials: Option<FromExponentials>,
    logits: TileRef,
    delta: TileRef,
}

/// What is cut into chunks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cut {
    /// Rows, whose logits become delta in place.
    Rows,
    /// Columns, whose logits or their exponentials, whole blocks of them, are in `dw`, of these rows.
    Columns(InDw, Split, RowPart),
}

impl Cut {
    /// What threads share the work by.
    const fn split(self) -> Split {
        match self {
            Self::Rows => Split::Rows,
            Self::Columns(_, split, _) => split,
        }
    }
}

impl StoredDelta {
    /// The kernel for `head`. Operands: the vectors of the coefficients in the order in which they are declared, (what
    /// exponentials are relative to, the logits of the labels), the logits, and delta, which is the same array where
    /// rows are cut.
    ///
    /// # Errors
    /// The spec refuses the blocks.
    pub(super) fn new(
        name: &'static str,
        head: &Head,
        blocks: Blocks,
        cut: Cut,
        chunks: Chunks,
        coefficients: impl FnOnce(&mut PerRow<'_>) -> Coefficients,
    ) -> Result<Self, HeadError> {
        let mut spec = SpecBuilder::new(name);
        let [row_blocks, column_blocks] = match cut {
            Cut::Rows => [chunks.blocks, head.vocab.div_ceil(blocks.v)],
            Cut::Columns(.., part) => [part.count(head, blocks), chunks.blocks],
        };
        let rows = spec.axis("rows", row_blocks, Semantics::Parallel);
        let columns = spec.axis("columns", column_blocks, cut.split().of_columns());
        let chunk = match cut {
            Cut::Rows => spec.scalars("chunk", 1),
            Cut::Columns(.., part) => part.declare(&mut spec),
        };
        let [row_block, column_block]: [BlockIndex; 2] = match cut {
            Cut::Rows => [BlockIndex::from(rows) + chunk.at(0), columns.into()],
            Cut::Columns(.., part) => [
                part.block(rows, chunk),
                BlockIndex::from(columns) + chunk.at(0),
            ],
        };
        let per_row = &mut PerRow::new(&mut spec, head, blocks.b, row_block.clone());
        let coefficients = coefficients(per_row);
        let exponentials = matches!(cut, Cut::Columns(InDw::Exponentials, ..))
            .then(|| FromExponentials::declare(per_row, head, blocks, column_block.clone()));
        let [logits, delta] = match cut {
            Cut::Rows => {
                let stored = ChunkArray::of_rows(head, blocks, chunks).window(rows, columns);
                updated_array(&mut spec, ["logits", "delta"], stored)
            }
            Cut::Columns(..) => {
                let logits =
                    ChunkArray::in_dw(head, blocks).window(row_block.clone(), column_block);
                let delta = ChunkArray::of_columns(head, blocks, chunks).window(row_block, columns);
                let logits = spec.input_tile("logits", logits.masked());
                [logits, spec.output_tile("delta", delta)]
            }
        };
        Ok(Self {
            spec: spec.build()?,
            head: *head,
            blocks,
            rows,
            columns,
            cut,
            chunk,
            coefficients,
            exponentials,
            logits,
            delta,
        })
    }
}

impl Kernel for StoredDelta {
    fn spec(&self) -> &KernelSpec {
        &self.spec
    }

    fn body<T: TileOps>(&self, t: &T) {
        let prepare = || {
            compute(t, &self.coefficients.prepare);
            if let Some(exponentials) = &self.exponentials {
                exponentials.prepare(t, &self.coefficients);
            }
        };
        match self.cut.split() {
            Split::Rows => t.when(t.is_first(self.columns), prepare),
            Split::Columns => prepare(),
        }
        let (tokens, vocab) = (self.head.tokens, self.head.vocab);
        let Blocks { b, v, .. } = self.blocks;
        let column = t.program_id(self.columns);
        let first = t.scalar(self.chunk, 0);
        let (row, column) = match self.cut {
            Cut::Rows => (t.program_id(self.rows) + first, column),
            Cut::Columns(.., part) => {
                let row = part.program_id(t, self.rows, self.chunk);
                (row, column + first)
            }
        };
        let first_column = column * v as i64;
        let coefficients = &self.coefficients;
        match &self.exponentials {
            Some(exponentials) => {
                exponentials.delta(t, coefficients, [self.delta, self.logits], first_column);
            }
            None => {
                let cap = self.head.options.soft_cap;
                let delta = coefficients.delta(cap, Span::all(b), first_column);
                t.softmax_delta(self.delta, self.logits, delta);
            }
        }
        // In dw are whole blocks.
        if self.cut == Cut::Rows && !vocab.is_multiple_of(v) {
            t.mask_columns(self.delta, t.index(vocab as i64) - first_column, 0.0);
        }
        if !tokens.is_multiple_of(b) {
            t.mask_rows(self.delta, t.index(tokens as i64) - row * b as i64, 0.0);
        }
    }
}
