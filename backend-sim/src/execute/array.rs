//! Arrays that callers pass in and get back.

use half::bf16;
use tilecast_core::DType;

use super::ExecuteError;
use super::tensor::{Cells, Element};

/// The elements of an [`Array`].
#[derive(Clone, PartialEq, Debug)]
pub enum Data {
    /// f32
    F32(Vec<f32>),
    /// bf16
    Bf16(Vec<bf16>),
    /// i32
    I32(Vec<i32>),
}

impl Data {
    fn len(&self) -> usize {
        match self {
            Self::F32(data) => data.len(),
            Self::Bf16(data) => data.len(),
            Self::I32(data) => data.len(),
        }
    }
}

macro_rules! from_vec {
    ($($element:ty => $variant:ident),*) => {$(
        impl From<Vec<$element>> for Data {
            fn from(data: Vec<$element>) -> Self {
                Self::$variant(data)
            }
        }
    )*};
}

from_vec!(f32 => F32, bf16 => Bf16, i32 => I32);

/// A row-major array.
#[derive(Clone, PartialEq, Debug)]
pub struct Array {
    dims: Vec<usize>,
    data: Data,
}

impl Array {
    /// The array of `data` in the shape `dims`.
    ///
    /// # Errors
    /// Their sizes differ.
    pub fn new(data: impl Into<Data>, dims: &[usize]) -> Result<Self, ExecuteError> {
        let data = data.into();
        let len = data.len();
        let dims = dims.to_vec();
        match dims.iter().try_fold(1_usize, |n, &dim| n.checked_mul(dim)) {
            Some(n) if n == len => Ok(Self { dims, data }),
            _ => Err(ExecuteError::Array { len, dims }),
        }
    }

    /// An array as memory is before anything is written to it: NaN, or the least integer.
    ///
    /// # Panics
    /// If the array is larger than memory can be.
    pub fn undefined(dtype: DType, dims: &[usize]) -> Self {
        let len = dims.iter().product();
        let data = match dtype {
            DType::F32 => Data::F32(vec![f32::NAN; len]),
            DType::Bf16 => Data::Bf16(vec![bf16::NAN; len]),
            DType::I32 => Data::I32(vec![i32::MIN; len]),
        };
        let dims = dims.to_vec();
        Self { dims, data }
    }

    /// The shape.
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// The element type.
    pub const fn dtype(&self) -> DType {
        match self.data {
            Data::F32(_) => DType::F32,
            Data::Bf16(_) => DType::Bf16,
            Data::I32(_) => DType::I32,
        }
    }

    /// The elements.
    pub const fn data(&self) -> &Data {
        &self.data
    }

    /// The elements as f32; integers above 2^24 are rounded.
    pub fn to_f32(&self) -> Vec<f32> {
        match &self.data {
            Data::F32(data) => data.clone(),
            Data::Bf16(data) => data.iter().map(|x| x.to_f32()).collect(),
            Data::I32(data) => data.iter().map(|&x| x as f32).collect(),
        }
    }

    /// The elements as the simulator holds them.
    pub(super) fn cells(&self) -> Cells {
        match &self.data {
            Data::F32(data) => Cells::Float(data.clone()),
            Data::Bf16(data) => Cells::Float(data.iter().map(|x| x.to_f32()).collect()),
            Data::I32(data) => Cells::Int(data.iter().map(|&x| x.into()).collect()),
        }
    }

    /// The array of elements of the simulator, which are exact in `dtype`.
    pub(super) fn from_cells(dtype: DType, dims: &[usize], cells: &Cells) -> Self {
        let data = match (dtype, cells) {
            (DType::Bf16, Cells::Float(data)) => {
                Data::Bf16(data.iter().map(|&x| bf16::from_f32(x)).collect())
            }
            (_, Cells::Float(data)) => Data::F32(data.clone()),
            (_, Cells::Int(data)) => Data::I32(data.iter().map(|&x| x as i32).collect()),
        };
        let dims = dims.to_vec();
        Self { dims, data }
    }
}

/// The element type of arrays of `dtype`.
pub(super) fn element(dtype: DType) -> Element {
    use tilecast_tpu::mosaic::FloatKind;
    match dtype {
        DType::F32 => Element::Float(FloatKind::F32),
        DType::Bf16 => Element::Float(FloatKind::BF16),
        DType::I32 => Element::Int(32),
    }
}
