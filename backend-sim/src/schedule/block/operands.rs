//! The operands of a product, on their way to the matrix units.

use super::super::unit::Unit;
use super::super::vector::{GROUPS, Group, Vector};
use super::product::Product;
use super::{Block, Cost};

impl Block<'_> {
    /// The operands of a product as they enter the matrix units: transposed, split into parts for an
    /// exact product. What is still in memory is loaded.
    pub(super) fn operands(
        &mut self,
        lhs: &Vector,
        rhs: &Vector,
        p: &Product,
        columns_at_once: usize,
    ) -> (Vector, Vector) {
        let bf16 = lhs.bits == 16;
        let exact = p.passes > 1.0;
        let mut lhs = lhs.clone();
        let mut rhs = Operand::new(rhs, !p.transpose_rhs);
        let dim = self.machine.target.mxu_dim.value;
        let block = match p.transpose_rhs {
            true => dim / (8 * 32 / rhs.value.bits as usize),
            false => dim / 128,
        };
        // Weights of all columns that the units take at once are there before the rows, but for what is transposed, which takes long.
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
                self.fetch(&mut rhs, k, [0, first], exact);
            }
            if !bf16 && !exact {
                let pack = Cost::valu(self.machine.packed_rows());
                lhs = self.element_wise(&[&lhs], 32, pack);
            }
            let per = 8 * 32 / lhs.bits as usize;
            let (rows, columns) = (lhs.columns.registers * 128 / per, lhs.rows.registers * per);
            lhs = self.transpose(&lhs, rows, columns.div_ceil(128), packed, 0.0);
        }
        // Along the contraction, both at once, for the first columns of the result; then the others.
        let mut lhs = Operand::new(&lhs, false);
        for k in 0..GROUPS {
            self.fetch(&mut rhs, k, [0, first], exact);
            self.fetch(&mut lhs, k, [0, usize::MAX], exact);
        }
        for k in 0..GROUPS {
            self.fetch(&mut rhs, k, [first, usize::MAX], exact);
        }
        for operand in [&mut lhs, &mut rhs] {
            if exact {
                operand.value.loads = None;
                operand.value.ready = std::mem::take(&mut operand.split);
                self.hold_part(&mut operand.value, self.machine.temporaries);
            }
        }
        (lhs.value, rhs.value)
    }

    /// Loads step `k` of an operand along the contraction, in part of its other dimension, and
    /// splits it for an exact product.
    fn fetch(&mut self, operand: &mut Operand, k: usize, [from, to]: [usize; 2], exact: bool) {
        if operand.value.loads.is_none() && !exact {
            return;
        }
        let Operand {
            value,
            contracts_rows,
            split,
        } = operand;
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
                if exact && split[index] == 0.0 {
                    let valu = group.registers() * SPLIT;
                    let span = self.timeline.take(Unit::Valu, ready, valu);
                    self.used(value, group.row_range(), group.column_range(), span);
                    split[index] = span.end + self.machine.valu_latency;
                }
            }
        }
    }
}

/// Vector operations that split an f32 register into the parts of an exact product.
const SPLIT: f64 = 5.5;

/// An operand on its way to the matrix units.
struct Operand {
    value: Vector,
    /// Whether its rows are contracted.
    contracts_rows: bool,
    /// When the parts of each group are there; 0 as long as they are not made.
    split: Vec<f64>,
}

impl Operand {
    fn new(value: &Vector, contracts_rows: bool) -> Self {
        let groups = value.rows.groups() * value.columns.groups();
        Self {
            value: value.clone(),
            contracts_rows,
            split: vec![0.0; groups],
        }
    }
}
