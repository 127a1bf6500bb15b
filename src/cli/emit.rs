//! `tilecast emit`: an op as Mosaic, or as StableHLO around it.

use std::io::Write;
use std::path::{Path, PathBuf};

use tilecast::core::target::Target;

use super::Outcome;
use super::args::{Op, ProblemArgs, parse_target};
use super::emission::{KernelText, OpEmission};
use super::error::CliError;
use super::file::Output;
use super::given::Given;
use super::output::print;

/// Write an op for the TPU compiler
///
/// As one StableHLO module with a custom call for each kernel, which XLA compiles and runs; or as the Mosaic text of
/// each kernel alone. Block sizes that are not given are chosen as `tune` would within the target's default VMEM limit,
/// leaving room for register spills.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Example:\n  tilecast emit linear-ce --target v5p --tokens 8192 --hidden 4096 --vocab 128256 \
                  --format stablehlo --output loss.mlir\n  \
                  tilecast emit grpo --target v6e --tokens 4096 --vocab 151936 --variant dapo --mask --in-place \\\n    \
                  --format stablehlo --output grpo.mlir"
)]
pub(crate) struct Args {
    #[command(flatten)]
    given: Given,
    /// What to emit
    op: Op,
    /// TPU generation: v4, v5e, v5p, v6e, v7x
    #[arg(long, value_name = "T", value_parser = parse_target)]
    target: &'static Target,
    /// StableHLO of the op, or Mosaic of each kernel
    #[arg(long, value_enum)]
    format: Format,
    /// File to write; where there are several kernels in Mosaic, each goes to a file with its name before the extension.
    /// What a kernel in Mosaic gets at run time, in its first launch and with groups of uneven sizes, goes to a file
    /// beside it, FILE.scalars.json, for `simulate --scalars`
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
    /// VMEM a kernel may use, KiB [default: what its buffers need, and room for spills]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), allow_negative_numbers = true)]
    vmem_limit_kib: Option<u32>,
    /// Have each copy of a kernel checked as it runs, in StableHLO: one beyond its array halts the TPU. A step takes up
    /// to 43 cycles longer for each window
    #[arg(long)]
    bounds_checks: bool,
    #[command(flatten)]
    problem: ProblemArgs,
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Format {
    Mosaic,
    Stablehlo,
}

pub(crate) fn run(args: &Args) -> Result<Outcome, CliError> {
    args.given.check(args.op)?;
    let output = Output::new(&args.output)?;
    let emission = OpEmission::choose(args.op, &args.problem, args.target, args.vmem_limit_kib)?;
    if let Some(reason) = &emission.misfit {
        let target = args.target.name;
        return Err(CliError::invalid(format_args!(
            "no block sizes fit {target}: {reason}; `tilecast simulate` shows why"
        )));
    }
    let files = match args.format {
        Format::Stablehlo => {
            let text = emission.stablehlo(emission.vmem_limit_bytes, args.bounds_checks)?;
            output.write(|file| file.write_all(text.as_bytes()))?;
            vec![args.output.clone()]
        }
        Format::Mosaic => write_kernels(&emission.kernels()?, &args.output)?,
    };
    let files: Vec<String> = files
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    print(format_args!(
        "{} for {}: {}; VMEM limit {} KiB; {}",
        args.op.name(),
        args.target.name,
        emission.choice(),
        emission.vmem_limit_bytes >> 10,
        files.join(", ")
    ))?;
    Ok(Outcome::Done)
}

fn write_kernels(kernels: &[KernelText], path: &Path) -> Result<Vec<PathBuf>, CliError> {
    let mut files = Vec::new();
    let mut write = |path: PathBuf, text: &str| {
        Output::new(&path)?.write(|file| file.write_all(text.as_bytes()))?;
        files.push(path);
        Ok::<_, CliError>(())
    };
    for kernel in kernels {
        let path = match kernels {
            [_] => path.to_owned(),
            _ => named(path, &kernel.name),
        };
        let mut scalars = path.clone().into_os_string();
        scalars.push(".scalars.json");
        write(path, &kernel.mosaic)?;
        if let Some(text) = &kernel.scalars {
            write(scalars.into(), text)?;
        }
    }
    Ok(files)
}

/// `loss.mlir` for kernel `k`: `loss.k.mlir`.
fn named(path: &Path, kernel: &str) -> PathBuf {
    match path.extension() {
        Some(extension) => path.with_extension(format!("{kernel}.{}", extension.to_string_lossy())),
        None => path.with_extension(kernel),
    }
}
