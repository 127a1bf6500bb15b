//! The columns of both passes in one program that stores the logits of a chunk of tokens.

use tilecast::{Cotangents, Schedule, Stored, Strategy};
use tilecast_sim::execute::{self, Array, Options};

use crate::backend::{Backend, OnCpu, Outputs, outputs, with_op};
use crate::case::{Case, Data};
use crate::simulated::{self, Simulated};

/// A column with the two passes in one.
#[derive(Clone, Copy, Debug)]
pub struct Storing<B>(pub B);

/// A stored delta is f32, as that of the combined backward pass.
const LIKE: Strategy = Strategy::Combined;

/// The blocks of the backward pass, and chunks of two row blocks.
fn stored(schedule: &Schedule) -> Stored {
    Stored {
        blocks: schedule.backward,
        chunk_rows: 2 * schedule.backward.b,
        rows_per_sub_tile: schedule.rows_per_sub_tile,
    }
}

/// A column that can run both passes in one program.
trait Stores: Backend {
    fn run_stored(&self, case: &Case, data: &Data) -> Result<Outputs, String>;
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
        self.0.run_stored(case, data)
    }
}

impl Stores for OnCpu {
    fn run_stored(&self, case: &Case, data: &Data) -> Result<Outputs, String> {
        let cpu = self.cpu()?;
        let schedule = case.schedule;
        let schedule =
            schedule.unwrap_or_else(|| Schedule::for_cache(case.problem().head(), &cpu.cache()));
        with_op(case, LIKE, data, |op| {
            let cotangents = Cotangents {
                d_loss: Some(&data.d_loss),
                d_lse: Some(&data.d_lse),
            };
            let both = op.on(cpu).stored(stored(&schedule));
            let found = both.forward_and_backward(cotangents);
            let delta = tilecast::DType::F32;
            outputs(case, found.map_err(|error| error.to_string())?, delta)
        })
    }
}

impl Stores for Simulated {
    fn run_stored(&self, case: &Case, data: &Data) -> Result<Outputs, String> {
        let run = || -> Result<_, Box<dyn std::error::Error>> {
            let problem = simulated::problem(case)?;
            let stored = stored(&Self::schedule(case, LIKE));
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
