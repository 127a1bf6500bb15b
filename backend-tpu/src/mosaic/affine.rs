//! Affine maps: `(d0, d1) -> (d0 * 8 + d1 floordiv 2)`.
//!
//! Memref layouts are affine maps of dimensions (the grid of indices) and symbols (values known
//! only at run time). Kernels carry them through; only the textual structure matters here.

use std::fmt;

/// An expression over dimensions and symbols.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AffineExpr {
    /// The dimension of that number.
    Dim(u32),
    /// The symbol of that number.
    Symbol(u32),
    /// A number.
    Constant(i64),
    /// An operation on two expressions.
    Binary(AffineOp, Box<AffineExpr>, Box<AffineExpr>),
}

/// The operations of affine expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AffineOp {
    /// Sum.
    Add,
    /// Product, one side constant or symbolic.
    Mul,
    /// Remainder, always non-negative.
    Mod,
    /// Quotient rounded down.
    FloorDiv,
    /// Quotient rounded up.
    CeilDiv,
}

impl AffineOp {
    /// How the operation is written between its operands.
    pub fn text(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Mul => "*",
            Self::Mod => "mod",
            Self::FloorDiv => "floordiv",
            Self::CeilDiv => "ceildiv",
        }
    }
}

/// Expressions over a number of dimensions and symbols.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AffineMap {
    /// How many dimensions.
    pub dims: u32,
    /// How many symbols.
    pub symbols: u32,
    /// One expression for each result.
    pub results: Vec<AffineExpr>,
}

impl AffineMap {
    /// The map that returns its dimensions.
    pub fn identity(dims: u32) -> Self {
        Self {
            dims,
            symbols: 0,
            results: (0..dims).map(AffineExpr::Dim).collect(),
        }
    }
}

impl fmt::Display for AffineMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |prefix: &str, n: u32| {
            (0..n)
                .map(|i| format!("{prefix}{i}"))
                .collect::<Vec<_>>()
                .join(", ")
        };
        write!(f, "({})", list("d", self.dims))?;
        if self.symbols > 0 {
            write!(f, "[{}]", list("s", self.symbols))?;
        }
        let results: Vec<_> = self.results.iter().map(ToString::to_string).collect();
        write!(f, " -> ({})", results.join(", "))
    }
}

impl fmt::Display for AffineExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dim(i) => write!(f, "d{i}"),
            Self::Symbol(i) => write!(f, "s{i}"),
            Self::Constant(c) => write!(f, "{c}"),
            Self::Binary(AffineOp::Add, a, b) => match **b {
                Self::Constant(c) if c < 0 && c != i64::MIN => write!(f, "{a} - {}", -c),
                _ => write!(f, "{a} + {b}"),
            },
            Self::Binary(op, a, b) => {
                let wrap = |x: &Self| match x {
                    Self::Binary(..) => format!("({x})"),
                    _ => x.to_string(),
                };
                write!(f, "{} {} {}", wrap(a), op.text(), wrap(b))
            }
        }
    }
}
