//! Terms of gradients that are dropped, misplaced, or of the wrong type.

use approx::{assert_abs_diff_eq, assert_relative_eq};
use tilecast::core::DType;
use tilecast::{Cotangents, Options, Reduction, Strategy, Values};
use tilecast_tests::{Backend, Case, Data, OnCpu, Oracle, columns};

use crate::{assert_matches_reference, for_each_run, sum_of_sizes};

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
                    Values::F32(_) => DType::F32,
                    Values::Bf16(_) => DType::Bf16,
                };
                assert_eq!(dtype, expected);
            }
        }
    }
}
