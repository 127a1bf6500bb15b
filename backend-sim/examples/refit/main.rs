//! Fits the figures of the model that no document states to the cycles of the compiler's schedules.
//!
//! ```text
//! cargo run --release -p tilecast-sim --example refit -- FILE [TARGET...]
//! ```
//!
//! Coordinate descent on [`Machine::fitted`] for each target, over the points of `data/fit*.csv` alone; the
//! held-out sets are never read. The cycles around a step are a sum of parts that few kernels tell apart, so a descent
//! along one of them gets nowhere: they are solved for together ([`steps`]). Prints old and new figures and writes the
//! new ones to `FILE` as `target,figure,old,new`; nothing else changes. Whoever accepts them copies them into
//! `schedule/rates.rs` and looks at `tilecast validate` before and after.

mod steps;

use std::error::Error;
use std::fmt::Write;

use tilecast_core::target::{TARGETS, Target};
use tilecast_sim::schedule::Machine;
use tilecast_sim::validate::cycles;
use tilecast_sim::validate::point::{Set, Subject, points};

/// Steps of the rounds of the descent, as shares of a figure.
const STEPS: [f64; 6] = [0.25, 0.15, 0.1, 0.06, 0.03, 0.02];

/// Errors beyond this count less: they come from what the model lacks, not from a figure.
const OUTLIER: f64 = 0.2;
const OUTLIER_WEIGHT: f64 = 0.3;

/// Figures that stay as they are. Loads and stores take what the target table says, but for loads of v7x, where three a
/// cycle make the fit worse. The others are near what schedules of single operations say, and a fit to whole kernels
/// would have them stand for what the model lacks.
const HELD: [&str; 5] = [
    "load_slots",
    "store_slots",
    "valu_latency",
    "eup_latency",
    "reduce_latency",
];

/// Figures that are told apart from the cycles around a step only where these follow.
const BESIDE_STEPS: [&str; 2] = ["branch_cycles", "loop_cycles"];

/// How the names of the parts of the sum of cycles around a step begin.
const STEP: &str = "step_";

/// The least by which a step must lower the error to be taken.
const LEAST_GAIN: f64 = 1e-4;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let file = args
        .next()
        .ok_or("give the file to write, and targets unless all")?;
    let mut targets = args
        .map(|name| Target::by_name(&name))
        .collect::<Result<Vec<_>, _>>()?;
    if targets.is_empty() {
        targets.extend(&TARGETS);
    }
    let mut text = String::from("target,figure,old,new\n");
    for target in targets {
        refit(target, &mut text)?;
        std::fs::write(&file, &text)?;
    }
    println!("written to {file}");
    Ok(())
}

/// A kernel, the cores it was compiled for, and the cycles of its schedule.
type Sample = (Subject, u64, f64);

fn refit(target: &'static Target, text: &mut String) -> Result<(), Box<dyn Error>> {
    let mut samples: Vec<Sample> = Vec::new();
    for point in points(Set::Fit)?
        .into_iter()
        .filter(|point| point.target == target)
    {
        if let (Some(subject), Some(measured)) = (point.subject(&|_| None)?, point.measured.cycles)
        {
            samples.push((subject, point.cores(), measured));
        }
    }
    let mut machine = Machine::new(target);
    let start = machine.fitted().map(|(name, figure)| (name, *figure));
    let before = error(&machine, &samples)?;
    let mut best = before;
    println!("{target}: {} points, error {before:.4}", samples.len());
    for step in STEPS {
        for (i, &(name, first)) in start.iter().enumerate() {
            if HELD.contains(&name) || name.starts_with(STEP) {
                continue;
            }
            best = descend(
                &mut machine,
                i,
                bounds(target, name, first),
                step,
                best,
                &samples,
            )?;
        }
        best = steps::solve(&mut machine, best, &samples)?;
        println!("{target}: steps of {step}: error {best:.4}");
    }
    for ((name, old), (_, new)) in start.into_iter().zip(machine.fitted()) {
        println!("{target} {name}: {old:.3} -> {new:.3}");
        writeln!(text, "{target},{name},{old:.3},{new:.3}")?;
    }
    println!("{target}: error {before:.4} -> {best:.4}");
    Ok(())
}

/// What a figure may be, and the least by which it is moved.
struct Bounds {
    least: f64,
    most: f64,
    unit: f64,
}

fn bounds(target: &Target, name: &str, first: f64) -> Bounds {
    let slots = match name {
        "valu_slots" => target.valu_slots.value,
        "pop_slots" => target.result_pops_per_cycle.value,
        "load_slots" => target.vector_loads_per_cycle.value,
        "store_slots" => target.vector_stores_per_cycle.value,
        _ => 0,
    };
    let kind = name.split('_').next_back().unwrap_or(name);
    match kind {
        // A unit is never faster than it is.
        "slots" => Bounds {
            least: f64::MIN_POSITIVE,
            most: first.max(slots as f64),
            unit: 0.5,
        },
        _ => Bounds {
            least: 0.0,
            most: f64::INFINITY,
            unit: 0.5,
        },
    }
}

/// Moves one figure as long as that lowers the error; the error then.
fn descend(
    machine: &mut Machine,
    i: usize,
    bounds: Bounds,
    step: f64,
    mut best: f64,
    samples: &[Sample],
) -> Result<f64, Box<dyn Error>> {
    for sign in [1.0, -1.0] {
        loop {
            let old = *machine.fitted()[i].1;
            let new = old + sign * step * old.abs().max(bounds.unit);
            if !(bounds.least..=bounds.most).contains(&new) {
                break;
            }
            let steps = machine.step_cycles;
            *machine.fitted()[i].1 = new;
            let mut error = error(machine, samples)?;
            if BESIDE_STEPS.contains(&machine.fitted()[i].0) {
                error = steps::solve(machine, error, samples)?;
            }
            if error > best - LEAST_GAIN {
                *machine.fitted()[i].1 = old;
                machine.step_cycles = steps;
                break;
            }
            best = error;
        }
    }
    Ok(best)
}

/// Mean of the logarithmic errors without signs, outliers weighing less.
fn error(machine: &Machine, samples: &[Sample]) -> Result<f64, Box<dyn Error>> {
    let mut sum = 0.0;
    for (subject, cores, measured) in samples {
        let error = (cycles(subject, machine, *cores)? / measured).ln().abs();
        sum += error.min(OUTLIER) + OUTLIER_WEIGHT * (error - OUTLIER).max(0.0);
    }
    Ok(sum / samples.len() as f64)
}
