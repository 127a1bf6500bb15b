//! The kernels, one folder per op; `softmax` holds what the ops on given logits share.

pub mod entropy;
pub mod grouped_matmul;
pub mod grpo;
pub mod head;
pub mod linear_ce;
pub mod linear_op;
pub mod logits_ce;
pub mod logits_op;
pub mod softmax;
