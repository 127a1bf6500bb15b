//! [`Logits`]: shape, type and temperature, checked.

use alloc::boxed::Box;
use alloc::string::String;

use thiserror::Error;

use crate::DType;
use crate::kernels::head::HeadError;
use crate::program::ProgramError;
use crate::spec::SpecError;

/// How logits are read and their gradient written.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LogitsOptions {
    /// Logits are divided by it.
    pub temperature: f32,
    /// Type of the gradient; `None` is that of the logits.
    pub grad_dtype: Option<DType>,
    /// The gradient overwrites the logits.
    pub in_place: bool,
}

impl Default for LogitsOptions {
    fn default() -> Self {
        Self {
            temperature: 1.0,
            grad_dtype: None,
            in_place: false,
        }
    }
}

/// Logits `[B,V]` that exist in memory.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Logits {
    tokens: usize,
    vocab: usize,
    dtype: DType,
    options: LogitsOptions,
}

/// Why an op on logits or its inputs are invalid.
#[derive(Clone, PartialEq, Debug, Error)]
#[non_exhaustive]
pub enum LogitsError {
    /// A size is zero.
    #[error("{name} is 0; it must be at least 1")]
    Empty {
        /// What.
        name: &'static str,
    },
    /// A size is too large to address.
    #[error("{name} is {value}, above the limit of {limit}")]
    TooLarge {
        /// What is too large.
        name: &'static str,
        /// Its value.
        value: u128,
        /// The largest supported value.
        limit: u128,
    },
    /// The logits are not of a floating-point type, or the gradient of none that is supported.
    #[error("{what} cannot be {dtype}; use f32 or bf16 (a bf16 gradient only for bf16 logits)")]
    DType {
        /// Logits or gradient.
        what: &'static str,
        /// The type.
        dtype: DType,
    },
    /// A gradient that overwrites the logits has another type.
    #[error(
        "the gradient is {gradient} and the logits are {logits}: to overwrite them it must have their type"
    )]
    InPlace {
        /// Type of the gradient.
        gradient: DType,
        /// Type of the logits.
        logits: DType,
    },
    /// A gradient is to overwrite logits that nobody stores.
    #[error("the gradient cannot overwrite logits that are not stored; leave out in-place")]
    NotStored,
    /// The head that computes the logits is invalid.
    #[error(transparent)]
    Head(Box<HeadError>),
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
    /// A label is not a column of the logits.
    #[error("label {label} of token {token} is outside 0..{vocab}{hint}")]
    Label {
        /// Position in the batch.
        token: usize,
        /// The label.
        label: i64,
        /// Size of the vocabulary.
        vocab: usize,
        /// Which labels would be allowed besides.
        hint: String,
    },
    /// A number of tokens is no multiple of another.
    #[error("{name} is {value}, no multiple of {of}, which is {divisor}")]
    NoMultiple {
        /// What.
        name: &'static str,
        /// Its value.
        value: usize,
        /// What it must be a multiple of.
        of: &'static str,
        /// Its value.
        divisor: usize,
    },
    /// The kernels cannot be built for the blocks.
    #[error(transparent)]
    Program(#[from] ProgramError),
}

impl From<HeadError> for LogitsError {
    fn from(error: HeadError) -> Self {
        Self::Head(Box::new(error))
    }
}

impl From<SpecError> for LogitsError {
    fn from(error: SpecError) -> Self {
        Self::Program(error.into())
    }
}

impl Logits {
    /// Logits `[tokens, vocab]` of type `dtype`.
    ///
    /// # Errors
    /// A zero or too large dimension, a type that is not f32 or bf16, a temperature that is not
    /// positive and finite or whose reciprocal is not, a gradient in place of another type.
    pub fn new(
        tokens: usize,
        vocab: usize,
        dtype: DType,
        options: LogitsOptions,
    ) -> Result<Self, LogitsError> {
        // Labels and counters are i32 on a TPU, and byte sizes i64 everywhere.
        check_size("tokens", tokens)?;
        check_size("vocab", vocab)?;
        let (name, value) = (
            "the size of the logits in bytes",
            tokens as u128 * vocab as u128 * 4,
        );
        let limit = isize::MAX as u128;
        if value > limit {
            return Err(LogitsError::TooLarge { name, value, limit });
        }
        if !dtype.is_float() {
            let what = "logits";
            return Err(LogitsError::DType { what, dtype });
        }
        let gradient = options.grad_dtype.unwrap_or(dtype);
        if gradient != dtype && gradient != DType::F32 {
            return Err(LogitsError::DType {
                what: "the gradient",
                dtype: gradient,
            });
        }
        if options.in_place && gradient != dtype {
            let logits = dtype;
            return Err(LogitsError::InPlace { gradient, logits });
        }
        let temperature = options.temperature;
        if !(temperature > 0.0 && temperature.is_normal() && (1.0 / temperature).is_normal()) {
            return Err(LogitsError::Option {
                name: "temperature",
                value: temperature,
                range: "positive and between 1.2e-38 and 8.5e37",
            });
        }
        Ok(Self {
            tokens,
            vocab,
            dtype,
            options,
        })
    }

    /// `B`
    pub const fn tokens(&self) -> usize {
        self.tokens
    }

    /// `V`
    pub const fn vocab(&self) -> usize {
        self.vocab
    }

    /// Type of the logits.
    pub const fn dtype(&self) -> DType {
        self.dtype
    }

    /// Type of the gradient.
    pub fn grad_dtype(&self) -> DType {
        self.options.grad_dtype.unwrap_or(self.dtype)
    }

    /// The options.
    pub const fn options(&self) -> &LogitsOptions {
        &self.options
    }

    /// `1 / T`, the factor on the logits.
    pub fn scale(&self) -> f32 {
        1.0 / self.options.temperature
    }

    /// Checks the labels of the tokens for which `counts` holds.
    ///
    /// # Errors
    /// The first label outside `0..V`, with `hint` behind it.
    pub(crate) fn check_labels(
        &self,
        labels: impl IntoIterator<Item = i64>,
        counts: impl Fn(usize, i64) -> bool,
        hint: impl FnOnce() -> String,
    ) -> Result<(), LogitsError> {
        let vocab = self.vocab;
        let wrong = |&(token, label): &(usize, i64)| {
            counts(token, label) && !(0..vocab as i64).contains(&label)
        };
        match labels.into_iter().enumerate().find(wrong) {
            None => Ok(()),
            Some((token, label)) => Err(LogitsError::Label {
                token,
                label,
                vocab,
                hint: hint(),
            }),
        }
    }
}

/// A size is at least 1 and an i32.
pub(super) fn check_size(name: &'static str, size: usize) -> Result<(), LogitsError> {
    let (value, limit) = (size as u128, i32::MAX as u128);
    match size {
        0 => Err(LogitsError::Empty { name }),
        _ if value > limit => Err(LogitsError::TooLarge { name, value, limit }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(options: LogitsOptions) -> Result<Logits, LogitsError> {
        Logits::new(4, 16, DType::Bf16, options)
    }

    #[test]
    fn temperatures_whose_reciprocal_is_not_a_number_are_refused() {
        for temperature in [0.0, -1.0, f32::NAN, f32::INFINITY, 1e-39, 1e38] {
            let options = LogitsOptions {
                temperature,
                ..LogitsOptions::default()
            };
            let error = new(options).unwrap_err();
            assert!(matches!(
                error,
                LogitsError::Option {
                    name: "temperature",
                    ..
                }
            ));
        }
    }

    #[test]
    fn a_gradient_in_place_has_the_type_of_the_logits() {
        let options = LogitsOptions {
            grad_dtype: Some(DType::F32),
            in_place: true,
            ..LogitsOptions::default()
        };
        assert_eq!(
            alloc::format!("{}", new(options).unwrap_err()),
            "the gradient is f32 and the logits are bf16: to overwrite them it must have their type"
        );
    }

    #[test]
    fn sizes_are_checked() {
        let new = |b, v| Logits::new(b, v, DType::F32, LogitsOptions::default());
        assert!(matches!(
            new(0, 1),
            Err(LogitsError::Empty { name: "tokens" })
        ));
        let most = i32::MAX as usize;
        assert!(matches!(
            new(1, most + 1),
            Err(LogitsError::TooLarge { name: "vocab", .. })
        ));
        assert!(new(most, most).is_err());
        assert!(new(1, most).is_ok());
    }
}
