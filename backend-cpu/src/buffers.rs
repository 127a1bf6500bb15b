//! The memory of one thread: windows onto arrays, scratch, and packed copies of what products read.
//!
//! An input window is not copied when its block changes. It remembers where the block lies and
//! which edges were masked; a product packs the block straight from the array into microkernel
//! panels, once, and keeps the panels until the block changes: that is the copy HBM to VMEM of a
//! TPU, skipped likewise when the block index repeats. Outputs and scratch are row-major tiles.

use std::cell::Cell;
use std::ops::Range;

use crate::array::{ArrayMut, ArrayRef, Data, DataMut};
use crate::elements::Elements;
use crate::gemm;
use crate::simd::{Destination, Strided, Values, ValuesMut, prefetch_later_row};
use crate::storage::Storage;

/// A block of an array: where it starts, and how much of it lies inside.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Block {
    /// Index of its first element.
    pub(crate) start: Vec<usize>,
    /// Extent inside the array along the last two dimensions (or the only one).
    pub(crate) inside: [usize; 2],
}

impl Block {
    /// The block with the given indices; `None` if it lies outside the array.
    pub(crate) fn new(dims: &[usize], block: &[usize], index: &[i64]) -> Option<Self> {
        let start = dims
            .iter()
            .zip(block)
            .zip(index)
            .map(|((&dim, &block), &index)| {
                let start = usize::try_from(index).ok()?.checked_mul(block)?;
                (start < dim).then_some(start)
            })
            .collect::<Option<Vec<_>>>()?;
        let inside = |from_last: usize| match dims.len().checked_sub(1 + from_last) {
            Some(i) => block[i].min(dims[i] - start[i]),
            None => 1,
        };
        let inside = [inside(1), inside(0)];
        Some(Self { start, inside })
    }
}

/// Edges of an input window that the kernel masked: from here on, this value.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Masks {
    pub(crate) rows: Option<(usize, f32)>,
    pub(crate) columns: Option<(usize, f32)>,
}

/// A two-dimensional input window.
#[derive(Debug)]
pub(crate) struct InputTile<'s, 'a> {
    pub(crate) array: &'s Storage<'a>,
    pub(crate) block: Option<Block>,
    pub(crate) masks: Masks,
    /// The row up to which an output window has overwritten what this one shows.
    pub(crate) overwritten: Cell<usize>,
}

impl InputTile<'_, '_> {
    /// Runs `body` on the array, and the offset at which the block starts there.
    pub(crate) fn read<R>(&self, body: impl FnOnce(&ArrayRef<'_>, usize) -> R) -> R {
        let block = self.block.as_ref().expect("windows are set before a step");
        self.array.read(block, body)
    }

    /// Describes rows and columns `part` of the window as they lie in `array`, where it starts at `start`.
    ///
    /// What is outside the array reads as NaN, or as the mask value once either edge is masked: the
    /// two edges share one fill value, so a forgotten mask shows wherever only one edge overhangs.
    ///
    /// # Panics
    /// If the kernel has overwritten rows of it.
    pub(crate) fn layout(&self, array: &ArrayRef<'_>, start: usize, part: &Part) -> gemm::Layout {
        let block = self.block.as_ref().expect("windows are set before a step");
        let overwritten = self.overwritten.get();
        assert!(
            part.row >= overwritten,
            "a kernel reads row {} of a window that it has updated up to row {overwritten}",
            part.row
        );
        let [inside_rows, inside_columns] = block.inside;
        let limit = |inside: usize, mask: Option<(usize, f32)>| match mask {
            Some((valid, _)) => inside.min(valid),
            None => inside,
        };
        let rows = limit(inside_rows, self.masks.rows);
        let columns = limit(inside_columns, self.masks.columns);
        let strides = &array.geometry.strides;
        let [row_stride, column_stride] = [strides[strides.len() - 2], strides[strides.len() - 1]];
        let valid_rows = rows.saturating_sub(part.row).min(part.rows);
        let valid_columns = columns.saturating_sub(part.column).min(part.columns);
        gemm::Layout {
            offset: start + part.row * row_stride + part.column * column_stride,
            rows: part.rows,
            columns: part.columns,
            row_stride,
            column_stride,
            valid_rows,
            valid_columns,
            fill: (self.masks.rows.or(self.masks.columns)).map_or(f32::NAN, |(_, value)| value),
        }
    }
}

/// A rectangle of a tile, with its start known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    pub(crate) row: usize,
    pub(crate) rows: usize,
    pub(crate) column: usize,
    pub(crate) columns: usize,
}

/// A row-major tile of this thread: scratch, or an output window.
#[derive(Debug)]
pub(crate) struct LocalTile<'s, 'a> {
    pub(crate) elements: Elements,
    /// From one row to the next.
    pub(crate) row_stride: usize,
    /// Whether all elements are 0, though that is not written yet. Sums start so, and a product that is added to 0 can
    /// overwrite what is there.
    pub(crate) is_zero: bool,
    pub(crate) output: Option<Output<'s, 'a>>,
}

/// Where an output window goes.
///
/// A kernel that writes its block row by row, and only once, need not write it twice: as long as nothing else is asked
/// of the window, rows go straight to the array. The first other access makes a tile of it.
#[derive(Debug)]
pub(crate) struct Output<'s, 'a> {
    pub(crate) array: &'s Storage<'a>,
    pub(crate) block: Option<Block>,
    /// Rows of the tile.
    pub(crate) rows: usize,
    pub(crate) place: Place,
    /// Whether each block starts as NaN, and not as what was left by the last.
    pub(crate) poison: bool,
}

/// Where it is that a block has been written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    Nowhere,
    Tile,
    Array,
}

impl LocalTile<'_, '_> {
    /// Makes sure that the tile is in `elements`.
    pub(crate) fn settle(&mut self) {
        if std::mem::take(&mut self.is_zero) {
            self.elements.clear(0..self.elements.len());
        }
        let Some(output) = &mut self.output else {
            return;
        };
        let place = std::mem::replace(&mut output.place, Place::Tile);
        if place == Place::Tile {
            return;
        }
        if self.elements.as_data().is_empty() {
            let len = output.rows * self.row_stride;
            self.elements = Elements::poisoned(output.array.dtype(), len);
        } else if output.poison {
            self.elements.poison();
        }
        if let (Place::Array, Some(block)) = (place, &output.block) {
            let (to, row_stride) = (self.elements.as_data_mut(), self.row_stride);
            (output.array).read(block, |array, start| {
                load(array, start, block, to, row_stride)
            });
        }
    }

    /// Makes sure that the tile is in `elements`, but for whole rows that the caller overwrites if all of it is 0: says
    /// whether it is.
    pub(crate) fn settle_around(&mut self, rows: Range<usize>) -> bool {
        let is_zero = std::mem::take(&mut self.is_zero);
        if is_zero {
            let [start, end] = [rows.start, rows.end].map(|row| row * self.row_stride);
            self.elements.clear(0..start);
            self.elements.clear(end..self.elements.len());
        }
        self.settle();
        is_zero
    }

    /// Whether rows of the window are written where they belong, and none is elsewhere.
    pub(crate) fn is_in_array(&self) -> bool {
        let place = |output: &Output<'_, '_>| {
            output.place != Place::Tile && output.array.rows_in_place().is_some()
        };
        self.output.as_ref().is_some_and(place)
    }

    /// Takes for written what the array has.
    pub(crate) fn adopt(&mut self) {
        let output = self.output.as_mut().expect("an output window");
        output.place = Place::Array;
    }

    /// How many rows and columns of a part there are: of a window that is written where it belongs, those inside the
    /// array.
    pub(crate) fn inside(&self, part: &Part) -> [usize; 2] {
        let block = match &self.output {
            Some(output) if self.is_in_array() => output.block.as_ref(),
            _ => return [part.rows, part.columns],
        };
        let [rows, columns] = block.expect("windows are set before a step").inside;
        [
            rows.saturating_sub(part.row).min(part.rows),
            columns.saturating_sub(part.column).min(part.columns),
        ]
    }

    /// Runs `body` on a part of the window, if it is not beyond the array, whose rows lie there or in the tile. Says
    /// whether it was on those of the array.
    pub(crate) fn write_rows(
        &mut self,
        part: &Part,
        body: impl FnOnce(Strided<ValuesMut<'_>>, Destination),
    ) -> bool {
        if let Some(output) = &self.output
            && output.place != Place::Tile
            && let Some(block) = &output.block
            && let Some(destination) = output.array.rows_in_place()
        {
            let [rows, columns] = block.inside;
            if part.row + part.rows > rows || part.column >= columns {
                // Beyond the array.
                return false;
            }
            if part.column + part.columns <= columns {
                if output.place == Place::Nowhere && output.poison && !output.array.is_updated() {
                    self.settle();
                    self.write_back();
                }
                self.write_rows_in_array(part, body, destination);
                return true;
            }
        }
        self.settle();
        let (to, stride) = (self.elements.as_data_mut(), self.row_stride);
        body(
            rows_mut(to, part.row * stride + part.column, stride, part),
            Destination::Caches,
        );
        false
    }

    fn write_rows_in_array(
        &mut self,
        part: &Part,
        body: impl FnOnce(Strided<ValuesMut<'_>>, Destination),
        destination: Destination,
    ) {
        let output = self.output.as_mut().expect("an output window");
        output.place = Place::Array;
        let block = output
            .block
            .as_ref()
            .expect("windows are set before a step");
        output.array.write(block, |array, start| {
            let [stride, _] = minor_strides(&array.geometry.strides);
            let start = start + part.row * stride + part.column;
            let data = array.data.reborrow();
            body(rows_mut(data, start, stride, part), destination);
        });
    }

    /// Copies the window to the block it stands for, unless it is there already.
    pub(crate) fn write_back(&mut self) {
        let Some(output) = &self.output else {
            return;
        };
        if output.place == Place::Nowhere && output.poison {
            self.settle();
        }
        let Some(output) = &mut self.output else {
            return;
        };
        let place = std::mem::replace(&mut output.place, Place::Nowhere);
        if let (Place::Tile, Some(block)) = (place, &output.block) {
            let (from, row_stride) = (self.elements.as_data(), self.row_stride);
            (output.array).write(block, |array, start| {
                store(array, start, block, from, row_stride);
            });
        }
    }

    /// Describes a part of the tile.
    pub(crate) fn layout(&self, part: &Part) -> gemm::Layout {
        gemm::Layout {
            offset: part.row * self.row_stride + part.column,
            row_stride: self.row_stride,
            ..gemm::Layout::row_major(part.rows, part.columns)
        }
    }
}

/// A vector of this thread: scratch, or a window that is copied whole.
#[derive(Debug)]
pub(crate) struct Vector<'s, 'a> {
    pub(crate) elements: Elements,
    pub(crate) window: Option<VectorWindow<'s, 'a>>,
}

/// The array behind a vector.
#[derive(Debug)]
pub(crate) struct VectorWindow<'s, 'a> {
    pub(crate) array: &'s Storage<'a>,
    pub(crate) block: Option<Block>,
    pub(crate) output: bool,
}

impl Vector<'_, '_> {
    /// Copies the block in, or poisons what will be written.
    pub(crate) fn enter(&mut self) {
        self.elements.poison();
        if let Some(VectorWindow {
            array,
            block: Some(block),
            output: false,
        }) = &self.window
        {
            let elements = self.elements.as_data_mut();
            array.read(block, |array, start| {
                load(array, start, block, elements, usize::MAX);
            });
        }
    }

    /// Copies an output to its block.
    pub(crate) fn write_back(&self) {
        if let Some(VectorWindow {
            array,
            block: Some(block),
            output: true,
        }) = &self.window
        {
            let elements = self.elements.as_data();
            array.write(block, |array, start| {
                store(array, start, block, elements, usize::MAX);
            });
        }
    }
}

/// Strides of the last two dimensions; a vector is one row.
fn minor_strides(strides: &[usize]) -> [usize; 2] {
    match *strides {
        [.., rows, columns] => [rows, columns],
        [columns] => [0, columns],
        [] => [0, 0],
    }
}

/// Copies the part of a block inside the array, where it starts at `start`, into a tile whose rows are `width` apart.
pub(crate) fn load(
    array: &ArrayRef<'_>,
    start: usize,
    block: &Block,
    to: DataMut<'_>,
    width: usize,
) {
    let strides = minor_strides(&array.geometry.strides);
    match (array.data, to) {
        (Data::F32(from), DataMut::F32(to)) => load_rows(&from[start..], strides, block, to, width),
        (Data::Bf16(from), DataMut::Bf16(to)) => {
            load_rows(&from[start..], strides, block, to, width);
        }
        (Data::I32(from), DataMut::I32(to)) => load_rows(&from[start..], strides, block, to, width),
        (from, to) => panic!("copy from {} to {}", from.dtype(), to.as_ref().dtype()),
    }
}

fn load_rows<T: Copy>(
    from: &[T],
    [rows, columns]: [usize; 2],
    block: &Block,
    to: &mut [T],
    width: usize,
) {
    for r in 0..block.inside[0] {
        let to = &mut to[r.saturating_mul(width)..][..block.inside[1]];
        let from = &from[r * rows..];
        match columns {
            1 => {
                prefetch_later_row(from, 0, rows, to.len());
                to.copy_from_slice(&from[..to.len()]);
            }
            _ => (to.iter_mut().enumerate()).for_each(|(c, to)| *to = from[c * columns]),
        }
    }
}

/// Copies a tile whose rows are `width` apart to the part of a block inside the array, where it starts at `start`.
pub(crate) fn store(
    array: &mut ArrayMut<'_>,
    start: usize,
    block: &Block,
    from: Data<'_>,
    width: usize,
) {
    let strides = minor_strides(&array.geometry.strides);
    match (&mut array.data, from) {
        (DataMut::F32(to), Data::F32(from)) => {
            store_rows(&mut to[start..], strides, block, from, width);
        }
        (DataMut::Bf16(to), Data::Bf16(from)) => {
            store_rows(&mut to[start..], strides, block, from, width);
        }
        (DataMut::I32(to), Data::I32(from)) => {
            store_rows(&mut to[start..], strides, block, from, width);
        }
        (to, from) => panic!("copy from {} to {}", from.dtype(), to.as_ref().dtype()),
    }
}

fn store_rows<T: Copy>(
    to: &mut [T],
    [rows, columns]: [usize; 2],
    block: &Block,
    from: &[T],
    width: usize,
) {
    for r in 0..block.inside[0] {
        let from = &from[r.saturating_mul(width)..][..block.inside[1]];
        let to = &mut to[r * rows..];
        match columns {
            1 => {
                prefetch_later_row(to, 0, rows, from.len());
                to[..from.len()].copy_from_slice(from);
            }
            _ => (from.iter().enumerate()).for_each(|(c, &from)| to[c * columns] = from),
        }
    }
}

/// Real elements as operands of a product.
pub(crate) fn values(data: Data<'_>) -> Values<'_> {
    match data {
        Data::F32(data) => Values::F32(data),
        Data::Bf16(data) => Values::Bf16(data),
        Data::I32(_) => panic!("integers are not operands of products"),
    }
}

/// The real elements of a part that starts at `start`, to write.
fn rows_mut<'a>(
    data: DataMut<'a>,
    start: usize,
    stride: usize,
    part: &Part,
) -> Strided<ValuesMut<'a>> {
    let range = start..start + part.rows.saturating_sub(1) * stride + part.columns;
    let values = match data {
        DataMut::F32(data) => ValuesMut::F32(&mut data[range]),
        DataMut::Bf16(data) => ValuesMut::Bf16(&mut data[range]),
        DataMut::I32(_) => panic!("integers are not real elements"),
    };
    Strided { values, stride }
}
