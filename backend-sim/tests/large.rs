//! How far the model is from the schedules that the TPU compiler makes of this library's kernels at shapes of
//! training. The points that figures are fitted to are smaller; nothing was fitted to these.

use tilecast_core::DType;
use tilecast_core::kernels::linear_ce::{Blocks, LinearCe, Options};
use tilecast_core::target::Target;
use tilecast_sim::op::Request;
use tilecast_sim::pipeline::devices_per_chip;
use tilecast_sim::plan::BackwardPlan;

const MEASURED: &str = include_str!("data/large_cycles.csv");

/// Of a line, cycles and used VMEM by the model.
fn predicted(line: &str) -> [f64; 2] {
    let fields: Vec<&str> = line.split(',').collect();
    let size = |i: usize| fields[i].parse::<usize>().unwrap();
    let target = Target::by_name(fields[6]).unwrap();
    let tokens = 8192 * devices_per_chip(target);
    let [hidden, vocab] = [size(1), size(2)];
    let problem = LinearCe::new(tokens, hidden, vocab, DType::Bf16, Options::default()).unwrap();
    let whole_vmem = Some(target.vmem_usable_bytes.value);
    let request = Request::new(problem, target, 1, whole_vmem).unwrap();
    let blocks = Blocks {
        b: size(3),
        h: size(4),
        v: size(5),
    };
    let pass = match fields[0] {
        "forward" => request.forward(blocks),
        "backward" => request.backward(BackwardPlan::in_blocks(blocks, None)),
        other => panic!("no pass `{other}`"),
    };
    let kernel = pass.unwrap().kernels.remove(0);
    [
        kernel.prediction.unwrap().cycles_per_core,
        kernel.vmem.used_bytes() as f64,
    ]
}

/// The same over what the compiler made.
fn ratios(line: &str) -> [f64; 2] {
    let fields: Vec<&str> = line.split(',').collect();
    let [cycles, used] = predicted(line);
    let measured = |i: usize| fields[i].parse::<f64>().unwrap();
    [cycles / measured(7), used / measured(8)]
}

#[test]
fn schedules_of_large_kernels_are_near_the_compilers() {
    let lines: Vec<&str> = (MEASURED.lines())
        .filter(|line| line.starts_with("forward") || line.starts_with("backward"))
        .collect();
    assert_eq!(lines.len(), 43);
    let mut error = 0.0;
    for line in &lines {
        let [cycles, used] = ratios(line);
        assert!(
            (0.75..1.15).contains(&cycles),
            "{line}: {cycles:.3} of the cycles"
        );
        // The least are lazy forward passes over several hidden blocks on v6e, where exponentials of more than two
        // sub-tiles wait for their sum.
        assert!((0.9..1.1).contains(&used), "{line}: {used:.3} of the bytes");
        error += (cycles - 1.0).abs() / lines.len() as f64;
    }
    assert!(error < 0.05, "mean error of the cycles: {error:.3}");
}

#[test]
fn on_v7x_a_step_with_all_of_h_is_faster_than_two_of_half() {
    // The results of products side by side come together, and the vector unit that works them off slows the next: 1.09
    // times the cycles.
    let cycles = |blocks: &str| {
        let start = format!("forward,2048,151936,{blocks},v7x,");
        let line = (MEASURED.lines()).find(|line| line.starts_with(&start));
        predicted(line.unwrap())[0]
    };
    assert!(cycles("2048,2048,1536") < cycles("1024,1024,6144"));
}
