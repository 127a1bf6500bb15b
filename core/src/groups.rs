//! [`Groups`]: rows that lie side by side by group, and the steps that visit them.
//!
//! A mixture of experts sorts its tokens by expert. How many each expert gets is known only when the model runs, yet
//! the grid of a kernel has a fixed number of steps, and its blocks of rows do not end where groups end. So a step is
//! a *visit*: of one block of rows for one group. Blocks that two groups share are visited by both, one after the
//! other; the visit says which of the rows are its own.
//!
//! ```text
//! sizes 5, 0, 3 of 12 rows, in blocks of 4          visit  group  block  first  end  opens
//! rows   0 0 0 0 | 0 2 2 2 | - - - -                  0      0      0      0     4     1
//!                                                     1      0      1      0     1     0
//!                                                     2      1      1      1     1     1    no rows, but seen
//!                                                     3      2      1      1     4     1
//!                                                     4      2      2      0     0     0    rows of no group
//!                                                     5      2      2      4     4     0    nothing
//!                                                     -                    0           1    behind the last
//! ```
//!
//! Every group and every block is visited at least once, and both ascend: so a kernel writes all of its results, also
//! those of groups without rows and of rows without a group, and comes back to none. `ceil(rows / block) + groups`
//! visits are always enough. The idea that two groups visit a shared block in turn is that of `MegaBlocks` on TPUs
//! (`jax/experimental/pallas/ops/tpu/megablox`).

use alloc::vec::Vec;

use thiserror::Error;

use crate::ops::TileOps;
use crate::spec::{SpecBuilder, Table};
use crate::view::TableRef;

/// Rows in groups and in blocks; the sizes of the groups are not known yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Groups {
    rows: usize,
    count: usize,
    block: usize,
}

/// The tables of visits, as a kernel sees them.
#[derive(Clone, Copy, Debug)]
pub struct Visits {
    /// The group.
    pub group: TableRef,
    /// The block of rows.
    pub block: TableRef,
    /// The first row of the block that is of the group; 0 behind the last visit.
    pub first: TableRef,
    /// The first row behind them.
    pub end: TableRef,
    /// 1 where a group is visited for the first time, and behind the last visit.
    pub opens: TableRef,
}

impl Visits {
    /// The first row of its block that a visit works on, and the first behind them.
    pub fn own_rows<T: TileOps>(&self, t: &T, visit: T::Index) -> [T::Index; 2] {
        [self.first, self.end].map(|table| t.element(table, visit))
    }

    /// Whether the rows of a block may all have been visited: the next visit begins a block, or is the first of this
    /// one that has rows.
    pub fn ends_block<T: TileOps>(&self, t: &T, visit: T::Index) -> T::Condition {
        t.equals(t.element(self.first, visit + t.index(1)), t.index(0))
    }
}

/// Why rows cannot be in groups of these sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum GroupsError {
    /// There are none of something, or more than tables can count.
    #[error("{what} is {size}; it must be at least 1 and less than 2^30")]
    Size {
        /// What there is none of.
        what: &'static str,
        /// How many there are.
        size: usize,
    },
    /// A size is negative.
    #[error("group {group} has size {size}; sizes are at least 0")]
    Negative {
        /// Group.
        group: usize,
        /// Its size.
        size: i32,
    },
    /// There are fewer rows than the groups have.
    #[error("the groups have {total} rows together, there are {rows}")]
    TooMany {
        /// Sum of the sizes.
        total: u64,
        /// Rows.
        rows: usize,
    },
}

impl Groups {
    /// `rows` in `count` groups, in blocks of `block` rows.
    ///
    /// # Errors
    /// One of them is 0, or 2^30 and more.
    pub fn new(rows: usize, count: usize, block: usize) -> Result<Self, GroupsError> {
        let sizes = [
            ("rows", rows),
            ("groups", count),
            ("rows of a block", block),
        ];
        match sizes
            .into_iter()
            .find(|&(_, size)| size == 0 || size >= 1 << 30)
        {
            Some((what, size)) => Err(GroupsError::Size { what, size }),
            None => Ok(Self { rows, count, block }),
        }
    }

    /// Number of rows.
    pub const fn rows(self) -> usize {
        self.rows
    }

    /// Number of groups.
    pub const fn count(self) -> usize {
        self.count
    }

    /// Rows of a block.
    pub const fn block(self) -> usize {
        self.block
    }

    /// Number of blocks of rows.
    pub const fn blocks(self) -> usize {
        self.rows.div_ceil(self.block)
    }

    /// Number of visits: as many as are enough for groups of any sizes.
    pub const fn visits(self) -> usize {
        self.blocks() + self.count
    }

    /// Lengths of the tables, in the order of [`Visits`].
    pub const fn lengths(self) -> [usize; 5] {
        let visits = self.visits();
        [visits, visits, visits + 1, visits, visits + 1]
    }

    /// Declares the tables of a kernel, which a model takes to be those of [typical](Self::typical) groups.
    pub fn declare(self, spec: &mut SpecBuilder) -> Visits {
        let typical = self.tables(&self.typical());
        let [group, block, first, end, opens] = typical.expect("they have all rows, no more");
        let mut table = |name, typical, last: usize, ascending| {
            spec.table(Table {
                name,
                last: last as i64,
                ascending,
                typical,
            })
        };
        Visits {
            group: table("group", group, self.count - 1, true),
            block: table("block", block, self.blocks() - 1, true),
            first: table("first", first, self.block, false),
            end: table("end", end, self.block, false),
            opens: table("opens", opens, 1, false),
        }
    }

    /// Checks sizes, one for each group.
    ///
    /// # Errors
    /// [`GroupsError`] names the first group of negative size, or how many rows there are too few.
    pub fn check(self, sizes: &[i32]) -> Result<(), GroupsError> {
        if let Some((group, &size)) = sizes.iter().enumerate().find(|(_, size)| **size < 0) {
            return Err(GroupsError::Negative { group, size });
        }
        let total = sizes.iter().map(|&size| size as u64).sum();
        match total > self.rows as u64 {
            true => Err(GroupsError::TooMany {
                total,
                rows: self.rows,
            }),
            false => Ok(()),
        }
    }

    /// The tables for groups of these sizes, in the order of [`Visits`].
    ///
    /// # Errors
    /// As for [`Self::check`].
    pub fn tables(self, sizes: &[i32]) -> Result<[Vec<i32>; 5], GroupsError> {
        self.check(sizes)?;
        let last_block = self.blocks() - 1;
        let mut tables = self.lengths().map(Vec::with_capacity);
        let mut visit = |values: [usize; 5]| {
            for (table, value) in tables.iter_mut().zip(values) {
                table.push(value as i32);
            }
        };
        let (mut start, mut visits) = (0, 0);
        for (group, &size) in sizes.iter().enumerate() {
            let end = start + size as usize;
            let first_block = (start / self.block).min(last_block);
            let blocks = first_block..=first_block.max(end.saturating_sub(1) / self.block);
            for block in blocks {
                let row = |row: usize| row.saturating_sub(block * self.block).min(self.block);
                let opens = usize::from(block == first_block);
                visit([group, block, row(start), row(end), opens]);
                visits += 1;
            }
            start = end;
        }
        let group = self.count - 1;
        for block in start.div_ceil(self.block)..self.blocks() {
            visit([group, block, 0, 0, 0]);
            visits += 1;
        }
        for _ in visits..self.visits() {
            visit([group, last_block, self.block, self.block, 0]);
        }
        tables[2].push(0);
        tables[4].push(1);
        Ok(tables)
    }

    /// Sizes of groups that share all rows almost evenly, as a balanced router makes them: their ends lie anywhere in
    /// blocks, so that blocks are shared as they are with sizes that are known only when a model runs.
    pub fn typical(self) -> Vec<i32> {
        // Multiples of the golden ratio, modulo 1, are spread evenly however many there are.
        let start = |group: usize| {
            let even = self.rows as u128 * group as u128 / self.count as u128;
            let most = self.block.min(self.rows / self.count) as u128;
            let shift = most * (group as u128 * 618 % 1000) / 1000;
            match group == self.count {
                true => self.rows as u128,
                false => even + shift,
            }
        };
        (0..self.count)
            .map(|group| (start(group + 1) - start(group)) as i32)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec;

    #[test]
    fn tables_are_those_of_the_module_text() {
        let groups = Groups::new(12, 3, 4).unwrap();
        let tables = groups.tables(&[5, 0, 3]).unwrap();
        assert_eq!(tables[0], [0, 0, 1, 2, 2, 2]);
        assert_eq!(tables[1], [0, 1, 1, 1, 2, 2]);
        assert_eq!(tables[2], [0, 0, 1, 1, 0, 4, 0]);
        assert_eq!(tables[3], [4, 1, 1, 4, 0, 4]);
        assert_eq!(tables[4], [1, 0, 1, 1, 0, 0, 1]);
    }

    /// Of all sizes of three groups of up to ten rows: each row is visited by its group once, groups and blocks ascend
    /// and are all seen, and the first visit of a block begins with its first row.
    #[test]
    fn every_row_is_visited_by_its_group() {
        for (rows, block) in [(10, 4), (10, 3), (8, 4), (1, 4), (10, 10)] {
            let groups = Groups::new(rows, 3, block).unwrap();
            for code in 0..(rows + 1).pow(3) {
                let sizes = [0, 1, 2].map(|i| (code / (rows + 1).pow(i) % (rows + 1)) as i32);
                let Ok(tables) = groups.tables(&sizes) else {
                    assert!(sizes.iter().sum::<i32>() > rows as i32);
                    continue;
                };
                let mut owner = vec![None; rows];
                let mut seen = [-1, -1];
                for visit in 0..groups.visits() {
                    let [group, block_, first, end] = [0, 1, 2, 3].map(|i| tables[i][visit]);
                    for (seen, now) in seen.iter_mut().zip([group, block_]) {
                        assert!(now == *seen || now == *seen + 1, "{sizes:?}");
                        *seen = now;
                    }
                    let opens = visit == 0 || tables[0][visit - 1] != group;
                    assert_eq!(tables[4][visit], i32::from(opens), "{sizes:?}");
                    if visit == 0 || tables[1][visit - 1] != block_ {
                        assert_eq!(first, 0, "{sizes:?}");
                    } else if first == 0 {
                        let end_before = tables[3][visit - 1];
                        assert_eq!(end_before, 0, "rows of {sizes:?} would be forgotten");
                    }
                    for row in first..end {
                        let row = block_ as usize * block + row as usize;
                        assert_eq!(owner[row].replace(group), None);
                    }
                }
                let last = [groups.count - 1, groups.blocks() - 1].map(|last| last as i32);
                assert_eq!(seen, last, "{sizes:?}");
                let expected = sizes.iter().enumerate();
                let mut expected: Vec<_> = expected
                    .flat_map(|(group, &size)| vec![Some(group as i32); size as usize])
                    .collect();
                expected.resize(rows, None);
                assert_eq!(owner, expected, "{sizes:?}");
            }
        }
    }

    #[test]
    fn there_are_rows_groups_and_blocks() {
        let error = Groups::new(8, 2, 0).unwrap_err().to_string();
        let message = "rows of a block is 0; it must be at least 1 and less than 2^30";
        assert_eq!(error, message);
        assert!(Groups::new(8, 1 << 30, 4).is_err());
    }

    #[test]
    fn sizes_that_do_not_fit_are_errors() {
        let groups = Groups::new(8, 2, 4).unwrap();
        let error = |sizes: [i32; 2]| groups.check(&sizes).unwrap_err().to_string();
        assert_eq!(error([3, -1]), "group 1 has size -1; sizes are at least 0");
        assert_eq!(
            error([i32::MAX, 2]),
            "the groups have 2147483649 rows together, there are 8"
        );
    }

    #[test]
    fn typical_groups_have_all_rows_and_share_blocks() {
        for (rows, count, block) in [(8192, 8, 512), (100, 7, 16), (5, 8, 4), (8192, 128, 256)] {
            let groups = Groups::new(rows, count, block).unwrap();
            let sizes = groups.typical();
            assert!(groups.check(&sizes).is_ok());
            assert_eq!(sizes.iter().sum::<i32>(), rows as i32);
            let most = sizes.iter().max().copied().unwrap();
            assert!(most as usize <= 2 * rows.div_ceil(count), "{sizes:?}");
        }
        let groups = Groups::new(8192, 8, 512).unwrap();
        let [_, _, first, end, _] = groups.tables(&groups.typical()).unwrap();
        let shared = first
            .iter()
            .zip(&end)
            .filter(|(first, end)| 0 < **end - **first && **end - **first < 512);
        assert_eq!(shared.count(), 14);
    }
}
