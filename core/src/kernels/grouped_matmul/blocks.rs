//! Block sizes of the kernels.

use super::{GroupedError, GroupedMatmul, Product};
use crate::ops::{TileOps, Unroll};
use crate::view::Span;

/// Block sizes of one kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Blocks {
    /// Rows of a visit.
    pub rows: usize,
    /// Rows of a part: of a block that two groups share, parts without a row of the group are left out.
    pub part: usize,
    /// Inputs. What is summed over is a multiple of its block.
    pub inputs: usize,
    /// Outputs, likewise.
    pub outputs: usize,
}

impl Blocks {
    /// Checks the rows, and what is summed over: its name, its size and its block.
    pub(super) fn check(
        self,
        summed: Option<(&'static str, usize, usize)>,
    ) -> Result<(), GroupedError> {
        let refuse = |what, block, rule, size| {
            Err(GroupedError::Block {
                what,
                block,
                rule,
                size,
            })
        };
        let Self {
            rows,
            part,
            inputs,
            outputs,
        } = self;
        for (what, block) in [("part", part), ("inputs", inputs), ("outputs", outputs)] {
            if block == 0 {
                return refuse(what, block, "it must be at least 1", block);
            }
        }
        if rows == 0 || !rows.is_multiple_of(part) {
            return refuse("rows", rows, "it must be a multiple of its parts", part);
        }
        match summed {
            Some((what, size, block)) if !size.is_multiple_of(block) => {
                let rule = "what is summed over must be a multiple of it";
                refuse(what, block, rule, size)
            }
            _ => Ok(()),
        }
    }

    /// Runs a body for each part of a visit that shares its block with another group, `own` from one row to before another: `inside` for
    /// parts that are the group's own, `cut` for those that have rows of others as well, with its rows within the part. Parts without
    /// a row of the group are left out.
    pub(super) fn for_parts<T: TileOps>(
        self,
        t: &T,
        [first, end]: [T::Index; 2],
        inside: impl Fn(Span<T::Index>),
        cut: impl Fn(Span<T::Index>, [T::Index; 2]),
    ) {
        let Self { rows, part, .. } = self;
        let zero = t.index(0);
        let own = end - first;
        let some = t.and(
            t.less_than(zero, own),
            t.less_than(own, t.index(rows as i64)),
        );
        t.when(some, || {
            t.for_sub_tiles(rows, part, Unroll::Rolled, |span| {
                let start = span.start.unwrap_or(zero);
                let (first, end) = (first - start, end - start);
                let behind = t.index(part as i64);
                let has_some = t.and(t.less_than(first, behind), t.less_than(zero, end));
                let is_inside = t.and(
                    t.not(t.less_than(zero, first)),
                    t.not(t.less_than(end, behind)),
                );
                t.when(is_inside, || inside(span));
                t.when(t.and(has_some, t.not(is_inside)), || {
                    cut(span, [first, end])
                });
            });
        });
    }
}

/// Block sizes of all kernels of the op.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Schedule {
    /// Of the forward pass.
    pub forward: Blocks,
    /// Of the gradient of the rows.
    pub dx: Blocks,
    /// Of the gradient of the weights.
    pub dw: Blocks,
}

impl Schedule {
    /// The same blocks for all kernels.
    pub const fn of(blocks: Blocks) -> Self {
        Self {
            forward: blocks,
            dx: blocks,
            dw: blocks,
        }
    }

    /// Those of one product.
    pub const fn product(&self, product: Product) -> Blocks {
        match product {
            Product::Y => self.forward,
            Product::Dx => self.dx,
            Product::Dw => self.dw,
        }
    }

    /// Those of one product, to be changed.
    pub const fn product_mut(&mut self, product: Product) -> &mut Blocks {
        match product {
            Product::Y => &mut self.forward,
            Product::Dx => &mut self.dx,
            Product::Dw => &mut self.dw,
        }
    }

    /// Blocks for a machine with caches of level 2 of `bytes`, whose products are made of tiles of `tile_rows` and take
    /// `element_bytes` for each element of an operand.
    ///
    /// All that is summed over is in one block, so weights of a group are packed once for all of its rows, and stay in the cache.
    pub fn for_cache(
        op: &GroupedMatmul,
        bytes: usize,
        tile_rows: usize,
        element_bytes: usize,
    ) -> Self {
        let columns = |size: usize, summed: usize| {
            let fit = (bytes / (summed * element_bytes).max(1)).max(LEAST_COLUMNS);
            (1 << fit.ilog2()).min(size)
        };
        let (inputs, outputs) = (op.inputs(), op.outputs());
        let blocks = |[rows, part]: [usize; 2], inputs, outputs| Blocks {
            rows: rows.next_multiple_of(part.next_multiple_of(tile_rows)),
            part: part.next_multiple_of(tile_rows),
            inputs,
            outputs,
        };
        Self {
            forward: blocks(ROWS, inputs, columns(outputs, inputs)),
            dx: blocks(ROWS, columns(inputs, outputs), outputs),
            dw: blocks(SUMMED_ROWS, SUM.min(inputs), SUM.min(outputs)),
        }
    }
}

/// Rows of a visit on a CPU and of its parts. Groups of 64 and of 300 rows took 0.6 to 0.75 of the time that they take with 128 and 32 rows,
/// in bf16 on tiles, columns as below; with 32 and 32 rows about as long.
const ROWS: [usize; 2] = [64, 32];

/// The same where rows are summed over.
const SUMMED_ROWS: [usize; 2] = [128, 64];

/// With fewer columns packing the rows anew for each block of them would show.
const LEAST_COLUMNS: usize = 256;

/// Rows and columns of the block of `dw` that a sum is kept of: 1 MiB.
const SUM: usize = 512;
