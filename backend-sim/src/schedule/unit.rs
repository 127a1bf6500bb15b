//! The units of a core that a schedule fills, and how fast and how late each of them answers.

use tilecast_core::target::{Generation, Target};

/// A unit, or a kind of slot of an instruction bundle.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
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

    /// The name used in traces.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mxu => "MXU",
            Self::Push => "MXU weights",
            Self::Valu => "VALU",
            Self::Eup => "EUP",
            Self::Pop => "result pops",
            Self::Xlu => "XLU",
            Self::Load => "loads",
            Self::Store => "stores",
        }
    }
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
    /// Part of the result of an element-wise operation that is alive at a time.
    pub temporaries: f64,
    /// Cycles of a branch and the code around a predicated region.
    pub region_cycles: f64,
    /// Scalar cycles around a step: fixed; for each window; for each grid axis of more than one
    /// step; for each window whose index map sees prefetched scalars.
    pub step_cycles: [f64; 4],
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
            temporaries: std::env::var("TEMP").map_or(0.15, |v| v.parse().unwrap()),
            region_cycles: match target.generation {
                Generation::V4 => 13.0,
                Generation::V5e => 18.0,
                Generation::V5p => 20.0,
                Generation::V6e => 22.0,
                _ => 24.0,
            },
            loop_cycles: 10.0,
            step_cycles: match target.generation {
                Generation::V4 => [-19.0, 19.0, 23.0, 6.6],
                Generation::V5e => [0.0, 16.0, 10.0, 3.0],
                Generation::V5p => [-20.0, 26.0, 25.0, 9.0],
                Generation::V6e => [-17.0, 18.0, 23.0, 8.0],
                _ => [-23.0, 25.0, 31.0, 9.0],
            },
        }
    }

    /// Loads and vector operations for each register of packed elements that goes to a matrix unit
    /// from VMEM, whose tiles are half as high as the unit's.
    pub fn half_tile_loads(&self) -> (f64, f64) {
        match self.target.generation {
            Generation::V4 => (1.0, 3.0),
            Generation::V5e | Generation::V5p => (2.0, 1.0),
            Generation::V6e => (1.0, 0.0),
            _ => (1.0, 0.0),
        }
    }

    /// Whether the left operand of a product, read from memory, stays in registers for all columns.
    pub fn keeps_lhs(&self, bf16: bool, k: usize, transpose_rhs: bool) -> bool {
        match self.target.generation {
            Generation::V4 | Generation::V5e | Generation::V5p => bf16,
            Generation::V6e => bf16 && k > 512,
            _ => bf16 && transpose_rhs && k > 512,
        }
    }

    /// Registers that the parts of an f32 register take which is split for an exact product.
    pub fn split_registers(&self) -> f64 {
        match self.target.generation {
            Generation::V4 => 2.3,
            Generation::V5e | Generation::V5p => 4.3,
            Generation::V6e => 4.8,
            _ => 3.4,
        }
    }

    /// Vector operations for each packed register that is loaded to be transposed.
    pub fn transposed_loads(&self) -> (f64, f64) {
        match self.target.generation {
            Generation::V4 => (1.0, 2.0),
            _ => self.half_tile_loads(),
        }
    }

    /// How much longer weights take to push that are stored transposed.
    pub fn transposed_push(&self) -> f64 {
        match self.target.generation {
            Generation::V4 => 1.0,
            _ => 2.0,
        }
    }

    /// Whether f32 weights of a single pass are packed before they are pushed.
    pub fn packs_weights(&self) -> bool {
        matches!(self.target.generation, Generation::V4 | Generation::V7x)
    }

    /// Transpositions for each f32 register that is packed to bf16 on the way.
    pub fn packed_transposes(&self) -> f64 {
        match self.target.generation {
            Generation::V4 => 0.5,
            _ => 0.25,
        }
    }

    /// The figures that are fitted to schedules, by name.
    pub fn fitted(&mut self) -> [(&'static str, &mut f64); 17] {
        let [fixed, window, axis, prefetched] = &mut self.step_cycles;
        let [_, _, valu, eup, pop, xlu, load, store] = &mut self.slots_per_cycle;
        [
            ("valu_slots", valu),
            ("eup_slots", eup),
            ("pop_slots", pop),
            ("xlu_slots", xlu),
            ("load_slots", load),
            ("store_slots", store),
            ("valu_latency", &mut self.valu_latency),
            ("load_latency", &mut self.load_latency),
            ("eup_latency", &mut self.eup_latency),
            ("reduce_latency", &mut self.reduce_latency),
            ("transpose_latency", &mut self.transpose_latency),
            ("matmul_latency", &mut self.matmul_latency),
            ("region_cycles", &mut self.region_cycles),
            ("step_fixed", fixed),
            ("step_window", window),
            ("step_axis", axis),
            ("step_prefetched", prefetched),
        ]
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
