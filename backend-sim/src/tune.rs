//! Block sizes and strategies, tried and ranked.
//!
//! The passes follow each other and share no VMEM, so their blocks are chosen apart: every candidate
//! of one pass is evaluated once and combined with the best of the other. That finds the best pair
//! without trying all of them. Each candidate gives one [`Row`], the op with that candidate in it;
//! the pair of the two best is the first row.
//!
//! The kernels of a streaming backward pass share no VMEM either. They are judged in the same blocks, and then the best
//! that each has seen with the same columns are put together to one more row (`products`).
//!
//! [`tune`] judges every candidate. [`best`] judges those that may be among the first rows: the matrix
//! units and the scalar code of the steps give a floor for the time of a candidate before its kernels are
//! even written.

mod products;
mod search;

use std::cmp::{Ordering, Reverse};

use tilecast_core::kernels::head::{Blocks, Head, Strategy, divides_columns};

pub use self::search::Search;
use crate::kernel::Bounds;
use crate::memory::{FIT_PROBABILITY, VmemLedger};
use crate::op::{OpReport, PassReport, Request, SimError};
use crate::plan::{BackwardPlan, ForwardPlan};
use crate::problem::{BlockSizes, PassBlocks, Problem};
use crate::verdict::Verdict;

/// Columns of a chunk of delta that are tried.
const CHUNK_COLUMNS: [usize; 4] = [4096, 8192, 16384, 32768];

/// A chunk of delta takes at most this share of the memory of the logits it replaces, in f32.
const CHUNK_SHARE_PERCENT: usize = 10;

/// What is tried.
#[derive(Clone, Debug)]
pub struct Space<B = Blocks> {
    /// Plans of the forward pass; empty leaves the pass out.
    pub forward: Vec<ForwardPlan<B>>,
    /// Plans of the backward pass; empty leaves the pass out.
    pub backward: Vec<BackwardPlan<B>>,
}

impl<B: PassBlocks> Space<B> {
    /// Every candidate for the passes that are wanted, of the given strategies. Blocks that are given
    /// are the only ones tried.
    pub fn new<P: Problem<Blocks = B>>(
        request: &Request<P>,
        [forward, backward]: [bool; 2],
        [forward_blocks, backward_blocks]: [Option<B>; 2],
        strategies: &[Strategy],
    ) -> Self {
        let problem = request.device_problem();
        let blocks = |wanted: bool, given: Option<B>| match (wanted, given) {
            (false, _) => Vec::new(),
            (true, Some(blocks)) => vec![blocks],
            (true, None) => problem.candidates(request.target()),
        };
        Self {
            forward: (blocks(forward, forward_blocks).into_iter())
                .flat_map(|blocks| problem.forward_plans(blocks, request.setting()))
                .collect(),
            backward: (blocks(backward, backward_blocks).into_iter())
                .flat_map(|blocks| problem.plans(blocks, strategies, request.setting()))
                .collect(),
        }
    }

    /// The same with these blocks, along tokens and hidden, for `dx` and `dw` of streaming plans, and delta made in
    /// blocks of so many columns. Plans whose blocks these do not fill are left out, unless that leaves none: each of
    /// them says what is wrong then.
    #[must_use]
    pub fn with_own_blocks<P: Problem<Blocks = B>>(
        mut self,
        given: [Option<[usize; 2]>; 2],
        delta_columns: Option<usize>,
        request: &Request<P>,
    ) -> Self {
        let (target, vocab) = (request.target(), request.device_problem().vocab());
        let is_filled = |plan: &BackwardPlan<B>| {
            let v = plan.blocks.sizes().v;
            delta_columns.is_none_or(|columns| divides_columns(vocab, columns, v))
        };
        if self.backward.iter().any(is_filled) {
            self.backward.retain(is_filled);
        }
        for plan in &mut self.backward {
            let BlockSizes { v, .. } = plan.blocks.sizes();
            let of = |[b, h]: [usize; 2]| B::of_sizes(BlockSizes { b, h: Some(h), v }, target);
            if plan.chunk_columns.is_some() {
                plan.product_blocks = given.map(|own| own.map(of));
                plan.delta_columns = delta_columns;
            }
        }
        self
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

/// The backward plans of given blocks of the fused head, and those that round `w` if that may pay; streaming ones pack
/// `x` if asked to.
pub(crate) fn plans(
    head: &Head,
    blocks: Blocks,
    strategies: &[Strategy],
    [may_round_w, packs_x]: [bool; 2],
) -> Vec<BackwardPlan> {
    let mut plans = Vec::new();
    for strategy in strategies {
        match strategy {
            Strategy::Combined => plans.push(BackwardPlan::in_blocks(blocks, None)),
            Strategy::Streaming => {
                for rounds_w in [false, true] {
                    if rounds_w && !may_round_w {
                        continue;
                    }
                    let chunks = chunk_columns(head, blocks.v, rounds_w).into_iter();
                    plans.extend(chunks.map(|columns| BackwardPlan {
                        rounds_w,
                        packs_x,
                        ..BackwardPlan::in_blocks(blocks, Some(columns))
                    }));
                }
            }
        }
    }
    plans
}

/// Sizes of a chunk for column blocks of `v`, whole blocks: those of a fixed list that keep to the share of memory, or
/// the largest that does, or one block. A rounded `w` has as many rows as `H` beside delta's. With it there is one
/// more, of the last quarter of the share, for the fixed ones may leave half of it, and `dx` is read and written for
/// each chunk: the one whose last chunk repeats the least.
fn chunk_columns(head: &Head, v: usize, rounds_w: bool) -> Vec<usize> {
    let logits_bytes = head.vocab() * size_of::<f32>();
    let rows = head.tokens() + if rounds_w { head.hidden() } else { 0 };
    let most = logits_bytes / 100 * CHUNK_SHARE_PERCENT / head.delta_dtype().size_bytes();
    let most = (most as u128 * head.tokens() as u128 / rows as u128) as usize;
    let mut sizes: Vec<usize> = (CHUNK_COLUMNS.iter().copied())
        .filter(|&columns| columns <= most)
        .collect();
    if sizes.is_empty() {
        sizes.push(most);
    } else if rounds_w {
        let all = head.vocab().div_ceil(v);
        // What a chunk of at most so many blocks has, and how many of them all chunks make.
        let equal = |blocks: usize| all.div_ceil(all.div_ceil(blocks));
        let made = |blocks: usize| all.div_ceil(blocks) * equal(blocks);
        let blocks = (most / v).max(1);
        let least = (blocks * 3 / 4).max(1);
        let best = (least..=blocks).min_by_key(|&blocks| (made(blocks), Reverse(blocks)));
        sizes.extend(best.map(|blocks| equal(blocks) * v));
        sizes.sort_unstable();
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
pub struct Row<B = Blocks> {
    /// Plan of the forward pass, if it is wanted.
    pub forward: Option<ForwardPlan<B>>,
    /// Plan of the backward pass, if it is wanted.
    pub backward: Option<BackwardPlan<B>>,
    /// The op.
    pub report: OpReport,
    /// Most VMEM that a kernel uses, bytes.
    pub vmem_used_bytes: u64,
    /// What a kernel may use, bytes: the limit to compile with.
    pub vmem_limit_bytes: u64,
    /// The least that a kernel leaves of that, or, negative, the most that one is over it; bytes.
    pub vmem_margin_bytes: i64,
    /// How likely it is that the least likely kernel fits VMEM.
    pub fit_probability: f64,
    /// Operations of the code of the largest kernel.
    pub operations: f64,
    /// Whether these are no more than the request prefers.
    pub compiles_soon: bool,
    /// The bounds of all kernels, one after the other.
    pub bounds: Bounds,
    /// For each pass, the name of the kernel that uses the most VMEM, and its ledger.
    pub ledgers: Vec<(String, VmemLedger)>,
}

impl<B: PassBlocks> Row<B> {
    fn new<P: Problem<Blocks = B>>(
        request: &Request<P>,
        forward: Option<ForwardPlan<B>>,
        backward: Option<BackwardPlan<B>>,
        passes: &[&PassReport<P::Kernel>],
    ) -> Result<Self, SimError> {
        let mut bounds = Bounds::default();
        passes.iter().for_each(|pass| bounds.add(&pass.bounds()));
        let used = passes.iter().map(|pass| pass.vmem_used_bytes());
        let vmem_used_bytes = used.max().unwrap_or(0);
        let operations = passes.iter().map(|pass| pass.operations());
        let operations = operations.fold(0.0, f64::max);
        let ledgers = || {
            let kernels = passes.iter().flat_map(|pass| &pass.kernels);
            kernels.map(|kernel| &kernel.vmem)
        };
        let likely = ledgers().map(|vmem| vmem.limit_for_probability(FIT_PROBABILITY));
        let vmem_limit_bytes = request.limit_for(vmem_used_bytes, likely.max().unwrap_or(0));
        let largest = |pass: &&PassReport<P::Kernel>| {
            let kernel = (pass.kernels.iter()).max_by_key(|kernel| kernel.vmem.used_bytes())?;
            Some((kernel.name.clone(), kernel.vmem.clone()))
        };
        Ok(Self {
            forward,
            backward,
            report: request.total(passes)?,
            vmem_used_bytes,
            vmem_limit_bytes,
            vmem_margin_bytes: (vmem_limit_bytes as i64).saturating_sub(vmem_used_bytes as i64),
            fit_probability: (ledgers())
                .map(|vmem| vmem.fit_probability_within(vmem_limit_bytes))
                .fold(1.0, f64::min),
            operations,
            compiles_soon: operations <= request.operations_preferred(),
            bounds,
            ledgers: passes.iter().filter_map(largest).collect(),
        })
    }

    /// Better rows first: what runs before what does not, of that what is compiled soon, then by time, then by memory.
    fn rank(&self, other: &Self) -> Ordering {
        let time = |row: &Self| row.report.total.map_or(f64::INFINITY, |total| total.time_s);
        (self.report.verdict.cmp(&other.report.verdict))
            .then(other.compiles_soon.cmp(&self.compiles_soon))
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

/// What a search for the best found.
#[derive(Clone, PartialEq, Debug)]
pub struct Best<B = Blocks> {
    /// What was judged, best first; as many rows of it as were asked for are those of [`tune`].
    pub rows: Vec<Row<B>>,
    /// Candidates that were not judged: even without waiting for anything they are slower than the
    /// last of the rows that were asked for.
    pub slower: usize,
}

/// Tries everything in `space`; rows come best first. `progress` is called after each candidate.
///
/// # Errors
/// Blocks that no target could take.
pub fn tune<P: Problem>(
    request: &Request<P>,
    space: &Space<P::Blocks>,
    progress: impl FnMut(),
) -> Result<Vec<Row<P::Blocks>>, SimError> {
    Ok(best(request, space, usize::MAX, progress)?.rows)
}

/// The first `top` rows of [`tune`], without judging what cannot be among them. If nothing fits,
/// everything is judged. `progress` is called for each candidate.
///
/// # Errors
/// As for [`tune`].
pub fn best<P: Problem>(
    request: &Request<P>,
    space: &Space<P::Blocks>,
    top: usize,
    progress: impl FnMut(),
) -> Result<Best<P::Blocks>, SimError> {
    Search::new(*request).best(space, top, progress)
}

/// The blocks nearest to `blocks` with which `pass` fits VMEM: dimensions are halved as few times as
/// possible, and columns rather than rows, rows rather than hidden.
///
/// # Errors
/// Those of `pass`.
pub fn nearest_fit<P: Problem>(
    request: &Request<P>,
    blocks: P::Blocks,
    pass: impl Fn(P::Blocks) -> Result<PassReport<P::Kernel>, SimError>,
) -> Result<Option<P::Blocks>, SimError> {
    let target = request.target();
    let lanes = target.lanes.value;
    let halved = |size: usize, times: u32| {
        let half = size >> times;
        (half > 0 && half.is_multiple_of(lanes) || times == 0).then_some(half)
    };
    let BlockSizes { b, h, v } = blocks.sizes();
    let most = usize::BITS - b.max(h.unwrap_or(0)).max(v).leading_zeros();
    for halvings in 1..=most {
        for of_v in (0..=halvings).rev() {
            for of_b in (0..=halvings - of_v).rev() {
                let of_h = halvings - of_v - of_b;
                let smaller = || {
                    let sizes = BlockSizes {
                        b: halved(b, of_b)?,
                        h: match h {
                            Some(h) => Some(halved(h, of_h)?),
                            None if of_h == 0 => None,
                            None => return None,
                        },
                        v: halved(v, of_v)?,
                    };
                    Some(P::Blocks::of_sizes(sizes, target))
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
