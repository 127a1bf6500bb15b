//! What the ops fused with a language-model head share: blocks of logits that are computed and never stored.
//!
//! Inputs are hidden states `x [B,H]` and the head `w [H,V]`. The logits are
//!
//! ```text
//! s = x w (+ bias)                 f32, whatever the inputs are
//! z = s                            or cap * tanh(s / cap) with a soft cap
//! ```
//!
//! A block of them is computed, folded into the statistics of its rows that the softmax family knows
//! ([`softmax`](super::softmax)), and forgotten; the backward pass computes it again and turns it into delta, the
//! gradient of the logits:
//!
//! ```text
//! delta_iv = [ (P_i + Q_i log p_iv) p_iv - O_i 1(v = label_i) - U_i ] * (1 - (z_iv / cap)^2)
//! dx = delta w^T     dw = x^T delta     dbias_v = sum_i delta_iv
//! ```
//!
//! What differs between ops is arithmetic on rows: what becomes of the statistics (`Ending`), and where the
//! coefficients `P`, `Q`, `O`, `U` come from (`Coefficients`). Both are data. Two [strategies](Strategy) of the
//! backward pass share the kernels. Where the cotangents are known before the forward pass, the forward pass may
//! [store](Stored) logits for the backward one: three products, not four.

mod blocks;
mod by_columns;
mod cache;
mod chunk;
mod combined;
mod dealt;
mod delta;
mod exponentials;
mod forward;
mod logits;
mod merge;
mod per_row;
mod products;
mod program;
pub mod reference;
mod rounded;
mod row_chunk;
mod stored;
mod streaming;

use alloc::string::String;
use alloc::vec::Vec;

use thiserror::Error;

pub use blocks::{
    Blocks, Lazy, ProductBlocks, Schedule, Split, Structure, XForm, candidates, divides_columns,
};
pub use by_columns::ColumnGradients;
pub use cache::Cache;
pub use combined::Combined;
pub(crate) use delta::Coefficients;
pub use delta::{DeltaChunk, StoredDelta};
pub(crate) use forward::Ending;
pub use forward::Forward;
pub use merge::Merge;
pub(crate) use per_row::PerRow;
pub use products::{BiasGradient, HiddenGradient, WeightGradient};
pub use program::HeadKernel;
pub(crate) use program::{Backward, ForwardPass, HeadInputs, Names, launch, names};
pub use rounded::Rounded;
pub use row_chunk::{StoredBiasGradient, StoredHiddenGradient, StoredWeightGradient};
pub(crate) use stored::StoredPasses;
pub use stored::{InDw, Kept, Stored};

use crate::DType;
use crate::program::ProgramError;

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

/// How the logits come about, and how their gradient is held.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct HeadOptions {
    /// There is a bias `[V]`, f32.
    pub bias: bool,
    /// Logits become `cap * tanh(s / cap)`.
    pub soft_cap: Option<f32>,
    /// Type in which the streaming backward holds delta between its products; `None` is that of the inputs. In bf16
    /// each element is rounded once (twice, if it is made of a stored [exponential](InDw)), and with it every gradient
    /// a little more than its own type would. On a TPU products of it with f32 inputs are of one pass, which rounds
    /// these.
    pub delta_dtype: Option<DType>,
}

/// A head and what it is applied to.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Head {
    tokens: usize,
    hidden: usize,
    vocab: usize,
    dtype: DType,
    /// That of `x` as a kernel gets it.
    x_dtype: DType,
    /// Whether that is [packed](crate::spec::Blocked::packed).
    x_packed: bool,
    /// Whether delta is packed between its products.
    delta_packed: bool,
    /// That of `w`, likewise; one that is rounded is a chunk of the columns.
    w_dtype: DType,
    grad_dtype: DType,
    options: HeadOptions,
}

/// Why an op on a head or its inputs are invalid.
#[derive(Clone, PartialEq, Debug, Error)]
#[non_exhaustive]
pub enum HeadError {
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
    /// Logits cannot be stored where `dw` will be.
    #[error(
        "dw of {hidden} rows in {dtype} has no place for the logits of a block of {rows} tokens: take blocks of fewer tokens, or store logits beside it"
    )]
    NoPlaceInDw {
        /// Tokens of a block.
        rows: usize,
        /// Rows of `dw`.
        hidden: usize,
        /// Type of `dw`.
        dtype: DType,
    },
    /// Delta cannot be made in blocks of these columns.
    #[error(
        "blocks of delta of {columns} columns do not fill blocks of {v} that products read: take a divisor of {v} with which no block lies beyond the vocabulary"
    )]
    DeltaColumns {
        /// Columns of a block of delta.
        columns: usize,
        /// Columns of a block that products read.
        v: usize,
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

impl From<crate::spec::SpecError> for HeadError {
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

impl Head {
    /// The head `w [hidden, vocab]` on `x [tokens, hidden]`, both of type `dtype`; their gradients are of type
    /// `grad_dtype` or of the same.
    ///
    /// # Errors
    /// A zero or too large dimension, a type that is not f32 or bf16, a soft cap that is not finite and at least
    /// 1.2e-38 (its reciprocal must exist).
    pub fn new(
        [tokens, hidden, vocab]: [usize; 3],
        dtype: DType,
        grad_dtype: Option<DType>,
        options: HeadOptions,
    ) -> Result<Self, HeadError> {
        // Labels and counters are i32 on a TPU, and byte sizes i64 everywhere.
        let limit = i32::MAX as u128;
        for (name, value) in [("tokens", tokens), ("hidden", hidden), ("vocab", vocab)] {
            if value == 0 {
                return Err(HeadError::Empty { name });
            }
            if value as u128 > limit {
                let value = value as u128;
                return Err(HeadError::TooLarge { name, value, limit });
            }
        }
        for (name, [rows, columns]) in [
            ("the size of x in bytes", [tokens, hidden]),
            ("the size of w in bytes", [hidden, vocab]),
        ] {
            let (value, limit) = (rows as u128 * columns as u128 * 4, isize::MAX as u128);
            if value > limit {
                return Err(HeadError::TooLarge { name, value, limit });
            }
        }
        let hint = "";
        if !dtype.is_float() {
            let what = "x and w";
            return Err(HeadError::DType { what, dtype, hint });
        }
        if let Some(chosen) = grad_dtype.filter(|&chosen| chosen != dtype && chosen != DType::F32) {
            return Err(HeadError::DType {
                what: "gradients",
                dtype: chosen,
                hint: " (bf16 only for bf16 inputs)",
            });
        }
        if let Some(dtype) = options.delta_dtype.filter(|chosen| !chosen.is_float()) {
            let what = "delta";
            return Err(HeadError::DType { what, dtype, hint });
        }
        if let Some(value) = options.soft_cap
            && !(value > 0.0 && value.is_normal())
        {
            let (name, range) = ("soft cap", "finite and at least 1.2e-38");
            return Err(HeadError::Option { name, value, range });
        }
        Ok(Self {
            tokens,
            hidden,
            vocab,
            dtype,
            x_dtype: dtype,
            x_packed: false,
            delta_packed: false,
            w_dtype: dtype,
            grad_dtype: grad_dtype.unwrap_or(dtype),
            options,
        })
    }

    /// The same on an `x` that has been rounded to bf16, and packed if `packed`.
    const fn on_rounded_x(self, packed: bool) -> Self {
        Self {
            x_dtype: DType::Bf16,
            x_packed: packed,
            ..self
        }
    }

    /// The same with a delta that is packed, if it is of bf16.
    fn with_packed_delta(self, packed: bool) -> Self {
        Self {
            delta_packed: packed && self.delta_dtype() == DType::Bf16,
            ..self
        }
    }

    /// The same on chunks of `w` that have been rounded to bf16.
    const fn on_rounded_w(self) -> Self {
        Self {
            w_dtype: DType::Bf16,
            ..self
        }
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
    pub const fn grad_dtype(&self) -> DType {
        self.grad_dtype
    }

    /// Type of a stored delta.
    pub fn delta_dtype(&self) -> DType {
        self.options.delta_dtype.unwrap_or(self.dtype)
    }

    /// Type in which a backward pass holds delta: `combined` has it in f32 throughout.
    pub fn held_delta(&self, strategy: Strategy) -> DType {
        match strategy {
            Strategy::Streaming => self.delta_dtype(),
            Strategy::Combined => DType::F32,
        }
    }

    /// The options.
    pub const fn options(&self) -> &HeadOptions {
        &self.options
    }

    /// What the same op needs in HBM when the logits are stored, as frameworks do without a fused
    /// kernel: inputs, `vectors` arrays of `B` numbers, the logits in f32 and, for a backward pass, their
    /// gradient. Bytes.
    pub fn unfused_bytes(
        &self,
        (name, vectors): (&'static str, usize),
        backward: bool,
    ) -> Vec<(&'static str, u128)> {
        let (b, h, v) = (self.tokens as u128, self.hidden as u128, self.vocab as u128);
        let input = self.dtype.size_bytes() as u128;
        let grad = self.grad_dtype().size_bytes() as u128;
        let mut terms = alloc::vec![
            ("x", b * h * input),
            ("w", h * v * input),
            (name, vectors as u128 * b * 4),
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
