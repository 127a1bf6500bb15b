//! Copies that a kernel makes itself.
//!
//! A copy has a static shape. So where blocks overhang their array there are two, and the index of the block says which
//! of them runs: the one of a whole block, or the one of what the array has of the last. A wait has to name the same
//! shape.

use tilecast_core::ops::{Direction, TileOps};
use tilecast_core::spec::Blocked;
use tilecast_core::view::{HbmBlock, SemaphoreRef, Tile};

use super::recording::Slot;
use super::scalar::Scalar;
use super::tile_ops::Recorder;
use crate::mosaic::{AttributeKind, Value};

/// A copy or a wait for it.
pub(super) struct Copy<'a, 'r, const N: usize> {
    pub(super) operation: &'static str,
    pub(super) direction: Direction,
    pub(super) block: HbmBlock<Scalar<'r>, N>,
    pub(super) scratch: &'a Tile<Scalar<'r>>,
    pub(super) semaphore: SemaphoreRef,
}

impl<'r> Recorder<'r> {
    /// Records a copy between an array and a whole scratch buffer, of what the array has of the block.
    pub(super) fn copy<const N: usize>(self, copy: &Copy<'_, 'r, N>) {
        let named = &self.0.spec.buffers()[copy.block.buffer.index()];
        let operand = named.buffer.operand().expect("HBM buffers have operands");
        self.copy_inside(copy, operand, &operand.block, 0);
    }

    /// The copy of the part `inside` of a block, from which what overhangs in `dim` and the dimensions after it is
    /// still to be cut.
    fn copy_inside<const N: usize>(
        self,
        copy: &Copy<'_, 'r, N>,
        operand: &Blocked,
        inside: &[usize],
        dim: usize,
    ) {
        if dim == N {
            return self.dma(copy, &operand.block, inside);
        }
        let [size, block] = [operand.dims[dim], operand.block[dim]];
        if size.is_multiple_of(block) {
            return self.copy_inside(copy, operand, inside, dim + 1);
        }
        // Which block is the last follows from the number of steps along the axes of the grid.
        self.0.sizes_read.borrow_mut().fill(true);
        let (index, last) = (copy.block.index[dim], self.index((size / block) as i64));
        self.when(self.less_than(index, last), || {
            self.copy_inside(copy, operand, inside, dim + 1);
        });
        self.when(self.equals(index, last), || {
            let mut inside = inside.to_vec();
            inside[dim] = size % block;
            self.copy_inside(copy, operand, &inside, dim + 1);
        });
    }

    fn dma<const N: usize>(self, copy: &Copy<'_, 'r, N>, block: &[usize], inside: &[usize]) {
        let r = self.0;
        let (Slot::Hbm { memref }, Slot::Semaphore { memref: semaphore }) =
            (r.slot(copy.block.buffer), r.slot(copy.semaphore.buffer()))
        else {
            unreachable!("copies are between HBM and scratch")
        };
        let scratch = match r.slot(copy.scratch.buffer) {
            Slot::Tile { memref, .. } | Slot::Columns { memref } => memref,
            other => unreachable!("a copy to {other:?}"),
        };
        let offsets: Vec<Value> = (copy.block.index.iter().zip(block))
            .map(|(&index, &size)| (index * size as i64).value())
            .collect();
        let remote = r.memref_block(memref, &offsets, inside);
        let local = match inside == block {
            true => scratch,
            false => {
                let zero = self.index(0).value();
                r.memref_block(scratch, &[zero, zero], &inside[N - 2..])
            }
        };
        let (from, to) = match copy.direction {
            Direction::Load => (remote, local),
            Direction::Store => (local, remote),
        };
        // One source, one target with its semaphore, all on this core.
        let segments = r.integers(32, &[1, 0, 1, 1, 0, 0, 0]);
        let mut attributes = vec![("operandSegmentSizes", segments)];
        if copy.operation == "tpu.wait_dma" {
            let target = r.attribute(AttributeKind::Bool(true));
            attributes.push(("wait_target", target));
        }
        r.op(copy.operation, &[from, to, semaphore], &[], &attributes);
    }
}
