//! Rows by rows, summed over each group: the gradient of the weights.

use super::{Blocks, GroupedError, GroupedMatmul};
use crate::DType;
use crate::expr::Expr;
use crate::groups::Visits;
use crate::ops::{Accumulate, Contract, TileOps, Unroll};
use crate::program::Kernel;
use crate::spec::{AxisId, Blocked, KernelSpec, Semantics, SpecBuilder};
use crate::view::{Tile, TileRef};

/// `dw_e = sum over the rows t of e of x_t^T dy_t`. Grid `(inputs, outputs, visits)`: a block of `dw` is summed in f32
/// over the visits of its group.
#[derive(Clone, Debug)]
pub struct WeightProduct {
    spec: KernelSpec,
    blocks: Blocks,
    visit: AxisId,
    visits: Visits,
    x: TileRef,
    dy: TileRef,
    dw: TileRef,
    sum: TileRef,
    own_x: TileRef,
    own_dy: TileRef,
}

impl WeightProduct {
    /// The kernel of `op`. Operands: `x`, `dy`, `dw`.
    ///
    /// # Errors
    /// The spec refuses the blocks.
    pub(super) fn new(
        name: &'static str,
        op: &GroupedMatmul,
        blocks: Blocks,
    ) -> Result<Self, GroupedError> {
        let groups = op.groups(blocks.rows)?;
        let mut spec = SpecBuilder::new(name);
        let parallel = Semantics::Parallel;
        let inputs = spec.axis("inputs", op.inputs.div_ceil(blocks.inputs), parallel);
        let outputs = spec.axis("outputs", op.outputs.div_ceil(blocks.outputs), parallel);
        let visit = spec.axis("visits", groups.visits(), Semantics::Arbitrary);
        let visits = groups.declare(&mut spec);
        let in_rows = |size, block, axis: AxisId| {
            let map = [visits.block.along(visit), axis.into()];
            Blocked::new(op.dtype, [op.rows, size], [blocks.rows, block], map).masked()
        };
        let x = spec.input_tile("x", in_rows(op.inputs, blocks.inputs, inputs));
        let dy = spec.input_tile("dy", in_rows(op.outputs, blocks.outputs, outputs));
        let dims = [op.experts, op.inputs, op.outputs];
        let block = [1, blocks.inputs, blocks.outputs];
        let map = [visits.group.along(visit), inputs.into(), outputs.into()];
        let dw = Blocked::new(op.out_dtype, dims, block, map).masked();
        let dw = spec.output_tile("dw", dw);
        let sum = spec.scratch_tile("sum", DType::F32, [blocks.inputs, blocks.outputs]);
        let own_x = spec.scratch_tile("own x", op.dtype, [blocks.part, blocks.inputs]);
        let own_dy = spec.scratch_tile("own dy", op.dtype, [blocks.part, blocks.outputs]);
        Ok(Self {
            spec: spec.build()?,
            blocks,
            visit,
            visits,
            x,
            dy,
            dw,
            sum,
            own_x,
            own_dy,
        })
    }
}

impl Kernel for WeightProduct {
    fn spec(&self) -> &KernelSpec {
        &self.spec
    }

    fn body<T: TileOps>(&self, t: &T) {
        let visit = t.program_id(self.visit);
        let [first, end] = self.visits.own_rows(t, visit);
        let one = t.index(1);
        let opens = t.equals(t.element(self.visits.opens, visit), one);
        t.when(opens, || t.element_wise(self.sum, Expr::constant(0.0)));

        let multiply = |x: Tile<T::Index>, dy: Tile<T::Index>| {
            t.matmul(self.sum, x, dy, Contract::TN, Accumulate::Add);
        };
        let whole = t.equals(end - first, t.index(self.blocks.rows as i64));
        t.when(whole, || {
            let at_once = self.blocks.at_once(self.blocks.inputs);
            t.for_sub_tiles(self.blocks.inputs, at_once, Unroll::Full, |span| {
                let (sum, x) = (self.sum.rows(span), self.x.columns(span));
                t.matmul(sum, x, self.dy, Contract::TN, Accumulate::Add);
            });
        });
        self.blocks.for_parts(
            t,
            [first, end],
            |span| multiply(self.x.rows(span), self.dy.rows(span)),
            // Rows of others are 0 in both factors: 0 times a number that is not finite is none.
            |span, [first, end]| {
                for (own, all) in [(self.own_x, self.x), (self.own_dy, self.dy)] {
                    t.cast(own, all.rows(span));
                    t.keep_rows(own, first, end);
                }
                multiply(self.own_x.into(), self.own_dy.into());
            },
        );
        let closes = t.equals(t.element(self.visits.opens, visit + 1), one);
        t.when(closes, || t.cast(self.dw, self.sum));
    }
}
