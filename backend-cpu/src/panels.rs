//! Packed copies of what products read.
//!
//! A window is packed when a product first reads it and stays packed until its block changes;
//! scratch until it is written. The same block may be kept in several forms: `w` is the right
//! operand of the logits and, transposed, of `dx`.

use std::cell::RefCell;

use crate::buffers::Part;
use crate::gemm::{GemmError, PackedLhs, PackedRhs, Source};
use crate::simd::{Arithmetic, Simd};

/// An operand in the form the microkernels read.
pub(crate) trait Packed: Default {
    /// Packs `source`, or its transpose.
    fn pack(
        &mut self,
        simd: Simd,
        source: &Source<'_>,
        transposed: bool,
        arithmetic: Arithmetic,
    ) -> Result<(), GemmError>;
}

impl Packed for PackedLhs {
    fn pack(
        &mut self,
        simd: Simd,
        source: &Source<'_>,
        transposed: bool,
        arithmetic: Arithmetic,
    ) -> Result<(), GemmError> {
        self.pack(simd, source, transposed, arithmetic)
    }
}

impl Packed for PackedRhs {
    fn pack(
        &mut self,
        simd: Simd,
        source: &Source<'_>,
        transposed: bool,
        arithmetic: Arithmetic,
    ) -> Result<(), GemmError> {
        self.pack(simd, source, transposed, arithmetic)
    }
}

/// What a packed copy is a copy of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Key {
    pub(crate) part: Part,
    pub(crate) transposed: bool,
    pub(crate) arithmetic: Arithmetic,
}

/// Packed copies of parts of one buffer. A copy without a key is out of date and its memory free.
#[derive(Debug, Default)]
pub(crate) struct Copies<P>(Vec<(Option<Key>, P)>);

impl<P: Packed> Copies<P> {
    /// The copy for `key`; if there is none, `with_source` describes what to pack.
    pub(crate) fn get(
        &mut self,
        simd: Simd,
        key: Key,
        with_source: impl FnOnce(
            &mut dyn FnMut(&Source<'_>) -> Result<(), GemmError>,
        ) -> Result<(), GemmError>,
    ) -> Result<&P, GemmError> {
        let copies = &mut self.0;
        if let Some(i) = copies.iter().position(|(k, _)| *k == Some(key)) {
            return Ok(&copies[i].1);
        }
        let free = copies.iter().position(|(k, _)| k.is_none());
        let i = free.unwrap_or_else(|| {
            copies.push((None, P::default()));
            copies.len() - 1
        });
        let (current, packed) = &mut copies[i];
        with_source(&mut |source| packed.pack(simd, source, key.transposed, key.arithmetic))?;
        *current = Some(key);
        Ok(packed)
    }
}

/// The packed copies of one buffer, for either side of a product.
#[derive(Debug, Default)]
pub(crate) struct Panels {
    pub(crate) left: RefCell<Copies<PackedLhs>>,
    pub(crate) right: RefCell<Copies<PackedRhs>>,
}

impl Panels {
    /// Forgets all copies: the buffer has changed.
    pub(crate) fn invalidate(&self) {
        self.left
            .borrow_mut()
            .0
            .iter_mut()
            .for_each(|(key, _)| *key = None);
        self.right
            .borrow_mut()
            .0
            .iter_mut()
            .for_each(|(key, _)| *key = None);
    }
}
