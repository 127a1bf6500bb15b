//! The references of the ops, by the names of their programs: logits of the head, stored after all.

use alloc::vec;
use alloc::vec::Vec;

use super::{Inputs, LinearOp};
use crate::kernels::head::reference::{Gradients, Operands};
use crate::kernels::logits_op::{self, Named};

impl Inputs {
    /// What logits are made of.
    pub(super) fn operands(&self) -> Operands<'_> {
        Operands {
            x: &self.x,
            w: &self.w,
            bias: &self.bias,
        }
    }

    /// The inputs of the op on the logits.
    pub fn stored(&self, op: &LinearOp) -> logits_op::Inputs {
        let rows = 0..op.head().tokens();
        let logits = rows.flat_map(|i| self.operands().logits(op.head(), i));
        logits_op::Inputs {
            logits: logits.collect(),
            labels: self.labels.clone(),
            vectors: self.vectors.clone(),
        }
    }
}

/// The outputs of the forward pass.
pub fn forward(op: &LinearOp, inputs: &Inputs) -> Named {
    logits_op::reference::forward(op.op(), &inputs.stored(op))
}

/// `dx`, `dw` and, with a bias, `dbias`, from the cotangents among the inputs.
pub fn backward(op: &LinearOp, inputs: &Inputs) -> Named {
    let (head, stored) = (op.head(), inputs.stored(op));
    let d_logits = logits_op::reference::backward(op.op(), &stored);
    let mut out = Gradients::new(head);
    let elements = d_logits.iter().zip(&stored.logits).enumerate();
    for (at, (&d, &z)) in elements.filter(|(_, (d, _))| **d != 0.0) {
        let position = [at / head.vocab(), at % head.vocab()];
        out.add(head, &inputs.operands(), position, z, d);
    }
    let mut found: Vec<_> = vec![("dx", out.dx), ("dw", out.dw)];
    if head.options().bias {
        found.push(("dbias", out.dbias));
    }
    found
}
