//! The [grouped product](tilecast_core::kernels::grouped_matmul): its block sizes ranked by their predicted times, and
//! what it needs of chips that share the experts.
//!
//! How long a grouped product takes depends on the sizes of the groups, which nobody knows before; they are taken to be
//! [almost even](tilecast_core::groups::Groups::typical), as a router with a balancing loss makes them. What fits does
//! not depend on them.

mod blocks;
mod spread;

use thiserror::Error;
use tilecast_core::budget::padding::PaddingError;
use tilecast_core::budget::{HbmLedger, HbmTerm};
use tilecast_core::kernels::grouped_matmul::{
    Blocks, GroupedError, GroupedKernel, GroupedMatmul, Product, Schedule,
};
use tilecast_core::program::{Program, Role};
use tilecast_core::target::Target;
use tilecast_tpu::lower::F32Products;

pub(crate) use self::blocks::at_once;
use self::blocks::{candidates, in_parts};
pub use self::spread::{Exchange, Spread};
use crate::Verdict;
use crate::kernel::{self, KernelError, KernelReport, report};
use crate::memory::{FIT_PROBABILITY, raised_limit, room_bytes};
use crate::op::{HbmReport, MOST_OPERATIONS, OpReport};
use crate::problem::Passes;
use crate::trace::Process;

/// Why there is no answer.
#[derive(Clone, PartialEq, Debug, Error)]
#[non_exhaustive]
pub enum ExpertsError {
    /// The op refuses blocks.
    #[error(transparent)]
    Op(#[from] GroupedError),
    /// The model does not understand a kernel.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// An array is too large.
    #[error(transparent)]
    Padding(#[from] PaddingError),
    /// There are fewer rows than devices to share them.
    #[error("{rows} rows cannot be shared by {devices} devices; use at most as many devices")]
    TooManyDevices {
        /// Rows.
        rows: usize,
        /// Devices.
        devices: usize,
    },
    /// No block sizes fit.
    #[error("{kernel}: none of {tried} block sizes fits {target}; the first: {reason}")]
    NothingFits {
        /// Kernel.
        kernel: &'static str,
        /// How many were tried.
        tried: usize,
        /// Target.
        target: &'static str,
        /// Why the first does not, and what helps.
        reason: String,
    },
    /// There are no block sizes to try.
    #[error("{kernel}: there are no block sizes to try for {target}; give some (--blocks)")]
    NothingToTry {
        /// Kernel.
        kernel: &'static str,
        /// Target.
        target: &'static str,
    },
}

/// What is to be computed, and where.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    op: GroupedMatmul,
    device_op: GroupedMatmul,
    target: &'static Target,
    chips: usize,
    spread: Spread,
    vmem_limit_bytes: Option<u64>,
}

/// Blocks that are given, of the forward pass and of the backward: rows, inputs and outputs. What is not given is
/// chosen.
pub type Given = [Option<[usize; 3]>; 2];

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

/// Block sizes of every product, all of which fit.
#[derive(Clone, PartialEq, Debug)]
pub struct Choice {
    /// The block sizes of each product.
    pub schedule: Schedule,
    /// The largest limit of VMEM that one of the kernels needs, bytes.
    pub vmem_limit_bytes: u64,
    /// What is predicted of each product.
    pub best: Vec<(Product, Candidate)>,
}

/// What is predicted of passes.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// The products, each in the best of its blocks.
    pub best: Vec<(Product, Candidate)>,
    /// Verdict, HBM of a chip and time of all of them.
    pub report: OpReport,
    /// Exchanges that bring rows to their experts and results back: those of the inputs of the passes, and of the
    /// outputs.
    pub exchanges: Vec<(&'static str, Exchange)>,
    program: Program<GroupedKernel>,
}

impl Candidate {
    /// Predicted time, seconds; infinite for what does not fit.
    pub fn time_s(&self) -> f64 {
        let prediction = self.report.prediction.as_ref();
        prediction.map_or(f64::INFINITY, |prediction| prediction.time_s)
    }

    /// Whether it can run.
    pub fn fits(&self) -> bool {
        self.report.verdict == Verdict::Fits
    }

    /// Whether the code is short enough to be compiled soon.
    fn compiles_soon(&self) -> bool {
        self.report.operations <= MOST_OPERATIONS
    }
}

impl Request {
    /// `op` on `chips` chips of `target`, which [share](Spread) its rows and experts. Kernels may use
    /// `vmem_limit_bytes`, or, if none is given, what they need.
    ///
    /// # Errors
    /// Fewer rows than devices.
    pub fn new(
        op: GroupedMatmul,
        target: &'static Target,
        chips: usize,
        vmem_limit_bytes: Option<u64>,
    ) -> Result<Self, ExpertsError> {
        let chips = chips.max(1);
        let spread = Spread::new(op.experts(), target, chips);
        Ok(Self {
            device_op: spread.share(&op)?,
            chips,
            spread,
            ..Self::of_device(op, target, vmem_limit_bytes)
        })
    }

    /// `op` on each device, as a program is written.
    pub fn of_device(
        op: GroupedMatmul,
        target: &'static Target,
        vmem_limit_bytes: Option<u64>,
    ) -> Self {
        Self {
            op,
            device_op: op,
            target,
            chips: 1,
            spread: Spread {
                devices: 1,
                sharing: 1,
            },
            vmem_limit_bytes,
        }
    }

    /// All of it.
    pub const fn op(&self) -> &GroupedMatmul {
        &self.op
    }

    /// What one device computes.
    pub const fn device_op(&self) -> &GroupedMatmul {
        &self.device_op
    }

    /// The target.
    pub const fn target(&self) -> &'static Target {
        self.target
    }

    /// Number of chips.
    pub const fn chips(&self) -> usize {
        self.chips
    }

    /// How rows and experts are spread over them.
    pub const fn spread(&self) -> Spread {
        self.spread
    }

    /// Whether each kernel gets the limit of VMEM that it needs.
    pub const fn raises_limit(&self) -> bool {
        self.vmem_limit_bytes.is_none()
    }

    /// Block sizes for one product, those that are `given` or all that are worth trying: the fastest first, behind them
    /// those of so much code that compiling takes long, those that do not fit last. Each has the limit of VMEM that it
    /// needs, with [room](crate::memory::room_bytes) for more spills than predicted, unless one is given.
    ///
    /// # Errors
    /// Blocks that the op refuses; a kernel that the model does not understand.
    pub fn rank(&self, product: Product, given: Given) -> Result<Vec<Candidate>, ExpertsError> {
        let judged: Result<Vec<_>, ExpertsError> = (self.tried(product, given).into_iter())
            .map(|blocks| self.judge(product, blocks))
            .collect();
        let mut ranked: Vec<Candidate> = judged?.into_iter().flatten().collect();
        ranked.sort_by(|a, b| {
            let order = |one: &Candidate| (!one.fits(), !one.compiles_soon());
            order(a)
                .cmp(&order(b))
                .then(a.time_s().total_cmp(&b.time_s()))
        });
        Ok(ranked)
    }

    fn tried(&self, product: Product, given: Given) -> Vec<Blocks> {
        match given_for(product, given) {
            Some(given) => in_parts(&self.device_op, given).collect(),
            None => candidates(&self.device_op, product),
        }
    }

    fn judge(&self, product: Product, blocks: Blocks) -> Result<Option<Candidate>, ExpertsError> {
        let target = self.target;
        let most = target.vmem_usable_bytes.value - room_bytes(target);
        let allowed = self.vmem_limit_bytes.unwrap_or(most);
        let program = self.device_op.product(product, blocks)?;
        let reports = report(&program, target, Some(allowed), F32Products::Exact)?;
        let one_launch = reports.into_iter().next();
        Ok(one_launch.map(|report| {
            let vmem = &report.vmem;
            let likely = vmem.limit_for_probability(FIT_PROBABILITY);
            let raised = || raised_limit(target, vmem.used_bytes(), likely);
            let raises = self.raises_limit() && report.verdict == Verdict::Fits;
            Candidate {
                blocks,
                vmem_limit_bytes: if raises { raised() } else { allowed },
                report,
            }
        }))
    }

    /// The best of each product: the fastest that fits, or of those that do not, the first.
    fn best(
        &self,
        products: &[Product],
        given: Given,
    ) -> Result<Vec<(Product, Candidate)>, ExpertsError> {
        let mut best = Vec::new();
        for &product in products {
            let ranked = self.rank(product, given)?;
            let first = ranked
                .into_iter()
                .next()
                .ok_or(ExpertsError::NothingToTry {
                    kernel: product.name(),
                    target: self.target.name,
                })?;
            best.push((product, first));
        }
        Ok(best)
    }

    /// The fastest block sizes that fit of each product of these passes; those of the others are no choice.
    ///
    /// # Errors
    /// As for [`Self::rank`]; nothing fits.
    pub fn choose(&self, passes: Passes, given: Given) -> Result<Choice, ExpertsError> {
        let best = self.best(products(passes), given)?;
        if let Some((product, one)) = best.iter().find(|(_, one)| !one.fits()) {
            return Err(ExpertsError::NothingFits {
                kernel: product.name(),
                tried: self.tried(*product, given).len(),
                target: self.target.name,
                reason: one.report.reason.clone().unwrap_or_default(),
            });
        }
        let limits = best.iter().map(|(_, one)| one.vmem_limit_bytes);
        Ok(Choice {
            vmem_limit_bytes: limits.max().unwrap_or(0),
            schedule: schedule(&best),
            best,
        })
    }

    /// What passes need, and how long they take.
    ///
    /// # Errors
    /// As for [`Self::rank`]; an array too large to count.
    pub fn simulate(&self, passes: Passes, given: Given) -> Result<Simulation, ExpertsError> {
        let best = self.best(products(passes), given)?;
        let program = program(&self.device_op, &schedule(&best), passes)?;
        let mut ledger = HbmLedger::new([&program], self.target)?;
        let is_table = |term: &HbmTerm| term.role == Role::Temporary;
        let tables = HbmTerm {
            name: "tables of visits",
            bytes: ledger.temporary_bytes(),
            role: Role::Temporary,
        };
        ledger.terms.retain(|term| !is_table(term));
        ledger.terms.push(tables);
        let reports: Vec<&KernelReport> = best.iter().map(|(_, one)| &one.report).collect();
        let times = reports.iter().map(|report| {
            let prediction = report.prediction?;
            let [low, high] = prediction.time_range_s;
            Some([low, prediction.time_s, high])
        });
        let report = OpReport::new(
            &reports,
            HbmReport::of(&ledger, self.target, LESS_HBM),
            times.collect(),
            self.op.rows(),
        );
        Ok(Simulation {
            exchanges: self.exchanges(&report.hbm, passes),
            best,
            report,
            program,
        })
    }

    /// Of the rows that passes read, and of those that they write; `hbm` has their bytes.
    fn exchanges(&self, hbm: &HbmReport, passes: Passes) -> Vec<(&'static str, Exchange)> {
        let chips = self.spread.exchanging_chips(self.target);
        if chips < 2 {
            return Vec::new();
        }
        let names: &[&str] = match passes {
            Passes::Forward => &["x", "y"],
            // The rows of the forward pass are still where they were sent.
            Passes::Backward => &["dy", "dx"],
            Passes::Both => &["x", "y", "dy", "dx"],
        };
        let of_rows = hbm.terms.iter().filter(|(name, _)| names.contains(name));
        let exchange = |&(name, bytes)| (name, Exchange::new(chips, bytes, self.target));
        of_rows.map(exchange).collect()
    }

    /// What each kernel of a simulation does in its first and last `steps` grid steps.
    ///
    /// # Errors
    /// A kernel that the model does not understand.
    pub fn trace(&self, simulation: &Simulation, steps: u64) -> Result<Vec<Process>, ExpertsError> {
        let program = &simulation.program;
        Ok(kernel::trace(
            program,
            self.target,
            F32Products::Exact,
            steps,
        )?)
    }
}

const LESS_HBM: &str = "use fewer rows, or more chips to share the experts";

/// The products of passes.
pub const fn products(passes: Passes) -> &'static [Product] {
    match passes {
        Passes::Forward => &[Product::Y],
        Passes::Backward => &[Product::Dx, Product::Dw],
        Passes::Both => &Product::ALL,
    }
}

/// The program of passes.
///
/// # Errors
/// Blocks that the op refuses.
pub fn program(
    op: &GroupedMatmul,
    schedule: &Schedule,
    passes: Passes,
) -> Result<Program<GroupedKernel>, GroupedError> {
    match passes {
        Passes::Forward => op.forward(schedule),
        Passes::Backward => op.backward(schedule),
        Passes::Both => op.forward_and_backward(schedule),
    }
}

fn given_for(product: Product, [forward, backward]: Given) -> Option<[usize; 3]> {
    match product {
        Product::Y => forward,
        Product::Dx | Product::Dw => backward,
    }
}

/// The schedule of products; of those that are left out it is of no account.
fn schedule(best: &[(Product, Candidate)]) -> Schedule {
    let mut schedule = Schedule::of(best[0].1.blocks);
    for (product, one) in best {
        *schedule.product_mut(*product) = one.blocks;
    }
    schedule
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilecast_core::DType;

    const LIMIT_BYTES: u64 = 4 << 20;

    fn op() -> GroupedMatmul {
        GroupedMatmul::new([2048, 8, 1024, 768], DType::Bf16, DType::Bf16).unwrap()
    }

    fn on_v5e(vmem_limit_bytes: u64) -> Request {
        let target = Target::by_name("v5e").unwrap();
        Request::of_device(op(), target, Some(vmem_limit_bytes))
    }

    #[test]
    fn what_is_chosen_fits_and_is_the_fastest() {
        let request = on_v5e(LIMIT_BYTES);
        let choice = request.choose(Passes::Both, [None; 2]).unwrap();
        for product in Product::ALL {
            let ranked = request.rank(product, [None; 2]).unwrap();
            assert_eq!(ranked[0].blocks, choice.schedule.product(product));
            let mut fitting = ranked.iter().filter(|one| one.fits());
            assert!(fitting.all(|other| other.time_s() >= ranked[0].time_s()));
            assert!(ranked.iter().any(|one| !one.fits()), "some are too large");
        }
    }

    #[test]
    fn nothing_that_fits_is_an_error() {
        let refused = on_v5e(64 << 10)
            .choose(Passes::Both, [None; 2])
            .unwrap_err()
            .to_string();
        assert!(refused.contains("the first: needs"), "{refused}");
        assert!(refused.contains("raise the limit"), "{refused}");
    }

    #[test]
    fn given_blocks_are_kept() {
        let request = on_v5e(LIMIT_BYTES);
        let given = [Some([256, 512, 256]), None];
        let choice = request.choose(Passes::Both, given).unwrap();
        let Blocks {
            rows,
            inputs,
            outputs,
            ..
        } = choice.schedule.forward;
        assert_eq!([rows, inputs, outputs], [256, 512, 256]);
        assert_eq!(
            choice.schedule.dx,
            request.choose(Passes::Both, [None; 2]).unwrap().schedule.dx
        );
        let too_large = request.simulate(Passes::Forward, [Some([1024, 1024, 768]), None]);
        let report = too_large.unwrap().report;
        assert_eq!(report.verdict, Verdict::VmemOom);
        assert!(report.total.is_none());
    }

    #[test]
    fn chips_that_share_the_experts_share_weights_and_rows() {
        let target = Target::by_name("v5e").unwrap();
        let simulated = |chips| {
            let request = Request::new(op(), target, chips, None).unwrap();
            request.simulate(Passes::Both, [None; 2]).unwrap()
        };
        let [one, four] = [1, 4].map(simulated);
        let bytes = |simulation: &Simulation, name: &str| {
            let terms = &simulation.report.hbm.terms;
            terms.iter().find(|term| term.0 == name).unwrap().1
        };
        for name in ["x", "w", "y", "dy", "dx", "dw"] {
            assert_eq!(bytes(&one, name), 4 * bytes(&four, name), "{name}");
        }
        assert!(one.exchanges.is_empty());
        let exchanged: Vec<_> = four.exchanges.iter().map(|(name, _)| *name).collect();
        assert_eq!(exchanged, ["x", "dy", "y", "dx"]);
        let rows_per_s = |simulation: &Simulation| simulation.report.total.unwrap().tokens_per_s;
        assert!(rows_per_s(&four) > 2.0 * rows_per_s(&one));
    }
}
