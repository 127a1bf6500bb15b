//! [`Program`]: the integer arithmetic of a function that tells grid steps apart.
//!
//! Of a kernel's body that is what its conditions and the bounds of its loops are computed from, as
//! far as they depend on grid indices; of an index map it is everything. The rest is left out, and the
//! values that are left are numbered anew, for a kernel has thousands that do not matter here.

use rustc_hash::FxHashMap;
use tilecast_tpu::mosaic::{AttributeKind, Block, Definition, Module, Op, TypeKind, Value};

use super::dependents::dependents;
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
    /// Values that are the same in all steps of a grid, and what they are.
    pub constants: Vec<(usize, i64)>,
    /// Arguments: grid indices and scalars.
    pub arguments: Vec<usize>,
    /// What an index map returns.
    pub results: Vec<usize>,
}

/// The numbers that programs have for the values of a module.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    of: FxHashMap<Value, usize>,
}

impl Numbers {
    fn of(&mut self, value: Value) -> usize {
        let next = self.of.len();
        *self.of.entry(value).or_insert(next)
    }

    fn of_all(&mut self, values: &[Value]) -> Vec<usize> {
        values.iter().map(|&value| self.of(value)).collect()
    }

    /// How many values have one.
    pub(super) fn count(&self) -> usize {
        self.of.len()
    }
}

/// What a program is to tell.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// The outcomes of conditions that depend on grid indices.
    ByGrid,
    /// The outcomes of conditions that depend on prefetched scalars.
    ByScalars,
    /// What the function returns.
    Results,
}

struct Compiler<'m> {
    module: &'m Module,
    /// Values that depend on a grid index.
    varies: Vec<bool>,
    needed: Vec<bool>,
    /// Prefetched scalars.
    scalars: &'m [Value],
    numbers: &'m mut Numbers,
    constants: Vec<(usize, i64)>,
}

impl Program {
    /// The conditions and loops of a kernel's body that depend on grid indices.
    pub(super) fn body(
        module: &Module,
        function: Op,
        sizes: [usize; 2],
        numbers: &mut Numbers,
    ) -> Self {
        Self::compile(module, function, sizes, Asked::ByGrid, numbers)
    }

    /// The conditions and loops of a kernel's body that depend on prefetched scalars.
    pub(super) fn by_scalars(
        module: &Module,
        function: Op,
        sizes: [usize; 2],
        numbers: &mut Numbers,
    ) -> Self {
        Self::compile(module, function, sizes, Asked::ByScalars, numbers)
    }

    /// An index map.
    pub(super) fn map(
        module: &Module,
        function: Op,
        sizes: [usize; 2],
        numbers: &mut Numbers,
    ) -> Self {
        Self::compile(module, function, sizes, Asked::Results, numbers)
    }

    /// Whether it computes sums of multiples of grid indices and scalars at fixed places, and nothing else.
    pub(super) fn is_affine(&self) -> bool {
        // Of what is computed, whether it is the same for all steps.
        let mut constants: FxHashMap<usize, bool> = FxHashMap::default();
        constants.extend(self.constants.iter().map(|&(index, _)| (index, true)));
        constants.extend(self.arguments.iter().map(|&index| (index, false)));
        let computed = self.steps.iter().all(|step| {
            let Step::Compute {
                code,
                operands,
                result,
            } = step
            else {
                return false;
            };
            let known = operands.iter().map(|value| constants.get(value).copied());
            let Some(known) = known.collect::<Option<Vec<bool>>>() else {
                return false;
            };
            let all = known.iter().all(|&constant| constant);
            constants.insert(*result, all);
            match code {
                Code::Constant(_) | Code::Add | Code::Subtract | Code::Same => true,
                Code::Multiply => known.contains(&true),
                Code::Scalar(_) => all,
                _ => false,
            }
        });
        computed && (self.results.iter()).all(|value| constants.contains_key(value))
    }

    /// Whether it reads prefetched scalars.
    pub(super) fn reads_scalars(&self) -> bool {
        fn read(steps: &[Step]) -> bool {
            steps.iter().any(|step| match step {
                Step::Compute { code, .. } => matches!(code, Code::Scalar(_)),
                Step::If { branches, .. } => branches.iter().any(|branch| read(branch)),
                Step::For { body, .. } => read(body),
            })
        }
        read(&self.steps)
    }

    /// Whether it computes all that it tells from grid indices and scalars, without loops.
    pub(super) fn is_straight(&self) -> bool {
        fn are(steps: &[Step]) -> bool {
            steps.iter().all(|step| match step {
                Step::Compute { code, .. } => *code != Code::Data,
                Step::If { branches, .. } => branches.iter().all(|branch| are(branch)),
                Step::For { .. } => false,
            })
        }
        are(&self.steps)
    }

    fn compile(
        module: &Module,
        function: Op,
        [axes, scalars]: [usize; 2],
        asked: Asked,
        numbers: &mut Numbers,
    ) -> Self {
        let Some(entry) = module.entry(function, 0) else {
            return Self::default();
        };
        let arguments = module.arguments(entry);
        let varies = match asked {
            Asked::ByGrid | Asked::Results => {
                dependents(module, function, &arguments[..axes.min(arguments.len())])
            }
            Asked::ByScalars => {
                let mut loaded = Vec::new();
                module.walk(function, &mut |op| {
                    if module.op_name(op) == "memref.load" {
                        loaded.extend(module.results(op));
                    }
                });
                dependents(module, function, &loaded)
            }
        };
        let mut compiler = Compiler {
            module,
            varies,
            needed: vec![false; module.value_count()],
            scalars: arguments.get(axes..axes + scalars).unwrap_or_default(),
            numbers,
            constants: Vec::new(),
        };
        let mut results = Vec::new();
        if asked == Asked::Results {
            let end = module.block_ops(entry).last();
            results = end.map_or(Vec::new(), |&op| module.operands(op).to_vec());
            results.iter().for_each(|&value| compiler.need(value));
        } else {
            compiler.need_conditions(function);
        }
        Self {
            steps: compiler.block(entry),
            constants: std::mem::take(&mut compiler.constants),
            arguments: compiler
                .numbers
                .of_all(&arguments[..axes.min(arguments.len())]),
            results: compiler.numbers.of_all(&results),
        }
    }
}

impl Compiler<'_> {
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

    fn yielded(&mut self, block: Block, to: &[Value], steps: &mut Vec<Step>) {
        let end = self.module.block_ops(block).last();
        let values = end.map_or(&[][..], |&end| self.module.operands(end));
        for (from, to) in values.iter().zip(to) {
            if self.needed[to.index()] {
                steps.push(Step::Compute {
                    code: Code::Same,
                    operands: vec![self.numbers.of(*from)],
                    result: self.numbers.of(*to),
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
                        condition: self.numbers.of(operands[0]),
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
                let end = module.block_ops(block).last();
                let next = end.map_or(&[][..], |&end| module.operands(end));
                let numbers = &mut self.numbers;
                steps.push(Step::For {
                    bounds: [0, 1, 2].map(|i| numbers.of(operands[i])),
                    tells,
                    arguments: numbers.of_all(module.arguments(block)),
                    initial: numbers.of_all(&operands[3..]),
                    next: numbers.of_all(next),
                    results: numbers.of_all(results),
                    body,
                });
            }
            _ if needed && results.len() == 1 => match self.code(op) {
                Code::Constant(value) => {
                    let result = self.numbers.of(results[0]);
                    self.constants.push((result, value));
                }
                code => steps.push(Step::Compute {
                    code,
                    operands: self.indices(op),
                    result: self.numbers.of(results[0]),
                }),
            },
            _ => {}
        }
    }

    /// A condition or bound that was not asked for before, since no grid step differs in it.
    fn need_now(&mut self, value: Value, steps: &mut Vec<Step>) {
        if self.needed[value.index()] {
            return;
        }
        if let Definition::Result(op, _) = self.module.definition(value) {
            let result = self.numbers.of(value);
            match self.code(op) {
                Code::Constant(number) => self.constants.push((result, number)),
                _ => steps.push(Step::Compute {
                    code: Code::Data,
                    operands: Vec::new(),
                    result,
                }),
            }
        }
    }

    fn indices(&mut self, op: Op) -> Vec<usize> {
        let skipped = usize::from(self.module.op_name(op) == "memref.load");
        let operands = self.module.operands(op);
        self.numbers
            .of_all(&operands[skipped.min(operands.len())..])
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
                let scalar = memory.and_then(|v| self.scalars.iter().position(|s| s == v));
                scalar.map_or(Code::Data, Code::Scalar)
            }
            _ => Code::Data,
        }
    }
}
