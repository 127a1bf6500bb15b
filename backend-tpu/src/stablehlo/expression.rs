//! Expressions on per-token vectors: one operation per node.

use tilecast_core::expr::{Binary, Expr, Int, Mask, Node, Unary};
use tilecast_core::program::{Array, ArrayId};

use super::{Writer, tensor};

impl Writer<'_> {
    pub(super) fn expression(&mut self, expr: &Expr<ArrayId>, ty: &str, to: ArrayId) -> String {
        match expr.node() {
            Node::Constant(value) => {
                let bits = value.to_bits();
                self.value(&format!("stablehlo.constant dense<0x{bits:08X}> : {ty}"))
            }
            Node::Leaf(array) => self.leaf(*array, to),
            Node::Unary(Unary::Reciprocal, a) => {
                let one = self.value(&format!("stablehlo.constant dense<1.0> : {ty}"));
                let a = self.expression(a, ty, to);
                self.value(&format!("stablehlo.divide {one}, {a} : {ty}"))
            }
            Node::Unary(f, a) => {
                let a = self.expression(a, ty, to);
                let name = match f {
                    Unary::Neg => "negate",
                    Unary::Abs => "abs",
                    Unary::Exp => "exponential",
                    Unary::Log => "log",
                    Unary::Tanh | Unary::Reciprocal => "tanh",
                };
                self.value(&format!("stablehlo.{name} {a} : {ty}"))
            }
            Node::Binary(f, a, b) => {
                let (a, b) = (self.expression(a, ty, to), self.expression(b, ty, to));
                let name = match f {
                    Binary::Add => "add",
                    Binary::Sub => "subtract",
                    Binary::Mul => "multiply",
                    Binary::Div => "divide",
                    Binary::Max => "maximum",
                    Binary::Min => "minimum",
                };
                self.value(&format!("stablehlo.{name} {a}, {b} : {ty}"))
            }
            Node::Select(mask, a, b) => {
                let mask = self.mask(mask, ty, to);
                let (a, b) = (self.expression(a, ty, to), self.expression(b, ty, to));
                let truth = ty.replace("f32", "i1");
                self.value(&format!(
                    "stablehlo.select {mask}, {a}, {b} : {truth}, {ty}"
                ))
            }
        }
    }

    /// An array, made as long as the result.
    fn leaf(&mut self, array: ArrayId, to: ArrayId) -> String {
        let value = self.current(array);
        let Array { dtype, dims, .. } = &self.arrays[array.index()];
        let (from, wide) = (
            tensor(*dtype, dims),
            tensor(*dtype, &self.arrays[to.index()].dims),
        );
        if from == wide {
            return value;
        }
        // Each element stands for a group.
        let (groups, len) = (dims[0], self.arrays[to.index()].dims[0]);
        let grouped = tensor(*dtype, &[groups, len / groups]);
        let spread = self.value(&format!(
            "stablehlo.broadcast_in_dim {value}, dims = [0] : ({from}) -> {grouped}"
        ));
        self.reshape(&spread, &grouped, &wide)
    }

    fn mask(&mut self, mask: &Mask<ArrayId>, ty: &str, to: ArrayId) -> String {
        let truth = ty.replace("f32", "i1");
        let (direction, kind, a, b, compared) = match mask {
            Mask::And(both) => {
                let (a, b) = (self.mask(&both.0, ty, to), self.mask(&both.1, ty, to));
                return self.value(&format!("stablehlo.and {a}, {b} : {truth}"));
            }
            Mask::Not(mask) => {
                let mask = self.mask(mask, ty, to);
                return self.value(&format!("stablehlo.not {mask} : {truth}"));
            }
            Mask::Equal(a, b) | Mask::Less(a, b) => {
                let direction = if matches!(mask, Mask::Equal(..)) {
                    "EQ"
                } else {
                    "LT"
                };
                let (a, b) = (self.expression(a, ty, to), self.expression(b, ty, to));
                (direction, "FLOAT", a, b, ty.to_owned())
            }
            Mask::IntEqual(a, b) | Mask::IntLess(a, b) => {
                let direction = if matches!(mask, Mask::IntEqual(..)) {
                    "EQ"
                } else {
                    "LT"
                };
                let integers = ty.replace("f32", "i32");
                let mut integer = |int: &Int<ArrayId>| match int {
                    Int::Constant(value) => {
                        self.value(&format!("stablehlo.constant dense<{value}> : {integers}"))
                    }
                    Int::Leaf(array) => self.leaf(*array, to),
                };
                let (a, b) = (integer(a), integer(b));
                (direction, "SIGNED", a, b, integers)
            }
        };
        self.value(&format!(
            "stablehlo.compare {direction}, {a}, {b}, {kind} : ({compared}, {compared}) -> {truth}"
        ))
    }
}
