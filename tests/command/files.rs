//! Tensor files: a writer plain enough to also write wrong ones, and the official reader.

use std::fs;
use std::path::Path;

use safetensors::{Dtype, SafeTensors};

/// A tensor to write.
pub(crate) struct Tensor {
    pub(crate) name: &'static str,
    pub(crate) dtype: &'static str,
    pub(crate) shape: Vec<usize>,
    pub(crate) bytes: Vec<u8>,
}

impl Tensor {
    pub(crate) fn f32(name: &'static str, shape: &[usize], values: &[f32]) -> Self {
        let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        Self::raw(name, "F32", shape, bytes)
    }

    /// Values are rounded to bf16.
    pub(crate) fn bf16(name: &'static str, shape: &[usize], values: &[f32]) -> Self {
        let bytes = values
            .iter()
            .flat_map(|&x| half::bf16::from_f32(x).to_le_bytes());
        Self::raw(name, "BF16", shape, bytes.collect())
    }

    pub(crate) fn i32(name: &'static str, values: &[i32]) -> Self {
        let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        Self::raw(name, "I32", &[values.len()], bytes)
    }

    pub(crate) fn i64(name: &'static str, values: &[i64]) -> Self {
        let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        Self::raw(name, "I64", &[values.len()], bytes)
    }

    pub(crate) fn raw(
        name: &'static str,
        dtype: &'static str,
        shape: &[usize],
        bytes: Vec<u8>,
    ) -> Self {
        let shape = shape.to_vec();
        Self {
            name,
            dtype,
            shape,
            bytes,
        }
    }
}

/// The bytes of a right file.
pub(crate) fn encode(tensors: &[Tensor]) -> Vec<u8> {
    let mut header = serde_json::Map::new();
    let mut data = Vec::new();
    for tensor in tensors {
        let begin = data.len();
        data.extend(&tensor.bytes);
        let entry = serde_json::json!({
            "dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": [begin, data.len()],
        });
        header.insert(tensor.name.into(), entry);
    }
    with_header(&serde_json::Value::Object(header).to_string(), &data, None)
}

/// The bytes of a file with this header, true or not, that claims to be `claimed` bytes long. It is
/// not padded, so that data are not aligned.
pub(crate) fn with_header(header: &str, data: &[u8], claimed: Option<u64>) -> Vec<u8> {
    let claimed = claimed.unwrap_or(header.len() as u64);
    [&claimed.to_le_bytes()[..], header.as_bytes(), data].concat()
}

/// A result: type, shape, and values widened to f32.
#[derive(Debug, PartialEq)]
pub(crate) struct Read {
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<usize>,
    pub(crate) values: Vec<f32>,
}

/// All tensors of a file, sorted by name.
pub(crate) fn decode(path: &Path) -> Vec<(String, Read)> {
    let bytes = fs::read(path).expect("the output was written");
    let file = SafeTensors::deserialize(&bytes).expect("the output is a safetensors file");
    let mut found: Vec<_> = file
        .iter()
        .map(|(name, tensor)| {
            let values = match tensor.dtype() {
                Dtype::F32 => tensor.data().chunks_exact(4).map(f32_of).collect(),
                Dtype::BF16 => tensor.data().chunks_exact(2).map(bf16_of).collect(),
                dtype => panic!("{name} is {dtype}"),
            };
            let read = Read {
                dtype: tensor.dtype(),
                shape: tensor.shape().to_vec(),
                values,
            };
            (name.to_string(), read)
        })
        .collect();
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    found
}

fn f32_of(bytes: &[u8]) -> f32 {
    f32::from_le_bytes(bytes.try_into().expect("four bytes"))
}

fn bf16_of(bytes: &[u8]) -> f32 {
    half::bf16::from_le_bytes(bytes.try_into().expect("two bytes")).to_f32()
}
