//! What commands share: options of a problem, and how they become one.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use tilecast::core::kernels::head::HeadOptions;
use tilecast::core::kernels::linear_ce::LinearCe;
use tilecast::core::kernels::linear_op::LinearOp;
use tilecast::core::kernels::logits_op::LogitsOp;
use tilecast::core::target::{Target, UnknownTarget};
use tilecast::cpu::simd::Level;
use tilecast::sim::problem::Passes;
use tilecast::tpu::lower::F32Products;
use tilecast::{DType, Options, Reduction, Strategy, Structure};

use super::error::CliError;
use super::logits::{GivenLogits, LogitsArgs};
use super::sizes::{Sizes, parse_product_sizes, parse_sizes};

/// What is computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Op {
    /// Fused linear softmax cross-entropy: a language-model head and its loss.
    LinearCe,
    /// Cross-entropy of given logits.
    LogitsCe,
    /// Clipped policy loss of given logits (GRPO and its variants).
    Grpo,
    /// Entropy of given logits.
    Entropy,
    /// The policy loss, fused with the language-model head that computes the logits.
    LinearGrpo,
    /// The entropy, fused with the language-model head that computes the logits.
    LinearEntropy,
    /// Grouped matrix product: rows sorted by expert times the weights of their experts.
    Gmm,
}

impl Op {
    /// The name on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::LinearCe => "linear-ce",
            Self::LogitsCe => "logits-ce",
            Self::Grpo => "grpo",
            Self::Entropy => "entropy",
            Self::LinearGrpo => "linear-grpo",
            Self::LinearEntropy => "linear-entropy",
            Self::Gmm => "gmm",
        }
    }

    /// The ops on given logits.
    pub(crate) const ON_LOGITS: [Self; 3] = [Self::LogitsCe, Self::Grpo, Self::Entropy];

    /// The ops that are fused with a head.
    pub(crate) const ON_HEAD: [Self; 3] = [Self::LinearCe, Self::LinearGrpo, Self::LinearEntropy];
}

/// What computes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Backend {
    /// The vector units of this machine.
    Cpu,
    /// The interpreter of the Mosaic text that a TPU compiler would get.
    Sim,
    /// The TPU of this machine.
    Tpu,
    /// The obvious loop in f64.
    Reference,
}

impl Backend {
    /// The name on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Sim => "sim",
            Self::Tpu => "tpu",
            Self::Reference => "reference",
        }
    }
}

/// How products of f32 inputs are made.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ProductsArg {
    /// To f32 accuracy: six passes of the matrix unit.
    Exact,
    /// Of operands rounded to bf16: one pass.
    Rounded,
}

impl From<ProductsArg> for F32Products {
    fn from(products: ProductsArg) -> Self {
        match products {
            ProductsArg::Exact => Self::Exact,
            ProductsArg::Rounded => Self::Rounded,
        }
    }
}

/// What a step of a kernel overlaps.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StructureArg {
    /// All it can.
    Overlapped,
    /// One thing at a time, as the published Pallas kernels do: to rank block sizes for them.
    InTurn,
}

impl From<StructureArg> for Structure {
    fn from(structure: StructureArg) -> Self {
        match structure {
            StructureArg::Overlapped => Self::Overlapped,
            StructureArg::InTurn => Self::InTurn,
        }
    }
}

/// Which passes are meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Pass {
    /// Loss and logsumexp.
    Forward,
    /// Gradients.
    Backward,
    /// One after the other.
    Both,
}

impl Pass {
    /// Whether results of the forward pass are wanted.
    pub(crate) const fn forward(self) -> bool {
        matches!(self, Self::Forward | Self::Both)
    }

    /// Whether gradients are wanted.
    pub(crate) const fn backward(self) -> bool {
        matches!(self, Self::Backward | Self::Both)
    }
}

impl From<Pass> for Passes {
    fn from(pass: Pass) -> Self {
        match pass {
            Pass::Forward => Self::Forward,
            Pass::Backward => Self::Backward,
            Pass::Both => Self::Both,
        }
    }
}

/// A strategy, or the choice left to tilecast.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StrategyChoice(pub(crate) Option<Strategy>);

/// Options of the loss.
#[derive(clap::Args, Clone, Copy, Debug)]
#[command(next_help_heading = "Loss")]
pub(crate) struct LossArgs {
    /// Cap logits softly: C * tanh(logit / C)
    #[arg(long, value_name = "C", allow_negative_numbers = true)]
    pub(crate) soft_cap: Option<f32>,
    /// Add L * lse^2 to the loss of each token
    #[arg(
        long,
        value_name = "L",
        default_value_t = 0.0,
        allow_negative_numbers = true
    )]
    pub(crate) z_loss: f32,
    /// Spread the share S of the target evenly over the vocabulary
    #[arg(
        long,
        value_name = "S",
        default_value_t = 0.0,
        allow_negative_numbers = true
    )]
    pub(crate) label_smoothing: f32,
    /// Leave out tokens with this label
    #[arg(long, value_name = "I", allow_negative_numbers = true)]
    pub(crate) ignore_index: Option<i32>,
    /// How the losses of the tokens are combined
    #[arg(long, default_value = "none", value_parser = reduction())]
    pub(crate) reduction: Reduction,
    /// Type of the gradients [default: that of the inputs]
    #[arg(long, value_parser = dtype())]
    pub(crate) grad_dtype: Option<DType>,
    /// Type in which the streaming backward holds the gradient of the logits [default: that of the inputs, or of
    /// rounded products if there is no bias]
    #[arg(long, value_parser = dtype())]
    pub(crate) delta_dtype: Option<DType>,
}

impl LossArgs {
    /// The head, with or without a bias.
    pub(crate) fn head(&self, bias: bool) -> HeadOptions {
        HeadOptions {
            bias,
            soft_cap: self.soft_cap,
            delta_dtype: self.delta_dtype,
        }
    }

    /// The options, for inputs with or without a bias and a weight.
    pub(crate) fn options(&self, bias: bool, weight: bool) -> Options {
        Options {
            soft_cap: self.soft_cap,
            z_loss: self.z_loss,
            label_smoothing: self.label_smoothing,
            ignore_index: self.ignore_index,
            reduction: self.reduction,
            bias,
            weight,
            grad_dtype: self.grad_dtype,
            delta_dtype: self.delta_dtype,
        }
    }
}

/// How the op is cut up.
#[derive(clap::Args, Clone, Copy, Debug)]
#[command(next_help_heading = "Schedule")]
pub(crate) struct ScheduleArgs {
    /// Which passes
    #[arg(long, value_enum, default_value_t = Pass::Both)]
    pub(crate) pass: Pass,
    /// Block sizes along tokens, hidden and vocabulary; b,v (the time block and the block size) for an op on
    /// given logits; rows, hidden and out features for gmm [default: chosen]
    #[arg(long, value_name = "b,h,v", value_parser = parse_sizes, allow_hyphen_values = true)]
    pub(crate) blocks: Option<Sizes>,
    /// Block sizes of the backward pass [default: those of --blocks, or chosen]
    #[arg(long, value_name = "b,h,v", value_parser = parse_sizes, allow_hyphen_values = true)]
    pub(crate) backward_blocks: Option<Sizes>,
    /// Blocks of dx in the backward pass `streaming`, along tokens and hidden [default: those of delta, or chosen]
    #[arg(long, value_name = "b,h", value_parser = parse_product_sizes, allow_hyphen_values = true)]
    pub(crate) dx_blocks: Option<[usize; 2]>,
    /// Blocks of dw, likewise
    #[arg(long, value_name = "b,h", value_parser = parse_product_sizes, allow_hyphen_values = true)]
    pub(crate) dw_blocks: Option<[usize; 2]>,
    /// Columns of the blocks in which `streaming` makes delta, a divisor of the v that dx and dw read [default: v, or
    /// chosen]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) delta_columns: Option<u32>,
    /// Structure of the backward pass
    #[arg(long, default_value = "auto", value_parser = strategy())]
    pub(crate) strategy: StrategyChoice,
}

/// Blocks that kernels of a streaming pass have, where they are not those of the pass.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct OwnBlocks {
    /// Along the vocabulary, of delta as it is made.
    pub(crate) delta_columns: Option<usize>,
    /// Along tokens and hidden, of `dx` and `dw`.
    pub(crate) products: [Option<[usize; 2]>; 2],
}

impl ScheduleArgs {
    /// What was given of kernels of a streaming pass.
    pub(crate) fn own_blocks(&self) -> OwnBlocks {
        OwnBlocks {
            delta_columns: self.delta_columns.map(|columns| columns as usize),
            products: [self.dx_blocks, self.dw_blocks],
        }
    }

    /// The blocks of both passes, as far as any were given.
    ///
    /// # Errors
    /// They are not of the kind that `of` makes.
    pub(crate) fn blocks<B: Copy>(
        &self,
        of: impl Fn(Sizes) -> Result<B, CliError>,
    ) -> Result<[Option<B>; 2], CliError> {
        let forward = self.blocks.map(&of).transpose()?;
        let backward = self.backward_blocks.map(&of).transpose()?;
        Ok([forward, backward.or(forward)])
    }
}

/// A problem described by numbers, without data.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Shape")]
pub(crate) struct ProblemArgs {
    /// Number of tokens, B; of gmm rows, each of one token for one of its experts
    #[arg(long, value_name = "B", allow_negative_numbers = true)]
    pub(crate) tokens: usize,
    /// Size of a hidden state, H; of gmm columns of the rows
    #[arg(long, value_name = "H", allow_negative_numbers = true)]
    pub(crate) hidden: Option<usize>,
    /// Number of experts, E
    #[arg(long, value_name = "E", allow_negative_numbers = true)]
    pub(crate) experts: Option<usize>,
    /// Columns of the weights of an expert [hidden, out features]
    #[arg(long, value_name = "O", allow_negative_numbers = true)]
    pub(crate) out_features: Option<usize>,
    /// Size of the vocabulary, V
    #[arg(long, value_name = "V", allow_negative_numbers = true)]
    pub(crate) vocab: Option<usize>,
    /// Take H and V, unless given, from a Hugging Face config.json: hidden_size, vocab_size
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Type of the inputs
    #[arg(long, default_value = "bf16", value_parser = dtype())]
    pub(crate) dtype: DType,
    /// Products of f32 inputs
    #[arg(long, value_enum, default_value_t = ProductsArg::Exact)]
    pub(crate) f32_products: ProductsArg,
    /// What a step of a kernel overlaps
    #[arg(long, value_enum, default_value_t = StructureArg::Overlapped)]
    pub(crate) structure: StructureArg,
    /// The head has a bias [V]
    #[arg(long)]
    pub(crate) bias: bool,
    /// Each token has a weight [B]
    #[arg(long)]
    pub(crate) weight: bool,
    /// There is a mask [B]
    #[arg(long)]
    pub(crate) mask: bool,
    /// The gradient overwrites the logits
    #[arg(long)]
    pub(crate) in_place: bool,
    /// Number of chips that share the tokens evenly, and the experts of gmm
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..), allow_negative_numbers = true)]
    pub(crate) chips: u32,
    #[command(flatten)]
    pub(crate) loss: LossArgs,
    #[command(flatten)]
    pub(crate) logits: LogitsArgs,
    #[command(flatten)]
    pub(crate) schedule: ScheduleArgs,
}

impl ProblemArgs {
    /// The fused head on all tokens.
    ///
    /// # Errors
    /// A config that cannot be read or lacks a size; whatever [`LinearCe::new`] refuses.
    pub(crate) fn problem(&self) -> Result<LinearCe, CliError> {
        let config = self.config()?;
        let hidden = size(self.hidden, config.as_ref(), "--hidden", "hidden_size")?;
        let vocab = size(self.vocab, config.as_ref(), "--vocab", "vocab_size")?;
        let options = Options {
            delta_dtype: self.delta_dtype(),
            ..self.loss.options(self.bias, self.weight)
        };
        Ok(LinearCe::new(
            self.tokens,
            hidden,
            vocab,
            self.dtype,
            options,
        )?)
    }
}

impl ProblemArgs {
    /// An op on logits, given or not.
    ///
    /// # Errors
    /// As for [`ProblemArgs::problem`].
    pub(crate) fn on_logits(&self, op: Op) -> Result<LogitsOp, CliError> {
        let config = self.config()?;
        let vocab = size(self.vocab, config.as_ref(), "--vocab", "vocab_size")?;
        let logits = GivenLogits {
            dims: [self.tokens, vocab],
            dtype: self.dtype,
            mask: self.mask,
            in_place: self.in_place,
        };
        self.logits.problem(op, &self.loss, logits)
    }

    /// An op on the logits of a head.
    ///
    /// # Errors
    /// As for [`ProblemArgs::problem`].
    pub(crate) fn linear(&self, op: Op) -> Result<LinearOp, CliError> {
        let config = self.config()?;
        let hidden = size(self.hidden, config.as_ref(), "--hidden", "hidden_size")?;
        let head = HeadOptions {
            delta_dtype: self.delta_dtype(),
            ..self.loss.head(self.bias)
        };
        Ok(LinearOp::new(self.on_logits(op)?, hidden, head)?)
    }

    /// What is asked for, or bf16 where both products of delta round it to that anyway and no bias has its elements
    /// summed.
    fn delta_dtype(&self) -> Option<DType> {
        let rounded =
            self.dtype == DType::F32 && self.f32_products == ProductsArg::Rounded && !self.bias;
        self.loss.delta_dtype.or(rounded.then_some(DType::Bf16))
    }

    fn config(&self) -> Result<Option<Config<'_>>, CliError> {
        self.config.as_deref().map(Config::read).transpose()
    }
}

/// A size that is given, or that of the model.
fn size(
    given: Option<usize>,
    config: Option<&Config<'_>>,
    option: &str,
    key: &str,
) -> Result<usize, CliError> {
    match (given, config) {
        (Some(size), _) => Ok(size),
        (None, Some(config)) => config.size(key),
        (None, None) => Err(CliError::invalid(format_args!("give {option} or --config"))),
    }
}

/// A model's config.json.
struct Config<'a> {
    path: &'a Path,
    json: serde_json::Value,
}

impl<'a> Config<'a> {
    /// Real ones have a few KiB.
    const LIMIT_BYTES: u64 = 16 << 20;

    fn read(path: &'a Path) -> Result<Self, CliError> {
        let shown = path.display();
        let mut text = String::new();
        File::open(path)
            .and_then(|file| file.take(Self::LIMIT_BYTES + 1).read_to_string(&mut text))
            .map_err(|error| CliError::invalid(format_args!("cannot read {shown}: {error}")))?;
        if text.len() as u64 > Self::LIMIT_BYTES {
            return Err(CliError::invalid(format_args!(
                "{shown} has more than {} bytes; give a model's config.json",
                Self::LIMIT_BYTES
            )));
        }
        let json = serde_json::from_str(&text)
            .map_err(|error| CliError::invalid(format_args!("{shown} is not JSON: {error}")))?;
        Ok(Self { path, json })
    }

    /// A size, of the model or, where it has several parts, of its language model.
    fn size(&self, key: &str) -> Result<usize, CliError> {
        let path = self.path.display();
        let found = self.json.get(key);
        let value = found
            .or_else(|| self.json.get("text_config")?.get(key))
            .ok_or_else(|| {
                let option = if key == "hidden_size" {
                    "--hidden"
                } else {
                    "--vocab"
                };
                CliError::invalid(format_args!("{path} has no {key}; give {option}"))
            })?;
        let size = value.as_u64().and_then(|size| usize::try_from(size).ok());
        size.ok_or_else(|| {
            CliError::invalid(format_args!(
                "{path}: {key} is {value}; it must be a whole number of at least 1"
            ))
        })
    }
}

/// A parser of the names in a list.
pub(crate) fn one_of<T: Clone + Send + Sync + 'static>(
    choices: impl IntoIterator<Item = (&'static str, T)>,
) -> impl TypedValueParser<Value = T> {
    let choices: Vec<_> = choices.into_iter().collect();
    PossibleValuesParser::new(choices.iter().map(|(name, _)| *name)).map(move |given| {
        let found = choices.iter().find(|(name, _)| *name == given);
        found.expect("clap lets no other name through").1.clone()
    })
}

/// A parser of the floating-point types.
pub(crate) fn dtype() -> impl TypedValueParser<Value = DType> {
    one_of([DType::Bf16, DType::F32].map(|dtype| (dtype.name(), dtype)))
}

fn reduction() -> impl TypedValueParser<Value = Reduction> {
    one_of([
        ("none", Reduction::None),
        ("sum", Reduction::Sum),
        ("mean", Reduction::Mean),
    ])
}

fn strategy() -> impl TypedValueParser<Value = StrategyChoice> {
    let named = Strategy::ALL.map(|strategy| (strategy.name(), StrategyChoice(Some(strategy))));
    one_of([("auto", StrategyChoice(None))].into_iter().chain(named))
}

/// A parser of instruction sets.
pub(crate) fn level() -> impl TypedValueParser<Value = Level> {
    // Also without the hyphen, as processor flags are spelled.
    let short = ("avx512bf16", Level::Avx512Bf16);
    let named = Level::ALL.map(|level| (level.name(), level));
    one_of(named.into_iter().chain([short]))
}

/// The target of a name or alias, for clap.
///
/// # Errors
/// The names there are.
pub(crate) fn parse_target(name: &str) -> Result<&'static Target, UnknownTarget> {
    Target::by_name(name)
}
