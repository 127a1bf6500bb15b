//! The op in f64, by its definition.

use alloc::vec;
use alloc::vec::Vec;

use super::GroupedMatmul;

/// The expert of each row that has one.
fn experts(sizes: &[i32]) -> impl Iterator<Item = usize> {
    let of_expert = |(expert, &size)| core::iter::repeat_n(expert, size as usize);
    sizes.iter().enumerate().flat_map(of_expert)
}

/// `y [T,O]` of `x [T,I]`, `w [E,I,O]` and the sizes of the groups.
pub fn forward(op: &GroupedMatmul, x: &[f64], w: &[f64], sizes: &[i32]) -> Vec<f64> {
    let [inputs, outputs] = [op.inputs(), op.outputs()];
    let mut y = vec![0.0; op.rows() * outputs];
    for (t, e) in experts(sizes).enumerate() {
        for i in 0..inputs {
            for o in 0..outputs {
                y[t * outputs + o] += x[t * inputs + i] * w[(e * inputs + i) * outputs + o];
            }
        }
    }
    y
}

/// `dx [T,I]` and `dw [E,I,O]` for the cotangent `dy [T,O]`.
pub fn backward(
    op: &GroupedMatmul,
    [x, w, dy]: [&[f64]; 3],
    sizes: &[i32],
) -> (Vec<f64>, Vec<f64>) {
    let [inputs, outputs] = [op.inputs(), op.outputs()];
    let mut dx = vec![0.0; op.rows() * inputs];
    let mut dw = vec![0.0; op.experts() * inputs * outputs];
    for (t, e) in experts(sizes).enumerate() {
        for i in 0..inputs {
            for o in 0..outputs {
                let at = (e * inputs + i) * outputs + o;
                let dy = dy[t * outputs + o];
                dx[t * inputs + i] += dy * w[at];
                dw[at] += x[t * inputs + i] * dy;
            }
        }
    }
    (dx, dw)
}
