//! Making modules.
//!
//! A [`Builder`] owns a module and a place in it, the end of a block; every operation is put there.
//! Regions are written as closures that get the builder back ([`Builder::scf_for`]), or, where the
//! caller cannot pass it around, by [`Builder::enter`] and [`Builder::leave`].
//!
//! There is one general way to make an operation, [`Builder::op`], and short forms for the ones that
//! kernels are full of. The builder fills in attributes that have defaults; it does not check what it
//! builds: [`Module::verify`] does, and a short form that needs a type the operand does not have
//! (the element type of a scalar, say) leaves an operation that the verifier rejects.

mod ops;

use super::FloatKind;
use super::ir::{Attribute, Block, Module, Op, OpParts, Region, Type, Value};
use super::syntax;
use super::tpu::{DotDimensionNumbers, MemorySpace};
use super::types::{AttributeKind, Signedness, TypeKind};

/// A module under construction and the place where operations go.
#[derive(Clone, Debug)]
pub struct Builder {
    module: Module,
    at: Vec<Block>,
    /// Those of the operation under construction; their memory serves the next one.
    parts: OpParts,
    /// Dimension numbers that were written, which are text.
    dimension_numbers: Vec<(DotDimensionNumbers, Attribute)>,
}

/// An operation under construction; see [`Builder::op`].
#[derive(Debug)]
pub struct OpBuilder<'b> {
    builder: &'b mut Builder,
    name: &'b str,
}

impl OpBuilder<'_> {
    /// Adds one operand.
    #[must_use]
    pub fn operand(self, value: Value) -> Self {
        self.builder.parts.operands.push(value);
        self
    }

    /// Adds operands.
    #[must_use]
    pub fn operands(self, values: impl IntoIterator<Item = Value>) -> Self {
        self.builder.parts.operands.extend(values);
        self
    }

    /// Adds an attribute.
    #[must_use]
    pub fn attr(self, name: &'static str, value: Attribute) -> Self {
        self.builder.parts.attributes.push((name.into(), value));
        self
    }

    /// Adds an attribute by its structure.
    #[must_use]
    pub fn attr_kind(self, name: &'static str, kind: AttributeKind) -> Self {
        let value = self.builder.module.attribute(kind);
        self.builder.parts.attributes.push((name.into(), value));
        self
    }

    /// Adds an `i32` attribute.
    #[must_use]
    pub fn attr_i32(self, name: &'static str, value: i64) -> Self {
        let value = self.builder.i32_attribute(value);
        self.attr(name, value)
    }

    /// Adds a boolean attribute.
    #[must_use]
    pub fn attr_bool(self, name: &'static str, value: bool) -> Self {
        self.attr_kind(name, AttributeKind::Bool(value))
    }

    /// Says how many operands each declared group has.
    #[must_use]
    pub fn segments(self, sizes: &[usize]) -> Self {
        let values = sizes.iter().map(|&n| n as i64).collect();
        let value = self.builder.dense_array(32, values);
        self.attr("operandSegmentSizes", value)
    }

    /// Adds a result.
    #[must_use]
    pub fn result(self, ty: Type) -> Self {
        self.builder.parts.results.push(ty);
        self
    }

    /// Adds results.
    #[must_use]
    pub fn results(self, types: &[Type]) -> Self {
        self.builder.parts.results.extend(types);
        self
    }

    /// Adds a region.
    #[must_use]
    pub fn region(self, region: Region) -> Self {
        self.builder.parts.regions.push(region);
        self
    }

    /// Makes the operation.
    pub fn build(self) -> Op {
        let Builder { module, parts, .. } = &mut *self.builder;
        let name = module.name(self.name);
        syntax::add_defaults(module, name, parts);
        let op = module.take_op(name, parts);
        let block = self.builder.block();
        self.builder.module.append(block, op);
        op
    }

    /// Makes the operation and returns its result, which it must have.
    pub fn value(self) -> Value {
        let Self { builder, name } = self;
        assert!(
            !builder.parts.results.is_empty(),
            "{name} was given no result type"
        );
        let op = OpBuilder {
            builder: &mut *builder,
            name,
        }
        .build();
        builder.module.results(op)[0]
    }
}

impl Builder {
    /// A module of that name without functions.
    pub fn new(name: &str) -> Self {
        let module = Module::new(Some(name));
        let at = vec![module.body()];
        Self {
            module,
            at,
            parts: OpParts::default(),
            dimension_numbers: Vec::new(),
        }
    }

    /// The module.
    pub fn finish(self) -> Module {
        self.module
    }

    /// The module so far.
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// The module so far, to change.
    pub fn module_mut(&mut self) -> &mut Module {
        &mut self.module
    }

    /// The block that operations go to.
    pub fn block(&self) -> Block {
        self.at.last().copied().unwrap_or(self.module.body())
    }

    /// From now on, operations go to the end of `block`, until [`Self::leave`].
    pub fn enter(&mut self, block: Block) {
        self.at.push(block);
    }

    /// Back to where operations went before the last [`Self::enter`].
    pub fn leave(&mut self) {
        if self.at.len() > 1 {
            self.at.pop();
        }
    }

    /// A new operation, put in place by [`OpBuilder::build`].
    pub fn op<'b>(&'b mut self, name: &'b str) -> OpBuilder<'b> {
        // One that was begun and not built leaves its parts.
        self.parts.clear();
        OpBuilder {
            builder: self,
            name,
        }
    }

    // Types and attributes.

    /// The type of that structure.
    pub fn ty(&mut self, kind: TypeKind) -> Type {
        self.module.ty(kind)
    }

    /// The type `index`.
    pub fn index_type(&mut self) -> Type {
        self.ty(TypeKind::Index)
    }

    /// A signless integer type.
    pub fn int_type(&mut self, width: u32) -> Type {
        self.ty(TypeKind::Integer {
            width,
            sign: Signedness::Signless,
        })
    }

    /// A float type.
    pub fn float_type(&mut self, kind: FloatKind) -> Type {
        self.ty(TypeKind::Float(kind))
    }

    /// A vector type.
    pub fn vector_type(&mut self, shape: &[i64], element: Type) -> Type {
        self.ty(TypeKind::Vector {
            shape: shape.to_vec(),
            element,
        })
    }

    /// A vector type of `f32`.
    pub fn f32_vector(&mut self, shape: &[i64]) -> Type {
        let element = self.float_type(FloatKind::F32);
        self.vector_type(shape, element)
    }

    /// A memref type of default layout.
    pub fn memref_type(&mut self, shape: &[i64], element: Type, space: MemorySpace) -> Type {
        let space = Some(space.write(&mut self.module));
        self.ty(TypeKind::Memref {
            shape: shape.to_vec(),
            element,
            layout: None,
            space,
        })
    }

    /// A memref type in vector memory, of the element type of `vector` (or of that type itself).
    pub fn vmem(&mut self, shape: &[i64], vector: Type) -> Type {
        let element = self.module.type_kind(vector).element().unwrap_or(vector);
        self.memref_type(shape, element, MemorySpace::Vmem)
    }

    /// An attribute of type `i32`.
    pub fn i32_attribute(&mut self, value: i64) -> Attribute {
        let ty = self.int_type(32);
        self.module.attribute(AttributeKind::Integer { value, ty })
    }

    /// An attribute of type `i64`.
    pub fn i64_attribute(&mut self, value: i64) -> Attribute {
        let ty = self.int_type(64);
        self.module.attribute(AttributeKind::Integer { value, ty })
    }

    /// A dense array of integers of that width.
    pub fn dense_array(&mut self, width: u32, values: Vec<i64>) -> Attribute {
        let element = self.int_type(width);
        self.module
            .attribute(AttributeKind::DenseArray { element, values })
    }

    // Structure.

    /// A region of one block whose operations `body` makes from the arguments.
    pub fn region<R>(
        &mut self,
        arguments: &[Type],
        body: impl FnOnce(&mut Self, &[Value]) -> R,
    ) -> (Region, R) {
        let region = self.module.new_region();
        let block = self.module.new_block(region, arguments);
        let values = self.module.arguments(block).to_vec();
        self.enter(block);
        let result = body(self, &values);
        self.leave();
        (region, result)
    }

    /// A function; `body` returns what the function returns. Attributes are added by
    /// [`Module::set_attribute`].
    pub fn function(
        &mut self,
        name: &str,
        inputs: &[Type],
        results: &[Type],
        body: impl FnOnce(&mut Self, &[Value]) -> Vec<Value>,
    ) -> Op {
        let (region, ()) = self.region(inputs, |b, arguments| {
            let values = body(b, arguments);
            b.op("func.return").operands(values).build();
        });
        let ty = TypeKind::Function {
            inputs: inputs.to_vec(),
            results: results.to_vec(),
        };
        let ty = self.ty(ty);
        let op = self.op("func.func").region(region);
        op.attr_kind("function_type", AttributeKind::Type(ty))
            .attr_kind("sym_name", AttributeKind::String(name.into()))
            .build()
    }

    /// A loop from `lower` to below `upper`; `body` gets the counter and the carried values and
    /// returns the next ones. Returns the last ones.
    pub fn scf_for(
        &mut self,
        [lower, upper, step]: [Value; 3],
        inits: &[Value],
        body: impl FnOnce(&mut Self, Value, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        let types: Vec<Type> = inits.iter().map(|&v| self.module.value_type(v)).collect();
        let mut arguments = vec![self.module.value_type(lower)];
        arguments.extend(&types);
        let (region, ()) = self.region(&arguments, |b, values| {
            let next = body(b, values[0], &values[1..]);
            b.op("scf.yield").operands(next).build();
        });
        let operands = [lower, upper, step]
            .into_iter()
            .chain(inits.iter().copied());
        let op = self
            .op("scf.for")
            .operands(operands)
            .results(&types)
            .region(region)
            .build();
        self.module.results(op).to_vec()
    }

    /// A conditional without results.
    pub fn when(&mut self, condition: Value, body: impl FnOnce(&mut Self)) -> Op {
        let yields = |b: &mut Self| {
            b.op("scf.yield").build();
        };
        let (then, ()) = self.region(&[], |b, _| {
            body(b);
            yields(b);
        });
        let (otherwise, ()) = self.region(&[], |b, _| yields(b));
        self.op("scf.if")
            .operand(condition)
            .region(then)
            .region(otherwise)
            .build()
    }

    /// A conditional; both branches return values of these types.
    pub fn scf_if(
        &mut self,
        condition: Value,
        types: &[Type],
        then: impl FnOnce(&mut Self) -> Vec<Value>,
        otherwise: impl FnOnce(&mut Self) -> Vec<Value>,
    ) -> Vec<Value> {
        let (then, ()) = self.region(&[], |b, _| {
            let values = then(b);
            b.op("scf.yield").operands(values).build();
        });
        let (otherwise, ()) = self.region(&[], |b, _| {
            let values = otherwise(b);
            b.op("scf.yield").operands(values).build();
        });
        let op = self.op("scf.if").operand(condition).results(types);
        let op = op.region(then).region(otherwise).build();
        self.module.results(op).to_vec()
    }
}
