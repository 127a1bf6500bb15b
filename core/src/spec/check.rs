//! What makes a spec valid.

use alloc::vec::Vec;

use super::bounds::check_bounds;
use super::{
    Access, AxisId, Blocked, Buffer, Edge, KernelSpec, Layout, MapVariable, NamedBuffer, Semantics,
    SpecError,
};
use crate::target::Target;

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
                check_tables(spec, named, operand)?;
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

/// The tables that an index map follows have an element for each step.
fn check_tables(
    spec: &KernelSpec,
    named: &NamedBuffer,
    operand: &Blocked,
) -> Result<(), SpecError> {
    let too_short = |v: MapVariable| match v {
        MapVariable::Element(table, axis) => {
            spec.tables[table.table()].len() < spec.grid[axis.0].size
        }
        _ => false,
    };
    let mut found = None;
    for index in &operand.map {
        index.for_each(&mut |v| {
            if let MapVariable::Element(table, axis) = v
                && too_short(v)
            {
                found.get_or_insert((table, axis));
            }
        });
    }
    let Some((table, axis)) = found else {
        return Ok(());
    };
    let (table, axis) = (&spec.tables[table.table()], &spec.grid[axis.0]);
    Err(SpecError::TableTooShort {
        kernel: spec.name.clone(),
        buffer: named.name,
        table: table.name,
        len: table.len(),
        axis: axis.name,
        steps: axis.size,
    })
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
        let alone = terms.len() == 1;
        let mut digits: Vec<(i64, AxisId)> = Vec::new();
        for (variable, factor) in terms {
            // A scalar shifts all blocks alike.
            let Some(axis) = variable.axis() else {
                continue;
            };
            if let MapVariable::Element(table, _) = variable {
                let table = &spec.tables[table.table()];
                let in_order = spec.grid[axis.0].semantics == Semantics::Arbitrary
                    && spec.axes_of(operand).all(|other| other.0 <= axis.0);
                if !(table.ascending && alone && factor == 1 && in_order) || used.contains(&axis) {
                    return Err(SpecError::TableOrder {
                        kernel: spec.name.clone(),
                        buffer: named.name,
                        dim,
                        table: table.name,
                    });
                }
                used.push(axis);
                continue;
            }
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
    let used: Vec<AxisId> = spec.axes_of(operand).collect();
    let uses = |axis: usize| used.contains(&AxisId(axis));
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
        let left_in_between = innermost_used.is_some_and(|used| (i + 1..=used).any(uses));
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
