//! Finite differences: what a gradient is held against that nothing else checks.

/// Central differences of `value` at every element.
pub fn differences(at: &[f64], value: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let step = 1e-5;
    let moved = |i: usize, step: f64| {
        let mut moved = at.to_vec();
        moved[i] += step;
        value(&moved)
    };
    let each = |i| (moved(i, step) - moved(i, -step)) / (2.0 * step);
    (0..at.len()).map(each).collect()
}
