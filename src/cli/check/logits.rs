//! The ops on given logits: options as data, values drawn from a seed, tolerances from
//! [`rounding`](tilecast::core::kernels::logits_op::rounding).

mod differences;

pub(super) use differences::Differences;

use half::bf16;
use tilecast::DType;
use tilecast::core::kernels::grpo::{self, Grpo, Ratio, Variant};
use tilecast::core::kernels::logits_ce::{self, LogitsCe};
use tilecast::core::kernels::logits_op::{LogitsOp, Named, of_name, reference, rounding};
use tilecast::core::kernels::softmax::{Blocks, LogitsError, LogitsOptions, Schedule};
use tilecast::core::kernels::{entropy::Entropy, logits_op};
use tilecast::sim::execute::{Array, Data};
use tilecast::sim::interpretation::default_target;

use super::compare::Errors;
use super::tolerance::{BF16, SMALLEST, U};
use super::{Args, Checked, interpreter, machines};
use crate::cli::args::{Backend, Op};
use crate::cli::error::CliError;
use crate::cli::logits::inputs::{Inputs, declared};
use crate::cli::logits::solve::{Results, on_cpu, on_sim, widened};
use crate::cli::random::Random;

/// An op with its options.
#[derive(Clone, Copy, Debug)]
enum Options {
    LogitsCe(logits_ce::Options),
    Entropy(LogitsOptions),
    Grpo(grpo::Options),
}

/// One problem.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) name: &'static str,
    options: Options,
    /// `[B, V]`
    pub(super) shape: [usize; 2],
    /// `None`: those of the backend.
    pub(super) blocks: Option<[usize; 2]>,
    /// Standard deviation of the logits.
    pub(super) deviation: f64,
}

/// Fits no block and no vector, and is 9 sequences of 4.
const RAGGED: [usize; 2] = [36, 301];

/// Every case is run in f32 and bf16, on every instruction set and in the interpreter.
pub(super) fn cases(op: Op) -> Vec<Case> {
    let plain = LogitsOptions::default();
    let warm = LogitsOptions {
        temperature: 0.7,
        ..plain
    };
    let mut cases = match op {
        Op::LogitsCe => of_cross_entropy(warm),
        Op::Grpo | Op::LinearGrpo => of_policy(warm),
        _ => vec![
            ("plain", Options::Entropy(plain)),
            ("everything", Options::Entropy(warm)),
        ],
    };
    let (_, everything) = cases[1];
    let in_f32 = LogitsOptions {
        grad_dtype: Some(DType::F32),
        ..warm
    };
    cases.push(("f32 gradients", everything.with(in_f32)));
    let case = |(name, options)| Case {
        name,
        options,
        shape: RAGGED,
        blocks: None,
        deviation: 2.0,
    };
    let mut cases: Vec<Case> = cases.into_iter().map(case).collect();
    let everything = case(("", everything));
    for (name, shape, blocks, deviation) in [
        ("small blocks", RAGGED, Some([8, 48]), 2.0),
        ("blocks that are no vectors", RAGGED, Some([5, 11]), 2.0),
        (
            "blocks larger than the problem",
            [8, 13],
            Some([64, 64]),
            2.0,
        ),
        ("B=4 V=1", [4, 1], None, 2.0),
        ("wide vocabulary", [4, 5003], None, 2.0),
        ("large logits", RAGGED, None, 30.0),
    ] {
        cases.push(Case {
            name,
            shape,
            blocks,
            deviation,
            ..everything
        });
    }
    cases
}

fn of_cross_entropy(warm: LogitsOptions) -> Vec<(&'static str, Options)> {
    let plain = logits_ce::Options::default();
    let everything = logits_ce::Options {
        logits: warm,
        ignore_index: Some(-100),
        label_smoothing: 0.1,
        z_loss: 1e-2,
    };
    let temperature = logits_ce::Options {
        logits: warm,
        ..plain
    };
    let ignore = logits_ce::Options {
        ignore_index: Some(-100),
        ..plain
    };
    let smoothing = logits_ce::Options {
        label_smoothing: 0.1,
        ..plain
    };
    let z_loss = logits_ce::Options {
        z_loss: 1e-2,
        ..plain
    };
    [
        ("plain", plain),
        ("everything", everything),
        ("temperature", temperature),
        ("ignored tokens", ignore),
        ("label smoothing", smoothing),
        ("z-loss", z_loss),
    ]
    .map(|(name, options)| (name, Options::LogitsCe(options)))
    .into()
}

fn of_policy(warm: LogitsOptions) -> Vec<(&'static str, Options)> {
    let plain = grpo::Options::default();
    let everything = grpo::Options {
        logits: warm,
        clip_high: 0.28,
        clip_two_sided: Some(1.9),
        kl_beta: 0.1,
        mask: true,
        sequence_length: Some(4),
        ..plain
    };
    let mut cases = vec![("plain", plain), ("everything", everything)];
    for variant in Variant::ALL {
        let clip_high = match variant {
            Variant::Cispo => 1.3,
            _ => everything.clip_high,
        };
        let options = grpo::Options {
            variant,
            clip_high,
            ..everything
        };
        cases.push((variant.name(), options));
    }
    cases.extend([
        (
            "ratio per sequence",
            grpo::Options {
                ratio: Ratio::Sequence,
                ..everything
            },
        ),
        (
            "on policy",
            grpo::Options {
                old_logp: false,
                ..everything
            },
        ),
        (
            "per token",
            grpo::Options {
                per_token: true,
                ..everything
            },
        ),
        (
            "part of a batch",
            grpo::Options {
                tokens_in_batch: Some(77.0),
                ..everything
            },
        ),
    ]);
    let policy = |(name, options)| (name, Options::Grpo(options));
    cases.into_iter().map(policy).collect()
}

impl Options {
    fn with(self, logits: LogitsOptions) -> Self {
        match self {
            Self::LogitsCe(options) => Self::LogitsCe(logits_ce::Options { logits, ..options }),
            Self::Entropy(_) => Self::Entropy(logits),
            Self::Grpo(options) => Self::Grpo(grpo::Options { logits, ..options }),
        }
    }
}

impl Case {
    pub(super) fn op(&self, dtype: DType) -> Result<LogitsOp, LogitsError> {
        let [b, v] = self.shape;
        Ok(match self.options {
            Options::LogitsCe(options) => LogitsOp::LogitsCe(LogitsCe::new(b, v, dtype, options)?),
            Options::Entropy(options) => LogitsOp::Entropy(Entropy::new(b, v, dtype, options)?),
            Options::Grpo(options) => LogitsOp::Grpo(Grpo::new(b, v, dtype, options)?),
        })
    }

    /// The blocks that the case asks for, with sizes that are multiples of `whole`.
    fn schedule(&self, whole: usize) -> Option<Schedule> {
        let [b, v] = self.blocks?.map(|size| size.next_multiple_of(whole));
        let blocks = match whole {
            1 => Blocks::new(b, v),
            _ => Blocks::for_target(b, v, default_target()),
        };
        Some(Schedule::new(blocks))
    }

    /// Random inputs. Both types see the same draws, rounded.
    fn inputs(&self, dtype: DType, seed: u64) -> Result<Inputs, CliError> {
        let op = self.op(dtype)?;
        let [b, v] = self.shape;
        let mut random = Random::new(seed);
        let logits = (0..b * v).map(|_| self.deviation * random.normal());
        let logits: Data = match dtype {
            DType::Bf16 => logits.map(bf16::from_f64).collect::<Vec<_>>().into(),
            _ => logits.map(|x| x as f32).collect::<Vec<_>>().into(),
        };
        self.inputs_for(op, logits, &mut random)
    }

    /// Random inputs beside given logits.
    pub(super) fn inputs_for(
        &self,
        op: LogitsOp,
        logits: Data,
        random: &mut Random,
    ) -> Result<Inputs, CliError> {
        let [b, v] = self.shape;
        let mut inputs = Inputs {
            op,
            arrays: vec![("logits", Array::new(logits, &self.shape)?)],
        };
        let labels = (0..b).map(|_| match self.options {
            Options::LogitsCe(options) if random.below(4) == 0 => options.ignore_index.unwrap_or(0),
            _ => random.below(v) as i32,
        });
        let labels: Vec<i32> = labels.collect();
        let read = declared(&op)?;
        for array in &read {
            let values: Data = match array.name {
                "logits" | "old_logp" | "ref_logp" => continue,
                "labels" => labels.clone().into(),
                name => {
                    let value = |_| match name {
                        "mask" => f32::from(random.below(4) != 0),
                        _ => random.normal() as f32,
                    };
                    let len = array.dims.iter().product();
                    (0..len).map(value).collect::<Vec<_>>().into()
                }
            };
            inputs
                .arrays
                .push((array.name, Array::new(values, &array.dims)?));
        }
        if let Options::Grpo(options) = self.options {
            let near = policies(&inputs, &options, random)?;
            let near = near.into_iter();
            inputs
                .arrays
                .extend(near.filter(|(name, _)| read.iter().any(|a| a.name == *name)));
        }
        Ok(inputs)
    }
}

/// Log-probabilities of the other policies, at distances that keep every ratio clear of its bounds.
fn policies(
    inputs: &Inputs,
    options: &grpo::Options,
    random: &mut Random,
) -> Result<Vec<(&'static str, Array)>, CliError> {
    let logits = inputs.op.logits();
    let plain = grpo::Options {
        old_logp: false,
        kl_beta: 0.0,
        ..*options
    };
    let op = Grpo::new(logits.tokens(), logits.vocab(), logits.dtype(), plain)?;
    let length = match options.ratio {
        Ratio::Token => 1,
        // A ratio is a mean: steps of a sequence are alike, so that some are clipped.
        Ratio::Sequence => op.sequence_length(),
    };
    let forward = reference::forward(&LogitsOp::Grpo(op), &widened(inputs));
    let logp = of_name(&forward, "logp");
    let reference = logp.iter().map(|p| (p + 0.4 * random.normal()) as f32);
    let reference: Vec<f32> = reference.collect();
    const STEPS: [f64; 6] = [-0.6, -0.1, 0.05, 0.11, 0.5, 0.95];
    let mut old = Vec::new();
    for sequence in logp.chunks(length) {
        let step = STEPS[random.below(STEPS.len())];
        let near = |p: &f64| (p - step + 0.004 * (2.0 * random.uniform() - 1.0)) as f32;
        old.extend(sequence.iter().map(near));
    }
    let dims = [logp.len()];
    Ok(vec![
        ("ref_logp", Array::new(reference, &dims)?),
        ("old_logp", Array::new(old, &dims)?),
    ])
}

/// Exact results, with what each element may be off by.
pub(super) struct Exact {
    values: Named,
    allowed: Named,
}

impl Exact {
    fn new(op: &LogitsOp, inputs: &logits_op::Inputs) -> Self {
        let mut values = reference::forward(op, inputs);
        let errors = rounding::errors(op, inputs, &[], &values);
        values.push(("d_logits", reference::backward(op, inputs)));
        let gradient = |name: &str| (name == "d_logits").then(|| op.logits().grad_dtype());
        Self::of(values, &errors, gradient)
    }

    /// From errors in units of the f32 roundoff; `gradient` is the type of those that are rounded to one of their own.
    pub(super) fn of(
        values: Named,
        errors: &Named,
        gradient: impl Fn(&str) -> Option<DType>,
    ) -> Self {
        let allowed = values.iter().map(|(name, values)| {
            let rounding = match gradient(name) {
                Some(DType::Bf16) => BF16,
                _ => U,
            };
            // What underflows may have had a logarithm of up to 105 as its factor.
            let allowed = |(error, value): (&f64, &f64)| {
                let error = error * U;
                error + rounding * (value.abs() + error) + 105.0 * SMALLEST
            };
            let errors = of_name(errors, name).iter();
            (*name, errors.zip(values).map(allowed).collect())
        });
        let allowed = allowed.collect();
        Self { values, allowed }
    }

    pub(super) fn compare(&self, results: &Results) -> Vec<(&'static str, Errors)> {
        let errors = self.values.iter().map(|(name, _)| {
            let mut all = results.forward.iter().chain(&results.gradients);
            let found = all.find(|(of, _)| of == name);
            let got = found.map_or_else(Vec::new, |(_, array)| array.to_f32());
            (*name, self.errors(name, &got))
        });
        errors.collect()
    }

    /// Of one result.
    pub(super) fn errors(&self, name: &str, got: &[f32]) -> Errors {
        Errors::of(
            got,
            of_name(&self.values, name),
            of_name(&self.allowed, name),
        )
    }
}

/// Runs a case on the backends that are asked for.
pub(super) fn check(
    args: &Args,
    case: &Case,
    dtype: DType,
    seed: u64,
) -> Result<Checked, CliError> {
    let inputs = case.inputs(dtype, seed)?;
    let op = &inputs.op;
    let wide = widened(&inputs);
    let exact = Exact::new(op, &wide);
    let [tokens, vocab] = case.shape;
    let mut found = Checked::new(case.name, dtype, &[("tokens", tokens), ("vocab", vocab)]);
    if args.backends.contains(&Backend::Cpu) {
        for (machine, cpu) in machines() {
            let chosen = || Schedule::for_cache(op.logits(), cpu.thread_count(), cpu.cache().bytes);
            let schedule = case.schedule(1).unwrap_or_else(chosen);
            let results = on_cpu(&inputs, &schedule, &cpu, true)?;
            found.add(&machine, exact.compare(&results));
        }
    }
    if args.backends.contains(&Backend::Sim) {
        let options = interpreter(seed);
        let lanes = default_target().lanes.value;
        let smallest = tilecast::sim::interpretation::logits::smallest_schedule(default_target());
        let schedule = case.schedule(lanes).unwrap_or(smallest);
        let results = on_sim(&inputs, &schedule, &options, true)?;
        found.add(Backend::Sim.name(), exact.compare(&results));
    }
    if args.backends.contains(&Backend::Reference) {
        let d_logits = of_name(&exact.values, "d_logits");
        found.differences = Some(Differences::new(op, &wide)?.errors(d_logits, seed));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_inputs_repeat() {
        for op in Op::ON_LOGITS {
            let cases = cases(op);
            for (i, case) in cases.iter().enumerate() {
                assert!(cases[..i].iter().all(|other| other.name != case.name));
                let inputs = |seed| case.inputs(DType::F32, seed).unwrap().arrays;
                assert_eq!(inputs(5), inputs(5), "{}", case.name);
                assert_ne!(inputs(5), inputs(6), "{}", case.name);
            }
        }
    }

    /// Results with one cotangent or option forgotten, compared as if nothing were.
    #[test]
    fn tolerances_are_tight_enough_to_notice_a_missing_term() {
        for op in Op::ON_LOGITS {
            let case = cases(op).into_iter().find(|case| case.name == "everything");
            for dtype in [DType::F32, DType::Bf16] {
                let inputs = case.unwrap().inputs(dtype, 3).unwrap();
                let (op, wide) = (inputs.op, widened(&inputs));
                let exact = Exact::new(&op, &wide);
                for (name, allowed) in &exact.allowed {
                    let values = of_name(&exact.values, name);
                    let got: Vec<f32> = values.iter().map(|&x| x as f32).collect();
                    assert!(Errors::of(&got, values, allowed).passed(), "{name}");
                }
                for output in op.differentiable() {
                    let mut wrong = wide.clone();
                    let cotangent = format!("d_{output}");
                    let vectors = wrong.vectors.iter_mut();
                    let found = vectors.filter(|(name, _)| *name == cotangent);
                    found.for_each(|(_, values)| values.fill(0.0));
                    let got = reference::backward(&op, &wrong);
                    let got: Vec<f32> = got.iter().map(|&x| x as f32).collect();
                    let values = of_name(&exact.values, "d_logits");
                    let errors = Errors::of(&got, values, of_name(&exact.allowed, "d_logits"));
                    assert!(!errors.passed(), "{op:?} without {cotangent}");
                }
            }
        }
    }
}
