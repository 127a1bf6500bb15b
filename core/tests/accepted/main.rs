//! What specs, programs and the op accept and refuse, and in which words.

mod enumeration;
mod op;
mod programs;
mod specs;

use tilecast_core::DType;
use tilecast_core::spec::{AxisId, Semantics, SpecBuilder};

pub(crate) const F32: DType = DType::F32;

/// A spec called `k` with one axis.
pub(crate) fn with_axis(size: usize, semantics: Semantics) -> (SpecBuilder, AxisId) {
    let mut spec = SpecBuilder::new("k");
    let axis = spec.axis("i", size, semantics);
    (spec, axis)
}
