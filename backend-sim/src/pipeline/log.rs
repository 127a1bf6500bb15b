//! What a core does when: the rows of a trace.

use std::fmt::Display;
use std::ops::Range;

use super::Busy;
use crate::schedule::Unit;

/// What a core does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Lane {
    /// Blocks of the body, by number.
    Compute,
    /// What a unit does in a block, drawn from its start without the gaps between.
    Unit(Unit),
    /// Waits for copies.
    Wait,
    /// A copy of the window of that number.
    Window(usize),
    /// The kernel's own copies with that semaphore.
    Own(u64),
}

/// Something that takes time.
#[derive(Clone, PartialEq, Debug)]
pub struct Interval {
    /// What does it.
    pub lane: Lane,
    /// What it is.
    pub name: String,
    /// Number of the grid step it is for.
    pub step: u64,
    /// First cycle.
    pub start: f64,
    /// Cycle after the last.
    pub end: f64,
}

/// Takes down what takes time, if anybody asks.
pub(super) struct Log(pub(super) Option<Vec<Interval>>);

impl Log {
    pub(super) const fn none() -> Self {
        Self(None)
    }

    /// Those `blocks` of a body that starts at `start`, and the units in them.
    pub(super) fn note_regions(
        &mut self,
        regions: &[Busy],
        blocks: Range<usize>,
        step: u64,
        start: f64,
    ) {
        if self.0.is_none() {
            return;
        }
        let before = regions[..blocks.start].iter().map(|region| region.cycles);
        let mut at = start + before.sum::<f64>();
        for region in blocks {
            let busy = &regions[region];
            let end = at + busy.cycles;
            let name = format_args!("block {region}");
            self.note(Lane::Compute, &name, step, at, end);
            for (unit, cycles) in Unit::ALL.into_iter().zip(busy.units) {
                self.note(Lane::Unit(unit), &name, step, at, (at + cycles).min(end));
            }
            at = end;
        }
    }

    pub(super) fn note(&mut self, lane: Lane, name: &dyn Display, step: u64, start: f64, end: f64) {
        if let Some(list) = &mut self.0
            && end > start
        {
            list.push(Interval {
                lane,
                name: name.to_string(),
                step,
                start,
                end,
            });
        }
    }
}
