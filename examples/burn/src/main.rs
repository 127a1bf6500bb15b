//! Trains a small language model on this project's own documentation from the same start with the fused loss and with
//! burn's cross-entropy, checks that both have the same gradients and learn the same, and prints what a training step of a
//! larger head takes of time and memory with each.
//!
//! ```text
//! cargo run --release --manifest-path examples/burn/Cargo.toml
//! ```

#[path = "../../training/memory.rs"]
mod memory;
#[path = "../../training/words.rs"]
mod words;

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use burn::module::{Initializer, Module, Param};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{Embedding, EmbeddingConfig, Linear, LinearConfig};
use burn::optim::{AdamWConfig, GradientsParams};
use burn::tensor::{DType, Device, Distribution, Int, Tensor, TensorData};
use tilecast_burn::linear_cross_entropy;
use words::Words;

/// Words from which the next one is predicted.
const CONTEXT: usize = 3;
const EMBEDDING: usize = 32;
const HIDDEN: usize = 128;
const BATCH: usize = 512;
const STEPS: usize = 60;

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
const CASES: [(DType, &str, Loss); 4] = [
    (DType::F32, "fused", fused),
    (DType::F32, "burn", of_burn),
    (DType::BF16, "fused", fused),
    (DType::BF16, "burn", of_burn),
];

fn main() -> Result<()> {
    if let Some(case) = std::env::args().nth(1) {
        return measure(&case);
    }
    let device = Device::flex().autodiff();
    let words = Words::new();
    println!(
        "{} words, {} of them different",
        words.ids.len(),
        words.different
    );
    check_gradients(&words, &device)?;
    let start = Model::new(&words, &device);
    let [ours, theirs] =
        [fused as Loss, of_burn].map(|loss| train(&words, start.clone(), loss, &device));
    let (ours, theirs) = (ours?, theirs?);
    println!(
        "loss after {STEPS} steps from {:.3}: fused {:.3}, burn {:.3}",
        ours.0, ours.1, theirs.1
    );
    ensure!(ours.1 < 0.75 * ours.0, "it must learn");
    ensure!(
        (ours.1 - theirs.1).abs() < 0.02 * theirs.1,
        "both must learn the same"
    );
    println!("\none forward and backward, B=1024 H=512 V=32768");
    // A process for each: what one leaves to the allocator would not be new memory in the next.
    for case in 0..CASES.len() {
        let status = Command::new(std::env::current_exe()?)
            .arg(case.to_string())
            .status()?;
        ensure!(status.success(), "case {case}: {status}");
    }
    Ok(())
}

/// Prints what a forward and a backward pass take in one of the [`CASES`].
fn measure(case: &str) -> Result<()> {
    let known = case.parse().ok().and_then(|case: usize| CASES.get(case));
    let &(dtype, name, loss) = known.with_context(|| {
        format!(
            "there is no case {case}: 0 to {} are known",
            CASES.len() - 1
        )
    })?;
    let (seconds, bytes) = step(dtype, loss, &Device::flex().autodiff())?;
    let mib = bytes.map_or("unknown".into(), |bytes| {
        format!("{:.0}", bytes as f64 / (1 << 20) as f64)
    });
    println!(
        "{dtype:?} {name:6}: {:6.0} ms, {mib} MiB beyond inputs and gradients",
        1e3 * seconds
    );
    Ok(())
}

/// Contexts `[B, CONTEXT]` and the words that follow them.
fn batch(words: &Words, step: usize, device: &Device) -> (Tensor<2, Int>, Tensor<1, Int>) {
    let (contexts, labels) = words.batch(step, BATCH, CONTEXT);
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

/// Seconds (the median of five), and bytes of memory at the peak (the most of five), of one forward and
/// backward pass.
fn step(dtype: DType, loss: Loss, device: &Device) -> Result<(f64, Option<u64>)> {
    let (tokens, hidden, vocab) = (1024, 512, 32768);
    let random = |shape| {
        let tensor = Tensor::<2>::random(shape, Distribution::Normal(0.0, 0.05), device);
        tensor.cast(dtype).detach().require_grad()
    };
    let x = random([tokens, hidden]);
    let head = random([hidden, vocab]);
    let labels = Tensor::arange(0..tokens as i64, device);
    let mut seconds = Vec::new();
    let mut bytes = None;
    for _ in 0..5 {
        let before = memory::reset();
        let start = Instant::now();
        let gradients = loss(x.clone(), head.clone(), labels.clone())?.backward();
        seconds.push(start.elapsed().as_secs_f64());
        let outputs = (tokens + vocab) * hidden * dtype.size();
        let more = before
            .zip(memory::peak())
            .map(|(before, peak)| peak.saturating_sub(before + outputs as u64));
        bytes = bytes.max(more);
        drop(gradients);
    }
    seconds.sort_by(f64::total_cmp);
    Ok((seconds[2], bytes))
}
