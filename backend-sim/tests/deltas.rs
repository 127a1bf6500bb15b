//! How much VMEM deltas of one hidden block use, whose statistics are transposed beside their product.

use tilecast_core::DType;
use tilecast_core::kernels::linear_ce::{Blocks, LinearCe, Options};
use tilecast_core::target::Target;
use tilecast_sim::op::Request;
use tilecast_sim::plan::BackwardPlan;

const MEASURED: &str = include_str!("data/deltas.csv");

/// Of a line, the bytes by the model over those of the compiler.
fn ratio(line: &str) -> f64 {
    let fields: Vec<&str> = line.split(',').collect();
    let size = |i: usize| fields[i].parse::<usize>().unwrap();
    let mut options = Options::default();
    match fields[6] {
        "bias" => options.bias = true,
        "soft_cap" => options.soft_cap = Some(30.0),
        "label_smoothing" => options.label_smoothing = 0.1,
        "z_loss" => options.z_loss = 1e-4,
        "" => {}
        other => panic!("no option `{other}`"),
    }
    let [tokens, hidden, vocab, rows, columns] = [1, 2, 3, 4, 5].map(size);
    let problem = LinearCe::new(tokens, hidden, vocab, DType::Bf16, options).unwrap();
    let target = Target::by_name(fields[0]).unwrap();
    let request = Request::new(problem, target, 1, Some(target.vmem_usable_bytes.value)).unwrap();
    let blocks = Blocks {
        b: rows,
        h: hidden,
        v: columns,
    };
    let plan = BackwardPlan::in_blocks(blocks, Some(columns));
    let pass = request.backward(plan).unwrap();
    let delta = (pass.kernels.iter()).find(|kernel| kernel.name == "linear_ce_delta");
    delta.unwrap().vmem.used_bytes() as f64 / size(7) as f64
}

#[test]
fn registers_that_wait_for_labels_are_near_the_compilers() {
    let lines = MEASURED.lines().skip(3);
    let ratios: Vec<_> = lines.map(|line| (line, ratio(line))).collect();
    assert_eq!(ratios.len(), 87);
    let mut error = 0.0;
    for &(line, ratio) in &ratios {
        assert!(
            (0.8..1.5).contains(&ratio),
            "{line}: {ratio:.3} of the bytes"
        );
        error += (ratio - 1.0).abs() / ratios.len() as f64;
    }
    // Were what waits counted by the schedule alone, it would be 0.11.
    assert!(error < 0.07, "mean error of the bytes: {error:.3}");
}
