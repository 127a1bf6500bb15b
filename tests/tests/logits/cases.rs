//! Cases as data.

use tilecast::DType;
use tilecast::core::kernels::grpo::{self, Ratio, Variant};
use tilecast::core::kernels::logits_ce;
use tilecast::core::kernels::softmax::{Blocks, LogitsOptions};
use tilecast_tests::logits::{Case, Column, Op, ce_everything, policy_everything, warm};

use super::{assert_all, at, ce, policy};

#[test]
fn cross_entropy_one_option_at_a_time() {
    let ops = [
        ce(),
        logits_ce::Options {
            logits: warm(),
            ..ce()
        },
        logits_ce::Options {
            ignore_index: Some(-100),
            ..ce()
        },
        logits_ce::Options {
            ignore_index: Some(3),
            ..ce()
        },
        logits_ce::Options {
            label_smoothing: 0.1,
            ..ce()
        },
        logits_ce::Options {
            label_smoothing: 1.0,
            ..ce()
        },
        logits_ce::Options {
            z_loss: 0.05,
            ..ce()
        },
        ce_everything(),
    ];
    assert_all("cross-entropy", ops.map(Op::LogitsCe), |case| case);
}

#[test]
fn entropy_at_temperatures() {
    let temperatures = [0.1, 0.7, 1.0, 5.0];
    let ops = temperatures.map(|temperature| {
        Op::Entropy(LogitsOptions {
            temperature,
            ..LogitsOptions::default()
        })
    });
    assert_all("entropy", ops, |case| case);
}

#[test]
fn every_variant_of_the_policy_loss() {
    for variant in Variant::ALL {
        let everything = policy_everything(variant);
        let ops = [
            grpo::Options {
                variant,
                clip_high: everything.clip_high,
                ..policy()
            },
            everything,
            grpo::Options {
                ratio: Ratio::Sequence,
                ..everything
            },
            grpo::Options {
                per_token: true,
                ..everything
            },
            grpo::Options {
                old_logp: false,
                ..everything
            },
            grpo::Options {
                tokens_in_batch: Some(77.0),
                max_length: Some(9),
                ratio: Ratio::Sequence,
                clip_two_sided: None,
                ..everything
            },
        ];
        assert_all(variant.name(), ops.map(Op::Grpo), |case| case);
    }
}

/// The same arrays, whether one program computes them or two.
#[test]
fn both_passes_in_one_program() {
    for in_place in [false, true] {
        let logits = LogitsOptions { in_place, ..warm() };
        for op in at(logits) {
            let case = Case::new("both", op);
            let data = case.data();
            for column in Column::all() {
                let mut apart = column.run(&case, &data).unwrap();
                let mut at_once = column.run_at_once(&case, &data).unwrap();
                apart.sort_by_key(|(name, _)| *name);
                at_once.sort_by_key(|(name, _)| *name);
                assert_eq!(apart, at_once, "{op:?} on {column:?}");
            }
        }
    }
}

#[test]
fn gradients_in_place_and_in_f32() {
    let in_place = LogitsOptions {
        in_place: true,
        ..warm()
    };
    assert_all("in place", at(in_place), |case| case);
    let grad_f32 = LogitsOptions {
        grad_dtype: Some(DType::F32),
        ..warm()
    };
    assert_all("gradient in f32", at(grad_f32), |case| case);
}

/// Shapes and blocks in which something is one, or longer than the strips of the CPU backend.
#[test]
fn ragged_shapes() {
    for (shape, blocks) in [
        ([4, 50], [8, 16]),
        ([36, 1], [8, 16]),
        ([4, 1], [1, 1]),
        ([8, 32], [8, 32]),
        ([8, 37], [3, 5]),
        ([4, 3001], [4, 1100]),
        ([300, 130], [128, 128]),
        ([256, 384], [128, 128]),
        ([12, 257], [64, 256]),
    ] {
        assert_all("shape", at(warm()), |case| case.shape(shape, blocks));
    }
}

/// Blocks lower than the 128 tokens of a per-token vector.
#[test]
fn low_blocks_in_a_vector() {
    for b in [8, 16, 32, 64] {
        let blocks = Blocks {
            vector: 128,
            sub_tile: [8, 128],
            ..Blocks::new(b, 128)
        };
        assert_all("low blocks", at(warm()), |case| Case {
            shape: [256, 300],
            blocks: Some(blocks),
            ..case
        });
    }
}

#[test]
fn blocks_of_this_machine_and_large_logits() {
    assert_all("default", at(warm()), |case| Case {
        blocks: None,
        shape: [20, 5000],
        ..case
    });
    assert_all("large logits", at(warm()), |case| Case {
        logit_scale: 60.0,
        ..case
    });
    assert_all("small logits", at(warm()), |case| Case {
        logit_scale: 1e-3,
        ..case
    });
}
