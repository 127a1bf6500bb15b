//! Loads of rows that the block stored in parts.
//!
//! The last step of statistics stores those of one sub-tile of rows after the other, and loads the rows of all of them,
//! to transpose them to the row that it returns. A scratch that serves for nothing else is dropped; from another one,
//! what was stored last comes from registers.

use std::rc::Rc;

use tilecast_tpu::mosaic as ir;

use super::super::vector::Vector;
use super::{Known, Passed, Stored, Walk};

/// Most operations of a block without products after a store for which a load gets what is still in the register. The
/// compiler's list of them has 512 (probes on v6e and v7x: 509 are, 513 are not); in the order of the program fewer lie
/// between. From 200 to 400 the same points of `fit_logits.csv` are within 6 %.
const FORWARDED_AFTER: f64 = 380.0;

impl Walk<'_> {
    /// Loads rows that were stored in parts, of which at least one comes from registers; others are loaded again. False
    /// if none does.
    pub(super) fn load_rows(&mut self, result: ir::Value, root: usize, parts: Vec<Stored>) -> bool {
        let is_dropped = self.forwarded[root];
        let least = self.block.operations() - FORWARDED_AFTER;
        let is_recent = |part: &Stored| self.block.is_plain() && part.operations >= least;
        let passes: Vec<bool> = (parts.iter())
            .map(|part| is_dropped || is_recent(part))
            .collect();
        if !passes.contains(&true) {
            return false;
        }
        self.block.loads_stored();
        let bits = self.bits(result);
        let [rows, columns] = Self::registers(self.shape(result), bits);
        let mut passed = Vec::new();
        let mut values = Vec::new();
        let mut end = 0;
        for (part, passes) in parts.into_iter().zip(passes) {
            let [rows, _] = Self::registers(&part.size, bits);
            let first = end;
            end += rows;
            if passes {
                values.push((part.value.clone(), rows));
                passed.push(Passed {
                    rows: [first, end],
                    value: part.value,
                    source: part.source,
                });
            } else {
                values.push((Rc::new(self.block.load_late(&part.value)), rows));
            }
        }
        let out = Vector::new(rows, columns, bits, 0.0);
        let out = self.block.join(&values, out, false);
        self.passed_on.insert(result, passed);
        self.know(result.index(), Known::Vector(Rc::new(out)));
        true
    }
}

/// Parts of whole rows of registers that a place was stored in, from its first row to its last; none if it was stored
/// otherwise.
pub(super) fn stacked(
    stored: &[Stored],
    start: &[i64],
    size: &[i64],
    bits: u32,
) -> Option<Vec<Stored>> {
    let dimension = start.len().checked_sub(2)?;
    let mut parts: Vec<_> = (stored.iter())
        .filter(|part| !part.is_apart(start, size))
        .collect();
    if parts.len() < 2 {
        return None;
    }
    parts.sort_by_key(|part| part.start[dimension]);
    let (mut at, mut of) = (start.to_vec(), size.to_vec());
    let fills = parts.iter().all(|part| {
        of[dimension] = part.size[dimension];
        let is_next = part.is_same(&at, &of);
        at[dimension] += of[dimension];
        let [rows, _] = Walk::registers(&of, bits);
        is_next
            && of[dimension] % i64::from(8 * 32 / bits) == 0
            && part.value.rows.registers == rows
    });
    let is_whole = at[dimension] == start[dimension] + size[dimension];
    (is_whole && fills).then(|| parts.into_iter().cloned().collect())
}
