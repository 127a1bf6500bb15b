//! Packing: an operand of the matrix product is copied into [panels](super::format) in exactly the order the
//! microkernel reads it.
//!
//! What is contiguous in the source and in the panel, lanes or depths, is copied; where one is contiguous here and the
//! other there, 8 x 8 blocks of words are transposed in registers. What that leaves goes word by word through
//! [`View::words`], which states what a word is.

use std::ops::Range;

use super::format::{Arithmetic, PanelFormat};
use super::map::Element;
use super::memory::{Cache, Line, prefetch};
use super::values::Values;
use super::vector::{Kernel, Vector};
use super::word::{Pairs, Single, Split, TRANSPOSED, Widened, Word};

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

/// What is contiguous, in the operand and in its panels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Contiguous {
    /// Lanes in both: they are copied.
    Lanes,
    /// Depths in both.
    Depths,
    /// Lanes in the operand and depths in panels: they are transposed.
    LanesToDepths,
    /// Depths in the operand and lanes in panels.
    DepthsToLanes,
    /// Nothing in the operand.
    Nothing,
}

/// An operand whose elements become words in the manner of `W`.
struct View<'a, W: Word<PARTS>, const PARTS: usize> {
    values: &'a [W::Element],
    extents: Extents,
    fill: W::Element,
    zero: W::Element,
    /// The values of all stored lanes at a depth that is not stored, where lanes are contiguous and the last words may
    /// need them.
    missing: Vec<W::Element>,
}

impl<'a, W: Word<PARTS>, const PARTS: usize> View<'a, W, PARTS> {
    fn new(values: &'a [W::Element], extents: Extents) -> Self {
        let [fill, zero] = [extents.fill, 0.0].map(W::Element::from_f32);
        let is_cut = extents.valid_depth < extents.depth;
        let is_even = extents.valid_depth.is_multiple_of(TRANSPOSED * W::DEPTHS);
        let missing = match extents.lane_stride {
            1 if !is_even => vec![if is_cut { fill } else { zero }; extents.valid_lanes],
            _ => Vec::new(),
        };
        Self {
            values,
            extents,
            fill,
            zero,
            missing,
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
        for part in &mut parts {
            self.clear_padding(part, format, panel_words);
        }
        // The stored part is moved in bulk; what is left of the operand, word by word.
        let contiguous = self.contiguous(format);
        let words = self.words_in_bulk(contiguous);
        if contiguous == Contiguous::Lanes {
            // As most right panels are, and most left ones of eight.
            match format.width.is_multiple_of(16) {
                true => self.copy_lanes::<16>(words, &mut parts, format, panel_words),
                false => self.copy_lanes::<8>(words, &mut parts, format, panel_words),
            }
        }
        for i in 0..parts[0].len() / panel_words {
            let panel =
                &mut (parts.each_mut()).map(|part| &mut part[i * panel_words..][..panel_words]);
            let first = i * format.width;
            let lanes = format.width.min(e.valid_lanes.saturating_sub(first));
            let mut done = lanes;
            match contiguous {
                Contiguous::Lanes | Contiguous::Nothing => {}
                Contiguous::Depths => self.copy_depths(first..first + lanes, words, panel, format),
                Contiguous::LanesToDepths => {
                    done = lanes / TRANSPOSED * TRANSPOSED;
                    self.transpose_lanes::<V>(isa, first..first + done, words, panel, format);
                }
                Contiguous::DepthsToLanes => {
                    self.transpose_depths::<V>(isa, first..first + lanes, words, panel, format);
                }
            }
            let logical = format.width.min(e.lanes - first);
            let whole_words = if done == logical { words } else { 0 };
            for t in whole_words..e.depth.div_ceil(W::DEPTHS) {
                let done = if t < words { done } else { 0 };
                for lane in done..logical {
                    let words = self.words(first + lane, t);
                    for (panel, word) in panel.iter_mut().zip(words) {
                        panel[format.place(lane, t)] = word;
                    }
                }
            }
        }
    }

    /// Makes the words of a part zero that are beyond its lanes and depths, and maybe some that are yet to be written.
    #[inline(always)]
    fn clear_padding(&self, part: &mut [u32], format: PanelFormat, panel_words: usize) {
        let PanelFormat { width, run, .. } = format;
        let words = self.extents.depth.div_ceil(W::DEPTHS);
        let whole_runs = words / run * run * width;
        for (i, panel) in part.chunks_exact_mut(panel_words).enumerate() {
            let is_whole = (i + 1) * width <= self.extents.lanes;
            panel[if is_whole { whole_runs } else { 0 }..].fill(0);
        }
    }

    #[inline(always)]
    fn contiguous(&self, format: PanelFormat) -> Contiguous {
        let Extents {
            lane_stride,
            depth_stride,
            ..
        } = self.extents;
        match (lane_stride, depth_stride, format.run) {
            (1, _, 1) => Contiguous::Lanes,
            (1, _, _) => Contiguous::LanesToDepths,
            (_, 1, 1) => Contiguous::DepthsToLanes,
            (_, 1, _) => Contiguous::Depths,
            _ => Contiguous::Nothing,
        }
    }

    /// Depth words, from the first on, of which all lanes are copied or transposed many at a time.
    #[inline(always)]
    fn words_in_bulk(&self, contiguous: Contiguous) -> usize {
        let e = &self.extents;
        let begun = e.valid_depth.div_ceil(W::DEPTHS);
        match contiguous {
            Contiguous::Lanes if begun < WORDS_AT_ONCE => 0,
            Contiguous::Lanes => begun,
            // The last eight may go beyond the depth, to what is padding of a run.
            Contiguous::LanesToDepths if e.valid_depth == e.depth => {
                begun.next_multiple_of(TRANSPOSED)
            }
            Contiguous::Nothing => 0,
            _ => e.valid_depth / W::DEPTHS / TRANSPOSED * TRANSPOSED,
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

    /// The values of stored `lanes` at one depth, stored or not, where they are contiguous.
    #[inline(always)]
    fn lanes_at(&self, lanes: &Range<usize>, depth: usize) -> &[W::Element] {
        if depth >= self.extents.valid_depth {
            return &self.missing[lanes.clone()];
        }
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
    ) -> [[&[W::Element]; 2]; WORDS] {
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

    /// Fills the stored lanes of `words` depth words, none or at least [`WORDS_AT_ONCE`], of all panels from a source
    /// whose lanes are contiguous, and asks for those that come later. Panels as wide as `LANES` or a multiple of it
    /// take so many lanes at once.
    ///
    /// All panels take their part of a few depths before the next are touched: the depths of a large matrix lie in
    /// different pages, and few pages at a time are what address translation and the prefetchers of a core are made
    /// for. That they are not one at a time is for the panels, of which each then takes several lines at once.
    #[inline(always)]
    fn copy_lanes<const LANES: usize>(
        &self,
        words: usize,
        parts: &mut [&mut [u32]; PARTS],
        format: PanelFormat,
        panel_words: usize,
    ) {
        let (lanes, width) = (self.extents.valid_lanes, format.width);
        if lanes == 0 {
            return;
        }
        let groups = match width.is_multiple_of(LANES) {
            true => lanes / LANES,
            false => 0,
        };
        // The stride of a single depth may be any number.
        let ahead = (WORDS_AHEAD * W::DEPTHS * size_of::<W::Element>())
            .wrapping_mul(self.extents.depth_stride);
        for first in (0..words).step_by(WORDS_AT_ONCE) {
            // Of words that are no multiple some of the last are copied twice.
            let first = first.min(words - WORDS_AT_ONCE);
            let depths = self.lanes_of_words::<WORDS_AT_ONCE>(&(0..lanes), first);
            // A map of maps would stay a call.
            let mut in_groups = [[&[][..]; 2]; WORDS_AT_ONCE];
            for (in_groups, depths) in in_groups.iter_mut().zip(&depths) {
                *in_groups = depths.map(|depth| depth.as_chunks::<LANES>().0);
            }
            let (mut place, mut of_panel) = (first * width, width);
            for group in 0..groups {
                let mut to = (parts.each_mut())
                    .map(|part| &mut part[place..][..(WORDS_AT_ONCE - 1) * width + LANES]);
                for (t, depths) in in_groups.iter().enumerate() {
                    let [low, high] = depths.map(|depth| &depth[group]);
                    if (group * size_of_val(low)).is_multiple_of(Line::BYTES) {
                        prefetch(low, ahead, Cache::Level1);
                        if W::DEPTHS > 1 {
                            prefetch(high, ahead, Cache::Level1);
                        }
                    }
                    for (to, words) in to.iter_mut().zip(&Self::joined(low, high)) {
                        to[t * width..][..LANES].copy_from_slice(words);
                    }
                }
                place += LANES;
                of_panel -= LANES;
                if of_panel == 0 {
                    (place, of_panel) = (place + panel_words - width, width);
                }
            }
            let mut lane = groups * LANES;
            while lane < lanes {
                let of_panel = lane..lanes.min((lane / width + 1) * width);
                let place = lane / width * panel_words + first * width + lane % width;
                for (t, depths) in depths.iter().enumerate() {
                    let [low, high] = depths.map(|depth| &depth[of_panel.clone()]);
                    for (i, (&low, &high)) in low.iter().zip(high).enumerate() {
                        for (part, word) in parts.iter_mut().zip(W::join(low, high)) {
                            part[place + t * width + i] = word;
                        }
                    }
                }
                lane = of_panel.end;
            }
        }
    }

    /// Asks for the same depths of a lane a few after the one with these. Lanes are short, and lie apart.
    #[inline(always)]
    fn ask_ahead(&self, depths: &[W::Element]) {
        // The stride of a single lane may be any number.
        let bytes = LANES_AHEAD
            .wrapping_mul(self.extents.lane_stride)
            .wrapping_mul(size_of::<W::Element>());
        for line in (0..size_of_val(depths)).step_by(Line::BYTES) {
            prefetch(depths, bytes.wrapping_add(line), Cache::Level1);
        }
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
        let PanelFormat { width, run, .. } = format;
        for (lane, of_operand) in lanes.enumerate() {
            let depths = self.depths_of(of_operand, words);
            let (mut place, mut of_run) = (lane * run, run);
            for depths in depths.chunks_exact(TRANSPOSED * W::DEPTHS) {
                self.ask_ahead(depths);
                for (panel, words) in panel.iter_mut().zip(W::eight(depths)) {
                    panel[place..][..TRANSPOSED].copy_from_slice(&words);
                }
                place += TRANSPOSED;
                of_run -= TRANSPOSED;
                if of_run == 0 {
                    (place, of_run) = (place + (width - 1) * run, run);
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
                    let depths = &depths[t * W::DEPTHS..][..TRANSPOSED * W::DEPTHS];
                    self.ask_ahead(depths);
                    for (rows, row) in rows.iter_mut().zip(W::eight(depths)) {
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
