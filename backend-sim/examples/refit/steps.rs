//! The parts of the cycles around a step, solved for together.
//!
//! The cycles of a kernel are linear in them: how often each counts is read by giving one at a time a value. What
//! lowers the mean error without signs is found by least squares over and over, each sample weighed by the inverse of
//! its last error.

use std::error::Error;

use tilecast_sim::schedule::{Machine, STEP_PARTS as PARTS};
use tilecast_sim::validate::cycles;

use super::{OUTLIER, OUTLIER_WEIGHT, Sample, error};

/// Rounds of least squares.
const ROUNDS: usize = 100;

/// An error that is as good as none.
const LEAST_ERROR: f64 = 0.01;

/// What keeps a part near 0 that no sample has, as a share of the others' weight.
const RIDGE: f64 = 1e-6;

/// Sets the parts to what fits the samples best, if that lowers the error; the error then.
pub(super) fn solve(
    machine: &mut Machine,
    best: f64,
    samples: &[Sample],
) -> Result<f64, Box<dyn Error>> {
    let old = machine.step_cycles;
    let rows = rows(machine, samples)?;
    machine.step_cycles = fit(&rows);
    let new = error(machine, samples)?;
    if new >= best {
        machine.step_cycles = old;
        return Ok(best);
    }
    Ok(new)
}

/// A sample's cycles without any of the parts, and how often each counts, as shares of those that were measured.
type Row = (f64, [f64; PARTS]);

fn rows(machine: &mut Machine, samples: &[Sample]) -> Result<Vec<Row>, Box<dyn Error>> {
    /// More than what a fixed part below 0 could take away.
    const VALUE: f64 = 1000.0;
    let mut rows = Vec::with_capacity(samples.len());
    for (subject, cores, measured) in samples {
        machine.step_cycles = [0.0; PARTS];
        let without = cycles(subject, machine, *cores)?;
        let mut times = [0.0; PARTS];
        for (i, times) in times.iter_mut().enumerate() {
            machine.step_cycles = std::array::from_fn(|part| if part == i { VALUE } else { 0.0 });
            *times = (cycles(subject, machine, *cores)? - without) / VALUE / measured;
        }
        rows.push((without / measured, times));
    }
    Ok(rows)
}

fn fit(rows: &[Row]) -> [f64; PARTS] {
    let mut weights = vec![1.0; rows.len()];
    let mut parts = [0.0; PARTS];
    for _ in 0..ROUNDS {
        parts = least_squares(rows, &weights);
        for ((without, times), weight) in rows.iter().zip(&mut weights) {
            let sum: f64 = parts
                .iter()
                .zip(times)
                .map(|(part, times)| part * times)
                .sum();
            let error = (without + sum - 1.0).abs();
            let counts = if error < OUTLIER { 1.0 } else { OUTLIER_WEIGHT };
            *weight = counts / error.max(LEAST_ERROR);
        }
    }
    parts
}

/// The parts with which the weighed squares of the errors have the least sum, where only the fixed part may be below 0:
/// of the others, the lowest that would be is none, until none would be.
fn least_squares(rows: &[Row], weights: &[f64]) -> [f64; PARTS] {
    let mut counts = [true; PARTS];
    loop {
        let parts = solved(rows, weights, counts);
        match (1..PARTS).min_by(|&a, &b| parts[a].total_cmp(&parts[b])) {
            Some(lowest) if parts[lowest] < 0.0 => counts[lowest] = false,
            _ => return parts,
        }
    }
}

/// The same, whatever the signs, of the parts that count: the normal equations.
fn solved(rows: &[Row], weights: &[f64], counts: [bool; PARTS]) -> [f64; PARTS] {
    let mut matrix = [[0.0; PARTS + 1]; PARTS];
    for ((without, times), weight) in rows.iter().zip(weights) {
        let times: [f64; PARTS] = std::array::from_fn(|i| if counts[i] { times[i] } else { 0.0 });
        for (equation, of) in matrix.iter_mut().zip(times) {
            for (entry, times) in equation.iter_mut().zip(times) {
                *entry += weight * of * times;
            }
            equation[PARTS] += weight * of * (1.0 - without);
        }
    }
    let trace: f64 = (0..PARTS).map(|i| matrix[i][i]).sum();
    for (i, equation) in matrix.iter_mut().enumerate() {
        equation[i] += RIDGE * trace;
    }
    // Positive definite, so no rows need to change places.
    for i in 0..PARTS {
        let pivot = matrix[i];
        for (j, equation) in matrix.iter_mut().enumerate() {
            let factor = equation[i] / pivot[i];
            if j != i {
                for (entry, pivot) in equation.iter_mut().zip(pivot) {
                    *entry -= factor * pivot;
                }
            }
        }
    }
    std::array::from_fn(|i| matrix[i][PARTS] / matrix[i][i])
}
