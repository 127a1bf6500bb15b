//! Element-wise maps of what lies in the caches, of one slice to another and over a slice itself; those of long rows
//! are [elsewhere](super::long).
//!
//! What happens to one vector is a [`Map`]; what is read and written is an [`Element`], in the type it is stored in.
//! Every element takes the same arithmetic wherever it stands: the last vectors of a slice overlap those before them,
//! and slices shorter than four go through padded vectors on the stack.
//!
//! Elementary functions are long chains of dependent instructions, so four vectors go side by side, which keeps the
//! multipliers busy where the processor cannot look ahead far enough to overlap them. And memory is asked for ahead:
//! see [`memory`].

use bytemuck::Pod;
use half::bf16;

use super::long::map_past_caches;
use super::memory::{self, Cache, Line, prefetch};
use super::vector::{Kernel, Vector};
use super::{Simd, Values, ValuesMut, math};

/// A function of one lane.
pub(super) trait Map: Copy {
    /// Whether results below the least normal number are anything but 0 to who asked for them: `bf16` ones take a look
    /// at each vector.
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

/// Rows in memory that start `stride` elements apart.
#[derive(Clone, Copy, Debug)]
pub struct Strided<T> {
    /// From the first element of the first row on.
    pub values: T,
    /// Elements from one row to the next.
    pub stride: usize,
}

impl<T> Strided<T> {
    /// One row.
    pub(crate) fn row(values: T) -> Self {
        Self { values, stride: 0 }
    }
}

impl Simd {
    /// `out = x`, rounded where `out` is narrower, in so many rows and columns.
    ///
    /// # Panics
    ///
    /// If there are fewer.
    pub(crate) fn convert(
        self,
        out: Strided<ValuesMut<'_>>,
        x: Strided<Values<'_>>,
        extent: [usize; 2],
        destination: Destination,
    ) {
        let strides = [out.stride, x.stride];
        macro_rules! run {
            ($out:expr, $x:expr) => {
                self.run(Convert {
                    out: $out,
                    x: $x,
                    strides,
                    extent,
                    destination,
                })
            };
        }
        match (out.values, x.values) {
            (ValuesMut::F32(out), Values::F32(x)) => run!(out, x),
            (ValuesMut::Bf16(out), Values::Bf16(x)) => run!(out, x),
            (ValuesMut::F32(out), Values::Bf16(x)) => run!(out, x),
            (ValuesMut::Bf16(out), Values::F32(x)) => run!(out, x),
        }
    }
}

struct Convert<'a, O, T> {
    out: &'a mut [O],
    x: &'a [T],
    /// Of both.
    strides: [usize; 2],
    /// Rows and columns.
    extent: [usize; 2],
    destination: Destination,
}

impl<O: Element, T: Element> Kernel for Convert<'_, O, T> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, isa: V::Isa) {
        let [rows, columns] = self.extent;
        let [out_stride, x_stride] = self.strides;
        for r in 0..rows {
            let out = &mut self.out[r * out_stride..][..columns];
            let x = &self.x[r * x_stride..][..columns];
            map_row::<V, O, T, _>(isa, out, x, Identity, self.destination);
        }
        if self.destination == Destination::Memory {
            memory::fence();
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
fn map_few<V: Vector, O: Element, T: Element, M: Map>(
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
        let whole = 4 * V::LANES;
        let Some(last) = x.len().checked_sub(whole) else {
            let len = x.len();
            return x.copy_from_slice(&map_few::<V, T, T, M>(isa, x, map)[..len]);
        };
        // Before some of them are overwritten.
        let results = match x.len().is_multiple_of(whole) {
            true => None,
            false => Some(map_four(isa, &x[last..], Order::OfType, map)),
        };
        for x in x.chunks_exact_mut(whole) {
            store_four::<V, T, M>(map_four(isa, x, Order::OfType, map), x, Order::OfType);
        }
        if let Some(results) = results {
            store_four::<V, T, M>(results, &mut x[last..], Order::OfType);
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
        let whole = 4 * V::LANES;
        let Some(last) = x.len().checked_sub(whole) else {
            return out.copy_from_slice(&map_few::<V, O, T, M>(isa, x, map)[..x.len()]);
        };
        let order = Order::between::<T, O>();
        for (x, out) in (x.chunks_exact(whole)).zip(out.chunks_exact_mut(whole)) {
            store_four::<V, O, M>(map_four(isa, x, order, map), out, order);
        }
        if !x.len().is_multiple_of(whole) {
            let results = map_four(isa, &x[last..], order, map);
            store_four::<V, O, M>(results, &mut out[last..], order);
        }
    }
}

/// `out = map(x)`, seen by other threads after a [`memory::fence`].
#[inline(always)]
pub(super) fn map_row<V: Vector, O: Element, T: Element, M: Map>(
    isa: V::Isa,
    out: &mut [O],
    x: &[T],
    map: M,
    destination: Destination,
) {
    match destination {
        Destination::Caches => MapInto { out, x, map }.run::<V>(isa),
        Destination::Memory => map_past_caches::<V, O, T, M>(isa, out, x, map),
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
