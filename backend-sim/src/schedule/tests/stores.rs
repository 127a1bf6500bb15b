//! What is stored over, or stored and read again.

use super::*;

#[test]
fn sums_of_two_sub_tiles_are_each_stored_once() {
    let types = product_types(256, 128, 128);
    let [lhs, rhs, sum] = &types;
    let both = "512x128xf32";
    let mut body = operands(&types) + "    %c256 = arith.constant 256 : index\n";
    for i in 0..4 {
        let row = ["%c0", "%c256"][i % 2];
        let at = format!("%arg2[{row}, %c0]");
        body += &product(&format!("%p{i}"), i, &types);
        body += &format!(
            "    %s{i} = vector.load {at} : memref<{both}, #tpu.memory_space<vmem>>, vector<{sum}>\n    \
             %t{i} = arith.addf %s{i}, %p{i} : vector<{sum}>\n    \
             tpu.vector_store {at}, %t{i} {{strides = array<i32>}} : memref<{both}, #tpu.memory_space<vmem>>, \
             vector<{sum}>, \n"
        );
    }
    let kernel = schedule(&probe(&[lhs, rhs, both], &body), &machine("v5e")).unwrap();
    // Four products side by side, two to a sum of 32 registers.
    assert_eq!(kernel.kinds[0].schedule.slots(Unit::Store), 64.0);
}

#[test]
fn what_is_rounded_widened_and_stored_over_is_rounded_once() {
    let [wide, narrow] = ["256x512xf32", "256x512xbf16"];
    let round = |name: &str, from: &str| {
        format!("    {name} = arith.truncf {from} : vector<{wide}> to vector<{narrow}>\n")
    };
    let once = [
        load("%0", 0, wide),
        round("%1", "%0"),
        store("%1", 1, narrow),
    ]
    .concat();
    let again = [
        load("%2", 1, narrow),
        format!("    %3 = arith.extf %2 : vector<{narrow}> to vector<{wide}>\n"),
        format!("    %4 = arith.addf %3, %3 : vector<{wide}>\n"),
        round("%5", "%4"),
        store("%5", 1, narrow),
    ];
    let slots = |body: &str| {
        let kernel = schedule(&probe(&[wide, narrow], body), &machine("v5e")).unwrap();
        [Unit::Valu, Unit::Store].map(|unit| kernel.kinds[0].schedule.slots(unit))
    };
    assert_eq!(slots(&once), [64.0, 64.0]);
    // 128 sums, and what rounds and stores them.
    assert_eq!(slots(&(once + &again.concat())), [192.0, 64.0]);
}

/// Sums over 32 rows of so many columns, and their store.
fn sums_over_rows(columns: usize) -> Module {
    let (all, row) = (format!("32x{columns}xf32"), format!("1x{columns}xf32"));
    let body = load("%0", 0, &all)
        + &format!(
            "    %cst = arith.constant dense<0.000000e+00> : vector<{columns}xf32>\n    \
             %1 = vector.multi_reduction <add>, %0, %cst [0] : vector<{all}> to vector<{columns}xf32>\n    \
             %2 = vector.shape_cast %1 : vector<{columns}xf32> to vector<{row}>\n"
        )
        + &store("%2", 1, &row);
    probe(&[&all, &row], &body)
}

#[test]
fn registers_of_a_row_are_put_side_by_side() {
    let of = |target: &str, columns| {
        let machine = machine(target);
        let kernel = schedule(&sums_over_rows(columns), &machine).unwrap();
        let step = &kernel.kinds[0].schedule;
        (step.slots(Unit::Valu), step.cycles(&machine))
    };
    // Four additions and five operations on what is left, for each 128 columns; then two for each register that joins
    // another.
    for (columns, valu) in [(128, 9.0), (512, 36.0 + 6.0), (2048, 144.0 + 28.0)] {
        assert_eq!(of("v6e", columns).0, valu, "{columns}");
    }
    // Where they go through memory, these are stores and loads.
    assert_eq!(of("v4", 512).0, 36.0);
    // Two to one twice, after what sums over 128 columns take.
    assert!(of("v6e", 512).1 > of("v6e", 128).1 + 7.0);
}

#[test]
fn a_mask_is_held_until_the_last_store_that_it_masks() {
    let shape = "64x512xf32";
    let held = |mask: &str, mask_type: &str| {
        let stored = |name: &str, argument: usize| {
            store(name, argument, shape)
                .replace(" {strides", &format!("{mask} {{strides"))
                .replace(", \n", &format!(", {mask_type}\n"))
        };
        let body = load("%0", 0, shape)
            + &load("%1", 1, shape)
            + &format!("    %m = arith.cmpf ogt, %0, %1 : vector<{shape}>\n")
            + &stored("%0", 2)
            + &format!(
                "    %e = math.exp %1 : vector<{shape}>\n    %r = arith.mulf %e, %1 : vector<{shape}>\n"
            )
            + &stored("%r", 3);
        let module = probe(&[shape; 4], &body);
        schedule(&module, &machine("v4")).unwrap().registers()
    };
    let [plain, masked] = [held("", ""), held(" masked %m", "vector<64x512xi1>")];
    // libtpu 0.0.51: no slots, and 57 beside 32 registers.
    assert!(plain <= 32.0, "{plain}");
    assert!((80.0..=115.0).contains(&masked), "{masked}");
}

#[test]
fn a_scratch_that_is_stored_in_parts_of_unlike_heights_is_dropped() {
    let dropped = |rows: [usize; 2]| {
        let [all, first, second] =
            [rows[0] + rows[1], rows[0], rows[1]].map(|rows| format!("{rows}x128xf32"));
        let body = load("%0", 0, &first)
            + &load("%1", 1, &second)
            + &store("%0", 3, &first).replace(&format!("memref<{first}"), &format!("memref<{all}"))
            + &format!("    %next = arith.constant {} : index\n", rows[0])
            + &store("%1", 3, &second)
                .replace(&format!("memref<{second}"), &format!("memref<{all}"))
                .replace("[%c0,", "[%next,")
            + &load("%2", 3, &all)
            + &store("%2", 2, &all);
        let module = with_scratch(&[&first, &second, &all, &all], 1, &body);
        schedule(&module, &machine("v6e")).unwrap().dropped.len()
    };
    // Rows that end within a register are not passed on.
    assert_eq!([[256, 128], [128, 256], [252, 132]].map(dropped), [1, 1, 0]);
}

#[test]
fn exponentials_inside_of_a_region_wait_for_labels_from_v6e_on() {
    // Exponentials of 1024 x 512 less a column, less one where the column is that of the label, times a column; columns
    // are loaded along lanes.
    let (all, column) = ("1024x512xf32", "1024xf32");
    let spread = |name: &str, argument: usize, element: &str| {
        format!(
            "    {name}a = vector.load %arg{argument}[%c0] : memref<1024x{element}, #tpu.memory_space<vmem>>, \
             vector<1024x{element}>\n    \
             {name}b = vector.shape_cast {name}a : vector<1024x{element}> to vector<1024x1x{element}>\n    \
             {name} = vector.broadcast {name}b : vector<1024x1x{element}> to vector<1024x512x{element}>\n"
        )
    };
    let body = spread("%g", 3, "f32")
        + &load("%x", 0, all)
        + &spread("%s", 2, "f32")
        + &format!(
            "    %d = arith.subf %x, %s : vector<{all}>\n    %e = math.exp %d : vector<{all}>\n"
        )
        + &spread("%l", 1, "i32")
        + &format!(
            "    %i = tpu.iota {{dimensions = array<i32: 1>}} : vector<1024x512xi32>\n    \
             %c = arith.cmpi eq, %i, %l : vector<1024x512xi32>\n    \
             %one = arith.constant dense<1.000000e+00> : vector<{all}>\n    \
             %f = arith.subf %e, %one : vector<{all}>\n    \
             %h = arith.select %c, %f, %e : vector<1024x512xi1>, vector<{all}>\n    \
             %o = arith.mulf %h, %g : vector<{all}>\n"
        )
        + &store("%o", 0, all);
    let region = format!("    \"tpu.region\"() ({{\n{body}      tpu.yield\n    }}) : () -> ()\n");
    let module = probe(&[all, "1024xi32", column, column], &region);
    let held = |target: &str| schedule(&module, &machine(target)).unwrap().registers();
    // libtpu 0.0.51 has 101, 182, 701 and 699 slots. All exponentials, as from v6e on, would be 660 on v4 and v5e, too.
    for (target, expected) in [
        ("v4", 96.0..400.0),
        ("v5e", 182.0..400.0),
        ("v6e", 740.0..790.0),
        ("v7x", 740.0..790.0),
    ] {
        let registers = held(target);
        assert!(expected.contains(&registers), "{target}: {registers}");
    }
}

#[test]
fn a_packed_scratch_is_loaded_where_a_product_takes_another_form() {
    // Rows of one to six registers. Whether the scratch is counted in the VMEM that libtpu 0.0.51 uses.
    let dropped = |target: &str| {
        [128, 256, 384, 512, 640, 768].map(|n| {
            let [packed, wide, rows, out] = [
                format!("256x{n}xbf16"),
                format!("256x{n}xf32"),
                "256x128xbf16".into(),
                format!("128x{n}xf32"),
            ];
            let body = [
                load("%x", 0, &packed),
                format!("    %w = arith.extf %x : vector<{packed}> to vector<{wide}>\n"),
                format!("    %e = arith.mulf %w, %w : vector<{wide}>\n"),
                format!("    %p = arith.truncf %e : vector<{wide}> to vector<{packed}>\n"),
                store("%p", 3, &packed),
                load("%s", 3, &packed),
                load("%y", 1, &rows),
                product_of_rows("%r", ["%y", "%s"], [&rows, &packed, &out]),
                store("%r", 2, &out),
            ];
            let arguments = [&*packed, &*rows, &*out, &*packed];
            let module = with_scratch(&arguments, 1, &body.concat());
            schedule(&module, &machine(target)).unwrap().dropped.len()
        })
    };
    assert_eq!(dropped("v4"), [1, 1, 0, 1, 0, 1]);
    assert_eq!(dropped("v5e"), [0; 6]);
    assert_eq!(dropped("v6e"), [0, 1, 0, 1, 0, 1]);
    assert_eq!(dropped("v7x"), [1; 6]);
}
