//! The fused loss as an operation of [burn](https://burn.dev): differentiable, on the CPU, for f32 and bf16.
//!
//! [`linear_cross_entropy`] stands for the cross-entropy of `x.matmul(w)` and never makes the logits. The forward pass
//! keeps the logsumexp of each token, from which the backward pass computes the logits again, block by block.
//!
//! A tensor of burn does not name its backend: `Dispatch` finds it when an operation runs. So the loss is a backend
//! extension, a trait that burn's CPU backend, Flex, implements, and also Flex with gradients, `Autodiff<Flex>`. Both
//! read the operands where they lie, whatever their strides; only a tensor that is flipped is copied. Gradients and
//! losses are vectors that become tensors without a copy.

use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{
    Autodiff, Backend, Dispatch, DispatchDevice, ExtensionType, Flex, backend_extension,
};
use burn::tensor::{DType, Int, Tensor, TensorData, bf16};
use tilecast::{Cotangents, Forward, LinearCe, Matrix, Values, linear_ce};

/// The cross-entropy of each token, `[B]` in f32, of hidden states `x [B,H]`, a head `w [H,V]` (as burn's linear layer
/// stores it) and `labels [B]`. A token whose label is `ignore_index` has loss 0 and no gradient.
///
/// # Errors
/// Shapes that disagree, another type, a label outside the vocabulary, or tensors that are not on the CPU backend Flex.
///
/// # Panics
/// As every operation of burn: if `x` and `w` differ in their strategy of gradient checkpointing.
pub fn linear_cross_entropy(
    x: Tensor<2>,
    w: Tensor<2>,
    labels: Tensor<1, Int>,
    ignore_index: Option<i32>,
) -> Result<Tensor<1>, Error> {
    check("x", &x)?;
    check("w", &w)?;
    let labels = labels.into_data();
    let labels = (labels.iter::<i64>().enumerate())
        .map(|(token, label)| i32::try_from(label).map_err(|_| Error::Label { token, label }))
        .collect::<Result<Vec<i32>, Error>>()?;
    let (x, w) = (x.into_dispatch(), w.into_dispatch());
    match <Dispatch as FusedLoss>::linear_cross_entropy(x, w, labels, ignore_index) {
        Outcome::Loss(loss) => Ok(Tensor::from_dispatch(loss)),
        Outcome::Refused(error) => Err(error.into()),
    }
}

/// Why there is no loss.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A tensor lives where tilecast cannot read it.
    #[error(
        "{name} is on {device}; the fused loss runs on burn's CPU backend: move it to `Device::flex()`"
    )]
    Device {
        /// `x` or `w`.
        name: &'static str,
        /// Where it is.
        device: String,
    },
    /// A tensor has a type that tilecast does not read.
    #[error("{name} is {dtype:?}; it must be F32 or BF16: cast it")]
    Type {
        /// `x` or `w`.
        name: &'static str,
        /// Its type.
        dtype: DType,
    },
    /// A label beyond every vocabulary.
    #[error("label {label} of token {token} does not fit in 32 bits: it is outside any vocabulary")]
    Label {
        /// Its place.
        token: usize,
        /// The label.
        label: i64,
    },
    /// Shapes or labels are invalid.
    #[error(transparent)]
    Loss(#[from] tilecast::Error),
}

/// That Flex has the tensor, in a type that [`matrix`] reads.
fn check(name: &'static str, tensor: &Tensor<2>) -> Result<(), Error> {
    let device = tensor.device().without_autodiff();
    if !matches!(device.as_dispatch(), DispatchDevice::Flex(_)) {
        let device = format!("{device:?}");
        return Err(Error::Device { name, device });
    }
    match tensor.dtype() {
        DType::F32 | DType::BF16 => Ok(()),
        dtype => Err(Error::Type { name, dtype }),
    }
}

#[backend_extension(Flex, Autodiff)]
trait FusedLoss: Backend {
    fn linear_cross_entropy(
        x: FloatTensor<Self>,
        w: FloatTensor<Self>,
        labels: Vec<i32>,
        ignore_index: Option<i32>,
    ) -> Outcome<Self>;
}

/// A result that burn can carry from a backend to its tensors.
#[derive(ExtensionType)]
enum Outcome<B: Backend> {
    Loss(FloatTensor<B>),
    Refused(tilecast::Error),
}

impl FusedLoss for Flex {
    fn linear_cross_entropy(
        x: FloatTensor<Self>,
        w: FloatTensor<Self>,
        labels: Vec<i32>,
        ignore_index: Option<i32>,
    ) -> Outcome<Self> {
        match Operands::new(x, w, labels, ignore_index).forward() {
            Ok(forward) => Outcome::Loss(losses(forward.loss)),
            Err(error) => Outcome::Refused(error),
        }
    }
}

impl<C: CheckpointStrategy> FusedLoss for Autodiff<Flex, C> {
    fn linear_cross_entropy(
        x: FloatTensor<Self>,
        w: FloatTensor<Self>,
        labels: Vec<i32>,
        ignore_index: Option<i32>,
    ) -> Outcome<Self> {
        let ((x, x_node), (w, w_node)) = (x.into_parts(), w.into_parts());
        let operands = Operands::new(x, w, labels, ignore_index);
        let Forward { loss, lse } = match operands.forward() {
            Ok(forward) => forward,
            Err(error) => return Outcome::Refused(error),
        };
        let step = LinearCrossEntropy.prepare::<C>([x_node, w_node]);
        Outcome::Loss(match step.compute_bound().stateful() {
            OpsKind::Tracked(step) => step.finish((operands, lse), losses(loss)),
            OpsKind::UnTracked(step) => step.finish(losses(loss)),
        })
    }
}

/// The step that burn records for the backward pass.
#[derive(Debug)]
struct LinearCrossEntropy;

impl Backward<Flex, 2> for LinearCrossEntropy {
    /// The operands and the logsumexp of each token.
    type State = (Operands, Vec<f32>);

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let d_loss = grads.consume::<Flex>(&ops.node).to_contiguous();
        let cotangents = Cotangents {
            d_loss: Some(d_loss.storage()),
            d_lse: None,
        };
        let (operands, lse) = ops.state;
        let gradients = (operands
            .loss()
            .and_then(|loss| loss.backward(&lse, cotangents)))
        .expect("the forward pass took the same operands");
        let [x_node, w_node] = ops.parents;
        if let Some(node) = x_node {
            grads.register::<Flex>(node.id, tensor(gradients.dx, &operands.x));
        }
        if let Some(node) = w_node {
            grads.register::<Flex>(node.id, tensor(gradients.dw, &operands.w));
        }
    }
}

/// What a loss is computed from. Tensors share their storage with those they were cloned from.
#[derive(Clone, Debug)]
struct Operands {
    x: FloatTensor<Flex>,
    w: FloatTensor<Flex>,
    labels: Vec<i32>,
    ignore_index: Option<i32>,
}

impl Operands {
    fn new(
        x: FloatTensor<Flex>,
        w: FloatTensor<Flex>,
        labels: Vec<i32>,
        ignore_index: Option<i32>,
    ) -> Self {
        Self {
            x: unflipped(x),
            w: unflipped(w),
            labels,
            ignore_index,
        }
    }

    fn loss(&self) -> Result<LinearCe<'_>, tilecast::Error> {
        let loss = linear_ce(matrix(&self.x)?, matrix(&self.w)?, &self.labels);
        Ok(match self.ignore_index {
            Some(index) => loss.ignore_index(index),
            None => loss,
        })
    }

    fn forward(&self) -> Result<Forward, tilecast::Error> {
        self.loss()?.forward()
    }
}

/// A copy of a tensor with negative strides, which a [`Matrix`] does not have; any other tensor as it is.
fn unflipped(tensor: FloatTensor<Flex>) -> FloatTensor<Flex> {
    match tensor.layout().strides().iter().any(|&stride| stride < 0) {
        true => tensor.to_contiguous(),
        false => tensor,
    }
}

/// A matrix where it lies.
fn matrix(tensor: &FloatTensor<Flex>) -> Result<Matrix<'_>, tilecast::Error> {
    let layout = tensor.layout();
    let dims = layout.shape().dims();
    let strides = [0, 1].map(|axis| layout.strides()[axis].unsigned_abs());
    // An empty slice may start beyond its storage.
    let start = layout.start_offset();
    Ok(match tensor.dtype() {
        DType::BF16 => {
            let data = tensor.storage::<bf16>().get(start..).unwrap_or_default();
            Matrix::with_strides(data, dims, strides)?
        }
        _ => {
            let data = tensor.storage::<f32>().get(start..).unwrap_or_default();
            Matrix::with_strides(data, dims, strides)?
        }
    })
}

fn losses(data: Vec<f32>) -> FloatTensor<Flex> {
    let tokens = data.len();
    Flex::float_from_data(TensorData::new(data, [tokens]), &Default::default())
}

/// `gradient` in the shape of `of`.
fn tensor(gradient: Values, of: &FloatTensor<Flex>) -> FloatTensor<Flex> {
    let shape = of.layout().shape().clone();
    let data = match gradient {
        Values::F32(data) => TensorData::new(data, shape),
        Values::Bf16(data) => TensorData::new(data, shape),
    };
    Flex::float_from_data(data, &Default::default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{Device, Distribution};

    const LABELS: [i32; 3] = [4, -100, 2];

    fn random(shape: [usize; 2]) -> Tensor<2> {
        Tensor::random(shape, Distribution::Normal(0.0, 1.0), &Device::flex())
    }

    fn loss(x: &Tensor<2>, w: &Tensor<2>, labels: [i32; 3]) -> Result<Tensor<1>, Error> {
        let labels = Tensor::from_data(labels, &Device::flex());
        linear_cross_entropy(x.clone(), w.clone(), labels, Some(-100))
    }

    #[test]
    fn any_view_is_read_as_its_copy_would_be() {
        let (x, w) = (random([6, 4]), random([4, 5]));
        let copy = |tensor: &Tensor<2>| Tensor::<2>::from_data(tensor.to_data(), &Device::flex());
        for (x, w) in [
            (x.clone().narrow(0, 3, 3), w.clone()),
            (x.clone().narrow(0, 0, 3), w.clone().flip([0, 1])),
            (random([4, 3]).transpose(), random([5, 4]).transpose()),
        ] {
            let expected = loss(&copy(&x), &copy(&w), LABELS).unwrap();
            loss(&x, &w, LABELS)
                .unwrap()
                .into_data()
                .assert_eq(&expected.into_data(), true);
        }
    }

    #[test]
    fn an_ignored_token_has_no_loss_and_no_gradient() {
        let x = random([3, 4]).autodiff().require_grad();
        let loss = loss(&x, &random([4, 5]), LABELS).unwrap();
        assert_eq!(loss.to_data().iter::<f32>().nth(1), Some(0.0));
        let gradients = loss.sum().backward();
        let dx = x.grad(&gradients).expect("x requires it");
        let largest: Vec<f32> = dx.abs().max_dim(1).into_data().iter().collect();
        assert!(
            largest[0] > 0.0 && largest[1] == 0.0 && largest[2] > 0.0,
            "{largest:?}"
        );
    }

    #[test]
    fn what_cannot_be_computed_is_an_error() {
        let (x, w) = (random([3, 4]), random([4, 5]));
        for (result, message) in [
            (
                loss(&x, &w.clone().transpose(), LABELS),
                "the number of rows of w is 5, but the number of columns of x is 4",
            ),
            (
                loss(&x, &w.clone().cast(DType::BF16), LABELS),
                "the type of w is bf16, but that of x is f32",
            ),
            (
                loss(&x.clone().cast(DType::F64), &w, LABELS),
                "x is F64; it must be F32 or BF16: cast it",
            ),
            (
                loss(&random([3, 6]).slice([3..3, 2..6]), &w, LABELS),
                "tokens is 0; it must be at least 1",
            ),
            (
                loss(&x.clone().autodiff().require_grad(), &w, [4, 5, 2]),
                "label 5 of token 1 is outside 0..5 and is not the ignore index -100",
            ),
        ] {
            assert_eq!(result.unwrap_err().to_string(), message);
        }
    }
}
