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

use super::Simd;
use super::math;
use super::memory::{self, Cache, Line, Quarters, prefetch};
use super::vector::{Kernel, Vector};

/// A function of one lane.
pub(super) trait Map: Copy {
    fn apply<V: Vector>(self, isa: V::Isa, x: V) -> V;
}

/// A stored number that is read as f32, two vectors at a time.
pub(super) trait Element: Pod {
    fn from_f32(value: f32) -> Self;
    fn load<V: Vector>(isa: V::Isa, from: &[Self], order: Order) -> [V; 2];
    fn store<V: Vector>(vectors: [V; 2], to: &mut [Self], order: Order);
}

/// Which values the lanes of two vectors hold.
#[derive(Clone, Copy)]
pub(super) enum Order {
    /// Those that follow each other.
    InMemory,
    /// As it is least work for the type, the same for what is loaded as for what is stored.
    OfType,
}

impl Order {
    /// For what is loaded as `T` and stored as `O`.
    #[inline(always)]
    fn between<T: Element, O: Element>() -> Self {
        // Elements of the same size are of the same type.
        match size_of::<T>() == size_of::<O>() {
            true => Self::OfType,
            false => Self::InMemory,
        }
    }
}

impl Element for f32 {
    fn from_f32(value: f32) -> Self {
        value
    }

    #[inline(always)]
    fn load<V: Vector>(isa: V::Isa, from: &[Self], _: Order) -> [V; 2] {
        [V::load(isa, from), V::load(isa, &from[V::LANES..])]
    }

    #[inline(always)]
    fn store<V: Vector>([first, second]: [V; 2], to: &mut [Self], _: Order) {
        first.store(to);
        second.store(&mut to[V::LANES..]);
    }
}

impl Element for bf16 {
    fn from_f32(value: f32) -> Self {
        Self::from_f32(value)
    }

    #[inline(always)]
    fn load<V: Vector>(isa: V::Isa, from: &[Self], order: Order) -> [V; 2] {
        match order {
            Order::InMemory => [
                V::load_bf16(isa, from),
                V::load_bf16(isa, &from[V::LANES..]),
            ],
            Order::OfType => V::load_two_bf16(isa, from),
        }
    }

    #[inline(always)]
    fn store<V: Vector>(vectors: [V; 2], to: &mut [Self], order: Order) {
        match order {
            Order::InMemory => {
                let [first, second] = vectors;
                first.store_bf16(to);
                second.store_bf16(&mut to[V::LANES..]);
            }
            Order::OfType => V::store_two_bf16(vectors, to),
        }
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

impl Simd {
    /// `out = map(x)`; they are equally long.
    pub(super) fn map<O: Element, T: Element>(
        self,
        out: &mut [O],
        x: &[T],
        map: impl Map,
        destination: Destination,
    ) {
        let into = MapInto { out, x, map };
        match destination {
            Destination::Caches => self.run(into),
            Destination::Memory => self.run(MapPastCaches(into)),
        }
    }
}

/// The most lanes any vector has: the size of the stack buffers for partial vectors.
pub(super) const MOST_LANES: usize = 16;

/// How far ahead of one place memory is asked for.
const AHEAD_BYTES: usize = 6144;

/// `map` of the first two vectors of `x`, after asking for what is so far ahead of them.
#[inline(always)]
fn map_two<V: Vector, T: Element, M: Map>(
    isa: V::Isa,
    x: &[T],
    ahead_bytes: usize,
    order: Order,
    map: M,
) -> [V; 2] {
    prefetch_two::<V, T>(x, ahead_bytes);
    let [first, second] = T::load::<V>(isa, x, order);
    [map.apply(isa, first), map.apply(isa, second)]
}

/// Asks for what is so far ahead of the first two vectors of `x`.
#[inline(always)]
pub(super) fn prefetch_two<V: Vector, T: Element>(x: &[T], ahead_bytes: usize) {
    for line in (0..2 * V::LANES * size_of::<T>()).step_by(Line::BYTES) {
        prefetch(x, ahead_bytes + line, Cache::Level2);
    }
}

/// `map` of the first four vectors of `x`.
#[inline(always)]
fn map_four<V: Vector, T: Element, M: Map>(
    isa: V::Isa,
    x: &[T],
    order: Order,
    map: M,
) -> [[V; 2]; 2] {
    let rest = &x[2 * V::LANES..];
    [
        map_two(isa, x, AHEAD_BYTES, order, map),
        map_two(isa, rest, AHEAD_BYTES, order, map),
    ]
}

#[inline(always)]
fn store_four<V: Vector, O: Element>(vectors: [[V; 2]; 2], out: &mut [O], order: Order) {
    for (two, out) in (vectors.into_iter()).zip(out.chunks_exact_mut(2 * V::LANES)) {
        O::store(two, out, order);
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
    let order = Order::between::<T, O>();
    store_four::<V, O>(map_four(isa, &padded, order, map), &mut results, order);
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
            store_four::<V, T>(map_four(isa, x, Order::OfType, map), x, Order::OfType);
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
        let order = Order::between::<T, O>();
        for (out, x) in (&mut four_out).zip(four_x) {
            store_four::<V, O>(map_four(isa, x, order, map), out, order);
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
        let (head, lines, tail) = bytemuck::pod_align_to_mut::<O, TwoLines>(out);
        let step = size_of::<TwoLines>() / size_of::<O>();
        let (x_head, x) = x.split_at(head.len());
        let (x, x_tail) = x.split_at(lines.len() * step);
        for (out, x) in [(head, x_head), (tail, x_tail)] {
            MapInto { out, x, map }.run::<V>(isa);
        }
        let quarters = Quarters::new(x, step);
        for start in (0..quarters.len).step_by(step) {
            let ahead_bytes = quarters.ahead_bytes(start);
            for quarter in 0..4 {
                let at = quarter * quarters.len + start;
                let lines = &mut lines[at / step];
                map_lines::<V, O, T, M>(isa, lines, &x[at..], ahead_bytes, map);
            }
        }
        for at in (4 * quarters.len..x.len()).step_by(step) {
            map_lines::<V, O, T, M>(isa, &mut lines[at / step], &x[at..], 0, map);
        }
        memory::fence();
    }
}

/// Two vectors at least, of whatever elements.
type TwoLines = [Line; 2];

/// `out = map(x)` past the caches.
#[inline(always)]
fn map_lines<V: Vector, O: Element, T: Element, M: Map>(
    isa: V::Isa,
    out: &mut TwoLines,
    x: &[T],
    ahead_bytes: usize,
    map: M,
) {
    let order = Order::between::<T, O>();
    let mut results = TwoLines::zeroed();
    let vectors = bytemuck::cast_slice_mut::<_, O>(&mut results).chunks_exact_mut(2 * V::LANES);
    for (out, x) in vectors.zip(x.chunks_exact(2 * V::LANES)) {
        O::store(
            map_two::<V, T, M>(isa, x, ahead_bytes, order, map),
            out,
            order,
        );
    }
    for (out, results) in out.iter_mut().zip(&results) {
        out.stream(results);
    }
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
