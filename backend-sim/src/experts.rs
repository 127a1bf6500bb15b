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
}

impl Candidate {
    /// Predicted time, seconds; infinite for what does not fit.
    pub fn time_s(&self) -> f64 {
        let prediction = self.report.prediction.as_ref();
        prediction.map_or(f64::INFINITY, |prediction| prediction.time_s)
    }
}

/// All block sizes that are tried for one product, the fastest first, those that do not fit last. The limit of VMEM is the target's default
/// unless given.
///
/// # Errors
/// A kernel that the model does not understand.
pub fn rank(
    op: &GroupedMatmul,
    product: Product,
    target: &'static Target,
    vmem_limit_bytes: Option<u64>,
) -> Result<Vec<Candidate>, ExpertsError> {
    let judge = |blocks| {
        let program = op.product(product, blocks)?;
        let reports = report(&program, target, vmem_limit_bytes, F32Products::Exact)?;
        let one_launch = reports.into_iter().next();
        Ok(one_launch.map(|report| Candidate { blocks, report }))
    };
    let judged: Result<Vec<_>, ExpertsError> =
        candidates(op, product).into_iter().map(judge).collect();
    let mut ranked: Vec<Candidate> = judged?.into_iter().flatten().collect();
    ranked.sort_by(|a, b| a.time_s().total_cmp(&b.time_s()));
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
) -> Result<Schedule, ExpertsError> {
    let best = |product: Product| {
        let ranked = rank(op, product, target, vmem_limit_bytes)?;
        let first = ranked
            .first()
            .filter(|first| first.report.verdict == Verdict::Fits);
        let (kernel, tried, target) = (product.name(), ranked.len(), target.name);
        first
            .map(|first| first.blocks)
            .ok_or(ExpertsError::NothingFits {
                kernel,
                tried,
                target,
            })
    };
    Ok(Schedule {
        forward: best(Product::Y)?,
        dx: best(Product::Dx)?,
        dw: best(Product::Dw)?,
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
            outputs.iter().map(move |&outputs| Blocks {
                rows,
                part: LANES,
                inputs,
                outputs,
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
        let schedule = choose(&op, target, limit).unwrap();
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
