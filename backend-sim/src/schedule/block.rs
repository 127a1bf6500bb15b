//! One straight-line block: vector operations placed on the units of a core.

use std::rc::Rc;

use super::account::Account;
use super::timeline::{Span, Timeline};
use super::unit::{Machine, Unit};
use super::vector::{Group, Pending, Vector};

/// Slots that one register of the result of an element-wise operation takes.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Cost {
    /// Vector ALU.
    pub valu: f64,
    /// Transcendental unit; each also takes a pop.
    pub eup: f64,
}

impl Cost {
    /// `valu` operations.
    pub const fn valu(valu: f64) -> Self {
        Self { valu, eup: 0.0 }
    }

    /// One transcendental operation and `valu` others.
    pub const fn eup(valu: f64) -> Self {
        Self { valu, eup: 1.0 }
    }
}

/// A block under construction.
#[derive(Debug)]
pub struct Block<'a> {
    /// The core.
    pub machine: &'a Machine,
    /// Slots taken so far.
    pub timeline: Timeline,
    /// Registers held so far.
    pub account: Account,
    /// Entries of the results of the last two products.
    results: Vec<Vec<u32>>,
    /// Its number, by which values of other blocks are told apart.
    pub number: u32,
}

/// What a product does with its operands.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Product {
    /// Rows of the result, columns of the left operand, columns of the result, in elements.
    pub m: usize,
    /// The contraction.
    pub k: usize,
    /// Columns of the result.
    pub n: usize,
    /// Products of bf16 that make up one of the operands' type.
    pub passes: f64,
    /// The left operand is stored transposed.
    pub transpose_lhs: bool,
    /// The right operand is stored transposed.
    pub transpose_rhs: bool,
}

impl<'a> Block<'a> {
    /// An empty block.
    pub fn new(machine: &'a Machine, number: u32) -> Self {
        Self {
            machine,
            timeline: Timeline::new(machine),
            account: Account::default(),
            results: Default::default(),
            number,
        }
    }

    /// When a part of a value is there; what other blocks made is there from the start.
    fn ready(&self, value: &Vector, rows: [usize; 2], columns: [usize; 2]) -> f64 {
        match value.block == self.number {
            true => value.ready_at(rows, columns),
            false => 0.0,
        }
    }

    fn used(&mut self, value: &Vector, group: &Group, span: Span) {
        if value.block != self.number || value.entries.is_empty() {
            return;
        }
        let columns = value.columns.groups();
        for r in value.rows.covering(group.row, group.row + group.rows) {
            for c in (value.columns).covering(group.column, group.column + group.columns) {
                let entry = value.entries[r * columns + c];
                self.account.used(entry, span.start, span.end);
            }
        }
    }

    /// Enters the groups of a new value in the account.
    fn hold(&mut self, value: &mut Vector) {
        self.hold_part(value, 1.0);
    }

    /// The same for a value of which only a part is alive at a time: register by register, the
    /// scheduler lets the next operation follow.
    fn hold_part(&mut self, value: &mut Vector, part: f64) {
        value.block = self.number;
        value.entries = value
            .groups()
            .map(|group| (self.account).born(part * group.registers(), value.ready[group.index]))
            .collect();
    }

    /// Results of a unit that are popped: when they can be used.
    fn pop(&mut self, ready: f64, count: f64) -> f64 {
        self.timeline.take(Unit::Pop, ready, count).end + 1.0
    }

    /// An operation on each register of the result, from the same position of each input.
    pub fn element_wise(&mut self, inputs: &[&Vector], bits: u32, cost: Cost) -> Vector {
        debug_assert!(inputs.iter().all(|v| v.pending.is_none()));
        let most = |f: fn(&Vector) -> usize| inputs.iter().map(|v| f(v)).max().unwrap_or(1);
        let rows = most(|v| v.rows.registers);
        let columns = most(|v| v.columns.registers);
        let mut out = Vector::new(rows, columns, bits, 0.0);
        out.along_lanes = columns == 1 && inputs.iter().all(|v| v.along_lanes);
        for group in out.groups() {
            let ready = inputs
                .iter()
                .map(|v| self.ready(v, group.row_range(), group.column_range()))
                .fold(0.0, f64::max);
            let n = group.registers();
            let mut span = self.timeline.take(Unit::Valu, ready, n * cost.valu);
            let mut done = span.end + self.machine.valu_latency;
            if cost.valu == 0.0 {
                done = ready;
            }
            if cost.eup > 0.0 {
                let eup = self.timeline.take(Unit::Eup, span.start + 1.0, n * cost.eup);
                span.end = span.end.max(eup.end);
                let first = (eup.start + self.machine.eup_latency)
                    .max(eup.end + self.machine.eup_latency - n * cost.eup);
                done = self.pop(first, n * cost.eup).max(eup.end + self.machine.eup_latency);
            }
            out.ready[group.index] = done;
            for input in inputs {
                self.used(input, &group, span);
            }
        }
        self.hold_part(&mut out, self.machine.temporaries);
        out
    }

    /// Registers read from VMEM.
    pub fn load(&mut self, mut out: Vector, pending: Pending) -> Vector {
        out.block = self.number;
        for group in out.groups() {
            self.load_group(&mut out, &group, pending);
        }
        self.enter_loaded(&mut out);
        out
    }

    fn load_group(&mut self, out: &mut Vector, group: &Group, pending: Pending) {
        let n = group.registers();
        let span = (self.timeline).take(Unit::Load, pending.ready, n * pending.loads);
        let mut done = span.end + self.machine.load_latency;
        if pending.valu > 0.0 {
            let start = span.start + self.machine.load_latency;
            let span = self.timeline.take(Unit::Valu, start, n * pending.valu);
            done = done.max(span.end) + self.machine.valu_latency;
        }
        out.ready[group.index] = done;
    }

    fn enter_loaded(&mut self, out: &mut Vector) {
        out.entries = (out.groups())
            .map(|group| self.account.loaded(group.registers()))
            .collect();
    }

    /// Loads the operands of a product that are still in memory: along the contraction, both at once,
    /// for the first columns of the result; then the other columns.
    fn fetch(&mut self, lhs: &mut Vector, rhs: &mut Vector, p: &Product) {
        let along = |v: &Vector, rows: bool, k: usize, of: usize| {
            let extent = if rows { v.rows } else { v.columns };
            let groups = extent.groups();
            (k * groups / of, (k + 1) * groups / of)
        };
        let steps = super::vector::GROUPS;
        let dim = self.machine.target.mxu_dim.value;
        let rhs_first = |v: &Vector, group: &Group| match p.transpose_rhs {
            true => group.row * (8 * 32 / v.bits as usize) < dim,
            false => group.column * 128 < dim,
        };
        let loads = (lhs.pending, rhs.pending);
        for k in 0..steps {
            if let Some(pending) = loads.0 {
                let (from, to) = along(lhs, p.transpose_lhs, k, steps);
                let columns = lhs.columns.groups();
                for group in lhs.groups() {
                    let at = if p.transpose_lhs { group.index / columns } else { group.index % columns };
                    if (from..to).contains(&at) {
                        self.load_group(lhs, &group, pending);
                    }
                }
            }
            if let Some(pending) = loads.1 {
                let (from, to) = along(rhs, !p.transpose_rhs, k, steps);
                let columns = rhs.columns.groups();
                for group in rhs.groups() {
                    let at = if p.transpose_rhs { group.index % columns } else { group.index / columns };
                    if (from..to).contains(&at) && rhs_first(rhs, &group) {
                        self.load_group(rhs, &group, pending);
                    }
                }
            }
        }
        if let Some(pending) = loads.1 {
            for group in rhs.groups() {
                if !rhs_first(rhs, &group) {
                    self.load_group(rhs, &group, pending);
                }
            }
        }
        for v in [lhs, rhs] {
            if v.pending.take().is_some() {
                v.block = self.number;
                self.enter_loaded(v);
            }
        }
    }

    /// Registers written to VMEM: when the last of them is.
    pub fn store(&mut self, value: &Vector, rows: usize, columns: usize, valu: f64) -> f64 {
        let shape = Vector::new(rows, columns, value.bits, 0.0);
        let mut end = 0.0_f64;
        for group in shape.groups() {
            let n = group.registers();
            let mut ready = self.ready(value, group.row_range(), group.column_range());
            if valu > 0.0 {
                ready = self.timeline.take(Unit::Valu, ready, n * valu).end
                    + self.machine.valu_latency;
            }
            let span = self.timeline.take(Unit::Store, ready, n);
            self.used(value, &group, span);
            end = end.max(span.end);
        }
        end
    }

    /// A reduction along lanes: columns are combined first, then each register across its lanes.
    pub fn reduce_lanes(&mut self, input: &Vector, masked: bool) -> Vector {
        let mut out = Vector::new(input.rows.registers, 1, input.bits, 0.0);
        out.along_lanes = true;
        let columns = input.columns.registers;
        let hold = self.machine.target.xlu_hold_cycles.value as f64;
        for group in out.groups() {
            let ready = self.ready(input, group.row_range(), [0, columns]);
            let n = group.registers();
            let combines = (columns - 1) as f64 + if masked { 1.0 } else { 0.0 };
            let valu = self.timeline.take(Unit::Valu, ready, n * combines);
            let depth = (columns as f64).log2().ceil() * self.machine.valu_latency;
            let start = valu.end + depth;
            let across = self.timeline.take(Unit::Xlu, start, n * hold);
            let first = across.start + self.machine.reduce_latency;
            out.ready[group.index] =
                self.pop(first, n).max(across.end + self.machine.reduce_latency);
            let whole = Group {
                column: 0,
                columns,
                ..group
            };
            self.used(input, &whole, valu);
        }
        self.hold(&mut out);
        out
    }

    /// A reduction along sublanes (and leading rows): rows are combined, then the 8 sublanes of what
    /// is left, in 3 rotations. `rows` registers of rows remain.
    pub fn reduce_rows(&mut self, input: &Vector, rows: usize) -> Vector {
        let mut out = Vector::new(rows, input.columns.registers, input.bits, 0.0);
        let per = input.rows.registers.div_ceil(rows);
        for group in out.groups() {
            let from = group.row * per;
            let to = (group.row + group.rows) * per;
            let ready = self.ready(input, [from, to], group.column_range());
            let n = group.registers();
            let span = self.timeline.take(Unit::Valu, ready, n * (per as f64 + 5.0));
            out.ready[group.index] = span.end + 6.0 * self.machine.valu_latency;
            let whole = Group {
                row: from,
                rows: to - from,
                ..group
            };
            self.used(input, &whole, span);
        }
        self.hold(&mut out);
        out
    }

    /// Registers through the cross-lane units, `xlu` operations and `valu` others for each result:
    /// broadcasts along lanes, rotations, relayouts.
    pub fn across(&mut self, input: &Vector, mut out: Vector, xlu: f64, valu: f64) -> Vector {
        let hold = self.machine.target.xlu_hold_cycles.value as f64;
        for group in out.groups() {
            let ready = self.ready(input, group.row_range(), group.column_range());
            let n = group.registers();
            let across = self.timeline.take(Unit::Xlu, ready, n * xlu * hold);
            let first = across.start + self.machine.reduce_latency;
            let popped = self.pop(first, n * xlu).max(across.end + self.machine.reduce_latency);
            let span = self.timeline.take(Unit::Valu, popped, n * valu);
            out.ready[group.index] = span.end;
            self.used(input, &group, across);
        }
        self.hold(&mut out);
        out
    }

    /// The same elements in other registers, `valu` operations for each register of the larger side.
    pub fn regroup(&mut self, input: &Vector, mut out: Vector, valu: f64) -> Vector {
        let scale = |from: usize, to: usize| from as f64 / to as f64;
        let rows = scale(input.rows.registers, out.rows.registers);
        let columns = scale(input.columns.registers, out.columns.registers);
        let more = (rows * columns).max(1.0);
        for group in out.groups() {
            let position = |[a, b]: [usize; 2], scale: f64| {
                [(a as f64 * scale) as usize, (b as f64 * scale).ceil() as usize]
            };
            let from_rows = position(group.row_range(), rows);
            let from_columns = position(group.column_range(), columns);
            let ready = self.ready(input, from_rows, from_columns);
            let n = group.registers() * more * valu;
            let span = self.timeline.take(Unit::Valu, ready, n);
            out.ready[group.index] = if n > 0.0 { span.end + self.machine.valu_latency } else { ready };
            let source = Group {
                index: 0,
                row: from_rows[0],
                rows: from_rows[1] - from_rows[0],
                column: from_columns[0],
                columns: from_columns[1] - from_columns[0],
            };
            self.used(input, &source, span);
        }
        self.hold(&mut out);
        out
    }

    /// `rows` and `columns` (first, number) of the registers of a value.
    pub fn part(&self, input: &Vector, rows: [usize; 2], columns: [usize; 2]) -> Vector {
        let mut out = Vector::new(rows[1], columns[1], input.bits, 0.0);
        out.block = input.block;
        out.along_lanes = input.along_lanes;
        let all = input.columns.groups();
        for group in out.groups() {
            let r = [rows[0] + group.row, rows[0] + group.row + group.rows];
            let c = [columns[0] + group.column, columns[0] + group.column + group.columns];
            out.ready[group.index] = input.ready_at(r, c);
            if !input.entries.is_empty() {
                let r = input.rows.covering(r[0], r[1]).start;
                let c = input.columns.covering(c[0], c[1]).start;
                out.entries.push(input.entries[r * all + c]);
            }
        }
        out
    }

    /// Values one after the other, along columns or rows of registers.
    pub fn join(&mut self, inputs: &[Rc<Vector>], mut out: Vector, along_columns: bool) -> Vector {
        out.block = self.number;
        let size = |v: &Vector| match along_columns {
            true => v.columns.registers,
            false => v.rows.registers,
        };
        let whole = match along_columns {
            true => out.columns.registers,
            false => out.rows.registers,
        };
        let each = whole.div_ceil(inputs.len().max(1));
        for group in out.groups() {
            let (from, to) = match along_columns {
                true => (group.column, group.column + group.columns),
                false => (group.row, group.row + group.rows),
            };
            let mut ready = 0.0_f64;
            let mut entry = None;
            for (i, input) in inputs.iter().enumerate() {
                let (a, b) = (from.max(i * each), to.min((i + 1) * each));
                if a >= b {
                    continue;
                }
                let local = [(a - i * each).min(size(input) - 1), (b - i * each).min(size(input))];
                let (rows, columns) = match along_columns {
                    true => (group.row_range(), local),
                    false => (local, group.column_range()),
                };
                ready = ready.max(self.ready(input, rows, columns));
                if input.block == self.number && !input.entries.is_empty() {
                    let r = input.rows.covering(rows[0], rows[1]).start;
                    let c = input.columns.covering(columns[0], columns[1]).start;
                    entry = Some(input.entries[r * input.columns.groups() + c]);
                }
            }
            out.ready[group.index] = ready;
            let entry = entry.unwrap_or_else(|| self.account.born(0.0, ready));
            out.entries.push(entry);
        }
        out
    }

    /// A transposition: every register enters a cross-lane unit, every result is popped from it.
    pub fn transpose(&mut self, input: &Vector, rows: usize, columns: usize, packed: f64) -> Vector {
        let mut out = Vector::new(rows, columns, input.bits, 0.0);
        let hold = self.machine.target.xlu_hold_cycles.value as f64;
        let ready = match input.block == self.number {
            true => input.all_ready(),
            false => 0.0,
        };
        let total = out.registers() as f64;
        let per_group: f64 = hold * packed;
        for group in out.groups() {
            let n = group.registers();
            let across = self.timeline.take(Unit::Xlu, ready, n * per_group);
            let first = across.end + self.machine.transpose_latency;
            out.ready[group.index] = self.pop(first, n);
        }
        let _ = total;
        let span = Span {
            start: ready,
            end: out.all_ready(),
        };
        for group in input.groups() {
            self.used(input, &group, span);
        }
        // Rows enter the unit as their results are wanted.
        out.block = self.number;
        self.enter_loaded(&mut out);
        out
    }

    /// A product on the matrix units.
    ///
    /// Columns of weights are pushed and the rows of the left operand streamed past them, one block of
    /// columns and contraction after the other; sums over blocks of the contraction are made by the
    /// vector unit, or by the matrix units themselves.
    pub fn product(&mut self, lhs: &Vector, rhs: &Vector, p: &Product) -> Vector {
        let machine = self.machine;
        let target = machine.target;
        let dim = target.mxu_dim.value;
        let (k_tiles, n_tiles) = (p.k.div_ceil(dim), p.n.div_ceil(dim));
        let bf16 = lhs.bits == 16;
        let (rows_per_op, hold) = match bf16 {
            true => (16, target.vmatmul_bf16_cycles.value as f64),
            false => (8, target.vmatmul_f32_cycles.value as f64),
        };
        // A unit of 256 x 256 takes two groups of rows at once where half of each of its sides is free.
        let half = dim > 128 && p.k <= 128 && p.n <= 128;
        let rows_per_op = if half { 2 * rows_per_op } else { rows_per_op };
        let stream = p.m.div_ceil(rows_per_op) as f64 * hold;
        let packed_weights = rhs.bits == 16 || (p.passes == 1.0 && machine.packs_weights());
        let (push_rows, push) = match packed_weights {
            true => (16, target.matpush_bf16_cycles.value as f64),
            false => (8, target.matpush_f32_cycles.value as f64),
        };
        // Weights are pushed in squares of 128 x 128.
        let transposed = if p.transpose_rhs { machine.transposed_push() } else { 1.0 };
        let lane_tiles = dim / 128;
        let push = 128_usize.div_ceil(push_rows) as f64 * push * transposed / lane_tiles as f64;
        let squares = p.k.div_ceil(128) as f64;
        let (mut lhs, mut rhs) = (lhs.clone(), rhs.clone());
        let from_memory = lhs.pending.filter(|_| !p.transpose_lhs && p.passes == 1.0);
        self.fetch(&mut lhs, &mut rhs, p);
        let (lhs, rhs) = (&lhs, &rhs);
        // A left operand that is a plain load is loaded again for other columns; one that took work
        // stays in registers.
        let kept = from_memory.is_none()
            || machine.keeps_lhs(bf16, p.k, p.transpose_rhs);
        // Operands that are rounded or split on their way: for each pass beyond the first, both.
        let exact = p.passes > 1.0;
        let lhs_ready = match (p.transpose_lhs, exact) {
            (true, _) => {
                // f32 operands of a single pass are packed first.
                let packed = match (bf16, exact, machine.new_units()) {
                    (true, _, false) | (false, false, true) => 0.5,
                    (false, false, false) => machine.packed_transposes(),
                    _ => 1.0,
                };
                Some(self.transpose(
                    lhs,
                    lhs.columns.registers * 128 / (8 * 32 / lhs.bits as usize),
                    (lhs.rows.registers * (8 * 32 / lhs.bits as usize)).div_ceil(128),
                    packed,
                ))
            }
            _ => None,
        };
        let lhs = lhs_ready.as_ref().unwrap_or(lhs);
        let split = if exact { 5.5 } else { 0.0 };
        let mut parts = Vec::new();
        let lhs_split = exact.then(|| self.element_wise(&[lhs], lhs.bits, Cost::valu(split)));
        if let Some(split) = &lhs_split {
            let more = machine.split_registers() - 1.0;
            for group in split.groups() {
                let part = self.account.born(more * group.registers(), split.ready[group.index]);
                self.account.used(part, split.ready[group.index], split.ready[group.index]);
                parts.push(part);
            }
        }
        let rhs_split = exact.then(|| self.element_wise(&[rhs], rhs.bits, Cost::valu(split)));
        let (lhs, rhs) = (
            lhs_split.as_ref().unwrap_or(lhs),
            rhs_split.as_ref().unwrap_or(rhs),
        );
        let mut out = Vector::new(p.m.div_ceil(8), p.n.div_ceil(128), 32, 0.0);
        out.columns = out.columns.coarser(lane_tiles);
        out.ready = vec![0.0; out.rows.groups() * out.columns.groups()];
        let units = machine.slots_per_cycle[Unit::Mxu as usize];
        // With fewer blocks of weights than units, rows are dealt to units that hold the same.
        let copies = (units / (k_tiles as f64 * n_tiles as f64 * p.passes)).max(1.0);
        let sums = match machine.accumulates() {
            true => 0.0,
            false => p.passes * k_tiles as f64 - 1.0,
        };
        let pops = match machine.accumulates() {
            true => 1.0,
            false if lane_tiles > 1 && p.n <= 128 && p.k > 128 => 2.0 * p.passes * k_tiles as f64,
            false => p.passes * k_tiles as f64,
        };
        // Sums over blocks of the contraction that do not fit the units at once wait for the next round.
        let rounds = (k_tiles as f64 * p.passes / units).ceil();
        let waits = rounds > 1.0 && !machine.accumulates();
        let ahead: usize = std::env::var("AHEAD").map_or(4, |v| v.parse().unwrap());
        let room = match self.results.len().checked_sub(ahead) {
            Some(i) => self.account.dead(&self.results[i]),
            None => 0.0,
        };
        let column_groups = out.columns.groups();
        for c in 0..column_groups {
            let first = c * out.columns.step;
            let size = out.columns.size(c);
            let weights = match p.transpose_rhs {
                false => self.ready(rhs, [0, 1], [first, first + size]),
                true => {
                    let per = 8 * 32 / rhs.bits as usize;
                    let (a, b) = (first * 128 / per, (first + size) * 128 / per);
                    self.ready(rhs, [a, b], [0, 1])
                }
            };
            let blocks = (size.div_ceil(lane_tiles) * k_tiles) as f64 * p.passes;
            let pushed = (self.timeline).take(Unit::Push, weights, squares * size as f64 * p.passes * copies * push);
            // Results wait in registers, so products do not run far ahead of what reads them.
            let start = (pushed.start + push * (lane_tiles * lane_tiles) as f64).max(room);
            if let Some(pending) = from_memory.filter(|_| !kept && c > 0 && !machine.accumulates()) {
                let again = lhs.registers() as f64 * pending.loads * size.div_ceil(lane_tiles) as f64;
                self.timeline.take(Unit::Load, pending.ready, again);
            }
            let mut began = f64::INFINITY;
            let mut ended = 0.0_f64;
            for r in 0..out.rows.groups() {
                let index = r * column_groups + c;
                let group = Group {
                    index,
                    row: r * out.rows.step,
                    rows: out.rows.size(r),
                    column: first,
                    columns: size,
                };
                let part = group.rows as f64 / out.rows.registers as f64;
                let [from, to] = group.row_range().map(|row| row * lhs.rows.registers / out.rows.registers);
                let rows = [from, to.max(from + 1)];
                let there = self.ready(lhs, rows, [0, 1]);
                let whole = self.ready(lhs, rows, [0, lhs.columns.registers]);
                let mut span = self.timeline.take(Unit::Mxu, start.max(there), blocks * stream * part);
                span.end = span.end.max(whole);
                let arrives = span.end + machine.matmul_latency;
                let n = group.registers();
                let pop_rate = machine.slots_per_cycle[Unit::Pop as usize];
                let first_pop = (arrives - n * pops / pop_rate).max(span.start + machine.matmul_latency);
                let popped = self.timeline.take(Unit::Pop, first_pop, n * pops);
                let mut ready = popped.end.max(arrives) + 1.0;
                if sums > 0.0 {
                    // All but the last sum are made as results arrive.
                    let valu_rate = machine.slots_per_cycle[Unit::Valu as usize];
                    let first_sum = (ready - n * (sums - 1.0).max(0.0) / valu_rate).max(popped.start);
                    let summed = self.timeline.take(Unit::Valu, first_sum, n * sums);
                    ready = summed.end.max(ready) + machine.valu_latency;
                }
                out.ready[index] = ready;
                let streamed = Group {
                    index: 0,
                    row: rows[0],
                    rows: rows[1] - rows[0],
                    column: 0,
                    columns: lhs.columns.registers,
                };
                began = began.min(span.start);
                ended = ended.max(ready);
                if kept || c == 0 {
                    self.used(lhs, &streamed, span);
                    parts.iter().for_each(|&part| self.account.used(part, span.start, span.end));
                }
            }
            if waits {
                let partial = (out.rows.registers * size.min(lane_tiles)) as f64;
                let entry = self.account.born(partial, began + machine.matmul_latency);
                self.account.used(entry, began + machine.matmul_latency, ended);
            }
        }
        self.hold(&mut out);
        self.results.push(out.entries.clone());
        out
    }
}
