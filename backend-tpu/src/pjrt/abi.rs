//! Layouts of the PJRT C API: the prefix of the function table and the argument structs that are
//! used.
//!
//! Source: `xla/pjrt/c/pjrt_c_api.h` of OpenXLA, version 0.81, Apache-2.0. Every struct starts with its
//! own size, by which either side knows how many of its fields the other one has, and with a list of
//! extensions, empty here.

use std::ffi::{c_char, c_int, c_void};
use std::mem::offset_of;
use std::ptr;

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
    plugin_attributes_to_memory: [Unused; 36],
    pub(super) executable_destroy: Option<Function<ExecutableDestroy>>,
    executable_name_to_outputs: [Unused; 4],
    pub(super) executable_code_size: Option<Function<ExecutableCodeSize>>,
    executable_cost_to_output_kinds: [Unused; 2],
    pub(super) executable_optimized_program: Option<Function<ExecutableOptimizedProgram>>,
    executable_serialize_to_copy_stream: [Unused; 33],
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
