//! Trains a small language model on this project's own documentation from the same start with the fused loss and with
//! candle's cross-entropy, checks that both have the same gradients and learn the same, and prints what a training step
//! of a larger head takes of time and memory with each.
//!
//! ```text
//! cargo run --release --manifest-path examples/candle/Cargo.toml
//! ```

#[path = "../../training/mod.rs"]
mod training;

use anyhow::{Context, Result, ensure};
use candle_core::{DType, Device, Tensor, Var};
use candle_nn::{AdamW, Optimizer, VarBuilder, VarMap};
use tilecast_candle::linear_cross_entropy;
use training::{BATCH, CONTEXT, EMBEDDING, HIDDEN, Measurement, STEPS, Words, measured};

/// A loss of hidden states `[B,H]`, a head `[V,H]` and labels `[B]`: their mean.
type Loss = fn(&Tensor, &Tensor, &Tensor) -> candle_core::Result<Tensor>;

fn fused(x: &Tensor, head: &Tensor, labels: &Tensor) -> candle_core::Result<Tensor> {
    linear_cross_entropy(x, head, labels, None)?.mean_all()
}

fn of_candle(x: &Tensor, head: &Tensor, labels: &Tensor) -> candle_core::Result<Tensor> {
    let logits = x.matmul(&head.t()?)?.to_dtype(DType::F32)?;
    candle_nn::loss::cross_entropy(&logits, labels)
}

/// What is measured.
type Case = (DType, &'static str, Loss);

const CASES: [Case; 4] = [
    (DType::F32, "fused", fused),
    (DType::F32, "candle", of_candle),
    (DType::BF16, "fused", fused),
    (DType::BF16, "candle", of_candle),
];

fn main() -> Result<()> {
    if let Some((measurement, case)) = measured(&CASES)? {
        return measure(&measurement, case);
    }
    let words = Words::read();
    check_gradients(&words)?;
    let start = Model::new(&words)?;
    let [ours, theirs] = [fused as Loss, of_candle].map(|loss| train(&words, &start, loss));
    training::compare("candle", ours?, theirs?)?;
    Measurement::of_all(CASES.len())
}

/// Contexts `[B, CONTEXT]` and the words that follow them.
fn batch(words: &Words, step: usize) -> candle_core::Result<(Tensor, Tensor)> {
    let (contexts, labels) = words.batch(step);
    let contexts = Tensor::from_vec(contexts, (BATCH, CONTEXT), &Device::Cpu)?;
    Ok((contexts, Tensor::from_vec(labels, BATCH, &Device::Cpu)?))
}

/// Embeddings of the context, one hidden layer, and the head.
struct Model {
    variables: VarMap,
    embedding: candle_nn::Embedding,
    layer: candle_nn::Linear,
    head: Tensor,
}

impl Model {
    fn new(words: &Words) -> candle_core::Result<Self> {
        let variables = VarMap::new();
        let builder = VarBuilder::from_varmap(&variables, DType::F32, &Device::Cpu);
        let embedding = candle_nn::embedding(words.different, EMBEDDING, builder.pp("embedding"))?;
        let layer = candle_nn::linear(CONTEXT * EMBEDDING, HIDDEN, builder.pp("layer"))?;
        let head =
            builder.get_with_hints((words.different, HIDDEN), "head", candle_nn::init::ZERO)?;
        Ok(Self {
            variables,
            embedding,
            layer,
            head,
        })
    }

    fn copy_from(&self, other: &Self) -> Result<()> {
        let from = other
            .variables
            .data()
            .lock()
            .expect("no panic while it is held");
        for (name, variable) in self
            .variables
            .data()
            .lock()
            .expect("no panic while it is held")
            .iter()
        {
            variable.set(from.get(name).context("both have the same variables")?)?;
        }
        Ok(())
    }

    fn hidden(&self, contexts: &Tensor) -> candle_core::Result<Tensor> {
        let embedded = contexts.apply(&self.embedding)?.flatten_from(1)?;
        embedded.apply(&self.layer)?.tanh()
    }
}

/// First and last loss of a model that starts as `start`.
fn train(words: &Words, start: &Model, loss: Loss) -> Result<(f32, f32)> {
    let model = Model::new(words)?;
    model.copy_from(start)?;
    let mut optimizer = AdamW::new_lr(model.variables.all_vars(), 0.02)?;
    let mut first = None;
    let mut last = 0.0;
    for step in 0..STEPS {
        let (contexts, labels) = batch(words, step)?;
        let value = loss(&model.hidden(&contexts)?, &model.head, &labels)?;
        optimizer.backward_step(&value)?;
        last = value.to_scalar()?;
        first.get_or_insert(last);
    }
    Ok((first.context("there are steps")?, last))
}

/// Both losses, and their gradients of hidden states and head.
fn check_gradients(words: &Words) -> Result<()> {
    let (_, labels) = batch(words, 0)?;
    let x = Var::from_tensor(&Tensor::randn(0.0_f32, 1.0, (BATCH, HIDDEN), &Device::Cpu)?)?;
    let head = Var::from_tensor(&Tensor::randn(
        0.0_f32,
        0.1,
        (words.different, HIDDEN),
        &Device::Cpu,
    )?)?;
    let [ours, theirs] = [fused as Loss, of_candle].map(|loss| -> candle_core::Result<_> {
        let value = loss(&x, &head, &labels)?;
        let gradients = value.backward()?;
        let of = |var: &Var| {
            gradients
                .get(var)
                .cloned()
                .ok_or(candle_core::Error::Msg("no gradient".into()))
        };
        Ok([value.reshape(1)?, of(&x)?, of(&head)?])
    });
    for ((name, ours), theirs) in ["loss", "dx", "dw"].into_iter().zip(ours?).zip(theirs?) {
        let largest = |t: Tensor| t.abs()?.flatten_all()?.max(0)?.to_scalar::<f32>();
        let error = largest((&ours - &theirs)?)? / largest(theirs)?;
        println!("{name:4} against candle: {error:.1e} of the largest entry");
        ensure!(error < 1e-5, "{name} is off by {error:e}");
    }
    Ok(())
}

/// Measures a forward and a backward pass.
fn measure(measurement: &Measurement, &(dtype, name, loss): &Case) -> Result<()> {
    let [tokens, hidden, vocab] = measurement.shape;
    let random = |shape| Tensor::randn(0.0_f32, 0.05, shape, &Device::Cpu)?.to_dtype(dtype);
    let x = Var::from_tensor(&random((tokens, hidden))?)?;
    let head = Var::from_tensor(&random((vocab, hidden))?)?;
    let labels = Tensor::arange(0_u32, tokens as u32, &Device::Cpu)?;
    let name = format!("{dtype:?} {name}");
    measurement.print(&name, dtype.size_in_bytes(), || {
        Ok(loss(&x, &head, &labels)?.backward()?)
    })
}
