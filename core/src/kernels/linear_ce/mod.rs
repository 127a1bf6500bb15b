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
//! published kernels. The kernels are those of every op on a [head](super::head).

mod program;
pub mod reference;

pub use super::head::{
    Blocks, Cache, HeadError, HeadKernel, InDw, Kept, Lazy, ProductBlocks, Schedule, Split, Stored,
    Strategy, Structure, XForm, candidates,
};
use super::head::{Head, HeadOptions};
use crate::DType;
use crate::program::Program;

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
    /// inputs. In bf16 each element is rounded once (twice, if it is made of a stored
    /// [exponential](super::head::InDw)), and with it every gradient a little more than its own type would.
    pub delta_dtype: Option<DType>,
}

/// The op on given shapes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LinearCe {
    head: Head,
    options: Options,
}

impl LinearCe {
    /// The op for `x [tokens, hidden]` and `w [hidden, vocab]` of type `dtype`.
    ///
    /// # Errors
    /// Those of [`Head::new`]; z-loss that is not finite or negative, smoothing outside `[0, 1]`.
    pub fn new(
        tokens: usize,
        hidden: usize,
        vocab: usize,
        dtype: DType,
        options: Options,
    ) -> Result<Self, HeadError> {
        let of_head = HeadOptions {
            bias: options.bias,
            soft_cap: options.soft_cap,
            delta_dtype: options.delta_dtype,
        };
        let head = Head::new([tokens, hidden, vocab], dtype, options.grad_dtype, of_head)?;
        check_options(&options)?;
        Ok(Self { head, options })
    }

    /// The head.
    pub const fn head(&self) -> &Head {
        &self.head
    }

    /// `B`
    pub const fn tokens(&self) -> usize {
        self.head.tokens()
    }

    /// `H`
    pub const fn hidden(&self) -> usize {
        self.head.hidden()
    }

    /// `V`
    pub const fn vocab(&self) -> usize {
        self.head.vocab()
    }

    /// Type of `x` and `w`.
    pub const fn dtype(&self) -> DType {
        self.head.dtype()
    }

    /// Type of the gradients.
    pub fn grad_dtype(&self) -> DType {
        self.head.grad_dtype()
    }

    /// Type of a stored delta.
    pub fn delta_dtype(&self) -> DType {
        self.head.delta_dtype()
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
    pub fn check_labels(&self, labels: impl IntoIterator<Item = i64>) -> Result<(), HeadError> {
        let ignore_index = self.options.ignore_index;
        let vocab = self.vocab();
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
            Some((token, label)) => Err(HeadError::Label {
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
    pub fn forward(&self, schedule: &Schedule) -> Result<Program<HeadKernel>, HeadError> {
        program::forward(self, schedule)
    }

    /// The backward pass: the inputs of the forward pass, `lse`, `d_loss` and `d_lse` to `dx`,
    /// `dw`, (`dbias`).
    ///
    /// # Errors
    /// A schedule that the specs refuse.
    pub fn backward(&self, schedule: &Schedule) -> Result<Program<HeadKernel>, HeadError> {
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
    ) -> Result<Program<HeadKernel>, HeadError> {
        program::both(self, schedule)
    }

    /// Both passes in one program that computes logits once, and stores those of a chunk of rows: the arrays
    /// of [`Self::forward_and_backward`].
    ///
    /// # Errors
    /// Blocks that the specs refuse.
    pub fn forward_and_backward_stored(
        &self,
        stored: &Stored,
    ) -> Result<Program<HeadKernel>, HeadError> {
        program::stored(self, stored)
    }
}

fn check_options(options: &Options) -> Result<(), HeadError> {
    let error = |name, value, range| Err(HeadError::Option { name, value, range });
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

    fn ce(options: Options) -> Result<LinearCe, HeadError> {
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
            Err(HeadError::Empty { name: "tokens" })
        ));
        assert!(matches!(
            new(1, 1, big + 1),
            Err(HeadError::TooLarge { name: "vocab", .. })
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
