//! Compares ledgers, grids and pipelines with what the TPU compiler did, for every point of a file.
//!
//! `TILECAST_POINTS` names a file of JSON lines with the keys `id`, `target`, `module` (path of a Mosaic text),
//! `used_bytes`, `spill_bytes`, `schedule` and so on. Pipelines get the true cycles of each kind of step,
//! so what differs is theirs alone.

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::time::Instant;

use serde_json::Value;
use tilecast_core::target::Target;
use tilecast_sim::grid::{Body, Grid, Scalars};
use tilecast_sim::memory::VmemLedger;
use tilecast_sim::pipeline::{Bandwidth, Copies, Pipeline, StepCost, windows};
use tilecast_sim::schedule::{Direction, Machine, Transfer, schedule_grid};
use tilecast_sim::signature::Signature;
use tilecast_tpu::mosaic::{DYNAMIC, Module};

#[derive(Default)]
struct Summary {
    points: usize,
    ledgers: [usize; 2],
    grids: [usize; 2],
    copies: [usize; 2],
    errors: BTreeMap<&'static str, Vec<f64>>,
    grid_us: Vec<f64>,
    pipeline_us: Vec<f64>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let Some(path) = std::env::var_os("TILECAST_POINTS") else {
        println!("skipped: TILECAST_POINTS names no file");
        return Ok(());
    };
    let mut all: BTreeMap<String, Summary> = BTreeMap::new();
    for line in std::fs::read_to_string(path)?.lines() {
        let point: Value = serde_json::from_str(line)?;
        if point["status"] != "ok" || !point["module"].is_string() {
            continue;
        }
        let group = point["target"].as_str().unwrap_or("").to_owned();
        let summary = all.entry(group).or_default();
        if let Err(error) = evaluate(&point, summary) {
            println!("{}: {error}", point["id"]);
        }
    }
    for (group, summary) in &all {
        println!(
            "{group}: {} points; exact: ledger {}, kinds of steps {}, bytes of copies {}; us: grid {}, pipeline {}",
            summary.points,
            share(summary.ledgers),
            share(summary.grids),
            share(summary.copies),
            spread(&summary.grid_us),
            spread(&summary.pipeline_us),
        );
        for (name, errors) in &summary.errors {
            println!("    {name}: {}", spread(errors));
        }
    }
    Ok(())
}

fn share([good, all]: [usize; 2]) -> String {
    format!("{good}/{all}")
}

fn spread(list: &[f64]) -> String {
    let mut sorted = list.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |q: f64| sorted[((sorted.len() - 1) as f64 * q) as usize];
    match sorted.is_empty() {
        true => "none".into(),
        false => format!(
            "{} values, median {:.3}, 95 % {:.3}, largest {:.3}",
            sorted.len(),
            at(0.5),
            at(0.95),
            at(1.0)
        ),
    }
}

fn numbers(value: &Value) -> Vec<i64> {
    let list = value.as_array().into_iter().flatten();
    list.filter_map(Value::as_i64).collect()
}

fn scalars(point: &Value, signature: &Signature) -> Scalars {
    let dynamic = signature.bounds.iter().filter(|&&n| n == DYNAMIC).count();
    let given = &point["source"]["given"];
    let bounds = (0..dynamic).filter_map(|i| given["operands"][i.to_string()].as_i64());
    let scalar = |i: usize| {
        let prefetched = &given["prefetch"][i.to_string()];
        let constant = &point["constants"][(dynamic + i).to_string()][1];
        [prefetched, constant]
            .into_iter()
            .find(|v| v.is_array())
            .map(numbers)
    };
    Scalars::new(
        bounds.collect(),
        (0..signature.scalars.len()).map(scalar).collect(),
    )
}

fn evaluate(point: &Value, summary: &mut Summary) -> Result<(), Box<dyn Error>> {
    let id = point["id"].as_str().unwrap_or("");
    let target: &'static Target = Target::by_name(point["target"].as_str().unwrap_or(""))?;
    let text = std::fs::read_to_string(point["module"].as_str().unwrap_or(""))?;
    let module = Module::parse(&text)?;
    let signature = Signature::read(&module)?;
    let cores = if target.name == "v5p" { 2 } else { 1 };
    summary.points += 1;

    let start = Instant::now();
    let grid = Grid::new(&module, &signature, &scalars(point, &signature), cores)?;
    summary.grid_us.push(start.elapsed().as_secs_f64() * 1e6);

    let schedule = schedule_grid(
        &module,
        &Machine::new(target),
        &signature,
        &grid,
        &scalars(point, &signature),
    );
    let dropped = schedule
        .as_ref()
        .map_or(Vec::new(), |schedule| schedule.dropped.clone());
    let ledger = VmemLedger::new(&module, &signature, &grid, target, &dropped, None)?;
    let measured =
        point["used_bytes"].as_u64().unwrap_or(0) - point["spill_bytes"].as_u64().unwrap_or(0);
    let same = measured == ledger.used_bytes();
    summary.ledgers[0] += usize::from(same);
    summary.ledgers[1] += 1;
    if !same {
        let tags: Vec<String> = (point["allocations"].as_array().into_iter().flatten())
            .map(|a| format!("{} {} {}", a["tag"], a["shape"], a["bytes"]))
            .filter(|tag| !tag.contains("register spill"))
            .collect();
        let terms: Vec<String> = (ledger.terms.iter())
            .map(|t| format!("{} {:?} x{} {}", t.name, t.shape, t.buffers, t.bytes))
            .collect();
        println!(
            "{id}: ledger {} instead of {measured}\n    {}\n    {}",
            ledger.used_bytes(),
            terms.join("; "),
            tags.join("; ")
        );
    }
    pipeline(id, point, summary, target, &module, &signature, &grid)
}

/// Kinds of steps, their copies, and the time of the whole, from the true cycles of each kind.
fn pipeline(
    id: &str,
    point: &Value,
    summary: &mut Summary,
    target: &Target,
    module: &Module,
    signature: &Signature,
    grid: &Grid,
) -> Result<(), Box<dyn Error>> {
    let schedule = &point["schedule"];
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    let iterations = schedule["grid_iterations"].as_u64().unwrap_or(0);
    let steps = grid.steps();
    if iterations == 0 || steps < 2 || signature.operands.iter().all(|o| o.window.is_none()) {
        return Ok(());
    }
    let windows = windows(module, signature, grid, target)?;
    summary.grids[1] += 1;
    if iterations != steps + 1 && iterations != steps + 2 {
        println!("{id}: {iterations} iterations of {steps} steps");
        return Ok(());
    }
    // True kinds by ours: the first iteration only fetches.
    let sequence = grid.sequence(0, u64::MAX);
    let last = steps as usize - 1;
    // The last step is a class of its own where it is one to the compiler.
    let true_kinds = || schedule["step_kinds"].as_array().into_iter().flatten();
    let apart = true_kinds().all(|kind| kind["last"] != steps || kind["first"] == steps);
    let class = |iteration: u64| {
        (
            sequence[iteration as usize - 1],
            apart && iteration as usize - 1 == last,
        )
    };
    // The first step fetches what has one buffer.
    let singles: f64 = windows.iter().filter(|w| w.single).map(|w| w.bytes).sum();
    let mut mine: HashMap<(usize, bool), u64> = HashMap::new();
    (1..=steps).for_each(|i| *mine.entry(class(i)).or_default() += 1);
    let mut theirs: HashMap<(usize, bool), (u64, f64, f64, f64)> = HashMap::new();
    let mut outside = 0.0;
    let (mut ends, mut copied) = (0, true);
    for kind in schedule["step_kinds"].as_array().into_iter().flatten() {
        let (first, count) = (
            kind["first"].as_u64().unwrap_or(0),
            kind["count"].as_u64().unwrap_or(0),
        );
        if first == 0 || first > steps {
            outside += number(&kind["cycles"]);
            ends += count;
            continue;
        }
        let class = class(first);
        let sum = theirs.entry(class).or_default();
        sum.0 += count;
        sum.1 += count as f64 * number(&kind["cycles"]);
        sum.2 += count as f64 * number(&kind["dma_in_bytes"]);
        if first == 1 {
            sum.2 -= singles;
        }
        sum.3 += count as f64 * number(&kind["dma_out_bytes"]);
    }
    let same = mine.len() == theirs.len()
        && mine
            .iter()
            .all(|(class, n)| theirs.get(class).is_some_and(|t| t.0 == *n));
    summary.grids[0] += usize::from(same);
    if !same {
        println!("{id}: kinds differ, {ends} outside of {steps} steps: {mine:?} {theirs:?}");
        return Ok(());
    }
    for (&(kind, is_last), &(count, _, loaded, stored)) in &theirs {
        let moved = grid.kinds[kind].moved;
        let bytes = |output: bool| -> f64 {
            (windows.iter().enumerate())
                .filter(|(i, w)| w.output == output && (moved >> i & 1 == 1 || is_last && output))
                .map(|(_, w)| w.bytes)
                .sum()
        };
        let n = count as f64;
        if bytes(false) * n != loaded || bytes(true) * n != stored {
            println!(
                "{id}: {:?} loads {} stores {} instead of {} {}",
                grid.bodies[grid.kinds[kind].body].at,
                bytes(false),
                bytes(true),
                loaded / n,
                stored / n
            );
            copied = false;
        }
    }
    summary.copies[0] += usize::from(copied);
    summary.copies[1] += 1;
    let Some(with_copies) = schedule["cycles_with_dma"].as_object() else {
        return Ok(());
    };
    // Every kind as a body of its own.
    let mut grid = grid.clone();
    let mut bodies = Vec::new();
    for (i, kind) in grid.kinds.iter_mut().enumerate() {
        let sums = [false, true].map(|last| theirs.get(&(i, last)).copied().unwrap_or_default());
        let count = sums[0].0 + sums[1].0;
        kind.body = bodies.len();
        // Copies beyond those of windows are the kernel's own.
        let n = count.max(1) as f64;
        let moved = |output: bool| -> f64 {
            let moved = windows
                .iter()
                .enumerate()
                .filter(|(i, w)| w.output == output && kind.moved >> i & 1 == 1);
            moved.map(|(_, w)| w.bytes).sum()
        };
        let last: f64 = windows.iter().filter(|w| w.output).map(|w| w.bytes).sum();
        let own = [
            (Direction::Load, (sums[0].2 + sums[1].2) / n - moved(false)),
            (
                Direction::Store,
                (sums[0].3 + sums[1].3 - sums[1].0 as f64 * last) / n - moved(true),
            ),
        ];
        bodies.push(StepCost {
            cycles: (sums[0].1 + sums[1].1) / n,
            regions: Vec::new(),
            transfers: (own.into_iter())
                .filter(|(_, bytes)| *bytes > 0.0)
                .map(|(direction, bytes)| Transfer {
                    direction,
                    bytes,
                    times: 1.0,
                })
                .collect(),
        });
    }
    grid.bodies = (grid.times().into_iter())
        .map(|times| Body {
            at: Vec::new(),
            times,
        })
        .collect();
    let inside: f64 = theirs.values().map(|t| t.1).sum();
    let total = number(&schedule["total_cycles"]);
    let start = Instant::now();
    let pipeline = Pipeline {
        grid: &grid,
        windows,
        bodies,
        entry: (total - inside - outside).max(0.0),
        around: if ends > 0 { outside / ends as f64 } else { 0.0 },
        copies: Copies::new(target, grid.cores),
    };
    // The compiler's profile does not let the first step wait for windows of one buffer; this model does.
    let cycles = [
        (
            [
                "independent",
                "independent, one buffer",
                "independent, other copies",
            ],
            Bandwidth::Independent,
        ),
        (
            ["shared", "shared, one buffer", "shared, other copies"],
            Bandwidth::Shared,
        ),
    ];
    let cycles = cycles.map(|(names, bandwidth)| (names, pipeline.cycles(bandwidth)));
    summary
        .pipeline_us
        .push(start.elapsed().as_secs_f64() * 1e6);
    for ([name, one_buffer, other_copies], cycles) in cycles {
        let Some(measured) = with_copies.get(name).and_then(Value::as_f64) else {
            continue;
        };
        let error = 100.0 * (cycles / measured - 1.0).abs();
        let name = match (copied, singles > 0.0) {
            (true, false) => name,
            (true, true) => one_buffer,
            _ => other_copies,
        };
        if error > 1.0 && copied && singles == 0.0 {
            println!("{id}: {name} {cycles:.0} instead of {measured} ({error:.2} %)");
        }
        summary.errors.entry(name).or_default().push(error);
    }
    Ok(())
}
