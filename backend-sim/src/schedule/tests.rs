//! Probes of one operation, against what libtpu 0.0.51 schedules for them.

use tilecast_core::target::{TARGETS, Target};
use tilecast_tpu::mosaic::Module;

use super::*;

mod attention;
mod loops;
mod masks;
mod products;
mod registers;
mod scalars;
mod stores;

/// A kernel of one block over operands in VMEM.
fn probe(arguments: &[&str], body: &str) -> Module {
    with_scratch(arguments, 0, body)
}

/// The same, with the last arguments as scratch.
fn with_scratch(arguments: &[&str], scratch: usize, body: &str) -> Module {
    let arguments: Vec<String> = (arguments.iter().enumerate())
        .map(|(i, shape)| format!("%arg{i}: memref<{shape}, #tpu.memory_space<vmem>>"))
        .collect();
    let text = format!(
        "module @probe {{\n  func.func @probe({}) attributes {{scratch_operands = {scratch} : i64, \
         tpu.core_type = #tpu.core_type<tc>}} {{\n    %c0 = arith.constant 0 : index\n{body}\n    return\n  }}\n}}",
        arguments.join(", ")
    );
    Module::parse(&text).unwrap()
}

fn load(name: &str, argument: usize, shape: &str) -> String {
    format!(
        "    {name} = vector.load %arg{argument}[%c0, %c0] : memref<{shape}, #tpu.memory_space<vmem>>, \
         vector<{shape}>\n"
    )
}

fn store(name: &str, argument: usize, shape: &str) -> String {
    format!(
        "    tpu.vector_store %arg{argument}[%c0, %c0], {name} {{strides = array<i32>}} : \
         memref<{shape}, #tpu.memory_space<vmem>>, vector<{shape}>, \n"
    )
}

/// The schedule of a probe, which has no grid.
fn schedule(module: &Module, machine: &Machine) -> Result<KernelSchedule, ScheduleError> {
    let signature = Signature::read(module).unwrap();
    let scalars = Scalars::default();
    let grid = Grid::new(module, &signature, &scalars, 1).unwrap();
    let code = Code::of(module, &signature, machine);
    let kernel = (module, &signature, &code);
    schedule_grid(kernel, &grid, &scalars, machine, &Memo::default())
}

fn machine(target: &str) -> Machine {
    Machine::new(Target::by_name(target).unwrap())
}

/// Cycles on v4, v5e, v5p, v6e and v7x.
fn cycles(module: &Module) -> [f64; 5] {
    ["v4", "v5e", "v5p", "v6e", "v7x"].map(|name| {
        let machine = machine(name);
        let kernel = schedule(module, &machine).unwrap();
        kernel.kinds[0].schedule.cycles(&machine)
    })
}

fn assert_near(predicted: [f64; 5], measured: [f64; 5], tolerance: f64) {
    for (p, m) in predicted.iter().zip(measured) {
        assert!(
            (p / m - 1.0).abs() <= tolerance,
            "predicted {predicted:.2?}, measured {measured:?}, tolerance {tolerance}"
        );
    }
}

/// Types of the operands and the result of a product.
fn product_types(m: usize, k: usize, n: usize) -> [String; 3] {
    [
        format!("{m}x{k}xbf16"),
        format!("{k}x{n}xbf16"),
        format!("{m}x{n}xf32"),
    ]
}

/// The product of `%0` and `%1`, and `%cst`. Those of the same number are one.
fn product(name: &str, number: usize, [lhs, rhs, out]: &[String; 3]) -> String {
    format!(
        "    {name} = tpu.matmul %0, %1, %cst {{dimension_numbers = #tpu.dot_dimension_numbers<[1], [0], [0], [1], \
         [0, 0, 1, 1], [], []>, number = {number} : i32}} : vector<{lhs}>, vector<{rhs}>, vector<{out}> -> vector<{out}>\n"
    )
}

/// The product of these over the rows of both, and its zeros.
fn product_of_rows(name: &str, operands: [&str; 2], [lhs, rhs, out]: [&str; 3]) -> String {
    format!(
        "    {name}z = arith.constant dense<0.000000e+00> : vector<{out}>\n    \
         {name} = tpu.matmul {operands}, {name}z {{dimension_numbers = #tpu.dot_dimension_numbers<[0], [0], [1], [1], \
         [0, 1, 1, 1], [], []>, transpose_lhs_hint = false}} : vector<{lhs}>, vector<{rhs}>, vector<{out}> -> vector<{out}>\n",
        operands = operands.join(", ")
    )
}

/// Loads of the operands of a product, and its zeros.
fn operands([lhs, rhs, out]: &[String; 3]) -> String {
    let zeros = format!("    %cst = arith.constant dense<0.000000e+00> : vector<{out}>\n");
    load("%0", 0, lhs) + &load("%1", 1, rhs) + &zeros
}

fn matmul(m: usize, k: usize, n: usize) -> Module {
    let types = product_types(m, k, n);
    let [lhs, rhs, out] = &types;
    let body = operands(&types) + &product("%2", 0, &types) + &store("%2", 2, out);
    probe(&[lhs, rhs, out], &body)
}

/// Four products of `256 x k` and `k x 128`, each added to the same sum in a memory.
fn sums_of_products(k: usize) -> Module {
    let types = product_types(256, k, 128);
    let [lhs, rhs, sum] = &types;
    let mut body = operands(&types);
    for i in 0..4 {
        body += &product(&format!("%p{i}"), i, &types);
        body += &load(&format!("%s{i}"), 2, sum);
        body += &format!("    %t{i} = arith.addf %s{i}, %p{i} : vector<{sum}>\n");
        body += &store(&format!("%t{i}"), 2, sum);
    }
    probe(&[lhs, rhs, sum], &body)
}

fn exp() -> Module {
    let shape = "1024x1024xf32";
    let exp = format!("    %1 = math.exp %0 : vector<{shape}>\n");
    let body = load("%0", 0, shape) + &exp + &store("%1", 1, shape);
    probe(&[shape, shape], &body)
}

#[test]
fn products_take_the_rate_of_the_units_and_a_latency() {
    assert_near(
        cycles(&matmul(512, 512, 512)),
        [2228.0, 2220.0, 2230.0, 783.0, 798.0],
        0.10,
    );
    assert_near(
        cycles(&matmul(1024, 512, 1024)),
        [8371.0, 8396.0, 8406.0, 2325.0, 2338.0],
        0.06,
    );
}

#[test]
fn a_sum_of_products_side_by_side_is_stored_once() {
    let stores = |k, name: &str| {
        let machine = machine(name);
        let schedule = schedule(&sums_of_products(k), &machine).unwrap();
        schedule.kinds[0].schedule.slots(Unit::Store) / 32.0
    };
    // libtpu stores the sum once for as many products as there are units and none of them takes several.
    assert_eq!(stores(128, "v5e"), 1.0);
    assert_eq!(stores(256, "v5e"), 2.0);
    assert_eq!(stores(512, "v5e"), 4.0);
    assert_eq!(stores(256, "v6e"), 2.0);
    assert_eq!(stores(512, "v6e"), 4.0);
    // Here a product keeps to one unit.
    assert_eq!(stores(512, "v7x"), 2.0);
}

#[test]
fn units_share_a_contraction_if_no_other_product_is_there() {
    let machine = machine("v7x");
    let types = product_types(256, 512, 256);
    let [lhs, rhs, out] = &types;
    let pops = |products: usize| {
        let mut body = operands(&types);
        for i in 0..products {
            body += &product(&format!("%p{i}"), i, &types);
            body += &store(&format!("%p{i}"), 2 + i, out);
        }
        let module = probe(&[lhs, rhs, out, out], &body);
        let schedule = schedule(&module, &machine).unwrap();
        schedule.kinds[0].schedule.slots(Unit::Pop)
    };
    // Each of two units makes half of the sum, and both are popped; or each makes a product of its own.
    assert_eq!(pops(1), 2.0 * 64.0);
    assert_eq!(pops(2), 2.0 * 64.0);
}

#[test]
fn halves_of_tiles_are_combined_in_rows_of_multiples_of_1024_elements() {
    let machine = machine("v6e");
    let combined = |n: usize| {
        let schedule = schedule(&matmul(128, 256, n), &machine).unwrap();
        schedule.kinds[0].schedule.slots(Unit::Valu)
    };
    assert_eq!(
        [512, 1024, 1536, 2048].map(combined),
        [0.0, 128.0, 0.0, 256.0]
    );
}

#[test]
fn exponentials_are_bound_by_their_unit() {
    let registers = 1024.0;
    assert_near(
        cycles(&exp()).map(|c| c / registers),
        [2.0, 1.0, 1.0, 1.0, 1.0],
        0.12,
    );
}

#[test]
fn column_sums_are_bound_by_loads_and_additions() {
    let (from, to) = ("1024x1024xf32", "1x1024xf32");
    let sum = "    %cst = arith.constant dense<0.000000e+00> : vector<1024xf32>\n    \
         %1 = vector.multi_reduction <add>, %0, %cst [0] : vector<1024x1024xf32> to vector<1024xf32>\n    \
         %2 = vector.shape_cast %1 : vector<1024xf32> to vector<1x1024xf32>\n";
    let body = load("%0", 0, from) + sum + &store("%2", 1, to);
    let per_register = cycles(&probe(&[from, to], &body)).map(|c| c / 1024.0);
    assert_near(per_register, [1.15, 0.5, 0.5, 0.55, 0.55], 0.35);
}

#[test]
fn one_register_of_bf16_widens_to_two() {
    let additions = |rows: usize| {
        let [narrow, wide] = ["bf16", "f32"].map(|element| format!("{rows}x1024x{element}"));
        let widened = format!(
            "    %1 = arith.extf %0 : vector<{narrow}> to vector<{wide}>\n    \
             %2 = arith.addf %1, %1 : vector<{wide}>\n"
        );
        let body = load("%0", 0, &narrow) + &widened + &store("%2", 1, &wide);
        let module = probe(&[&narrow, &wide], &body);
        let machine = machine("v5e");
        let kernel = schedule(&module, &machine).unwrap();
        kernel.kinds[0].schedule.slots(Unit::Valu)
    };
    assert_eq!(additions(32), 2.0 * additions(16));
}

#[test]
fn two_registers_of_f32_are_packed_into_one_at_once() {
    let [wide, narrow] = ["256x512xf32", "256x512xbf16"];
    let body = [
        load("%0", 0, wide),
        format!("    %1 = arith.truncf %0 : vector<{wide}> to vector<{narrow}>\n"),
        store("%1", 1, narrow),
    ];
    let kernel = schedule(&probe(&[wide, narrow], &body.concat()), &machine("v6e")).unwrap();
    assert_eq!(kernel.kinds[0].schedule.slots(Unit::Valu), 64.0);
}

#[test]
fn twice_the_rows_are_twice_the_work() {
    let (once, twice) = (matmul(512, 512, 512), matmul(1024, 512, 512));
    let machine = machine("v5e");
    let slots = |module| {
        let kernel = schedule(module, &machine).unwrap();
        Unit::ALL.map(|unit| kernel.kinds[0].schedule.slots(unit))
    };
    let (one, two) = (slots(&once), slots(&twice));
    for unit in [Unit::Mxu, Unit::Pop, Unit::Store] {
        assert!(
            (two[unit as usize] / one[unit as usize] - 2.0).abs() < 1e-6,
            "{unit:?}"
        );
    }
    assert_eq!(two[Unit::Push as usize], one[Unit::Push as usize]);
}

#[test]
fn what_nothing_needs_is_dropped_and_what_repeats_is_done_once() {
    let shape = "256x512xf32";
    let exp = |to: &str, from: &str| format!("    {to} = math.exp {from} : vector<{shape}>\n");
    let once = load("%0", 0, shape) + &exp("%1", "%0") + &store("%1", 1, shape);
    let more = load("%0", 0, shape)
        + &load("%4", 0, shape)
        + &exp("%1", "%0")
        + &exp("%2", "%4")
        + &exp("%3", "%2")
        + &format!("    %5 = arith.maximumf %1, %2 : vector<{shape}>\n")
        + &store("%5", 1, shape);
    let machine = machine("v6e");
    let eup = |body: &str| {
        let kernel = schedule(&probe(&[shape, shape], body), &machine).unwrap();
        kernel.kinds[0].schedule.slots(Unit::Eup)
    };
    assert_eq!(eup(&once), 128.0);
    assert_eq!(eup(&more), 128.0);
}

#[test]
fn what_is_made_of_equal_scalars_repeats() {
    let shape = "256x512xf32";
    let exp = |name: &str, factor: f64| {
        format!(
            "    {name}s = arith.constant {factor:.1} : f32\n    {name}t = arith.addf {name}s, {name}s : f32\n    \
             {name}v = vector.broadcast {name}t : f32 to vector<{shape}>\n    \
             {name}m = arith.mulf %0, {name}v : vector<{shape}>\n    {name} = math.exp {name}m : vector<{shape}>\n"
        )
    };
    let eup = |factors: [f64; 2]| {
        let body = load("%0", 0, shape)
            + &exp("%x", factors[0])
            + &exp("%y", factors[1])
            + &format!("    %1 = arith.maximumf %x, %y : vector<{shape}>\n")
            + &store("%1", 1, shape);
        let kernel = schedule(&probe(&[shape, shape], &body), &machine("v6e")).unwrap();
        kernel.kinds[0].schedule.slots(Unit::Eup)
    };
    assert_eq!(eup([3.0, 3.0]), 128.0);
    assert_eq!(eup([3.0, 4.0]), 256.0);
}

/// Registers that v5e wants for the most of a block.
fn registers(module: &Module) -> f64 {
    let machine = machine("v5e");
    schedule(module, &machine).unwrap().registers()
}

#[test]
fn values_side_by_side_are_held_once() {
    // A largest element and a sum of each row, 32 registers each, eight times beside each other.
    let [row, wide] = ["256x128xf32", "256x2048xf32"];
    let reduced = |to: &str, kind: &str| {
        format!(
            "    {to}r = vector.multi_reduction <{kind}>, %0, %cst [1] : vector<{row}> to vector<256xf32>\n    \
             {to}c = vector.shape_cast {to}r : vector<256xf32> to vector<256x1xf32>\n    \
             {to} = vector.broadcast {to}c : vector<256x1xf32> to vector<{row}>\n"
        )
    };
    let joined = |[a, b]: [&str; 2]| {
        let body = load("%0", 0, row)
            + "    %cst = arith.constant dense<0.000000e+00> : vector<256xf32>\n"
            + &format!("    %3 = arith.constant dense<1.000000e+00> : vector<{row}>\n")
            + &format!("    %4 = arith.constant dense<2.000000e+00> : vector<{row}>\n")
            + &reduced("%1", "maximumf")
            + &reduced("%2", "add")
            + &format!(
                "    %5 = tpu.concatenate {} in 1 : {} -> vector<{wide}>\n",
                [a, b].repeat(8).join(", "),
                vec![format!("vector<{row}>"); 16].join(", ")
            )
            + &store("%5", 1, wide);
        registers(&probe(&[row, wide], &body))
    };
    let of_sums = joined(["%1", "%2"]);
    assert!((32.0..=64.0).contains(&of_sums), "{of_sums}");
    assert!(joined(["%3", "%4"]) <= 1.0);
}

#[test]
fn what_is_made_of_a_load_is_made_where_it_is_needed() {
    // Four times 32 registers, each read beside the total of another operand and by what is multiplied with that.
    let shape = "256x128xf32";
    let mut body = load("%0", 8, shape)
        + "    %cst = arith.constant dense<0.000000e+00> : vector<128xf32>\n"
        + &format!("    %two = arith.constant dense<2.000000e+00> : vector<{shape}>\n")
        + &format!(
            "    %1 = vector.multi_reduction <add>, %0, %cst [0] : vector<{shape}> to vector<128xf32>\n"
        )
        + "    %2 = vector.shape_cast %1 : vector<128xf32> to vector<1x128xf32>\n"
        + &format!("    %3 = vector.broadcast %2 : vector<1x128xf32> to vector<{shape}>\n");
    for i in 0..4 {
        let two = |name: &str, op: &str, [a, b]: [&str; 2]| {
            format!("    {name}{i} = arith.{op} {a}{i}, {b} : vector<{shape}>\n")
        };
        body += &load(&format!("%a{i}"), i, shape);
        body += &two("%b", "mulf", ["%a", "%two"]);
        body += &two("%e", "mulf", ["%b", "%3"]);
        body += &two("%d", "addf", ["%e", &format!("%a{i}")]);
        body += &store(&format!("%d{i}"), 4 + i, shape);
    }
    let held = registers(&probe(&[shape; 9], &body));
    assert!(held < 64.0, "{held}");
}

#[test]
fn a_scratch_of_which_parts_are_read_where_it_was_stored_is_kept_in_registers() {
    let (shape, half) = ("256x128xf32", "128x128xf32");
    let load_half = |name: &str, row: usize| {
        format!(
            "    %r{row} = arith.constant {row} : index\n    {name} = vector.load %arg2[%r{row}, %c0] : \
             memref<{shape}, #tpu.memory_space<vmem>>, vector<{half}>\n"
        )
    };
    let body = |row: usize| {
        load("%0", 1, shape)
            + &format!("    %1 = math.exp %0 : vector<{shape}>\n")
            + &store("%1", 2, shape)
            + &load_half("%2", row)
            + &store("%2", 0, half)
    };
    let machine = machine("v5e");
    let dropped = |row: usize| {
        let module = with_scratch(&[half, shape, shape], 1, &body(row));
        let kernel = schedule(&module, &machine).unwrap();
        (kernel.dropped.len(), kernel.registers())
    };
    let (dropped_half, held) = dropped(128);
    assert_eq!(dropped_half, 1);
    // Not a part of each register, as of what goes to memory.
    assert!(held >= 16.0, "{held}");
    // Half of what is read was not stored.
    assert_eq!(dropped(192).0, 0);
}

#[test]
fn a_scratch_whose_rows_end_within_a_register_stays() {
    let dropped = |columns: usize| {
        let shape = format!("256x{columns}xf32");
        let body = load("%0", 1, &shape)
            + &format!("    %1 = math.exp %0 : vector<{shape}>\n")
            + &store("%1", 2, &shape)
            + &load("%2", 2, &shape)
            + &store("%2", 0, &shape);
        let module = with_scratch(&[shape.as_str(); 3], 1, &body);
        schedule(&module, &machine("v5e")).unwrap().dropped.len()
    };
    assert_eq!([256, 192].map(dropped), [1, 0]);
}

#[test]
fn what_passes_by_an_exception_takes_no_time_but_room_for_its_spills() {
    let shape = "256x512xf32";
    let kernel = |exception: &str| {
        let body = load("%0", 0, shape)
            + &format!("    %1 = math.exp %0 : vector<{shape}>\n")
            + &store("%1", 1, shape)
            + "    %least = arith.constant dense<0xFF800000> : vector<1xf32>\n    \
               %part = vector.extract_strided_slice %1 offsets = [0, 0], sizes = [8, 128], strides = [1, 1] : \
               vector<256x512xf32> to vector<8x128xf32>\n    \
               %whole = vector.shape_cast %part : vector<8x128xf32> to vector<1x8x128xf32>\n    \
               %max = vector.multi_reduction <maximumf>, %whole, %least [1, 2] : vector<1x8x128xf32> to vector<1xf32>\n    \
               %one = vector.shape_cast %max : vector<1xf32> to vector<1x1x1xf32>\n    \
               %scalar = vector.extract %one[0, 0, 0] : f32 from vector<1x1x1xf32>\n    \
               %limit = arith.constant 1.000000e+06 : f32\n    \
               %large = arith.cmpf ogt, %scalar, %limit : f32\n    \
               scf.if %large {\n"
            + exception
            + "    }\n";
        let machine = machine("v5e");
        let module = probe(&[shape, shape, "256x256xf32", "512x256xf32"], &body);
        let kernel = schedule(&module, &machine).unwrap();
        let step = &kernel.kinds[0].schedule;
        assert_eq!(step.exceptions, 1);
        (step.cycles(&machine), kernel.registers())
    };
    // An exact product, whose operands are split into parts that wait for their passes.
    let product = load("%2", 1, shape)
        + &load("%3", 3, "512x256xf32")
        + "    %cst = arith.constant dense<0.000000e+00> : vector<256x256xf32>\n    \
           %4 = tpu.matmul %2, %3, %cst {dimension_numbers = #tpu.dot_dimension_numbers<[1], [0], [0], [1], [0, 0, 1, 1], \
           [], []>, precision = #tpu.contract_precision<fp32>} : vector<256x512xf32>, vector<512x256xf32>, \
           vector<256x256xf32> -> vector<256x256xf32>\n"
        + &store("%4", 2, "256x256xf32");
    let [without, with] = [&store("%1", 1, shape), &product].map(|body| kernel(body));
    assert_eq!(without.0, with.0);
    assert!(with.1 > without.1 + 64.0, "{} and {}", without.1, with.1);
}

#[test]
fn a_divisor_is_inverted_once_for_all_registers_that_it_meets() {
    let shape = "256x512xf32";
    let slots = |divisor: &str| {
        let body = load("%0", 0, shape)
            + divisor
            + &format!("    %2 = arith.divf %0, %1 : vector<{shape}>\n")
            + &store("%2", 1, shape);
        let kernel = schedule(&probe(&[shape, shape], &body), &machine("v5e")).unwrap();
        [Unit::Valu, Unit::Eup].map(|unit| kernel.kinds[0].schedule.slots(unit))
    };
    let constant = format!("    %1 = arith.constant dense<3.000000e+00> : vector<{shape}>\n");
    assert_eq!(slots(&constant), [128.0 + 13.0, 1.0]);
    assert_eq!(slots(&load("%1", 1, shape)), [128.0 * 14.0, 128.0]);
}

#[test]
fn an_unknown_operation_is_named_with_its_line() {
    let shape = "8x128xf32";
    let odd = "    %1 = \"tpu.unheard_of\"(%0) : (vector<8x128xf32>) -> vector<8x128xf32>\n";
    let body = load("%0", 0, shape) + odd + &store("%1", 1, shape);
    let machine = Machine::new(&TARGETS[0]);
    let error = schedule(&probe(&[shape, shape], &body), &machine).unwrap_err();
    assert_eq!(
        error,
        ScheduleError::UnknownOp {
            op: "tpu.unheard_of".into(),
            line: 5
        }
    );
}
