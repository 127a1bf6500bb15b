//! A layer of experts: computed here, and written for a TPU.
//!
//! ```
//! cargo run --release --example grouped_matmul
//! cargo run --release --example grouped_matmul -- --emit v5p forward.mlir backward.mlir
//! ```
//!
//! The first computes a layer of eight experts on groups of very different sizes, with its gradients, and holds them
//! against sums written out. The second asks the model for the fastest block sizes of the same layer on a TPU, in bf16,
//! and writes both passes as StableHLO, as a training step would call them: the sizes of the groups are an input, and
//! the steps that visit them are computed on the device.

use std::error::Error;

use tilecast::core::kernels::grouped_matmul::GroupedMatmul;
use tilecast::core::target::Target;
use tilecast::sim::experts::{Choice, Request};
use tilecast::sim::problem::Passes;
use tilecast::tpu::stablehlo::{EmitOptions, emit};
use tilecast::{DType, Matrix, grouped_matmul};

const TOKENS: usize = 1024;
const INPUTS: usize = 256;
const OUTPUTS: usize = 512;
const SIZES: [i32; 8] = [200, 0, 31, 300, 1, 128, 256, 100];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [] => on_cpu(),
        [flag, target, files @ ..] if flag == "--emit" && files.len() == 2 => {
            let target = Target::by_name(target)?;
            write_for_tpu(target, files)
        }
        _ => Err("usage: grouped_matmul [--emit TARGET FORWARD BACKWARD]".into()),
    }
}

/// Numbers between -1 and 1.
fn numbers(len: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_769).max(1);
    let number = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    std::iter::repeat_with(number).take(len).collect()
}

fn on_cpu() -> Result<(), Box<dyn Error>> {
    let (x, dy) = (numbers(TOKENS * INPUTS, 1), numbers(TOKENS * OUTPUTS, 2));
    let w = numbers(SIZES.len() * INPUTS * OUTPUTS, 3);
    let layer = grouped_matmul::new(
        Matrix::new(&x[..], TOKENS, INPUTS)?,
        grouped_matmul::Weights::new(&w[..], [SIZES.len(), INPUTS, OUTPUTS])?,
        &SIZES,
    );
    let y = layer.forward()?.to_f32();
    let gradients = layer.backward(Matrix::new(&dy[..], TOKENS, OUTPUTS)?)?;
    let (dx, dw) = (gradients.dx.to_f32(), gradients.dw.to_f32());

    // Each expert alone, with one output and one input of each row, and one weight.
    let (mut start, mut worst) = (0, 0.0_f64);
    let mut compare = |found: f32, expected: f64| {
        worst = worst.max((f64::from(found) - expected).abs());
    };
    for (expert, &size) in SIZES.iter().enumerate() {
        let rows = start..start + size as usize;
        let weight = |i: usize, o: usize| f64::from(w[(expert * INPUTS + i) * OUTPUTS + o]);
        for row in rows.clone() {
            let (i, o) = (row % INPUTS, row * 7 % OUTPUTS);
            let sum = (0..INPUTS).map(|i| f64::from(x[row * INPUTS + i]) * weight(i, o));
            compare(y[row * OUTPUTS + o], sum.sum());
            let sum = (0..OUTPUTS).map(|o| f64::from(dy[row * OUTPUTS + o]) * weight(i, o));
            compare(dx[row * INPUTS + i], sum.sum());
        }
        let (i, o) = (17 * expert % INPUTS, 31 * expert % OUTPUTS);
        let sum = rows.map(|row| f64::from(x[row * INPUTS + i]) * f64::from(dy[row * OUTPUTS + o]));
        compare(dw[(expert * INPUTS + i) * OUTPUTS + o], sum.sum());
        start += size as usize;
    }
    assert!(
        y[start * OUTPUTS..].iter().all(|&y| y == 0.0),
        "rows without an expert are 0"
    );
    println!(
        "{TOKENS} rows, {} experts: largest difference {worst:.1e}",
        SIZES.len()
    );
    assert!(worst < 1e-4);
    Ok(())
}

fn write_for_tpu(target: &'static Target, files: &[String]) -> Result<(), Box<dyn Error>> {
    let sizes = [TOKENS, SIZES.len(), INPUTS, OUTPUTS];
    let op = GroupedMatmul::new(sizes, DType::Bf16, DType::Bf16)?;
    let Choice {
        schedule,
        vmem_limit_bytes,
        best,
    } = Request::of_device(op, target, None).choose(Passes::Both, [None; 2])?;
    for (product, one) in best {
        println!(
            "{} on {}: {:?}, {:.1} us, {} bytes of VMEM",
            product.name(),
            target.name,
            one.blocks,
            one.time_s() * 1e6,
            one.report.vmem.used_bytes(),
        );
    }
    let options = EmitOptions {
        vmem_limit_bytes: Some(vmem_limit_bytes),
        ..EmitOptions::default()
    };
    let programs = [op.forward(&schedule)?, op.backward(&schedule)?];
    for (program, file) in programs.iter().zip(files) {
        std::fs::write(file, emit(program, &options)?)?;
        println!("{} in {file}", program.name);
    }
    Ok(())
}
