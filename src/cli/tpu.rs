//! `tilecast run --backend tpu`: the emitted program on the TPU of this machine, by libtpu.
//!
//! The program is emitted and compiled here, so that blocks fit the TPU that is there. Forward and backward
//! are two executables, which share the arrays on the device. All of it happens in a
//! [worker](super::worker): libtpu holds the TPU for as long as its process lives, and where there is no TPU
//! may look for one for minutes.

mod device;

use std::path::PathBuf;

use super::args::ProductsArg;
use super::error::CliError;

pub(super) use device::{cannot_load, run};

/// Options of the backend tpu.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Backend tpu")]
pub(crate) struct TpuArgs {
    /// The driver and compiler: libtpu.so
    #[arg(long, value_name = "FILE", required_if_eq("backend", "tpu"))]
    pub(crate) libtpu: Option<PathBuf>,
    /// Give up after so long
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u32).range(1..), allow_negative_numbers = true)]
    pub(crate) timeout: u32,
    /// Products of f32 inputs
    #[arg(long, value_enum, default_value_t = ProductsArg::Exact)]
    pub(crate) f32_products: ProductsArg,
}

impl TpuArgs {
    /// Does `work`, which is to use [`run`], where it can be given up.
    ///
    /// # Errors
    /// Those of the work; it takes too long.
    pub(crate) fn in_worker(
        &self,
        work: impl FnOnce() -> Result<String, CliError>,
    ) -> Result<String, CliError> {
        use super::worker::{Ended, in_worker};
        // The machine is to be seen as it is; but where there is no device, nothing is to be asked for one.
        let environment = match has_device() {
            true => &[][..],
            false => &[tilecast::tpu::pjrt::SKIP_METADATA_SERVER],
        };
        match in_worker(environment, self.timeout, |_| work())? {
            Ended::Answered(text) => Ok(text),
            Ended::TimedOut(_) => Err(CliError::failure(format_args!(
                "libtpu had no result after {} s and was stopped; if this machine has a TPU, --timeout gives it longer",
                self.timeout
            ))),
        }
    }
}

/// Whether the kernel of the system shows what may be a TPU: `/dev/accel0` and on up to v4, a VFIO group since.
/// It is libtpu that decides; this only keeps it from waiting for minutes.
fn has_device() -> bool {
    let names = |folder| std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut devices = names("/dev").map(|entry| entry.file_name());
    devices.any(|name| name.to_string_lossy().starts_with("accel"))
        || names("/dev/vfio").next().is_some()
}
