//! Rows by the weights of their groups: the forward pass, and the gradient of the rows.

use super::{Blocks, GroupedError, GroupedMatmul};
use crate::DType;
use crate::expr::Expr;
use crate::groups::Visits;
use crate::ops::{Accumulate, Contract, TileOps, Unroll};
use crate::program::Kernel;
use crate::spec::{AxisId, BlockIndex, Blocked, KernelSpec, Semantics, SpecBuilder};
use crate::view::{Tile, TileRef};

/// `out_t = rows_t w_e(t)`, or with transposed weights. Grid `(columns, visits, depth)`: the weights of a group stay
/// where they are for all of its visits if the depth is one block. The sum of a block of rows is kept in f32 over the
/// visits of all groups that share it, and begins with the visit that has its first row.
#[derive(Clone, Debug)]
pub struct RowProduct {
    spec: KernelSpec,
    contract: Contract,
    blocks: Blocks,
    visit: AxisId,
    depth: AxisId,
    visits: Visits,
    rows: TileRef,
    w: TileRef,
    out: TileRef,
    sum: TileRef,
    product: TileRef,
}

impl RowProduct {
    /// The kernel of `op` for `x w` ([`Contract::NN`]) or `dy w^T` ([`Contract::NT`]). Operands: the rows, `w`, the
    /// result.
    ///
    /// # Errors
    /// The spec refuses the blocks.
    pub(super) fn new(
        name: &'static str,
        op: &GroupedMatmul,
        contract: Contract,
        blocks: Blocks,
    ) -> Result<Self, GroupedError> {
        let of_weights = [
            (op.inputs, blocks.inputs, "inputs"),
            (op.outputs, blocks.outputs, "outputs"),
        ];
        let ([summed, columns], [from, to]) = match contract {
            Contract::NT => ([of_weights[1], of_weights[0]], ["dy", "dx"]),
            _ => (of_weights, ["x", "y"]),
        };
        let groups = op.groups(blocks.rows)?;
        let mut spec = SpecBuilder::new(name);
        let block_count = |(size, block, _): (usize, usize, _)| size.div_ceil(block);
        let column = spec.axis(columns.2, block_count(columns), Semantics::Parallel);
        let visit = spec.axis("visits", groups.visits(), Semantics::Arbitrary);
        let depth = spec.axis(summed.2, block_count(summed), Semantics::Arbitrary);
        let visits = groups.declare(&mut spec);
        let in_rows = |(size, block, _), dtype, index: BlockIndex| {
            let dims = [op.rows, size];
            let map = [visits.block.along(visit), index];
            Blocked::new(dtype, dims, [blocks.rows, block], map).masked()
        };
        let rows = spec.input_tile(from, in_rows(summed, op.dtype, depth.into()));
        let (inputs, outputs): (BlockIndex, BlockIndex) = match contract {
            Contract::NT => (column.into(), depth.into()),
            _ => (depth.into(), column.into()),
        };
        let dims = [op.experts, op.inputs, op.outputs];
        let block = [1, blocks.inputs, blocks.outputs];
        let map = [visits.group.along(visit), inputs, outputs];
        let w = spec.input_tile("w", Blocked::new(op.dtype, dims, block, map).masked());
        let out = spec.output_tile(to, in_rows(columns, op.out_dtype, column.into()));
        let shape = [blocks.rows, columns.1];
        let sum = spec.scratch_tile("sum", DType::F32, shape);
        let product = spec.scratch_tile("product", DType::F32, [blocks.part, columns.1]);
        Ok(Self {
            spec: spec.build()?,
            contract,
            blocks,
            visit,
            depth,
            visits,
            rows,
            w,
            out,
            sum,
            product,
        })
    }
}

impl Kernel for RowProduct {
    fn spec(&self) -> &KernelSpec {
        &self.spec
    }

    fn body<T: TileOps>(&self, t: &T) {
        let visit = t.program_id(self.visit);
        let [first, end] = self.visits.own_rows(t, visit);
        let whole = t.equals(end - first, t.index(self.blocks.rows as i64));
        let begins = t.and(t.is_first(self.depth), t.equals(first, t.index(0)));
        let multiply = |out: Tile<T::Index>, span, how| {
            t.matmul(out, self.rows.rows(span), self.w, self.contract, how);
        };
        let multiply_all = |how| {
            let at_once = self.blocks.at_once(self.blocks.rows);
            t.for_sub_tiles(self.blocks.rows, at_once, Unroll::Full, |span| {
                multiply(self.sum.rows(span), span, how);
            });
        };
        let start = || t.when(begins, || t.element_wise(self.sum, Expr::constant(0.0)));
        let finish = || t.cast(self.out, self.sum);
        let add_parts = || {
            self.blocks.for_parts(
                t,
                [first, end],
                |span| multiply(self.sum.rows(span), span, Accumulate::Add),
                |span, [first, end]| {
                    multiply(self.product.into(), span, Accumulate::Overwrite);
                    t.keep_rows(self.product, first, end);
                    let sum = self.sum.rows(span);
                    t.element_wise(sum, Expr::leaf(sum) + Expr::leaf(self.product));
                },
            );
        };
        let ends = self.visits.ends_block(t, visit);
        if self.spec.grid()[self.depth.index()].size > 1 {
            start();
            t.when(whole, || multiply_all(Accumulate::Add));
            add_parts();
            return t.when(t.and(t.is_last(self.depth), ends), finish);
        }
        // The product of a whole block is all of its sum; in one straight line a TPU rounds rows while it multiplies
        // others.
        t.when(whole, || {
            multiply_all(Accumulate::Overwrite);
            finish();
        });
        t.when(t.not(whole), || {
            start();
            add_parts();
            t.when(ends, finish);
        });
    }
}
