//! What a run on this machine needs, compared with what there is: a refusal before the work is
//! better than an end by the system in the middle of it.

use std::fs;

use tilecast::core::DType;
use tilecast::core::program::{Kernel, Program, Role};
use tilecast::core::spec::Buffer;

use super::error::CliError;

/// Packed operands are f32 at most.
const PACKED_BYTES: u128 = DType::F32.size_bytes() as u128;

/// Compares the memory of runs, one after the other, with what is free.
///
/// # Errors
/// More memory than there is; `advice` says what needs less.
pub(crate) fn check<'a, K: Kernel + 'a>(
    programs: impl IntoIterator<Item = &'a Program<K>>,
    threads: usize,
    advice: &str,
) -> Result<(), CliError> {
    let needs = programs
        .into_iter()
        .map(|program| Need::of(program, threads));
    let Some(needed) = needs.max_by_key(Need::bytes) else {
        return Ok(());
    };
    match available_bytes() {
        Some(available) if needed.bytes() > available => Err(CliError::invalid(format_args!(
            "this needs {} of memory ({} of tensors, {} of intermediates, {} of blocks on {threads} threads), {} are \
             free; use {advice}",
            gib(needed.bytes()),
            gib(needed.tensors),
            gib(needed.temporaries),
            gib(needed.blocks),
            gib(available),
        ))),
        _ => Ok(()),
    }
}

fn gib(bytes: u128) -> String {
    format!("{:.1} GiB", bytes as f64 / (1_u64 << 30) as f64)
}

/// Bytes of a run.
struct Need {
    tensors: u128,
    temporaries: u128,
    blocks: u128,
}

impl Need {
    fn of<K: Kernel>(program: &Program<K>, threads: usize) -> Self {
        let product = |dims: &[usize]| {
            let dims = dims.iter().map(|&dim| dim as u128);
            dims.fold(1, u128::saturating_mul)
        };
        let mut need = Self {
            tensors: 0,
            temporaries: 0,
            blocks: 0,
        };
        for array in program.arrays() {
            let bytes = product(&array.dims).saturating_mul(array.dtype.size_bytes() as u128);
            let sum = match array.role {
                Role::Temporary => &mut need.temporaries,
                _ => &mut need.tensors,
            };
            *sum = sum.saturating_add(bytes);
        }
        // Launches follow each other, so the largest counts.
        for (launch, _) in program.launches() {
            let elements = launch
                .kernel
                .spec()
                .buffers()
                .iter()
                .map(|named| match &named.buffer {
                    Buffer::Window { operand, .. } | Buffer::Hbm { operand } => {
                        product(&operand.block)
                    }
                    Buffer::Scratch { shape, .. } => product(shape),
                    buffer @ Buffer::Stats { rows, .. } => (buffer.values_per_row() * rows) as u128,
                    Buffer::Semaphore => 0,
                });
            let elements = elements.fold(0, u128::saturating_add);
            let bytes = elements.saturating_mul(PACKED_BYTES * threads as u128);
            need.blocks = need.blocks.max(bytes);
        }
        need
    }

    fn bytes(&self) -> u128 {
        let Self {
            tensors,
            temporaries,
            blocks,
        } = *self;
        tensors.saturating_add(temporaries).saturating_add(blocks)
    }
}

/// Bytes that can be allocated, where the system says so.
fn available_bytes() -> Option<u128> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u128 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}
