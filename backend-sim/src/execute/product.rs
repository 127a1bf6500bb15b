//! Matrix products, summed in f32 (or i32).
//!
//! The matrix unit multiplies bf16. Operands of f32 are rounded to bf16 unless the operation asks for
//! more: `fp32` multiplies them as they are (the hardware comes within f32 accuracy of that in six
//! passes), `bf16x3` multiplies the two leading bf16 parts of each operand but for the smallest
//! product. That holds for an f32 operand next to a bf16 one, too: libtpu 0.0.51 compiles that for
//! v4 to v7x into one pass of the instruction that it takes for two f32 operands, and refuses more precision.

use half::bf16;
use tilecast_tpu::mosaic::FloatKind;
use tilecast_tpu::mosaic::tpu::DotDimensionNumbers;

use super::error::Fault;
use super::leaf::Leaf;
use super::tensor::{Cells, Element, Tensor, collect, strides};

/// An operand as `[batch, rows, columns]`, and the sizes of what each stands for.
struct Matrices {
    cells: Cells,
    batch: Vec<usize>,
    rows: Vec<usize>,
    columns: Vec<usize>,
}

/// Element operations of the product, for the budget.
pub(super) fn work(leaf: &Leaf<'_>) -> u64 {
    let size = |i: usize| leaf.tensor(i).map_or(1, |tensor| tensor.len()) as u64;
    // (batch m k) (batch k n) (batch m n) = batch^3 (m k n)^2, exact without a batch.
    let product = [0, 1, 2].map(|i| size(i) as f64).iter().product::<f64>();
    product.sqrt() as u64
}

/// `tpu.matmul`
pub(super) fn matmul(leaf: &Leaf<'_>) -> Result<Tensor, Fault> {
    let (lhs, rhs, acc) = (leaf.tensor(0)?, leaf.tensor(1)?, leaf.tensor(2)?);
    if leaf.is_true("transpose_lhs") {
        return Err(Fault::Unsupported("transpose_lhs".into()));
    }
    let numbers = match leaf.module.attribute_of(leaf.op, "dimension_numbers") {
        Some(numbers) => DotDimensionNumbers::read(leaf.module, numbers).ok_or(
            Fault::Malformed("the dimension numbers are not seven lists"),
        )?,
        None => DotDimensionNumbers::matrices(1, i64::from(leaf.is_true("transpose_rhs"))),
    };
    let n = &numbers;
    let a = arrange(lhs, &n.lhs_batch, &n.lhs_remaining, &n.lhs_contracting)?;
    let b = arrange(rhs, &n.rhs_batch, &n.rhs_contracting, &n.rhs_remaining)?;
    let shape = [&a.batch[..], &a.rows, &b.columns].concat();
    if a.batch != b.batch || a.columns != b.rows || *acc.shape != *shape {
        return Err(Fault::Malformed("the operands do not fit each other"));
    }
    let product = |sizes: &[usize]| sizes.iter().product::<usize>();
    let sizes = Sizes {
        m: product(&a.rows),
        k: product(&a.columns),
        n: product(&b.columns),
    };
    match (a.cells, b.cells, acc.cells()) {
        (Cells::Float(a), Cells::Float(b), Cells::Float(acc)) => {
            let mut out = acc.clone();
            floats(leaf, [(a, lhs.element), (b, rhs.element)], &mut out, sizes)?;
            leaf.floats(out)
        }
        (Cells::Int(a), Cells::Int(b), Cells::Int(acc)) => {
            let mut out = acc.clone();
            multiply(&a, &b, &mut out, sizes, |sum, a, b| {
                *sum = sum.wrapping_add(a.wrapping_mul(b));
            });
            leaf.ints(out)
        }
        _ => Err(Fault::Unsupported(
            "a product of floats and integers".into(),
        )),
    }
}

/// The elements with dimensions in the order batch, rows, columns.
fn arrange(
    tensor: &Tensor,
    batch: &[i64],
    rows: &[i64],
    columns: &[i64],
) -> Result<Matrices, Fault> {
    let order: Vec<usize> = (batch.iter().chain(rows).chain(columns))
        .filter_map(|&i| usize::try_from(i).ok())
        .collect();
    let mut sorted = order.clone();
    sorted.sort_unstable();
    if !sorted.into_iter().eq(0..tensor.shape.len())
        || order.len() != batch.len() + rows.len() + columns.len()
    {
        return Err(Fault::Malformed(
            "the dimension numbers are not those of the operand",
        ));
    }
    let stride = strides(&tensor.shape);
    let sizes: Vec<usize> = order.iter().map(|&i| tensor.shape[i]).collect();
    let moved: Vec<usize> = order.iter().map(|&i| stride[i]).collect();
    let (batch_sizes, rest) = sizes.split_at(batch.len());
    let (row_sizes, column_sizes) = rest.split_at(rows.len());
    Ok(Matrices {
        cells: collect(tensor.cells(), &sizes, &moved, 0),
        batch: batch_sizes.into(),
        rows: row_sizes.into(),
        columns: column_sizes.into(),
    })
}

#[derive(Clone, Copy)]
struct Sizes {
    m: usize,
    k: usize,
    n: usize,
}

fn floats(
    leaf: &Leaf<'_>,
    operands: [(Vec<f32>, Element); 2],
    out: &mut [f32],
    sizes: Sizes,
) -> Result<(), Fault> {
    let add = |a: &[f32], b: &[f32], out: &mut [f32]| {
        multiply(a, b, out, sizes, |sum: &mut f32, a: f32, b: f32| {
            *sum += a * b
        });
    };
    let precision = match leaf.has("precision") {
        true => leaf.word("precision")?,
        false => "bf16",
    };
    let wide = |element: Element| element == Element::Float(FloatKind::F32);
    let [(a, a_type), (b, b_type)] = operands;
    if precision != "bf16" && wide(a_type) != wide(b_type) {
        let what = format!("precision {precision} for operands of different types");
        return Err(Fault::Unsupported(what));
    }
    match precision {
        "fp32" => add(&a, &b, out),
        "bf16" => {
            let narrow = |values: Vec<f32>, element| match wide(element) {
                true => values.iter().map(|&x| leading(x)).collect(),
                false => values,
            };
            add(&narrow(a, a_type), &narrow(b, b_type), out);
        }
        "bf16x3" => {
            let [(a, a_rest), (b, b_rest)] = [split(&a), split(&b)];
            add(&a_rest, &b, out);
            add(&a, &b_rest, out);
            add(&a, &b, out);
        }
        _ => return Err(Fault::Unsupported("this precision".into())),
    }
    Ok(())
}

fn leading(x: f32) -> f32 {
    bf16::from_f32(x).to_f32()
}

/// The leading bf16 of each value, and the leading one of the rest.
fn split(values: &[f32]) -> (Vec<f32>, Vec<f32>) {
    values
        .iter()
        .map(|&x| (leading(x), leading(x - leading(x))))
        .unzip()
}

/// Adds `[batch, m, k] x [batch, k, n]` to `[batch, m, n]`, row by row of the right operand.
fn multiply<T: Copy>(a: &[T], b: &[T], out: &mut [T], sizes: Sizes, add: impl Fn(&mut T, T, T)) {
    let Sizes { m, k, n } = sizes;
    if m == 0 || k == 0 || n == 0 {
        return;
    }
    let batches = a
        .chunks_exact(m * k)
        .zip(b.chunks_exact(k * n))
        .zip(out.chunks_exact_mut(m * n));
    for ((a, b), out) in batches {
        for (a, out) in a.chunks_exact(k).zip(out.chunks_exact_mut(n)) {
            for (&a, b) in a.iter().zip(b.chunks_exact(n)) {
                out.iter_mut().zip(b).for_each(|(out, &b)| add(out, a, b));
            }
        }
    }
}
