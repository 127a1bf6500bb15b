//! `simulate --mosaic`: the text of a kernel, whoever wrote it.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde_json::{Value, json};
use tilecast::core::target::Target;
use tilecast::sim::Verdict;
use tilecast::sim::grid::Scalars;
use tilecast::sim::kernel::KernelReport;
use tilecast::sim::signature::Signature;
use tilecast::sim::trace::Process;
use tilecast::sim::{judge, kernel};
use tilecast::tpu::mosaic::Module;

use super::tables::{self, Shown};
use super::{TRACED_STEPS, json};
use crate::cli::error::CliError;
use crate::cli::output::print;
use crate::cli::report::{
    expected_error_json, print_assumptions, range_json, target_assumptions, time_text,
};
use crate::cli::scalars as given;

/// Kernels have tens of KiB; what is unrolled to the last register has some MiB.
const LIMIT_BYTES: u64 = 64 << 20;

/// A kernel that was read from a file, and what is known about it.
pub(super) struct Simulation {
    module: Module,
    scalars: Scalars,
    target: &'static Target,
    pub(super) report: KernelReport,
}

impl Simulation {
    /// Judges the kernel in the file at `path`, with the values of `scalars`.
    ///
    /// # Errors
    /// A file that cannot be read, or a kernel that the model does not understand.
    pub(super) fn new(
        path: &Path,
        scalars: Option<&Path>,
        target: &'static Target,
        limit_bytes: Option<u64>,
    ) -> Result<Self, CliError> {
        let shown = path.display();
        let text = read(path)?;
        let module = Module::parse(&without_preamble(&text))
            .map_err(|error| CliError::invalid(format_args!("{shown}: {error}")))?;
        let read_scalars = |path: &Path| given::parse(&read(path)?, path);
        let scalars = scalars.map(read_scalars).transpose()?.unwrap_or_default();
        let report = KernelReport::of_module(&module, target, &scalars, limit_bytes)
            .map_err(|error| CliError::invalid(format_args!("{shown}: {error}")))?;
        Ok(Self {
            module,
            scalars,
            target,
            report,
        })
    }

    /// What the kernel does over time.
    pub(super) fn trace(&self) -> Result<Vec<Process>, CliError> {
        let name = kernel::name(&self.module).map_err(CliError::invalid)?;
        let Self {
            module,
            scalars,
            target,
            ..
        } = self;
        let process = judge::trace(module, target, scalars, &name, TRACED_STEPS);
        Ok(vec![process.map_err(CliError::invalid)?])
    }

    fn shown(&self) -> Shown<'_> {
        Shown {
            pass: None,
            blocks: None,
            kernel: &self.report,
        }
    }

    /// Prefetched scalars of the kernel whose values are not known.
    fn scalars_missing(&self) -> usize {
        let all = Signature::read(&self.module).map_or(0, |signature| signature.scalars.len());
        let given = self.scalars.prefetched.iter().flatten().count();
        all.saturating_sub(given)
    }

    fn assumptions(&self) -> Vec<String> {
        let mut lines = self.report.assumptions.clone();
        lines.extend(target_assumptions(self.target));
        lines
    }

    /// Everything that is known, as one document.
    pub(super) fn document(&self) -> Value {
        let prediction = self.report.prediction;
        json!({
            "op": null,
            "target": self.target.name,
            "dtype": null,
            "shape": null,
            "verdict": self.report.verdict.name(),
            "reason": self.report.reason,
            "kernels": [json::kernel(&self.shown(), None)],
            "hbm": {
                "used_bytes": null,
                "capacity_bytes": self.target.hbm_bytes.value,
                "terms": [],
            },
            "total": {
                "time_s": prediction.map(|p| p.time_s),
                "time_range_s": range_json(prediction.map(|p| p.time_range_s)),
                "tokens_per_s": null,
            },
            "expected_error": expected_error_json(),
            "assumptions": self.assumptions(),
        })
    }

    pub(super) fn print(&self) -> Result<(), CliError> {
        let report = &self.report;
        print(format_args!(
            "{} on {}: {}",
            report.name,
            self.target,
            report.verdict.name()
        ))?;
        if let Some(prediction) = report.prediction {
            let [low, high] = prediction.time_range_s;
            print(format_args!(
                "{} ({} to {}), bound by {}",
                time_text(prediction.time_s),
                time_text(low),
                time_text(high),
                prediction.bounds.binding().0
            ))?;
        }
        match self.scalars_missing() {
            0 => {}
            missing => print(format_args!(
                "{missing} prefetched scalars are not given (--scalars) and taken to be zero: what depends on them may \
                 run more often, and take longer"
            ))?,
        }
        if report.verdict == Verdict::VmemOom
            && let Some(reason) = &report.reason
        {
            print(format_args!("{} {reason}", report.name))?;
        }
        let kernels = [self.shown()];
        print(format_args!("{}\n", tables::tightest(&kernels)))?;
        tables::print_kernels(&kernels, None)?;
        print_assumptions(&self.assumptions())
    }
}

/// A text file of a bounded size.
fn read(path: &Path) -> Result<String, CliError> {
    let shown = path.display();
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(LIMIT_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| CliError::invalid(format_args!("cannot read {shown}: {error}")))?;
    if bytes.len() as u64 > LIMIT_BYTES {
        return Err(CliError::invalid(format_args!(
            "{shown} has more than {LIMIT_BYTES} bytes"
        )));
    }
    String::from_utf8(bytes).map_err(|_| {
        CliError::invalid(format_args!(
            "{shown} is not text; give the Mosaic module as text, as `pallas_call(debug=True)` prints it"
        ))
    })
}

/// The text with the lines before the module left blank: `pallas_call(debug=True)` announces it. Lines keep
/// their numbers.
fn without_preamble(text: &str) -> String {
    let starts = |line: &&str| {
        let line = line.trim_start();
        (["module", "\"builtin.module\"", "builtin.module", "#", "!"].iter())
            .any(|start| line.starts_with(start))
    };
    let before = text.lines().take_while(|line| !starts(line)).count();
    match text.lines().nth(before) {
        // Nothing in it looks like a module; the parser says what it is.
        None => text.to_owned(),
        Some(_) => {
            let rest: Vec<&str> = text.split('\n').skip(before).collect();
            "\n".repeat(before) + &rest.join("\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_before_a_module_are_blanked_and_counted() {
        let text = "\nThe kernel:\nmodule @m {\n}\n";
        assert_eq!(without_preamble(text), "\n\nmodule @m {\n}\n");
        assert_eq!(without_preamble("module {}"), "module {}");
        assert_eq!(
            without_preamble("nothing\nof the kind"),
            "nothing\nof the kind"
        );
        assert_eq!(without_preamble(""), "");
    }
}
