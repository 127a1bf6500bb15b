//! The kernels as steps of a program.

use super::forward::Forward;
use super::gradient::{Gradient, Terms};
use super::{Logits, LogitsError, Schedule, Wanted};
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

/// Where logits come from, and where their gradient goes: memory in both cases, or a head that computes them.
pub(crate) trait Source: Sized {
    /// Its kernels.
    type Kernel: Kernel;

    /// Adds what computes `found` as far as it is wanted. Labels are given if their logit is.
    fn statistics(
        p: &mut SoftmaxProgram<Self>,
        wanted: Wanted,
        labels: Option<ArrayId>,
        found: &Found,
    ) -> Result<(), LogitsError>;

    /// Adds what computes the gradients.
    fn gradient(p: &mut SoftmaxProgram<Self>, vectors: &Vectors) -> Result<(), LogitsError>;
}

/// A program of an op on logits, with what the logits come from declared.
pub(crate) struct SoftmaxProgram<S: Source> {
    pub(crate) program: Program<S::Kernel>,
    pub(crate) source: S,
    pub(crate) problem: Logits,
}

/// Logits in memory.
#[derive(Clone, Copy)]
pub(crate) struct Stored {
    logits: ArrayId,
    schedule: Schedule,
}

impl SoftmaxProgram<Stored> {
    /// A program that only reads its logits.
    pub(crate) fn forward(name: &'static str, problem: &Logits, schedule: &Schedule) -> Self {
        Self::stored(name, problem, schedule, Role::Input)
    }

    /// A program that writes their gradient, over them if that is asked for.
    pub(crate) fn backward(name: &'static str, problem: &Logits, schedule: &Schedule) -> Self {
        let role = match problem.options().in_place {
            true => Role::InPlace,
            false => Role::Input,
        };
        Self::stored(name, problem, schedule, role)
    }

    fn stored(name: &'static str, problem: &Logits, schedule: &Schedule, role: Role) -> Self {
        let mut program = Program::new(name);
        let dims = [problem.tokens(), problem.vocab()];
        let logits = program.array(role, "logits", problem.dtype(), dims);
        let schedule = *schedule;
        Self {
            program,
            source: Stored { logits, schedule },
            problem: *problem,
        }
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
            tables: [].into(),
        }))?)
    }
}

impl Source for Stored {
    type Kernel = SoftmaxKernel;

    fn statistics(
        p: &mut SoftmaxProgram<Self>,
        wanted: Wanted,
        labels: Option<ArrayId>,
        found: &Found,
    ) -> Result<(), LogitsError> {
        let Self { logits, schedule } = p.source;
        let kernel = Forward::new(&p.problem, wanted, schedule.forward)?;
        let operands = [Some(logits), labels].into_iter().flatten();
        let operands = operands.chain(found.operands());
        p.launch(SoftmaxKernel::Forward(kernel), operands)
    }

    fn gradient(p: &mut SoftmaxProgram<Self>, vectors: &Vectors) -> Result<(), LogitsError> {
        let (Self { logits, schedule }, problem) = (p.source, p.problem);
        let kernel = Gradient::new(&problem, vectors.terms(), schedule.backward)?;
        let d_logits = match problem.options().in_place {
            true => logits,
            false => {
                let dims = [problem.tokens(), problem.vocab()];
                let dtype = problem.grad_dtype();
                p.program.array(Role::Output, "d_logits", dtype, dims)
            }
        };
        let operands = [logits].into_iter().chain(vectors.operands());
        p.launch(SoftmaxKernel::Gradient(kernel), operands.chain([d_logits]))
    }
}

impl<S: Source> SoftmaxProgram<S> {
    /// An f32 array with one element per token.
    pub(crate) fn vector(&mut self, role: Role, name: &'static str) -> ArrayId {
        let dims = [self.problem.tokens()];
        match role {
            Role::Input => self.input(name, DType::F32, dims),
            _ => self.program.array(role, name, DType::F32, dims),
        }
    }

    /// An input; where both passes are one program, the one that both read, or what the forward pass has put out.
    pub(crate) fn input<const N: usize>(
        &mut self,
        name: &'static str,
        dtype: DType,
        dims: [usize; N],
    ) -> ArrayId {
        let found = self.program.find(name, &[Role::Input, Role::Output]);
        found.unwrap_or_else(|| self.program.array(Role::Input, name, dtype, dims))
    }

    /// The labels.
    pub(crate) fn labels(&mut self) -> ArrayId {
        let dims = [self.problem.tokens()];
        self.input("labels", DType::I32, dims)
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

impl Found {
    /// All there is, in the order of the statistics kernels' outputs.
    pub(crate) fn operands(&self) -> impl Iterator<Item = ArrayId> + use<> {
        let vectors = [
            Some(self.lse),
            self.label_logit,
            self.logit_sum,
            self.entropy,
        ];
        vectors.into_iter().flatten()
    }
}

/// Adds the statistics. `lse` and the entropy are outputs of the program. Labels are given if
/// their logit is wanted.
pub(crate) fn statistics<S: Source>(
    to: &mut SoftmaxProgram<S>,
    wanted: Wanted,
    labels: Option<ArrayId>,
) -> Result<Found, LogitsError> {
    let mut vector = |role, name| to.vector(role, name);
    let found = Found {
        lse: vector(Role::Output, "lse"),
        label_logit: (wanted.label_logit).then(|| vector(Role::Temporary, "label_logit")),
        logit_sum: (wanted.logit_sum).then(|| vector(Role::Temporary, "logit_sum")),
        entropy: (wanted.entropy).then(|| vector(Role::Output, "entropy")),
    };
    S::statistics(to, wanted, labels, &found)?;
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

/// The same, computed and scaled to the logits.
#[derive(Clone, Copy)]
pub(crate) struct Vectors {
    lse: ArrayId,
    probability: ArrayId,
    log_probability: Option<ArrayId>,
    /// Labels, and what they take.
    one_hot: Option<[ArrayId; 2]>,
    uniform: Option<ArrayId>,
}

impl Vectors {
    pub(crate) fn terms(&self) -> Terms {
        Terms {
            log_probability: self.log_probability.is_some(),
            one_hot: self.one_hot.is_some(),
            uniform: self.uniform.is_some(),
        }
    }

    /// All there is, in the order of the gradient kernels' inputs.
    pub(crate) fn operands(&self) -> impl Iterator<Item = ArrayId> + use<> {
        let (labels, one_hot) = self.one_hot.map(Into::into).unzip();
        let vectors = [
            Some(self.lse),
            Some(self.probability),
            self.log_probability,
            labels,
            one_hot,
            self.uniform,
        ];
        vectors.into_iter().flatten()
    }
}

/// Adds the gradient, from the logsumexp and the coefficients with respect to `z`.
pub(crate) fn gradient<S: Source>(
    to: &mut SoftmaxProgram<S>,
    lse: ArrayId,
    coefficients: Coefficients,
) -> Result<(), LogitsError> {
    let Coefficients {
        probability,
        log_probability,
        one_hot,
        uniform,
    } = coefficients;
    let scale = to.problem.scale();
    let probability = to.let_vector("probability", probability * scale)?;
    let mut scaled = |name, value: Option<Expr<ArrayId>>| {
        value
            .map(|value| to.let_vector(name, value * scale))
            .transpose()
    };
    let (labels, one_hot) = one_hot.unzip();
    let vectors = Vectors {
        lse,
        probability,
        log_probability: scaled("log_probability", log_probability)?,
        one_hot: match (labels, scaled("one_hot", one_hot)?) {
            (Some(labels), Some(one_hot)) => Some([labels, one_hot]),
            _ => None,
        },
        uniform: scaled("uniform", uniform)?,
    };
    S::gradient(to, &vectors)
}
