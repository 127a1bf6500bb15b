//! `run gmm`: the product on tensors from a file.

use std::time::Instant;

use half::bf16;
use serde_json::json;
use tilecast::core::kernels::grouped_matmul::{Blocks, GroupedMatmul, Schedule, reference};
use tilecast::grouped_matmul::{self, Weights};
use tilecast::sim::execute::{self, Array};
use tilecast::sim::interpretation::{InterpretError, MULTIPLICATION_LIMIT, check_kernels};
use tilecast::{Cpu, DType, Matrix, Values};

use super::{blocks_text, program};
use crate::cli::args::Backend;
use crate::cli::error::CliError;
use crate::cli::file::Output;
use crate::cli::inputs::{Floats, Source};
use crate::cli::output::{json_text, warn};
use crate::cli::run::{Args, Place};
use crate::cli::tensors::{self, Tensor};

const NAMES: [&str; 4] = ["x", "w", "group_sizes", "dy"];

/// Rows, inputs and outputs of a block in the interpreter: the smallest that all TPUs take.
const INTERPRETED: [usize; 2] = [128, 128];

/// What is computed from.
struct Inputs {
    op: GroupedMatmul,
    x: Floats,
    w: Floats,
    sizes: Vec<i32>,
    dy: Floats,
}

/// Results by name, and how long they took.
struct Results {
    arrays: Vec<(&'static str, Array)>,
    seconds: f64,
}

/// Reads, computes and writes; what is returned is for standard output.
pub(crate) fn run(args: &Args) -> Result<String, CliError> {
    let output = Output::new(&args.output)?;
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
            (on_cpu(&inputs, &cpu, args)?, Some(Place::Cpu(cpu)))
        }
        Backend::Sim => {
            // Refused before data are read.
            let schedule = interpreted(args, &op)?;
            let inputs = read(args, source, op, sizes)?;
            let place = Place::Sim(args.interpreter);
            (on_sim(&inputs, &schedule, args)?, Some(place))
        }
        Backend::Reference => {
            let inputs = read(args, source, op, sizes)?;
            (with_reference(&inputs, args)?, None)
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
            "shape": {
                "tokens": op.rows(),
                "experts": op.experts(),
                "hidden": op.inputs(),
                "out_features": op.outputs(),
            },
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
    let [rows, side] = INTERPRETED;
    let block = |size: usize| match size.is_multiple_of(side) {
        true => side,
        false => size,
    };
    let schedule = Schedule::of(Blocks {
        rows,
        part: rows,
        inputs: block(op.inputs()),
        outputs: block(op.outputs()),
    });
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

impl Inputs {
    /// Dimensions of `x` or `dx`, `w` or `dw`, `y` or `dy`.
    fn dims(&self) -> [Vec<usize>; 3] {
        let op = &self.op;
        let (rows, experts) = (op.rows(), op.experts());
        let (inputs, outputs) = (op.inputs(), op.outputs());
        [
            vec![rows, inputs],
            vec![experts, inputs, outputs],
            vec![rows, outputs],
        ]
    }

    /// Names and dimensions of the results that are asked for.
    fn wanted(&self, args: &Args) -> Vec<(&'static str, Vec<usize>)> {
        let [x, w, y] = self.dims();
        let (pass, mut wanted) = (args.schedule.pass, Vec::new());
        if pass.forward() {
            wanted.push(("y", y));
        }
        if pass.backward() {
            wanted.extend([("dx", x), ("dw", w)]);
        }
        wanted
    }

    /// The results that are asked for, in order.
    fn results(
        &self,
        args: &Args,
        floats: impl Iterator<Item = Floats>,
        seconds: f64,
    ) -> Result<Results, CliError> {
        let named = self.wanted(args).into_iter().zip(floats);
        let arrays = named.map(|((name, dims), floats)| Ok((name, owned(floats, &dims)?)));
        let arrays = arrays.collect::<Result<_, CliError>>()?;
        Ok(Results { arrays, seconds })
    }
}

fn on_cpu(inputs: &Inputs, cpu: &Cpu, args: &Args) -> Result<Results, CliError> {
    let op = &inputs.op;
    let dims = [op.experts(), op.inputs(), op.outputs()];
    let w = match &inputs.w {
        Floats::F32(data) => Weights::new(&data[..], dims),
        Floats::Bf16(data) => Weights::new(&data[..], dims),
    };
    let w = w.map_err(CliError::invalid)?;
    let product = grouped_matmul::new(matrix(&inputs.x, op.rows(), op.inputs())?, w, &inputs.sizes);
    let product = product.out_dtype(op.out_dtype()).on(cpu.clone());
    let dy = matrix(&inputs.dy, op.rows(), op.outputs())?;
    let start = Instant::now();
    let mut found = Vec::new();
    if args.schedule.pass.forward() {
        found.push(product.forward().map_err(CliError::invalid)?);
    }
    if args.schedule.pass.backward() {
        let gradients = product.backward(dy).map_err(CliError::invalid)?;
        found.extend([gradients.dx, gradients.dw]);
    }
    let seconds = start.elapsed().as_secs_f64();
    let floats = found.into_iter().map(|values| match values {
        Values::F32(data) => Floats::F32(data),
        Values::Bf16(data) => Floats::Bf16(data),
    });
    inputs.results(args, floats, seconds)
}

fn matrix(floats: &Floats, rows: usize, columns: usize) -> Result<Matrix<'_>, CliError> {
    match floats {
        Floats::F32(data) => Matrix::new(&data[..], rows, columns),
        Floats::Bf16(data) => Matrix::new(&data[..], rows, columns),
    }
    .map_err(CliError::invalid)
}

fn owned(elements: Floats, dims: &[usize]) -> Result<Array, CliError> {
    match elements {
        Floats::F32(data) => Array::new(data, dims),
        Floats::Bf16(data) => Array::new(data, dims),
    }
    .map_err(CliError::failure)
}

fn on_sim(inputs: &Inputs, schedule: &Schedule, args: &Args) -> Result<Results, CliError> {
    let [x, w, y] = inputs.dims();
    let x = owned(inputs.x.clone(), &x)?;
    let w = owned(inputs.w.clone(), &w)?;
    let dy = owned(inputs.dy.clone(), &y)?;
    let sizes = Array::new(inputs.sizes.clone(), &[inputs.sizes.len()]);
    let sizes = sizes.map_err(CliError::failure)?;
    let passed = [("x", &x), ("w", &w), ("dy", &dy), ("group_sizes", &sizes)];
    let program = program(&inputs.op, schedule, args.schedule.pass)?;
    let start = Instant::now();
    let arrays = execute::program(&program, &passed, &args.interpreter.options())?;
    let seconds = start.elapsed().as_secs_f64();
    Ok(Results { arrays, seconds })
}

fn with_reference(inputs: &Inputs, args: &Args) -> Result<Results, CliError> {
    let [x, w, dy] = [&inputs.x, &inputs.w, &inputs.dy].map(Floats::widened);
    let start = Instant::now();
    let mut found = Vec::new();
    if args.schedule.pass.forward() {
        found.push(reference::forward(&inputs.op, &x, &w, &inputs.sizes));
    }
    if args.schedule.pass.backward() {
        let (dx, dw) = reference::backward(&inputs.op, [&x, &w, &dy], &inputs.sizes);
        found.extend([dx, dw]);
    }
    let seconds = start.elapsed().as_secs_f64();
    let floats = found.into_iter().map(|data| match inputs.op.out_dtype() {
        DType::Bf16 => Floats::Bf16(data.into_iter().map(bf16::from_f64).collect()),
        _ => Floats::F32(data.into_iter().map(|x| x as f32).collect()),
    });
    inputs.results(args, floats, seconds)
}

impl Results {
    fn tensors(&self) -> Vec<Tensor<'_>> {
        (self.arrays.iter())
            .map(|(name, array)| Tensor::of_array(name, array, array.dims()))
            .collect()
    }
}
