//! An op for the TPU compiler: blocks chosen, program made. `emit` writes it, `compile` compiles it, and
//! `run` runs it on a TPU.
//!
//! [`Emission`] is the fused head; [`OpEmission`] is any op, for those who need its text only.

use std::fmt;

use serde::{Deserialize, Serialize};

use tilecast::core::kernels::grouped_matmul::{GroupedKernel, GroupedMatmul};
use tilecast::core::kernels::head::HeadKernel;
use tilecast::core::kernels::linear_ce::LinearCe;
use tilecast::core::kernels::logits_op::LogitsOp;
use tilecast::core::kernels::softmax::SoftmaxKernel;
use tilecast::core::program::{Kernel, Program};
use tilecast::core::target::Target;
use tilecast::sim::Verdict;
use tilecast::sim::emission::{Choice, choose, logits};
use tilecast::sim::experts;
use tilecast::sim::grid::Scalars;
use tilecast::sim::op::Request;
use tilecast::sim::problem::{self, OnHead, PassBlocks};
use tilecast::tpu::lower::{F32Products, lower};
use tilecast::tpu::stablehlo::{EmitOptions, emit};
use tilecast::{ProductBlocks, Schedule, Strategy, Structure, XForm};

use super::args::{Op, OwnBlocks, Pass, ProblemArgs, ScheduleArgs};
use super::error::CliError;
use super::gmm;
use super::logits::given_blocks;
use super::report::{backward_text, bytes_of, forward_text, space};
use super::scalars;

/// What the blocks are chosen for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a, P = LinearCe> {
    pub(crate) problem: P,
    pub(crate) schedule: &'a ScheduleArgs,
    pub(crate) target: &'static Target,
    pub(crate) vmem_limit_kib: Option<u32>,
    pub(crate) products: F32Products,
    pub(crate) structure: Structure,
}

/// An op whose blocks are chosen.
#[derive(Debug)]
pub(crate) struct Emission<P = LinearCe> {
    problem: P,
    pub(crate) schedule: Schedule,
    /// What each kernel asks for.
    pub(crate) vmem_limit_bytes: u64,
    /// Why the model thinks that nothing fits, if it does.
    pub(crate) misfit: Option<String>,
}

impl<P: OnHead> Emission<P> {
    /// Chooses what is not given.
    ///
    /// # Errors
    /// There is nothing to choose from.
    pub(crate) fn choose(wanted: Wanted<'_, P>) -> Result<Self, CliError> {
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
                let request = Request::of_device(problem, target, Some(limit_bytes))
                    .products(products)
                    .structure(wanted.structure);
                let space = space(wanted.schedule, &request)?;
                Ok::<_, CliError>((request, space))
            },
            target,
            bytes_of(wanted.vmem_limit_kib),
        )?;
        let fits = row.report.verdict == Verdict::Fits;
        Ok(Self {
            problem,
            schedule,
            vmem_limit_bytes,
            misfit: (!fits).then(|| row.report.reason.unwrap_or_default()),
        })
    }

    /// The program of a pass.
    ///
    /// # Errors
    /// Whatever the op refuses.
    pub(crate) fn program(&self, pass: Pass) -> Result<Program<HeadKernel>, CliError> {
        Ok(self.problem.program(pass.into(), &self.schedule)?)
    }
}

/// A program as StableHLO whose kernels may use `vmem_limit_bytes`, with [checks](EmitOptions::bounds_checks) of their
/// copies or without.
///
/// # Errors
/// A kernel has no lowering.
pub(crate) fn stablehlo<K: Kernel>(
    program: &Program<K>,
    products: F32Products,
    vmem_limit_bytes: u64,
    bounds_checks: bool,
) -> Result<String, CliError> {
    let options = EmitOptions {
        products,
        vmem_limit_bytes: Some(vmem_limit_bytes),
        bounds_checks,
        ..EmitOptions::default()
    };
    emit(program, &options).map_err(CliError::invalid)
}

/// Block sizes of a pass as they are shown.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Debug)]
pub(crate) struct BlockSizes {
    b: usize,
    /// None for an op on given logits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    h: Option<usize>,
    v: usize,
}

impl<B: PassBlocks> From<B> for BlockSizes {
    fn from(blocks: B) -> Self {
        let problem::BlockSizes { b, h, v } = blocks.sizes();
        Self { b, h, v }
    }
}

impl fmt::Display for BlockSizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { b, h, v } = *self;
        problem::BlockSizes { b, h, v }.fmt(f)
    }
}

/// Passes of any op, with what was chosen for them.
#[derive(Debug)]
pub(crate) struct OpEmission {
    program: AnyProgram,
    /// Of the forward pass, if it is wanted.
    pub(crate) blocks: Option<BlockSizes>,
    /// In what form the forward pass gets `x`.
    pub(crate) x: XForm,
    /// Of the backward pass, if it is wanted.
    pub(crate) backward_blocks: Option<BlockSizes>,
    /// Of kernels that have their own.
    pub(crate) own_blocks: OwnBlocks,
    /// Whether the backward pass rounds `w` by chunks.
    pub(crate) rounds_w: bool,
    /// Of the backward pass, where there are several.
    pub(crate) strategy: Option<&'static str>,
    /// What each kernel asks for.
    pub(crate) vmem_limit_bytes: u64,
    /// Why the model thinks that nothing fits, if it does.
    pub(crate) misfit: Option<String>,
    products: F32Products,
}

#[derive(Debug)]
enum AnyProgram {
    Head(Program<HeadKernel>),
    Logits(Program<SoftmaxKernel>),
    /// With what was chosen, for a person.
    Experts(Program<GroupedKernel>, String),
}

impl OpEmission {
    /// Chooses what is not given.
    ///
    /// # Errors
    /// A problem that is refused, or nothing to choose from.
    pub(crate) fn choose(
        op: Op,
        args: &ProblemArgs,
        target: &'static Target,
        vmem_limit_kib: Option<u32>,
    ) -> Result<Self, CliError> {
        if args.chips > 1 {
            return Err(CliError::invalid(format_args!(
                "--chips {}: a program is written for one device; give the tokens of a device instead (--tokens)",
                args.chips
            )));
        }
        let choices = Choices {
            args,
            target,
            vmem_limit_kib,
        };
        match op {
            Op::LinearCe => choices.of_head(args.problem()?),
            Op::LinearGrpo | Op::LinearEntropy => choices.of_head(args.linear(op)?),
            Op::LogitsCe | Op::Grpo | Op::Entropy => choices.of_logits(&args.on_logits(op)?),
            Op::Gmm => choices.of_experts(gmm::problem(args)?),
        }
    }

    /// The passes as [`stablehlo`].
    ///
    /// # Errors
    /// A kernel has no lowering.
    pub(crate) fn stablehlo(
        &self,
        limit_bytes: u64,
        bounds_checks: bool,
    ) -> Result<String, CliError> {
        let products = self.products;
        match &self.program {
            AnyProgram::Head(program) => stablehlo(program, products, limit_bytes, bounds_checks),
            AnyProgram::Logits(program) => stablehlo(program, products, limit_bytes, bounds_checks),
            AnyProgram::Experts(program, _) => {
                stablehlo(program, products, limit_bytes, bounds_checks)
            }
        }
    }

    /// Name and Mosaic text of each kernel.
    ///
    /// # Errors
    /// One has no lowering.
    pub(crate) fn kernels(&self) -> Result<Vec<KernelText>, CliError> {
        match &self.program {
            AnyProgram::Head(program) => kernels(program, self.products),
            AnyProgram::Logits(program) => kernels(program, self.products),
            AnyProgram::Experts(program, _) => kernels(program, self.products),
        }
    }

    /// What was chosen, for a person.
    pub(crate) fn choice(&self) -> String {
        if let AnyProgram::Experts(_, choice) = &self.program {
            return choice.clone();
        }
        let backward = (self.backward_blocks, self.own_blocks, self.rounds_w);
        choice_text((self.blocks, self.x.name()), backward, self.strategy)
    }
}

/// What an op is chosen blocks by.
struct Choices<'a> {
    args: &'a ProblemArgs,
    target: &'static Target,
    vmem_limit_kib: Option<u32>,
}

impl Choices<'_> {
    /// The blocks of the passes that are wanted.
    fn wanted<B: Into<BlockSizes>>(&self, [forward, backward]: [B; 2]) -> [Option<BlockSizes>; 2] {
        let pass = self.args.schedule.pass;
        [
            pass.forward().then_some(forward.into()),
            pass.backward().then_some(backward.into()),
        ]
    }

    fn of_head(&self, problem: impl OnHead) -> Result<OpEmission, CliError> {
        let pass = self.args.schedule.pass;
        let emission = Emission::choose(Wanted {
            problem,
            schedule: &self.args.schedule,
            target: self.target,
            vmem_limit_kib: self.vmem_limit_kib,
            products: self.args.f32_products.into(),
            structure: self.args.structure.into(),
        })?;
        let schedule = &emission.schedule;
        let [blocks, backward_blocks] = self.wanted([schedule.forward, schedule.backward]);
        Ok(OpEmission {
            program: AnyProgram::Head(emission.program(pass)?),
            blocks,
            x: schedule.x[0],
            backward_blocks,
            own_blocks: match (pass.backward(), schedule.strategy) {
                (true, Strategy::Streaming) => OwnBlocks {
                    delta_columns: schedule.delta_columns,
                    products: [schedule.dx, schedule.dw]
                        .map(|own| own.map(|ProductBlocks { b, h }| [b, h])),
                },
                _ => OwnBlocks::default(),
            },
            rounds_w: pass.backward() && schedule.rounds_w,
            strategy: pass.backward().then(|| schedule.strategy.name()),
            vmem_limit_bytes: emission.vmem_limit_bytes,
            misfit: emission.misfit,
            products: self.args.f32_products.into(),
        })
    }

    fn of_logits(&self, problem: &LogitsOp) -> Result<OpEmission, CliError> {
        let given = given_blocks(&self.args.schedule, Some(self.target))?;
        let limit_bytes = bytes_of(self.vmem_limit_kib);
        let logits::Choice {
            schedule,
            vmem_limit_bytes,
        } = logits::choose(problem, self.target, given, limit_bytes)?;
        let program = match self.args.schedule.pass {
            Pass::Forward => problem.forward(&schedule),
            Pass::Backward => problem.backward(&schedule),
            Pass::Both => problem.forward_and_backward(&schedule),
        };
        let [blocks, backward_blocks] = self.wanted([schedule.forward, schedule.backward]);
        Ok(OpEmission {
            program: AnyProgram::Logits(program?),
            blocks,
            x: XForm::Given,
            backward_blocks,
            own_blocks: OwnBlocks::default(),
            rounds_w: false,
            strategy: None,
            vmem_limit_bytes,
            misfit: None,
            products: self.args.f32_products.into(),
        })
    }
}

impl Choices<'_> {
    /// The blocks of the products.
    fn of_experts(&self, problem: GroupedMatmul) -> Result<OpEmission, CliError> {
        let limit_bytes = bytes_of(self.vmem_limit_kib);
        let pass = self.args.schedule.pass;
        let experts::Choice {
            schedule,
            vmem_limit_bytes,
            ..
        } = experts::Request::of_device(problem, self.target, limit_bytes)
            .choose(pass.into(), gmm::given(&self.args.schedule)?)?;
        let program = experts::program(&problem, &schedule, pass.into())?;
        Ok(OpEmission {
            program: AnyProgram::Experts(program, gmm::choice_text(&schedule, pass)),
            blocks: None,
            x: XForm::Given,
            backward_blocks: None,
            own_blocks: OwnBlocks::default(),
            rounds_w: false,
            strategy: None,
            vmem_limit_bytes,
            misfit: None,
            products: self.args.f32_products.into(),
        })
    }
}

fn kernels<K: Kernel>(
    program: &Program<K>,
    products: F32Products,
) -> Result<Vec<KernelText>, CliError> {
    let launches = program.launches();
    let kernels = launches.iter().map(|(launch, _)| {
        let module = lower(&launch.kernel, products).map_err(CliError::invalid)?;
        Ok(KernelText {
            name: launch.kernel.spec().name().into(),
            mosaic: module.to_pretty(),
            scalars: scalars::text(Scalars::of_first(launch)),
        })
    });
    kernels.collect()
}

/// A kernel of an op.
#[derive(Debug)]
pub(crate) struct KernelText {
    pub(crate) name: String,
    pub(crate) mosaic: String,
    /// What it gets at run time, as a file for `simulate --scalars`, if it gets anything.
    pub(crate) scalars: Option<String>,
}

/// Blocks and strategy, for a person.
pub(crate) fn choice_text(
    (blocks, x): (Option<BlockSizes>, &str),
    (backward_blocks, own, rounds_w): (Option<BlockSizes>, OwnBlocks, bool),
    strategy: Option<&str>,
) -> String {
    let forward = blocks.map(|blocks| format!("forward {}", forward_text(blocks, x)));
    let backward = backward_blocks.map(|blocks| match strategy {
        Some(strategy) => format!(
            "backward {} {strategy}",
            backward_text(blocks, own, rounds_w)
        ),
        None => format!("backward {blocks}"),
    });
    let parts: Vec<String> = [forward, backward].into_iter().flatten().collect();
    parts.join(", ")
}
