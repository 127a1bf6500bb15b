//! Full predictions per second of `tune` for one shape: module, VMEM, schedule, pipeline. One thread;
//! criterion shows candidates as elements. The target is at least 2000 per second.
#![allow(missing_docs)] // criterion's macros make undocumented items

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tilecast::core::kernels::linear_ce::LinearCe;
use tilecast::core::target::Target;
use tilecast::sim::op::Request;
use tilecast::sim::tune::{Space, tune};
use tilecast::{DType, Options, Strategy};

fn predictions(c: &mut Criterion) {
    let mut group = c.benchmark_group("predictions");
    group.sample_size(10);
    for target in ["v5e", "v7x"] {
        let target = Target::by_name(target).expect("a known target");
        let problem = LinearCe::new(8192, 4096, 128256, DType::Bf16, Options::default());
        let request = Request::new(problem.expect("a valid problem"), target, 1, None);
        let request = request.expect("one chip is enough");
        let space = Space::new(&request, [true; 2], [None; 2], &Strategy::ALL);
        group.throughput(Throughput::Elements(space.len() as u64));
        group.bench_function(target.name, |b| {
            b.iter(|| tune(&request, &space, || ()).expect("every candidate is judged"));
        });
    }
    group.finish();
}

criterion_group!(benches, predictions);
criterion_main!(benches);
