//! Why the first row is the first, in sentences that can be checked against the table.

use tilecast::sim::memory::{VmemLedger, is_open};
use tilecast::sim::problem::{BlockSizes, PassBlocks, Problem};
use tilecast::sim::tune::Row;
use tilecast::sim::{Verdict, bytes_text};

use super::super::report::{count_text, fit_text, row_text, time_text};
use super::Tuned;

/// Times nearer than the cycles of two schedules are predicted are a tie.
const TIE_PERCENT: f64 = 1.0;

/// First against second; what is lost with less memory; why a larger block is refused.
pub(super) fn sentences(tuned: &Tuned<impl Problem>) -> Vec<String> {
    [
        second(&tuned.rows),
        open_verdict(&tuned.rows),
        default_limit(tuned),
        slow_to_compile(tuned),
        smaller(&tuned.rows),
        larger(&tuned.rows),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// How much slower `row` is than `first`, per cent.
fn slower_percent<B>(first: &Row<B>, row: &Row<B>) -> Option<f64> {
    let time_s = |row: &Row<B>| Some(row.report.total?.time_s);
    Some((time_s(row)? / time_s(first)? - 1.0) * 100.0)
}

/// The units that speak for the first of two, and for the second.
fn second(rows: &[Row<impl PassBlocks>]) -> Option<String> {
    let (first, others) = rows.split_first()?;
    let second = (others.iter()).find(|row| row.compiles_soon == first.compiles_soon)?;
    let slower = slower_percent(first, second)?;
    let named = first.bounds.named().into_iter().zip(second.bounds.named());
    let mut bounds: Vec<(&str, f64, f64)> = named
        .map(|((name, first), (_, second))| (name, first, second))
        .collect();
    bounds.sort_by(|x, y| (y.2 - y.1).total_cmp(&(x.2 - x.1)));
    let against = |(name, first, second): (&str, f64, f64)| {
        format!("{name}, {} against {}", time_text(first), time_text(second))
    };
    // What reads the same is the same.
    let differs = |bound: &(&str, f64, f64)| time_text(bound.1) != time_text(bound.2);
    bounds.retain(differs);
    let saved = bounds.first().copied().filter(|bound| bound.2 > bound.1);
    let because = match saved {
        Some(bound) => format!("less {}", against(bound)),
        None => "no unit has less to do, but they overlap better".into(),
    };
    let lost = bounds.last().copied().filter(|bound| bound.2 < bound.1);
    let turns = match lost {
        Some(bound) => format!(
            "; the order turns if what it has more of costs more: {}",
            against(bound)
        ),
        None => "; no unit has more to do".into(),
    };
    let binds = match (first.bounds.binding().0, second.bounds.binding().0) {
        (a, b) if a == b => format!("both are bound by {a}"),
        (a, b) => format!("the first is bound by {a}, the second by {b}"),
    };
    let tie = match (
        slower < TIE_PERCENT,
        first.vmem_used_bytes == second.vmem_used_bytes,
    ) {
        (false, _) => "",
        (true, true) => "; so near that the model does not tell them apart",
        (true, false) => {
            "; so near that the model does not tell them apart: take the one that uses less VMEM"
        }
    };
    let used = match [memory(first), memory(second)] {
        [a, b] if a == b => format!("both {a}"),
        [a, b] => format!("{a} against {b}"),
    };
    let faster = match format!("{slower:.2}") {
        percent if percent == "0.00" => "as fast".into(),
        percent => format!("{percent} % faster"),
    };
    Some(format!(
        "First against second ({}): {faster}, {because}{turns}. {}{}{tie}. VMEM: {used}.",
        row_text(second),
        binds[..1].to_uppercase(),
        &binds[1..],
    ))
}

/// Bytes used, and the largest term of it.
fn memory<B>(row: &Row<B>) -> String {
    let used = bytes_text(row.vmem_used_bytes as f64);
    let fullest = row.ledgers.iter().max_by_key(|(_, vmem)| vmem.used_bytes());
    match fullest.and_then(|(kernel, vmem)| Some((kernel, vmem.largest()?))) {
        Some((kernel, term)) => format!(
            "{used} in {kernel}, of which `{}` {}",
            term.name,
            bytes_text(term.bytes as f64)
        ),
        None => used,
    }
}

/// That the first may turn out not to fit.
fn open_verdict(rows: &[Row<impl PassBlocks>]) -> Option<String> {
    let first = rows
        .first()
        .filter(|first| is_open(first.fit_probability))?;
    let fit = fit_text(first.vmem_margin_bytes, first.fit_probability);
    Some(format!("VMEM of the first {fit}."))
}

/// What a raised limit gains.
fn default_limit(tuned: &Tuned<impl Problem>) -> Option<String> {
    let (first, row) = (tuned.rows.first()?, tuned.at_default_limit.as_ref()?);
    let limit = bytes_text(row.vmem_limit_bytes as f64);
    Some(match slower_percent(first, row) {
        Some(slower) => format!(
            "Within the default limit of {limit}: {}, {}, {slower:.2} % slower; the first needs {} KiB (--vmem-limit-kib).",
            row_text(row),
            bytes_text(row.vmem_used_bytes as f64),
            first.vmem_limit_bytes >> 10,
        ),
        None => format!("Nothing fits within the default limit of {limit}."),
    })
}

/// What is faster than the first, but of more operations than preferred; or that the first is itself.
fn slow_to_compile(tuned: &Tuned<impl Problem>) -> Option<String> {
    let first = (tuned.rows.first()).filter(|row| row.report.total.is_some())?;
    let most = count_text(tuned.request.operations_preferred());
    if !first.compiles_soon {
        let operations = count_text(first.operations);
        return Some(format!(
            "The first has a kernel of {operations} operations, more than {most}: the compiler may take long for it."
        ));
    }
    let faster = (tuned.rows.iter()).find(|row| !row.compiles_soon)?;
    let percent = slower_percent(faster, first).filter(|&percent| percent > 0.0)?;
    Some(format!(
        "Faster, but of {} operations, more than {most}, for which the compiler may take long (--most-operations): {}, by {percent:.2} %.",
        count_text(faster.operations),
        row_text(faster),
    ))
}

/// The best pair that leaves a quarter of the memory of the first. The passes share no VMEM: each is
/// the fastest of those that leave it, beside the best of the other.
fn smaller<B: PassBlocks>(rows: &[Row<B>]) -> Option<String> {
    let first = rows.first()?;
    let most = first.vmem_used_bytes / 4 * 3;
    let time_s = |row: &Row<B>| Some(row.report.total?.time_s);
    let within = |ledger: Option<&(String, VmemLedger)>| {
        ledger.is_none_or(|(_, vmem)| vmem.used_bytes() <= most)
    };
    let forward =
        (rows.iter()).find(|row| row.backward == first.backward && within(row.ledgers.first()))?;
    let backward =
        (rows.iter()).find(|row| row.forward == first.forward && within(row.ledgers.last()))?;
    let one_pass = first.forward.is_none() || first.backward.is_none();
    let pair = match one_pass {
        true => forward.clone(),
        false => Row {
            backward: backward.backward,
            ..forward.clone()
        },
    };
    let more_s = |row: &Row<B>| Some(time_s(row)? - time_s(first)?);
    let more_s = more_s(forward)? + if one_pass { 0.0 } else { more_s(backward)? };
    let used = |row: &Row<B>, last: bool| {
        let ledger = if last {
            row.ledgers.last()
        } else {
            row.ledgers.first()
        };
        ledger.map_or(0, |(_, vmem)| vmem.used_bytes())
    };
    Some(format!(
        "With less VMEM: {}, {} instead of {}, {:.2} % slower.",
        row_text(&pair),
        bytes_text(used(forward, false).max(used(backward, true)) as f64),
        bytes_text(first.vmem_used_bytes as f64),
        more_s / time_s(first)? * 100.0
    ))
}

/// The smallest enlargement of the first that is refused, and by how much.
fn larger<B: PassBlocks>(rows: &[Row<B>]) -> Option<String> {
    let first = rows.first().filter(|row| row.report.total.is_some())?;
    let covers = |large: B, small: B| {
        let [large, small] = [large, small].map(|blocks| blocks.sizes());
        large != small && (large.sides().into_iter().zip(small.sides())).all(|(a, b)| a >= b)
    };
    let volume = |sizes: BlockSizes| {
        let sides = sizes.sides().into_iter();
        sides.map(|n| n as u128).product::<u128>()
    };
    let enlarged = |row: &Row<B>| -> Option<B> {
        let strategy = |row: &Row<B>| row.backward.map(|plan| plan.strategy_name());
        let blocks = |row: &Row<B>| {
            let forward = row.forward.map(|plan| plan.blocks);
            (forward, row.backward.map(|plan| plan.blocks))
        };
        let (forward, plan) = blocks(row);
        let (of_first, plan_of_first) = blocks(first);
        match (forward == of_first, plan == plan_of_first) {
            (false, true) => forward.filter(|&blocks| covers(blocks, of_first.unwrap_or(blocks))),
            (true, false) if strategy(row) == strategy(first) => {
                plan.filter(|&blocks| covers(blocks, plan_of_first.unwrap_or(blocks)))
            }
            _ => None,
        }
    };
    let refused = rows
        .iter()
        .filter(|row| row.report.verdict == Verdict::VmemOom);
    let (_, row) = refused
        .filter_map(|row| Some((volume(enlarged(row)?.sizes()), row)))
        .min_by_key(|(volume, _)| *volume)?;
    let limit = row.vmem_limit_bytes;
    Some(format!(
        "A larger block, {}, is {}: it needs {}, {} more than {}.",
        row_text(row),
        row.report.verdict.name(),
        memory(row),
        bytes_text(row.vmem_used_bytes.saturating_sub(limit) as f64),
        bytes_text(limit as f64),
    ))
}
