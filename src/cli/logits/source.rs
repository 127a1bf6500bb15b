//! Where the logits of an op come from: a file, or a head that computes them.

use std::fmt::Debug;

use tilecast::core::kernels::head::{self, Head, HeadKernel, Strategy};
use tilecast::core::kernels::linear_op::{self, LinearOp};
use tilecast::core::kernels::logits_op::{self, LogitsOp, Named};
use tilecast::core::kernels::softmax::{LogitsError, SoftmaxKernel};
use tilecast::core::kernels::{linear_op::reference as of_head, logits_op::reference as stored};
use tilecast::core::program::{Kernel, Program};
use tilecast::core::target::Target;
use tilecast::sim::interpretation::{self, InterpretError, Interpretation};
use tilecast::{Cpu, DType};

use super::{GivenLogits, given_blocks, schedule};
use crate::cli::emission::BlockSizes;
use crate::cli::error::CliError;
use crate::cli::inputs::Source;
use crate::cli::run::Args;

/// An op on logits with their source: programs of named arrays, and an exact result by the same names.
pub(crate) trait Sourced: Copy + Debug {
    type Kernel: Kernel + Sync;
    type Schedule: Copy;
    /// Inputs in f64.
    type Wide: Clone;

    /// The array whose rows are tokens.
    const ROWS: &str;

    /// The op that a file holds the tensors of.
    ///
    /// # Errors
    /// Matrices that are missing, of another type or shape; whatever the op refuses.
    fn open(file: &Source, args: &Args) -> Result<Self, CliError>;

    /// The op on the logits.
    fn op(&self) -> &LogitsOp;

    /// The head, if one computes the logits.
    fn head(&self) -> Option<&Head>;

    fn forward(&self, schedule: &Self::Schedule) -> Result<Program<Self::Kernel>, LogitsError>;
    fn backward(&self, schedule: &Self::Schedule) -> Result<Program<Self::Kernel>, LogitsError>;
    fn both(&self, schedule: &Self::Schedule) -> Result<Program<Self::Kernel>, LogitsError>;

    /// The default for a machine.
    fn for_cpu(&self, cpu: &Cpu) -> Self::Schedule;

    /// The smallest that a target takes.
    fn smallest(target: &Target) -> Self::Schedule;

    /// `chosen`, with what was given in its place, by the rules of `target` if there is one.
    ///
    /// # Errors
    /// Blocks of another op.
    fn given(
        args: &Args,
        target: Option<&Target>,
        chosen: Self::Schedule,
    ) -> Result<Self::Schedule, CliError>;

    /// Blocks of both passes, and the strategy where there are several.
    fn shown(schedule: &Self::Schedule) -> ([BlockSizes; 2], Option<Strategy>);

    /// The passes for the interpreter.
    ///
    /// # Errors
    /// Too much work, or a schedule that is refused.
    fn interpretation(
        &self,
        schedule: &Self::Schedule,
        backward: bool,
    ) -> Result<Interpretation<Self::Kernel>, InterpretError>;

    /// Inputs in f64 from labels and named arrays.
    fn widened(labels: Vec<i32>, arrays: Named) -> Self::Wide;

    /// Exact outputs.
    fn exact_forward(&self, inputs: &Self::Wide) -> Named;

    /// Exact gradients.
    fn exact_backward(&self, inputs: &Self::Wide) -> Named;
}

impl Sourced for LogitsOp {
    type Kernel = SoftmaxKernel;
    type Schedule = tilecast::core::kernels::softmax::Schedule;
    type Wide = logits_op::Inputs;

    const ROWS: &str = "logits";

    fn open(file: &Source, args: &Args) -> Result<Self, CliError> {
        let (dtype, dims) = file.matrix("logits", "[B, V]")?;
        (args.logits).problem(args.op, &args.loss, given_logits(file, dims, dtype))
    }

    fn op(&self) -> &LogitsOp {
        self
    }

    fn head(&self) -> Option<&Head> {
        None
    }

    fn forward(&self, schedule: &Self::Schedule) -> Result<Program<SoftmaxKernel>, LogitsError> {
        self.forward(schedule)
    }

    fn backward(&self, schedule: &Self::Schedule) -> Result<Program<SoftmaxKernel>, LogitsError> {
        self.backward(schedule)
    }

    fn both(&self, schedule: &Self::Schedule) -> Result<Program<SoftmaxKernel>, LogitsError> {
        self.forward_and_backward(schedule)
    }

    fn for_cpu(&self, cpu: &Cpu) -> Self::Schedule {
        Self::Schedule::for_cache(self.logits(), cpu.thread_count(), cpu.cache().bytes)
    }

    fn smallest(target: &Target) -> Self::Schedule {
        interpretation::logits::smallest_schedule(target)
    }

    fn given(
        args: &Args,
        target: Option<&Target>,
        chosen: Self::Schedule,
    ) -> Result<Self::Schedule, CliError> {
        Ok(schedule(given_blocks(&args.schedule, target)?, chosen))
    }

    fn shown(schedule: &Self::Schedule) -> ([BlockSizes; 2], Option<Strategy>) {
        ([schedule.forward, schedule.backward].map(Into::into), None)
    }

    fn interpretation(
        &self,
        schedule: &Self::Schedule,
        backward: bool,
    ) -> Result<Interpretation<SoftmaxKernel>, InterpretError> {
        Interpretation::of_logits(self, schedule, backward)
    }

    fn widened(labels: Vec<i32>, mut arrays: Named) -> Self::Wide {
        logits_op::Inputs {
            logits: taken(&mut arrays, "logits"),
            labels,
            vectors: arrays,
        }
    }

    fn exact_forward(&self, inputs: &Self::Wide) -> Named {
        stored::forward(self, inputs)
    }

    fn exact_backward(&self, inputs: &Self::Wide) -> Named {
        vec![("d_logits", stored::backward(self, inputs))]
    }
}

impl Sourced for LinearOp {
    type Kernel = HeadKernel;
    type Schedule = head::Schedule;
    type Wide = linear_op::Inputs;

    const ROWS: &str = "x";

    fn open(file: &Source, args: &Args) -> Result<Self, CliError> {
        let ([tokens, hidden], [_, vocab], dtype) = file.head()?;
        let logits = given_logits(file, [tokens, vocab], dtype);
        let head = args.loss.head(file.has("bias"));
        let op = args.logits.problem(args.op, &args.loss, logits)?;
        Ok(Self::new(op, hidden, head)?)
    }

    fn op(&self) -> &LogitsOp {
        self.op()
    }

    fn head(&self) -> Option<&Head> {
        Some(self.head())
    }

    fn forward(&self, schedule: &Self::Schedule) -> Result<Program<HeadKernel>, LogitsError> {
        self.forward(schedule)
    }

    fn backward(&self, schedule: &Self::Schedule) -> Result<Program<HeadKernel>, LogitsError> {
        self.backward(schedule)
    }

    fn both(&self, schedule: &Self::Schedule) -> Result<Program<HeadKernel>, LogitsError> {
        self.forward_and_backward(schedule)
    }

    fn for_cpu(&self, cpu: &Cpu) -> Self::Schedule {
        Self::Schedule::for_cache(self.head(), &cpu.cache())
    }

    fn smallest(target: &Target) -> Self::Schedule {
        interpretation::smallest_schedule(target, Strategy::Streaming)
    }

    fn given(
        args: &Args,
        _: Option<&Target>,
        chosen: Self::Schedule,
    ) -> Result<Self::Schedule, CliError> {
        args.schedule(chosen)
    }

    fn shown(schedule: &Self::Schedule) -> ([BlockSizes; 2], Option<Strategy>) {
        let blocks = [schedule.forward, schedule.backward].map(Into::into);
        (blocks, Some(schedule.strategy))
    }

    fn interpretation(
        &self,
        schedule: &Self::Schedule,
        backward: bool,
    ) -> Result<Interpretation<HeadKernel>, InterpretError> {
        Interpretation::of_linear(self, schedule, backward)
    }

    fn widened(labels: Vec<i32>, mut arrays: Named) -> Self::Wide {
        let [x, w, bias] = ["x", "w", "bias"].map(|name| taken(&mut arrays, name));
        linear_op::Inputs {
            x,
            w,
            bias,
            labels,
            vectors: arrays,
        }
    }

    fn exact_forward(&self, inputs: &Self::Wide) -> Named {
        of_head::forward(self, inputs)
    }

    fn exact_backward(&self, inputs: &Self::Wide) -> Named {
        of_head::backward(self, inputs)
    }
}

fn given_logits(file: &Source, dims: [usize; 2], dtype: DType) -> GivenLogits {
    GivenLogits {
        dims,
        dtype,
        mask: file.has("mask"),
        in_place: false,
    }
}

/// Takes an array out; empty if there is none.
fn taken(arrays: &mut Named, name: &str) -> Vec<f64> {
    let found = arrays.iter().position(|(of, _)| *of == name);
    found.map_or_else(Vec::new, |at| arrays.swap_remove(at).1)
}
