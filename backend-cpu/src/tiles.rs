//! [`CpuTiles`]: the primitives, executed.
//!
//! Tiles are processed row by row: a row of a few hundred f32 stays in L1 between the passes over
//! it. Indices are plain numbers here and conditions plain truth values.

use std::cell::{Cell, RefCell, RefMut};

use tilecast_core::DType;
use tilecast_core::expr::{Expr, Leaf};
use tilecast_core::ops::{Accumulate, Contract, Delta, Direction, TileOps, Unroll};
use tilecast_core::spec::{AxisId, KernelSpec};
use tilecast_core::view::{
    BufferId, Columns, HbmBlock, Rows, ScalarsRef, SemaphoreRef, Span, Stats, Tile,
};

use crate::Cpu;
use crate::buffers::{
    Block, Elements, InputTile, LocalTile, Masks, Part, Vector, load, store, values,
};
use crate::evaluate::{STRIP, evaluate};
use crate::gemm::{self, GemmError, Out, Source};
use crate::leaves::{AlongRow, AlongRows};
use crate::panels::{Key, Panels};
use crate::simd::{Binary, Destination, Simd, Statistics, Values, ValuesMut};
use crate::storage::Storage;

/// A buffer of a kernel, in one thread.
#[derive(Debug)]
pub(crate) enum Slot<'s, 'a> {
    Input(InputTile<'s, 'a>),
    Local(LocalTile<'s, 'a>),
    Vector(Vector<'s, 'a>),
    Hbm(&'s Storage<'a>),
    Stats {
        rows: Vec<Statistics>,
        entropy: bool,
    },
    Semaphore,
}

/// One thread's execution of a kernel.
#[derive(Debug)]
pub(crate) struct CpuTiles<'s, 'a> {
    pub(crate) simd: Simd,
    pub(crate) cpu: &'s Cpu,
    pub(crate) spec: &'s KernelSpec,
    pub(crate) point: Vec<Cell<i64>>,
    pub(crate) scalars: &'s [i64],
    pub(crate) slots: Vec<RefCell<Slot<'s, 'a>>>,
    /// Block indices of each window at this step.
    pub(crate) shown: Vec<RefCell<Vec<i64>>>,
    /// Packed copies of each slot.
    pub(crate) panels: Vec<Panels>,
    /// The first thing that went wrong; the step's results are then not used.
    pub(crate) error: RefCell<Option<GemmError>>,
}

impl<'s, 'a> CpuTiles<'s, 'a> {
    fn slot(&self, buffer: BufferId) -> RefMut<'_, Slot<'s, 'a>> {
        self.slots[buffer.index()].borrow_mut()
    }

    /// A tile to write to.
    fn local(&self, buffer: BufferId) -> RefMut<'_, LocalTile<'s, 'a>> {
        RefMut::map(self.slot(buffer), |slot| match slot {
            Slot::Local(tile) => {
                tile.settle();
                tile
            }
            _ => panic!("{} is not a tile of the kernel's own", self.name(buffer)),
        })
    }

    pub(crate) fn vector(&self, buffer: BufferId) -> RefMut<'_, Vec<f32>> {
        RefMut::map(self.slot(buffer), |slot| match slot {
            Slot::Vector(Vector {
                elements: Elements::F32(data),
                ..
            }) => data,
            _ => panic!("{} is not an f32 vector", self.name(buffer)),
        })
    }

    pub(crate) fn integers(&self, buffer: BufferId) -> RefMut<'_, Vec<i32>> {
        RefMut::map(self.slot(buffer), |slot| match slot {
            Slot::Vector(Vector {
                elements: Elements::I32(data),
                ..
            }) => data,
            _ => panic!("{} is not an i32 vector", self.name(buffer)),
        })
    }

    /// Makes sure that a tile can be read.
    fn settle(&self, buffer: BufferId) {
        if let Slot::Local(tile) = &mut *self.slot(buffer) {
            tile.settle();
        }
    }

    fn name(&self, buffer: BufferId) -> &'static str {
        self.spec.buffers()[buffer.index()].name
    }

    /// Writes one row of a tile, or part of it, as f32.
    pub(crate) fn read_row(&self, tile: &Tile<i64>, row: usize, column: usize, out: &mut [f32]) {
        let part = part(tile);
        let wanted = Part {
            row: part.row + row,
            rows: 1,
            column: part.column + column,
            columns: out.len(),
        };
        let mut copy = |values: Values<'_>, layout: gemm::Layout| {
            out.fill(layout.fill);
            let inside = &mut out[..layout.valid_columns * layout.valid_rows];
            let strided = |inside: &mut [f32], at: &dyn Fn(usize) -> f32| {
                (inside.iter_mut().enumerate())
                    .for_each(|(c, out)| *out = at(layout.offset + c * layout.column_stride));
            };
            if inside.is_empty() {
                return;
            }
            match (values, layout.column_stride) {
                (Values::F32(data), 1) => {
                    inside.copy_from_slice(&data[layout.offset..][..inside.len()]);
                }
                (Values::Bf16(data), 1) => {
                    let len = inside.len();
                    self.simd.bf16_to_f32(inside, &data[layout.offset..][..len]);
                }
                (Values::F32(data), _) => strided(inside, &|i| data[i]),
                (Values::Bf16(data), _) => strided(inside, &|i| data[i].to_f32()),
            }
        };
        self.settle(tile.buffer);
        match &*self.slots[tile.buffer.index()].borrow() {
            Slot::Input(window) => window.read(|array, start| {
                copy(values(array.data), window.layout(array, start, &wanted));
            }),
            Slot::Local(local) => {
                copy(values(local.elements.as_data()), local.layout(&wanted));
            }
            _ => panic!("{} is not a tile", self.name(tile.buffer)),
        }
    }

    /// Computes each row of `out` in strips: `compute(row, column, strip)`.
    fn write_rows(&self, out: &Tile<i64>, compute: impl Fn(usize, usize, &mut [f32])) {
        let part = part(out);
        let mut strip = [0.0_f32; STRIP];
        for r in 0..part.rows {
            for c in (0..part.columns).step_by(STRIP) {
                let strip = &mut strip[..STRIP.min(part.columns - c)];
                // The tile is borrowed only after: it may be a leaf of what is computed.
                compute(r, c, strip);
                let mut local = self.local(out.buffer);
                let start = (part.row + r) * local.columns + part.column + c;
                let len = strip.len();
                match &mut local.elements {
                    Elements::F32(data) => data[start..start + len].copy_from_slice(strip),
                    Elements::Bf16(data) => {
                        self.simd.f32_to_bf16(&mut data[start..start + len], strip);
                    }
                    Elements::I32(_) => panic!("{} holds integers", self.name(out.buffer)),
                }
            }
        }
        self.panels[out.buffer.index()].invalidate();
    }

    /// Sets a rectangle of a tile. An input window only remembers it.
    fn mask(
        &self,
        tile: &Tile<i64>,
        rows: std::ops::Range<usize>,
        columns: std::ops::Range<usize>,
        value: f32,
    ) {
        if rows.is_empty() || columns.is_empty() {
            return;
        }
        if let Slot::Input(window) = &mut *self.slot(tile.buffer) {
            // What was packed without the mask has another key.
            if columns.start == 0 {
                window.masks.rows = Some((rows.start, value));
            } else {
                window.masks.columns = Some((columns.start, value));
            }
            return;
        }
        let span = |range: &std::ops::Range<usize>, of: &Span<i64>| {
            let first = start(of) + range.start;
            Span::new(first as i64, range.len())
        };
        let masked = Tile {
            buffer: tile.buffer,
            rows: span(&rows, &tile.rows),
            columns: span(&columns, &tile.columns),
        };
        self.write_rows(&masked, |_, _, strip| strip.fill(value));
    }

    /// Hands row `row` of a tile to `body` in pieces, with the column at which each starts: in one, as
    /// it lies in memory; what is masked, overhangs or has gaps, and everything if `strips`, in copies
    /// of at most a strip. In between `body` may write to the tile only if it gets strips.
    pub(crate) fn pieces(
        &self,
        tile: &Tile<i64>,
        row: usize,
        strips: bool,
        mut body: impl FnMut(usize, Values<'_>),
    ) {
        let whole = part(tile);
        let wanted = Part {
            row: whole.row + row,
            rows: 1,
            ..whole
        };
        let mut at_once = |values: Values<'_>, layout: gemm::Layout| {
            let len = layout.valid_rows * layout.valid_columns;
            if len == 0 || layout.column_stride != 1 && len > 1 {
                return 0;
            }
            let range = layout.offset..layout.offset + len;
            body(0, values.range(range));
            len
        };
        self.settle(tile.buffer);
        let done = match &*self.slots[tile.buffer.index()].borrow() {
            _ if strips => 0,
            Slot::Input(window) => window.read(|array, start| {
                at_once(values(array.data), window.layout(array, start, &wanted))
            }),
            Slot::Local(local) => at_once(values(local.elements.as_data()), local.layout(&wanted)),
            _ => panic!("{} is not a tile", self.name(tile.buffer)),
        };
        let mut strip = [0.0_f32; STRIP];
        for column in (done..whole.columns).step_by(STRIP) {
            let strip = &mut strip[..STRIP.min(whole.columns - column)];
            self.read_row(tile, row, column, strip);
            body(column, Values::F32(strip));
        }
    }

    /// Hands elements of row `row` of a tile of the kernel's own to `body`, from `column` on, to overwrite, and says
    /// where they should come to lie. What is beyond the array may be left out.
    pub(crate) fn pieces_mut(
        &self,
        tile: &Tile<i64>,
        row: usize,
        column: usize,
        len: usize,
        body: impl FnOnce(ValuesMut<'_>, Destination),
    ) {
        let part = part(tile);
        match &mut *self.slot(tile.buffer) {
            Slot::Local(local) => {
                let at = [part.row + row, part.column + column];
                if local.write_row(at, len, body) {
                    self.mark_overwritten(tile.buffer, at[0]);
                }
            }
            _ => panic!(
                "{} is not a tile of the kernel's own",
                self.name(tile.buffer)
            ),
        }
    }

    /// Whether writing `out` overwrites the part of the array that `x` shows, element by element.
    pub(crate) fn is_update(&self, out: &Tile<i64>, x: &Tile<i64>) -> bool {
        let is_aliased = self.spec.aliases().contains(&(x.buffer, out.buffer));
        is_aliased
            && part(out) == part(x)
            && match (&*self.slot(out.buffer), &*self.slot(x.buffer)) {
                (Slot::Local(local), Slot::Input(window)) => {
                    local.is_in_array() && window.masks == Masks::default()
                }
                _ => false,
            }
    }

    /// Hands a row of a tile for which [`Self::is_update`] holds to `body`, as far as it lies inside the array.
    pub(crate) fn row_to_update(
        &self,
        tile: &Tile<i64>,
        row: usize,
        body: impl FnOnce(ValuesMut<'_>),
    ) {
        let part = part(tile);
        let row = part.row + row;
        let Slot::Local(local) = &mut *self.slot(tile.buffer) else {
            panic!("{} is not an output", self.name(tile.buffer));
        };
        let len = local.columns_inside(row, part.column, part.columns);
        if len > 0 {
            local.write_row([row, part.column], len, |x, _| body(x));
            self.mark_overwritten(tile.buffer, row);
        }
    }

    /// Notes that rows of an output window up to this one lie where the window shows them that it updates, if there is one.
    fn mark_overwritten(&self, output: BufferId, row: usize) {
        let updated = self.spec.aliases().iter().find(|(_, to)| *to == output);
        if let Some((input, _)) = updated
            && let Slot::Input(window) = &*self.slots[input.index()].borrow()
        {
            window.overwritten.set(row);
        }
    }

    /// Runs `body` on the running statistics of the rows of `stats`.
    fn with_stats<R>(
        &self,
        stats: &Stats<i64>,
        body: impl FnOnce(&mut [Statistics], bool) -> R,
    ) -> R {
        let Slot::Stats { rows, entropy } = &mut *self.slot(stats.buffer) else {
            panic!("{} is not statistics", self.name(stats.buffer));
        };
        body(&mut rows[range(&stats.span)], *entropy)
    }

    /// `out[r] = value` of the statistics of row `r`.
    fn finish(&self, out: &Rows<i64>, stats: &Stats<i64>, value: fn(&Statistics) -> f32) {
        self.with_stats(stats, |stats, _| {
            let mut vector = self.vector(out.buffer);
            for (out, stats) in vector[range(&out.span)].iter_mut().zip(stats) {
                *out = value(stats);
            }
        });
    }

    fn is_bf16(&self, buffer: BufferId) -> bool {
        let of = |values: Values<'_>| matches!(values, Values::Bf16(_));
        match &*self.slots[buffer.index()].borrow() {
            Slot::Input(window) => window.array.dtype() == DType::Bf16,
            Slot::Local(local) => of(values(local.elements.as_data())),
            _ => panic!("{} is not a tile", self.name(buffer)),
        }
    }

    /// Describes a part of a tile as a source for packing.
    fn with_source(
        &self,
        buffer: BufferId,
        part: &Part,
        pack: &mut dyn FnMut(&Source<'_>) -> Result<(), GemmError>,
    ) -> Result<(), GemmError> {
        self.settle(buffer);
        match &*self.slots[buffer.index()].borrow() {
            Slot::Input(window) => window.read(|array, start| {
                let layout = window.layout(array, start, part);
                pack(&Source::new(values(array.data), layout)?)
            }),
            Slot::Local(local) => {
                let layout = local.layout(part);
                pack(&Source::new(values(local.elements.as_data()), layout)?)
            }
            _ => panic!("{} is not a tile", self.name(buffer)),
        }
    }

    fn multiply(
        &self,
        out: Tile<i64>,
        a: Tile<i64>,
        b: Tile<i64>,
        contract: Contract,
        accumulate: Accumulate,
    ) -> Result<(), GemmError> {
        let simd = self.simd;
        let (a_is_bf16, b_is_bf16) = (self.is_bf16(a.buffer), self.is_bf16(b.buffer));
        let arithmetic = self.cpu.arithmetic_for(a_is_bf16, b_is_bf16);
        let key = |tile: &Tile<i64>, transposed| {
            let (block, masks) = match &*self.slots[tile.buffer.index()].borrow() {
                Slot::Input(window) => (
                    self.shown[tile.buffer.index()].borrow().clone(),
                    window.masks,
                ),
                _ => (Vec::new(), Masks::default()),
            };
            Key {
                block,
                masks,
                part: part(tile),
                transposed,
                arithmetic,
            }
        };
        let left_key = key(&a, contract == Contract::TN);
        let right_key = key(&b, contract == Contract::NT);
        let mut left = self.panels[a.buffer.index()].left.borrow_mut();
        let left = left.get(simd, &left_key, |pack| {
            self.with_source(a.buffer, &left_key.part, pack)
        })?;
        let mut right = self.panels[b.buffer.index()].right.borrow_mut();
        let right = right.get(simd, &right_key, |pack| {
            self.with_source(b.buffer, &right_key.part, pack)
        })?;
        let part = part(&out);
        let mut local = self.local(out.buffer);
        let columns = local.columns;
        let Elements::F32(data) = &mut local.elements else {
            panic!(
                "a product is summed in f32, {} is not",
                self.name(out.buffer)
            );
        };
        let out_tile = Out {
            values: &mut data[part.row * columns + part.column..],
            row_stride: columns,
            rows: part.rows,
            columns: part.columns,
        };
        gemm::matmul(simd, out_tile, left, right, accumulate == Accumulate::Add)
    }

    /// The array and block of an HBM operand.
    fn hbm<const N: usize>(&self, block: &HbmBlock<i64, N>) -> (&'s Storage<'a>, Block) {
        let Slot::Hbm(array) = *self.slots[block.buffer.index()].borrow() else {
            panic!("{} is not an array in HBM", self.name(block.buffer));
        };
        let named = &self.spec.buffers()[block.buffer.index()];
        let operand = named.buffer.operand().expect("HBM buffers have operands");
        let block = Block::new(&operand.dims, &operand.block, &block.index)
            .unwrap_or_else(|| panic!("{}: block {:?} is outside", named.name, block.index));
        (array, block)
    }

    /// Runs `body` on the elements of a whole scratch buffer and its row length.
    fn whole_scratch(&self, tile: &Tile<i64>, body: impl FnOnce(&mut Elements, usize)) {
        match &mut *self.slot(tile.buffer) {
            Slot::Local(local) => body(&mut local.elements, local.columns),
            Slot::Vector(vector) => body(&mut vector.elements, usize::MAX),
            _ => panic!("{} is not scratch", self.name(tile.buffer)),
        }
    }
}

/// The rectangle of a view.
pub(crate) fn part(tile: &Tile<i64>) -> Part {
    Part {
        row: start(&tile.rows),
        rows: tile.rows.len,
        column: start(&tile.columns),
        columns: tile.columns.len,
    }
}

fn start(span: &Span<i64>) -> usize {
    usize::try_from(span.start.unwrap_or(0)).expect("spans start inside their buffer")
}

pub(crate) fn range(span: &Span<i64>) -> std::ops::Range<usize> {
    start(span)..start(span) + span.len
}

impl TileOps for CpuTiles<'_, '_> {
    type Index = i64;
    type Condition = bool;

    fn program_id(&self, axis: AxisId) -> i64 {
        self.point[axis.index()].get()
    }

    fn num_programs(&self, axis: AxisId) -> i64 {
        self.spec.grid()[axis.index()].size as i64
    }

    fn index(&self, value: i64) -> i64 {
        value
    }

    fn scalar(&self, scalars: ScalarsRef, index: usize) -> i64 {
        self.scalars[self.spec.scalar_position(scalars, index)]
    }

    fn equals(&self, a: i64, b: i64) -> bool {
        a == b
    }

    fn less_than(&self, a: i64, b: i64) -> bool {
        a < b
    }

    fn and(&self, a: bool, b: bool) -> bool {
        a && b
    }

    fn when(&self, condition: bool, body: impl FnOnce()) {
        if condition {
            body();
        }
    }

    fn for_each(&self, count: usize, _unroll: Unroll, body: impl Fn(i64)) {
        (0..count as i64).for_each(body);
    }

    fn matmul(
        &self,
        out: impl Into<Tile<i64>>,
        a: impl Into<Tile<i64>>,
        b: impl Into<Tile<i64>>,
        contract: Contract,
        accumulate: Accumulate,
    ) {
        let out = out.into();
        if let Err(error) = self.multiply(out, a.into(), b.into(), contract, accumulate) {
            self.error.borrow_mut().get_or_insert(error);
        }
        self.panels[out.buffer.index()].invalidate();
    }

    fn element_wise(&self, out: impl Into<Tile<i64>>, value: Expr<Leaf<i64>>) {
        self.write_rows(&out.into(), |row, column, strip| {
            let tiles = self;
            evaluate(self.simd, &value, &AlongRow { tiles, row, column }, strip);
        });
    }

    fn row_wise(&self, out: impl Into<Rows<i64>>, value: Expr<Leaf<i64>>) {
        let out = out.into();
        let mut strip = [0.0_f32; STRIP];
        for row in (0..out.span.len).step_by(STRIP) {
            let strip = &mut strip[..STRIP.min(out.span.len - row)];
            evaluate(self.simd, &value, &AlongRows { tiles: self, row }, strip);
            let start = start(&out.span) + row;
            self.vector(out.buffer)[start..start + strip.len()].copy_from_slice(strip);
        }
    }

    fn copy_rows(&self, out: impl Into<Rows<i64>>, rows: impl Into<Rows<i64>>) {
        let (out, rows) = (out.into(), rows.into());
        match (
            &*self.slots[rows.buffer.index()].borrow(),
            &mut *self.slot(out.buffer),
        ) {
            (Slot::Vector(from), Slot::Vector(to)) => match (&from.elements, &mut to.elements) {
                (Elements::F32(from), Elements::F32(to)) => {
                    to[range(&out.span)].copy_from_slice(&from[range(&rows.span)]);
                }
                (Elements::I32(from), Elements::I32(to)) => {
                    to[range(&out.span)].copy_from_slice(&from[range(&rows.span)]);
                }
                _ => panic!("{} has another type", self.name(out.buffer)),
            },
            _ => panic!("{} is not a vector", self.name(out.buffer)),
        }
    }

    fn row_sum(
        &self,
        out: impl Into<Rows<i64>>,
        columns: usize,
        value: Expr<Leaf<i64>>,
        accumulate: Accumulate,
    ) {
        let out = out.into();
        let mut strip = [0.0_f32; STRIP];
        for row in 0..out.span.len {
            let mut sum = 0.0;
            for column in (0..columns).step_by(STRIP) {
                let strip = &mut strip[..STRIP.min(columns - column)];
                let tiles = self;
                evaluate(self.simd, &value, &AlongRow { tiles, row, column }, strip);
                sum += self.simd.sum(strip);
            }
            let out = &mut self.vector(out.buffer)[start(&out.span) + row];
            *out = match accumulate {
                Accumulate::Overwrite => sum,
                Accumulate::Add => *out + sum,
            };
        }
    }

    fn column_sum(
        &self,
        out: impl Into<Columns<i64>>,
        tile: impl Into<Tile<i64>>,
        accumulate: Accumulate,
    ) {
        let (out, tile) = (out.into(), tile.into());
        let mut strip = [0.0_f32; STRIP];
        for column in (0..out.span.len).step_by(STRIP) {
            let strip = &mut strip[..STRIP.min(out.span.len - column)];
            let start = start(&out.span) + column;
            let mut sums = self.vector(out.buffer);
            let sums = &mut sums[start..start + strip.len()];
            if accumulate == Accumulate::Overwrite {
                sums.fill(0.0);
            }
            for row in 0..tile.rows.len {
                self.read_row(&tile, row, column, strip);
                self.simd.binary(Binary::Add, sums, strip);
            }
        }
    }

    fn reset_logsumexp(&self, stats: impl Into<Stats<i64>>) {
        self.with_stats(&stats.into(), |stats, _| stats.fill(Statistics::NONE));
    }

    fn online_logsumexp(
        &self,
        stats: impl Into<Stats<i64>>,
        tile: impl Into<Tile<i64>>,
        scale: f32,
    ) {
        let (stats, tile) = (stats.into(), tile.into());
        self.with_stats(&stats, |stats, entropy| {
            for (r, stats) in stats.iter_mut().enumerate() {
                self.pieces(&tile, r, false, |_, x| {
                    *stats = self.simd.softmax_statistics(*stats, x, scale, entropy);
                });
            }
        });
    }

    fn finish_logsumexp(&self, out: impl Into<Rows<i64>>, stats: impl Into<Stats<i64>>) {
        self.finish(&out.into(), &stats.into(), Statistics::lse);
    }

    fn finish_entropy(&self, out: impl Into<Rows<i64>>, stats: impl Into<Stats<i64>>) {
        self.finish(&out.into(), &stats.into(), Statistics::entropy);
    }

    fn one_hot_select(
        &self,
        out: impl Into<Rows<i64>>,
        tile: impl Into<Tile<i64>>,
        labels: impl Into<Rows<i64>>,
        first_column: i64,
    ) {
        let (out, tile, labels) = (out.into(), tile.into(), labels.into());
        let labels = &self.integers(labels.buffer)[range(&labels.span)];
        let mut vector = self.vector(out.buffer);
        let picked = vector[range(&out.span)].iter_mut().zip(labels);
        for (r, (out, &label)) in picked.enumerate() {
            if let Some(column) = column_in(label, first_column, tile.columns.len) {
                self.read_row(&tile, r, column, std::slice::from_mut(out));
            }
        }
    }

    fn softmax_delta(
        &self,
        out: impl Into<Tile<i64>>,
        logits: impl Into<Tile<i64>>,
        delta: Delta<i64>,
    ) {
        let out = out.into();
        self.write_delta(out, logits.into(), delta);
        self.panels[out.buffer.index()].invalidate();
    }

    fn mask_columns(&self, tile: impl Into<Tile<i64>>, valid: i64, value: f32) {
        let tile = tile.into();
        let valid = usize::try_from(valid).unwrap_or(0);
        self.mask(&tile, 0..tile.rows.len, valid..tile.columns.len, value);
    }

    fn mask_rows(&self, tile: impl Into<Tile<i64>>, valid: i64, value: f32) {
        let tile = tile.into();
        let valid = usize::try_from(valid).unwrap_or(0);
        self.mask(&tile, valid..tile.rows.len, 0..tile.columns.len, value);
    }

    /// Copies at once: a kernel cannot tell, because it may not touch either side before the wait.
    fn start_copy<const N: usize>(
        &self,
        direction: Direction,
        block: HbmBlock<i64, N>,
        scratch: impl Into<Tile<i64>>,
        _semaphore: SemaphoreRef,
    ) {
        let scratch = scratch.into();
        let (array, block) = self.hbm(&block);
        self.whole_scratch(&scratch, |elements, width| match direction {
            Direction::Load => {
                array.read(&block, |array, start| {
                    load(array, start, &block, elements.as_data_mut(), width);
                });
            }
            Direction::Store => {
                array.write(&block, |array, start| {
                    store(array, start, &block, elements.as_data(), width);
                });
            }
        });
        if direction == Direction::Load {
            self.panels[scratch.buffer.index()].invalidate();
        }
    }

    fn wait<const N: usize>(
        &self,
        _direction: Direction,
        _block: HbmBlock<i64, N>,
        _scratch: impl Into<Tile<i64>>,
        _semaphore: SemaphoreRef,
    ) {
    }
}

/// The column of a tile that a label means, if it is in the tile.
pub(crate) fn column_in(label: i32, first_column: i64, columns: usize) -> Option<usize> {
    let column = usize::try_from(i64::from(label) - first_column).ok()?;
    (column < columns).then_some(column)
}
