//! The fused loss as an operation of [candle](https://github.com/huggingface/candle): differentiable, on the CPU, for
//! f32 and bf16.
//!
//! [`linear_cross_entropy`] stands for `cross_entropy(x.matmul(&w.t()?)?, labels)` and never makes the logits. The
//! forward pass keeps the logsumexp of each token, from which the backward pass computes the logits again, block by
//! block.

use std::sync::Mutex;

use candle_core::{CpuStorage, CustomOp3, Layout, Result, Shape, Storage, Tensor};
use tilecast::{ArrayMut, Cotangents, GradientsMut, LinearCe, Matrix, Values, linear_ce};

/// The cross-entropy of each token, `[B]` in f32, of hidden states `x [B,H]`, a head `w [V,H]` (as a linear layer
/// stores it) and `labels [B]` in u32. A token whose label is `ignore_index` has loss 0 and no gradient.
///
/// # Errors
/// Shapes that disagree, another type, a label outside the vocabulary, or tensors that are not on the CPU.
pub fn linear_cross_entropy(
    x: &Tensor,
    w: &Tensor,
    labels: &Tensor,
    ignore_index: Option<u32>,
) -> Result<Tensor> {
    let op = LinearCrossEntropy {
        ignore_index,
        lse: Mutex::default(),
    };
    x.apply_op3(w, labels, op)
}

struct LinearCrossEntropy {
    ignore_index: Option<u32>,
    /// What the forward pass leaves for the backward pass.
    lse: Mutex<Vec<f32>>,
}

impl LinearCrossEntropy {
    /// Runs `body` on the loss of these operands.
    fn with_loss<R>(
        &self,
        (x, x_layout): (&CpuStorage, &Layout),
        (w, w_layout): (&CpuStorage, &Layout),
        (labels, labels_layout): (&CpuStorage, &Layout),
        body: impl FnOnce(LinearCe<'_>) -> std::result::Result<R, tilecast::Error>,
    ) -> Result<R> {
        let x = matrix(x, x_layout, [0, 1])?;
        let w = matrix(w, w_layout, [1, 0])?;
        let CpuStorage::U32(all) = labels else {
            candle_core::bail!("labels must be u32");
        };
        let (start, stride) = (labels_layout.start_offset(), labels_layout.stride()[0]);
        let as_i32 = |&label: &u32| i32::try_from(label).map_err(candle_core::Error::wrap);
        let labels = all[start..]
            .iter()
            .step_by(stride.max(1))
            .take(labels_layout.dims()[0]);
        let labels = labels.map(as_i32).collect::<Result<Vec<i32>>>()?;
        let mut loss = linear_ce(x, w, &labels);
        if let Some(index) = self.ignore_index {
            loss = loss.ignore_index(as_i32(&index)?);
        }
        body(loss).map_err(candle_core::Error::wrap)
    }
}

impl CustomOp3 for LinearCrossEntropy {
    fn name(&self) -> &'static str {
        "linear-cross-entropy"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        w: &CpuStorage,
        w_layout: &Layout,
        labels: &CpuStorage,
        labels_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let forward = self.with_loss(
            (x, x_layout),
            (w, w_layout),
            (labels, labels_layout),
            |loss| loss.forward(),
        )?;
        *self.lse.lock().expect("no panic while it is held") = forward.lse;
        let tokens = forward.loss.len();
        Ok((CpuStorage::F32(forward.loss), Shape::from(tokens)))
    }

    fn bwd(
        &self,
        x: &Tensor,
        w: &Tensor,
        labels: &Tensor,
        _loss: &Tensor,
        d_loss: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let d_loss = d_loss.to_vec1::<f32>()?;
        let lse = self.lse.lock().expect("no panic while it is held");
        let (hidden, vocab) = (x.dims()[1], w.dims()[0]);
        let mut dx = zeros(x)?;
        let mut dw = zeros(w)?;
        let operands = [x, w, labels].map(Tensor::storage_and_layout);
        let mut cpu = Vec::new();
        for (storage, layout) in &operands {
            let Storage::Cpu(storage) = &**storage else {
                candle_core::bail!("the fused loss runs on the CPU");
            };
            cpu.push((storage, *layout));
        }
        self.with_loss(cpu[0], cpu[1], cpu[2], |loss| {
            let cotangents = Cotangents {
                d_loss: Some(&d_loss),
                d_lse: None,
            };
            let out = GradientsMut {
                dx: array(&mut dx, &[d_loss.len(), hidden], &[hidden, 1])?,
                dw: array(&mut dw, &[hidden, vocab], &[1, hidden])?,
                dbias: None,
            };
            loss.backward_into(&lse, cotangents, out)
        })?;
        Ok((Some(tensor(dx, x)?), Some(tensor(dw, w)?), None))
    }
}

/// A matrix where it lies, its dimensions in the order `axes`.
fn matrix<'a>(storage: &'a CpuStorage, layout: &Layout, axes: [usize; 2]) -> Result<Matrix<'a>> {
    let (dims, strides) = (layout.shape().dims2()?, layout.stride());
    let dims = axes.map(|axis| [dims.0, dims.1][axis]);
    let strides = axes.map(|axis| strides[axis]);
    let start = layout.start_offset();
    match storage {
        CpuStorage::F32(data) => Matrix::with_strides(&data[start..], dims, strides),
        CpuStorage::BF16(data) => Matrix::with_strides(&data[start..], dims, strides),
        _ => candle_core::bail!("x and w must be f32 or bf16"),
    }
    .map_err(candle_core::Error::wrap)
}

/// Room for the gradient of `of`.
fn zeros(of: &Tensor) -> Result<Values> {
    let len = of.elem_count();
    match of.dtype() {
        candle_core::DType::F32 => Ok(Values::F32(vec![0.0; len])),
        candle_core::DType::BF16 => Ok(Values::Bf16(vec![Default::default(); len])),
        other => candle_core::bail!("x and w must be f32 or bf16, not {other:?}"),
    }
}

fn array<'a>(
    gradient: &'a mut Values,
    dims: &[usize],
    strides: &[usize],
) -> std::result::Result<ArrayMut<'a>, tilecast::Error> {
    Ok(match gradient {
        Values::F32(data) => ArrayMut::with_strides(&mut data[..], dims, strides)?,
        Values::Bf16(data) => ArrayMut::with_strides(&mut data[..], dims, strides)?,
    })
}

/// `gradient` in the shape of `of`.
fn tensor(gradient: Values, of: &Tensor) -> Result<Tensor> {
    match gradient {
        Values::F32(data) => Tensor::from_vec(data, of.shape(), of.device()),
        Values::Bf16(data) => Tensor::from_vec(data, of.shape(), of.device()),
    }
}
