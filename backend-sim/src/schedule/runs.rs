//! [`Runs`]: the straight-line blocks of a module.
//!
//! A block goes on until an operation that branches, loops or waits for a copy. What does not depend on the grid step is
//! found once for all steps: the operations of each block, the order in which they are placed, and a hash of what says all
//! of it ([`memo`](super::memo)).

use std::hash::{Hash, Hasher};
use std::ops::Range;

use rustc_hash::{FxHashMap, FxHashSet};
use tilecast_tpu::mosaic::{
    Attribute, AttributeKind, Block, Definition, Module, Op, Type, TypeKind, Value,
};

use super::digest::{Digest, digest};
use super::order::sums_last;
use super::usage::Usage;
use super::walk::ScalarOp;
use crate::signature::Signature;

/// The straight-line blocks of a module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs {
    runs: Vec<Run>,
    /// All constants, which are the same in every step.
    constants: Vec<(Value, Constant)>,
    /// For each operation, the block that starts with it.
    starts: FxHashMap<Op, usize>,
    /// Operations of blocks of the module that are placed in another order than the program has.
    orders: FxHashMap<Block, Vec<Op>>,
    /// Those that depend on sums which are placed later.
    waiting: FxHashSet<Op>,
}

/// What a constant is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Constant {
    /// A number; none if it is no integer.
    Scalar(Option<i64>),
    /// Registers.
    Vector,
}

/// A straight-line block.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// Its operations, in the block of the module that they are in.
    pub(super) ops: Range<usize>,
    /// Those of them that compute more than registers from registers: scalars, places in memory, and what they load and
    /// store.
    pub(super) placed: Vec<Op>,
    /// What does not depend on the grid step.
    pub(super) hash: u64,
    /// Its first half, if the other half is made of the same operations; the first half of that, and so on.
    pub(super) beginnings: Vec<Beginning>,
    /// Whether they are in another order than the program has.
    pub(super) sums_last: bool,
    /// Whether neither a matrix product is among them nor an operation with others in it.
    pub(super) plain: bool,
    /// Whether the operations, and where they load and store, say all.
    pub(super) closed: bool,
}

/// The first operations of a straight-line block, as a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beginning {
    /// How many there are.
    pub(super) ops: usize,
    /// How many of them are [placed](Run::placed).
    pub(super) placed: usize,
    /// Their [hash](Run::hash).
    pub(super) hash: u64,
}

impl Runs {
    /// The blocks of a kernel; `varies` tells which values are known only at run time, of no more than
    /// `most_rows` rows of scores [sums come last](sums_last).
    pub(crate) fn of(
        module: &Module,
        signature: &Signature,
        usage: &Usage,
        varies: &[bool],
        most_rows: i64,
    ) -> Self {
        let mut finder = Finder {
            module,
            signature,
            usage,
            varies,
            most_rows,
            runs: Self::default(),
            of: vec![usize::MAX; module.op_count()],
            names: module.op_names().map(Name::of).collect(),
            types: Vec::new(),
            attributes: Vec::new(),
        };
        if let Some(entry) = module.entry(signature.function, 0) {
            finder.block(entry);
        }
        finder.runs
    }

    /// The constants.
    pub(super) fn constants(&self) -> &[(Value, Constant)] {
        &self.constants
    }

    /// The operations of a block of the module, in the order in which they are placed.
    pub(super) fn ops<'m>(&'m self, module: &'m Module, block: Block) -> &'m [Op] {
        self.orders
            .get(&block)
            .map_or_else(|| module.block_ops(block), Vec::as_slice)
    }

    /// Whether `op` depends on a sum that is placed later than the program has it.
    pub(super) fn depends_on_sums(&self, op: Op) -> bool {
        self.waiting.contains(&op)
    }

    /// The block that starts with `op`.
    pub(super) fn starting_with(&self, op: Op) -> Option<&Run> {
        Some(&self.runs[*self.starts.get(&op)?])
    }
}

/// What the name of an operation says.
struct Name {
    hash: u64,
    /// A [`CONSTANT`].
    is_constant: bool,
    is_product: bool,
    /// See [`is_local`].
    is_local: bool,
    ends: Ends,
}

/// Whether an operation ends a straight-line block.
enum Ends {
    Never,
    Always,
    /// If its condition varies.
    AsBranch,
}

impl Name {
    fn of(name: &str) -> Self {
        Self {
            hash: digest(name),
            is_constant: name == CONSTANT,
            is_product: name == "tpu.matmul",
            is_local: is_local(name),
            ends: match name {
                "scf.for" | "scf.while" => Ends::Always,
                "scf.if" => Ends::AsBranch,
                "scf.yield" | "scf.condition" | "func.return" | "tpu.yield" => Ends::Always,
                "tpu.enqueue_dma" | "tpu.wait_dma" | "tpu.wait_dma2" => Ends::Always,
                _ => Ends::Never,
            },
        }
    }
}

struct Finder<'m> {
    module: &'m Module,
    signature: &'m Signature,
    usage: &'m Usage,
    varies: &'m [bool],
    most_rows: i64,
    runs: Runs,
    /// For each operation, its block.
    of: Vec<usize>,
    /// What there is to know of the names of operations, by their numbers.
    names: Vec<Name>,
    /// Hashes of types and attributes, as far as they are known.
    types: Vec<Option<u64>>,
    attributes: Vec<Option<u64>>,
}

impl Finder<'_> {
    fn name(&self, op: Op) -> &Name {
        &self.names[self.module.op_name_number(op)]
    }

    fn block(&mut self, block: Block) {
        let ops = self.module.block_ops(block);
        let mut from = 0;
        for (i, &op) in ops.iter().enumerate() {
            let ends = match self.name(op).ends {
                Ends::Never => false,
                Ends::Always => true,
                Ends::AsBranch => self.varies[self.module.operands(op)[0].index()],
            };
            if !ends {
                continue;
            }
            self.run(block, from..i);
            self.uses(op, usize::MAX);
            from = i + 1;
            for &region in self.module.regions(op) {
                for &block in self.module.blocks(region) {
                    self.block(block);
                }
            }
        }
        self.run(block, from..ops.len());
    }

    fn run(&mut self, block: Block, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        let all = self.module.block_ops(block);
        let ops = &all[range.clone()];
        let ordered = sums_last(self.module, self.signature, self.usage, self.most_rows, ops);
        if let Some(ordered) = &ordered {
            self.runs.waiting.extend(&ordered.waiting);
            let placed = (self.runs.orders.entry(block)).or_insert_with(|| all.to_vec());
            placed[range.clone()].copy_from_slice(&ordered.ops);
        }
        let ops = match &ordered {
            Some(ordered) => &ordered.ops,
            None => &all[range.clone()],
        };
        let first = ops[0];
        let number = self.runs.runs.len();
        let mut hash = Digest::default();
        let mut closed = true;
        let locals = ops
            .iter()
            .find_map(|&op| self.module.results(op).first())
            .map_or(usize::MAX, |value| value.index());
        let mut others: Vec<Value> = Vec::new();
        self.runs.runs.push(Run {
            ops: range,
            placed: Vec::new(),
            hash: 0,
            beginnings: Vec::new(),
            sums_last: ordered.is_some(),
            plain: false,
            closed: false,
        });
        let mut plain = true;
        let mut placed = Vec::new();
        let mut beginnings = Vec::new();
        ordered.is_some().hash(&mut hash);
        // In another order, what the first half waits for may be in the other.
        let mut ends = match ordered {
            Some(_) => Vec::new(),
            None => self.beginnings(ops),
        };
        for (i, &op) in ops.iter().enumerate() {
            if ends.last() == Some(&i) {
                ends.pop();
                beginnings.push(Beginning {
                    ops: i,
                    placed: placed.len(),
                    hash: hash.finish(),
                });
            }
            self.of[op.index()] = number;
            closed &= self.module.regions(op).is_empty() && self.name(op).is_local;
            if !self.module.regions(op).is_empty() {
                let module = self.module;
                module.walk(op, &mut |inner| {
                    self.uses(inner, usize::MAX);
                });
            }
            plain &= self.module.regions(op).is_empty() && !self.name(op).is_product;
            closed &= self.uses(op, number);
            match self.name(op).is_constant {
                true => self.constant(op),
                false if is_placed(self.module, op) => placed.push(op),
                false => {}
            }
            self.describe(op, locals, &mut others, &mut hash);
        }
        let run = &mut self.runs.runs[number];
        run.placed = placed;
        run.hash = hash.finish();
        run.beginnings = beginnings;
        run.plain = plain;
        run.closed = closed;
        self.runs.starts.insert(first, number);
    }

    fn constant(&mut self, op: Op) {
        let module = self.module;
        let value = module.results(op)[0];
        let constant = match module.value_kind(value).shape() {
            None => Constant::Scalar(ScalarOp::number(module, op)),
            Some(_) => Constant::Vector,
        };
        self.runs.constants.push((value, constant));
    }

    /// How many operations the [beginnings](Run::beginnings) of a block have, most first.
    fn beginnings(&self, ops: &[Op]) -> Vec<usize> {
        let mut ends = Vec::new();
        let name = |&op: &Op| self.module.op_name_number(op);
        let mut whole = ops;
        while let (half, other) = whole.split_at(whole.len() / 2)
            && !half.is_empty()
            && half.iter().map(name).eq(other.iter().map(name))
        {
            ends.push(half.len());
            whole = half;
        }
        ends
    }

    /// Notes that `op` of block `number` uses vectors of others; whether it uses none.
    fn uses(&mut self, op: Op, number: usize) -> bool {
        let mut none = true;
        for &value in self.module.operands(op) {
            if !is_vector(self.module, value) {
                continue;
            }
            let definition = match self.module.definition(value) {
                Definition::Result(op, _) => Some(op),
                _ => None,
            };
            let by = definition.map_or(usize::MAX, |op| self.of[op.index()]);
            let is_constant = |op| self.name(op).is_constant;
            if by != number && !definition.is_some_and(is_constant) {
                none = false;
                if let Some(run) = self.runs.runs.get_mut(by) {
                    run.closed = false;
                }
            }
        }
        none
    }

    fn describe(&mut self, op: Op, locals: usize, others: &mut Vec<Value>, to: &mut impl Hasher) {
        let module = self.module;
        let name = self.name(op);
        name.hash.hash(to);
        if !name.is_constant {
            for (name, attribute) in module.attributes(op) {
                name.hash(to);
                self.attribute(*attribute).hash(to);
            }
        }
        for &value in module.operands(op) {
            match value.index().checked_sub(locals) {
                Some(local) => local.hash(to),
                None => {
                    let known = others.iter().position(|&other| other == value);
                    let number = known.unwrap_or_else(|| {
                        others.push(value);
                        others.len() - 1
                    });
                    (usize::MAX - number).hash(to);
                    self.ty(module.value_type(value)).hash(to);
                }
            }
        }
        for &value in module.results(op) {
            self.ty(module.value_type(value)).hash(to);
            self.usage.live(value).hash(to);
            self.usage.products_only(value).hash(to);
            self.usage.transposed_lhs(value).hash(to);
        }
    }

    /// Shape and element: of a memory, the operations on it say more.
    fn ty(&mut self, ty: Type) -> u64 {
        if let Some(&Some(known)) = self.types.get(ty.index()) {
            return known;
        }
        let kind = self.module.type_kind(ty);
        let is_memory = matches!(kind, TypeKind::Memref { .. });
        let hash = match kind.element() {
            Some(element) => digest((
                self.module.type_kind(element),
                kind.shape().filter(|_| !is_memory),
            )),
            None => digest(kind),
        };
        keep(&mut self.types, ty.index(), hash)
    }

    fn attribute(&mut self, attribute: Attribute) -> u64 {
        if let Some(&Some(known)) = self.attributes.get(attribute.index()) {
            return known;
        }
        let mut hash = Digest::default();
        match self.module.attribute_kind(attribute) {
            AttributeKind::Integer { value, .. } => value.hash(&mut hash),
            AttributeKind::Float { bits, .. } => bits.hash(&mut hash),
            AttributeKind::DenseArray { values, .. } => values.hash(&mut hash),
            AttributeKind::DenseElements { values, .. } => values.hash(&mut hash),
            AttributeKind::Type(ty) => self.ty(*ty).hash(&mut hash),
            AttributeKind::Array(list) => {
                for &item in list {
                    self.attribute(item).hash(&mut hash);
                }
            }
            AttributeKind::Dictionary(entries) => {
                for (name, value) in entries {
                    name.hash(&mut hash);
                    self.attribute(*value).hash(&mut hash);
                }
            }
            other => other.hash(&mut hash),
        }
        keep(&mut self.attributes, attribute.index(), hash.finish())
    }
}

/// Notes what is known of number `index`.
fn keep(known: &mut Vec<Option<u64>>, index: usize, hash: u64) -> u64 {
    if known.len() <= index {
        known.resize(index + 1, None);
    }
    known[index] = Some(hash);
    hash
}

/// Makes a scalar or a vector of what is written in the module.
const CONSTANT: &str = "arith.constant";

/// Whether a value is made of registers.
pub(super) fn is_vector(module: &Module, value: Value) -> bool {
    matches!(module.value_kind(value), TypeKind::Vector { .. })
}

/// Whether an operation is more than registers computed from registers.
fn is_placed(module: &Module, op: Op) -> bool {
    let is_memory = |&value: &Value| matches!(module.value_kind(value), TypeKind::Memref { .. });
    let result = module.results(op).first();
    result.is_some_and(|&value| !is_vector(module, value))
        || module.operands(op).iter().any(is_memory)
}

/// Whether an operation has no effect but on registers and the memories that it loads, stores and copies.
fn is_local(name: &str) -> bool {
    let others = ["tpu.enqueue_indirect", "tpu.sem", "memref.alloc"];
    !others.iter().any(|prefix| name.starts_with(prefix))
}
