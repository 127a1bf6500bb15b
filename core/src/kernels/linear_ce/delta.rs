//! The gradient with respect to the logits: shared coefficients, and the kernel that writes a chunk
//! of it.

use super::blocks::{Blocks, Chunks};
use super::logits::{Logits, Position};
use super::{LinearCe, LinearCeError};
use crate::DType;
use crate::expr::Expr;
use crate::ops::{Delta, OneHot, TileOps};
use crate::program::Kernel;
use crate::spec::{AxisId, BlockIndex, Blocked, KernelSpec, Semantics, SpecBuilder};
use crate::view::{RowsRef, ScalarsRef, Span, TileRef};

/// Per-row inputs of the backward pass and the coefficients made of them once per row block.
#[derive(Clone, Debug)]
pub(super) struct Coefficients {
    problem: LinearCe,
    labels: RowsRef,
    weight: Option<RowsRef>,
    lse: RowsRef,
    d_loss: RowsRef,
    d_lse: RowsRef,
    probability: RowsRef,
    one_hot: RowsRef,
    uniform: Option<RowsRef>,
}

impl Coefficients {
    /// Declares the operands `labels`, (`weight`), `lse`, `d_loss`, `d_lse` at row block `rows`.
    pub(super) fn declare(
        spec: &mut SpecBuilder,
        problem: &LinearCe,
        b: usize,
        rows: &BlockIndex,
    ) -> Self {
        let per_row = |dtype| Blocked::new(dtype, [problem.tokens], [b], [rows.clone()]).masked();
        Self {
            problem: *problem,
            labels: spec.input_rows("labels", per_row(DType::I32)),
            weight: problem
                .weighted()
                .then(|| spec.input_rows("weight", per_row(DType::F32))),
            lse: spec.input_rows("lse", per_row(DType::F32)),
            d_loss: spec.input_rows("d_loss", per_row(DType::F32)),
            d_lse: spec.input_rows("d_lse", per_row(DType::F32)),
            probability: spec.scratch_rows("probability", b),
            one_hot: spec.scratch_rows("one_hot", b),
            uniform: (problem.options.label_smoothing > 0.0)
                .then(|| spec.scratch_rows("uniform", b)),
        }
    }

    /// Computes the coefficients of a row block. A row of weight 0 keeps only its `d_lse`, even if
    /// its `d_loss` or lse is not finite.
    pub(super) fn prepare<T: TileOps>(&self, t: &T) {
        let options = &self.problem.options;
        let counted = |value: Expr<_>, otherwise: Expr<_>| match self.weight {
            None => value,
            Some(weight) => Expr::leaf(weight).equals(0.0).select(otherwise, value),
        };
        let g = || match self.weight {
            None => Expr::leaf(self.d_loss),
            Some(weight) => Expr::leaf(self.d_loss) * Expr::leaf(weight),
        };
        let mut probability = g();
        if options.z_loss > 0.0 {
            probability = probability * (Expr::leaf(self.lse) * (2.0 * options.z_loss) + 1.0);
        }
        let d_lse = || Expr::leaf(self.d_lse);
        t.row_wise(self.probability, counted(probability + d_lse(), d_lse()));
        let smoothing = options.label_smoothing;
        let zero = || Expr::constant(0.0);
        t.row_wise(self.one_hot, counted(g() * (1.0 - smoothing), zero()));
        if let Some(uniform) = self.uniform {
            let share = smoothing / self.problem.vocab as f32;
            t.row_wise(uniform, counted(g() * share, zero()));
        }
    }

    /// The delta of the rows of `span`, for logits whose first column is `first_column`.
    pub(super) fn delta<I: Copy>(&self, span: Span<I>, first_column: I) -> Delta<I> {
        Delta {
            scale: 1.0,
            lse: self.lse.span(span),
            probability: self.probability.span(span),
            log_probability: None,
            one_hot: Some(OneHot {
                coefficient: self.one_hot.span(span),
                labels: self.labels.span(span),
                first_column,
            }),
            uniform: self.uniform.map(|rows| rows.span(span)),
            soft_cap: self.problem.options.soft_cap,
        }
    }
}

/// Writes the delta of one chunk of columns. Grid `(rows, columns of the chunk, hidden)`; the
/// scalar operand is the chunk's first column block. The chunk array covers whole blocks; its
/// overhang is 0, so that products over it need no mask on this side.
#[derive(Clone, Debug)]
pub struct DeltaChunk {
    spec: KernelSpec,
    blocks: Blocks,
    rows: AxisId,
    columns: AxisId,
    hidden: AxisId,
    chunk: ScalarsRef,
    logits: Logits,
    coefficients: Coefficients,
    out: TileRef,
}

impl DeltaChunk {
    /// The kernel for `problem`. Operands: `x`, `w`, (`bias`), `labels`, (`weight`), `lse`,
    /// `d_loss`, `d_lse`, `delta`.
    ///
    /// # Errors
    /// The spec refuses the blocks.
    pub(super) fn new(
        problem: &LinearCe,
        blocks: Blocks,
        rows_per_sub_tile: usize,
        chunks: Chunks,
    ) -> Result<Self, LinearCeError> {
        let mut spec = SpecBuilder::new("linear_ce_delta");
        let row_blocks = problem.tokens.div_ceil(blocks.b);
        let rows = spec.axis("rows", row_blocks, Semantics::Parallel);
        let columns = spec.axis("columns", chunks.blocks, Semantics::Arbitrary);
        let hidden_blocks = problem.hidden.div_ceil(blocks.h);
        let hidden = spec.axis("hidden", hidden_blocks, Semantics::Arbitrary);
        let chunk = spec.scalars("chunk", 1);
        let position = Position {
            rows: rows.into(),
            columns: BlockIndex::from(columns) + chunk.at(0),
            hidden,
        };
        let logits = Logits::declare(&mut spec, problem, blocks, rows_per_sub_tile, position);
        let coefficients = Coefficients::declare(&mut spec, problem, blocks.b, &rows.into());
        let out = spec.output_tile(
            "delta",
            Blocked::new(
                problem.delta_dtype(),
                chunks.delta_dims(problem, blocks),
                [blocks.b, blocks.v],
                [rows.into(), columns.into()],
            ),
        );
        Ok(Self {
            spec: spec.build()?,
            blocks,
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
        let first = t.and(t.is_first(self.columns), t.is_first(self.hidden));
        t.when(first, || self.coefficients.prepare(t));
        let column = t.program_id(self.columns) + t.scalar(self.chunk, 0);
        self.logits.compute(t, |span| {
            let delta = self.coefficients.delta(span, column * self.blocks.v as i64);
            let out = self.out.rows(span);
            t.softmax_delta(out, self.logits.values.rows(span), delta);
            if self.logits.ragged_columns() {
                t.mask_columns(out, self.logits.columns_left(t, column), 0.0);
            }
        });
        if self.logits.ragged_rows() {
            t.when(t.is_last(self.hidden), || {
                let left = self.logits.rows_left(t, t.program_id(self.rows));
                t.mask_rows(self.out, left, 0.0);
            });
        }
    }
}
