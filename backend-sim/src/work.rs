//! [`Work`]: what a piece of kernel asks of each unit of a core.
//!
//! A TPU core issues one instruction bundle per cycle with slots for every unit, so units run side by
//! side. Work is therefore kept per unit, and turned into cycles only when it is known which pieces
//! the compiler may interleave: those of one [`Region`], a straight-line block of code.
//!
//! Vector operations are counted in *registers* of 8 x 128 values of 32 bits. Counts are real
//! numbers because a bf16 access is half a register and steps are weighted.

use tilecast_core::target::Target;

/// Operations per unit.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Work {
    /// Cycles that the matrix units of the core, all together, are busy.
    pub mxu_cycles: f64,
    /// Vector ALU operations.
    pub valu_ops: f64,
    /// Transcendental operations.
    pub eup_ops: f64,
    /// Lane reductions, transposes and broadcasts.
    pub xlu_ops: f64,
    /// Registers loaded from VMEM.
    pub loads: f64,
    /// Registers stored to VMEM.
    pub stores: f64,
    /// Bytes that the kernel itself copies between HBM and VMEM; windows are not in here.
    pub copied_bytes: f64,
    /// Number of those copies, reads and writes.
    pub copies: [f64; 2],
}

impl Work {
    /// Adds `times` the work of `other`.
    pub fn add(&mut self, other: &Self, times: f64) {
        self.mxu_cycles += other.mxu_cycles * times;
        self.valu_ops += other.valu_ops * times;
        self.eup_ops += other.eup_ops * times;
        self.xlu_ops += other.xlu_ops * times;
        self.loads += other.loads * times;
        self.stores += other.stores * times;
        self.copied_bytes += other.copied_bytes * times;
        for (sum, copies) in self.copies.iter_mut().zip(other.copies) {
            *sum += copies * times;
        }
    }

    /// Cycles each unit needs for its share.
    pub fn cycles(&self, target: &Target) -> UnitCycles {
        let (loads, stores) = (
            target.vector_loads_per_cycle.value as f64,
            target.vector_stores_per_cycle.value as f64,
        );
        let joint = target.vector_accesses_per_cycle.value as f64;
        let xlu_per_cycle = target.xlu_count.value as f64 / target.xlu_hold_cycles.value as f64;
        UnitCycles {
            mxu: self.mxu_cycles,
            vpu: self.valu_ops / target.valu_slots.value as f64,
            eup: self.eup_ops / target.eup_per_cycle.value,
            xlu: self.xlu_ops / xlu_per_cycle,
            load_store: (self.loads / loads)
                .max(self.stores / stores)
                .max((self.loads + self.stores) / joint),
        }
    }
}

/// Busy cycles of each unit of a core that executes instructions of the kernel body.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct UnitCycles {
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
}

impl UnitCycles {
    /// The busiest unit but the matrix units.
    pub fn vector(&self) -> f64 {
        self.vpu.max(self.eup).max(self.xlu).max(self.load_store)
    }
}

/// A number of cycles between two extremes.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Cycles {
    /// All units overlap perfectly.
    pub low: f64,
    /// Products and vector passes run one after the other.
    pub high: f64,
}

impl Cycles {
    /// The value quoted when one is asked for. Schedules of prototypes lie within 3 % of the matrix
    /// rate around it; see `docs/cost-model.md`.
    pub fn central(&self) -> f64 {
        f64::midpoint(self.low, self.high)
    }

    /// Adds `times` another range.
    pub fn add(&mut self, other: &Self, times: f64) {
        self.low += other.low * times;
        self.high += other.high * times;
    }
}

/// A straight-line block of code: what the compiler's scheduler may interleave.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Region {
    /// The work of all units.
    pub work: Work,
    /// The passes over vectors, each as long as its busiest unit, one after the other; cycles.
    pub passes_cycles: f64,
    /// Filling and draining the matrix units, and transposing operands.
    pub product_latency_cycles: f64,
    /// Filling and draining the vector pipelines.
    pub pass_latency_cycles: f64,
}

impl Region {
    /// How long the region takes.
    pub fn cycles(&self, target: &Target) -> Cycles {
        let units = self.work.cycles(target);
        let product = units.mxu + self.product_latency_cycles;
        let low = product.max(units.vector());
        Cycles {
            low,
            high: low.max(product + self.passes_cycles + self.pass_latency_cycles),
        }
    }

    /// Repeats what was added since `before` another `times` times. Latencies are not repeated:
    /// the scheduler overlaps the end of one repetition with the start of the next.
    pub(crate) fn repeat_since(&mut self, before: &Self, times: f64) {
        let mut added = self.work;
        added.add(&before.work, -1.0);
        self.work.add(&added, times);
        self.passes_cycles += (self.passes_cycles - before.passes_cycles) * times;
    }
}
