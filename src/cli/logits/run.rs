//! `run` of an op on logits, given or computed by a head.

use serde_json::json;
use tilecast::core::kernels::logits_op::LogitsOp;
use tilecast::{Cpu, Strategy};

use super::inputs::Inputs;
use super::solve::{Results, on_cpu, on_sim, with_reference};
use super::source::Sourced;
use crate::cli::args::Backend;
use crate::cli::error::CliError;
use crate::cli::file::Output;
use crate::cli::memory;
use crate::cli::output::{json_text, warn};
use crate::cli::run::{Args, Place};
use crate::cli::tensors::{self, Tensor};

/// Reads, computes and writes; what is returned is for standard output.
pub(crate) fn compute<P: Sourced>(args: &Args) -> Result<String, CliError> {
    let cpu = args.machine.cpu()?;
    let output = Output::new(&args.output)?;
    let unread = Inputs::<P>::open(args)?;
    for name in unread.unknown_names() {
        let op = args.op.name();
        warn(format_args!(
            "tensor {name} is not one that {op} reads with these options"
        ));
    }
    let backward = args.schedule.pass.backward();
    let op = unread.op;
    let (results, kernels) = match args.backend {
        Backend::Cpu => {
            let schedule = P::given(args, None, op.for_cpu(&cpu))?;
            check_memory(&op, &schedule, cpu.thread_count(), backward)?;
            let results = on_cpu(&unread.read()?, &schedule, &cpu, backward)?;
            (results, Some((schedule, Place::Cpu(cpu))))
        }
        Backend::Sim => {
            let target = args.interpreter.target();
            let schedule = P::given(args, Some(target), P::smallest(target))?;
            // Refused before data are read.
            op.interpretation(&schedule, backward)?.check(target)?;
            check_memory(&op, &schedule, 1, backward)?;
            let options = args.interpreter.options();
            let results = on_sim(&unread.read()?, &schedule, &options, backward)?;
            (results, Some((schedule, Place::Sim(args.interpreter))))
        }
        Backend::Reference => {
            // As the other backends do, though nothing is cut up.
            P::given(args, None, op.for_cpu(&cpu))?;
            (with_reference(&unread.read()?, backward)?, None)
        }
        Backend::Tpu => {
            return Err(CliError::invalid(format_args!(
                "--backend tpu is not available for {} yet, only for linear-ce; `tilecast emit` writes it for XLA",
                args.op.name()
            )));
        }
    };
    let report = Report {
        args,
        op: &op,
        results: &results,
        kernels,
    };
    tensors::write(&output, report.tensors())?;
    Ok(match args.json {
        true => json_text(&report.json()),
        false => report.line(),
    })
}

fn check_memory<P: Sourced>(
    op: &P,
    schedule: &P::Schedule,
    threads: usize,
    backward: bool,
) -> Result<(), CliError> {
    let forward = op.forward(schedule)?;
    let backward = backward.then(|| op.backward(schedule)).transpose()?;
    let programs = [Some(&forward), backward.as_ref()];
    memory::check(
        programs.into_iter().flatten(),
        threads,
        "smaller blocks or fewer threads",
    )
}

/// What was done, and how long it took.
struct Report<'a, P: Sourced> {
    args: &'a Args,
    op: &'a P,
    results: &'a Results,
    /// How the kernels were cut up and where they ran; none for the reference.
    kernels: Option<(P::Schedule, Place)>,
}

impl<P: Sourced> Report<'_, P> {
    /// The results that were asked for. A loss that is one number is a scalar.
    fn tensors(&self) -> Vec<Tensor<'_>> {
        let mut found = Vec::new();
        if self.args.schedule.pass.forward() {
            found.extend(self.results.forward.iter().map(|(name, array)| {
                let reduced = matches!(self.op.op(), LogitsOp::Grpo(op) if !op.options().per_token);
                let shape = match *name == "loss" && reduced {
                    true => &[],
                    false => array.dims(),
                };
                Tensor::of_array(name, array, shape)
            }));
        }
        let gradients = self.results.gradients.iter();
        found.extend(gradients.map(|(name, array)| Tensor::of_array(name, array, array.dims())));
        found
    }

    /// The name of what the op is for, and its mean.
    fn mean(&self) -> (&'static str, f64) {
        let name = self.op.op().differentiable()[0];
        let found = self.results.forward.iter().find(|(of, _)| *of == name);
        let values = found.map_or_else(Vec::new, |(_, array)| array.to_f32());
        let sum: f64 = values.iter().copied().map(f64::from).sum();
        (name, sum / values.len() as f64)
    }

    fn tokens_per_s(&self) -> f64 {
        let time_s = self.results.forward_s + self.results.backward_s.unwrap_or(0.0);
        self.op.op().logits().tokens() as f64 / time_s
    }

    fn line(&self) -> String {
        let logits = self.op.op().logits();
        let place = self.kernels.as_ref();
        let place = place.map_or_else(String::new, |(_, place)| place.text());
        let backward = match self.results.backward_s {
            Some(time_s) => format!(", backward {time_s:.4} s"),
            None => String::new(),
        };
        let (name, mean) = self.mean();
        let head = self.op.head();
        let hidden = head.map_or_else(String::new, |head| format!("H={} ", head.hidden()));
        format!(
            "{} on {}{place}: B={} {hidden}V={} {}: mean {name} {mean:.6}, forward {:.4} s{backward}, {:.0} tokens/s",
            self.args.op.name(),
            self.args.backend.name(),
            logits.tokens(),
            logits.vocab(),
            logits.dtype(),
            self.results.forward_s,
            self.tokens_per_s(),
        )
    }

    fn json(&self) -> serde_json::Value {
        let logits = self.op.op().logits();
        let schedule = self
            .kernels
            .as_ref()
            .map(|(schedule, _)| P::shown(schedule));
        let (blocks, strategy) = schedule.unzip();
        let [forward, backward] = [0, 1].map(|pass| blocks.map(|blocks| blocks[pass]));
        let place = self.kernels.as_ref().map(|(_, place)| place);
        let (cpu, interpreter) = (
            place.and_then(Place::cpu),
            place.and_then(Place::interpreter),
        );
        let (name, mean) = self.mean();
        let mut report = json!({
            "op": self.args.op.name(),
            "backend": self.args.backend.name(),
            "dtype": logits.dtype().name(),
            "grad_dtype": logits.grad_dtype().name(),
            "shape": { "tokens": logits.tokens(), "vocab": logits.vocab() },
            "level": cpu.map(|cpu| cpu.level().name()),
            "threads": cpu.map(Cpu::thread_count),
            "target": interpreter.map(|interpreter| interpreter.target().name),
            "seed": interpreter.and_then(|interpreter| interpreter.seed),
            "blocks": forward,
            "backward_blocks": backward,
            name: mean,
            "forward_s": self.results.forward_s,
            "backward_s": self.results.backward_s,
            "tokens_per_s": self.tokens_per_s(),
        });
        if let Some(head) = self.op.head() {
            report["shape"]["hidden"] = head.hidden().into();
            let strategy: Option<Strategy> = strategy.flatten();
            report["strategy"] = strategy.map(Strategy::name).into();
        }
        report
    }
}
