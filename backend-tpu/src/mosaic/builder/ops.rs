//! Short forms for the operations that kernels are full of.

use super::Builder;
use crate::mosaic::FloatKind;
use crate::mosaic::ir::{Attribute, Op, Type, Value};
use crate::mosaic::syntax::{CMPF, CMPI};
use crate::mosaic::tpu::{ContractPrecision, DotDimensionNumbers, VectorKind};
use crate::mosaic::types::{AttributeKind, DYNAMIC, TypeKind};

impl Builder {
    // Constants.

    /// A constant from its attribute, of that type.
    pub fn constant(&mut self, value: Attribute, ty: Type) -> Value {
        self.op("arith.constant")
            .attr("value", value)
            .result(ty)
            .value()
    }

    /// A number of type `index`.
    pub fn index(&mut self, value: i64) -> Value {
        let ty = self.index_type();
        let value = self.module.attribute(AttributeKind::Integer { value, ty });
        self.constant(value, ty)
    }

    /// A number of an integer type; of `i1`, zero is false.
    pub fn int(&mut self, value: i64, width: u32) -> Value {
        let ty = self.int_type(width);
        let kind = match width {
            1 => AttributeKind::Bool(value != 0),
            _ => AttributeKind::Integer { value, ty },
        };
        let value = self.module.attribute(kind);
        self.constant(value, ty)
    }

    /// A number of a float type, rounded to it.
    pub fn float(&mut self, value: f64, kind: FloatKind) -> Value {
        let ty = self.float_type(kind);
        let value = self.module.attribute(AttributeKind::Float {
            bits: kind.encode(value),
            ty,
        });
        self.constant(value, ty)
    }

    /// A vector with the same number in all elements, rounded to its element type.
    pub fn splat(&mut self, value: f64, vector: Type) -> Value {
        let element = self
            .module
            .type_kind(vector)
            .element()
            .map(|e| self.module.type_kind(e));
        let bits = match element {
            Some(TypeKind::Float(kind)) => kind.encode(value),
            _ => value as i64 as u64,
        };
        let dense = AttributeKind::DenseElements {
            ty: vector,
            values: vec![bits],
        };
        let value = self.module.attribute(dense);
        self.constant(value, vector)
    }

    // Elements.

    /// An operation with one operand and a result of its type.
    pub fn unary(&mut self, name: &str, x: Value) -> Value {
        let ty = self.module.value_type(x);
        self.op(name).operand(x).result(ty).value()
    }

    /// An operation with two operands and a result of the type of the first.
    pub fn binary(&mut self, name: &str, x: Value, y: Value) -> Value {
        let ty = self.module.value_type(x);
        self.op(name).operands([x, y]).result(ty).value()
    }

    /// An operation that turns a value into one of another type.
    pub fn cast(&mut self, name: &str, x: Value, to: Type) -> Value {
        self.op(name).operand(x).result(to).value()
    }

    fn compare(&mut self, name: &str, names: &[&str], p: &str, x: Value, y: Value) -> Value {
        // An unknown predicate gets a number that does not exist, which the verifier reports.
        let number = names.iter().position(|n| *n == p).map_or(-1, |n| n as i64);
        let predicate = self.i64_attribute(number);
        let bit = self.int_type(1);
        let ty = match self.module.value_kind(x).clone() {
            TypeKind::Vector { shape, .. } => self.vector_type(&shape, bit),
            _ => bit,
        };
        self.op(name)
            .operands([x, y])
            .attr("predicate", predicate)
            .result(ty)
            .value()
    }

    /// Compares integers: `eq`, `slt`, `ult`, ...
    pub fn cmpi(&mut self, predicate: &str, x: Value, y: Value) -> Value {
        self.compare("arith.cmpi", &CMPI, predicate, x, y)
    }

    /// Compares floats: `oeq`, `olt`, `une`, ...
    pub fn cmpf(&mut self, predicate: &str, x: Value, y: Value) -> Value {
        self.compare("arith.cmpf", &CMPF, predicate, x, y)
    }

    /// `yes` where the condition holds, else `no`.
    pub fn select(&mut self, condition: Value, yes: Value, no: Value) -> Value {
        let ty = self.module.value_type(yes);
        self.op("arith.select")
            .operands([condition, yes, no])
            .result(ty)
            .value()
    }

    /// Repeats a scalar, or dimensions of size one.
    pub fn broadcast(&mut self, x: Value, to: Type) -> Value {
        self.cast("vector.broadcast", x, to)
    }

    /// The position along a dimension.
    pub fn iota(&mut self, ty: Type, dimension: i64) -> Value {
        let dimensions = self.dense_array(32, vec![dimension]);
        self.op("tpu.iota")
            .attr("dimensions", dimensions)
            .result(ty)
            .value()
    }

    /// Reduces dimensions; `start` has the shape of what remains.
    pub fn reduce(&mut self, kind: VectorKind, x: Value, start: Value, dims: &[i64]) -> Value {
        let kind = kind.write(&mut self.module);
        let dims = self.dense_array(64, dims.to_vec());
        let ty = self.module.value_type(start);
        let op = self.op("vector.multi_reduction").operands([x, start]);
        op.attr("kind", kind)
            .attr("reduction_dims", dims)
            .result(ty)
            .value()
    }

    /// A matrix product added to `acc`.
    pub fn matmul(
        &mut self,
        lhs: Value,
        rhs: Value,
        acc: Value,
        dims: &DotDimensionNumbers,
        precision: Option<ContractPrecision>,
    ) -> Value {
        let dims = self.dimension_numbers(dims);
        let precision = precision.map(|p| p.write(&mut self.module));
        let ty = self.module.value_type(acc);
        let mut op = self
            .op("tpu.matmul")
            .operands([lhs, rhs, acc])
            .attr("dimension_numbers", dims);
        if let Some(p) = precision {
            op = op.attr("precision", p);
        }
        op.attr_bool("transpose_lhs_hint", false).result(ty).value()
    }

    fn dimension_numbers(&mut self, dims: &DotDimensionNumbers) -> Attribute {
        let mut written = self.dimension_numbers.iter();
        if let Some(&(_, attribute)) = written.find(|(known, _)| known == dims) {
            return attribute;
        }
        let attribute = dims.write(&mut self.module);
        self.dimension_numbers.push((dims.clone(), attribute));
        attribute
    }

    // Memory.

    fn zeros(&mut self, memref: Value) -> Vec<Value> {
        let rank = self
            .module
            .value_kind(memref)
            .shape()
            .map_or(0, <[i64]>::len);
        (0..rank).map(|_| self.index(0)).collect()
    }

    /// Loads a vector from the start of a memref.
    pub fn load(&mut self, memref: Value, ty: Type) -> Value {
        let indices = self.zeros(memref);
        self.load_at(memref, &indices, ty)
    }

    /// Loads a vector.
    pub fn load_at(&mut self, memref: Value, indices: &[Value], ty: Type) -> Value {
        let operands = [memref].into_iter().chain(indices.iter().copied());
        self.op("vector.load").operands(operands).result(ty).value()
    }

    /// Stores a vector at the start of a memref.
    pub fn store(&mut self, value: Value, memref: Value) -> Op {
        let indices = self.zeros(memref);
        self.store_at(value, memref, &indices, None)
    }

    /// Stores a vector, where `mask` is set if there is one.
    pub fn store_at(
        &mut self,
        value: Value,
        memref: Value,
        indices: &[Value],
        mask: Option<Value>,
    ) -> Op {
        let strides = self.dense_array(32, Vec::new());
        let segments = [1, 1, indices.len(), usize::from(mask.is_some())];
        let operands = [value, memref]
            .into_iter()
            .chain(indices.iter().copied())
            .chain(mask);
        let op = self
            .op("tpu.vector_store")
            .operands(operands)
            .segments(&segments);
        op.attr("strides", strides).build()
    }

    /// Loads a scalar.
    pub fn load_scalar(&mut self, memref: Value, indices: &[Value]) -> Value {
        let element = self.module.value_kind(memref).element();
        let ty = element.unwrap_or(self.module.value_type(memref));
        let operands = [memref].into_iter().chain(indices.iter().copied());
        self.op("memref.load").operands(operands).result(ty).value()
    }

    /// The part of a memref of that shape that starts at `indices` (of type `i32`).
    pub fn memref_slice(&mut self, memref: Value, indices: &[Value], shape: &[i64]) -> Value {
        debug_assert!(
            !shape.contains(&DYNAMIC),
            "sizes known at run time need operands"
        );
        let mut kind = self.module.value_kind(memref).clone();
        if let TypeKind::Memref { shape: s, .. } = &mut kind {
            *s = shape.to_vec();
        }
        let ty = self.ty(kind);
        let operands = [memref].into_iter().chain(indices.iter().copied());
        let op = self.op("tpu.memref_slice").operands(operands);
        op.segments(&[1, indices.len(), 0]).result(ty).value()
    }
}
