//! Whether the best block sizes are found: the predicted best of a shape against the true best.

use std::collections::BTreeMap;

use super::{Outcome, Set};

/// Fewer block sizes than this are no choice.
const LEAST_BLOCKS: usize = 3;

/// The choice for one shape.
#[derive(Clone, PartialEq, Debug)]
pub struct Choice {
    /// Target, kernel and problem.
    pub shape: String,
    /// Number of block sizes.
    pub blocks: usize,
    /// The point with the fewest predicted cycles.
    pub chosen: String,
    /// How much more cycles than the best it was measured to take, a share of those of the best.
    pub loss: f64,
}

/// One choice for each shape of a set that has several block sizes. Copies count where they were
/// measured for all of a shape.
pub fn choices(outcomes: &[Outcome], set: Set) -> Vec<Choice> {
    let mut shapes: BTreeMap<String, Vec<&Outcome>> = BTreeMap::new();
    for outcome in outcomes.iter().filter(|outcome| outcome.point.set == set) {
        if let Some(shape) = outcome.point.shape() {
            shapes.entry(shape).or_default().push(outcome);
        }
    }
    (shapes.into_iter())
        .filter_map(|(shape, outcomes)| choice(shape, &outcomes))
        .collect()
}

fn choice(shape: String, outcomes: &[&Outcome]) -> Option<Choice> {
    let copies = |outcome: &&Outcome| outcome.point.measured.cycles_with_copies.is_some();
    let with_copies = outcomes.iter().all(copies);
    let pairs: Vec<(f64, f64, &Outcome)> = (outcomes.iter())
        .filter_map(|&outcome| {
            let (predicted, measured) = (outcome.predicted.cycles?, &outcome.point.measured);
            Some(match measured.cycles_with_copies.filter(|_| with_copies) {
                Some([_, shared]) => (predicted.with_copies[1], shared, outcome),
                None => (predicted.schedule, measured.cycles?, outcome),
            })
        })
        .collect();
    if pairs.len() < LEAST_BLOCKS {
        return None;
    }
    let chosen = pairs.iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
    let best = pairs.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(Choice {
        shape,
        blocks: pairs.len(),
        chosen: chosen.2.point.name(),
        loss: chosen.1 / best.1 - 1.0,
    })
}
