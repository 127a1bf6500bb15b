//! Blocks that were scheduled before are not scheduled again.

use std::hash::{Hash, Hasher};

use tilecast_tpu::mosaic::Op;

use super::super::Region;
use super::super::digest::Digest;
use super::super::memo::Solved;
use super::super::runs::{Beginning, Run, is_vector};
use super::{Known, Walk};

/// A block that is being scheduled and will be remembered.
#[derive(Debug)]
pub(super) struct Remembered {
    key: u64,
    /// The memories that it loads and stores, in the order in which it comes to them. The key has their places in this
    /// list: kernels have other numbers for memories with which they do the same.
    roots: Vec<usize>,
    /// Those that it read so far, by their place in the list.
    reads: Vec<usize>,
    /// Beginnings of it that will be remembered too, by their ends in the block of the module, and their keys; the
    /// first last.
    beginnings: Vec<(usize, u64)>,
}

impl Walk<'_> {
    /// Takes the schedule of `run` from one that was made before; false if there is none, and it is to
    /// be made, and remembered.
    pub(super) fn remember(&mut self, run: &Run) -> bool {
        for &op in &run.placed {
            self.without_registers(op);
        }
        let mut roots = Vec::new();
        let key = self.key(run.hash, &run.placed, &mut roots);
        let Some(Solved { region, reads }) = self.memo.get(key) else {
            let beginning = |&Beginning { ops, placed, hash }: &Beginning| {
                let key = self.key(hash, &run.placed[..placed], &mut Vec::new());
                (run.ops.start + ops, key)
            };
            // Where a block without products ends depends on all of it.
            let known = run.beginnings.iter().rev().filter(|_| !run.plain);
            let beginnings = known.map(beginning);
            self.remembered = Some(Remembered {
                key,
                roots,
                reads: Vec::new(),
                beginnings: beginnings.filter(|&(_, key)| !self.memo.has(key)).collect(),
            });
            return false;
        };
        reads
            .into_iter()
            .for_each(|place| self.read[roots[place]] = true);
        self.done.regions.extend(region);
        true
    }

    /// By what a block is found that has this [hash](Run::hash) and these operations with a place; `roots` gets its
    /// memories.
    fn key(&self, hash: u64, placed: &[Op], roots: &mut Vec<usize>) -> u64 {
        let mut key = Digest::default();
        hash.hash(&mut key);
        for &op in placed {
            self.places(op, roots, &mut key);
        }
        key.finish()
    }

    /// The block has been scheduled up to before operation `next`, which `rest` follow with it: keeps the schedule so
    /// far if that is a beginning to be remembered, and does not rely on what follows.
    pub(super) fn solved_up_to(&mut self, next: usize, rest: usize) {
        let Some(Remembered {
            beginnings, reads, ..
        }) = &mut self.remembered
        else {
            return;
        };
        if let Some((_, key)) = beginnings.pop_if(|&mut (end, _)| end == next)
            && rest < self.relied_on_until
        {
            let reads = reads.clone();
            let region = self.region();
            self.memo.insert(key, Solved { region, reads });
        }
    }

    /// Keeps the schedule of a block.
    pub(super) fn solved(&self, remembered: Option<Remembered>, region: Option<Region>) {
        if let Some(Remembered { key, reads, .. }) = remembered {
            self.memo.insert(key, Solved { region, reads });
        }
    }

    /// A memory is read.
    pub(super) fn reads(&mut self, root: usize) {
        self.read[root] = true;
        if let Some(Remembered { roots, reads, .. }) = &mut self.remembered {
            let place = roots.iter().position(|&known| known == root);
            reads.extend(place.filter(|place| !reads.contains(place)));
        }
    }

    /// What an operation computes that takes no registers: scalars, places in memory.
    fn without_registers(&mut self, op: Op) {
        let result = self.module.results(op).first();
        if result.is_some_and(|&result| !is_vector(self.module, result)) && !self.memory_op(op) {
            self.scalar_op(op);
        }
    }

    /// Where an operation loads or stores. A part of a memory that it makes is in the places of what loads and stores
    /// there.
    fn places(&self, op: Op, roots: &mut Vec<usize>, to: &mut impl Hasher) {
        if let Some(&result) = self.module.results(op).first()
            && matches!(self.known[result.index()], Known::Memory(_))
        {
            return;
        }
        let operands = self.module.operands(op);
        let is_memory = |value: &_| self.module.value_kind(*value).shape().is_some();
        if !operands
            .iter()
            .any(|value| matches!(self.known[value.index()], Known::Memory(_)) && is_memory(value))
        {
            return;
        }
        for value in operands {
            match &self.known[value.index()] {
                Known::Memory(view) => {
                    let place = roots.iter().position(|&root| root == view.root);
                    let place = place.unwrap_or_else(|| {
                        roots.push(view.root);
                        roots.len() - 1
                    });
                    (place, view.vmem, view.rows_per_word).hash(to);
                    (&view.start, &view.kept).hash(to);
                    self.forwarded[view.root].hash(to);
                }
                Known::Scalar(number) => number.hash(to),
                _ => {}
            }
        }
    }
}
