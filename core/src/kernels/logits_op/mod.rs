//! [`LogitsOp`]: any of the ops on given logits, for those who treat them alike.
//!
//! All three are programs of the same kernels with named arrays. To run, write or test one of them it takes no more
//! than its logits, its programs and the names in them; what the numbers mean is known to the op alone. Its exact
//! results by the same names are in [`mod@reference`], and what f32 may make of them in [`rounding`].

pub mod reference;
pub mod rounding;

use alloc::vec::Vec;

use super::entropy::Entropy;
use super::grpo::{self, Grpo};
use super::logits_ce::{self, LogitsCe};
use super::softmax::{
    Logits, LogitsError, LogitsOptions, Schedule, SoftmaxKernel, SoftmaxProgram, Source,
};
use crate::program::Program;

/// An op on given logits.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum LogitsOp {
    /// Cross-entropy.
    LogitsCe(LogitsCe),
    /// Entropy.
    Entropy(Entropy),
    /// Policy loss.
    Grpo(Grpo),
}

impl LogitsOp {
    /// The logits.
    pub const fn logits(&self) -> &Logits {
        match self {
            Self::LogitsCe(op) => op.logits(),
            Self::Entropy(op) => op.logits(),
            Self::Grpo(op) => op.logits(),
        }
    }

    /// The same on the share of one of `devices` that split the tokens evenly, sequences as a whole.
    ///
    /// # Errors
    /// None that this op has not.
    pub fn share(&self, devices: usize) -> Result<Self, LogitsError> {
        let (vocab, dtype) = (self.logits().vocab(), self.logits().dtype());
        let tokens = self.logits().tokens().div_ceil(devices);
        Ok(match self {
            Self::LogitsCe(op) => {
                Self::LogitsCe(LogitsCe::new(tokens, vocab, dtype, *op.options())?)
            }
            Self::Entropy(op) => {
                Self::Entropy(Entropy::new(tokens, vocab, dtype, *op.logits().options())?)
            }
            Self::Grpo(op) => {
                let tokens = match op.options().sequence_length {
                    Some(length) => tokens.next_multiple_of(length),
                    None => tokens,
                };
                Self::Grpo(Grpo::new(tokens, vocab, dtype, *op.options())?)
            }
        })
    }

    /// The same with its gradient over the logits or not.
    ///
    /// # Errors
    /// The gradient has another type than the logits it would overwrite.
    pub fn in_place(&self, in_place: bool) -> Result<Self, LogitsError> {
        let logits = self.logits();
        let (tokens, vocab, dtype) = (logits.tokens(), logits.vocab(), logits.dtype());
        let logits = LogitsOptions {
            in_place,
            ..*logits.options()
        };
        Ok(match self {
            Self::LogitsCe(op) => {
                let options = logits_ce::Options {
                    logits,
                    ..*op.options()
                };
                Self::LogitsCe(LogitsCe::new(tokens, vocab, dtype, options)?)
            }
            Self::Entropy(_) => Self::Entropy(Entropy::new(tokens, vocab, dtype, logits)?),
            Self::Grpo(op) => {
                let options = grpo::Options {
                    logits,
                    ..*op.options()
                };
                Self::Grpo(Grpo::new(tokens, vocab, dtype, options)?)
            }
        })
    }

    /// The forward pass.
    ///
    /// # Errors
    /// Blocks that do not fit each other or that the specs refuse.
    pub fn forward(&self, schedule: &Schedule) -> Result<Program<SoftmaxKernel>, LogitsError> {
        match self {
            Self::LogitsCe(op) => op.forward(schedule),
            Self::Entropy(op) => op.forward(schedule),
            Self::Grpo(op) => op.forward(schedule),
        }
    }

    /// The backward pass, to `d_logits`, or to `logits` in place.
    ///
    /// # Errors
    /// As for [`Self::forward`].
    pub fn backward(&self, schedule: &Schedule) -> Result<Program<SoftmaxKernel>, LogitsError> {
        match self {
            Self::LogitsCe(op) => op.backward(schedule),
            Self::Entropy(op) => op.backward(schedule),
            Self::Grpo(op) => op.backward(schedule),
        }
    }

    /// Both passes in one program.
    ///
    /// # Errors
    /// As for [`Self::forward`].
    pub fn forward_and_backward(
        &self,
        schedule: &Schedule,
    ) -> Result<Program<SoftmaxKernel>, LogitsError> {
        match self {
            Self::LogitsCe(op) => op.forward_and_backward(schedule),
            Self::Entropy(op) => op.forward_and_backward(schedule),
            Self::Grpo(op) => op.forward_and_backward(schedule),
        }
    }

    pub(crate) fn add_forward<S: Source>(
        &self,
        p: &mut SoftmaxProgram<S>,
    ) -> Result<(), LogitsError> {
        match self {
            Self::LogitsCe(op) => op.add_forward(p),
            Self::Entropy(op) => op.add_forward(p),
            Self::Grpo(op) => op.add_forward(p),
        }
    }

    pub(crate) fn add_backward<S: Source>(
        &self,
        p: &mut SoftmaxProgram<S>,
    ) -> Result<(), LogitsError> {
        match self {
            Self::LogitsCe(op) => op.add_backward(p),
            Self::Entropy(op) => op.add_backward(p),
            Self::Grpo(op) => op.add_backward(p),
        }
    }

    /// The outputs that have a gradient. The cotangent of `name` is the input `d_name` of the backward pass.
    pub const fn differentiable(&self) -> &'static [&'static str] {
        match self {
            Self::LogitsCe(_) => &["loss", "logp", "lse"],
            Self::Entropy(_) => &["entropy"],
            Self::Grpo(_) => &["loss", "logp", "ratio", "entropy"],
        }
    }

    /// Checks labels and mask, if the op has such.
    ///
    /// # Errors
    /// The first element of the mask that is neither 0 nor 1, or the first label of a token that counts that is no
    /// column of the logits.
    pub fn check(
        &self,
        labels: impl IntoIterator<Item = i64>,
        mask: Option<&[f32]>,
    ) -> Result<(), LogitsError> {
        match self {
            Self::LogitsCe(op) => op.check_labels(labels),
            Self::Entropy(_) => Ok(()),
            Self::Grpo(op) => {
                op.check_mask(mask.unwrap_or_default())?;
                op.check_labels(labels, mask)
            }
        }
    }
}

/// Inputs in f64, row-major, by the names of the programs.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Inputs {
    /// `[B,V]`
    pub logits: Vec<f64>,
    /// `[B]`; empty for an op without.
    pub labels: Vec<i32>,
    /// Everything else: other inputs and, for the backward pass, cotangents.
    pub vectors: Named,
}

impl Inputs {
    /// A vector by name; empty if there is none.
    pub fn vector(&self, name: &str) -> &[f64] {
        of_name(&self.vectors, name)
    }
}

/// Vectors by name.
pub type Named = Vec<(&'static str, Vec<f64>)>;

/// The vector of a name; empty if there is none.
pub fn of_name<'a>(vectors: &'a [(&'static str, Vec<f64>)], name: &str) -> &'a [f64] {
    let found = vectors.iter().find(|(of, _)| *of == name);
    found.map_or(&[], |(_, values)| values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;

    fn ops(dtype: DType) -> [LogitsOp; 3] {
        let policy = grpo::Options {
            sequence_length: Some(6),
            ..grpo::Options::default()
        };
        [
            LogitsOp::LogitsCe(LogitsCe::new(30, 7, dtype, Default::default()).unwrap()),
            LogitsOp::Entropy(Entropy::new(30, 7, dtype, Default::default()).unwrap()),
            LogitsOp::Grpo(Grpo::new(30, 7, dtype, policy).unwrap()),
        ]
    }

    #[test]
    fn a_share_has_whole_sequences() {
        let tokens = ops(DType::F32).map(|op| op.share(4).unwrap().logits().tokens());
        assert_eq!(tokens, [8, 8, 12]);
        for op in ops(DType::F32) {
            assert_eq!(op.share(1).unwrap(), op);
        }
    }

    #[test]
    fn the_place_of_the_gradient_changes_alone() {
        for op in ops(DType::Bf16) {
            let over = op.in_place(true).unwrap();
            assert!(over.logits().options().in_place && !op.logits().options().in_place);
            assert_eq!(over.in_place(false).unwrap(), op);
        }
        let options = logits_ce::Options {
            logits: LogitsOptions {
                grad_dtype: Some(DType::F32),
                ..LogitsOptions::default()
            },
            ..logits_ce::Options::default()
        };
        let op = LogitsOp::LogitsCe(LogitsCe::new(30, 7, DType::Bf16, options).unwrap());
        assert!(op.in_place(true).is_err());
    }
}
