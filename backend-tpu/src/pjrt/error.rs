//! Errors: what a plugin reports, and what keeps one from being used.

use std::error::Error as _;
use std::fmt;
use std::path::PathBuf;

use tilecast_core::DType;
use tilecast_core::target::Generation;

use super::message::{self, OutOfMemory};

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
    /// The process was not started as [`ENVIRONMENT`](super::ENVIRONMENT) says.
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
    /// The memory given for an array is not as long as the array.
    #[error("an array of {dtype} {dims:?} does not take {bytes} bytes")]
    Array {
        /// Type of an element.
        dtype: DType,
        /// Sizes of the dimensions.
        dims: Vec<usize>,
        /// What is there for it.
        bytes: usize,
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
