//! The columns of both passes in one program that stores logits.

use tilecast::{Cotangents, DType, Kept, Schedule, Stored, Strategy};
use tilecast_sim::execute::{self, Array, Options};

use crate::backend::{Backend, OnCpu, Outputs, outputs, with_op};
use crate::case::{Case, Data};
use crate::simulated::{self, Simulated};

/// A column with the two passes in one.
#[derive(Clone, Copy, Debug)]
pub struct Storing<B>(pub B);

/// Delta of a chunk of rows is f32, as that of the combined backward pass.
const LIKE: Strategy = Strategy::Combined;

/// In the blocks of the backward pass: logits of chunks of two row blocks, and those of all where `dw` has place for them
/// and delta is held in the same type.
fn stored(case: &Case, schedule: &Schedule) -> Vec<Stored> {
    let blocks = schedule.backward;
    let chunk_rows = 2 * blocks.b;
    let chunk_columns = schedule.chunk_columns;
    let in_dw =
        Stored::fits_in_dw(case.problem().head(), blocks) && case.delta_dtype() == DType::F32;
    let in_dw = in_dw.then_some(Kept::InDw { chunk_columns });
    let kept = [Some(Kept::Rows { chunk_rows }), in_dw];
    let stored = kept.into_iter().flatten().map(|kept| Stored {
        blocks,
        kept,
        rows_per_sub_tile: schedule.rows_per_sub_tile,
    });
    stored.collect()
}

/// A column that can run both passes in one program.
trait Stores: Backend {
    /// The schedule whose backward pass is cut up in the same way.
    fn schedule(&self, case: &Case) -> Result<Schedule, String>;

    fn run_stored(&self, case: &Case, stored: Stored, data: &Data) -> Result<Outputs, String>;
}

impl<B: Stores> Backend for Storing<B> {
    fn name(&self) -> String {
        format!("{}, stored logits", self.0.name())
    }

    fn skips(&self, case: &Case) -> Option<&'static str> {
        self.0.skips(case)
    }

    fn strategies(&self) -> &'static [Strategy] {
        &[LIKE]
    }

    fn run(&self, case: &Case, _: Strategy, data: &Data) -> Result<Outputs, String> {
        let stored = stored(case, &self.0.schedule(case)?);
        let mut found = stored
            .iter()
            .map(|&stored| self.0.run_stored(case, stored, data));
        let first = found.next().expect("logits can be stored beside dw")?;
        for (other, stored) in found.zip(&stored[1..]) {
            if !other?.identical(&first) {
                return Err(format!("other numbers with {:?}", stored.kept));
            }
        }
        Ok(first)
    }
}

impl Stores for OnCpu {
    fn schedule(&self, case: &Case) -> Result<Schedule, String> {
        let chosen = || {
            Ok(Schedule::for_cache(
                case.problem().head(),
                &self.cpu()?.cache(),
            ))
        };
        case.schedule_for(LIKE).map_or_else(chosen, Ok)
    }

    fn run_stored(&self, case: &Case, stored: Stored, data: &Data) -> Result<Outputs, String> {
        let cpu = self.cpu()?;
        with_op(case, LIKE, data, |op| {
            let cotangents = Cotangents {
                d_loss: Some(&data.d_loss),
                d_lse: Some(&data.d_lse),
            };
            let both = op.on(cpu).stored(stored);
            let found = both.forward_and_backward(cotangents);
            outputs(case, found.map_err(|error| error.to_string())?, DType::F32)
        })
    }
}

impl Stores for Simulated {
    fn schedule(&self, case: &Case) -> Result<Schedule, String> {
        Ok(Self::schedule(case, LIKE))
    }

    fn run_stored(&self, case: &Case, stored: Stored, data: &Data) -> Result<Outputs, String> {
        let run = || -> Result<_, Box<dyn std::error::Error>> {
            let problem = simulated::problem(case)?;
            let program = problem.forward_and_backward_stored(&stored)?;
            let arrays = simulated::arrays(case, data)?;
            let named: Vec<(&str, &Array)> =
                arrays.iter().map(|(name, array)| (*name, array)).collect();
            let found = execute::program(&program, &named, &Options::default())?;
            Ok(simulated::outputs(&problem, &found, LIKE))
        };
        run().map_err(|error| error.to_string())
    }
}
