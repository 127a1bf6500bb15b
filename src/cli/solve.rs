//! Runs the op on tensors in memory, on one backend or the other.

use std::time::Instant;

use half::bf16;
use tilecast::core::kernels::linear_ce::reference;
use tilecast::{
    Cotangents, Cpu, DType, Error, Forward, Gradient, Gradients, LinearCe, Matrix, Reduction,
    Schedule, linear_ce,
};

use super::args::CliError;
use super::inputs::{Floats, Inputs, widen};

/// Results of an op and how long they took.
#[derive(Clone, Debug)]
pub(crate) struct Results {
    pub(crate) forward: Forward,
    pub(crate) gradients: Option<Gradients>,
    pub(crate) forward_s: f64,
    /// `None` without a backward pass.
    pub(crate) backward_s: Option<f64>,
}

/// Runs the kernels on this machine.
pub(crate) fn on_cpu(
    inputs: &Inputs,
    schedule: Schedule,
    cpu: &Cpu,
    backward: bool,
) -> Result<Results, CliError> {
    try_on_cpu(inputs, schedule, cpu, backward).map_err(|error| match error {
        Error::Problem(error) => error.into(),
        error => CliError::failure(error),
    })
}

fn try_on_cpu(
    inputs: &Inputs,
    schedule: Schedule,
    cpu: &Cpu,
    backward: bool,
) -> Result<Results, Error> {
    let op = op(inputs)?.schedule(schedule).on(cpu.clone());
    let start = Instant::now();
    let forward = op.forward()?;
    let forward_s = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let cotangents = Cotangents {
        d_loss: inputs.d_loss.as_deref(),
        d_lse: inputs.d_lse.as_deref(),
    };
    let gradients = match backward {
        true => Some(op.backward(&forward.lse, cotangents)?),
        false => None,
    };
    Ok(Results {
        forward,
        gradients,
        forward_s,
        backward_s: backward.then(|| start.elapsed().as_secs_f64()),
    })
}

/// The op as a call of the library.
fn op(inputs: &Inputs) -> Result<LinearCe<'_>, Error> {
    let problem = &inputs.problem;
    let x = matrix(&inputs.x, problem.tokens(), problem.hidden())?;
    let w = matrix(&inputs.w, problem.hidden(), problem.vocab())?;
    let options = problem.options();
    let mut op = linear_ce(x, w, &inputs.labels)
        .z_loss(options.z_loss)
        .label_smoothing(options.label_smoothing)
        .reduction(options.reduction)
        .grad_dtype(problem.grad_dtype());
    if let Some(bias) = &inputs.bias {
        op = op.bias(bias);
    }
    if let Some(weight) = &inputs.weight {
        op = op.weight(weight);
    }
    if let Some(cap) = options.soft_cap {
        op = op.soft_cap(cap);
    }
    if let Some(index) = options.ignore_index {
        op = op.ignore_index(index);
    }
    if let Some(dtype) = options.delta_dtype {
        op = op.delta_dtype(dtype);
    }
    Ok(op)
}

fn matrix(data: &Floats, rows: usize, columns: usize) -> Result<Matrix<'_>, Error> {
    Ok(match data {
        Floats::F32(data) => Matrix::new(&data[..], rows, columns)?,
        Floats::Bf16(data) => Matrix::new(&data[..], rows, columns)?,
    })
}

/// Runs the f64 reference; results are rounded once, at the end.
pub(crate) fn with_reference(inputs: &Inputs, backward: bool) -> Results {
    let problem = &inputs.problem;
    let wide = widened(inputs);
    let start = Instant::now();
    let forward = reference::forward(problem, &wide);
    let forward_s = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let gradients = backward.then(|| {
        let (d_loss, d_lse) = cotangents(inputs);
        let gradients = reference::backward(problem, &wide, &d_loss, &d_lse);
        let dtype = problem.grad_dtype();
        Gradients {
            dx: rounded(&gradients.dx, dtype),
            dw: rounded(&gradients.dw, dtype),
            dbias: (problem.options().bias).then(|| narrow(&gradients.dbias)),
        }
    });
    Results {
        forward: Forward {
            loss: narrow(&forward.loss),
            lse: narrow(&forward.lse),
        },
        gradients,
        forward_s,
        backward_s: backward.then(|| start.elapsed().as_secs_f64()),
    }
}

/// The inputs of the reference.
pub(crate) fn widened(inputs: &Inputs) -> reference::Inputs {
    reference::Inputs {
        x: inputs.x.widened(),
        w: inputs.w.widened(),
        bias: inputs.bias.as_deref().map_or_else(Vec::new, widen),
        labels: inputs.labels.clone(),
        weight: inputs.weight.as_deref().map_or_else(Vec::new, widen),
    }
}

/// `d_loss` and `d_lse`, or ones and zeros.
pub(crate) fn cotangents(inputs: &Inputs) -> (Vec<f64>, Vec<f64>) {
    let tokens = inputs.problem.tokens();
    let losses = match inputs.problem.options().reduction {
        Reduction::None => tokens,
        _ => 1,
    };
    let or = |data: &Option<Vec<f32>>, value, len| match data {
        Some(data) => widen(data),
        None => vec![value; len],
    };
    (
        or(&inputs.d_loss, 1.0, losses),
        or(&inputs.d_lse, 0.0, tokens),
    )
}

fn narrow(data: &[f64]) -> Vec<f32> {
    data.iter().map(|&x| x as f32).collect()
}

fn rounded(data: &[f64], dtype: DType) -> Gradient {
    match dtype {
        DType::Bf16 => Gradient::Bf16(data.iter().map(|&x| bf16::from_f64(x)).collect()),
        _ => Gradient::F32(narrow(data)),
    }
}
