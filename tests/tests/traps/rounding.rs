//! Numbers that are too large, too small, or rounded too early.

use approx::{assert_abs_diff_eq, assert_relative_eq};
use tilecast::core::DType;
use tilecast::{Cotangents, Lazy, Matrix, Options, Reduction, Strategy, XForm, linear_ce};
use tilecast_tests::case::round_to;
use tilecast_tests::{Case, Oracle, Outputs, bf16_unit};

use crate::{assert_matches_reference, for_each_run};

/// Exponentials relative to a maximum that is not kept up to date overflow where later logits are far larger. Rows of
/// which the logits rise by 30 to 400 from one sub-tile of columns to the next, stay, and fall; in f32 2^128 is e^88.7.
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

/// Kernels that get `x` rounded once are right about an `x` of rounded numbers, in whatever types the other operands of
/// their products are. On a TPU `w` and delta are rounded for it.
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

/// With one hidden column, a token of a small `x` has probabilities that all but agree and grow with `w`. Where they
/// pass the middle of two bf16 numbers, those of positive `w` are rounded up and those of negative `w` down: the
/// roundings of delta add up in dx, whatever the order of summation.
#[test]
fn roundings_of_delta_that_follow_the_signs_of_w() {
    let case = Case {
        seed: 854,
        logit_scale: 3.767_797_8,
        ..Case::new("small x", [644, 1, 621]).options(Options {
            reduction: Reduction::Mean,
            grad_dtype: Some(DType::F32),
            delta_dtype: Some(DType::Bf16),
            ..Options::default()
        })
    };
    assert_matches_reference(&case, &case.data());
}
