//! [`Usage`]: what becomes of each value of a module, which decides how it is made.

use rustc_hash::FxHashMap;
use tilecast_tpu::mosaic::tpu::DotDimensionNumbers;
use tilecast_tpu::mosaic::{Attribute, Definition, Module, Op, Value};

/// How values are used, by their index.
#[derive(Clone, Debug)]
pub(crate) struct Usage {
    live: Vec<bool>,
    products_only: Vec<bool>,
    stored_only: Vec<bool>,
    transposed_lhs: Vec<bool>,
    /// For each product, whether its operands are stored transposed.
    products: FxHashMap<Op, [bool; 2]>,
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
            products: FxHashMap::default(),
        };
        let mut numbers = FxHashMap::default();
        let mut work: Vec<Value> = Vec::new();
        module.walk(module.root(), &mut |op| {
            let operands = module.operands(op);
            let name = module.op_name(op);
            let product = name == "tpu.matmul";
            let stores = matches!(name, "vector.store" | "tpu.vector_store");
            for (i, value) in operands.iter().enumerate() {
                usage.products_only[value.index()] &= product;
                usage.stored_only[value.index()] &= stores && i == 0;
            }
            if product {
                let transposed = transposed(module, op, &mut numbers);
                usage.products.insert(op, transposed);
                usage.transposed_lhs[operands[0].index()] |= transposed[0];
            }
            // What has no result or holds other operations is there for its effects.
            if module.results(op).is_empty() || module.entry(op, 0).is_some() {
                work.extend(operands);
            }
        });
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

    /// Whether products are all that reads it.
    pub(crate) fn products_only(&self, value: Value) -> bool {
        self.products_only[value.index()]
    }

    /// Whether stores are all that reads it.
    pub(crate) fn stored_only(&self, value: Value) -> bool {
        self.stored_only[value.index()]
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

/// Whether the operands of a product are stored transposed. `numbers` has the attributes that were read, which are text.
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
