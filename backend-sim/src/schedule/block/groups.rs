//! Groups of registers of a value: when they are there, when they are read, and how long they are held.

use super::super::timeline::Span;
use super::super::unit::Unit;
use super::super::vector::{Fetch, Group, Loads, Vector};
use super::Block;

impl Block<'_> {
    /// When a part of a value is there; what is still in memory is loaded now, and what other blocks made is there from
    /// the start.
    pub(super) fn ready(&mut self, value: &Vector, rows: [usize; 2], columns: [usize; 2]) -> f64 {
        let Some(loads) = &value.loads else {
            if value.block == self.number {
                return value.ready_at(rows, columns);
            }
            self.made_before(value);
            return 0.0;
        };
        let mut loads = loads.borrow_mut();
        if loads.block != self.number {
            loads.block = self.number;
            loads.entries.fill(None);
            loads
                .ready
                .iter_mut()
                .flatten()
                .for_each(|ready| *ready = 0.0);
        }
        let across = value.columns.groups();
        let mut all = 0.0_f64;
        for r in value.rows.covering(rows[0], rows[1]) {
            for c in value.columns.covering(columns[0], columns[1]) {
                let index = r * across + c;
                let registers = (value.rows.size(r) * value.columns.size(c)) as f64;
                if loads.entries[index].is_none() {
                    loads.entries[index] = Some(self.loaded(&loads, registers));
                }
                let fetch = loads.fetch;
                let ready = loads.ready[index].unwrap_or_else(|| self.load(registers, fetch));
                loads.ready[index] = Some(ready);
                all = all.max(ready);
            }
        }
        all
    }

    /// When all of a value is there.
    pub(crate) fn all_ready(&mut self, value: &Vector) -> f64 {
        self.ready(
            value,
            [0, value.rows.registers],
            [0, value.columns.registers],
        )
    }

    /// Loads registers: when they are there.
    pub(super) fn load(&mut self, registers: f64, fetch: Fetch) -> f64 {
        let loads = registers * fetch.loads;
        let taken = self.timeline.take(Unit::Load, fetch.ready, loads);
        let span = match fetch.first {
            // The slots count, whoever has them.
            true => Span {
                start: fetch.ready,
                end: fetch.ready + self.rates.cycles(Unit::Load, loads),
            },
            false => taken,
        };
        let mut done = span.end + self.rates.load_latency;
        if fetch.valu > 0.0 {
            let start = span.start + self.rates.load_latency;
            let span = self
                .timeline
                .take(Unit::Valu, start, registers * fetch.valu);
            done = done.max(span.end) + self.rates.valu_latency;
        }
        done
    }

    /// The entry of so many registers of what is in memory. What was loaded before a branch lives in registers all
    /// through the block behind it, as it was loaded; halves are combined where they are used.
    fn loaded(&mut self, loads: &Loads, registers: f64) -> u32 {
        if loads.home == self.number {
            let entry = self.account.loaded(registers, 1.0);
            if loads.outlasts {
                self.account.outlasts(entry);
            }
            return entry;
        }
        self.living_in += registers * loads.fetch.loads;
        let combined = match loads.fetch.valu > 0.0 {
            true => registers,
            false => 0.0,
        };
        self.account.loaded(combined, 1.0)
    }

    /// A value that an earlier block made is read: it lives in registers all through this one.
    fn made_before(&mut self, value: &Vector) {
        if let Some(&first) = value.entries.first()
            && self.made_before.insert((value.block, first))
        {
            self.living_in += value.registers() as f64;
        }
    }

    /// The entry of a group in the account of this block.
    pub(super) fn entry(&self, value: &Vector, index: usize) -> Option<u32> {
        match &value.loads {
            Some(loads) => {
                let loads = loads.borrow();
                loads.entries[index].filter(|_| loads.block == self.number)
            }
            None if value.block == self.number => value.entries.get(index).copied(),
            None => None,
        }
    }

    /// When a group of a result can be made that has the groups of `value`, if `alike`.
    pub(super) fn group_ready(&mut self, value: &Vector, group: &Group, alike: bool) -> f64 {
        match alike && value.loads.is_none() && value.block == self.number {
            true => value.ready[group.index],
            false => self.ready(value, group.row_range(), group.column_range()),
        }
    }

    /// A group of `value` is read, the one of that number if `alike`.
    pub(super) fn group_used(&mut self, value: &Vector, group: &Group, span: Span, alike: bool) {
        match alike {
            true => {
                if let Some(entry) = self.entry(value, group.index) {
                    self.account.used(entry, span.start, span.end);
                }
            }
            false => self.used(value, group.row_range(), group.column_range(), span),
        }
    }

    pub(super) fn used(
        &mut self,
        value: &Vector,
        rows: [usize; 2],
        columns: [usize; 2],
        span: Span,
    ) {
        let all = value.columns.groups();
        for r in value.rows.covering(rows[0], rows[1]) {
            for c in value.columns.covering(columns[0], columns[1]) {
                if let Some(entry) = self.entry(value, r * all + c) {
                    self.account.used(entry, span.start, span.end);
                }
            }
        }
    }

    /// Enters the groups of a new value in the account.
    pub(super) fn hold(&mut self, value: &mut Vector) {
        self.hold_part(value, 1.0);
    }

    /// The same for what is there just before its first use: it waits in the unit that made it until it is popped, or
    /// is made late.
    pub(super) fn hold_from_use(&mut self, value: &mut Vector, part: f64) {
        value.block = self.number;
        value.entries = (value.groups())
            .map(|group| self.account.loaded(group.registers(), part))
            .collect();
    }

    /// All of a value that was just made is held, from its first use to its last: it waits for its maximum.
    pub(crate) fn hold_whole(&mut self, value: &Vector) {
        self.needs_results = true;
        for entry in self.all_entries(value) {
            self.account.held_whole(entry);
        }
    }

    /// A mask that was just computed is computed when it is first used, whatever else could be done earlier: there are
    /// few registers for masks.
    pub(crate) fn made_when_used(&mut self, value: &Vector) {
        for entry in self.all_entries(value) {
            self.account.made_when_used(entry);
        }
    }

    /// Enters the groups of a value of which only a part is alive at a time: register by register, the
    /// scheduler lets the next operation follow.
    pub(super) fn hold_part(&mut self, value: &mut Vector, part: f64) {
        value.block = self.number;
        value.entries = value
            .groups()
            .map(|group| (self.account).born(group.registers(), part, value.ready[group.index]))
            .collect();
    }

    /// A wider value is made of these registers of `value`.
    pub(super) fn spread(&mut self, value: &Vector, rows: [usize; 2], columns: [usize; 2]) {
        let all = value.columns.groups();
        for r in value.rows.covering(rows[0], rows[1]) {
            for c in value.columns.covering(columns[0], columns[1]) {
                if let Some(entry) = self.entry(value, r * all + c) {
                    self.account.spread(entry);
                }
            }
        }
    }

    /// When the last of these rows of registers of a value is read, as far as is known; 0 if the block did not make it.
    pub(crate) fn last_read(&self, value: &Vector, rows: [usize; 2]) -> f64 {
        self.account.dead(&self.entries(value, rows))
    }

    /// Rows of registers of a value are held until then.
    pub(crate) fn held_until(&mut self, value: &Vector, rows: [usize; 2], until: f64) {
        for entry in self.entries(value, rows) {
            self.account.used(entry, until, until);
        }
    }

    /// Rows of registers of a value are made no sooner than then.
    pub(crate) fn made_at(&mut self, value: &Vector, rows: [usize; 2], at: f64) {
        for entry in self.entries(value, rows) {
            self.account.made_at(entry, at);
        }
    }

    /// The entries of a value in the account of this block.
    pub(super) fn all_entries(&self, value: &Vector) -> Vec<u32> {
        self.entries(value, [0, value.rows.registers])
    }

    /// The same of rows of registers of it.
    pub(super) fn entries(&self, value: &Vector, [first, end]: [usize; 2]) -> Vec<u32> {
        let columns = value.columns.groups();
        let groups = value
            .rows
            .covering(first, end)
            .flat_map(|r| (0..columns).map(move |c| r * columns + c));
        groups
            .filter_map(|group| self.entry(value, group))
            .collect()
    }
}
