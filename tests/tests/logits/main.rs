//! The ops on given logits, on every column: cases, random cases, traps, and the reference itself.

mod cases;
mod differences;
mod random;
mod traps;

use tilecast::core::kernels::grpo::{self, Variant};
use tilecast::core::kernels::logits_ce;
use tilecast::core::kernels::softmax::LogitsOptions;
use tilecast_tests::logits::{Case, Column, Op, assert_case};

fn ce() -> logits_ce::Options {
    logits_ce::Options::default()
}

fn policy() -> grpo::Options {
    grpo::Options::default()
}

fn warm() -> LogitsOptions {
    LogitsOptions {
        temperature: 0.7,
        ..LogitsOptions::default()
    }
}

/// Every option at once.
fn ce_everything() -> logits_ce::Options {
    logits_ce::Options {
        logits: warm(),
        ignore_index: Some(-100),
        label_smoothing: 0.1,
        z_loss: 1e-2,
    }
}

/// Sequences of 4 tokens and every option that all variants have.
fn policy_everything(variant: Variant) -> grpo::Options {
    grpo::Options {
        logits: warm(),
        variant,
        clip_low: 0.2,
        clip_high: if variant == Variant::Cispo { 1.3 } else { 0.28 },
        clip_two_sided: Some(1.9),
        kl_beta: 0.1,
        mask: true,
        sequence_length: Some(4),
        ..policy()
    }
}

fn at(logits: LogitsOptions) -> [Op; 3] {
    [
        Op::LogitsCe(logits_ce::Options {
            logits,
            ..ce_everything()
        }),
        Op::Entropy(logits),
        Op::Grpo(grpo::Options {
            logits,
            ..policy_everything(Variant::Grpo)
        }),
    ]
}

fn assert_all(name: &'static str, ops: impl IntoIterator<Item = Op>, edit: impl Fn(Case) -> Case) {
    for op in ops {
        let case = edit(Case::new(name, op));
        assert_case(&case);
        assert_case(&case.bf16());
    }
}

fn on_cpu() -> impl Iterator<Item = Column> {
    Column::all()
        .into_iter()
        .filter(|column| matches!(column, Column::Cpu(_)))
}
