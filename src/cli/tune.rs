//! `tilecast tune`: many configurations, ranked.

mod explain;
mod html;
mod models;

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::time::Duration;

use comfy_table::Table;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use tilecast::core::kernels::linear_ce::LinearCe;
use tilecast::core::target::Target;
use tilecast::sim::op::{MOST_OPERATIONS, Request, Total};
use tilecast::sim::problem::{BlockSizes, PassBlocks, Problem};
use tilecast::sim::tune::{Best, Counts, Row, Search, Space};
use tilecast::sim::{Verdict, bytes_text};

use super::Outcome;
use super::args::{Op, ProblemArgs, parse_target};
use super::error::CliError;
use super::file::Output;
use super::given::Given;
use super::gmm;
use super::output::{number, print, print_json, print_table, table};
use super::report::{
    assumptions, blocks_json, count_text, forward_plan_text, headline, outcome, plan_text,
    range_json, request, row_text, shape_json, space, time_text,
};
use super::sizes::OfSizes;

/// Try block sizes and strategies, and rank them by predicted time
///
/// Every candidate of one pass is combined with the best of the other. Each is marked fits, vmem_oom, hbm_oom or
/// invalid, with the reason. Exit code 3: nothing fits on some target.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  tilecast tune linear-ce --target v5p --tokens 8192 --config config.json\n  \
                  tilecast tune linear-ce --target v5p,v6e --tokens 8192 --hidden 4096 --vocab 128256 --html blocks.html\n  \
                  tilecast tune linear-ce --target v5p,v6e --tokens 8192 --models llama/config.json,qwen/config.json\n  \
                  tilecast tune gmm --target v5p --tokens 16384 --experts 8 --hidden 4096 --out-features 14336"
)]
pub(crate) struct Args {
    #[command(flatten)]
    given: Given,
    /// What to tune
    op: Op,
    /// TPU generations, separated by commas: v4, v5e, v5p, v6e, v7x
    #[arg(long, value_name = "T[,T...]", required = true, value_delimiter = ',', value_parser = parse_target)]
    target: Vec<&'static Target>,
    /// VMEM a kernel may use, KiB [default: what it needs, with room for more register spills than predicted]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), allow_negative_numbers = true)]
    vmem_limit_kib: Option<u32>,
    /// Prefer kernels of at most so many operations on registers: what makes the time to compile them
    #[arg(long, value_name = "N", default_value_t = MOST_OPERATIONS as u64, allow_negative_numbers = true)]
    most_operations: u64,
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
    /// Write a page with a heat map of everything that was tried, for any browser; replaced as a whole, or not touched
    /// on an error
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print the best block sizes for each of these models, Hugging Face config.json files separated by commas
    #[arg(long, value_name = "FILE[,FILE...]", value_delimiter = ',',
        conflicts_with_all = ["config", "hidden", "vocab", "csv", "html", "top"])]
    models: Vec<PathBuf>,
    #[command(flatten)]
    problem: ProblemArgs,
}

/// What was tried on one target, best first.
struct Tuned<P: Problem = LinearCe> {
    request: Request<P>,
    rows: Vec<Row<P::Blocks>>,
    /// Candidates that cannot be among the rows that are asked for.
    slower: usize,
    /// The best that needs no raised limit, where the first row does.
    at_default_limit: Option<Row<P::Blocks>>,
}

impl<P: Problem> Tuned<P> {
    fn new(request: Request<P>, Best { rows, slower }: Best<P::Blocks>) -> Self {
        Self {
            request,
            rows,
            slower,
            at_default_limit: None,
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<Outcome, CliError> {
    args.given.check(args.op)?;
    match args.op {
        Op::LinearCe => run_on(args, ProblemArgs::problem),
        op @ (Op::LinearGrpo | Op::LinearEntropy) => run_on(args, |problem| problem.linear(op)),
        op @ (Op::LogitsCe | Op::Grpo | Op::Entropy) => {
            run_on(args, |problem| problem.on_logits(op))
        }
        Op::Gmm => gmm::tune(&gmm::Wanted {
            problem: &args.problem,
            targets: &sorted(&args.target),
            vmem_limit_kib: args.vmem_limit_kib,
            top: args.top,
            json: args.json,
        }),
    }
}

/// Each target once, oldest first.
fn sorted(targets: &[&'static Target]) -> Vec<&'static Target> {
    let mut targets = targets.to_vec();
    targets.sort_by_key(|target| target.generation);
    targets.dedup_by_key(|target| target.generation);
    targets
}

/// Runs with the problem that `problem` makes of the options.
fn run_on<P: Problem<Blocks: OfSizes>>(
    args: &Args,
    problem: impl Fn(&ProblemArgs) -> Result<P, CliError>,
) -> Result<Outcome, CliError> {
    let targets = sorted(&args.target);
    if !args.models.is_empty() {
        return models::run(args, &targets, problem);
    }
    let csv = args.csv.as_deref().map(Output::new).transpose()?;
    let html = args.html.as_deref().map(Output::new).transpose()?;
    let everything = args.json || csv.is_some() || html.is_some();
    let top = if everything { usize::MAX } else { args.top };
    let problem = problem(&args.problem)?;
    let mut planned = (targets.into_iter())
        .map(|target| {
            let request = request_of(problem, &args.problem, target, args)?;
            let space = space(&args.problem.schedule, &request)?;
            Ok((Search::new(request), space))
        })
        .collect::<Result<Vec<_>, CliError>>()?;
    let mut tuned = sweep(&mut planned, top)?;
    for ((search, _), tuned) in planned.iter_mut().zip(&mut tuned) {
        tuned.at_default_limit = at_default_limit(args, search, tuned)?;
    }
    if let Some(csv) = csv {
        csv.write(|to| write_csv(to, &tuned))?;
    }
    if let Some(html) = html {
        html.write(|to| html::write(to, args.op, &tuned))?;
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

/// A request for what `described` describes; without a limit, kernels may raise it.
fn request_of<P: Problem>(
    problem: P,
    described: &ProblemArgs,
    target: &'static Target,
    args: &Args,
) -> Result<Request<P>, CliError> {
    let request = request(problem, described, target, args.vmem_limit_kib)?;
    let request = request.most_operations(args.most_operations as f64);
    Ok(match args.vmem_limit_kib {
        Some(_) => request,
        None => request.raising_limit(),
    })
}

/// The best within the default limit, if the first row needs more.
fn at_default_limit<P: Problem<Blocks: OfSizes>>(
    args: &Args,
    search: &mut Search<P>,
    tuned: &Tuned<P>,
) -> Result<Option<Row<P::Blocks>>, CliError> {
    let default = search.request().target().default_vmem_limit_bytes.value;
    let raised = tuned.rows.first().is_some_and(|row| {
        args.vmem_limit_kib.is_none()
            && row.report.total.is_some()
            && row.vmem_limit_bytes > default
    });
    if !raised {
        return Ok(None);
    }
    let space = space(&args.problem.schedule, &search.request().at_default_limit())?;
    let found = search.best_at_default_limit(&space, 1);
    Ok(found.map_err(CliError::invalid)?.rows.into_iter().next())
}

/// What is asked for on one target, and what is tried.
type Planned<P> = (Search<P>, Space<<P as Problem>::Blocks>);

/// Finds the best `top` of everything, with a bar on a terminal.
fn sweep<P: Problem>(planned: &mut [Planned<P>], top: usize) -> Result<Vec<Tuned<P>>, CliError> {
    let total = planned.iter().map(|(_, space)| space.len() as u64).sum();
    let bar = match io::stderr().is_terminal() {
        true => ProgressBar::new(total),
        false => ProgressBar::hidden(),
    };
    let style =
        ProgressStyle::with_template("{bar:40} {pos}/{len} configurations, {per_sec}, {eta} left");
    bar.set_style(style.map_err(CliError::failure)?);
    bar.enable_steady_tick(Duration::from_millis(100));
    let tuned = (planned.iter_mut())
        .map(|(search, space)| {
            let best = search.best(space, top, || bar.inc(1));
            Ok(Tuned::new(
                *search.request(),
                best.map_err(CliError::invalid)?,
            ))
        })
        .collect();
    bar.finish_and_clear();
    tuned
}

fn counts<'a, B: PassBlocks + 'a>(rows: impl IntoIterator<Item = &'a Row<B>>) -> Counts {
    let mut counts = Counts::default();
    rows.into_iter()
        .for_each(|row| counts.count(row.report.verdict));
    counts
}

fn counts_text(tuned: &Tuned<impl Problem>) -> String {
    let Counts {
        tried,
        fits,
        vmem_oom,
        hbm_oom,
        invalid,
    } = counts(&tuned.rows);
    let slower = match tuned.slower {
        0 => String::new(),
        slower => format!("; {slower} more are slower than these whatever they wait for"),
    };
    format!(
        "{tried} tried: {fits} fit, {vmem_oom} vmem_oom, {hbm_oom} hbm_oom, {invalid} invalid{slower}"
    )
}

fn print_target(op: Op, tuned: &Tuned<impl Problem>, top: usize) -> Result<(), CliError> {
    let Tuned { request, rows, .. } = tuned;
    print(headline(op, request))?;
    print(format_args!("{}\n", counts_text(tuned)))?;
    if let Some(best) = rows.first().filter(|row| row.report.total.is_none()) {
        let reason = best.report.reason.as_deref().unwrap_or_default();
        return print(format_args!(
            "Nothing fits. The nearest, {}: {reason}\n",
            row_text(best)
        ));
    }
    print_table(&ranking(rows, top))?;
    for sentence in explain::sentences(tuned) {
        print(format_args!("\n{sentence}"))?;
    }
    print("\nAssumptions")?;
    for line in assumptions(request) {
        print(format_args!("  {line}"))?;
    }
    print("")
}

fn ranking(rows: &[Row<impl PassBlocks>], top: usize) -> Table {
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
        "limit",
        "bound by",
    ]);
    for (i, row) in rows.iter().take(top).enumerate() {
        let Some(total) = row.report.total else { break };
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".into());
        let plan = row.backward;
        let [low, high] = total.time_range_s;
        table.add_row([
            number(i + 1),
            or_none(row.forward.as_ref().map(forward_plan_text)).into(),
            or_none(plan.as_ref().map(plan_text)).into(),
            or_none(plan.and_then(|plan| plan.strategy_name()).map(Into::into)).into(),
            number(or_none(
                plan.and_then(|plan| plan.chunk_columns)
                    .map(|n| n.to_string()),
            )),
            number(time_text(total.time_s)),
            number(format!("{} to {}", time_text(low), time_text(high))),
            number(count_text(total.tokens_per_s)),
            number(bytes_text(row.vmem_used_bytes as f64)),
            number(bytes_text(row.vmem_limit_bytes as f64)),
            row.bounds.binding().0.into(),
        ]);
    }
    table
}

fn document<P: Problem>(op: Op, tuned: &[Tuned<P>]) -> Value {
    let mut rows: Vec<(&Target, &Row<P::Blocks>)> = (tuned.iter())
        .flat_map(|tuned| tuned.rows.iter().map(|row| (tuned.request.target(), row)))
        .collect();
    // Stable: rows of a target keep their order.
    let time = |row: &Row<P::Blocks>| row.report.total.map_or(f64::INFINITY, |total| total.time_s);
    rows.sort_by(|(_, a), (_, b)| {
        let verdicts = a.report.verdict.cmp(&b.report.verdict);
        let compiled_soon = b.compiles_soon.cmp(&a.compiles_soon);
        verdicts
            .then(compiled_soon)
            .then(time(a).total_cmp(&time(b)))
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
        "chips": first.map(|request| request.chips()),
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

fn row_json(target: &Target, row: &Row<impl PassBlocks>) -> Value {
    let plan = row.backward;
    let product = |i: usize| Some(plan?.product_blocks[i]?.sizes());
    let total = row.report.total;
    json!({
        "target": target.name,
        "strategy": plan.and_then(|plan| plan.strategy_name()),
        "blocks": blocks_json(row.forward.map(|plan| plan.blocks.sizes())),
        "x_form": row.forward.map(|plan| plan.x.name()),
        "backward_blocks": blocks_json(plan.map(|plan| plan.blocks.sizes())),
        "dx_blocks": blocks_json(product(0)),
        "dw_blocks": blocks_json(product(1)),
        "delta_columns": plan.and_then(|plan| plan.delta_columns),
        "chunk_columns": plan.and_then(|plan| plan.chunk_columns),
        "rounds_w": plan.map(|plan| plan.rounds_w),
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
        "operations": row.operations,
        "bottleneck": total.map(|_| row.bounds.binding().0),
    })
}

fn write_csv(to: impl io::Write, tuned: &[Tuned<impl Problem>]) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(to);
    writer.write_record([
        "target",
        "strategy",
        "b",
        "h",
        "v",
        "x_form",
        "backward_b",
        "backward_h",
        "backward_v",
        "dx_b",
        "dx_h",
        "dw_b",
        "dw_h",
        "delta_columns",
        "chunk_columns",
        "rounds_w",
        "verdict",
        "reason",
        "time_s",
        "time_low_s",
        "time_high_s",
        "tokens_per_s",
        "vmem_used_bytes",
        "vmem_limit_bytes",
        "hbm_used_bytes",
        "operations",
        "bottleneck",
    ])?;
    for Tuned { request, rows, .. } in tuned {
        for row in rows {
            writer.write_record(csv_record(request.target(), row))?;
        }
    }
    writer.flush()
}

fn csv_record(target: &Target, row: &Row<impl PassBlocks>) -> Vec<String> {
    let empty_or = |text: Option<String>| text.unwrap_or_default();
    let plan = row.backward;
    let total = row.report.total;
    let sizes = |sizes: Option<BlockSizes>| {
        let size = |f: fn(BlockSizes) -> Option<usize>| {
            empty_or(sizes.and_then(f).map(|size| size.to_string()))
        };
        [
            size(|sizes| Some(sizes.b)),
            size(|sizes| sizes.h),
            size(|sizes| Some(sizes.v)),
        ]
    };
    let time = |f: fn(Total) -> f64| empty_or(total.map(|total| f(total).to_string()));
    let mut record = vec![
        target.name.to_owned(),
        empty_or(plan.and_then(|plan| plan.strategy_name()).map(Into::into)),
    ];
    record.extend(sizes(row.forward.map(|plan| plan.blocks.sizes())));
    record.push(empty_or(row.forward.map(|plan| plan.x.name().into())));
    record.extend(sizes(plan.map(|plan| plan.blocks.sizes())));
    for i in 0..2 {
        let [b, h, _] = sizes(plan.and_then(|plan| Some(plan.product_blocks[i]?.sizes())));
        record.extend([b, h]);
    }
    record.extend([
        empty_or(
            plan.and_then(|plan| plan.delta_columns)
                .map(|n| n.to_string()),
        ),
        empty_or(
            plan.and_then(|plan| plan.chunk_columns)
                .map(|n| n.to_string()),
        ),
        empty_or(plan.map(|plan| plan.rounds_w.to_string())),
        row.report.verdict.name().into(),
        empty_or(row.report.reason.clone()),
        time(|total| total.time_s),
        time(|total| total.time_range_s[0]),
        time(|total| total.time_range_s[1]),
        time(|total| total.tokens_per_s),
        row.vmem_used_bytes.to_string(),
        row.vmem_limit_bytes.to_string(),
        row.report.hbm.used_bytes.to_string(),
        row.operations.to_string(),
        empty_or(total.map(|_| row.bounds.binding().0.into())),
    ]);
    record
}

#[cfg(test)]
mod tests;
