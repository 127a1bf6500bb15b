//! The comparison as tables.

use std::fmt::Write;

use tilecast::sim::validate::hardware::{self, RunOutcome};
use tilecast::sim::validate::point::Set;
use tilecast::sim::validate::ranking::choices;
use tilecast::sim::validate::{Agreement, Errors, Outcome, Summary, VERDICT_MARGIN};

use super::super::output::{number, table};
use super::{Report, groups};

pub(super) fn text(report: &Report) -> String {
    let mut text = String::new();
    for set in Set::ALL {
        sets(&mut text, report, set);
    }
    together(&mut text, report);
    wrong_verdicts(&mut text, &report.outcomes);
    rankings(&mut text, &report.outcomes);
    runs(&mut text, &report.runs);
    let constants: Vec<String> = (report.baselines.constants())
        .map(|(family, constant)| format!("{family} {constant:.2}"))
        .collect();
    line(
        &mut text,
        format_args!("\nfitted roofline: {}", constants.join(", ")),
    );
    if report.missing > 0 {
        let Report {
            missing,
            missing_reason,
            ..
        } = report;
        line(
            &mut text,
            format_args!("left out: {missing} foreign points; {missing_reason}"),
        );
    }
    let changed = report
        .outcomes
        .iter()
        .filter(|outcome| outcome.changed)
        .count();
    if changed > 0 {
        line(
            &mut text,
            format_args!(
                "{changed} points were measured on another text of the kernel than the one predicted here"
            ),
        );
    }
    for (name, reason) in &report.failures {
        line(
            &mut text,
            format_args!("no prediction for {name}: {reason}"),
        );
    }
    let points = report.outcomes.len() + report.runs.len();
    let _ = write!(text, "{points} points in {:.1} s", report.seconds);
    text
}

fn line(text: &mut String, line: impl std::fmt::Display) {
    let _ = writeln!(text, "{line}");
}

fn percent(value: f64) -> String {
    format!("{:.1}", 100.0 * value)
}

/// A statistic in per cent, or a dash.
fn cell(errors: &Option<Errors>, value: fn(&Errors) -> f64) -> String {
    errors
        .as_ref()
        .map_or("-".into(), |errors| percent(value(errors)))
}

fn sets(text: &mut String, report: &Report, set: Set) {
    let groups = groups(&report.outcomes, set);
    if groups.is_empty() {
        return;
    }
    let what = match set {
        Set::Fit => "figures of the model are fitted to these",
        Set::HeldOut => "kernels of this library, never fitted to",
        Set::Foreign => "kernels of other projects, never fitted to",
    };
    line(
        text,
        format_args!("{}: {what}. Errors in %, against libtpu", set.name()),
    );
    let mut rows = table([
        "",
        "points",
        "VMEM median",
        "p95",
        "exact but for spills",
        "verdicts equal",
        "cycles mean",
        "p95",
        "bias",
        "with copies mean",
        "roofline mean",
        "fitted roofline mean",
    ]);
    for (title, outcomes) in groups {
        let summary = Summary::of(&outcomes, &report.baselines);
        let [equal, wrong] = summary.verdicts;
        let share = match equal + wrong {
            0 => "-".into(),
            all => format!("{}/{all}", equal),
        };
        let mut row = vec![title.into(), number(summary.points)];
        row.extend(
            [
                cell(&summary.used_bytes, |errors| errors.median),
                cell(&summary.used_bytes, |errors| errors.p95),
                format!("{}/{}", summary.exact_ledgers, summary.points),
                share,
                cell(&summary.cycles, |errors| errors.mean),
                cell(&summary.cycles, |errors| errors.p95),
                cell(&summary.cycles, |errors| errors.bias),
                cell(&summary.with_copies, |errors| errors.mean),
                cell(&summary.roofline, |errors| errors.mean),
                cell(&summary.fitted_roofline, |errors| errors.mean),
            ]
            .map(number),
        );
        rows.add_row(row);
    }
    line(text, format_args!("{}\n", rows.trim_fmt()));
}

/// What the model was never fitted to, in one line, where there are kernels of both kinds.
fn together(text: &mut String, report: &Report) {
    let outcomes: Vec<&Outcome> = (report.outcomes.iter())
        .filter(|outcome| outcome.point.set != Set::Fit)
        .collect();
    let is_foreign = |outcome: &&Outcome| outcome.point.set == Set::Foreign;
    if !outcomes.iter().any(is_foreign) {
        return;
    }
    let Summary {
        used_bytes: Some(bytes),
        ..
    } = Summary::of(&outcomes, &report.baselines)
    else {
        return;
    };
    line(
        text,
        format_args!(
            "{} and {} together, {} compiled points: used VMEM median {:.2} %, p95 {:.2} %\n",
            Set::HeldOut.name(),
            Set::Foreign.name(),
            bytes.points,
            100.0 * bytes.median,
            100.0 * bytes.p95,
        ),
    );
}

fn wrong_verdicts(text: &mut String, outcomes: &[Outcome]) {
    let wrong: Vec<&Outcome> = (outcomes.iter())
        .filter(|outcome| outcome.agreement() == Agreement::Wrong)
        .collect();
    line(
        text,
        format_args!(
            "Wrong verdicts at the default limit, of points more than {} % away from it: {}",
            percent(VERDICT_MARGIN),
            wrong.len()
        ),
    );
    if wrong.is_empty() {
        return;
    }
    let mut rows = table(["set", "point", "predicted MiB", "measured MiB", "limit MiB"]);
    let mib = |bytes: u64| number(format!("{:.2}", bytes as f64 / f64::from(1 << 20)));
    for Outcome {
        point, predicted, ..
    } in wrong
    {
        rows.add_row(vec![
            point.set.name().into(),
            point.name().into(),
            mib(predicted.used_bytes),
            mib(point.measured.used_bytes),
            mib(point.target.default_vmem_limit_bytes.value),
        ]);
    }
    line(text, format_args!("{}", rows.trim_fmt()));
}

fn rankings(text: &mut String, outcomes: &[Outcome]) {
    for set in Set::ALL {
        let choices = choices(outcomes, set);
        if choices.is_empty() {
            continue;
        }
        let within = |share: f64| choices.iter().filter(|choice| choice.loss <= share).count();
        line(
            text,
            format_args!(
                "\n{}: the predicted best block size is the true best, or within 2 %, 5 % of it, in {}, {}, {} of {} shapes",
                set.name(),
                within(0.0),
                within(0.02),
                within(0.05),
                choices.len()
            ),
        );
    }
}

fn runs(text: &mut String, outcomes: &[RunOutcome]) {
    line(
        text,
        "\nPublished times on chips; stand-ins of the same structure. Errors in %",
    );
    let mut rows = table([
        "date",
        "kernel",
        "on",
        "type",
        "B H V",
        "blocks",
        "passes",
        "limit KiB",
        "verdict",
        "ms",
        "predicted",
        "error",
        "roofline",
        "fitted roofline",
    ]);
    for outcome in outcomes {
        let RunOutcome {
            run, predicted_s, ..
        } = outcome;
        let problem = &run.problem;
        let [forward, backward] = run.runs;
        let ms = |seconds: f64| format!("{:.2}", 1e3 * seconds);
        let measured = run.seconds.filter(|_| run.ran);
        let error = |predicted: f64| {
            measured.map_or("-".into(), |seconds| percent(predicted / seconds - 1.0))
        };
        let predicted = |of: &dyn Fn(f64) -> String,
                         value: fn(&hardware::PredictedSeconds) -> f64| {
            number(
                predicted_s
                    .as_ref()
                    .map_or("-".into(), |predicted| of(value(predicted))),
            )
        };
        rows.add_row(vec![
            run.date.as_str().into(),
            format!("{} {}", run.structure, run.variant)
                .trim_end()
                .into(),
            run.target.name.into(),
            problem.dtype().name().into(),
            format!(
                "{} {} {}",
                problem.tokens(),
                problem.hidden(),
                problem.vocab()
            )
            .into(),
            format!(
                "{},{},{}{}",
                run.blocks.b,
                run.blocks.h,
                run.blocks.v,
                if run.blocks_stated { "" } else { " ?" }
            )
            .into(),
            format!(
                "{}{}",
                "F".repeat(forward as usize),
                "B".repeat(backward as usize)
            )
            .into(),
            number(
                run.limit_bytes
                    .map_or("-".into(), |bytes| (bytes >> 10).to_string()),
            ),
            verdict(outcome).into(),
            number(measured.map_or("-".into(), ms)),
            predicted(&ms, |predicted| predicted.model),
            predicted(&error, |predicted| predicted.model),
            predicted(&error, |predicted| predicted.roofline),
            predicted(&error, |predicted| predicted.fitted_roofline),
        ]);
    }
    line(text, format_args!("{}", rows.trim_fmt()));
    line(
        text,
        "? blocks not stated; F forward, B backward; times that are not stated are -",
    );
    for summary in hardware::summaries(outcomes) {
        line(
            text,
            format_args!(
                "{}: mean error {} %, bias {} %; roofline {} %, fitted roofline {} %; verdicts right {} of {}",
                summary.structure,
                cell(&summary.model, |errors| errors.mean),
                cell(&summary.model, |errors| errors.bias),
                cell(&summary.roofline, |errors| errors.mean),
                cell(&summary.fitted_roofline, |errors| errors.mean),
                summary.right,
                summary.right + summary.wrong
            ),
        );
    }
}

fn verdict(outcome: &RunOutcome) -> String {
    let is = if outcome.run.ran { "fits" } else { "vmem_oom" };
    match outcome.verdict_is_right() {
        true => is.into(),
        false => format!("{is}, not {}", outcome.verdict.name()),
    }
}
