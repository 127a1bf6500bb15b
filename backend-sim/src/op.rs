//! An op on a chip: both passes, what is around the kernels, and memory.
//!
//! A [`Request`] says what is computed and where. Tokens are split evenly over chips, and over the
//! devices of a chip where it has several (v7x: two cores without megacore), each with a whole copy
//! of `w`; every device runs the same programs. The sum of `dw` over devices is left out: it belongs
//! to the training step around the op.
//!
//! Array operations between kernels (weights per token, sums of partial gradients, casts) are priced
//! as what they are on a TPU: passes over HBM.

mod floor;
mod report;

use thiserror::Error;
use tilecast_core::DType;
use tilecast_core::budget::HbmLedger;
use tilecast_core::budget::padding::PaddingError;
use tilecast_core::kernels::linear_ce::{HeadError, HeadKernel, LinearCe, Structure};
use tilecast_core::kernels::softmax::LogitsError;
use tilecast_core::program::{Kernel, Program};
use tilecast_core::target::Target;
use tilecast_tpu::lower::F32Products;

use self::floor::array_bytes;
pub use self::report::{HbmReport, OpReport, Total};
use crate::kernel::{self, Bounds, KernelError, KernelReport};
use crate::memory::{raised_limit, room_bytes};
use crate::pipeline::devices_per_chip;
use crate::plan::{BackwardPlan, ForwardPlan};
use crate::problem::{Problem, Setting, Unfused};
use crate::reuse::Known;
use crate::schedule::Machine;
use crate::trace::Process;
use crate::verdict::Verdict;

/// Operations of a kernel, at most, that a search prefers: `docs/cost-model.md` has what the TPU compiler takes for how
/// many.
pub const MOST_OPERATIONS: f64 = 400_000.0;

/// Why there is no report.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SimError {
    /// The problem or its blocks are invalid for every target.
    #[error(transparent)]
    Problem(#[from] HeadError),
    /// The same, of an op on logits.
    #[error(transparent)]
    Logits(Box<LogitsError>),
    /// Neither pass has a candidate.
    #[error("no pass is asked for")]
    NothingToTry,
    /// There are fewer tokens than chips to share them.
    #[error("{tokens} tokens cannot be shared by {chips} chips; use at most {tokens}")]
    TooManyChips {
        /// Tokens.
        tokens: usize,
        /// Chips.
        chips: usize,
    },
    /// An array is too large to count.
    #[error(transparent)]
    Padding(#[from] PaddingError),
    /// A kernel cannot be judged.
    #[error(transparent)]
    Kernel(#[from] KernelError),
}

impl From<LogitsError> for SimError {
    fn from(error: LogitsError) -> Self {
        Self::Logits(Box::new(error))
    }
}

/// What is computed and where.
#[derive(Clone, Copy, Debug)]
pub struct Request<P = LinearCe> {
    problem: P,
    device_problem: P,
    target: &'static Target,
    chips: usize,
    vmem_limit_bytes: Option<u64>,
    raises_limit: bool,
    products: F32Products,
    structure: Structure,
    most_operations: f64,
}

/// One pass: its kernels and what is around them.
#[derive(Clone, Debug)]
pub struct PassReport<K = HeadKernel> {
    program: Program<K>,
    /// The kernels, in order of first launch.
    pub kernels: Vec<KernelReport>,
    /// Bytes that array operations between kernels read and write, on one device.
    pub array_bytes: u64,
    /// Their time.
    pub array_s: f64,
    /// The worst of the kernels.
    pub verdict: Verdict,
}

impl<K: Kernel> PassReport<K> {
    /// Time of the pass and its range; `None` if a kernel cannot run.
    pub fn time_s(&self) -> Option<[f64; 3]> {
        let mut total = [self.array_s; 3];
        for kernel in &self.kernels {
            let prediction = kernel.prediction?;
            let [low, high] = prediction.time_range_s;
            for (sum, value) in total.iter_mut().zip([low, prediction.time_s, high]) {
                *sum += value;
            }
        }
        Some(total)
    }

    /// The largest VMEM of a kernel, bytes.
    pub fn vmem_used_bytes(&self) -> u64 {
        (self.kernels.iter())
            .map(|kernel| kernel.vmem.used_bytes())
            .max()
            .unwrap_or(0)
    }

    /// Operations of the code of the largest kernel.
    pub fn operations(&self) -> f64 {
        let operations = self.kernels.iter().map(|kernel| kernel.operations);
        operations.fold(0.0, f64::max)
    }

    /// The bounds of the kernels, one after the other; array operations count as `hbm`.
    pub fn bounds(&self) -> Bounds {
        let mut bounds = Bounds {
            hbm: self.array_s,
            ..Bounds::default()
        };
        let predictions = self.kernels.iter().filter_map(|kernel| kernel.prediction);
        predictions.for_each(|prediction| bounds.add(&prediction.bounds));
        bounds
    }
}

impl<P: Problem> Request<P> {
    /// `problem` on `chips` chips of `target`, kernels being allowed `vmem_limit_bytes` of VMEM or
    /// the compiler's default.
    ///
    /// # Errors
    /// More chips than tokens.
    pub fn new(
        problem: P,
        target: &'static Target,
        chips: usize,
        vmem_limit_bytes: Option<u64>,
    ) -> Result<Self, SimError> {
        let tokens = problem.tokens();
        if chips > tokens {
            return Err(SimError::TooManyChips { tokens, chips });
        }
        let chips = chips.max(1);
        let devices = chips * devices_per_chip(target);
        let device_problem = problem.share(devices)?;
        Ok(Self {
            problem,
            chips,
            ..Self::of_device(device_problem, target, vmem_limit_bytes)
        })
    }

    /// `problem` on a chip whose devices each have all of its tokens, as a program is written.
    pub fn of_device(problem: P, target: &'static Target, vmem_limit_bytes: Option<u64>) -> Self {
        Self {
            problem,
            device_problem: problem,
            target,
            chips: 1,
            vmem_limit_bytes,
            raises_limit: false,
            products: F32Products::default(),
            structure: Structure::Overlapped,
            most_operations: MOST_OPERATIONS,
        }
    }

    /// The same with products of f32 operands made as `products` says.
    #[must_use]
    pub const fn products(self, products: F32Products) -> Self {
        Self { products, ..self }
    }

    /// The same with kernels of that structure.
    #[must_use]
    pub const fn structure(self, structure: Structure) -> Self {
        Self { structure, ..self }
    }

    /// The same with a search that puts passes with a kernel of more operations after all others.
    #[must_use]
    pub const fn most_operations(self, most_operations: f64) -> Self {
        Self {
            most_operations,
            ..self
        }
    }

    /// Operations of a kernel, at most, that a search prefers.
    pub const fn operations_preferred(&self) -> f64 {
        self.most_operations
    }

    /// The same with each kernel allowed the limit that it needs, [room](room_bytes) for more spills than
    /// predicted included, up to what the target has.
    #[must_use]
    pub fn raising_limit(self) -> Self {
        let capacity = self.target.vmem_usable_bytes.value;
        Self {
            vmem_limit_bytes: Some(capacity.saturating_sub(room_bytes(self.target))),
            raises_limit: true,
            ..self
        }
    }

    /// The same with kernels at the target's default limit.
    #[must_use]
    pub const fn at_default_limit(self) -> Self {
        Self {
            vmem_limit_bytes: None,
            raises_limit: false,
            ..self
        }
    }

    /// Passes of the matrix units that a product takes.
    pub fn product_passes(&self) -> u64 {
        match (self.problem.dtype(), self.products) {
            (DType::F32, F32Products::Exact) => self.target.f32_highest_passes.value,
            (DType::F32, F32Products::Rounded) => self.target.f32_default_passes.value,
            _ => 1,
        }
    }

    /// What steps of the kernels overlap.
    pub const fn kernel_structure(&self) -> Structure {
        self.structure
    }

    /// What the passes are cut up for.
    pub(crate) fn setting(&self) -> Setting {
        Setting {
            target: self.target,
            structure: self.structure,
            vmem_bytes: self.allowed_bytes(),
            products: self.products,
        }
    }

    /// The given limit or the target's default one, bytes.
    fn allowed_bytes(&self) -> u64 {
        let default = self.target.default_vmem_limit_bytes.value;
        let capacity = self.target.vmem_usable_bytes.value;
        self.vmem_limit_bytes.unwrap_or(default).min(capacity)
    }

    /// Whether each kernel has the limit that it needs.
    pub const fn raises_limit(&self) -> bool {
        self.raises_limit
    }

    /// The limit to compile kernels with that use at most `used_bytes` of VMEM, and would have `likely_bytes`, bytes:
    /// the given or the target's default one; where it may be raised, what leaves the room and is likely enough, in
    /// whole KiB, or the most that such kernels may use if they use more.
    pub fn limit_for(&self, used_bytes: u64, likely_bytes: u64) -> u64 {
        let given = self.allowed_bytes();
        match self.raises_limit && used_bytes <= given {
            true => raised_limit(self.target, used_bytes, likely_bytes),
            false => given,
        }
    }

    /// The whole problem.
    pub const fn problem(&self) -> &P {
        &self.problem
    }

    /// The share of one device.
    pub const fn device_problem(&self) -> &P {
        &self.device_problem
    }

    /// The target.
    pub const fn target(&self) -> &'static Target {
        self.target
    }

    /// Number of chips.
    pub const fn chips(&self) -> usize {
        self.chips
    }

    /// The forward pass, cut as `plan` says, or in these blocks.
    ///
    /// # Errors
    /// Blocks that no target could take.
    pub fn forward(
        &self,
        plan: impl Into<ForwardPlan<P::Blocks>>,
    ) -> Result<PassReport<P::Kernel>, SimError> {
        let program = self.forward_program(plan.into())?;
        self.judge(program, &mut self.nothing_known())
    }

    /// The backward pass, cut as `plan` says.
    ///
    /// # Errors
    /// Blocks that no target could take.
    pub fn backward(
        &self,
        plan: BackwardPlan<P::Blocks>,
    ) -> Result<PassReport<P::Kernel>, SimError> {
        self.judge(self.backward_program(plan)?, &mut self.nothing_known())
    }

    pub(crate) fn forward_program(
        &self,
        plan: ForwardPlan<P::Blocks>,
    ) -> Result<Program<P::Kernel>, SimError> {
        (self.device_problem).forward(plan, self.setting())
    }

    pub(crate) fn backward_program(
        &self,
        plan: BackwardPlan<P::Blocks>,
    ) -> Result<Program<P::Kernel>, SimError> {
        (self.device_problem).backward(plan, self.setting())
    }

    /// What is known of the kernels of this request before any is judged.
    pub(crate) fn nothing_known(&self) -> Known {
        Known::new(Machine::new(self.target), self.products)
    }

    /// The pass that is `program`, with what is known of the kernels of this request.
    pub(crate) fn judge(
        &self,
        program: Program<P::Kernel>,
        known: &mut Known,
    ) -> Result<PassReport<P::Kernel>, SimError> {
        let kernels = kernel::report_again(&program, self.vmem_limit_bytes, known)?;
        Ok(PassReport {
            verdict: (kernels.iter())
                .map(|kernel| kernel.verdict)
                .max()
                .unwrap_or(Verdict::Fits),
            array_bytes: array_bytes(&program, program.steps()),
            array_s: self.array_s(&program),
            program,
            kernels,
        })
    }

    /// What each kernel of `pass` does in its first and last `steps` grid steps.
    ///
    /// # Errors
    /// A kernel that cannot be judged.
    pub fn trace(
        &self,
        pass: &PassReport<P::Kernel>,
        steps: u64,
    ) -> Result<Vec<Process>, SimError> {
        Ok(kernel::trace(
            &pass.program,
            self.target,
            self.products,
            steps,
        )?)
    }

    /// The op made of the given passes.
    ///
    /// # Errors
    /// An array too large to count.
    pub fn total(&self, passes: &[&PassReport<P::Kernel>]) -> Result<OpReport, SimError> {
        let programs = passes.iter().map(|pass| &pass.program);
        let ledger = HbmLedger::new(programs, self.target)?;
        let kernels = passes.iter().flat_map(|pass| &pass.kernels);
        let times: Option<Vec<[f64; 3]>> = passes.iter().map(|pass| pass.time_s()).collect();
        Ok(OpReport::new(
            &kernels.collect::<Vec<_>>(),
            HbmReport::of(&ledger, self.target, P::LESS_HBM),
            times,
            self.problem.tokens(),
        ))
    }

    /// What one chip would need without fused kernels.
    pub fn unfused(&self, backward: bool) -> Unfused {
        let devices = devices_per_chip(self.target) as u128;
        let mut unfused = self.device_problem.unfused(backward);
        unfused
            .terms
            .iter_mut()
            .for_each(|(_, bytes)| *bytes *= devices);
        unfused.traffic_bytes = unfused.traffic_bytes.map(|bytes| bytes * devices);
        unfused
    }

    /// The same with the gradient in the other of two places, and what that is called; see
    /// [`Problem::other_place`].
    pub fn other_place(&self) -> Option<(&'static str, Self)> {
        let (name, problem) = self.problem.other_place()?;
        let (_, device_problem) = self.device_problem.other_place()?;
        let other = Self {
            problem,
            device_problem,
            ..*self
        };
        Some((name, other))
    }
}
