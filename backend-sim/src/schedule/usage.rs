//! [`Usage`]: what becomes of each value of a module, which decides how it is made.

use rustc_hash::FxHashMap;
use tilecast_tpu::mosaic::tpu::{DotDimensionNumbers, VectorKind};
use tilecast_tpu::mosaic::{Attribute, Definition, Module, Op, TypeKind, Value};

/// How values are used, by their index.
#[derive(Clone, Debug)]
pub(crate) struct Usage {
    live: Vec<bool>,
    products_only: Vec<bool>,
    stored_only: Vec<bool>,
    transposed_lhs: Vec<bool>,
    waits_for_maximum: Vec<bool>,
    ends: Vec<End>,
    /// Operations that read it, but for those that take rows of it apart.
    readers: Vec<u32>,
    of_products: Vec<bool>,
    /// For each product, whether its operands are stored transposed.
    products: FxHashMap<Op, [bool; 2]>,
}

/// Where what is made of a value ends, register by register: in stores, reductions, products, operations that hold
/// others.
#[derive(Clone, Copy, PartialEq, Debug)]
enum End {
    Nowhere,
    In(Op),
    InSeveral,
}

impl End {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (end, Self::Nowhere) | (Self::Nowhere, end) => end,
            (a, b) if a == b => a,
            _ => Self::InSeveral,
        }
    }
}

/// What the name of an operation says of what it does with its operands.
#[derive(Clone, Copy, PartialEq)]
enum Name {
    Product,
    Store,
    Reduction,
    Cast,
    Slice,
    Other,
}

impl Name {
    fn of(name: &str) -> Self {
        match name {
            "tpu.matmul" => Self::Product,
            "vector.store" | "tpu.vector_store" => Self::Store,
            "vector.multi_reduction" => Self::Reduction,
            "vector.shape_cast" => Self::Cast,
            "vector.extract_strided_slice" => Self::Slice,
            _ => Self::Other,
        }
    }
}

impl Usage {
    /// Looks at every operation of `module`.
    pub(crate) fn of(module: &Module) -> Self {
        let count = module.value_count();
        let mut usage = Self {
            live: vec![false; count],
            products_only: vec![true; count],
            stored_only: vec![true; count],
            transposed_lhs: vec![false; count],
            waits_for_maximum: vec![false; count],
            ends: vec![End::Nowhere; count],
            readers: vec![0; count],
            of_products: vec![false; count],
            products: FxHashMap::default(),
        };
        let mut numbers = FxHashMap::default();
        let mut work: Vec<Value> = Vec::new();
        let mut maxima: FxHashMap<Value, Value> = FxHashMap::default();
        let names: Vec<Name> = module.op_names().map(Name::of).collect();
        let mut ops = Vec::new();
        module.walk(module.root(), &mut |op| {
            let operands = module.operands(op);
            if operands.is_empty() && module.regions(op).is_empty() {
                return;
            }
            ops.push(op);
            let name = names[module.op_name_number(op)];
            let product = name == Name::Product;
            let stores = name == Name::Store;
            for (i, value) in operands.iter().enumerate() {
                let again = name == Name::Slice || operands[..i].contains(value);
                usage.readers[value.index()] += u32::from(!again);
                usage.products_only[value.index()] &= product || name == Name::Cast;
                usage.stored_only[value.index()] &= stores && i == 0;
            }
            if product {
                let transposed = transposed(module, op, &mut numbers);
                usage.products.insert(op, transposed);
                usage.transposed_lhs[operands[0].index()] |= transposed[0];
            }
            let of_products =
                product || (operands.iter()).any(|value| usage.of_products[value.index()]);
            for value in module.results(op) {
                usage.of_products[value.index()] |= of_products;
            }
            if name == Name::Reduction && is_maximum(module, op) {
                maxima.insert(operands[0], module.results(op)[0]);
            } else if !maxima.is_empty() {
                for value in operands {
                    let of_value = maxima.get(value);
                    if let Some(&maximum) = of_value
                        && operands
                            .iter()
                            .any(|&other| is_made_of(module, other, maximum))
                    {
                        usage.waits_for_maximum[value.index()] = true;
                    }
                }
            }
            // What has no result or holds other operations is there for its effects.
            if module.results(op).is_empty() || module.entry(op, 0).is_some() {
                work.extend(operands);
            }
        });
        for op in ops.into_iter().rev() {
            let results = module.results(op);
            let name = names[module.op_name_number(op)];
            let ends = !matches!(name, Name::Cast | Name::Slice | Name::Other)
                || results.is_empty()
                || !module.regions(op).is_empty();
            let end = match ends {
                true => End::In(op),
                false => (results.iter().map(|value| usage.ends[value.index()]))
                    .fold(End::Nowhere, End::and),
            };
            for value in module.operands(op) {
                let known = &mut usage.ends[value.index()];
                *known = known.and(end);
                if name == Name::Cast {
                    // What reads it in another shape reads the same registers.
                    let only = usage.products_only[results[0].index()];
                    usage.products_only[value.index()] &= only;
                    usage.transposed_lhs[value.index()] |= usage.transposed_lhs[results[0].index()];
                }
            }
        }
        while let Some(value) = work.pop() {
            if std::mem::replace(&mut usage.live[value.index()], true) {
                continue;
            }
            if let Definition::Result(op, _) = module.definition(value) {
                work.extend(module.operands(op));
            }
        }
        usage
    }

    /// Whether an effect depends on it; the compiler drops what computes the others.
    pub(crate) fn live(&self, value: Value) -> bool {
        self.live[value.index()]
    }

    /// Whether products are all that reads it, as it is or in another shape.
    pub(crate) fn products_only(&self, value: Value) -> bool {
        self.products_only[value.index()]
    }

    /// Whether stores are all that reads it.
    pub(crate) fn stored_only(&self, value: Value) -> bool {
        self.stored_only[value.index()]
    }

    /// Whether its maximum has to be known before it is read for the last time.
    pub(crate) fn waits_for_maximum(&self, value: Value) -> bool {
        self.waits_for_maximum[value.index()]
    }

    /// Whether it is made of results of products, but for those that went through memory.
    pub(crate) fn is_of_products(&self, value: Value) -> bool {
        self.of_products[value.index()]
    }

    /// Whether what is made of it, register by register, ends in several places.
    pub(crate) fn has_several_ends(&self, value: Value) -> bool {
        self.ends[value.index()] == End::InSeveral
    }

    /// Whether operations read it whose results end in several places.
    pub(crate) fn is_shared(&self, value: Value) -> bool {
        self.readers[value.index()] > 1 && self.has_several_ends(value)
    }

    /// Whether the operands of a product are stored transposed.
    pub(crate) fn transposed(&self, product: Op) -> [bool; 2] {
        self.products.get(&product).copied().unwrap_or_default()
    }

    /// Whether it is the left operand of a product that contracts its rows.
    pub(crate) fn transposed_lhs(&self, value: Value) -> bool {
        self.transposed_lhs[value.index()]
    }
}

/// Whether the operands of a product are stored transposed. `numbers` has the attributes that were read, which are
/// text.
fn transposed(
    module: &Module,
    op: Op,
    numbers: &mut FxHashMap<Attribute, Option<DotDimensionNumbers>>,
) -> [bool; 2] {
    let flag = |name: &str| module.bool_attribute(op, name).unwrap_or(false);
    let attribute = module.attribute_of(op, "dimension_numbers");
    let numbers = attribute.and_then(|attribute| {
        let read = || DotDimensionNumbers::read(module, attribute);
        numbers.entry(attribute).or_insert_with(read).as_ref()
    });
    let Some(numbers) = numbers else {
        return [flag("transpose_lhs"), flag("transpose_rhs")];
    };
    let last = |i: usize| {
        let shape = module.value_kind(module.operands(op)[i]).shape();
        shape.map_or(0, <[i64]>::len) as i64 - 1
    };
    let [lhs, rhs] = [&numbers.lhs_contracting, &numbers.rhs_contracting];
    [
        lhs.first().is_some_and(|&d| d != last(0)),
        rhs.first().is_some_and(|&d| d == last(1)),
    ]
}

fn is_maximum(module: &Module, op: Op) -> bool {
    let kind = module.attribute_of(op, "kind");
    let kind = kind.and_then(|kind| VectorKind::read(module, kind));
    matches!(kind, Some(VectorKind::MaximumF))
}

/// Vectors between a maximum and what is subtracted from its vector, at most, with all else that these are computed
/// from.
const BETWEEN: usize = 16;

/// Whether `value` is computed from `part`, in a few operations.
fn is_made_of(module: &Module, value: Value, part: Value) -> bool {
    let mut made_of = vec![value];
    for i in 0..BETWEEN {
        let Some(&value) = made_of.get(i) else {
            return false;
        };
        if value == part {
            return true;
        }
        if let Definition::Result(op, _) = module.definition(value) {
            for &value in module.operands(op) {
                let is_vector = matches!(module.value_kind(value), TypeKind::Vector { .. });
                if is_vector && !made_of.contains(&value) {
                    made_of.push(value);
                }
            }
        }
    }
    false
}
