//! [`Account`]: registers that hold values, over the time of a block.

/// Lifetimes of groups of registers.
#[derive(Debug, Default)]
pub(crate) struct Account {
    entries: Vec<Entry>,
    /// For groups that others stand side by side in, these, and the group.
    joined: Vec<(u32, Vec<u32>)>,
    /// Groups that are made when they are first used, each with one of those that they are made of.
    late: Vec<(u32, u32)>,
    /// The number of the operation that reads.
    operation: u32,
    /// What is entered now is an operand of an exact product.
    pub(crate) exact: bool,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Its registers.
    size: f32,
    /// Of these, so many are held.
    registers: f32,
    /// So many of them at least are held if more than one operation reads them.
    shared: f32,
    /// The operation that made it, and the one that read it last.
    maker: u32,
    reader: u32,
    /// Whether another did before.
    several: bool,
    born: f64,
    dies: f64,
    /// Loaded when first used, rather than as soon as possible.
    lazy: bool,
    /// How often it is read.
    reads: u32,
    /// One of those in which others stand side by side.
    joined: bool,
    /// What is made of it ends in several places.
    outlasts: bool,
    /// An operand of an exact product, or parts of one.
    exact: bool,
}

impl Entry {
    /// Registers held while it is. What comes just before the only operation that reads it does so register by
    /// register, and goes as it is read: half of it is there, on average.
    fn held(&self) -> f64 {
        let part = match self.lazy && self.reads == 1 {
            true => 0.5,
            false => 1.0,
        };
        let registers = match self.several {
            true => self.registers.max(self.shared),
            false => self.registers,
        };
        part * f64::from(registers)
    }
}

impl Account {
    /// Forgets all groups.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.joined.clear();
        self.late.clear();
    }

    /// What reads from now on is another operation.
    pub(crate) fn next_operation(&mut self) {
        self.operation += 1;
    }

    /// A group of registers written at `born`, of which a part is held at a time.
    pub(crate) fn born(&mut self, size: f64, part: f64, born: f64) -> u32 {
        self.push(size, part, born, false)
    }

    /// The same of a group that is loaded from memory, or made of what lies there, just before its first use.
    pub(crate) fn loaded(&mut self, size: f64, part: f64) -> u32 {
        self.push(size, part, 0.0, true)
    }

    /// A group that is made when it is first used reads `operand` then.
    pub(crate) fn reads_late(&mut self, entry: u32, operand: u32) {
        self.late.push((entry, operand));
        self.read(operand);
    }

    /// Uses what late groups are made of, as if all uses of these were known.
    fn settle(&mut self) {
        // What a group is made of was entered before it.
        for i in (0..self.late.len()).rev() {
            let (entry, operand) = self.late[i];
            let Entry { reads, born, .. } = self.entries[entry as usize];
            if reads > 0 {
                self.used(operand, born, born);
            }
        }
    }

    /// Groups side by side, which are held as long as any of them is needed, and no registers besides.
    pub(crate) fn joined(&mut self, parts: Vec<u32>) -> u32 {
        let entry = self.push(0.0, 1.0, 0.0, false);
        self.entries[entry as usize].joined = true;
        self.joined.push((entry, parts));
        entry
    }

    fn push(&mut self, size: f64, part: f64, born: f64, lazy: bool) -> u32 {
        self.entries.push(Entry {
            size: size as f32,
            registers: (part * size) as f32,
            shared: 0.0,
            maker: self.operation,
            reader: 0,
            several: false,
            born,
            dies: born,
            lazy,
            reads: 0,
            joined: false,
            outlasts: false,
            exact: self.exact,
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
        self.read(entry);
        let entry = &mut self.entries[entry as usize];
        if entry.lazy && (entry.reads == 0 || start < entry.born) {
            entry.born = start;
        }
        entry.reads += 1;
        entry.dies = entry.dies.max(end);
    }

    fn read(&mut self, entry: u32) {
        let entry = &mut self.entries[entry as usize];
        entry.several |= entry.reader != 0 && entry.reader != self.operation;
        entry.reader = self.operation;
    }

    /// If more than one operation reads the group, at least so many of its registers are held.
    pub(crate) fn shared(&mut self, entry: u32, registers: f64) {
        self.entries[entry as usize].shared = registers as f32;
    }

    /// What is made of the group ends in several places: while one of them is worked off, it waits for the others.
    pub(crate) fn outlasts(&mut self, entry: u32) {
        self.entries[entry as usize].outlasts = true;
    }

    /// What reads the group is a wider value: each of its registers is read by several, so all are held.
    pub(crate) fn spread(&mut self, entry: u32) {
        self.held_in_part(entry, 1.0);
    }

    /// Of the registers of the group so large a part is held.
    pub(crate) fn held_in_part(&mut self, entry: u32, part: f64) {
        let entry = &mut self.entries[entry as usize];
        entry.registers = entry.size * part as f32;
    }

    /// The group is written no sooner than `at`.
    pub(crate) fn made_at(&mut self, entry: u32, at: f64) {
        let entry = &mut self.entries[entry as usize];
        entry.born = entry.born.max(at);
        entry.dies = entry.dies.max(entry.born);
    }

    /// All of the group is held until then, for that it waits for a slot.
    pub(crate) fn waits(&mut self, entry: u32, until: f64) {
        self.spread(entry);
        let entry = &mut self.entries[entry as usize];
        entry.dies = entry.dies.max(until);
    }

    /// When the first of these is made.
    pub(crate) fn begun(&self, entries: &[u32]) -> f64 {
        (entries.iter())
            .map(|&entry| self.entries[entry as usize].born)
            .fold(f64::INFINITY, f64::min)
    }

    /// When the last of these is made.
    pub(crate) fn made(&self, entries: &[u32]) -> f64 {
        (entries.iter())
            .map(|&entry| self.entries[entry as usize].born)
            .fold(0.0, f64::max)
    }

    /// So many registers are held from `first` to `last`.
    pub(crate) fn held(&mut self, registers: f64, [first, last]: [f64; 2]) {
        let entry = self.born(registers, 1.0, first);
        self.used(entry, first, last);
    }

    /// Whether a group is made at its first use.
    pub(crate) fn is_made_when_used(&self, entry: u32) -> bool {
        self.entries[entry as usize].lazy
    }

    /// A group that is not used yet is made at its first use.
    pub(crate) fn made_when_used(&mut self, entry: u32) {
        self.entries[entry as usize].lazy = true;
    }

    /// The same, and all of its registers are held from then on.
    pub(crate) fn held_whole(&mut self, entry: u32) {
        self.made_when_used(entry);
        self.held_in_part(entry, 1.0);
    }

    /// When the last of these is read, as far as is known.
    pub(crate) fn dead(&self, entries: &[u32]) -> f64 {
        (entries
            .iter()
            .map(|&entry| self.entries[entry as usize].dies))
        .fold(0.0, f64::max)
    }

    /// The most registers that hold values at once where one operation follows the other, in the order of the program:
    /// `each` for all registers of a group, or register by register, so that of groups that do not outlast what is made
    /// of them only a part is held.
    pub(crate) fn peak_in_order(&self, each: bool) -> f64 {
        self.in_order(|entry| match each || entry.outlasts {
            true => f64::from(entry.size),
            false => entry.held(),
        })
    }

    /// The same register by register, of everything.
    pub(crate) fn peak_of_chains(&self) -> f64 {
        self.in_order(|entry| f64::from(entry.registers.min(entry.size)))
    }

    fn in_order(&self, held: impl Fn(&Entry) -> f64) -> f64 {
        let used = self
            .entries
            .iter()
            .filter(|entry| entry.reads > 0 || entry.outlasts);
        let mut events: Vec<(u32, bool, f64)> = used
            .flat_map(|entry| {
                let held = held(entry);
                // An operation writes to the registers that it is the last to read.
                [(entry.reader, false, -held), (entry.maker, true, held)]
            })
            .collect();
        events.sort_unstable_by_key(|&(operation, born, _)| (operation, born));
        let mut live = 0.0;
        let live = events.into_iter().map(|(_, _, change)| {
            live += change;
            live
        });
        live.fold(0.0, f64::max)
    }

    /// The most registers that hold values at once, of what is entered so far.
    pub(crate) fn peak(&mut self) -> f64 {
        self.peak_of(|_| true)
    }

    /// The same of operands of exact products alone, and of all else.
    pub(crate) fn peaks_apart(&mut self) -> [f64; 2] {
        [true, false].map(|exact| self.peak_of(|entry| entry.exact == exact))
    }

    fn peak_of(&mut self, counts: impl Fn(&Entry) -> bool) -> f64 {
        if self.late.is_empty() {
            return self.settled_peak(counts);
        }
        let entries = self.entries.clone();
        self.settle();
        let peak = self.settled_peak(counts);
        self.entries = entries;
        peak
    }

    /// The same where nothing is late.
    ///
    /// Time is cut into short intervals. How many are held between these is added up; births and deaths are put in
    /// order only where what is born in an interval could make more than that.
    fn settled_peak(&self, counts: impl Fn(&Entry) -> bool) -> f64 {
        let used = || (self.entries.iter()).filter(|entry| entry.reads > 0 && counts(entry));
        let count = used().count().max(1);
        let end = used().map(|entry| entry.dies).fold(1.0, f64::max);
        let per_cycle = count as f64 / end;
        let last = count as u32 - 1;
        let interval = |at: f64| ((at * per_cycle) as u32).min(last);
        let mut intervals = vec![Interval::default(); count];
        // Of each group that is used, the intervals in which it is born and dies.
        let mut numbers: Vec<[u32; 2]> = Vec::with_capacity(count);
        for entry in used() {
            let [birth, death] = [entry.born, entry.dies].map(interval);
            let held = entry.held();
            intervals[birth as usize].born += held;
            intervals[death as usize].died += held;
            numbers.push([birth, death]);
        }
        let (mut live, mut peak) = (0.0_f64, 0.0_f64);
        for interval in &mut intervals {
            interval.before = live;
            live += interval.born - interval.died;
            peak = peak.max(live);
        }
        let mut events = Vec::new();
        for (entry, numbers) in used().zip(numbers) {
            for (number, is_birth) in numbers.into_iter().zip([true, false]) {
                let interval = &intervals[number as usize];
                if interval.before + interval.born > peak {
                    let (at, change) = match is_birth {
                        true => (entry.born, entry.held()),
                        false => (entry.dies, -entry.held()),
                    };
                    events.push((number, at, change));
                }
            }
        }
        events.sort_unstable_by(|(_, a, x), (_, b, y)| a.total_cmp(b).then(x.total_cmp(y)));
        for events in events.chunk_by(|a, b| a.0 == b.0) {
            let mut live = intervals[events[0].0 as usize].before;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_groups_read_what_they_are_made_of_when_they_are_first_used() {
        let mut account = Account::default();
        let [loaded, other] = [16.0, 8.0].map(|registers| account.loaded(registers, 1.0));
        let late = account.loaded(1.0, 1.0);
        account.reads_late(late, loaded);
        let later = account.loaded(1.0, 1.0);
        account.reads_late(later, late);
        account.used(other, 0.0, 50.0);
        account.used(later, 100.0, 110.0);
        account.used(loaded, 120.0, 120.0);
        // From cycle 100 on the loaded group and, to its end, half of what is made of it; the other one is gone by
        // then.
        assert_eq!(account.peak(), 16.5);
        // Nothing is settled for good: what reads the late group earlier makes it earlier.
        account.used(late, 40.0, 40.0);
        assert_eq!(account.peak(), 21.0);
    }

    #[test]
    fn what_is_computed_waits_for_the_last_of_several_operations() {
        let mut account = Account::default();
        let group = account.born(16.0, 0.03125, 0.0);
        account.shared(group, 4.0);
        for (start, peak) in [(10.0, 0.5), (20.0, 4.0)] {
            account.next_operation();
            account.used(group, start, start);
            account.used(group, start, start + 5.0);
            assert_eq!(account.peak(), peak);
        }
        account.spread(group);
        assert_eq!(account.peak(), 16.0);
    }

    #[test]
    fn what_is_loaded_for_one_operation_counts_half() {
        let mut account = Account::default();
        let group = account.loaded(16.0, 1.0);
        account.used(group, 10.0, 20.0);
        assert_eq!(account.peak(), 8.0);
        account.used(group, 30.0, 30.0);
        assert_eq!(account.peak(), 16.0);
    }
}
