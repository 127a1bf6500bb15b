//! What `linear-ce` reads: tensors by name, checked against each other before data are read. [`Source`] has the
//! checks that any op needs.

use std::fmt::Display;
use std::path::Path;

use bytemuck::Pod;
use half::bf16;
use tilecast::core::kernels::linear_ce::LinearCe;
use tilecast::{DType, Reduction};

use super::args::{LossArgs, Op};
use super::error::CliError;
use super::tensors::{Dtype, TensorFile};

/// All tensors that are read.
const NAMES: [&str; 7] = ["x", "w", "labels", "weight", "bias", "d_loss", "d_lse"];

/// The elements of `x` or `w`.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Floats {
    F32(Vec<f32>),
    Bf16(Vec<bf16>),
}

impl Floats {
    /// The elements in f64.
    pub(crate) fn widened(&self) -> Vec<f64> {
        match self {
            Self::F32(data) => widen(data),
            Self::Bf16(data) => data.iter().map(|x| x.to_f64()).collect(),
        }
    }
}

/// The elements in f64.
pub(crate) fn widen(data: &[f32]) -> Vec<f64> {
    data.iter().copied().map(f64::from).collect()
}

/// The tensors of a problem; those that may be missing are options.
#[derive(Clone, Debug)]
pub(crate) struct Inputs {
    pub(crate) problem: LinearCe,
    pub(crate) x: Floats,
    pub(crate) w: Floats,
    pub(crate) labels: Vec<i32>,
    pub(crate) weight: Option<Vec<f32>>,
    pub(crate) bias: Option<Vec<f32>>,
    pub(crate) d_loss: Option<Vec<f32>>,
    pub(crate) d_lse: Option<Vec<f32>>,
}

impl Inputs {
    /// Opens a file and finds the problem in it; nothing but labels is read yet.
    ///
    /// # Errors
    /// A missing tensor, one of the wrong type or shape, a label outside the vocabulary, whatever
    /// [`LinearCe::new`] refuses.
    pub(crate) fn open(path: &Path, loss: &LossArgs) -> Result<Unread, CliError> {
        let mut source = Source::open(path, Op::LinearCe)?;
        let ([tokens, hidden], [_, vocab], dtype) = source.head()?;
        let present = |name, len: usize| source.vector(name, &[&[len]]);
        let (weight, bias) = (present("weight", tokens)?, present("bias", vocab)?);
        let d_lse = present("d_lse", tokens)?;
        let d_loss = match loss.reduction {
            Reduction::None => source.vector("d_loss", &[&[tokens]])?,
            _ => source.vector("d_loss", &[&[], &[1]])?,
        };
        let problem = LinearCe::new(tokens, hidden, vocab, dtype, loss.options(bias, weight))?;
        let labels = source.labels(tokens, "x", |labels| Ok(problem.check_labels(labels)?))?;
        Ok(Unread {
            source,
            problem,
            labels,
            weight,
            bias,
            d_loss,
            d_lse,
        })
    }
}

/// A problem whose large tensors are still in the file.
#[derive(Debug)]
pub(crate) struct Unread {
    source: Source,
    pub(crate) problem: LinearCe,
    labels: Vec<i32>,
    weight: bool,
    bias: bool,
    d_loss: bool,
    d_lse: bool,
}

impl Unread {
    /// Names in the file that mean nothing here.
    pub(crate) fn unknown_names(&self) -> Vec<String> {
        let mut names = self.source.names();
        names.retain(|name| !NAMES.contains(&name.as_str()));
        names
    }

    /// Reads the rest.
    ///
    /// # Errors
    /// Memory is short, or the file changed.
    pub(crate) fn read(mut self) -> Result<Inputs, CliError> {
        let source = &mut self.source;
        let dtype = self.problem.dtype();
        Ok(Inputs {
            problem: self.problem,
            x: source.floats("x", dtype)?,
            w: source.floats("w", dtype)?,
            labels: self.labels,
            weight: source.optional("weight", self.weight)?,
            bias: source.optional("bias", self.bias)?,
            d_loss: source.optional("d_loss", self.d_loss)?,
            d_lse: source.optional("d_lse", self.d_lse)?,
        })
    }
}

/// A file, with the checks of an op.
#[derive(Debug)]
pub(crate) struct Source {
    file: TensorFile,
    op: Op,
}

impl Source {
    /// Opens the file that an op is to read.
    ///
    /// # Errors
    /// Those of [`TensorFile::open`].
    pub(crate) fn open(path: &Path, op: Op) -> Result<Self, CliError> {
        let file = TensorFile::open(path)?;
        Ok(Self { file, op })
    }

    /// The names of all tensors.
    pub(crate) fn names(&self) -> Vec<String> {
        self.file.names()
    }

    /// Whether there is a tensor of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.file.info(name).is_some()
    }

    /// A tensor that the op needs is not there.
    pub(crate) fn missing(&self, name: &str, hint: &str) -> CliError {
        let names = self.names();
        let listed: Vec<&str> = names.iter().take(20).map(String::as_str).collect();
        let listed = match listed[..] {
            [] => "none".into(),
            _ => listed.join(", "),
        };
        let op = self.op.name();
        let needs = match self.op {
            Op::LinearCe => "x, w and labels",
            Op::LogitsCe => "logits and labels",
            Op::Grpo => "logits, labels, advantage and old_logp",
            Op::Entropy => "logits",
            Op::LinearGrpo => "x, w, labels, advantage and old_logp",
            Op::LinearEntropy => "x and w",
            Op::Gmm => "x, w and group_sizes",
        };
        CliError::invalid(format_args!(
            "tensor {name} is missing; {op} needs {needs}, the file has {listed}{hint}"
        ))
    }

    fn required(&self, name: &str) -> Result<(Dtype, &[usize]), CliError> {
        let found = self.file.info(name);
        let found = found.map(|info| (info.dtype, &info.shape[..]));
        found.ok_or_else(|| self.missing(name, ""))
    }

    /// Type and shape of a matrix of floats, or of several of one shape.
    ///
    /// # Errors
    /// It is missing, or something else.
    pub(crate) fn matrix<const N: usize>(
        &self,
        name: &str,
        form: &str,
    ) -> Result<(DType, [usize; N]), CliError> {
        let (dtype, shape) = self.required(name)?;
        let dims = <[usize; N]>::try_from(shape).map_err(|_| {
            CliError::invalid(format_args!("{name} is {shape:?}; it must be {form}"))
        })?;
        match dtype {
            Dtype::F32 => Ok((DType::F32, dims)),
            Dtype::BF16 => Ok((DType::Bf16, dims)),
            _ => Err(wrong_type(name, dtype, "F32 or BF16")),
        }
    }

    /// Shapes of `x` and `w`, and their type.
    ///
    /// # Errors
    /// One is missing or no matrix of floats, or they do not fit each other.
    pub(crate) fn head(&self) -> Result<([usize; 2], [usize; 2], DType), CliError> {
        let (x_dtype, [tokens, hidden]) = self.matrix("x", "[B, H]")?;
        let (w_dtype, [w_hidden, vocab]) = self.matrix("w", "[H, V]")?;
        if hidden != w_hidden {
            return Err(CliError::invalid(format_args!(
                "w is [{w_hidden}, {vocab}], but x is [{tokens}, {hidden}]: w [H, V] must have as many rows \
                 as x [B, H] has columns"
            )));
        }
        if x_dtype != w_dtype {
            return Err(CliError::invalid(format_args!(
                "w is {}, but x is {}; both must have the same type",
                name_of(w_dtype),
                name_of(x_dtype)
            )));
        }
        Ok(([tokens, hidden], [w_hidden, vocab], x_dtype))
    }

    /// Whether there is an f32 tensor of one of the given shapes.
    ///
    /// # Errors
    /// There is one of another shape or type.
    pub(crate) fn vector(&self, name: &str, shapes: &[&[usize]]) -> Result<bool, CliError> {
        let Some(info) = self.file.info(name) else {
            return Ok(false);
        };
        if info.dtype != Dtype::F32 {
            return Err(wrong_type(name, info.dtype, "F32"));
        }
        if !shapes.contains(&&info.shape[..]) {
            let listed: Vec<String> = shapes.iter().map(|shape| format!("{shape:?}")).collect();
            return Err(wrong_shape(name, &info.shape, listed.join(" or ")));
        }
        Ok(true)
    }

    /// The labels, one for each row of `rows`, checked.
    ///
    /// # Errors
    /// They are missing, of another shape or type, or refused by `check`.
    pub(crate) fn labels(
        &mut self,
        tokens: usize,
        rows: &str,
        check: impl Fn(&mut dyn Iterator<Item = i64>) -> Result<(), CliError>,
    ) -> Result<Vec<i32>, CliError> {
        let labels = self.integers("labels", tokens, &format!("row of {rows}"))?;
        check(&mut labels.iter().copied())?;
        // Columns and ignore index are i32, so what has passed the check and counts is too.
        Ok(labels.into_iter().map(|label| label as i32).collect())
    }

    /// A vector of integers, one for each of `len` that are called `each`.
    ///
    /// # Errors
    /// It is missing, or of another shape or type.
    pub(crate) fn integers(
        &mut self,
        name: &str,
        len: usize,
        each: &str,
    ) -> Result<Vec<i64>, CliError> {
        let (dtype, shape) = self.required(name)?;
        if shape != [len] {
            let expected = format!("[{len}], one for each {each}");
            return Err(wrong_shape(name, shape, expected));
        }
        match dtype {
            Dtype::I32 => {
                let values: Vec<i32> = self.file.read(name)?;
                Ok(values.into_iter().map(i64::from).collect())
            }
            Dtype::I64 => self.file.read(name),
            _ => Err(wrong_type(name, dtype, "I32 or I64")),
        }
    }

    /// The elements of a tensor that is there, of type `dtype`.
    ///
    /// # Errors
    /// Memory is short, or the file changed.
    pub(crate) fn floats(&mut self, name: &str, dtype: DType) -> Result<Floats, CliError> {
        Ok(match dtype {
            DType::Bf16 => Floats::Bf16(self.file.read(name)?),
            _ => Floats::F32(self.file.read(name)?),
        })
    }

    /// The elements of a tensor, if it is there.
    ///
    /// # Errors
    /// Memory is short, or the file changed.
    pub(crate) fn optional<T: Pod>(
        &mut self,
        name: &str,
        present: bool,
    ) -> Result<Option<Vec<T>>, CliError> {
        present.then(|| self.file.read(name)).transpose()
    }
}

/// The name that safetensors files use.
fn name_of(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "F32",
        DType::Bf16 => "BF16",
        DType::I32 => "I32",
    }
}

fn wrong_type(name: &str, got: Dtype, expected: &str) -> CliError {
    CliError::invalid(format_args!("{name} is {got}; it must be {expected}"))
}

fn wrong_shape(name: &str, got: &[usize], expected: impl Display) -> CliError {
    CliError::invalid(format_args!(
        "{name} has shape {got:?}; it must be {expected}"
    ))
}
