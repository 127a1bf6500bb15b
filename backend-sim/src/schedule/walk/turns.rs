//! Turns of the matrix units: products that run side by side, each on a unit of its own.
//!
//! Where a product keeps only some of the units busy, the compiler lets the next ones take the others, and what reads
//! their results goes side by side as well. A sum that each of them loads, adds to and stores is then loaded and stored
//! once for all of them.

use tilecast_tpu::mosaic::{Op, Value};

use super::super::block::{Product, Standing};
use super::super::unit::Machine;
use super::Walk;
use super::memory::are_apart;
use crate::access::Access;

/// The turn of the last product.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turn {
    /// Its number in the block.
    pub(super) number: usize,
    /// Blocks of weights that it has.
    blocks: f64,
}

impl Turn {
    /// Goes on to the turn of a product, whose blocks the units may take in several rounds: whether they do.
    fn take(&mut self, machine: &Machine, product: &Product) -> bool {
        let target = machine.target;
        let tiles = |n: usize| n.div_ceil(target.mxu_dim.value) as f64;
        // Units that sum over blocks of the contraction take them one after the other.
        let parts = match machine.accumulates() {
            true => 1.0,
            false => tiles(product.k) * product.passes,
        };
        let blocks = parts * tiles(product.n);
        let units = target.mxu_count.value as f64;
        self.blocks += blocks;
        if self.blocks > units {
            self.number += 1;
            self.blocks = blocks;
        }
        blocks > units
    }
}

impl Walk<'_> {
    /// Whether what is stored is stored over in the same turn, and read before only by what gets it from registers.
    /// From the operation of this number in the rest of the block on.
    pub(super) fn overwritten(&mut self, store: &Access<'_>, from: usize) -> bool {
        let shape = self.shape(store.value);
        let mut turn = self.turn;
        for (i, &op) in self.rest.iter().enumerate().skip(from) {
            if self.module.op_name(op) == "tpu.matmul" {
                turn.take(self.machine, &self.product(op));
            }
            if turn.number != self.turn.number || self.module.entry(op, 0).is_some() {
                return false;
            }
            if !self.module.operands(op).contains(&store.memory) {
                continue;
            }
            let Some(next) = Access::of(self.module, op) else {
                return false;
            };
            if self.apart(&next, store) {
                continue;
            }
            if !next.whole
                || self.shape(next.value) != shape
                || !self.same(next.indices, store.indices)
            {
                return false;
            }
            if next.stores {
                self.relied_on(i);
                return true;
            }
        }
        false
    }

    /// Goes on to the turn of the product that is next.
    pub(super) fn take_turn(&mut self, product: &Product) -> Standing {
        let alone = self.alone();
        let in_rounds = self.turn.take(self.machine, product);
        Standing {
            alone,
            turn: self.turn.number,
            in_rounds,
        }
    }

    /// The turn of the product that is next, of this one if there is none.
    pub(super) fn turn_of_next(&mut self) -> usize {
        let mut turn = self.turn;
        let products = |&(_, &op): &(usize, &Op)| self.module.op_name(op) == "tpu.matmul";
        if let Some((i, &op)) = self.rest.iter().enumerate().find(products) {
            turn.take(self.machine, &self.product(op));
            self.relied_on(i);
        }
        turn.number
    }

    /// Whether the product that is next is the only one of its block.
    fn alone(&mut self) -> bool {
        if self.turn.blocks > 0.0 {
            return false;
        }
        let straight = (self.rest.iter()).take_while(|&&op| self.module.entry(op, 0).is_none());
        let next = (straight.enumerate()).find(|&(_, &op)| self.module.op_name(op) == "tpu.matmul");
        if let Some((i, _)) = next {
            self.relied_on(i);
        }
        next.is_none()
    }

    /// What is scheduled relies on an operation that follows, that of this number in the rest of the block.
    pub(super) fn relied_on(&mut self, i: usize) {
        self.relied_on_until = self.relied_on_until.min(self.rest.len() - i);
    }

    /// Whether two accesses to the same memory have no element in common.
    fn apart(&self, one: &Access<'_>, other: &Access<'_>) -> bool {
        let [m, n] = [one, other].map(|access| self.shape(access.value));
        let indices = one.indices.iter().zip(other.indices);
        let mut dimensions = indices.zip(m.iter().zip(n));
        (one.indices.len() == m.len() && other.indices.len() == n.len())
            && dimensions.any(
                |((&a, &b), (&m, &n))| match (self.scalar(a), self.scalar(b)) {
                    (Some(a), Some(b)) => are_apart([a, m], [b, n]),
                    _ => false,
                },
            )
    }

    /// Whether indices are the same.
    fn same(&self, indices: &[Value], others: &[Value]) -> bool {
        let known = |value| self.scalar(value);
        indices.len() == others.len()
            && (indices.iter().zip(others))
                .all(|(&a, &b)| a == b || known(a).is_some_and(|a| known(b) == Some(a)))
    }
}
