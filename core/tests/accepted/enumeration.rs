//! Specs against the enumeration of their grids.

use proptest::prelude::*;
use tilecast_core::spec::{
    AxisId, BlockIndex, Blocked, KernelSpec, Semantics, SpecBuilder, SpecError,
};

use Semantics::{Arbitrary, Parallel};

use crate::{F32, with_axis};

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
            _ => unreachable!("no scalars or tables here"),
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
