//! The grouped product: groups of all kinds, and tolerances that are those of a sum in f32, rounded.

use half::bf16;
use tilecast::DType;
use tilecast::core::kernels::grouped_matmul::{GroupedMatmul, reference};
use tilecast::sim::execute;

use super::compare::Errors;
use super::tolerance::{SMALLEST, rounding, sum_of};
use super::{Args, Checked, interpreter, machines};
use crate::cli::args::{Backend, Pass};
use crate::cli::error::CliError;
use crate::cli::gmm::solve::{Inputs, smallest};
use crate::cli::inputs::Floats;
use crate::cli::random::Random;

/// One problem.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    name: &'static str,
    rows: usize,
    inputs: usize,
    outputs: usize,
    /// Rows of each expert.
    groups: &'static [i32],
}

pub(super) const CASES: [Case; 6] = [
    case("even groups", [48, 33, 20], &[16, 16, 16]),
    case("one expert", [37, 8, 24], &[37]),
    case("experts without rows", [29, 40, 17], &[0, 12, 0, 17, 0]),
    case("rows without an expert", [50, 19, 31], &[3, 0, 22]),
    case("no row has an expert", [9, 12, 10], &[0, 0]),
    case(
        "groups of several blocks",
        [700, 130, 70],
        &[1, 300, 20, 379],
    ),
];

const fn case(
    name: &'static str,
    [rows, inputs, outputs]: [usize; 3],
    groups: &'static [i32],
) -> Case {
    Case {
        name,
        rows,
        inputs,
        outputs,
        groups,
    }
}

impl Case {
    /// Random inputs. Both types see the same draws, rounded.
    fn inputs(&self, dtype: DType, seed: u64) -> Result<Inputs, CliError> {
        let mut random = Random::new(seed);
        let mut normal = |len: usize| {
            let drawn = (0..len).map(|_| random.normal());
            match dtype {
                DType::Bf16 => Floats::Bf16(drawn.map(bf16::from_f64).collect()),
                _ => Floats::F32(drawn.map(|x| x as f32).collect()),
            }
        };
        let experts = self.groups.len();
        let sizes = [self.rows, experts, self.inputs, self.outputs];
        Ok(Inputs {
            op: GroupedMatmul::new(sizes, dtype, dtype)?,
            x: normal(self.rows * self.inputs),
            w: normal(experts * self.inputs * self.outputs),
            sizes: self.groups.into(),
            dy: normal(self.rows * self.outputs),
        })
    }
}

/// `y`, `dx` and `dw` of arrays.
fn products([x, w, dy]: [&[f64]; 3], inputs: &Inputs) -> [Vec<f64>; 3] {
    let (op, sizes) = (&inputs.op, &inputs.sizes);
    let y = reference::forward(op, x, w, sizes);
    let (dx, dw) = reference::backward(op, [x, w, dy], sizes);
    [y, dx, dw]
}

/// Exact results, and how far others may be from them.
struct Exact(Vec<(&'static str, Vec<f64>, Vec<f64>)>);

impl Exact {
    fn of(inputs: &Inputs) -> Self {
        let op = &inputs.op;
        let wide = [&inputs.x, &inputs.w, &inputs.dy].map(Floats::widened);
        let exact = products([&wide[0], &wide[1], &wide[2]], inputs);
        let sizes = wide.map(|values| values.iter().map(|x| x.abs()).collect::<Vec<_>>());
        let sizes = products([&sizes[0], &sizes[1], &sizes[2]], inputs);
        let longest = inputs.sizes.iter().copied().max().unwrap_or(0) as usize;
        let terms = [op.inputs(), op.outputs(), longest];
        let named = ["y", "dx", "dw"]
            .into_iter()
            .zip(exact)
            .zip(sizes)
            .zip(terms);
        let results = named.map(|(((name, exact), sizes), terms)| {
            let allowed = exact.iter().zip(sizes).map(|(exact, size)| {
                SMALLEST + sum_of(terms) * size + rounding(op.out_dtype()) * exact.abs()
            });
            let allowed = allowed.collect();
            (name, exact, allowed)
        });
        Self(results.collect())
    }

    fn compare(&self, results: &[(&'static str, execute::Array)]) -> Vec<(&'static str, Errors)> {
        let errors = |(name, exact, allowed): &(&'static str, Vec<f64>, Vec<f64>)| {
            let found = results.iter().find(|(found, _)| found == name);
            let found = found.map_or_else(Vec::new, |(_, array)| array.to_f32());
            (*name, Errors::of(&found, exact, allowed))
        };
        self.0.iter().map(errors).collect()
    }
}

/// Runs a case on the backends that are asked for.
pub(super) fn check(
    args: &Args,
    case: &Case,
    dtype: DType,
    seed: u64,
) -> Result<Checked, CliError> {
    let inputs = case.inputs(dtype, seed)?;
    let exact = Exact::of(&inputs);
    let shape = [
        ("tokens", case.rows),
        ("experts", case.groups.len()),
        ("hidden", case.inputs),
        ("out_features", case.outputs),
    ];
    let mut found = Checked::new(case.name, dtype, &shape);
    if args.backends.contains(&Backend::Cpu) {
        for (machine, cpu) in machines() {
            let results = inputs.on_cpu(&cpu, Pass::Both)?;
            found.add(&machine, exact.compare(&results.arrays));
        }
    }
    if args.backends.contains(&Backend::Sim) {
        let options = interpreter(seed);
        let results = inputs.on_sim(&smallest(&inputs.op), &options, Pass::Both)?;
        found.add(Backend::Sim.name(), exact.compare(&results.arrays));
    }
    if args.backends.contains(&Backend::Reference) {
        found.differences = Some(differences(&inputs, gradients(&inputs), seed));
    }
    Ok(found)
}

/// `dx` and `dw` of the reference.
fn gradients(inputs: &Inputs) -> [Vec<f64>; 2] {
    let [x, w, dy] = [&inputs.x, &inputs.w, &inputs.dy].map(Floats::widened);
    let [_, dx, dw] = products([&x, &w, &dy], inputs);
    [dx, dw]
}

/// Gradients against differences of the sum of `dy * y`, along directions of signs. The sum is linear in `x` and in
/// `w`, so that the difference of whole steps is the derivative, but for rounding.
fn differences(inputs: &Inputs, [dx, dw]: [Vec<f64>; 2], seed: u64) -> Errors {
    const DIRECTIONS: usize = 3;
    let [x, w, dy] = [&inputs.x, &inputs.w, &inputs.dy].map(Floats::widened);
    let sum = |x: &[f64], w: &[f64], dy: &[f64]| -> f64 {
        let y = reference::forward(&inputs.op, x, w, &inputs.sizes);
        y.iter().zip(dy).map(|(y, dy)| y * dy).sum()
    };
    let moved = |values: &[f64], direction: &[f64], sign: f64| -> Vec<f64> {
        let both = values.iter().zip(direction);
        both.map(|(value, r)| value + sign * r).collect()
    };
    let [x_size, w_size, dy_size] =
        [&x, &w, &dy].map(|values| values.iter().map(|x| x.abs() + 1.0).collect::<Vec<_>>());
    let terms = inputs.op.rows() * inputs.op.inputs() * inputs.op.outputs();
    let roundoff = 8.0 * (terms as f64).sqrt() * f64::EPSILON;
    let tolerance = SMALLEST + roundoff * sum(&x_size, &w_size, &dy_size);
    let mut random = Random::new(seed);
    let mut errors = Errors::default();
    for of_x in [true, false] {
        let gradient = if of_x { &dx } else { &dw };
        for _ in 0..DIRECTIONS {
            let direction: Vec<f64> = gradient.iter().map(|_| random.sign()).collect();
            let [ahead, back] = [1.0, -1.0].map(|sign| match of_x {
                true => sum(&moved(&x, &direction, sign), &w, &dy),
                false => sum(&x, &moved(&w, &direction, sign), &dy),
            });
            let derivative = gradient.iter().zip(&direction).map(|(g, r)| g * r).sum();
            errors.push((ahead - back) / 2.0, derivative, tolerance);
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row given to the next expert is wrong, of a group with two.
    #[test]
    fn tolerances_are_tight_enough_to_notice_a_row_of_another_expert() {
        for dtype in [DType::F32, DType::Bf16] {
            let inputs = CASES[0].inputs(dtype, 3).unwrap();
            let exact = Exact::of(&inputs);
            let mut wrong = inputs.clone();
            wrong.sizes = vec![15, 17, 16];
            let results = wrong.with_reference(Pass::Both).unwrap();
            for (name, errors) in exact.compare(&results.arrays) {
                assert!(!errors.passed(), "{name}");
            }
            let right = inputs.with_reference(Pass::Both).unwrap();
            for (name, errors) in exact.compare(&right.arrays) {
                assert!(errors.passed(), "{name}");
            }
        }
    }

    #[test]
    fn a_wrong_gradient_is_noticed() {
        let inputs = CASES[2].inputs(DType::F32, 5).unwrap();
        let right = gradients(&inputs);
        assert!(differences(&inputs, right.clone(), 7).passed());
        for wrong in 0..2 {
            let mut gradients = right.clone();
            gradients[wrong][3] += 1e-6;
            assert!(!differences(&inputs, gradients, 7).passed(), "{wrong}");
        }
    }
}
