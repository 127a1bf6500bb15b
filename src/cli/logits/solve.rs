//! Runs an op on given logits on tensors in memory, on one backend or another.

use std::time::Instant;

use half::bf16;
use tilecast::core::kernels::logits_op::{self, reference};
use tilecast::core::kernels::softmax::{Schedule, SoftmaxKernel};
use tilecast::core::program::{Program, Role};
use tilecast::cpu::array::ArrayRef;
use tilecast::sim::execute::{self, Array, Data};
use tilecast::sim::interpretation::Interpretation;
use tilecast::{ArrayMut, Cpu, DType};

use super::inputs::{Arrays, Inputs};
use crate::cli::args::CliError;
use crate::cli::inputs::widen;
use crate::cli::solve::narrow;

/// Results of an op and how long they took.
#[derive(Clone, Debug)]
pub(crate) struct Results {
    /// Of the forward pass.
    pub(crate) forward: Arrays,
    /// `None` without a backward pass.
    pub(crate) d_logits: Option<Array>,
    pub(crate) forward_s: f64,
    /// `None` without a backward pass.
    pub(crate) backward_s: Option<f64>,
}

impl Results {
    /// Runs the passes; the backward pass is given what the forward pass has put out.
    fn of(
        forward: impl FnOnce() -> Result<Arrays, CliError>,
        backward: Option<impl FnOnce(&Arrays) -> Result<Arrays, CliError>>,
    ) -> Result<Self, CliError> {
        let start = Instant::now();
        let forward = forward()?;
        let forward_s = start.elapsed().as_secs_f64();
        let mut results = Self {
            forward,
            d_logits: None,
            forward_s,
            backward_s: None,
        };
        if let Some(backward) = backward {
            let start = Instant::now();
            let mut found = backward(&results.forward)?.into_iter();
            results.backward_s = Some(start.elapsed().as_secs_f64());
            let d_logits = found.find(|(name, _)| *name == "d_logits");
            results.d_logits = d_logits.map(|(_, array)| array);
        }
        Ok(results)
    }
}

/// Runs the kernels on this machine.
pub(crate) fn on_cpu(
    inputs: &Inputs,
    schedule: &Schedule,
    cpu: &Cpu,
    backward: bool,
) -> Result<Results, CliError> {
    let forward = inputs.op.forward(schedule)?;
    let backward = backward.then(|| inputs.op.backward(schedule)).transpose()?;
    let known = &inputs.arrays;
    let backward = backward.map(|program| {
        move |forward: &Arrays| on_arrays(&program, known.iter().chain(forward), cpu)
    });
    Results::of(|| on_arrays(&forward, known.iter(), cpu), backward)
}

fn on_arrays<'a>(
    program: &Program<SoftmaxKernel>,
    arrays: impl Iterator<Item = &'a (&'static str, Array)> + Clone,
    cpu: &Cpu,
) -> Result<Arrays, CliError> {
    let (mut inputs, mut results) = (Vec::new(), Vec::new());
    for array in program.arrays() {
        let (name, dims) = (array.name, &array.dims[..]);
        let len = dims.iter().product();
        match array.role {
            Role::Input => {
                let found = arrays.clone().find(|(of, _)| *of == name);
                let missing = || CliError::failure(format_args!("nothing was read for {name}"));
                let array = match found.ok_or_else(missing)?.1.data() {
                    Data::F32(data) => ArrayRef::new(&data[..], dims),
                    Data::Bf16(data) => ArrayRef::new(&data[..], dims),
                    Data::I32(data) => ArrayRef::new(&data[..], dims),
                };
                inputs.push((name, array.map_err(CliError::failure)?));
            }
            Role::Output if array.dtype == DType::Bf16 => {
                results.push((name, dims, Data::Bf16(vec![bf16::ZERO; len])));
            }
            Role::Output => results.push((name, dims, Data::F32(vec![0.0; len]))),
            Role::InPlace | Role::Temporary => {}
        }
    }
    let mut outputs = Vec::new();
    for (name, dims, data) in &mut results {
        let array = match data {
            Data::F32(data) => ArrayMut::new(&mut data[..], dims),
            Data::Bf16(data) => ArrayMut::new(&mut data[..], dims),
            Data::I32(data) => ArrayMut::new(&mut data[..], dims),
        };
        outputs.push((*name, array.map_err(CliError::failure)?));
    }
    cpu.run(program, &inputs, outputs)
        .map_err(CliError::failure)?;
    let arrays = results.into_iter();
    arrays
        .map(|(name, dims, data)| Ok((name, Array::new(data, dims)?)))
        .collect()
}

/// Interprets the kernels as the TPU compiler would get them.
pub(crate) fn on_sim(
    inputs: &Inputs,
    schedule: &Schedule,
    options: &execute::Options,
    backward: bool,
) -> Result<Results, CliError> {
    let kernels = Interpretation::of_logits(&inputs.op, schedule, backward)?;
    let known = &inputs.arrays;
    Results::of(
        || Ok(kernels.forward(known, options)?),
        backward.then_some(|forward: &Arrays| Ok(kernels.backward(known, forward, options)?)),
    )
}

/// Runs the f64 reference; results are rounded once, at the end.
pub(crate) fn with_reference(inputs: &Inputs, backward: bool) -> Result<Results, CliError> {
    let (op, wide) = (&inputs.op, widened(inputs));
    let dims = [op.logits().tokens(), op.logits().vocab()];
    let forward = || {
        let outputs = reference::forward(op, &wide).into_iter();
        let rounded = outputs.map(|(name, values)| {
            let dims = [values.len()];
            Ok((name, Array::new(narrow(&values), &dims)?))
        });
        rounded.collect()
    };
    let backward = backward.then_some(|_: &Arrays| {
        let d_logits = reference::backward(op, &wide);
        let data: Data = match op.logits().grad_dtype() {
            DType::Bf16 => {
                let rounded = d_logits.iter().map(|&x| bf16::from_f64(x));
                rounded.collect::<Vec<_>>().into()
            }
            _ => narrow(&d_logits).into(),
        };
        Ok(vec![("d_logits", Array::new(data, &dims)?)])
    });
    Results::of(forward, backward)
}

/// The inputs of the reference.
pub(crate) fn widened(inputs: &Inputs) -> logits_op::Inputs {
    let mut wide = logits_op::Inputs::default();
    for (name, array) in &inputs.arrays {
        match (*name, array.data()) {
            ("logits", _) => wide.logits = widen(&array.to_f32()),
            (_, Data::I32(labels)) => wide.labels.clone_from(labels),
            (name, _) => wide.vectors.push((name, widen(&array.to_f32()))),
        }
    }
    wide
}
