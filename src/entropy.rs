//! Entropy of given logits, or of those of a head, as a call on borrowed slices.

use tilecast_core::DType;
use tilecast_core::kernels::entropy as kernel;
use tilecast_core::kernels::logits_op::LogitsOp;
use tilecast_core::kernels::softmax::LogitsOptions;
use tilecast_cpu::array::ArrayRef;

use crate::head::{Head, head_forms};
use crate::linear_ce::{Error, Matrix, vector};
use crate::logits::{Setting, backward_forms, common_options, or_filled, shape};

/// Entropy of the softmax of logits `[B,V]`, per token. Chain options, then call
/// [`Entropy::forward`] and [`Entropy::backward`].
pub fn new() -> Entropy {
    Entropy {
        options: Options::default(),
        setting: Setting::new(),
    }
}

/// An entropy to compute; see [`new`].
#[derive(Clone, Debug)]
pub struct Entropy {
    options: Options,
    setting: Setting,
}

#[derive(Clone, Copy, Debug, Default)]
struct Options {
    logits: LogitsOptions,
}

/// Results of the forward pass, each `[B]`.
#[derive(Clone, PartialEq, Debug)]
pub struct Forward {
    /// Entropy, in nats.
    pub entropy: Vec<f32>,
    /// Logsumexp of the logits divided by the temperature.
    pub lse: Vec<f32>,
}

/// Cotangents of the outputs.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Cotangents<'a> {
    /// Of the entropy, `[B]`; `None` is ones.
    pub d_entropy: Option<&'a [f32]>,
}

impl Entropy {
    common_options!();

    /// Entropy and logsumexp.
    ///
    /// # Errors
    /// Options out of range.
    pub fn forward(&self, logits: Matrix<'_>) -> Result<Forward, Error> {
        let problem = self.problem(&logits.array, false)?;
        let program = problem.forward(&self.setting.schedule_for(problem.logits()))?;
        let outputs = self.outputs(problem.logits().tokens());
        let inputs = self.forward_inputs()?;
        let found = (self.setting).forward(&program, &logits, inputs, outputs)?;
        Ok(Self::forward_from(found))
    }

    backward_forms!(Cotangents);
    head_forms!(Cotangents);

    /// Names and lengths of the outputs.
    fn outputs(&self, b: usize) -> [(&'static str, usize); 2] {
        [("entropy", b), ("lse", b)]
    }

    fn forward_from([entropy, lse]: [Vec<f32>; 2]) -> Forward {
        Forward { entropy, lse }
    }

    /// The one given, or its default.
    fn filled(&self, cotangents: Cotangents<'_>, b: usize) -> Vec<f32> {
        or_filled(cotangents.d_entropy, 1.0, b)
    }

    fn forward_inputs(&self) -> Result<Vec<(&'static str, ArrayRef<'static>)>, Error> {
        Ok(Vec::new())
    }

    fn backward_inputs<'i>(
        &self,
        forward: &'i Forward,
        d_entropy: &'i [f32],
    ) -> Result<Vec<(&'static str, ArrayRef<'i>)>, Error> {
        Ok(vec![
            ("lse", vector(&forward.lse)?),
            ("entropy", vector(&forward.entropy)?),
            ("d_entropy", vector(d_entropy)?),
        ])
    }

    fn problem(&self, logits: &ArrayRef<'_>, in_place: bool) -> Result<kernel::Entropy, Error> {
        self.problem_of(shape(logits)?, logits.dtype(), in_place)
    }

    fn of_head(&self, head: &Head<'_>) -> Result<LogitsOp, Error> {
        let ([b, _, v], dtype) = head.dims()?;
        Ok(LogitsOp::Entropy(self.problem_of([b, v], dtype, false)?))
    }

    fn problem_of(
        &self,
        [b, v]: [usize; 2],
        dtype: DType,
        in_place: bool,
    ) -> Result<kernel::Entropy, Error> {
        let mut options = self.options.logits;
        options.in_place = in_place;
        Ok(kernel::Entropy::new(b, v, dtype, options)?)
    }
}
