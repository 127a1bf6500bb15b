//! The kernels as steps of a program.

use super::forward::Forward;
use super::gradient::{Gradient, Terms};
use super::{Blocks, Logits, LogitsError, Wanted};
use crate::DType;
use crate::expr::Expr;
use crate::ops::TileOps;
use crate::program::{ArrayId, Kernel, Launch, Program, Role, Step};
use crate::spec::KernelSpec;

/// Any kernel of the ops on logits.
#[derive(Clone, Debug)]
pub enum SoftmaxKernel {
    /// Statistics of each row.
    Forward(Forward),
    /// The gradient of the logits.
    Gradient(Gradient),
}

impl Kernel for SoftmaxKernel {
    fn spec(&self) -> &KernelSpec {
        match self {
            Self::Forward(k) => k.spec(),
            Self::Gradient(k) => k.spec(),
        }
    }

    fn body<T: TileOps>(&self, t: &T) {
        match self {
            Self::Forward(k) => k.body(t),
            Self::Gradient(k) => k.body(t),
        }
    }
}

/// A program of an op on logits, with its logits declared.
pub(crate) struct SoftmaxProgram {
    pub(crate) program: Program<SoftmaxKernel>,
    pub(crate) logits: ArrayId,
    problem: Logits,
}

impl SoftmaxProgram {
    /// A program that only reads its logits.
    pub(crate) fn forward(name: &'static str, problem: &Logits) -> Self {
        Self::new(name, problem, Role::Input)
    }

    /// A program that writes their gradient, over them if that is asked for.
    pub(crate) fn backward(name: &'static str, problem: &Logits) -> Self {
        let role = match problem.options().in_place {
            true => Role::InPlace,
            false => Role::Input,
        };
        Self::new(name, problem, role)
    }

    fn new(name: &'static str, problem: &Logits, role: Role) -> Self {
        let mut program = Program::new(name);
        let dims = [problem.tokens(), problem.vocab()];
        let logits = program.array(role, "logits", problem.dtype(), dims);
        Self {
            program,
            logits,
            problem: *problem,
        }
    }

    /// An f32 array with one element per token.
    pub(crate) fn vector(&mut self, role: Role, name: &'static str) -> ArrayId {
        let dims = [self.problem.tokens()];
        self.program.array(role, name, DType::F32, dims)
    }

    /// The labels.
    pub(crate) fn labels(&mut self) -> ArrayId {
        let dims = [self.problem.tokens()];
        self.program.array(Role::Input, "labels", DType::I32, dims)
    }

    /// `to = value`
    pub(crate) fn map(&mut self, to: ArrayId, value: Expr<ArrayId>) -> Result<(), LogitsError> {
        Ok(self.program.push(Step::Map { to, value })?)
    }

    /// A temporary vector `= value`.
    pub(crate) fn let_vector(
        &mut self,
        name: &'static str,
        value: Expr<ArrayId>,
    ) -> Result<ArrayId, LogitsError> {
        let to = self.vector(Role::Temporary, name);
        self.map(to, value)?;
        Ok(to)
    }

    fn launch(
        &mut self,
        kernel: SoftmaxKernel,
        operands: impl IntoIterator<Item = ArrayId>,
    ) -> Result<(), LogitsError> {
        let (operands, scalars) = (operands.into_iter().collect(), [].into());
        Ok(self.program.push(Step::Launch(Launch {
            kernel,
            operands,
            scalars,
        }))?)
    }
}

/// What the statistics kernel has found.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    pub(crate) lse: ArrayId,
    /// Of the logits before they are scaled.
    pub(crate) label_logit: Option<ArrayId>,
    /// Of the logits before they are scaled.
    pub(crate) logit_sum: Option<ArrayId>,
    pub(crate) entropy: Option<ArrayId>,
}

/// Adds the statistics kernel. `lse` and the entropy are outputs of the program. Labels are given if
/// their logit is wanted.
pub(crate) fn statistics(
    to: &mut SoftmaxProgram,
    wanted: Wanted,
    labels: Option<ArrayId>,
    blocks: Blocks,
) -> Result<Found, LogitsError> {
    let kernel = Forward::new(&to.problem, wanted, blocks)?;
    let mut vector = |role, name| to.vector(role, name);
    let found = Found {
        lse: vector(Role::Output, "lse"),
        label_logit: (wanted.label_logit).then(|| vector(Role::Temporary, "label_logit")),
        logit_sum: (wanted.logit_sum).then(|| vector(Role::Temporary, "logit_sum")),
        entropy: (wanted.entropy).then(|| vector(Role::Output, "entropy")),
    };
    let operands = [
        Some(to.logits),
        labels,
        Some(found.lse),
        found.label_logit,
        found.logit_sum,
        found.entropy,
    ];
    to.launch(
        SoftmaxKernel::Forward(kernel),
        operands.into_iter().flatten(),
    )?;
    Ok(found)
}

/// The coefficients of a gradient with respect to `z`, per token.
pub(crate) struct Coefficients {
    /// Of the probability.
    pub(crate) probability: Expr<ArrayId>,
    /// Of the probability times its logarithm.
    pub(crate) log_probability: Option<Expr<ArrayId>>,
    /// Labels, and what they take.
    pub(crate) one_hot: Option<(ArrayId, Expr<ArrayId>)>,
    /// What every column takes.
    pub(crate) uniform: Option<Expr<ArrayId>>,
}

/// Adds the gradient kernel, from the logsumexp and the coefficients with respect to `z`.
pub(crate) fn gradient(
    to: &mut SoftmaxProgram,
    lse: ArrayId,
    coefficients: Coefficients,
    blocks: Blocks,
) -> Result<(), LogitsError> {
    let Coefficients {
        probability,
        log_probability,
        one_hot,
        uniform,
    } = coefficients;
    let problem = to.problem;
    let terms = Terms {
        log_probability: log_probability.is_some(),
        one_hot: one_hot.is_some(),
        uniform: uniform.is_some(),
    };
    let kernel = Gradient::new(&problem, terms, blocks)?;
    let scale = problem.scale();
    let mut scaled = |name, value: Option<Expr<ArrayId>>| {
        value
            .map(|value| to.let_vector(name, value * scale))
            .transpose()
    };
    let probability = scaled("probability", Some(probability))?;
    let log_probability = scaled("log_probability", log_probability)?;
    let (labels, one_hot) = one_hot.unzip();
    let one_hot = scaled("one_hot", one_hot)?;
    let uniform = scaled("uniform", uniform)?;
    let d_logits = match problem.options().in_place {
        true => to.logits,
        false => {
            let dims = [problem.tokens(), problem.vocab()];
            let dtype = problem.grad_dtype();
            to.program.array(Role::Output, "d_logits", dtype, dims)
        }
    };
    let operands = [
        Some(to.logits),
        Some(lse),
        probability,
        log_probability,
        labels,
        one_hot,
        uniform,
        Some(d_logits),
    ];
    to.launch(
        SoftmaxKernel::Gradient(kernel),
        operands.into_iter().flatten(),
    )
}
