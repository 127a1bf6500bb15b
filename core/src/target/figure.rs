//! [`Figure`]: a number that says where it comes from.

use core::fmt;

/// How far a figure can be trusted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Status {
    /// Stated by the manufacturer's documents or published source code.
    Documented,
    /// Computed from other figures; the source states how.
    Derived,
    /// Measured from what the TPU compiler does.
    Calibrated,
    /// Nobody has published it and it was not measured: there is no value.
    Unknown,
}

impl Status {
    /// The name used in reports: `documented`, `derived`, `calibrated`, `unknown`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Documented => "documented",
            Self::Derived => "derived",
            Self::Calibrated => "calibrated",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A value with its unit, status and source.
///
/// Where a value may be unknown, `T` is an `Option`, and it is `None` exactly when the status is
/// [`Status::Unknown`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Figure<T> {
    /// The value, in `unit`.
    pub value: T,
    /// What one unit of the value is: `bytes`, `cycles`, `bytes/s`, ...
    pub unit: &'static str,
    /// How far to trust it.
    pub status: Status,
    /// Where it comes from; for a derived figure, the derivation.
    pub source: &'static str,
}

impl<T: Copy> Figure<T> {
    pub(super) const fn new(status: Status, value: T, source: &'static str) -> Self {
        Self {
            value,
            unit: "",
            status,
            source,
        }
    }

    pub(super) const fn in_unit(self, unit: &'static str) -> Self {
        Self { unit, ..self }
    }
}

/// A figure stated by `source`.
pub(super) const fn documented<T: Copy>(value: T, source: &'static str) -> Figure<T> {
    Figure::new(Status::Documented, value, source)
}

/// A figure that follows from others, as `source` explains.
pub(super) const fn derived<T: Copy>(value: T, source: &'static str) -> Figure<T> {
    Figure::new(Status::Derived, value, source)
}

/// A figure nobody has; `source` says where one would look.
pub(super) const fn unknown<T: Copy>(source: &'static str) -> Figure<Option<T>> {
    Figure::new(Status::Unknown, None, source)
}

/// One figure for every target, all with the same status and source.
pub(super) const fn row<T: Copy>(
    status: Status,
    values: [T; super::COUNT],
    source: &'static str,
) -> [Figure<T>; super::COUNT] {
    let mut figures = [Figure::new(status, values[0], source); super::COUNT];
    let mut i = 1;
    while i < super::COUNT {
        figures[i].value = values[i];
        i += 1;
    }
    figures
}

/// The value of a figure of any type.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum FigureValue {
    /// A count, a size or a whole number of cycles.
    Integer(u64),
    /// A rate.
    Real(f64),
    /// Whether the target has a property.
    Bool(bool),
    /// No value; the status is [`Status::Unknown`].
    Unknown,
}

impl From<u64> for FigureValue {
    fn from(value: u64) -> Self {
        Self::Integer(value)
    }
}

impl From<usize> for FigureValue {
    fn from(value: usize) -> Self {
        Self::Integer(value as u64)
    }
}

impl From<f64> for FigureValue {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

impl From<bool> for FigureValue {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl<T: Into<Self>> From<Option<T>> for FigureValue {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Unknown, Into::into)
    }
}

impl fmt::Display for FigureValue {
    /// Plain digits, scientific notation from 10^6 for rates, `yes`/`no`, or `unknown`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(value) => value.fmt(f),
            Self::Real(value) if *value >= 1e6 => fmt::LowerExp::fmt(value, f),
            Self::Real(value) => value.fmt(f),
            Self::Bool(true) => f.pad("yes"),
            Self::Bool(false) => f.pad("no"),
            Self::Unknown => f.pad("unknown"),
        }
    }
}

/// A figure of a target together with its name and meaning, for reports.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NamedFigure {
    /// The field of [`Target`](super::Target).
    pub name: &'static str,
    /// What the figure is, in one sentence or two.
    pub meaning: &'static str,
    /// The value, its unit, status and source.
    pub figure: Figure<FigureValue>,
}

impl NamedFigure {
    pub(super) fn new<T: Copy + Into<FigureValue>>(
        name: &'static str,
        meaning: &'static str,
        figure: Figure<T>,
    ) -> Self {
        let Figure {
            value,
            unit,
            status,
            source,
        } = figure;
        Self {
            name,
            meaning: meaning.trim_ascii(),
            figure: Figure {
                value: value.into(),
                unit,
                status,
                source,
            },
        }
    }
}
