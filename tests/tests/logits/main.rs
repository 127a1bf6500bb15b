//! The ops on given logits, on every column: cases, random cases, traps, and the reference itself.

mod cases;
mod differences;
mod random;
mod traps;

use tilecast::core::kernels::grpo::{self, Variant};
use tilecast::core::kernels::logits_ce;
use tilecast::core::kernels::softmax::LogitsOptions;
use tilecast_tests::logits::{Case, Column, Op, assert_case, ce_everything, policy_everything};

fn ce() -> logits_ce::Options {
    logits_ce::Options::default()
}

fn policy() -> grpo::Options {
    grpo::Options::default()
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
