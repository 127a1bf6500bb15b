//! Versions of the vocabulary the TPU compiler reads.
//!
//! A serialized kernel says which version of the dialect it was written in, and readers upgrade
//! older ones. Version 18 is what jaxlib 0.12.0.1 writes. Older readers need older texts; the
//! differences between 12 and 18 that concern kernels on the tensor core are these (found by
//! letting jaxlib's own `mosaic-serde` write the same modules in each version):
//!
//! | version | what is new |
//! |---|---|
//! | 12 | `tpu.wait_dma` with named source and target |
//! | 13 | `tpu.matmul` has `transpose_lhs_hint` |
//! | 14 | `tpu.enqueue_dma`, `tpu.wait_dma`, `tpu.sem_signal` may name a subcore: one more operand group |
//!
//! A module is always held in the newest version; older texts are upgraded when read.

use std::ops::RangeInclusive;

use thiserror::Error;

use super::ir::{Module, Op};
use super::types::AttributeKind;

/// The versions that can be written and read.
pub const SUPPORTED: RangeInclusive<u32> = 12..=18;

/// The version that is written unless asked otherwise.
pub const CURRENT: u32 = 18;

/// Why a module cannot be written in a version.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum VersionError {
    /// Not a version known here.
    #[error("version {version} is not supported (known: {} to {})", SUPPORTED.start(), SUPPORTED.end())]
    Unknown {
        /// The version asked for.
        version: u32,
    },
    /// The module uses something newer.
    #[error("line {line}: {op} needs version {needed}, not {version}: {feature}")]
    Newer {
        /// The operation.
        op: String,
        /// Its line, 0 if unknown.
        line: u32,
        /// What is new.
        feature: &'static str,
        /// The version that has it.
        needed: u32,
        /// The version asked for.
        version: u32,
    },
}

/// Operations with an operand group for the subcore since version 14, and the number of groups now.
const SUBCORE: [(&str, usize); 3] = [
    ("tpu.enqueue_dma", 7),
    ("tpu.wait_dma", 7),
    ("tpu.sem_signal", 5),
];

fn all_ops(module: &Module) -> Vec<Op> {
    let mut ops = Vec::new();
    module.walk(module.root(), &mut |op| ops.push(op));
    ops
}

fn set_segments(module: &mut Module, op: Op, values: Vec<i64>) {
    if let Some(AttributeKind::DenseArray { element, .. }) =
        module.attribute_kind_of(op, "operandSegmentSizes").cloned()
    {
        let attribute = module.attribute(AttributeKind::DenseArray { element, values });
        module.set_attribute(op, "operandSegmentSizes", attribute);
    }
}

/// Rewrites a module of the current version for an older reader.
pub(super) fn downgrade(module: &mut Module, version: u32) -> Result<(), VersionError> {
    if !SUPPORTED.contains(&version) {
        return Err(VersionError::Unknown { version });
    }
    for op in all_ops(module) {
        let name = module.op_name(op).to_owned();
        let line = module.line(op);
        let newer = |needed, feature| VersionError::Newer {
            op: name.clone(),
            line,
            feature,
            needed,
            version,
        };
        if version < 14 && SUBCORE.iter().any(|s| s.0 == name) {
            let mut sizes = module
                .integers_attribute(op, "operandSegmentSizes")
                .unwrap_or_default();
            if sizes.pop().is_some_and(|n| n != 0) {
                return Err(newer(14, "a subcore"));
            }
            set_segments(module, op, sizes);
        }
        if version < 13 && name == "tpu.matmul" {
            if module.bool_attribute(op, "transpose_lhs_hint") == Some(true) {
                return Err(newer(13, "transpose_lhs_hint"));
            }
            module.remove_attribute(op, "transpose_lhs_hint");
        }
    }
    Ok(())
}

/// Brings a module read in an older version to the current one.
pub(super) fn upgrade(module: &mut Module, version: u32) -> Result<(), VersionError> {
    if !SUPPORTED.contains(&version) {
        return Err(VersionError::Unknown { version });
    }
    for op in all_ops(module) {
        let name = module.op_name(op);
        if version < 14
            && let Some(&(_, groups)) = SUBCORE.iter().find(|s| s.0 == name)
            && let Some(mut sizes) = module.integers_attribute(op, "operandSegmentSizes")
            && sizes.len() + 1 == groups
        {
            sizes.push(0);
            set_segments(module, op, sizes);
        } else if version < 13
            && name == "tpu.matmul"
            && module.attribute_of(op, "transpose_lhs_hint").is_none()
        {
            let no = module.attribute(AttributeKind::Bool(false));
            module.set_attribute(op, "transpose_lhs_hint", no);
        }
    }
    Ok(())
}
