//! Ops in the [interpreter](crate::execute): their blocks, what they cost, how the fused cross-entropy rounds.
//!
//! Interpretation is for numbers, not for speed, so blocks are the smallest a TPU takes: even a
//! small problem then has several, and ragged ones at its edges. Whatever the blocks, the interpreter multiplies
//! whole ones, so a problem's cost is that of its sizes rounded up. What is special to the ops on given logits is in
//! [`logits`].

pub mod logits;

use thiserror::Error;
use tilecast_core::DType;
use tilecast_core::budget::VmemLedger;
use tilecast_core::budget::padding::PaddingError;
use tilecast_core::kernels::head::{
    Blocks, Head, HeadError, HeadKernel, Lazy, ProductBlocks, Schedule, Strategy,
};
use tilecast_core::kernels::linear_ce::LinearCe;
use tilecast_core::kernels::linear_op::LinearOp;
use tilecast_core::kernels::softmax::LogitsError;
use tilecast_core::program::{Kernel, Program};
use tilecast_core::spec::SpecError;
use tilecast_core::target::{Generation, Target};

use crate::execute::{Array, ExecuteError, Options, program};
use crate::op::SimError;
use crate::verdict::{Largest, vmem_reason};

/// Why a problem is not interpreted.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum InterpretError {
    /// The problem or its schedule is invalid for every target.
    #[error(transparent)]
    Problem(#[from] HeadError),
    /// The same, of an op on logits.
    #[error(transparent)]
    Logits(Box<LogitsError>),
    /// The kernels cannot be judged.
    #[error(transparent)]
    Sim(Box<SimError>),
    /// The target does not take the blocks.
    #[error(transparent)]
    Tiling(#[from] SpecError),
    /// A buffer is too large to count.
    #[error(transparent)]
    Padding(#[from] PaddingError),
    /// A kernel does not fit the VMEM of the target.
    #[error("{kernel} {reason}")]
    Vmem {
        /// Kernel.
        kernel: String,
        /// What it needs, what there is, and what helps.
        reason: String,
    },
    /// It would take too long.
    #[error(
        "this takes {work} {unit}, whole blocks of {blocks} counted; the interpreter takes at most {limit}: run a \
         smaller problem, or this one on the CPU"
    )]
    TooLarge {
        /// Work of all passes.
        work: u128,
        /// What it is counted in.
        unit: &'static str,
        /// Blocks of the passes.
        blocks: String,
        /// The most there may be.
        limit: u128,
    },
}

impl From<LogitsError> for InterpretError {
    fn from(error: LogitsError) -> Self {
        Self::Logits(Box::new(error))
    }
}

impl From<SimError> for InterpretError {
    fn from(error: SimError) -> Self {
        Self::Sim(Box::new(error))
    }
}

/// The generation that is taken where none is named.
pub fn default_target() -> &'static Target {
    Target::of(Generation::V5e)
}

/// The smallest schedule that `target` takes: blocks of one register's lanes each way, chunks of two
/// column blocks.
pub fn smallest_schedule(target: &Target, strategy: Strategy) -> Schedule {
    let lanes = target.lanes.value;
    let blocks = Blocks {
        b: lanes,
        h: lanes,
        v: lanes,
    };
    Schedule {
        chunk_columns: 2 * lanes,
        cores: target.cores_per_device(),
        lazy: Some(Lazy {
            columns: lanes,
            keeps_logits: false,
            exact_rows: 0,
            stores_labels: false,
        }),
        ..Schedule::plain(blocks, strategy)
    }
}

/// `schedule` with every size raised to one that `target` takes.
pub fn raised(schedule: &Schedule, target: &Target) -> Schedule {
    let whole = |n: usize| n.next_multiple_of(target.lanes.value);
    let raise = |Blocks { b, h, v }| Blocks {
        b: whole(b),
        h: whole(h),
        v: whole(v),
    };
    let raise_product = |ProductBlocks { b, h }| ProductBlocks {
        b: whole(b),
        h: whole(h),
    };
    Schedule {
        forward: raise(schedule.forward),
        backward: raise(schedule.backward),
        chunk_columns: whole(schedule.chunk_columns),
        rows_per_sub_tile: whole(schedule.rows_per_sub_tile),
        dx: schedule.dx.map(raise_product),
        dw: schedule.dw.map(raise_product),
        delta_columns: schedule.delta_columns.map(whole),
        dw_rows: schedule.dw_rows.map(whole),
        lazy: schedule.lazy.map(|lazy| Lazy {
            columns: whole(lazy.columns),
            exact_rows: whole(lazy.exact_rows),
            ..lazy
        }),
        ..*schedule
    }
}

/// The type in which delta meets `x` and `w`: the matrix unit rounds an f32 operand that meets one of
/// bf16.
pub fn delta_operand_dtype(head: &Head, strategy: Strategy) -> DType {
    match head.dtype() {
        DType::Bf16 => DType::Bf16,
        _ => head.held_delta(strategy),
    }
}

/// Multiplications that the interpreter takes on: about a minute, at the 1.3 to 2 billion per second that one core of
/// a Xeon with AVX-512 was seen to interpret.
pub const MULTIPLICATION_LIMIT: u128 = 100_000_000_000;

/// Multiplications of the given passes, in whole blocks: one product forward, three backward.
pub fn multiplications(head: &Head, schedule: &Schedule, backward: bool) -> u128 {
    let product = |blocks: Blocks| {
        let sizes = blocks.whole(head).map(|size| size as u128);
        sizes.into_iter().fold(1, u128::saturating_mul)
    };
    let gradients = match backward {
        true => product(schedule.backward).saturating_mul(3),
        false => 0,
    };
    product(schedule.forward).saturating_add(gradients)
}

/// The op on arrays, by way of the text of its kernels.
#[derive(Clone, Debug)]
pub struct Interpretation<K = HeadKernel> {
    forward: Program<K>,
    backward: Option<Program<K>>,
}

impl Interpretation {
    /// Builds the passes and checks that they are quick enough.
    ///
    /// # Errors
    /// A schedule that cannot be built, or too many multiplications.
    pub fn new(
        problem: &LinearCe,
        schedule: &Schedule,
        backward: bool,
    ) -> Result<Self, InterpretError> {
        let found = Self {
            forward: problem.forward(schedule)?,
            backward: match backward {
                true => Some(problem.backward(schedule)?),
                false => None,
            },
        };
        found.check_multiplications(problem.head(), schedule)
    }

    /// The same of an op on the logits of a head.
    ///
    /// # Errors
    /// As for [`Interpretation::new`].
    pub fn of_linear(
        op: &LinearOp,
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
        found.check_multiplications(op.head(), schedule)
    }

    fn check_multiplications(
        self,
        head: &Head,
        schedule: &Schedule,
    ) -> Result<Self, InterpretError> {
        let text = |Blocks { b, h, v }| format!("{b},{h},{v}");
        let backward = self.backward.is_some();
        check_work(
            (multiplications(head, schedule, backward), "multiplications"),
            MULTIPLICATION_LIMIT,
            [schedule.forward, schedule.backward].map(text),
            backward,
        )?;
        Ok(self)
    }
}

impl<K: Kernel> Interpretation<K> {
    /// Checks that `target` takes the blocks.
    ///
    /// # Errors
    /// Blocks that are no multiples of what the target asks for, or that do not fit its VMEM.
    pub fn check(&self, target: &Target) -> Result<(), InterpretError> {
        for program in [Some(&self.forward), self.backward.as_ref()]
            .into_iter()
            .flatten()
        {
            check_kernels(program, target, target.vmem_usable_bytes.value)?;
        }
        Ok(())
    }

    /// Runs the forward pass on `arrays`, found by the names of the op's inputs.
    ///
    /// # Errors
    /// An array that is missing or of another shape or type, and whatever goes wrong in a kernel.
    pub fn forward(
        &self,
        arrays: &[(&'static str, Array)],
        options: &Options,
    ) -> Result<Vec<(&'static str, Array)>, ExecuteError> {
        program(&self.forward, &named(arrays), options)
    }

    /// Runs the backward pass on `arrays` and the `lse` of the forward pass; without one there are no
    /// results.
    ///
    /// # Errors
    /// As for [`Interpretation::forward`].
    pub fn backward(
        &self,
        arrays: &[(&'static str, Array)],
        forward: &[(&'static str, Array)],
        options: &Options,
    ) -> Result<Vec<(&'static str, Array)>, ExecuteError> {
        match &self.backward {
            Some(backward) => program(backward, &[named(arrays), named(forward)].concat(), options),
            None => Ok(Vec::new()),
        }
    }
}

/// Refuses more work than `limit`.
fn check_work(
    (work, unit): (u128, &'static str),
    limit: u128,
    [forward_blocks, backward_blocks]: [String; 2],
    backward: bool,
) -> Result<(), InterpretError> {
    if work <= limit {
        return Ok(());
    }
    let blocks = match backward && forward_blocks != backward_blocks {
        true => format!("{forward_blocks} and {backward_blocks}"),
        false => forward_blocks,
    };
    Err(InterpretError::TooLarge {
        work,
        unit,
        blocks,
        limit,
    })
}

/// Checks that `target` takes the blocks of all kernels, and returns the most VMEM that one needs, bytes.
///
/// # Errors
/// Blocks that are no multiples of what the target asks for, or that need more than `limit_bytes` of VMEM.
pub fn check_kernels<K: Kernel>(
    program: &Program<K>,
    target: &Target,
    limit_bytes: u64,
) -> Result<u64, InterpretError> {
    let mut most = 0;
    for (launch, _) in program.launches() {
        let spec = launch.kernel.spec();
        spec.check_tiling(target)?;
        let ledger = VmemLedger::new(spec, target, Some(limit_bytes))?;
        let largest = ledger.largest().map(|term| Largest {
            kind: term.kind,
            name: term.name,
            shape: &[],
            bytes: term.bytes,
        });
        let sizes = [
            ledger.used_bytes(),
            ledger.limit_bytes,
            ledger.capacity_bytes,
        ];
        if let Some(reason) = vmem_reason(sizes, largest, target) {
            let kernel = spec.name().into();
            return Err(InterpretError::Vmem { kernel, reason });
        }
        most = most.max(ledger.used_bytes());
    }
    Ok(most)
}

fn named<'a>(arrays: &'a [(&'static str, Array)]) -> Vec<(&'a str, &'a Array)> {
    arrays.iter().map(|(name, array)| (*name, array)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilecast_core::kernels::linear_ce::Options as Ce;

    fn refused(b: usize, h: usize, v: usize, edit: impl FnOnce(&mut Schedule)) -> String {
        let problem = LinearCe::new(b, h, v, DType::Bf16, Ce::default()).unwrap();
        let mut schedule = smallest_schedule(default_target(), Strategy::Streaming);
        edit(&mut schedule);
        let built = Interpretation::new(&problem, &schedule, true);
        let checked = built.and_then(|kernels| kernels.check(default_target()));
        checked.unwrap_err().to_string()
    }

    /// One multiplication more than the limit is refused, and not the limit.
    #[test]
    fn work_is_counted_in_whole_blocks() {
        let problem = LinearCe::new(1, 129, 128, DType::F32, Ce::default()).unwrap();
        let schedule = smallest_schedule(default_target(), Strategy::Combined);
        let product = 128 * 256 * 128;
        assert_eq!(multiplications(problem.head(), &schedule, false), product);
        assert_eq!(
            multiplications(problem.head(), &schedule, true),
            4 * product
        );
        let text = refused(8192, 4096, 128_256, |_| {});
        assert!(text.contains("17214228922368"), "{text}");
        assert!(
            text.contains("100000000000") && text.contains("CPU"),
            "{text}"
        );
    }

    #[test]
    fn blocks_that_the_target_does_not_take() {
        let text = refused(300, 300, 300, |schedule| schedule.forward.h = 64);
        assert!(text.contains("block 64 of x"), "{text}");
        assert!(text.contains("multiple of 128 on v5e"), "{text}");
        let text = refused(300, 300, 300, |schedule| schedule.backward.v = 1 << 17);
        assert!(
            text.contains("VMEM") && text.contains("smaller blocks"),
            "{text}"
        );
    }

    /// With more row blocks than cores, every core adds to its row of the bias gradient.
    #[test]
    fn the_smallest_schedule_suits_its_target() {
        let options = Ce {
            bias: true,
            ..Ce::default()
        };
        let problem = LinearCe::new(700, 300, 300, DType::Bf16, options).unwrap();
        for target in Generation::ALL.map(Target::of) {
            for strategy in Strategy::ALL {
                let schedule = smallest_schedule(target, strategy);
                let kernels = Interpretation::new(&problem, &schedule, true).unwrap();
                kernels.check(target).unwrap();
            }
        }
    }

    #[test]
    fn the_smallest_schedule_is_raised_to_itself() {
        for target in Generation::ALL.map(Target::of) {
            let schedule = smallest_schedule(target, Strategy::Combined);
            assert_eq!(raised(&schedule, target), schedule);
        }
    }
}
