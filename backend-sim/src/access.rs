//! [`Access`]: what a vector operation loads or stores.

use tilecast_tpu::mosaic::{AttributeKind, Module, Op, Value};

/// A load or store.
#[derive(Debug)]
pub(crate) struct Access<'m> {
    pub(crate) stores: bool,
    pub(crate) memory: Value,
    pub(crate) indices: &'m [Value],
    /// What is loaded or stored.
    pub(crate) value: Value,
    /// Which elements of it are, if not all.
    pub(crate) mask: Option<Value>,
    /// Whether all of a part of the memory is, each element in its place.
    pub(crate) whole: bool,
}

impl<'m> Access<'m> {
    /// What an operation loads or stores; none if it does neither.
    pub(crate) fn of(module: &'m Module, op: Op) -> Option<Self> {
        let (stores, plain) = match module.op_name(op) {
            "vector.load" | "tpu.vector_load" => (false, true),
            "tpu.load" | "tpu.strided_load" | "tpu.shuffled_load" => (false, false),
            "vector.store" | "tpu.vector_store" => (true, true),
            "tpu.store" | "tpu.strided_store" | "tpu.shuffled_store" => (true, false),
            _ => return None,
        };
        let group = usize::from(stores);
        let (memory, indices) = place(module, op, group);
        // What has a mask may leave a part as it was.
        let mask = segment(module, op, group + 2).and_then(|mask| mask.first().copied());
        Some(Self {
            stores,
            memory,
            indices,
            value: match stores {
                true => module.operands(op)[0],
                false => module.results(op)[0],
            },
            mask,
            whole: plain && mask.is_none(),
        })
    }
}

/// Operands of a group, by the sizes that some operations carry; none of a group that is not there.
pub(crate) fn segment(module: &Module, op: Op, group: usize) -> Option<&[Value]> {
    let sizes = match module.attribute_kind_of(op, "operandSegmentSizes")? {
        AttributeKind::DenseArray { values, .. } => values,
        _ => return None,
    };
    let size = |&n: &i64| usize::try_from(n).unwrap_or(0);
    let first = sizes.iter().take(group).map(size).sum::<usize>();
    let count = sizes.get(group).map_or(0, size);
    let operands = module.operands(op);
    let end = operands.len();
    Some(&operands[first.min(end)..(first + count).min(end)])
}

/// The memory and indices of an operation on a part of a memory; the value is operand `skip - 1` of a store.
pub(crate) fn place(module: &Module, op: Op, skip: usize) -> (Value, &[Value]) {
    match (segment(module, op, skip), segment(module, op, skip + 1)) {
        (Some(memory), Some(indices)) => (memory[0], indices),
        _ => {
            let operands = module.operands(op);
            (operands[skip], &operands[skip + 1..])
        }
    }
}
