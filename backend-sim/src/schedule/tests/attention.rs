//! What waits in blocks of attention: probes of its forward pass and of both of its gradients.

use tilecast_tpu::mosaic::tpu::VectorKind;
use tilecast_tpu::mosaic::{Definition, Op};

use super::*;
use crate::access::Access;

/// A step of a forward pass: `rows` queries over chunks of so many keys. Operands are queries, keys, values, running
/// maximum, sum and output.
fn forward(rows: usize, keys: usize, chunks: usize) -> Module {
    let (queries, row) = (format!("{rows}x128xbf16"), format!("{rows}x128xf32"));
    let all = format!("{}x128xbf16", keys * chunks);
    let mut body = load("%q", 0, &queries) + &constants(rows, keys);
    for i in 0..chunks {
        let first = keys * i;
        body += &format!("    %first{i} = arith.constant {first} : index\n");
        body += &load(&format!("%m{i}"), 3, &row);
        body += &load(&format!("%l{i}"), 4, &row);
        body += &chunk(&format!("%k{i}"), 1, i, keys, &all);
        body += &scores(&format!("%s{i}"), "%q", &format!("%k{i}"), rows, keys);
        body += &reduced(
            &format!("%x{i}"),
            "maximumf",
            &format!("%s{i}"),
            "%low",
            rows,
            keys,
        );
        body += &format!("    %n{i} = arith.maximumf %m{i}, %x{i} : vector<{row}>\n");
        let [wide, maximum] = wide(&format!("%w{i}"), &format!("%n{i}"), rows, keys);
        body += &wide;
        body += &format!(
            "    %d{i} = arith.subf %s{i}, {maximum} : vector<{rows}x{keys}xf32>\n    \
             %e{i} = math.exp %d{i} : vector<{rows}x{keys}xf32>\n"
        );
        body += &reduced(
            &format!("%y{i}"),
            "add",
            &format!("%e{i}"),
            "%none",
            rows,
            keys,
        );
        body += &format!(
            "    %j{i} = arith.subf %m{i}, %n{i} : vector<{row}>\n    \
             %a{i} = math.exp %j{i} : vector<{row}>\n    \
             %b{i} = arith.mulf %a{i}, %l{i} : vector<{row}>\n    \
             %t{i} = arith.addf %y{i}, %b{i} : vector<{row}>\n"
        );
        body += &store(&format!("%n{i}"), 3, &row);
        body += &store(&format!("%t{i}"), 4, &row);
        body += &chunk(&format!("%v{i}"), 2, i, keys, &all);
        body += &weighted(
            &format!("%z{i}"),
            &format!("%e{i}"),
            &format!("%v{i}"),
            [rows, keys],
        );
        body += &load(&format!("%o{i}"), 5, &row);
        body += &format!(
            "    %f{i} = arith.mulf %a{i}, %o{i} : vector<{row}>\n    \
             %g{i} = arith.addf %f{i}, %z{i} : vector<{row}>\n"
        );
        body += &store(&format!("%g{i}"), 5, &row);
    }
    probe(&[&queries, &all, &all, &row, &row, &row], &body)
}

/// Gradients of `rows` queries and so many keys: of the queries, or of keys and values, which transposes what is made of
/// scores. Operands are queries, keys, values, gradients of outputs, their statistics, and the gradients.
fn backward(rows: usize, keys: usize, of_keys: bool) -> Module {
    let (queries, row) = (format!("{rows}x128xbf16"), format!("{rows}x128xf32"));
    let (all, column) = (format!("{keys}x128xbf16"), format!("{keys}x128xf32"));
    let [of_logarithms, logarithm] = wide("%w", "%l", rows, keys);
    let [of_products, product] = wide("%x", "%i", rows, keys);
    let mut body = [
        load("%q", 0, &queries),
        load("%k", 1, &all),
        load("%v", 2, &all),
        load("%u", 3, &queries),
        load("%l", 4, &row),
        load("%i", 5, &row),
        constants(rows, keys),
        scores("%s", "%q", "%k", rows, keys),
        of_logarithms,
        format!("    %d = arith.subf %s, {logarithm} : vector<{rows}x{keys}xf32>\n"),
        format!("    %p = math.exp %d : vector<{rows}x{keys}xf32>\n"),
    ]
    .concat();
    if of_keys {
        body += &transposed("%pt", "%p", rows, keys);
        body += &weighted("%gv", "%pt", "%u", [keys, rows]);
        body += &store("%gv", 7, &column);
    }
    body += &scores("%e", "%u", "%v", rows, keys);
    body += &of_products;
    body += &format!(
        "    %f = arith.subf %e, {product} : vector<{rows}x{keys}xf32>\n    \
         %g = arith.mulf %p, %f : vector<{rows}x{keys}xf32>\n"
    );
    let out = match of_keys {
        true => {
            body += &transposed("%gt", "%g", rows, keys);
            body += &weighted("%r", "%gt", "%q", [keys, rows]);
            column.clone()
        }
        false => {
            body += &weighted("%r", "%g", "%k", [rows, keys]);
            row.clone()
        }
    };
    body += &store("%r", 6, &out);
    probe(
        &[&queries, &all, &all, &queries, &row, &row, &out, &column],
        &body,
    )
}

fn constants(rows: usize, keys: usize) -> String {
    format!(
        "    %zeros = arith.constant dense<0.000000e+00> : vector<{rows}x{keys}xf32>\n    \
         %zero_rows = arith.constant dense<0.000000e+00> : vector<{rows}x128xf32>\n    \
         %zero_keys = arith.constant dense<0.000000e+00> : vector<{keys}x128xf32>\n    \
         %low = arith.constant dense<0xFF800000> : vector<{rows}xf32>\n    \
         %none = arith.constant dense<0.000000e+00> : vector<{rows}xf32>\n"
    )
}

fn chunk(name: &str, argument: usize, i: usize, keys: usize, all: &str) -> String {
    format!(
        "    {name} = vector.load %arg{argument}[%first{i}, %c0] : memref<{all}, #tpu.memory_space<vmem>>, \
         vector<{keys}x128xbf16>\n"
    )
}

/// Products of rows with rows.
fn scores(name: &str, left: &str, right: &str, rows: usize, keys: usize) -> String {
    format!(
        "    {name} = tpu.matmul {left}, {right}, %zeros {{dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], \
         [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false}} : vector<{rows}x128xbf16>, vector<{keys}x128xbf16>, vector<{rows}x{keys}xf32> -> \
         vector<{rows}x{keys}xf32>\n"
    )
}

/// Rows of the right operand, rounded weights of which are the left one.
fn weighted(name: &str, left: &str, right: &str, [m, k]: [usize; 2]) -> String {
    let zeros = match name.starts_with("%z") || name == "%r" && left == "%g" {
        true => "%zero_rows",
        false => "%zero_keys",
    };
    format!(
        "    {name}n = arith.truncf {left} : vector<{m}x{k}xf32> to vector<{m}x{k}xbf16>\n    \
         {name} = tpu.matmul {name}n, {right}, {zeros} {{dimension_numbers = #tpu.dot_dimension_numbers<[1], [0], [0], \
         [1], [0, 0, 1, 1], [], []>, transpose_lhs_hint = false}} : vector<{m}x{k}xbf16>, vector<{k}x128xbf16>, vector<{m}x128xf32> -> \
         vector<{m}x128xf32>\n"
    )
}

/// A column of what rows are reduced to, in all lanes.
fn reduced(name: &str, kind: &str, of: &str, with: &str, rows: usize, keys: usize) -> String {
    format!(
        "    {name}a = vector.multi_reduction <{kind}>, {of}, {with} [1] : vector<{rows}x{keys}xf32> to vector<{rows}xf32>\n    \
         {name}b = vector.shape_cast {name}a : vector<{rows}xf32> to vector<{rows}x1xf32>\n    \
         {name} = vector.broadcast {name}b : vector<{rows}x1xf32> to vector<{rows}x128xf32>\n"
    )
}

/// `name`, or `of` where that is as wide: the same registers for all columns.
fn wide(name: &str, of: &str, rows: usize, keys: usize) -> [String; 2] {
    let parts = keys / 128;
    if parts == 1 {
        return [String::new(), of.into()];
    }
    let values = vec![of; parts].join(", ");
    let types = vec![format!("vector<{rows}x128xf32>"); parts].join(", ");
    let wide = format!(
        "    {name} = tpu.concatenate {values} in 1 : {types} -> vector<{rows}x{keys}xf32>\n"
    );
    [wide, name.into()]
}

fn transposed(name: &str, of: &str, rows: usize, keys: usize) -> String {
    format!(
        "    {name} = tpu.transpose {of}, [1, 0] : vector<{rows}x{keys}xf32> -> vector<{keys}x{rows}xf32>\n"
    )
}

/// Slots for spills that libtpu 0.0.51 has and how far off the model may be, by target, rows and keys.
type Measured<'a> = &'a [(&'a str, [usize; 2], f64, f64)];

fn assert_slots(kernel: impl Fn(usize, usize) -> Module, measured: Measured) {
    for &(target, [rows, keys], slots, tolerance) in measured {
        let machine = machine(target);
        let registers = schedule(&kernel(rows, keys), &machine).unwrap().registers();
        let predicted = (registers - machine.registers).max(0.0);
        assert!(
            (predicted - slots).abs() <= tolerance,
            "{target}, {rows} rows, {keys} keys: {predicted} of {slots}"
        );
    }
}

#[test]
fn sums_of_four_chunks_wait_for_the_maxima_of_all() {
    // In the order of the program 0 to 20 are predicted.
    assert_slots(
        |rows, keys| forward(rows, keys, 4),
        &[
            ("v5e", [128, 128], 58.0, 16.0),
            ("v6e", [128, 128], 87.0, 16.0),
            ("v7x", [128, 128], 87.0, 16.0),
            ("v5e", [128, 256], 98.0, 36.0),
            ("v6e", [128, 256], 108.0, 36.0),
            ("v7x", [128, 256], 109.0, 36.0),
        ],
    );
}

#[test]
fn sums_of_three_chunks_of_few_rows_wait_on_v4() {
    // In the order of the program 0 to 81 are predicted, and without what registers are short of beyond values 6 to 86.
    assert_slots(
        |rows, keys| forward(rows, keys, 3),
        &[
            ("v4", [64, 128], 33.0, 16.0),
            ("v4", [128, 128], 84.0, 16.0),
            ("v4", [64, 256], 48.0, 16.0),
            ("v4", [128, 256], 116.0, 16.0),
            ("v4", [256, 128], 88.0, 16.0),
        ],
    );
}

#[test]
fn exponentials_wait_for_the_results_of_a_later_product() {
    // A fifth of them, as of others, would be 0 to 76 slots.
    assert_slots(
        |rows, keys| backward(rows, keys, false),
        &[
            ("v4", [256, 512], 120.0, 20.0),
            ("v5e", [256, 512], 87.0, 20.0),
            ("v6e", [256, 512], 74.0, 20.0),
            ("v7x", [256, 512], 82.0, 20.0),
            ("v4", [512, 512], 248.0, 20.0),
            ("v5e", [512, 512], 215.0, 20.0),
            ("v6e", [512, 512], 221.0, 20.0),
        ],
    );
}

#[test]
fn what_is_transposed_later_and_read_before_is_not_made_late() {
    // Scores, differences and exponentials all together would be 264 to 616 slots.
    assert_slots(
        |rows, keys| backward(rows, keys, true),
        &[
            ("v4", [256, 512], 155.0, 40.0),
            ("v5e", [256, 512], 117.0, 40.0),
            ("v6e", [256, 512], 122.0, 40.0),
            ("v7x", [256, 512], 122.0, 40.0),
            ("v4", [512, 512], 333.0, 40.0),
            ("v5e", [512, 512], 270.0, 40.0),
            ("v7x", [512, 512], 278.0, 40.0),
        ],
    );
}

#[test]
fn the_order_of_chunks_keeps_what_each_depends_on() {
    let placed = |module: &Module, target: &str| {
        let signature = Signature::read(module).unwrap();
        let code = Code::of(module, &signature, &machine(target));
        let block = module.entry(signature.function, 0).unwrap();
        let program = module.block_ops(block).to_vec();
        (program, code.runs.ops(module, block).to_vec())
    };
    let high = forward(256, 256, 3);
    let (program, order) = placed(&high, "v4");
    assert_eq!(order, program);
    assert_ne!(placed(&high, "v6e").1, program);
    let module = forward(128, 128, 3);
    let (program, order) = placed(&module, "v6e");
    assert_eq!(placed(&module, "v4").1, order);
    assert_ne!(order, program);
    let mut sorted = order.clone();
    sorted.sort_by_key(|op| program.iter().position(|other| op == other));
    assert_eq!(sorted, program);
    // Maximum or sum: the reductions of each chunk are one of each.
    let kind = |op: &Op| {
        module
            .attribute_of(*op, "kind")
            .and_then(|kind| VectorKind::read(&module, kind))
    };
    let kinds: Vec<VectorKind> = order.iter().filter_map(kind).collect();
    let [maximum, sum] = [VectorKind::MaximumF, VectorKind::Add];
    assert_eq!(kinds, [[maximum; 3], [sum; 3]].concat());
    // Whatever an operation reads was made or stored before it.
    let place = |op: &Op| order.iter().position(|other| op == other).unwrap();
    for (i, op) in order.iter().enumerate() {
        for &value in module.operands(*op) {
            if let Definition::Result(maker, _) = module.definition(value) {
                assert!(place(&maker) < i);
            }
        }
    }
    let accesses: Vec<(usize, Access)> = (program.iter())
        .filter_map(|op| Some((place(op), Access::of(&module, *op)?)))
        .collect();
    for (i, (at, one)) in accesses.iter().enumerate() {
        for (later, other) in &accesses[i + 1..] {
            let same = one.memory == other.memory && (one.stores || other.stores);
            assert!(!same || at < later, "{one:?} and {other:?}");
        }
    }
}
