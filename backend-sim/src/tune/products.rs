//! Streaming passes whose three kernels have blocks of their own.
//!
//! A kernel fills VMEM with what it works on: logits are made of `x` and `w`, `dx` is read and written in f32, `dw` is summed in
//! f32 beside what leaves. So the blocks that are best for one do not fit another. All have the same columns, which are those of
//! delta between them, and whatever has the same columns and chunks can be put together; nothing else depends on the blocks of the
//! others.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::kernel::KernelReport;
use crate::op::PassReport;
use crate::plan::BackwardPlan;
use crate::problem::PassBlocks;

/// Delta, `dx`, `dw`: the kernels of a streaming pass, in the order in which they run. A fourth sums delta, in its blocks.
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

/// For each number of columns of blocks and of chunks, the plan of the best blocks that each kernel has in `passes`, the fastest
/// first. Those that are in `plans` are left out.
pub(super) fn put_together<B: PassBlocks, K>(
    plans: &[BackwardPlan<B>],
    passes: &[Option<PassReport<K>>],
    most_operations: f64,
) -> Vec<BackwardPlan<B>> {
    let mut best: BTreeMap<[usize; 2], [Option<Cost<B>>; KERNELS]> = BTreeMap::new();
    for (plan, pass) in plans.iter().zip(passes) {
        let (Some(chunk_columns), Some(pass)) = (plan.chunk_columns, pass) else {
            continue;
        };
        let best = best.entry([plan.blocks.sizes().v, chunk_columns]);
        for (i, best) in best.or_default().iter_mut().enumerate() {
            let kernels: Vec<_> = pass.kernels.iter().skip(i).step_by(KERNELS).collect();
            let cost = Cost::of(&kernels, plan.blocks_of(i), most_operations);
            *best = best.take().into_iter().chain(cost).min_by(Cost::rank);
        }
    }
    let mut found: Vec<_> = (best.into_iter())
        .filter_map(|([_, chunk_columns], costs)| {
            let [Some(delta), Some(dx), Some(dw)] = costs else {
                return None;
            };
            let own = |cost: Cost<B>| (cost.blocks != delta.blocks).then_some(cost.blocks);
            let plan = BackwardPlan {
                product_blocks: [own(dx), own(dw)],
                ..BackwardPlan::in_blocks(delta.blocks, Some(chunk_columns))
            };
            let costs = [delta, dx, dw];
            let soon = costs.iter().all(|cost| cost.compiles_soon);
            let time_s: f64 = costs.iter().map(|cost| cost.time_s).sum();
            (plan.product_blocks != [None; 2]).then_some((soon, time_s, plan))
        })
        .collect();
    found.sort_by(|(a_soon, a, _), (b_soon, b, _)| b_soon.cmp(a_soon).then(a.total_cmp(b)));
    found.into_iter().map(|(.., plan)| plan).collect()
}
