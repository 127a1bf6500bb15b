//! [`Walk`]: follows a kernel through one grid step and schedules its blocks.
//!
//! Scalars are computed, so that conditions are decided and loop trips known; vectors are placed on
//! the units of the core. A predicated region, a loop body and what stands between them are blocks of
//! their own: the compiler's scheduler does not move work across a branch.

use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};
use tilecast_tpu::mosaic::tpu::{MemorySpace, memory_space};
use tilecast_tpu::mosaic::{self as ir, Module, Op, TypeKind};

use super::block::Block;
use super::memo::Memo;
use super::runs::{Constant, Run, Runs};
use super::unit::{Machine, Unit};
use super::usage::Usage;
use super::vector::Vector;
use super::{Code, Region, ScheduleError, StepSchedule};
use crate::signature::Signature;

mod conversions;
mod copies;
mod known;
mod loops;
mod memory;
mod operations;
mod repeats;
mod rows;
mod scalars;
mod sums;
mod transposes;
mod turns;
mod values;

use known::Remembered;
pub(super) use memory::forwards;
use repeats::Repeats;
pub(crate) use scalars::ScalarOp;
use turns::Turn;

/// What a value is known to be.
#[derive(Clone, Debug)]
pub(super) enum Known {
    /// Nothing yet, or nothing a schedule needs.
    Nothing,
    /// A number; none if it depends on data.
    Scalar(Option<i64>),
    /// Registers.
    Vector(Rc<Vector>),
    /// A part of a memory.
    Memory(Rc<View>),
}

/// A part of a memory.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct View {
    /// The argument or allocation it is a part of.
    pub(crate) root: usize,
    /// Whether it is in VMEM.
    pub(crate) vmem: bool,
    /// First element along each dimension of the root; none if it depends on data.
    pub(crate) start: Option<Vec<i64>>,
    /// Dimensions of the root that the view still has.
    pub(crate) kept: Vec<usize>,
    /// Its sizes, [`DYNAMIC`](ir::DYNAMIC) where they depend on data.
    pub(crate) shape: Vec<i64>,
    /// How many of its rows a row of the root has, whose elements are so many times as wide.
    pub(crate) rows_per_word: i64,
}

/// A part of a memory that was written in the block, and what with.
#[derive(Clone, Debug)]
struct Stored {
    start: Vec<i64>,
    size: Vec<i64>,
    end: f64,
    value: Rc<Vector>,
    /// The same in the program.
    source: ir::Value,
    /// The turn of the matrix units in which it was.
    turn: usize,
    /// Operations of the block until then.
    operations: f64,
}

/// What was stored where rows of registers of a load come from.
#[derive(Clone, Debug)]
struct Passed {
    /// First row and the one after the last.
    rows: [usize; 2],
    value: Rc<Vector>,
    /// The same in the program.
    source: ir::Value,
}

/// A part of a memory that is loaded once: for products side by side, which are those of a turn, or for all of a block
/// without products.
#[derive(PartialEq, Eq, Hash, Debug)]
struct Loaded {
    root: usize,
    start: Vec<i64>,
    size: Vec<i64>,
    bits: u32,
    transposed: bool,
    turn: usize,
}

/// A kernel at one grid step after the other.
pub(super) struct Walk<'m> {
    module: &'m Module,
    signature: &'m Signature,
    machine: &'m Machine,
    known: Vec<Known>,
    /// What is known of values in every step: constants, and arguments but for grid indices.
    constants: Vec<Known>,
    /// Values of which something else is known in this step, by their numbers: few, where most blocks are remembered.
    changed: Vec<usize>,
    block: Block<'m>,
    stored: FxHashMap<usize, Vec<Stored>>,
    /// What loads find in registers, by their results.
    passed_on: FxHashMap<ir::Value, Vec<Passed>>,
    /// The first value of the block that is transposed.
    transposed: Option<ir::Value>,
    loaded: FxHashMap<Loaded, (ir::Value, Rc<Vector>)>,
    repeats: Repeats,
    turn: Turn,
    /// The operations that follow in the block.
    rest: &'m [Op],
    /// How many follow, and the one itself, when the last operation comes that what was scheduled before relies on.
    relied_on_until: usize,
    runs: &'m Runs,
    memo: &'m Memo,
    /// How the block is to be remembered, if it is.
    remembered: Option<Remembered>,
    /// Memories that are only read where they were written in the same block.
    forwarded: &'m [bool],
    /// For each memory, whether it was read from VMEM in any of the steps.
    pub(crate) read: Vec<bool>,
    usage: &'m Usage,
    /// For each value, whether it is known only at run time.
    varies: &'m [bool],
    /// For each value, whether it depends on prefetched scalars.
    by_scalars: &'m [bool],
    /// For each value, whether it depends on what was computed in vectors.
    computed: &'m [bool],
    /// Branches, and which of their regions, that no step has taken so far, but whose registers are known.
    passed_by: FxHashSet<(Op, usize)>,
    /// Memories of prefetched scalars that the kernel stores, and what it stores if that is always the same.
    stored_scalars: &'m FxHashMap<usize, Option<i64>>,
    /// Memories of prefetched scalars and their elements, zeros where there are none; without those whose elements it
    /// changes.
    scalars: FxHashMap<usize, Option<Vec<i64>>>,
    /// The first block after the last branch.
    since: usize,
    done: StepSchedule,
}

impl<'m> Walk<'m> {
    pub(crate) fn new(
        (module, signature, code): (&'m Module, &'m Signature, &'m Code),
        machine: &'m Machine,
        forwarded: &'m [bool],
        memo: &'m Memo,
    ) -> Self {
        let mut walk = Self {
            module,
            signature,
            machine,
            known: vec![Known::Nothing; module.value_count()],
            constants: Vec::new(),
            changed: Vec::new(),
            block: Block::new(machine, 1),
            stored: FxHashMap::default(),
            passed_on: FxHashMap::default(),
            transposed: None,
            loaded: FxHashMap::default(),
            repeats: Repeats::new(module.value_count()),
            turn: Turn::default(),
            rest: &[],
            relied_on_until: usize::MAX,
            runs: &code.runs,
            memo,
            remembered: None,
            forwarded,
            read: vec![false; module.value_count()],
            usage: &code.usage,
            varies: &code.varies,
            by_scalars: &code.by_scalars,
            computed: &code.computed,
            passed_by: FxHashSet::default(),
            stored_scalars: &code.stored_scalars,
            scalars: FxHashMap::default(),
            since: 0,
            done: StepSchedule::default(),
        };
        for &(value, constant) in code.runs.constants() {
            walk.known[value.index()] = match constant {
                Constant::Scalar(number) => Known::Scalar(number),
                Constant::Vector => Known::Vector(Rc::new(Vector::constant(walk.bits(value)))),
            };
        }
        let entry = module.entry(signature.function, 0);
        for &argument in entry.map_or(&[][..], |entry| module.arguments(entry)) {
            walk.known[argument.index()] = walk.argument(argument);
        }
        walk.constants.clone_from(&walk.known);
        walk.changed.clear();
        walk
    }

    /// Runs the function with these grid indices and prefetched scalars; other arguments are memories
    /// or unknown.
    pub(crate) fn run(
        &mut self,
        at: &[i64],
        prefetched: &[Option<Vec<i64>>],
    ) -> Result<StepSchedule, ScheduleError> {
        let Some(entry) = self.module.entry(self.signature.function, 0) else {
            return Ok(StepSchedule::default());
        };
        for index in self.changed.drain(..) {
            self.known[index].clone_from(&self.constants[index]);
        }
        self.repeats.reset();
        self.since = 0;
        self.scalars = (self.signature.scalars.iter().enumerate())
            .filter_map(|(i, value)| {
                let elements = match self.stored_scalars.get(&value.index()) {
                    // All steps but the first find what one before them has stored.
                    Some(&stored) => Some(vec![stored?]),
                    None => prefetched.get(i).cloned().flatten(),
                };
                Some((value.index(), elements))
            })
            .collect();
        for (&index, argument) in at.iter().zip(self.module.arguments(entry)) {
            self.know(argument.index(), Known::Scalar(Some(index)));
        }
        self.ops(entry)?;
        self.end_block();
        // Those of a loop were put where it begins and ends.
        self.done.transfers.sort_by_key(|transfer| transfer.after);
        Ok(std::mem::take(&mut self.done))
    }

    /// Notes what value `index` is.
    fn know(&mut self, index: usize, known: Known) {
        self.known[index] = known;
        self.changed.push(index);
    }

    fn argument(&self, value: ir::Value) -> Known {
        match self.module.value_kind(value) {
            TypeKind::Memref { shape, .. } => Known::Memory(Rc::new(View {
                root: value.index(),
                vmem: self.in_vmem(value),
                start: Some(vec![0; shape.len()]),
                kept: (0..shape.len()).collect(),
                shape: shape.clone(),
                rows_per_word: 1,
            })),
            TypeKind::Vector { .. } => Known::Nothing,
            _ => Known::Scalar(None),
        }
    }

    fn in_vmem(&self, value: ir::Value) -> bool {
        let space = memory_space(self.module, self.module.value_type(value));
        matches!(space, None | Some(MemorySpace::Vmem))
    }

    fn ops(&mut self, block: ir::Block) -> Result<Vec<ir::Value>, ScheduleError> {
        let ops = self.runs.ops(self.module, block);
        let mut next = 0;
        while let Some(&op) = ops.get(next) {
            if let Some(run) = self.runs.starting_with(op) {
                if run.closed && self.remember(run) {
                    next = run.ops.end;
                    continue;
                }
                self.block.begin_sums_last(run.sums_last);
                if run.plain {
                    let critical = self.critical_path(ops, run)?;
                    self.block.begin_plain(critical);
                }
            }
            self.solved_up_to(next, ops.len() - next);
            if let Some(results) = self.next_op(ops, next)? {
                return Ok(results);
            }
            next += 1;
        }
        Ok(Vec::new())
    }

    /// The longest way through a block without products, if each operation had a unit of its own: the block is placed
    /// as if, and forgotten.
    fn critical_path(&mut self, ops: &'m [Op], run: &Run) -> Result<f64, ScheduleError> {
        let remembered = self.remembered.take();
        self.block.begin_alone();
        for next in run.ops.clone() {
            self.next_op(ops, next)?;
        }
        let cycles = self.block.timeline.end();
        self.forget_block();
        self.remembered = remembered;
        Ok(cycles)
    }

    /// Places an operation; what the block hands on, if it is the last.
    fn next_op(
        &mut self,
        ops: &'m [Op],
        next: usize,
    ) -> Result<Option<Vec<ir::Value>>, ScheduleError> {
        let op = ops[next];
        self.rest = &ops[next + 1..];
        if self.dead(op) || self.repeated(op) {
            return Ok(None);
        }
        self.block.depends_on_sums(self.runs.depends_on_sums(op));
        match self.module.op_name(op) {
            "scf.if" => self.branch(op)?,
            "scf.for" => self.repeat(op)?,
            "scf.while" => self.repeat_while(op)?,
            "scf.condition" => return Ok(Some(self.module.operands(op)[1..].to_vec())),
            "scf.yield" | "func.return" | "tpu.yield" => {
                return Ok(Some(self.module.operands(op).to_vec()));
            }
            "tpu.region" | "tpu.trace" => self.inline(op)?,
            _ => self.op(op)?,
        }
        Ok(None)
    }

    /// Whether an operation only computes what nothing needs.
    fn dead(&self, op: Op) -> bool {
        let results = self.module.results(op);
        let effects = results.is_empty() || self.module.entry(op, 0).is_some();
        !effects && !results.iter().any(|&value| self.usage.live(value))
    }

    fn inline(&mut self, op: Op) -> Result<(), ScheduleError> {
        if let Some(body) = self.module.entry(op, 0) {
            let results = self.ops(body)?;
            self.copy(&results, self.module.results(op));
        }
        Ok(())
    }

    fn copy(&mut self, from: &[ir::Value], to: &[ir::Value]) {
        for (from, to) in from.iter().zip(to) {
            self.know(to.index(), self.known[from.index()].clone());
        }
    }

    fn end_block(&mut self) {
        let region = self.region();
        self.forget_block();
        let remembered = self.remembered.take();
        self.solved(remembered, region);
        self.done.regions.extend(region);
    }

    /// Goes on to an empty block.
    fn forget_block(&mut self) {
        self.block.next();
        self.stored.clear();
        self.passed_on.clear();
        self.transposed = None;
        self.loaded.clear();
        self.repeats.clear();
        self.turn = Turn::default();
        self.relied_on_until = usize::MAX;
    }

    /// The block so far, if it takes any cycles.
    fn region(&mut self) -> Option<Region> {
        let cycles = self.block.cycles();
        if cycles <= 0.0 {
            return None;
        }
        let registers = self.block.registers();
        Some(Region {
            times: 1.0,
            // Registers are assigned after the block is scheduled; stores and loads of what they do not hold find slots
            // free: fitted, they take no cycles.
            cycles,
            slots: Unit::ALL.map(|unit| self.block.timeline.taken(unit)),
            registers,
        })
    }

    fn branch(&mut self, op: Op) -> Result<(), ScheduleError> {
        let is_branch = self.varies[self.module.operands(op)[0].index()];
        let predicated = is_branch.then(|| self.predicated(op)).flatten();
        if is_branch {
            self.end_block();
            if predicated.is_none() {
                self.done.branch_cycles += self.branch_cycles();
            }
        }
        let condition = self.module.operands(op)[0];
        let taken = match self.scalar(condition) {
            Some(value) => value != 0,
            None if self.computed[condition.index()] => {
                if let Some(body) = self.module.entry(op, 0) {
                    self.exception(body)?;
                }
                false
            }
            None => {
                self.done.unknown_conditions += 1;
                true
            }
        };
        let region = usize::from(!taken);
        if let Some([then, otherwise]) = predicated {
            // What is not taken passes all the same.
            self.pass(if taken { otherwise } else { then });
        }
        if let Some(body) = self.module.entry(op, region) {
            let results = self.ops(body)?;
            self.copy(&results, self.module.results(op));
        }
        if is_branch {
            self.end_block();
            self.since = self.done.regions.len();
        }
        // Spills have their place whatever the scalars are.
        let other = usize::from(taken);
        if is_branch
            && self.by_scalars[condition.index()]
            && let Some(body) = self.module.entry(op, other)
            && self.passed_by.insert((op, other))
        {
            self.pass_by(body)?;
        }
        Ok(())
    }

    /// Cycles of a branch that the blocks since the last one are too short to hide.
    fn branch_cycles(&mut self) -> f64 {
        let before = &self.done.regions[self.since..];
        let hidden: f64 = before.iter().map(|region| region.cycles).sum();
        self.since = self.done.regions.len();
        (self.machine.branch_cycles - hidden).max(0.0)
    }

    fn unknown(&self, op: Op) -> ScheduleError {
        ScheduleError::UnknownOp {
            op: self.module.op_name(op).into(),
            line: self.module.line(op),
        }
    }
}
