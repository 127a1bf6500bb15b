//! Why a spec is not valid.

use alloc::string::String;

use thiserror::Error;

/// Why a [`KernelSpec`](super::KernelSpec) cannot be built, or not for a target.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum SpecError {
    /// A size is zero.
    #[error("{kernel}: {what} has size 0; every grid axis, dimension and block needs at least 1")]
    Empty {
        /// Kernel.
        kernel: String,
        /// Axis or buffer.
        what: &'static str,
    },
    /// The grid or an array is too large to count.
    #[error("{kernel}: the size of {what} exceeds 2^63 - 1; split the problem")]
    TooLarge {
        /// Kernel.
        kernel: String,
        /// Axis or buffer.
        what: &'static str,
    },
    /// Dimensions, block and index map have different lengths, or the layout needs another rank.
    #[error(
        "{kernel}: operand {buffer} has {dims} dimensions, {block} block sizes and {map} block indices; they must agree, a tile needs at least 2 and a vector exactly 1"
    )]
    Rank {
        /// Kernel.
        kernel: String,
        /// Operand.
        buffer: &'static str,
        /// Number of dimensions.
        dims: usize,
        /// Number of block sizes.
        block: usize,
        /// Number of block indices.
        map: usize,
    },
    /// A leading dimension of a tile has a block larger than 1.
    #[error(
        "{kernel}: operand {buffer} has a block of {block} along leading dimension {dim}; only the last two dimensions may have blocks larger than 1"
    )]
    LeadingBlock {
        /// Kernel.
        kernel: String,
        /// Operand.
        buffer: &'static str,
        /// Dimension.
        dim: usize,
        /// Its block.
        block: usize,
    },
    /// A parallel axis lies inside an arbitrary one.
    #[error(
        "{kernel}: grid axis {axis} is parallel but lies inside an arbitrary axis; parallel axes come first"
    )]
    ParallelNotPrefix {
        /// Kernel.
        kernel: String,
        /// Axis.
        axis: &'static str,
    },
    /// The block does not divide the dimension and the operand does not say it masks the edge.
    #[error(
        "{kernel}: dimension {dim} of {buffer} is {size}, which its block {block} does not divide; choose a divisor, or declare the operand masked and mask what the kernel reads there"
    )]
    Ragged {
        /// Kernel.
        kernel: String,
        /// Operand.
        buffer: &'static str,
        /// Dimension.
        dim: usize,
        /// Elements.
        size: usize,
        /// Block.
        block: usize,
    },
    /// An index map returns element offsets.
    #[error(
        "{kernel}: the index map of {buffer} returns element offsets along dimension {dim} (it reaches {reached}, a multiple of the block size {block}); it must return block indices, at most {last}: divide by {block}"
    )]
    ElementOffsets {
        /// Kernel.
        kernel: String,
        /// Operand.
        buffer: &'static str,
        /// Dimension.
        dim: usize,
        /// Largest value of the map.
        reached: i64,
        /// Block.
        block: usize,
        /// Largest valid block index.
        last: i64,
    },
    /// An index map leaves the array.
    #[error(
        "{kernel}: the index map of {buffer} covers blocks {low} to {high} along dimension {dim}, but the array has blocks 0 to {last}"
    )]
    OutOfBounds {
        /// Kernel.
        kernel: String,
        /// Operand.
        buffer: &'static str,
        /// Dimension.
        dim: usize,
        /// Smallest block index.
        low: i64,
        /// Largest block index.
        high: i64,
        /// Largest valid block index.
        last: i64,
    },
    /// Some block of an output is never written.
    #[error(
        "{kernel}: output {buffer} is written only at blocks {low} to {high} along dimension {dim}, of 0 to {last}; the rest would be undefined"
    )]
    NotCovered {
        /// Kernel.
        kernel: String,
        /// Output.
        buffer: &'static str,
        /// Dimension.
        dim: usize,
        /// Smallest block index.
        low: i64,
        /// Largest block index.
        high: i64,
        /// Largest valid block index.
        last: i64,
    },
    /// An output's index map may skip blocks or reach one from different steps.
    #[error(
        "{kernel}: the index map of output {buffer} along dimension {dim} does not count blocks one by one; it must be a sum of axes, the innermost times 1 and each other times the product of the sizes of those before it, with no clamp and no axis of another dimension"
    )]
    NotCounting {
        /// Kernel.
        kernel: String,
        /// Output.
        buffer: &'static str,
        /// Dimension.
        dim: usize,
    },
    /// An output's index map follows a table that may skip blocks or come back to one.
    #[error(
        "{kernel}: the index map of output {buffer} along dimension {dim} follows the table {table}; the table must be ascending and alone in that dimension, and its axis arbitrary and the innermost of the map"
    )]
    TableOrder {
        /// Kernel.
        kernel: String,
        /// Output.
        buffer: &'static str,
        /// Dimension.
        dim: usize,
        /// Table.
        table: &'static str,
    },
    /// A table has fewer elements than the axis that an index map follows in it has steps.
    #[error(
        "{kernel}: the table {table} has {len} elements, the grid axis {axis} that {buffer} follows in it has {steps} steps"
    )]
    TableTooShort {
        /// Kernel.
        kernel: String,
        /// Operand.
        buffer: &'static str,
        /// Table.
        table: &'static str,
        /// Elements.
        len: usize,
        /// Axis.
        axis: &'static str,
        /// Its steps.
        steps: usize,
    },
    /// Steps along a parallel axis would write the same block of an output.
    #[error(
        "{kernel}: the index map of output {buffer} ignores the parallel axis {axis}, so several cores would write the same block; use the axis in the map or make it arbitrary"
    )]
    SharedOutput {
        /// Kernel.
        kernel: String,
        /// Output.
        buffer: &'static str,
        /// Axis.
        axis: &'static str,
    },
    /// An output block is left and visited again.
    #[error(
        "{kernel}: output {buffer} returns to a block after leaving it, because axis {axis} is outside an axis its index map uses; make {axis} the innermost, or update the array by explicit copies"
    )]
    Revisited {
        /// Kernel.
        kernel: String,
        /// Output.
        buffer: &'static str,
        /// Axis.
        axis: &'static str,
    },
    /// An output that updates an input in place shows another part of the array.
    #[error(
        "{kernel}: {output} updates {input} in place; both must have the same type, dimensions, block and index map"
    )]
    AliasDiffers {
        /// Kernel.
        kernel: String,
        /// Input.
        input: &'static str,
        /// Output.
        output: &'static str,
    },
    /// A block is not a multiple of the target's tile.
    #[error(
        "{kernel}: block {block} of {buffer} along dimension {dim} must be a multiple of {multiple} on {target}, or the whole dimension ({size})"
    )]
    Tiling {
        /// Kernel.
        kernel: String,
        /// Operand.
        buffer: &'static str,
        /// Dimension.
        dim: usize,
        /// Block.
        block: usize,
        /// Required divisor.
        multiple: usize,
        /// Dimension of the array.
        size: usize,
        /// Target.
        target: &'static str,
    },
}
