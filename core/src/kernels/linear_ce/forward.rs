//! The forward kernel: per-token loss and logsumexp.

use super::blocks::Blocks;
use super::logits::{Logits, Position};
use super::{LinearCe, LinearCeError};
use crate::DType;
use crate::expr::{Expr, Int, Leaf};
use crate::ops::{Accumulate, TileOps};
use crate::program::Kernel;
use crate::spec::{AxisId, Blocked, KernelSpec, Semantics, SpecBuilder};
use crate::view::{RowsRef, Span, StatsRef};

/// Grid `(rows, columns, hidden)`. Each step adds one product to a block of logits; on the last
/// hidden block the block is folded into the running statistics of its rows, and after the last
/// column block the rows are finished.
#[derive(Clone, Debug)]
pub struct Forward {
    spec: KernelSpec,
    problem: LinearCe,
    blocks: Blocks,
    columns: AxisId,
    hidden: AxisId,
    logits: Logits,
    labels: RowsRef,
    weight: Option<RowsRef>,
    loss: RowsRef,
    lse: RowsRef,
    stats: StatsRef,
    label_logit: RowsRef,
    logit_sum: Option<RowsRef>,
}

impl Forward {
    /// The kernel for `problem` in the given blocks. Operands: `x`, `w`, (`bias`), `labels`,
    /// (`weight`), `loss`, `lse`.
    ///
    /// # Errors
    /// The spec refuses the blocks.
    pub(super) fn new(
        problem: &LinearCe,
        blocks: Blocks,
        rows_per_sub_tile: usize,
    ) -> Result<Self, LinearCeError> {
        let tokens = problem.tokens;
        let mut spec = SpecBuilder::new("linear_ce_forward");
        let rows = spec.axis("rows", tokens.div_ceil(blocks.b), Semantics::Parallel);
        let column_blocks = problem.vocab.div_ceil(blocks.v);
        let columns = spec.axis("columns", column_blocks, Semantics::Arbitrary);
        let hidden_blocks = problem.hidden.div_ceil(blocks.h);
        let hidden = spec.axis("hidden", hidden_blocks, Semantics::Arbitrary);
        let position = Position {
            rows: rows.into(),
            columns: columns.into(),
            hidden,
        };
        let logits = Logits::declare(&mut spec, problem, blocks, rows_per_sub_tile, position);
        let per_row = |dtype| Blocked::new(dtype, [tokens], [blocks.b], [rows.into()]).masked();
        let labels = spec.input_rows("labels", per_row(DType::I32));
        let weight = problem
            .weighted()
            .then(|| spec.input_rows("weight", per_row(DType::F32)));
        let loss = spec.output_rows("loss", per_row(DType::F32));
        let lse = spec.output_rows("lse", per_row(DType::F32));
        let stats = spec.stats("logsumexp", blocks.b);
        let label_logit = spec.scratch_rows("label_logit", blocks.b);
        let logit_sum = (problem.options.label_smoothing > 0.0)
            .then(|| spec.scratch_rows("logit_sum", blocks.b));
        Ok(Self {
            spec: spec.build()?,
            problem: *problem,
            blocks,
            columns,
            hidden,
            logits,
            labels,
            weight,
            loss,
            lse,
            stats,
            label_logit,
            logit_sum,
        })
    }

    fn fold<T: TileOps>(&self, t: &T, span: Span<T::Index>) {
        let column = t.program_id(self.columns);
        let left = self.logits.columns_left(t, column);
        let z = self.logits.values.rows(span);
        if let Some(sum) = self.logit_sum {
            let inside = Int::Leaf(Leaf::Column(Some(column * self.blocks.v as i64)))
                .less_than(self.problem.vocab as i32);
            let value = inside.select(Expr::leaf(z), 0.0);
            t.row_sum(sum.span(span), self.blocks.v, value, Accumulate::Add);
        }
        if self.logits.ragged_columns() {
            t.mask_columns(z, left, f32::NEG_INFINITY);
        }
        t.online_logsumexp(self.stats.span(span), z);
        t.one_hot_select(
            self.label_logit.span(span),
            z,
            self.labels.span(span),
            column * self.blocks.v as i64,
        );
    }

    fn finish<T: TileOps>(&self, t: &T) {
        let options = &self.problem.options;
        t.finish_logsumexp(self.lse, self.stats);
        let lse = || Expr::leaf(self.lse);
        let smoothing = options.label_smoothing;
        let mut loss = lse() - Expr::leaf(self.label_logit) * (1.0 - smoothing);
        if let Some(sum) = self.logit_sum {
            loss = loss - Expr::leaf(sum) * (smoothing / self.problem.vocab as f32);
        }
        if options.z_loss > 0.0 {
            loss = loss + lse() * lse() * options.z_loss;
        }
        if let Some(weight) = self.weight {
            let weight = Expr::leaf(weight);
            // A row that does not count is 0 even if its loss is not finite.
            loss = weight.clone().equals(0.0).select(0.0, weight * loss);
        }
        t.row_wise(self.loss, loss);
    }
}

impl Kernel for Forward {
    fn spec(&self) -> &KernelSpec {
        &self.spec
    }

    fn body<T: TileOps>(&self, t: &T) {
        let first = t.and(t.is_first(self.columns), t.is_first(self.hidden));
        t.when(first, || {
            t.reset_logsumexp(self.stats);
            t.fill_rows(self.label_logit, 0.0);
            if let Some(sum) = self.logit_sum {
                t.fill_rows(sum, 0.0);
            }
        });
        self.logits.compute(t, |span| self.fold(t, span));
        let last = t.and(t.is_last(self.columns), t.is_last(self.hidden));
        t.when(last, || self.finish(t));
    }
}
