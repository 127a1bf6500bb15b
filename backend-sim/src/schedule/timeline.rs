//! [`Timeline`]: which slots of which unit are taken when, in one straight-line block.
//!
//! Operations are placed one after the other in program order, each as early as its operands and its
//! unit allow; a later one may still take a slot before an earlier one that waits. That is what list
//! scheduling does when it breaks ties by program order. Time is cut into buckets of a few cycles, so
//! that thousands of operations of a group are placed at once.

use super::unit::{Machine, Unit};

/// Cycles of a bucket.
const BUCKET: f64 = 4.0;

/// Slots taken in a block.
#[derive(Debug)]
pub(crate) struct Timeline {
    rows: [Row; Unit::COUNT],
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
            end: 0.0,
        }
    }

    /// Takes `slots` of `unit`, none before `ready`.
    pub(crate) fn take(&mut self, unit: Unit, ready: f64, slots: f64) -> Span {
        let row = &mut self.rows[unit as usize];
        if slots <= 0.0 {
            return Span {
                start: ready,
                end: ready,
            };
        }
        row.taken += slots;
        let rate = row.capacity / BUCKET;
        let mut bucket = row.free((ready / BUCKET) as usize);
        let used = row.capacity - f64::from(row.left[bucket]);
        let start = ready.max(bucket as f64 * BUCKET + used / rate);
        let mut remaining = slots;
        loop {
            let left = f64::from(row.left[bucket]);
            if remaining < left {
                row.left[bucket] = (left - remaining) as f32;
                let filled = row.capacity - (left - remaining);
                let end = (bucket as f64 * BUCKET + filled / rate).max(start + slots / rate);
                self.end = self.end.max(end);
                return Span { start, end };
            }
            remaining -= left;
            row.left[bucket] = 0.0;
            row.next[bucket] = bucket as u32 + 1;
            if remaining <= 1e-9 {
                let end = ((bucket + 1) as f64 * BUCKET).max(start + slots / rate);
                self.end = self.end.max(end);
                return Span { start, end };
            }
            bucket = row.free(bucket + 1);
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
