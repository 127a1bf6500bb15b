//! Block sizes for a CPU, from its caches.

use super::blocks::{Blocks, ProductBlocks, Schedule, Split};
use super::{Head, Strategy};
use crate::DType;

/// What a CPU's caches and microkernels ask of block sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cache {
    /// Bytes of fast cache of one core.
    pub bytes: usize,
    /// Threads.
    pub threads: usize,
    /// Rows that the microkernel handles at once.
    pub row_multiple: usize,
    /// Columns that the microkernel handles at once.
    pub column_multiple: usize,
    /// Bytes of an f32 element of a packed operand, at most; one of bf16 may be widened to four.
    pub packed_f32_bytes: usize,
    /// Elements of packed rows of `x` a thread may hold; a block of `w` may have twice as many.
    pub panel_elements: usize,
    /// Bytes of delta a streaming backward may hold.
    pub chunk_bytes: usize,
    /// Bytes that a thread may hold for both passes in one: the logits that it stores, and its blocks.
    pub stored_bytes: usize,
    /// Operations of an f32 product in the time in which memory moves a byte.
    pub operations_per_byte: usize,
}

/// Rows of a block on a CPU, at most: from here on packing a column block is a thousandth of the work it serves.
const MOST_ROWS: usize = 1024;
/// Rows of a thread below which threads share columns: packing a column block would be more than a five-hundredth of
/// the work. Backward the rows of delta that a thread makes are those that it needs for `dx`, so that it takes fewer of
/// them to pay.
const FEW_ROWS: usize = 512;
const FEW_ROWS_BACKWARD: usize = 128;
/// Backward threads share columns also where `H` is so many times the rows of a thread: to pack delta that others made
/// is little then beside packing all of `w`. Two threads of a Xeon, 256 tokens in bf16: 0.84 of the speed with twice as
/// much `H`, 1.0 with eight times, 1.19 with sixteen times.
const HIDDEN_PER_ROW: usize = 8;
/// Columns of a block of the backward pass on a CPU, at most, if an element of a packed operand takes four bytes: the
/// depth of `dx`, whose sums pass through memory once per block of them.
const BACKWARD_COLUMNS: usize = 512;
/// Rows of such a block, at most, unless of more a block of delta is half of the cache.
const BACKWARD_ROWS: usize = 512;
/// Bytes of a row of a block of `w` on a CPU, at least: the next row lies in another page, and what is read of a page
/// at once must be worth finding it.
const ROW_BYTES: usize = 1024;
/// Rows of logits that are reduced at once on a CPU.
const ROWS_PER_SUB_TILE: usize = 256;

/// Bytes of an element that is as large as `f32`.
const WORD_BYTES: usize = DType::F32.size_bytes();

impl Cache {
    /// Bytes of an element of a packed operand, at most.
    pub fn packed_bytes(&self, dtype: DType) -> usize {
        match dtype {
            DType::F32 => self.packed_f32_bytes,
            _ => WORD_BYTES,
        }
    }
}

impl Schedule {
    /// Whole rows of `x` and whole columns of `w`: a block of `x` is packed once for all columns, a block of `w` once
    /// for as many rows as memory allows, and rows split evenly over the threads, or columns if rows are few. A block
    /// of `w` and one of logits take half of the cache each, or more if rows of `w` would be short; the logits are
    /// reduced in sub-tiles of rows while they are hot.
    pub fn for_cache(head: &Head, cache: &Cache) -> Self {
        let even = |size: usize, at_most: usize, multiple: usize| {
            let parts = size.div_ceil(at_most.max(1));
            size.div_ceil(parts).next_multiple_of(multiple)
        };
        let packed_bytes = cache.packed_bytes(head.dtype);
        let elements = |bytes: usize| bytes / packed_bytes;
        let h = head.hidden;
        let rows_of_thread = head.tokens.div_ceil(cache.threads);
        let share_if = |pays: bool| match cache.threads > 1 && pays {
            true => Split::Columns,
            false => Split::Rows,
        };
        let split = share_if(rows_of_thread < FEW_ROWS);
        let is_deep = h >= HIDDEN_PER_ROW * rows_of_thread;
        let backward_split = share_if(rows_of_thread < FEW_ROWS_BACKWARD || is_deep);
        let rows = |split| match split {
            Split::Rows => rows_of_thread,
            Split::Columns => head.tokens,
        };
        let block = |rows: usize, most_rows: usize, most_columns: usize| {
            let most_rows = most_rows.min(cache.panel_elements / h);
            let b = even(rows, most_rows, cache.row_multiple);
            let most_columns = most_columns / cache.column_multiple * cache.column_multiple;
            let most_columns = most_columns.max(cache.column_multiple);
            let v = even(head.vocab, most_columns, cache.column_multiple);
            Blocks { b, h, v }
        };
        let in_cache = |b: usize| elements(cache.bytes / 2) / b.max(h);
        let page_worth = ROW_BYTES / head.dtype.size_bytes();
        let page_worth = page_worth.min(2 * cache.panel_elements / h);
        let most_columns = in_cache(rows(split).min(MOST_ROWS)).max(page_worth);
        let forward = block(rows(split), MOST_ROWS, most_columns);
        let most_columns = in_cache(h)
            .max(cache.panel_elements / h)
            .min(elements(BACKWARD_COLUMNS * WORD_BYTES));
        let delta_row_bytes = BACKWARD_COLUMNS * head.delta_dtype().size_bytes();
        let most_rows = (cache.bytes / 2 / delta_row_bytes).clamp(BACKWARD_ROWS, MOST_ROWS);
        let backward = block(rows(backward_split), most_rows, most_columns);
        let row_bytes = backward.whole(head)[0] * head.delta_dtype().size_bytes();
        Self {
            forward,
            chunk_columns: (cache.chunk_bytes / row_bytes).max(backward.v),
            cores: cache.threads,
            rows_per_sub_tile: even(forward.b, ROWS_PER_SUB_TILE, cache.row_multiple),
            shared_sub_tiles: true,
            split,
            delta_split: backward_split,
            dx: match backward_split {
                Split::Rows => None,
                Split::Columns => Some(ProductBlocks::for_cache(head, cache, backward)),
            },
            ..Schedule::plain(backward, Strategy::Streaming)
        }
    }
}

impl ProductBlocks {
    /// For every thread to have one. Of fewer rows in f32: part of the columns of a block rarely are a multiple of what
    /// the microkernel takes, and a product of that type takes long beside packing `w` for each thread.
    fn for_cache(head: &Head, cache: &Cache, blocks: Blocks) -> Self {
        let Blocks { b, h, .. } = blocks;
        let parts = cache.threads.div_ceil(head.tokens.div_ceil(b));
        if head.dtype == DType::F32 && b.is_multiple_of(parts * cache.row_multiple) {
            return Self { b: b / parts, h };
        }
        let part = h.div_ceil(parts).next_multiple_of(cache.column_multiple);
        Self { b, h: part.min(h) }
    }
}

#[cfg(test)]
impl Cache {
    /// One for tests, of AVX-512.
    pub(super) fn of_two_megabytes(threads: usize) -> Self {
        Self {
            bytes: 2 << 20,
            threads,
            row_multiple: 32,
            column_multiple: 96,
            packed_f32_bytes: 4,
            panel_elements: 1 << 20,
            chunk_bytes: threads * (8 << 20),
            stored_bytes: 48 << 20,
            operations_per_byte: 32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::head::HeadOptions;

    #[test]
    fn blocks_of_w_have_long_rows_and_keep_to_their_bound() {
        let cache = Cache::of_two_megabytes(2);
        for (hidden, long) in [(512, true), (2048, true), (4096, true), (16384, false)] {
            for dtype in [DType::F32, DType::Bf16] {
                let head = Head::new([512, hidden, 128_256], dtype, None, HeadOptions::default());
                let v = Schedule::for_cache(&head.unwrap(), &cache).forward.v;
                assert_eq!(
                    v * dtype.size_bytes() > ROW_BYTES / 2,
                    long,
                    "{hidden}: {v}"
                );
                assert!(v * hidden <= 2 * cache.panel_elements, "{hidden}: {v}");
            }
        }
    }

    #[test]
    fn few_rows_are_shared_by_columns() {
        for threads in [1, 2, 3, 16] {
            for tokens in [1, 31, 64, 255, 256, 1023, 1024, 8192] {
                for (hidden, dtype) in [(512, DType::F32), (2048, DType::Bf16), (4096, DType::F32)]
                {
                    let dims = [tokens, hidden, 128_256];
                    let head = Head::new(dims, dtype, None, HeadOptions::default()).unwrap();
                    let schedule = Schedule::for_cache(&head, &Cache::of_two_megabytes(threads));
                    schedule.check().unwrap();
                    let given = Some(Blocks { b: 7, h: 5, v: 3 });
                    schedule.in_blocks(None, given).check().unwrap();
                    let of_thread = tokens.div_ceil(threads);
                    let forward = threads > 1 && of_thread < FEW_ROWS;
                    assert_eq!(schedule.split == Split::Columns, forward);
                    let backward =
                        of_thread < FEW_ROWS_BACKWARD || of_thread * HIDDEN_PER_ROW <= hidden;
                    assert_eq!(
                        schedule.delta_split == Split::Columns,
                        threads > 1 && backward
                    );
                    let Some(dx) = schedule.dx else { continue };
                    assert_eq!(schedule.delta_split, Split::Columns);
                    let blocks = tokens.div_ceil(dx.b) * hidden.div_ceil(dx.h);
                    // Rounded to whole panels of the microkernel.
                    let wanted = threads.min(hidden / 96);
                    assert!(2 * blocks >= wanted, "{threads} {tokens}: {dx:?}");
                }
            }
        }
    }
}
