//! [`Problem`]: an op as a simulation and a search see it, whatever it computes.
//!
//! That is two passes that are programs of kernels, the block sizes each of them can be cut into, and
//! what is needed where nothing is fused. Everything else is the same for all ops.

mod blocks;
mod schedule;

use std::fmt::Debug;

use tilecast_core::DType;
use tilecast_core::kernels::head::{self, Head, HeadKernel, Schedule, Strategy, Structure};
use tilecast_core::kernels::linear_ce::LinearCe;
use tilecast_core::kernels::linear_op::LinearOp;
use tilecast_core::kernels::logits_op::LogitsOp;
use tilecast_core::kernels::softmax::{self, SoftmaxKernel};
use tilecast_core::program::{Kernel, Program};
use tilecast_core::target::Target;
use tilecast_tpu::lower::F32Products;

use crate::op::SimError;
use crate::plan::{BackwardPlan, ForwardPlan, may_round_w, packs_x_backward, x_forms};
use crate::tune::plans;

pub use blocks::{BlockSizes, PassBlocks};
pub(crate) use schedule::schedule;
use schedule::{Pass, program, with_two_buffers};

/// What passes are cut up for.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The generation.
    pub target: &'static Target,
    /// What steps of the kernels overlap.
    pub structure: Structure,
    /// VMEM that a kernel may use, bytes.
    pub vmem_bytes: u64,
    /// Products of f32 operands.
    pub products: F32Products,
}

/// An op that can be simulated.
pub trait Problem: Copy + Debug {
    /// Its kernels.
    type Kernel: Kernel + Clone + Debug;
    /// Block sizes of a pass.
    type Blocks: PassBlocks;

    /// What to do where HBM is short.
    const LESS_HBM: &'static str;

    /// `B`
    fn tokens(&self) -> usize;
    /// `H`, where there is one.
    fn hidden(&self) -> Option<usize>;
    /// `V`
    fn vocab(&self) -> usize;
    /// Type of the inputs.
    fn dtype(&self) -> DType;

    /// The share of one of `devices` that split the tokens evenly.
    ///
    /// # Errors
    /// Whatever the op refuses.
    fn share(&self, devices: usize) -> Result<Self, SimError>;

    /// The forward pass; ops on given logits have one structure.
    ///
    /// # Errors
    /// Blocks that no target could take.
    fn forward(
        &self,
        plan: ForwardPlan<Self::Blocks>,
        setting: Setting,
    ) -> Result<Program<Self::Kernel>, SimError>;

    /// The backward pass; ops on given logits have one structure.
    ///
    /// # Errors
    /// Blocks that no target could take.
    fn backward(
        &self,
        plan: BackwardPlan<Self::Blocks>,
        setting: Setting,
    ) -> Result<Program<Self::Kernel>, SimError>;

    /// Block sizes worth trying.
    fn candidates(&self, target: &Target) -> Vec<Self::Blocks>;

    /// The forward plans of given blocks.
    fn forward_plans(
        &self,
        blocks: Self::Blocks,
        setting: Setting,
    ) -> Vec<ForwardPlan<Self::Blocks>>;

    /// The backward plans of given blocks, of the given strategies where there are several.
    fn plans(
        &self,
        blocks: Self::Blocks,
        strategies: &[Strategy],
        setting: Setting,
    ) -> Vec<BackwardPlan<Self::Blocks>>;

    /// Multiply-adds of one product over the whole op: one forward, three backward.
    fn product_macs(&self) -> f64;

    /// What the same op needs without fused kernels.
    fn unfused(&self, backward: bool) -> Unfused;

    /// The same op with its gradient in memory of its own, or over its input, whichever this is not; and what
    /// that is called. `None` for an op that has no such choice.
    fn other_place(&self) -> Option<(&'static str, Self)>;
}

/// An op without fused kernels.
#[derive(Clone, PartialEq, Debug)]
pub struct Unfused {
    /// What is assumed, in words.
    pub assumption: &'static str,
    /// Arrays and their bytes; those that a fused kernel does without are named `.., f32`.
    pub terms: Vec<(&'static str, u128)>,
    /// Bytes that are read and written at least, where nothing but memory takes time.
    pub traffic_bytes: Option<u128>,
}

impl Unfused {
    /// Sum of the arrays, bytes.
    pub fn used_bytes(&self) -> u128 {
        self.terms.iter().map(|&(_, bytes)| bytes).sum()
    }
}

/// An op on a head: whatever it computes, it is cut up and searched alike.
pub trait OnHead: Copy + Debug {
    /// The head.
    fn head(&self) -> &Head;

    /// The share of one of `devices` that split the tokens evenly.
    ///
    /// # Errors
    /// Whatever the op refuses.
    fn share(&self, devices: usize) -> Result<Self, SimError>;

    /// The program of the given passes, at least one of them.
    ///
    /// # Errors
    /// A schedule that no target could take.
    fn program(&self, passes: Passes, schedule: &Schedule)
    -> Result<Program<HeadKernel>, SimError>;

    /// Arrays of one number per token that the op reads and writes: what they are called together, and how many.
    fn vectors(&self) -> (&'static str, usize);
}

/// Passes of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Passes {
    /// Outputs.
    Forward,
    /// Gradients.
    Backward,
    /// One after the other.
    Both,
}

impl OnHead for LinearCe {
    fn head(&self) -> &Head {
        self.head()
    }

    fn share(&self, devices: usize) -> Result<Self, SimError> {
        let tokens = self.tokens().div_ceil(devices);
        let (hidden, vocab, options) = (self.hidden(), self.vocab(), *self.options());
        Ok(Self::new(tokens, hidden, vocab, self.dtype(), options)?)
    }

    fn program(
        &self,
        passes: Passes,
        schedule: &Schedule,
    ) -> Result<Program<HeadKernel>, SimError> {
        Ok(match passes {
            Passes::Forward => self.forward(schedule),
            Passes::Backward => self.backward(schedule),
            Passes::Both => self.forward_and_backward(schedule),
        }?)
    }

    fn vectors(&self) -> (&'static str, usize) {
        ("labels, loss, lse", 3)
    }
}

impl OnHead for LinearOp {
    fn head(&self) -> &Head {
        self.head()
    }

    fn share(&self, devices: usize) -> Result<Self, SimError> {
        Ok(self.share(devices)?)
    }

    fn program(
        &self,
        passes: Passes,
        schedule: &Schedule,
    ) -> Result<Program<HeadKernel>, SimError> {
        Ok(match passes {
            Passes::Forward => self.forward(schedule),
            Passes::Backward => self.backward(schedule),
            Passes::Both => self.forward_and_backward(schedule),
        }?)
    }

    fn vectors(&self) -> (&'static str, usize) {
        match self.op() {
            LogitsOp::LogitsCe(_) => ("labels, loss, logp, lse", 4),
            LogitsOp::Entropy(_) => ("lse, entropy", 2),
            LogitsOp::Grpo(op) => {
                let options = op.options();
                let given = [options.old_logp, options.kl_beta > 0.0, options.mask];
                let given = given.into_iter().filter(|given| *given).count();
                // Labels and advantage; lse, entropy, log-probability, ratio, clipping and loss.
                ("labels and other vectors", 8 + given)
            }
        }
    }
}

impl<P: OnHead> Problem for P {
    type Kernel = HeadKernel;
    type Blocks = head::Blocks;

    const LESS_HBM: &'static str = "use fewer tokens or more chips, and for the backward pass `streaming` with small \
                                    chunks";

    fn tokens(&self) -> usize {
        self.head().tokens()
    }

    fn hidden(&self) -> Option<usize> {
        Some(self.head().hidden())
    }

    fn vocab(&self) -> usize {
        self.head().vocab()
    }

    fn dtype(&self) -> DType {
        self.head().dtype()
    }

    fn share(&self, devices: usize) -> Result<Self, SimError> {
        OnHead::share(self, devices)
    }

    fn forward(
        &self,
        plan: ForwardPlan,
        setting: Setting,
    ) -> Result<Program<HeadKernel>, SimError> {
        let backward = BackwardPlan::in_blocks(plan.blocks, None);
        let mut schedule = with_two_buffers(self, plan, backward, setting);
        program(self, Pass::Forward, &mut schedule, setting)
    }

    fn backward(
        &self,
        plan: BackwardPlan,
        setting: Setting,
    ) -> Result<Program<HeadKernel>, SimError> {
        let mut schedule = with_two_buffers(self, plan.blocks.into(), plan, setting);
        program(self, Pass::backward(plan), &mut schedule, setting)
    }

    fn candidates(&self, target: &Target) -> Vec<Self::Blocks> {
        head::candidates(self.head(), target)
    }

    fn forward_plans(&self, blocks: Self::Blocks, setting: Setting) -> Vec<ForwardPlan> {
        let forms = x_forms(self.head(), setting);
        forms.map(|x| ForwardPlan { blocks, x }).collect()
    }

    fn plans(
        &self,
        blocks: Self::Blocks,
        strategies: &[Strategy],
        setting: Setting,
    ) -> Vec<BackwardPlan> {
        let rounds_w = may_round_w(self.head(), setting);
        let packs_x = packs_x_backward(self.head(), setting);
        plans(self.head(), blocks, strategies, [rounds_w, packs_x])
    }

    fn product_macs(&self) -> f64 {
        let head = self.head();
        let sizes = [head.tokens(), head.hidden(), head.vocab()];
        sizes.into_iter().map(|size| size as f64).product()
    }

    fn unfused(&self, backward: bool) -> Unfused {
        Unfused {
            assumption: "logits stored",
            terms: self.head().unfused_bytes(self.vectors(), backward),
            traffic_bytes: None,
        }
    }

    fn other_place(&self) -> Option<(&'static str, Self)> {
        None
    }
}

impl Problem for LogitsOp {
    type Kernel = SoftmaxKernel;
    type Blocks = softmax::Blocks;

    const LESS_HBM: &'static str = "use fewer tokens, and write the gradient over the logits";

    fn tokens(&self) -> usize {
        self.logits().tokens()
    }

    fn hidden(&self) -> Option<usize> {
        None
    }

    fn vocab(&self) -> usize {
        self.logits().vocab()
    }

    fn dtype(&self) -> DType {
        self.logits().dtype()
    }

    fn share(&self, devices: usize) -> Result<Self, SimError> {
        Ok(self.share(devices)?)
    }

    fn forward(
        &self,
        plan: ForwardPlan<Self::Blocks>,
        _: Setting,
    ) -> Result<Program<SoftmaxKernel>, SimError> {
        Ok(self.forward(&softmax::Schedule::new(plan.blocks))?)
    }

    fn backward(
        &self,
        plan: BackwardPlan<Self::Blocks>,
        _: Setting,
    ) -> Result<Program<SoftmaxKernel>, SimError> {
        Ok(self.backward(&softmax::Schedule::new(plan.blocks))?)
    }

    fn candidates(&self, target: &Target) -> Vec<Self::Blocks> {
        softmax::candidates(self.logits(), target)
    }

    fn forward_plans(&self, blocks: Self::Blocks, _: Setting) -> Vec<ForwardPlan<Self::Blocks>> {
        vec![blocks.into()]
    }

    fn plans(
        &self,
        blocks: Self::Blocks,
        _: &[Strategy],
        _: Setting,
    ) -> Vec<BackwardPlan<Self::Blocks>> {
        vec![BackwardPlan::in_blocks(blocks, None)]
    }

    fn product_macs(&self) -> f64 {
        0.0
    }

    fn unfused(&self, backward: bool) -> Unfused {
        let logits = self.logits();
        let [input, gradient] =
            [logits.dtype(), logits.grad_dtype()].map(|dtype| dtype.size_bytes() as u128);
        let elements = logits.tokens() as u128 * logits.vocab() as u128;
        let f32 = DType::F32.size_bytes() as u128;
        let mut terms = vec![
            ("logits", elements * input),
            ("log-probabilities, f32", elements * f32),
        ];
        // The logits are read for the maximum, for the sum, and to be normalised.
        let mut traffic = elements * (3 * input + f32);
        if backward {
            terms.extend([
                ("gradient of log-probabilities, f32", elements * f32),
                ("gradient of logits", elements * gradient),
            ]);
            // The gradient of what was picked is written, and read for its sum and with the log-probabilities.
            traffic += elements * (f32 + f32 + 2 * f32 + gradient);
        }
        Unfused {
            assumption: "log-probabilities and their gradient stored in f32",
            terms,
            traffic_bytes: Some(traffic),
        }
    }

    fn other_place(&self) -> Option<(&'static str, Self)> {
        let in_place = self.logits().options().in_place;
        let other = self.in_place(!in_place).ok()?;
        let name = match in_place {
            true => "With the gradient in memory of its own",
            false => "With the gradient over the logits (--in-place)",
        };
        Some((name, other))
    }
}
