//! Expressions over whole arrays, element by element in f32.

use tilecast_core::expr::{Binary, Expr, Int, Mask, Node, Unary};
use tilecast_core::program::ArrayId;

use super::elements::{maximum, minimum};
use super::memory::Buffer;
use super::tensor::Cells;

/// What is wrong with a leaf.
pub(super) type Problem = String;

/// The value of `expr` at element `i`; an array of one element stands for all.
pub(super) fn evaluate(expr: &Expr<ArrayId>, arrays: &[Buffer], i: usize) -> Result<f32, Problem> {
    let value = |expr| evaluate(expr, arrays, i);
    Ok(match expr.node() {
        Node::Constant(constant) => *constant,
        Node::Leaf(leaf) => match &arrays[leaf.index()].cells {
            Cells::Float(data) => element(data, i, &arrays[leaf.index()].name)?,
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
        Node::Select(mask, a, b) => match holds(mask, arrays, i)? {
            true => value(a)?,
            false => value(b)?,
        },
    })
}

fn holds(mask: &Mask<ArrayId>, arrays: &[Buffer], i: usize) -> Result<bool, Problem> {
    let real = |expr| evaluate(expr, arrays, i);
    let int = |int: &Int<ArrayId>| match int {
        Int::Constant(value) => Ok(i64::from(*value)),
        Int::Leaf(leaf) => match &arrays[leaf.index()].cells {
            Cells::Int(data) => element(data, i, &arrays[leaf.index()].name),
            Cells::Float(_) => Err(format!("{} is not integer", arrays[leaf.index()].name)),
        },
    };
    Ok(match mask {
        Mask::Equal(a, b) => real(a)? == real(b)?,
        Mask::Less(a, b) => real(a)? < real(b)?,
        Mask::IntEqual(a, b) => int(a)? == int(b)?,
        Mask::IntLess(a, b) => int(a)? < int(b)?,
        Mask::And(both) => holds(&both.0, arrays, i)? && holds(&both.1, arrays, i)?,
        Mask::Not(mask) => !holds(mask, arrays, i)?,
    })
}

fn element<T: Copy>(data: &[T], i: usize, name: &str) -> Result<T, Problem> {
    let at = if data.len() == 1 { 0 } else { i };
    let short = || format!("{name} has {} elements, none for {i}", data.len());
    data.get(at).copied().ok_or_else(short)
}
