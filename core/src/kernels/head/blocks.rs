//! Block sizes and the schedule of an op on a head.

use alloc::vec::Vec;

use super::{Head, HeadError, Strategy};
use crate::spec::Semantics;
use crate::target::{LANES, Target};

/// Block sizes along tokens, hidden and vocabulary, elements.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Blocks {
    /// Tokens.
    pub b: usize,
    /// Hidden.
    pub h: usize,
    /// Vocabulary.
    pub v: usize,
}

impl Blocks {
    /// `[B, H, V]` rounded up to whole blocks.
    pub fn whole(self, head: &Head) -> [usize; 3] {
        [
            head.tokens.next_multiple_of(self.b),
            head.hidden.next_multiple_of(self.h),
            head.vocab.next_multiple_of(self.v),
        ]
    }

    /// Rows and columns of an array for `dw` that a kernel reaches by copies. These take whole rows of lanes; of the
    /// last block of columns they take what is there, so that no more has to be cut off afterwards, which takes a pass
    /// and an array.
    pub(super) fn copied_dw(self, head: &Head) -> [usize; 2] {
        let [_, rows, columns] = self.whole(head);
        [rows, columns.min(head.vocab.next_multiple_of(LANES))]
    }
}

/// Everything about how the op is cut up, for one backend.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Schedule {
    /// Blocks of the forward pass.
    pub forward: Blocks,
    /// Blocks of the backward pass.
    pub backward: Blocks,
    /// Structure of the backward pass.
    pub strategy: Strategy,
    /// Streaming: columns of a chunk of delta, at most (rounded to whole blocks).
    pub chunk_columns: usize,
    /// Combined: cores, each with its own sum of a gradient, at most.
    pub cores: usize,
    /// Combined: what cores share. Of rows each has its own sum of `dw`, of columns of `dx`, which takes less memory if
    /// there are fewer tokens than columns. Columns are shared where each core has as many blocks of them.
    pub cores_split: Split,
    /// Rows whose softmax work follows their product at once; see the forward kernel.
    pub rows_per_sub_tile: usize,
    /// Whether such rows share the memory of their logits, where a step has all that these are made of: it is small
    /// enough for a cache then. A TPU computes several at a time only if each has its own.
    pub shared_sub_tiles: bool,
    /// What a step overlaps.
    pub structure: Structure,
    /// Forward: what threads share.
    pub split: Split,
    /// Streaming: what threads share of delta.
    pub delta_split: Split,
    /// Streaming: blocks of `dx`, where they are not those of delta.
    pub dx: Option<ProductBlocks>,
    /// Streaming: blocks of `dw`, where they are not those of delta.
    pub dw: Option<ProductBlocks>,
    /// Streaming: columns of a block of delta as it is made, which divide those of the blocks that products read;
    /// `None` for the same. A block of `w` as high as `H` leaves a TPU room for fewer columns than products are fastest
    /// with.
    pub delta_columns: Option<usize>,
    /// Streaming: rows of `dw` whose product is one of its own; `None` for the block in one. A TPU holds the part of
    /// `x` that such a product transposes in VMEM.
    pub dw_rows: Option<usize>,
    /// Forward, and backward by streaming: in what form the kernels get `x`.
    pub x: [XForm; 2],
    /// Streaming: whether a delta in bf16 is [packed](crate::spec::Blocked::packed).
    pub packs_delta: bool,
    /// Streaming, with f32 inputs: whether the kernels of a chunk get a `w` whose columns of the chunk are rounded to
    /// bf16 once. Delta reads these for each block of rows, and so does `dx`: half of the bytes each time, and half of
    /// the fast memory, for a pass over `w`.
    pub rounds_w: bool,
    /// Forward, and backward where logits are made again: whether `x` has one buffer. With a block as wide as `H` it is
    /// another one for the next rows only: they wait for it, and what it leaves of a TPU's fast memory makes the blocks
    /// of `w` larger.
    pub x_in_one_buffer: [bool; 2],
    /// Forward: whether exponentials follow their product at once, relative to maxima that are not kept up to
    /// date; `None` for those of rows, relative to their maximum.
    pub lazy: Option<Lazy>,
}

/// In what form kernels get `x`: as it is, or as it is made once, before the first of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum XForm {
    /// As it is.
    Given,
    /// Of f32 inputs, rounded to bf16: for products that would round it each time. Half of its bytes move, and take
    /// half of the fast memory.
    Rounded,
    /// In bf16 and [packed](crate::spec::Blocked::packed), for a TPU that would lay out its rows anew each time.
    Packed,
}

impl XForm {
    /// Name for reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Given => "given",
            Self::Rounded => "rounded",
            Self::Packed => "packed",
        }
    }
}

/// What a step that computes logits overlaps.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Structure {
    /// All it can: the softmax of a sub-tile of rows with the products of others, copies of gradients with what does
    /// not need them, of those that stay where they are.
    Overlapped,
    /// One thing at a time, as the published Pallas kernels do (levanter's of February 2026, Tokamax's of August 2026):
    /// the softmax of a block after its products, and tiles of both gradients read, updated and written back in every
    /// step. For [`Strategy::Combined`] and a forward pass that is not [lazy](Schedule::lazy).
    InTurn,
}

/// What threads share the work of a kernel by.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Split {
    /// Rows: each thread sees all columns of its own.
    Rows,
    /// Columns, for few rows and many columns: each thread packs only its own part of `w`. A forward pass has the
    /// statistics of each block of logits merged by a kernel of their own then.
    Columns,
}

impl Split {
    /// Of the axis of column blocks.
    pub(super) const fn of_columns(self) -> Semantics {
        match self {
            Self::Rows => Semantics::Arbitrary,
            Self::Columns => Semantics::Parallel,
        }
    }
}

/// Blocks of a product of a streaming pass that are its own. Its columns are those of delta, which are no columns of
/// `dx`: threads that share columns of delta have such blocks of that to share. On a TPU each kernel has VMEM of its
/// own, and each of the three fills it with other things.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ProductBlocks {
    /// Tokens.
    pub b: usize,
    /// Hidden.
    pub h: usize,
}

impl ProductBlocks {
    /// Checks those of `dx`, where it has some.
    pub(super) fn check_dx(dx: Option<Self>) -> Result<(), HeadError> {
        Self::check(dx, ["dx block b", "dx block h"])
    }

    fn check(own: Option<Self>, names: [&'static str; 2]) -> Result<(), HeadError> {
        let [of_b, of_h] = names;
        own.map_or(Ok(()), |Self { b, h }| check_sizes([(of_b, b), (of_h, h)]))
    }

    /// Blocks of a product: these, with the columns of those of delta, or those.
    pub(super) fn or(of_product: Option<Self>, blocks: Blocks) -> Blocks {
        of_product.map_or(blocks, |Self { b, h }| Blocks { b, h, ..blocks })
    }
}

/// How a forward pass folds blocks of logits that does not keep maxima up to date.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Lazy {
    /// Columns whose exponentials follow their product at once.
    pub columns: usize,
    /// Whether the block of logits is kept for the case that it has to be folded again. Otherwise it is made again
    /// where a step has all that it is made of.
    pub keeps_logits: bool,
    /// Rows at the end of each sub-tile that are added relative to their maximum. Their sums are right whatever they
    /// are, so those of the other rows are checked while the last rows are still made. 0 for none: then all sums are
    /// checked, after the last.
    pub exact_rows: usize,
    /// Whether the logit of a label is stored where it is found, under the mask of the comparison, instead of selected:
    /// an operation less for each register.
    pub stores_labels: bool,
}

impl Schedule {
    /// Both passes in these blocks, on one core: each block in one sub-tile, each chunk one column block, and nothing
    /// else that has to be asked for.
    pub const fn plain(blocks: Blocks, strategy: Strategy) -> Self {
        Self {
            forward: blocks,
            backward: blocks,
            strategy,
            chunk_columns: blocks.v,
            cores: 1,
            cores_split: Split::Rows,
            rows_per_sub_tile: blocks.b,
            shared_sub_tiles: false,
            structure: Structure::Overlapped,
            split: Split::Rows,
            delta_split: Split::Rows,
            dx: None,
            dw: None,
            delta_columns: None,
            dw_rows: None,
            x: [XForm::Given; 2],
            packs_delta: false,
            rounds_w: false,
            x_in_one_buffer: [false; 2],
            lazy: None,
        }
    }

    /// The same in blocks that are given; those of products are then like the others of the backward pass.
    #[must_use]
    pub fn in_blocks(self, forward: Option<Blocks>, backward: Option<Blocks>) -> Self {
        let of_pass = |Blocks { b, h, .. }| ProductBlocks { b, h };
        Self {
            forward: forward.unwrap_or(self.forward),
            backward: backward.unwrap_or(self.backward),
            dx: (self.dx).map(|dx| backward.map_or(dx, of_pass)),
            dw: (self.dw).map(|dw| backward.map_or(dw, of_pass)),
            ..self
        }
    }

    /// Checks that every part is at least 1 and small enough to round sizes up to it.
    pub(crate) fn check(&self) -> Result<(), HeadError> {
        let Self {
            forward, backward, ..
        } = self;
        check_sizes([
            ("forward block b", forward.b),
            ("forward block h", forward.h),
            ("forward block v", forward.v),
            ("backward block b", backward.b),
            ("backward block h", backward.h),
            ("backward block v", backward.v),
            ("chunk columns", self.chunk_columns),
            ("cores", self.cores),
            ("rows per sub-tile", self.rows_per_sub_tile),
            ("columns of delta", self.delta_columns.unwrap_or(1)),
            ("rows of dw", self.dw_rows.unwrap_or(1)),
            ("lazy columns", self.lazy.map_or(1, |lazy| lazy.columns)),
        ])?;
        ProductBlocks::check_dx(self.dx)?;
        ProductBlocks::check(self.dw, ["dw block b", "dw block h"])
    }

    /// Blocks in which delta is made, and how many of them are side by side in one that products read.
    ///
    /// # Errors
    /// They do not divide these, or are beyond the last column where these overhang the vocabulary.
    pub(super) fn delta_blocks(&self, head: &Head) -> Result<(Blocks, usize), HeadError> {
        let Blocks { b, h, v } = self.backward;
        let columns = self.delta_columns.unwrap_or(v);
        let parts = v / columns;
        if !divides_columns(head.vocab, columns, v) {
            return Err(HeadError::DeltaColumns { columns, v });
        }
        Ok((Blocks { b, h, v: columns }, parts))
    }
}

/// Whether blocks of `v` columns of a vocabulary can be made in blocks of `columns`: these divide them, and none lies
/// beyond the vocabulary.
pub fn divides_columns(vocab: usize, columns: usize, v: usize) -> bool {
    v.is_multiple_of(columns) && vocab.div_ceil(columns) == vocab.div_ceil(v) * (v / columns)
}

/// Checks that every part of a schedule is at least 1 and small enough to round sizes up to it.
pub(super) fn check_sizes<const N: usize>(
    parts: [(&'static str, usize); N],
) -> Result<(), HeadError> {
    for (name, value) in parts {
        if value == 0 {
            return Err(HeadError::EmptySchedule { name });
        }
        let limit = i32::MAX as u128;
        if value as u128 > limit {
            let value = value as u128;
            return Err(HeadError::TooLarge { name, value, limit });
        }
    }
    Ok(())
}

/// Block sizes worth trying on `target`: powers of two of its tile, the divisors of `H` among the
/// hidden blocks, and those of `V` among the column blocks: with such blocks no column has to be masked. Where none
/// divides it, three quarters of a power of two are column blocks as well if they overhang the vocabulary by no more.
pub fn candidates(head: &Head, target: &Target) -> Vec<Blocks> {
    let lanes = target.lanes.value;
    let powers = |size: usize, largest: usize| {
        // A small array still takes one block of the target's tile, which then overhangs it.
        (0..)
            .map(|i| lanes << i)
            .take_while(move |&block| block == lanes || block <= largest && block < 2 * size)
    };
    let divisors = |size: usize, largest: usize| {
        (1..=size.min(largest) / lanes)
            .map(move |i| i * lanes)
            .filter(move |&block| size.is_multiple_of(block))
    };
    let mut hidden: Vec<usize> = divisors(head.hidden, head.hidden).collect();
    if hidden.last() != Some(&head.hidden) {
        hidden.push(head.hidden);
    }
    let mut columns: Vec<usize> = powers(head.vocab, 8192).collect();
    let dividing: Vec<usize> = divisors(head.vocab, 8192).collect();
    if !dividing.iter().any(|&v| v > lanes) {
        let three_quarters = |&power: &usize| {
            let v = power / 4 * 3;
            let padded = |v| head.vocab.next_multiple_of(v);
            (v.is_multiple_of(lanes) && padded(v) <= padded(power)).then_some(v)
        };
        let more: Vec<usize> = columns.iter().filter_map(three_quarters).collect();
        columns.extend(more);
    }
    columns.extend(dividing.into_iter().filter(|v| !v.is_power_of_two()));
    columns.sort_unstable();
    let mut found = Vec::new();
    for b in powers(head.tokens, 8192) {
        for &h in &hidden {
            for &v in &columns {
                found.push(Blocks { b, h, v });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::kernels::head::{Cache, HeadOptions};

    #[test]
    fn delta_is_made_in_columns_that_fill_those_of_products() {
        for (vocab, columns, v, fill) in [
            (128_256, 384, 768, true),
            (151_936, 768, 1536, true),
            // Its 149th block of 1024 has one of 512 that is beyond the vocabulary.
            (151_936, 512, 1024, false),
            (128_256, 512, 768, false),
            (128_256, 768, 768, true),
        ] {
            assert_eq!(divides_columns(vocab, columns, v), fill, "{columns} of {v}");
        }
        let head = Head::new([8, 8, 41], DType::F32, None, HeadOptions::default()).unwrap();
        let blocks = Blocks { b: 8, h: 8, v: 6 };
        let schedule = Schedule::for_cache(&head, &Cache::of_two_megabytes(1));
        let schedule = Schedule {
            delta_columns: Some(4),
            ..schedule.in_blocks(None, Some(blocks))
        };
        let refused = schedule.delta_blocks(&head).unwrap_err();
        assert_eq!(refused, HeadError::DeltaColumns { columns: 4, v: 6 });
    }

    #[test]
    fn column_blocks_that_overhang_the_vocabulary_by_no_more_are_candidates() {
        let target = &crate::target::TARGETS[0];
        // 384 and 768 divide 128,256. No multiple of 128 but itself divides 1187 x 128 = 151,936.
        for (vocab, others) in [
            (128_256, &[384, 768][..]),
            (151_936, &[384, 768, 1536, 3072, 6144]),
            (32_768, &[]),
        ] {
            let head = [1024, 512, vocab];
            let head = Head::new(head, DType::Bf16, None, HeadOptions::default()).unwrap();
            let found = candidates(&head, target);
            let columns = found
                .iter()
                .filter(|blocks| (blocks.b, blocks.h) == (128, 512));
            let columns: Vec<usize> = columns.map(|blocks| blocks.v).collect();
            let powers = [128, 256, 512, 1024, 2048, 4096, 8192];
            let mut all = [&powers, others].concat();
            all.sort_unstable();
            assert_eq!(columns, all, "V = {vocab}");
        }
    }
}
