//! The time block of the ops on given logits, against a kernel that was measured: `docs/time-block.md`.

use tilecast_core::DType;
use tilecast_core::kernels::logits_ce::{LogitsCe, Options};
use tilecast_core::kernels::logits_op::LogitsOp;
use tilecast_core::kernels::softmax::Blocks;
use tilecast_core::target::Target;
use tilecast_sim::grid::Scalars;
use tilecast_sim::kernel::KernelReport;
use tilecast_sim::op::Request;
use tilecast_sim::plan::BackwardPlan;
use tilecast_tpu::mosaic::Module;

/// Time block, and milliseconds of forward and backward pass together on one v6e: bf16 logits `[2048, 151643]`, blocks
/// of 2048 columns, mean of 5. demon2036/MLLM-JAX, commit 0f043e5, memory/20260126_ce-kernel-len2048/README.md.
const MEASURED_MS: [(usize, f64); 7] = [
    (8, 22.54),
    (16, 14.37),
    (32, 10.10),
    (64, 7.81),
    (128, 6.60),
    (256, 6.15),
    (512, 5.95),
];

const TOKENS: usize = 2048;
const VOCAB: usize = 151_643;
const COLUMNS: usize = 2048;

fn v6e() -> &'static Target {
    Target::by_name("v6e").unwrap()
}

/// Milliseconds of both passes of the op of this library.
fn of_library(b: usize, dtype: DType) -> f64 {
    let op = LogitsCe::new(TOKENS, VOCAB, dtype, Options::default()).unwrap();
    let request = Request::new(LogitsOp::LogitsCe(op), v6e(), 1, None).unwrap();
    let blocks = Blocks::for_target(b, COLUMNS, v6e());
    let plan = BackwardPlan::in_blocks(blocks, None);
    let passes = [request.forward(blocks), request.backward(plan)].map(Result::unwrap);
    let passes = [&passes[0], &passes[1]];
    request.total(&passes).unwrap().total.unwrap().time_s * 1e3
}

/// Milliseconds of both kernels of the structure that was measured, which take padded logits.
fn of_structure(b: usize) -> f64 {
    let texts = [
        include_str!("data/streaming_forward.mlir"),
        include_str!("data/streaming_backward.mlir"),
    ];
    let time_s = texts.map(|text| {
        let text = text.replace("{b}", &b.to_string());
        let text = text.replace("{steps}", &(TOKENS / b).to_string());
        let module = Module::parse(&text).unwrap();
        let report = KernelReport::of_module(&module, v6e(), &Scalars::default(), None).unwrap();
        assert_eq!(
            report.grid_steps as usize,
            TOKENS / b * VOCAB.div_ceil(COLUMNS)
        );
        report.prediction.unwrap().time_s
    });
    time_s.iter().sum::<f64>() * 1e3
}

/// Milliseconds to copy the logits to whole blocks of columns, and the gradient back, at the rate of HBM.
fn of_copies() -> f64 {
    let [given, padded] = [VOCAB, VOCAB.next_multiple_of(COLUMNS)]
        .map(|columns| (TOKENS * columns * DType::Bf16.size_bytes()) as f64);
    2.0 * (given + padded) / v6e().hbm_bytes_per_s.value * 1e3
}

fn curve(ms: impl Fn(usize) -> f64) -> Vec<f64> {
    MEASURED_MS.iter().map(|&(b, _)| ms(b)).collect()
}

/// How much slower the smallest time block is than the largest.
fn ratio(curve: &[f64]) -> f64 {
    curve[0] / curve[curve.len() - 1]
}

fn measured_ratio() -> f64 {
    ratio(&MEASURED_MS.map(|(_, ms)| ms))
}

fn assert_falls(curve: &[f64]) {
    assert!(curve.is_sorted_by(|a, b| a > b), "{curve:?}");
}

#[test]
fn larger_time_blocks_are_faster_by_as_much_as_was_measured() {
    // What was measured copies the logits to whole blocks of columns, whatever the time block.
    let curve = curve(|b| of_library(b, DType::Bf16) + of_copies());
    assert_falls(&curve);
    let error = ratio(&curve) / measured_ratio() - 1.0;
    assert!(error.abs() < 0.25, "{error}: {curve:?}");
}

#[test]
fn f32_logits_gain_less_from_a_time_block() {
    let [f32, bf16] = [DType::F32, DType::Bf16].map(|dtype| curve(|b| of_library(b, dtype)));
    assert_falls(&f32);
    // Steps cost as much, and there is more to copy beside them.
    assert!(ratio(&f32) < ratio(&bf16), "{f32:?} {bf16:?}");
}

#[test]
fn the_measured_structure_falls_alike_and_is_predicted_too_fast() {
    let curve = curve(|b| of_structure(b) + of_copies());
    assert_falls(&curve);
    let error = ratio(&curve) / measured_ratio() - 1.0;
    // Further off than the 25 % that were hoped for: what is left at large time blocks is predicted too low.
    assert!((0.0..0.4).contains(&error), "{error}: {curve:?}");
    for ((b, measured), predicted) in MEASURED_MS.into_iter().zip(curve) {
        let share = predicted / measured;
        assert!((0.45..0.75).contains(&share), "{b}: {share}");
    }
}
