//! The primitives, executed on the tiles of a thread.
//!
//! Tiles are processed row by row: a row of a few hundred f32 stays in L1 between the passes over it. Indices are plain
//! numbers here and conditions plain truth values.

use tilecast_core::expr::{Expr, Leaf, Node};
use tilecast_core::ops::{Accumulate, Contract, Delta, Direction, Largest, TileOps, Unroll};
use tilecast_core::spec::AxisId;
use tilecast_core::view::{
    Columns, HbmBlock, Rows, ScalarsRef, SemaphoreRef, Span, Stats, TableRef, Tile,
};

use crate::buffers::{Masks, load, store};
use crate::elements::Elements;
use crate::evaluate::{STRIP, evaluate};
use crate::gemm::{self, GemmError, Out};
use crate::leaves::{AlongRow, AlongRows};
use crate::panels::Key;
use crate::simd::{Binary, Statistics, Strided, Unary};
use crate::tiles::{CpuTiles, Slot, column_in, part, range, start};

impl CpuTiles<'_, '_> {
    /// `out[r] = value` of the statistics of row `r`.
    fn finish(&self, out: &Rows<i64>, stats: &Stats<i64>, value: fn(&Statistics) -> f32) {
        self.with_stats(stats, |stats, _| {
            let mut vector = self.vector(out.buffer);
            for (out, stats) in vector[range(&out.span)].iter_mut().zip(stats) {
                *out = value(stats);
            }
        });
    }

    /// The elements of a row of a tile times `scale`, a strip at a time.
    fn scaled_strips(
        &self,
        tile: &Tile<i64>,
        row: usize,
        scale: f32,
        mut body: impl FnMut(&mut [f32]),
    ) {
        let mut strip = [0.0_f32; STRIP];
        for column in (0..tile.columns.len).step_by(STRIP) {
            let strip = &mut strip[..STRIP.min(tile.columns.len - column)];
            self.read_row(tile, row, column, strip);
            self.simd.binary_scalar(Binary::Mul, strip, scale);
            body(strip);
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
        let left = left.get(&left_key, |left| {
            self.with_source(a.buffer, &left_key.part, |source| {
                left.pack(simd, source, left_key.transposed, arithmetic)
            })
        })?;
        let mut right = self.panels[b.buffer.index()].right.borrow_mut();
        let right = right.get(&right_key, |right| {
            self.with_source(b.buffer, &right_key.part, |source| {
                right.pack(simd, source, right_key.transposed, arithmetic)
            })
        })?;
        let part = part(&out);
        let is_zero = self.settle_for_product(out.buffer, &part);
        let mut local = self.local(out.buffer);
        let row_stride = local.row_stride;
        let Elements::F32(data) = &mut local.elements else {
            panic!(
                "a product is summed in f32, {} is not",
                self.name(out.buffer)
            );
        };
        let out_tile = Out {
            values: &mut data[part.row * row_stride + part.column..],
            row_stride,
            rows: part.rows,
            columns: part.columns,
        };
        let accumulate = accumulate == Accumulate::Add && !is_zero;
        gemm::matmul(simd, out_tile, left, right, accumulate)
    }
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
        self.passed.scalars[self.spec.scalar_position(scalars, index)]
    }

    fn element(&self, table: TableRef, index: i64) -> i64 {
        i64::from(self.passed.tables[table.table()][index as usize])
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

    fn not(&self, a: bool) -> bool {
        !a
    }

    fn when(&self, condition: bool, body: impl FnOnce()) {
        if condition {
            body();
        }
    }

    fn for_each(&self, count: usize, _unroll: Unroll, body: impl Fn(i64)) {
        (0..count as i64).for_each(body);
    }

    fn for_own_parts(
        &self,
        _: [usize; 2],
        [first, end]: [i64; 2],
        inside: impl Fn(Span<i64>),
        _: impl Fn(Span<i64>, [i64; 2]),
    ) {
        inside(Span::new(first, (end - first) as usize));
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
        let out = out.into();
        if matches!(value.node(), Node::Constant(0.0)) && self.clear(&out) {
            return self.panels[out.buffer.index()].invalidate();
        }
        self.write_rows(&out, |row, column, strip| {
            let tiles = self;
            evaluate(self.simd, &value, &AlongRow { tiles, row, column }, strip);
        });
    }

    fn cast(&self, out: impl Into<Tile<i64>>, input: impl Into<Tile<i64>>) {
        let (out, input) = (out.into(), input.into());
        if !self.adopt(&out, &input) {
            let strips = self.share_memory(&out, &input);
            let done = match strips {
                true => 0,
                false => self.rows_at_once(&out, &input, |out, x, extent, destination| {
                    self.simd.convert(out, x, extent, destination);
                }),
            };
            for row in done..out.rows.len {
                self.pieces(&input, row, strips, |first, x| {
                    self.pieces_mut(&out, row, first, x.len(), |out, destination| {
                        let extent = [1, x.len()];
                        let (out, x) = (Strided::row(out), Strided::row(x));
                        self.simd.convert(out, x, extent, destination);
                    });
                });
            }
        }
        self.panels[out.buffer.index()].invalidate();
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
        let simd = self.simd;
        self.with_stats(&stats, |stats, entropy| {
            let columns = tile.columns.len;
            let done = self.rows_in_place(&tile, columns, |x, rows| {
                simd.softmax_statistics(&mut stats[..rows], x, columns, scale, entropy);
                rows
            });
            for (r, stats) in stats.iter_mut().enumerate().skip(done) {
                let stats = std::slice::from_mut(stats);
                self.pieces(&tile, r, false, |_, x| {
                    simd.softmax_statistics(stats, Strided::row(x), x.len(), scale, entropy);
                });
            }
        });
    }

    fn start_logsumexp(
        &self,
        stats: impl Into<Stats<i64>>,
        tile: impl Into<Tile<i64>>,
        scale: f32,
    ) {
        let tile = tile.into();
        self.with_stats(&stats.into(), |stats, _| {
            let unseen = |(_, stats): &(usize, &mut Statistics)| stats.max == f32::NEG_INFINITY;
            for (row, stats) in stats.iter_mut().enumerate().filter(unseen) {
                self.scaled_strips(&tile, row, scale, |strip| {
                    stats.max = stats.max.max(self.simd.max(strip));
                });
            }
        });
    }

    fn take_maximum(
        &self,
        stats: impl Into<Stats<i64>>,
        tile: impl Into<Tile<i64>>,
        scale: f32,
        condition: bool,
    ) {
        if !condition {
            return;
        }
        let stats = stats.into();
        self.with_stats(&stats, |stats, _| {
            (stats.iter_mut()).for_each(|stats| stats.max = f32::NEG_INFINITY);
        });
        self.start_logsumexp(stats, tile, scale);
    }

    fn add_exponentials(
        &self,
        stats: impl Into<Stats<i64>>,
        tile: impl Into<Tile<i64>>,
        scale: f32,
    ) {
        let tile = tile.into();
        self.with_stats(&stats.into(), |stats, _| {
            for (row, stats) in stats.iter_mut().enumerate() {
                // Relative to a finite number, what is absent adds 0 also where nothing else has been seen.
                let max = stats.max.max(f32::MIN);
                self.scaled_strips(&tile, row, scale, |strip| {
                    self.simd.binary_scalar(Binary::Sub, strip, max);
                    self.simd.unary(Unary::Exp, strip);
                    stats.sum += self.simd.sum(strip);
                });
            }
        });
    }

    fn sums_exceed(&self, stats: impl Into<Stats<i64>>, limit: f32, _: Largest) -> bool {
        self.with_stats(&stats.into(), |stats, _| {
            let within = |stats: &Statistics| stats.sum <= limit;
            !stats.iter().all(within)
        })
    }

    fn copy_stats(&self, out: impl Into<Stats<i64>>, stats: impl Into<Stats<i64>>) {
        self.with_stats(&stats.into(), |from, _| {
            self.with_stats(&out.into(), |to, _| to.copy_from_slice(from));
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

    /// Nothing is left to do: a row has one value.
    fn finish_one_hot(&self, _: impl Into<Rows<i64>>) {}

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

    fn keep_rows(&self, tile: impl Into<Tile<i64>>, first: i64, end: i64) {
        let tile = tile.into();
        let is_input = matches!(*self.slot(tile.buffer), Slot::Input(_));
        assert!(!is_input, "{} is an input", self.name(tile.buffer));
        let rows = tile.rows.len;
        let [first, end] = [first, end].map(|row| row.clamp(0, rows as i64) as usize);
        for dropped in [0..first, end..rows] {
            self.mask(&tile, dropped, 0..tile.columns.len, 0.0);
        }
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
                for (before, part) in array.parts(&block) {
                    array.read(&part, |array, start| {
                        let to = elements.as_data_mut().skip(before * width);
                        load(array, start, &part, to, width);
                    });
                }
            }
            Direction::Store => {
                for (before, part) in array.parts(&block) {
                    array.write(&part, |array, start| {
                        let from = elements.as_data().skip(before * width);
                        store(array, start, &part, from, width);
                    });
                }
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
