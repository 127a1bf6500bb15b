//! Arrays beyond the caches: reads that are asked for in time, writes that do not pass through the caches, and large
//! pages.
//!
//! A loop that does some arithmetic on each value waits for memory unless it asks ahead: a processor sees the next few
//! lines only, and its own prefetchers stop at the end of a page. Reading four places in turn keeps more of them at
//! work. And a plain store reads the line it overwrites, so that a map moves three bytes for two; a streaming store
//! does not.
//!
//! These are instructions of x86-64 itself, at every [`Level`](super::Level). Elsewhere, and under Miri, which knows
//! none of them, a prefetch does nothing and a streaming store is a plain one.

use bytemuck::{Pod, Zeroable};
use cfg_if::cfg_if;

/// A cache line. A streaming store fills one as a whole; panels start at one, so that no vector load crosses two.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
pub(crate) struct Line([u8; Line::BYTES]);

impl Line {
    pub(crate) const BYTES: usize = 64;

    /// `self = from`, past the caches. Seen by other threads after [`fence`].
    #[inline(always)]
    pub(super) fn stream(&mut self, from: &Self) {
        cfg_if! {
            if #[cfg(all(target_arch = "x86_64", not(miri)))] {
                use std::arch::x86_64::{__m128i, _mm_load_si128, _mm_stream_si128};
                const PART: usize = size_of::<__m128i>();
                for part in 0..Self::BYTES / PART {
                    let (to, from) = (self.0[part * PART..].as_mut_ptr(), from.0[part * PART..].as_ptr());
                    // SAFETY: SSE2 is part of x86-64; both are aligned, as lines are, and lie within them.
                    unsafe { _mm_stream_si128(to.cast(), _mm_load_si128(from.cast())) }
                }
            } else {
                *self = *from;
            }
        }
    }
}

/// Makes streamed lines visible to whoever sees what this thread does next. Nothing else orders them, not even the
/// release of a lock.
#[inline(always)]
pub(super) fn fence() {
    cfg_if! {
        if #[cfg(all(target_arch = "x86_64", not(miri)))] {
            // SAFETY: SSE is part of x86-64.
            unsafe { std::arch::x86_64::_mm_sfence() }
        }
    }
}

/// So many zeros, of which none is written: the system makes pages resident as they are touched, large ones if it can,
/// by the threads that touch them. A `vec![zero; len]` of a type that the compiler does not know to be zero writes them
/// all.
pub fn untouched<T: Zeroable>(len: usize) -> Vec<T> {
    let mut memory = bytemuck::zeroed_vec(len);
    prefer_large_pages(&mut memory);
    memory
}

/// Asks the system to back memory that has not been touched with large pages: a new array of a gigabyte is otherwise a
/// quarter of a million page faults, which take several times as long as filling it. A hint: small memory, and systems
/// that know no such request, are left alone.
fn prefer_large_pages<T>(memory: &mut [T]) {
    /// A large page, and two, so that one lies inside.
    const LEAST_BYTES: usize = 2 * (2 << 20);
    if size_of_val(memory) < LEAST_BYTES {
        return;
    }
    cfg_if! {
        if #[cfg(target_os = "linux")] {
            // Beyond the size of a page on any machine.
            const PAGE: usize = 64 << 10;
            let range = memory.as_mut_ptr_range();
            let start = range.start.addr().next_multiple_of(PAGE);
            let bytes = (range.end.addr() - start) / PAGE * PAGE;
            let start = range.start.with_addr(start);
            // SAFETY: the pages lie within memory that is borrowed here, and the advice changes nothing that it holds.
            // A refusal changes nothing at all.
            unsafe { libc::madvise(start.cast(), bytes, libc::MADV_HUGEPAGE) };
        }
    }
}

/// A level of the caches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cache {
    Level1,
    /// More lines can be under way to it at once.
    Level2,
}

/// Asks for the cache line that lies so many bytes after the start of `from`, which may be beyond its end. A hint.
#[inline(always)]
pub(super) fn prefetch<T>(from: &[T], ahead_bytes: usize, to: Cache) {
    cfg_if! {
        if #[cfg(all(target_arch = "x86_64", not(miri)))] {
            use std::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
            let line = from.as_ptr().wrapping_byte_add(ahead_bytes).cast();
            // SAFETY: a prefetch never faults and never reads in the sense of the language, whatever the address.
            unsafe {
                match to {
                    Cache::Level1 => _mm_prefetch::<_MM_HINT_T0>(line),
                    Cache::Level2 => _mm_prefetch::<_MM_HINT_T1>(line),
                }
            }
        } else {
            let _ = (from, ahead_bytes, to);
        }
    }
}

/// Bytes of a short row: a page, at whose end the prefetchers of a core stop. Of tiles, rows are short and in the
/// caches, or lie apart; a longer one is read from memory.
pub(super) const SHORT_ROW_BYTES: usize = 4 << 10;

/// Rows between the one that is read or written and the one that is asked for: one takes less time than memory does to
/// answer.
const ROWS_AHEAD: usize = 4;

/// Asks for a row of so many elements that is soon read or written, while the one at `start` is; it may be beyond the
/// end of `rows`. Of short rows that lie apart the prefetchers of a core learn too late; longer ones are left to them.
#[inline(always)]
pub(crate) fn prefetch_later_row<T>(rows: &[T], start: usize, row_stride: usize, len: usize) {
    let bytes = len * size_of::<T>();
    if bytes <= SHORT_ROW_BYTES {
        // The stride of a single row may be any number.
        let first = start.wrapping_add(ROWS_AHEAD.wrapping_mul(row_stride));
        let first_byte = first.wrapping_mul(size_of::<T>());
        for at in (0..bytes).step_by(Line::BYTES) {
            prefetch(rows, first_byte.wrapping_add(at), Cache::Level2);
        }
    }
}

/// A row that is read at four places in turn, a quarter of it apart, which keeps more of memory at work than one place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quarters {
    /// Elements of a quarter; what four of them leave comes last.
    pub(super) len: usize,
    row_len: usize,
    element_bytes: usize,
}

impl Quarters {
    /// How far ahead of each place memory is asked for.
    const AHEAD_BYTES: usize = 1024;

    /// Quarters of `row` in whole steps.
    #[inline(always)]
    pub(super) fn new<T>(row: &[T], step: usize) -> Self {
        Self {
            len: row.len() / 4 / step * step,
            row_len: row.len(),
            element_bytes: size_of::<T>(),
        }
    }

    /// Asks for what four quarters leave of `row`.
    #[inline(always)]
    pub(super) fn prefetch_rest<T>(self, row: &[T]) {
        let rest = 4 * self.len * self.element_bytes;
        for at in (rest..size_of_val(row)).step_by(Line::BYTES) {
            prefetch(row, at, Cache::Level1);
        }
    }

    /// How far ahead of the places `start` elements into each quarter to ask: from the end of a quarter on, in the same
    /// quarter of the row behind this one. Rows usually follow each other, and the first lines of a row would otherwise
    /// be waited for.
    #[inline(always)]
    pub(super) fn ahead_bytes(self, start: usize) -> usize {
        let ahead = Self::AHEAD_BYTES / self.element_bytes;
        let to_next_row = match start + ahead < self.len {
            true => 0,
            false => self.row_len - self.len,
        };
        (ahead + to_next_row) * self.element_bytes
    }
}
