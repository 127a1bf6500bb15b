//! The ledger of a small kernel, and what a verdict owes.

use super::*;
use crate::grid::Scalars;
use proptest::prelude::*;
use tilecast_core::target::{Generation, TARGETS};

/// A kernel of two axes: windows that follow one, the half of one, and none; scratch; memory of
/// two regions one after the other.
fn module(rows: i64, columns: i64) -> Module {
    let text = format!(
        "module @m {{
func.func @kernel(%i: i32, %j: i32, %x: memref<64x256xf32, #tpu.memory_space<vmem>>, \
%y: memref<64x256xbf16, #tpu.memory_space<vmem>>, %w: memref<1x100xf32, #tpu.memory_space<vmem>>, \
%h: memref<64x256xf32, #tpu.memory_space<any>>, \
%s: memref<8x128xf32, #tpu.memory_space<vmem>>, \
%t: memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) attributes \
{{dimension_semantics = [#tpu.dimension_semantics<parallel>, #tpu.dimension_semantics<arbitrary>], \
iteration_bounds = array<i64: {rows}, {columns}>, scalar_prefetch = 0 : i64, \
scratch_operands = 2 : i64, window_params = [{{transform_indices = @a, window_bounds = array<i64: 64, 256>}}, \
{{transform_indices = @b, window_bounds = array<i64: 64, 256>}}, \
{{pipeline_mode = #tpu.pipeline_mode<synchronous>, transform_indices = @a, \
window_bounds = array<i64: 1, 100>}}, {{}}]}} {{
\"tpu.region\"() ({{
%a = memref.alloca() : memref<16x128xf32, #tpu.memory_space<vmem>>
tpu.yield
}}) : () -> ()
\"tpu.region\"() ({{
%a = memref.alloca() : memref<8x128xf32, #tpu.memory_space<vmem>>
tpu.yield
}}) : () -> ()
return
}}
func.func @a(%i: i32, %j: i32) -> (i32, i32) {{
%z = arith.constant 0 : i32
return %i, %z : i32, i32
}}
func.func @b(%i: i32, %j: i32) -> (i32, i32) {{
%two = arith.constant 2 : i32
%r = arith.divsi %j, %two : i32
return %r, %r : i32, i32
}}
}}
"
    );
    Module::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn ledger(module: &Module, target: &'static Target, limit: Option<u64>) -> VmemLedger {
    on_cores(module, target, limit, 1)
}

fn on_cores(
    module: &Module,
    target: &'static Target,
    limit: Option<u64>,
    cores: u64,
) -> VmemLedger {
    let signature = Signature::read(module).unwrap();
    let grid = Grid::new(module, &signature, &Scalars::default(), cores).unwrap();
    let allocations = Allocations::read(module, &signature, target).unwrap();
    (allocations.ledger(&signature, &grid, |_| false, limit)).unwrap()
}

#[test]
fn every_term_is_there() {
    let target = &TARGETS[1];
    let terms = |rows, columns| -> Vec<u64> {
        let ledger = ledger(&module(rows, columns), target, None);
        ledger.terms.iter().map(|term| term.bytes).collect()
    };
    let kib = 1 << 10;
    // x, y, w (one buffer, its granule), scratch, the larger region.
    assert_eq!(terms(3, 4), [128 * kib, 64 * kib, kib, 4 * kib, 8 * kib]);
    assert_eq!(terms(1, 4), [64 * kib, 64 * kib, kib, 4 * kib, 8 * kib]);
    assert_eq!(terms(3, 1), [128 * kib, 32 * kib, kib, 4 * kib, 8 * kib]);
}

#[test]
fn a_core_with_one_step_needs_one_buffer() {
    let buffers = |columns, cores| {
        let ledger = on_cores(&module(2, columns), &TARGETS[2], None, cores);
        ledger.terms[0].buffers
    };
    assert_eq!([buffers(1, 1), buffers(1, 2), buffers(2, 2)], [2, 1, 2]);
}

proptest! {
    #[test]
    fn a_larger_limit_never_turns_fits_into_oom(
        limit in 0_u64..1 << 20, more in 0_u64..1 << 28, target in 0..TARGETS.len(),
        needed in 0_u64..100,
    ) {
        let target = &TARGETS[target];
        let module = module(3, 4);
        let registers = Registers { needed, held: 50, bytes: 4096 };
        let of = |limit| ledger(&module, target, limit).with_spills(registers);
        let fits = |limit| of(Some(limit)).fits();
        prop_assert!(!fits(limit) || fits(limit + more));
        let used = of(None).used_bytes();
        prop_assert_eq!(fits(limit), used <= limit);
        let probability = |limit| of(Some(limit)).fit_probability();
        prop_assert!((0.0..=1.0).contains(&probability(limit)));
        prop_assert!(probability(limit) <= probability(limit + more));
        // The verdict is the likelier one, except where it is even: spills come in whole slots.
        let ledger = of(Some(limit));
        prop_assert!(!ledger.fits() || ledger.fit_probability() >= 0.5);
        prop_assert!(ledger.margin_bytes() > -4096 || ledger.fit_probability() <= 0.5);
    }
}

#[test]
fn the_room_for_spills_is_at_most_a_tenth_of_all() {
    for target in &TARGETS {
        let room = room_bytes(target);
        assert!(10 * room <= target.vmem_usable_bytes.value, "{target}");
        let kib = if target.generation == Generation::V4 {
            1638
        } else {
            4096
        };
        assert_eq!(room >> 10, kib, "{target}");
    }
}

#[test]
fn the_verdict_is_open_only_near_the_limit_and_only_for_spills() {
    let target = &TARGETS[1];
    let counted = ledger(&module(3, 4), target, None).used_bytes();
    let at = |slots: u64, limit: u64| {
        let registers = Registers {
            needed: 50 + slots,
            held: 50,
            bytes: 4096,
        };
        ledger(&module(3, 4), target, Some(limit)).with_spills(registers)
    };
    let used = at(100, 1 << 20).used_bytes();
    assert_eq!(used, counted + 100 * 4096);
    let even = at(100, used);
    assert_eq!((even.fits(), even.margin_bytes()), (true, 0));
    assert_eq!(even.fit_probability(), 0.5);
    assert!(is_open(even.fit_probability()));
    // One standard deviation of a logistic variable.
    let room = (SPILL_ERROR.exp() * 150.0) as u64 - 50;
    let likely = at(100, counted + room * 4096).fit_probability();
    assert!((likely - 0.86).abs() < 0.01, "{likely}");
    assert!(!is_open(at(100, counted + (4 << 30)).fit_probability()));
    // Windows and scratch are counted: they leave no doubt.
    let over = at(100, counted - 1);
    assert_eq!(over.fit_probability(), 0.0);
    let exact = ledger(&module(3, 4), target, Some(counted));
    assert_eq!(exact.fit_probability(), 1.0);
    assert!(!is_open(0.0) && !is_open(1.0));
}

#[test]
fn rows_of_several_registers_are_spread_through_memory_on_v4() {
    let kernel = |row: usize| {
        let text = format!(
            "module @m {{
func.func @kernel(%i: i32, %x: memref<1x{row}xf32, #tpu.memory_space<vmem>>, \
%y: memref<16x128xf32, #tpu.memory_space<vmem>>) attributes \
{{dimension_semantics = [#tpu.dimension_semantics<arbitrary>], iteration_bounds = array<i64: 1>, \
scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, \
window_params = [{{transform_indices = @a, window_bounds = array<i64: 1, {row}>}}, \
{{transform_indices = @a, window_bounds = array<i64: 16, 128>}}]}} {{
%c0 = arith.constant 0 : index
%0 = vector.load %x[%c0, %c0] : memref<1x{row}xf32, #tpu.memory_space<vmem>>, vector<1x{row}xf32>
%1 = vector.extract_strided_slice %0 offsets = [0, 0], sizes = [1, 128], strides = [1, 1] : vector<1x{row}xf32> to \
vector<1x128xf32>
%2 = vector.broadcast %1 : vector<1x128xf32> to vector<16x128xf32>
tpu.vector_store %y[%c0, %c0], %2 {{strides = array<i32>}} : memref<16x128xf32, #tpu.memory_space<vmem>>, \
vector<16x128xf32>,
return
}}
func.func @a(%i: i32) -> (i32, i32) {{
%z = arith.constant 0 : i32
return %z, %z : i32, i32
}}
}}
"
        );
        Module::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"))
    };
    let internal = |target: &'static Target, row| -> u64 {
        let ledger = ledger(&kernel(row), target, None);
        let internal = |term: &&Term| term.kind == TermKind::Internal;
        ledger
            .terms
            .iter()
            .filter(internal)
            .map(|term| term.bytes)
            .sum()
    };
    let v4 = Target::by_name("v4").unwrap();
    assert_eq!(internal(v4, 256), 4 << 10);
    assert_eq!(internal(v4, 128), 0);
    assert_eq!(internal(Target::by_name("v5e").unwrap(), 256), 0);
}
