//! Block sizes of the [grouped product](tilecast_core::kernels::grouped_matmul), ranked by their predicted times.
//!
//! How long a grouped product takes depends on the sizes of the groups, which nobody knows before; they are taken to be [almost
//! even](tilecast_core::groups::Groups::typical), as a router with a balancing loss makes them. What fits does not depend on them.

use thiserror::Error;
use tilecast_core::kernels::grouped_matmul::{
    Blocks, GroupedError, GroupedMatmul, Product, Schedule,
};
use tilecast_core::target::{LANES, Target};
use tilecast_tpu::lower::F32Products;

use crate::Verdict;
use crate::kernel::{KernelError, KernelReport, report};
use crate::memory::{FIT_PROBABILITY, raised_limit, room_bytes};
use crate::op::MOST_OPERATIONS;

/// Why block sizes cannot be ranked.
#[derive(Clone, PartialEq, Debug, Error)]
#[non_exhaustive]
pub enum ExpertsError {
    /// The op refuses blocks.
    #[error(transparent)]
    Op(#[from] GroupedError),
    /// The model does not understand a kernel.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// No block sizes fit.
    #[error("{kernel}: none of {tried} block sizes fits {target}; raise the VMEM limit")]
    NothingFits {
        /// Kernel.
        kernel: &'static str,
        /// How many were tried.
        tried: usize,
        /// Target.
        target: &'static str,
    },
}

/// Block sizes, and what is predicted of them.
#[derive(Clone, PartialEq, Debug)]
pub struct Candidate {
    /// The block sizes.
    pub blocks: Blocks,
    /// VMEM, verdict and time of the kernel.
    pub report: KernelReport,
    /// The limit of VMEM to compile it with, bytes; of what does not fit, the one that it exceeds.
    pub vmem_limit_bytes: u64,
}

/// The fastest block sizes that fit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice {
    /// The block sizes of each product.
    pub schedule: Schedule,
    /// The largest limit of VMEM that one of the kernels needs, bytes.
    pub vmem_limit_bytes: u64,
}

impl Candidate {
    /// Predicted time, seconds; infinite for what does not fit.
    pub fn time_s(&self) -> f64 {
        let prediction = self.report.prediction.as_ref();
        prediction.map_or(f64::INFINITY, |prediction| prediction.time_s)
    }

    /// Whether the code is short enough to be compiled soon.
    fn compiles_soon(&self) -> bool {
        self.report.operations <= MOST_OPERATIONS
    }
}

/// All block sizes that are tried for one product: the fastest first, behind them those of so much code that compiling takes long, those that
/// do not fit last. Each has the limit of VMEM that it needs, with [room](crate::memory::room_bytes) for more spills than predicted, unless one is given.
///
/// # Errors
/// A kernel that the model does not understand.
pub fn rank(
    op: &GroupedMatmul,
    product: Product,
    target: &'static Target,
    vmem_limit_bytes: Option<u64>,
) -> Result<Vec<Candidate>, ExpertsError> {
    let most = target.vmem_usable_bytes.value - room_bytes(target);
    let allowed = vmem_limit_bytes.unwrap_or(most);
    let judge = |blocks| {
        let program = op.product(product, blocks)?;
        let reports = report(&program, target, Some(allowed), F32Products::Exact)?;
        let one_launch = reports.into_iter().next();
        Ok(one_launch.map(|report| {
            let vmem = &report.vmem;
            let likely = vmem.limit_for_probability(FIT_PROBABILITY);
            let raised = || raised_limit(target, vmem.used_bytes(), likely);
            let raises = vmem_limit_bytes.is_none() && report.verdict == Verdict::Fits;
            Candidate {
                blocks,
                vmem_limit_bytes: if raises { raised() } else { allowed },
                report,
            }
        }))
    };
    let judged: Result<Vec<_>, ExpertsError> =
        candidates(op, product).into_iter().map(judge).collect();
    let mut ranked: Vec<Candidate> = judged?.into_iter().flatten().collect();
    ranked.sort_by(|a, b| {
        let fits = |one: &Candidate| one.report.verdict == Verdict::Fits;
        let order = |one: &Candidate| (!fits(one), !one.compiles_soon());
        order(a)
            .cmp(&order(b))
            .then(a.time_s().total_cmp(&b.time_s()))
    });
    Ok(ranked)
}

/// The fastest block sizes of each product that fit.
///
/// # Errors
/// As for [`rank`]; nothing fits.
pub fn choose(
    op: &GroupedMatmul,
    target: &'static Target,
    vmem_limit_bytes: Option<u64>,
) -> Result<Choice, ExpertsError> {
    let mut limit_bytes = 0;
    let mut best = |product: Product| {
        let ranked = rank(op, product, target, vmem_limit_bytes)?;
        let first = ranked
            .first()
            .filter(|first| first.report.verdict == Verdict::Fits);
        let (kernel, tried, target) = (product.name(), ranked.len(), target.name);
        first
            .map(|first| {
                limit_bytes = limit_bytes.max(first.vmem_limit_bytes);
                first.blocks
            })
            .ok_or(ExpertsError::NothingFits {
                kernel,
                tried,
                target,
            })
    };
    let schedule = Schedule {
        forward: best(Product::Y)?,
        dx: best(Product::Dx)?,
        dw: best(Product::Dw)?,
    };
    Ok(Choice {
        schedule,
        vmem_limit_bytes: limit_bytes,
    })
}

/// Block sizes worth trying.
fn candidates(op: &GroupedMatmul, product: Product) -> Vec<Blocks> {
    let free = |size: usize| {
        let blocks = BLOCKS.into_iter().filter(move |&block| block < size);
        blocks.chain([size])
    };
    let summed = |size: usize| free(size).filter(move |&block| size.is_multiple_of(block));
    let inputs: Vec<usize> = match product {
        Product::Y => summed(op.inputs()).collect(),
        _ => free(op.inputs()).collect(),
    };
    let outputs: Vec<usize> = match product {
        Product::Dx => summed(op.outputs()).collect(),
        _ => free(op.outputs()).collect(),
    };
    let rows = ROWS
        .into_iter()
        .filter(|&rows| rows <= op.rows().next_multiple_of(LANES));
    let blocks = rows.flat_map(|rows| {
        let outputs = &outputs;
        inputs.iter().flat_map(move |&inputs| {
            outputs.iter().flat_map(move |&outputs| {
                let parts = PARTS.into_iter().filter(move |&part| part <= rows);
                parts.map(move |part| Blocks {
                    rows,
                    part,
                    inputs,
                    outputs,
                })
            })
        })
    });
    blocks
        .filter(|blocks| blocks.inputs.max(blocks.outputs) <= MOST)
        .collect()
}

/// Blocks of inputs and outputs.
const BLOCKS: [usize; 5] = [256, 512, 1024, 2048, 4096];

/// Larger blocks of inputs and outputs fit no target beside others of some use.
const MOST: usize = 8192;

/// Rows of parts of blocks that groups share. Units of v6e and v7x take 256 rows in the time that new weights do.
const PARTS: [usize; 2] = [128, 256];

/// Blocks of rows.
const ROWS: [usize; 4] = [128, 256, 512, 1024];

#[cfg(test)]
mod tests {
    use super::*;
    use tilecast_core::DType;

    #[test]
    fn what_is_chosen_fits_and_is_the_fastest() {
        let op = GroupedMatmul::new([2048, 8, 1024, 768], DType::Bf16, DType::Bf16).unwrap();
        let target = Target::by_name("v5e").unwrap();
        let limit = Some(4 << 20);
        let schedule = choose(&op, target, limit).unwrap().schedule;
        let chosen = [schedule.forward, schedule.dx, schedule.dw];
        for (product, chosen) in Product::ALL.into_iter().zip(chosen) {
            let ranked = rank(&op, product, target, limit).unwrap();
            assert_eq!(ranked[0].blocks, chosen);
            let fits = |candidate: &&Candidate| candidate.report.verdict == Verdict::Fits;
            assert!(
                ranked
                    .iter()
                    .filter(fits)
                    .all(|other| other.time_s() >= ranked[0].time_s())
            );
            assert!(
                ranked.iter().any(|candidate| !fits(&candidate)),
                "some are too large"
            );
        }
    }

    #[test]
    fn nothing_that_fits_is_an_error() {
        let op = GroupedMatmul::new([2048, 8, 1024, 768], DType::Bf16, DType::Bf16).unwrap();
        let target = Target::by_name("v5e").unwrap();
        let refused = choose(&op, target, Some(64 << 10)).unwrap_err().to_string();
        assert!(refused.contains("raise the VMEM limit"), "{refused}");
    }
}
