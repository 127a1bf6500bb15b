//! The ops on logits: their options, and how they become one.
//!
//! The three ops are programs whose arrays have names, and so are those that are fused with a head: they differ in
//! where the logits come from, which [`source`] knows. What is read, run and written follows from the arrays of the
//! programs alone, so there is one path for all: [`inputs`] reads, [`solve`] runs, [`run`] reports.

pub(crate) mod inputs;
pub(crate) mod run;
pub(crate) mod solve;
pub(crate) mod source;

use clap::builder::TypedValueParser;
use tilecast::DType;
use tilecast::core::kernels::entropy::Entropy;
use tilecast::core::kernels::grpo::{Grpo, Ratio, Variant};
use tilecast::core::kernels::logits_ce::LogitsCe;
use tilecast::core::kernels::logits_op::LogitsOp;
use tilecast::core::kernels::softmax::{Blocks, LogitsOptions, Schedule};
use tilecast::core::kernels::{grpo, logits_ce};
use tilecast::core::target::Target;

use super::args::{LossArgs, Op, ScheduleArgs, one_of};
use super::error::CliError;
use super::sizes::Sizes;

/// Options of the ops on given logits.
#[derive(clap::Args, Clone, Copy, Debug)]
#[command(next_help_heading = "Ops on logits")]
pub(crate) struct LogitsArgs {
    /// Divide the logits by T
    #[arg(
        long,
        value_name = "T",
        default_value_t = 1.0,
        allow_negative_numbers = true
    )]
    temperature: f32,
    /// grpo: objective and normalisation
    #[arg(long, default_value = "dapo", value_parser = variant())]
    variant: Variant,
    /// grpo: a ratio for each token, or one for all of a sequence
    #[arg(long, default_value = "token", value_parser = ratio())]
    ratio: Ratio,
    /// grpo: how far below 1 a ratio may be
    #[arg(
        long,
        value_name = "E",
        default_value_t = 0.2,
        allow_negative_numbers = true
    )]
    clip_low: f32,
    /// grpo: how far above 1 a ratio may be; with --variant cispo, how large [default: 0.2; none for cispo]
    #[arg(long, value_name = "E", allow_negative_numbers = true)]
    clip_high: Option<f32>,
    /// grpo: how large a ratio may be where the advantage is negative [default: as large as it is]
    #[arg(long, value_name = "D", allow_negative_numbers = true)]
    clip_two_sided: Option<f32>,
    /// grpo: weight of the divergence from the reference policy, ref_logp
    #[arg(
        long,
        value_name = "B",
        default_value_t = 0.0,
        allow_negative_numbers = true
    )]
    kl_beta: f32,
    /// grpo: the policy is its own past, there is no old_logp
    #[arg(long)]
    on_policy: bool,
    /// grpo: tokens of a sequence, padding included [default: all are one]
    #[arg(long, value_name = "L", allow_negative_numbers = true)]
    sequence_length: Option<usize>,
    /// grpo: the length that dr_grpo divides by [default: that of a sequence]
    #[arg(long, value_name = "L", allow_negative_numbers = true)]
    max_length: Option<usize>,
    /// grpo: the number of tokens that dapo and cispo divide by [default: those that are given]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    tokens_in_batch: Option<f32>,
    /// grpo: the loss of each token, not normalised
    #[arg(long)]
    per_token: bool,
}

fn variant() -> impl TypedValueParser<Value = Variant> {
    one_of(Variant::ALL.map(|variant| (variant.name(), variant)))
}

fn ratio() -> impl TypedValueParser<Value = Ratio> {
    one_of([("token", Ratio::Token), ("sequence", Ratio::Sequence)])
}

/// What is known of the logits and what comes with them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GivenLogits {
    /// `[B, V]`
    pub(crate) dims: [usize; 2],
    pub(crate) dtype: DType,
    /// There is a mask.
    pub(crate) mask: bool,
    /// The gradient overwrites them.
    pub(crate) in_place: bool,
}

impl LogitsArgs {
    /// The op on logits.
    ///
    /// # Errors
    /// Whatever the op refuses; cispo without an upper clip.
    pub(crate) fn problem(
        &self,
        op: Op,
        loss: &LossArgs,
        given: GivenLogits,
    ) -> Result<LogitsOp, CliError> {
        let logits = LogitsOptions {
            temperature: self.temperature,
            grad_dtype: loss.grad_dtype,
            in_place: given.in_place,
        };
        let ([b, v], dtype) = (given.dims, given.dtype);
        Ok(match op {
            Op::LogitsCe => {
                let options = logits_ce::Options {
                    logits,
                    ignore_index: loss.ignore_index,
                    label_smoothing: loss.label_smoothing,
                    z_loss: loss.z_loss,
                };
                LogitsOp::LogitsCe(LogitsCe::new(b, v, dtype, options)?)
            }
            Op::Entropy | Op::LinearEntropy => {
                LogitsOp::Entropy(Entropy::new(b, v, dtype, logits)?)
            }
            Op::Grpo | Op::LinearGrpo => {
                LogitsOp::Grpo(Grpo::new(b, v, dtype, self.policy(logits, given.mask)?)?)
            }
            Op::LinearCe | Op::Gmm => {
                let name = op.name();
                return Err(CliError::failure(format_args!(
                    "{name} has options of its own"
                )));
            }
        })
    }

    fn policy(&self, logits: LogitsOptions, mask: bool) -> Result<grpo::Options, CliError> {
        let clip_high = match (self.clip_high, self.variant) {
            (Some(clip), _) => clip,
            (None, Variant::Cispo) => {
                return Err(CliError::invalid(
                    "--variant cispo needs --clip-high: the largest ratio itself, for example 5",
                ));
            }
            (None, _) => grpo::Options::default().clip_high,
        };
        Ok(grpo::Options {
            logits,
            variant: self.variant,
            ratio: self.ratio,
            clip_low: self.clip_low,
            clip_high,
            clip_two_sided: self.clip_two_sided,
            kl_beta: self.kl_beta,
            old_logp: !self.on_policy,
            mask,
            sequence_length: self.sequence_length,
            max_length: self.max_length,
            tokens_in_batch: self.tokens_in_batch,
            per_token: self.per_token,
        })
    }
}

/// The blocks that were given, of both passes; `target` is one whose rules they are to follow.
///
/// # Errors
/// Blocks of another op.
pub(crate) fn given_blocks(
    args: &ScheduleArgs,
    target: Option<&Target>,
) -> Result<[Option<Blocks>; 2], CliError> {
    args.blocks(|sizes| {
        let [b, v] = Sizes::of_logits(sizes)?;
        Ok(target.map_or(Blocks::new(b, v), |target| Blocks::for_target(b, v, target)))
    })
}

/// `chosen`, with the blocks that were given in its place.
pub(crate) fn schedule(given: [Option<Blocks>; 2], chosen: Schedule) -> Schedule {
    let [forward, backward] = given;
    Schedule {
        forward: forward.unwrap_or(chosen.forward),
        backward: backward.unwrap_or(chosen.backward),
    }
}
