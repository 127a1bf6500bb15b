//! Copies that a kernel makes itself.
//!
//! A kernel that copies by hand starts a copy at one place of its body and waits for it at another, often in a later
//! step: what lies between hides it, and what is not hidden is time. A wait ends with the first copy of the step that
//! has the same semaphore; if there is none, with the last copy of a step before that goes the same way, which is all
//! that a step hands on to the next.

use super::StepCost;
use super::log::{Lane, Log};
use super::state::{Clock, State};
use crate::schedule::{Direction, Event, Transfer};

/// Does what a step that starts at `start` does about them, and draws its blocks between. Returns `start`, later by the
/// time that the step waits for copies.
pub(super) fn own_copies(
    clock: &Clock,
    state: &mut State,
    mut start: f64,
    cost: &StepCost,
    number: u64,
    log: &mut Log,
) -> f64 {
    let mut under_way: Vec<(Transfer, f64)> = Vec::new();
    let mut drawn = 0;
    for &(before, transfer) in &cost.transfers {
        let blocks = drawn..transfer.after.min(cost.regions.len()).max(drawn);
        drawn = blocks.end;
        log.note_regions(&cost.regions, blocks, number, start);
        let at = start + before;
        let way = transfer.direction as usize;
        match transfer.event {
            Event::Start { bytes, times } => {
                let end = clock.copy(state, at, bytes * times, transfer.direction);
                let name = match transfer.direction {
                    Direction::Load => "load",
                    Direction::Store => "store",
                };
                log.note(Lane::Own(transfer.semaphore), &name, number, at, end);
                under_way.push((transfer, end));
            }
            Event::Wait => {
                let first =
                    (under_way.iter()).position(|(copy, _)| copy.semaphore == transfer.semaphore);
                let end = first.map_or(state.own[way], |first| under_way.remove(first).1);
                log.note(Lane::Wait, &"wait", number, at, end);
                start = at.max(end) - before;
            }
        }
    }
    log.note_regions(&cost.regions, drawn..cost.regions.len(), number, start);
    for (copy, end) in under_way {
        let own = &mut state.own[copy.direction as usize];
        *own = own.max(end);
    }
    start
}
