//! The ops on given logits: cases, columns and expected values.
//!
//! All three are programs of the same kernels with named inputs and outputs, so one [`Case`] holds any of
//! them, and a column needs to know no more than how to run a program.

mod expected;
pub(crate) mod named;
mod options;

use tilecast::DType;
use tilecast::core::kernels::logits_op::{self, LogitsOp};
use tilecast::core::kernels::softmax::{Blocks, Schedule, SoftmaxKernel};
use tilecast::core::kernels::{entropy, grpo, logits_ce};
use tilecast::core::program::Program;

pub use expected::Expected;
pub use options::{ce_everything, policy_everything, warm};

use crate::OnCpu;
use crate::case::{Random, round_to};

/// An op with its options.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// Cross-entropy.
    LogitsCe(logits_ce::Options),
    /// Entropy.
    Entropy(tilecast::core::kernels::softmax::LogitsOptions),
    /// Policy loss.
    Grpo(grpo::Options),
}

/// What is computed, on which numbers, in which blocks.
#[derive(Clone, Debug)]
pub struct Case {
    /// Name in reports.
    pub name: &'static str,
    /// Op and options.
    pub op: Op,
    /// `[B, V]`
    pub shape: [usize; 2],
    /// Type of the logits.
    pub dtype: DType,
    /// How the op is cut up; `None` is the choice for this machine.
    pub blocks: Option<Blocks>,
    /// Start of the random numbers.
    pub seed: u64,
    /// Standard deviation of the logits.
    pub logit_scale: f32,
}

/// The numbers of a case by the names of the program's arrays. Those of type bf16 are widened, and exact.
#[derive(Clone, Debug, Default)]
pub struct Data {
    /// `[B,V]`
    pub logits: Vec<f32>,
    /// `[B]`
    pub labels: Vec<i32>,
    /// Inputs and cotangents.
    pub vectors: Vec<(&'static str, Vec<f32>)>,
}

impl Data {
    /// A vector by name; empty if there is none.
    pub fn vector(&self, name: &str) -> &[f32] {
        let found = self.vectors.iter().find(|(of, _)| *of == name);
        found.map_or(&[], |(_, values)| values)
    }

    /// All of it in f64.
    pub fn widened(&self) -> logits_op::Inputs {
        let vectors = self.vectors.iter();
        logits_op::Inputs {
            logits: crate::case::widen(&self.logits),
            labels: self.labels.clone(),
            vectors: vectors.map(|(name, _)| (*name, self.wide(name))).collect(),
        }
    }

    /// A vector in f64.
    pub fn wide(&self, name: &str) -> Vec<f64> {
        crate::case::widen(self.vector(name))
    }
}

impl Case {
    /// A ragged shape in f32, in blocks that divide neither of its sizes.
    pub fn new(name: &'static str, op: Op) -> Self {
        Self {
            name,
            op,
            shape: [36, 50],
            dtype: DType::F32,
            blocks: Some(Blocks::new(8, 16)),
            seed: 1,
            logit_scale: 2.0,
        }
    }

    /// With another shape and blocks `[b, v]`.
    pub fn shape(self, shape: [usize; 2], [b, v]: [usize; 2]) -> Self {
        let blocks = Some(Blocks::new(b, v));
        Self {
            shape,
            blocks,
            ..self
        }
    }

    /// With bf16 logits.
    pub fn bf16(self) -> Self {
        Self {
            dtype: DType::Bf16,
            ..self
        }
    }

    /// The op.
    ///
    /// # Panics
    /// If it refuses the case.
    pub fn problem(&self) -> LogitsOp {
        let [b, v] = self.shape;
        let problem = match self.op {
            Op::LogitsCe(options) => {
                logits_ce::LogitsCe::new(b, v, self.dtype, options).map(LogitsOp::LogitsCe)
            }
            Op::Entropy(options) => {
                entropy::Entropy::new(b, v, self.dtype, options).map(LogitsOp::Entropy)
            }
            Op::Grpo(options) => grpo::Grpo::new(b, v, self.dtype, options).map(LogitsOp::Grpo),
        };
        problem.unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    /// The numbers. A quarter of the labels is ignored and of the mask 0, where there are such. The
    /// ratios of a policy loss stay clear of its bounds.
    pub fn data(&self) -> Data {
        let [b, v] = self.shape;
        let mut random = Random(self.seed);
        // A uniform number in [-1, 1) has variance 1/3.
        let scale = self.logit_scale * 3.0_f32.sqrt();
        let logits = (0..b * v)
            .map(|_| round_to(self.dtype, random.signed() * scale))
            .collect();
        self.data_for(logits, &mut random)
    }

    /// The same for given logits.
    pub(crate) fn data_for(&self, logits: Vec<f32>, random: &mut Random) -> Data {
        let [b, v] = self.shape;
        let mut data = Data {
            logits,
            labels: (0..b).map(|_| random.below(v) as i32).collect(),
            vectors: Vec::new(),
        };
        let mut vector = |names: &[&'static str], len: usize, middle: f32| {
            for &name in names {
                let values = (0..len).map(|_| middle + 0.5 * random.signed()).collect();
                data.vectors.push((name, values));
            }
        };
        match self.op {
            Op::LogitsCe(options) => {
                vector(&["d_loss"], b, 1.0);
                vector(&["d_logp", "d_lse"], b, 0.0);
                if let Some(index) = options.ignore_index {
                    let ignored = data.labels.iter_mut().filter(|_| random.below(4) == 0);
                    ignored.for_each(|label| *label = index);
                }
            }
            Op::Entropy(_) => vector(&["d_entropy"], b, 0.0),
            Op::Grpo(options) => {
                vector(&["advantage"], b, 0.0);
                vector(&["d_loss"], if options.per_token { b } else { 1 }, 1.0);
                vector(&["d_logp", "d_ratio", "d_entropy"], b, 0.0);
                if options.mask {
                    let mask = (0..b).map(|_| f32::from(random.below(4) != 0)).collect();
                    data.vectors.push(("mask", mask));
                }
                self.add_policies(&options, &mut data, random);
            }
        }
        data
    }

    /// Log-probabilities of the other policies, at a distance from those of this one.
    fn add_policies(&self, options: &grpo::Options, data: &mut Data, random: &mut Random) {
        let plain = grpo::Options {
            old_logp: false,
            kl_beta: 0.0,
            ..*options
        };
        let [b, v] = self.shape;
        let problem = grpo::Grpo::new(b, v, self.dtype, plain).expect("the case is valid");
        let forward = logits_op::reference::forward(&LogitsOp::Grpo(problem), &data.widened());
        let logp = logits_op::of_name(&forward, "logp");
        let mut near = |spread: f32| -> Vec<f32> {
            logp.iter()
                .map(|p| *p as f32 + spread * random.signed())
                .collect()
        };
        if options.kl_beta > 0.0 {
            data.vectors.push(("ref_logp", near(0.7)));
        }
        if !options.old_logp {
            return;
        }
        // A sequence's ratio is a mean: its steps are alike, so that some are clipped.
        let length = match options.ratio {
            grpo::Ratio::Token => 1,
            grpo::Ratio::Sequence => problem.sequence_length(),
        };
        let steps = [-0.6, -0.1, 0.05, 0.11, 0.5, 0.95];
        let mut old = near(0.004);
        for sequence in old.chunks_mut(length) {
            let step = steps[random.below(steps.len())];
            sequence.iter_mut().for_each(|old| *old -= step);
        }
        data.vectors.push(("old_logp", old));
    }
}

/// A column that runs programs.
#[derive(Clone, Copy, Debug)]
pub enum Column {
    /// The CPU, with temporaries poisoned.
    Cpu(OnCpu),
    /// The printed Mosaic text, interpreted.
    Simulated,
}

/// Arrays of results by name, widened.
pub type Outputs = Vec<(&'static str, Vec<f32>)>;

impl Column {
    /// The CPU at every instruction set this machine has, on one thread and on several, and the
    /// interpreter.
    pub fn all() -> Vec<Self> {
        let levels = tilecast_cpu::simd::Simd::available().map(|simd| simd.level());
        let on_cpu =
            levels.flat_map(|level| [1, 3].map(|threads| Self::Cpu(OnCpu { level, threads })));
        on_cpu.chain([Self::Simulated]).collect()
    }

    /// The blocks of a case as the column takes them.
    fn schedule(self, case: &Case, problem: &LogitsOp) -> Schedule {
        match (self, case.blocks) {
            (Self::Cpu(_), Some(blocks)) => Schedule::new(blocks),
            (Self::Cpu(on), None) => Schedule::for_cache(problem.logits(), on.threads, 1 << 20),
            (Self::Simulated, blocks) => {
                let whole = |n: usize| n.next_multiple_of(128);
                let blocks = blocks.unwrap_or(Blocks::new(1, 1));
                // Low blocks in a vector of 128 tokens stay as they are.
                let low = blocks.vector != blocks.b;
                let b = if low { blocks.b } else { whole(blocks.b) };
                let vector = if low { blocks.vector } else { b };
                Schedule::new(Blocks {
                    b,
                    v: whole(blocks.v),
                    vector,
                    sub_tile: [16.min(b), whole(blocks.v).min(256)],
                })
            }
        }
    }

    /// Outputs of both passes.
    ///
    /// # Errors
    /// What went wrong, in words.
    pub fn run(self, case: &Case, data: &Data) -> Result<Outputs, String> {
        let problem = case.problem();
        let schedule = self.schedule(case, &problem);
        let forward = problem.forward(&schedule).map_err(|e| e.to_string())?;
        let backward = problem.backward(&schedule).map_err(|e| e.to_string())?;
        let mut known = data.clone();
        let mut outputs = self.run_program(&forward, &known)?;
        known.vectors.extend(outputs.iter().cloned());
        outputs.extend(self.run_program(&backward, &known)?);
        Ok(outputs)
    }

    /// Outputs of both passes as one program.
    ///
    /// # Errors
    /// What went wrong, in words.
    pub fn run_at_once(self, case: &Case, data: &Data) -> Result<Outputs, String> {
        let problem = case.problem();
        let schedule = self.schedule(case, &problem);
        let both = problem.forward_and_backward(&schedule);
        self.run_program(&both.map_err(|e| e.to_string())?, data)
    }

    fn run_program(self, program: &Program<SoftmaxKernel>, data: &Data) -> Result<Outputs, String> {
        let find = |name: &str| match name {
            "logits" => &data.logits[..],
            _ => data.vector(name),
        };
        named::run(self, program, &data.labels, &find)
    }
}

/// Runs a case on a column.
///
/// # Errors
/// A report of everything that differs.
pub fn check(
    case: &Case,
    data: &Data,
    expected: &[Expected],
    column: Column,
) -> Result<(), String> {
    let place = format!("{} on {column:?}", case.name);
    let outputs = column
        .run(case, data)
        .map_err(|error| format!("{place}: {error}"))?;
    let reports = compare_all(expected, &outputs);
    match reports.is_empty() {
        true => Ok(()),
        false => Err(format!("{place}: {}", reports.join("\n"))),
    }
}

/// Everything in which outputs differ from what is expected.
pub(crate) fn compare_all(expected: &[Expected], outputs: &Outputs) -> Vec<String> {
    let mut reports = Vec::new();
    for expected in expected {
        let found = outputs.iter().find(|(name, _)| *name == expected.name);
        match found {
            None => reports.push(format!("{} is missing", expected.name)),
            Some((_, values)) => {
                if let Err(mismatch) = expected.compare(values) {
                    reports.push(mismatch.to_string());
                }
            }
        }
    }
    reports
}

/// Runs a case on every column and panics with a report of everything that differs.
///
/// # Panics
/// If a column disagrees with the reference.
pub fn assert_case(case: &Case) {
    let data = case.data();
    let expected = Expected::of(case, &data);
    let reports: Vec<_> = (Column::all().into_iter())
        .filter_map(|column| check(case, &data, &expected, column).err())
        .collect();
    assert!(reports.is_empty(), "\n{}", reports.join("\n"));
}
