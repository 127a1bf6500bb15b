//! Published times of fused cross-entropy kernels on real chips, and what the model says of them.
//!
//! The times are from the public logs of levanter's kernel, which also ran Tokamax's; dates are those of the log.
//! Neither kernel is in this repository. Both have the structure of kernels that are, in the same blocks: a forward
//! pass over blocks of tokens, vocabulary and hidden, and a backward pass that recomputes each tile of logits and
//! updates both gradients in HBM ([`Strategy::Combined`](tilecast_core::kernels::linear_ce::Strategy::Combined)), each
//! [one thing at a time](Structure::InTurn). So those stand in, with products of f32 operands in one pass, JAX's
//! default. What the stand-ins do otherwise: Tokamax splits the vocabulary over cores, not the tokens, in its backward
//! pass; and both reduce a block of logits over lanes, where ours keep sums for each lane to the end.
//!
//! A time covers `forward_runs` and `backward_runs`: the log's "bwd" is the time of a gradient, forward
//! pass included, and its "combined" the sum of both times. Blocks that the log leaves to the
//! kernel's table are those of the table of that day (`inferred`); for runs refused over a
//! whole sweep, the least of the sweep.
//!
//! Left out are rows without shape or blocks, and experiments whose source is not public.

use thiserror::Error;
use tilecast_core::DType;
use tilecast_core::kernels::linear_ce::{Blocks, LinearCe, Options, Structure};
use tilecast_core::target::Target;
use tilecast_tpu::lower::F32Products;

use super::point::PointError;
use super::record::Records;
use super::{Baselines, Errors};
use crate::kernel::KernelReport;
use crate::op::{PassReport, Request, SimError};
use crate::plan::BackwardPlan;
use crate::verdict::Verdict;

const DATA: &str = include_str!("../../data/hardware.csv");

/// Why a run has no prediction.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HardwareError {
    /// Data that cannot be read.
    #[error(transparent)]
    Point(#[from] PointError),
    /// A kernel that cannot be judged.
    #[error(transparent)]
    Sim(#[from] SimError),
}

/// One run on hardware.
#[derive(Clone, PartialEq, Debug)]
pub struct Run {
    /// Day of the log.
    pub date: String,
    /// Whose kernel: levanter, tokamax.
    pub structure: String,
    /// Which version of it.
    pub variant: String,
    /// Target.
    pub target: &'static Target,
    /// The op, on one chip.
    pub problem: LinearCe,
    /// Block sizes of both passes.
    pub blocks: Blocks,
    /// Whether the log states the blocks.
    pub blocks_stated: bool,
    /// Forward and backward passes in the time.
    pub runs: [u64; 2],
    /// The limit of VMEM, if the log states one; bytes.
    pub limit_bytes: Option<u64>,
    /// Whether it ran: the compiler refused the others for want of VMEM.
    pub ran: bool,
    /// Its time, if stated, seconds.
    pub seconds: Option<f64>,
    /// VMEM that the compiler named when it refused, bytes.
    pub oom_used_bytes: Option<u64>,
}

/// A run and what the model says of it.
#[derive(Clone, PartialEq, Debug)]
pub struct RunOutcome {
    /// The run.
    pub run: Run,
    /// Whether it fits.
    pub verdict: Verdict,
    /// VMEM of the largest kernel, bytes.
    pub used_bytes: u64,
    /// Seconds: of the model, its range, of the roofline, of the fitted roofline; whatever the limit
    /// is, if it fits the chip.
    pub predicted_s: Option<PredictedSeconds>,
}

/// Predicted times of a run, seconds.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct PredictedSeconds {
    /// Of the model.
    pub model: f64,
    /// Of the roofline.
    pub roofline: f64,
    /// Of the fitted roofline.
    pub fitted_roofline: f64,
}

/// All runs.
///
/// # Errors
/// Data that cannot be read.
pub fn runs() -> Result<Vec<Run>, HardwareError> {
    let mut runs = Vec::new();
    let mut records = Records::new("hardware", DATA).map_err(PointError::from)?;
    while records.advance().map_err(PointError::from)? {
        runs.push(run(&records)?);
    }
    Ok(runs)
}

fn run(records: &Records) -> Result<Run, PointError> {
    let dtype = match records.get::<String>("dtype")?.as_str() {
        "bf16" => DType::Bf16,
        "f32" => DType::F32,
        _ => return Err(records.wrong("dtype").into()),
    };
    let limit_kib: Option<u64> = records.get_if_any("limit_kib")?;
    Ok(Run {
        date: records.get("date")?,
        structure: records.get("structure")?,
        variant: records.get("variant")?,
        target: Target::by_name(&records.get::<String>("target")?)?,
        problem: LinearCe::new(
            records.get("tokens")?,
            records.get("hidden")?,
            records.get("vocab")?,
            dtype,
            Options::default(),
        )?,
        blocks: Blocks {
            b: records.get("b")?,
            h: records.get("h")?,
            v: records.get("v")?,
        },
        blocks_stated: records.get::<String>("blocks")? == "stated",
        runs: [records.get("forward_runs")?, records.get("backward_runs")?],
        limit_bytes: limit_kib.map(|kib| kib << 10),
        ran: match records.get::<String>("status")?.as_str() {
            "ok" => true,
            "vmem_oom" => false,
            _ => return Err(records.wrong("status").into()),
        },
        seconds: records.get_if_any("seconds")?,
        oom_used_bytes: records.get_if_any("oom_used_bytes")?,
    })
}

impl RunOutcome {
    /// Judges the stand-ins of a run.
    ///
    /// # Errors
    /// A kernel that cannot be judged.
    pub fn new(run: Run, baselines: &Baselines) -> Result<Self, HardwareError> {
        let request = |limit_bytes| {
            let request = Request::new(run.problem, run.target, 1, limit_bytes)?;
            let request = request.products(F32Products::Rounded);
            passes(&run, &request.structure(Structure::InTurn))
        };
        let limited = request(run.limit_bytes)?;
        let capacity = run.target.vmem_usable_bytes.value;
        let raised = request(Some(capacity))?;
        let reports = limited.iter().map(|(pass, _)| pass);
        Ok(Self {
            verdict: (reports.clone().map(|pass| pass.verdict).max()).unwrap_or(Verdict::Fits),
            used_bytes: reports.map(PassReport::vmem_used_bytes).max().unwrap_or(0),
            predicted_s: predicted(&raised, baselines),
            run,
        })
    }

    /// Whether the verdict is that of the compiler.
    pub fn verdict_is_right(&self) -> bool {
        self.run.ran == (self.verdict == Verdict::Fits)
    }
}

/// The passes of a run and how often each runs.
fn passes(run: &Run, request: &Request) -> Result<Vec<(PassReport, u64)>, HardwareError> {
    let [forward, backward] = run.runs;
    let mut passes = Vec::new();
    if forward > 0 {
        passes.push((request.forward(run.blocks)?, forward));
    }
    if backward > 0 {
        let plan = BackwardPlan::in_blocks(run.blocks, None);
        passes.push((request.backward(plan)?, backward));
    }
    Ok(passes)
}

fn predicted(passes: &[(PassReport, u64)], baselines: &Baselines) -> Option<PredictedSeconds> {
    let mut sum = PredictedSeconds::default();
    for (pass, times) in passes {
        let times = *times as f64;
        let [_, model, _] = pass.time_s()?;
        sum.model += times * model;
        for kernel in &pass.kernels {
            let KernelReport {
                name, prediction, ..
            } = kernel;
            let bounds = prediction.as_ref()?.bounds;
            let roofline = bounds.mxu.max(bounds.hbm);
            sum.roofline += times * roofline;
            sum.fitted_roofline += times * roofline * baselines.constant(name);
        }
    }
    Some(sum)
}

/// What the model says of the runs of one structure.
#[derive(Clone, PartialEq, Debug)]
pub struct StructureSummary {
    /// Whose kernel.
    pub structure: &'static str,
    /// Errors of the model over the runs with a time.
    pub model: Option<Errors>,
    /// Of the roofline.
    pub roofline: Option<Errors>,
    /// Of the fitted roofline.
    pub fitted_roofline: Option<Errors>,
    /// Runs whose verdict is right.
    pub right: usize,
    /// Runs whose verdict is wrong.
    pub wrong: usize,
}

/// A summary for each structure.
pub fn summaries(outcomes: &[RunOutcome]) -> Vec<StructureSummary> {
    let summary = |structure| {
        let of = || (outcomes.iter()).filter(move |outcome| outcome.run.structure == structure);
        let errors = |of_predicted: fn(&PredictedSeconds) -> f64| {
            let timed = of().filter(|outcome| outcome.run.ran);
            Errors::of(timed.filter_map(|outcome| {
                let predicted = outcome.predicted_s.as_ref()?;
                Some((of_predicted(predicted), outcome.run.seconds?))
            }))
        };
        let right = of().filter(|outcome| outcome.verdict_is_right()).count();
        StructureSummary {
            structure,
            model: errors(|predicted| predicted.model),
            roofline: errors(|predicted| predicted.roofline),
            fitted_roofline: errors(|predicted| predicted.fitted_roofline),
            right,
            wrong: of().count() - right,
        }
    };
    ["levanter", "tokamax"].map(summary).into()
}
