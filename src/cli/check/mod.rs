//! `tilecast check`: seeded random problems, the kernels against the reference, the reference
//! against finite differences.

mod cases;
mod compare;
mod differences;
mod experts;
mod head;
mod linear;
mod logits;
mod tolerance;

use serde_json::{Value, json};
use tilecast::cpu::simd::Simd;
use tilecast::sim::execute;
use tilecast::{Cpu, DType};

use super::Outcome;
use super::args::{Backend, Op};
use super::error::CliError;
use super::output::{self, number, print, print_json, table};
use cases::CASES;
use compare::Errors;

/// Check the kernels on random problems
///
/// cpu: every strategy, instruction set of this machine and several thread counts against the reference in f64, with
/// tolerances derived for each element. sim: the same for the kernels as the TPU compiler would get them, printed, read
/// back and interpreted with blocks a TPU takes, parallel steps in an order drawn from the seed. reference: its
/// gradients against finite differences in f64.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Exit codes: 0 everything holds; 1 something does not.\n\n\
                        Example:\n  tilecast check linear-ce --backends cpu,sim,reference --seed 7\n  \
                        tilecast check grpo"
)]
pub(crate) struct Args {
    /// What to check
    #[arg(default_value = "linear-ce")]
    op: Op,
    /// What to check it on
    #[arg(
        long,
        value_name = "NAME,...",
        value_delimiter = ',',
        default_value = "cpu,sim,reference"
    )]
    backends: Vec<Backend>,
    /// Seed of the random problems
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<Outcome, CliError> {
    if args.backends.contains(&Backend::Tpu) {
        return Err(CliError::invalid(
            "check has no backend tpu; `tilecast run --backend tpu` runs an op on the TPU of this machine",
        ));
    }
    let found = match args.op {
        Op::LinearCe => each(args, &CASES, head::check)?,
        Op::LinearGrpo | Op::LinearEntropy => each(args, &linear::cases(args.op), linear::check)?,
        Op::LogitsCe | Op::Grpo | Op::Entropy => {
            each(args, &logits::cases(args.op), logits::check)?
        }
        Op::Gmm => each(args, &experts::CASES, experts::check)?,
    };
    let passed = found.iter().all(Checked::passed);
    match args.json {
        true => print_json(&document(args, &found))?,
        false => print_table(args, &found)?,
    }
    Ok(match passed {
        true => Outcome::Done,
        false => Outcome::CheckFailed,
    })
}

/// Checks each case in both types, with a seed of its own.
fn each<C>(
    args: &Args,
    cases: &[C],
    check: impl Fn(&Args, &C, DType, u64) -> Result<Checked, CliError>,
) -> Result<Vec<Checked>, CliError> {
    let mut found = Vec::new();
    for (i, case) in cases.iter().enumerate() {
        for dtype in [DType::F32, DType::Bf16] {
            let seed = args
                .seed
                .wrapping_mul(cases.len() as u64)
                .wrapping_add(i as u64);
            found.push(check(args, case, dtype, seed)?);
        }
    }
    Ok(found)
}

/// The outcome of a case.
struct Checked {
    case: &'static str,
    dtype: DType,
    /// Sizes by name.
    shape: Vec<(&'static str, usize)>,
    /// Kernels run.
    runs: usize,
    /// For each result, the worst run; empty if no kernels ran.
    results: Vec<(&'static str, Worst)>,
    differences: Option<Errors>,
}

/// The worst errors of a result and the run that has them.
struct Worst {
    errors: Errors,
    run: String,
}

impl Checked {
    fn new(case: &'static str, dtype: DType, shape: &[(&'static str, usize)]) -> Self {
        Self {
            case,
            dtype,
            shape: shape.to_vec(),
            runs: 0,
            results: Vec::new(),
            differences: None,
        }
    }

    /// Adds a run, with the errors of its results by name.
    fn add(&mut self, run: &str, errors: impl IntoIterator<Item = (&'static str, Errors)>) {
        self.runs += 1;
        for (name, errors) in errors {
            let run = run.into();
            match self.results.iter_mut().find(|(of, _)| *of == name) {
                None => self.results.push((name, Worst { errors, run })),
                Some((_, worst)) if errors.share() > worst.errors.share() => {
                    *worst = Worst { errors, run };
                }
                Some(_) => {}
            }
        }
    }

    fn passed(&self) -> bool {
        self.checks().all(|(_, errors, _)| errors.passed())
    }

    /// Name, errors and worst run of each check that was made.
    fn checks(&self) -> impl Iterator<Item = (&'static str, &Errors, Option<&str>)> {
        let results = self.results.iter();
        let results = results.map(|(name, worst)| (*name, &worst.errors, Some(&worst.run[..])));
        let differences = self.differences.iter();
        let differences = differences.map(|errors| ("differences", errors, None));
        results
            .chain(differences)
            .filter(|(_, errors, _)| errors.count > 0)
    }

    fn json(&self) -> Value {
        let checks = self.checks().map(|(name, errors, run)| {
            let mut check = json!({ "name": name, "run": run });
            let fields = check.as_object_mut().expect("an object was made");
            if let Value::Object(more) = errors.json() {
                fields.extend(more);
            }
            check
        });
        let shape = self
            .shape
            .iter()
            .map(|(name, n)| (name.to_string(), json!(n)));
        json!({
            "name": self.case,
            "dtype": self.dtype.name(),
            "shape": Value::Object(shape.collect()),
            "runs": self.runs,
            "passed": self.passed(),
            "checks": checks.collect::<Vec<_>>(),
        })
    }
}

/// This machine in every way that it is checked: each instruction set with each number of threads, and what that is
/// called.
fn machines() -> impl Iterator<Item = (String, Cpu)> {
    let each = |simd: Simd| thread_counts().map(|threads| (simd, threads));
    Simd::available().flat_map(each).map(|(simd, threads)| {
        let cpu = Cpu::new().simd(simd).threads(threads).poison(true);
        (format!("{simd}, threads {threads}"), cpu)
    })
}

/// The interpreter, with parallel steps in an order drawn from the seed.
fn interpreter(seed: u64) -> execute::Options {
    execute::Options {
        parallel_order: Some(seed),
        ..execute::Options::default()
    }
}

/// One, several, and more than there are tiles for.
fn thread_counts() -> [usize; 3] {
    [1, 2, Cpu::new().thread_count().max(3)]
}

fn print_table(args: &Args, found: &[Checked]) -> Result<(), CliError> {
    let mut names = Vec::new();
    for (name, ..) in found.iter().flat_map(Checked::checks) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut table = table(["case", "type", "runs"].into_iter().chain(names.clone()));
    for checked in found {
        let mut row = vec![
            checked.case.into(),
            checked.dtype.name().into(),
            number(checked.runs),
        ];
        row.extend(names.iter().map(|name| {
            let check = checked.checks().find(|(found, ..)| found == name);
            number(match check {
                None => "-".into(),
                Some((_, errors, _)) if errors.passed() => format!("{:.3}", errors.share()),
                Some((_, errors, _)) => format!("FAIL {:.3}", errors.share()),
            })
        }));
        table.add_row(row);
    }
    print("Largest error as a share of the tolerance (above 1 fails):\n")?;
    output::print_table(&table)?;
    print("")?;
    for checked in found {
        for (name, errors, run) in checked.checks() {
            if let Some(mismatch) = errors.mismatch() {
                let run = run.map_or_else(String::new, |run| format!(" ({run})"));
                let (case, dtype) = (checked.case, checked.dtype);
                print(format_args!("{case}, {dtype}, {name}{run}: {mismatch}"))?;
            }
        }
    }
    let [checks, failed] = counts(found);
    let levels: Vec<_> = Simd::available().map(Simd::name).collect();
    print(format_args!(
        "{} cases, {checks} checks, {failed} failed; seed {}, instruction sets {}, threads {:?}",
        found.len(),
        args.seed,
        levels.join(", "),
        thread_counts(),
    ))
}

/// Checks made and failed.
fn counts(found: &[Checked]) -> [usize; 2] {
    let all = || found.iter().flat_map(Checked::checks);
    let failed = all().filter(|(_, errors, _)| !errors.passed());
    [all().count(), failed.count()]
}

fn document(args: &Args, found: &[Checked]) -> Value {
    let [checks, failed] = counts(found);
    let backends: Vec<_> = args.backends.iter().map(|backend| backend.name()).collect();
    json!({
        "op": args.op.name(),
        "seed": args.seed,
        "backends": backends,
        "levels": Simd::available().map(Simd::name).collect::<Vec<_>>(),
        "threads": thread_counts(),
        "passed": failed == 0,
        "counts": { "cases": found.len(), "checks": checks, "failed": failed },
        "cases": found.iter().map(Checked::json).collect::<Vec<_>>(),
    })
}
