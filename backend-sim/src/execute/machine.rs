//! The interpreter: values, blocks, control.
//!
//! A value lives from the operation that makes it to its last use, so that a long straight-line
//! block holds only what is still needed.

use tilecast_tpu::mosaic::{self, Block, Definition, Module, Op};

use super::error::{ExecuteError, Fault, Located};
use super::leaf::Leaf;
use super::memory::Memory;
use super::tensor::{Element, Tensor, Value, elements};
use super::{access, elements as element_wise, product, reductions, shapes};

/// Calls inside of calls.
const CALL_DEPTH: usize = 64;

/// A module being interpreted.
#[derive(Debug)]
pub(super) struct Machine<'m> {
    pub(super) module: &'m Module,
    pub(super) memory: Memory,
    /// Grid indices, for messages.
    pub(super) step: Vec<i64>,
    /// Sizes of the grid.
    pub(super) bounds: Vec<i64>,
    values: Vec<Option<Value>>,
    /// For each operation, the values that nothing uses after it.
    dead: Vec<Vec<mosaic::Value>>,
    budget: u64,
    left: u64,
    depth: usize,
}

impl<'m> Machine<'m> {
    pub(super) fn new(module: &'m Module, memory: Memory, budget: u64) -> Self {
        Self {
            module,
            memory,
            step: Vec::new(),
            bounds: Vec::new(),
            values: vec![None; module.value_count()],
            dead: last_uses(module),
            budget,
            left: budget,
            depth: 0,
        }
    }

    /// A fault of an operation.
    pub(super) fn at(&self, op: Op, fault: Fault) -> ExecuteError {
        ExecuteError::Fault(Box::new(Located {
            op: self.module.op_name(op).into(),
            line: self.module.line(op),
            step: self.step.clone(),
            fault,
        }))
    }

    /// Takes element operations from the budget.
    pub(super) fn spend(&mut self, work: u64) -> Result<(), Fault> {
        let budget = self.budget;
        self.left = self
            .left
            .checked_sub(work)
            .ok_or(Fault::Budget { budget })?;
        Ok(())
    }

    /// Makes a whole memory undefined again.
    pub(super) fn poison(&mut self, buffer: usize) -> Result<(), Fault> {
        let len = self.memory.buffers[buffer].cells.len();
        self.spend(len as u64)?;
        self.memory.poison(buffer);
        Ok(())
    }

    /// Runs a function.
    pub(super) fn call(
        &mut self,
        function: Op,
        arguments: Vec<Value>,
    ) -> Result<Vec<Value>, ExecuteError> {
        let entry = self.module.entry(function, 0);
        let entry = entry.ok_or_else(|| {
            self.at(
                function,
                Fault::Unsupported("a function without a body".into()),
            )
        })?;
        if self.depth >= CALL_DEPTH {
            return Err(self.at(function, Fault::Unsupported("calls that deep".into())));
        }
        self.depth += 1;
        let result = self.block(function, entry, arguments);
        self.depth -= 1;
        Ok(result?.1)
    }

    fn value(&self, value: mosaic::Value) -> Result<Value, Fault> {
        let before = Fault::Malformed("an operand is used before it is made");
        self.values[value.index()].clone().ok_or(before)
    }

    fn operands(&self, op: Op) -> Result<Vec<Value>, Fault> {
        self.module
            .operands(op)
            .iter()
            .map(|&value| self.value(value))
            .collect()
    }

    /// Runs a block of `owner`; returns the operation it ends in and that one's operands.
    fn block(
        &mut self,
        owner: Op,
        block: Block,
        arguments: Vec<Value>,
    ) -> Result<(Option<Op>, Vec<Value>), ExecuteError> {
        let module = self.module;
        let names = module.arguments(block);
        if names.len() != arguments.len() {
            return Err(self.at(owner, Fault::Malformed("a block gets the wrong arguments")));
        }
        for (name, value) in names.iter().zip(arguments) {
            self.values[name.index()] = Some(value);
        }
        for &op in module.block_ops(block) {
            let ends = matches!(
                module.op_name(op),
                "func.return" | "scf.yield" | "scf.condition" | "tpu.yield"
            );
            if ends {
                let handed = self.operands(op).map_err(|fault| self.at(op, fault))?;
                self.bury(op);
                return Ok((Some(op), handed));
            }
            let results = self.op(op)?;
            if results.len() != module.results(op).len() {
                return Err(self.at(op, Fault::Malformed("it has the wrong number of results")));
            }
            for (name, value) in module.results(op).iter().zip(results) {
                self.values[name.index()] = Some(value);
            }
            self.bury(op);
        }
        Ok((None, Vec::new()))
    }

    /// Forgets what is not used after `op`.
    fn bury(&mut self, op: Op) {
        for value in &self.dead[op.index()] {
            self.values[value.index()] = None;
        }
    }

    fn op(&mut self, op: Op) -> Result<Vec<Value>, ExecuteError> {
        self.spend(1).map_err(|fault| self.at(op, fault))?;
        match self.module.op_name(op) {
            "scf.if" => self.branch(op),
            "scf.for" => self.for_loop(op),
            "scf.while" => self.while_loop(op),
            "tpu.region" => self.region(op),
            "func.call" => self.function_call(op),
            _ => {
                let result = self.leaf(op).map_err(|fault| self.at(op, fault))?;
                Ok(result.into_iter().collect())
            }
        }
    }

    fn leaf(&mut self, op: Op) -> Result<Option<Value>, Fault> {
        let leaf = Leaf {
            module: self.module,
            op,
            name: self.module.op_name(op),
            operands: self.operands(op)?,
        };
        if let Ok((shape, _)) = leaf.result() {
            self.spend(elements(&shape)? as u64)?;
        }
        for operand in &leaf.operands {
            if let Value::Tensor(tensor) = operand {
                self.spend(tensor.len() as u64)?;
            }
        }
        if let Some(result) = access::evaluate(self, &leaf) {
            return result;
        }
        if leaf.name == "tpu.matmul" {
            self.spend(product::work(&leaf))?;
            return Ok(Some(product::matmul(&leaf)?.into()));
        }
        let result = element_wise::evaluate(&leaf)
            .or_else(|| shapes::evaluate(&leaf))
            .or_else(|| reductions::evaluate(&leaf));
        Ok(Some(result.unwrap_or(Err(Fault::UnknownOp))?.into()))
    }

    // ---- control ------------------------------------------------------------------------------

    fn entry(&self, op: Op, region: usize) -> Result<Block, ExecuteError> {
        let entry = self.module.entry(op, region);
        entry.ok_or_else(|| self.at(op, Fault::Malformed("a region is missing")))
    }

    /// The tensors among the operands of `op`, or a fault.
    fn checked<T>(
        &self,
        op: Op,
        values: impl FnOnce(&Self) -> Result<T, Fault>,
    ) -> Result<T, ExecuteError> {
        values(self).map_err(|fault| self.at(op, fault))
    }

    fn branch(&mut self, op: Op) -> Result<Vec<Value>, ExecuteError> {
        let condition = self.checked(op, |machine| match &machine.operands(op)?[..] {
            [condition] => condition.tensor()?.one_int(),
            _ => Err(Fault::Malformed("it has one operand")),
        })?;
        let region = usize::from(condition == 0);
        match self.module.entry(op, region) {
            Some(block) => Ok(self.block(op, block, Vec::new())?.1),
            None => Ok(Vec::new()),
        }
    }

    fn for_loop(&mut self, op: Op) -> Result<Vec<Value>, ExecuteError> {
        let bounds = Fault::Malformed("a loop has three bounds");
        let (numbers, element, mut carried) = self.checked(op, |machine| {
            let mut operands = machine.operands(op)?;
            if operands.len() < 3 {
                return Err(bounds);
            }
            let carried = operands.split_off(3);
            let element = operands[0].tensor()?.element;
            let numbers: Vec<i64> = operands
                .iter()
                .map(|o| o.tensor()?.one_int())
                .collect::<Result<_, _>>()?;
            Ok((numbers, element, carried))
        })?;
        let (mut counter, end, step) = (numbers[0], numbers[1], numbers[2]);
        if step <= 0 {
            return Err(self.at(op, Fault::Malformed("the step of a loop must be positive")));
        }
        let body = self.entry(op, 0)?;
        while counter < end {
            self.spend(1).map_err(|fault| self.at(op, fault))?;
            let mut arguments = vec![Tensor::int(element, counter).into()];
            arguments.append(&mut carried);
            carried = self.block(op, body, arguments)?.1;
            let Some(next) = counter.checked_add(step) else {
                break;
            };
            counter = next;
        }
        Ok(carried)
    }

    fn while_loop(&mut self, op: Op) -> Result<Vec<Value>, ExecuteError> {
        let mut carried = self.checked(op, |machine| machine.operands(op))?;
        let (before, after) = (self.entry(op, 0)?, self.entry(op, 1)?);
        loop {
            self.spend(1).map_err(|fault| self.at(op, fault))?;
            let (_, mut handed) = self.block(op, before, carried)?;
            if handed.is_empty() {
                return Err(self.at(op, Fault::Malformed("the condition decides nothing")));
            }
            let more = handed.remove(0);
            let more = self.checked(op, |_| more.tensor()?.one_int())?;
            if more == 0 {
                return Ok(handed);
            }
            carried = self.block(op, after, handed)?.1;
        }
    }

    /// A scope of its own for allocations.
    fn region(&mut self, op: Op) -> Result<Vec<Value>, ExecuteError> {
        let memories = self.memory.buffers.len();
        let block = self.entry(op, 0)?;
        let handed = self.block(op, block, Vec::new())?.1;
        self.memory
            .release(memories)
            .map_err(|fault| self.at(op, fault))?;
        Ok(handed)
    }

    fn function_call(&mut self, op: Op) -> Result<Vec<Value>, ExecuteError> {
        let callee = self.module.string_attribute(op, "callee");
        let function = callee.and_then(|name| self.module.function(name));
        let Some(function) = function else {
            return Err(self.at(op, Fault::Malformed("the function is not there")));
        };
        let arguments = self.checked(op, |machine| machine.operands(op))?;
        self.call(function, arguments)
    }

    /// A number as a value.
    pub(super) fn number(value: i64) -> Value {
        Tensor::int(Element::Int(32), value).into()
    }
}

/// For each operation, the values made in its block whose last use it is or holds.
fn last_uses(module: &Module) -> Vec<Vec<mosaic::Value>> {
    let home = |value| match module.definition(value) {
        Definition::Result(op, _) => module.op_block(op),
        Definition::Argument(block, _) => Some(block),
    };
    let mut last: Vec<Option<Op>> = vec![None; module.value_count()];
    module.walk(module.root(), &mut |op| {
        for &result in module.results(op) {
            last[result.index()] = Some(op);
        }
        for &value in module.operands(op) {
            // The operation around the use that stands in the block of the definition.
            let (home, mut user) = (home(value), op);
            while module.op_block(user) != home {
                let around = module
                    .op_block(user)
                    .map(|block| module.block_region(block));
                let Some(outer) = around.and_then(|region| module.region_op(region)) else {
                    return;
                };
                user = outer;
            }
            last[value.index()] = Some(user);
        }
    });
    let mut dead = vec![Vec::new(); module.op_count()];
    module.walk(module.root(), &mut |op| {
        let defined = module.results(op).iter().copied();
        let blocks = module
            .regions(op)
            .iter()
            .flat_map(|&region| module.blocks(region));
        let arguments = blocks.flat_map(|&block| module.arguments(block).iter().copied());
        for value in defined.chain(arguments) {
            if let Some(user) = last[value.index()] {
                dead[user.index()].push(value);
            }
        }
    });
    dead
}
