//! A kernel being recorded: its symbols and buffers.

use std::cell::{Cell, RefCell};
use std::ops::Deref;

use tilecast_core::DType;
use tilecast_core::spec::KernelSpec;
use tilecast_core::view::{BufferId, Span};

use super::LowerError;
use super::emitter::Emitter;
use super::scalar::{Number, Scalar};
use crate::mosaic::Value;

/// What a buffer of the kernel is in the module.
#[derive(Clone, Copy, Debug)]
pub(super) enum Slot {
    /// `[rows, columns]`
    Tile { memref: Value, dtype: DType },
    /// A per-row window, `[1, rows]`: rows run along the lanes.
    RowWindow { memref: Value },
    /// Per-row scratch, `[rows, 128]`: the value of a row fills its lanes.
    RowScratch { memref: Value },
    /// A per-column vector, `[1, columns]`.
    Columns { memref: Value },
    /// Running logsumexp, two or three `[rows, 128]`: each lane has its own, over the columns it has
    /// seen.
    Stats {
        max: Value,
        sum: Value,
        moment: Option<Value>,
    },
    /// An array in HBM.
    Hbm { memref: Value },
    /// A DMA semaphore.
    Semaphore { memref: Value },
}

/// The first arguments of a function of the module.
#[derive(Debug)]
pub(super) struct Symbols {
    pub(super) grid: Vec<Value>,
    pub(super) scalars: Vec<Value>,
    pub(super) tables: Vec<Value>,
}

/// A kernel being recorded.
#[derive(Debug)]
pub(super) struct Recording<'k> {
    pub(super) emit: Emitter,
    pub(super) spec: &'k KernelSpec,
    pub(super) symbols: Symbols,
    pub(super) slots: Vec<Slot>,
    pub(super) exact_f32: bool,
    /// Most iterations that are written out of a loop.
    pub(super) most_iterations: usize,
    /// The most that there are of a loop that is written out.
    pub(super) iterations: Cell<usize>,
    /// For each axis of the grid, whether its number of steps was asked for.
    pub(super) sizes_read: RefCell<Vec<bool>>,
    pub(super) error: RefCell<Option<LowerError>>,
}

impl Deref for Recording<'_> {
    type Target = Emitter;

    fn deref(&self) -> &Emitter {
        &self.emit
    }
}

impl<'r> Recording<'r> {
    /// Remembers the first thing that cannot be lowered; recording goes on, its result is dropped.
    pub(super) fn unsupported(&self, what: impl Into<String>) {
        let kernel = self.spec.name().into();
        let what = what.into();
        self.error
            .borrow_mut()
            .get_or_insert(LowerError::Unsupported { kernel, what });
    }

    pub(super) fn scalar(&'r self, value: i64) -> Scalar<'r> {
        Scalar {
            recording: self,
            number: Number::Known(value),
            range: [value; 2],
        }
    }

    pub(super) fn start(&'r self, span: &Span<Scalar<'r>>) -> Scalar<'r> {
        span.start.unwrap_or_else(|| self.scalar(0))
    }

    /// `len` elements of a span from its element `first` on.
    pub(super) fn part(
        &'r self,
        span: &Span<Scalar<'r>>,
        first: usize,
        len: usize,
    ) -> Span<Scalar<'r>> {
        Span::new(self.start(span) + first as i64, len)
    }

    pub(super) fn slot(&self, buffer: BufferId) -> Slot {
        self.slots[buffer.index()]
    }
}
