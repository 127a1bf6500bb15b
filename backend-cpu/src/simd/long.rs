//! Element-wise maps of rows that are longer than the caches: to another array past the caches, and over the row
//! itself.
//!
//! They go through a row at four places in turn, two cache lines at each, and write whole lines: see
//! [`memory`](super::memory).
//!
//! The ends of a row share their lines with other rows and are written apart. They are computed first, and not from
//! vectors that are filled up beside them: a load of what has just been written in parts waits until all stores before
//! it have left the core, and here hundreds of lines are on their way.

use bytemuck::Zeroable;

use super::map::{Element, Map, MapInPlace, MapInto, Order, map_two, prefetch_two};
use super::memory::{Cache, Line, Quarters, prefetch};
use super::vector::{Kernel, Vector};

/// [`MapInto`] past the caches, for an `out` that is not read soon. Other threads see it after a
/// [`memory::fence`](super::memory::fence).
#[inline(always)]
pub(super) fn map_past_caches<V: Vector, O: Element, T: Element, M: Map>(
    isa: V::Isa,
    out: &mut [O],
    x: &[T],
    map: M,
) {
    if x.len() < step::<O>() {
        return MapInto { out, x, map }.run::<V>(isa);
    }
    let (head, lines, tail) = bytemuck::pod_align_to_mut::<O, TwoLines>(out);
    // Writing a part of a line reads the rest of it.
    prefetch(tail, 0, Cache::Level1);
    let ends = Ends::new::<V, O, T, M>(isa, x, map);
    ends.write_head(head);
    let x = &x[head.len()..][..lines.len() * step::<O>()];
    map_lines::<V, O, _, _>(isa, Streamed { x, lines }, map);
    ends.write_tail(tail);
}

/// `out = 0` past the caches, seen likewise.
#[inline(always)]
pub(super) fn zero_past_caches<V: Vector, O: Element>(isa: V::Isa, out: &mut [O]) {
    let (head, lines, tail) = bytemuck::pod_align_to_mut::<O, Line>(out);
    for end in [head, tail] {
        end.fill(O::zeroed());
    }
    let zero = Line::zeroed();
    for line in lines {
        V::stream(isa, &zero, line);
    }
}

/// [`MapInPlace`] for long rows.
pub(super) struct MapLongInPlace<'a, T, M>(pub(super) &'a mut [T], pub(super) M);

impl<T: Element, M: Map> Kernel for MapLongInPlace<'_, T, M> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, isa: V::Isa) {
        let Self(x, map) = self;
        if x.len() < step::<T>() {
            return MapInPlace(x, map).run::<V>(isa);
        }
        let ends = Ends::new::<V, T, T, M>(isa, x, map);
        let (head, lines, tail) = bytemuck::pod_align_to_mut::<T, TwoLines>(x);
        ends.write_head(head);
        let x = Updated::<T>(bytemuck::cast_slice_mut(lines));
        map_lines::<V, T, _, _>(isa, x, map);
        ends.write_tail(tail);
    }
}

/// Two vectors at least, of whatever elements.
type TwoLines = [Line; 2];

/// Elements of two lines.
const fn step<O>() -> usize {
    size_of::<TwoLines>() / size_of::<O>()
}

/// Results for the first and the last elements of a row, as many as two lines hold.
struct Ends {
    first: TwoLines,
    last: TwoLines,
}

impl Ends {
    #[inline(always)]
    fn new<V: Vector, O: Element, T: Element, M: Map>(isa: V::Isa, x: &[T], map: M) -> Self {
        Self {
            first: map_two_lines::<V, O, T, M>(isa, x, map),
            last: map_two_lines::<V, O, T, M>(isa, &x[x.len() - step::<O>()..], map),
        }
    }

    fn write_head<O: Element>(&self, head: &mut [O]) {
        let first: &[O] = bytemuck::cast_slice(&self.first);
        head.copy_from_slice(&first[..head.len()]);
    }

    fn write_tail<O: Element>(&self, tail: &mut [O]) {
        let last: &[O] = bytemuck::cast_slice(&self.last);
        tail.copy_from_slice(&last[last.len() - tail.len()..]);
    }
}

/// The whole lines of a row.
trait Lines {
    type Element: Element;

    /// What there is to map.
    fn x(&self) -> &[Self::Element];

    /// Writes the results for the `i`-th two lines.
    fn write<V: Vector>(&mut self, isa: V::Isa, i: usize, results: &TwoLines);
}

struct Streamed<'a, T> {
    x: &'a [T],
    lines: &'a mut [TwoLines],
}

impl<T: Element> Lines for Streamed<'_, T> {
    type Element = T;

    #[inline(always)]
    fn x(&self) -> &[T] {
        self.x
    }

    #[inline(always)]
    fn write<V: Vector>(&mut self, isa: V::Isa, i: usize, results: &TwoLines) {
        for (to, line) in self.lines[i].iter_mut().zip(results) {
            V::stream(isa, line, to);
        }
    }
}

struct Updated<'a, T>(&'a mut [T]);

impl<T: Element> Lines for Updated<'_, T> {
    type Element = T;

    #[inline(always)]
    fn x(&self) -> &[T] {
        self.0
    }

    #[inline(always)]
    fn write<V: Vector>(&mut self, _: V::Isa, i: usize, results: &TwoLines) {
        self.0[i * step::<T>()..][..step::<T>()].copy_from_slice(bytemuck::cast_slice(results));
    }
}

/// Maps all lines to `O`.
#[inline(always)]
fn map_lines<V: Vector, O: Element, L: Lines, M: Map>(isa: V::Isa, mut lines: L, map: M) {
    let step = step::<O>();
    let quarters = Quarters::new(lines.x(), step);
    quarters.prefetch_rest(lines.x());
    for start in (0..quarters.len).step_by(step) {
        let ahead_bytes = quarters.ahead_bytes(start);
        for quarter in 0..4 {
            let at = quarter * quarters.len + start;
            let x = &lines.x()[at..];
            for pair in (0..step).step_by(2 * V::LANES) {
                prefetch_two::<V, _>(&x[pair..], ahead_bytes, Cache::Level1);
            }
            let results = map_two_lines::<V, O, _, M>(isa, x, map);
            lines.write::<V>(isa, at / step, &results);
        }
    }
    for at in (4 * quarters.len..lines.x().len()).step_by(step) {
        let results = map_two_lines::<V, O, _, M>(isa, &lines.x()[at..], map);
        lines.write::<V>(isa, at / step, &results);
    }
}

/// `map` of the first elements of `x`, as many as two lines hold.
#[inline(always)]
fn map_two_lines<V: Vector, O: Element, T: Element, M: Map>(
    isa: V::Isa,
    x: &[T],
    map: M,
) -> TwoLines {
    let order = Order::between::<T, O>();
    let mut results = TwoLines::zeroed();
    let out = bytemuck::cast_slice_mut::<_, O>(&mut results);
    let pair = 2 * V::LANES;
    for at in (0..step::<O>()).step_by(pair) {
        let two = map_two::<V, T, M>(isa, &x[at..at + pair], order, map);
        O::store(two, &mut out[at..at + pair], order, M::DENORMALS);
    }
    results
}
