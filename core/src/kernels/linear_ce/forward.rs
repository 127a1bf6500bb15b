//! The forward kernel: per-token loss and logsumexp.

use super::blocks::Blocks;
use super::logits::{Logits, Position};
use super::{LinearCe, LinearCeError};
use crate::DType;
use crate::expr::Expr;
use crate::kernels::softmax::{Fold, Statistics, Wanted};
use crate::ops::TileOps;
use crate::program::Kernel;
use crate::spec::{AxisId, Blocked, KernelSpec, Semantics, SpecBuilder};
use crate::view::{RowsRef, Span};

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
    statistics: Statistics,
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
        let wanted = Wanted {
            label_logit: true,
            logit_sum: problem.options.label_smoothing > 0.0,
            entropy: false,
        };
        let (vocab, b) = (problem.vocab, blocks.b);
        let statistics = Statistics::declare(&mut spec, wanted, vocab, 1.0, b, b);
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
            statistics,
        })
    }

    fn fold<T: TileOps>(&self, t: &T, span: Span<T::Index>) {
        let fold = Fold {
            logits: self.logits.values.rows(span),
            stats: span,
            rows: span,
            labels: Some(self.labels.span(span)),
            first_column: t.program_id(self.columns) * self.blocks.v as i64,
        };
        self.statistics.fold(t, fold);
    }

    fn finish<T: TileOps>(&self, t: &T) {
        let options = &self.problem.options;
        let Statistics {
            stats,
            label_logit,
            logit_sum,
            ..
        } = self.statistics;
        t.finish_logsumexp(self.lse, stats);
        let lse = || Expr::leaf(self.lse);
        let smoothing = options.label_smoothing;
        let label_logit = label_logit.expect("the label logit is wanted");
        let mut loss = lse() - Expr::leaf(label_logit) * (1.0 - smoothing);
        if let Some(sum) = logit_sum {
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
            self.statistics.reset(t, Span::all(self.blocks.b));
        });
        self.logits.compute(t, |span| self.fold(t, span));
        let last = t.and(t.is_last(self.columns), t.is_last(self.hidden));
        t.when(last, || self.finish(t));
    }
}
