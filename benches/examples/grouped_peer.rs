//! Times the grouped product of a layer of experts for `tests/python/bench_grouped.py`, which times PyTorch and JAX
//! between the calls.
//!
//! ```text
//! grouped_peer ROWS EXPERTS INPUTS OUTPUTS f32|bf16 THREADS
//! ```
//!
//! Each line of input is what to run: `peak`, `forward`, or `both` (the product `y`, and both gradients for the
//! cotangent `y`, in new memory). The answer is the time in seconds and a number to check: the sum of the sizes of the
//! first row of `y`, or of those of `dx` and of the weights of expert 1 in `dw`. For `peak`, multiply-adds from
//! registers on all threads, it is how many operations were done.

use std::io::{BufRead, Write};
use std::time::Instant;

use half::bf16;
use tilecast::cpu::array::Data;
use tilecast::{Cpu, DType, Matrix, Values, grouped_matmul};
use tilecast_benches::{peak, values};

/// Some experts get many rows, some none; a few rows have no expert.
fn sizes(rows: usize, experts: usize) -> Vec<i32> {
    let share = |expert: usize| expert * 7 % 13;
    let all: usize = (0..experts).map(share).sum();
    (0..experts)
        .map(|expert| (rows * share(expert) / all.max(1)) as i32)
        .collect()
}

fn sum_of_row(values: &Values, row: usize, columns: usize) -> f32 {
    let row = row * columns..(row + 1) * columns;
    let row = match values {
        Values::F32(data) => Values::F32(data[row].to_vec()),
        Values::Bf16(data) => Values::Bf16(data[row].to_vec()),
    };
    row.to_f32().iter().map(|x| x.abs()).sum()
}

fn as_matrix(values: &Values, dims: [usize; 2]) -> Matrix<'_> {
    let matrix = match values {
        Values::F32(data) => Matrix::new(&data[..], dims[0], dims[1]),
        Values::Bf16(data) => Matrix::new(&data[..], dims[0], dims[1]),
    };
    matrix.expect("all rows")
}

fn serve<'a, T>(dims: [usize; 4], dtype: DType, threads: usize, x: &'a [T], w: &'a [T])
where
    Data<'a>: From<&'a [T]>,
{
    let [rows, experts, inputs, outputs] = dims;
    let sizes = sizes(rows, experts);
    let x = Matrix::new(x, rows, inputs).expect("all rows");
    let w = grouped_matmul::Weights::new(w, [experts, inputs, outputs]).expect("all experts");
    let product = grouped_matmul::new(x, w, &sizes).on(Cpu::new().threads(threads));
    for line in std::io::stdin().lock().lines() {
        let what = line.expect("input is text");
        let start = Instant::now();
        let check = match what.as_str() {
            "peak" => peak(dtype, threads) as f32,
            "forward" => sum_of_row(&product.forward().expect("a valid problem"), 0, outputs),
            _ => {
                let y = product.forward().expect("a valid problem");
                let gradients = product.backward(as_matrix(&y, [rows, outputs]));
                let gradients = gradients.expect("a valid problem");
                let weights = sum_of_row(&gradients.dw, 1.min(experts - 1) * inputs, outputs);
                sum_of_row(&gradients.dx, 0, inputs) + weights
            }
        };
        println!("{} {check}", start.elapsed().as_secs_f64());
        std::io::stdout().flush().expect("somebody listens");
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [rows, experts, inputs, outputs, dtype, threads] = &arguments[..] else {
        panic!("usage: grouped_peer ROWS EXPERTS INPUTS OUTPUTS f32|bf16 THREADS");
    };
    let number = |text: &String| text.parse().expect("a number");
    let dims = [rows, experts, inputs, outputs].map(number);
    let [rows, experts, inputs, outputs] = dims;
    let (x, w) = (
        values(rows * inputs, 1),
        values(experts * inputs * outputs, 2),
    );
    match dtype.as_str() {
        "bf16" => {
            let [x, w] = [x, w].map(|all| all.into_iter().map(bf16::from_f32).collect::<Vec<_>>());
            serve(dims, DType::Bf16, number(threads), &x[..], &w[..]);
        }
        _ => serve(dims, DType::F32, number(threads), &x[..], &w[..]),
    }
}
