//! Blocks that overhang, labels and schedules that fit nothing, and memory nobody wrote.

use approx::assert_relative_eq;
use tilecast::core::DType;
use tilecast::core::program::Kernel;
use tilecast::core::spec::{BlockIndex, Blocked, Semantics, SpecBuilder};
use tilecast::{
    Blocks, Cotangents, Cpu, Matrix, Options, Reduction, Schedule, Strategy, linear_ce,
};
use tilecast_tests::case::everything;
use tilecast_tests::{Backend, Case, OnCpu, Oracle};

use crate::{assert_matches_reference, for_each_run};

/// The last column block is padded. A padded column of zeros has logit 0 and, where all real
/// logits are far below it, becomes the logsumexp.
#[test]
fn phantom_vocabulary_columns_do_not_enter_the_logsumexp() {
    for dtype in [DType::F32, DType::Bf16] {
        let case = Case {
            dtype,
            ..Case::new("phantom columns", [5, 4, 33]).blocks([2, 4, 16])
        };
        let mut data = case.data();
        data.x.fill(1.0);
        data.w.fill(-50.0);
        let expected = -200.0 + 33.0_f32.ln();
        for_each_run(&case, &data, |place, _, outputs| {
            for lse in &outputs.lse {
                assert_relative_eq!(*lse, expected, max_relative = 1e-6);
            }
            for loss in &outputs.loss {
                assert_relative_eq!(*loss, 33.0_f32.ln(), max_relative = 1e-5);
            }
            assert!(outputs.dx.iter().all(|x| x.is_finite()), "{place}");
        });
        assert_matches_reference(&case, &data);
    }
}

/// The same for rows and hidden columns that a block overhangs: they are NaN unless masked.
#[test]
fn phantom_rows_and_hidden_columns_do_not_enter_gradients() {
    for (b, h, v) in [(7, 8, 8), (8, 7, 8), (8, 8, 7), (7, 7, 7)] {
        let case = Case::new("phantom edges", [b, h, v])
            .blocks([4, 4, 4])
            .options(Options {
                bias: true,
                ..Options::default()
            });
        assert_matches_reference(&case, &case.data());
    }
}

/// `i * b` is where block `i` starts, but an index map returns `i`.
#[test]
fn an_index_map_in_elements_is_refused() {
    let mut spec = SpecBuilder::new("trap");
    let rows = spec.axis("rows", 4, Semantics::Parallel);
    spec.input_tile(
        "x",
        Blocked::new(
            DType::F32,
            [32, 16],
            [8, 16],
            [BlockIndex::from(rows) * 8, 0.into()],
        ),
    );
    assert_eq!(
        spec.build().unwrap_err().to_string(),
        "trap: the index map of x returns element offsets along dimension 0 (it reaches 24, a \
         multiple of the block size 8); it must return block indices, at most 3: divide by 8"
    );
}

#[test]
fn labels_out_of_range_are_errors_before_any_work() {
    let (x, w) = ([0.5_f32; 3 * 2], [0.25_f32; 2 * 5]);
    let error = |labels: [i32; 3], ignore: Option<i32>| {
        let (x, w) = (Matrix::new(&x[..], 3, 2), Matrix::new(&w[..], 2, 5));
        let mut op = linear_ce(x.unwrap(), w.unwrap(), &labels);
        if let Some(index) = ignore {
            op = op.ignore_index(index);
        }
        let forward = op.forward().unwrap_err().to_string();
        let backward = op.backward(&[0.0; 3], Cotangents::ones()).unwrap_err();
        assert_eq!(backward.to_string(), forward);
        forward
    };
    assert_eq!(
        error([0, 5, 1], None),
        "label 5 of token 1 is outside 0..5 and no ignore index is set"
    );
    assert_eq!(
        error([0, 1, -100], None),
        "label -100 of token 2 is outside 0..5 and no ignore index is set"
    );
    assert_eq!(
        error([i32::MAX, -100, -100], Some(-100)),
        "label 2147483647 of token 0 is outside 0..5 and is not the ignore index -100"
    );
    assert_eq!(
        error([i32::MIN, 0, 0], Some(-100)),
        "label -2147483648 of token 0 is outside 0..5 and is not the ignore index -100"
    );
}

/// A kernel that gives each core `blocks / 2` row blocks falls back to one core if that is odd.
#[test]
fn an_odd_number_of_row_blocks_uses_both_cores() {
    for row_blocks in [3, 5, 7, 33] {
        let case = Case::new("odd", [4 * row_blocks - 1, 6, 18]).blocks([4, 6, 8]);
        let problem = case.problem();
        let schedule = case.schedule_for(Strategy::Combined).unwrap();
        let program = problem.backward(&schedule).unwrap();
        let [(launch, 1)] = program.launches()[..] else {
            panic!("the combined backward is one launch");
        };
        let grid: Vec<_> = (launch.kernel.spec().grid().iter())
            .map(|axis| (axis.name, axis.size, axis.semantics))
            .collect();
        assert_eq!(
            grid[..2],
            [
                ("core", 2, Semantics::Parallel),
                ("rows", row_blocks.div_ceil(2), Semantics::Arbitrary)
            ]
        );
        // The other kernels spread their rows, or hidden and column blocks, over the cores.
        let streaming = case.schedule_for(Strategy::Streaming).unwrap();
        let backward = problem.backward(&streaming).unwrap();
        for program in [&problem.forward(&schedule).unwrap(), &backward] {
            for (launch, _) in program.launches() {
                let spec = launch.kernel.spec();
                let parallel = &spec.grid()[..spec.parallel_axes()];
                let steps: usize = parallel.iter().map(|axis| axis.size).product();
                assert!(steps >= 2, "{} has {steps} parallel steps", spec.name());
            }
        }
        let data = case.data();
        let oracle = Oracle::new(&case, &data);
        for strategy in Strategy::ALL {
            let outputs = OnCpu::best(2).run(&case, strategy, &data).unwrap();
            assert_eq!(oracle.compare(&outputs), []);
        }
    }
}

/// Scratch and windows always start as NaN; here temporaries do too, and it must not show.
#[test]
fn nothing_is_read_before_it_is_written() {
    let options = Options {
        reduction: Reduction::Mean,
        ..everything()
    };
    for dtype in [DType::F32, DType::Bf16] {
        let case = Case {
            dtype,
            ..Case::new("poison", [21, 10, 35]).options(options)
        };
        let data = case.data();
        for blocks in [[4, 4, 8], [21, 10, 35], [32, 16, 64], [1, 10, 35]] {
            for strategy in Strategy::ALL {
                let schedule = Schedule {
                    chunk_columns: 20,
                    ..case.clone().blocks(blocks).schedule_for(strategy).unwrap()
                };
                let run = |poison| {
                    let case = case.clone().schedule(schedule);
                    tilecast_tests::backend::with_op(&case, strategy, &data, |op| {
                        let op = op.on(Cpu::new().threads(2).poison(poison));
                        let forward = op.forward().unwrap();
                        let gradients = op.backward(&forward.lse, Cotangents::ones()).unwrap();
                        Ok((forward, gradients))
                    })
                    .unwrap()
                };
                assert_eq!(run(true), run(false), "{blocks:?} {strategy:?}");
            }
        }
    }
}

/// A schedule with blocks of more than an array is one block, not an error and not a wrong number.
#[test]
fn forward_and_backward_may_have_other_blocks() {
    let case = Case::new("blocks", [10, 6, 15])
        .blocks([4, 3, 8])
        .edit_schedule(|schedule| {
            schedule.backward = Blocks {
                b: 100,
                h: 100,
                v: 100,
            };
        });
    assert_matches_reference(&case, &case.data());
}
