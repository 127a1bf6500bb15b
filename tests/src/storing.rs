//! The columns of both passes in one program that stores logits.

use tilecast::{Cotangents, InDw, Kept, Schedule, Stored, Strategy};
use tilecast_sim::execute::{self, Array, Options};

use crate::backend::{Backend, OnCpu, Outputs, held_delta, outputs, with_op};
use crate::case::{Case, Data};
use crate::simulated::{self, Simulated};

/// A column with the two passes in one.
#[derive(Clone, Copy, Debug)]
pub struct Storing<B> {
    /// What runs them.
    pub on: B,
    /// Where logits are stored.
    pub place: Place,
}

/// Where logits are stored, and what makes gradients of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Beside `dw`, those of chunks of two row blocks.
    Beside,
    /// Where `dw` will be; gradients by chunks of columns.
    InDw,
    /// In the same place; gradients by one kernel, of two cores.
    InDwByCores,
}

impl Place {
    /// Every place.
    pub const ALL: [Self; 3] = [Self::Beside, Self::InDw, Self::InDwByCores];
}

impl<B: Stores> Storing<B> {
    /// The strategy of the backward pass that holds delta as this does: that of a chunk of rows is f32.
    pub fn like(&self) -> &'static Strategy {
        match self.place {
            Place::Beside => &Strategy::Combined,
            Place::InDw | Place::InDwByCores => &Strategy::Streaming,
        }
    }

    fn stored(&self, case: &Case) -> Result<Stored, String> {
        let schedule = self.on.schedule(case, *self.like())?;
        let kept = match self.place {
            Place::Beside => Kept::Rows {
                chunk_rows: 2 * schedule.backward.b,
            },
            Place::InDw => Kept::InDw {
                chunk_columns: schedule.chunk_columns,
                dx: schedule.dx,
            },
            Place::InDwByCores => Kept::InDwByCores { cores: 2 },
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
        let place = match self.place {
            Place::Beside => "stored logits",
            Place::InDw => "stored logits in dw",
            Place::InDwByCores => "stored logits in dw by cores",
        };
        format!("{}, {place}", self.on.name())
    }

    fn skips(&self, case: &Case) -> Option<&'static str> {
        let fits = || -> Result<bool, String> {
            let blocks = self.stored(case)?.blocks;
            Ok(Stored::row_blocks_in_dw(case.problem().head(), blocks) > 0)
        };
        self.on.skips(case).or_else(|| {
            let has_no_place = self.place != Place::Beside && fits() != Ok(true);
            has_no_place.then_some("dw has no place for the logits")
        })
    }

    fn strategies(&self) -> &'static [Strategy] {
        std::slice::from_ref(self.like())
    }

    fn run(&self, case: &Case, like: Strategy, data: &Data) -> Result<Outputs, String> {
        let outputs = self.on.run_stored(case, self.stored(case)?, like, data)?;
        let stores = (self.place != Place::Beside).then(|| InDw::of(case.problem().head()));
        Ok(Outputs {
            delta_roundings: match stores.flatten() {
                Some(InDw::Exponentials) => 2,
                _ => 1,
            },
            ..outputs
        })
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
