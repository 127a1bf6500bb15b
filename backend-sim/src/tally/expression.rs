//! The work of an expression: each node costs its operation once for every register over which its
//! value varies, so that arithmetic on per-row values is cheap next to a tile.

use tilecast_core::expr::{Expr, Int, Leaf, Mask, Node};

use super::Tally;
use crate::cost::{binary, load, unary, valu};
use crate::work::Work;

/// Along which dimensions a value varies; that many operations compute it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Extent {
    Constant,
    PerRow,
    PerColumn,
    Full,
}

impl Extent {
    fn join(self, other: Self) -> Self {
        match (self, other) {
            (Self::PerRow, Self::PerColumn) | (Self::PerColumn, Self::PerRow) => Self::Full,
            _ => self.max(other),
        }
    }
}

/// Registers of a tile along its rows and columns.
#[derive(Clone, Copy)]
pub(super) struct Registers {
    pub(super) rows: f64,
    pub(super) columns: f64,
}

impl Registers {
    fn count(self, extent: Extent) -> f64 {
        match extent {
            Extent::Constant => 0.0,
            Extent::PerRow => self.rows,
            Extent::PerColumn => self.columns,
            Extent::Full => self.rows * self.columns,
        }
    }

    pub(super) fn full(self) -> f64 {
        self.count(Extent::Full)
    }
}

impl Tally<'_> {
    /// Adds the work of an expression to `work`.
    pub(super) fn expression(
        &self,
        value: &Expr<Leaf<i64>>,
        over: Registers,
        work: &mut Vec<(Work, f64)>,
    ) -> Extent {
        let (extent, operation) = match value.node() {
            Node::Constant(_) => return Extent::Constant,
            Node::Leaf(leaf) => return self.leaf(leaf, over, work),
            Node::Unary(f, a) => (self.expression(a, over, work), unary(*f, self.target)),
            Node::Binary(f, a, b) => {
                let extent = self.expression(a, over, work);
                let extent = extent.join(self.expression(b, over, work));
                (extent, binary(*f, self.target))
            }
            Node::Select(mask, a, b) => {
                let extent = self.mask(mask, over, work);
                let extent = extent.join(self.expression(a, over, work));
                (extent.join(self.expression(b, over, work)), valu(1.0))
            }
        };
        work.push((operation, over.count(extent)));
        extent
    }

    fn mask(&self, mask: &Mask<Leaf<i64>>, over: Registers, work: &mut Vec<(Work, f64)>) -> Extent {
        let extent = match mask {
            Mask::IntEqual(a, b) | Mask::IntLess(a, b) => {
                let extent = self.int(a, over, work);
                extent.join(self.int(b, over, work))
            }
            Mask::Equal(a, b) | Mask::Less(a, b) => {
                let extent = self.expression(a, over, work);
                extent.join(self.expression(b, over, work))
            }
            Mask::And(both) => {
                let extent = self.mask(&both.0, over, work);
                extent.join(self.mask(&both.1, over, work))
            }
            Mask::Not(inner) => self.mask(inner, over, work),
        };
        work.push((valu(1.0), over.count(extent)));
        extent
    }

    fn int(&self, int: &Int<Leaf<i64>>, over: Registers, work: &mut Vec<(Work, f64)>) -> Extent {
        match int {
            Int::Constant(_) => Extent::Constant,
            Int::Leaf(leaf) => self.leaf(leaf, over, work),
        }
    }

    fn leaf(&self, leaf: &Leaf<i64>, over: Registers, work: &mut Vec<(Work, f64)>) -> Extent {
        let (read, extent) = match leaf {
            Leaf::Tile(tile) => (load(self.dtype(tile.buffer)), Extent::Full),
            Leaf::Rows(rows) => (self.read_rows(rows), Extent::PerRow),
            Leaf::Columns(columns) => (load(self.dtype(columns.buffer)), Extent::PerColumn),
            Leaf::Column(_) => (valu(1.0), Extent::PerColumn),
        };
        work.push((read, over.count(extent)));
        extent
    }
}
