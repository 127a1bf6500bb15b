//! The plugin: a shared library with a table of functions.

use std::ffi::{c_char, c_void};
use std::fmt;
use std::mem::{MaybeUninit, offset_of};
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};
use std::sync::{Mutex, PoisonError};

use super::SKIP_QUERY;
use super::abi::{self, Api, Args, Function};
use super::error::{PjrtError, StatusCode};

/// A loaded plugin.
///
/// It stays loaded until the process ends: a plugin may have started threads, whose code must not go
/// away.
#[derive(Clone, Copy)]
pub struct Plugin {
    pub(super) api: &'static Api,
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.api_version();
        write!(f, "Plugin(PJRT C API {major}.{minor})")
    }
}

impl Plugin {
    /// Loads libtpu or another PJRT plugin to compile ahead of time. Loading one twice is fine.
    ///
    /// This runs the code in the file. Give it only a file you trust as much as a program.
    ///
    /// # Errors
    /// The [environment](super::ENVIRONMENT) is not prepared; the file cannot be loaded, is not a plugin, or
    /// is of a version that cannot be used; the plugin reports an error.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, PjrtError> {
        let path = whole_path(path.as_ref())?;
        if !std::env::var(SKIP_QUERY).is_ok_and(|value| value == "1" || value == "true") {
            return Err(PjrtError::Environment { name: SKIP_QUERY });
        }
        Self::open(path)
    }

    /// Like [`load`](Self::load), to run on the devices of this machine: the environment is what the
    /// machine has.
    ///
    /// # Errors
    /// As for [`load`](Self::load), the environment apart.
    pub fn load_for_devices(path: impl AsRef<Path>) -> Result<Self, PjrtError> {
        Self::open(whole_path(path.as_ref())?)
    }

    fn open(path: PathBuf) -> Result<Self, PjrtError> {
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
    pub(super) unsafe fn from_table(table: NonNull<Api>) -> Result<Self, PjrtError> {
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

    /// Calls a function of the table.
    ///
    /// # Safety
    /// * `function` is the one that takes an `A`.
    /// * The fields of `args` that it reads are valid: pointers to live objects and as many elements as
    ///   stated beside them.
    pub(super) unsafe fn call<A: Args>(
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

/// The path from the root: a name without a slash would be looked for in the system's folders.
fn whole_path(path: &Path) -> Result<PathBuf, PjrtError> {
    std::fs::canonicalize(path).map_err(|source| PjrtError::File {
        path: path.into(),
        source,
    })
}

/// What a function of this name has returned, unless that is nothing.
pub(super) fn non_null(function: &str, handle: *mut c_void) -> Result<NonNull<c_void>, PjrtError> {
    NonNull::new(handle).ok_or_else(|| PjrtError::Unreadable {
        what: format!("nothing from {function}"),
    })
}

/// A size that must not be negative.
pub(super) fn size(what: &str, bytes: i64) -> Result<u64, PjrtError> {
    u64::try_from(bytes).map_err(|_| PjrtError::Unreadable {
        what: format!("{bytes} for {what}"),
    })
}

/// A copy of the plugin's text, with what is not UTF-8 replaced.
///
/// # Safety
/// `start` is null, or `size` bytes can be read from there.
pub(super) unsafe fn string(start: *const c_char, size: usize) -> String {
    if start.is_null() || size == 0 {
        return String::new();
    }
    // SAFETY: not null, and the caller vouches for the rest.
    let bytes = unsafe { std::slice::from_raw_parts(start.cast::<u8>(), size) };
    String::from_utf8_lossy(bytes).into_owned()
}

/// The table ends behind the last function that compiling needs.
const _: () = assert!(Api::REQUIRED_BYTES == offset_of!(Api, compile) + size_of::<usize>());
