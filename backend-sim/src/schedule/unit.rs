//! The units of a core that a schedule fills, and how fast and how late each of them answers.

use tilecast_core::target::{Generation, Target};

/// A unit, or a kind of slot of an instruction bundle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Rows streamed through the matrix units, in cycles of one unit.
    Mxu,
    /// Weights pushed into the matrix units, in cycles of one unit.
    Push,
    /// Vector ALU slots.
    Valu,
    /// The transcendental unit.
    Eup,
    /// Results taken from the matrix, transcendental and cross-lane units.
    Pop,
    /// Cross-lane units, in cycles of one unit.
    Xlu,
    /// Registers loaded from VMEM.
    Load,
    /// Registers stored to VMEM.
    Store,
}

impl Unit {
    /// How many there are.
    pub const COUNT: usize = 8;

    /// All units.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Mxu,
        Self::Push,
        Self::Valu,
        Self::Eup,
        Self::Pop,
        Self::Xlu,
        Self::Load,
        Self::Store,
    ];
}

/// A core as the scheduler sees it: slots per cycle of each unit, and cycles from an operation to
/// the use of its result.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The target.
    pub target: &'static Target,
    /// Slots per cycle of each unit, in the order of [`Unit::ALL`].
    pub slots_per_cycle: [f64; Unit::COUNT],
    /// Cycles from a vector operation to its use.
    pub valu_latency: f64,
    /// Cycles from a load to its use.
    pub load_latency: f64,
    /// Cycles from a transcendental operation to its pop.
    pub eup_latency: f64,
    /// Cycles from a lane reduction to its pop.
    pub reduce_latency: f64,
    /// Cycles from the last row of a transposition to its first result.
    pub transpose_latency: f64,
    /// Cycles from a row entering a matrix unit to its result.
    pub matmul_latency: f64,
    /// Vector registers that hold values across a block; the compiler keeps the others for what it
    /// moves through.
    pub registers: f64,
    /// Cycles of a branch and the code around a predicated region.
    pub region_cycles: f64,
    /// Cycles of an iteration of a rolled loop beyond its body.
    pub loop_cycles: f64,
}

impl Machine {
    /// The machine of a target.
    pub fn new(target: &'static Target) -> Self {
        let units = target.mxu_count.value as f64;
        let [matmul, reduce, transpose, eup] = match target.generation {
            Generation::V4 => [83.0, 79.0, 100.0, 8.0],
            Generation::V5e | Generation::V5p => [125.0, 91.0, 100.0, 8.0],
            Generation::V6e => [192.0, 137.0, 90.0, 12.0],
            _ => [200.0, 141.0, 90.0, 12.0],
        };
        Self {
            target,
            slots_per_cycle: [
                units,
                units,
                target.valu_slots.value as f64,
                target.eup_per_cycle.value,
                target.result_pops_per_cycle.value as f64,
                target.xlu_count.value as f64,
                target.vector_loads_per_cycle.value as f64,
                target.vector_stores_per_cycle.value as f64,
            ],
            valu_latency: 2.0,
            load_latency: 3.0,
            eup_latency: eup,
            reduce_latency: reduce,
            transpose_latency: transpose,
            matmul_latency: matmul,
            registers: target.vregs.value.unwrap_or(64) as f64 - 8.0,
            region_cycles: 10.0,
            loop_cycles: 10.0,
        }
    }

    /// Loads and vector operations for each register of packed elements that goes to a matrix unit
    /// from VMEM, whose tiles are half as high as the unit's.
    pub fn half_tile_loads(&self) -> (f64, f64) {
        match self.target.generation {
            Generation::V4 => (1.0, 3.0),
            Generation::V5e | Generation::V5p => (2.0, 1.0),
            Generation::V6e => (1.5, 0.0),
            _ => (1.0, 0.0),
        }
    }

    /// Transpositions for each f32 register that is packed to bf16 on the way.
    pub fn packed_transposes(&self) -> f64 {
        match self.target.generation {
            Generation::V4 => 0.5,
            _ => 0.25,
        }
    }

    /// From v6e on: larger matrix units, exact reciprocals, bf16 vectors.
    pub fn new_units(&self) -> bool {
        self.target.generation >= Generation::V6e
    }

    /// From v7x on: the matrix units sum over blocks of the contraction themselves.
    pub fn accumulates(&self) -> bool {
        self.target.generation >= Generation::V7x
    }
}
