//! What products load, and which units they keep.

use super::*;

/// Slots of a unit in one step of a kernel.
fn slots(module: &Module, target: &str, unit: Unit) -> f64 {
    let kernel = schedule(module, &machine(target)).unwrap();
    kernel.kinds[0].schedule.slots(unit)
}

/// Products of `128 x k` and columns of 128 of `k x 512`, the left operand loaded for each.
fn products(k: usize, count: usize) -> Module {
    let [lhs, all, out] = product_types(128, k, 512);
    let [_, rhs, part] = product_types(128, k, 128);
    let zeros = format!("    %cst = arith.constant dense<0.000000e+00> : vector<{part}>\n");
    let mut body = zeros;
    for i in 0..count {
        let column = format!("%column{i}");
        body += &format!("    {column} = arith.constant {} : index\n", 128 * i);
        body += &load(&format!("%l{i}"), 0, &lhs);
        body += &format!(
            "    %r{i} = vector.load %arg1[%c0, {column}] : memref<{all}, #tpu.memory_space<vmem>>, \
             vector<{rhs}>\n"
        );
        let types = [lhs.clone(), rhs.clone(), part.clone()];
        body += &product(&format!("%p{i}"), i, &types).replace("%0, %1", &format!("%l{i}, %r{i}"));
        body += &format!(
            "    tpu.vector_store %arg2[%c0, {column}], %p{i} {{strides = array<i32>}} : \
             memref<{out}, #tpu.memory_space<vmem>>, vector<{part}>, \n"
        );
    }
    probe(&[&lhs, &all, &out], &body)
}

#[test]
fn products_side_by_side_load_their_left_operand_once() {
    // Weights of a column are loaded in halves, 16 for each. With a contraction of 128 all products have a unit of
    // their own and the left operand is loaded once; with 512 each of them takes all units and loads it again.
    let loads = |k: usize, count: usize| slots(&products(k, count), "v5e", Unit::Load);
    assert_eq!([1, 2, 4].map(|n| loads(128, n)), [24.0, 40.0, 72.0]);
    assert_eq!([1, 2].map(|n| loads(512, n)), [128.0, 256.0]);
}

#[test]
fn a_column_of_wider_rows_is_loaded_in_halves() {
    let module = products(128, 1);
    let taken = |target: &str| [Unit::Load, Unit::Valu].map(|unit| slots(&module, target, unit));
    // Eight registers of weights, and as many of rows whose halves lie one after the other.
    assert_eq!(taken("v4"), [24.0, 24.0]);
    assert_eq!(taken("v5e"), [24.0, 8.0]);
    assert_eq!(taken("v6e"), [16.0, 0.0]);
}

#[test]
fn rows_that_are_words_in_memory_are_not_laid_out_anew() {
    let types = ["128x512xbf16", "512x128xbf16", "128x128xf32"].map(String::from);
    let words = "64x512xi32";
    let memory = |shape: &str| format!("memref<{shape}, #tpu.memory_space<vmem>>");
    let view = format!(
        "    %words = tpu.memref_bitcast %arg0 : {} -> {}\n",
        memory(words),
        memory(&types[0])
    );
    let body = operands(&types) + &product("%2", 0, &types) + &store("%2", 2, &types[2]);
    let of_words = view + &body.replace("vector.load %arg0", "vector.load %words");
    let plain = probe(&[&types[0], &types[1], &types[2]], &body);
    let packed = probe(&[words, &types[1], &types[2]], &of_words);
    let taken = |unit| [&plain, &packed].map(|module| slots(module, "v4", unit));
    // Of 32 registers, three operations each.
    let [anew, as_it_is] = taken(Unit::Valu);
    assert_eq!(anew - as_it_is, 96.0);
    let [anew, as_it_is] = taken(Unit::Load);
    assert_eq!(anew, as_it_is);
}

#[test]
fn a_product_that_is_alone_is_dealt_to_all_units() {
    // Two operations of 16 rows for each of four units, which all get the weights; two products have two units each.
    let pushes = |count: usize| slots(&products(128, count), "v5e", Unit::Push);
    assert_eq!([1, 2].map(pushes), [4.0 * 32.0, 2.0 * 32.0]);
}

#[test]
fn rows_wait_for_the_last_block_of_weights() {
    // Transposed weights of 256 x 1024 take two units 256 cycles, one block after the other; then 128 rows pass the
    // last for 64 more.
    let [lhs, rhs, out] = ["128x1024xbf16", "256x1024xbf16", "128x256xf32"];
    let body = load("%0", 0, lhs)
        + &load("%1", 1, rhs)
        + &format!("    %cst = arith.constant dense<0.000000e+00> : vector<{out}>\n")
        + &format!(
            "    %2 = tpu.matmul %0, %1, %cst {{dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], \
             [0, 0, 1, 0], [], []>}} : vector<{lhs}>, vector<{rhs}>, vector<{out}> -> vector<{out}>\n"
        )
        + &store("%2", 2, out);
    let module = probe(&[lhs, rhs, out], &body);
    let machine = machine("v6e");
    let cycles = schedule(&module, &machine).unwrap().kinds[0]
        .schedule
        .cycles(&machine);
    assert!(cycles > 256.0 + 64.0 + machine.matmul_latency, "{cycles}");
}

/// Pairs of products as in attention, each with two blocks of weights of a v5e: exponentials of the first are the rows
/// of the second.
fn attention(pairs: usize) -> Module {
    let [keys, scores, weights, out] = [
        "vector<256x128xbf16>",
        "vector<256x256xf32>",
        "vector<256x256xbf16>",
        "vector<256x128xf32>",
    ];
    let product = |name: &str,
                   [lhs, rhs, zeros]: [&str; 3],
                   [contracted, kept]: [usize; 2],
                   types: [&str; 3],
                   number: usize| {
        let [a, b, c] = types;
        format!(
            "    {name} = tpu.matmul {lhs}, {rhs}, {zeros} {{dimension_numbers = #tpu.dot_dimension_numbers<[1], [{contracted}], [0], [{kept}], \
             [0, 0, 1, {kept}], [], []>, number = {number} : i32}} : {a}, {b}, {c} -> {c}\n"
        )
    };
    let mut body = load("%q", 0, "256x128xbf16") + &load("%k", 1, "256x128xbf16");
    body += &format!(
        "    %z = arith.constant dense<0.000000e+00> : {scores}\n    %y = arith.constant dense<0.000000e+00> : {out}\n"
    );
    for i in 0..pairs {
        let [d, s, e, p, o] = ["d", "s", "e", "p", "o"].map(|name| format!("%{name}{i}"));
        body += &format!("    %bias{i} = arith.constant dense<{i}.500000e+00> : {scores}\n");
        body += &product(&d, ["%q", "%k", "%z"], [1, 0], [keys, keys, scores], i);
        body += &format!(
            "    {s} = arith.addf {d}, %bias{i} : {scores}\n    {e} = math.exp {s} : {scores}\n"
        );
        body += &format!("    {p} = arith.truncf {e} : {scores} to {weights}\n");
        body += &product(&o, [&p, "%k", "%y"], [0, 1], [weights, keys, out], i);
        body += &store(&o, 2 + i, "256x128xf32");
    }
    probe(
        &["256x128xbf16", "256x128xbf16", "256x128xf32", "256x128xf32"],
        &body,
    )
}

#[test]
fn products_of_few_blocks_wait_for_the_units_that_they_keep() {
    // The third product takes the units of the second: the second pair takes most of the time of the first
    // (libtpu 0.0.51).
    for (target, measured) in [("v5e", [617.0, 1028.0]), ("v6e", [647.0, 994.0])] {
        let machine = machine(target);
        for (pairs, measured) in [1, 2].into_iter().zip(measured) {
            let kernel = schedule(&attention(pairs), &machine).unwrap();
            let cycles = kernel.kinds[0].schedule.cycles(&machine);
            assert!(
                (cycles / measured - 1.0).abs() < 0.15,
                "{target}, {pairs}: {cycles} instead of {measured}"
            );
        }
    }
}

/// A product whose left operand is transposed: what is loaded (`%x`) or what `made` makes of it.
fn transposed(dtype: &str, [k, m, n]: [usize; 3], operand: &str, made: &str) -> Module {
    let [lhs, rhs, out] = [
        format!("{k}x{m}x{dtype}"),
        format!("{k}x{n}x{dtype}"),
        format!("{m}x{n}xf32"),
    ];
    let body = load("%x", 0, &lhs)
        + &load("%y", 1, &rhs)
        + made
        + &product_of_rows("%p", [operand, "%y"], [&lhs, &rhs, &out])
        + &store("%p", 2, &out);
    probe(&[&lhs, &rhs, &out], &body)
}

#[test]
fn what_a_product_waits_for_is_made_first() {
    // All but a hundred rows are made zero. Selections keep the vector unit busy for half of the time, but the first
    // columns are transposed at once. Cycles of the schedules of libtpu 0.0.51; on v4, of 1344, weights are laid out
    // anew and wait for the vector unit.
    let [lhs, wide, places] = ["256x1024xbf16", "256x1024xf32", "256x1024xi32"];
    let masked = format!(
        "    %i = tpu.iota {{dimensions = array<i32: 0>}} : vector<{places}>
    %n = arith.constant dense<100> : vector<{places}>
    %m = arith.cmpi slt, %i, %n : vector<{places}>
    %w = arith.extf %x : vector<{lhs}> to vector<{wide}>
    %o = arith.constant dense<0.000000e+00> : vector<{wide}>
    %s = arith.select %m, %w, %o : vector<256x1024xi1>, vector<{wide}>
    %a = arith.truncf %s : vector<{wide}> to vector<{lhs}>
"
    );
    let [_, v5e, v5p, v6e, v7x] = cycles(&transposed("bf16", [256, 1024, 256], "%a", &masked));
    for (cycles, measured) in [(v5e, 1346.0), (v5p, 1395.0), (v6e, 588.0), (v7x, 584.0)] {
        assert!(
            (cycles / measured - 1.0_f64).abs() < 0.1,
            "{cycles} instead of {measured}"
        );
    }
}

#[test]
fn rows_that_were_made_stay_for_other_columns() {
    // Squares that are rounded, whose columns of weights the units take in two rounds. Slots of libtpu 0.0.51; register
    // by register none are predicted.
    for (target, [m, k, n], slots) in [
        ("v4", [256, 256, 512], 20.0),
        ("v4", [512, 256, 512], 48.0),
        ("v4", [512, 128, 1024], 14.0),
        ("v4", [512, 256, 1024], 55.0),
        ("v5e", [512, 256, 512], 19.0),
    ] {
        let [packed, rhs, out] = product_types(m, k, n);
        let lhs = format!("{m}x{k}xf32");
        let body = [
            load("%x", 0, &lhs),
            load("%w", 1, &rhs),
            format!("    %y = arith.mulf %x, %x : vector<{lhs}>\n"),
            format!("    %r = arith.truncf %y : vector<{lhs}> to vector<{packed}>\n"),
            format!("    %cst = arith.constant dense<0.000000e+00> : vector<{out}>\n"),
            product("%p", 0, &[packed, rhs.clone(), out.clone()]).replace("%0, %1", "%r, %w"),
            store("%p", 2, &out),
        ];
        let machine = machine(target);
        let registers = schedule(&probe(&[&lhs, &rhs, &out], &body.concat()), &machine)
            .unwrap()
            .registers();
        let predicted = registers - machine.registers;
        assert!(
            (predicted - slots).abs() < 16.0,
            "{target}, {m} x {k} x {n}: {predicted} of {slots}"
        );
    }
}

#[test]
fn a_sum_waits_for_the_results_of_its_own_rows() {
    // Two columns of sums over four blocks, two at a time: those of the first go as those of the second come. The
    // compiler spills 458 registers beyond the 64 of a v6e (libtpu 0.0.51).
    let module = transposed("bf16", [1024, 768, 512], "%x", "");
    let kernel = schedule(&module, &machine("v6e")).unwrap();
    let registers = kernel.registers();
    assert!((registers / 522.0 - 1.0).abs() < 0.15, "{registers}");
}

#[test]
fn results_wait_for_what_is_still_transposed() {
    // Of four units that take a block of the contraction each, three wait. The compiler spills 131 registers beyond the
    // 64 of a v5 (libtpu 0.0.51). Packed, f32 takes no more registers than bf16; it spills 16.
    for target in ["v5e", "v5p"] {
        let [bf16, packed] = ["bf16", "f32"].map(|dtype| {
            let module = transposed(dtype, [512, 512, 256], "%x", "");
            schedule(&module, &machine(target)).unwrap().registers()
        });
        assert!((bf16 / 195.0 - 1.0).abs() < 0.15, "{target}: {bf16}");
        assert!(packed < bf16, "{target}: {packed} and {bf16}");
    }
}

/// Registers for an exact product alone, whose result is stored or added to what is there.
fn exact(target: &str, [m, k, n]: [usize; 3], transposed: bool, adds: bool) -> f64 {
    let [lhs, out] = [format!("{m}x{k}xf32"), format!("{m}x{n}xf32")];
    let (rhs, numbers) = match transposed {
        true => (format!("{n}x{k}xf32"), "[1], [1], [0], [0], [0, 0, 1, 0]"),
        false => (format!("{k}x{n}xf32"), "[1], [0], [0], [1], [0, 0, 1, 1]"),
    };
    let mut body = load("%0", 0, &lhs)
        + &load("%1", 1, &rhs)
        + &format!(
            "    %cst = arith.constant dense<0.000000e+00> : vector<{out}>\n    \
             %2 = tpu.matmul %0, %1, %cst {{dimension_numbers = #tpu.dot_dimension_numbers<{numbers}, [], []>, \
             precision = #tpu.contract_precision<fp32>}} : vector<{lhs}>, vector<{rhs}>, vector<{out}> -> vector<{out}>\n"
        );
    if adds {
        body += &load("%3", 2, &out);
        body += &format!("    %4 = arith.addf %3, %2 : vector<{out}>\n");
    }
    body += &store(if adds { "%4" } else { "%2" }, 2, &out);
    let kernel = schedule(&probe(&[&lhs, &rhs, &out], &body), &machine(target)).unwrap();
    kernel.registers()
}

#[test]
fn parts_of_exact_rows_wait_for_the_passes_of_a_block() {
    // Slots for spills that libtpu 0.0.51 has.
    for (target, file, size, slots) in [
        ("v4", 32.0, [512, 256, 512], 316.0),
        ("v4", 32.0, [1024, 128, 256], 372.0),
        ("v5e", 64.0, [1024, 256, 128], 336.0),
        ("v5e", 64.0, [512, 1024, 128], 157.0),
        ("v5e", 64.0, [512, 256, 512], 564.0),
        ("v6e", 64.0, [256, 256, 256], 217.0),
        ("v6e", 64.0, [128, 512, 256], 191.0),
        ("v6e", 64.0, [1024, 512, 128], 672.0),
        ("v6e", 64.0, [256, 512, 512], 667.0),
    ] {
        let measured = slots + file;
        let registers = exact(target, size, false, true);
        assert!(
            (registers / measured - 1.0).abs() < 0.1,
            "{target} {size:?}: {registers} of {measured}"
        );
    }
}

#[test]
fn parts_of_an_exact_product_wait_for_the_units_that_have_blocks_of_the_contraction_each() {
    // Slots for spills that libtpu 0.0.51 has; the file has 64 registers.
    for (m, k, n, transposed, adds, slots) in [
        (256, 1024, 128, false, false, 350.0),
        (256, 1024, 128, false, true, 175.0),
        (256, 1024, 128, true, false, 352.0),
        (256, 1024, 128, true, true, 171.0),
        (128, 1024, 128, false, false, 93.0),
        (128, 1024, 128, true, false, 219.0),
        (128, 1024, 256, false, false, 320.0),
        (256, 256, 256, false, false, 189.0),
        (512, 256, 512, false, false, 542.0),
        (1024, 256, 512, false, false, 942.0),
    ] {
        let measured = slots + 64.0;
        let registers = exact("v7x", [m, k, n], transposed, adds);
        assert!(
            (registers / measured - 1.0).abs() < 0.1,
            "{m} x {k} x {n}, {transposed}, {adds}: {registers} of {measured}"
        );
    }
}

#[test]
fn registers_of_packed_weights_wait_for_the_second_of_two_columns_on_v4() {
    // Slots for spills that libtpu 0.0.51 has; the file has 32 registers. Of 512 rows they are loaded again.
    for (m, k, n, slots) in [
        (128, 512, 128, 0.0),
        (128, 512, 256, 52.0),
        (128, 512, 512, 83.0),
        (256, 512, 1024, 123.0),
        (128, 2048, 256, 144.0),
        (512, 512, 512, 120.0),
    ] {
        let kernel = schedule(&matmul(m, k, n), &machine("v4")).unwrap();
        let predicted = (kernel.registers() - 32.0).max(0.0);
        assert!(
            (predicted - slots).abs() <= 36.0,
            "{m} x {k} x {n}: {predicted} of {slots}"
        );
    }
}

#[test]
fn weights_that_a_unit_left_takes_do_not_wait_for_their_column_on_v4() {
    // Three blocks of the contraction of one column, and the first of the next. Slots for spills that libtpu 0.0.51 has.
    for (m, n, slots) in [
        (128, 256, 24.0),
        (128, 384, 42.0),
        (128, 512, 53.0),
        (256, 256, 43.0),
        (256, 384, 68.0),
    ] {
        let kernel = schedule(&matmul(m, 384, n), &machine("v4")).unwrap();
        let predicted = kernel.registers() - 32.0;
        assert!(
            (predicted - slots).abs() <= 15.0,
            "{m} x 384 x {n}: {predicted} of {slots}"
        );
    }
}

#[test]
fn sums_wait_where_blocks_of_the_contraction_do_not_fill_the_units() {
    // Slots for spills that libtpu 0.0.51 has. Four units have four blocks of the contraction at once, or three and one
    // of the next column.
    for (target, file, [m, k, n], slots) in [
        ("v4", 32.0, [512, 384, 512], 149.0),
        ("v5e", 64.0, [256, 384, 512], 38.0),
        ("v5e", 64.0, [512, 384, 512], 116.0),
        ("v5e", 64.0, [1024, 384, 384], 275.0),
        ("v5e", 64.0, [256, 512, 512], 21.0),
    ] {
        let kernel = schedule(&matmul(m, k, n), &machine(target)).unwrap();
        let measured = slots + file;
        let registers = kernel.registers();
        assert!(
            (registers / measured - 1.0).abs() < 0.25,
            "{target} {m} x {k} x {n}: {registers} of {measured}"
        );
    }
}

/// Products of transposed columns of `rows` rows, 128 columns to each, with one column of weights that lies in memory
/// as words.
fn of_words(rows: usize, count: usize) -> Module {
    let (columns, words) = (128 * count, format!("{}x128xi32", rows / 2));
    let types = [
        (rows, columns, "bf16"),
        (rows, 128, "bf16"),
        (columns, 128, "f32"),
    ];
    let [lhs, rhs, out] = types.map(|(m, n, dtype)| format!("{m}x{n}x{dtype}"));
    let (part, result) = (format!("{rows}x128xbf16"), "128x128xf32");
    let vmem = "#tpu.memory_space<vmem>";
    let mut body = format!(
        "    %cst = arith.constant dense<0.000000e+00> : vector<{result}>\n    \
         %words = tpu.memref_bitcast %arg1 : memref<{words}, {vmem}> -> memref<{rhs}, {vmem}>\n"
    );
    for i in 0..count {
        body += &format!(
            "    %n{i} = arith.constant {} : index\n    \
             %l{i} = vector.load %arg0[%c0, %n{i}] : memref<{lhs}, {vmem}>, vector<{part}>\n    \
             %r{i} = vector.load %words[%c0, %c0] : memref<{rhs}, {vmem}>, vector<{rhs}>\n    \
             %p{i} = tpu.matmul %l{i}, %r{i}, %cst {{dimension_numbers = #tpu.dot_dimension_numbers<[0], [0], [1], \
             [1], [0, 1, 1, 1], [], []>, transpose_lhs_hint = false}} : vector<{part}>, vector<{rhs}>, \
             vector<{result}> -> vector<{result}>\n    \
             tpu.vector_store %arg2[%n{i}, %c0], %p{i} {{strides = array<i32>}} : memref<{out}, {vmem}>, \
             vector<{result}>, \n",
            128 * i
        );
    }
    probe(&[&lhs, &words, &out], &body)
}

#[test]
fn rows_of_words_wait_for_those_of_the_product_before_on_v4() {
    // Slots for spills that libtpu 0.0.51 has.
    for (rows, count, slots) in [
        (128, 1, 9.0),
        (128, 2, 57.0),
        (128, 4, 68.0),
        (256, 2, 130.0),
        (256, 4, 133.0),
        (512, 1, 9.0),
    ] {
        let kernel = schedule(&of_words(rows, count), &machine("v4")).unwrap();
        let predicted = kernel.registers() - 32.0;
        assert!(
            (predicted - slots).abs() <= 12.0,
            "{rows} rows, {count} products: {predicted} of {slots}"
        );
    }
}
