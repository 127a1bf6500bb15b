//! `gmm`, the grouped product of a mixture of experts, in the commands that have it.

mod run;
pub(crate) mod solve;
mod tune;

use serde_json::{Value, json};
use tilecast::core::kernels::grouped_matmul::{Blocks, GroupedMatmul, Product, Schedule};
use tilecast::core::target::Target;
use tilecast::sim::experts::{Given, Request, Spread, products};

pub(crate) use run::run;
pub(crate) use tune::{Wanted, tune};

use super::args::{Pass, ProblemArgs, ScheduleArgs};
use super::error::CliError;
use super::report::{raised_limit_text, target_assumptions};
use super::sizes::Sizes;

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

/// The op on a target: on each device of it, or on --chips that share it.
///
/// # Errors
/// As for [`problem`]; fewer rows than devices.
pub(crate) fn request(
    args: &ProblemArgs,
    target: &'static Target,
    limit_bytes: Option<u64>,
) -> Result<Request, CliError> {
    let chips = args.chips as usize;
    Ok(Request::new(problem(args)?, target, chips, limit_bytes)?)
}

/// Blocks that are given, rows, inputs and outputs.
///
/// # Errors
/// There are two numbers.
pub(crate) fn given(schedule: &ScheduleArgs) -> Result<Given, CliError> {
    schedule.blocks(Sizes::of_experts)
}

/// One line on what is computed where.
pub(crate) fn headline(request: &Request) -> String {
    let op = request.op();
    let chips = match request.chips() {
        1 => String::new(),
        chips => format!(" x {chips} chips"),
    };
    format!(
        "gmm on {}{chips}, {}: {} rows of {} experts, {} to {}",
        request.target(),
        op.dtype(),
        op.rows(),
        op.experts(),
        op.inputs(),
        op.outputs(),
    )
}

/// What the prediction takes for granted.
pub(crate) fn assumptions(request: &Request) -> Vec<String> {
    let mut lines =
        vec!["the sizes of the groups are almost even, and end anywhere in blocks".into()];
    let Spread { devices, sharing } = request.spread();
    if devices > 1 {
        let share = request.device_op();
        let copies = match devices / sharing {
            1 => String::new(),
            copies => format!(", {copies} devices the same; the sum of their dw is not counted"),
        };
        lines.push(format!(
            "{devices} devices share rows and experts evenly: {} rows and {} experts each{copies}",
            share.rows(),
            share.experts()
        ));
    }
    if request.raises_limit() {
        lines.push(raised_limit_text(request.target()));
    }
    lines.extend(target_assumptions(request.target()));
    lines
}

pub(crate) fn shape_json(op: &GroupedMatmul) -> Value {
    json!({
        "tokens": op.rows(),
        "experts": op.experts(),
        "hidden": op.inputs(),
        "out_features": op.outputs(),
    })
}

pub(crate) fn blocks_json(blocks: Blocks) -> Value {
    json!({
        "rows": blocks.rows,
        "part": blocks.part,
        "inputs": blocks.inputs,
        "outputs": blocks.outputs,
    })
}

/// As results of `run` are called.
pub(crate) const fn name(product: Product) -> &'static str {
    match product {
        Product::Y => "y",
        Product::Dx => "dx",
        Product::Dw => "dw",
    }
}

/// The pass that a product is of.
pub(crate) const fn pass(product: Product) -> &'static str {
    match product {
        Product::Y => "forward",
        Product::Dx | Product::Dw => "backward",
    }
}

/// Rows and their parts, inputs and outputs.
pub(crate) fn blocks_text(blocks: Blocks) -> String {
    let Blocks {
        rows,
        part,
        inputs,
        outputs,
        ..
    } = blocks;
    format!("{rows}/{part},{inputs},{outputs}")
}

/// The blocks of the products of a pass.
pub(crate) fn choice_text(schedule: &Schedule, pass: Pass) -> String {
    let of_products = products(pass.into()).iter().map(|&product| {
        let blocks = blocks_text(schedule.product(product));
        format!("{} {blocks}", name(product))
    });
    of_products.collect::<Vec<_>>().join(", ")
}
