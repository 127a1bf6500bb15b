//! What makes a spec valid.

use tilecast_core::spec::{
    AxisId, BlockIndex, Blocked, KernelSpec, Semantics, SpecBuilder, SpecError, Table,
};
use tilecast_core::target::TARGETS;

use Semantics::{Arbitrary, Parallel};

use crate::{F32, with_axis};

/// What a spec with axis `i` of 4 arbitrary steps says of an input called `x`.
fn input(operand: impl FnOnce(AxisId) -> Blocked) -> Result<KernelSpec, SpecError> {
    let (mut spec, i) = with_axis(4, Arbitrary);
    spec.input_tile("x", operand(i));
    spec.build()
}

fn refused(result: Result<KernelSpec, SpecError>) -> String {
    result.unwrap_err().to_string()
}

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

/// An output of four rows of blocks that follow a table of five elements along an axis, and of two columns inside or
/// outside of it.
fn following(
    steps: usize,
    visits: Semantics,
    ascending: bool,
    inside: bool,
) -> Result<KernelSpec, SpecError> {
    let mut spec = SpecBuilder::new("k");
    let outer = spec.axis("outer", if inside { 1 } else { 2 }, visits);
    let visit = spec.axis("visits", steps, visits);
    let inner = spec.axis("inner", if inside { 2 } else { 1 }, Arbitrary);
    let table = spec.table(Table {
        name: "block",
        last: 3,
        ascending,
        typical: vec![0, 1, 1, 2, 3],
    });
    let column = BlockIndex::from(outer) + BlockIndex::from(inner);
    let map = [table.along(visit), column];
    spec.output_tile("y", Blocked::new(F32, [32, 16], [8, 8], map));
    spec.build()
}

#[test]
fn outputs_may_follow_a_table_that_ascends() {
    let spec = following(5, Arbitrary, true, false).unwrap();
    let (_, _, y) = spec.operands().next().unwrap();
    assert_eq!(spec.copies(y), 10, "at most one for each visit");
    let order = "k: the index map of output y along dimension 0 follows the table block; the table must be ascending and \
                 alone in that dimension, and its axis arbitrary and the innermost of the map";
    assert_eq!(refused(following(5, Arbitrary, false, false)), order);
    assert_eq!(refused(following(5, Parallel, true, false)), order);
    assert_eq!(refused(following(5, Arbitrary, true, true)), order);
    assert_eq!(
        refused(following(6, Arbitrary, true, false)),
        "k: the table block has 5 elements, the grid axis visits that y follows in it has 6 steps"
    );
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

        let packed = |rows| {
            let mut spec = SpecBuilder::new("k");
            let x = Blocked::new(
                tilecast_core::DType::Bf16,
                [1000, 1000],
                [rows, lanes],
                [0.into(), 0.into()],
            );
            spec.input_tile("x", x.masked().in_pairs(true));
            spec.build().unwrap().check_tiling(target)
        };
        assert_eq!(packed(2 * sublanes), Ok(()));
        let rows = packed(sublanes).unwrap_err();
        assert_eq!(rows.to_string(), refused(0, sublanes, 2 * sublanes, 1000));

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
