//! The one-kernel backward pass.

use super::blocks::{Blocks, Split};
use super::chunk::WeightColumns;
use super::dealt::Cores;
use super::delta::Coefficients;
use super::logits::{Logits, Plan, Position};
use super::per_row::{PerRow, compute};
use super::{Head, HeadError, Structure};
use crate::DType;
use crate::ops::{Accumulate, Contract, Direction, TileOps};
use crate::program::Kernel;
use crate::spec::{AxisId, BlockIndex, Blocked, KernelSpec, Semantics, SpecBuilder};
use crate::view::{ColumnsRef, HbmBlock, HbmRef, SemaphoreRef, TileRef};

/// Grid `(cores, rows, columns, stage, hidden)`, of rows or of columns those of a core. Stage 0 recomputes a block of
/// logits and turns it into delta, in place and in f32. Stage 1 walks the hidden blocks once more and adds the tile's
/// share to `dx [b,h]` and to `dw [h,v]`, of which the one is the core's own sum if it shares the other's blocks, both
/// read, updated and written back by explicit copies: an output window could not do it, because the grid returns to a
/// block of `dx` for every column block and to one of `dw` for every row block. A block of `dx` that is as wide as the
/// hidden dimension stays where it is until its last column block.
///
/// A block of `dw` is written back while the next logits are made, and the next one is read during the product for
/// `dx`: one tile is enough for copies that no product waits for. With several hidden blocks those after the first wait
/// for the copies of the one before. [In turn](Structure::InTurn), each step of stage 1 reads both tiles when it
/// starts, writes each once it is updated, and ends when both are away.
#[derive(Clone, Debug)]
pub struct Combined {
    spec: KernelSpec,
    head: Head,
    blocks: Blocks,
    cores: Cores,
    core: AxisId,
    row: AxisId,
    columns: AxisId,
    stage: AxisId,
    hidden: AxisId,
    logits: Logits,
    coefficients: Coefficients,
    dx: Gradient,
    dw: Gradient,
    dbias: Option<(HbmRef, ColumnsRef, SemaphoreRef)>,
}

/// A gradient array, the tile it is updated in, and a semaphore for each direction.
#[derive(Clone, Debug)]
struct Gradient {
    array: HbmRef,
    tile: TileRef,
    read: SemaphoreRef,
    write: SemaphoreRef,
}

impl Combined {
    /// The kernel for `head`. Operands: `x`, `w`, (`bias`), the vectors of the coefficients in the order in which they
    /// are declared, then in f32 `dx [B',H']` of whole blocks, or one for each core, each sum of
    /// [`dw`](Blocks::copied_dw), (those of `dbias [1,V']`: a row is a matrix of its own, because a copy takes whole
    /// tiles).
    ///
    /// # Errors
    /// The spec refuses the blocks.
    pub(super) fn new(
        name: &'static str,
        head: &Head,
        plan: Plan,
        cores: Cores,
        coefficients: impl FnOnce(&mut PerRow<'_>) -> Coefficients,
    ) -> Result<Self, HeadError> {
        let Plan {
            blocks, sub_tiles, ..
        } = plan;
        let mut spec = SpecBuilder::new(name);
        let row_blocks = head.tokens.div_ceil(blocks.b);
        let core = spec.axis("core", cores.count, Semantics::Parallel);
        let column_blocks = head.vocab.div_ceil(blocks.v);
        let each = cores.blocks_each;
        let [rows_of_core, columns_of_core] = match cores.split {
            Split::Rows => [each, column_blocks],
            Split::Columns => [row_blocks, each],
        };
        let row = spec.axis("rows", rows_of_core, Semantics::Arbitrary);
        let columns = spec.axis("columns", columns_of_core, Semantics::Arbitrary);
        let stage = spec.axis("stage", 2, Semantics::Arbitrary);
        let hidden_blocks = head.hidden.div_ceil(blocks.h);
        let hidden = spec.axis("hidden", hidden_blocks, Semantics::Arbitrary);
        let of_core = |axis: AxisId| BlockIndex::from(core) * each as i64 + BlockIndex::from(axis);
        let [row_block, column_block]: [BlockIndex; 2] = match cores.split {
            // The last core may have fewer row blocks; its surplus steps stay on the last one, idle.
            Split::Rows => [of_core(row).at_most(row_blocks as i64 - 1), columns.into()],
            Split::Columns => [row.into(), of_core(columns)],
        };
        let position = Position {
            rows: row_block.clone(),
            columns: column_block.clone(),
            hidden,
            w: WeightColumns::all(head, column_block),
        };
        // Products read the delta of a block, which takes the place of its logits.
        let plan = Plan {
            sub_tiles: sub_tiles.apart(),
            ..plan
        };
        let logits = Logits::declare(&mut spec, head, plan, position);
        let coefficients = coefficients(&mut PerRow::new(&mut spec, head, blocks.b, row_block));
        let [rows_up, hidden_up, vocab_up] = blocks.whole(head);
        let of_dw = cores.sums_of_dw();
        let whole = [rows_up, hidden_up];
        let dx_array = match cores.split {
            Split::Rows => Blocked::by_copy(DType::F32, whole, [blocks.b, blocks.h]),
            Split::Columns => {
                let dims = [cores.count, rows_up, hidden_up];
                Blocked::by_copy(DType::F32, dims, [1, blocks.b, blocks.h])
            }
        };
        let dx = Gradient {
            array: spec.hbm("dx", dx_array),
            tile: spec.scratch_tile("dx_tile", DType::F32, [blocks.b, blocks.h]),
            read: spec.semaphore("dx_read"),
            write: spec.semaphore("dx_write"),
        };
        let [dw_rows, dw_columns] = blocks.copied_dw(head);
        let dims = [of_dw, dw_rows, dw_columns];
        let dw = Gradient {
            array: spec.hbm(
                "dw",
                Blocked::by_copy(DType::F32, dims, [1, blocks.h, blocks.v]).masked(),
            ),
            tile: spec.scratch_tile("dw_tile", DType::F32, [blocks.h, blocks.v]),
            read: spec.semaphore("dw_read"),
            write: spec.semaphore("dw_write"),
        };
        let dbias = head.options.bias.then(|| {
            let dims = [of_dw, 1, vocab_up];
            (
                spec.hbm(
                    "dbias",
                    Blocked::by_copy(DType::F32, dims, [1, 1, blocks.v]),
                ),
                spec.scratch_columns("dbias_tile", blocks.v),
                spec.semaphore("dbias_copy"),
            )
        });
        Ok(Self {
            spec: spec.build()?,
            head: *head,
            blocks,
            cores,
            core,
            row,
            columns,
            stage,
            hidden,
            logits,
            coefficients,
            dx,
            dw,
            dbias,
        })
    }

    /// Stage 0: logits, then delta in their place.
    fn recompute<T: TileOps>(&self, t: &T, [row_block, column]: [T::Index; 2]) {
        let first = t.and(t.is_first(self.columns), t.is_first(self.hidden));
        t.when(first, || compute(t, &self.coefficients.prepare));
        self.logits.compute(t, |part| {
            let z = part.logits;
            let first_column = column * self.blocks.v as i64;
            let delta = (self.coefficients).delta(self.logits.soft_cap(), part.rows, first_column);
            t.softmax_delta(z, z, delta);
            if self.logits.ragged_columns() {
                t.mask_columns(z, self.logits.columns_left(t, column), 0.0);
            }
        });
        t.when(t.is_last(self.hidden), || {
            let last = self.head.hidden.div_ceil(self.blocks.h) as i64 - 1;
            if !self.in_turn() {
                t.when(t.is_after_first(self.columns), || {
                    self.dw
                        .finish_write(t, self.dw_block(t, t.index(last), column - t.index(1)));
                });
                t.when(t.is_after_first(self.row), || {
                    self.dw.start_read(t, self.dw_block(t, t.index(0), column));
                });
            }
            let delta = self.logits.values;
            if self.logits.ragged_rows() {
                t.mask_rows(delta, self.logits.rows_left(t, row_block), 0.0);
            }
            if let Some((array, tile, semaphore)) = self.dbias {
                let block = array.block([self.sum_of_dw(t), t.index(0), column]);
                let row = tile.as_tile(DType::F32);
                t.when(t.is_first(self.row), || {
                    t.column_sum(tile, delta, Accumulate::Overwrite);
                });
                t.when(t.is_after_first(self.row), || {
                    t.load(block, row, semaphore);
                    t.column_sum(tile, delta, Accumulate::Add);
                });
                t.start_copy(Direction::Store, block, row, semaphore);
                t.wait(Direction::Store, block, row, semaphore);
            }
        });
    }

    /// Stage 1: one hidden block of both gradients.
    fn update<T: TileOps>(&self, t: &T, [row_block, column]: [T::Index; 2]) {
        let hidden = t.program_id(self.hidden);
        if self.logits.ragged_rows() {
            t.mask_rows(self.logits.x, self.logits.rows_left(t, row_block), 0.0);
        }
        if self.logits.ragged_columns() {
            t.mask_columns(self.logits.w, self.logits.columns_left(t, column), 0.0);
        }
        let dx = match self.cores.split {
            Split::Rows => SumBlock::OfAll(self.dx.array.block([row_block, hidden])),
            Split::Columns => {
                let core = t.program_id(self.core);
                SumBlock::OfCore(self.dx.array.block([core, row_block, hidden]))
            }
        };
        let dw = self.dw_block(t, hidden, column);
        let has_dx = t.is_after_first(self.columns);
        let has_dw = t.is_after_first(self.row);
        let in_turn = self.in_turn();
        let dx_stays = !in_turn && self.head.hidden <= self.blocks.h;
        if !dx_stays {
            t.when(has_dx, || self.dx.start_read(t, dx));
        }
        if in_turn {
            t.when(has_dw, || self.dw.start_read(t, dw));
        } else if !dx_stays {
            t.when(t.is_after_first(self.hidden), || {
                self.dw
                    .finish_write(t, self.dw_block(t, hidden - t.index(1), column));
                t.when(has_dw, || self.dw.start_read(t, dw));
            });
        }

        let delta = self.logits.values;
        let (tile, w) = (self.dx.tile, self.logits.w);
        t.when(t.is_first(self.columns), || {
            t.matmul(tile, delta, w, Contract::NT, Accumulate::Overwrite);
        });
        t.when(has_dx, || {
            if !dx_stays {
                self.dx.finish_read(t, dx);
            }
            t.matmul(tile, delta, w, Contract::NT, Accumulate::Add);
        });
        let once_complete = |copy: &dyn Fn()| match dx_stays {
            true => t.when(t.is_last(self.columns), copy),
            false => copy(),
        };
        once_complete(&|| self.dx.start_write(t, dx));

        let (tile, x) = (self.dw.tile, self.logits.x);
        t.when(t.is_first(self.row), || {
            t.matmul(tile, x, delta, Contract::TN, Accumulate::Overwrite);
        });
        t.when(has_dw, || {
            self.dw.finish_read(t, dw);
            t.matmul(tile, x, delta, Contract::TN, Accumulate::Add);
        });
        self.dw.start_write(t, dw);
        once_complete(&|| self.dx.finish_write(t, dx));
        if in_turn {
            return self.dw.finish_write(t, dw);
        }
        let is_last = t.and(t.is_last(self.columns), t.is_last(self.hidden));
        t.when(is_last, || self.dw.finish_write(t, dw));
    }

    fn in_turn(&self) -> bool {
        self.logits.sub_tiles().structure == Structure::InTurn
    }

    /// Which sum of `dw` the core adds to.
    fn sum_of_dw<T: TileOps>(&self, t: &T) -> T::Index {
        match self.cores.split {
            Split::Rows => t.program_id(self.core),
            Split::Columns => t.index(0),
        }
    }

    /// A block of the core's sum of `dw`.
    fn dw_block<T: TileOps>(
        &self,
        t: &T,
        hidden: T::Index,
        column: T::Index,
    ) -> SumBlock<T::Index> {
        let sum = self.sum_of_dw(t);
        SumBlock::OfCore(self.dw.array.block([sum, hidden, column]))
    }
}

/// A block of a sum of a gradient: a matrix, or one of several.
#[derive(Clone, Copy)]
enum SumBlock<I> {
    OfAll(HbmBlock<I, 2>),
    OfCore(HbmBlock<I, 3>),
}

impl Gradient {
    fn start<T: TileOps>(&self, t: &T, to: Direction, block: SumBlock<T::Index>) {
        let semaphore = self.semaphore(to);
        match block {
            SumBlock::OfAll(block) => t.start_copy(to, block, self.tile, semaphore),
            SumBlock::OfCore(block) => t.start_copy(to, block, self.tile, semaphore),
        }
    }

    fn finish<T: TileOps>(&self, t: &T, to: Direction, block: SumBlock<T::Index>) {
        let semaphore = self.semaphore(to);
        match block {
            SumBlock::OfAll(block) => t.wait(to, block, self.tile, semaphore),
            SumBlock::OfCore(block) => t.wait(to, block, self.tile, semaphore),
        }
    }

    fn semaphore(&self, to: Direction) -> SemaphoreRef {
        match to {
            Direction::Load => self.read,
            Direction::Store => self.write,
        }
    }

    fn start_read<T: TileOps>(&self, t: &T, block: SumBlock<T::Index>) {
        self.start(t, Direction::Load, block);
    }

    fn finish_read<T: TileOps>(&self, t: &T, block: SumBlock<T::Index>) {
        self.finish(t, Direction::Load, block);
    }

    fn start_write<T: TileOps>(&self, t: &T, block: SumBlock<T::Index>) {
        self.start(t, Direction::Store, block);
    }

    fn finish_write<T: TileOps>(&self, t: &T, block: SumBlock<T::Index>) {
        self.finish(t, Direction::Store, block);
    }
}

impl Kernel for Combined {
    fn spec(&self) -> &KernelSpec {
        &self.spec
    }

    fn body<T: TileOps>(&self, t: &T) {
        let of_core = t.program_id(self.core) * self.cores.blocks_each as i64;
        let [row, column] = [self.row, self.columns].map(|axis| t.program_id(axis));
        let stages = |blocks: [T::Index; 2]| {
            t.when(t.is_first(self.stage), || self.recompute(t, blocks));
            t.when(t.is_last(self.stage), || self.update(t, blocks));
        };
        match self.cores.split {
            Split::Rows => {
                let row = of_core + row;
                let all = t.index(self.head.tokens.div_ceil(self.blocks.b) as i64);
                t.when(t.less_than(row, all), || stages([row, column]));
            }
            Split::Columns => stages([row, of_core + column]),
        }
    }
}
