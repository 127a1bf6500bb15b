//! The columns of both passes in one program that stores logits.

use tilecast::{Cotangents, Kept, Schedule, Stored, Strategy};
use tilecast_sim::execute::{self, Array, Options};

use crate::backend::{Backend, OnCpu, Outputs, held_delta, outputs, with_op};
use crate::case::{Case, Data};
use crate::simulated::{self, Simulated};

/// A column with the two passes in one.
#[derive(Clone, Copy, Debug)]
pub struct Storing<B> {
    /// What runs them.
    pub on: B,
    /// Whether logits are stored where `dw` will be, or else those of chunks of two row blocks.
    pub in_dw: bool,
}

impl<B: Stores> Storing<B> {
    /// The strategy of the backward pass that holds delta as this does: that of a chunk of rows is f32.
    pub fn like(&self) -> &'static Strategy {
        match self.in_dw {
            true => &Strategy::Streaming,
            false => &Strategy::Combined,
        }
    }

    fn stored(&self, case: &Case) -> Result<Stored, String> {
        let schedule = self.on.schedule(case, *self.like())?;
        let kept = match self.in_dw {
            true => Kept::InDw {
                chunk_columns: schedule.chunk_columns,
                dx: schedule.dx,
            },
            false => Kept::Rows {
                chunk_rows: 2 * schedule.backward.b,
            },
        };
        Ok(Stored::like(&schedule, kept))
    }
}

/// A column that can run both passes in one program.
pub trait Stores: Backend {
    /// The schedule whose backward pass is cut up in the same way.
    ///
    /// # Errors
    /// The machine cannot run the column.
    fn schedule(&self, case: &Case, like: Strategy) -> Result<Schedule, String>;

    /// What both passes return.
    ///
    /// # Errors
    /// As for [`Backend::run`].
    fn run_stored(
        &self,
        case: &Case,
        stored: Stored,
        like: Strategy,
        data: &Data,
    ) -> Result<Outputs, String>;
}

impl<B: Stores> Backend for Storing<B> {
    fn name(&self) -> String {
        let place = match self.in_dw {
            true => "stored logits in dw",
            false => "stored logits",
        };
        format!("{}, {place}", self.on.name())
    }

    fn skips(&self, case: &Case) -> Option<&'static str> {
        let fits = || -> Result<bool, String> {
            let blocks = self.stored(case)?.blocks;
            Ok(Stored::row_blocks_in_dw(case.problem().head(), blocks) > 0)
        };
        self.on.skips(case).or_else(|| {
            let has_no_place = self.in_dw && fits() != Ok(true);
            has_no_place.then_some("dw has no place for the logits")
        })
    }

    fn strategies(&self) -> &'static [Strategy] {
        std::slice::from_ref(self.like())
    }

    fn run(&self, case: &Case, like: Strategy, data: &Data) -> Result<Outputs, String> {
        self.on.run_stored(case, self.stored(case)?, like, data)
    }
}

impl Stores for OnCpu {
    fn schedule(&self, case: &Case, like: Strategy) -> Result<Schedule, String> {
        let chosen = || {
            Ok(Schedule::for_cache(
                case.problem().head(),
                &self.cpu()?.cache(),
            ))
        };
        case.schedule_for(like).map_or_else(chosen, Ok)
    }

    fn run_stored(
        &self,
        case: &Case,
        stored: Stored,
        like: Strategy,
        data: &Data,
    ) -> Result<Outputs, String> {
        let cpu = self.cpu()?;
        with_op(case, like, data, |op| {
            let cotangents = Cotangents {
                d_loss: Some(&data.d_loss),
                d_lse: Some(&data.d_lse),
            };
            let both = op.on(cpu).stored(stored);
            let found = both.forward_and_backward(cotangents);
            let found = found.map_err(|error| error.to_string())?;
            outputs(case, found, held_delta(case, like))
        })
    }
}

impl Stores for Simulated {
    fn schedule(&self, case: &Case, like: Strategy) -> Result<Schedule, String> {
        Ok(Self::schedule(case, like))
    }

    fn run_stored(
        &self,
        case: &Case,
        stored: Stored,
        like: Strategy,
        data: &Data,
    ) -> Result<Outputs, String> {
        let run = || -> Result<_, Box<dyn std::error::Error>> {
            let problem = case.problem();
            let program = problem.forward_and_backward_stored(&stored)?;
            let arrays = simulated::arrays(case, data)?;
            let named: Vec<(&str, &Array)> =
                arrays.iter().map(|(name, array)| (*name, array)).collect();
            let found = execute::program(&program, &named, &Options::default())?;
            Ok(simulated::outputs(&problem, &found, like))
        };
        run().map_err(|error| error.to_string())
    }
}
