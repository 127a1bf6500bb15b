//! [`Mismatch`]: what is printed when values differ.

use std::fmt;

use approx::RelativeEq;
use half::bf16;
use tilecast::DType;

use crate::tolerance::Tolerance;

/// How an array differs from what was expected.
#[derive(Clone, PartialEq, Debug)]
pub struct Mismatch {
    /// Array.
    pub name: &'static str,
    /// Number of elements off by more than the tolerance.
    pub count: usize,
    /// Number of elements.
    pub len: usize,
    /// Index of the first one that is off.
    pub first: Vec<usize>,
    /// Its value.
    pub got: f64,
    /// What it should be.
    pub expected: f64,
    /// What it may be off by, and why.
    pub allowed: String,
    /// Largest absolute difference of all elements.
    pub max_abs: f64,
    /// Largest relative difference.
    pub max_rel: f64,
    /// Largest distance in units in the last place of the array's type.
    pub max_ulp: u64,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            count,
            len,
            first,
            got,
            expected,
            allowed,
            max_abs,
            max_rel,
            max_ulp,
        } = self;
        write!(
            f,
            "{name}: {count} of {len} elements differ, first {first:?}: got {got:e}, expected {expected:e}, \
             allowed {allowed}; max abs {max_abs:.3e}, max rel {max_rel:.3e}, max ulp {max_ulp}"
        )
    }
}

/// Compares an array of shape `dims` with what it should be. Values that are not finite agree
/// only with themselves, NaN with NaN.
///
/// # Errors
/// The largest differences and the first.
///
/// # Panics
/// If `expected` does not have the shape.
pub fn compare(
    name: &'static str,
    dtype: DType,
    dims: &[usize],
    got: &[f32],
    expected: &[f64],
    tolerance: &Tolerance,
) -> Result<(), Box<Mismatch>> {
    let len: usize = dims.iter().product();
    assert_eq!(expected.len(), len, "{name}: expected values");
    let mut mismatch = Mismatch {
        name,
        count: 0,
        len,
        first: Vec::new(),
        got: f64::NAN,
        expected: f64::NAN,
        allowed: format!("{len} elements, got {}", got.len()),
        max_abs: 0.0,
        max_rel: 0.0,
        max_ulp: 0,
    };
    if got.len() != len {
        return Err(Box::new(mismatch));
    }
    for (i, (&got, &expected)) in got.iter().zip(expected).enumerate() {
        let difference = (f64::from(got) - expected).abs();
        let same = got.is_nan() && expected.is_nan()
            || f64::from(got).relative_eq(&expected, tolerance.at(i), 0.0);
        if difference > 0.0 {
            mismatch.max_abs = mismatch.max_abs.max(difference);
            mismatch.max_rel = mismatch.max_rel.max(difference / expected.abs());
        }
        mismatch.max_ulp = mismatch.max_ulp.max(ulps(dtype, got, expected as f32));
        if same {
            continue;
        }
        if mismatch.count == 0 {
            mismatch.first = index(i, dims);
            (mismatch.got, mismatch.expected) = (f64::from(got), expected);
            mismatch.allowed = format!("{:.2e} = {}", tolerance.at(i), tolerance.derivation(i));
        }
        mismatch.count += 1;
    }
    match mismatch.count {
        0 => Ok(()),
        _ => Err(Box::new(mismatch)),
    }
}

/// Number of representable values from `a` to `b`; that of all of them if one is NaN.
pub fn ulps(dtype: DType, a: f32, b: f32) -> u64 {
    if a.is_nan() || b.is_nan() {
        return if a.is_nan() && b.is_nan() {
            0
        } else {
            u64::MAX
        };
    }
    // Sign and magnitude to a line on which neighbours differ by 1.
    let position = |x: f32| match dtype {
        DType::Bf16 => ordered(i64::from(bf16::from_f32(x).to_bits()), 15),
        _ => ordered(i64::from(x.to_bits()), 31),
    };
    position(a).abs_diff(position(b))
}

fn ordered(bits: i64, sign: u32) -> i64 {
    let magnitude = bits & ((1 << sign) - 1);
    if bits >> sign == 0 {
        magnitude
    } else {
        -magnitude
    }
}

fn index(mut i: usize, dims: &[usize]) -> Vec<usize> {
    let mut index: Vec<usize> = dims
        .iter()
        .rev()
        .map(|&dim| {
            let at = i % dim;
            i /= dim;
            at
        })
        .collect();
    index.reverse();
    index
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tolerance::{Term, f32_unit};

    #[test]
    fn a_mismatch_says_what_where_and_how_much() {
        let expected = [1.0, 2.0, 4.0, 8.0];
        let tolerance = Tolerance::exact().plus(Term {
            what: "sum",
            k: 4.0,
            unit: f32_unit(),
            depth: 16,
            magnitude: vec![1.0; 4],
        });
        let got = [1.0, 2.0, 4.5, f32::NAN];
        let error = compare("dx", DType::F32, &[2, 2], &got, &expected, &tolerance).unwrap_err();
        assert_eq!(
            error.to_string(),
            "dx: 2 of 4 elements differ, first [1, 0]: got 4.5e0, expected 4e0, allowed 9.54e-7 = \
             9.5e-7 (sum: 4 x 2^-24 x sqrt(16) x 1.00e0); max abs 5.000e-1, max rel 1.250e-1, \
             max ulp 18446744073709551615"
        );
        assert!(compare("dx", DType::F32, &[4], &got[..3], &expected, &tolerance).is_err());
    }

    #[test]
    fn values_that_are_not_finite_agree_only_with_themselves() {
        let values = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        let compare = |got: [f32; 3]| {
            compare("x", DType::F32, &[3], &got, &values, &Tolerance::exact()).is_ok()
        };
        let inf = f32::INFINITY;
        assert!(compare([f32::NAN, inf, -inf]));
        assert!(!compare([f32::NAN, inf, inf]));
        assert!(!compare([0.0, inf, -inf]));
        assert!(!compare([f32::NAN, f32::MAX, -inf]));
    }

    #[test]
    fn ulps_count_representable_values() {
        assert_eq!(ulps(DType::F32, 1.0, 1.0 + f32::EPSILON), 1);
        assert_eq!(ulps(DType::F32, -0.0, 0.0), 0);
        assert_eq!(ulps(DType::F32, -f32::from_bits(1), f32::from_bits(1)), 2);
        assert_eq!(ulps(DType::Bf16, 1.0, 1.0078125), 1);
    }
}
