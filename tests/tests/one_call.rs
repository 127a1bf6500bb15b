//! Both passes in one call: the numbers do not depend on threads, and are right whether logits are stored or not. Every
//! case of the suite runs with stored logits as well: they are columns of it.

use tilecast::{Cotangents, Options, Reduction, Strategy};
use tilecast_tests::backend::{held_delta, outputs, with_op};
use tilecast_tests::case::{Data, everything};
use tilecast_tests::{Backend, Case, OnCpu, Oracle, Place, Storing, bf16_unit};

#[test]
fn stored_logits_give_the_same_bits_on_any_number_of_threads() {
    let ragged = Case::new("ragged", [37, 24, 50]).blocks([8, 10, 16]);
    let ragged = ragged.options(everything());
    let many_chunks = Case::new("many chunks", [97, 12, 30]).blocks([4, 12, 8]);
    let few = Case::new("few tokens", [13, 24, 50]).blocks([8, 10, 16]);
    let exponentials = few.clone().bf16();
    let mut stored = 0;
    for case in [
        ragged.clone(),
        ragged.bf16(),
        many_chunks.clone(),
        many_chunks.bf16(),
        few,
        exponentials,
    ] {
        let data = case.data();
        for place in Place::ALL {
            let storing = |threads| Storing {
                on: OnCpu::best(threads),
                place,
            };
            if storing(1).skips(&case).is_some() {
                continue;
            }
            stored += 1;
            let run = |threads| {
                let storing = storing(threads);
                storing.run(&case, *storing.like(), &data).unwrap()
            };
            let one = run(1);
            for threads in 1..=5 {
                assert!(run(threads).identical(&one), "{case:?} on {threads}");
            }
        }
    }
    assert_eq!(
        stored, 16,
        "all beside dw, and all in it, in both ways, but one with a soft cap in bf16"
    );
}

#[test]
fn what_the_library_chooses_is_right_on_any_number_of_threads() {
    let case = Case::new("one call", [130, 33, 75]).options(everything());
    let mean = case.clone().reduction(Reduction::Mean);
    // Fewer tokens than rows of dw, in which f32 logits are stored then.
    let few = Case::new("few tokens", [30, 33, 75]).options(everything());
    for case in [
        case.clone(),
        case.bf16(),
        mean.clone(),
        mean.bf16(),
        few.clone(),
        few.bf16(),
    ] {
        let data = case.data();
        let oracle = Oracle::new(&case, &data);
        for threads in [1, 2, 3, 7] {
            let cotangents = Cotangents {
                d_loss: Some(&data.d_loss),
                d_lse: Some(&data.d_lse),
            };
            let found = with_op(&case, Strategy::Streaming, &data, |op| {
                let op = op.on(OnCpu::best(threads).cpu().unwrap());
                let both = op.forward_and_backward(cotangents).unwrap();
                outputs(&case, both, held_delta(&case, Strategy::Streaming))
            });
            let found = oracle.compare(&found.unwrap());
            assert_eq!(found, [], "{case:?} on {threads}");
        }
    }
}

/// Tokens and columns of the case below.
const B: usize = 4;
const V: usize = 96;

/// With hidden states that are rows of the identity `dw` is delta, element by element. However large logits are and
/// whatever cancels at the label, each is off by two roundings to bf16 at most.
#[test]
fn delta_of_stored_exponentials_is_off_by_two_roundings() {
    let case = Case::new("exponentials", [B, B, V])
        .blocks([B, B, 16])
        .bf16();
    let case = case.options(Options {
        bias: true,
        ..Options::default()
    });
    let mut data = case.data();
    data.x = (0..B * B)
        .map(|i| f32::from(u8::from(i / B == i % B)))
        .collect();
    // The label all but certain; nearly even; larger from block to block, by more than f32 can hold the exponential of;
    // smaller. All of them exact in bf16.
    let logit = |i: usize, v: usize| match i {
        0 => 30.0 + (v % 7) as f32 + 12.0 * f32::from(u8::from(v == 50)),
        1 => -100.0 + (v % 5) as f32 * 0.5,
        2 => (v / 16) as f32 * 128.0 + (v % 3) as f32 * 4.0,
        _ => -((v / 16) as f32) * 128.0 - (v % 3) as f32 * 4.0,
    };
    data.w = (0..B * V).map(|at| logit(at / V, at % V)).collect();
    data.labels = vec![50, 3, 90, 20];
    // The first block is left out altogether.
    data.bias = (0..V)
        .map(|v| if v < 16 { f32::NEG_INFINITY } else { 0.0 })
        .collect();
    (data.d_loss, data.d_lse) = (vec![1.0; B], vec![0.0; B]);
    for place in [Place::InDw, Place::InDwByCores] {
        let on = OnCpu::best(2);
        let storing = Storing { on, place };
        assert_eq!(storing.skips(&case), None);
        let dw = storing.run(&case, *storing.like(), &data).unwrap().dw;
        check_delta(&dw, &data, &logit);
    }
}

/// Every element of delta, of which `dw` has the rows.
fn check_delta(dw: &[f32], data: &Data, logit: &dyn Fn(usize, usize) -> f32) {
    for i in 0..B {
        let z: Vec<f64> = (0..V)
            .map(|v| f64::from(logit(i, v) + data.bias[v]))
            .collect();
        let max = z.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let lse = max + z.iter().map(|z| (z - max).exp()).sum::<f64>().ln();
        for v in 0..V {
            let label = f64::from(u8::from(v == data.labels[i] as usize));
            let (delta, found) = ((z[v] - lse).exp() - label, f64::from(dw[i * V + v]));
            let allowed = 2.05 * bf16_unit() * delta.abs() + 1e-36;
            let error = (found - delta).abs();
            assert!(error <= allowed, "row {i}, column {v}: {found} for {delta}");
        }
    }
}
