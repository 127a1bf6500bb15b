//! [`CpuTiles`]: what a thread knows while it executes a kernel, and how the [primitives](crate::primitives) reach rows
//! of its tiles.

use std::cell::{Cell, RefCell, RefMut};

use tilecast_core::DType;
use tilecast_core::spec::KernelSpec;
use tilecast_core::view::{BufferId, HbmBlock, Span, Stats, Tile};

use crate::Cpu;
use crate::buffers::{Block, InputTile, LocalTile, Masks, Part, Vector, values};
use crate::elements::{Aligned, Elements};
use crate::evaluate::STRIP;
use crate::gemm::{self, GemmError, Source};
use crate::launch::Passed;
use crate::panels::Panels;
use crate::simd::{Destination, Simd, Statistics, Strided, Values, ValuesMut, prefetch_later_row};
use crate::storage::Storage;

/// Rows of an output that are computed before they are written: taking the lock of its array waits for all stores
/// before it, those of the row before among them.
const ROWS_AT_ONCE: usize = 8;

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
    pub(crate) passed: &'s Passed,
    pub(crate) slots: Vec<RefCell<Slot<'s, 'a>>>,
    /// Block indices of each window at this step.
    pub(crate) shown: Vec<RefCell<Vec<i64>>>,
    /// Packed copies of each slot.
    pub(crate) panels: Vec<Panels>,
    /// The first thing that went wrong; the step's results are then not used.
    pub(crate) error: RefCell<Option<GemmError>>,
}

impl<'s, 'a> CpuTiles<'s, 'a> {
    pub(crate) fn slot(&self, buffer: BufferId) -> RefMut<'_, Slot<'s, 'a>> {
        self.slots[buffer.index()].borrow_mut()
    }

    /// A tile to write to.
    pub(crate) fn local(&self, buffer: BufferId) -> RefMut<'_, LocalTile<'s, 'a>> {
        RefMut::map(self.slot(buffer), |slot| match slot {
            Slot::Local(tile) => {
                tile.settle();
                tile
            }
            _ => panic!("{} is not a tile of the kernel's own", self.name(buffer)),
        })
    }

    pub(crate) fn vector(&self, buffer: BufferId) -> RefMut<'_, Aligned<f32>> {
        RefMut::map(self.slot(buffer), |slot| match slot {
            Slot::Vector(Vector {
                elements: Elements::F32(data),
                ..
            }) => data,
            _ => panic!("{} is not an f32 vector", self.name(buffer)),
        })
    }

    pub(crate) fn integers(&self, buffer: BufferId) -> RefMut<'_, Aligned<i32>> {
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

    pub(crate) fn name(&self, buffer: BufferId) -> &'static str {
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
            let (inside, outside) = out.split_at_mut(layout.valid_columns * layout.valid_rows);
            outside.fill(layout.fill);
            let strided = |inside: &mut [f32], at: &dyn Fn(usize) -> f32| {
                (inside.iter_mut().enumerate())
                    .for_each(|(c, out)| *out = at(layout.offset + c * layout.column_stride));
            };
            if inside.is_empty() {
                return;
            }
            match (values, layout.column_stride) {
                (Values::F32(data), 1) => {
                    let len = inside.len();
                    prefetch_later_row(data, layout.offset, layout.row_stride, len);
                    inside.copy_from_slice(&data[layout.offset..][..len]);
                }
                (Values::Bf16(data), 1) => {
                    let len = inside.len();
                    prefetch_later_row(data, layout.offset, layout.row_stride, len);
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
    pub(crate) fn write_rows(&self, out: &Tile<i64>, compute: impl Fn(usize, usize, &mut [f32])) {
        let whole = part(out);
        let mut strips = vec![0.0_f32; whole.rows.min(ROWS_AT_ONCE) * whole.columns.min(STRIP)];
        for first in (0..whole.rows).step_by(ROWS_AT_ONCE) {
            for column in (0..whole.columns).step_by(STRIP) {
                let part = Part {
                    row: whole.row + first,
                    rows: ROWS_AT_ONCE.min(whole.rows - first),
                    column: whole.column + column,
                    columns: STRIP.min(whole.columns - column),
                };
                let strips = &mut strips[..part.rows * part.columns];
                // The tile is borrowed only after: it may be a leaf of what is computed.
                for (r, strip) in strips.chunks_exact_mut(part.columns).enumerate() {
                    compute(first + r, column, strip);
                }
                self.overwrite(out.buffer, part, |to, rows, destination| {
                    let (values, stride) = (Values::F32(strips), part.columns);
                    let extent = [rows, part.columns];
                    (self.simd).convert(to, Strided { values, stride }, extent, destination);
                });
            }
        }
        self.panels[out.buffer.index()].invalidate();
    }

    /// Sets a rectangle of a tile, which reaches to its last row or column. An input window only remembers it, for all
    /// of its columns or rows.
    pub(crate) fn mask(
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
            if rows.start > 0 {
                window.masks.rows = Some((start(&tile.rows) + rows.start, value));
            } else {
                window.masks.columns = Some((start(&tile.columns) + columns.start, value));
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
        let whole = part(tile);
        let part = Part {
            row: whole.row + row,
            rows: 1,
            column: whole.column + column,
            columns: len,
        };
        self.overwrite(tile.buffer, part, |rows, _, to| body(rows.values, to));
    }

    /// Hands a part of a tile of the kernel's own to `body`, to overwrite, with the number of its rows: those beyond
    /// the array may be left out.
    fn overwrite(
        &self,
        tile: BufferId,
        part: Part,
        body: impl FnOnce(Strided<ValuesMut<'_>>, usize, Destination),
    ) {
        let Slot::Local(local) = &mut *self.slot(tile) else {
            panic!("{} is not a tile of the kernel's own", self.name(tile));
        };
        let [rows, _] = local.inside(&part);
        if rows > 0 && local.write_rows(&Part { rows, ..part }, |to, place| body(to, rows, place)) {
            self.mark_overwritten(tile, part.row + rows - 1);
        }
    }

    /// Whether `out` and `x` may be the same memory.
    pub(crate) fn share_memory(&self, out: &Tile<i64>, x: &Tile<i64>) -> bool {
        out.buffer == x.buffer || self.spec.aliases().contains(&(x.buffer, out.buffer))
    }

    /// Whether writing `out` overwrites the part of the array that `x` shows, element by element.
    pub(crate) fn is_update(&self, out: &Tile<i64>, x: &Tile<i64>) -> bool {
        out.buffer != x.buffer
            && self.share_memory(out, x)
            && part(out) == part(x)
            && match (&*self.slot(out.buffer), &*self.slot(x.buffer)) {
                (Slot::Local(local), Slot::Input(window)) => {
                    local.is_in_array() && window.masks == Masks::default()
                }
                _ => false,
            }
    }

    /// If `out` updates the array that `x` shows, makes what is there the elements of `out`.
    pub(crate) fn adopt(&self, out: &Tile<i64>, x: &Tile<i64>) -> bool {
        let is_update = self.is_update(out, x);
        if is_update && let Slot::Local(local) = &mut *self.slot(out.buffer) {
            local.adopt();
        }
        is_update
    }

    /// Hands a tile for which [`Self::is_update`] holds to `body`, as far as it lies inside the array, with how many
    /// rows and columns that are.
    pub(crate) fn rows_to_update(
        &self,
        tile: &Tile<i64>,
        body: impl FnOnce(Strided<ValuesMut<'_>>, [usize; 2], Destination),
    ) {
        let Slot::Local(local) = &mut *self.slot(tile.buffer) else {
            panic!("{} is not an output", self.name(tile.buffer));
        };
        let part = part(tile);
        let inside @ [rows, columns] = local.inside(&part);
        if rows > 0 && columns > 0 {
            let part = Part {
                rows,
                columns,
                ..part
            };
            local.write_rows(&part, |x, to| body(x, inside, to));
            self.mark_overwritten(tile.buffer, part.row + rows - 1);
        }
    }

    /// Hands those rows of a tile whose first so many columns lie in memory as they are to `body`, with their number:
    /// none where columns are masked, apart or beyond the array. Returns what `body` does, or 0 if there are none.
    pub(crate) fn rows_in_place(
        &self,
        tile: &Tile<i64>,
        columns: usize,
        body: impl FnOnce(Strided<Values<'_>>, usize) -> usize,
    ) -> usize {
        let part = part(tile);
        let read = |x: Values<'_>, layout: gemm::Layout| {
            let (rows, stride) = (layout.valid_rows, layout.row_stride);
            if layout.column_stride != 1 || layout.valid_columns < columns || rows * columns == 0 {
                return 0;
            }
            let end = layout.offset + (rows - 1) * stride + columns;
            let values = x.range(layout.offset..end);
            body(Strided { values, stride }, rows)
        };
        self.settle(tile.buffer);
        match &*self.slots[tile.buffer.index()].borrow() {
            Slot::Input(window) => window
                .read(|array, start| read(values(array.data), window.layout(array, start, &part))),
            Slot::Local(local) => read(values(local.elements.as_data()), local.layout(&part)),
            _ => panic!("{} is not a tile", self.name(tile.buffer)),
        }
    }

    /// Hands as many rows of both tiles as lie in memory as they are to `body`, to overwrite the first, and says how
    /// many that are; there is nothing to write in columns that are left out.
    pub(crate) fn rows_at_once(
        &self,
        out: &Tile<i64>,
        x: &Tile<i64>,
        body: impl FnOnce(Strided<ValuesMut<'_>>, Strided<Values<'_>>, [usize; 2], Destination),
    ) -> usize {
        let Slot::Local(local) = &mut *self.slot(out.buffer) else {
            panic!(
                "{} is not a tile of the kernel's own",
                self.name(out.buffer)
            );
        };
        let to = part(out);
        let [rows, columns] = local.inside(&to);
        self.rows_in_place(x, columns, |x, in_place| {
            let rows = rows.min(in_place);
            let to = Part {
                rows,
                columns,
                ..to
            };
            if rows > 0 && local.write_rows(&to, |out, to| body(out, x, [rows, columns], to)) {
                self.mark_overwritten(out.buffer, to.row + rows - 1);
            }
            rows
        })
    }

    /// Notes that rows of an output window up to this one lie where the window shows them that it updates, if there is
    /// one.
    fn mark_overwritten(&self, output: BufferId, row: usize) {
        let updated = self.spec.aliases().iter().find(|(_, to)| *to == output);
        if let Some((input, _)) = updated
            && let Slot::Input(window) = &*self.slots[input.index()].borrow()
        {
            window.overwritten.set(row);
        }
    }

    /// Runs `body` on the running statistics of the rows of `stats`.
    pub(crate) fn with_stats<R>(
        &self,
        stats: &Stats<i64>,
        body: impl FnOnce(&mut [Statistics], bool) -> R,
    ) -> R {
        let Slot::Stats { rows, entropy } = &mut *self.slot(stats.buffer) else {
            panic!("{} is not statistics", self.name(stats.buffer));
        };
        body(&mut rows[range(&stats.span)], *entropy)
    }

    pub(crate) fn is_bf16(&self, buffer: BufferId) -> bool {
        let of = |values: Values<'_>| matches!(values, Values::Bf16(_));
        match &*self.slots[buffer.index()].borrow() {
            Slot::Input(window) => window.array.dtype() == DType::Bf16,
            Slot::Local(local) => of(values(local.elements.as_data())),
            _ => panic!("{} is not a tile", self.name(buffer)),
        }
    }

    /// Describes a part of a tile as a source for packing.
    pub(crate) fn with_source(
        &self,
        buffer: BufferId,
        part: &Part,
        pack: impl FnOnce(&Source<'_>) -> Result<(), GemmError>,
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

    /// The array and block of an HBM operand.
    pub(crate) fn hbm<const N: usize>(&self, block: &HbmBlock<i64, N>) -> (&'s Storage<'a>, Block) {
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
    pub(crate) fn whole_scratch(&self, tile: &Tile<i64>, body: impl FnOnce(&mut Elements, usize)) {
        match &mut *self.slot(tile.buffer) {
            Slot::Local(local) => {
                local.settle();
                body(&mut local.elements, local.row_stride);
            }
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

pub(crate) fn start(span: &Span<i64>) -> usize {
    usize::try_from(span.start.unwrap_or(0)).expect("spans start inside their buffer")
}

pub(crate) fn range(span: &Span<i64>) -> std::ops::Range<usize> {
    start(span)..start(span) + span.len
}

/// The column of a tile that a label means, if it is in the tile.
pub(crate) fn column_in(label: i32, first_column: i64, columns: usize) -> Option<usize> {
    let column = usize::try_from(i64::from(label) - first_column).ok()?;
    (column < columns).then_some(column)
}
