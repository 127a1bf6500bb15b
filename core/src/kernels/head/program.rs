//! The kernels as steps of a program.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::blocks::{Blocks, Schedule, Split};
use super::dealt::{Chunks, Cores};
use super::delta::RowPart;
use super::forward::Store;
use super::logits::Plan;
use super::per_row::ByColumnBlock;
use super::streaming::{MakeDelta, Streaming, StreamingCut};
use super::{
    BiasGradient, Coefficients, ColumnGradients, Combined, DeltaChunk, Ending, Forward, Head,
    HeadError, HiddenGradient, Merge, PerRow, Rounded, StoredBiasGradient, StoredDelta,
    StoredHiddenGradient, StoredWeightGradient, Strategy, WeightGradient, XForm,
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
    /// What is made of the statistics of column blocks.
    Merge(Box<Merge>),
    /// The one-kernel backward pass.
    Combined(Box<Combined>),
    /// `x`, or, streaming, `w` of a chunk, in the form in which the kernels after it get it.
    Rounded(Rounded),
    /// Streaming: delta of a chunk.
    Delta(Box<DeltaChunk>),
    /// Streaming: `dx` of a chunk.
    HiddenGradient(HiddenGradient),
    /// Streaming: `dw` of a chunk.
    WeightGradient(WeightGradient),
    /// Streaming: `dbias` of a chunk.
    BiasGradient(BiasGradient),
    /// Stored: both gradients, of columns.
    ColumnGradients(Box<ColumnGradients>),
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
            Self::Merge(k) => k.spec(),
            Self::Combined(k) => k.spec(),
            Self::Rounded(k) => k.spec(),
            Self::Delta(k) => k.spec(),
            Self::HiddenGradient(k) => k.spec(),
            Self::WeightGradient(k) => k.spec(),
            Self::BiasGradient(k) => k.spec(),
            Self::ColumnGradients(k) => k.spec(),
            Self::StoredDelta(k) => k.spec(),
            Self::StoredHiddenGradient(k) => k.spec(),
            Self::StoredWeightGradient(k) => k.spec(),
            Self::StoredBiasGradient(k) => k.spec(),
        }
    }

    fn body<T: TileOps>(&self, t: &T) {
        match self {
            Self::Forward(k) => k.body(t),
            Self::Merge(k) => k.body(t),
            Self::Combined(k) => k.body(t),
            Self::Rounded(k) => k.body(t),
            Self::Delta(k) => k.body(t),
            Self::HiddenGradient(k) => k.body(t),
            Self::WeightGradient(k) => k.body(t),
            Self::BiasGradient(k) => k.body(t),
            Self::ColumnGradients(k) => k.body(t),
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
    pub(crate) merge: &'static str,
    pub(crate) combined: &'static str,
    pub(crate) packed: &'static str,
    pub(crate) rounded: &'static str,
    pub(crate) gradients: &'static str,
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
            merge: concat!($op, "_merge"),
            combined: concat!($op, "_combined"),
            packed: concat!($op, "_packed"),
            rounded: concat!($op, "_rounded"),
            gradients: concat!($op, "_gradients"),
            delta: concat!($op, "_delta"),
            dx: concat!($op, "_dx"),
            dw: concat!($op, "_dw"),
            dbias: concat!($op, "_dbias"),
        }
    };
}
pub(crate) use names;

pub(crate) fn launch(
    kernel: HeadKernel,
    operands: impl IntoIterator<Item = ArrayId>,
    scalars: impl IntoIterator<Item = Affine<LoopCounter>>,
) -> Step<HeadKernel> {
    Step::Launch(Launch {
        kernel,
        operands: operands.into_iter().collect(),
        scalars: scalars.into_iter().collect(),
        tables: Vec::new(),
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

    /// Head and inputs of a pass that gets `x` in that form, which is made once for all passes of a program. A packed
    /// one is made in parts of these blocks.
    fn with_x(
        self,
        program: &mut Program<HeadKernel>,
        head: &Head,
        form: XForm,
        (name, blocks): (&'static str, Blocks),
    ) -> Result<(Head, Self), HeadError> {
        let (role, dims) = (Role::Temporary, [head.tokens, head.hidden]);
        let made = match form {
            XForm::Rounded if head.dtype == DType::F32 => "x_rounded",
            XForm::Packed => "x_packed",
            _ => return Ok((*head, self)),
        };
        let head = head.on_rounded_x(form == XForm::Packed);
        let with = |x| Ok((head, Self { x, ..self }));
        if let Some(x) = program.find(made, &[role]) {
            return with(x);
        }
        if form == XForm::Packed {
            let to = program.packed_array(made, dims);
            let kernel = HeadKernel::Rounded(Rounded::x(name, &head, blocks)?);
            program.push(launch(kernel, [self.x, to], []))?;
            return with(to);
        }
        let to = program.array(role, made, head.x_dtype, dims);
        program.push(Step::Gather { from: self.x, to })?;
        with(to)
    }

    /// The operands that every kernel starts with that computes logits.
    pub(crate) fn operands(&self) -> impl Iterator<Item = ArrayId> + use<> {
        [Some(self.x), Some(self.w), self.bias]
            .into_iter()
            .flatten()
    }
}

/// A forward pass: from the inputs to what the ending writes.
pub(crate) struct ForwardPass<'a, E> {
    pub(crate) names: Names,
    pub(crate) head: &'a Head,
    pub(crate) inputs: HeadInputs,
    /// The first vector of an ending that has labels.
    pub(crate) labels: Option<ArrayId>,
    /// The others, in the order in which they are declared.
    pub(crate) vectors: Vec<ArrayId>,
    /// Declares the ending.
    pub(crate) ending: E,
}

/// What a forward pass leaves for the backward pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct Left {
    pub(super) store: Store,
    /// Of the logits, or their exponentials.
    pub(super) to: ArrayId,
    /// Given for exponentials: what they are relative to, and the logits of the labels.
    pub(super) of_exponentials: Option<[ArrayId; 2]>,
}

impl<E: FnOnce(&mut PerRow<'_>) -> Ending> ForwardPass<'_, E> {
    /// Adds the pass by its part of a schedule.
    pub(crate) fn add(
        self,
        program: &mut Program<HeadKernel>,
        schedule: &Schedule,
    ) -> Result<(), HeadError> {
        let cut = (self.names.packed, schedule.forward);
        let (head, inputs) = (self.inputs).with_x(program, self.head, schedule.x[0], cut)?;
        let pass = ForwardPass {
            head: &head,
            inputs,
            ..self
        };
        pass.add_storing(program, Plan::forward(schedule), None)
    }

    /// Adds a pass that leaves logits. Those of a chunk of rows are another pass for each.
    pub(super) fn add_storing(
        self,
        program: &mut Program<HeadKernel>,
        plan: Plan,
        left: Option<Left>,
    ) -> Result<(), HeadError> {
        let (names, head) = (self.names, self.head);
        let of_exponentials = left.and_then(|left| left.of_exponentials);
        let ending = |rows: &mut PerRow<'_>| match of_exponentials {
            Some(_) => Ending::with_label_logit(rows, self.ending),
            None => (self.ending)(rows),
        };
        let [references, label_logit] = match of_exponentials {
            Some(arrays) => arrays.map(Some),
            None => [None; 2],
        };
        let (store, to) = (left.map(|left| left.store), left.map(|left| left.to));
        let logits = self.inputs.operands().chain(to).chain(references);
        let vectors = label_logit
            .into_iter()
            .chain(self.labels)
            .chain(self.vectors);
        let forward = |kernel| HeadKernel::Forward(Box::new(kernel));
        if plan.split == Split::Rows {
            let kernel = Forward::new(names.forward, head, plan, store, ending)?;
            return Ok(program.push(launch(forward(kernel), logits.chain(vectors), []))?);
        }
        let merge = Merge::new(names.merge, head, plan.blocks, ending)?;
        let (wanted, scale) = (merge.statistics.wanted(), merge.statistics.scale);
        let parts = |rows: &mut PerRow<'_>| Ending::plain(rows, wanted, scale);
        let kernel = Forward::new(names.forward, head, plan, store, parts)?;
        let dims = ByColumnBlock::new(head, plan.blocks).dims;
        let parts: Vec<_> = [
            Some("block_lse"),
            wanted.label_logit.then_some("block_label_logit"),
            wanted.logit_sum.then_some("block_logit_sum"),
            wanted.entropy.then_some("block_entropy"),
        ]
        .into_iter()
        .flatten()
        .map(|name| program.array(Role::Temporary, name, DType::F32, dims))
        .collect();
        let operands = logits.chain(self.labels).chain(parts.iter().copied());
        program.push(launch(forward(kernel), operands, []))?;
        let merge = HeadKernel::Merge(Box::new(merge));
        Ok(program.push(launch(merge, vectors.chain(parts), []))?)
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
        let cores = Cores::new(head, blocks, schedule.cores, schedule.cores_split);
        let [b_up, h_up, v_up] = blocks.whole(head);
        let [dw_rows, dw_columns] = blocks.copied_dw(head);
        let (name, role) = ("dx_sum", Role::Temporary);
        let dx = match cores.split {
            Split::Rows => program.array(role, name, DType::F32, [b_up, h_up]),
            Split::Columns => program.array(role, name, DType::F32, [cores.count, b_up, h_up]),
        };
        let of_dw = cores.sums_of_dw();
        let dims = [of_dw, dw_rows, dw_columns];
        let dw = program.array(Role::Temporary, "dw_partials", DType::F32, dims);
        let dbias = gradients.dbias.map(|to| {
            let dims = [of_dw, 1, v_up];
            let from = program.array(Role::Temporary, "dbias_partials", DType::F32, dims);
            (from, to)
        });
        let operands = self.operands();
        let kernel = Combined::new(
            self.names.combined,
            head,
            Plan::backward(schedule),
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
        mut self,
        program: &mut Program<HeadKernel>,
        gradients: &Gradients,
    ) -> Result<(), HeadError> {
        let (names, schedule) = (self.names, self.schedule);
        let cut = (names.packed, schedule.backward);
        let (mut head, inputs) = (self.inputs).with_x(program, self.head, schedule.x[1], cut)?;
        head = head.with_packed_delta(schedule.packs_delta);
        if head.dtype == DType::F32 && schedule.rounds_w {
            head = head.on_rounded_w();
        }
        self.inputs = inputs;
        let head = &head;
        let blocks = schedule.backward;
        let chunks = Chunks::of_columns(head, blocks, schedule.chunk_columns);
        let cut = StreamingCut {
            blocks,
            dx: schedule.dx,
            dw: schedule.dw,
            dw_rows: schedule.dw_rows,
        };
        let pass = Streaming::declare(program, names, head, cut, inputs, *gradients);
        let (chunk, round) = pass.round_w(program, chunks)?;
        self.inputs.w = chunk;
        let operands = self.operands();
        let (delta_blocks, parts) = schedule.delta_blocks(head)?;
        let plan = Plan {
            blocks: delta_blocks,
            ..Plan::backward(schedule)
        };
        let delta_chunks = chunks.cut(parts);
        let make_delta = DeltaChunk::new(
            names.delta,
            head,
            plan,
            RowPart::All,
            delta_chunks,
            self.coefficients,
        )?;
        let make_delta = MakeDelta {
            kernel: HeadKernel::Delta(Box::new(make_delta)),
            operands,
            first: delta_chunks.first(),
            part: RowPart::All,
        };
        pass.add(program, chunks, (round, chunk), [make_delta])?;
        pass.finish(program)
    }
}
