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
//! On a machine that has a device, a [`Client`] holds it, and the same module runs:
//!
//! ```text
//! GetPjrtApi -> PJRT_Client_Create -> PJRT_Client_Compile(module) -> PJRT_LoadedExecutable_Execute(buffers) -> buffers
//! ```
//!
//! | module | what it wraps |
//! |---|---|
//! | `plugin` | the library, its function table, errors as values |
//! | `topology` | chips that need not exist, and compiling for them |
//! | `executable` | what a compiled module says about itself |
//! | `client` | devices, programs loaded on them, and their events |
//! | `buffer` | arrays on a device, to and from the host |
//! | `abi` | layouts of the C API |
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
//! To run on a device is the opposite: the machine must be seen as it is. Use
//! [`Plugin::load_for_devices`] in a process without these settings.
//!
//! # Versions
//!
//! The table and the argument structs only ever grow at their ends, and carry their size. Used here
//! is a prefix; [`Plugin::load`] checks that the plugin's table covers it. Written against version
//! 0.81 of the C API; compiling was tried with libtpu 0.0.51 (0.116), running with XLA's CPU plugin
//! (0.81), and running on a TPU never.

#![allow(unsafe_code)]

mod abi;
mod buffer;
mod client;
mod error;
mod executable;
mod hlo;
mod message;
mod options;
mod plugin;
mod topology;

pub use buffer::{DeviceBuffer, HostArray};
pub use client::{Client, Device, LoadedExecutable};
pub use error::{PjrtError, StatusCode};
pub use executable::{Executable, MemoryStats};
pub use hlo::Kernel;
pub use message::OutOfMemory;
pub use options::CompileOptions;
pub use plugin::Plugin;
pub use topology::{Topology, generation_of};

/// What the environment of a process must say before it loads libtpu to compile ahead of time.
///
/// The accelerator type describes the machine that libtpu is to believe in, not the target: one
/// value serves all topologies.
pub const ENVIRONMENT: [(&str, &str); 8] = [
    SKIP_METADATA_SERVER,
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

/// Keeps libtpu from asking the cloud's metadata server what machine this is. Where there is no device, it
/// then says so at once, and not after minutes.
pub const SKIP_METADATA_SERVER: (&str, &str) = (SKIP_QUERY, "1");

const SKIP_QUERY: &str = "TPU_SKIP_MDS_QUERY";

/// How to get the plugin, in one line.
pub const HOW_TO_GET_LIBTPU: &str = "libtpu is a Python wheel: `pip download libtpu --no-deps`, unzip it, and give libtpu/libtpu.so";

#[cfg(test)]
mod tests;
