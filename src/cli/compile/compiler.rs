//! Asks libtpu, in a process of its own.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Instant;

use tilecast::tpu::mosaic::Module;
use tilecast::tpu::pjrt::{
    CompileOptions, ENVIRONMENT, Executable, Kernel, OutOfMemory, PjrtError, Plugin, Topology,
};
use tilecast::tpu::stablehlo::wrap;

use super::Args;
use super::report::{Arrays, HbmReport, KernelReport, Report, Status};
use crate::cli::Outcome;
use crate::cli::emission::OpEmission;
use crate::cli::error::CliError;
use crate::cli::output::print_json;
use crate::cli::report::bytes_of;
use crate::cli::tpu::cannot_load;
use crate::cli::worker::{Ended, in_worker};

pub(crate) fn run(args: &Args) -> Result<Outcome, CliError> {
    let (report, in_time) =
        match in_worker(&ENVIRONMENT, args.timeout, |so_far| report(args, so_far))? {
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

/// The compiler's answer; `so_far` takes one that is not exact yet.
///
/// # Errors
/// There is no module to compile, or no compiler; a refusal is a report.
fn report(args: &Args, so_far: &dyn Fn(Report)) -> Result<Report, CliError> {
    let source = Source::new(args)?;
    let plugin = Plugin::load(&args.libtpu).map_err(|error| cannot_load(&error))?;
    let failed = |error: PjrtError| CliError::Failure(error.summary());
    let topology = plugin.topology_of(args.target.generation).map_err(failed)?;
    Job {
        args,
        source: &source,
        topology: &topology,
        blank: source.describe(Report::new(args, Status::Ok)),
    }
    .report(so_far)
}

/// What is compiled.
enum Source {
    /// As it is in a file.
    StableHlo(Vec<u8>),
    /// A kernel, wrapped, and the arrays it was given.
    Mosaic(String, Arrays),
    /// An op.
    Op(Box<OpEmission>),
}

impl Source {
    fn new(args: &Args) -> Result<Self, CliError> {
        if let Some(path) = &args.stablehlo {
            return read(path, "a StableHLO module").map(Self::StableHlo);
        }
        if let Some(path) = &args.mosaic {
            return Self::kernel(path, args.outputs);
        }
        let (Some(problem), Some(op)) = (&args.problem.0, args.op) else {
            return Err(CliError::invalid(
                "give an op with its shape, --mosaic or --stablehlo",
            ));
        };
        args.given.check(op)?;
        let emission = OpEmission::choose(op, problem, args.target, args.vmem_limit_kib)?;
        Ok(Self::Op(Box::new(emission)))
    }

    fn kernel(path: &Path, outputs: Option<usize>) -> Result<Self, CliError> {
        let shown = path.display();
        let wrong =
            |what: &dyn std::fmt::Display| CliError::invalid(format_args!("{shown}: {what}"));
        let text = String::from_utf8(read(path, "the text of a Mosaic module")?)
            .map_err(|_| wrong(&"not UTF-8; give the text of a Mosaic module, not its bytecode"))?;
        let module = Module::parse(&text).map_err(|error| wrong(&error))?;
        let (text, signature) = wrap(&module, outputs).map_err(|error| match outputs {
            None => wrong(&format_args!("{error} (--outputs N sets their number)")),
            Some(_) => wrong(&error),
        })?;
        let shown = |arrays: &[tilecast::tpu::mosaic::signature::ArrayType]| {
            arrays.iter().map(ToString::to_string).collect()
        };
        let arrays = Arrays {
            inputs: shown(&signature.inputs),
            outputs: shown(&signature.outputs),
        };
        Ok(Self::Mosaic(text, arrays))
    }

    /// The module, in which kernels of ours may use `vmem_limit_bytes`, or what was chosen for them.
    fn stablehlo(&self, vmem_limit_bytes: Option<u64>) -> Result<Vec<u8>, CliError> {
        Ok(match self {
            Self::StableHlo(module) => module.clone(),
            Self::Mosaic(text, _) => text.clone().into_bytes(),
            Self::Op(emission) => {
                let limit = vmem_limit_bytes.unwrap_or(emission.vmem_limit_bytes);
                emission.stablehlo(limit, false)?.into_bytes()
            }
        })
    }

    /// Adds what was chosen or taken for granted.
    fn describe(&self, report: Report) -> Report {
        match self {
            Self::StableHlo(_) => report,
            Self::Mosaic(_, arrays) => Report {
                arrays: Some(arrays.clone()),
                ..report
            },
            Self::Op(emission) => Report {
                blocks: emission.blocks,
                x_form: emission.x.name().into(),
                backward_blocks: emission.backward_blocks,
                dx_blocks: emission.own_blocks.products[0],
                dw_blocks: emission.own_blocks.products[1],
                delta_columns: emission.own_blocks.delta_columns,
                rounds_w: emission.rounds_w,
                strategy: emission.strategy.map(Into::into),
                ..report
            },
        }
    }

    /// The limit in force for a kernel that has none of its own and none in the options.
    fn own_limit_bytes(&self) -> Option<u64> {
        match self {
            Self::Op(emission) => Some(emission.vmem_limit_bytes),
            _ => None,
        }
    }
}

fn read(path: &Path, what: &str) -> Result<Vec<u8>, CliError> {
    /// Real ones have a few MiB at most; weights are arguments.
    const LIMIT_BYTES: u64 = 256 << 20;
    let shown = path.display();
    let mut module = Vec::new();
    File::open(path)
        .and_then(|file| file.take(LIMIT_BYTES + 1).read_to_end(&mut module))
        .map_err(|error| CliError::invalid(format_args!("cannot read {shown}: {error}")))?;
    match module.len() as u64 {
        0 => Err(CliError::invalid(format_args!(
            "{shown} is empty; give {what}"
        ))),
        1..=LIMIT_BYTES => Ok(module),
        _ => Err(CliError::invalid(format_args!(
            "{shown} has more than {LIMIT_BYTES} bytes; give {what}"
        ))),
    }
}

struct Job<'a> {
    args: &'a Args,
    source: &'a Source,
    topology: &'a Topology,
    /// A report to fill in.
    blank: Report,
}

impl Job<'_> {
    fn report(&self, so_far: &dyn Fn(Report)) -> Result<Report, CliError> {
        let module = self.source.stablehlo(None)?;
        let started = Instant::now();
        let result = self.compile(&module, self.args.vmem_limit_kib);
        let seconds = started.elapsed().as_secs_f64();
        let failed = |error: PjrtError| CliError::Failure(error.summary());
        match result {
            Ok(executable) => self.accepted(&executable, seconds).map_err(failed),
            Err(error @ PjrtError::Call { .. }) => self.refused(&error, seconds, so_far),
            Err(error) => Err(failed(error)),
        }
    }

    fn compile(&self, module: &[u8], vmem_limit_kib: Option<u32>) -> Result<Executable, PjrtError> {
        let options = CompileOptions {
            vmem_limit_kib,
            ..CompileOptions::default()
        };
        self.topology.compile(module, &options)
    }

    fn accepted(&self, executable: &Executable, seconds: f64) -> Result<Report, PjrtError> {
        let report = |kernel: Kernel| KernelReport {
            name: kernel.name,
            used_bytes: kernel.used_bytes,
            limit_bytes: self.vmem_limit_bytes(kernel.limit_bytes),
        };
        let kernels: Vec<_> = executable.kernels()?.into_iter().map(report).collect();
        let largest = kernels.iter().max_by_key(|kernel| kernel.used_bytes);
        let used_bytes = largest.and_then(|kernel| kernel.used_bytes);
        let stats = match executable.memory_stats() {
            Err(PjrtError::Missing { .. }) => None,
            stats => Some(stats?),
        };
        Ok(Report {
            status: Status::Ok,
            used_bytes,
            used_bytes_exact: used_bytes.map(|_| true),
            limit_bytes: largest.map(|kernel| kernel.limit_bytes),
            seconds,
            code_bytes: Some(executable.generated_code_bytes()?),
            hbm: stats.map(|stats| HbmReport {
                argument_bytes: stats.argument_bytes,
                output_bytes: stats.output_bytes,
                aliased_bytes: stats.aliased_bytes,
                temporary_bytes: stats.temporary_bytes,
            }),
            kernels,
            ..self.blank.clone()
        })
    }

    /// The limit that is in force: a kernel's own, or that of the options or the target. One above what
    /// there is acts as what there is.
    fn vmem_limit_bytes(&self, own: Option<u64>) -> u64 {
        let given = bytes_of(self.args.vmem_limit_kib);
        let default = self.args.target.default_vmem_limit_bytes.value;
        let limit = own.or(given).unwrap_or(default);
        limit.min(self.usable_bytes())
    }

    fn usable_bytes(&self) -> u64 {
        self.args.target.vmem_usable_bytes.value
    }

    fn refused(
        &self,
        error: &PjrtError,
        seconds: f64,
        so_far: &dyn Fn(Report),
    ) -> Result<Report, CliError> {
        let Some(memory) = error.out_of_memory() else {
            return Ok(Report {
                status: Status::Error,
                seconds,
                message: Some(error.summary()),
                ..self.blank.clone()
            });
        };
        let vmem = memory.space == "vmem";
        let mut memory = match vmem {
            true => memory.with_limit(self.vmem_limit_bytes(self.source.own_limit_bytes())),
            false => memory,
        };
        let status = match memory.space.as_str() {
            "vmem" => Status::VmemOom,
            "hbm" => Status::HbmOom,
            _ => Status::Error,
        };
        let report = Report {
            status,
            used_bytes: Some(memory.used_bytes),
            used_bytes_exact: Some(false),
            limit_bytes: Some(memory.limit_bytes),
            seconds,
            message: Some(memory.to_string()),
            ..self.blank.clone()
        };
        if !vmem || memory.limit_bytes >= self.usable_bytes() {
            return Ok(report);
        }
        so_far(report.clone());
        let Some(used_bytes) = self.used_with_all_allowed(&memory)? else {
            return Ok(report);
        };
        memory.used_bytes = used_bytes;
        Ok(Report {
            used_bytes: Some(used_bytes),
            used_bytes_exact: Some(true),
            message: Some(memory.to_string()),
            ..report
        })
    }

    /// What the kernel that does not fit uses where all of VMEM is allowed, if it fits there.
    fn used_with_all_allowed(&self, memory: &OutOfMemory) -> Result<Option<u64>, CliError> {
        let usable = self.usable_bytes();
        let module = self.source.stablehlo(Some(usable))?;
        let usable_kib = u32::try_from(usable >> 10).map_err(CliError::failure)?;
        let kernels = self
            .compile(&module, Some(usable_kib))
            .and_then(|executable| executable.kernels());
        let kernels = kernels.unwrap_or_default();
        // The name is the same unless a module has several kernels of one name.
        let same = |kernel: &&Kernel| Some(&kernel.name) == memory.kernel.as_ref();
        let found = kernels.iter().find(same).or(match &kernels[..] {
            [one] => Some(one),
            _ => None,
        });
        // It must be short of memory by this number too.
        Ok(found
            .and_then(|kernel| kernel.used_bytes)
            .filter(|used| *used > memory.limit_bytes))
    }
}
