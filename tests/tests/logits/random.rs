//! Random cases.

use proptest::prelude::*;
use tilecast::DType;
use tilecast::core::kernels::grpo::{self, Ratio, Variant};
use tilecast::core::kernels::logits_ce;
use tilecast::core::kernels::softmax::LogitsOptions;
use tilecast_tests::logits::{Case, Column, Expected, Op, check, policy_everything};

use super::on_cpu;

fn logits_options() -> impl Strategy<Value = LogitsOptions> {
    (prop_oneof![Just(1.0), 0.3_f32..3.0], 0..3).prop_map(|(temperature, form)| LogitsOptions {
        temperature,
        grad_dtype: (form == 1).then_some(DType::F32),
        in_place: form == 2,
    })
}

fn any_ce() -> impl Strategy<Value = Op> {
    (
        logits_options(),
        prop::option::of(prop_oneof![Just(-100), Just(0)]),
        prop_oneof![Just(0.0), 0.01_f32..0.5, Just(1.0)],
        prop_oneof![Just(0.0), 1e-4_f32..0.1],
    )
        .prop_map(|(logits, ignore_index, label_smoothing, z_loss)| {
            Op::LogitsCe(logits_ce::Options {
                logits,
                ignore_index,
                label_smoothing,
                z_loss,
            })
        })
}

fn any_policy() -> impl Strategy<Value = Op> {
    (
        (logits_options(), prop::sample::select(&Variant::ALL[..])),
        any::<[bool; 4]>(),
        prop_oneof![Just(0.0), 0.01_f32..0.5],
        prop::option::of(Just(1.9_f32)),
        prop::option::of(prop::sample::select(vec![1, 2, 4])),
        (
            prop::option::of(5_usize..20),
            prop::option::of(1.0_f32..90.0),
        ),
    )
        .prop_map(
            |((logits, variant), flags, kl_beta, clip_two_sided, sequence_length, divisors)| {
                let [old_logp, mask, per_token, sequence] = flags;
                Op::Grpo(grpo::Options {
                    logits,
                    variant,
                    ratio: if sequence {
                        Ratio::Sequence
                    } else {
                        Ratio::Token
                    },
                    clip_two_sided,
                    kl_beta,
                    old_logp,
                    mask,
                    per_token,
                    sequence_length,
                    max_length: divisors.0,
                    tokens_in_batch: divisors.1,
                    ..policy_everything(variant)
                })
            },
        )
}

fn any_case() -> impl Strategy<Value = Case> {
    (
        prop_oneof![
            any_ce(),
            logits_options().prop_map(Op::Entropy),
            any_policy()
        ],
        (1..=30_usize, prop_oneof![1..=40_usize, 1..=2500_usize]),
        (1..=40_usize, prop_oneof![1..=40_usize, 1..=1500_usize]),
        (any::<bool>(), any::<bool>()),
        1..1000_u64,
        prop_oneof![3 => 0.5_f32..4.0, 1 => 10.0_f32..40.0],
    )
        .prop_map(
            |(op, (b, v), (block_b, block_v), (bf16, own), seed, logit_scale)| {
                // A multiple of every length of a sequence above.
                let case = Case::new("random", op).shape([4 * b, v], [block_b, block_v]);
                Case {
                    dtype: if bf16 { DType::Bf16 } else { DType::F32 },
                    blocks: if own { case.blocks } else { None },
                    seed,
                    logit_scale,
                    ..case
                }
            },
        )
        .prop_filter("a gradient in place has the type of the logits", |case| {
            let logits = match case.op {
                Op::LogitsCe(o) => o.logits,
                Op::Entropy(o) => o,
                Op::Grpo(o) => o.logits,
            };
            !logits.in_place || logits.grad_dtype.is_none()
        })
}

fn any_cpu() -> impl Strategy<Value = Column> {
    let columns: Vec<_> = on_cpu().collect();
    prop::sample::select(columns)
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(200)
    })]

    #[test]
    fn random_cases_give_the_reference_result(case in any_case(), column in any_cpu()) {
        let data = case.data();
        let expected = Expected::of(&case, &data);
        check(&case, &data, &expected, column).map_err(TestCaseError::fail)?;
    }

    /// A row with a NaN or an infinity is not finite where the reference is not; other rows are right.
    #[test]
    fn what_is_not_finite_stays_in_its_row(
        case in any_case(),
        column in any_cpu(),
        value in prop::sample::select(vec![f32::NAN, f32::INFINITY]),
        place in any::<prop::sample::Index>(),
    ) {
        // With a ratio per sequence, and in a sum, it spreads as it must.
        let local = match case.op {
            Op::Grpo(o) => o.ratio == Ratio::Token && o.per_token,
            _ => true,
        };
        prop_assume!(local);
        let mut data = case.data();
        let i = place.index(data.logits.len());
        data.logits[i] = value;
        let row = i / case.shape[1];
        let outputs = column.run(&case, &data).map_err(TestCaseError::fail)?;
        for expected in Expected::of(&case, &data) {
            let (_, got) = outputs.iter().find(|(name, _)| *name == expected.name).unwrap();
            let width = got.len() / case.shape[0];
            for (at, (got, want)) in got.iter().zip(&expected.values).enumerate() {
                prop_assert_eq!(got.is_finite(), want.is_finite(), "{}[{}]", expected.name, at);
                prop_assert!(got.is_finite() || at / width == row, "{}[{}]", expected.name, at);
            }
        }
    }
}
