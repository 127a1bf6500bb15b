//! The ops on given logits: cases, columns and expected values.
//!
//! All three are programs of the same kernels with named inputs and outputs, so one [`Case`] holds any of
//! them, and a column needs to know no more than how to run a program.

mod expected;

use half::bf16;
use tilecast::core::kernels::softmax::{Blocks, Logits, LogitsError, Schedule, SoftmaxKernel};
use tilecast::core::kernels::{entropy, grpo, logits_ce};
use tilecast::core::program::{Program, Role};
use tilecast::{ArrayMut, DType};
use tilecast_cpu::array::ArrayRef;
use tilecast_sim::execute::{self, Array};

pub use expected::Expected;

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

/// An op on shapes.
#[derive(Clone, Copy, Debug)]
pub enum Problem {
    /// Cross-entropy.
    LogitsCe(logits_ce::LogitsCe),
    /// Entropy.
    Entropy(entropy::Entropy),
    /// Policy loss.
    Grpo(grpo::Grpo),
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

    /// A vector in f64.
    pub fn wide(&self, name: &str) -> Vec<f64> {
        crate::case::widen(self.vector(name))
    }
}

impl Problem {
    /// The logits.
    pub fn logits(&self) -> &Logits {
        match self {
            Self::LogitsCe(op) => op.logits(),
            Self::Entropy(op) => op.logits(),
            Self::Grpo(op) => op.logits(),
        }
    }

    /// Both passes.
    ///
    /// # Errors
    /// Blocks that the op refuses.
    pub fn programs(
        &self,
        schedule: &Schedule,
    ) -> Result<[Program<SoftmaxKernel>; 2], LogitsError> {
        Ok(match self {
            Self::LogitsCe(op) => [op.forward(schedule)?, op.backward(schedule)?],
            Self::Entropy(op) => [op.forward(schedule)?, op.backward(schedule)?],
            Self::Grpo(op) => [op.forward(schedule)?, op.backward(schedule)?],
        })
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
    pub fn problem(&self) -> Problem {
        let [b, v] = self.shape;
        let problem = match self.op {
            Op::LogitsCe(options) => {
                logits_ce::LogitsCe::new(b, v, self.dtype, options).map(Problem::LogitsCe)
            }
            Op::Entropy(options) => {
                entropy::Entropy::new(b, v, self.dtype, options).map(Problem::Entropy)
            }
            Op::Grpo(options) => grpo::Grpo::new(b, v, self.dtype, options).map(Problem::Grpo),
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
                self.add_policies(&options, &mut data, &mut random);
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
        let logp = grpo::reference::forward(&problem, &expected::grpo_inputs(data)).logp;
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
    fn schedule(self, case: &Case, problem: &Problem) -> Schedule {
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
                    sub_tile: 16.min(b),
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
        let [forward, backward] = problem.programs(&schedule).map_err(|e| e.to_string())?;
        let mut known = data.clone();
        let mut outputs = self.run_program(&forward, &known)?;
        known.vectors.extend(outputs.iter().cloned());
        outputs.extend(self.run_program(&backward, &known)?);
        Ok(outputs)
    }

    fn run_program(self, program: &Program<SoftmaxKernel>, data: &Data) -> Result<Outputs, String> {
        match self {
            Self::Cpu(on) => run_on_cpu(on, program, data),
            Self::Simulated => run_simulated(program, data).map_err(|error| error.to_string()),
        }
    }
}

fn narrow(values: &[f32]) -> Vec<bf16> {
    values.iter().map(|&x| bf16::from_f32(x)).collect()
}

fn run_on_cpu(on: OnCpu, program: &Program<SoftmaxKernel>, data: &Data) -> Result<Outputs, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let narrow_logits = narrow(&data.logits);
    let mut inputs = Vec::new();
    let (mut f32s, mut bf16s) = (Vec::new(), Vec::new());
    for array in program.arrays() {
        let (name, dims) = (array.name, &array.dims[..]);
        let len = dims.iter().product();
        match (array.role, array.dtype, name) {
            (Role::Temporary, ..) => {}
            (Role::Input, DType::I32, _) => {
                inputs.push((name, ArrayRef::new(&data.labels[..], dims)));
            }
            (Role::Input, DType::F32, "logits") => {
                inputs.push((name, ArrayRef::new(&data.logits[..], dims)));
            }
            (Role::Input, DType::Bf16, _) => {
                inputs.push((name, ArrayRef::new(&narrow_logits[..], dims)));
            }
            (Role::Input, DType::F32, _) => {
                inputs.push((name, ArrayRef::new(data.vector(name), dims)));
            }
            (Role::InPlace, DType::F32, _) => f32s.push((name, dims, data.logits.clone())),
            (Role::InPlace, ..) => bf16s.push((name, dims, narrow_logits.clone())),
            (_, DType::F32, _) => f32s.push((name, dims, vec![f32::NAN; len])),
            _ => bf16s.push((name, dims, vec![bf16::NAN; len])),
        }
    }
    let inputs: Vec<_> = (inputs.into_iter())
        .map(|(name, array)| Ok((name, array.map_err(|e| text(&e))?)))
        .collect::<Result<_, String>>()?;
    let mut outputs = Vec::new();
    for (name, dims, values) in &mut f32s {
        outputs.push((
            *name,
            ArrayMut::new(&mut values[..], dims).map_err(|e| text(&e))?,
        ));
    }
    for (name, dims, values) in &mut bf16s {
        outputs.push((
            *name,
            ArrayMut::new(&mut values[..], dims).map_err(|e| text(&e))?,
        ));
    }
    let cpu = on.cpu()?;
    cpu.run(program, &inputs, outputs).map_err(|e| text(&e))?;
    let widened = bf16s.into_iter().map(|(name, _, values)| {
        let values = values.into_iter().map(bf16::to_f32).collect();
        (name, values)
    });
    let exact = f32s.into_iter().map(|(name, _, values)| (name, values));
    Ok(exact.chain(widened).collect())
}

fn run_simulated(
    program: &Program<SoftmaxKernel>,
    data: &Data,
) -> Result<Outputs, Box<dyn std::error::Error>> {
    let mut arrays = Vec::new();
    for array in program.arrays() {
        let (name, dims) = (array.name, &array.dims[..]);
        let passed = match (array.role, array.dtype, name) {
            (Role::Temporary | Role::Output, ..) => continue,
            (_, DType::I32, _) => Array::new(data.labels.clone(), dims)?,
            (_, DType::Bf16, _) => Array::new(narrow(&data.logits), dims)?,
            (_, DType::F32, "logits") => Array::new(data.logits.clone(), dims)?,
            (_, DType::F32, _) => Array::new(data.vector(name).to_vec(), dims)?,
        };
        arrays.push((name, passed));
    }
    let inputs: Vec<_> = arrays.iter().map(|(name, array)| (*name, array)).collect();
    let outputs = execute::program(program, &inputs, &execute::Options::default())?;
    let widened = outputs
        .into_iter()
        .map(|(name, array)| (name, array.to_f32()));
    Ok(widened.collect())
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
    let mut reports = Vec::new();
    for expected in expected {
        let found = outputs.iter().find(|(name, _)| *name == expected.name);
        match found {
            None => reports.push(format!("{place}: {} is missing", expected.name)),
            Some((_, values)) => {
                if let Err(mismatch) = expected.compare(values) {
                    reports.push(format!("{place}: {mismatch}"));
                }
            }
        }
    }
    match reports.is_empty() {
        true => Ok(()),
        false => Err(reports.join("\n")),
    }
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
