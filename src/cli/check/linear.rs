//! The ops on the logits of a head: the cases of the ops on given [logits](super::logits), tolerances from
//! [`rounding`](tilecast::core::kernels::linear_op::rounding).

use half::bf16;
use tilecast::core::kernels::head::HeadOptions;
use tilecast::core::kernels::linear_op::{self, LinearOp, reference, rounding};
use tilecast::core::kernels::logits_op::of_name;
use tilecast::sim::execute::{Array, Data};
use tilecast::sim::interpretation::{default_target, delta_operand_dtype, raised};
use tilecast::{Blocks, DType, Schedule, Strategy};

use super::logits::{self, Differences, Exact};
use super::{Args, Checked, interpreter, machines};
use crate::cli::args::{Backend, Op};
use crate::cli::error::CliError;
use crate::cli::logits::inputs::Inputs;
use crate::cli::logits::solve::{on_cpu, on_sim, widened};
use crate::cli::logits::source::Sourced;
use crate::cli::random::Random;

/// One problem.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    rows: logits::Case,
    head: HeadOptions,
}

/// `H`, which no block divides.
const HIDDEN: usize = 37;

/// Those of the op on given logits, the last with everything that a head can have.
pub(super) fn cases(op: Op) -> Vec<Case> {
    let case = |rows| Case {
        rows,
        head: HeadOptions::default(),
    };
    let mut cases: Vec<Case> = logits::cases(op).into_iter().map(case).collect();
    let everything = cases.iter().find(|case| case.rows.name == "everything");
    let mut head = *everything.expect("every op has such a case");
    head.rows.name = "bias and soft cap";
    head.head = HeadOptions {
        bias: true,
        soft_cap: Some(5.0),
        delta_dtype: None,
    };
    cases.push(head);
    cases
}

impl Case {
    fn op(&self, dtype: DType) -> Result<LinearOp, CliError> {
        Ok(LinearOp::new(self.rows.op(dtype)?, HIDDEN, self.head)?)
    }

    /// Random inputs. Both types see the same draws, rounded.
    fn inputs(&self, dtype: DType, seed: u64) -> Result<Inputs<LinearOp>, CliError> {
        let (op, [b, v]) = (self.op(dtype)?, self.rows.shape);
        let mut random = Random::new(seed);
        let mut normal = |name, dims: &[usize], deviation: f64, dtype| {
            let drawn = (0..dims.iter().product()).map(|_| deviation * random.normal());
            let data: Data = match dtype {
                DType::Bf16 => drawn.map(bf16::from_f64).collect::<Vec<_>>().into(),
                _ => drawn.map(|x| x as f32).collect::<Vec<_>>().into(),
            };
            Ok::<_, CliError>((name, Array::new(data, dims)?))
        };
        let of_w = self.rows.deviation / (HIDDEN as f64).sqrt();
        let mut arrays = vec![
            normal("x", &[b, HIDDEN], 1.0, dtype)?,
            normal("w", &[HIDDEN, v], of_w, dtype)?,
        ];
        if self.head.bias {
            arrays.push(normal("bias", &[v], 1.0, DType::F32)?);
        }
        let mut inputs = Inputs { op, arrays };
        let logits = widened(&inputs).stored(&op).logits;
        let logits: Vec<f32> = logits.iter().map(|&z| z as f32).collect();
        // The other policies are near this one, so their distances are taken in f32.
        let of_rows = self.rows.op(DType::F32)?;
        let beside = self.rows.inputs_for(of_rows, logits.into(), &mut random)?;
        let beside = beside.arrays.into_iter();
        (inputs.arrays).extend(beside.filter(|(name, _)| *name != "logits"));
        Ok(inputs)
    }

    /// `chosen`, with the blocks that the case asks for.
    fn cut(&self, chosen: Schedule, strategy: Strategy) -> Schedule {
        let chosen = Schedule { strategy, ..chosen };
        let Some([b, v]) = self.rows.blocks else {
            return chosen;
        };
        let blocks = Blocks { b, h: 16, v };
        Schedule {
            chunk_columns: 2 * v,
            cores: chosen.cores,
            lazy: chosen.lazy,
            ..Schedule::plain(blocks, strategy)
        }
    }
}

fn exact(op: &LinearOp, inputs: &linear_op::Inputs, delta: DType) -> Exact {
    let mut values = reference::forward(op, inputs);
    let errors = rounding::errors(op, inputs, &values, delta);
    values.extend(reference::backward(op, inputs));
    let gradient = |name: &str| ["dx", "dw"].contains(&name).then(|| op.head().grad_dtype());
    Exact::of(values, &errors, gradient)
}

/// Runs a case on the backends that are asked for, with every strategy.
pub(super) fn check(
    args: &Args,
    case: &Case,
    dtype: DType,
    seed: u64,
) -> Result<Checked, CliError> {
    let inputs = case.inputs(dtype, seed)?;
    let (op, wide) = (&inputs.op, widened(&inputs));
    let [f32s, bf16s] = [DType::F32, DType::Bf16].map(|delta| exact(op, &wide, delta));
    let with = |delta| match delta {
        DType::Bf16 => &bf16s,
        _ => &f32s,
    };
    let [tokens, vocab] = case.rows.shape;
    let shape = [("tokens", tokens), ("hidden", HIDDEN), ("vocab", vocab)];
    let mut found = Checked::new(case.rows.name, dtype, &shape);
    for strategy in Strategy::ALL {
        if args.backends.contains(&Backend::Cpu) {
            let exact = with(op.head().held_delta(strategy));
            for (machine, cpu) in machines() {
                let schedule = case.cut(op.for_cpu(&cpu), strategy);
                let results = on_cpu(&inputs, &schedule, &cpu, true)?;
                let run = format!("{}, {machine}", strategy.name());
                found.add(&run, exact.compare(&results));
            }
        }
        if args.backends.contains(&Backend::Sim) {
            let options = interpreter(seed);
            let target = default_target();
            let schedule = raised(&case.cut(LinearOp::smallest(target), strategy), target);
            let results = on_sim(&inputs, &schedule, &options, true)?;
            let run = format!("{}, {}", strategy.name(), Backend::Sim.name());
            let exact = with(delta_operand_dtype(op.head(), strategy));
            found.add(&run, exact.compare(&results));
        }
    }
    if args.backends.contains(&Backend::Reference) {
        found.differences = Some(differences(op, &wide, seed)?);
    }
    Ok(found)
}

/// All gradients together, along directions in `x`, `w` and bias at once.
fn differences(
    op: &LinearOp,
    inputs: &linear_op::Inputs,
    seed: u64,
) -> Result<super::compare::Errors, CliError> {
    let gradients = reference::backward(op, inputs);
    let all = ["dx", "dw", "dbias"].map(|name| of_name(&gradients, name));
    let logits = |direction: &[f64], step: f64| {
        let mut moved = inputs.clone();
        let mut direction = direction.iter();
        for values in [&mut moved.x, &mut moved.w, &mut moved.bias] {
            for (value, r) in values.iter_mut().zip(&mut direction) {
                *value += step * r;
            }
        }
        moved.stored(op).logits
    };
    let of_rows = Differences::new(op.op(), &inputs.stored(op))?;
    Ok(of_rows.errors_along(&all.concat(), logits, seed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_repeat_and_every_head_is_there() {
        for op in [Op::LinearGrpo, Op::LinearEntropy] {
            let cases = cases(op);
            assert!(cases.iter().any(|case| case.head.bias));
            for case in &cases {
                let inputs = |seed| case.inputs(DType::F32, seed).unwrap().arrays;
                assert_eq!(inputs(5), inputs(5), "{}", case.rows.name);
                assert_ne!(inputs(5), inputs(6), "{}", case.rows.name);
            }
        }
    }

    /// Gradients with one cotangent forgotten, compared as if none were.
    #[test]
    fn tolerances_are_tight_enough_to_notice_a_missing_term() {
        for op in [Op::LinearGrpo, Op::LinearEntropy] {
            let case = cases(op).pop().unwrap();
            for dtype in [DType::F32, DType::Bf16] {
                let inputs = case.inputs(dtype, 3).unwrap();
                let (op, wide) = (inputs.op, widened(&inputs));
                let exact = exact(&op, &wide, dtype);
                for output in op.op().differentiable() {
                    let mut wrong = wide.clone();
                    let cotangent = format!("d_{output}");
                    let vectors = wrong.vectors.iter_mut();
                    let found = vectors.filter(|(name, _)| *name == cotangent);
                    found.for_each(|(_, values)| values.fill(0.0));
                    for (name, values) in reference::backward(&op, &wrong) {
                        let got: Vec<f32> = values.iter().map(|&x| x as f32).collect();
                        let errors = exact.errors(name, &got);
                        assert!(!errors.passed(), "{name} without {cotangent}");
                    }
                }
            }
        }
    }
}
