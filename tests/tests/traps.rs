//! Known bugs of published fused cross-entropy kernels, each as a named test.
//!
//! They come from public issue trackers and sources of levanter, tokamax, MaxText, Liger,
//! MLLM-JAX and verl. Of the bugs seen there, three cannot occur here: a temperature applied to log
//! probabilities (the op has none), a score of block sizes by compile time (that is `tune`), and a
//! gather that the TPU compiler does not take (no primitive gathers).

use approx::{assert_abs_diff_eq, assert_relative_eq};
use tilecast::core::DType;
use tilecast::core::program::Kernel;
use tilecast::core::spec::{BlockIndex, Blocked, Semantics, SpecBuilder};
use tilecast::{
    Blocks, Cotangents, Cpu, Gradient, Lazy, Matrix, Options, Reduction, Schedule, Strategy, XForm,
    linear_ce,
};
use tilecast_tests::case::{everything, round_to};
use tilecast_tests::{Backend, Case, Data, OnCpu, Oracle, Outputs, bf16_unit, columns};

/// Runs a case with data of its own on every column and with both strategies.
fn for_each_run(case: &Case, data: &Data, mut body: impl FnMut(&str, Strategy, Outputs)) {
    for column in columns() {
        if column.skips(case).is_some() {
            continue;
        }
        for &strategy in column.strategies() {
            let outputs = column.run(case, strategy, data).unwrap();
            let place = format!("{} {}", column.name(), strategy.name());
            body(&place, strategy, outputs);
        }
    }
}

fn assert_matches_reference(case: &Case, data: &Data) {
    let oracle = Oracle::new(case, data);
    for_each_run(case, data, |place, _, outputs| {
        assert_eq!(oracle.compare(&outputs), [], "{place}");
    });
}

fn sum_of_sizes(values: &[f32]) -> f32 {
    values.iter().map(|x| x.abs()).sum()
}

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

/// Exponentials relative to a maximum that is not kept up to date overflow where later logits are far larger. Rows of which the
/// logits rise by 30 to 400 from one sub-tile of columns to the next, stay, and fall; in f32 2^128 is e^88.7.
#[test]
fn lazily_added_exponentials_do_not_overflow() {
    const SUB_TILE: usize = 128;
    let slopes = [-400.0, -30.0, 0.0, 30.0, 80.0, 100.0, 400.0_f32];
    let lazily = |columns, keeps_logits, exact_rows| {
        Some(Lazy {
            columns,
            keeps_logits,
            exact_rows,
            stores_labels: exact_rows > 0,
        })
    };
    for lazy in [
        None,
        lazily(SUB_TILE / 2, false, 0),
        lazily(SUB_TILE, false, 0),
        lazily(SUB_TILE, true, 0),
        lazily(SUB_TILE / 2, false, 1),
        lazily(SUB_TILE, false, 2),
        lazily(SUB_TILE, true, 3),
    ] {
        let case = Case::new("steep rows", [slopes.len(), 2, 5 * SUB_TILE])
            .blocks([4, 2, 2 * SUB_TILE])
            .edit_schedule(|schedule| schedule.lazy = lazy);
        let mut data = case.data();
        let v = 5 * SUB_TILE;
        data.x = slopes.iter().flat_map(|&slope| [slope, 1.0]).collect();
        (0..v).for_each(|column| data.w[column] = (column / SUB_TILE) as f32);
        assert_matches_reference(&case, &data);
    }
}

/// Kernels that get `x` rounded once are right about an `x` of rounded numbers, in whatever types the other operands of their products
/// are. On a TPU `w` and delta are rounded for it.
#[test]
fn x_that_is_rounded_once_is_right_where_nothing_is_lost() {
    for (form, name) in [(XForm::Rounded, "x_rounded"), (XForm::Packed, "x_packed")] {
        x_that_is_made_once(form, name);
    }
}

fn x_that_is_made_once(form: XForm, name: &str) {
    let case = Case::new("rounded x", [71, 21, 130])
        .blocks([16, 8, 32])
        .options(Options {
            delta_dtype: Some(DType::Bf16),
            bias: true,
            ..Options::default()
        })
        .edit_schedule(|schedule| {
            schedule.x = [form; 2];
            schedule.packs_delta = form == XForm::Packed;
        });
    let mut data = case.data();
    for numbers in [&mut data.x, &mut data.w] {
        (numbers.iter_mut()).for_each(|number| *number = round_to(DType::Bf16, *number));
    }
    assert_matches_reference(&case, &data);
    let schedule = case.schedule_for(Strategy::Streaming).unwrap();
    let problem = case.problem();
    // By both passes of a program once.
    for program in [
        problem.forward(&schedule),
        problem.backward(&schedule),
        problem.forward_and_backward(&schedule),
    ] {
        let program = program.unwrap();
        let rounded = (program.arrays().iter()).filter(|array| array.name == name);
        let dtypes: Vec<DType> = rounded.map(|array| array.dtype).collect();
        assert_eq!(dtypes, [DType::Bf16], "{}", program.name);
    }
}

/// The same of a `w` whose chunks are rounded, of which blocks overhang in both dimensions and chunks overlap.
#[test]
fn w_that_is_rounded_by_chunks_is_right_where_nothing_is_lost() {
    for (shape, blocks) in [([70, 21, 130], [16, 8, 32]), ([150, 140, 501], [128; 3])] {
        let case = Case::new("rounded w", shape)
            .blocks(blocks)
            .options(Options {
                delta_dtype: Some(DType::Bf16),
                bias: true,
                ..Options::default()
            })
            .edit_schedule(|schedule| {
                (schedule.rounds_w, schedule.x) = (true, [XForm::Rounded; 2])
            });
        let mut data = case.data();
        for numbers in [&mut data.x, &mut data.w] {
            (numbers.iter_mut()).for_each(|number| *number = round_to(DType::Bf16, *number));
        }
        assert_matches_reference(&case, &data);
        let schedule = case.schedule_for(Strategy::Streaming).unwrap();
        let program = case.problem().backward(&schedule).unwrap();
        let rounded = (program.arrays().iter()).filter(|array| array.name == "w_rounded");
        let dtypes: Vec<DType> = rounded.map(|array| array.dtype).collect();
        assert_eq!(dtypes, [DType::Bf16]);
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

/// Rounded to bf16, 160 and 160.3 are the same number and the peak probability is 0.5.
#[test]
fn logits_are_not_rounded_to_bf16_before_the_softmax() {
    for sign in [1.0, -1.0] {
        let case = Case {
            dtype: DType::Bf16,
            ..Case::new("bf16 logits", [1, 2, 2]).blocks([1, 2, 2])
        };
        let mut data = case.data();
        let small = 0.30078125;
        data.x = vec![16.0, 1.0];
        data.w = vec![sign * 10.0, sign * 10.0, 0.0, small];
        (data.labels, data.d_loss, data.d_lse) = (vec![1], vec![1.0], vec![0.0]);
        let peak = 1.0 / (1.0 + (-small).exp());
        for_each_run(&case, &data, |place, _, outputs| {
            assert_abs_diff_eq!((-outputs.loss[0]).exp(), peak, epsilon = 2e-5);
            let lse = sign * 160.0 + small - peak.ln();
            assert_relative_eq!(outputs.lse[0], lse, max_relative = 2e-7);
            // dw of the label is (p - 1) x.
            let rounding = 3.0 * bf16_unit() as f32;
            assert!(
                (outputs.dw[1] / 16.0 - (peak - 1.0)).abs() < rounding,
                "{place}: {:?}",
                outputs.dw
            );
        });
    }
}

/// Summed in bf16 over blocks, a gradient of n equal parts stops growing once a part is less than
/// half a unit in the last place: the error grows with the number of blocks.
#[test]
fn bf16_gradients_are_summed_in_f32_over_any_number_of_blocks() {
    // One rounding of the result, and one of delta where the machine multiplies bf16 only.
    let allowed = |outputs: &Outputs| match outputs.delta {
        DType::Bf16 => 2.02 * bf16_unit(),
        _ => 1.01 * bf16_unit(),
    };
    let worst = |got: &[f32], expected: &[f64]| {
        let relative = |(got, expected): (&f32, &f64)| (f64::from(*got) / expected - 1.0).abs();
        got.iter().zip(expected).map(relative).fold(0.0, f64::max)
    };
    for blocks in [2, 16, 512] {
        // Rows all alike: every row block adds the same to dw.
        let case = Case::new("rows", [2 * blocks, 2, 3])
            .blocks([2, 2, 3])
            .bf16();
        let mut data = case.data();
        (0..data.x.len()).for_each(|i| data.x[i] = data.x[i % 2]);
        data.labels.fill(1);
        data.d_loss.fill(1.0);
        data.d_lse.fill(0.0);
        let expected = Oracle::new(&case, &data).backward.dw;
        for_each_run(&case, &data, |place, _, outputs| {
            let error = worst(&outputs.dw, &expected);
            assert!(
                error <= allowed(&outputs),
                "{place}: {error:.2e} over {blocks} row blocks"
            );
        });
        // Columns all alike: every column block adds the same to dx.
        let case = Case::new("columns", [3, 2, 2 * blocks])
            .blocks([3, 2, 2])
            .bf16();
        let mut data = case.data();
        let v = 2 * blocks;
        (0..2 * v).for_each(|i| data.w[i] = data.w[i / v * v]);
        data.d_loss.fill(0.0);
        data.d_lse.fill(1.0);
        let expected = Oracle::new(&case, &data).backward.dx;
        for_each_run(&case, &data, |place, _, outputs| {
            let error = worst(&outputs.dx, &expected);
            assert!(
                error <= allowed(&outputs),
                "{place}: {error:.2e} over {blocks} column blocks"
            );
        });
    }
}

fn with_cotangents(data: &Data, loss: f32, lse: f32) -> Data {
    let scale = |values: &[f32], factor| values.iter().map(|x| x * factor).collect();
    Data {
        d_loss: scale(&data.d_loss, loss),
        d_lse: scale(&data.d_lse, lse),
        ..data.clone()
    }
}

#[test]
fn neither_cotangent_is_dropped() {
    for z_loss in [0.0, 0.1] {
        let case = Case::new("cotangents", [13, 6, 21])
            .blocks([4, 3, 8])
            .options(Options {
                z_loss,
                ..Options::default()
            });
        let both = case.data();
        let (only_loss, only_lse) = (
            with_cotangents(&both, 1.0, 0.0),
            with_cotangents(&both, 0.0, 1.0),
        );
        for data in [&both, &only_loss, &only_lse] {
            assert_matches_reference(&case, data);
        }
        for column in columns() {
            if column.skips(&case).is_some() {
                continue;
            }
            for strategy in Strategy::ALL {
                let run = |data| column.run(&case, strategy, data).unwrap();
                let [both, loss, lse] = [run(&both), run(&only_loss), run(&only_lse)];
                assert!(sum_of_sizes(&loss.dx) > 0.1 && sum_of_sizes(&lse.dx) > 0.1);
                for (i, both) in both.dx.iter().enumerate() {
                    assert_abs_diff_eq!(*both, loss.dx[i] + lse.dx[i], epsilon = 1e-5);
                }
            }
        }
    }
}

#[test]
fn z_loss_is_in_the_loss_and_in_the_gradient() {
    let plain = Case::new("z-loss", [9, 6, 11]).blocks([4, 6, 4]);
    let with = plain.clone().options(Options {
        z_loss: 0.1,
        ..Options::default()
    });
    let data = plain.data();
    for strategy in Strategy::ALL {
        let run = |case| OnCpu::best(1).run(case, strategy, &data).unwrap();
        let (plain, with) = (run(&plain), run(&with));
        for i in 0..9 {
            let term = 0.1 * with.lse[i] * with.lse[i];
            assert_relative_eq!(with.loss[i], plain.loss[i] + term, max_relative = 1e-5);
        }
        let differences: Vec<f32> = with.dx.iter().zip(&plain.dx).map(|(a, b)| a - b).collect();
        assert!(sum_of_sizes(&differences) > 0.1);
    }
    assert_matches_reference(&with, &data);
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

/// A row of weight 0 whose logits overflow: infinite or NaN, depending on the signs.
#[test]
fn rows_of_weight_zero_do_not_leak() {
    // In dw is place for something of each logit.
    const H: usize = 12;
    for (dtype, by_weight) in [
        (DType::F32, true),
        (DType::F32, false),
        (DType::Bf16, true),
        (DType::Bf16, false),
    ] {
        for options in [
            Options::default(),
            Options {
                z_loss: 0.1,
                label_smoothing: 0.1,
                bias: true,
                ..Options::default()
            },
            Options {
                delta_dtype: Some(dtype),
                ..Options::default()
            },
        ] {
            for reduction in [Reduction::None, Reduction::Sum, Reduction::Mean] {
                let case = Case {
                    dtype,
                    ..Case::new("weight 0", [9, H, 11]).blocks([4, 3, 4])
                }
                .options(Options {
                    weight: by_weight,
                    ignore_index: (!by_weight).then_some(-1),
                    reduction,
                    ..options
                });
                let mut data = case.data();
                data.d_lse.fill(0.0);
                let bad = [0, 4, 8];
                for i in 0..9 {
                    let leave_out = bad.contains(&i);
                    if by_weight {
                        data.weight[i] = if leave_out { 0.0 } else { 1.5 };
                    } else {
                        data.labels[i] = if leave_out { -1 } else { 2 };
                    }
                }
                let mut harmless = data.clone();
                for (n, i) in bad.into_iter().enumerate() {
                    for k in 0..H {
                        let sign = if (k + n) % 2 == 0 { 1.0 } else { -1.0 };
                        // 2^127, exact in bf16.
                        data.x[i * H + k] = sign * 1.701_411_8e38;
                        harmless.x[i * H + k] = 0.0;
                    }
                }
                // What the row contributes is exactly nothing, so its numbers do not matter.
                let oracle = Oracle::new(&case, &harmless);
                for_each_run(&case, &data, |place, _, mut outputs| {
                    for i in bad {
                        assert!(
                            !outputs.lse[i].is_finite(),
                            "{place}: the row does not overflow"
                        );
                        outputs.lse[i] = oracle.forward.lse[i] as f32;
                        if reduction == Reduction::None {
                            assert_eq!(outputs.loss[i], 0.0, "{place}: loss of row {i}");
                        }
                        assert_eq!(outputs.dx[i * H..][..H], [0.0; H], "{place}: dx of row {i}");
                    }
                    assert_eq!(oracle.compare(&outputs), [], "{place}");
                });
            }
        }
    }
}

#[test]
fn a_mean_over_nothing_is_zero_and_so_are_its_gradients() {
    for (dtype, by_weight) in [
        (DType::F32, true),
        (DType::F32, false),
        (DType::Bf16, true),
        (DType::Bf16, false),
    ] {
        let case = Case {
            dtype,
            ..Case::new("empty mean", [9, 6, 11]).blocks([4, 3, 4])
        }
        .options(Options {
            weight: by_weight,
            ignore_index: (!by_weight).then_some(-1),
            reduction: Reduction::Mean,
            z_loss: 0.1,
            label_smoothing: 0.1,
            bias: true,
            ..Options::default()
        });
        let mut data = case.data();
        match by_weight {
            true => data.weight.fill(0.0),
            false => data.labels.fill(-1),
        }
        data.d_lse.fill(0.0);
        for_each_run(&case, &data, |place, _, outputs| {
            assert_eq!(outputs.loss, [0.0], "{place}");
            assert!(outputs.lse.iter().all(|x| x.is_finite()), "{place}");
            for (name, gradient) in [
                ("dx", &outputs.dx),
                ("dw", &outputs.dw),
                ("dbias", &outputs.dbias),
            ] {
                assert!(gradient.iter().all(|&x| x == 0.0), "{place}: {name}");
            }
        });
        // The logsumexp is not part of the mean: its cotangent still counts.
        data.d_lse.fill(1.0);
        assert_matches_reference(&case, &data);
    }
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

/// A kernel that saves gradients for a cotangent of one is right until a user weighs the losses.
#[test]
fn unreduced_gradients_follow_the_cotangent_of_each_token() {
    let case = Case::new("cotangents", [11, 5, 9]).blocks([4, 5, 4]);
    let mut data = case.data();
    data.d_lse.fill(0.0);
    (0..11).for_each(|i| data.d_loss[i] = [0.0, 1.0, -3.0, 100.0, 1e-3][i % 5]);
    assert_matches_reference(&case, &data);
    for_each_run(&case, &data, |place, _, outputs| {
        assert_eq!(outputs.dx[..5], [0.0; 5], "{place}");
    });
}

#[test]
fn gradients_have_the_type_of_the_inputs_unless_asked_otherwise() {
    let case = Case::new("types", [4, 3, 5]).blocks([2, 3, 5]);
    for (dtype, asked, expected) in [
        (DType::F32, None, DType::F32),
        (DType::Bf16, None, DType::Bf16),
        (DType::Bf16, Some(DType::F32), DType::F32),
        (DType::Bf16, Some(DType::Bf16), DType::Bf16),
    ] {
        let mut case = Case {
            dtype,
            ..case.clone()
        };
        case.options.grad_dtype = asked;
        let data = case.data();
        for strategy in Strategy::ALL {
            let (dx, dw) = tilecast_tests::backend::with_op(&case, strategy, &data, |op| {
                let lse = op.forward().unwrap().lse;
                let gradients = op.backward(&lse, Cotangents::ones()).unwrap();
                Ok((gradients.dx, gradients.dw))
            })
            .unwrap();
            for gradient in [dx, dw] {
                let dtype = match gradient {
                    Gradient::F32(_) => DType::F32,
                    Gradient::Bf16(_) => DType::Bf16,
                };
                assert_eq!(dtype, expected);
            }
        }
    }
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

/// A cap so small that its reciprocal overflows: an error or a number, but not `0 * inf`.
#[test]
fn a_tiny_soft_cap_is_no_nan() {
    let (x, w) = ([1.0_f32, 0.0], [0.5_f32, -0.5, 0.25, 0.0]);
    for cap in [1e-45, 1e-40, f32::MIN_POSITIVE, f32::MAX] {
        let x = Matrix::new(&x[..], 2, 1).unwrap();
        let w = Matrix::new(&w[..], 1, 4).unwrap();
        let op = linear_ce(x, w, &[0, 3]).soft_cap(cap);
        if let Ok(forward) = op.forward() {
            let gradients = op.backward(&forward.lse, Cotangents::ones()).unwrap();
            let results = [
                &forward.loss,
                &gradients.dx.to_f32(),
                &gradients.dw.to_f32(),
            ];
            for value in results.into_iter().flatten() {
                assert!(value.is_finite(), "{cap:e}: {results:?}");
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
