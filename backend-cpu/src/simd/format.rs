//! Panels: what a packed operand of the matrix product holds, and where.
//!
//! A panel is `width` lanes of the operand (rows of the left one, columns of the right one) over its whole depth,
//! depth-major: the words of all lanes at depth 0, then at depth 1, and so on. In `bf16` arithmetic a word is a pair
//! of consecutive depths, the earlier one in the low half. The left panels of tile registers keep a
//! [`run`](PanelFormat::run) of depth words of a lane together.
//!
//! ```text
//! lanes 0..width        depth word 0 | depth word 1 | ...   panel 0
//! lanes width..2 width  depth word 0 | depth word 1 | ...   panel 1
//! ```

use super::word::SPLIT_PARTS;

/// The number format of packed panels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arithmetic {
    /// `f32` words: products and sums in `f32`. `bf16` values are widened.
    F32,
    /// Words of two `bf16`: products of `bf16`, sums in `f32`. The instruction takes denormals as zero.
    Bf16,
    /// As [`Bf16`](Self::Bf16), with each `f32` operand as the sum of three `bf16` ones, which it is to 2^-125. Beside
    /// a `bf16` operand the three products are exact. Two `f32` operands take six: the three smallest, which are left
    /// out, are 2^-21 of a product at most and about 2^-24 in the mean, as much as rounding it to `f32` may cost.
    Split,
}

impl Arithmetic {
    /// Depths in a word.
    pub(crate) const fn depths_per_word(self) -> usize {
        match self {
            Self::F32 => 1,
            Self::Bf16 | Self::Split => 2,
        }
    }

    /// Products of operands in panels that make one of operands of which so many are `bf16`.
    pub(crate) const fn products(self, bf16_operands: usize) -> usize {
        match (self, bf16_operands) {
            (Self::Split, 1) => SPLIT_PARTS,
            (Self::Split, 0) => SPLIT_PARTS * (SPLIT_PARTS + 1) / 2,
            _ => 1,
        }
    }

    /// Operands in panels whose sum stands for one that is `bf16` or not.
    pub(crate) const fn parts(self, is_bf16: bool) -> usize {
        match (self, is_bf16) {
            (Self::Split, false) => SPLIT_PARTS,
            _ => 1,
        }
    }

    /// Bytes of an element of an operand that is `bf16` or not, packed.
    pub(crate) const fn packed_bytes(self, is_bf16: bool) -> usize {
        self.parts(is_bf16) * size_of::<f32>() / self.depths_per_word()
    }
}

/// How one side of a product is laid out in panels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PanelFormat {
    pub(crate) arithmetic: Arithmetic,
    /// Lanes of a panel.
    pub(crate) width: usize,
    /// Consecutive depth words of a lane that lie together.
    pub(crate) run: usize,
    /// Depth words of a panel are zeros from the operand's depth up to a multiple of this, itself a multiple of `run`.
    pub(crate) depth_multiple: usize,
    /// Depth words of a right panel that stay in the cache while left panels pass by, a multiple of `depth_multiple`.
    pub(crate) most_slice_words: usize,
}

impl PanelFormat {
    /// Words of the depth of a panel.
    pub(crate) const fn depth_words(&self, depth: usize) -> usize {
        depth
            .div_ceil(self.arithmetic.depths_per_word())
            .next_multiple_of(self.depth_multiple)
    }

    /// Depth words after which a product turns to the next right panel, if that is the sum of so many.
    pub(crate) const fn slice_words(&self, parts: usize) -> usize {
        self.most_slice_words / parts / self.depth_multiple * self.depth_multiple
    }

    /// Where in its panel the word of a lane stands.
    #[inline(always)]
    pub(super) fn place(&self, lane: usize, word: usize) -> usize {
        match self.run {
            // Most are, and divisions take long.
            1 => word * self.width + lane,
            run => word / run * (run * self.width) + lane * run + word % run,
        }
    }
}
