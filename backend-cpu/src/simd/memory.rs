//! Arrays beyond the caches: reads that are asked for in time, and writes that do not pass through the caches.
//!
//! A loop that does some arithmetic on each value waits for memory unless it asks ahead: a processor sees the next few
//! lines only, and its own prefetchers stop at the end of a page. Reading four places in turn keeps more of them at
//! work. And a plain store reads the line it overwrites, so that a map moves three bytes for two; a streaming store
//! does not.
//!
//! These are instructions of x86-64 itself, at every [`Level`](super::Level). Elsewhere a prefetch does nothing and a
//! streaming store is a plain one.

use bytemuck::{Pod, Zeroable};
use cfg_if::cfg_if;

/// A cache line, which a streaming store fills as a whole.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
pub(super) struct Line([u8; Line::BYTES]);

impl Line {
    pub(super) const BYTES: usize = 64;

    /// The line as numbers.
    #[inline(always)]
    pub(super) fn as_mut<T: Pod>(&mut self) -> &mut [T] {
        bytemuck::cast_slice_mut(&mut self.0)
    }

    /// `self = from`, past the caches. Seen by other threads after [`fence`].
    #[inline(always)]
    pub(super) fn stream(&mut self, from: &Self) {
        cfg_if! {
            if #[cfg(target_arch = "x86_64")] {
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
        if #[cfg(target_arch = "x86_64")] {
            // SAFETY: SSE is part of x86-64.
            unsafe { std::arch::x86_64::_mm_sfence() }
        }
    }
}

/// Asks for the cache line that lies so many bytes after the start of `from`, which may be beyond its end, to be brought
/// into the second level: more lines can be under way there than to the first.
#[inline(always)]
pub(super) fn prefetch<T>(from: &[T], ahead_bytes: usize) {
    cfg_if! {
        if #[cfg(target_arch = "x86_64")] {
            use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
            let line = from.as_ptr().wrapping_byte_add(ahead_bytes);
            // SAFETY: a prefetch never faults and never reads in the sense of the language, whatever the address.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(line.cast()) }
        } else {
            let _ = (from, ahead_bytes);
        }
    }
}
