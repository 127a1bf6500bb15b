//! Random shapes, blocks, options and schedules; what is not finite goes where it must.
//!
//! `PROPTEST_CASES` sets the number of cases.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tilecast::{
    Blocks, DType, Lazy, Options, ProductBlocks, Reduction, Schedule, Split, Strategy as Backward,
    Structure,
};
use tilecast_cpu::simd::Simd;
use tilecast_tests::{Backend, Case, Data, OnCpu, Oracle, Rounding};

/// Multiply-adds of one product, so that the f64 reference stays quick.
const MOST_WORK: usize = 400_000;
/// The same including the parts of blocks that overhang.
const MOST_PADDED_WORK: usize = 10_000_000;
/// Grid steps of one kernel.
const MOST_STEPS: usize = 3_000;

fn config(cases: u32) -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok())
        .unwrap_or(cases);
    ProptestConfig {
        // Bugs that were found stay as named cases of the suite.
        failure_persistence: None,
        ..ProptestConfig::with_cases(cases)
    }
}

/// 1 to 700, mostly small.
fn size() -> impl Strategy<Value = usize> + Clone {
    prop_oneof![4 => 1..=16_usize, 4 => 1..=100_usize, 2 => 1..=700_usize]
}

/// 1 to 800, mostly small.
fn block() -> impl Strategy<Value = usize> {
    prop_oneof![5 => 1..=32_usize, 3 => 1..=128_usize, 2 => 1..=800_usize]
}

fn options() -> impl Strategy<Value = Options> {
    (
        (
            prop::option::of(0.5_f32..20.0),
            prop_oneof![Just(0.0), 1e-4_f32..0.1],
            prop_oneof![3 => Just(0.0), 2 => 0.01_f32..0.5, 1 => Just(1.0)],
            prop::option::of(prop_oneof![Just(-100), Just(0)]),
        ),
        prop_oneof![
            Just(Reduction::None),
            Just(Reduction::Sum),
            Just(Reduction::Mean)
        ],
        any::<[bool; 3]>(),
    )
        .prop_map(
            |((soft_cap, z_loss, label_smoothing, ignore_index), reduction, flags)| Options {
                soft_cap,
                z_loss,
                label_smoothing,
                ignore_index,
                reduction,
                bias: flags[0],
                weight: flags[1],
                grad_dtype: flags[2].then_some(DType::F32),
                delta_dtype: None, // depends on the type of the inputs: set with the case
            },
        )
}

fn blocks_for([b, h, v]: [usize; 3]) -> impl Strategy<Value = Blocks> {
    [block(), block(), block()].prop_map(move |mut blocks| {
        let dims = [b, h, v];
        let counts = |blocks: [usize; 3]| -> [usize; 3] {
            std::array::from_fn(|i| dims[i].div_ceil(blocks[i]))
        };
        let padded = |blocks: [usize; 3]| -> usize {
            counts(blocks)
                .iter()
                .zip(blocks)
                .map(|(n, block)| n * block)
                .product()
        };
        while counts(blocks).iter().product::<usize>() > MOST_STEPS {
            let most = (0..3).max_by_key(|&i| counts(blocks)[i]).unwrap();
            blocks[most] *= 2;
        }
        while padded(blocks) > MOST_PADDED_WORK {
            let most = (0..3).max_by_key(|&i| blocks[i].div_ceil(dims[i])).unwrap();
            blocks[most] = blocks[most].div_ceil(2);
        }
        let [b, h, v] = blocks;
        Blocks { b, h, v }
    })
}

fn split(by_columns: bool) -> Split {
    match by_columns {
        true => Split::Columns,
        false => Split::Rows,
    }
}

/// Of how many times as many rows as others have, or as few.
fn own_blocks() -> impl Strategy<Value = Option<(usize, bool, usize)>> {
    proptest::option::of((1..=4_usize, any::<bool>(), block()))
}

fn product((factor, more, h): (usize, bool, usize), Blocks { b, .. }: Blocks) -> ProductBlocks {
    ProductBlocks {
        b: if more { b * factor } else { b.div_ceil(factor) },
        h,
    }
}

fn schedule(shape: [usize; 3]) -> impl Strategy<Value = Schedule> {
    (
        blocks_for(shape),
        blocks_for(shape),
        1..=900_usize,
        1..=5_usize,
        block(),
        any::<bool>(),
        any::<bool>(),
        [any::<bool>(), any::<bool>(), any::<bool>()],
        [own_blocks(), own_blocks()],
        proptest::option::of((block(), any::<bool>(), 0..4_usize)),
    )
        .prop_map(
            |(
                forward,
                backward,
                chunk_columns,
                cores,
                rows_per_sub_tile,
                shared_sub_tiles,
                in_turn,
                by_columns,
                [dx, dw],
                lazy,
            )| Schedule {
                forward,
                chunk_columns,
                cores,
                rows_per_sub_tile,
                shared_sub_tiles,
                structure: match in_turn {
                    true => Structure::InTurn,
                    false => Structure::Overlapped,
                },
                split: split(by_columns[0]),
                delta_split: split(by_columns[1]),
                cores_split: split(by_columns[2]),
                dx: dx.map(|own| product(own, backward)),
                dw: dw.map(|own| product(own, backward)),
                lazy: lazy.map(|(columns, keeps_logits, exact_rows)| Lazy {
                    columns,
                    keeps_logits,
                    exact_rows,
                    stores_labels: columns % 2 == 1,
                }),
                ..Schedule::plain(backward, Backward::Streaming)
            },
        )
}

fn case(size: impl Strategy<Value = usize> + Clone) -> impl Strategy<Value = Case> {
    (
        [size.clone(), size.clone(), size],
        any::<bool>(),
        options(),
        1..1000_u64,
        prop_oneof![3 => 0.5_f32..4.0, 1 => 10.0_f32..40.0, 1 => Just(0.01_f32)],
    )
        .prop_map(|([b, h, v], bf16, options, seed, logit_scale)| {
            let h = h.min(MOST_WORK / b).max(1);
            let v = v.min(MOST_WORK / (b * h)).max(1);
            let options = Options {
                // The other type.
                delta_dtype: (seed % 2 == 0).then_some(if bf16 { DType::F32 } else { DType::Bf16 }),
                ..options
            };
            Case {
                dtype: if bf16 { DType::Bf16 } else { DType::F32 },
                seed,
                logit_scale,
                ..Case::new("random", [b, h, v]).options(options)
            }
        })
        .prop_flat_map(|case| {
            prop_oneof![
                1 => Just(None),
                9 => schedule(case.shape).prop_map(Some),
            ]
            .prop_map(move |schedule| Case {
                schedule,
                ..case.clone()
            })
        })
}

/// Any instruction set of this machine, on 1 to 4 threads.
fn cpu() -> impl Strategy<Value = OnCpu> {
    let levels: Vec<_> = Simd::available().map(Simd::level).collect();
    (prop::sample::select(levels), 1..=4_usize)
        .prop_map(|(level, threads)| OnCpu { level, threads })
}

fn strategy() -> impl Strategy<Value = Backward> {
    prop::sample::select(&Backward::ALL[..])
}

proptest! {
    #![proptest_config(config(200))]

    #[test]
    fn every_accepted_schedule_gives_the_reference_result(
        case in case(size()),
        cpu in cpu(),
    ) {
        let data = case.data();
        tilecast_tests::check_against(&Oracle::new(&case, &data), &case, &data, &cpu)
            .map_err(TestCaseError::fail)?;
    }
}

/// A number that is not finite, and where: in `x` or in `w`, at a share of its elements.
#[derive(Clone, Copy, Debug)]
struct Poison {
    value: f32,
    in_w: bool,
    place: prop::sample::Index,
}

fn poison() -> impl Strategy<Value = Vec<Poison>> {
    let value = prop::sample::select(vec![f32::NAN, f32::INFINITY, f32::NEG_INFINITY]);
    let one = (value, any::<bool>(), any::<prop::sample::Index>())
        .prop_map(|(value, in_w, place)| Poison { value, in_w, place });
    vec(one, 1..=3)
}

fn propagates(case: &Case, data: &Data, strategy: Backward, cpu: OnCpu) -> TestCaseResult {
    let got = cpu.run(case, strategy, data).map_err(TestCaseError::fail)?;
    let naive = Rounding
        .run(case, strategy, data)
        .map_err(TestCaseError::fail)?;
    for ((name, got), (_, naive)) in got.arrays().into_iter().zip(naive.arrays()) {
        prop_assert_eq!(got.len(), naive.len(), "{}", name);
        for (i, (got, naive)) in got.iter().zip(naive).enumerate() {
            prop_assert_eq!(
                got.is_finite(),
                naive.is_finite(),
                "{}[{}] is {}, evaluated one by one it is {}",
                name,
                i,
                got,
                naive
            );
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn what_is_not_finite_goes_where_a_naive_evaluation_puts_it(
        case in case(1..=20_usize),
        cpu in cpu(),
        strategy in strategy(),
        poison in poison(),
    ) {
        let mut data = case.data();
        for poison in poison {
            let array = if poison.in_w { &mut data.w } else { &mut data.x };
            let i = poison.place.index(array.len());
            array[i] = poison.value;
        }
        propagates(&case, &data, strategy, cpu)?;
    }
}

/// Every kind of value at every place of small inputs: the random test above meets few of them.
#[test]
fn one_number_that_is_not_finite_at_any_place() {
    let plain = Case::new("one number", [3, 3, 5]).blocks([2, 2, 4]);
    let capped = plain.clone().options(Options {
        soft_cap: Some(3.0),
        label_smoothing: 0.1,
        bias: true,
        ..Options::default()
    });
    for case in [plain.clone(), plain.bf16(), capped.clone(), capped.bf16()] {
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for place in 0..9 + 15 {
                let mut data = case.data();
                match place {
                    0..9 => data.x[place] = value,
                    _ => data.w[place - 9] = value,
                }
                for strategy in Backward::ALL {
                    for level in Simd::available().map(Simd::level) {
                        let cpu = OnCpu { level, threads: 1 };
                        propagates(&case, &data, strategy, cpu)
                            .unwrap_or_else(|error| panic!("{value} at {place}: {error}"));
                    }
                }
            }
        }
    }
}
