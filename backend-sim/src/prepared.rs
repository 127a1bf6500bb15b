//! [`Prepared`]: what the module of a kernel says, read once for all grids and scalars that it is judged with.
//!
//! The calls of a loop differ in their scalars, and candidates of a search in the bounds of their grids. Neither
//! changes what the operations of a step are, which values depend on what, how large the buffers are. And a
//! schedule depends on scalars and bounds only through the outcomes of conditions, so it is made once for
//! equal outcomes.

use std::cell::{OnceCell, RefCell};

use tilecast_core::target::Target;
use tilecast_tpu::mosaic::Module;

use crate::grid::{Grid, GridError, Programs, Scalars};
use crate::judge::JudgeError;
use crate::memory::{Allocations, MemoryError, VmemLedger};
use crate::parts::{Parts, Rest, extend};
use crate::pipeline::{Pipeline, WindowCopy, buffered, windows};
use crate::schedule::{Code, KernelSchedule, Machine, Memo, ScheduleError, schedule_grid};
use crate::signature::Signature;

/// A kernel on a target.
#[derive(Debug)]
pub(crate) struct Prepared {
    text: Text,
    /// The same with fewer sub-tiles, and how often the sub-tiles that it lacks are missing.
    shorter: Option<(Text, f64)>,
    programs: Programs,
    allocations: Allocations,
    windows: Vec<WindowCopy>,
    /// Schedules by the outcomes of the conditions of each body.
    schedules: RefCell<Vec<(Vec<Vec<i64>>, KernelSchedule)>>,
}

/// A module and what its steps are.
#[derive(Debug)]
struct Text {
    module: Module,
    signature: Signature,
    /// Read when a schedule is asked for, which takes longer than all else: windows that do not fit need none.
    code: OnceCell<Code>,
}

impl Text {
    fn read(module: Module) -> Result<Self, JudgeError> {
        let signature = Signature::read(&module)?;
        Ok(Self {
            module,
            signature,
            code: OnceCell::new(),
        })
    }

    fn schedule(
        &self,
        grid: &Grid,
        scalars: &Scalars,
        machine: &Machine,
        memo: &Memo,
    ) -> Result<KernelSchedule, ScheduleError> {
        let code = || Code::of(&self.module, &self.signature, machine);
        let kernel = (&self.module, &self.signature, self.code.get_or_init(code));
        schedule_grid(kernel, grid, scalars, machine, memo)
    }
}

impl Prepared {
    /// The kernel that has these parts.
    ///
    /// # Errors
    /// A module that is not understood.
    pub(crate) fn new(parts: Parts, target: &'static Target) -> Result<Self, JudgeError> {
        let Parts { module, rest } = parts;
        let shorter = |Rest { shorter, times }| Ok::<_, JudgeError>((Text::read(shorter)?, times));
        let shorter = rest.map(shorter).transpose()?;
        let text = Text::read(module)?;
        let (module, signature) = (&text.module, &text.signature);
        Ok(Self {
            programs: Programs::of(module, signature)?,
            allocations: Allocations::read(module, signature, target)?,
            windows: windows(module, signature, target)?,
            schedules: RefCell::default(),
            shorter,
            text,
        })
    }

    /// Steps along each axis, as the module has them.
    pub(crate) fn bounds(&self) -> &[i64] {
        &self.text.signature.bounds
    }

    /// The steps of a core, as [`Grid::new`], with these bounds. An axis of one step has one, and one of several
    /// has several, as in the module.
    ///
    /// # Errors
    /// As for [`Grid::new`].
    pub(crate) fn grid(
        &self,
        bounds: &[i64],
        scalars: &Scalars,
        cores: u64,
    ) -> Result<Grid, GridError> {
        let Text {
            module, signature, ..
        } = &self.text;
        (self.programs).grid(module, signature, bounds, scalars, cores)
    }

    /// Whether it matters which scalars it gets.
    pub(crate) fn reads_scalars(&self) -> bool {
        self.programs.reads_scalars()
    }

    /// The VMEM on a core that runs `grid`, spills left out, if `is_dropped` tells the scratch that the compiler drops.
    ///
    /// # Errors
    /// As for [`Allocations::ledger`].
    pub(crate) fn ledger(
        &self,
        grid: &Grid,
        is_dropped: impl Fn(usize) -> bool,
        limit_bytes: Option<u64>,
    ) -> Result<VmemLedger, MemoryError> {
        (self.allocations).ledger(&self.text.signature, grid, is_dropped, limit_bytes)
    }

    /// The schedule of the steps of `grid`, which was made with the same scalars.
    ///
    /// # Errors
    /// An operation that the model does not know.
    pub(crate) fn schedule(
        &self,
        grid: &Grid,
        scalars: &Scalars,
        machine: &Machine,
        memo: &Memo,
    ) -> Result<KernelSchedule, ScheduleError> {
        let outcomes = || grid.bodies.iter().map(|body| &body.outcomes);
        let known = self.schedules.borrow();
        if let Some((_, known)) = known.iter().find(|(known, _)| known.iter().eq(outcomes())) {
            let mut schedule = known.clone();
            for (kind, body) in schedule.kinds.iter_mut().zip(&grid.bodies) {
                kind.times = body.times;
                kind.at.clone_from(&body.at);
            }
            return Ok(schedule);
        }
        drop(known);
        let mut schedule = self.text.schedule(grid, scalars, machine, memo)?;
        if let Some((shorter, times)) = &self.shorter {
            let shorter = shorter.schedule(grid, scalars, machine, memo)?;
            extend(&mut schedule, &shorter, *times);
        }
        let known = (outcomes().cloned().collect(), schedule.clone());
        self.schedules.borrow_mut().push(known);
        Ok(schedule)
    }

    /// The steps of `grid` with the copies around them.
    pub(crate) fn pipeline<'g>(
        &self,
        grid: &'g Grid,
        schedule: &KernelSchedule,
        machine: &Machine,
    ) -> Pipeline<'g> {
        let windows = buffered(&self.windows, &self.text.signature, grid);
        Pipeline::new(windows, grid, schedule, machine)
    }
}
