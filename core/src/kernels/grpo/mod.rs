//! The clipped policy loss of group relative policy optimisation, on logits that exist.
//!
//! Inputs are logits `x [B,V]`, labels `[B]` (the sampled tokens), an advantage per token `[B]` (that of
//! its sequence, for most recipes), and optionally the log-probabilities that the sampling policy
//! (`old_logp [B]`) and a reference policy (`ref_logp [B]`) gave the labels, and a mask `[B]` of zeros
//! and ones. Tokens are sequences of equal length `L`, one after the other: `B = S L`, and token `t` of
//! sequence `s` is row `s L + t`. What is padding has mask 0.
//!
//! # Per token
//!
//! ```text
//! logp = log softmax(x / T)[label]
//! w = logp - old                   old: old_logp, or logp without its gradient
//! w = sum_s mask w / max(1, sum_s mask)      with a ratio per sequence: the same for all its tokens
//! ratio = e^w                      r
//!
//! loss = -min(min(r, delta) A, clip(r, 1 - low, 1 + high) A)       delta: the two-sided clip
//! loss = -sg(min(r, high)) A logp                                  cispo
//! loss += beta (e^(ref - logp) - (ref - logp) - 1)                 k3 estimate of KL(policy, reference)
//!
//! is_clipped = r < 1 - low and A < 0, or r > 1 + high and A > 0    cispo: r > high and A > 0
//! ```
//!
//! where `sg` has no gradient. Group relative policy optimisation: Shao et al. 2024 (DeepSeekMath); a
//! ratio per sequence: Zheng et al. 2025 (GSPO); two-sided clipping: INTELLECT-2 (2025); k3: Schulman
//! 2020. Names and options mean what they mean in TRL's `GRPOTrainer` and in Liger's `grpo_loss`; so
//! `high` is the bound itself for cispo (MiniMax-M1, 2025), and there is no lower one.
//!
//! # The loss
//!
//! | [`Variant`] | loss |
//! |---|---|
//! | `grpo` | mean over sequences of the mean over their tokens |
//! | `dr_grpo` | sum over tokens / (S * maximal length) (Liu et al. 2025) |
//! | `bnpo` | sum over tokens / number of tokens |
//! | `dapo` | sum over tokens / number of tokens in the whole batch (Yu et al. 2025) |
//! | `cispo` | as `dapo`, of its own objective |
//!
//! Tokens are those of mask 1, and a number of them is taken to be at least 1. Where a batch is cut into
//! micro-batches or over chips, [`Options::tokens_in_batch`] is what `dapo` and `cispo` divide by.
//!
//! # Backward
//!
//! From the cotangents of loss, log-probability, ratio and entropy at once. All but the last reach the
//! logits through `logp`: with `g` the cotangent of the token's own loss,
//!
//! ```text
//! d_w    = g dloss/dw + d_ratio r      dloss/dw = -A r where the ratio is the smaller one and not clipped
//! d_logp = d_logp + d_w + g dloss/dlogp
//! dx_v   = (1 / T) [ d_logp (1(v = label) - p_v) - d_entropy p_v (log p_v + entropy) ]
//! ```
//!
//! and with a ratio per sequence, `d_w` is the sum over its tokens divided by their number. A token of mask
//! 0 has loss, log-probability and clipping 0, ratio 1, and no gradient but that of its entropy, whatever its
//! logits and label.

mod objective;
mod program;
pub mod reference;

pub use objective::{Ratio, Variant};

use super::softmax::{
    Logits, LogitsError, LogitsOptions, Schedule, SoftmaxKernel, SoftmaxProgram, Source,
};
use crate::DType;
use crate::program::Program;

/// Options of the op.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Options {
    /// Temperature, and how the gradient is written.
    pub logits: LogitsOptions,
    /// Objective and normalisation.
    pub variant: Variant,
    /// Whose probabilities a ratio compares.
    pub ratio: Ratio,
    /// How far below 1 a ratio may be.
    pub clip_low: f32,
    /// How far above 1 a ratio may be; for cispo, how large.
    pub clip_high: f32,
    /// How large a ratio may be where the clip above does not apply (negative advantages).
    pub clip_two_sided: Option<f32>,
    /// Weight of the KL term; not 0 exactly if there is a `ref_logp`.
    pub kl_beta: f32,
    /// There is an `old_logp`; otherwise the policy is its own past.
    pub old_logp: bool,
    /// There is a mask.
    pub mask: bool,
    /// Tokens of a sequence; `None` is all: one sequence.
    pub sequence_length: Option<usize>,
    /// What `dr_grpo` takes for the length of a sequence; `None` is its number of rows.
    pub max_length: Option<usize>,
    /// What `dapo` and `cispo` divide by; `None` is the number of tokens given.
    pub tokens_in_batch: Option<f32>,
    /// The loss is `[B]`, not normalised.
    pub per_token: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            logits: LogitsOptions::default(),
            variant: Variant::Dapo,
            ratio: Ratio::Token,
            clip_low: 0.2,
            clip_high: 0.2,
            clip_two_sided: None,
            kl_beta: 0.0,
            old_logp: true,
            mask: false,
            sequence_length: None,
            max_length: None,
            tokens_in_batch: None,
            per_token: false,
        }
    }
}

/// The op on given shapes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Grpo {
    logits: Logits,
    options: Options,
}

impl Grpo {
    /// The op for logits `[tokens, vocab]` of type `dtype`.
    ///
    /// # Errors
    /// Those of [`Logits::new`]; an option out of range: clips and beta finite and not negative, the lower
    /// clip at most 1, the two-sided clip at least 1, lengths at least 1 and a divisor of the tokens,
    /// tokens in the batch at least 1.
    pub fn new(
        tokens: usize,
        vocab: usize,
        dtype: DType,
        options: Options,
    ) -> Result<Self, LogitsError> {
        let logits = Logits::new(tokens, vocab, dtype, options.logits)?;
        let at_least_0 = "finite and not negative";
        let at_least_1 = "finite and at least 1";
        let two_sided = options.clip_two_sided.unwrap_or(1.0);
        let in_batch = options.tokens_in_batch.unwrap_or(1.0);
        for (name, value, range, holds) in [
            (
                "lower clip",
                options.clip_low,
                "in [0, 1]",
                options.clip_low <= 1.0,
            ),
            ("upper clip", options.clip_high, at_least_0, true),
            ("weight of the KL term", options.kl_beta, at_least_0, true),
            ("two-sided clip", two_sided, at_least_1, two_sided >= 1.0),
            ("tokens in the batch", in_batch, at_least_1, in_batch >= 1.0),
        ] {
            if !(holds && value >= 0.0 && value.is_finite()) {
                return Err(LogitsError::Option { name, value, range });
            }
        }
        for (name, length) in [
            ("the length of a sequence", options.sequence_length),
            ("the maximal length", options.max_length),
        ] {
            if length == Some(0) {
                return Err(LogitsError::Empty { name });
            }
        }
        let divisor = options.sequence_length.unwrap_or(tokens);
        if !tokens.is_multiple_of(divisor) {
            return Err(LogitsError::NoMultiple {
                name: "tokens",
                value: tokens,
                of: "the length of a sequence",
                divisor,
            });
        }
        Ok(Self { logits, options })
    }

    /// The logits.
    pub const fn logits(&self) -> &Logits {
        &self.logits
    }

    /// The options.
    pub const fn options(&self) -> &Options {
        &self.options
    }

    /// Tokens of a sequence, masked ones included.
    pub fn sequence_length(&self) -> usize {
        (self.options.sequence_length).unwrap_or(self.logits.tokens())
    }

    /// `S`
    pub fn sequences(&self) -> usize {
        self.logits.tokens() / self.sequence_length()
    }

    /// Checks every label of a token that the mask (all of them if `None`) does not leave out.
    ///
    /// # Errors
    /// The first label outside `0..V`.
    pub fn check_labels(
        &self,
        labels: impl IntoIterator<Item = i64>,
        mask: Option<&[f32]>,
    ) -> Result<(), LogitsError> {
        let counts = |token: usize, _| match mask.and_then(|mask| mask.get(token)) {
            Some(&counts) => counts != 0.0,
            None => true,
        };
        let hint = || " and its mask is not 0".into();
        self.logits.check_labels(labels, counts, hint)
    }

    /// Checks that every element of a mask is 0 or 1.
    ///
    /// # Errors
    /// The first that is neither.
    pub fn check_mask(&self, mask: &[f32]) -> Result<(), LogitsError> {
        match mask.iter().find(|&&counts| counts != 0.0 && counts != 1.0) {
            None => Ok(()),
            Some(&value) => Err(LogitsError::Option {
                name: "an element of the mask",
                value,
                range: "0 or 1",
            }),
        }
    }

    /// The forward pass: `logits`, `labels`, `advantage`, (`old_logp`), (`ref_logp`), (`mask`) to `lse`,
    /// `entropy`, `logp`, `ratio`, `is_clipped` (0 or 1) and `loss` (`[1]`, or `[B]` per token).
    ///
    /// # Errors
    /// Blocks that do not fit each other or that the specs refuse.
    pub fn forward(&self, schedule: &Schedule) -> Result<Program<SoftmaxKernel>, LogitsError> {
        let mut p = SoftmaxProgram::forward("grpo forward", &self.logits, schedule);
        self.add_forward(&mut p)?;
        Ok(p.program)
    }

    /// The backward pass: the inputs of the forward pass, its `lse`, `entropy` and `logp`, and `d_loss`,
    /// `d_logp`, `d_ratio` and `d_entropy` to `d_logits`, or to `logits` in place.
    ///
    /// # Errors
    /// Blocks that do not fit each other or that the specs refuse.
    pub fn backward(&self, schedule: &Schedule) -> Result<Program<SoftmaxKernel>, LogitsError> {
        let mut p = SoftmaxProgram::backward("grpo backward", &self.logits, schedule);
        self.add_backward(&mut p)?;
        Ok(p.program)
    }

    /// Both passes in one program: the inputs of either that are not outputs of the forward pass, to the outputs
    /// of both.
    ///
    /// # Errors
    /// Blocks that do not fit each other or that the specs refuse.
    pub fn forward_and_backward(
        &self,
        schedule: &Schedule,
    ) -> Result<Program<SoftmaxKernel>, LogitsError> {
        let mut p = SoftmaxProgram::backward("grpo", &self.logits, schedule);
        self.add_forward(&mut p)?;
        self.add_backward(&mut p)?;
        Ok(p.program)
    }

    pub(crate) fn add_forward<S: Source>(
        &self,
        p: &mut SoftmaxProgram<S>,
    ) -> Result<(), LogitsError> {
        program::add_forward(self, p)
    }

    pub(crate) fn add_backward<S: Source>(
        &self,
        p: &mut SoftmaxProgram<S>,
    ) -> Result<(), LogitsError> {
        program::add_backward(self, p)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(tokens: usize, options: Options) -> alloc::string::String {
        let error = Grpo::new(tokens, 16, DType::F32, options).unwrap_err();
        alloc::format!("{error}")
    }

    #[test]
    fn bad_options_name_the_value_and_the_range() {
        let default = Options::default();
        for (options, text) in [
            (
                Options {
                    clip_low: 1.5,
                    ..default
                },
                "lower clip is 1.5; it must be in [0, 1]",
            ),
            (
                Options {
                    clip_high: f32::INFINITY,
                    ..default
                },
                "upper clip is inf; it must be finite and not negative",
            ),
            (
                Options {
                    clip_two_sided: Some(0.5),
                    ..default
                },
                "two-sided clip is 0.5; it must be finite and at least 1",
            ),
            (
                Options {
                    kl_beta: -0.1,
                    ..default
                },
                "weight of the KL term is -0.1; it must be finite and not negative",
            ),
            (
                Options {
                    sequence_length: Some(5),
                    ..default
                },
                "tokens is 12, no multiple of the length of a sequence, which is 5",
            ),
            (
                Options {
                    sequence_length: Some(0),
                    ..default
                },
                "the length of a sequence is 0; it must be at least 1",
            ),
        ] {
            assert_eq!(refused(12, options), text);
        }
    }

    #[test]
    fn labels_and_mask_are_checked_together() {
        let op = Grpo::new(3, 16, DType::F32, Options::default()).unwrap();
        assert!(
            op.check_labels([0, -100, 15], Some(&[1.0, 0.0, 1.0]))
                .is_ok()
        );
        assert!(op.check_labels([0, -100, 15], None).is_err());
        assert!(op.check_mask(&[0.0, 1.0, 0.5]).is_err());
    }
}
