//! From work to time.
//!
//! The pipeline around a kernel copies the windows of the next step while a step computes. So a step
//! takes the longer of its computation and its copies, and the whole grid the sum of that, plus the
//! first fetch and the last write-back, which have nothing to hide behind. What is not known becomes
//! the range around that value:
//!
//! | | low | value | high |
//! |---|---|---|---|
//! | product and vector work of a straight-line region | overlap | midway | one after the other |
//! | copies of windows | spread over the whole grid | overlap their step | overlap their step |
//! | copies that the kernel makes itself | spread over the whole grid | overlap their step | nothing |
//! | bandwidth | published | the copy model's, if lower | the same |

use tilecast_core::program::Kernel;
use tilecast_core::spec::KernelSpec;
use tilecast_core::target::Target;

use crate::steps::{busy_cores, kinds};
use crate::tally;
use crate::work::{Cycles, Work};

/// What one core does for one kernel, over all its launches.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct CoreTime {
    /// Grid steps.
    pub steps: u64,
    /// Operations per unit.
    pub work: Work,
    /// Scalar cycles around the steps' bodies.
    pub scalar_cycles: f64,
    /// Cycles of the steps, copies left out.
    pub cycles: Cycles,
    /// Bytes between HBM and VMEM, both ways.
    pub hbm_bytes: f64,
    /// The same as a time at the rate of [`core_bytes_per_s`].
    pub hbm_s: f64,
    /// Time, if every overlap succeeds.
    pub low_s: f64,
    /// Time, as the pipeline overlaps.
    pub central_s: f64,
    /// Time, if only windows overlap.
    pub high_s: f64,
}

impl CoreTime {
    /// Adds `times` another.
    pub fn add(&mut self, other: &Self, times: u64) {
        self.steps += other.steps * times;
        let times = times as f64;
        self.work.add(&other.work, times);
        self.cycles.add(&other.cycles, times);
        for (sum, value) in [
            (&mut self.scalar_cycles, other.scalar_cycles),
            (&mut self.hbm_bytes, other.hbm_bytes),
            (&mut self.hbm_s, other.hbm_s),
            (&mut self.low_s, other.low_s),
            (&mut self.central_s, other.central_s),
            (&mut self.high_s, other.high_s),
        ] {
            *sum += value * times;
        }
    }
}

/// Devices of a chip: programs run on each of them alone. One, except where a chip has several cores
/// but no megacore.
pub fn devices_per_chip(target: &Target) -> usize {
    target.tensorcores.value / target.cores_per_device()
}

/// HBM bandwidth of one of `busy` cores of a device: its share of what is published for the chip, or
/// what the compiler's model gives a single copy, if that is less.
pub fn core_bytes_per_s(target: &Target, busy: usize) -> f64 {
    let share = published_bytes_per_s(target, busy);
    (target.dma_bytes_per_cycle.value)
        .map_or(share, |bytes| share.min(bytes * target.peak_clock_hz.value))
}

fn published_bytes_per_s(target: &Target, busy: usize) -> f64 {
    target.hbm_bytes_per_s.value / (devices_per_chip(target) * busy) as f64
}

/// Cycles of the scalar code around one step: copies started and awaited, indices advanced.
fn step_cycles(spec: &KernelSpec, target: &Target) -> f64 {
    // One window each way is in the fixed cost.
    let further = spec.operands().count().saturating_sub(2) as u64;
    (target.grid_step_cycles.value + further * target.grid_step_operand_cycles.value) as f64
}

/// The time that one launch of `kernel` takes the core with the most steps.
pub fn launch(kernel: &impl Kernel, target: &Target, scalars: &[i64]) -> CoreTime {
    let spec = kernel.spec();
    let cores = target.cores_per_device();
    let busy = busy_cores(spec, cores);
    let clock_hz = target.clock_hz.value;
    let bytes_per_s = core_bytes_per_s(target, busy);
    let overhead = step_cycles(spec, target);
    let latency_s = [
        target.hbm_to_vmem_latency_cycles.value,
        target.vmem_to_hbm_latency_cycles.value,
    ]
    .map(|cycles| cycles.unwrap_or(0) as f64 / target.peak_clock_hz.value);

    let mut total = CoreTime::default();
    let kinds = kinds(spec, cores, scalars);
    for kind in &kinds {
        let step = tally::step(kernel, target, &kind.at, scalars);
        let compute_s = |cycles: f64| (cycles + overhead) / clock_hz;
        let window_bytes = (kind.fetched_bytes + kind.written_bytes) as f64;
        let windows_s = window_bytes / bytes_per_s;
        let own_s = step.work.copied_bytes / bytes_per_s;
        let [reads, writes] = step.work.copies;
        let waits_s = reads * latency_s[0] + writes * latency_s[1];
        let cycles = Cycles {
            low: step.cycles.low + overhead,
            high: step.cycles.high + overhead,
        };
        let one = CoreTime {
            steps: 1,
            work: step.work,
            scalar_cycles: overhead,
            cycles,
            hbm_bytes: window_bytes + step.work.copied_bytes,
            hbm_s: windows_s + own_s,
            low_s: compute_s(step.cycles.low),
            central_s: compute_s(step.cycles.central()).max(windows_s + own_s),
            high_s: compute_s(step.cycles.high).max(windows_s) + own_s + waits_s,
        };
        total.add(&one, kind.times);
    }
    total.low_s = (total.low_s).max(total.hbm_bytes / published_bytes_per_s(target, busy));
    let exposed_bytes = kinds.first().map_or(0, |kind| kind.fetched_bytes)
        + kinds.last().map_or(0, |kind| kind.written_bytes);
    let exposed_s = exposed_bytes as f64 / bytes_per_s;
    total.central_s += exposed_s;
    total.high_s += exposed_s + latency_s[0] + latency_s[1];
    total
}
