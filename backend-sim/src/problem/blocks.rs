//! Block sizes of the passes of any op.

use std::fmt::{self, Debug, Display};

use tilecast_core::kernels::head::{self, Strategy};
use tilecast_core::kernels::softmax;
use tilecast_core::target::Target;

use crate::plan::BackwardPlan;

/// Block sizes of a pass.
pub trait PassBlocks: Copy + Ord + Debug {
    /// Along each dimension.
    fn sizes(&self) -> BlockSizes;

    /// Blocks of these sizes as `target` takes them.
    fn of_sizes(sizes: BlockSizes, target: &Target) -> Self;

    /// The same with another size along the vocabulary.
    #[must_use]
    fn with_columns(self, v: usize) -> Self;

    /// The structure of a backward pass, where there are several.
    fn strategy(plan: &BackwardPlan<Self>) -> Option<Strategy>;
}

/// Block sizes of any op.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockSizes {
    /// Tokens.
    pub b: usize,
    /// Hidden; none for an op on given logits.
    pub h: Option<usize>,
    /// Vocabulary columns.
    pub v: usize,
}

impl BlockSizes {
    /// The sizes, 1 for a dimension that there is none of.
    pub fn sides(&self) -> [usize; 3] {
        [self.b, self.h.unwrap_or(1), self.v]
    }
}

impl Display for BlockSizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.h {
            Some(h) => write!(f, "{},{h},{}", self.b, self.v),
            None => write!(f, "{},{}", self.b, self.v),
        }
    }
}

impl PassBlocks for head::Blocks {
    fn sizes(&self) -> BlockSizes {
        let Self { b, h, v } = *self;
        BlockSizes { b, h: Some(h), v }
    }

    fn of_sizes(sizes: BlockSizes, _: &Target) -> Self {
        let [b, h, v] = sizes.sides();
        Self { b, h, v }
    }

    fn with_columns(self, v: usize) -> Self {
        Self { v, ..self }
    }

    fn strategy(plan: &BackwardPlan<Self>) -> Option<Strategy> {
        Some(plan.strategy())
    }
}

impl PassBlocks for softmax::Blocks {
    fn sizes(&self) -> BlockSizes {
        let Self { b, v, .. } = *self;
        BlockSizes { b, h: None, v }
    }

    fn of_sizes(BlockSizes { b, v, .. }: BlockSizes, target: &Target) -> Self {
        Self::for_target(b, v, target)
    }

    fn with_columns(self, v: usize) -> Self {
        Self { v, ..self }
    }

    fn strategy(_: &BackwardPlan<Self>) -> Option<Strategy> {
        None
    }
}
