//! [`judge`]: one kernel as the compiler gets it. Does it fit, how long does it take, what binds?
//!
//! Everything is read from the Mosaic module: [signature], [grid], [schedule] of each kind of step,
//! [VMEM ledger](crate::memory) with the registers that the schedule cannot hold, and the
//! [pipeline] of copies around it. So it judges kernels of this library and those of anyone else alike.
//!
//! [signature]: crate::signature
//! [grid]: crate::grid
//! [schedule]: crate::schedule
//! [pipeline]: crate::pipeline

use thiserror::Error;
use tilecast_core::target::Target;
use tilecast_tpu::lower::LowerError;
use tilecast_tpu::mosaic::{Module, VerifyError};

use crate::grid::{Grid, GridError, Scalars};
use crate::memory::{MemoryError, Registers, VmemLedger};
use crate::pipeline::{Bandwidth, Estimate, Pipeline};
use crate::prepared::Prepared;
use crate::schedule::{KernelSchedule, Machine, Memo, ScheduleError, Unit};
use crate::signature::SignatureError;
use crate::trace::Process;

/// Why a module cannot be judged.
#[derive(Clone, PartialEq, Debug, Error)]
#[non_exhaustive]
pub enum JudgeError {
    /// It breaks a rule of the dialects, and so it has no meaning that could be judged.
    #[error(transparent)]
    Invalid(#[from] Box<VerifyError>),
    /// It has no signature.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// Its grid cannot be read.
    #[error(transparent)]
    Grid(#[from] GridError),
    /// Its memory cannot be counted.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// Its steps cannot be scheduled.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// A kernel of this library that has no module.
    #[error(transparent)]
    Lower(#[from] LowerError),
}

/// Said where nothing but the ledger is known.
pub(crate) const WINDOWS_ALONE: &str =
    "windows alone do not fit; register spills would come on top";

/// A kernel on one core of a target.
#[derive(Clone, Debug)]
pub struct Judged {
    /// Windows, scratch and register spills.
    pub vmem: VmemLedger,
    /// Grid steps of the core.
    pub steps: u64,
    /// Cores of a device that have steps.
    pub cores: u64,
    /// Cycles and bytes; none where windows and scratch alone do not fit.
    pub time: Option<KernelTime>,
    /// What was taken to be so.
    pub assumptions: Vec<String>,
}

/// What a core does in a kernel, and for how long.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct KernelTime {
    /// Cycles, and bytes copied.
    pub estimate: Estimate,
    /// Slots taken of each unit in all steps, in the order of [`Unit::ALL`].
    pub slots: [f64; Unit::COUNT],
    /// Cycles of the scalar code around steps.
    pub scalar_cycles: f64,
    /// Operations of its code on registers.
    pub operations: f64,
}

/// The kernel of `module` on `target` against `limit_bytes` of VMEM, or the target's default limit.
/// `scalars` are the values that the kernel gets at run time.
///
/// # Errors
/// A module that breaks a rule of the dialects or is not understood; an operation without a cost is named with its
/// line.
pub fn judge(
    module: &Module,
    target: &'static Target,
    scalars: &Scalars,
    limit_bytes: Option<u64>,
) -> Result<Judged, JudgeError> {
    module.verify().map_err(Box::new)?;
    let kernel = Prepared::new(module.clone().into(), target)?;
    let grid = kernel.grid(kernel.bounds(), scalars, cores(target))?;
    let machine = Machine::new(target);
    judge_on(
        &kernel,
        &grid,
        scalars,
        limit_bytes,
        &machine,
        &Memo::default(),
    )
}

/// Like [`judge`], of a kernel on a core that runs `grid`, which was made with the same scalars. What the kernel and
/// `memo` have of schedules on this machine is not made again.
pub(crate) fn judge_on(
    kernel: &Prepared,
    grid: &Grid,
    scalars: &Scalars,
    limit_bytes: Option<u64>,
    machine: &Machine,
    memo: &Memo,
) -> Result<Judged, JudgeError> {
    // Whatever the schedule says of scratch and registers: the windows are there.
    if !kernel.ledger(grid, |_| true, limit_bytes)?.fits() {
        return Ok(Judged {
            vmem: kernel.ledger(grid, |_| false, limit_bytes)?,
            steps: grid.steps(),
            cores: grid.cores,
            time: None,
            assumptions: [&grid.assumptions[..], &[WINDOWS_ALONE.into()]].concat(),
        });
    }
    let schedule = kernel.schedule(grid, scalars, machine, memo)?;
    let vmem = kernel.ledger(grid, |value| schedule.dropped.contains(&value), limit_bytes)?;
    let vmem = vmem.with_spills(Registers {
        needed: schedule.registers() as u64,
        held: machine.registers as u64,
        bytes: machine.target.vreg_bytes.value,
    });
    let pipeline = kernel.pipeline(grid, &schedule, machine);
    Ok(Judged {
        vmem,
        steps: grid.steps(),
        cores: grid.cores,
        time: Some(KernelTime {
            estimate: pipeline.estimate(),
            slots: Unit::ALL.map(|unit| slots(&schedule, unit)),
            scalar_cycles: schedule.step_cycles(machine) * grid.steps() as f64,
            operations: schedule.operations(machine),
        }),
        assumptions: assumptions(grid, &schedule, &pipeline),
    })
}

/// What the kernel of `module` does in its first and last `steps` grid steps, by the name `title`.
///
/// # Errors
/// As for [`judge`].
pub fn trace(
    module: &Module,
    target: &'static Target,
    scalars: &Scalars,
    title: &str,
    steps: u64,
) -> Result<Process, JudgeError> {
    module.verify().map_err(Box::new)?;
    let kernel = Prepared::new(module.clone().into(), target)?;
    let grid = kernel.grid(kernel.bounds(), scalars, cores(target))?;
    let machine = Machine::new(target);
    let schedule = kernel.schedule(&grid, scalars, &machine, &Memo::default())?;
    let pipeline = kernel.pipeline(&grid, &schedule, &machine);
    Ok(Process {
        name: title.into(),
        intervals: pipeline.intervals(steps, Bandwidth::Published),
        windows: pipeline
            .windows
            .into_iter()
            .map(|window| format!("operand {}", window.operand))
            .collect(),
    })
}

/// Cores that share the steps of a grid.
pub(crate) fn cores(target: &Target) -> u64 {
    target.cores_per_device() as u64
}

fn slots(schedule: &KernelSchedule, unit: Unit) -> f64 {
    let of_kind = |kind: &crate::schedule::StepKind| kind.times as f64 * kind.schedule.slots(unit);
    schedule.kinds.iter().map(of_kind).sum()
}

fn assumptions(grid: &Grid, schedule: &KernelSchedule, pipeline: &Pipeline<'_>) -> Vec<String> {
    let mut lines = grid.assumptions.clone();
    let most = |f: fn(&crate::schedule::StepSchedule) -> usize| {
        (schedule.kinds.iter())
            .map(|kind| f(&kind.schedule))
            .max()
            .unwrap_or(0)
    };
    let conditions = most(|step| step.unknown_conditions);
    if conditions > 0 {
        lines.push(format!(
            "{conditions} conditions of a step depend on data; they are taken to hold"
        ));
    }
    let exceptions = most(|step| step.exceptions);
    if exceptions > 0 {
        lines.push(format!(
            "{exceptions} conditions of a step depend on what it has computed, such as a sum that may have become too large; they are taken not to hold"
        ));
    }
    let trips = most(|step| step.unknown_trips);
    if trips > 0 {
        lines.push(format!(
            "{trips} loops of a step run a number of times that depends on data; it is taken to be 1"
        ));
    }
    lines.extend(pipeline.copies.assumption.clone());
    lines
}
