//! How far the model is from what it predicts.
//!
//! Every [point] is a kernel that the TPU compiler was given, with the VMEM it allocated and
//! the cycles of its static schedule. The kernel is made again, [judged](crate::judge) like any other,
//! and compared. Figures of the model are fitted to [`Set::Fit`] alone; it is judged on the other two
//! sets. Next to the model stand two [baselines](Baselines) that anyone would try first, with work and
//! traffic as exact as here:
//!
//! 1. *roofline*: `max(passes of the matrix units, bytes / HBM bandwidth)`;
//! 2. *fitted roofline*: that times one constant for each family of kernels, the median of
//!    `measured / roofline` in [`Set::Fit`].
//!
//! [`hardware`] compares with published times of kernels that ran.

mod errors;
pub mod hardware;
pub mod own;
pub mod point;
pub mod ranking;
mod record;

use std::collections::BTreeMap;

use thiserror::Error;
use tilecast_core::budget::TermKind;

use crate::judge::{JudgeError, Judged, judge_on};
use crate::kernel::core_bytes_per_s;
use crate::memory::VmemLedger;
use crate::prepared::Prepared;
use crate::schedule::{Machine, Memo, Unit};

pub use errors::Errors;
pub use point::{Measured, Point, PointError, Set, Source, Subject};

/// Points this close to the limit, as a share of it, are not held against the model.
pub const VERDICT_MARGIN: f64 = 0.02;

/// Why a point has no prediction.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ValidateError {
    /// Its kernel cannot be made.
    #[error(transparent)]
    Point(#[from] PointError),
    /// Its kernel cannot be judged.
    #[error(transparent)]
    Judge(#[from] JudgeError),
}

/// What the model says of a point.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Predicted {
    /// Scoped VMEM, bytes.
    pub used_bytes: u64,
    /// The same without spilled registers: what counting windows and scratch alone gives.
    pub unspilled_bytes: u64,
    /// Cycles; `None` if windows and scratch alone do not fit.
    pub cycles: Option<Cycles>,
}

/// Cycles of a point.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Cycles {
    /// Copies not waited for.
    pub schedule: f64,
    /// With copies that do not slow each other, and with copies that take turns.
    pub with_copies: [f64; 2],
    /// Of the plain roofline.
    pub roofline: f64,
}

/// A point and what the model says of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The point.
    pub point: Point,
    /// The prediction.
    pub predicted: Predicted,
    /// Whether the kernel made now is another than the one that was compiled.
    pub changed: bool,
}

/// The verdict of a limit on a point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Agreement {
    /// Model and compiler agree.
    Equal,
    /// They do not.
    Wrong,
    /// The point is within [`VERDICT_MARGIN`] of the limit.
    Close,
}

impl Outcome {
    /// Judges the kernel of a point.
    ///
    /// # Errors
    /// A kernel that cannot be judged.
    pub fn new(point: Point, subject: &Subject) -> Result<Self, ValidateError> {
        let machine = Machine::new(point.target);
        let limit_bytes = Some(point.measured.limit_bytes);
        let kernel = Prepared::new(subject.parts(), point.target)?;
        let scalars = &subject.scalars;
        let grid = kernel.grid(kernel.bounds(), scalars, point.cores());
        let grid = grid.map_err(JudgeError::from)?;
        let memo = Memo::default();
        let judged = judge_on(&kernel, &grid, scalars, limit_bytes, &machine, &memo)?;
        Ok(Self {
            predicted: Predicted::of(&judged, &machine, point.cores()),
            changed: subject.changed,
            point,
        })
    }

    /// Whether model and compiler give the same verdict at the target's default limit.
    pub fn agreement(&self) -> Agreement {
        let limit = self.point.target.default_vmem_limit_bytes.value;
        let used = self.point.measured.used_bytes;
        if used.abs_diff(limit) as f64 <= VERDICT_MARGIN * limit as f64 {
            Agreement::Close
        } else if (used <= limit) == (self.predicted.used_bytes <= limit) {
            Agreement::Equal
        } else {
            Agreement::Wrong
        }
    }

    /// Predicted and measured VMEM; not for refused points, whose use the compiler rounds.
    fn used_bytes(&self, predicted: u64) -> Option<(f64, f64)> {
        let measured = self.point.measured;
        (measured.spill_bytes).map(|_| (predicted as f64, measured.used_bytes as f64))
    }

    /// Prediction and measurement of the schedule.
    fn cycles(&self, predicted: impl Fn(&Cycles) -> f64) -> Option<(f64, f64)> {
        Some((
            predicted(&self.predicted.cycles?),
            self.point.measured.cycles?,
        ))
    }
}

impl Predicted {
    fn of(judged: &Judged, machine: &Machine, cores: u64) -> Self {
        let spilled = |ledger: &VmemLedger| -> u64 {
            let spills = ledger
                .terms
                .iter()
                .filter(|term| term.kind == TermKind::Spills);
            spills.map(|term| term.bytes).sum()
        };
        let used_bytes = judged.vmem.used_bytes();
        let cycles = judged.time.as_ref().map(|time| {
            let unit = |unit: Unit| machine.rates.cycles(unit, time.slots[unit as usize]);
            let estimate = &time.estimate;
            let bytes = estimate.loaded_bytes + estimate.stored_bytes;
            let target = machine.target;
            let bytes_per_cycle = core_bytes_per_s(target, cores) / target.clock_hz.value;
            Cycles {
                schedule: estimate.compute,
                with_copies: [estimate.independent, estimate.shared],
                roofline: unit(Unit::Mxu).max(bytes / bytes_per_cycle),
            }
        });
        Self {
            used_bytes,
            unspilled_bytes: used_bytes - spilled(&judged.vmem),
            cycles,
        }
    }
}

/// The cycles that a machine would take for a kernel, copies not waited for: what figures are
/// [fitted](crate::schedule::Machine::fitted) with.
///
/// # Errors
/// As for [`judge`](crate::judge::judge).
pub fn cycles(subject: &Subject, machine: &Machine, cores: u64) -> Result<f64, JudgeError> {
    let kernel = Prepared::new(subject.parts(), machine.target)?;
    let scalars = &subject.scalars;
    let grid = kernel.grid(kernel.bounds(), scalars, cores)?;
    let schedule = kernel.schedule(&grid, scalars, machine, &Memo::default())?;
    Ok(kernel.pipeline(&grid, &schedule, machine).compute_cycles())
}

/// Constants of the fitted roofline.
#[derive(Clone, PartialEq, Debug)]
pub struct Baselines {
    families: BTreeMap<String, f64>,
    /// For families that no constant is known for.
    all: f64,
}

impl Baselines {
    /// From outcomes, of which those of [`Set::Fit`] count.
    pub fn fit(outcomes: &[Outcome]) -> Self {
        let mut ratios: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for outcome in outcomes
            .iter()
            .filter(|outcome| outcome.point.set == Set::Fit)
        {
            if let Some((roofline, measured)) = outcome.cycles(|cycles| cycles.roofline) {
                let family = outcome.point.family().to_owned();
                ratios.entry(family).or_default().push(measured / roofline);
            }
        }
        let middle = |mut list: Vec<f64>| {
            list.sort_by(f64::total_cmp);
            if list.is_empty() {
                1.0
            } else {
                errors::median(&list)
            }
        };
        Self {
            all: middle(ratios.values().flatten().copied().collect()),
            families: (ratios.into_iter())
                .map(|(family, list)| (family, middle(list)))
                .collect(),
        }
    }

    /// What the roofline of a family is multiplied by.
    pub fn constant(&self, family: &str) -> f64 {
        self.families.get(family).copied().unwrap_or(self.all)
    }

    /// The constants, by family.
    pub fn constants(&self) -> impl Iterator<Item = (&str, f64)> {
        (self.families.iter()).map(|(family, &constant)| (family.as_str(), constant))
    }
}

/// The errors of some points.
#[derive(Clone, PartialEq, Debug)]
pub struct Summary {
    /// Number of points.
    pub points: usize,
    /// Used VMEM.
    pub used_bytes: Option<Errors>,
    /// Used VMEM if no register spilled.
    pub unspilled_bytes: Option<Errors>,
    /// Points whose windows and scratch are those of the compiler to the byte.
    pub exact_ledgers: usize,
    /// Cycles, copies not waited for.
    pub cycles: Option<Errors>,
    /// The same of the roofline.
    pub roofline: Option<Errors>,
    /// The same of the fitted roofline.
    pub fitted_roofline: Option<Errors>,
    /// Cycles with copies that take turns.
    pub with_copies: Option<Errors>,
    /// Points with an equal verdict, and with a wrong one.
    pub verdicts: [usize; 2],
}

impl Summary {
    /// Of some outcomes.
    pub fn of(outcomes: &[&Outcome], baselines: &Baselines) -> Self {
        let cycles = |predicted: &dyn Fn(&Outcome, &Cycles) -> f64| {
            let pair = |outcome: &&Outcome| outcome.cycles(|cycles| predicted(outcome, cycles));
            Errors::of(outcomes.iter().filter_map(pair))
        };
        let with_copies = |outcome: &&Outcome| {
            let predicted = outcome.predicted.cycles?.with_copies[1];
            Some((predicted, outcome.point.measured.cycles_with_copies?[1]))
        };
        let bytes = |bytes: fn(&Predicted) -> u64| {
            let pair = |outcome: &&Outcome| outcome.used_bytes(bytes(&outcome.predicted));
            Errors::of(outcomes.iter().filter_map(pair))
        };
        let exact = |outcome: &&&Outcome| {
            let Measured {
                used_bytes,
                spill_bytes,
                ..
            } = outcome.point.measured;
            spill_bytes == used_bytes.checked_sub(outcome.predicted.unspilled_bytes)
        };
        let count = |agreement: Agreement| {
            (outcomes.iter())
                .filter(|outcome| outcome.agreement() == agreement)
                .count()
        };
        Self {
            points: outcomes.len(),
            used_bytes: bytes(|predicted| predicted.used_bytes),
            unspilled_bytes: bytes(|predicted| predicted.unspilled_bytes),
            exact_ledgers: outcomes.iter().filter(exact).count(),
            cycles: cycles(&|_, cycles| cycles.schedule),
            roofline: cycles(&|_, cycles| cycles.roofline),
            fitted_roofline: cycles(&|outcome, cycles| {
                cycles.roofline * baselines.constant(outcome.point.family())
            }),
            with_copies: Errors::of(outcomes.iter().filter_map(with_copies)),
            verdicts: [count(Agreement::Equal), count(Agreement::Wrong)],
        }
    }
}

#[cfg(test)]
mod tests;
