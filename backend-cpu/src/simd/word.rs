//! What a word of a panel is: one or two elements, or a part of them.
//!
//! A `bf16` is the high half of the `f32` it stands for, so that widening is a shift, and an `f32` is the sum of three
//! `bf16`: its 24 bits are three times eight.

use half::bf16;

use super::map::Element;

/// Rows and columns of the blocks of words that are transposed in registers.
pub(super) const TRANSPOSED: usize = 8;

/// How elements become words of each of the `PARTS` that add up to them.
pub(super) trait Word<const PARTS: usize> {
    type Element: Element;
    /// Consecutive depths in a word.
    const DEPTHS: usize;
    /// The words of two consecutive depths, of which the second counts only if `DEPTHS` is two.
    fn join(first: Self::Element, second: Self::Element) -> [u32; PARTS];
    /// The first eight words of each part of a run along the depth.
    #[inline(always)]
    fn eight(run: &[Self::Element]) -> [[u32; TRANSPOSED]; PARTS] {
        let mut words = [[0; TRANSPOSED]; PARTS];
        let run = run[..TRANSPOSED * Self::DEPTHS].chunks_exact(Self::DEPTHS);
        for (i, depths) in run.enumerate() {
            let parts = Self::join(depths[0], depths[Self::DEPTHS - 1]);
            for (words, part) in words.iter_mut().zip(parts) {
                words[i] = part;
            }
        }
        words
    }
}

/// An `f32` is a word.
pub(super) struct Single;

impl Word<1> for Single {
    type Element = f32;
    const DEPTHS: usize = 1;

    #[inline(always)]
    fn join(first: f32, _: f32) -> [u32; 1] {
        [first.to_bits()]
    }
}

/// A `bf16` is the high half of an `f32` word.
pub(super) struct Widened;

impl Word<1> for Widened {
    type Element = bf16;
    const DEPTHS: usize = 1;

    #[inline(always)]
    fn join(first: bf16, _: bf16) -> [u32; 1] {
        [u32::from(first.to_bits()) << 16]
    }
}

/// Where the `bf16` is in the bits of an `f32`.
const HIGH_HALF: u32 = 0xffff_0000;

/// Eight bits each make the 24 of an `f32`.
pub(super) const SPLIT_PARTS: usize = 3;

/// The three `bf16` that add up to an `f32`; those of two depths share a word.
///
/// Each is what the earlier ones leave, cut off after eight bits. Cut off rather than rounded: what is left has the
/// same sign, so that no part overflows where the number does not.
///
/// Infinity times a number has to be what it is without parts, but times a part that is 0 it would be NaN. So a part is
/// 0 only of 0 and of what products take for it: to what is left, 2^-126 with the sign of the number is added, of which
/// larger parts keep nothing. The parts of infinity are infinite.
pub(super) struct Split;

impl Split {
    /// The parts are the high halves; what is below them does not count.
    #[inline(always)]
    fn parts(x: f32) -> [u32; SPLIT_PARTS] {
        const SIGN: u32 = 0x8000_0000;
        const INFINITY: u32 = 0x7f80_0000;
        const LEAST_NORMAL: u32 = 0x0080_0000;
        let bits = x.to_bits();
        let exponent = bits & INFINITY;
        let least = match exponent {
            0 => 0.0,
            _ => f32::from_bits(bits & SIGN | LEAST_NORMAL),
        };
        // Nothing is taken from infinity, so that all of its parts are.
        let cut = |x: f32| match exponent {
            INFINITY => 0.0,
            _ => f32::from_bits(x.to_bits() & HIGH_HALF),
        };
        let next = x - cut(x) + least;
        let last = next - cut(next) + least;
        [x, next, last].map(f32::to_bits)
    }
}

impl Word<SPLIT_PARTS> for Split {
    type Element = f32;
    const DEPTHS: usize = 2;

    #[inline(always)]
    fn join(first: f32, second: f32) -> [u32; SPLIT_PARTS] {
        let [first, second] = [first, second].map(Self::parts);
        std::array::from_fn(|part| first[part] >> 16 | second[part] & HIGH_HALF)
    }

    #[inline(always)]
    fn eight(run: &[f32]) -> [[u32; TRANSPOSED]; SPLIT_PARTS] {
        // High halves one after the other are words already, and vectors are narrowed faster than neighbours are
        // joined.
        let mut halves = [[0_u16; 2 * TRANSPOSED]; SPLIT_PARTS];
        for (i, &x) in run[..2 * TRANSPOSED].iter().enumerate() {
            for (halves, part) in halves.iter_mut().zip(Self::parts(x)) {
                halves[i] = (part >> 16) as u16;
            }
        }
        halves.map(|halves| bytemuck::cast::<_, [u32; TRANSPOSED]>(halves).map(u32::from_le))
    }
}

/// Two `bf16` share a word.
pub(super) struct Pairs;

impl Word<1> for Pairs {
    type Element = bf16;
    const DEPTHS: usize = 2;

    #[inline(always)]
    fn join(first: bf16, second: bf16) -> [u32; 1] {
        [u32::from(first.to_bits()) | u32::from(second.to_bits()) << 16]
    }

    #[inline(always)]
    fn eight(run: &[bf16]) -> [[u32; TRANSPOSED]; 1] {
        // As bytes in memory a pair already is a little-endian word.
        let words: [u32; TRANSPOSED] =
            bytemuck::cast(*run.first_chunk::<16>().expect("eight words"));
        [words.map(u32::from_le)]
    }
}
