//! Every case on every column with both strategies; memory layouts; determinism.

use half::bf16;
use tilecast::core::kernels::linear_ce::reference;
use tilecast::cpu::simd::{Arithmetic, Simd};
use tilecast::{
    ArrayMut, Blocks, Cotangents, Cpu, DType, GradientsMut, Lazy, Matrix, Options, ProductBlocks,
    Reduction, Schedule, Split, Strategy, Structure, linear_ce,
};
use tilecast_tests::backend::{held_delta, with_op, with_options};
use tilecast_tests::case::everything;
use tilecast_tests::{Backend, Case, Data, OnCpu, Oracle, Outputs, assert_case, columns};

/// One test for each case, named like it; [`all`] lists them.
macro_rules! cases {
    ($($name:ident: $case:expr;)*) => {
        $(#[test]
        fn $name() {
            let case: Case = $case;
            assert_case(&Case { name: stringify!($name), ..case });
        })*

        fn all() -> Vec<Case> {
            vec![$({ let case: Case = $case; Case { name: stringify!($name), ..case } }),*]
        }
    };
}

/// A ragged shape in blocks that divide none of its sizes.
fn ragged() -> Case {
    Case::new("", [37, 24, 50]).blocks([8, 10, 16])
}

/// No more than rows of `dw`, which has a place for something of each logit then.
fn few_tokens() -> Case {
    Case::new("", [21, 24, 100]).blocks([8, 10, 16])
}

/// Ragged, too, in blocks of 128: three row blocks on two cores, two hidden and three column blocks.
fn tpu_blocks() -> Case {
    Case::new("", [300, 140, 301]).blocks([128, 128, 128])
}

/// All hidden in a block, whose sub-tiles of so many rows share their memory.
fn shared(rows: usize) -> Case {
    let case = Case::new("", [21, 24, 100]).blocks([8, 24, 16]);
    case.edit_schedule(|s| (s.rows_per_sub_tile, s.shared_sub_tiles) = (rows, true))
}

fn by_columns(schedule: &mut Schedule) {
    let Blocks { b, h, .. } = schedule.backward;
    let (b, h) = (b / 2, h.div_ceil(2));
    (schedule.split, schedule.delta_split) = (Split::Columns, Split::Columns);
    schedule.dx = Some(ProductBlocks { b, h });
}

/// Blocks that products read are of two that delta is made in, and the last chunk overlaps.
fn narrow_delta() -> Case {
    let case = Case::new("", [21, 24, 41]).blocks([8, 24, 6]);
    case.edit_schedule(|s| (s.delta_columns, s.chunk_columns) = (Some(3), 24))
}

/// Fewer rows of `dx` than of delta, and more of `dw`, more than delta has in some cases.
fn of_their_own(schedule: &mut Schedule) {
    let Blocks { b, h, .. } = schedule.backward;
    schedule.dx = Some(ProductBlocks { b: b - 1, h });
    schedule.dw = Some(ProductBlocks {
        b: 2 * b + 1,
        h: h.div_ceil(2),
    });
}

/// Two cores, each with half of the columns and a sum of `dx`.
fn cores_by_columns(schedule: &mut Schedule) {
    (schedule.cores, schedule.cores_split) = (2, Split::Columns);
}

fn in_turn(schedule: &mut Schedule) {
    schedule.structure = Structure::InTurn;
}

fn lazy(columns: usize) -> Option<Lazy> {
    Some(Lazy {
        columns,
        keeps_logits: false,
        exact_rows: 0,
        stores_labels: false,
    })
}

/// The same, with logits of labels that are stored.
fn lazy_and_stored(columns: usize) -> Option<Lazy> {
    lazy(columns).map(|lazy| Lazy {
        stores_labels: true,
        ..lazy
    })
}

/// The same, but for the last rows of each sub-tile.
fn partly_lazy(columns: usize, exact_rows: usize) -> Option<Lazy> {
    lazy_and_stored(columns).map(|lazy| Lazy { exact_rows, ..lazy })
}

fn lazy_and_kept(columns: usize) -> Option<Lazy> {
    Some(Lazy {
        columns,
        keeps_logits: true,
        exact_rows: 0,
        stores_labels: false,
    })
}

fn soft_cap() -> Options {
    Options {
        soft_cap: Some(4.0),
        ..Options::default()
    }
}

fn z_loss() -> Options {
    Options {
        z_loss: 0.05,
        ..Options::default()
    }
}

fn weight() -> Options {
    Options {
        weight: true,
        ..Options::default()
    }
}

fn ignore(index: i32) -> Options {
    Options {
        ignore_index: Some(index),
        ..Options::default()
    }
}

fn bias() -> Options {
    Options {
        bias: true,
        ..Options::default()
    }
}

fn smoothing(label_smoothing: f32) -> Options {
    Options {
        label_smoothing,
        ..Options::default()
    }
}

fn delta_f32() -> Options {
    Options {
        delta_dtype: Some(DType::F32),
        ..Options::default()
    }
}

fn grad_f32() -> Options {
    Options {
        grad_dtype: Some(DType::F32),
        ..Options::default()
    }
}

cases! {
    plain_f32: ragged();
    plain_bf16: ragged().bf16();
    blocks_divide_f32: Case::new("", [32, 48, 64]).blocks([16, 16, 32]);
    blocks_divide_bf16: Case::new("", [32, 48, 64]).blocks([16, 16, 32]).bf16();

    soft_cap_f32: ragged().options(soft_cap()).logit_scale(5.0);
    soft_cap_bf16: ragged().options(soft_cap()).logit_scale(5.0).bf16();
    z_loss_f32: ragged().options(z_loss());
    z_loss_bf16: ragged().options(z_loss()).bf16();
    weight_f32: ragged().options(weight());
    weight_bf16: ragged().options(weight()).bf16();
    ignore_index_f32: ragged().options(ignore(-100));
    ignore_index_bf16: ragged().options(ignore(-100)).bf16();
    ignore_index_inside_the_vocabulary: ragged().options(ignore(3));
    bias_f32: ragged().options(bias());
    bias_bf16: ragged().options(bias()).bf16();
    smoothing_f32: ragged().options(smoothing(0.1));
    smoothing_bf16: ragged().options(smoothing(0.1)).bf16();
    smoothing_is_everything: ragged().options(smoothing(1.0));
    everything_f32: ragged().options(everything());
    everything_bf16: ragged().options(everything()).bf16();

    sum_f32: ragged().reduction(Reduction::Sum);
    mean_f32: ragged().reduction(Reduction::Mean);
    mean_bf16: ragged().reduction(Reduction::Mean).bf16();
    sum_of_everything: ragged().options(everything()).reduction(Reduction::Sum);
    mean_of_everything: ragged().options(everything()).reduction(Reduction::Mean);
    mean_over_tokens_that_count: ragged().options(ignore(-100)).reduction(Reduction::Mean);
    mean_over_weights: ragged().options(weight()).reduction(Reduction::Mean);

    delta_in_f32: ragged().bf16().options(delta_f32());
    delta_in_bf16_beside_f32: ragged().options(Options {
        delta_dtype: Some(DType::Bf16),
        ..everything()
    });
    delta_in_f32_with_everything: ragged().bf16().options(Options {
        delta_dtype: Some(DType::F32),
        ..everything()
    });
    few_tokens_bf16: few_tokens().bf16();
    few_tokens_with_delta_in_f32: few_tokens().bf16().options(delta_f32());
    few_tokens_and_all_but_a_cap: few_tokens().bf16().options(Options {
        soft_cap: None,
        ..everything()
    });
    gradients_in_f32_of_bf16_inputs: ragged().bf16().options(grad_f32());
    gradients_in_f32_of_bf16_inputs_with_everything: ragged().bf16().options(Options {
        grad_dtype: Some(DType::F32),
        ..everything()
    });

    one_token: Case::new("", [1, 24, 50]).blocks([8, 10, 16]).options(everything());
    one_hidden: Case::new("", [37, 1, 50]).blocks([8, 10, 16]).options(everything());
    one_word: Case::new("", [37, 24, 1]).blocks([8, 10, 16]);
    one_word_with_everything: Case::new("", [37, 24, 1]).blocks([8, 10, 16]).options(everything());
    one_of_all: Case::new("", [1, 1, 1]).blocks([1, 1, 1]).options(everything());
    one_of_all_bf16: Case::new("", [1, 1, 1]).blocks([4, 4, 4]).options(everything()).bf16();

    one_block: Case::new("", [8, 10, 16]).blocks([8, 10, 16]).options(everything());
    one_block_that_overhangs: Case::new("", [7, 9, 13]).blocks([16, 16, 32]).options(everything());
    one_block_far_too_large: Case::new("", [3, 2, 5]).blocks([130, 70, 200]).options(everything());
    two_hidden_blocks: Case::new("", [9, 20, 21]).blocks([4, 10, 8]);
    three_hidden_blocks: Case::new("", [9, 30, 21]).blocks([4, 10, 8]);
    many_blocks: Case::new("", [23, 17, 41]).blocks([3, 2, 4]).options(everything());
    many_blocks_bf16: Case::new("", [23, 17, 41]).blocks([3, 2, 4]).options(everything()).bf16();
    blocks_of_one: Case::new("", [5, 6, 7]).blocks([1, 1, 1]).options(everything());

    sub_tiles_of_one_row: ragged().edit_schedule(|s| s.rows_per_sub_tile = 1);
    sub_tiles_that_do_not_divide: ragged().options(everything())
        .edit_schedule(|s| s.rows_per_sub_tile = 3);
    sub_tiles_larger_than_the_block: ragged().edit_schedule(|s| s.rows_per_sub_tile = 100);
    shared_sub_tiles: shared(3);
    shared_sub_tiles_that_divide: shared(4).options(everything());
    shared_sub_tiles_bf16: shared(4).bf16();
    shared_sub_tiles_of_a_part_of_hidden: ragged().edit_schedule(|s| {
        (s.rows_per_sub_tile, s.shared_sub_tiles) = (2, true);
    });
    shared_columns: ragged().options(everything()).edit_schedule(by_columns);
    shared_columns_bf16: ragged().bf16().edit_schedule(by_columns);
    shared_columns_few_tokens: few_tokens().options(everything()).edit_schedule(by_columns);
    shared_columns_few_tokens_bf16: few_tokens().bf16().edit_schedule(by_columns);
    shared_columns_in_shared_sub_tiles: shared(4).bf16().edit_schedule(by_columns);
    shared_columns_of_one_token: Case::new("", [1, 24, 50]).blocks([8, 10, 16])
        .options(everything()).edit_schedule(by_columns);
    shared_columns_of_large_logits: ragged().logit_scale(60.0).edit_schedule(by_columns);
    products_in_blocks_of_their_own: ragged().options(everything()).edit_schedule(of_their_own);
    products_in_blocks_of_their_own_bf16: ragged().bf16().edit_schedule(of_their_own);
    products_in_large_blocks: few_tokens().options(everything()).edit_schedule(of_their_own);
    dw_in_several_products: ragged().options(everything()).edit_schedule(|s| s.dw_rows = Some(3));
    dw_in_several_products_bf16: ragged().bf16().edit_schedule(|s| s.dw_rows = Some(4));
    products_of_shared_columns: ragged().edit_schedule(|s| {
        by_columns(s);
        s.dw = Some(ProductBlocks { b: 9, h: 3 });
    });
    delta_in_narrow_blocks: narrow_delta().options(everything());
    delta_in_narrow_blocks_bf16: narrow_delta().bf16();
    one_chunk: ragged().options(everything()).edit_schedule(|s| s.chunk_columns = 50);
    a_chunk_for_each_block: ragged().edit_schedule(|s| s.chunk_columns = 1);
    last_chunk_overlaps: Case::new("", [11, 8, 33]).blocks([4, 8, 5]).options(everything())
        .edit_schedule(|s| s.chunk_columns = 20);
    last_chunk_overlaps_bf16: Case::new("", [11, 8, 33]).blocks([4, 8, 5]).options(everything())
        .bf16().edit_schedule(|s| s.chunk_columns = 20);
    one_core: ragged().edit_schedule(|s| s.cores = 1);
    last_core_has_fewer_rows: Case::new("", [28, 12, 20]).blocks([4, 8, 8]).options(everything())
        .edit_schedule(|s| s.cores = 3);
    more_cores_than_rows: Case::new("", [10, 12, 20]).blocks([4, 8, 8]).options(everything())
        .edit_schedule(|s| s.cores = 64);
    other_blocks_backward: ragged().options(everything())
        .edit_schedule(|s| s.backward = Blocks { b: 5, h: 7, v: 9 });

    // Exponentials that do not wait for the maximum of their row.
    lazily_f32: ragged().edit_schedule(|s| s.lazy = lazy(4));
    lazily_bf16: ragged().bf16().edit_schedule(|s| s.lazy = lazy(8));
    lazily_with_everything: ragged().options(everything())
        .edit_schedule(|s| s.lazy = lazy(5));
    lazily_in_one_sub_tile: ragged().edit_schedule(|s| s.lazy = lazy(100));
    lazily_with_stored_labels: ragged().options(everything())
        .edit_schedule(|s| s.lazy = lazy_and_stored(4));
    partly_lazily_f32: ragged().edit_schedule(|s| s.lazy = partly_lazy(4, 1));
    partly_lazily_bf16: ragged().bf16().edit_schedule(|s| s.lazy = partly_lazy(8, 2));
    partly_lazily_with_everything: ragged().options(everything())
        .edit_schedule(|s| s.lazy = partly_lazy(5, 3));
    partly_lazily_and_large_logits: ragged().logit_scale(40.0)
        .edit_schedule(|s| s.lazy = partly_lazy(1, 1));
    lazily_but_for_all_rows: ragged().edit_schedule(|s| s.lazy = partly_lazy(4, 100));
    lazily_and_large_logits: ragged().logit_scale(40.0)
        .edit_schedule(|s| s.lazy = lazy(1));
    lazily_and_large_logits_kept: ragged().logit_scale(40.0)
        .edit_schedule(|s| s.lazy = lazy_and_kept(1));

    // One thing at a time, as published kernels do.
    cores_share_columns_f32: Case::new("", [13, 12, 20]).blocks([4, 8, 10]).options(everything()).edit_schedule(cores_by_columns);
    cores_share_columns_bf16: Case::new("", [13, 12, 20]).blocks([4, 8, 5]).bf16().edit_schedule(cores_by_columns);
    in_turn_f32: ragged().edit_schedule(in_turn);
    in_turn_bf16: ragged().bf16().edit_schedule(in_turn);
    in_turn_with_everything: ragged().options(everything()).edit_schedule(in_turn);
    in_turn_in_one_hidden_block: shared(4).options(everything()).edit_schedule(in_turn);
    in_turn_last_core_has_fewer_rows: Case::new("", [28, 12, 20]).blocks([4, 8, 8]).edit_schedule(|s| {
        s.cores = 3;
        in_turn(s);
    });

    // Longer than the strips and slices in which the CPU backend walks a block.
    wide_blocks: Case::new("", [6, 16, 2600]).blocks([4, 16, 1100]).options(everything());
    deep_blocks: Case::new("", [9, 1300, 40]).blocks([8, 1200, 24]);
    deep_blocks_bf16: Case::new("", [9, 1300, 40]).blocks([8, 1200, 24]).bf16();
    tall: Case::new("", [900, 5, 7]).blocks([64, 5, 7]);

    // Several blocks of the sizes a TPU takes, which the simulator raises smaller ones to.
    tpu_blocks_f32: tpu_blocks().options(everything());
    tpu_blocks_bf16: tpu_blocks().options(everything()).bf16();
    tpu_blocks_delta_in_f32: tpu_blocks().bf16().options(delta_f32());
    tpu_blocks_few_tokens_bf16: Case::new("", [121, 140, 301]).blocks([128, 128, 128]).bf16();
    tpu_blocks_gradients_in_f32: tpu_blocks().bf16().options(grad_f32());
    tpu_blocks_mean: tpu_blocks().options(everything()).reduction(Reduction::Mean);
    tpu_blocks_in_sub_tiles: tpu_blocks().options(everything()).edit_schedule(|s| {
        (s.forward.b, s.backward.b) = (256, 256);
        s.rows_per_sub_tile = 128;
    });
    tpu_blocks_shared_columns: tpu_blocks().options(everything()).edit_schedule(by_columns);
    tpu_blocks_of_their_own: tpu_blocks().options(everything()).edit_schedule(of_their_own);
    tpu_blocks_of_their_own_bf16: tpu_blocks().bf16().edit_schedule(|s| {
        of_their_own(s);
        s.dw_rows = Some(128);
    });
    tpu_blocks_of_narrow_delta: Case::new("", [150, 140, 501]).blocks([128, 128, 256])
        .options(everything()).edit_schedule(|s| {
            of_their_own(s);
            (s.delta_columns, s.chunk_columns) = (Some(128), 256);
        });
    tpu_blocks_x_in_one_buffer: Case::new("", [300, 140, 301]).blocks([128, 256, 128])
        .options(everything()).edit_schedule(|s| s.x_in_one_buffer = [true; 2]);
    tpu_blocks_cores_share_columns: Case::new("", [300, 140, 501]).blocks([128, 128, 128]).options(everything())
        .edit_schedule(cores_by_columns);
    tpu_blocks_in_turn: tpu_blocks().options(everything()).edit_schedule(in_turn);
    tpu_blocks_in_turn_bf16: tpu_blocks().bf16().edit_schedule(in_turn);
    tpu_blocks_in_turn_in_one_hidden_block: Case::new("", [300, 140, 301]).blocks([128, 256, 128])
        .edit_schedule(in_turn);
    tpu_blocks_lazily_f32: Case::new("", [150, 140, 501]).blocks([128, 128, 256])
        .options(everything()).edit_schedule(|s| s.lazy = lazy(128));
    tpu_blocks_lazily_bf16: Case::new("", [128, 256, 512]).blocks([128, 128, 384]).bf16()
        .edit_schedule(|s| s.lazy = lazy(256));
    tpu_blocks_lazily_with_stored_labels: Case::new("", [150, 140, 501]).blocks([256, 128, 256])
        .options(everything()).edit_schedule(|s| s.lazy = lazy_and_stored(128));
    tpu_blocks_partly_lazily_f32: Case::new("", [150, 140, 501]).blocks([256, 128, 256])
        .options(everything()).edit_schedule(|s| s.lazy = partly_lazy(128, 128));
    tpu_blocks_partly_lazily_bf16: Case::new("", [256, 128, 512]).blocks([256, 128, 384]).bf16()
        .edit_schedule(|s| s.lazy = partly_lazy(256, 128));
    tpu_blocks_partly_lazily_and_large_logits: Case::new("", [150, 140, 501]).blocks([256, 256, 256])
        .logit_scale(40.0).edit_schedule(|s| s.lazy = partly_lazy(128, 128));
    tpu_blocks_lazily_kept: Case::new("", [150, 140, 501]).blocks([128, 256, 256])
        .options(everything()).edit_schedule(|s| s.lazy = lazy_and_kept(128));
    tpu_blocks_divide_everything: Case::new("", [256, 256, 384]).blocks([128, 128, 128]).bf16();

    large_logits_f32: ragged().logit_scale(60.0);
    large_logits_bf16: ragged().logit_scale(60.0).bf16();
    small_logits_bf16: ragged().logit_scale(1e-3).bf16();
    default_schedule_f32: Case::new("", [70, 65, 130]).options(everything());
    default_schedule_bf16: Case::new("", [70, 65, 130]).options(everything()).bf16();
}

#[test]
fn names_are_unique_and_skips_have_reasons() {
    let cases = all();
    let mut names: Vec<_> = cases.iter().map(|case| case.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), cases.len());
    let mut columns = columns();
    let reasons = |column: &dyn Backend| -> Vec<&'static str> {
        cases.iter().filter_map(|case| column.skips(case)).collect()
    };
    for column in &columns {
        assert!(reasons(column.as_ref()).iter().all(|r| !r.is_empty()));
    }
    columns.retain(|column| reasons(column.as_ref()).is_empty());
    let names: Vec<_> = columns.iter().map(|column| column.name()).collect();
    for always in [
        "rounding",
        "simulated",
        "cpu-portable-1-threads",
        "cpu-portable-3-threads",
    ] {
        assert!(names.iter().any(|name| name == always), "{names:?}");
    }
}

/// The reference is the one thing that nothing else in the suite checks.
#[test]
fn the_reference_agrees_with_finite_differences() {
    for reduction in [Reduction::None, Reduction::Sum, Reduction::Mean] {
        let case = Case::new("finite differences", [5, 3, 6])
            .options(everything())
            .reduction(reduction);
        let (problem, data) = (case.problem(), case.data());
        let inputs = data.reference_inputs();
        let d_loss: Vec<f64> = data.d_loss.iter().map(|&d| d.into()).collect();
        let d_lse: Vec<f64> = data.d_lse.iter().map(|&d| d.into()).collect();
        let value = |inputs: &reference::Inputs| -> f64 {
            let forward = reference::forward(&problem, inputs);
            let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            dot(&forward.loss, &d_loss) + dot(&forward.lse, &d_lse)
        };
        let gradients = reference::backward(&problem, &inputs, &d_loss, &d_lse);
        type Field = fn(&mut reference::Inputs) -> &mut Vec<f64>;
        let fields: [(&str, Field, &[f64]); 3] = [
            ("x", |inputs| &mut inputs.x, &gradients.dx),
            ("w", |inputs| &mut inputs.w, &gradients.dw),
            ("bias", |inputs| &mut inputs.bias, &gradients.dbias),
        ];
        for (name, field, gradient) in fields {
            for (i, &expected) in gradient.iter().enumerate() {
                let step = 1e-5;
                let at = |step: f64| {
                    let mut moved = inputs.clone();
                    field(&mut moved)[i] += step;
                    value(&moved)
                };
                let difference = (at(step) - at(-step)) / (2.0 * step);
                // Central differences: error step^2 f''' / 6, and the roundoff of f over the step.
                assert!(
                    (difference - expected).abs() < 1e-8,
                    "{reduction:?}: d{name}[{i}] is {expected}, differences say {difference}"
                );
            }
        }
    }
}

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

#[test]
fn split_products_are_those_of_f32_to_rounding() {
    let [b, h, v] = [40, 70, 90];
    let number = |i: usize| bf16::from_f32(((i * 7919 % 2003) as f32 / 1001.5 - 1.0) * 0.7);
    let x: Vec<bf16> = (0..b * h).map(number).collect();
    let w: Vec<bf16> = (0..h * v).map(|i| number(i + 17)).collect();
    let labels: Vec<i32> = (0..b).map(|i| (i * 31 % v) as i32).collect();
    let gradients = |cpu: Cpu| {
        let x = Matrix::new(&x[..], b, h).unwrap();
        let loss = linear_ce(x, Matrix::new(&w[..], h, v).unwrap(), &labels);
        let loss = loss.grad_dtype(DType::F32).on(cpu);
        let lse = loss.forward().unwrap().lse;
        let gradients = loss.backward(&lse, Cotangents::ones()).unwrap();
        [gradients.dx.to_f32(), gradients.dw.to_f32()]
    };
    for simd in Simd::available() {
        let cpu = || Cpu::new().simd(simd);
        let in_f32 = gradients(cpu().arithmetic(Arithmetic::F32));
        let split = gradients(cpu().arithmetic(Arithmetic::Split));
        let has_pairs = simd.supports(Arithmetic::Split);
        assert_eq!(in_f32 != split, has_pairs, "{simd}");
        for (in_f32, split) in in_f32.iter().zip(&split) {
            let largest = in_f32
                .iter()
                .fold(0.0_f32, |largest, x| largest.max(x.abs()));
            let errors = in_f32
                .iter()
                .zip(split)
                .map(|(in_f32, split)| (in_f32 - split).abs());
            // No more terms than 90, none larger than the largest sum, and three parts of each.
            let error = errors.fold(0.0, f32::max);
            let bound = 3.0 * 90.0 * f32::EPSILON * largest;
            assert!(error <= bound, "{simd}: {error} of {largest}");
        }
    }
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

/// What is promised in round numbers, at a size where sums are long: f32 inputs give loss and
/// logsumexp to 2e-6 and gradients to 1e-5 of the largest entry.
#[test]
fn the_promised_accuracy_holds_at_length() {
    let case = Case::new("long", [48, 384, 3000]);
    let data = case.data();
    let oracle = Oracle::new(&case, &data);
    let largest = |values: &[f64]| values.iter().fold(0.0_f64, |a, b| a.max(b.abs()));
    for strategy in Strategy::ALL {
        let outputs = OnCpu::best(2).run(&case, strategy, &data).unwrap();
        let (forward, backward) = (&oracle.forward, &oracle.backward);
        for (name, got, expected) in [
            ("loss", &outputs.loss, &forward.loss),
            ("lse", &outputs.lse, &forward.lse),
        ] {
            for (got, expected) in got.iter().zip(expected) {
                let relative = (f64::from(*got) / expected - 1.0).abs();
                assert!(relative < 2e-6, "{name}: {relative:.1e}");
            }
        }
        for (name, got, expected) in [
            ("dx", &outputs.dx, &backward.dx),
            ("dw", &outputs.dw, &backward.dw),
        ] {
            let allowed = 1e-5 * largest(expected);
            for (got, expected) in got.iter().zip(expected) {
                let difference = (f64::from(*got) - expected).abs();
                assert!(
                    difference < allowed,
                    "{name}: {difference:.1e} of {allowed:.1e}"
                );
            }
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
