//! Blocks of the ops on given logits, for kernels that will be compiled.
//!
//! Until a simulation can rank them, they are one size that suits all: see [`default_blocks`].

use tilecast_core::kernels::logits_op::LogitsOp;
use tilecast_core::kernels::softmax::{Blocks, Logits, Schedule};
use tilecast_core::target::Target;

use crate::interpretation::{InterpretError, check_kernels};

/// Room for register spills, bytes. There are no products: these are values of long arithmetic.
const SPILL_ROOM_BYTES: u64 = 6 << 20;

/// What to emit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice {
    /// Blocks.
    pub schedule: Schedule,
    /// What each kernel may use, bytes.
    pub vmem_limit_bytes: u64,
}

/// A time block of 256 tokens and 2048 columns, or what there is of either, rounded up to whole registers. A step then
/// moves 1 MiB of bf16 logits, beside which its fixed cost is small, and the double buffers of both passes take 8 MiB in
/// f32, which all targets have.
pub fn default_blocks(logits: &Logits, target: &Target) -> Blocks {
    let whole = |size: usize, most: usize| size.next_multiple_of(target.lanes.value).min(most);
    Blocks::for_target(
        whole(logits.tokens(), 256),
        whole(logits.vocab(), 2048),
        target,
    )
}

/// Blocks of both passes where they are not `given`, forward first, and a limit that leaves room for spills.
/// `limit_bytes` is what the kernels may use, by default all they need.
///
/// # Errors
/// Blocks that cannot be built, that the target does not take, or that need more VMEM than they may use.
pub fn choose(
    op: &LogitsOp,
    target: &Target,
    given: [Option<Blocks>; 2],
    limit_bytes: Option<u64>,
) -> Result<Choice, InterpretError> {
    let chosen = default_blocks(op.logits(), target);
    let [forward, backward] = given.map(|blocks| blocks.unwrap_or(chosen));
    let schedule = Schedule { forward, backward };
    let capacity = target.vmem_usable_bytes.value;
    let most = limit_bytes.map_or(capacity, |limit| limit.min(capacity));
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
        assert_eq!(
            choice.schedule.backward,
            default_blocks(op.logits(), target)
        );
        let refused = |blocks, limit| {
            let choice = choose(&op, target, [blocks; 2], limit);
            choice.unwrap_err().to_string()
        };
        let text = refused(given(2048, 65_536), None);
        assert!(
            text.contains("VMEM") && text.contains("smaller blocks"),
            "{text}"
        );
        let text = refused(None, Some(1 << 20));
        assert!(text.contains("the limit is 1.00 MiB"), "{text}");
        assert!(refused(given(256, 1000), None).contains("multiple of 128"));
    }
}
