//! The grid as a few kinds of steps.
//!
//! A grid has millions of steps and a handful of kinds: a kernel's conditions ask whether a grid
//! index is the first or the last of its axis, or how it compares with a scalar operand. So each axis
//! is cut at those points, and one step stands for all whose indices lie in the same intervals. That
//! is exact as long as conditions ask nothing else, which holds for every kernel of this library; a
//! condition that compares an index with a number in the middle of its axis would be seen only at
//! the start of an interval.
//!
//! The copies of windows follow from the same kinds: the pipeline fetches a block when its index
//! differs from that of the step before, and writes one back when the next step has another.

use tilecast_core::spec::{Access, Blocked, Buffer, KernelSpec, MapVariable, Semantics};

/// Steps of one kind.
#[derive(Clone, PartialEq, Debug)]
pub struct StepKind {
    /// A grid index of the kind.
    pub at: Vec<i64>,
    /// How many steps are of the kind.
    pub times: u64,
    /// Bytes of the windows fetched for such a step.
    pub fetched_bytes: u64,
    /// Bytes of the windows written back after it.
    pub written_bytes: u64,
}

/// Indices of an axis between two cuts.
#[derive(Clone, Copy)]
struct Interval {
    start: i64,
    len: u64,
    first: bool,
    last: bool,
}

/// Cores of a device that `spec` keeps busy, if there are `cores`: the outermost parallel axis with
/// more than one step is dealt to them.
pub fn busy_cores(spec: &KernelSpec, cores: usize) -> usize {
    split_axis(spec).map_or(1, |axis| {
        let size = spec.grid()[axis].size;
        size.div_ceil(size.div_ceil(cores))
    })
}

fn split_axis(spec: &KernelSpec) -> Option<usize> {
    (spec.grid().iter()).position(|axis| axis.semantics == Semantics::Parallel && axis.size > 1)
}

/// The kinds of steps of the first of `cores` cores, which has as many as any other.
pub fn kinds(spec: &KernelSpec, cores: usize, scalars: &[i64]) -> Vec<StepKind> {
    let split = split_axis(spec);
    let axes: Vec<Vec<Interval>> = (spec.grid().iter().enumerate())
        .map(|(i, axis)| {
            let size = axis.size as i64;
            let end = match split {
                Some(split) if split == i => axis.size.div_ceil(cores) as i64,
                _ => size,
            };
            intervals(size, end, scalars)
        })
        .collect();
    let windows = windows(spec);
    let mut kinds = Vec::new();
    let mut chosen = vec![0; axes.len()];
    loop {
        let step: Vec<Interval> = (axes.iter().zip(&chosen))
            .map(|(axis, &i)| axis[i])
            .collect();
        let bytes = |access| {
            let moved = windows.iter().filter(|window| window.access == access);
            moved
                .filter(|window| window.moves(&step))
                .map(|window| window.bytes)
                .sum()
        };
        kinds.push(StepKind {
            at: step.iter().map(|interval| interval.start).collect(),
            times: step.iter().map(|interval| interval.len).product(),
            fetched_bytes: bytes(Access::Input),
            written_bytes: bytes(Access::Output),
        });
        let Some(axis) = (0..axes.len())
            .rev()
            .find(|&i| chosen[i] + 1 < axes[i].len())
        else {
            return kinds;
        };
        chosen[axis] += 1;
        chosen[axis + 1..].fill(0);
    }
}

/// Cuts `0..end` after its first and before its last index, before the last of `0..size`, and at
/// every scalar.
fn intervals(size: i64, end: i64, scalars: &[i64]) -> Vec<Interval> {
    let mut cuts = vec![0, 1, end - 1, size - 1];
    cuts.extend(scalars);
    cuts.retain(|cut| (0..end).contains(cut));
    cuts.sort_unstable();
    cuts.dedup();
    (cuts.iter().enumerate())
        .map(|(i, &start)| {
            let next = cuts.get(i + 1).copied().unwrap_or(end);
            Interval {
                start,
                len: (next - start) as u64,
                first: start == 0,
                last: next == end && next - start == 1,
            }
        })
        .collect()
}

/// A window as its copies see it.
struct Window {
    access: Access,
    bytes: u64,
    /// Whether its block depends on each axis.
    depends: Vec<bool>,
}

impl Window {
    /// Whether an input is fetched for the step, or an output written back after it: some index that
    /// the block depends on was another one in the step before (after). Between two steps, one axis
    /// moves on and all inside it start over.
    fn moves(&self, step: &[Interval]) -> bool {
        let at_end = |interval: &Interval| match self.access {
            Access::Input => interval.first,
            Access::Output => interval.last,
        };
        let Some(moved) = step.iter().rposition(|interval| !at_end(interval)) else {
            return true;
        };
        let starts_over = |interval: &Interval| !(interval.first && interval.last);
        self.depends[moved]
            || (step.iter().zip(&self.depends).skip(moved + 1))
                .any(|(interval, &depends)| depends && starts_over(interval))
    }
}

fn windows(spec: &KernelSpec) -> Vec<Window> {
    let depends = |operand: &Blocked, axis: usize| {
        let on_axis = |v| matches!(v, MapVariable::Axis(a) if a.index() == axis);
        operand.map.iter().any(|index| index.depends_on(&on_axis))
    };
    (spec.buffers().iter())
        .filter_map(|named| match &named.buffer {
            Buffer::Window {
                access, operand, ..
            } => Some(Window {
                access: *access,
                bytes: operand.block_bytes(),
                depends: (0..spec.grid().len())
                    .map(|axis| depends(operand, axis))
                    .collect(),
            }),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilecast_core::DType;
    use tilecast_core::spec::SpecBuilder;

    fn spec([rows, columns, hidden]: [usize; 3]) -> KernelSpec {
        let mut spec = SpecBuilder::new("product");
        let i = spec.axis("rows", rows, Semantics::Parallel);
        let j = spec.axis("columns", columns, Semantics::Arbitrary);
        let k = spec.axis("hidden", hidden, Semantics::Arbitrary);
        let array = |a, b, map| Blocked::new(DType::F32, [8 * a, 8 * b], [8, 8], map);
        spec.input_tile("x", array(rows, hidden, [i.into(), k.into()]));
        spec.input_tile("w", array(hidden, columns, [k.into(), j.into()]));
        spec.output_tile("y", array(rows, columns, [i.into(), j.into()]));
        let labels = Blocked::new(DType::I32, [8 * rows], [8], [i.into()]);
        spec.input_rows("labels", labels);
        spec.build().unwrap()
    }

    #[test]
    fn kinds_add_up_to_the_grid_and_its_copies() {
        for size in 0..5_usize.pow(3) {
            let spec = spec([size / 25 + 1, size / 5 % 5 + 1, size % 5 + 1]);
            let kinds = kinds(&spec, 1, &[]);
            let total = |f: &dyn Fn(&StepKind) -> u64| -> u64 {
                kinds.iter().map(|kind| kind.times * f(kind)).sum()
            };
            assert_eq!(total(&|_| 1), spec.steps());
            let copied = |wanted| -> u64 {
                (spec.buffers().iter())
                    .filter_map(|named| match &named.buffer {
                        Buffer::Window {
                            access, operand, ..
                        } if *access == wanted => {
                            Some(spec.copies(operand) * operand.block_bytes())
                        }
                        _ => None,
                    })
                    .sum()
            };
            assert_eq!(total(&|kind| kind.fetched_bytes), copied(Access::Input));
            assert_eq!(total(&|kind| kind.written_bytes), copied(Access::Output));
        }
    }

    #[test]
    fn the_first_core_has_half_of_the_outermost_parallel_axis_rounded_up() {
        let spec = spec([5, 2, 3]);
        let steps: u64 = kinds(&spec, 2, &[]).iter().map(|kind| kind.times).sum();
        assert_eq!(steps, 3 * 2 * 3);
        assert_eq!(busy_cores(&spec, 2), 2);
        assert_eq!(busy_cores(&self::spec([1, 2, 3]), 2), 1);
    }

    #[test]
    fn an_axis_is_cut_at_the_scalars_that_lie_on_it() {
        let spec = spec([1, 1, 9]);
        let starts: Vec<i64> = kinds(&spec, 1, &[4, 20, -3])
            .iter()
            .map(|k| k.at[2])
            .collect();
        assert_eq!(starts, [0, 1, 4, 8]);
    }
}
