//! The kernels as steps of a program.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::blocks::{Chunks, Cores, Schedule};
use super::streaming::Streaming;
use super::{
    BiasGradient, Coefficients, Combined, DeltaChunk, Forward, Head, HeadError, HiddenGradient,
    PerRow, StoredBiasGradient, StoredDelta, StoredHiddenGradient, StoredWeightGradient, Strategy,
    WeightGradient,
};
use crate::DType;
use crate::ops::TileOps;
use crate::program::{ArrayId, Kernel, Launch, LoopCounter, Program, Role, Step};
use crate::spec::{Affine, KernelSpec};

/// Any kernel of an op on a head.
#[derive(Clone, Debug)]
pub enum HeadKernel {
    /// Statistics of each row, and what is made of them.
    Forward(Box<Forward>),
    /// The one-kernel backward pass.
    Combined(Box<Combined>),
    /// Streaming: delta of a chunk.
    Delta(Box<DeltaChunk>),
    /// Streaming: `dx` of a chunk.
    HiddenGradient(HiddenGradient),
    /// Streaming: `dw` of a chunk.
    WeightGradient(WeightGradient),
    /// Streaming: `dbias` of a chunk.
    BiasGradient(BiasGradient),
    /// Stored: delta of a chunk of rows, in place, or of columns.
    StoredDelta(Box<StoredDelta>),
    /// Stored: `dx` of a chunk of rows.
    StoredHiddenGradient(StoredHiddenGradient),
    /// Stored: `dw` of a chunk of rows.
    StoredWeightGradient(StoredWeightGradient),
    /// Stored: the share of `dbias` of a chunk of rows.
    StoredBiasGradient(StoredBiasGradient),
}

impl Kernel for HeadKernel {
    fn spec(&self) -> &KernelSpec {
        match self {
            Self::Forward(k) => k.spec(),
            Self::Combined(k) => k.spec(),
            Self::Delta(k) => k.spec(),
            Self::HiddenGradient(k) => k.spec(),
            Self::WeightGradient(k) => k.spec(),
            Self::BiasGradient(k) => k.spec(),
            Self::StoredDelta(k) => k.spec(),
            Self::StoredHiddenGradient(k) => k.spec(),
            Self::StoredWeightGradient(k) => k.spec(),
            Self::StoredBiasGradient(k) => k.spec(),
        }
    }

    fn body<T: TileOps>(&self, t: &T) {
        match self {
            Self::Forward(k) => k.body(t),
            Self::Combined(k) => k.body(t),
            Self::Delta(k) => k.body(t),
            Self::HiddenGradient(k) => k.body(t),
            Self::WeightGradient(k) => k.body(t),
            Self::BiasGradient(k) => k.body(t),
            Self::StoredDelta(k) => k.body(t),
            Self::StoredHiddenGradient(k) => k.body(t),
            Self::StoredWeightGradient(k) => k.body(t),
            Self::StoredBiasGradient(k) => k.body(t),
        }
    }
}

/// What the kernels of an op are called.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names {
    pub(crate) forward: &'static str,
    pub(crate) combined: &'static str,
    pub(crate) delta: &'static str,
    pub(crate) dx: &'static str,
    pub(crate) dw: &'static str,
    pub(crate) dbias: &'static str,
}

/// Names that start with that of the op.
macro_rules! names {
    ($op:literal) => {
        $crate::kernels::head::Names {
            forward: concat!($op, "_forward"),
            combined: concat!($op, "_combined"),
            delta: concat!($op, "_delta"),
            dx: concat!($op, "_dx"),
            dw: concat!($op, "_dw"),
            dbias: concat!($op, "_dbias"),
        }
    };
}
pub(crate) use names;

pub(crate) fn launch<const N: usize>(
    kernel: HeadKernel,
    operands: impl IntoIterator<Item = ArrayId>,
    scalars: [Affine<LoopCounter>; N],
) -> Step<HeadKernel> {
    Step::Launch(Launch {
        kernel,
        operands: operands.into_iter().collect(),
        scalars: scalars.into(),
    })
}

/// The arrays that logits are made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeadInputs {
    pub(super) x: ArrayId,
    pub(super) w: ArrayId,
    bias: Option<ArrayId>,
}

impl HeadInputs {
    pub(crate) fn declare(program: &mut Program<HeadKernel>, head: &Head) -> Self {
        let (b, h, v) = (head.tokens, head.hidden, head.vocab);
        Self {
            x: program.array(Role::Input, "x", head.dtype, [b, h]),
            w: program.array(Role::Input, "w", head.dtype, [h, v]),
            bias: (head.options.bias).then(|| program.array(Role::Input, "bias", DType::F32, [v])),
        }
    }

    /// The operands that every kernel starts with that computes logits.
    pub(crate) fn operands(&self) -> impl Iterator<Item = ArrayId> + use<> {
        [Some(self.x), Some(self.w), self.bias]
            .into_iter()
            .flatten()
    }
}

/// A backward pass: from the coefficients of delta to the gradients.
pub(crate) struct Backward<'a, C> {
    pub(crate) names: Names,
    pub(crate) head: &'a Head,
    pub(crate) schedule: &'a Schedule,
    pub(crate) inputs: HeadInputs,
    /// The vectors of the coefficients, in the order in which they are declared.
    pub(crate) vectors: Vec<ArrayId>,
    /// Declares the coefficients.
    pub(crate) coefficients: C,
}

/// The outputs of a backward pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gradients {
    pub(super) dx: ArrayId,
    pub(super) dw: ArrayId,
    pub(super) dbias: Option<ArrayId>,
}

impl Gradients {
    pub(super) fn declare(program: &mut Program<HeadKernel>, head: &Head) -> Self {
        let (b, h, v) = (head.tokens, head.hidden, head.vocab);
        let grad = head.grad_dtype();
        let bias = head.options.bias;
        Self {
            dx: program.array(Role::Output, "dx", grad, [b, h]),
            dw: program.array(Role::Output, "dw", grad, [h, v]),
            dbias: bias.then(|| program.array(Role::Output, "dbias", DType::F32, [v])),
        }
    }
}

impl<C: FnOnce(&mut PerRow<'_>) -> Coefficients> Backward<'_, C> {
    /// Adds the pass, to outputs `dx`, `dw`, (`dbias`).
    pub(crate) fn add(self, program: &mut Program<HeadKernel>) -> Result<(), HeadError> {
        let gradients = Gradients::declare(program, self.head);
        match self.schedule.strategy {
            Strategy::Combined => self.combined(program, &gradients),
            Strategy::Streaming => self.streaming(program, &gradients),
        }
    }

    /// The operands of the kernel that makes delta, before its outputs.
    fn operands(&self) -> Vec<ArrayId> {
        let inputs = self.inputs.operands();
        inputs.chain(self.vectors.iter().copied()).collect()
    }

    fn combined(
        self,
        program: &mut Program<HeadKernel>,
        gradients: &Gradients,
    ) -> Result<(), HeadError> {
        let (head, schedule) = (self.head, self.schedule);
        let blocks = schedule.backward;
        let cores = Cores::new(head, blocks.b, schedule.cores);
        let [b_up, h_up, v_up] = blocks.whole(head);
        let dx = program.array(Role::Temporary, "dx_sum", DType::F32, [b_up, h_up]);
        let dims = [cores.count, h_up, v_up];
        let dw = program.array(Role::Temporary, "dw_partials", DType::F32, dims);
        let dbias = gradients.dbias.map(|to| {
            let dims = [cores.count, 1, v_up];
            let from = program.array(Role::Temporary, "dbias_partials", DType::F32, dims);
            (from, to)
        });
        let operands = self.operands();
        let kernel = Combined::new(
            self.names.combined,
            head,
            blocks,
            schedule.rows_per_sub_tile,
            cores,
            self.coefficients,
        )?;
        let outputs = [Some(dx), Some(dw), dbias.map(|(from, _)| from)];
        program.push(launch(
            HeadKernel::Combined(Box::new(kernel)),
            operands.into_iter().chain(outputs.into_iter().flatten()),
            [],
        ))?;
        let sums = [(dx, gradients.dx), (dw, gradients.dw)];
        for (from, to) in sums.into_iter().chain(dbias) {
            program.push(Step::Gather { from, to })?;
        }
        Ok(())
    }

    fn streaming(
        self,
        program: &mut Program<HeadKernel>,
        gradients: &Gradients,
    ) -> Result<(), HeadError> {
        let (names, head, schedule, inputs) = (self.names, self.head, self.schedule, self.inputs);
        let blocks = schedule.backward;
        let chunks = Chunks::of_columns(head, blocks, schedule.chunk_columns);
        let pass = Streaming::declare(program, names, head, blocks, inputs, *gradients, chunks);
        let operands = self.operands();
        let make_delta = DeltaChunk::new(
            names.delta,
            head,
            blocks,
            schedule.sub_tiles(),
            chunks,
            self.coefficients,
        )?;
        let make_delta = HeadKernel::Delta(Box::new(make_delta));
        pass.add(program, chunks, make_delta, operands)?;
        pass.finish(program)
    }
}
