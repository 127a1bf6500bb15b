//! Predicts the static schedule that the TPU compiler makes of a Mosaic module.
//!
//! The compiler unrolls vector operations into registers, places them on the slots of very long
//! instructions, one straight-line block at a time, and stores what does not fit in the registers.
//! This module does the same, in groups of registers and without its heuristics: each group takes the
//! first free slots of its unit after its operands are there.

mod account;
mod block;
mod digest;
mod memo;
mod order;
mod rates;
mod runs;
#[cfg(test)]
mod tests;
mod timeline;
mod unit;
mod usage;
mod vector;
mod walk;

use rustc_hash::FxHashMap;
use thiserror::Error;
use tilecast_tpu::mosaic::tpu::{MemorySpace, memory_space};
use tilecast_tpu::mosaic::{Module, TypeKind, Value};

use crate::grid::{Grid, Scalars};
use crate::signature::{Signature, Window};

pub(crate) use memo::Memo;
pub use rates::{Rates, STEP_PARTS};
use runs::Runs;
pub use unit::{Machine, Unit};
use usage::Usage;
pub(crate) use walk::ScalarOp;
use walk::{Walk, forwards};

/// Why a schedule cannot be predicted.
#[derive(Clone, PartialEq, Debug, Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// An operation that the model does not know.
    #[error("line {line}: the cost model does not know `{op}`")]
    UnknownOp {
        /// Its name.
        op: String,
        /// Its line in the text, 0 if there is none.
        line: u32,
    },
}

/// Which way a copy goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From HBM to VMEM.
    Load,
    /// From VMEM to HBM.
    Store,
}

/// What a kernel does about a copy of its own.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Transfer {
    /// Number of [blocks](StepSchedule::regions) before it.
    pub after: usize,
    /// Which way the copy goes.
    pub direction: Direction,
    /// Which semaphore says that it is done: a number that others of the kernel do not have.
    pub semaphore: u64,
    /// What is done.
    pub event: Event,
}

/// The start of a copy, or a wait for its end.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Event {
    /// It begins.
    Start {
        /// Size.
        bytes: f64,
        /// How often in a grid step, one after the other.
        times: f64,
    },
    /// Nothing goes on before the copy is done that began first of those that have the semaphore.
    Wait,
}

/// A straight-line block.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Region {
    /// How often it runs in a grid step.
    pub times: f64,
    /// Cycles of one run.
    pub cycles: f64,
    /// Slots taken in one run, in the order of [`Unit::ALL`].
    pub slots: [f64; Unit::COUNT],
    /// Most registers that hold values at once.
    pub registers: f64,
}

/// One grid step.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct StepSchedule {
    /// Its blocks, in order.
    pub regions: Vec<Region>,
    /// Copies it starts and waits for, in order.
    pub transfers: Vec<Transfer>,
    /// Cycles of branches that the blocks before them are too short to hide.
    pub branch_cycles: f64,
    /// Iterations of rolled loops.
    pub iterations: f64,
    /// Branches whose condition depends on data; taken to be taken.
    pub unknown_conditions: usize,
    /// Branches whose condition depends on vectors that the kernel has computed; taken to be passed by.
    pub exceptions: usize,
    /// Loops whose number of iterations depends on data; taken to be one.
    pub unknown_trips: usize,
}

impl StepSchedule {
    /// Cycles of the body.
    pub fn cycles(&self, machine: &Machine) -> f64 {
        let regions: f64 = self
            .regions
            .iter()
            .map(|region| region.times * region.cycles)
            .sum();
        regions + self.branch_cycles + self.iterations * machine.loop_cycles
    }

    /// Slots taken of a unit.
    pub fn slots(&self, unit: Unit) -> f64 {
        let slots = |region: &Region| region.times * region.slots[unit as usize];
        self.regions.iter().map(slots).sum()
    }
}

/// Grid steps that run the same code.
#[derive(Clone, PartialEq, Debug)]
pub struct StepKind {
    /// How many there are.
    pub times: u64,
    /// One of them.
    pub at: Vec<i64>,
    /// What each does.
    pub schedule: StepSchedule,
}

/// A kernel on one core.
#[derive(Clone, PartialEq, Debug)]
pub struct KernelSchedule {
    /// Kinds of steps.
    pub kinds: Vec<StepKind>,
    /// Number of operands with a window of which another step has another block.
    pub moving: usize,
    /// Number of operands with a window that is of one block in all steps.
    pub still: usize,
    /// Grid axes of more than one step.
    pub axes: usize,
    /// Whether scalars are prefetched.
    pub prefetched: bool,
    /// Scalars that index maps look up by what changes from step to step.
    pub looked_up: usize,
    /// Scratch that is never read where it is stored; the compiler drops it.
    pub dropped: Vec<usize>,
}

impl KernelSchedule {
    /// Cycles around the body of a step.
    pub fn step_cycles(&self, machine: &Machine) -> f64 {
        let [fixed, moving, still, axis, prefetched, look_up] = machine.step_cycles;
        let windows = self.moving + self.still;
        if windows == 0 {
            return 0.0;
        }
        if self.kinds.iter().map(|kind| kind.times).sum::<u64>() == 1 {
            // Nothing runs ahead: copies are started and waited for.
            return (windows - 1) as f64 * moving;
        }
        let of_windows = self.moving as f64 * moving + self.still as f64 * still;
        let scalars = f64::from(u8::from(self.prefetched)) * windows as f64 * prefetched;
        let looked_up = self.looked_up as f64 * look_up;
        (fixed + of_windows + scalars + self.axes as f64 * axis + looked_up).max(0.0)
    }

    /// Operations of the code on registers: slots of all units, of the matrix units a row of registers each. A block
    /// that steps of several kinds run counts once.
    pub fn operations(&self, machine: &Machine) -> f64 {
        let regions = self.kinds.iter().flat_map(|kind| &kind.schedule.regions);
        let mut blocks: Vec<&Region> = regions.collect();
        blocks.sort_by(|a, b| a.cycles.total_cmp(&b.cycles));
        blocks.dedup_by(|a, b| a.cycles == b.cycles && a.slots == b.slots);
        let cycles = [
            machine.target.vmatmul_bf16_cycles.value as f64,
            machine.target.matpush_bf16_cycles.value as f64,
        ];
        let operations = |block: &Region| {
            let [mxu, push, others @ ..] = block.slots;
            mxu / cycles[0] + push / cycles[1] + others.iter().sum::<f64>()
        };
        blocks.into_iter().map(operations).sum()
    }

    /// Most registers that hold values at once.
    pub fn registers(&self) -> f64 {
        (self.kinds.iter().flat_map(|kind| &kind.schedule.regions))
            .map(|region| region.registers)
            .fold(0.0, f64::max)
    }
}

/// The schedule of one step of each [body](Grid::bodies) of a grid; blocks that `memo` has are not made again.
///
/// # Errors
/// An operation that the model does not know.
pub(crate) fn schedule_grid(
    (module, signature, code): (&Module, &Signature, &Code),
    grid: &Grid,
    scalars: &Scalars,
    machine: &Machine,
    memo: &Memo,
) -> Result<KernelSchedule, ScheduleError> {
    let steps = |forwarded: &[bool]| -> Result<KernelSchedule, ScheduleError> {
        let mut walk = Walk::new((module, signature, code), machine, forwarded, memo);
        let mut kinds = Vec::with_capacity(grid.bodies.len());
        for body in &grid.bodies {
            kinds.push(StepKind {
                times: body.times,
                at: body.at.clone(),
                schedule: walk.run(&body.at, &scalars.prefetched)?,
            });
        }
        let read = walk.read;
        let windows = signature.operands.iter().filter_map(|o| o.window.as_ref());
        let (moving, still): (Vec<&Window>, _) =
            windows.partition(|window| signature.moves(window));
        Ok(KernelSchedule {
            kinds,
            moving: moving.len(),
            still: still.len(),
            axes: signature.bounds.iter().filter(|&&n| n > 1).count(),
            prefetched: !signature.scalars.is_empty(),
            looked_up: signature.looked_up(module),
            dropped: code.scratch.iter().copied().filter(|&i| !read[i]).collect(),
        })
    };
    let mut forwarded = vec![false; module.value_count()];
    let schedule = steps(&forwarded)?;
    if schedule.dropped.is_empty() {
        return Ok(schedule);
    }
    schedule.dropped.iter().for_each(|&i| forwarded[i] = true);
    steps(&forwarded)
}

/// What a schedule needs to know of the code, whatever the grid step.
#[derive(Clone, Debug)]
pub(crate) struct Code {
    usage: Usage,
    /// Scratch that may be dropped.
    scratch: Vec<usize>,
    /// For each value, whether it is known only at run time.
    varies: Vec<bool>,
    /// For each value, whether it depends on prefetched scalars.
    by_scalars: Vec<bool>,
    /// For each value, whether it depends on what was computed in vectors.
    computed: Vec<bool>,
    /// Prefetched scalars that the kernel stores itself: what a step loads, another may have stored. The number, if it
    /// can be but one.
    stored_scalars: FxHashMap<usize, Option<i64>>,
    runs: Runs,
}

impl Code {
    pub(crate) fn of(module: &Module, signature: &Signature, machine: &Machine) -> Self {
        let usage = Usage::of(module);
        let varies = signature.varies(module);
        let mut scratch = scratch(module, signature);
        let by_scalars = signature.by_scalars(module);
        let read_by_data = signature.read_by_data(module, &by_scalars, &|load| {
            forwards(module, &usage, machine, load)
        });
        scratch.retain(|value| !read_by_data.contains(value));
        Self {
            scratch,
            runs: Runs::of(
                module,
                signature,
                &usage,
                &varies,
                machine.rows_of_sums_last(),
            ),
            usage,
            varies,
            by_scalars,
            computed: signature.computed(module),
            stored_scalars: signature.stored_scalars(module),
        }
    }
}

/// Arguments that are scratch in VMEM. Nothing would be dropped with a semaphore, which no operation loads.
fn scratch(module: &Module, signature: &Signature) -> Vec<usize> {
    let is_vmem = |value: &Value| {
        let space = memory_space(module, module.value_type(*value));
        matches!(module.value_kind(*value), TypeKind::Memref { .. })
            && matches!(space, None | Some(MemorySpace::Vmem))
    };
    let scratch = signature.scratch.iter().filter(|value| is_vmem(value));
    scratch.map(|value| value.index()).collect()
}
