use std::collections::BTreeSet;

use super::*;
use tilecast_core::DType;
use tilecast_core::kernels::linear_ce::{HeadKernel, LinearCe, Options, Structure, XForm};
use tilecast_core::program::{Kernel, Program};
use tilecast_core::target::Target;
use tilecast_tpu::lower::F32Products;

use crate::memory::room_bytes;

fn request(target: &str) -> Request {
    let problem = LinearCe::new(2048, 512, 8192, DType::Bf16, Options::default()).unwrap();
    Request::new(problem, Target::by_name(target).unwrap(), 1, None).unwrap()
}

fn both(request: &Request) -> Space {
    Space::new(request, [true; 2], [None; 2], &Strategy::ALL)
}

/// Candidates that rows of both passes are of, without plans that were put together of several. The pair of the two
/// best stands for both.
fn candidates(rows: &[Row], space: &Space) -> usize {
    let plans: BTreeSet<_> = rows.iter().filter_map(|row| row.backward).collect();
    let put_together = plans.iter().filter(|plan| !space.backward.contains(plan));
    rows.len() + 1 - put_together.count()
}

#[test]
fn the_first_row_is_the_best_of_all_pairs() {
    let request = request("v6e");
    let mut space = both(&request);
    // All pairs of a part of the space.
    space.forward.truncate(30);
    space.backward.truncate(60);
    let rows = tune(&request, &space, || ()).unwrap();
    let mut best = f64::INFINITY;
    for &plan in &space.forward {
        let forward = request.forward(plan).unwrap();
        for &plan in &space.backward {
            let backward = request.backward(plan).unwrap();
            let report = request.total(&[&forward, &backward]).unwrap();
            best = best.min(report.total.map_or(f64::INFINITY, |total| total.time_s));
        }
    }
    assert_eq!(rows[0].report.total.unwrap().time_s, best);
}

#[test]
fn every_candidate_has_a_row_and_rows_that_fit_come_first() {
    for target in ["v4", "v5e", "v7x"] {
        let request = request(target);
        let space = both(&request);
        let mut done = 0;
        let rows = tune(&request, &space, || done += 1).unwrap();
        assert_eq!(done, space.len());
        assert_eq!(candidates(&rows, &space), space.len());
        assert!(
            rows.len() >= space.len(),
            "{target}: nothing is put together"
        );
        assert!(rows.is_sorted_by_key(|row| row.report.verdict), "{target}");
        for row in &rows {
            assert_eq!(
                row.report.total.is_some(),
                row.report.verdict == Verdict::Fits
            );
            assert_eq!(
                row.report.reason.is_none(),
                row.report.verdict == Verdict::Fits
            );
        }
        for &plan in &space.forward {
            assert!(rows.iter().any(|row| row.forward == Some(plan)));
        }
        for &plan in &space.backward {
            assert!(rows.iter().any(|row| row.backward == Some(plan)));
        }
    }
}

#[test]
fn one_pass_can_be_tuned_alone() {
    let request = request("v5p");
    let space = Space::new(&request, [true, false], [None; 2], &Strategy::ALL);
    let rows = tune(&request, &space, || ()).unwrap();
    assert_eq!(rows.len(), space.forward.len());
    assert!(rows.iter().all(|row| row.backward.is_none()));
}

#[test]
fn chunks_keep_to_their_share_of_the_logits_where_one_block_does() {
    for vocab in [1000, 32000, 128256, 262144] {
        for dtype in [DType::Bf16, DType::F32] {
            let problem = LinearCe::new(2048, 512, vocab, dtype, Options::default()).unwrap();
            for v in [128, 1024, 8192] {
                let sizes = chunk_columns(problem.head(), v, false);
                assert!(!sizes.is_empty());
                for columns in sizes {
                    let share = (columns * dtype.size_bytes()) as f64 / (vocab * 4) as f64;
                    assert!(
                        share <= 0.1 || columns == v,
                        "{vocab} {dtype} {v}: {columns}"
                    );
                    assert_eq!(columns % v, 0);
                }
            }
        }
    }
}

#[test]
fn the_nearest_fit_halves_columns_first() {
    let problem = LinearCe::new(65536, 512, 128256, DType::Bf16, Options::default()).unwrap();
    let request = Request::new(problem, Target::by_name("v4").unwrap(), 1, None).unwrap();
    let blocks = Blocks {
        b: 1024,
        h: 512,
        v: 16384,
    };
    let nearest = nearest_fit(&request, blocks, |blocks| request.forward(blocks)).unwrap();
    // Of 8192 columns the windows alone are 18 MiB; of 4096, where no logits go to memory, the compiler has 13.70 MiB.
    assert_eq!(nearest, Some(Blocks { v: 4096, ..blocks }));
}

#[test]
fn what_an_earlier_search_has_found_changes_nothing() {
    let request = request("v5p").raising_limit();
    let mut search = Search::new(request);
    search.best(&both(&request), 3, || ()).unwrap();
    let default = request.at_default_limit();
    let space = both(&default);
    let found = search.best_at_default_limit(&space, 3).unwrap();
    assert_eq!(found, best(&default, &space, 3, || ()).unwrap());
    assert!(
        found.rows[0].vmem_limit_bytes
            < search.best(&both(&request), 1, || ()).unwrap().rows[0].vmem_limit_bytes
    );
}

#[test]
fn the_best_are_those_of_the_whole_search() {
    let mut left_out = 0;
    for target in ["v5e", "v5p", "v7x"] {
        let few = request(target).most_operations(20_000.0);
        for request in [request(target), request(target).raising_limit(), few] {
            let space = both(&request);
            let rows = tune(&request, &space, || ()).unwrap();
            for top in [1, 10] {
                let mut done = 0;
                let found = best(&request, &space, top, || done += 1).unwrap();
                assert_eq!(done, space.len());
                assert_eq!(found.rows[..top], rows[..top], "{target}");
                let judged = candidates(&found.rows, &space);
                assert_eq!(judged + found.slower, candidates(&rows, &space), "{target}");
                left_out += found.slower;
            }
        }
    }
    assert!(left_out > 0);
}

#[test]
fn what_is_compiled_soon_comes_first() {
    let request = request("v5e").raising_limit();
    let first = |most: f64| {
        let request = request.most_operations(most);
        let mut rows = tune(&request, &both(&request), || ()).unwrap();
        let fits = rows.partition_point(|row| row.report.verdict == Verdict::Fits);
        assert!(rows[..fits].is_sorted_by_key(|row| !row.compiles_soon));
        rows.swap_remove(0)
    };
    let any = first(f64::INFINITY);
    let most = any.operations * 0.9;
    let soon = first(most);
    assert!(any.operations > most && soon.operations <= most);
    let time_s = |row: &Row| row.report.total.unwrap().time_s;
    assert!(time_s(&soon) > time_s(&any));
    // Where nothing is, time decides as ever.
    assert_eq!(time_s(&first(1.0)), time_s(&any));
}

#[test]
fn no_pass_is_faster_than_its_floor() {
    for target in ["v4", "v5p", "v6e"] {
        for dtype in [DType::Bf16, DType::F32] {
            let problem = LinearCe::new(2000, 640, 5000, dtype, Options::default()).unwrap();
            let target = Target::by_name(target).unwrap();
            let request = Request::new(problem, target, 1, None)
                .unwrap()
                .raising_limit();
            let space = both(&request);
            let check = |program: Program<HeadKernel>, products| {
                let floor_s = request.floor_s(&program, products);
                let pass = request
                    .judge(program, &mut request.nothing_known())
                    .unwrap();
                let time = pass.time_s().map_or(f64::INFINITY, |[_, time, _]| time);
                assert!(
                    floor_s > 0.0 && floor_s <= time,
                    "{target} {dtype}: {floor_s} {time}"
                );
            };
            for &plan in space.forward.iter().step_by(7) {
                check(request.forward_program(plan).unwrap(), 1);
            }
            for &plan in space.backward.iter().step_by(23) {
                check(request.backward_program(plan).unwrap(), 3);
            }
        }
    }
}

#[test]
fn a_row_names_the_limit_that_it_needs() {
    let request = request("v5p").raising_limit();
    let default = request.target().default_vmem_limit_bytes.value;
    let rows = tune(&request, &both(&request), || ()).unwrap();
    let fits = rows
        .iter()
        .filter(|row| row.report.verdict == Verdict::Fits);
    let raised = fits
        .clone()
        .filter(|row| row.vmem_limit_bytes > default)
        .count();
    assert!(raised > 0);
    for row in fits {
        let room = row.vmem_limit_bytes - row.vmem_used_bytes;
        let asked = room_bytes(request.target());
        assert!(room >= asked, "{room}");
        let is_least = room < asked + (1 << 10) || row.vmem_limit_bytes == default;
        let is_likely = row.fit_probability >= FIT_PROBABILITY;
        let is_all = row.vmem_limit_bytes == request.target().vmem_usable_bytes.value;
        assert!(is_likely || is_all, "{}", row.fit_probability);
        // No more than it takes: spills come in whole slots, limits in KiB.
        assert!(
            is_least || row.fit_probability < FIT_PROBABILITY + 0.01,
            "{room}"
        );
    }
}

#[test]
fn no_limit_is_raised_without_room_for_spills() {
    // All of v4's VMEM is its default limit: what needs more than that less the room counts as too large.
    let request = request("v4");
    let capacity = request.target().vmem_usable_bytes.value;
    let room = room_bytes(request.target());
    let [given, raised] = [request, request.raising_limit()]
        .map(|request| tune(&request, &both(&request), || ()).unwrap());
    let near =
        |row: &&Row| row.vmem_used_bytes <= capacity && row.vmem_used_bytes + room > capacity;
    let verdicts = |rows: &[Row]| -> Vec<Verdict> {
        (rows.iter().filter(near))
            .map(|row| row.report.verdict)
            .collect()
    };
    assert!(verdicts(&given).contains(&Verdict::Fits));
    assert!(!verdicts(&raised).is_empty());
    assert!((raised.iter().filter(near)).all(|row| row.vmem_margin_bytes < 0));
    assert!(
        verdicts(&raised)
            .iter()
            .all(|&verdict| verdict == Verdict::VmemOom)
    );
}

#[test]
fn x_has_one_buffer_where_two_do_not_fit() {
    let problem = LinearCe::new(8192, 2048, 151_936, DType::Bf16, Options::default()).unwrap();
    let one_buffer = |target, h| {
        let target = Target::by_name(target).unwrap();
        let request = Request::new(problem, target, 1, None).unwrap();
        let (b, v) = (1024, 768);
        let program = request.forward_program(Blocks { b, h, v }.into()).unwrap();
        let spec = program.launches()[0].0.kernel.spec();
        spec.operands().any(|(.., operand)| operand.one_buffer)
    };
    assert!(one_buffer("v4", 2048));
    // Another block of it for each step.
    assert!(!one_buffer("v4", 1024));
    assert!(!one_buffer("v6e", 2048));
}

#[test]
fn x_has_one_buffer_where_w_is_rounded_before() {
    let problem = LinearCe::new(8192, 2048, 151_936, DType::F32, Options::default()).unwrap();
    let request = Request::new(problem, Target::by_name("v4").unwrap(), 1, None).unwrap();
    let request = request.products(F32Products::Rounded);
    let (b, h, v) = (1024, 2048, 768);
    let plan = BackwardPlan {
        rounds_w: true,
        ..BackwardPlan::in_blocks(Blocks { b, h, v }, Some(8 * v))
    };
    let program = request.backward_program(plan).unwrap();
    let (launches, kernels_before) = (program.launches(), plan.before_delta());
    let mut operands = launches[kernels_before].0.kernel.spec().operands();
    assert!(operands.any(|(_, named, operand)| named.name == "x" && operand.one_buffer));
}

#[test]
fn delta_is_made_in_columns_of_its_own() {
    // Delta of v4 is fastest with all of H in a block, which leaves room for 384 columns, products with more.
    let target = Target::by_name("v4").unwrap();
    let problem = LinearCe::new(8192, 4096, 128_256, DType::Bf16, Options::default()).unwrap();
    let request = Request::new(problem, target, 1, None)
        .unwrap()
        .raising_limit();
    let backward = [(512, 4096, 384), (512, 1024, 768)]
        .map(|(b, h, v)| BackwardPlan::in_blocks(Blocks { b, h, v }, Some(16_128)));
    let space = Space {
        forward: Vec::new(),
        backward: backward.into(),
    };
    let rows = tune(&request, &space, || ()).unwrap();
    let plan = rows[0].backward.unwrap();
    let (b, h, v) = (512, 4096, 768);
    assert_eq!(plan.blocks, Blocks { b, h, v });
    assert_eq!(plan.delta_columns, Some(384));
    assert_eq!(plan.blocks_of(0).v, 384);
    let [b, h] = [512, 1024];
    assert_eq!(plan.product_blocks, [Some(Blocks { b, h, v }); 2]);
}

#[test]
fn columns_of_delta_leave_out_blocks_that_they_do_not_fill() {
    let problem = LinearCe::new(8192, 4096, 128_256, DType::Bf16, Options::default()).unwrap();
    let target = Target::by_name("v4").unwrap();
    let request = Request::new(problem, target, 1, None).unwrap();
    let columns = |given: &[usize], own| {
        let plan = |&v| BackwardPlan::in_blocks(Blocks { b: 512, h: 1024, v }, Some(16_128));
        let space = Space {
            forward: Vec::new(),
            backward: given.iter().map(plan).collect(),
        };
        let space = space.with_own_blocks([None; 2], own, &request);
        let plans = space.backward.into_iter();
        plans
            .map(|plan| (plan.blocks.v, plan.delta_columns))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        columns(&[256, 384, 768], Some(384)),
        [(384, Some(384)), (768, Some(384))]
    );
    // What is left of these alone is refused by name.
    assert_eq!(columns(&[256], Some(384)), [(256, Some(384))]);
    assert_eq!(columns(&[256, 384], None), [(256, None), (384, None)]);
}

/// A forward pass over f32 inputs on v4, in all ways in which `x` may come.
fn on_f32(products: F32Products, structure: Structure) -> (Request, Space) {
    let problem = LinearCe::new(8192, 4096, 128_256, DType::F32, Options::default()).unwrap();
    let v4 = Target::by_name("v4").unwrap();
    let request = Request::new(problem, v4, 1, None).unwrap();
    let request = request.products(products).structure(structure);
    let space = Space::new(&request, [true, false], [None; 2], &Strategy::ALL);
    (request, space)
}

#[test]
fn x_may_be_rounded_where_products_round_it() {
    let rounding = |products, structure| {
        let (_, space) = on_f32(products, structure);
        let rounding = space
            .forward
            .iter()
            .filter(|plan| plan.x != XForm::Given)
            .count();
        (rounding, space.forward.len() - rounding)
    };
    let (rounding_all, as_they_are) = rounding(F32Products::Rounded, Structure::Overlapped);
    assert_eq!(rounding_all, as_they_are);
    for (products, structure) in [
        (F32Products::Exact, Structure::Overlapped),
        // As published kernels do.
        (F32Products::Rounded, Structure::InTurn),
    ] {
        assert_eq!(rounding(products, structure), (0, as_they_are));
    }
}

#[test]
fn x_may_be_packed_on_v4() {
    // An x of 3 % of the logits is too large to lie in HBM all through a backward pass.
    for (target, vocab, form, backward) in [
        ("v4", 16384, Some(XForm::Packed), true),
        ("v4", 8192, Some(XForm::Packed), false),
        ("v5p", 16384, None, false),
    ] {
        let problem = LinearCe::new(2048, 512, vocab, DType::Bf16, Options::default()).unwrap();
        let request = Request::new(problem, Target::by_name(target).unwrap(), 1, None).unwrap();
        let space = both(&request);
        let of_plans = |form| space.forward.iter().filter(|plan| plan.x == form).count();
        let made = form.map_or(0, of_plans);
        assert_eq!(of_plans(XForm::Given) + made, space.forward.len());
        assert!(form.is_none() || made == of_plans(XForm::Given));
        let plans = space.backward.iter();
        let mut streaming = plans.filter(|plan| plan.chunk_columns.is_some());
        assert!(
            streaming.all(|plan| plan.packs_x == backward),
            "{target} {vocab}"
        );
    }
}

#[test]
fn a_rounded_x_takes_a_pass_and_half_of_the_memory() {
    let (request, _) = on_f32(F32Products::Rounded, Structure::Overlapped);
    let blocks = Blocks {
        b: 1024,
        h: 512,
        v: 256,
    };
    let [given, rounded] = [XForm::Given, XForm::Rounded].map(|x| {
        let plan = ForwardPlan { blocks, x };
        request.forward(plan).unwrap()
    });
    let elements = 8192 * 4096;
    assert_eq!((given.array_bytes, rounded.array_bytes), (0, 6 * elements));
    let hbm = |pass| request.total(&[pass]).unwrap().hbm.used_bytes;
    assert_eq!(hbm(&rounded) - hbm(&given), 2 * elements);
    let window = |pass: &PassReport| {
        let terms = &pass.kernels[0].vmem.terms;
        (terms.iter().find(|term| term.name == "x")).map(|term| term.bytes)
    };
    assert_eq!(window(&given), window(&rounded).map(|bytes| 2 * bytes));
}

#[test]
fn x_is_rounded_where_that_is_faster() {
    let (request, space) = on_f32(F32Products::Rounded, Structure::Overlapped);
    let best = best(&request, &space, 1, || ()).unwrap();
    let first = best.rows[0].forward.unwrap();
    assert_eq!(first.x, XForm::Packed, "{first:?}");
    // Of few columns a pass over x is a larger part.
    let problem = LinearCe::new(8192, 512, 32_768, DType::F32, Options::default()).unwrap();
    let v5e = Target::by_name("v5e").unwrap();
    let request = Request::new(problem, v5e, 1, None).unwrap();
    let request = request.products(F32Products::Rounded);
    let space = Space::new(&request, [true, false], [None; 2], &Strategy::ALL);
    let best = super::best(&request, &space, 1, || ()).unwrap();
    let first = best.rows[0].forward.unwrap();
    assert_eq!(first.x, XForm::Given, "{first:?}");
}

/// Backward passes over f32 inputs, by chunks.
fn chunks_of_f32(target: &str, products: F32Products) -> (Request, Space) {
    let problem = LinearCe::new(8192, 8192, 128_256, DType::F32, Options::default()).unwrap();
    let target = Target::by_name(target).unwrap();
    let request = Request::new(problem, target, 1, None).unwrap();
    let request = request.products(products);
    let space = Space::new(&request, [false, true], [None; 2], &[Strategy::Streaming]);
    (request, space)
}

#[test]
fn w_may_be_rounded_on_v4_where_products_round_it() {
    let rounding = |target, products| {
        let (_, space) = chunks_of_f32(target, products);
        space.backward.iter().any(|plan| plan.rounds_w)
    };
    assert!(rounding("v4", F32Products::Rounded));
    assert!(!rounding("v4", F32Products::Exact));
    assert!(!rounding("v5p", F32Products::Rounded));
}

#[test]
fn a_chunk_of_a_rounded_w_is_one_of_few_that_repeat_little() {
    // 167 blocks of 768 columns, of which 16 are a tenth: 11 chunks of 16 would compute 9 twice, 12 of 14 compute one.
    let problem = LinearCe::new(8192, 8192, 128_256, DType::Bf16, Options::default()).unwrap();
    assert_eq!(
        chunk_columns(problem.head(), 768, true),
        [3840, 7680, 14 * 768]
    );
    assert_eq!(
        chunk_columns(problem.head(), 768, false),
        [3840, 7680, 16128]
    );
}

#[test]
fn a_rounded_w_keeps_its_chunk_within_the_share_of_memory() {
    let (request, space) = chunks_of_f32("v4", F32Products::Rounded);
    let logits = 8192 * 128_256 * 4;
    for plan in space.backward.iter().filter(|plan| plan.rounds_w) {
        let columns = plan.chunk_columns.unwrap() as u64;
        let program = request.backward_program(*plan).unwrap();
        let arrays = program.arrays().iter();
        let bytes = |name| {
            let mut named = arrays.clone().filter(|array| array.name == name);
            named.next().map_or(0, tilecast_core::program::Array::bytes)
        };
        assert!(bytes("w_rounded") <= columns * 8192 * 2);
        let chunk = bytes("w_rounded") + bytes("delta");
        assert!(chunk <= logits / 10, "{plan:?}: {chunk}");
    }
}
