//! How blocks are dealt: to the chunks that a loop makes, and to cores.

use core::ops::Range;

use super::Head;
use super::blocks::{Blocks, Split};
use crate::program::LoopCounter;
use crate::spec::Affine;

/// How a loop cuts blocks into chunks of equal size: column blocks of the vocabulary, or row blocks of the tokens.
///
/// The last chunk is moved back so that it ends with the last block; the blocks it shares with the
/// one before it are `covered`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Chunks {
    /// Blocks of a chunk.
    pub(super) blocks: usize,
    /// Number of chunks.
    pub(super) count: usize,
    /// First block of the first chunk.
    start: usize,
    /// Block after the last one of the last chunk.
    end: usize,
}

impl Chunks {
    /// Chunks of at most `chunk_columns` columns, but at least one block.
    pub(super) fn of_columns(head: &Head, blocks: Blocks, chunk_columns: usize) -> Self {
        let all = head.vocab.div_ceil(blocks.v);
        Self::of_blocks(0..all, chunk_columns / blocks.v)
    }

    /// The same columns in chunks of which none is moved back: of blocks without overhang as many chunks of equal size
    /// as there are, one of the blocks that these leave, and one of the block that overhangs. Each of the three may
    /// have no chunk.
    pub(super) fn of_columns_once(head: &Head, blocks: Blocks, chunk_columns: usize) -> [Self; 3] {
        let [whole, all] = [head.vocab / blocks.v, head.vocab.div_ceil(blocks.v)];
        let equal = Self::of_blocks(0..whole, chunk_columns / blocks.v);
        let count = whole / equal.blocks;
        let equal = Self { count, ..equal };
        let left = count * equal.blocks;
        [
            equal,
            Self::of_blocks(left..whole, whole - left),
            Self::of_blocks(whole..all, all - whole),
        ]
    }

    /// Chunks of at most `chunk_rows` rows, but at least one block.
    pub(super) fn of_rows(head: &Head, blocks: Blocks, chunk_rows: usize) -> Self {
        let all = head.tokens.div_ceil(blocks.b);
        Self::of_blocks(0..all, chunk_rows / blocks.b)
    }

    fn of_blocks(range: Range<usize>, at_most: usize) -> Self {
        let Range { start, end } = range;
        let count = range.len().div_ceil(at_most.max(1));
        let blocks = range.len().div_ceil(count.max(1)).max(1);
        Self {
            blocks,
            count,
            start,
            end,
        }
    }

    /// The same columns in blocks each of which is so many of these.
    pub(super) const fn cut(self, parts: usize) -> Self {
        Self {
            blocks: self.blocks * parts,
            count: self.count,
            start: self.start * parts,
            end: self.end * parts,
        }
    }

    /// Where the chunk would start if it was not moved back.
    fn unmoved(self) -> Affine<LoopCounter> {
        Affine::Variable(LoopCounter) * self.blocks as i64 + self.start as i64
    }

    /// First block of the chunk.
    pub(super) fn first(self) -> Affine<LoopCounter> {
        self.unmoved().at_most((self.end - self.blocks) as i64)
    }

    /// How many of the chunk's first blocks belong to the chunk before as well.
    pub(super) fn covered(self) -> Affine<LoopCounter> {
        self.unmoved() + self.first() * -1
    }
}

/// How the combined backward deals row blocks or column blocks to cores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cores {
    /// Cores in use; each has at least one block.
    pub(super) count: usize,
    /// Blocks of a core; of rows the last may have fewer.
    pub(super) blocks_each: usize,
    /// What they are blocks of.
    pub(super) split: Split,
}

impl Cores {
    /// `at_most` cores share the blocks by `split`, or by rows if that leaves one of them fewer columns.
    pub(super) fn new(head: &Head, blocks: Blocks, at_most: usize, split: Split) -> Self {
        let column_blocks = head.vocab.div_ceil(blocks.v);
        let (split, all) = match split {
            Split::Columns if at_most > 1 && column_blocks.is_multiple_of(at_most) => {
                (split, column_blocks)
            }
            _ => (Split::Rows, head.tokens.div_ceil(blocks.b)),
        };
        let blocks_each = all.div_ceil(at_most);
        Self {
            count: all.div_ceil(blocks_each),
            blocks_each,
            split,
        }
    }

    /// `at_most` cores share the columns, of which the last may have fewer blocks than the others.
    pub(super) fn of_columns(head: &Head, blocks: Blocks, at_most: usize) -> Self {
        let all = head.vocab.div_ceil(blocks.v);
        let blocks_each = all.div_ceil(at_most.max(1));
        Self {
            count: all.div_ceil(blocks_each),
            blocks_each,
            split: Split::Columns,
        }
    }

    /// How many sums there are of `dw`.
    pub(super) const fn sums_of_dw(self) -> usize {
        match self.split {
            Split::Rows => self.count,
            Split::Columns => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::DType;
    use crate::kernels::head::HeadOptions;

    #[test]
    fn chunks_cover_every_column_block_once() {
        for vocab in 1..60 {
            let head = Head::new([8, 8, vocab], DType::F32, None, HeadOptions::default()).unwrap();
            for v in 1..9 {
                for chunk_columns in 1..30 {
                    let blocks = Blocks { b: 8, h: 8, v };
                    let chunks = Chunks::of_columns(&head, blocks, chunk_columns);
                    let mut new_blocks = Vec::new();
                    for c in 0..chunks.count as i64 {
                        let first = chunks.first().evaluate(&|LoopCounter| c);
                        let covered = chunks.covered().evaluate(&|LoopCounter| c);
                        assert!(first >= 0 && covered >= 0);
                        assert!((c == 0) == (first == 0), "only the first chunk starts at 0");
                        new_blocks.extend(first + covered..first + chunks.blocks as i64);
                    }
                    let all: Vec<i64> = (0..chunks.end as i64).collect();
                    assert_eq!(new_blocks, all, "{chunks:?}");
                }
            }
        }
    }

    #[test]
    fn narrow_blocks_are_in_the_chunks_of_wide_ones() {
        let head = Head::new([8, 8, 41], DType::F32, None, HeadOptions::default()).unwrap();
        let blocks = Blocks { b: 8, h: 8, v: 6 };
        let chunks = Chunks::of_columns(&head, blocks, 24);
        // The same columns, where the last chunk is moved back too.
        let narrow = chunks.cut(2);
        assert_eq!(narrow.end, head.vocab.div_ceil(3));
        for c in 0..chunks.count as i64 {
            let at = |affine: Affine<LoopCounter>| affine.evaluate(&|LoopCounter| c);
            assert_eq!(at(narrow.first()), 2 * at(chunks.first()));
            assert_eq!(at(narrow.covered()), 2 * at(chunks.covered()));
        }
    }

    #[test]
    fn every_core_has_a_row_block() {
        for tokens in 1..40 {
            let head = Head::new([tokens, 8, 8], DType::F32, None, HeadOptions::default()).unwrap();
            for b in 1..9 {
                for at_most in 1..6 {
                    let blocks = Blocks { b, h: 8, v: 8 };
                    let cores = Cores::new(&head, blocks, at_most, Split::Rows);
                    let row_blocks = tokens.div_ceil(b);
                    assert!(cores.count <= at_most);
                    assert!((cores.count - 1) * cores.blocks_each < row_blocks);
                    assert!(cores.count * cores.blocks_each >= row_blocks);
                }
            }
        }
    }

    #[test]
    fn every_core_has_columns_and_none_is_left() {
        for vocab in 1..60 {
            let head = Head::new([8, 8, vocab], DType::F32, None, HeadOptions::default()).unwrap();
            for at_most in 0..9 {
                let (b, h, v) = (8, 8, 5);
                let cores = Cores::of_columns(&head, Blocks { b, h, v }, at_most);
                let all = vocab.div_ceil(v);
                assert!(cores.count <= at_most.max(1));
                assert!((cores.count - 1) * cores.blocks_each < all);
                assert!(cores.count * cores.blocks_each >= all);
            }
        }
    }

    #[test]
    fn cores_share_columns_if_each_has_as_many_blocks() {
        let head = Head::new([64, 8, 48], DType::F32, None, HeadOptions::default()).unwrap();
        for at_most in 1..9 {
            let (b, h, v) = (16, 8, 8);
            let cores = Cores::new(&head, Blocks { b, h, v }, at_most, Split::Columns);
            let (split, sums) = match at_most {
                2 | 3 | 6 => (Split::Columns, 1),
                _ => (Split::Rows, cores.count),
            };
            assert_eq!(
                (cores.split, cores.sums_of_dw()),
                (split, sums),
                "{at_most}"
            );
        }
    }
}
