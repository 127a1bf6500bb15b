//! [`Known`]: what is known of the kernels of an op that were judged before.
//!
//! Most kernels that a search judges differ in their grid and not in their code: chunks of another size,
//! or the next chunk. So a kernel is recorded and [read](Prepared) once for all grids with which it is the
//! same, and straight-line blocks that several kernels share are [scheduled](Memo) once.
//!
//! Modules are large, and memory that is taken anew costs as much time as reading one. So only the kernels that were
//! read last are kept, and a search judges what has the same blocks one after the other.

use std::collections::VecDeque;
use std::rc::Rc;

use tilecast_core::program::Kernel;
use tilecast_core::spec::{Buffer, KernelSpec};
use tilecast_tpu::lower::{F32Products, outline};

use crate::judge::JudgeError;
use crate::parts::Parts;
use crate::prepared::Prepared;
use crate::schedule::{Machine, Memo};

/// Kernels that are kept: all that there are of one size of blocks, with every strategy.
const KEPT: usize = 16;

/// The kernels of one op on a core of one target.
///
/// An op is one problem: what kernels do with the edges of arrays is the same for all of them, and all else that a body
/// does is in its spec.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) machine: Machine,
    pub(crate) blocks: Memo,
    products: F32Products,
    /// Those read last, the newest first.
    kernels: VecDeque<Family>,
    /// How many were read.
    read: usize,
}

/// Kernels that differ in bounds of their grids at most.
#[derive(Debug)]
struct Family {
    /// One of them.
    spec: KernelSpec,
    /// For each axis, whether another number of steps makes another kernel.
    sizes_read: Vec<bool>,
    recorded: Recorded,
    kernel: Rc<Prepared>,
}

/// What of a kernel was recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Recorded {
    Body,
    /// All but its body.
    Outline,
}

impl Known {
    /// Nothing yet.
    pub(crate) fn new(machine: Machine, products: F32Products) -> Self {
        Self {
            machine,
            blocks: Memo::default(),
            products,
            kernels: VecDeque::new(),
            read: 0,
        }
    }

    /// What the module of `kernel` says.
    ///
    /// # Errors
    /// A kernel that has no module, or one that is not understood.
    pub(crate) fn kernel(&mut self, kernel: &impl Kernel) -> Result<Rc<Prepared>, JudgeError> {
        let products = self.products;
        self.find(kernel.spec(), Recorded::Body, || {
            Ok(Parts::of(kernel, products)?)
        })
    }

    /// What a module says of a kernel of that spec without its body: what its windows and scratch take.
    ///
    /// # Errors
    /// As for [`Self::kernel`].
    pub(crate) fn outline(&mut self, spec: &KernelSpec) -> Result<Rc<Prepared>, JudgeError> {
        self.find(spec, Recorded::Outline, || {
            Ok((outline(spec).into(), vec![false; spec.grid().len()]))
        })
    }

    /// The kernel of that spec if it is known, else the one that `record` makes, with the axes whose sizes it reads.
    fn find(
        &mut self,
        spec: &KernelSpec,
        recorded: Recorded,
        record: impl FnOnce() -> Result<(Parts, Vec<bool>), JudgeError>,
    ) -> Result<Rc<Prepared>, JudgeError> {
        let is_it = |family: &&Family| family.recorded == recorded && family.has(spec);
        if let Some(family) = self.kernels.iter().find(is_it) {
            return Ok(family.kernel.clone());
        }
        let (parts, sizes_read) = record()?;
        let kernel = Rc::new(Prepared::new(parts, self.machine.target)?);
        self.read += 1;
        self.kernels.truncate(KEPT - 1);
        self.kernels.push_front(Family {
            spec: spec.clone(),
            sizes_read,
            recorded,
            kernel: kernel.clone(),
        });
        Ok(kernel)
    }
}

impl Family {
    /// Whether the kernel of `spec` is one of these.
    fn has(&self, spec: &KernelSpec) -> bool {
        let ours = &self.spec;
        let mut axes = ours.grid().iter().zip(spec.grid()).zip(&self.sizes_read);
        let mut buffers = ours.buffers().iter().zip(spec.buffers());
        ours.name() == spec.name()
            && ours.scalars() == spec.scalars()
            && ours.grid().len() == spec.grid().len()
            && ours.buffers().len() == spec.buffers().len()
            && axes.all(|((a, b), &is_read)| {
                let one = (a.size == 1) == (b.size == 1);
                a.semantics == b.semantics && if is_read { a.size == b.size } else { one }
            })
            && buffers.all(|(a, b)| is_alike(&a.buffer, &b.buffer))
    }
}

/// Whether two buffers are the same to a kernel, which does not see how far the array behind a window goes.
fn is_alike(a: &Buffer, b: &Buffer) -> bool {
    match (a, b) {
        (
            Buffer::Window {
                access,
                layout,
                operand,
            },
            Buffer::Window {
                access: other_access,
                layout: other_layout,
                operand: other,
            },
        ) => {
            (access, layout) == (other_access, other_layout)
                && (operand.dtype, operand.packed) == (other.dtype, other.packed)
                && (&operand.block, &operand.map) == (&other.block, &other.map)
        }
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use tilecast_core::DType;
    use tilecast_core::kernels::linear_ce::{LinearCe, Options, Strategy};
    use tilecast_core::program::Kernel;
    use tilecast_core::target::Target;

    use crate::grid::Scalars;
    use crate::judge::{JudgeError, cores};
    use crate::kernel::visit;
    use crate::op::Request;
    use crate::tune::Space;

    /// A problem on a target, and what is searched for it.
    fn searched(target: &str, vocab: usize) -> (Request<LinearCe>, Space) {
        let problem = LinearCe::new(2000, 512, vocab, DType::Bf16, Options::default()).unwrap();
        let target = Target::by_name(target).unwrap();
        let request = Request::new(problem, target, 1, None).unwrap();
        let space = Space::new(&request, [false, true], [None; 2], &Strategy::ALL);
        (request, space)
    }

    #[test]
    fn the_outline_of_a_kernel_takes_what_the_kernel_takes() {
        for (target, vocab) in [("v5e", 65536), ("v5p", 50000), ("v7x", 50000)] {
            let (request, space) = searched(target, vocab);
            let mut known = request.nothing_known();
            let cores = cores(known.machine.target);
            for &plan in space.backward.iter().take(25) {
                let program = request.backward_program(plan).unwrap();
                let compared = visit::<_, JudgeError>(program.steps(), [1, 1], &mut |launch, _| {
                    let kernels = [
                        known.kernel(&launch.kernel)?,
                        known.outline(launch.kernel.spec())?,
                    ];
                    let [whole, outline] = kernels.map(|kernel| {
                        let scalars = Scalars::of_first(launch);
                        let grid = kernel.grid(kernel.bounds(), &scalars, cores).unwrap();
                        let vmem = kernel.ledger(&grid, |_| false, None).unwrap();
                        (vmem, grid.steps(), grid.cores, grid.assumptions)
                    });
                    assert_eq!(outline, whole, "{target} {plan:?}");
                    Ok(())
                });
                compared.unwrap();
            }
        }
    }

    #[test]
    fn a_kernel_known_before_is_judged_as_if_it_were_new() {
        for (target, vocab) in [("v5e", 65536), ("v5p", 50000), ("v6e", 50000)] {
            let (request, space) = searched(target, vocab);
            let mut known = request.nothing_known();
            let mut read_alone = 0;
            // All chunk sizes of the same blocks follow each other.
            for &plan in space.backward.iter().skip(25).take(50) {
                let program = || request.backward_program(plan).unwrap();
                let mut alone = request.nothing_known();
                let again = request.judge(program(), &mut known).unwrap().kernels;
                let anew = request.judge(program(), &mut alone).unwrap().kernels;
                assert_eq!(again, anew, "{target} {plan:?}");
                read_alone += alone.read;
            }
            let read = known.read;
            assert!(read < read_alone, "{read} of {read_alone} kernels read");
        }
    }
}
