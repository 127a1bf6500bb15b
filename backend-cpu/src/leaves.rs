//! The values of an expression's leaves inside a kernel.

use tilecast_core::expr::Leaf;
use tilecast_core::view::Rows;

use crate::evaluate::Leaves;
use crate::tiles::{CpuTiles, range};

/// Leaves along a row: the strip runs over columns.
pub(crate) struct AlongRow<'t, 's, 'a> {
    pub(crate) tiles: &'t CpuTiles<'s, 'a>,
    pub(crate) row: usize,
    pub(crate) column: usize,
}

impl AlongRow<'_, '_, '_> {
    fn real(&self, rows: &Rows<i64>) -> f32 {
        self.tiles.vector(rows.buffer)[range(&rows.span)][self.row]
    }

    fn integer(&self, rows: &Rows<i64>) -> i32 {
        self.tiles.integers(rows.buffer)[range(&rows.span)][self.row]
    }
}

impl Leaves<Leaf<i64>> for AlongRow<'_, '_, '_> {
    fn load(&self, leaf: &Leaf<i64>, out: &mut [f32]) {
        match leaf {
            Leaf::Tile(tile) => self.tiles.read_row(tile, self.row, self.column, out),
            Leaf::Rows(rows) => out.fill(self.real(rows)),
            Leaf::Columns(columns) => {
                let vector = self.tiles.vector(columns.buffer);
                out.copy_from_slice(&vector[range(&columns.span)][self.column..][..out.len()]);
            }
            Leaf::Column(_) => panic!("a column number is an integer"),
        }
    }

    fn load_int(&self, leaf: &Leaf<i64>, out: &mut [i32]) {
        match leaf {
            Leaf::Rows(rows) => out.fill(self.integer(rows)),
            Leaf::Column(first) => {
                let first = first.unwrap_or(0) as i32 + self.column as i32;
                (out.iter_mut().zip(first..)).for_each(|(out, column)| *out = column);
            }
            _ => panic!("not an integer: {leaf:?}"),
        }
    }

    fn constant(&self, leaf: &Leaf<i64>) -> Option<f32> {
        match leaf {
            Leaf::Rows(rows) => Some(self.real(rows)),
            _ => None,
        }
    }

    fn progression(&self, leaf: &Leaf<i64>) -> Option<[i64; 2]> {
        match leaf {
            Leaf::Rows(rows) => Some([i64::from(self.integer(rows)), 0]),
            Leaf::Column(first) => Some([first.unwrap_or(0) + self.column as i64, 1]),
            _ => None,
        }
    }
}

/// Leaves along a column: the strip runs over rows of per-row vectors.
pub(crate) struct AlongRows<'t, 's, 'a> {
    pub(crate) tiles: &'t CpuTiles<'s, 'a>,
    pub(crate) row: usize,
}

impl Leaves<Leaf<i64>> for AlongRows<'_, '_, '_> {
    fn load(&self, leaf: &Leaf<i64>, out: &mut [f32]) {
        let Leaf::Rows(rows) = leaf else {
            panic!("a row-wise expression has per-row leaves only, not {leaf:?}");
        };
        let vector = self.tiles.vector(rows.buffer);
        out.copy_from_slice(&vector[range(&rows.span)][self.row..][..out.len()]);
    }

    fn load_int(&self, leaf: &Leaf<i64>, out: &mut [i32]) {
        let Leaf::Rows(rows) = leaf else {
            panic!("a row-wise expression has per-row leaves only, not {leaf:?}");
        };
        let vector = self.tiles.integers(rows.buffer);
        out.copy_from_slice(&vector[range(&rows.span)][self.row..][..out.len()]);
    }
}
