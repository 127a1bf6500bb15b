//! One straight-line block: vector operations placed on the units of a core.

mod attention;
mod exact;
mod groups;
mod held;
mod late;
mod moves;
mod operands;
mod product;
mod statistics;
mod units;
mod waits;

use rustc_hash::FxHashSet;

use self::attention::Attention;
use self::exact::Exact;
use self::statistics::Statistics;
use self::units::Units;
use self::waits::Largest;
use super::account::Account;
use super::rates::Rates;
use super::timeline::{Timeline, Width};
use super::unit::{Machine, Unit};
use super::vector::{Made, Vector};

pub(crate) use product::{Product, Standing};

/// Slots that one register of the result of an element-wise operation takes.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Cost {
    /// Vector ALU.
    pub(crate) valu: f64,
    /// Transcendental unit; each also takes a pop.
    pub(crate) eup: f64,
}

impl Cost {
    /// `valu` operations.
    pub(crate) const fn valu(valu: f64) -> Self {
        Self { valu, eup: 0.0 }
    }

    /// One transcendental operation and `valu` others.
    pub(crate) const fn eup(valu: f64) -> Self {
        Self { valu, eup: 1.0 }
    }
}

/// A block under construction.
#[derive(Debug)]
pub(crate) struct Block<'a> {
    /// The core.
    pub(crate) machine: &'a Machine,
    /// Slots taken so far.
    pub(crate) timeline: Timeline,
    /// Registers held so far.
    pub(crate) account: Account,
    /// The turn of each product so far, and the entries of its results.
    results: Vec<(usize, Vec<u32>)>,
    /// When the weights were pushed that share registers with those of the next column.
    half: Option<f64>,
    /// Registers of what earlier blocks loaded or made, and the values that they made, by block and first entry.
    living_in: f64,
    made_before: FxHashSet<(u32, u32)>,
    /// The largest tile that was loaded, in f32 registers, and how many of them were.
    tiles: Largest,
    /// The most registers of masks that select rows of packed values, and how many values they do.
    masks: Largest,
    /// How often packed weights of one column were loaded from memory of words.
    loaded_words: u32,
    /// Registers of the largest result that is popped before it is worked off.
    popped: f64,
    /// Whether results are needed before all of them are worked off: by products, or for their maximum.
    needs_results: bool,
    /// Entries of results that are kept instead of a scratch.
    kept: Vec<u32>,
    /// The turn of the last product, and when the matrix units had all rows of it and of those of the turn before.
    turn: usize,
    fed: [f64; 2],
    /// Exact products so far.
    exact: Exact,
    /// Cycles of one matrix unit that a register of a transcendental operation keeps from products, after the last of
    /// them.
    held: f64,
    /// Statistics that are transposed, and what waits for them.
    statistics: Statistics,
    /// The matrix units, of which products may keep some.
    units: Units,
    /// Groups of the result of an operation that is made late, each with an entry of what it is made of.
    operands: Vec<(usize, u32)>,
    /// Whether results of products are summed in memory.
    sums_products: bool,
    /// Groups of selections that are made of no results of products, with their turn and the part of them that waits
    /// for exponentials.
    selected: Vec<(usize, f64, Vec<u32>)>,
    /// Whether the units take the blocks of the last product in several rounds.
    in_rounds: bool,
    /// Registers and groups of what each sub-tile adds to sums in memory.
    added: Vec<(usize, Vec<u32>)>,
    /// What it is placed with.
    rates: &'a Rates,
    /// The critical path of a block without products.
    critical: Option<f64>,
    /// What waits as in attention.
    attention: Attention,
    /// When the cross-lane units have taken the last register that is reduced.
    reduced_until: f64,
    /// Whether it loads what it has stored.
    chained: bool,
    /// Its number, by which values of other blocks are told apart.
    pub(crate) number: u32,
}

impl<'a> Block<'a> {
    /// An empty block.
    pub(crate) fn new(machine: &'a Machine, number: u32) -> Self {
        Self {
            machine,
            timeline: Timeline::new(machine),
            account: Account::default(),
            results: Default::default(),
            half: None,
            living_in: 0.0,
            made_before: FxHashSet::default(),
            tiles: Largest::default(),
            masks: Largest::default(),
            loaded_words: 0,
            popped: 0.0,
            needs_results: false,
            kept: Vec::new(),
            turn: 0,
            fed: [0.0; 2],
            exact: Exact::default(),
            held: machine.held_products(false, false),
            statistics: Statistics::default(),
            units: Units::new(machine.target.mxu_count.value),
            operands: Vec::new(),
            sums_products: false,
            selected: Vec::new(),
            added: Vec::new(),
            in_rounds: false,
            rates: &machine.rates,
            critical: None,
            attention: Attention::default(),
            reduced_until: 0.0,
            chained: false,
            number,
        }
    }

    /// The block, which is empty, is one without matrix products, whose critical path is given.
    pub(crate) fn begin_plain(&mut self, critical: f64) {
        self.begin(Width::Cycle, Some(critical));
    }

    /// The block, which is empty, is one without matrix products whose operations do not share units.
    pub(crate) fn begin_alone(&mut self) {
        self.begin(Width::Alone, None);
    }

    /// Whether the block was begun as one without matrix products.
    pub(crate) fn is_plain(&self) -> bool {
        self.critical.is_some()
    }

    fn begin(&mut self, width: Width, critical: Option<f64>) {
        self.critical = critical;
        self.rates = match width {
            Width::Coarse => &self.machine.rates,
            Width::Cycle | Width::Alone => &self.machine.listed,
        };
        self.timeline.clear(width, self.rates);
    }

    /// Cycles of the block: until the last operation that was placed ends. Those were placed one after the other, each
    /// with all its registers; the compiler may let them follow register by register, and then the block takes no more
    /// than its fullest unit, and the critical path of a register.
    pub(crate) fn cycles(&self) -> f64 {
        let end = self.timeline.end();
        self.critical
            .map_or(end, |critical| end.min(self.timeline.fullest() + critical))
    }

    /// Most registers that hold values at once. Those of what earlier blocks left for this one add to its own: where they
    /// do not fit, they are spilled, and it loads them again. Masks have registers of their own, and slots like others.
    pub(crate) fn registers(&mut self) -> f64 {
        let values = self.own_registers() + self.living_in;
        values.max(self.registers_for_masks())
    }

    /// The same of what the block itself loads and makes.
    ///
    /// What has no products and little for the cross-lane units the compiler leaves in the order of the program, or
    /// takes from store to store, each with the chains of operations that it needs, if fewer registers hold values
    /// then. Where a block loads what it has stored they are not fewer: its longest chain leads through memory, and
    /// would come first.
    fn own_registers(&mut self) -> f64 {
        let [xlu, valu] = [Unit::Xlu, Unit::Valu].map(|unit| self.timeline.taken(unit));
        if self.is_plain() && (xlu == 0.0 || self.chained && xlu < valu) {
            let listed = self.account.peak_in_order(self.chained) + self.machine.kept_in_order();
            return listed + self.loaded_ahead(listed);
        }
        let most = match self.follows_rows() && xlu < valu {
            true => self.account.peak_of_chains() + self.machine.kept_in_order(),
            false => f64::INFINITY,
        };
        self.settle_waits();
        self.registers_of_exact().unwrap_or_else(|| {
            let peak = self.account.peak().min(most) + self.kept_for_sums();
            self.registers_of_statistics(peak).unwrap_or(peak)
        })
    }

    /// Whether the block neither multiplies nor reduces nor transposes, which matters inside of a region, where it is
    /// not known to be one without products before it ends: before v6e it is worked off register by register, as in the
    /// backward pass of Tokamax, whose exponentials do not all wait for labels to be spread over columns; from v6e on
    /// they do.
    fn follows_rows(&self) -> bool {
        let reduces = self.reduced_until > 0.0 || self.statistics.transposes();
        !self.machine.new_units() && self.results.is_empty() && !reduces && !self.chained
    }

    /// Its number among those of the kernel.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Operations on registers so far.
    pub(crate) fn operations(&self) -> f64 {
        let hold = self.machine.target.xlu_hold_cycles.value as f64;
        let units = [Unit::Load, Unit::Store, Unit::Valu, Unit::Eup, Unit::Pop];
        let taken = units.map(|unit| self.timeline.taken(unit));
        taken.iter().sum::<f64>() + self.timeline.taken(Unit::Xlu) / hold
    }

    /// The block loads what it has stored.
    pub(crate) fn loads_stored(&mut self) {
        self.chained = true;
    }

    /// Whether reductions enter the cross-lane units before transpositions that come earlier in the program: on v4
    /// where what is transposed was stored and is loaded again.
    pub(crate) fn reduces_first(&self) -> bool {
        self.machine.reduces_first() || self.chained
    }

    /// Products are made of results of others.
    pub(crate) fn multiplies_results(&mut self) {
        self.needs_results = true;
    }

    /// What is made of the value ends in several places, which counts in blocks without products.
    pub(crate) fn outlasts(&mut self, value: &Vector) {
        if !self.is_plain() {
            return;
        }
        if let Some(loads) = &value.loads {
            loads.borrow_mut().outlasts = true;
        }
        for entry in self.all_entries(value) {
            self.account.outlasts(entry);
        }
    }

    /// Goes on to an empty block after this one, in the same memory.
    pub(crate) fn next(&mut self) {
        self.begin(Width::Coarse, None);
        self.account.clear();
        self.results.clear();
        self.half = None;
        self.living_in = 0.0;
        self.made_before.clear();
        self.tiles = Largest::default();
        self.masks = Largest::default();
        self.loaded_words = 0;
        self.popped = 0.0;
        self.needs_results = false;
        self.kept.clear();
        self.turn = 0;
        self.fed = [0.0; 2];
        self.exact = Exact::default();
        self.held = self.machine.held_products(false, false);
        self.statistics = Statistics::default();
        self.units.clear();
        self.chained = false;
        self.attention = Attention::default();
        self.reduced_until = 0.0;
        self.sums_products = false;
        self.selected.clear();
        self.added.clear();
        self.in_rounds = false;
        self.number += 1;
    }

    /// Results of a unit that are popped: when they can be used.
    fn pop(&mut self, ready: f64, count: f64) -> f64 {
        self.timeline.take(Unit::Pop, ready, count).end + 1.0
    }

    /// An operation on each register of the result, from the same position of each input.
    pub(crate) fn element_wise(&mut self, inputs: &[&Vector], bits: u32, cost: Cost) -> Vector {
        let most = |f: fn(&Vector) -> usize| inputs.iter().map(|v| f(v)).max().unwrap_or(1);
        let rows = most(|v| v.rows.registers);
        let columns = most(|v| v.columns.registers);
        let mut out = Vector::new(rows, columns, bits, 0.0);
        out.along_lanes = columns == 1 && inputs.iter().all(|v| v.along_lanes);
        let extents = (out.rows, out.columns);
        let alike = |input: &Vector| (input.rows, input.columns) == extents;
        out.transposed = self.meets(inputs);
        out.of_product = self.of_products(inputs, cost.eup > 0.0);
        let awaited = self.awaited(inputs, out.of_product);
        out.late = self.late(inputs);
        out.made = self.made(inputs, out.registers() as f64 * cost.valu);
        for group in out.groups() {
            let mut ready = 0.0_f64;
            for input in inputs {
                ready = ready.max(self.group_ready(input, &group, alike(input)));
            }
            self.wait_for_sums(inputs, &group, ready);
            let n = group.registers();
            let mut span = self.timeline.take(Unit::Valu, ready, n * cost.valu);
            let mut done = span.end + self.rates.valu_latency;
            if cost.valu == 0.0 {
                done = ready;
            }
            if cost.eup > 0.0 {
                let eup =
                    self.timeline
                        .take(Unit::Eup, span.start + self.rates.into_eup, n * cost.eup);
                let held = n * cost.eup * self.held;
                self.timeline.hold(Unit::Mxu, eup.start, held);
                span.end = span.end.max(eup.end);
                let first = (eup.start + self.rates.eup_latency)
                    .max(eup.end + self.rates.eup_latency - n * cost.eup);
                done = self
                    .pop(first, n * cost.eup)
                    .max(eup.end + self.rates.eup_latency);
            }
            out.ready[group.index] = done;
            for input in inputs {
                if input.registers() < out.registers() || self.waits_for_product(input, awaited) {
                    self.spread(input, group.row_range(), group.column_range());
                }
                match out.late {
                    Some(_) => {
                        self.made_of(group.index, input, group.row_range(), group.column_range())
                    }
                    None => self.group_used(input, &group, span, alike(input)),
                }
            }
        }
        for input in inputs {
            if input.rows.registers < out.rows.registers {
                // Every row needs it.
                self.outlasts(input);
            }
        }
        let Machine {
            temporaries,
            waiting,
            ..
        } = *self.machine;
        let (part, shared) = match cost.eup > 0.0 {
            true => (temporaries.max(waiting), 1.0),
            false => (temporaries, waiting),
        };
        match out.late {
            Some(_) => self.hold_late(&mut out, part),
            None => self.hold_part(&mut out, part),
        }
        for group in out.groups() {
            let entry = out.entries[group.index];
            self.account.shared(entry, shared * group.registers());
        }
        out
    }

    /// What it takes to make the result of so many operations on the registers of these.
    pub(super) fn made(&self, inputs: &[&Vector], work: f64) -> Option<Made> {
        let mut made = Made { begun: 0.0, work };
        for input in inputs {
            let of_input = match &input.loads {
                Some(loads) => Made {
                    begun: loads.borrow().fetch.ready,
                    work: 0.0,
                },
                None if input.block != self.number => Made::default(),
                None => input.made?,
            };
            made.begun = made.begun.max(of_input.begun);
            made.work += of_input.work;
        }
        Some(made)
    }

    /// Registers written to VMEM, with `stores` for each, all of their elements or those of a mask: when the last of
    /// them is.
    pub(crate) fn store(
        &mut self,
        value: &Vector,
        mask: Option<&Vector>,
        [rows, columns]: [usize; 2],
        stores: f64,
    ) -> f64 {
        let shape = Vector::new(rows, columns, value.bits, 0.0);
        let alike = |stored: &Vector| (stored.rows, stored.columns) == (shape.rows, shape.columns);
        let read = || std::iter::once(value).chain(mask);
        let mut end = 0.0_f64;
        for group in shape.groups() {
            let n = group.registers();
            let ready = read()
                .map(|stored| self.group_ready(stored, &group, alike(stored)))
                .fold(0.0, f64::max);
            let span = self.timeline.take(Unit::Store, ready, n * stores);
            for stored in read() {
                self.group_used(stored, &group, span, alike(stored));
            }
            end = end.max(span.end);
        }
        end
    }
}
