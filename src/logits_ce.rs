//! Cross-entropy of given logits as a call on borrowed slices.

use tilecast_core::kernels::logits_ce as kernel;
use tilecast_core::kernels::logits_ce::Options;
use tilecast_cpu::array::ArrayRef;

use crate::linear_ce::{Error, Matrix, vector};
use crate::logits::{Setting, backward_forms, common_options, or_filled, shape};

/// Cross-entropy of logits `[B,V]` against `labels [B]`. Chain options, then call
/// [`LogitsCe::forward`] and [`LogitsCe::backward`].
///
/// ```
/// use tilecast::{Matrix, logits_ce};
///
/// # fn main() -> Result<(), tilecast::Error> {
/// let logits = [0.0_f32, 1.0, 2.0, 3.0, -1.0, 0.5];
/// let loss = logits_ce::new(&[2, 0]).temperature(0.7);
/// let forward = loss.forward(Matrix::new(&logits[..], 2, 3)?)?;
/// let cotangents = logits_ce::Cotangents::default();
/// let d_logits = loss.backward(Matrix::new(&logits[..], 2, 3)?, &forward, cotangents)?;
///
/// // Without smoothing and z-loss the loss is the negative log-probability.
/// assert!((forward.loss[1] + forward.logp[1]).abs() < 1e-6);
/// assert!(d_logits.to_f32().iter().sum::<f32>().abs() < 1e-6);
/// # Ok(())
/// # }
/// ```
pub fn new(labels: &[i32]) -> LogitsCe<'_> {
    LogitsCe {
        labels,
        options: Options::default(),
        setting: Setting::new(),
    }
}

/// A loss to compute; see [`new`].
#[derive(Clone, Debug)]
pub struct LogitsCe<'a> {
    labels: &'a [i32],
    options: Options,
    setting: Setting,
}

/// Results of the forward pass, each `[B]`.
#[derive(Clone, PartialEq, Debug)]
pub struct Forward {
    /// Loss; 0 for ignored tokens.
    pub loss: Vec<f32>,
    /// Log-probability of the label; 0 for ignored tokens.
    pub logp: Vec<f32>,
    /// Logsumexp of the logits divided by the temperature.
    pub lse: Vec<f32>,
}

/// Cotangents of the outputs, each `[B]`.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Cotangents<'a> {
    /// Of the loss; `None` is ones.
    pub d_loss: Option<&'a [f32]>,
    /// Of the log-probability; `None` is zeros.
    pub d_logp: Option<&'a [f32]>,
    /// Of the logsumexp; `None` is zeros.
    pub d_lse: Option<&'a [f32]>,
}

impl LogitsCe<'_> {
    common_options!();

    /// Leaves out tokens with this label.
    pub fn ignore_index(mut self, index: i32) -> Self {
        self.options.ignore_index = Some(index);
        self
    }

    /// Spreads this share of the target evenly over the vocabulary.
    pub fn label_smoothing(mut self, share: f32) -> Self {
        self.options.label_smoothing = share;
        self
    }

    /// Adds `weight * lse^2` to the loss of each token.
    pub fn z_loss(mut self, weight: f32) -> Self {
        self.options.z_loss = weight;
        self
    }

    /// Loss, log-probability and logsumexp.
    ///
    /// # Errors
    /// Shapes that disagree, options out of range, a label outside the vocabulary: all found before
    /// anything is computed.
    pub fn forward(&self, logits: Matrix<'_>) -> Result<Forward, Error> {
        let problem = self.problem(&logits.array, false)?;
        let program = problem.forward(&self.setting.schedule_for(problem.logits()))?;
        let b = problem.logits().tokens();
        let inputs = vec![("labels", vector(self.labels)?)];
        let outputs = [("loss", b), ("logp", b), ("lse", b)];
        let [loss, logp, lse] = self.setting.forward(&program, &logits, inputs, outputs)?;
        Ok(Forward { loss, logp, lse })
    }

    backward_forms!(Cotangents);

    /// Those given and the defaults of the others.
    fn filled(&self, cotangents: Cotangents<'_>, b: usize) -> [Vec<f32>; 3] {
        [
            or_filled(cotangents.d_loss, 1.0, b),
            or_filled(cotangents.d_logp, 0.0, b),
            or_filled(cotangents.d_lse, 0.0, b),
        ]
    }

    fn backward_inputs<'i>(
        &'i self,
        forward: &'i Forward,
        [d_loss, d_logp, d_lse]: &'i [Vec<f32>; 3],
    ) -> Result<Vec<(&'static str, ArrayRef<'i>)>, Error> {
        Ok(vec![
            ("labels", vector(self.labels)?),
            ("lse", vector(&forward.lse)?),
            ("d_loss", vector(d_loss)?),
            ("d_logp", vector(d_logp)?),
            ("d_lse", vector(d_lse)?),
        ])
    }

    fn problem(&self, logits: &ArrayRef<'_>, in_place: bool) -> Result<kernel::LogitsCe, Error> {
        let mut options = self.options;
        options.logits.in_place = in_place;
        let [b, v] = shape(logits)?;
        let problem = kernel::LogitsCe::new(b, v, logits.dtype(), options)?;
        problem.check_labels(self.labels.iter().map(|&label| i64::from(label)))?;
        Ok(problem)
    }
}
