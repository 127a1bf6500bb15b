//! The fused head.

use tilecast::core::kernels::linear_ce::reference;
use tilecast::sim::interpretation::{default_target, raised, smallest_schedule};
use tilecast::{Cpu, DType, Kept, Schedule, Stored, Strategy, Values};

use super::cases::Case;
use super::compare::Errors;
use super::differences::Differences;
use super::tolerance::{Exact, Tolerance};
use super::{Args, Checked, interpreter, machines};
use crate::cli::args::Backend;
use crate::cli::error::CliError;
use crate::cli::inputs::Inputs;
use crate::cli::solve::{Results, cotangents, on_cpu, on_sim, storing_on_cpu, widened};

/// Runs a case on the backends that are asked for.
pub(super) fn check(
    args: &Args,
    case: &Case,
    dtype: DType,
    seed: u64,
) -> Result<Checked, CliError> {
    let inputs = case.inputs(dtype, seed)?;
    let wide = widened(&inputs);
    let (d_loss, d_lse) = cotangents(&inputs);
    let forward = reference::forward(&inputs.problem, &wide);
    let backward = reference::backward(&inputs.problem, &wide, &d_loss, &d_lse);
    let [tokens, hidden, vocab] = case.shape;
    let shape = [("tokens", tokens), ("hidden", hidden), ("vocab", vocab)];
    let mut found = Checked::new(case.name, dtype, &shape);
    let exact = Exact {
        problem: &inputs.problem,
        inputs: &wide,
        d_loss: &d_loss,
        d_lse: &d_lse,
        forward: &forward,
        backward: &backward,
    };
    if args.backends.contains(&Backend::Cpu) {
        run_on_cpu(&mut found, case, &inputs, &exact)?;
    }
    if args.backends.contains(&Backend::Sim) {
        run_on_sim(&mut found, case, &inputs, &exact, seed)?;
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

/// Every strategy, instruction set and number of threads, and both passes in one.
fn run_on_cpu(
    found: &mut Checked,
    case: &Case,
    inputs: &Inputs,
    exact: &Exact<'_>,
) -> Result<(), CliError> {
    for strategy in Strategy::ALL {
        let tolerance = exact.on_cpu(strategy);
        for (machine, cpu) in machines() {
            let schedule = schedule(case, inputs, strategy, &cpu);
            let results = on_cpu(inputs, schedule, &cpu, true)?;
            let run = format!("{}, {machine}", strategy.name());
            found.add(&run, compare(&results, exact, &tolerance));
        }
    }
    // Delta in place of the stored logits of a chunk of rows is f32, as that of the combined backward pass.
    let of_rows = exact.on_cpu(Strategy::Combined);
    let of_dw = exact.stored_in_dw();
    for (machine, cpu) in machines() {
        let schedule = schedule(case, inputs, Strategy::Streaming, &cpu);
        let chunk_rows = 2 * schedule.backward.b;
        let head = inputs.problem.head();
        let in_dw = Kept::InDw {
            chunk_columns: schedule.chunk_columns,
            dx: schedule.dx,
        };
        let by_cores = Kept::InDwByCores {
            cores: cpu.thread_count(),
        };
        let beside = [("stored", Kept::Rows { chunk_rows }, &of_rows)];
        let in_dw = [
            ("stored in dw", in_dw, &of_dw),
            ("stored in dw by cores", by_cores, &of_dw),
        ];
        let has_place = Stored::row_blocks_in_dw(head, schedule.backward) > 0;
        let in_dw = in_dw.into_iter().filter(|_| has_place);
        for (name, kept, tolerance) in beside.into_iter().chain(in_dw) {
            let results = storing_on_cpu(inputs, Stored::like(&schedule, kept), &cpu)?;
            let run = format!("{name}, {machine}");
            found.add(&run, compare(&results, exact, tolerance));
        }
    }
    Ok(())
}

/// Every strategy.
fn run_on_sim(
    found: &mut Checked,
    case: &Case,
    inputs: &Inputs,
    exact: &Exact<'_>,
    seed: u64,
) -> Result<(), CliError> {
    let options = interpreter(seed);
    let target = default_target();
    for strategy in Strategy::ALL {
        let schedule = smallest_schedule(target, strategy);
        let schedule = raised(&case.cut(schedule), target);
        let results = on_sim(inputs, &schedule, &options, true)?;
        let run = format!("{}, {}", strategy.name(), Backend::Sim.name());
        found.add(&run, compare(&results, exact, &exact.on_sim(strategy)));
    }
    Ok(())
}

fn schedule(case: &Case, inputs: &Inputs, strategy: Strategy, cpu: &Cpu) -> Schedule {
    case.cut(Schedule {
        strategy,
        ..Schedule::for_cache(inputs.problem.head(), &cpu.cache())
    })
}

fn compare(
    results: &Results,
    exact: &Exact<'_>,
    tolerance: &Tolerance,
) -> [(&'static str, Errors); 5] {
    let (forward, backward) = (exact.forward, exact.backward);
    let gradients = results.gradients.as_ref();
    let gradient = |of: fn(&tilecast::Gradients) -> &Values, exact: &[f64], tolerance: &[f64]| {
        let got = gradients.map_or_else(Vec::new, |gradients| of(gradients).to_f32());
        Errors::of(&got, exact, tolerance)
    };
    let dbias = gradients.and_then(|gradients| gradients.dbias.as_deref());
    [
        (
            "loss",
            Errors::of(&results.forward.loss, &forward.loss, &tolerance.loss),
        ),
        (
            "lse",
            Errors::of(&results.forward.lse, &forward.lse, &tolerance.lse),
        ),
        ("dx", gradient(|all| &all.dx, &backward.dx, &tolerance.dx)),
        ("dw", gradient(|all| &all.dw, &backward.dw, &tolerance.dw)),
        (
            "dbias",
            match exact.problem.options().bias {
                true => Errors::of(dbias.unwrap_or(&[]), &backward.dbias, &tolerance.dbias),
                false => Errors::default(),
            },
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::check::cases::CASES;
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
