//! Packed copies of what products read.
//!
//! A window is packed when a product first reads it and stays packed until its block changes;
//! scratch until it is written. The same block may be kept in several forms: `w` is the right
//! operand of the logits and, transposed, of `dx`. A window that comes back to a block, because
//! its index map ignores an axis around one that it follows, keeps the blocks it comes back to if
//! they are small enough together ([`blocks_kept`]).

use std::cell::RefCell;
use std::collections::BTreeSet;

use tilecast_core::spec::{Blocked, KernelSpec, MapVariable};

use crate::buffers::{Masks, Part};
use crate::gemm::{GemmError, PackedLhs, PackedRhs};
use crate::simd::Arithmetic;

/// Bytes of packed blocks that a thread keeps in case a window comes back to them.
pub(crate) const KEPT_PANEL_BYTES: usize = 16 << 20;

/// What a packed copy is a copy of.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Key {
    /// Block of a window; empty for scratch.
    pub(crate) block: Vec<i64>,
    /// Edges of a window that were masked before it was packed.
    pub(crate) masks: Masks,
    pub(crate) part: Part,
    pub(crate) transposed: bool,
    pub(crate) arithmetic: Arithmetic,
}

/// Packed copies of parts of one buffer.
#[derive(Debug)]
pub(crate) struct Copies<P> {
    /// The one used last comes last. A copy without a key is out of date and its memory free.
    copies: Vec<(Option<Key>, P)>,
    /// Blocks that are kept besides the current one.
    others: usize,
}

impl<P: Default> Copies<P> {
    fn of_blocks(kept: usize) -> Self {
        Self {
            copies: Vec::new(),
            others: kept.saturating_sub(1),
        }
    }

    /// The copy for `key`, which `pack` writes if there is none.
    pub(crate) fn get(
        &mut self,
        key: &Key,
        pack: impl FnOnce(&mut P) -> Result<(), GemmError>,
    ) -> Result<&P, GemmError> {
        let copies = &mut self.copies;
        let is_key = |(k, _): &(Option<Key>, P)| k.as_ref() == Some(key);
        if let Some(i) = copies.iter().position(is_key) {
            copies[i..].rotate_left(1);
            return Ok(&copies.last().expect("found above").1);
        }
        // The longest unused copy of another block gives its memory when there are enough of them.
        let other = |(k, _): &(Option<Key>, P)| k.as_ref().is_some_and(|k| k.block != key.block);
        let free = copies.iter().position(|(k, _)| k.is_none()).or_else(|| {
            // A block may be there in several forms.
            let others = copies.iter().filter(|copy| other(copy));
            let others: BTreeSet<_> = (others.flat_map(|(key, _)| key))
                .map(|key| &key.block)
                .collect();
            let oldest = copies.iter().position(other);
            oldest.filter(|_| others.len() > self.others)
        });
        match free {
            Some(i) => copies[i..].rotate_left(1),
            None => copies.push((None, P::default())),
        }
        let (current, packed) = copies.last_mut().expect("one was pushed or found");
        *current = None;
        pack(packed)?;
        *current = Some(key.clone());
        Ok(packed)
    }

    fn invalidate(&mut self) {
        self.copies.iter_mut().for_each(|(key, _)| *key = None);
    }

    fn free(&mut self) {
        self.copies = Vec::new();
    }
}

/// The packed copies of one buffer, for either side of a product.
#[derive(Debug)]
pub(crate) struct Panels {
    pub(crate) left: RefCell<Copies<PackedLhs>>,
    pub(crate) right: RefCell<Copies<PackedRhs>>,
}

impl Panels {
    /// For a buffer of which so many blocks are kept, at least the current one.
    pub(crate) fn of_blocks(kept: usize) -> Self {
        Self {
            left: RefCell::new(Copies::of_blocks(kept)),
            right: RefCell::new(Copies::of_blocks(kept)),
        }
    }

    /// Forgets all copies: the buffer has changed.
    pub(crate) fn invalidate(&self) {
        self.left.borrow_mut().invalidate();
        self.right.borrow_mut().invalidate();
    }

    /// Forgets all copies, and gives their memory back.
    pub(crate) fn free(&mut self) {
        self.left.get_mut().free();
        self.right.get_mut().free();
    }

    /// How many blocks of the buffer there may be copies of.
    pub(crate) fn blocks(&self) -> usize {
        self.left.borrow().others + 1
    }
}

/// How many blocks of a window, `block_bytes` each when they are packed, are worth keeping in `budget_bytes`: those
/// between two visits of the same one, if they fit, else the current one.
pub(crate) fn blocks_kept(
    spec: &KernelSpec,
    operand: &Blocked,
    block_bytes: usize,
    budget_bytes: usize,
) -> usize {
    let follows = |axis: usize| {
        let is_axis = |v: MapVariable| v.axis().is_some_and(|id| id.index() == axis);
        operand.map.iter().any(|index| index.depends_on(&is_axis))
    };
    // From the innermost axis outwards: what it follows multiplies, until an axis repeats all of it.
    let mut blocks = 1_usize;
    for (axis, of_grid) in spec.grid().iter().enumerate().rev() {
        if follows(axis) {
            blocks = blocks.saturating_mul(of_grid.size);
        } else if blocks > 1 && of_grid.size > 1 {
            let fit = blocks.saturating_mul(block_bytes) <= budget_bytes;
            return if fit { blocks } else { 1 };
        }
    }
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_as_many_blocks_is_kept() {
        let key = |block: i64, transposed| Key {
            block: vec![block],
            masks: Masks::default(),
            part: Part {
                row: 0,
                rows: 1,
                column: 0,
                columns: 1,
            },
            transposed,
            arithmetic: Arithmetic::F32,
        };
        // How often four visits of three blocks, each read in two forms, pack one.
        let packed = |kept: usize| {
            let mut copies = Copies::<()>::of_blocks(kept);
            let mut packed = 0;
            for block in (0..4).flat_map(|_| 0..3) {
                for transposed in [false, true] {
                    let pack = |_: &mut ()| {
                        packed += 1;
                        Ok(())
                    };
                    copies.get(&key(block, transposed), pack).unwrap();
                }
            }
            packed
        };
        assert_eq!(packed(3), 6);
        assert_eq!(packed(1), 24);
    }
}
