//! The best blocks for a list of models, one row for each model and target.

use std::path::Path;

use serde_json::{Value, json};
use tilecast::core::target::Target;
use tilecast::sim::problem::Problem;
use tilecast::sim::tune::best;
use tilecast::sim::{Verdict, bytes_text};

use super::super::Outcome;
use super::super::args::ProblemArgs;
use super::super::error::CliError;
use super::super::output::{number, print, print_json, print_table, table};
use super::super::report::{count_text, forward_plan_text, outcome, plan_text, space, time_text};
use super::super::sizes::OfSizes;
use super::{Args, Tuned, request_of, row_json};

pub(super) fn run<P: Problem<Blocks: OfSizes>>(
    args: &Args,
    targets: &[&'static Target],
    problem: impl Fn(&ProblemArgs) -> Result<P, CliError>,
) -> Result<Outcome, CliError> {
    let mut found = Vec::new();
    for path in &args.models {
        let of_model = ProblemArgs {
            config: Some(path.clone()),
            hidden: None,
            vocab: None,
            ..args.problem.clone()
        };
        for &target in targets {
            let request = request_of(problem(&of_model)?, &of_model, target, args)?;
            let space = space(&of_model.schedule, &request)?;
            let best = best(&request, &space, 1, || ()).map_err(CliError::invalid)?;
            found.push((name(path), Tuned::new(request, best)));
        }
    }
    match args.json {
        true => print_json(&document(args, &found))?,
        false => {
            print(format_args!(
                "{}, {}: B={}, the best block sizes for each model\n",
                args.op.name(),
                args.problem.dtype,
                args.problem.tokens
            ))?;
            print_models(&found)?;
        }
    }
    let first = |tuned: &Tuned<P>| Some(tuned.rows.first()?.report.verdict);
    let worst = found.iter().filter_map(|(_, tuned)| first(tuned)).max();
    Ok(outcome(worst.unwrap_or(Verdict::Fits)))
}

/// What a model is called: its file, or the folder of a `config.json`.
fn name(path: &Path) -> String {
    let stem = path
        .file_stem()
        .map(|stem| stem.to_string_lossy().into_owned());
    let folder = path.parent().and_then(Path::file_name);
    match (stem, folder) {
        (Some(stem), Some(folder)) if stem == "config" => folder.to_string_lossy().into_owned(),
        (stem, _) => stem.unwrap_or_default(),
    }
}

fn print_models(found: &[(String, Tuned<impl Problem>)]) -> Result<(), CliError> {
    let mut table = table([
        "model",
        "H",
        "V",
        "target",
        "blocks",
        "backward blocks",
        "strategy",
        "chunk",
        "time",
        "tokens/s",
        "VMEM",
        "limit",
        "bound by",
    ]);
    for (model, tuned) in found {
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".into());
        let problem = tuned.request.problem();
        let mut cells = vec![
            model.as_str().into(),
            number(or_none(problem.hidden().map(|hidden| hidden.to_string()))),
            number(problem.vocab()),
            tuned.request.target().name.into(),
        ];
        let Some(row) = tuned.rows.first() else {
            continue;
        };
        let plan = row.backward;
        match row.report.total {
            Some(total) => cells.extend([
                or_none(row.forward.as_ref().map(forward_plan_text)).into(),
                or_none(plan.as_ref().map(plan_text)).into(),
                or_none(plan.and_then(|plan| plan.strategy_name()).map(Into::into)).into(),
                number(or_none(
                    plan.and_then(|plan| plan.chunk_columns)
                        .map(|n| n.to_string()),
                )),
                number(time_text(total.time_s)),
                number(count_text(total.tokens_per_s)),
                number(bytes_text(row.vmem_used_bytes as f64)),
                number(bytes_text(row.vmem_limit_bytes as f64)),
                row.bounds.binding().0.into(),
            ]),
            None => cells.push(row.report.verdict.name().into()),
        }
        table.add_row(cells);
    }
    print_table(&table)
}

fn document(args: &Args, found: &[(String, Tuned<impl Problem>)]) -> Value {
    let best = found.iter().map(|(model, tuned)| {
        let problem = tuned.request.problem();
        let row = tuned.rows.first();
        json!({
            "model": model,
            "hidden": problem.hidden(),
            "vocab": problem.vocab(),
            "target": tuned.request.target().name,
            "best": row.map(|row| row_json(tuned.request.target(), row)),
        })
    });
    json!({
        "op": args.op.name(),
        "dtype": args.problem.dtype.name(),
        "tokens": args.problem.tokens,
        "models": best.collect::<Vec<_>>(),
    })
}
