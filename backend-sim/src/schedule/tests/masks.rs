//! Masks that wait for the second of two values that they select.

use super::*;

/// Rows of both operands that lie within limits, a product of them.
fn masked([k, m, n]: [usize; 3]) -> Module {
    let [lhs, rhs] = [m, n].map(|columns| format!("{k}x{columns}x"));
    let both = [("%x", 0, lhs.clone()), ("%y", 1, rhs.clone())].map(|(name, argument, shape)| {
        load(name, argument, &format!("{shape}bf16"))
            + &format!(
                "    {name}i = tpu.iota {{dimensions = array<i32: 0>}} : vector<{shape}i32>
    {name}l = vector.broadcast %low : i32 to vector<{shape}i32>
    {name}h = vector.broadcast %high : i32 to vector<{shape}i32>
    {name}f = arith.cmpi sge, {name}i, {name}l : vector<{shape}i32>
    {name}t = arith.cmpi slt, {name}i, {name}h : vector<{shape}i32>
    {name}m = arith.andi {name}f, {name}t : vector<{shape}i1>
    {name}w = arith.extf {name} : vector<{shape}bf16> to vector<{shape}f32>
    {name}o = arith.constant dense<0.000000e+00> : vector<{shape}f32>
    {name}s = arith.select {name}m, {name}w, {name}o : vector<{shape}i1>, vector<{shape}f32>
    {name}p = arith.truncf {name}s : vector<{shape}f32> to vector<{shape}bf16>
"
            )
    });
    let [lhs, rhs, out] = [lhs + "bf16", rhs + "bf16", format!("{m}x{n}xf32")];
    let body = [
        "    %low = arith.constant 20 : i32\n    %high = arith.constant 100 : i32\n".into(),
        both.concat(),
        product_of_rows("%p", ["%xp", "%yp"], [&lhs, &rhs, &out]),
        store("%p", 2, &out),
    ];
    probe(&[&lhs, &rhs, &out], &body.concat())
}

#[test]
fn masks_of_rows_wait_for_the_second_value_on_v4() {
    // Slots that libtpu 0.0.51 has where the limits are loaded (of constants it makes no masks). No more than 20
    // registers hold values at once.
    for (shape, slots) in [
        ([128, 128, 128], 8.0),
        ([128, 128, 256], 18.0),
        ([256, 128, 128], 46.0),
        ([256, 128, 256], 59.0),
        ([256, 256, 128], 23.0),
        ([256, 256, 256], 36.0),
    ] {
        let kernel = schedule(&masked(shape), &machine("v4")).unwrap();
        let predicted = kernel.registers() - 32.0;
        assert!(
            (predicted - slots).abs() < 20.0,
            "{shape:?}: {predicted} of {slots}"
        );
    }
    // Masks that have registers, as all do of so few rows, leave what values need as it is.
    for (target, shape) in [("v4", [64, 128, 128]), ("v5e", [256, 128, 128])] {
        let registers = schedule(&masked(shape), &machine(target))
            .unwrap()
            .registers();
        assert!(registers < 32.0, "{target}: {registers}");
    }
}
