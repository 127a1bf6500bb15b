//! Check the gradients three ways: the CPU kernels against the f64 reference, and the reference
//! against central differences of its own loss.

use tilecast::core::kernels::linear_ce::{LinearCe, reference};
use tilecast::{Cotangents, DType, Matrix, Options, Reduction, linear_ce};

const B: usize = 5;
const H: usize = 7;
const V: usize = 11;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let x: Vec<f32> = (0..B * H).map(|i| (i as f32 * 0.7).sin()).collect();
    let w: Vec<f32> = (0..H * V).map(|i| (i as f32 * 0.4).cos()).collect();
    let labels: Vec<i32> = (0..B).map(|i| (i * 3 % V) as i32).collect();
    let d_lse: Vec<f32> = (0..B).map(|i| 0.1 * i as f32).collect();

    let call = linear_ce(
        Matrix::new(&x[..], B, H)?,
        Matrix::new(&w[..], H, V)?,
        &labels,
    )
    .soft_cap(3.0)
    .z_loss(0.01)
    .label_smoothing(0.1)
    .reduction(Reduction::Sum);
    let forward = call.forward()?;
    let cotangents = Cotangents {
        d_loss: None,
        d_lse: Some(&d_lse),
    };
    let cpu = call.backward(&forward.lse, cotangents)?;

    let options = Options {
        soft_cap: Some(3.0),
        z_loss: 0.01,
        label_smoothing: 0.1,
        reduction: Reduction::Sum,
        ..Options::default()
    };
    let problem = LinearCe::new(B, H, V, DType::F32, options)?;
    let widen = |data: &[f32]| data.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
    let mut inputs = reference::Inputs {
        x: widen(&x),
        w: widen(&w),
        labels,
        ..Default::default()
    };
    let d_lse = widen(&d_lse);
    let exact = reference::backward(&problem, &inputs, &[1.0], &d_lse);

    let against_reference = (cpu.dw.to_f32().iter().zip(&exact.dw))
        .map(|(cpu, exact)| (f64::from(*cpu) - exact).abs())
        .fold(0.0, f64::max);
    println!("dw, CPU (f32) against the f64 reference: largest error {against_reference:.1e}");
    assert!(against_reference < 1e-5);

    // The scalar whose gradient the cotangents describe: loss + d_lse . lse.
    let scalar = |inputs: &reference::Inputs| {
        let out = reference::forward(&problem, inputs);
        let lse: f64 = out.lse.iter().zip(&d_lse).map(|(lse, d)| lse * d).sum();
        out.loss[0] + lse
    };
    let step = 1e-5;
    let mut against_differences = 0.0_f64;
    for i in 0..H * V {
        let original = inputs.w[i];
        inputs.w[i] = original + step;
        let above = scalar(&inputs);
        inputs.w[i] = original - step;
        let below = scalar(&inputs);
        inputs.w[i] = original;
        let difference = (above - below) / (2.0 * step);
        against_differences = against_differences.max((difference - exact.dw[i]).abs());
    }
    println!("dw, f64 reference against central differences: {against_differences:.1e}");
    assert!(against_differences < 1e-8);
    Ok(())
}
