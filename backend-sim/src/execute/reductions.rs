//! Reductions: sums, products, largest and smallest elements along dimensions.
//!
//! Sums are taken in f32, one element after the other, and rounded to their type at the end.

use tilecast_tpu::mosaic::tpu::{ReductionKind, VectorKind};

use super::elements::{maximum, minimum};
use super::error::Fault;
use super::leaf::Leaf;
use super::shapes::around;
use super::tensor::{Cells, Element, Tensor, collect, elements, rows, run, strides};

/// The result of an operation of this file; none if it is of another.
pub(super) fn evaluate(leaf: &Leaf<'_>) -> Option<Result<Tensor, Fault>> {
    Some(match leaf.name {
        "vector.multi_reduction" => multi_reduction(leaf),
        "vector.reduction" => reduction(leaf),
        "tpu.all_reduce" => all_reduce(leaf),
        "tpu.reduce_index" => reduce_index(leaf),
        _ => return None,
    })
}

/// Combines `from` into `out`, whose strides are 0 along reduced dimensions.
fn fold<T: Copy>(
    from: &[T],
    shape: &[usize],
    out: &mut [T],
    into: &[usize],
    f: impl Fn(T, T) -> T,
) {
    if from.is_empty() {
        return;
    }
    let dense = strides(shape);
    let (length, stride) = run(shape, into);
    rows(shape, [&dense, into], [0, 0], &mut |[start, to]| {
        let from = &from[start..start + length];
        match stride {
            0 => out[to] = from.iter().fold(out[to], |a, &b| f(a, b)),
            _ => {
                let out = out[to..].iter_mut().step_by(stride);
                out.zip(from).for_each(|(out, x)| *out = f(*out, *x));
            }
        }
    });
}

/// Reduces the dimensions where `gone`, starting from the elements of `start`.
fn reduce(from: &Tensor, gone: &[bool], start: &Tensor, kind: VectorKind) -> Result<Cells, Fault> {
    let kept: Vec<usize> = (from.shape.iter().zip(gone))
        .filter(|(_, gone)| !**gone)
        .map(|(&n, _)| n)
        .collect();
    if start.len() != elements(&kept)? || start.element != from.element {
        return Err(Fault::Malformed(
            "the accumulator does not fit the reduction",
        ));
    }
    let mut dense = strides(&kept).into_iter();
    let into: Vec<usize> = (gone.iter())
        .map(|gone| if *gone { 0 } else { dense.next().unwrap_or(0) })
        .collect();
    let (shape, e) = (&from.shape, from.element);
    match (from.cells(), start.cells()) {
        (Cells::Float(from), Cells::Float(start)) => {
            let mut out = start.clone();
            let f: fn(f32, f32) -> f32 = match kind {
                VectorKind::Add => |a, b| a + b,
                VectorKind::Mul => |a, b| a * b,
                VectorKind::MaximumF => maximum,
                VectorKind::MinimumF => minimum,
                _ => return Err(Fault::Malformed("the reduction is not one of floats")),
            };
            match kind {
                VectorKind::Add => fold(from, shape, &mut out, &into, |a, b| a + b),
                _ => fold(from, shape, &mut out, &into, f),
            }
            Ok(Cells::Float(out))
        }
        (Cells::Int(from), Cells::Int(start)) => {
            let mut out = start.clone();
            let f: fn(Element, i64, i64) -> i64 = match kind {
                VectorKind::Add => |e, a, b| e.wrap(a.wrapping_add(b)),
                VectorKind::Mul => |e, a, b| e.wrap(a.wrapping_mul(b)),
                VectorKind::MaxSI => |e, a, b| if e.signed(a) > e.signed(b) { a } else { b },
                VectorKind::MinSI => |e, a, b| if e.signed(a) < e.signed(b) { a } else { b },
                VectorKind::MaxUI => |e, a, b| if e.unsigned(a) > e.unsigned(b) { a } else { b },
                VectorKind::MinUI => |e, a, b| if e.unsigned(a) < e.unsigned(b) { a } else { b },
                VectorKind::And => |_, a, b| a & b,
                VectorKind::Or => |_, a, b| a | b,
                VectorKind::Xor => |_, a, b| a ^ b,
                _ => return Err(Fault::Malformed("the reduction is not one of integers")),
            };
            fold(from, shape, &mut out, &into, |a, b| f(e, a, b));
            Ok(Cells::Int(out))
        }
        _ => Err(Fault::Malformed(
            "the accumulator does not fit the reduction",
        )),
    }
}

/// The result from cells, which may still have to be rounded.
fn finished(leaf: &Leaf<'_>, cells: Cells) -> Result<Tensor, Fault> {
    match cells {
        Cells::Float(data) => leaf.floats(data),
        Cells::Int(data) => leaf.ints(data),
    }
}

fn kind(leaf: &Leaf<'_>) -> Result<VectorKind, Fault> {
    let attribute = leaf.module.attribute_of(leaf.op, "kind");
    let kind = attribute.and_then(|kind| VectorKind::read(leaf.module, kind));
    kind.ok_or(Fault::Malformed("the kind of reduction is not known"))
}

fn multi_reduction(leaf: &Leaf<'_>) -> Result<Tensor, Fault> {
    let (from, start) = (leaf.tensor(0)?, leaf.tensor(1)?);
    let mut gone = vec![false; from.shape.len()];
    for dimension in leaf.sizes("reduction_dims")? {
        let beyond = Fault::Malformed("a dimension is not below the rank");
        *gone.get_mut(dimension).ok_or(beyond)? = true;
    }
    finished(leaf, reduce(from, &gone, start, kind(leaf)?)?)
}

fn reduction(leaf: &Leaf<'_>) -> Result<Tensor, Fault> {
    let from = leaf.tensor(0)?;
    let neutral = neutral(kind(leaf)?, from.element)?;
    let gone = vec![true; from.shape.len()];
    finished(leaf, reduce(from, &gone, &neutral, kind(leaf)?)?)
}

/// What a reduction of nothing gives.
fn neutral(kind: VectorKind, element: Element) -> Result<Tensor, Fault> {
    let float = match kind {
        VectorKind::Mul => 1.0,
        VectorKind::MaximumF => f32::NEG_INFINITY,
        VectorKind::MinimumF => f32::INFINITY,
        _ => 0.0,
    };
    let width = element.bits().clamp(1, 63);
    let int = match kind {
        VectorKind::Mul => 1,
        VectorKind::MaxSI => -1 << (width - 1),
        VectorKind::MinSI => (1 << (width - 1)) - 1,
        VectorKind::MinUI | VectorKind::And => -1,
        _ => 0,
    };
    match element.is_float() {
        true => Tensor::new([], element, vec![float]),
        false => Ok(Tensor::int(element, int)),
    }
}

/// A reduction along one dimension, whose result every element along it gets.
fn all_reduce(leaf: &Leaf<'_>) -> Result<Tensor, Fault> {
    let from = leaf.tensor(0)?;
    let dimension = leaf.dimension("dim", from.shape.len())?;
    let float = from.element.is_float();
    let kind = leaf.module.attribute_of(leaf.op, "kind");
    let kind = match kind.and_then(|kind| ReductionKind::read(leaf.module, kind)) {
        Some(ReductionKind::Sum) => VectorKind::Add,
        Some(ReductionKind::Max) if float => VectorKind::MaximumF,
        Some(ReductionKind::Min) if float => VectorKind::MinimumF,
        Some(ReductionKind::Max) => VectorKind::MaxSI,
        Some(ReductionKind::Min) => VectorKind::MinSI,
        _ => return Err(Fault::Unsupported("this kind of reduction".into())),
    };
    let mut gone = vec![false; from.shape.len()];
    gone[dimension] = true;
    let mut kept = from.shape.to_vec();
    kept[dimension] = 1;
    let one = neutral(kind, from.element)?;
    let start = collect(one.cells(), &kept, &vec![0; kept.len()], 0);
    let start = Tensor::new(kept.clone(), from.element, start)?;
    let reduced = reduce(from, &gone, &start, kind)?;
    let (shape, _) = leaf.result()?;
    let mut spread = strides(&kept);
    spread[dimension] = 0;
    let fits =
        shape.len() == kept.len() && (0..kept.len()).all(|i| i == dimension || shape[i] == kept[i]);
    match fits {
        true => finished(leaf, collect(&reduced, &shape, &spread, 0)),
        false => Err(Fault::Malformed("the result is not of the operand's shape")),
    }
}

/// The place of the largest or smallest element along an axis; the first of equal ones.
fn reduce_index(leaf: &Leaf<'_>) -> Result<Tensor, Fault> {
    let from = leaf.tensor(0)?;
    let axis = leaf.dimension("axis", from.shape.len())?;
    let largest = match leaf.word("kind")? {
        "arg_max" => true,
        "arg_min" => false,
        _ => return Err(Fault::Unsupported("this kind of reduction".into())),
    };
    let (data, [outer, size, inner]) = (from.floats()?, around(&from.shape, axis));
    let mut out = Vec::new();
    for start in (0..outer * inner).map(|i| i / inner * size * inner + i % inner) {
        let mut best = 0;
        for i in 1..size {
            let (x, y) = (data[start + i * inner], data[start + best * inner]);
            let better = if largest { x > y } else { x < y };
            // A NaN is what is looked for: the first of them.
            if better || (x.is_nan() && !y.is_nan()) {
                best = i;
            }
        }
        out.push(best as i64);
    }
    leaf.ints(out)
}
