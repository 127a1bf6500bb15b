//! What the ops on logits read: the inputs of their programs by name, checked before data are read.

use tilecast::core::kernels::logits_op::LogitsOp;
use tilecast::core::program::{Array as Declared, Role};
use tilecast::sim::execute::{Array, Data};
use tilecast::sim::interpretation::default_target;

use super::source::Sourced;
use crate::cli::error::CliError;
use crate::cli::inputs::{Floats, Source};
use crate::cli::run::Args;

/// Arrays by the names that programs use.
pub(crate) type Arrays = Vec<(&'static str, Array)>;

/// The tensors of a problem; cotangents that were not given have their default.
#[derive(Clone, Debug)]
pub(crate) struct Inputs<P = LogitsOp> {
    pub(crate) op: P,
    pub(crate) arrays: Arrays,
}

/// A problem whose large tensors are still in the file.
#[derive(Debug)]
pub(crate) struct Unread<P> {
    source: Source,
    pub(crate) op: P,
    declared: Vec<Declared>,
    /// Labels and mask, which are checked first.
    read: Arrays,
}

/// The arrays that both passes of an op read, without those that the forward pass puts out.
///
/// # Errors
/// None for an op that could be made.
pub(crate) fn declared<P: Sourced>(op: &P) -> Result<Vec<Declared>, CliError> {
    // Whatever the blocks are.
    let program = op.both(&P::smallest(default_target()))?;
    let is_read = |array: &&Declared| matches!(array.role, Role::Input | Role::InPlace);
    Ok(program.arrays().iter().filter(is_read).cloned().collect())
}

/// The cotangent that stands for one that is not given: one of the op's first output, zero of the others.
/// `None` for what is no cotangent.
fn default_cotangent(op: &LogitsOp, name: &str) -> Option<f32> {
    let output = name.strip_prefix("d_")?;
    let position = op.differentiable().iter().position(|of| *of == output)?;
    Some(if position == 0 { 1.0 } else { 0.0 })
}

impl<P: Sourced> Inputs<P> {
    /// Opens a file and finds the problem in it; of its tensors, only labels and mask are read yet.
    ///
    /// # Errors
    /// A missing tensor, one of the wrong type or shape, a label outside the vocabulary, a mask that is not of zeros
    /// and ones, whatever the op refuses.
    pub(crate) fn open(args: &Args) -> Result<Unread<P>, CliError> {
        let mut source = Source::open(&args.input, args.op)?;
        let op = P::open(&source, args)?;
        let tokens = op.op().logits().tokens();
        let declared = declared(&op)?;
        for array in &declared {
            check(&source, op.op(), array)?;
        }
        let has = |name: &str| declared.iter().any(|array| array.name == name);
        let mask: Option<Vec<f32>> = source.optional("mask", has("mask"))?;
        let mut read = Vec::new();
        if has("labels") {
            let labels = source.labels(tokens, P::ROWS, |labels| {
                Ok(op.op().check(labels, mask.as_deref())?)
            })?;
            read.push(("labels", Array::new(labels, &[tokens])?));
        }
        if let Some(mask) = mask {
            read.push(("mask", Array::new(mask, &[tokens])?));
        }
        Ok(Unread {
            source,
            op,
            declared,
            read,
        })
    }
}

/// Checks what the file has for an array, without reading it.
fn check(source: &Source, op: &LogitsOp, array: &Declared) -> Result<(), CliError> {
    let dims = &array.dims[..];
    // Matrices and labels are checked where they are found.
    if dims.len() > 1 || array.name == "labels" {
        return Ok(());
    }
    // One number is a scalar, to other programs.
    let found = match dims {
        [1] => source.vector(array.name, &[&[], &[1]])?,
        _ => source.vector(array.name, &[dims])?,
    };
    if found || default_cotangent(op, array.name).is_some() {
        return Ok(());
    }
    let hint = match array.name {
        "old_logp" => "; with --on-policy there is none",
        "ref_logp" => "; without --kl-beta there is none",
        _ => "",
    };
    Err(source.missing(array.name, hint))
}

impl<P: Sourced> Unread<P> {
    /// Names in the file that mean nothing here.
    pub(crate) fn unknown_names(&self) -> Vec<String> {
        let mut names = self.source.names();
        names.retain(|name| self.declared.iter().all(|array| array.name != *name));
        names
    }

    /// Reads the rest.
    ///
    /// # Errors
    /// Memory is short, or the file changed.
    pub(crate) fn read(self) -> Result<Inputs<P>, CliError> {
        let Self {
            mut source,
            op,
            declared,
            read: mut arrays,
        } = self;
        for array in declared {
            let (name, len) = (array.name, array.dims.iter().product());
            if arrays.iter().any(|(read, _)| *read == name) {
                continue;
            }
            let default = default_cotangent(op.op(), name).filter(|_| !source.has(name));
            let data: Data = match default {
                Some(value) => vec![value; len].into(),
                None => match source.floats(name, array.dtype)? {
                    Floats::F32(data) => data.into(),
                    Floats::Bf16(data) => data.into(),
                },
            };
            arrays.push((name, Array::new(data, &array.dims)?));
        }
        Ok(Inputs { op, arrays })
    }
}
