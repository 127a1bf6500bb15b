//! Copies that a kernel makes itself: where it starts them, and where it waits for them.
//!
//! Both end a block. The compiler moves no load or store of what is copied across them, and in kernels that copy for
//! themselves they stand beside branches anyway.

use std::hash::{Hash, Hasher};

use tilecast_tpu::mosaic::{self as ir, DYNAMIC, Op};

use super::super::digest::Digest;
use super::super::{Direction, Event, Transfer};
use super::Walk;

impl Walk<'_> {
    pub(super) fn start_copy(&mut self, op: Op) {
        self.end_block();
        let first = |group| self.segment(op, group)?.first().copied();
        let (Some(source), Some(target), Some(semaphore)) = (first(0), first(2), first(3)) else {
            return;
        };
        if let Some(view) = self.view_of(source) {
            self.read[view.root] = true;
        }
        let bytes = self.bytes_of(source).min(self.bytes_of(target));
        let event = Event::Start { bytes, times: 1.0 };
        self.transfer([source, target, semaphore], event);
    }

    pub(super) fn wait_for_copy(&mut self, op: Op) {
        self.end_block();
        let groups = match self.module.op_name(op) {
            "tpu.wait_dma2" => [1, 2, 0],
            _ => [0, 2, 3],
        };
        let operands = groups.map(|group| self.segment(op, group)?.first().copied());
        if let [Some(source), Some(target), Some(semaphore)] = operands {
            self.transfer([source, target, semaphore], Event::Wait);
        }
    }

    fn transfer(&mut self, [source, target, semaphore]: [ir::Value; 3], event: Event) {
        let direction = match (self.in_vmem(source), self.in_vmem(target)) {
            (false, true) => Direction::Load,
            (true, false) => Direction::Store,
            _ => return,
        };
        let mut number = Digest::default();
        if let Some(view) = self.view_of(semaphore) {
            (view.root, &view.start).hash(&mut number);
        }
        self.done.transfers.push(Transfer {
            after: self.done.regions.len(),
            direction,
            semaphore: number.finish(),
            event,
        });
    }

    /// Bytes of a memory, of which sizes that depend on data count as one.
    fn bytes_of(&self, value: ir::Value) -> f64 {
        let view = self.view_of(value);
        let shape = (view.as_ref()).map_or(self.shape(value), |view| &view.shape);
        let elements: f64 = (shape.iter())
            .map(|&n| if n == DYNAMIC { 1.0 } else { n as f64 })
            .product();
        elements * f64::from(self.bits(value)) / 8.0
    }
}
