//! Clients: the devices of this machine, and programs loaded on them.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use super::abi;
use super::buffer::DeviceBuffer;
use super::error::PjrtError;
use super::executable::Executable;
use super::options::{CompileOptions, Source};
use super::plugin::{Plugin, non_null, string};

/// Holds the devices of this machine; on a TPU, no other process can until it is dropped.
#[derive(Debug)]
pub struct Client {
    pub(super) plugin: Plugin,
    pub(super) handle: NonNull<c_void>,
}

/// A device of a client.
#[derive(Clone, Copy, Debug)]
pub struct Device<'c> {
    pub(super) handle: NonNull<c_void>,
    client: &'c Client,
}

impl Plugin {
    /// Takes the devices of this machine.
    ///
    /// This may wait for minutes, for a metadata server among others: let a process do it that can be
    /// given up.
    ///
    /// # Errors
    /// There are no devices, or another process has them.
    pub fn client(self) -> Result<Client, PjrtError> {
        const NAME: &str = "PJRT_Client_Create";
        let mut args = abi::ClientCreate::new();
        // SAFETY: no options and no callbacks: all pointers are null, all counts zero.
        unsafe { self.call(NAME, self.api.client_create, &mut args)? };
        let handle = non_null(NAME, args.client)?;
        Ok(Client {
            plugin: self,
            handle,
        })
    }
}

impl Client {
    /// What the devices are: `tpu`, `cpu`.
    ///
    /// # Errors
    /// The plugin cannot tell.
    pub fn platform_name(&self) -> Result<String, PjrtError> {
        let mut args = abi::ClientPlatformName {
            client: self.handle.as_ptr(),
            ..abi::ClientPlatformName::new()
        };
        let function = self.plugin.api.client_platform_name;
        // SAFETY: the client is alive.
        unsafe { (self.plugin).call("PJRT_Client_PlatformName", function, &mut args)? };
        // SAFETY: the name is so many bytes, which live as long as the client.
        Ok(unsafe { string(args.name, args.name_size) })
    }

    /// The devices that this process can use.
    ///
    /// # Errors
    /// The plugin cannot tell.
    pub fn devices(&self) -> Result<Vec<Device<'_>>, PjrtError> {
        const NAME: &str = "PJRT_Client_AddressableDevices";
        let mut args = abi::ClientAddressableDevices {
            client: self.handle.as_ptr(),
            ..abi::ClientAddressableDevices::new()
        };
        let function = self.plugin.api.client_addressable_devices;
        // SAFETY: the client is alive.
        unsafe { self.plugin.call(NAME, function, &mut args)? };
        if args.device_count == 0 {
            return Ok(Vec::new());
        }
        let list = non_null(NAME, args.devices.cast_mut().cast())?.cast::<*mut c_void>();
        // SAFETY: the list has so many devices and lives as long as the client.
        let list = unsafe { std::slice::from_raw_parts(list.as_ptr(), args.device_count) };
        list.iter()
            .map(|&device| {
                Ok(Device {
                    handle: non_null(NAME, device)?,
                    client: self,
                })
            })
            .collect()
    }

    /// Compiles a StableHLO module, text or MLIR bytecode, for the first device, and loads it there.
    ///
    /// # Errors
    /// As [`Topology::compile`](super::Topology::compile).
    pub fn compile(
        &self,
        stablehlo: &[u8],
        options: &CompileOptions,
    ) -> Result<LoadedExecutable<'_>, PjrtError> {
        const NAME: &str = "PJRT_Client_Compile";
        let mut source = Source::new(stablehlo);
        let program = source.program();
        let options = options.encode();
        let mut args = abi::ClientCompile {
            client: self.handle.as_ptr(),
            program: &program,
            options: options.as_ptr().cast(),
            options_size: options.len(),
            ..abi::ClientCompile::new()
        };
        let function = self.plugin.api.client_compile;
        // SAFETY: the client is alive; the program, its bytes and the options are as long as stated and
        // live until the end of this function.
        unsafe { self.plugin.call(NAME, function, &mut args)? };
        Ok(LoadedExecutable {
            plugin: self.plugin,
            handle: non_null(NAME, args.executable)?,
            client: PhantomData,
        })
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let mut args = abi::ClientDestroy {
            client: self.handle.as_ptr(),
            ..abi::ClientDestroy::new()
        };
        let destroy = self.plugin.api.client_destroy;
        // SAFETY: the client is alive until here; devices, executables and buffers borrow it, so none is
        // left.
        let _ = unsafe { (self.plugin).call("PJRT_Client_Destroy", destroy, &mut args) };
    }
}

impl Device<'_> {
    /// Which device it is, as in `TPU v5 lite`.
    ///
    /// # Errors
    /// The plugin cannot tell.
    pub fn kind(&self) -> Result<String, PjrtError> {
        const NAME: &str = "PJRT_Device_GetDescription";
        let plugin = self.client.plugin;
        let mut args = abi::DeviceGetDescription {
            device: self.handle.as_ptr(),
            ..abi::DeviceGetDescription::new()
        };
        // SAFETY: the client, and so its device, is alive.
        unsafe { plugin.call(NAME, plugin.api.device_get_description, &mut args)? };
        let mut args = abi::DeviceDescriptionKind {
            description: non_null(NAME, args.description)?.as_ptr(),
            ..abi::DeviceDescriptionKind::new()
        };
        let function = plugin.api.device_description_kind;
        // SAFETY: the description lives as long as the device.
        unsafe { plugin.call("PJRT_DeviceDescription_Kind", function, &mut args)? };
        // SAFETY: the kind is so many bytes, which live as long as the device.
        Ok(unsafe { string(args.kind, args.kind_size) })
    }
}

/// A compiled module on the device it runs on.
#[derive(Debug)]
pub struct LoadedExecutable<'c> {
    plugin: Plugin,
    handle: NonNull<c_void>,
    client: PhantomData<&'c Client>,
}

impl<'c> LoadedExecutable<'c> {
    /// What the module says about itself.
    ///
    /// # Errors
    /// The plugin cannot tell.
    pub fn executable(&self) -> Result<Executable, PjrtError> {
        const NAME: &str = "PJRT_LoadedExecutable_GetExecutable";
        let mut args = abi::LoadedExecutableGetExecutable {
            loaded: self.handle.as_ptr(),
            ..abi::LoadedExecutableGetExecutable::new()
        };
        let function = self.plugin.api.loaded_executable_get_executable;
        // SAFETY: the loaded executable is alive; what is returned is a new object, ours to free.
        unsafe { self.plugin.call(NAME, function, &mut args)? };
        Ok(Executable::new(
            self.plugin,
            non_null(NAME, args.executable)?,
        ))
    }

    /// Runs the module on its arguments, which stay as they are, and waits for its end.
    ///
    /// # Errors
    /// Arguments of another number, type or shape than the module has, as far as the plugin checks;
    /// whatever fails while it runs.
    pub fn execute(
        &self,
        arguments: &[&DeviceBuffer<'c>],
    ) -> Result<Vec<DeviceBuffer<'c>>, PjrtError> {
        const NAME: &str = "PJRT_LoadedExecutable_Execute";
        let handles: Vec<*mut c_void> = arguments.iter().map(|b| b.handle.as_ptr()).collect();
        let mut outputs = vec![ptr::null_mut(); self.executable()?.output_count()?];
        // An argument may be used again, so none may become an output.
        let kept: Vec<i64> = (0..).take(arguments.len()).collect();
        let mut options = abi::ExecuteOptions {
            not_donated: kept.as_ptr(),
            not_donated_count: kept.len(),
            ..abi::ExecuteOptions::new()
        };
        let (argument_list, output_list) = (handles.as_ptr(), outputs.as_mut_ptr());
        let mut complete = ptr::null_mut();
        let mut args = abi::LoadedExecutableExecute {
            executable: self.handle.as_ptr(),
            options: &mut options,
            argument_lists: &argument_list,
            device_count: 1,
            argument_count: handles.len(),
            output_lists: &output_list,
            complete_events: &mut complete,
            ..abi::LoadedExecutableExecute::new()
        };
        let function = self.plugin.api.loaded_executable_execute;
        // SAFETY: the executable and the buffers are alive. There is one device, hence one list of
        // arguments, one of outputs, as long as the module has outputs, and one event; all of them, and the
        // options with their list, live until the end of this function.
        unsafe { self.plugin.call(NAME, function, &mut args)? };
        // Owned first, so that nothing is lost if the run fails.
        let outputs: Result<Vec<_>, _> = outputs
            .into_iter()
            .map(|output| Ok(DeviceBuffer::new(self.plugin, non_null(NAME, output)?)))
            .collect();
        wait(self.plugin, complete)?;
        outputs
    }
}

impl Drop for LoadedExecutable<'_> {
    fn drop(&mut self) {
        let mut args = abi::LoadedExecutableDestroy {
            executable: self.handle.as_ptr(),
            ..abi::LoadedExecutableDestroy::new()
        };
        let destroy = self.plugin.api.loaded_executable_destroy;
        // SAFETY: the loaded executable is alive until here.
        let _ = unsafe { (self.plugin).call("PJRT_LoadedExecutable_Destroy", destroy, &mut args) };
    }
}

/// Waits for an event that a function of this plugin has returned, and frees it; null is no event.
pub(super) fn wait(plugin: Plugin, event: *mut c_void) -> Result<(), PjrtError> {
    if event.is_null() {
        return Ok(());
    }
    let mut args = abi::EventAwait {
        event,
        ..abi::EventAwait::new()
    };
    // SAFETY: the event is alive: it is freed below and nowhere else.
    let result = unsafe { plugin.call("PJRT_Event_Await", plugin.api.event_await, &mut args) };
    let mut args = abi::EventDestroy {
        event,
        ..abi::EventDestroy::new()
    };
    // SAFETY: as before.
    let _ = unsafe { plugin.call("PJRT_Event_Destroy", plugin.api.event_destroy, &mut args) };
    result
}
