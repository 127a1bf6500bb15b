//! The primitives, recorded.
//!
//! Each primitive becomes operations on whole views. The compiler unrolls vectors into registers and
//! streams them, so a view is never materialised; the kernel's sub-tiles decide how much work one
//! straight-line block holds.

use tilecast_core::expr::{Expr, Leaf};
use tilecast_core::ops::{Accumulate, Contract, Delta, Direction, Largest, TileOps, Unroll};
use tilecast_core::spec::AxisId;
use tilecast_core::target::LANES;
use tilecast_core::view::{
    Columns, HbmBlock, Rows, ScalarsRef, SemaphoreRef, Span, Stats, TableRef, Tile,
};

use super::copies::Copy;
use super::memory::Moments;
use super::recording::Recording;
use super::scalar::{Number, Scalar};
use super::vectors::Form;
use crate::mosaic::Value;
use crate::mosaic::tpu::VectorKind;

/// Columns of which a sum over rows is made at a time, and the elements that are added at a time: 16 registers of f32,
/// half of those that v4 has, and enough that no addition waits for the one before. Of the sum of a whole tile the
/// compiler would load all of the tile first, and spill it.
const SUM_COLUMNS: usize = 1024;
const SUM_ELEMENTS: usize = 16 * 1024;

/// Of so many groups of 128 columns the numbers of the columns may stand in registers while labels are compared with
/// them; of more, labels are made distances first, to be compared with constants.
const FEW_GROUPS: usize = 4;

/// Records a kernel's body into a module.
#[derive(Clone, Copy, Debug)]
pub struct Recorder<'r>(pub(super) &'r Recording<'r>);

/// A truth value that is known, or a value of the module.
#[derive(Clone, Copy, Debug)]
pub enum Condition {
    /// Known while recording.
    Known(bool),
    /// An i1 of the module.
    Symbol(Value),
}

impl<'r> Recorder<'r> {
    fn compare(
        self,
        predicate: &str,
        a: Scalar<'r>,
        b: Scalar<'r>,
        known: fn(&i64, &i64) -> bool,
    ) -> Condition {
        match (a.number, b.number) {
            (Number::Known(a), Number::Known(b)) => Condition::Known(known(&a, &b)),
            _ => Condition::Symbol(self.0.compare_integers(predicate, a.value(), b.value())),
        }
    }

    /// Adds to what `out` holds, or replaces it.
    fn accumulate(self, out: &Tile<Scalar<'r>>, value: Value, accumulate: Accumulate) {
        let r = self.0;
        let value = match accumulate {
            Accumulate::Overwrite => value,
            Accumulate::Add => r.same("arith.addf", &[r.load_tile(out), value]),
        };
        r.store_tile(out, value);
    }

    /// For each 128 columns of a tile, which elements are of the label of their row, and the elements.
    fn picks(
        self,
        tile: Tile<Scalar<'r>>,
        labels: Rows<Scalar<'r>>,
        first_column: Scalar<'r>,
    ) -> impl Iterator<Item = (Value, Value)> {
        let r = self.0;
        let groups = r.lane_groups(r.widen(r.load_tile(&tile)));
        let labels = r.lanes(&labels);
        let shape = r.shape(labels);
        let few = groups.len() <= FEW_GROUPS;
        let (left, from) = match few {
            true => (labels, first_column),
            false => (r.lane_distances(labels, first_column), self.index(0)),
        };
        (groups.into_iter().zip(0..)).map(move |(z, i)| {
            let first = from + i * LANES as i64;
            let right = match few {
                true => r.lane_numbers(&shape, first),
                false => r.broadcast_scalar(first.value(), &shape),
            };
            (r.compare_integers("eq", left, right), z)
        })
    }
}

impl<'r> TileOps for Recorder<'r> {
    type Index = Scalar<'r>;
    type Condition = Condition;

    fn program_id(&self, axis: AxisId) -> Scalar<'r> {
        match self.0.spec.grid()[axis.index()].size {
            1 => self.index(0),
            size => Scalar::counter(self.0, self.0.symbols.grid[axis.index()], size),
        }
    }

    fn num_programs(&self, axis: AxisId) -> Scalar<'r> {
        self.0.sizes_read.borrow_mut()[axis.index()] = true;
        self.index(self.0.spec.grid()[axis.index()].size as i64)
    }

    fn index(&self, value: i64) -> Scalar<'r> {
        self.0.scalar(value)
    }

    fn scalar(&self, scalars: ScalarsRef, index: usize) -> Scalar<'r> {
        let r = self.0;
        let position = r.index_constant(index);
        Scalar::symbol(
            r,
            r.load_scalar(r.symbols.scalars[scalars.operand()], position),
        )
    }

    fn element(&self, table: TableRef, index: Scalar<'r>) -> Scalar<'r> {
        let r = self.0;
        let loaded = r.load_scalar(r.symbols.tables[table.table()], index.index());
        Scalar {
            range: [0, r.spec.tables()[table.table()].last],
            ..Scalar::symbol(r, loaded)
        }
    }

    fn equals(&self, a: Scalar<'r>, b: Scalar<'r>) -> Condition {
        self.compare("eq", a, b, i64::eq)
    }

    fn less_than(&self, a: Scalar<'r>, b: Scalar<'r>) -> Condition {
        self.compare("slt", a, b, i64::lt)
    }

    fn and(&self, a: Condition, b: Condition) -> Condition {
        match (a, b) {
            (Condition::Known(true), other) | (other, Condition::Known(true)) => other,
            (Condition::Known(false), _) | (_, Condition::Known(false)) => Condition::Known(false),
            (Condition::Symbol(a), Condition::Symbol(b)) => {
                Condition::Symbol(self.0.same("arith.andi", &[a, b]))
            }
        }
    }

    fn not(&self, a: Condition) -> Condition {
        match a {
            Condition::Known(known) => Condition::Known(!known),
            Condition::Symbol(a) => Condition::Symbol(self.0.not(a)),
        }
    }

    fn when(&self, condition: Condition, body: impl FnOnce()) {
        match condition {
            Condition::Known(true) => body(),
            Condition::Known(false) => {}
            Condition::Symbol(condition) => self.0.if_then(condition, body),
        }
    }

    fn for_each(&self, count: usize, unroll: Unroll, body: impl Fn(Scalar<'r>)) {
        match unroll {
            Unroll::Full => {
                let iterations = &self.0.iterations;
                iterations.set(iterations.get().max(count));
                let written = count.min(self.0.most_iterations);
                (0..written as i64).for_each(|i| body(self.index(i)));
            }
            Unroll::Rolled => self.0.for_loop(count, |counter| {
                body(Scalar::counter(self.0, counter, count));
            }),
        }
    }

    fn matmul(
        &self,
        out: impl Into<Tile<Scalar<'r>>>,
        a: impl Into<Tile<Scalar<'r>>>,
        b: impl Into<Tile<Scalar<'r>>>,
        contract: Contract,
        accumulate: Accumulate,
    ) {
        let r = self.0;
        let (out, a, b) = (out.into(), r.load_tile(&a.into()), r.load_tile(&b.into()));
        let product = r.multiply(a, b, contract, [out.rows.len, out.columns.len]);
        self.accumulate(&out, product, accumulate);
    }

    fn element_wise(&self, out: impl Into<Tile<Scalar<'r>>>, value: Expr<Leaf<Scalar<'r>>>) {
        let out = out.into();
        let form = Form::Tile([out.rows.len, out.columns.len]);
        self.0.store_tile(&out, self.0.evaluate(&value, form));
    }

    fn row_wise(&self, out: impl Into<Rows<Scalar<'r>>>, value: Expr<Leaf<Scalar<'r>>>) {
        self.0.store_row_wise(&out.into(), &value);
    }

    fn copy_rows(&self, out: impl Into<Rows<Scalar<'r>>>, rows: impl Into<Rows<Scalar<'r>>>) {
        self.0.store_lanes(&out.into(), self.0.lanes(&rows.into()));
    }

    fn row_sum(
        &self,
        out: impl Into<Rows<Scalar<'r>>>,
        columns: usize,
        value: Expr<Leaf<Scalar<'r>>>,
        accumulate: Accumulate,
    ) {
        let (r, out) = (self.0, out.into());
        let rows = out.span.len;
        let value = r.evaluate(&value, Form::Tile([rows, columns]));
        let sum = r.broadcast(r.reduce(VectorKind::Add, value, 1), &[rows, LANES]);
        let sum = match accumulate {
            Accumulate::Overwrite => sum,
            Accumulate::Add => r.same("arith.addf", &[r.lanes(&out), sum]),
        };
        r.store_lanes(&out, sum);
    }

    fn column_sum(
        &self,
        out: impl Into<Columns<Scalar<'r>>>,
        tile: impl Into<Tile<Scalar<'r>>>,
        accumulate: Accumulate,
    ) {
        let (r, out, tile) = (self.0, out.into(), tile.into());
        for first in (0..tile.columns.len).step_by(SUM_COLUMNS) {
            let width = SUM_COLUMNS.min(tile.columns.len - first);
            let height = match 1 << (SUM_ELEMENTS / width).ilog2() {
                rows if tile.rows.len.is_multiple_of(rows) => rows,
                _ => tile.rows.len,
            };
            let slices = (0..tile.rows.len).step_by(height).map(|row| {
                r.widen(r.load_tile(&Tile {
                    rows: r.part(&tile.rows, row, height),
                    columns: r.part(&tile.columns, first, width),
                    ..tile
                }))
            });
            let slices = slices.reduce(|sum, slice| r.same("arith.addf", &[sum, slice]));
            let row = Tile {
                buffer: out.buffer,
                rows: Span::all(1),
                columns: r.part(&out.span, first, width),
            };
            if let Some(slices) = slices {
                self.accumulate(&row, r.reduce(VectorKind::Add, slices, 0), accumulate);
            }
        }
    }

    fn reset_logsumexp(&self, stats: impl Into<Stats<Scalar<'r>>>) {
        let stats = stats.into();
        let splat = |value| self.0.splat(value, &[stats.span.len, LANES]);
        // The least finite number: exp(m - m') of a lane that has seen nothing must not be NaN.
        let (max, sum) = (splat(f32::MIN), splat(0.0));
        let moment = Some(sum);
        self.0.store_stats(&stats, Moments { max, sum, moment });
    }

    fn online_logsumexp(
        &self,
        stats: impl Into<Stats<Scalar<'r>>>,
        tile: impl Into<Tile<Scalar<'r>>>,
        scale: f32,
    ) {
        self.fold_logsumexp(&stats.into(), &tile.into(), scale);
    }

    fn start_logsumexp(
        &self,
        stats: impl Into<Stats<Scalar<'r>>>,
        tile: impl Into<Tile<Scalar<'r>>>,
        scale: f32,
    ) {
        let r = self.0;
        self.set_maximum(&stats.into(), &tile.into(), scale, |max, of_tile| {
            // What stands for having seen nothing is the least maximum: relative to -inf an absent element would be
            // NaN.
            let unseen = r.compare_floats("oeq", max, r.splat(f32::MIN, &r.shape(max)));
            r.select(unseen, r.same("arith.maximumf", &[max, of_tile]), max)
        });
    }

    fn take_maximum(
        &self,
        stats: impl Into<Stats<Scalar<'r>>>,
        tile: impl Into<Tile<Scalar<'r>>>,
        scale: f32,
        condition: Condition,
    ) {
        let r = self.0;
        if let Condition::Known(false) = condition {
            return;
        }
        self.set_maximum(&stats.into(), &tile.into(), scale, |max, of_tile| {
            // A selection, not a branch, which would cut the straight line.
            match condition {
                Condition::Symbol(condition) => r.select(condition, of_tile, max),
                Condition::Known(_) => of_tile,
            }
        });
    }

    fn add_exponentials(
        &self,
        stats: impl Into<Stats<Scalar<'r>>>,
        tile: impl Into<Tile<Scalar<'r>>>,
        scale: f32,
    ) {
        let (r, stats) = (self.0, stats.into());
        let groups = r.lane_groups(r.scaled(r.widen(r.load_tile(&tile.into())), scale));
        if groups.is_empty() {
            return;
        }
        let Moments { max, sum, moment } = r.load_stats(&stats);
        let exp = |z| r.same("math.exp", &[r.same("arith.subf", &[z, max])]);
        let exps = groups.into_iter().map(exp).collect();
        let sum = r.same("arith.addf", &[sum, r.fold("arith.addf", exps)]);
        r.store_stats(&stats, Moments { max, sum, moment });
    }

    fn sums_exceed(
        &self,
        stats: impl Into<Stats<Scalar<'r>>>,
        limit: f32,
        largest: Largest,
    ) -> Condition {
        self.largest_sum_exceeds(&stats.into(), limit, largest)
    }

    fn copy_stats(&self, out: impl Into<Stats<Scalar<'r>>>, stats: impl Into<Stats<Scalar<'r>>>) {
        let values = self.0.load_stats(&stats.into());
        self.0.store_stats(&out.into(), values);
    }

    fn finish_logsumexp(
        &self,
        out: impl Into<Rows<Scalar<'r>>>,
        stats: impl Into<Stats<Scalar<'r>>>,
    ) {
        let r = self.0;
        let Moments { max, sum, .. } = r.row_stats(&stats.into());
        let lse = r.same("arith.addf", &[max, r.same("math.log", &[sum])]);
        r.store_lanes(&out.into(), lse);
    }

    fn finish_entropy(
        &self,
        out: impl Into<Rows<Scalar<'r>>>,
        stats: impl Into<Stats<Scalar<'r>>>,
    ) {
        let r = self.0;
        let Moments { sum, moment, .. } = r.row_stats(&stats.into());
        let moment = moment.expect("the statistics were declared with an entropy");
        let mean = r.same("arith.divf", &[moment, sum]);
        let entropy = r.same("arith.subf", &[r.same("math.log", &[sum]), mean]);
        r.store_lanes(&out.into(), entropy);
    }

    /// Each lane keeps the logit of its own column: two operations for each register of the tile, and no value moves
    /// between lanes until [`TileOps::finish_one_hot`].
    fn one_hot_select(
        &self,
        out: impl Into<Rows<Scalar<'r>>>,
        tile: impl Into<Tile<Scalar<'r>>>,
        labels: impl Into<Rows<Scalar<'r>>>,
        first_column: Scalar<'r>,
    ) {
        let (r, out) = (self.0, out.into());
        let picks = self.picks(tile.into(), labels.into(), first_column);
        let picked = picks.fold(r.lanes(&out), |picked, (hit, z)| r.select(hit, z, picked));
        r.store_lanes(&out, picked);
    }

    fn one_hot_store(
        &self,
        out: impl Into<Rows<Scalar<'r>>>,
        tile: impl Into<Tile<Scalar<'r>>>,
        labels: impl Into<Rows<Scalar<'r>>>,
        first_column: Scalar<'r>,
    ) {
        let (r, out) = (self.0, out.into());
        self.picks(tile.into(), labels.into(), first_column)
            .for_each(|(hit, z)| r.store_lanes_where(&out, z, hit));
    }

    fn finish_one_hot(&self, out: impl Into<Rows<Scalar<'r>>>) {
        let (r, out) = (self.0, out.into());
        let lanes = r.lanes(&out);
        let picked = r.reduce(VectorKind::Add, lanes, 1);
        r.store_lanes(&out, r.broadcast(picked, &r.shape(lanes)));
    }

    fn softmax_delta(
        &self,
        out: impl Into<Tile<Scalar<'r>>>,
        logits: impl Into<Tile<Scalar<'r>>>,
        delta: Delta<Scalar<'r>>,
    ) {
        self.store_delta(&out.into(), &logits.into(), delta);
    }

    fn mask_columns(&self, tile: impl Into<Tile<Scalar<'r>>>, valid: Scalar<'r>, value: f32) {
        self.mask_tail(&tile.into(), valid, value);
    }

    fn keep_rows(&self, tile: impl Into<Tile<Scalar<'r>>>, first: Scalar<'r>, end: Scalar<'r>) {
        self.mask_outside(&tile.into(), first, end);
    }

    fn mask_rows(&self, tile: impl Into<Tile<Scalar<'r>>>, valid: Scalar<'r>, value: f32) {
        self.mask(&tile.into(), valid, value, 0);
    }

    fn start_copy<const N: usize>(
        &self,
        direction: Direction,
        block: HbmBlock<Scalar<'r>, N>,
        scratch: impl Into<Tile<Scalar<'r>>>,
        semaphore: SemaphoreRef,
    ) {
        self.copy(&Copy {
            operation: "tpu.enqueue_dma",
            direction,
            block,
            scratch: &scratch.into(),
            semaphore,
        });
    }

    fn wait<const N: usize>(
        &self,
        direction: Direction,
        block: HbmBlock<Scalar<'r>, N>,
        scratch: impl Into<Tile<Scalar<'r>>>,
        semaphore: SemaphoreRef,
    ) {
        self.copy(&Copy {
            operation: "tpu.wait_dma",
            direction,
            block,
            scratch: &scratch.into(),
            semaphore,
        });
    }
}
