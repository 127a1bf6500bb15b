//! What each primitive costs: operations per register of 8 x 128 values, and per group of 8 rows.
//!
//! The counts were read off the schedules that the TPU compiler (libtpu 0.0.51) makes of probe
//! kernels, one operation at a time. They hold for f32; bf16 tiles add conversions. The table with
//! what was measured beside what this model gives is in `docs/cost-model.md`.

use tilecast_core::DType;
use tilecast_core::expr::{Binary, Unary};
use tilecast_core::ops::Contract;
use tilecast_core::target::{Generation, Target};

use crate::work::Work;

/// Cycles to fill and drain the vector pipelines in a pass over a tile; 40 to 100 were seen.
pub const PASS_LATENCY_CYCLES: f64 = 70.0;

/// Vector ALU operations.
pub(crate) const fn valu(ops: f64) -> Work {
    Work {
        valu_ops: ops,
        ..ZERO
    }
}

const ZERO: Work = Work {
    mxu_cycles: 0.0,
    valu_ops: 0.0,
    eup_ops: 0.0,
    xlu_ops: 0.0,
    loads: 0.0,
    stores: 0.0,
    copied_bytes: 0.0,
    copies: [0.0; 2],
};

/// One transcendental operation with its range reduction.
const fn transcendental(valu_ops: f64) -> Work {
    Work {
        eup_ops: 1.0,
        ..valu(valu_ops)
    }
}

/// Exponential or logarithm.
pub(crate) const EXP: Work = transcendental(2.0);

/// One cross-lane operation: 8 rows reduced along their lanes, or one value each spread over them.
pub(crate) const ACROSS_LANES: Work = Work {
    xlu_ops: 1.0,
    ..ZERO
};

/// Reads a register's worth of values as f32. bf16 is half a register and is widened.
pub(crate) const fn load(dtype: DType) -> Work {
    match dtype {
        DType::Bf16 => Work {
            loads: 0.5,
            ..valu(1.0)
        },
        DType::F32 | DType::I32 => Work { loads: 1.0, ..ZERO },
    }
}

/// Writes a register's worth of f32 values. bf16 is packed, two registers into one.
pub(crate) const fn store(dtype: DType) -> Work {
    match dtype {
        DType::Bf16 => Work {
            stores: 0.5,
            ..valu(0.5)
        },
        DType::F32 | DType::I32 => Work {
            stores: 1.0,
            ..ZERO
        },
    }
}

/// A function of one value.
pub(crate) fn unary(f: Unary, target: &Target) -> Work {
    match f {
        Unary::Neg | Unary::Abs => valu(1.0),
        Unary::Exp | Unary::Log => EXP,
        Unary::Tanh => transcendental(1.0),
        Unary::Reciprocal => reciprocal(target),
    }
}

/// A function of two values. A quotient is a reciprocal and a product.
pub(crate) fn binary(f: Binary, target: &Target) -> Work {
    match f {
        Binary::Add | Binary::Sub | Binary::Mul | Binary::Max | Binary::Min => valu(1.0),
        Binary::Div => {
            let mut work = reciprocal(target);
            work.add(&valu(1.0), 1.0);
            work
        }
    }
}

/// Before v6e the result of the transcendental unit is refined by Newton steps.
fn reciprocal(target: &Target) -> Work {
    transcendental(if has_new_units(target) { 1.0 } else { 13.0 })
}

/// Cycles of a product beyond its multiply-adds: filling and draining, and the transposition of an
/// operand, which overlaps the product but for its start. Midpoints of what was seen: +0 to 35
/// (v4, v5) and +45 to 75 for a transposed right operand, +130 to 270 and +40 to 125 for a left one.
pub(crate) fn product_latency_cycles(contract: Contract, target: &Target) -> f64 {
    let transposition = match (contract, has_new_units(target)) {
        (Contract::NN, _) => 0.0,
        (Contract::NT, false) => 17.5,
        (Contract::NT, true) => 60.0,
        (Contract::TN, false) => 200.0,
        (Contract::TN, true) => 82.5,
    };
    target.matmul_overhead_cycles.value as f64 + transposition
}

/// Cycles that the matrix units of a core are busy with `[m,k] x [k,n]`: the larger of streaming the
/// rows of the left operand (`k` and `n` padded to the unit) and pushing the right one into the
/// units, which is what bounds products of few rows.
pub(crate) fn product_cycles([m, k, n]: [usize; 3], [a, b]: [DType; 2], target: &Target) -> f64 {
    let dim = target.mxu_dim.value;
    let m = m.next_multiple_of(target.sublanes.value) as f64;
    let (k, n) = (
        k.next_multiple_of(dim) as f64,
        n.next_multiple_of(dim) as f64,
    );
    let passes = match (a, b) {
        (DType::Bf16, DType::Bf16) => 1.0,
        _ => target.f32_default_passes.value as f64,
    };
    let rows = m * k * n / target.mxu_macs_per_cycle.value as f64;
    let sublanes = target.sublanes.value as f64;
    let cycles_per_row = match b {
        DType::Bf16 => target.matpush_bf16_cycles.value as f64 / (2.0 * sublanes),
        _ => target.matpush_f32_cycles.value as f64 / sublanes,
    };
    let push = k * (n / dim as f64) * cycles_per_row / target.mxu_count.value as f64;
    passes * rows.max(push)
}

/// Vector work of a product, for each register of its result: partial sums over blocks of `k` that
/// fill the matrix units, unless these accumulate themselves (v7x), and the sum with what is there.
pub(crate) fn product_result(k: usize, accumulates: bool, target: &Target) -> Work {
    let partial = k.div_ceil(target.mxu_dim.value) as f64 - 1.0;
    let adds = if target.generation >= Generation::V7x {
        0.0
    } else {
        partial
    };
    let mut work = store(DType::F32);
    work.add(&valu(1.0), adds);
    if accumulates {
        work.add(&valu(1.0), 1.0);
        work.add(&load(DType::F32), 1.0);
    }
    work
}

/// From v6e on: larger matrix units, exact reciprocals.
fn has_new_units(target: &Target) -> bool {
    target.generation >= Generation::V6e
}
