//! What `tilecast compile` answers: as the worker hands it over, as JSON and as text.

use serde::{Deserialize, Serialize};
use tilecast::XForm;

use super::Args;
use crate::cli::args::OwnBlocks;
use crate::cli::emission::{BlockSizes, choice_text};
use crate::cli::error::CliError;
use crate::cli::output::{number, print, table};

/// What the compiler says.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
pub(super) struct Report {
    /// `null` for a file, as are blocks and strategy; an op on given logits has no strategy either.
    pub(super) op: Option<String>,
    pub(super) target: String,
    pub(super) status: Status,
    /// Of the kernel that uses most; where memory is short, of what it is short for.
    pub(super) used_bytes: Option<u64>,
    /// Whether `used_bytes` is exact, and not what a message has rounded.
    pub(super) used_bytes_exact: Option<bool>,
    /// For the same kernel.
    pub(super) limit_bytes: Option<u64>,
    /// Time of the compiler, of the first attempt if there were two; loading it is not included.
    pub(super) seconds: f64,
    pub(super) message: Option<String>,
    pub(super) blocks: Option<BlockSizes>,
    /// Of the forward pass.
    pub(super) x_form: String,
    pub(super) backward_blocks: Option<BlockSizes>,
    /// Along tokens and hidden.
    pub(super) dx_blocks: Option<[usize; 2]>,
    pub(super) dw_blocks: Option<[usize; 2]>,
    pub(super) delta_columns: Option<usize>,
    /// Of the backward pass.
    pub(super) rounds_w: bool,
    pub(super) strategy: Option<String>,
    /// Arrays that were taken for those of a Mosaic kernel.
    pub(super) arrays: Option<Arrays>,
    pub(super) kernels: Vec<KernelReport>,
    pub(super) code_bytes: Option<u64>,
    /// Main memory.
    pub(super) hbm: Option<HbmReport>,
}

#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Debug)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    Ok,
    VmemOom,
    HbmOom,
    Error,
}

/// Types as StableHLO writes them.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
pub(super) struct Arrays {
    pub(super) inputs: Vec<String>,
    pub(super) outputs: Vec<String>,
}

#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
pub(super) struct KernelReport {
    pub(super) name: String,
    pub(super) used_bytes: Option<u64>,
    pub(super) limit_bytes: u64,
}

#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
pub(super) struct HbmReport {
    pub(super) argument_bytes: u64,
    pub(super) output_bytes: u64,
    pub(super) aliased_bytes: u64,
    pub(super) temporary_bytes: u64,
}

impl Report {
    /// Without an answer of the compiler.
    pub(super) fn new(args: &Args, status: Status) -> Self {
        Self {
            op: args.op.map(|op| op.name().into()),
            target: args.target.name.into(),
            status,
            used_bytes: None,
            used_bytes_exact: None,
            limit_bytes: None,
            seconds: 0.0,
            message: None,
            blocks: None,
            x_form: XForm::Given.name().into(),
            backward_blocks: None,
            dx_blocks: None,
            dw_blocks: None,
            delta_columns: None,
            rounds_w: false,
            strategy: None,
            arrays: None,
            kernels: Vec::new(),
            code_bytes: None,
            hbm: None,
        }
    }

    pub(super) fn timed_out(args: &Args) -> Self {
        let timeout = args.timeout;
        Self {
            seconds: timeout.into(),
            message: Some(format!(
                "the TPU compiler had no answer after {timeout} s and was stopped; --timeout gives it longer"
            )),
            ..Self::new(args, Status::Error)
        }
    }

    pub(super) fn print(&self) -> Result<(), CliError> {
        let Self {
            target, seconds, ..
        } = self;
        if self.status == Status::Error {
            // The error says it all.
            return Ok(());
        }
        self.print_what()?;
        if self.status != Status::Ok {
            let message = self.message.as_deref().unwrap_or_default();
            return print(format_args!("does not fit {target}: {message}"));
        }
        if self.kernels.is_empty() {
            print("there is no TPU kernel in the module")?;
        } else {
            let mut table = table(["kernel", "VMEM used, bytes", "limit, bytes"]);
            for kernel in &self.kernels {
                let used = kernel.used_bytes.map(|bytes| bytes.to_string());
                table.add_row([
                    kernel.name.as_str().into(),
                    number(used.as_deref().unwrap_or("unknown")),
                    number(kernel.limit_bytes),
                ]);
            }
            print(table)?;
        }
        print(format_args!("compiled for {target} in {seconds:.2} s"))
    }

    /// What was chosen or taken for granted.
    fn print_what(&self) -> Result<(), CliError> {
        if let Some(op) = &self.op {
            let own = OwnBlocks {
                delta_columns: self.delta_columns,
                products: [self.dx_blocks, self.dw_blocks],
            };
            let forward = (self.blocks, self.x_form.as_str());
            let backward = (self.backward_blocks, own, self.rounds_w);
            let choice = choice_text(forward, backward, self.strategy.as_deref());
            print(format_args!("{op} for {}: {choice}", self.target))?;
        }
        if let Some(arrays) = &self.arrays {
            print(format_args!("reads {}", arrays.inputs.join(", ")))?;
            print(format_args!("writes {}", arrays.outputs.join(", ")))?;
        }
        Ok(())
    }
}
