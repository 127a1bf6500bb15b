//! Bounds of integers: from the ranges of a function's arguments, those of its results.
//!
//! Index maps are short integer functions without loops. Each operation maps ranges to a range that holds
//! every result (interval arithmetic); the range may be wider than what is reached, never narrower.

use std::collections::HashMap;

use super::ir::{Module, Op, Value};
use super::types::AttributeKind;

/// All integers from `first` to `last`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Range {
    pub(super) first: i64,
    pub(super) last: i64,
}

impl Range {
    /// One number.
    pub(super) const fn of(value: i64) -> Self {
        Self {
            first: value,
            last: value,
        }
    }

    /// From 0.
    pub(super) fn up_to(last: i64) -> Self {
        Self {
            first: 0,
            last: last.max(0),
        }
    }

    /// The range of a function that is monotone in each argument: its extremes are at corners.
    fn corners(self, other: Self, f: impl Fn(i64, i64) -> i64) -> Self {
        let ends = |r: Self| [r.first, r.last];
        let values = ends(self)
            .into_iter()
            .flat_map(|a| ends(other).map(|b| f(a, b)));
        values
            .map(Self::of)
            .reduce(Self::union)
            .expect("there are four corners")
    }

    fn union(self, other: Self) -> Self {
        Self {
            first: self.first.min(other.first),
            last: self.last.max(other.last),
        }
    }
}

/// Ranges of what `function` returns, if its first arguments have these ranges. What it reads from memory is
/// 0.
///
/// # Errors
/// The name of an operation that is not known here.
pub(super) fn results_of(
    module: &Module,
    function: Op,
    arguments: impl Iterator<Item = Range>,
) -> Result<Vec<Range>, String> {
    let entry = module.entry(function, 0).ok_or("no body")?;
    let mut known: HashMap<Value, Range> = module
        .arguments(entry)
        .iter()
        .copied()
        .zip(arguments)
        .collect();
    for &op in module.block_ops(entry) {
        let name = module.op_name(op);
        let range = |i: usize| -> Result<Range, String> {
            let value = module.operands(op).get(i);
            value
                .and_then(|v| known.get(v))
                .copied()
                .ok_or_else(|| name.to_owned())
        };
        if name == "func.return" || name == "return" {
            return (0..module.operands(op).len()).map(range).collect();
        }
        let result = match name {
            "arith.constant" => match module.attribute_kind_of(op, "value") {
                Some(AttributeKind::Integer { value, .. }) => Range::of(*value),
                Some(AttributeKind::Bool(value)) => Range::of((*value).into()),
                _ => return Err(name.into()),
            },
            "memref.load" => Range::of(0),
            "arith.cmpi" => Range::up_to(1),
            "arith.index_cast" | "arith.extsi" => range(0)?,
            // Not negative, or else it would be a very large number.
            "arith.extui" if range(0)?.first >= 0 => range(0)?,
            "arith.select" => range(1)?.union(range(2)?),
            "arith.addi" => range(0)?.corners(range(1)?, i64::saturating_add),
            "arith.subi" => range(0)?.corners(range(1)?, i64::saturating_sub),
            "arith.muli" => range(0)?.corners(range(1)?, i64::saturating_mul),
            "arith.minsi" => range(0)?.corners(range(1)?, i64::min),
            "arith.maxsi" => range(0)?.corners(range(1)?, i64::max),
            "arith.divsi" if range(1)?.first > 0 => {
                range(0)?.corners(range(1)?, |a, b| a / b.max(1))
            }
            "arith.remsi" if range(1)?.first > 0 => remainder(range(0)?, range(1)?.last),
            "arith.xori" | "arith.andi" | "arith.ori" if is_bit(range(0)?) && is_bit(range(1)?) => {
                Range::up_to(1)
            }
            _ => return Err(name.into()),
        };
        known.extend(module.results(op).iter().map(|&v| (v, result)));
    }
    Err("no return".into())
}

/// The sign is that of the dividend.
fn remainder(dividend: Range, divisor: i64) -> Range {
    let largest = divisor - 1;
    Range {
        first: dividend.first.clamp(-largest, 0),
        last: dividend.last.clamp(0, largest),
    }
}

fn is_bit(range: Range) -> bool {
    range.first >= 0 && range.last <= 1 || range.first == -1 && range.last <= 0
}
