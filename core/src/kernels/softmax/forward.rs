//! The statistics kernel.

use super::rows::{RowSpans, Rows};
use super::statistics::{Fold, Overhang, Statistics, Wanted};
use super::{Blocks, Logits, LogitsError};
use crate::DType;
use crate::expr::Expr;
use crate::ops::TileOps;
use crate::program::Kernel;
use crate::spec::{KernelSpec, SpecBuilder};
use crate::view::{RowsRef, Span, Tile, TileRef};

/// Reads each logit once and keeps running `Statistics` of its row; after the last column block
/// the rows are finished, in scratch, and after the last block of a vector the vector is written.
#[derive(Clone, Debug)]
pub struct Forward {
    spec: KernelSpec,
    rows: Rows,
    logits: TileRef,
    labels: Option<Labels>,
    statistics: Statistics,
    lse: Finished,
    entropy: Option<Finished>,
    /// Windows of what the statistics hold as vectors.
    vectors: [Option<Finished>; 2],
}

/// Labels as they come, and where rows of them can be taken from.
#[derive(Clone, Copy, Debug)]
struct Labels {
    window: RowsRef,
    scratch: RowsRef,
}

/// A result, and where its rows come together.
#[derive(Clone, Copy, Debug)]
struct Finished {
    scratch: RowsRef,
    window: RowsRef,
}

impl Forward {
    /// The kernel. Operands: `logits`, (`labels`), `lse`, (`label_logit`), (`logit_sum`), (`entropy`), as
    /// wanted.
    ///
    /// # Errors
    /// The blocks do not fit each other, or the spec refuses them.
    pub(super) fn new(
        logits: &Logits,
        wanted: Wanted,
        blocks: Blocks,
    ) -> Result<Self, LogitsError> {
        let mut spec = SpecBuilder::new("softmax_statistics");
        let rows = Rows::declare(&mut spec, logits, blocks)?;
        let vector = blocks.vector;
        let tile = spec.input_tile("logits", rows.tile(logits.dtype()));
        let labels = wanted.label_logit.then(|| Labels {
            window: spec.input_rows("labels", rows.vector(DType::I32)),
            scratch: spec.scratch_labels("labels_by_row", vector),
        });
        let (vocab, scale) = (logits.vocab(), logits.scale());
        let statistics = Statistics::declare(&mut spec, wanted, vocab, scale, blocks.b, vector);
        let mut finished = |name, scratch: Option<RowsRef>| Finished {
            window: spec.output_rows(name, rows.vector(DType::F32)),
            scratch: scratch.unwrap_or_else(|| spec.scratch_rows("finished", vector)),
        };
        let lse = finished("lse", None);
        let vectors = [
            ("label_logit", statistics.label_logit),
            ("logit_sum", statistics.logit_sum),
        ]
        .map(|(name, scratch)| scratch.map(|scratch| finished(name, Some(scratch))));
        let entropy = wanted.entropy.then(|| finished("entropy", None));
        Ok(Self {
            spec: spec.build()?,
            rows,
            logits: tile,
            labels,
            statistics,
            lse,
            entropy,
            vectors,
        })
    }
}

impl Kernel for Forward {
    fn spec(&self) -> &KernelSpec {
        &self.spec
    }

    fn body<T: TileOps>(&self, t: &T) {
        let rows = &self.rows;
        t.when(t.is_first(rows.columns), || {
            if let Some(Labels { window, scratch }) = self.labels {
                t.when(rows.is_first(t), || t.copy_rows(scratch, window));
            }
            self.statistics.reset(t, rows.all(t).vector);
        });
        // Some rows and columns of the block, and the column of the array at which they start.
        let part = |spans: RowSpans<T::Index>, columns: Span<T::Index>| {
            let start = columns.start.unwrap_or_else(|| t.index(0));
            let tile = Tile {
                columns,
                ..self.logits.rows(spans.block)
            };
            (tile, rows.first_column(t) + start)
        };
        let overhang = match rows.overhanging_columns(t) {
            Some(columns) => {
                // Apart, for a branch cuts what is scheduled together.
                t.when(t.is_last(rows.columns), || {
                    rows.for_rows(t, |spans| {
                        let (tile, first_column) = part(spans, columns);
                        self.statistics.mask(t, tile, first_column);
                    });
                });
                Overhang::Masked
            }
            None => Overhang::Nowhere,
        };
        rows.for_rows(t, |spans| {
            let labels = self.labels.map(|labels| labels.scratch.span(spans.vector));
            rows.for_columns(t, |columns| {
                let (logits, first_column) = part(spans, columns);
                let fold = Fold {
                    logits,
                    stats: spans.block,
                    rows: spans.vector,
                    labels,
                    first_column,
                    overhang,
                };
                self.statistics.fold(t, fold);
            });
        });
        t.when(t.is_last(rows.columns), || {
            rows.for_vectors(t, |spans| {
                let (span, stats) = (spans.vector, self.statistics.stats.span(spans.block));
                t.finish_logsumexp(self.lse.scratch.span(span), stats);
                self.statistics.finish_label_logit(t, span);
                if let Some(entropy) = self.entropy {
                    t.finish_entropy(entropy.scratch.span(span), stats);
                }
            });
            t.when(rows.is_last(t), || {
                let results = [
                    Some(self.lse),
                    self.vectors[0],
                    self.vectors[1],
                    self.entropy,
                ];
                for Finished { scratch, window } in results.into_iter().flatten() {
                    t.row_wise(window, Expr::leaf(scratch));
                }
            });
        });
    }
}
