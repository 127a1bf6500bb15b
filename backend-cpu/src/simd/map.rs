//! Element-wise maps of what lies in the caches, of one slice to another and over a slice itself; those of long rows are
//! [elsewhere](super::long).
//!
//! What happens to one vector is a [`Map`]; what is read and written is an [`Element`], in the type it is stored in. The
//! last few values go through padded vectors on the stack, so every element takes the same arithmetic wherever it stands.
//!
//! Elementary functions are long chains of dependent instructions, so four vectors go side by side, which keeps the
//! multipliers busy where the processor cannot look ahead far enough to overlap them. And memory is asked for ahead: see
//! [`memory`].

use bytemuck::Pod;
use half::bf16;

use super::Simd;
use super::long::MapPastCaches;
use super::math;
use super::memory::{Cache, Line, prefetch};
use super::vector::{Kernel, Vector};

/// A function of one lane.
pub(super) trait Map: Copy {
    /// Whether results below the least normal number are anything but 0 to who asked for them: `bf16` ones take a look at
    /// each vector.
    const DENORMALS: bool = true;

    fn apply<V: Vector>(self, isa: V::Isa, x: V) -> V;
}

/// A stored number that is read as f32, two vectors at a time.
pub(super) trait Element: Pod {
    fn from_f32(value: f32) -> Self;
    fn to_f32(self) -> f32;
    fn load<V: Vector>(isa: V::Isa, from: &[Self], order: Order) -> [V; 2];
    /// Without `denormals` they may become 0.
    fn store<V: Vector>(vectors: [V; 2], to: &mut [Self], order: Order, denormals: bool);
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
    pub(super) fn between<T: Element, O: Element>() -> Self {
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

    fn to_f32(self) -> f32 {
        self
    }

    #[inline(always)]
    fn load<V: Vector>(isa: V::Isa, from: &[Self], _: Order) -> [V; 2] {
        [V::load(isa, from), V::load(isa, &from[V::LANES..])]
    }

    #[inline(always)]
    fn store<V: Vector>([first, second]: [V; 2], to: &mut [Self], _: Order, _: bool) {
        first.store(to);
        second.store(&mut to[V::LANES..]);
    }
}

impl Element for bf16 {
    fn from_f32(value: f32) -> Self {
        Self::from_f32(value)
    }

    fn to_f32(self) -> f32 {
        Self::to_f32(self)
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
    fn store<V: Vector>(vectors: [V; 2], to: &mut [Self], order: Order, denormals: bool) {
        match order {
            Order::InMemory => {
                let [first, second] = vectors;
                first.store_bf16(to, denormals);
                second.store_bf16(&mut to[V::LANES..], denormals);
            }
            Order::OfType => V::store_two_bf16(vectors, to, denormals),
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

/// `map` of the first two vectors of `x`.
#[inline(always)]
pub(super) fn map_two<V: Vector, T: Element, M: Map>(
    isa: V::Isa,
    x: &[T],
    order: Order,
    map: M,
) -> [V; 2] {
    let [first, second] = T::load::<V>(isa, x, order);
    [map.apply(isa, first), map.apply(isa, second)]
}

/// Asks for what is so far ahead of the first two vectors of `x`.
#[inline(always)]
pub(super) fn prefetch_two<V: Vector, T: Element>(x: &[T], ahead_bytes: usize, to: Cache) {
    for line in (0..2 * V::LANES * size_of::<T>()).step_by(Line::BYTES) {
        prefetch(x, ahead_bytes + line, to);
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
    for two in [x, rest] {
        prefetch_two::<V, T>(two, AHEAD_BYTES, Cache::Level2);
    }
    [map_two(isa, x, order, map), map_two(isa, rest, order, map)]
}

#[inline(always)]
fn store_four<V: Vector, O: Element, M: Map>(vectors: [[V; 2]; 2], out: &mut [O], order: Order) {
    for (two, out) in (vectors.into_iter()).zip(out.chunks_exact_mut(2 * V::LANES)) {
        O::store(two, out, order, M::DENORMALS);
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
    store_four::<V, O, M>(map_four(isa, &padded, order, map), &mut results, order);
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
            store_four::<V, T, M>(map_four(isa, x, Order::OfType, map), x, Order::OfType);
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
            store_four::<V, O, M>(map_four(isa, x, order, map), out, order);
        }
        let out = four_out.into_remainder();
        if !out.is_empty() {
            out.copy_from_slice(&map_rest::<V, O, T, M>(isa, x, map)[..out.len()]);
        }
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
