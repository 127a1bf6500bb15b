//! Blocks that were scheduled before are not scheduled again.

use std::hash::{DefaultHasher, Hash, Hasher};

use tilecast_tpu::mosaic::Op;

use super::super::Region;
use super::super::memo::{Run, Solved, is_vector};
use super::{Known, Walk};

impl Walk<'_> {
    /// Takes the schedule of `run` from one that was made before; false if there is none, and it is to
    /// be made, and remembered.
    pub(super) fn remember(&mut self, run: &Run, ops: &[Op]) -> bool {
        let mut hash = DefaultHasher::new();
        run.hash.hash(&mut hash);
        for &op in ops {
            self.without_registers(op);
            self.places(op, &mut hash);
        }
        let key = hash.finish();
        let Some(Solved { region, reads }) = self.memo.get(key) else {
            self.remembered = Some((key, Vec::new()));
            return false;
        };
        reads.into_iter().for_each(|root| self.read[root] = true);
        self.done.regions.extend(region);
        true
    }

    /// Keeps the schedule of a block.
    pub(super) fn solved(&self, remembered: Option<(u64, Vec<usize>)>, region: Option<Region>) {
        if let Some((key, reads)) = remembered {
            self.memo.insert(key, Solved { region, reads });
        }
    }

    /// A memory is read.
    pub(super) fn reads(&mut self, root: usize) {
        self.read[root] = true;
        if let Some((_, reads)) = &mut self.remembered {
            reads.push(root);
        }
    }

    /// What an operation computes that takes no registers: scalars, places in memory, constants.
    fn without_registers(&mut self, op: Op) {
        let Some(&result) = self.module.results(op).first() else {
            return;
        };
        if is_vector(self.module, result) {
            if self.module.op_name(op) == "arith.constant" {
                self.free(op);
            }
        } else if !self.memory_op(op) {
            self.scalar_op(op);
        }
    }

    /// Where an operation loads or stores.
    fn places(&self, op: Op, to: &mut impl Hasher) {
        let operands = self.module.operands(op);
        let is_memory = |value: &_| self.module.value_kind(*value).shape().is_some();
        if !operands
            .iter()
            .any(|value| matches!(self.known[value.index()], Known::Memory(_)) && is_memory(value))
        {
            return;
        }
        for value in operands {
            match &self.known[value.index()] {
                Known::Memory(view) => {
                    (view.root, view.vmem, &view.start, &view.kept).hash(to);
                    self.forwarded[view.root].hash(to);
                }
                Known::Scalar(number) => number.hash(to),
                _ => {}
            }
        }
    }
}
