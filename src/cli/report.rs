//! What `simulate` and `tune` share: numbers for reading, pieces of JSON, and what the model assumes.

use serde_json::{Value, json};
use tilecast::core::target::Target;
use tilecast::sim::kernel::{Bounds, core_bytes_per_s};
use tilecast::sim::op::Request;
use tilecast::sim::pipeline::devices_per_chip;
use tilecast::sim::tune::{Row, Space};
use tilecast::sim::{Verdict, bytes_text};
use tilecast::{Blocks, Strategy};

use super::Outcome;
use super::args::{CliError, Op, Pass, ProblemArgs, ScheduleArgs, StrategyChoice};
use super::sizes::Sizes;

/// What the model leaves out of every number, with the field it concerns.
pub(crate) const NOT_PREDICTED: [(&str, &str); 1] = [(
    "launch overhead",
    "the time between kernels is not published; it is taken as 0",
)];

/// The most that a published fused cross-entropy kernel was seen to spill: Tokamax v0.0.17 in bf16 with blocks
/// 1024,512,2048, compiled by libtpu 0.0.51.
const SPILLS_SEEN_BYTES: u64 = 6 << 20;

/// A request for the problem of `args` on `target`.
pub(crate) fn request(
    args: &ProblemArgs,
    target: &'static Target,
    vmem_limit_kib: Option<u32>,
) -> Result<Request, CliError> {
    let limit_bytes = vmem_limit_kib.map(|kib| u64::from(kib) << 10);
    let chips = args.chips as usize;
    Request::new(args.problem()?, target, chips, limit_bytes).map_err(CliError::invalid)
}

/// What is tried: given blocks and strategy, else all.
///
/// # Errors
/// Block sizes of another op.
pub(crate) fn space(schedule: &ScheduleArgs, request: &Request) -> Result<Space, CliError> {
    let strategies = match schedule.strategy {
        StrategyChoice(Some(strategy)) => vec![strategy],
        StrategyChoice(None) => Strategy::ALL.to_vec(),
    };
    Ok(Space::new(
        request,
        passes(schedule.pass),
        schedule.blocks(Sizes::of_head)?,
        &strategies,
    ))
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
pub(crate) fn headline(op: Op, request: &Request) -> String {
    let problem = request.problem();
    let chips = match request.chips() {
        1 => String::new(),
        chips => format!(" x {chips} chips"),
    };
    format!(
        "{} on {}{chips}, {}: B={} H={} V={}",
        op.name(),
        request.target(),
        problem.dtype(),
        problem.tokens(),
        problem.hidden(),
        problem.vocab()
    )
}

/// What the prediction takes for granted.
pub(crate) fn assumptions(request: &Request) -> Vec<String> {
    let target = request.target();
    let cores = target.cores_per_device();
    let mut lines = Vec::new();
    let devices = devices_per_chip(target);
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
        lines.push(format!(
            "the batch is split over {}, each with all of w; {} tokens each; the sum of dw over them is not counted",
            parts.join(" x "),
            request.device_problem().tokens()
        ));
    }
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
    lines.push(
        "range: from copies that do not share the bandwidth and a schedule 10 % shorter to copies one after the other and \
         a schedule 10 % longer"
            .into(),
    );
    lines.push(
        "nothing here was timed on hardware; formulas and sources: docs/cost-model.md".into(),
    );
    lines
}

/// A time for reading, three or four digits.
pub(crate) fn time_text(seconds: f64) -> String {
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

/// `b,h,v`, as `--blocks` takes it.
pub(crate) fn blocks_text(blocks: Blocks) -> String {
    format!("{},{},{}", blocks.b, blocks.h, blocks.v)
}

/// A configuration in one phrase.
pub(crate) fn row_text(row: &Row) -> String {
    let forward = row
        .forward
        .map(|blocks| format!("forward {}", blocks_text(blocks)));
    let backward = row.backward.map(|plan| {
        let chunk = match plan.chunk_columns {
            Some(columns) => format!(", chunks of {columns} columns"),
            None => String::new(),
        };
        format!(
            "backward {} {}{chunk}",
            blocks_text(plan.blocks),
            plan.strategy().name()
        )
    });
    [forward, backward]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join("; ")
}

/// A warning where register spills, which are not predicted, may turn `fits` into `vmem_oom`.
pub(crate) fn headroom(request: &Request, row: &Row) -> Option<String> {
    let left = row.vmem_limit_bytes.saturating_sub(row.vmem_used_bytes);
    let tight = row.report.verdict == Verdict::Fits && left < SPILLS_SEEN_BYTES;
    tight.then(|| {
        let capacity_kib = request.target().vmem_usable_bytes.value >> 10;
        let raise = match row.vmem_limit_bytes >> 10 {
            limit if limit < capacity_kib => {
                format!("; --vmem-limit-kib can go up to {capacity_kib}")
            }
            _ => String::new(),
        };
        format!(
            "VMEM is tight: {} left for register spills, which are not predicted; kernels of this kind were seen to \
             spill 0.5 to {}{raise}",
            bytes_text(left as f64),
            bytes_text(SPILLS_SEEN_BYTES as f64),
        )
    })
}

/// Blocks as JSON.
pub(crate) fn blocks_json(blocks: Option<Blocks>) -> Value {
    blocks.map_or(
        Value::Null,
        |Blocks { b, h, v }| json!({ "b": b, "h": h, "v": v }),
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

/// [`NOT_PREDICTED`] as JSON.
pub(crate) fn not_predicted_json() -> Value {
    NOT_PREDICTED
        .map(|(field, why)| json!({ "field": field, "reason": why }))
        .into_iter()
        .collect()
}

/// Shape of the problem as JSON.
pub(crate) fn shape_json(request: &Request) -> Value {
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
        assert_eq!(count_text(1234567.4), "1,234,567");
        assert_eq!(count_text(12.0), "12");
    }
}
