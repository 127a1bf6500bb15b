//! Both passes in one, with logits that the forward pass leaves for the backward pass.
//!
//! A backward pass of its own has to compute the logits again: four products. If the cotangents are known before the
//! forward pass, both can be one program, and the fourth product is saved where there is a place for its result.
//!
//! For the logits of as many tokens as `H` there is one that nobody has to ask for: `dw`, in which nothing is yet. A
//! chunk of columns of it receives its gradient when its logits are no longer needed ([`Kept::InDw`]):
//!
//! ```text
//! z, statistics, loss              the forward pass; z stored in the first rows of dw
//! for each chunk of columns        the streaming backward pass
//!     delta = ... z ...
//!     dx   += delta w^T
//!     dw    = x^T delta
//! ```
//!
//! Where `dw` is bf16 there is no place for logits, but there is for their [exponentials](InDw::Exponentials), of which
//! a bf16 delta can be made. Of more tokens than `H` those of the first are stored, and delta of the others is made as
//! in the streaming pass.
//!
//! Or tokens go chunk by chunk, each finished before the next starts, with the logits of one in memory of their own
//! ([`Kept::Rows`]):
//!
//! ```text
//! for each chunk of rows
//!     z     = x w                  stored, and folded into the statistics of its rows
//!     delta = ... z ...            in the place of z
//!     dx    = delta w^T            of these rows, complete
//!     dw   += x^T delta
//! ```
//!
//! The price of the latter is memory for `rows x V` logits in f32, and a pass over `w`, twice, and over `dw`, to read
//! and to write it, for each chunk. A thread with `r` rows of a chunk saves `2 r` operations for each element of `w`,
//! so it must have enough of them: [`Stored::for_cache`].

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::blocks::{Blocks, ProductBlocks, Split, check_sizes};
use super::cache::Cache;
use super::chunk::ChunkArray;
use super::dealt::Chunks;
use super::delta::{Cut, RowPart};
use super::forward::Store;
use super::logits::{Plan, RowSubTiles};
use super::per_row::ByColumnBlock;
use super::program::{ForwardPass, Gradients, Left};
use super::streaming::{MakeDelta, Streaming, StreamingCut};
use super::{
    Coefficients, DeltaChunk, Ending, Forward, Head, HeadError, HeadKernel, PerRow, Schedule,
    StoredBiasGradient, StoredDelta, StoredHiddenGradient, StoredWeightGradient, Structure, launch,
};
use crate::DType;
use crate::program::{ArrayId, LoopCounter, Program, Role, Step};
use crate::spec::Affine;

/// How both passes in one are cut up.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Stored {
    /// Blocks of every kernel.
    pub blocks: Blocks,
    /// Where logits are stored.
    pub kept: Kept,
    /// Rows whose softmax work follows their product at once; see the forward kernel.
    pub rows_per_sub_tile: usize,
    /// Whether such rows share the memory of their logits, as in a [`Schedule`].
    pub shared_sub_tiles: bool,
}

/// Where logits are stored.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kept {
    /// Where `dw` will be, of as many tokens in whole blocks as it has rows, in a form for which there is
    /// [place](InDw). Those of more tokens, and the block that overhangs the vocabulary, if there is one, are computed
    /// again.
    InDw {
        /// Columns of a chunk of delta, at most (rounded to whole blocks).
        chunk_columns: usize,
        /// Given if threads share columns, of both passes.
        dx: Option<ProductBlocks>,
    },
    /// In an array of their own, those of a chunk of tokens.
    Rows {
        /// Rows of a chunk, at most (rounded to whole blocks, at least one).
        chunk_rows: usize,
    },
}

/// What is stored in `dw`: as much as there is place for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum InDw {
    /// The logits, in f32.
    Logits,
    /// Exponentials of the logits in bf16, if that is the type of delta and there is no soft cap: each is off by as
    /// much as an element of delta is when it is rounded, where a logit in bf16 would be off by much more.
    Exponentials,
}

impl InDw {
    /// `None` if there is no place.
    pub fn of(head: &Head) -> Option<Self> {
        let is_capped = head.options.soft_cap.is_some();
        match [head.grad_dtype(), head.delta_dtype()] {
            [DType::F32, _] => Some(Self::Logits),
            [_, DType::Bf16] if !is_capped => Some(Self::Exponentials),
            _ => None,
        }
    }
}

/// Columns of a block, at most, where logits take memory: what blocks take less of it is left to rows.
const COLUMNS: usize = 384;
/// Of so many tokens one must have its logits in `dw` at least: it saves a fourth of the work on that token, and the
/// forward pass of all is in the smaller blocks of the backward pass for it.
const MOST_TO_ONE_IN_DW: usize = 8;

impl Stored {
    /// In the blocks of the backward pass of a schedule.
    pub fn like(schedule: &Schedule, kept: Kept) -> Self {
        Self {
            blocks: schedule.backward,
            kept,
            rows_per_sub_tile: schedule.rows_per_sub_tile,
            shared_sub_tiles: schedule.shared_sub_tiles,
        }
    }

    /// Bytes of the array that holds nothing but logits.
    pub fn bytes(&self, head: &Head) -> u128 {
        match self.kept {
            Kept::InDw { .. } => 0,
            Kept::Rows { chunk_rows } => {
                let chunks = Chunks::of_rows(head, self.blocks, chunk_rows);
                let [rows, columns] = ChunkArray::of_rows(head, self.blocks, chunks).dims;
                rows as u128 * columns as u128 * DType::F32.size_bytes() as u128
            }
        }
    }

    /// How many blocks of tokens `dw` has a place for the logits of, or for their exponentials.
    pub fn row_blocks_in_dw(head: &Head, blocks: Blocks) -> usize {
        match InDw::of(head) {
            Some(_) => head.tokens.div_ceil(blocks.b).min(head.hidden / blocks.b),
            None => 0,
        }
    }

    /// Logits in `dw`, or chunks of rows as large as the memory for them allows, in about the blocks of
    /// [`Schedule::for_cache`]; `None` where storing does not pay: too few rows fit, or inputs are bf16 (their logits
    /// are quick to compute again) and `dw` has a place for few, and otherwise would have to be summed outside of its
    /// own array.
    pub fn for_cache(head: &Head, cache: &Cache) -> Option<Self> {
        if head.dtype != head.grad_dtype() {
            return None;
        }
        let streaming = Schedule::for_cache(head, cache);
        let (chunk_columns, dx) = (streaming.chunk_columns, streaming.dx);
        let in_dw = Self::like(&streaming, Kept::InDw { chunk_columns, dx });
        let all = head.tokens;
        let row_blocks = Self::row_blocks_in_dw(head, streaming.backward);
        let rows_in_dw = row_blocks * streaming.backward.b;
        if rows_in_dw >= all {
            return Some(in_dw);
        }
        Self::by_rows_for_cache(head, cache, &streaming)
            .or_else(|| (rows_in_dw * MOST_TO_ONE_IN_DW >= all).then_some(in_dw))
    }

    /// The same with logits of chunks of rows.
    fn by_rows_for_cache(head: &Head, cache: &Cache, streaming: &Schedule) -> Option<Self> {
        if head.dtype != DType::F32 {
            return None;
        }
        let Blocks { b, h, v } = streaming.backward;
        let v = v.min(COLUMNS / cache.column_multiple * cache.column_multiple);
        let v = v.max(cache.column_multiple);
        // A row takes its logits, and its part of a packed block of x and of one of logits; besides there is a block of
        // w or dw.
        let packed_bytes = cache.packed_bytes(DType::F32);
        let row_bytes =
            head.vocab.next_multiple_of(v) * DType::F32.size_bytes() + (h + v) * packed_bytes;
        let most_rows = cache.stored_bytes.saturating_sub(h * v * packed_bytes) / row_bytes;
        let whole = if most_rows < b { cache.row_multiple } else { b };
        let most_rows = most_rows / whole * whole;
        if most_rows == 0 {
            return None;
        }
        // All threads have as many rows as any other, and so have all chunks.
        let parts = |size: usize, at_most: usize| size.div_ceil(size.div_ceil(at_most));
        let chunks = head.tokens.div_ceil(most_rows * cache.threads);
        let rows = head.tokens.div_ceil(chunks * cache.threads);
        if chunks > 1 && rows < least_rows(cache) {
            return None;
        }
        let rows = rows.next_multiple_of(cache.row_multiple);
        let b = parts(rows, b).next_multiple_of(cache.row_multiple);
        Some(Self {
            blocks: Blocks { b, h, v },
            kept: Kept::Rows {
                chunk_rows: cache.threads * rows.next_multiple_of(b),
            },
            rows_per_sub_tile: streaming.rows_per_sub_tile,
            shared_sub_tiles: streaming.shared_sub_tiles,
        })
    }

    /// Of the kernels that compute logits.
    fn plan(&self, split: Split) -> Plan {
        Plan {
            blocks: self.blocks,
            sub_tiles: RowSubTiles {
                rows: self.rows_per_sub_tile,
                shared: self.shared_sub_tiles,
                structure: Structure::Overlapped,
            },
            x_in_one_buffer: false,
            lazy: None,
            split,
        }
    }

    fn check(&self, head: &Head) -> Result<(), HeadError> {
        let (chunk, dx) = match self.kept {
            Kept::InDw { chunk_columns, dx } => (("chunk columns", chunk_columns), dx),
            Kept::Rows { chunk_rows } => (("chunk rows", chunk_rows), None),
        };
        check_sizes([
            ("block b", self.blocks.b),
            ("block h", self.blocks.h),
            ("block v", self.blocks.v),
            chunk,
            ("rows per sub-tile", self.rows_per_sub_tile),
        ])?;
        ProductBlocks::check_dx(dx)?;
        let is_in_dw = matches!(self.kept, Kept::InDw { .. });
        if is_in_dw && Self::row_blocks_in_dw(head, self.blocks) == 0 {
            return Err(HeadError::NoPlaceInDw {
                rows: self.blocks.b,
                hidden: head.hidden,
                dtype: head.grad_dtype(),
            });
        }
        Ok(())
    }
}

/// Rows of a thread from which on the product that is saved takes longer than the bytes that are moved for it.
const fn least_rows(cache: &Cache) -> usize {
    // Of f32: w for logits and for dx, dw to read and to write. Two operations for each row.
    4 * DType::F32.size_bytes() * cache.operations_per_byte / 2
}

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
        let column_blocks = head.vocab / blocks.v;
        let in_dw = InDw::of(head).filter(|_| column_blocks > 0);
        let of_exponentials = (in_dw == Some(InDw::Exponentials)).then(|| {
            let mut vector = |name, len| program.array(Role::Temporary, name, DType::F32, [len]);
            let [references] = ByColumnBlock::new(head, blocks).dims;
            [
                vector("references", references),
                vector("label_logit", head.tokens),
            ]
        });
        let row_blocks = Stored::row_blocks_in_dw(head, blocks);
        let stored = in_dw.map(|what| Left {
            store: Store::InDw(what, [row_blocks, column_blocks]),
            to: gradients.dw,
            of_exponentials,
        });
        self.forward.add_storing(program, plan, stored)?;
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
        for (in_dw, chunks) in in_dw.flat_map(|what| [(what, equal), (what, left)]) {
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

#[cfg(test)]
mod tests;
