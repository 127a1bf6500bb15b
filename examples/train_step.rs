//! Link tilecast as a library: a few steps of gradient descent on a tiny language-model head.
//!
//! Asserts that the loss falls and that padding tokens do not move anything.

use tilecast::{Cotangents, Matrix, Reduction, linear_ce};

const TOKENS: usize = 64;
const HIDDEN: usize = 32;
const VOCAB: usize = 1000;
const PADDING: i32 = -100;

fn main() -> Result<(), tilecast::Error> {
    let x: Vec<f32> = (0..TOKENS * HIDDEN)
        .map(|i| (i as f32 * 1.7).sin())
        .collect();
    let mut w: Vec<f32> = (0..HIDDEN * VOCAB)
        .map(|i| 0.1 * (i as f32 * 0.9).cos())
        .collect();
    // Every fourth token is padding.
    let labels: Vec<i32> = (0..TOKENS)
        .map(|i| {
            if i % 4 == 3 {
                PADDING
            } else {
                (i * 131 % VOCAB) as i32
            }
        })
        .collect();

    let mut losses = Vec::new();
    for step in 0..20 {
        let loss = linear_ce(
            Matrix::new(&x[..], TOKENS, HIDDEN)?,
            Matrix::new(&w[..], HIDDEN, VOCAB)?,
            &labels,
        )
        .ignore_index(PADDING)
        .z_loss(1e-4)
        .reduction(Reduction::Mean);

        let forward = loss.forward()?;
        let gradients = loss.backward(&forward.lse, Cotangents::ones())?;

        // A padding token has no gradient, not even a rounding error.
        let dx = gradients.dx.to_f32();
        assert!(dx[3 * HIDDEN..4 * HIDDEN].iter().all(|&g| g == 0.0));

        for (w, g) in w.iter_mut().zip(gradients.dw.to_f32()) {
            *w -= 0.5 * g;
        }
        if step % 5 == 0 {
            println!("step {step:2}  loss {:.4}", forward.loss[0]);
        }
        losses.push(forward.loss[0]);
    }
    assert!(
        losses.windows(2).all(|pair| pair[1] < pair[0]),
        "{losses:?}"
    );
    println!(
        "the loss fell from {:.3} to {:.3}",
        losses[0],
        losses[losses.len() - 1]
    );
    Ok(())
}
