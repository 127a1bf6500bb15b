//! Combinations of two slices, and reductions.
//!
//! What happens to two vectors is a [`Combine`]; the loops apply it to whole slices. The last few values, fewer than a
//! vector, go through a padded vector on the stack, so every element takes the same arithmetic wherever it stands.

use super::map::{MOST_LANES, Map};
use super::vector::{Kernel, Vector};

/// A function of two lanes.
pub(super) trait Combine: Copy {
    fn apply<V: Vector>(self, isa: V::Isa, x: V, y: V) -> V;
}

/// `values`, fewer than a vector, with zeros behind them.
#[inline(always)]
fn load_partial<V: Vector>(isa: V::Isa, values: &[f32]) -> V {
    let mut padded = [0.0; MOST_LANES];
    padded[..values.len()].copy_from_slice(values);
    V::load(isa, &padded)
}

/// The first lanes of `vector`, as many as `to` has, fewer than a vector.
#[inline(always)]
fn store_partial<V: Vector>(vector: V, to: &mut [f32]) {
    let mut padded = [0.0; MOST_LANES];
    vector.store(&mut padded);
    to.copy_from_slice(&padded[..to.len()]);
}

/// `x = combine(x, y)`.
pub(super) struct CombineInPlace<'a, C>(
    pub(super) &'a mut [f32],
    pub(super) &'a [f32],
    pub(super) C,
);

impl<C: Combine> Kernel for CombineInPlace<'_, C> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, isa: V::Isa) {
        let Self(x, y, combine) = self;
        let mut whole_x = x.chunks_exact_mut(V::LANES);
        let whole_y = y.chunks_exact(V::LANES);
        let y = whole_y.remainder();
        for (x, y) in (&mut whole_x).zip(whole_y) {
            combine
                .apply(isa, V::load(isa, x), V::load(isa, y))
                .store(x);
        }
        let x = whole_x.into_remainder();
        if !x.is_empty() {
            let y = load_partial::<V>(isa, y);
            store_partial(combine.apply(isa, load_partial(isa, x), y), x);
        }
    }
}

/// A combination whose second operand is the same number everywhere.
#[derive(Clone, Copy)]
pub(super) struct WithScalar<C>(pub(super) C, pub(super) f32);

impl<C: Combine> Map for WithScalar<C> {
    #[inline(always)]
    fn apply<V: Vector>(self, isa: V::Isa, x: V) -> V {
        self.0.apply(isa, x, V::splat(isa, self.1))
    }
}

/// Σ map(x). Four sums run side by side, because one addition must finish before the next to the same sum starts.
pub(super) struct SumOf<'a, M>(pub(super) &'a [f32], pub(super) M);

impl<M: Map> Kernel for SumOf<'_, M> {
    type Output = f32;

    #[inline(always)]
    fn run<V: Vector>(self, isa: V::Isa) -> f32 {
        let Self(x, map) = self;
        let mut sums = [V::splat(isa, 0.0); 4];
        let mut four = x.chunks_exact(4 * V::LANES);
        for x in &mut four {
            for (i, sum) in sums.iter_mut().enumerate() {
                *sum = sum.add(map.apply(isa, V::load(isa, &x[i * V::LANES..])));
            }
        }
        let mut one = four.remainder().chunks_exact(V::LANES);
        for x in &mut one {
            sums[0] = sums[0].add(map.apply(isa, V::load(isa, x)));
        }
        let mut total = sums[0].add(sums[1]).add(sums[2].add(sums[3])).sum();
        let x = one.remainder();
        if !x.is_empty() {
            // The padding must not count, whatever the map makes of it.
            let mut last = [0.0; MOST_LANES];
            store_partial(
                map.apply(isa, load_partial::<V>(isa, x)),
                &mut last[..x.len()],
            );
            total += V::load(isa, &last).sum();
        }
        total
    }
}

/// The largest element, NaN if any is NaN, -∞ if there is none.
pub(super) struct Max<'a>(pub(super) &'a [f32]);

impl Kernel for Max<'_> {
    type Output = f32;

    #[inline(always)]
    fn run<V: Vector>(self, isa: V::Isa) -> f32 {
        let x = self.0;
        let lowest = V::splat(isa, f32::NEG_INFINITY);
        let mut largest = [lowest; 4];
        // `Vector::max` forgets NaN, so they are watched for apart, two vectors to a comparison.
        let mut nan = lowest.unordered(lowest);
        let mut four = x.chunks_exact(4 * V::LANES);
        for x in &mut four {
            let mut vectors = [lowest; 4];
            for (i, vector) in vectors.iter_mut().enumerate() {
                *vector = V::load(isa, &x[i * V::LANES..]);
                largest[i] = vector.max(largest[i]);
            }
            let [a, b, c, d] = vectors;
            nan = V::either(nan, V::either(a.unordered(b), c.unordered(d)));
        }
        let mut one = four.remainder().chunks_exact(V::LANES);
        for x in &mut one {
            let x = V::load(isa, x);
            nan = V::either(nan, x.unordered(x));
            largest[0] = x.max(largest[0]);
        }
        let x = one.remainder();
        let mut last = [f32::NEG_INFINITY; MOST_LANES];
        last[..x.len()].copy_from_slice(x);
        let last = V::load(isa, &last);
        nan = V::either(nan, last.unordered(last));
        largest[0] = last.max(largest[0]);

        let [a, b, c, d] = largest;
        if V::any(nan) {
            f32::NAN
        } else {
            a.max(b).max(c.max(d)).largest()
        }
    }
}

/// Declares a [`Combine`] without parameters.
macro_rules! combinations {
    ($($name:ident: |$x:ident, $y:ident| $body:expr;)*) => {
        $(
            #[derive(Clone, Copy)]
            pub(super) struct $name;

            impl Combine for $name {
                #[inline(always)]
                fn apply<V: Vector>(self, _isa: V::Isa, $x: V, $y: V) -> V {
                    $body
                }
            }
        )*
    };
}

combinations! {
    Add: |x, y| x.add(y);
    Sub: |x, y| x.sub(y);
    Mul: |x, y| x.mul(y);
    Div: |x, y| x.div(y);
    // `Vector::max` and `min` give `y` where either is NaN: right where `y` is the NaN, repaired where `x` is.
    Larger: |x, y| V::select(x.unordered(x), x, x.max(y));
    Smaller: |x, y| V::select(x.unordered(x), x, x.min(y));
}

/// d * (1 - (z / cap)²): the derivative of the soft cap at its own result `z`, times a cotangent.
#[derive(Clone, Copy)]
pub(super) struct SoftCapDerivative(pub(super) f32);

impl Combine for SoftCapDerivative {
    #[inline(always)]
    fn apply<V: Vector>(self, isa: V::Isa, d: V, z: V) -> V {
        let scaled = z.mul(V::splat(isa, 1.0 / self.0));
        let slope = scaled.neg().mul_add(scaled, V::splat(isa, 1.0));
        d.mul(slope)
    }
}
