//! Fused linear softmax cross-entropy: the loss of a language-model head without its logits.
//!
//! Inputs are hidden states `x [B,H]`, the head `w [H,V]` and labels `[B]`. The `B x V` logits are
//! never stored: a block of them is computed, reduced to what the loss needs, and forgotten; the
//! backward pass computes them again.
//!
//! # Forward
//!
//! ```text
//! s = x w (+ bias)                 f32, whatever the inputs are
//! z = s                            or cap * tanh(s / cap) with a soft cap
//! lse_i  = log sum_v exp(z_iv)     kept as a running (max, sum) over column blocks
//! raw_i  = lse_i - (1 - a) z_i,label - (a / V) sum_v z_iv + zl * lse_i^2
//! loss_i = weight_i * raw_i        0 where the label is the ignore index or the weight is 0
//! ```
//!
//! with label smoothing `a` and z-loss weight `zl` (the logsumexp penalty). Reductions: none; sum;
//! mean, which divides by the sum of the weights of the tokens that are not ignored and is 0 when
//! there are none. `lse` is the logsumexp of every row, ignored or not.
//!
//! # Backward
//!
//! From both cotangents at once, with `g_i = d_loss_i * weight_i`:
//!
//! ```text
//! delta_iv = [ (g_i (1 + 2 zl lse_i) + d_lse_i) p_iv - g_i (1 - a) 1(v = label_i) - g_i a / V ]
//!            * (1 - (z_iv / cap)^2)           p_iv = exp(z_iv - lse_i)
//! dx = delta w^T     dw = x^T delta     dbias_v = sum_i delta_iv
//! ```
//!
//! The z term reaches the gradient through `lse`, like `d_lse`; dropping either is a known bug of
//! published kernels. Two [strategies](Strategy) share the kernels.

mod blocks;
mod combined;
mod delta;
mod forward;
mod logits;
mod products;
mod program;
pub mod reference;

use alloc::string::String;
use alloc::vec::Vec;

use thiserror::Error;

pub use blocks::{Blocks, Cache, Schedule, candidates};
pub use combined::Combined;
pub use delta::DeltaChunk;
pub use forward::Forward;
pub use products::{BiasGradient, HiddenGradient, WeightGradient};
pub use program::LinearCeKernel;

use crate::DType;
use crate::program::{Program, ProgramError};

/// How the backward pass is cut into kernels.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Strategy {
    /// One kernel: each tile of logits is recomputed once, and both gradients are read, updated and
    /// written back per tile; each core sums its own `dw`. Delta stays f32 (the matrix unit of a TPU
    /// rounds it to bf16 where it meets bf16 operands).
    Combined,
    /// A loop over chunks of the vocabulary: delta of the chunk, in the input type or f32, for all tokens;
    /// then the two products over it. `dw` is written once.
    Streaming,
}

impl Strategy {
    /// All strategies.
    pub const ALL: [Self; 2] = [Self::Combined, Self::Streaming];

    /// The name used on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Combined => "combined",
            Self::Streaming => "streaming",
        }
    }
}

/// How per-token losses become the result.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Reduction {
    /// One loss per token.
    #[default]
    None,
    /// Their sum.
    Sum,
    /// Their sum, divided by the sum of the weights of the tokens that are not ignored.
    Mean,
}

/// Options of the op; the default is plain cross-entropy per token.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Options {
    /// Logits become `cap * tanh(s / cap)`.
    pub soft_cap: Option<f32>,
    /// Weight of `lse^2` in the loss of a token.
    pub z_loss: f32,
    /// Share of the target distribution that is spread evenly over the vocabulary.
    pub label_smoothing: f32,
    /// Label of tokens that do not count.
    pub ignore_index: Option<i32>,
    /// How losses are combined.
    pub reduction: Reduction,
    /// There is a bias `[V]`, f32.
    pub bias: bool,
    /// There is a weight `[B]`, f32, on the loss of each token.
    pub weight: bool,
    /// Type of the gradients; `None` is that of the inputs.
    pub grad_dtype: Option<DType>,
    /// Type in which the streaming backward holds delta between its products; `None` is that of the
    /// inputs. In bf16 each element is rounded once, and with it every gradient a little more than
    /// its own type would.
    pub delta_dtype: Option<DType>,
}

/// The op on given shapes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LinearCe {
    tokens: usize,
    hidden: usize,
    vocab: usize,
    dtype: DType,
    options: Options,
}

/// Why a [`LinearCe`] or its inputs are invalid.
#[derive(Clone, PartialEq, Debug, Error)]
#[non_exhaustive]
pub enum LinearCeError {
    /// A dimension is zero.
    #[error("{name} is 0; it must be at least 1")]
    Empty {
        /// Dimension.
        name: &'static str,
    },
    /// A dimension or array is too large to address.
    #[error("{name} is {value}, above the limit of {limit}")]
    TooLarge {
        /// What is too large.
        name: &'static str,
        /// Its value.
        value: u128,
        /// The largest supported value.
        limit: u128,
    },
    /// The inputs are not of a floating-point type, or the gradients of none that is supported.
    #[error("{what} cannot be {dtype}; use f32 or bf16{hint}")]
    DType {
        /// Inputs, gradients or delta.
        what: &'static str,
        /// The type.
        dtype: DType,
        /// What holds in this case.
        hint: &'static str,
    },
    /// An option is out of its range.
    #[error("{name} is {value}; it must be {range}")]
    Option {
        /// Option.
        name: &'static str,
        /// Its value.
        value: f32,
        /// Its range.
        range: &'static str,
    },
    /// A label is neither a column of the head nor the ignore index.
    #[error("label {label} of token {token} is outside 0..{vocab}{}", ignore_hint(*.ignore_index))]
    Label {
        /// Position in the batch.
        token: usize,
        /// The label.
        label: i64,
        /// Size of the vocabulary.
        vocab: usize,
        /// The ignore index, if one is set.
        ignore_index: Option<i32>,
    },
    /// A block size or another part of the schedule is zero.
    #[error("{name} is 0; block sizes, cores and chunks must be at least 1")]
    EmptySchedule {
        /// The part.
        name: &'static str,
    },
    /// The kernels cannot be built for the schedule.
    #[error(transparent)]
    Program(#[from] ProgramError),
}

impl From<crate::spec::SpecError> for LinearCeError {
    fn from(error: crate::spec::SpecError) -> Self {
        Self::Program(error.into())
    }
}

fn ignore_hint(ignore_index: Option<i32>) -> String {
    match ignore_index {
        Some(index) => alloc::format!(" and is not the ignore index {index}"),
        None => " and no ignore index is set".into(),
    }
}

impl LinearCe {
    /// The op for `x [tokens, hidden]` and `w [hidden, vocab]` of type `dtype`.
    ///
    /// # Errors
    /// A zero or too large dimension, a type that is not f32 or bf16, an option out of range:
    /// soft cap finite and at least 1.2e-38 (its reciprocal must exist), z-loss finite and not negative, smoothing in `[0, 1]`.
    pub fn new(
        tokens: usize,
        hidden: usize,
        vocab: usize,
        dtype: DType,
        options: Options,
    ) -> Result<Self, LinearCeError> {
        // Labels and counters are i32 on a TPU, and byte sizes i64 everywhere.
        let limit = i32::MAX as u128;
        for (name, value) in [("tokens", tokens), ("hidden", hidden), ("vocab", vocab)] {
            if value == 0 {
                return Err(LinearCeError::Empty { name });
            }
            if value as u128 > limit {
                let value = value as u128;
                return Err(LinearCeError::TooLarge { name, value, limit });
            }
        }
        for (name, [rows, columns]) in [
            ("the size of x in bytes", [tokens, hidden]),
            ("the size of w in bytes", [hidden, vocab]),
        ] {
            let (value, limit) = (rows as u128 * columns as u128 * 4, isize::MAX as u128);
            if value > limit {
                return Err(LinearCeError::TooLarge { name, value, limit });
            }
        }
        let hint = "";
        if !dtype.is_float() {
            let what = "x and w";
            return Err(LinearCeError::DType { what, dtype, hint });
        }
        for (what, chosen) in [
            ("gradients", options.grad_dtype),
            ("delta", options.delta_dtype),
        ] {
            if let Some(chosen) = chosen.filter(|&chosen| chosen != dtype && chosen != DType::F32) {
                return Err(LinearCeError::DType {
                    what,
                    dtype: chosen,
                    hint: " (bf16 only for bf16 inputs)",
                });
            }
        }
        check_options(&options)?;
        Ok(Self {
            tokens,
            hidden,
            vocab,
            dtype,
            options,
        })
    }

    /// `B`
    pub const fn tokens(&self) -> usize {
        self.tokens
    }

    /// `H`
    pub const fn hidden(&self) -> usize {
        self.hidden
    }

    /// `V`
    pub const fn vocab(&self) -> usize {
        self.vocab
    }

    /// Type of `x` and `w`.
    pub const fn dtype(&self) -> DType {
        self.dtype
    }

    /// Type of the gradients.
    pub fn grad_dtype(&self) -> DType {
        self.options.grad_dtype.unwrap_or(self.dtype)
    }

    /// Type of a stored delta.
    pub fn delta_dtype(&self) -> DType {
        self.options.delta_dtype.unwrap_or(self.dtype)
    }

    /// The options.
    pub const fn options(&self) -> &Options {
        &self.options
    }

    /// Whether losses carry a weight per token: a given one, that of ignored tokens (0), or the
    /// common factor of a mean.
    pub const fn weighted(&self) -> bool {
        self.options.weight
            || self.options.ignore_index.is_some()
            || matches!(self.options.reduction, Reduction::Mean)
    }

    /// Checks every label.
    ///
    /// # Errors
    /// The first label outside `0..V` that is not the ignore index.
    pub fn check_labels(&self, labels: impl IntoIterator<Item = i64>) -> Result<(), LinearCeError> {
        let ignore_index = self.options.ignore_index;
        let vocab = self.vocab;
        let valid = |label: i64| {
            (0..vocab as i64).contains(&label)
                || ignore_index.is_some_and(|i| i64::from(i) == label)
        };
        match labels
            .into_iter()
            .enumerate()
            .find(|&(_, label)| !valid(label))
        {
            None => Ok(()),
            Some((token, label)) => Err(LinearCeError::Label {
                token,
                label,
                vocab,
                ignore_index,
            }),
        }
    }

    /// The forward pass: arrays `x`, `w`, `labels`, (`bias`), (`weight`) to `loss`, `lse`.
    ///
    /// # Errors
    /// A schedule that the specs refuse.
    pub fn forward(&self, schedule: &Schedule) -> Result<Program<LinearCeKernel>, LinearCeError> {
        program::forward(self, schedule)
    }

    /// The backward pass: the inputs of the forward pass, `lse`, `d_loss` and `d_lse` to `dx`,
    /// `dw`, (`dbias`).
    ///
    /// # Errors
    /// A schedule that the specs refuse.
    pub fn backward(&self, schedule: &Schedule) -> Result<Program<LinearCeKernel>, LinearCeError> {
        program::backward(self, schedule)
    }

    /// Both passes in one program: the inputs of the forward pass, `d_loss` and `d_lse` to `loss`,
    /// `lse`, `dx`, `dw`, (`dbias`).
    ///
    /// # Errors
    /// A schedule that the specs refuse.
    pub fn forward_and_backward(
        &self,
        schedule: &Schedule,
    ) -> Result<Program<LinearCeKernel>, LinearCeError> {
        program::both(self, schedule)
    }

    /// What the same op needs in HBM when the logits are stored, as frameworks do without a fused
    /// kernel: inputs, outputs, the logits in f32 and, for a backward pass, their gradient. Bytes.
    pub fn unfused_bytes(&self, backward: bool) -> Vec<(&'static str, u128)> {
        let (b, h, v) = (self.tokens as u128, self.hidden as u128, self.vocab as u128);
        let input = self.dtype.size_bytes() as u128;
        let grad = self.grad_dtype().size_bytes() as u128;
        let mut terms = alloc::vec![
            ("x", b * h * input),
            ("w", h * v * input),
            ("labels, loss, lse", 3 * b * 4),
            ("logits, f32", b * v * 4),
        ];
        if backward {
            terms.extend([
                ("gradient of logits, f32", b * v * 4),
                ("dx", b * h * grad),
                ("dw", h * v * grad),
            ]);
        }
        terms
    }
}

fn check_options(options: &Options) -> Result<(), LinearCeError> {
    let error = |name, value, range| Err(LinearCeError::Option { name, value, range });
    if let Some(cap) = options.soft_cap
        && !(cap > 0.0 && cap.is_normal())
    {
        return error("soft cap", cap, "finite and at least 1.2e-38");
    }
    if !(options.z_loss >= 0.0 && options.z_loss.is_finite()) {
        return error("z-loss weight", options.z_loss, "finite and not negative");
    }
    if !(0.0..=1.0).contains(&options.label_smoothing) {
        return error("label smoothing", options.label_smoothing, "in [0, 1]");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ce(options: Options) -> Result<LinearCe, LinearCeError> {
        LinearCe::new(4, 8, 16, DType::F32, options)
    }

    #[test]
    fn bad_options_name_the_value_and_the_range() {
        for (options, text) in [
            (
                Options {
                    soft_cap: Some(0.0),
                    ..Options::default()
                },
                "soft cap is 0; it must be finite and at least 1.2e-38",
            ),
            (
                Options {
                    z_loss: -1.0,
                    ..Options::default()
                },
                "z-loss weight is -1; it must be finite and not negative",
            ),
            (
                Options {
                    label_smoothing: f32::NAN,
                    ..Options::default()
                },
                "label smoothing is NaN; it must be in [0, 1]",
            ),
        ] {
            assert_eq!(alloc::format!("{}", ce(options).unwrap_err()), text);
        }
    }

    #[test]
    fn sizes_that_overflow_are_errors() {
        let big = i32::MAX as usize;
        let new = |b, h, v| LinearCe::new(b, h, v, DType::F32, Options::default());
        assert!(matches!(
            new(0, 1, 1),
            Err(LinearCeError::Empty { name: "tokens" })
        ));
        assert!(matches!(
            new(1, 1, big + 1),
            Err(LinearCeError::TooLarge { name: "vocab", .. })
        ));
        assert!(new(1, big, big).is_err());
    }

    #[test]
    fn labels_outside_the_vocabulary_are_errors_unless_ignored() {
        let with = |ignore_index| {
            ce(Options {
                ignore_index,
                ..Options::default()
            })
            .unwrap()
        };
        assert!(with(None).check_labels([0, 15, 3]).is_ok());
        assert!(with(Some(-100)).check_labels([0, -100]).is_ok());
        let error = with(Some(-100)).check_labels([0, 16]).unwrap_err();
        assert_eq!(
            alloc::format!("{error}"),
            "label 16 of token 1 is outside 0..16 and is not the ignore index -100"
        );
    }
}
