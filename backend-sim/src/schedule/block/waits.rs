//! What waits in registers: what is added to sums in memory, scores that are worked off, selections of labels, results
//! that are packed with those of the next column.

use super::super::unit::Unit;
use super::super::vector::Vector;
use super::Block;

/// Part of scores that are worked off row by row which is held between their first use and their last. The compiler
/// lists these operations so that 16 registers hold values; spill slots of `fit.csv` are alike from 0.1 to 0.6.
const ROW_BY_ROW: f64 = 0.5;

/// Results of a product that wait for the vector unit, most of which are 43 to 90 in orders of deltas on v6e. Spill
/// slots of `fit.csv` are alike from 48 to 64.
const POPPED_AHEAD: f64 = 48.0;

/// A list that fits the register file, as the model has it: 72 registers of statistics of `logits_ce`, whose lists hold
/// 53 and 54, and 92 of `entropy`, whose lists do not fit.
const FITS: f64 = 1.25;

/// The largest of some values, and how many are as large.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Largest {
    registers: usize,
    count: u32,
}

impl Largest {
    fn add(&mut self, registers: usize) {
        if registers > self.registers {
            *self = Self {
                registers,
                count: 0,
            };
        }
        self.count += u32::from(registers == self.registers);
    }
}

impl Block<'_> {
    /// Results of products are summed in memory.
    pub(crate) fn sums_products(&mut self) {
        self.sums_products = true;
    }

    /// The value, of a sub-tile, is added to a sum in memory.
    pub(crate) fn adds(&mut self, value: &Vector) {
        self.added
            .push((value.registers(), self.all_entries(value)));
    }

    /// The value is selected, and not of results of products: from v5 on it is made while these are, as far as the
    /// vector unit is free.
    pub(crate) fn selects(&mut self, value: &Vector) {
        let (registers, columns) = (value.registers(), value.columns.registers);
        let ahead = self
            .machine
            .selected_ahead(registers, columns, self.in_rounds);
        if ahead > 0.0 && value.late.is_none() {
            let part = ahead / registers as f64;
            let part = part.clamp(self.machine.temporaries, 1.0);
            self.selected
                .push((self.turn, part, self.all_entries(value)));
        }
    }

    /// Before v6e a register of 16-bit elements has 8 rows of two columns: those of the first wait for the second.
    pub(crate) fn waits_for_next_column(&mut self, value: &Vector) {
        if !value.by_column || value.columns.step > 1 || value.block != self.number {
            return;
        }
        for group in value.groups() {
            let next = group.index + 1;
            if group.column % 2 == 1 || group.column + 1 == value.columns.registers {
                continue;
            }
            if let Some(&entry) = value.entries.get(group.index) {
                let [first, second] = [value.ready[group.index], value.ready[next]];
                if second > first {
                    self.account.used(entry, first, second);
                }
            }
        }
    }

    /// A tile of so many f32 registers is loaded.
    pub(crate) fn loads_tile(&mut self, registers: usize) {
        self.tiles.add(registers);
    }

    /// Registers of scores that bundles load ahead of a list that fits the registers, where tiles of columns follow one
    /// another: for the maximum of the next tile, while exponentials of this one take the transcendental unit. From v5
    /// on; in a hundred statistics of `logits_ce`, of 16 to 128 rows and two to eight tiles, 24 to 58 slots.
    pub(super) fn loaded_ahead(&self, listed: f64) -> f64 {
        let Largest { registers, count } = self.tiles;
        let fits = listed <= FITS * self.machine.registers;
        match self.chained && count > 1 && fits && self.machine.runs_ahead() {
            true => registers as f64,
            false => 0.0,
        }
    }

    /// Masks of rows, each made of two, select what was packed.
    pub(crate) fn masks_rows(&mut self, mask: &Vector) {
        if mask.late.is_some() && mask.columns.registers == 1 {
            self.masks.add(mask.rows.registers);
        }
    }

    /// Registers of values that have as many slots as masks: those of rows wait, all of them, from the first value that
    /// they select to the next. The compiler knows masks of values of other widths for the same.
    pub(super) fn registers_for_masks(&self) -> f64 {
        let Largest { registers, count } = self.masks;
        let slots = self.machine.slots_of_masks(registers);
        match count > 1 && slots > 0.0 {
            true => self.machine.registers + slots,
            false => 0.0,
        }
    }

    /// What waits is held as long as it does.
    pub(crate) fn settle_waits(&mut self) {
        self.settle_selected();
        self.settle_popped();
        self.settle_sums();
    }

    /// Results of products wait while the vector unit works off those before them, beside a softmax; where that adds to
    /// sums in memory, if the vector unit is what takes long (96 forward passes, h up to 512 and 1024). Where products
    /// are made of them, as in attention, matrix units are; but for gradients whose exponentials meet the results of
    /// another product, of which the vector unit may be the fullest.
    fn settle_popped(&mut self) {
        let cycles = |unit| self.rates.cycles(unit, self.timeline.taken(unit));
        let takes_long = self.added.is_empty() || cycles(Unit::Valu) > cycles(Unit::Mxu);
        let softmax = self.timeline.taken(Unit::Eup) > 0.0 && takes_long;
        let ahead = match self.meets_products() {
            true => cycles(Unit::Valu) >= self.timeline.fullest(),
            false => self.machine.pops_ahead() && !self.needs_results,
        };
        if self.popped == 0.0 || !softmax || !ahead {
            return;
        }
        let results = self.results.iter().flat_map(|(_, entries)| entries);
        let results: Vec<u32> = results.copied().collect();
        let from_to = [self.account.begun(&results), self.account.dead(&results)];
        self.account.held(self.popped.min(POPPED_AHEAD), from_to);
    }

    /// Selections wait for exponentials, those of a turn from when those of the turn before have met theirs.
    fn settle_selected(&mut self) {
        if self.timeline.taken(Unit::Eup) == 0.0 {
            return;
        }
        let mut before = 0.0;
        let turns = (self.selected).chunk_by(|(one, ..), (other, ..)| one == other);
        for of_turn in turns {
            for &(_, part, ref entries) in of_turn {
                for &entry in entries {
                    self.account.held_in_part(entry, part);
                    self.account.made_at(entry, before);
                }
            }
            let met = of_turn
                .iter()
                .map(|(.., entries)| self.account.dead(entries));
            before = met.fold(0.0, f64::max);
        }
    }

    /// What is added to sums is held as long as it waits.
    fn settle_sums(&mut self) {
        if self.added.is_empty() {
            return;
        }
        self.pass_rows_on();
        if !self.sums_products || !self.machine.new_units() {
            return;
        }
        let end = self.timeline.end();
        for (i, (registers, entries)) in self.added.iter().enumerate() {
            let later = i + self.machine.sub_tiles_that_wait(*registers);
            let until = (self.added.get(later)).map_or(end, |(_, later)| self.account.made(later));
            (entries.iter()).for_each(|&entry| self.account.waits(entry, until));
        }
    }

    /// All that is made of scores, to the sums of their rows, follows row by row.
    fn pass_rows_on(&mut self) {
        let results = self.results.iter().flat_map(|(_, entries)| entries);
        for &entry in results.chain(&self.kept) {
            self.account.held_in_part(entry, ROW_BY_ROW);
        }
    }
}
