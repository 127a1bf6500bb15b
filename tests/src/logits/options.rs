//! Options of the ops that many cases have.

use tilecast::core::kernels::grpo::{self, Variant};
use tilecast::core::kernels::logits_ce;
use tilecast::core::kernels::softmax::LogitsOptions;

/// A temperature below one.
pub fn warm() -> LogitsOptions {
    LogitsOptions {
        temperature: 0.7,
        ..LogitsOptions::default()
    }
}

/// Cross-entropy with every option at once.
pub fn ce_everything() -> logits_ce::Options {
    logits_ce::Options {
        logits: warm(),
        ignore_index: Some(-100),
        label_smoothing: 0.1,
        z_loss: 1e-2,
    }
}

/// Sequences of 4 tokens and every option that all variants have.
pub fn policy_everything(variant: Variant) -> grpo::Options {
    grpo::Options {
        logits: warm(),
        variant,
        clip_low: 0.2,
        clip_high: if variant == Variant::Cispo { 1.3 } else { 0.28 },
        clip_two_sided: Some(1.9),
        kl_beta: 0.1,
        mask: true,
        sequence_length: Some(4),
        ..grpo::Options::default()
    }
}
