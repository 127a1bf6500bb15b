//! Grids against all of their steps, one by one.

use std::collections::HashMap;

use super::*;
use proptest::prelude::*;

/// A kernel of three axes: windows with these maps, one condition for each entry of `conditions`.
/// Indices are `%i`, `%j`, `%k`; the last line of each computes `%r`.
fn kernel(bounds: &[i64], maps: &[&str], conditions: &[&str]) -> Module {
    let arguments = ["%i: i32", "%j: i32", "%k: i32"];
    let window = "memref<8x128xf32, #tpu.memory_space<vmem>>";
    let smem = "memref<8xi32, #tpu.memory_space<smem>>";
    let indices = arguments[..bounds.len()].join(", ");
    let mut text = format!("module @m {{\nfunc.func @kernel({indices}, %s: {smem}");
    for i in 0..maps.len() {
        text += &format!(", %w{i}: {window}");
    }
    let params: Vec<String> = (0..maps.len())
        .map(|i| format!("{{transform_indices = @map_{i}, window_bounds = array<i64: 8, 128>}}"))
        .collect();
    let listed: Vec<String> = bounds.iter().map(ToString::to_string).collect();
    let semantics = vec!["#tpu.dimension_semantics<arbitrary>"; bounds.len()].join(", ");
    text += &format!(
        ") attributes {{dimension_semantics = [{semantics}], iteration_bounds = array<i64: {}>, \
         scalar_prefetch = 1 : i64, scratch_operands = 0 : i64, window_params = [{}]}} {{\n",
        listed.join(", "),
        params.join(", ")
    );
    for (n, condition) in conditions.iter().enumerate() {
        let condition = condition.replace('%', &format!("%c{n}_"));
        let mut condition = condition;
        for name in ["i", "j", "k", "s"] {
            let word = format!("%c{n}_{name}");
            for after in [" ", ",", "\n", "[", ":"] {
                condition =
                    condition.replace(&format!("{word}{after}"), &format!("%{name}{after}"));
            }
        }
        text += &format!("{condition}\nscf.if %c{n}_r {{\n");
        text += "%z = arith.constant 0 : i32\n}\n";
    }
    text += "return\n}\n";
    for (n, map) in maps.iter().enumerate() {
        text += &format!(
            "func.func @map_{n}({indices}, %s: {smem}) -> (i32, i32) {{\n%zero = arith.constant 0 : \
             i32\n{map}\nreturn %r, %zero : i32, i32\n}}\n"
        );
    }
    text += "}\n";
    Module::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

type Function = fn(&[i64], &[i64]) -> i64;

/// Texts and what they compute, of two axes and scalars.
const MAPS: [(&str, Function); 9] = [
    ("%r = arith.constant 3 : i32", |_, _| 3),
    (
        "%z = arith.constant 0 : i32\n%r = arith.addi %i, %z : i32",
        |at, _| at[0],
    ),
    (
        "%z = arith.constant 0 : i32\n%r = arith.addi %j, %z : i32",
        |at, _| at[1],
    ),
    ("%r = arith.addi %i, %j : i32", |at, _| at[0] + at[1]),
    (
        "%c = arith.constant 2 : i32\n%r = arith.divsi %j, %c : i32",
        |at, _| at[1] / 2,
    ),
    (
        "%c = arith.constant 3 : i32\n%r = arith.remsi %j, %c : i32",
        |at, _| at[1] % 3,
    ),
    (
        "%c = arith.constant 4 : i32\n%d = arith.muli %i, %c : i32\n%e = arith.addi %d, %j : i32\n\
      %f = arith.constant 6 : i32\n%r = arith.divsi %e, %f : i32",
        |at, _| (4 * at[0] + at[1]) / 6,
    ),
    (
        "%c = arith.cmpi sge, %i, %j : i32\n%z = arith.constant 0 : i32\n\
      %r = arith.select %c, %j, %z : i32",
        |at, _| if at[0] >= at[1] { at[1] } else { 0 },
    ),
    (
        "%c = arith.constant 8 : i32\n%d = arith.remsi %j, %c : i32\n\
      %e = arith.index_cast %d : i32 to index\n\
      %r = memref.load %s[%e] : memref<8xi32, #tpu.memory_space<smem>>",
        |at, scalars| scalars[(at[1] % 8) as usize],
    ),
];

const CONDITIONS: [(&str, Function); 7] = [
    (
        "%c = arith.constant 0 : i32\n%r = arith.cmpi eq, %j, %c : i32",
        |at, _| i64::from(at[1] == 0),
    ),
    (
        "%c = arith.constant 5 : i32\n%r = arith.cmpi sgt, %i, %c : i32",
        |at, _| i64::from(at[0] > 5),
    ),
    ("%r = arith.cmpi sle, %j, %i : i32", |at, _| {
        i64::from(at[1] <= at[0])
    }),
    (
        "%c = arith.constant 2 : i32\n%d = arith.muli %j, %c : i32\n%e = arith.constant 1 : i32\n\
      %f = arith.addi %d, %e : i32\n%r = arith.cmpi slt, %f, %i : i32",
        |at, _| i64::from(2 * at[1] + 1 < at[0]),
    ),
    (
        "%c = arith.constant 2 : i32\n%d = arith.remsi %j, %c : i32\n%e = arith.constant 1 : i32\n\
      %r = arith.cmpi eq, %d, %e : i32",
        |at, _| at[1] % 2,
    ),
    (
        "%c = arith.constant 0 : i32\n%d = arith.cmpi eq, %i, %c : i32\n\
      %e = arith.cmpi eq, %j, %c : i32\n%r = arith.andi %d, %e : i1",
        |at, _| i64::from(at[0] == 0 && at[1] == 0),
    ),
    (
        "%c = arith.constant 3 : i32\n%z = arith.constant 0 : index\n\
      %d = memref.load %s[%z] : memref<8xi32, #tpu.memory_space<smem>>\n\
      %e = arith.maxsi %i, %c : i32\n%r = arith.cmpi sge, %e, %d : i32",
        |at, scalars| i64::from(at[0].max(3) >= scalars[0]),
    ),
];

fn grid(module: &Module, scalars: &[i64]) -> Grid {
    let signature = Signature::read(module).unwrap();
    let scalars = Scalars::new(Vec::new(), vec![Some(scalars.to_vec())]);
    Grid::new(module, &signature, &scalars, 1).unwrap()
}

proptest! {
    #[test]
    fn every_step_is_of_its_kind(
        rows in 1_i64..14,
        columns in 1_i64..40,
        maps in prop::collection::vec(0..MAPS.len(), 0..4),
        conditions in prop::collection::vec(0..CONDITIONS.len(), 0..4),
        scalars in prop::collection::vec(0_i64..9, 8),
    ) {
        let texts: Vec<_> = maps.iter().map(|&i| MAPS[i].0).collect();
        let asked: Vec<_> = conditions.iter().map(|&i| CONDITIONS[i].0).collect();
        let module = kernel(&[rows, columns], &texts, &asked);
        let grid = grid(&module, &scalars);
        prop_assert!(grid.exact);
        let steps = (rows * columns) as usize;
        let sequence = grid.sequence(0, u64::MAX);
        prop_assert_eq!(sequence.len(), steps);
        let mut bodies: HashMap<Vec<i64>, usize> = HashMap::new();
        for (n, &kind) in sequence.iter().enumerate() {
            let point = |n: usize| [n as i64 / columns, n as i64 % columns];
            let at = point(n);
            let kind = grid.kinds[kind];
            let trace: Vec<i64> =
                conditions.iter().map(|&i| CONDITIONS[i].1(&at, &scalars)).collect();
            let body = *bodies.entry(trace).or_insert(kind.body);
            prop_assert_eq!(body, kind.body, "step {:?}", at);
            for (w, &map) in maps.iter().enumerate() {
                let next = point(n + 1);
                let moved = n + 1 < steps
                    && MAPS[map].1(&at, &scalars) != MAPS[map].1(&next, &scalars);
                prop_assert_eq!(kind.moved >> w & 1 == 1, moved, "window {} at {:?}", w, at);
            }
        }
        let times: u64 = grid.bodies.iter().map(|body| body.times).sum();
        prop_assert_eq!(times, steps as u64);
        prop_assert_eq!(grid.steps(), steps as u64);
        let part = grid.sequence(steps as u64 / 3, steps as u64 / 2);
        prop_assert_eq!(&part[..], &sequence[steps / 3..steps / 2]);
    }
}

#[test]
fn a_part_of_one_step_can_be_empty() {
    let one = grid(&kernel(&[1, 1], &[], &[]), &[0; 8]);
    assert_eq!((one.sequence(0, 0), one.sequence(0, 1)), (vec![], vec![0]));
    assert_eq!(one.sequence(1, 2), []);
}

#[test]
fn large_grids_are_not_enumerated() {
    let texts = [MAPS[1].0, MAPS[2].0, MAPS[4].0, MAPS[5].0];
    let module = kernel(&[1000, 10_000], &texts, &[CONDITIONS[0].0, CONDITIONS[1].0]);
    let large = grid(&module, &[0; 8]);
    assert_eq!(large.steps(), 10_000_000);
    assert!(large.exact);
    assert!(large.nodes.len() < 100, "{} nodes", large.nodes.len());
    // As many kinds of rows as rows, all of them found.
    let module = kernel(&[300, 1000], &[MAPS[7].0], &[CONDITIONS[2].0]);
    let causal = grid(&module, &[0; 8]);
    assert!(causal.exact);
    let taken = causal.bodies.iter().find(|body| body.at == [0, 0]).unwrap();
    assert_eq!(taken.times, 300 * 301 / 2);
}

#[test]
fn what_cannot_be_followed_says_so() {
    let module = kernel(&[100_000, 100_000], &[MAPS[7].0], &[CONDITIONS[2].0]);
    let grid = grid(&module, &[0; 8]);
    assert!(!grid.exact);
    assert_eq!(grid.steps(), 10_000_000_000);
    assert!(grid.assumptions.iter().any(|a| a.contains("kinds of rows")));
}

#[test]
fn bad_grids_are_errors() {
    let refused = |bounds: &[i64], scalars: Scalars| {
        let module = kernel(bounds, &[], &[]);
        let signature = Signature::read(&module).unwrap();
        Grid::new(&module, &signature, &scalars, 1).unwrap_err()
    };
    assert_eq!(
        refused(&[2, -3], Scalars::default()),
        GridError::Steps { axis: 1, steps: -3 }
    );
    let large = 1 << 30;
    let bounds = vec![large, large, large];
    assert_eq!(
        refused(&bounds, Scalars::default()),
        GridError::TooLarge {
            bounds: bounds.clone()
        }
    );
    assert_eq!(
        refused(&[2, 2], Scalars::new(Vec::new(), vec![Some(vec![1, 2])])),
        GridError::Scalars {
            index: 0,
            expected: 8,
            found: 2
        }
    );
    let more = |scalars| refused(&[2, 2], scalars).to_string();
    assert_eq!(
        more(Scalars::new(vec![4], Vec::new())),
        "1 bounds of axes that are known only at run time were given, the kernel has 0"
    );
    assert_eq!(
        more(Scalars::new(Vec::new(), vec![None, None])),
        "2 prefetched scalars were given, the kernel has 1"
    );
}

#[test]
fn cores_share_the_outermost_parallel_axis() {
    let text = kernel(&[5, 2], &[MAPS[1].0], &[]).to_pretty();
    let text = text.replacen("<arbitrary>", "<parallel>", 1);
    let module = Module::parse(&text).unwrap();
    let signature = Signature::read(&module).unwrap();
    let one = Grid::new(&module, &signature, &Scalars::default(), 2).unwrap();
    assert_eq!((one.steps(), one.cores), (6, 2));
    assert_eq!(one.assumptions, ["prefetched scalar 0 is taken to be zero"]);
}

#[test]
fn cores_share_the_axis_that_divides_evenly() {
    let text = kernel(&[5, 2], &[MAPS[1].0], &[]).to_pretty();
    let module = Module::parse(&text.replace("<arbitrary>", "<parallel>")).unwrap();
    let signature = Signature::read(&module).unwrap();
    let one = Grid::new(&module, &signature, &Scalars::default(), 2).unwrap();
    assert_eq!((one.steps(), one.cores), (5, 2));
}

#[test]
fn cores_share_axes_of_which_none_divides_evenly() {
    let conditions = [CONDITIONS[0].0, CONDITIONS[1].0];
    let text = kernel(&[3, 5, 2], &[MAPS[1].0, MAPS[2].0], &conditions).to_pretty();
    let module = Module::parse(&text.replacen("<arbitrary>", "<parallel>", 2)).unwrap();
    let signature = Signature::read(&module).unwrap();
    let [all, one] =
        [1, 2].map(|cores| Grid::new(&module, &signature, &Scalars::default(), cores).unwrap());
    // Eight of fifteen, each of two steps.
    assert_eq!((one.steps(), one.cores), (16, 2));
    let [whole, part] = [&all, &one].map(|grid| {
        let kinds = grid
            .sequence(0, 16)
            .into_iter()
            .map(|kind| grid.kinds[kind]);
        kinds
            .map(|kind| (grid.bodies[kind.body].outcomes.clone(), kind.moved))
            .collect::<Vec<_>>()
    });
    assert_eq!(whole[..15], part[..15]);
    // Nothing is fetched after the last.
    assert_eq!((&whole[15].0, 0), (&part[15].0, part[15].1));
    let times: Vec<u64> = one.bodies.iter().map(|body| body.times).collect();
    assert_eq!(times.iter().sum::<u64>(), 16);
}
