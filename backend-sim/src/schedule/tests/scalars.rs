//! What scalar code costs: copies that a kernel starts, branches of them, scalars that index maps look up.

use super::*;

const HBM: &str = "memref<8x128xf32, #tpu.memory_space<hbm>>";
const VMEM: &str = "memref<8x128xf32, #tpu.memory_space<vmem>>";
const SMEM: &str = "memref<?xi32, #tpu.memory_space<smem>>";
const SEMAPHORE: &str = "memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>";

/// A kernel of eight steps with `elements` prefetched scalars, whose window is at the block that `map` says.
fn kernel(elements: usize, map: &str, body: &str) -> Module {
    let smem = SMEM.replace('?', &elements.to_string());
    let text = format!(
        "module @probe {{\n  func.func @probe(%i: i32, %s: {smem}, %arg0: {VMEM}, %h: {HBM}, %v: {VMEM}, %p: {SEMAPHORE}) attributes {{\
         dimension_semantics = [#tpu.dimension_semantics<arbitrary>], iteration_bounds = array<i64: 8>, scalar_prefetch = 1 : i64, \
         scratch_operands = 2 : i64, tpu.core_type = #tpu.core_type<tc>, window_params = [{{transform_indices = @map, window_bounds = \
         array<i64: 8, 128>}}, {{}}]}} {{\n    %c0 = arith.constant 0 : index\n    %zero = arith.constant 0 : i32\n{body}    return\n  }}\n  \
         func.func @map(%i: i32, %s: {smem}) -> (i32, i32) {{\n    %zero = arith.constant 0 : i32\n    %c0 = arith.constant 0 : index\n\
         {map}    return %b, %zero : i32, i32\n  }}\n}}"
    );
    Module::parse(&text).unwrap()
}

/// A branch where the scalar is not zero.
fn branch(body: &str) -> String {
    format!(
        "    %first = memref.load %s[%c0] : {smem}\n    %yes = arith.cmpi ne, %first, %zero : i32\n    scf.if %yes {{\n{body}    }}\n",
        smem = SMEM.replace('?', "1")
    )
}

fn starts(count: usize) -> String {
    let start = format!(
        "      tpu.enqueue_dma source(%h : {HBM}) target(%v : {VMEM}) target_semaphore(%p : {SEMAPHORE})\n"
    );
    start.repeat(count)
}

const OWN: &str = "    %b = arith.addi %i, %zero : i32\n";

/// The schedule of a step in which all of `elements` scalars have this value.
fn step(
    module: &Module,
    machine: &Machine,
    elements: usize,
    scalar: i64,
) -> (KernelSchedule, StepSchedule) {
    let signature = Signature::read(module).unwrap();
    let scalars = Scalars::new(Vec::new(), vec![Some(vec![scalar; elements])]);
    let grid = Grid::new(module, &signature, &scalars, 1).unwrap();
    let code = Code::of(module, &signature, machine);
    let kernel = (module, &signature, &code);
    let kernel = schedule_grid(kernel, &grid, &scalars, machine, &Memo::default()).unwrap();
    let step = kernel.kinds[0].schedule.clone();
    (kernel, step)
}

#[test]
fn a_branch_of_few_copies_takes_as_long_where_it_is_not_taken() {
    let machine = machine("v6e");
    let cost = |count: usize, scalar: i64| {
        let module = kernel(1, OWN, &branch(&starts(count)));
        let step = step(&module, &machine, 1, scalar).1;
        (
            step.cycles(&machine),
            step.branch_cycles,
            step.transfers.len(),
        )
    };
    let few = 8.0 * machine.copy_cycles();
    assert_eq!(
        [0, 1].map(|scalar| cost(8, scalar)),
        [(few, 0.0, 0), (few, 0.0, 8)]
    );
    // More of them are jumped over.
    let jump = machine.branch_cycles;
    let many = 16.0 * machine.copy_cycles() + jump;
    assert_eq!(
        [0, 1].map(|scalar| cost(16, scalar)),
        [(jump, jump, 0), (many, jump, 16)]
    );
}

#[test]
fn registers_count_whatever_the_scalars_are() {
    // Of a transposition, which is in the branch alone.
    let (row, square) = ("8x128xf32", "128x128xf32");
    let body = load("%in", 0, row)
        + &format!(
            "    %e = vector.extract_strided_slice %in offsets = [0, 0], sizes = [1, 128], strides = [1, 1] : \
             vector<{row}> to vector<1x128xf32>\n    \
             %b = vector.broadcast %e : vector<1x128xf32> to vector<{square}>\n    \
             %t = tpu.transpose %b, [1, 0] : vector<{square}> -> vector<{square}>\n    \
             %u = arith.mulf %t, %t : vector<{square}>\n    \
             %cst = arith.constant dense<0.000000e+00> : vector<128xf32>\n    \
             %r = vector.multi_reduction <add>, %u, %cst [0] : vector<{square}> to vector<128xf32>\n    \
             %c = vector.shape_cast %r : vector<128xf32> to vector<1x128xf32>\n    \
             %o = vector.broadcast %c : vector<1x128xf32> to vector<{row}>\n"
        )
        + &store("%o", 0, row);
    let machine = machine("v5e");
    let module = kernel(1, OWN, &branch(&body));
    let [not, taken] = [0, 1].map(|scalar| {
        let (kernel, step) = step(&module, &machine, 1, scalar);
        (kernel.registers(), step.cycles(&machine))
    });
    assert!(taken.0 > 1.0 && not.0 == taken.0, "{not:?} and {taken:?}");
    assert!(not.1 < taken.1, "{not:?} and {taken:?}");
}

#[test]
fn a_block_hides_the_branch_that_it_ends_in() {
    let machine = machine("v6e");
    let copy = |name: &str| load(name, 0, "8x128xf32") + &store(name, 0, "8x128xf32");
    let branch = branch(&copy("%in"));
    let cycles = |before: &str| {
        let step = step(
            &kernel(1, OWN, &(before.to_owned() + &branch)),
            &machine,
            1,
            0,
        )
        .1;
        (
            step.branch_cycles,
            step.cycles(&machine) - step.branch_cycles,
        )
    };
    let (left, block) = cycles(&copy("%0"));
    assert!(0.0 < block && block < machine.branch_cycles, "{block}");
    assert_eq!(left, machine.branch_cycles - block);
    // A chain of products, each of which waits for the one before.
    let product = |i| {
        format!(
            "    %{} = arith.mulf %{i}, %{i} : vector<8x128xf32>\n",
            i + 1
        )
    };
    let chain: String = (0..16).map(product).collect();
    let many = load("%0", 0, "8x128xf32") + &chain + &store("%16", 0, "8x128xf32");
    let (left, block) = cycles(&many);
    assert!(block > machine.branch_cycles, "{block}");
    assert_eq!(left, 0.0);
    // A second branch comes after none of it.
    let second = branch
        .replace("%first", "%second")
        .replace("%yes", "%too")
        .replace("%in", "%also");
    assert_eq!(cycles(&(many + &second)).0, machine.branch_cycles);
}

/// Scratch that a block stores and then loads whole is dropped, whether the block runs or not.
#[test]
fn scratch_that_only_answers_its_own_block_is_dropped() {
    let machine = machine("v6e");
    let load = |memory: &str, name: &str| {
        format!("      {name} = vector.load %{memory}[%c0, %c0] : {VMEM}, vector<8x128xf32>\n")
    };
    let store = |memory: &str, name: &str| {
        format!(
            "      tpu.vector_store %{memory}[%c0, %c0], {name} {{strides = array<i32>}} : {VMEM}, vector<8x128xf32>, \n"
        )
    };
    let dropped = |body: &str| {
        let module = kernel(1, OWN, &branch(body));
        [0, 1].map(|scalar| step(&module, &machine, 1, scalar).0.dropped.len())
    };
    let own = load("arg0", "%a") + &store("v", "%a") + &load("v", "%b") + &store("arg0", "%b");
    assert_eq!(dropped(&own), [1, 1]);
    let of_before = load("v", "%a") + &store("arg0", "%a") + &store("v", "%a");
    assert_eq!(dropped(&of_before), [0, 0]);
}

#[test]
fn what_a_kernel_stores_in_every_step_is_what_it_finds() {
    let machine = machine("v6e");
    let taken = |stored: &str| {
        let store = format!(
            "    %one = arith.constant 1 : i32\n    memref.store {stored}, %s[%c0] : {}\n",
            SMEM.replace('?', "1")
        );
        let module = kernel(1, OWN, &(branch(&starts(1)) + &store));
        let step = step(&module, &machine, 1, 1).1;
        (step.transfers.len(), step.unknown_conditions)
    };
    assert_eq!(["%zero", "%one", "%i"].map(taken), [(0, 0), (1, 0), (1, 1)]);
}

#[test]
fn scalars_that_are_looked_up_take_time_around_a_step() {
    let machine = machine("v5e");
    let around = |map: &str| {
        let module = kernel(8, map, "");
        let kernel = step(&module, &machine, 8, 0).0;
        kernel.step_cycles(&machine)
    };
    let smem = SMEM.replace('?', "8");
    let at = |index: &str| {
        format!(
            "    %at = arith.index_cast %i : i32 to index\n    %b = memref.load %s[{index}] : {smem}\n"
        )
    };
    let [own, constant, changing] = [OWN, &at("%c0"), &at("%at")].map(around);
    // What is looked up at one place is of one block in all steps.
    let [_, moving, still, ..] = machine.step_cycles;
    assert!((constant - (own - moving + still)).abs() < 1e-9);
    let [.., look_up] = machine.step_cycles;
    assert!((changing - own - look_up).abs() < 1e-9);
}
