//! The memory of one thread: windows onto arrays, scratch, and packed copies of what products read.
//!
//! An input window is not copied when its block changes. It remembers where the block lies and
//! which edges were masked; a product packs the block straight from the array into microkernel
//! panels, once, and keeps the panels until the block changes: that is the copy HBM to VMEM of a
//! TPU, skipped likewise when the block index repeats. Outputs and scratch are row-major tiles.

use std::sync::RwLock;

use half::bf16;
use tilecast_core::DType;

use crate::array::{ArrayMut, ArrayRef, Data, DataMut};
use crate::gemm;
use crate::simd::Values;

/// An array of a running program.
#[derive(Debug)]
pub(crate) enum Storage<'a> {
    /// Read only.
    Input(ArrayRef<'a>),
    /// Written by one launch, read by another; blocks are copied in and out under the lock.
    Shared(RwLock<ArrayMut<'a>>),
}

impl Storage<'_> {
    /// Runs `body` on the array.
    pub(crate) fn read<R>(&self, body: impl FnOnce(&ArrayRef<'_>) -> R) -> R {
        match self {
            Self::Input(array) => body(array),
            Self::Shared(lock) => {
                // A poisoned lock means that another thread panicked, which ends the run anyway.
                let array = lock.read().unwrap_or_else(|error| error.into_inner());
                body(&array.as_ref())
            }
        }
    }

    /// Runs `body` on the array, exclusively.
    ///
    /// # Panics
    /// If the array is an input: the program would be wrong.
    pub(crate) fn write<R>(&self, body: impl FnOnce(&mut ArrayMut<'_>) -> R) -> R {
        match self {
            Self::Input(_) => panic!("a program writes to one of its inputs"),
            Self::Shared(lock) => {
                body(&mut lock.write().unwrap_or_else(|error| error.into_inner()))
            }
        }
    }
}

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

/// Row-major elements of a tile.
#[derive(Clone, Debug)]
pub(crate) enum Elements {
    /// f32
    F32(Vec<f32>),
    /// bf16
    Bf16(Vec<bf16>),
    /// i32
    I32(Vec<i32>),
}

impl Elements {
    /// `len` elements that no kernel may read: NaN, or for integers the least value.
    pub(crate) fn poisoned(dtype: DType, len: usize) -> Self {
        match dtype {
            DType::F32 => Self::F32(vec![f32::NAN; len]),
            DType::Bf16 => Self::Bf16(vec![bf16::NAN; len]),
            DType::I32 => Self::I32(vec![i32::MIN; len]),
        }
    }

    /// Poisons them again.
    pub(crate) fn poison(&mut self) {
        match self {
            Self::F32(data) => data.fill(f32::NAN),
            Self::Bf16(data) => data.fill(bf16::NAN),
            Self::I32(data) => data.fill(i32::MIN),
        }
    }

    pub(crate) fn as_data(&self) -> Data<'_> {
        match self {
            Self::F32(data) => Data::F32(data),
            Self::Bf16(data) => Data::Bf16(data),
            Self::I32(data) => Data::I32(data),
        }
    }

    pub(crate) fn as_data_mut(&mut self) -> DataMut<'_> {
        match self {
            Self::F32(data) => DataMut::F32(data),
            Self::Bf16(data) => DataMut::Bf16(data),
            Self::I32(data) => DataMut::I32(data),
        }
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
}

impl InputTile<'_, '_> {
    /// Describes rows and columns `part` of the window as they lie in `array`.
    ///
    /// What is outside the array reads as NaN, or as the mask value once either edge is masked: the
    /// two edges share one fill value, so a forgotten mask shows wherever only one edge overhangs.
    pub(crate) fn layout(&self, array: &ArrayRef<'_>, part: &Part) -> gemm::Layout {
        let block = self.block.as_ref().expect("windows are set before a step");
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
        let start = array.geometry.offset(&block.start);
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
    pub(crate) columns: usize,
    pub(crate) output: Option<Output<'s, 'a>>,
}

/// Where an output window goes.
#[derive(Debug)]
pub(crate) struct Output<'s, 'a> {
    pub(crate) array: &'s Storage<'a>,
    pub(crate) block: Option<Block>,
}

impl LocalTile<'_, '_> {
    /// Copies the window to the block it stands for.
    pub(crate) fn write_back(&self) {
        if let Some(Output {
            array,
            block: Some(block),
        }) = &self.output
        {
            array.write(|array| store(array, block, self.elements.as_data(), self.columns));
        }
    }

    /// Describes a part of the tile.
    pub(crate) fn layout(&self, part: &Part) -> gemm::Layout {
        gemm::Layout {
            offset: part.row * self.columns + part.column,
            row_stride: self.columns,
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
            array.read(|array| load(array, block, elements, usize::MAX));
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
            array.write(|array| store(array, block, self.elements.as_data(), usize::MAX));
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

/// Copies the part of a block inside the array into a row-major tile of `width` columns.
pub(crate) fn load(array: &ArrayRef<'_>, block: &Block, to: DataMut<'_>, width: usize) {
    let start = array.geometry.offset(&block.start);
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
            1 => to.copy_from_slice(&from[..to.len()]),
            _ => (to.iter_mut().enumerate()).for_each(|(c, to)| *to = from[c * columns]),
        }
    }
}

/// Copies a row-major tile of `width` columns to the part of a block inside the array.
pub(crate) fn store(array: &mut ArrayMut<'_>, block: &Block, from: Data<'_>, width: usize) {
    let start = array.geometry.offset(&block.start);
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
            1 => to[..from.len()].copy_from_slice(from),
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
