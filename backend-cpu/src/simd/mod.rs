//! Vector instructions, chosen at run time: elementary functions over slices and the inner loops of the matrix product.
//!
//! A [`Simd`] is a token: it can only be made for a [`Level`] that this machine has, so holding one is the permission
//! to run code compiled for that level. Everything public here is safe. Below it there are three layers:
//!
//! 1. `vector`: a trait of a few lane-wise operations, with one implementation per instruction set;
//! 2. `math`, `map`, `slices`, `softmax`, `pack`, `word`, `microkernel`: every algorithm once, generic over that trait;
//! 3. one `#[target_feature]` function per instruction set, into which an algorithm is inlined.
//!
//! The portable level is plain Rust, exists on every architecture and runs the same algorithms and the same tests.
//!
//! All slice operations take any length. Two slices of one call must be equally long.

use std::fmt;
use std::sync::OnceLock;
use std::time::Instant;

use cfg_if::cfg_if;
use half::bf16;

mod delta;
mod format;
mod long;
mod map;
mod math;
mod memory;
mod microkernel;
mod pack;
mod portable;
mod slices;
mod softmax;
mod values;
mod vector;
mod word;
cfg_if! {
    if #[cfg(target_arch = "x86_64")] {
        mod amx;
        mod avx2;
        mod avx512;
    }
}

pub use delta::SoftmaxDelta;
pub use format::Arithmetic;
pub(crate) use format::PanelFormat;
pub use map::{Destination, Strided};
use map::{Identity, MapInPlace, MapInto};
pub(crate) use memory::Line;
pub(crate) use memory::prefetch_later_row;
pub use memory::untouched;
pub(crate) use microkernel::{Slice, Strip};
pub(crate) use pack::{Extents, Pack};
use slices::{CombineInPlace, SumOf, WithScalar};
pub use softmax::Statistics;
pub use values::{Values, ValuesMut};
use vector::Kernel;

/// A set of vector instructions. Later ones include the earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// What the compiler's target guarantees.
    Portable,
    /// AVX2 and FMA: 8 lanes.
    Avx2,
    /// AVX-512 F, BW, DQ and VL: 16 lanes.
    Avx512,
    /// AVX-512 and products of `bf16` pairs.
    Avx512Bf16,
    /// AVX-512 and products of `bf16` tiles.
    Amx,
}

impl Level {
    /// All levels, least first.
    pub const ALL: [Self; 5] = [
        Self::Portable,
        Self::Avx2,
        Self::Avx512,
        Self::Avx512Bf16,
        Self::Amx,
    ];

    /// The level's name: lower case, no spaces.
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Avx512Bf16 => "avx512-bf16",
            Self::Amx => "amx",
        }
    }

    /// Whether this machine has the level's instructions.
    fn is_available(self) -> bool {
        cfg_if! {
            if #[cfg(target_arch = "x86_64")] {
                let avx2 = || is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
                let avx512 = || {
                    avx2()
                        && is_x86_feature_detected!("avx512f")
                        && is_x86_feature_detected!("avx512bw")
                        && is_x86_feature_detected!("avx512dq")
                        && is_x86_feature_detected!("avx512vl")
                };
                let bf16 = || avx512() && is_x86_feature_detected!("avx512bf16");
                match self {
                    Self::Portable => true,
                    Self::Avx2 => avx2(),
                    Self::Avx512 => avx512(),
                    Self::Avx512Bf16 => bf16(),
                    Self::Amx => bf16() && amx::is_available(),
                }
            } else {
                self == Self::Portable
            }
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A function of one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unary {
    /// `e^x`, to 1 ulp.
    Exp,
    /// Natural logarithm, to 2 ulp.
    Log,
    /// Hyperbolic tangent, to 2 ulp.
    Tanh,
    /// `-x`.
    Neg,
    /// `|x|`.
    Abs,
    /// `1 / x`, correctly rounded.
    Reciprocal,
}

/// A function of two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Binary {
    /// `x + y`.
    Add,
    /// `x - y`.
    Sub,
    /// `x * y`.
    Mul,
    /// `x / y`.
    Div,
    /// The larger one; NaN if either is NaN.
    Max,
    /// The smaller one; NaN if either is NaN.
    Min,
}

/// Permission to run the code of one [`Level`] on this machine.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Simd {
    // Private: a value exists only if `Level::is_available` said so, which the dispatch below relies on.
    level: Level,
}

impl fmt::Debug for Simd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Simd({})", self.level)
    }
}

impl fmt::Display for Simd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.level.fmt(f)
    }
}

/// Choosing a level.
impl Simd {
    /// The best level of this machine.
    pub fn detect() -> Self {
        Self::available()
            .last()
            .expect("the portable level is always available")
    }

    /// The given level, if this machine has it.
    pub fn with_level(level: Level) -> Option<Self> {
        level.is_available().then_some(Self { level })
    }

    /// Every level of this machine, least first.
    pub fn available() -> impl Iterator<Item = Self> {
        Level::ALL.into_iter().filter_map(Self::with_level)
    }

    /// The level this token stands for.
    pub fn level(self) -> Level {
        self.level
    }

    /// The level's name.
    pub fn name(self) -> &'static str {
        self.level.name()
    }
}

/// Reductions.
impl Simd {
    /// The largest element: NaN if any is NaN, -∞ if there is none.
    pub fn max(self, x: &[f32]) -> f32 {
        self.run(slices::Max(x))
    }

    /// Σ x, in an order that depends on the level.
    pub fn sum(self, x: &[f32]) -> f32 {
        self.run(SumOf(x, Identity))
    }
}

/// Soft cap.
impl Simd {
    /// `x = cap * tanh(x / cap)`.
    pub fn soft_cap(self, x: &mut [f32], cap: f32) {
        self.run(MapInPlace(x, map::SoftCap(cap)));
    }

    /// `d = d * (1 - (z / cap)²)`: the derivative of the soft cap, in terms of its result `z`.
    ///
    /// # Panics
    ///
    /// If the slices differ in length.
    pub fn soft_cap_derivative(self, d: &mut [f32], z: &[f32], cap: f32) {
        same_length(d.len(), z.len());
        self.run(CombineInPlace(d, z, slices::SoftCapDerivative(cap)));
    }
}

/// Element-wise operations.
impl Simd {
    /// `x = op(x)`.
    pub fn unary(self, op: Unary, x: &mut [f32]) {
        match op {
            Unary::Exp => self.run(MapInPlace(x, map::Exp)),
            Unary::Log => self.run(MapInPlace(x, map::Log)),
            Unary::Tanh => self.run(MapInPlace(x, map::Tanh)),
            Unary::Neg => self.run(MapInPlace(x, map::Neg)),
            Unary::Abs => self.run(MapInPlace(x, map::Abs)),
            Unary::Reciprocal => self.run(MapInPlace(x, map::Reciprocal)),
        }
    }

    /// `x = op(x, y)`.
    ///
    /// # Panics
    ///
    /// If the slices differ in length.
    pub fn binary(self, op: Binary, x: &mut [f32], y: &[f32]) {
        same_length(x.len(), y.len());
        match op {
            Binary::Add => self.run(CombineInPlace(x, y, slices::Add)),
            Binary::Sub => self.run(CombineInPlace(x, y, slices::Sub)),
            Binary::Mul => self.run(CombineInPlace(x, y, slices::Mul)),
            Binary::Div => self.run(CombineInPlace(x, y, slices::Div)),
            Binary::Max => self.run(CombineInPlace(x, y, slices::Larger)),
            Binary::Min => self.run(CombineInPlace(x, y, slices::Smaller)),
        }
    }

    /// `x = op(x, y)` with one `y` for all.
    pub fn binary_scalar(self, op: Binary, x: &mut [f32], y: f32) {
        match op {
            Binary::Add => self.run(MapInPlace(x, WithScalar(slices::Add, y))),
            Binary::Sub => self.run(MapInPlace(x, WithScalar(slices::Sub, y))),
            Binary::Mul => self.run(MapInPlace(x, WithScalar(slices::Mul, y))),
            Binary::Div => self.run(MapInPlace(x, WithScalar(slices::Div, y))),
            Binary::Max => self.run(MapInPlace(x, WithScalar(slices::Larger, y))),
            Binary::Min => self.run(MapInPlace(x, WithScalar(slices::Smaller, y))),
        }
    }

    /// `out = x`, exactly.
    ///
    /// # Panics
    ///
    /// If the slices differ in length.
    pub fn bf16_to_f32(self, out: &mut [f32], x: &[bf16]) {
        same_length(out.len(), x.len());
        let map = Identity;
        self.run(MapInto { out, x, map });
    }

    /// `out = x` rounded to nearest, ties to even. NaN stays NaN, made quiet; denormals are kept.
    ///
    /// # Panics
    ///
    /// If the slices differ in length.
    pub fn f32_to_bf16(self, out: &mut [bf16], x: &[f32]) {
        same_length(out.len(), x.len());
        let map = Identity;
        self.run(MapInto { out, x, map });
    }
}

/// The matrix product's instruction-set side; [`gemm`](crate::gemm) is the side to call.
impl Simd {
    /// The fastest arithmetic for a product of operands stored in these types: [`Bf16`](Arithmetic::Bf16) if both are
    /// `bf16`, [`Split`](Arithmetic::Split) otherwise, where this machine multiplies pairs so much faster than `f32`
    /// that one, three or six products take less time; `f32` elsewhere.
    ///
    /// Having the instruction does not say that. One `vdpbf16ps` does the work of two `f32` multiply-adds; by
    /// [`fma_peak`], Zen 4 issues it as often as one of those, but an Intel Xeon with AMX a quarter as often, so that
    /// widening wins twofold, and tiles fifteenfold over that. The first call at a level therefore measures both, which
    /// takes a fraction of a millisecond; later calls give the same answer.
    pub fn arithmetic(self, lhs_is_bf16: bool, rhs_is_bf16: bool) -> Arithmetic {
        static PAIRS_TO_F32: [OnceLock<f64>; Level::ALL.len()] =
            [const { OnceLock::new() }; Level::ALL.len()];
        let arithmetic = self.pairs_for(lhs_is_bf16, rhs_is_bf16);
        let bf16_operands = usize::from(lhs_is_bf16) + usize::from(rhs_is_bf16);
        if arithmetic == Arithmetic::F32 {
            return arithmetic;
        }
        let rate = PAIRS_TO_F32[self.level as usize].get_or_init(|| pairs_to_f32(self));
        // Known machines are far on either side: with this margin noise cannot turn the answer.
        if rate / arithmetic.products(bf16_operands) as f64 > 1.25 {
            arithmetic
        } else {
            Arithmetic::F32
        }
    }

    /// The arithmetic of pairs that these operands ask for, `f32` if the level has none.
    pub(crate) fn pairs_for(self, lhs_is_bf16: bool, rhs_is_bf16: bool) -> Arithmetic {
        match lhs_is_bf16 && rhs_is_bf16 {
            true if self.supports(Arithmetic::Bf16) => Arithmetic::Bf16,
            false if self.supports(Arithmetic::Split) => Arithmetic::Split,
            _ => Arithmetic::F32,
        }
    }

    /// Whether this level multiplies in `arithmetic`.
    pub fn supports(self, arithmetic: Arithmetic) -> bool {
        arithmetic == Arithmetic::F32 || self.level >= Level::Avx512Bf16
    }

    /// Rows and columns of the block of results that the microkernel keeps in registers: the widths of left and right
    /// panels.
    pub fn tile_shape(self, arithmetic: Arithmetic) -> (usize, usize) {
        let [left, right] = self.panel_formats(arithmetic);
        (left.width, right.width)
    }

    /// How left and right operands are packed for [`multiply`](Self::multiply).
    pub(crate) fn panel_formats(self, arithmetic: Arithmetic) -> [PanelFormat; 2] {
        let panels = |width| PanelFormat {
            arithmetic,
            width,
            run: 1,
            depth_multiple: 1,
            most_slice_words: microkernel::SLICE_WORDS,
        };
        cfg_if! {
            if #[cfg(target_arch = "x86_64")] {
                match (self.level, arithmetic) {
                    (Level::Portable, _) => [portable::ROWS, portable::VECTORS * 8].map(panels),
                    (Level::Avx2, _) => [avx2::ROWS, avx2::VECTORS * 8].map(panels),
                    (Level::Amx, Arithmetic::Bf16 | Arithmetic::Split) => [amx::TILE_WORDS, 1].map(|run| PanelFormat {
                        run,
                        depth_multiple: amx::TILE_WORDS,
                        most_slice_words: amx::slice_words(arithmetic),
                        ..panels(amx::BLOCK)
                    }),
                    _ => [avx512::ROWS, avx512::VECTORS * 16].map(panels),
                }
            } else {
                [portable::ROWS, portable::VECTORS * 8].map(panels)
            }
        }
    }
}

/// Dispatch: the only places where code compiled for an instruction set is entered.
impl Simd {
    /// Runs an algorithm on the vectors of this level.
    pub(crate) fn run<K: Kernel>(self, kernel: K) -> K::Output {
        cfg_if! {
            if #[cfg(target_arch = "x86_64")] {
                match self.level {
                    Level::Portable => kernel.run::<portable::F32x8>(()),
                    // SAFETY: a token of this level exists only if the machine has its instructions.
                    Level::Avx2 => unsafe { avx2::run(kernel) },
                    // SAFETY: as above.
                    Level::Avx512 => unsafe { avx512::run(kernel) },
                    // SAFETY: as above.
                    Level::Avx512Bf16 | Level::Amx => unsafe { avx512::run_bf16(kernel) },
                }
            } else {
                kernel.run::<portable::F32x8>(())
            }
        }
    }

    /// Multiplies a strip whose panels have this level's [`panel_formats`](Self::panel_formats) for `arithmetic`.
    pub(crate) fn multiply(self, arithmetic: Arithmetic, strip: Strip<'_>) {
        assert!(self.supports(arithmetic));
        cfg_if! {
            if #[cfg(target_arch = "x86_64")] {
                match (self.level, arithmetic) {
                    (Level::Portable, _) => portable_multiply(strip),
                    // SAFETY: a token of this level exists only if the machine has its instructions.
                    (Level::Avx2, _) => unsafe { avx2::multiply(strip) },
                    // SAFETY: as above.
                    (Level::Amx, Arithmetic::Bf16 | Arithmetic::Split) => unsafe { amx::multiply(strip) },
                    // SAFETY: as above; the assertion leaves `bf16` to the level that has it.
                    (_, Arithmetic::Bf16 | Arithmetic::Split) => unsafe { avx512::multiply_bf16(strip) },
                    // SAFETY: as above.
                    (_, Arithmetic::F32) => unsafe { avx512::multiply(strip) },
                }
            } else {
                portable_multiply(strip);
            }
        }
    }
}

/// Runs `iterations` depth words of this level's tile from registers alone and returns the floating-point operations
/// done. Divided by the time it takes, that is the rate no matrix product can exceed.
///
/// # Panics
///
/// If the level does not [support](Simd::supports) `arithmetic`.
pub fn fma_peak(simd: Simd, arithmetic: Arithmetic, iterations: u64) -> u64 {
    assert!(simd.supports(arithmetic));
    cfg_if! {
        if #[cfg(target_arch = "x86_64")] {
            match (simd.level, arithmetic) {
                (Level::Portable, _) => portable_peak(iterations),
                // SAFETY: a token of this level exists only if the machine has its instructions.
                (Level::Avx2, _) => unsafe { avx2::peak(iterations) },
                // SAFETY: as above.
                (Level::Amx, Arithmetic::Bf16 | Arithmetic::Split) => unsafe { amx::peak(iterations) },
                // SAFETY: as above; the assertion leaves `bf16` to the level that has it.
                (_, Arithmetic::Bf16 | Arithmetic::Split) => unsafe { avx512::peak_bf16(iterations) },
                // SAFETY: as above.
                (_, Arithmetic::F32) => unsafe { avx512::peak(iterations) },
            }
        } else {
            portable_peak(iterations);
        }
    }
    let [left, right] = simd.panel_formats(arithmetic);
    let depths = iterations.next_multiple_of(left.depth_multiple as u64)
        * arithmetic.depths_per_word() as u64;
    2 * depths * (left.width * right.width) as u64
}

/// How many times faster this level multiplies `bf16` in pairs than `f32`; it has both.
fn pairs_to_f32(simd: Simd) -> f64 {
    let rate = |arithmetic| {
        // The fastest of several short runs: an interruption spoils one of them, not the answer.
        let rates = (0..8).map(|_| {
            let start = Instant::now();
            let flops = fma_peak(simd, arithmetic, 500);
            flops as f64 / start.elapsed().as_secs_f64()
        });
        rates.fold(0.0, f64::max)
    };
    rate(Arithmetic::Bf16) / rate(Arithmetic::F32)
}

fn portable_multiply(strip: Strip<'_>) {
    microkernel::multiply::<portable::F32x8, _, { portable::ROWS }, { portable::VECTORS }>(
        (),
        microkernel::Fused,
        strip,
    );
}

fn portable_peak(iterations: u64) {
    microkernel::peak::<portable::F32x8, _, { portable::ROWS }, { portable::VECTORS }>(
        (),
        microkernel::Fused,
        iterations,
    );
}

fn same_length(a: usize, b: usize) {
    assert_eq!(a, b, "the slices must be equally long");
}

#[cfg(test)]
mod tests;
