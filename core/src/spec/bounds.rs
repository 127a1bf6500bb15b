//! Whether the blocks of an array that a kernel copies lie within it, by interval arithmetic over its grid.
//!
//! The TPU compiler can check each copy as it runs. It need not where this has been checked before.

use super::{Access, Blocked, KernelSpec, MapVariable, NamedBuffer, SpecError};

/// The least and the greatest value of something.
type Range = (i64, i64);

/// Index maps stay inside the array, and outputs reach every block. Maps that depend on scalars are known only at
/// launch, where [`KernelSpec::check_launch`] does it.
pub(super) fn check_bounds(
    spec: &KernelSpec,
    named: &NamedBuffer,
    operand: &Blocked,
    access: Access,
) -> Result<(), SpecError> {
    check_ranges(
        spec,
        named,
        operand,
        &|_| None,
        |dim, (low, high), last| match access {
            Access::Output if (low, high) != (0, last) => Err(SpecError::NotCovered {
                kernel: spec.name.clone(),
                buffer: named.name,
                dim,
                low,
                high,
                last,
            }),
            _ => Ok(()),
        },
    )
}

impl KernelSpec {
    /// Index maps stay inside the arrays where the scalars, by their position among all, are within `scalars`.
    pub(crate) fn check_launch(
        &self,
        scalars: &impl Fn(usize) -> Option<Range>,
    ) -> Result<(), SpecError> {
        self.operands().try_for_each(|(_, named, operand)| {
            check_ranges(self, named, operand, scalars, |_, _, _| Ok(()))
        })
    }
}

/// Refuses blocks that the array does not have, and those that `more` refuses: of a dimension, those that are reached,
/// and the last. Where the scalars that they depend on are not known, neither is asked.
fn check_ranges(
    spec: &KernelSpec,
    named: &NamedBuffer,
    operand: &Blocked,
    scalars: &impl Fn(usize) -> Option<Range>,
    more: impl Fn(usize, Range, i64) -> Result<(), SpecError>,
) -> Result<(), SpecError> {
    for (dim, (index, blocks)) in operand.map.iter().zip(operand.block_counts()).enumerate() {
        let range = index.range(&|v| match v {
            MapVariable::Axis(axis) => Some((0, spec.grid[axis.0].size as i64 - 1)),
            MapVariable::Scalar(of, index) => scalars(spec.scalar_position(of, index)),
            MapVariable::Element(table, _) => Some((0, spec.tables[table.table()].last)),
        });
        let Some((low, high)) = range else { continue };
        let last = blocks as i64 - 1;
        if low >= 0 && high <= last {
            more(dim, (low, high), last)?;
            continue;
        }
        let (kernel, buffer, block) = (spec.name.clone(), named.name, operand.block[dim]);
        // Element offsets run to the start of the last block, in steps of the block size.
        let offsets = block > 1 && low == 0 && high == last.saturating_mul(block as i64);
        return Err(if offsets {
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
        });
    }
    Ok(())
}
