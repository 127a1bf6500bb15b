//! `tilecast run`: an op on tensors from a file, with its results in another.

use std::path::PathBuf;

use serde_json::json;
use tilecast::core::target::Target;
use tilecast::cpu::simd::{Level, Simd};
use tilecast::sim::execute;
use tilecast::sim::interpretation::{Interpretation, default_target, smallest_schedule};
use tilecast::{Blocks, Cpu, DType, Gradient, Reduction, Schedule, Strategy};

use super::Outcome;
use super::args::{Backend, CliError, LossArgs, Op, ScheduleArgs, level, parse_target};
use super::file::Output;
use super::inputs::Inputs;
use super::memory;
use super::output::{print, print_json, warn};
use super::solve::{Results, on_cpu, on_sim, with_reference};
use super::tensors::{self, Dtype, Tensor};

/// Run an op on tensors from a safetensors file
///
/// linear-ce reads x [B,H], w [H,V] (both F32 or both BF16), labels [B] (I32 or I64) and, where they are there, weight
/// [B], bias [V], d_loss [B] ([] if reduced; ones if missing) and d_lse [B] (zeros if missing), all F32. It writes loss
/// [B] ([] if reduced) and lse [B], F32, and dx, dw (the type of the inputs, or --grad-dtype) and dbias (F32).
///
/// sim prints each kernel as the TPU compiler would get it, reads it back and interprets it. Blocks are the smallest that a
/// TPU takes, 128,128,128, unless given. It takes at most 100000000000 multiplications, about a minute:
/// B*H*V with --pass forward, 4*B*H*V otherwise, with B, H and V rounded up to whole blocks.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Example:\n  tilecast run linear-ce --backend cpu --input head.safetensors --output gradients.safetensors \\\n    \
                  --reduction mean --ignore-index -100\n  \
                  tilecast run linear-ce --backend sim --input small.safetensors --output interpreted.safetensors --target v5e"
)]
pub(crate) struct Args {
    /// What to compute
    op: Op,
    /// What computes it: this machine's vector units; an interpreter of the Mosaic text that the TPU compiler would
    /// get, for small problems; or the obvious f64 loop
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
    /// Streaming: columns of the vocabulary whose delta is held at once, at most [default: chosen]
    #[arg(long, help_heading = "Schedule", value_name = "N", value_parser = clap::value_parser!(u32).range(1..), allow_negative_numbers = true)]
    chunk_columns: Option<u32>,
    #[command(flatten)]
    machine: MachineArgs,
    #[command(flatten)]
    interpreter: InterpreterArgs,
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
}

/// Options of the backend sim.
#[derive(clap::Args, Clone, Copy, Debug)]
#[command(next_help_heading = "Backend sim")]
struct InterpreterArgs {
    /// TPU generation whose rules for blocks and VMEM hold: v4, v5e, v5p, v6e, v7x [default: v5e]
    #[arg(long, value_name = "T", value_parser = parse_target)]
    target: Option<&'static Target>,
    /// Take the steps along parallel grid axes in the order of this seed [default: one after the other]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

impl InterpreterArgs {
    fn target(&self) -> &'static Target {
        self.target.unwrap_or_else(default_target)
    }
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
    /// The default of a backend, with what was asked for in its place.
    fn schedule(&self, chosen: Schedule) -> Schedule {
        Schedule {
            forward: self.schedule.blocks.unwrap_or(chosen.forward),
            backward: self.schedule.backward_blocks().unwrap_or(chosen.backward),
            strategy: self.schedule.strategy.0.unwrap_or(chosen.strategy),
            chunk_columns: (self.chunk_columns).map_or(chosen.chunk_columns, |n| n as usize),
            ..chosen
        }
    }

    /// Options of a backend that is not the one that runs would be without effect.
    fn check_backend(&self) -> Result<(), CliError> {
        let (machine, interpreter) = (&self.machine, &self.interpreter);
        let given = match self.backend {
            Backend::Sim => [
                ("--threads", Backend::Cpu, machine.threads.is_some()),
                ("--level", Backend::Cpu, machine.level.is_some()),
            ],
            _ => [
                ("--target", Backend::Sim, interpreter.target.is_some()),
                ("--seed", Backend::Sim, interpreter.seed.is_some()),
            ],
        };
        match given.into_iter().find(|(.., given)| *given) {
            Some((option, of, _)) => Err(CliError::invalid(format_args!(
                "{option} is an option of the backend {}, not of {}; leave it out, or use --backend {}",
                of.name(),
                self.backend.name(),
                of.name()
            ))),
            None => Ok(()),
        }
    }
}

/// Where kernels ran.
enum Place {
    Cpu(Cpu),
    Sim(InterpreterArgs),
}

pub(crate) fn run(args: &Args) -> Result<Outcome, CliError> {
    let Op::LinearCe = args.op;
    args.check_backend()?;
    let cpu = args.machine.cpu()?;
    let output = Output::new(&args.output)?;
    let unread = Inputs::open(&args.input, &args.loss)?;
    for name in unread.unknown_names() {
        warn(format_args!(
            "tensor {name} is not one that linear-ce reads"
        ));
    }
    let backward = args.schedule.pass.backward();
    let problem = unread.problem;
    let (inputs, results, kernels) = match args.backend {
        Backend::Cpu => {
            let schedule = args.schedule(Schedule::for_cache(&problem, &cpu.cache()));
            memory::check(&problem, &schedule, cpu.thread_count(), backward)?;
            let inputs = unread.read()?;
            let results = on_cpu(&inputs, schedule, &cpu, backward)?;
            (inputs, results, Some((schedule, Place::Cpu(cpu))))
        }
        Backend::Sim => {
            let target = args.interpreter.target();
            let schedule = args.schedule(smallest_schedule(target, Strategy::Streaming));
            // Refused before data are read.
            Interpretation::new(&problem, &schedule, backward)?.check(target)?;
            memory::check(&problem, &schedule, 1, backward)?;
            let inputs = unread.read()?;
            let options = execute::Options {
                parallel_order: args.interpreter.seed,
                ..execute::Options::default()
            };
            let results = on_sim(&inputs, &schedule, &options, backward)?;
            (
                inputs,
                results,
                Some((schedule, Place::Sim(args.interpreter))),
            )
        }
        Backend::Reference => {
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
        kernels,
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
    /// How the kernels were cut up and where they ran; none for the reference.
    kernels: Option<(Schedule, Place)>,
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
        let place = match &self.kernels {
            Some((_, Place::Cpu(cpu))) => {
                format!(" ({}, threads {})", cpu.level(), cpu.thread_count())
            }
            Some((_, Place::Sim(interpreter))) => format!(" ({})", interpreter.target()),
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
            "{} on {}{place}: B={} H={} V={} {}: {loss} {:.6}, forward {:.4} s{backward}, {:.0} tokens/s",
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
        let schedule = self.kernels.as_ref().map(|(schedule, _)| schedule);
        let (cpu, interpreter) = match &self.kernels {
            Some((_, Place::Cpu(cpu))) => (Some(cpu), None),
            Some((_, Place::Sim(interpreter))) => (None, Some(interpreter)),
            None => (None, None),
        };
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
            "level": cpu.map(|cpu| cpu.level().name()),
            "threads": cpu.map(Cpu::thread_count),
            "target": interpreter.map(|interpreter| interpreter.target().name),
            "seed": interpreter.and_then(|interpreter| interpreter.seed),
            "blocks": schedule.map(|schedule| blocks(schedule.forward)),
            "backward_blocks": schedule.map(|schedule| blocks(schedule.backward)),
            "strategy": schedule.map(|schedule| schedule.strategy.name()),
            "loss": self.loss(),
            "forward_s": self.results.forward_s,
            "backward_s": self.results.backward_s,
            "tokens_per_s": self.tokens_per_s(),
        })
    }
}
