//! Topologies: chips that need not exist, to compile for.

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use tilecast_core::target::Generation;

use super::abi;
use super::error::PjrtError;
use super::executable::Executable;
use super::options::{CompileOptions, Source};
use super::plugin::{Plugin, non_null};

/// A generation, a topology, and its options.
type NamedTopology = (
    Generation,
    &'static str,
    &'static [(&'static str, &'static str)],
);

/// The smallest topology of each generation. With the option, both cores of a v4 chip are one device, as
/// both cores of a v5p chip are without.
pub(super) const TOPOLOGIES: [NamedTopology; 5] = [
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

/// The generation of a device that calls itself by this name.
///
/// The names are those of JAX's `Device.device_kind`, which come from libtpu.
pub fn generation_of(device_kind: &str) -> Option<Generation> {
    Some(match device_kind {
        "TPU v4" => Generation::V4,
        "TPU v5 lite" | "TPU v5e" => Generation::V5e,
        "TPU v5" | "TPU v5p" => Generation::V5p,
        "TPU v6 lite" | "TPU v6e" => Generation::V6e,
        "TPU7x" | "TPU v7x" => Generation::V7x,
        _ => return None,
    })
}

impl Plugin {
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
    /// chips along each axis; an empty name is that of [`ENVIRONMENT`](super::ENVIRONMENT). The options are libtpu's;
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
        let mut source = Source::new(stablehlo);
        let program = source.program();
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
        // live until the end of this function. The client may be null.
        unsafe {
            self.plugin
                .call("PJRT_Compile", self.plugin.api.compile, &mut args)?
        };
        let handle = non_null("PJRT_Compile", args.executable)?;
        Ok(Executable::new(self.plugin, handle))
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
