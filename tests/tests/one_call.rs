//! Both passes in one call: the numbers do not depend on threads, and are right whether logits are stored or not. Every
//! case of the suite runs with stored logits as well: they are columns of it.

use tilecast::{Cotangents, DType, Reduction, Strategy};
use tilecast_tests::backend::{outputs, with_op};
use tilecast_tests::case::everything;
use tilecast_tests::{Backend, Case, OnCpu, Oracle, Storing};

#[test]
fn stored_logits_give_the_same_bits_on_any_number_of_threads() {
    let ragged = Case::new("ragged", [37, 24, 50]).blocks([8, 10, 16]);
    let ragged = ragged.options(everything());
    let many_chunks = Case::new("many chunks", [97, 12, 30]).blocks([4, 12, 8]);
    let few = Case::new("few tokens", [13, 24, 50]).blocks([8, 10, 16]);
    let mut stored = 0;
    for case in [ragged.clone(), ragged.bf16(), many_chunks, few] {
        let data = case.data();
        for in_dw in [false, true] {
            let storing = |threads| Storing {
                on: OnCpu::best(threads),
                in_dw,
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
    assert_eq!(stored, 5, "all beside dw, and the last one in it");
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
                outputs(&case, both, DType::F32)
            });
            let found = oracle.compare(&found.unwrap());
            assert_eq!(found, [], "{case:?} on {threads}");
        }
    }
}
