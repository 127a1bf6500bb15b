//! Statistics that are transposed in the block that works off a product.
//!
//! A delta of all hidden columns at once takes what it scales rows by, their logarithms and their labels as rows, and
//! transposes them to columns in the same block: first all that stays in place of a scratch, then for each sub-tile
//! logarithms and labels. The cross-lane units are what takes long, and until the first labels come all else waits: the
//! statistics before, sums of them that tell which rows are to be zero, and what the transcendental unit has made of
//! scores in the meantime. The model, which places one operation after the other for all its registers, cannot tell how
//! much that is; it is counted here, by deltas that were compiled for it.

use tilecast_core::target::Generation;

use super::super::unit::Unit;
use super::super::vector::{Transposed, Vector};
use super::Block;

/// Registers that wait for the labels of the first sub-tile. Fitted to 464 deltas of 128 to 1024 rows, all of whose
/// hidden columns are one block, with none of the types, blocks and options of a held-out point.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// For each register of a column of statistics: sums, and logarithms that are still read.
    of_rows: f64,
    /// Of what the transcendental unit has made, less what labels come before.
    part: f64,
    before: f64,
    /// No more than these, and so much for each register of a column of statistics and of what was made.
    least: f64,
    each: f64,
    rest: f64,
    /// What the assignment of registers takes.
    assigned: f64,
    /// Weight of what the schedule holds. On v5, whose cross-lane units have labels nearly as soon as logarithms, the
    /// mean of both is nearer than either.
    by_schedule: f64,
}

impl Waiting {
    fn of(generation: Generation) -> Self {
        match generation {
            Generation::V4 => Self {
                of_rows: 1.31,
                part: 1.28,
                before: 40.0,
                least: 37.0,
                each: 3.6,
                rest: 0.0,
                assigned: 21.0,
                by_schedule: 0.0,
            },
            Generation::V5e | Generation::V5p => Self {
                of_rows: 0.48,
                part: 2.7,
                before: 95.0,
                least: 92.0,
                each: 0.3,
                rest: 0.0,
                assigned: 13.0,
                by_schedule: 0.5,
            },
            _ => Self {
                of_rows: 1.5,
                part: 0.84,
                before: 0.0,
                least: 38.0,
                each: 1.0,
                rest: 0.3,
                assigned: 13.0,
                by_schedule: 0.0,
            },
        }
    }

    /// Beside `kept` statistics, of which a column has `rows` registers, when `made` are results of the transcendental
    /// unit.
    fn registers(&self, kept: f64, rows: f64, made: f64) -> f64 {
        let most = self.least + self.each * rows.min(MOST_ROWS) + self.rest * made;
        let waiting = (self.part * made - self.before).min(most).max(0.0);
        kept + self.of_rows * rows + waiting + self.assigned
    }
}

/// Registers of a column of statistics beyond which no more waits.
const MOST_ROWS: f64 = 64.0;

/// What a block has transposed so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Statistics {
    /// Transpositions.
    count: u32,
    /// Registers that are kept instead of a scratch, and the most of one value.
    kept: f64,
    rows: f64,
    /// Results of the transcendental unit when what is made of scores first met a later statistic.
    made: Option<f64>,
}

impl Statistics {
    /// Whether anything was transposed.
    pub(super) fn transposes(&self) -> bool {
        self.count > 0
    }

    /// Another transposition.
    pub(super) fn transposed(&mut self) -> Transposed {
        self.count += 1;
        Transposed {
            last: self.count,
            alone: true,
        }
    }
}

impl Block<'_> {
    /// What a value that is made of these has of transpositions in this block.
    pub(super) fn of_transposed<'v>(
        &self,
        inputs: impl IntoIterator<Item = &'v Vector, IntoIter: Clone>,
    ) -> Option<Transposed> {
        let mut inputs = inputs.into_iter();
        let last = inputs.clone().filter_map(|input| self.own(input));
        let last = last.map(|part| part.last).max()?;
        let alone = inputs.all(|input| {
            let is_constant = input.entries.is_empty() && input.loads.is_none();
            is_constant || self.own(input).is_some_and(|part| part.alone)
        });
        Some(Transposed { last, alone })
    }

    fn own(&self, value: &Vector) -> Option<Transposed> {
        value.transposed.filter(|_| value.block == self.number)
    }

    /// The same of the result of an operation, for which one of these may have waited.
    pub(super) fn meets(&mut self, inputs: &[&Vector]) -> Option<Transposed> {
        let out = self.of_transposed(inputs.iter().copied())?;
        let waits = |part: Transposed| !part.alone && part.last < out.last;
        let waited = inputs.iter().filter_map(|input| self.own(input)).any(waits);
        if waited && self.statistics.made.is_none() {
            self.statistics.made = Some(self.timeline.taken(Unit::Eup));
        }
        Some(out)
    }

    /// The value stays in registers instead of a scratch.
    pub(super) fn keeps_statistics(&mut self, value: &Vector) {
        if self.own(value).is_some_and(|part| part.alone) {
            let registers = value.registers() as f64;
            self.statistics.kept += registers;
            self.statistics.rows = self.statistics.rows.max(registers);
        }
    }

    /// Whether statistics are kept in registers instead of a scratch, and registers of a column of them.
    pub(super) fn kept_rows(&self) -> Option<f64> {
        Some(self.statistics.rows).filter(|_| self.statistics.kept > 0.0)
    }

    /// Most registers that hold values at once where labels are waited for; `peak` by the schedule.
    pub(super) fn registers_of_statistics(&self, peak: f64) -> Option<f64> {
        let Statistics {
            kept, rows, made, ..
        } = self.statistics;
        let made = made.filter(|_| kept > 0.0)?;
        let waiting = Waiting::of(self.machine.target.generation);
        let registers = waiting.registers(kept, rows, made);
        Some((1.0 - waiting.by_schedule) * registers + waiting.by_schedule * peak)
    }
}
