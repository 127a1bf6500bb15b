//! The op as launches of the softmax kernels and arithmetic on vectors between them.

use super::objective::{Derivatives, Ratio, Token, Variant};
use super::{Grpo, Options};
use crate::DType;
use crate::expr::Expr;
use crate::kernels::entropy::entropy_coefficients;
use crate::kernels::softmax::{
    Coefficients, LogitsError, SoftmaxProgram, Source, Wanted, gradient, statistics,
};
use crate::program::{ArrayId, Role, Step};

type Value = Expr<ArrayId>;

/// The inputs of both passes, and what follows from them alone.
struct Inputs {
    labels: ArrayId,
    advantage: ArrayId,
    old_logp: Option<ArrayId>,
    ref_logp: Option<ArrayId>,
    mask: Option<ArrayId>,
    /// Tokens that count of each sequence, at least 1, `[S]`.
    lengths: ArrayId,
}

impl Inputs {
    fn declare<S: Source>(p: &mut SoftmaxProgram<S>, problem: &Grpo) -> Result<Self, LogitsError> {
        let options = &problem.options;
        let labels = p.labels();
        let advantage = p.vector(Role::Input, "advantage");
        let mut optional = |given: bool, name| given.then(|| p.vector(Role::Input, name));
        let old_logp = optional(options.old_logp, "old_logp");
        let ref_logp = optional(options.kl_beta > 0.0, "ref_logp");
        let mask = optional(options.mask, "mask");
        let ones = p.let_vector("counts", mask.map_or(Expr::constant(1.0), Expr::from))?;
        let sum = total(p, "sequence_tokens", ones, problem.sequences())?;
        let lengths = per_sequence(p, problem, "lengths", Expr::from(sum).max(1.0))?;
        Ok(Self {
            labels,
            advantage,
            old_logp,
            ref_logp,
            mask,
            lengths,
        })
    }

    /// `value` of tokens that count, `otherwise` of the others.
    fn counted(&self, value: Value, otherwise: f32) -> Value {
        match self.mask {
            None => value,
            Some(mask) => Expr::from(mask).equals(0.0).select(otherwise, value),
        }
    }

    fn token(&self, logp: ArrayId, ratio: ArrayId) -> Token {
        Token {
            logp,
            ratio,
            advantage: self.advantage,
            ref_logp: self.ref_logp,
        }
    }

    /// Writes the ratio to `to`, from the log-probabilities.
    fn ratio<S: Source>(
        &self,
        p: &mut SoftmaxProgram<S>,
        problem: &Grpo,
        logp: ArrayId,
        to: ArrayId,
    ) -> Result<(), LogitsError> {
        // The policy's own past: the ratio is 1, and has a gradient all the same.
        let log_ratio = match self.old_logp {
            Some(old) => self.counted(Expr::from(logp) - Expr::from(old), 0.0),
            None => Expr::constant(0.0),
        };
        let log_ratio = match problem.options.ratio {
            Ratio::Token => log_ratio,
            Ratio::Sequence => self.mean_of_sequence(p, problem, "log_ratio", log_ratio)?,
        };
        p.map(to, self.counted(log_ratio.exp(), 1.0))
    }

    /// The sum over a sequence divided by the tokens that count, for each of its tokens.
    fn mean_of_sequence<S: Source>(
        &self,
        p: &mut SoftmaxProgram<S>,
        problem: &Grpo,
        name: &'static str,
        value: Value,
    ) -> Result<Value, LogitsError> {
        let value = p.let_vector(name, value)?;
        let sum = total(p, "sequence_sum", value, problem.sequences())?;
        let mean = Expr::from(sum) / Expr::from(self.lengths);
        Ok(per_sequence(p, problem, "sequence_mean", mean)?.into())
    }

    /// The factor of each token's loss in the result.
    fn share<S: Source>(
        &self,
        p: &mut SoftmaxProgram<S>,
        problem: &Grpo,
    ) -> Result<Value, LogitsError> {
        let Options {
            variant,
            per_token,
            max_length,
            tokens_in_batch,
            ..
        } = problem.options;
        let sequences = problem.sequences() as f32;
        if per_token {
            return Ok(Expr::constant(1.0));
        }
        let counted = |p: &mut SoftmaxProgram<S>| {
            let ones = p.let_vector("ones", self.counted(Expr::constant(1.0), 0.0))?;
            let sum = total(p, "tokens", ones, 1)?;
            Ok(Expr::constant(1.0) / Expr::from(sum).max(1.0))
        };
        match (variant, tokens_in_batch) {
            (Variant::Grpo, _) => Ok(Expr::constant(1.0 / sequences) / Expr::from(self.lengths)),
            (Variant::DrGrpo, _) => {
                let length = max_length.unwrap_or(problem.sequence_length()) as f32;
                Ok(Expr::constant(1.0 / (sequences * length)))
            }
            (Variant::Dapo | Variant::Cispo, Some(tokens)) => Ok(Expr::constant(1.0 / tokens)),
            (Variant::Bnpo | Variant::Dapo | Variant::Cispo, _) => counted(p),
        }
    }
}

/// A temporary of one element per group: the sums over `groups` groups.
fn total<S: Source>(
    p: &mut SoftmaxProgram<S>,
    name: &'static str,
    from: ArrayId,
    groups: usize,
) -> Result<ArrayId, LogitsError> {
    let to = (p.program).array(Role::Temporary, name, DType::F32, [groups]);
    p.program.push(Step::Total { from, to })?;
    Ok(to)
}

/// A temporary of one element per sequence.
fn per_sequence<S: Source>(
    p: &mut SoftmaxProgram<S>,
    problem: &Grpo,
    name: &'static str,
    value: Value,
) -> Result<ArrayId, LogitsError> {
    let dims = [problem.sequences()];
    let to = p.program.array(Role::Temporary, name, DType::F32, dims);
    p.map(to, value)?;
    Ok(to)
}

pub(super) fn add_forward<S: Source>(
    problem: &Grpo,
    p: &mut SoftmaxProgram<S>,
) -> Result<(), LogitsError> {
    let options = &problem.options;
    let inputs = Inputs::declare(p, problem)?;
    let wanted = Wanted {
        label_logit: true,
        logit_sum: false,
        entropy: true,
    };
    let found = statistics(p, wanted, Some(inputs.labels))?;
    let label_logit = found.label_logit.expect("the label logit is wanted");
    let [logp, ratio, is_clipped] =
        ["logp", "ratio", "is_clipped"].map(|name| p.vector(Role::Output, name));
    let scaled = Expr::from(label_logit) * problem.logits.scale();
    p.map(logp, inputs.counted(scaled - Expr::from(found.lse), 0.0))?;
    inputs.ratio(p, problem, logp, ratio)?;
    let token = inputs.token(logp, ratio);
    let clipped = token.is_clipped(options).select(1.0, 0.0);
    p.map(is_clipped, inputs.counted(clipped, 0.0))?;
    let share = inputs.share(p, problem)?;
    let loss = inputs.counted(token.loss(options) * share, 0.0);
    if options.per_token {
        let to = p.vector(Role::Output, "loss");
        p.map(to, loss)?;
    } else {
        let from = p.let_vector("token_loss", loss)?;
        let to = p.program.array(Role::Output, "loss", DType::F32, [1]);
        p.program.push(Step::Total { from, to })?;
    }
    Ok(())
}

pub(super) fn add_backward<S: Source>(
    problem: &Grpo,
    p: &mut SoftmaxProgram<S>,
) -> Result<(), LogitsError> {
    let options = &problem.options;
    let inputs = Inputs::declare(p, problem)?;
    let [lse, entropy, logp] = ["lse", "entropy", "logp"].map(|name| p.vector(Role::Input, name));
    let d_loss = match options.per_token {
        true => p.vector(Role::Input, "d_loss"),
        false => p.input("d_loss", DType::F32, [1]),
    };
    let [d_logp, d_ratio, d_entropy] =
        ["d_logp", "d_ratio", "d_entropy"].map(|name| p.vector(Role::Input, name));
    let ratio = p.vector(Role::Temporary, "ratio");
    inputs.ratio(p, problem, logp, ratio)?;
    let Derivatives {
        by_log_ratio,
        by_logp,
    } = inputs.token(logp, ratio).derivatives(options);
    let share = inputs.share(p, problem)?;
    let g = p.let_vector("d_token_loss", Expr::from(d_loss) * share)?;
    let by_ratio = Expr::from(d_ratio) * Expr::from(ratio);
    let d_log_ratio = inputs.counted(Expr::from(g) * by_log_ratio + by_ratio, 0.0);
    let d_log_ratio = match options.ratio {
        Ratio::Token => d_log_ratio,
        Ratio::Sequence => inputs.mean_of_sequence(p, problem, "d_log_ratio", d_log_ratio)?,
    };
    let through_logp = Expr::from(d_logp) + d_log_ratio + Expr::from(g) * by_logp;
    let d_label = p.let_vector("d_label", inputs.counted(through_logp, 0.0))?;
    let [probability, log_probability] = entropy_coefficients(entropy, d_entropy.into());
    let coefficients = Coefficients {
        probability: probability - Expr::from(d_label),
        log_probability: Some(log_probability),
        one_hot: Some((inputs.labels, -Expr::from(d_label))),
        uniform: None,
    };
    gradient(p, lse, coefficients)
}
