//! [`Statistics`]: what a loss needs to know of a row of logits, kept while its columns pass by.

use crate::expr::{Expr, Int, Leaf};
use crate::ops::{Accumulate, Largest, TileOps, Unroll};
use crate::spec::SpecBuilder;
use crate::view::{Rows, RowsRef, Span, Stats, StatsRef, Tile};

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
    entropy: bool,
    /// Factor on the logits.
    pub(crate) scale: f32,
}

/// A tile of logits and what stands beside it.
#[derive(Clone, Copy)]
pub(crate) struct Fold<I> {
    /// The logits.
    pub(crate) logits: Tile<I>,
    /// Its rows among those of the logsumexp.
    pub(crate) stats: Span<I>,
    /// Its rows among those of label logit and sum.
    pub(crate) rows: Span<I>,
    /// Its labels, if a label logit is wanted.
    pub(crate) labels: Option<Rows<I>>,
    /// Column of the array at which it starts.
    pub(crate) first_column: I,
    /// Whether it may reach past the vocabulary.
    pub(crate) overhang: Overhang,
}

/// Columns of a tile past the vocabulary.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Overhang {
    /// There are none.
    Nowhere,
    /// They hold anything, and are set to `-inf`.
    Unmasked,
    /// They are [set to `-inf`](Statistics::mask).
    Masked,
}

/// How logits of labels are picked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pick {
    /// What is found and what was found before are selected from.
    Selected,
    /// What is found is stored.
    Stored,
}

/// Above this a sum of exponentials relative to a maximum that was not kept up to date is made again: at 2^64 the
/// largest exponent is 44, whose rounding is 2e-6 of the sum, as much as the logit itself is rounded; the sum of all
/// lanes and columns is far from overflow.
const MOST_SUM: f32 = 18_446_744_073_709_551_616.0;

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
            entropy: wanted.entropy,
            scale,
        }
    }

    /// Which are kept.
    pub(crate) fn wanted(&self) -> Wanted {
        Wanted {
            label_logit: self.label_logit.is_some(),
            logit_sum: self.logit_sum.is_some(),
            entropy: self.entropy,
        }
    }

    /// Where the logsumexp is kept while tiles are [added lazily](Self::fold_lazily). `None` where it cannot be: an
    /// entropy is exact only relative to the maximum itself.
    pub(crate) fn declare_before(&self, spec: &mut SpecBuilder) -> Option<StatsRef> {
        (!self.entropy).then(|| spec.stats("logsumexp_before", self.stats.len(), false))
    }

    /// Forgets everything: the logsumexp of all its rows, the others for `rows`.
    pub(crate) fn reset<T: TileOps>(&self, t: &T, rows: Span<T::Index>) {
        t.reset_logsumexp(self.stats);
        for vector in [self.label_logit, self.logit_sum].into_iter().flatten() {
            t.fill_rows(vector.span(rows), 0.0);
        }
    }

    /// Sets the columns of a tile past the vocabulary, which starts at `first_column` of the array, to `-inf`.
    pub(crate) fn mask<T: TileOps>(&self, t: &T, tile: Tile<T::Index>, first_column: T::Index) {
        let left = t.index(self.vocab as i64) - first_column;
        t.mask_columns(tile, left, f32::NEG_INFINITY);
    }

    /// Adds a tile of logits.
    pub(crate) fn fold<T: TileOps>(&self, t: &T, fold: Fold<T::Index>) {
        self.fold_by(t, fold, Pick::Selected, |stats, logits| {
            t.online_logsumexp(stats, logits, self.scale);
        });
    }

    /// Adds a tile of logits relative to maxima that are not kept up to date, which what has seen nothing takes from
    /// the tile if it `starts` a block. After the tiles of a block [`Self::make_good`] has to follow.
    pub(crate) fn fold_lazily<T: TileOps>(
        &self,
        t: &T,
        fold: Fold<T::Index>,
        starts: T::Condition,
        pick: Pick,
    ) {
        self.fold_by(t, fold, pick, |stats, logits| {
            t.when(starts, || t.start_logsumexp(stats, logits, self.scale));
            t.add_exponentials(stats, logits, self.scale);
        });
    }

    /// The same for all rows but the last `exact`, which are added relative to their maximum. The tile is the `first`
    /// that its rows see, or is not.
    pub(crate) fn fold_partly_lazily<T: TileOps>(
        &self,
        t: &T,
        fold: Fold<T::Index>,
        (exact, first): (usize, T::Condition),
        pick: Pick,
    ) {
        self.fold_by(t, fold, pick, |stats, logits| {
            let lazy = stats.span.len.saturating_sub(exact);
            let part = |first: usize, len| {
                let of = |span: Span<T::Index>| {
                    let start = span.start.unwrap_or_else(|| t.index(0));
                    Span::new(start + first as i64, len)
                };
                let rows = of(logits.rows);
                (self.stats.span(of(stats.span)), Tile { rows, ..logits })
            };
            if lazy > 0 {
                let (stats, logits) = part(0, lazy);
                t.take_maximum(stats, logits, self.scale, first);
                t.add_exponentials(stats, logits, self.scale);
            }
            let (stats, logits) = part(lazy, stats.span.len - lazy);
            t.online_logsumexp(stats, logits, self.scale);
        });
    }

    /// Whether a sum of some of these rows became so large that it may not be accurate.
    pub(crate) fn are_inaccurate<T: TileOps>(
        &self,
        t: &T,
        rows: Span<T::Index>,
        largest: Largest,
    ) -> T::Condition {
        t.sums_exceed(self.stats.span(rows), MOST_SUM, largest)
    }

    /// Where they are inaccurate, starts again from the logsumexp `before` the tiles of a block, whose
    /// finished logits are `logits(rows)`, for `rows_at_once`.
    pub(crate) fn make_good<T: TileOps>(
        &self,
        t: &T,
        inaccurate: T::Condition,
        before: StatsRef,
        rows_at_once: usize,
        logits: impl Fn(Span<T::Index>) -> Tile<T::Index>,
    ) {
        t.when(inaccurate, || {
            t.copy_stats(self.stats, before);
            let rows = self.stats.len();
            t.for_sub_tiles(rows, rows_at_once, Unroll::Rolled, |span| {
                t.online_logsumexp(self.stats.span(span), logits(span), self.scale);
            });
        });
    }

    fn fold_by<T: TileOps>(
        &self,
        t: &T,
        fold: Fold<T::Index>,
        pick: Pick,
        into_logsumexp: impl FnOnce(Stats<T::Index>, Tile<T::Index>),
    ) {
        let Fold {
            logits,
            stats,
            rows,
            labels,
            first_column,
            overhang,
        } = fold;
        if let Some(sum) = self.logit_sum {
            let mut value = Expr::leaf(logits);
            if overhang != Overhang::Nowhere {
                let column = Int::Leaf(Leaf::Column(Some(first_column)));
                value = column.less_than(self.vocab as i32).select(value, 0.0);
            }
            let columns = logits.columns.len;
            t.row_sum(sum.span(rows), columns, value, Accumulate::Add);
        }
        if overhang == Overhang::Unmasked {
            self.mask(t, logits, first_column);
        }
        into_logsumexp(self.stats.span(stats), logits);
        if let (Some(picked), Some(labels)) = (self.label_logit, labels) {
            let picked = picked.span(rows);
            match pick {
                Pick::Selected => t.one_hot_select(picked, logits, labels, first_column),
                Pick::Stored => t.one_hot_store(picked, logits, labels, first_column),
            }
        }
    }

    /// Makes the label logits of `rows` complete, after the last tile.
    pub(crate) fn finish_label_logit<T: TileOps>(&self, t: &T, rows: Span<T::Index>) {
        if let Some(picked) = self.label_logit {
            t.finish_one_hot(picked.span(rows));
        }
    }
}
