//! Softmax, recorded: the running statistics of rows, and the gradient of the logits.

use tilecast_core::ops::{Delta, Largest, OneHot};
use tilecast_core::target::LANES;
use tilecast_core::view::{Stats, Tile};

use super::memory::Moments;
use super::scalar::Scalar;
use super::tile_ops::{Condition, Recorder};
use super::vectors::LEAST_EXPONENT;
use crate::mosaic::Value;

/// Rows of which the largest element is made at once, after a tree of slices: the compiler goes through registers one
/// by one.
const LARGEST_ROWS: usize = 32;

/// Rows of a register of f32.
const SUBLANES: usize = 8;

impl<'r> Recorder<'r> {
    /// Each lane keeps the statistics of its own columns: no value moves between lanes until
    /// [`finish_logsumexp`](tilecast_core::ops::TileOps::finish_logsumexp).
    pub(super) fn fold_logsumexp(
        self,
        stats: &Stats<Scalar<'r>>,
        tile: &Tile<Scalar<'r>>,
        scale: f32,
    ) {
        let r = self.0;
        let z = r.scaled(r.widen(r.load_tile(tile)), scale);
        let groups = r.lane_groups(z);
        if groups.is_empty() {
            return;
        }
        let Moments { max, sum, moment } = r.load_stats(stats);
        let tile_max = r.fold("arith.maximumf", groups.clone());
        let new = r.same("arith.maximumf", &[max, tile_max]);
        let from_new = |z| r.same("arith.subf", &[z, new]);
        let exp = |exponent| r.same("math.exp", &[exponent]);
        let down = from_new(max);
        let factor = exp(down);
        let old = r.same("arith.mulf", &[sum, factor]);
        let exponents: Vec<_> = groups.into_iter().map(from_new).collect();
        let exps: Vec<_> = exponents.iter().map(|&exponent| exp(exponent)).collect();
        let added = r.fold("arith.addf", exps.clone());
        let moment = moment.map(|moment| {
            let shifted = r.same("arith.mulf", &[sum, r.at_least(down, LEAST_EXPONENT)]);
            let shifted = r.same("arith.addf", &[moment, shifted]);
            let old = r.same("arith.mulf", &[shifted, factor]);
            let products = exps.iter().zip(&exponents).map(|(&exp, &exponent)| {
                r.same("arith.mulf", &[exp, r.at_least(exponent, LEAST_EXPONENT)])
            });
            let added = r.fold("arith.addf", products.collect());
            r.same("arith.addf", &[old, added])
        });
        let (max, sum) = (new, r.same("arith.addf", &[old, added]));
        r.store_stats(stats, Moments { max, sum, moment });
    }

    /// Makes the maximum of statistics what `new` makes of it and of that of a tile, `scale` times. No element is
    /// counted.
    pub(super) fn set_maximum(
        self,
        stats: &Stats<Scalar<'r>>,
        tile: &Tile<Scalar<'r>>,
        scale: f32,
        new: impl FnOnce(Value, Value) -> Value,
    ) {
        let r = self.0;
        let groups = r.lane_groups(r.scaled(r.widen(r.load_tile(tile)), scale));
        if groups.is_empty() {
            return;
        }
        let Moments { max, sum, moment } = r.load_stats(stats);
        let max = new(max, r.fold("arith.maximumf", groups));
        r.store_stats(stats, Moments { max, sum, moment });
    }

    /// Whether the sum of a lane is beyond `limit`, or NaN.
    pub(super) fn largest_sum_exceeds(
        self,
        stats: &Stats<Scalar<'r>>,
        limit: f32,
        largest: Largest,
    ) -> Condition {
        let r = self.0;
        let Moments { sum, .. } = r.load_stats(stats);
        let rows = r.shape(sum)[0];
        let height = match largest {
            Largest::Balanced => LARGEST_ROWS,
            Largest::InOrder => SUBLANES,
        };
        let height = if rows.is_multiple_of(height) {
            height
        } else {
            rows
        };
        let slices = (0..rows).step_by(height);
        let slices = slices.map(|row| r.slice(sum, [row, 0], [height, LANES]));
        let maximum = |a, b| r.same("arith.maximumf", &[a, b]);
        let of_slices = match largest {
            Largest::Balanced => r.fold("arith.maximumf", slices.collect()),
            Largest::InOrder => slices.reduce(maximum).unwrap_or(sum),
        };
        let largest = r.largest(of_slices);
        // The compiler has no comparison of scalars that holds where one is NaN.
        let within = r.compare_floats("ole", largest, r.f32_constant(limit));
        Condition::Symbol(r.not(within))
    }

    /// Writes the gradient of the logits.
    pub(super) fn store_delta(
        self,
        out: &Tile<Scalar<'r>>,
        logits: &Tile<Scalar<'r>>,
        delta: Delta<Scalar<'r>>,
    ) {
        let r = self.0;
        let shape = [logits.rows.len, logits.columns.len];
        let z = r.widen(r.load_tile(logits));
        let spread = |lanes| r.spread(lanes, shape[1]);
        let [lse, mut probability] = [delta.lse, delta.probability].map(|rows| r.lanes(&rows));
        let mut coefficients = vec![probability];
        let log_p = r.same("arith.subf", &[r.scaled(z, delta.scale), spread(lse)]);
        let exp = r.same("math.exp", &[log_p]);
        probability = spread(probability);
        if let Some(log_probability) = delta.log_probability {
            let log_probability = r.lanes(&log_probability);
            coefficients.push(log_probability);
            // Where p is 0 its logarithm may be infinite.
            let log_p = r.at_least(log_p, LEAST_EXPONENT);
            let share = r.same("arith.mulf", &[log_p, spread(log_probability)]);
            probability = r.same("arith.addf", &[probability, share]);
        }
        let mut d = r.same("arith.mulf", &[exp, probability]);
        let zero = r.splat(0.0, &shape);
        if let Some(OneHot {
            coefficient,
            labels,
            first_column,
        }) = delta.one_hot
        {
            let coefficient = r.lanes(&coefficient);
            coefficients.push(coefficient);
            let distances = r.lane_distances(r.lanes(&labels), first_column);
            let starts = r.group_starts(shape);
            let hit = r.compare_integers("eq", spread(distances), starts);
            d = r.same("arith.subf", &[d, r.select(hit, spread(coefficient), zero)]);
        }
        if let Some(uniform) = delta.uniform {
            let uniform = r.lanes(&uniform);
            d = r.same("arith.subf", &[d, spread(uniform)]);
            coefficients.push(uniform);
        }
        if let Some(cap) = delta.soft_cap {
            let t = r.same("arith.mulf", &[z, r.splat(1.0 / cap, &shape)]);
            let square = r.same("arith.mulf", &[t, t]);
            let slope = r.same("arith.subf", &[r.splat(1.0, &shape), square]);
            d = r.same("arith.mulf", &[d, slope]);
        }
        // A row without coefficients is 0 whatever its logits. Magnitudes add up without
        // cancelling, so their sum is 0 only if all are.
        let size = |lanes| r.same("math.absf", &[lanes]);
        let sizes = coefficients.into_iter().map(size).collect();
        let sizes = spread(r.fold("arith.addf", sizes));
        let counts_not = r.compare_floats("oeq", sizes, zero);
        r.store_tile(out, r.select(counts_not, zero, d));
    }
}
