//! [`Account`]: registers that hold values, over the time of a block.

/// Lifetimes of groups of registers.
#[derive(Debug, Default)]
pub(crate) struct Account {
    entries: Vec<Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    registers: f32,
    born: f64,
    dies: f64,
    /// Loaded when first used, rather than as soon as possible.
    lazy: bool,
    used: bool,
}

impl Account {
    /// A group of registers written at `born`.
    pub(crate) fn born(&mut self, registers: f64, born: f64) -> u32 {
        self.push(registers, born, false)
    }

    /// A group that is loaded from memory, just before its first use.
    pub(crate) fn loaded(&mut self, registers: f64) -> u32 {
        self.push(registers, 0.0, true)
    }

    fn push(&mut self, registers: f64, born: f64, lazy: bool) -> u32 {
        self.entries.push(Entry {
            registers: registers as f32,
            born,
            dies: born,
            lazy,
            used: false,
        });
        self.entries.len() as u32 - 1
    }

    /// The group is read from `start` to `end`.
    pub(crate) fn used(&mut self, entry: u32, start: f64, end: f64) {
        let entry = &mut self.entries[entry as usize];
        if entry.lazy && (!entry.used || start < entry.born) {
            entry.born = start;
        }
        entry.used = true;
        entry.dies = entry.dies.max(end);
    }

    /// When the last of these is read, as far as is known.
    pub(crate) fn dead(&self, entries: &[u32]) -> f64 {
        (entries
            .iter()
            .map(|&entry| self.entries[entry as usize].dies))
        .fold(0.0, f64::max)
    }

    /// What `registers` registers do not hold.
    pub(crate) fn pressure(&self, registers: f64) -> Pressure {
        let mut events: Vec<(f64, f32)> = Vec::with_capacity(2 * self.entries.len());
        let (mut held, mut squared) = (0.0_f64, 0.0_f64);
        for entry in self.entries.iter().filter(|entry| entry.used) {
            events.push((entry.born, entry.registers));
            events.push((entry.dies, -entry.registers));
            let life = entry.dies - entry.born;
            held += f64::from(entry.registers) * life;
            squared += f64::from(entry.registers) * life * life;
        }
        events.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let (mut live, mut peak, mut excess, mut last) = (0.0_f64, 0.0_f64, 0.0_f64, 0.0_f64);
        for (at, change) in events {
            excess += (live - registers).max(0.0) * (at - last);
            last = at;
            live += f64::from(change);
            peak = peak.max(live);
        }
        // The values that wait longest are stored; the mean life of what is alive stands for theirs.
        let life = squared / held.max(1.0);
        Pressure {
            peak,
            spilled: excess / life.max(1.0),
        }
    }
}

/// Registers wanted in a block.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Pressure {
    /// The most that hold values at once.
    pub(crate) peak: f64,
    /// Values stored and loaded again.
    pub(crate) spilled: f64,
}
