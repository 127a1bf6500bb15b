//! What holds registers, and how long.

use super::*;

/// Registers for a softmax of 256 x 512 scores, made of the values %x and %y, with this reduction to what is
/// subtracted.
fn softmax(kind: &str, neutral: &str, reduced: &str) -> f64 {
    let (all, rows) = ("256x512xf32", "256xf32");
    let body = load("%0", 0, all)
        + &load("%1", 1, all)
        + &format!(
            "    %x = arith.mulf %0, %0 : vector<{all}>\n    %y = arith.mulf %1, %1 : vector<{all}>\n    \
             %cst = arith.constant dense<{neutral}> : vector<{rows}>\n    \
             %r = vector.multi_reduction <{kind}>, {reduced}, %cst [1] : vector<{all}> to vector<{rows}>\n    \
             %c = vector.shape_cast %r : vector<{rows}> to vector<256x1xf32>\n    \
             %m = vector.broadcast %c : vector<256x1xf32> to vector<{all}>\n    \
             %d = arith.subf %x, %m : vector<{all}>\n    %e = math.exp %d : vector<{all}>\n"
        )
        + &store("%e", 1, all);
    let kernel = schedule(&probe(&[all, all], &body), &machine("v5e")).unwrap();
    kernel.registers()
}

#[test]
fn what_its_own_maximum_is_subtracted_from_is_held_whole_until_then() {
    let whole = softmax("maximumf", "0xFF800000", "%x");
    let of_another = softmax("maximumf", "0xFF800000", "%y");
    let sum = softmax("add", "0.000000e+00", "%x");
    // 128 registers of scores; the rows that are reduced first lose theirs before the last ones have a maximum.
    assert!((64.0..=200.0).contains(&whole), "{whole}");
    assert!(of_another < whole - 32.0, "{of_another} of {whole}");
    assert!(sum < whole - 32.0, "{sum} of {whole}");
}

const ALL: &str = "256x512xf32";

/// Registers for `values`, a sum %s over the columns of %x, which is one of them, and `product`, which is %p and made
/// of these.
fn waiting(values: &str, product: &str) -> f64 {
    let body = load("%0", 0, ALL)
        + values
        + &format!(
            "    %cst = arith.constant dense<0.000000e+00> : vector<256xf32>\n    \
             %r = vector.multi_reduction <add>, %x, %cst [1] : vector<{ALL}> to vector<256xf32>\n    \
             %c = vector.shape_cast %r : vector<256xf32> to vector<256x1xf32>\n    \
             %s = vector.broadcast %c : vector<256x1xf32> to vector<{ALL}>\n    {product}"
        )
        + &store("%p", 1, ALL);
    let kernel = schedule(&probe(&[ALL, ALL], &body), &machine("v5e")).unwrap();
    kernel.registers()
}

/// Two operations before %e, which is made by `operation` and waits for the sum; one or two operations read it.
fn made_by(operation: &str, readers: usize) -> f64 {
    let values = format!(
        "    %y = arith.addf %0, %0 : vector<{ALL}>\n    %x = arith.addf %y, %y : vector<{ALL}>\n    %e = {operation} : vector<{ALL}>\n"
    );
    let product = match readers {
        1 => format!("%p = arith.mulf %e, %s : vector<{ALL}>\n"),
        _ => format!(
            "%q = arith.mulf %e, %s : vector<{ALL}>\n    %p = arith.addf %q, %e : vector<{ALL}>\n"
        ),
    };
    waiting(&values, &product)
}

#[test]
fn a_part_of_what_exponentials_give_waits_for_the_sum_of_their_row() {
    let exponentials = made_by("math.exp2 %x", 1);
    let others = made_by("arith.subf %x, %x", 1);
    assert!(exponentials > others + 16.0, "{exponentials} and {others}");
}

#[test]
fn what_more_than_one_operation_reads_waits_for_the_last() {
    // 128 registers of exponentials.
    let [one, two] = [1, 2].map(|readers| made_by("math.exp2 %x", readers));
    assert!((100.0..=200.0).contains(&two), "{two}");
    assert!(two > one + 64.0, "{one} and {two}");
    let [one, two] = [1, 2].map(|readers| made_by("arith.subf %x, %x", readers));
    assert!(two > one + 16.0, "{one} and {two}");
}

#[test]
fn what_a_wider_value_is_made_of_is_held_whole() {
    let (row, all) = ("1x4096xf32", "256x4096xf32");
    let body = load("%0", 0, all)
        + &load("%1", 1, row)
        + &format!(
            "    %o = arith.addf %1, %1 : vector<{row}>\n    \
             %w = vector.broadcast %o : vector<{row}> to vector<{all}>\n    \
             %p = arith.mulf %0, %w : vector<{all}>\n"
        )
        + &store("%p", 2, all);
    let kernel = schedule(&probe(&[all, row, all], &body), &machine("v5e")).unwrap();
    // 32 registers of %o for as long as rows of %0 are multiplied.
    let registers = kernel.registers();
    assert!((32.0..40.0).contains(&registers), "{registers}");
}

#[test]
fn what_columns_are_combined_to_waits_for_a_cross_lane_unit() {
    let registers = |columns: usize| {
        let all = format!("1024x{columns}xf32");
        let body = load("%0", 0, &all)
            + &format!(
                "    %cst = arith.constant dense<0.000000e+00> : vector<1024xf32>\n    \
                 %r = vector.multi_reduction <add>, %0, %cst [1] : vector<{all}> to vector<1024xf32>\n    \
                 %c = vector.shape_cast %r : vector<1024xf32> to vector<1024x1xf32>\n    \
                 %s = vector.broadcast %c : vector<1024x1xf32> to vector<{all}>\n"
            )
            + &store("%s", 1, &all);
        let kernel = schedule(&probe(&[&all, &all], &body), &machine("v5e")).unwrap();
        kernel.registers()
    };
    let [one, two] = [128, 256].map(registers);
    // 128 registers are reduced, a few of them at a time, in either case.
    assert!(one < 32.0 && two > 64.0, "{one} and {two}");
}

/// A reduction along the 128 lanes of `of`, in all of its columns.
fn across(name: &str, kind: &str, of: &str, rows: usize) -> String {
    let all = format!("{rows}x128xf32");
    format!(
        "    {name}z = arith.constant dense<0.000000e+00> : vector<{rows}xf32>\n    \
         {name}r = vector.multi_reduction <{kind}>, {of}, {name}z [1] : vector<{all}> to vector<{rows}xf32>\n    \
         {name}c = vector.shape_cast {name}r : vector<{rows}xf32> to vector<{rows}x1xf32>\n    \
         {name} = vector.broadcast {name}c : vector<{rows}x1xf32> to vector<{all}>\n"
    )
}

/// The same of what argument `argument` holds.
fn reduced(name: &str, argument: usize, kind: &str) -> String {
    let loaded = format!("{name}l");
    load(&loaded, argument, "128x128xf32") + &across(name, kind, &loaded, 128)
}

#[test]
fn what_is_transposed_after_all_reductions_waits_in_registers_also_by_way_of_scratch() {
    let square = "128x128xf32";
    // 32 registers of a maximum and a sum, whose own sum is transposed when three others have been reduced.
    let held = |target: &str, is_dropped: bool| {
        let mut body = reduced("%a", 0, "maximumf");
        body += &reduced("%b", 1, "add");
        body += &format!("    %s = arith.addf %a, %b : vector<{square}>\n");
        body += &store("%s", 6, square);
        for (i, name) in ["%d", "%e", "%f"].into_iter().enumerate() {
            body += &reduced(name, 2 + i, "add");
            body += &store(name, 2 + i, square);
        }
        body += &load("%t", 6, square);
        body +=
            &format!("    %u = tpu.transpose %t, [1, 0] : vector<{square}> -> vector<{square}>\n");
        body += &store("%u", 5, square);
        let module = with_scratch(&[square; 7], usize::from(is_dropped), &body);
        let kernel = schedule(&module, &machine(target)).unwrap();
        assert_eq!(kernel.dropped.len(), usize::from(is_dropped), "{target}");
        kernel.registers()
    };
    for target in ["v4", "v5e", "v6e"] {
        let registers = held(target, true);
        assert!(registers >= 32.0, "{target}: {registers}");
    }
    // From v5 on what stays in memory is loaded again.
    assert!(held("v4", false) >= 16.0);
    assert!(held("v5e", false) < held("v4", false));
}

#[test]
fn what_is_transposed_enters_after_the_last_register_that_is_reduced() {
    let all = "512x128xf32";
    let mut body = load("%x", 0, all) + &load("%y", 1, all) + &across("%m", "maximumf", "%x", 512);
    body += &format!(
        "    %d = arith.subf %x, %m : vector<{all}>\n    %e = math.exp %d : vector<{all}>\n    \
         %f = arith.mulf %y, %e : vector<{all}>\n"
    );
    body += &across("%s", "add", "%f", 512);
    body += &format!(
        "    %l = math.log %s : vector<{all}>\n    %o = arith.addf %m, %l : vector<{all}>\n"
    );
    let square = "128x128xf32";
    for i in 0..4 {
        body += &format!(
            "    %p{i} = vector.extract_strided_slice %o offsets = [{}, 0], sizes = [128, 128], strides = [1, 1] : \
             vector<{all}> to vector<{square}>\n    \
             %t{i} = tpu.transpose %p{i}, [1, 0] : vector<{square}> -> vector<{square}>\n",
            128 * i
        );
        body += &store(&format!("%t{i}"), 2 + i, square);
    }
    body += &(load("%k", 6, all) + &across("%n", "add", "%k", 512) + &store("%n", 6, all));
    let arguments = [all, all, square, square, square, square, all];
    let kernel = schedule(&probe(&arguments, &body), &machine("v7x")).unwrap();
    let registers = kernel.registers();
    // Maxima and logarithms, 64 registers of each, wait for the first transposition.
    assert!((112.0..=136.0).contains(&registers), "{registers}");
}

/// The last step of statistics of `rows` rows: in sub-tiles of 128, a largest element and a sum after the other, whose
/// own sum goes to the scratch 3 in parts and from there to a row. Whether a step before it reads the scratch.
fn last_step(target: &str, rows: usize, read_before: bool) -> KernelSchedule {
    let (all, part) = (format!("{rows}x128xf32"), "128x128xf32");
    let place = |argument: usize, i: usize| {
        format!(
            "%arg{argument}[%r{i}, %c0] : memref<{all}, #tpu.memory_space<vmem>>, vector<{part}>\n"
        )
    };
    let mut body = String::new();
    if read_before {
        body += &(load("%old", 3, &all) + &store("%old", 2, &all));
    }
    for i in 0..rows / 128 {
        let [m, e, s] = ["%m", "%e", "%s"].map(|name| format!("{name}{i}"));
        body += &format!("    %r{i} = arith.constant {} : index\n", 128 * i);
        body += &format!("    %x{i} = vector.load {}", place(0, i));
        body += &across(&m, "maximumf", &format!("%x{i}"), 128);
        body += &format!(
            "    %d{i} = arith.subf %x{i}, {m} : vector<{part}>\n    {e} = math.exp %d{i} : vector<{part}>\n"
        );
        body += &across(&s, "add", &e, 128);
        body += &format!(
            "    %l{i} = math.log {s} : vector<{part}>\n    %o{i} = arith.addf {m}, %l{i} : vector<{part}>\n    \
             tpu.vector_store %arg3[%r{i}, %c0], %o{i} {{strides = array<i32>}} : \
             memref<{all}, #tpu.memory_space<vmem>>, vector<{part}>, \n"
        );
    }
    body += &load("%w", 3, &all);
    for i in 0..rows / 128 {
        body += &format!(
            "    %p{i} = vector.extract_strided_slice %w offsets = [{}, 0], sizes = [128, 128], strides = [1, 1] : \
             vector<{all}> to vector<{part}>\n    \
             %t{i} = tpu.transpose %p{i}, [1, 0] : vector<{part}> -> vector<{part}>\n    \
             tpu.vector_store %arg1[%r{i}, %c0], %t{i} {{strides = array<i32>}} : \
             memref<{all}, #tpu.memory_space<vmem>>, vector<{part}>, \n",
            128 * i
        );
    }
    let module = with_scratch(&[&*all; 4], 1, &body);
    schedule(&module, &machine(target)).unwrap()
}

#[test]
fn a_scratch_that_is_stored_in_parts_and_loaded_whole_is_held_in_registers() {
    // Slots for spills that libtpu 0.0.51 has, and registers of the file: of 64 rows of registers largest elements, and
    // logarithms of most, wait for the transpositions.
    for (target, rows, slots, file) in [
        ("v4", 256, 30.0, 32.0),
        ("v4", 512, 102.0, 32.0),
        ("v5e", 512, 63.0, 64.0),
        ("v6e", 512, 55.0, 64.0),
        ("v7x", 512, 55.0, 64.0),
    ] {
        let kernel = last_step(target, rows, false);
        assert_eq!(kernel.dropped.len(), 1, "{target}");
        let registers = kernel.registers();
        assert!(
            (registers - slots - file).abs() < 10.0,
            "{target}, {rows} rows: {registers}"
        );
    }
}

#[test]
fn what_was_stored_in_parts_long_ago_is_loaded_again() {
    let reloaded = |rows: usize| {
        let kernel = last_step("v6e", rows, true);
        assert!(kernel.dropped.is_empty());
        // The scratch before, and what is reduced.
        kernel.kinds[0].schedule.slots(Unit::Load) - 2.0 * (rows / 8) as f64
    };
    assert_eq!(reloaded(256), 0.0);
    let of_128 = reloaded(1024);
    assert!((64.0..128.0).contains(&of_128), "{of_128}");
}

#[test]
fn selections_of_labels_wait_for_exponentials_from_v5_on() {
    let types = product_types(128, 1024, 512);
    let [lhs, rhs, out] = &types;
    let (labels, square) = ("128x512xi32", "vector<128x128xi32>");
    let squares = [square; 4].join(", ");
    let held = |target: &str, subtracted: &str| {
        let body = operands(&types)
            + &load("%g", 2, "1x128xi32")
            + &format!(
                "    %b = vector.broadcast %g : vector<1x128xi32> to {square}\n    \
                 %t = tpu.transpose %b, [1, 0] : {square} -> {square}\n    \
                 %l = tpu.concatenate %t, %t, %t, %t in 1 : {squares} -> vector<{labels}>\n    \
                 %i = tpu.iota {{dimensions = array<i32: 1>}} : vector<{labels}>\n    \
                 %one = arith.constant dense<1.000000e+00> : vector<{out}>\n"
            )
            + &product("%s", 0, &types)
            + &format!(
                "    %c = arith.cmpi eq, %i, %l : vector<{labels}>\n    \
                 %h = arith.select %c, %one, %cst : vector<128x512xi1>, vector<{out}>\n    \
                 %e = math.exp %s : vector<{out}>\n    %d = arith.subf %e, {subtracted} : vector<{out}>\n"
            )
            + &store("%d", 3, out);
        let module = probe(&[lhs, rhs, "1x128xi32", out], &body);
        schedule(&module, &machine(target)).unwrap().registers()
    };
    // Of 64 registers of selections. 16 of labels are held in any case. Units of v6e take four rounds, those of v7x sum
    // over the contraction and take one; there libtpu 0.0.51 has 1 and no slot more.
    for (target, waits) in [
        ("v4", 0.0..=24.0),
        ("v5e", 32.0..=64.0),
        ("v6e", 30.0..=34.0),
        ("v7x", 0.0..=24.0),
    ] {
        let [selected, constant] = ["%h", "%one"].map(|value| held(target, value));
        let more = selected - constant;
        assert!(waits.contains(&more), "{target}: {selected} and {constant}");
    }
}

#[test]
fn a_block_without_products_loads_a_part_of_memory_once() {
    let shape = "256x128xf32";
    let again = |argument: usize| {
        let body = load("%a", 0, shape)
            + &format!("    %b = math.exp %a : vector<{shape}>\n")
            + &store("%b", 3, shape)
            + &load("%c", argument, shape)
            + &format!("    %d = arith.addf %c, %c : vector<{shape}>\n")
            + &store("%d", 2, shape);
        let kernel = schedule(&probe(&[shape; 4], &body), &machine("v5e")).unwrap();
        kernel.kinds[0].schedule.slots(Unit::Load)
    };
    // 32 registers of what was loaded before something else was stored, and of another argument.
    assert_eq!([0, 1].map(again), [32.0, 64.0]);
}

#[test]
fn what_a_block_without_products_loads_once_is_unpacked_once() {
    let (packed, shape) = ("256x128xbf16", "256x128xf32");
    let again = |argument: usize| {
        let widened = |name: &str, of: &str| {
            format!("    {name} = arith.extf {of} : vector<{packed}> to vector<{shape}>\n")
        };
        let body = load("%a", 0, packed)
            + &widened("%b", "%a")
            + &store("%b", 2, shape)
            + &load("%c", argument, packed)
            + &widened("%d", "%c")
            + &store("%d", 3, shape);
        let module = probe(&[packed, packed, shape, shape], &body);
        let kernel = schedule(&module, &machine("v5e")).unwrap();
        kernel.kinds[0].schedule.slots(Unit::Valu)
    };
    assert_eq!([0, 1].map(again), [32.0, 64.0]);
}

/// Registers of a step that sums exponentials of four products of 256 columns; `logits` of them are summed in memory
/// before.
fn sums_of_exponentials(target: &str, logits: bool) -> f64 {
    let types = product_types(256, 512, 256);
    let [lhs, rhs, out] = &types;
    let (half, all) = ("256x128xf32", "256x1024xf32");
    let mut body = operands(&types);
    for i in 0..4 {
        body += &product(&format!("%p{i}"), i, &types);
        let at = format!("%arg2[%c0, %k{i}]");
        let memory = format!("memref<{all}, #tpu.memory_space<vmem>>, vector<{out}>");
        body += &format!("    %k{i} = arith.constant {} : index\n", 256 * i);
        body += &match logits {
            true => format!(
                "    %l{i} = vector.load {at} : {memory}\n    %x{i} = arith.addf %l{i}, %p{i} : vector<{out}>\n    \
                 tpu.vector_store {at}, %x{i} {{strides = array<i32>}} : {memory}, \n"
            ),
            false => format!("    %x{i} = arith.mulf %p{i}, %p{i} : vector<{out}>\n"),
        };
        body += &format!("    %e{i} = math.exp %x{i} : vector<{out}>\n");
        for (side, column) in [("a", 0), ("b", 128)] {
            body += &format!(
                "    %{side}{i} = vector.extract_strided_slice %e{i} offsets = [0, {column}], sizes = [256, 128], \
                 strides = [1, 1] : vector<{out}> to vector<{half}>\n"
            );
        }
        body += &format!("    %h{i} = arith.addf %a{i}, %b{i} : vector<{half}>\n");
        body += &load(&format!("%s{i}"), 3, half);
        body += &format!("    %n{i} = arith.addf %s{i}, %h{i} : vector<{half}>\n");
        body += &store(&format!("%n{i}"), 3, half);
    }
    let kernel = schedule(&probe(&[lhs, rhs, all, half], &body), &machine(target)).unwrap();
    kernel.registers()
}

#[test]
fn what_is_added_to_a_sum_waits_where_logits_are_summed_as_well() {
    // Two sub-tiles of 32 registers.
    for target in ["v6e", "v7x"] {
        let [waits, not] = [true, false].map(|logits| sums_of_exponentials(target, logits));
        assert!(waits >= not + 24.0, "{target}: {waits} and {not}");
    }
    let [logits, none] = [true, false].map(|logits| sums_of_exponentials("v5e", logits));
    assert!(logits < none + 32.0, "{logits} and {none}");
}

#[test]
fn half_of_scores_is_held_that_are_worked_off_row_by_row() {
    let types = product_types(256, 512, 128);
    let [lhs, rhs, out] = &types;
    // Exponentials of 32 registers of scores less the sum of their row.
    let held = |sum: &str| {
        let body = operands(&types)
            + &product("%p", 0, &types)
            + &across("%m", "add", "%p", 256)
            + &format!(
                "    %x = arith.subf %p, %m : vector<{out}>\n    %e = math.exp %x : vector<{out}>\n"
            )
            + &load("%s", 2, out)
            + &format!("    %n = {sum} %s, %e : vector<{out}>\n")
            + &store("%n", 2, out);
        let kernel = schedule(&probe(&[lhs, rhs, out], &body), &machine("v5e")).unwrap();
        kernel.registers()
    };
    // What is added to a sum in memory is of rows of scores, what is multiplied with it need not be.
    let [added, multiplied] = ["arith.addf", "arith.mulf"].map(held);
    assert!(added <= multiplied - 8.0, "{added} and {multiplied}");
}

/// Slots on v4 for registers of blocks of 64 x 1024 elements, whose operations end with these.
fn slots_of_chains(end: &str) -> f64 {
    let all = "64x1024xf32";
    let body = load("%x", 0, all)
        + &format!(
            "    %d = arith.mulf %x, %x : vector<{all}>\n    %e = math.exp2 %d : vector<{all}>\n    \
             %f = arith.mulf %e, %d : vector<{all}>\n"
        )
        + end;
    let machine = machine("v4");
    let kernel = schedule(&probe(&[all; 3], &body), &machine).unwrap();
    (kernel.registers() - machine.registers).max(0.0)
}

#[test]
fn chains_of_operations_follow_register_by_register_to_one_store_but_not_to_several() {
    let all = "64x1024xf32";
    let to_one = store("%f", 2, all);
    // libtpu has no slots for it, and 100 where %e, of 64 registers, is stored before %f.
    assert_eq!(slots_of_chains(&to_one), 0.0);
    let to_two = store("%e", 1, all) + &to_one;
    let slots = slots_of_chains(&to_two);
    assert!((90.0..=115.0).contains(&slots), "{slots}");
}

#[test]
fn operations_between_what_is_stored_and_loaded_again_stay_in_their_order() {
    let all = "64x1024xf32";
    let sum = |before: &str, added: &str, after: &str| {
        load(before, 1, all)
            + &format!("    {after} = arith.addf {before}, {added} : vector<{all}>\n")
            + &store(after, 1, all)
    };
    let more = format!(
        "    %g = arith.mulf %s, %x : vector<{all}>\n    %h = math.exp2 %g : vector<{all}>\n    \
         %i = arith.mulf %h, %g : vector<{all}>\n    %t = arith.addf %s, %i : vector<{all}>\n"
    );
    let twice = sum("%r", "%f", "%q") + &load("%s", 1, all) + &more + &store("%t", 1, all);
    // libtpu: 169.
    let slots = slots_of_chains(&twice);
    assert!((150.0..=185.0).contains(&slots), "{slots}");
}

#[test]
fn results_of_products_wait_for_the_vector_unit_on_v6e_unless_they_are_multiplied() {
    let types = product_types(128, 256, 1024);
    let [lhs, rhs, out] = &types;
    let [_, weights, square] = product_types(128, 1024, 128);
    let held = |target: &str, operation: &str, multiplied: bool| {
        let mut body = operands(&types)
            + &product("%p", 0, &types)
            + &format!("    %e = {operation} : vector<{out}>\n")
            + &store("%e", 2, out);
        if multiplied {
            body += &format!(
                "    %r = arith.truncf %e : vector<{out}> to vector<128x1024xbf16>\n    \
                 %none = arith.constant dense<0.000000e+00> : vector<{square}>\n    \
                 %q = tpu.matmul %r, %w, %none {{dimension_numbers = #tpu.dot_dimension_numbers<[1], [0], [0], [1], \
                 [0, 0, 1, 1], [], []>}} : vector<128x1024xbf16>, vector<{weights}>, vector<{square}> -> vector<{square}>\n"
            );
            body = load("%w", 3, &weights) + &body + &store("%q", 4, &square);
        }
        let module = probe(&[lhs, rhs, out, &weights, &square], &body);
        schedule(&module, &machine(target)).unwrap().registers()
    };
    let more = |target, multiplied| {
        let [exponentials, squares] = ["math.exp %p", "arith.mulf %p, %p"]
            .map(|operation| held(target, operation, multiplied));
        exponentials - squares
    };
    assert!(more("v6e", false) >= 40.0);
    assert!(more("v6e", true) < 40.0);
    assert!(more("v7x", false) < 40.0);
}

#[test]
fn what_is_loaded_before_a_loop_lives_in_it() {
    // A product of 128 x 512 by 512 x 512 in a loop, and the operands in front of it.
    let types = product_types(128, 512, 512);
    let repeated = |before: &str, body: &str| {
        let head = "    %first = arith.constant 0 : i32\n    %one = arith.constant 1 : i32\n    \
             %eight = arith.constant 8 : i32\n";
        let tail = "    scf.for %i = %first to %eight step %one : i32 {\n";
        let module = probe(
            &[&types[0], &types[1], &types[2]],
            &format!("{head}{before}{tail}{body}    }}\n"),
        );
        ["v5e", "v6e"].map(|target| schedule(&module, &machine(target)).unwrap().registers())
    };
    let [loads, product] = [
        operands(&types),
        product("%2", 0, &types) + &store("%2", 2, &types[2]),
    ];
    let outside = repeated(&loads, &product);
    let inside = repeated("", &(loads + &product));
    // 32 registers of rows and 128 of weights. On v5 two loads have the halves of each, and a register what they are
    // combined to; on v6e nothing else of them, and few results.
    assert_eq!(outside[0] - inside[0], 2.0 * 160.0);
    assert!((160.0..170.0).contains(&outside[1]), "{outside:?}");
}
