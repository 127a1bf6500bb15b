//! [`Copies`]: how long copies between HBM and VMEM take.

use tilecast_core::target::{Generation, TARGETS, Target};

/// Devices of a chip: programs run on each of them alone. One, except where a chip has several cores
/// but no megacore.
pub fn devices_per_chip(target: &Target) -> usize {
    target.tensorcores.value / target.cores_per_device()
}

/// How copies that overlap share the bandwidth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bandwidth {
    /// Each has the full rate of one copy, as in the compiler's model: too fast where many overlap.
    Independent,
    /// One after the other at the rate of one copy: a single copy may not fill the channel, so this
    /// is too slow.
    Shared,
    /// One after the other at the published bandwidth of the chip, of which each busy core has its
    /// share; each at the rate of one copy at most.
    Published,
}

/// How long copies take on one core.
#[derive(Clone, PartialEq, Debug)]
pub struct Copies {
    /// Cycles of a copy from HBM to VMEM beyond those of its bytes.
    pub load_latency_cycles: f64,
    /// Cycles of a copy from VMEM to HBM beyond those of its bytes.
    pub store_latency_cycles: f64,
    /// Rate of one copy.
    pub bytes_per_cycle: f64,
    /// This core's share of the chip's published bandwidth.
    pub total_bytes_per_cycle: f64,
    /// What was taken to be so.
    pub assumption: Option<String>,
}

impl Copies {
    /// Copies on one of `cores` busy cores of a device.
    pub fn new(target: &Target, cores: u64) -> Self {
        let clock_hz = target.peak_clock_hz.value;
        let users = devices_per_chip(target) as f64 * cores.max(1) as f64;
        let total = target.hbm_bytes_per_s.value / users / clock_hz;
        let model = (
            target.hbm_to_vmem_latency_cycles.value,
            target.vmem_to_hbm_latency_cycles.value,
            target.dma_bytes_per_cycle.value,
        );
        if let (Some(load), Some(store), Some(rate)) = model {
            return Self {
                load_latency_cycles: load as f64,
                store_latency_cycles: store as f64,
                bytes_per_cycle: rate,
                total_bytes_per_cycle: total,
                assumption: None,
            };
        }
        // The nearest relative, in nanoseconds.
        let like = TARGETS
            .iter()
            .find(|like| like.generation == Generation::V5p);
        let like = like.unwrap_or(target);
        let cycles = |latency: Option<u64>| {
            latency.unwrap_or(0) as f64 * clock_hz / like.peak_clock_hz.value
        };
        Self {
            load_latency_cycles: cycles(like.hbm_to_vmem_latency_cycles.value).round(),
            store_latency_cycles: cycles(like.vmem_to_hbm_latency_cycles.value).round(),
            bytes_per_cycle: total,
            total_bytes_per_cycle: total,
            assumption: Some(format!(
                "no copy model for {target} is known: copies take the latency of {like} in \
                 nanoseconds, and one copy can use all of the published bandwidth"
            )),
        }
    }
}
