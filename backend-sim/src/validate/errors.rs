//! Statistics of relative errors.

/// How far predictions are from what was measured; shares of what was measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Errors {
    /// Number of points.
    pub points: usize,
    /// Mean of the signed errors: above 0, predictions are too large.
    pub bias: f64,
    /// Mean without signs.
    pub mean: f64,
    /// Median without signs.
    pub median: f64,
    /// What 95 % of the errors do not exceed, without signs.
    pub p95: f64,
    /// The largest without sign.
    pub largest: f64,
}

impl Errors {
    /// Of pairs of a prediction and what was measured; `None` if there are none.
    pub fn of(pairs: impl IntoIterator<Item = (f64, f64)>) -> Option<Self> {
        let signed: Vec<f64> = (pairs.into_iter())
            .map(|(predicted, measured)| predicted / measured - 1.0)
            .collect();
        let mut sorted: Vec<f64> = signed.iter().map(|error| error.abs()).collect();
        sorted.sort_by(f64::total_cmp);
        let points = sorted.len();
        let last = points.checked_sub(1)?;
        let mean = |list: &[f64]| list.iter().sum::<f64>() / points as f64;
        Some(Self {
            points,
            bias: mean(&signed),
            mean: mean(&sorted),
            median: median(&sorted),
            // The smallest error that 95 % of all do not exceed.
            p95: sorted[(points * 95).div_ceil(100).min(points) - 1],
            largest: sorted[last],
        })
    }
}

/// The middle of a sorted list, or the mean of the two in the middle.
pub(super) fn median(sorted: &[f64]) -> f64 {
    let n = sorted.len();
    (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_of_known_lists() {
        assert_eq!(Errors::of([]), None);
        let one = Errors::of([(90.0, 100.0)]).unwrap();
        assert_eq!(one.points, 1);
        for value in [-one.bias, one.mean, one.median, one.p95, one.largest] {
            assert!((value - 0.1).abs() < 1e-12, "{one:?}");
        }
        // Errors of 1 % to 100 %, half of them too small.
        let pairs = (1..=100).map(|i| (100.0 + f64::from(if i % 2 == 0 { i } else { -i }), 100.0));
        let all = Errors::of(pairs).unwrap();
        let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
        assert!(near(all.mean, 0.505) && near(all.median, 0.505), "{all:?}");
        assert!(near(all.p95, 0.95) && near(all.largest, 1.0), "{all:?}");
        assert!(near(all.bias, 0.005), "{all:?}");
    }
}
