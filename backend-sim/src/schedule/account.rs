//! [`Account`]: registers that hold values, over the time of a block.

/// Lifetimes of groups of registers.
#[derive(Debug, Default)]
pub(crate) struct Account {
    entries: Vec<Entry>,
    /// For groups that others stand side by side in, these, and the group.
    joined: Vec<(u32, Vec<u32>)>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    registers: f32,
    born: f64,
    dies: f64,
    /// Loaded when first used, rather than as soon as possible.
    lazy: bool,
    used: bool,
    /// One of those in which others stand side by side.
    joined: bool,
}

impl Account {
    /// Forgets all groups.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.joined.clear();
    }

    /// A group of registers written at `born`.
    pub(crate) fn born(&mut self, registers: f64, born: f64) -> u32 {
        self.push(registers, born, false)
    }

    /// A group that is loaded from memory, just before its first use.
    pub(crate) fn loaded(&mut self, registers: f64) -> u32 {
        self.push(registers, 0.0, true)
    }

    /// Groups side by side, which are held as long as any of them is needed, and no registers besides.
    pub(crate) fn joined(&mut self, parts: Vec<u32>) -> u32 {
        let entry = self.push(0.0, 0.0, false);
        self.entries[entry as usize].joined = true;
        self.joined.push((entry, parts));
        entry
    }

    fn push(&mut self, registers: f64, born: f64, lazy: bool) -> u32 {
        self.entries.push(Entry {
            registers: registers as f32,
            born,
            dies: born,
            lazy,
            used: false,
            joined: false,
        });
        self.entries.len() as u32 - 1
    }

    /// The group is read from `start` to `end`.
    pub(crate) fn used(&mut self, entry: u32, start: f64, end: f64) {
        if self.entries[entry as usize].joined
            && let Ok(i) = (self.joined).binary_search_by_key(&entry, |&(joined, _)| joined)
        {
            let parts = std::mem::take(&mut self.joined[i].1);
            for &part in &parts {
                self.used(part, start, end);
            }
            self.joined[i].1 = parts;
        }
        let entry = &mut self.entries[entry as usize];
        if entry.lazy && (!entry.used || start < entry.born) {
            entry.born = start;
        }
        entry.used = true;
        entry.dies = entry.dies.max(end);
    }

    /// The group is written no sooner than `at`.
    pub(crate) fn made_at(&mut self, entry: u32, at: f64) {
        let entry = &mut self.entries[entry as usize];
        entry.born = entry.born.max(at);
        entry.dies = entry.dies.max(entry.born);
    }

    /// When the last of these is read, as far as is known.
    pub(crate) fn dead(&self, entries: &[u32]) -> f64 {
        (entries
            .iter()
            .map(|&entry| self.entries[entry as usize].dies))
        .fold(0.0, f64::max)
    }

    /// The most registers that hold values at once.
    ///
    /// Time is cut into short intervals. How many are held between these is added up; births and deaths are put in order only where
    /// what is born in an interval could make more than that.
    pub(crate) fn peak(&self) -> f64 {
        let used = || self.entries.iter().filter(|entry| entry.used);
        let count = used().count().max(1);
        let end = used().map(|entry| entry.dies).fold(1.0, f64::max);
        let per_cycle = count as f64 / end;
        let interval = |at: f64| ((at * per_cycle) as usize).min(count - 1);
        let mut intervals = vec![Interval::default(); count];
        for entry in used() {
            intervals[interval(entry.born)].born += f64::from(entry.registers);
            intervals[interval(entry.dies)].died += f64::from(entry.registers);
        }
        let (mut live, mut peak) = (0.0_f64, 0.0_f64);
        for interval in &mut intervals {
            interval.before = live;
            live += interval.born - interval.died;
            peak = peak.max(live);
        }
        let mut events = Vec::new();
        for entry in used() {
            let registers = f64::from(entry.registers);
            for (at, change) in [(entry.born, registers), (entry.dies, -registers)] {
                let number = interval(at);
                if intervals[number].before + intervals[number].born > peak {
                    events.push((number, at, change));
                }
            }
        }
        events.sort_unstable_by(|(_, a, x), (_, b, y)| a.total_cmp(b).then(x.total_cmp(y)));
        for events in events.chunk_by(|a, b| a.0 == b.0) {
            let mut live = intervals[events[0].0].before;
            for (_, _, change) in events {
                live += change;
                peak = peak.max(live);
            }
        }
        peak
    }
}

/// Registers in a short interval of time.
#[derive(Clone, Default)]
struct Interval {
    /// Those held when it begins.
    before: f64,
    /// Those written in it.
    born: f64,
    /// Those read for the last time.
    died: f64,
}
