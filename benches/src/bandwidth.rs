//! What memory can do on this machine: the same bytes moved with no arithmetic.
//!
//! Each is written in several ways of which the best one counts: four places in turn keep more of memory at work than
//! one, and a copy by the system's library writes past the caches.

use std::hint::black_box;
use std::thread;

use tilecast::cpu::simd::Simd;

/// Runs `body` on equal shares of `data`, each on a thread.
fn on_threads(data: &[u64], threads: usize, body: impl Fn(&[u64]) + Sync) {
    thread::scope(|scope| {
        for part in data.chunks(data.len().div_ceil(threads)) {
            let body = &body;
            scope.spawn(move || body(part));
        }
    });
}

/// Reads memory from one end to the other.
pub fn read_in_order(data: &[u64], threads: usize) {
    let simd = Simd::detect();
    on_threads(data, threads, |part| {
        black_box(simd.sum(bytemuck::cast_slice(part)));
    });
}

/// Reads memory in four places in turn.
pub fn read_in_quarters(data: &[u64], threads: usize) {
    on_threads(data, threads, |part| {
        let mut found = [[0; 8]; 4];
        let quarter = part.len() / 4;
        for start in (0..quarter.saturating_sub(7)).step_by(8) {
            for (i, found) in found.iter_mut().enumerate() {
                let line = &part[i * quarter + start..][..8];
                (found.iter_mut().zip(line)).for_each(|(found, word)| *found |= word);
            }
        }
        black_box(found);
    });
}

/// Copies memory.
pub fn copy(to: &mut [u64], from: &[u64], threads: usize) {
    thread::scope(|scope| {
        let share = from.len().div_ceil(threads);
        for (to, from) in to.chunks_mut(share).zip(from.chunks(share)) {
            scope.spawn(|| to.copy_from_slice(from));
        }
    });
    black_box(to);
}

/// Reads memory and writes it again.
pub fn update(data: &mut [u64], threads: usize) {
    // Not known to be nothing.
    let key = black_box(0);
    thread::scope(|scope| {
        for part in data.chunks_mut(data.len().div_ceil(threads)) {
            scope.spawn(move || part.iter_mut().for_each(|word| *word ^= key));
        }
    });
}
