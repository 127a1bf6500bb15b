//! The columns: everything that can run a case.

use half::bf16;
use tilecast::{
    Cotangents, Cpu, DType, Forward, Gradients, LinearCe, Matrix, Reduction, Schedule, Strategy,
    Values, linear_ce,
};
use tilecast_cpu::simd::{Arithmetic, Level, Simd};

use crate::case::{Case, Data, round_to};
use crate::simulated::Simulated;
use crate::storing::{Place, Storing};

/// Results of a forward and a backward pass, row-major and widened.
#[derive(Clone, PartialEq, Debug)]
pub struct Outputs {
    /// `[B]`, or one number.
    pub loss: Vec<f32>,
    /// `[B]`
    pub lse: Vec<f32>,
    /// `[B,H]`
    pub dx: Vec<f32>,
    /// `[H,V]`
    pub dw: Vec<f32>,
    /// `[V]`, or empty.
    pub dbias: Vec<f32>,
    /// The type in which delta met `x` and `w`.
    pub delta: DType,
    /// How often each element of delta was rounded to that type.
    pub delta_roundings: u8,
}

/// The type in which delta meets `x` and `w` where f32 operands are multiplied as they are.
pub fn held_delta(case: &Case, strategy: Strategy) -> DType {
    case.problem().head().held_delta(strategy)
}

impl Outputs {
    /// The arrays with their names.
    pub fn arrays(&self) -> [(&'static str, &[f32]); 5] {
        [
            ("loss", &self.loss),
            ("lse", &self.lse),
            ("dx", &self.dx),
            ("dw", &self.dw),
            ("dbias", &self.dbias),
        ]
    }

    /// Whether every array has the same bits.
    pub fn identical(&self, other: &Self) -> bool {
        let bits = |values: &[f32]| -> Vec<u32> { values.iter().map(|x| x.to_bits()).collect() };
        let arrays = self.arrays().into_iter().zip(other.arrays());
        arrays
            .into_iter()
            .all(|((_, a), (_, b))| bits(a) == bits(b))
    }
}

/// A column of the suite.
pub trait Backend {
    /// Name in reports.
    fn name(&self) -> String;

    /// Why it cannot run the case; `None` if it can.
    fn skips(&self, _case: &Case) -> Option<&'static str> {
        None
    }

    /// The strategies that it has for the backward pass.
    fn strategies(&self) -> &'static [Strategy] {
        &Strategy::ALL
    }

    /// Loss, logsumexp and gradients.
    ///
    /// # Errors
    /// What went wrong, in words.
    fn run(&self, case: &Case, strategy: Strategy, data: &Data) -> Result<Outputs, String>;
}

/// All columns: the naive evaluation in f32, the simulator on the printed Mosaic text, and the CPU at
/// every instruction set, on one thread and on several; simulator and CPU also with both passes in one, which
/// stores logits.
pub fn columns() -> Vec<Box<dyn Backend>> {
    let mut columns: Vec<Box<dyn Backend>> = vec![Box::new(Rounding), Box::new(Simulated)];
    for place in Place::ALL {
        let on = Simulated;
        columns.push(Box::new(Storing { on, place }));
    }
    for level in Level::ALL {
        for threads in [1, 3] {
            let cpu = OnCpu { level, threads };
            columns.push(Box::new(cpu));
            for place in Place::ALL {
                columns.push(Box::new(Storing { on: cpu, place }));
            }
        }
    }
    columns
}

/// The CPU backend through the library's front door, with temporaries poisoned.
#[derive(Clone, Copy, Debug)]
pub struct OnCpu {
    /// Instruction set.
    pub level: Level,
    /// Number of threads.
    pub threads: usize,
}

impl OnCpu {
    /// The best instruction set, on `threads` threads.
    pub fn best(threads: usize) -> Self {
        Self {
            level: Simd::detect().level(),
            threads,
        }
    }

    /// The library's handle.
    ///
    /// # Errors
    /// The machine lacks the instruction set.
    pub fn cpu(&self) -> Result<Cpu, String> {
        let simd = Simd::with_level(self.level).ok_or("instruction set not available")?;
        let cpu = Cpu::new().simd(simd).threads(self.threads).poison(true);
        // Left alone, a machine whose f32 products are faster would never use the pairs.
        Ok(match self.level {
            Level::Avx512Bf16 | Level::Amx => cpu.arithmetic(Arithmetic::Bf16),
            _ => cpu,
        })
    }
}

impl Backend for OnCpu {
    fn name(&self) -> String {
        format!("cpu-{}-{}-threads", self.level, self.threads)
    }

    fn skips(&self, _case: &Case) -> Option<&'static str> {
        match Simd::with_level(self.level) {
            Some(_) => None,
            None => Some("this machine does not have the instruction set"),
        }
    }

    fn run(&self, case: &Case, strategy: Strategy, data: &Data) -> Result<Outputs, String> {
        let cpu = self.cpu()?;
        let mut case = case.clone();
        // Left alone, the library streams.
        if case.schedule.is_none() && strategy != Strategy::Streaming {
            case.schedule = Some(Schedule::for_cache(case.problem().head(), &cpu.cache()));
        }
        with_op(&case, strategy, data, |op| {
            let op = op.on(cpu);
            let forward = op.forward().map_err(|error| error.to_string())?;
            let cotangents = Cotangents {
                d_loss: Some(&data.d_loss),
                d_lse: Some(&data.d_lse),
            };
            let gradients = op
                .backward(&forward.lse, cotangents)
                .map_err(|error| error.to_string())?;
            outputs(&case, (forward, gradients), held_delta(&case, strategy))
        })
    }
}

/// What both passes of a case returned, with a delta held in type `delta`.
///
/// # Errors
/// A gradient has another type than the case asks for.
pub fn outputs(
    case: &Case,
    (forward, gradients): (Forward, Gradients),
    delta: DType,
) -> Result<Outputs, String> {
    let dtype = case.problem().grad_dtype();
    for (name, gradient) in [("dx", &gradients.dx), ("dw", &gradients.dw)] {
        let got = match gradient {
            Values::F32(_) => DType::F32,
            Values::Bf16(_) => DType::Bf16,
        };
        if got != dtype {
            return Err(format!("{name} is {got}, not {dtype}"));
        }
    }
    Ok(Outputs {
        loss: forward.loss,
        lse: forward.lse,
        dx: gradients.dx.to_f32(),
        dw: gradients.dw.to_f32(),
        dbias: gradients.dbias.unwrap_or_default(),
        delta,
        delta_roundings: 1,
    })
}

/// Runs `body` on the op of a case, as a user would set it up.
///
/// # Errors
/// What `body` returns, or why the arrays are invalid.
pub fn with_op<R>(
    case: &Case,
    strategy: Strategy,
    data: &Data,
    body: impl FnOnce(LinearCe<'_>) -> Result<R, String>,
) -> Result<R, String> {
    let [b, h, v] = case.shape;
    let narrow = |values: &[f32]| values.iter().map(|&x| bf16::from_f32(x)).collect();
    let (x, w): (Vec<bf16>, Vec<bf16>);
    let (x, w) = match case.dtype {
        DType::Bf16 => {
            (x, w) = (narrow(&data.x), narrow(&data.w));
            (Matrix::new(&x[..], b, h), Matrix::new(&w[..], h, v))
        }
        _ => (
            Matrix::new(&data.x[..], b, h),
            Matrix::new(&data.w[..], h, v),
        ),
    };
    let (x, w) = (x.map_err(|e| e.to_string())?, w.map_err(|e| e.to_string())?);
    body(with_options(
        linear_ce(x, w, &data.labels),
        case,
        strategy,
        data,
    ))
}

/// Sets every option of a case.
pub fn with_options<'a>(
    op: LinearCe<'a>,
    case: &Case,
    strategy: Strategy,
    data: &'a Data,
) -> LinearCe<'a> {
    let options = &case.options;
    let mut op = op
        .z_loss(options.z_loss)
        .label_smoothing(options.label_smoothing)
        .reduction(options.reduction);
    if let Some(cap) = options.soft_cap {
        op = op.soft_cap(cap);
    }
    if let Some(index) = options.ignore_index {
        op = op.ignore_index(index);
    }
    if let Some(dtype) = options.grad_dtype {
        op = op.grad_dtype(dtype);
    }
    if let Some(dtype) = options.delta_dtype {
        op = op.delta_dtype(dtype);
    }
    if options.bias {
        op = op.bias(&data.bias);
    }
    if options.weight {
        op = op.weight(&data.weight);
    }
    if let Some(schedule) = case.schedule_for(strategy) {
        op = op.schedule(schedule);
    }
    op
}

/// The formulas of the op in f32, one operation after the other, with every rounding that the op
/// prescribes and no other. It shows that the tolerances hold for an evaluation that shares no code
/// with any backend, and where a NaN or an infinity must go.
#[derive(Clone, Copy, Debug)]
pub struct Rounding;

impl Backend for Rounding {
    fn name(&self) -> String {
        "rounding".into()
    }

    fn run(&self, case: &Case, strategy: Strategy, data: &Data) -> Result<Outputs, String> {
        let [b, h, v] = case.shape;
        let options = &case.options;
        let share = token_share(case, data);
        let (mut loss, mut lse) = (vec![0.0; b], vec![0.0; b]);
        let mut dx = vec![0.0; b * h];
        let mut dw = vec![0.0; h * v];
        let mut dbias = vec![0.0; data.bias.len()];
        let held = held_delta(case, strategy);
        for i in 0..b {
            let z = logits(case, data, i);
            let max = z.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            lse[i] = max + z.iter().map(|z| (z - max).exp()).sum::<f32>().ln();
            let label = data.labels[i] as usize;
            let smoothing = options.label_smoothing;
            if share[i] != 0.0 {
                loss[i] = lse[i] - (1.0 - smoothing) * z[label];
                if smoothing > 0.0 {
                    loss[i] -= smoothing / v as f32 * z.iter().sum::<f32>();
                }
                if options.z_loss > 0.0 {
                    loss[i] += options.z_loss * lse[i] * lse[i];
                }
                loss[i] *= share[i];
            }
            let d_loss = data.d_loss[if data.d_loss.len() == 1 { 0 } else { i }];
            let (mut probability, mut g) = (data.d_lse[i], 0.0);
            if share[i] != 0.0 {
                g = d_loss * share[i];
                let through_lse = match options.z_loss {
                    0.0 => 1.0,
                    weight => 1.0 + 2.0 * weight * lse[i],
                };
                probability += g * through_lse;
            }
            let uniform = g * (smoothing / v as f32);
            // A row that does not count is 0, whatever its logits.
            let counts = probability != 0.0 || g != 0.0;
            for (column, &z) in z.iter().enumerate() {
                let mut delta = 0.0;
                if counts {
                    delta = probability * (z - lse[i]).exp() - uniform;
                    if column == label {
                        delta -= g * (1.0 - smoothing);
                    }
                    if let Some(cap) = options.soft_cap {
                        delta *= 1.0 - (z / cap) * (z / cap);
                    }
                }
                delta = round_to(held, delta);
                if options.bias {
                    dbias[column] += delta;
                }
                for k in 0..h {
                    dx[i * h + k] += delta * data.w[k * v + column];
                    dw[k * v + column] += delta * data.x[i * h + k];
                }
            }
        }
        if options.reduction != Reduction::None {
            loss = vec![loss.iter().map(|&x| f64::from(x)).sum::<f64>() as f32];
        }
        let dtype = case.problem().grad_dtype();
        for gradient in [&mut dx, &mut dw] {
            gradient.iter_mut().for_each(|x| *x = round_to(dtype, *x));
        }
        Ok(Outputs {
            loss,
            lse,
            dx,
            dw,
            dbias,
            delta: held,
            delta_roundings: 1,
        })
    }
}

fn token_share(case: &Case, data: &Data) -> Vec<f32> {
    let mut share: Vec<f32> = match data.weight.is_empty() {
        true => vec![1.0; data.labels.len()],
        false => data.weight.clone(),
    };
    for (share, &label) in share.iter_mut().zip(&data.labels) {
        if case.options.ignore_index == Some(label) {
            *share = 0.0;
        }
    }
    if case.options.reduction == Reduction::Mean {
        let sum: f32 = share.iter().sum();
        share.iter_mut().for_each(|share| {
            *share = if sum == 0.0 { 0.0 } else { *share / sum };
        });
    }
    share
}

fn logits(case: &Case, data: &Data, i: usize) -> Vec<f32> {
    let [_, h, v] = case.shape;
    let mut z = vec![0.0; v];
    for k in 0..h {
        let x = data.x[i * h + k];
        for (z, w) in z.iter_mut().zip(&data.w[k * v..]) {
            *z += x * w;
        }
    }
    for (z, bias) in z.iter_mut().zip(&data.bias) {
        *z += bias;
    }
    if let Some(cap) = case.options.soft_cap {
        z.iter_mut().for_each(|z| *z = cap * (*z / cap).tanh());
    }
    z
}
