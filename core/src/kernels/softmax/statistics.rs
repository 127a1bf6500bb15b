//! [`Statistics`]: what a loss needs to know of a row of logits, kept while its columns pass by.

use crate::expr::{Expr, Int, Leaf};
use crate::ops::{Accumulate, TileOps};
use crate::spec::SpecBuilder;
use crate::view::{Rows, RowsRef, Span, StatsRef, Tile};

/// Which statistics are kept besides the logsumexp.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Wanted {
    /// The logit of the label.
    pub(crate) label_logit: bool,
    /// The sum of the logits.
    pub(crate) logit_sum: bool,
    /// The entropy of the softmax.
    pub(crate) entropy: bool,
}

/// Running statistics of rows of `scale * logits`; label logit and sum are those of the logits.
#[derive(Clone, Debug)]
pub(crate) struct Statistics {
    pub(crate) stats: StatsRef,
    pub(crate) label_logit: Option<RowsRef>,
    pub(crate) logit_sum: Option<RowsRef>,
    vocab: usize,
    /// Factor on the logits.
    pub(crate) scale: f32,
}

/// A tile of logits and what stands beside it.
#[derive(Clone, Copy)]
pub(crate) struct Fold<I> {
    /// The logits; columns past the vocabulary are set to `-inf`.
    pub(crate) logits: Tile<I>,
    /// Its rows among those of the logsumexp.
    pub(crate) stats: Span<I>,
    /// Its rows among those of label logit and sum.
    pub(crate) rows: Span<I>,
    /// Its labels, if a label logit is wanted.
    pub(crate) labels: Option<Rows<I>>,
    /// Column of the array at which it starts.
    pub(crate) first_column: I,
}

impl Statistics {
    /// Declares statistics of a row of `vocab` columns: the logsumexp for `rows` rows, the others
    /// for `vector` rows.
    pub(crate) fn declare(
        spec: &mut SpecBuilder,
        wanted: Wanted,
        vocab: usize,
        scale: f32,
        rows: usize,
        vector: usize,
    ) -> Self {
        Self {
            stats: spec.stats("logsumexp", rows, wanted.entropy),
            label_logit: (wanted.label_logit).then(|| spec.scratch_rows("label_logit", vector)),
            logit_sum: (wanted.logit_sum).then(|| spec.scratch_rows("logit_sum", vector)),
            vocab,
            scale,
        }
    }

    /// Forgets everything: the logsumexp of all its rows, the others for `rows`.
    pub(crate) fn reset<T: TileOps>(&self, t: &T, rows: Span<T::Index>) {
        t.reset_logsumexp(self.stats);
        for vector in [self.label_logit, self.logit_sum].into_iter().flatten() {
            t.fill_rows(vector.span(rows), 0.0);
        }
    }

    /// Adds a tile of logits.
    pub(crate) fn fold<T: TileOps>(&self, t: &T, fold: Fold<T::Index>) {
        let Fold {
            logits,
            stats,
            rows,
            labels,
            first_column,
        } = fold;
        let columns = logits.columns.len;
        let ragged = !self.vocab.is_multiple_of(columns);
        if let Some(sum) = self.logit_sum {
            let mut value = Expr::leaf(logits);
            if ragged {
                let column = Int::Leaf(Leaf::Column(Some(first_column)));
                value = column.less_than(self.vocab as i32).select(value, 0.0);
            }
            t.row_sum(sum.span(rows), columns, value, Accumulate::Add);
        }
        if ragged {
            let left = t.index(self.vocab as i64) - first_column;
            t.mask_columns(logits, left, f32::NEG_INFINITY);
        }
        t.online_logsumexp(self.stats.span(stats), logits, self.scale);
        if let (Some(picked), Some(labels)) = (self.label_logit, labels) {
            t.one_hot_select(picked.span(rows), logits, labels, first_column);
        }
    }

    /// Makes the label logits of `rows` complete, after the last tile.
    pub(crate) fn finish_label_logit<T: TileOps>(&self, t: &T, rows: Span<T::Index>) {
        if let Some(picked) = self.label_logit {
            t.finish_one_hot(picked.span(rows));
        }
    }
}
