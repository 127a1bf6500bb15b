//! What one kernel of an op needs and how long it takes.

use tilecast_core::budget::VmemLedger;
use tilecast_core::budget::padding::PaddingError;
use tilecast_core::program::{Kernel, Launch, Program, Step};
use tilecast_core::target::Target;

use crate::timing::{self, CoreTime, devices_per_chip};
use crate::verdict::{Verdict, vmem_reason};

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
    /// Loads and stores of VMEM.
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
}

/// How long a kernel takes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Prediction {
    /// Cycles of the core with the most steps, copies left out.
    pub cycles_per_core: f64,
    /// Time of all launches.
    pub time_s: f64,
    /// Time under the best and the worst assumptions.
    pub time_range_s: [f64; 2],
    /// Each unit alone.
    pub bounds: Bounds,
    /// Bytes between the HBM of the chip and VMEM.
    pub hbm_bytes: f64,
}

impl Prediction {
    fn new(core: &CoreTime, target: &Target, busy_cores: usize) -> Self {
        let units = core.work.cycles(target);
        let seconds = |cycles: f64| cycles / target.clock_hz.value;
        Self {
            cycles_per_core: core.cycles.central(),
            time_s: core.central_s,
            time_range_s: [core.low_s, core.high_s],
            bounds: Bounds {
                mxu: seconds(units.mxu),
                vpu: seconds(units.vpu),
                eup: seconds(units.eup),
                xlu: seconds(units.xlu),
                load_store: seconds(units.load_store),
                scalar: seconds(core.scalar_cycles),
                hbm: core.hbm_s,
            },
            hbm_bytes: core.hbm_bytes * (busy_cores * devices_per_chip(target)) as f64,
        }
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
    /// Windows and scratch.
    pub vmem: VmemLedger,
    /// Whether it can run.
    pub verdict: Verdict,
    /// Why not, and what helps.
    pub reason: Option<String>,
    /// How long it takes; `None` if it cannot run.
    pub prediction: Option<Prediction>,
}

/// Reports on every kernel of `program`, in order of first launch.
///
/// # Errors
/// A buffer so large that its padded size overflows.
pub fn report<K: Kernel>(
    program: &Program<K>,
    target: &Target,
    vmem_limit_bytes: Option<u64>,
) -> Result<Vec<KernelReport>, PaddingError> {
    let mut reports = Vec::new();
    visit(program.steps(), [1, 1], &mut |launch, loops| {
        reports.push(kernel(launch, loops, target, vmem_limit_bytes)?);
        Ok(())
    })?;
    Ok(reports)
}

/// Calls `found` with every launch, the iterations of the loop around it, and how often that loop
/// runs.
fn visit<K, E>(
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
    target: &Target,
    vmem_limit_bytes: Option<u64>,
) -> Result<KernelReport, PaddingError> {
    let spec = launch.kernel.spec();
    let vmem = VmemLedger::new(spec, target, vmem_limit_bytes)?;
    let (verdict, reason) = match spec.check_tiling(target) {
        Err(error) => (Verdict::Invalid, Some(error.to_string())),
        Ok(()) => match vmem_reason(spec, &vmem, target) {
            Some(reason) => (Verdict::VmemOom, Some(reason)),
            None => (Verdict::Fits, None),
        },
    };
    let prediction = (verdict == Verdict::Fits).then(|| {
        let mut core = CoreTime::default();
        for (counter, iterations) in counter_classes(iterations) {
            let scalars: Vec<i64> = (launch.scalars.iter())
                .map(|scalar| scalar.evaluate(&|_| counter))
                .collect();
            core.add(
                &timing::launch(&launch.kernel, target, &scalars),
                iterations * times,
            );
        }
        let busy = crate::steps::busy_cores(spec, target.cores_per_device());
        Prediction::new(&core, target, busy)
    });
    Ok(KernelReport {
        name: spec.name().to_owned(),
        launches: iterations * times,
        grid_steps: spec.steps() * iterations * times,
        vmem,
        verdict,
        reason,
        prediction,
    })
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
