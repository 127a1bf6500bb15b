//! What a product holds in registers beside its results: weights that wait, sums of rounds.

use super::super::timeline::Span;
use super::super::vector::Vector;
use super::Block;

/// Registers that hold values while rows of words are put together; fewer than those by which the rows that wait are
/// more; and those of each product after the second. Of more rows none wait (probes of `linear_ce_dw` on v4, of 128 to
/// 512 rows and 128 columns, with one to four products).
const FIRST_ROWS_OF_WORDS: f64 = 41.0;
const BEYOND_ROWS_OF_WORDS: f64 = 13.0;
const OTHER_ROWS_OF_WORDS: f64 = 9.0;
const MOST_ROWS_OF_WORDS: usize = 128;

/// Registers of weights of `k` rows that have a second column, too, of the rows that the units take at once, but for
/// those that units left by the first have at the same time; of several rounds half of them wait (probes).
pub(super) fn halves_that_wait(
    k: usize,
    dim: usize,
    [units, left]: [usize; 2],
    rounds: f64,
) -> f64 {
    let rows = k.min(dim * units).saturating_sub(dim * left);
    (rows / 8) as f64 / rounds.min(2.0)
}

impl Block<'_> {
    /// A single column of so many registers of packed weights is loaded from memory of words. On v4 it is put together
    /// through memory, from eight rows to a register; what is loaded again for another product waits for the first to
    /// be stored, if it is not too much.
    pub(crate) fn loads_words(&mut self, registers: usize) {
        if !self.machine.loads_words_by_rows() {
            return;
        }
        let rows = 8 * registers;
        self.loaded_words += 1;
        let more = match self.loaded_words {
            1 => FIRST_ROWS_OF_WORDS,
            _ if rows > MOST_ROWS_OF_WORDS => return,
            2 => rows as f64 - BEYOND_ROWS_OF_WORDS,
            _ => OTHER_ROWS_OF_WORDS,
        };
        self.account.held(more, [0.0, 1.0]);
    }

    /// Weights of so many columns are pushed. Registers that were loaded have those of two columns, and wait for the
    /// second.
    pub(super) fn halves(&mut self, columns: usize, registers: f64, pushed: Span) {
        if columns > 1 {
            return self.account.held(registers, [pushed.start, pushed.end]);
        }
        match self.half.take() {
            Some(first) => self.account.held(registers, [first, pushed.end]),
            None => self.half = Some(pushed.end),
        }
    }

    /// Sums of so many columns wait for the results of the last round, which come in the order of the first: from v6e
    /// on each register of them for its own, before for all.
    pub(super) fn wait_for_rounds(
        &mut self,
        out: &Vector,
        columns: usize,
        rounds: f64,
        [first, last]: [f64; 2],
    ) {
        let all = out.rows.registers;
        if !self.machine.new_units() {
            return self.account.held((all * columns) as f64, [first, last]);
        }
        let round = (last - first).max(0.0) / rounds;
        let mut rows = 0;
        for r in 0..out.rows.groups() {
            rows += out.rows.size(r);
            let passed = round * rows as f64 / all as f64;
            let from_to = [first + passed, last - (round - passed)];
            (self.account).held((out.rows.size(r) * columns) as f64, from_to);
        }
    }

    /// Rows of the left operand enter the matrix units during `span`, one block of the contraction
    /// after the other.
    pub(super) fn streamed(&mut self, lhs: &Vector, rows: [usize; 2], span: Span) {
        let blocks = lhs.columns.groups();
        let each = (span.end - span.start) / blocks as f64;
        for block in 0..blocks {
            let start = span.start + block as f64 * each;
            let first = block * lhs.columns.step;
            let columns = [first, first + lhs.columns.size(block)];
            let end = start + each;
            self.used(lhs, rows, columns, Span { start, end });
        }
    }
}
