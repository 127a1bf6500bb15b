//! What is made when it is first used.
//!
//! A mask of rows, or what scales them, is made of little: of places, constants and a load or two. The compiler makes
//! it where it is needed, not as soon as a slot is free; what it is made of is loaded then. This is about registers
//! alone: the slots are taken as early as all others.

use super::super::vector::Vector;
use super::Block;

/// Values in memory that a value is made of which waits for its first use. One of more holds fewer registers than what
/// it is made of, so it is made first. Spills of `fit.csv` are the same for one more.
const MOST_PARTS: usize = 3;

impl Block<'_> {
    /// Values in memory that the result of an operation on these is made of; none if it is made as soon as possible.
    pub(super) fn late(&self, inputs: &[&Vector]) -> Option<usize> {
        let parts = inputs.iter().map(|input| self.parts(input));
        let parts = parts.sum::<Option<usize>>()?;
        (parts <= MOST_PARTS).then_some(parts)
    }

    /// Values in memory that a value is made of, if it is made when it is first used.
    fn parts(&self, value: &Vector) -> Option<usize> {
        match &value.loads {
            Some(loads) => (!loads.borrow().fetch.first).then_some(1),
            None if value.block != self.number || value.entries.is_empty() => Some(0),
            None => value.late,
        }
    }

    /// A group of a late value is made of these registers of `input`.
    pub(super) fn made_of(
        &mut self,
        group: usize,
        input: &Vector,
        rows: [usize; 2],
        columns: [usize; 2],
    ) {
        let all = input.columns.groups();
        for r in input.rows.covering(rows[0], rows[1]) {
            for c in input.columns.covering(columns[0], columns[1]) {
                let operand = self.entry(input, r * all + c);
                self.operands
                    .extend(operand.map(|operand| (group, operand)));
            }
        }
    }

    /// Enters the groups of a late value in the account, of which only a part is alive at a time.
    pub(super) fn hold_late(&mut self, value: &mut Vector, part: f64) {
        self.hold_from_use(value, part);
        for (group, operand) in self.operands.drain(..) {
            self.account.reads_late(value.entries[group], operand);
        }
    }
}
