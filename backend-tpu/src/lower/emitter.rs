//! The small vocabulary of Mosaic operations that the lowering uses, appended one by one.

use std::cell::{Cell, RefCell};

use tilecast_core::DType;

use crate::mosaic::{
    Attribute, AttributeKind, Block, FloatKind, Module, Op, OpParts, Region, Signedness, Type,
    TypeKind, Value,
};

/// A module under construction and the block that operations are appended to.
#[derive(Debug)]
pub(super) struct Emitter {
    pub(super) module: RefCell<Module>,
    pub(super) block: Cell<Block>,
}

impl Emitter {
    /// A module of that name, without functions.
    pub(super) fn new(name: &str) -> Self {
        let module = Module::new(Some(name));
        let block = Cell::new(module.body());
        Self {
            module: RefCell::new(module),
            block,
        }
    }

    // ---- functions --------------------------------------------------------------------------

    /// The body of a function to come.
    pub(super) fn function(&self) -> (Region, Block) {
        let mut module = self.module.borrow_mut();
        let region = module.new_region();
        let entry = module.new_block(region, &[]);
        (region, entry)
    }

    /// One more argument of the current block.
    pub(super) fn argument(&self, ty: Type) -> Value {
        self.module.borrow_mut().new_argument(self.block.get(), ty)
    }

    /// The arguments of the current block.
    pub(super) fn arguments(&self) -> Vec<Value> {
        self.module.borrow().arguments(self.block.get()).to_vec()
    }

    /// Makes a function of the current block, the entry of `region`.
    pub(super) fn finish_function(
        &self,
        name: &str,
        region: Region,
        results: &[Type],
        attributes: &[(&str, Attribute)],
    ) {
        let arguments = self.arguments().into_iter();
        let inputs = arguments
            .map(|value| self.module.borrow().value_type(value))
            .collect();
        let results = results.into();
        let function_type = self.ty(TypeKind::Function { inputs, results });
        let function_type = self.attribute(AttributeKind::Type(function_type));
        let name = self.attribute(AttributeKind::String(name.into()));
        let own = [("function_type", function_type), ("sym_name", name)];
        let attributes = own.iter().chain(attributes);
        let attributes = attributes
            .map(|(name, value)| ((*name).into(), *value))
            .collect();
        let mut module = self.module.borrow_mut();
        let parts = OpParts {
            attributes,
            regions: vec![region],
            ..OpParts::default()
        };
        let function = module.new_op("func.func", parts);
        let body = module.body();
        module.append(body, function);
    }

    /// A memory reference of a memory space.
    pub(super) fn memref(&self, shape: &[usize], element: TypeKind, space: &str) -> Type {
        let element = self.ty(element);
        let space = Some(self.dialect("tpu.memory_space", space));
        let shape = shape.iter().map(|&n| n as i64).collect();
        let layout = None;
        self.ty(TypeKind::Memref {
            shape,
            element,
            layout,
            space,
        })
    }

    // ---- types and attributes ---------------------------------------------------------------

    pub(super) fn ty(&self, kind: TypeKind) -> Type {
        self.module.borrow_mut().ty(kind)
    }

    pub(super) fn i32(&self) -> Type {
        self.ty(integer(32))
    }

    pub(super) fn index_type(&self) -> Type {
        self.ty(TypeKind::Index)
    }

    pub(super) fn vector(&self, shape: &[usize], element: TypeKind) -> Type {
        let element = self.ty(element);
        let shape = shape.iter().map(|&n| n as i64).collect();
        self.ty(TypeKind::Vector { shape, element })
    }

    pub(super) fn attribute(&self, kind: AttributeKind) -> Attribute {
        self.module.borrow_mut().attribute(kind)
    }

    pub(super) fn integer_attribute(&self, value: i64, width: u32) -> Attribute {
        let ty = self.ty(integer(width));
        self.attribute(AttributeKind::Integer { value, ty })
    }

    pub(super) fn dialect(&self, name: &str, body: &str) -> Attribute {
        self.attribute(AttributeKind::Dialect {
            name: name.into(),
            body: Some(body.into()),
        })
    }

    pub(super) fn bool_attribute(&self, value: bool) -> Attribute {
        self.attribute(AttributeKind::Bool(value))
    }

    pub(super) fn integers(&self, width: u32, values: &[i64]) -> Attribute {
        let element = self.ty(integer(width));
        let values = values.into();
        self.attribute(AttributeKind::DenseArray { element, values })
    }

    /// Shape of a vector or memref value.
    pub(super) fn shape(&self, value: Value) -> Vec<usize> {
        let module = self.module.borrow();
        let shape = module.value_kind(value).shape().unwrap_or_default();
        shape.iter().map(|&n| n as usize).collect()
    }

    fn element(&self, value: Value) -> TypeKind {
        let module = self.module.borrow();
        let kind = module.value_kind(value);
        match kind.element() {
            Some(element) => module.type_kind(element).clone(),
            None => kind.clone(),
        }
    }

    // ---- operations -------------------------------------------------------------------------

    pub(super) fn op(
        &self,
        name: &str,
        operands: &[Value],
        results: &[Type],
        attributes: &[(&str, Attribute)],
    ) -> Op {
        let mut module = self.module.borrow_mut();
        let attributes = attributes.iter().map(|(n, a)| ((*n).into(), *a)).collect();
        let op = module.new_op(
            name,
            OpParts {
                operands: operands.into(),
                results: results.into(),
                attributes,
                ..OpParts::default()
            },
        );
        module.append(self.block.get(), op);
        op
    }

    pub(super) fn value(
        &self,
        name: &str,
        operands: &[Value],
        result: Type,
        attributes: &[(&str, Attribute)],
    ) -> Value {
        let op = self.op(name, operands, &[result], attributes);
        self.module.borrow().results(op)[0]
    }

    /// An operation whose result has the type of its first operand.
    pub(super) fn same(&self, name: &str, operands: &[Value]) -> Value {
        let ty = self.module.borrow().value_type(operands[0]);
        let mut attributes = Vec::new();
        if matches!(name, "arith.addi" | "arith.subi" | "arith.muli") {
            attributes.push(("overflowFlags", self.dialect("arith.overflow", "none")));
        } else if name.starts_with("arith.") && name.ends_with('f') || name.starts_with("math.") {
            attributes.push(("fastmath", self.dialect("arith.fastmath", "none")));
        }
        self.value(name, operands, ty, &attributes)
    }

    pub(super) fn i32_constant(&self, value: i64) -> Value {
        let ty = self.i32();
        let value = self.integer_attribute(value, 32);
        self.value("arith.constant", &[], ty, &[("value", value)])
    }

    pub(super) fn index_constant(&self, value: usize) -> Value {
        let ty = self.index_type();
        let value = value as i64;
        let value = self.attribute(AttributeKind::Integer { value, ty });
        self.value("arith.constant", &[], ty, &[("value", value)])
    }

    /// A vector of equal f32.
    pub(super) fn splat(&self, value: f32, shape: &[usize]) -> Value {
        let ty = self.vector(shape, f32_type());
        let values = vec![u64::from(value.to_bits())];
        let value = self.attribute(AttributeKind::DenseElements { ty, values });
        self.value("arith.constant", &[], ty, &[("value", value)])
    }

    /// A vector of equal i32, from a scalar.
    pub(super) fn broadcast_scalar(&self, scalar: Value, shape: &[usize]) -> Value {
        let ty = self.vector(shape, self.element(scalar));
        self.value("vector.broadcast", &[scalar], ty, &[])
    }

    /// `arith.cmpi` with a predicate by name.
    pub(super) fn compare_integers(&self, predicate: Predicate, a: Value, b: Value) -> Value {
        let ty = self.truth(a);
        let predicate = self.integer_attribute(predicate as i64, 64);
        self.value("arith.cmpi", &[a, b], ty, &[("predicate", predicate)])
    }

    /// `arith.cmpf`: ordered equal (1) or ordered less than (4).
    pub(super) fn compare_floats(&self, predicate: FloatPredicate, a: Value, b: Value) -> Value {
        let ty = self.truth(a);
        let predicate = self.integer_attribute(predicate as i64, 64);
        let fastmath = self.dialect("arith.fastmath", "none");
        let attributes = [("fastmath", fastmath), ("predicate", predicate)];
        self.value("arith.cmpf", &[a, b], ty, &attributes)
    }

    /// The type of a comparison of values like `value`.
    fn truth(&self, value: Value) -> Type {
        match &*self.shape(value) {
            [] => self.ty(integer(1)),
            shape => self.vector(shape, integer(1)),
        }
    }

    pub(super) fn select(&self, condition: Value, a: Value, b: Value) -> Value {
        let ty = self.module.borrow().value_type(a);
        self.value("arith.select", &[condition, a, b], ty, &[])
    }

    /// `0, 1, 2, ...` along the columns.
    pub(super) fn column_numbers(&self, shape: &[usize]) -> Value {
        self.numbers(shape, 1)
    }

    pub(super) fn numbers(&self, shape: &[usize], dimension: i64) -> Value {
        let ty = self.vector(shape, integer(32));
        let dimensions = self.integers(32, &[dimension]);
        self.value("tpu.iota", &[], ty, &[("dimensions", dimensions)])
    }

    pub(super) fn load(&self, memref: Value, at: [Value; 2], shape: &[usize]) -> Value {
        let ty = self.vector(shape, self.element(memref));
        self.value("vector.load", &[memref, at[0], at[1]], ty, &[])
    }

    pub(super) fn store(&self, memref: Value, at: [Value; 2], value: Value) {
        let attributes = [
            ("add", self.bool_attribute(false)),
            ("operandSegmentSizes", self.integers(32, &[1, 1, 2, 0])),
            ("strides", self.integers(32, &[])),
        ];
        self.op(
            "tpu.vector_store",
            &[value, memref, at[0], at[1]],
            &[],
            &attributes,
        );
    }

    /// bf16 to f32.
    pub(super) fn widen(&self, value: Value) -> Value {
        if self.element(value) != bf16_type() {
            return value;
        }
        let ty = self.vector(&self.shape(value), f32_type());
        self.value("arith.extf", &[value], ty, &[])
    }

    /// f32 to `dtype`.
    pub(super) fn narrow(&self, value: Value, dtype: DType) -> Value {
        if dtype != DType::Bf16 {
            return value;
        }
        let ty = self.vector(&self.shape(value), bf16_type());
        self.value("arith.truncf", &[value], ty, &[])
    }

    pub(super) fn concatenate(&self, parts: &[Value], dimension: usize) -> Value {
        if let [one] = parts {
            return *one;
        }
        let mut shape = self.shape(parts[0]);
        shape[dimension] = parts.iter().map(|&part| self.shape(part)[dimension]).sum();
        let ty = self.vector(&shape, self.element(parts[0]));
        let dimension = self.integer_attribute(dimension as i64, 32);
        self.value("tpu.concatenate", parts, ty, &[("dimension", dimension)])
    }

    /// Rows and columns `at..at + shape` of a vector.
    pub(super) fn slice(&self, value: Value, at: [usize; 2], shape: [usize; 2]) -> Value {
        if self.shape(value) == shape {
            return value;
        }
        let ty = self.vector(&shape, self.element(value));
        let list = |values: [usize; 2]| {
            let values = values.map(|n| self.integer_attribute(n as i64, 64));
            self.attribute(AttributeKind::Array(values.into()))
        };
        let attributes = [
            ("offsets", list(at)),
            ("sizes", list(shape)),
            ("strides", list([1, 1])),
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
        if self.shape(value) == shape {
            return value;
        }
        let ty = self.vector(shape, self.element(value));
        self.value("vector.broadcast", &[value], ty, &[])
    }

    /// Reduces `[r, c]` over one dimension, which stays with size 1.
    pub(super) fn reduce(&self, kind: &str, value: Value, dimension: usize) -> Value {
        let mut shape = self.shape(value);
        let kept = shape[1 - dimension];
        let neutral = match kind {
            "add" => 0.0,
            _ => f32::NEG_INFINITY,
        };
        let neutral = self.splat(neutral, &[kept]);
        let ty = self.vector(&[kept], f32_type());
        let attributes = [
            ("kind", self.dialect("vector.kind", kind)),
            ("reduction_dims", self.integers(64, &[dimension as i64])),
        ];
        let reduced = self.value("vector.multi_reduction", &[value, neutral], ty, &attributes);
        shape[dimension] = 1;
        let ty = self.vector(&shape, f32_type());
        self.value("vector.shape_cast", &[reduced], ty, &[])
    }

    /// Records `body` into a region that runs where the condition holds.
    pub(super) fn if_then(&self, condition: Value, body: impl FnOnce()) {
        let (op, then) = {
            let mut module = self.module.borrow_mut();
            let regions = vec![module.new_region(), module.new_region()];
            let then = module.new_block(regions[0], &[]);
            let operands = vec![condition];
            let op = module.new_op(
                "scf.if",
                OpParts {
                    operands,
                    regions,
                    ..OpParts::default()
                },
            );
            (op, then)
        };
        let outer = self.block.replace(then);
        body();
        self.op("scf.yield", &[], &[], &[]);
        self.block.set(outer);
        self.module.borrow_mut().append(outer, op);
    }

    /// Records `body` as a loop over `0..count`.
    pub(super) fn for_loop(&self, count: usize, body: impl FnOnce(Value)) {
        let bounds = [0, count as i64, 1].map(|value| self.i32_constant(value));
        let i32 = self.i32();
        let (op, inside, counter) = {
            let mut module = self.module.borrow_mut();
            let regions = vec![module.new_region()];
            let inside = module.new_block(regions[0], &[i32]);
            let counter = module.arguments(inside)[0];
            let op = module.new_op(
                "scf.for",
                OpParts {
                    operands: bounds.into(),
                    regions,
                    ..OpParts::default()
                },
            );
            (op, inside, counter)
        };
        let outer = self.block.replace(inside);
        body(counter);
        self.op("scf.yield", &[], &[], &[]);
        self.block.set(outer);
        self.module.borrow_mut().append(outer, op);
    }
}

/// Predicates of `arith.cmpi`, by their numbers in the dialect.
#[derive(Clone, Copy, Debug)]
pub(super) enum Predicate {
    Equal = 0,
    Less = 2,
    GreaterOrEqual = 5,
}

/// Predicates of `arith.cmpf`: ordered, so false where a value is NaN.
#[derive(Clone, Copy, Debug)]
pub(super) enum FloatPredicate {
    Equal = 1,
    Less = 4,
}

pub(super) fn integer(width: u32) -> TypeKind {
    TypeKind::Integer {
        width,
        sign: Signedness::Signless,
    }
}

pub(super) fn f32_type() -> TypeKind {
    TypeKind::Float(FloatKind::F32)
}

pub(super) fn bf16_type() -> TypeKind {
    TypeKind::Float(FloatKind::BF16)
}

/// The element type of arrays of `dtype`.
pub(super) fn element_type(dtype: DType) -> TypeKind {
    match dtype {
        DType::F32 => f32_type(),
        DType::Bf16 => bf16_type(),
        DType::I32 => integer(32),
    }
}
