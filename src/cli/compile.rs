//! `tilecast compile`: what the real TPU compiler says about an op, a kernel or a module, without a TPU.
//!
//! Everything that needs the compiler is in `compiler`, and what it answers in `report`.

mod compiler;
mod report;

use std::path::PathBuf;

use clap::{ArgGroup, ArgMatches, Command};
use tilecast::core::target::Target;

use super::args::{Op, ProblemArgs, parse_target};
use super::given::Given;

pub(crate) use compiler::run;

/// Compile for a TPU with the real compiler (no TPU needed)
///
/// Compiles what `emit` would write for an op, one Mosaic kernel (in the pretty or the generic form, as Pallas prints
/// it with debug=True), or a StableHLO module. Says whether the compiler accepts it and how much VMEM each kernel
/// uses. The compiler is libtpu, a Python wheel for x86-64 Linux: `pip download libtpu --no-deps`, unzip it, and give
/// libtpu/libtpu.so.
///
/// The text of a kernel does not say which operands are outputs, nor how large the arrays are of which it sees windows.
/// Outputs are taken to be the operands after the last that is not written (or the last --outputs); of these, what is
/// loaded before it is stored, to be masked, is an input if others follow. Arrays are taken to be the smallest that
/// hold all windows of the grid, with prefetched scalars 0. The report shows what was taken.
#[derive(clap::Args, Debug)]
#[command(
    group(ArgGroup::new("module").args(["op", "mosaic", "stablehlo"]).required(true)),
    after_help = "Exit codes: 0 compiled; 3 out of memory; 2 the compiler refuses the module; 1 libtpu cannot be \
                  used, or takes too long.\n\n\
                  Where VMEM is short, the compiler says what is used to 0.01 MiB. The module is then compiled again with all of \
                  VMEM allowed, and if that works what it uses there is reported: used_bytes_exact is true.\n\n\
                  Examples:\n  tilecast compile linear-ce --target v5p --tokens 8192 --hidden 4096 --vocab 128256 --libtpu libtpu/libtpu.so\n  \
                  tilecast compile logits-ce --target v6e --tokens 4096 --vocab 151936 --blocks 64,4096 --libtpu libtpu/libtpu.so\n  \
                  tilecast compile --mosaic kernel.mlir --target v6e --libtpu libtpu/libtpu.so\n  \
                  tilecast compile --stablehlo loss.mlir --target v5e --libtpu libtpu/libtpu.so"
)]
pub(crate) struct Args {
    #[command(flatten)]
    given: Given,
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
    /// [default: those after the last that is not written]
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
        match &mut self.0 {
            Some(problem) => problem.update_from_arg_matches(matches),
            None => Self::from_arg_matches(matches).map(|new| *self = new),
        }
    }
}
