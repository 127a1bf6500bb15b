//! Scratch that the compiler keeps because it may be read.
//!
//! A value that is loaded in the block that stored it never leaves its registers, and scratch that is only read so is
//! dropped. Which steps of a kernel run which blocks is known, but for conditions that depend on prefetched scalars:
//! what is read under such a condition counts, whatever the scalars are.

use tilecast_tpu::mosaic::{Block, Module, Op, Value};

use super::Signature;
use crate::access::Access;
use crate::grid::dependents;
use crate::schedule::ScalarOp;

impl Signature {
    /// For each value, whether it depends on prefetched scalars.
    pub(crate) fn by_scalars(&self, module: &Module) -> Vec<bool> {
        let mut seeds = Vec::new();
        if !self.scalars.is_empty() {
            let roots = self.roots(module);
            module.walk(self.function, &mut |op| {
                let memory = module.operands(op).first();
                let memory = memory.and_then(|value| roots[value.index()]);
                if memory.is_some_and(|value| self.scalars.contains(&value)) {
                    seeds.extend(module.results(op));
                }
            });
        }
        dependents(module, self.function, &seeds)
    }

    /// Scratch that is read, or may be, where a condition depends on prefetched scalars, as the values do that
    /// `by_scalars` says. `forwards` tells whether a load may get what was stored from registers.
    pub(crate) fn read_by_data(
        &self,
        module: &Module,
        by_scalars: &[bool],
        forwards: &dyn Fn(&Access<'_>) -> bool,
    ) -> Vec<usize> {
        if self.scalars.is_empty() && !module.has_any(&["scf.while"]) {
            return Vec::new();
        }
        let mut reads = Reads {
            module,
            roots: self.roots(module),
            forwards,
            found: Vec::new(),
        };
        module.walk(self.function, &mut |op| {
            let condition = match module.op_name(op) {
                "scf.if" => &module.operands(op)[..1],
                "scf.for" => &module.operands(op)[..3],
                // Its condition is inside.
                "scf.while" => &[],
                _ => return,
            };
            if condition.is_empty() || condition.iter().any(|value| by_scalars[value.index()]) {
                reads.bodies(op, &mut Vec::new());
            }
        });
        reads.found
    }
}

/// Reads of memories that are not answered by what the same block stored.
struct Reads<'m> {
    module: &'m Module,
    roots: Vec<Option<Value>>,
    forwards: &'m dyn Fn(&Access<'_>) -> bool,
    found: Vec<usize>,
}

impl<'m> Reads<'m> {
    /// Those of the bodies of an operation, before which the block `stored` this.
    fn bodies(&mut self, op: Op, stored: &mut Vec<Access<'m>>) {
        let bodies = (0..).map_while(|region| self.module.entry(op, region));
        for body in bodies.collect::<Vec<_>>() {
            self.block(body, stored);
        }
    }

    fn block(&mut self, block: Block, stored: &mut Vec<Access<'m>>) {
        let module = self.module;
        for &op in module.block_ops(block) {
            if let Some(access) = Access::of(module, op) {
                match access.stores {
                    true => stored.push(access),
                    false if self.is_answered(&access, stored) => {}
                    false => self.read(access.memory),
                }
                continue;
            }
            match module.op_name(op) {
                "tpu.enqueue_dma" => {
                    let operands = module.operands(op).iter();
                    operands.for_each(|&memory| self.read(memory));
                }
                // No block of its own.
                "tpu.region" | "tpu.trace" => self.bodies(op, stored),
                _ if module.entry(op, 0).is_some() => {
                    stored.clear();
                    self.bodies(op, &mut Vec::new());
                }
                _ => {}
            }
        }
    }

    fn read(&mut self, memory: Value) {
        self.found
            .extend(self.roots[memory.index()].map(|root| root.index()));
    }

    /// Whether the last of these that may have to do with a load stores just what that loads.
    fn is_answered(&self, load: &Access<'m>, stored: &[Access<'m>]) -> bool {
        let root = |access: &Access<'_>| self.roots[access.memory.index()];
        let last = stored.iter().rfind(|store| root(store) == root(load));
        last.is_some_and(|store| {
            let shape = |value: Value| self.module.value_kind(value).shape();
            let mut indices = store.indices.iter().zip(load.indices);
            (store.whole && load.whole && (self.forwards)(load))
                && store.memory == load.memory
                && shape(store.value) == shape(load.value)
                && indices.all(|(&a, &b)| self.same(a, b))
        })
    }

    fn same(&self, a: Value, b: Value) -> bool {
        let constant = |value| {
            let made = self.module.made_by(value, "arith.constant");
            made.and_then(|op| ScalarOp::number(self.module, op))
        };
        a == b || constant(a).is_some_and(|a| constant(b) == Some(a))
    }
}
