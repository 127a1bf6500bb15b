//! Sums in memory that every sub-tile of columns adds to, and which wait.
//!
//! The compiler's scheduler prefers what has the longest way to the end of a block. What a sub-tile adds to a running
//! sum has the shortest: as long as the vector unit is full, products and exponentials of later sub-tiles go first, and
//! the sums of the earlier ones wait in registers. In listings of v6e and v7x it is full where logits are summed over
//! hidden steps too.

use tilecast_tpu::mosaic::{self as ir, Definition};

use super::Walk;
use crate::access::Access;

/// What is made of one sub-tile for a running sum: exponentials, or sums of them.
const OF_A_SUB_TILE: [&str; 3] = ["arith.addf", "math.exp", "math.exp2"];

impl Walk<'_> {
    /// A store of a running sum tells the block what is added to it.
    pub(super) fn sums(&mut self, store: &Access<'_>) {
        let Some(added) = self.added(store) else {
            return;
        };
        let is = |name: &str| self.module.made_by(added, name).is_some();
        if is("tpu.matmul") {
            self.block.sums_products();
        } else if OF_A_SUB_TILE.into_iter().any(is) {
            let added = self.vector(added);
            self.block.adds(&added);
        }
    }

    /// What is added to what the memory holds, and stored there again.
    fn added(&self, store: &Access<'_>) -> Option<ir::Value> {
        let sum = self.module.made_by(store.value, "arith.addf")?;
        let &[a, b] = self.module.operands(sum) else {
            return None;
        };
        match [a, b].map(|value| self.is_of(value, store.memory)) {
            [true, false] => Some(b),
            [false, true] => Some(a),
            _ => None,
        }
    }

    /// Whether a value was loaded from a memory, perhaps scaled.
    fn is_of(&self, value: ir::Value, memory: ir::Value) -> bool {
        let Definition::Result(op, _) = self.module.definition(value) else {
            return false;
        };
        match Access::of(self.module, op) {
            Some(load) => load.memory == memory,
            None => {
                self.module.op_name(op) == "arith.mulf"
                    && (self.module.operands(op).iter()).any(|&value| self.is_of(value, memory))
            }
        }
    }
}
