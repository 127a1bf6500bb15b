//! Block sizes worth trying.

use tilecast_core::DType;
use tilecast_core::kernels::grouped_matmul::{Blocks, GroupedMatmul, Product};
use tilecast_core::target::LANES;

/// Blocks in every part worth trying.
pub(super) fn in_parts(
    op: &GroupedMatmul,
    [rows, inputs, outputs]: [usize; 3],
) -> impl Iterator<Item = Blocks> {
    let at_once = at_once(op.dtype());
    let divides = move |part: &usize| rows >= *part && rows.is_multiple_of(*part);
    let whole = (!PARTS.iter().any(divides)).then_some(rows);
    let parts = PARTS.into_iter().filter(divides).chain(whole);
    parts.map(move |part| Blocks {
        rows,
        part,
        inputs,
        outputs,
        at_once,
    })
}

/// Rows that are multiplied at once on a TPU. An exact product of f32 holds three parts of each operand, which the
/// compiler keeps in VMEM where there are more than registers: a block of 1024 rows of 512 takes 16.4 MiB on v5e as one
/// product, and 10.1 MiB as four of 256 rows, in the same time. With fewer rows the units of v6e and v7x wait for weights.
pub(crate) const fn at_once(dtype: DType) -> Option<usize> {
    match dtype {
        DType::F32 => Some(256),
        _ => None,
    }
}

/// Block sizes worth trying.
pub(super) fn candidates(op: &GroupedMatmul, product: Product) -> Vec<Blocks> {
    let free = |size: usize| {
        let blocks = BLOCKS.into_iter().filter(move |&block| block < size);
        blocks.chain([size])
    };
    let summed = |size: usize| free(size).filter(move |&block| size.is_multiple_of(block));
    let inputs: Vec<usize> = match product {
        Product::Y => summed(op.inputs()).collect(),
        _ => free(op.inputs()).collect(),
    };
    let outputs: Vec<usize> = match product {
        Product::Dx => summed(op.outputs()).collect(),
        _ => free(op.outputs()).collect(),
    };
    let rows = ROWS
        .into_iter()
        .filter(|&rows| rows <= op.rows().next_multiple_of(LANES));
    let blocks = rows.flat_map(|rows| {
        let outputs = &outputs;
        inputs.iter().flat_map(move |&inputs| {
            outputs
                .iter()
                .flat_map(move |&outputs| in_parts(op, [rows, inputs, outputs]))
        })
    });
    blocks
        .filter(|blocks| blocks.inputs.max(blocks.outputs) <= MOST)
        .collect()
}

/// Blocks of inputs and outputs.
const BLOCKS: [usize; 5] = [256, 512, 1024, 2048, 4096];

/// Larger blocks of inputs and outputs fit no target beside others of some use.
const MOST: usize = 8192;

/// Rows of parts of blocks that groups share. Units of v6e and v7x take 256 rows in the time that new weights do.
const PARTS: [usize; 2] = [128, 256];

/// Blocks of rows.
const ROWS: [usize; 4] = [128, 256, 512, 1024];
