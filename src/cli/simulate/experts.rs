//! `simulate gmm`: each product in the blocks that are given, or in the fastest.

use serde_json::{Value, json};
use tilecast::sim::experts::{self, Exchange, Request};
use tilecast::sim::trace::Process;
use tilecast::sim::{Verdict, bytes_text};

use super::tables::{self, Shown, ShownBlocks};
use super::{Args, TRACED_STEPS, json};
use crate::cli::args::ProblemArgs;
use crate::cli::error::CliError;
use crate::cli::gmm;
use crate::cli::output::print;
use crate::cli::report::{bytes_of, count_text, expected_error_json, print_assumptions, time_text};

/// The op and everything that is known about it.
pub(super) struct Simulation {
    request: Request,
    simulation: experts::Simulation,
    /// Blocks that fit, where those that are given do not.
    hint: Option<String>,
}

impl Simulation {
    /// Judges the products of the passes that are asked for.
    ///
    /// # Errors
    /// A shape or blocks that are refused.
    pub(super) fn new(problem: &ProblemArgs, args: &Args) -> Result<Self, CliError> {
        let given = bytes_of(args.vmem_limit_kib);
        let limit_bytes = given.unwrap_or(args.target.default_vmem_limit_bytes.value);
        let request = gmm::request(problem, args.target, Some(limit_bytes))?;
        let passes = problem.schedule.pass.into();
        let simulation = request.simulate(passes, gmm::given(&problem.schedule)?)?;
        Ok(Self {
            hint: hint(&request, &simulation)?,
            request,
            simulation,
        })
    }

    pub(super) fn verdict(&self) -> Verdict {
        self.simulation.report.verdict
    }

    /// What each kernel does over time.
    pub(super) fn trace(&self) -> Result<Vec<Process>, CliError> {
        Ok(self.request.trace(&self.simulation, TRACED_STEPS)?)
    }

    fn kernels(&self) -> Vec<Shown<'_>> {
        let shown = self.simulation.best.iter().map(|(product, one)| Shown {
            pass: Some(gmm::pass(*product)),
            blocks: Some(ShownBlocks {
                text: gmm::blocks_text(one.blocks),
                json: gmm::blocks_json(one.blocks),
            }),
            kernel: &one.report,
        });
        shown.collect()
    }

    fn assumptions(&self) -> Vec<String> {
        let mut lines = tables::assumptions(&self.kernels());
        lines.extend(gmm::assumptions(&self.request));
        lines
    }

    pub(super) fn print(&self) -> Result<(), CliError> {
        let (report, kernels) = (&self.simulation.report, self.kernels());
        let headline = gmm::headline(&self.request);
        print(format_args!("{headline}: {}", report.verdict.name()))?;
        if let Some(total) = report.total {
            let [low, high] = total.time_range_s;
            print(format_args!(
                "{} ({} to {}), {} rows/s",
                time_text(total.time_s),
                time_text(low),
                time_text(high),
                count_text(total.tokens_per_s),
            ))?;
        }
        if let Some(reason) = &report.reason {
            print(reason)?;
        }
        if let Some(hint) = &self.hint {
            print(hint)?;
        }
        print(format_args!("{}\n", tables::tightest(&kernels)))?;
        tables::print_kernels(&kernels, None)?;
        tables::print_hbm(&report.hbm)?;
        self.print_exchanges()?;
        print_assumptions(&self.assumptions())
    }

    fn print_exchanges(&self) -> Result<(), CliError> {
        let exchanges = &self.simulation.exchanges;
        if exchanges.is_empty() {
            return Ok(());
        }
        let chips = (self.request.spread()).exchanging_chips(self.request.target());
        print(format_args!(
            "\nBetween {chips} chips, each of which sends to each the rows of its experts; not in the times above"
        ))?;
        for (name, exchange) in exchanges {
            let Exchange {
                chip_bytes,
                at_least_s,
            } = *exchange;
            print(format_args!(
                "  {name}: {} of each chip, at least {}",
                bytes_text(chip_bytes as f64),
                time_text(at_least_s)
            ))?;
        }
        Ok(())
    }

    /// Everything that is known, as one document.
    pub(super) fn document(&self) -> Value {
        let report = &self.simulation.report;
        let rows = self.request.op().rows() as f64;
        let kernels: Vec<Value> = (self.kernels().iter())
            .map(|shown| json::kernel(shown, Some(rows)))
            .collect();
        let exchanges = self.simulation.exchanges.iter().map(|(name, exchange)| {
            json!({
                "name": name,
                "chip_bytes": exchange.chip_bytes,
                "at_least_s": exchange.at_least_s,
            })
        });
        json!({
            "op": "gmm",
            "target": self.request.target().name,
            "dtype": self.request.op().dtype().name(),
            "shape": gmm::shape_json(self.request.op()),
            "device_shape": gmm::shape_json(self.request.device_op()),
            "chips": self.request.chips(),
            "verdict": report.verdict.name(),
            "reason": report.reason,
            "hint": self.hint,
            "kernels": kernels,
            "hbm": json::hbm(&report.hbm),
            "exchanges": exchanges.collect::<Vec<_>>(),
            "total": json::total(report.total),
            "expected_error": expected_error_json(),
            "assumptions": self.assumptions(),
        })
    }
}

/// The fastest blocks of products whose own do not fit.
fn hint(request: &Request, simulation: &experts::Simulation) -> Result<Option<String>, CliError> {
    let mut hints = Vec::new();
    for (product, one) in &simulation.best {
        if one.fits() {
            continue;
        }
        let ranked = request.rank(*product, [None; 2])?;
        if let Some(best) = ranked.first().filter(|best| best.fits()) {
            let blocks = gmm::blocks_text(best.blocks);
            hints.push(format!("{} in {blocks}", gmm::name(*product)));
        }
    }
    let hint = format!("the fastest that fit: {}", hints.join(", "));
    Ok((!hints.is_empty()).then_some(hint))
}
