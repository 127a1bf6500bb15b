//! The forward kernel: statistics of each row of logits, and what an op makes of them.

use super::blocks::{Blocks, Chunks};
use super::chunk::ChunkArray;
use super::exponentials::Exponentials;
use super::logits::{Logits, Position};
use super::per_row::{PerRow, RowWise, compute};
use super::{Head, HeadError, InDw};
use crate::expr::Expr;
use crate::kernels::softmax::{Fold, Statistics};
use crate::ops::{Direction, TileOps};
use crate::program::Kernel;
use crate::spec::{AxisId, BlockIndex, KernelSpec, Semantics, SpecBuilder};
use crate::view::{HbmRef, RowsRef, SemaphoreRef, Span, TileRef};

/// Grid `(rows, columns, hidden)`. Each step adds one product to a block of logits; on the last
/// hidden block the block is folded into the running statistics of its rows, and after the last
/// column block the rows are finished.
#[derive(Clone, Debug)]
pub struct Forward {
    spec: KernelSpec,
    blocks: Blocks,
    rows: AxisId,
    columns: AxisId,
    hidden: AxisId,
    logits: Logits,
    stored: Option<StoredLogits>,
    ending: Ending,
}

/// Which logits are left, and where.
#[derive(Clone, Copy, Debug)]
pub(super) enum Store {
    /// All of a chunk of rows, in an array of their own.
    Rows(Chunks),
    /// Those of all rows and so many column blocks, or their exponentials, in `dw`.
    InDw(InDw, usize),
}

/// What is left of a block, where, and of how many column blocks.
#[derive(Clone, Copy, Debug)]
struct StoredLogits {
    exponentials: Option<Exponentials>,
    to: HbmRef,
    copied: SemaphoreRef,
    column_blocks: usize,
}

impl StoredLogits {
    /// The block that is left, of the one of logits.
    fn block(self, logits: TileRef) -> TileRef {
        self.exponentials.map_or(logits, |made| made.values)
    }
}

/// What is kept of each row, and what is written once all its columns have been seen.
#[derive(Clone, Debug)]
pub(crate) struct Ending {
    /// Given if the statistics have a label logit.
    pub(crate) labels: Option<RowsRef>,
    pub(crate) statistics: Statistics,
    pub(crate) lse: RowsRef,
    /// Given if the statistics have an entropy.
    pub(crate) entropy: Option<RowsRef>,
    /// Outputs made of all these.
    pub(crate) results: RowWise,
}

impl Forward {
    /// The kernel for `head` in the given blocks. Operands: `x`, `w`, (`bias`), then the vectors of the ending in
    /// the order in which it declares them.
    ///
    /// # Errors
    /// The spec refuses the blocks.
    pub(crate) fn new(
        name: &'static str,
        head: &Head,
        blocks: Blocks,
        rows_per_sub_tile: usize,
        ending: impl FnOnce(&mut PerRow<'_>) -> Ending,
    ) -> Result<Self, HeadError> {
        Self::storing(name, head, blocks, rows_per_sub_tile, None, ending)
    }

    /// The kernel that leaves logits behind, in an operand after those that the logits are made of. If they are those of a chunk
    /// of rows, the scalar operand is the chunk's first row block. If exponentials are left, the next operands are what
    /// they are relative to and the logits of the labels.
    ///
    /// # Errors
    /// The spec refuses the blocks.
    pub(super) fn storing(
        name: &'static str,
        head: &Head,
        blocks: Blocks,
        rows_per_sub_tile: usize,
        store: Option<Store>,
        ending: impl FnOnce(&mut PerRow<'_>) -> Ending,
    ) -> Result<Self, HeadError> {
        let chunk_rows = match store {
            Some(Store::Rows(chunks)) => Some(chunks),
            _ => None,
        };
        let mut spec = SpecBuilder::new(name);
        let row_blocks = chunk_rows.map_or(head.tokens.div_ceil(blocks.b), |chunks| chunks.blocks);
        let rows = spec.axis("rows", row_blocks, Semantics::Parallel);
        let column_blocks = head.vocab.div_ceil(blocks.v);
        let columns = spec.axis("columns", column_blocks, Semantics::Arbitrary);
        let hidden_blocks = head.hidden.div_ceil(blocks.h);
        let hidden = spec.axis("hidden", hidden_blocks, Semantics::Arbitrary);
        let row_block = match chunk_rows {
            None => rows.into(),
            Some(_) => BlockIndex::from(rows) + spec.scalars("chunk", 1).at(0),
        };
        let position = Position {
            rows: row_block.clone(),
            columns: columns.into(),
            hidden,
        };
        let logits = Logits::declare(&mut spec, head, blocks, rows_per_sub_tile, position);
        let stored = store.map(|store| {
            let (array, in_dw, column_blocks) = match store {
                Store::Rows(chunks) => {
                    let array = ChunkArray::of_rows(head, blocks, chunks);
                    (array.by_copy(), InDw::Logits, column_blocks)
                }
                Store::InDw(what, column_blocks) => {
                    let array = ChunkArray::in_dw(head, blocks);
                    (array.by_copy().masked(), what, column_blocks)
                }
            };
            let to = spec.hbm("stored", array);
            let position = [rows.into(), columns.into()];
            StoredLogits {
                exponentials: (in_dw == InDw::Exponentials)
                    .then(|| Exponentials::declare(&mut spec, head, blocks, position)),
                to,
                copied: spec.semaphore("stored_copied"),
                column_blocks,
            }
        });
        let per_row = &mut PerRow::new(&mut spec, head, blocks.b, row_block);
        let exponentials = stored.and_then(|stored| stored.exponentials);
        let label_logit_out = exponentials.map(|_| per_row.output("label_logit"));
        let mut ending = ending(per_row);
        if let Some(out) = label_logit_out {
            let label_logit = ending.statistics.label_logit.expect("a loss of labels");
            ending.results.push((out, Expr::leaf(label_logit)));
        }
        Ok(Self {
            spec: spec.build()?,
            blocks,
            rows,
            columns,
            hidden,
            logits,
            stored,
            ending,
        })
    }

    fn store<T: TileOps>(&self, t: &T, stored: &StoredLogits) {
        let column = t.program_id(self.columns);
        let is_stored = t.less_than(column, t.index(stored.column_blocks as i64));
        t.when(t.and(t.is_last(self.hidden), is_stored), || {
            let to = stored.to.block([t.program_id(self.rows), column]);
            let from = stored.block(self.logits.values);
            t.start_copy(Direction::Store, to, from, stored.copied);
            t.wait(Direction::Store, to, from, stored.copied);
        });
    }

    fn fold<T: TileOps>(&self, t: &T, span: Span<T::Index>) {
        let fold = Fold {
            logits: self.logits.values.rows(span),
            stats: span,
            rows: span,
            labels: self.ending.labels.map(|labels| labels.span(span)),
            first_column: t.program_id(self.columns) * self.blocks.v as i64,
        };
        self.ending.statistics.fold(t, fold);
        if let Some(exponentials) = self.stored.and_then(|stored| stored.exponentials) {
            exponentials.make(t, &self.ending, fold.logits, span);
        }
    }

    fn finish<T: TileOps>(&self, t: &T) {
        let ending = &self.ending;
        t.finish_logsumexp(ending.lse, ending.statistics.stats);
        let all = Span::all(self.blocks.b);
        ending.statistics.finish_label_logit(t, all);
        if let Some(entropy) = ending.entropy {
            t.finish_entropy(entropy, ending.statistics.stats);
        }
        compute(t, &ending.results);
    }
}

impl Kernel for Forward {
    fn spec(&self) -> &KernelSpec {
        &self.spec
    }

    fn body<T: TileOps>(&self, t: &T) {
        let first = t.and(t.is_first(self.columns), t.is_first(self.hidden));
        t.when(first, || {
            self.ending.statistics.reset(t, Span::all(self.blocks.b));
        });
        self.logits.compute(t, |span| self.fold(t, span));
        if let Some(stored) = &self.stored {
            self.store(t, stored);
        }
        let last = t.and(t.is_last(self.columns), t.is_last(self.hidden));
        t.when(last, || self.finish(t));
    }
}
