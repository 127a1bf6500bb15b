//! Measured points: a kernel on a target, what makes it again, and what the compiler did with it.

use thiserror::Error;
use tilecast_core::DType;
use tilecast_core::kernels::linear_ce::{
    Blocks, HeadError, HeadKernel, Lazy, LinearCe, Options, Schedule, Strategy,
};
use tilecast_core::program::{Kernel, Launch, Program};
use tilecast_core::target::{Target, UnknownTarget};
use tilecast_tpu::lower::{self, F32Products, LowerError};
use tilecast_tpu::mosaic::{Module, ParseError};

use super::record::{RecordError, Records};
use crate::grid::Scalars;
use crate::kernel;
use crate::parts::{Parts, Rest};

/// What a point is for. No point is in two sets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Set {
    /// Kernels of this library that figures of the model are fitted to.
    Fit,
    /// Kernels of this library that it is judged on.
    HeldOut,
    /// Kernels of others that it is judged on.
    Foreign,
}

impl Set {
    /// All sets.
    pub const ALL: [Self; 3] = [Self::Fit, Self::HeldOut, Self::Foreign];

    /// The name in tables and documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fit => "fit",
            Self::HeldOut => "heldout",
            Self::Foreign => "foreign",
        }
    }

    const fn data(self) -> &'static str {
        match self {
            Self::Fit => include_str!("../../data/fit.csv"),
            Self::HeldOut => include_str!("../../data/heldout.csv"),
            Self::Foreign => include_str!("../../data/foreign.csv"),
        }
    }
}

/// Why a point cannot be read or its kernel cannot be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PointError {
    /// A field is missing or is not what it should be.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// There is no such target.
    #[error(transparent)]
    Target(#[from] UnknownTarget),
    /// The problem is invalid.
    #[error(transparent)]
    Problem(#[from] HeadError),
    /// The kernel has no module.
    #[error(transparent)]
    Lower(#[from] LowerError),
    /// The text of a foreign kernel is not a module.
    #[error("{file}: {error}")]
    Text {
        /// File.
        file: String,
        /// What is wrong with it.
        error: ParseError,
    },
    /// The program has no such kernel.
    #[error("the program has no kernel {0}")]
    NoKernel(String),
}

/// A kernel of this library and its blocks.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Own {
    /// The op, on one device.
    pub problem: LinearCe,
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

impl Own {
    fn program(&self, target: &Target) -> Result<Program<HeadKernel>, HeadError> {
        let schedule = Schedule {
            chunk_columns: self.chunk_columns.unwrap_or(self.blocks.v),
            cores: target.cores_per_device(),
            rows_per_sub_tile: self.rows_per_sub_tile,
            lazy: self.lazy,
            ..Schedule::plain(self.blocks, self.strategy.unwrap_or(Strategy::Combined))
        };
        match self.strategy {
            None => self.problem.forward(&schedule),
            Some(_) => self.problem.backward(&schedule),
        }
    }
}

/// Where the kernel of a point comes from.
#[derive(Clone, PartialEq, Debug)]
pub enum Source {
    /// This library makes it.
    Own(Own),
    /// `tests/python/foreign_modules.py` makes it from a published library.
    Foreign {
        /// Its file.
        file: String,
        /// What it gets at run time.
        scalars: Scalars,
    },
}

/// What libtpu did.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Measured {
    /// Scoped VMEM, bytes. If it was refused for want of VMEM: rounded by the message to 0.01 MiB.
    pub used_bytes: u64,
    /// The part of it that holds spilled registers; `None` if it was refused.
    pub spill_bytes: Option<u64>,
    /// The limit that it was compiled with, bytes.
    pub limit_bytes: u64,
    /// Cycles of one core in the static schedule of one launch, copies not waited for.
    pub cycles: Option<f64>,
    /// The same with copies waited for that do not slow each other, and with copies that take turns.
    pub cycles_with_copies: Option<[f64; 2]>,
    /// Wall seconds of the compiler, on a busy machine.
    pub compile_s: f64,
    /// Adler-32 of the Mosaic text that it got.
    pub text: u32,
}

/// One point.
#[derive(Clone, PartialEq, Debug)]
pub struct Point {
    /// What it is for.
    pub set: Set,
    /// Target it was compiled for.
    pub target: &'static Target,
    /// Name of the kernel; `FUNCTION.K` is the `K`th one of a foreign function.
    pub kernel: String,
    /// Its sizes and options, for people.
    pub parameters: String,
    /// Where it comes from.
    pub source: Source,
    /// What libtpu did.
    pub measured: Measured,
}

/// A kernel and what it gets at run time.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The kernel.
    pub module: Module,
    /// What the module lacks of it.
    pub(crate) rest: Option<Rest>,
    /// Run-time values: those of the first launch, for a kernel in a loop.
    pub scalars: Scalars,
    /// Whether its text is another than the one that was compiled.
    pub changed: bool,
}

impl Subject {
    pub(super) fn parts(&self) -> Parts {
        Parts {
            module: self.module.clone(),
            rest: self.rest.clone(),
        }
    }
}

/// The points of a set.
///
/// # Errors
/// Data that cannot be read.
pub fn points(set: Set) -> Result<Vec<Point>, PointError> {
    let mut points = Vec::new();
    let mut records = Records::new(set.name(), set.data())?;
    while records.advance()? {
        points.push(match set {
            Set::Foreign => foreign(&records)?,
            _ => own(set, &records)?,
        });
    }
    Ok(points)
}

impl Point {
    /// Kernels of one structure, whatever their sizes.
    pub fn family(&self) -> &str {
        self.kernel.split('.').next().unwrap_or(&self.kernel)
    }

    /// Identifies the point among those of its set.
    pub fn name(&self) -> String {
        format!("{} {} {}", self.target, self.kernel, self.parameters)
    }

    /// Cores that the kernel was compiled for. libtpu's v4 without hardware is one core.
    pub fn cores(&self) -> u64 {
        match self.target.name {
            "v4" => 1,
            _ => self.target.cores_per_device() as u64,
        }
    }

    /// Points of one shape differ in blocks only; `None` if the shape is not known.
    pub fn shape(&self) -> Option<String> {
        let Source::Own(own) = &self.source else {
            return None;
        };
        let Own { problem, .. } = own;
        Some(format!(
            "{} {} {:?} {:?}",
            self.target, self.kernel, problem, own.products
        ))
    }

    /// The kernel, made now. `foreign` gives the text of a file, or `None` if there is none.
    ///
    /// # Errors
    /// A kernel that cannot be made, a text that is no module.
    pub fn subject(
        &self,
        foreign: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Option<Subject>, PointError> {
        let changed = |text: &str| adler32(text.as_bytes()) != self.measured.text;
        match &self.source {
            Source::Own(own) => {
                let program = own.program(self.target)?;
                let launches = program.launches();
                let named =
                    |launch: &&Launch<HeadKernel>| launch.kernel.spec().name() == self.kernel;
                let launch = (launches.iter().map(|(launch, _)| *launch).find(named))
                    .ok_or_else(|| PointError::NoKernel(self.kernel.clone()))?;
                let whole = lower::lower(&launch.kernel, own.products)?;
                let (Parts { module, rest }, _) = Parts::of(&launch.kernel, own.products)?;
                Ok(Some(Subject {
                    changed: changed(&whole.to_pretty()),
                    module,
                    rest,
                    scalars: kernel::scalars(launch, 0),
                }))
            }
            Source::Foreign { file, scalars } => {
                let Some(text) = foreign(file) else {
                    return Ok(None);
                };
                let module = Module::parse(&text).map_err(|error| PointError::Text {
                    file: file.clone(),
                    error,
                })?;
                Ok(Some(Subject {
                    module,
                    rest: None,
                    scalars: scalars.clone(),
                    changed: changed(&text),
                }))
            }
        }
    }
}

/// The checksum of RFC 1950.
fn adler32(data: &[u8]) -> u32 {
    let (mut a, mut b) = (1u32, 0u32);
    for &byte in data {
        a = (a + u32::from(byte)) % 65521;
        b = (b + a) % 65521;
    }
    b << 16 | a
}

fn own(set: Set, records: &Records) -> Result<Point, PointError> {
    let options: String = records.get("options")?;
    let has = |name: &str| options.split(' ').any(|option| option == name);
    let dtype = match records.get::<String>("dtype")?.as_str() {
        "bf16" => DType::Bf16,
        "f32" => DType::F32,
        _ => return Err(records.wrong("dtype").into()),
    };
    let products = match records.get::<String>("products")?.as_str() {
        "exact" => F32Products::Exact,
        "rounded" => F32Products::Rounded,
        "" => F32Products::default(),
        _ => return Err(records.wrong("products").into()),
    };
    // The sizes of these do not matter, but that they are there.
    let problem = LinearCe::new(
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
        problem.tokens(),
        problem.hidden(),
        problem.vocab(),
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
    for option in options.split_whitespace() {
        parameters += " ";
        parameters += option;
    }
    Ok(Point {
        set,
        target: Target::by_name(&records.get::<String>("target")?)?,
        kernel: records.get("kernel")?,
        parameters,
        source: Source::Own(Own {
            problem,
            blocks,
            rows_per_sub_tile,
            lazy,
            strategy,
            chunk_columns,
            products,
        }),
        measured: measured(records)?,
    })
}

fn foreign(records: &Records) -> Result<Point, PointError> {
    let target = Target::by_name(&records.get::<String>("target")?)?;
    let kernel: String = records.get("kernel")?;
    let parameters: String = records.get("parameters")?;
    let list = |name, text: &str| -> Result<Vec<i64>, RecordError> {
        let mut values = Vec::new();
        for item in text.split_whitespace() {
            let (value, times) = item.split_once('*').unwrap_or((item, "1"));
            let (Ok(value), Ok(times)) = (value.parse(), times.parse()) else {
                return Err(records.wrong(name));
            };
            values.extend(std::iter::repeat_n::<i64>(value, times));
        }
        Ok(values)
    };
    let scalars: String = records.get("scalars")?;
    let mut prefetched = Vec::new();
    for text in scalars.split(';').filter(|text| !text.is_empty()) {
        prefetched.push(match text {
            "-" => None,
            text => Some(list("scalars", text)?),
        });
    }
    let bounds = list("bounds", &records.get::<String>("bounds")?)?;
    let file = match parameters.as_str() {
        "" => format!("{target}/{kernel}.mlir"),
        parameters => format!("{target}/{kernel} {parameters}.mlir"),
    };
    Ok(Point {
        set: Set::Foreign,
        target,
        kernel,
        parameters,
        source: Source::Foreign {
            file,
            scalars: Scalars::new(bounds, prefetched),
        },
        measured: measured(records)?,
    })
}

fn measured(records: &Records) -> Result<Measured, RecordError> {
    let independent: Option<f64> = records.get_if_any("cycles_independent")?;
    let shared: Option<f64> = records.get_if_any("cycles_shared")?;
    let text: String = records.get("text")?;
    Ok(Measured {
        used_bytes: records.get("used_bytes")?,
        spill_bytes: records.get_if_any("spill_bytes")?,
        limit_bytes: records.get("limit_bytes")?,
        cycles: records.get_if_any("cycles")?,
        cycles_with_copies: independent.zip(shared).map(|(low, high)| [low, high]),
        compile_s: records.get("compile_s")?,
        text: u32::from_str_radix(&text, 16).map_err(|_| records.wrong("text"))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_checksum_is_the_published_one() {
        assert_eq!(adler32(b"Wikipedia"), 0x11E6_0398);
    }

    #[test]
    fn no_point_is_in_two_sets_or_twice_in_one() {
        let mut seen = BTreeSet::new();
        for set in Set::ALL {
            let points = points(set).unwrap();
            assert!(points.len() > 400, "{} has {}", set.name(), points.len());
            for point in points {
                assert!(seen.insert(point.name()), "{} twice", point.name());
            }
        }
    }

    /// The same sizes with other tokens or vocabulary would be nearly the same point.
    #[test]
    fn held_out_kernels_differ_from_fitted_ones_in_more_than_the_problem() {
        let key = |point: &Point| {
            let Source::Own(own) = &point.source else {
                unreachable!("a kernel of this library")
            };
            let problem = &own.problem;
            format!(
                "{} {} {} {:?} {:?} {:?}",
                point.target,
                point.kernel,
                problem.dtype(),
                problem.options(),
                own.blocks,
                own.strategy
            )
        };
        let fit: BTreeSet<String> = points(Set::Fit).unwrap().iter().map(key).collect();
        for point in points(Set::HeldOut).unwrap() {
            assert!(!fit.contains(&key(&point)), "{}", point.name());
        }
    }
}
