//! Trains a small language model on this project's own documentation from the same start with the fused loss and with
//! burn's cross-entropy, checks that both have the same gradients and learn the same, and prints what a training step
//! of a larger head takes of time and memory with each.
//!
//! ```text
//! cargo run --release --manifest-path examples/burn/Cargo.toml
//! ```

#[path = "../../training/mod.rs"]
mod training;

use anyhow::{Context, Result, ensure};
use burn::module::{Initializer, Module, Param};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{Embedding, EmbeddingConfig, Linear, LinearConfig};
use burn::optim::{AdamWConfig, GradientsParams};
use burn::tensor::{DType, Device, Distribution, Int, Tensor, TensorData};
use tilecast_burn::linear_cross_entropy;
use training::{BATCH, CONTEXT, EMBEDDING, HIDDEN, Measurement, STEPS, Words, measured};

/// A loss of hidden states `[B,H]`, a head `[H,V]` and labels `[B]`: their mean.
type Loss = fn(Tensor<2>, Tensor<2>, Tensor<1, Int>) -> Result<Tensor<1>>;

fn fused(x: Tensor<2>, head: Tensor<2>, labels: Tensor<1, Int>) -> Result<Tensor<1>> {
    Ok(linear_cross_entropy(x, head, labels, None)?.mean())
}

fn of_burn(x: Tensor<2>, head: Tensor<2>, labels: Tensor<1, Int>) -> Result<Tensor<1>> {
    let logits = x.matmul(head).cast(DType::F32);
    let loss = CrossEntropyLossConfig::new().init(&logits.device());
    Ok(loss.forward(logits, labels))
}

/// What is measured.
type Case = (DType, &'static str, Loss);

const CASES: [Case; 4] = [
    (DType::F32, "fused", fused),
    (DType::F32, "burn", of_burn),
    (DType::BF16, "fused", fused),
    (DType::BF16, "burn", of_burn),
];

fn main() -> Result<()> {
    if let Some((measurement, case)) = measured(&CASES)? {
        return measure(&measurement, case);
    }
    let device = Device::flex().autodiff();
    let words = Words::read();
    check_gradients(&words, &device)?;
    let start = Model::new(&words, &device);
    let [ours, theirs] =
        [fused as Loss, of_burn].map(|loss| train(&words, start.clone(), loss, &device));
    training::compare("burn", ours?, theirs?)?;
    Measurement::of_all(CASES.len())
}

/// Contexts `[B, CONTEXT]` and the words that follow them.
fn batch(words: &Words, step: usize, device: &Device) -> (Tensor<2, Int>, Tensor<1, Int>) {
    let (contexts, labels) = words.batch(step);
    let contexts = TensorData::new(contexts, [BATCH, CONTEXT]);
    let labels = TensorData::new(labels, [BATCH]);
    (
        Tensor::from_data(contexts, device),
        Tensor::from_data(labels, device),
    )
}

/// Embeddings of the context, one hidden layer, and the head.
#[derive(Module, Debug)]
struct Model {
    embedding: Embedding,
    layer: Linear,
    head: Param<Tensor<2>>,
}

impl Model {
    fn new(words: &Words, device: &Device) -> Self {
        Self {
            embedding: EmbeddingConfig::new(words.different, EMBEDDING).init(device),
            layer: LinearConfig::new(CONTEXT * EMBEDDING, HIDDEN).init(device),
            head: Initializer::Zeros.init([HIDDEN, words.different], device),
        }
    }

    fn hidden(&self, contexts: Tensor<2, Int>) -> Tensor<2> {
        let embedded = self.embedding.forward(contexts).flatten(1, 2);
        self.layer.forward(embedded).tanh()
    }
}

/// First and last loss of a model.
fn train(words: &Words, mut model: Model, loss: Loss, device: &Device) -> Result<(f32, f32)> {
    let mut optimizer = AdamWConfig::new().init();
    let mut first = None;
    let mut last = 0.0;
    for step in 0..STEPS {
        let (contexts, labels) = batch(words, step, device);
        let value = loss(model.hidden(contexts), model.head.val(), labels)?;
        let gradients = GradientsParams::from_grads(value.backward(), &model);
        model = optimizer.step(0.02, model, gradients);
        last = value.into_scalar();
        first.get_or_insert(last);
    }
    Ok((first.context("there are steps")?, last))
}

/// Both losses, and their gradients of hidden states and head.
fn check_gradients(words: &Words, device: &Device) -> Result<()> {
    let (_, labels) = batch(words, 0, device);
    let random = |shape, deviation| {
        Tensor::<2>::random(shape, Distribution::Normal(0.0, deviation), device).require_grad()
    };
    let x = random([BATCH, HIDDEN], 1.0);
    let head = random([HIDDEN, words.different], 0.1);
    let [ours, theirs] = [fused as Loss, of_burn].map(|loss| -> Result<_> {
        let value = loss(x.clone(), head.clone(), labels.clone())?;
        let gradients = value.backward();
        let of = |tensor: &Tensor<2>| tensor.grad(&gradients).context("no gradient");
        Ok([value.inner().reshape([1, 1]), of(&x)?, of(&head)?])
    });
    for ((name, ours), theirs) in ["loss", "dx", "dw"].into_iter().zip(ours?).zip(theirs?) {
        let largest = |t: Tensor<2>| t.abs().max().into_scalar::<f32>();
        let error = largest(ours - theirs.clone()) / largest(theirs);
        println!("{name:4} against burn: {error:.1e} of the largest entry");
        ensure!(error < 1e-5, "{name} is off by {error:e}");
    }
    Ok(())
}

/// Measures a forward and a backward pass.
fn measure(measurement: &Measurement, &(dtype, name, loss): &Case) -> Result<()> {
    let device = Device::flex().autodiff();
    let [tokens, hidden, vocab] = measurement.shape;
    let random = |shape| {
        let tensor = Tensor::<2>::random(shape, Distribution::Normal(0.0, 0.05), &device);
        tensor.cast(dtype).detach().require_grad()
    };
    let x = random([tokens, hidden]);
    let head = random([hidden, vocab]);
    let labels = Tensor::arange(0..tokens as i64, &device);
    let name = format!("{dtype:?} {name}");
    measurement.print(&name, dtype.size(), || {
        Ok(loss(x.clone(), head.clone(), labels.clone())?.backward())
    })
}
