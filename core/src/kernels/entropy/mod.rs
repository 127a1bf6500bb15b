//! Entropy of the softmax of logits that exist.
//!
//! As a bonus or a target it needs a gradient, which several published kernels define as zero.
//!
//! ```text
//! z_iv   = x_iv / T        lse_i = log sum_v exp(z_iv)        log p_iv = z_iv - lse_i
//! entropy_i = -sum_v p_iv log p_iv
//! dx_iv = -(1 / T) d_entropy_i p_iv (log p_iv + entropy_i)
//! ```
//!
//! A column of `-inf` has probability 0 and adds nothing to either. In one pass, entropy comes from the
//! maximum `m`, the sum `l = sum e^(z-m)` and the moment `t = sum (z-m) e^(z-m)` as `log l - t / l`:
//! differences to the maximum, so that large logits do not cancel.

pub mod reference;

use super::softmax::{
    Coefficients, Logits, LogitsError, LogitsOptions, Schedule, SoftmaxKernel, SoftmaxProgram,
    Source, Wanted, gradient, statistics,
};
use crate::DType;
use crate::expr::Expr;
use crate::program::{ArrayId, Program, Role};

/// The op on given shapes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Entropy {
    logits: Logits,
}

impl Entropy {
    /// The op for logits `[tokens, vocab]` of type `dtype`.
    ///
    /// # Errors
    /// Those of [`Logits::new`].
    pub fn new(
        tokens: usize,
        vocab: usize,
        dtype: DType,
        options: LogitsOptions,
    ) -> Result<Self, LogitsError> {
        let logits = Logits::new(tokens, vocab, dtype, options)?;
        Ok(Self { logits })
    }

    /// The logits.
    pub const fn logits(&self) -> &Logits {
        &self.logits
    }

    /// The forward pass: `logits` to `lse`, `entropy`; the backward pass needs both.
    ///
    /// # Errors
    /// Blocks that do not fit each other or that the specs refuse.
    pub fn forward(&self, schedule: &Schedule) -> Result<Program<SoftmaxKernel>, LogitsError> {
        let mut p = SoftmaxProgram::forward("entropy forward", &self.logits, schedule);
        self.add_forward(&mut p)?;
        Ok(p.program)
    }

    /// The backward pass: `logits`, `lse`, `entropy`, `d_entropy` to `d_logits`, or to `logits` in place.
    ///
    /// # Errors
    /// Blocks that do not fit each other or that the specs refuse.
    pub fn backward(&self, schedule: &Schedule) -> Result<Program<SoftmaxKernel>, LogitsError> {
        let mut p = SoftmaxProgram::backward("entropy backward", &self.logits, schedule);
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
        let mut p = SoftmaxProgram::backward("entropy", &self.logits, schedule);
        self.add_forward(&mut p)?;
        self.add_backward(&mut p)?;
        Ok(p.program)
    }

    pub(crate) fn add_forward<S: Source>(
        &self,
        p: &mut SoftmaxProgram<S>,
    ) -> Result<(), LogitsError> {
        let wanted = Wanted {
            entropy: true,
            ..Wanted::default()
        };
        statistics(p, wanted, None)?;
        Ok(())
    }

    pub(crate) fn add_backward<S: Source>(
        &self,
        p: &mut SoftmaxProgram<S>,
    ) -> Result<(), LogitsError> {
        let [lse, entropy, d_entropy] =
            ["lse", "entropy", "d_entropy"].map(|name| p.vector(Role::Input, name));
        let [probability, log_probability] = entropy_coefficients(entropy, d_entropy.into());
        let coefficients = Coefficients {
            probability,
            log_probability: Some(log_probability),
            one_hot: None,
            uniform: None,
        };
        gradient(p, lse, coefficients)
    }
}

/// What a cotangent of the entropy adds to the coefficients of `p` and of `p log p`. A token without
/// one has none, even if its entropy is not finite.
pub(super) fn entropy_coefficients(
    entropy: ArrayId,
    d_entropy: Expr<ArrayId>,
) -> [Expr<ArrayId>; 2] {
    let probability = -(d_entropy.clone() * Expr::from(entropy));
    let none = d_entropy.clone().equals(0.0);
    [none.select(0.0, probability), -d_entropy]
}
