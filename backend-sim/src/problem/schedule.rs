//! How an op on a head is cut up for a target.

use tilecast_core::kernels::head::{
    Blocks, HeadKernel, ProductBlocks, Schedule, Split, Structure, XForm,
};
use tilecast_core::program::Program;
use tilecast_tpu::lower::F32Products;

use super::{OnHead, Passes, Setting};
use crate::op::SimError;
use crate::plan::{
    BackwardPlan, ForwardPlan, cores_split, dw_rows, lazy, packs, rows_per_sub_tile,
    x_in_one_buffer,
};

/// Both passes of `problem` in the given blocks. Of the `wanted` ones, forward and backward, each has `x` in one buffer
/// if [two do not fit](x_in_one_buffer).
///
/// # Errors
/// Blocks that no target could take.
pub(crate) fn schedule(
    problem: &impl OnHead,
    wanted: [bool; 2],
    forward: ForwardPlan,
    backward: BackwardPlan,
    setting: Setting,
) -> Result<Schedule, SimError> {
    let mut schedule = with_two_buffers(problem, forward, backward, setting);
    for (pass, is_wanted) in [Pass::Forward, Pass::backward(backward)]
        .into_iter()
        .zip(wanted)
    {
        if is_wanted {
            program(problem, pass, &mut schedule, setting)?;
        }
    }
    Ok(schedule)
}

/// Both passes of `problem` in the given blocks, each with `x` in two buffers.
pub(super) fn with_two_buffers(
    problem: &impl OnHead,
    forward: ForwardPlan,
    backward: BackwardPlan,
    setting: Setting,
) -> Schedule {
    let Setting {
        target,
        structure,
        products,
        ..
    } = setting;
    let [dx, dw] =
        (backward.product_blocks).map(|own| own.map(|Blocks { b, h, .. }| ProductBlocks { b, h }));
    Schedule {
        forward: forward.blocks,
        chunk_columns: backward.chunk_columns.unwrap_or(backward.blocks.v),
        cores: target.cores_per_device(),
        cores_split: match structure {
            Structure::Overlapped => cores_split(problem.head()),
            Structure::InTurn => Split::Rows,
        },
        rows_per_sub_tile: rows_per_sub_tile(target),
        structure,
        dx,
        dw,
        delta_columns: backward.delta_columns,
        dw_rows: dw_rows(target),
        x: [
            forward.x,
            match (backward.packs_x, products) {
                (true, _) => XForm::Packed,
                (false, F32Products::Rounded) => XForm::Rounded,
                (false, F32Products::Exact) => XForm::Given,
            },
        ],
        packs_delta: packs(target),
        rounds_w: backward.rounds_w,
        lazy: match structure {
            Structure::Overlapped => lazy(target, forward.blocks, problem.head().hidden()),
            Structure::InTurn => None,
        },
        ..Schedule::plain(backward.blocks, backward.strategy())
    }
}

/// One of the passes of a [`Schedule`].
#[derive(Clone, Copy)]
pub(super) enum Pass {
    /// Outputs.
    Forward,
    /// Gradients.
    Backward {
        /// Kernels before the one that makes logits.
        before_delta: usize,
    },
}

impl Pass {
    pub(super) const fn backward(plan: BackwardPlan) -> Self {
        Self::Backward {
            before_delta: plan.before_delta(),
        }
    }
}

/// The program of one pass. If [two buffers do not fit](x_in_one_buffer), its `x` has one, there and in the schedule.
///
/// # Errors
/// Blocks that no target could take.
pub(super) fn program(
    problem: &impl OnHead,
    pass: Pass,
    schedule: &mut Schedule,
    setting: Setting,
) -> Result<Program<HeadKernel>, SimError> {
    let (passes, number, blocks, kernels_before) = match pass {
        Pass::Forward => {
            let before = usize::from(schedule.x[0] == XForm::Packed);
            (Passes::Forward, 0, schedule.forward, before)
        }
        Pass::Backward { before_delta } => (Passes::Backward, 1, schedule.backward, before_delta),
    };
    let program = problem.program(passes, schedule)?;
    if blocks.h < problem.head().hidden() {
        return Ok(program);
    }
    let of_logits = program.launches().get(kernels_before).copied();
    if !of_logits.is_some_and(|(launch, _)| x_in_one_buffer(&launch.kernel, setting)) {
        return Ok(program);
    }
    schedule.x_in_one_buffer[number] = true;
    problem.program(passes, schedule)
}
