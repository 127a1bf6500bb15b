//! The ops on logits against plain reading of the same memory.
//!
//! Forward each logit is read once; backward it is read once and a gradient written. `read` adds up the same bytes and
//! does nothing else, `copy` copies them: what memory can do on this machine, in the same run.
#![allow(missing_docs)] // criterion's macros make undocumented items

use std::hint::black_box;
use std::thread;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use half::bf16;
use tilecast::core::kernels::grpo::Variant;
use tilecast::cpu::array::{Data, DataMut};
use tilecast::cpu::simd::Simd;
use tilecast::{ArrayMut, Cpu, Matrix, entropy, grpo, logits_ce};

/// Beyond any cache: 1024 rows of a usual vocabulary are 622 MB of f32.
const TOKENS: usize = 1024;
const VOCAB: usize = 151_936;

/// Numbers in -4..4.
fn values() -> Vec<f32> {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 21) as f32 - 4.0
    };
    (0..TOKENS * VOCAB).map(|_| next()).collect()
}

/// Runs `body` on equal shares of `data`, each on a thread.
fn on_threads<T: Sync>(data: &[T], threads: usize, body: impl Fn(&[T]) + Sync) {
    thread::scope(|scope| {
        for part in data.chunks(data.len().div_ceil(threads)) {
            scope.spawn(|| body(part));
        }
    });
}

fn bench_type<T: Copy + Send + Sync + 'static>(criterion: &mut Criterion, name: &str, data: &[T])
where
    for<'a> &'a [T]: Into<Data<'a>>,
    for<'a> &'a mut [T]: Into<DataMut<'a>>,
{
    let bytes = size_of_val(data) as u64;
    let labels: Vec<i32> = (0..TOKENS).map(|i| (i * 37 % VOCAB) as i32).collect();
    let advantage: Vec<f32> = (0..TOKENS).map(|i| (i % 5) as f32 - 2.0).collect();
    let matrix = || Matrix::new(data, TOKENS, VOCAB).expect("the slice has the shape");
    let mut group = criterion.benchmark_group(format!("logits/{name}"));
    group.sample_size(10);
    for threads in [1, 2] {
        let cpu = || Cpu::new().threads(threads);
        let id = |what: &str| BenchmarkId::new(what, threads);
        group.throughput(Throughput::Bytes(bytes));
        let simd = Simd::detect();
        group.bench_function(id("read"), |b| {
            b.iter(|| on_threads(data, threads, |part| read(simd, part)));
        });
        let ce = logits_ce::new(&labels).on(cpu());
        group.bench_function(id("logits_ce forward"), |b| {
            b.iter(|| ce.forward(matrix()).expect("the shapes agree"));
        });
        let entropies = entropy::new().on(cpu());
        group.bench_function(id("entropy forward"), |b| {
            b.iter(|| entropies.forward(matrix()).expect("the shapes agree"));
        });
        let policy = grpo::new(&labels, &advantage)
            .variant(Variant::Dapo)
            .on(cpu());
        group.bench_function(id("grpo forward"), |b| {
            b.iter(|| policy.forward(matrix()).expect("the shapes agree"));
        });
        group.throughput(Throughput::Bytes(2 * bytes));
        let mut out = data.to_vec();
        group.bench_function(id("copy"), |b| {
            b.iter(|| {
                thread::scope(|scope| {
                    let share = data.len().div_ceil(threads);
                    for (to, from) in out.chunks_mut(share).zip(data.chunks(share)) {
                        scope.spawn(|| to.copy_from_slice(from));
                    }
                });
                black_box(&mut out);
            });
        });
        let saved = ce.forward(matrix()).expect("the shapes agree");
        let dims = [TOKENS, VOCAB];
        group.bench_function(id("logits_ce backward"), |b| {
            b.iter(|| {
                let out = ArrayMut::new(&mut out[..], &dims).expect("the slice has the shape");
                ce.backward_into(matrix(), &saved, Default::default(), out)
            });
        });
        group.bench_function(id("logits_ce backward in place"), |b| {
            b.iter(|| {
                let out = ArrayMut::new(&mut out[..], &dims).expect("the slice has the shape");
                ce.backward_in_place(out, &saved, Default::default())
            });
        });
        let saved = policy.forward(matrix()).expect("the shapes agree");
        group.bench_function(id("grpo backward"), |b| {
            b.iter(|| {
                let out = ArrayMut::new(&mut out[..], &dims).expect("the slice has the shape");
                policy.backward_into(matrix(), &saved, Default::default(), out)
            });
        });
    }
    group.finish();
}

/// Adds up memory, whatever it holds.
fn read<T: Copy>(simd: Simd, data: &[T])
where
    for<'a> &'a [T]: Into<Data<'a>>,
{
    match data.into() {
        Data::F32(data) => {
            black_box(simd.sum(data));
        }
        Data::Bf16(data) => {
            let words: &[f32] = bytemuck::cast_slice(data);
            black_box(simd.sum(words));
        }
        Data::I32(_) => unreachable!("logits are real"),
    }
}

fn bench(criterion: &mut Criterion) {
    let wide = values();
    bench_type(criterion, "f32", &wide);
    let narrow: Vec<bf16> = wide.iter().map(|&x| bf16::from_f32(x)).collect();
    drop(wide);
    bench_type(criterion, "bf16", &narrow);
}

criterion_group!(benches, bench);
criterion_main!(benches);
