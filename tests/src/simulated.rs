//! The column of the simulator: the printed Mosaic text of every kernel, read back and interpreted.

use half::bf16;
use tilecast::{DType, Schedule, Strategy};
use tilecast_core::kernels::linear_ce::LinearCe;
use tilecast_sim::execute::{Array, ExecuteError, Options as Execute};
use tilecast_sim::interpretation::{
    Interpretation, default_target, delta_operand_dtype, multiplications, raised, smallest_schedule,
};

use crate::backend::{Backend, Outputs};
use crate::case::{Case, Data};

/// Multiplications of all products that are still quick to interpret: a second or two.
const QUICK: u128 = 240_000_000;

/// The kernels as the TPU compiler gets them, interpreted.
///
/// A lane register has 128 elements, so blocks are raised to multiples of 128; the shape of a
/// case, and with it what its blocks overhang, stays.
#[derive(Clone, Copy, Debug)]
pub struct Simulated;

impl Simulated {
    /// The schedule of a case in blocks that a TPU can take.
    pub fn schedule(case: &Case, strategy: Strategy) -> Schedule {
        match case.schedule_for(strategy) {
            Some(schedule) => raised(&schedule, default_target()),
            None => smallest_schedule(default_target(), strategy),
        }
    }
}

impl Backend for Simulated {
    fn name(&self) -> String {
        "simulated".into()
    }

    fn skips(&self, case: &Case) -> Option<&'static str> {
        let schedule = Self::schedule(case, Strategy::Streaming);
        let too_large = multiplications(case.problem().head(), &schedule, true) > QUICK;
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
    let problem = case.problem();
    let schedule = Simulated::schedule(case, strategy);
    let arrays = arrays(case, data)?;
    let kernels = Interpretation::new(&problem, &schedule, true)?;
    let options = Execute::default();
    let mut found = kernels.forward(&arrays, &options)?;
    found.extend(kernels.backward(&arrays, &found, &options)?);
    Ok(outputs(&problem, &found, strategy))
}

/// The inputs of both passes, by name.
pub(crate) fn arrays(case: &Case, data: &Data) -> Result<Vec<(&'static str, Array)>, ExecuteError> {
    let [b, h, v] = case.shape;
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
    Ok(vec![
        ("x", matrix(&data.x, [b, h])?),
        ("w", matrix(&data.w, [h, v])?),
        ("bias", vector(&data.bias)?),
        ("labels", Array::new(data.labels.clone(), &[b])?),
        ("weight", vector(&data.weight)?),
        ("d_loss", vector(&data.d_loss)?),
        ("d_lse", vector(&data.d_lse)?),
    ])
}

/// What was found, by name.
pub(crate) fn outputs(
    problem: &LinearCe,
    found: &[(&'static str, Array)],
    strategy: Strategy,
) -> Outputs {
    let output = |name: &str| -> Vec<f32> {
        let found = found.iter().find(|output| output.0 == name);
        found.map_or_else(Vec::new, |(_, array)| array.to_f32())
    };
    Outputs {
        loss: output("loss"),
        lse: output("lse"),
        dx: output("dx"),
        dw: output("dw"),
        dbias: output("dbias"),
        delta: delta_operand_dtype(problem.head(), strategy),
        delta_roundings: 1,
    }
}
