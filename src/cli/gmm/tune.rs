//! `tune gmm`: block sizes of each product, ranked.

use comfy_table::Table;
use serde_json::{Value, json};
use tilecast::core::kernels::grouped_matmul::Product;
use tilecast::core::target::Target;
use tilecast::sim::experts::{Candidate, Request, products};
use tilecast::sim::{Verdict, bytes_text};

use super::{assumptions, blocks_json, blocks_text, given, headline, name, request, shape_json};
use crate::cli::Outcome;
use crate::cli::args::ProblemArgs;
use crate::cli::error::CliError;
use crate::cli::output::{number, print, print_json, print_table, table};
use crate::cli::report::{bytes_of, outcome, print_assumptions, range_json, time_text};

/// What is asked for.
pub(crate) struct Wanted<'a> {
    pub(crate) problem: &'a ProblemArgs,
    pub(crate) targets: &'a [&'static Target],
    pub(crate) vmem_limit_kib: Option<u32>,
    /// Rows of a table.
    pub(crate) top: usize,
    pub(crate) json: bool,
}

/// What was tried of one product on one target, best first.
struct Ranked {
    request: Request,
    product: Product,
    candidates: Vec<Candidate>,
}

/// Ranks the block sizes of each product on each target.
///
/// # Errors
/// A shape or blocks that are refused; a kernel that the model does not understand.
pub(crate) fn tune(wanted: &Wanted<'_>) -> Result<Outcome, CliError> {
    let schedule = &wanted.problem.schedule;
    let given = given(schedule)?;
    let mut ranked = Vec::new();
    let limit_bytes = bytes_of(wanted.vmem_limit_kib);
    for &target in wanted.targets {
        let request = request(wanted.problem, target, limit_bytes)?;
        for &product in products(schedule.pass.into()) {
            ranked.push(Ranked {
                candidates: request.rank(product, given)?,
                request,
                product,
            });
        }
    }
    match wanted.json {
        true => print_json(&document(&ranked))?,
        false => ranked.iter().try_for_each(|one| one.print(wanted.top))?,
    }
    let best = ranked.iter().filter_map(|one| one.candidates.first());
    let worst = best.map(|best| best.report.verdict).max();
    Ok(outcome(worst.unwrap_or(Verdict::Fits)))
}

impl Ranked {
    fn fitting(&self) -> impl Iterator<Item = &Candidate> {
        self.candidates.iter().filter(|candidate| candidate.fits())
    }

    fn print(&self, top: usize) -> Result<(), CliError> {
        print(format_args!(
            "{} of {}\n{} tried: {} fit\n",
            name(self.product),
            headline(&self.request),
            self.candidates.len(),
            self.fitting().count(),
        ))?;
        match self.candidates.first() {
            Some(best) if best.fits() => print_table(&self.table(top))?,
            best => {
                let reason = best.and_then(|best| best.report.reason.as_deref());
                print(format_args!("Nothing fits: {}", reason.unwrap_or_default()))?;
            }
        }
        print_assumptions(&assumptions(&self.request))?;
        print("")
    }

    fn table(&self, top: usize) -> Table {
        let mut table = table([
            "",
            "rows/part,inputs,outputs",
            "time",
            "range",
            "VMEM",
            "limit",
            "matrix units",
            "bound by",
        ]);
        for (i, candidate) in self.fitting().take(top).enumerate() {
            let Some(prediction) = &candidate.report.prediction else {
                break;
            };
            let [low, high] = prediction.time_range_s;
            table.add_row([
                number(i + 1),
                blocks_text(candidate.blocks).into(),
                number(time_text(prediction.time_s)),
                number(format!("{} to {}", time_text(low), time_text(high))),
                number(bytes_text(candidate.report.vmem.used_bytes() as f64)),
                number(bytes_text(candidate.vmem_limit_bytes as f64)),
                number(format!("{:.2}", prediction.mxu_fraction())),
                prediction.bounds.binding().0.into(),
            ]);
        }
        table
    }
}

fn document(ranked: &[Ranked]) -> Value {
    let request = ranked.first().map(|one| &one.request);
    let op = request.map(Request::op);
    let results: Vec<Value> = (ranked.iter())
        .flat_map(|one| one.candidates.iter().map(move |candidate| (one, candidate)))
        .map(|(one, candidate)| {
            let Candidate {
                blocks,
                report,
                vmem_limit_bytes,
            } = candidate;
            let prediction = report.prediction.as_ref();
            json!({
                "target": one.request.target().name,
                "product": name(one.product),
                "blocks": blocks_json(*blocks),
                "verdict": report.verdict.name(),
                "reason": report.reason,
                "vmem_used_bytes": report.vmem.used_bytes(),
                "vmem_limit_bytes": vmem_limit_bytes,
                "time_s": prediction.map(|prediction| prediction.time_s),
                "time_range_s": range_json(prediction.map(|prediction| prediction.time_range_s)),
                "cycles_per_core": prediction.map(|prediction| prediction.cycles_per_core),
                "mxu_fraction": prediction.map(|prediction| prediction.mxu_fraction()),
                "bottleneck": prediction.map(|prediction| prediction.bounds.binding().0),
            })
        })
        .collect();
    json!({
        "op": "gmm",
        "dtype": op.map(|op| op.dtype().name()),
        "shape": op.map(shape_json),
        "chips": request.map(Request::chips),
        "results": results,
    })
}
