//! Trains a small language model on this project's own documentation from the same start with the fused loss and with
//! candle's cross-entropy, checks that both have the same gradients and learn the same, and prints what a training step of a
//! larger head takes of time and memory with each.
//!
//! ```text
//! cargo run --release --manifest-path examples/candle/Cargo.toml
//! ```

use std::collections::HashMap;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use candle_core::{DType, Device, Tensor, Var};
use candle_nn::{AdamW, Optimizer, VarBuilder, VarMap};
use tilecast_candle::linear_cross_entropy;

/// Real text, a few thousand different words.
const TEXT: &str = concat!(
    include_str!("../../../README.md"),
    include_str!("../../../DESIGN.md"),
    include_str!("../../../docs/cost-model.md"),
    include_str!("../../../docs/validation.md"),
);
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

fn main() -> Result<()> {
    let words = Words::of(TEXT);
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
    for dtype in [DType::F32, DType::BF16] {
        for (name, loss) in [("fused", fused as Loss), ("candle", of_candle)] {
            let (seconds, bytes) = step(dtype, loss)?;
            let mib = bytes.map_or("unknown".into(), |bytes| {
                format!("{:.0}", bytes as f64 / (1 << 20) as f64)
            });
            println!(
                "{dtype:?} {name:6}: {:6.0} ms, {mib} MiB beyond inputs and gradients",
                1e3 * seconds
            );
        }
    }
    Ok(())
}

/// A text as numbers.
struct Words {
    ids: Vec<u32>,
    different: usize,
}

impl Words {
    fn of(text: &str) -> Self {
        let mut known = HashMap::new();
        let mut ids = Vec::new();
        for word in text.split_whitespace() {
            let next = known.len() as u32;
            ids.push(*known.entry(word).or_insert(next));
        }
        Self {
            ids,
            different: known.len(),
        }
    }

    /// Contexts `[B, CONTEXT]` and the words that follow them, from different places at each step.
    fn batch(&self, step: usize) -> candle_core::Result<(Tensor, Tensor)> {
        let starts = (0..BATCH).map(|i| (step * BATCH + i) * 7919 % (self.ids.len() - CONTEXT));
        let (mut contexts, mut labels): (Vec<u32>, Vec<u32>) = Default::default();
        for start in starts {
            contexts.extend(&self.ids[start..start + CONTEXT]);
            labels.push(self.ids[start + CONTEXT]);
        }
        let contexts = Tensor::from_vec(contexts, (BATCH, CONTEXT), &Device::Cpu)?;
        Ok((contexts, Tensor::from_vec(labels, BATCH, &Device::Cpu)?))
    }
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
        let (contexts, labels) = words.batch(step)?;
        let value = loss(&model.hidden(&contexts)?, &model.head, &labels)?;
        optimizer.backward_step(&value)?;
        last = value.to_scalar()?;
        first.get_or_insert(last);
    }
    Ok((first.context("there are steps")?, last))
}

/// Both losses, and their gradients of hidden states and head.
fn check_gradients(words: &Words) -> Result<()> {
    let (_, labels) = words.batch(0)?;
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

/// Seconds (the median of five), and bytes of memory at the peak, of one forward and backward pass.
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
        bytes = before
            .zip(memory::peak())
            .map(|(before, peak)| peak.saturating_sub(before + outputs as u64));
        drop(gradients);
    }
    seconds.sort_by(f64::total_cmp);
    Ok((seconds[2], bytes))
}

/// Resident memory of this process, as Linux counts it.
mod memory {
    /// Lets the peak start anew, and returns what is resident now, bytes.
    pub fn reset() -> Option<u64> {
        std::fs::write("/proc/self/clear_refs", "5").ok()?;
        field("VmRSS:")
    }

    /// The peak since then, bytes.
    pub fn peak() -> Option<u64> {
        field("VmHWM:")
    }

    fn field(name: &str) -> Option<u64> {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim()
            .strip_suffix("kB")?
            .trim()
            .parse::<u64>()
            .ok()
            .map(|kib| kib << 10)
    }
}
