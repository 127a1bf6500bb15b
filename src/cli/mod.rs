//! The command line: parses, dispatches, and turns results into exit codes.
//!
//! A command is a module with `Args`, a clap struct whose `after_help` ends in an example, and
//! `run(&Args) -> Result<Outcome, CliError>`. What commands share is in `args` (options, errors)
//! and `output` (standard output); what the ops on given logits share is in `logits`, the grouped product in `gmm`, and
//! which option belongs to which op in `given`.
//!
//! | exit code | meaning |
//! |---|---|
//! | 0 | done; it fits |
//! | 1 | a failure of ours, a check that does not hold among them |
//! | 2 | the request is invalid: an option, a shape, a file |
//! | 3 | it does not fit |

mod args;
mod check;
mod compile;
mod emission;
mod emit;
mod error;
mod file;
mod given;
mod gmm;
mod inputs;
mod logits;
mod memory;
mod output;
mod random;
mod report;
mod run;
mod scalars;
mod simulate;
mod sizes;
mod solve;
mod targets;
mod tensors;
mod tpu;
mod tune;
mod validate;
mod worker;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use error::CliError;

/// Write a training kernel once; run it on the CPU, and know before you queue for a TPU whether it
/// fits and how fast it is.
#[derive(Parser, Debug)]
#[command(
    name = "tilecast",
    version,
    arg_required_else_help = true,
    after_help = "Exit codes: 0 done, it fits; 1 a failure of tilecast or of a check; 2 the request is invalid; \
                  3 it does not fit.\n\n\
                  Example:\n  tilecast tune linear-ce --target v5p --tokens 8192 --hidden 4096 --vocab 128256"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Targets(targets::Args),
    Simulate(simulate::Args),
    Tune(tune::Args),
    Emit(emit::Args),
    Compile(compile::Args),
    Run(run::Args),
    Check(check::Args),
    Validate(validate::Args),
}

/// How a command ended that did what it was asked to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// Done; everything fits.
    Done,
    /// A check does not hold.
    CheckFailed,
    /// Something does not fit a target.
    DoesNotFit,
}

impl Outcome {
    const fn exit_code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::CheckFailed => 1,
            Self::DoesNotFit => 3,
        }
    }
}

/// Runs the command that the process was started with. Usage errors exit with code 2 from within.
pub(crate) fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Targets(args) => targets::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Tune(args) => tune::run(&args),
        Command::Emit(args) => emit::run(&args),
        Command::Compile(args) => compile::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Validate(args) => validate::run(&args),
    };
    ExitCode::from(match result {
        Ok(outcome) => outcome.exit_code(),
        Err(error) => {
            report(&error);
            error.exit_code()
        }
    })
}

/// Writes the error to standard error, whose reader may be gone.
fn report(error: &CliError) {
    let _ = writeln!(std::io::stderr(), "error: {error}");
}
