//! `tilecast compile`: what the real TPU compiler says about an op, a kernel or a module, without a TPU.
//!
//! Everything that needs the compiler is in `compiler`, which exists with the feature `pjrt`, and runs in a
//! [worker](super::worker).

#[cfg(feature = "pjrt")]
mod compiler;

use std::path::PathBuf;

use clap::{ArgGroup, ArgMatches, Command};
use serde::{Deserialize, Serialize};
use tilecast::core::target::Target;

use super::Outcome;
use super::args::{CliError, Op, ProblemArgs, parse_target};
use super::emission::ProductsArg;
use super::output::{number, print, print_json, table};
use super::worker::Ended;

/// Compile for a TPU with the real compiler (no TPU needed)
///
/// Compiles what `emit` would write for an op, one Mosaic kernel (in the pretty or the generic form, as Pallas prints
/// it with debug=True), or a StableHLO module. Says whether the compiler accepts it and how much VMEM each kernel
/// uses. The compiler is libtpu, a Python wheel for x86-64 Linux: `pip download libtpu --no-deps`, unzip it, and give
/// libtpu/libtpu.so.
///
/// The text of a kernel does not say which operands are outputs, nor how large the arrays are of which it sees windows.
/// Outputs are taken to be the operands from the first that is written (or the last --outputs), arrays the smallest
/// that hold all windows of the grid, with prefetched scalars 0. The report shows what was taken.
#[derive(clap::Args, Debug)]
#[command(
    group(ArgGroup::new("module").args(["op", "mosaic", "stablehlo"]).required(true)),
    after_help = "Exit codes: 0 compiled; 3 out of memory; 2 the compiler refuses the module; 1 libtpu cannot be \
                  used, or takes too long.\n\n\
                  Where VMEM is short, the compiler says what is used to 0.01 MiB. The module is then compiled again with all of \
                  VMEM allowed, and if that works what it uses there is reported: used_bytes_exact is true.\n\n\
                  Examples:\n  tilecast compile linear-ce --target v5p --tokens 8192 --hidden 4096 --vocab 128256 --libtpu libtpu/libtpu.so\n  \
                  tilecast compile --mosaic kernel.mlir --target v6e --libtpu libtpu/libtpu.so\n  \
                  tilecast compile --stablehlo loss.mlir --target v5e --libtpu libtpu/libtpu.so"
)]
pub(crate) struct Args {
    /// What to compile
    op: Option<Op>,
    /// A Mosaic kernel as text
    #[arg(long, value_name = "FILE")]
    mosaic: Option<PathBuf>,
    /// A StableHLO module, as text or as MLIR bytecode
    #[arg(long, value_name = "FILE")]
    stablehlo: Option<PathBuf>,
    /// TPU generation: v4, v5e, v5p, v6e, v7x
    #[arg(long, value_name = "T", value_parser = parse_target)]
    target: &'static Target,
    /// The compiler: libtpu.so
    #[arg(long, value_name = "FILE")]
    libtpu: PathBuf,
    /// VMEM that a kernel may use, KiB; a kernel's own limit in a StableHLO module comes first
    /// [default: as emit for an op, else that of the target]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), allow_negative_numbers = true)]
    vmem_limit_kib: Option<u32>,
    /// The last N operands of the Mosaic kernel before its scratch are outputs
    /// [default: those from the first that is written]
    #[arg(
        long,
        value_name = "N",
        conflicts_with_all = ["op", "stablehlo"],
        allow_negative_numbers = true
    )]
    outputs: Option<usize>,
    /// Stop the compiler after so long
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u32).range(1..), allow_negative_numbers = true)]
    timeout: u32,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Products of f32 inputs
    #[arg(long, value_enum, default_value_t = ProductsArg::Exact, help_heading = "Schedule", conflicts_with_all = FILES)]
    f32_products: ProductsArg,
    #[command(flatten)]
    problem: OfAnOp,
}

/// The problem, if the module is not in a file, which has its shape, loss and schedule.
#[derive(Clone, Debug)]
struct OfAnOp(Option<ProblemArgs>);

const FILES: [&str; 2] = ["mosaic", "stablehlo"];

impl clap::Args for OfAnOp {
    fn augment_args(command: Command) -> Command {
        ProblemArgs::augment_args(command)
            .mut_args(|arg| match arg.get_help_heading() {
                Some(_) => arg.conflicts_with_all(FILES),
                None => arg,
            })
            .mut_arg("tokens", |arg| {
                arg.required(false).required_unless_present_any(FILES)
            })
            .mut_args(|arg| match arg.get_id().as_str() {
                "hidden" | "vocab" => {
                    arg.required_unless_present_any(["config", "mosaic", "stablehlo"])
                }
                _ => arg,
            })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for OfAnOp {
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
    let (report, in_time) = match compile(args)? {
        Ended::Answered(report) => (report, true),
        Ended::TimedOut(Some(report)) => (report, true),
        Ended::TimedOut(None) => (Report::timed_out(args), false),
    };
    match args.json {
        true => print_json(&serde_json::to_value(&report).map_err(CliError::failure)?)?,
        false => report.print()?,
    }
    let message = report.message.as_deref().unwrap_or("it does not say why");
    match report.status {
        Status::Ok => Ok(Outcome::Done),
        Status::VmemOom | Status::HbmOom => Ok(Outcome::DoesNotFit),
        Status::Error if in_time => Err(CliError::invalid(format_args!(
            "the TPU compiler refuses the module: {message}"
        ))),
        Status::Error => Err(CliError::failure(message)),
    }
}

#[cfg(feature = "pjrt")]
fn compile(args: &Args) -> Result<Ended<Report>, CliError> {
    let environment = &tilecast::tpu::pjrt::ENVIRONMENT;
    super::worker::in_worker(environment, args.timeout, |so_far| {
        compiler::report(args, so_far)
    })
}

#[cfg(not(feature = "pjrt"))]
fn compile(_: &Args) -> Result<Ended<Report>, CliError> {
    Err(super::tpu::not_built_in())
}

/// What the compiler says.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
struct Report {
    /// `null` for a file, as are blocks and strategy.
    op: Option<String>,
    target: String,
    status: Status,
    /// Of the kernel that uses most; where memory is short, of what it is short for.
    used_bytes: Option<u64>,
    /// Whether `used_bytes` is exact, and not what a message has rounded.
    used_bytes_exact: Option<bool>,
    /// For the same kernel.
    limit_bytes: Option<u64>,
    /// Time of the compiler, of the first attempt if there were two; loading it is not included.
    seconds: f64,
    message: Option<String>,
    blocks: Option<BlockSizes>,
    backward_blocks: Option<BlockSizes>,
    strategy: Option<String>,
    /// Arrays that were taken for those of a Mosaic kernel.
    arrays: Option<Arrays>,
    kernels: Vec<KernelReport>,
    code_bytes: Option<u64>,
    /// Main memory.
    hbm: Option<HbmReport>,
}

#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Debug)]
#[serde(rename_all = "snake_case")]
enum Status {
    Ok,
    VmemOom,
    HbmOom,
    Error,
}

#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Debug)]
struct BlockSizes {
    b: usize,
    h: usize,
    v: usize,
}

/// Types as StableHLO writes them.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
struct Arrays {
    inputs: Vec<String>,
    outputs: Vec<String>,
}

#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
struct KernelReport {
    name: String,
    used_bytes: Option<u64>,
    limit_bytes: u64,
}

#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
struct HbmReport {
    argument_bytes: u64,
    output_bytes: u64,
    aliased_bytes: u64,
    temporary_bytes: u64,
}

impl Report {
    /// Without an answer of the compiler.
    fn new(args: &Args, status: Status) -> Self {
        Self {
            op: args.op.map(|op| op.name().into()),
            target: args.target.name.into(),
            status,
            used_bytes: None,
            used_bytes_exact: None,
            limit_bytes: None,
            seconds: 0.0,
            message: None,
            blocks: None,
            backward_blocks: None,
            strategy: None,
            arrays: None,
            kernels: Vec::new(),
            code_bytes: None,
            hbm: None,
        }
    }

    fn timed_out(args: &Args) -> Self {
        let timeout = args.timeout;
        Self {
            seconds: timeout.into(),
            message: Some(format!(
                "the TPU compiler had no answer after {timeout} s and was stopped; --timeout gives it longer"
            )),
            ..Self::new(args, Status::Error)
        }
    }

    fn print(&self) -> Result<(), CliError> {
        let Self {
            target, seconds, ..
        } = self;
        if self.status == Status::Error {
            // The error says it all.
            return Ok(());
        }
        self.print_what()?;
        if self.status != Status::Ok {
            let message = self.message.as_deref().unwrap_or_default();
            return print(format_args!("does not fit {target}: {message}"));
        }
        if self.kernels.is_empty() {
            print("there is no TPU kernel in the module")?;
        } else {
            let mut table = table(["kernel", "VMEM used, bytes", "limit, bytes"]);
            for kernel in &self.kernels {
                let used = kernel.used_bytes.map(|bytes| bytes.to_string());
                table.add_row([
                    kernel.name.as_str().into(),
                    number(used.as_deref().unwrap_or("unknown")),
                    number(kernel.limit_bytes),
                ]);
            }
            print(table)?;
        }
        print(format_args!("compiled for {target} in {seconds:.2} s"))
    }

    /// What was chosen or taken for granted.
    fn print_what(&self) -> Result<(), CliError> {
        if let Some(op) = &self.op {
            let shown = |blocks: BlockSizes| format!("{},{},{}", blocks.b, blocks.h, blocks.v);
            let mut parts = Vec::new();
            parts.extend(
                self.blocks
                    .map(|blocks| format!("forward {}", shown(blocks))),
            );
            let strategy = self.strategy.as_deref().unwrap_or_default();
            let backward = self.backward_blocks.map(shown);
            parts.extend(backward.map(|blocks| format!("backward {blocks} {strategy}")));
            print(format_args!(
                "{op} for {}: {}",
                self.target,
                parts.join(", ")
            ))?;
        }
        if let Some(arrays) = &self.arrays {
            print(format_args!("reads {}", arrays.inputs.join(", ")))?;
            print(format_args!("writes {}", arrays.outputs.join(", ")))?;
        }
        Ok(())
    }
}
