//! Blocks of the ops on given logits, for kernels that will be compiled: the best of the same search, with room for
//! more register spills than predicted.

use tilecast_core::kernels::logits_op::LogitsOp;
use tilecast_core::kernels::softmax::{Blocks, Schedule};
use tilecast_core::target::Target;

use crate::interpretation::{InterpretError, check_kernels};
use crate::memory::room_bytes;
use crate::op::{Request, SimError};
use crate::tune::{Space, best};

/// What to emit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice {
    /// Blocks.
    pub schedule: Schedule,
    /// What each kernel may use, bytes.
    pub vmem_limit_bytes: u64,
}

/// Blocks of both passes where they are not `given`, forward first, and a limit that leaves room for spills.
/// `limit_bytes` is what the kernels may use, by default all they need.
///
/// # Errors
/// Blocks that cannot be built, that the target does not take, or that need more VMEM than they may use.
pub fn choose(
    op: &LogitsOp,
    target: &'static Target,
    given: [Option<Blocks>; 2],
    limit_bytes: Option<u64>,
) -> Result<Choice, InterpretError> {
    let capacity = target.vmem_usable_bytes.value;
    let most = limit_bytes.map_or(capacity, |limit| limit.min(capacity));
    let schedule = match given {
        // Nothing to search.
        [Some(forward), Some(backward)] => Schedule { forward, backward },
        _ => fastest(op, target, given, limit_bytes)?,
    };
    let program = op.forward_and_backward(&schedule)?;
    let needed = check_kernels(&program, target, most)?;
    let wanted = match limit_bytes {
        Some(_) => most,
        None => needed.saturating_add(SPILL_ROOM_BYTES).saturating_mul(3) / 2,
    };
    Ok(Choice {
        schedule,
        vmem_limit_bytes: wanted.min(most),
    })
}

/// The blocks that the model takes for the fastest within the limit, or the default one, less room for spills.
fn fastest(
    op: &LogitsOp,
    target: &'static Target,
    given: [Option<Blocks>; 2],
    limit_bytes: Option<u64>,
) -> Result<Schedule, InterpretError> {
    let limit = limit_bytes.unwrap_or(target.default_vmem_limit_bytes.value);
    let room = limit.saturating_sub(room_bytes(target)).max(limit / 4);
    let request = Request::of_device(*op, target, Some(room >> 10 << 10));
    let space = Space::new(&request, [true; 2], given, &[]);
    let found = best(&request, &space, 1, || ())?;
    let row = (found.rows.first()).ok_or(SimError::NothingToTry)?;
    match (row.forward, row.backward) {
        (Some(forward), Some(backward)) => Ok(Schedule {
            forward: forward.blocks,
            backward: backward.blocks,
        }),
        _ => Err(SimError::NothingToTry.into()),
    }
}

/// Room for register spills, bytes. There are no products: these are values of long arithmetic.
const SPILL_ROOM_BYTES: u64 = 6 << 20;

#[cfg(test)]
mod tests {
    use tilecast_core::DType;
    use tilecast_core::kernels::logits_ce::{LogitsCe, Options};
    use tilecast_core::target::Generation;

    use super::*;

    fn op(tokens: usize, vocab: usize, dtype: DType) -> LogitsOp {
        LogitsOp::LogitsCe(LogitsCe::new(tokens, vocab, dtype, Options::default()).unwrap())
    }

    #[test]
    fn the_default_fits_every_target_with_room_for_spills() {
        for target in Generation::ALL.map(Target::of) {
            for dtype in [DType::Bf16, DType::F32] {
                for (tokens, vocab) in [(1, 1), (100, 50_257), (2048, 151_643), (4096, 151_936)] {
                    let op = op(tokens, vocab, dtype);
                    let choice = choose(&op, target, [None; 2], None).unwrap();
                    let program = op.forward_and_backward(&choice.schedule).unwrap();
                    let needed = check_kernels(&program, target, choice.vmem_limit_bytes).unwrap();
                    assert!(
                        choice.vmem_limit_bytes >= needed + (4 << 20),
                        "{target}, {dtype}"
                    );
                }
            }
        }
    }

    #[test]
    fn given_blocks_are_kept_or_refused() {
        let target = Target::of(Generation::V5e);
        let given = |b, v| Some(Blocks::for_target(b, v, target));
        let op = op(2048, 151_643, DType::Bf16);
        let choice = choose(&op, target, [given(8, 4096), None], None).unwrap();
        assert_eq!(choice.schedule.forward, given(8, 4096).unwrap());
        let free = choose(&op, target, [None; 2], None).unwrap();
        assert_eq!(choice.schedule.backward, free.schedule.backward);
        let least = choose(&op, target, [None; 2], Some(1 << 20)).unwrap();
        assert_eq!(least.vmem_limit_bytes, 1 << 20);
        let refused = |blocks, limit| {
            let choice = choose(&op, target, [blocks; 2], limit);
            choice.unwrap_err().to_string()
        };
        let text = refused(given(2048, 65_536), None);
        assert!(
            text.contains("VMEM") && text.contains("smaller blocks"),
            "{text}"
        );
        let text = refused(None, Some(64 << 10));
        assert!(text.contains("the limit is 64.00 KiB"), "{text}");
        assert!(refused(given(256, 1000), None).contains("multiple of 128"));
    }
}
