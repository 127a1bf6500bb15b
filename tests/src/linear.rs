//! The ops on the logits of a head: cases and expected values. Columns are those of the ops on given
//! [`logits`], run with both strategies.

use tilecast::DType;
use tilecast::core::kernels::head::HeadKernel;
use tilecast::core::kernels::head::{
    Blocks, HeadOptions, Lazy, ProductBlocks, Schedule, Split, Strategy,
};
use tilecast::core::kernels::linear_op::{Inputs, LinearOp, reference, rounding};
use tilecast::core::kernels::logits_op::of_name;
use tilecast::core::program::Program;
use tilecast_sim::interpretation::{default_target, delta_operand_dtype, raised};

use crate::case::{Random, round_to, widen};
use crate::logits::{self, Column, Expected, Op, Outputs, named};

/// What is computed, on which numbers, in which blocks.
#[derive(Clone, Debug)]
pub struct Case {
    /// The op on the logits: `[B, V]`, types, seed, size of the logits.
    pub op: logits::Case,
    /// `H`
    pub hidden: usize,
    /// The head.
    pub head: HeadOptions,
    /// `[b, h, v]`: chunks of two column blocks, at most two cores, no sub-tiles.
    pub blocks: [usize; 3],
}

/// The numbers of a case by the names of the program's arrays. Those of type bf16 are widened, and exact.
#[derive(Clone, Debug)]
pub struct Data {
    /// `[B,H]`
    pub x: Vec<f32>,
    /// `[H,V]`
    pub w: Vec<f32>,
    /// `[V]`, or empty.
    pub bias: Vec<f32>,
    /// Labels, inputs and cotangents.
    pub of_rows: logits::Data,
}

impl Data {
    /// All of it in f64.
    pub fn widened(&self) -> Inputs {
        let rows = self.of_rows.widened();
        Inputs {
            x: widen(&self.x),
            w: widen(&self.w),
            bias: widen(&self.bias),
            labels: rows.labels,
            vectors: rows.vectors,
        }
    }
}

impl Case {
    /// A ragged shape in f32, in blocks that divide none of its sizes: five column blocks in three chunks.
    pub fn new(name: &'static str, op: Op) -> Self {
        Self {
            op: logits::Case {
                shape: [36, 70],
                ..logits::Case::new(name, op)
            },
            hidden: 21,
            head: HeadOptions::default(),
            blocks: [8, 16, 16],
        }
    }

    /// With another shape and blocks.
    pub fn shape(mut self, [b, h, v]: [usize; 3], blocks: [usize; 3]) -> Self {
        self.op.shape = [b, v];
        Self {
            hidden: h,
            blocks,
            ..self
        }
    }

    /// With bf16 inputs.
    pub fn bf16(self) -> Self {
        Self {
            op: self.op.bf16(),
            ..self
        }
    }

    /// The op.
    ///
    /// # Panics
    /// If it refuses the case.
    pub fn problem(&self) -> LinearOp {
        LinearOp::new(self.op.problem(), self.hidden, self.head)
            .unwrap_or_else(|error| panic!("{}: {error}", self.op.name))
    }

    /// The numbers. `x`, `w` and `bias` have random signs; the rest is that of an op on logits as large.
    pub fn data(&self) -> Data {
        let ([b, v], h) = (self.op.shape, self.hidden);
        let mut random = Random(self.op.seed);
        // A sum of h products of two uniform numbers has variance h / 9.
        let w_scale = 3.0 * self.op.logit_scale / (h as f32).sqrt();
        let mut numbers = |len: usize, scale: f32, dtype| -> Vec<f32> {
            (0..len)
                .map(|_| round_to(dtype, random.signed() * scale))
                .collect()
        };
        let dtype = self.op.dtype;
        let (x, w) = (numbers(b * h, 1.0, dtype), numbers(h * v, w_scale, dtype));
        let biases = if self.head.bias { v } else { 0 };
        let bias = numbers(biases, self.op.logit_scale, DType::F32);
        let inputs = Inputs {
            x: widen(&x),
            w: widen(&w),
            bias: widen(&bias),
            ..Inputs::default()
        };
        let logits = inputs.stored(&self.problem()).logits;
        let logits = logits.into_iter().map(|z| z as f32).collect();
        Data {
            x,
            w,
            bias,
            of_rows: self.op.data_for(logits, &mut random),
        }
    }

    /// The schedule as a column takes it.
    fn schedule(&self, column: Column, strategy: Strategy) -> Schedule {
        let [b, h, v] = self.blocks;
        let blocks = Blocks { b, h, v };
        let schedule = Schedule {
            chunk_columns: 2 * v,
            cores: 2,
            // One of each.
            split: match strategy {
                Strategy::Combined => Split::Rows,
                Strategy::Streaming => Split::Columns,
            },
            delta_split: Split::Columns,
            dx: Some(ProductBlocks { b, h }),
            ..Schedule::plain(blocks, strategy)
        };
        match column {
            Column::Cpu(_) => schedule,
            Column::Simulated => {
                let lazy = Schedule {
                    lazy: Some(Lazy {
                        columns: v,
                        keeps_logits: false,
                        exact_rows: 0,
                        stores_labels: false,
                    }),
                    ..schedule
                };
                raised(&lazy, default_target())
            }
        }
    }
}

/// Outputs of both passes.
///
/// # Errors
/// What went wrong, in words.
pub fn run(
    case: &Case,
    data: &Data,
    column: Column,
    strategy: Strategy,
) -> Result<Outputs, String> {
    let (problem, schedule) = (case.problem(), case.schedule(column, strategy));
    let forward = problem.forward(&schedule).map_err(|e| e.to_string())?;
    let backward = problem.backward(&schedule).map_err(|e| e.to_string())?;
    let mut known = data.clone();
    let mut outputs = run_program(column, &forward, &known)?;
    (known.of_rows.vectors).extend(outputs.iter().cloned());
    outputs.extend(run_program(column, &backward, &known)?);
    Ok(outputs)
}

/// Outputs of both passes as one program.
///
/// # Errors
/// What went wrong, in words.
pub fn run_at_once(
    case: &Case,
    data: &Data,
    column: Column,
    strategy: Strategy,
) -> Result<Outputs, String> {
    let schedule = case.schedule(column, strategy);
    let both = case.problem().forward_and_backward(&schedule);
    run_program(column, &both.map_err(|e| e.to_string())?, data)
}

fn run_program(
    column: Column,
    program: &Program<HeadKernel>,
    data: &Data,
) -> Result<Outputs, String> {
    let find = |name: &str| match name {
        "x" => &data.x[..],
        "w" => &data.w[..],
        "bias" => &data.bias[..],
        _ => data.of_rows.vector(name),
    };
    named::run(column, program, &data.of_rows.labels, &find)
}

/// What a case should give where delta is multiplied in type `delta`.
pub fn expected(case: &Case, data: &Data, delta: DType) -> Vec<Expected> {
    let (op, inputs) = (case.problem(), data.widened());
    let forward = reference::forward(&op, &inputs);
    let errors = rounding::errors(&op, &inputs, &forward, delta);
    let head = op.head();
    let dims_of = |name: &str, len: usize| match name {
        "dx" => vec![head.tokens(), head.hidden()],
        "dw" => vec![head.hidden(), head.vocab()],
        _ => vec![len],
    };
    let outputs = forward.into_iter().chain(reference::backward(&op, &inputs));
    outputs
        .map(|(name, values)| Expected {
            name,
            dtype: match name {
                "dx" | "dw" => head.grad_dtype(),
                _ => DType::F32,
            },
            dims: dims_of(name, values.len()),
            values,
            errors: of_name(&errors, name).into(),
        })
        .collect()
}

/// The type in which a column multiplies delta.
fn delta_of(case: &Case, column: Column, strategy: Strategy) -> DType {
    let problem = case.problem();
    match column {
        Column::Simulated => delta_operand_dtype(problem.head(), strategy),
        Column::Cpu(_) => problem.head().held_delta(strategy),
    }
}

/// Runs a case with both strategies on columns.
///
/// # Errors
/// A report of everything that differs.
pub fn check(case: &Case, data: &Data, columns: &[Column]) -> Result<(), String> {
    let [f32s, bf16s] = [DType::F32, DType::Bf16].map(|delta| expected(case, data, delta));
    let mut reports = Vec::new();
    for &column in columns {
        for strategy in Strategy::ALL {
            let expected = match delta_of(case, column, strategy) {
                DType::Bf16 => &bf16s,
                _ => &f32s,
            };
            let place = format!("{} on {column:?}, {}", case.op.name, strategy.name());
            match run(case, data, column, strategy) {
                Err(error) => reports.push(format!("{place}: {error}")),
                Ok(outputs) => {
                    let found = logits::compare_all(expected, &outputs);
                    reports.extend(found.into_iter().map(|report| format!("{place}: {report}")));
                }
            }
        }
    }
    match reports.is_empty() {
        true => Ok(()),
        false => Err(reports.join("\n")),
    }
}

/// Runs a case on every column and panics with a report of everything that differs.
///
/// # Panics
/// If a column disagrees with the reference.
pub fn assert_case(case: &Case) {
    let checked = check(case, &case.data(), &Column::all());
    assert!(checked.is_ok(), "\n{}", checked.unwrap_err());
}
