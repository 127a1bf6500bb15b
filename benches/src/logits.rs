//! The ops on logits as problems to time.

use half::bf16;
use tilecast::core::kernels::grpo::Variant;
use tilecast::cpu::array::{Data, DataMut};
use tilecast::{ArrayMut, Cpu, Matrix, entropy, grpo, logits_ce};

/// An element of logits.
pub trait Element: Copy + bytemuck::Pod + Sync + 'static {
    /// The nearest one.
    fn from_f32(value: f32) -> Self;
    /// Its value.
    fn to_f32(self) -> f32;
    /// A slice as the library takes it.
    fn data(slice: &[Self]) -> Data<'_>;
    /// A slice to write to.
    fn data_mut(slice: &mut [Self]) -> DataMut<'_>;
}

macro_rules! element {
    ($type:ty, $from:expr, $to:expr) => {
        impl Element for $type {
            fn from_f32(value: f32) -> Self {
                $from(value)
            }
            fn to_f32(self) -> f32 {
                $to(self)
            }
            fn data(slice: &[Self]) -> Data<'_> {
                slice.into()
            }
            fn data_mut(slice: &mut [Self]) -> DataMut<'_> {
                slice.into()
            }
        }
    };
}

element!(f32, std::convert::identity, std::convert::identity);
element!(bf16, bf16::from_f32, bf16::to_f32);

/// What to compute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Cross-entropy.
    LogitsCe,
    /// Entropy.
    Entropy,
    /// Policy loss.
    Grpo,
}

impl Op {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::LogitsCe, Self::Entropy, Self::Grpo];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LogitsCe => "logits-ce",
            Self::Entropy => "entropy",
            Self::Grpo => "grpo",
        }
    }
}

/// Where a gradient goes.
#[derive(Debug)]
pub enum To<'a, T> {
    /// New memory.
    New,
    /// Memory that is there.
    Given(&'a mut [T]),
    /// The logits.
    Logits,
}

/// Logits and what belongs to them.
#[derive(Clone, Debug)]
pub struct Problem<T> {
    tokens: usize,
    vocab: usize,
    /// `[tokens, vocab]`
    pub logits: Vec<T>,
    labels: Vec<i32>,
    advantage: Vec<f32>,
    old_logp: Vec<f32>,
}

/// What a forward pass returned.
#[derive(Clone, Debug)]
pub enum Forward {
    /// Of a cross-entropy.
    LogitsCe(logits_ce::Forward),
    /// Of an entropy.
    Entropy(entropy::Forward),
    /// Of a policy loss.
    Grpo(grpo::Forward),
}

impl Forward {
    /// The sum of the losses or entropies.
    pub fn total(&self) -> f64 {
        let values = match self {
            Self::LogitsCe(forward) => &forward.loss,
            Self::Entropy(forward) => &forward.entropy,
            Self::Grpo(forward) => &forward.loss,
        };
        values.iter().map(|&x| f64::from(x)).sum()
    }
}

impl<T: Element> Problem<T> {
    /// Logits without pattern in -4..4; the same numbers are made by `tests/python/bench_logits.py`.
    pub fn new(tokens: usize, vocab: usize) -> Self {
        let value = |i: usize| {
            let word = (i as u32).wrapping_mul(2_654_435_761);
            (word >> 8) as f32 / (1 << 21) as f32 - 4.0
        };
        let usual = -(vocab as f32).ln() - 2.0;
        Self {
            tokens,
            vocab,
            logits: (0..tokens * vocab).map(|i| T::from_f32(value(i))).collect(),
            labels: (0..tokens).map(|i| (i * 37 % vocab) as i32).collect(),
            // None is 0: such a row would only be filled.
            advantage: (0..tokens).map(|i| (i % 4) as f32 - 1.5).collect(),
            old_logp: (0..tokens).map(|i| usual + 0.1 * (i % 7) as f32).collect(),
        }
    }

    fn matrix(&self) -> Matrix<'_> {
        Matrix::new(T::data(&self.logits), self.tokens, self.vocab)
            .expect("the slice has the shape")
    }

    fn grpo(&self, cpu: Cpu) -> grpo::Grpo<'_> {
        grpo::new(&self.labels, &self.advantage)
            .variant(Variant::Dapo)
            .old_logp(&self.old_logp)
            .on(cpu)
    }

    /// The forward pass.
    pub fn forward(&self, op: Op, cpu: Cpu) -> Forward {
        let matrix = self.matrix();
        let result = match op {
            Op::LogitsCe => {
                (logits_ce::new(&self.labels).on(cpu).forward(matrix)).map(Forward::LogitsCe)
            }
            Op::Entropy => entropy::new().on(cpu).forward(matrix).map(Forward::Entropy),
            Op::Grpo => self.grpo(cpu).forward(matrix).map(Forward::Grpo),
        };
        result.expect("the shapes agree")
    }

    /// The backward pass, with cotangents of one; the sum of the sizes of the gradient's first row.
    pub fn backward(&mut self, forward: &Forward, cpu: Cpu, to: To<'_, T>) -> f64 {
        let dims = [self.tokens, self.vocab];
        // Taken out, because in place the logits are written to.
        let mut logits = std::mem::take(&mut self.logits);
        let array =
            |data| ArrayMut::new(T::data_mut(data), &dims).expect("the slice has the shape");
        macro_rules! run {
            ($op:expr, $forward:expr) => {{
                let (op, cotangents) = ($op.on(cpu), Default::default());
                let matrix = || {
                    let data = T::data(&logits);
                    Matrix::new(data, dims[0], dims[1]).expect("the slice has the shape")
                };
                let sum = |row: &[T]| row.iter().map(|x| f64::from(x.to_f32().abs())).sum();
                match to {
                    To::New => {
                        let gradient = op.backward(matrix(), $forward, cotangents);
                        first_row(&gradient.expect("the shapes agree"), dims[1])
                    }
                    To::Given(out) => {
                        let result = op.backward_into(matrix(), $forward, cotangents, array(out));
                        result.expect("the shapes agree");
                        sum(&out[..dims[1]])
                    }
                    To::Logits => {
                        let result = op.backward_in_place(array(&mut logits), $forward, cotangents);
                        result.expect("the shapes agree");
                        sum(&logits[..dims[1]])
                    }
                }
            }};
        }
        let found = match forward {
            Forward::LogitsCe(forward) => run!(logits_ce::new(&self.labels), forward),
            Forward::Entropy(forward) => run!(entropy::new(), forward),
            Forward::Grpo(forward) => run!(self.grpo(Cpu::new()), forward),
        };
        self.logits = logits;
        found
    }
}

/// The sum of the sizes of the first row of a gradient.
fn first_row(gradient: &tilecast::Values, vocab: usize) -> f64 {
    match gradient {
        tilecast::Values::F32(data) => data[..vocab].iter().map(|x| f64::from(x.abs())).sum(),
        tilecast::Values::Bf16(data) => (data[..vocab].iter())
            .map(|x| f64::from(x.to_f32().abs()))
            .sum(),
    }
}
