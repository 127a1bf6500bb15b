//! Talks to libtpu; runs in a process of its own.

use std::collections::HashMap;
use std::time::Instant;

use bytemuck::Zeroable;
use half::bf16;
use tilecast::core::kernels::linear_ce::HeadKernel;
use tilecast::core::program::{Array, Program, Role};
use tilecast::core::target::Target;
use tilecast::tpu::lower::F32Products;
use tilecast::tpu::pjrt::{
    Client, CompileOptions, Device, DeviceBuffer, HOW_TO_GET_LIBTPU, HostArray, PjrtError, Plugin,
    generation_of,
};
use tilecast::{DType, Forward, Gradients, Schedule, Structure, Values};

use super::TpuArgs;
use crate::cli::args::{Pass, ScheduleArgs};
use crate::cli::emission::{Emission, Wanted, stablehlo};
use crate::cli::error::CliError;
use crate::cli::inputs::{Floats, Inputs};
use crate::cli::solve::{Results, cotangents, narrow};

/// Runs the op on the first TPU of this machine, in the blocks that are returned.
///
/// # Errors
/// There is no libtpu or no TPU; no blocks fit it; libtpu fails.
pub(crate) fn run(
    inputs: &Inputs,
    schedule: &ScheduleArgs,
    args: &TpuArgs,
) -> Result<(Results, Schedule), CliError> {
    let libtpu = args.libtpu.as_deref();
    let libtpu = libtpu.ok_or_else(|| CliError::invalid("give --libtpu"))?;
    let plugin = Plugin::load_for_devices(libtpu).map_err(|error| cannot_load(&error))?;
    let client = plugin.client().map_err(|error| no_tpu(&error.summary()))?;
    let platform = client.platform_name().map_err(failed)?;
    if platform != "tpu" {
        return Err(no_tpu(&format!("the plugin is for {platform}")));
    }
    let devices = client.devices().map_err(failed)?;
    let device = *devices.first().ok_or_else(|| no_tpu("it has no devices"))?;
    let wanted = Wanted {
        problem: inputs.problem,
        schedule: &ScheduleArgs {
            // A backward pass needs the residual of a forward pass.
            pass: match schedule.pass.backward() {
                true => Pass::Both,
                false => Pass::Forward,
            },
            ..*schedule
        },
        target: target(device)?,
        vmem_limit_kib: None,
        structure: Structure::Overlapped,
        products: args.f32_products.into(),
    };
    let emission = Emission::choose(wanted)?;
    if let Some(reason) = emission.misfit {
        let target = wanted.target.name;
        return Err(CliError::invalid(format_args!(
            "no block sizes fit {target}: {reason}; `tilecast simulate` shows why"
        )));
    }
    let mut run = Run {
        client: &client,
        device,
        emission: &emission,
        products: wanted.products,
        arrays: HashMap::new(),
    };
    run.upload(inputs)?;
    let results = run.results(inputs, schedule.pass.backward())?;
    Ok((results, emission.schedule))
}

/// The plugin cannot be used.
pub(crate) fn cannot_load(error: &PjrtError) -> CliError {
    CliError::failure(format_args!("{}\n{HOW_TO_GET_LIBTPU}", error.summary()))
}

fn failed(error: PjrtError) -> CliError {
    CliError::Failure(error.summary())
}

/// The request cannot be right on this machine.
fn no_tpu(why: &str) -> CliError {
    let line = why.lines().next().unwrap_or_default();
    CliError::invalid(format_args!("no TPU was found on this machine: {line}"))
}

fn target(device: Device<'_>) -> Result<&'static Target, CliError> {
    let kind = device.kind().map_err(failed)?;
    let generation = generation_of(&kind).ok_or_else(|| {
        CliError::invalid(format_args!(
            "the TPU of this machine, {kind}, is not known; `tilecast targets` lists those that are"
        ))
    })?;
    Ok(Target::of(generation))
}

/// The op on a device.
struct Run<'c, 'e> {
    client: &'c Client,
    device: Device<'c>,
    emission: &'e Emission,
    products: F32Products,
    /// What is on the device, by the names that programs use.
    arrays: HashMap<&'static str, DeviceBuffer<'c>>,
}

impl Run<'_, '_> {
    fn upload(&mut self, inputs: &Inputs) -> Result<(), CliError> {
        let problem = &inputs.problem;
        let (b, h, v) = (problem.tokens(), problem.hidden(), problem.vocab());
        let (d_loss, d_lse) = cotangents(inputs);
        let (d_loss, d_lse) = (narrow(&d_loss), narrow(&d_lse));
        let floats = |data: &'_ [f32]| bytemuck::cast_slice::<f32, u8>(data).to_vec();
        let mut put = |name, dtype, dims: &[usize], bytes: &[u8]| {
            let array = HostArray { dtype, dims, bytes };
            let buffer = self.client.upload(self.device, array).map_err(failed)?;
            self.arrays.insert(name, buffer);
            Ok::<_, CliError>(())
        };
        put("x", problem.dtype(), &[b, h], bytes(&inputs.x))?;
        put("w", problem.dtype(), &[h, v], bytes(&inputs.w))?;
        put(
            "labels",
            DType::I32,
            &[b],
            bytemuck::cast_slice(&inputs.labels),
        )?;
        put("d_loss", DType::F32, &[d_loss.len()], &floats(&d_loss))?;
        put("d_lse", DType::F32, &[b], &floats(&d_lse))?;
        if let Some(weight) = &inputs.weight {
            put("weight", DType::F32, &[b], &floats(weight))?;
        }
        if let Some(bias) = &inputs.bias {
            put("bias", DType::F32, &[v], &floats(bias))?;
        }
        Ok(())
    }

    fn results(&mut self, inputs: &Inputs, backward: bool) -> Result<Results, CliError> {
        let problem = &inputs.problem;
        let (b, h, v) = (problem.tokens(), problem.hidden(), problem.vocab());
        let forward_s = self.run(Pass::Forward)?;
        let backward_s = match backward {
            true => Some(self.run(Pass::Backward)?),
            false => None,
        };
        let losses = cotangents(inputs).0.len();
        let forward = Forward {
            loss: self.read("loss", losses)?,
            lse: self.read("lse", b)?,
        };
        let gradients = match backward {
            false => None,
            true => Some(Gradients {
                dx: self.gradient("dx", problem.grad_dtype(), b * h)?,
                dw: self.gradient("dw", problem.grad_dtype(), h * v)?,
                dbias: match problem.options().bias {
                    true => Some(self.read("dbias", v)?),
                    false => None,
                },
            }),
        };
        Ok(Results {
            forward,
            gradients,
            forward_s,
            backward_s,
        })
    }

    /// Compiles a pass and runs it on the arrays there are; its outputs join them. Returns its time, without
    /// that of the compiler.
    fn run(&mut self, pass: Pass) -> Result<f64, CliError> {
        let program = self.emission.program(pass)?;
        let limit = self.emission.vmem_limit_bytes;
        let text = stablehlo(&program, self.products, limit, false)?;
        let loaded = self
            .client
            .compile(text.as_bytes(), &CompileOptions::default());
        let loaded = loaded.map_err(failed)?;
        let find = |array: &Array| {
            let found = self.arrays.get(array.name);
            found.ok_or_else(|| {
                CliError::failure(format_args!("nothing was uploaded for {}", array.name))
            })
        };
        let arguments: Vec<_> = of_role(&program, Role::Input)
            .map(find)
            .collect::<Result<_, _>>()?;
        let start = Instant::now();
        let outputs = loaded.execute(&arguments).map_err(failed)?;
        let time_s = start.elapsed().as_secs_f64();
        let names: Vec<_> = of_role(&program, Role::Output)
            .map(|array| array.name)
            .collect();
        self.arrays.extend(names.into_iter().zip(outputs));
        Ok(time_s)
    }

    fn read<T: Zeroable + bytemuck::Pod>(
        &self,
        name: &str,
        len: usize,
    ) -> Result<Vec<T>, CliError> {
        let buffer = self.arrays.get(name);
        let buffer = buffer.ok_or_else(|| CliError::failure(format_args!("no result {name}")))?;
        let mut data = vec![T::zeroed(); len];
        buffer
            .read(bytemuck::cast_slice_mut(&mut data))
            .map_err(failed)?;
        Ok(data)
    }

    fn gradient(&self, name: &str, dtype: DType, len: usize) -> Result<Values, CliError> {
        Ok(match dtype {
            DType::Bf16 => Values::Bf16(self.read::<bf16>(name, len)?),
            _ => Values::F32(self.read::<f32>(name, len)?),
        })
    }
}

fn of_role(program: &Program<HeadKernel>, role: Role) -> impl Iterator<Item = &Array> {
    program
        .arrays()
        .iter()
        .filter(move |array| array.role == role)
}

fn bytes(data: &Floats) -> &[u8] {
    match data {
        Floats::F32(data) => bytemuck::cast_slice(data),
        Floats::Bf16(data) => bytemuck::cast_slice(data),
    }
}
