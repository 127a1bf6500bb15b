//! The real TPU compiler, without a TPU: a small binding to the PJRT C API.
//!
//! libtpu is a PJRT plugin: a shared library with one entry point, `GetPjrtApi`, which returns a
//! table of functions. Three of them are enough to compile a StableHLO module ahead of time for a
//! *topology*, a named arrangement of chips that need not exist:
//!
//! ```text
//! GetPjrtApi -> PJRT_TopologyDescription_Create("v5e:2x2") -> PJRT_Compile(module) -> executable | error
//! ```
//!
//! What the executable says about each kernel in it is in [`Kernel`]; what a refusal says about
//! memory, in [`OutOfMemory`].
//!
//! ```no_run
//! use tilecast_tpu::pjrt::{CompileOptions, OutOfMemory, PjrtError, Plugin};
//!
//! let plugin = Plugin::load("libtpu.so")?;
//! let topology = plugin.topology("v5e:2x2", &[])?;
//! let module = std::fs::read("kernel.stablehlo").unwrap();
//! match topology.compile(&module, &CompileOptions::default()) {
//!     Ok(executable) => {
//!         for kernel in executable.kernels()? {
//!             println!("{} uses {:?} bytes of VMEM", kernel.name, kernel.used_bytes);
//!         }
//!     }
//!     Err(error) => match error.out_of_memory() {
//!         Some(OutOfMemory { used_bytes, limit_bytes, .. }) => println!("{used_bytes} > {limit_bytes}"),
//!         None => return Err(error),
//!     },
//! }
//! # Ok::<(), PjrtError>(())
//! ```
//!
//! # The environment
//!
//! libtpu reads its settings from environment variables while it is loaded. Without
//! `TPU_SKIP_MDS_QUERY` it asks the cloud's metadata server what machine this is, and retries for
//! minutes where there is none. A program cannot safely set variables of its own once it may have
//! threads, so [`Plugin::load`] only checks them: start the process that loads the plugin with
//! [`ENVIRONMENT`] set, for example with [`Command::envs`](std::process::Command::envs). A process
//! of its own is a good idea anyway: the compiler ends the process on an internal error.
//!
//! # Versions
//!
//! The table and the argument structs only ever grow at their ends, and carry their size. Used here
//! is a prefix; [`Plugin::load`] checks that the plugin's table covers it. Written against version
//! 0.81 of the C API, tried with plugins of 0.116.

#![allow(unsafe_code)]

mod abi;
mod hlo;
mod message;
mod options;

use std::error::Error as _;
use std::ffi::{c_char, c_void};
use std::fmt;
use std::mem::{MaybeUninit, offset_of};
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};
use std::sync::{Mutex, PoisonError};

use tilecast_core::target::Generation;

pub use hlo::Kernel;
pub use message::OutOfMemory;
pub use options::CompileOptions;

use abi::{Api, Args, Function};

/// What the environment of a process must say before it loads libtpu to compile ahead of time.
///
/// The accelerator type describes the machine that libtpu is to believe in, not the target: one
/// value serves all topologies.
pub const ENVIRONMENT: [(&str, &str); 8] = [
    // Do not ask a metadata server.
    (SKIP_QUERY, "1"),
    ("TPU_ACCELERATOR_TYPE", "v5litepod-4"),
    ("TPU_WORKER_HOSTNAMES", "localhost"),
    ("TPU_WORKER_ID", "0"),
    // Nothing here touches a device, so a program that holds the TPU need not be waited for.
    ("ALLOW_MULTIPLE_LIBTPU_LOAD", "1"),
    // Errors come back as values; the log would repeat them, on standard error and under /tmp.
    ("TPU_MIN_LOG_LEVEL", "3"),
    ("TPU_STDERR_LOG_LEVEL", "3"),
    ("TPU_LOG_DIR", "disabled"),
];

const SKIP_QUERY: &str = "TPU_SKIP_MDS_QUERY";

/// How to get the plugin, in one line.
pub const HOW_TO_GET_LIBTPU: &str = "libtpu is a Python wheel: `pip download libtpu --no-deps`, unzip it, and give libtpu/libtpu.so";

/// A generation, a topology, and its options.
type NamedTopology = (
    Generation,
    &'static str,
    &'static [(&'static str, &'static str)],
);

/// The smallest topology of each generation. With the option, both cores of a v4 chip are one device, as
/// both cores of a v5p chip are without.
const TOPOLOGIES: [NamedTopology; 5] = [
    (
        Generation::V4,
        "v4:2x2x1",
        &[("chip_config_name", "megacore")],
    ),
    (Generation::V5e, "v5e:2x2", &[]),
    (Generation::V5p, "v5p:2x2x1", &[]),
    (Generation::V6e, "v6e:2x2", &[]),
    (Generation::V7x, "tpu7x:2x2x1", &[]),
];

/// A loaded plugin.
///
/// It stays loaded until the process ends: a plugin may have started threads, whose code must not go
/// away.
#[derive(Clone, Copy)]
pub struct Plugin {
    api: &'static Api,
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.api_version();
        write!(f, "Plugin(PJRT C API {major}.{minor})")
    }
}

impl Plugin {
    /// Loads libtpu or another PJRT plugin. Loading one twice is fine.
    ///
    /// This runs the code in the file. Give it only a file you trust as much as a program.
    ///
    /// # Errors
    /// The [environment](ENVIRONMENT) is not prepared; the file cannot be loaded, is not a plugin, or
    /// is of a version that cannot be used; the plugin reports an error.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, PjrtError> {
        // A name without a slash would be looked for in the system's folders.
        let path = path.as_ref();
        let path = std::fs::canonicalize(path).map_err(|source| PjrtError::File {
            path: path.into(),
            source,
        })?;
        if !std::env::var(SKIP_QUERY).is_ok_and(|value| value == "1" || value == "true") {
            return Err(PjrtError::Environment { name: SKIP_QUERY });
        }
        // SAFETY: this runs the initialisers of the library, which is what the caller asks for; those
        // of a PJRT plugin may run at any time and on any thread.
        let library =
            unsafe { libloading::Library::new(&path) }.map_err(|source| PjrtError::Load {
                path: path.clone(),
                source,
            })?;
        // SAFETY: the PJRT C API gives the symbol of this name this type.
        let entry = unsafe { library.get::<abi::GetPjrtApi>(abi::ENTRY_POINT) };
        let entry = *entry.map_err(|_| PjrtError::NotAPlugin { path: path.clone() })?;
        // From here on its code has run, and may have started threads.
        std::mem::forget(library);
        // SAFETY: the library is never unloaded, so its function is still there.
        let table = NonNull::new(unsafe { entry() }).ok_or(PjrtError::NotAPlugin { path })?;
        // SAFETY: `GetPjrtApi` returns the table of functions, which is never freed.
        let plugin = unsafe { Self::from_table(table)? };
        plugin.initialize(table)?;
        Ok(plugin)
    }

    /// # Safety
    /// * `table` points to a PJRT function table: its first field is its size in bytes, and that many
    ///   bytes can be read.
    /// * The functions in it can be called until the process ends.
    unsafe fn from_table(table: NonNull<Api>) -> Result<Self, PjrtError> {
        // SAFETY: the first field is the size.
        let struct_size = unsafe { table.cast::<usize>().read() };
        let too_old = |needed_bytes| PjrtError::TooOld {
            table_bytes: struct_size,
            needed_bytes,
        };
        if struct_size < Api::HEADER_BYTES {
            return Err(too_old(Api::HEADER_BYTES));
        }
        // The plugin's table may be shorter than ours or longer: what it lacks reads as `None`.
        let mut api = MaybeUninit::<Api>::zeroed();
        // Whole pointers only.
        let shared_bytes = struct_size.min(size_of::<Api>()) & !(size_of::<usize>() - 1);
        // SAFETY: both are at least so long, and ours is new, so they do not overlap.
        unsafe {
            ptr::copy_nonoverlapping(
                table.as_ptr().cast::<u8>(),
                api.as_mut_ptr().cast::<u8>(),
                shared_bytes,
            );
        }
        // SAFETY: numbers, pointers and optional function pointers: all of them may be zero, and those
        // that are not were copied whole from a table of the same layout.
        let api = unsafe { api.assume_init() };
        let (major, minor) = (api.version.major, api.version.minor);
        if major != Api::MAJOR {
            return Err(PjrtError::Version {
                major,
                minor,
                supported: Api::MAJOR,
            });
        }
        if struct_size < Api::REQUIRED_BYTES {
            return Err(too_old(Api::REQUIRED_BYTES));
        }
        Ok(Self {
            api: Box::leak(Box::new(api)),
        })
    }

    /// Calls the plugin's one-time setup, once.
    fn initialize(self, table: NonNull<Api>) -> Result<(), PjrtError> {
        static DONE: Mutex<Vec<usize>> = Mutex::new(Vec::new());
        let mut done = DONE.lock().unwrap_or_else(PoisonError::into_inner);
        let address = table.as_ptr().addr();
        if !done.contains(&address) {
            let mut args = abi::PluginInitialize::new();
            // SAFETY: the struct has no fields to get wrong.
            unsafe {
                self.call(
                    "PJRT_Plugin_Initialize",
                    self.api.plugin_initialize,
                    &mut args,
                )?
            };
            done.push(address);
        }
        Ok(())
    }

    /// Version of the C API that the plugin was built with: major, minor.
    pub fn api_version(self) -> (i32, i32) {
        (self.api.version.major, self.api.version.minor)
    }

    /// The smallest topology of a generation, with all cores of a chip in one device where it has
    /// megacore.
    ///
    /// # Errors
    /// The plugin does not know the generation.
    pub fn topology_of(self, generation: Generation) -> Result<Topology, PjrtError> {
        let found = TOPOLOGIES.iter().find(|(known, ..)| *known == generation);
        let (_, name, options) = found.ok_or(PjrtError::NoTopology { generation })?;
        self.topology(name, options)
    }

    /// A topology by its name, as in `v5e:2x2` or `tpu7x:2x2x1`: the generation, and the number of
    /// chips along each axis; an empty name is that of [`ENVIRONMENT`]. The options are libtpu's;
    /// most need none.
    ///
    /// # Errors
    /// The plugin does not know the name or an option.
    pub fn topology(self, name: &str, options: &[(&str, &str)]) -> Result<Topology, PjrtError> {
        let options: Vec<_> = options
            .iter()
            .map(|(name, value)| abi::NamedValue::string(name, value))
            .collect();
        let mut args = abi::TopologyCreate {
            name: name.as_ptr().cast(),
            name_size: name.len(),
            options: options.as_ptr(),
            option_count: options.len(),
            topology: ptr::null_mut(),
            ..abi::TopologyCreate::new()
        };
        // SAFETY: the name and the options are pointers to so many bytes and elements, which live
        // until the end of this function; the plugin copies what it keeps.
        unsafe {
            self.call(
                "PJRT_TopologyDescription_Create",
                self.api.topology_create,
                &mut args,
            )?
        };
        let handle = non_null("PJRT_TopologyDescription_Create", args.topology)?;
        Ok(Topology {
            plugin: self,
            handle,
        })
    }

    /// Calls a function of the table.
    ///
    /// # Safety
    /// * `function` is the one that takes an `A`.
    /// * The fields of `args` that it reads are valid: pointers to live objects and as many elements as
    ///   stated beside them.
    unsafe fn call<A: Args>(
        self,
        name: &'static str,
        function: Option<Function<A>>,
        args: &mut A,
    ) -> Result<(), PjrtError> {
        let function = function.ok_or(PjrtError::Missing { function: name })?;
        // SAFETY: the caller vouches for the fields. The header states the size of the struct as
        // declared here, by which the plugin knows which fields there are.
        let error = unsafe { function(args) };
        NonNull::new(error).map_or(Ok(()), |error| Err(self.take_error(name, error)))
    }

    /// Reads an error that a function of this plugin has just returned, and frees it.
    fn take_error(self, function: &'static str, error: NonNull<abi::Error>) -> PjrtError {
        let mut message = abi::ErrorMessage {
            error: error.as_ptr(),
            message: ptr::null(),
            message_size: 0,
            ..abi::ErrorMessage::new()
        };
        let mut code = abi::ErrorGetCode {
            error: error.as_ptr(),
            code: StatusCode::UNKNOWN.0,
            ..abi::ErrorGetCode::new()
        };
        let mut text = String::new();
        if let Some(read) = self.api.error_message {
            // SAFETY: the error is alive.
            unsafe { read(&mut message) };
            // SAFETY: the message is so many bytes, alive as long as the error is.
            text = unsafe { string(message.message, message.message_size) };
        }
        if let Some(read) = self.api.error_get_code {
            // SAFETY: the error is alive.
            let failed = unsafe { read(&mut code) };
            self.free_error(failed);
        }
        self.free_error(error.as_ptr());
        PjrtError::Call {
            function,
            code: StatusCode(code.code),
            message: text,
        }
    }

    /// Frees an error that is not used any more; null is no error.
    fn free_error(self, error: *mut abi::Error) {
        if let (Some(destroy), false) = (self.api.error_destroy, error.is_null()) {
            let mut args = abi::ErrorDestroy {
                error,
                ..abi::ErrorDestroy::new()
            };
            // SAFETY: the error came from this plugin, and every error is freed in one place only.
            unsafe { destroy(&mut args) };
        }
    }
}

/// An arrangement of chips to compile for.
#[derive(Debug)]
pub struct Topology {
    plugin: Plugin,
    handle: NonNull<c_void>,
}

impl Topology {
    /// Compiles a StableHLO module for one device: text or MLIR bytecode.
    ///
    /// # Errors
    /// [`PjrtError::Call`] with what the compiler has against it, by
    /// [`out_of_memory`](PjrtError::out_of_memory) in numbers if it is that.
    pub fn compile(
        &self,
        stablehlo: &[u8],
        options: &CompileOptions,
    ) -> Result<Executable, PjrtError> {
        const FORMAT: &str = "mlir";
        // The API shares one struct for reading and writing, so its pointer is to mutable bytes. MLIR's
        // parser reads text up to a zero, which does not count as text.
        let mut code = [stablehlo, &[0]].concat();
        let program = abi::Program {
            code: code.as_mut_ptr().cast(),
            code_size: stablehlo.len(),
            format: FORMAT.as_ptr().cast(),
            format_size: FORMAT.len(),
            ..abi::Program::new()
        };
        let options = options.encode();
        let mut args = abi::Compile {
            topology: self.handle.as_ptr(),
            program: &program,
            options: options.as_ptr().cast(),
            options_size: options.len(),
            client: ptr::null_mut(),
            executable: ptr::null_mut(),
            ..abi::Compile::new()
        };
        // SAFETY: the topology is alive; the program, its bytes and the options are as long as stated and
        // live until the end of this function; a zero follows the program. The client may be null.
        unsafe {
            self.plugin
                .call("PJRT_Compile", self.plugin.api.compile, &mut args)?
        };
        let handle = non_null("PJRT_Compile", args.executable)?;
        Ok(Executable {
            plugin: self.plugin,
            handle,
        })
    }
}

impl Drop for Topology {
    fn drop(&mut self) {
        let mut args = abi::TopologyDestroy {
            topology: self.handle.as_ptr(),
            ..abi::TopologyDestroy::new()
        };
        let destroy = self.plugin.api.topology_destroy;
        // SAFETY: the topology is alive until here. Executables do not refer to it.
        let _ = unsafe {
            self.plugin
                .call("PJRT_TopologyDescription_Destroy", destroy, &mut args)
        };
    }
}

/// A compiled module. It needs a device to be run, but not to be read.
#[derive(Debug)]
pub struct Executable {
    plugin: Plugin,
    handle: NonNull<c_void>,
}

impl Executable {
    /// Size of the machine code.
    ///
    /// # Errors
    /// The plugin cannot tell.
    pub fn generated_code_bytes(&self) -> Result<u64, PjrtError> {
        let mut args = abi::ExecutableCodeSize {
            executable: self.handle.as_ptr(),
            size_bytes: 0,
            ..abi::ExecutableCodeSize::new()
        };
        let function = self.plugin.api.executable_code_size;
        // SAFETY: the executable is alive.
        unsafe {
            self.plugin.call(
                "PJRT_Executable_SizeOfGeneratedCodeInBytes",
                function,
                &mut args,
            )?;
        }
        size("the size of the code", args.size_bytes)
    }

    /// What the executable needs of the device's main memory (HBM).
    ///
    /// # Errors
    /// The plugin cannot tell: [`PjrtError::Missing`] if it is older than the question.
    pub fn memory_stats(&self) -> Result<MemoryStats, PjrtError> {
        let mut args = abi::ExecutableMemoryStats {
            executable: self.handle.as_ptr(),
            ..abi::ExecutableMemoryStats::new()
        };
        let function = self.plugin.api.executable_memory_stats;
        // SAFETY: the executable is alive.
        unsafe {
            self.plugin.call(
                "PJRT_Executable_GetCompiledMemoryStats",
                function,
                &mut args,
            )?;
        }
        Ok(MemoryStats {
            code_bytes: size("the size of the code", args.code_bytes)?,
            argument_bytes: size("the size of the arguments", args.argument_bytes)?,
            output_bytes: size("the size of the outputs", args.output_bytes)?,
            aliased_bytes: size("the size of the aliased arguments", args.alias_bytes)?,
            temporary_bytes: size("the size of the temporaries", args.temporary_bytes)?,
        })
    }

    /// The TPU kernels (`tpu_custom_call`) in the module as the compiler left it, in its order.
    ///
    /// # Errors
    /// The plugin cannot show the optimized module, or shows it in a form that is not known here.
    pub fn kernels(&self) -> Result<Vec<Kernel>, PjrtError> {
        let (format, program) = self.optimized_program()?;
        let kernels = match format.as_str() {
            "hlo_with_config" => hlo::kernels_with_config(&program),
            "hlo" => hlo::kernels(&program),
            _ => None,
        };
        kernels.ok_or_else(|| PjrtError::Unreadable {
            what: format!("the optimized program, in format `{format}`"),
        })
    }

    /// The optimized module: name of its format, and its bytes.
    fn optimized_program(&self) -> Result<(String, Vec<u8>), PjrtError> {
        const NAME: &str = "PJRT_Executable_OptimizedProgram";
        let function = self.plugin.api.executable_optimized_program;
        let mut program = abi::Program {
            code: ptr::null_mut(),
            code_size: 0,
            format: ptr::null(),
            format_size: 0,
            ..abi::Program::new()
        };
        let mut args = abi::ExecutableOptimizedProgram {
            executable: self.handle.as_ptr(),
            program: &raw mut program,
            ..abi::ExecutableOptimizedProgram::new()
        };
        // SAFETY: the executable and the program are alive; without a buffer, only the size is written.
        unsafe { self.plugin.call(NAME, function, &mut args)? };
        // SAFETY: nothing else refers to the program; it is a local, written by the call before.
        let code_size = unsafe { (*args.program).code_size };
        let mut code = vec![0_u8; code_size];
        // SAFETY: as before.
        unsafe { (*args.program).code = code.as_mut_ptr().cast::<c_char>() };
        // SAFETY: the buffer is as long as the size that the plugin asked for.
        unsafe { self.plugin.call(NAME, function, &mut args)? };
        // SAFETY: the format is so many bytes, which belong to the plugin or to the executable.
        let format = unsafe { string(program.format, program.format_size) };
        code.truncate(program.code_size);
        Ok((format, code))
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        let mut args = abi::ExecutableDestroy {
            executable: self.handle.as_ptr(),
            ..abi::ExecutableDestroy::new()
        };
        let destroy = self.plugin.api.executable_destroy;
        // SAFETY: the executable is alive until here.
        let _ = unsafe {
            self.plugin
                .call("PJRT_Executable_Destroy", destroy, &mut args)
        };
    }
}

/// What an executable needs of a device's main memory (HBM), as the compiler counts it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct MemoryStats {
    /// Machine code.
    pub code_bytes: u64,
    /// Arguments, padded to tiles.
    pub argument_bytes: u64,
    /// Outputs, padded to tiles.
    pub output_bytes: u64,
    /// Part of the arguments that outputs reuse.
    pub aliased_bytes: u64,
    /// Everything between.
    pub temporary_bytes: u64,
}

/// What kind of error a plugin reports: the codes of `absl::StatusCode`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct StatusCode(pub i32);

impl StatusCode {
    /// The plugin does not say.
    pub const UNKNOWN: Self = Self(2);
    /// The request is wrong.
    pub const INVALID_ARGUMENT: Self = Self(3);
    /// A memory is too small.
    pub const RESOURCE_EXHAUSTED: Self = Self(8);

    /// The name by which messages call it.
    pub const fn name(self) -> &'static str {
        // https://abseil.io/docs/cpp/guides/status-codes
        const NAMES: [&str; 17] = [
            "OK",
            "CANCELLED",
            "UNKNOWN",
            "INVALID_ARGUMENT",
            "DEADLINE_EXCEEDED",
            "NOT_FOUND",
            "ALREADY_EXISTS",
            "PERMISSION_DENIED",
            "RESOURCE_EXHAUSTED",
            "FAILED_PRECONDITION",
            "ABORTED",
            "OUT_OF_RANGE",
            "UNIMPLEMENTED",
            "INTERNAL",
            "UNAVAILABLE",
            "DATA_LOSS",
            "UNAUTHENTICATED",
        ];
        match self.0 {
            0..=16 => NAMES[self.0 as usize],
            _ => "unknown status code",
        }
    }
}

impl fmt::Display for StatusCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The plugin cannot be used, or reports an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PjrtError {
    /// There is no such file.
    #[error("cannot open {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The process was not started as [`ENVIRONMENT`] says.
    #[error(
        "the environment variable {name} is not 1: libtpu would look for a metadata server for minutes; set it \
         before the process starts"
    )]
    Environment {
        /// The variable.
        name: &'static str,
    },
    /// The file is not a shared library of this machine, or something that it needs is missing.
    #[error("cannot load {}: {}", path.display(), source.source().map_or_else(|| source.to_string(), ToString::to_string))]
    Load {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: libloading::Error,
    },
    /// The library has no PJRT entry point.
    #[error("{} is not a PJRT plugin: it has no GetPjrtApi, or one that returns nothing", path.display())]
    NotAPlugin {
        /// The file.
        path: PathBuf,
    },
    /// The plugin speaks another major version of the C API.
    #[error(
        "the plugin has version {major}.{minor} of the PJRT C API; version {supported} is supported"
    )]
    Version {
        /// Of the plugin.
        major: i32,
        /// Of the plugin.
        minor: i32,
        /// The major version that is supported.
        supported: i32,
    },
    /// The plugin's function table ends before the functions that are needed.
    #[error(
        "the plugin is too old: its function table has {table_bytes} bytes, {needed_bytes} are needed"
    )]
    TooOld {
        /// Size of the plugin's table.
        table_bytes: usize,
        /// Size of a table with all that is needed.
        needed_bytes: usize,
    },
    /// The plugin does not have a function.
    #[error("the plugin has no {function}")]
    Missing {
        /// The function.
        function: &'static str,
    },
    /// No topology of this generation is known.
    #[error("no topology of TPU {generation:?} is known")]
    NoTopology {
        /// The generation.
        generation: Generation,
    },
    /// A function of the plugin reports an error.
    #[error("{code}: {message}")]
    Call {
        /// The function.
        function: &'static str,
        /// The kind of error.
        code: StatusCode,
        /// What the plugin says, in full.
        message: String,
    },
    /// A function of the plugin reports success, but what it returns makes no sense.
    #[error("the plugin returns what cannot be read: {what}")]
    Unreadable {
        /// What it is.
        what: String,
    },
}

impl PjrtError {
    /// The numbers, if the compiler found that a memory is too small.
    pub fn out_of_memory(&self) -> Option<OutOfMemory> {
        match self {
            Self::Call { message, .. } => OutOfMemory::parse(message),
            _ => None,
        }
    }

    /// The error in a few lines: of the compiler's words only those that say what is wrong.
    pub fn summary(&self) -> String {
        match self {
            Self::Call { code, message, .. } => match OutOfMemory::parse(message) {
                Some(found) => found.to_string(),
                None => format!("{code}: {}", message::shorten(message)),
            },
            _ => self.to_string(),
        }
    }
}

fn non_null(function: &str, handle: *mut c_void) -> Result<NonNull<c_void>, PjrtError> {
    NonNull::new(handle).ok_or_else(|| PjrtError::Unreadable {
        what: format!("nothing from {function}"),
    })
}

fn size(what: &str, bytes: i64) -> Result<u64, PjrtError> {
    u64::try_from(bytes).map_err(|_| PjrtError::Unreadable {
        what: format!("{bytes} for {what}"),
    })
}

/// A copy of the plugin's text, with what is not UTF-8 replaced.
///
/// # Safety
/// `start` is null, or `size` bytes can be read from there.
unsafe fn string(start: *const c_char, size: usize) -> String {
    if start.is_null() || size == 0 {
        return String::new();
    }
    // SAFETY: not null, and the caller vouches for the rest.
    let bytes = unsafe { std::slice::from_raw_parts(start.cast::<u8>(), size) };
    String::from_utf8_lossy(bytes).into_owned()
}

/// The table ends behind the last function that compiling needs.
const _: () = assert!(Api::REQUIRED_BYTES == offset_of!(Api, compile) + size_of::<usize>());

#[cfg(test)]
mod tests;
