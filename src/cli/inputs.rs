//! What `linear-ce` reads: tensors by name, checked against each other before data are read.

use std::fmt::Display;
use std::path::Path;

use bytemuck::Pod;
use half::bf16;
use tilecast::core::kernels::linear_ce::LinearCe;
use tilecast::{DType, Reduction};

use super::args::{CliError, LossArgs};
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
        let file = TensorFile::open(path)?;
        let mut source = Source { file };
        let (x_dtype, [tokens, hidden]) = source.matrix("x", "[B, H]")?;
        let (w_dtype, [w_hidden, vocab]) = source.matrix("w", "[H, V]")?;
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
        let present = |name, len: usize| source.vector(name, &[&[len]]);
        let (weight, bias) = (present("weight", tokens)?, present("bias", vocab)?);
        let d_lse = present("d_lse", tokens)?;
        let d_loss = match loss.reduction {
            Reduction::None => source.vector("d_loss", &[&[tokens]])?,
            _ => source.vector("d_loss", &[&[], &[1]])?,
        };
        let problem = LinearCe::new(tokens, hidden, vocab, x_dtype, loss.options(bias, weight))?;
        let labels = source.labels(&problem)?;
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
        let mut names = self.source.file.names();
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

/// A file, with the checks of this op.
#[derive(Debug)]
struct Source {
    file: TensorFile,
}

impl Source {
    fn required(&self, name: &str) -> Result<(Dtype, &[usize]), CliError> {
        let found = self.file.info(name);
        let found = found.map(|info| (info.dtype, &info.shape[..]));
        found.ok_or_else(|| {
            let names = self.file.names();
            let listed: Vec<&str> = names.iter().take(20).map(String::as_str).collect();
            let listed = match listed[..] {
                [] => "none".into(),
                _ => listed.join(", "),
            };
            CliError::invalid(format_args!(
                "tensor {name} is missing; linear-ce needs x, w and labels, the file has {listed}"
            ))
        })
    }

    fn matrix(&self, name: &str, form: &str) -> Result<(DType, [usize; 2]), CliError> {
        let (dtype, shape) = self.required(name)?;
        let dims = <[usize; 2]>::try_from(shape).map_err(|_| {
            CliError::invalid(format_args!("{name} is {shape:?}; it must be {form}"))
        })?;
        match dtype {
            Dtype::F32 => Ok((DType::F32, dims)),
            Dtype::BF16 => Ok((DType::Bf16, dims)),
            _ => Err(wrong_type(name, dtype, "F32 or BF16")),
        }
    }

    /// Whether there is an f32 tensor of one of the given shapes.
    fn vector(&self, name: &str, shapes: &[&[usize]]) -> Result<bool, CliError> {
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

    fn labels(&mut self, problem: &LinearCe) -> Result<Vec<i32>, CliError> {
        let (dtype, shape) = self.required("labels")?;
        if shape != [problem.tokens()] {
            let expected = format!("[{}], one for each row of x", problem.tokens());
            return Err(wrong_shape("labels", shape, expected));
        }
        match dtype {
            Dtype::I32 => {
                let labels: Vec<i32> = self.file.read("labels")?;
                problem.check_labels(labels.iter().map(|&label| i64::from(label)))?;
                Ok(labels)
            }
            Dtype::I64 => {
                let labels: Vec<i64> = self.file.read("labels")?;
                problem.check_labels(labels.iter().copied())?;
                // Columns and ignore index are i32, so what has passed the check is too.
                Ok(labels.into_iter().map(|label| label as i32).collect())
            }
            _ => Err(wrong_type("labels", dtype, "I32 or I64")),
        }
    }

    fn floats(&mut self, name: &str, dtype: DType) -> Result<Floats, CliError> {
        Ok(match dtype {
            DType::Bf16 => Floats::Bf16(self.file.read(name)?),
            _ => Floats::F32(self.file.read(name)?),
        })
    }

    fn optional<T: Pod>(&mut self, name: &str, present: bool) -> Result<Option<Vec<T>>, CliError> {
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
