//! Times the ops on logits for `tests/python/bench_logits.py`, which times PyTorch between the calls.
//!
//! ```text
//! logits_peer TOKENS VOCAB f32|bf16 THREADS
//! ```
//!
//! Each line of input is an op and what to run: `forward`, `both` (both passes, the gradient in new memory) or `given`
//! (both passes, the gradient in memory that is there). The answer is the time in seconds and a number to check: the
//! sum of losses or entropies, or that of the sizes of the gradient's first row.

use std::io::{BufRead, Write};
use std::time::Instant;

use half::bf16;
use tilecast::Cpu;
use tilecast_benches::logits::{Element, Op, Problem, To};

fn serve<T: Element>(tokens: usize, vocab: usize, threads: usize) {
    let mut problem = Problem::<T>::new(tokens, vocab);
    let mut given = problem.logits.clone();
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("input is text");
        let (name, what) = line.split_once(' ').expect("an op and what to run");
        let op = Op::ALL.into_iter().find(|op| op.name() == name);
        let op = op.expect("an op of the library");
        let cpu = || Cpu::new().threads(threads);
        let start = Instant::now();
        let forward = problem.forward(op, cpu());
        let check = match what {
            "forward" => forward.total(),
            "both" => problem.backward(&forward, cpu(), To::New),
            _ => problem.backward(&forward, cpu(), To::Given(&mut given)),
        };
        println!("{} {check}", start.elapsed().as_secs_f64());
        std::io::stdout().flush().expect("somebody listens");
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [tokens, vocab, dtype, threads] = &arguments[..] else {
        panic!("usage: logits_peer TOKENS VOCAB f32|bf16 THREADS");
    };
    let number = |text: &String| text.parse().expect("a number");
    let run = match dtype.as_str() {
        "bf16" => serve::<bf16>,
        _ => serve::<f32>,
    };
    run(number(tokens), number(vocab), number(threads));
}
