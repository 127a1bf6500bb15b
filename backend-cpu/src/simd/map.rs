//! Element-wise maps: of one slice to another, over a slice itself, and past the caches.
//!
//! What happens to one vector is a [`Map`]; what is read and written is an [`Element`], in the type it is stored in. The
//! last few values go through padded vectors on the stack, so every element takes the same arithmetic wherever it stands.
//!
//! Elementary functions are long chains of dependent instructions, so four vectors go side by side, which keeps the
//! multipliers busy where the processor cannot look ahead far enough to overlap them. And memory is asked for ahead: see
//! [`memory`].

use bytemuck::{Pod, Zeroable};
use half::bf16;

use super::math;
use super::memory::{self, Cache, Line, Quarters, prefetch};
use super::vector::{Kernel, Vector};

/// A function of one lane.
pub(super) trait Map: Copy {
    fn apply<V: Vector>(self, isa: V::Isa, x: V) -> V;
}

/// A stored number that is read as f32.
pub(super) trait Element: Pod {
    fn from_f32(value: f32) -> Self;
    fn load<V: Vector>(isa: V::Isa, from: &[Self]) -> V;
    fn store<V: Vector>(vector: V, to: &mut [Self]);
}

impl Element for f32 {
    fn from_f32(value: f32) -> Self {
        value
    }

    #[inline(always)]
    fn load<V: Vector>(isa: V::Isa, from: &[Self]) -> V {
        V::load(isa, from)
    }

    #[inline(always)]
    fn store<V: Vector>(vector: V, to: &mut [Self]) {
        vector.store(to);
    }
}

impl Element for bf16 {
    fn from_f32(value: f32) -> Self {
        Self::from_f32(value)
    }

    #[inline(always)]
    fn load<V: Vector>(isa: V::Isa, from: &[Self]) -> V {
        V::load_bf16(isa, from)
    }

    #[inline(always)]
    fn store<V: Vector>(vector: V, to: &mut [Self]) {
        vector.store_bf16(to);
    }
}

/// Where results should come to lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Destination {
    /// Where they are read again soon.
    Caches,
    /// An array that is larger than the caches and not read soon.
    Memory,
}

/// The most lanes any vector has: the size of the stack buffers for partial vectors.
pub(super) const MOST_LANES: usize = 16;

/// How far ahead of one place memory is asked for.
const AHEAD_BYTES: usize = 6144;

/// `map` of the first four vectors of `x`.
#[inline(always)]
fn map_four<V: Vector, T: Element, M: Map>(isa: V::Isa, x: &[T], map: M) -> [V; 4] {
    let mut vectors = [V::splat(isa, 0.0); 4];
    for (i, vector) in vectors.iter_mut().enumerate() {
        let x = &x[i * V::LANES..];
        prefetch(x, AHEAD_BYTES, Cache::Level2);
        *vector = map.apply(isa, T::load::<V>(isa, x));
    }
    vectors
}

#[inline(always)]
fn store_four<V: Vector, O: Element>(vectors: [V; 4], out: &mut [O]) {
    for (vector, out) in vectors.into_iter().zip(out.chunks_exact_mut(V::LANES)) {
        O::store(vector, out);
    }
}

/// `map` of fewer values than four vectors have, which are the first of the result.
#[inline(always)]
fn map_rest<V: Vector, O: Element, T: Element, M: Map>(
    isa: V::Isa,
    x: &[T],
    map: M,
) -> [O; 4 * MOST_LANES] {
    let mut padded = [T::zeroed(); 4 * MOST_LANES];
    padded[..x.len()].copy_from_slice(x);
    let mut results = [O::zeroed(); 4 * MOST_LANES];
    store_four::<V, O>(map_four(isa, &padded, map), &mut results);
    results
}

/// `x = map(x)`.
pub(super) struct MapInPlace<'a, T, M>(pub(super) &'a mut [T], pub(super) M);

impl<T: Element, M: Map> Kernel for MapInPlace<'_, T, M> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, isa: V::Isa) {
        let Self(x, map) = self;
        let mut four = x.chunks_exact_mut(4 * V::LANES);
        for x in &mut four {
            store_four::<V, T>(map_four(isa, x, map), x);
        }
        let x = four.into_remainder();
        if !x.is_empty() {
            x.copy_from_slice(&map_rest::<V, T, T, M>(isa, x, map)[..x.len()]);
        }
    }
}

/// `out = map(x)`, each in its own type; they are equally long.
pub(super) struct MapInto<'a, O, T, M> {
    pub(super) out: &'a mut [O],
    pub(super) x: &'a [T],
    pub(super) map: M,
}

impl<O: Element, T: Element, M: Map> Kernel for MapInto<'_, O, T, M> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, isa: V::Isa) {
        let Self { out, x, map } = self;
        let mut four_out = out.chunks_exact_mut(4 * V::LANES);
        let four_x = x.chunks_exact(4 * V::LANES);
        let x = four_x.remainder();
        for (out, x) in (&mut four_out).zip(four_x) {
            store_four::<V, O>(map_four(isa, x, map), out);
        }
        let out = four_out.into_remainder();
        if !out.is_empty() {
            out.copy_from_slice(&map_rest::<V, O, T, M>(isa, x, map)[..out.len()]);
        }
    }
}

/// The same past the caches, for an `out` that is not read soon.
pub(super) struct MapPastCaches<'a, O, T, M>(pub(super) MapInto<'a, O, T, M>);

impl<O: Element, T: Element, M: Map> Kernel for MapPastCaches<'_, O, T, M> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, isa: V::Isa) {
        let Self(MapInto { out, x, map }) = self;
        let per_line = Line::BYTES / size_of::<O>();
        let (head, lines, tail) = bytemuck::pod_align_to_mut::<O, Line>(out);
        let (x_head, x) = x.split_at(head.len());
        let (x, x_tail) = x.split_at(lines.len() * per_line);
        for (out, x) in [(head, x_head), (tail, x_tail)] {
            MapInto { out, x, map }.run::<V>(isa);
        }
        let quarters = Quarters::new(x, per_line);
        for start in (0..quarters.len).step_by(per_line) {
            let ahead_bytes = quarters.ahead_bytes(start);
            for quarter in 0..4 {
                let at = quarter * quarters.len + start;
                let line = &mut lines[at / per_line];
                map_line::<V, O, T, M>(isa, line, &x[at..], ahead_bytes, map);
            }
        }
        for at in (4 * quarters.len..x.len()).step_by(per_line) {
            map_line::<V, O, T, M>(isa, &mut lines[at / per_line], &x[at..], 0, map);
        }
        memory::fence();
    }
}

/// `out = map(x)` past the caches.
#[inline(always)]
fn map_line<V: Vector, O: Element, T: Element, M: Map>(
    isa: V::Isa,
    out: &mut Line,
    x: &[T],
    ahead_bytes: usize,
    map: M,
) {
    let mut results = Line::zeroed();
    let vectors = results.as_mut::<O>().chunks_exact_mut(V::LANES);
    for (out, x) in vectors.zip(x.chunks_exact(V::LANES)) {
        prefetch(x, ahead_bytes, Cache::Level2);
        O::store(map.apply(isa, T::load::<V>(isa, x)), out);
    }
    out.stream(&results);
}

/// Declares a [`Map`] without parameters.
macro_rules! maps {
    ($($name:ident: |$isa:ident, $x:ident| $body:expr;)*) => {
        $(
            #[derive(Clone, Copy)]
            pub(super) struct $name;

            impl Map for $name {
                #[inline(always)]
                fn apply<V: Vector>(self, $isa: V::Isa, $x: V) -> V {
                    $body
                }
            }
        )*
    };
}

maps! {
    Identity: |_isa, x| x;
    Exp: |isa, x| math::exp(isa, x);
    Log: |isa, x| math::log(isa, x);
    Tanh: |isa, x| math::tanh(isa, x);
    Neg: |_isa, x| x.neg();
    Abs: |_isa, x| x.abs();
    Reciprocal: |isa, x| V::splat(isa, 1.0).div(x);
}

/// cap * tanh(x / cap).
#[derive(Clone, Copy)]
pub(super) struct SoftCap(pub(super) f32);

impl Map for SoftCap {
    #[inline(always)]
    fn apply<V: Vector>(self, isa: V::Isa, x: V) -> V {
        let scaled = x.mul(V::splat(isa, 1.0 / self.0));
        math::tanh(isa, scaled).mul(V::splat(isa, self.0))
    }
}
