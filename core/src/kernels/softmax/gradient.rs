//! The gradient kernel.

use super::rows::Rows;
use super::{Blocks, Logits, LogitsError};
use crate::DType;
use crate::ops::{Delta, OneHot, TileOps};
use crate::program::Kernel;
use crate::spec::{KernelSpec, SpecBuilder};
use crate::view::{RowsRef, TileRef};

/// Which coefficients there are besides that of the probability.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Terms {
    pub(crate) log_probability: bool,
    pub(crate) one_hot: bool,
    pub(crate) uniform: bool,
}

/// Reads each logit once and writes its gradient, made of per-token coefficients.
#[derive(Clone, Debug)]
pub struct Gradient {
    spec: KernelSpec,
    rows: Rows,
    scale: f32,
    logits: TileRef,
    lse: Vector,
    probability: Vector,
    log_probability: Option<Vector>,
    /// Labels and their coefficient.
    one_hot: Option<[Vector; 2]>,
    uniform: Option<Vector>,
    out: TileRef,
}

/// A vector as it comes, and where rows of it can be taken from.
#[derive(Clone, Copy, Debug)]
struct Vector {
    window: RowsRef,
    scratch: RowsRef,
}

impl Gradient {
    /// The kernel. Operands: `logits`, `lse`, `probability`, (`log_probability`), (`labels`,
    /// `one_hot`), (`uniform`), as the terms say, and `d_logits`: the same array as `logits` if the
    /// gradient overwrites them.
    ///
    /// # Errors
    /// The blocks do not fit each other, or the spec refuses them.
    pub(super) fn new(logits: &Logits, terms: Terms, blocks: Blocks) -> Result<Self, LogitsError> {
        let mut spec = SpecBuilder::new("softmax_gradient");
        let rows = Rows::declare(&mut spec, logits, blocks)?;
        let tile = spec.input_tile("logits", rows.tile(logits.dtype()));
        let mut vector = |name, by_row| Vector {
            window: spec.input_rows(name, rows.vector(DType::F32)),
            scratch: spec.scratch_rows(by_row, blocks.vector),
        };
        let lse = vector("lse", "lse_by_row");
        let probability = vector("probability", "probability_by_row");
        let log_probability =
            (terms.log_probability).then(|| vector("log_probability", "log_probability_by_row"));
        let one_hot = terms.one_hot.then(|| {
            let labels = Vector {
                window: spec.input_rows("labels", rows.vector(DType::I32)),
                scratch: spec.scratch_labels("labels_by_row", blocks.vector),
            };
            let coefficient = Vector {
                window: spec.input_rows("one_hot", rows.vector(DType::F32)),
                scratch: spec.scratch_rows("one_hot_by_row", blocks.vector),
            };
            [labels, coefficient]
        });
        let uniform = terms.uniform.then(|| Vector {
            window: spec.input_rows("uniform", rows.vector(DType::F32)),
            scratch: spec.scratch_rows("uniform_by_row", blocks.vector),
        });
        let out = spec.output_tile("d_logits", rows.tile(logits.grad_dtype()));
        if logits.options().in_place {
            spec.alias(tile, out);
        }
        Ok(Self {
            spec: spec.build()?,
            rows,
            scale: logits.scale(),
            logits: tile,
            lse,
            probability,
            log_probability,
            one_hot,
            uniform,
            out,
        })
    }
}

impl Kernel for Gradient {
    fn spec(&self) -> &KernelSpec {
        &self.spec
    }

    fn body<T: TileOps>(&self, t: &T) {
        let rows = &self.rows;
        t.when(t.and(rows.is_first(t), t.is_first(rows.columns)), || {
            let [labels, one_hot] = match self.one_hot {
                Some(vectors) => vectors.map(Some),
                None => [None; 2],
            };
            let (lse, probability) = (Some(self.lse), Some(self.probability));
            let (log_probability, uniform) = (self.log_probability, self.uniform);
            let vectors = [lse, probability, log_probability, labels, one_hot, uniform];
            for Vector { window, scratch } in vectors.into_iter().flatten() {
                t.copy_rows(scratch, window);
            }
        });
        rows.for_rows(t, |spans| {
            let of = |vector: Vector| vector.scratch.span(spans.vector);
            let delta = Delta {
                scale: self.scale,
                lse: of(self.lse),
                probability: of(self.probability),
                log_probability: self.log_probability.map(of),
                one_hot: self.one_hot.map(|[labels, coefficient]| OneHot {
                    coefficient: of(coefficient),
                    labels: of(labels),
                    first_column: rows.first_column(t),
                }),
                uniform: self.uniform.map(of),
                soft_cap: None,
            };
            let (out, logits) = (self.out.rows(spans.block), self.logits.rows(spans.block));
            t.softmax_delta(out, logits, delta);
        });
    }
}
