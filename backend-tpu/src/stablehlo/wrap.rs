//! One Mosaic module as a StableHLO module that calls it: what the compiler needs to judge a kernel alone.

use thiserror::Error;

use super::call::Call;
use crate::mosaic::Module;
use crate::mosaic::signature::{ArrayType, Signature, SignatureError, signature};
use crate::mosaic::version::{self, VersionError};

/// Why a kernel cannot be wrapped.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum WrapError {
    /// Its arrays cannot be told.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// It cannot be written in the version that the compiler reads.
    #[error(transparent)]
    Version(#[from] VersionError),
}

/// A StableHLO module whose function takes what the kernel of `module` reads and returns what it writes,
/// with the arrays that were assumed; `outputs` is as for [`signature`]. The kernel has the compiler's
/// default limit of VMEM, and its copies are checked as they run.
///
/// # Errors
/// [`WrapError`] names what is not known.
pub fn wrap(module: &Module, outputs: Option<usize>) -> Result<(String, Signature), WrapError> {
    let signature = signature(module, outputs)?;
    let body = module.to_stable(version::CURRENT)?;
    let dynamic = std::iter::repeat_n("tensor<i32>".to_owned(), signature.dynamic_axes);
    let read = signature.scalars.iter().chain(&signature.inputs);
    let operand_types: Vec<String> = dynamic.chain(read.map(ArrayType::to_string)).collect();
    let result_types: Vec<String> = signature.outputs.iter().map(ArrayType::to_string).collect();
    let operands: Vec<String> = (0..operand_types.len())
        .map(|i| format!("%arg{i}"))
        .collect();
    let call = Call {
        kernel: &signature.name,
        body: &body,
        vmem_limit_bytes: None,
        bounds_checks: true,
        operands: &operands,
        operand_types: &operand_types,
        result_types: &result_types,
        aliases: &[],
    };
    let named = operands.iter().zip(&operand_types);
    let parameters: Vec<String> = named.map(|(name, ty)| format!("{name}: {ty}")).collect();
    let results: Vec<String> = (0..result_types.len())
        .map(|i| call.result("%0", i))
        .collect();
    let (results, result_types) = (results.join(", "), result_types.join(", "));
    let text = format!(
        "module @kernel {{\n  func.func public @main({}) -> ({result_types}) {{\n    {}\n    return {results} : {result_types}\n  }}\n}}\n",
        parameters.join(", "),
        call.statement("%0"),
    );
    Ok((text, signature))
}
