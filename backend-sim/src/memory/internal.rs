//! Scratch that the compiler adds, which it was seen to on v4 only: there, what has to move between the rows of
//! registers goes through memory.

use tilecast_core::budget::TermKind;
use tilecast_core::target::{Generation, Target};
use tilecast_tpu::mosaic::{Block, Module, Op, Value};

use super::Term;
use crate::signature::Signature;

/// Whether the compiler may need scratch of its own for what a kernel does, which it was seen to on v4 only.
pub(crate) fn internal_depends_on_body(target: &Target) -> bool {
    target.generation == Generation::V4
}

/// What the compiler adds for a kernel.
pub(super) fn terms(module: &Module, signature: &Signature, target: &Target) -> Vec<Term> {
    if !internal_depends_on_body(target) {
        return Vec::new();
    }
    let term = |name: &str, bytes: u64| Term {
        name: name.into(),
        kind: TermKind::Internal,
        shape: Vec::new(),
        bytes,
        buffers: 1,
    };
    let relayouts = (relayouts(module, signature, target))
        .then(|| term("internal scratch", target.internal_scratch_bytes.value));
    let entry = module.entry(signature.function, 0);
    let spread = entry.map_or(0, |entry| spread_rows(module, entry, target)) as u64;
    let spread = (spread > 0).then(|| {
        let bytes = spread * target.vreg_bytes.value;
        term("rows spread over sublanes", bytes)
    });
    relayouts.into_iter().chain(spread).collect()
}

/// Whether the compiler needs a scratch of its own: where a row of several registers is stored
/// that was not loaded as a row.
fn relayouts(module: &Module, signature: &Signature, target: &Target) -> bool {
    let mut found = false;
    module.walk(signature.function, &mut |op| {
        if !matches!(module.op_name(op), "vector.store" | "tpu.vector_store") {
            return;
        }
        let stored = module.operands(op)[0];
        let row = match module.value_kind(stored).shape() {
            Some([.., 1, n] | [n]) => *n > target.lanes.value as i64,
            _ => false,
        };
        found |= row;
    });
    found
}

/// Registers that are stored to be loaded with one of their rows in all sublanes: where a row of several registers
/// becomes the rows of a vector. That of one register is loaded so from the start. Regions one after the other share.
fn spread_rows(module: &Module, block: Block, target: &Target) -> usize {
    let mut registers = 0;
    let mut most = 0;
    for &op in module.block_ops(block) {
        registers += spread(module, op, target.lanes.value);
        for &region in module.regions(op) {
            for &inner in module.blocks(region) {
                most = most.max(spread_rows(module, inner, target));
            }
        }
    }
    registers + most
}

/// Those of one operation.
fn spread(module: &Module, op: Op, lanes: usize) -> usize {
    if module.op_name(op) != "vector.broadcast" {
        return 0;
    }
    let row = |value: Value| match module.value_kind(value).shape() {
        Some([.., 1, n]) => usize::try_from(*n).ok(),
        _ => None,
    };
    let part = module.operands(op)[0];
    let whole = (module.made_by(part, "vector.extract_strided_slice"))
        .map_or(part, |from| module.operands(from)[0]);
    match (row(part), row(whole), row(module.results(op)[0])) {
        (Some(n), Some(all), None) if all > lanes => n.div_ceil(lanes),
        _ => 0,
    }
}
