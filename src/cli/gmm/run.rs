//! `run gmm`: the product on tensors from a file.

use half::bf16;
use serde_json::json;
use tilecast::core::kernels::grouped_matmul::{GroupedMatmul, Schedule};
use tilecast::sim::interpretation::{InterpretError, MULTIPLICATION_LIMIT, check_kernels};
use tilecast::{Cpu, DType};

use super::solve::{Inputs, smallest};
use super::{blocks_text, shape_json};
use crate::cli::args::Backend;
use crate::cli::error::CliError;
use crate::cli::file::Output;
use crate::cli::inputs::{Floats, Source};
use crate::cli::output::{json_text, warn};
use crate::cli::run::{Args, Place};
use crate::cli::tensors;

const NAMES: [&str; 4] = ["x", "w", "group_sizes", "dy"];

/// Reads, computes and writes; what is returned is for standard output.
pub(crate) fn run(args: &Args) -> Result<String, CliError> {
    if args
        .schedule
        .blocks
        .or(args.schedule.backward_blocks)
        .is_some()
    {
        return Err(CliError::invalid(
            "run takes no --blocks of gmm: they are chosen for the machine; emit, compile, simulate and tune do",
        ));
    }
    let output = Output::new(&args.output)?;
    let pass = args.schedule.pass;
    let mut source = Source::open(&args.input, args.op)?;
    for name in source
        .names()
        .iter()
        .filter(|name| !NAMES.contains(&&name[..]))
    {
        warn(format_args!("tensor {name} is not one that gmm reads"));
    }
    let cpu = args.machine.cpu()?;
    let op = problem(args, &source)?;
    let sizes = source.integers("group_sizes", op.experts(), "expert")?;
    // What does not fit is refused as too large below, whatever it is cut to.
    let cut = |size: &i64| (*size).clamp(i32::MIN.into(), i32::MAX.into()) as i32;
    let sizes: Vec<i32> = sizes.iter().map(cut).collect();
    op.check_sizes(&sizes)?;
    let (results, place) = match args.backend {
        Backend::Cpu => {
            let inputs = read(args, source, op, sizes)?;
            (inputs.on_cpu(&cpu, pass)?, Some(Place::Cpu(cpu)))
        }
        Backend::Sim => {
            // Refused before data are read.
            let schedule = interpreted(args, &op)?;
            let inputs = read(args, source, op, sizes)?;
            let place = Place::Sim(args.interpreter);
            (
                inputs.on_sim(&schedule, &args.interpreter.options(), pass)?,
                Some(place),
            )
        }
        Backend::Reference => {
            let inputs = read(args, source, op, sizes)?;
            (inputs.with_reference(pass)?, None)
        }
        Backend::Tpu => {
            return Err(CliError::invalid(
                "--backend tpu is not available for gmm yet, only for linear-ce; `tilecast emit` writes it for XLA",
            ));
        }
    };
    tensors::write(&output, results.tensors())?;
    let rows_per_s = op.rows() as f64 / results.seconds;
    let place_text = place.as_ref().map_or_else(String::new, Place::text);
    Ok(match args.json {
        true => json_text(&json!({
            "op": "gmm",
            "backend": args.backend.name(),
            "dtype": op.dtype().name(),
            "grad_dtype": op.out_dtype().name(),
            "shape": shape_json(&op),
            "level": place.as_ref().and_then(Place::cpu).map(|cpu| cpu.level().name()),
            "threads": place.as_ref().and_then(Place::cpu).map(Cpu::thread_count),
            "seconds": results.seconds,
            "tokens_per_s": rows_per_s,
        })),
        false => format!(
            "gmm on {}{place_text}: {} rows of {} experts, {} to {}, {}: {:.4} s, {rows_per_s:.0} rows/s",
            args.backend.name(),
            op.rows(),
            op.experts(),
            op.inputs(),
            op.outputs(),
            op.dtype(),
            results.seconds,
        ),
    })
}

fn problem(args: &Args, source: &Source) -> Result<GroupedMatmul, CliError> {
    let (dtype, [rows, inputs]) = source.matrix("x", "[T, I]")?;
    let (w_dtype, [experts, w_inputs, outputs]) = source.matrix("w", "[E, I, O]")?;
    if inputs != w_inputs {
        return Err(CliError::invalid(format_args!(
            "w is [{experts}, {w_inputs}, {outputs}], but x is [{rows}, {inputs}]: each of w [E, I, O] must have as many \
             rows as x [T, I] has columns"
        )));
    }
    let mut typed = vec![("w", w_dtype)];
    if args.schedule.pass.backward() && source.has("dy") {
        let (dy_dtype, dims) = source.matrix("dy", "[T, O]")?;
        if dims != [rows, outputs] {
            return Err(CliError::invalid(format_args!(
                "dy is {dims:?}; it must be [{rows}, {outputs}], as y"
            )));
        }
        typed.push(("dy", dy_dtype));
    }
    if let Some((name, other)) = typed.into_iter().find(|(_, other)| *other != dtype) {
        return Err(CliError::invalid(format_args!(
            "{name} is {other}, but x is {dtype}; both must have the same type"
        )));
    }
    let out_dtype = args.loss.grad_dtype.unwrap_or(dtype);
    Ok(GroupedMatmul::new(
        [rows, experts, inputs, outputs],
        dtype,
        out_dtype,
    )?)
}

fn read(
    args: &Args,
    mut source: Source,
    op: GroupedMatmul,
    sizes: Vec<i32>,
) -> Result<Inputs, CliError> {
    let dtype = op.dtype();
    let dy = match args.schedule.pass.backward() && source.has("dy") {
        true => source.floats("dy", dtype)?,
        false => {
            let ones = vec![1.0_f32; op.rows() * op.outputs()];
            match dtype {
                DType::Bf16 => Floats::Bf16(ones.into_iter().map(bf16::from_f32).collect()),
                _ => Floats::F32(ones),
            }
        }
    };
    Ok(Inputs {
        op,
        x: source.floats("x", dtype)?,
        w: source.floats("w", dtype)?,
        sizes,
        dy,
    })
}

/// Blocks for the interpreter, if it takes the problem.
fn interpreted(args: &Args, op: &GroupedMatmul) -> Result<Schedule, CliError> {
    let schedule = smallest(op);
    let rows = schedule.forward.rows;
    let backward = args.schedule.pass.backward();
    // A block that groups share is multiplied once for each of them.
    let rows = (op.rows().div_ceil(rows) + op.experts()) * rows;
    let products = if backward { 3 } else { 1 };
    let sides = [products, rows, op.inputs(), op.outputs()];
    let work: u128 = sides.iter().map(|&side| side as u128).product();
    if work > MULTIPLICATION_LIMIT {
        return Err(InterpretError::TooLarge {
            work,
            unit: "multiplications",
            blocks: blocks_text(schedule.forward),
            limit: MULTIPLICATION_LIMIT,
        }
        .into());
    }
    let target = args.interpreter.target();
    let program = op.forward_and_backward(&schedule)?;
    check_kernels(&program, target, target.vmem_usable_bytes.value)?;
    Ok(schedule)
}
