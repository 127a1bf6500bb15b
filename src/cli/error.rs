//! Why a command did not do what it was asked to, and the exit code that says so.

use std::fmt::Display;

use tilecast::core::kernels::grouped_matmul::GroupedError;
use tilecast::core::kernels::head::HeadError;
use tilecast::core::kernels::softmax::LogitsError;
use tilecast::sim::execute::ExecuteError;
use tilecast::sim::experts::ExpertsError;
use tilecast::sim::interpretation::InterpretError;
use tilecast::sim::op::SimError;

use super::Outcome;

/// A command that cannot do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// The request is wrong: an option, a shape, a file.
    #[error("{0}")]
    Invalid(String),
    /// The request may be right; we or the machine failed.
    #[error("{0}")]
    Failure(String),
    /// The request is right, and too much for the target.
    #[error("{0}")]
    DoesNotFit(String),
}

impl CliError {
    /// The request is wrong.
    pub(crate) fn invalid(message: impl Display) -> Self {
        Self::Invalid(message.to_string())
    }

    /// We failed.
    pub(crate) fn failure(message: impl Display) -> Self {
        Self::Failure(message.to_string())
    }

    pub(crate) const fn exit_code(&self) -> u8 {
        match self {
            Self::Invalid(_) => 2,
            Self::Failure(_) => 1,
            Self::DoesNotFit(_) => Outcome::DoesNotFit.exit_code(),
        }
    }
}

impl From<SimError> for CliError {
    fn from(error: SimError) -> Self {
        Self::invalid(error)
    }
}

impl From<InterpretError> for CliError {
    fn from(error: InterpretError) -> Self {
        match error {
            InterpretError::Vmem { .. } => Self::DoesNotFit(error.to_string()),
            InterpretError::TooLarge { .. } => Self::Invalid(format!("{error} (--backend cpu)")),
            _ => Self::invalid(error),
        }
    }
}

impl From<ExecuteError> for CliError {
    fn from(error: ExecuteError) -> Self {
        match error {
            // Blocks that no kernel can be written in; what else goes wrong is our doing.
            ExecuteError::Lower(_) => Self::invalid(error),
            _ => Self::failure(error),
        }
    }
}

impl From<GroupedError> for CliError {
    fn from(error: GroupedError) -> Self {
        Self::invalid(error)
    }
}

impl From<ExpertsError> for CliError {
    fn from(error: ExpertsError) -> Self {
        match error {
            ExpertsError::NothingFits { .. } => Self::DoesNotFit(error.to_string()),
            _ => Self::invalid(error),
        }
    }
}

impl From<HeadError> for CliError {
    fn from(error: HeadError) -> Self {
        Self::invalid(error)
    }
}

impl From<LogitsError> for CliError {
    fn from(error: LogitsError) -> Self {
        Self::invalid(error)
    }
}
