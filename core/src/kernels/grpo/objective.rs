//! The objective of one token, as expressions on vectors.

use super::Options;
use crate::expr::{Expr, Mask};
use crate::program::ArrayId;

/// Objective and normalisation; see the [module](super).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Variant {
    /// Mean over sequences of the mean over their tokens.
    Grpo,
    /// Divided by a length that does not depend on the batch.
    DrGrpo,
    /// Mean over the tokens given.
    Bnpo,
    /// Mean over the tokens of the whole batch.
    Dapo,
    /// The clipped ratio as a weight of the log-probability; mean as for dapo.
    Cispo,
}

impl Variant {
    /// All variants.
    pub const ALL: [Self; 5] = [
        Self::Grpo,
        Self::DrGrpo,
        Self::Bnpo,
        Self::Dapo,
        Self::Cispo,
    ];

    /// The name users know it by.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Grpo => "grpo",
            Self::DrGrpo => "dr_grpo",
            Self::Bnpo => "bnpo",
            Self::Dapo => "dapo",
            Self::Cispo => "cispo",
        }
    }
}

/// Whose probabilities a ratio compares.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Ratio {
    /// Those of each token.
    Token,
    /// The geometric mean over a sequence.
    Sequence,
}

type Value = Expr<ArrayId>;

/// Vectors that the objective of a token depends on.
#[derive(Clone, Copy)]
pub(super) struct Token {
    pub(super) logp: ArrayId,
    pub(super) ratio: ArrayId,
    pub(super) advantage: ArrayId,
    pub(super) ref_logp: Option<ArrayId>,
}

/// The derivatives of a token's loss.
pub(super) struct Derivatives {
    /// By the logarithm of its ratio.
    pub(super) by_log_ratio: Value,
    /// By its log-probability, other than through the ratio.
    pub(super) by_logp: Value,
}

impl Token {
    fn advantage(&self) -> Value {
        self.advantage.into()
    }

    fn ratio(&self) -> Value {
        self.ratio.into()
    }

    /// The bounds of the ratio.
    fn bounds(options: &Options) -> [f32; 2] {
        [1.0 - options.clip_low, 1.0 + options.clip_high]
    }

    /// The two sides of the clipped objective.
    fn sides(&self, options: &Options) -> [Value; 2] {
        let [low, high] = Self::bounds(options);
        let free = match options.clip_two_sided {
            Some(most) => self.ratio().min(most),
            None => self.ratio(),
        };
        let clipped = self.ratio().max(low).min(high);
        [free, clipped].map(|ratio| ratio * self.advantage())
    }

    /// `-A` times the bounded ratio, a weight without gradient.
    fn cispo_weight(&self, options: &Options) -> Value {
        -(self.ratio().min(options.clip_high) * self.advantage())
    }

    /// `ref - logp`
    fn log_reference(&self) -> Option<Value> {
        (self.ref_logp).map(|ref_logp| Expr::from(ref_logp) - Expr::from(self.logp))
    }

    pub(super) fn loss(&self, options: &Options) -> Value {
        let loss = match options.variant {
            Variant::Cispo => self.cispo_weight(options) * Expr::from(self.logp),
            _ => {
                let [free, clipped] = self.sides(options);
                -free.min(clipped)
            }
        };
        match self.log_reference() {
            None => loss,
            Some(d) => loss + (d.clone().exp() - d - 1.0) * options.kl_beta,
        }
    }

    pub(super) fn is_clipped(&self, options: &Options) -> Mask<ArrayId> {
        let zero = || Expr::constant(0.0);
        let above = |bound: f32| {
            let raised = zero().less_than(self.advantage());
            Expr::constant(bound).less_than(self.ratio()).and(raised)
        };
        if options.variant == Variant::Cispo {
            return above(options.clip_high);
        }
        let [low, high] = Self::bounds(options);
        let lowered = self.advantage().less_than(0.0);
        above(high).or(self.ratio().less_than(low).and(lowered))
    }

    pub(super) fn derivatives(&self, options: &Options) -> Derivatives {
        let (by_log_ratio, by_logp) = match options.variant {
            Variant::Cispo => (Expr::constant(0.0), self.cispo_weight(options)),
            _ => {
                let [free, clipped] = self.sides(options);
                let [low, high] = Self::bounds(options);
                let slope = -(self.advantage() * self.ratio());
                let at_most = |bound: f32| !Expr::constant(bound).less_than(self.ratio());
                let by_free = match options.clip_two_sided {
                    Some(most) => at_most(most).select(slope.clone(), 0.0),
                    None => slope.clone(),
                };
                let inside = at_most(high).and(!self.ratio().less_than(low));
                let by_clipped = inside.select(slope, 0.0);
                // Where both sides are equal so are their derivatives, unless a bound is hit exactly.
                let chosen = clipped.less_than(free).select(by_clipped, by_free);
                (chosen, Expr::constant(0.0))
            }
        };
        let by_logp = match self.log_reference() {
            None => by_logp,
            Some(d) => by_logp + (Expr::constant(1.0) - d.exp()) * options.kl_beta,
        };
        Derivatives {
            by_log_ratio,
            by_logp,
        }
    }
}
