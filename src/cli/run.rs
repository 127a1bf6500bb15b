//! `tilecast run`: an op on tensors from a file, with its results in another.

use std::path::PathBuf;

use serde_json::json;
use tilecast::core::kernels::linear_ce::LinearCe;
use tilecast::core::kernels::linear_op::LinearOp;
use tilecast::core::kernels::logits_op::LogitsOp;
use tilecast::core::target::Target;
use tilecast::cpu::simd::{Level, Simd};
use tilecast::sim::execute;
use tilecast::sim::interpretation::{Interpretation, default_target, smallest_schedule};
use tilecast::{Blocks, Cpu, DType, ProductBlocks, Reduction, Schedule, Stored, Strategy, Values};

use super::Outcome;
use super::args::{Backend, LossArgs, Op, ScheduleArgs, level, parse_target};
use super::error::CliError;
use super::file::Output;
use super::given::Given;
use super::gmm;
use super::inputs::Inputs;
use super::logits::{self, LogitsArgs};
use super::memory;
use super::output::{json_text, print, warn};
use super::sizes::Sizes;
use super::solve::{Results, on_cpu, on_sim, storing_on_cpu, with_reference};
use super::tensors::{self, Dtype, Tensor};
use super::tpu::{self, TpuArgs};

/// Run an op on tensors from a safetensors file
///
/// linear-ce reads x [B,H], w [H,V] (both F32 or both BF16), labels [B] (I32 or I64) and, where they are there, weight
/// [B], bias [V], d_loss [B] ([] if reduced; ones if missing) and d_lse [B] (zeros if missing), all F32. It writes loss
/// [B] ([] if reduced) and lse [B], F32, and dx, dw (the type of the inputs, or --grad-dtype) and dbias (F32).
///
/// logits-ce, grpo and entropy read logits [B,V] (F32 or BF16) and write, where a backward pass is asked for, d_logits
/// [B,V] (their type, or --grad-dtype); vectors [B] are F32, cotangents that are missing are ones for the first and
/// zeros for the others.
///
/// logits-ce reads labels [B] (I32 or I64), d_loss, d_logp, d_lse, and writes loss, logp, lse. entropy reads d_entropy
/// and writes entropy, lse. grpo reads labels, advantage, old_logp (not with --on-policy), ref_logp (with --kl-beta),
/// mask (zeros and ones; ones if missing), d_loss ([]; [B] with --per-token), d_logp, d_ratio, d_entropy, and writes
/// loss (as d_loss), logp, ratio, is_clipped (0 or 1), entropy, lse.
///
/// linear-grpo and linear-entropy are grpo and entropy of the logits that a head computes: they read x [B,H], w [H,V]
/// and, where it is there, bias [V] in the place of the logits, and write dx, dw (as linear-ce does) and dbias in that
/// of d_logits.
///
/// gmm reads x [T,I], w [E,I,O] (both F32 or both BF16), group_sizes [E] (I32 or I64), the rows of each expert,
/// and, for a backward pass, dy [T,O] (ones if missing). It writes y [T,O], dx and dw (the type of the inputs,
/// or --grad-dtype); rows behind the last group give 0.
///
/// sim prints each kernel as the TPU compiler would get it, reads it back and interprets it. Blocks are the smallest
/// that a TPU takes, 128 each way, unless given. It takes at most 100000000000 multiplications, about a minute: B*H*V
/// with --pass forward, 4*B*H*V otherwise, with B, H and V rounded up to whole blocks. Of the ops on given logits it
/// takes at most 500000000 reads of a logit: B*V with --pass forward, 2*B*V otherwise, likewise.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Example:\n  tilecast run linear-ce --backend cpu --input head.safetensors --output gradients.safetensors \\\n    \
                  --reduction mean --ignore-index -100\n  \
                  tilecast run linear-ce --backend sim --input small.safetensors --output interpreted.safetensors --target v5e\n  \
                  tilecast run logits-ce --backend cpu --input logits.safetensors --output loss.safetensors --temperature 0.7\n  \
                  tilecast run grpo --backend cpu --input policy.safetensors --output loss.safetensors --variant dr_grpo \\\n    \
                  --sequence-length 1024 --clip-high 0.28 --kl-beta 0.04\n  \
                  tilecast run linear-grpo --backend cpu --input head.safetensors --output gradients.safetensors --temperature 0.7\n  \
                  tilecast run entropy --backend cpu --input logits.safetensors --output entropy.safetensors --blocks 64,2048"
)]
pub(crate) struct Args {
    #[command(flatten)]
    given: Given,
    /// What to compute
    pub(crate) op: Op,
    /// What computes it: this machine's vector units; its TPU; an interpreter of the Mosaic text that the TPU compiler
    /// would get, for small problems; or the obvious f64 loop
    #[arg(long)]
    pub(crate) backend: Backend,
    /// Tensors to read
    #[arg(long, value_name = "FILE")]
    pub(crate) input: PathBuf,
    /// Where to write results; replaced as a whole, or not touched on an error
    #[arg(long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) loss: LossArgs,
    #[command(flatten)]
    pub(crate) logits: LogitsArgs,
    #[command(flatten)]
    pub(crate) schedule: ScheduleArgs,
    /// Streaming: columns of the vocabulary whose delta is held at once, at most [default: chosen]
    #[arg(long, help_heading = "Schedule", value_name = "N", value_parser = clap::value_parser!(u32).range(1..), allow_negative_numbers = true)]
    chunk_columns: Option<u32>,
    /// linear-ce on the cpu: both passes in one, which stores logits, in the place of dw or up to 48 MiB per thread,
    /// instead of computing them again, where that is faster
    #[arg(long, help_heading = "Schedule", conflicts_with_all = ["blocks", "backward_blocks", "dx_blocks", "dw_blocks", "delta_columns", "strategy", "chunk_columns"])]
    store_logits: bool,
    #[command(flatten)]
    pub(crate) machine: MachineArgs,
    #[command(flatten)]
    pub(crate) interpreter: InterpreterArgs,
    #[command(flatten)]
    tpu: TpuArgs,
}

/// Options of the backend cpu.
#[derive(clap::Args, Clone, Copy, Debug)]
#[command(next_help_heading = "Backend cpu")]
pub(crate) struct MachineArgs {
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
pub(crate) struct InterpreterArgs {
    /// TPU generation whose rules for blocks and VMEM hold: v4, v5e, v5p, v6e, v7x [default: v5e]
    #[arg(long, value_name = "T", value_parser = parse_target)]
    target: Option<&'static Target>,
    /// Take the steps along parallel grid axes in the order of this seed [default: one after the other]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
}

impl InterpreterArgs {
    pub(crate) fn target(&self) -> &'static Target {
        self.target.unwrap_or_else(default_target)
    }

    pub(crate) fn options(&self) -> execute::Options {
        execute::Options {
            parallel_order: self.seed,
            ..execute::Options::default()
        }
    }
}

/// More than any machine has; each costs a stack.
const MAX_THREADS: i64 = 1024;

impl MachineArgs {
    pub(crate) fn cpu(&self) -> Result<Cpu, CliError> {
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
    pub(crate) fn schedule(&self, chosen: Schedule) -> Result<Schedule, CliError> {
        let [forward, backward] = self.schedule.blocks(Sizes::of_head)?;
        let of = |[b, h]: [usize; 2]| ProductBlocks { b, h };
        let own = self.schedule.own_blocks();
        let [dx, dw] = own.products.map(|own| own.map(of));
        let chosen = chosen.in_blocks(forward, backward);
        Ok(Schedule {
            dx: dx.or(chosen.dx),
            dw: dw.or(chosen.dw),
            delta_columns: own.delta_columns.or(chosen.delta_columns),
            strategy: self.schedule.strategy.0.unwrap_or(chosen.strategy),
            chunk_columns: (self.chunk_columns).map_or(chosen.chunk_columns, |n| n as usize),
            ..chosen
        })
    }

    /// Options of a backend that is not the one that runs would be without effect.
    fn check_backend(&self) -> Result<(), CliError> {
        let (machine, interpreter) = (&self.machine, &self.interpreter);
        // The reference takes what the cpu does, to be compared with it.
        const CPU: &[Backend] = &[Backend::Cpu, Backend::Reference];
        let options = [
            ("--threads", CPU, machine.threads.is_some()),
            ("--level", CPU, machine.level.is_some()),
            (
                "--chunk-columns",
                &[Backend::Cpu, Backend::Reference, Backend::Sim],
                self.chunk_columns.is_some(),
            ),
            ("--store-logits", CPU, self.store_logits),
            ("--target", &[Backend::Sim], interpreter.target.is_some()),
            ("--seed", &[Backend::Sim], interpreter.seed.is_some()),
            ("--libtpu", &[Backend::Tpu], self.tpu.libtpu.is_some()),
        ];
        let of_another = |of: &[Backend], given| given && !of.contains(&self.backend);
        let found = options.iter().find(|(_, of, given)| of_another(of, *given));
        match found {
            Some((option, of, _)) => Err(CliError::invalid(format_args!(
                "{option} is an option of the backend {of}, not of {}; leave it out, or use --backend {of}",
                self.backend.name(),
                of = of[0].name(),
            ))),
            None => Ok(()),
        }
    }
}

/// Where kernels ran.
pub(crate) enum Place {
    Cpu(Cpu),
    Sim(InterpreterArgs),
    Tpu,
}

impl Place {
    pub(crate) fn cpu(&self) -> Option<&Cpu> {
        match self {
            Self::Cpu(cpu) => Some(cpu),
            _ => None,
        }
    }

    pub(crate) fn interpreter(&self) -> Option<&InterpreterArgs> {
        match self {
            Self::Sim(interpreter) => Some(interpreter),
            _ => None,
        }
    }

    /// For a person, behind the name of the backend.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Cpu(cpu) => format!(" ({}, threads {})", cpu.level(), cpu.thread_count()),
            Self::Sim(interpreter) => format!(" ({})", interpreter.target()),
            Self::Tpu => String::new(),
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<Outcome, CliError> {
    args.given.check(args.op)?;
    args.check_backend()?;
    let text = match (args.op, args.backend) {
        (Op::LinearCe, Backend::Tpu) => args.tpu.in_worker(|| compute(args))?,
        (Op::LinearCe, _) => compute(args)?,
        (Op::LogitsCe | Op::Grpo | Op::Entropy, _) => logits::run::compute::<LogitsOp>(args)?,
        (Op::LinearGrpo | Op::LinearEntropy, _) => logits::run::compute::<LinearOp>(args)?,
        (Op::Gmm, _) => gmm::run(args)?,
    };
    print(text)?;
    Ok(Outcome::Done)
}

/// Reads, computes and writes; what is returned is for standard output.
fn compute(args: &Args) -> Result<String, CliError> {
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
            let cache = cpu.cache();
            let stored = match args.store_logits && backward {
                true => Stored::for_cache(problem.head(), &cache),
                false => None,
            };
            let schedule = args.schedule(Schedule::for_cache(problem.head(), &cache))?;
            let cut = stored.map_or(Cut::Passes(schedule), Cut::Stored);
            check_memory(&problem, &cut, cpu.thread_count(), backward)?;
            let inputs = unread.read()?;
            let results = match stored {
                Some(stored) => storing_on_cpu(&inputs, stored, &cpu)?,
                None => on_cpu(&inputs, schedule, &cpu, backward)?,
            };
            (inputs, results, Some((cut, Place::Cpu(cpu))))
        }
        Backend::Sim => {
            let target = args.interpreter.target();
            let schedule = args.schedule(smallest_schedule(target, Strategy::Streaming))?;
            // Refused before data are read.
            Interpretation::new(&problem, &schedule, backward)?.check(target)?;
            let cut = Cut::Passes(schedule);
            check_memory(&problem, &cut, 1, backward)?;
            let inputs = unread.read()?;
            let options = args.interpreter.options();
            let results = on_sim(&inputs, &schedule, &options, backward)?;
            (inputs, results, Some((cut, Place::Sim(args.interpreter))))
        }
        Backend::Tpu => {
            let inputs = unread.read()?;
            let (results, schedule) = tpu::run(&inputs, &args.schedule, &args.tpu)?;
            (inputs, results, Some((Cut::Passes(schedule), Place::Tpu)))
        }
        Backend::Reference => {
            // As the other backends do, though nothing is cut up.
            args.schedule.blocks(Sizes::of_head)?;
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
    Ok(match args.json {
        true => json_text(&report.json()),
        false => report.line(),
    })
}

/// How the kernels were cut up.
enum Cut {
    /// Each pass of its own.
    Passes(Schedule),
    /// Both in one.
    Stored(Stored),
}

fn check_memory(
    problem: &LinearCe,
    cut: &Cut,
    threads: usize,
    backward: bool,
) -> Result<(), CliError> {
    let (programs, advice) = match cut {
        Cut::Stored(stored) => (
            vec![problem.forward_and_backward_stored(stored)?],
            "fewer threads, or leave --store-logits out",
        ),
        Cut::Passes(schedule) => {
            let forward = problem.forward(schedule)?;
            let backward = backward.then(|| problem.backward(schedule)).transpose()?;
            (
                [Some(forward), backward].into_iter().flatten().collect(),
                "smaller blocks, fewer threads or --strategy streaming",
            )
        }
    };
    memory::check(&programs, threads, advice)
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
    let gradient = |name, gradient: &'a Values, shape| match gradient {
        Values::F32(data) => floats(name, data, shape),
        Values::Bf16(data) => Tensor {
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
    kernels: Option<(Cut, Place)>,
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
        let place = self.kernels.as_ref();
        let place = place.map_or_else(String::new, |(_, place)| place.text());
        let loss = match self.args.loss.reduction {
            Reduction::None => "mean loss",
            Reduction::Sum => "sum of losses",
            Reduction::Mean => "loss",
        };
        let backward = match self.results.backward_s {
            Some(time_s) => format!(", backward {time_s:.4} s"),
            None => String::new(),
        };
        let first = match self.stored() {
            Some(_) => "both passes in one",
            None => "forward",
        };
        format!(
            "{} on {}{place}: B={} H={} V={} {}: {loss} {:.6}, {first} {:.4} s{backward}, {:.0} tokens/s",
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

    fn stored(&self) -> Option<&Stored> {
        match &self.kernels {
            Some((Cut::Stored(stored), _)) => Some(stored),
            _ => None,
        }
    }

    fn json(&self) -> serde_json::Value {
        let problem = &self.inputs.problem;
        let dtype: fn(DType) -> &'static str = DType::name;
        let blocks = |blocks: Blocks| json!({ "b": blocks.b, "h": blocks.h, "v": blocks.v });
        let cut = self.kernels.as_ref().map(|(cut, _)| match cut {
            Cut::Passes(Schedule {
                forward,
                backward,
                strategy,
                ..
            }) => (*forward, *backward, strategy.name()),
            Cut::Stored(Stored { blocks, .. }) => (*blocks, *blocks, "stored"),
        });
        let time_s = self.results.forward_s;
        let (forward_s, both_s) = match self.stored() {
            None => (Some(time_s), None),
            Some(_) => (None, Some(time_s)),
        };
        let place = self.kernels.as_ref().map(|(_, place)| place);
        let (cpu, interpreter) = (
            place.and_then(Place::cpu),
            place.and_then(Place::interpreter),
        );
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
            "blocks": cut.map(|(forward, ..)| blocks(forward)),
            "backward_blocks": cut.map(|(_, backward, _)| blocks(backward)),
            "strategy": cut.map(|(.., strategy)| strategy),
            "loss": self.loss(),
            "both_s": both_s,
            "forward_s": forward_s,
            "backward_s": self.results.backward_s,
            "tokens_per_s": self.tokens_per_s(),
        })
    }
}
