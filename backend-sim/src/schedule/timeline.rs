//! [`Timeline`]: which slots of which unit are taken when, in one straight-line block.
//!
//! Operations are placed one after the other in program order, each as early as its operands and its
//! unit allow; a later one may still take a slot before an earlier one that waits. That is what list
//! scheduling does when it breaks ties by program order. Time is cut into buckets of a few cycles, so
//! that thousands of operations of a group are placed at once; of more cycles in a block that is long, for which a
//! few thousand buckets are fine enough.

use super::rates::Rates;
use super::unit::{Machine, Unit};

/// How fine time is in a block that is not long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Width {
    /// Buckets of four cycles.
    Coarse,
    /// Buckets of one cycle, where operations wait for each other more than for slots.
    Cycle,
    /// No buckets: all operations have slots when they are ready, and end with their first register.
    Alone,
}

impl Width {
    const fn cycles(self) -> f64 {
        match self {
            Self::Coarse => 4.0,
            Self::Cycle | Self::Alone => 1.0,
        }
    }
}

/// Most buckets. Where a block is longer, pairs of them become one.
const BUCKETS: usize = 1024;

/// Buckets that are made together.
const AT_ONCE: usize = 32;

/// Slots taken in a block.
#[derive(Debug)]
pub(crate) struct Timeline {
    rows: [Row; Unit::COUNT],
    /// Cycles of a bucket, a power of two.
    width: f64,
    /// Buckets of a cycle.
    per_cycle: f64,
    end: f64,
    /// Whether no operation waits for slots.
    alone: bool,
}

#[derive(Debug, Default)]
struct Row {
    /// Slots per cycle.
    rate: f64,
    /// Slots per bucket.
    capacity: f64,
    buckets: Vec<Bucket>,
    /// Slots taken in all.
    taken: f64,
    /// Those of them that nothing is done in.
    held: f64,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// Slots left.
    left: f32,
    /// A bucket at or after this one that may have slots left; shortened as it is followed.
    next: u32,
}

impl Row {
    /// Makes buckets up to the one after `bucket` at least.
    fn extend(&mut self, bucket: usize) {
        let left = self.capacity as f32;
        let fresh = |next| Bucket { left, next };
        let end = (bucket + 2).next_multiple_of(AT_ONCE);
        let missing = self.buckets.len() as u32..end as u32;
        self.buckets.extend(missing.map(fresh));
    }

    /// Makes one bucket of two.
    fn coarsen(&mut self) {
        if self.buckets.len() % 2 == 1 {
            self.extend(self.buckets.len());
        }
        self.capacity *= 2.0;
        let pairs = self.buckets.len() / 2;
        for i in 0..pairs {
            let left = self.buckets[2 * i].left + self.buckets[2 * i + 1].left;
            let next = i as u32 + u32::from(left <= 0.0);
            self.buckets[i] = Bucket { left, next };
        }
        self.buckets.truncate(pairs);
    }

    /// The first bucket from `bucket` on with slots left.
    fn free(&mut self, bucket: usize) -> usize {
        match self.buckets.get(bucket) {
            Some(found) if found.next as usize == bucket => bucket,
            _ => self.follow(bucket),
        }
    }

    /// The same where it is another, or none has been made yet.
    fn follow(&mut self, bucket: usize) -> usize {
        let mut at = bucket;
        loop {
            if at >= self.buckets.len() {
                self.extend(at);
            }
            match self.buckets[at].next as usize {
                next if next == at => break,
                next => at = next,
            }
        }
        let mut from = bucket;
        while from != at {
            from = std::mem::replace(&mut self.buckets[from].next, at as u32) as usize;
        }
        at
    }
}

/// Share of its slots that are left at most in a vector unit that is full.
const FULL: f64 = 0.05;

/// When an operation starts, and when its last slot is taken, in cycles.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Span {
    /// First slot.
    pub(crate) start: f64,
    /// End of the last slot.
    pub(crate) end: f64,
}

impl Timeline {
    /// An empty block.
    pub(crate) fn new(machine: &Machine) -> Self {
        let row = |_| Row {
            buckets: Vec::with_capacity(BUCKETS + 2 * AT_ONCE),
            ..Row::default()
        };
        let mut timeline = Self {
            rows: Unit::ALL.map(row),
            width: 0.0,
            per_cycle: 0.0,
            end: 0.0,
            alone: false,
        };
        timeline.clear(Width::Coarse, &machine.rates);
        timeline
    }

    /// Nothing taken of slots at these rates, in the same memory.
    pub(crate) fn clear(&mut self, width: Width, rates: &Rates) {
        let bucket = width.cycles();
        self.alone = width == Width::Alone;
        for (row, slots) in self.rows.iter_mut().zip(rates.slots_per_cycle) {
            row.rate = slots;
            row.capacity = row.rate * bucket;
            row.buckets.clear();
            row.taken = 0.0;
            row.held = 0.0;
        }
        self.width = bucket;
        self.per_cycle = 1.0 / bucket;
        self.end = 0.0;
    }

    /// Takes `slots` of `unit`, none before `ready`.
    pub(crate) fn take(&mut self, unit: Unit, ready: f64, slots: f64) -> Span {
        if slots <= 0.0 {
            return Span {
                start: ready,
                end: ready,
            };
        }
        if self.alone {
            let first = match unit {
                // All rows of a transposition come before its first result.
                Unit::Xlu => slots,
                _ => slots.min(1.0),
            };
            let end = ready + first / self.rows[unit as usize].rate;
            self.end = self.end.max(end);
            return Span { start: ready, end };
        }
        self.make_room(unit, ready, slots);
        let width = self.width;
        let row = &mut self.rows[unit as usize];
        row.taken += slots;
        let rate = row.rate;
        let mut bucket = row.free((ready * self.per_cycle) as usize);
        let used = row.capacity - f64::from(row.buckets[bucket].left);
        let start = ready.max(bucket as f64 * width + used / rate);
        let mut remaining = slots;
        let end = loop {
            let found = &mut row.buckets[bucket];
            let left = f64::from(found.left);
            if remaining < left {
                found.left = (left - remaining) as f32;
                let filled = row.capacity - (left - remaining);
                break bucket as f64 * width + filled / rate;
            }
            remaining -= left;
            found.left = 0.0;
            found.next = bucket as u32 + 1;
            if remaining <= 1e-9 {
                break (bucket + 1) as f64 * width;
            }
            bucket = row.free(bucket + 1);
        };
        let end = end.max(start + slots / rate);
        self.end = self.end.max(end);
        Span { start, end }
    }

    /// Takes `slots` of one of several units of a kind, none before `ready`: one a cycle, and `pace` of that where the
    /// vector unit is full.
    pub(crate) fn take_of_one(&mut self, unit: Unit, ready: f64, slots: f64, pace: f64) -> Span {
        let rate = self.rows[unit as usize].rate;
        self.make_room(unit, ready, slots * rate);
        let width = self.width;
        self.rows[unit as usize].taken += slots;
        let mut at = ready;
        let mut span = Span {
            start: ready,
            end: ready,
        };
        let mut remaining = slots;
        while remaining > 0.0 {
            let bucket = self.rows[unit as usize].free((at * self.per_cycle) as usize);
            at = at.max(bucket as f64 * width);
            if remaining == slots {
                span.start = at;
            }
            let valu = &self.rows[Unit::Valu as usize];
            let full = |found: &Bucket| f64::from(found.left) < FULL * valu.capacity;
            let pace = match valu.buckets.get(bucket).is_some_and(full) {
                true => pace,
                false => 1.0,
            };
            let end = (bucket + 1) as f64 * width;
            let found = &mut self.rows[unit as usize].buckets[bucket];
            let left = f64::from(found.left);
            let taken = remaining.min(left).min(pace * (end - at));
            found.left = (left - taken) as f32;
            if found.left <= 0.0 {
                found.next = bucket as u32 + 1;
            }
            remaining -= taken;
            span.end = at + taken / pace;
            at = end;
        }
        self.end = self.end.max(span.end);
        span
    }

    /// Keeps others from as many slots, without a use for them: the block does not last for them.
    pub(crate) fn hold(&mut self, unit: Unit, ready: f64, slots: f64) {
        let end = self.end;
        self.take(unit, ready, slots);
        self.end = end;
        self.rows[unit as usize].held += slots.max(0.0);
    }

    /// Coarsens time until [`BUCKETS`] hold what will have been taken.
    fn make_room(&mut self, unit: Unit, ready: f64, slots: f64) {
        let row = &self.rows[unit as usize];
        // A division takes long, and most blocks are far from full.
        if ready * row.rate + row.taken + slots < 0.99 * row.rate * BUCKETS as f64 * self.width {
            return;
        }
        // No later than this: everything taken before comes after `ready`.
        let last = ready + (row.taken + slots) / row.rate;
        while last > BUCKETS as f64 * self.width {
            self.rows.iter_mut().for_each(Row::coarsen);
            self.width *= 2.0;
            self.per_cycle /= 2.0;
        }
    }

    /// The end of the block.
    pub(crate) fn end(&self) -> f64 {
        self.end
    }

    /// Cycles that the unit needs that has most to do.
    pub(crate) fn fullest(&self) -> f64 {
        let cycles = Unit::ALL.map(|unit| self.taken(unit) / self.rows[unit as usize].rate);
        cycles.into_iter().fold(0.0, f64::max)
    }

    /// Slots taken of a unit, but for those that are only held.
    pub(crate) fn taken(&self, unit: Unit) -> f64 {
        let row = &self.rows[unit as usize];
        row.taken - row.held
    }
}

#[cfg(test)]
mod tests {
    use tilecast_core::target::Target;

    use super::*;

    #[test]
    fn one_unit_of_several_takes_a_slot_a_cycle_and_less_beside_a_full_vector_unit() {
        let machine = Machine::new(Target::by_name("v7x").unwrap());
        let mut timeline = Timeline::new(&machine);
        let take = |ready: f64, timeline: &mut Timeline| {
            let span = timeline.take_of_one(Unit::Mxu, ready, 512.0, 0.75);
            (span.start, span.end)
        };
        let spans = [0.0; 3].map(|ready| take(ready, &mut timeline));
        assert_eq!(spans, [(0.0, 512.0), (0.0, 512.0), (512.0, 1024.0)]);
        let slots = machine.rates.slots_per_cycle[Unit::Valu as usize];
        timeline.take(Unit::Valu, 512.0, 512.0 * slots);
        assert_eq!(take(512.0, &mut timeline), (512.0, 1024.0 + 128.0));
        assert_eq!(timeline.taken(Unit::Mxu), 4.0 * 512.0);
    }

    #[test]
    fn what_is_held_keeps_others_out_and_counts_for_nothing() {
        let machine = Machine::new(Target::by_name("v4").unwrap());
        let mut timeline = Timeline::new(&machine);
        let units = machine.rates.slots_per_cycle[Unit::Mxu as usize];
        timeline.hold(Unit::Mxu, 0.0, 8.0 * units);
        assert_eq!((timeline.end(), timeline.taken(Unit::Mxu)), (0.0, 0.0));
        let span = timeline.take(Unit::Mxu, 0.0, 4.0 * units);
        assert_eq!((span.start, span.end), (8.0, 12.0));
        assert_eq!(timeline.taken(Unit::Mxu), 4.0 * units);
    }
}
