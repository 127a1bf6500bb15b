//! The `tilecast` command; `tilecast --help` says what it can do.
#![forbid(unsafe_code)]

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
