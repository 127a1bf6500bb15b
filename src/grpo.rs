//! The clipped policy loss, of given logits or of those of a head, as a call on borrowed slices.

use tilecast_core::DType;
use tilecast_core::kernels::grpo as kernel;
use tilecast_core::kernels::grpo::{Options, Ratio, Variant};
use tilecast_core::kernels::logits_op::LogitsOp;
use tilecast_cpu::array::ArrayRef;

use crate::head::{Head, head_forms};
use crate::linear_ce::{Error, Matrix, vector};
use crate::logits::{Setting, backward_forms, common_options, or_filled, shape};

/// The policy loss of logits `[B,V]` for the sampled tokens `labels [B]` with their `advantage [B]`.
/// Chain options, then call [`Grpo::forward`] and [`Grpo::backward`].
///
/// ```
/// use tilecast::core::kernels::grpo::Variant;
/// use tilecast::{Matrix, grpo};
///
/// # fn main() -> Result<(), tilecast::Error> {
/// // Two sequences of two tokens, three words; the last token is padding.
/// let logits: Vec<f32> = (0..12).map(|i| (i as f32 * 0.7).sin()).collect();
/// let loss = grpo::new(&[2, 0, 1, 0], &[0.5, 0.5, -1.0, -1.0])
///     .variant(Variant::Grpo)
///     .sequence_length(2)
///     .old_logp(&[-1.0, -1.2, -0.9, 0.0])
///     .mask(&[1.0, 1.0, 1.0, 0.0]);
/// let forward = loss.forward(Matrix::new(&logits[..], 4, 3)?)?;
/// let cotangents = grpo::Cotangents::default();
/// let d_logits = loss.backward(Matrix::new(&logits[..], 4, 3)?, &forward, cotangents)?;
///
/// assert_eq!(forward.loss.len(), 1);
/// assert_eq!(d_logits.to_f32()[9..], [0.0; 3]);
/// # Ok(())
/// # }
/// ```
pub fn new<'a>(labels: &'a [i32], advantage: &'a [f32]) -> Grpo<'a> {
    Grpo {
        labels,
        advantage,
        old_logp: None,
        ref_logp: None,
        mask: None,
        options: Options::default(),
        setting: Setting::new(),
    }
}

/// A loss to compute; see [`new`].
#[derive(Clone, Debug)]
pub struct Grpo<'a> {
    labels: &'a [i32],
    advantage: &'a [f32],
    old_logp: Option<&'a [f32]>,
    ref_logp: Option<&'a [f32]>,
    mask: Option<&'a [f32]>,
    options: Options,
    setting: Setting,
}

/// Results of the forward pass; `[B]` where not said otherwise.
#[derive(Clone, PartialEq, Debug)]
pub struct Forward {
    /// One number, or `[B]` per token.
    pub loss: Vec<f32>,
    /// Log-probability of the label.
    pub logp: Vec<f32>,
    /// Ratio to the sampling policy.
    pub ratio: Vec<f32>,
    /// 1 where the clip takes the gradient away, else 0.
    pub is_clipped: Vec<f32>,
    /// Entropy of the policy, in nats.
    pub entropy: Vec<f32>,
    /// Logsumexp of the logits divided by the temperature.
    pub lse: Vec<f32>,
}

/// Cotangents of the outputs.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Cotangents<'a> {
    /// Of the loss, as long as it; `None` is ones.
    pub d_loss: Option<&'a [f32]>,
    /// Of the log-probability, `[B]`; `None` is zeros.
    pub d_logp: Option<&'a [f32]>,
    /// Of the ratio, `[B]`; `None` is zeros.
    pub d_ratio: Option<&'a [f32]>,
    /// Of the entropy, `[B]`; `None` is zeros.
    pub d_entropy: Option<&'a [f32]>,
}

impl<'a> Grpo<'a> {
    common_options!();

    /// Objective and normalisation; dapo by default.
    pub fn variant(mut self, variant: Variant) -> Self {
        self.options.variant = variant;
        self
    }

    /// How far a ratio may be below and above 1 (0.2 both by default); for cispo, `high` is the bound.
    pub fn clip(mut self, low: f32, high: f32) -> Self {
        (self.options.clip_low, self.options.clip_high) = (low, high);
        self
    }

    /// Bounds the ratio also where the advantage is negative.
    pub fn clip_two_sided(mut self, most: f32) -> Self {
        self.options.clip_two_sided = Some(most);
        self
    }

    /// Log-probabilities of the labels under the sampling policy, `[B]`; without them, it is this one.
    pub fn old_logp(mut self, old_logp: &'a [f32]) -> Self {
        self.old_logp = Some(old_logp);
        self
    }

    /// Adds `beta` times the divergence from a policy with these log-probabilities of the labels, `[B]`.
    pub fn reference(mut self, ref_logp: &'a [f32], beta: f32) -> Self {
        self.ref_logp = Some(ref_logp);
        self.options.kl_beta = beta;
        self
    }

    /// Leaves out tokens where this is 0; elsewhere it is 1. `[B]`
    pub fn mask(mut self, mask: &'a [f32]) -> Self {
        self.mask = Some(mask);
        self
    }

    /// Tokens of a sequence, padding included; without it all tokens are one sequence.
    pub fn sequence_length(mut self, length: usize) -> Self {
        self.options.sequence_length = Some(length);
        self
    }

    /// One ratio for all tokens of a sequence, or one for each.
    pub fn ratio(mut self, ratio: Ratio) -> Self {
        self.options.ratio = ratio;
        self
    }

    /// The length that dr_grpo divides by; that of a sequence by default.
    pub fn max_length(mut self, length: usize) -> Self {
        self.options.max_length = Some(length);
        self
    }

    /// The number of tokens that dapo and cispo divide by; those given by default.
    pub fn tokens_in_batch(mut self, tokens: f32) -> Self {
        self.options.tokens_in_batch = Some(tokens);
        self
    }

    /// The loss of each token, not normalised.
    pub fn per_token(mut self) -> Self {
        self.options.per_token = true;
        self
    }

    /// All outputs.
    ///
    /// # Errors
    /// Shapes that disagree, options out of range, a mask that is not 0 or 1, a label outside the
    /// vocabulary where it is not 0: all found before anything is computed.
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
    fn outputs(&self, b: usize) -> [(&'static str, usize); 6] {
        [
            ("loss", if self.options.per_token { b } else { 1 }),
            ("logp", b),
            ("ratio", b),
            ("is_clipped", b),
            ("entropy", b),
            ("lse", b),
        ]
    }

    fn forward_from([loss, logp, ratio, is_clipped, entropy, lse]: [Vec<f32>; 6]) -> Forward {
        Forward {
            loss,
            logp,
            ratio,
            is_clipped,
            entropy,
            lse,
        }
    }

    /// Those given and the defaults of the others.
    fn filled(&self, cotangents: Cotangents<'_>, b: usize) -> [Vec<f32>; 4] {
        let losses = if self.options.per_token { b } else { 1 };
        [
            or_filled(cotangents.d_loss, 1.0, losses),
            or_filled(cotangents.d_logp, 0.0, b),
            or_filled(cotangents.d_ratio, 0.0, b),
            or_filled(cotangents.d_entropy, 0.0, b),
        ]
    }

    fn backward_inputs<'i>(
        &'i self,
        forward: &'i Forward,
        [d_loss, d_logp, d_ratio, d_entropy]: &'i [Vec<f32>; 4],
    ) -> Result<Vec<(&'static str, ArrayRef<'i>)>, Error> {
        let mut inputs = self.forward_inputs()?;
        inputs.extend([
            ("lse", vector(&forward.lse)?),
            ("entropy", vector(&forward.entropy)?),
            ("logp", vector(&forward.logp)?),
            ("d_loss", vector(d_loss)?),
            ("d_logp", vector(d_logp)?),
            ("d_ratio", vector(d_ratio)?),
            ("d_entropy", vector(d_entropy)?),
        ]);
        Ok(inputs)
    }

    fn forward_inputs(&self) -> Result<Vec<(&'static str, ArrayRef<'a>)>, Error> {
        let mut inputs = vec![
            ("labels", vector(self.labels)?),
            ("advantage", vector(self.advantage)?),
        ];
        for (name, given) in [
            ("old_logp", self.old_logp),
            ("ref_logp", self.ref_logp),
            ("mask", self.mask),
        ] {
            if let Some(given) = given {
                inputs.push((name, vector(given)?));
            }
        }
        Ok(inputs)
    }

    fn problem(&self, logits: &ArrayRef<'_>, in_place: bool) -> Result<kernel::Grpo, Error> {
        self.problem_of(shape(logits)?, logits.dtype(), in_place)
    }

    fn of_head(&self, head: &Head<'_>) -> Result<LogitsOp, Error> {
        let ([b, _, v], dtype) = head.dims()?;
        Ok(LogitsOp::Grpo(self.problem_of([b, v], dtype, false)?))
    }

    fn problem_of(
        &self,
        [b, v]: [usize; 2],
        dtype: DType,
        in_place: bool,
    ) -> Result<kernel::Grpo, Error> {
        let mut options = Options {
            old_logp: self.old_logp.is_some(),
            mask: self.mask.is_some(),
            ..self.options
        };
        options.logits.in_place = in_place;
        let problem = kernel::Grpo::new(b, v, dtype, options)?;
        if let Some(mask) = self.mask {
            problem.check_mask(mask)?;
        }
        let labels = self.labels.iter().map(|&label| i64::from(label));
        problem.check_labels(labels, self.mask)?;
        Ok(problem)
    }
}
