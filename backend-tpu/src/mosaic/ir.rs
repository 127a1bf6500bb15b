//! The module: arenas of operations, regions, blocks and values, and handles into them.
//!
//! A [`Module`] owns everything. A handle ([`Op`], [`Value`], [`Type`], ...) is a number: `Copy`, no
//! lifetime, meaningful only with the module that made it (with another module it names something
//! else, or the access panics). The shape is MLIR's: a module is an operation with one region; a
//! region is a list of blocks; a block has arguments and a list of operations; an operation has
//! operands, results, attributes and regions of its own. A loop is an operation with its body as a
//! region.
//!
//! Types and attributes are interned: equal structure, equal handle. Two modules are equal if they
//! say the same, whatever the numbers of their handles and the names of their values.

mod read;

use std::borrow::Cow;

use rustc_hash::FxHashMap as HashMap;

use super::syntax;
use super::types::{AttributeKind, TypeKind};

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub(super) u32);

        impl $name {
            /// The number of the handle, dense from zero in its module.
            #[inline]
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

handles! {
    /// An operation.
    Op
    /// A list of blocks, part of an operation.
    Region
    /// A straight-line list of operations with arguments.
    Block
    /// A result of an operation or an argument of a block.
    Value
    /// A type.
    Type
    /// An attribute.
    Attribute
}

/// The name of an attribute.
pub type AttributeName = Cow<'static, str>;

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Definition {
    /// Result of that number of an operation.
    Result(Op, usize),
    /// Argument of that number of a block.
    Argument(Block, usize),
}

#[derive(Clone, Debug)]
pub(super) struct OpData {
    name: Name,
    operands: List,
    results: List,
    attributes: List,
    regions: List,
    successors: List,
    block: Option<Block>,
    line: u32,
}

/// The number of the name of an operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name(u32);

/// Where the values, attributes, regions or successors of an operation stand among those of all.
#[derive(Clone, Copy, Debug)]
struct List {
    start: u32,
    end: u32,
}

impl List {
    fn of<T>(self, all: &[T]) -> &[T] {
        &all[self.start as usize..self.end as usize]
    }
}

/// Puts a list at the end of all.
fn append<T: Copy>(all: &mut Vec<T>, list: &[T]) -> List {
    let start = all.len() as u32;
    all.extend_from_slice(list);
    let end = all.len() as u32;
    List { start, end }
}

/// The same, leaving the list empty.
fn append_moved<T>(all: &mut Vec<T>, list: &mut Vec<T>) -> List {
    let start = all.len() as u32;
    all.append(list);
    let end = all.len() as u32;
    List { start, end }
}

#[derive(Clone, Debug)]
struct BlockData {
    arguments: Vec<Value>,
    ops: Vec<Op>,
    region: Region,
}

#[derive(Clone, Debug)]
struct RegionData {
    blocks: Vec<Block>,
    op: Option<Op>,
}

/// Operations for which a new module has room: most kernels have no more, and lists that grow are copied.
const ROOM: usize = 2048;

/// A Mosaic module.
#[derive(Clone, Debug)]
pub struct Module {
    ops: Vec<OpData>,
    regions: Vec<RegionData>,
    blocks: Vec<BlockData>,
    values: Vec<(Type, Definition)>,
    /// Operands and results of all operations: an allocation each would be most of what a module costs.
    value_lists: Vec<Value>,
    attribute_lists: Vec<(AttributeName, Attribute)>,
    region_lists: Vec<Region>,
    successor_lists: Vec<Block>,
    types: Vec<TypeKind>,
    type_of: HashMap<TypeKind, Type>,
    attributes: Vec<AttributeKind>,
    attribute_of: HashMap<AttributeKind, Attribute>,
    /// Attributes that were left out so far: most operations have one, and its text need not be made each time.
    pub(super) defaults: Vec<(syntax::Default, Attribute)>,
    names: Vec<String>,
    /// The attributes that operations of each name have where nothing else is said.
    name_defaults: Vec<syntax::Defaults>,
    name_of: HashMap<String, Name>,
    root: Op,
    body: Block,
}

/// What a new operation is made of.
#[derive(Clone, Debug, Default)]
pub struct OpParts {
    /// Values it reads.
    pub operands: Vec<Value>,
    /// Types of its results.
    pub results: Vec<Type>,
    /// Attributes, in any order.
    pub attributes: Vec<(AttributeName, Attribute)>,
    /// Regions made by [`Module::new_region`], each used once.
    pub regions: Vec<Region>,
    /// Blocks control may go to.
    pub successors: Vec<Block>,
    /// Line of the source text, 0 if there is none.
    pub line: u32,
}

impl OpParts {
    /// Nothing, in the same memory.
    pub(super) fn clear(&mut self) {
        self.operands.clear();
        self.results.clear();
        self.attributes.clear();
        self.regions.clear();
        self.successors.clear();
        self.line = 0;
    }
}

impl Module {
    /// A module without functions.
    pub fn new(name: Option<&str>) -> Self {
        let region = RegionData {
            blocks: vec![Block(0)],
            op: Some(Op(0)),
        };
        let block = BlockData {
            arguments: Vec::new(),
            ops: Vec::new(),
            region: Region(0),
        };
        let mut module = Self {
            ops: Vec::with_capacity(ROOM),
            regions: vec![region],
            blocks: vec![block],
            values: Vec::with_capacity(ROOM),
            value_lists: Vec::with_capacity(2 * ROOM),
            attribute_lists: Vec::with_capacity(ROOM),
            region_lists: Vec::new(),
            successor_lists: Vec::new(),
            types: Vec::new(),
            type_of: HashMap::default(),
            attributes: Vec::new(),
            attribute_of: HashMap::default(),
            defaults: Vec::new(),
            names: Vec::new(),
            name_defaults: Vec::new(),
            name_of: HashMap::default(),
            root: Op(0),
            body: Block(0),
        };
        let parts = OpParts {
            regions: vec![Region(0)],
            ..OpParts::default()
        };
        module.root = module.new_op("builtin.module", parts);
        if let Some(name) = name {
            let name = module.attribute(AttributeKind::String(name.into()));
            module.set_attribute(Op(0), "sym_name", name);
        }
        module
    }

    /// The operation that is the module.
    pub fn root(&self) -> Op {
        self.root
    }

    /// The block that holds the functions.
    pub fn body(&self) -> Block {
        self.body
    }

    /// The functions, in order.
    pub fn functions(&self) -> impl Iterator<Item = Op> + '_ {
        self.block_ops(self.body)
            .iter()
            .copied()
            .filter(|&o| self.op_name(o) == "func.func")
    }

    /// The function of that name.
    pub fn function(&self, name: &str) -> Option<Op> {
        self.functions()
            .find(|&f| self.string_attribute(f, "sym_name") == Some(name))
    }

    // Types and attributes.

    /// The handle of a type.
    pub fn ty(&mut self, kind: TypeKind) -> Type {
        if let Some(&t) = self.type_of.get(&kind) {
            return t;
        }
        let handle = Type(self.types.len() as u32);
        self.types.push(kind.clone());
        self.type_of.insert(kind, handle);
        handle
    }

    /// The handle of an attribute.
    pub fn attribute(&mut self, kind: AttributeKind) -> Attribute {
        if let Some(&a) = self.attribute_of.get(&kind) {
            return a;
        }
        let handle = Attribute(self.attributes.len() as u32);
        self.attributes.push(kind.clone());
        self.attribute_of.insert(kind, handle);
        handle
    }

    /// The structure of a type.
    #[inline]
    pub fn type_kind(&self, ty: Type) -> &TypeKind {
        &self.types[ty.index()]
    }

    /// The structure of an attribute.
    #[inline]
    pub fn attribute_kind(&self, attribute: Attribute) -> &AttributeKind {
        &self.attributes[attribute.index()]
    }

    // Operations.

    /// An operation that is in no block yet; see [`Self::append`].
    pub fn new_op(&mut self, name: &str, mut parts: OpParts) -> Op {
        let name = self.name(name);
        self.take_op(name, &mut parts)
    }

    /// The number of a name.
    pub(super) fn name(&mut self, name: &str) -> Name {
        if let Some(&number) = self.name_of.get(name) {
            return number;
        }
        let number = Name(self.names.len() as u32);
        self.names.push(name.into());
        self.name_defaults.push(syntax::defaults(name));
        self.name_of.insert(name.into(), number);
        number
    }

    /// The attributes that operations of that name have where nothing else is said.
    pub(super) fn defaults_of(&self, name: Name) -> syntax::Defaults {
        self.name_defaults[name.0 as usize]
    }

    /// The same as [`Self::new_op`], leaving `parts` empty.
    pub(super) fn take_op(&mut self, name: Name, parts: &mut OpParts) -> Op {
        let op = Op(self.ops.len() as u32);
        for &r in &parts.regions {
            self.regions[r.index()].op = Some(op);
        }
        let operands = append(&mut self.value_lists, &parts.operands);
        let first = self.value_lists.len() as u32;
        for (i, &ty) in parts.results.iter().enumerate() {
            let value = self.new_value(ty, Definition::Result(op, i));
            self.value_lists.push(value);
        }
        let results = List {
            start: first,
            end: self.value_lists.len() as u32,
        };
        parts.attributes.sort_by(|a, b| a.0.cmp(&b.0));
        self.ops.push(OpData {
            name,
            operands,
            results,
            attributes: append_moved(&mut self.attribute_lists, &mut parts.attributes),
            regions: append(&mut self.region_lists, &parts.regions),
            successors: append(&mut self.successor_lists, &parts.successors),
            block: None,
            line: parts.line,
        });
        parts.clear();
        op
    }

    fn new_value(&mut self, ty: Type, definition: Definition) -> Value {
        let value = Value(self.values.len() as u32);
        self.values.push((ty, definition));
        value
    }

    /// Puts an operation at the end of a block.
    pub fn append(&mut self, block: Block, op: Op) {
        self.blocks[block.index()].ops.push(op);
        self.ops[op.index()].block = Some(block);
    }

    /// A region without blocks, to be given to [`Self::new_op`].
    pub fn new_region(&mut self) -> Region {
        self.regions.push(RegionData {
            blocks: Vec::new(),
            op: None,
        });
        Region(self.regions.len() as u32 - 1)
    }

    /// A block at the end of a region.
    pub fn new_block(&mut self, region: Region, arguments: &[Type]) -> Block {
        let block = Block(self.blocks.len() as u32);
        self.blocks.push(BlockData {
            arguments: Vec::new(),
            ops: Vec::new(),
            region,
        });
        self.regions[region.index()].blocks.push(block);
        for &ty in arguments {
            self.new_argument(block, ty);
        }
        block
    }

    /// One more argument of a block.
    pub fn new_argument(&mut self, block: Block, ty: Type) -> Value {
        let n = self.blocks[block.index()].arguments.len();
        let value = self.new_value(ty, Definition::Argument(block, n));
        self.blocks[block.index()].arguments.push(value);
        value
    }

    /// Moves a block to the end of its region's list.
    pub(super) fn move_block_last(&mut self, block: Block) {
        let blocks = &mut self.regions[self.blocks[block.index()].region.index()].blocks;
        blocks.retain(|&b| b != block);
        blocks.push(block);
    }

    /// Adds or replaces an attribute.
    pub fn set_attribute(&mut self, op: Op, name: &str, value: Attribute) {
        let mut list = self.attributes(op).to_vec();
        match list.binary_search_by(|a| (*a.0).cmp(name)) {
            Ok(i) => list[i].1 = value,
            Err(i) => list.insert(i, (name.to_owned().into(), value)),
        }
        self.ops[op.index()].attributes = append_moved(&mut self.attribute_lists, &mut list);
    }

    /// Removes an attribute.
    pub fn remove_attribute(&mut self, op: Op, name: &str) -> Option<Attribute> {
        let mut list = self.attributes(op).to_vec();
        let i = list.binary_search_by(|a| (*a.0).cmp(name)).ok()?;
        let removed = list.remove(i).1;
        self.ops[op.index()].attributes = append_moved(&mut self.attribute_lists, &mut list);
        Some(removed)
    }
}
