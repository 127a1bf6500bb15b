//! [`Timeline`]: which slots of which unit are taken when, in one straight-line block.
//!
//! Operations are placed one after the other in program order, each as early as its operands and its
//! unit allow; a later one may still take a slot before an earlier one that waits. That is what list
//! scheduling does when it breaks ties by program order. Time is cut into buckets of a few cycles, so
//! that thousands of operations of a group are placed at once; of more cycles in a block that is long, for which a
//! few thousand buckets are fine enough.

use super::unit::{Machine, Unit};

/// Cycles of a bucket, in a short block.
const BUCKET: f64 = 4.0;

/// Most buckets. Where a block is longer, pairs of them become one.
const BUCKETS: usize = 1024;

/// Slots taken in a block.
#[derive(Debug)]
pub(crate) struct Timeline {
    rows: [Row; Unit::COUNT],
    /// Cycles of a bucket.
    width: f64,
    end: f64,
}

#[derive(Debug, Default)]
struct Row {
    /// Slots per bucket.
    capacity: f64,
    /// Slots left in each bucket.
    left: Vec<f32>,
    /// For each bucket, one at or after it that may have slots left; shortened as it is followed.
    next: Vec<u32>,
    /// Slots taken in all.
    taken: f64,
}

impl Row {
    fn extend(&mut self, bucket: usize) {
        while self.left.len() <= bucket + 1 {
            self.next.push(self.left.len() as u32);
            self.left.push(self.capacity as f32);
        }
    }

    /// Makes one bucket of two.
    fn coarsen(&mut self) {
        self.capacity *= 2.0;
        if self.left.len() % 2 == 1 {
            self.left.push((self.capacity / 2.0) as f32);
        }
        let pairs = self.left.len() / 2;
        for i in 0..pairs {
            self.left[i] = self.left[2 * i] + self.left[2 * i + 1];
            self.next[i] = i as u32 + u32::from(self.left[i] <= 0.0);
        }
        self.left.truncate(pairs);
        self.next.truncate(pairs);
    }

    /// The first bucket from `bucket` on with slots left.
    fn free(&mut self, bucket: usize) -> usize {
        self.extend(bucket);
        let mut at = bucket;
        while self.next[at] as usize != at {
            at = self.next[at] as usize;
            self.extend(at);
        }
        let mut follow = bucket;
        while self.next[follow] as usize != follow {
            let next = self.next[follow] as usize;
            self.next[follow] = at as u32;
            follow = next;
        }
        at
    }
}

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
        Self {
            rows: machine.slots_per_cycle.map(|slots| Row {
                capacity: slots * BUCKET,
                ..Row::default()
            }),
            width: BUCKET,
            end: 0.0,
        }
    }

    /// Nothing taken, in the same memory.
    pub(crate) fn clear(&mut self) {
        for row in &mut self.rows {
            row.capacity *= BUCKET / self.width;
            row.left.clear();
            row.next.clear();
            row.taken = 0.0;
        }
        self.width = BUCKET;
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
        self.make_room(unit, ready, slots);
        let width = self.width;
        let row = &mut self.rows[unit as usize];
        row.taken += slots;
        let rate = row.capacity / width;
        let mut bucket = row.free((ready / width) as usize);
        let used = row.capacity - f64::from(row.left[bucket]);
        let start = ready.max(bucket as f64 * width + used / rate);
        let mut remaining = slots;
        let end = loop {
            let left = f64::from(row.left[bucket]);
            if remaining < left {
                row.left[bucket] = (left - remaining) as f32;
                let filled = row.capacity - (left - remaining);
                break bucket as f64 * width + filled / rate;
            }
            remaining -= left;
            row.left[bucket] = 0.0;
            row.next[bucket] = bucket as u32 + 1;
            if remaining <= 1e-9 {
                break (bucket + 1) as f64 * width;
            }
            bucket = row.free(bucket + 1);
        };
        let end = end.max(start + slots / rate);
        self.end = self.end.max(end);
        Span { start, end }
    }

    /// Coarsens time until [`BUCKETS`] hold what will have been taken.
    fn make_room(&mut self, unit: Unit, ready: f64, slots: f64) {
        let row = &self.rows[unit as usize];
        let rate = row.capacity / self.width;
        // No later than this: everything taken before comes after `ready`.
        let last = ready + (row.taken + slots) / rate;
        while last > BUCKETS as f64 * self.width {
            self.rows.iter_mut().for_each(Row::coarsen);
            self.width *= 2.0;
        }
    }

    /// The end of the block.
    pub(crate) fn end(&self) -> f64 {
        self.end
    }

    /// Slots taken of a unit.
    pub(crate) fn taken(&self, unit: Unit) -> f64 {
        self.rows[unit as usize].taken
    }
}
