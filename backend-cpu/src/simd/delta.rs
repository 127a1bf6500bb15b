//! The gradient of a softmax, from rows of logits to rows of another matrix or over the logits themselves.
//!
//! Each logit is read once and its gradient written once, in the types they are stored in, which is as fast as memory
//! for the reasons that [`softmax`](super::softmax) gives. Rows are taken together: a row of logits takes a few
//! microseconds, and waiting for its last stores before the next one starts, as a lock or a fence does, was a tenth of
//! that.

use super::long::{MapLongInPlace, zero_past_caches};
use super::map::{Destination, Element, MOST_LANES, Map, Strided, map_row};
use super::vector::{Kernel, Vector};
use super::{Values, ValuesMut, math, memory};

/// Coefficients of the gradient of a softmax loss with respect to a row of `scale * x`:
/// `(probability + log_probability log p) p - uniform`, with `log p = scale * x - lse`, less `one_hot` at the label.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SoftmaxDelta {
    /// Factor on the logits.
    pub scale: f32,
    /// Logsumexp of the scaled logits.
    pub lse: f32,
    /// Coefficient of `p`.
    pub probability: f32,
    /// Coefficient of `p log p`, which is 0 where `p` is.
    pub log_probability: f32,
    /// What is subtracted everywhere.
    pub uniform: f32,
    /// What is subtracted at the label.
    pub one_hot: f32,
    /// Column of the label, if it is one of the row's.
    pub label: Option<usize>,
}

impl SoftmaxDelta {
    /// Whether the gradient is 0 whatever the logits are.
    pub(crate) fn is_zero(&self) -> bool {
        let Self {
            probability,
            log_probability,
            uniform,
            one_hot,
            ..
        } = *self;
        [probability, log_probability, uniform, one_hot] == [0.0; 4]
    }

    /// That of a part of the row: `len` columns from `first` on.
    pub(crate) fn of_part(self, first: usize, len: usize) -> Self {
        let label = self.label.and_then(|label| label.checked_sub(first));
        Self {
            label: label.filter(|&label| label < len),
            ..self
        }
    }

    /// The gradient of one logit that is not the label's.
    #[inline(always)]
    fn of<V: Vector>(&self, isa: V::Isa, x: f32) -> f32 {
        let x = V::splat(isa, x);
        let delta = match self.log_probability == 0.0 {
            true => Plain(*self).apply(isa, x),
            false => WithEntropy(*self).apply(isa, x),
        };
        let mut lanes = [0.0; MOST_LANES];
        delta.store(&mut lanes);
        lanes[0]
    }
}

impl super::Simd {
    /// Row by row the gradient of `x`, rows of so many columns; `p log p` is 0 where `p` is. As `bf16`, what is below
    /// 2^-126 in magnitude may be 0.
    ///
    /// # Panics
    ///
    /// If there are fewer rows than gradients, or a label is no column.
    pub fn softmax_delta(
        self,
        out: Strided<ValuesMut<'_>>,
        x: Strided<Values<'_>>,
        columns: usize,
        deltas: &[SoftmaxDelta],
        destination: Destination,
    ) {
        let strides = [out.stride, x.stride];
        macro_rules! run {
            ($out:expr, $x:expr) => {
                self.run(Deltas {
                    out: $out,
                    x: $x,
                    strides,
                    columns,
                    deltas,
                    destination,
                })
            };
        }
        match (out.values, x.values) {
            (ValuesMut::F32(out), Values::F32(x)) => run!(out, x),
            (ValuesMut::F32(out), Values::Bf16(x)) => run!(out, x),
            (ValuesMut::Bf16(out), Values::F32(x)) => run!(out, x),
            (ValuesMut::Bf16(out), Values::Bf16(x)) => run!(out, x),
        }
    }

    /// The same over the logits themselves. Of the destination depends where rows of zeros are written.
    ///
    /// # Panics
    ///
    /// If there are fewer rows than gradients, or a label is no column.
    pub fn softmax_delta_in_place(
        self,
        x: Strided<ValuesMut<'_>>,
        columns: usize,
        deltas: &[SoftmaxDelta],
        destination: Destination,
    ) {
        let stride = x.stride;
        macro_rules! run {
            ($x:expr) => {
                self.run(DeltasInPlace {
                    x: $x,
                    stride,
                    columns,
                    deltas,
                    destination,
                })
            };
        }
        match x.values {
            ValuesMut::F32(x) => run!(x),
            ValuesMut::Bf16(x) => run!(x),
        }
    }
}

struct Deltas<'a, O, T> {
    out: &'a mut [O],
    x: &'a [T],
    /// Of both.
    strides: [usize; 2],
    columns: usize,
    deltas: &'a [SoftmaxDelta],
    destination: Destination,
}

impl<O: Element, T: Element> Kernel for Deltas<'_, O, T> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, isa: V::Isa) {
        let Self {
            out,
            x,
            strides: [out_stride, x_stride],
            columns,
            deltas,
            destination,
        } = self;
        for (r, delta) in deltas.iter().enumerate() {
            let out = &mut out[r * out_stride..][..columns];
            let x = &x[r * x_stride..][..columns];
            match (delta.is_zero(), delta.log_probability == 0.0) {
                (true, _) => zero::<V, O>(isa, out, destination),
                (false, true) => map_row::<V, O, T, _>(isa, out, x, Plain(*delta), destination),
                (false, false) => {
                    map_row::<V, O, T, _>(isa, out, x, WithEntropy(*delta), destination);
                }
            }
        }
        if destination == Destination::Memory {
            memory::fence();
        }
        for (r, delta) in deltas.iter().enumerate() {
            if let Some(label) = delta.label.filter(|_| !delta.is_zero()) {
                let x = x[r * x_stride..][..columns][label].to_f32();
                let out = &mut out[r * out_stride..][..columns];
                out[label] = O::from_f32(delta.of::<V>(isa, x) - delta.one_hot);
            }
        }
    }
}

struct DeltasInPlace<'a, T> {
    x: &'a mut [T],
    stride: usize,
    columns: usize,
    deltas: &'a [SoftmaxDelta],
    destination: Destination,
}

impl<T: Element> Kernel for DeltasInPlace<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, isa: V::Isa) {
        let Self {
            x,
            stride,
            columns,
            deltas,
            destination,
        } = self;
        for (r, delta) in deltas.iter().enumerate() {
            let x = &mut x[r * stride..][..columns];
            let logit = delta.label.map(|label| (label, x[label].to_f32()));
            match (delta.is_zero(), delta.log_probability == 0.0) {
                (true, _) => {
                    zero::<V, T>(isa, x, destination);
                    continue;
                }
                (false, true) => MapLongInPlace(x, Plain(*delta)).run::<V>(isa),
                (false, false) => MapLongInPlace(x, WithEntropy(*delta)).run::<V>(isa),
            }
            if let Some((label, logit)) = logit {
                x[label] = T::from_f32(delta.of::<V>(isa, logit) - delta.one_hot);
            }
        }
        if destination == Destination::Memory {
            memory::fence();
        }
    }
}

/// `out = 0`, seen by other threads after a [`memory::fence`].
#[inline(always)]
fn zero<V: Vector, O: Element>(isa: V::Isa, out: &mut [O], destination: Destination) {
    match destination {
        Destination::Caches => out.fill(O::zeroed()),
        Destination::Memory => zero_past_caches::<V, O>(isa, out),
    }
}

/// `log2 p = factor x - log2_sum`, and `p = 2^(log2 p)`.
#[derive(Clone, Copy)]
struct Softmax {
    factor: f32,
    log2_sum: f32,
}

impl Softmax {
    fn new(delta: &SoftmaxDelta) -> Self {
        let log2_e = std::f32::consts::LOG2_E;
        Self {
            factor: delta.scale * log2_e,
            log2_sum: delta.lse * log2_e,
        }
    }

    /// `log2 p`, `p`, and the rest of its exponent.
    #[inline(always)]
    fn apply<V: Vector>(self, isa: V::Isa, x: V) -> [V; 3] {
        let c = |value| V::splat(isa, value);
        let log2_p = x.mul_add(c(self.factor), c(-self.log2_sum));
        let log2_p = match V::TAKES_ANY_EXPONENT {
            true => log2_p,
            false => math::bounded(isa, log2_p),
        };
        let (mantissa, rest) = math::exp2(isa, log2_p, c(1.0));
        [log2_p, mantissa.times_power(rest), rest]
    }
}

/// Without `p log p`.
#[derive(Clone, Copy)]
struct Plain(SoftmaxDelta);

impl Map for Plain {
    const DENORMALS: bool = false;

    #[inline(always)]
    fn apply<V: Vector>(self, isa: V::Isa, x: V) -> V {
        let c = |value| V::splat(isa, value);
        let [_, p, _] = Softmax::new(&self.0).apply(isa, x);
        p.mul_add(c(self.0.probability), c(-self.0.uniform))
    }
}

/// With `p log p`.
#[derive(Clone, Copy)]
struct WithEntropy(SoftmaxDelta);

impl Map for WithEntropy {
    const DENORMALS: bool = false;

    #[inline(always)]
    fn apply<V: Vector>(self, isa: V::Isa, x: V) -> V {
        let c = |value| V::splat(isa, value);
        let delta = self.0;
        let [log2_p, p, rest] = Softmax::new(&delta).apply(isa, x);
        // In units of log2 p.
        let per_log2 = c(delta.log_probability * std::f32::consts::LN_2);
        let coefficient = log2_p.mul_add(per_log2, c(delta.probability));
        // p log p is 0 where p is.
        p.power_mul_add(rest, coefficient, c(-delta.uniform))
    }
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::super::Simd;
    use super::*;

    /// Values in -8..8 without pattern.
    fn values(length: usize) -> Vec<f32> {
        (0..length as u32)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 8) as f32 / (1 << 20) as f32 - 8.0)
            .collect()
    }

    const DELTA: SoftmaxDelta = SoftmaxDelta {
        scale: 0.75,
        lse: 3.25,
        probability: 0.875,
        log_probability: -0.5,
        uniform: 0.015_625,
        one_hot: 0.25,
        label: None,
    };

    /// Three rows, of which the second is 0 and all have a label.
    fn deltas(log_probability: f32, columns: usize) -> [SoftmaxDelta; 3] {
        let label = |column: usize| (columns > 0).then(|| column % columns);
        let first = SoftmaxDelta {
            log_probability,
            label: label(0),
            ..DELTA
        };
        let second = SoftmaxDelta {
            probability: 0.0,
            log_probability: 0.0,
            uniform: 0.0,
            one_hot: 0.0,
            label: label(7),
            ..DELTA
        };
        let third = SoftmaxDelta {
            lse: 3.5,
            label: label(usize::MAX),
            ..first
        };
        [first, second, third]
    }

    fn exact(delta: &SoftmaxDelta, column: usize, x: f32) -> f64 {
        let log_p = f64::from(x * delta.scale - delta.lse);
        let factor = f64::from(delta.probability) + f64::from(delta.log_probability) * log_p;
        let one_hot = match delta.label == Some(column) {
            true => delta.one_hot,
            false => 0.0,
        };
        factor * log_p.exp() - f64::from(delta.uniform) - f64::from(one_hot)
    }

    /// Rows with a gap behind each, which is 7, off the start of a cache line.
    fn with_gaps<T: Element>(rows: &[T], columns: usize) -> Vec<T> {
        let gap = [T::from_f32(7.0); 5];
        let mut result = gap[..3].to_vec();
        for row in rows.chunks(columns.max(1)) {
            result.extend(row);
            result.extend(gap);
        }
        result
    }

    #[test]
    fn delta_in_every_combination_of_types() {
        let widths: &[usize] = match cfg!(miri) {
            true => &[1, 65, 200],
            false => &[1, 15, 64, 65, 200, 701, 1500],
        };
        for simd in Simd::available() {
            for (columns, log_probability) in
                (widths.iter().copied()).flat_map(|n| [(n, -0.5), (n, 0.0)])
            {
                let deltas = deltas(log_probability, columns);
                let narrow: Vec<bf16> = (values(3 * columns).into_iter())
                    .map(bf16::from_f32)
                    .collect();
                let x: Vec<f32> = narrow.iter().map(|x| x.to_f32()).collect();
                let of = |values| Strided {
                    values,
                    stride: columns,
                };
                let mut out = vec![f32::NAN; 3 * columns];
                let to = Strided {
                    values: ValuesMut::F32(&mut out),
                    stride: columns,
                };
                let caches = Destination::Caches;
                simd.softmax_delta(to, of(Values::F32(&x)), columns, &deltas, caches);
                for (i, (&x, &out)) in x.iter().zip(&out).enumerate() {
                    let exact = exact(&deltas[i / columns], i % columns, x);
                    assert!(
                        (f64::from(out) - exact).abs() < 4e-6 * (1.0 + exact.abs()),
                        "{simd} {columns} {i}: {out} {exact}"
                    );
                }
                let rounded: Vec<bf16> = out.iter().map(|&x| bf16::from_f32(x)).collect();
                let (out, rounded) = (with_gaps(&out, columns), with_gaps(&rounded, columns));
                // Of what is beside the rows nothing is touched.
                let empty = with_gaps(&vec![f32::NAN; 3 * columns], columns);
                let empty_narrow = with_gaps(&vec![bf16::NAN; 3 * columns], columns);
                for destination in [caches, Destination::Memory] {
                    let stride = columns + 5;
                    for x in [Values::F32(&x), Values::Bf16(&narrow)] {
                        let (mut again, mut again_narrow) = (empty.clone(), empty_narrow.clone());
                        let values = ValuesMut::F32(&mut again[3..]);
                        let to = Strided { values, stride };
                        simd.softmax_delta(to, of(x), columns, &deltas, destination);
                        assert_eq!(again, out, "{simd} {columns}");
                        let values = ValuesMut::Bf16(&mut again_narrow[3..]);
                        let to = Strided { values, stride };
                        simd.softmax_delta(to, of(x), columns, &deltas, destination);
                        assert_eq!(again_narrow, rounded, "{simd} {columns}");
                    }
                    let mut over = with_gaps(&x, columns);
                    let values = ValuesMut::F32(&mut over[3..]);
                    let x = Strided { values, stride };
                    simd.softmax_delta_in_place(x, columns, &deltas, destination);
                    assert_eq!(over, out, "{simd} {columns}");
                    let mut over = with_gaps(&narrow, columns);
                    let values = ValuesMut::Bf16(&mut over[3..]);
                    let x = Strided { values, stride };
                    simd.softmax_delta_in_place(x, columns, &deltas, destination);
                    assert_eq!(over, rounded, "{simd} {columns}");
                }
            }
        }
    }

    #[test]
    fn a_part_of_a_row_has_the_label_or_not() {
        let row = SoftmaxDelta {
            label: Some(10),
            ..DELTA
        };
        let labels =
            [(0, 10), (0, 11), (10, 5), (11, 5)].map(|(first, len)| row.of_part(first, len).label);
        assert_eq!(labels, [None, Some(10), Some(0), None]);
    }

    #[test]
    fn p_log_p_of_an_absent_column_is_zero() {
        for simd in Simd::available() {
            let delta = SoftmaxDelta {
                scale: 1.0,
                lse: 0.0,
                probability: 1.0,
                log_probability: 1.0,
                uniform: 0.0,
                ..DELTA
            };
            let mut out = [f32::NAN; 3];
            let x = [f32::NEG_INFINITY, -1e30, f32::NAN];
            simd.softmax_delta(
                Strided::row(ValuesMut::F32(&mut out)),
                Strided::row(Values::F32(&x)),
                x.len(),
                &[delta],
                Destination::Caches,
            );
            assert_eq!(out[..2], [0.0, 0.0]);
            assert!(out[2].is_nan());
        }
    }
}
