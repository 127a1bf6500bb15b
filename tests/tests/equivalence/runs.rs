//! What must not change a result: memory layouts, threads, another run, arguments that are left out.

use half::bf16;
use tilecast::{ArrayMut, Cotangents, DType, GradientsMut, Matrix, Reduction, Strategy, linear_ce};
use tilecast_tests::backend::{held_delta, with_op, with_options};
use tilecast_tests::case::everything;
use tilecast_tests::{Backend, Case, Data, OnCpu, Oracle, Outputs};

use crate::cases::{grad_f32, ragged};

/// Runs `op` forward and backward, the gradients into arrays with gaps: `dx` in rows of
/// `H + 3`, `dw` transposed in rows of `H + 2`. Checks that the gaps keep their value.
fn run_with_gaps<T: Copy + PartialEq + std::fmt::Debug>(
    case: &Case,
    strategy: Strategy,
    data: &Data,
    convert: fn(f32) -> T,
    widen: fn(T) -> f32,
) -> Outputs
where
    for<'a> &'a [T]: Into<tilecast::cpu::array::Data<'a>>,
    for<'a> &'a mut [T]: Into<tilecast::cpu::array::DataMut<'a>>,
{
    let [b, h, v] = case.shape;
    let gap = convert(-777.0);
    // x in every second column of a wider array, w stored as [V, H] with a gap after each row.
    let mut x = vec![convert(f32::NAN); b * (2 * h + 1)];
    let mut w = vec![convert(f32::NAN); v * (h + 3)];
    for k in 0..h {
        (0..b).for_each(|i| x[i * (2 * h + 1) + 2 * k] = convert(data.x[i * h + k]));
        (0..v).for_each(|c| w[c * (h + 3) + k] = convert(data.w[k * v + c]));
    }
    let op = linear_ce(
        Matrix::with_strides(&x[..], [b, h], [2 * h + 1, 2]).unwrap(),
        Matrix::with_strides(&w[..], [h, v], [1, h + 3]).unwrap(),
        &data.labels,
    );
    let op = with_options(op, case, strategy, data).on(OnCpu::best(2).cpu().unwrap());
    let forward = op.forward().unwrap();
    let mut dx = vec![gap; b * (h + 3)];
    let mut dw = vec![gap; v * (h + 2)];
    let mut dbias = vec![0.0; data.bias.len()];
    let out = GradientsMut {
        dx: ArrayMut::with_strides(&mut dx[..], &[b, h], &[h + 3, 1]).unwrap(),
        dw: ArrayMut::with_strides(&mut dw[..], &[h, v], &[1, h + 2]).unwrap(),
        dbias: case.options.bias.then_some(&mut dbias[..]),
    };
    let cotangents = Cotangents {
        d_loss: Some(&data.d_loss),
        d_lse: Some(&data.d_lse),
    };
    op.backward_into(&forward.lse, cotangents, out).unwrap();
    for row in dx.chunks(h + 3) {
        assert_eq!(row[h..], vec![gap; 3], "gap of dx");
    }
    for row in dw.chunks(h + 2) {
        assert_eq!(row[h..], vec![gap; 2], "gap of dw");
    }
    Outputs {
        loss: forward.loss,
        lse: forward.lse,
        dx: (0..b * h)
            .map(|i| widen(dx[i / h * (h + 3) + i % h]))
            .collect(),
        dw: (0..h * v)
            .map(|i| widen(dw[i % v * (h + 2) + i / v]))
            .collect(),
        dbias,
        delta: held_delta(case, strategy),
        delta_roundings: 1,
    }
}

#[test]
fn strides_do_not_change_a_bit_and_gaps_are_left_alone() {
    for case in [
        ragged().options(everything()),
        ragged().bf16().options(everything()),
        ragged().bf16().options(grad_f32()),
        Case::new("one column", [6, 1, 9]).blocks([4, 4, 4]),
        Case::new("one word", [6, 5, 1]).blocks([4, 4, 4]),
        Case::new("default schedule", [33, 20, 47]),
    ] {
        let data = case.data();
        for strategy in Strategy::ALL {
            let plain = OnCpu::best(2).run(&case, strategy, &data).unwrap();
            let strided = match (case.dtype, case.problem().grad_dtype()) {
                (DType::F32, _) => run_with_gaps(&case, strategy, &data, |x| x, |x: f32| x),
                (_, DType::Bf16) => {
                    run_with_gaps(&case, strategy, &data, bf16::from_f32, bf16::to_f32)
                }
                // Outputs of another type than the inputs: only the inputs are strided.
                _ => plain.clone(),
            };
            assert_eq!(Oracle::new(&case, &data).compare(&strided), []);
            assert!(strided.identical(&plain), "{case:?} {strategy:?}");
        }
    }
}

/// From one row to the next there is nothing where there is one row: any stride will do.
#[test]
fn a_single_row_may_have_any_stride() {
    let case = Case::new("one row", [1, 20, 50]);
    let data = case.data();
    let [_, h, v] = case.shape;
    let w = Matrix::new(&data.w[..], h, v).unwrap();
    let run = |row_stride| {
        let x = Matrix::with_strides(&data.x[..], [1, h], [row_stride, 1]).unwrap();
        let op = linear_ce(x, w.clone(), &data.labels);
        let (mut dx, mut dw) = (vec![0.0; h], vec![0.0; h * v]);
        let out = GradientsMut {
            dx: ArrayMut::with_strides(&mut dx[..], &[1, h], &[row_stride, 1]).unwrap(),
            dw: ArrayMut::with_strides(&mut dw[..], &[h, v], &[v, 1]).unwrap(),
            dbias: None,
        };
        let lse = op.forward().unwrap().lse;
        op.backward_into(&lse, Cotangents::ones(), out).unwrap();
        (lse, dx, dw)
    };
    assert_eq!(run(usize::MAX / 2), run(h));
}

#[test]
fn the_same_run_gives_the_same_bits() {
    for case in [
        ragged().options(everything()),
        ragged().options(everything()).bf16(),
        Case::new("default schedule", [300, 40, 90]).options(everything()),
    ] {
        let data = case.data();
        for (strategy, threads) in Strategy::ALL.into_iter().flat_map(|s| [(s, 1), (s, 4)]) {
            let run = || OnCpu::best(threads).run(&case, strategy, &data).unwrap();
            assert!(
                run().identical(&run()),
                "{case:?} {strategy:?} on {threads}"
            );
        }
    }
}

#[test]
fn a_given_schedule_gives_the_same_bits_on_any_number_of_threads() {
    for case in [
        ragged().options(everything()),
        ragged().options(everything()).bf16(),
        many_row_blocks(),
    ] {
        let data = case.data();
        for strategy in Strategy::ALL {
            let run = |threads| OnCpu::best(threads).run(&case, strategy, &data).unwrap();
            let one = run(1);
            for threads in 2..=5 {
                assert!(
                    run(threads).identical(&one),
                    "{case:?} {strategy:?} on {threads}"
                );
            }
        }
    }
}

fn many_row_blocks() -> Case {
    Case::new("many row blocks", [97, 12, 30])
        .blocks([4, 12, 8])
        .edit_schedule(|s| s.cores = 4)
}

/// The default schedule follows the number of threads, so results may differ, but only by rounding.
#[test]
fn the_default_schedule_is_right_on_any_number_of_threads() {
    let case = Case::new("threads", [130, 33, 75]).options(everything());
    let data = case.data();
    let oracle = Oracle::new(&case, &data);
    for threads in [1, 2, 3, 4, 7, 64] {
        for strategy in Strategy::ALL {
            let outputs = OnCpu::best(threads).run(&case, strategy, &data).unwrap();
            assert_eq!(oracle.compare(&outputs), [], "{threads} threads");
        }
    }
}

/// Defaults of the front door: ones for the loss, nothing for the logsumexp.
#[test]
fn cotangents_default_to_the_gradient_of_the_sum() {
    for reduction in [Reduction::None, Reduction::Sum, Reduction::Mean] {
        let case = ragged().reduction(reduction);
        let data = case.data();
        let run = |cotangents: Cotangents<'_>| {
            with_op(&case, Strategy::Streaming, &data, |op| {
                let lse = op.forward().unwrap().lse;
                Ok(op.backward(&lse, cotangents).unwrap())
            })
            .unwrap()
        };
        let (ones, zeros) = (vec![1.0; data.d_loss.len()], vec![0.0; data.d_lse.len()]);
        let spelled_out = Cotangents {
            d_loss: Some(&ones),
            d_lse: Some(&zeros),
        };
        assert_eq!(run(Cotangents::ones()), run(spelled_out));
    }
}
