//! `tilecast targets`: what is known about each TPU generation.

use serde_json::{Value, json};
use tilecast::core::target::{FigureValue, NamedFigure, TARGETS, Target};

use super::Outcome;
use super::error::CliError;
use super::output::{number, print, print_json, print_table, table};

/// List the TPU generations and their figures
///
/// The table has the main ones; --json has all, each with unit, status (documented, derived, calibrated, unknown) and
/// source.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  tilecast targets\n  tilecast targets --json")]
pub(crate) struct Args {
    /// Print one JSON document with every figure
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<Outcome, CliError> {
    match args.json {
        true => print_json(&document())?,
        false => {
            print_table(&overview())?;
            print("\nEvery figure with its status and source: tilecast targets --json")?;
        }
    }
    Ok(Outcome::Done)
}

/// A row of the table: name in the target table, title, unit shown, how many of the figure's units
/// are one of those.
type Row = (&'static str, &'static str, &'static str, f64);

const KIB: f64 = 1024.0;

const MAIN: [Row; 19] = [
    ("tensorcores", "TensorCores per chip", "cores", 1.0),
    ("megacore", "one device drives all cores", "yes/no", 1.0),
    ("clock_hz", "clock", "GHz", 1e9),
    (
        "peak_bf16_flops_per_s",
        "bf16 peak per chip",
        "TFLOP/s",
        1e12,
    ),
    ("hbm_bytes", "HBM per chip", "GiB", KIB * KIB * KIB),
    ("hbm_bytes_per_s", "HBM bandwidth per chip", "GB/s", 1e9),
    ("vmem_bytes", "VMEM per core", "MiB", KIB * KIB),
    ("vmem_usable_bytes", "usable VMEM", "MiB", KIB * KIB),
    (
        "default_vmem_limit_bytes",
        "default VMEM limit",
        "MiB",
        KIB * KIB,
    ),
    ("smem_bytes", "SMEM per core", "KiB", KIB),
    ("mxu_count", "matrix units per core", "units", 1.0),
    ("mxu_dim", "matrix unit rows and columns", "elements", 1.0),
    (
        "mxu_macs_per_cycle",
        "bf16 multiply-adds per core",
        "MAC/cycle",
        1.0,
    ),
    ("valu_slots", "vector ALU", "registers/cycle", 1.0),
    (
        "eup_per_cycle",
        "transcendental unit",
        "registers/cycle",
        1.0,
    ),
    (
        "native_bf16_vectors",
        "bf16 vector arithmetic",
        "yes/no",
        1.0,
    ),
    (
        "vector_loads_per_cycle",
        "vector loads",
        "registers/cycle",
        1.0,
    ),
    (
        "vector_stores_per_cycle",
        "vector stores",
        "registers/cycle",
        1.0,
    ),
    (
        "dma_bytes_per_cycle",
        "one copy to or from HBM",
        "bytes/cycle",
        1.0,
    ),
];

fn overview() -> comfy_table::Table {
    let names = TARGETS.iter().map(|target| target.name);
    let mut table = table(["figure", "unit"].into_iter().chain(names));
    for (name, title, unit, scale) in MAIN {
        let mut cells = vec![title.into(), unit.into()];
        cells.extend(
            TARGETS
                .iter()
                .map(|target| number(scaled(target, name, scale))),
        );
        table.add_row(cells);
    }
    table
}

fn scaled(target: &Target, name: &str, scale: f64) -> String {
    let found = target.figures().find(|row| row.name == name);
    match found.map_or(FigureValue::Unknown, |row| row.figure.value) {
        FigureValue::Integer(value) => shorten(value as f64 / scale),
        FigureValue::Real(value) => shorten(value / scale),
        value => value.to_string(),
    }
}

/// At most four decimals, none that are zeros at the end.
fn shorten(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').into()
}

fn document() -> Value {
    let targets = TARGETS.iter().map(|target| {
        json!({
            "name": target.name,
            "aliases": target.aliases,
            "figures": target.figures().map(figure).collect::<Vec<_>>(),
        })
    });
    json!({ "targets": targets.collect::<Vec<_>>() })
}

fn figure(row: NamedFigure) -> Value {
    let NamedFigure {
        name,
        meaning,
        figure,
    } = row;
    let value = match figure.value {
        FigureValue::Integer(value) => json!(value),
        FigureValue::Real(value) => json!(value),
        FigureValue::Bool(value) => json!(value),
        _ => Value::Null,
    };
    json!({
        "name": name,
        "meaning": meaning,
        "value": value,
        "unit": figure.unit,
        "status": figure.status.name(),
        "source": figure.source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_names_a_figure() {
        for (name, ..) in MAIN {
            assert!(TARGETS[0].figures().any(|row| row.name == name), "{name}");
        }
    }

    #[test]
    fn every_figure_has_unit_status_and_source() {
        for target in document()["targets"].as_array().unwrap() {
            for figure in target["figures"].as_array().unwrap() {
                let unknown = figure["status"] == "unknown";
                assert_eq!(figure["value"].is_null(), unknown, "{figure}");
                for key in ["name", "unit", "status", "source"] {
                    assert!(
                        !figure[key].as_str().unwrap().is_empty(),
                        "{key} of {figure}"
                    );
                }
            }
        }
    }
}
