//! What `simulate` and `tune` share: numbers for reading, pieces of JSON, and what the model assumes.

use std::fmt::Display;

use serde_json::{Value, json};
use tilecast::core::target::Target;
use tilecast::sim::kernel::{Bounds, CYCLES_ERROR, core_bytes_per_s};
use tilecast::sim::memory::{FIT_PROBABILITY, SPILL_ERROR, is_open, room_bytes};
use tilecast::sim::op::Request;
use tilecast::sim::pipeline::devices_per_chip;
use tilecast::sim::plan::{BackwardPlan, ForwardPlan};
use tilecast::sim::problem::{BlockSizes, PassBlocks, Problem};
use tilecast::sim::tune::{Row, Space};
use tilecast::sim::{Verdict, bytes_text};
use tilecast::{DType, Strategy, Structure, XForm};

use super::Outcome;
use super::args::{Op, OwnBlocks, Pass, ProblemArgs, ScheduleArgs, StrategyChoice};
use super::error::CliError;
use super::output::print;
use super::sizes::OfSizes;

/// A VMEM limit in bytes.
pub(crate) fn bytes_of(vmem_limit_kib: Option<u32>) -> Option<u64> {
    vmem_limit_kib.map(|kib| u64::from(kib) << 10)
}

/// A request for `problem`, that of `args`, on `target`.
pub(crate) fn request<P: Problem>(
    problem: P,
    args: &ProblemArgs,
    target: &'static Target,
    vmem_limit_kib: Option<u32>,
) -> Result<Request<P>, CliError> {
    let limit_bytes = bytes_of(vmem_limit_kib);
    let chips = args.chips as usize;
    let request = Request::new(problem, target, chips, limit_bytes).map_err(CliError::invalid)?;
    let request = request.products(args.f32_products.into());
    Ok(request.structure(args.structure.into()))
}

/// What is tried: given blocks and strategy, else all.
///
/// # Errors
/// Block sizes of another op.
pub(crate) fn space<P: Problem<Blocks: OfSizes>>(
    schedule: &ScheduleArgs,
    request: &Request<P>,
) -> Result<Space<P::Blocks>, CliError> {
    let strategies = strategies(schedule, request.kernel_structure());
    let given = schedule.own_blocks();
    let strategies = match given == OwnBlocks::default() {
        true => strategies,
        false if strategies.contains(&Strategy::Streaming) => vec![Strategy::Streaming],
        false => {
            return Err(CliError::invalid(
                "--dx-blocks, --dw-blocks and --delta-columns are of the strategy streaming; leave them out",
            ));
        }
    };
    let space = Space::new(
        request,
        passes(schedule.pass),
        schedule.blocks(|sizes| P::Blocks::of(sizes, request.target()))?,
        &strategies,
    );
    let OwnBlocks {
        products,
        delta_columns,
    } = given;
    Ok(space.with_own_blocks(products, delta_columns, request))
}

/// The given strategy, or all that published kernels have if theirs is the structure.
pub(crate) fn strategies(schedule: &ScheduleArgs, structure: Structure) -> Vec<Strategy> {
    match (schedule.strategy, structure) {
        (StrategyChoice(Some(strategy)), _) => vec![strategy],
        (StrategyChoice(None), Structure::Overlapped) => Strategy::ALL.to_vec(),
        (StrategyChoice(None), Structure::InTurn) => vec![Strategy::Combined],
    }
}

/// Whether each pass is wanted.
pub(crate) const fn passes(pass: Pass) -> [bool; 2] {
    [pass.forward(), pass.backward()]
}

/// The outcome of a verdict.
pub(crate) fn outcome(verdict: Verdict) -> Outcome {
    match verdict {
        Verdict::Fits => Outcome::Done,
        _ => Outcome::DoesNotFit,
    }
}

/// One line on what is computed where.
pub(crate) fn headline(op: Op, request: &Request<impl Problem>) -> String {
    let problem = request.problem();
    let chips = match request.chips() {
        1 => String::new(),
        chips => format!(" x {chips} chips"),
    };
    let hidden = (problem.hidden()).map_or(String::new(), |hidden| format!("H={hidden} "));
    format!(
        "{} on {}{chips}, {}: B={} {hidden}V={}",
        op.name(),
        request.target(),
        problem.dtype(),
        problem.tokens(),
        problem.vocab()
    )
}

/// What the prediction takes for granted.
pub(crate) fn assumptions(request: &Request<impl Problem>) -> Vec<String> {
    let mut lines = Vec::new();
    let devices = devices_per_chip(request.target());
    if request.chips() > 1 || devices > 1 {
        let part = |count: usize, what: &str| match count {
            1 => None,
            count => Some(format!("{count} {what}")),
        };
        let parts = [
            part(request.chips(), "chips"),
            part(devices, "devices per chip"),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        let [each, sum] = match request.problem().hidden() {
            Some(_) => [
                ", each with all of w",
                "; the sum of dw over them is not counted",
            ],
            None => [""; 2],
        };
        lines.push(format!(
            "the batch is split over {}{each}; {} tokens each{sum}",
            parts.join(" x "),
            request.device_problem().tokens()
        ));
    }
    if request.problem().hidden().is_some() && request.problem().dtype() == DType::F32 {
        lines.push(match request.product_passes() {
            1 => "f32 inputs are rounded to bf16 for the products".into(),
            passes => format!(
                "products of f32 inputs are exact, {passes} passes of the matrix units; --f32-products rounded takes 1"
            ),
        });
    }
    if request.kernel_structure() == Structure::InTurn {
        lines.push("kernels do one thing at a time, as published Pallas kernels do".into());
    }
    if request.raises_limit() {
        lines.push(raised_limit_text(request.target()));
    }
    lines.push("the time between kernels is not published; it is taken as 0".into());
    lines.extend(target_assumptions(request.target()));
    lines
}

/// What a limit that is not given is.
pub(crate) fn raised_limit_text(target: &'static Target) -> String {
    format!(
        "limits leave at least {} for more register spills than predicted, and where there is as much VMEM what it takes to fit with probability {FIT_PROBABILITY}; --vmem-limit-kib N counts what fits N",
        bytes_text(room_bytes(target) as f64)
    )
}

/// What the prediction for any kernel takes for granted.
pub(crate) fn target_assumptions(target: &Target) -> Vec<String> {
    let cores = target.cores_per_device();
    let mut lines = Vec::new();
    if cores > 1 {
        lines.push(format!(
            "megacore: the outermost parallel grid axis is split over {cores} cores, which share HBM evenly"
        ));
    }
    let copy = match target.dma_bytes_per_cycle.value {
        Some(bytes) => format!(
            "one copy at {:.0} GB/s at most, the compiler's model",
            bytes * target.peak_clock_hz.value / 1e9
        ),
        None => "no model of a single copy is known".into(),
    };
    lines.push(format!(
        "HBM at {:.0} GB/s per core, its share of what is published; {copy}",
        core_bytes_per_s(target, cores as u64) / 1e9
    ));
    lines.push(format!("clock {:.2} GHz", target.clock_hz.value / 1e9));
    lines.push(format!(
        "range: from copies that do not share the bandwidth and a schedule {0:.0} % shorter to copies one after the other \
         and a schedule {0:.0} % longer",
        CYCLES_ERROR * 100.0
    ));
    lines.push(format!(
        "windows and scratch are counted as the compiler does; register spills are estimated: what a kernel needs at once of \
         registers may be {:.1} times as many or as few (one standard deviation)",
        SPILL_ERROR.exp()
    ));
    lines.push(
        "nothing here was timed on hardware; formulas and sources: docs/cost-model.md; measured errors: tilecast validate"
            .into(),
    );
    lines
}

/// What a prediction takes for granted, at the end of a report.
pub(crate) fn print_assumptions(lines: &[String]) -> Result<(), CliError> {
    print("\nAssumptions")?;
    (lines.iter()).try_for_each(|line| print(format_args!("  {line}")))
}

/// A time for reading, three or four digits.
pub(crate) fn time_text(seconds: f64) -> String {
    if seconds == 0.0 {
        return "0 s".into();
    }
    let (value, unit) = match seconds {
        s if s >= 1.0 => (s, "s"),
        s if s >= 1e-3 => (s * 1e3, "ms"),
        s => (s * 1e6, "us"),
    };
    let decimals = match value {
        v if v >= 100.0 => 1,
        v if v >= 10.0 => 2,
        _ => 3,
    };
    format!("{value:.decimals$} {unit}")
}

/// A whole number in groups of three digits.
pub(crate) fn count_text(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `b,h,v` or `b,v`, as `--blocks` takes it.
pub(crate) fn blocks_text(blocks: impl PassBlocks) -> String {
    blocks.sizes().to_string()
}

/// Blocks of a forward pass, and the name of the form of its `x`.
pub(crate) fn forward_text(blocks: impl Display, x: &str) -> String {
    match x == XForm::Given.name() {
        true => blocks.to_string(),
        false => format!("{blocks} x {x}"),
    }
}

/// The same of a plan.
pub(crate) fn forward_plan_text(plan: &ForwardPlan<impl PassBlocks>) -> String {
    forward_text(plan.blocks.sizes(), plan.x.name())
}

/// Blocks of a backward pass, and of its kernels where these have their own.
pub(crate) fn plan_text(plan: &BackwardPlan<impl PassBlocks>) -> String {
    let own = OwnBlocks {
        delta_columns: plan.delta_columns,
        products: plan.product_blocks.map(|own| own.map(product_sizes)),
    };
    backward_text(plan.blocks.sizes(), own, plan.rounds_w)
}

/// The same of these blocks; and whether `w` is rounded by chunks.
pub(crate) fn backward_text(blocks: impl Display, own: OwnBlocks, rounds_w: bool) -> String {
    let rounded = if rounds_w { " w rounded" } else { "" };
    format!("{blocks}{}{rounded}", own_text(own))
}

/// What kernels have of their own, to follow the blocks of their pass.
fn own_text(own: OwnBlocks) -> String {
    let delta = (own.delta_columns).map(|columns| format!(" delta {columns} columns"));
    let named = ["dx", "dw"].into_iter().zip(own.products);
    let products = named.filter_map(|(name, own)| {
        let [b, h] = own?;
        Some(format!(" {name} {b},{h}"))
    });
    delta.into_iter().chain(products).collect()
}

fn product_sizes(blocks: impl PassBlocks) -> [usize; 2] {
    let [b, h, _] = blocks.sizes().sides();
    [b, h]
}

/// A configuration in one phrase.
pub(crate) fn row_text(row: &Row<impl PassBlocks>) -> String {
    let forward = (row.forward).map(|plan| format!("forward {}", forward_plan_text(&plan)));
    let backward = row.backward.map(|plan| {
        let chunk = match plan.chunk_columns {
            Some(columns) => format!(", chunks of {columns} columns"),
            None => String::new(),
        };
        let strategy = plan.strategy_name().map(|name| format!(" {name}"));
        format!(
            "backward {}{}{chunk}",
            plan_text(&plan),
            strategy.unwrap_or_default()
        )
    });
    [forward, backward]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join("; ")
}

/// What is left of a VMEM limit, and how sure that is; to follow a subject.
pub(crate) fn fit_text(margin_bytes: i64, probability: f64) -> String {
    let bytes = margin_bytes.unsigned_abs();
    let margin = bytes_text(bytes as f64);
    let (side, room) = match margin_bytes {
        0.. => ("within", "left"),
        _ => ("over", "missing"),
    };
    let spills = match is_open(probability) {
        true => {
            format!("; register spills are an estimate: it fits with probability {probability:.2}")
        }
        false => String::new(),
    };
    format!("is {side} its limit, {margin} ({bytes} bytes) {room}{spills}")
}

/// Blocks as JSON.
pub(crate) fn blocks_json(blocks: Option<BlockSizes>) -> Value {
    blocks.map_or(
        Value::Null,
        |BlockSizes { b, h, v }| json!({ "b": b, "h": h, "v": v }),
    )
}

/// Bounds as JSON, each `null` if there are none.
pub(crate) fn bounds_json(bounds: Option<Bounds>) -> Value {
    let names = Bounds::default().named();
    let known = bounds.map(|bounds| bounds.named().map(|(_, seconds)| seconds));
    (names.into_iter().enumerate())
        .map(|(i, (name, _))| (name.to_owned(), json!(known.map(|known| known[i]))))
        .collect()
}

/// A range as JSON, two times `null` if there is none.
pub(crate) fn range_json(range: Option<[f64; 2]>) -> Value {
    range.map_or_else(|| json!([null, null]), |range| json!(range))
}

/// How far off predictions are expected to be: cycles as a share, registers as the standard deviation of the logarithm.
pub(crate) fn expected_error_json() -> Value {
    json!({ "cycles": CYCLES_ERROR, "registers": SPILL_ERROR })
}

/// Shape of the problem as JSON.
pub(crate) fn shape_json(request: &Request<impl Problem>) -> Value {
    let problem = request.problem();
    json!({ "tokens": problem.tokens(), "hidden": problem.hidden(), "vocab": problem.vocab() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(time_text(0.0123456), "12.35 ms");
        assert_eq!(time_text(1.5e-6), "1.500 us");
        assert_eq!(time_text(0.0), "0 s");
        assert_eq!(count_text(1234567.4), "1,234,567");
        assert_eq!(count_text(12.0), "12");
    }
}
