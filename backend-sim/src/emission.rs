//! Block sizes for a kernel that will be compiled: like [`tune`](crate::tune), with room for what the
//! model cannot predict.
//!
//! The compiler adds register spills to windows and scratch and checks the sum against the kernel's
//! limit. So blocks are chosen against a lower limit, and the kernel asks for more than they need.

use tilecast_core::DType;
use tilecast_core::kernels::linear_ce::{Schedule, Strategy};
use tilecast_core::target::Target;
use tilecast_tpu::lower::F32Products;

use crate::op::{ROWS_PER_SUB_TILE, Request, SimError};
use crate::tune::{Row, Space, tune};

/// What to emit.
#[derive(Clone, PartialEq, Debug)]
pub struct Choice {
    /// Blocks and strategy.
    pub schedule: Schedule,
    /// What each kernel may use, bytes.
    pub vmem_limit_bytes: u64,
    /// The prediction for it.
    pub row: Row,
}

/// Room for what these kernels were seen to spill over the five targets, with blocks up to 1024 each
/// way: 5.0 MiB in bf16, 9.5 MiB with exact f32 products (libtpu 0.0.51).
fn spill_bytes(dtype: DType, products: F32Products) -> u64 {
    match (dtype, products) {
        (DType::F32, F32Products::Exact) => 10 << 20,
        _ => 6 << 20,
    }
}

/// Chooses the best blocks that leave room for spills. `plan` makes the request and the candidates
/// for a limit in bytes; `limit_bytes` is what the kernels may use, by default all they need.
///
/// # Errors
/// Those of `plan` and of [`tune`].
pub fn choose<E: From<SimError>>(
    plan: impl FnOnce(u64) -> Result<(Request, Space), E>,
    target: &'static Target,
    limit_bytes: Option<u64>,
    dtype: DType,
    products: F32Products,
) -> Result<Choice, E> {
    let capacity = target.vmem_usable_bytes.value;
    let spills = spill_bytes(dtype, products);
    let most = limit_bytes.map_or(capacity, |limit| limit.min(capacity));
    let default = target.default_vmem_limit_bytes.value;
    let for_blocks = match limit_bytes {
        Some(_) => most.saturating_sub(spills).max(most / 4),
        None => default.min(most.saturating_sub(spills)),
    };
    let (request, space) = plan(for_blocks)?;
    let rows = tune(&request, &space, || ())?;
    let row = rows
        .into_iter()
        .next()
        .ok_or_else(|| E::from(SimError::NothingToTry))?;
    let forward = row.forward.or(row.backward.map(|plan| plan.blocks));
    let backward = row.backward.map(|plan| plan.blocks).or(row.forward);
    let (Some(forward), Some(backward)) = (forward, backward) else {
        return Err(E::from(SimError::NothingToTry));
    };
    let strategy = row
        .backward
        .map_or(Strategy::Streaming, |plan| plan.strategy());
    let chunk_columns = row.backward.and_then(|plan| plan.chunk_columns);
    let schedule = Schedule {
        forward,
        backward,
        strategy,
        chunk_columns: chunk_columns.unwrap_or(backward.v),
        cores: target.cores_per_device(),
        rows_per_sub_tile: ROWS_PER_SUB_TILE.min(forward.b).min(backward.b),
    };
    let needed = row.vmem_used_bytes.saturating_add(spills);
    // Spills beyond what was seen should not fail either, where there is room. Those of exact f32
    // products grow faster than the blocks: 28 MiB were seen beside 32 MiB of buffers on v6e.
    let wanted = match (dtype, products) {
        _ if limit_bytes.is_some() => most,
        (DType::F32, F32Products::Exact) => capacity,
        _ => needed.saturating_mul(3) / 2,
    };
    Ok(Choice {
        schedule,
        vmem_limit_bytes: wanted.min(most),
        row,
    })
}
