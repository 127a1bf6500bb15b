//! The backward pass by chunks of columns: what surrounds the kernels that make delta.

use alloc::vec::Vec;

use super::blocks::{Blocks, ProductBlocks};
use super::chunk::ChunkArray;
use super::dealt::Chunks;
use super::delta::RowPart;
use super::program::{Gradients, HeadInputs, HeadKernel, Names, launch};
use super::{BiasGradient, Head, HeadError, HiddenGradient, Rounded, WeightGradient};
use crate::DType;
use crate::program::{ArrayId, LoopCounter, Program, Role, Step};
use crate::spec::Affine;

/// A pass over the columns, chunk by chunk: delta of a chunk, its part of `dx`, and the chunk's `dw` and `dbias`.
pub(super) struct Streaming<'a> {
    names: Names,
    head: &'a Head,
    cut: StreamingCut,
    inputs: HeadInputs,
    gradients: Gradients,
    /// Summed over chunks in f32; a gradient of that type can hold the sum itself.
    dx: ArrayId,
}

/// How the kernels of a pass are cut up; see [`Schedule`](super::Schedule).
#[derive(Clone, Copy)]
pub(super) struct StreamingCut {
    pub(super) blocks: Blocks,
    pub(super) dx: Option<ProductBlocks>,
    pub(super) dw: Option<ProductBlocks>,
    pub(super) dw_rows: Option<usize>,
}

/// What makes delta of some rows of a chunk.
pub(super) struct MakeDelta {
    pub(super) kernel: HeadKernel,
    /// Its operands before delta.
    pub(super) operands: Vec<ArrayId>,
    /// First column block of a chunk.
    pub(super) first: Affine<LoopCounter>,
    pub(super) part: RowPart,
}

impl<'a> Streaming<'a> {
    /// Declares what the chunks share.
    pub(super) fn declare(
        program: &mut Program<HeadKernel>,
        names: Names,
        head: &'a Head,
        cut: StreamingCut,
        inputs: HeadInputs,
        gradients: Gradients,
    ) -> Self {
        let dx = match head.grad_dtype() {
            DType::F32 => gradients.dx,
            _ => {
                let dims = [head.tokens, head.hidden];
                program.array(Role::Temporary, "dx_sum", DType::F32, dims)
            }
        };
        Self {
            names,
            head,
            cut,
            inputs,
            gradients,
            dx,
        }
    }

    /// What the kernels of a chunk have as `w`, and the step that makes it, if it is rounded for them.
    pub(super) fn round_w(
        &self,
        program: &mut Program<HeadKernel>,
        chunks: Chunks,
    ) -> Result<(ArrayId, Option<Step<HeadKernel>>), HeadError> {
        let (head, w, blocks) = (self.head, self.inputs.w, self.cut.blocks);
        if head.w_dtype == head.dtype {
            return Ok((w, None));
        }
        let kernel = Rounded::weights(self.names.rounded, head, blocks, chunks)?;
        let dims = [head.hidden, chunks.blocks * blocks.v];
        let to = program.array(Role::Temporary, "w_rounded", head.w_dtype, dims);
        let kernel = HeadKernel::Rounded(kernel);
        let step = launch(kernel, [w, to], [chunks.first()]);
        Ok((to, Some(step)))
    }

    /// Adds the loop over `chunks`, with an array for them, whose delta `makers` make, each its part, of a `w` that may
    /// have to be [rounded](Self::round_w) first.
    pub(super) fn add(
        &self,
        program: &mut Program<HeadKernel>,
        chunks: Chunks,
        (round, w): (Option<Step<HeadKernel>>, ArrayId),
        makers: impl IntoIterator<Item = MakeDelta>,
    ) -> Result<(), HeadError> {
        let (names, head) = (self.names, self.head);
        let StreamingCut {
            blocks,
            dx: of_dx,
            dw: of_dw,
            dw_rows,
        } = self.cut;
        let (first, covered) = (chunks.first(), chunks.covered());
        let delta = ChunkArray::of_columns(head, blocks, chunks);
        let delta = match delta.packed {
            true => program.packed_array("delta", delta.dims),
            false => program.array(Role::Temporary, "delta", delta.dtype, delta.dims),
        };
        let dx = self.dx;
        let make_dx = HiddenGradient::new(names.dx, head, (blocks, of_dx), chunks)?;
        let make_dw = WeightGradient::new(names.dw, head, (blocks, of_dw, dw_rows), chunks)?;
        let makers = makers.into_iter().map(|make| {
            let scalars = [make.first].into_iter().chain(make.part.scalar());
            let operands = make.operands.into_iter().chain([delta]);
            launch(make.kernel, operands, scalars)
        });
        let mut body: Vec<_> = round.into_iter().chain(makers).collect();
        body.extend([
            launch(
                HeadKernel::HiddenGradient(make_dx),
                [delta, w, dx, dx],
                [first.clone(), covered],
            ),
            launch(
                HeadKernel::WeightGradient(make_dw),
                [self.inputs.x, delta, self.gradients.dw],
                [first.clone()],
            ),
        ]);
        if let Some(dbias) = self.gradients.dbias {
            let make_dbias = BiasGradient::new(names.dbias, head, blocks, chunks)?;
            body.push(launch(
                HeadKernel::BiasGradient(make_dbias),
                [delta, dbias],
                [first],
            ));
        }
        let count = chunks.count;
        program.push(Step::Loop { count, body })?;
        Ok(())
    }

    /// Adds what follows the last chunk.
    pub(super) fn finish(self, program: &mut Program<HeadKernel>) -> Result<(), HeadError> {
        let (from, to) = (self.dx, self.gradients.dx);
        if from != to {
            program.push(Step::Gather { from, to })?;
        }
        Ok(())
    }
}
