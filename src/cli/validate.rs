//! `tilecast validate`: how far predictions are from the compiler's schedules and from times on chips.

mod json;
mod tables;

use std::path::{Path, PathBuf};
use std::time::Instant;

use tilecast::sim::validate::hardware::{self, RunOutcome};
use tilecast::sim::validate::point::{self, Set};
use tilecast::sim::validate::{Baselines, Outcome as Judged};

use super::Outcome;
use super::error::CliError;
use super::output::{print, print_json};

/// Show how far predictions are from what the TPU compiler and TPUs did
///
/// Every measured point is predicted from its kernel, made anew, and compared: VMEM and cycles of the compiler's
/// schedule, and published times of kernels on chips. Next to the model stand a roofline and a roofline with one
/// constant for each family of kernels, fitted to the same points as the model.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Kernels of other projects are not in this repository; their texts come from\n  \
                  python tests/python/foreign_modules.py DIR\n\n\
                  Example:\n  tilecast validate\n  tilecast validate --modules DIR --json"
)]
pub(crate) struct Args {
    /// Folder with the texts of the foreign kernels
    #[arg(long, value_name = "DIR")]
    modules: Option<PathBuf>,
    /// Print one JSON document, with every point
    #[arg(long)]
    json: bool,
}

/// Everything that was compared.
struct Report {
    outcomes: Vec<Judged>,
    baselines: Baselines,
    runs: Vec<RunOutcome>,
    /// Points without a prediction: name and reason.
    failures: Vec<(String, String)>,
    /// Foreign points whose texts are not there.
    missing: usize,
    /// Why, if there are any.
    missing_reason: String,
    seconds: f64,
}

pub(crate) fn run(args: &Args) -> Result<Outcome, CliError> {
    let report = compare(args.modules.as_deref())?;
    match args.json {
        true => print_json(&json::document(&report))?,
        false => print(tables::text(&report))?,
    }
    // A point that the model cannot judge is a failure of ours; a large error is what is asked for.
    Ok(match report.failures.is_empty() {
        true => Outcome::Done,
        false => Outcome::CheckFailed,
    })
}

fn compare(modules: Option<&Path>) -> Result<Report, CliError> {
    let start = Instant::now();
    if let Some(folder) = modules.filter(|folder| !folder.is_dir()) {
        let folder = folder.display();
        return Err(CliError::invalid(format_args!(
            "--modules {folder} is not a folder; make it with tests/python/foreign_modules.py"
        )));
    }
    let foreign = |file: &str| std::fs::read_to_string(modules?.join(file)).ok();
    let (mut outcomes, mut failures, mut missing) = (Vec::new(), Vec::new(), 0);
    for set in Set::ALL {
        for point in point::points(set).map_err(CliError::failure)? {
            let name = format!("{} {}", set.name(), point.name());
            let judged = match point.subject(&foreign) {
                Ok(None) => {
                    missing += 1;
                    continue;
                }
                Ok(Some(subject)) => Judged::new(point, &subject),
                Err(error) => Err(error.into()),
            };
            match judged {
                Ok(outcome) => outcomes.push(outcome),
                Err(error) => failures.push((name, error.to_string())),
            }
        }
    }
    let baselines = Baselines::fit(&outcomes);
    let mut runs = Vec::new();
    for run in hardware::runs().map_err(CliError::failure)? {
        let name = format!("hardware {} {} {}", run.date, run.target, run.structure);
        match RunOutcome::new(run, &baselines) {
            Ok(outcome) => runs.push(outcome),
            Err(error) => failures.push((name, error.to_string())),
        }
    }
    Ok(Report {
        outcomes,
        baselines,
        runs,
        failures,
        missing,
        missing_reason: match modules {
            Some(folder) => format!("their texts are not in {}", folder.display()),
            None => "kernels of other projects are not in this repository: write their texts with \
                     tests/python/foreign_modules.py and give --modules DIR"
                .into(),
        },
        seconds: start.elapsed().as_secs_f64(),
    })
}

/// The outcomes of a set in groups, all of them first: a title and those in it.
fn groups(outcomes: &[Judged], set: Set) -> Vec<(String, Vec<&Judged>)> {
    let of_set = || {
        outcomes
            .iter()
            .filter(move |outcome| outcome.point.set == set)
    };
    let mut groups = vec![("all".to_owned(), of_set().collect::<Vec<_>>())];
    let mut add = |name: &dyn Fn(&Judged) -> String| {
        let first = groups.len();
        for outcome in of_set() {
            let name = name(outcome);
            match groups[first..].iter_mut().find(|(title, _)| *title == name) {
                Some((_, list)) => list.push(outcome),
                None => groups.push((name, vec![outcome])),
            }
        }
    };
    add(&|outcome| outcome.point.target.name.to_owned());
    add(&|outcome| outcome.point.family().to_owned());
    groups.retain(|(_, list)| !list.is_empty());
    groups
}
