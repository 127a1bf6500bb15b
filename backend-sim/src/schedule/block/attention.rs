//! What waits in registers as in attention.
//!
//! Attention works off one chunk of keys after the other: scores, their maximum, exponentials of what is left, the sum of
//! these and their product with values. The cross-lane units find the maxima of all chunks before they add up the
//! exponentials of the first ([`order`](super::super::order)), so whatever waits for a sum waits long, and whole: the
//! exponentials, of several columns what these were combined to; what scales the sums of chunks before; results of the
//! second product. Its gradients multiply exponentials by the results of another product, which come after them.
//!
//! Read in the orders that registers are assigned in, of flash and splash attention forward and backward.

use super::super::timeline::Span;
use super::super::vector::{Group, OfProduct, Vector};
use super::Block;

/// What a block has of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Attention {
    /// Sums along lanes come after all maxima.
    sums_last: bool,
    /// The operation that is placed depends on such a sum.
    depends: bool,
    /// What maxima are made of waits as well.
    maxima_wait: bool,
    /// Exponentials have met the results of a later product.
    meets_products: bool,
}

impl Block<'_> {
    /// Whether the block, which is empty, has its sums along lanes after all maxima.
    pub(crate) fn begin_sums_last(&mut self, last: bool) {
        self.attention.sums_last = last;
    }

    /// Whether the next operation depends on a sum that waits for later maxima.
    pub(crate) fn depends_on_sums(&mut self, depends: bool) {
        self.attention.depends = depends;
    }

    /// Whether what was stored in the same turn is loaded again rather than kept: before v6e, while sums wait.
    pub(crate) fn loads_maxima_again(&self) -> bool {
        self.attention.sums_last && !self.machine.new_units()
    }

    /// Whether exponentials have met the results of a later product.
    pub(super) fn meets_products(&self) -> bool {
        self.attention.meets_products
    }

    /// Registers of `columns` are reduced along lanes: none enters a cross-lane unit before then, and whether what
    /// columns are combined to waits even if it is but one. From v6e on the differences between the maxima of chunks of
    /// one column are not computed until they are needed, so that both maxima wait.
    pub(super) fn reduces(&mut self, columns: usize, maximum: bool) -> (f64, bool) {
        let Attention {
            sums_last, depends, ..
        } = self.attention;
        let narrow = sums_last && maximum && columns == 1;
        self.attention.maxima_wait |= narrow && self.machine.new_units();
        match depends && !maximum {
            true => (self.reduced_until, true),
            false => (0.0, false),
        }
    }

    /// Where sums come last, what is there long before the rest of what an operation is made of waits for sums: all of
    /// its registers do.
    pub(super) fn wait_for_sums(&mut self, inputs: &[&Vector], group: &Group, ready: f64) {
        let Attention {
            depends,
            maxima_wait,
            ..
        } = self.attention;
        if !depends && !maxima_wait {
            return;
        }
        let (rows, columns) = (group.row_range(), group.column_range());
        for input in inputs {
            let there = match input.loads.is_some() {
                true if maxima_wait => self.ready(input, rows, columns),
                false if input.block == self.number && self.waits_for_sums(input) => {
                    input.ready_at(rows, columns)
                }
                _ => continue,
            };
            if ready - there > self.machine.reduce_latency {
                self.spread(input, rows, columns);
                let waits = Span {
                    start: there,
                    end: there,
                };
                self.used(input, rows, columns, waits);
            }
        }
    }

    /// Whether a value of this block is there before what it meets, rather than made then.
    fn waits_for_sums(&self, value: &Vector) -> bool {
        let made_when_used = |&entry: &u32| self.account.is_made_when_used(entry);
        let late = !self.machine.late_waits() && value.entries.first().is_some_and(made_when_used);
        value.late.is_none() && !late
    }

    /// Registers beyond those that hold values at once where sums come last.
    pub(super) fn kept_for_sums(&self) -> f64 {
        match self.attention.sums_last {
            true => self.machine.kept_for_sums(),
            false => 0.0,
        }
    }

    fn of_product(&self, value: &Vector) -> OfProduct {
        match value.block == self.number {
            true => value.of_product,
            false => OfProduct::default(),
        }
    }

    /// What the result of an operation on these has of products, `transcendental` or not.
    pub(super) fn of_products(&self, inputs: &[&Vector], transcendental: bool) -> OfProduct {
        let of_inputs = inputs.iter().map(|input| self.of_product(input));
        of_inputs.fold(OfProduct::default(), |a, b| OfProduct {
            last: a.last.max(b.last),
            exponential: a.exponential || b.exponential || b.last > 0 && transcendental,
        })
    }

    /// The product whose results, but for exponentials of them, are the last of these operands of an operation; 0 if it
    /// is of exponentials alone.
    pub(super) fn awaited(&self, inputs: &[&Vector], out: OfProduct) -> usize {
        let of_inputs = inputs.iter().map(|input| self.of_product(input));
        let scores = of_inputs.filter(|of| !of.exponential && of.last == out.last);
        scores.map(|of| of.last).max().unwrap_or(0)
    }

    /// Whether the operand is made of exponentials of results of a product before that one: all of it waits for them.
    pub(super) fn waits_for_product(&mut self, input: &Vector, awaited: usize) -> bool {
        let of = self.of_product(input);
        let waits = of.exponential && (1..awaited).contains(&of.last);
        self.attention.meets_products |= waits;
        waits
    }
}
