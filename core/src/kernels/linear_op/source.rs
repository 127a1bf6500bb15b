//! A head as the source of logits.

use super::LinearOp;
use crate::expr::Expr;
use crate::kernels::head::{
    Backward, Coefficients, Ending, ForwardPass, Head, HeadInputs, HeadKernel, Names, PerRow,
    Schedule,
};
use crate::kernels::softmax::{Found, LogitsError, SoftmaxProgram, Source, Terms, Vectors, Wanted};
use crate::program::{ArrayId, Program};

/// Logits that are computed in blocks.
#[derive(Clone, Copy)]
pub(super) struct Computed {
    head: Head,
    inputs: HeadInputs,
    names: Names,
    schedule: Schedule,
}

impl SoftmaxProgram<Computed> {
    /// A program with the inputs of the head declared.
    pub(super) fn computed(
        name: &'static str,
        op: &LinearOp,
        names: Names,
        schedule: &Schedule,
    ) -> Self {
        let mut program = Program::new(name);
        let source = Computed {
            head: op.head,
            inputs: HeadInputs::declare(&mut program, &op.head),
            names,
            schedule: *schedule,
        };
        Self {
            program,
            source,
            problem: *op.op.logits(),
        }
    }
}

impl Source for Computed {
    type Kernel = HeadKernel;

    fn statistics(
        p: &mut SoftmaxProgram<Self>,
        wanted: Wanted,
        labels: Option<ArrayId>,
        found: &Found,
    ) -> Result<(), LogitsError> {
        let Self {
            head,
            inputs,
            names,
            schedule,
        } = p.source;
        let scale = p.problem.scale();
        let pass = ForwardPass {
            names,
            head: &head,
            inputs,
            labels,
            vectors: found.operands().collect(),
            ending: |rows: &mut PerRow<'_>| Ending::plain(rows, wanted, scale),
        };
        Ok(pass.add(&mut p.program, &schedule)?)
    }

    fn gradient(p: &mut SoftmaxProgram<Self>, vectors: &Vectors) -> Result<(), LogitsError> {
        let (terms, scale) = (vectors.terms(), p.problem.scale());
        let Self {
            head,
            inputs,
            names,
            schedule,
        } = p.source;
        let backward = Backward {
            names,
            head: &head,
            schedule: &schedule,
            inputs,
            vectors: vectors.operands().collect(),
            coefficients: |rows: &mut PerRow<'_>| coefficients(rows, terms, scale),
        };
        Ok(backward.add(&mut p.program)?)
    }
}

/// Operands `lse`, `probability`, (`log_probability`), (`labels`, `one_hot`), (`uniform`), as the terms say.
fn coefficients(rows: &mut PerRow<'_>, terms: Terms, scale: f32) -> Coefficients {
    let lse = rows.input("lse");
    let probability = rows.input("probability");
    let log_probability = (terms.log_probability).then(|| rows.input("log_probability"));
    let one_hot = (terms.one_hot).then(|| [rows.labels(), rows.input("one_hot")]);
    let uniform = terms.uniform.then(|| rows.input("uniform"));
    // Laid out once as the rows of a tile are, where windows are laid out as they come.
    let mut prepare = alloc::vec::Vec::new();
    let mut by_row = |name, window| {
        let kept = rows.scratch(name);
        prepare.push((kept, Expr::leaf(window)));
        kept
    };
    let probability = by_row("probability_by_row", probability);
    let log_probability = log_probability.map(|window| by_row("log_probability_by_row", window));
    let one_hot = one_hot.map(|[labels, window]| [labels, by_row("one_hot_by_row", window)]);
    let uniform = uniform.map(|window| by_row("uniform_by_row", window));
    Coefficients {
        scale,
        lse,
        probability,
        log_probability,
        one_hot,
        uniform,
        prepare,
    }
}
