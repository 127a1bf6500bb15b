//! Compiled modules, and what they say about themselves.

use std::ffi::{c_char, c_void};
use std::ptr::{self, NonNull};

use super::abi;
use super::error::PjrtError;
use super::hlo::{self, Kernel};
use super::plugin::{Plugin, size, string};

/// A compiled module. It needs a device to be run, but not to be read.
#[derive(Debug)]
pub struct Executable {
    plugin: Plugin,
    handle: NonNull<c_void>,
}

impl Executable {
    /// Takes a handle that this plugin has returned, and that nothing else frees.
    pub(super) const fn new(plugin: Plugin, handle: NonNull<c_void>) -> Self {
        Self { plugin, handle }
    }

    /// How many arrays the module returns.
    ///
    /// # Errors
    /// The plugin cannot tell.
    pub fn output_count(&self) -> Result<usize, PjrtError> {
        let mut args = abi::ExecutableNumOutputs {
            executable: self.handle.as_ptr(),
            ..abi::ExecutableNumOutputs::new()
        };
        let function = self.plugin.api.executable_num_outputs;
        // SAFETY: the executable is alive.
        unsafe { (self.plugin).call("PJRT_Executable_NumOutputs", function, &mut args)? };
        Ok(args.output_count)
    }

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
