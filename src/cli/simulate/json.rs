//! The document of `simulate --json`. Fields are `null` where there is no answer; none are left out.

use super::Simulation;
use super::tables::Shown;
use crate::cli::report::{bounds_json, expected_error_json, range_json, shape_json};
use serde_json::{Value, json};
use tilecast::sim::op::{HbmReport, Total};
use tilecast::sim::problem::Problem;

impl<P: Problem> Simulation<'_, P> {
    /// Everything that is known about the configuration.
    pub(super) fn document(&self) -> Value {
        let report = self.report();
        let tokens = self.request.problem().tokens() as f64;
        let kernels: Vec<Value> = (self.kernels().iter())
            .map(|shown| kernel(shown, Some(tokens)))
            .collect();
        let arrays: Vec<Value> = (self.passes.iter())
            .map(|(pass, report)| {
                json!({ "pass": pass, "bytes": report.array_bytes, "time_s": report.array_s })
            })
            .collect();
        let unfused = self.unfused();
        let plan = self.row.backward;
        json!({
            "op": self.op.name(),
            "target": self.request.target().name,
            "dtype": self.request.problem().dtype().name(),
            "shape": shape_json(self.request),
            "chips": self.request.chips(),
            "verdict": report.verdict.name(),
            "reason": report.reason,
            "hint": self.hint,
            "strategy": plan.and_then(|plan| plan.strategy_name()),
            "chunk_columns": plan.and_then(|plan| plan.chunk_columns),
            "kernels": kernels,
            "array_operations": arrays,
            "hbm": hbm(&report.hbm),
            "other_place_hbm": self.other_place.map(|(name, bytes)| json!({ "name": name, "used_bytes": bytes })),
            "unfused_hbm": {
                "assumption": unfused.assumption,
                "used_bytes": saturated(unfused.used_bytes()),
                "terms": terms(unfused.terms.iter().copied()),
                "traffic_bytes": unfused.traffic_bytes.map(saturated),
                "time_s": self.unfused_s(),
            },
            "total": total(report.total),
            "expected_error": expected_error_json(),
            "assumptions": self.assumptions(),
        })
    }
}

/// The time of all kernels; fields are `null` where there is none.
pub(super) fn total(total: Option<Total>) -> Value {
    json!({
        "time_s": total.map(|total| total.time_s),
        "time_range_s": range_json(total.map(|total| total.time_range_s)),
        "tokens_per_s": total.map(|total| total.tokens_per_s),
    })
}

/// HBM of a chip.
pub(super) fn hbm(report: &HbmReport) -> Value {
    json!({
        "used_bytes": report.used_bytes,
        "capacity_bytes": report.capacity_bytes,
        "terms": terms(report.terms.iter().map(|&(name, bytes)| (name, bytes.into()))),
    })
}

fn terms(named: impl Iterator<Item = (&'static str, u128)>) -> Vec<Value> {
    named
        .map(|(name, bytes)| json!({ "name": name, "bytes": saturated(bytes) }))
        .collect()
}

/// One kernel; `tokens` are those of the op, if it is one.
pub(super) fn kernel(shown: &Shown<'_>, tokens: Option<f64>) -> Value {
    let Shown {
        pass,
        blocks,
        kernel,
    } = shown;
    let vmem = &kernel.vmem;
    let terms: Vec<Value> = (vmem.terms.iter())
        .map(|term| {
            json!({
                "name": term.name,
                "kind": term.kind.name(),
                "bytes": term.bytes,
                "buffers": term.buffers,
            })
        })
        .collect();
    let prediction = kernel.prediction;
    json!({
        "name": kernel.name,
        "pass": pass,
        "blocks": blocks.as_ref().map(|blocks| &blocks.json),
        "verdict": kernel.verdict.name(),
        "reason": kernel.reason,
        "vmem": {
            "used_bytes": vmem.used_bytes(),
            "limit_bytes": vmem.limit_bytes,
            "capacity_bytes": vmem.capacity_bytes,
            "margin_bytes": vmem.margin_bytes(),
            "fit_probability": vmem.fit_probability(),
            "terms": terms,
        },
        "cycles_per_core": prediction.map(|p| p.cycles_per_core),
        "grid_steps": kernel.grid_steps,
        "launches": kernel.launches,
        "time_s": prediction.map(|p| p.time_s),
        "time_range_s": range_json(prediction.map(|p| p.time_range_s)),
        "tokens_per_s": prediction.and_then(|p| Some(tokens? / p.time_s)),
        "mxu_fraction": prediction.map(|p| p.mxu_fraction()),
        "hbm_traffic_bytes": prediction.map(|p| p.hbm_bytes),
        "bounds_s": bounds_json(prediction.map(|p| p.bounds)),
        "bottleneck": prediction.map(|p| p.bounds.binding().0),
        "assumptions": kernel.assumptions,
    })
}

/// JSON has no integers beyond 64 bits; no memory has either.
fn saturated(bytes: u128) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
