//! What holds registers, and how long.

use super::*;

/// Registers for a softmax of 256 x 512 scores, made of the values %x and %y, with this reduction to what is subtracted.
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

#[test]
fn half_of_what_exponentials_give_waits_for_the_sum_of_their_row() {
    let (all, rows) = ("256x512xf32", "256xf32");
    let registers = |operation: &str| {
        let body = load("%0", 0, all)
            + &format!(
                "    %y = arith.addf %0, %0 : vector<{all}>\n    %x = arith.addf %y, %y : vector<{all}>\n    %e = {operation} : vector<{all}>\n    \
                 %cst = arith.constant dense<0.000000e+00> : vector<{rows}>\n    \
                 %r = vector.multi_reduction <add>, %x, %cst [1] : vector<{all}> to vector<{rows}>\n    \
                 %c = vector.shape_cast %r : vector<{rows}> to vector<256x1xf32>\n    \
                 %s = vector.broadcast %c : vector<256x1xf32> to vector<{all}>\n    \
                 %p = arith.mulf %e, %s : vector<{all}>\n"
            )
            + &store("%p", 1, all);
        let kernel = schedule(&probe(&[all, all], &body), &machine("v5e")).unwrap();
        kernel.registers()
    };
    let exponentials = registers("math.exp2 %x");
    let others = registers("arith.subf %x, %x");
    assert!(exponentials > 4.0 * others, "{exponentials} and {others}");
}
