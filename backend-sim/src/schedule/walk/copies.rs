//! Copies that a kernel makes itself: where it starts them, and where it waits for them.
//!
//! Both end a block. The compiler moves no load or store of what is copied across them, and in kernels that copy for
//! themselves they stand beside branches anyway. What computes addresses and sizes and checks their bounds is scalar
//! code, and the compiler runs next to nothing beside it. A short branch of nothing else is predicated, so its code is
//! passed even if it is not taken.

use std::hash::{Hash, Hasher};

use tilecast_tpu::mosaic::{self as ir, DYNAMIC, Op};

use super::super::digest::Digest;
use super::super::runs::is_vector;
use super::super::{Direction, Event, Region, Transfer, Unit};
use super::Walk;
use crate::access::segment;

/// The operation that starts a copy.
const START: &str = "tpu.enqueue_dma";

impl Walk<'_> {
    pub(super) fn start_copy(&mut self, op: Op) {
        self.end_block();
        self.pass(self.copy_cycles(op));
        let first = |group| segment(self.module, op, group)?.first().copied();
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
        self.pass(self.copy_cycles(op));
        let groups = match self.module.op_name(op) {
            "tpu.wait_dma2" => [1, 2, 0],
            _ => [0, 2, 3],
        };
        let operands = groups.map(|group| segment(self.module, op, group)?.first().copied());
        if let [Some(source), Some(target), Some(semaphore)] = operands {
            self.transfer([source, target, semaphore], Event::Wait);
        }
    }

    /// Goes through scalar code, beside which nothing else runs.
    pub(super) fn pass(&mut self, cycles: f64) {
        if cycles > 0.0 {
            self.done.regions.push(Region {
                times: 1.0,
                cycles,
                slots: [0.0; Unit::COUNT],
                registers: 0.0,
            });
        }
    }

    /// Scalar cycles of each side of a branch that does nothing but start copies, wait for them and compute scalars, if
    /// there are few of them: its operations are predicated, so they pass whichever side is taken.
    pub(super) fn predicated(&self, op: Op) -> Option<[f64; 2]> {
        let mut cycles = [0.0; 2];
        for (region, cycles) in cycles.iter_mut().enumerate() {
            if let Some(body) = self.module.entry(op, region) {
                let (starts, all) = self.copies_alone(body)?;
                if starts > self.machine.most_predicated() {
                    return None;
                }
                *cycles = all;
            }
        }
        Some(cycles)
    }

    /// Copies that are started in a body which does no more than that, and their scalar cycles.
    fn copies_alone(&self, body: ir::Block) -> Option<(usize, f64)> {
        let (mut starts, mut cycles) = (0, 0.0);
        for &op in self.module.block_ops(body) {
            let vectors =
                |values: &[ir::Value]| values.iter().any(|&value| is_vector(self.module, value));
            match self.module.op_name(op) {
                "scf.if" => cycles += self.predicated(op)?.iter().sum::<f64>(),
                _ if self.module.entry(op, 0).is_some() => return None,
                _ if vectors(self.module.results(op)) || vectors(self.module.operands(op)) => {
                    return None;
                }
                name => {
                    starts += usize::from(name == START);
                    cycles += self.copy_cycles(op);
                }
            }
        }
        Some((starts, cycles))
    }

    /// Scalar cycles of the start of a copy, or of a wait for one. Sizes that are known only at run time have to be
    /// computed.
    fn copy_cycles(&self, op: Op) -> f64 {
        let fixed = || {
            let operands = self.module.operands(op).iter();
            let mut shapes = operands.map(|&value| self.module.value_kind(value).shape());
            shapes.all(|shape| !shape.is_some_and(|shape| shape.contains(&DYNAMIC)))
        };
        match self.module.op_name(op) {
            START if fixed() => self.machine.copy_cycles(),
            START => self.machine.copy_cycles() + self.machine.size_cycles(),
            "tpu.wait_dma" | "tpu.wait_dma2" if !fixed() => self.machine.size_cycles(),
            _ => 0.0,
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
