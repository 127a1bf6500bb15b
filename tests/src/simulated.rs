//! The column of the simulator: the printed Mosaic text of every kernel, read back and interpreted.

use half::bf16;
use tilecast::{Blocks, DType, Options, Schedule, Strategy};
use tilecast_core::kernels::linear_ce::LinearCe;
use tilecast_sim::execute::{Array, ExecuteError, Options as Execute, program};

use crate::backend::{Backend, Outputs, held_delta};
use crate::case::{Case, Data};

/// Multiplications that are still quick to interpret: a second or two for the three products.
const PRODUCT_LIMIT: usize = 60_000_000;

/// The kernels as the TPU compiler gets them, interpreted.
///
/// A lane register has 128 elements, so blocks are raised to multiples of 128; the shape of a
/// case, and with it what its blocks overhang, stays.
#[derive(Clone, Copy, Debug)]
pub struct Simulated;

impl Simulated {
    /// The schedule of a case in blocks that a TPU can take.
    pub fn schedule(case: &Case, strategy: Strategy) -> Schedule {
        let whole = |n: usize| n.next_multiple_of(128);
        let raise = |Blocks { b, h, v }| Blocks {
            b: whole(b),
            h: whole(h),
            v: whole(v),
        };
        let Some(schedule) = case.schedule_for(strategy) else {
            let blocks = raise(Blocks { b: 1, h: 1, v: 1 });
            return Schedule {
                forward: blocks,
                backward: blocks,
                strategy,
                chunk_columns: 2 * blocks.v,
                cores: 2,
                rows_per_sub_tile: blocks.b,
            };
        };
        Schedule {
            forward: raise(schedule.forward),
            backward: raise(schedule.backward),
            chunk_columns: whole(schedule.chunk_columns),
            rows_per_sub_tile: whole(schedule.rows_per_sub_tile),
            ..schedule
        }
    }
}

impl Backend for Simulated {
    fn name(&self) -> String {
        "simulated".into()
    }

    fn skips(&self, case: &Case) -> Option<&'static str> {
        let schedule = Self::schedule(case, Strategy::Streaming);
        let sizes = [schedule.forward, schedule.backward].map(|Blocks { b, h, v }| {
            let blocks = [b, h, v].into_iter().zip(case.shape);
            let padded = blocks.map(|(block, size)| size.next_multiple_of(block));
            padded.product::<usize>()
        });
        let too_large = sizes.iter().any(|&size| size > PRODUCT_LIMIT);
        too_large.then_some("its padded products are too large to interpret")
    }

    fn run(&self, case: &Case, strategy: Strategy, data: &Data) -> Result<Outputs, String> {
        run(case, strategy, data).map_err(|error| error.to_string())
    }
}

fn run(
    case: &Case,
    strategy: Strategy,
    data: &Data,
) -> Result<Outputs, Box<dyn std::error::Error>> {
    let [b, h, v] = case.shape;
    let options = Options {
        delta_dtype: Some(case.delta_dtype()),
        ..case.options
    };
    let problem = LinearCe::new(b, h, v, case.dtype, options)?;
    let schedule = Simulated::schedule(case, strategy);
    let matrix = |values: &[f32], dims: [usize; 2]| -> Result<Array, ExecuteError> {
        match case.dtype {
            DType::Bf16 => {
                let values: Vec<bf16> = values.iter().map(|&x| bf16::from_f32(x)).collect();
                Array::new(values, &dims)
            }
            _ => Array::new(values.to_vec(), &dims),
        }
    };
    let vector = |values: &[f32]| Array::new(values.to_vec(), &[values.len()]);
    let mut arrays = vec![
        ("x", matrix(&data.x, [b, h])?),
        ("w", matrix(&data.w, [h, v])?),
        ("bias", vector(&data.bias)?),
        ("labels", Array::new(data.labels.clone(), &[b])?),
        ("weight", vector(&data.weight)?),
        ("d_loss", vector(&data.d_loss)?),
        ("d_lse", vector(&data.d_lse)?),
    ];
    let run = |arrays: &[(&'static str, Array)], kernels| {
        let inputs: Vec<_> = arrays.iter().map(|(name, array)| (*name, array)).collect();
        program(&kernels, &inputs, &Execute::default())
    };
    let forward = run(&arrays, problem.forward(&schedule)?)?;
    let lse = forward.iter().filter(|output| output.0 == "lse").cloned();
    arrays.extend(lse);
    let backward = run(&arrays, problem.backward(&schedule)?)?;
    let output = |name: &str| -> Vec<f32> {
        let mut outputs = forward.iter().chain(&backward);
        let found = outputs.find(|output| output.0 == name);
        found.map_or_else(Vec::new, |(_, array)| array.to_f32())
    };
    Ok(Outputs {
        loss: output("loss"),
        lse: output("lse"),
        dx: output("dx"),
        dw: output("dw"),
        dbias: output("dbias"),
        // The matrix unit rounds an f32 operand that meets one of bf16.
        delta: match case.dtype {
            DType::Bf16 => DType::Bf16,
            _ => held_delta(case, strategy),
        },
    })
}
