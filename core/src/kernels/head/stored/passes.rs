//! The passes as steps of a program.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{InDw, Kept, Stored};
use crate::DType;
use crate::kernels::head::blocks::{Blocks, ProductBlocks, Split};
use crate::kernels::head::chunk::ChunkArray;
use crate::kernels::head::dealt::{Chunks, Cores};
use crate::kernels::head::delta::{Cut, RowPart};
use crate::kernels::head::forward::Store;
use crate::kernels::head::logits::Plan;
use crate::kernels::head::per_row::ByColumnBlock;
use crate::kernels::head::program::{ForwardPass, Gradients, Left};
use crate::kernels::head::streaming::{MakeDelta, Streaming, StreamingCut};
use crate::kernels::head::{
    Coefficients, ColumnGradients, DeltaChunk, Ending, Forward, HeadError, HeadKernel, PerRow,
    StoredBiasGradient, StoredDelta, StoredHiddenGradient, StoredWeightGradient, launch,
};
use crate::program::{ArrayId, LoopCounter, Program, Role, Step};
use crate::spec::Affine;

/// Both passes: from what becomes of the statistics to the gradients.
pub(crate) struct StoredPasses<'a, E, C> {
    pub(crate) stored: &'a Stored,
    pub(crate) forward: ForwardPass<'a, E>,
    /// The vectors of the coefficients, in the order in which they are declared.
    pub(crate) backward_vectors: Vec<ArrayId>,
    /// Declares the coefficients.
    pub(crate) coefficients: C,
}

impl<E, C> StoredPasses<'_, E, C>
where
    E: FnOnce(&mut PerRow<'_>) -> Ending,
    C: Fn(&mut PerRow<'_>) -> Coefficients,
{
    /// Adds the passes, to outputs `dx`, `dw`, (`dbias`) and what the ending writes.
    pub(crate) fn add(self, program: &mut Program<HeadKernel>) -> Result<(), HeadError> {
        self.stored.check(self.forward.head)?;
        match self.stored.kept {
            Kept::InDw { chunk_columns, dx } => self.in_dw(program, chunk_columns, dx),
            Kept::InDwByCores { cores } => self.by_cores(program, cores),
            Kept::Rows { chunk_rows } => self.by_rows(program, chunk_rows),
        }
    }

    fn in_dw(
        self,
        program: &mut Program<HeadKernel>,
        chunk_columns: usize,
        dx: Option<ProductBlocks>,
    ) -> Result<(), HeadError> {
        let ForwardPass {
            names,
            head,
            inputs,
            ..
        } = self.forward;
        let blocks = self.stored.blocks;
        let [equal, left, overhang] = Chunks::of_columns_once(head, blocks, chunk_columns);
        let gradients = Gradients::declare(program, head);
        let plan = self.stored.plan(match dx {
            None => Split::Rows,
            Some(_) => Split::Columns,
        });
        let kept = self.left(program, blocks, gradients.dw);
        let of_exponentials = kept.and_then(|kept| kept.of_exponentials);
        let in_dw = kept.and_then(|kept| kept.store.in_dw());
        let row_blocks = Stored::row_blocks_in_dw(head, blocks);
        self.forward.add_storing(program, plan, kept)?;
        let cut = StreamingCut {
            blocks,
            dx,
            dw: None,
            dw_rows: None,
        };
        let pass = Streaming::declare(program, names, head, cut, inputs, gradients);
        let (vectors, coefficients) = (self.backward_vectors, &self.coefficients);
        // Parts of the rows rarely have a block for each thread.
        let (first, rest) = RowPart::split_at(head, blocks, row_blocks);
        let split = rest.map_or(plan.split, |_| Split::Columns);
        let computed = |part, plan, chunks: Chunks| -> Result<MakeDelta, HeadError> {
            let kernel = DeltaChunk::new(names.delta, head, plan, part, chunks, coefficients)?;
            Ok(MakeDelta {
                kernel: HeadKernel::Delta(Box::new(kernel)),
                operands: inputs.operands().chain(vectors.clone()).collect(),
                first: chunks.first(),
                part,
            })
        };
        let in_dw = in_dw.into_iter();
        for (in_dw, chunks) in in_dw.flat_map(|(what, _)| [(what, equal), (what, left)]) {
            if chunks.count == 0 {
                continue;
            }
            let cut = Cut::Columns(in_dw, split, first);
            let kernel = StoredDelta::new(names.delta, head, blocks, cut, chunks, coefficients)?;
            let operands = vectors.iter().copied();
            let operands = operands.chain(of_exponentials.into_iter().flatten());
            let stored = MakeDelta {
                kernel: HeadKernel::StoredDelta(Box::new(kernel)),
                operands: operands.chain([gradients.dw]).collect(),
                first: chunks.first(),
                part: first,
            };
            let rest = rest.map(|part| computed(part, Plan { split, ..plan }, chunks));
            pass.add(
                program,
                chunks,
                (None, inputs.w),
                [stored].into_iter().chain(rest.transpose()?),
            )?;
        }
        if overhang.count > 0 {
            let all = computed(RowPart::All, plan, overhang)?;
            pass.add(program, overhang, (None, inputs.w), [all])?;
        }
        pass.finish(program)
    }

    fn by_cores(self, program: &mut Program<HeadKernel>, cores: usize) -> Result<(), HeadError> {
        let ForwardPass {
            names,
            head,
            inputs,
            ..
        } = self.forward;
        let blocks = Blocks {
            h: head.hidden,
            ..self.stored.blocks
        };
        let cores = Cores::of_columns(head, blocks, cores);
        let gradients = Gradients::declare(program, head);
        let split = match cores.count {
            1 => Split::Rows,
            _ => Split::Columns,
        };
        let plan = Plan {
            blocks,
            ..self.stored.plan(split)
        };
        let left = self.left(program, blocks, gradients.dw);
        self.forward.add_storing(program, plan, left)?;
        let stored = left.and_then(|left| left.store.in_dw());
        let kernel = ColumnGradients::new(
            names.gradients,
            head,
            plan,
            cores,
            stored,
            &self.coefficients,
        )?;
        let [rows, hidden, vocab] = blocks.whole(head);
        let dims = [cores.count, rows, hidden];
        let dx = program.array(Role::Temporary, "dx_sums", DType::F32, dims);
        let dbias = gradients.dbias.map(|to| {
            let dims = [1, 1, vocab];
            let from = program.array(Role::Temporary, "dbias_sum", DType::F32, dims);
            (from, to)
        });
        let of_exponentials = left.and_then(|left| left.of_exponentials);
        let operands = inputs.operands().chain(self.backward_vectors);
        let operands = operands
            .chain(of_exponentials.into_iter().flatten())
            .chain(left.map(|left| left.to))
            .chain([dx, gradients.dw])
            .chain(dbias.map(|(from, _)| from));
        let kernel = HeadKernel::ColumnGradients(Box::new(kernel));
        program.push(launch(kernel, operands, []))?;
        for (from, to) in [(dx, gradients.dx)].into_iter().chain(dbias) {
            program.push(Step::Gather { from, to })?;
        }
        Ok(())
    }

    /// What the forward pass leaves in `dw`, if it has a whole block.
    fn left(&self, program: &mut Program<HeadKernel>, blocks: Blocks, dw: ArrayId) -> Option<Left> {
        let head = self.forward.head;
        let column_blocks = head.vocab / blocks.v;
        let in_dw = InDw::of(head).filter(|_| column_blocks > 0)?;
        let of_exponentials = (in_dw == InDw::Exponentials).then(|| {
            let mut vector = |name, len| program.array(Role::Temporary, name, DType::F32, [len]);
            let [references] = ByColumnBlock::new(head, blocks).dims;
            [
                vector("references", references),
                vector("label_logit", head.tokens),
            ]
        });
        let row_blocks = Stored::row_blocks_in_dw(head, blocks);
        Some(Left {
            store: Store::InDw(in_dw, [row_blocks, column_blocks]),
            to: dw,
            of_exponentials,
        })
    }

    fn by_rows(
        self,
        program: &mut Program<HeadKernel>,
        chunk_rows: usize,
    ) -> Result<(), HeadError> {
        let ForwardPass {
            names,
            head,
            inputs,
            ..
        } = self.forward;
        let blocks = self.stored.blocks;
        let chunks = Chunks::of_rows(head, blocks, chunk_rows);
        let gradients = Gradients::declare(program, head);
        let stored = ChunkArray::of_rows(head, blocks, chunks);
        let stored = program.array(Role::Temporary, "logits", stored.dtype, stored.dims);
        // dw is summed over chunks in f32; a gradient of that type can hold the sum itself.
        let dw = match head.grad_dtype() {
            DType::F32 => gradients.dw,
            _ => {
                let dims = [head.hidden, head.vocab];
                program.array(Role::Temporary, "dw_sum", DType::F32, dims)
            }
        };
        let (first, covered) = (chunks.first(), chunks.covered());
        let plan = self.stored.plan(Split::Rows);
        let (store, ending) = (Store::Rows(chunks), self.forward.ending);
        let forward = Forward::new(names.forward, head, plan, Some(store), ending)?;
        let delta = StoredDelta::new(
            names.delta,
            head,
            blocks,
            Cut::Rows,
            chunks,
            self.coefficients,
        )?;
        let make_dx = StoredHiddenGradient::new(names.dx, head, blocks, chunks)?;
        let make_dw = StoredWeightGradient::new(names.dw, head, blocks, chunks)?;
        let of_forward = inputs.operands().chain([stored]);
        let of_forward = of_forward
            .chain(self.forward.labels)
            .chain(self.forward.vectors);
        let mut body = alloc::vec![
            launch(
                HeadKernel::Forward(Box::new(forward)),
                of_forward,
                [first.clone()],
            ),
            launch(
                HeadKernel::StoredDelta(Box::new(delta)),
                self.backward_vectors.into_iter().chain([stored, stored]),
                [first.clone()],
            ),
            launch(
                HeadKernel::StoredHiddenGradient(make_dx),
                [stored, inputs.w, gradients.dx],
                [first.clone()],
            ),
            launch(
                HeadKernel::StoredWeightGradient(make_dw),
                [inputs.x, stored, dw, dw],
                [first, covered.clone()],
            ),
        ];
        let dbias = match gradients.dbias {
            None => None,
            Some(to) => {
                let dims = [chunks.count, 1, blocks.whole(head)[2]];
                let from = program.array(Role::Temporary, "dbias_partials", DType::F32, dims);
                let make_dbias = StoredBiasGradient::new(names.dbias, head, blocks, chunks)?;
                body.push(launch(
                    HeadKernel::StoredBiasGradient(make_dbias),
                    [stored, from],
                    [Affine::Variable(LoopCounter), covered],
                ));
                Some((from, to))
            }
        };
        let count = chunks.count;
        program.push(Step::Loop { count, body })?;
        let dw = (dw != gradients.dw).then_some((dw, gradients.dw));
        for (from, to) in [dw, dbias].into_iter().flatten() {
            program.push(Step::Gather { from, to })?;
        }
        Ok(())
    }
}
