//! Every case on every column with both strategies.

use tilecast::{
    Blocks, DType, Lazy, Options, ProductBlocks, Reduction, Schedule, Split, Structure,
};
use tilecast_tests::case::everything;
use tilecast_tests::{Backend, Case, assert_case, columns};

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
pub(crate) fn ragged() -> Case {
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

pub(crate) fn grad_f32() -> Options {
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
