//! The forward kernel: statistics of each row of logits, and what an op makes of them.
//!
//! # Lazily
//!
//! An exponential relative to the maximum of its row waits until all columns of the block are there. A scheduler of
//! straight lines then alternates: products while the exponentials of a sub-tile wait, exponentials once they need not.
//! Any number near the maximum would do, and the maximum of the columns before usually is one. So with
//! [`lazy`](super::Schedule::lazy) the first columns of a row decide what its sum is relative to. The exponentials of
//! each sub-tile of columns follow its product one by one, and no maximum is computed. Where the sum grows so large
//! that it might overflow or lose accuracy, which a check after each block finds, the block is folded again as without
//! it, and the row goes on with the maximum so far.
//!
//! That check follows the last product, and nothing overlaps it. Where steps are short, the last rows of each sub-tile
//! are folded exactly ([`exact_rows`](super::Lazy::exact_rows)): their sums need no check, and that of the others
//! overlaps their products.

use super::blocks::{Blocks, Split};
use super::chunk::{ChunkArray, WeightColumns};
use super::dealt::Chunks;
use super::exponentials::Exponentials;
use super::logits::{Logits, Plan, Position, RowSubTiles, SubTile, SubTiles};
use super::per_row::{PerRow, RowWise, compute};
use super::{Head, HeadError, InDw};
use crate::DType;
use crate::expr::Expr;
use crate::kernels::softmax::{Fold, Overhang, Pick, Statistics, Wanted};
use crate::ops::{Direction, Index, Largest, TileOps};
use crate::program::Kernel;
use crate::spec::{AxisId, BlockIndex, KernelSpec, Semantics, SpecBuilder};
use crate::view::{HbmRef, Rows, RowsRef, SemaphoreRef, Span, StatsRef, TileRef};

/// Grid `(rows, columns, hidden)`. Each step adds one product to a block of logits; on the last
/// hidden block the block is folded into the running statistics of its rows, and after the last
/// column block the rows are finished. Where threads share columns, these come first in the grid, and each column block
/// is folded and finished by itself.
#[derive(Clone, Debug)]
pub struct Forward {
    spec: KernelSpec,
    blocks: Blocks,
    split: Split,
    rows: AxisId,
    columns: AxisId,
    hidden: AxisId,
    logits: Logits,
    stored: Option<StoredLogits>,
    ending: Ending,
    lazy: Option<LazyFold>,
}

/// Rows of a sub-tile of a lazy fold: as many as share the weights of a product. Of more, a v7x does not sum over
/// blocks of the contraction within the matrix units (libtpu 0.0.51).
const LAZY_ROWS: usize = 1024;

/// Rows of which a block is folded again, as many as a register has of bf16. That happens next to never, and a short
/// loop of them takes little room for spills and the compiler little time.
const AGAIN_ROWS: usize = 16;

/// What a lazy fold needs besides.
#[derive(Clone, Copy, Debug)]
struct LazyFold {
    /// Columns of a sub-tile.
    columns: usize,
    /// Rows of a sub-tile that are not lazy.
    exact_rows: usize,
    pick: Pick,
    /// The logsumexp before the block.
    before: StatsRef,
    /// The labels, once per row block in a form that each sub-tile can use.
    labels: Option<RowsRef>,
    /// Where the logits of some rows are made again, if they are not kept. Then nothing reads the block
    /// of them but what follows each product, and the TPU compiler keeps none of it in memory.
    remade: Option<TileRef>,
}

/// Which logits are left, and where.
#[derive(Clone, Copy, Debug)]
pub(super) enum Store {
    /// All of a chunk of rows, in an array of their own.
    Rows(Chunks),
    /// Those of so many row blocks and column blocks, or their exponentials, in `dw`.
    InDw(InDw, [usize; 2]),
}

impl Store {
    /// What is left in `dw`, and of how many row blocks and column blocks.
    pub(super) fn in_dw(self) -> Option<(InDw, [usize; 2])> {
        match self {
            Self::InDw(what, counts) => Some((what, counts)),
            Self::Rows(_) => None,
        }
    }
}

/// What is left of a block, where, and of how many row blocks and column blocks of the grid.
#[derive(Clone, Copy, Debug)]
struct StoredLogits {
    exponentials: Option<Exponentials>,
    to: HbmRef,
    copied: SemaphoreRef,
    /// In how many parts the rows of a block are left.
    per_block: usize,
    grid: [usize; 2],
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

impl Ending {
    /// The statistics as they are. Operands (`labels`), `lse`, (`label_logit`), (`logit_sum`), (`entropy`), as wanted.
    pub(crate) fn plain(rows: &mut PerRow<'_>, wanted: Wanted, scale: f32) -> Self {
        let labels = wanted.label_logit.then(|| rows.labels());
        let lse = rows.output("lse");
        let mut output = |name, wanted: bool| wanted.then(|| rows.output(name));
        let label_logit = output("label_logit", wanted.label_logit);
        let logit_sum = output("logit_sum", wanted.logit_sum);
        let entropy = output("entropy", wanted.entropy);
        let statistics = rows.statistics(wanted, scale);
        let results = [
            (label_logit, statistics.label_logit),
            (logit_sum, statistics.logit_sum),
        ];
        let results = results.into_iter();
        Self {
            labels,
            lse,
            entropy,
            results: results
                .filter_map(|(out, kept)| Some((out?, Expr::leaf(kept?))))
                .collect(),
            statistics,
        }
    }

    /// What `ending` declares, and an output for the logits of the labels before it.
    pub(super) fn with_label_logit(
        rows: &mut PerRow<'_>,
        ending: impl FnOnce(&mut PerRow<'_>) -> Self,
    ) -> Self {
        let out = rows.output("label_logit");
        let mut ending = ending(rows);
        let label_logit = ending.statistics.label_logit.expect("a loss of labels");
        ending.results.push((out, Expr::leaf(label_logit)));
        ending
    }
}

impl Forward {
    /// The kernel for `head`. Operands: `x`, `w`, (`bias`), then the vectors of the ending in the order in which it
    /// declares them; where threads share columns, its outputs have an element for each row of each column block.
    ///
    /// If logits are stored, the operand after those that they are made of receives them. If they are those of a chunk
    /// of rows, the scalar operand is the chunk's first row block. If exponentials are stored, the next operand is what
    /// they are relative to.
    ///
    /// # Errors
    /// The spec refuses the blocks.
    pub(super) fn new(
        name: &'static str,
        head: &Head,
        plan: Plan,
        store: Option<Store>,
        ending: impl FnOnce(&mut PerRow<'_>) -> Ending,
    ) -> Result<Self, HeadError> {
        let Plan {
            blocks,
            sub_tiles,
            lazy,
            split,
            ..
        } = plan;
        let chunk_rows = match store {
            Some(Store::Rows(chunks)) => Some(chunks),
            _ => None,
        };
        let mut spec = SpecBuilder::new(name);
        let row_blocks = chunk_rows.map_or(head.tokens.div_ceil(blocks.b), |chunks| chunks.blocks);
        let column_blocks = head.vocab.div_ceil(blocks.v);
        let rows = |spec: &mut SpecBuilder| spec.axis("rows", row_blocks, Semantics::Parallel);
        let columns =
            |spec: &mut SpecBuilder| spec.axis("columns", column_blocks, split.of_columns());
        let (rows, columns) = match split {
            Split::Rows => (rows(&mut spec), columns(&mut spec)),
            // Who has a block of columns has it for all rows.
            Split::Columns => {
                let columns = columns(&mut spec);
                (rows(&mut spec), columns)
            }
        };
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
            w: WeightColumns::all(head, columns),
        };
        let sub_tiles = RowSubTiles {
            // Those of a lazy fold are others, and what is stored is stored in whole sub-tiles.
            shared: sub_tiles.shared
                && lazy.is_none()
                && (store.is_none() || blocks.b.is_multiple_of(sub_tiles.rows)),
            ..sub_tiles
        };
        let plan = Plan { sub_tiles, ..plan };
        let logits = Logits::declare(&mut spec, head, plan, position);
        let rows_stored = match logits.sub_tiles() {
            RowSubTiles {
                rows, shared: true, ..
            } => rows,
            _ => blocks.b,
        };
        let stored = store.map(|store| {
            let (array, in_dw, grid) = match store {
                Store::Rows(chunks) => {
                    let array = ChunkArray::of_rows(head, blocks, chunks).by_copy(rows_stored);
                    (array, InDw::Logits, [row_blocks, column_blocks])
                }
                Store::InDw(what, stored) => {
                    let array = ChunkArray::in_dw(head, blocks).by_copy(rows_stored);
                    (array.masked(), what, stored)
                }
            };
            let to = spec.hbm("stored", array);
            let position = [rows.into(), columns.into()];
            StoredLogits {
                exponentials: (in_dw == InDw::Exponentials)
                    .then(|| Exponentials::declare(&mut spec, head, blocks, rows_stored, position)),
                to,
                per_block: blocks.b / rows_stored,
                copied: spec.semaphore("stored_copied"),
                grid,
            }
        });
        let per_row = PerRow::new(&mut spec, head, blocks.b, row_block);
        let ending = ending(&mut match split {
            Split::Rows => per_row,
            Split::Columns => per_row.by_column_block(blocks, columns.into()),
        });
        let lazy = lazy.and_then(|lazy| {
            Some(LazyFold {
                columns: lazy.columns,
                exact_rows: lazy.exact_rows,
                pick: match lazy.stores_labels {
                    true => Pick::Stored,
                    false => Pick::Selected,
                },
                before: ending.statistics.declare_before(&mut spec)?,
                labels: (ending.labels).map(|rows| spec.scratch_labels("row_labels", rows.len())),
                remade: (!lazy.keeps_logits && logits.in_one_step()).then(|| {
                    let shape = [AGAIN_ROWS.min(blocks.b), blocks.v];
                    spec.scratch_tile("remade_logits", DType::F32, shape)
                }),
            })
        });
        Ok(Self {
            spec: spec.build()?,
            blocks,
            split,
            rows,
            columns,
            hidden,
            logits,
            stored,
            ending,
            lazy,
        })
    }

    /// Whether something is left of the block.
    fn is_left<T: TileOps>(&self, t: &T, stored: &StoredLogits) -> T::Condition {
        let [row_blocks, column_blocks] = stored.grid.map(|blocks| t.index(blocks as i64));
        t.and(
            t.less_than(t.program_id(self.rows), row_blocks),
            t.less_than(t.program_id(self.columns), column_blocks),
        )
    }

    /// Stores part `number` of the block.
    fn store<T: TileOps>(&self, t: &T, stored: &StoredLogits, number: T::Index) {
        let part = t.program_id(self.rows) * stored.per_block as i64 + number;
        let to = stored.to.block([part, t.program_id(self.columns)]);
        let from = (stored.exponentials).map_or(self.logits.values, |made| made.values);
        t.start_copy(Direction::Store, to, from, stored.copied);
        t.wait(Direction::Store, to, from, stored.copied);
    }

    /// The fold of a part of the block.
    fn part<I: Index>(
        &self,
        part: SubTile<I>,
        labels: Option<Rows<I>>,
        first_column: I,
    ) -> Fold<I> {
        Fold {
            logits: part.logits,
            stats: part.rows,
            rows: part.rows,
            labels,
            first_column,
            overhang: match self.logits.ragged_columns() {
                true => Overhang::Unmasked,
                false => Overhang::Nowhere,
            },
        }
    }

    fn fold<T: TileOps>(&self, t: &T, part: SubTile<T::Index>) {
        let labels = self.ending.labels.map(|labels| labels.span(part.rows));
        let first_column = t.program_id(self.columns) * self.blocks.v as i64;
        let fold = self.part(part, labels, first_column);
        self.ending.statistics.fold(t, fold);
        let Some(stored) = &self.stored else { return };
        t.when(self.is_left(t, stored), || {
            if let Some(exponentials) = stored.exponentials {
                let out = exponentials.values.rows(part.logits.rows);
                exponentials.make(t, &self.ending, [out, part.logits], part.rows);
            }
            if stored.per_block > 1 {
                self.store(t, stored, part.number);
            }
        });
    }

    fn fold_lazily<T: TileOps>(&self, t: &T, lazy: LazyFold) {
        let statistics = &self.ending.statistics;
        let complete = t.is_last(self.hidden);
        let keep = || t.copy_stats(lazy.before, statistics.stats);
        let sub_tiles = SubTiles {
            rows: LAZY_ROWS,
            columns: lazy.columns,
        };
        let exact_rows = lazy.exact_rows.min(self.blocks.b);
        let fold = |part: SubTile<T::Index>| {
            let start = part.logits.columns.start.unwrap_or(t.index(0));
            let first_column = t.program_id(self.columns) * self.blocks.v as i64 + start;
            let labels = lazy.labels.map(|labels| labels.span(part.rows));
            let fold = self.part(part, labels, first_column);
            let starts = t.equals(start, t.index(0));
            match exact_rows {
                0 => statistics.fold_lazily(t, fold, starts, lazy.pick),
                _ => {
                    let first = match self.split {
                        Split::Rows => t.and(t.is_first(self.columns), starts),
                        Split::Columns => starts,
                    };
                    statistics.fold_partly_lazily(t, fold, (exact_rows, first), lazy.pick);
                }
            }
        };
        if exact_rows == 0 {
            t.when(complete, keep);
            self.logits.compute_parts(t, sub_tiles, || {}, fold, || {});
            t.when(complete, || {
                let all = Span::all(self.blocks.b);
                let inaccurate = statistics.are_inaccurate(t, all, Largest::Balanced);
                self.fold_again(t, lazy, inaccurate);
            });
            return;
        }
        // No others than rows before the last are lazy.
        let rows = Span::new(t.index(0), self.blocks.b - exact_rows);
        let check = || {
            if rows.len > 0 {
                let inaccurate = statistics.are_inaccurate(t, rows, Largest::InOrder);
                self.fold_again(t, lazy, inaccurate);
            }
        };
        self.logits.compute_parts(t, sub_tiles, keep, fold, check);
    }

    /// Folds the block again if sums of it are inaccurate.
    fn fold_again<T: TileOps>(&self, t: &T, lazy: LazyFold, inaccurate: T::Condition) {
        let statistics = &self.ending.statistics;
        statistics.make_good(t, inaccurate, lazy.before, AGAIN_ROWS, |rows| {
            let Some(remade) = lazy.remade else {
                return self.logits.values.rows(rows);
            };
            let logits = remade.rows(Span::new(t.index(0), rows.len));
            self.logits.remake(t, rows, logits);
            if self.logits.ragged_columns() {
                let left = self.logits.columns_left(t, t.program_id(self.columns));
                t.mask_columns(logits, left, f32::NEG_INFINITY);
            }
            logits
        });
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
        // What is kept is of a row, or of a row of a block.
        let of_columns = |end: fn(&T, AxisId) -> T::Condition| match self.split {
            Split::Rows => t.and(end(t, self.columns), end(t, self.hidden)),
            Split::Columns => end(t, self.hidden),
        };
        t.when(of_columns(T::is_first), || {
            self.ending.statistics.reset(t, Span::all(self.blocks.b));
            if let Some((to, labels)) = self
                .lazy
                .and_then(|lazy| lazy.labels.zip(self.ending.labels))
            {
                t.copy_rows(to, labels);
            }
        });
        match self.lazy {
            None => self.logits.compute(t, |part| self.fold(t, part)),
            Some(lazy) => self.fold_lazily(t, lazy),
        }
        if let Some(stored) = self.stored.as_ref().filter(|stored| stored.per_block == 1) {
            let is_left = t.and(t.is_last(self.hidden), self.is_left(t, stored));
            t.when(is_left, || self.store(t, stored, t.index(0)));
        }
        t.when(of_columns(T::is_last), || self.finish(t));
    }
}
