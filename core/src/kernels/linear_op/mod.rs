//! [`LinearOp`]: an op on logits, fused with the head that they come out of.
//!
//! Policy loss and entropy depend on a row of logits only through the statistics of the
//! [softmax family](super::softmax), and so do their gradients. Statistics are kept over blocks of logits that a
//! [head](super::head) has just computed as well as over blocks read from memory, and delta is made of the same
//! coefficients. So an op here is an op on logits, unchanged, with another source of logits: `x [B,H]`, `w [H,V]`,
//! (`bias [V]`) take the place of `logits`, and `dx`, `dw`, (`dbias`) that of `d_logits`. No array `[B,V]` exists.
//!
//! ```text
//! z = cap(x w + bias) / T          cap: as the head says
//! forward     lse, entropy, z_label, ... of z, and what the op makes of them
//! delta       the gradient of the op by its logits, per chunk of columns
//! dx = delta w^T     dw = x^T delta     dbias_v = sum_i delta_iv
//! ```
//!
//! Exact results are in [`mod@reference`], and what f32 may make of them in [`rounding`].

pub mod reference;
pub mod rounding;
mod source;

use alloc::vec::Vec;

use self::source::Computed;
use super::head::{Head, HeadKernel, HeadOptions, Names, Schedule, names};
use super::logits_op::{LogitsOp, Named, of_name};
use super::softmax::{LogitsError, SoftmaxProgram};
use crate::program::Program;

/// An op on the logits of a head.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LinearOp {
    op: LogitsOp,
    head: Head,
}

impl LinearOp {
    /// `op` on the logits of a head with `hidden` inputs. Its logits are of the type of `x` and `w`, and their
    /// gradient of that of `dx` and `dw`.
    ///
    /// # Errors
    /// Those of [`Head::new`]; a gradient that is to overwrite the logits, which are not stored.
    pub fn new(op: LogitsOp, hidden: usize, options: HeadOptions) -> Result<Self, LogitsError> {
        let logits = op.logits();
        if logits.options().in_place {
            return Err(LogitsError::NotStored);
        }
        let dims = [logits.tokens(), hidden, logits.vocab()];
        let head = Head::new(dims, logits.dtype(), Some(logits.grad_dtype()), options)?;
        Ok(Self { op, head })
    }

    /// The op on the logits.
    pub const fn op(&self) -> &LogitsOp {
        &self.op
    }

    /// The head.
    pub const fn head(&self) -> &Head {
        &self.head
    }

    /// The same on the share of one of `devices` that split the tokens evenly, sequences as a whole.
    ///
    /// # Errors
    /// None that this op has not.
    pub fn share(&self, devices: usize) -> Result<Self, LogitsError> {
        let op = self.op.share(devices)?;
        Self::new(op, self.head.hidden(), *self.head.options())
    }

    /// The forward pass: the inputs of the op's own with `x`, `w`, (`bias`) for its logits, to its outputs.
    ///
    /// # Errors
    /// A schedule that the specs refuse.
    pub fn forward(&self, schedule: &Schedule) -> Result<Program<HeadKernel>, LogitsError> {
        let (name, _) = self.names();
        let mut p = self.program(name[0], schedule)?;
        self.op.add_forward(&mut p)?;
        Ok(p.program)
    }

    /// The backward pass: the inputs of the op's own with `x`, `w`, (`bias`) for its logits, to `dx`, `dw`, (`dbias`).
    ///
    /// # Errors
    /// As for [`Self::forward`].
    pub fn backward(&self, schedule: &Schedule) -> Result<Program<HeadKernel>, LogitsError> {
        let (name, _) = self.names();
        let mut p = self.program(name[1], schedule)?;
        self.op.add_backward(&mut p)?;
        Ok(p.program)
    }

    /// Both passes in one program.
    ///
    /// # Errors
    /// As for [`Self::forward`].
    pub fn forward_and_backward(
        &self,
        schedule: &Schedule,
    ) -> Result<Program<HeadKernel>, LogitsError> {
        let (name, _) = self.names();
        let mut p = self.program(name[2], schedule)?;
        self.op.add_forward(&mut p)?;
        self.op.add_backward(&mut p)?;
        Ok(p.program)
    }

    fn program(
        &self,
        name: &'static str,
        schedule: &Schedule,
    ) -> Result<SoftmaxProgram<Computed>, LogitsError> {
        schedule.check()?;
        let (_, names) = self.names();
        Ok(SoftmaxProgram::computed(name, self, names, schedule))
    }

    /// Of the programs of forward pass, backward pass and both; of the kernels.
    const fn names(&self) -> ([&'static str; 3], Names) {
        macro_rules! of {
            ($op:literal) => {
                (
                    [
                        concat!($op, " forward"),
                        concat!($op, " backward"),
                        concat!($op, " forward and backward"),
                    ],
                    names!($op),
                )
            };
        }
        match self.op {
            LogitsOp::LogitsCe(_) => of!("linear_logits_ce"),
            LogitsOp::Entropy(_) => of!("linear_entropy"),
            LogitsOp::Grpo(_) => of!("linear_grpo"),
        }
    }
}

/// Inputs in f64, row-major, by the names of the programs.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Inputs {
    /// `[B,H]`
    pub x: Vec<f64>,
    /// `[H,V]`
    pub w: Vec<f64>,
    /// `[V]`, or empty for none.
    pub bias: Vec<f64>,
    /// `[B]`; empty for an op without.
    pub labels: Vec<i32>,
    /// Everything else: other inputs and, for the backward pass, cotangents.
    pub vectors: Named,
}

impl Inputs {
    /// A vector by name; empty if there is none.
    pub fn vector(&self, name: &str) -> &[f64] {
        of_name(&self.vectors, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::kernels::entropy::Entropy;
    use crate::kernels::softmax::LogitsOptions;

    fn entropy(options: LogitsOptions) -> LogitsOp {
        LogitsOp::Entropy(Entropy::new(30, 7, DType::Bf16, options).unwrap())
    }

    #[test]
    fn what_is_not_stored_is_not_overwritten() {
        let options = LogitsOptions {
            in_place: true,
            ..LogitsOptions::default()
        };
        let refused = LinearOp::new(entropy(options), 5, HeadOptions::default()).unwrap_err();
        assert_eq!(
            alloc::format!("{refused}"),
            "the gradient cannot overwrite logits that are not stored; leave out in-place"
        );
    }

    #[test]
    fn sizes_and_types_are_those_of_the_op() {
        let options = LogitsOptions {
            grad_dtype: Some(DType::F32),
            ..LogitsOptions::default()
        };
        let op = LinearOp::new(entropy(options), 5, HeadOptions::default()).unwrap();
        let head = op.share(4).unwrap().head;
        assert_eq!([head.tokens(), head.hidden(), head.vocab()], [8, 5, 7]);
        assert_eq!([head.dtype(), head.grad_dtype()], [DType::Bf16, DType::F32]);
        let refused = LinearOp::new(entropy(options), 0, HeadOptions::default()).unwrap_err();
        assert_eq!(
            alloc::format!("{refused}"),
            "hidden is 0; it must be at least 1"
        );
    }
}
