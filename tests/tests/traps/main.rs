//! Known bugs of published fused cross-entropy kernels, each as a named test.
//!
//! They come from public issue trackers and sources of levanter, tokamax, MaxText, Liger,
//! MLLM-JAX and verl. Of the bugs seen there, three cannot occur here: a temperature applied to log
//! probabilities (the op has none), a score of block sizes by compile time (that is `tune`), and a
//! gather that the TPU compiler does not take (no primitive gathers).

mod edges;
mod gradients;
mod rounding;

use tilecast::Strategy;
use tilecast_tests::{Case, Data, Oracle, Outputs, columns};

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
