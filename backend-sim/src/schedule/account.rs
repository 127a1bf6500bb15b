//! [`Account`]: registers that hold values, over the time of a block.

/// Lifetimes of groups of registers.
#[derive(Debug, Default)]
pub struct Account {
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
    pub fn born(&mut self, registers: f64, born: f64) -> u32 {
        self.push(registers, born, false)
    }

    /// A group that is loaded from memory, just before its first use.
    pub fn loaded(&mut self, registers: f64) -> u32 {
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
    pub fn used(&mut self, entry: u32, start: f64, end: f64) {
        let entry = &mut self.entries[entry as usize];
        if entry.lazy && (!entry.used || start < entry.born) {
            entry.born = start;
        }
        entry.used = true;
        entry.dies = entry.dies.max(end);
    }

    /// When the last of these is read, as far as is known.
    pub fn dead(&self, entries: &[u32]) -> f64 {
        (entries.iter().map(|&entry| self.entries[entry as usize].dies)).fold(0.0, f64::max)
    }

    /// The most registers that hold values at once.
    pub fn peak(&self) -> f64 {
        let mut events: Vec<(f64, f32)> = Vec::with_capacity(2 * self.entries.len());
        for entry in self.entries.iter().filter(|entry| entry.used) {
            events.push((entry.born, entry.registers));
            events.push((entry.dies, -entry.registers));
        }
        events.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let (mut live, mut peak) = (0.0_f64, 0.0_f64);
        for (_, change) in events {
            live += f64::from(change);
            peak = peak.max(live);
        }
        peak
    }
}
