//! Whether the blocks of an array that a kernel copies lie within it, by interval arithmetic over its grid.
//!
//! The TPU compiler can check each copy as it runs. It need not where this has been checked before.

use super::{Access, Blocked, KernelSpec, MapVariable, NamedBuffer, SpecError};

/// The least and the greatest value of something.
type Range = (i64, i64);

/// Index maps stay inside the array, and outputs reach every block. Maps that depend on scalars are known only at launch, where
/// [`check_launch`] does it.
pub(super) fn check_bounds(
    spec: &KernelSpec,
    named: &NamedBuffer,
    operand: &Blocked,
    access: Access,
) -> Result<(), SpecError> {
    for dim in 0..operand.map.len() {
        let Some((low, high)) = blocks_reached(spec, operand, dim, &|_| None) else {
            continue;
        };
        let last = check_range(spec, named, operand, dim, (low, high))?;
        if access == Access::Output && (low, high) != (0, last) {
            return Err(SpecError::NotCovered {
                kernel: spec.name.clone(),
                buffer: named.name,
                dim,
                low,
                high,
                last,
            });
        }
    }
    Ok(())
}

/// Index maps stay inside the arrays where the scalars, by their position among all, are within `scalars`.
pub(crate) fn check_launch(
    spec: &KernelSpec,
    scalars: &impl Fn(usize) -> Option<Range>,
) -> Result<(), SpecError> {
    for (_, named, operand) in spec.operands() {
        for dim in 0..operand.map.len() {
            if let Some(range) = blocks_reached(spec, operand, dim, scalars) {
                check_range(spec, named, operand, dim, range)?;
            }
        }
    }
    Ok(())
}

/// Blocks along a dimension, if the scalars that they depend on are known.
fn blocks_reached(
    spec: &KernelSpec,
    operand: &Blocked,
    dim: usize,
    scalars: &impl Fn(usize) -> Option<Range>,
) -> Option<Range> {
    operand.map[dim].range(&|v| match v {
        MapVariable::Axis(axis) => Some((0, spec.grid[axis.0].size as i64 - 1)),
        MapVariable::Scalar(of, index) => scalars(spec.scalar_position(of, index)),
    })
}

/// Refuses blocks that the array does not have; returns the last that it has.
fn check_range(
    spec: &KernelSpec,
    named: &NamedBuffer,
    operand: &Blocked,
    dim: usize,
    (low, high): Range,
) -> Result<i64, SpecError> {
    let (size, block) = (operand.dims[dim], operand.block[dim]);
    let last = size.div_ceil(block) as i64 - 1;
    if low >= 0 && high <= last {
        return Ok(last);
    }
    let (kernel, buffer) = (spec.name.clone(), named.name);
    // Element offsets run to the start of the last block, in steps of the block size.
    let offsets = block > 1 && low == 0 && high == last.saturating_mul(block as i64);
    Err(if offsets {
        SpecError::ElementOffsets {
            kernel,
            buffer,
            dim,
            reached: high,
            block,
            last,
        }
    } else {
        SpecError::OutOfBounds {
            kernel,
            buffer,
            dim,
            low,
            high,
            last,
        }
    })
}
