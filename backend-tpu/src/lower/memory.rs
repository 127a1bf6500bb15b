//! Products, running statistics, and blocks of HBM arrays.

use tilecast_core::ops::Contract;
use tilecast_core::view::Stats;

use super::emitter::f32_type;
use super::recording::{LANES, Recording, Slot};
use super::scalar::Scalar;
use crate::mosaic::{TypeKind, Value};

impl<'r> Recording<'r> {
    /// `tpu.matmul` into f32. Operands of different types are multiplied as they are.
    pub(super) fn product(
        &self,
        a: Value,
        b: Value,
        contract: Contract,
        shape: [usize; 2],
    ) -> Value {
        let ty = self.vector(&shape, f32_type());
        let zero = self.splat(0.0, &shape);
        let numbers = match contract {
            Contract::NN => "[1], [0], [0], [1], [0, 0, 1, 1], [], []",
            Contract::NT => "[1], [1], [0], [0], [0, 0, 1, 0], [], []",
            Contract::TN => "[0], [0], [1], [1], [0, 1, 1, 1], [], []",
        };
        let mut attributes = vec![
            (
                "dimension_numbers",
                self.dialect("tpu.dot_dimension_numbers", numbers),
            ),
            ("transpose_lhs", self.bool_attribute(false)),
            ("transpose_lhs_hint", self.bool_attribute(false)),
            ("transpose_rhs", self.bool_attribute(false)),
        ];
        let both_f32 = [a, b].iter().all(|&operand| {
            let module = self.module.borrow();
            let element = module.value_kind(operand).element();
            element.is_some_and(|element| *module.type_kind(element) == f32_type())
        });
        if both_f32 && self.exact_f32 {
            attributes.push(("precision", self.dialect("tpu.contract_precision", "fp32")));
        }
        self.value("tpu.matmul", &[a, b, zero], ty, &attributes)
    }

    pub(super) fn load_stats(&'r self, stats: &Stats<Scalar<'r>>) -> [Value; 2] {
        let at = [self.start(&stats.span).index(), self.index_constant(0)];
        self.stats_memory(stats)
            .map(|memref| self.load(memref, at, &[stats.span.len, LANES]))
    }

    pub(super) fn store_stats(
        &'r self,
        stats: &Stats<Scalar<'r>>,
        values: impl FnOnce(&[usize]) -> [Value; 2],
    ) {
        let at = [self.start(&stats.span).index(), self.index_constant(0)];
        let values = values(&[stats.span.len, LANES]);
        for (memref, value) in self.stats_memory(stats).into_iter().zip(values) {
            self.store(memref, at, value);
        }
    }

    fn stats_memory(&self, stats: &Stats<Scalar<'r>>) -> [Value; 2] {
        match self.slot(stats.buffer) {
            Slot::Stats { max, sum } => [max, sum],
            other => unreachable!("statistics of {other:?}"),
        }
    }

    /// The block at element `offsets` of an HBM array, without its leading dimensions.
    pub(super) fn hbm_block(&self, memref: Value, offsets: &[Value], block: &[usize]) -> Value {
        let sliced = self.like(memref, block);
        let rank = offsets.len() as i64;
        let segments = self.integers(32, &[1, rank, 0]);
        let mut operands = vec![memref];
        operands.extend(offsets);
        let slice = self.value(
            "tpu.memref_slice",
            &operands,
            sliced,
            &[("operandSegmentSizes", segments)],
        );
        let minor = &block[block.len() - 2..];
        if minor.len() == block.len() {
            return slice;
        }
        let squeezed = self.like(memref, minor);
        self.value("tpu.memref_squeeze", &[slice], squeezed, &[])
    }

    /// The type of `memref` with another shape.
    fn like(&self, memref: Value, shape: &[usize]) -> crate::mosaic::Type {
        let mut kind = self.module.borrow().value_kind(memref).clone();
        if let TypeKind::Memref { shape: dims, .. } = &mut kind {
            *dims = shape.iter().map(|&n| n as i64).collect();
        }
        self.ty(kind)
    }
}
