//! [`Program`]: the integer arithmetic of a function that tells grid steps apart.
//!
//! Of a kernel's body that is what its conditions and the bounds of its loops are computed from, as
//! far as they depend on grid indices; of an index map it is everything. The rest is left out.

use tilecast_tpu::mosaic::{AttributeKind, Block, Definition, Module, Op, TypeKind, Value};

use super::form::{Comparison, Rounding};

/// An operation on numbers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Code {
    Constant(i64),
    Add,
    Subtract,
    Multiply,
    Quotient(Rounding),
    Remainder(Rounding),
    Maximum,
    Minimum,
    And,
    Or,
    Exclusive,
    ShiftLeft,
    ShiftRight,
    Compare(Comparison),
    Select,
    Same,
    /// An element of prefetched scalars of that number.
    Scalar(usize),
    Data,
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    Compute {
        code: Code,
        operands: Vec<usize>,
        result: usize,
    },
    If {
        condition: usize,
        /// Whether steps of the grid can differ here.
        tells: bool,
        branches: [Vec<Step>; 2],
    },
    For {
        bounds: [usize; 3],
        tells: bool,
        /// Index and values carried, and what they are at first.
        arguments: Vec<usize>,
        initial: Vec<usize>,
        /// Where they are read after an iteration, and after the loop.
        next: Vec<usize>,
        results: Vec<usize>,
        body: Vec<Step>,
    },
}

#[derive(Clone, Debug, Default)]
pub(super) struct Program {
    pub steps: Vec<Step>,
    /// Arguments: grid indices and scalars.
    pub arguments: Vec<usize>,
    /// What an index map returns.
    pub results: Vec<usize>,
}

struct Compiler<'m> {
    module: &'m Module,
    /// Values that depend on a grid index.
    varies: Vec<bool>,
    needed: Vec<bool>,
    /// Prefetched scalars, by value.
    scalars: Vec<Option<usize>>,
}

impl Program {
    /// The conditions and loops of a kernel's body.
    pub(super) fn body(module: &Module, function: Op, axes: usize, scalars: usize) -> Self {
        Self::compile(module, function, axes, scalars, false)
    }

    /// An index map.
    pub(super) fn map(module: &Module, function: Op, axes: usize, scalars: usize) -> Self {
        Self::compile(module, function, axes, scalars, true)
    }

    fn compile(module: &Module, function: Op, axes: usize, scalars: usize, map: bool) -> Self {
        let Some(entry) = module.entry(function, 0) else {
            return Self::default();
        };
        let arguments = module.arguments(entry);
        let mut compiler = Compiler {
            module,
            varies: vec![false; module.value_count()],
            needed: vec![false; module.value_count()],
            scalars: vec![None; module.value_count()],
        };
        for &index in arguments.iter().take(axes) {
            compiler.varies[index.index()] = true;
        }
        for (i, &value) in arguments.iter().skip(axes).take(scalars).enumerate() {
            compiler.scalars[value.index()] = Some(i);
        }
        while compiler.spread(entry) {}
        let mut results = Vec::new();
        if map {
            let end = module.block_ops(entry).last();
            results = end.map_or(Vec::new(), |&op| module.operands(op).to_vec());
            results.iter().for_each(|&value| compiler.need(value));
        } else {
            compiler.need_conditions(function);
        }
        Self {
            steps: compiler.block(entry),
            arguments: (arguments.iter().take(axes).map(|v| v.index())).collect(),
            results: results.iter().map(|v| v.index()).collect(),
        }
    }
}

/// For each value of a function, whether it depends on one of `seeds`: is computed from it, or by a
/// branch or loop that is. What is loaded depends on the place only.
pub(super) fn dependents(module: &Module, function: Op, seeds: &[Value]) -> Vec<bool> {
    let mut compiler = Compiler {
        module,
        varies: vec![false; module.value_count()],
        needed: Vec::new(),
        scalars: Vec::new(),
    };
    for seed in seeds {
        compiler.varies[seed.index()] = true;
    }
    if let Some(entry) = module.entry(function, 0) {
        while compiler.spread(entry) {}
    }
    compiler.varies
}

impl Compiler<'_> {
    /// Marks what depends on what is marked. True if that was more than before.
    fn spread(&mut self, block: Block) -> bool {
        let mut more = false;
        let module = self.module;
        for &op in module.block_ops(block) {
            let operands = module.operands(op);
            let mut any = operands.iter().any(|v| self.varies[v.index()]);
            let is_loop = module.op_name(op) == "scf.for";
            for &region in module.regions(op) {
                for &inner in module.blocks(region) {
                    if is_loop && let Some((index, carried)) = module.arguments(inner).split_first()
                    {
                        let of_bounds = operands.iter().take(3).any(|v| self.varies[v.index()]);
                        more |= self.mark(*index, of_bounds);
                        for (i, &value) in carried.iter().enumerate() {
                            let initial = operands.get(3 + i);
                            let initial = initial.is_some_and(|v| self.varies[v.index()]);
                            let next = module.block_ops(inner).last();
                            let next = next.and_then(|&end| module.operands(end).get(i));
                            let next = next.is_some_and(|v| self.varies[v.index()]);
                            more |= self.mark(value, of_bounds || initial || next);
                        }
                    }
                    more |= self.spread(inner);
                    let end = module.block_ops(inner).last();
                    any |= end.is_some_and(|&end| {
                        module.operands(end).iter().any(|v| self.varies[v.index()])
                    });
                }
            }
            // What comes from memory is data, except for prefetched scalars.
            let name = module.op_name(op);
            if name == "memref.load" || name == "vector.load" || name == "tpu.sem_read" {
                any = operands.iter().skip(1).any(|v| self.varies[v.index()]);
            }
            for &result in module.results(op) {
                more |= self.mark(result, any);
            }
        }
        more
    }

    fn mark(&mut self, value: Value, varies: bool) -> bool {
        let new = varies && !self.varies[value.index()];
        self.varies[value.index()] |= varies;
        new
    }

    fn need_conditions(&mut self, op: Op) {
        let module = self.module;
        let mut conditions: Vec<Value> = Vec::new();
        module.walk(op, &mut |op| {
            let operands = module.operands(op);
            let count = match module.op_name(op) {
                "scf.if" => 1,
                "scf.for" => 3,
                _ => 0,
            };
            conditions.extend(operands.iter().take(count));
        });
        for value in conditions {
            if self.varies[value.index()] {
                self.need(value);
            }
        }
    }

    /// Marks a value and what it is computed from.
    fn need(&mut self, value: Value) {
        let module = self.module;
        let mut list = vec![value];
        while let Some(value) = list.pop() {
            if std::mem::replace(&mut self.needed[value.index()], true) {
                continue;
            }
            let end = |block: Block, i: usize| {
                let end = module.block_ops(block).last();
                end.and_then(|&end| module.operands(end).get(i).copied())
            };
            match module.definition(value) {
                Definition::Result(op, i) => match module.op_name(op) {
                    "scf.if" | "tpu.region" | "tpu.trace" | "scf.for" => {
                        let regions = 0..module.regions(op).len();
                        let blocks = regions.filter_map(|region| module.entry(op, region));
                        list.extend(blocks.filter_map(|block| end(block, i)));
                        let operands = module.operands(op);
                        list.extend(operands.iter().take(3));
                        list.extend(operands.get(3 + i));
                    }
                    "memref.load" => list.extend(module.operands(op).iter().skip(1)),
                    _ => list.extend(module.operands(op)),
                },
                Definition::Argument(block, i) => {
                    let owner = module.region_op(module.block_region(block));
                    let owner = owner.filter(|&op| module.op_name(op) == "scf.for");
                    let Some(owner) = owner else { continue };
                    list.extend(module.operands(owner).iter().take(3));
                    if i > 0 {
                        list.extend(module.operands(owner).get(2 + i));
                        list.extend(end(block, i - 1));
                    }
                }
            }
        }
    }

    fn block(&mut self, block: Block) -> Vec<Step> {
        let mut steps = Vec::new();
        for &op in self.module.block_ops(block) {
            self.op(op, &mut steps);
        }
        steps
    }

    fn yielded(&self, block: Block, to: &[Value], steps: &mut Vec<Step>) {
        let end = self.module.block_ops(block).last();
        let values = end.map_or(&[][..], |&end| self.module.operands(end));
        for (from, to) in values.iter().zip(to) {
            if self.needed[to.index()] {
                steps.push(Step::Compute {
                    code: Code::Same,
                    operands: vec![from.index()],
                    result: to.index(),
                });
            }
        }
    }

    fn op(&mut self, op: Op, steps: &mut Vec<Step>) {
        let module = self.module;
        let results = module.results(op);
        let operands = module.operands(op);
        let needed = results.iter().any(|v| self.needed[v.index()]);
        match module.op_name(op) {
            "scf.if" => {
                let mut branches = [Vec::new(), Vec::new()];
                for (region, branch) in branches.iter_mut().enumerate() {
                    if let Some(block) = module.entry(op, region) {
                        *branch = self.block(block);
                        self.yielded(block, results, branch);
                    }
                }
                let tells = self.varies[operands[0].index()];
                if tells || branches.iter().any(|branch| !branch.is_empty()) {
                    self.need_now(operands[0], steps);
                    steps.push(Step::If {
                        condition: operands[0].index(),
                        tells,
                        branches,
                    });
                }
            }
            "tpu.region" | "tpu.trace" => {
                if let Some(block) = module.entry(op, 0) {
                    steps.extend(self.block(block));
                    self.yielded(block, results, steps);
                }
            }
            "scf.for" => {
                let Some(block) = module.entry(op, 0) else {
                    return;
                };
                let body = self.block(block);
                let tells = operands.iter().take(3).any(|v| self.varies[v.index()]);
                if !tells && body.is_empty() && !needed {
                    return;
                }
                operands
                    .iter()
                    .take(3)
                    .for_each(|&v| self.need_now(v, steps));
                let index = |values: &[Value]| values.iter().map(|v| v.index()).collect();
                let end = module.block_ops(block).last();
                steps.push(Step::For {
                    bounds: [0, 1, 2].map(|i| operands[i].index()),
                    tells,
                    arguments: index(module.arguments(block)),
                    initial: index(&operands[3..]),
                    next: end.map_or(Vec::new(), |&end| index(module.operands(end))),
                    results: index(results),
                    body,
                });
            }
            _ if needed && results.len() == 1 => steps.push(Step::Compute {
                code: self.code(op),
                operands: self.indices(op),
                result: results[0].index(),
            }),
            _ => {}
        }
    }

    /// A condition or bound that was not asked for before, since no grid step differs in it.
    fn need_now(&mut self, value: Value, steps: &mut Vec<Step>) {
        if self.needed[value.index()] {
            return;
        }
        if let Definition::Result(op, _) = self.module.definition(value) {
            let code = match self.code(op) {
                code @ Code::Constant(_) => code,
                _ => Code::Data,
            };
            steps.push(Step::Compute {
                code,
                operands: Vec::new(),
                result: value.index(),
            });
        }
    }

    fn indices(&self, op: Op) -> Vec<usize> {
        let skipped = usize::from(self.module.op_name(op) == "memref.load");
        let operands = self.module.operands(op).iter().skip(skipped);
        operands.map(|v| v.index()).collect()
    }

    fn code(&self, op: Op) -> Code {
        let module = self.module;
        let is_integer = module.results(op).first().is_some_and(|&result| {
            let kind = module.value_kind(result);
            matches!(kind, TypeKind::Integer { .. } | TypeKind::Index)
        });
        if !is_integer {
            return Code::Data;
        }
        match module.op_name(op) {
            "arith.constant" => match module.attribute_kind_of(op, "value") {
                Some(AttributeKind::Integer { value, .. }) => Code::Constant(*value),
                Some(AttributeKind::Bool(value)) => Code::Constant(i64::from(*value)),
                _ => Code::Data,
            },
            "arith.addi" => Code::Add,
            "arith.subi" => Code::Subtract,
            "arith.muli" => Code::Multiply,
            "arith.divsi" | "arith.divui" => Code::Quotient(Rounding::Zero),
            "arith.floordivsi" => Code::Quotient(Rounding::Down),
            "arith.ceildivsi" => Code::Quotient(Rounding::Up),
            "arith.remsi" | "arith.remui" => Code::Remainder(Rounding::Zero),
            "arith.maxsi" | "arith.maxui" => Code::Maximum,
            "arith.minsi" | "arith.minui" => Code::Minimum,
            "arith.andi" => Code::And,
            "arith.ori" => Code::Or,
            "arith.xori" => Code::Exclusive,
            "arith.shli" => Code::ShiftLeft,
            "arith.shrsi" | "arith.shrui" => Code::ShiftRight,
            "arith.cmpi" => (module.integer_attribute(op, "predicate"))
                .and_then(Comparison::read)
                .map_or(Code::Data, Code::Compare),
            "arith.select" => Code::Select,
            "arith.extsi"
            | "arith.extui"
            | "arith.trunci"
            | "arith.index_cast"
            | "arith.index_castui"
            | "tpu.assume_multiple" => Code::Same,
            "tpu.core_id" | "tpu.device_id" => Code::Constant(0),
            "memref.load" => {
                let memory = module.operands(op).first();
                let scalar = memory.and_then(|v| self.scalars[v.index()]);
                scalar.map_or(Code::Data, Code::Scalar)
            }
            _ => Code::Data,
        }
    }
}
