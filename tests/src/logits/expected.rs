//! What a case should give, with what a correct f32 evaluation may be off by.

use tilecast::DType;
use tilecast::core::kernels::logits_op::{of_name, reference, rounding};

use super::{Case, Data};
use crate::report::{Mismatch, compare};
use crate::tolerance::{Term, Tolerance, bf16_unit, f32_unit};

/// Expected values of one output.
#[derive(Clone, Debug)]
pub struct Expected {
    /// Output.
    pub name: &'static str,
    pub(crate) dtype: DType,
    pub(crate) dims: Vec<usize>,
    /// Values.
    pub values: Vec<f64>,
    /// What they may be off by, in units of the f32 roundoff.
    pub(crate) errors: Vec<f64>,
}

impl Expected {
    /// All outputs of a case.
    pub fn of(case: &Case, data: &Data) -> Vec<Self> {
        let (op, inputs) = (case.problem(), data.widened());
        let forward = reference::forward(&op, &inputs);
        let errors = rounding::errors(&op, &inputs, &[], &forward);
        let vectors = forward.into_iter().map(|(name, values)| Self {
            name,
            dtype: DType::F32,
            dims: vec![values.len()],
            values,
            errors: of_name(&errors, name).into(),
        });
        let gradient = Self {
            name: match op.logits().options().in_place {
                true => "logits",
                false => "d_logits",
            },
            dtype: op.logits().grad_dtype(),
            dims: case.shape.to_vec(),
            values: reference::backward(&op, &inputs),
            errors: of_name(&errors, "d_logits").into(),
        };
        vectors.chain([gradient]).collect()
    }

    /// Compares what was computed.
    ///
    /// # Errors
    /// The largest differences and the first.
    pub fn compare(&self, got: &[f32]) -> Result<(), Box<Mismatch>> {
        let error = Tolerance::exact().plus(Term {
            what: "f32 arithmetic",
            k: 1.0,
            unit: f32_unit(),
            depth: 1,
            magnitude: self.errors.clone(),
        });
        let unit = match self.dtype {
            DType::Bf16 => bf16_unit(),
            _ => f32_unit(),
        };
        let tolerance = error.rounded(unit, &self.values);
        let Self {
            name, dtype, dims, ..
        } = self;
        compare(name, *dtype, dims, got, &self.values, &tolerance)
    }
}
