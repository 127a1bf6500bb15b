//! [`Vector`]: a vector value as registers, and when they are there.
//!
//! The last two dimensions of a vector are cut into registers of 8 x 128 32-bit elements; 16-bit
//! elements take two rows each. A value that is the same along a dimension needs one register for all
//! of it, which is what most broadcasts come to. Registers are scheduled in groups of neighbours, at
//! most [`GROUPS`] along each dimension: fine enough to see how one operation follows another, coarse
//! enough to place a block of many thousand registers in microseconds.

use std::cell::RefCell;
use std::rc::Rc;

/// Groups along a dimension, at most.
pub(crate) const GROUPS: usize = 8;

/// One dimension of a vector, in registers and groups of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Extent {
    /// Registers.
    pub(crate) registers: usize,
    /// Registers of a group, a power of two; the last may have fewer.
    pub(crate) step: usize,
    /// Its logarithm. Schedules ask for little else than the group of a register, and a division takes long.
    shift: u32,
    /// The last group.
    last: usize,
}

impl Extent {
    /// `registers` in as few groups of a power of two as allowed.
    pub(crate) fn new(registers: usize) -> Self {
        let registers = registers.max(1);
        Self::in_groups(registers, registers.div_ceil(GROUPS).next_power_of_two())
    }

    fn in_groups(registers: usize, step: usize) -> Self {
        let shift = step.trailing_zeros();
        let last = (registers - 1) >> shift;
        Self {
            registers,
            step,
            shift,
            last,
        }
    }

    /// The same registers in groups of at least `least`.
    pub(crate) fn coarser(self, least: usize) -> Self {
        Self::in_groups(self.registers, self.step.max(least))
    }

    /// Number of groups.
    pub(crate) fn groups(self) -> usize {
        self.last + 1
    }

    /// Registers of a group.
    pub(crate) fn size(self, group: usize) -> usize {
        self.step.min(self.registers - group * self.step)
    }

    /// The groups that hold registers `from..to`; all of one register stands for every position.
    pub(crate) fn covering(self, from: usize, to: usize) -> std::ops::Range<usize> {
        if self.last == 0 {
            return 0..1;
        }
        let group_of = |register: usize| (register >> self.shift).min(self.last);
        group_of(from)..group_of(to.max(from + 1) - 1) + 1
    }
}

/// What it takes to load a register.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Fetch {
    /// Not before this cycle.
    pub(crate) ready: f64,
    /// Loads for each register.
    pub(crate) loads: f64,
    /// Vector operations for each register.
    pub(crate) valu: f64,
    /// Whether it goes before other loads: what is made of it takes long.
    pub(crate) first: bool,
}

/// A value in memory, whose groups are loaded where they are first used.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Loads {
    /// What a register takes.
    pub(crate) fetch: Fetch,
    /// Whether what is made of the value ends in several places.
    pub(crate) outlasts: bool,
    /// The block that it is loaded in.
    pub(crate) home: u32,
    /// The block that last used the value.
    pub(crate) block: u32,
    /// Cycle at which each group is there; none as long as it is not loaded.
    pub(crate) ready: Vec<Option<f64>>,
    /// The entry of each group in the account of that block.
    pub(crate) entries: Vec<Option<u32>>,
}

/// What element-wise operations take to make a value of what is in memory.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Made {
    /// Cycle from which on it can be loaded.
    pub(crate) begun: f64,
    /// Vector operations in all.
    pub(crate) work: f64,
}

/// What a value has of transpositions in its block.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Transposed {
    /// The last of them, counted from 1.
    pub(crate) last: u32,
    /// Whether it is made of nothing else.
    pub(crate) alone: bool,
}

/// What a value has of products in its block, register by register.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct OfProduct {
    /// The last of them, counted from 1; 0 if there is none.
    pub(crate) last: usize,
    /// Whether the transcendental unit made something of it.
    pub(crate) exponential: bool,
}

/// A vector value.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Vector {
    /// Rows of registers; leading dimensions multiply.
    pub(crate) rows: Extent,
    /// Columns of registers.
    pub(crate) columns: Extent,
    /// Bits of an element.
    pub(crate) bits: u32,
    /// Whether every lane of the single column holds the value of its row.
    pub(crate) along_lanes: bool,
    /// Whether it was rounded from a wider value.
    pub(crate) rounded: bool,
    /// Whether it is the result of a product whose columns come one after the other.
    pub(crate) by_column: bool,
    /// What it has of products of its block.
    pub(crate) of_product: OfProduct,
    /// What it has of transpositions.
    pub(crate) transposed: Option<Transposed>,
    /// Values in memory that it is made of, if it is made when it is first used.
    pub(crate) late: Option<usize>,
    /// What it takes to make it, if all of it is in memory but for operations on each register.
    pub(crate) made: Option<Made>,
    /// Cycle at which each group is there, row-major.
    pub(crate) ready: Vec<f64>,
    /// For a value in memory, what is loaded of it; `ready` and `entries` are not used then.
    pub(crate) loads: Option<Rc<RefCell<Loads>>>,
    /// The block that made it; in others it is there from the start.
    pub(crate) block: u32,
    /// The entry of each group in the account of registers of that block; empty for constants.
    pub(crate) entries: Vec<u32>,
}

impl Vector {
    /// A vector whose groups are all there at `ready`.
    pub(crate) fn new(rows: usize, columns: usize, bits: u32, ready: f64) -> Self {
        let (rows, columns) = (Extent::new(rows), Extent::new(columns));
        Self {
            rows,
            columns,
            bits,
            along_lanes: false,
            rounded: false,
            by_column: false,
            of_product: OfProduct::default(),
            transposed: None,
            late: None,
            made: None,
            ready: vec![ready; rows.groups() * columns.groups()],
            loads: None,
            block: 0,
            entries: Vec::new(),
        }
    }

    /// A constant: one register.
    pub(crate) fn constant(bits: u32) -> Self {
        Self {
            along_lanes: true,
            ..Self::new(1, 1, bits, 0.0)
        }
    }

    /// The same registers in memory, loaded in block `home`.
    pub(crate) fn in_memory(self, fetch: Fetch, home: u32) -> Self {
        let groups = self.ready.len();
        let loads = Loads {
            fetch,
            outlasts: false,
            home,
            block: 0,
            ready: vec![None; groups],
            entries: vec![None; groups],
        };
        Self {
            loads: Some(Rc::new(RefCell::new(loads))),
            ..self
        }
    }

    /// Registers in all.
    pub(crate) fn registers(&self) -> usize {
        self.rows.registers * self.columns.registers
    }

    /// When all of rows `r0..r1` and columns `c0..c1` of registers is there.
    pub(crate) fn ready_at(&self, [r0, r1]: [usize; 2], [c0, c1]: [usize; 2]) -> f64 {
        let columns = self.columns.groups();
        let mut ready = 0.0_f64;
        for r in self.rows.covering(r0, r1) {
            for c in self.columns.covering(c0, c1) {
                ready = ready.max(self.ready[r * columns + c]);
            }
        }
        ready
    }

    /// Its groups: number, first row, rows, first column, columns.
    pub(crate) fn groups(&self) -> impl Iterator<Item = Group> + use<> {
        let (rows, columns) = (self.rows, self.columns);
        let group = move |r, c| Group {
            index: r * columns.groups() + c,
            row: r * rows.step,
            rows: rows.size(r),
            column: c * columns.step,
            columns: columns.size(c),
        };
        (0..rows.groups()).flat_map(move |r| (0..columns.groups()).map(move |c| group(r, c)))
    }
}

/// Neighbouring registers of a vector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Group {
    /// Its number.
    pub(crate) index: usize,
    /// First row of registers.
    pub(crate) row: usize,
    /// Rows of registers.
    pub(crate) rows: usize,
    /// First column of registers.
    pub(crate) column: usize,
    /// Columns of registers.
    pub(crate) columns: usize,
}

impl Group {
    /// Number of registers.
    pub(crate) fn registers(&self) -> f64 {
        (self.rows * self.columns) as f64
    }

    /// The rows it spans.
    pub(crate) fn row_range(&self) -> [usize; 2] {
        [self.row, self.row + self.rows]
    }

    /// The columns it spans.
    pub(crate) fn column_range(&self) -> [usize; 2] {
        [self.column, self.column + self.columns]
    }
}
