//! Which options belong to which op.
//!
//! All ops share their commands, so clap takes any option for any op. One that an op does not have would be without
//! effect; it is refused here.

use clap::parser::ValueSource;
use clap::{ArgMatches, Command};

use super::args::Op;
use super::error::CliError;

const POLICY: [Op; 2] = [Op::Grpo, Op::LinearGrpo];

const OF_ROWS: [Op; 5] = [
    Op::LogitsCe,
    Op::Grpo,
    Op::Entropy,
    Op::LinearGrpo,
    Op::LinearEntropy,
];

const WITH_HIDDEN: [Op; 4] = [Op::LinearCe, Op::LinearGrpo, Op::LinearEntropy, Op::Gmm];

const LOSSES: [Op; 6] = [
    Op::LinearCe,
    Op::LogitsCe,
    Op::Grpo,
    Op::Entropy,
    Op::LinearGrpo,
    Op::LinearEntropy,
];

/// The ops that have an option; one that is not listed is an option of all.
const OF_SOME: [(&str, &[Op]); 40] = [
    ("hidden", &WITH_HIDDEN),
    ("experts", &[Op::Gmm]),
    ("out_features", &[Op::Gmm]),
    ("vocab", &LOSSES),
    ("config", &LOSSES),
    ("most_operations", &LOSSES),
    ("csv", &LOSSES),
    ("html", &LOSSES),
    ("models", &LOSSES),
    ("bias", &Op::ON_HEAD),
    ("weight", &[Op::LinearCe]),
    ("chips", &WITH_HIDDEN),
    ("soft_cap", &Op::ON_HEAD),
    ("reduction", &[Op::LinearCe]),
    ("delta_dtype", &Op::ON_HEAD),
    ("strategy", &Op::ON_HEAD),
    ("dx_blocks", &Op::ON_HEAD),
    ("dw_blocks", &Op::ON_HEAD),
    ("delta_columns", &Op::ON_HEAD),
    ("chunk_columns", &Op::ON_HEAD),
    ("store_logits", &[Op::LinearCe]),
    ("f32_products", &Op::ON_HEAD),
    ("structure", &Op::ON_HEAD),
    ("z_loss", &[Op::LinearCe, Op::LogitsCe]),
    ("label_smoothing", &[Op::LinearCe, Op::LogitsCe]),
    ("ignore_index", &[Op::LinearCe, Op::LogitsCe]),
    ("temperature", &OF_ROWS),
    ("in_place", &Op::ON_LOGITS),
    ("mask", &POLICY),
    ("variant", &POLICY),
    ("ratio", &POLICY),
    ("clip_low", &POLICY),
    ("clip_high", &POLICY),
    ("clip_two_sided", &POLICY),
    ("kl_beta", &POLICY),
    ("on_policy", &POLICY),
    ("sequence_length", &POLICY),
    ("max_length", &POLICY),
    ("tokens_in_batch", &POLICY),
    ("per_token", &POLICY),
];

/// The options of [`OF_SOME`] that were given.
///
/// Other parts of a command take their values out of what clap has found, so this is to be the first.
#[derive(Clone, Default, Debug)]
pub(crate) struct Given(Vec<&'static str>);

impl Given {
    /// Refuses what `op` does not have.
    ///
    /// # Errors
    /// The first such option, and the ops that have it.
    pub(crate) fn check(&self, op: Op) -> Result<(), CliError> {
        let foreign = |&&(name, ops): &&(&str, &[Op])| self.0.contains(&name) && !ops.contains(&op);
        let Some((name, ops)) = OF_SOME.iter().find(foreign) else {
            return Ok(());
        };
        let ops: Vec<_> = ops.iter().map(|op| op.name()).collect();
        Err(CliError::invalid(format_args!(
            "--{} is an option of {}; {} does not have it",
            name.replace('_', "-"),
            ops.join(", "),
            op.name()
        )))
    }
}

impl clap::FromArgMatches for Given {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |name: &&str| {
            let known = matches.try_contains_id(name).unwrap_or(false);
            known && matches.value_source(name) == Some(ValueSource::CommandLine)
        };
        let names = OF_SOME.iter().map(|(name, _)| *name);
        Ok(Self(names.filter(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        Self::from_arg_matches(matches).map(|new| *self = new)
    }
}

impl clap::Args for Given {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_of_another_op_is_named_with_its_ops() {
        let given = Given(vec!["z_loss"]);
        assert!(given.check(Op::LogitsCe).is_ok());
        assert_eq!(
            given.check(Op::Entropy).unwrap_err().to_string(),
            "--z-loss is an option of linear-ce, logits-ce; entropy does not have it"
        );
    }
}
