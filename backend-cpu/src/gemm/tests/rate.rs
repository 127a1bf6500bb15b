//! What share of the peak products reach, and what packing takes.

use std::time::Instant;

use super::*;
use crate::simd::fma_peak;

/// Best seconds of `runs` calls.
fn best_seconds(runs: usize, mut f: impl FnMut()) -> f64 {
    let time = |_| {
        let start = Instant::now();
        f();
        start.elapsed().as_secs_f64()
    };
    (0..runs).map(time).fold(f64::INFINITY, f64::min)
}

#[test]
#[ignore = "a measurement: run alone, with --nocapture"]
fn rate_against_the_peak_of_registers() {
    let (m, n, k) = (256, 512, 512);
    let left = Stored::new(PLAIN, m, k, false);
    let right = Stored::new(PLAIN, k, n, false);
    let transposed = Operand {
        transposed: true,
        ..PLAIN
    };
    let across = Stored::new(transposed, k, n, false);
    let mut values = vec![0.0; m * n];
    for simd in Simd::available() {
        let cases = [false, true]
            .map(|is_bf16| arithmetics(simd, 2 * usize::from(is_bf16)).map(move |a| (is_bf16, a)));
        for (is_bf16, arithmetic) in cases.into_iter().flatten() {
            let mut peak = 0.0_f64;
            let mut best = f64::INFINITY;
            let operands = [&left, &right].map(|stored| stored.source(is_bf16));
            let (mut lhs, mut rhs) = packed(simd, operands, arithmetic);
            // Interleaved, so that a slow moment of the machine hits both.
            for _ in 0..20 {
                let mut flops = 0;
                let seconds = best_seconds(1, || flops = fma_peak(simd, arithmetic, 200_000));
                peak = peak.max(flops as f64 / seconds * 1.0e-9);
                best = best.min(best_seconds(8, || {
                    let out = Out {
                        values: &mut values,
                        row_stride: n,
                        rows: m,
                        columns: n,
                    };
                    matmul(simd, out, &lhs, &rhs, false).unwrap();
                }));
            }
            let rate = 2.0 * (m * n * k) as f64 / best * 1.0e-9;
            let pack_lhs = best_seconds(20, || {
                lhs.pack(simd, &left.source(is_bf16), false, arithmetic)
                    .unwrap();
            });
            let pack_rhs = best_seconds(20, || {
                rhs.pack(simd, &right.source(is_bf16), false, arithmetic)
                    .unwrap();
            });
            let pack_across = best_seconds(20, || {
                rhs.pack(simd, &across.source(is_bf16), true, arithmetic)
                    .unwrap();
            });
            println!(
                "{simd:11} {arithmetic:?}{}: {rate:6.1} of {peak:6.1} GFLOP/s = {:.3}; product {:.0} us, \
                 packing lhs {:.0} us, rhs {:.0} us, rhs transposed {:.0} us",
                if is_bf16 { " from bf16" } else { "" },
                rate / peak,
                best * 1.0e6,
                pack_lhs * 1.0e6,
                pack_rhs * 1.0e6,
                pack_across * 1.0e6,
            );
        }
    }
}
