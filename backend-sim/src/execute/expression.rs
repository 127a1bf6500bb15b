//! Expressions over whole arrays, element by element in f32.

use tilecast_core::expr::{Binary, Expr, Int, Mask, Node, Unary};
use tilecast_core::program::ArrayId;

use super::elements::{maximum, minimum};
use super::memory::Buffer;
use super::tensor::Cells;

/// What is wrong with a leaf.
pub(super) type Problem = String;

/// The value of `expr` at element `i` of `len`; an element of a shorter array stands for a group.
pub(super) fn evaluate(
    expr: &Expr<ArrayId>,
    arrays: &[Buffer],
    i: usize,
    len: usize,
) -> Result<f32, Problem> {
    let value = |expr| evaluate(expr, arrays, i, len);
    Ok(match expr.node() {
        Node::Constant(constant) => *constant,
        Node::Leaf(leaf) => match &arrays[leaf.index()].cells {
            Cells::Float(data) => element(data, i, len, &arrays[leaf.index()].name)?,
            Cells::Int(_) => return Err(format!("{} is not real", arrays[leaf.index()].name)),
        },
        Node::Unary(f, a) => {
            let a = value(a)?;
            match f {
                Unary::Neg => -a,
                Unary::Abs => a.abs(),
                Unary::Exp => a.exp(),
                Unary::Log => a.ln(),
                Unary::Tanh => a.tanh(),
                Unary::Reciprocal => 1.0 / a,
            }
        }
        Node::Binary(f, a, b) => {
            let (a, b) = (value(a)?, value(b)?);
            match f {
                Binary::Add => a + b,
                Binary::Sub => a - b,
                Binary::Mul => a * b,
                Binary::Div => a / b,
                Binary::Max => maximum(a, b),
                Binary::Min => minimum(a, b),
            }
        }
        Node::Select(mask, a, b) => match holds(mask, arrays, i, len)? {
            true => value(a)?,
            false => value(b)?,
        },
    })
}

fn holds(mask: &Mask<ArrayId>, arrays: &[Buffer], i: usize, len: usize) -> Result<bool, Problem> {
    let real = |expr| evaluate(expr, arrays, i, len);
    let int = |int: &Int<ArrayId>| match int {
        Int::Constant(value) => Ok(i64::from(*value)),
        Int::Leaf(leaf) => match &arrays[leaf.index()].cells {
            Cells::Int(data) => element(data, i, len, &arrays[leaf.index()].name),
            Cells::Float(_) => Err(format!("{} is not integer", arrays[leaf.index()].name)),
        },
    };
    Ok(match mask {
        Mask::Equal(a, b) => real(a)? == real(b)?,
        Mask::Less(a, b) => real(a)? < real(b)?,
        Mask::IntEqual(a, b) => int(a)? == int(b)?,
        Mask::IntLess(a, b) => int(a)? < int(b)?,
        Mask::And(both) => holds(&both.0, arrays, i, len)? && holds(&both.1, arrays, i, len)?,
        Mask::Not(mask) => !holds(mask, arrays, i, len)?,
    })
}

fn element<T: Copy>(data: &[T], i: usize, len: usize, name: &str) -> Result<T, Problem> {
    let group = len / data.len().clamp(1, len);
    let short = || format!("{name} has {} elements, none for {i}", data.len());
    data.get(i / group).copied().ok_or_else(short)
}
