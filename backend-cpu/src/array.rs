//! Borrowed arrays of any stride: what a caller passes in and gets back.

use half::bf16;
use thiserror::Error;
use tilecast_core::DType;

/// The elements of an input.
#[derive(Clone, Copy, Debug)]
pub enum Data<'a> {
    /// f32
    F32(&'a [f32]),
    /// bf16
    Bf16(&'a [bf16]),
    /// i32
    I32(&'a [i32]),
}

/// The elements of an output.
#[derive(Debug)]
pub enum DataMut<'a> {
    /// f32
    F32(&'a mut [f32]),
    /// bf16
    Bf16(&'a mut [bf16]),
    /// i32
    I32(&'a mut [i32]),
}

impl<'a> DataMut<'a> {
    /// Without so many elements at the start.
    pub(crate) fn skip(self, elements: usize) -> DataMut<'a> {
        match self {
            Self::F32(data) => DataMut::F32(&mut data[elements..]),
            Self::Bf16(data) => DataMut::Bf16(&mut data[elements..]),
            Self::I32(data) => DataMut::I32(&mut data[elements..]),
        }
    }

    pub(crate) fn reborrow(&mut self) -> DataMut<'_> {
        match self {
            Self::F32(data) => DataMut::F32(data),
            Self::Bf16(data) => DataMut::Bf16(data),
            Self::I32(data) => DataMut::I32(data),
        }
    }

    pub(crate) fn as_ref(&self) -> Data<'_> {
        match self {
            Self::F32(data) => Data::F32(data),
            Self::Bf16(data) => Data::Bf16(data),
            Self::I32(data) => Data::I32(data),
        }
    }
}

impl<'a> Data<'a> {
    /// Without so many elements at the start.
    pub(crate) fn skip(self, elements: usize) -> Data<'a> {
        match self {
            Self::F32(data) => Data::F32(&data[elements..]),
            Self::Bf16(data) => Data::Bf16(&data[elements..]),
            Self::I32(data) => Data::I32(&data[elements..]),
        }
    }

    /// The element type.
    pub const fn dtype(&self) -> DType {
        match self {
            Self::F32(_) => DType::F32,
            Self::Bf16(_) => DType::Bf16,
            Self::I32(_) => DType::I32,
        }
    }

    /// Number of elements.
    pub const fn len(&self) -> usize {
        match self {
            Self::F32(data) => data.len(),
            Self::Bf16(data) => data.len(),
            Self::I32(data) => data.len(),
        }
    }

    /// Whether there are no elements.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

macro_rules! from_slice {
    ($($element:ty => $variant:ident),*) => {$(
        impl<'a> From<&'a [$element]> for Data<'a> {
            fn from(data: &'a [$element]) -> Self {
                Self::$variant(data)
            }
        }
        impl<'a> From<&'a mut [$element]> for DataMut<'a> {
            fn from(data: &'a mut [$element]) -> Self {
                Self::$variant(data)
            }
        }
    )*};
}

from_slice!(f32 => F32, bf16 => Bf16, i32 => I32);

/// Why a slice cannot be an array.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum ArrayError {
    /// The last element lies beyond the slice.
    #[error(
        "an array of shape {dims:?} with strides {strides:?} needs {needed} elements, the slice has {len}"
    )]
    TooShort {
        /// Shape.
        dims: Vec<usize>,
        /// Strides, elements.
        strides: Vec<usize>,
        /// Elements up to and including the last one.
        needed: u128,
        /// Elements there are.
        len: usize,
    },
    /// Shape and strides differ in length.
    #[error("{dims} dimensions but {strides} strides")]
    Rank {
        /// Number of dimensions.
        dims: usize,
        /// Number of strides.
        strides: usize,
    },
    /// Two elements of an output share a place.
    #[error(
        "strides {strides:?} make elements of an output of shape {dims:?} overlap; every stride must step over the dimensions with smaller ones"
    )]
    Overlap {
        /// Shape.
        dims: Vec<usize>,
        /// Strides, elements.
        strides: Vec<usize>,
    },
}

/// Shape and strides, in elements.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Geometry {
    pub(crate) dims: Vec<usize>,
    pub(crate) strides: Vec<usize>,
}

impl Geometry {
    fn contiguous(dims: &[usize]) -> Self {
        let mut strides = vec![1_usize; dims.len()];
        for i in (1..dims.len()).rev() {
            strides[i - 1] = strides[i].saturating_mul(dims[i]);
        }
        Self {
            dims: dims.into(),
            strides,
        }
    }

    fn strided(dims: &[usize], strides: &[usize], len: usize) -> Result<Self, ArrayError> {
        if dims.len() != strides.len() {
            return Err(ArrayError::Rank {
                dims: dims.len(),
                strides: strides.len(),
            });
        }
        let steps = dims.iter().zip(strides);
        let last: u128 = steps
            .map(|(&dim, &stride)| dim.saturating_sub(1) as u128 * stride as u128)
            .sum();
        let needed = if dims.contains(&0) { 0 } else { last + 1 };
        if needed > len as u128 {
            return Err(ArrayError::TooShort {
                dims: dims.into(),
                strides: strides.into(),
                needed,
                len,
            });
        }
        Ok(Self {
            dims: dims.into(),
            strides: strides.into(),
        })
    }

    fn check_disjoint(&self) -> Result<(), ArrayError> {
        let mut by_stride: Vec<(usize, usize)> = (self.strides.iter().copied())
            .zip(self.dims.iter().copied())
            .filter(|&(_, dim)| dim > 1)
            .collect();
        by_stride.sort_unstable();
        let mut extent = 1_usize;
        for (stride, dim) in by_stride {
            if stride < extent {
                return Err(ArrayError::Overlap {
                    dims: self.dims.clone(),
                    strides: self.strides.clone(),
                });
            }
            extent = stride.saturating_mul(dim);
        }
        Ok(())
    }

    /// Offset of the element at `index`; the last dimensions if `index` is shorter.
    pub(crate) fn offset(&self, index: &[usize]) -> usize {
        index.iter().zip(&self.strides).map(|(i, s)| i * s).sum()
    }
}

/// An input array.
#[derive(Clone, Debug)]
pub struct ArrayRef<'a> {
    pub(crate) data: Data<'a>,
    pub(crate) geometry: Geometry,
}

impl<'a> ArrayRef<'a> {
    /// Row-major, without gaps.
    ///
    /// # Errors
    /// The slice is too short.
    pub fn new(data: impl Into<Data<'a>>, dims: &[usize]) -> Result<Self, ArrayError> {
        let strides = Geometry::contiguous(dims).strides;
        Self::with_strides(data, dims, &strides)
    }

    /// With a stride for each dimension, in elements; a transposed matrix is one with its dims and
    /// strides swapped.
    ///
    /// # Errors
    /// The slice is too short, or `dims` and `strides` differ in length.
    pub fn with_strides(
        data: impl Into<Data<'a>>,
        dims: &[usize],
        strides: &[usize],
    ) -> Result<Self, ArrayError> {
        let data = data.into();
        let geometry = Geometry::strided(dims, strides, data.len())?;
        Ok(Self { data, geometry })
    }

    /// The shape.
    pub fn dims(&self) -> &[usize] {
        &self.geometry.dims
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.data.dtype()
    }

    /// Bytes of its elements, without gaps.
    pub(crate) fn bytes(&self) -> usize {
        self.dims().iter().product::<usize>() * self.dtype().size_bytes()
    }
}

/// An output array.
#[derive(Debug)]
pub struct ArrayMut<'a> {
    pub(crate) data: DataMut<'a>,
    pub(crate) geometry: Geometry,
}

impl<'a> ArrayMut<'a> {
    /// Row-major, without gaps.
    ///
    /// # Errors
    /// The slice is too short.
    pub fn new(data: impl Into<DataMut<'a>>, dims: &[usize]) -> Result<Self, ArrayError> {
        let strides = Geometry::contiguous(dims).strides;
        Self::with_strides(data, dims, &strides)
    }

    /// With a stride for each dimension, in elements.
    ///
    /// # Errors
    /// The slice is too short, `dims` and `strides` differ in length, or elements overlap.
    pub fn with_strides(
        data: impl Into<DataMut<'a>>,
        dims: &[usize],
        strides: &[usize],
    ) -> Result<Self, ArrayError> {
        let data = data.into();
        let geometry = Geometry::strided(dims, strides, data.as_ref().len())?;
        geometry.check_disjoint()?;
        Ok(Self { data, geometry })
    }

    /// The array in bands of `height` indices of its first dimension; in one piece where another dimension has larger
    /// strides.
    pub(crate) fn bands(&mut self, height: usize) -> Vec<ArrayMut<'_>> {
        let Geometry { dims, strides } = &self.geometry;
        let (&dim, &stride) = match (dims.first(), strides.first()) {
            (Some(dim), Some(stride)) => (dim, stride),
            _ => (&1, &1),
        };
        let mut inner = dims.iter().zip(strides).skip(1);
        let is_outermost = inner.all(|(&dim, &inner)| dim == 1 || inner <= stride);
        let height = match is_outermost && stride > 0 && !dims.contains(&0) {
            true => height.clamp(1, dim),
            false => dim.max(1),
        };
        let heights = (0..dim.max(1))
            .step_by(height)
            .map(|first| height.min(dim - first.min(dim)));
        let geometry = |rows: usize| {
            let mut geometry = self.geometry.clone();
            if let Some(first) = geometry.dims.first_mut() {
                *first = rows;
            }
            geometry
        };
        let one = heights.len() == 1;
        let elements = match one {
            true => self.data.as_ref().len().max(1),
            false => height * stride,
        };
        let parts: Vec<DataMut<'_>> = match &mut self.data {
            DataMut::F32(data) => data.chunks_mut(elements).map(DataMut::F32).collect(),
            DataMut::Bf16(data) => data.chunks_mut(elements).map(DataMut::Bf16).collect(),
            DataMut::I32(data) => data.chunks_mut(elements).map(DataMut::I32).collect(),
        };
        (heights.zip(parts))
            .map(|(rows, data)| ArrayMut {
                data,
                geometry: geometry(rows),
            })
            .collect()
    }

    /// The array, to read.
    pub fn as_ref(&self) -> ArrayRef<'_> {
        ArrayRef {
            data: self.data.as_ref(),
            geometry: self.geometry.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transposed_views_are_fine_and_overlapping_outputs_are_not() {
        let data = [0.0_f32; 6];
        assert!(ArrayRef::with_strides(&data[..], &[3, 2], &[1, 3]).is_ok());
        assert!(ArrayRef::with_strides(&data[..], &[3, 2], &[0, 0]).is_ok());
        let mut data = [0.0_f32; 6];
        assert!(ArrayMut::with_strides(&mut data[..], &[3, 2], &[1, 3]).is_ok());
        assert!(matches!(
            ArrayMut::with_strides(&mut data[..], &[3, 2], &[1, 2]),
            Err(ArrayError::Overlap { .. })
        ));
    }

    #[test]
    fn short_slices_name_what_they_need() {
        let error = ArrayRef::new(&[0.0_f32; 5][..], &[3, 2]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "an array of shape [3, 2] with strides [2, 1] needs 6 elements, the slice has 5"
        );
        assert!(ArrayRef::new(&[0.0_f32; 5][..], &[usize::MAX, 2]).is_err());
    }
}
