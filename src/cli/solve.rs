//! Runs the op on tensors in memory, on one backend or another.

use std::time::Instant;

use half::bf16;
use tilecast::core::kernels::linear_ce::reference;
use tilecast::sim::execute::{self, Array, Data};
use tilecast::sim::interpretation::Interpretation;
use tilecast::{
    Cotangents, Cpu, DType, Error, Forward, Gradients, LinearCe, Matrix, Reduction, Schedule,
    Stored, Values, linear_ce,
};

use super::error::CliError;
use super::inputs::{Floats, Inputs, widen};

/// Results of an op and how long they took.
#[derive(Clone, Debug)]
pub(crate) struct Results {
    pub(crate) forward: Forward,
    pub(crate) gradients: Option<Gradients>,
    /// Of the forward pass, or of both in one.
    pub(crate) forward_s: f64,
    /// `None` without a backward pass of its own.
    pub(crate) backward_s: Option<f64>,
}

/// Runs the kernels on this machine.
pub(crate) fn on_cpu(
    inputs: &Inputs,
    schedule: Schedule,
    cpu: &Cpu,
    backward: bool,
) -> Result<Results, CliError> {
    try_on_cpu(inputs, schedule, cpu, backward).map_err(refused)
}

/// Runs both passes in one on this machine, which stores logits.
pub(crate) fn storing_on_cpu(
    inputs: &Inputs,
    stored: Stored,
    cpu: &Cpu,
) -> Result<Results, CliError> {
    let run = || {
        let op = op(inputs)?.stored(stored).on(cpu.clone());
        let start = Instant::now();
        let (forward, gradients) = op.forward_and_backward(given_cotangents(inputs))?;
        Ok(Results {
            forward,
            gradients: Some(gradients),
            forward_s: start.elapsed().as_secs_f64(),
            backward_s: None,
        })
    };
    run().map_err(refused)
}

fn refused(error: Error) -> CliError {
    match error {
        Error::Problem(error) => error.into(),
        error => CliError::failure(error),
    }
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
    let gradients = match backward {
        true => Some(op.backward(&forward.lse, given_cotangents(inputs))?),
        false => None,
    };
    Ok(Results {
        forward,
        gradients,
        forward_s,
        backward_s: backward.then(|| start.elapsed().as_secs_f64()),
    })
}

fn given_cotangents(inputs: &Inputs) -> Cotangents<'_> {
    Cotangents {
        d_loss: inputs.d_loss.as_deref(),
        d_lse: inputs.d_lse.as_deref(),
    }
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

/// Interprets the kernels as the TPU compiler would get them.
pub(crate) fn on_sim(
    inputs: &Inputs,
    schedule: &Schedule,
    options: &execute::Options,
    backward: bool,
) -> Result<Results, CliError> {
    let kernels = Interpretation::new(&inputs.problem, schedule, backward)?;
    let arrays = arrays(inputs)?;
    let start = Instant::now();
    let forward = kernels.forward(&arrays, options)?;
    let forward_s = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let gradients = kernels.backward(&arrays, &forward, options)?;
    let backward_s = start.elapsed().as_secs_f64();
    let floats = |outputs: &[(&str, Array)], name: &str| {
        let found = outputs.iter().find(|output| output.0 == name);
        found.map(|(_, array)| array.to_f32())
    };
    let missing = || CliError::failure("a kernel lacks an output");
    let gradient = |name: &str| {
        let found = gradients.iter().find(|output| output.0 == name);
        match found.map(|(_, array)| array.data()) {
            Some(Data::F32(data)) => Ok(Values::F32(data.clone())),
            Some(Data::Bf16(data)) => Ok(Values::Bf16(data.clone())),
            _ => Err(missing()),
        }
    };
    Ok(Results {
        forward: Forward {
            loss: floats(&forward, "loss").ok_or_else(missing)?,
            lse: floats(&forward, "lse").ok_or_else(missing)?,
        },
        gradients: match backward {
            true => Some(Gradients {
                dx: gradient("dx")?,
                dw: gradient("dw")?,
                dbias: floats(&gradients, "dbias"),
            }),
            false => None,
        },
        forward_s,
        backward_s: backward.then_some(backward_s),
    })
}

/// The inputs as the interpreter takes them.
fn arrays(inputs: &Inputs) -> Result<Vec<(&'static str, Array)>, CliError> {
    let problem = &inputs.problem;
    let (b, h, v) = (problem.tokens(), problem.hidden(), problem.vocab());
    let matrix = |data: &Floats, dims: [usize; 2]| match data {
        Floats::F32(data) => Array::new(data.clone(), &dims),
        Floats::Bf16(data) => Array::new(data.clone(), &dims),
    };
    let vector = |data: Vec<f32>| {
        let dims = [data.len()];
        Array::new(data, &dims)
    };
    let (d_loss, d_lse) = cotangents(inputs);
    let mut arrays = vec![
        ("x", matrix(&inputs.x, [b, h])?),
        ("w", matrix(&inputs.w, [h, v])?),
        ("labels", Array::new(inputs.labels.clone(), &[b])?),
        ("d_loss", vector(narrow(&d_loss))?),
        ("d_lse", vector(narrow(&d_lse))?),
    ];
    for (name, data) in [("bias", &inputs.bias), ("weight", &inputs.weight)] {
        if let Some(data) = data {
            arrays.push((name, vector(data.clone())?));
        }
    }
    Ok(arrays)
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

/// Rounded to f32.
pub(crate) fn narrow(data: &[f64]) -> Vec<f32> {
    data.iter().map(|&x| x as f32).collect()
}

fn rounded(data: &[f64], dtype: DType) -> Values {
    match dtype {
        DType::Bf16 => Values::Bf16(data.iter().map(|&x| bf16::from_f64(x)).collect()),
        _ => Values::F32(narrow(data)),
    }
}
