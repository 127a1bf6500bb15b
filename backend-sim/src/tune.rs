//! Block sizes and strategies, tried and ranked.
//!
//! The passes follow each other and share no VMEM, so their blocks are chosen apart: every candidate
//! of one pass is evaluated once and combined with the best of the other. That finds the best pair
//! without trying all of them. Each candidate gives one [`Row`], the op with that candidate in it;
//! the pair of the two best is the first row.

use std::cmp::Ordering;

use tilecast_core::kernels::linear_ce::{Blocks, LinearCe, Strategy, candidates};

use crate::kernel::Bounds;
use crate::memory::VmemLedger;
use crate::op::{BackwardPlan, OpReport, PassReport, Request, SimError};
use crate::verdict::Verdict;

/// Columns of a chunk of delta that are tried.
const CHUNK_COLUMNS: [usize; 4] = [4096, 8192, 16384, 32768];

/// A chunk of delta takes at most this share of the memory of the logits it replaces, in f32.
const CHUNK_SHARE_PERCENT: usize = 10;

/// What is tried.
#[derive(Clone, Debug)]
pub struct Space {
    /// Blocks of the forward pass; empty leaves the pass out.
    pub forward: Vec<Blocks>,
    /// Plans of the backward pass; empty leaves the pass out.
    pub backward: Vec<BackwardPlan>,
}

impl Space {
    /// Every candidate for the passes that are wanted, of the given strategies. Blocks that are given
    /// are the only ones tried.
    pub fn new(
        request: &Request,
        [forward, backward]: [bool; 2],
        [forward_blocks, backward_blocks]: [Option<Blocks>; 2],
        strategies: &[Strategy],
    ) -> Self {
        let problem = request.device_problem();
        let blocks = |wanted: bool, given: Option<Blocks>| match (wanted, given) {
            (false, _) => Vec::new(),
            (true, Some(blocks)) => vec![blocks],
            (true, None) => candidates(problem, request.target()),
        };
        Self {
            forward: blocks(forward, forward_blocks),
            backward: (blocks(backward, backward_blocks).into_iter())
                .flat_map(|blocks| plans(problem, blocks, strategies))
                .collect(),
        }
    }

    /// Number of candidates.
    pub fn len(&self) -> usize {
        self.forward.len() + self.backward.len()
    }

    /// Whether nothing is tried.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The backward plans of given blocks.
fn plans(problem: &LinearCe, blocks: Blocks, strategies: &[Strategy]) -> Vec<BackwardPlan> {
    let mut plans = Vec::new();
    for strategy in strategies {
        match strategy {
            Strategy::Combined => plans.push(BackwardPlan {
                blocks,
                chunk_columns: None,
            }),
            Strategy::Streaming => {
                let chunks = chunk_columns(problem, blocks.v).into_iter();
                plans.extend(chunks.map(|columns| BackwardPlan {
                    blocks,
                    chunk_columns: Some(columns),
                }));
            }
        }
    }
    plans
}

/// Sizes of a chunk for column blocks of `v`, whole blocks: those of a fixed list that keep to the
/// share of memory, or the largest that does, or one block.
fn chunk_columns(problem: &LinearCe, v: usize) -> Vec<usize> {
    let logits_bytes = problem.vocab() * size_of::<f32>();
    let most = logits_bytes / 100 * CHUNK_SHARE_PERCENT / problem.delta_dtype().size_bytes();
    let mut sizes: Vec<usize> = (CHUNK_COLUMNS.iter().copied())
        .filter(|&columns| columns <= most)
        .collect();
    if sizes.is_empty() {
        sizes.push(most);
    }
    let whole = |columns: usize| (columns / v).max(1) * v;
    sizes
        .iter_mut()
        .for_each(|columns| *columns = whole(*columns));
    sizes.dedup();
    sizes
}

/// The op with one candidate for one pass and the best for the other.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// Blocks of the forward pass, if it is wanted.
    pub forward: Option<Blocks>,
    /// Plan of the backward pass, if it is wanted.
    pub backward: Option<BackwardPlan>,
    /// The op.
    pub report: OpReport,
    /// Most VMEM that a kernel uses, bytes.
    pub vmem_used_bytes: u64,
    /// What a kernel may use, bytes.
    pub vmem_limit_bytes: u64,
    /// The least that a kernel leaves of that, or, negative, the most that one is over it; bytes.
    pub vmem_margin_bytes: i64,
    /// How likely it is that the least likely kernel fits VMEM.
    pub fit_probability: f64,
    /// The bounds of all kernels, one after the other.
    pub bounds: Bounds,
}

impl Row {
    /// Better rows first: what runs before what does not, then by time, then by memory.
    fn rank(&self, other: &Self) -> Ordering {
        let time = |row: &Self| row.report.total.map_or(f64::INFINITY, |total| total.time_s);
        (self.report.verdict.cmp(&other.report.verdict))
            .then(time(self).total_cmp(&time(other)))
            .then(self.vmem_used_bytes.cmp(&other.vmem_used_bytes))
            .then(self.forward.cmp(&other.forward))
            .then(self.backward.cmp(&other.backward))
    }
}

/// How many rows have which verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// All.
    pub tried: usize,
    /// [`Verdict::Fits`]
    pub fits: usize,
    /// [`Verdict::VmemOom`]
    pub vmem_oom: usize,
    /// [`Verdict::HbmOom`]
    pub hbm_oom: usize,
    /// [`Verdict::Invalid`]
    pub invalid: usize,
}

impl Counts {
    /// Counts one more.
    pub fn count(&mut self, verdict: Verdict) {
        self.tried += 1;
        *match verdict {
            Verdict::Fits => &mut self.fits,
            Verdict::VmemOom => &mut self.vmem_oom,
            Verdict::HbmOom => &mut self.hbm_oom,
            Verdict::Invalid => &mut self.invalid,
        } += 1;
    }
}

/// Tries everything in `space`; rows come best first. `progress` is called after each candidate.
///
/// # Errors
/// Blocks that no target could take.
pub fn tune(
    request: &Request,
    space: &Space,
    mut progress: impl FnMut(),
) -> Result<Vec<Row>, SimError> {
    let mut evaluated = |pass: Result<PassReport, SimError>| {
        progress();
        pass
    };
    let forward: Vec<PassReport> = (space.forward.iter())
        .map(|&blocks| evaluated(request.forward(blocks)))
        .collect::<Result<_, _>>()?;
    let backward: Vec<PassReport> = (space.backward.iter())
        .map(|&plan| evaluated(request.backward(plan)))
        .collect::<Result<_, _>>()?;
    let row = |i: Option<usize>, j: Option<usize>| -> Result<Row, SimError> {
        let passes: Vec<&PassReport> = [i.map(|i| &forward[i]), j.map(|j| &backward[j])]
            .into_iter()
            .flatten()
            .collect();
        let mut bounds = Bounds::default();
        passes.iter().for_each(|pass| bounds.add(&pass.bounds()));
        let ledgers = || {
            let kernels = passes.iter().flat_map(|pass| &pass.kernels);
            kernels.map(|kernel| &kernel.vmem)
        };
        Ok(Row {
            forward: i.map(|i| space.forward[i]),
            backward: j.map(|j| space.backward[j]),
            report: request.total(&passes)?,
            vmem_limit_bytes: ledgers().map(|vmem| vmem.limit_bytes).max().unwrap_or(0),
            vmem_margin_bytes: ledgers().map(VmemLedger::margin_bytes).min().unwrap_or(0),
            fit_probability: ledgers()
                .map(VmemLedger::fit_probability)
                .fold(1.0, f64::min),
            vmem_used_bytes: passes
                .iter()
                .map(|pass| pass.vmem_used_bytes())
                .max()
                .unwrap_or(0),
            bounds,
        })
    };
    let best_forward = best(&forward, |i| row(Some(i), None))?;
    let best_backward = best(&backward, |j| row(None, Some(j)))?;
    let mut rows = Vec::with_capacity(space.len());
    for i in 0..forward.len() {
        rows.push(row(Some(i), best_backward)?);
    }
    for j in 0..backward.len() {
        // That pair is among the rows of the forward pass.
        if best_forward.is_none() || Some(j) != best_backward {
            rows.push(row(best_forward, Some(j))?);
        }
    }
    rows.sort_by(Row::rank);
    Ok(rows)
}

/// The best candidate of one pass, were it alone.
fn best(
    passes: &[PassReport],
    row: impl Fn(usize) -> Result<Row, SimError>,
) -> Result<Option<usize>, SimError> {
    let mut best: Option<(usize, Row)> = None;
    for i in 0..passes.len() {
        let row = row(i)?;
        if best
            .as_ref()
            .is_none_or(|(_, best)| row.rank(best) == Ordering::Less)
        {
            best = Some((i, row));
        }
    }
    Ok(best.map(|(i, _)| i))
}

/// The blocks nearest to `blocks` with which `pass` fits VMEM: dimensions are halved as few times as
/// possible, and columns rather than rows, rows rather than hidden.
///
/// # Errors
/// Those of `pass`.
pub fn nearest_fit(
    request: &Request,
    blocks: Blocks,
    pass: impl Fn(Blocks) -> Result<PassReport, SimError>,
) -> Result<Option<Blocks>, SimError> {
    let lanes = request.target().lanes.value;
    let halved = |size: usize, times: u32| {
        let half = size >> times;
        (half > 0 && half.is_multiple_of(lanes) || times == 0).then_some(half)
    };
    let most = usize::BITS - blocks.b.max(blocks.h).max(blocks.v).leading_zeros();
    for halvings in 1..=most {
        for v in (0..=halvings).rev() {
            for b in (0..=halvings - v).rev() {
                let smaller = || {
                    Some(Blocks {
                        b: halved(blocks.b, b)?,
                        h: halved(blocks.h, halvings - v - b)?,
                        v: halved(blocks.v, v)?,
                    })
                };
                if let Some(smaller) = smaller()
                    && pass(smaller)?.verdict == Verdict::Fits
                {
                    return Ok(Some(smaller));
                }
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
