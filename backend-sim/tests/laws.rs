//! What must hold whatever the constants are.

use proptest::prelude::*;
use tilecast_core::DType;
use tilecast_core::kernels::linear_ce::{Blocks, LinearCe, Options};
use tilecast_core::target::{TARGETS, Target};
use tilecast_sim::Verdict;
use tilecast_sim::op::{OpReport, PassReport, Request};
use tilecast_sim::plan::BackwardPlan;

fn problem([tokens, hidden, vocab]: [usize; 3], dtype: DType) -> LinearCe {
    LinearCe::new(tokens, hidden, vocab, dtype, Options::default()).unwrap()
}

fn request(problem: LinearCe, target: &'static Target, limit_bytes: Option<u64>) -> Request {
    Request::new(problem, target, 1, limit_bytes).unwrap()
}

/// Both passes and the op, unless blocks are refused.
fn simulate(
    request: &Request,
    blocks: Blocks,
    chunk_columns: Option<usize>,
) -> ([PassReport; 2], OpReport) {
    let forward = request.forward(blocks).unwrap();
    let backward = request
        .backward(BackwardPlan::in_blocks(blocks, chunk_columns))
        .unwrap();
    let total = request.total(&[&forward, &backward]).unwrap();
    ([forward, backward], total)
}

fn block() -> impl Strategy<Value = Blocks> {
    (0..4_u32, 0..3_u32, 0..5_u32).prop_map(|(b, h, v)| Blocks {
        b: 128 << b,
        h: 128 << h,
        v: 128 << v,
    })
}

/// Everything, in a limit that never binds before the capacity does.
const ALL: Option<u64> = Some(1 << 30);

#[test]
fn twice_the_tokens_are_twice_the_work() {
    for target in &TARGETS {
        let blocks = Blocks {
            b: 512,
            h: 512,
            v: 512,
        };
        let time = |tokens| {
            let request = request(problem([tokens, 1024, 16384], DType::Bf16), target, None);
            let ([forward, backward], _) = simulate(&request, blocks, Some(4096));
            let cycles = |pass: &PassReport| -> f64 {
                pass.kernels
                    .iter()
                    .map(|k| k.prediction.unwrap().cycles_per_core)
                    .sum()
            };
            (cycles(&forward), cycles(&backward), forward.bounds().mxu)
        };
        let (once, twice) = (time(16384), time(32768));
        assert_eq!(twice.2, 2.0 * once.2, "{target}");
        for ratio in [twice.0 / once.0, twice.1 / once.1] {
            assert!((1.98..=2.001).contains(&ratio), "{target}: {ratio}");
        }
    }
}

#[test]
fn the_matrix_units_bound_is_the_products_over_the_peak_rate() {
    let [b, h, v] = [8192, 4096, 131072];
    for target in &TARGETS {
        let request = request(problem([b, h, v], DType::Bf16), target, ALL);
        let blocks = Blocks {
            b: 512,
            h: 512,
            v: 1024,
        };
        let pass = request.forward(blocks).unwrap();
        let cores = target.tensorcores.value as f64;
        let rate = target.mxu_macs_per_cycle.value as f64 * target.clock_hz.value * cores;
        let expected = (b * h * v) as f64 / rate;
        let got = pass.bounds().mxu;
        assert!(
            (got / expected - 1.0).abs() < 1e-9,
            "{target}: {got} s, not {expected} s"
        );
    }
}

#[test]
fn v4_holds_blocks_of_1024_columns_but_not_of_4096() {
    let target = Target::by_name("v4").unwrap();
    let request = request(problem([65536, 512, 128256], DType::Bf16), target, None);
    let (_, report) = simulate(
        &request,
        Blocks {
            b: 1024,
            h: 512,
            v: 4096,
        },
        None,
    );
    assert_eq!(report.verdict, Verdict::VmemOom);
    let reason = report.reason.unwrap();
    assert!(
        reason.contains(
            "the largest term is the scratch `logits` of 1024 x 4096 elements, 16.00 MiB"
        ),
        "{reason}"
    );
    let (_, report) = simulate(
        &request,
        Blocks {
            b: 1024,
            h: 512,
            v: 1024,
        },
        None,
    );
    assert_eq!(report.verdict, Verdict::Fits);
}

#[test]
fn a_limit_is_inclusive_and_the_reason_names_what_would_do() {
    let target = Target::by_name("v5e").unwrap();
    let problem = problem([8192, 4096, 128256], DType::Bf16);
    let blocks = Blocks {
        b: 1024,
        h: 512,
        v: 2048,
    };
    let used = request(problem, target, ALL)
        .forward(blocks)
        .unwrap()
        .vmem_used_bytes();
    let at = |limit| {
        request(problem, target, Some(limit))
            .forward(blocks)
            .unwrap()
    };
    assert_eq!(at(used).verdict, Verdict::Fits);
    let over = at(used - 1);
    assert_eq!(over.verdict, Verdict::VmemOom);
    let reason = over.kernels[0].reason.as_ref().unwrap();
    let kib = used.div_ceil(1024);
    assert!(
        reason.ends_with(&format!("at least {kib} KiB (--vmem-limit-kib)")),
        "{reason}"
    );
    assert!(over.kernels[0].prediction.is_none());
}

#[test]
fn arrays_beyond_hbm_are_hbm_oom() {
    let target = Target::by_name("v5e").unwrap();
    let request = request(problem([1 << 21, 4096, 128256], DType::Bf16), target, ALL);
    let (_, report) = simulate(
        &request,
        Blocks {
            b: 512,
            h: 512,
            v: 512,
        },
        None,
    );
    assert_eq!(report.verdict, Verdict::HbmOom);
    assert!(report.total.is_none());
    let reason = report.reason.unwrap();
    assert!(reason.contains("a v5e chip has 16.00 GiB"), "{reason}");
}

#[test]
fn blocks_that_break_the_tiling_are_invalid() {
    let request = request(
        problem([8192, 4096, 128256], DType::Bf16),
        &TARGETS[2],
        None,
    );
    let pass = request
        .forward(Blocks {
            b: 100,
            h: 512,
            v: 512,
        })
        .unwrap();
    assert_eq!(pass.verdict, Verdict::Invalid);
    let reason = pass.kernels[0].reason.as_ref().unwrap();
    assert!(reason.contains("multiple of"), "{reason}");
}

#[test]
fn more_chips_than_tokens_are_an_error() {
    let problem = problem([3, 128, 256], DType::F32);
    let error = Request::new(problem, &TARGETS[0], 4, None).unwrap_err();
    assert_eq!(
        error.to_string(),
        "3 tokens cannot be shared by 4 chips; use at most 3"
    );
    // A chip of two devices may have one token.
    assert!(Request::new(problem, Target::by_name("v7x").unwrap(), 3, None).is_ok());
}

#[test]
fn chips_share_the_tokens() {
    let target = Target::by_name("v6e").unwrap();
    let problem = problem([16384, 1024, 16384], DType::Bf16);
    let blocks = Blocks {
        b: 512,
        h: 512,
        v: 512,
    };
    let time = |chips| {
        let request = Request::new(problem, target, chips, None).unwrap();
        simulate(&request, blocks, Some(4096)).1.total.unwrap()
    };
    let (one, four) = (time(1), time(4));
    assert!((3.5..4.0).contains(&(one.time_s / four.time_s)));
    assert!(four.tokens_per_s > 3.5 * one.tokens_per_s);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_larger_limit_never_takes_a_fit_away(
        blocks in block(),
        target in 0..TARGETS.len(),
        kib in 1024_u64..200_000,
        more in 0_u64..100_000,
    ) {
        let problem = problem([4096, 1024, 32000], DType::Bf16);
        let verdict = |kib: u64| {
            let request = request(problem, &TARGETS[target], Some(kib << 10));
            simulate(&request, blocks, Some(4096)).1.verdict
        };
        prop_assert!(verdict(kib) >= verdict(kib + more));
    }

    #[test]
    fn a_larger_problem_never_takes_less_time(
        blocks in block(),
        target in 0..TARGETS.len(),
        size in (1_usize..5, 1_usize..5, 1_usize..5),
        grow in 0_usize..3,
        chunk in prop::option::of(Just(4096_usize)),
    ) {
        let at = [2048 * size.0, 1024 * size.1, 8192 * size.2];
        let time = |shape| {
            let request = request(problem(shape, DType::Bf16), &TARGETS[target], ALL);
            simulate(&request, blocks, chunk).1.total
        };
        let mut larger = at;
        larger[grow] *= 2;
        if let (Some(small), Some(large)) = (time(at), time(larger)) {
            prop_assert!(large.time_s >= small.time_s, "{} then {}", small.time_s, large.time_s);
        }
    }

    // Not the time: f32 operands need no conversion before vector work.
    #[test]
    fn wider_elements_move_more_bytes(
        blocks in block(),
        target in 0..TARGETS.len(),
        chunk in prop::option::of(Just(4096_usize)),
    ) {
        let hbm_s = |dtype| {
            let request = request(problem([4096, 1024, 32000], dtype), &TARGETS[target], ALL);
            let ([forward, backward], report) = simulate(&request, blocks, chunk);
            report.total.map(|_| [forward.bounds().hbm, backward.bounds().hbm])
        };
        if let (Some(narrow), Some(wide)) = (hbm_s(DType::Bf16), hbm_s(DType::F32)) {
            prop_assert!(narrow[0] < wide[0] && narrow[1] < wide[1], "{narrow:?} {wide:?}");
        }
    }

    #[test]
    fn the_time_lies_in_its_range_and_above_every_bound(
        blocks in block(),
        target in 0..TARGETS.len(),
        chunk in prop::option::of(Just(4096_usize)),
    ) {
        let request = request(problem([4096, 1024, 32000], DType::Bf16), &TARGETS[target], ALL);
        let ([forward, backward], _) = simulate(&request, blocks, chunk);
        for kernel in forward.kernels.iter().chain(&backward.kernels) {
            let Some(prediction) = kernel.prediction else { continue };
            let [low, high] = prediction.time_range_s;
            prop_assert!(low <= prediction.time_s && prediction.time_s <= high, "{prediction:?}");
            let (name, bound) = prediction.bounds.binding();
            prop_assert!(bound <= prediction.time_s * (1.0 + 1e-9), "{name} {prediction:?}");
        }
    }
}
