//! The table against the facts it was written from, and against itself.

use super::*;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// Published and measured figures: `chip,scope,key,value,unit,status,source`, the key being a field
/// of [`Target`]. An empty value states that nothing is known.
const FACTS: &str = include_str!("../../tests/data/tpu_specs.csv");

/// Figures without a row in [`FACTS`], and what fixes them instead.
const WITHOUT_FACTS: [&str; 8] = [
    "peak_clock_hz",             // published_peak_is_the_matrix_rate_at_peak_clock
    "internal_scratch_bytes",    // an upper bound: seen in use on v4 only
    "vmem_window_granule_bytes", // core/tests/compiler_vmem.rs
    "f32_default_passes",        // a property of the algorithm, the same on all targets
    "f32_high_passes",
    "f32_highest_passes",
    "vector_accesses_per_cycle", // within_what_the_parts_allow
    "grid_step_operand_cycles",  // a rounded mean, the same on all targets
];

fn close(a: f64, b: f64, relative: f64) -> bool {
    (a - b).abs() <= relative * b.abs()
}

#[test]
fn every_value_is_the_value_in_the_facts() {
    let mut checked = BTreeSet::new();
    for line in FACTS.lines().skip(1) {
        let [chip, _scope, key, value, unit] = line.splitn(6, ',').take(5).collect::<Vec<_>>()[..]
        else {
            panic!("too few columns: {line}");
        };
        let target = Target::by_name(chip).unwrap();
        let row = target.figures().find(|row| row.name == key);
        let figure = row.unwrap_or_else(|| panic!("no figure for {line}")).figure;
        let actual = match figure.value {
            FigureValue::Integer(value) => value as f64,
            FigureValue::Real(value) => value,
            FigureValue::Bool(value) => f64::from(u8::from(value)),
            FigureValue::Unknown => {
                // What one source does not know, another may: the reverse is a missing value.
                assert_eq!(value, "", "{line}");
                checked.insert((target.name, key));
                continue;
            }
        };
        assert_ne!(value, "", "{chip} {key} is {actual}, unknown to the facts");
        let value: f64 = value.parse().unwrap();
        match unit {
            // The docs' "16 GB" is 16 GiB: see the derivation in the table.
            "GiB" | "GB" => assert_eq!(actual, value * f64::from(1 << 30), "{line}"),
            "MiB rounded to 0.01" => {
                assert!(
                    (actual / f64::from(1 << 20) - value).abs() <= 0.005,
                    "{line}"
                );
            }
            _ => assert_eq!(actual, value, "{line}"),
        }
        checked.insert((target.name, key));
    }
    for target in &TARGETS {
        for row in target.figures() {
            assert!(
                checked.contains(&(target.name, row.name)) || WITHOUT_FACTS.contains(&row.name),
                "{target} {} has no row in the facts",
                row.name
            );
        }
    }
}

#[test]
fn every_figure_has_unit_source_and_meaning() {
    for target in &TARGETS {
        for row in target.figures() {
            let NamedFigure {
                name,
                meaning,
                figure,
            } = row;
            assert!(
                !figure.unit.is_empty() && !figure.source.is_empty(),
                "{name}"
            );
            assert!(
                meaning.ends_with('.') && !meaning.starts_with(' '),
                "{name}"
            );
            assert!(!meaning.contains("  "), "{name}: {meaning}");
            assert_eq!(
                figure.value == FigureValue::Unknown,
                figure.status == Status::Unknown,
                "{target} {name}"
            );
        }
    }
}

#[test]
fn names_are_unique_and_found() {
    let mut names = BTreeSet::new();
    for (target, generation) in TARGETS.iter().zip(Generation::ALL) {
        assert_eq!(target.generation, generation);
        assert_eq!(Target::of(generation), target);
        for name in core::iter::once(&target.name).chain(target.aliases) {
            assert_eq!(Target::by_name(name), Ok(target));
            assert!(names.insert(name), "{name} names two targets");
        }
    }
    assert_eq!(Target::by_name("tpu7x").unwrap().name, "v7x");
    let error = Target::by_name("v9").unwrap_err();
    assert_eq!(
        error.to_string(),
        "unknown target `v9`; known targets: v4, v5e, v5p, v6e, v7x"
    );
}

#[test]
fn published_peak_is_the_matrix_rate_at_peak_clock() {
    for t in &TARGETS {
        let macs = t.mxu_macs_per_cycle.value as f64 * t.tensorcores.value as f64;
        let peak = 2.0 * macs * t.peak_clock_hz.value;
        assert!(
            close(peak, t.peak_bf16_flops_per_s.value, 0.005),
            "{t}: {peak:e}"
        );
        assert!(t.clock_hz.value <= t.peak_clock_hz.value, "{t}");
    }
}

#[test]
fn matrix_rate_follows_from_the_units() {
    for t in &TARGETS {
        let cells = t.mxu_count.value * t.mxu_dim.value * t.mxu_dim.value;
        let rate = cells as u64 * 16 / t.vmatmul_bf16_cycles.value;
        assert_eq!(rate, t.mxu_macs_per_cycle.value, "{t}");
        // One pass over f32 operands runs at the bf16 rate.
        assert_eq!(
            16 / t.vmatmul_bf16_cycles.value,
            8 / t.vmatmul_f32_cycles.value,
            "{t}"
        );
    }
}

#[test]
fn within_what_the_parts_allow() {
    for t in &TARGETS {
        let (limit, usable) = (t.default_vmem_limit_bytes.value, t.vmem_usable_bytes.value);
        assert!(limit <= usable && usable <= t.vmem_bytes.value, "{t}");
        assert_eq!(
            t.vreg_bytes.value,
            (t.lanes.value * t.sublanes.value * 4) as u64,
            "{t}"
        );
        assert!(t.mxu_dim.value.is_multiple_of(t.lanes.value), "{t}");
        assert!(
            t.bf16_tile_rows.value.is_multiple_of(t.sublanes.value),
            "{t}"
        );
        let (loads, stores) = (
            t.vector_loads_per_cycle.value,
            t.vector_stores_per_cycle.value,
        );
        let together = t.vector_accesses_per_cycle.value;
        assert!(
            together >= loads.max(stores) && together <= loads + stores,
            "{t}"
        );
        assert!(!t.megacore.value || t.tensorcores.value == 2, "{t}");
        assert_eq!(t.cores_per_device() == 2, t.megacore.value, "{t}");
        // The compiler prices one copy below what the HBM of the chip delivers.
        if let Some(bytes_per_cycle) = t.dma_bytes_per_cycle.value {
            let bytes_per_s = bytes_per_cycle * t.peak_clock_hz.value;
            assert!(bytes_per_s < t.hbm_bytes_per_s.value, "{t}");
        }
    }
}
