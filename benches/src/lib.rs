//! What benches and the comparison with PyTorch share.

pub mod bandwidth;
pub mod logits;

/// The median of some times.
///
/// # Panics
/// If there is none.
pub fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}
