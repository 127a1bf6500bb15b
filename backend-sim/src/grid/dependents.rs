//! [`dependents`]: which values of a function depend on others.

use tilecast_tpu::mosaic::{Block, Module, Op, Value};

/// For each value of a function, whether it depends on one of `seeds`: is computed from it, or by a
/// branch or loop that is. What is loaded depends on the place only.
pub(crate) fn dependents(module: &Module, function: Op, seeds: &[Value]) -> Vec<bool> {
    if seeds.is_empty() {
        return vec![false; module.value_count()];
    }
    let mut spread = Spread {
        module,
        varies: vec![false; module.value_count()],
    };
    for seed in seeds {
        spread.varies[seed.index()] = true;
    }
    if let Some(entry) = module.entry(function, 0) {
        spread.block(entry);
    }
    spread.varies
}

struct Spread<'m> {
    module: &'m Module,
    varies: Vec<bool>,
}

impl Spread<'_> {
    /// Marks what depends on what is marked.
    fn block(&mut self, block: Block) {
        let module = self.module;
        for &op in module.block_ops(block) {
            let operands = module.operands(op);
            if operands.is_empty() && module.regions(op).is_empty() {
                // Half of all operations are constants.
                continue;
            }
            let mut any = self.any(operands);
            let name = module.op_name(op);
            for &region in module.regions(op) {
                for &inner in module.blocks(region) {
                    match name {
                        "scf.for" => self.loop_body(op, inner),
                        _ => self.block(inner),
                    }
                    any |= self.any(handed_on(module, inner));
                }
            }
            // What comes from memory is data, except for prefetched scalars.
            if name == "memref.load" || name == "vector.load" || name == "tpu.sem_read" {
                any = self.any(operands.get(1..).unwrap_or_default());
            }
            for &result in module.results(op) {
                self.varies[result.index()] |= any;
            }
        }
    }

    /// The same for the body of a loop, until nothing more is carried from one iteration to the next.
    fn loop_body(&mut self, op: Op, body: Block) {
        let module = self.module;
        let operands = module.operands(op);
        let next = handed_on(module, body);
        let Some((index, carried)) = module.arguments(body).split_first() else {
            return self.block(body);
        };
        let bounds = self.any(&operands[..operands.len().min(3)]);
        self.varies[index.index()] |= bounds;
        loop {
            for (i, &value) in carried.iter().enumerate() {
                let varies = |from: Option<&Value>| from.is_some_and(|v| self.varies[v.index()]);
                let now = bounds || varies(operands.get(3 + i)) || varies(next.get(i));
                self.varies[value.index()] |= now;
            }
            self.block(body);
            let is_new = |(from, to): (&Value, &Value)| {
                self.varies[from.index()] && !self.varies[to.index()]
            };
            if !next.iter().zip(carried).any(is_new) {
                break;
            }
        }
    }

    fn any(&self, values: &[Value]) -> bool {
        values.iter().any(|value| self.varies[value.index()])
    }
}

/// The values that a block ends with.
fn handed_on(module: &Module, block: Block) -> &[Value] {
    let end = module.block_ops(block).last();
    end.map_or(&[][..], |&end| module.operands(end))
}
