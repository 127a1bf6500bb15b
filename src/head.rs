//! A head as the source of the logits of [`grpo`](crate::grpo) and [`entropy`](crate::entropy).

use tilecast_core::DType;
use tilecast_core::kernels::head::{HeadOptions, Schedule};
use tilecast_core::kernels::linear_op::LinearOp;
use tilecast_core::kernels::logits_op::LogitsOp;
use tilecast_cpu::Cpu;
use tilecast_cpu::array::ArrayRef;

use crate::linear_ce::{Error, GradientsMut, Matrix, vector};
use crate::logits::run_to_vectors;

/// Hidden states `x [B,H]` and the head `w [H,V]` that makes logits of them. The logits are never stored.
///
/// ```
/// use tilecast::{Head, Matrix, entropy};
///
/// # fn main() -> Result<(), tilecast::Error> {
/// // 3 tokens, 4 hidden, 5 words.
/// let x: Vec<f32> = (0..12).map(|i| (i as f32 * 0.7).sin()).collect();
/// let w: Vec<f32> = (0..20).map(|i| (i as f32 * 0.3).cos()).collect();
/// let head = Head::new(Matrix::new(&x[..], 3, 4)?, Matrix::new(&w[..], 4, 5)?);
///
/// let op = entropy::new().temperature(0.7);
/// let forward = op.forward_of_head(&head)?;
/// let gradients = op.backward_of_head(&head, &forward, entropy::Cotangents::default())?;
///
/// assert!(forward.entropy.iter().all(|&entropy| 0.0 < entropy && entropy < 5.0_f32.ln()));
/// assert_eq!(gradients.dw.len(), 20);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Head<'a> {
    x: Matrix<'a>,
    w: Matrix<'a>,
    bias: Option<&'a [f32]>,
    options: HeadOptions,
    schedule: Option<Schedule>,
}

impl<'a> Head<'a> {
    /// The head on these hidden states; shapes are compared when something is computed.
    pub fn new(x: Matrix<'a>, w: Matrix<'a>) -> Self {
        Self {
            x,
            w,
            bias: None,
            options: HeadOptions::default(),
            schedule: None,
        }
    }

    /// Adds `bias [V]` to the logits.
    pub fn bias(mut self, bias: &'a [f32]) -> Self {
        self.bias = Some(bias);
        self.options.bias = true;
        self
    }

    /// Caps logits softly: `cap * tanh(s / cap)`, before the temperature divides them.
    pub fn soft_cap(mut self, cap: f32) -> Self {
        self.options.soft_cap = Some(cap);
        self
    }

    /// Type in which a streaming backward holds the gradient of the logits between its products; that of the inputs by
    /// default.
    pub fn delta_dtype(mut self, dtype: DType) -> Self {
        self.options.delta_dtype = Some(dtype);
        self
    }

    /// Block sizes and strategy; by default chosen for this machine. Those of the op itself are for given logits.
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        self.schedule = Some(schedule);
        self
    }

    /// `[B, H, V]`, and the type of inputs and logits.
    pub(crate) fn dims(&self) -> Result<([usize; 3], DType), Error> {
        self.x.times(&self.w)
    }

    /// Whether there is a bias.
    pub(crate) fn has_bias(&self) -> bool {
        self.bias.is_some()
    }

    /// Runs the forward pass to vectors of the given lengths.
    pub(crate) fn forward<const N: usize>(
        &self,
        cpu: &Cpu,
        op: LogitsOp,
        inputs: Vec<(&'static str, ArrayRef<'_>)>,
        outputs: [(&'static str, usize); N],
    ) -> Result<[Vec<f32>; N], Error> {
        let program = self.op(op)?.forward(&self.schedule_for(cpu, op)?)?;
        run_to_vectors(cpu, &program, &self.inputs(inputs)?, outputs, Vec::new())
    }

    /// Runs the backward pass.
    pub(crate) fn backward(
        &self,
        cpu: &Cpu,
        op: LogitsOp,
        inputs: Vec<(&'static str, ArrayRef<'_>)>,
        out: GradientsMut<'_>,
    ) -> Result<(), Error> {
        let program = self.op(op)?.backward(&self.schedule_for(cpu, op)?)?;
        cpu.run(&program, &self.inputs(inputs)?, out.outputs()?)?;
        Ok(())
    }

    fn op(&self, op: LogitsOp) -> Result<LinearOp, Error> {
        let ([_, h, _], _) = self.dims()?;
        Ok(LinearOp::new(op, h, self.options)?)
    }

    fn schedule_for(&self, cpu: &Cpu, op: LogitsOp) -> Result<Schedule, Error> {
        match self.schedule {
            Some(schedule) => Ok(schedule),
            None => Ok(Schedule::for_cache(self.op(op)?.head(), &cpu.cache())),
        }
    }

    fn inputs<'i>(
        &'i self,
        mut of_rows: Vec<(&'static str, ArrayRef<'i>)>,
    ) -> Result<Vec<(&'static str, ArrayRef<'i>)>, Error> {
        of_rows.extend([("x", self.x.array.clone()), ("w", self.w.array.clone())]);
        if let Some(bias) = self.bias {
            of_rows.push(("bias", vector(bias)?));
        }
        Ok(of_rows)
    }
}

/// The forms of an op on the logits of a head, made of `of_head`, `forward_inputs`, `outputs`,
/// `forward_from`, `filled` and `backward_inputs`.
macro_rules! head_forms {
    ($cotangents:ident) => {
        /// Like [`Self::forward`], of the logits of a head.
        ///
        /// # Errors
        /// As for [`Self::forward`], and `x` and `w` that do not fit each other.
        pub fn forward_of_head(&self, head: &$crate::Head<'_>) -> Result<Forward, $crate::Error> {
            let op = self.of_head(head)?;
            let inputs = self.forward_inputs()?;
            let outputs = self.outputs(op.logits().tokens());
            let found = head.forward(&self.setting.cpu, op, inputs, outputs)?;
            Ok(Self::forward_from(found))
        }

        /// The gradients of what the logits are made of, from what [`Self::forward_of_head`] returned.
        ///
        /// # Errors
        /// As for [`Self::forward_of_head`], and a cotangent of another length.
        pub fn backward_of_head(
            &self,
            head: &$crate::Head<'_>,
            forward: &Forward,
            cotangents: $cotangents<'_>,
        ) -> Result<$crate::Gradients, $crate::Error> {
            let (dims, _) = head.dims()?;
            let dtype = self.of_head(head)?.logits().grad_dtype();
            let mut gradients = $crate::Gradients::zeros(dims, dtype, head.has_bias());
            let out = gradients.as_arrays(dims)?;
            self.backward_of_head_into(head, forward, cotangents, out)?;
            Ok(gradients)
        }

        /// Like [`Self::backward_of_head`], into memory of the caller, of any strides.
        ///
        /// # Errors
        /// As for [`Self::backward_of_head`], and an output of another shape or type.
        pub fn backward_of_head_into(
            &self,
            head: &$crate::Head<'_>,
            forward: &Forward,
            cotangents: $cotangents<'_>,
            out: $crate::GradientsMut<'_>,
        ) -> Result<(), $crate::Error> {
            let op = self.of_head(head)?;
            let cotangents = self.filled(cotangents, op.logits().tokens());
            let inputs = self.backward_inputs(forward, &cotangents)?;
            head.backward(&self.setting.cpu, op, inputs, out)
        }
    };
}
pub(crate) use head_forms;
