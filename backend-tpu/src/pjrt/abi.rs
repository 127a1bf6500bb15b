//! Layouts of the PJRT C API: the prefix of the function table and the argument structs that are
//! used.
//!
//! Source: `xla/pjrt/c/pjrt_c_api.h` of OpenXLA, version 0.81, Apache-2.0. Every struct starts with its
//! own size, by which either side knows how many of its fields the other one has, and with a list of
//! extensions, empty here.

use std::ffi::{c_char, c_int, c_void};
use std::mem::offset_of;
use std::ptr;

use tilecast_core::DType;

/// Name of the one symbol of a plugin.
pub(super) const ENTRY_POINT: &[u8] = b"GetPjrtApi\0";

/// Its type.
pub(super) type GetPjrtApi = unsafe extern "C" fn() -> *mut Api;

/// A function that takes a struct and may return an error, which the caller frees.
pub(super) type Function<A> = unsafe extern "C" fn(*mut A) -> *mut Error;

/// A function that cannot fail.
pub(super) type Procedure<A> = unsafe extern "C" fn(*mut A);

/// A function that is not used here.
type Unused = Option<unsafe extern "C" fn()>;

/// The plugin's own type.
#[repr(C)]
pub(super) struct Error {
    opaque: [u8; 0],
}

/// What every struct starts with.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Header {
    struct_size: usize,
    extensions: *mut c_void,
}

impl Header {
    const fn of<T>() -> Self {
        Self {
            struct_size: size_of::<T>(),
            extensions: ptr::null_mut(),
        }
    }
}

/// A struct of arguments: it starts with a [`Header`].
pub(super) trait Args {}

/// The function table, as far as it is used. Later functions follow.
#[repr(C)]
pub(super) struct Api {
    header: Header,
    pub(super) version: Version,
    pub(super) error_destroy: Option<Procedure<ErrorDestroy>>,
    pub(super) error_message: Option<Procedure<ErrorMessage>>,
    pub(super) error_get_code: Option<Function<ErrorGetCode>>,
    pub(super) plugin_initialize: Option<Function<PluginInitialize>>,
    plugin_attributes: Unused,
    pub(super) event_destroy: Option<Function<EventDestroy>>,
    event_is_ready_and_error: [Unused; 2],
    pub(super) event_await: Option<Function<EventAwait>>,
    event_on_ready: Unused,
    pub(super) client_create: Option<Function<ClientCreate>>,
    pub(super) client_destroy: Option<Function<ClientDestroy>>,
    pub(super) client_platform_name: Option<Function<ClientPlatformName>>,
    client_process_index_to_devices: [Unused; 3],
    pub(super) client_addressable_devices: Option<Function<ClientAddressableDevices>>,
    client_look_up_to_memories: [Unused; 3],
    pub(super) client_compile: Option<Function<ClientCompile>>,
    client_default_device_assignment: Unused,
    pub(super) client_buffer_from_host: Option<Function<BufferFromHost>>,
    device_description_id_to_attributes: [Unused; 3],
    pub(super) device_description_kind: Option<Function<DeviceDescriptionKind>>,
    device_description_texts: [Unused; 2],
    pub(super) device_get_description: Option<Function<DeviceGetDescription>>,
    device_is_addressable_to_memory: [Unused; 10],
    pub(super) executable_destroy: Option<Function<ExecutableDestroy>>,
    executable_name_to_partitions: [Unused; 3],
    pub(super) executable_num_outputs: Option<Function<ExecutableNumOutputs>>,
    pub(super) executable_code_size: Option<Function<ExecutableCodeSize>>,
    executable_cost_to_output_kinds: [Unused; 2],
    pub(super) executable_optimized_program: Option<Function<ExecutableOptimizedProgram>>,
    executable_serialize: Unused,
    pub(super) loaded_executable_destroy: Option<Function<LoadedExecutableDestroy>>,
    pub(super) loaded_executable_get_executable: Option<Function<LoadedExecutableGetExecutable>>,
    loaded_executable_devices_to_is_deleted: [Unused; 3],
    pub(super) loaded_executable_execute: Option<Function<LoadedExecutableExecute>>,
    executable_deserialize_and_fingerprint: [Unused; 2],
    pub(super) buffer_destroy: Option<Function<BufferDestroy>>,
    pub(super) buffer_element_type: Option<Function<BufferElementType>>,
    pub(super) buffer_dimensions: Option<Function<BufferDimensions>>,
    buffer_unpadded_dimensions_to_copy: [Unused; 9],
    pub(super) buffer_to_host: Option<Function<BufferToHost>>,
    buffer_is_on_cpu_to_copy_stream: [Unused; 11],
    pub(super) topology_create: Option<Function<TopologyCreate>>,
    pub(super) topology_destroy: Option<Function<TopologyDestroy>>,
    topology_name_to_attributes: [Unused; 5],
    pub(super) compile: Option<Function<Compile>>,
    executable_output_types_to_client_topology: [Unused; 6],
    pub(super) executable_memory_stats: Option<Function<ExecutableMemoryStats>>,
}

impl Api {
    /// The major version of these layouts.
    pub(super) const MAJOR: i32 = 0;

    /// Size of a table without any function.
    pub(super) const HEADER_BYTES: usize = offset_of!(Self, error_destroy);

    /// Size of a table with all functions that compiling needs.
    pub(super) const REQUIRED_BYTES: usize =
        offset_of!(Self, executable_output_types_to_client_topology);
}

#[derive(Debug)]
#[repr(C)]
pub(super) struct Version {
    header: Header,
    pub(super) major: c_int,
    pub(super) minor: c_int,
}

/// Declares structs of arguments: the fields after the header, and a constructor that fills in the header and
/// sets every field to zero or null.
macro_rules! args {
    ($($(#[$meta:meta])* $name:ident { $($field:ident: $type:ty = $zero:expr),* $(,)? })*) => {$(
        $(#[$meta])*
        #[derive(Debug)]
        #[repr(C)]
        pub(super) struct $name {
            pub(super) header: Header,
            $(pub(super) $field: $type,)*
        }

        impl $name {
            pub(super) const fn new() -> Self {
                Self { header: Header::of::<Self>(), $($field: $zero,)* }
            }
        }

        impl Args for $name {}
    )*};
}

args! {
    ErrorDestroy { error: *mut Error = ptr::null_mut() }
    ErrorMessage {
        error: *const Error = ptr::null(),
        message: *const c_char = ptr::null(),
        message_size: usize = 0,
    }
    ErrorGetCode { error: *const Error = ptr::null(), code: c_int = 0 }
    PluginInitialize {}
    /// A name with a value. The value is a union in C, of which only the string is used.
    NamedValue {
        name: *const c_char = ptr::null(),
        name_size: usize = 0,
        kind: c_int = 0,
        value: *const c_char = ptr::null(),
        value_size: usize = 0,
    }
    TopologyCreate {
        name: *const c_char = ptr::null(),
        name_size: usize = 0,
        options: *const NamedValue = ptr::null(),
        option_count: usize = 0,
        topology: *mut c_void = ptr::null_mut(),
    }
    TopologyDestroy { topology: *mut c_void = ptr::null_mut() }
    /// A module in a named format.
    Program {
        code: *mut c_char = ptr::null_mut(),
        code_size: usize = 0,
        format: *const c_char = ptr::null(),
        format_size: usize = 0,
    }
    Compile {
        topology: *const c_void = ptr::null(),
        program: *const Program = ptr::null(),
        options: *const c_char = ptr::null(),
        options_size: usize = 0,
        client: *mut c_void = ptr::null_mut(),
        executable: *mut c_void = ptr::null_mut(),
    }
    EventDestroy { event: *mut c_void = ptr::null_mut() }
    EventAwait { event: *mut c_void = ptr::null_mut() }
    ClientCreate {
        options: *const NamedValue = ptr::null(),
        option_count: usize = 0,
        // A store that the processes of a multi-host client share.
        key_value_callbacks: [*mut c_void; 4] = [ptr::null_mut(); 4],
        client: *mut c_void = ptr::null_mut(),
        key_value_try_callback: [*mut c_void; 2] = [ptr::null_mut(); 2],
    }
    ClientDestroy { client: *mut c_void = ptr::null_mut() }
    ClientPlatformName {
        client: *mut c_void = ptr::null_mut(),
        name: *const c_char = ptr::null(),
        name_size: usize = 0,
    }
    ClientAddressableDevices {
        client: *mut c_void = ptr::null_mut(),
        devices: *const *mut c_void = ptr::null(),
        device_count: usize = 0,
    }
    ClientCompile {
        client: *mut c_void = ptr::null_mut(),
        program: *const Program = ptr::null(),
        options: *const c_char = ptr::null(),
        options_size: usize = 0,
        executable: *mut c_void = ptr::null_mut(),
    }
    BufferFromHost {
        client: *mut c_void = ptr::null_mut(),
        data: *const c_void = ptr::null(),
        element_type: c_int = 0,
        dims: *const i64 = ptr::null(),
        dim_count: usize = 0,
        // None: row-major.
        byte_strides: *const i64 = ptr::null(),
        byte_stride_count: usize = 0,
        semantics: c_int = 0,
        device: *mut c_void = ptr::null_mut(),
        memory: *mut c_void = ptr::null_mut(),
        device_layout: *mut MemoryLayout = ptr::null_mut(),
        done_with_host_buffer: *mut c_void = ptr::null_mut(),
        buffer: *mut c_void = ptr::null_mut(),
    }
    DeviceGetDescription {
        device: *mut c_void = ptr::null_mut(),
        description: *mut c_void = ptr::null_mut(),
    }
    DeviceDescriptionKind {
        description: *mut c_void = ptr::null_mut(),
        kind: *const c_char = ptr::null(),
        kind_size: usize = 0,
    }
    ExecutableNumOutputs { executable: *mut c_void = ptr::null_mut(), output_count: usize = 0 }
    LoadedExecutableDestroy { executable: *mut c_void = ptr::null_mut() }
    LoadedExecutableGetExecutable {
        loaded: *mut c_void = ptr::null_mut(),
        executable: *mut c_void = ptr::null_mut(),
    }
    ExecuteOptions {
        // Of sends and receives while the program runs: none.
        callbacks: [*mut c_void; 2] = [ptr::null_mut(); 2],
        callback_counts: [usize; 2] = [0; 2],
        launch_id: c_int = 0,
        not_donated: *const i64 = ptr::null(),
        not_donated_count: usize = 0,
        context: *mut c_void = ptr::null_mut(),
        call_location: *const c_char = ptr::null(),
        task_count: usize = 0,
        task_ids: *mut c_int = ptr::null_mut(),
        incarnation_ids: *mut i64 = ptr::null_mut(),
    }
    LoadedExecutableExecute {
        executable: *mut c_void = ptr::null_mut(),
        options: *mut ExecuteOptions = ptr::null_mut(),
        // One list for each device.
        argument_lists: *const *const *mut c_void = ptr::null(),
        device_count: usize = 0,
        argument_count: usize = 0,
        output_lists: *const *mut *mut c_void = ptr::null(),
        complete_events: *mut *mut c_void = ptr::null_mut(),
        device: *mut c_void = ptr::null_mut(),
    }
    BufferDestroy { buffer: *mut c_void = ptr::null_mut() }
    BufferElementType { buffer: *mut c_void = ptr::null_mut(), element_type: c_int = 0 }
    BufferDimensions {
        buffer: *mut c_void = ptr::null_mut(),
        dims: *const i64 = ptr::null(),
        dim_count: usize = 0,
    }
    BufferToHost {
        buffer: *mut c_void = ptr::null_mut(),
        layout: *mut MemoryLayout = ptr::null_mut(),
        data: *mut c_void = ptr::null_mut(),
        data_size: usize = 0,
        event: *mut c_void = ptr::null_mut(),
    }
    /// Physical dimensions, fastest first, and tiles; the larger member of the union that
    /// [`MemoryLayout`] is.
    TiledLayout {
        minor_to_major: *const i64 = ptr::null(),
        dim_count: usize = 0,
        tile_dims: *const i64 = ptr::null(),
        tile_dim_counts: *const usize = ptr::null(),
        tile_count: usize = 0,
    }
    /// Of kind 0: tiled.
    MemoryLayout { tiled: TiledLayout = TiledLayout::new(), kind: c_int = 0 }
    ExecutableDestroy { executable: *mut c_void = ptr::null_mut() }
    ExecutableCodeSize { executable: *mut c_void = ptr::null_mut(), size_bytes: i64 = 0 }
    ExecutableOptimizedProgram {
        executable: *mut c_void = ptr::null_mut(),
        program: *mut Program = ptr::null_mut(),
    }
    ExecutableMemoryStats {
        executable: *mut c_void = ptr::null_mut(),
        code_bytes: i64 = 0,
        argument_bytes: i64 = 0,
        output_bytes: i64 = 0,
        alias_bytes: i64 = 0,
        temporary_bytes: i64 = 0,
        // Of the host.
        host: [i64; 5] = [0; 5],
        peak_bytes: i64 = 0,
    }
}

/// `PJRT_Buffer_Type` of the types that are used.
pub(super) const ELEMENT_TYPES: [(DType, c_int); 3] =
    [(DType::I32, 4), (DType::F32, 11), (DType::Bf16, 13)];

/// `PJRT_HostBufferSemantics`: the data stay as they are until the event says that they have been read.
pub(super) const IMMUTABLE_UNTIL_TRANSFER_COMPLETES: c_int = 1;

impl NamedValue {
    const STRING: c_int = 0;

    /// The strings must outlive the value.
    pub(super) fn string(name: &str, value: &str) -> Self {
        Self {
            name: name.as_ptr().cast(),
            name_size: name.len(),
            kind: Self::STRING,
            value: value.as_ptr().cast(),
            value_size: value.len(),
            ..Self::new()
        }
    }
}
