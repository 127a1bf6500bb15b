//! `tilecast simulate`: what one configuration, or the text of one kernel, needs and how long it takes.

mod experts;
mod json;
mod mosaic;
mod tables;

use std::io::Write;
use std::path::PathBuf;

use clap::{ArgMatches, Args as _, Command, FromArgMatches, Id};
use tilecast::Strategy;
use tilecast::core::kernels::linear_ce::LinearCe;
use tilecast::core::target::Target;
use tilecast::sim::op::{OpReport, PassReport, Request, SimError};
use tilecast::sim::plan::ForwardPlan;
use tilecast::sim::problem::{PassBlocks, Problem, Unfused};
use tilecast::sim::trace::{Process, chrome};
use tilecast::sim::tune::{Row, Space, best, nearest_fit};
use tilecast::sim::{Verdict, bytes_text};

use super::Outcome;
use super::args::{Op, ProblemArgs, parse_target};
use super::error::CliError;
use super::file::Output;
use super::given::Given;
use super::output::{print, print_json};
use super::report::{
    assumptions, blocks_text, bytes_of, count_text, headline, outcome, print_assumptions, request,
    row_text, space, strategies, time_text,
};
use super::sizes::OfSizes;
use tables::Shown;

/// Grid steps at each end of a kernel that a trace shows.
const TRACED_STEPS: u64 = 16;

/// Say what an op or a kernel needs on a TPU and how long it takes, without one
///
/// VMEM of every kernel, register spills included, and HBM of the op, against what the target has; the time each unit
/// alone would take, and a range for the whole. What is not given is chosen as `tune` would. Or, with --mosaic, the
/// same for one kernel, whoever wrote it: the text that `pallas_call(debug=True)` prints. Exit code 3: it does not fit;
/// 2: the kernel has an operation that the model does not know.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  tilecast simulate linear-ce --target v5p --tokens 8192 --config config.json\n  \
                  tilecast simulate linear-ce --target v4 --tokens 65536 --hidden 512 --vocab 128256 --blocks 1024,512,1024\n  \
                  tilecast simulate gmm --target v6e --chips 8 --tokens 65536 --experts 64 --hidden 2048 --out-features 1408\n  \
                  tilecast simulate --mosaic kernel.mlir --target v5e --trace kernel.json"
)]
pub(crate) struct Args {
    #[command(flatten)]
    given: Given,
    /// What to simulate
    #[arg(conflicts_with = "mosaic")]
    op: Option<Op>,
    /// Simulate the kernel in FILE instead: a Mosaic module as text, in any of its forms
    #[arg(long, value_name = "FILE")]
    mosaic: Option<PathBuf>,
    /// What the kernel of --mosaic gets at run time, JSON: steps along the axes that are known only then, and the
    /// elements of each prefetched scalar: {"bounds": [4], "prefetched": [[0, 1], null]} [default: 1 and 0, and the
    /// report says so]
    #[arg(long, value_name = "FILE", requires = "mosaic")]
    scalars: Option<PathBuf>,
    /// Write what each kernel does over time, its first and last grid steps, as a trace for ui.perfetto.dev or
    /// chrome://tracing; replaced as a whole, or not touched on an error
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// TPU generation: v4, v5e, v5p, v6e, v7x
    #[arg(long, value_name = "T", value_parser = parse_target)]
    target: &'static Target,
    /// VMEM a kernel may use, KiB [default: the compiler's limit for the target]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), allow_negative_numbers = true)]
    vmem_limit_kib: Option<u32>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    problem: OptionalProblem,
}

/// The problem of an op; none with `--mosaic`, which takes none of its options. (clap's derive leaves out
/// optional groups that hold groups.)
#[derive(Debug)]
struct OptionalProblem(Option<ProblemArgs>);

impl OptionalProblem {
    fn augment(command: Command) -> Command {
        let all = ProblemArgs::augment_args(Command::new("problem"));
        let ids: Vec<Id> = all
            .get_arguments()
            .map(|arg| arg.get_id().clone())
            .collect();
        let command = ProblemArgs::augment_args(command);
        let command = ids.into_iter().fold(command, |command, id| {
            command.mut_arg(id, |arg| arg.conflicts_with("mosaic"))
        });
        command.mut_arg("tokens", |arg| arg.required(false))
    }
}

impl clap::Args for OptionalProblem {
    fn augment_args(command: Command) -> Command {
        Self::augment(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment(command)
    }
}

impl FromArgMatches for OptionalProblem {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let is_given = matches.contains_id("tokens");
        let problem = is_given.then(|| ProblemArgs::from_arg_matches(matches));
        Ok(Self(problem.transpose()?))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

pub(crate) fn run(args: &Args) -> Result<Outcome, CliError> {
    let trace = args.trace.as_deref().map(Output::new).transpose()?;
    if let Some(path) = &args.mosaic {
        let limit_bytes = bytes_of(args.vmem_limit_kib);
        let scalars = args.scalars.as_deref();
        let simulation = mosaic::Simulation::new(path, scalars, args.target, limit_bytes)?;
        write_trace(trace.as_ref(), args.target, || simulation.trace())?;
        match args.json {
            true => print_json(&simulation.document())?,
            false => simulation.print()?,
        }
        return Ok(outcome(simulation.report.verdict));
    }
    let op = (args.op).ok_or_else(|| {
        CliError::invalid(
            "nothing to simulate: give an op and its shape, or a kernel with --mosaic FILE",
        )
    })?;
    let Some(problem) = &args.problem.0 else {
        return Err(CliError::invalid(format_args!(
            "{} needs a shape: give --tokens",
            op.name()
        )));
    };
    args.given.check(op)?;
    match op {
        Op::LinearCe => run_on(op, problem.problem()?, problem, args, trace.as_ref()),
        Op::LinearGrpo | Op::LinearEntropy => {
            run_on(op, problem.linear(op)?, problem, args, trace.as_ref())
        }
        Op::LogitsCe | Op::Grpo | Op::Entropy => {
            run_on(op, problem.on_logits(op)?, problem, args, trace.as_ref())
        }
        Op::Gmm => {
            let simulation = experts::Simulation::new(problem, args)?;
            write_trace(trace.as_ref(), args.target, || simulation.trace())?;
            match args.json {
                true => print_json(&simulation.document())?,
                false => simulation.print()?,
            }
            Ok(outcome(simulation.verdict()))
        }
    }
}

/// Writes what kernels do over time, if that is asked for.
fn write_trace(
    trace: Option<&Output>,
    target: &Target,
    processes: impl FnOnce() -> Result<Vec<Process>, CliError>,
) -> Result<(), CliError> {
    let Some(file) = trace else { return Ok(()) };
    let text = chrome(&processes()?, target.clock_hz.value);
    file.write(|to| to.write_all(text.as_bytes()))
}

/// Runs with `problem`, which the options `given` describe.
fn run_on<P: Problem<Blocks: OfSizes>>(
    op: Op,
    problem: P,
    given: &ProblemArgs,
    args: &Args,
    trace: Option<&Output>,
) -> Result<Outcome, CliError> {
    let request = request(problem, given, args.target, args.vmem_limit_kib)?;
    let space = space(&given.schedule, &request)?;
    let best = best(&request, &space, 1, || ()).map_err(CliError::invalid)?;
    let row = (best.rows)
        .first()
        .ok_or_else(|| CliError::failure("no pass is asked for"))?;
    let strategies = strategies(&given.schedule, request.kernel_structure());
    let simulation = Simulation::new(op, &request, row, &strategies)?;
    write_trace(trace, args.target, || simulation.trace())?;
    match args.json {
        true => print_json(&simulation.document())?,
        false => simulation.print()?,
    }
    Ok(outcome(row.report.verdict))
}

/// A configuration and everything that is known about it.
struct Simulation<'a, P: Problem = LinearCe> {
    op: Op,
    request: &'a Request<P>,
    row: &'a Row<P::Blocks>,
    passes: Vec<(&'static str, PassReport<P::Kernel>)>,
    /// With the gradient in the other of two places: what that is called, and HBM in bytes.
    other_place: Option<(&'static str, u64)>,
    hint: Option<String>,
}

impl<'a, P: Problem> Simulation<'a, P> {
    /// `strategies` are those that other blocks may have.
    fn new(
        op: Op,
        request: &'a Request<P>,
        row: &'a Row<P::Blocks>,
        strategies: &[Strategy],
    ) -> Result<Self, CliError> {
        let mut passes = Vec::new();
        if let Some(plan) = row.forward {
            let report = request.forward(plan).map_err(CliError::invalid)?;
            passes.push(("forward", report));
        }
        if let Some(plan) = row.backward {
            let report = request.backward(plan).map_err(CliError::invalid)?;
            passes.push(("backward", report));
        }
        let hint = match row.report.verdict {
            Verdict::VmemOom => hint(request, row, strategies)?,
            _ => None,
        };
        Ok(Self {
            op,
            request,
            row,
            other_place: other_place(request, row)?,
            passes,
            hint,
        })
    }

    /// Kernels with their pass and blocks.
    fn kernels(&self) -> Vec<Shown<'_>> {
        let mut kernels = Vec::new();
        for (pass, report) in &self.passes {
            let blocks = |number: usize| match *pass {
                "forward" => self.row.forward.map(|plan| plan.blocks),
                _ => self.row.backward.map(|plan| plan.blocks_of(number)),
            };
            let numbered = report.kernels.iter().enumerate();
            kernels.extend(numbered.map(|(number, kernel)| Shown {
                pass: Some(pass),
                blocks: blocks(number).map(|blocks| blocks.sizes().into()),
                kernel,
            }));
        }
        kernels
    }

    /// What each kernel does over time; those of a chunk once.
    fn trace(&self) -> Result<Vec<Process>, CliError> {
        let mut processes = Vec::new();
        for (_, pass) in &self.passes {
            let traced = self.request.trace(pass, TRACED_STEPS);
            processes.extend(traced.map_err(CliError::invalid)?);
        }
        Ok(processes)
    }

    /// What the kernels were taken to do, and what the target.
    fn assumptions(&self) -> Vec<String> {
        let mut lines = tables::assumptions(&self.kernels());
        lines.extend(assumptions(self.request));
        lines
    }

    fn report(&self) -> &OpReport {
        &self.row.report
    }

    /// The answer, and why it is not `fits`.
    fn answer(&self) -> String {
        let report = self.report();
        let mut lines = vec![
            format!(
                "{}: {}",
                headline(self.op, self.request),
                report.verdict.name()
            ),
            row_text(self.row),
        ];
        if let Some(total) = report.total {
            let [low, high] = total.time_range_s;
            lines.push(format!(
                "{} ({} to {}), {} tokens/s, bound by {}",
                time_text(total.time_s),
                time_text(low),
                time_text(high),
                count_text(total.tokens_per_s),
                self.row.bounds.binding().0
            ));
        }
        let kernels = self.kernels();
        let of_kernels = kernels
            .iter()
            .filter_map(|Shown { kernel, .. }| kernel.reason.as_ref().map(|_| kernel.why_not()));
        lines.extend(of_kernels);
        if report.verdict == Verdict::HbmOom {
            lines.extend(report.reason.clone());
        }
        lines.extend(self.hint.clone());
        lines.push(tables::tightest(&kernels));
        lines.join("\n") + "\n"
    }

    fn print(&self) -> Result<(), CliError> {
        print(self.answer())?;
        let fits = self.report().total.is_some();
        let arrays = self
            .passes
            .iter()
            .filter(|(_, pass)| fits && pass.array_bytes > 0);
        let arrays = arrays.map(|(pass, report)| (*pass, report.array_s));
        tables::print_kernels(&self.kernels(), arrays)?;
        self.print_hbm()?;
        print_assumptions(&self.assumptions())
    }

    fn print_hbm(&self) -> Result<(), CliError> {
        tables::print_hbm(&self.report().hbm)?;
        if let Some((name, used_bytes)) = self.other_place {
            let used = bytes_text(used_bytes as f64);
            print(format_args!("{name}: {used}"))?;
        }
        let unfused = self.unfused();
        print(format_args!(
            "Without fusion, {}: {}, of which {}{}",
            unfused.assumption,
            bytes_text(unfused.used_bytes() as f64),
            (unfused.terms.iter())
                .filter(|(name, _)| name.ends_with(", f32"))
                .map(|(name, bytes)| format!("{name} {}", bytes_text(*bytes as f64)))
                .collect::<Vec<_>>()
                .join("; "),
            match self.unfused_s() {
                Some(seconds) => format!("; {} at the rate of HBM", time_text(seconds)),
                None => String::new(),
            }
        ))
    }

    fn unfused(&self) -> Unfused {
        self.request.unfused(self.row.backward.is_some())
    }

    /// Time of that if nothing but memory takes any.
    fn unfused_s(&self) -> Option<f64> {
        let bytes = self.unfused().traffic_bytes?;
        Some(bytes as f64 / self.request.target().hbm_bytes_per_s.value)
    }
}

/// HBM with the gradient in the other of two places, where there are two.
fn other_place<P: Problem>(
    request: &Request<P>,
    row: &Row<P::Blocks>,
) -> Result<Option<(&'static str, u64)>, SimError> {
    let (Some((name, request)), Some(plan)) = (request.other_place(), row.backward) else {
        return Ok(None);
    };
    let backward = request.backward(plan)?;
    let forward = row.forward.map(|plan| request.forward(plan));
    let forward = forward.transpose()?;
    let passes: Vec<_> = forward.iter().chain([&backward]).collect();
    Ok(Some((name, request.total(&passes)?.hbm.used_bytes)))
}

/// For blocks that need too much VMEM, the nearest that do not.
fn hint<P: Problem>(
    request: &Request<P>,
    row: &Row<P::Blocks>,
    strategies: &[Strategy],
) -> Result<Option<String>, SimError> {
    let mut hints = Vec::new();
    if let Some(plan) = row.forward
        && request.forward(plan)?.verdict == Verdict::VmemOom
    {
        let nearest = nearest_fit(request, plan.blocks, |blocks| {
            request.forward(ForwardPlan { blocks, ..plan })
        })?;
        hints.extend(nearest.map(|blocks| format!("--blocks {}", blocks_text(blocks))));
    }
    if let Some(plan) = row.backward
        && request.backward(plan)?.verdict == Verdict::VmemOom
    {
        let nearest = nearest_fit(request, plan.blocks, |blocks| {
            let space = Space::new(request, [false, true], [None, Some(blocks)], strategies);
            let mut last = Err(SimError::NothingToTry);
            for &plan in &space.backward {
                last = request.backward(plan);
                if matches!(&last, Ok(pass) if pass.verdict == Verdict::Fits) {
                    break;
                }
            }
            last
        })?;
        hints.extend(nearest.map(|blocks| format!("--backward-blocks {}", blocks_text(blocks))));
    }
    let fits = match hints.len() {
        0 => return Ok(None),
        1 => "fits",
        _ => "fit",
    };
    Ok(Some(format!("nearest that {fits}: {}", hints.join(" "))))
}

#[cfg(test)]
mod tests;
