//! How exact the reference, split products and long sums are.

use half::bf16;
use tilecast::core::kernels::linear_ce::reference;
use tilecast::cpu::simd::{Arithmetic, Simd};
use tilecast::{Cotangents, Cpu, DType, Matrix, Reduction, Strategy, linear_ce};
use tilecast_tests::case::everything;
use tilecast_tests::{Backend, Case, OnCpu, Oracle};

/// The reference is the one thing that nothing else in the suite checks.
#[test]
fn the_reference_agrees_with_finite_differences() {
    for reduction in [Reduction::None, Reduction::Sum, Reduction::Mean] {
        let case = Case::new("finite differences", [5, 3, 6])
            .options(everything())
            .reduction(reduction);
        let (problem, data) = (case.problem(), case.data());
        let inputs = data.reference_inputs();
        let d_loss: Vec<f64> = data.d_loss.iter().map(|&d| d.into()).collect();
        let d_lse: Vec<f64> = data.d_lse.iter().map(|&d| d.into()).collect();
        let value = |inputs: &reference::Inputs| -> f64 {
            let forward = reference::forward(&problem, inputs);
            let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            dot(&forward.loss, &d_loss) + dot(&forward.lse, &d_lse)
        };
        let gradients = reference::backward(&problem, &inputs, &d_loss, &d_lse);
        type Field = fn(&mut reference::Inputs) -> &mut Vec<f64>;
        let fields: [(&str, Field, &[f64]); 3] = [
            ("x", |inputs| &mut inputs.x, &gradients.dx),
            ("w", |inputs| &mut inputs.w, &gradients.dw),
            ("bias", |inputs| &mut inputs.bias, &gradients.dbias),
        ];
        for (name, field, gradient) in fields {
            for (i, &expected) in gradient.iter().enumerate() {
                let step = 1e-5;
                let at = |step: f64| {
                    let mut moved = inputs.clone();
                    field(&mut moved)[i] += step;
                    value(&moved)
                };
                let difference = (at(step) - at(-step)) / (2.0 * step);
                // Central differences: error step^2 f''' / 6, and the roundoff of f over the step.
                assert!(
                    (difference - expected).abs() < 1e-8,
                    "{reduction:?}: d{name}[{i}] is {expected}, differences say {difference}"
                );
            }
        }
    }
}

#[test]
fn split_products_are_those_of_f32_to_rounding() {
    let [b, h, v] = [40, 70, 90];
    let number = |i: usize| bf16::from_f32(((i * 7919 % 2003) as f32 / 1001.5 - 1.0) * 0.7);
    let x: Vec<bf16> = (0..b * h).map(number).collect();
    let w: Vec<bf16> = (0..h * v).map(|i| number(i + 17)).collect();
    let labels: Vec<i32> = (0..b).map(|i| (i * 31 % v) as i32).collect();
    let gradients = |cpu: Cpu| {
        let x = Matrix::new(&x[..], b, h).unwrap();
        let loss = linear_ce(x, Matrix::new(&w[..], h, v).unwrap(), &labels);
        let loss = loss.grad_dtype(DType::F32).on(cpu);
        let lse = loss.forward().unwrap().lse;
        let gradients = loss.backward(&lse, Cotangents::ones()).unwrap();
        [gradients.dx.to_f32(), gradients.dw.to_f32()]
    };
    for simd in Simd::available() {
        let cpu = || Cpu::new().simd(simd);
        let in_f32 = gradients(cpu().arithmetic(Arithmetic::F32));
        let split = gradients(cpu().arithmetic(Arithmetic::Split));
        let has_pairs = simd.supports(Arithmetic::Split);
        assert_eq!(in_f32 != split, has_pairs, "{simd}");
        for (in_f32, split) in in_f32.iter().zip(&split) {
            let largest = in_f32
                .iter()
                .fold(0.0_f32, |largest, x| largest.max(x.abs()));
            let errors = in_f32
                .iter()
                .zip(split)
                .map(|(in_f32, split)| (in_f32 - split).abs());
            // No more terms than 90, none larger than the largest sum, and three parts of each.
            let error = errors.fold(0.0, f32::max);
            let bound = 3.0 * 90.0 * f32::EPSILON * largest;
            assert!(error <= bound, "{simd}: {error} of {largest}");
        }
    }
}

/// What is promised in round numbers, at a size where sums are long: f32 inputs give loss and
/// logsumexp to 2e-6 and gradients to 1e-5 of the largest entry.
#[test]
fn the_promised_accuracy_holds_at_length() {
    let case = Case::new("long", [48, 384, 3000]);
    let data = case.data();
    let oracle = Oracle::new(&case, &data);
    let largest = |values: &[f64]| values.iter().fold(0.0_f64, |a, b| a.max(b.abs()));
    for strategy in Strategy::ALL {
        let outputs = OnCpu::best(2).run(&case, strategy, &data).unwrap();
        let (forward, backward) = (&oracle.forward, &oracle.backward);
        for (name, got, expected) in [
            ("loss", &outputs.loss, &forward.loss),
            ("lse", &outputs.lse, &forward.lse),
        ] {
            for (got, expected) in got.iter().zip(expected) {
                let relative = (f64::from(*got) / expected - 1.0).abs();
                assert!(relative < 2e-6, "{name}: {relative:.1e}");
            }
        }
        for (name, got, expected) in [
            ("dx", &outputs.dx, &backward.dx),
            ("dw", &outputs.dw, &backward.dw),
        ] {
            let allowed = 1e-5 * largest(expected);
            for (got, expected) in got.iter().zip(expected) {
                let difference = (f64::from(*got) - expected).abs();
                assert!(
                    difference < allowed,
                    "{name}: {difference:.1e} of {allowed:.1e}"
                );
            }
        }
    }
}
