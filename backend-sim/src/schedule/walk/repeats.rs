//! [`Repeats`]: operations that compute again what their block has computed, which the compiler drops.

use std::hash::{Hash, Hasher};

use rustc_hash::FxHashMap;
use tilecast_tpu::mosaic::{self as ir, Attribute, AttributeName, Op, Type};

use super::{Known, Walk};

/// What the operations of a block computed so far.
#[derive(Debug)]
pub(super) struct Repeats<'m> {
    made: FxHashMap<Key<'m>, ir::Value>,
    /// For each value, the first that is the same.
    first: Vec<u32>,
    /// How often memory was written; the compiler does not look where.
    writes: u32,
}

#[derive(PartialEq, Eq, Debug)]
struct Key<'m> {
    name: &'m str,
    operands: Vec<Operand>,
    attributes: &'m [(AttributeName, Attribute)],
    result: Type,
    writes: u32,
}

/// Few operations have operands and type in common but not the name, and text takes long to hash.
impl Hash for Key<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.operands, self.result, self.writes).hash(state);
    }
}

#[derive(PartialEq, Eq, Hash, Debug)]
enum Operand {
    Scalar(i64),
    Value(u32),
}

impl<'m> Repeats<'m> {
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
        if self.module.value_kind(result).shape().is_none()
            || !matches!(
                self.known[result.index()],
                Known::Nothing | Known::Vector(_)
            )
            || matches!(self.module.value_kind(result), ir::TypeKind::Memref { .. })
        {
            return false;
        }
        let operands = self.module.operands(op);
        let memory = operands.first().map(|value| &self.known[value.index()]);
        let writes = match memory {
            Some(Known::Memory(_)) => self.repeats.writes,
            _ => 0,
        };
        let key = Key {
            name: self.module.op_name(op),
            operands: (operands.iter())
                .map(|value| match self.known[value.index()] {
                    Known::Scalar(Some(number)) => Operand::Scalar(number),
                    _ => Operand::Value(self.repeats.first[value.index()]),
                })
                .collect(),
            attributes: self.module.attributes(op),
            result: self.module.value_type(result),
            writes,
        };
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
