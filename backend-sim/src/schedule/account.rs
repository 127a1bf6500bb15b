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

    /// When the last of these is read, as far as is known.
    pub(crate) fn dead(&self, entries: &[u32]) -> f64 {
        (entries
            .iter()
            .map(|&entry| self.entries[entry as usize].dies))
        .fold(0.0, f64::max)
    }

    /// What `registers` registers do not hold.
    pub(crate) fn pressure(&self, registers: f64) -> Pressure {
        let (mut held, mut squared) = (0.0_f64, 0.0_f64);
        for entry in self.entries.iter().filter(|entry| entry.used) {
            let life = entry.dies - entry.born;
            held += f64::from(entry.registers) * life;
            squared += f64::from(entry.registers) * life * life;
        }
        let (mut live, mut peak, mut excess, mut last) = (0.0_f64, 0.0_f64, 0.0_f64, 0.0_f64);
        for (at, change) in self.events().into_iter().map(time_and_change) {
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

    /// Births and deaths in order. They are dealt to short intervals of time first, each of which is sorted: a block has
    /// many of them, spread over all of its time.
    fn events(&self) -> Vec<u128> {
        let used = || self.entries.iter().filter(|entry| entry.used);
        let intervals = used().count().max(1);
        let end = used().map(|entry| entry.dies).fold(1.0, f64::max);
        let per_cycle = intervals as f64 / end;
        let interval = |at: f64| ((at * per_cycle) as usize).min(intervals - 1);
        let mut ends = vec![0_u32; intervals];
        for entry in used() {
            ends[interval(entry.born)] += 1;
            ends[interval(entry.dies)] += 1;
        }
        let mut before = 0;
        for end in &mut ends {
            let count = std::mem::replace(end, before);
            before += count;
        }
        let mut events = vec![0; before as usize];
        let mut deal = |at: f64, change: f32| {
            let next = &mut ends[interval(at)];
            events[*next as usize] = event(at, change);
            *next += 1;
        };
        for entry in used() {
            deal(entry.born, entry.registers);
            deal(entry.dies, -entry.registers);
        }
        let mut start = 0;
        for end in ends {
            events[start..end as usize].sort_unstable();
            start = end as usize;
        }
        events
    }
}

/// A time and a change of the registers that are held as one number, of the same order.
fn event(at: f64, change: f32) -> u128 {
    let flipped = |negative: bool| if negative { u64::MAX } else { 1 << 63 };
    let (at, change) = (at.to_bits(), f64::from(change).to_bits());
    let at = at ^ flipped(at >> 63 == 1);
    let change = change ^ flipped(change >> 63 == 1);
    u128::from(at) << 64 | u128::from(change)
}

/// What [`event`] was made of.
fn time_and_change(event: u128) -> (f64, f32) {
    let back = |bits: u64| {
        let flipped = if bits >> 63 == 1 { 1 << 63 } else { u64::MAX };
        f64::from_bits(bits ^ flipped)
    };
    (back((event >> 64) as u64), back(event as u64) as f32)
}

/// Registers wanted in a block.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Pressure {
    /// The most that hold values at once.
    pub(crate) peak: f64,
    /// Values stored and loaded again.
    pub(crate) spilled: f64,
}
