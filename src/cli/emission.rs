//! An op for the TPU compiler: blocks chosen, program made. `emit` writes it, `compile` compiles it, and
//! `run` runs it on a TPU.

use tilecast::Schedule;
use tilecast::core::kernels::linear_ce::{LinearCe, LinearCeKernel};
use tilecast::core::program::Program;
use tilecast::core::target::Target;
use tilecast::sim::Verdict;
use tilecast::sim::emission::{Choice, choose};
use tilecast::sim::op::Request;
use tilecast::tpu::lower::F32Products;
use tilecast::tpu::stablehlo::{EmitOptions, emit};

use super::args::{CliError, Pass, ScheduleArgs};
use super::report::space;

/// How products of f32 inputs are made.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ProductsArg {
    /// To f32 accuracy: six passes of the matrix unit.
    Exact,
    /// Of operands rounded to bf16: one pass.
    Rounded,
}

impl From<ProductsArg> for F32Products {
    fn from(products: ProductsArg) -> Self {
        match products {
            ProductsArg::Exact => Self::Exact,
            ProductsArg::Rounded => Self::Rounded,
        }
    }
}

/// What the blocks are chosen for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) problem: LinearCe,
    pub(crate) schedule: &'a ScheduleArgs,
    pub(crate) chips: u32,
    pub(crate) target: &'static Target,
    pub(crate) vmem_limit_kib: Option<u32>,
    pub(crate) products: F32Products,
}

/// An op whose blocks are chosen.
#[derive(Debug)]
pub(crate) struct Emission {
    problem: LinearCe,
    pub(crate) schedule: Schedule,
    /// What each kernel asks for.
    pub(crate) vmem_limit_bytes: u64,
    pub(crate) products: F32Products,
    /// Why the model thinks that nothing fits, if it does.
    pub(crate) misfit: Option<String>,
}

impl Emission {
    /// Chooses what is not given.
    ///
    /// # Errors
    /// There is nothing to choose from.
    pub(crate) fn choose(wanted: Wanted<'_>) -> Result<Self, CliError> {
        let Wanted {
            problem,
            target,
            products,
            ..
        } = wanted;
        let Choice {
            schedule,
            vmem_limit_bytes,
            row,
        } = choose(
            |limit_bytes| {
                // Limits are whole KiB.
                let limit_bytes = limit_bytes >> 10 << 10;
                let chips = wanted.chips as usize;
                let request = Request::new(problem, target, chips, Some(limit_bytes))?;
                let space = space(wanted.schedule, &request);
                Ok::<_, CliError>((request, space))
            },
            target,
            wanted.vmem_limit_kib.map(|kib| u64::from(kib) << 10),
            problem.dtype(),
            products,
        )?;
        let fits = row.report.verdict == Verdict::Fits;
        Ok(Self {
            problem,
            schedule,
            vmem_limit_bytes,
            products,
            misfit: (!fits).then(|| row.report.reason.unwrap_or_default()),
        })
    }

    /// The program of a pass.
    ///
    /// # Errors
    /// Whatever the op refuses.
    pub(crate) fn program(&self, pass: Pass) -> Result<Program<LinearCeKernel>, CliError> {
        Ok(match pass {
            Pass::Forward => self.problem.forward(&self.schedule),
            Pass::Backward => self.problem.backward(&self.schedule),
            Pass::Both => self.problem.forward_and_backward(&self.schedule),
        }?)
    }

    /// A program as StableHLO whose kernels may use `vmem_limit_bytes`.
    ///
    /// # Errors
    /// A kernel has no lowering.
    pub(crate) fn stablehlo(
        &self,
        program: &Program<LinearCeKernel>,
        vmem_limit_bytes: u64,
    ) -> Result<String, CliError> {
        let options = EmitOptions {
            products: self.products,
            vmem_limit_bytes: Some(vmem_limit_bytes),
            ..EmitOptions::default()
        };
        emit(program, &options).map_err(CliError::invalid)
    }
}
