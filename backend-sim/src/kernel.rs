//! What one kernel of an op needs and how long it takes.

use thiserror::Error;
use tilecast_core::program::{Kernel, Launch, Program, Step};
use tilecast_core::spec::{Buffer, KernelSpec};
use tilecast_core::target::Target;
use tilecast_tpu::lower::{self, F32Products};
use tilecast_tpu::mosaic::Module;

use crate::grid::{Grid, Scalars};
use crate::judge::{self, JudgeError, Judged, KernelTime, WINDOWS_ALONE, cores, judge, judge_on};
use crate::memory::{VmemLedger, internal_depends_on_body};
use crate::pipeline::devices_per_chip;
use crate::reuse::Known;
use crate::schedule::{Machine, Unit};
use crate::signature::Signature;
use crate::trace::Process;
use crate::verdict::Verdict;

/// Share by which the cycles of a schedule may be off: nine of ten kernels of this library that nothing was
/// fitted to are within it; see `docs/cost-model.md`.
pub const CYCLES_ERROR: f64 = 0.10;

/// Why there is no report on a kernel.
#[derive(Clone, PartialEq, Debug, Error)]
#[error("{}", match error {
    // It names the kernel itself.
    JudgeError::Lower(error) => error.to_string(),
    error => format!("{kernel}: {error}"),
})]
pub struct KernelError {
    /// Name of the kernel.
    pub kernel: String,
    /// What is wrong.
    pub error: JudgeError,
}

/// Each unit's time if it alone mattered, seconds.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Bounds {
    /// Matrix units.
    pub mxu: f64,
    /// Vector ALUs.
    pub vpu: f64,
    /// Transcendental unit.
    pub eup: f64,
    /// Cross-lane units.
    pub xlu: f64,
    /// Loads and stores of VMEM, and results taken from other units.
    pub load_store: f64,
    /// Scalar code between grid steps.
    pub scalar: f64,
    /// Copies between HBM and VMEM.
    pub hbm: f64,
}

impl Bounds {
    /// The bounds with the names used in reports.
    pub const fn named(&self) -> [(&'static str, f64); 7] {
        [
            ("mxu", self.mxu),
            ("vpu", self.vpu),
            ("eup", self.eup),
            ("xlu", self.xlu),
            ("load_store", self.load_store),
            ("scalar", self.scalar),
            ("hbm", self.hbm),
        ]
    }

    /// The largest bound.
    pub fn binding(&self) -> (&'static str, f64) {
        let named = self.named();
        named[1..].iter().fold(
            named[0],
            |best, &next| if next.1 > best.1 { next } else { best },
        )
    }

    /// Adds the bounds of work that follows.
    pub fn add(&mut self, other: &Self) {
        self.mxu += other.mxu;
        self.vpu += other.vpu;
        self.eup += other.eup;
        self.xlu += other.xlu;
        self.load_store += other.load_store;
        self.scalar += other.scalar;
        self.hbm += other.hbm;
    }

    fn of(time: &KernelTime, machine: &Machine, cores: u64) -> Self {
        let target = machine.target;
        let seconds = |cycles: f64| cycles / target.clock_hz.value;
        let unit = |unit: Unit| machine.rates.cycles(unit, time.slots[unit as usize]);
        let both = time.slots[Unit::Load as usize] + time.slots[Unit::Store as usize];
        let load_store = (unit(Unit::Load).max(unit(Unit::Store)).max(unit(Unit::Pop)))
            .max(both / target.vector_accesses_per_cycle.value as f64);
        let bytes = time.estimate.loaded_bytes + time.estimate.stored_bytes;
        Self {
            mxu: seconds(unit(Unit::Mxu).max(unit(Unit::Push))),
            vpu: seconds(unit(Unit::Valu)),
            eup: seconds(unit(Unit::Eup)),
            xlu: seconds(unit(Unit::Xlu)),
            load_store: seconds(load_store),
            scalar: seconds(time.scalar_cycles),
            hbm: bytes / core_bytes_per_s(target, cores),
        }
    }
}

/// HBM bandwidth of one of `busy` cores of a device, as published for the chip.
pub fn core_bytes_per_s(target: &Target, busy: u64) -> f64 {
    target.hbm_bytes_per_s.value / (devices_per_chip(target) as f64 * busy.max(1) as f64)
}

/// How long a kernel takes.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Prediction {
    /// Cycles of the core with the most steps, copies left out.
    pub cycles_per_core: f64,
    /// Time of all launches.
    pub time_s: f64,
    /// Time if schedule and copies are as much better or worse as they may be.
    pub time_range_s: [f64; 2],
    /// Each unit alone.
    pub bounds: Bounds,
    /// Bytes between the HBM of the chip and VMEM.
    pub hbm_bytes: f64,
}

impl Prediction {
    /// One launch.
    fn of(time: &KernelTime, target: &'static Target, cores: u64) -> Self {
        let seconds = |cycles: f64| cycles / target.clock_hz.value;
        let estimate = &time.estimate;
        let machine = Machine::new(target);
        let fastest = estimate.independent.min(estimate.central);
        let slowest = estimate.shared.max(estimate.central);
        let users = cores as f64 * devices_per_chip(target) as f64;
        Self {
            cycles_per_core: estimate.compute,
            time_s: seconds(estimate.central),
            time_range_s: [
                seconds(fastest / (1.0 + CYCLES_ERROR)),
                seconds(slowest * (1.0 + CYCLES_ERROR)),
            ],
            bounds: Bounds::of(time, &machine, cores),
            hbm_bytes: (estimate.loaded_bytes + estimate.stored_bytes) * users,
        }
    }

    /// Adds `times` another.
    fn add(&mut self, other: &Self, times: u64) {
        let times = times as f64;
        self.cycles_per_core += other.cycles_per_core * times;
        self.time_s += other.time_s * times;
        for (sum, value) in self.time_range_s.iter_mut().zip(other.time_range_s) {
            *sum += value * times;
        }
        let mut bounds = other.bounds;
        for value in [
            &mut bounds.mxu,
            &mut bounds.vpu,
            &mut bounds.eup,
            &mut bounds.xlu,
            &mut bounds.load_store,
            &mut bounds.scalar,
            &mut bounds.hbm,
        ] {
            *value *= times;
        }
        self.bounds.add(&bounds);
        self.hbm_bytes += other.hbm_bytes * times;
    }

    /// Share of the time that the matrix units are busy.
    pub fn mxu_fraction(&self) -> f64 {
        self.bounds.mxu / self.time_s
    }
}

/// One kernel of an op on a target.
#[derive(Clone, PartialEq, Debug)]
pub struct KernelReport {
    /// Name of the kernel.
    pub name: String,
    /// How often it is launched.
    pub launches: u64,
    /// Grid steps of all launches.
    pub grid_steps: u64,
    /// Windows, scratch and register spills.
    pub vmem: VmemLedger,
    /// Whether it can run.
    pub verdict: Verdict,
    /// Why not, and what helps.
    pub reason: Option<String>,
    /// How long it takes; `None` if it cannot run.
    pub prediction: Option<Prediction>,
    /// Operations of its code on registers, by which the time to compile it grows; 0 if it has no schedule.
    pub operations: f64,
    /// What was taken to be so.
    pub assumptions: Vec<String>,
}

impl KernelReport {
    /// A report on the kernel of `module`, launched once, whatever made it.
    ///
    /// # Errors
    /// As for [`judge()`].
    pub fn of_module(
        module: &Module,
        target: &'static Target,
        scalars: &Scalars,
        limit_bytes: Option<u64>,
    ) -> Result<Self, JudgeError> {
        let judged = judge(module, target, scalars, limit_bytes)?;
        let mut report = Self::new(name(module)?, 1, &judged, target);
        report.prediction = prediction(&judged, target).filter(|_| report.verdict == Verdict::Fits);
        Ok(report)
    }

    /// Why it cannot run, with its name.
    pub fn why_not(&self) -> String {
        let reason = self.reason.as_deref().unwrap_or_default();
        match self.verdict {
            // The reason names the kernel itself.
            Verdict::Invalid => reason.to_owned(),
            _ => format!("{} {reason}", self.name),
        }
    }

    fn new(name: String, launches: u64, judged: &Judged, target: &Target) -> Self {
        let reason = judged.vmem.reason(target);
        Self {
            name,
            launches,
            grid_steps: judged.steps * judged.cores * launches,
            verdict: match reason {
                Some(_) => Verdict::VmemOom,
                None => Verdict::Fits,
            },
            vmem: judged.vmem.clone(),
            reason,
            prediction: None,
            operations: (judged.time.as_ref()).map_or(0.0, |time| time.operations),
            assumptions: judged.assumptions.clone(),
        }
    }
}

fn prediction(judged: &Judged, target: &'static Target) -> Option<Prediction> {
    (judged.time.as_ref()).map(|time| Prediction::of(time, target, judged.cores))
}

/// The name of the kernel of `module`.
///
/// # Errors
/// It has no kernel.
pub fn name(module: &Module) -> Result<String, JudgeError> {
    let function = Signature::read(module)?.function;
    let name = module.string_attribute(function, "sym_name");
    Ok(name.unwrap_or("kernel").into())
}

/// Reports on every kernel of `program`, in order of first launch.
///
/// # Errors
/// A kernel that the model does not understand.
pub fn report<K: Kernel>(
    program: &Program<K>,
    target: &'static Target,
    vmem_limit_bytes: Option<u64>,
    products: F32Products,
) -> Result<Vec<KernelReport>, KernelError> {
    let mut known = Known::new(Machine::new(target), products);
    report_again(program, vmem_limit_bytes, &mut known)
}

/// [`report`], with what is known of kernels of the same op, on the same target.
pub(crate) fn report_again<K: Kernel>(
    program: &Program<K>,
    vmem_limit_bytes: Option<u64>,
    known: &mut Known,
) -> Result<Vec<KernelReport>, KernelError> {
    let mut reports = Vec::new();
    visit(program.steps(), [1, 1], &mut |launch, loops| {
        let report = kernel(launch, loops, vmem_limit_bytes, known);
        reports.push(report.map_err(|error| KernelError {
            kernel: launch.kernel.spec().name().to_owned(),
            error,
        })?);
        Ok(())
    })?;
    Ok(reports)
}

/// What each kernel of `program` does in the first and last `steps` grid steps of its first launch.
///
/// # Errors
/// As for [`report`].
pub fn trace<K: Kernel>(
    program: &Program<K>,
    target: &'static Target,
    products: F32Products,
    steps: u64,
) -> Result<Vec<Process>, KernelError> {
    let mut processes = Vec::new();
    visit(program.steps(), [1, 1], &mut |launch, _| {
        let spec = launch.kernel.spec();
        let process = || -> Result<Process, JudgeError> {
            let module = lower::lower(&launch.kernel, products)?;
            let mut process = judge::trace(
                &module,
                target,
                &Scalars::of_first(launch),
                spec.name(),
                steps,
            )?;
            let operands = operand_names(spec);
            for name in &mut process.windows {
                rename(name, "operand ", &operands);
            }
            Ok(process)
        };
        processes.push(process().map_err(|error| KernelError {
            kernel: spec.name().to_owned(),
            error,
        })?);
        Ok(())
    })?;
    Ok(processes)
}

/// Calls `found` with every launch, the iterations of the loop around it, and how often that loop
/// runs.
pub(crate) fn visit<K, E>(
    steps: &[Step<K>],
    [iterations, times]: [u64; 2],
    found: &mut impl FnMut(&Launch<K>, [u64; 2]) -> Result<(), E>,
) -> Result<(), E> {
    for step in steps {
        match step {
            Step::Launch(launch) => found(launch, [iterations, times])?,
            Step::Loop { count, body } => visit(body, [*count as u64, iterations * times], found)?,
            _ => {}
        }
    }
    Ok(())
}

fn kernel<K: Kernel>(
    launch: &Launch<K>,
    [iterations, times]: [u64; 2],
    vmem_limit_bytes: Option<u64>,
    known: &mut Known,
) -> Result<KernelReport, JudgeError> {
    let target = known.machine.target;
    let spec = launch.kernel.spec();
    let vmem = VmemLedger::of_spec(spec, target, vmem_limit_bytes)?;
    if let Some(judged) = without_module(spec, target, &vmem) {
        let mut report = KernelReport::new(spec.name().to_owned(), 0, &judged, target);
        finish(&mut report, spec, target, iterations * times);
        return Ok(report);
    }
    let kernel = match windows_may_fit(spec, target, &vmem) {
        true => known.kernel(&launch.kernel)?,
        false => known.outline(spec)?,
    };
    let bounds: Vec<i64> = spec.grid().iter().map(|axis| axis.size as i64).collect();
    let mut judged: Vec<(Grid, Judged)> = Vec::new();
    let mut total = Prediction::default();
    for (counter, iterations) in counter_classes(iterations) {
        let mut same = 0;
        if judged.is_empty() || kernel.reads_scalars() {
            let scalars = Scalars::of(launch, counter);
            let grid = kernel.grid(&bounds, &scalars, cores(target))?;
            // Scalars matter by what they make of the grid and its conditions.
            let alike = judged.iter().position(|(known, _)| *known == grid);
            same = alike.unwrap_or(judged.len());
            if alike.is_none() {
                let (machine, blocks) = (&known.machine, &known.blocks);
                let one = judge_on(&kernel, &grid, &scalars, vmem_limit_bytes, machine, blocks)?;
                judged.push((grid, one));
            }
        }
        match prediction(&judged[same].1, target) {
            Some(one) => total.add(&one, iterations * times),
            None => total.time_s = f64::INFINITY,
        }
    }
    let used_bytes = |judged: &Judged| judged.vmem.used_bytes();
    let largest = (judged.iter().map(|(_, judged)| judged))
        .reduce(|a, b| match used_bytes(b) > used_bytes(a) {
            true => b,
            false => a,
        })
        .unwrap_or_else(|| unreachable!("a launch runs at least once"));
    let mut report = KernelReport::new(spec.name().to_owned(), 0, largest, target);
    let (operands, scratch) = (operand_names(spec), scratch_names(spec));
    for term in &mut report.vmem.terms {
        rename(&mut term.name, "operand ", &operands);
        rename(&mut term.name, "scratch ", &scratch);
    }
    finish(&mut report, spec, target, iterations * times);
    report.prediction = (report.verdict == Verdict::Fits).then_some(total);
    Ok(report)
}

/// What is known without a module of a kernel that cannot run whatever is in it, `None` of others: the target does
/// not take its blocks, which may then have no module; or its windows alone are too large.
///
/// Blocks are unrolled, so the module of a kernel grows with them and may be larger than the memory of this
/// machine. The factor leaves room for second buffers that the compiler finds it does not need.
fn without_module(spec: &KernelSpec, target: &'static Target, vmem: &VmemLedger) -> Option<Judged> {
    const FACTOR: u64 = 2;
    let bytes = vmem
        .windows()
        .fold(0_u64, |sum, term| sum.saturating_add(term.bytes));
    let assumptions = match spec.check_tiling(target) {
        Err(_) => Vec::new(),
        Ok(()) if bytes / FACTOR > vmem.limit_bytes => vec![WINDOWS_ALONE.into()],
        Ok(()) => return None,
    };
    Some(Judged {
        vmem: vmem.clone(),
        steps: spec.steps(),
        cores: 1,
        time: None,
        assumptions,
    })
}

/// Whether the windows of a kernel may be within the limit, by the least that they take whatever the compiler finds of
/// its grid. If not, its body matters to nothing that is said of it, unless the compiler takes VMEM of its own for what
/// is in there.
fn windows_may_fit(spec: &KernelSpec, target: &Target, vmem: &VmemLedger) -> bool {
    // A core that runs one step has one buffer of everything.
    let many = spec.steps() > cores(target);
    let windows = spec
        .buffers()
        .iter()
        .filter_map(|named| match &named.buffer {
            Buffer::Window { operand, .. } => Some(operand),
            _ => None,
        });
    let least = vmem.windows().zip(windows).map(|(term, operand)| {
        // A block that follows scalars alone has one buffer too.
        match many && spec.copies(operand) > 1 {
            true => term.bytes,
            false => term.bytes / term.buffers as u64,
        }
    });
    let bytes = least.fold(0, u64::saturating_add);
    bytes <= vmem.limit_bytes || internal_depends_on_body(target)
}

/// Launches, steps and verdict of a report on a kernel of this library.
fn finish(report: &mut KernelReport, spec: &KernelSpec, target: &Target, launches: u64) {
    report.launches = launches;
    report.grid_steps = spec.steps() * launches;
    report.reason = report.vmem.reason(target);
    if let Err(error) = spec.check_tiling(target) {
        report.verdict = Verdict::Invalid;
        report.reason = Some(error.to_string());
    }
}

/// The names that the kernel has for its operands.
fn operand_names(spec: &KernelSpec) -> Vec<&'static str> {
    let name = |argument: &lower::Argument| spec.buffers()[argument.buffer().index()].name;
    lower::signature(spec).iter().map(name).collect()
}

/// The names that the kernel has for its memory.
fn scratch_names(spec: &KernelSpec) -> Vec<&'static str> {
    (spec.buffers().iter())
        .filter(|buffer| !matches!(buffer.buffer, Buffer::Window { .. } | Buffer::Hbm { .. }))
        .flat_map(|buffer| {
            let parts = match buffer.buffer {
                Buffer::Stats { .. } => buffer.buffer.values_per_row(),
                _ => 1,
            };
            std::iter::repeat_n(buffer.name, parts)
        })
        .collect()
}

/// Replaces the name of the argument of a kind and number by the one in `names`.
fn rename(name: &mut String, kind: &str, names: &[&str]) {
    let number = name
        .strip_prefix(kind)
        .and_then(|number| number.parse::<usize>().ok());
    if let Some(&known) = number.and_then(|number| names.get(number)) {
        *name = known.to_owned();
    }
}

/// Counters of a loop and how many iterations each stands for: the first and the last chunk differ
/// from those between, which are alike.
fn counter_classes(count: u64) -> impl Iterator<Item = (i64, u64)> {
    let last = count as i64 - 1;
    let between = count.saturating_sub(2);
    [(0, 1), (1, between), (last, u64::from(last > 0))]
        .into_iter()
        .filter(|&(_, times)| times > 0)
}
