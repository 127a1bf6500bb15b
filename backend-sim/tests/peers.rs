//! How far the model is from the schedules that the TPU compiler makes of other people's kernels.
//! Not a fit: no constant of the model was chosen with the numbers of the published one.

use tilecast_core::DType;
use tilecast_core::kernels::linear_ce::{Blocks, LinearCe, Options, Schedule, Strategy};
use tilecast_core::target::Target;
use tilecast_sim::op::{BackwardPlan, ROWS_PER_SUB_TILE, Request};
use tilecast_sim::timing;

const PEER: &str = include_str!("data/peer_cycles.csv");

/// Peer cycles over the model's, for every line of one pass.
fn ratios(wanted: &str) -> Vec<(f64, String)> {
    let lines = PEER.lines().filter(|line| line.starts_with(wanted));
    lines
        .map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            let size = |i: usize| fields[i].parse::<usize>().unwrap();
            let target = Target::by_name(fields[6]).unwrap();
            // The peer ran on one device, which for v7x is half a chip.
            let tokens = if target.name == "v7x" { 16384 } else { 8192 };
            let problem =
                LinearCe::new(tokens, size(1), size(2), DType::Bf16, Options::default()).unwrap();
            let request = Request::new(problem, target, 1, Some(1 << 30)).unwrap();
            let blocks = Blocks {
                b: size(3),
                h: size(4),
                v: size(5),
            };
            let pass = match wanted {
                "forward" => request.forward(blocks),
                _ => request.backward(BackwardPlan {
                    blocks,
                    chunk_columns: None,
                }),
            };
            let cycles = pass.unwrap().kernels[0].prediction.unwrap().cycles_per_core;
            (size(7) as f64 / cycles, line.to_owned())
        })
        .collect()
}

#[test]
fn schedules_of_a_peer_are_as_far_off_as_the_reports_say() {
    for (pass, range) in [("forward", 1.1..1.5), ("backward", 0.9..1.2)] {
        let ratios = ratios(pass);
        assert_eq!(ratios.len(), 16);
        for (ratio, line) in ratios {
            assert!(range.contains(&ratio), "{line}: {ratio:.3} times the model");
        }
    }
}

/// Pallas prototypes with resident rows and straight-line sub-tiles, B = 4096, H = 4096, V = 8192,
/// v = 512, bf16: share of the matrix units' rate in the schedules of libtpu 0.0.51.
#[test]
fn prototypes_of_this_structure_lie_in_the_range() {
    let problem = LinearCe::new(4096, 4096, 8192, DType::Bf16, Options::default()).unwrap();
    for (target, rows, share) in [
        ("v6e", 512, 0.79),
        ("v6e", 1024, 0.87),
        ("v5e", 512, 0.96),
        ("v5e", 1024, 0.98),
    ] {
        let target = Target::by_name(target).unwrap();
        let blocks = Blocks {
            b: rows,
            h: 4096,
            v: 512,
        };
        let program = problem
            .forward(&Schedule {
                forward: blocks,
                backward: blocks,
                strategy: Strategy::Combined,
                chunk_columns: blocks.v,
                cores: 1,
                rows_per_sub_tile: ROWS_PER_SUB_TILE,
            })
            .unwrap();
        let core = timing::launch(&program.launches()[0].0.kernel, target, &[]);
        let share_in = |cycles: f64| core.work.mxu_cycles / cycles;
        let (low, high) = (share_in(core.cycles.high), share_in(core.cycles.low));
        assert!(
            low < share && share < high,
            "{target}, {rows} rows: {low:.3} to {high:.3}"
        );
        let value = share_in(core.cycles.central());
        assert!(
            (value - share).abs() < 0.03,
            "{target}, {rows} rows: {value:.3}, not {share}"
        );
    }
}
