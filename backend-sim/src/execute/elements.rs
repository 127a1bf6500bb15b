//! Operations on single elements: arithmetic, functions, comparisons, casts.
//!
//! Floats are computed in f32 and rounded to the type of the result, as the hardware does it for
//! types it has no arithmetic for.

use std::cmp::Ordering;

use tilecast_tpu::mosaic::FloatKind;

use super::error::Fault;
use super::leaf::Leaf;
use super::tensor::{Cells, Element, Tensor};

/// The result of an operation of this file; none if it is of another.
pub(super) fn evaluate(leaf: &Leaf<'_>) -> Option<Result<Tensor, Fault>> {
    let name = leaf.name;
    if let Some(f) = float_binary(name) {
        return Some(floats2(leaf, f));
    }
    if let Some(f) = float_unary(name) {
        return Some(floats1(leaf, f));
    }
    if let Some(f) = int_binary(name) {
        return Some(ints2(leaf, f));
    }
    Some(match name {
        "arith.cmpi" => compare_ints(leaf),
        "arith.cmpf" => compare_floats(leaf),
        "arith.select" => select(leaf),
        "math.fma" | "vector.fma" => fma(leaf),
        "math.absi" => ints1(leaf, |_, x| x.wrapping_abs()),
        "math.ctpop" => ints1(leaf, |e, x| e.unsigned(x).count_ones().into()),
        "arith.extf" | "arith.truncf" | "tpu.extf" | "tpu.truncf" => cast_floats(leaf),
        "arith.sitofp" | "tpu.sitofp" => to_floats(leaf, |e, x| e.signed(x) as f64),
        "arith.uitofp" | "tpu.uitofp" => to_floats(leaf, |e, x| e.unsigned(x) as f64),
        "arith.fptosi" | "tpu.fptosi" => to_ints(leaf, true),
        "arith.fptoui" | "tpu.fptoui" => to_ints(leaf, false),
        "arith.extsi" | "arith.index_cast" => cast_ints(leaf, |e, x| e.signed(x)),
        "arith.extui" | "arith.index_castui" => cast_ints(leaf, |e, x| e.unsigned(x) as i64),
        "arith.trunci" => cast_ints(leaf, |_, x| x),
        "arith.bitcast" | "tpu.bitcast" | "vector.bitcast" => bitcast(leaf),
        "tpu.weird" => weird(leaf),
        "tpu.reciprocal" => floats1(leaf, |x| 1.0 / x),
        _ => return None,
    })
}

fn float_binary(name: &str) -> Option<fn(f32, f32) -> f32> {
    Some(match name {
        "arith.addf" => |a, b| a + b,
        "arith.subf" => |a, b| a - b,
        "arith.mulf" => |a, b| a * b,
        "arith.divf" => |a, b| a / b,
        "arith.remf" => |a, b| a % b,
        "arith.maximumf" => maximum,
        "arith.minimumf" => minimum,
        "arith.maxnumf" => f32::max,
        "arith.minnumf" => f32::min,
        "math.powf" => f32::powf,
        "math.atan2" => f32::atan2,
        "math.copysign" => f32::copysign,
        _ => return None,
    })
}

/// The larger; NaN if either is.
pub(super) fn maximum(a: f32, b: f32) -> f32 {
    if a.is_nan() || a > b { a } else { b }
}

/// The smaller; NaN if either is.
pub(super) fn minimum(a: f32, b: f32) -> f32 {
    if a.is_nan() || a < b { a } else { b }
}

fn float_unary(name: &str) -> Option<fn(f32) -> f32> {
    Some(match name {
        "arith.negf" => |x| -x,
        "math.absf" => f32::abs,
        "math.exp" => f32::exp,
        "math.exp2" => f32::exp2,
        "math.expm1" => f32::exp_m1,
        "math.log" => f32::ln,
        "math.log1p" => f32::ln_1p,
        "math.log2" => f32::log2,
        "math.tanh" => f32::tanh,
        "math.sqrt" => f32::sqrt,
        "math.rsqrt" => |x| 1.0 / x.sqrt(),
        "math.cbrt" => f32::cbrt,
        "math.sin" => f32::sin,
        "math.cos" => f32::cos,
        "math.tan" => f32::tan,
        "math.floor" => f32::floor,
        "math.ceil" => f32::ceil,
        "math.round" => f32::round,
        "math.roundeven" => f32::round_ties_even,
        "math.trunc" => f32::trunc,
        _ => return None,
    })
}

type IntBinary = fn(Element, i64, i64) -> Option<i64>;

/// None where the result is undefined: division by 0.
fn int_binary(name: &str) -> Option<IntBinary> {
    fn shift(e: Element, a: i64, b: i64, f: fn(i64, u32) -> i64) -> Option<i64> {
        let width = if e == Element::Index { 64 } else { e.bits() };
        u32::try_from(b)
            .ok()
            .filter(|&b| b < width)
            .map(|b| f(a, b))
    }
    Some(match name {
        "arith.addi" => |_, a, b| Some(a.wrapping_add(b)),
        "arith.subi" => |_, a, b| Some(a.wrapping_sub(b)),
        "arith.muli" => |_, a, b| Some(a.wrapping_mul(b)),
        "arith.andi" => |_, a, b| Some(a & b),
        "arith.ori" => |_, a, b| Some(a | b),
        "arith.xori" => |_, a, b| Some(a ^ b),
        "arith.minsi" => |e, a, b| Some(if e.signed(a) < e.signed(b) { a } else { b }),
        "arith.maxsi" => |e, a, b| Some(if e.signed(a) > e.signed(b) { a } else { b }),
        "arith.minui" => |e, a, b| Some(if e.unsigned(a) < e.unsigned(b) { a } else { b }),
        "arith.maxui" => |e, a, b| Some(if e.unsigned(a) > e.unsigned(b) { a } else { b }),
        "arith.divsi" => |e, a, b| e.signed(a).checked_div(e.signed(b)),
        "arith.remsi" => |e, a, b| e.signed(a).checked_rem(e.signed(b)),
        "arith.divui" => |e, a, b| Some(e.unsigned(a).checked_div(e.unsigned(b))? as i64),
        "arith.remui" => |e, a, b| Some(e.unsigned(a).checked_rem(e.unsigned(b))? as i64),
        "arith.floordivsi" => |e, a, b| {
            let (a, b) = (e.signed(a), e.signed(b));
            let quotient = a.checked_div(b)?;
            let inexact = a.checked_rem(b)? != 0;
            Some(quotient - i64::from(inexact && (a < 0) != (b < 0)))
        },
        "arith.ceildivsi" => |e, a, b| {
            let (a, b) = (e.signed(a), e.signed(b));
            let quotient = a.checked_div(b)?;
            let inexact = a.checked_rem(b)? != 0;
            Some(quotient + i64::from(inexact && (a < 0) == (b < 0)))
        },
        "arith.ceildivui" => {
            |e, a, b| (e.unsigned(b) != 0).then(|| e.unsigned(a).div_ceil(e.unsigned(b)) as i64)
        }
        "arith.shli" => |e, a, b| shift(e, a, b, |a, b| a << b),
        "arith.shrsi" => |e, a, b| shift(e, e.signed(a), b, |a, b| a >> b),
        "arith.shrui" => |e, a, b| shift(e, e.unsigned(a) as i64, b, |a, b| (a as u64 >> b) as i64),
        _ => return None,
    })
}

fn floats1(leaf: &Leaf<'_>, f: impl Fn(f32) -> f32) -> Result<Tensor, Fault> {
    let a = leaf.tensor(0)?.floats()?;
    leaf.floats(a.iter().map(|&x| f(x)).collect())
}

fn floats2(leaf: &Leaf<'_>, f: impl Fn(f32, f32) -> f32) -> Result<Tensor, Fault> {
    let (a, b) = (leaf.tensor(0)?.floats()?, leaf.tensor(1)?.floats()?);
    same(a.len(), b.len())?;
    leaf.floats(a.iter().zip(b).map(|(&a, &b)| f(a, b)).collect())
}

fn fma(leaf: &Leaf<'_>) -> Result<Tensor, Fault> {
    let (a, b) = (leaf.tensor(0)?.floats()?, leaf.tensor(1)?.floats()?);
    let c = leaf.tensor(2)?.floats()?;
    same(a.len(), b.len())?;
    same(a.len(), c.len())?;
    let products = a.iter().zip(b).zip(c);
    leaf.floats(products.map(|((a, b), c)| a.mul_add(*b, *c)).collect())
}

fn ints1(leaf: &Leaf<'_>, f: impl Fn(Element, i64) -> i64) -> Result<Tensor, Fault> {
    let a = leaf.tensor(0)?;
    leaf.ints(a.ints()?.iter().map(|&x| f(a.element, x)).collect())
}

fn ints2(leaf: &Leaf<'_>, f: IntBinary) -> Result<Tensor, Fault> {
    let (a, b) = (leaf.tensor(0)?, leaf.tensor(1)?);
    same(a.len(), b.len())?;
    if a.element != b.element {
        return Err(Fault::Malformed("operands differ in type"));
    }
    let pairs = a.ints()?.iter().zip(b.ints()?);
    let result: Option<Vec<i64>> = pairs.map(|(&x, &y)| f(a.element, x, y)).collect();
    let undefined = "the result is undefined: division by 0, or a shift by the width or more";
    leaf.ints(result.ok_or(Fault::Malformed(undefined))?)
}

fn same(a: usize, b: usize) -> Result<(), Fault> {
    match a == b {
        true => Ok(()),
        false => Err(Fault::Malformed("operands differ in shape")),
    }
}

fn compare_ints(leaf: &Leaf<'_>) -> Result<Tensor, Fault> {
    let (a, b) = (leaf.tensor(0)?, leaf.tensor(1)?);
    same(a.len(), b.len())?;
    let (e, predicate) = (a.element, leaf.integer("predicate")?);
    let holds = |&(a, b): &(&i64, &i64)| {
        let (signed, unsigned) = (
            e.signed(*a).cmp(&e.signed(*b)),
            e.unsigned(*a).cmp(&e.unsigned(*b)),
        );
        match predicate {
            0 => signed.is_eq(),
            1 => signed.is_ne(),
            2 => signed.is_lt(),
            3 => signed.is_le(),
            4 => signed.is_gt(),
            5 => signed.is_ge(),
            6 => unsigned.is_lt(),
            7 => unsigned.is_le(),
            8 => unsigned.is_gt(),
            _ => unsigned.is_ge(),
        }
    };
    if !(0..10).contains(&predicate) {
        return Err(Fault::Malformed("the predicate is not known"));
    }
    let pairs = a.ints()?.iter().zip(b.ints()?);
    leaf.ints(pairs.map(|pair| holds(&pair).into()).collect())
}

fn compare_floats(leaf: &Leaf<'_>) -> Result<Tensor, Fault> {
    let (a, b) = (leaf.tensor(0)?.floats()?, leaf.tensor(1)?.floats()?);
    same(a.len(), b.len())?;
    // Ordered predicates are 1 to 7, the same ones or unordered 8 to 14.
    let holds: fn(f32, f32) -> bool = match leaf.integer("predicate")? {
        0 => |_, _| false,
        1 => |a, b| a == b,
        2 => |a, b| a > b,
        3 => |a, b| a >= b,
        4 => |a, b| a < b,
        5 => |a, b| a <= b,
        6 => |a, b| a.partial_cmp(&b).is_some_and(Ordering::is_ne),
        7 => |a, b| !a.is_nan() && !b.is_nan(),
        8 => |a, b| a == b || a.is_nan() || b.is_nan(),
        9 => |a, b| a > b || a.is_nan() || b.is_nan(),
        10 => |a, b| a >= b || a.is_nan() || b.is_nan(),
        11 => |a, b| a < b || a.is_nan() || b.is_nan(),
        12 => |a, b| a <= b || a.is_nan() || b.is_nan(),
        13 => |a, b| a != b,
        14 => |a, b| a.is_nan() || b.is_nan(),
        15 => |_, _| true,
        _ => return Err(Fault::Malformed("the predicate is not known")),
    };
    leaf.ints(a.iter().zip(b).map(|(&a, &b)| holds(a, b).into()).collect())
}

fn select(leaf: &Leaf<'_>) -> Result<Tensor, Fault> {
    fn pick<T: Copy>(condition: &[i64], a: &[T], b: &[T]) -> Vec<T> {
        let sides = a.iter().zip(b).zip(condition);
        sides
            .map(|((a, b), &c)| if c != 0 { *a } else { *b })
            .collect()
    }
    let (condition, a, b) = (leaf.tensor(0)?, leaf.tensor(1)?, leaf.tensor(2)?);
    same(a.len(), b.len())?;
    if a.element != b.element {
        return Err(Fault::Malformed("operands differ in type"));
    }
    if condition.shape.is_empty() && !a.shape.is_empty() {
        let chosen = if condition.one_int()? != 0 { a } else { b };
        return Ok(chosen.clone());
    }
    same(condition.len(), a.len())?;
    let condition = condition.ints()?;
    match (a.cells(), b.cells()) {
        (Cells::Float(a), Cells::Float(b)) => leaf.floats(pick(condition, a, b)),
        (Cells::Int(a), Cells::Int(b)) => leaf.ints(pick(condition, a, b)),
        _ => Err(Fault::Malformed("operands differ in type")),
    }
}

fn cast_floats(leaf: &Leaf<'_>) -> Result<Tensor, Fault> {
    if let Some(mode) = leaf.text("rounding_mode").or(leaf.text("roundingmode"))
        && !mode.contains("to_nearest_even")
    {
        return Err(Fault::Unsupported(format!("rounding mode {mode}")));
    }
    floats1(leaf, |x| x)
}

fn to_floats(leaf: &Leaf<'_>, f: impl Fn(Element, i64) -> f64) -> Result<Tensor, Fault> {
    let a = leaf.tensor(0)?;
    let element = leaf.result()?.1;
    let round = |x: f64| match element {
        // Once, not by way of f32.
        Element::Float(kind) if kind != FloatKind::F32 => kind.decode(kind.encode(x)) as f32,
        _ => x as f32,
    };
    leaf.floats(a.ints()?.iter().map(|&x| round(f(a.element, x))).collect())
}

/// Rounds towards 0; what is too large becomes the nearest integer there is, NaN becomes 0.
fn to_ints(leaf: &Leaf<'_>, signed: bool) -> Result<Tensor, Fault> {
    let width = leaf.result()?.1.bits().clamp(1, 64);
    let (low, high) = match signed {
        true => (-(1_i128 << (width - 1)), (1_i128 << (width - 1)) - 1),
        false => (0, (1_i128 << width) - 1),
    };
    let a = leaf.tensor(0)?.floats()?;
    leaf.ints(
        a.iter()
            .map(|&x| (x as i128).clamp(low, high) as i64)
            .collect(),
    )
}

fn cast_ints(leaf: &Leaf<'_>, f: impl Fn(Element, i64) -> i64) -> Result<Tensor, Fault> {
    ints1(leaf, f)
}

/// The same bits as another type of the same width.
fn bitcast(leaf: &Leaf<'_>) -> Result<Tensor, Fault> {
    let a = leaf.tensor(0)?;
    let to = leaf.result()?.1;
    if a.element.bits() != to.bits() {
        return Err(Fault::Unsupported(
            "a bitcast that changes the width".into(),
        ));
    }
    match (a.cells(), a.element, to) {
        (Cells::Float(a), Element::Float(kind), Element::Int(_)) => {
            leaf.ints(a.iter().map(|&x| kind.encode(x.into()) as i64).collect())
        }
        (Cells::Int(a), from, Element::Float(kind)) => {
            let decode = |&x: &i64| kind.decode(from.unsigned(x)) as f32;
            leaf.floats(a.iter().map(decode).collect())
        }
        (Cells::Float(a), from, to) if from == to => leaf.floats(a.clone()),
        (Cells::Int(a), ..) => leaf.ints(a.clone()),
        _ => Err(Fault::Unsupported("a bitcast between floats".into())),
    }
}

/// Infinite or NaN.
fn weird(leaf: &Leaf<'_>) -> Result<Tensor, Fault> {
    let a = leaf.tensor(0)?.floats()?;
    leaf.ints(a.iter().map(|x| (!x.is_finite()).into()).collect())
}
