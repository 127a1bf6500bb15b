//! `gmm`, the grouped product of a mixture of experts, in the commands that have it.

mod run;
mod tune;

use tilecast::core::kernels::grouped_matmul::{
    Blocks, GroupedKernel, GroupedMatmul, Product, Schedule,
};
use tilecast::core::program::Program;

pub(crate) use run::run;
pub(crate) use tune::{Wanted, tune};

use super::args::{Pass, ProblemArgs};
use super::error::CliError;

/// The op that the options describe; its results have the type of the inputs, or --grad-dtype.
///
/// # Errors
/// A size that is missing; whatever [`GroupedMatmul::new`] refuses.
pub(crate) fn problem(args: &ProblemArgs) -> Result<GroupedMatmul, CliError> {
    let given = |size: Option<usize>, option: &str| {
        size.ok_or_else(|| CliError::invalid(format_args!("gmm needs a shape: give {option}")))
    };
    let sizes = [
        args.tokens,
        given(args.experts, "--experts")?,
        given(args.hidden, "--hidden")?,
        given(args.out_features, "--out-features")?,
    ];
    let out_dtype = args.loss.grad_dtype.unwrap_or(args.dtype);
    Ok(GroupedMatmul::new(sizes, args.dtype, out_dtype)?)
}

/// A command that does not have the op, and what does instead.
pub(crate) fn not_yet(command: &str, instead: &str) -> CliError {
    CliError::invalid(format_args!("{command} does not have gmm yet; {instead}"))
}

/// The products of a pass.
fn products(pass: Pass) -> &'static [Product] {
    match pass {
        Pass::Forward => &Product::ALL[..1],
        Pass::Backward => &Product::ALL[1..],
        Pass::Both => &Product::ALL,
    }
}

/// The program of a pass.
///
/// # Errors
/// Blocks that are refused.
pub(crate) fn program(
    op: &GroupedMatmul,
    schedule: &Schedule,
    pass: Pass,
) -> Result<Program<GroupedKernel>, CliError> {
    Ok(match pass {
        Pass::Forward => op.forward(schedule),
        Pass::Backward => op.backward(schedule),
        Pass::Both => op.forward_and_backward(schedule),
    }?)
}

/// As results of `run` are called.
const fn name(product: Product) -> &'static str {
    match product {
        Product::Y => "y",
        Product::Dx => "dx",
        Product::Dw => "dw",
    }
}

/// Rows and their parts, inputs and outputs.
fn blocks_text(blocks: Blocks) -> String {
    let Blocks {
        rows,
        part,
        inputs,
        outputs,
    } = blocks;
    format!("{rows}/{part},{inputs},{outputs}")
}

/// The blocks of the products of a pass.
pub(crate) fn choice_text(schedule: &Schedule, pass: Pass) -> String {
    let of_products = products(pass).iter().map(|&product| {
        let blocks = match product {
            Product::Y => schedule.forward,
            Product::Dx => schedule.dx,
            Product::Dw => schedule.dw,
        };
        format!("{} {}", name(product), blocks_text(blocks))
    });
    of_products.collect::<Vec<_>>().join(", ")
}
