//! What specs, programs and the op accept and refuse, and in which words.

use proptest::prelude::*;
use tilecast_core::DType;
use tilecast_core::budget::{TermKind, VmemLedger};
use tilecast_core::expr::Expr;
use tilecast_core::kernels::linear_ce::{
    Blocks, HeadError, LinearCe, Options, Schedule, Strategy as Backward,
};
use tilecast_core::ops::TileOps;
use tilecast_core::program::{Kernel, Launch, Program, ProgramError, Role, Step};
use tilecast_core::spec::{
    AxisId, BlockIndex, Blocked, Buffer, KernelSpec, Semantics, SpecBuilder, SpecError,
};
use tilecast_core::target::{TARGETS, Target};

use Semantics::{Arbitrary, Parallel};

const F32: DType = DType::F32;

/// A spec called `k` with one axis.
fn with_axis(size: usize, semantics: Semantics) -> (SpecBuilder, AxisId) {
    let mut spec = SpecBuilder::new("k");
    let axis = spec.axis("i", size, semantics);
    (spec, axis)
}

/// What a spec with axis `i` of 4 arbitrary steps says of an input called `x`.
fn input(operand: impl FnOnce(AxisId) -> Blocked) -> Result<KernelSpec, SpecError> {
    let (mut spec, i) = with_axis(4, Arbitrary);
    spec.input_tile("x", operand(i));
    spec.build()
}

fn refused(result: Result<KernelSpec, SpecError>) -> String {
    result.unwrap_err().to_string()
}

// ---- specs ------------------------------------------------------------------------------------

#[test]
fn a_plain_matrix_product_is_accepted() {
    let mut spec = SpecBuilder::new("matmul");
    let i = spec.axis("i", 4, Parallel);
    let j = spec.axis("j", 3, Parallel);
    let k = spec.axis("k", 2, Arbitrary);
    let map = |a: AxisId, b: AxisId| [a.into(), b.into()];
    spec.input_tile("a", Blocked::new(F32, [32, 16], [8, 8], map(i, k)));
    spec.input_tile("b", Blocked::new(F32, [16, 24], [8, 8], map(k, j)));
    spec.output_tile("c", Blocked::new(F32, [32, 24], [8, 8], map(i, j)));
    let spec = spec.build().unwrap();
    assert_eq!((spec.name(), spec.steps()), ("matmul", 24));
    assert_eq!(spec.parallel_axes(), 2);
}

#[test]
fn a_spec_needs_neither_axes_nor_operands() {
    assert_eq!(SpecBuilder::new("k").build().unwrap().steps(), 1);
}

#[test]
fn zero_sizes_are_refused_by_name() {
    let empty = |what: &str| {
        format!("k: {what} has size 0; every grid axis, dimension and block needs at least 1")
    };
    assert_eq!(refused(with_axis(0, Arbitrary).0.build()), empty("i"));
    let dims = |dims, block| input(move |i| Blocked::new(F32, dims, block, [i.into(), 0.into()]));
    assert_eq!(refused(dims([0, 8], [8, 8])), empty("x"));
    assert_eq!(refused(dims([32, 8], [8, 0])), empty("x"));

    let mut spec = SpecBuilder::new("k");
    spec.scratch_tile("tile", F32, [0, 8]);
    assert_eq!(refused(spec.build()), empty("tile"));
    let mut spec = SpecBuilder::new("k");
    spec.scratch_rows("rows", 0);
    assert_eq!(refused(spec.build()), empty("rows"));
    let mut spec = SpecBuilder::new("k");
    spec.scratch_columns("columns", 0);
    assert_eq!(refused(spec.build()), empty("columns"));
    let mut spec = SpecBuilder::new("k");
    spec.stats("stats", 0, false);
    assert_eq!(refused(spec.build()), empty("stats"));
    let mut spec = SpecBuilder::new("k");
    spec.hbm("array", Blocked::by_copy(F32, [8, 0], [8, 8]));
    assert_eq!(refused(spec.build()), empty("array"));
}

#[test]
fn sizes_that_cannot_be_counted_are_refused() {
    let large = |what: &str| format!("k: the size of {what} exceeds 2^63 - 1; split the problem");
    let mut spec = SpecBuilder::new("k");
    spec.axis("i", 1 << 31, Arbitrary);
    spec.axis("j", 1 << 31, Arbitrary);
    assert_eq!(refused(spec.build()), large("grid"));
    assert_eq!(
        refused(with_axis(usize::MAX, Arbitrary).0.build()),
        large("grid")
    );
    let mut spec = SpecBuilder::new("k");
    spec.hbm("array", Blocked::by_copy(F32, [1 << 31, 1 << 30], [1, 1]));
    assert_eq!(refused(spec.build()), large("array"));
    let mut spec = SpecBuilder::new("k");
    spec.hbm("array", Blocked::by_copy(F32, [1 << 30, 1 << 30], [1, 1]));
    assert!(spec.build().is_ok());
}

#[test]
fn ranks_must_agree() {
    let rank = |dims, block, map| {
        format!(
            "k: operand x has {dims} dimensions, {block} block sizes and {map} block indices; they \
             must agree, a tile needs at least 2 and a vector exactly 1"
        )
    };
    let vector_as_tile = input(|i| Blocked::new(F32, [32], [8], [i.into()]));
    assert_eq!(refused(vector_as_tile), rank(1, 1, 1));
    let fewer_maps = input(|i| Blocked {
        map: vec![i.into()],
        ..Blocked::new(F32, [32, 8], [8, 8], [i.into(), 0.into()])
    });
    assert_eq!(refused(fewer_maps), rank(2, 2, 1));
    let more_blocks = input(|i| Blocked {
        block: vec![1, 8, 8],
        ..Blocked::new(F32, [32, 8], [8, 8], [i.into(), 0.into()])
    });
    assert_eq!(refused(more_blocks), rank(2, 3, 2));

    let matrix = || Blocked::new(F32, [1, 32], [1, 8], [0.into(), 0.into()]);
    let mut spec = SpecBuilder::new("k");
    spec.input_rows("x", matrix());
    assert_eq!(refused(spec.build()), rank(2, 2, 2));
    let mut spec = SpecBuilder::new("k");
    spec.input_columns("x", matrix());
    assert_eq!(refused(spec.build()), rank(2, 2, 2));
    let mut spec = SpecBuilder::new("k");
    spec.hbm("x", Blocked::by_copy(F32, [8], [8]));
    assert_eq!(refused(spec.build()), rank(1, 1, 0));
    let mut spec = SpecBuilder::new("k");
    spec.input_rows("x", Blocked::new(F32, [8], [8], [0.into()]));
    spec.input_columns("y", Blocked::new(F32, [8], [8], [0.into()]));
    assert!(spec.build().is_ok());
}

#[test]
fn leading_dimensions_have_blocks_of_one() {
    let block = |leading| {
        input(move |i| {
            let map = [i.into(), 0.into(), 0.into()];
            Blocked::new(F32, [4 * leading, 8, 8], [leading, 8, 8], map)
        })
    };
    assert!(block(1).is_ok());
    assert_eq!(
        refused(block(2)),
        "k: operand x has a block of 2 along leading dimension 0; only the last two dimensions may \
         have blocks larger than 1"
    );
}

#[test]
fn parallel_axes_come_first() {
    let build = |semantics: [Semantics; 3]| {
        let mut spec = SpecBuilder::new("k");
        for (name, semantics) in ["i", "j", "k"].into_iter().zip(semantics) {
            spec.axis(name, 2, semantics);
        }
        spec.build()
    };
    for accepted in [
        [Parallel; 3],
        [Parallel, Parallel, Arbitrary],
        [Arbitrary; 3],
    ] {
        assert!(build(accepted).is_ok());
    }
    assert_eq!(
        refused(build([Parallel, Arbitrary, Parallel])),
        "k: grid axis k is parallel but lies inside an arbitrary axis; parallel axes come first"
    );
}

#[test]
fn ragged_blocks_need_a_mask() {
    let operand = |i: AxisId| Blocked::new(F32, [30, 8], [8, 8], [i.into(), 0.into()]);
    assert_eq!(
        refused(input(operand)),
        "k: dimension 0 of x is 30, which its block 8 does not divide; choose a divisor, or declare \
         the operand masked and mask what the kernel reads there"
    );
    assert!(input(|i| operand(i).masked()).is_ok());
}

#[test]
fn index_maps_in_elements_are_named_as_such() {
    let offsets = input(|i| {
        let map = [0.into(), BlockIndex::from(i) * 128];
        Blocked::new(F32, [8, 512], [8, 128], map)
    });
    assert_eq!(
        refused(offsets),
        "k: the index map of x returns element offsets along dimension 1 (it reaches 384, a \
         multiple of the block size 128); it must return block indices, at most 3: divide by 128"
    );
    let indices = input(|i| Blocked::new(F32, [8, 512], [8, 128], [0.into(), i.into()]));
    assert!(indices.is_ok());
}

#[test]
fn index_maps_stay_inside_the_array() {
    let map = |index: fn(BlockIndex) -> BlockIndex| {
        input(move |i| Blocked::new(F32, [32, 8], [8, 8], [index(i.into()), 0.into()]))
    };
    let outside = |low, high| {
        format!(
            "k: the index map of x covers blocks {low} to {high} along dimension 0, but the array \
             has blocks 0 to 3"
        )
    };
    assert_eq!(refused(map(|i| i + 1)), outside(1, 4));
    assert_eq!(refused(map(|i| i + -1)), outside(-1, 2));
    assert_eq!(refused(map(|i| i * -1)), outside(-3, 0));
    assert!(map(|i| i * -1 + 3).is_ok());
    assert!(map(|i| (i + 1).at_most(3)).is_ok());
}

/// A map that depends on a scalar is known at launch only.
#[test]
fn maps_of_scalars_are_not_checked_before_launch() {
    let (mut spec, i) = with_axis(4, Arbitrary);
    let first = spec.scalars("first", 1);
    let map = [BlockIndex::from(i) + first.at(0), 0.into()];
    spec.input_tile("x", Blocked::new(F32, [8, 8], [8, 8], map));
    assert!(spec.build().is_ok());
}

#[test]
fn outputs_are_written_completely() {
    let output = |index: fn(BlockIndex) -> BlockIndex| {
        let (mut spec, i) = with_axis(3, Arbitrary);
        let map = [index(i.into()), 0.into()];
        spec.output_tile("y", Blocked::new(F32, [32, 8], [8, 8], map));
        spec.build()
    };
    assert_eq!(
        refused(output(|i| i)),
        "k: output y is written only at blocks 0 to 2 along dimension 0, of 0 to 3; the rest would \
         be undefined"
    );
    assert_eq!(
        refused(output(|i| i + 1)),
        "k: output y is written only at blocks 1 to 3 along dimension 0, of 0 to 3; the rest would \
         be undefined"
    );
}

#[test]
fn cores_do_not_share_output_blocks() {
    let build = |size, semantics| {
        let (mut spec, _) = with_axis(size, semantics);
        spec.output_tile("y", Blocked::new(F32, [8, 8], [8, 8], [0.into(), 0.into()]));
        spec.build()
    };
    assert_eq!(
        refused(build(2, Parallel)),
        "k: the index map of output y ignores the parallel axis i, so several cores would write the \
         same block; use the axis in the map or make it arbitrary"
    );
    assert!(build(2, Arbitrary).is_ok());
    assert!(build(1, Parallel).is_ok());
}

#[test]
fn output_blocks_are_not_visited_again() {
    let build = |inner_size| {
        let mut spec = SpecBuilder::new("k");
        spec.axis("sweep", 2, Arbitrary);
        let i = spec.axis("i", inner_size, Arbitrary);
        let dims = [8 * inner_size, 8];
        spec.output_tile("y", Blocked::new(F32, dims, [8, 8], [i.into(), 0.into()]));
        spec.build()
    };
    assert_eq!(
        refused(build(3)),
        "k: output y returns to a block after leaving it, because axis sweep is outside an axis its \
         index map uses; make sweep the innermost, or update the array by explicit copies"
    );
    assert!(build(1).is_ok());
}

#[test]
fn what_is_updated_is_what_is_read() {
    let build = |column: fn(AxisId) -> BlockIndex| {
        let (mut spec, i) = with_axis(2, Arbitrary);
        let operand = |column| Blocked::new(F32, [8, 16], [8, 8], [0.into(), column]);
        let before = spec.input_tile("before", operand(column(i)));
        let after = spec.output_tile("after", operand(i.into()));
        spec.alias(before, after);
        spec.build()
    };
    assert!(build(AxisId::into).is_ok());
    assert_eq!(
        refused(build(|_| 0.into())),
        "k: after updates before in place; both must have the same type, dimensions, block and index map"
    );
}

#[test]
fn blocks_follow_the_tiling_of_every_target() {
    for target in &TARGETS {
        let (lanes, sublanes) = (target.lanes.value, target.sublanes.value);
        let tile = |dims: [usize; 2], block: [usize; 2]| {
            let mut spec = SpecBuilder::new("k");
            let map = [0.into(), 0.into()];
            spec.input_tile("x", Blocked::new(F32, dims, block, map).masked());
            spec.build().unwrap().check_tiling(target)
        };
        let refused = |dim, block, multiple, size| {
            format!(
                "k: block {block} of x along dimension {dim} must be a multiple of {multiple} on \
                 {target}, or the whole dimension ({size})"
            )
        };
        assert_eq!(tile([1000, 1000], [sublanes, lanes]), Ok(()));
        assert_eq!(tile([1000, 1000], [3 * sublanes, 5 * lanes]), Ok(()));
        assert_eq!(tile([7, 100], [7, 100]), Ok(()), "whole dimensions");
        let columns = tile([1000, 1000], [sublanes, lanes + 1]).unwrap_err();
        assert_eq!(columns.to_string(), refused(1, lanes + 1, lanes, 1000));
        let rows = tile([1000, 1000], [sublanes / 2, lanes]).unwrap_err();
        assert_eq!(rows.to_string(), refused(0, sublanes / 2, sublanes, 1000));

        let vector = |block| {
            let mut spec = SpecBuilder::new("k");
            spec.input_rows("x", Blocked::new(F32, [1000], [block], [0.into()]).masked());
            spec.build().unwrap().check_tiling(target)
        };
        assert_eq!((vector(lanes), vector(1000)), (Ok(()), Ok(())));
        let error = vector(sublanes).unwrap_err();
        assert_eq!(error.to_string(), refused(0, sublanes, lanes, 1000));

        let mut spec = SpecBuilder::new("k");
        spec.hbm("x", Blocked::by_copy(F32, [64, lanes], [64, lanes / 2]));
        let error = spec.build().unwrap().check_tiling(target).unwrap_err();
        assert_eq!(error.to_string(), refused(1, lanes / 2, lanes, lanes));
    }
}

// ---- specs against enumeration ----------------------------------------------------------------

/// A grid and the block index along each dimension: a constant or an axis, scaled and shifted.
#[derive(Clone, Debug)]
struct Maps {
    grid: Vec<usize>,
    /// `(axis, factor, offset)`; an axis past the grid is none.
    dims: Vec<(usize, i64, i64)>,
}

fn maps() -> impl Strategy<Value = Maps> {
    (
        prop::collection::vec(1..=4_usize, 1..=4),
        prop::collection::vec((0..=5_usize, 1..=3_i64, 0..=2_i64), 2..=3),
    )
        .prop_map(|(grid, dims)| Maps { grid, dims })
}

impl Maps {
    /// The spec with an input `x` in blocks of 1, in an array large enough.
    fn spec(&self) -> KernelSpec {
        let mut spec = SpecBuilder::new("k");
        let axes: Vec<AxisId> = (self.grid.iter())
            .map(|&size| spec.axis("axis", size, Arbitrary))
            .collect();
        let index = |&(axis, factor, offset): &(usize, i64, i64)| match axes.get(axis) {
            Some(&axis) => BlockIndex::from(axis) * factor + offset,
            None => offset.into(),
        };
        let rank = self.dims.len();
        let operand = Blocked {
            dims: vec![12; rank],
            block: vec![1; rank],
            map: self.dims.iter().map(index).collect(),
            ..Blocked::new(F32, [12, 12], [1, 1], [0.into(), 0.into()])
        };
        spec.input_tile("x", operand);
        spec.build().unwrap()
    }
}

/// The block indices of an operand at every step, in order.
fn visits(spec: &KernelSpec, operand: &Blocked) -> Vec<Vec<i64>> {
    let at = |step: u64| {
        let mut rest = step;
        let mut point = vec![0; spec.grid().len()];
        for (i, axis) in spec.grid().iter().enumerate().rev() {
            point[i] = (rest % axis.size as u64) as i64;
            rest /= axis.size as u64;
        }
        let value = |variable| match variable {
            tilecast_core::spec::MapVariable::Axis(axis) => point[axis.index()],
            tilecast_core::spec::MapVariable::Scalar(..) => unreachable!("no scalars here"),
        };
        operand.map.iter().map(|i| i.evaluate(&value)).collect()
    };
    (0..spec.steps()).map(at).collect()
}

/// Number of runs of equal elements.
fn runs(visits: &[Vec<i64>]) -> u64 {
    let mut runs = visits.to_vec();
    runs.dedup();
    runs.len() as u64
}

fn first_operand(spec: &KernelSpec) -> &Blocked {
    spec.operands().next().unwrap().2
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn copies_are_the_runs_of_equal_indices(maps in maps()) {
        let spec = maps.spec();
        let operand = first_operand(&spec);
        let visits = visits(&spec, operand);
        prop_assert_eq!(spec.copies(operand), runs(&visits));
        prop_assert_eq!(spec.varies(operand), runs(&visits) > 1);
    }

    /// With one axis to a dimension and no factor, the checks say exactly what enumeration says.
    #[test]
    fn an_output_is_accepted_exactly_if_enumeration_agrees(
        grid in prop::collection::vec((1..=3_usize, any::<bool>()), 1..=4),
        axes in prop::sample::subsequence(vec![0, 1, 2, 3], 2),
        swap in any::<bool>(),
        spare in prop::sample::select(vec![0, 0, 0, 1]),
    ) {
        let mut spec = SpecBuilder::new("k");
        let parallel = grid.iter().take_while(|(_, parallel)| *parallel).count();
        let ids: Vec<AxisId> = grid.iter().enumerate().map(|(i, &(size, _))| {
            spec.axis("axis", size, if i < parallel { Parallel } else { Arbitrary })
        }).collect();
        let mut axes = axes;
        if swap { axes.reverse(); }
        let dims: Vec<usize> = axes.iter().map(|&a| grid.get(a).map_or(1, |g| g.0) + spare).collect();
        let map = axes.iter().map(|&a| ids.get(a).map_or(0.into(), |&id| id.into())).collect();
        let operand = Blocked {
            dims: dims.clone(),
            map,
            ..Blocked::new(F32, [1, 1], [1, 1], [0.into(), 0.into()])
        };
        spec.output_tile("y", operand.clone());
        let result = spec.build();

        // The same grid with an input in its place shows what happens at each step.
        let mut shadow = SpecBuilder::new("k");
        for (i, &(size, _)) in grid.iter().enumerate() {
            shadow.axis("axis", size, if i < parallel { Parallel } else { Arbitrary });
        }
        shadow.input_tile("y", operand.clone());
        let shadow = shadow.build().unwrap();
        prop_assert_eq!(result.is_ok(), output_is_sound(&shadow, first_operand(&shadow)));
    }
}

/// Every block is written, each in one run of steps, none by two points of the parallel axes.
fn output_is_sound(spec: &KernelSpec, operand: &Blocked) -> bool {
    let visits = visits(spec, operand);
    let distinct: std::collections::BTreeSet<_> = visits.iter().collect();
    let blocks: usize = operand.block_counts().product();
    let cores: usize = spec.grid()[..spec.parallel_axes()]
        .iter()
        .map(|axis| axis.size)
        .product();
    let each = visits.len() / cores;
    let by_core: usize = visits
        .chunks(each)
        .map(|visits| {
            visits
                .iter()
                .collect::<std::collections::BTreeSet<_>>()
                .len()
        })
        .sum();
    distinct.len() == blocks && runs(&visits) as usize == blocks && by_core == blocks
}

/// Where an index map clamps, `copies` is an upper bound.
#[test]
fn copies_bound_those_of_a_clamped_map() {
    let (mut spec, i) = with_axis(8, Arbitrary);
    let map = [BlockIndex::from(i).at_most(3), 0.into()];
    spec.input_tile("x", Blocked::new(F32, [4, 1], [1, 1], map));
    let spec = spec.build().unwrap();
    let operand = first_operand(&spec);
    assert_eq!(runs(&visits(&spec, operand)), 4);
    assert_eq!(spec.copies(operand), 8);
}

/// The index of a core's row block: `core * each + row`.
#[test]
fn copies_of_a_sum_of_axes() {
    let mut spec = SpecBuilder::new("k");
    let core = spec.axis("core", 2, Parallel);
    let row = spec.axis("row", 3, Arbitrary);
    spec.axis("column", 4, Arbitrary);
    let map = [BlockIndex::from(core) * 3 + BlockIndex::from(row), 0.into()];
    spec.input_tile("x", Blocked::new(F32, [6, 1], [1, 1], map));
    let spec = spec.build().unwrap();
    let operand = first_operand(&spec);
    assert_eq!(
        (spec.copies(operand), runs(&visits(&spec, operand))),
        (6, 6)
    );
}

/// A spec in hand is one whose outputs are written completely and by one core each.
mod outputs_with_uncommon_maps {
    use super::*;

    fn output(
        grid: &[(usize, Semantics)],
        dims: [usize; 2],
        map: impl FnOnce(&[AxisId]) -> [BlockIndex; 2],
    ) -> Result<KernelSpec, SpecError> {
        let mut spec = SpecBuilder::new("k");
        let axes: Vec<AxisId> = (grid.iter())
            .map(|&(size, semantics)| spec.axis("axis", size, semantics))
            .collect();
        spec.output_tile("y", Blocked::new(F32, dims, [1, 1], map(&axes)));
        spec.build()
    }

    #[test]
    fn every_other_block_is_not_all() {
        let map = |a: &[AxisId]| [BlockIndex::from(a[0]) * 2, 0.into()];
        let result = output(&[(2, Arbitrary)], [3, 1], map);
        assert!(result.is_err(), "block 1 of 0 to 2 is never written");
    }

    #[test]
    fn a_diagonal_is_not_all() {
        let result = output(&[(2, Arbitrary)], [2, 2], |a| [a[0].into(), a[0].into()]);
        assert!(
            result.is_err(),
            "blocks [0, 1] and [1, 0] are never written"
        );
    }

    #[test]
    fn a_clamp_lets_cores_share_a_block() {
        let map = |a: &[AxisId]| [BlockIndex::from(a[0]).at_most(1), 0.into()];
        let result = output(&[(4, Parallel)], [2, 1], map);
        assert!(result.is_err(), "steps 1 to 3 all write block 1");
    }

    #[test]
    fn a_sum_of_parallel_axes_lets_cores_share_a_block() {
        let map = |a: &[AxisId]| [BlockIndex::from(a[0]) + BlockIndex::from(a[1]), 0.into()];
        let result = output(&[(2, Parallel), (2, Parallel)], [3, 1], map);
        assert!(
            result.is_err(),
            "steps (0, 1) and (1, 0) both write block 1"
        );
    }

    #[test]
    fn a_sum_of_axes_may_return_to_a_block() {
        let map = |a: &[AxisId]| [BlockIndex::from(a[0]) + BlockIndex::from(a[1]), 0.into()];
        let result = output(&[(3, Arbitrary), (3, Arbitrary)], [5, 1], map);
        assert!(
            result.is_err(),
            "blocks 0, 1, 2, 1, 2, 3, ... in this order"
        );
    }

    #[test]
    fn a_row_block_of_a_core_is_accepted() {
        let map = |a: &[AxisId]| {
            let index = BlockIndex::from(a[0]) * 3 + BlockIndex::from(a[1]);
            [index, 0.into()]
        };
        assert!(output(&[(2, Parallel), (3, Arbitrary)], [6, 1], map).is_ok());
    }
}

// ---- programs ---------------------------------------------------------------------------------

/// Copies `x` to `y`.
#[derive(Clone, Debug)]
struct Copy {
    spec: KernelSpec,
}

impl Copy {
    fn new() -> Result<Self, ProgramError> {
        let (mut spec, i) = with_axis(4, Parallel);
        spec.scalars("first", 2);
        let operand = || Blocked::new(F32, [32, 8], [8, 8], [i.into(), 0.into()]);
        spec.input_tile("x", operand());
        spec.output_tile("y", operand());
        Ok(Self {
            spec: spec.build()?,
        })
    }
}

impl Kernel for Copy {
    fn spec(&self) -> &KernelSpec {
        &self.spec
    }

    fn body<T: TileOps>(&self, _t: &T) {}
}

/// What a program says of a launch of [`Copy`] on `x` and `y` of the given types and shapes.
fn launch(
    x: (DType, [usize; 2]),
    arrays: usize,
    scalars: usize,
    in_loop: bool,
) -> Result<(), ProgramError> {
    let mut program = Program::new("p");
    let x = program.array(Role::Input, "input", x.0, x.1);
    let y = program.array(Role::Output, "output", F32, [32, 8]);
    let launch = Step::Launch(Launch {
        kernel: Copy::new()?,
        operands: [x, y, y].into_iter().take(arrays).collect(),
        scalars: vec![0.into(); scalars],
    });
    let step = match in_loop {
        true => Step::Loop {
            count: 3,
            body: vec![launch],
        },
        false => launch,
    };
    program.push(step)?;
    assert_eq!(program.launches()[0].1, if in_loop { 3 } else { 1 });
    Ok(())
}

#[test]
fn launches_pass_what_the_spec_declares() {
    let x = (F32, [32, 8]);
    for in_loop in [false, true] {
        assert_eq!(launch(x, 2, 2, in_loop), Ok(()));
        let refused = |x, arrays, scalars| {
            let error = launch(x, arrays, scalars, in_loop).unwrap_err();
            error.to_string()
        };
        let count = |got| format!("k takes 4 arrays and scalars, {got} were passed");
        assert_eq!(refused(x, 1, 2), count(3));
        assert_eq!(refused(x, 3, 2), count(5));
        assert_eq!(refused(x, 2, 1), count(3));
        // One array for one scalar: the sum is right, the kinds are not.
        assert_eq!(refused(x, 3, 1), count(4));
        assert_eq!(
            refused((F32, [32, 9]), 2, 2),
            "k: operand x is f32[32, 8], array input is f32[32, 9]"
        );
        assert_eq!(
            refused((DType::Bf16, [32, 8]), 2, 2),
            "k: operand x is f32[32, 8], array input is bf16[32, 8]"
        );
    }
}

#[test]
fn an_invalid_spec_is_an_invalid_program_in_the_same_words() {
    let error = with_axis(0, Arbitrary).0.build().unwrap_err();
    let words = error.to_string();
    let program = ProgramError::from(error.clone());
    assert_eq!(program, ProgramError::Spec(error.clone()));
    assert_eq!(program.to_string(), words);
    let op = HeadError::from(error.clone());
    assert_eq!(op, HeadError::Program(ProgramError::Spec(error)));
    assert_eq!(op.to_string(), words);
}

#[test]
fn steps_without_launches_are_accepted() {
    let mut program = Program::<Copy>::new("p");
    let from = program.array(Role::Input, "from", F32, [4]);
    let to = program.array(Role::Output, "to", F32, [4]);
    let total = program.array(Role::Output, "total", F32, [1]);
    let value = Expr::from(from) * 2.0;
    program.push(Step::Map { to, value }).unwrap();
    program.push(Step::Total { from, to: total }).unwrap();
    program.push(Step::Gather { from, to }).unwrap();
    assert_eq!((program.steps().len(), program.launches().len()), (3, 0));
    assert_eq!(program.arrays()[from.index()].bytes(), 16);
}

// ---- the op -----------------------------------------------------------------------------------

fn op(shape: [usize; 3], dtype: DType, options: Options) -> Result<LinearCe, HeadError> {
    let [b, h, v] = shape;
    LinearCe::new(b, h, v, dtype, options)
}

fn op_refuses(shape: [usize; 3], dtype: DType, options: Options) -> String {
    op(shape, dtype, options).unwrap_err().to_string()
}

#[test]
fn empty_dimensions_are_refused() {
    for (shape, name) in [
        ([0, 1, 1], "tokens"),
        ([1, 0, 1], "hidden"),
        ([1, 1, 0], "vocab"),
    ] {
        assert_eq!(
            op_refuses(shape, F32, Options::default()),
            format!("{name} is 0; it must be at least 1")
        );
    }
    assert!(op([1, 1, 1], F32, Options::default()).is_ok());
}

#[test]
fn large_dimensions_are_refused_with_the_limit() {
    let most = i32::MAX as usize;
    for (shape, name) in [
        ([most + 1, 1, 1], "tokens"),
        ([1, most + 1, 1], "hidden"),
        ([1, 1, most + 1], "vocab"),
    ] {
        assert_eq!(
            op_refuses(shape, F32, Options::default()),
            format!("{name} is 2147483648, above the limit of 2147483647")
        );
    }
    assert!(op([most, 1, most], F32, Options::default()).is_ok());
    assert_eq!(
        op_refuses([most, most, 1], F32, Options::default()),
        "the size of x in bytes is 18446744056529682436, above the limit of 9223372036854775807"
    );
    assert_eq!(
        op_refuses([1, most, most], F32, Options::default()),
        "the size of w in bytes is 18446744056529682436, above the limit of 9223372036854775807"
    );
}

#[test]
fn types_are_f32_or_bf16() {
    let grad = |dtype| Options {
        grad_dtype: Some(dtype),
        ..Options::default()
    };
    assert_eq!(
        op_refuses([1, 1, 1], DType::I32, Options::default()),
        "x and w cannot be i32; use f32 or bf16"
    );
    assert_eq!(
        op_refuses([1, 1, 1], F32, grad(DType::Bf16)),
        "gradients cannot be bf16; use f32 or bf16 (bf16 only for bf16 inputs)"
    );
    assert_eq!(
        op_refuses([1, 1, 1], DType::Bf16, grad(DType::I32)),
        "gradients cannot be i32; use f32 or bf16 (bf16 only for bf16 inputs)"
    );
    for (inputs, gradients) in [(F32, F32), (DType::Bf16, F32), (DType::Bf16, DType::Bf16)] {
        let op = op([1, 1, 1], inputs, grad(gradients)).unwrap();
        assert_eq!(op.grad_dtype(), gradients);
    }
}

#[test]
fn options_have_ranges() {
    let refused = |options| op_refuses([1, 1, 1], F32, options);
    let accepted = |options| op([1, 1, 1], F32, options).is_ok();
    let cap = |cap| Options {
        soft_cap: Some(cap),
        ..Options::default()
    };
    for (value, shown) in [
        (0.0, "0"),
        (-1.5, "-1.5"),
        (f32::INFINITY, "inf"),
        (f32::NAN, "NaN"),
    ] {
        assert_eq!(
            refused(cap(value)),
            format!("soft cap is {shown}; it must be finite and at least 1.2e-38")
        );
    }
    assert!(accepted(cap(30.0)));
    let z_loss = |z_loss| Options {
        z_loss,
        ..Options::default()
    };
    for (value, shown) in [
        (-1e-4, "-0.0001"),
        (f32::INFINITY, "inf"),
        (f32::NAN, "NaN"),
    ] {
        assert_eq!(
            refused(z_loss(value)),
            format!("z-loss weight is {shown}; it must be finite and not negative")
        );
    }
    assert!(accepted(z_loss(0.0)) && accepted(z_loss(1e-4)));
    let smoothing = |label_smoothing| Options {
        label_smoothing,
        ..Options::default()
    };
    for (value, shown) in [(-0.1, "-0.1"), (1.5, "1.5"), (f32::NAN, "NaN")] {
        assert_eq!(
            refused(smoothing(value)),
            format!("label smoothing is {shown}; it must be in [0, 1]")
        );
    }
    assert!(accepted(smoothing(0.0)) && accepted(smoothing(1.0)));
}

#[test]
fn labels_are_columns_or_the_ignore_index() {
    let check = |ignore_index, labels: &[i64]| {
        let options = Options {
            ignore_index,
            ..Options::default()
        };
        let op = op([labels.len(), 1, 5], F32, options).unwrap();
        op.check_labels(labels.iter().copied())
    };
    assert_eq!(check(None, &[0, 4]), Ok(()));
    assert_eq!(check(Some(-1), &[0, -1, 4]), Ok(()));
    assert_eq!(check(Some(7), &[7]), Ok(()));
    let refused = |ignore_index, labels: &[i64]| {
        let error = check(ignore_index, labels).unwrap_err();
        error.to_string()
    };
    assert_eq!(
        refused(None, &[0, 5]),
        "label 5 of token 1 is outside 0..5 and no ignore index is set"
    );
    assert_eq!(
        refused(Some(-100), &[-100, 2, -1]),
        "label -1 of token 2 is outside 0..5 and is not the ignore index -100"
    );
    // An i64 label that wraps to the ignore index in i32.
    assert_eq!(
        refused(Some(-1), &[(1 << 32) - 1]),
        "label 4294967295 of token 0 is outside 0..5 and is not the ignore index -1"
    );
}

fn schedule([b, h, v]: [usize; 3]) -> Schedule {
    let blocks = Blocks { b, h, v };
    Schedule {
        forward: blocks,
        backward: blocks,
        strategy: Backward::Combined,
        chunk_columns: v,
        cores: 2,
        rows_per_sub_tile: b,
    }
}

#[test]
fn schedules_have_no_zeros_and_no_giants() {
    let op = op([4, 8, 16], F32, Options::default()).unwrap();
    type Part = fn(&mut Schedule) -> &mut usize;
    let edits: [(&str, Part); 9] = [
        ("forward block b", |s| &mut s.forward.b),
        ("forward block h", |s| &mut s.forward.h),
        ("forward block v", |s| &mut s.forward.v),
        ("backward block b", |s| &mut s.backward.b),
        ("backward block h", |s| &mut s.backward.h),
        ("backward block v", |s| &mut s.backward.v),
        ("chunk columns", |s| &mut s.chunk_columns),
        ("cores", |s| &mut s.cores),
        ("rows per sub-tile", |s| &mut s.rows_per_sub_tile),
    ];
    for (name, part) in edits {
        for (value, text) in [
            (
                0,
                format!("{name} is 0; block sizes, cores and chunks must be at least 1"),
            ),
            (
                1 << 31,
                format!("{name} is 2147483648, above the limit of 2147483647"),
            ),
        ] {
            let mut schedule = schedule([4, 8, 16]);
            *part(&mut schedule) = value;
            assert_eq!(op.forward(&schedule).unwrap_err().to_string(), text);
            assert_eq!(op.backward(&schedule).unwrap_err().to_string(), text);
        }
    }
    assert!(op.forward(&schedule([4, 8, 16])).is_ok());
    assert!(op.backward(&schedule([4, 8, 16])).is_ok());
}

/// Partial sums of `dw` for each of a billion cores: the op is valid, the kernel is not.
#[test]
fn what_a_spec_refuses_the_op_refuses() {
    let large = 1 << 30;
    let op = op([large, large, 64], F32, Options::default()).unwrap();
    let schedule = Schedule {
        cores: large,
        ..schedule([1, large, 64])
    };
    let error = op.backward(&schedule).unwrap_err();
    assert_eq!(
        error.to_string(),
        "linear_ce_combined: the size of dw exceeds 2^63 - 1; split the problem"
    );
    assert!(matches!(
        error,
        HeadError::Program(ProgramError::Spec(SpecError::TooLarge { what: "dw", .. }))
    ));
}

// ---- budgets ----------------------------------------------------------------------------------

fn forward_ledger(target: &str, blocks: [usize; 3]) -> VmemLedger {
    let op = op([65536, 512, 128_256], DType::Bf16, Options::default()).unwrap();
    let program = op.forward(&schedule(blocks)).unwrap();
    let spec = program.launches()[0].0.kernel.spec();
    VmemLedger::new(spec, Target::by_name(target).unwrap(), None).unwrap()
}

#[test]
fn logits_of_1024_by_4096_do_not_fit_a_v4_and_of_1024_by_1024_do() {
    let ledger = forward_ledger("v4", [1024, 512, 4096]);
    assert!(!ledger.fits());
    let largest = ledger.largest().unwrap();
    assert_eq!((largest.name, largest.kind), ("logits", TermKind::Scratch));
    assert_eq!(largest.bytes, 1024 * 4096 * 4);

    let ledger = forward_ledger("v4", [1024, 512, 1024]);
    assert!(
        ledger.fits(),
        "{} of {}",
        ledger.used_bytes(),
        ledger.limit_bytes
    );
    let terms: Vec<_> = (ledger.terms.iter())
        .map(|term| (term.name, term.bytes, term.buffers))
        .collect();
    let kib = |n: u64| n << 10;
    assert_eq!(
        terms,
        [
            // Windows, two buffers each: 1024 x 512 and 512 x 1024 of 2 bytes.
            ("x", kib(2048), 2),
            ("w", kib(2048), 2),
            ("logits", kib(4096), 1),
            // A row of 1024 words.
            ("labels", kib(8), 2),
            ("loss", kib(8), 2),
            ("lse", kib(8), 2),
            // One value across 128 lanes for each row; the logsumexp is a maximum and a sum.
            ("logsumexp", kib(1024), 2),
            ("label_logit", kib(512), 1),
        ]
    );
    assert_eq!(ledger.used_bytes(), kib(2 * 2048 + 4096 + 24 + 1536));
}

#[test]
fn a_larger_limit_counts_up_to_the_capacity() {
    let op = op([65536, 512, 128_256], DType::Bf16, Options::default()).unwrap();
    let program = op.forward(&schedule([1024, 512, 4096])).unwrap();
    let spec = program.launches()[0].0.kernel.spec();
    let target = Target::by_name("v5e").unwrap();
    let ledger = |limit| VmemLedger::new(spec, target, limit).unwrap();
    assert!(!ledger(None).fits());
    assert!(ledger(Some(64 << 20)).fits());
    assert_eq!(
        ledger(Some(u64::MAX)).limit_bytes,
        ledger(None).capacity_bytes
    );
    let used = ledger(None).used_bytes();
    assert!(ledger(Some(used)).fits() && !ledger(Some(used - 1)).fits());
}

#[test]
fn every_kernel_of_the_op_is_tiled_by_blocks_of_the_lanes() {
    // The bias gradient is a row for each of the two cores.
    let options = Options {
        bias: true,
        ..Options::default()
    };
    let op = op([512, 256, 1000], DType::Bf16, options).unwrap();
    for strategy in Backward::ALL {
        let schedule = Schedule {
            strategy,
            ..schedule([128, 128, 256])
        };
        for program in [op.forward(&schedule), op.backward(&schedule)] {
            for (launch, _) in program.unwrap().launches() {
                let spec = launch.kernel.spec();
                for target in &TARGETS {
                    assert_eq!(spec.check_tiling(target), Ok(()));
                }
                let windows = |named: &&tilecast_core::spec::NamedBuffer| {
                    matches!(named.buffer, Buffer::Window { .. })
                };
                assert!(spec.buffers().iter().filter(windows).count() >= 2);
            }
        }
    }
}
