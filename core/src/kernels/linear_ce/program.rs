//! The op as launches: what surrounds the kernels.

use alloc::boxed::Box;

use super::blocks::{Chunks, Cores, Schedule};
use super::{
    BiasGradient, Combined, DeltaChunk, Forward, HiddenGradient, LinearCe, LinearCeError,
    Reduction, Strategy, WeightGradient,
};
use crate::DType;
use crate::expr::{Expr, Int};
use crate::ops::TileOps;
use crate::program::{ArrayId, Kernel, Launch, LoopCounter, Program, Role, Step};
use crate::spec::{Affine, KernelSpec};

/// Any kernel of the op.
#[derive(Clone, Debug)]
pub enum LinearCeKernel {
    /// Loss and logsumexp.
    Forward(Forward),
    /// The one-kernel backward pass.
    Combined(Box<Combined>),
    /// Streaming: delta of a chunk.
    Delta(DeltaChunk),
    /// Streaming: `dx` of a chunk.
    HiddenGradient(HiddenGradient),
    /// Streaming: `dw` of a chunk.
    WeightGradient(WeightGradient),
    /// Streaming: `dbias` of a chunk.
    BiasGradient(BiasGradient),
}

impl Kernel for LinearCeKernel {
    fn spec(&self) -> &KernelSpec {
        match self {
            Self::Forward(k) => k.spec(),
            Self::Combined(k) => k.spec(),
            Self::Delta(k) => k.spec(),
            Self::HiddenGradient(k) => k.spec(),
            Self::WeightGradient(k) => k.spec(),
            Self::BiasGradient(k) => k.spec(),
        }
    }

    fn body<T: TileOps>(&self, t: &T) {
        match self {
            Self::Forward(k) => k.body(t),
            Self::Combined(k) => k.body(t),
            Self::Delta(k) => k.body(t),
            Self::HiddenGradient(k) => k.body(t),
            Self::WeightGradient(k) => k.body(t),
            Self::BiasGradient(k) => k.body(t),
        }
    }
}

type Ce = Program<LinearCeKernel>;

fn launch<const N: usize>(
    kernel: LinearCeKernel,
    operands: impl IntoIterator<Item = ArrayId>,
    scalars: [Affine<LoopCounter>; N],
) -> Step<LinearCeKernel> {
    Step::Launch(Launch {
        kernel,
        operands: operands.into_iter().collect(),
        scalars: scalars.into(),
    })
}

/// The arrays both passes read.
struct Inputs {
    x: ArrayId,
    w: ArrayId,
    bias: Option<ArrayId>,
    labels: ArrayId,
    /// The factor of each token's loss in the result.
    weight: Option<ArrayId>,
}

impl Inputs {
    fn declare(program: &mut Ce, problem: &LinearCe) -> Result<Self, LinearCeError> {
        let (b, h, v) = (problem.tokens, problem.hidden, problem.vocab);
        let x = program.array(Role::Input, "x", problem.dtype, [b, h]);
        let w = program.array(Role::Input, "w", problem.dtype, [h, v]);
        let bias =
            (problem.options.bias).then(|| program.array(Role::Input, "bias", DType::F32, [v]));
        let labels = program.array(Role::Input, "labels", DType::I32, [b]);
        let weight = token_weight(program, problem, labels)?;
        Ok(Self {
            x,
            w,
            bias,
            labels,
            weight,
        })
    }

    /// The operands every kernel that recomputes logits starts with.
    fn operands(&self) -> impl Iterator<Item = ArrayId> + use<> {
        [
            Some(self.x),
            Some(self.w),
            self.bias,
            Some(self.labels),
            self.weight,
        ]
        .into_iter()
        .flatten()
    }
}

/// The factor of each token: its weight or 1, 0 if ignored, divided by their sum for a mean.
fn token_weight(
    program: &mut Ce,
    problem: &LinearCe,
    labels: ArrayId,
) -> Result<Option<ArrayId>, LinearCeError> {
    if !problem.weighted() {
        return Ok(None);
    }
    let (options, b) = (&problem.options, problem.tokens);
    let given = (options.weight).then(|| program.array(Role::Input, "weight", DType::F32, [b]));
    let mut value = given.map_or(Expr::constant(1.0), Expr::from);
    if let Some(index) = options.ignore_index {
        value = Int::from(labels).equals(index).select(0.0, value);
    }
    let counted = program.array(Role::Temporary, "token_weight", DType::F32, [b]);
    program.push(Step::Map { to: counted, value })?;
    if options.reduction != Reduction::Mean {
        return Ok(Some(counted));
    }
    let sum = program.array(Role::Temporary, "weight_sum", DType::F32, [1]);
    program.push(Step::Total {
        from: counted,
        to: sum,
    })?;
    let share = program.array(Role::Temporary, "token_share", DType::F32, [b]);
    let (counted, sum) = (Expr::from(counted), Expr::from(sum));
    // No token left: every share is 0, and so are loss and gradients.
    let value = sum.clone().equals(0.0).select(0.0, counted / sum);
    program.push(Step::Map { to: share, value })?;
    Ok(Some(share))
}

pub(super) fn forward(problem: &LinearCe, schedule: &Schedule) -> Result<Ce, LinearCeError> {
    schedule.check()?;
    let mut program = Program::new("linear_ce forward");
    let inputs = Inputs::declare(&mut program, problem)?;
    add_forward(&mut program, problem, schedule, &inputs)?;
    Ok(program)
}

pub(super) fn backward(problem: &LinearCe, schedule: &Schedule) -> Result<Ce, LinearCeError> {
    schedule.check()?;
    let mut program = Program::new("linear_ce backward");
    let inputs = Inputs::declare(&mut program, problem)?;
    let lse = program.array(Role::Input, "lse", DType::F32, [problem.tokens]);
    add_backward(&mut program, problem, schedule, &inputs, lse)?;
    Ok(program)
}

pub(super) fn both(problem: &LinearCe, schedule: &Schedule) -> Result<Ce, LinearCeError> {
    schedule.check()?;
    let mut program = Program::new("linear_ce forward and backward");
    let inputs = Inputs::declare(&mut program, problem)?;
    let lse = add_forward(&mut program, problem, schedule, &inputs)?;
    add_backward(&mut program, problem, schedule, &inputs, lse)?;
    Ok(program)
}

/// The forward pass; returns the logsumexp.
fn add_forward(
    program: &mut Ce,
    problem: &LinearCe,
    schedule: &Schedule,
    inputs: &Inputs,
) -> Result<ArrayId, LinearCeError> {
    let b = problem.tokens;
    let reduced = problem.options.reduction != Reduction::None;
    let (per_token, name) = match reduced {
        true => (Role::Temporary, "token_loss"),
        false => (Role::Output, "loss"),
    };
    let token_loss = program.array(per_token, name, DType::F32, [b]);
    let lse = program.array(Role::Output, "lse", DType::F32, [b]);
    let kernel = Forward::new(problem, schedule.forward, schedule.rows_per_sub_tile)?;
    program.push(launch(
        LinearCeKernel::Forward(kernel),
        inputs.operands().chain([token_loss, lse]),
        [],
    ))?;
    if reduced {
        let to = program.array(Role::Output, "loss", DType::F32, [1]);
        program.push(Step::Total {
            from: token_loss,
            to,
        })?;
    }
    Ok(lse)
}

/// The backward pass, from the logsumexp.
fn add_backward(
    program: &mut Ce,
    problem: &LinearCe,
    schedule: &Schedule,
    inputs: &Inputs,
    lse: ArrayId,
) -> Result<(), LinearCeError> {
    let (b, h, v) = (problem.tokens, problem.hidden, problem.vocab);
    let d_loss = cotangent(program, problem)?;
    let d_lse = program.array(Role::Input, "d_lse", DType::F32, [b]);
    let grad = problem.grad_dtype();
    let gradients = Gradients {
        dx: program.array(Role::Output, "dx", grad, [b, h]),
        dw: program.array(Role::Output, "dw", grad, [h, v]),
        dbias: (problem.options.bias)
            .then(|| program.array(Role::Output, "dbias", DType::F32, [v])),
    };
    let operands: alloc::vec::Vec<ArrayId> =
        inputs.operands().chain([lse, d_loss, d_lse]).collect();
    match schedule.strategy {
        Strategy::Combined => combined(program, problem, schedule, &operands, &gradients)?,
        Strategy::Streaming => {
            streaming(program, problem, schedule, inputs, &operands, &gradients)?;
        }
    }
    Ok(())
}

struct Gradients {
    dx: ArrayId,
    dw: ArrayId,
    dbias: Option<ArrayId>,
}

/// The cotangent of each token's loss. That of a reduced loss is one number for all tokens.
fn cotangent(program: &mut Ce, problem: &LinearCe) -> Result<ArrayId, LinearCeError> {
    let b = problem.tokens;
    if problem.options.reduction == Reduction::None {
        return Ok(program.array(Role::Input, "d_loss", DType::F32, [b]));
    }
    let scalar = program.array(Role::Input, "d_loss", DType::F32, [1]);
    let to = program.array(Role::Temporary, "d_token_loss", DType::F32, [b]);
    let value = scalar.into();
    program.push(Step::Map { to, value })?;
    Ok(to)
}

fn combined(
    program: &mut Ce,
    problem: &LinearCe,
    schedule: &Schedule,
    operands: &[ArrayId],
    gradients: &Gradients,
) -> Result<(), LinearCeError> {
    let blocks = schedule.backward;
    let cores = Cores::new(problem, blocks.b, schedule.cores);
    let [b_up, h_up, v_up] = blocks.whole(problem);
    let dx = program.array(Role::Temporary, "dx_sum", DType::F32, [b_up, h_up]);
    let dims = [cores.count, h_up, v_up];
    let dw = program.array(Role::Temporary, "dw_partials", DType::F32, dims);
    let dbias = gradients.dbias.map(|to| {
        let dims = [cores.count, 1, v_up];
        let from = program.array(Role::Temporary, "dbias_partials", DType::F32, dims);
        (from, to)
    });
    let kernel = Combined::new(problem, blocks, schedule.rows_per_sub_tile, cores)?;
    let outputs = [Some(dx), Some(dw), dbias.map(|(from, _)| from)];
    program.push(launch(
        LinearCeKernel::Combined(Box::new(kernel)),
        operands
            .iter()
            .copied()
            .chain(outputs.into_iter().flatten()),
        [],
    ))?;
    let sums = [(dx, gradients.dx), (dw, gradients.dw)];
    for (from, to) in sums.into_iter().chain(dbias) {
        program.push(Step::Gather { from, to })?;
    }
    Ok(())
}

fn streaming(
    program: &mut Ce,
    problem: &LinearCe,
    schedule: &Schedule,
    inputs: &Inputs,
    operands: &[ArrayId],
    gradients: &Gradients,
) -> Result<(), LinearCeError> {
    let blocks = schedule.backward;
    let chunks = Chunks::new(problem, blocks, schedule.chunk_columns);
    let dims = chunks.delta_dims(problem, blocks);
    let delta = program.array(Role::Temporary, "delta", problem.delta_dtype(), dims);
    // dx is summed over chunks in f32; a gradient of that type can hold the sum itself.
    let dx = match problem.grad_dtype() {
        DType::F32 => gradients.dx,
        _ => {
            let dims = [problem.tokens, problem.hidden];
            program.array(Role::Temporary, "dx_sum", DType::F32, dims)
        }
    };
    let (first, covered) = (chunks.first(), chunks.covered());
    let make_delta = DeltaChunk::new(problem, blocks, schedule.rows_per_sub_tile, chunks)?;
    let mut body = alloc::vec![
        launch(
            LinearCeKernel::Delta(make_delta),
            operands.iter().copied().chain([delta]),
            [first.clone()],
        ),
        launch(
            LinearCeKernel::HiddenGradient(HiddenGradient::new(problem, blocks, chunks)?),
            [delta, inputs.w, dx, dx],
            [first.clone(), covered],
        ),
        launch(
            LinearCeKernel::WeightGradient(WeightGradient::new(problem, blocks, chunks)?),
            [inputs.x, delta, gradients.dw],
            [first.clone()],
        ),
    ];
    if let Some(dbias) = gradients.dbias {
        body.push(launch(
            LinearCeKernel::BiasGradient(BiasGradient::new(problem, blocks, chunks)?),
            [delta, dbias],
            [first],
        ));
    }
    let count = chunks.count;
    program.push(Step::Loop { count, body })?;
    if dx != gradients.dx {
        program.push(Step::Gather {
            from: dx,
            to: gradients.dx,
        })?;
    }
    Ok(())
}
