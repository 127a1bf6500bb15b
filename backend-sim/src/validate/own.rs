//! Kernels of this library, as rows of its tables describe them.

use tilecast_core::DType;
use tilecast_core::kernels::entropy::Entropy;
use tilecast_core::kernels::grouped_matmul::{self, GroupedKernel, GroupedMatmul, Product};
use tilecast_core::kernels::grpo::{self, Grpo};
use tilecast_core::kernels::linear_ce::{
    self, Blocks, HeadError, HeadKernel, Lazy, LinearCe, Options, Strategy,
};
use tilecast_core::kernels::logits_ce::{self, LogitsCe};
use tilecast_core::kernels::logits_op::LogitsOp;
use tilecast_core::kernels::softmax::{self, LogitsError, LogitsOptions, SoftmaxKernel};
use tilecast_core::program::{Kernel, Program};
use tilecast_core::target::Target;
use tilecast_tpu::lower::{self, F32Products};

use super::point::{PointError, Subject};
use super::record::{RecordError, Records};
use crate::experts::at_once;
use crate::grid::Scalars;
use crate::parts::Parts;

/// A kernel of this library: the op that it belongs to, and its blocks.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Own {
    /// Of a fused head.
    Head(OfHead),
    /// Of an op on given logits.
    Logits(OfLogits),
    /// Of a grouped product.
    Experts(OfExperts),
}

/// A kernel of a fused head.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OfHead {
    /// The op, on one device.
    pub op: LinearCe,
    /// Block sizes of the pass that the kernel belongs to.
    pub blocks: Blocks,
    /// Rows whose softmax follows their product at once.
    pub rows_per_sub_tile: usize,
    /// How the forward pass folds blocks, if lazily.
    pub lazy: Option<Lazy>,
    /// Structure of the backward pass; `None` is the forward pass.
    pub strategy: Option<Strategy>,
    /// Columns of a chunk of delta.
    pub chunk_columns: Option<usize>,
    /// How products of f32 operands are made.
    pub products: F32Products,
}

/// A kernel of an op on given logits.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OfLogits {
    /// The op, on one device.
    pub op: LogitsOp,
    /// Block sizes.
    pub blocks: softmax::Blocks,
}

/// A kernel of a grouped product, with groups that are [typical](tilecast_core::groups::Groups::typical).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OfExperts {
    /// The op, on one device.
    pub op: GroupedMatmul,
    /// Block sizes.
    pub blocks: grouped_matmul::Blocks,
}

impl Own {
    /// The kernel called `name`; `changed` tells whether a text is another than the one that was compiled.
    pub(super) fn subject(
        &self,
        target: &Target,
        name: &str,
        changed: impl FnOnce(&str) -> bool,
    ) -> Result<Subject, PointError> {
        match self {
            Self::Head(of) => subject(&of.program(target)?, name, of.products, changed),
            Self::Logits(of) => subject(&of.program(name)?, name, F32Products::default(), changed),
            Self::Experts(of) => subject(&of.program(name)?, name, F32Products::default(), changed),
        }
    }

    /// What kernels have in common that differ in blocks only.
    pub(super) fn shape(&self) -> String {
        match self {
            Self::Head(OfHead { op, products, .. }) => format!("{op:?} {products:?}"),
            Self::Logits(OfLogits { op, .. }) => format!("{op:?}"),
            Self::Experts(OfExperts { op, .. }) => format!("{op:?}"),
        }
    }
}

impl OfHead {
    fn program(&self, target: &Target) -> Result<Program<HeadKernel>, HeadError> {
        let schedule = linear_ce::Schedule {
            chunk_columns: self.chunk_columns.unwrap_or(self.blocks.v),
            cores: target.cores_per_device(),
            rows_per_sub_tile: self.rows_per_sub_tile,
            lazy: self.lazy,
            ..linear_ce::Schedule::plain(self.blocks, self.strategy.unwrap_or(Strategy::Combined))
        };
        match self.strategy {
            None => self.op.forward(&schedule),
            Some(_) => self.op.backward(&schedule),
        }
    }
}

impl OfLogits {
    fn program(&self, kernel: &str) -> Result<Program<SoftmaxKernel>, LogitsError> {
        let schedule = softmax::Schedule::new(self.blocks);
        match kernel {
            "softmax_statistics" => self.op.forward(&schedule),
            _ => self.op.backward(&schedule),
        }
    }
}

impl OfExperts {
    fn program(&self, kernel: &str) -> Result<Program<GroupedKernel>, PointError> {
        let mut products = Product::ALL.into_iter();
        let product = products.find(|product| product.name() == kernel);
        let product = product.ok_or_else(|| PointError::NoKernel(kernel.to_owned()))?;
        Ok(self.op.product(product, self.blocks)?)
    }
}

fn subject<K: Kernel>(
    program: &Program<K>,
    name: &str,
    products: F32Products,
    changed: impl FnOnce(&str) -> bool,
) -> Result<Subject, PointError> {
    let launches = program.launches();
    let mut launches = launches.iter().map(|(launch, _)| *launch);
    let launch = launches
        .find(|launch| launch.kernel.spec().name() == name)
        .ok_or_else(|| PointError::NoKernel(name.to_owned()))?;
    let text = lower::lower(&launch.kernel, products)?.to_pretty();
    let (Parts { module, rest }, _) = Parts::of(&launch.kernel, products)?;
    Ok(Subject {
        module,
        rest,
        scalars: Scalars::of_first(launch),
        changed: changed(&text),
    })
}

/// A kernel of a fused head, and its sizes and options for people.
pub(super) fn of_head(records: &Records) -> Result<(Own, String), PointError> {
    let options: String = records.get("options")?;
    let has = |name| has(&options, name);
    let dtype = dtype(records)?;
    let products = match records.get::<String>("products")?.as_str() {
        "exact" => F32Products::Exact,
        "rounded" => F32Products::Rounded,
        "" => F32Products::default(),
        _ => return Err(records.wrong("products").into()),
    };
    // The sizes of these do not matter, but that they are there.
    let op = LinearCe::new(
        records.get("tokens")?,
        records.get("hidden")?,
        records.get("vocab")?,
        dtype,
        Options {
            soft_cap: has("soft_cap").then_some(30.0),
            z_loss: if has("z_loss") { 1e-4 } else { 0.0 },
            label_smoothing: if has("label_smoothing") { 0.1 } else { 0.0 },
            bias: has("bias"),
            weight: has("weight"),
            ..Options::default()
        },
    )?;
    let blocks = Blocks {
        b: records.get("b")?,
        h: records.get("h")?,
        v: records.get("v")?,
    };
    let strategy: String = records.get("strategy")?;
    let strategy = match strategy.as_str() {
        "" => None,
        name => Some(
            (Strategy::ALL
                .into_iter()
                .find(|strategy| strategy.name() == name))
            .ok_or_else(|| records.wrong("strategy"))?,
        ),
    };
    let rows_per_sub_tile = records.get("rows_per_sub_tile")?;
    let lazy: String = records.get("lazy")?;
    let (columns, keeps_logits) = match lazy.strip_suffix(" kept") {
        Some(columns) => (columns, true),
        None => (lazy.as_str(), false),
    };
    let lazy = match columns {
        "" => None,
        columns => Some(Lazy {
            columns: columns.parse().map_err(|_| records.wrong("lazy"))?,
            keeps_logits,
            exact_rows: 0,
            stores_labels: false,
        }),
    };
    let chunk_columns = records.get_if_any("chunk_columns")?;
    let mut parameters = format!(
        "{dtype} B={} H={} V={} blocks {},{},{}",
        op.tokens(),
        op.hidden(),
        op.vocab(),
        blocks.b,
        blocks.h,
        blocks.v
    );
    if rows_per_sub_tile != 128.min(blocks.b) {
        parameters += &format!(" sub-tile {rows_per_sub_tile}");
    }
    if let Some(lazy) = lazy {
        let kept = if lazy.keeps_logits { " kept" } else { "" };
        parameters += &format!(" lazy {}{kept}", lazy.columns);
    }
    if let Some(columns) = chunk_columns {
        parameters += &format!(" chunk {columns}");
    }
    if (dtype, products) == (DType::F32, F32Products::Rounded) {
        parameters += " rounded";
    }
    add_options(&mut parameters, &options);
    let own = OfHead {
        op,
        blocks,
        rows_per_sub_tile,
        lazy,
        strategy,
        chunk_columns,
        products,
    };
    Ok((Own::Head(own), parameters))
}

/// The same of an op on given logits.
pub(super) fn of_logits(records: &Records, target: &Target) -> Result<(Own, String), PointError> {
    let options: String = records.get("options")?;
    let has = |name| has(&options, name);
    let dtype = dtype(records)?;
    let [tokens, vocab] = [records.get("tokens")?, records.get("vocab")?];
    let logits = LogitsOptions {
        temperature: if has("temperature") { 0.7 } else { 1.0 },
        in_place: has("in_place"),
        ..LogitsOptions::default()
    };
    let name: String = records.get("op")?;
    let op = match name.as_str() {
        "logits_ce" => {
            let options = logits_ce::Options {
                logits,
                label_smoothing: if has("label_smoothing") { 0.1 } else { 0.0 },
                ..logits_ce::Options::default()
            };
            LogitsOp::LogitsCe(LogitsCe::new(tokens, vocab, dtype, options)?)
        }
        "entropy" => LogitsOp::Entropy(Entropy::new(tokens, vocab, dtype, logits)?),
        "grpo" => {
            let options = grpo::Options {
                logits,
                ..grpo::Options::default()
            };
            LogitsOp::Grpo(Grpo::new(tokens, vocab, dtype, options)?)
        }
        _ => return Err(records.wrong("op").into()),
    };
    let [b, v] = [records.get("b")?, records.get("v")?];
    let blocks = softmax::Blocks::for_target(b, v, target);
    let mut parameters = format!("{name} {dtype} B={tokens} V={vocab} blocks {b},{v}");
    add_options(&mut parameters, &options);
    Ok((Own::Logits(OfLogits { op, blocks }), parameters))
}

/// The same of a grouped product.
pub(super) fn of_experts(records: &Records) -> Result<(Own, String), PointError> {
    let dtype = dtype(records)?;
    let [rows, experts] = [records.get("rows")?, records.get("experts")?];
    let [inputs, outputs] = [records.get("inputs")?, records.get("outputs")?];
    let op = GroupedMatmul::new([rows, experts, inputs, outputs], dtype, dtype)?;
    let blocks = grouped_matmul::Blocks {
        rows: records.get("b")?,
        part: records.get("part")?,
        inputs: records.get("i")?,
        outputs: records.get("o")?,
        at_once: at_once(dtype),
    };
    let parameters = format!(
        "{dtype} T={rows} E={experts} I={inputs} O={outputs} blocks {}/{},{},{}",
        blocks.rows, blocks.part, blocks.inputs, blocks.outputs
    );
    Ok((Own::Experts(OfExperts { op, blocks }), parameters))
}

fn has(options: &str, name: &str) -> bool {
    options.split(' ').any(|option| option == name)
}

fn add_options(parameters: &mut String, options: &str) {
    for option in options.split_whitespace() {
        *parameters += " ";
        *parameters += option;
    }
}

fn dtype(records: &Records) -> Result<DType, RecordError> {
    match records.get::<String>("dtype")?.as_str() {
        "bf16" => Ok(DType::Bf16),
        "f32" => Ok(DType::F32),
        _ => Err(records.wrong("dtype")),
    }
}
