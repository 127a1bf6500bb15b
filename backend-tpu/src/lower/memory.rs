//! Products and running statistics.

use tilecast_core::ops::Contract;
use tilecast_core::view::Stats;

use super::recording::{LANES, Recording, Slot};
use super::scalar::Scalar;
use crate::mosaic::Value;
use crate::mosaic::tpu::DotDimensionNumbers;

impl<'r> Recording<'r> {
    /// `tpu.matmul` into f32. Operands of different types are multiplied as they are.
    pub(super) fn multiply(
        &self,
        a: Value,
        b: Value,
        contract: Contract,
        shape: [usize; 2],
    ) -> Value {
        let dims = match contract {
            Contract::NN => DotDimensionNumbers::matrices(1, 0),
            Contract::NT => DotDimensionNumbers::matrices(1, 1),
            Contract::TN => DotDimensionNumbers::matrices(0, 0),
        };
        self.product(a, b, &dims, shape, self.exact_f32)
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
}
