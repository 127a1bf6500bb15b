//! The memory of tiles and vectors, laid out for the caches of a core.
//!
//! A product reads and writes a few rows of a tile at a time, a cache line or two of each. Two things decide what that
//! costs. Rows start at a line, so that no access touches two. And the lines of such a column of a tile belong to
//! different sets of the cache: rows that are a power of two apart share a few sets, which hold a dozen lines each and
//! lose them again before they are used. Rows an odd number of lines apart ([`row_stride`]) never share one before all
//! sets are taken.
//!
//! Measured on a Xeon with AMX, 512 x 480 by 480 x 1024 added to a tile in bf16: 820 GFLOP/s without either, 1120 with
//! each of them alone, 1620 with both.

use std::ops::{Deref, DerefMut, Range};

use bytemuck::Zeroable;
use half::bf16;
use tilecast_core::DType;

use crate::array::{Data, DataMut};
use crate::simd::{Line, untouched};

/// From one row of a tile of so many columns to the next, elements.
pub(crate) fn row_stride(dtype: DType, columns: usize) -> usize {
    let of_line = Line::BYTES / dtype.size_bytes();
    (columns.div_ceil(of_line) | 1) * of_line
}

/// Elements, from the start of a cache line on.
#[derive(Debug)]
pub(crate) enum Elements {
    /// f32
    F32(Aligned<f32>),
    /// bf16
    Bf16(Aligned<bf16>),
    /// i32
    I32(Aligned<i32>),
}

impl Elements {
    /// `len` elements that no kernel may read: NaN, or for integers the least value.
    pub(crate) fn poisoned(dtype: DType, len: usize) -> Self {
        match dtype {
            DType::F32 => Self::F32(Aligned::filled(f32::NAN, len)),
            DType::Bf16 => Self::Bf16(Aligned::filled(bf16::NAN, len)),
            DType::I32 => Self::I32(Aligned::filled(i32::MIN, len)),
        }
    }

    /// `len` zeros, in memory that is not touched.
    pub(crate) fn zeroed(dtype: DType, len: usize) -> Self {
        match dtype {
            DType::F32 => Self::F32(Aligned::zeroed(len)),
            DType::Bf16 => Self::Bf16(Aligned::zeroed(len)),
            DType::I32 => Self::I32(Aligned::zeroed(len)),
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

    /// Makes elements of a range zero.
    pub(crate) fn clear(&mut self, range: Range<usize>) {
        match self {
            Self::F32(data) => data[range].fill(0.0),
            Self::Bf16(data) => data[range].fill(bf16::ZERO),
            Self::I32(data) => data[range].fill(0),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::F32(data) => data.len(),
            Self::Bf16(data) => data.len(),
            Self::I32(data) => data.len(),
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

/// A slice that starts at a cache line, within memory that is a line longer.
#[derive(Debug)]
pub(crate) struct Aligned<T> {
    memory: Vec<T>,
    start: usize,
    len: usize,
}

impl<T: Copy> Aligned<T> {
    /// More elements than a start at a line can leave unused.
    const SLACK: usize = Line::BYTES / size_of::<T>();

    fn filled(value: T, len: usize) -> Self {
        Self::within(vec![value; len + Self::SLACK], len)
    }

    fn within(memory: Vec<T>, len: usize) -> Self {
        let start = memory.as_ptr().align_offset(Line::BYTES).min(Self::SLACK);
        Self { memory, start, len }
    }
}

impl<T: Copy + Zeroable> Aligned<T> {
    fn zeroed(len: usize) -> Self {
        Self::within(untouched(len + Self::SLACK), len)
    }
}

impl<T> Deref for Aligned<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.memory[self.start..self.start + self.len]
    }
}

impl<T> DerefMut for Aligned<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.memory[self.start..self.start + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_start_at_lines_of_different_sets() {
        const SETS: usize = 64;
        for dtype in [DType::F32, DType::Bf16, DType::I32] {
            for columns in [1, 5, 16, 480, 512, 1000, 1024, 4096] {
                let bytes = row_stride(dtype, columns) * dtype.size_bytes();
                assert!(bytes >= columns * dtype.size_bytes());
                assert_eq!(bytes % Line::BYTES, 0);
                let mut sets: Vec<_> = (0..SETS)
                    .map(|row| row * bytes / Line::BYTES % SETS)
                    .collect();
                sets.sort_unstable();
                sets.dedup();
                assert_eq!(sets.len(), SETS, "{columns} columns of {dtype}");
            }
        }
    }

    #[test]
    fn elements_start_at_a_line() {
        for len in [0, 1, 15, 16, 17, 100_000] {
            for elements in [
                Elements::poisoned(DType::F32, len),
                Elements::zeroed(DType::F32, len),
            ] {
                let Data::F32(data) = elements.as_data() else {
                    panic!("f32")
                };
                assert_eq!(data.len(), len);
                assert_eq!(data.as_ptr().addr() % Line::BYTES, 0);
            }
        }
    }
}
