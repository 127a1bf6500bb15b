//! `tilecast check`: seeded random problems, the kernels against the reference, the reference
//! against finite differences.

mod cases;
mod compare;
mod differences;
mod tolerance;

use serde_json::{Value, json};
use tilecast::core::kernels::linear_ce::reference;
use tilecast::cpu::simd::Simd;
use tilecast::sim::execute;
use tilecast::sim::interpretation::{default_target, raised, smallest_schedule};
use tilecast::{Cpu, DType, Gradient, Schedule, Strategy};

use super::Outcome;
use super::args::{Backend, CliError, Op};
use super::inputs::Inputs;
use super::output::{self, number, print, print_json, table};
use super::solve::{Results, cotangents, on_cpu, on_sim, widened};
use cases::{CASES, Case};
use compare::Errors;
use differences::Differences;
use tolerance::Exact;

/// Check the kernels on random problems
///
/// cpu: every strategy, instruction set of this machine and several thread counts against the reference in f64, with
/// tolerances derived for each element. sim: the same for the kernels as the TPU compiler would get them, printed, read
/// back and interpreted with blocks a TPU takes, parallel steps in an order drawn from the seed. reference: its gradients against finite differences in f64.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Exit codes: 0 everything holds; 1 something does not.\n\n\
                        Example:\n  tilecast check linear-ce --backends cpu,sim,reference --seed 7"
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
    let Op::LinearCe = args.op;
    let mut found = Vec::new();
    for (i, case) in CASES.iter().enumerate() {
        for dtype in [DType::F32, DType::Bf16] {
            let seed = args
                .seed
                .wrapping_mul(CASES.len() as u64)
                .wrapping_add(i as u64);
            found.push(Checked::new(args, case, dtype, seed)?);
        }
    }
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

/// The results of the kernels that are compared, in the order of [`Worst::errors`].
const RESULTS: [&str; 5] = ["loss", "lse", "dx", "dw", "dbias"];

/// The outcome of a case.
struct Checked {
    case: &'static str,
    dtype: DType,
    shape: [usize; 3],
    /// Kernels run.
    runs: usize,
    /// For each of [`RESULTS`], the worst run; empty if no kernels ran.
    results: Vec<Worst>,
    differences: Option<Errors>,
}

/// The worst errors of a result and the run that has them.
#[derive(Clone, Default)]
struct Worst {
    errors: Errors,
    run: String,
}

impl Checked {
    fn new(args: &Args, case: &Case, dtype: DType, seed: u64) -> Result<Self, CliError> {
        let inputs = case.inputs(dtype, seed)?;
        let wide = widened(&inputs);
        let (d_loss, d_lse) = cotangents(&inputs);
        let forward = reference::forward(&inputs.problem, &wide);
        let backward = reference::backward(&inputs.problem, &wide, &d_loss, &d_lse);
        let mut found = Self {
            case: case.name,
            dtype,
            shape: case.shape,
            runs: 0,
            results: Vec::new(),
            differences: None,
        };
        let exact = Exact {
            problem: &inputs.problem,
            inputs: &wide,
            d_loss: &d_loss,
            d_lse: &d_lse,
            forward: &forward,
            backward: &backward,
        };
        if args.backends.contains(&Backend::Cpu) {
            found.run_on_cpu(case, &inputs, &exact)?;
        }
        if args.backends.contains(&Backend::Sim) {
            found.run_on_sim(case, &inputs, &exact, seed)?;
        }
        if args.backends.contains(&Backend::Reference) {
            let differences = Differences {
                problem: &inputs.problem,
                inputs: &wide,
                d_loss: &d_loss,
                d_lse: &d_lse,
                backward: &backward,
            };
            found.differences = Some(differences.errors(seed));
        }
        Ok(found)
    }

    /// Every strategy, instruction set and number of threads.
    fn run_on_cpu(
        &mut self,
        case: &Case,
        inputs: &Inputs,
        exact: &Exact<'_>,
    ) -> Result<(), CliError> {
        for strategy in Strategy::ALL {
            let tolerance = exact.on_cpu(strategy);
            for simd in Simd::available() {
                for threads in thread_counts() {
                    let cpu = Cpu::new().simd(simd).threads(threads).poison(true);
                    let schedule = schedule(case, inputs, strategy, &cpu);
                    let results = on_cpu(inputs, schedule, &cpu, true)?;
                    self.runs += 1;
                    let run = format!("{}, {simd}, threads {threads}", strategy.name());
                    self.keep_worst(&run, &compare(&results, exact, &tolerance));
                }
            }
        }
        Ok(())
    }

    /// Every strategy.
    fn run_on_sim(
        &mut self,
        case: &Case,
        inputs: &Inputs,
        exact: &Exact<'_>,
        seed: u64,
    ) -> Result<(), CliError> {
        let options = execute::Options {
            parallel_order: Some(seed),
            ..execute::Options::default()
        };
        let target = default_target();
        for strategy in Strategy::ALL {
            let schedule = smallest_schedule(target, strategy);
            let schedule = raised(&case.cut(schedule), target);
            let results = on_sim(inputs, &schedule, &options, true)?;
            self.runs += 1;
            let run = format!("{}, {}", strategy.name(), Backend::Sim.name());
            self.keep_worst(&run, &compare(&results, exact, &exact.on_sim(strategy)));
        }
        Ok(())
    }

    fn keep_worst(&mut self, run: &str, errors: &[Errors]) {
        self.results.resize(RESULTS.len(), Worst::default());
        for (worst, errors) in self.results.iter_mut().zip(errors) {
            if worst.run.is_empty() || errors.share() > worst.errors.share() {
                *worst = Worst {
                    errors: *errors,
                    run: run.into(),
                };
            }
        }
    }

    fn passed(&self) -> bool {
        self.checks().all(|(_, errors, _)| errors.passed())
    }

    /// Name, errors and worst run of each check that was made.
    fn checks(&self) -> impl Iterator<Item = (&'static str, &Errors, Option<&str>)> {
        let named = RESULTS.into_iter().zip(&self.results);
        let results = named.map(|(name, worst)| (name, &worst.errors, Some(&worst.run[..])));
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
        let [tokens, hidden, vocab] = self.shape;
        json!({
            "name": self.case,
            "dtype": self.dtype.name(),
            "shape": { "tokens": tokens, "hidden": hidden, "vocab": vocab },
            "runs": self.runs,
            "passed": self.passed(),
            "checks": checks.collect::<Vec<_>>(),
        })
    }
}

/// One, several, and more than there are tiles for.
fn thread_counts() -> [usize; 3] {
    [1, 2, Cpu::new().thread_count().max(3)]
}

fn schedule(case: &Case, inputs: &Inputs, strategy: Strategy, cpu: &Cpu) -> Schedule {
    case.cut(Schedule {
        strategy,
        ..Schedule::for_cache(&inputs.problem, &cpu.cache())
    })
}

fn compare(
    results: &Results,
    exact: &Exact<'_>,
    tolerance: &tolerance::Tolerance,
) -> [Errors; RESULTS.len()] {
    let (forward, backward) = (exact.forward, exact.backward);
    let gradients = results.gradients.as_ref();
    let gradient = |of: fn(&tilecast::Gradients) -> &Gradient, exact: &[f64], tolerance: &[f64]| {
        let got = gradients.map_or_else(Vec::new, |gradients| of(gradients).to_f32());
        Errors::of(&got, exact, tolerance)
    };
    let dbias = gradients.and_then(|gradients| gradients.dbias.as_deref());
    [
        Errors::of(&results.forward.loss, &forward.loss, &tolerance.loss),
        Errors::of(&results.forward.lse, &forward.lse, &tolerance.lse),
        gradient(|all| &all.dx, &backward.dx, &tolerance.dx),
        gradient(|all| &all.dw, &backward.dw, &tolerance.dw),
        match exact.problem.options().bias {
            true => Errors::of(dbias.unwrap_or(&[]), &backward.dbias, &tolerance.dbias),
            false => Errors::default(),
        },
    ]
}

fn print_table(args: &Args, found: &[Checked]) -> Result<(), CliError> {
    let names = RESULTS.into_iter().chain(["differences"]);
    let mut table = table(["case", "type", "runs"].into_iter().chain(names.clone()));
    for checked in found {
        let mut row = vec![
            checked.case.into(),
            checked.dtype.name().into(),
            number(checked.runs),
        ];
        row.extend(names.clone().map(|name| {
            let check = checked.checks().find(|(found, ..)| *found == name);
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

#[cfg(test)]
mod tests {
    use super::*;
    use tilecast::Options;
    use tilecast::core::kernels::linear_ce::LinearCe;

    /// A way to forget something.
    type Mistake = (&'static str, fn(&mut Options, &mut [f64]));

    /// Results of one problem, compared with those of another as if they were its own.
    #[test]
    fn tolerances_are_tight_enough_to_notice_a_missing_term() {
        let mistakes: [Mistake; 6] = [
            ("nothing", |_, _| {}),
            ("soft cap", |options, _| options.soft_cap = None),
            ("z-loss", |options, _| options.z_loss = 0.0),
            ("smoothing", |options, _| options.label_smoothing = 0.0),
            ("d_lse", |_, d_lse| d_lse.fill(0.0)),
            ("a cap off by 5 %", |options, _| {
                options.soft_cap = options.soft_cap.map(|cap| cap * 1.05);
            }),
        ];
        let case = CASES.iter().find(|case| case.name == "everything");
        for dtype in [DType::F32, DType::Bf16] {
            let inputs = case.unwrap().inputs(dtype, 3).unwrap();
            let wide = widened(&inputs);
            let (d_loss, d_lse) = cotangents(&inputs);
            let right = inputs.problem;
            let solve = |problem: &LinearCe, d_lse: &[f64]| {
                let forward = reference::forward(problem, &wide);
                (forward, reference::backward(problem, &wide, &d_loss, d_lse))
            };
            let (forward, backward) = solve(&right, &d_lse);
            let exact = Exact {
                problem: &right,
                inputs: &wide,
                d_loss: &d_loss,
                d_lse: &d_lse,
                forward: &forward,
                backward: &backward,
            };
            for (name, forget) in mistakes {
                let (mut options, mut d_lse) = (*right.options(), d_lse.clone());
                forget(&mut options, &mut d_lse);
                let wrong = LinearCe::new(
                    right.tokens(),
                    right.hidden(),
                    right.vocab(),
                    dtype,
                    options,
                );
                let (_, got) = solve(&wrong.unwrap(), &d_lse);
                let tolerances =
                    Strategy::ALL.map(|strategy| [exact.on_cpu(strategy), exact.on_sim(strategy)]);
                for (i, tolerance) in tolerances.as_flattened().iter().enumerate() {
                    for (got, exact, tolerance) in [
                        (&got.dx, &backward.dx, &tolerance.dx),
                        (&got.dw, &backward.dw, &tolerance.dw),
                    ] {
                        let got: Vec<f32> = got.iter().map(|&x| x as f32).collect();
                        let errors = Errors::of(&got, exact, tolerance);
                        let noticed = !errors.passed();
                        assert_eq!(noticed, name != "nothing", "{name}, {dtype}, tolerance {i}");
                    }
                }
            }
        }
    }
}
