//! Values of the program: what is known of each, and the registers that hold it.

use std::rc::Rc;

use tilecast_tpu::mosaic::{self as ir, FloatKind, Op, TypeKind};

use super::super::block::Cost;
use super::super::vector::Vector;
use super::{Known, Walk};

impl<'m> Walk<'m> {
    pub(super) fn scalar(&self, value: ir::Value) -> Option<i64> {
        match self.known[value.index()] {
            Known::Scalar(number) => number,
            _ => None,
        }
    }

    /// The registers of a value; of a scalar, one that holds it everywhere.
    pub(super) fn vector(&self, value: ir::Value) -> Rc<Vector> {
        match &self.known[value.index()] {
            Known::Vector(vector) => vector.clone(),
            _ => Rc::new(Vector::constant(self.bits(value))),
        }
    }

    pub(super) fn set(&mut self, op: Op, vector: Vector) {
        self.made(self.module.results(op)[0], vector);
    }

    pub(super) fn made(&mut self, value: ir::Value, vector: Vector) {
        self.ends_of(value, &vector);
        self.know(value.index(), Known::Vector(Rc::new(vector)));
    }

    /// The block is told whether what is made of a value ends in several places.
    pub(super) fn ends_of(&mut self, value: ir::Value, vector: &Vector) {
        if self.usage.has_several_ends(value) {
            self.block.outlasts(vector);
        }
    }

    /// Bits of an element; masks are kept per 32-bit element.
    pub(super) fn bits(&self, value: ir::Value) -> u32 {
        let kind = self.module.value_kind(value);
        let element = kind.element().map_or(kind, |ty| self.module.type_kind(ty));
        match element {
            TypeKind::Float(FloatKind::F32) => 32,
            TypeKind::Float(kind) => kind.bits().max(4),
            TypeKind::Integer { width, .. } if *width > 1 => (*width).min(32),
            _ => 32,
        }
    }

    pub(super) fn shape(&self, value: ir::Value) -> &'m [i64] {
        self.module.value_kind(value).shape().unwrap_or_default()
    }

    /// Rows and columns of registers of a value of this shape.
    pub(super) fn registers(shape: &[i64], bits: u32) -> [usize; 2] {
        let per = (8 * 32 / bits) as usize;
        let size = |n: i64| usize::try_from(n).unwrap_or(1);
        match shape {
            [] => [1, 1],
            // In memory, one dimension fills registers from end to end.
            [n] => [1, size(*n).div_ceil(8 * 128 * 32 / bits as usize)],
            [lead @ .., r, c] => {
                let lead: usize = lead.iter().map(|&n| size(n)).product();
                [lead * size(*r).div_ceil(per), size(*c).div_ceil(128)]
            }
        }
    }

    /// `n` elements that stand in a column, one to a row of registers, put side by side.
    pub(super) fn line_up(&mut self, value: Rc<Vector>, n: i64) -> Rc<Vector> {
        if !value.along_lanes || value.rows.registers == 1 {
            return value;
        }
        let [rows, columns] = Self::registers(&[n], value.bits);
        let out = Vector::new(rows, columns, value.bits, 0.0);
        // Each row of a register is selected into its place.
        Rc::new(self.block.regroup(&value, out, 2.0, 1.0))
    }

    /// Whether a selection is of what was packed, by a mask made of two.
    fn masks_packed(&self, op: Op) -> bool {
        let made_by = |i: usize, name: &str| {
            let operand = self.module.operands(op).get(i);
            operand.is_some_and(|&value| self.module.made_by(value, name).is_some())
        };
        made_by(0, "arith.andi") && made_by(1, "arith.extf")
    }

    pub(super) fn element_wise(&mut self, op: Op, cost: Cost) {
        let inputs: Vec<_> = (self.module.operands(op).iter())
            .map(|&value| self.vector(value))
            .collect();
        let result = self.module.results(op)[0];
        // A column of sums meets what was loaded as one dimension.
        let inputs = match *self.shape(result) {
            [n] if inputs.iter().any(|v| !v.along_lanes) => {
                inputs.into_iter().map(|v| self.line_up(v, n)).collect()
            }
            _ => inputs,
        };
        let inputs: Vec<&Vector> = inputs.iter().map(|v| &**v).collect();
        let bits = self.bits(result);
        let out = self.block.element_wise(&inputs, bits, cost);
        if self.module.op_name(op).starts_with("arith.cmp") {
            self.block.made_when_used(&out);
        }
        if self.usage.waits_for_maximum(result) {
            self.block.hold_whole(&out);
        }
        if self.module.op_name(op) == "arith.select" && !self.usage.is_of_products(result) {
            self.block.selects(&out);
            if self.masks_packed(op) {
                self.block.masks_rows(inputs[0]);
            }
        }
        self.set(op, out);
    }
}
