//! `tilecast compile`: what the real TPU compiler says about a module, without a TPU.
//!
//! libtpu takes its settings from the environment, writes a log to standard error, and ends the
//! process on an internal error. So the command starts itself again as a worker, with the environment
//! prepared, and reads the worker's [`Answer`] from its standard output; whatever else the worker
//! writes is looked at only if it ends without an answer.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde::{Deserialize, Serialize};
use tilecast::core::target::Target;

use super::Outcome;
use super::args::{CliError, parse_target};
use super::output::{number, print, print_json, table};

/// Compile a module with the real TPU compiler (no TPU needed)
///
/// Says whether the compiler accepts it and how much VMEM each kernel uses. The compiler is libtpu, a
/// Python wheel for x86-64 Linux: `pip download libtpu --no-deps`, unzip it, and give libtpu/libtpu.so.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Exit codes: 0 compiled; 3 out of memory; 2 the compiler refuses the module; 1 libtpu cannot be \
                  used.\n\n\
                  Example:\n  tilecast compile --stablehlo kernel.stablehlo --target v5e --libtpu libtpu/libtpu.so"
)]
pub(crate) struct Args {
    /// The module: StableHLO, as text or as MLIR bytecode
    #[arg(long, value_name = "FILE")]
    stablehlo: PathBuf,
    /// TPU generation
    #[arg(long, value_name = "T", value_parser = parse_target)]
    target: &'static Target,
    /// The compiler: libtpu.so
    #[arg(long, value_name = "FILE")]
    libtpu: PathBuf,
    /// VMEM that a kernel may use unless it sets its own limit [default: that of the target]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    vmem_limit_kib: Option<u32>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Compile in this process and print the answer for the one that started it
    #[arg(long, hide = true)]
    worker: bool,
}

pub(crate) fn run(args: &Args) -> Result<Outcome, CliError> {
    if args.worker {
        let answer = compiler::answer(args);
        print(serde_json::to_string(&answer).map_err(CliError::failure)?)?;
        return Ok(Outcome::Done);
    }
    let answer = match cfg!(feature = "pjrt") {
        true => ask_worker(args)?,
        false => compiler::answer(args),
    };
    let report = match answer {
        Answer::Report(report) => report,
        Answer::Invalid(message) => return Err(CliError::Invalid(message)),
        Answer::Failure(message) => return Err(CliError::Failure(message)),
    };
    match args.json {
        true => print_json(&serde_json::to_value(&report).map_err(CliError::failure)?)?,
        false => report.print()?,
    }
    match report.status {
        Status::Ok => Ok(Outcome::Done),
        Status::VmemOom | Status::HbmOom => Ok(Outcome::DoesNotFit),
        Status::Error => Err(CliError::invalid(format_args!(
            "the TPU compiler refuses the module: {}",
            report.message.as_deref().unwrap_or("it does not say why")
        ))),
    }
}

/// What a worker has to say, as one line of JSON.
#[derive(Serialize, Deserialize, PartialEq, Debug)]
enum Answer {
    /// The compiler was asked.
    Report(Report),
    /// It was not: the request is wrong.
    Invalid(String),
    /// It was not: it cannot be used.
    Failure(String),
}

/// What the compiler says.
#[derive(Serialize, Deserialize, PartialEq, Debug)]
struct Report {
    target: String,
    status: Status,
    /// Of the kernel that uses most; where memory is short, of what it is short for, as exact as the
    /// compiler's message.
    used_bytes: Option<u64>,
    /// For the same kernel.
    limit_bytes: Option<u64>,
    /// Time of the compiler; loading it is not included.
    seconds: f64,
    message: Option<String>,
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

#[derive(Serialize, Deserialize, PartialEq, Debug)]
struct KernelReport {
    name: String,
    used_bytes: Option<u64>,
    limit_bytes: u64,
}

#[derive(Serialize, Deserialize, PartialEq, Debug)]
struct HbmReport {
    argument_bytes: u64,
    output_bytes: u64,
    aliased_bytes: u64,
    temporary_bytes: u64,
}

impl Report {
    fn print(&self) -> Result<(), CliError> {
        let Self {
            target, seconds, ..
        } = self;
        match self.status {
            Status::Ok => {}
            Status::VmemOom | Status::HbmOom => {
                let message = self.message.as_deref().unwrap_or_default();
                return print(format_args!("does not fit {target}: {message}"));
            }
            // The error says it all.
            Status::Error => return Ok(()),
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
}

/// Starts this program again with the environment prepared, and waits for its answer.
fn ask_worker(args: &Args) -> Result<Answer, CliError> {
    let program = std::env::current_exe().map_err(|error| {
        CliError::failure(format_args!("cannot find the program's own file: {error}"))
    })?;
    let mut worker = Command::new(program);
    worker
        .args(["compile", "--worker", "--target", args.target.name])
        .args([OsStr::new("--stablehlo"), args.stablehlo.as_os_str()])
        .args([OsStr::new("--libtpu"), args.libtpu.as_os_str()])
        .envs(compiler::ENVIRONMENT)
        // Meant for other copies of XLA; one that libtpu does not know would end the worker.
        .env_remove("XLA_FLAGS")
        .stdin(Stdio::null());
    if let Some(kib) = args.vmem_limit_kib {
        worker.args(["--vmem-limit-kib", &kib.to_string()]);
    }
    let output = worker.output().map_err(|error| {
        CliError::failure(format_args!("cannot start the compiler's process: {error}"))
    })?;
    find_answer(&output).ok_or_else(|| {
        let status = output.status;
        let said = last_lines(&output.stderr);
        CliError::failure(format_args!(
            "the compiler ended without an answer ({status}): {said}"
        ))
    })
}

/// The answer is one of the lines; the compiler may have written others.
fn find_answer(output: &Output) -> Option<Answer> {
    let mut lines = output.stdout.split(|byte| *byte == b'\n');
    lines.find_map(|line| serde_json::from_slice(line).ok())
}

/// What a process said before its end, without the compiler's addresses and traces.
fn last_lines(text: &[u8]) -> String {
    const LINES: usize = 8;
    const LINE_CHARS: usize = 300;
    let text = String::from_utf8_lossy(text);
    let is_trace = |line: &str| {
        line.starts_with("=== Source") || line.starts_with("    @ ") || line.starts_with("PC: ")
    };
    let lines: Vec<String> = text
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty() && !is_trace(line))
        .map(|line| line.chars().take(LINE_CHARS).collect())
        .collect();
    match &lines[lines.len().saturating_sub(LINES)..] {
        [] => "it says nothing".into(),
        last => last.join("\n"),
    }
}

#[cfg(not(feature = "pjrt"))]
mod compiler {
    use super::{Answer, Args};

    pub(super) const ENVIRONMENT: [(&str, &str); 0] = [];

    pub(super) fn answer(_: &Args) -> Answer {
        Answer::Failure(
            "this tilecast was built without the TPU compiler; build it with `cargo build --release --features pjrt`"
                .into(),
        )
    }
}

#[cfg(feature = "pjrt")]
mod compiler {
    use std::fs::File;
    use std::io::Read;
    use std::path::Path;
    use std::time::Instant;

    use tilecast_tpu::pjrt::{
        CompileOptions, Executable, HOW_TO_GET_LIBTPU, Kernel, PjrtError, Plugin,
    };

    use super::{Answer, Args, HbmReport, KernelReport, Report, Status};

    pub(super) use tilecast_tpu::pjrt::ENVIRONMENT;

    pub(super) fn answer(args: &Args) -> Answer {
        let module = match read(&args.stablehlo) {
            Ok(module) => module,
            Err(message) => return Answer::Invalid(message),
        };
        let plugin = match Plugin::load(&args.libtpu) {
            Ok(plugin) => plugin,
            Err(error) => {
                return Answer::Failure(format!("{}\n{HOW_TO_GET_LIBTPU}", error.summary()));
            }
        };
        match compile(plugin, &module, args) {
            Ok(report) => Answer::Report(report),
            Err(error) => Answer::Failure(error.summary()),
        }
    }

    fn read(path: &Path) -> Result<Vec<u8>, String> {
        /// Real ones have a few MiB at most; weights are arguments.
        const LIMIT_BYTES: u64 = 256 << 20;
        let shown = path.display();
        let mut module = Vec::new();
        File::open(path)
            .and_then(|file| file.take(LIMIT_BYTES + 1).read_to_end(&mut module))
            .map_err(|error| format!("cannot read {shown}: {error}"))?;
        match module.len() as u64 {
            0 => Err(format!("{shown} is empty; give a StableHLO module")),
            1..=LIMIT_BYTES => Ok(module),
            _ => Err(format!(
                "{shown} has more than {LIMIT_BYTES} bytes; give a StableHLO module"
            )),
        }
    }

    /// # Errors
    /// Those of the plugin; a refusal of the module is a report.
    fn compile(plugin: Plugin, module: &[u8], args: &Args) -> Result<Report, PjrtError> {
        let topology = plugin.topology_of(args.target.generation)?;
        let options = CompileOptions {
            vmem_limit_kib: args.vmem_limit_kib,
            ..CompileOptions::default()
        };
        let started = Instant::now();
        let result = topology.compile(module, &options);
        let seconds = started.elapsed().as_secs_f64();
        match result {
            Ok(executable) => accepted(&executable, seconds, args),
            Err(error @ PjrtError::Call { .. }) => Ok(refused(&error, seconds, args)),
            Err(error) => Err(error),
        }
    }

    fn accepted(executable: &Executable, seconds: f64, args: &Args) -> Result<Report, PjrtError> {
        let target = args.target;
        let report = |kernel: Kernel| KernelReport {
            name: kernel.name,
            used_bytes: kernel.used_bytes,
            limit_bytes: vmem_limit_bytes(kernel.limit_bytes, args),
        };
        let kernels: Vec<_> = executable.kernels()?.into_iter().map(report).collect();
        let largest = kernels.iter().max_by_key(|kernel| kernel.used_bytes);
        let stats = match executable.memory_stats() {
            Err(PjrtError::Missing { .. }) => None,
            stats => Some(stats?),
        };
        Ok(Report {
            target: target.name.into(),
            status: Status::Ok,
            used_bytes: largest.and_then(|kernel| kernel.used_bytes),
            limit_bytes: largest.map(|kernel| kernel.limit_bytes),
            seconds,
            message: None,
            code_bytes: Some(executable.generated_code_bytes()?),
            hbm: stats.map(|stats| HbmReport {
                argument_bytes: stats.argument_bytes,
                output_bytes: stats.output_bytes,
                aliased_bytes: stats.aliased_bytes,
                temporary_bytes: stats.temporary_bytes,
            }),
            kernels,
        })
    }

    /// The limit that is in force: a kernel's own, or that of the options or the target. One above what
    /// there is acts as what there is.
    fn vmem_limit_bytes(own: Option<u64>, args: &Args) -> u64 {
        let given = args.vmem_limit_kib.map(|kib| u64::from(kib) << 10);
        let default = args.target.default_vmem_limit_bytes.value;
        let limit = own.or(given).unwrap_or(default);
        limit.min(args.target.vmem_usable_bytes.value)
    }

    fn refused(error: &PjrtError, seconds: f64, args: &Args) -> Report {
        let memory = error
            .out_of_memory()
            .map(|memory| match memory.space.as_str() {
                "vmem" => memory.with_limit(vmem_limit_bytes(None, args)),
                _ => memory,
            });
        let status = match memory.as_ref().map(|memory| memory.space.as_str()) {
            Some("vmem") => Status::VmemOom,
            Some("hbm") => Status::HbmOom,
            _ => Status::Error,
        };
        Report {
            target: args.target.name.into(),
            status,
            used_bytes: memory.as_ref().map(|memory| memory.used_bytes),
            limit_bytes: memory.as_ref().map(|memory| memory.limit_bytes),
            seconds,
            message: Some(memory.map_or_else(|| error.summary(), |memory| memory.to_string())),
            kernels: Vec::new(),
            code_bytes: None,
            hbm: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(stdout: &str) -> Output {
        Output {
            status: Default::default(),
            stdout: stdout.into(),
            stderr: Vec::new(),
        }
    }

    #[test]
    fn the_answer_is_a_line() {
        let report = Report {
            target: "v5e".into(),
            status: Status::VmemOom,
            used_bytes: Some(2),
            limit_bytes: Some(1),
            seconds: 0.5,
            message: Some("line\nline".into()),
            kernels: Vec::new(),
            code_bytes: None,
            hbm: None,
        };
        let answer = Answer::Report(report);
        let line = serde_json::to_string(&answer).unwrap();
        assert!(line.contains("\"status\":\"vmem_oom\""), "{line}");
        assert_eq!(
            find_answer(&output(&format!("noise\n{line}\n"))),
            Some(answer)
        );
        for none in ["", "\n", "noise", "{}", "noise {"] {
            assert_eq!(find_answer(&output(none)), None, "{none}");
        }
    }

    #[test]
    fn last_words() {
        assert_eq!(last_lines(b""), "it says nothing");
        let trace = b"a\n\n=== Source Location Trace: ===\n    @ 0x1 main\nERROR: b\n";
        assert_eq!(last_lines(trace), "a\nERROR: b");
        assert_eq!(last_lines("x\n".repeat(20).as_bytes()).lines().count(), 8);
    }
}
