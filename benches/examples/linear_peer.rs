//! Times the fused linear cross-entropy for `tests/python/bench_linear.py`, which times PyTorch between the calls.
//!
//! ```text
//! linear_peer TOKENS HIDDEN VOCAB f32|bf16 THREADS
//! ```
//!
//! Each line of input is what to run: `peak`, `forward`, `both` (both passes in one call, the gradients in new memory)
//! or `f32-delta` (the same with the gradient of the logits in f32, of bf16 inputs). The answer is the time in seconds
//! and a number to check: the sum of the losses, or that of the sizes of the first row of `dx`. For `peak`,
//! multiply-adds from registers on all threads, it is how many operations were done. On Linux the line `memory` asks
//! for two numbers of bytes: the most that was resident since it was asked last, and what is now.

use std::io::{BufRead, Write};
use std::time::Instant;

use half::bf16;
use tilecast::cpu::array::Data;
use tilecast::{Cotangents, Cpu, DType, Matrix, linear_ce};
use tilecast_benches::{peak, values};

/// The answer to `memory`, from the kernel's own count of the process.
fn memory() -> std::io::Result<[u64; 2]> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    std::fs::write("/proc/self/clear_refs", "5")?;
    let bytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
        kib.expect("a count in KiB") * 1024
    };
    Ok(["VmHWM:", "VmRSS:"].map(bytes))
}

fn serve<'a, T>(
    [tokens, hidden, vocab]: [usize; 3],
    dtype: DType,
    threads: usize,
    x: &'a [T],
    w: &'a [T],
) where
    Data<'a>: From<&'a [T]>,
{
    let labels: Vec<i32> = (0..tokens).map(|i| (i * 37 % vocab) as i32).collect();
    let x = Matrix::new(x, tokens, hidden).expect("B H values");
    let w = Matrix::new(w, hidden, vocab).expect("H V values");
    let loss = linear_ce(x, w, &labels).on(Cpu::new().threads(threads));
    for line in std::io::stdin().lock().lines() {
        let what = line.expect("input is text");
        if what == "memory" {
            let [peak, now] = memory().expect("Linux's /proc");
            println!("{peak} {now}");
            continue;
        }
        let loss = match what.as_str() {
            "f32-delta" => loss.clone().delta_dtype(DType::F32),
            _ => loss.clone(),
        };
        let start = Instant::now();
        let check = match what.as_str() {
            "peak" => peak(dtype, threads) as f32,
            "forward" => loss.forward().expect("a valid problem").loss.iter().sum(),
            _ => {
                let both = loss.forward_and_backward(Cotangents::ones());
                let (_, gradients) = both.expect("a valid problem");
                gradients.dx.to_f32()[..hidden]
                    .iter()
                    .map(|x| x.abs())
                    .sum()
            }
        };
        println!("{} {check}", start.elapsed().as_secs_f64());
        std::io::stdout().flush().expect("somebody listens");
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [tokens, hidden, vocab, dtype, threads] = &arguments[..] else {
        panic!("usage: linear_peer TOKENS HIDDEN VOCAB f32|bf16 THREADS");
    };
    let number = |text: &String| text.parse().expect("a number");
    let shape = [tokens, hidden, vocab].map(number);
    let [tokens, hidden, vocab] = shape;
    let (x, w) = (values(tokens * hidden, 1), values(hidden * vocab, 2));
    match dtype.as_str() {
        "bf16" => {
            let [x, w] = [x, w].map(|all| all.into_iter().map(bf16::from_f32).collect::<Vec<_>>());
            serve(shape, DType::Bf16, number(threads), &x[..], &w[..]);
        }
        _ => serve(shape, DType::F32, number(threads), &x[..], &w[..]),
    }
}
