//! `tilecast run`: an op on tensors from a file, with its results in another.

use std::path::PathBuf;

use serde_json::json;
use tilecast::cpu::simd::{Level, Simd};
use tilecast::{Blocks, Cpu, DType, Gradient, Reduction, Schedule};

use super::Outcome;
use super::args::{Backend, CliError, LossArgs, Op, ScheduleArgs, level};
use super::file::Output;
use super::inputs::{Inputs, Unread};
use super::memory;
use super::output::{print, print_json, warn};
use super::solve::{Results, on_cpu, with_reference};
use super::tensors::{self, Dtype, Tensor};

/// Run an op on tensors from a safetensors file
///
/// linear-ce reads x [B,H], w [H,V] (both F32 or both BF16), labels [B] (I32 or I64) and, where they are there, weight
/// [B], bias [V], d_loss [B] ([] if reduced; ones if missing) and d_lse [B] (zeros if missing), all F32. It writes loss
/// [B] ([] if reduced) and lse [B], F32, and dx, dw (the type of the inputs, or --grad-dtype) and dbias (F32).
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Example:\n  tilecast run linear-ce --backend cpu --input head.safetensors --output gradients.safetensors \\\n    \
                  --reduction mean --ignore-index -100"
)]
pub(crate) struct Args {
    /// What to compute
    op: Op,
    /// What computes it: this machine's vector units, or the obvious f64 loop
    #[arg(long)]
    backend: Backend,
    /// Tensors to read
    #[arg(long, value_name = "FILE")]
    input: PathBuf,
    /// Where to write results; replaced as a whole, or not touched on an error
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    loss: LossArgs,
    #[command(flatten)]
    schedule: ScheduleArgs,
    #[command(flatten)]
    machine: MachineArgs,
}

/// Options of the backend cpu.
#[derive(clap::Args, Clone, Copy, Debug)]
#[command(next_help_heading = "Backend cpu")]
struct MachineArgs {
    /// Number of threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=MAX_THREADS), allow_negative_numbers = true)]
    threads: Option<u16>,
    /// Instruction set [default: the best this machine has]
    #[arg(long, value_parser = level())]
    level: Option<Level>,
    /// Streaming: columns of the vocabulary whose delta is held at once, at most [default: chosen]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), allow_negative_numbers = true)]
    chunk_columns: Option<u32>,
}

/// More than any machine has; each costs a stack.
const MAX_THREADS: i64 = 1024;

impl MachineArgs {
    fn cpu(&self) -> Result<Cpu, CliError> {
        let mut cpu = Cpu::new();
        if let Some(level) = self.level {
            let simd = Simd::with_level(level).ok_or_else(|| {
                let here: Vec<_> = Simd::available().map(Simd::name).collect();
                let here = here.join(", ");
                CliError::invalid(format_args!(
                    "this machine does not have {level}; --level can be {here}"
                ))
            })?;
            cpu = cpu.simd(simd);
        }
        Ok(match self.threads {
            Some(threads) => cpu.threads(usize::from(threads)),
            None => cpu,
        })
    }
}

impl Args {
    /// The default for this machine, with what was asked for in its place.
    fn schedule(&self, unread: &Unread, cpu: &Cpu) -> Schedule {
        let mut schedule = Schedule::for_cache(&unread.problem, &cpu.cache());
        if let Some(blocks) = self.schedule.blocks {
            schedule.forward = blocks;
        }
        if let Some(blocks) = self.schedule.backward_blocks() {
            schedule.backward = blocks;
        }
        if let Some(strategy) = self.schedule.strategy.0 {
            schedule.strategy = strategy;
        }
        if let Some(columns) = self.machine.chunk_columns {
            schedule.chunk_columns = columns as usize;
        }
        schedule
    }
}

pub(crate) fn run(args: &Args) -> Result<Outcome, CliError> {
    let Op::LinearCe = args.op;
    if args.backend == Backend::Sim {
        return Err(CliError::unavailable(args.backend));
    }
    let cpu = args.machine.cpu()?;
    let output = Output::new(&args.output)?;
    let unread = Inputs::open(&args.input, &args.loss)?;
    for name in unread.unknown_names() {
        warn(format_args!(
            "tensor {name} is not one that linear-ce reads"
        ));
    }
    let backward = args.schedule.pass.backward();
    let (inputs, results, schedule) = match args.backend {
        Backend::Cpu => {
            let schedule = args.schedule(&unread, &cpu);
            memory::check(&unread.problem, &schedule, cpu.thread_count(), backward)?;
            let inputs = unread.read()?;
            let results = on_cpu(&inputs, schedule, &cpu, backward)?;
            (inputs, results, Some(schedule))
        }
        _ => {
            let inputs = unread.read()?;
            let results = with_reference(&inputs, backward);
            (inputs, results, None)
        }
    };
    tensors::write(&output, tensors(args, &inputs, &results))?;
    let report = Report {
        args,
        inputs: &inputs,
        results: &results,
        machine: schedule.map(|schedule| (schedule, &cpu)),
    };
    match args.json {
        true => print_json(&report.json())?,
        false => print(report.line())?,
    }
    Ok(Outcome::Done)
}

/// The results that were asked for.
fn tensors<'a>(args: &Args, inputs: &Inputs, results: &'a Results) -> Vec<Tensor<'a>> {
    let problem = &inputs.problem;
    let (b, h, v) = (problem.tokens(), problem.hidden(), problem.vocab());
    let floats = |name, data: &'a [f32], shape| Tensor {
        name,
        dtype: Dtype::F32,
        shape,
        bytes: bytemuck::cast_slice(data),
    };
    let gradient = |name, gradient: &'a Gradient, shape| match gradient {
        Gradient::F32(data) => floats(name, data, shape),
        Gradient::Bf16(data) => Tensor {
            name,
            dtype: Dtype::BF16,
            shape,
            bytes: bytemuck::cast_slice(data),
        },
    };
    let mut found = Vec::new();
    if args.schedule.pass.forward() {
        let loss_shape = match args.loss.reduction {
            Reduction::None => vec![b],
            _ => vec![],
        };
        found.push(floats("loss", &results.forward.loss, loss_shape));
        found.push(floats("lse", &results.forward.lse, vec![b]));
    }
    if let Some(gradients) = &results.gradients {
        found.push(gradient("dx", &gradients.dx, vec![b, h]));
        found.push(gradient("dw", &gradients.dw, vec![h, v]));
        let dbias = gradients.dbias.as_deref();
        found.extend(dbias.map(|dbias| floats("dbias", dbias, vec![v])));
    }
    found
}

/// What was done, and how long it took.
struct Report<'a> {
    args: &'a Args,
    inputs: &'a Inputs,
    results: &'a Results,
    machine: Option<(Schedule, &'a Cpu)>,
}

impl Report<'_> {
    /// Mean over the tokens, or the reduced loss.
    fn loss(&self) -> f64 {
        let loss = &self.results.forward.loss;
        loss.iter().copied().map(f64::from).sum::<f64>() / loss.len() as f64
    }

    fn tokens_per_s(&self) -> f64 {
        let Results {
            forward_s,
            backward_s,
            ..
        } = self.results;
        self.inputs.problem.tokens() as f64 / (forward_s + backward_s.unwrap_or(0.0))
    }

    fn line(&self) -> String {
        let problem = &self.inputs.problem;
        let machine = match &self.machine {
            Some((_, cpu)) => format!(" ({}, threads {})", cpu.level(), cpu.thread_count()),
            None => String::new(),
        };
        let loss = match self.args.loss.reduction {
            Reduction::None => "mean loss",
            Reduction::Sum => "sum of losses",
            Reduction::Mean => "loss",
        };
        let backward = match self.results.backward_s {
            Some(time_s) => format!(", backward {time_s:.4} s"),
            None => String::new(),
        };
        format!(
            "{} on {}{machine}: B={} H={} V={} {}: {loss} {:.6}, forward {:.4} s{backward}, {:.0} tokens/s",
            self.args.op.name(),
            self.args.backend.name(),
            problem.tokens(),
            problem.hidden(),
            problem.vocab(),
            problem.dtype(),
            self.loss(),
            self.results.forward_s,
            self.tokens_per_s(),
        )
    }

    fn json(&self) -> serde_json::Value {
        let problem = &self.inputs.problem;
        let dtype: fn(DType) -> &'static str = DType::name;
        let blocks = |blocks: Blocks| json!({ "b": blocks.b, "h": blocks.h, "v": blocks.v });
        let machine = self.machine.as_ref();
        json!({
            "op": self.args.op.name(),
            "backend": self.args.backend.name(),
            "dtype": dtype(problem.dtype()),
            "grad_dtype": dtype(problem.grad_dtype()),
            "shape": {
                "tokens": problem.tokens(),
                "hidden": problem.hidden(),
                "vocab": problem.vocab(),
            },
            "level": machine.map(|(_, cpu)| cpu.level().name()),
            "threads": machine.map(|(_, cpu)| cpu.thread_count()),
            "blocks": machine.map(|(schedule, _)| blocks(schedule.forward)),
            "backward_blocks": machine.map(|(schedule, _)| blocks(schedule.backward)),
            "strategy": machine.map(|(schedule, _)| schedule.strategy.name()),
            "loss": self.loss(),
            "forward_s": self.results.forward_s,
            "backward_s": self.results.backward_s,
            "tokens_per_s": self.tokens_per_s(),
        })
    }
}
