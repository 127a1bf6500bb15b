//! The statistics of a softmax over a row of logits in memory.
//!
//! Each logit is read once, in the type it is stored in. Where the logits do not fit the caches that is
//! as fast as memory, provided that the arithmetic of a vector takes less time than its bytes: about
//! a dozen instructions, most of them the exponential, which is therefore a power of two without the last bits
//! ([`math::exp2`]), and that enough of memory is under way at once ([`memory`](super::memory)).
//!
//! Rows of a tile of logits are short, and in the caches. What starts and ends a row, the sum over the lanes for one,
//! takes as long there as its elements, so rows are taken together: a processor then begins the next while it ends one.

use super::map::{Element, MOST_LANES, Order, Strided, prefetch_two};
use super::memory::{Cache, Quarters, SHORT_ROW_BYTES};
use super::vector::{Kernel, Vector};
use super::{Values, math};

/// Running statistics of a row of `z`: a monoid whose neutral element is [`Statistics::NONE`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Statistics {
    /// `m`, the largest `z`.
    pub max: f32,
    /// `l = Σ e^(z - m)`: NaN if a `z` is.
    pub sum: f32,
    /// `t = Σ (z - m) e^(z - m)`; 0 if it is not kept.
    pub moment: f32,
}

impl Statistics {
    /// Those of no elements.
    pub const NONE: Self = Self {
        max: f32::NEG_INFINITY,
        sum: 0.0,
        moment: 0.0,
    };

    /// Those of both.
    pub fn merge(self, other: Self) -> Self {
        // Maxima are numbers or infinite.
        let max = self.max.max(other.max);
        let [a, b] = [self, other].map(|side| side.relative_to(max));
        Self {
            max,
            sum: a.sum + b.sum,
            moment: a.moment + b.moment,
        }
    }

    fn relative_to(self, max: f32) -> Self {
        if self.max == max || self.sum == 0.0 {
            return Self { max, ..self };
        }
        let down = self.max - max;
        let factor = down.exp();
        Self {
            max,
            sum: self.sum * factor,
            // Where the factor is 0 the difference may be infinite.
            moment: match factor {
                0.0 => 0.0,
                _ => (self.moment + self.sum * down) * factor,
            },
        }
    }

    /// `m + ln l`
    pub fn lse(&self) -> f32 {
        self.max + self.sum.ln()
    }

    /// `-Σ p ln p = ln l - t / l`
    pub fn entropy(&self) -> f32 {
        self.sum.ln() - self.moment / self.sum
    }
}

/// Statistics of rows of `scale * x` after those that they have, for a positive `scale`.
///
/// All lanes share one maximum, which moves a few times at the start of a row and hardly ever after: the
/// n-th of unordered values is the largest so far with probability 1/n.
pub(super) struct Online<'a, T, const MOMENT: bool> {
    pub(super) rows: &'a mut [Statistics],
    pub(super) x: &'a [T],
    /// From one row of `x` to the next.
    pub(super) stride: usize,
    pub(super) columns: usize,
    pub(super) scale: f32,
}

/// Four vectors of running sums over one maximum. A type, because a closure would not be inlined into the
/// function that has the instruction set.
#[derive(Clone, Copy)]
struct Running<V> {
    /// Of `x`, not of `scale * x`: differences to it are then exact where they matter most.
    max: V,
    /// The same, once a vector has raised it.
    raised: Option<f32>,
    sums: [V; 4],
    /// `Σ (x - max) e^(scale (x - max))`
    moments: [V; 4],
    /// `scale log2 e`: powers of two have the cheaper exponential.
    factor: V,
    /// A difference to the maximum whose exponential is 0.
    least: V,
}

impl<V: Vector> Running<V> {
    /// After `before`, of which the sums are left out.
    #[inline(always)]
    fn after(isa: V::Isa, before: Statistics, scale: f32) -> Self {
        let zero = V::splat(isa, 0.0);
        let factor = scale * std::f32::consts::LOG2_E;
        Self {
            // Finite: x - max of an absent element must not be NaN.
            max: V::splat(isa, (before.max / scale).clamp(f32::MIN, f32::MAX)),
            raised: None,
            sums: [zero; 4],
            moments: [zero; 4],
            factor: V::splat(isa, factor),
            least: V::splat(isa, math::LEAST_EXPONENT / factor),
        }
    }

    /// Adds at most four vectors.
    #[inline(always)]
    fn push<const N: usize, const MOMENT: bool>(&mut self, isa: V::Isa, vectors: [V; N]) {
        // A NaN may hide what is larger in its lane: its sum is NaN whatever else is in it.
        let mut largest = vectors[0];
        for x in &vectors[1..] {
            largest = largest.max(*x);
        }
        if V::any(self.max.less_than(largest)) {
            self.raise::<MOMENT>(isa, largest.largest());
        }
        for (i, x) in vectors.into_iter().enumerate() {
            let below = x.sub(self.max);
            let below = match V::TAKES_ANY_EXPONENT {
                true => below,
                // The second operand, so that NaN passes.
                false => self.least.max(below),
            };
            let (mantissa, rest) = math::exp2(isa, below, self.factor);
            self.sums[i] = mantissa.times_power_add(rest, self.sums[i]);
            if MOMENT {
                // A product that must not be infinite times 0.
                let power = mantissa.times_power(rest);
                self.moments[i] = power.power_mul_add(rest, below, self.moments[i]);
            }
        }
    }

    #[inline(always)]
    fn raise<const MOMENT: bool>(&mut self, isa: V::Isa, raised: f32) {
        let max = V::splat(isa, raised);
        let down = self.least.max(self.max.sub(max));
        let (mantissa, rest) = math::exp2(isa, down, self.factor);
        let factor = mantissa.times_power(rest);
        for (sum, moment) in self.sums.iter_mut().zip(&mut self.moments) {
            if MOMENT {
                *moment = sum.mul_add(down, *moment).mul(factor);
            }
            *sum = sum.mul(factor);
        }
        self.max = max;
        self.raised = Some(raised);
    }

    /// Adds a row that is in the caches.
    #[inline(always)]
    fn push_short<T: Element, const MOMENT: bool>(&mut self, isa: V::Isa, x: &[T]) {
        let two = 2 * V::LANES;
        let mut fours = x.chunks_exact(2 * two);
        for x in &mut fours {
            self.push::<4, MOMENT>(isa, load_four::<V, T>(isa, x, two));
        }
        let rest = fours.remainder();
        if rest.len() >= two {
            self.push::<2, MOMENT>(isa, T::load(isa, rest, Order::OfType));
        }
        let left = rest.len() % two;
        if left == 0 {
            return;
        }
        let [first, second] = match x.len().checked_sub(two) {
            Some(start) => last::<V, T>(isa, &x[start..], left),
            None => {
                let mut padded = [T::zeroed(); 2 * MOST_LANES];
                padded[two - left..two].copy_from_slice(rest);
                last::<V, T>(isa, &padded, left)
            }
        };
        match left <= V::LANES {
            true => self.push::<1, MOMENT>(isa, [second]),
            false => self.push::<2, MOMENT>(isa, [first, second]),
        }
    }

    /// Adds a row that is read from memory.
    #[inline(always)]
    fn push_long<T: Element, const MOMENT: bool>(&mut self, isa: V::Isa, x: &[T]) {
        let step = 2 * V::LANES;
        let quarters = Quarters::new(x, step);
        quarters.prefetch_rest(x);
        for start in (0..quarters.len).step_by(step) {
            let ahead_bytes = quarters.ahead_bytes(start);
            for first in [0, 2 * quarters.len] {
                let x = &x[first + start..];
                for two in [x, &x[quarters.len..]] {
                    prefetch_two::<V, T>(two, ahead_bytes, Cache::Level1);
                }
                self.push::<4, MOMENT>(isa, load_four::<V, T>(isa, x, quarters.len));
            }
        }
        self.push_short::<T, MOMENT>(isa, &x[4 * quarters.len..]);
    }

    /// What has been added, after `before`.
    #[inline(always)]
    fn merged(self, before: Statistics, scale: f32) -> Statistics {
        let found = Statistics {
            max: self.raised.map_or(before.max, |max| max * scale),
            sum: total(self.sums),
            moment: total(self.moments) * scale,
        };
        match found.sum {
            // Nothing but absent elements.
            0.0 => before,
            _ => before.merge(found),
        }
    }
}

/// The first two vectors of `x` and of what starts `apart` elements behind it.
#[inline(always)]
fn load_four<V: Vector, T: Element>(isa: V::Isa, x: &[T], apart: usize) -> [V; 4] {
    let [a, b] = T::load(isa, x, Order::OfType);
    let [c, d] = T::load(isa, &x[apart..], Order::OfType);
    [a, b, c, d]
}

/// The first two vectors of `x`, of which all but the last `left` elements are absent.
#[inline(always)]
fn last<V: Vector, T: Element>(isa: V::Isa, x: &[T], left: usize) -> [V; 2] {
    const PLACES: [f32; 2 * MOST_LANES] = {
        let mut places = [0.0; 2 * MOST_LANES];
        let mut i = 0;
        while i < places.len() {
            places[i] = i as f32;
            i += 1;
        }
        places
    };
    let first_left = V::splat(isa, (2 * V::LANES - left) as f32);
    let absent = V::splat(isa, f32::NEG_INFINITY);
    let mut two = T::load(isa, x, Order::InMemory);
    for (i, x) in two.iter_mut().enumerate() {
        let places = V::load(isa, &PLACES[i * V::LANES..]);
        *x = V::select(places.less_than(first_left), absent, *x);
    }
    two
}

#[inline(always)]
fn total<V: Vector>(parts: [V; 4]) -> f32 {
    parts[0].add(parts[1]).add(parts[2].add(parts[3])).sum()
}

impl<T: Element, const MOMENT: bool> Kernel for Online<'_, T, MOMENT> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, isa: V::Isa) {
        let Self {
            rows,
            x,
            stride,
            columns,
            scale,
        } = self;
        for (r, row) in rows.iter_mut().enumerate() {
            let x = &x[r * stride..][..columns];
            let mut running = Running::<V>::after(isa, *row, scale);
            match size_of_val(x) <= SHORT_ROW_BYTES {
                true => running.push_short::<T, MOMENT>(isa, x),
                false => running.push_long::<T, MOMENT>(isa, x),
            }
            *row = running.merged(*row, scale);
        }
    }
}

impl super::Simd {
    /// Makes of the statistics of each row those after so many columns of `scale * x` more, in one pass; with the
    /// moment if asked.
    ///
    /// # Panics
    ///
    /// If the scale is not positive, or `x` ends before the last row.
    pub fn softmax_statistics(
        self,
        rows: &mut [Statistics],
        x: Strided<Values<'_>>,
        columns: usize,
        scale: f32,
        moment: bool,
    ) {
        assert!(scale > 0.0, "the scale is {scale}, it must be positive");
        let stride = x.stride;
        macro_rules! run {
            ($x:expr, $moment:literal) => {
                self.run(Online::<_, $moment> {
                    rows,
                    x: $x,
                    stride,
                    columns,
                    scale,
                })
            };
        }
        match (x.values, moment) {
            (Values::F32(x), false) => run!(x, false),
            (Values::F32(x), true) => run!(x, true),
            (Values::Bf16(x), false) => run!(x, false),
            (Values::Bf16(x), true) => run!(x, true),
        }
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

    fn after(
        simd: Simd,
        before: Statistics,
        x: Values<'_>,
        scale: f32,
        moment: bool,
    ) -> Statistics {
        let mut row = [before];
        simd.softmax_statistics(&mut row, Strided::row(x), x.len(), scale, moment);
        row[0]
    }

    fn exact(x: &[f32], scale: f32) -> (f64, f64) {
        let z: Vec<f64> = x.iter().map(|&x| f64::from(x * scale)).collect();
        let lse = z.iter().map(|z| z.exp()).sum::<f64>().ln();
        let entropy = z.iter().map(|z| (lse - z) * (z - lse).exp()).sum();
        (lse, entropy)
    }

    #[test]
    fn statistics_match_f64_however_the_row_is_cut() {
        for simd in Simd::available() {
            for length in [1, 7, 16, 31, 33, 63, 64, 65, 130, 240, 1000, 1500] {
                let x = values(length);
                for scale in [1.0, 0.3, 4.0] {
                    let (lse, entropy) = exact(&x, scale);
                    for cut in [0, 1, length / 2, length] {
                        let parts = [&x[..cut], &x[cut..]];
                        let found = parts.into_iter().fold(Statistics::NONE, |before, x| {
                            after(simd, before, Values::F32(x), scale, true)
                        });
                        let close = |got: f32, exact: f64| {
                            (f64::from(got) - exact).abs() < 4e-6 * (1.0 + exact.abs())
                        };
                        assert!(
                            close(found.lse(), lse),
                            "{simd} {length} {cut}: {found:?} {lse}"
                        );
                        assert!(
                            close(found.entropy(), entropy),
                            "{simd} {length} {cut}: {found:?} {entropy}"
                        );
                        let without = parts.into_iter().fold(Statistics::NONE, |before, x| {
                            after(simd, before, Values::F32(x), scale, false)
                        });
                        assert_eq!((without.max, without.sum), (found.max, found.sum));
                    }
                }
            }
        }
    }

    #[test]
    fn rows_are_taken_apart_as_they_lie() {
        let (columns, stride) = (75, 83);
        let x = values(5 * stride);
        for simd in Simd::available() {
            let start =
                |r: usize| after(simd, Statistics::NONE, Values::F32(&x[r..r + 9]), 0.5, true);
            let mut together: Vec<_> = (0..5).map(start).collect();
            let values = Values::F32(&x);
            simd.softmax_statistics(
                &mut together,
                Strided { values, stride },
                columns,
                0.5,
                true,
            );
            for (r, found) in together.into_iter().enumerate() {
                let row = &x[r * stride..][..columns];
                let alone = after(simd, start(r), Values::F32(row), 0.5, true);
                assert_eq!(found, alone, "{simd} {r}");
            }
        }
    }

    #[test]
    fn bf16_is_read_as_the_f32_it_is() {
        for simd in Simd::available() {
            let narrow: Vec<bf16> = values(200).into_iter().map(bf16::from_f32).collect();
            let wide: Vec<f32> = narrow.iter().map(|x| x.to_f32()).collect();
            let of = |x| after(simd, Statistics::NONE, x, 0.5, true);
            let (narrow, wide) = (of(Values::Bf16(&narrow)), of(Values::F32(&wide)));
            // Summed in another order.
            let close = |a: f32, b: f32| (a - b).abs() < 1e-6 * b.abs();
            assert_eq!(narrow.max, wide.max, "{simd}");
            assert!(close(narrow.sum, wide.sum), "{simd} {narrow:?} {wide:?}");
            assert!(
                close(narrow.moment, wide.moment),
                "{simd} {narrow:?} {wide:?}"
            );
        }
    }

    #[test]
    fn absent_elements_count_as_nothing_and_nan_as_nan() {
        for simd in Simd::available() {
            let of = |before, x: &[f32]| after(simd, before, Values::F32(x), 1.0, true);
            let absent = [f32::NEG_INFINITY; 70];
            assert_eq!(of(Statistics::NONE, &absent), Statistics::NONE);
            assert_eq!(of(Statistics::NONE, &[]), Statistics::NONE);
            let one = of(of(Statistics::NONE, &absent), &[2.5]);
            assert_eq!((one.lse(), one.entropy()), (2.5, 0.0));
            let mut x = vec![1.0; 200];
            x[17] = f32::NEG_INFINITY;
            let found = of(of(Statistics::NONE, &x), &absent);
            assert!((found.entropy() - 199_f32.ln()).abs() < 1e-6);
            for value in [f32::NAN, f32::INFINITY] {
                for at in [0, 63, 64, 150, 199] {
                    let mut x = x.clone();
                    x[at] = value;
                    let found = of(Statistics::NONE, &x);
                    assert!(
                        found.lse().is_nan() && found.entropy().is_nan(),
                        "{simd} {at}"
                    );
                }
            }
        }
    }
}
