//! Exponentials in the place of logits, where there are but 16 bits for each.
//!
//! A logit rounded to bf16 is off by up to `2^-8` of its size, and so is the probability made of it, times the size of
//! the logit: far too much. The exponential of a logit is off by `2^-8` of the probability, whatever the logit, which
//! is what delta loses when it is rounded to bf16 itself. But `e^z` needs something that it is relative to, and the
//! maximum of a row is not known before its last column. So each block is relative to what is known with it, the
//! logsumexp of the columns up to its last, which is kept for every block:
//!
//! ```text
//! r_ik = log sum_{v in blocks 0..=k} exp(z_iv)        e_iv = exp(z_iv - r_ik), at most 1, in bf16
//! p_iv = e_iv exp(r_ik - lse_i)
//! ```
//!
//! At the label `P p - O` may cancel all that is left of `p`: there it is made of the logit of the label, which the
//! forward pass knows in f32. A soft cap, whose derivative is one by the logit, has no such form.

use super::blocks::Blocks;
use super::delta::Coefficients;
use super::per_row::{ByColumnBlock, PerRow, compute};
use super::{Ending, Head};
use crate::DType;
use crate::expr::{Expr, Int, Leaf};
use crate::ops::{Delta, TileOps};
use crate::spec::{BlockIndex, SpecBuilder};
use crate::view::{RowsRef, Span, Tile, TileRef};

/// What the forward pass makes of a block of logits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exponentials {
    /// bf16, of the rows that are made at once and `v` columns.
    pub(super) values: TileRef,
    references: RowsRef,
    /// 1, or 0 where there is nothing that exponentials can be relative to.
    one: RowsRef,
}

impl Exponentials {
    /// Declares memory for so many rows, and an output for what a block is relative to.
    pub(super) fn declare(
        spec: &mut SpecBuilder,
        head: &Head,
        blocks: Blocks,
        rows_at_once: usize,
        [rows, columns]: [BlockIndex; 2],
    ) -> Self {
        let window = ByColumnBlock::new(head, blocks).window(rows, columns);
        Self {
            values: spec.scratch_tile("exponentials", DType::Bf16, [rows_at_once, blocks.v]),
            references: spec.output_rows("references", window),
            one: spec.scratch_rows("one", blocks.b),
        }
    }

    /// Makes them for `rows` of the block, whose logits are the last that the statistics have seen: they are the
    /// gradient of the logsumexp, with the columns so far for all.
    pub(super) fn make<T: TileOps>(
        &self,
        t: &T,
        ending: &Ending,
        [out, logits]: [Tile<T::Index>; 2],
        rows: Span<T::Index>,
    ) {
        let statistics = &ending.statistics;
        let (reference, one) = (self.references.span(rows), self.one.span(rows));
        t.finish_logsumexp(reference, statistics.stats.span(rows));
        // No column so far but such of -inf.
        let none = Expr::leaf(Leaf::Rows(reference)).equals(f32::NEG_INFINITY);
        t.row_wise(one, none.select(0.0, 1.0));
        let relative = Delta {
            scale: statistics.scale,
            lse: reference,
            probability: one,
            log_probability: None,
            one_hot: None,
            uniform: None,
            soft_cap: None,
        };
        t.softmax_delta(out, logits, relative);
    }
}

/// What the backward pass makes delta of, besides the exponentials.
#[derive(Clone, Copy, Debug)]
pub(super) struct FromExponentials {
    references: RowsRef,
    label_logit: RowsRef,
    /// Of an exponential in delta.
    factor: RowsRef,
    /// Delta at the label.
    at_label: RowsRef,
}

impl FromExponentials {
    /// Declares inputs for what a block at `columns` is relative to and for the logits of the labels.
    pub(super) fn declare(
        rows: &mut PerRow<'_>,
        head: &Head,
        blocks: Blocks,
        columns: BlockIndex,
    ) -> Self {
        let references = ByColumnBlock::new(head, blocks);
        Self {
            references: rows.input_at("references", |rows| references.window(rows, columns)),
            label_logit: rows.input("label_logit"),
            factor: rows.scratch("factor"),
            at_label: rows.scratch("at_label"),
        }
    }

    /// Computes delta at the labels, once the coefficients are there.
    pub(super) fn prepare<T: TileOps>(&self, t: &T, coefficients: &Coefficients) {
        let label_logit = Expr::leaf(self.label_logit) * coefficients.scale;
        let value =
            self.through_softmax(coefficients, label_logit) - Expr::leaf(one_hot(coefficients)[1]);
        let value = minus_uniform(value, coefficients, Expr::leaf);
        compute(t, &[(self.at_label, value)]);
    }

    /// Writes delta of a block whose first column is `first_column`.
    pub(super) fn delta<T: TileOps>(
        &self,
        t: &T,
        coefficients: &Coefficients,
        [out, exponentials]: [TileRef; 2],
        first_column: T::Index,
    ) {
        let factor = self.through_softmax(coefficients, Expr::leaf(self.references));
        compute(t, &[(self.factor, factor)]);
        let leaf = |rows: RowsRef| Expr::leaf(Leaf::Rows(rows.into()));
        let factor = || leaf(self.factor);
        // What a row that does not count has stored may be no number.
        let value = Expr::leaf(exponentials) * factor();
        let value = factor().equals(0.0).select(0.0, value);
        let value = minus_uniform(value, coefficients, leaf);
        let column = Int::Leaf(Leaf::Column(Some(first_column)));
        let label = Int::Leaf(Leaf::Rows(one_hot(coefficients)[0].into()));
        t.element_wise(out, column.equals(label).select(leaf(self.at_label), value));
    }

    /// `P exp(z - lse)`, or 0 where `P` is.
    fn through_softmax(&self, coefficients: &Coefficients, z: Expr<RowsRef>) -> Expr<RowsRef> {
        let probability = || Expr::leaf(coefficients.probability);
        let value = probability() * (z - Expr::leaf(coefficients.lse)).exp();
        probability().equals(0.0).select(0.0, value)
    }
}

fn one_hot(coefficients: &Coefficients) -> [RowsRef; 2] {
    coefficients.one_hot.expect("a loss of labels")
}

/// `value - U`, with `U` as `leaf`.
fn minus_uniform<L>(
    value: Expr<L>,
    coefficients: &Coefficients,
    leaf: impl Fn(RowsRef) -> Expr<L>,
) -> Expr<L> {
    match coefficients.uniform {
        Some(uniform) => value - leaf(uniform),
        None => value,
    }
}
