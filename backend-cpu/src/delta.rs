//! [`softmax_delta`](tilecast_core::ops::TileOps::softmax_delta): from where the logits lie to where the gradient comes
//! to lie, which may be the same place.

use tilecast_core::ops::Delta;
use tilecast_core::view::{Rows, Tile};

use crate::evaluate::STRIP;
use crate::simd::{Destination, SoftmaxDelta, Strided, Values, ValuesMut};
use crate::tiles::{CpuTiles, column_in, range};

impl CpuTiles<'_, '_> {
    pub(crate) fn write_delta(&self, out: Tile<i64>, logits: Tile<i64>, delta: Delta<i64>) {
        let deltas = self.deltas(&delta, out.rows.len, out.columns.len);
        let is_update = delta.soft_cap.is_none() && self.is_update(&out, &logits);
        if is_update {
            return self.rows_to_update(&out, |x, [rows, columns], destination| {
                let deltas = &deltas[..rows];
                (self.simd).softmax_delta_in_place(x, columns, deltas, destination);
            });
        }
        // The derivative of a soft cap is taken before the result is rounded, and what shares memory is copied first.
        let strips = delta.soft_cap.is_some() || self.share_memory(&out, &logits);
        let done = match strips {
            true => 0,
            false => self.rows_at_once(&out, &logits, |out, x, [rows, columns], destination| {
                let deltas = &deltas[..rows];
                (self.simd).softmax_delta(out, x, columns, deltas, destination);
            }),
        };
        for (r, row) in deltas.iter().enumerate().skip(done) {
            self.pieces(&logits, r, strips, |first, x| {
                let part = row.of_part(first, x.len());
                self.pieces_mut(&out, r, first, x.len(), |out, destination| {
                    match (delta.soft_cap, x) {
                        (Some(cap), Values::F32(x)) if !row.is_zero() => {
                            self.write_capped(out, x, part, cap);
                        }
                        _ => self.write_row(out, x, part, destination),
                    }
                });
            });
        }
    }

    /// The coefficients of each row of a tile with so many columns.
    fn deltas(&self, delta: &Delta<i64>, rows: usize, columns: usize) -> Vec<SoftmaxDelta> {
        let values = |rows: Rows<i64>| self.vector(rows.buffer)[range(&rows.span)].to_vec();
        let or_zero = |of: Option<Rows<i64>>| of.map_or_else(|| vec![0.0; rows], values);
        let [lse, probability] = [delta.lse, delta.probability].map(values);
        let [log_probability, uniform] = [delta.log_probability, delta.uniform].map(or_zero);
        let one_hot = or_zero(delta.one_hot.map(|one_hot| one_hot.coefficient));
        let label = |r: usize| {
            let one_hot = delta.one_hot?;
            let label = self.integers(one_hot.labels.buffer)[range(&one_hot.labels.span)][r];
            column_in(label, one_hot.first_column, columns)
        };
        let row = |r| SoftmaxDelta {
            scale: delta.scale,
            lse: lse[r],
            probability: probability[r],
            log_probability: log_probability[r],
            uniform: uniform[r],
            one_hot: one_hot[r],
            label: label(r),
        };
        (0..rows).map(row).collect()
    }

    fn write_row(
        &self,
        out: ValuesMut<'_>,
        x: Values<'_>,
        delta: SoftmaxDelta,
        destination: Destination,
    ) {
        let columns = x.len();
        let (out, x) = (Strided::row(out), Strided::row(x));
        (self.simd).softmax_delta(out, x, columns, &[delta], destination);
    }

    /// The same of at most a strip of capped logits.
    fn write_capped(&self, out: ValuesMut<'_>, x: &[f32], delta: SoftmaxDelta, cap: f32) {
        let mut strip = [0.0; STRIP];
        let strip = &mut strip[..x.len()];
        let to = ValuesMut::F32(&mut *strip);
        self.write_row(to, Values::F32(x), delta, Destination::Caches);
        self.simd.soft_cap_derivative(strip, x, cap);
        let (out, extent) = (Strided::row(out), [1, x.len()]);
        let strip = Strided::row(Values::F32(strip));
        self.simd.convert(out, strip, extent, Destination::Caches);
    }
}
