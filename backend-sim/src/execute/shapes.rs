//! Operations that make, take apart and move vectors: constants, shapes, slices, rearrangements.

use tilecast_tpu::mosaic::{AttributeKind, TypeKind};

use super::error::Fault;
use super::leaf::Leaf;
use super::tensor::{Cells, Element, Tensor, collect, elements, strides};

/// The result of an operation of this file; none if it is of another.
pub(super) fn evaluate(leaf: &Leaf<'_>) -> Option<Result<Tensor, Fault>> {
    Some(match leaf.name {
        "arith.constant" => constant(leaf),
        "vector.broadcast" => broadcast(leaf),
        "vector.shape_cast" | "tpu.reshape" => reshape(leaf),
        "vector.extract_strided_slice" => slice(leaf),
        "vector.extract" => extract(leaf),
        "tpu.iota" => iota(leaf),
        "tpu.transpose" | "vector.transpose" => transpose(leaf),
        "tpu.concatenate" => concatenate(leaf),
        "tpu.repeat" => repeat(leaf),
        "tpu.rotate" => leaf
            .integer("amount")
            .and_then(|amount| rotate(leaf, amount)),
        "tpu.dynamic_rotate" => {
            let amount = leaf.tensor(1).and_then(Tensor::one_int);
            amount.and_then(|amount| rotate(leaf, amount))
        }
        "tpu.dynamic_gather" => gather(leaf),
        _ => return None,
    })
}

fn constant(leaf: &Leaf<'_>) -> Result<Tensor, Fault> {
    let (shape, element) = leaf.result()?;
    let module = leaf.module;
    let decode = |bits: u64| match element {
        Element::Float(kind) => kind.decode(bits) as f32,
        _ => f32::NAN,
    };
    let bits = match module.attribute_kind_of(leaf.op, "value") {
        Some(AttributeKind::Bool(value)) => vec![u64::from(*value)],
        Some(AttributeKind::Integer { value, .. }) => vec![*value as u64],
        Some(AttributeKind::Float { bits, .. }) => vec![*bits],
        Some(AttributeKind::DenseElements { values, ty })
            if matches!(module.type_kind(*ty), TypeKind::Vector { .. }) =>
        {
            values.clone()
        }
        _ => {
            return Err(Fault::Unsupported(
                "a constant that is no number or vector".into(),
            ));
        }
    };
    let len = elements(&shape)?;
    let bits = match bits[..] {
        [one] => vec![one; len],
        _ => bits,
    };
    match element.is_float() {
        true => leaf.floats(bits.into_iter().map(decode).collect()),
        false => leaf.ints(bits.into_iter().map(|bits| bits as i64).collect()),
    }
}

fn broadcast(leaf: &Leaf<'_>) -> Result<Tensor, Fault> {
    let (from, (shape, _)) = (leaf.tensor(0)?, leaf.result()?);
    let does_not_extend = Fault::Malformed("the shape does not extend to the result's");
    let Some(new) = shape.len().checked_sub(from.shape.len()) else {
        return Err(does_not_extend);
    };
    let mut spread = vec![0; new];
    for ((&small, &large), stride) in from
        .shape
        .iter()
        .zip(&shape[new..])
        .zip(strides(&from.shape))
    {
        match small {
            _ if small == large => spread.push(stride),
            1 => spread.push(0),
            _ => return Err(does_not_extend),
        }
    }
    leaf.cells(collect(from.cells(), &shape, &spread, 0))
}

fn reshape(leaf: &Leaf<'_>) -> Result<Tensor, Fault> {
    let (shape, element) = leaf.result()?;
    let tensor = leaf.tensor(0)?.reshape(&shape)?;
    match tensor.element == element {
        true => Ok(tensor),
        false => Err(Fault::Malformed("the element type changes")),
    }
}

fn slice(leaf: &Leaf<'_>) -> Result<Tensor, Fault> {
    let from = leaf.tensor(0)?;
    let offsets = leaf.sizes("offsets")?;
    let (sizes, steps) = (leaf.sizes("sizes")?, leaf.sizes("strides")?);
    let rank = from.shape.len();
    if sizes.len() != offsets.len() || offsets.len() > rank || steps.iter().any(|&s| s != 1) {
        return Err(Fault::Unsupported("a slice with strides".into()));
    }
    let inside = |i: usize| {
        offsets[i]
            .checked_add(sizes[i])
            .is_some_and(|n| n <= from.shape[i])
    };
    if !(0..offsets.len()).all(inside) {
        return Err(Fault::OutOfBounds {
            memory: "the vector".into(),
            start: offsets.iter().map(|&n| n as i64).collect(),
            end: (offsets.iter().zip(&sizes))
                .map(|(a, b)| a.saturating_add(*b) as i64)
                .collect(),
            shape: from.shape.to_vec(),
        });
    }
    let stride = strides(&from.shape);
    let offset = offsets
        .iter()
        .zip(&stride)
        .map(|(n, stride)| n * stride)
        .sum();
    let shape: Vec<usize> = sizes
        .iter()
        .chain(&from.shape[sizes.len()..])
        .copied()
        .collect();
    leaf.cells(collect(from.cells(), &shape, &stride, offset))
}

fn extract(leaf: &Leaf<'_>) -> Result<Tensor, Fault> {
    let from = leaf.tensor(0)?;
    let position = leaf.integers("static_position")?;
    if leaf.operands.len() != 1 || position.len() > from.shape.len() {
        return Err(Fault::Unsupported(
            "a position known only at run time".into(),
        ));
    }
    let inside = |i: usize| position[i] >= 0 && position[i] < from.shape[i] as i64;
    if !(0..position.len()).all(inside) {
        return Err(Fault::OutOfBounds {
            memory: "the vector".into(),
            end: position.iter().map(|n| n.saturating_add(1)).collect(),
            start: position,
            shape: from.shape.to_vec(),
        });
    }
    let stride = strides(&from.shape);
    let offset = position
        .iter()
        .zip(&stride)
        .map(|(&n, stride)| n as usize * stride)
        .sum();
    let (shape, stride) = (&from.shape[position.len()..], &stride[position.len()..]);
    leaf.cells(collect(from.cells(), shape, stride, offset))
}

// ---- rearrangements -----------------------------------------------------------------------------

/// Products of the sizes before, at and after a dimension.
pub(super) fn around(shape: &[usize], dimension: usize) -> [usize; 3] {
    let product = |part: &[usize]| part.iter().product();
    match shape.contains(&0) {
        true => [0, 0, 0],
        false => [
            product(&shape[..dimension]),
            shape[dimension],
            product(&shape[dimension + 1..]),
        ],
    }
}

fn iota(leaf: &Leaf<'_>) -> Result<Tensor, Fault> {
    let (shape, _) = leaf.result()?;
    let mut count = vec![0; elements(&shape)?];
    for dimension in leaf.sizes("dimensions")? {
        if dimension >= shape.len() {
            return Err(Fault::Malformed("a dimension is not below the rank"));
        }
        let [_, size, inner] = around(&shape, dimension);
        for (i, count) in count.iter_mut().enumerate() {
            *count = *count * size as i64 + (i / inner % size) as i64;
        }
    }
    leaf.ints(count)
}

fn transpose(leaf: &Leaf<'_>) -> Result<Tensor, Fault> {
    let from = leaf.tensor(0)?;
    let permutation = leaf.sizes("permutation")?;
    let mut sorted = permutation.clone();
    sorted.sort_unstable();
    if !sorted.into_iter().eq(0..from.shape.len()) {
        return Err(Fault::Malformed(
            "the permutation is none of the dimensions",
        ));
    }
    let stride = strides(&from.shape);
    let shape: Vec<usize> = permutation.iter().map(|&i| from.shape[i]).collect();
    let moved: Vec<usize> = permutation.iter().map(|&i| stride[i]).collect();
    leaf.cells(collect(from.cells(), &shape, &moved, 0))
}

/// Pieces of the operands one after the other, for each index before the dimension.
fn join(leaf: &Leaf<'_>, parts: &[(&Tensor, usize)], outer: usize) -> Result<Tensor, Fault> {
    fn part<'a, T: Copy + 'a>(pieces: &[(&'a [T], usize)], outer: usize) -> Vec<T> {
        let mut out = Vec::new();
        for i in 0..outer {
            for (data, length) in pieces {
                out.extend_from_slice(&data[i * length..(i + 1) * length]);
            }
        }
        out
    }
    if parts.iter().all(|(tensor, _)| tensor.element.is_float()) {
        let pieces = parts
            .iter()
            .map(|(tensor, length)| Ok((tensor.floats()?, *length)));
        return leaf.floats(part(&pieces.collect::<Result<Vec<_>, Fault>>()?, outer));
    }
    let pieces = parts
        .iter()
        .map(|(tensor, length)| Ok((tensor.ints()?, *length)));
    leaf.ints(part(&pieces.collect::<Result<Vec<_>, Fault>>()?, outer))
}

fn concatenate(leaf: &Leaf<'_>) -> Result<Tensor, Fault> {
    let first = leaf.tensor(0)?;
    let dimension = leaf.dimension("dimension", first.shape.len())?;
    let outer = around(&first.shape, dimension)[0];
    let mut parts = Vec::new();
    for i in 0..leaf.operands.len() {
        let tensor = leaf.tensor(i)?;
        let fits = tensor.shape.len() == first.shape.len()
            && (0..first.shape.len()).all(|i| i == dimension || tensor.shape[i] == first.shape[i])
            && tensor.element == first.element;
        if !fits {
            return Err(Fault::Malformed("operands differ in shape"));
        }
        let [_, size, inner] = around(&tensor.shape, dimension);
        parts.push((tensor, size * inner));
    }
    join(leaf, &parts, outer)
}

fn repeat(leaf: &Leaf<'_>) -> Result<Tensor, Fault> {
    let from = leaf.tensor(0)?;
    let dimension = leaf.dimension("dimension", from.shape.len())?;
    let times = usize::try_from(leaf.integer("times")?).unwrap_or(0);
    let [outer, size, inner] = around(&from.shape, dimension);
    elements(&[times])?;
    if elements(&[times, from.len()])? != elements(&leaf.result()?.0)? {
        return Err(Fault::Malformed("the result is not as large as the copies"));
    }
    join(leaf, &vec![(from, size * inner); times], outer)
}

/// Moves elements to higher indices, around the end.
fn rotate(leaf: &Leaf<'_>, amount: i64) -> Result<Tensor, Fault> {
    fn part<T: Copy>(data: &[T], length: usize, shift: usize) -> Vec<T> {
        let mut out = data.to_vec();
        if length > 0 {
            out.chunks_exact_mut(length)
                .for_each(|run| run.rotate_right(shift));
        }
        out
    }
    let from = leaf.tensor(0)?;
    if leaf.has("stride") || leaf.has("stride_dimension") {
        return Err(Fault::Unsupported("a rotation by different amounts".into()));
    }
    let dimension = leaf.dimension("dimension", from.shape.len())?;
    let [_, size, inner] = around(&from.shape, dimension);
    let shift = amount.checked_rem_euclid(size as i64).unwrap_or(0) as usize * inner;
    leaf.cells(match from.cells() {
        Cells::Float(data) => Cells::Float(part(data, size * inner, shift)),
        Cells::Int(data) => Cells::Int(part(data, size * inner, shift)),
    })
}

fn gather(leaf: &Leaf<'_>) -> Result<Tensor, Fault> {
    fn pick<T: Copy>(data: &[T], places: &[usize]) -> Vec<T> {
        places.iter().map(|&place| data[place]).collect()
    }
    let (from, indices) = (leaf.tensor(0)?, leaf.tensor(1)?);
    let [dimension] = leaf.sizes("dimensions")?[..] else {
        return Err(Fault::Unsupported(
            "a gather along several dimensions".into(),
        ));
    };
    let rank = from.shape.len();
    let fits = dimension < rank
        && indices.shape.len() == rank
        && (0..rank).all(|i| i == dimension || from.shape[i] == indices.shape[i]);
    if !fits {
        return Err(Fault::Malformed("the indices do not fit the operand"));
    }
    let [_, size, inner] = around(&from.shape, dimension);
    let [_, count, _] = around(&indices.shape, dimension);
    let place = |(i, &index): (usize, &i64)| {
        let at = usize::try_from(index).ok().filter(|&at| at < size);
        let at = at.ok_or_else(|| Fault::OutOfBounds {
            memory: "the vector".into(),
            start: vec![index],
            end: vec![index.saturating_add(1)],
            shape: vec![size],
        })?;
        Ok((i / (count * inner) * size + at) * inner + i % inner)
    };
    let places: Result<Vec<usize>, Fault> = indices.ints()?.iter().enumerate().map(place).collect();
    let places = places?;
    leaf.cells(match from.cells() {
        Cells::Float(data) => Cells::Float(pick(data, &places)),
        Cells::Int(data) => Cells::Int(pick(data, &places)),
    })
}
