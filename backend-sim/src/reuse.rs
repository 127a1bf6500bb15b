//! [`Schedules`]: schedules that were made before.
//!
//! Most kernels that a search judges differ in their grid and not in their code: chunks of another size,
//! or the next chunk. What a step does, and so its schedule, depends on the code and on the outcomes
//! of its conditions; the bounds of a grid are in neither. Then only the number of steps is new.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use tilecast_tpu::mosaic::{Module, Value};

use crate::grid::{Grid, Scalars, dependents};
use crate::schedule::{KernelSchedule, Machine, Memo, ScheduleError, schedule_grid};
use crate::signature::Signature;

/// The schedules of the kernels of one op on a core of one target.
///
/// An op is one problem: what kernels do with the edges of arrays is the same for all of them.
pub(crate) struct Schedules {
    pub(crate) machine: Machine,
    known: HashMap<Key, KernelSchedule>,
    blocks: Memo,
}

/// What a schedule depends on.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    /// Operations and shapes of the kernel; of numbers, only those that shape values.
    code: u64,
    /// Which values are known only at run time.
    varies: Vec<bool>,
    /// Which axes of the grid have several steps.
    axes: Vec<bool>,
    /// The outcomes of the conditions of each body.
    bodies: Vec<Vec<i64>>,
    /// Prefetched scalars, if a condition reads them that is the same for all steps.
    scalars: Vec<Option<Vec<i64>>>,
}

impl Schedules {
    pub(crate) fn new(machine: Machine) -> Self {
        Self {
            machine,
            known: HashMap::new(),
            blocks: Memo::default(),
        }
    }

    /// As [`schedule_grid`].
    ///
    /// # Errors
    /// Those of [`schedule_grid`].
    pub(crate) fn schedule(
        &mut self,
        module: &Module,
        signature: &Signature,
        grid: &Grid,
        scalars: &Scalars,
    ) -> Result<KernelSchedule, ScheduleError> {
        let key = Key::new(module, signature, grid, scalars);
        if let Some(known) = self.known.get(&key) {
            let mut schedule = known.clone();
            for (kind, body) in schedule.kinds.iter_mut().zip(&grid.bodies) {
                kind.times = body.times;
                kind.at.clone_from(&body.at);
            }
            return Ok(schedule);
        }
        let schedule = schedule_grid(
            module,
            &self.machine,
            signature,
            grid,
            scalars,
            &self.blocks,
        )?;
        self.known.insert(key, schedule.clone());
        Ok(schedule)
    }
}

impl Key {
    fn new(module: &Module, signature: &Signature, grid: &Grid, scalars: &Scalars) -> Self {
        let varies = signature.varies(module);
        let of_grid = dependents(module, signature.function, &signature.indices);
        let mut code = DefaultHasher::new();
        let mut by_scalars = false;
        module.walk(signature.function, &mut |op| {
            let name = module.op_name(op);
            name.hash(&mut code);
            let decides = |value: &Value| varies[value.index()] && !of_grid[value.index()];
            by_scalars |= match name {
                "scf.if" => module.operands(op).iter().any(decides),
                "scf.for" => module.operands(op).iter().take(3).any(decides),
                _ => false,
            };
            for value in module.operands(op) {
                value.index().hash(&mut code);
            }
            for &value in module.results(op) {
                module.value_kind(value).shape().hash(&mut code);
            }
        });
        if let Some(entry) = module.entry(signature.function, 0) {
            for &argument in module.arguments(entry) {
                module
                    .type_text(module.value_type(argument))
                    .hash(&mut code);
            }
        }
        Self {
            code: code.finish(),
            varies,
            axes: signature.bounds.iter().map(|&steps| steps > 1).collect(),
            bodies: grid
                .bodies
                .iter()
                .map(|body| body.outcomes.clone())
                .collect(),
            scalars: match by_scalars {
                true => scalars.prefetched.clone(),
                false => Vec::new(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use tilecast_core::DType;
    use tilecast_core::kernels::linear_ce::{LinearCe, Options, Strategy};
    use tilecast_core::target::Target;

    use super::*;
    use crate::op::Request;
    use crate::tune::Space;

    #[test]
    fn a_schedule_made_before_is_that_which_would_be_made() {
        for (target, vocab) in [("v5e", 65536), ("v5p", 50000), ("v6e", 50000)] {
            let problem = LinearCe::new(2000, 512, vocab, DType::Bf16, Options::default()).unwrap();
            let target = Target::by_name(target).unwrap();
            let request = Request::new(problem, target, 1, None).unwrap();
            let mut schedules = Schedules::new(Machine::new(target));
            let space = Space::new(&request, [false, true], [None; 2], &Strategy::ALL);
            let mut made_alone = 0;
            // All chunk sizes of the same blocks follow each other.
            for &plan in space.backward.iter().skip(25).take(50) {
                let program = || request.backward_program(plan).unwrap();
                let mut alone = Schedules::new(Machine::new(target));
                let again = request.judge(program(), &mut schedules).unwrap().kernels;
                let anew = request.judge(program(), &mut alone).unwrap().kernels;
                assert_eq!(again, anew, "{} {plan:?}", target.name);
                made_alone += alone.known.len();
            }
            let made = schedules.known.len();
            assert!(made < made_alone, "{made} of {made_alone} schedules made");
        }
    }
}
