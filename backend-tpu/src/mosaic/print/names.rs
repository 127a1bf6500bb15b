//! Names of values and blocks.
//!
//! The pretty form names values as MLIR does, so that its text can be compared with ours: arguments
//! of entry blocks are `%arg0`, constants are named after their value (`%c8_i32`, `%cst`), the rest
//! are numbered. All values of a region are named before those of nested regions; sibling regions
//! start from the same numbers. A taken name gets a number of its own appended.

use std::collections::HashSet;

use crate::mosaic::ir::{Block, Module, Op, Region};
use crate::mosaic::types::{AttributeKind, TypeKind};

#[derive(Clone, Copy)]
struct Counters {
    value: usize,
    argument: usize,
    conflict: usize,
}

pub(super) struct Names {
    /// Name of each value, without `%`; with `#1` for further results.
    pub(super) values: Vec<String>,
    blocks: Vec<usize>,
    used: HashSet<String>,
    added: Vec<String>,
    hints: bool,
}

impl Names {
    /// Names everything in the module. Without `hints`, constants are numbered like other values.
    pub(super) fn new(module: &Module, hints: bool) -> Self {
        let mut names = Self {
            values: vec![String::new(); module.value_count()],
            blocks: Vec::new(),
            used: HashSet::new(),
            added: Vec::new(),
            hints,
        };
        let start = Counters {
            value: 0,
            argument: 0,
            conflict: 0,
        };
        for &region in module.regions(module.root()) {
            names.region(module, region, start);
        }
        names
    }

    pub(super) fn block(&self, block: Block) -> usize {
        self.blocks.get(block.index()).copied().unwrap_or(0)
    }

    fn region(&mut self, module: &Module, region: Region, mut n: Counters) {
        let mark = self.added.len();
        for (i, &block) in module.blocks(region).iter().enumerate() {
            if self.blocks.len() <= block.index() {
                self.blocks.resize(block.index() + 1, 0);
            }
            self.blocks[block.index()] = i;
            for &argument in module.arguments(block) {
                self.values[argument.index()] = if i == 0 {
                    n.argument += 1;
                    self.unique(format!("arg{}", n.argument - 1), &mut n)
                } else {
                    n.value += 1;
                    (n.value - 1).to_string()
                };
            }
            for &op in module.block_ops(block) {
                self.results(module, op, &mut n);
            }
        }
        for &block in module.blocks(region) {
            for &op in module.block_ops(block) {
                for &r in module.regions(op) {
                    self.region(module, r, n);
                }
            }
        }
        for name in self.added.drain(mark..) {
            self.used.remove(&name);
        }
    }

    fn results(&mut self, module: &Module, op: Op, n: &mut Counters) {
        let results = module.results(op);
        let Some(first) = results.first() else { return };
        let name = match self.hints.then(|| hint(module, op)).flatten() {
            Some(hint) => self.unique(hint, n),
            None => {
                n.value += 1;
                (n.value - 1).to_string()
            }
        };
        for (i, value) in results.iter().enumerate().skip(1) {
            self.values[value.index()] = format!("{name}#{i}");
        }
        self.values[first.index()] = if results.len() > 1 {
            format!("{name}#0")
        } else {
            name
        };
    }

    fn unique(&mut self, name: String, n: &mut Counters) -> String {
        let mut candidate = name.clone();
        while self.used.contains(&candidate) {
            candidate = format!("{name}_{}", n.conflict);
            n.conflict += 1;
        }
        self.used.insert(candidate.clone());
        self.added.push(candidate.clone());
        candidate
    }
}

fn hint(module: &Module, op: Op) -> Option<String> {
    let name = module.op_name(op);
    if name == "memref.alloca" || name == "memref.alloc" {
        return Some(name["memref.".len()..].into());
    }
    if name != "arith.constant" {
        return None;
    }
    Some(match module.attribute_kind_of(op, "value") {
        Some(AttributeKind::Bool(b)) => b.to_string(),
        Some(AttributeKind::Integer { value, ty }) => match module.type_kind(*ty) {
            TypeKind::Integer { width, .. } => format!("c{value}_i{width}"),
            _ => format!("c{value}"),
        },
        _ => "cst".into(),
    })
}
