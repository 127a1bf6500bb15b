//! The operands of a product, on their way to the matrix units.

use super::super::unit::Unit;
use super::super::vector::{GROUPS, Group, Vector};
use super::product::Product;
use super::{Block, Cost};

impl Block<'_> {
    /// The operands of a product as they enter the matrix units: transposed, split into parts for an
    /// exact product. What is still in memory is loaded, but for a left operand that is to be loaded `in_time`.
    pub(super) fn operands(
        &mut self,
        lhs: &Vector,
        rhs: &Vector,
        p: &Product,
        columns_at_once: usize,
        in_time: bool,
    ) -> (Vector, Vector) {
        let bf16 = lhs.bits == 16;
        let exact = p.passes > 1.0;
        let [mut lhs, mut rhs] = [lhs, rhs].map(Vector::clone);
        self.in_turn(&mut rhs);
        self.in_turn(&mut lhs);
        let weights = match self.packs(&rhs, p) && self.machine.packs_as_loaded() {
            true => PACK,
            false => split(exact),
        };
        let mut rhs = Operand::new(rhs, !p.transpose_rhs, weights);
        let dim = self.machine.target.mxu_dim.value;
        let block = match p.transpose_rhs {
            true => dim / (8 * 32 / rhs.value.bits as usize),
            false => dim / 128,
        };
        // Weights of all columns that the units take at once are there before the rows, but for what is transposed,
        // which takes long.
        let first = match p.transpose_lhs {
            true => block,
            false => columns_at_once * block,
        };
        if p.transpose_lhs {
            // f32 operands of a single pass are packed first.
            let packed = match (bf16, exact, self.machine.new_units()) {
                (true, _, false) => self.machine.pair_transposes(lhs.columns.registers),
                (false, false, true) => 0.5,
                (false, false, false) => self.machine.packed_transposes(),
                _ => 1.0,
            };
            for k in 0..GROUPS {
                self.fetch(&mut rhs, k, [0, first]);
            }
            if !bf16 && !exact {
                let pack = Cost::valu(self.machine.packed_rows());
                lhs = self.element_wise(&[&lhs], 32, pack);
            }
            let loads = lhs.loads.clone();
            let first = self.ready(&lhs, [0, 1], [0, 1]);
            let per = 8 * 32 / lhs.bits as usize;
            let (rows, columns) = (lhs.columns.registers * 128 / per, lhs.rows.registers * per);
            lhs = self.transpose(&lhs, rows, columns.div_ceil(128), packed, 0.0);
            if bf16
                && p.n <= dim
                && self.machine.new_units()
                && loads.is_some_and(|loads| loads.borrow().fetch.valu > 0.0)
            {
                let last = self.all_ready(&lhs);
                let part = (p.k as f64 / HALVES_ROWS).min(1.0);
                self.account.held(HALVES * part, [first, last]);
            }
            if !bf16 && !exact && !self.machine.packs_weights() {
                // What was packed leaves the cross-lane units as it entered.
                self.hold_from_use(&mut lhs, PACK);
            }
        }
        // Along the contraction, both at once, for the first columns of the result; then the others.
        let mut lhs = Operand::new(lhs, false, split(exact));
        for k in 0..GROUPS {
            self.fetch(&mut rhs, k, [0, first]);
            if !in_time {
                self.fetch(&mut lhs, k, [0, usize::MAX]);
            }
        }
        for k in 0..GROUPS {
            self.fetch(&mut rhs, k, [first, usize::MAX]);
        }
        for operand in [&mut lhs, &mut rhs] {
            if operand.valu > 0.0 {
                operand.value.loads = None;
                operand.value.ready = std::mem::take(&mut operand.made);
                self.hold_part(&mut operand.value, self.machine.temporaries);
            }
        }
        (lhs.value, rhs.value)
    }

    /// Makes the groups of what element-wise operations made in this block be there one after the other, columns in
    /// turn: the scheduler makes first what a product waits for.
    fn in_turn(&self, value: &mut Vector) {
        let Some(made) = value.made else { return };
        let end = made.begun + self.rates.cycles(Unit::Valu, made.work);
        let end = value.ready.iter().copied().fold(0.0, f64::max).min(end);
        let each = (end - made.begun).max(0.0) / value.ready.len() as f64;
        let [rows, columns] = [value.rows, value.columns].map(|extent| extent.groups());
        for (i, ready) in value.ready.iter_mut().enumerate() {
            let place = i % columns * rows + i / columns;
            *ready = ready.min(made.begun + each * (place + 1) as f64);
        }
    }

    /// Whether weights are packed before they are pushed.
    pub(super) fn packs(&self, rhs: &Vector, p: &Product) -> bool {
        rhs.bits == 32 && p.passes == 1.0 && self.machine.packs_weights()
    }

    /// Loads step `k` of an operand along the contraction, in part of its other dimension, and
    /// splits or packs it.
    fn fetch(&mut self, operand: &mut Operand, k: usize, [from, to]: [usize; 2]) {
        let Operand {
            value,
            contracts_rows,
            valu,
            made,
        } = operand;
        if value.loads.is_none() && *valu == 0.0 {
            return;
        }
        let along = if *contracts_rows {
            value.rows
        } else {
            value.columns
        };
        let across = if *contracts_rows {
            value.columns
        } else {
            value.rows
        };
        let groups = along.groups();
        for a in k * groups / GROUPS..(k + 1) * groups / GROUPS {
            for b in 0..across.groups() {
                if !(from..to).contains(&(b * across.step)) {
                    continue;
                }
                let (r, c) = if *contracts_rows { (a, b) } else { (b, a) };
                let index = r * value.columns.groups() + c;
                let group = Group {
                    index,
                    row: r * value.rows.step,
                    rows: value.rows.size(r),
                    column: c * value.columns.step,
                    columns: value.columns.size(c),
                };
                let ready = self.ready(value, group.row_range(), group.column_range());
                if *valu > 0.0 && made[index] == 0.0 {
                    let work = group.registers() * *valu;
                    let span = self.timeline.take(Unit::Valu, ready, work);
                    self.used(value, group.row_range(), group.column_range(), span);
                    made[index] = span.end + self.rates.valu_latency;
                }
            }
        }
    }
}

/// Vector operations that split an f32 register into the parts of an exact product.
const SPLIT: f64 = 5.5;

/// The same for products of one pass, which have none.
fn split(exact: bool) -> f64 {
    if exact { SPLIT } else { 0.0 }
}

/// Vector operations for an f32 register that is packed with another to one of bf16: one for both.
pub(super) const PACK: f64 = 0.5;

/// Registers that hold halves of tiles of what is transposed, which lie far apart in memory: one load has those of two
/// blocks of columns, and 64 loads wait for the second, 28 combined registers for a cross-lane unit (listings of probes
/// on v6e and v7x, of 256 rows and more). Products of more columns than a unit has load them again.
const HALVES: f64 = 92.0;
const HALVES_ROWS: f64 = 256.0;

/// An operand on its way to the matrix units.
struct Operand {
    value: Vector,
    /// Whether its rows are contracted.
    contracts_rows: bool,
    /// Vector operations for each register that make of it what the matrix units take.
    valu: f64,
    /// When what is made of each group is there; 0 as long as it is not made.
    made: Vec<f64>,
}

impl Operand {
    fn new(value: Vector, contracts_rows: bool, valu: f64) -> Self {
        let groups = value.rows.groups() * value.columns.groups();
        Self {
            value,
            contracts_rows,
            valu,
            made: vec![0.0; groups],
        }
    }
}
