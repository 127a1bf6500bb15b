//! [`Target`]: what is known about each TPU generation, as one table of data.
//!
//! A TPU chip has one or two *TensorCores*. A core runs one instruction bundle per cycle, and each
//! bundle feeds several units at once: *matrix units* (MXU, systolic arrays of 128 x 128 or
//! 256 x 256 cells), *vector ALUs* that work on registers of 8 sublanes x 128 lanes of 32 bits, a
//! *transcendental unit* (EUP: exp, log, tanh, reciprocal), a *cross-lane unit* (XLU: reductions
//! along lanes, transposes), and load, store and scalar slots. Operands live in *VMEM*, a scratchpad
//! of 16 to 128 MiB per core; copies (DMA) move blocks between it and the HBM of the chip.
//!
//! Three kinds of sources speak about these machines and they do not always agree: what Google
//! publishes, what the compiler is seen to do, and arithmetic on the two. So no figure is a bare
//! number. Each is a [`Figure`] with unit, [`Status`] and source; where sources conflict, the source
//! names the value that was not taken; where nothing is known, the value is `None`.
//!
//! "Per core" means per TensorCore and "per chip" means all cores together. Cycles are cycles of the
//! core: divide by [`Target::clock_hz`] for seconds.
//!
//! ```
//! use tilecast_core::target::Target;
//!
//! let v5e = Target::by_name("v5e")?;
//! assert_eq!(v5e.vmem_bytes.value, 128 << 20);
//! for row in v5e.figures() {
//!     println!("{} = {} {}", row.name, row.figure.value, row.figure.unit);
//! }
//! # Ok::<(), tilecast_core::target::UnknownTarget>(())
//! ```

mod figure;
mod table;

use alloc::string::{String, ToString};
use core::fmt;

pub use figure::{Figure, FigureValue, NamedFigure, Status};
pub use table::{TARGETS, Target};

/// Lanes of a vector register on every generation of the table: see [`Target::lanes`].
pub const LANES: usize = 128;

/// Number of generations in the table.
const COUNT: usize = 5;

/// Names by which a target is found; the first is [`Target::name`].
const NAMES: [&[&str]; COUNT] = [&["v4"], &["v5e"], &["v5p"], &["v6e"], &["v7x", "tpu7x"]];

/// A TPU generation, oldest first. The discriminant is the position in [`TARGETS`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Generation {
    /// TPU v4.
    V4,
    /// TPU v5e.
    V5e,
    /// TPU v5p.
    V5p,
    /// TPU v6e, Trillium.
    V6e,
    /// TPU7x, Ironwood.
    V7x,
}

impl Generation {
    /// All generations, in the order of [`TARGETS`].
    pub const ALL: [Self; COUNT] = [Self::V4, Self::V5e, Self::V5p, Self::V6e, Self::V7x];
}

impl Target {
    /// The target of a generation.
    pub fn of(generation: Generation) -> &'static Self {
        &TARGETS[generation as usize]
    }

    /// Finds a target by [name](Self::name) or alias: `v4`, `v5e`, `v5p`, `v6e`, `v7x` or `tpu7x`.
    ///
    /// # Errors
    /// [`UnknownTarget`] lists the names there are.
    pub fn by_name(name: &str) -> Result<&'static Self, UnknownTarget> {
        TARGETS
            .iter()
            .find(|target| target.name == name || target.aliases.contains(&name))
            .ok_or_else(|| UnknownTarget {
                name: name.to_string(),
                known: TARGETS.iter().map(|target| target.name).collect(),
            })
    }

    /// TensorCores that one launch of a kernel can use: both on a megacore chip, otherwise one.
    pub fn cores_per_device(&self) -> usize {
        if self.megacore.value {
            self.tensorcores.value
        } else {
            1
        }
    }

    /// Vector registers of a core; where their number is not published, that of v5p.
    pub fn registers(&self) -> usize {
        let like = Self::of(Generation::V5p).vregs.value;
        self.vregs.value.or(like).unwrap_or_default()
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}

/// No target has this name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("unknown target `{name}`; known targets: {}", known.join(", "))]
pub struct UnknownTarget {
    /// The name that was asked for.
    pub name: String,
    /// The names there are.
    pub known: alloc::vec::Vec<&'static str>,
}

#[cfg(test)]
mod tests;
