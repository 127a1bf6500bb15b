//! [`softmax_delta`](tilecast_core::ops::TileOps::softmax_delta), row by row: from where the logits lie to where the
//! gradient comes to lie, which may be the same place.

use half::bf16;
use tilecast_core::ops::Delta;
use tilecast_core::view::{Rows, Tile};

use crate::evaluate::STRIP;
use crate::simd::{Destination, Simd, SoftmaxDelta, Values, ValuesMut};
use crate::tiles::{CpuTiles, column_in, range};

impl CpuTiles<'_, '_> {
    pub(crate) fn write_delta(&self, out: Tile<i64>, logits: Tile<i64>, delta: Delta<i64>) {
        let rows = |rows: Rows<i64>| self.vector(rows.buffer)[range(&rows.span)].to_vec();
        let or_zero = |of: Option<Rows<i64>>| of.map_or_else(|| vec![0.0; out.rows.len], rows);
        let [lse, probability] = [delta.lse, delta.probability].map(rows);
        let [log_probability, uniform] = [delta.log_probability, delta.uniform].map(or_zero);
        let one_hot = or_zero(delta.one_hot.map(|one_hot| one_hot.coefficient));
        let label = |r: usize| {
            let one_hot = delta.one_hot?;
            let label = self.integers(one_hot.labels.buffer)[range(&one_hot.labels.span)][r];
            column_in(label, one_hot.first_column, out.columns.len)
        };
        let is_update = delta.soft_cap.is_none() && self.is_update(&out, &logits);
        // The derivative of a soft cap is taken before the result is rounded, and what shares memory is copied first.
        let strips = delta.soft_cap.is_some() || self.share_memory(&out, &logits);
        for r in 0..out.rows.len {
            let row = RowDelta {
                simd: self.simd,
                coefficients: SoftmaxDelta {
                    scale: delta.scale,
                    lse: lse[r],
                    probability: probability[r],
                    log_probability: log_probability[r],
                    uniform: uniform[r],
                },
                one_hot: one_hot[r],
                label: label(r),
                soft_cap: delta.soft_cap,
            };
            if is_update {
                self.row_to_update(&out, r, |x| row.update(x));
            } else if row.is_zero() {
                self.pieces_mut(&out, r, 0, out.columns.len, |out, _| zero(out));
            } else {
                self.pieces(&logits, r, strips, |first, x| {
                    self.pieces_mut(&out, r, first, x.len(), |out, destination| {
                        row.write(out, first, x, destination);
                    });
                });
            }
        }
    }
}

/// What the delta of a row is made of.
struct RowDelta {
    simd: Simd,
    coefficients: SoftmaxDelta,
    one_hot: f32,
    /// Column of the row.
    label: Option<usize>,
    soft_cap: Option<f32>,
}

impl RowDelta {
    /// Whether it is 0 whatever the logits are.
    fn is_zero(&self) -> bool {
        let SoftmaxDelta {
            probability,
            log_probability,
            uniform,
            ..
        } = self.coefficients;
        [probability, log_probability, uniform, self.one_hot] == [0.0; 4]
    }

    /// `out` is the delta of `x`, logits from column `first` on.
    fn write(&self, mut out: ValuesMut<'_>, first: usize, x: Values<'_>, destination: Destination) {
        let (simd, coefficients) = (self.simd, self.coefficients);
        let at_label = self.at_label(first, &x);
        if let (Some(cap), Values::F32(x)) = (self.soft_cap, x) {
            let mut strip = [0.0; STRIP];
            let strip = &mut strip[..x.len()];
            let to = ValuesMut::F32(&mut *strip);
            simd.softmax_delta(to, Values::F32(x), coefficients, Destination::Caches);
            if let Some((column, value)) = at_label {
                strip[column] = value;
            }
            simd.soft_cap_derivative(strip, x, cap);
            return simd.convert(out, Values::F32(strip), Destination::Caches);
        }
        simd.softmax_delta(out.reborrow(), x, coefficients, destination);
        if let Some((column, value)) = at_label {
            set(out, column, value);
        }
    }

    /// The whole row of logits becomes its delta.
    fn update(&self, mut x: ValuesMut<'_>) {
        if self.is_zero() {
            return zero(x);
        }
        let at_label = self.at_label(0, &x.as_values());
        (self.simd).softmax_delta_in_place(x.reborrow(), self.coefficients);
        if let Some((column, value)) = at_label {
            set(x, column, value);
        }
    }

    /// The column of `x` that is the label's, if there is one, and its delta before it is rounded.
    fn at_label(&self, first: usize, x: &Values<'_>) -> Option<(usize, f32)> {
        let column = self.label?.checked_sub(first)?;
        let x = (column < x.len()).then(|| x.range(column..column + 1))?;
        let mut delta = [0.0];
        let to = ValuesMut::F32(&mut delta);
        (self.simd).softmax_delta(to, x, self.coefficients, Destination::Caches);
        Some((column, delta[0] - self.one_hot))
    }
}

fn zero(out: ValuesMut<'_>) {
    match out {
        ValuesMut::F32(out) => out.fill(0.0),
        ValuesMut::Bf16(out) => out.fill(bf16::ZERO),
    }
}

fn set(out: ValuesMut<'_>, column: usize, value: f32) {
    match out {
        ValuesMut::F32(out) => out[column] = value,
        ValuesMut::Bf16(out) => out[column] = bf16::from_f32(value),
    }
}
