//! The units of a core that a schedule fills, and how fast and how late each of them answers.

use tilecast_core::target::{Generation, Target};

use super::rates::{Fitted, Rates, STEP_PARTS};

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

/// Part of the scalar cycles around a step that an iteration takes which runs none, and only fetches or writes back: in
/// schedules of 160 kernels for v6e and v7x.
const IDLE: f64 = 0.7;

/// Part of the result of an element-wise operation that is alive at a time, fitted to spill slots. From v6e on results
/// of products come several times as fast as the vector unit works them off, so more of them are under way.
const fn temporaries(generation: Generation) -> f64 {
    match generation {
        Generation::V4 | Generation::V5e | Generation::V5p => 0.03,
        _ => 0.2,
    }
}

/// The same at least of a result that more than one operation reads, the last of them later, and of what a
/// transcendental operation gives: exponentials are popped as scores come, and wait for the sum that takes them (orders
/// of the compiler before it assigns registers). Fitted to spill slots of `fit.csv`, which are alike from 0.1 to 0.3.
const WAITING: f64 = 0.2;

/// Registers of what sub-tiles add to sums in memory that wait: 96 to 128 in forward passes (`sub_tiles_that_wait`).
const WAITING_SUMS: usize = 96;

/// A core as the scheduler sees it: slots per cycle of each unit, and cycles from an operation to
/// the use of its result.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The target.
    pub target: &'static Target,
    /// What a block with matrix products is placed with: fitted.
    pub rates: Rates,
    /// What one without is placed with: what documents and listings say of single operations.
    pub listed: Rates,
    /// Cycles from a lane reduction to its pop.
    pub reduce_latency: f64,
    /// Cycles from the last row of a transposition to its first result.
    pub transpose_latency: f64,
    /// Cycles from a row entering a matrix unit to its result.
    pub matmul_latency: f64,
    /// Vector registers, which hold values across a block.
    pub registers: f64,
    /// Part of the result of an element-wise operation that is alive at a time.
    pub temporaries: f64,
    /// The same at least of the result of a transcendental operation, and of one that more than one operation reads.
    pub waiting: f64,
    /// Cycles of a branch and its condition, which the block before it hides as far as it is long.
    pub branch_cycles: f64,
    /// Scalar cycles around a step: fixed; for each window; for each that is of one block in all steps; for each grid
    /// axis of more than one step; for each window whose index map sees prefetched scalars; for each scalar that an
    /// index map loads from a place that changes.
    pub step_cycles: [f64; STEP_PARTS],
    /// Part of these that an iteration takes which runs no step.
    pub idle: f64,
    /// Cycles of an iteration of a rolled loop beyond its body.
    pub loop_cycles: f64,
}

impl Machine {
    /// The machine of a target.
    pub fn new(target: &'static Target) -> Self {
        let fitted = Fitted::of(target);
        Self {
            target,
            rates: Rates::fitted(&fitted, target),
            listed: Rates::listed(target),
            reduce_latency: fitted.reduce_latency,
            transpose_latency: fitted.transpose_latency,
            matmul_latency: fitted.matmul_latency,
            registers: target.registers() as f64,
            temporaries: temporaries(target.generation),
            waiting: WAITING,
            branch_cycles: fitted.branch_cycles,
            loop_cycles: fitted.loop_cycles,
            step_cycles: fitted.step_cycles,
            idle: IDLE,
        }
    }

    /// Loads and vector operations for each register of packed elements that goes to a matrix unit from VMEM, whose
    /// tiles are half as high as the unit's, of this many columns at once. On v4 a load has the halves of two columns
    /// of registers; of a single one, it has one half.
    pub fn half_tile_loads(&self, columns: i64) -> (f64, f64) {
        match self.target.generation {
            Generation::V4 if columns <= 128 => (2.0, 3.0),
            Generation::V4 => (1.0, 3.0),
            Generation::V5e | Generation::V5p => (2.0, 1.0),
            Generation::V6e => (1.0, 0.0),
            _ => (1.0, 0.0),
        }
    }

    /// Whether a register of packed weights that was loaded has halves of two columns.
    pub fn shares_halves(&self) -> bool {
        self.target.generation == Generation::V4
    }

    /// Whether packed weights of a single column are loaded row by row from memory of words.
    pub fn loads_words_by_rows(&self) -> bool {
        self.target.generation == Generation::V4
    }

    /// Whether a product gets what was stored as packed elements in rows of this length from registers. On v5, in rows
    /// of an odd number of registers on v6e, and on v4 if that is more than one, it takes them in another form than they
    /// are stored in, so they are loaded.
    pub fn forwards_packed(&self, row: usize) -> bool {
        match self.target.generation {
            Generation::V4 => row <= 128 || row.is_multiple_of(256),
            Generation::V5e | Generation::V5p => false,
            Generation::V6e => row.is_multiple_of(256),
            _ => true,
        }
    }

    /// Vector operations for each packed register of an operand of a product whose rows in memory are this long: the
    /// halves of a tile that lie far apart are loaded by themselves and combined. So they are in rows of 1024, 2048,
    /// 4096 and 8192 elements, not of 512 or 1536 (libtpu 0.0.51).
    pub fn combined_halves(&self, columns: i64) -> f64 {
        f64::from(u8::from(self.new_units() && columns.max(1) % 1024 == 0))
    }

    /// Whether the left operand of a product is loaded no earlier than the units have taken those of the turn before,
    /// however long the load units were idle: then it has to share the vector unit with what reads the results of
    /// these.
    pub fn loads_lhs_in_time(&self) -> bool {
        self.new_units()
    }

    /// Whether reductions enter the cross-lane units before transpositions that come earlier in the program, in any
    /// block.
    pub fn reduces_first(&self) -> bool {
        self.target.generation != Generation::V4
    }

    /// Whether what a block stores and transposes stays in registers until then, though it could be loaded again.
    pub fn passes_on(&self) -> bool {
        self.target.generation == Generation::V4
    }

    /// Registers beyond those that hold values at once, in the order of the program, that a block without products has
    /// slots for. 16 are what the assignment of registers takes in the median of kernels; from v5 on, where bundles
    /// have four vector operations instead of two, they leave that order and make up for it. Of 0 to 20 best on
    /// `fit.csv`.
    pub fn kept_in_order(&self) -> f64 {
        match self.target.generation {
            Generation::V4 => 16.0,
            _ => 0.0,
        }
    }

    /// The same of a block of attention whose sums come last: 20 to 28 are alike in 48 forward passes on v4, whose mean is
    /// that of the model with 21. On v5 and later 4 to 16 are nearer in probes and farther in kernels of others.
    pub fn kept_for_sums(&self) -> f64 {
        match self.target.generation {
            Generation::V4 => 22.0,
            _ => 0.0,
        }
    }

    /// Whether bundles leave the order of the list where operations have no products to wait for.
    pub fn runs_ahead(&self) -> bool {
        self.target.generation != Generation::V4
    }

    /// Slots for so many masks that wait. v4 has registers for 8; of 50 gradients of weights of grouped products (128 and
    /// 256 rows, 128 to 768 columns each way) those that spill little else have 14 for 16 masks and 44 for 32.
    pub fn slots_of_masks(&self, masks: usize) -> f64 {
        match self.target.generation {
            Generation::V4 => 1.75 * masks.saturating_sub(8) as f64,
            _ => 0.0,
        }
    }

    /// Vector operations for each packed register that is loaded to be transposed.
    pub fn transposed_loads(&self, columns: i64) -> (f64, f64) {
        match self.target.generation {
            Generation::V4 => (1.0, 3.0),
            _ => self.half_tile_loads(columns),
        }
    }

    /// Registers of what was transposed that wait for their passes, where squares follow one another: on v5 eight of
    /// each cross-lane unit (listings of probes).
    pub fn popped_squares(&self) -> f64 {
        match self.target.generation {
            Generation::V5e | Generation::V5p => 8.0 * self.target.xlu_count.value as f64,
            _ => 0.0,
        }
    }

    /// Registers of transposed weights of several columns that wait to be pushed, where the units have three or four
    /// blocks of the contraction at once: on v4 10 to 29 in ten probes of 128 to 1024 rows.
    pub fn popped_weights(&self) -> f64 {
        match self.target.generation {
            Generation::V4 => 20.0,
            _ => 0.0,
        }
    }

    /// How much longer weights take to push that are stored transposed.
    pub fn transposed_push(&self) -> f64 {
        match self.target.generation {
            Generation::V4 => 1.0,
            _ => 2.0,
        }
    }

    /// Cycles before the first step on a core that shares a grid with others. On v5p the first thing is then a value
    /// that goes through the vector unit and back, from `vpush.ccrf` to `spop`: in listings of 20 kernels the loop over
    /// steps begins 82 to 91 cycles later than where one core has the grid. On v4, which shares grids as well, it is 11
    /// or 12.
    pub fn sharing_cycles(&self, cores: u64) -> f64 {
        match (cores > 1, self.target.generation) {
            (true, Generation::V5p) => 85.0,
            _ => 0.0,
        }
    }

    /// Cycles of each round in which registers of a row are put side by side, two to one; none where they go through
    /// memory. Read from listings of `linear_ce_dbias`.
    pub fn row_cycles(&self) -> Option<f64> {
        match self.target.generation {
            Generation::V4 => None,
            Generation::V5e | Generation::V5p => Some(2.0),
            // Combined, then rotated.
            _ => Some(4.0),
        }
    }

    /// Vector operations that pack an f32 register whose rows are transposed.
    pub fn packed_rows(&self) -> f64 {
        match self.target.generation {
            Generation::V4 => 1.5,
            _ => 0.5,
        }
    }

    /// How much longer f32 weights keep the units than their pushes take: products whose pushes take as
    /// long as their rows are that much slower on v6e.
    pub fn unpacked_push(&self) -> f64 {
        match self.target.generation {
            Generation::V6e => 1.6,
            _ => 1.0,
        }
    }

    /// Scalar cycles in which a kernel starts a copy itself: its addresses, and that they are within bounds (listings
    /// of paged attention, 16 copies one after the other).
    pub fn copy_cycles(&self) -> f64 {
        match self.target.generation {
            Generation::V4 => 19.0,
            _ => 26.0,
        }
    }

    /// Scalar cycles to compute how much is copied, where that is known only at run time: for the start, and for the
    /// wait (a listing of a pipeline within a kernel, v6e).
    pub fn size_cycles(&self) -> f64 {
        18.0
    }

    /// Cycles of one matrix unit that each register of a transcendental operation keeps from products. With 32
    /// registers, and one load a cycle, a v4 makes products at 0.3 to 0.7 of their rate while a softmax runs, though
    /// each of its units has slots left (listings of `linear_ce_forward` and `linear_ce_delta`). Fitted to
    /// `fit.csv`: 1.5 cycles of all units. None if a product `streams` its left operand as it is in memory, and 1.3
    /// if it does but packs its weights: forward passes over a packed `x` that were compiled.
    pub fn held_products(&self, streams: bool, packs: bool) -> f64 {
        let held = match (self.target.generation, streams, packs) {
            (Generation::V4, false, _) => 1.5,
            (Generation::V4, true, true) => 1.3,
            _ => 0.0,
        };
        held * self.rates.slots_per_cycle[Unit::Mxu as usize]
    }

    /// Most copies that a branch starts and is predicated for all that, instead of jumped over: 8 are and 16 are not
    /// (listings of paged attention); on v4 16 are as well.
    pub fn most_predicated(&self) -> usize {
        match self.target.generation {
            Generation::V4 => usize::MAX,
            _ => 8,
        }
    }

    /// Whether f32 weights of a single pass are packed before they are pushed.
    pub fn packs_weights(&self) -> bool {
        matches!(self.target.generation, Generation::V4 | Generation::V7x)
    }

    /// Whether that takes the vector unit as weights are loaded, before the rows do. On v7x, where it is so as well,
    /// kernels of many sub-tiles would not be within their bound of those of few (`parts.rs`).
    pub fn packs_as_loaded(&self) -> bool {
        self.target.generation == Generation::V4
    }

    /// Whether rows of a part of what was stored are there one after the other (listings of forward passes that fold
    /// their last rows exactly).
    pub(crate) fn reads_parts_by_rows(&self) -> bool {
        self.target.generation == Generation::V4
    }

    /// Transpositions for each packed register of this many side by side: two columns of registers go
    /// through a unit at once, for a ninth cycle on v5. On v4 two of them keep it for 16 (listings of `linear_ce_dw`).
    pub fn pair_transposes(&self, columns: usize) -> f64 {
        match self.target.generation {
            Generation::V4 => 1.0,
            _ => columns.div_ceil(2) as f64 / columns as f64 * 9.0 / 8.0,
        }
    }

    /// Transpositions for each f32 register that is packed to bf16 on the way.
    pub fn packed_transposes(&self) -> f64 {
        match self.target.generation {
            Generation::V4 => 0.5,
            _ => 0.25,
        }
    }

    /// The figures that are fitted to schedules, by name.
    pub fn fitted(&mut self) -> [(&'static str, &mut f64); 19] {
        let [fixed, window, still, axis, prefetched, look_up] = &mut self.step_cycles;
        let [_, _, valu, _, pop, xlu, load, store] = &mut self.rates.slots_per_cycle;
        [
            ("valu_slots", valu),
            ("pop_slots", pop),
            ("xlu_slots", xlu),
            ("load_slots", load),
            ("store_slots", store),
            ("valu_latency", &mut self.rates.valu_latency),
            ("load_latency", &mut self.rates.load_latency),
            ("eup_latency", &mut self.rates.eup_latency),
            ("reduce_latency", &mut self.reduce_latency),
            ("transpose_latency", &mut self.transpose_latency),
            ("matmul_latency", &mut self.matmul_latency),
            ("branch_cycles", &mut self.branch_cycles),
            ("loop_cycles", &mut self.loop_cycles),
            ("step_fixed", fixed),
            ("step_window", window),
            ("step_still", still),
            ("step_axis", axis),
            ("step_prefetched", prefetched),
            ("step_look_up", look_up),
        ]
    }

    /// From v6e on: larger matrix units, exact reciprocals, bf16 vectors.
    pub fn new_units(&self) -> bool {
        self.target.generation >= Generation::V6e
    }

    /// Of so many registers of selections that are made of no products, `columns` side by side, how many are made while
    /// products are and wait for exponentials; `in_rounds` if the units take several rounds for the blocks of a product.
    /// From v6e on half of those of 512 and 1024 columns if there is a second round, whose results the vector unit
    /// cannot have before those of the first, and 48 of all others (96 deltas of each of two targets; 45 and 47 in
    /// orders); on v5 37 of 64 and 94 to 112 of 128, and none where there are more or fewer.
    pub fn selected_ahead(&self, registers: usize, columns: usize, in_rounds: bool) -> f64 {
        let all = registers as f64;
        match (self.target.generation, columns) {
            (Generation::V4, _) => 0.0,
            (Generation::V5e | Generation::V5p, _) => match registers {
                64..=128 => 0.75 * all,
                _ => 0.0,
            },
            (_, 3..=8) if in_rounds => 0.5 * all,
            (_, 3..=8) => 0.0,
            _ => 48.0,
        }
    }

    /// Of so many sub-tiles what they add to sums in memory waits, where sums wait at all and each adds so many
    /// registers: as many as `WAITING_SUMS` hold, and 3 at least on v6e, 1 on v7x. Best of 1 to 8 for rows of 16, 32,
    /// 64 and 128 registers in 96 forward passes of each of them.
    pub fn sub_tiles_that_wait(&self, registers: usize) -> usize {
        let least = match self.target.generation {
            Generation::V6e => 3,
            _ => 1,
        };
        least.max(WAITING_SUMS / registers.max(1))
    }

    /// Most rows of scores whose sums along lanes come after all maxima of a block. On v4, whose vector and
    /// transcendental units take as long as the cross-lane ones, sums of more rows come in between: of 64 and 128 rows
    /// slots grow with the chunks, of 256 and 512 rows they do not (128 forward passes, `compiler-schedules.md`).
    pub(crate) fn rows_of_sums_last(&self) -> i64 {
        match self.target.generation {
            Generation::V4 => 128,
            _ => i64::MAX,
        }
    }

    /// Whether what is made when it is first used waits for sums like all else: not on v4, which has but eight registers
    /// for masks.
    pub(crate) fn late_waits(&self) -> bool {
        self.target.generation != Generation::V4
    }

    /// Whether results are popped as soon as the units have them, though the vector unit is busy with those before: on
    /// v6e.
    pub fn pops_ahead(&self) -> bool {
        self.target.generation == Generation::V6e
    }

    /// From v7x on: the matrix units sum over blocks of the contraction themselves.
    pub fn accumulates(&self) -> bool {
        self.target.generation >= Generation::V7x
    }
}
