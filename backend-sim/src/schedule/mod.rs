//! Predicts the static schedule that the TPU compiler makes of a Mosaic module.
//!
//! The compiler unrolls vector operations into registers, places them on the slots of very long
//! instructions, one straight-line block at a time, and stores what does not fit in the registers.
//! [`schedule`] does the same, in groups of registers and without its heuristics: each group takes the
//! first free slots of its unit after its operands are there.

mod account;
mod block;
#[cfg(test)]
mod tests;
mod timeline;
mod unit;
mod usage;
mod vector;
mod walk;

use std::collections::HashMap;

use thiserror::Error;
use tilecast_tpu::mosaic::tpu::DimensionSemantics;
use tilecast_tpu::mosaic::{AttributeKind, Module, Op, TypeKind};

pub use unit::{Machine, Unit};
use usage::Usage;
use walk::Walk;

/// Why a schedule cannot be predicted.
#[derive(Clone, PartialEq, Debug, Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// The module has no kernel.
    #[error("the module has no function with a body")]
    NoKernel,
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

/// A copy that a kernel makes itself.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Transfer {
    /// Which way.
    pub direction: Direction,
    /// Size.
    pub bytes: f64,
    /// How often in a grid step.
    pub times: f64,
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
    /// Copies it starts.
    pub transfers: Vec<Transfer>,
    /// Branches taken or not.
    pub branches: f64,
    /// Iterations of rolled loops.
    pub iterations: f64,
    /// Branches whose condition depends on data; taken to be taken.
    pub unknown_conditions: usize,
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
        regions + self.branches * machine.region_cycles + self.iterations * machine.loop_cycles
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
    /// Number of operands with a window.
    pub windows: usize,
    /// Grid axes of more than one step.
    pub axes: usize,
    /// Whether scalars are prefetched.
    pub prefetched: bool,
    /// Scratch that is never read where it is stored; the compiler drops it.
    pub dropped: Vec<usize>,
}

impl KernelSchedule {
    /// Cycles of all steps, copies not waited for.
    pub fn cycles(&self, machine: &Machine) -> f64 {
        let around = self.step_cycles(machine);
        let steps: f64 = (self.kinds.iter())
            .map(|kind| kind.times as f64 * (kind.schedule.cycles(machine) + around))
            .sum();
        // A pipeline of several steps starts with one that only fetches and ends with one that only writes.
        let count: u64 = self.kinds.iter().map(|kind| kind.times).sum();
        steps + if count > 1 { 2.0 * around } else { 0.0 }
    }

    /// Cycles around the body of a step.
    pub fn step_cycles(&self, machine: &Machine) -> f64 {
        let [fixed, window, axis, prefetched] = machine.step_cycles;
        let windows = self.windows as f64;
        let scalars = f64::from(u8::from(self.prefetched));
        if self.windows == 0 {
            return 0.0;
        }
        (fixed + windows * (window + scalars * prefetched) + self.axes as f64 * axis).max(0.0)
    }

    /// Most registers that hold values at once.
    pub fn registers(&self) -> f64 {
        (self.kinds.iter().flat_map(|kind| &kind.schedule.regions))
            .map(|region| region.registers)
            .fold(0.0, f64::max)
    }
}

/// The schedule of the kernel of `module`.
///
/// # Errors
/// No kernel, or an operation that the model does not know.
pub fn schedule(module: &Module, machine: &Machine) -> Result<KernelSchedule, ScheduleError> {
    let is_kernel = |&function: &Op| {
        let has = |name| module.attribute_of(function, name).is_some();
        has("iteration_bounds") || has("window_params") || has("tpu.core_type")
    };
    let function = (module.functions().find(is_kernel))
        .or_else(|| module.functions().next())
        .ok_or(ScheduleError::NoKernel)?;
    let bounds = module
        .integers_attribute(function, "iteration_bounds")
        .unwrap_or_default();
    let windows = match module.attribute_kind_of(function, "window_params") {
        Some(AttributeKind::Array(list)) => list.len(),
        _ => 0,
    };
    let parallel: Vec<bool> = match module.attribute_kind_of(function, "dimension_semantics") {
        Some(AttributeKind::Array(list)) => (list.iter())
            .map(|&a| DimensionSemantics::read(module, a) == Some(DimensionSemantics::Parallel))
            .collect(),
        _ => Vec::new(),
    };
    let axes = bounds.iter().filter(|&&n| n > 1).count();
    let prefetched = module
        .integer_attribute(function, "scalar_prefetch")
        .unwrap_or(0)
        > 0;
    let usage = Usage::of(module);
    let mut forwarded = vec![false; module.value_count()];
    let scratch = scratch(module, function);
    let mut read = vec![false; module.value_count()];
    let mut kinds = Vec::new();
    for pass in 0..2 {
        kinds = steps(
            module, machine, function, &bounds, &parallel, &forwarded, &usage, &mut read,
        )?;
        let dropped: Vec<usize> = scratch.iter().copied().filter(|&i| !read[i]).collect();
        if dropped.is_empty() || pass == 1 {
            return Ok(KernelSchedule {
                kinds,
                windows,
                axes,
                prefetched,
                dropped,
            });
        }
        dropped.iter().for_each(|&i| forwarded[i] = true);
    }
    Ok(KernelSchedule {
        kinds,
        windows,
        axes,
        prefetched,
        dropped: Vec::new(),
    })
}

fn steps(
    module: &Module,
    machine: &Machine,
    function: Op,
    bounds: &[i64],
    parallel: &[bool],
    forwarded: &[bool],
    usage: &Usage,
    read: &mut [bool],
) -> Result<Vec<StepKind>, ScheduleError> {
    let mut kinds: Vec<StepKind> = Vec::new();
    let mut by_trace: HashMap<Vec<i64>, usize> = HashMap::new();
    let cores = if machine.target.name == "v5p" { 2 } else { 1 };
    // Leading parallel axes are dealt to the cores as one.
    let leading = parallel.iter().take_while(|&&parallel| parallel).count();
    let dealt: i64 = bounds.iter().take(leading).map(|&n| n.max(1)).product();
    let rest: i64 = bounds.iter().skip(leading).map(|&n| n.max(1)).product();
    let total = (dealt + cores - 1) / cores * rest;
    for number in 0..total {
        let mut rest = number;
        let mut at: Vec<i64> = Vec::new();
        for &n in bounds.iter().rev() {
            at.push(rest % n.max(1));
            rest /= n.max(1);
        }
        at.reverse();
        let edges: Vec<i64> = at
            .iter()
            .zip(bounds)
            .map(|(&i, &n)| i64::from(i == 0) + 2 * i64::from(i == n - 1))
            .collect();
        if let Some(&kind) = by_trace.get(&edges) {
            kinds[kind].times += 1;
            continue;
        }
        let walk = Walk::new(module, machine, forwarded, usage);
        let (schedule, reads) = walk.run(function, &at)?;
        for (all, one) in read.iter_mut().zip(reads) {
            *all |= one;
        }
        by_trace.insert(edges, kinds.len());
        kinds.push(StepKind {
            times: 1,
            at,
            schedule,
        });
    }
    Ok(kinds)
}

/// Arguments that are scratch in VMEM.
fn scratch(module: &Module, function: Op) -> Vec<usize> {
    let Some(entry) = module.entry(function, 0) else {
        return Vec::new();
    };
    let count = module
        .integer_attribute(function, "scratch_operands")
        .unwrap_or(0);
    let arguments = module.arguments(entry);
    let first = arguments
        .len()
        .saturating_sub(usize::try_from(count).unwrap_or(0));
    (arguments[first..].iter())
        .filter(|&&value| matches!(module.value_kind(value), TypeKind::Memref { .. }))
        .map(|value| value.index())
        .collect()
}
