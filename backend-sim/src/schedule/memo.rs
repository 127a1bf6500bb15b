//! [`Memo`]: straight-line blocks that were scheduled before.
//!
//! The steps of a kernel share most of their blocks, and so do the kernels of a search: the sub-tiles of other row
//! blocks, other chunks, the passes with another strategy. What a block takes depends on its operations, on where in
//! memory they load and store, and on nothing else of the kernel, as long as none of its vectors leaves it. Blocks of
//! which that is so are found by a hash of all of that. Memories are told apart in it by the order in which a block
//! comes to them, for another kernel numbers them otherwise: logits are computed alike by all that have them.

use std::cell::RefCell;

use rustc_hash::FxHashMap;

use super::Region;

/// Blocks that were scheduled on one machine.
#[derive(Debug, Default)]
pub(crate) struct Memo {
    blocks: RefCell<FxHashMap<u64, Solved>>,
}

/// What is known of a block.
#[derive(Clone, Debug)]
pub(super) struct Solved {
    /// Its schedule; `None` if it takes no cycles.
    pub(super) region: Option<Region>,
    /// The memories that it reads, by their place among those that it loads and stores.
    pub(super) reads: Vec<usize>,
}

impl Memo {
    pub(super) fn get(&self, key: u64) -> Option<Solved> {
        self.blocks.borrow().get(&key).cloned()
    }

    pub(super) fn has(&self, key: u64) -> bool {
        self.blocks.borrow().contains_key(&key)
    }

    pub(super) fn insert(&self, key: u64, solved: Solved) {
        self.blocks.borrow_mut().insert(key, solved);
    }
}

#[cfg(test)]
mod tests {
    use tilecast_core::DType;
    use tilecast_core::kernels::linear_ce::{Blocks, LinearCe, Options, Schedule, Strategy};
    use tilecast_core::program::Kernel;
    use tilecast_core::target::Target;
    use tilecast_tpu::lower::{F32Products, lower};

    use super::super::{Code, Machine, schedule_grid};
    use super::*;
    use crate::grid::{Grid, Scalars};
    use crate::signature::Signature;

    #[test]
    fn what_is_remembered_is_what_would_be_made() {
        let target = Target::by_name("v5e").unwrap();
        let machine = Machine::new(target);
        let shared = Memo::default();
        let mut alone = 0;
        // Blocks of 512 rows begin with those of 256 and 128.
        for (b, h, v, vocab) in [
            (512, 256, 256, 2048),
            (256, 256, 256, 2048),
            (128, 256, 256, 2048),
            (256, 256, 256, 2000),
            (256, 512, 256, 2000),
        ] {
            let options = Options::default();
            let problem = LinearCe::new(1024, 1024, vocab, DType::Bf16, options).unwrap();
            for strategy in Strategy::ALL {
                let blocks = Blocks { b, h, v };
                let schedule = Schedule {
                    chunk_columns: 2 * v,
                    rows_per_sub_tile: 128,
                    ..Schedule::plain(blocks, strategy)
                };
                let forward = problem.forward(&schedule).unwrap();
                let backward = problem.backward(&schedule).unwrap();
                for (launch, _) in forward.launches().iter().chain(&backward.launches()) {
                    let module = lower(&launch.kernel, F32Products::default()).unwrap();
                    let signature = Signature::read(&module).unwrap();
                    let scalars = Scalars::default();
                    let grid = Grid::new(&module, &signature, &scalars, 1).unwrap();
                    let code = Code::of(&module, &signature, &machine);
                    let kernel = (&module, &signature, &code);
                    let made = |memo: &Memo| {
                        schedule_grid(kernel, &grid, &scalars, &machine, memo).unwrap()
                    };
                    let memo = Memo::default();
                    assert_eq!(
                        made(&shared),
                        made(&memo),
                        "{}",
                        launch.kernel.spec().name()
                    );
                    alone += memo.blocks.borrow().len();
                }
            }
        }
        let together = shared.blocks.borrow().len();
        assert!(together < alone / 2, "{together} blocks of {alone}");
    }
}
