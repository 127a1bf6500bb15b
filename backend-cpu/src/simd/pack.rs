//! Packing: an operand of the matrix product is copied into panels in exactly the order the microkernel reads it.
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
//!
//! What is contiguous in the source and in the panel, lanes or depths, is copied; where one is contiguous here and the
//! other there, 8 x 8 blocks of words are transposed in registers. Everything else, including every edge, goes word
//! by word through [`View::word`], which states what a word is.

use std::ops::Range;

use super::map::Element;
use super::memory::{Cache, prefetch};
use super::values::Values;
use super::vector::{Kernel, Vector};
use super::word::{Pairs, SPLIT_PARTS, Single, Split, TRANSPOSED, Widened, Word};

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
    fn place(&self, lane: usize, word: usize) -> usize {
        word / self.run * (self.run * self.width) + lane * self.run + word % self.run
    }
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
    /// [`Arithmetic::Bf16`] takes `bf16` values.
    pub(crate) format: PanelFormat,
    /// `extents.lanes` rounded up to panels, times the words of the depth, of each [part](Arithmetic::parts) in turn.
    pub(crate) panels: &'a mut [u32],
}

impl Kernel for Pack<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, isa: V::Isa) {
        let Self {
            values,
            extents,
            format,
            panels,
        } = self;
        match (values, format.arithmetic) {
            (Values::F32(values), Arithmetic::Split) => {
                View::<Split, _>::new(values, extents).pack::<V>(isa, format, panels);
            }
            (Values::F32(values), _) => {
                View::<Single, _>::new(values, extents).pack::<V>(isa, format, panels);
            }
            (Values::Bf16(values), Arithmetic::F32) => {
                View::<Widened, _>::new(values, extents).pack::<V>(isa, format, panels);
            }
            (Values::Bf16(values), Arithmetic::Bf16 | Arithmetic::Split) => {
                View::<Pairs, _>::new(values, extents).pack::<V>(isa, format, panels);
            }
        }
    }
}

/// Depth words that a panel takes before the next panel does, where lanes are contiguous.
const WORDS_AT_ONCE: usize = 4;
/// Depth words between the one that is copied and the one that is asked for.
const WORDS_AHEAD: usize = 4;
/// Lanes between the one that is copied and the one that is asked for, where depths are contiguous: those that are
/// copied at once.
const LANES_AHEAD: usize = TRANSPOSED;
/// Words of a depth that are made at once: two vectors of them where vectors are short.
const AT_ONCE: usize = 16;

/// An operand whose elements become words in the manner of `W`.
struct View<'a, W: Word<PARTS>, const PARTS: usize> {
    values: &'a [W::Element],
    extents: Extents,
    fill: W::Element,
    zero: W::Element,
}

impl<'a, W: Word<PARTS>, const PARTS: usize> View<'a, W, PARTS> {
    fn new(values: &'a [W::Element], extents: Extents) -> Self {
        Self {
            values,
            extents,
            fill: W::Element::from_f32(extents.fill),
            zero: W::Element::from_f32(0.0),
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

    /// The word of each part at `lane` and depth word `t`.
    #[inline(always)]
    fn words(&self, lane: usize, t: usize) -> [u32; PARTS] {
        let first = self.element(lane, t * W::DEPTHS);
        let second = self.element(lane, t * W::DEPTHS + W::DEPTHS - 1);
        W::join(first, second)
    }

    #[inline(always)]
    fn pack<V: Vector>(&self, isa: V::Isa, format: PanelFormat, panels: &mut [u32]) {
        let e = &self.extents;
        let panel_words = format.width * format.depth_words(e.depth);
        if panels.is_empty() {
            return;
        }
        let mut rest = panels.chunks_exact_mut(panels.len() / PARTS);
        let mut parts: [_; PARTS] = std::array::from_fn(|_| rest.next().expect("as many as parts"));
        // The stored part is moved in bulk; what of it and of the padding remains, word by word.
        let words = e.valid_depth / W::DEPTHS;
        let words = if e.lane_stride == 1 && format.run == 1 {
            let words = words / WORDS_AT_ONCE * WORDS_AT_ONCE;
            self.copy_lanes(words, &mut parts, format, panel_words);
            words
        } else if e.lane_stride == 1 || e.depth_stride == 1 {
            words / TRANSPOSED * TRANSPOSED
        } else {
            0
        };
        for i in 0..parts[0].len() / panel_words {
            let panel =
                &mut (parts.each_mut()).map(|part| &mut part[i * panel_words..][..panel_words]);
            let first = i * format.width;
            let lanes = format.width.min(e.valid_lanes.saturating_sub(first));
            let mut done = lanes;
            match (e.lane_stride, e.depth_stride) {
                (1, _) if format.run == 1 => {}
                (1, _) => {
                    done = lanes / TRANSPOSED * TRANSPOSED;
                    self.transpose_lanes::<V>(isa, first..first + done, words, panel, format);
                }
                (_, 1) if format.run == 1 => {
                    self.transpose_depths::<V>(isa, first..first + lanes, words, panel, format);
                }
                (_, 1) => self.copy_depths(first..first + lanes, words, panel, format),
                _ => {}
            }
            let logical = format.width.min(e.lanes - first);
            let whole_words = if done == format.width { words } else { 0 };
            for t in whole_words..panel_words / format.width {
                let done = if t < words { done } else { 0 };
                for lane in done..format.width {
                    let words = match lane < logical {
                        true => self.words(first + lane, t),
                        false => [0; PARTS],
                    };
                    for (panel, word) in panel.iter_mut().zip(words) {
                        panel[format.place(lane, t)] = word;
                    }
                }
            }
        }
    }

    /// The words of some lanes, of each part, from their values at two consecutive depths.
    #[inline(always)]
    fn joined<const LANES: usize>(
        low: &[W::Element; LANES],
        high: &[W::Element; LANES],
    ) -> [[u32; LANES]; PARTS] {
        let mut words = [[0; LANES]; PARTS];
        for (i, (&low, &high)) in low.iter().zip(high).enumerate() {
            for (words, word) in words.iter_mut().zip(W::join(low, high)) {
                words[i] = word;
            }
        }
        words
    }

    /// The values of `lanes` at one depth, where they are contiguous.
    #[inline(always)]
    fn lanes_at(&self, lanes: &Range<usize>, depth: usize) -> &'a [W::Element] {
        let start = self.extents.offset + depth * self.extents.depth_stride;
        &self.values[start + lanes.start..start + lanes.end]
    }

    /// The values of `lanes` at the first and the last depth of `WORDS` depth words from `first` on, where they are
    /// contiguous.
    #[inline(always)]
    fn lanes_of_words<const WORDS: usize>(
        &self,
        lanes: &Range<usize>,
        first: usize,
    ) -> [[&'a [W::Element]; 2]; WORDS] {
        let mut depths = [[&self.values[..0]; 2]; WORDS];
        for (t, [low, high]) in depths.iter_mut().enumerate() {
            let depth = (first + t) * W::DEPTHS;
            *low = self.lanes_at(lanes, depth);
            *high = self.lanes_at(lanes, depth + W::DEPTHS - 1);
        }
        depths
    }

    /// The values of the first `words` depth words of `lane`, where they are contiguous.
    #[inline(always)]
    fn depths_of(&self, lane: usize, words: usize) -> &'a [W::Element] {
        let start = self.extents.offset + lane * self.extents.lane_stride;
        &self.values[start..start + words * W::DEPTHS]
    }

    /// Fills the stored lanes of `words` depth words, a multiple of [`WORDS_AT_ONCE`], of all panels from a source
    /// whose lanes are contiguous.
    ///
    /// All panels take their part of a few depths before the next are touched: the depths of a large matrix lie in
    /// different pages, and few pages at a time are what address translation and the prefetchers of a core are made
    /// for. That they are not one at a time is for the panels, of which each then takes several lines at once.
    #[inline(always)]
    fn copy_lanes(
        &self,
        words: usize,
        parts: &mut [&mut [u32]; PARTS],
        format: PanelFormat,
        panel_words: usize,
    ) {
        let lanes = 0..self.extents.valid_lanes;
        if lanes.is_empty() {
            return;
        }
        let width = format.width;
        for first in (0..words).step_by(WORDS_AT_ONCE) {
            let depths = self.lanes_of_words::<WORDS_AT_ONCE>(&lanes, first);
            let mut place = first * width;
            for lane in lanes.clone().step_by(width) {
                let of_panel = width.min(lanes.end - lane);
                let whole = of_panel / AT_ONCE * AT_ONCE;
                for i in (0..whole).step_by(AT_ONCE) {
                    self.copy_at_once(&depths, lane + i, parts, place + i, width);
                }
                for (t, [low, high]) in depths.iter().enumerate() {
                    let rest = lane + whole..lane + of_panel;
                    let of_lanes = low[rest.clone()].iter().zip(&high[rest]);
                    for (i, (&low, &high)) in of_lanes.enumerate() {
                        for (part, word) in parts.iter_mut().zip(W::join(low, high)) {
                            part[place + t * width + whole + i] = word;
                        }
                    }
                }
                place += panel_words;
            }
        }
    }

    /// Copies a few depth words of [`AT_ONCE`] contiguous lanes to `place` of each part, `width` apart, and asks for
    /// those that come later.
    #[inline(always)]
    fn copy_at_once(
        &self,
        depths: &[[&[W::Element]; 2]; WORDS_AT_ONCE],
        lane: usize,
        parts: &mut [&mut [u32]; PARTS],
        place: usize,
        width: usize,
    ) {
        let ahead = WORDS_AHEAD * W::DEPTHS * self.extents.depth_stride;
        let ahead_bytes = ahead * size_of::<W::Element>();
        for (t, [low, high]) in depths.iter().enumerate() {
            let low: &[_; AT_ONCE] = low[lane..].first_chunk().expect("so many lanes");
            prefetch(low, ahead_bytes, Cache::Level1);
            let mut second = low;
            if W::DEPTHS > 1 {
                second = high[lane..].first_chunk().expect("as many");
                prefetch(second, ahead_bytes, Cache::Level1);
            }
            let words = Self::joined(low, second);
            for (part, words) in parts.iter_mut().zip(&words) {
                part[place + t * width..][..AT_ONCE].copy_from_slice(words);
            }
        }
    }

    /// Asks for the depths from word `t` on of a lane a few after the one with these. Lanes are short, and lie apart.
    #[inline(always)]
    fn ask_ahead(&self, depths: &[W::Element], t: usize) {
        // The stride of a single lane may be any number.
        let lanes = LANES_AHEAD.wrapping_mul(self.extents.lane_stride);
        let bytes = lanes
            .wrapping_add(t * W::DEPTHS)
            .wrapping_mul(size_of::<W::Element>());
        prefetch(depths, bytes, Cache::Level1);
    }

    /// Fills `words` depth words, a multiple of eight, of the `lanes` of a panel whose runs are at least that long from
    /// a source whose depths are contiguous.
    #[inline(always)]
    fn copy_depths(
        &self,
        lanes: Range<usize>,
        words: usize,
        panel: &mut [&mut [u32]; PARTS],
        format: PanelFormat,
    ) {
        for (lane, of_operand) in lanes.enumerate() {
            let depths = self.depths_of(of_operand, words);
            for t in (0..words).step_by(TRANSPOSED) {
                self.ask_ahead(depths, t);
                let place = format.place(lane, t);
                let words = W::eight(&depths[t * W::DEPTHS..]);
                for (panel, words) in panel.iter_mut().zip(words) {
                    panel[place..][..TRANSPOSED].copy_from_slice(&words);
                }
            }
        }
    }

    /// Fills `words` depth words of `lanes`, both multiples of eight, of a panel whose runs are at least that long from
    /// a source whose lanes are contiguous.
    #[inline(always)]
    fn transpose_lanes<V: Vector>(
        &self,
        isa: V::Isa,
        lanes: Range<usize>,
        words: usize,
        panel: &mut [&mut [u32]; PARTS],
        format: PanelFormat,
    ) {
        if lanes.is_empty() {
            return;
        }
        for t in (0..words).step_by(TRANSPOSED) {
            let depths = self.lanes_of_words::<TRANSPOSED>(&lanes, t);
            for lane in (0..lanes.len()).step_by(TRANSPOSED) {
                let mut rows = [[[0; TRANSPOSED]; TRANSPOSED]; PARTS];
                for (i, [low, high]) in depths.into_iter().enumerate() {
                    let [low, high] = [low, high].map(|depth| {
                        depth[lane..]
                            .first_chunk::<TRANSPOSED>()
                            .expect("eight lanes")
                    });
                    for (rows, row) in rows.iter_mut().zip(Self::joined(low, high)) {
                        rows[i] = row;
                    }
                }
                for (panel, rows) in panel.iter_mut().zip(&rows) {
                    V::transpose(isa, rows, &mut panel[format.place(lane, t)..], format.run);
                }
            }
        }
    }

    /// Fills `words` depth words, a multiple of eight, of the `lanes` of a panel with runs of one from a source whose
    /// depths are contiguous.
    #[inline(always)]
    fn transpose_depths<V: Vector>(
        &self,
        isa: V::Isa,
        lanes: Range<usize>,
        words: usize,
        panel: &mut [&mut [u32]; PARTS],
        format: PanelFormat,
    ) {
        let width = format.width;
        for lane in (0..lanes.len()).step_by(TRANSPOSED) {
            let count = TRANSPOSED.min(lanes.len() - lane);
            // Fewer than eight lanes are filled up with copies of the first, which the scratch block absorbs.
            let mut depths = [&self.values[..0]; TRANSPOSED];
            for (i, depths) in depths.iter_mut().enumerate() {
                let i = if i < count { i } else { 0 };
                *depths = self.depths_of(lanes.start + lane + i, words);
            }
            for t in (0..words).step_by(TRANSPOSED) {
                let mut rows = [[[0; TRANSPOSED]; TRANSPOSED]; PARTS];
                for (i, depths) in depths.into_iter().enumerate() {
                    self.ask_ahead(depths, t);
                    for (rows, row) in rows.iter_mut().zip(W::eight(&depths[t * W::DEPTHS..])) {
                        rows[i] = row;
                    }
                }
                for (panel, rows) in panel.iter_mut().zip(&rows) {
                    let to = &mut panel[t * width + lane..];
                    if count == TRANSPOSED {
                        V::transpose(isa, rows, to, width);
                    } else {
                        let mut scratch = [0; TRANSPOSED * TRANSPOSED];
                        V::transpose(isa, rows, &mut scratch, TRANSPOSED);
                        let columns = scratch.chunks_exact(TRANSPOSED);
                        for (to, column) in to.chunks_mut(width).zip(columns) {
                            to[..count].copy_from_slice(&column[..count]);
                        }
                    }
                }
            }
        }
    }
}
