//! Streaming passes whose three kernels have blocks of their own.
//!
//! A kernel fills VMEM with what it works on: logits are made of `x` and `w`, `dx` is read and written in f32, `dw` is
//! summed in f32 beside what leaves. So the blocks that are best for one do not fit another. Between them is delta, by
//! chunks: what has the same chunks can be put together where products have the same columns, and delta is made in
//! columns that divide these; nothing else depends on the blocks of the others.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use tilecast_core::kernels::head::divides_columns;

use crate::kernel::KernelReport;
use crate::op::PassReport;
use crate::plan::BackwardPlan;
use crate::problem::PassBlocks;

/// Delta, `dx`, `dw`: the kernels of a streaming pass, in the order in which they run. A fourth sums delta, in its
/// blocks.
const KERNELS: usize = 3;

/// What a kernel takes in blocks, where it fits.
#[derive(Clone, Copy)]
struct Cost<B> {
    compiles_soon: bool,
    time_s: f64,
    vmem_used_bytes: u64,
    blocks: B,
}

impl<B: PassBlocks> Cost<B> {
    /// Of kernels that have the same blocks; `None` if one does not fit.
    fn of(kernels: &[&KernelReport], blocks: B, most_operations: f64) -> Option<Self> {
        let none = Self {
            compiles_soon: true,
            time_s: 0.0,
            vmem_used_bytes: 0,
            blocks,
        };
        kernels.iter().try_fold(none, |sum, kernel| {
            Some(Self {
                compiles_soon: sum.compiles_soon && kernel.operations <= most_operations,
                time_s: sum.time_s + kernel.prediction?.time_s,
                vmem_used_bytes: sum.vmem_used_bytes.max(kernel.vmem.used_bytes()),
                blocks,
            })
        })
    }

    /// Better ones first, as rows are ranked.
    fn rank(&self, other: &Self) -> Ordering {
        (other.compiles_soon.cmp(&self.compiles_soon))
            .then(self.time_s.total_cmp(&other.time_s))
            .then(self.vmem_used_bytes.cmp(&other.vmem_used_bytes))
            .then(self.blocks.cmp(&other.blocks))
    }
}

/// The best costs of kernels by the columns of their blocks.
type Best<B> = BTreeMap<usize, Cost<B>>;

/// What was seen of chunks of one size.
struct Chunk<B> {
    /// The least that what comes before delta takes.
    before_s: f64,
    best: [Best<B>; KERNELS],
}

/// For each number of columns of chunks and of the blocks that delta is made in, the plan of the best blocks that each
/// kernel has in `passes`, the fastest first; products read whole blocks of delta side by side. Those that are in
/// `plans` are left out.
pub(super) fn put_together<B: PassBlocks, K>(
    plans: &[BackwardPlan<B>],
    passes: &[Option<PassReport<K>>],
    vocab: usize,
    most_operations: f64,
) -> Vec<BackwardPlan<B>> {
    let mut chunks: BTreeMap<(usize, [bool; 2]), Chunk<B>> = BTreeMap::new();
    for (plan, pass) in plans.iter().zip(passes) {
        let (Some(chunk_columns), Some(pass)) = (plan.chunk_columns, pass) else {
            continue;
        };
        let key = (chunk_columns, [plan.rounds_w, plan.packs_x]);
        let chunk = chunks.entry(key).or_insert_with(|| Chunk {
            before_s: f64::INFINITY,
            best: Default::default(),
        });
        let before = pass.kernels.iter().take(plan.before_delta());
        let before_s = before.map(|kernel| kernel.prediction.map_or(f64::INFINITY, |it| it.time_s));
        chunk.before_s = chunk.before_s.min(before_s.sum());
        for (i, best) in chunk.best.iter_mut().enumerate() {
            let i = plan.before_delta() + i;
            let kernels: Vec<_> = pass.kernels.iter().skip(i).step_by(KERNELS).collect();
            let blocks = plan.blocks_of(i);
            let Some(cost) = Cost::of(&kernels, blocks, most_operations) else {
                continue;
            };
            let best = best.entry(blocks.sizes().v).or_insert(cost);
            if cost.rank(best) == Ordering::Less {
                *best = cost;
            }
        }
    }
    let mut found = Vec::new();
    for ((chunk_columns, [rounds_w, packs_x]), Chunk { before_s, best }) in chunks {
        let [delta, dx, dw] = best;
        for (&columns, delta) in &delta {
            let together = dx.iter().filter_map(|(&v, dx)| {
                let read = divides_columns(vocab, columns, v);
                Some((v, [*delta, *dx, *dw.get(&v).filter(|_| read)?]))
            });
            let together = together.map(|(v, costs)| {
                let soon = costs.iter().all(|cost| cost.compiles_soon);
                let time_s = before_s + costs.iter().map(|cost| cost.time_s).sum::<f64>();
                let plan = plan_of(chunk_columns, v, costs);
                let plan = BackwardPlan {
                    rounds_w,
                    packs_x,
                    ..plan
                };
                (soon, time_s, plan)
            });
            found.extend(together.min_by(rank));
        }
    }
    found.sort_by(rank);
    let plans_found = found.into_iter().map(|(.., plan)| plan);
    plans_found
        .filter(|plan| plan.product_blocks != [None; 2] || plan.delta_columns.is_some())
        .collect()
}

/// The plan in which each kernel has its blocks, and products columns of `v`.
fn plan_of<B: PassBlocks>(chunk_columns: usize, v: usize, costs: [Cost<B>; 3]) -> BackwardPlan<B> {
    let [delta, dx, dw] = costs.map(|cost| cost.blocks);
    let columns = delta.sizes().v;
    let blocks = delta.with_columns(v);
    let own = |of_product: B| (of_product != blocks).then_some(of_product);
    BackwardPlan {
        product_blocks: [own(dx), own(dw)],
        delta_columns: (columns != v).then_some(columns),
        ..BackwardPlan::in_blocks(blocks, Some(chunk_columns))
    }
}

/// Better ones first: whether a pass compiles soon, and its time.
fn rank<P>((a_soon, a, _): &(bool, f64, P), (b_soon, b, _): &(bool, f64, P)) -> Ordering {
    b_soon.cmp(a_soon).then(a.total_cmp(b))
}
