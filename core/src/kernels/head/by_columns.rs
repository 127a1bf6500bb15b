//! Both gradients in one kernel, each core with columns of its own.
//!
//! Delta of a block is read twice, for `dx` and for `dw`, and where it was made it is still in the cache. So nothing of
//! it is kept: a block is made, multiplied by both, and forgotten. What a core has of `dw` is complete when all rows
//! have passed; of `dx` it has a sum over its columns, as large as `dx` itself, and these are added up at the end:
//!
//! ```text
//! each core, for each of its column blocks, for each row block:
//!     delta        = ... z ...        z where the forward pass has left it, or made again
//!     dx of core  += delta w^T
//!     dw          += x^T delta        complete after the last row block
//! ```
//!
//! A block of `w` is packed once for all rows, by one core, where cores that share rows would each pack all of `w`.

use super::blocks::Blocks;
use super::chunk::{ChunkArray, WeightColumns, summed};
use super::dealt::Cores;
use super::delta::Coefficients;
use super::exponentials::FromExponentials;
use super::logits::{Logits, Plan, Position};
use super::per_row::{PerRow, compute};
use super::{Head, HeadError, InDw};
use crate::DType;
use crate::ops::{Contract, Direction, TileOps};
use crate::program::Kernel;
use crate::spec::{AxisId, BlockIndex, Blocked, KernelSpec, Semantics, SpecBuilder};
use crate::view::{ColumnsRef, HbmBlock, HbmRef, SemaphoreRef, Span, Tile, TileRef};

/// Grid `(core, columns of the core, rows, 1)`. The blocks are as high as the hidden dimension. The last core may have
/// fewer columns; its surplus steps do nothing.
#[derive(Clone, Debug)]
pub struct ColumnGradients {
    spec: KernelSpec,
    head: Head,
    blocks: Blocks,
    cores: Cores,
    core: AxisId,
    columns: AxisId,
    rows: AxisId,
    logits: Logits,
    coefficients: Coefficients,
    stored: Option<StoredBlocks>,
    delta: TileRef,
    dx: Sum,
    dw: Sum,
    /// `dw` in its own type, if its sum is not.
    dw_rounded: Option<TileRef>,
    dbias: Option<(HbmRef, ColumnsRef)>,
    copied: SemaphoreRef,
}

/// What the forward pass has left in `dw`.
#[derive(Clone, Debug)]
struct StoredBlocks {
    window: TileRef,
    /// Row blocks and column blocks.
    counts: [usize; 2],
    exponentials: Option<FromExponentials>,
}

/// A gradient and the tile that it is summed in.
#[derive(Clone, Copy, Debug)]
struct Sum {
    array: HbmRef,
    tile: TileRef,
}

impl ColumnGradients {
    /// The kernel for `head`. Operands: `x`, `w`, (`bias`), the vectors of the coefficients in the order in which they
    /// are declared, (what exponentials are relative to, the logits of the labels), (what the forward pass has left of
    /// so many row blocks and column blocks in `dw`), then in f32 `dx [cores,B',H]` of whole blocks of rows, `dw`,
    /// (`dbias [1,1,V']` of whole blocks, in f32).
    ///
    /// # Errors
    /// The spec refuses the blocks.
    pub(super) fn new(
        name: &'static str,
        head: &Head,
        plan: Plan,
        cores: Cores,
        stored: Option<(InDw, [usize; 2])>,
        coefficients: impl FnOnce(&mut PerRow<'_>) -> Coefficients,
    ) -> Result<Self, HeadError> {
        let blocks = plan.blocks;
        let mut spec = SpecBuilder::new(name);
        let core = spec.axis("core", cores.count, Semantics::Parallel);
        let columns = spec.axis("columns", cores.blocks_each, Semantics::Arbitrary);
        let row_blocks = head.tokens.div_ceil(blocks.b);
        let rows = spec.axis("rows", row_blocks, Semantics::Arbitrary);
        let hidden = spec.axis("hidden", 1, Semantics::Arbitrary);
        let last = head.vocab.div_ceil(blocks.v) as i64 - 1;
        let first_block = BlockIndex::from(core) * cores.blocks_each as i64;
        let column_block = (first_block + BlockIndex::from(columns)).at_most(last);
        let position = Position {
            rows: rows.into(),
            columns: column_block.clone(),
            hidden,
            w: WeightColumns::all(head, column_block.clone()),
        };
        let logits = Logits::declare(&mut spec, head, plan, position);
        let per_row = &mut PerRow::new(&mut spec, head, blocks.b, rows.into());
        let coefficients = coefficients(per_row);
        let exponentials = matches!(stored, Some((InDw::Exponentials, _)))
            .then(|| FromExponentials::declare(per_row, head, blocks, column_block.clone()));
        let stored = stored.map(|(_, counts)| {
            let [row, column] = [rows.into(), column_block];
            let at_most = |block: BlockIndex, count: usize| block.at_most(count as i64 - 1);
            let array = ChunkArray::in_dw(head, blocks);
            let window = array.window(at_most(row, counts[0]), at_most(column, counts[1]));
            StoredBlocks {
                window: spec.input_tile("stored", window.masked()),
                counts,
                exponentials,
            }
        });
        let [rows_up, hidden_up, vocab_up] = blocks.whole(head);
        let delta = spec.scratch_tile("delta", head.delta_dtype(), [blocks.b, blocks.v]);
        let dims = [cores.count, rows_up, hidden_up];
        let dx = Blocked::by_copy(DType::F32, dims, [1, rows_up, hidden_up]);
        let dx = Sum {
            array: spec.hbm("dx", dx),
            tile: spec.scratch_tile("dx_sum", DType::F32, [rows_up, hidden_up]),
        };
        let dw_block = [blocks.h, blocks.v];
        let dw = Blocked::by_copy(head.grad_dtype(), [head.hidden, head.vocab], dw_block);
        let dw = Sum {
            array: spec.hbm("dw", dw.masked()),
            tile: spec.scratch_tile("dw_sum", DType::F32, dw_block),
        };
        let dw_rounded = (head.grad_dtype() != DType::F32)
            .then(|| spec.scratch_tile("dw_rounded", head.grad_dtype(), dw_block));
        let dbias = head.options.bias.then(|| {
            let dbias = Blocked::by_copy(DType::F32, [1, 1, vocab_up], [1, 1, blocks.v]);
            let array = spec.hbm("dbias", dbias);
            (array, spec.scratch_columns("dbias_sum", blocks.v))
        });
        let copied = spec.semaphore("copied");
        Ok(Self {
            spec: spec.build()?,
            head: *head,
            blocks,
            cores,
            core,
            columns,
            rows,
            logits,
            coefficients,
            stored,
            delta,
            dx,
            dw,
            dw_rounded,
            dbias,
            copied,
        })
    }

    /// Delta of what the forward pass has left. It leaves whole blocks of columns, so there is nothing to mask.
    fn delta_of_stored<T: TileOps>(&self, t: &T, stored: &StoredBlocks, column: T::Index) {
        let first_column = column * self.blocks.v as i64;
        let coefficients = &self.coefficients;
        match &stored.exponentials {
            Some(exponentials) => {
                exponentials.prepare(t, coefficients);
                exponentials.delta(t, coefficients, [self.delta, stored.window], first_column);
            }
            None => {
                let cap = self.logits.soft_cap();
                let delta = coefficients.delta(cap, Span::all(self.blocks.b), first_column);
                t.softmax_delta(self.delta, stored.window, delta);
            }
        }
    }

    /// Delta of logits that are made again.
    fn delta_of_product<T: TileOps>(&self, t: &T, column: T::Index) {
        let first_column = column * self.blocks.v as i64;
        self.logits.compute(t, |part| {
            let delta = (self.coefficients).delta(self.logits.soft_cap(), part.rows, first_column);
            let out = self.delta.rows(part.rows);
            t.softmax_delta(out, part.logits, delta);
            if self.logits.ragged_columns() {
                t.mask_columns(out, self.logits.columns_left(t, column), 0.0);
            }
        });
    }

    fn make_delta<T: TileOps>(&self, t: &T, column: T::Index) {
        compute(t, &self.coefficients.prepare);
        let row = t.program_id(self.rows);
        match &self.stored {
            None => self.delta_of_product(t, column),
            Some(stored) => {
                let [rows, columns] = stored.counts.map(|count| t.index(count as i64));
                let is_stored = t.and(t.less_than(row, rows), t.less_than(column, columns));
                let is_not = t.not(is_stored);
                t.when(is_stored, || self.delta_of_stored(t, stored, column));
                t.when(is_not, || self.delta_of_product(t, column));
            }
        }
        if self.logits.ragged_rows() {
            let left = self.logits.rows_left(t, row);
            t.mask_rows(self.delta, left, 0.0);
            t.mask_rows(self.logits.x, left, 0.0);
        }
        if self.logits.ragged_columns() {
            t.mask_columns(self.logits.w, self.logits.columns_left(t, column), 0.0);
        }
    }

    /// Copies a gradient to where it belongs.
    fn store<T: TileOps, const N: usize>(
        &self,
        t: &T,
        block: HbmBlock<T::Index, N>,
        tile: impl Into<Tile<T::Index>>,
    ) {
        let tile = tile.into();
        t.start_copy(Direction::Store, block, tile, self.copied);
        t.wait(Direction::Store, block, tile, self.copied);
    }

    /// Adds what the block has of both gradients.
    fn add<T: TileOps>(&self, t: &T, column: T::Index) {
        let Blocks { b, .. } = self.blocks;
        let (delta, x, w) = (self.delta, self.logits.x, self.logits.w);
        let of_rows = Span::new(t.program_id(self.rows) * b as i64, b);
        let dx = self.dx.tile.rows(of_rows);
        summed(t, self.columns, |accumulate| {
            t.matmul(dx, delta, w, Contract::NT, accumulate);
        });
        summed(t, self.rows, |accumulate| {
            t.matmul(self.dw.tile, x, delta, Contract::TN, accumulate);
            if let Some((_, dbias)) = self.dbias {
                t.column_sum(dbias, delta, accumulate);
            }
        });
        t.when(t.is_last(self.rows), || {
            let dw = self.dw_rounded.unwrap_or(self.dw.tile);
            if let Some(rounded) = self.dw_rounded {
                t.cast(rounded, self.dw.tile);
            }
            self.store(t, self.dw.array.block([t.index(0), column]), dw);
            if let Some((array, sum)) = self.dbias {
                let block = array.block([t.index(0), t.index(0), column]);
                self.store(t, block, sum.as_tile(DType::F32));
            }
        });
    }
}

impl Kernel for ColumnGradients {
    fn spec(&self) -> &KernelSpec {
        &self.spec
    }

    fn body<T: TileOps>(&self, t: &T) {
        let core = t.program_id(self.core);
        let column = core * self.cores.blocks_each as i64 + t.program_id(self.columns);
        let all = t.index(self.head.vocab.div_ceil(self.blocks.v) as i64);
        t.when(t.less_than(column, all), || {
            self.make_delta(t, column);
            self.add(t, column);
        });
        let is_last = t.and(t.is_last(self.columns), t.is_last(self.rows));
        t.when(is_last, || {
            let block = self.dx.array.block([core, t.index(0), t.index(0)]);
            self.store(t, block, self.dx.tile);
        });
    }
}
