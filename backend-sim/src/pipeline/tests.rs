//! What a model of time owes: the recurrence step by step, and laws.

use super::*;
use crate::grid::{Body, Kind, Scalars};
use crate::validate::Subject;
use proptest::prelude::*;
use tilecast_core::target::{TARGETS, Target};

/// Rows of `columns` steps: the first window changes with the row, the second and the written one
/// with every step.
fn grid(rows: u64, columns: u64) -> Grid {
    let kind = |body, moved| Kind { body, moved };
    let inner = 0b110;
    let row = |last| Node::Runs([(columns - 1, 0), (1, last)].into());
    let body = |times| Body {
        at: Vec::new(),
        times,
        outcomes: Vec::new(),
    };
    Grid {
        bounds: [rows as i64, columns as i64].into(),
        bodies: [body(rows * (columns - 1)), body(rows)].into(),
        kinds: [kind(0, inner), kind(1, inner | 1), kind(1, 0)].into(),
        nodes: [
            Node::Step(0),
            Node::Step(1),
            Node::Step(2),
            row(1),
            row(2),
            Node::Runs([(rows - 1, 3), (1, 4)].into()),
        ]
        .into(),
        cores: 1,
        exact: true,
        assumptions: Vec::new(),
    }
}

#[derive(Clone, Copy, Debug)]
struct Case {
    bytes: [f64; 3],
    cycles: [f64; 2],
    own: f64,
    single: bool,
}

/// Fetches something during the first block, of so many cycles, and writes as much back during that of the next step.
fn own_copies(bytes: f64, cycles: f64) -> Vec<(f64, Transfer)> {
    let start = Event::Start { bytes, times: 1.0 };
    let copy = |after, direction, event| Transfer {
        after,
        direction,
        semaphore: direction as u64,
        event,
    };
    vec![
        (0.0, copy(0, Direction::Load, start)),
        (cycles, copy(1, Direction::Load, Event::Wait)),
        (cycles, copy(1, Direction::Store, Event::Wait)),
        (cycles, copy(1, Direction::Store, start)),
    ]
}

fn pipeline<'a>(grid: &'a Grid, target: &Target, case: &Case) -> Pipeline<'a> {
    let window = |i: usize| WindowCopy {
        operand: i,
        bytes: case.bytes[i],
        output: i == 2,
        single: case.single && i == 0,
    };
    let body = |i: usize| StepCost {
        cycles: case.cycles[i],
        regions: vec![Busy {
            cycles: case.cycles[i] / 2.0,
            ..Busy::default()
        }],
        transfers: own_copies(case.own, case.cycles[i] / 2.0),
    };
    Pipeline {
        grid,
        windows: (0..3).map(window).collect(),
        bodies: (0..2).map(body).collect(),
        entry: 20.0,
        around: 80.0,
        copies: Copies::new(target, 1),
    }
}

const ALL: [Bandwidth; 3] = [
    Bandwidth::Independent,
    Bandwidth::Shared,
    Bandwidth::Published,
];

fn cases() -> impl Strategy<Value = Case> {
    let bytes = || 0.0..4e6_f64;
    let cycles = || 1.0..1e5_f64;
    (
        [bytes(), bytes(), bytes()],
        [cycles(), cycles()],
        0.0..1e5_f64,
        any::<bool>(),
    )
        .prop_map(|(bytes, cycles, own, single)| Case {
            bytes,
            cycles,
            own,
            single,
        })
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()) + 1e-6
}

proptest! {
    #[test]
    fn powers_are_the_steps_one_by_one(
        case in cases(), rows in 1_u64..6, columns in 2_u64..9, target in 0..TARGETS.len(),
    ) {
        let grid = grid(rows, columns);
        let pipeline = pipeline(&grid, &TARGETS[target], &case);
        for bandwidth in ALL {
            let clock = Clock::new(&pipeline.copies, bandwidth);
            let mut state = pipeline.begin(&clock, &mut Log::none());
            for (done, &kind) in grid.sequence(0, grid.steps() - 1).iter().enumerate() {
                let jumped = pipeline.begin(&clock, &mut Log::none());
                let jumped = pipeline.advance(&clock, &jumped, done as u64);
                prop_assert!(close(jumped.core, state.core), "after {} steps", done);
                state = pipeline.kind(&clock, &state, kind, 0, &mut Log::none());
            }
            let end = pipeline.end(&clock, &state, &mut Log::none());
            prop_assert!(close(end, pipeline.cycles(bandwidth)));
        }
    }

    #[test]
    fn more_never_takes_less(
        case in cases(), which in 0..6_usize, more in 1.0..1e5_f64, target in 0..TARGETS.len(),
    ) {
        let grid = grid(3, 5);
        let mut larger = case;
        match which {
            0..3 => larger.bytes[which] += more,
            3 | 4 => larger.cycles[which - 3] += more,
            _ => larger.own += more,
        }
        for bandwidth in ALL {
            let time = |case| pipeline(&grid, &TARGETS[target], case).cycles(bandwidth);
            prop_assert!(time(&larger) >= time(&case) - 1e-6);
        }
    }

    #[test]
    fn copies_that_take_turns_are_never_faster(case in cases(), target in 0..TARGETS.len()) {
        let grid = grid(4, 4);
        let pipeline = pipeline(&grid, &TARGETS[target], &case);
        let Estimate { independent, shared, central, compute, loaded_bytes, stored_bytes } =
            pipeline.estimate();
        prop_assert!(independent >= compute - 1e-6);
        prop_assert!(shared >= independent - 1e-6);
        prop_assert!(central >= independent - 1e-6);
        let steps = 16.0;
        let loaded = 4.0 * case.bytes[0] + steps * (case.bytes[1] + case.own);
        prop_assert!(close(loaded_bytes, loaded));
        prop_assert!(close(stored_bytes, steps * (case.bytes[2] + case.own)));
        // The channel has to move all of it.
        let channel = (loaded_bytes + stored_bytes) / pipeline.copies.bytes_per_cycle;
        prop_assert!(shared >= channel - 1e-6);
    }

    #[test]
    fn twice_the_rows_are_twice_the_steady_work(case in cases(), target in 0..TARGETS.len()) {
        for bandwidth in ALL {
            let time = |rows| {
                let grid = grid(rows, 6);
                pipeline(&grid, &TARGETS[target], &case).cycles(bandwidth)
            };
            let (one, two, four) = (time(1000), time(2000), time(4000));
            let growth = (four - two) / (two - one);
            prop_assert!((growth - 2.0).abs() < 0.01, "{} {} {}", one, two, four);
        }
    }

    #[test]
    fn intervals_are_in_order_and_end_with_the_kernel(
        case in cases(), rows in 1_u64..40, steps in 1_u64..6,
    ) {
        let grid = grid(rows, 7);
        let pipeline = pipeline(&grid, &TARGETS[1], &case);
        for bandwidth in ALL {
            let intervals = pipeline.intervals(steps, bandwidth);
            let end = pipeline.cycles(bandwidth);
            let last = intervals.iter().map(|interval| interval.end).fold(0.0, f64::max);
            prop_assert!(last <= end + 1e-6);
            prop_assert!(end - last <= case.cycles[1] + pipeline.around + 1e-6);
            let compute: Vec<_> =
                intervals.iter().filter(|interval| interval.lane == Lane::Compute).collect();
            prop_assert_eq!(compute.len() as u64, (2 * steps).min(rows * 7));
            prop_assert!(compute.windows(2).all(|two| two[0].end <= two[1].start + 1e-6));
            let first = compute.iter().map(|interval| interval.step).min();
            let final_step = compute.iter().map(|interval| interval.step).max();
            prop_assert_eq!((first, final_step), (Some(0), Some(rows * 7 - 1)));
        }
    }
}

/// Steps of 1000 cycles, half of them before the waits, that copy nothing but their own. A copy takes 50 and 20 cycles,
/// and one for each byte.
#[test]
fn own_copies_are_waited_for_where_the_kernel_waits() {
    let case = |own| Case {
        bytes: [0.0; 3],
        cycles: [1000.0; 2],
        own,
        single: false,
    };
    let (grid, steps) = (grid(10, 10), 100.0);
    let cycles = |own| {
        let mut pipeline = pipeline(&grid, &TARGETS[0], &case(own));
        pipeline.copies = Copies {
            load_latency_cycles: 50.0,
            store_latency_cycles: 20.0,
            bytes_per_cycle: 1.0,
            total_bytes_per_cycle: 1.0,
            assumption: None,
        };
        pipeline.cycles(Bandwidth::Independent)
    };
    let hidden = cycles(0.0);
    assert_eq!(cycles(450.0), hidden);
    // A fetch has half of a step. A write-back has a whole one, but the last only the 450 cycles after the waits, and
    // the 80 around.
    assert_eq!(cycles(451.0), hidden + steps);
    assert_eq!(cycles(950.0), hidden + 500.0 * steps + 440.0);
    // The write-back is always there before the fetch.
    assert_eq!(cycles(1450.0), hidden + 1000.0 * steps + 940.0);
}

#[test]
fn a_million_steps_take_no_time_to_predict() {
    let case = Case {
        bytes: [1e6, 1e5, 1e5],
        cycles: [1000.0, 2000.0],
        own: 0.0,
        single: false,
    };
    let grid = grid(1 << 20, 1 << 20);
    let pipeline = pipeline(&grid, &TARGETS[1], &case);
    let steps = (1_u64 << 40) as f64;
    assert!(pipeline.cycles(Bandwidth::Independent) > 1000.0 * steps);
}

#[test]
fn v4_says_what_is_assumed() {
    for target in &TARGETS {
        let copies = Copies::new(target, 1);
        assert_eq!(copies.assumption.is_some(), target.name == "v4");
        assert!(copies.load_latency_cycles > 0.0 && copies.bytes_per_cycle > 0.0);
        let two = Copies::new(target, 2).total_bytes_per_cycle;
        assert_eq!(2.0 * two, copies.total_bytes_per_cycle);
    }
}

/// Cycles of `steps` steps that `cores` cores share.
fn shared(target: &str, steps: u64, cores: u64) -> f64 {
    let text = format!(
        "module @k {{\n  func.func @k(%arg0: i32, %arg1: memref<8x128xf32, #tpu.memory_space<vmem>>) attributes \
         {{dimension_semantics = [#tpu.dimension_semantics<parallel>], iteration_bounds = array<i64: {steps}>, \
         scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>, window_params = [{{transform_indices = @t, \
         window_bounds = array<i64: 8, 128>}}]}} {{\n    %c0 = arith.constant 0 : index\n    %0 = vector.load %arg1[%c0, %c0] \
         : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>\n    tpu.vector_store %arg1[%c0, %c0], %0 \
         {{strides = array<i32>}} : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>, \n    return\n  }}\n  \
         func.func @t(%arg0: i32) -> (i32, i32) {{\n    %c0 = arith.constant 0 : i32\n    return %arg0, %c0 : i32, i32\n  }}\n}}"
    );
    let subject = Subject {
        module: Module::parse(&text).unwrap(),
        rest: None,
        scalars: Scalars::default(),
        changed: false,
    };
    let machine = Machine::new(Target::by_name(target).unwrap());
    crate::validate::cycles(&subject, &machine, cores).unwrap()
}

#[test]
fn cores_of_v5p_that_share_a_grid_begin_later() {
    for (target, later) in [("v4", 0.0), ("v5p", 85.0)] {
        let difference = shared(target, 8, 2) - shared(target, 4, 1);
        assert!((difference - later).abs() < 1e-6, "{target}: {difference}");
    }
}
