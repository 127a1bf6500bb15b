//! The ops on given logits in the interpreter. They multiply nothing large; what takes time is the arithmetic on each
//! logit.

use tilecast_core::kernels::logits_op::LogitsOp;
use tilecast_core::kernels::softmax::{Blocks, Schedule, SoftmaxKernel};
use tilecast_core::target::Target;

use super::{InterpretError, Interpretation, check_work};

/// Logits that the interpreter takes on, each counted once for each pass: one to two minutes, at the 5 to 10 million
/// per second that a busy Xeon with AVX-512 was seen to interpret.
pub const LOGIT_LIMIT: u128 = 500_000_000;

/// The smallest schedule that `target` takes for any number of tokens: blocks of one register's lanes each way.
pub fn smallest_schedule(target: &Target) -> Schedule {
    let lanes = target.lanes.value;
    Schedule::new(Blocks::for_target(lanes, lanes, target))
}

/// Logits that the given passes read, in whole blocks.
pub fn logits_read(op: &LogitsOp, schedule: &Schedule, backward: bool) -> u128 {
    let whole = |size: usize, block: usize| (size.div_ceil(block) as u128) * block as u128;
    let read = |blocks: Blocks| {
        let logits = op.logits();
        whole(logits.tokens(), blocks.b).saturating_mul(whole(logits.vocab(), blocks.v))
    };
    let gradient = if backward { read(schedule.backward) } else { 0 };
    read(schedule.forward).saturating_add(gradient)
}

impl Interpretation<SoftmaxKernel> {
    /// Builds the passes and checks that they are quick enough.
    ///
    /// # Errors
    /// A schedule that cannot be built, or too many logits.
    pub fn of_logits(
        op: &LogitsOp,
        schedule: &Schedule,
        backward: bool,
    ) -> Result<Self, InterpretError> {
        let found = Self {
            forward: op.forward(schedule)?,
            backward: match backward {
                true => Some(op.backward(schedule)?),
                false => None,
            },
        };
        let text = |blocks: Blocks| format!("{},{}", blocks.b, blocks.v);
        check_work(
            (logits_read(op, schedule, backward), "reads of a logit"),
            LOGIT_LIMIT,
            [schedule.forward, schedule.backward].map(text),
            backward,
        )?;
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use tilecast_core::DType;
    use tilecast_core::kernels::entropy::Entropy;
    use tilecast_core::kernels::softmax::LogitsOptions;
    use tilecast_core::target::Generation;

    use super::*;

    fn entropy(tokens: usize, vocab: usize) -> LogitsOp {
        let op = Entropy::new(tokens, vocab, DType::Bf16, LogitsOptions::default());
        LogitsOp::Entropy(op.unwrap())
    }

    #[test]
    fn work_is_counted_in_whole_blocks() {
        let schedule = smallest_schedule(Target::of(Generation::V5e));
        let op = entropy(1, 129);
        assert_eq!(logits_read(&op, &schedule, false), 128 * 256);
        assert_eq!(logits_read(&op, &schedule, true), 2 * 128 * 256);
        let refused = Interpretation::of_logits(&entropy(4096, 151_936), &schedule, true);
        let text = refused.unwrap_err().to_string();
        assert!(text.contains("1244659712 reads of a logit"), "{text}");
        assert!(
            text.contains("at most 500000000") && text.contains("128,128"),
            "{text}"
        );
    }

    #[test]
    fn the_smallest_schedule_suits_every_target() {
        for target in Generation::ALL.map(Target::of) {
            let schedule = smallest_schedule(target);
            let kernels = Interpretation::of_logits(&entropy(300, 700), &schedule, true);
            kernels.unwrap().check(target).unwrap();
        }
    }
}
