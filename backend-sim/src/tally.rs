//! [`step`]: executes a kernel body at one grid step, without data, and counts its work.
//!
//! The third implementer of [`TileOps`], beside one that computes and one that records. Grid indices
//! and scalars are plain numbers here, so a condition is decided and only the code that runs is
//! counted. The body of a [`TileOps::when`] is a region of its own: on a TPU it is predicated code
//! with a branch around it, and the scheduler does not move work across. Everything between two such
//! bodies is one straight-line region, fully unrolled loops included.

mod expression;

use std::cell::RefCell;

use tilecast_core::DType;
use tilecast_core::expr::{Binary, Expr, Leaf};
use tilecast_core::ops::{Accumulate, Contract, Delta, Direction, OneHot, TileOps, Unroll};
use tilecast_core::program::Kernel;
use tilecast_core::spec::{AxisId, Buffer, KernelSpec, Layout};
use tilecast_core::target::Target;
use tilecast_core::view::{
    BufferId, Columns, HbmBlock, Rows, ScalarsRef, SemaphoreRef, Stats, Tile,
};

use crate::cost::{
    ACROSS_LANES, EXP, PASS_LATENCY_CYCLES, binary, load, product_cycles, product_latency_cycles,
    product_result, store, valu,
};
use crate::work::{Cycles, Region, Work};
use expression::Registers;

/// What one grid step does.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct StepWork {
    /// Operations per unit.
    pub work: Work,
    /// Cycles of its regions, one after the other.
    pub cycles: Cycles,
}

/// The work of `kernel` at grid index `at`, with `scalars` for its scalar operands.
pub fn step(kernel: &impl Kernel, target: &Target, at: &[i64], scalars: &[i64]) -> StepWork {
    let tally = Tally {
        spec: kernel.spec(),
        target,
        at,
        scalars,
        state: RefCell::default(),
    };
    kernel.body(&tally);
    let mut state = tally.state.into_inner();
    state.end_region(target);
    state.done
}

struct Tally<'a> {
    spec: &'a KernelSpec,
    target: &'a Target,
    at: &'a [i64],
    scalars: &'a [i64],
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    /// Regions that have ended.
    done: StepWork,
    /// The region that more work is added to.
    region: Region,
    /// Conditions met so far.
    conditions: u64,
}

impl State {
    fn end_region(&mut self, target: &Target) {
        let region = std::mem::take(&mut self.region);
        self.done.cycles.add(&region.cycles(target), 1.0);
        self.done.work.add(&region.work, 1.0);
    }
}

impl Tally<'_> {
    fn registers(&self, rows: usize, columns: usize) -> Registers {
        Registers {
            rows: rows.div_ceil(self.target.sublanes.value) as f64,
            columns: columns.div_ceil(self.target.lanes.value) as f64,
        }
    }

    fn tile(&self, tile: &Tile<i64>) -> Registers {
        self.registers(tile.rows.len, tile.columns.len)
    }

    fn dtype(&self, buffer: BufferId) -> DType {
        match &self.spec.buffers()[buffer.index()].buffer {
            Buffer::Window { operand, .. } | Buffer::Hbm { operand } => operand.dtype,
            Buffer::Scratch { dtype, .. } => *dtype,
            Buffer::Stats { .. } | Buffer::Semaphore => DType::F32,
        }
    }

    /// Reads or writes one value for each of 8 rows. A window holds them along the lanes of a single
    /// row, so that they cross lanes; scratch holds each across all lanes.
    fn per_row(&self, buffer: BufferId, scratch: Work) -> Work {
        match &self.spec.buffers()[buffer.index()].buffer {
            Buffer::Window {
                layout: Layout::Rows,
                ..
            } => ACROSS_LANES,
            _ => scratch,
        }
    }

    fn read_rows(&self, rows: &Rows<i64>) -> Work {
        self.per_row(rows.buffer, load(DType::F32))
    }

    fn write_rows(&self, rows: &Rows<i64>) -> Work {
        self.per_row(rows.buffer, store(DType::F32))
    }

    /// Adds a pass over vectors to the region.
    fn pass(&self, parts: &[(Work, f64)]) {
        let mut work = Work::default();
        for (part, times) in parts {
            work.add(part, *times);
        }
        let region = &mut self.state.borrow_mut().region;
        region.work.add(&work, 1.0);
        region.passes_cycles += work.cycles(self.target).vector();
        region.pass_latency_cycles += PASS_LATENCY_CYCLES;
    }

    /// Vectors of one value per row that statistics consist of.
    fn values_per_row(&self, stats: &Stats<i64>) -> f64 {
        let buffer = &self.spec.buffers()[stats.buffer.index()].buffer;
        buffer.values_per_row() as f64
    }

    /// Overwrites part of a tile: position compared, value selected.
    fn select_part(&self, tile: &Tile<i64>) {
        let dtype = self.dtype(tile.buffer);
        let registers = self.tile(tile).full();
        self.pass(&[
            (load(dtype), registers),
            (valu(2.0), registers),
            (store(dtype), registers),
        ]);
    }
}

impl TileOps for Tally<'_> {
    type Index = i64;
    type Condition = bool;

    fn program_id(&self, axis: AxisId) -> i64 {
        self.at[axis.index()]
    }

    fn num_programs(&self, axis: AxisId) -> i64 {
        self.spec.grid()[axis.index()].size as i64
    }

    fn index(&self, value: i64) -> i64 {
        value
    }

    fn scalar(&self, scalars: ScalarsRef, index: usize) -> i64 {
        self.scalars[self.spec.scalar_position(scalars, index)]
    }

    fn equals(&self, a: i64, b: i64) -> bool {
        a == b
    }

    fn less_than(&self, a: i64, b: i64) -> bool {
        a < b
    }

    fn and(&self, a: bool, b: bool) -> bool {
        a && b
    }

    fn when(&self, condition: bool, body: impl FnOnce()) {
        self.state.borrow_mut().conditions += 1;
        if condition {
            self.state.borrow_mut().end_region(self.target);
            body();
            self.state.borrow_mut().end_region(self.target);
        }
    }

    /// Iterations without conditions do the same work, so one is counted for all.
    fn for_each(&self, count: usize, unroll: Unroll, body: impl Fn(i64)) {
        if count == 0 {
            return;
        }
        if unroll == Unroll::Rolled {
            self.state.borrow_mut().end_region(self.target);
        }
        let (done, region, conditions) = {
            let state = self.state.borrow();
            (state.done, state.region, state.conditions)
        };
        let iteration = |i| {
            body(i);
            if unroll == Unroll::Rolled {
                self.state.borrow_mut().end_region(self.target);
            }
        };
        iteration(0);
        if self.state.borrow().conditions != conditions {
            return (1..count as i64).for_each(iteration);
        }
        let mut state = self.state.borrow_mut();
        let rest = (count - 1) as f64;
        if unroll == Unroll::Rolled {
            let mut added = state.done;
            added.work.add(&done.work, -1.0);
            added.cycles.add(&done.cycles, -1.0);
            state.done.work.add(&added.work, rest);
            state.done.cycles.add(&added.cycles, rest);
        } else {
            state.region.repeat_since(&region, rest);
        }
    }

    fn matmul(
        &self,
        out: impl Into<Tile<i64>>,
        a: impl Into<Tile<i64>>,
        b: impl Into<Tile<i64>>,
        contract: Contract,
        accumulate: Accumulate,
    ) {
        let (out, a, b) = (out.into(), a.into(), b.into());
        let (m, n) = (out.rows.len, out.columns.len);
        let k = match contract {
            Contract::NN | Contract::NT => a.columns.len,
            Contract::TN => a.rows.len,
        };
        let (a_type, b_type) = (self.dtype(a.buffer), self.dtype(b.buffer));
        let mut work = Work {
            mxu_cycles: product_cycles([m, k, n], [a_type, b_type], self.target),
            loads: self.tile(&a).full() * load(a_type).loads
                + self.tile(&b).full() * load(b_type).loads,
            ..Work::default()
        };
        let result = product_result(k, accumulate == Accumulate::Add, self.target);
        work.add(&result, self.tile(&out).full());
        let region = &mut self.state.borrow_mut().region;
        region.work.add(&work, 1.0);
        region.product_latency_cycles += product_latency_cycles(contract, self.target);
    }

    fn element_wise(&self, out: impl Into<Tile<i64>>, value: Expr<Leaf<i64>>) {
        let out = out.into();
        let over = self.tile(&out);
        let mut work = vec![(store(self.dtype(out.buffer)), over.full())];
        self.expression(&value, over, &mut work);
        self.pass(&work);
    }

    fn row_wise(&self, out: impl Into<Rows<i64>>, value: Expr<Leaf<i64>>) {
        let out = out.into();
        let over = self.registers(out.span.len, 1);
        let mut work = vec![(self.write_rows(&out), over.rows)];
        self.expression(&value, over, &mut work);
        self.pass(&work);
    }

    fn copy_rows(&self, out: impl Into<Rows<i64>>, rows: impl Into<Rows<i64>>) {
        let (out, rows) = (out.into(), rows.into());
        let groups = self.registers(out.span.len, 1).rows;
        self.pass(&[
            (self.read_rows(&rows), groups),
            (self.write_rows(&out), groups),
        ]);
    }

    fn row_sum(
        &self,
        out: impl Into<Rows<i64>>,
        columns: usize,
        value: Expr<Leaf<i64>>,
        accumulate: Accumulate,
    ) {
        let out = out.into();
        let over = self.registers(out.span.len, columns);
        let mut work = vec![
            (valu(1.0), over.full()),
            (ACROSS_LANES, over.rows),
            (self.write_rows(&out), over.rows),
        ];
        if accumulate == Accumulate::Add {
            work.push((self.read_rows(&out), over.rows));
            work.push((valu(1.0), over.rows));
        }
        self.expression(&value, over, &mut work);
        self.pass(&work);
    }

    fn column_sum(
        &self,
        out: impl Into<Columns<i64>>,
        tile: impl Into<Tile<i64>>,
        accumulate: Accumulate,
    ) {
        let (out, tile) = (out.into(), tile.into());
        let over = self.tile(&tile);
        // The 8 sublanes of the last register are added in log2(8) rotations.
        let folds = f64::from(self.target.sublanes.value.ilog2());
        let mut work = vec![
            (load(self.dtype(tile.buffer)), over.full()),
            (valu(1.0), over.full()),
            (valu(2.0 * folds), over.columns),
            (store(self.dtype(out.buffer)), over.columns),
        ];
        if accumulate == Accumulate::Add {
            work.push((load(self.dtype(out.buffer)), over.columns));
            work.push((valu(1.0), over.columns));
        }
        self.pass(&work);
    }

    fn reset_logsumexp(&self, stats: impl Into<Stats<i64>>) {
        let stats = stats.into();
        let groups = self.registers(stats.span.len, 1).rows;
        let values = self.values_per_row(&stats);
        self.pass(&[(store(DType::F32), values * groups)]);
    }

    /// Two passes: the maximum; then exponentials and their sum, and the old sum rescaled. A scale is
    /// one product per register in either. A moment is a maximum, a product and a sum per register
    /// more, and the old one rescaled.
    fn online_logsumexp(
        &self,
        stats: impl Into<Stats<i64>>,
        tile: impl Into<Tile<i64>>,
        scale: f32,
    ) {
        let (stats, tile) = (stats.into(), tile.into());
        let over = self.tile(&tile);
        let mut read = load(self.dtype(tile.buffer));
        if scale != 1.0 {
            read.add(&valu(1.0), 1.0);
        }
        let entropy = self.values_per_row(&stats) > 2.0;
        let moment = if entropy { 1.0 } else { 0.0 };
        self.pass(&[
            (read, over.full()),
            (valu(1.0), over.full()),
            (ACROSS_LANES, over.rows),
            (load(DType::F32), over.rows),
            (valu(1.0), over.rows),
            (store(DType::F32), over.rows),
        ]);
        self.pass(&[
            (read, over.full()),
            (EXP, over.full()),
            (valu(2.0 + 3.0 * moment), over.full()),
            (ACROSS_LANES, (1.0 + moment) * over.rows),
            (EXP, over.rows),
            (load(DType::F32), (1.0 + moment) * over.rows),
            (valu(3.0 + 4.0 * moment), over.rows),
            (store(DType::F32), (1.0 + moment) * over.rows),
        ]);
    }

    fn finish_logsumexp(&self, out: impl Into<Rows<i64>>, stats: impl Into<Stats<i64>>) {
        let (out, stats) = (out.into(), stats.into());
        let groups = self.registers(stats.span.len, 1).rows;
        self.pass(&[
            (load(DType::F32), 2.0 * groups),
            (EXP, groups),
            (valu(1.0), groups),
            (self.write_rows(&out), groups),
        ]);
    }

    fn finish_entropy(&self, out: impl Into<Rows<i64>>, stats: impl Into<Stats<i64>>) {
        let (out, stats) = (out.into(), stats.into());
        let groups = self.registers(stats.span.len, 1).rows;
        self.pass(&[
            (load(DType::F32), 2.0 * groups),
            (EXP, groups),
            (binary(Binary::Div, self.target), groups),
            (valu(1.0), groups),
            (self.write_rows(&out), groups),
        ]);
    }

    /// Two passes: labels spread over lanes; then compared, selected and summed.
    fn one_hot_select(
        &self,
        out: impl Into<Rows<i64>>,
        tile: impl Into<Tile<i64>>,
        labels: impl Into<Rows<i64>>,
        _first_column: i64,
    ) {
        let (out, tile, labels) = (out.into(), tile.into(), labels.into());
        let over = self.tile(&tile);
        self.pass(&[(self.read_rows(&labels), over.rows)]);
        self.pass(&[
            (load(self.dtype(tile.buffer)), over.full()),
            (valu(3.0), over.full()),
            (ACROSS_LANES, over.rows),
            (self.read_rows(&out), over.rows),
            (valu(2.0), over.rows),
            (self.write_rows(&out), over.rows),
        ]);
    }

    /// Two passes: per-row values spread over lanes; then the gradient. Per register: difference,
    /// exponential, product, label compared and selected, difference, and a select that keeps rows
    /// without coefficients 0; 4 more for a soft cap, 3 for an entropy, 1 for smoothing, 1 for a scale,
    /// and 3 fewer without labels.
    fn softmax_delta(
        &self,
        out: impl Into<Tile<i64>>,
        logits: impl Into<Tile<i64>>,
        delta: Delta<i64>,
    ) {
        let (out, logits) = (out.into(), logits.into());
        let over = self.tile(&out);
        let Delta {
            scale,
            lse,
            probability,
            log_probability,
            one_hot,
            uniform,
            soft_cap,
        } = delta;
        let labels = one_hot.map(|OneHot { labels, .. }| labels);
        let label_coefficient = one_hot.map(|OneHot { coefficient, .. }| coefficient);
        let per_row = [
            Some(lse),
            Some(probability),
            log_probability,
            label_coefficient,
            labels,
            uniform,
        ];
        let reads: Vec<_> = (per_row.iter().flatten())
            .map(|rows| (self.read_rows(rows), over.rows))
            .collect();
        self.pass(&reads);
        let operations = [
            (uniform.is_some(), 1.0),
            (soft_cap.is_some(), 4.0),
            (log_probability.is_some(), 3.0),
            (one_hot.is_some(), 3.0),
            (scale != 1.0, 1.0),
        ];
        let operations = operations.iter().filter(|(has, _)| *has).map(|(_, n)| n);
        let operations: f64 = operations.sum();
        self.pass(&[
            (load(self.dtype(logits.buffer)), over.full()),
            (EXP, over.full()),
            (valu(3.0 + operations), over.full()),
            (store(self.dtype(out.buffer)), over.full()),
        ]);
    }

    fn mask_columns(&self, tile: impl Into<Tile<i64>>, _valid: i64, _value: f32) {
        self.select_part(&tile.into());
    }

    fn mask_rows(&self, tile: impl Into<Tile<i64>>, _valid: i64, _value: f32) {
        self.select_part(&tile.into());
    }

    fn start_copy<const N: usize>(
        &self,
        direction: Direction,
        block: HbmBlock<i64, N>,
        _scratch: impl Into<Tile<i64>>,
        _semaphore: SemaphoreRef,
    ) {
        let operand = self.spec.buffers()[block.buffer.index()].buffer.operand();
        let bytes = operand.map_or(0, |operand| operand.block_bytes()) as f64;
        let work = Work {
            copied_bytes: bytes,
            copies: match direction {
                Direction::Load => [1.0, 0.0],
                Direction::Store => [0.0, 1.0],
            },
            ..Work::default()
        };
        self.state.borrow_mut().region.work.add(&work, 1.0);
    }

    fn wait<const N: usize>(
        &self,
        _direction: Direction,
        _block: HbmBlock<i64, N>,
        _scratch: impl Into<Tile<i64>>,
        _semaphore: SemaphoreRef,
    ) {
    }
}

#[cfg(test)]
mod tests;
