//! What benches and the comparison with PyTorch share.

pub mod bandwidth;
pub mod logits;

use tilecast::DType;
use tilecast::cpu::simd::{Arithmetic, Simd, fma_peak};

/// The median of some times.
///
/// # Panics
/// If there is none.
pub fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

/// Repeatable values in -1/8 to 1/8 without pattern.
pub fn values(len: usize, seed: u64) -> Vec<f32> {
    let word = |i: u64| (i + seed).wrapping_mul(2_654_435_761) as u32 >> 8;
    (0..len as u64)
        .map(|i| (word(i) as f32 / (1 << 23) as f32 - 1.0) * 0.125)
        .collect()
}

/// Multiply-adds from registers, at the rate of products of such inputs, on so many threads at once: how many
/// operations.
///
/// # Panics
/// If a thread does.
pub fn peak(dtype: DType, threads: usize) -> u64 {
    const ITERATIONS: u64 = 1 << 24;
    let simd = Simd::detect();
    let arithmetic = match dtype {
        DType::Bf16 if simd.supports(Arithmetic::Bf16) => Arithmetic::Bf16,
        _ => Arithmetic::F32,
    };
    std::thread::scope(|scope| {
        let of_thread = || fma_peak(simd, arithmetic, ITERATIONS);
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(of_thread)).collect();
        let operations = threads.into_iter().map(|t| t.join().expect("no panic"));
        operations.sum()
    })
}
