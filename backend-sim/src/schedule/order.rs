//! The order in which the operations of a straight-line block are placed.
//!
//! It is that of the program, but for sums. Attention works off one chunk of keys after the other, and reduces the scores
//! of each along lanes twice: to their maximum and, once exponentials of what is left are there, to their sum. The
//! cross-lane units are what takes long. From the maximum of a later chunk there are two more such reductions to the end
//! of the block, from the sum of an earlier one there is one, and the compiler prefers what has the longer way: the maxima
//! of all chunks come before the first sum. What waits for sums waits until then (`wait_for_sums`).

use rustc_hash::FxHashSet;
use tilecast_tpu::mosaic::{Module, Op, Value};

use super::usage::Usage;
use crate::access::Access;
use crate::signature::Signature;

/// The operations of a block in another order than that of the program.
pub(super) struct SumsLast {
    /// All of them.
    pub(super) ops: Vec<Op>,
    /// The sums, and what depends on them.
    pub(super) waiting: Vec<Op>,
}

/// Operations of a block with the sums, and all that depends on them, behind the last maximum that does not; none if the
/// order of the program is such.
pub(super) fn sums_last(
    module: &Module,
    signature: &Signature,
    usage: &Usage,
    most_rows: i64,
    ops: &[Op],
) -> Option<SumsLast> {
    let is_maximum = |op: Op| {
        let from = module.operands(op)[0];
        let shape = module.value_kind(from).shape().unwrap_or_default();
        let low = matches!(*shape, [.., m, n] if m <= n.min(most_rows));
        low && usage.waits_for_maximum(from) && usage.is_of_products(from)
    };
    let along_lanes = |op: &Op| is_along_lanes(module, *op);
    let first = ops
        .iter()
        .position(|op| along_lanes(op) && is_maximum(*op))?;
    // Few blocks have a sum behind a maximum.
    let mut behind: Option<Behind> = None;
    let mut waits = vec![false; ops.len()];
    let mut end = 0;
    for (i, &op) in ops.iter().enumerate().skip(first + 1) {
        if !module.regions(op).is_empty() {
            break;
        }
        let reduces = along_lanes(&op);
        let maximum = reduces && is_maximum(op);
        let sum = reduces && !maximum && usage.is_of_products(module.operands(op)[0]);
        waits[i] = sum || behind.as_ref().is_some_and(|behind| behind.has(module, op));
        match waits[i] {
            true => {
                (behind.get_or_insert_with(|| Behind::new(signature.roots(module)))).add(module, op)
            }
            false if maximum => end = i + 1,
            false => {}
        }
    }
    let mut order = Vec::with_capacity(ops.len());
    for waiting in [false, true] {
        order.extend((0..end).filter(|&i| waits[i] == waiting).map(|i| ops[i]));
    }
    order.extend_from_slice(&ops[end..]);
    let waiting = (ops.iter().zip(&waits)).filter_map(|(&op, &waits)| waits.then_some(op));
    waits[..end].contains(&true).then(|| SumsLast {
        ops: order,
        waiting: waiting.collect(),
    })
}

/// What is placed later than the program has it.
struct Behind {
    /// What each value is a view of.
    roots: Vec<Option<Value>>,
    values: FxHashSet<Value>,
    /// Memories that are loaded or stored later: no store comes before.
    touched: FxHashSet<Value>,
    /// Those that are stored later: no load does.
    stored: FxHashSet<Value>,
}

impl Behind {
    fn new(roots: Vec<Option<Value>>) -> Self {
        Self {
            roots,
            values: FxHashSet::default(),
            touched: FxHashSet::default(),
            stored: FxHashSet::default(),
        }
    }

    fn root(&self, access: &Access) -> Value {
        self.roots[access.memory.index()].unwrap_or(access.memory)
    }

    fn has(&self, module: &Module, op: Op) -> bool {
        let operands = module.operands(op);
        operands.iter().any(|value| self.values.contains(value))
            || match Access::of(module, op) {
                Some(access) if access.stores => self.touched.contains(&self.root(&access)),
                Some(access) => self.stored.contains(&self.root(&access)),
                None => false,
            }
    }

    fn add(&mut self, module: &Module, op: Op) {
        self.values.extend(module.results(op));
        if let Some(access) = Access::of(module, op) {
            let memory = self.root(&access);
            self.touched.insert(memory);
            if access.stores {
                self.stored.insert(memory);
            }
        }
    }
}

/// Whether an operation reduces a vector along its lanes.
pub(super) fn is_along_lanes(module: &Module, op: Op) -> bool {
    if module.op_name(op) != "vector.multi_reduction" {
        return false;
    }
    let rank = module
        .value_kind(module.operands(op)[0])
        .shape()
        .map_or(0, <[i64]>::len) as i64;
    reduced_dims(module, op, rank).contains(&(rank - 1))
}

/// The dimensions of a vector of so many that a reduction sums over.
pub(super) fn reduced_dims(module: &Module, op: Op, rank: i64) -> Vec<i64> {
    (module.integers_attribute(op, "reduction_dims"))
        .or_else(|| module.integers_attribute(op, "dims"))
        .or_else(|| module.integer_attribute(op, "dim").map(|dim| vec![dim]))
        .unwrap_or_else(|| vec![rank - 1])
}
