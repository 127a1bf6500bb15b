//! Packing: an operand of the matrix product is copied into panels in exactly the order the microkernel reads it.
//!
//! A panel is `width` lanes of the operand (rows of the left one, columns of the right one) over its whole depth,
//! depth-major: the words of all lanes at depth 0, then at depth 1, and so on. In `bf16` arithmetic a word is a pair
//! of consecutive depths, the earlier one in the low half.
//!
//! ```text
//! lanes 0..width        depth word 0 | depth word 1 | ...   panel 0
//! lanes width..2 width  depth word 0 | depth word 1 | ...   panel 1
//! ```
//!
//! Where the lanes are contiguous in the source, a panel is filled by copying runs; where the depth is, by
//! transposing 8 x 8 blocks of words in registers. Everything else, including every edge, goes word by word through
//! [`View::word`], which states what a word is.

use half::bf16;

use super::vector::{Kernel, Vector};

/// Values of an operand as stored.
#[derive(Debug, Clone, Copy)]
pub enum Values<'a> {
    /// 32-bit floats.
    F32(&'a [f32]),
    /// 16-bit brain floats.
    Bf16(&'a [bf16]),
}

impl<'a> Values<'a> {
    /// Some of the values.
    pub(crate) fn range(&self, range: std::ops::Range<usize>) -> Values<'a> {
        match self {
            Self::F32(values) => Values::F32(&values[range]),
            Self::Bf16(values) => Values::Bf16(&values[range]),
        }
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::Bf16(values) => values.len(),
        }
    }

    /// Whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The number format of packed panels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arithmetic {
    /// `f32` words: products and sums in `f32`. `bf16` values are widened.
    F32,
    /// Words of two `bf16`: products of `bf16`, sums in `f32`. The instruction takes denormals as zero.
    Bf16,
}

/// Where the lanes and depths of an operand lie in its values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extents {
    pub(crate) offset: usize,
    pub(crate) lanes: usize,
    pub(crate) depth: usize,
    pub(crate) lane_stride: usize,
    pub(crate) depth_stride: usize,
    pub(crate) valid_lanes: usize,
    pub(crate) valid_depth: usize,
    /// The value of elements that are logical but not valid.
    pub(crate) fill: f32,
}

/// An operand to pack.
pub(crate) struct Pack<'a> {
    pub(crate) values: Values<'a>,
    pub(crate) extents: Extents,
    /// Pairs of `bf16` if set, which takes `bf16` values; `f32` words otherwise.
    pub(crate) pairs: bool,
    /// Lanes of a panel.
    pub(crate) width: usize,
    /// `extents.lanes` rounded up to panels, times the words of the depth.
    pub(crate) panels: &'a mut [u32],
}

impl Kernel for Pack<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, isa: V::Isa) {
        let Self {
            extents,
            width,
            panels,
            ..
        } = self;
        match self.values {
            Values::F32(values) => {
                View::<Single>::new(values, extents).pack::<V>(isa, width, panels);
            }
            Values::Bf16(values) if self.pairs => {
                View::<Pairs>::new(values, extents).pack::<V>(isa, width, panels);
            }
            Values::Bf16(values) => {
                View::<Widened>::new(values, extents).pack::<V>(isa, width, panels);
            }
        }
    }
}

/// How elements become words.
trait Word {
    type Element: Copy;
    /// Consecutive depths in a word.
    const DEPTHS: usize;
    /// A word of two consecutive depths, of which the second counts only if `DEPTHS` is two.
    fn join(first: Self::Element, second: Self::Element) -> u32;
    /// The first eight words of a run along the depth.
    fn eight(run: &[Self::Element]) -> [u32; 8];
    fn from_f32(value: f32) -> Self::Element;
}

/// An `f32` is a word.
struct Single;

impl Word for Single {
    type Element = f32;
    const DEPTHS: usize = 1;

    #[inline(always)]
    fn join(first: f32, _: f32) -> u32 {
        first.to_bits()
    }

    #[inline(always)]
    fn eight(run: &[f32]) -> [u32; 8] {
        bytemuck::cast(*run.first_chunk::<8>().expect("eight words"))
    }

    fn from_f32(value: f32) -> f32 {
        value
    }
}

/// A `bf16` is the high half of an `f32` word.
struct Widened;

impl Word for Widened {
    type Element = bf16;
    const DEPTHS: usize = 1;

    #[inline(always)]
    fn join(first: bf16, _: bf16) -> u32 {
        u32::from(first.to_bits()) << 16
    }

    #[inline(always)]
    fn eight(run: &[bf16]) -> [u32; 8] {
        let run = run.first_chunk::<8>().expect("eight words");
        run.map(|x| Self::join(x, x))
    }

    fn from_f32(value: f32) -> bf16 {
        bf16::from_f32(value)
    }
}

/// Two `bf16` share a word.
struct Pairs;

impl Word for Pairs {
    type Element = bf16;
    const DEPTHS: usize = 2;

    #[inline(always)]
    fn join(first: bf16, second: bf16) -> u32 {
        u32::from(first.to_bits()) | u32::from(second.to_bits()) << 16
    }

    #[inline(always)]
    fn eight(run: &[bf16]) -> [u32; 8] {
        // As bytes in memory a pair already is a little-endian word.
        let words: [u32; 8] = bytemuck::cast(*run.first_chunk::<16>().expect("eight words"));
        words.map(u32::from_le)
    }

    fn from_f32(value: f32) -> bf16 {
        bf16::from_f32(value)
    }
}

/// An operand whose elements become words in the manner of `W`.
struct View<'a, W: Word> {
    values: &'a [W::Element],
    extents: Extents,
    fill: W::Element,
    zero: W::Element,
}

impl<'a, W: Word> View<'a, W> {
    fn new(values: &'a [W::Element], extents: Extents) -> Self {
        Self {
            values,
            extents,
            fill: W::from_f32(extents.fill),
            zero: W::from_f32(0.0),
        }
    }

    /// The element at `lane` and `depth`, whether it is stored, filled in, or padding.
    #[inline(always)]
    fn element(&self, lane: usize, depth: usize) -> W::Element {
        let e = &self.extents;
        if lane < e.valid_lanes && depth < e.valid_depth {
            self.values[e.offset + lane * e.lane_stride + depth * e.depth_stride]
        } else if lane < e.lanes && depth < e.depth {
            self.fill
        } else {
            self.zero
        }
    }

    /// The word at `lane` and depth word `t`.
    #[inline(always)]
    fn word(&self, lane: usize, t: usize) -> u32 {
        let first = self.element(lane, t * W::DEPTHS);
        let second = self.element(lane, t * W::DEPTHS + W::DEPTHS - 1);
        W::join(first, second)
    }

    #[inline(always)]
    fn pack<V: Vector>(&self, isa: V::Isa, width: usize, panels: &mut [u32]) {
        let depth_words = self.extents.depth.div_ceil(W::DEPTHS);
        if depth_words == 0 {
            return;
        }
        for (i, panel) in panels.chunks_exact_mut(width * depth_words).enumerate() {
            let first = i * width;
            // The part of the panel that is stored values only, from its first lane and depth on.
            let lanes = width.min(self.extents.valid_lanes.saturating_sub(first));
            let words = self.extents.valid_depth / W::DEPTHS;
            let (lanes, words) = if self.extents.lane_stride == 1 {
                self.copy_runs(first, lanes, words, panel, width);
                (lanes, words)
            } else if self.extents.depth_stride == 1 {
                let words = words / 8 * 8;
                self.transpose_blocks::<V>(isa, first, lanes, words, panel, width);
                (lanes, words)
            } else {
                (0, 0)
            };
            // The rest, and zeros in the lanes that pad the panel.
            let logical = width.min(self.extents.lanes - first);
            let complete = if lanes == width { words } else { 0 };
            let rows = panel.chunks_exact_mut(width).enumerate();
            for (t, row) in rows.skip(complete) {
                let done = if t < words { lanes } else { 0 };
                let (row, padding) = row.split_at_mut(logical);
                for (lane, word) in row.iter_mut().enumerate().skip(done) {
                    *word = self.word(first + lane, t);
                }
                padding.fill(0);
            }
        }
    }

    /// Fills `lanes` by `words` of a panel from a source whose lanes are contiguous.
    #[inline(always)]
    fn copy_runs(&self, first: usize, lanes: usize, words: usize, panel: &mut [u32], width: usize) {
        let run = |depth: usize| {
            let start = self.extents.offset + first + depth * self.extents.depth_stride;
            &self.values[start..][..lanes]
        };
        if lanes == 0 {
            return;
        }
        for (t, row) in panel.chunks_exact_mut(width).take(words).enumerate() {
            let low = run(t * W::DEPTHS);
            let high = run(t * W::DEPTHS + W::DEPTHS - 1);
            for ((word, &low), &high) in row.iter_mut().zip(low).zip(high) {
                *word = W::join(low, high);
            }
        }
    }

    /// Fills `lanes` by `words`, a multiple of eight, of a panel from a source whose depth is contiguous.
    #[inline(always)]
    fn transpose_blocks<V: Vector>(
        &self,
        isa: V::Isa,
        first: usize,
        lanes: usize,
        words: usize,
        panel: &mut [u32],
        width: usize,
    ) {
        for lane in (0..lanes).step_by(8) {
            let count = 8.min(lanes - lane);
            let mut runs = [&self.values[..0]; 8];
            for (i, run) in runs.iter_mut().take(count).enumerate() {
                let start = self.extents.offset + (first + lane + i) * self.extents.lane_stride;
                *run = &self.values[start..][..words * W::DEPTHS];
            }
            // Fewer than eight lanes are filled up with copies of the first, which the scratch block absorbs.
            for i in count..8 {
                runs[i] = runs[0];
            }
            for t in (0..words).step_by(8) {
                let mut rows = [[0; 8]; 8];
                for (row, run) in rows.iter_mut().zip(&runs) {
                    *row = W::eight(&run[t * W::DEPTHS..]);
                }
                let to = &mut panel[t * width + lane..];
                if count == 8 {
                    V::transpose(isa, &rows, to, width);
                } else {
                    let mut scratch = [0; 64];
                    V::transpose(isa, &rows, &mut scratch, 8);
                    for (to, column) in to.chunks_mut(width).zip(scratch.chunks_exact(8)) {
                        to[..count].copy_from_slice(&column[..count]);
                    }
                }
            }
        }
    }
}
