//! Products and running statistics.

use tilecast_core::ops::Contract;
use tilecast_core::target::LANES;
use tilecast_core::view::Stats;

use super::recording::{Recording, Slot};
use super::scalar::Scalar;
use super::vectors::LEAST_EXPONENT;
use crate::mosaic::Value;
use crate::mosaic::tpu::{DotDimensionNumbers, VectorKind};

/// Running statistics: their memory, or what it holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moments {
    pub(super) max: Value,
    pub(super) sum: Value,
    pub(super) moment: Option<Value>,
}

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

    /// Maximum, sum and, where it is kept, moment.
    pub(super) fn load_stats(&'r self, stats: &Stats<Scalar<'r>>) -> Moments {
        let at = [self.start(&stats.span).index(), self.index_constant(0)];
        let load = |memref| self.load(memref, at, &[stats.span.len, LANES]);
        let Moments { max, sum, moment } = self.stats_memory(stats);
        Moments {
            max: load(max),
            sum: load(sum),
            moment: moment.map(load),
        }
    }

    pub(super) fn store_stats(&'r self, stats: &Stats<Scalar<'r>>, values: Moments) {
        let at = [self.start(&stats.span).index(), self.index_constant(0)];
        let memory = self.stats_memory(stats);
        self.store(memory.max, at, values.max);
        self.store(memory.sum, at, values.sum);
        if let (Some(memref), Some(moment)) = (memory.moment, values.moment) {
            self.store(memref, at, moment);
        }
    }

    /// The statistics of whole rows, in lane form: those of the lanes combined.
    pub(super) fn row_stats(&'r self, stats: &Stats<Scalar<'r>>) -> Moments {
        let Moments { max, sum, moment } = self.load_stats(stats);
        let shape = self.shape(max);
        let over_lanes = |kind, value| self.broadcast(self.reduce(kind, value, 1), &shape);
        let row_max = over_lanes(VectorKind::MaximumF, max);
        let down = self.same("arith.subf", &[max, row_max]);
        let factor = self.same("math.exp", &[down]);
        let total = |value| {
            let scaled = self.same("arith.mulf", &[value, factor]);
            over_lanes(VectorKind::Add, scaled)
        };
        let moment = moment.map(|moment| {
            // Where the factor is 0 the difference may be infinite.
            let down = self.at_least(down, LEAST_EXPONENT);
            let shifted = self.same("arith.mulf", &[sum, down]);
            total(self.same("arith.addf", &[moment, shifted]))
        });
        Moments {
            max: row_max,
            sum: total(sum),
            moment,
        }
    }

    fn stats_memory(&self, stats: &Stats<Scalar<'r>>) -> Moments {
        match self.slot(stats.buffer) {
            Slot::Stats { max, sum, moment } => Moments { max, sum, moment },
            other => unreachable!("statistics of {other:?}"),
        }
    }
}
