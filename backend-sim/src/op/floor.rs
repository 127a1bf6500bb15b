//! What a pass takes whatever its schedule: multiplications, the scalar code of its steps, and the array operations
//! around its kernels.

use std::convert::Infallible;

use tilecast_core::program::{ArrayId, Kernel, Program, Step};

use super::Request;
use crate::kernel::{self, core_bytes_per_s};
use crate::problem::Problem;
use crate::schedule::Machine;

impl<P: Problem> Request<P> {
    /// A time that no schedule of a pass undercuts, seconds: its multiplications at the rate of the
    /// matrix units, the scalar code of its grid steps, and the array operations around its kernels.
    /// `products` is the number of products over all of `x`, `w` and the logits.
    pub(crate) fn floor_s(&self, program: &Program<P::Kernel>, products: u32) -> f64 {
        self.floor_with_s(program, products, self.scalar_cycles(program).iter().sum())
    }

    /// The same of every pass with a kernel of `program`, whatever the scalar code of its others.
    pub(crate) fn floor_beside_others_s(&self, program: &Program<P::Kernel>, products: u32) -> f64 {
        let cycles = self.scalar_cycles(program);
        let least = cycles.into_iter().reduce(f64::min).unwrap_or(0.0);
        self.floor_with_s(program, products, least)
    }

    /// What the scalar code of the steps of each kernel takes.
    fn scalar_cycles(&self, program: &Program<P::Kernel>) -> Vec<f64> {
        let [fixed, moving, still, ..] = Machine::new(self.target).step_cycles;
        let window = moving.min(still);
        let mut of_kernels = Vec::new();
        let counted = kernel::visit(
            program.steps(),
            [1, 1],
            &mut |launch, [iterations, times]| {
                let spec = launch.kernel.spec();
                let cycles = fixed + window * spec.operands().count() as f64;
                of_kernels.push(cycles * (spec.steps() * iterations * times) as f64);
                Ok::<(), Infallible>(())
            },
        );
        counted.unwrap_or_else(|never| match never {});
        of_kernels
    }

    fn floor_with_s(&self, program: &Program<P::Kernel>, products: u32, scalar_cycles: f64) -> f64 {
        let target = self.target;
        let macs = self.device_problem.product_macs();
        let passes = f64::from(products) * self.product_passes() as f64;
        let rate = target.mxu_macs_per_cycle.value as f64;
        let cycles = passes * macs / rate + scalar_cycles;
        let cores = target.cores_per_device() as f64;
        self.array_s(program) + cycles / (cores * target.clock_hz.value)
    }

    /// Time of the array operations around kernels, seconds. All cores of a device share the work.
    pub(super) fn array_s(&self, program: &Program<P::Kernel>) -> f64 {
        let cores = self.target.cores_per_device();
        let bytes_per_s = core_bytes_per_s(self.target, cores as u64) * cores as f64;
        array_bytes(program, program.steps()) as f64 / bytes_per_s
    }
}

/// Bytes that the steps other than launches read and write.
pub(super) fn array_bytes<K: Kernel>(program: &Program<K>, steps: &[Step<K>]) -> u64 {
    let bytes = |id: ArrayId| program.arrays()[id.index()].bytes();
    (steps.iter())
        .map(|step| match step {
            Step::Launch(_) => 0,
            Step::Loop { count, body } => *count as u64 * array_bytes(program, body),
            Step::Map { to, value } => {
                let mut leaves = Vec::new();
                value.for_each_leaf(&mut |&leaf| leaves.push(leaf));
                leaves.sort_unstable();
                leaves.dedup();
                bytes(*to) + leaves.into_iter().map(bytes).sum::<u64>()
            }
            // Of one core, in the type of the gradients: another shape of the same memory.
            Step::Gather { from, to } if is_reshape(program, *from, *to) => 0,
            Step::Total { from, to } | Step::Gather { from, to } => bytes(*from) + bytes(*to),
            Step::Visits { sizes, to, .. } => {
                bytes(*sizes) + to.iter().map(|&to| bytes(to)).sum::<u64>()
            }
        })
        .sum()
}

/// Whether `to` has the elements of `from` and their type, so that what makes one of the other moves nothing.
fn is_reshape<K: Kernel>(program: &Program<K>, from: ArrayId, to: ArrayId) -> bool {
    let [from, to] = [from, to].map(|id| &program.arrays()[id.index()]);
    from.dtype == to.dtype && from.bytes() == to.bytes()
}
