//! Integer arithmetic on what is known.

use tilecast_tpu::mosaic::{AttributeKind, Module, Op};

use super::{Known, Walk};

/// What an operation computes from integers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ScalarOp {
    Constant(Option<i64>),
    /// Of two numbers, both known.
    Binary(fn(i64, i64) -> Option<i64>),
    And,
    /// `arith.cmpi`, with the number of its predicate.
    Compare(Option<i64>),
    Select,
    /// Its operand.
    Same,
}

impl ScalarOp {
    /// What `op` computes; `None` if it does not compute an integer from integers.
    pub(super) fn of(module: &Module, op: Op) -> Option<Self> {
        Some(match module.op_name(op) {
            "arith.constant" => Self::Constant(Self::number(module, op)),
            "arith.addi" => Self::Binary(|a, b| Some(i64::from(a.wrapping_add(b) as i32))),
            "arith.subi" => Self::Binary(|a, b| Some(i64::from(a.wrapping_sub(b) as i32))),
            "arith.muli" => Self::Binary(|a, b| Some(i64::from(a.wrapping_mul(b) as i32))),
            "arith.divsi" => Self::Binary(i64::checked_div),
            "arith.divui" => {
                Self::Binary(|a, b| i64::from(a as u32).checked_div(i64::from(b as u32)))
            }
            "arith.remsi" => Self::Binary(i64::checked_rem),
            "arith.remui" => {
                Self::Binary(|a, b| i64::from(a as u32).checked_rem(i64::from(b as u32)))
            }
            "arith.floordivsi" => Self::Binary(|a, b| (b != 0).then(|| a.div_euclid(b))),
            "arith.ceildivsi" => Self::Binary(|a, b| (b > 0).then(|| -(-a).div_euclid(b))),
            "arith.maxsi" => Self::Binary(|a, b| Some(a.max(b))),
            "arith.minsi" => Self::Binary(|a, b| Some(a.min(b))),
            "arith.andi" => Self::And,
            "arith.ori" => Self::Binary(|a, b| Some(a | b)),
            "arith.xori" => Self::Binary(|a, b| Some(a ^ b)),
            "arith.shli" => Self::Binary(|a, b| Some(i64::from((a as i32).wrapping_shl(b as u32)))),
            "arith.shrsi" => {
                Self::Binary(|a, b| Some(i64::from((a as i32).wrapping_shr(b as u32))))
            }
            "arith.cmpi" => Self::Compare(module.integer_attribute(op, "predicate")),
            "arith.select" => Self::Select,
            "arith.extsi"
            | "arith.extui"
            | "arith.trunci"
            | "arith.index_cast"
            | "arith.index_castui"
            | "tpu.assume_multiple" => Self::Same,
            "tpu.core_id" | "tpu.device_id" => Self::Constant(Some(0)),
            _ => return None,
        })
    }

    /// The integer that a constant is.
    pub(crate) fn number(module: &Module, constant: Op) -> Option<i64> {
        match module.attribute_kind_of(constant, "value") {
            Some(AttributeKind::Integer { value, .. }) => Some(*value),
            Some(AttributeKind::Bool(value)) => Some(i64::from(*value)),
            _ => None,
        }
    }

    /// The result for operands of which `value` gives those that are known.
    pub(super) fn compute(self, value: impl Fn(usize) -> Option<i64>) -> Option<i64> {
        match self {
            Self::Constant(number) => number,
            Self::Binary(f) => f(value(0)?, value(1)?),
            Self::And => match (value(0), value(1)) {
                (Some(0), _) | (_, Some(0)) => Some(0),
                (a, b) => Some(a? & b?),
            },
            Self::Compare(predicate) => compare(predicate, value(0)?, value(1)?),
            Self::Select => match value(0)? {
                0 => value(2),
                _ => value(1),
            },
            Self::Same => value(0),
        }
    }
}

impl Walk<'_> {
    /// Computes a scalar operation. False if it is none.
    pub(super) fn scalar_op(&mut self, op: Op) -> bool {
        let Some(&result) = self.module.results(op).first() else {
            return false;
        };
        if self.module.value_kind(result).shape().is_some() {
            return false;
        }
        let value = |i: usize| {
            let operands = self.module.operands(op);
            operands.get(i).and_then(|&value| self.scalar(value))
        };
        let number = ScalarOp::of(self.module, op).and_then(|op| op.compute(value));
        self.know(result.index(), Known::Scalar(number));
        true
    }
}

/// `arith.cmpi`, by the number of its predicate.
fn compare(predicate: Option<i64>, a: i64, b: i64) -> Option<i64> {
    let (ua, ub) = (a as u32, b as u32);
    let holds = match predicate? {
        0 => a == b,
        1 => a != b,
        2 => a < b,
        3 => a <= b,
        4 => a > b,
        5 => a >= b,
        6 => ua < ub,
        7 => ua <= ub,
        8 => ua > ub,
        9 => ua >= ub,
        _ => return None,
    };
    Some(i64::from(holds))
}
