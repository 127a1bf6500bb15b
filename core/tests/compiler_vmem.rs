//! The padding and window rules against allocations that the TPU compiler reported.
//!
//! Each row of `data/compiler_vmem.csv` is one window or scratch buffer of a kernel that was
//! compiled ahead of time with libtpu 0.0.51 (`data/README.md` says how the rows were made). Every
//! row has to match to the byte. There are no exceptions.

use std::collections::{BTreeMap, BTreeSet};

use tilecast_core::DType;
use tilecast_core::budget::padding::{padded_bytes, tile, window_bytes};
use tilecast_core::target::{TARGETS, Target};

const ROWS: &str = include_str!("data/compiler_vmem.csv");

/// One buffer that the compiler allocated.
struct Row<'a> {
    line: &'a str,
    target: &'static Target,
    scratch: bool,
    dtype: DType,
    block: Vec<usize>,
    grid_steps: usize,
    map: &'a str,
    requested_buffers: Option<usize>,
    buffers: usize,
    bytes: u64,
}

impl<'a> Row<'a> {
    fn parse(line: &'a str) -> Self {
        let columns: Vec<&str> = line.splitn(11, ',').collect();
        let [
            _set,
            target,
            operand,
            dtype,
            block,
            grid_steps,
            map,
            requested,
            buffers,
            bytes,
            _name,
        ] = columns[..]
        else {
            panic!("expected 11 columns: {line}");
        };
        Self {
            line,
            target: Target::by_name(target).unwrap(),
            scratch: operand.starts_with("scratch"),
            dtype: [DType::F32, DType::Bf16, DType::I32]
                .into_iter()
                .find(|known| known.name() == dtype)
                .unwrap_or_else(|| panic!("unknown element type: {line}")),
            block: block.split('x').map(|size| size.parse().unwrap()).collect(),
            grid_steps: grid_steps.parse().unwrap(),
            map,
            requested_buffers: (!requested.is_empty()).then(|| requested.parse().unwrap()),
            buffers: buffers.parse().unwrap(),
            bytes: bytes.parse().unwrap(),
        }
    }

    fn all() -> impl Iterator<Item = Self> {
        ROWS.lines().skip(1).map(Self::parse)
    }

    /// How many buffers the pipeline needs: two, unless the block never changes or one was asked
    /// for. An operand left in HBM (`any`) has none.
    fn expected_buffers(&self) -> usize {
        match self.map {
            "any" => 0,
            "none" | "constant" => 1,
            "varying" if self.grid_steps == 1 => 1,
            "varying" => self.requested_buffers.unwrap_or(2),
            map => panic!("unknown map {map}: {}", self.line),
        }
    }
}

#[test]
fn every_allocation_is_predicted_to_the_byte() {
    let mut rows: BTreeMap<&str, usize> = BTreeMap::new();
    let mut misses = Vec::new();
    for row in Row::all() {
        let bytes = if row.scratch {
            padded_bytes(&row.block, row.dtype, row.target)
        } else {
            window_bytes(&row.block, row.dtype, row.expected_buffers(), row.target)
        };
        if (row.expected_buffers(), bytes.clone()) != (row.buffers, Ok(row.bytes)) {
            misses.push(format!("{}\n    predicted {bytes:?}", row.line));
        }
        *rows.entry(row.target.name).or_default() += 1;
    }
    assert!(misses.is_empty(), "{}", misses.join("\n"));
    assert!(
        TARGETS.iter().all(|target| rows[target.name] > 150),
        "{rows:?}"
    );
}

/// The rows would not notice a rule that none of them exercises.
#[test]
fn rows_exercise_every_rule_on_every_target() {
    for target in &TARGETS {
        let mut seen = BTreeSet::new();
        for row in Row::all().filter(|row| row.target == target) {
            let granule = target.vmem_window_granule_bytes.value;
            let one = padded_bytes(&row.block, row.dtype, target).unwrap();
            let lanes = target.lanes.value;
            seen.insert(match row.block[..] {
                [n] if !n.is_multiple_of(lanes) => "vector padded to lanes",
                [n] if row.dtype == DType::Bf16 && !n.is_multiple_of(2 * lanes) => {
                    "vector padded to packed lanes"
                }
                [.., rows, _] if tile(rows, row.dtype, target)[0] < 8 => "short tile",
                [.., rows, _] if tile(rows, row.dtype, target)[0] > 8 => "tall tile",
                [.., rows, _] if !rows.is_multiple_of(8) => "rows padded",
                [.., columns] if !columns.is_multiple_of(lanes) => "columns padded",
                _ => "whole tiles",
            });
            if row.block.len() > 2 {
                seen.insert("leading dimension");
            }
            if !row.scratch && !(one * row.buffers as u64).is_multiple_of(granule) {
                seen.insert("window padded to granule");
            }
            if row.scratch && !one.is_multiple_of(granule) {
                seen.insert("scratch below granule");
            }
        }
        let mut expected = BTreeSet::from([
            "vector padded to lanes",
            "vector padded to packed lanes",
            "short tile",
            "rows padded",
            "columns padded",
            "whole tiles",
            "leading dimension",
            "window padded to granule",
            "scratch below granule",
        ]);
        if target.bf16_tile_rows.value > target.sublanes.value {
            expected.insert("tall tile");
        }
        assert_eq!(seen, expected, "{target}");
    }
}
