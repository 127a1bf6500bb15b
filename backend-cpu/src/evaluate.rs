//! Evaluates expressions strip by strip.
//!
//! A strip is a run of values small enough for L1. Every node of the tree processes a whole strip before the next node
//! starts, so the cost of walking the tree is shared by hundreds of elements and each node is one SIMD loop. What is
//! the same for all elements of a strip, such as an element of a per-row vector along a row, is a scalar operand, and
//! where a mask holds on one run of elements, such as at the label or left of an edge, nothing is compared.

use std::ops::Range;

use tilecast_core::expr::{self, Expr, Int, Mask, Node};

use crate::simd::{Binary, Simd, Unary};

/// Elements of a strip: 4 KiB, so that a few of them stay in L1.
pub(crate) const STRIP: usize = 1024;

/// Gives the values of leaves.
pub(crate) trait Leaves<L> {
    /// Writes the values of a real leaf, one per element of the strip.
    fn load(&self, leaf: &L, out: &mut [f32]);

    /// Writes the values of an integer leaf.
    fn load_int(&self, leaf: &L, out: &mut [i32]);

    /// The value of a real leaf that is the same for all elements of the strip, if it is known to be.
    fn constant(&self, _leaf: &L) -> Option<f32> {
        None
    }

    /// The first value of an integer leaf, and by how much each element is larger than the one before, if that is
    /// known.
    fn progression(&self, _leaf: &L) -> Option<[i64; 2]> {
        None
    }
}

/// Writes the value of `expr` at each element of a strip.
pub(crate) fn evaluate<L>(simd: Simd, expr: &Expr<L>, leaves: &impl Leaves<L>, out: &mut [f32]) {
    match expr.node() {
        Node::Constant(value) => out.fill(*value),
        Node::Leaf(leaf) => leaves.load(leaf, out),
        Node::Unary(f, a) => {
            evaluate(simd, a, leaves, out);
            simd.unary(unary(*f), out);
        }
        Node::Binary(f, a, b) => {
            evaluate(simd, a, leaves, out);
            if let Some(value) = constant(b, leaves) {
                return simd.binary_scalar(binary(*f), out, value);
            }
            with_strip(out.len(), |right| {
                evaluate(simd, b, leaves, right);
                simd.binary(binary(*f), out, right);
            });
        }
        Node::Select(mask, then, otherwise) => {
            if let Some(run) = run(mask, leaves, out.len()) {
                return select_run(simd, run, [then, otherwise], leaves, out);
            }
            let mut chosen = [false; STRIP];
            let chosen = &mut chosen[..out.len()];
            evaluate_mask(simd, mask, leaves, chosen);
            evaluate(simd, then, leaves, out);
            with_strip(out.len(), |other| {
                evaluate(simd, otherwise, leaves, other);
                for ((out, other), chosen) in out.iter_mut().zip(other).zip(chosen) {
                    *out = if *chosen { *out } else { *other };
                }
            });
        }
    }
}

/// Writes the value of the first expression at the elements of `run`, and elsewhere that of the second.
fn select_run<L>(
    simd: Simd,
    run: Range<usize>,
    [then, otherwise]: [&Expr<L>; 2],
    leaves: &impl Leaves<L>,
    out: &mut [f32],
) {
    if run.len() == out.len() {
        return evaluate(simd, then, leaves, out);
    }
    evaluate(simd, otherwise, leaves, out);
    if !run.is_empty() {
        with_strip(out.len(), |chosen| {
            evaluate(simd, then, leaves, chosen);
            out[run.clone()].copy_from_slice(&chosen[run]);
        });
    }
}

/// The value of an expression that is plainly the same for all elements of a strip.
fn constant<L>(expr: &Expr<L>, leaves: &impl Leaves<L>) -> Option<f32> {
    match expr.node() {
        Node::Constant(value) => Some(*value),
        Node::Leaf(leaf) => leaves.constant(leaf),
        _ => None,
    }
}

/// The elements of a strip at which `mask` holds, if they are known to be one run.
fn run<L>(mask: &Mask<L>, leaves: &impl Leaves<L>, len: usize) -> Option<Range<usize>> {
    let everywhere = |holds: bool| if holds { 0..len } else { 0..0 };
    let reals = |a, b| Some([constant(a, leaves)?, constant(b, leaves)?]);
    // What `b` is ahead of `a` at the first element, and what `a` gains with each.
    let integers = |a: &Int<L>, b: &Int<L>| {
        let progression = |int: &Int<L>| match int {
            Int::Constant(value) => Some([i64::from(*value), 0]),
            Int::Leaf(leaf) => leaves.progression(leaf),
        };
        let ([a, a_step], [b, b_step]) = (progression(a)?, progression(b)?);
        Some((b - a, a_step - b_step))
    };
    let inside = |i: i64| i.clamp(0, len as i64) as usize;
    match mask {
        Mask::Equal(a, b) => reals(a, b).map(|[a, b]| everywhere(a == b)),
        Mask::Less(a, b) => reals(a, b).map(|[a, b]| everywhere(a < b)),
        Mask::IntEqual(a, b) => match integers(a, b)? {
            (ahead, 0) => Some(everywhere(ahead == 0)),
            (ahead, 1) => Some(inside(ahead)..inside(ahead + 1)),
            _ => None,
        },
        Mask::IntLess(a, b) => match integers(a, b)? {
            (ahead, 0) => Some(everywhere(0 < ahead)),
            (ahead, 1) => Some(0..inside(ahead)),
            _ => None,
        },
        Mask::And(both) => {
            let [a, b] = [run(&both.0, leaves, len)?, run(&both.1, leaves, len)?];
            let start = a.start.max(b.start);
            Some(start..a.end.min(b.end).max(start))
        }
        Mask::Not(mask) => match run(mask, leaves, len)? {
            run if run.is_empty() => Some(0..len),
            run if run.start == 0 => Some(run.end..len),
            _ => None,
        },
    }
}

fn evaluate_mask<L>(simd: Simd, mask: &Mask<L>, leaves: &impl Leaves<L>, out: &mut [bool]) {
    let mut reals = |a: &Expr<L>, b: &Expr<L>, holds: fn(f32, f32) -> bool| {
        with_strip(out.len(), |left| {
            evaluate(simd, a, leaves, left);
            with_strip(left.len(), |right| {
                evaluate(simd, b, leaves, right);
                for ((out, a), b) in out.iter_mut().zip(left).zip(right) {
                    *out = holds(*a, *b);
                }
            });
        });
    };
    match mask {
        Mask::Equal(a, b) => reals(a, b, |a, b| a == b),
        Mask::Less(a, b) => reals(a, b, |a, b| a < b),
        Mask::IntEqual(a, b) => integers(a, b, leaves, out, |a, b| a == b),
        Mask::IntLess(a, b) => integers(a, b, leaves, out, |a, b| a < b),
        Mask::And(both) => {
            evaluate_mask(simd, &both.0, leaves, out);
            let mut second = [false; STRIP];
            let second = &mut second[..out.len()];
            evaluate_mask(simd, &both.1, leaves, second);
            out.iter_mut().zip(second).for_each(|(a, b)| *a &= *b);
        }
        Mask::Not(mask) => {
            evaluate_mask(simd, mask, leaves, out);
            out.iter_mut().for_each(|a| *a = !*a);
        }
    }
}

fn integers<L>(
    a: &Int<L>,
    b: &Int<L>,
    leaves: &impl Leaves<L>,
    out: &mut [bool],
    holds: fn(i32, i32) -> bool,
) {
    let load = |int: &Int<L>, strip: &mut [i32]| match int {
        Int::Constant(value) => strip.fill(*value),
        Int::Leaf(leaf) => leaves.load_int(leaf, strip),
    };
    let (mut left, mut right) = ([0; STRIP], [0; STRIP]);
    let (left, right) = (&mut left[..out.len()], &mut right[..out.len()]);
    load(a, left);
    load(b, right);
    for ((out, a), b) in out.iter_mut().zip(left).zip(right) {
        *out = holds(*a, *b);
    }
}

/// A strip on the stack: trees are a few levels deep.
fn with_strip(len: usize, body: impl FnOnce(&mut [f32])) {
    body(&mut [0.0; STRIP][..len]);
}

fn unary(f: expr::Unary) -> Unary {
    match f {
        expr::Unary::Neg => Unary::Neg,
        expr::Unary::Abs => Unary::Abs,
        expr::Unary::Exp => Unary::Exp,
        expr::Unary::Log => Unary::Log,
        expr::Unary::Tanh => Unary::Tanh,
        expr::Unary::Reciprocal => Unary::Reciprocal,
    }
}

fn binary(f: expr::Binary) -> Binary {
    match f {
        expr::Binary::Add => Binary::Add,
        expr::Binary::Sub => Binary::Sub,
        expr::Binary::Mul => Binary::Mul,
        expr::Binary::Div => Binary::Div,
        expr::Binary::Max => Binary::Max,
        expr::Binary::Min => Binary::Min,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Leaf 0 is 7 everywhere, leaf 1 counts from -3; with `knows` they say so.
    struct Given {
        knows: bool,
    }

    impl Leaves<usize> for Given {
        fn load(&self, leaf: &usize, out: &mut [f32]) {
            (out.iter_mut().zip(-3_i8..)).for_each(|(out, i)| *out = [7.0, f32::from(i)][*leaf]);
        }

        fn load_int(&self, leaf: &usize, out: &mut [i32]) {
            (out.iter_mut().zip(-3..)).for_each(|(out, i)| *out = [7, i][*leaf]);
        }

        fn constant(&self, leaf: &usize) -> Option<f32> {
            (self.knows && *leaf == 0).then_some(7.0)
        }

        fn progression(&self, leaf: &usize) -> Option<[i64; 2]> {
            self.knows.then_some([[7, 0], [-3, 1]][*leaf])
        }
    }

    #[test]
    fn what_is_known_of_leaves_changes_no_value() {
        let real = |leaf: usize| Expr::leaf(leaf);
        let [same, counts] = [0, 1].map(Int::Leaf);
        let mut masks = vec![
            real(0).equals(7.0),
            real(0).less_than(7.0),
            real(1).less_than(2.0),
            same.equals(counts),
            counts.less_than(same),
            same.less_than(counts),
        ];
        for edge in [-9, -3, 0, 4, 11, 12, 40] {
            let edge = Int::Constant(edge);
            masks.extend([
                counts.equals(edge),
                counts.less_than(edge),
                same.equals(edge),
            ]);
        }
        let negated: Vec<_> = masks.iter().cloned().map(|mask| !mask).collect();
        masks.extend(negated);
        let pairs = masks.iter().flat_map(|a| masks.iter().map(move |b| (a, b)));
        let both: Vec<_> = pairs.map(|(a, b)| a.clone().and(b.clone())).collect();
        masks.extend(both);
        let (mut runs, count) = (0, masks.len());
        for mask in masks {
            runs += usize::from(run(&mask, &Given { knows: true }, 15).is_some());
            let value = mask.select(real(1) * real(0), real(1) - real(0));
            let [known, unknown] = [true, false].map(|knows| {
                let mut strip = [f32::NAN; 15];
                evaluate(Simd::detect(), &value, &Given { knows }, &mut strip);
                strip
            });
            assert_eq!(known, unknown, "{value:?}");
        }
        assert!(runs > count / 2, "{runs} of {count} are runs");
    }
}
