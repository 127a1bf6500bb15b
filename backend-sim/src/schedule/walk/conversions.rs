//! Conversions between f32 and bf16.
//!
//! A value that is rounded, and widened again further on in the block, keeps its f32 registers: the compiler drops the
//! way there and back, also where it leads through memory. If what was stored is then stored over, nothing is left that
//! needs the rounded value.

use tilecast_tpu::mosaic::Op;

use super::super::vector::Vector;
use super::Walk;
use crate::access::Access;

impl Walk<'_> {
    /// Two registers unpacked from one, or packed into one.
    pub(super) fn convert(&mut self, op: Op) {
        let operand = self.module.operands(op)[0];
        let result = self.module.results(op)[0];
        let (from, to) = (self.vector(operand), self.bits(result));
        let [rows, columns] = Self::registers(self.shape(result), to);
        // One register of 16 rows becomes two, unless it stands for more of them.
        let [whole, _] = Self::registers(self.shape(operand), from.bits);
        let same_rows = from.rows.registers == 1 && whole > 1;
        let out_rows = if same_rows { 1 } else { rows };
        let out_columns = if from.columns.registers == 1 {
            1
        } else {
            columns
        };
        let mut shape = Vector::new(out_rows, out_columns, to, 0.0);
        shape.along_lanes = from.along_lanes;
        let narrows = to < from.bits;
        let valu = match narrows {
            true if self.is_overwritten(op) => 0.0,
            true => 1.0 - f64::from(to) / f64::from(from.bits),
            // There and back again is dropped.
            false if self.was_rounded(op, &from) => 0.0,
            false => 1.0,
        };
        let mut out = self
            .block
            .regroup(&from, shape, valu, self.machine.temporaries);
        out.rounded = narrows;
        if narrows && valu > 0.0 && !self.machine.new_units() {
            self.block.waits_for_next_column(&from);
        }
        self.set(op, out);
    }

    /// Whether the operand of a conversion was made of a wider value in this block.
    fn was_rounded(&self, op: Op, from: &Vector) -> bool {
        self.made_by(op, "arith.truncf")
            || from.rounded && from.loads.is_none() && from.block == self.block.number
    }

    /// Whether all that becomes of the result of a conversion is a store that is stored over.
    fn is_overwritten(&mut self, op: Op) -> bool {
        let result = self.module.results(op)[0];
        if !self.usage.stored_only(result) {
            return false;
        }
        let stores = |op: &Op| self.module.operands(*op).first() == Some(&result);
        let Some(i) = self.rest.iter().position(stores) else {
            return false;
        };
        (Access::of(self.module, self.rest[i]))
            .is_some_and(|store| store.stores && self.overwritten(&store, i + 1))
    }
}
