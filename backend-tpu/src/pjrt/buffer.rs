//! Arrays on a device, and their way there and back.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use tilecast_core::DType;

use super::abi;
use super::client::{Client, Device, wait};
use super::error::PjrtError;
use super::plugin::{Plugin, non_null};

/// An array in the memory of this process: row-major, in the byte order of the machine.
#[derive(Clone, Copy, Debug)]
pub struct HostArray<'a> {
    /// Type of an element.
    pub dtype: DType,
    /// Sizes of the dimensions.
    pub dims: &'a [usize],
    /// The elements.
    pub bytes: &'a [u8],
}

/// An array in the memory of a device.
#[derive(Debug)]
pub struct DeviceBuffer<'c> {
    plugin: Plugin,
    pub(super) handle: NonNull<c_void>,
    client: PhantomData<&'c Client>,
}

impl Client {
    /// Copies an array to a device.
    ///
    /// # Errors
    /// The bytes are not as many as the type and the dimensions say; the memory of the device is too
    /// small.
    pub fn upload(
        &self,
        device: Device<'_>,
        array: HostArray<'_>,
    ) -> Result<DeviceBuffer<'_>, PjrtError> {
        const NAME: &str = "PJRT_Client_BufferFromHostBuffer";
        let HostArray { dtype, dims, bytes } = array;
        let expected = byte_count(dtype, dims);
        if expected != Some(bytes.len()) {
            return Err(PjrtError::Array {
                dtype,
                dims: dims.to_vec(),
                bytes: bytes.len(),
            });
        }
        // Sizes whose product fits a usize fit an i64 one by one, unless another one is 0.
        let dims: Vec<i64> = dims
            .iter()
            .map(|&n| i64::try_from(n).unwrap_or(i64::MAX))
            .collect();
        let mut args = abi::BufferFromHost {
            client: self.handle.as_ptr(),
            data: bytes.as_ptr().cast(),
            element_type: element_type(dtype),
            dims: dims.as_ptr(),
            dim_count: dims.len(),
            semantics: abi::IMMUTABLE_UNTIL_TRANSFER_COMPLETES,
            device: device.handle.as_ptr(),
            ..abi::BufferFromHost::new()
        };
        let function = self.plugin.api.client_buffer_from_host;
        // SAFETY: client and device are alive; the data are as many bytes as type and dimensions say, are
        // not changed while they are borrowed, and are borrowed until the wait below is over.
        unsafe { self.plugin.call(NAME, function, &mut args)? };
        let buffer =
            non_null(NAME, args.buffer).map(|buffer| DeviceBuffer::new(self.plugin, buffer));
        wait(self.plugin, args.done_with_host_buffer)?;
        buffer
    }
}

impl DeviceBuffer<'_> {
    /// Takes a handle that this plugin has returned, and that nothing else frees.
    pub(super) const fn new(plugin: Plugin, handle: NonNull<c_void>) -> Self {
        Self {
            plugin,
            handle,
            client: PhantomData,
        }
    }

    /// Type of an element.
    ///
    /// # Errors
    /// It is one that kernels here do not have.
    pub fn dtype(&self) -> Result<DType, PjrtError> {
        let mut args = abi::BufferElementType {
            buffer: self.handle.as_ptr(),
            ..abi::BufferElementType::new()
        };
        let function = self.plugin.api.buffer_element_type;
        // SAFETY: the buffer is alive.
        unsafe { (self.plugin).call("PJRT_Buffer_ElementType", function, &mut args)? };
        let mut known = abi::ELEMENT_TYPES.iter();
        let found = known.find(|(_, number)| *number == args.element_type);
        found
            .map(|(dtype, _)| *dtype)
            .ok_or_else(|| PjrtError::Unreadable {
                what: format!("an array of element type {}", args.element_type),
            })
    }

    /// Sizes of the dimensions.
    ///
    /// # Errors
    /// The plugin cannot tell.
    pub fn dims(&self) -> Result<Vec<usize>, PjrtError> {
        const NAME: &str = "PJRT_Buffer_Dimensions";
        let mut args = abi::BufferDimensions {
            buffer: self.handle.as_ptr(),
            ..abi::BufferDimensions::new()
        };
        // SAFETY: the buffer is alive.
        unsafe { (self.plugin).call(NAME, self.plugin.api.buffer_dimensions, &mut args)? };
        if args.dim_count == 0 {
            return Ok(Vec::new());
        }
        let dims = non_null(NAME, args.dims.cast_mut().cast())?.cast::<i64>();
        // SAFETY: the list is so long and lives as long as the buffer.
        let dims = unsafe { std::slice::from_raw_parts(dims.as_ptr(), args.dim_count) };
        dims.iter()
            .map(|&n| {
                usize::try_from(n).map_err(|_| PjrtError::Unreadable {
                    what: format!("a dimension of size {n}"),
                })
            })
            .collect()
    }

    /// Copies the array to memory of this process, row-major, and waits for its end.
    ///
    /// # Errors
    /// `into` is not as long as the array; the computation of the array has failed.
    pub fn read(&self, into: &mut [u8]) -> Result<(), PjrtError> {
        const NAME: &str = "PJRT_Buffer_ToHostBuffer";
        let (dtype, dims) = (self.dtype()?, self.dims()?);
        if byte_count(dtype, &dims) != Some(into.len()) {
            return Err(PjrtError::Array {
                dtype,
                dims,
                bytes: into.len(),
            });
        }
        let mut minor_to_major: Vec<i64> = (0..).take(dims.len()).collect();
        minor_to_major.reverse();
        let mut layout = abi::MemoryLayout::new();
        layout.tiled.minor_to_major = minor_to_major.as_ptr();
        layout.tiled.dim_count = minor_to_major.len();
        let mut args = abi::BufferToHost {
            buffer: self.handle.as_ptr(),
            layout: &mut layout,
            data: ptr::null_mut(),
            ..abi::BufferToHost::new()
        };
        let function = self.plugin.api.buffer_to_host;
        // SAFETY: the buffer is alive, the layout and its list live until the end of this function; without
        // a place to write to, only the size is written.
        unsafe { self.plugin.call(NAME, function, &mut args)? };
        wait(self.plugin, args.event)?;
        if args.data_size != into.len() {
            return Err(PjrtError::Unreadable {
                what: format!("{} bytes for an array of {}", args.data_size, into.len()),
            });
        }
        args.event = ptr::null_mut();
        args.data = into.as_mut_ptr().cast();
        // SAFETY: as before; the place is as long as the plugin asked for, and borrowed until the wait
        // below is over.
        unsafe { self.plugin.call(NAME, function, &mut args)? };
        wait(self.plugin, args.event)
    }
}

impl Drop for DeviceBuffer<'_> {
    fn drop(&mut self) {
        let mut args = abi::BufferDestroy {
            buffer: self.handle.as_ptr(),
            ..abi::BufferDestroy::new()
        };
        let destroy = self.plugin.api.buffer_destroy;
        // SAFETY: the buffer is alive until here.
        let _ = unsafe { (self.plugin).call("PJRT_Buffer_Destroy", destroy, &mut args) };
    }
}

fn element_type(dtype: DType) -> std::ffi::c_int {
    let mut known = abi::ELEMENT_TYPES.iter();
    let found = known.find(|(known, _)| *known == dtype);
    found.expect("all types are in the table").1
}

/// Bytes of an array; `None` if they are more than a number can count.
fn byte_count(dtype: DType, dims: &[usize]) -> Option<usize> {
    dims.iter()
        .try_fold(dtype.size_bytes(), |bytes, &n| bytes.checked_mul(n))
}
