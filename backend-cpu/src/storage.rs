//! The arrays of a running program, and how the threads of a launch share them.
//!
//! Between launches an array is borrowed whole. During a launch, what is only read is shared as it is, and what is
//! written is cut into bands: the rows of one row of blocks, behind a lock of their own. Blocks are disjoint, but only
//! the spec's check knows; a lock that no other thread wants costs nothing measurable, and keeps unsafe code out.
//! Threads wait for each other only where they write to the same rows.

use std::sync::RwLock;

use tilecast_core::DType;
use tilecast_core::program::{ArrayId, Role};
use tilecast_core::spec::{Access, Buffer, KernelSpec};
use tilecast_core::view::BufferId;

use crate::array::{ArrayMut, ArrayRef, Geometry};
use crate::buffers::Block;
use crate::simd::Destination;

/// An array of a running program.
#[derive(Debug)]
pub(crate) enum Bound<'a> {
    /// Passed in.
    Input(ArrayRef<'a>),
    /// Passed out or temporary.
    Output(ArrayMut<'a>, Role),
}

impl<'a> Bound<'a> {
    /// The array, to read.
    pub(crate) fn as_ref(&self) -> ArrayRef<'_> {
        match self {
            Self::Input(array) => array.clone(),
            Self::Output(array, _) => array.as_ref(),
        }
    }

    /// The array, to write.
    ///
    /// # Panics
    /// If it is an input: the program would be wrong.
    pub(crate) fn as_mut(&mut self) -> &mut ArrayMut<'a> {
        match self {
            Self::Input(_) => panic!("a program writes to one of its inputs"),
            Self::Output(array, _) => array,
        }
    }

    /// The array as the threads of a launch see it that uses it in these ways; `updated` if these are a window and the
    /// one that it updates in place.
    fn share(&mut self, uses: &[&Buffer], updated: bool) -> Storage<'_> {
        let (array, role) = match self {
            Self::Input(array) => return Storage::Constant(array.clone()),
            Self::Output(array, role) => (array, *role),
        };
        let only_read = uses.iter().all(|buffer| {
            let access = Access::Input;
            matches!(buffer, Buffer::Window { access: found, .. } if *found == access)
        });
        if only_read {
            return Storage::Read(array.as_ref());
        }
        let geometry = array.geometry.clone();
        let (dtype, bytes) = (array.as_ref().dtype(), array.as_ref().bytes());
        let whole = geometry.dims.first().copied().unwrap_or(1);
        let is_window = |buffer: &&Buffer| matches!(buffer, Buffer::Window { .. });
        let (windows, copies): (Vec<_>, Vec<_>) = uses.iter().copied().partition(is_window);
        let common_height = |uses: &[&Buffer]| {
            let mut heights = uses.iter().map(|buffer| {
                let operand = buffer.operand();
                operand.map_or(whole, |operand| operand.block.first().copied().unwrap_or(1))
            });
            let first = heights.next().unwrap_or(whole);
            match heights.all(|height| height == first) {
                true => first,
                false => whole,
            }
        };
        let height = match windows.is_empty() {
            false => common_height(&windows),
            true if is_matrix(&geometry) => COPIED_ROWS,
            true => common_height(&copies),
        };
        let alone = uses.len() == 1 || updated;
        let long_rows = uses.iter().all(|buffer| {
            let operand = buffer.operand();
            let columns = operand.map_or(0, |operand| operand.block.last().copied().unwrap_or(1));
            columns * dtype.size_bytes() >= STREAMED_ROW_BYTES
        });
        let streamed = alone && role != Role::Temporary && bytes >= STREAMED_BYTES && long_rows;
        Storage::Written(Bands {
            height,
            dtype,
            geometry,
            alone,
            updated,
            destination: match streamed {
                true => Destination::Memory,
                false => Destination::Caches,
            },
            bands: array.bands(height).into_iter().map(RwLock::new).collect(),
        })
    }
}

/// Rows of a band of an array that is reached by copies alone. A copy of more takes one band after the other, so that
/// threads that copy blocks of the same rows rarely wait for each other.
const COPIED_ROWS: usize = 32;

/// Results of this size no cache keeps until they are read.
const STREAMED_BYTES: usize = 64 << 20;

/// Shorter rows of a block are written through the caches: with their ends in lines that others write, streaming a `dw`
/// of bf16 in rows of 960 bytes took 17 % longer on a Xeon.
const STREAMED_ROW_BYTES: usize = 4 << 10;

/// Whether the first dimension is that of the rows of blocks. Along the first of three they are one high.
fn is_matrix(geometry: &Geometry) -> bool {
    geometry.dims.len() == 2
}

/// The arrays that a launch of a kernel uses, each as its threads share it; `operands` are those of its spec, in order.
pub(crate) fn share<'x>(
    arrays: &'x mut [Bound<'_>],
    operands: &[ArrayId],
    spec: &KernelSpec,
) -> Vec<Option<Storage<'x>>> {
    let uses = |i: usize| -> Vec<(BufferId, &Buffer)> {
        let buffers = operands.iter().zip(spec.operands());
        let of_array = buffers.filter(|(id, _)| id.index() == i);
        of_array
            .map(|(_, (id, named, _))| (id, &named.buffer))
            .collect()
    };
    let shared = arrays.iter_mut().enumerate().map(|(i, array)| {
        let (ids, uses): (Vec<_>, Vec<_>) = uses(i).into_iter().unzip();
        let updated = matches!(ids[..], [a, b] if spec.aliases().contains(&(a, b)));
        (!uses.is_empty()).then(|| array.share(&uses, updated))
    });
    shared.collect()
}

/// An array as the threads of a launch see it.
#[derive(Debug)]
pub(crate) enum Storage<'a> {
    /// Not written by any launch of the program.
    Constant(ArrayRef<'a>),
    /// Not written by this launch.
    Read(ArrayRef<'a>),
    /// Written, and perhaps read.
    Written(Bands<'a>),
}

/// An array in bands of rows, with a lock for each.
#[derive(Debug)]
pub(crate) struct Bands<'a> {
    bands: Vec<RwLock<ArrayMut<'a>>>,
    /// Indices of the first dimension in a band, a multiple of which every window starts at.
    height: usize,
    dtype: DType,
    /// Of the whole array.
    geometry: Geometry,
    /// The launch has one window onto it and nothing else, or two of which one updates the other.
    alone: bool,
    updated: bool,
    destination: Destination,
}

impl<'a> Bands<'a> {
    /// The band in which a block lies, and where the block starts in it.
    fn find(&self, block: &Block) -> (&RwLock<ArrayMut<'a>>, usize) {
        match self.bands.len() {
            1 => (&self.bands[0], self.geometry.offset(&block.start)),
            _ => {
                let band = block.start[0] / self.height;
                let before = band * self.height * self.geometry.strides[0];
                let offset = self.geometry.offset(&block.start) - before;
                (&self.bands[band], offset)
            }
        }
    }
}

impl Storage<'_> {
    /// Element type.
    pub(crate) fn dtype(&self) -> DType {
        match self {
            Self::Constant(array) | Self::Read(array) => array.dtype(),
            Self::Written(bands) => bands.dtype,
        }
    }

    /// Whether the launch has a window onto it that updates another.
    pub(crate) fn is_updated(&self) -> bool {
        matches!(self, Self::Written(bands) if bands.updated)
    }

    /// Where rows of a block should be written that need not pass through a tile: nobody else looks at the array, and
    /// its rows have no gaps.
    pub(crate) fn rows_in_place(&self) -> Option<Destination> {
        match self {
            Self::Written(bands) if bands.alone && bands.geometry.strides.last() == Some(&1) => {
                Some(bands.destination)
            }
            _ => None,
        }
    }

    /// Runs `body` on an array that holds the block, and the offset of its first element there.
    pub(crate) fn read<R>(&self, block: &Block, body: impl FnOnce(&ArrayRef<'_>, usize) -> R) -> R {
        match self {
            Self::Constant(array) | Self::Read(array) => {
                body(array, array.geometry.offset(&block.start))
            }
            Self::Written(bands) => {
                let (band, start) = bands.find(block);
                // A poisoned lock means that another thread panicked, which ends the run anyway.
                let array = band.read().unwrap_or_else(|error| error.into_inner());
                body(&array.as_ref(), start)
            }
        }
    }

    /// The parts of a block that lie in one band each, with how many of its rows come before.
    pub(crate) fn parts(&self, block: &Block) -> impl Iterator<Item = (usize, Block)> {
        let [rows, columns] = block.inside;
        let height = match self {
            Self::Written(bands) if is_matrix(&bands.geometry) => bands.height,
            _ => usize::MAX,
        };
        let first = block.start[0];
        let start = block.start.clone();
        let mut before = 0;
        std::iter::from_fn(move || {
            let left = rows.checked_sub(before).filter(|&left| left > 0)?;
            let in_band = left.min(height - (first + before) % height);
            let mut start = start.clone();
            start[0] = first + before;
            let inside = [in_band, columns];
            let part = (before, Block { start, inside });
            before += in_band;
            Some(part)
        })
    }

    /// Runs `body` on an array that holds the block, exclusively, and the offset of its first element there.
    ///
    /// # Panics
    /// If the launch only reads the array: its spec would be wrong.
    pub(crate) fn write<R>(
        &self,
        block: &Block,
        body: impl FnOnce(&mut ArrayMut<'_>, usize) -> R,
    ) -> R {
        match self {
            Self::Constant(_) | Self::Read(_) => panic!("a kernel writes to one of its inputs"),
            Self::Written(bands) => {
                let (band, start) = bands.find(block);
                let mut array = band.write().unwrap_or_else(|error| error.into_inner());
                body(&mut array, start)
            }
        }
    }
}
