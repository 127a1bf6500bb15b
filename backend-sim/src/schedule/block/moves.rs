//! Reductions, relayouts and transpositions.

use std::rc::Rc;

use super::super::timeline::Span;
use super::super::unit::Unit;
use super::super::vector::{Fetch, Group, Vector};
use super::Block;

/// Cycles from a vector operation to the next of a chain of them.
const DEPENDENT: f64 = 2.0;

/// Registers of a row that are one in memory.
const ROW: usize = 8;

impl Block<'_> {
    /// A reduction along lanes, to the maximum of what waits for it or to anything else: columns are combined first, then
    /// each register across its lanes.
    pub(crate) fn reduce_lanes(&mut self, input: &Vector, masked: bool, maximum: bool) -> Vector {
        let mut out = Vector::new(input.rows.registers, 1, input.bits, 0.0);
        out.along_lanes = true;
        let columns = input.columns.registers;
        let (from, waits) = self.reduces(columns, maximum);
        let hold = self.machine.target.xlu_hold_cycles.value as f64;
        let depth = (columns as f64).log2().ceil() * self.rates.valu_latency;
        for group in out.groups() {
            let n = group.registers();
            let mut start = 0.0_f64;
            for c in 0..input.columns.groups() {
                let part = Group {
                    column: c * input.columns.step,
                    columns: input.columns.size(c),
                    ..group
                };
                let first = c == 0 && !masked;
                let combines = part.columns - usize::from(first);
                start = start.max(self.combine(input, &part, n * combines as f64).end);
            }
            let across = (self.timeline).take(Unit::Xlu, (start + depth).max(from), n * hold);
            self.reduced_until = self.reduced_until.max(across.end);
            if columns > 1 || masked || waits {
                // What columns were combined to waits whole until a unit takes it.
                self.account.held(n, [start, across.end]);
            }
            let first = across.start + self.machine.reduce_latency;
            out.ready[group.index] = self
                .pop(first, n)
                .max(across.end + self.machine.reduce_latency);
        }
        self.hold(&mut out);
        out
    }

    /// A reduction along sublanes (and leading rows): rows are combined, then the 8 sublanes of what
    /// is left, in 3 rotations. `rows` registers of rows remain.
    pub(crate) fn reduce_rows(&mut self, input: &Vector, rows: usize) -> Vector {
        let mut out = Vector::new(rows, input.columns.registers, input.bits, 0.0);
        let per = input.rows.registers.div_ceil(rows);
        // Rows are added in the order in which they come, all columns at once. Each sum is a chain.
        let mut begun = vec![f64::INFINITY; out.ready.len()];
        for r in 0..input.rows.groups() {
            let (from, to) = (
                r * input.rows.step,
                r * input.rows.step + input.rows.size(r),
            );
            for group in out.groups() {
                let [first, last] = group.row_range().map(|row| row * per);
                let (row, end) = (from.max(first), to.min(last));
                if row >= end {
                    continue;
                }
                let part = Group {
                    row,
                    rows: end - row,
                    ..group
                };
                let there = self.ready(input, part.row_range(), part.column_range());
                begun[group.index] = begun[group.index].min(there);
                let span = self.combine(input, &part, part.registers());
                out.ready[group.index] = out.ready[group.index].max(span.end);
            }
        }
        for group in out.groups() {
            let chain = begun[group.index] + DEPENDENT * per as f64;
            let ready = out.ready[group.index].max(chain);
            let n = group.registers();
            let span = self.timeline.take(Unit::Valu, ready, n * 5.0);
            out.ready[group.index] = span.end.max(ready + 6.0 * DEPENDENT);
        }
        self.hold(&mut out);
        out
    }

    /// A reduction to one element: registers are combined first, then the lanes of what is left, then its 8 sublanes,
    /// in 3 rotations.
    pub(crate) fn reduce_all(&mut self, input: &Vector, masked: bool) -> Vector {
        let mut out = Vector::new(1, 1, input.bits, 0.0);
        out.along_lanes = true;
        let mut combined = 0.0_f64;
        for group in input.groups() {
            let first = group.index == 0 && !masked;
            let span = self.combine(
                input,
                &group,
                group.registers() - f64::from(u8::from(first)),
            );
            combined = combined.max(span.end);
        }
        let depth = (input.registers() as f64).log2().ceil() * self.rates.valu_latency;
        let hold = self.machine.target.xlu_hold_cycles.value as f64;
        let across = self.timeline.take(Unit::Xlu, combined + depth, hold);
        let popped = self.pop(across.start + self.machine.reduce_latency, 1.0);
        let span = self.timeline.take(Unit::Valu, popped, 6.0);
        out.ready[0] = span.end.max(popped + 6.0 * DEPENDENT);
        self.hold(&mut out);
        out
    }

    /// `valu` operations on a group of registers that are combined with others.
    fn combine(&mut self, input: &Vector, part: &Group, valu: f64) -> Span {
        let ready = self.ready(input, part.row_range(), part.column_range());
        let span = self.timeline.take(Unit::Valu, ready, valu);
        self.used(input, part.row_range(), part.column_range(), span);
        span
    }

    /// A transposition: every register enters a cross-lane unit, `packed` times and none before `start`, and every
    /// result is popped from it.
    pub(crate) fn transpose(
        &mut self,
        input: &Vector,
        rows: usize,
        columns: usize,
        packed: f64,
        start: f64,
    ) -> Vector {
        let mut out = Vector::new(rows, columns, input.bits, 0.0);
        // Eight rows enter, one to a cycle; other operations may hold the unit longer.
        let hold = (self.machine.target.xlu_hold_cycles.value as f64).min(8.0);
        // Rows of elements of a register, against its 128 columns.
        let per = 8 * 32 / input.bits as usize;
        for group in out.groups() {
            let from = |[a, b]: [usize; 2], size: usize, of: usize| {
                [a * size / of, (b * size).div_ceil(of)]
            };
            let source_columns = from(group.row_range(), per, 128);
            let source_rows = from(group.column_range(), 128, per);
            let ready = (self.ready(input, source_rows, source_columns)).max(start);
            let n = group.registers();
            let across = self.timeline.take(Unit::Xlu, ready, n * hold * packed);
            out.ready[group.index] = self.pop(across.end + self.machine.transpose_latency, n);
            // A column of registers enters as a whole, with the first of the rows that it becomes; no register waits
            // for the others.
            if (group.row * per).is_multiple_of(128) {
                self.used(input, source_rows, source_columns, across);
            }
        }
        self.hold_from_use(&mut out, 1.0);
        out.transposed = Some(self.statistics.transposed());
        out
    }

    /// When the cross-lane units have taken all so far, and `more` registers that will be reduced. In a block without
    /// products results of reductions are there, too, where all of them come before the first transposition.
    pub(crate) fn reduced(&self, more: usize) -> f64 {
        let hold = self.machine.target.xlu_hold_cycles.value as f64;
        let more = more as f64 * hold;
        let slots = self.timeline.taken(Unit::Xlu) + more;
        let cycles = |slots| self.rates.cycles(Unit::Xlu, slots);
        let popped = match self.is_plain() && self.reduces_first() {
            true => self.machine.reduce_latency,
            false => 0.0,
        };
        cycles(slots).max(self.reduced_until + cycles(more) + popped)
    }

    /// Registers through the cross-lane units, `xlu` operations and `valu` others for each result:
    /// broadcasts along lanes, rotations, relayouts.
    pub(crate) fn across(
        &mut self,
        input: &Vector,
        mut out: Vector,
        xlu: f64,
        valu: f64,
    ) -> Vector {
        let hold = self.machine.target.xlu_hold_cycles.value as f64;
        for group in out.groups() {
            let ready = self.ready(input, group.row_range(), group.column_range());
            let n = group.registers();
            let across = self.timeline.take(Unit::Xlu, ready, n * xlu * hold);
            let first = across.start + self.machine.reduce_latency;
            let popped = self
                .pop(first, n * xlu)
                .max(across.end + self.machine.reduce_latency);
            let span = self.timeline.take(Unit::Valu, popped, n * valu);
            out.ready[group.index] = span.end;
            self.used(input, group.row_range(), group.column_range(), across);
        }
        self.hold(&mut out);
        out
    }

    /// A row as it is stored: eight registers of it, each of which has its columns in all rows, in one. They are
    /// rotated and selected into their places, two to one, those to one again.
    pub(crate) fn side_by_side(&mut self, input: &Vector) -> Vector {
        let Some(cycles) = self.machine.row_cycles() else {
            return input.clone();
        };
        let columns = input.columns.registers;
        let mut out = Vector::new(1, columns, input.bits, 0.0);
        for first in (0..columns).step_by(ROW) {
            let n = (columns - first).min(ROW);
            let part = [first, first + n];
            let ready = self.ready(input, [0, 1], part);
            let span = (self.timeline).take(Unit::Valu, ready, 2.0 * (n - 1) as f64);
            self.used(input, [0, 1], part, span);
            let steps = (n as f64).log2().ceil();
            let end = span.end.max(ready + steps * cycles);
            for group in out.columns.covering(first, first + n) {
                out.ready[group] = out.ready[group].max(end);
            }
        }
        self.hold_part(&mut out, self.machine.temporaries);
        out
    }

    /// The same elements in other registers, `valu` operations for each register of the larger side;
    /// `part` of them is alive at a time.
    pub(crate) fn regroup(
        &mut self,
        input: &Vector,
        mut out: Vector,
        valu: f64,
        part: f64,
    ) -> Vector {
        let scale = |from: usize, to: usize| from as f64 / to as f64;
        let rows = scale(input.rows.registers, out.rows.registers);
        let columns = scale(input.columns.registers, out.columns.registers);
        let more = (rows * columns).max(1.0);
        out.transposed = self.of_transposed([input]);
        out.late = self.late(&[input]);
        out.made = self.made(&[input], out.registers() as f64 * more * valu);
        for group in out.groups() {
            let position = |[a, b]: [usize; 2], scale: f64| {
                [
                    (a as f64 * scale) as usize,
                    (b as f64 * scale).ceil() as usize,
                ]
            };
            let from_rows = position(group.row_range(), rows);
            let from_columns = position(group.column_range(), columns);
            let ready = self.ready(input, from_rows, from_columns);
            let n = group.registers() * more * valu;
            let span = self.timeline.take(Unit::Valu, ready, n);
            out.ready[group.index] = if n > 0.0 {
                span.end + self.rates.valu_latency
            } else {
                ready
            };
            match out.late {
                Some(_) => self.made_of(group.index, input, from_rows, from_columns),
                None => self.used(input, from_rows, from_columns, span),
            }
        }
        match out.late {
            Some(_) => self.hold_late(&mut out, part),
            None => self.hold_part(&mut out, part),
        }
        out
    }

    /// A value in registers instead of a memory: all of it is held from now on, however it was made.
    pub(crate) fn keep(&mut self, value: &Vector) -> Vector {
        let mut out = value.clone();
        out.late = None;
        if value.loads.is_some() || value.block != self.number {
            return out;
        }
        for group in value.groups() {
            if let Some(entry) = self.entry(value, group.index) {
                let ready = value.ready[group.index];
                self.account.used(entry, ready, ready);
            }
        }
        self.keeps_statistics(value);
        self.hold(&mut out);
        let is_result = |entry: &u32| (self.results.iter()).any(|(_, of)| of.contains(entry));
        if value.entries.first().is_some_and(is_result) {
            self.kept.extend(&out.entries);
        }
        out
    }

    /// A value that is in memory as well: rather than to keep its registers until they are used, the
    /// compiler loads them again.
    pub(crate) fn reload(&mut self, value: &Vector) -> Vector {
        let mut out = value.clone();
        out.rounded = false;
        out.late = None;
        if value.loads.is_some() || value.block != self.number {
            return out;
        }
        for group in value.groups() {
            let ready = value.ready[group.index];
            self.timeline.take(Unit::Load, ready, group.registers());
            if let Some(entry) = self.entry(value, group.index) {
                self.account.used(entry, ready, ready);
            }
        }
        self.hold_from_use(&mut out, self.machine.temporaries);
        out
    }

    /// What is in memory is loaded again from now on: blocks with products do not keep all of it until its maximum is
    /// there.
    pub(crate) fn load_again(&mut self, value: &Vector) {
        if let Some(loads) = value.loads.as_ref().filter(|_| !self.is_plain()) {
            let mut loads = loads.borrow_mut();
            loads.entries.fill(None);
            loads.ready.fill(None);
        }
    }

    /// The same, loaded just before it is used, and before what others wait for.
    pub(crate) fn load_late(&mut self, value: &Vector) -> Vector {
        let fetch = match &value.loads {
            Some(loads) => Fetch {
                first: true,
                ..loads.borrow().fetch
            },
            None => Fetch {
                ready: self.all_ready(value),
                loads: 1.0,
                valu: 0.0,
                first: true,
            },
        };
        let (rows, columns) = (value.rows.registers, value.columns.registers);
        Vector::new(rows, columns, value.bits, 0.0).in_memory(fetch, self.number)
    }

    /// `rows` and `columns` (first, number) of the registers of a value.
    pub(crate) fn part(&mut self, input: &Vector, rows: [usize; 2], columns: [usize; 2]) -> Vector {
        let mut out = Vector::new(rows[1], columns[1], input.bits, 0.0);
        out.block = self.number;
        out.along_lanes = input.along_lanes;
        out.transposed = self.of_transposed([input]);
        out.late = self.late(&[input]);
        let all = input.columns.groups();
        for group in out.groups() {
            let r = [rows[0] + group.row, rows[0] + group.row + group.rows];
            let c = [
                columns[0] + group.column,
                columns[0] + group.column + group.columns,
            ];
            out.ready[group.index] = self.ready(input, r, c);
            let r = input.rows.covering(r[0], r[1]).start;
            let c = input.columns.covering(c[0], c[1]).start;
            let entry = self.entry(input, r * all + c);
            out.entries
                .push(entry.unwrap_or_else(|| self.account.born(0.0, 1.0, 0.0)));
        }
        out
    }

    /// Values one after the other, along columns or rows of registers, each with how many of these it is for.
    pub(crate) fn join(
        &mut self,
        inputs: &[(Rc<Vector>, usize)],
        mut out: Vector,
        along_columns: bool,
    ) -> Vector {
        out.block = self.number;
        out.transposed = self.of_transposed(inputs.iter().map(|(input, _)| &**input));
        out.by_column = inputs.iter().all(|(input, _)| input.by_column);
        let size = |v: &Vector| match along_columns {
            true => v.columns.registers,
            false => v.rows.registers,
        };
        for group in out.groups() {
            let (from, to) = match along_columns {
                true => (group.column, group.column + group.columns),
                false => (group.row, group.row + group.rows),
            };
            let mut ready = 0.0_f64;
            let mut entries = Vec::new();
            let mut end = 0;
            for (input, registers) in inputs {
                let first = end;
                end += registers;
                let (a, b) = (from.max(first), to.min(end));
                if a >= b {
                    continue;
                }
                let local = [
                    (a - first).min(size(input) - 1),
                    (b - first).min(size(input)),
                ];
                let (rows, columns) = match along_columns {
                    true => (group.row_range(), local),
                    false => (local, group.column_range()),
                };
                ready = ready.max(self.ready(input, rows, columns));
                for r in input.rows.covering(rows[0], rows[1]) {
                    for c in input.columns.covering(columns[0], columns[1]) {
                        entries.extend(self.entry(input, r * input.columns.groups() + c));
                    }
                }
            }
            out.ready[group.index] = ready;
            let entry = match entries[..] {
                [] => self.account.born(0.0, 1.0, ready),
                [entry] => entry,
                _ => self.account.joined(entries),
            };
            out.entries.push(entry);
        }
        out
    }
}
