//! [`Repeats`]: operations that compute again what their block has computed, which the compiler drops.

use std::hash::{Hash, Hasher};

use rustc_hash::FxHashMap;
use tilecast_tpu::mosaic::{self as ir, Op};

use super::super::digest::Digest;
use super::{Known, Walk};

/// What the operations of a block computed so far.
#[derive(Debug)]
pub(super) struct Repeats {
    /// By a [digest](Digest) of what it is and does.
    made: FxHashMap<u64, ir::Value>,
    /// For each value, the first that is the same.
    first: Vec<u32>,
    /// How often memory was written; the compiler does not look where.
    writes: u32,
}

impl Repeats {
    pub(super) fn new(values: usize) -> Self {
        Self {
            made: FxHashMap::default(),
            first: (0..values as u32).collect(),
            writes: 0,
        }
    }

    /// Forgets what another block computed.
    pub(super) fn clear(&mut self) {
        self.made.clear();
    }

    /// Forgets everything.
    pub(super) fn reset(&mut self) {
        self.made.clear();
        for (i, first) in self.first.iter_mut().enumerate() {
            *first = i as u32;
        }
        self.writes = 0;
    }

    /// A value is the same as one before it.
    pub(super) fn same(&mut self, value: ir::Value, other: ir::Value) {
        self.first[value.index()] = self.first[other.index()];
    }

    /// Memory changes.
    pub(super) fn written(&mut self) {
        self.writes += 1;
    }
}

impl Walk<'_> {
    /// Whether an operation repeats another, whose result it then has.
    pub(super) fn repeated(&mut self, op: Op) -> bool {
        let &[result] = self.module.results(op) else {
            return false;
        };
        let kind = self.module.value_kind(result);
        let followed = match (kind, kind.shape()) {
            (ir::TypeKind::Memref { .. }, _) => false,
            (_, Some(_)) => matches!(
                self.known[result.index()],
                Known::Nothing | Known::Vector(_)
            ),
            // What is read of memory may have changed.
            (_, None) => self.module.op_name(op).starts_with("arith."),
        };
        if !followed {
            return false;
        }
        let operands = self.module.operands(op);
        let memory = operands.first().map(|value| &self.known[value.index()]);
        let writes = match memory {
            Some(Known::Memory(_)) => self.repeats.writes,
            _ => 0,
        };
        let mut key = Digest::default();
        (self.module.op_name_number(op), operands.len()).hash(&mut key);
        for value in operands {
            match self.known[value.index()] {
                Known::Scalar(Some(number)) => (true, number).hash(&mut key),
                _ => (false, self.repeats.first[value.index()]).hash(&mut key),
            }
        }
        self.module.attributes(op).hash(&mut key);
        (self.module.value_type(result), writes).hash(&mut key);
        let key = key.finish();
        match self.repeats.made.get(&key) {
            Some(&value) => {
                self.repeats.first[result.index()] = value.index() as u32;
                self.know(result.index(), self.known[value.index()].clone());
                true
            }
            None => {
                self.repeats.first[result.index()] = result.index() as u32;
                self.repeats.made.insert(key, result);
                false
            }
        }
    }
}
