//! Trains a small language model on this project's own documentation from the same start with the fused loss and with
//! candle's cross-entropy, checks that both have the same gradients and learn the same, and prints what a training step of a
//! larger head takes of time and memory with each.
//!
//! ```text
//! cargo run --release --manifest-path examples/candle/Cargo.toml
//! ```

#[path = "../../training/memory.rs"]
mod memory;
#[path = "../../training/words.rs"]
mod words;

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use candle_core::{DType, Device, Tensor, Var};
use candle_nn::{AdamW, Optimizer, VarBuilder, VarMap};
use tilecast_candle::linear_cross_entropy;
use words::Words;

/// Words from which the next one is predicted.
const CONTEXT: usize = 3;
const EMBEDDING: usize = 32;
const HIDDEN: usize = 128;
const BATCH: usize = 512;
const STEPS: usize = 60;

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
const CASES: [(DType, &str, Loss); 4] = [
    (DType::F32, "fused", fused),
    (DType::F32, "candle", of_candle),
    (DType::BF16, "fused", fused),
    (DType::BF16, "candle", of_candle),
];

fn main() -> Result<()> {
    if let Some(case) = std::env::args().nth(1) {
        return measure(&case);
    }
    let words = Words::new();
    println!(
        "{} words, {} of them different",
        words.ids.len(),
        words.different
    );
    check_gradients(&words)?;
    let start = Model::new(&words)?;
    let [ours, theirs] = [fused as Loss, of_candle].map(|loss| train(&words, &start, loss));
    let (ours, theirs) = (ours?, theirs?);
    println!(
        "loss after {STEPS} steps from {:.3}: fused {:.3}, candle {:.3}",
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
    let (seconds, bytes) = step(dtype, loss)?;
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
fn batch(words: &Words, step: usize) -> candle_core::Result<(Tensor, Tensor)> {
    let (contexts, labels) = words.batch(step, BATCH, CONTEXT);
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

/// Seconds (the median of five), and bytes of memory at the peak (the most of five), of one forward and
/// backward pass.
fn step(dtype: DType, loss: Loss) -> Result<(f64, Option<u64>)> {
    let (tokens, hidden, vocab) = (1024, 512, 32768);
    let random = |shape| Tensor::randn(0.0_f32, 0.05, shape, &Device::Cpu)?.to_dtype(dtype);
    let x = Var::from_tensor(&random((tokens, hidden))?)?;
    let head = Var::from_tensor(&random((vocab, hidden))?)?;
    let labels = Tensor::arange(0_u32, tokens as u32, &Device::Cpu)?;
    let mut seconds = Vec::new();
    let mut bytes = None;
    for _ in 0..5 {
        let before = memory::reset();
        let start = Instant::now();
        let gradients = loss(&x, &head, &labels)?.backward()?;
        seconds.push(start.elapsed().as_secs_f64());
        let outputs = (x.elem_count() + head.elem_count()) * dtype.size_in_bytes();
        let more = before
            .zip(memory::peak())
            .map(|(before, peak)| peak.saturating_sub(before + outputs as u64));
        bytes = bytes.max(more);
        drop(gradients);
    }
    seconds.sort_by(f64::total_cmp);
    Ok((seconds[2], bytes))
}
