//! The matrix product, `out = lhs · rhs` or `out += lhs · rhs`, on packed operands.
//!
//! A product of large matrices is limited by arithmetic only if its operands are read in the order, and from the
//! cache level, that the multipliers need. Two steps see to that:
//!
//! 1. **Packing** ([`PackedLhs`], [`PackedRhs`]) copies an operand once into panels: a few rows of the left matrix, or
//!    columns of the right one, that lie in memory exactly in the order the innermost loop reads them. Any strides, a
//!    transpose and ragged edges are dealt with here, and nowhere else. What is packed can be multiplied many times.
//! 2. **[`matmul`]** walks the panels so that each slice is read from as near as possible:
//!
//! ```text
//! for each slice of the depth
//!   for each block of rows                       its slices of left panels stay in L2
//!     for each right panel                       its slice stays in L2, mostly L1 where that is large
//!       for each left panel in the block         streams through L1
//!         tile += left panel · right panel       sums stay in registers
//! ```
//!
//! Sums are `f32`. [`Arithmetic`] says what the panels hold: `f32`, or pairs of `bf16` where the machine multiplies
//! such pairs fast enough. An `f32` operand is the sum of three `bf16` ones then, and the product that of their
//! products.

use thiserror::Error;

use crate::cache;
pub use crate::simd::{Arithmetic, Values};
use crate::simd::{Extents, Line, Pack, PanelFormat, Simd, Slice, Strip, untouched};

/// Why an operand or a product was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GemmError {
    /// A matrix reaches beyond its values.
    #[error("a matrix needs {needed} values from the start of its slice, which has {available}")]
    OutOfBounds {
        /// Index after the last element; `usize::MAX` if it does not fit `usize`.
        needed: usize,
        /// Length of the slice.
        available: usize,
    },
    /// More elements are said to be stored than the matrix has.
    #[error("{valid_rows} x {valid_columns} stored elements exceed the {rows} x {columns} matrix")]
    ValidBeyondExtent {
        /// Stored rows.
        valid_rows: usize,
        /// Stored columns.
        valid_columns: usize,
        /// Rows.
        rows: usize,
        /// Columns.
        columns: usize,
    },
    /// Rows of the result overlap.
    #[error("rows of {columns} columns overlap at a stride of {row_stride}")]
    OverlappingRows {
        /// From one row to the next.
        row_stride: usize,
        /// Columns of a row.
        columns: usize,
    },
    /// The operand's type or the level cannot take part in this arithmetic.
    #[error(
        "{arithmetic:?} arithmetic takes bf16 operands, or any if split, on a level that multiplies bf16, not {dtype} on {level}"
    )]
    UnsupportedArithmetic {
        /// The arithmetic asked for.
        arithmetic: Arithmetic,
        /// Type of the operand's values.
        dtype: &'static str,
        /// Level asked to pack.
        level: crate::simd::Level,
    },
    /// The operands were packed for different levels or arithmetics than the product's.
    #[error("the operands are packed for {lhs} and {rhs}, the product runs on {level}")]
    PackedDifferently {
        /// Level and arithmetic of the left operand.
        lhs: String,
        /// Level and arithmetic of the right operand.
        rhs: String,
        /// Level of the product.
        level: crate::simd::Level,
    },
    /// The extents of operands and result do not fit each other.
    #[error(
        "a {m} x {n} result of a {lhs_rows} x {lhs_depth} by a {rhs_depth} x {rhs_columns} matrix"
    )]
    ShapeMismatch {
        /// Rows of the result.
        m: usize,
        /// Columns of the result.
        n: usize,
        /// Rows of the left operand.
        lhs_rows: usize,
        /// Columns of the left operand.
        lhs_depth: usize,
        /// Rows of the right operand.
        rhs_depth: usize,
        /// Columns of the right operand.
        rhs_columns: usize,
    },
}

/// Where the elements of a matrix lie in a slice, and what stands in for those that are not stored.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Layout {
    /// Index of element (0, 0).
    pub offset: usize,
    /// Logical rows.
    pub rows: usize,
    /// Logical columns.
    pub columns: usize,
    /// From one row to the next.
    pub row_stride: usize,
    /// From one column to the next.
    pub column_stride: usize,
    /// Rows that are stored, from the first on.
    pub valid_rows: usize,
    /// Columns that are stored, from the first on.
    pub valid_columns: usize,
    /// Value of logical elements that are not stored: NaN unless the kernel masked the edge.
    pub fill: f32,
}

impl Layout {
    /// A matrix stored row after row without gaps.
    pub fn row_major(rows: usize, columns: usize) -> Self {
        Self {
            offset: 0,
            rows,
            columns,
            row_stride: columns,
            column_stride: 1,
            valid_rows: rows,
            valid_columns: columns,
            fill: f32::NAN,
        }
    }
}

/// A matrix to pack.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    values: Values<'a>,
    layout: Layout,
}

impl<'a> Source<'a> {
    /// The matrix that `layout` describes in `values`.
    ///
    /// # Errors
    ///
    /// If the stored part exceeds the logical extents, or reaches beyond `values`.
    pub fn new(values: Values<'a>, layout: Layout) -> Result<Self, GemmError> {
        let l = &layout;
        if l.valid_rows > l.rows || l.valid_columns > l.columns {
            return Err(GemmError::ValidBeyondExtent {
                valid_rows: l.valid_rows,
                valid_columns: l.valid_columns,
                rows: l.rows,
                columns: l.columns,
            });
        }
        check_bounds(
            values.len(),
            l.offset,
            (l.valid_rows, l.row_stride),
            (l.valid_columns, l.column_stride),
        )?;
        Ok(Self { values, layout })
    }

    /// The extents of this matrix or its transpose, with rows as lanes if `rows_are_lanes`.
    fn extents(&self, rows_are_lanes: bool) -> Extents {
        let l = &self.layout;
        let rows = (l.rows, l.row_stride, l.valid_rows);
        let columns = (l.columns, l.column_stride, l.valid_columns);
        let (lane, depth) = if rows_are_lanes {
            (rows, columns)
        } else {
            (columns, rows)
        };
        Extents {
            offset: l.offset,
            lanes: lane.0,
            depth: depth.0,
            lane_stride: lane.1,
            depth_stride: depth.1,
            valid_lanes: lane.2,
            valid_depth: depth.2,
            fill: l.fill,
        }
    }
}

/// The left operand, packed.
#[derive(Debug, Clone, Default)]
pub struct PackedLhs(Panels);

impl PackedLhs {
    /// An operand of no rows; its buffer grows when it is packed and is reused from then on.
    pub fn new() -> Self {
        Self::default()
    }

    /// Packs `source`, or its transpose if `transposed`.
    ///
    /// # Errors
    ///
    /// If the level has no products in `arithmetic`, or it is [`Arithmetic::Bf16`] and the values are `f32`.
    pub fn pack(
        &mut self,
        simd: Simd,
        source: &Source<'_>,
        transposed: bool,
        arithmetic: Arithmetic,
    ) -> Result<(), GemmError> {
        let [format, _] = simd.panel_formats(arithmetic);
        self.0.pack(simd, source, !transposed, format)
    }

    /// Rows and columns of the operand.
    pub fn shape(&self) -> (usize, usize) {
        (self.0.lanes, self.0.depth)
    }
}

/// The right operand, packed.
#[derive(Debug, Clone, Default)]
pub struct PackedRhs(Panels);

impl PackedRhs {
    /// An operand of no columns; its buffer grows when it is packed and is reused from then on.
    pub fn new() -> Self {
        Self::default()
    }

    /// Packs `source`, or its transpose if `transposed`.
    ///
    /// # Errors
    ///
    /// If the level has no products in `arithmetic`, or it is [`Arithmetic::Bf16`] and the values are `f32`.
    pub fn pack(
        &mut self,
        simd: Simd,
        source: &Source<'_>,
        transposed: bool,
        arithmetic: Arithmetic,
    ) -> Result<(), GemmError> {
        let [_, format] = simd.panel_formats(arithmetic);
        self.0.pack(simd, source, transposed, format)
    }

    /// Rows and columns of the operand.
    pub fn shape(&self) -> (usize, usize) {
        (self.0.depth, self.0.lanes)
    }
}

/// A matrix that receives a product.
#[derive(Debug)]
pub struct Out<'a> {
    /// Element (r, c) is at `r * row_stride + c`.
    pub values: &'a mut [f32],
    /// From one row to the next; at least `columns`.
    pub row_stride: usize,
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub columns: usize,
}

/// `out = lhs · rhs`, or `out += lhs · rhs` if `accumulate`. Touches nothing of `out` beyond its rows and columns.
///
/// # Errors
///
/// If the operands were not packed for `simd` in the same arithmetic, or the extents do not fit each other or `out`.
pub fn matmul(
    simd: Simd,
    out: Out<'_>,
    lhs: &PackedLhs,
    rhs: &PackedRhs,
    accumulate: bool,
) -> Result<(), GemmError> {
    let (lhs, rhs) = (&lhs.0, &rhs.0);
    check_product(simd, &out, lhs, rhs)?;
    let Out {
        values,
        row_stride,
        rows,
        columns,
    } = out;
    if columns == 0 {
        return Ok(());
    }
    if lhs.depth == 0 && !accumulate {
        for row in 0..rows {
            values[row * row_stride..][..columns].fill(0.0);
        }
    }
    let depth_words = lhs.depth_words();
    let tile_rows = lhs.format.width;
    let slice_words = lhs.format.slice_words(rhs.parts);
    for first_word in (0..depth_words).step_by(slice_words) {
        let words = slice_words.min(depth_words - first_word);
        let tiles = lhs_block_words() / (lhs.parts * words) / tile_rows;
        let block_rows = tiles.max(1) * tile_rows;
        for first_row in (0..rows).step_by(block_rows) {
            simd.multiply(
                lhs.format.arithmetic,
                Strip {
                    out: &mut values[first_row * row_stride..],
                    row_stride,
                    rows: block_rows.min(rows - first_row),
                    columns,
                    lhs: lhs.slice(first_row, first_word, words),
                    rhs: rhs.slice(0, first_word, words),
                    accumulate: accumulate || first_word > 0,
                },
            );
        }
    }
    Ok(())
}

/// Words of a block of left panels: half of L2, and 512 KiB at most.
fn lhs_block_words() -> usize {
    (cache::level_2_bytes() / 2).min(512 << 10) / size_of::<u32>()
}

/// A packed operand: panels of lanes (rows of the left one, columns of the right one), depth-major.
#[derive(Debug, Clone)]
struct Panels {
    lines: Vec<Line>,
    lanes: usize,
    depth: usize,
    /// Operands whose sum this one is.
    parts: usize,
    format: PanelFormat,
    /// What it was packed for; nothing yet if `None`.
    simd: Option<Simd>,
}

impl Default for Panels {
    fn default() -> Self {
        Self {
            lines: Vec::new(),
            lanes: 0,
            depth: 0,
            parts: 1,
            format: PanelFormat {
                arithmetic: Arithmetic::F32,
                width: 1,
                run: 1,
                depth_multiple: 1,
                most_slice_words: 1,
            },
            simd: None,
        }
    }
}

impl Panels {
    fn pack(
        &mut self,
        simd: Simd,
        source: &Source<'_>,
        rows_are_lanes: bool,
        format: PanelFormat,
    ) -> Result<(), GemmError> {
        let arithmetic = format.arithmetic;
        let is_bf16 = matches!(source.values, Values::Bf16(_));
        if !simd.supports(arithmetic) || arithmetic == Arithmetic::Bf16 && !is_bf16 {
            return Err(GemmError::UnsupportedArithmetic {
                arithmetic,
                dtype: if is_bf16 { "bf16" } else { "f32" },
                level: simd.level(),
            });
        }
        let extents = source.extents(rows_are_lanes);
        self.simd = Some(simd);
        self.format = format;
        self.lanes = extents.lanes;
        self.depth = extents.depth;
        self.parts = arithmetic.parts(is_bf16);
        let words = self.parts * self.part_words();
        // Every word is overwritten.
        let lines = (words * size_of::<u32>()).div_ceil(Line::BYTES);
        if self.lines.len() < lines {
            self.lines = untouched(lines);
        }
        simd.run(Pack {
            values: source.values,
            extents,
            format,
            panels: &mut bytemuck::cast_slice_mut(&mut self.lines)[..words],
        });
        Ok(())
    }

    fn depth_words(&self) -> usize {
        self.format.depth_words(self.depth)
    }

    /// Words of a part.
    fn part_words(&self) -> usize {
        self.lanes.next_multiple_of(self.format.width) * self.depth_words()
    }

    /// The panels from `lane` on, and of their depth so many words.
    fn slice(&self, lane: usize, first_word: usize, words: usize) -> Slice<'_> {
        let panels: &[f32] = bytemuck::cast_slice(&self.lines);
        let width = self.format.width;
        Slice {
            panels: &panels[lane * self.depth_words() + first_word * width..],
            len: words * width,
            panel_stride: width * self.depth_words(),
            parts: self.parts,
            part_stride: self.part_words(),
        }
    }

    fn describe(&self) -> String {
        match self.simd {
            Some(simd) => format!("{simd} in {:?}", self.format.arithmetic),
            None => "nothing".into(),
        }
    }
}

/// Checks that a matrix of (count, stride) rows and columns lies in a slice of `available` values.
fn check_bounds(
    available: usize,
    offset: usize,
    rows: (usize, usize),
    columns: (usize, usize),
) -> Result<(), GemmError> {
    if rows.0 == 0 || columns.0 == 0 {
        return Ok(());
    }
    let end = || {
        let row = (rows.0 - 1).checked_mul(rows.1)?;
        let column = (columns.0 - 1).checked_mul(columns.1)?;
        offset.checked_add(row)?.checked_add(column)?.checked_add(1)
    };
    match end() {
        Some(needed) if needed <= available => Ok(()),
        needed => Err(GemmError::OutOfBounds {
            needed: needed.unwrap_or(usize::MAX),
            available,
        }),
    }
}

fn check_product(simd: Simd, out: &Out<'_>, lhs: &Panels, rhs: &Panels) -> Result<(), GemmError> {
    if [lhs.simd, rhs.simd] != [Some(simd); 2] || lhs.format.arithmetic != rhs.format.arithmetic {
        return Err(GemmError::PackedDifferently {
            lhs: lhs.describe(),
            rhs: rhs.describe(),
            level: simd.level(),
        });
    }
    if (out.rows, out.columns, lhs.depth) != (lhs.lanes, rhs.lanes, rhs.depth) {
        return Err(GemmError::ShapeMismatch {
            m: out.rows,
            n: out.columns,
            lhs_rows: lhs.lanes,
            lhs_depth: lhs.depth,
            rhs_depth: rhs.depth,
            rhs_columns: rhs.lanes,
        });
    }
    if out.rows > 1 && out.row_stride < out.columns {
        return Err(GemmError::OverlappingRows {
            row_stride: out.row_stride,
            columns: out.columns,
        });
    }
    check_bounds(
        out.values.len(),
        0,
        (out.rows, out.row_stride),
        (out.columns, 1),
    )
}

#[cfg(test)]
mod tests;
