//! [`KernelSpec`]: everything about a kernel but its arithmetic.
//!
//! A kernel runs once per point of a *grid*, in lexicographic order with the last axis innermost.
//! At each point it sees, for every array operand, a *window*: the block that an *index map* picks
//! from the array. Maps return **block indices**, not element offsets: block `i` of size `b` starts
//! at element `i * b`. Windows live in fast memory (VMEM on a TPU, packed panels on a CPU); between
//! steps the machine copies blocks in and out, and skips a copy when the index repeats. *Scratch*
//! buffers stay for the whole launch. Arrays too irregular for windows stay in HBM and are copied
//! by the kernel itself.
//!
//! Axes marked [`Semantics::Parallel`] may run in any order and on several cores.
//!
//! [`SpecBuilder`] declares all this and hands out the handles of [`view`](crate::view);
//! [`SpecBuilder::build`] checks it, so that a `KernelSpec` in hand is one whose windows stay in
//! bounds, whose outputs are written completely and by one core each.

mod affine;
mod bounds;
mod builder;
mod check;
mod error;

use alloc::string::String;
use alloc::vec::Vec;

pub use affine::Affine;
pub use builder::SpecBuilder;
pub use error::SpecError;

use crate::DType;
use crate::view::{
    BufferId, ColumnsRef, HbmRef, RowsRef, ScalarsRef, SemaphoreRef, StatsRef, TableRef, TileRef,
};

/// One axis of the grid; outermost first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AxisId(pub(crate) usize);

impl AxisId {
    /// Position of the axis in [`KernelSpec::grid`].
    pub const fn index(self) -> usize {
        self.0
    }
}

/// A variable of an index map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapVariable {
    /// The grid index along an axis.
    Axis(AxisId),
    /// An element of a scalar-prefetch operand: its operand and position.
    Scalar(ScalarsRef, usize),
    /// The element of a table at the grid index along an axis.
    Element(TableRef, AxisId),
}

impl MapVariable {
    /// The axis that the variable follows.
    pub const fn axis(self) -> Option<AxisId> {
        match self {
            Self::Axis(axis) | Self::Element(_, axis) => Some(axis),
            Self::Scalar(..) => None,
        }
    }
}

/// The block index along one array dimension, as a function of the grid.
pub type BlockIndex = Affine<MapVariable>;

impl From<AxisId> for BlockIndex {
    fn from(axis: AxisId) -> Self {
        Self::Variable(MapVariable::Axis(axis))
    }
}

impl ScalarsRef {
    /// The scalar at `position`, as a variable of an index map.
    pub const fn at(self, position: usize) -> BlockIndex {
        Affine::Variable(MapVariable::Scalar(self, position))
    }
}

impl TableRef {
    /// The element at the grid index along `axis`, as a variable of an index map.
    pub const fn along(self, axis: AxisId) -> BlockIndex {
        Affine::Variable(MapVariable::Element(self, axis))
    }
}

/// Whether steps along an axis depend on each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Semantics {
    /// Any order, any core.
    Parallel,
    /// In order, on one core.
    Arbitrary,
}

/// A grid axis.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GridAxis {
    /// Name for reports.
    pub name: &'static str,
    /// Number of steps.
    pub size: usize,
    /// Whether its steps may run in parallel.
    pub semantics: Semantics,
}

/// How the elements of a buffer are arranged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// The last two dimensions are rows and columns; blocks of leading dimensions have size 1.
    Tile,
    /// One element per row.
    Rows,
    /// One element per column.
    Columns,
}

/// What happens where blocks do not divide the array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Edge {
    /// They do; anything else is an error.
    Exact,
    /// The last block overhangs: reads there are undefined and the kernel masks them, stores there
    /// are dropped.
    Masked,
}

/// An array operand and how it is cut into blocks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Blocked {
    /// Element type.
    pub dtype: DType,
    /// Array dimensions, elements.
    pub dims: Vec<usize>,
    /// Block size along each dimension, elements.
    pub block: Vec<usize>,
    /// Block index along each dimension (empty for HBM operands).
    pub map: Vec<BlockIndex>,
    /// What happens at the end of a dimension that its block does not divide.
    pub edge: Edge,
    /// Whether a window has one buffer where it would have two: a step that needs another block then waits for it, and
    /// a block takes half of the memory.
    pub one_buffer: bool,
    /// Whether a TPU holds each pair of rows, of bf16, as one row of words of 32 bits: so its matrix units take them,
    /// which elsewhere have to be laid out anew where registers and tiles of memory differ. Elsewhere it is an array
    /// like others.
    pub packed: bool,
}

impl Blocked {
    /// An array of `dims` in blocks of `block`, at block index `map`.
    pub fn new<const N: usize>(
        dtype: DType,
        dims: [usize; N],
        block: [usize; N],
        map: [BlockIndex; N],
    ) -> Self {
        Self {
            dtype,
            dims: dims.into(),
            block: block.into(),
            map: map.into(),
            edge: Edge::Exact,
            one_buffer: false,
            packed: false,
        }
    }

    /// An array that the kernel reaches by copies of single blocks.
    pub fn by_copy<const N: usize>(dtype: DType, dims: [usize; N], block: [usize; N]) -> Self {
        Self {
            map: Vec::new(),
            ..Self::new(dtype, dims, block, core::array::from_fn(|_| 0.into()))
        }
    }

    /// Blocks may overhang the array; the kernel masks what it reads there.
    pub fn masked(mut self) -> Self {
        self.edge = Edge::Masked;
        self
    }

    /// The same, its window in one buffer if `one_buffer`.
    pub const fn in_one_buffer(mut self, one_buffer: bool) -> Self {
        self.one_buffer = one_buffer;
        self
    }

    /// The same, its array packed if `packed`.
    pub const fn in_pairs(mut self, packed: bool) -> Self {
        self.packed = packed;
        self
    }

    /// Number of blocks along each dimension.
    pub fn block_counts(&self) -> impl Iterator<Item = usize> {
        self.dims
            .iter()
            .zip(&self.block)
            .map(|(&dim, &block)| dim.div_ceil(block))
    }

    /// Bytes of one block without padding.
    pub fn block_bytes(&self) -> u64 {
        self.block.iter().map(|&n| n as u64).product::<u64>() * self.dtype.size_bytes() as u64
    }
}

/// Whether a window is read or written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Copied in; the kernel may change its copy.
    Input,
    /// Undefined at first, copied out when its index changes and at the end.
    Output,
}

/// What a buffer is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Buffer {
    /// A block of an array operand, in fast memory.
    Window {
        /// Direction.
        access: Access,
        /// Arrangement.
        layout: Layout,
        /// The array and its blocks.
        operand: Blocked,
    },
    /// An array operand in HBM, reached by copies; read and written.
    Hbm {
        /// The array and its blocks.
        operand: Blocked,
    },
    /// Memory of the kernel, undefined at first.
    Scratch {
        /// Element type.
        dtype: DType,
        /// Arrangement.
        layout: Layout,
        /// `[rows, columns]`, or the length of a vector.
        shape: Vec<usize>,
    },
    /// Running logsumexp of so many rows.
    Stats {
        /// Number of rows.
        rows: usize,
        /// Whether it keeps the moment that an entropy needs.
        entropy: bool,
    },
    /// A semaphore for copies.
    Semaphore,
}

impl Buffer {
    /// Vectors of one value per row that statistics consist of; 1 for everything else.
    pub const fn values_per_row(&self) -> usize {
        match self {
            Self::Stats { entropy: true, .. } => 3,
            Self::Stats { .. } => 2,
            _ => 1,
        }
    }

    /// The array operand, if the buffer has one.
    pub fn operand(&self) -> Option<&Blocked> {
        match self {
            Self::Window { operand, .. } | Self::Hbm { operand } => Some(operand),
            _ => None,
        }
    }
}

/// A buffer and its name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedBuffer {
    /// Name for reports and errors.
    pub name: &'static str,
    /// What it is.
    pub buffer: Buffer,
}

/// A scalar-prefetch operand: `len` `i32`s known before the kernel starts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScalarOperand {
    /// Name for reports.
    pub name: &'static str,
    /// Number of scalars.
    pub len: usize,
}

/// A table: `i32`s between 0 and `last`, that a step of the program computes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    /// Name for reports.
    pub name: &'static str,
    /// The largest value.
    pub last: i64,
    /// Whether each element is the one before or the next number, from 0 up to `last`: so an output whose blocks follow
    /// it is written completely, and no block of it twice with another in between.
    pub ascending: bool,
    /// The elements that a model of the kernel takes where none are known.
    pub typical: Vec<i32>,
}

impl Table {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.typical.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.typical.is_empty()
    }
}

/// A checked description of a kernel's grid, operands and memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelSpec {
    name: String,
    grid: Vec<GridAxis>,
    scalars: Vec<ScalarOperand>,
    tables: Vec<Table>,
    buffers: Vec<NamedBuffer>,
    aliases: Vec<(BufferId, BufferId)>,
}

impl KernelSpec {
    /// The kernel's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The grid axes, outermost first; parallel axes come first.
    pub fn grid(&self) -> &[GridAxis] {
        &self.grid
    }

    /// The scalar-prefetch operands.
    pub fn scalars(&self) -> &[ScalarOperand] {
        &self.scalars
    }

    /// The tables, which a launch passes behind the scalars.
    pub fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// Position of a scalar among those of all operands, one after the other.
    pub fn scalar_position(&self, scalars: ScalarsRef, index: usize) -> usize {
        let before = &self.scalars[..scalars.operand];
        before.iter().map(|operand| operand.len).sum::<usize>() + index
    }

    /// All buffers, by [`BufferId`]; array operands in the order in which a launch passes them.
    pub fn buffers(&self) -> &[NamedBuffer] {
        &self.buffers
    }

    /// Pairs of an input and an output window that are the same array.
    pub fn aliases(&self) -> &[(BufferId, BufferId)] {
        &self.aliases
    }

    /// The array operands (windows and HBM arrays), in launch order.
    pub fn operands(&self) -> impl Iterator<Item = (BufferId, &NamedBuffer, &Blocked)> {
        self.buffers
            .iter()
            .enumerate()
            .filter_map(|(i, b)| b.buffer.operand().map(|operand| (BufferId(i), b, operand)))
    }

    /// Number of grid steps.
    pub fn steps(&self) -> u64 {
        self.grid.iter().map(|axis| axis.size as u64).product()
    }

    /// Number of leading parallel axes.
    pub fn parallel_axes(&self) -> usize {
        self.grid
            .iter()
            .take_while(|axis| axis.semantics == Semantics::Parallel)
            .count()
    }

    /// Whether the block a window shows differs between grid steps.
    pub fn varies(&self, operand: &Blocked) -> bool {
        let varies = |v: MapVariable| match v.axis() {
            Some(axis) => self.grid[axis.0].size > 1,
            None => self.steps() > 1,
        };
        operand.map.iter().any(|index| index.depends_on(&varies))
    }

    /// The axes with several steps that a window's index map follows, outermost first.
    pub fn axes_of(&self, operand: &Blocked) -> impl DoubleEndedIterator<Item = AxisId> {
        let follows = move |axis: &AxisId| {
            self.grid[axis.0].size > 1
                && (operand.map.iter())
                    .any(|index| index.depends_on(&|v: MapVariable| v.axis() == Some(*axis)))
        };
        (0..self.grid.len()).map(AxisId).filter(follows)
    }

    /// How often the machine copies the window's block over the whole grid: once for each run of
    /// equal block indices in lexicographic order. An upper bound where an index map clamps, adds
    /// axes up or follows a table.
    pub fn copies(&self, operand: &Blocked) -> u64 {
        let innermost = self.axes_of(operand).last();
        self.grid[..innermost.map_or(0, |axis| axis.0 + 1)]
            .iter()
            .map(|axis| axis.size as u64)
            .product()
    }
}
