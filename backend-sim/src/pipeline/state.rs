//! The times that one step hands to the next, and functions of them as matrices over (max, +).

use super::WindowCopy;
use super::copies::{Bandwidth, Copies};

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
}

const TIMES: usize = 5;

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
        ]
    }
}

impl From<[f64; TIMES]> for State {
    fn from([core, fetched, written, channel, zero]: [f64; TIMES]) -> Self {
        Self {
            core,
            fetched,
            written,
            channel,
            zero,
        }
    }
}

/// A function of states: what each time of the old state adds to each of the new at least.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Matrix([[f64; TIMES]; TIMES]);

impl Matrix {
    pub(super) fn identity() -> Self {
        Self::of(|state| *state)
    }

    /// The matrix of a function made of additions of constants and maxima.
    pub(super) fn of(f: impl Fn(&State) -> State) -> Self {
        let mut columns = [[0.0; TIMES]; TIMES];
        for (i, column) in columns.iter_mut().enumerate() {
            let mut unit = [f64::NEG_INFINITY; TIMES];
            unit[i] = 0.0;
            *column = f(&State::from(unit)).times();
        }
        Self(columns)
    }

    pub(super) fn apply(&self, state: &State) -> State {
        let mut out = [f64::NEG_INFINITY; TIMES];
        for (column, time) in self.0.iter().zip(state.times()) {
            for (out, add) in out.iter_mut().zip(column) {
                *out = out.max(time + add);
            }
        }
        State::from(out)
    }

    /// This function, then `next`.
    pub(super) fn then(&self, next: &Self) -> Self {
        Self(
            self.0
                .map(|column| next.apply(&State::from(column)).times()),
        )
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
        all.unwrap_or_else(Self::identity)
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

    /// The end of a copy to VMEM that is started at `at`.
    pub(super) fn load(&self, state: &mut State, at: f64, bytes: f64) -> f64 {
        self.copy(state, at, bytes, self.load)
    }

    /// The end of a copy to HBM that is started at `at`.
    pub(super) fn store(&self, state: &mut State, at: f64, bytes: f64) -> f64 {
        self.copy(state, at, bytes, self.store)
    }

    fn copy(&self, state: &mut State, at: f64, bytes: f64, latency: f64) -> f64 {
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
