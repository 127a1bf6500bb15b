//! What is checked: shapes and options as data, values drawn from a seed.

use half::bf16;
use tilecast::core::kernels::linear_ce::{HeadError, LinearCe};
use tilecast::{Blocks, DType, Options, Reduction, Schedule};

use crate::cli::inputs::{Floats, Inputs};
use crate::cli::random::Random;

/// What the results are differentiated for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ask {
    /// The sum of the losses.
    Loss,
    /// A random combination of losses.
    Losses,
    /// A random combination of losses and logsumexps.
    Both,
}

/// One problem.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) name: &'static str,
    /// `[B, H, V]`
    pub(super) shape: [usize; 3],
    /// `None`: those of the backend.
    blocks: Option<Blocks>,
    /// Columns of a streaming chunk, where a case wants several.
    chunk_columns: Option<usize>,
    options: Options,
    /// Share of the tokens that carry the ignored label.
    ignored: f64,
    /// Standard deviation of the logits.
    deviation: f64,
    ask: Ask,
}

/// Fits no block and no vector.
const RAGGED: [usize; 3] = [37, 53, 301];

const PLAIN: Options = Options {
    soft_cap: None,
    z_loss: 0.0,
    label_smoothing: 0.0,
    ignore_index: None,
    reduction: Reduction::None,
    bias: false,
    weight: false,
    grad_dtype: None,
    delta_dtype: None,
};

const IGNORE: Options = Options {
    ignore_index: Some(-100),
    ..PLAIN
};

const EVERYTHING: Options = Options {
    soft_cap: Some(8.0),
    z_loss: 1e-2,
    label_smoothing: 0.1,
    ignore_index: Some(-100),
    bias: true,
    weight: true,
    ..PLAIN
};

const fn mean(options: Options) -> Options {
    Options {
        reduction: Reduction::Mean,
        ..options
    }
}

const fn case(name: &'static str, shape: [usize; 3], options: Options) -> Case {
    Case {
        name,
        shape,
        blocks: None,
        chunk_columns: None,
        options,
        ignored: 0.0,
        deviation: 2.0,
        ask: Ask::Both,
    }
}

impl Case {
    const fn blocks(self, b: usize, h: usize, v: usize) -> Self {
        let blocks = Some(Blocks { b, h, v });
        let chunk_columns = Some(3 * v);
        Self {
            blocks,
            chunk_columns,
            ..self
        }
    }

    const fn ignoring(self, ignored: f64) -> Self {
        Self { ignored, ..self }
    }

    const fn asking(self, ask: Ask) -> Self {
        Self { ask, ..self }
    }

    const fn deviation(self, deviation: f64) -> Self {
        Self { deviation, ..self }
    }
}

/// Every case is run in f32 and bf16, with both strategies, on every instruction set and in the interpreter.
pub(super) const CASES: [Case; 28] = [
    case("plain", [32, 64, 256], PLAIN).asking(Ask::Loss),
    case("ragged", RAGGED, PLAIN).asking(Ask::Losses),
    case("ragged, small blocks", RAGGED, PLAIN).blocks(16, 16, 32),
    case("blocks that are no vectors", RAGGED, PLAIN).blocks(5, 7, 11),
    case("blocks larger than the problem", [7, 9, 13], PLAIN).blocks(64, 64, 64),
    case("one more than a block", [33, 65, 129], PLAIN).blocks(16, 32, 64),
    case("B=H=V=1", [1, 1, 1], PLAIN),
    case("V=1", [9, 17, 1], PLAIN),
    case("B=1", [1, 40, 70], PLAIN),
    case("H=1", [19, 1, 45], PLAIN),
    case("long and thin", [211, 8, 24], PLAIN),
    case("wide vocabulary", [3, 16, 2003], PLAIN),
    case("wide hidden", [5, 1009, 30], PLAIN),
    case("large logits", RAGGED, PLAIN).deviation(30.0),
    case(
        "soft cap",
        RAGGED,
        Options {
            soft_cap: Some(4.0),
            ..PLAIN
        },
    ),
    case(
        "z-loss",
        RAGGED,
        Options {
            z_loss: 1e-2,
            ..PLAIN
        },
    ),
    case(
        "label smoothing",
        RAGGED,
        Options {
            label_smoothing: 0.1,
            ..PLAIN
        },
    ),
    case(
        "bias",
        RAGGED,
        Options {
            bias: true,
            ..PLAIN
        },
    ),
    case(
        "weight",
        RAGGED,
        Options {
            weight: true,
            ..PLAIN
        },
    ),
    case("ignored tokens", RAGGED, IGNORE).ignoring(0.3),
    case("ignored tokens, mean", RAGGED, mean(IGNORE)).ignoring(0.3),
    case("all tokens ignored, mean", RAGGED, mean(IGNORE)).ignoring(1.0),
    case(
        "sum",
        RAGGED,
        Options {
            reduction: Reduction::Sum,
            ..PLAIN
        },
    ),
    case(
        "f32 gradients",
        RAGGED,
        Options {
            grad_dtype: Some(DType::F32),
            ..PLAIN
        },
    ),
    case(
        "f32 delta",
        RAGGED,
        Options {
            delta_dtype: Some(DType::F32),
            ..PLAIN
        },
    ),
    case("everything", RAGGED, EVERYTHING).ignoring(0.2),
    case("everything, small blocks", RAGGED, EVERYTHING)
        .ignoring(0.2)
        .blocks(8, 16, 48),
    case("everything, mean", RAGGED, mean(EVERYTHING)).ignoring(0.2),
];

impl Case {
    /// The schedule, with the sizes that the case asks for.
    pub(super) fn cut(&self, schedule: Schedule) -> Schedule {
        Schedule {
            chunk_columns: self.chunk_columns.unwrap_or(schedule.chunk_columns),
            ..schedule.in_blocks(self.blocks, self.blocks)
        }
    }

    /// Random inputs of the case. Both types see the same draws, rounded.
    pub(super) fn inputs(&self, dtype: DType, seed: u64) -> Result<Inputs, HeadError> {
        let [b, h, v] = self.shape;
        let problem = LinearCe::new(b, h, v, dtype, self.options)?;
        let mut random = Random::new(seed);
        let scale = self.deviation / (h as f64).sqrt();
        let x = floats(dtype, b * h, || random.normal());
        let w = floats(dtype, h * v, || scale * random.normal());
        let labels = (0..b).map(|_| match self.options.ignore_index {
            Some(index) if random.uniform() < self.ignored => index,
            _ => random.below(v) as i32,
        });
        let labels = labels.collect();
        let mut vector = |len: usize, value: &dyn Fn(&mut Random) -> f64| -> Vec<f32> {
            (0..len).map(|_| value(&mut random) as f32).collect()
        };
        let weight = (self.options.weight).then(|| vector(b, &weight));
        let bias = (self.options.bias).then(|| vector(v, &Random::normal));
        let losses = match self.options.reduction {
            Reduction::None => b,
            _ => 1,
        };
        let d_loss = (self.ask != Ask::Loss).then(|| vector(losses, &Random::normal));
        let d_lse = (self.ask == Ask::Both).then(|| vector(b, &Random::normal));
        Ok(Inputs {
            problem,
            x,
            w,
            labels,
            weight,
            bias,
            d_loss,
            d_lse,
        })
    }
}

/// Between a quarter and two, or, for one token in eight, 0.
fn weight(random: &mut Random) -> f64 {
    match random.below(8) {
        0 => 0.0,
        _ => 0.25 + 1.75 * random.uniform(),
    }
}

fn floats(dtype: DType, len: usize, mut value: impl FnMut() -> f64) -> Floats {
    let values = (0..len).map(|_| value());
    match dtype {
        DType::Bf16 => Floats::Bf16(values.map(bf16::from_f64).collect()),
        _ => Floats::F32(values.map(|x| x as f32).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_inputs_repeat() {
        for (i, case) in CASES.iter().enumerate() {
            assert!(CASES[..i].iter().all(|other| other.name != case.name));
            let inputs = |seed| case.inputs(DType::F32, seed).unwrap();
            assert_eq!(inputs(5).x, inputs(5).x);
            assert_ne!(inputs(5).x, inputs(6).x);
        }
    }
}
