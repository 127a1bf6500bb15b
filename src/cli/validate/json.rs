//! The comparison as one document.

use serde_json::{Value, json};
use tilecast::sim::validate::hardware::{self, RunOutcome, StructureSummary};
use tilecast::sim::validate::point::Set;
use tilecast::sim::validate::ranking::choices;
use tilecast::sim::validate::{Agreement, Errors, Outcome, Summary};

use super::{Report, groups};

pub(super) fn document(report: &Report) -> Value {
    let sets: Vec<Value> = (Set::ALL.into_iter())
        .flat_map(|set| {
            let groups = groups(&report.outcomes, set).into_iter();
            groups.map(move |(title, outcomes)| summary(report, set, &title, &outcomes))
        })
        .collect();
    let wrong = |outcome: &&Outcome| outcome.agreement() == Agreement::Wrong;
    let rankings: Vec<Value> = (Set::ALL.into_iter())
        .flat_map(|set| {
            choices(&report.outcomes, set)
                .into_iter()
                .map(move |choice| (set, choice))
        })
        .map(|(set, choice)| {
            json!({
                "set": set.name(), "shape": choice.shape, "blocks": choice.blocks,
                "chosen": choice.chosen, "loss": choice.loss,
            })
        })
        .collect();
    let constants: serde_json::Map<String, Value> = (report.baselines.constants())
        .map(|(family, constant)| (family.to_owned(), json!(constant)))
        .collect();
    let failures: Vec<Value> = (report.failures.iter())
        .map(|(point, reason)| json!({"point": point, "reason": reason}))
        .collect();
    let hardware_summaries: Vec<Value> = (hardware::summaries(&report.runs).iter())
        .map(structure)
        .collect();
    json!({
        "summaries": sets,
        "wrong_verdicts": report.outcomes.iter().filter(wrong).map(point).collect::<Vec<_>>(),
        "rankings": rankings,
        "hardware": {
            "summaries": hardware_summaries,
            "runs": report.runs.iter().map(run).collect::<Vec<_>>(),
        },
        "fitted_roofline": constants,
        "points": report.outcomes.iter().map(point).collect::<Vec<_>>(),
        "left_out": {
            "points": report.missing,
            "reason": (report.missing > 0).then_some(&report.missing_reason),
        },
        "changed": report.outcomes.iter().filter(|outcome| outcome.changed).count(),
        "failures": failures,
        "seconds": report.seconds,
    })
}

fn errors(errors: &Option<Errors>) -> Value {
    errors.map_or(Value::Null, |errors| {
        json!({
            "points": errors.points, "mean": errors.mean, "median": errors.median, "p95": errors.p95,
            "largest": errors.largest, "bias": errors.bias,
        })
    })
}

fn summary(report: &Report, set: Set, title: &str, outcomes: &[&Outcome]) -> Value {
    let summary = Summary::of(outcomes, &report.baselines);
    let [equal, wrong] = summary.verdicts;
    json!({
        "set": set.name(),
        "group": title,
        "points": summary.points,
        "used_bytes": errors(&summary.used_bytes),
        "unspilled_bytes": errors(&summary.unspilled_bytes),
        "exact_ledgers": summary.exact_ledgers,
        "verdicts": {"equal": equal, "wrong": wrong},
        "cycles": errors(&summary.cycles),
        "cycles_with_copies": errors(&summary.with_copies),
        "roofline": errors(&summary.roofline),
        "fitted_roofline": errors(&summary.fitted_roofline),
    })
}

fn point(outcome: &Outcome) -> Value {
    let Outcome {
        point, predicted, ..
    } = outcome;
    let measured = &point.measured;
    json!({
        "set": point.set.name(),
        "target": point.target.name,
        "kernel": point.kernel,
        "parameters": point.parameters,
        "limit_bytes": measured.limit_bytes,
        "measured": {
            "used_bytes": measured.used_bytes,
            "spill_bytes": measured.spill_bytes,
            "cycles": measured.cycles,
            "cycles_with_copies": measured.cycles_with_copies,
            "compile_s": measured.compile_s,
        },
        "predicted": {
            "used_bytes": predicted.used_bytes,
            "spill_bytes": predicted.used_bytes - predicted.unspilled_bytes,
            "cycles": predicted.cycles.map(|cycles| cycles.schedule),
            "cycles_with_copies": predicted.cycles.map(|cycles| cycles.with_copies),
            "roofline": predicted.cycles.map(|cycles| cycles.roofline),
        },
        "changed": outcome.changed,
    })
}

fn run(outcome: &RunOutcome) -> Value {
    let RunOutcome {
        run, predicted_s, ..
    } = outcome;
    let [forward, backward] = run.runs;
    json!({
        "date": run.date,
        "kernel": run.structure,
        "variant": run.variant,
        "target": run.target.name,
        "dtype": run.problem.dtype().name(),
        "shape": {"tokens": run.problem.tokens(), "hidden": run.problem.hidden(), "vocab": run.problem.vocab()},
        "blocks": {"b": run.blocks.b, "h": run.blocks.h, "v": run.blocks.v},
        "blocks_stated": run.blocks_stated,
        "forward_runs": forward,
        "backward_runs": backward,
        "limit_bytes": run.limit_bytes,
        "ran": run.ran,
        "verdict": outcome.verdict.name(),
        "oom_used_bytes": run.oom_used_bytes,
        "used_bytes": outcome.used_bytes,
        "time_s": run.seconds,
        "predicted_s": predicted_s.map(|predicted| predicted.model),
        "roofline_s": predicted_s.map(|predicted| predicted.roofline),
        "fitted_roofline_s": predicted_s.map(|predicted| predicted.fitted_roofline),
    })
}

fn structure(summary: &StructureSummary) -> Value {
    json!({
        "kernel": summary.structure,
        "time": errors(&summary.model),
        "roofline": errors(&summary.roofline),
        "fitted_roofline": errors(&summary.fitted_roofline),
        "verdicts": {"equal": summary.right, "wrong": summary.wrong},
    })
}
