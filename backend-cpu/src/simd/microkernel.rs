//! The inner loops of the matrix product: one tile of the result kept in registers.
//!
//! A tile of `ROWS` by `VECTORS * LANES` results stays in registers while the depth goes by. At each step of the
//! depth one row of the packed right operand is loaded (`VECTORS` registers) and each of the `ROWS` packed left values
//! is broadcast against it: `ROWS * VECTORS` multiply-accumulates for `ROWS + VECTORS` loads, which is what keeps the
//! multipliers, and not the loads, the limit.
//!
//! The packed operands are panels of 32-bit words (see [`pack`](super::pack)). A word is one `f32`, or two
//! consecutive depths of `bf16`; the loops move words and only [`Product`] knows which.

use super::memory::{Cache, prefetch};
use super::vector::Vector;

/// Multiplies two registers of words into a register of sums.
pub(super) trait Product<V: Vector>: Copy {
    fn accumulate(self, sum: V, a: V, b: V) -> V;
}

/// Words are `f32`.
#[derive(Clone, Copy)]
pub(super) struct Fused;

impl<V: Vector> Product<V> for Fused {
    #[inline(always)]
    fn accumulate(self, sum: V, a: V, b: V) -> V {
        a.mul_add(b, sum)
    }
}

/// A vertical strip of the product: all rows, at most one panel of columns, a slice of the depth.
pub(crate) struct Strip<'a> {
    /// The strip's corner of the result and everything after it.
    pub(crate) out: &'a mut [f32],
    /// From one row of `out` to the next.
    pub(crate) row_stride: usize,
    /// Rows of the strip.
    pub(crate) rows: usize,
    /// Columns of the strip: at least one, at most a panel.
    pub(crate) columns: usize,
    /// Panels of the left operand, from the first row and the first depth of the strip on.
    pub(crate) lhs: &'a [f32],
    /// From one left panel to the next.
    pub(crate) lhs_panel_stride: usize,
    /// One panel of the right operand; exactly the depth of the strip.
    pub(crate) rhs: &'a [f32],
    /// Whether to add to `out` or overwrite it.
    pub(crate) accumulate: bool,
}

/// Multiplies `strip` with tiles of `ROWS` by at most `VECTORS` vectors.
#[inline(always)]
pub(super) fn multiply<V, P, const ROWS: usize, const VECTORS: usize>(
    isa: V::Isa,
    product: P,
    strip: Strip<'_>,
) where
    V: Vector,
    P: Product<V>,
{
    // The last panel of columns is often partly padding: a narrower tile does not compute it.
    match strip.columns.div_ceil(V::LANES) {
        1 => tiles::<V, P, ROWS, 1>(isa, product, strip, VECTORS * V::LANES),
        2 => tiles::<V, P, ROWS, 2>(isa, product, strip, VECTORS * V::LANES),
        _ => tiles::<V, P, ROWS, VECTORS>(isa, product, strip, VECTORS * V::LANES),
    }
}

/// All tiles of a strip, `VECTORS` wide, from panels of `panel_columns`.
#[inline(always)]
fn tiles<V, P, const ROWS: usize, const VECTORS: usize>(
    isa: V::Isa,
    product: P,
    strip: Strip<'_>,
    panel_columns: usize,
) where
    V: Vector,
    P: Product<V>,
{
    let depth = strip.rhs.len() / panel_columns;
    for (i, first_row) in (0..strip.rows).step_by(ROWS).enumerate() {
        let lhs = &strip.lhs[i * strip.lhs_panel_stride..][..depth * ROWS];
        let (lhs, _) = lhs.as_chunks::<ROWS>();
        let out = &mut strip.out[first_row * strip.row_stride..];
        let rows = ROWS.min(strip.rows - first_row);
        if rows == ROWS && strip.columns == VECTORS * V::LANES {
            for row in 0..ROWS {
                for j in 0..VECTORS {
                    let ahead = row * strip.row_stride + j * V::LANES;
                    prefetch(out, ahead * size_of::<f32>(), Cache::Level1);
                }
            }
            let sums = tile::<V, P, ROWS, VECTORS>(isa, product, lhs, strip.rhs, panel_columns);
            for (row, sums) in sums.into_iter().enumerate() {
                let out = &mut out[row * strip.row_stride..][..VECTORS * V::LANES];
                store_row(isa, sums, out, strip.accumulate);
            }
        } else {
            let sums = tile::<V, P, ROWS, VECTORS>(isa, product, lhs, strip.rhs, panel_columns);
            for (row, sums) in sums.into_iter().enumerate().take(rows) {
                let out = &mut out[row * strip.row_stride..][..strip.columns];
                store_partial_row(isa, sums, out, strip.accumulate);
            }
        }
    }
}

/// The sums of one tile over the whole depth of `lhs` and `rhs`.
#[inline(always)]
fn tile<V, P, const ROWS: usize, const VECTORS: usize>(
    isa: V::Isa,
    product: P,
    lhs: &[[f32; ROWS]],
    rhs: &[f32],
    panel_columns: usize,
) -> [[V; VECTORS]; ROWS]
where
    V: Vector,
    P: Product<V>,
{
    let mut sums = [[V::splat(isa, 0.0); VECTORS]; ROWS];
    for (lhs, rhs) in lhs.iter().zip(rhs.chunks_exact(panel_columns)) {
        let mut b = [V::splat(isa, 0.0); VECTORS];
        for (j, b) in b.iter_mut().enumerate() {
            *b = V::load(isa, &rhs[j * V::LANES..]);
        }
        for (sums, &a) in sums.iter_mut().zip(lhs) {
            let a = V::splat(isa, a);
            for (sum, &b) in sums.iter_mut().zip(&b) {
                *sum = product.accumulate(*sum, a, b);
            }
        }
    }
    sums
}

/// Writes a row of a full tile.
#[inline(always)]
fn store_row<V: Vector, const VECTORS: usize>(
    isa: V::Isa,
    sums: [V; VECTORS],
    out: &mut [f32],
    accumulate: bool,
) {
    for (sum, out) in sums.into_iter().zip(out.chunks_exact_mut(V::LANES)) {
        let sum = if accumulate {
            V::load(isa, out).add(sum)
        } else {
            sum
        };
        sum.store(out);
    }
}

/// Writes as many columns as `out` has: the tile passes through a scratch row, so nothing beyond `out` is touched.
#[inline(always)]
fn store_partial_row<V: Vector, const VECTORS: usize>(
    isa: V::Isa,
    sums: [V; VECTORS],
    out: &mut [f32],
    accumulate: bool,
) {
    let mut scratch = [0.0; MOST_COLUMNS];
    if accumulate {
        scratch[..out.len()].copy_from_slice(out);
    }
    let used = &mut scratch[..VECTORS * V::LANES];
    store_row(isa, sums, used, accumulate);
    out.copy_from_slice(&used[..out.len()]);
}

/// Columns of the widest tile of any level.
const MOST_COLUMNS: usize = 48;

/// The multiply-accumulates of `iterations` depths of a tile, from registers alone: the time they take is the least
/// any product can take.
#[inline(always)]
pub(super) fn peak<V, P, const ROWS: usize, const VECTORS: usize>(
    isa: V::Isa,
    product: P,
    iterations: u64,
) where
    V: Vector,
    P: Product<V>,
{
    // sum + a * sum is sum: it neither overflows nor decays, and no factor is the same twice for a compiler that
    // multiplies and adds apart to take out of the loop. As a pair of `bf16`, `a` is (0, 2^-30).
    let a = V::splat(isa, std::hint::black_box(1.0 / (1 << 30) as f32));
    let mut sums = [[V::splat(isa, std::hint::black_box(1.0)); VECTORS]; ROWS];
    for _ in 0..iterations {
        for sum in sums.as_flattened_mut() {
            *sum = product.accumulate(*sum, a, *sum);
        }
    }
    let mut out = [0.0; MOST_COLUMNS];
    for sums in sums {
        store_row(isa, sums, &mut out, true);
    }
    std::hint::black_box(out);
}
