//! The operations the lowering appends, through a shared reference.
//!
//! Kernels nest closures, so the recorder only ever has `&self`; this wraps the
//! [`Builder`] in a cell and gives its operations the shapes the lowering thinks in.

use std::cell::RefCell;

use rustc_hash::FxHashMap;
use tilecast_core::DType;

use crate::mosaic::tpu::{ContractPrecision, DotDimensionNumbers, MemorySpace, VectorKind};
use crate::mosaic::{
    Attribute, AttributeKind, Block, Builder, FloatKind, Module, Op, Region, Type, TypeKind, Value,
};

/// A module under construction.
#[derive(Debug)]
pub(super) struct Emitter {
    builder: RefCell<Builder>,
    /// Types of matrices and lists of two numbers that were asked for: thousands of operations have the same few.
    matrices: RefCell<FxHashMap<([usize; 2], Type), Type>>,
    pairs: RefCell<FxHashMap<[usize; 2], Attribute>>,
}

impl Emitter {
    /// A module of that name, without functions.
    pub(super) fn new(name: &str) -> Self {
        Self {
            builder: RefCell::new(Builder::new(name)),
            matrices: RefCell::default(),
            pairs: RefCell::default(),
        }
    }

    /// The module.
    pub(super) fn finish(self) -> Module {
        self.builder.into_inner().finish()
    }

    fn build<R>(&self, build: impl FnOnce(&mut Builder) -> R) -> R {
        build(&mut self.builder.borrow_mut())
    }

    // ---- functions --------------------------------------------------------------------------

    /// Starts a function: operations go to its body until [`Self::finish_function`].
    pub(super) fn start_function(&self) -> Region {
        self.build(|b| {
            let region = b.module_mut().new_region();
            let entry = b.module_mut().new_block(region, &[]);
            b.enter(entry);
            region
        })
    }

    /// One more argument of the current block.
    pub(super) fn argument(&self, ty: Type) -> Value {
        self.build(|b| {
            let block = b.block();
            b.module_mut().new_argument(block, ty)
        })
    }

    /// The arguments of the current block.
    pub(super) fn arguments(&self) -> Vec<Value> {
        self.build(|b| b.module().arguments(b.block()).to_vec())
    }

    /// Returns `results` from the function begun last, and names it.
    pub(super) fn finish_function(
        &self,
        name: &str,
        region: Region,
        results: &[Value],
        attributes: &[(&'static str, Attribute)],
    ) {
        self.op("func.return", results, &[], &[]);
        let arguments = self.arguments();
        self.build(|b| {
            b.leave();
            let types = |values: &[Value]| -> Vec<Type> {
                values.iter().map(|&v| b.module().value_type(v)).collect()
            };
            let (inputs, results) = (types(&arguments), types(results));
            let ty = b.ty(TypeKind::Function { inputs, results });
            let mut op = b.op("func.func").region(region);
            for &(name, value) in attributes {
                op = op.attr(name, value);
            }
            op.attr_kind("function_type", AttributeKind::Type(ty))
                .attr_kind("sym_name", AttributeKind::String(name.into()))
                .build();
        });
    }

    // ---- types and attributes ---------------------------------------------------------------

    pub(super) fn i32(&self) -> Type {
        self.build(|b| b.int_type(32))
    }

    pub(super) fn index_type(&self) -> Type {
        self.build(|b| b.index_type())
    }

    pub(super) fn memref(&self, shape: &[usize], element: Element, space: MemorySpace) -> Type {
        self.build(|b| {
            let element = element.ty(b);
            b.memref_type(&signed(shape), element, space)
        })
    }

    fn vector(&self, shape: &[usize], element: Type) -> Type {
        let make = || self.build(|b| b.vector_type(&signed(shape), element));
        match *shape {
            [rows, columns] => *(self.matrices.borrow_mut())
                .entry(([rows, columns], element))
                .or_insert_with(make),
            _ => make(),
        }
    }

    fn f32_vector(&self, shape: &[usize]) -> Type {
        let f32 = self.build(|b| b.float_type(FloatKind::F32));
        self.vector(shape, f32)
    }

    pub(super) fn attribute(&self, kind: AttributeKind) -> Attribute {
        self.build(|b| b.module_mut().attribute(kind))
    }

    pub(super) fn i64_attribute(&self, value: usize) -> Attribute {
        self.build(|b| b.i64_attribute(value as i64))
    }

    pub(super) fn dialect(&self, name: &str, body: &str) -> Attribute {
        let (name, body) = (name.into(), Some(body.into()));
        self.attribute(AttributeKind::Dialect { name, body })
    }

    pub(super) fn integers(&self, width: u32, values: &[usize]) -> Attribute {
        self.build(|b| b.dense_array(width, signed(values)))
    }

    /// An array of two `i64`.
    fn pair(&self, values: [usize; 2]) -> Attribute {
        let make = || {
            let values = values.map(|n| self.i64_attribute(n));
            self.attribute(AttributeKind::Array(values.into()))
        };
        *(self.pairs.borrow_mut()).entry(values).or_insert_with(make)
    }

    /// Shape of a vector or memref value.
    pub(super) fn shape(&self, value: Value) -> Vec<usize> {
        self.build(|b| {
            let shape = b.module().value_kind(value).shape().unwrap_or_default();
            shape.iter().map(|&n| n as usize).collect()
        })
    }

    fn is_shaped(&self, value: Value, shape: &[usize]) -> bool {
        self.build(|b| {
            let own = b.module().value_kind(value).shape().unwrap_or_default();
            own.iter().map(|&n| n as usize).eq(shape.iter().copied())
        })
    }

    /// Element type of a vector or memref, or the type of a scalar.
    fn element(&self, value: Value) -> Type {
        self.build(|b| {
            let ty = b.module().value_type(value);
            b.module().type_kind(ty).element().unwrap_or(ty)
        })
    }

    fn element_is(&self, value: Value, kind: FloatKind) -> bool {
        let element = self.element(value);
        self.build(|b| *b.module().type_kind(element) == TypeKind::Float(kind))
    }

    // ---- operations -------------------------------------------------------------------------

    pub(super) fn op(
        &self,
        name: &str,
        operands: &[Value],
        results: &[Type],
        attributes: &[(&'static str, Attribute)],
    ) -> Op {
        self.build(|b| {
            let mut op = b
                .op(name)
                .operands(operands.iter().copied())
                .results(results);
            for &(name, value) in attributes {
                op = op.attr(name, value);
            }
            op.build()
        })
    }

    pub(super) fn value(
        &self,
        name: &str,
        operands: &[Value],
        result: Type,
        attributes: &[(&'static str, Attribute)],
    ) -> Value {
        let op = self.op(name, operands, &[result], attributes);
        self.build(|b| b.module().results(op)[0])
    }

    /// An operation whose result has the type of its first operand.
    pub(super) fn same(&self, name: &str, operands: &[Value]) -> Value {
        let ty = self.build(|b| b.module().value_type(operands[0]));
        self.value(name, operands, ty, &[])
    }

    pub(super) fn i32_constant(&self, value: i64) -> Value {
        self.build(|b| b.int(value, 32))
    }

    pub(super) fn index_constant(&self, value: usize) -> Value {
        self.build(|b| b.index(value as i64))
    }

    pub(super) fn f32_constant(&self, value: f32) -> Value {
        self.build(|b| b.float(f64::from(value), FloatKind::F32))
    }

    /// A vector of equal f32.
    pub(super) fn splat(&self, value: f32, shape: &[usize]) -> Value {
        let ty = self.f32_vector(shape);
        self.build(|b| b.splat(f64::from(value), ty))
    }

    /// A vector of equal elements, from a scalar.
    pub(super) fn broadcast_scalar(&self, scalar: Value, shape: &[usize]) -> Value {
        let ty = self.vector(shape, self.element(scalar));
        self.build(|b| b.broadcast(scalar, ty))
    }

    /// Compares integers: `eq`, `slt`, `sge`.
    pub(super) fn compare_integers(&self, predicate: &str, a: Value, b: Value) -> Value {
        self.build(|builder| builder.cmpi(predicate, a, b))
    }

    /// Compares floats: `oeq`, `olt`, `ole`, which do not hold where a value is NaN.
    pub(super) fn compare_floats(&self, predicate: &str, a: Value, b: Value) -> Value {
        self.build(|builder| builder.cmpf(predicate, a, b))
    }

    /// The opposite of a scalar condition.
    pub(super) fn not(&self, condition: Value) -> Value {
        let yes = self.build(|b| b.int(1, 1));
        self.same("arith.xori", &[condition, yes])
    }

    pub(super) fn select(&self, condition: Value, a: Value, b: Value) -> Value {
        self.build(|builder| builder.select(condition, a, b))
    }

    /// `0, 1, 2, ...` along a dimension.
    pub(super) fn numbers(&self, shape: &[usize], dimension: usize) -> Value {
        let ty = self.vector(shape, self.i32());
        self.build(|b| b.iota(ty, dimension as i64))
    }

    pub(super) fn load(&self, memref: Value, at: [Value; 2], shape: &[usize]) -> Value {
        let ty = self.vector(shape, self.element(memref));
        self.build(|b| b.load_at(memref, &at, ty))
    }

    pub(super) fn store(&self, memref: Value, at: [Value; 2], value: Value) {
        self.build(|b| b.store_at(value, memref, &at, None));
    }

    /// Stores the elements at which `mask` holds.
    pub(super) fn store_where(&self, memref: Value, at: [Value; 2], value: Value, mask: Value) {
        self.build(|b| b.store_at(value, memref, &at, Some(mask)));
    }

    /// An element of an array of scalars.
    /// The element of a vector at an `index`.
    pub(super) fn load_scalar(&self, memref: Value, at: Value) -> Value {
        self.build(|b| b.load_scalar(memref, &[at]))
    }

    /// An i32 as an `index`, which memory operations take.
    pub(super) fn to_index(&self, value: Value) -> Value {
        let ty = self.index_type();
        self.value("arith.index_cast", &[value], ty, &[])
    }

    /// bf16 to f32.
    pub(super) fn widen(&self, value: Value) -> Value {
        if !self.element_is(value, FloatKind::BF16) {
            return value;
        }
        let ty = self.f32_vector(&self.shape(value));
        self.build(|b| b.cast("arith.extf", value, ty))
    }

    /// f32 to `dtype`.
    pub(super) fn narrow(&self, value: Value, dtype: DType) -> Value {
        if dtype != DType::Bf16 {
            return value;
        }
        let bf16 = self.build(|b| b.float_type(FloatKind::BF16));
        let ty = self.vector(&self.shape(value), bf16);
        self.build(|b| b.cast("arith.truncf", value, ty))
    }

    /// A product into f32, of f32 accuracy if `exact` and both operands are f32.
    pub(super) fn product(
        &self,
        a: Value,
        b: Value,
        dims: &DotDimensionNumbers,
        shape: [usize; 2],
        exact: bool,
    ) -> Value {
        let zero = self.splat(0.0, &shape);
        let both_f32 = [a, b].iter().all(|&x| self.element_is(x, FloatKind::F32));
        let precision = (exact && both_f32).then_some(ContractPrecision::Fp32);
        self.build(|builder| builder.matmul(a, b, zero, dims, precision))
    }

    pub(super) fn concatenate(&self, parts: &[Value], dimension: usize) -> Value {
        if let [one] = parts {
            return *one;
        }
        let mut shape = self.shape(parts[0]);
        shape[dimension] = self.build(|b| {
            let sizes = |&part: &Value| b.module().value_kind(part).shape().map(|s| s[dimension]);
            parts.iter().filter_map(sizes).sum::<i64>() as usize
        });
        let ty = self.vector(&shape, self.element(parts[0]));
        let dimension = self.build(|b| b.i32_attribute(dimension as i64));
        self.value("tpu.concatenate", parts, ty, &[("dimension", dimension)])
    }

    /// Rows and columns `at..at + shape` of a vector.
    pub(super) fn slice(&self, value: Value, at: [usize; 2], shape: [usize; 2]) -> Value {
        if self.is_shaped(value, &shape) {
            return value;
        }
        let ty = self.vector(&shape, self.element(value));
        let attributes = [
            ("offsets", self.pair(at)),
            ("sizes", self.pair(shape)),
            ("strides", self.pair([1, 1])),
        ];
        self.value("vector.extract_strided_slice", &[value], ty, &attributes)
    }

    pub(super) fn transpose(&self, value: Value) -> Value {
        let shape = self.shape(value);
        let ty = self.vector(&[shape[1], shape[0]], self.element(value));
        let permutation = self.integers(64, &[1, 0]);
        self.value(
            "tpu.transpose",
            &[value],
            ty,
            &[("permutation", permutation)],
        )
    }

    pub(super) fn broadcast(&self, value: Value, shape: &[usize]) -> Value {
        if self.is_shaped(value, shape) {
            return value;
        }
        let ty = self.vector(shape, self.element(value));
        self.build(|b| b.broadcast(value, ty))
    }

    /// Reduces `[r, c]` over one dimension, which stays with size 1.
    pub(super) fn reduce(&self, kind: VectorKind, value: Value, dimension: usize) -> Value {
        let mut shape = self.shape(value);
        let neutral = match kind {
            VectorKind::Add => 0.0,
            _ => f32::NEG_INFINITY,
        };
        let neutral = self.splat(neutral, &[shape[1 - dimension]]);
        let reduced = self.build(|b| b.reduce(kind, value, neutral, &[dimension as i64]));
        shape[dimension] = 1;
        let ty = self.f32_vector(&shape);
        self.build(|b| b.cast("vector.shape_cast", reduced, ty))
    }

    /// The largest element of a vector, as a scalar.
    pub(super) fn largest(&self, value: Value) -> Value {
        let shape = self.shape(value);
        let start = self.splat(f32::NEG_INFINITY, &[1]);
        let ty = self.f32_vector(&[1, shape[0], shape[1]]);
        let one = self.f32_vector(&[1, 1, 1]);
        let vector = self.build(|b| {
            let whole = b.cast("vector.shape_cast", value, ty);
            let reduced = b.reduce(VectorKind::MaximumF, whole, start, &[1, 2]);
            b.cast("vector.shape_cast", reduced, one)
        });
        let ty = self.element(value);
        let position = self.integers(64, &[0, 0, 0]);
        self.value(
            "vector.extract",
            &[vector],
            ty,
            &[("static_position", position)],
        )
    }

    /// The block at element `offsets` of an array, without its leading dimensions.
    pub(super) fn memref_block(&self, memref: Value, offsets: &[Value], block: &[usize]) -> Value {
        let slice = self.build(|b| b.memref_slice(memref, offsets, &signed(block)));
        match block.len() {
            2 => slice,
            _ => self.memref_tile(slice),
        }
    }

    /// The last two dimensions of a block, whose others are 1.
    pub(super) fn memref_tile(&self, block: Value) -> Value {
        let ty = self.build(|b| {
            let mut kind = b.module().value_kind(block).clone();
            if let TypeKind::Memref { shape, .. } = &mut kind {
                shape.drain(..shape.len() - 2);
            }
            b.ty(kind)
        });
        self.value("tpu.memref_squeeze", &[block], ty, &[])
    }

    /// The same memory as elements of another width.
    pub(super) fn memref_bitcast(&self, memref: Value, shape: &[usize], dtype: DType) -> Value {
        let ty = self.build(|b| {
            let mut kind = b.module().value_kind(memref).clone();
            let of = Element::Of(dtype).ty(b);
            if let TypeKind::Memref {
                shape: to, element, ..
            } = &mut kind
            {
                (*to, *element) = (signed(shape), of);
            }
            b.ty(kind)
        });
        self.value("tpu.memref_bitcast", &[memref], ty, &[])
    }

    // ---- control flow -----------------------------------------------------------------------

    /// Records `body` into a block of its own.
    fn region(&self, arguments: &[Type], body: impl FnOnce(Block)) -> Region {
        let (region, block) = self.build(|b| {
            let region = b.module_mut().new_region();
            let block = b.module_mut().new_block(region, arguments);
            b.enter(block);
            (region, block)
        });
        body(block);
        self.op("scf.yield", &[], &[], &[]);
        self.build(Builder::leave);
        region
    }

    /// Records `body` into a region that runs where the condition holds.
    pub(super) fn if_then(&self, condition: Value, body: impl FnOnce()) {
        let then = self.region(&[], |_| body());
        self.build(|b| {
            let otherwise = b.module_mut().new_region();
            let op = b.op("scf.if").operand(condition);
            op.region(then).region(otherwise).build()
        });
    }

    /// Records `body` as a loop over `0..count`.
    pub(super) fn for_loop(&self, count: usize, body: impl FnOnce(Value)) {
        let bounds = [0, count as i64, 1].map(|value| self.i32_constant(value));
        let inside = self.region(&[self.i32()], |block| {
            body(self.build(|b| b.module().arguments(block)[0]));
        });
        self.build(|b| b.op("scf.for").operands(bounds).region(inside).build());
    }
}

/// The element types of arrays and scratch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Element {
    Of(DType),
    DmaSemaphore,
}

impl Element {
    fn ty(self, b: &mut Builder) -> Type {
        match self {
            Self::Of(DType::F32) => b.float_type(FloatKind::F32),
            Self::Of(DType::Bf16) => b.float_type(FloatKind::BF16),
            Self::Of(DType::I32) => b.int_type(32),
            Self::DmaSemaphore => b.ty(TypeKind::DmaSemaphore),
        }
    }
}

fn signed(shape: &[usize]) -> Vec<i64> {
    shape.iter().map(|&n| n as i64).collect()
}
