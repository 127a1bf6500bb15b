//! [`Case`]: what is computed, on which numbers, in which blocks.

use half::bf16;
use tilecast::{Blocks, DType, Options, Reduction, Schedule, Strategy};
use tilecast_core::kernels::linear_ce::{LinearCe, reference};

/// Every option at once.
pub fn everything() -> Options {
    Options {
        soft_cap: Some(6.0),
        z_loss: 1e-2,
        label_smoothing: 0.1,
        ignore_index: Some(-100),
        bias: true,
        weight: true,
        ..Options::default()
    }
}

/// A case of the suite. Its numbers follow from `seed`: the same case is the same everywhere.
#[derive(Clone, Debug)]
pub struct Case {
    /// Name in reports.
    pub name: &'static str,
    /// `[B, H, V]`
    pub shape: [usize; 3],
    /// Type of `x` and `w`.
    pub dtype: DType,
    /// Options of the op.
    pub options: Options,
    /// Start of the random numbers.
    pub seed: u64,
    /// Standard deviation of the logits.
    pub logit_scale: f32,
    /// How the op is cut up; `None` is the backend's own choice. The strategy in it is not used:
    /// every case runs with both.
    pub schedule: Option<Schedule>,
}

impl Case {
    /// Plain cross-entropy in f32.
    pub fn new(name: &'static str, shape: [usize; 3]) -> Self {
        Self {
            name,
            shape,
            dtype: DType::F32,
            options: Options::default(),
            seed: 1,
            logit_scale: 2.0,
            schedule: None,
        }
    }

    /// With bf16 inputs.
    pub fn bf16(self) -> Self {
        Self {
            dtype: DType::Bf16,
            ..self
        }
    }

    /// With these options.
    pub fn options(self, options: Options) -> Self {
        Self { options, ..self }
    }

    /// With this reduction.
    pub fn reduction(mut self, reduction: Reduction) -> Self {
        self.options.reduction = reduction;
        self
    }

    /// With logits of this standard deviation.
    pub fn logit_scale(self, logit_scale: f32) -> Self {
        Self {
            logit_scale,
            ..self
        }
    }

    /// In blocks `[b, h, v]`: chunks of two column blocks, at most two cores, no sub-tiles.
    pub fn blocks(self, [b, h, v]: [usize; 3]) -> Self {
        let blocks = Blocks { b, h, v };
        self.schedule(Schedule {
            chunk_columns: 2 * v,
            cores: 2,
            ..Schedule::plain(blocks, Strategy::Streaming)
        })
    }

    /// With this schedule.
    pub fn schedule(self, schedule: Schedule) -> Self {
        Self {
            schedule: Some(schedule),
            ..self
        }
    }

    /// With the schedule changed by `edit`.
    ///
    /// # Panics
    /// If the case has no schedule.
    pub fn edit_schedule(mut self, edit: impl FnOnce(&mut Schedule)) -> Self {
        edit(self.schedule.as_mut().expect("the case has a schedule"));
        self
    }

    /// The schedule with the strategy of a run.
    pub fn schedule_for(&self, strategy: Strategy) -> Option<Schedule> {
        self.schedule.map(|schedule| Schedule {
            strategy,
            ..schedule
        })
    }

    /// The op.
    ///
    /// # Panics
    /// If the op refuses the case.
    pub fn problem(&self) -> LinearCe {
        let [b, h, v] = self.shape;
        LinearCe::new(b, h, v, self.dtype, self.options)
            .unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    /// The numbers. `x`, `w` and `bias` have random signs; a quarter of the weights are 0 and a
    /// quarter of the labels ignored, where there are weights and an ignore index.
    pub fn data(&self) -> Data {
        let [b, h, v] = self.shape;
        let mut random = Random(self.seed);
        // A sum of h products of two uniform numbers has variance h / 9.
        let w_scale = 3.0 * self.logit_scale / (h as f32).sqrt();
        let round = |x: f32| round_to(self.dtype, x);
        let x = (0..b * h).map(|_| round(random.signed())).collect();
        let w = (0..h * v)
            .map(|_| round(random.signed() * w_scale))
            .collect();
        let bias = match self.options.bias {
            true => (0..v).map(|_| random.signed() * self.logit_scale).collect(),
            false => Vec::new(),
        };
        let labels = (0..b)
            .map(|_| match self.options.ignore_index {
                Some(index) if random.below(4) == 0 => index,
                _ => random.below(v) as i32,
            })
            .collect();
        let weight = match self.options.weight {
            true => (0..b)
                .map(|_| match random.below(4) {
                    0 => 0.0,
                    _ => 1.0 + random.signed(),
                })
                .collect(),
            false => Vec::new(),
        };
        let losses = match self.options.reduction {
            Reduction::None => b,
            _ => 1,
        };
        let d_loss = (0..losses).map(|_| 1.0 + 0.5 * random.signed()).collect();
        let d_lse = (0..b).map(|_| 0.5 * random.signed()).collect();
        Data {
            x,
            w,
            bias,
            labels,
            weight,
            d_loss,
            d_lse,
        }
    }
}

/// The numbers of a case, row-major. Those of type bf16 are widened, and exact.
#[derive(Clone, Debug)]
pub struct Data {
    /// `[B,H]`
    pub x: Vec<f32>,
    /// `[H,V]`
    pub w: Vec<f32>,
    /// `[V]`, or empty.
    pub bias: Vec<f32>,
    /// `[B]`
    pub labels: Vec<i32>,
    /// `[B]`, or empty.
    pub weight: Vec<f32>,
    /// `[B]`, or one number.
    pub d_loss: Vec<f32>,
    /// `[B]`
    pub d_lse: Vec<f32>,
}

impl Data {
    /// The inputs in f64.
    pub fn reference_inputs(&self) -> reference::Inputs {
        reference::Inputs {
            x: widen(&self.x),
            w: widen(&self.w),
            bias: widen(&self.bias),
            labels: self.labels.clone(),
            weight: widen(&self.weight),
        }
    }
}

/// The numbers in f64.
pub fn widen(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&x| f64::from(x)).collect()
}

/// `x` rounded to `dtype`.
pub fn round_to(dtype: DType, x: f32) -> f32 {
    match dtype {
        DType::Bf16 => bf16::from_f32(x).to_f32(),
        _ => x,
    }
}

/// SplitMix64 (Steele, Lea and Flood 2014).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `[-1, 1)`.
    pub(crate) fn signed(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
    }

    /// Uniform in `0..n`, nearly.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}
