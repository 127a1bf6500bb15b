//! `tilecast simulate`: what one configuration needs and how long it takes.

mod json;

use comfy_table::Table;
use tilecast::core::target::Target;
use tilecast::sim::kernel::KernelReport;
use tilecast::sim::op::{OpReport, PassReport, Request};
use tilecast::sim::tune::{Row, best, nearest_fit};
use tilecast::sim::{Verdict, bytes_text};

use super::Outcome;
use super::args::{CliError, Op, ProblemArgs, parse_target};
use super::output::{number, print, print_json, print_table, table};
use super::report::{
    NOT_PREDICTED, assumptions, blocks_text, count_text, headline, headroom, outcome, request,
    row_text, space, time_text,
};

/// Say what an op needs on a TPU and how long it takes, without one
///
/// VMEM of every kernel and HBM of the op, against what the target has; the time each unit alone would take, and a
/// range for the whole. What is not given is chosen as `tune` would. Exit code 3: it does not fit.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  tilecast simulate linear-ce --target v5p --tokens 8192 --config config.json\n  \
                  tilecast simulate linear-ce --target v4 --tokens 65536 --hidden 512 --vocab 128256 --blocks 1024,512,1024"
)]
pub(crate) struct Args {
    /// What to simulate
    op: Op,
    /// TPU generation: v4, v5e, v5p, v6e, v7x
    #[arg(long, value_name = "T", value_parser = parse_target)]
    target: &'static Target,
    /// VMEM a kernel may use, KiB [default: the compiler's limit for the target]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), allow_negative_numbers = true)]
    vmem_limit_kib: Option<u32>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    problem: ProblemArgs,
}

pub(crate) fn run(args: &Args) -> Result<Outcome, CliError> {
    let request = request(&args.problem, args.target, args.vmem_limit_kib)?;
    let space = space(&args.problem, &request);
    let best = best(&request, &space, 1, || ()).map_err(CliError::invalid)?;
    let row = (best.rows)
        .first()
        .ok_or_else(|| CliError::failure("no pass is asked for"))?;
    let simulation = Simulation::new(args.op, &request, row)?;
    match args.json {
        true => print_json(&simulation.document())?,
        false => simulation.print()?,
    }
    Ok(outcome(row.report.verdict))
}

/// A configuration and everything that is known about it.
struct Simulation<'a> {
    op: Op,
    request: &'a Request,
    row: &'a Row,
    passes: Vec<(&'static str, PassReport)>,
    hint: Option<String>,
}

impl<'a> Simulation<'a> {
    fn new(op: Op, request: &'a Request, row: &'a Row) -> Result<Self, CliError> {
        let mut passes = Vec::new();
        if let Some(blocks) = row.forward {
            let report = request.forward(blocks).map_err(CliError::invalid)?;
            passes.push(("forward", report));
        }
        if let Some(plan) = row.backward {
            let report = request.backward(plan).map_err(CliError::invalid)?;
            passes.push(("backward", report));
        }
        let hint = match row.report.verdict {
            Verdict::VmemOom => hint(request, row).map_err(CliError::invalid)?,
            _ => None,
        };
        Ok(Self {
            op,
            request,
            row,
            passes,
            hint,
        })
    }

    /// Kernels with their pass and blocks.
    fn kernels(&self) -> impl Iterator<Item = (&'static str, tilecast::Blocks, &KernelReport)> {
        self.passes.iter().flat_map(|(pass, report)| {
            let blocks = match *pass {
                "forward" => self.row.forward,
                _ => self.row.backward.map(|plan| plan.blocks),
            };
            let kernels = report.kernels.iter();
            kernels.filter_map(move |kernel| Some((*pass, blocks?, kernel)))
        })
    }

    fn report(&self) -> &OpReport {
        &self.row.report
    }

    /// The answer, and why it is not `fits`.
    fn answer(&self) -> String {
        let report = self.report();
        let mut lines = vec![
            format!(
                "{}: {}",
                headline(self.op, self.request),
                report.verdict.name()
            ),
            row_text(self.row),
        ];
        if let Some(total) = report.total {
            let [low, high] = total.time_range_s;
            lines.push(format!(
                "{} ({} to {}), {} tokens/s, bound by {}",
                time_text(total.time_s),
                time_text(low),
                time_text(high),
                count_text(total.tokens_per_s),
                self.row.bounds.binding().0
            ));
        }
        let of_kernels = self.kernels().filter_map(|(_, _, kernel)| {
            let reason = kernel.reason.as_ref()?;
            Some(match kernel.verdict {
                // The reason names the kernel itself.
                Verdict::Invalid => reason.clone(),
                _ => format!("{} {reason}", kernel.name),
            })
        });
        lines.extend(of_kernels);
        if report.verdict == Verdict::HbmOom {
            lines.extend(report.reason.clone());
        }
        lines.extend(self.hint.clone());
        lines.extend(headroom(self.request, self.row));
        lines.join("\n") + "\n"
    }

    fn print(&self) -> Result<(), CliError> {
        print(self.answer())?;
        print_table(&self.overview())?;
        if self
            .kernels()
            .any(|(_, _, kernel)| kernel.prediction.is_some())
        {
            print("\nEach unit alone, as if nothing else took time; * binds")?;
            print_table(&self.bounds())?;
        }
        for (_, _, kernel) in self.kernels() {
            let vmem = &kernel.vmem;
            print(format_args!(
                "\nVMEM of {}: {} of {} ({} usable)",
                kernel.name,
                bytes_text(vmem.used_bytes() as f64),
                bytes_text(vmem.limit_bytes as f64),
                bytes_text(vmem.capacity_bytes as f64)
            ))?;
            print_table(&vmem_table(kernel))?;
        }
        self.print_hbm()?;
        print("\nNot predicted yet")?;
        for (field, why) in NOT_PREDICTED {
            print(format_args!("  {field}: {why}"))?;
        }
        print("\nAssumptions")?;
        assumptions(self.request)
            .iter()
            .try_for_each(|line| print(format_args!("  {line}")))
    }

    fn overview(&self) -> Table {
        let mut table = table([
            "kernel",
            "blocks",
            "launches",
            "grid steps",
            "time",
            "range",
            "MXU busy",
            "bound by",
            "verdict",
        ]);
        for (_, blocks, kernel) in self.kernels() {
            let prediction = kernel.prediction;
            let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".into());
            let range = prediction.map(|p| {
                let [low, high] = p.time_range_s;
                format!("{} to {}", time_text(low), time_text(high))
            });
            table.add_row([
                kernel.name.as_str().into(),
                blocks_text(blocks).into(),
                number(kernel.launches),
                number(count_text(kernel.grid_steps as f64)),
                number(or_none(prediction.map(|p| time_text(p.time_s)))),
                number(or_none(range)),
                number(or_none(
                    prediction.map(|p| format!("{:.0} %", p.mxu_fraction() * 100.0)),
                )),
                or_none(prediction.map(|p| p.bounds.binding().0.into())).into(),
                kernel.verdict.name().into(),
            ]);
        }
        let fits = self.report().total.is_some();
        for (pass, report) in (self.passes.iter()).filter(|(_, pass)| fits && pass.array_bytes > 0)
        {
            table.add_row([
                format!("arrays, {pass}").into(),
                "".into(),
                "".into(),
                "".into(),
                number(time_text(report.array_s)),
                "".into(),
                "".into(),
                "hbm".into(),
            ]);
        }
        table
    }

    fn bounds(&self) -> Table {
        let names = self.row.bounds.named().map(|(name, _)| name);
        let mut table = table(["kernel"].into_iter().chain(names));
        for (_, _, kernel) in self.kernels() {
            let Some(prediction) = kernel.prediction else {
                continue;
            };
            let binding = prediction.bounds.binding().0;
            let mut cells = vec![kernel.name.as_str().into()];
            cells.extend(prediction.bounds.named().map(|(name, seconds)| {
                let mark = if name == binding { "*" } else { "" };
                number(format!("{}{mark}", time_text(seconds)))
            }));
            table.add_row(cells);
        }
        table
    }

    fn print_hbm(&self) -> Result<(), CliError> {
        let hbm = &self.report().hbm;
        print(format_args!(
            "\nHBM of a chip: {} of {}",
            bytes_text(hbm.used_bytes as f64),
            bytes_text(hbm.capacity_bytes as f64)
        ))?;
        let largest = hbm.terms.iter().map(|&(_, bytes)| bytes).max().unwrap_or(0);
        let mut table = table(["array", "bytes", ""]);
        for &(name, bytes) in &hbm.terms {
            table.add_row([
                name.into(),
                number(bytes_text(bytes as f64)),
                bar(bytes, largest).into(),
            ]);
        }
        print_table(&table)?;
        let unfused = self.unfused();
        print(format_args!(
            "Without fusion, logits stored: {}, of which {}",
            bytes_text(sum(&unfused) as f64),
            (unfused.iter())
                .filter(|(name, _)| name.contains("logits"))
                .map(|(name, bytes)| format!("{name} {}", bytes_text(*bytes as f64)))
                .collect::<Vec<_>>()
                .join("; ")
        ))
    }

    fn unfused(&self) -> Vec<(&'static str, u128)> {
        self.request.unfused_hbm(self.row.backward.is_some())
    }
}

/// For blocks that need too much VMEM, the nearest that do not.
fn hint(request: &Request, row: &Row) -> Result<Option<String>, tilecast::sim::op::SimError> {
    let mut hints = Vec::new();
    if let Some(blocks) = row.forward
        && request.forward(blocks)?.verdict == Verdict::VmemOom
    {
        let nearest = nearest_fit(request, blocks, |blocks| request.forward(blocks))?;
        hints.extend(nearest.map(|blocks| format!("--blocks {}", blocks_text(blocks))));
    }
    if let Some(plan) = row.backward
        && request.backward(plan)?.verdict == Verdict::VmemOom
    {
        let nearest = nearest_fit(request, plan.blocks, |blocks| {
            request.backward(tilecast::sim::op::BackwardPlan { blocks, ..plan })
        })?;
        hints.extend(nearest.map(|blocks| format!("--backward-blocks {}", blocks_text(blocks))));
    }
    let fits = match hints.len() {
        0 => return Ok(None),
        1 => "fits",
        _ => "fit",
    };
    Ok(Some(format!("nearest that {fits}: {}", hints.join(" "))))
}

/// The ledger, with a bar for each term's share of the limit.
fn vmem_table(kernel: &KernelReport) -> Table {
    let mut table = table(["buffer", "kind", "buffers", "bytes", "share of the limit"]);
    for term in &kernel.vmem.terms {
        table.add_row([
            term.name.as_str().into(),
            term.kind.name().into(),
            number(term.buffers),
            number(bytes_text(term.bytes as f64)),
            bar(term.bytes, kernel.vmem.limit_bytes).into(),
        ]);
    }
    table.add_row([
        "sum".into(),
        "".into(),
        "".into(),
        number(bytes_text(kernel.vmem.used_bytes() as f64)),
        bar(kernel.vmem.used_bytes(), kernel.vmem.limit_bytes).into(),
    ]);
    table
}

/// A bar of 40 characters for the whole; what is beyond is cut off and marked.
fn bar(part: u64, whole: u64) -> String {
    const LENGTH: f64 = 40.0;
    let share = part as f64 / whole.max(1) as f64;
    let filled = "#".repeat((share.min(1.0) * LENGTH).round() as usize);
    match share {
        share if share > 1.0 => format!("{filled}> {:.0} %", share * 100.0),
        share => format!("{filled} {:.0} %", share * 100.0),
    }
}

fn sum(terms: &[(&str, u128)]) -> u128 {
    terms.iter().map(|&(_, bytes)| bytes).sum()
}

#[cfg(test)]
mod tests;
