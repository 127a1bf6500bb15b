//! Full predictions per second of `tune` for one shape: module, VMEM, schedule, pipeline. One thread;
//! criterion shows candidates as elements. The target is at least 2000 per second, and 1000 times faster than
//! asking the compiler.
//!
//! Before that it prints how many candidates a second have got a time and how many were known not to fit, and what
//! the TPU compiler takes for the best of them: `TILECAST_LIBTPU` is libtpu.so, `TILECAST` the command
//! (`target/release/tilecast` unless given). Memory is allocated as in the command.
#![allow(missing_docs)] // criterion's macros make undocumented items

use std::env;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use mimalloc::MiMalloc;
use tilecast::core::kernels::linear_ce::LinearCe;
use tilecast::core::target::Target;
use tilecast::sim::op::Request;
use tilecast::sim::tune::{Row, Space, tune};
use tilecast::{Blocks, DType, Options, Strategy};

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// `B`, `H`, `V`: the head of Llama 3 8B.
const SIZES: [usize; 3] = [8192, 4096, 128256];

fn predictions(c: &mut Criterion) {
    let mut group = c.benchmark_group("predictions");
    group.sample_size(10);
    let [tokens, hidden, vocab] = SIZES;
    for target in ["v5e", "v7x"] {
        let target = Target::by_name(target).expect("a known target");
        let problem = LinearCe::new(tokens, hidden, vocab, DType::Bf16, Options::default());
        let request = Request::new(problem.expect("a valid problem"), target, 1, None);
        let request = request.expect("one chip is enough");
        for (limit, request) in [("default", request), ("raised", request.raising_limit())] {
            let space = Space::new(&request, [true; 2], [None; 2], &Strategy::ALL);
            let name = format!("{}, {limit} limit", target.name);
            let timed_per_s = report(&name, &request, &space);
            if limit == "default" {
                compare(&name, &request, &space, timed_per_s);
            }
            group.throughput(Throughput::Elements(space.len() as u64));
            group.bench_function(&name, |b| {
                b.iter(|| tune(&request, &space, || ()).expect("every candidate is judged"));
            });
        }
    }
    group.finish();
}

/// Prints how many candidates were judged in a second, and of how many of them a time was predicted, which it returns.
fn report(name: &str, request: &Request, space: &Space) -> f64 {
    let start = Instant::now();
    let rows = tune(request, space, || ()).expect("every candidate is judged");
    let per_s = space.len() as f64 / start.elapsed().as_secs_f64();
    // The pair of the two best is one row.
    let timed = rows.iter().filter(|row| row.report.total.is_some()).count() + 1;
    let timed_per_s = per_s * timed as f64 / space.len() as f64;
    println!(
        "{name}: {} candidates, {per_s:.0} a second on one core; {timed} fit and have a time, {timed_per_s:.0} of these \
         a second",
        space.len(),
    );
    timed_per_s
}

/// Prints how much longer the TPU compiler takes for the best candidates of both passes than a search that predicts so
/// many times a second.
fn compare(name: &str, request: &Request, space: &Space, timed_per_s: f64) {
    let Some(libtpu) = env::var_os("TILECAST_LIBTPU") else {
        println!("{name}: not compared with the compiler, TILECAST_LIBTPU names no libtpu.so");
        return;
    };
    let rows = tune(request, space, || ()).expect("every candidate is judged");
    let Row {
        forward: Some(forward),
        backward: Some(backward),
        ..
    } = &rows[0]
    else {
        unreachable!("both passes are tuned");
    };
    let text = |Blocks { b, h, v }: Blocks| format!("{b},{h},{v}");
    let sizes = SIZES.map(|size| size.to_string());
    let mut command = Command::new(command());
    command
        .args(["compile", "linear-ce", "--json", "--target"])
        .args([request.target().name, "--tokens", &sizes[0]])
        .args(["--hidden", &sizes[1], "--vocab", &sizes[2]])
        .args(["--strategy", backward.strategy().name()])
        .args(["--blocks", &text(forward.blocks)])
        .args(["--backward-blocks", &text(backward.blocks)])
        .arg("--libtpu")
        .arg(libtpu);
    let answer = command.output().map_err(|error| error.to_string());
    let taken = answer.and_then(|output| {
        let text = String::from_utf8_lossy(&output.stdout);
        (seconds(&text)).ok_or_else(|| String::from_utf8_lossy(&output.stderr).into_owned())
    });
    match taken {
        Ok(seconds) => println!(
            "{name}: the compiler takes {seconds:.2} s for the two best, {:.0} times as long as predicting them",
            seconds * timed_per_s / 2.0
        ),
        Err(error) => println!("{name}: not compared with the compiler: {}", error.trim()),
    }
}

/// The command, beside the folder of this bench unless it is given.
fn command() -> PathBuf {
    let beside = || {
        let bench = env::current_exe().ok()?;
        Some(bench.parent()?.parent()?.join("tilecast"))
    };
    (env::var_os("TILECAST").map(PathBuf::from))
        .or_else(beside)
        .unwrap_or_else(|| "tilecast".into())
}

/// The time in the answer of `compile --json`.
fn seconds(answer: &str) -> Option<f64> {
    let (_, after) = answer.split_once("\"seconds\":")?;
    after.split([',', '}']).next()?.trim().parse().ok()
}

criterion_group!(benches, predictions);
criterion_main!(benches);
