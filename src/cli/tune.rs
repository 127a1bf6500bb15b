//! `tilecast tune`: many configurations, ranked.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::time::Duration;

use comfy_table::Table;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use tilecast::core::target::Target;
use tilecast::sim::memory::is_open;
use tilecast::sim::op::{BackwardPlan, Request};
use tilecast::sim::tune::{Counts, Row, Space, tune};
use tilecast::sim::{Verdict, bytes_text};

use super::Outcome;
use super::args::{CliError, Op, ProblemArgs, parse_target};
use super::file::Output;
use super::given::Given;
use super::output::{number, print, print_json, print_table, table};
use super::report::{
    assumptions, blocks_json, blocks_text, count_text, fit_text, headline, outcome, range_json,
    request, row_text, shape_json, space, time_text,
};

/// Try block sizes and strategies, and rank them by predicted time
///
/// Every candidate of one pass is combined with the best of the other. Each is marked fits, vmem_oom, hbm_oom or invalid,
/// with the reason. Exit code 3: nothing fits on some target.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  tilecast tune linear-ce --target v5p --tokens 8192 --config config.json\n  \
                  tilecast tune linear-ce --target v5p,v6e --tokens 8192 --hidden 4096 --vocab 128256 --csv tried.csv"
)]
pub(crate) struct Args {
    #[command(flatten)]
    given: Given,
    /// What to tune
    op: Op,
    /// TPU generations, separated by commas: v4, v5e, v5p, v6e, v7x
    #[arg(long, value_name = "T[,T...]", required = true, value_delimiter = ',', value_parser = parse_target)]
    target: Vec<&'static Target>,
    /// VMEM a kernel may use, KiB [default: the compiler's limit for each target]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), allow_negative_numbers = true)]
    vmem_limit_kib: Option<u32>,
    /// Rows of the table, per target
    #[arg(
        long,
        value_name = "N",
        default_value_t = 10,
        allow_negative_numbers = true
    )]
    top: usize,
    /// Print one JSON document with everything that was tried
    #[arg(long)]
    json: bool,
    /// Write everything that was tried to a file; replaced as a whole, or not touched on an error
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    #[command(flatten)]
    problem: ProblemArgs,
}

/// What was tried on one target, best first.
struct Tuned {
    request: Request,
    rows: Vec<Row>,
}

pub(crate) fn run(args: &Args) -> Result<Outcome, CliError> {
    args.op.require_head("tune")?;
    args.given.check(args.op)?;
    let mut targets = args.target.clone();
    targets.sort_by_key(|target| target.generation);
    targets.dedup_by_key(|target| target.generation);
    let csv = args.csv.as_deref().map(Output::new).transpose()?;
    let planned = (targets.into_iter())
        .map(|target| {
            let request = request(&args.problem, target, args.vmem_limit_kib)?;
            let space = space(&args.problem.schedule, &request)?;
            Ok((request, space))
        })
        .collect::<Result<Vec<_>, CliError>>()?;
    let tuned = sweep(planned)?;
    if let Some(csv) = csv {
        csv.write(|to| write_csv(to, &tuned))?;
    }
    match args.json {
        true => print_json(&document(args.op, &tuned))?,
        false => (tuned.iter()).try_for_each(|tuned| print_target(args.op, tuned, args.top))?,
    }
    let worst = (tuned.iter())
        .filter_map(|tuned| Some(tuned.rows.first()?.report.verdict))
        .max();
    Ok(outcome(worst.unwrap_or(Verdict::Fits)))
}

/// Evaluates everything, with a bar on a terminal.
fn sweep(planned: Vec<(Request, Space)>) -> Result<Vec<Tuned>, CliError> {
    let total = planned.iter().map(|(_, space)| space.len() as u64).sum();
    let bar = match io::stderr().is_terminal() {
        true => ProgressBar::new(total),
        false => ProgressBar::hidden(),
    };
    let style =
        ProgressStyle::with_template("{bar:40} {pos}/{len} configurations, {per_sec}, {eta} left");
    bar.set_style(style.map_err(CliError::failure)?);
    bar.enable_steady_tick(Duration::from_millis(100));
    let tuned = (planned.into_iter())
        .map(|(request, space)| {
            let rows = tune(&request, &space, || bar.inc(1)).map_err(CliError::invalid)?;
            Ok(Tuned { request, rows })
        })
        .collect();
    bar.finish_and_clear();
    tuned
}

fn counts<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Counts {
    let mut counts = Counts::default();
    rows.into_iter()
        .for_each(|row| counts.count(row.report.verdict));
    counts
}

fn print_target(op: Op, tuned: &Tuned, top: usize) -> Result<(), CliError> {
    let Tuned { request, rows } = tuned;
    let Counts {
        tried,
        fits,
        vmem_oom,
        hbm_oom,
        invalid,
    } = counts(rows);
    print(headline(op, request))?;
    print(format_args!(
        "{tried} tried: {fits} fit, {vmem_oom} vmem_oom, {hbm_oom} hbm_oom, {invalid} invalid\n"
    ))?;
    if let Some(best) = rows.first().filter(|row| row.report.total.is_none()) {
        let reason = best.report.reason.as_deref().unwrap_or_default();
        return print(format_args!(
            "Nothing fits. The nearest, {}: {reason}\n",
            row_text(best)
        ));
    }
    print_table(&ranking(rows, top))?;
    let open = rows.first().filter(|best| is_open(best.fit_probability));
    let warning = open.map(|best| {
        let fit = fit_text(best.vmem_margin_bytes, best.fit_probability);
        format!("VMEM of the first {fit}")
    });
    for sentence in comparison(rows).into_iter().chain(warning) {
        print(format_args!("\n{sentence}"))?;
    }
    print("\nAssumptions")?;
    for line in assumptions(request) {
        print(format_args!("  {line}"))?;
    }
    print("")
}

fn ranking(rows: &[Row], top: usize) -> Table {
    let mut table = table([
        "",
        "blocks",
        "backward blocks",
        "strategy",
        "chunk",
        "time",
        "range",
        "tokens/s",
        "VMEM",
        "bound by",
    ]);
    for (i, row) in rows.iter().take(top).enumerate() {
        let Some(total) = row.report.total else { break };
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".into());
        let plan = row.backward;
        let [low, high] = total.time_range_s;
        table.add_row([
            number(i + 1),
            or_none(row.forward.map(blocks_text)).into(),
            or_none(plan.map(|plan| blocks_text(plan.blocks))).into(),
            or_none(plan.map(|plan| plan.strategy().name().into())).into(),
            number(or_none(
                plan.and_then(|plan| plan.chunk_columns)
                    .map(|n| n.to_string()),
            )),
            number(time_text(total.time_s)),
            number(format!("{} to {}", time_text(low), time_text(high))),
            number(count_text(total.tokens_per_s)),
            number(bytes_text(row.vmem_used_bytes as f64)),
            row.bounds.binding().0.into(),
        ]);
    }
    table
}

/// Why the first is ahead of the second: the bound that differs most in its favour.
fn comparison(rows: &[Row]) -> Option<String> {
    let [first, second, ..] = rows else {
        return None;
    };
    let (a, b) = (first.report.total?, second.report.total?);
    let saved = (first.bounds.named().into_iter().zip(second.bounds.named()))
        .map(|((name, first), (_, second))| (name, first, second))
        .max_by(|x, y| (x.2 - x.1).total_cmp(&(y.2 - y.1)));
    let because = match saved {
        Some((name, first, second)) if second > first => {
            format!(
                "less {name}, {} against {}",
                time_text(first),
                time_text(second)
            )
        }
        _ => "no unit has less to do, but they overlap better".into(),
    };
    Some(format!(
        "First against second ({}): {:.2} % faster, {because}.",
        row_text(second),
        (b.time_s / a.time_s - 1.0) * 100.0
    ))
}

fn document(op: Op, tuned: &[Tuned]) -> Value {
    let mut rows: Vec<(&Target, &Row)> = (tuned.iter())
        .flat_map(|tuned| tuned.rows.iter().map(|row| (tuned.request.target(), row)))
        .collect();
    // Stable: rows of a target keep their order.
    let time = |row: &Row| row.report.total.map_or(f64::INFINITY, |total| total.time_s);
    rows.sort_by(|(_, a), (_, b)| {
        let verdicts = a.report.verdict.cmp(&b.report.verdict);
        verdicts.then(time(a).total_cmp(&time(b)))
    });
    let Counts {
        tried,
        fits,
        vmem_oom,
        hbm_oom,
        invalid,
    } = counts(rows.iter().map(|&(_, row)| row));
    let best = rows
        .first()
        .filter(|(_, row)| row.report.verdict == Verdict::Fits);
    let first = tuned.first().map(|tuned| &tuned.request);
    let assumptions: Vec<Value> = (tuned.iter())
        .map(|Tuned { request, .. }| {
            json!({ "target": request.target().name, "assumptions": assumptions(request) })
        })
        .collect();
    json!({
        "op": op.name(),
        "dtype": first.map(|request| request.problem().dtype().name()),
        "shape": first.map(shape_json),
        "chips": first.map(Request::chips),
        "best": best.map(|(target, row)| row_json(target, row)),
        "counts": {
            "tried": tried,
            "fits": fits,
            "vmem_oom": vmem_oom,
            "hbm_oom": hbm_oom,
            "invalid": invalid,
        },
        "assumptions": assumptions,
        "results": rows.iter().map(|(target, row)| row_json(target, row)).collect::<Vec<_>>(),
    })
}

fn row_json(target: &Target, row: &Row) -> Value {
    let plan = row.backward;
    let total = row.report.total;
    json!({
        "target": target.name,
        "strategy": plan.map(|plan| plan.strategy().name()),
        "blocks": blocks_json(row.forward),
        "backward_blocks": blocks_json(plan.map(|plan| plan.blocks)),
        "chunk_columns": plan.and_then(|plan| plan.chunk_columns),
        "verdict": row.report.verdict.name(),
        "reason": row.report.reason,
        "time_s": total.map(|total| total.time_s),
        "time_range_s": range_json(total.map(|total| total.time_range_s)),
        "tokens_per_s": total.map(|total| total.tokens_per_s),
        "vmem_used_bytes": row.vmem_used_bytes,
        "vmem_limit_bytes": row.vmem_limit_bytes,
        "margin_bytes": row.vmem_margin_bytes,
        "fit_probability": row.fit_probability,
        "hbm_used_bytes": row.report.hbm.used_bytes,
        "bottleneck": total.map(|_| row.bounds.binding().0),
    })
}

fn write_csv(to: impl io::Write, tuned: &[Tuned]) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(to);
    writer.write_record([
        "target",
        "strategy",
        "b",
        "h",
        "v",
        "backward_b",
        "backward_h",
        "backward_v",
        "chunk_columns",
        "verdict",
        "reason",
        "time_s",
        "time_low_s",
        "time_high_s",
        "tokens_per_s",
        "vmem_used_bytes",
        "vmem_limit_bytes",
        "hbm_used_bytes",
        "bottleneck",
    ])?;
    for Tuned { request, rows } in tuned {
        for row in rows {
            writer.write_record(csv_record(request.target(), row))?;
        }
    }
    writer.flush()
}

fn csv_record(target: &Target, row: &Row) -> Vec<String> {
    let empty_or = |text: Option<String>| text.unwrap_or_default();
    let plan: Option<BackwardPlan> = row.backward;
    let total = row.report.total;
    let blocks = |blocks: Option<tilecast::Blocks>| {
        let size = |f: fn(tilecast::Blocks) -> usize| empty_or(blocks.map(|b| f(b).to_string()));
        [
            size(|blocks| blocks.b),
            size(|blocks| blocks.h),
            size(|blocks| blocks.v),
        ]
    };
    let time =
        |f: fn(tilecast::sim::op::Total) -> f64| empty_or(total.map(|total| f(total).to_string()));
    let mut record = vec![
        target.name.to_owned(),
        empty_or(plan.map(|p| p.strategy().name().into())),
    ];
    record.extend(blocks(row.forward));
    record.extend(blocks(plan.map(|plan| plan.blocks)));
    record.extend([
        empty_or(
            plan.and_then(|plan| plan.chunk_columns)
                .map(|n| n.to_string()),
        ),
        row.report.verdict.name().into(),
        empty_or(row.report.reason.clone()),
        time(|total| total.time_s),
        time(|total| total.time_range_s[0]),
        time(|total| total.time_range_s[1]),
        time(|total| total.tokens_per_s),
        row.vmem_used_bytes.to_string(),
        row.vmem_limit_bytes.to_string(),
        row.report.hbm.used_bytes.to_string(),
        empty_or(total.map(|_| row.bounds.binding().0.into())),
    ]);
    record
}

#[cfg(test)]
mod tests;
