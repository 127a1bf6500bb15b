//! Entropy of given logits as a call on borrowed slices.

use tilecast_core::kernels::entropy as kernel;
use tilecast_core::kernels::softmax::LogitsOptions;
use tilecast_cpu::array::ArrayRef;

use crate::linear_ce::{Error, Matrix, vector};
use crate::logits::{Place, Setting, backward_forms, common_options, or_filled, shape};

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
        let b = problem.logits().tokens();
        let outputs = [("entropy", b), ("lse", b)];
        let [entropy, lse] = (self.setting).forward(&program, &logits, Vec::new(), outputs)?;
        Ok(Forward { entropy, lse })
    }

    backward_forms!(Cotangents);

    fn backward_at(
        &self,
        place: Place<'_>,
        forward: &Forward,
        cotangents: Cotangents<'_>,
    ) -> Result<(), Error> {
        let problem = self.problem(&place.logits(), place.in_place())?;
        let d_entropy = or_filled(cotangents.d_entropy, 1.0, problem.logits().tokens());
        let inputs = vec![
            ("lse", vector(&forward.lse)?),
            ("entropy", vector(&forward.entropy)?),
            ("d_entropy", vector(&d_entropy)?),
        ];
        let program = problem.backward(&self.setting.schedule_for(problem.logits()))?;
        self.setting.backward(&program, place, inputs)
    }

    fn problem(&self, logits: &ArrayRef<'_>, in_place: bool) -> Result<kernel::Entropy, Error> {
        let mut options = self.options.logits;
        options.in_place = in_place;
        let [b, v] = shape(logits)?;
        Ok(kernel::Entropy::new(b, v, logits.dtype(), options)?)
    }
}
