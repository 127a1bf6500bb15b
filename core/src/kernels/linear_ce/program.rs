//! The op as launches: its kernels, and what surrounds them.

use alloc::vec::Vec;

use super::{LinearCe, Reduction};
use crate::DType;
use crate::expr::{Expr, Int};
use crate::kernels::head::{
    Backward, Coefficients, Ending, ForwardPass, HeadError, HeadInputs, HeadKernel, Names, PerRow,
    Schedule, Stored, StoredPasses, names,
};
use crate::kernels::softmax::Wanted;
use crate::program::{ArrayId, Program, Role, Step};
use crate::view::RowsRef;

const NAMES: Names = names!("linear_ce");

type Ce = Program<HeadKernel>;

/// The arrays both passes read.
struct Inputs {
    head: HeadInputs,
    labels: ArrayId,
    /// The factor of each token's loss in the result.
    weight: Option<ArrayId>,
}

impl Inputs {
    fn declare(program: &mut Ce, problem: &LinearCe) -> Result<Self, HeadError> {
        let head = HeadInputs::declare(program, &problem.head);
        let labels = program.array(Role::Input, "labels", DType::I32, [problem.tokens()]);
        let weight = token_weight(program, problem, labels)?;
        Ok(Self {
            head,
            labels,
            weight,
        })
    }
}

/// The factor of each token: its weight or 1, 0 if ignored, divided by their sum for a mean.
fn token_weight(
    program: &mut Ce,
    problem: &LinearCe,
    labels: ArrayId,
) -> Result<Option<ArrayId>, HeadError> {
    if !problem.weighted() {
        return Ok(None);
    }
    let (options, b) = (&problem.options, problem.tokens());
    let given = (options.weight).then(|| program.array(Role::Input, "weight", DType::F32, [b]));
    let mut value = given.map_or(Expr::constant(1.0), Expr::from);
    if let Some(index) = options.ignore_index {
        value = Int::from(labels).equals(index).select(0.0, value);
    }
    let counted = program.array(Role::Temporary, "token_weight", DType::F32, [b]);
    program.push(Step::Map { to: counted, value })?;
    if options.reduction != Reduction::Mean {
        return Ok(Some(counted));
    }
    let sum = program.array(Role::Temporary, "weight_sum", DType::F32, [1]);
    program.push(Step::Total {
        from: counted,
        to: sum,
    })?;
    let share = program.array(Role::Temporary, "token_share", DType::F32, [b]);
    let (counted, sum) = (Expr::from(counted), Expr::from(sum));
    // No token left: every share is 0, and so are loss and gradients.
    let value = sum.clone().equals(0.0).select(0.0, counted / sum);
    program.push(Step::Map { to: share, value })?;
    Ok(Some(share))
}

pub(super) fn forward(problem: &LinearCe, schedule: &Schedule) -> Result<Ce, HeadError> {
    schedule.check()?;
    let mut program = Program::new("linear_ce forward");
    let inputs = Inputs::declare(&mut program, problem)?;
    add_forward(&mut program, problem, schedule, &inputs)?;
    Ok(program)
}

pub(super) fn backward(problem: &LinearCe, schedule: &Schedule) -> Result<Ce, HeadError> {
    schedule.check()?;
    let mut program = Program::new("linear_ce backward");
    let inputs = Inputs::declare(&mut program, problem)?;
    let lse = program.array(Role::Input, "lse", DType::F32, [problem.tokens()]);
    add_backward(&mut program, problem, schedule, &inputs, lse)?;
    Ok(program)
}

pub(super) fn both(problem: &LinearCe, schedule: &Schedule) -> Result<Ce, HeadError> {
    schedule.check()?;
    let mut program = Program::new("linear_ce forward and backward");
    let inputs = Inputs::declare(&mut program, problem)?;
    let lse = add_forward(&mut program, problem, schedule, &inputs)?;
    add_backward(&mut program, problem, schedule, &inputs, lse)?;
    Ok(program)
}

pub(super) fn stored(problem: &LinearCe, stored: &Stored) -> Result<Ce, HeadError> {
    let mut program = Program::new("linear_ce forward and backward, logits stored");
    let inputs = Inputs::declare(&mut program, problem)?;
    let outputs = Outputs::declare(&mut program, problem);
    StoredPasses {
        stored,
        forward: outputs.pass(problem, &inputs),
        backward_vectors: backward_vectors(&mut program, problem, &inputs, outputs.lse)?,
        coefficients: |rows: &mut PerRow<'_>| coefficients(problem, rows),
    }
    .add(&mut program)?;
    outputs.reduce(&mut program, problem)?;
    Ok(program)
}

/// What the forward pass writes for each token.
struct Outputs {
    token_loss: ArrayId,
    lse: ArrayId,
}

impl Outputs {
    fn declare(program: &mut Ce, problem: &LinearCe) -> Self {
        let (role, name) = match problem.options.reduction {
            Reduction::None => (Role::Output, "loss"),
            _ => (Role::Temporary, "token_loss"),
        };
        let b = problem.tokens();
        Self {
            token_loss: program.array(role, name, DType::F32, [b]),
            lse: program.array(Role::Output, "lse", DType::F32, [b]),
        }
    }

    /// The pass that makes them.
    fn pass<'a>(
        &self,
        problem: &'a LinearCe,
        inputs: &Inputs,
    ) -> ForwardPass<'a, impl FnOnce(&mut PerRow<'_>) -> Ending + use<'a>> {
        let outputs = [self.token_loss, self.lse];
        ForwardPass {
            names: NAMES,
            head: &problem.head,
            inputs: inputs.head,
            labels: Some(inputs.labels),
            vectors: inputs.weight.into_iter().chain(outputs).collect(),
            ending: |rows: &mut PerRow<'_>| ending(problem, rows),
        }
    }

    /// Adds the reduction of the losses, if there is one.
    fn reduce(&self, program: &mut Ce, problem: &LinearCe) -> Result<(), HeadError> {
        if problem.options.reduction != Reduction::None {
            let to = program.array(Role::Output, "loss", DType::F32, [1]);
            let from = self.token_loss;
            program.push(Step::Total { from, to })?;
        }
        Ok(())
    }
}

/// The forward pass; returns the logsumexp.
fn add_forward(
    program: &mut Ce,
    problem: &LinearCe,
    schedule: &Schedule,
    inputs: &Inputs,
) -> Result<ArrayId, HeadError> {
    let outputs = Outputs::declare(program, problem);
    outputs.pass(problem, inputs).add(program, schedule)?;
    outputs.reduce(program, problem)?;
    Ok(outputs.lse)
}

/// Operands `labels`, (`weight`), `loss`, `lse`.
fn ending(problem: &LinearCe, rows: &mut PerRow<'_>) -> Ending {
    let options = &problem.options;
    let smoothing = options.label_smoothing;
    let labels = rows.labels();
    let weight = problem.weighted().then(|| rows.input("weight"));
    let [out, lse] = ["loss", "lse"].map(|name| rows.output(name));
    let wanted = Wanted {
        label_logit: true,
        logit_sum: smoothing > 0.0,
        entropy: false,
    };
    let statistics = rows.statistics(wanted, 1.0);
    let of_row = || Expr::leaf(lse);
    let label_logit = statistics.label_logit.expect("the label logit is wanted");
    let mut loss = of_row() - Expr::leaf(label_logit) * (1.0 - smoothing);
    if let Some(sum) = statistics.logit_sum {
        loss = loss - Expr::leaf(sum) * (smoothing / problem.vocab() as f32);
    }
    if options.z_loss > 0.0 {
        loss = loss + of_row() * of_row() * options.z_loss;
    }
    if let Some(weight) = weight {
        let weight = Expr::leaf(weight);
        // A row that does not count is 0 even if its loss is not finite.
        loss = weight.clone().equals(0.0).select(0.0, weight * loss);
    }
    Ending {
        labels: Some(labels),
        statistics,
        lse,
        entropy: None,
        results: alloc::vec![(out, loss)],
    }
}

/// The backward pass, from the logsumexp.
fn add_backward(
    program: &mut Ce,
    problem: &LinearCe,
    schedule: &Schedule,
    inputs: &Inputs,
    lse: ArrayId,
) -> Result<(), HeadError> {
    let vectors = backward_vectors(program, problem, inputs, lse)?;
    Backward {
        names: NAMES,
        head: &problem.head,
        schedule,
        inputs: inputs.head,
        vectors,
        coefficients: |rows: &mut PerRow<'_>| coefficients(problem, rows),
    }
    .add(program)
}

/// The operands of [`coefficients`].
fn backward_vectors(
    program: &mut Ce,
    problem: &LinearCe,
    inputs: &Inputs,
    lse: ArrayId,
) -> Result<Vec<ArrayId>, HeadError> {
    let d_loss = cotangent(program, problem)?;
    let d_lse = program.array(Role::Input, "d_lse", DType::F32, [problem.tokens()]);
    let vectors = [
        Some(inputs.labels),
        inputs.weight,
        Some(lse),
        Some(d_loss),
        Some(d_lse),
    ];
    Ok(vectors.into_iter().flatten().collect())
}

/// Operands `labels`, (`weight`), `lse`, `d_loss`, `d_lse`. A row of weight 0 keeps only its `d_lse`, even if
/// its `d_loss` or lse is not finite.
fn coefficients(problem: &LinearCe, rows: &mut PerRow<'_>) -> Coefficients {
    let options = &problem.options;
    let smoothing = options.label_smoothing;
    let labels = rows.labels();
    let weight = problem.weighted().then(|| rows.input("weight"));
    let [lse, d_loss, d_lse] = ["lse", "d_loss", "d_lse"].map(|name| rows.input(name));
    let [probability, one_hot] = ["probability", "one_hot"].map(|name| rows.scratch(name));
    let uniform = (smoothing > 0.0).then(|| rows.scratch("uniform"));
    let counted = |value: Expr<RowsRef>, otherwise: Expr<RowsRef>| match weight {
        None => value,
        Some(weight) => Expr::leaf(weight).equals(0.0).select(otherwise, value),
    };
    let g = || match weight {
        None => Expr::leaf(d_loss),
        Some(weight) => Expr::leaf(d_loss) * Expr::leaf(weight),
    };
    let mut through_lse = g();
    if options.z_loss > 0.0 {
        through_lse = through_lse * (Expr::leaf(lse) * (2.0 * options.z_loss) + 1.0);
    }
    let d_lse = || Expr::leaf(d_lse);
    let zero = || Expr::constant(0.0);
    let mut prepare: Vec<_> = alloc::vec![
        (probability, counted(through_lse + d_lse(), d_lse())),
        (one_hot, counted(g() * (1.0 - smoothing), zero())),
    ];
    if let Some(uniform) = uniform {
        let share = smoothing / problem.vocab() as f32;
        prepare.push((uniform, counted(g() * share, zero())));
    }
    Coefficients {
        scale: 1.0,
        lse,
        probability,
        log_probability: None,
        one_hot: Some([labels, one_hot]),
        uniform,
        prepare,
    }
}

/// The cotangent of each token's loss. That of a reduced loss is one number for all tokens.
fn cotangent(program: &mut Ce, problem: &LinearCe) -> Result<ArrayId, HeadError> {
    let b = problem.tokens();
    if problem.options.reduction == Reduction::None {
        return Ok(program.array(Role::Input, "d_loss", DType::F32, [b]));
    }
    let scalar = program.array(Role::Input, "d_loss", DType::F32, [1]);
    let to = program.array(Role::Temporary, "d_token_loss", DType::F32, [b]);
    let value = scalar.into();
    program.push(Step::Map { to, value })?;
    Ok(to)
}
