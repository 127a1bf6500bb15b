//! Rolled loops, and copies in and beside them.

use tilecast_core::DType;
use tilecast_core::kernels::entropy::Entropy;
use tilecast_core::kernels::softmax::{Blocks, LogitsOptions, Schedule};
use tilecast_tpu::lower::{F32Products, lower};

use super::*;

/// Cycles of an iteration over 16 rows in the gradient of an entropy, `v` columns at a time.
fn gradient_iteration(target: &str, dtype: DType, v: usize) -> f64 {
    let machine = machine(target);
    let op = Entropy::new(128, v, dtype, LogitsOptions::default()).unwrap();
    let blocks = Blocks::for_target(128, v, machine.target);
    let program = op.backward(&Schedule::new(blocks)).unwrap();
    let kernel = &program.launches()[0].0.kernel;
    let module = lower(kernel, F32Products::default()).unwrap();
    let schedule = schedule(&module, &machine).unwrap();
    let regions = schedule
        .kinds
        .iter()
        .flat_map(|kind| &kind.schedule.regions);
    let iteration = regions
        .filter(|region| region.times == 8.0)
        .map(|r| r.cycles);
    iteration.sum::<f64>() + machine.loop_cycles
}

/// Four registers: a chain of operations, of which each waits for the one before.
#[test]
fn a_short_iteration_takes_what_its_latencies_add_up_to() {
    for (target, listed) in [
        ("v4", 33.0),
        ("v5e", 26.0),
        ("v5p", 28.0),
        ("v6e", 32.0),
        ("v7x", 29.0),
    ] {
        let cycles = gradient_iteration(target, DType::Bf16, 256);
        assert!((cycles - listed).abs() <= 3.0, "{target}: {cycles}");
    }
}

/// 256 registers, and one store a cycle: placed operation by operation all of them would come after the last sum.
#[test]
fn a_long_iteration_takes_what_its_fullest_unit_does() {
    let listed = 532.0;
    let cycles = gradient_iteration("v5e", DType::F32, 16384);
    assert!((cycles / listed - 1.0).abs() < 0.05, "{cycles}");
}

#[test]
fn each_way_through_a_loop_counts_as_often_as_it_is_taken() {
    // One iteration of eight loads and stores, the others do nothing; a copy of a size that is computed each time.
    let body = "    %c0_i32 = arith.constant 0 : i32\n    %c1 = arith.constant 1 : i32\n    \
         %c8 = arith.constant 8 : i32\n    %n = arith.constant 1000 : i32\n    \
         %end = scf.for %i = %c0_i32 to %n step %c1 iter_args(%k = %c0_i32) -> (i32) : i32 {\n      \
         %r = arith.remsi %k, %c8 : i32\n      %b = arith.cmpi eq, %r, %c0_i32 : i32\n      scf.if %b {\n"
        .to_owned()
        + &load("%0", 0, "8x128xf32")
        + &store("%0", 1, "8x128xf32")
        + "      }\n      %next = arith.addi %k, %c1 : i32\n      scf.yield %next : i32\n    }\n";
    let module = probe(&["8x128xf32", "8x128xf32"], &body);
    let machine = Machine::new(&TARGETS[0]);
    let schedule = schedule(&module, &machine).unwrap();
    let [step] = &schedule.kinds[..] else {
        panic!("one kind of step");
    };
    assert_eq!(step.schedule.iterations, 1000.0);
    // Nothing stands before the branch that could hide it.
    let branches = step.schedule.branch_cycles / machine.branch_cycles;
    assert!((branches - 1000.0).abs() < 1e-6, "{branches}");
    assert_eq!(step.schedule.slots(Unit::Load), 125.0);
    assert_eq!(step.schedule.slots(Unit::Store), 125.0);
}

#[test]
fn copies_start_and_are_waited_for_between_blocks() {
    let (hbm, vmem) = (
        "memref<8x128xf32, #tpu.memory_space<hbm>>",
        "memref<8x128xf32, #tpu.memory_space<vmem>>",
    );
    let semaphore = "memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>";
    let copy = |op: &str, [source, from]: [&str; 2], [target, to]: [&str; 2], with: &str| {
        format!(
            "    tpu.{op} source({source} : {from}) target({target} : {to}) target_semaphore({with} : {semaphore})\n"
        )
    };
    let [far, near] = [["%h", hbm], ["%v", vmem]];
    let work = load("%x", 0, "8x128xf32") + &store("%x", 0, "8x128xf32");
    let body = [
        // In a loop, there and back ten times.
        "    scf.for %i = %z to %ten step %one : i32 {\n",
        &copy("enqueue_dma", far, near, "%p"),
        &copy("wait_dma", far, near, "%p"),
        &work,
        &copy("enqueue_dma", near, far, "%q"),
        &copy("wait_dma", near, far, "%q"),
        "    }\n",
        // Beside a block.
        &copy("enqueue_dma", far, near, "%p"),
        &work,
        &copy("wait_dma", far, near, "%p"),
    ]
    .concat();
    let text = format!(
        "module @probe {{\n  func.func @probe(%arg0: {vmem}, %h: {hbm}, %v: {vmem}, %p: {semaphore}, %q: {semaphore}) \
         attributes {{scratch_operands = 3 : i64, tpu.core_type = #tpu.core_type<tc>}} {{\n    %c0 = arith.constant 0 : index\n\
         \x20   %z = arith.constant 0 : i32\n    %one = arith.constant 1 : i32\n    %ten = arith.constant 10 : i32\n{body}    \
         return\n  }}\n}}"
    );
    let module = Module::parse(&text).unwrap();
    let kernel = schedule(&module, &machine("v5e")).unwrap();
    let step = &kernel.kinds[0].schedule;
    // The scalar code of each start, and what is loaded and stored.
    let times: Vec<f64> = step.regions.iter().map(|region| region.times).collect();
    assert_eq!(times, [10.0, 10.0, 10.0, 1.0, 1.0]);
    let starts = [0, 2, 3].map(|i| step.regions[i].cycles);
    assert_eq!(starts, [machine("v5e").copy_cycles(); 3]);
    let semaphores = [0, 1].map(|i| step.transfers[i].semaphore);
    assert_ne!(semaphores[0], semaphores[1]);
    let start = |times| Event::Start {
        bytes: 4096.0,
        times,
    };
    let events = [
        // All of the loop's copies run beside it.
        (0, Direction::Load, 0, start(10.0)),
        (0, Direction::Store, 1, start(10.0)),
        (3, Direction::Load, 0, Event::Wait),
        (3, Direction::Store, 1, Event::Wait),
        (4, Direction::Load, 0, start(1.0)),
        (5, Direction::Load, 0, Event::Wait),
    ];
    let expected = events.map(|(after, direction, semaphore, event)| Transfer {
        after,
        direction,
        semaphore: semaphores[semaphore],
        event,
    });
    assert_eq!(step.transfers, expected);
}

#[test]
fn a_loop_goes_on_as_long_as_its_condition_holds_and_once_if_it_is_unknown() {
    let kernel = |condition: &str| {
        let body = format!(
            "    %z = arith.constant 0 : i32\n    %one = arith.constant 1 : i32\n    %ten = arith.constant 10 : i32\n\
             \x20   %end = scf.while (%i = %z) : (i32) -> (i32) {{\n{condition}      scf.condition(%b) %i : i32\n    }} do {{\n\
             \x20   ^bb0(%i: i32):\n"
        ) + &load("%0", 0, "8x128xf32")
            + &store("%0", 1, "8x128xf32")
            + "      %next = arith.addi %i, %one : i32\n      scf.yield %next : i32\n    }\n";
        let module = probe(&["8x128xf32", "8x128xf32"], &body);
        let kernel = schedule(&module, &machine("v5e")).unwrap();
        kernel.kinds[0].schedule.clone()
    };
    let known = kernel("      %b = arith.cmpi slt, %i, %ten : i32\n");
    assert_eq!(known.iterations, 10.0);
    assert_eq!(known.slots(Unit::Load), 10.0);
    assert_eq!(known.unknown_trips, 0);
    let semaphore = "memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>";
    let unknown = kernel(&format!(
        "      %s = tpu.sem_alloc : {semaphore}\n      %n = tpu.sem_read %s : {semaphore} -> i32\n      \
         %b = arith.cmpi slt, %n, %ten : i32\n"
    ));
    assert_eq!((unknown.iterations, unknown.unknown_trips), (1.0, 1));
    let never = kernel("      %b = arith.cmpi sgt, %i, %ten : i32\n");
    assert_eq!((never.iterations, never.slots(Unit::Load)), (0.0, 0.0));
}

#[test]
fn a_loop_with_a_condition_is_followed_inside_of_another() {
    // As many iterations as the number of the outer one: 0 + 1 + 2 + 3.
    let body = "    %z = arith.constant 0 : i32\n    %one = arith.constant 1 : i32\n    %four = arith.constant 4 : i32\n    \
         scf.for %o = %z to %four step %one : i32 {\n      \
         %end = scf.while (%i = %z) : (i32) -> (i32) {\n        %b = arith.cmpi slt, %i, %o : i32\n        \
         scf.condition(%b) %i : i32\n      } do {\n      ^bb0(%i: i32):\n"
        .to_owned()
        + &load("%0", 0, "8x128xf32")
        + &store("%0", 1, "8x128xf32")
        + "        %next = arith.addi %i, %one : i32\n        scf.yield %next : i32\n      }\n    }\n";
    let module = probe(&["8x128xf32", "8x128xf32"], &body);
    let kernel = schedule(&module, &machine("v5e")).unwrap();
    let step = &kernel.kinds[0].schedule;
    assert_eq!(step.slots(Unit::Load), 6.0);
    assert_eq!(step.unknown_trips, 0);
}
