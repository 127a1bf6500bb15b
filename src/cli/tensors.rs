//! Safetensors files: read tensor by tensor, written in one piece or not at all.
//!
//! A file is `N: u64 | header: N bytes of JSON | data`. Nothing in it is believed. The length of the
//! header is compared with the size of the file before it is read; types, shapes and offsets are
//! checked against each other (by the `safetensors` crate) and against the size of the file before
//! any data are. So a file makes us allocate at most its own size. Only tensors that are asked for
//! are read, straight into memory of their element type.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use bytemuck::Pod;
pub(crate) use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use tilecast::sim::execute::{Array, Data};

use super::error::CliError;
use super::file::Output;

#[cfg(target_endian = "big")]
compile_error!("safetensors files are little-endian; reading them here would need byte swaps");

/// Bytes of the length in front of the header.
const LENGTH_BYTES: u64 = 8;
/// The format's limit.
const MAX_HEADER_BYTES: u64 = 100_000_000;

/// A file open for reading.
#[derive(Debug)]
pub(crate) struct TensorFile {
    path: PathBuf,
    file: File,
    data_start: u64,
    metadata: Metadata,
}

impl TensorFile {
    /// Opens a file and checks its header against its size.
    ///
    /// # Errors
    /// No such file, not a safetensors file, or one whose parts disagree.
    pub(crate) fn open(path: &Path) -> Result<Self, CliError> {
        let shown = path.display();
        let wrong = |what: String| CliError::invalid(format_args!("{shown}: {what}"));
        let unreadable =
            |error: io::Error| CliError::invalid(format_args!("cannot read {shown}: {error}"));
        let mut file = File::open(path).map_err(unreadable)?;
        let about = file.metadata().map_err(unreadable)?;
        if !about.is_file() {
            return Err(wrong("not a regular file; give a safetensors file".into()));
        }
        let file_bytes = about.len();
        let Some(rest_bytes) = file_bytes.checked_sub(LENGTH_BYTES) else {
            return Err(wrong(format!(
                "{file_bytes} bytes; a safetensors file has at least {LENGTH_BYTES}"
            )));
        };
        let mut length = [0; LENGTH_BYTES as usize];
        file.read_exact(&mut length).map_err(unreadable)?;
        let header_bytes = u64::from_le_bytes(length);
        let limit = rest_bytes.min(MAX_HEADER_BYTES);
        if header_bytes > limit {
            return Err(wrong(format!(
                "the header claims {header_bytes} bytes, at most {limit} are possible; the file is truncated \
                 or not a safetensors file"
            )));
        }
        let mut header = zeros(header_bytes)?;
        file.read_exact(&mut header).map_err(unreadable)?;
        let metadata: Metadata = serde_json::from_slice(&header)
            .map_err(|error| wrong(format!("the header is invalid: {error}")))?;
        let data_bytes = rest_bytes - header_bytes;
        let claimed_bytes = metadata.data_len();
        if claimed_bytes as u64 != data_bytes {
            return Err(wrong(format!(
                "the tensors take {claimed_bytes} bytes, but {data_bytes} follow the header; the file is \
                 truncated or damaged"
            )));
        }
        Ok(Self {
            path: path.into(),
            file,
            data_start: LENGTH_BYTES + header_bytes,
            metadata,
        })
    }

    /// Type and shape of a tensor, if it is there.
    pub(crate) fn info(&self, name: &str) -> Option<&TensorInfo> {
        self.metadata.info(name)
    }

    /// The names of all tensors, in the order of their data.
    pub(crate) fn names(&self) -> Vec<String> {
        self.metadata.offset_keys()
    }

    /// The elements of a tensor that is there and whose elements have the size of `T`.
    ///
    /// # Errors
    /// Memory is short, or the file changed after it was opened.
    pub(crate) fn read<T: Pod>(&mut self, name: &str) -> Result<Vec<T>, CliError> {
        let (begin, end) = self
            .info(name)
            .expect("only tensors that are there are read")
            .data_offsets;
        let mut data = zeros((end - begin) as u64 / size_of::<T>() as u64)?;
        self.file
            .seek(SeekFrom::Start(self.data_start + begin as u64))
            .and_then(|_| self.file.read_exact(bytemuck::cast_slice_mut(&mut data)))
            .map_err(|error| {
                let path = self.path.display();
                CliError::invalid(format_args!("cannot read {name} in {path}: {error}"))
            })?;
        Ok(data)
    }
}

/// Memory to read into; an error where there is not enough.
fn zeros<T: Pod>(len: u64) -> Result<Vec<T>, CliError> {
    let mut data = Vec::new();
    usize::try_from(len)
        .ok()
        .filter(|&len| data.try_reserve_exact(len).is_ok())
        .map(|len| {
            data.resize(len, T::zeroed());
            data
        })
        .ok_or_else(|| {
            let bytes = u128::from(len) * size_of::<T>() as u128;
            CliError::failure(format_args!("not enough memory for {bytes} bytes of input"))
        })
}

/// A tensor to write.
#[derive(Debug)]
pub(crate) struct Tensor<'a> {
    pub(crate) name: &'static str,
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<usize>,
    /// Its elements, row-major and little-endian.
    pub(crate) bytes: &'a [u8],
}

impl<'a> Tensor<'a> {
    /// The elements of an array in another shape of as many.
    pub(crate) fn of_array(name: &'static str, array: &'a Array, shape: &[usize]) -> Self {
        let (dtype, bytes) = match array.data() {
            Data::F32(data) => (Dtype::F32, bytemuck::cast_slice(data)),
            Data::Bf16(data) => (Dtype::BF16, bytemuck::cast_slice(data)),
            Data::I32(data) => (Dtype::I32, bytemuck::cast_slice(data)),
        };
        Self {
            name,
            dtype,
            shape: shape.to_vec(),
            bytes,
        }
    }
}

/// Writes tensors as one safetensors file: all of it, or none.
///
/// # Errors
/// The system refuses.
pub(crate) fn write(output: &Output, mut tensors: Vec<Tensor<'_>>) -> Result<(), CliError> {
    // Larger elements first, so that all are aligned.
    tensors.sort_by_key(|tensor| std::cmp::Reverse(tensor.dtype.bitsize()));
    output.write(|writer| {
        let mut end = 0;
        let infos = tensors.iter().map(|tensor| {
            let begin = end;
            end += tensor.bytes.len();
            let info = TensorInfo {
                dtype: tensor.dtype,
                shape: tensor.shape.clone(),
                data_offsets: (begin, end),
            };
            (tensor.name.to_string(), info)
        });
        let metadata = Metadata::new(None, infos.collect()).map_err(io::Error::other)?;
        let mut header = serde_json::to_vec(&metadata)?;
        header.resize(header.len().next_multiple_of(LENGTH_BYTES as usize), b' ');
        writer.write_all(&(header.len() as u64).to_le_bytes())?;
        writer.write_all(&header)?;
        for tensor in &tensors {
            writer.write_all(tensor.bytes)?;
        }
        Ok(())
    })
}
