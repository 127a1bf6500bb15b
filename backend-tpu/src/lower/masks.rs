//! Masks: what of a tile lies beyond the end of an array is replaced.
//!
//! Where that is rare it is a branch, which costs a step nothing that does not take it; in a straight line of sub-tiles
//! it is selections, which the scheduler overlaps with the rest.

use tilecast_core::ops::TileOps;
use tilecast_core::spec::{Access, Buffer};
use tilecast_core::target::LANES;
use tilecast_core::view::Tile;

use super::scalar::Scalar;
use super::tile_ops::Recorder;
use crate::mosaic::Value;

impl<'r> Recorder<'r> {
    /// Replaces the part of a tile from `valid` on, along one dimension.
    pub(super) fn mask(
        self,
        tile: &Tile<Scalar<'r>>,
        valid: Scalar<'r>,
        value: f32,
        dimension: usize,
    ) {
        let r = self.0;
        let shape = [tile.rows.len, tile.columns.len];
        let overhangs = self.less_than(valid, self.index(shape[dimension] as i64));
        self.when(overhangs, || {
            let numbers = r.numbers(&shape, dimension);
            let limit = r.broadcast_scalar(valid.value(), &shape);
            let inside = r.compare_integers("slt", numbers, limit);
            self.keep(tile, 0, inside, value);
        });
    }

    /// Replaces the rows of a tile before `first` and from `end` on by 0.
    pub(super) fn mask_outside(self, tile: &Tile<Scalar<'r>>, first: Scalar<'r>, end: Scalar<'r>) {
        let r = self.0;
        let shape = [tile.rows.len, tile.columns.len];
        let numbers = r.numbers(&shape, 0);
        let compared = |predicate, limit: Scalar<'r>| {
            let limit = r.broadcast_scalar(limit.value(), &shape);
            r.compare_integers(predicate, numbers, limit)
        };
        let inside = [compared("sge", first), compared("slt", end)];
        self.keep(tile, 0, r.same("arith.andi", &inside), 0.0);
    }

    /// Replaces the columns of a tile from `valid` on. A whole buffer, or an input, which nothing else writes, is
    /// masked in a branch that few steps take. A part of what the step has computed is one of several sub-tiles in a
    /// straight line, which a branch would cut, so that the scheduler could not overlap them: these are masked always.
    pub(super) fn mask_tail(self, tile: &Tile<Scalar<'r>>, valid: Scalar<'r>, value: f32) {
        let r = self.0;
        let computed = match &r.spec.buffers()[tile.buffer.index()].buffer {
            Buffer::Window { access, .. } => *access != Access::Input,
            _ => true,
        };
        let whole = tile.rows.start.is_none() && tile.columns.start.is_none();
        if whole || !computed {
            return self.mask(tile, valid, value, 1);
        }
        // One of several sub-tiles of columns may end before any block overhangs.
        let first = match tile.columns.start {
            Some(_) => self.overhang(valid, tile.columns.len),
            None => 0,
        };
        let shape = [tile.rows.len, tile.columns.len - first];
        if shape[1] == 0 {
            return;
        }
        let valid = valid + -(first as i64);
        let limit = r.broadcast_scalar(valid.value(), &[shape[0], LANES]);
        let limit = r.lane_distances(limit, self.index(0));
        let limit = r.spread(limit, shape[1]);
        let inside = r.compare_integers("slt", r.group_starts(shape), limit);
        self.keep(tile, first, inside, value);
    }

    /// Replaces what is not `inside`, which is known of the columns from `first` on.
    fn keep(self, tile: &Tile<Scalar<'r>>, first: usize, inside: Value, value: f32) {
        let r = self.0;
        let [rows, columns] = [tile.rows.len, tile.columns.len];
        let all = r.widen(r.load_tile(tile));
        let part = |from, to| r.slice(all, [0, from], [rows, to - from]);
        let other = r.splat(value, &[rows, columns - first]);
        let masked = match first {
            0 => r.select(inside, all, other),
            _ => {
                let kept = r.select(inside, part(first, columns), other);
                r.concatenate(&[part(0, first), kept], 1)
            }
        };
        r.store_tile(tile, masked);
    }

    /// The first column of a tile, of a group of 128, that may lie behind the `valid` ones. What `valid` can be may
    /// follow from the number of steps along the axes of the grid.
    fn overhang(self, valid: Scalar<'r>, columns: usize) -> usize {
        self.0.sizes_read.borrow_mut().fill(true);
        let inside = usize::try_from(valid.range[0]).unwrap_or(0);
        inside.min(columns) / LANES * LANES
    }
}
