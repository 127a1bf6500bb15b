//! Transpositions, which follow the reductions of a block.
//!
//! Both are made by the cross-lane units. The compiler has all registers of a block that are reduced along lanes enter
//! them before the first that is transposed, even where the reduction stands later in the program. What is transposed
//! is computed no sooner than it enters: until then, what it is computed from waits in registers.

use std::rc::Rc;

use rustc_hash::FxHashSet;
use tilecast_tpu::mosaic::{self as ir, Definition, Op};

use super::super::order::is_along_lanes;
use super::super::vector::Vector;
use super::{Passed, Walk};
use crate::access::Access;

impl Walk<'_> {
    pub(super) fn transpose(&mut self, op: Op, from: ir::Value, [rows, columns]: [usize; 2]) {
        let value = self.vector(from);
        let permutation = (self.module.integers_attribute(op, "permutation")).unwrap_or_default();
        let n = permutation.len();
        let minor = n >= 2 && permutation[n - 1] != n as i64 - 1;
        if !minor {
            let out = Vector::new(rows, columns, value.bits, 0.0);
            let out = self.block.regroup(&value, out, 1.0, 1.0);
            self.set(op, out);
            return;
        }
        let (whole, first) = self.sliced(from);
        let is_loaded = self.is_loaded(whole) && !self.passed_on.contains_key(&whole);
        let value = match is_loaded || value.loads.is_some() {
            true => Rc::new(self.block.load_late(&value)),
            false => value,
        };
        let reduced = self.reduced_later();
        let start = self.block.reduced(reduced);
        let out = self.block.transpose(&value, rows, columns, 1.0, start);
        for r in 0..value.rows.groups() {
            let from = r * value.rows.step;
            let rows = [from, from + value.rows.size(r)];
            let entered = self.block.last_read(&value, rows);
            self.waits(whole, rows.map(|row| first + row), entered);
        }
        self.set(op, out);
    }

    /// Registers of memory that are reduced along lanes further on in the block.
    fn reduced_later(&mut self) -> usize {
        let mut registers = 0;
        if !self.block.reduces_first() {
            return registers;
        }
        let mut last = None;
        for (i, &op) in self.rest.iter().enumerate() {
            if self.module.entry(op, 0).is_some() {
                break;
            }
            if self.module.op_name(op) != "vector.multi_reduction" {
                continue;
            }
            let from = self.module.operands(op)[0];
            if is_along_lanes(self.module, op) && self.is_loaded(from) {
                registers += Self::registers(self.shape(from), self.bits(from))[0];
                last = Some(i);
            }
        }
        if let Some(i) = last {
            self.relied_on(i);
        }
        registers
    }

    fn is_loaded(&self, value: ir::Value) -> bool {
        matches!(self.module.definition(value), Definition::Result(op, _) if Access::of(self.module, op).is_some())
    }

    /// The value that this one is rows of, and the first of its rows of registers.
    fn sliced(&self, value: ir::Value) -> (ir::Value, usize) {
        let Definition::Result(op, _) = self.module.definition(value) else {
            return (value, 0);
        };
        if self.module.op_name(op) != "vector.extract_strided_slice" {
            return (value, 0);
        }
        let offsets = self.module.integers_attribute(op, "offsets");
        let row = offsets
            .and_then(|offsets| Some(offsets.get(offsets.len().checked_sub(2)?)?.to_owned()));
        let first = row.unwrap_or(0) * i64::from(self.bits(value)) / (8 * 32);
        (
            self.module.operands(op)[0],
            usize::try_from(first).unwrap_or(0),
        )
    }

    /// These rows of a value are made no sooner than then, one register after the other, and what they are made of
    /// waits: loads, results of the cross-lane unit and, for the first value that is transposed, of the transcendental
    /// one, which has nothing else to do while rows are reduced. What others read as well was made for them, and waits
    /// as it is; rows of a product enter a matrix unit in time, but for those of the first value, which others are made
    /// of (probes of gradients of attention).
    fn waits(&mut self, value: ir::Value, rows: [usize; 2], until: f64) {
        let first = *self.transposed.get_or_insert(value) == value;
        let mut seen = FxHashSet::default();
        let mut next = vec![(value, rows)];
        while let Some((value, rows)) = next.pop() {
            let Definition::Result(op, _) = self.module.definition(value) else {
                continue;
            };
            if !seen.insert(value) {
                continue;
            }
            if Access::of(self.module, op).is_some() {
                for Passed {
                    rows: [first, end],
                    value,
                    source,
                } in self.passed_on.get(&value).into_iter().flatten()
                {
                    let [a, b] = [rows[0].max(*first), rows[1].min(*end)];
                    if a >= b {
                        continue;
                    }
                    let rows = [a - first, b - first];
                    // What is kept instead of a scratch is a value of its own.
                    if value.entries != self.vector(*source).entries {
                        self.block.made_at(value, rows, until);
                    }
                    next.push((*source, rows));
                }
                continue;
            }
            let vector = self.vector(value);
            let name = self.module.op_name(op);
            let made_late = name.starts_with("arith.") || !first && name.starts_with("math.");
            if name == "tpu.matmul" && !first {
                self.block.made_at(&vector, rows, until);
            } else if made_late && !self.usage.is_shared(value) {
                self.block.made_at(&vector, rows, until);
                next.extend((self.module.operands(op).iter()).map(|&value| (value, rows)));
            } else {
                self.block.held_until(&vector, rows, until);
            }
        }
    }
}
