//! The time of a kernel: its steps, and the copies around and in them.
//!
//! While a step computes, the pipeline copies the blocks that the next step needs and that the step before has written.
//! So a step begins when its blocks are there, and ends no sooner than the blocks written by the step before are away.
//! The first blocks are fetched before, and the last written back after everything. A copy takes a latency and its
//! bytes at a rate; how copies that overlap share the bandwidth is not published, so there are three [`Bandwidth`]s:
//! the compiler's own model, in which they do not, the opposite, and one between.
//!
//! # Not visiting every step
//!
//! A step turns a few times (of the core, of the last fetch, of the last write, of the channel to HBM, of the kernel's
//! own copies) into new ones, by additions of constants and maxima only. Such functions are matrices over (max, +) and
//! compose as matrices do; so a run of a million equal steps is a power, computed in 20 products, exactly.

mod copies;
mod log;
mod own;
mod state;
#[cfg(test)]
mod tests;

pub use copies::{Bandwidth, Copies, devices_per_chip};
pub use log::{Interval, Lane};

use tilecast_core::target::Target;
use tilecast_tpu::mosaic::Module;
use tilecast_tpu::mosaic::tpu::MemorySpace;

use crate::grid::{Grid, Node};
use crate::memory::{MemoryError, block_bytes, buffers};
use crate::schedule::{
    Direction, Event, KernelSchedule, Machine, Region, StepSchedule, Transfer, Unit,
};
use crate::signature::Signature;
use log::Log;
use own::own_copies;
use state::{Clock, Matrix, State};

/// Cycles of a step before it waits for its blocks.
const HEAD: f64 = 50.0;

/// What is copied for an operand with a window.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WindowCopy {
    /// Number of the operand.
    pub operand: usize,
    /// Bytes of one block.
    pub bytes: f64,
    /// Written back, rather than fetched.
    pub output: bool,
    /// Has one buffer: its copy is started by the step that needs it, which has to wait.
    pub single: bool,
}

/// What one step of a body takes.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct StepCost {
    /// Cycles, with the scalar code around the body.
    pub cycles: f64,
    /// The blocks of the body, for traces.
    pub regions: Vec<Busy>,
    /// What it does about copies of its own, in order, each with the cycles of the body before it.
    pub transfers: Vec<(f64, Transfer)>,
}

impl StepCost {
    /// A step whose body has this schedule, with `around` cycles around it.
    fn new(schedule: &StepSchedule, around: f64, machine: &Machine) -> Self {
        let regions = schedule.regions.iter();
        let regions: Vec<Busy> = regions.map(|region| Busy::of(region, machine)).collect();
        let cycles = schedule.cycles(machine);
        // What branches take belongs to the blocks beside them.
        let blocks: f64 = regions.iter().map(|region| region.cycles).sum();
        let share = if blocks > 0.0 { cycles / blocks } else { 0.0 };
        let before = |transfer: &Transfer| -> f64 {
            let before = &regions[..transfer.after.min(regions.len())];
            share * before.iter().map(|region| region.cycles).sum::<f64>()
        };
        let transfers = schedule.transfers.iter();
        Self {
            transfers: transfers.map(|copy| (before(copy), *copy)).collect(),
            cycles: cycles + around,
            regions,
        }
    }
}

/// A block of a body, all its runs in a step together.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Busy {
    /// Its cycles.
    pub cycles: f64,
    /// Cycles of them that each unit is busy, in the order of [`Unit::ALL`].
    pub units: [f64; Unit::COUNT],
}

impl Busy {
    fn of(region: &Region, machine: &Machine) -> Self {
        let busy =
            |unit: Unit| region.times * machine.rates.cycles(unit, region.slots[unit as usize]);
        Self {
            cycles: region.times * region.cycles,
            units: Unit::ALL.map(busy),
        }
    }
}

/// A kernel on one core.
#[derive(Clone, Debug)]
pub struct Pipeline<'a> {
    /// Its steps.
    pub grid: &'a Grid,
    /// For each bit of [`Kind::moved`](crate::grid::Kind::moved), what is copied.
    pub windows: Vec<WindowCopy>,
    /// What each of [`Grid::bodies`] takes.
    pub bodies: Vec<StepCost>,
    /// Cycles before the loop over steps.
    pub entry: f64,
    /// Cycles of an iteration of that loop that runs no step: the one that only fetches, and the
    /// one that only writes back. None of them counts if there is one step only.
    pub around: f64,
    /// How long copies take.
    pub copies: Copies,
}

/// How long a kernel takes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Estimate {
    /// Cycles if every copy has the full rate.
    pub independent: f64,
    /// Cycles if copies take turns.
    pub shared: f64,
    /// Cycles if copies take turns at the published bandwidth.
    pub central: f64,
    /// Cycles of all steps, copies not waited for.
    pub compute: f64,
    /// Bytes copied from HBM to VMEM.
    pub loaded_bytes: f64,
    /// Bytes copied from VMEM to HBM.
    pub stored_bytes: f64,
}

impl<'a> Pipeline<'a> {
    /// The kernel whose steps copy `windows` and take the cycles of its schedule.
    pub fn new(
        windows: Vec<WindowCopy>,
        grid: &'a Grid,
        schedule: &KernelSchedule,
        machine: &Machine,
    ) -> Self {
        let around = schedule.step_cycles(machine);
        let bodies =
            (schedule.kinds.iter()).map(|kind| StepCost::new(&kind.schedule, around, machine));
        Self {
            grid,
            windows,
            bodies: bodies.collect(),
            entry: machine.sharing_cycles(grid.cores),
            around: machine.idle * around,
            copies: Copies::new(machine.target, grid.cores),
        }
    }

    /// The time of all steps.
    pub fn estimate(&self) -> Estimate {
        let times = self.grid.times();
        let [mut loaded, mut stored] = [0.0, 0.0];
        let mut copied = |window: &WindowCopy, times: f64| match window.output {
            true => stored += times * window.bytes,
            false => loaded += times * window.bytes,
        };
        for (kind, times) in self.grid.kinds.iter().zip(times) {
            let times = times as f64;
            self.moved(kind.moved)
                .for_each(|(_, window)| copied(window, times));
        }
        if self.grid.steps() > 0 {
            self.windows.iter().for_each(|window| copied(window, 1.0));
        }
        for (body, step) in self.grid.bodies.iter().zip(&self.bodies) {
            for (_, transfer) in &step.transfers {
                if let Event::Start { bytes, times } = transfer.event {
                    let bytes = body.times as f64 * times * bytes;
                    match transfer.direction {
                        Direction::Load => loaded += bytes,
                        Direction::Store => stored += bytes,
                    }
                }
            }
        }
        Estimate {
            independent: self.cycles(Bandwidth::Independent),
            shared: self.cycles(Bandwidth::Shared),
            central: self.cycles(Bandwidth::Published),
            compute: self.compute_cycles(),
            loaded_bytes: loaded,
            stored_bytes: stored,
        }
    }

    /// Cycles of all steps, copies not waited for: what a static schedule says.
    pub fn compute_cycles(&self) -> f64 {
        let steps = self.grid.kinds.iter().zip(self.grid.times());
        let cycles = steps.map(|(kind, times)| times as f64 * self.bodies[kind.body].cycles);
        self.entry + self.ends() + cycles.sum::<f64>()
    }

    /// Cycles of all steps and copies.
    pub fn cycles(&self, bandwidth: Bandwidth) -> f64 {
        let steps = self.grid.steps();
        let Some(last) = steps.checked_sub(1) else {
            return self.entry;
        };
        let clock = Clock::new(&self.copies, bandwidth);
        let mut state = self.begin(&clock, &mut Log::none());
        state = self.advance(&clock, &state, last);
        self.end(&clock, &state, &mut Log::none())
    }

    /// What happens in the first and the last `steps` steps.
    pub fn intervals(&self, steps: u64, bandwidth: Bandwidth) -> Vec<Interval> {
        let Some(last) = self.grid.steps().checked_sub(1) else {
            return Vec::new();
        };
        let mut log = Log(Some(Vec::new()));
        let clock = Clock::new(&self.copies, bandwidth);
        let start = self.begin(&clock, &mut log);
        let head = steps.min(last);
        let tail = last.saturating_sub(steps.saturating_sub(1)).max(head);
        let mut state = start;
        for (i, kind) in self.grid.sequence(0, head).into_iter().enumerate() {
            state = self.kind(&clock, &state, kind, i as u64, &mut log);
        }
        if tail > head {
            state = self.advance(&clock, &start, tail);
        }
        for (i, kind) in self.grid.sequence(tail, last).into_iter().enumerate() {
            state = self.kind(&clock, &state, kind, tail + i as u64, &mut log);
        }
        self.end(&clock, &state, &mut log);
        log.0.unwrap_or_default()
    }

    /// Cycles of iterations that run no step.
    fn ends(&self) -> f64 {
        let written = self.windows.iter().any(|window| window.output);
        match self.grid.steps() {
            0 | 1 => 0.0,
            _ if written => 2.0 * self.around,
            _ => self.around,
        }
    }

    /// Whether the kernel makes copies itself.
    fn copies_by_hand(&self) -> bool {
        self.bodies.iter().any(|body| !body.transfers.is_empty())
    }

    fn moved(&self, moved: u64) -> impl Iterator<Item = (usize, &WindowCopy)> {
        let windows = self.windows.iter().enumerate();
        windows.filter(move |(i, _)| moved >> i & 1 == 1)
    }

    /// The first blocks are fetched.
    fn begin(&self, clock: &Clock, log: &mut Log) -> State {
        let mut state = State::zero();
        let around = match self.grid.steps() {
            1 => 0.0,
            _ => self.around,
        };
        let before = self.entry + HEAD.min(around);
        let first_step = self.entry + around + HEAD.min(around);
        for (i, window) in self.windows.iter().enumerate() {
            if !window.output {
                let issue = if window.single { first_step } else { before };
                let end = load(clock, &mut state, issue, (i, window), 0, log);
                state.fetched = state.fetched.max(end);
            }
        }
        state.core += self.entry + around;
        state
    }

    /// The last step, and its blocks written back.
    fn end(&self, clock: &Clock, state: &State, log: &mut Log) -> f64 {
        let last = self.grid.steps() - 1;
        let Some(&kind) = self.grid.sequence(last, last + 1).first() else {
            return state.core;
        };
        let outputs = (self.windows.iter().enumerate()).filter(|(_, window)| window.output);
        let outputs: Vec<_> = outputs.collect();
        let body = self.grid.kinds[kind].body;
        let state = self.step(clock, state, body, &outputs, last, log);
        let core = match self.ends() > self.around {
            true => state.core + self.around,
            false => state.core,
        };
        let end = state
            .own
            .into_iter()
            .fold(core.max(state.written), f64::max);
        log.note(Lane::Wait, &"wait", last, state.core, end);
        end
    }

    fn kind(&self, clock: &Clock, state: &State, kind: usize, number: u64, log: &mut Log) -> State {
        let kind = &self.grid.kinds[kind];
        let moved: Vec<_> = self.moved(kind.moved).collect();
        self.step(clock, state, kind.body, &moved, number, log)
    }

    /// What a step of a kind makes of a state.
    fn matrix(&self, clock: &Clock, own: bool, kind: usize) -> Matrix {
        let kind = &self.grid.kinds[kind];
        let moved: Vec<_> = self.moved(kind.moved).collect();
        Matrix::of(own, |state| {
            self.step(clock, state, kind.body, &moved, 0, &mut Log::none())
        })
    }

    /// One step, which is followed by these copies.
    fn step(
        &self,
        clock: &Clock,
        state: &State,
        body: usize,
        moved: &[(usize, &WindowCopy)],
        number: u64,
        log: &mut Log,
    ) -> State {
        let cost = &self.bodies[body];
        let mut next = *state;
        let head = HEAD.min(cost.cycles);
        let issue = state.core + head;
        let mut fetched: Option<f64> = None;
        for &(i, window) in moved.iter().filter(|(_, w)| !w.output && !w.single) {
            let end = load(clock, &mut next, issue, (i, window), number + 1, log);
            fetched = Some(fetched.map_or(end, |f| f.max(end)));
        }
        let start = issue.max(state.fetched);
        log.note(Lane::Wait, &"wait", number, issue, start);
        let start = own_copies(clock, &mut next, start, cost, number, log);
        next.core = start + (cost.cycles - head);
        for &(i, window) in moved.iter().filter(|(_, w)| !w.output && w.single) {
            let at = next.core;
            let end = load(clock, &mut next, at, (i, window), number + 1, log);
            fetched = Some(fetched.map_or(end, |f| f.max(end)));
        }
        let mut written = state.zero;
        for &(i, window) in moved.iter().filter(|(_, w)| w.output) {
            let at = next.core;
            let end = clock.copy(&mut next, at, window.bytes, Direction::Store);
            written = written.max(end);
            if window.single {
                next.core = next.core.max(end);
            }
            log.note(
                Lane::Window(i),
                &"store",
                number,
                end - clock.time(window),
                end,
            );
        }
        log.note(Lane::Wait, &"wait", number, next.core, state.written);
        next.core = next.core.max(state.written);
        next.written = written;
        next.fetched = fetched.unwrap_or(state.fetched);
        next
    }

    /// The state after the first `steps` steps, which are not all: nothing is made for the whole sequence, whose parts
    /// are the most and are followed one by one.
    fn advance(&self, clock: &Clock, state: &State, steps: u64) -> State {
        let sizes = self.grid.sizes();
        let own = self.copies_by_hand();
        let last = self.grid.nodes.len() - 1;
        let mut matrices: Vec<Matrix> = Vec::with_capacity(last);
        for node in &self.grid.nodes[..last] {
            matrices.push(match node {
                Node::Step(kind) => self.matrix(clock, own, *kind),
                Node::Runs(runs) => (runs.iter())
                    .map(|&(n, child)| matrices[child].power(n))
                    .reduce(|all, next| all.then(&next))
                    .unwrap_or_else(|| Matrix::identity(own)),
            });
        }
        let mut state = *state;
        let mut left = steps;
        let mut node = last;
        loop {
            let Node::Runs(runs) = &self.grid.nodes[node] else {
                return state;
            };
            for &(count, child) in runs {
                let whole = (left / sizes[child]).min(count);
                state = matrices[child].power(whole).apply(&state);
                left -= whole * sizes[child];
                if whole < count {
                    node = child;
                    break;
                }
            }
            if left == 0 {
                return state;
            }
        }
    }
}

/// Copies the block of a window for step `number`, from cycle `at` on: when it is there.
fn load(
    clock: &Clock,
    state: &mut State,
    at: f64,
    (i, window): (usize, &WindowCopy),
    number: u64,
    log: &mut Log,
) -> f64 {
    let end = clock.copy(state, at, window.bytes, Direction::Load);
    let start = end - clock.time(window);
    log.note(Lane::Window(i), &"load", number, start, end);
    end
}

/// What is copied for each operand with a window, in the order of the bits of
/// [`Kind::moved`](crate::grid::Kind::moved), with two buffers. Blocks that overhang their array are taken to be copied
/// as a whole: a module does not say how large its arrays are.
///
/// # Errors
/// A window whose padded size overflows or whose elements are not known.
pub fn windows(
    module: &Module,
    signature: &Signature,
    target: &Target,
) -> Result<Vec<WindowCopy>, MemoryError> {
    let outputs = signature.outputs(module);
    let operands = signature.operands.iter().enumerate();
    (operands.filter(|(_, operand)| operand.window.is_some()))
        .map(|(i, operand)| {
            // What is not in VMEM is small: scalars.
            let bytes = match operand.space {
                MemorySpace::Vmem => block_bytes(module, operand, target)?,
                _ => 0,
            };
            Ok(WindowCopy {
                operand: i,
                bytes: bytes as f64,
                output: i >= outputs,
                single: false,
            })
        })
        .collect()
}

/// The same with the buffers that they have on a core that runs `grid`.
pub(crate) fn buffered(
    windows: &[WindowCopy],
    signature: &Signature,
    grid: &Grid,
) -> Vec<WindowCopy> {
    let buffered = |window: &WindowCopy| {
        let operand = &signature.operands[window.operand];
        WindowCopy {
            single: !window.output && buffers(signature, grid, operand) == 1,
            ..*window
        }
    };
    windows.iter().map(buffered).collect()
}
