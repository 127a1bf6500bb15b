//! The ops on logits against plain movement of the same memory.
//!
//! Forward each logit is read once; backward it is read once and a gradient written. For each pass the table has the
//! bytes that must move per second, and the share of what memory does in the same run: read for the forward pass,
//! copied for the gradient in memory of its own, read and written again for the gradient over the logits. Rounds take
//! everything in turn, so that what else the machine does meets all of them; times are medians.
//!
//! ```text
//! cargo bench -p tilecast-benches --bench logits -- 4096 32768
//! ```

use std::time::Instant;

use half::bf16;
use tilecast::Cpu;
use tilecast_benches::logits::{Element, Forward, Op, Problem, To};
use tilecast_benches::{bandwidth, median};

/// Times of one row of the table, seconds.
struct Timed {
    name: String,
    bytes: usize,
    seconds: Vec<f64>,
}

/// Runs everything `rounds` times, with so many threads, and prints the table.
fn measure<T: Element>(name: &str, tokens: usize, vocab: usize, threads: usize, rounds: usize) {
    let cpu = || Cpu::new().threads(threads);
    let mut problem = Problem::<T>::new(tokens, vocab);
    let mut out = problem.logits.clone();
    let bytes = size_of_val(&out[..]);
    let words = bytes / size_of::<u64>();
    // The elements at the end that fill no word are left out.
    let whole = words * (size_of::<u64>() / size_of::<T>());
    let saved: Vec<Forward> = (Op::ALL.iter())
        .map(|&op| problem.forward(op, cpu()))
        .collect();
    let mut rows: Vec<Timed> = Vec::new();
    for round in 0..=rounds {
        let mut next = 0;
        let mut time = |name: &str, moved: usize, body: &mut dyn FnMut()| {
            let start = Instant::now();
            body();
            let seconds = start.elapsed().as_secs_f64();
            if round == 0 {
                let (name, seconds) = (name.to_owned(), Vec::new());
                let bytes = moved * bytes;
                rows.push(Timed {
                    name,
                    bytes,
                    seconds,
                });
            } else {
                rows[next].seconds.push(seconds);
            }
            next += 1;
        };
        {
            let logits: &[u64] = bytemuck::cast_slice(&problem.logits[..whole]);
            time("read", 1, &mut || bandwidth::read_in_order(logits, threads));
            time("read", 1, &mut || {
                bandwidth::read_in_quarters(logits, threads)
            });
            let out = bytemuck::cast_slice_mut(&mut out[..whole]);
            time("copy", 2, &mut || bandwidth::copy(out, logits, threads));
            time("update", 2, &mut || bandwidth::update(out, threads));
        }
        for op in Op::ALL {
            time(&format!("{} forward", op.name()), 1, &mut || {
                problem.forward(op, cpu());
            });
        }
        for (op, saved) in Op::ALL.iter().zip(&saved) {
            time(&format!("{} backward", op.name()), 2, &mut || {
                problem.backward(saved, cpu(), To::Given(&mut out));
            });
        }
        for (op, saved) in Op::ALL.iter().zip(&saved) {
            let kept = problem.logits.clone();
            time(&format!("{} in place", op.name()), 2, &mut || {
                problem.backward(saved, cpu(), To::Logits);
            });
            problem.logits = kept;
        }
    }
    let rate = |row: &Timed| row.bytes as f64 / median(row.seconds.clone()) / 1e9;
    let best = |name: &str| {
        let rates = rows.iter().filter(|row| row.name == name).map(rate);
        rates.fold(0.0, f64::max)
    };
    let [read, copy, update] = ["read", "copy", "update"].map(best);
    println!("{tokens} x {vocab} {name}, {threads} thread(s), medians of {rounds}, GB/s:");
    println!("    read {read:.1}, copy {copy:.1}, read and write again {update:.1}");
    for row in &rows[4..] {
        let of = match row.name.rsplit(' ').next() {
            Some("forward") => read,
            Some("backward") => copy,
            _ => update,
        };
        println!(
            "    {:20} {:6.1}   {:.2}",
            row.name,
            rate(row),
            rate(row) / of
        );
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let sizes: Vec<usize> = (arguments.by_ref())
        .filter_map(|argument| argument.parse().ok())
        .collect();
    // As a test each runs once, on little.
    let (tokens, vocab, rounds) = match (is_bench, &sizes[..]) {
        (false, _) => (16, 1000, 1),
        (true, [tokens, vocab, ..]) => (*tokens, *vocab, 7),
        (true, _) => (1024, 151_936, 7),
    };
    for threads in [1, 2] {
        measure::<f32>("f32", tokens, vocab, threads, rounds);
        measure::<bf16>("bf16", tokens, vocab, threads, rounds);
    }
}
