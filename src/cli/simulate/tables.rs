//! The tables of kernels that both ways to simulate print.

use comfy_table::Table;
use serde_json::Value;
use tilecast::sim::bytes_text;
use tilecast::sim::kernel::KernelReport;
use tilecast::sim::op::HbmReport;
use tilecast::sim::problem::BlockSizes;

use crate::cli::error::CliError;
use crate::cli::output::{number, print, print_table, table};
use crate::cli::report::{blocks_json, count_text, fit_text, time_text};

/// A kernel of a report.
pub(super) struct Shown<'a> {
    /// The pass it belongs to, where there are passes.
    pub pass: Option<&'static str>,
    /// Its blocks, where it has them.
    pub blocks: Option<ShownBlocks>,
    pub kernel: &'a KernelReport,
}

/// Block sizes, for a person and for a program.
pub(super) struct ShownBlocks {
    pub text: String,
    pub json: Value,
}

impl From<BlockSizes> for ShownBlocks {
    fn from(sizes: BlockSizes) -> Self {
        Self {
            text: sizes.to_string(),
            json: blocks_json(Some(sizes)),
        }
    }
}

/// Array operations between kernels: name of the pass, seconds.
pub(super) type Arrays = (&'static str, f64);

/// One line on the kernel that is least likely to fit, or leaves least.
pub(super) fn tightest(kernels: &[Shown<'_>]) -> String {
    let ledgers = kernels
        .iter()
        .map(|shown| (&shown.kernel.name, &shown.kernel.vmem));
    let tightest = ledgers.min_by(|(_, a), (_, b)| {
        (a.fit_probability().total_cmp(&b.fit_probability()))
            .then(a.margin_bytes().cmp(&b.margin_bytes()))
    });
    match tightest {
        Some((name, vmem)) => format!(
            "VMEM: {name} {}",
            fit_text(vmem.margin_bytes(), vmem.fit_probability())
        ),
        None => "VMEM: there is no kernel".into(),
    }
}

/// What the kernels were taken to do.
pub(super) fn assumptions(kernels: &[Shown<'_>]) -> Vec<String> {
    let of_kernel = |Shown { kernel, .. }: &Shown<'_>| {
        let lines = kernel.assumptions.iter();
        let named = lines.map(|line| format!("{}: {line}", kernel.name));
        named.collect::<Vec<_>>()
    };
    kernels.iter().flat_map(of_kernel).collect()
}

/// The kernels, each bound alone, and their ledgers.
pub(super) fn print_kernels(
    kernels: &[Shown<'_>],
    arrays: impl IntoIterator<Item = Arrays>,
) -> Result<(), CliError> {
    print_table(&overview(kernels, arrays))?;
    if kernels
        .iter()
        .any(|shown| shown.kernel.prediction.is_some())
    {
        print("\nEach unit alone, as if nothing else took time; * binds")?;
        print_table(&bounds(kernels))?;
    }
    for Shown { kernel, .. } in kernels {
        let vmem = &kernel.vmem;
        print(format_args!(
            "\nVMEM of {}: {} of {} ({} usable); it {}",
            kernel.name,
            bytes_text(vmem.used_bytes() as f64),
            bytes_text(vmem.limit_bytes as f64),
            bytes_text(vmem.capacity_bytes as f64),
            fit_text(vmem.margin_bytes(), vmem.fit_probability())
        ))?;
        print_table(&ledger(kernel))?;
    }
    Ok(())
}

fn overview(kernels: &[Shown<'_>], arrays: impl IntoIterator<Item = Arrays>) -> Table {
    let mut table = table([
        "kernel",
        "blocks",
        "launches",
        "grid steps",
        "cycles of a core",
        "time",
        "range",
        "MXU busy",
        "bound by",
        "verdict",
    ]);
    for Shown { blocks, kernel, .. } in kernels {
        let prediction = kernel.prediction;
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".into());
        let range = prediction.map(|p| {
            let [low, high] = p.time_range_s;
            format!("{} to {}", time_text(low), time_text(high))
        });
        table.add_row([
            kernel.name.as_str().into(),
            or_none(blocks.as_ref().map(|blocks| blocks.text.clone())).into(),
            number(kernel.launches),
            number(count_text(kernel.grid_steps as f64)),
            number(or_none(prediction.map(|p| count_text(p.cycles_per_core)))),
            number(or_none(prediction.map(|p| time_text(p.time_s)))),
            number(or_none(range)),
            number(or_none(
                prediction.map(|p| format!("{:.0} %", p.mxu_fraction() * 100.0)),
            )),
            or_none(prediction.map(|p| p.bounds.binding().0.into())).into(),
            kernel.verdict.name().into(),
        ]);
    }
    for (pass, seconds) in arrays {
        let mut row = vec![format!("arrays, {pass}").into()];
        row.extend(["", "", "", ""].map(Into::into));
        row.push(number(time_text(seconds)));
        row.extend(["", "", "hbm"].map(Into::into));
        table.add_row(row);
    }
    table
}

fn bounds(kernels: &[Shown<'_>]) -> Table {
    let names = tilecast::sim::kernel::Bounds::default()
        .named()
        .map(|(name, _)| name);
    let mut table = table(["kernel"].into_iter().chain(names));
    for Shown { kernel, .. } in kernels {
        let Some(prediction) = kernel.prediction else {
            continue;
        };
        let binding = prediction.bounds.binding().0;
        let mut cells = vec![kernel.name.as_str().into()];
        cells.extend(prediction.bounds.named().map(|(name, seconds)| {
            let mark = if name == binding { "*" } else { "" };
            number(format!("{}{mark}", time_text(seconds)))
        }));
        table.add_row(cells);
    }
    table
}

/// The ledger, with a bar for each term's share of the limit.
fn ledger(kernel: &KernelReport) -> Table {
    let limit = kernel.vmem.limit_bytes;
    let mut table = table(["buffer", "kind", "buffers", "bytes", "share of the limit"]);
    for term in &kernel.vmem.terms {
        table.add_row([
            term.name.as_str().into(),
            term.kind.name().into(),
            number(term.buffers),
            number(bytes_text(term.bytes as f64)),
            bar(term.bytes, limit).into(),
        ]);
    }
    let used = kernel.vmem.used_bytes();
    table.add_row([
        "sum".into(),
        "".into(),
        "".into(),
        number(bytes_text(used as f64)),
        bar(used, limit).into(),
    ]);
    table
}

/// The arrays in the HBM of a chip.
pub(super) fn print_hbm(hbm: &HbmReport) -> Result<(), CliError> {
    print(format_args!(
        "\nHBM of a chip: {} of {}",
        bytes_text(hbm.used_bytes as f64),
        bytes_text(hbm.capacity_bytes as f64)
    ))?;
    let largest = hbm.terms.iter().map(|&(_, bytes)| bytes).max().unwrap_or(0);
    let mut table = table(["array", "bytes", ""]);
    for &(name, bytes) in &hbm.terms {
        table.add_row([
            name.into(),
            number(bytes_text(bytes as f64)),
            bar(bytes, largest).into(),
        ]);
    }
    print_table(&table)
}

/// A bar of 40 characters for the whole; what is beyond is cut off and marked.
fn bar(part: u64, whole: u64) -> String {
    const LENGTH: f64 = 40.0;
    let share = part as f64 / whole.max(1) as f64;
    let filled = "#".repeat((share.min(1.0) * LENGTH).round() as usize);
    match share {
        share if share > 1.0 => format!("{filled}> {:.0} %", share * 100.0),
        share => format!("{filled} {:.0} %", share * 100.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_cut_off_where_a_term_exceeds_the_whole() {
        assert_eq!(bar(1, 2), format!("{} 50 %", "#".repeat(20)));
        assert_eq!(bar(3, 2), format!("{}> 150 %", "#".repeat(40)));
        assert_eq!(bar(0, 0), " 0 %");
    }
}
