//! Operations on memory: loads, stores, parts of memories, copies, semaphores.

use super::error::Fault;
use super::leaf::Leaf;
use super::machine::Machine;
use super::memory::Buffer;
use super::tensor::{Cells, Tensor, Value};
use super::view::View;

type Outcome = Result<Option<Value>, Fault>;

/// The result of an operation of this file; none if it is of another.
pub(super) fn evaluate(machine: &mut Machine<'_>, leaf: &Leaf<'_>) -> Option<Outcome> {
    Some(match leaf.name {
        "vector.load" | "tpu.strided_load" => plain_load(machine, leaf),
        "tpu.vector_load" => load(machine, leaf),
        "vector.store" => store(machine, leaf, 2..leaf.operands.len(), None),
        "tpu.strided_store" => store(machine, leaf, 2..leaf.operands.len(), None),
        "tpu.vector_store" => vector_store(machine, leaf),
        "memref.load" => scalar_load(machine, leaf),
        "memref.store" => scalar_store(machine, leaf),
        "memref.alloca" | "memref.alloc" | "tpu.sem_alloc" => allocate(machine, leaf),
        "memref.dealloc" | "tpu.trace_start" | "tpu.trace_stop" | "tpu.trace_value"
        | "tpu.delay" => Ok(None),
        "tpu.memref_slice" => slice(machine, leaf),
        "tpu.memref_squeeze" => reshaped(leaf, View::squeeze),
        "tpu.memref_reshape" => reshaped(leaf, View::reshape),
        "tpu.memref_bitcast" => bitcast(leaf),
        "tpu.erase_memref_layout" | "tpu.assume_layout" | "tpu.relayout" | "memref.cast" => {
            leaf.operand(0).cloned().map(Some)
        }
        "tpu.enqueue_dma" => enqueue(machine, leaf),
        "tpu.wait_dma" | "tpu.wait_dma2" => wait(machine, leaf),
        "tpu.sem_signal" => signal(machine, leaf),
        "tpu.sem_wait" => semaphore_wait(machine, leaf),
        "tpu.sem_read" => semaphore_read(machine, leaf),
        "tpu.assume_multiple" => assume_multiple(leaf),
        "cf.assert" => assert(leaf),
        "tpu.iteration_bound" => iteration_bound(machine, leaf),
        "tpu.device_id" | "tpu.core_id" => leaf.ints(vec![0]).map(|id| Some(id.into())),
        _ => return None,
    })
}

/// The part of `view` that a vector of `shape` covers at `indices`: leading dimensions that the
/// vector lacks have size 1 there.
fn part(
    machine: &Machine<'_>,
    leaf: &Leaf<'_>,
    view: &View,
    shape: &[usize],
    indices: &[i64],
) -> Result<View, Fault> {
    let Some(missing) = view.shape.len().checked_sub(shape.len()) else {
        return Err(Fault::Malformed(
            "the vector has more dimensions than the memory",
        ));
    };
    let size = [&vec![1; missing], shape].concat();
    let steps = match leaf.name {
        "tpu.strided_load" | "tpu.strided_store" => Some(leaf.sizes("strides")?),
        _ => None,
    };
    let part = view.part(indices, &size, steps.as_deref(), &machine.memory)?;
    Ok(View {
        shape: shape.into(),
        strides: part.strides[missing..].into(),
        ..part
    })
}

/// A load whose groups of operands need no sizes.
fn plain_load(machine: &Machine<'_>, leaf: &Leaf<'_>) -> Outcome {
    let (shape, element) = leaf.result()?;
    let indices = leaf.indices(1..leaf.operands.len())?;
    let place = part(machine, leaf, leaf.view(0)?, &shape, &indices)?;
    let value = machine.memory.read(&place)?;
    match value.element == element {
        true => Ok(Some(value.into())),
        false => Err(Fault::Malformed("the vector is not of the memory's type")),
    }
}

/// A load that may have a mask, outside of which the result is undefined.
fn load(machine: &Machine<'_>, leaf: &Leaf<'_>) -> Outcome {
    let groups = leaf.segments()?;
    let [memory, indices, mask] = &groups[..] else {
        return Err(Fault::Malformed("three groups of operands"));
    };
    let (shape, _) = leaf.result()?;
    let indices = leaf.indices(indices.clone())?;
    let place = part(machine, leaf, leaf.view(memory.start)?, &shape, &indices)?;
    let value = machine.memory.read(&place)?;
    if mask.is_empty() {
        return Ok(Some(value.into()));
    }
    let undefined = value.element.undefined(value.len());
    let undefined = Tensor::new(value.shape.clone(), value.element, undefined)?;
    let value = blend(leaf.tensor(mask.start)?, &value, &undefined)?;
    Ok(Some(value.into()))
}

/// `a` where the mask is set, `b` elsewhere.
fn blend(mask: &Tensor, a: &Tensor, b: &Tensor) -> Result<Tensor, Fault> {
    fn pick<T: Copy>(mask: &[i64], a: &[T], b: &[T]) -> Vec<T> {
        let sides = mask.iter().zip(a).zip(b);
        sides
            .map(|((&m, a), b)| if m != 0 { *a } else { *b })
            .collect()
    }
    let mask = mask.ints()?;
    let cells = match (a.cells(), b.cells()) {
        (Cells::Float(a), Cells::Float(b)) => Cells::Float(pick(mask, a, b)),
        (Cells::Int(a), Cells::Int(b)) => Cells::Int(pick(mask, a, b)),
        _ => return Err(Fault::Malformed("the value is not of the memory's type")),
    };
    Tensor::new(a.shape.clone(), a.element, cells)
}

fn store(
    machine: &mut Machine<'_>,
    leaf: &Leaf<'_>,
    indices: std::ops::Range<usize>,
    mask: Option<usize>,
) -> Outcome {
    let (value, view) = (leaf.tensor(0)?.clone(), leaf.view(1)?);
    let indices = leaf.indices(indices)?;
    let place = part(machine, leaf, view, &value.shape, &indices)?;
    let mut value = value;
    if leaf.is_true("add") {
        let old = machine.memory.read(&place)?;
        value = added(&old, &value)?;
    }
    if let Some(mask) = mask {
        machine.memory.check_write(&place)?;
        let old = machine.memory.read(&place)?;
        value = blend(leaf.tensor(mask)?, &value, &old)?;
    }
    machine.memory.write(&place, &value)?;
    Ok(None)
}

fn added(a: &Tensor, b: &Tensor) -> Result<Tensor, Fault> {
    let element = a.element;
    let cells = match (a.cells(), b.cells()) {
        (Cells::Float(a), Cells::Float(b)) => {
            Cells::Float(a.iter().zip(b).map(|(a, b)| element.round(a + b)).collect())
        }
        (Cells::Int(a), Cells::Int(b)) => {
            let sums = a
                .iter()
                .zip(b)
                .map(|(a, b)| element.wrap(a.wrapping_add(*b)));
            Cells::Int(sums.collect())
        }
        _ => return Err(Fault::Malformed("the value is not of the memory's type")),
    };
    Tensor::new(a.shape.clone(), element, cells)
}

fn vector_store(machine: &mut Machine<'_>, leaf: &Leaf<'_>) -> Outcome {
    let groups = leaf.segments()?;
    let [_, _, indices, mask] = &groups[..] else {
        return Err(Fault::Malformed("four groups of operands"));
    };
    let mask = (!mask.is_empty()).then_some(mask.start);
    store(machine, leaf, indices.clone(), mask)
}

fn scalar_load(machine: &Machine<'_>, leaf: &Leaf<'_>) -> Outcome {
    let indices = leaf.indices(1..leaf.operands.len())?;
    let place = part(machine, leaf, leaf.view(0)?, &[], &indices)?;
    Ok(Some(machine.memory.read(&place)?.into()))
}

fn scalar_store(machine: &mut Machine<'_>, leaf: &Leaf<'_>) -> Outcome {
    let value = leaf.tensor(0)?.reshape(&[])?;
    let indices = leaf.indices(2..leaf.operands.len())?;
    let place = part(machine, leaf, leaf.view(1)?, &[], &indices)?;
    machine.memory.write(&place, &value)?;
    Ok(None)
}

fn allocate(machine: &mut Machine<'_>, leaf: &Leaf<'_>) -> Outcome {
    let (shape, element) = leaf.result()?;
    let name = format!("the memory of line {}", leaf.module.line(leaf.op));
    let buffer = machine
        .memory
        .add(Buffer::undefined(name, element, &shape)?);
    Ok(Some(machine.memory.whole(buffer)?.into()))
}

fn slice(machine: &Machine<'_>, leaf: &Leaf<'_>) -> Outcome {
    let groups = leaf.segments()?;
    let [memory, indices, sizes] = &groups[..] else {
        return Err(Fault::Malformed("three groups of operands"));
    };
    let ty = leaf.module.type_kind(leaf.result_type()?);
    let mut known = leaf.indices(sizes.clone())?.into_iter();
    let mut shape = Vec::new();
    for &size in ty.shape().unwrap_or_default() {
        let size = match size < 0 {
            true => known.next().unwrap_or(-1),
            false => size,
        };
        let size = usize::try_from(size);
        shape.push(size.map_err(|_| Fault::Malformed("a size is missing or negative"))?);
    }
    let indices = leaf.indices(indices.clone())?;
    let view = leaf
        .view(memory.start)?
        .part(&indices, &shape, None, &machine.memory)?;
    Ok(Some(view.into()))
}

fn reshaped(leaf: &Leaf<'_>, f: fn(&View, &[usize]) -> Result<View, Fault>) -> Outcome {
    let view = leaf.view(0)?;
    // A size known only at run time stays what it is.
    let shape = match leaf.result() {
        Ok((shape, _)) => shape,
        Err(_) => view
            .shape
            .iter()
            .copied()
            .filter(|&size| size != 1)
            .collect(),
    };
    Ok(Some(f(view, &shape)?.into()))
}

fn bitcast(leaf: &Leaf<'_>) -> Outcome {
    let (shape, element) = leaf.result()?;
    Ok(Some(leaf.view(0)?.bitcast(&shape, element)?.into()))
}

// ---- copies and semaphores ----------------------------------------------------------------------

/// Source, target and target semaphore of a copy on this device.
fn copy<'l>(leaf: &'l Leaf<'_>) -> Result<[&'l View; 3], Fault> {
    let groups = leaf.segments()?;
    if leaf.name == "tpu.wait_dma2" {
        let [semaphore, source, target, elsewhere @ ..] = &groups[..] else {
            return Err(Fault::Malformed("five groups of operands"));
        };
        return here(leaf, [source, target, semaphore], elsewhere);
    }
    match &groups[..] {
        [source, from, target, semaphore, elsewhere @ ..] if from.is_empty() => {
            here(leaf, [source, target, semaphore], elsewhere)
        }
        _ => Err(Fault::Unsupported(
            "a copy to another device or core".into(),
        )),
    }
}

fn here<'l>(
    leaf: &'l Leaf<'_>,
    operands: [&std::ops::Range<usize>; 3],
    elsewhere: &[std::ops::Range<usize>],
) -> Result<[&'l View; 3], Fault> {
    if elsewhere.iter().any(|group| !group.is_empty()) {
        return Err(Fault::Unsupported(
            "a copy to another device or core".into(),
        ));
    }
    let [source, target, semaphore] = operands.map(|group| leaf.view(group.start));
    Ok([source?, target?, semaphore?])
}

fn enqueue(machine: &mut Machine<'_>, leaf: &Leaf<'_>) -> Outcome {
    let [source, target, semaphore] = copy(leaf)?;
    machine.spend(target.bytes())?;
    let line = leaf.module.line(leaf.op);
    machine
        .memory
        .start(source.clone(), target.clone(), semaphore, line)?;
    Ok(None)
}

fn wait(machine: &mut Machine<'_>, leaf: &Leaf<'_>) -> Outcome {
    if leaf.has("wait_target") && !leaf.is_true("wait_target") {
        return Err(Fault::Unsupported("a wait for the source of a copy".into()));
    }
    let [_, target, semaphore] = copy(leaf)?;
    machine.spend(target.bytes())?;
    machine.memory.wait_copies(semaphore, target.bytes())?;
    Ok(None)
}

fn signal(machine: &mut Machine<'_>, leaf: &Leaf<'_>) -> Outcome {
    let groups = leaf.segments()?;
    if groups.len() < 2 || groups[2..].iter().any(|group| !group.is_empty()) {
        return Err(Fault::Unsupported(
            "a signal to another device or core".into(),
        ));
    }
    let amount = leaf.tensor(1)?.one_int()?;
    let count = machine.memory.count(leaf.view(0)?)?;
    *count = count.wrapping_add(amount);
    Ok(None)
}

fn semaphore_wait(machine: &mut Machine<'_>, leaf: &Leaf<'_>) -> Outcome {
    let amount = leaf.tensor(1)?.one_int()?;
    let semaphore = leaf.view(0)?;
    let count = machine.memory.count(semaphore)?;
    if amount > *count {
        let there = u64::try_from(*count).unwrap_or(0);
        return Err(Fault::Deadlock {
            semaphore: format!("{}[{}]", machine.memory.name(semaphore), semaphore.offset),
            wanted: u64::try_from(amount).unwrap_or(0),
            there,
        });
    }
    *count = count.wrapping_sub(amount);
    Ok(None)
}

fn semaphore_read(machine: &mut Machine<'_>, leaf: &Leaf<'_>) -> Outcome {
    let count = *machine.memory.count(leaf.view(0)?)?;
    Ok(Some(leaf.ints(vec![count])?.into()))
}

// ---- statements ---------------------------------------------------------------------------------

fn assume_multiple(leaf: &Leaf<'_>) -> Outcome {
    let (value, multiple) = (leaf.tensor(0)?, leaf.integer("multiple")?);
    match value.one_int()?.checked_rem(multiple) {
        Some(0) => Ok(Some(value.clone().into())),
        _ => Err(Fault::Assertion(format!(
            "{} is not a multiple of {multiple}",
            value.one_int()?
        ))),
    }
}

fn assert(leaf: &Leaf<'_>) -> Outcome {
    match leaf.tensor(0)?.one_int()? {
        0 => {
            let message = leaf
                .module
                .string_attribute(leaf.op, "msg")
                .unwrap_or_default();
            Err(Fault::Assertion(message.into()))
        }
        _ => Ok(None),
    }
}

fn iteration_bound(machine: &Machine<'_>, leaf: &Leaf<'_>) -> Outcome {
    let dimension = leaf.dimension("dim", machine.bounds.len())?;
    Ok(Some(leaf.ints(vec![machine.bounds[dimension]])?.into()))
}
