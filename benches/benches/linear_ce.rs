//! Forward and backward of the fused loss, against two yardsticks in the same run: the machine's
//! FMA peak, measured from registers, and `matrixmultiply` (through `ndarray`)
//! doing the product alone.
//!
//! Throughput is in useful FLOP, shown by criterion as elements: `2BHV` forward, `6BHV` forward
//! and backward, whatever an implementation recomputes. One thread, unless the name says otherwise.
#![allow(missing_docs)] // criterion's macros make undocumented items

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use half::bf16;
use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, ArrayView2};
use tilecast::cpu::simd::{Arithmetic, Simd, fma_peak};
use tilecast::{Cotangents, Cpu, Matrix, linear_ce};

const SHAPES: [[usize; 3]; 2] = [[512, 1024, 32768], [1024, 512, 32768]];

/// Repeatable values in `[-0.5, 0.5)`.
fn values(len: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    (0..len)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
            (state >> 40) as f32 / (1 << 24) as f32 - 0.5
        })
        .collect()
}

fn peak(c: &mut Criterion) {
    let simd = Simd::detect();
    let mut group = c.benchmark_group("fma_peak");
    for (name, arithmetic) in [("f32", Arithmetic::F32), ("bf16", Arithmetic::Bf16)] {
        if !simd.supports(arithmetic) {
            continue;
        }
        const ITERATIONS: u64 = 1 << 20;
        group.throughput(Throughput::Elements(fma_peak(simd, arithmetic, ITERATIONS)));
        group.bench_function(name, |b| b.iter(|| fma_peak(simd, arithmetic, ITERATIONS)));
    }
    group.finish();
}

fn losses(c: &mut Criterion) {
    for [b, h, v] in SHAPES {
        let (x, w) = (values(b * h, 1), values(h * v, 2));
        let narrow = |data: &[f32]| data.iter().map(|&x| bf16::from_f32(x)).collect::<Vec<_>>();
        let (x_bf16, w_bf16) = (narrow(&x), narrow(&w));
        let labels: Vec<i32> = (0..b).map(|i| (i * 7919 % v) as i32).collect();
        let f32_call = linear_ce(
            Matrix::new(&x[..], b, h).unwrap(),
            Matrix::new(&w[..], h, v).unwrap(),
            &labels,
        );
        let bf16_call = linear_ce(
            Matrix::new(&x_bf16[..], b, h).unwrap(),
            Matrix::new(&w_bf16[..], h, v).unwrap(),
            &labels,
        );
        let shape = format!("{b}x{h}x{v}");
        let flops = 2 * (b * h * v) as u64;

        let mut group = c.benchmark_group(format!("forward/{shape}"));
        group
            .sample_size(10)
            .throughput(Throughput::Elements(flops));
        group.bench_function("matrixmultiply f32, product only", |bench| {
            let view = |data, rows, columns| ArrayView2::from_shape((rows, columns), data).unwrap();
            let (x, w) = (view(&x[..], b, h), view(&w[..], h, v));
            let mut logits = Array2::zeros((b, v));
            bench.iter(|| general_mat_mul(1.0, &x, &w, 0.0, &mut logits));
        });
        for (name, call) in [("f32", &f32_call), ("bf16", &bf16_call)] {
            for threads in [1, 2] {
                let call = call.clone().on(Cpu::new().threads(threads));
                let id = BenchmarkId::new(format!("tilecast {name}"), format!("{threads} threads"));
                group.bench_function(id, |bench| bench.iter(|| call.forward().unwrap()));
            }
        }
        group.finish();

        let mut group = c.benchmark_group(format!("forward+backward/{shape}"));
        group
            .sample_size(10)
            .throughput(Throughput::Elements(3 * flops));
        for (name, call) in [("f32", &f32_call), ("bf16", &bf16_call)] {
            for threads in [1, 2] {
                let call = call.clone().on(Cpu::new().threads(threads));
                let id = BenchmarkId::new(format!("tilecast {name}"), format!("{threads} threads"));
                group.bench_function(id, |bench| {
                    bench.iter(|| call.forward_and_backward(Cotangents::ones()).unwrap());
                });
            }
        }
        group.finish();
    }
}

criterion_group!(benches, peak, losses);
criterion_main!(benches);
