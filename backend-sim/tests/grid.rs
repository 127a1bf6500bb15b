//! The kinds of steps against the whole grid, counted step by step.

use tilecast_core::DType;
use tilecast_core::kernels::linear_ce::{Blocks, LinearCe, Options, Schedule, Strategy};
use tilecast_core::program::{Kernel, Program};
use tilecast_core::target::Target;
use tilecast_sim::tally::{StepWork, step};
use tilecast_sim::{steps::kinds, work::Work};

/// Work of all steps of the grid, one by one.
fn one_by_one(kernel: &impl Kernel, target: &Target, scalars: &[i64]) -> StepWork {
    let sizes: Vec<i64> = kernel
        .spec()
        .grid()
        .iter()
        .map(|axis| axis.size as i64)
        .collect();
    let mut total = StepWork::default();
    for number in 0..kernel.spec().steps() as i64 {
        let mut rest = number;
        let mut at: Vec<i64> = (sizes.iter().rev())
            .map(|size| {
                let index = rest % size;
                rest /= size;
                index
            })
            .collect();
        at.reverse();
        let one = step(kernel, target, &at, scalars);
        total.work.add(&one.work, 1.0);
        total.cycles.add(&one.cycles, 1.0);
    }
    total
}

fn by_kind(kernel: &impl Kernel, target: &Target, scalars: &[i64]) -> StepWork {
    let mut total = StepWork::default();
    for kind in kinds(kernel.spec(), 1, scalars) {
        let one = step(kernel, target, &kind.at, scalars);
        total.work.add(&one.work, kind.times as f64);
        total.cycles.add(&one.cycles, kind.times as f64);
    }
    total
}

fn assert_same(program: &Program<impl Kernel>, target: &Target, what: &str) {
    for (launch, times) in program.launches() {
        for counter in 0..times as i64 {
            let scalars: Vec<i64> = (launch.scalars.iter())
                .map(|scalar| scalar.evaluate(&|_| counter))
                .collect();
            let expected = one_by_one(&launch.kernel, target, &scalars);
            let got = by_kind(&launch.kernel, target, &scalars);
            let name = launch.kernel.spec().name();
            let close = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs().max(1.0);
            let Work {
                mxu_cycles,
                valu_ops,
                copied_bytes,
                ..
            } = expected.work;
            assert!(
                close(mxu_cycles, got.work.mxu_cycles)
                    && close(valu_ops, got.work.valu_ops)
                    && close(copied_bytes, got.work.copied_bytes)
                    && close(expected.cycles.low, got.cycles.low)
                    && close(expected.cycles.high, got.cycles.high),
                "{name}, counter {counter}, {what}: {got:?}, not {expected:?}"
            );
        }
    }
}

#[test]
fn kinds_are_exact_for_every_kernel() {
    let target = Target::by_name("v5p").unwrap();
    let options = Options {
        bias: true,
        label_smoothing: 0.1,
        ..Options::default()
    };
    for (tokens, hidden, vocab) in [(40, 24, 104), (56, 8, 90), (24, 16, 8), (8, 40, 33)] {
        let problem = LinearCe::new(tokens, hidden, vocab, DType::F32, options).unwrap();
        for (b, h, v) in [(8, 8, 8), (16, 8, 16), (8, 24, 40)] {
            for strategy in Strategy::ALL {
                for chunk_columns in [v, 3 * v, 5 * v] {
                    let blocks = Blocks { b, h, v };
                    let schedule = Schedule {
                        forward: blocks,
                        backward: blocks,
                        strategy,
                        chunk_columns,
                        cores: 2,
                        rows_per_sub_tile: 8,
                    };
                    let what = format!("{problem:?} {schedule:?}");
                    assert_same(&problem.forward(&schedule).unwrap(), target, &what);
                    assert_same(&problem.backward(&schedule).unwrap(), target, &what);
                }
            }
        }
    }
}
