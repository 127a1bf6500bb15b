//! Softmax cross-entropy of logits that exist.
//!
//! For tokens whose logits are needed anyway: distillation, reinforcement learning, evaluation.
//! Inputs are logits `x [B,V]` and labels `[B]`.
//!
//! # Forward
//!
//! ```text
//! z_iv   = x_iv / T                          f32, whatever the logits are
//! lse_i  = log sum_v exp(z_iv)
//! logp_i = z_i,label - lse_i                 0 where the label is the ignore index
//! loss_i = lse_i - (1 - a) z_i,label - (a / V) sum_v z_iv + zl * lse_i^2     likewise
//! ```
//!
//! with temperature `T`, label smoothing `a` (Szegedy et al. 2016) and z-loss weight `zl` (the
//! logsumexp penalty of PaLM, Chowdhery et al. 2022). `lse` is the logsumexp of every row, ignored or
//! not.
//!
//! # Backward
//!
//! From the cotangents of all three outputs at once; one that is dropped is a known bug of published
//! kernels. Ignored tokens keep only `d_lse`.
//!
//! ```text
//! dx_iv = (1 / T) [ (d_loss_i (1 + 2 zl lse_i) - d_logp_i + d_lse_i) p_iv
//!                   - (d_loss_i (1 - a) - d_logp_i) 1(v = label_i) - d_loss_i a / V ]
//! ```
//!
//! The gradient has the type of the logits or is f32, and may overwrite them.

pub mod reference;

use super::softmax::{
    Coefficients, Logits, LogitsError, LogitsOptions, Schedule, SoftmaxKernel, SoftmaxProgram,
    Source, Wanted, gradient, statistics,
};
use crate::DType;
use crate::expr::{Expr, Int};
use crate::program::{ArrayId, Program, Role};

/// Options of the op; the default is plain cross-entropy.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Options {
    /// Temperature, and how the gradient is written.
    pub logits: LogitsOptions,
    /// Label of tokens that do not count.
    pub ignore_index: Option<i32>,
    /// Share of the target distribution that is spread evenly over the vocabulary.
    pub label_smoothing: f32,
    /// Weight of `lse^2` in the loss.
    pub z_loss: f32,
}

/// The op on given shapes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LogitsCe {
    logits: Logits,
    options: Options,
}

impl LogitsCe {
    /// The op for logits `[tokens, vocab]` of type `dtype`.
    ///
    /// # Errors
    /// Those of [`Logits::new`]; smoothing outside `[0, 1]`, a z-loss that is negative or not finite.
    pub fn new(
        tokens: usize,
        vocab: usize,
        dtype: DType,
        options: Options,
    ) -> Result<Self, LogitsError> {
        let logits = Logits::new(tokens, vocab, dtype, options.logits)?;
        let error = |name, value, range| Err(LogitsError::Option { name, value, range });
        let Options {
            label_smoothing,
            z_loss,
            ..
        } = options;
        if !(0.0..=1.0).contains(&label_smoothing) {
            return error("label smoothing", label_smoothing, "in [0, 1]");
        }
        if !(z_loss >= 0.0 && z_loss.is_finite()) {
            return error("z-loss weight", z_loss, "finite and not negative");
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

    /// Checks every label.
    ///
    /// # Errors
    /// The first label outside `0..V` that is not the ignore index.
    pub fn check_labels(&self, labels: impl IntoIterator<Item = i64>) -> Result<(), LogitsError> {
        let ignored = self.options.ignore_index;
        let counts = |_, label| ignored.map(i64::from) != Some(label);
        self.logits.check_labels(labels, counts, || match ignored {
            Some(index) => alloc::format!(" and is not the ignore index {index}"),
            None => " and no ignore index is set".into(),
        })
    }

    /// The forward pass: `logits`, `labels` to `lse`, `loss`, `logp`.
    ///
    /// # Errors
    /// Blocks that do not fit each other or that the specs refuse.
    pub fn forward(&self, schedule: &Schedule) -> Result<Program<SoftmaxKernel>, LogitsError> {
        let mut p = SoftmaxProgram::forward("logits_ce forward", &self.logits, schedule);
        self.add_forward(&mut p)?;
        Ok(p.program)
    }

    /// The backward pass: `logits`, `labels`, `lse`, `d_loss`, `d_logp`, `d_lse` to `d_logits`, or to
    /// `logits` in place.
    ///
    /// # Errors
    /// Blocks that do not fit each other or that the specs refuse.
    pub fn backward(&self, schedule: &Schedule) -> Result<Program<SoftmaxKernel>, LogitsError> {
        let mut p = SoftmaxProgram::backward("logits_ce backward", &self.logits, schedule);
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
        let mut p = SoftmaxProgram::backward("logits_ce", &self.logits, schedule);
        self.add_forward(&mut p)?;
        self.add_backward(&mut p)?;
        Ok(p.program)
    }

    pub(crate) fn add_forward<S: Source>(
        &self,
        p: &mut SoftmaxProgram<S>,
    ) -> Result<(), LogitsError> {
        let labels = p.labels();
        let wanted = Wanted {
            label_logit: true,
            logit_sum: self.options.label_smoothing > 0.0,
            entropy: false,
        };
        let found = statistics(p, wanted, Some(labels))?;
        let scale = self.logits.scale();
        let scaled = |array: Option<ArrayId>| array.map(|array| Expr::from(array) * scale);
        let label = || scaled(found.label_logit).expect("the label logit is wanted");
        let lse = || Expr::from(found.lse);
        let Options {
            label_smoothing,
            z_loss,
            ..
        } = self.options;
        let mut loss = lse() - label() * (1.0 - label_smoothing);
        if let Some(sum) = scaled(found.logit_sum) {
            loss = loss - sum * (label_smoothing / self.logits.vocab() as f32);
        }
        if z_loss > 0.0 {
            loss = loss + lse() * lse() * z_loss;
        }
        let to = p.vector(Role::Output, "loss");
        p.map(to, self.counted(labels, loss))?;
        let to = p.vector(Role::Output, "logp");
        p.map(to, self.counted(labels, label() - lse()))
    }

    pub(crate) fn add_backward<S: Source>(
        &self,
        p: &mut SoftmaxProgram<S>,
    ) -> Result<(), LogitsError> {
        let labels = p.labels();
        let [lse, d_loss, d_logp, d_lse] =
            ["lse", "d_loss", "d_logp", "d_lse"].map(|name| p.vector(Role::Input, name));
        let [d_loss, d_logp] = [d_loss, d_logp].map(|d| self.counted(labels, d.into()));
        let Options {
            label_smoothing,
            z_loss,
            ..
        } = self.options;
        let mut through_lse = d_loss.clone();
        if z_loss > 0.0 {
            let slope = Expr::from(lse) * (2.0 * z_loss) + 1.0;
            // A token that does not count may have any logsumexp.
            through_lse = self.counted(labels, through_lse * slope);
        }
        let share = label_smoothing / self.logits.vocab() as f32;
        let coefficients = Coefficients {
            probability: through_lse - d_logp.clone() + Expr::from(d_lse),
            log_probability: None,
            one_hot: Some((labels, d_loss.clone() * (1.0 - label_smoothing) - d_logp)),
            uniform: (label_smoothing > 0.0).then(|| d_loss * share),
        };
        gradient(p, lse, coefficients)
    }

    /// `value` where the token counts, else 0.
    fn counted(&self, labels: ArrayId, value: Expr<ArrayId>) -> Expr<ArrayId> {
        match self.options.ignore_index {
            None => value,
            Some(index) => Int::from(labels).equals(index).select(0.0, value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_options_name_the_value_and_the_range() {
        let error = |options| {
            let refused = LogitsCe::new(4, 16, DType::F32, options).unwrap_err();
            alloc::format!("{refused}")
        };
        let label_smoothing = Options {
            label_smoothing: 1.5,
            ..Options::default()
        };
        assert_eq!(
            error(label_smoothing),
            "label smoothing is 1.5; it must be in [0, 1]"
        );
        let z_loss = Options {
            z_loss: f32::NAN,
            ..Options::default()
        };
        assert_eq!(
            error(z_loss),
            "z-loss weight is NaN; it must be finite and not negative"
        );
    }

    #[test]
    fn labels_outside_the_vocabulary_are_errors_unless_ignored() {
        let options = Options {
            ignore_index: Some(-100),
            ..Options::default()
        };
        let op = LogitsCe::new(4, 16, DType::F32, options).unwrap();
        assert!(op.check_labels([0, 15, -100, 3]).is_ok());
        assert_eq!(
            alloc::format!("{}", op.check_labels([0, 16]).unwrap_err()),
            "label 16 of token 1 is outside 0..16 and is not the ignore index -100"
        );
    }
}
