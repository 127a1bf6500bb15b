//! What makes a spec valid, and the errors that say why one is not.

use alloc::string::String;
use alloc::vec::Vec;

use thiserror::Error;

use super::bounds::check_bounds;
use super::{
    Access, AxisId, Blocked, Buffer, Edge, KernelSpec, Layout, MapVariable, NamedBuffer, Semantics,
};
use crate::target::Target;

/// Why a [`KernelSpec`] cannot be built, or not for a target.
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

pub(super) fn check(spec: &KernelSpec) -> Result<(), SpecError> {
    check_grid(spec)?;
    for named in &spec.buffers {
        match &named.buffer {
            Buffer::Window {
                access,
                layout,
                operand,
            } => {
                check_blocks(spec, named, operand, *layout)?;
                if operand.map.len() != operand.dims.len() {
                    return Err(rank_error(spec, named, operand));
                }
                check_bounds(spec, named, operand, *access)?;
                if *access == Access::Output {
                    check_counting(spec, named, operand)?;
                    check_visits(spec, named, operand)?;
                }
            }
            Buffer::Hbm { operand } => check_blocks(spec, named, operand, Layout::Tile)?,
            Buffer::Scratch { shape, .. } => check_sizes(spec, named.name, shape)?,
            Buffer::Stats { rows, .. } => check_sizes(spec, named.name, &[*rows])?,
            Buffer::Semaphore => {}
        }
    }
    check_aliases(spec)
}

impl KernelSpec {
    /// Whether the TPU compiler takes the block shapes: the last two block dimensions are multiples
    /// of the target's sublanes and lanes or the whole dimension, vectors a multiple of the lanes
    /// (`jax/_src/pallas/mosaic/lowering.py`, block shape rule; facts in docs/cost-model.md).
    ///
    /// # Errors
    /// [`SpecError::Tiling`] names the first operand that breaks the rule.
    pub fn check_tiling(&self, target: &Target) -> Result<(), SpecError> {
        let (lanes, sublanes) = (target.lanes.value, target.sublanes.value);
        for named in &self.buffers {
            let (layout, operand) = match &named.buffer {
                Buffer::Window {
                    layout, operand, ..
                } => (*layout, operand),
                Buffer::Hbm { operand } => (Layout::Tile, operand),
                _ => continue,
            };
            let multiples: &[usize] = match layout {
                Layout::Tile if operand.packed => &[lanes, 2 * sublanes],
                Layout::Tile => &[lanes, sublanes],
                Layout::Rows | Layout::Columns => &[lanes],
            };
            for (from_minor, &multiple) in multiples.iter().enumerate() {
                let dim = operand.dims.len() - 1 - from_minor;
                let (size, block) = (operand.dims[dim], operand.block[dim]);
                if block % multiple != 0 && block != size {
                    return Err(SpecError::Tiling {
                        kernel: self.name.clone(),
                        buffer: named.name,
                        dim,
                        block,
                        multiple,
                        size,
                        target: target.name,
                    });
                }
            }
        }
        Ok(())
    }
}

fn check_grid(spec: &KernelSpec) -> Result<(), SpecError> {
    let sizes: Vec<usize> = spec.grid.iter().map(|axis| axis.size).collect();
    if let Some(axis) = spec.grid.iter().find(|axis| axis.size == 0) {
        return Err(SpecError::Empty {
            kernel: spec.name.clone(),
            what: axis.name,
        });
    }
    check_sizes(spec, "grid", &sizes)?;
    let prefix = spec.parallel_axes();
    match spec.grid[prefix..]
        .iter()
        .find(|axis| axis.semantics == Semantics::Parallel)
    {
        Some(axis) => Err(SpecError::ParallelNotPrefix {
            kernel: spec.name.clone(),
            axis: axis.name,
        }),
        None => Ok(()),
    }
}

/// No size is zero, and the product with the largest element size fits an `i64`.
fn check_sizes(spec: &KernelSpec, what: &'static str, sizes: &[usize]) -> Result<(), SpecError> {
    let kernel = || spec.name.clone();
    if sizes.contains(&0) {
        return Err(SpecError::Empty {
            kernel: kernel(),
            what,
        });
    }
    let bytes = sizes.iter().try_fold(4_i64, |product, &size| {
        product.checked_mul(i64::try_from(size).ok()?)
    });
    match bytes {
        Some(_) => Ok(()),
        None => Err(SpecError::TooLarge {
            kernel: kernel(),
            what,
        }),
    }
}

fn rank_error(spec: &KernelSpec, named: &NamedBuffer, operand: &Blocked) -> SpecError {
    SpecError::Rank {
        kernel: spec.name.clone(),
        buffer: named.name,
        dims: operand.dims.len(),
        block: operand.block.len(),
        map: operand.map.len(),
    }
}

fn check_blocks(
    spec: &KernelSpec,
    named: &NamedBuffer,
    operand: &Blocked,
    layout: Layout,
) -> Result<(), SpecError> {
    let rank = operand.dims.len();
    let rank_fits = match layout {
        Layout::Tile => rank >= 2,
        Layout::Rows | Layout::Columns => rank == 1,
    };
    if !rank_fits || operand.block.len() != rank {
        return Err(rank_error(spec, named, operand));
    }
    check_sizes(spec, named.name, &operand.dims)?;
    check_sizes(spec, named.name, &operand.block)?;
    for (dim, (&size, &block)) in operand.dims.iter().zip(&operand.block).enumerate() {
        if dim + 2 < rank && block != 1 {
            return Err(SpecError::LeadingBlock {
                kernel: spec.name.clone(),
                buffer: named.name,
                dim,
                block,
            });
        }
        if operand.edge == Edge::Exact && size % block != 0 {
            return Err(SpecError::Ragged {
                kernel: spec.name.clone(),
                buffer: named.name,
                dim,
                size,
                block,
            });
        }
    }
    Ok(())
}

/// Along each dimension the blocks are the numbers of a mixed radix, whose digits are axes used
/// nowhere else: so every combination of those axes is a block of its own.
fn check_counting(
    spec: &KernelSpec,
    named: &NamedBuffer,
    operand: &Blocked,
) -> Result<(), SpecError> {
    let mut used = Vec::new();
    for (dim, index) in operand.map.iter().enumerate() {
        let error = || SpecError::NotCounting {
            kernel: spec.name.clone(),
            buffer: named.name,
            dim,
        };
        let terms = index.linear_terms().ok_or_else(error)?;
        let mut digits: Vec<(i64, AxisId)> = Vec::new();
        for (variable, factor) in terms {
            // A scalar shifts all blocks alike.
            let MapVariable::Axis(axis) = variable else {
                continue;
            };
            if spec.grid[axis.0].size == 1 {
                continue;
            }
            if used.contains(&axis) {
                return Err(error());
            }
            used.push(axis);
            digits.push((factor, axis));
        }
        digits.sort_unstable_by_key(|(factor, _)| *factor);
        let mut place = 1_i64;
        for (factor, axis) in digits {
            if factor != place {
                return Err(error());
            }
            place = place.saturating_mul(spec.grid[axis.0].size as i64);
        }
    }
    Ok(())
}

/// Each output block is written by one core, in one uninterrupted run of steps.
fn check_visits(
    spec: &KernelSpec,
    named: &NamedBuffer,
    operand: &Blocked,
) -> Result<(), SpecError> {
    let uses = |axis: usize| {
        operand
            .map
            .iter()
            .any(|index| index.depends_on(&|v| v == MapVariable::Axis(AxisId(axis))))
    };
    let innermost_used = (0..spec.grid.len()).rev().find(|&axis| uses(axis));
    for (i, axis) in spec.grid.iter().enumerate() {
        if axis.size == 1 || uses(i) {
            continue;
        }
        let (kernel, buffer, axis_name) = (spec.name.clone(), named.name, axis.name);
        if axis.semantics == Semantics::Parallel {
            return Err(SpecError::SharedOutput {
                kernel,
                buffer,
                axis: axis_name,
            });
        }
        // An inner axis of size 1 cannot make the block change.
        let left_in_between = innermost_used
            .is_some_and(|used| (i + 1..=used).any(|k| uses(k) && spec.grid[k].size > 1));
        if left_in_between {
            return Err(SpecError::Revisited {
                kernel,
                buffer,
                axis: axis_name,
            });
        }
    }
    Ok(())
}

/// An array is updated where it is read.
fn check_aliases(spec: &KernelSpec) -> Result<(), SpecError> {
    for &(input, output) in &spec.aliases {
        let [input, output] = [input, output].map(|id| &spec.buffers[id.0]);
        if input.buffer.operand() != output.buffer.operand() {
            return Err(SpecError::AliasDiffers {
                kernel: spec.name.clone(),
                input: input.name,
                output: output.name,
            });
        }
    }
    Ok(())
}
