//! The fused loss as a call on borrowed slices.

use half::bf16;
use thiserror::Error;
use tilecast_core::DType;
use tilecast_core::kernels::grouped_matmul::GroupedError;
use tilecast_core::kernels::linear_ce::{
    self as kernel, HeadError, Options, Reduction, Schedule, Stored,
};
use tilecast_core::kernels::softmax::LogitsError;
use tilecast_cpu::array::{ArrayError, ArrayMut, ArrayRef, Data};
use tilecast_cpu::simd::untouched;
use tilecast_cpu::{Cpu, CpuError};

use crate::logits::{or_filled, run_to_vectors};

/// A borrowed matrix, f32 or bf16, of any strides.
#[derive(Clone, Debug)]
pub struct Matrix<'a> {
    pub(crate) array: ArrayRef<'a>,
}

impl<'a> Matrix<'a> {
    /// Row-major, without gaps.
    ///
    /// # Errors
    /// The slice has fewer than `rows * columns` elements.
    pub fn new(data: impl Into<Data<'a>>, rows: usize, columns: usize) -> Result<Self, ArrayError> {
        let array = ArrayRef::new(data, &[rows, columns])?;
        Ok(Self { array })
    }

    /// Element `(r, c)` is at `r * strides[0] + c * strides[1]`. A head stored as `[V, H]`, as
    /// PyTorch does, is the `[H, V]` matrix with strides `[1, H]`.
    ///
    /// # Errors
    /// The last element lies beyond the slice.
    pub fn with_strides(
        data: impl Into<Data<'a>>,
        dims: [usize; 2],
        strides: [usize; 2],
    ) -> Result<Self, ArrayError> {
        let array = ArrayRef::with_strides(data, &dims, &strides)?;
        Ok(Self { array })
    }

    pub(crate) fn dims(&self) -> [usize; 2] {
        [self.array.dims()[0], self.array.dims()[1]]
    }

    /// `[B, H, V]` of hidden states and the head `w`, and the type of both.
    pub(crate) fn times(&self, w: &Self) -> Result<([usize; 3], DType), Error> {
        let ([b, h], [w_hidden, v]) = (self.dims(), w.dims());
        if h != w_hidden {
            return Err(Error::Mismatch {
                what: "the number of rows of w",
                got: w_hidden.to_string(),
                with: "the number of columns of x",
                expected: h.to_string(),
            });
        }
        let dtype = self.array.dtype();
        if dtype != w.array.dtype() {
            return Err(Error::Mismatch {
                what: "the type of w",
                got: w.array.dtype().to_string(),
                with: "that of x",
                expected: dtype.to_string(),
            });
        }
        Ok(([b, h, v], dtype))
    }
}

/// Why a loss cannot be computed.
#[derive(Clone, PartialEq, Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// Shapes, options or labels are invalid.
    #[error(transparent)]
    Problem(#[from] HeadError),
    /// The same, of an op on logits.
    #[error(transparent)]
    Logits(Box<LogitsError>),
    /// The same, of a grouped product.
    #[error(transparent)]
    Grouped(Box<GroupedError>),
    /// A slice cannot be the array it is said to be.
    #[error(transparent)]
    Array(#[from] ArrayError),
    /// An array does not fit the op.
    #[error(transparent)]
    Cpu(#[from] CpuError),
    /// Two arguments disagree.
    #[error("{what} is {got}, but {with} is {expected}")]
    Mismatch {
        /// What disagrees.
        what: &'static str,
        /// Its value.
        got: String,
        /// What it disagrees with.
        with: &'static str,
        /// Its value.
        expected: String,
    },
}

impl From<GroupedError> for Error {
    fn from(error: GroupedError) -> Self {
        Self::Grouped(Box::new(error))
    }
}

impl From<LogitsError> for Error {
    fn from(error: LogitsError) -> Self {
        Self::Logits(Box::new(error))
    }
}

/// Cross-entropy of `x w` against `labels`: `x [B,H]`, `w [H,V]`, `labels [B]`. Chain options, then call
/// [`LinearCe::forward`] and [`LinearCe::backward`], or [`LinearCe::forward_and_backward`]; nothing is computed before.
pub fn linear_ce<'a>(x: Matrix<'a>, w: Matrix<'a>, labels: &'a [i32]) -> LinearCe<'a> {
    LinearCe {
        x,
        w,
        labels,
        bias: None,
        weight: None,
        options: Options::default(),
        schedule: None,
        stored: None,
        cpu: Cpu::new(),
    }
}

/// A loss to compute; see [`linear_ce`].
#[derive(Clone, Debug)]
pub struct LinearCe<'a> {
    x: Matrix<'a>,
    w: Matrix<'a>,
    labels: &'a [i32],
    bias: Option<&'a [f32]>,
    weight: Option<&'a [f32]>,
    options: Options,
    schedule: Option<Schedule>,
    stored: Option<Stored>,
    cpu: Cpu,
}

/// Results of the forward pass.
#[derive(Clone, PartialEq, Debug)]
pub struct Forward {
    /// `[B]`, or one number if reduced.
    pub loss: Vec<f32>,
    /// Logsumexp of the logits of each token, `[B]`: the residual of the backward pass.
    pub lse: Vec<f32>,
}

/// Cotangents of the outputs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Cotangents<'a> {
    /// Of `loss`: `[B]`, or one number if reduced; `None` is ones.
    pub d_loss: Option<&'a [f32]>,
    /// Of `lse`: `[B]`; `None` is zeros.
    pub d_lse: Option<&'a [f32]>,
}

impl Cotangents<'_> {
    /// The gradient of the sum of the losses.
    pub const fn ones() -> Self {
        Self {
            d_loss: None,
            d_lse: None,
        }
    }
}

/// The elements of a result, in the type of the inputs or the type asked for.
#[derive(Clone, PartialEq, Debug)]
pub enum Values {
    /// f32
    F32(Vec<f32>),
    /// bf16
    Bf16(Vec<bf16>),
}

impl Values {
    pub(crate) fn zeros(dtype: DType, len: usize) -> Self {
        match dtype {
            DType::Bf16 => Self::Bf16(untouched(len)),
            _ => Self::F32(untouched(len)),
        }
    }

    pub(crate) fn as_array(&mut self, dims: &[usize]) -> Result<ArrayMut<'_>, ArrayError> {
        match self {
            Self::F32(data) => ArrayMut::new(&mut data[..], dims),
            Self::Bf16(data) => ArrayMut::new(&mut data[..], dims),
        }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(data) => data.len(),
            Self::Bf16(data) => data.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements as f32.
    pub fn to_f32(&self) -> Vec<f32> {
        match self {
            Self::F32(data) => data.clone(),
            Self::Bf16(data) => data.iter().map(|x| x.to_f32()).collect(),
        }
    }
}

/// Gradients of the inputs.
#[derive(Clone, PartialEq, Debug)]
pub struct Gradients {
    /// `[B,H]`
    pub dx: Values,
    /// `[H,V]`
    pub dw: Values,
    /// `[V]`, if there is a bias.
    pub dbias: Option<Vec<f32>>,
}

impl Gradients {
    pub(crate) fn zeros([b, h, v]: [usize; 3], dtype: DType, bias: bool) -> Self {
        Self {
            dx: Values::zeros(dtype, b * h),
            dw: Values::zeros(dtype, h * v),
            dbias: bias.then(|| vec![0.0; v]),
        }
    }

    pub(crate) fn as_arrays(
        &mut self,
        [b, h, v]: [usize; 3],
    ) -> Result<GradientsMut<'_>, ArrayError> {
        Ok(GradientsMut {
            dx: self.dx.as_array(&[b, h])?,
            dw: self.dw.as_array(&[h, v])?,
            dbias: self.dbias.as_deref_mut(),
        })
    }
}

/// Where to write gradients; see [`LinearCe::backward_into`].
#[derive(Debug)]
pub struct GradientsMut<'a> {
    /// `[B,H]`
    pub dx: ArrayMut<'a>,
    /// `[H,V]`
    pub dw: ArrayMut<'a>,
    /// `[V]`; given exactly if there is a bias.
    pub dbias: Option<&'a mut [f32]>,
}

impl<'a> GradientsMut<'a> {
    /// By the names of a program.
    pub(crate) fn outputs(self) -> Result<Vec<(&'static str, ArrayMut<'a>)>, ArrayError> {
        let mut outputs = vec![("dx", self.dx), ("dw", self.dw)];
        if let Some(dbias) = self.dbias {
            let len = dbias.len();
            outputs.push(("dbias", ArrayMut::new(dbias, &[len])?));
        }
        Ok(outputs)
    }
}

impl<'a> LinearCe<'a> {
    /// Adds `bias [V]` to the logits.
    pub fn bias(mut self, bias: &'a [f32]) -> Self {
        self.bias = Some(bias);
        self
    }

    /// Multiplies the loss of each token by `weight [B]`. A weight of 0 leaves the token out, even
    /// if its loss is not finite.
    pub fn weight(mut self, weight: &'a [f32]) -> Self {
        self.weight = Some(weight);
        self
    }

    /// Caps logits softly: `cap * tanh(s / cap)`.
    pub fn soft_cap(mut self, cap: f32) -> Self {
        self.options.soft_cap = Some(cap);
        self
    }

    /// Adds `weight * lse^2` to the loss of each token.
    pub fn z_loss(mut self, weight: f32) -> Self {
        self.options.z_loss = weight;
        self
    }

    /// Spreads this share of the target evenly over the vocabulary.
    pub fn label_smoothing(mut self, share: f32) -> Self {
        self.options.label_smoothing = share;
        self
    }

    /// Leaves out tokens with this label.
    pub fn ignore_index(mut self, index: i32) -> Self {
        self.options.ignore_index = Some(index);
        self
    }

    /// Combines the losses of the tokens; by default they are returned one by one.
    pub fn reduction(mut self, reduction: Reduction) -> Self {
        self.options.reduction = reduction;
        self
    }

    /// Type of `dx` and `dw`: that of the inputs by default, or f32.
    pub fn grad_dtype(mut self, dtype: DType) -> Self {
        self.options.grad_dtype = Some(dtype);
        self
    }

    /// Type in which a streaming backward holds the gradient of the logits between its products: that of the
    /// inputs by default. With f32 of bf16 inputs the gradients are rounded once, at up to twice the memory and the
    /// time on processors with fast bf16 products.
    pub fn delta_dtype(mut self, dtype: DType) -> Self {
        self.options.delta_dtype = Some(dtype);
        self
    }

    /// Block sizes and strategy; by default chosen for this machine. With it
    /// [`LinearCe::forward_and_backward`] stores no logits.
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        (self.schedule, self.stored) = (Some(schedule), None);
        self
    }

    /// How many logits [`LinearCe::forward_and_backward`] stores, and block sizes; by default chosen for this machine.
    pub fn stored(mut self, stored: Stored) -> Self {
        self.stored = Some(stored);
        self
    }

    /// Where to run: number of threads, instruction set.
    pub fn on(mut self, cpu: Cpu) -> Self {
        self.cpu = cpu;
        self
    }

    /// Loss and logsumexp.
    ///
    /// # Errors
    /// Shapes that disagree, options out of range, a label outside the vocabulary: all found before
    /// anything is computed.
    pub fn forward(&self) -> Result<Forward, Error> {
        let problem = self.problem()?;
        let program = problem.forward(&self.schedule_for(&problem))?;
        let outputs = self.forward_outputs(&problem);
        let [loss, lse] = run_to_vectors(&self.cpu, &program, &self.inputs()?, outputs, vec![])?;
        Ok(Forward { loss, lse })
    }

    /// Gradients of the inputs, from the logsumexp that [`LinearCe::forward`] returned.
    ///
    /// # Errors
    /// As for [`LinearCe::forward`].
    pub fn backward(&self, lse: &[f32], cotangents: Cotangents<'_>) -> Result<Gradients, Error> {
        let problem = self.problem()?;
        let dims = [problem.tokens(), problem.hidden(), problem.vocab()];
        let mut gradients = Gradients::zeros(dims, problem.grad_dtype(), self.bias.is_some());
        self.backward_into(lse, cotangents, gradients.as_arrays(dims)?)?;
        Ok(gradients)
    }

    /// Like [`LinearCe::backward`], into memory of the caller, of any strides.
    ///
    /// # Errors
    /// As for [`LinearCe::forward`], and if an output has another shape or type.
    pub fn backward_into(
        &self,
        lse: &[f32],
        cotangents: Cotangents<'_>,
        out: GradientsMut<'_>,
    ) -> Result<(), Error> {
        let problem = self.problem()?;
        let mut inputs = self.inputs()?;
        let [d_loss, d_lse] = self.cotangents(&problem, cotangents);
        inputs.extend([
            ("lse", vector(lse)?),
            ("d_loss", vector(&d_loss)?),
            ("d_lse", vector(&d_lse)?),
        ]);
        let program = problem.backward(&self.schedule_for(&problem))?;
        self.cpu.run(&program, &inputs, out.outputs()?)?;
        Ok(())
    }

    /// Loss, logsumexp and gradients in one call, where the cotangents do not depend on the loss. The logits then need
    /// not be computed again. In f32 they are stored: where `dw` will be, if that has as many rows as there are tokens,
    /// else those of a chunk of tokens, in at most 48 MiB per thread with everything else that is beyond inputs and
    /// outputs. In bf16 with a [delta](LinearCe::delta_dtype) in bf16 and no soft cap their exponentials are, in `dw`.
    /// Where a chunk is too few tokens to pay, and in bf16 with more tokens than `H`, those are stored that `dw` has
    /// rows for, if that is an eighth of them. Otherwise the passes are those of [`LinearCe::forward`] and
    /// [`LinearCe::backward`].
    ///
    /// # Errors
    /// As for [`LinearCe::forward`].
    pub fn forward_and_backward(
        &self,
        cotangents: Cotangents<'_>,
    ) -> Result<(Forward, Gradients), Error> {
        let problem = self.problem()?;
        let dims = [problem.tokens(), problem.hidden(), problem.vocab()];
        let mut gradients = Gradients::zeros(dims, problem.grad_dtype(), self.bias.is_some());
        let forward = self.forward_and_backward_into(cotangents, gradients.as_arrays(dims)?)?;
        Ok((forward, gradients))
    }

    /// Like [`LinearCe::forward_and_backward`], with the gradients in memory of the caller, of any strides.
    ///
    /// # Errors
    /// As for [`LinearCe::forward`], and if an output has another shape or type.
    pub fn forward_and_backward_into(
        &self,
        cotangents: Cotangents<'_>,
        out: GradientsMut<'_>,
    ) -> Result<Forward, Error> {
        let problem = self.problem()?;
        let mut inputs = self.inputs()?;
        let [d_loss, d_lse] = self.cotangents(&problem, cotangents);
        inputs.extend([("d_loss", vector(&d_loss)?), ("d_lse", vector(&d_lse)?)]);
        let stored = match self.schedule {
            None => Stored::for_cache(problem.head(), &self.cpu.cache()),
            Some(_) => None,
        };
        let program = match self.stored.or(stored) {
            Some(stored) => problem.forward_and_backward_stored(&stored)?,
            None => problem.forward_and_backward(&self.schedule_for(&problem))?,
        };
        let (outputs, gradients) = (self.forward_outputs(&problem), out.outputs()?);
        let [loss, lse] = run_to_vectors(&self.cpu, &program, &inputs, outputs, gradients)?;
        Ok(Forward { loss, lse })
    }

    /// Number of losses.
    fn losses(&self, problem: &kernel::LinearCe) -> usize {
        match self.options.reduction {
            Reduction::None => problem.tokens(),
            _ => 1,
        }
    }

    /// Loss and logsumexp, with their lengths.
    fn forward_outputs(&self, problem: &kernel::LinearCe) -> [(&'static str, usize); 2] {
        [("loss", self.losses(problem)), ("lse", problem.tokens())]
    }

    /// The cotangents of loss and logsumexp, given or not.
    fn cotangents(&self, problem: &kernel::LinearCe, given: Cotangents<'_>) -> [Vec<f32>; 2] {
        [
            or_filled(given.d_loss, 1.0, self.losses(problem)),
            or_filled(given.d_lse, 0.0, problem.tokens()),
        ]
    }

    /// The op on these shapes.
    fn problem(&self) -> Result<kernel::LinearCe, Error> {
        let ([b, h, v], dtype) = self.x.times(&self.w)?;
        let options = Options {
            bias: self.bias.is_some(),
            weight: self.weight.is_some(),
            ..self.options
        };
        let problem = kernel::LinearCe::new(b, h, v, dtype, options)?;
        if self.labels.len() != b {
            return Err(Error::Mismatch {
                what: "the number of labels",
                got: self.labels.len().to_string(),
                with: "the number of rows of x",
                expected: b.to_string(),
            });
        }
        problem.check_labels(self.labels.iter().map(|&label| i64::from(label)))?;
        Ok(problem)
    }

    fn schedule_for(&self, problem: &kernel::LinearCe) -> Schedule {
        self.schedule
            .unwrap_or_else(|| Schedule::for_cache(problem.head(), &self.cpu.cache()))
    }

    fn inputs(&self) -> Result<Vec<(&'static str, ArrayRef<'a>)>, Error> {
        let mut inputs = vec![
            ("x", self.x.array.clone()),
            ("w", self.w.array.clone()),
            ("labels", vector(self.labels)?),
        ];
        if let Some(bias) = self.bias {
            inputs.push(("bias", vector(bias)?));
        }
        if let Some(weight) = self.weight {
            inputs.push(("weight", vector(weight)?));
        }
        Ok(inputs)
    }
}

pub(crate) fn vector<'a, T>(data: &'a [T]) -> Result<ArrayRef<'a>, ArrayError>
where
    &'a [T]: Into<Data<'a>>,
{
    ArrayRef::new(data, &[data.len()])
}
