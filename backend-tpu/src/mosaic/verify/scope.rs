//! Definitions before uses.
//!
//! A value made in a block may be used later in that block, in blocks it dominates (every way from
//! the entry of the region passes it), and in regions nested in those uses; not across the
//! boundary of a function.

use std::collections::{HashMap, HashSet};

use super::{Check, Checked, Problem};
use crate::mosaic::ir::{Block, Definition, Module, Op};

/// Places of operations in their blocks, and which blocks dominate which.
pub(super) struct Scopes {
    position: Vec<usize>,
    dominators: HashMap<Block, HashSet<Block>>,
}

impl Scopes {
    pub(super) fn new(m: &Module) -> Self {
        let mut scopes = Self {
            position: vec![0; m.op_count()],
            dominators: HashMap::new(),
        };
        m.walk(m.root(), &mut |op| {
            for &region in m.regions(op) {
                for &block in m.blocks(region) {
                    for (i, &o) in m.block_ops(block).iter().enumerate() {
                        scopes.position[o.index()] = i;
                    }
                }
                scopes.dominate(m, m.blocks(region));
            }
        });
        scopes
    }

    /// Sets of dominators of the blocks of one region, by iteration to the fixed point.
    fn dominate(&mut self, m: &Module, blocks: &[Block]) {
        let Some((&entry, rest)) = blocks.split_first() else {
            return;
        };
        let all: HashSet<Block> = blocks.iter().copied().collect();
        let mut before: HashMap<Block, Vec<Block>> = HashMap::new();
        for &b in blocks {
            for &s in m.block_ops(b).last().map_or(&[][..], |&o| m.successors(o)) {
                before.entry(s).or_default().push(b);
            }
        }
        self.dominators.insert(entry, HashSet::from([entry]));
        for &b in rest {
            self.dominators.insert(b, all.clone());
        }
        let mut changed = !rest.is_empty();
        while std::mem::take(&mut changed) {
            for &b in rest {
                let mut sets = before.get(&b).into_iter().flatten();
                let mut new = match sets.next() {
                    Some(first) => sets.fold(self.dominators[first].clone(), |a, p| {
                        a.intersection(&self.dominators[p]).copied().collect()
                    }),
                    // Never reached: anything may be assumed.
                    None => continue,
                };
                new.insert(b);
                if new != self.dominators[&b] {
                    self.dominators.insert(b, new);
                    changed = true;
                }
            }
        }
    }

    fn dominates(&self, a: Block, b: Block) -> bool {
        self.dominators.get(&b).is_some_and(|set| set.contains(&a))
    }
}

/// Operations whose regions do not see values outside.
fn isolated(m: &Module, op: Op) -> bool {
    matches!(m.op_name(op), "func.func" | "builtin.module")
}

/// Operations that end blocks.
fn is_terminator(m: &Module, op: Op) -> bool {
    matches!(
        m.op_name(op),
        "func.return" | "scf.yield" | "scf.condition" | "tpu.yield" | "cf.br" | "cf.cond_br"
    )
}

impl Check<'_> {
    pub(super) fn definitions(self, scopes: &Scopes) -> Checked {
        let m = self.m;
        for (operand, &value) in self.operands().iter().enumerate() {
            let (block, after) = match m.definition(value) {
                Definition::Argument(block, _) => (Some(block), None),
                Definition::Result(op, _) => (m.op_block(op), Some(op)),
            };
            let block = block.ok_or(Problem::UseBeforeDefinition { operand })?;
            // The operation around the use that stands in the region of the definition.
            let mut user = self.op;
            let user_block = loop {
                let at = m.op_block(user).ok_or(Problem::NotVisible { operand })?;
                if m.block_region(at) == m.block_region(block) {
                    break at;
                }
                user = match m.region_op(m.block_region(at)) {
                    Some(around) if !isolated(m, around) => around,
                    _ => return Err(Problem::NotVisible { operand }),
                };
            };
            let ordered = if user_block == block {
                after.is_none_or(|op| scopes.position[op.index()] < scopes.position[user.index()])
            } else {
                scopes.dominates(block, user_block)
            };
            if !ordered {
                return Err(Problem::UseBeforeDefinition { operand });
            }
        }
        Ok(())
    }

    /// Blocks of functions, loops and conditionals end where control leaves them, only there.
    pub(super) fn terminators(self) -> Checked {
        let m = self.m;
        if is_terminator(m, self.op) {
            let last = m
                .op_block(self.op)
                .and_then(|b| m.block_ops(b).last().copied());
            self.rule(last == Some(self.op), "ends a block, but operations follow")?;
        }
        let needed = match self.name() {
            "func.func" | "tpu.region" => true,
            name => name.starts_with("scf."),
        };
        if !needed {
            return Ok(());
        }
        for &region in m.regions(self.op) {
            for &block in m.blocks(region) {
                let last = m.block_ops(block).last();
                let ends = last.is_some_and(|&o| is_terminator(m, o));
                self.rule(ends, "a block of its region does not end in a terminator")?;
            }
        }
        Ok(())
    }
}
