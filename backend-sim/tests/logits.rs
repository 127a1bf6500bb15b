//! What must hold of simulations of the ops on given logits.

use tilecast_core::DType;
use tilecast_core::kernels::entropy::Entropy;
use tilecast_core::kernels::grpo::{self, Grpo};
use tilecast_core::kernels::logits_ce::{self, LogitsCe};
use tilecast_core::kernels::logits_op::LogitsOp;
use tilecast_core::kernels::softmax::{Blocks, LogitsOptions, Schedule};
use tilecast_core::target::{TARGETS, Target};
use tilecast_sim::Verdict;
use tilecast_sim::emission::logits::choose;
use tilecast_sim::op::Request;
use tilecast_sim::plan::BackwardPlan;
use tilecast_sim::tune::{Space, best, tune};

fn ops(tokens: usize, vocab: usize, dtype: DType) -> [LogitsOp; 3] {
    let ce = LogitsCe::new(tokens, vocab, dtype, logits_ce::Options::default());
    let entropy = Entropy::new(tokens, vocab, dtype, LogitsOptions::default());
    let grpo = Grpo::new(tokens, vocab, dtype, grpo::Options::default());
    [
        LogitsOp::LogitsCe(ce.unwrap()),
        LogitsOp::Entropy(entropy.unwrap()),
        LogitsOp::Grpo(grpo.unwrap()),
    ]
}

fn request(op: LogitsOp, target: &'static Target) -> Request<LogitsOp> {
    Request::new(op, target, 1, None).unwrap()
}

/// Seconds of both passes in the blocks of `schedule`.
fn time_s(request: &Request<LogitsOp>, schedule: Schedule) -> Option<f64> {
    let plan = BackwardPlan::in_blocks(schedule.backward, None);
    let forward = request.forward(schedule.forward).unwrap();
    let backward = request.backward(plan).unwrap();
    let report = request.total(&[&forward, &backward]).unwrap();
    Some(report.total?.time_s)
}

#[test]
fn no_op_is_faster_than_its_copies() {
    for target in &TARGETS {
        for dtype in [DType::Bf16, DType::F32] {
            for op in ops(2048, 50_257, dtype) {
                let request = request(op, target);
                let space = Space::new(&request, [true; 2], [None; 2], &[]);
                let bytes = 3 * 2048 * 50_257 * dtype.size_bytes();
                let least_s = bytes as f64 / target.hbm_bytes_per_s.value;
                let rows = tune(&request, &space, || ()).unwrap();
                assert_eq!(rows[0].report.verdict, Verdict::Fits);
                for row in rows {
                    let time_s = row.report.total.map_or(f64::INFINITY, |total| total.time_s);
                    assert!(time_s >= 0.99 * least_s, "{target} {dtype}: {row:?}");
                }
            }
        }
    }
}

#[test]
fn the_best_are_those_of_the_whole_search() {
    let mut left_out = 0;
    for target in &TARGETS {
        for op in ops(1024, 20_000, DType::Bf16) {
            let request = request(op, target).raising_limit();
            let space = Space::new(&request, [true; 2], [None; 2], &[]);
            let rows = tune(&request, &space, || ()).unwrap();
            let found = best(&request, &space, 3, || ()).unwrap();
            assert_eq!(found.rows[..3], rows[..3], "{target}");
            left_out += found.slower;
        }
    }
    assert!(left_out > 0);
}

#[test]
fn emitted_blocks_are_at_least_as_fast_as_one_size_for_all() {
    for target in &TARGETS {
        for dtype in [DType::Bf16, DType::F32] {
            for (tokens, vocab) in [(2048, 151_643), (4096, 151_936), (300, 1000)] {
                for op in ops(tokens, vocab, dtype) {
                    let request = Request::of_device(op, target, None);
                    let chosen = choose(&op, target, [None; 2], None).unwrap().schedule;
                    let columns = vocab.next_multiple_of(128).min(2048);
                    let one = Schedule::new(Blocks::for_target(256, columns, target));
                    let chosen = time_s(&request, chosen).unwrap();
                    let one = time_s(&request, one).unwrap_or(f64::INFINITY);
                    assert!(
                        chosen <= one * (1.0 + 1e-9),
                        "{target} {dtype}: {chosen} {one}"
                    );
                }
            }
        }
    }
}

#[test]
fn devices_of_a_chip_share_the_tokens() {
    let v7x = Target::by_name("v7x").unwrap();
    for op in ops(4097, 20_000, DType::Bf16) {
        let request = request(op, v7x);
        assert_eq!(request.problem().logits().tokens(), 4097);
        assert_eq!(request.device_problem().logits().tokens(), 2049);
    }
}
