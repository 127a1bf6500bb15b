//! Integer arithmetic on what is known.

use tilecast_tpu::mosaic::{AttributeKind, Op};

use super::{Known, Walk};

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
            self.module
                .operands(op)
                .get(i)
                .and_then(|&v| self.scalar(v))
        };
        let both = |f: fn(i64, i64) -> Option<i64>| match (value(0), value(1)) {
            (Some(a), Some(b)) => f(a, b),
            _ => None,
        };
        let number = match self.module.op_name(op) {
            "arith.constant" => match self.module.attribute_kind_of(op, "value") {
                Some(AttributeKind::Integer { value, .. }) => Some(*value),
                Some(AttributeKind::Bool(value)) => Some(i64::from(*value)),
                _ => None,
            },
            "arith.addi" => both(|a, b| Some(i64::from(a.wrapping_add(b) as i32))),
            "arith.subi" => both(|a, b| Some(i64::from(a.wrapping_sub(b) as i32))),
            "arith.muli" => both(|a, b| Some(i64::from(a.wrapping_mul(b) as i32))),
            "arith.divsi" => both(i64::checked_div),
            "arith.divui" => both(|a, b| i64::from(a as u32).checked_div(i64::from(b as u32))),
            "arith.remsi" => both(i64::checked_rem),
            "arith.remui" => both(|a, b| i64::from(a as u32).checked_rem(i64::from(b as u32))),
            "arith.floordivsi" => both(|a, b| (b != 0).then(|| a.div_euclid(b))),
            "arith.ceildivsi" => both(|a, b| (b > 0).then(|| -(-a).div_euclid(b))),
            "arith.maxsi" => both(|a, b| Some(a.max(b))),
            "arith.minsi" => both(|a, b| Some(a.min(b))),
            "arith.andi" => match (value(0), value(1)) {
                (Some(0), _) | (_, Some(0)) => Some(0),
                _ => both(|a, b| Some(a & b)),
            },
            "arith.ori" => both(|a, b| Some(a | b)),
            "arith.xori" => both(|a, b| Some(a ^ b)),
            "arith.shli" => both(|a, b| Some(i64::from((a as i32).wrapping_shl(b as u32)))),
            "arith.shrsi" => both(|a, b| Some(i64::from((a as i32).wrapping_shr(b as u32)))),
            "arith.cmpi" => {
                let predicate = self.module.integer_attribute(op, "predicate");
                match (value(0), value(1)) {
                    (Some(a), Some(b)) => compare(predicate, a, b),
                    _ => None,
                }
            }
            "arith.select" => match value(0) {
                Some(0) => value(2),
                Some(_) => value(1),
                None => None,
            },
            "arith.extsi" | "arith.extui" | "arith.trunci" | "arith.index_cast"
            | "arith.index_castui" => value(0),
            "tpu.assume_multiple" => value(0),
            "tpu.core_id" | "tpu.device_id" => Some(0),
            _ => None,
        };
        self.known[result.index()] = Known::Scalar(number);
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
