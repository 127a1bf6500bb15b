//! The times that one step hands to the next, and functions of them as matrices over (max, +).

use super::WindowCopy;
use super::copies::{Bandwidth, Copies};
use crate::schedule::Direction;

/// Times in cycles.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct State {
    /// The core is done with all steps so far.
    pub core: f64,
    /// The blocks of the next step are there.
    pub fetched: f64,
    /// The blocks that the last step wrote are away.
    pub written: f64,
    /// The channel to HBM is free.
    pub channel: f64,
    /// The start of the kernel.
    pub zero: f64,
    /// Copies that the kernel has started itself are done: those to VMEM, and those to HBM.
    pub own: [f64; 2],
}

const TIMES: usize = 7;

/// Without those of a kernel's own copies, which come last.
const TIMES_OF_WINDOWS: usize = 5;

impl State {
    pub(super) fn zero() -> Self {
        Self::from([0.0; TIMES])
    }

    fn times(&self) -> [f64; TIMES] {
        [
            self.core,
            self.fetched,
            self.written,
            self.channel,
            self.zero,
            self.own[0],
            self.own[1],
        ]
    }
}

impl From<[f64; TIMES]> for State {
    fn from([core, fetched, written, channel, zero, loads, stores]: [f64; TIMES]) -> Self {
        Self {
            core,
            fetched,
            written,
            channel,
            zero,
            own: [loads, stores],
        }
    }
}

/// A function of states: what each time of the old state adds to each of the new at least.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Matrix {
    columns: [[f64; TIMES]; TIMES],
    /// Whether there are copies of the kernel's own; otherwise nothing is computed of them.
    own: bool,
}

impl Matrix {
    pub(super) fn identity(own: bool) -> Self {
        Self::of(own, |state| *state)
    }

    /// The matrix of a function made of additions of constants and maxima.
    pub(super) fn of(own: bool, f: impl Fn(&State) -> State) -> Self {
        let columns = [[f64::NEG_INFINITY; TIMES]; TIMES];
        let mut matrix = Self { columns, own };
        for (i, column) in matrix.used().iter_mut().enumerate() {
            let mut unit = [f64::NEG_INFINITY; TIMES];
            unit[i] = 0.0;
            *column = f(&State::from(unit)).times();
        }
        matrix
    }

    /// The columns of times that there are.
    fn used(&mut self) -> &mut [[f64; TIMES]] {
        let used = if self.own { TIMES } else { TIMES_OF_WINDOWS };
        &mut self.columns[..used]
    }

    pub(super) fn apply(&self, state: &State) -> State {
        State::from(self.times(&state.times()))
    }

    fn times(&self, times: &[f64; TIMES]) -> [f64; TIMES] {
        match self.own {
            true => self.first_times::<TIMES>(times),
            false => self.first_times::<TIMES_OF_WINDOWS>(times),
        }
    }

    fn first_times<const N: usize>(&self, times: &[f64; TIMES]) -> [f64; TIMES] {
        let mut out = [f64::NEG_INFINITY; TIMES];
        for (column, time) in self.columns[..N].iter().zip(times) {
            for (out, add) in out[..N].iter_mut().zip(column) {
                *out = out.max(time + add);
            }
        }
        out
    }

    /// This function, then `next`.
    pub(super) fn then(&self, next: &Self) -> Self {
        let mut all = *self;
        for column in all.used() {
            *column = next.times(column);
        }
        all
    }

    /// The function, `times` times.
    pub(super) fn power(&self, mut times: u64) -> Self {
        let (mut all, mut square) = (None, *self);
        while times > 0 {
            if times & 1 == 1 {
                all = Some(all.map_or(square, |all: Self| all.then(&square)));
            }
            times >>= 1;
            if times > 0 {
                square = square.then(&square);
            }
        }
        all.unwrap_or_else(|| Self::identity(self.own))
    }
}

/// How long a copy takes, and whether it has to wait for others.
pub(super) struct Clock {
    load: f64,
    store: f64,
    /// Cycles of a byte of one copy.
    per_byte: f64,
    /// Cycles of a byte during which no other copy moves.
    held: f64,
}

impl Clock {
    pub(super) fn new(copies: &Copies, bandwidth: Bandwidth) -> Self {
        let total = copies.total_bytes_per_cycle;
        let one = match bandwidth {
            Bandwidth::Independent | Bandwidth::Shared => copies.bytes_per_cycle,
            Bandwidth::Published => copies.bytes_per_cycle.min(total),
        };
        Self {
            load: copies.load_latency_cycles,
            store: copies.store_latency_cycles,
            per_byte: 1.0 / one,
            held: match bandwidth {
                Bandwidth::Independent => 0.0,
                Bandwidth::Shared => 1.0 / one,
                Bandwidth::Published => 1.0 / total,
            },
        }
    }

    /// The end of a copy that is started at `at`.
    pub(super) fn copy(&self, state: &mut State, at: f64, bytes: f64, direction: Direction) -> f64 {
        let latency = match direction {
            Direction::Load => self.load,
            Direction::Store => self.store,
        };
        let start = match self.held > 0.0 {
            true => at.max(state.channel),
            false => at,
        };
        state.channel = start + bytes * self.held;
        start + bytes * self.per_byte + latency
    }

    /// Cycles of a copy that waits for no other.
    pub(super) fn time(&self, window: &WindowCopy) -> f64 {
        let latency = if window.output { self.store } else { self.load };
        latency + window.bytes * self.per_byte
    }
}
