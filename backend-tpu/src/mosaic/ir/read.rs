//! What a module says: of operations, regions, blocks and values.

use super::{Attribute, AttributeName, Block, Definition, Module, Op, Region, Type, Value};
use crate::mosaic::types::{AttributeKind, Signedness, TypeKind};

impl Module {
    /// The name, such as `arith.addf`.
    #[inline]
    pub fn op_name(&self, op: Op) -> &str {
        &self.names[self.op_name_number(op)]
    }

    /// The number of the name, dense from zero in its module.
    #[inline]
    pub fn op_name_number(&self, op: Op) -> usize {
        self.ops[op.index()].name.0 as usize
    }

    /// The names that operations have or had, in the order of their numbers.
    pub fn op_names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Whether there is or was an operation of one of these names: most modules have few, and need not be searched for
    /// others.
    pub fn has_any(&self, names: &[&str]) -> bool {
        names.iter().any(|&name| self.name_of.contains_key(name))
    }

    /// The values it reads.
    #[inline]
    pub fn operands(&self, op: Op) -> &[Value] {
        self.ops[op.index()].operands.of(&self.value_lists)
    }

    /// The values it makes.
    #[inline]
    pub fn results(&self, op: Op) -> &[Value] {
        self.ops[op.index()].results.of(&self.value_lists)
    }

    /// Its attributes, sorted by name.
    #[inline]
    pub fn attributes(&self, op: Op) -> &[(AttributeName, Attribute)] {
        self.ops[op.index()].attributes.of(&self.attribute_lists)
    }

    /// Its regions.
    #[inline]
    pub fn regions(&self, op: Op) -> &[Region] {
        self.ops[op.index()].regions.of(&self.region_lists)
    }

    /// The blocks control may go to.
    pub fn successors(&self, op: Op) -> &[Block] {
        self.ops[op.index()].successors.of(&self.successor_lists)
    }

    /// The block it is in.
    pub fn op_block(&self, op: Op) -> Option<Block> {
        self.ops[op.index()].block
    }

    /// Line of the source text, 0 if it was not read from text.
    pub fn line(&self, op: Op) -> u32 {
        self.ops[op.index()].line
    }

    /// The attribute of that name.
    pub fn attribute_of(&self, op: Op, name: &str) -> Option<Attribute> {
        let list = self.attributes(op);
        list.binary_search_by(|a| (*a.0).cmp(name))
            .ok()
            .map(|i| list[i].1)
    }

    /// The structure of the attribute of that name.
    pub fn attribute_kind_of(&self, op: Op, name: &str) -> Option<&AttributeKind> {
        self.attribute_of(op, name).map(|a| self.attribute_kind(a))
    }

    /// The text of a string or symbol attribute.
    pub fn string_attribute(&self, op: Op, name: &str) -> Option<&str> {
        match self.attribute_kind_of(op, name)? {
            AttributeKind::String(s) | AttributeKind::Symbol(s) => Some(s),
            _ => None,
        }
    }

    /// The value of an integer attribute.
    pub fn integer_attribute(&self, op: Op, name: &str) -> Option<i64> {
        match self.attribute_kind_of(op, name)? {
            AttributeKind::Integer { value, .. } => Some(*value),
            _ => None,
        }
    }

    /// The same if it has an integer type of that width and sign, which some forms of the text leave out.
    pub(crate) fn integer_attribute_of(
        &self,
        op: Op,
        name: &str,
        width: u32,
        sign: Signedness,
    ) -> Option<i64> {
        match self.attribute_kind_of(op, name)? {
            AttributeKind::Integer { value, ty } => {
                (*self.type_kind(*ty) == TypeKind::Integer { width, sign }).then_some(*value)
            }
            _ => None,
        }
    }

    /// The values of a dense array of signless integers of that width, a type that the pretty form leaves out.
    pub(crate) fn dense_array_of(&self, op: Op, name: &str, width: u32) -> Option<&[i64]> {
        let sign = Signedness::Signless;
        match self.attribute_kind_of(op, name)? {
            AttributeKind::DenseArray { element, values } => (*self.type_kind(*element)
                == TypeKind::Integer { width, sign })
            .then_some(&values[..]),
            _ => None,
        }
    }

    /// The value of a boolean attribute.
    pub fn bool_attribute(&self, op: Op, name: &str) -> Option<bool> {
        match self.attribute_kind_of(op, name)? {
            AttributeKind::Bool(b) => Some(*b),
            _ => None,
        }
    }

    /// The values of a dense array, or of an array of integers.
    pub fn integers_attribute(&self, op: Op, name: &str) -> Option<Vec<i64>> {
        self.integers(self.attribute_of(op, name)?)
    }

    /// The values of a dense array, or of an array of integers.
    pub fn integers(&self, attribute: Attribute) -> Option<Vec<i64>> {
        match self.attribute_kind(attribute) {
            AttributeKind::DenseArray { values, .. } => Some(values.clone()),
            AttributeKind::Array(list) => list
                .iter()
                .map(|&a| match self.attribute_kind(a) {
                    AttributeKind::Integer { value, .. } => Some(*value),
                    _ => None,
                })
                .collect(),
            _ => None,
        }
    }

    /// The blocks of a region; the first is its entry.
    #[inline]
    pub fn blocks(&self, region: Region) -> &[Block] {
        &self.regions[region.index()].blocks
    }

    /// The operation a region belongs to.
    pub fn region_op(&self, region: Region) -> Option<Op> {
        self.regions[region.index()].op
    }

    /// The arguments of a block.
    #[inline]
    pub fn arguments(&self, block: Block) -> &[Value] {
        &self.blocks[block.index()].arguments
    }

    /// The operations of a block.
    #[inline]
    pub fn block_ops(&self, block: Block) -> &[Op] {
        &self.blocks[block.index()].ops
    }

    /// The region a block is in.
    pub fn block_region(&self, block: Block) -> Region {
        self.blocks[block.index()].region
    }

    /// The entry block of a region of an operation.
    #[inline]
    pub fn entry(&self, op: Op, region: usize) -> Option<Block> {
        self.blocks(*self.regions(op).get(region)?).first().copied()
    }

    /// The type of a value.
    #[inline]
    pub fn value_type(&self, value: Value) -> Type {
        self.values[value.index()].0
    }

    /// The structure of the type of a value.
    #[inline]
    pub fn value_kind(&self, value: Value) -> &TypeKind {
        self.type_kind(self.value_type(value))
    }

    /// Where a value comes from.
    #[inline]
    pub fn definition(&self, value: Value) -> Definition {
        self.values[value.index()].1
    }

    /// The operation that has this result, if it is of that name.
    pub fn made_by(&self, value: Value, name: &str) -> Option<Op> {
        match self.definition(value) {
            Definition::Result(op, _) if self.op_name(op) == name => Some(op),
            _ => None,
        }
    }

    /// How many values there are; their numbers are below.
    pub fn value_count(&self) -> usize {
        self.values.len()
    }

    /// How many operations there are; their numbers are below.
    pub fn op_count(&self) -> usize {
        self.ops.len()
    }

    /// Calls `visit` for `op` and every operation inside, in order.
    pub fn walk(&self, op: Op, visit: &mut dyn FnMut(Op)) {
        visit(op);
        for &r in self.regions(op) {
            for &b in self.blocks(r) {
                for &o in self.block_ops(b) {
                    match self.regions(o).is_empty() {
                        true => visit(o),
                        false => self.walk(o, visit),
                    }
                }
            }
        }
    }
}
