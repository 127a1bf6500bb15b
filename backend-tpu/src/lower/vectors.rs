//! Views as vectors: the layouts of per-row values, and expressions.
//!
//! A per-row value meets a tile in *lane form*, `[rows, 128]` with the value in every lane: then it
//! lines up with each 128 columns of the tile and nothing has to move between lanes. Row scratch is
//! stored like that. A per-row window is stored as one row, `[1, rows]`; a transpose of 128 x 128
//! turns 128 of its elements into lane form, and back.

use tilecast_core::DType;
use tilecast_core::expr::{Binary, Expr, Int, Leaf, Mask, Node, Unary};
use tilecast_core::target::LANES;
use tilecast_core::view::{Columns, Rows, Tile};

use super::recording::{Recording, Slot};
use super::scalar::Scalar;
use crate::mosaic::Value;

/// `e^x` is 0 below, in f32: a smaller exponent would only make `0 * -inf`.
pub(super) const LEAST_EXPONENT: f32 = -105.0;

/// The shape an expression is computed in.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    /// Elements of a tile, `[rows, columns]`.
    Tile([usize; 2]),
    /// Per-row values in lane form, `[rows, 128]`.
    Lanes(usize),
    /// Per-row values as one row, `[1, rows]`.
    Row(usize),
}

impl Form {
    fn shape(self) -> [usize; 2] {
        match self {
            Self::Tile(shape) => shape,
            Self::Lanes(rows) => [rows, LANES],
            Self::Row(rows) => [1, rows],
        }
    }
}

impl<'r> Recording<'r> {
    /// The memory of a tile and where the view starts in it.
    fn place(&'r self, tile: &Tile<Scalar<'r>>) -> (Value, [Value; 2]) {
        let memref = match self.slot(tile.buffer) {
            Slot::Tile { memref, .. } | Slot::Columns { memref } => memref,
            other => unreachable!("a tile view of {other:?}"),
        };
        let at = [&tile.rows, &tile.columns].map(|span| self.start(span).index());
        (memref, at)
    }

    /// The elements of a tile, in their own type.
    pub(super) fn load_tile(&'r self, tile: &Tile<Scalar<'r>>) -> Value {
        let (memref, at) = self.place(tile);
        self.load(memref, at, &[tile.rows.len, tile.columns.len])
    }

    /// Stores f32 elements, rounded to the type of the tile.
    pub(super) fn store_tile(&'r self, tile: &Tile<Scalar<'r>>, value: Value) {
        let dtype = match self.slot(tile.buffer) {
            Slot::Tile { dtype, .. } => dtype,
            _ => DType::F32,
        };
        let (memref, at) = self.place(tile);
        self.store(memref, at, self.narrow(value, dtype));
    }

    /// Per-row values in lane form.
    pub(super) fn lanes(&'r self, rows: &Rows<Scalar<'r>>) -> Value {
        let start = self.start(&rows.span);
        match self.slot(rows.buffer) {
            Slot::RowScratch { memref } => {
                let at = [start.index(), self.index_constant(0)];
                self.load(memref, at, &[rows.span.len, LANES])
            }
            Slot::RowWindow { memref } => {
                let chunks = self.chunks(rows.span.len).map(|(first, len)| {
                    let at = [self.index_constant(0), (start + first as i64).index()];
                    self.in_lanes(self.load(memref, at, &[1, len]))
                });
                self.concatenate(&chunks.collect::<Vec<_>>(), 0)
            }
            other => unreachable!("per-row values of {other:?}"),
        }
    }

    /// Per-row values as one row.
    fn row(&'r self, rows: &Rows<Scalar<'r>>) -> Value {
        let start = self.start(&rows.span);
        match self.slot(rows.buffer) {
            Slot::RowWindow { memref } => {
                let at = [self.index_constant(0), start.index()];
                self.load(memref, at, &[1, rows.span.len])
            }
            Slot::RowScratch { .. } => self.lanes_to_row(self.lanes(rows)),
            other => unreachable!("per-row values of {other:?}"),
        }
    }

    /// Lane form of one of the [chunks](Self::chunks) of a row.
    fn in_lanes(&self, chunk: Value) -> Value {
        let len = self.shape(chunk)[1];
        self.transpose(self.broadcast(chunk, &[LANES, len]))
    }

    fn row_to_lanes(&self, row: Value) -> Value {
        let parts = self
            .chunks(self.shape(row)[1])
            .map(|(first, len)| self.in_lanes(self.slice(row, [0, first], [1, len])));
        self.concatenate(&parts.collect::<Vec<_>>(), 0)
    }

    fn lanes_to_row(&self, lanes: Value) -> Value {
        let rows = self.shape(lanes)[0];
        let parts = self.chunks(rows).map(|(first, len)| {
            let part = self.slice(lanes, [first, 0], [len, LANES]);
            self.slice(self.transpose(part), [0, 0], [1, len])
        });
        self.concatenate(&parts.collect::<Vec<_>>(), 1)
    }

    /// Stores lane form into a per-row buffer of either layout.
    pub(super) fn store_lanes(&'r self, rows: &Rows<Scalar<'r>>, lanes: Value) {
        let start = self.start(&rows.span).index();
        match self.slot(rows.buffer) {
            Slot::RowScratch { memref } => {
                self.store(memref, [start, self.index_constant(0)], lanes);
            }
            Slot::RowWindow { memref } => {
                let row = self.lanes_to_row(lanes);
                self.store(memref, [self.index_constant(0), start], row);
            }
            other => unreachable!("per-row values of {other:?}"),
        }
    }

    /// Stores the elements of lane form at which `mask` holds into row scratch.
    pub(super) fn store_lanes_where(&'r self, rows: &Rows<Scalar<'r>>, lanes: Value, mask: Value) {
        let start = self.start(&rows.span).index();
        match self.slot(rows.buffer) {
            Slot::RowScratch { memref } => {
                self.store_where(memref, [start, self.index_constant(0)], lanes, mask);
            }
            other => unreachable!("a mask in lanes of {other:?}"),
        }
    }

    /// `out[r] = value(r)`, computed in the layout of `out`, or as a row where all that it reads are rows: that is at
    /// least 128 values to a register and one vector to bring to the lanes, instead of 8 values and a vector for each
    /// leaf.
    pub(super) fn store_row_wise(&'r self, out: &Rows<Scalar<'r>>, value: &Expr<Leaf<Scalar<'r>>>) {
        let len = out.span.len;
        match self.slot(out.buffer) {
            Slot::RowWindow { memref } => {
                let value = self.evaluate(value, Form::Row(len));
                let at = [self.index_constant(0), self.start(&out.span).index()];
                self.store(memref, at, value);
            }
            _ if self.reads_rows_only(value) => {
                let row = self.evaluate(value, Form::Row(len));
                self.store_lanes(out, self.row_to_lanes(row));
            }
            _ => self.store_lanes(out, self.evaluate(value, Form::Lanes(len))),
        }
    }

    /// Whether this computes something of per-row windows and of nothing else.
    fn reads_rows_only(&self, value: &Expr<Leaf<Scalar<'r>>>) -> bool {
        let (mut leaves, mut all) = (0, true);
        value.for_each_leaf(&mut |leaf| {
            leaves += 1;
            all &= matches!(leaf, Leaf::Rows(rows) if matches!(self.slot(rows.buffer), Slot::RowWindow { .. }));
        });
        // A leaf alone goes to the lanes as it is.
        leaves > 0 && all && !matches!(value.node(), Node::Leaf(_))
    }

    /// Pieces of 128 rows, the unit of a transpose.
    fn chunks(&self, rows: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
        if !rows.is_multiple_of(LANES) {
            self.unsupported(format!(
                "a block of {rows} rows: per-row values are transposed 128 at a time, so the token \
                 block must be a multiple of 128"
            ));
        }
        (0..rows)
            .step_by(LANES)
            .map(move |first| (first, LANES.min(rows - first)))
    }

    /// Lane form next to a tile of `columns` columns. Copies of a register cost nothing, moving
    /// values between lanes does.
    pub(super) fn spread(&self, lanes: Value, columns: usize) -> Value {
        if columns.is_multiple_of(LANES) {
            return self.concatenate(&vec![lanes; columns / LANES], 1);
        }
        let rows = self.shape(lanes)[0];
        let column = self.slice(lanes, [0, 0], [rows, 1]);
        self.broadcast(column, &[rows, columns])
    }

    /// The columns of `[rows, columns]` in groups of 128.
    pub(super) fn lane_groups(&self, tile: Value) -> Vec<Value> {
        let shape = self.shape(tile);
        self.check_groups(shape[1]);
        (0..shape[1] / LANES)
            .map(|i| self.slice(tile, [0, i * LANES], [shape[0], LANES]))
            .collect()
    }

    fn check_groups(&self, columns: usize) {
        if !columns.is_multiple_of(LANES) {
            self.unsupported(format!(
                "a block of {columns} columns: the vocabulary block must be a multiple of {LANES}"
            ));
        }
    }

    /// Columns of an array in lane form, as distances from each lane of a tile that starts at `first_column`: `128 i`
    /// in the lane, and for the group `i`, whose column it is.
    pub(super) fn lane_distances(&'r self, columns: Value, first_column: Scalar<'r>) -> Value {
        let lanes = self.lane_numbers(&self.shape(columns), first_column);
        self.same("arith.subi", &[columns, lanes])
    }

    /// The columns of an array that the lanes of a group are which starts at `first_column`.
    pub(super) fn lane_numbers(&'r self, shape: &[usize], first_column: Scalar<'r>) -> Value {
        let first = self.broadcast_scalar(first_column.value(), shape);
        self.same("arith.addi", &[self.numbers(shape, 1), first])
    }

    /// The first column of its [group](Self::lane_groups), for each element of a tile. Unlike numbers of columns these
    /// are constants of a register.
    pub(super) fn group_starts(&self, [rows, columns]: [usize; 2]) -> Value {
        self.check_groups(columns);
        let starts = (0..columns).step_by(LANES).map(|first| {
            let width = LANES.min(columns - first);
            self.broadcast_scalar(self.i32_constant(first as i64), &[rows, width])
        });
        self.concatenate(&starts.collect::<Vec<_>>(), 1)
    }

    /// Folds values with a two-operand operation, as a balanced tree: short dependency chains.
    pub(super) fn fold(&self, name: &str, mut values: Vec<Value>) -> Value {
        while values.len() > 1 {
            values = values
                .chunks(2)
                .map(|pair| match pair {
                    [a, b] => self.same(name, &[*a, *b]),
                    _ => pair[0],
                })
                .collect();
        }
        values[0]
    }

    /// `factor * value`; nothing to do for 1.
    pub(super) fn scaled(&self, value: Value, factor: f32) -> Value {
        if factor == 1.0 {
            return value;
        }
        let factor = self.splat(factor, &self.shape(value));
        self.same("arith.mulf", &[value, factor])
    }

    /// The larger of a value and a bound; NaN stays.
    pub(super) fn at_least(&self, value: Value, bound: f32) -> Value {
        let bound = self.splat(bound, &self.shape(value));
        self.same("arith.maximumf", &[value, bound])
    }

    // ---- expressions ------------------------------------------------------------------------

    pub(super) fn evaluate(&'r self, expr: &Expr<Leaf<Scalar<'r>>>, form: Form) -> Value {
        match expr.node() {
            Node::Constant(value) => self.splat(*value, &form.shape()),
            Node::Leaf(leaf) => self.real_leaf(leaf, form),
            Node::Unary(f, a) => {
                let a = self.evaluate(a, form);
                match f {
                    Unary::Neg => self.same("arith.negf", &[a]),
                    Unary::Abs => self.same("math.absf", &[a]),
                    Unary::Exp => self.same("math.exp", &[a]),
                    Unary::Log => self.same("math.log", &[a]),
                    Unary::Tanh => self.same("math.tanh", &[a]),
                    Unary::Reciprocal => {
                        let one = self.splat(1.0, &form.shape());
                        self.same("arith.divf", &[one, a])
                    }
                }
            }
            Node::Binary(f, a, b) => {
                let operands = [self.evaluate(a, form), self.evaluate(b, form)];
                let name = match f {
                    Binary::Add => "arith.addf",
                    Binary::Sub => "arith.subf",
                    Binary::Mul => "arith.mulf",
                    Binary::Div => "arith.divf",
                    Binary::Max => "arith.maximumf",
                    Binary::Min => "arith.minimumf",
                };
                self.same(name, &operands)
            }
            Node::Select(mask, a, b) => {
                let mask = self.evaluate_mask(mask, form);
                self.select(mask, self.evaluate(a, form), self.evaluate(b, form))
            }
        }
    }

    fn evaluate_mask(&'r self, mask: &Mask<Leaf<Scalar<'r>>>, form: Form) -> Value {
        let reals = |predicate, a, b| {
            self.compare_floats(predicate, self.evaluate(a, form), self.evaluate(b, form))
        };
        let integers = |predicate, a, b| {
            self.compare_integers(predicate, self.integer(a, form), self.integer(b, form))
        };
        match mask {
            Mask::Equal(a, b) => reals("oeq", a, b),
            Mask::Less(a, b) => reals("olt", a, b),
            Mask::IntEqual(a, b) => integers("eq", a, b),
            Mask::IntLess(a, b) => integers("slt", a, b),
            Mask::And(both) => {
                let operands = [&both.0, &both.1].map(|mask| self.evaluate_mask(mask, form));
                self.same("arith.andi", &operands)
            }
            Mask::Not(mask) => {
                let (a, b) = (
                    self.splat(0.0, &form.shape()),
                    self.splat(1.0, &form.shape()),
                );
                let holds = self.select(self.evaluate_mask(mask, form), a, b);
                self.compare_floats("olt", a, holds)
            }
        }
    }

    fn real_leaf(&'r self, leaf: &Leaf<Scalar<'r>>, form: Form) -> Value {
        match (leaf, form) {
            (Leaf::Tile(tile), Form::Tile(_)) => self.widen(self.load_tile(tile)),
            (Leaf::Rows(rows), _) => self.rows_leaf(rows, form),
            (Leaf::Columns(columns), Form::Tile(shape)) => {
                self.broadcast(self.columns_leaf(columns), &shape)
            }
            _ => {
                self.unsupported(format!("{leaf:?} in an expression of shape {form:?}"));
                self.splat(0.0, &form.shape())
            }
        }
    }

    fn rows_leaf(&'r self, rows: &Rows<Scalar<'r>>, form: Form) -> Value {
        match form {
            Form::Tile([_, columns]) => self.spread(self.lanes(rows), columns),
            Form::Lanes(_) => self.lanes(rows),
            Form::Row(_) => self.row(rows),
        }
    }

    fn columns_leaf(&'r self, columns: &Columns<Scalar<'r>>) -> Value {
        let Slot::Columns { memref } = self.slot(columns.buffer) else {
            unreachable!("per-column values are vectors")
        };
        let at = [self.index_constant(0), self.start(&columns.span).index()];
        self.load(memref, at, &[1, columns.span.len])
    }

    fn integer(&'r self, int: &Int<Leaf<Scalar<'r>>>, form: Form) -> Value {
        match int {
            Int::Constant(value) => {
                self.broadcast_scalar(self.i32_constant(i64::from(*value)), &form.shape())
            }
            Int::Leaf(Leaf::Rows(rows)) => self.rows_leaf(rows, form),
            Int::Leaf(Leaf::Column(first)) => {
                let numbers = self.numbers(&form.shape(), 1);
                match first {
                    None => numbers,
                    Some(first) => {
                        let first = self.broadcast_scalar(first.value(), &form.shape());
                        self.same("arith.addi", &[numbers, first])
                    }
                }
            }
            Int::Leaf(leaf) => {
                self.unsupported(format!("{leaf:?} as an integer"));
                self.broadcast_scalar(self.i32_constant(0), &form.shape())
            }
        }
    }
}
