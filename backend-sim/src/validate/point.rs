//! Measured points: a kernel on a target, what makes it again, and what the compiler did with it.

use thiserror::Error;
use tilecast_core::kernels::grouped_matmul::GroupedError;
use tilecast_core::kernels::linear_ce::HeadError;
use tilecast_core::kernels::softmax::LogitsError;
use tilecast_core::target::{Target, UnknownTarget};
use tilecast_tpu::lower::LowerError;
use tilecast_tpu::mosaic::{Module, ParseError};

use super::own::{self, Own};
use super::record::{RecordError, Records};
use crate::grid::Scalars;
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

    const fn tables(self) -> &'static [Table] {
        macro_rules! table {
            ($name:literal, $kind:ident) => {
                Table {
                    name: $name,
                    kind: Kind::$kind,
                    text: include_str!(concat!("../../data/", $name, ".csv")),
                }
            };
        }
        match self {
            Self::Fit => &[
                table!("fit", Head),
                table!("fit_logits", Logits),
                table!("fit_experts", Experts),
            ],
            Self::HeldOut => &[
                table!("heldout", Head),
                table!("heldout_logits", Logits),
                table!("heldout_experts", Experts),
            ],
            Self::Foreign => &[table!("foreign", Foreign)],
        }
    }
}

/// A table of points.
struct Table {
    name: &'static str,
    kind: Kind,
    text: &'static str,
}

/// What the kernels of a table are of.
#[derive(Clone, Copy)]
enum Kind {
    Head,
    Logits,
    Experts,
    Foreign,
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
    /// The problem of a head is invalid.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// That of an op on logits is.
    #[error(transparent)]
    Logits(Box<LogitsError>),
    /// That of a grouped product is.
    #[error(transparent)]
    Grouped(Box<GroupedError>),
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

impl From<GroupedError> for PointError {
    fn from(error: GroupedError) -> Self {
        Self::Grouped(Box::new(error))
    }
}

impl From<LogitsError> for PointError {
    fn from(error: LogitsError) -> Self {
        Self::Logits(Box::new(error))
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
    for table in set.tables() {
        let mut records = Records::new(table.name, table.text)?;
        while records.advance()? {
            points.push(point(set, table.kind, &records)?);
        }
    }
    Ok(points)
}

fn point(set: Set, kind: Kind, records: &Records) -> Result<Point, PointError> {
    let target = Target::by_name(&records.get::<String>("target")?)?;
    let kernel: String = records.get("kernel")?;
    let of_library = |(own, parameters)| (Source::Own(own), parameters);
    let (source, parameters) = match kind {
        Kind::Head => of_library(own::of_head(records)?),
        Kind::Logits => of_library(own::of_logits(records, target)?),
        Kind::Experts => of_library(own::of_experts(records)?),
        Kind::Foreign => foreign(records, target, &kernel)?,
    };
    Ok(Point {
        set,
        target,
        kernel,
        parameters,
        source,
        measured: measured(records)?,
    })
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

    /// Cores that the kernel was compiled for. libtpu's v4 without hardware is one core, but kernels that were compiled
    /// by themselves, those of logits and grouped products, were for both of a chip.
    pub fn cores(&self) -> u64 {
        match (&self.source, self.target.name) {
            (Source::Own(Own::Logits(_) | Own::Experts(_)), _) => {
                self.target.cores_per_device() as u64
            }
            (_, "v4") => 1,
            _ => self.target.cores_per_device() as u64,
        }
    }

    /// Points of one shape differ in blocks only; `None` if the shape is not known.
    pub fn shape(&self) -> Option<String> {
        let Source::Own(own) = &self.source else {
            return None;
        };
        Some(format!("{} {} {}", self.target, self.kernel, own.shape()))
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
            Source::Own(own) => own.subject(self.target, &self.kernel, changed).map(Some),
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

fn foreign(
    records: &Records,
    target: &Target,
    kernel: &str,
) -> Result<(Source, String), PointError> {
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
    let source = Source::Foreign {
        file,
        scalars: Scalars::new(bounds, prefetched),
    };
    Ok((source, parameters))
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
    use std::collections::BTreeSet;

    use super::own::OfHead;
    use super::*;

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
            let own = match own {
                Own::Head(OfHead {
                    op,
                    blocks,
                    strategy,
                    ..
                }) => {
                    let (dtype, options) = (op.dtype(), op.options());
                    format!("{dtype} {options:?} {blocks:?} {strategy:?}")
                }
                Own::Logits(_) | Own::Experts(_) => {
                    let size =
                        |word: &&str| ["B=", "V=", "T="].iter().any(|size| word.starts_with(size));
                    let words = point.parameters.split(' ').filter(|word| !size(word));
                    words.collect::<Vec<_>>().join(" ")
                }
            };
            format!("{} {} {own}", point.target, point.kernel)
        };
        let fit: BTreeSet<String> = points(Set::Fit).unwrap().iter().map(key).collect();
        for point in points(Set::HeldOut).unwrap() {
            assert!(!fit.contains(&key(&point)), "{}", point.name());
        }
    }
}
