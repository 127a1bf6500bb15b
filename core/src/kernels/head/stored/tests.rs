//! Where logits are stored, and how much of them.

use super::*;
use crate::kernels::head::HeadOptions;
use crate::program::LoopCounter;
use crate::spec::Affine;

fn head(dims: [usize; 3], dtype: DType) -> Head {
    Head::new(dims, dtype, None, HeadOptions::default()).unwrap()
}

#[test]
fn what_is_stored_keeps_to_its_bound_and_has_enough_rows() {
    let mut stored_some = 0;
    for tokens in [1, 15, 16, 333, 512, 1000, 1024, 4096] {
        for (hidden, vocab) in [(8, 50), (512, 9000), (1024, 32768), (2048, 128_256)] {
            for threads in [1, 2, 3, 16] {
                let (head, cache) = (
                    head([tokens, hidden, vocab], DType::F32),
                    Cache::of_two_megabytes(threads),
                );
                let Some(stored) = Stored::for_cache(&head, &cache) else {
                    continue;
                };
                stored_some += 1;
                let Blocks { b, h, v } = stored.blocks;
                let Kept::Rows { chunk_rows } = stored.kept else {
                    assert_eq!(stored.bytes(&head), 0);
                    continue;
                };
                let chunks = Chunks::of_rows(&head, stored.blocks, chunk_rows);
                let [rows, _] = ChunkArray::of_rows(&head, stored.blocks, chunks).dims;
                let of_thread = (chunks.blocks.div_ceil(threads) * b) as u128;
                let packed = (of_thread * (h + v) as u128 + (h * v) as u128) * 4;
                let bytes = stored.bytes(&head) + threads as u128 * packed;
                assert!(
                    bytes <= (threads * cache.stored_bytes) as u128,
                    "{stored:?}"
                );
                let enough = rows >= threads * least_rows(&cache);
                assert!(chunks.count == 1 || enough, "{stored:?}");
            }
        }
    }
    assert!(stored_some > 40, "{stored_some}");
}

#[test]
fn logits_are_stored_where_it_pays() {
    let stored = |dims, dtype, threads| {
        let found = Stored::for_cache(&head(dims, dtype), &Cache::of_two_megabytes(threads));
        found.map(|stored| stored.kept)
    };
    let f32 = |dims, threads| stored(dims, DType::F32, threads);
    let rows = |chunk_rows| Some(Kept::Rows { chunk_rows });
    assert_eq!(f32([2048, 1024, 32768], 1), rows(352));
    assert_eq!(f32([2048, 1024, 32768], 2), rows(704));
    let by_cores = |cores| Some(Kept::InDwByCores { cores });
    assert_eq!(f32([1024, 1024, 32768], 2), by_cores(2));
    assert_eq!(f32([2048, 512, 128_256], 2), by_cores(2), "of 512 rows");
    let large_dx = f32([4096, 4096, 32768], 2);
    assert!(
        matches!(large_dx, Some(Kept::InDw { .. })),
        "two sums of dx take 256 MiB: {large_dx:?}"
    );
    assert_eq!(
        f32([8192, 512, 128_256], 2),
        None,
        "of a sixteenth of the rows"
    );
    let bf16 = |tokens| stored([tokens, 64, 512], DType::Bf16, 1);
    assert_eq!(bf16(64), by_cores(1), "exponentials");
    assert_eq!(bf16(65), by_cores(1), "of 64 rows");
    assert_eq!(bf16(513), None, "of less than an eighth of the rows");
    let bf16 = |hidden| stored([2048, hidden, 128_256], DType::Bf16, 2);
    assert_eq!(bf16(1024), by_cores(2), "of 1024 rows");
    assert_eq!(bf16(512), by_cores(2), "of 512 rows, in blocks of as many");
    assert_eq!(bf16(31), None, "no block of 32 rows");
}

#[test]
fn what_is_stored_in_dw_is_what_delta_can_be_made_of() {
    let in_dw = |grad_dtype, delta_dtype, soft_cap| {
        let options = HeadOptions {
            delta_dtype: Some(delta_dtype),
            soft_cap,
            ..HeadOptions::default()
        };
        let head = Head::new([8, 16, 96], DType::Bf16, Some(grad_dtype), options);
        InDw::of(&head.unwrap())
    };
    for delta in [DType::F32, DType::Bf16] {
        assert_eq!(in_dw(DType::F32, delta, Some(6.0)), Some(InDw::Logits));
    }
    let exponentials = Some(InDw::Exponentials);
    assert_eq!(in_dw(DType::Bf16, DType::Bf16, None), exponentials);
    assert_eq!(
        in_dw(DType::Bf16, DType::Bf16, Some(6.0)),
        None,
        "its slope"
    );
    assert_eq!(in_dw(DType::Bf16, DType::F32, None), None, "delta is exact");
}

#[test]
fn whole_chunks_are_stored_in_dw() {
    for (vocab, chunk_columns, counts) in [
        (96, 32, [3, 0, 0]),
        (100, 32, [3, 0, 1]),
        (120, 32, [3, 1, 0]),
        (123, 32, [3, 1, 1]),
        (5, 8, [0, 0, 1]),
    ] {
        let head = head([8, 16, vocab], DType::F32);
        let blocks = Blocks { b: 8, h: 16, v: 8 };
        let parts = Chunks::of_columns_once(&head, blocks, chunk_columns);
        assert_eq!(parts.map(|chunks| chunks.count), counts, "{vocab}");
        let mut next = 0;
        for chunks in parts {
            for c in 0..chunks.count as i64 {
                let at = |index: Affine<LoopCounter>| index.evaluate(&|LoopCounter| c);
                assert_eq!([at(chunks.first()), at(chunks.covered())], [next, 0]);
                next += chunks.blocks as i64;
            }
        }
        assert_eq!(next, vocab.div_ceil(8) as i64);
    }
}

#[test]
fn what_cannot_be_is_named() {
    let message = |kept, dtype| {
        let stored = Stored {
            blocks: Blocks { b: 8, h: 8, v: 8 },
            kept,
            rows_per_sub_tile: 8,
            shared_sub_tiles: true,
        };
        let error = stored.check(&head([9, 7, 64], dtype)).unwrap_err();
        alloc::format!("{error}")
    };
    assert_eq!(
        message(Kept::Rows { chunk_rows: 0 }, DType::F32),
        "chunk rows is 0; block sizes, cores and chunks must be at least 1"
    );
    let in_dw = Kept::InDw {
        chunk_columns: 16,
        dx: None,
    };
    assert_eq!(
        message(in_dw, DType::F32),
        "dw of 7 rows in f32 has no place for the logits of a block of 8 tokens: take blocks of fewer tokens, or store logits beside it"
    );
}
