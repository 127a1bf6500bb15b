//! What a word of a panel is: one or two elements, or a part of them.
//!
//! A `bf16` is the high half of the `f32` it stands for, so that widening is a shift, and an `f32` is the sum of three `bf16`:
//! its 24 bits are three times eight.

use half::bf16;

use super::map::Element;

/// Rows and columns of the blocks of words that are transposed in registers.
pub(super) const TRANSPOSED: usize = 8;

/// How elements become words.
pub(super) trait Word {
    type Element: Element;
    /// Consecutive depths in a word.
    const DEPTHS: usize;
    /// A word of two consecutive depths, of which the second counts only if `DEPTHS` is two.
    fn join(first: Self::Element, second: Self::Element) -> u32;
    /// The first eight words of a run along the depth.
    #[inline(always)]
    fn eight(run: &[Self::Element]) -> [u32; TRANSPOSED] {
        let mut words = [0; TRANSPOSED];
        let run = run[..TRANSPOSED * Self::DEPTHS].chunks_exact(Self::DEPTHS);
        for (word, depths) in words.iter_mut().zip(run) {
            *word = Self::join(depths[0], depths[Self::DEPTHS - 1]);
        }
        words
    }
}

/// An `f32` is a word.
pub(super) struct Single;

impl Word for Single {
    type Element = f32;
    const DEPTHS: usize = 1;

    #[inline(always)]
    fn join(first: f32, _: f32) -> u32 {
        first.to_bits()
    }
}

/// A `bf16` is the high half of an `f32` word.
pub(super) struct Widened;

impl Word for Widened {
    type Element = bf16;
    const DEPTHS: usize = 1;

    #[inline(always)]
    fn join(first: bf16, _: bf16) -> u32 {
        u32::from(first.to_bits()) << 16
    }
}

/// One of the three `bf16` that add up to an `f32`; two of them share a word.
///
/// Each is what the earlier ones leave, cut off after eight bits. Cut off rather than rounded: what is left has the same
/// sign, so that no part overflows where the number does not.
pub(super) struct Part<const INDEX: usize>;

impl<const INDEX: usize> Part<INDEX> {
    #[inline(always)]
    fn of(x: f32) -> u32 {
        const HIGH_HALF: u32 = 0xffff_0000;
        const INFINITY: u32 = 0x7f80_0000;
        const QUIET: u32 = 0x0040_0000;
        let high = x.to_bits() & HIGH_HALF;
        let left = x - f32::from_bits(high);
        let next = left.to_bits() & HIGH_HALF;
        let part = match INDEX {
            // The bits of a NaN that remain may be those of infinity: a quiet bit keeps it.
            0 => high | if x.is_nan() { QUIET } else { 0 },
            1 => next,
            _ => (left - f32::from_bits(next)).to_bits(),
        };
        // Infinity less itself would be NaN.
        let is_finite = x.to_bits() & INFINITY != INFINITY;
        if INDEX == 0 || is_finite {
            part >> 16
        } else {
            0
        }
    }
}

impl<const INDEX: usize> Word for Part<INDEX> {
    type Element = f32;
    const DEPTHS: usize = 2;

    #[inline(always)]
    fn join(first: f32, second: f32) -> u32 {
        Self::of(first) | Self::of(second) << 16
    }
}

/// Two `bf16` share a word.
pub(super) struct Pairs;

impl Word for Pairs {
    type Element = bf16;
    const DEPTHS: usize = 2;

    #[inline(always)]
    fn join(first: bf16, second: bf16) -> u32 {
        u32::from(first.to_bits()) | u32::from(second.to_bits()) << 16
    }

    #[inline(always)]
    fn eight(run: &[bf16]) -> [u32; TRANSPOSED] {
        // As bytes in memory a pair already is a little-endian word.
        let words: [u32; TRANSPOSED] =
            bytemuck::cast(*run.first_chunk::<16>().expect("eight words"));
        words.map(u32::from_le)
    }
}
