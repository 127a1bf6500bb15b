//! [`Parts`]: a kernel with many sub-tiles, known by the same kernel with few.
//!
//! A kernel whose sub-tiles of rows are written out one after the other is one straight-line block of many
//! thousand operations. Its schedule soon settles: once the first sub-tiles are under way, each further one adds the same
//! cycles and slots, and needs no more registers at once. So the kernel is recorded twice, with
//! [`SHORT`] and with [`LONG`] sub-tiles, everything else being as it is, and what the sub-tiles between them add is added for
//! each that is missing. A kernel of at most [`LONG`] sub-tiles is recorded and scheduled as a whole.

use tilecast_core::program::Kernel;
use tilecast_tpu::lower::{F32Products, LowerError, lower_part};
use tilecast_tpu::mosaic::Module;

use crate::schedule::{KernelSchedule, Region, StepSchedule};

/// Sub-tiles of the shorter part.
const SHORT: usize = 2;

/// Sub-tiles of the longer part.
const LONG: usize = 4;

/// A kernel as its module, or as two modules with the first of its sub-tiles.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    /// All of the kernel, or the longer part.
    pub(crate) module: Module,
    /// What the longer part lacks, if it does.
    pub(crate) rest: Option<Rest>,
}

/// What a module lacks of a kernel.
#[derive(Clone, Debug)]
pub(crate) struct Rest {
    /// The kernel with fewer sub-tiles than the module.
    pub(crate) shorter: Module,
    /// Sub-tiles that the module lacks, for each that it has more than `shorter`.
    times: f64,
}

impl Parts {
    /// `kernel` in as little as its schedule needs.
    ///
    /// # Errors
    /// As for [`lower_part`].
    pub(crate) fn of(kernel: &impl Kernel, products: F32Products) -> Result<Self, LowerError> {
        let longer = lower_part(kernel, products, LONG)?;
        let rest = match longer.iterations.saturating_sub(LONG) {
            0 => None,
            missing => Some(Rest {
                shorter: lower_part(kernel, products, SHORT)?.module,
                times: missing as f64 / (LONG - SHORT) as f64,
            }),
        };
        Ok(Self {
            module: longer.module,
            rest,
        })
    }
}

impl Rest {
    /// Adds what is missing to the schedule of the module, `shorter` being that of the shorter one.
    pub(crate) fn add_to(&self, longer: &mut KernelSchedule, shorter: &KernelSchedule) {
        for (long, short) in longer.kinds.iter_mut().zip(&shorter.kinds) {
            self.add_to_step(&mut long.schedule, &short.schedule);
        }
    }

    fn add_to_step(&self, long: &mut StepSchedule, short: &StepSchedule) {
        self.add(&mut long.branches, short.branches);
        self.add(&mut long.iterations, short.iterations);
        match long.regions.len().checked_sub(short.regions.len()) {
            // Sub-tiles make some blocks longer,
            Some(0) => {
                for (long, short) in long.regions.iter_mut().zip(&short.regions) {
                    self.add(&mut long.cycles, short.cycles);
                    long.registers = long.registers.max(short.registers);
                    for (long, short) in long.slots.iter_mut().zip(short.slots) {
                        self.add(long, short);
                    }
                }
            }
            // or, where they have branches, are blocks of their own. Which of them are the ones between does not
            // matter, as long as what follows the last is none.
            Some(more) => {
                let pairs = long.regions.iter().rev().zip(short.regions.iter().rev());
                let after = pairs.take_while(|(long, short)| alike(long, short)).count();
                let end = long.regions.len() - after.min(short.regions.len());
                for region in &mut long.regions[end.saturating_sub(more)..end] {
                    region.times *= 1.0 + self.times;
                }
            }
            None => {}
        }
    }

    fn add(&self, long: &mut f64, short: f64) {
        *long += self.times * (*long - short);
    }
}

/// Whether two blocks are the same but for rounding.
fn alike(a: &Region, b: &Region) -> bool {
    (a.cycles - b.cycles).abs() <= 1e-6 * a.cycles && a.times == b.times
}
