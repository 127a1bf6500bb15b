//! Exact products: f32 operands in parts of bf16, several passes for each.
//!
//! The parts take many times the registers of their operands, and they decide what a block spills. How many there are
//! was read off probes, kernels of one product that the compiler takes less than a second for, of 128 to 1024 rows. On
//! v5 their slots follow a law to within 5: of `m` registers of rows and `r` registers of the left operand, `4 r + m -
//! 14` where the result has several columns. What could be done beside such a product the compiler puts off.

use tilecast_core::target::Generation;

use super::super::unit::{Machine, Unit};
use super::super::vector::Vector;
use super::Block;
use super::product::Product;

/// The exact products of a block so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Exact {
    /// Number of products.
    count: u32,
    /// Whether the last one is the only product of its block, and the columns of registers of its result.
    alone: bool,
    columns: usize,
    /// When the parts of this turn, and of the one before, had their passes.
    parted: [f64; 2],
    /// The parts of products that have a unit each in this turn.
    at_once: Vec<u32>,
}

impl Exact {
    /// Another turn.
    pub(super) fn next_turn(&mut self) {
        self.parted = [0.0, self.parted[0]];
        self.at_once.clear();
    }
}

/// Registers for each f32 register of rows in parts that units take at different times, each for columns of its own.
/// In nine probes on v7x registers are within 7 % of what libtpu spills and the file.
const ROWS_OF_ALL: f64 = 2.7;

impl Block<'_> {
    /// A product takes its operands, which have so many registers, in several passes: entries of the parts of both.
    /// From v6e on those of one block of the contraction are made before its passes, of the columns that the units take
    /// at once; a left operand that meets other columns later is `kept` whole.
    pub(super) fn exact_parts(
        &mut self,
        [rows, weights]: [f64; 2],
        p: &Product,
        alone: bool,
        columns_at_once: f64,
        kept: bool,
    ) -> Vec<u32> {
        let machine = self.machine;
        self.exact.count += 1;
        self.exact.alone = alone;
        self.exact.columns = p.n.div_ceil(128);
        let dim = machine.target.mxu_dim.value;
        let (k_tiles, n_tiles) = (p.k.div_ceil(dim), p.n.div_ceil(dim));
        let all_at_once = n_tiles as f64 <= columns_at_once;
        // Units that share a lone column of blocks have a block of the contraction each; one of 128 columns is shared
        // so if its result is only stored, and one of no more rows if weights are transposed, too.
        let in_blocks = p.n > 128 || p.stored && (p.m > 128 || p.transpose_rhs);
        let blocks_at_once = match machine.accumulates() && alone && n_tiles == 1 {
            true if in_blocks => machine.target.mxu_count.value,
            _ => 1,
        };
        let block_of_k = (dim * blocks_at_once).min(p.k) as f64 / p.k as f64;
        let [rows_ahead, weights_ahead] = machine.parts_ahead(n_tiles == 1);
        let of_rows = match all_at_once && machine.new_units() {
            // Units that have columns of their own take the same rows at different times.
            true if n_tiles > 1 => block_of_k * ROWS_OF_ALL,
            true => block_of_k * rows_ahead,
            // Parts that meet no other columns are dropped after their passes.
            false if n_tiles == 1 => {
                machine.parts_of_rows(k_tiles, p.transpose_lhs) / k_tiles as f64
            }
            false if kept => machine.parts_kept(p.k, p.transpose_lhs),
            false => 0.0,
        };
        let of_weights = block_of_k * weights_ahead * (columns_at_once / n_tiles as f64).min(1.0);
        let registers = [
            of_rows * rows,
            machine.beside_parts(p),
            (of_weights * weights).max(machine.parts_of_square([k_tiles, n_tiles])),
        ];
        registers
            .map(|registers| self.account.loaded(registers, 1.0))
            .into()
    }

    /// Parts are held while rows pass from `start` to `end`; those of the turn before make room for them.
    pub(super) fn pass_parts(&mut self, parts: &[u32], start: f64, end: f64) {
        let [start, end] = [start, end].map(|at| at.max(self.exact.parted[1]));
        for &part in parts {
            self.account.used(part, start, end);
        }
        self.exact.parted[0] = self.exact.parted[0].max(end);
    }

    /// An exact product of a lone block, whose operands have these parts, takes units beside another. From v6e on its
    /// results wait for those of the other, and on v7x, if there is nothing to do but store them, parts of both are
    /// held at once.
    pub(super) fn pass_beside(
        &mut self,
        parts: Vec<u32>,
        out: &Vector,
        stored: bool,
        at: [f64; 2],
    ) {
        if self.machine.accumulates() {
            if stored {
                self.exact.at_once.extend(parts);
                for &part in &self.exact.at_once {
                    self.account.used(part, at[0], at[0]);
                }
            }
        } else if self.machine.new_units() {
            self.account.held(out.registers() as f64, at);
        }
    }

    /// Most registers that hold values at once, if there are exact products.
    ///
    /// Before v6e, and where a result of at most 512 columns is the only one, what a softmax needs beside its scores is
    /// made when the parts are gone, but for statistics that the block transposes, which wait before v6e. By 232 deltas
    /// of 128 and 256 rows, of which 184 were 7.4 % off in the mean with all of it held at once, and are 2.6 %.
    pub(super) fn registers_of_exact(&mut self) -> Option<f64> {
        let Exact {
            count,
            alone,
            columns,
            ..
        } = self.exact;
        if count == 0 {
            return None;
        }
        let kept_rows = self.kept_rows();
        let waiting = match self.machine.target.generation {
            Generation::V4 if kept_rows.is_none() => Some(0.0),
            Generation::V4 if columns > 1 => Some(4.4),
            Generation::V5e | Generation::V5p if columns <= 2 => Some(1.2),
            Generation::V6e | Generation::V7x if count == 1 && alone && columns <= 4 => Some(0.0),
            _ => None,
        };
        let softmax = self.timeline.taken(Unit::Eup) > 0.0;
        let Some(waiting) = waiting.filter(|_| softmax) else {
            return Some(self.account.peak());
        };
        let [product, rest] = self.account.peaks_apart();
        let rest = match self.machine.new_units() {
            true => self.registers_of_statistics(rest).unwrap_or(rest),
            false => rest,
        };
        Some((product + waiting * kept_rows.unwrap_or(0.0)).max(rest))
    }
}

impl Machine {
    /// Registers for each f32 register of rows that meet one column of weights in an exact product, which hold its
    /// parts while a block of the contraction, of so many, has its passes. Before v6e.
    fn parts_of_rows(&self, blocks: usize, transposed: bool) -> f64 {
        match self.target.generation {
            Generation::V4 => 0.45 + self.transposed_rows(transposed),
            _ if blocks == 1 => 1.5,
            _ => 2.05,
        }
    }

    /// The same of rows that meet several columns, for which parts of all of the contraction are kept, but for a part
    /// of those of its last 128 elements.
    fn parts_kept(&self, contraction: usize, transposed: bool) -> f64 {
        let last = 128.0 / contraction as f64;
        match self.target.generation {
            Generation::V4 => 2.0 - 1.25 * last + self.transposed_rows(transposed),
            Generation::V6e if contraction <= 128 => 4.1,
            Generation::V5e | Generation::V5p | Generation::V6e => 4.0 - last,
            _ => 3.6,
        }
    }

    /// Rows that were transposed cannot be loaded again: on v4 they are held beside their parts.
    fn transposed_rows(&self, transposed: bool) -> f64 {
        f64::from(u8::from(
            transposed && self.target.generation == Generation::V4,
        ))
    }

    /// Registers for each f32 register of both operands that hold their parts: of a block of the contraction at a time,
    /// which is split before its passes begin. Three packed parts are one and a half; more of weights that are a single
    /// column of blocks.
    fn parts_ahead(&self, one_column: bool) -> [f64; 2] {
        match self.target.generation {
            Generation::V4 | Generation::V5e | Generation::V5p => [0.0; 2],
            Generation::V6e if one_column => [1.75, 2.4],
            _ => [1.75; 2],
        }
    }

    /// Registers that hold the parts of a square of f32 weights, 16 registers of them, while their passes go by, for a
    /// contraction and a result of so many blocks. With 2.7 for each, slots of f32 kernels of v4 in `fit.csv` are
    /// nearest.
    fn parts_of_square(&self, blocks: [usize; 2]) -> f64 {
        match self.target.generation {
            Generation::V4 => 16.0 * 2.7,
            Generation::V5e | Generation::V5p => match blocks {
                [1, 1] => 0.0,
                [_, 1] => 10.0,
                [1, 2] => 20.0,
                _ => 47.0,
            },
            _ => 0.0,
        }
    }

    /// Registers beside the parts of both operands. Of weights that are transposed and half as long as a unit of v6e
    /// two squares follow one another in it: results of the first wait.
    fn beside_parts(&self, p: &Product) -> f64 {
        let (one_square, one_column) = (p.n <= 128, p.n <= 256);
        match self.target.generation {
            Generation::V6e if !one_column && p.k > 128 => 42.0,
            Generation::V6e if one_square && p.stored => 12.0,
            Generation::V6e if !one_square && one_column && p.k <= 128 && p.transpose_rhs => {
                p.m.div_ceil(8) as f64
            }
            Generation::V7x if one_square && p.stored => 16.0,
            Generation::V7x if one_column && p.stored && p.k <= 256 => 12.0,
            Generation::V7x if one_column && p.stored => 26.0,
            _ => 0.0,
        }
    }
}
