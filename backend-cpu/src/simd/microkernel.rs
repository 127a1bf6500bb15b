//! The inner loops of the matrix product: one tile of the result kept in registers.
//!
//! A tile of `ROWS` by `VECTORS * LANES` results stays in registers while the depth goes by. At each step of the
//! depth one row of the packed right operand is loaded (`VECTORS` registers) and each of the `ROWS` packed left values
//! is broadcast against it: `ROWS * VECTORS` multiply-accumulates for `ROWS + VECTORS` loads, which is what keeps the
//! multipliers, and not the loads, the limit.
//!
//! The packed operands are panels of 32-bit words (see [`format`](super::format)). A word is one `f32`, or two
//! consecutive depths of `bf16`; the loops move words and only [`Product`] knows which.

use super::memory::{Cache, Line, prefetch};
use super::vector::Vector;

/// Depth of a slice, in 32-bit words. The sums of a tile pass through memory once per slice, and panels start anew,
/// which asks for deep ones; a slice of a right panel, at most 48 words wide, may take 192 KiB, because from L2 it is
/// read well below L2's rate. Measured on Zen 4 as a share of the peak, 1024 x 1024 x 192 in f32: 0.86 at 128, 0.93 at
/// 256 and 512, 0.97 at 1024.
pub(super) const SLICE_WORDS: usize = 1024;

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

/// A part of the product, of a slice of the depth.
pub(crate) struct Strip<'a> {
    /// The part's corner of the result and everything after it.
    pub(crate) out: &'a mut [f32],
    /// From one row of `out` to the next.
    pub(crate) row_stride: usize,
    /// Rows of the part.
    pub(crate) rows: usize,
    /// Columns of the part.
    pub(crate) columns: usize,
    /// The left operand from the first row of the part on.
    pub(crate) lhs: Slice<'a>,
    /// The right operand from the first column of the part on.
    pub(crate) rhs: Slice<'a>,
    /// Whether to add to `out` or overwrite it.
    pub(crate) accumulate: bool,
}

impl Strip<'_> {
    /// Panels of so many columns.
    #[inline(always)]
    pub(super) fn right_panels(&self, width: usize) -> usize {
        self.columns.div_ceil(width)
    }

    /// The part that has the columns of a right panel.
    #[inline(always)]
    pub(super) fn of_right_panel(&mut self, panel: usize, width: usize) -> Strip<'_> {
        let first_column = panel * width;
        Strip {
            out: &mut self.out[first_column..],
            columns: width.min(self.columns - first_column),
            rhs: self.rhs.starting_at(panel),
            ..*self
        }
    }
}

/// The depth of a strip, of the panels of an operand.
#[derive(Clone, Copy)]
pub(crate) struct Slice<'a> {
    /// The first panel's part of the strip, and everything after it.
    pub(crate) panels: &'a [f32],
    /// Values that each panel has in the strip.
    pub(crate) len: usize,
    /// From one panel to the next.
    pub(crate) panel_stride: usize,
    /// Operands whose sum this one is.
    pub(crate) parts: usize,
    /// From one of them to the next.
    pub(crate) part_stride: usize,
}

impl<'a> Slice<'a> {
    /// From so many panels after its first one on.
    #[inline(always)]
    pub(super) fn starting_at(self, panel: usize) -> Self {
        let panels = &self.panels[panel * self.panel_stride..];
        Self { panels, ..self }
    }

    /// The depth of a panel, of one of the operands whose sum it is.
    #[inline(always)]
    pub(super) fn part(&self, panel: usize, part: usize) -> &'a [f32] {
        let start = panel * self.panel_stride + part * self.part_stride;
        &self.panels[start..start + self.len]
    }
}

/// Multiplies `strip` with tiles of `ROWS` by at most `VECTORS` vectors.
#[inline(always)]
pub(super) fn multiply<V, P, const ROWS: usize, const VECTORS: usize>(
    isa: V::Isa,
    product: P,
    mut strip: Strip<'_>,
) where
    V: Vector,
    P: Product<V>,
{
    let width = VECTORS * V::LANES;
    for panel in 0..strip.right_panels(width) {
        let strip = strip.of_right_panel(panel, width);
        // The last panel of columns is often partly padding: a narrower tile does not compute it.
        match strip.columns.div_ceil(V::LANES) {
            1 => tiles::<V, P, ROWS, 1>(isa, product, strip, width),
            2 => tiles::<V, P, ROWS, 2>(isa, product, strip, width),
            _ => tiles::<V, P, ROWS, VECTORS>(isa, product, strip, width),
        }
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
    for (i, first_row) in (0..strip.rows).step_by(ROWS).enumerate() {
        let out = &mut strip.out[first_row * strip.row_stride..];
        let rows = ROWS.min(strip.rows - first_row);
        let is_whole = rows == ROWS && strip.columns == VECTORS * V::LANES;
        if is_whole {
            for row in 0..ROWS {
                for j in 0..VECTORS {
                    let ahead = row * strip.row_stride + j * V::LANES;
                    prefetch(out, ahead * size_of::<f32>(), Cache::Level1);
                }
            }
        }
        let mut sums = [[V::splat(isa, 0.0); VECTORS]; ROWS];
        // Small products first. Plain loops: a call between the products of two parts would pass all sums through
        // memory.
        for order in (0..strip.lhs.parts.max(strip.rhs.parts)).rev() {
            for left in 0..strip.lhs.parts.min(order + 1) {
                let right = order - left;
                if right >= strip.rhs.parts {
                    continue;
                }
                let (lhs, _) = strip.lhs.part(i, left).as_chunks::<ROWS>();
                let operands = Operands {
                    lhs,
                    next_lhs_bytes: strip.lhs.panel_stride * size_of::<f32>(),
                    rhs: strip.rhs.part(0, right),
                    rhs_columns: panel_columns,
                };
                add_product::<V, P, ROWS, VECTORS>(isa, product, &mut sums, operands);
            }
        }
        for (row, sums) in sums.into_iter().enumerate().take(rows) {
            let out = &mut out[row * strip.row_stride..];
            if is_whole {
                let out = &mut out[..VECTORS * V::LANES];
                store_row(isa, sums, out, strip.accumulate);
            } else {
                store_partial_row(isa, sums, &mut out[..strip.columns], strip.accumulate);
            }
        }
    }
}

/// What a tile is the product of: a left panel's words of each depth, and a right panel.
struct Operands<'a, const ROWS: usize> {
    lhs: &'a [[f32; ROWS]],
    /// From a word of the left panel to that of the one which the next tile reads.
    next_lhs_bytes: usize,
    rhs: &'a [f32],
    /// Words of the right panel at each depth.
    rhs_columns: usize,
}

/// Depths of a turn of the loop below. What counts turns takes places from multiply-adds: on a Xeon `linear_ce` in f32
/// is 4 to 8 % faster with four than with one (and slower again with eight).
const TURN: usize = 4;

/// Adds the products of one tile over the whole depth of its operands.
#[inline(always)]
fn add_product<V, P, const ROWS: usize, const VECTORS: usize>(
    isa: V::Isa,
    product: P,
    sums: &mut [[V; VECTORS]; ROWS],
    operands: Operands<'_, ROWS>,
) where
    V: Vector,
    P: Product<V>,
{
    let (turns, rest) = operands.lhs.as_chunks::<TURN>();
    let columns = operands.rhs_columns;
    let (of_turns, of_rest) = operands.rhs.split_at(turns.len() * TURN * columns);
    for (lhs, rhs) in turns.iter().zip(of_turns.chunks_exact(TURN * columns)) {
        // The right panel stays and is read again by every tile. Of left panels each tile has its own, out of L2 or L3:
        // on Zen 4 asking for the next one's words made products of 1024 x 1024 x 192 faster by 3 %.
        for line in (0..size_of_val(lhs)).step_by(Line::BYTES) {
            prefetch(lhs, operands.next_lhs_bytes + line, Cache::Level1);
        }
        for (lhs, rhs) in lhs.iter().zip(rhs.chunks_exact(columns)) {
            add_depth(isa, product, sums, lhs, rhs);
        }
    }
    for (lhs, rhs) in rest.iter().zip(of_rest.chunks_exact(columns)) {
        add_depth(isa, product, sums, lhs, rhs);
    }
}

/// Adds the products of one depth.
#[inline(always)]
fn add_depth<V, P, const ROWS: usize, const VECTORS: usize>(
    isa: V::Isa,
    product: P,
    sums: &mut [[V; VECTORS]; ROWS],
    lhs: &[f32; ROWS],
    rhs: &[f32],
) where
    V: Vector,
    P: Product<V>,
{
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
