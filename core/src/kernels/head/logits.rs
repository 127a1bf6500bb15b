//! The part all kernels on a head share that compute a block of logits.

use super::blocks::{Blocks, Lazy, Split};
use super::chunk::WeightColumns;
use super::{Head, Schedule, Structure};
use crate::DType;
use crate::expr::Expr;
use crate::ops::{Accumulate, Contract, TileOps, Unroll};
use crate::spec::{AxisId, BlockIndex, Blocked, SpecBuilder};
use crate::view::{ColumnsRef, Span, Tile, TileRef};

/// Windows and scratch for one `[b, v]` block of logits, summed over hidden blocks.
#[derive(Clone, Debug)]
pub(super) struct Logits {
    pub(super) x: TileRef,
    pub(super) w: TileRef,
    pub(super) bias: Option<ColumnsRef>,
    /// f32 `[b, v]`, or the rows of one sub-tile.
    pub(super) values: TileRef,
    hidden_axis: AxisId,
    hidden_blocks: usize,
    sub_tiles: RowSubTiles,
    head: Head,
    blocks: Blocks,
}

/// Where the block of logits lies, as index maps.
pub(super) struct Position {
    pub(super) rows: BlockIndex,
    pub(super) columns: BlockIndex,
    pub(super) hidden: AxisId,
    pub(super) w: WeightColumns,
}

/// How a kernel that computes logits is cut up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) blocks: Blocks,
    pub(super) sub_tiles: RowSubTiles,
    pub(super) x_in_one_buffer: bool,
    /// Of the forward pass.
    pub(super) lazy: Option<Lazy>,
    pub(super) split: Split,
}

impl Plan {
    /// Of the forward pass of a schedule.
    pub(super) fn forward(schedule: &Schedule) -> Self {
        Self {
            blocks: schedule.forward,
            x_in_one_buffer: schedule.x_in_one_buffer[0],
            lazy: schedule.lazy,
            split: schedule.split,
            ..Self::backward(schedule)
        }
    }

    /// Of its backward pass.
    pub(super) fn backward(schedule: &Schedule) -> Self {
        Self {
            blocks: schedule.backward,
            sub_tiles: RowSubTiles {
                rows: schedule.rows_per_sub_tile,
                shared: schedule.shared_sub_tiles,
                structure: schedule.structure,
            },
            x_in_one_buffer: schedule.x_in_one_buffer[1],
            lazy: None,
            split: schedule.delta_split,
        }
    }
}

/// How the rows of a block of logits are cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RowSubTiles {
    /// Rows of a sub-tile.
    pub(super) rows: usize,
    /// Whether they share their memory.
    pub(super) shared: bool,
    /// Whether what becomes of one overlaps the products of others.
    pub(super) structure: Structure,
}

impl RowSubTiles {
    /// The same, each with memory of its own.
    pub(super) fn apart(self) -> Self {
        let shared = false;
        Self { shared, ..self }
    }
}

/// A sub-tile of a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct SubTile<I> {
    /// How many others of the same columns come before it.
    pub(super) number: I,
    /// Its rows of the block.
    pub(super) rows: Span<I>,
    /// Its logits.
    pub(super) logits: Tile<I>,
}

/// How a block of logits is cut into sub-tiles; those of the same columns follow each other.
#[derive(Clone, Copy, Debug)]
pub(super) struct SubTiles {
    pub(super) rows: usize,
    pub(super) columns: usize,
}

impl Logits {
    /// Declares the windows of `x`, `w` (and bias) at `position`, and the scratch. Sub-tiles share it only if a step
    /// has all their logits are made of.
    pub(super) fn declare(
        spec: &mut SpecBuilder,
        head: &Head,
        plan: Plan,
        position: Position,
    ) -> Self {
        let Plan {
            blocks, sub_tiles, ..
        } = plan;
        let (hidden, vocab) = (head.hidden, head.vocab);
        let x = x_operand(head, blocks, position.rows, position.hidden.into());
        let x = spec.input_tile("x", x.in_one_buffer(plan.x_in_one_buffer));
        let w = w_window(spec, head, blocks, position.hidden.into(), position.w);
        let bias = head.options.bias.then(|| {
            spec.input_columns(
                "bias",
                Blocked::new(DType::F32, [vocab], [blocks.v], [position.columns]).masked(),
            )
        });
        let hidden_blocks = hidden.div_ceil(blocks.h);
        let in_turn = sub_tiles.structure == Structure::InTurn;
        let sub_tiles = RowSubTiles {
            rows: sub_tiles.rows.min(blocks.b),
            shared: sub_tiles.shared && hidden_blocks == 1 && !in_turn,
            ..sub_tiles
        };
        let rows = if sub_tiles.shared {
            sub_tiles.rows
        } else {
            blocks.b
        };
        let values = spec.scratch_tile("logits", DType::F32, [rows, blocks.v]);
        Self {
            x,
            w,
            bias,
            values,
            hidden_axis: position.hidden,
            hidden_blocks,
            sub_tiles,
            head: *head,
            blocks,
        }
    }

    /// Adds this step's product. On the last hidden block each sub-tile of rows gets bias and soft
    /// cap and is handed to `finish` at once, while it is hot: on a TPU product and softmax then
    /// share one straight-line block, which is what lets the scheduler overlap them.
    pub(super) fn compute<T: TileOps>(&self, t: &T, finish: impl Fn(SubTile<T::Index>)) {
        let sub_tiles = SubTiles {
            rows: self.sub_tiles.rows,
            columns: self.blocks.v,
        };
        self.compute_parts(t, sub_tiles, || {}, finish, || {});
    }

    /// The same for any sub-tiles, which must not share their memory. What stands in the same straight-line block
    /// before and after all of them, `begin` and `end`, overlaps products, too.
    pub(super) fn compute_parts<T: TileOps>(
        &self,
        t: &T,
        sub_tiles: SubTiles,
        begin: impl Fn(),
        finish: impl Fn(SubTile<T::Index>),
        end: impl Fn(),
    ) {
        let product = |part: SubTile<T::Index>, accumulate| {
            let (x, w) = (self.x.rows(part.rows), self.w.columns(part.logits.columns));
            t.matmul(part.logits, x, w, Contract::NN, accumulate);
        };
        let finish = |part: SubTile<T::Index>| {
            self.bias_and_cap(t, part.logits);
            finish(part);
        };
        let last = |accumulate| {
            begin();
            self.for_parts(t, sub_tiles, |part| {
                product(part, accumulate);
                finish(part);
            });
            end();
        };
        if !self.head.hidden.is_multiple_of(self.blocks.h) {
            t.when(t.is_last(self.hidden_axis), || {
                let left = t.index((self.head.hidden % self.blocks.h) as i64);
                t.mask_columns(self.x, left, 0.0);
                t.mask_rows(self.w, left, 0.0);
            });
        }
        let products = |accumulate| self.for_parts(t, sub_tiles, |part| product(part, accumulate));
        let first = || {
            t.when(t.is_first(self.hidden_axis), || {
                products(Accumulate::Overwrite)
            })
        };
        if self.sub_tiles.structure == Structure::InTurn {
            first();
            if self.hidden_blocks > 1 {
                let others = t.is_after_first(self.hidden_axis);
                t.when(others, || products(Accumulate::Add));
            }
            let complete = t.is_last(self.hidden_axis);
            return t.when(complete, || {
                begin();
                self.for_parts(t, sub_tiles, finish);
                end();
            });
        }
        if self.hidden_blocks == 1 {
            return last(Accumulate::Overwrite);
        }
        let k = t.program_id(self.hidden_axis);
        let final_k = t.num_programs(self.hidden_axis) + -1;
        first();
        if self.hidden_blocks > 2 {
            let between = t.and(t.is_after_first(self.hidden_axis), t.less_than(k, final_k));
            t.when(between, || products(Accumulate::Add));
        }
        t.when(t.is_last(self.hidden_axis), || last(Accumulate::Add));
    }

    /// Makes the finished logits of some rows again, [in one step](Self::in_one_step).
    pub(super) fn remake<T: TileOps>(&self, t: &T, rows: Span<T::Index>, out: Tile<T::Index>) {
        t.matmul(
            out,
            self.x.rows(rows),
            self.w,
            Contract::NN,
            Accumulate::Overwrite,
        );
        self.bias_and_cap(t, out);
    }

    /// Whether a step has all that its block is made of.
    pub(super) fn in_one_step(&self) -> bool {
        self.hidden_blocks == 1
    }

    /// Runs `body` on the sub-tiles of the block.
    fn for_parts<T: TileOps>(&self, t: &T, sub_tiles: SubTiles, body: impl Fn(SubTile<T::Index>)) {
        let SubTiles { rows, columns } = sub_tiles;
        t.for_sub_tiles(self.blocks.v, columns, Unroll::Full, |columns| {
            t.for_numbered_sub_tiles(self.blocks.b, rows, Unroll::Full, |number, rows| {
                let of_scratch = match self.sub_tiles.shared {
                    true => Span::new(t.index(0), rows.len),
                    false => rows,
                };
                let logits = self.values.rows(of_scratch);
                body(SubTile {
                    number,
                    rows,
                    logits: Tile { columns, ..logits },
                });
            });
        });
    }

    /// How rows are cut.
    pub(super) fn sub_tiles(&self) -> RowSubTiles {
        self.sub_tiles
    }

    /// Columns of the array from the left edge of block `column_block`.
    pub(super) fn columns_left<T: TileOps>(&self, t: &T, column_block: T::Index) -> T::Index {
        t.index(self.head.vocab as i64) - column_block * self.blocks.v as i64
    }

    /// Rows of the array from the top edge of block `row_block`.
    pub(super) fn rows_left<T: TileOps>(&self, t: &T, row_block: T::Index) -> T::Index {
        t.index(self.head.tokens as i64) - row_block * self.blocks.b as i64
    }

    /// Whether some block overhangs the vocabulary.
    pub(super) fn ragged_columns(&self) -> bool {
        !self.head.vocab.is_multiple_of(self.blocks.v)
    }

    /// Whether some block overhangs the tokens.
    pub(super) fn ragged_rows(&self) -> bool {
        !self.head.tokens.is_multiple_of(self.blocks.b)
    }

    /// The soft cap.
    pub(super) fn soft_cap(&self) -> Option<f32> {
        self.head.options.soft_cap
    }

    fn bias_and_cap<T: TileOps>(&self, t: &T, z: Tile<T::Index>) {
        if let Some(bias) = self.bias {
            t.element_wise(z, Expr::leaf(z) + Expr::leaf(bias.span(z.columns)));
        }
        if let Some(cap) = self.soft_cap() {
            t.soft_cap(z, cap);
        }
    }
}

/// Declares the window of `x` at the given block.
pub(super) fn x_window(
    spec: &mut SpecBuilder,
    head: &Head,
    blocks: Blocks,
    rows: BlockIndex,
    hidden: BlockIndex,
) -> TileRef {
    spec.input_tile("x", x_operand(head, blocks, rows, hidden))
}

fn x_operand(head: &Head, blocks: Blocks, rows: BlockIndex, hidden: BlockIndex) -> Blocked {
    let dims = [head.tokens, head.hidden];
    let x = Blocked::new(head.x_dtype, dims, [blocks.b, blocks.h], [rows, hidden]);
    x.masked().in_pairs(head.x_packed)
}

/// Declares the window of `w` at the given block of it.
pub(super) fn w_window(
    spec: &mut SpecBuilder,
    head: &Head,
    blocks: Blocks,
    hidden: BlockIndex,
    columns: WeightColumns,
) -> TileRef {
    let WeightColumns { count, block } = columns;
    let (dims, index) = ([head.hidden, count], [hidden, block]);
    let w = Blocked::new(head.w_dtype, dims, [blocks.h, blocks.v], index);
    spec.input_tile("w", w.masked())
}
