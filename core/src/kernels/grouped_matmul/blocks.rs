//! Block sizes of the kernels.

use super::{GroupedError, GroupedMatmul, Product};
use crate::kernels::head::Cache;
use crate::ops::TileOps;
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
    /// Rows, or inputs for the gradient of the weights, that a block which is one group's alone is multiplied for at once:
    /// all if none.
    pub at_once: Option<usize>,
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
            at_once,
        } = self;
        let at_once = at_once.unwrap_or(rows);
        for (what, block) in [
            ("part", part),
            ("inputs", inputs),
            ("outputs", outputs),
            ("what is multiplied at once", at_once),
        ] {
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

    /// Of `rows` rows of a product, those that are made at once.
    pub(super) fn at_once(self, rows: usize) -> usize {
        self.at_once.unwrap_or(rows).min(rows)
    }

    /// Runs a body for [parts](TileOps::for_own_parts) of a visit that shares its block with another group, `own` from
    /// one row to before another.
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
            t.for_own_parts([rows, part], [first, end], inside, cut);
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

    /// Blocks for a machine with these caches.
    ///
    /// All that is summed over is in one block, so weights of a group are packed once for all of its rows, and the
    /// columns are shared by the threads.
    pub fn for_cache(op: &GroupedMatmul, cache: &Cache) -> Self {
        let element_bytes = cache.packed_bytes(op.dtype());
        let columns = |size: usize, summed: usize| {
            let share = size.div_ceil(cache.threads.max(1));
            let fit = CACHES_OF_WEIGHTS * cache.bytes / (summed * element_bytes).max(1);
            let blocks = share.div_ceil(fit.max(LEAST_COLUMNS));
            let columns = share.div_ceil(blocks);
            columns.next_multiple_of(COLUMNS).min(size)
        };
        let (inputs, outputs) = (op.inputs(), op.outputs());
        let part = cache.row_multiple;
        let blocks = |inputs, outputs| Blocks {
            rows: ROWS.min(op.rows()).next_multiple_of(part),
            part,
            inputs,
            outputs,
            at_once: None,
        };
        Self {
            forward: blocks(inputs, columns(outputs, inputs)),
            dx: blocks(columns(inputs, outputs), outputs),
            dw: blocks(SUM.min(inputs), SUM.min(outputs)),
        }
    }
}

/// Rows of a visit on a CPU, which multiplies those of the group alone. With fewer, more groups take two visits and
/// more; each visit of a block writes all of its results.
const ROWS: usize = 256;

/// Packed weights of a block, in caches of level 2. From the next level they are read once for all rows of a visit,
/// while rows are packed anew for each block: with 2048 columns of 1024 in f32 on tiles, 12 MiB, eight groups of 256
/// rows took 0.8 of the time that they take with 256 columns.
const CACHES_OF_WEIGHTS: usize = 8;

/// Blocks have a multiple of so many columns: whole lines of memory, and tiles of most arithmetics. (Of all would be
/// lines of 96 or more, and with two threads the second would have much less of 512.)
const COLUMNS: usize = 64;

/// With fewer columns packing the rows anew for each block of them would show.
const LEAST_COLUMNS: usize = 256;

/// Rows and columns of the block of `dw` that a sum is kept of: 1 MiB.
const SUM: usize = 512;
