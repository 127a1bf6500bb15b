//! Runs an op on logits on tensors in memory, on one backend or another.

use std::time::Instant;

use half::bf16;
use tilecast::core::kernels::logits_op::Named;
use tilecast::core::program::{Kernel, Program, Role};
use tilecast::cpu::array::ArrayRef;
use tilecast::cpu::simd::untouched;
use tilecast::sim::execute::{self, Array, Data};
use tilecast::sim::interpretation::default_target;
use tilecast::{ArrayMut, Cpu, DType};

use super::inputs::{Arrays, Inputs};
use super::source::Sourced;
use crate::cli::error::CliError;
use crate::cli::inputs::widen;
use crate::cli::solve::narrow;

/// Results of an op and how long they took.
#[derive(Clone, Debug)]
pub(crate) struct Results {
    /// Of the forward pass.
    pub(crate) forward: Arrays,
    /// Of the backward pass; none without one.
    pub(crate) gradients: Arrays,
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
            gradients: Vec::new(),
            forward_s,
            backward_s: None,
        };
        if let Some(backward) = backward {
            let start = Instant::now();
            results.gradients = backward(&results.forward)?;
            results.backward_s = Some(start.elapsed().as_secs_f64());
        }
        Ok(results)
    }
}

/// Runs the kernels on this machine.
pub(crate) fn on_cpu<P: Sourced>(
    inputs: &Inputs<P>,
    schedule: &P::Schedule,
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

fn on_arrays<'a, K: Kernel + Sync>(
    program: &Program<K>,
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
                results.push((name, dims, Data::Bf16(untouched(len))));
            }
            Role::Output => results.push((name, dims, Data::F32(untouched(len)))),
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
pub(crate) fn on_sim<P: Sourced>(
    inputs: &Inputs<P>,
    schedule: &P::Schedule,
    options: &execute::Options,
    backward: bool,
) -> Result<Results, CliError> {
    let kernels = inputs.op.interpretation(schedule, backward)?;
    let known = &inputs.arrays;
    Results::of(
        || Ok(kernels.forward(known, options)?),
        backward.then_some(|forward: &Arrays| Ok(kernels.backward(known, forward, options)?)),
    )
}

/// Runs the f64 reference; results are rounded once, at the end.
pub(crate) fn with_reference<P: Sourced>(
    inputs: &Inputs<P>,
    backward: bool,
) -> Result<Results, CliError> {
    let (op, wide) = (&inputs.op, widened(inputs));
    let declared = op.both(&P::smallest(default_target()))?;
    let rounded = |outputs: Named| -> Result<Arrays, CliError> {
        let rounded = outputs.into_iter().map(|(name, values)| {
            let found = declared.arrays().iter().find(|array| array.name == name);
            let missing = || CliError::failure(format_args!("no kernel writes {name}"));
            let array = found.ok_or_else(missing)?;
            let data: Data = match array.dtype {
                DType::Bf16 => {
                    let rounded = values.iter().map(|&x| bf16::from_f64(x));
                    rounded.collect::<Vec<_>>().into()
                }
                _ => narrow(&values).into(),
            };
            Ok((name, Array::new(data, &array.dims)?))
        });
        rounded.collect()
    };
    Results::of(
        || rounded(op.exact_forward(&wide)),
        backward.then_some(|_: &Arrays| rounded(op.exact_backward(&wide))),
    )
}

/// The inputs of the reference.
pub(crate) fn widened<P: Sourced>(inputs: &Inputs<P>) -> P::Wide {
    let (mut labels, mut arrays) = (Vec::new(), Vec::new());
    for (name, array) in &inputs.arrays {
        match array.data() {
            Data::I32(data) => labels.clone_from(data),
            _ => arrays.push((*name, widen(&array.to_f32()))),
        }
    }
    P::widened(labels, arrays)
}
