//! The statistics of rows, of those of their column blocks.
//!
//! Where threads share the columns of a forward pass, no thread sees a whole row. Each block of logits has a logsumexp
//! of its own then, and sums of its own; these vectors are short beside the logits, and one small kernel makes of them
//! what a kernel that sees whole rows writes. Over the column blocks `k` of a row, with `L` the logsumexp of a block
//! and `H` its entropy:
//!
//! ```text
//! lse = log sum_k e^(L_k)        entropy = sum_k p_k (H_k - log p_k),   log p_k = L_k - lse
//! ```
//!
//! Both sums are kept relative to the largest `L` so far, `m`, as those over single logits are:
//!
//! ```text
//! s = sum_k e^(L_k - m)          lse = m + log s
//! t = sum_k e^(L_k - m) (H_k - (L_k - m))       entropy = log s + t / s
//! ```

use super::blocks::Blocks;
use super::per_row::{ByColumnBlock, PerRow, RowWise, compute};
use super::{Ending, Head, HeadError};
use crate::expr::Expr;
use crate::kernels::softmax::Statistics;
use crate::ops::TileOps;
use crate::program::Kernel;
use crate::spec::{AxisId, KernelSpec, Semantics, SpecBuilder};
use crate::view::RowsRef;

/// Grid `(rows, columns)`. Each step adds the statistics of one column block of some rows; after the last the rows are
/// finished.
#[derive(Clone, Debug)]
pub struct Merge {
    spec: KernelSpec,
    columns: AxisId,
    /// Before the first column block.
    reset: RowWise,
    /// Of a column block.
    add: RowWise,
    /// After the last one.
    finish: RowWise,
    /// Those that are merged.
    pub(super) statistics: Statistics,
}

impl Merge {
    /// The kernel for `head`. Operands: the vectors of the ending in the order in which it declares them, then the
    /// statistics that it wants of each row of each column block: `lse`, (`label_logit`), (`logit_sum`), (`entropy`).
    ///
    /// # Errors
    /// The spec refuses the blocks.
    pub(super) fn new(
        name: &'static str,
        head: &Head,
        blocks: Blocks,
        ending: impl FnOnce(&mut PerRow<'_>) -> Ending,
    ) -> Result<Self, HeadError> {
        let mut spec = SpecBuilder::new(name);
        let row_blocks = head.tokens.div_ceil(blocks.b);
        let rows = spec.axis("rows", row_blocks, Semantics::Parallel);
        let column_blocks = head.vocab.div_ceil(blocks.v);
        let columns = spec.axis("columns", column_blocks, Semantics::Arbitrary);
        let ending = ending(&mut PerRow::new(&mut spec, head, blocks.b, rows.into()));
        let mut sums = Sums::default();
        let part = |spec: &mut SpecBuilder, name| {
            let vectors = ByColumnBlock::new(head, blocks);
            spec.input_rows(name, vectors.window(rows.into(), columns.into()))
        };
        let lse = part(&mut spec, "block_lse");
        let kept = &ending.statistics;
        for (kept, name) in [
            (kept.label_logit, "block_label_logit"),
            (kept.logit_sum, "block_logit_sum"),
        ] {
            if let Some(kept) = kept {
                sums.plain(kept, part(&mut spec, name));
            }
        }
        let block_entropy = (ending.entropy).map(|_| part(&mut spec, "block_entropy"));
        sums.relative(
            &mut spec,
            blocks.b,
            lse,
            ending.lse,
            ending.entropy.zip(block_entropy),
        );
        sums.finish.extend(ending.results);
        let Sums { reset, add, finish } = sums;
        Ok(Self {
            spec: spec.build()?,
            columns,
            reset,
            add,
            finish,
            statistics: ending.statistics,
        })
    }
}

/// Sums over column blocks.
#[derive(Default)]
struct Sums {
    reset: RowWise,
    add: RowWise,
    finish: RowWise,
}

impl Sums {
    fn plain(&mut self, sum: RowsRef, part: RowsRef) {
        self.reset.push((sum, Expr::constant(0.0)));
        self.add.push((sum, Expr::leaf(sum) + Expr::leaf(part)));
    }

    /// The logsumexp, and the entropy of all from that of a part.
    fn relative(
        &mut self,
        spec: &mut SpecBuilder,
        rows: usize,
        part: RowsRef,
        lse: RowsRef,
        entropy: Option<(RowsRef, RowsRef)>,
    ) {
        let leaf = |rows: RowsRef| Expr::leaf(rows);
        let mut scratch = |name| spec.scratch_rows(name, rows);
        let [max, next, factor, share, sum] =
            ["max", "next_max", "factor", "share", "sum"].map(&mut scratch);
        let if_any = |of: RowsRef, value: Expr<RowsRef>| leaf(of).equals(0.0).select(0.0, value);
        self.reset.push((max, Expr::constant(f32::NEG_INFINITY)));
        self.reset.push((sum, Expr::constant(0.0)));
        let part_share = (leaf(part) - leaf(next)).exp();
        let none = leaf(part).equals(f32::NEG_INFINITY);
        self.add.extend([
            (next, leaf(max).max(leaf(part))),
            (factor, (leaf(max) - leaf(next)).exp()),
            (share, none.select(0.0, part_share)),
        ]);
        if let Some((entropy, part_entropy)) = entropy {
            let moment = scratch("moment");
            self.reset.push((moment, Expr::constant(0.0)));
            let before = leaf(moment) - (leaf(max) - leaf(next)) * leaf(sum);
            let of_part = leaf(part_entropy) - (leaf(part) - leaf(next));
            let value = if_any(sum, leaf(factor) * before) + if_any(share, leaf(share) * of_part);
            self.add.push((moment, value));
            let value = leaf(sum).log() + leaf(moment) / leaf(sum);
            self.finish.push((entropy, value));
        }
        self.add.extend([
            (sum, if_any(sum, leaf(sum) * leaf(factor)) + leaf(share)),
            (max, leaf(next)),
        ]);
        self.finish.push((lse, leaf(max) + leaf(sum).log()));
    }
}

impl Kernel for Merge {
    fn spec(&self) -> &KernelSpec {
        &self.spec
    }

    fn body<T: TileOps>(&self, t: &T) {
        t.when(t.is_first(self.columns), || compute(t, &self.reset));
        compute(t, &self.add);
        t.when(t.is_last(self.columns), || compute(t, &self.finish));
    }
}
