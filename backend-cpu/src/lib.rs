//! Runs tilecast kernels on this machine.
//!
//! [`Cpu::run`] executes a [`Program`] on borrowed arrays. Kernels see what they would see on a
//! TPU: windows that move over the arrays block by block, scratch memory, a grid whose parallel
//! axes are dealt to threads. What a TPU copies into VMEM is packed into microkernel panels here,
//! and what no kernel may read is NaN.
//!
//! | module | what it holds |
//! |---|---|
//! | [`mod@array`] | borrowed arrays of any stride |
//! | [`simd`] | vector math and microkernels, chosen at run time; the only unsafe code |
//! | [`gemm`] | packed matrix products |
//! | `primitives`, `delta`, `tiles`, `buffers`, `elements`, `panels`, `evaluate`, `leaves` | the primitives of [`TileOps`](tilecast_core::ops::TileOps), executed |
//! | `storage` | arrays as the threads of a launch share them |
//! | `launch`, `run` | grids over threads, programs over launches |

pub mod array;
mod buffers;
mod cache;
mod delta;
mod elements;
mod evaluate;
pub mod gemm;
mod launch;
mod leaves;
mod panels;
mod primitives;
mod run;
pub mod simd;
mod storage;
mod sums;
mod tiles;

use num_integer::lcm;
use thiserror::Error;
use tilecast_core::DType;
use tilecast_core::groups::GroupsError;
use tilecast_core::kernels::linear_ce::Cache;
use tilecast_core::program::{Kernel, Program};

use array::{ArrayError, ArrayMut, ArrayRef};
use gemm::GemmError;
use simd::{Arithmetic, Simd};

/// This machine as a backend: instruction set and number of threads.
#[derive(Clone, Debug)]
pub struct Cpu {
    simd: Simd,
    threads: usize,
    poison: bool,
    arithmetic: Option<Arithmetic>,
}

impl Default for Cpu {
    fn default() -> Self {
        Self::new()
    }
}

impl Cpu {
    /// The best instruction set and all cores.
    pub fn new() -> Self {
        Self {
            simd: Simd::detect(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            poison: cfg!(debug_assertions),
            arithmetic: None,
        }
    }

    /// With so many threads (at least 1).
    pub fn threads(self, threads: usize) -> Self {
        let threads = threads.max(1);
        Self { threads, ..self }
    }

    /// With another instruction set.
    pub fn simd(self, simd: Simd) -> Self {
        Self { simd, ..self }
    }

    /// With temporaries and every block of an output that start as NaN, so that reading what was never written shows,
    /// or a block that was never written. By default only with debug assertions: it costs a pass over memory. What
    /// overhangs the arrays is NaN always, and scratch and windows when a launch starts.
    pub fn poison(self, poison: bool) -> Self {
        Self { poison, ..self }
    }

    /// With products in [`F32`](Arithmetic::F32), or in pairs where the instruction set has them: as they are of two
    /// bf16 operands, [`Split`](Arithmetic::Split) of others, whichever of the two is given. Otherwise each takes the
    /// faster one on this machine, found by a short measurement.
    pub fn arithmetic(self, arithmetic: Arithmetic) -> Self {
        let arithmetic = Some(arithmetic);
        Self { arithmetic, ..self }
    }

    /// How products of operands of these types are computed.
    pub(crate) fn arithmetic_for(&self, left_is_bf16: bool, right_is_bf16: bool) -> Arithmetic {
        match self.arithmetic {
            None => self.simd.arithmetic(left_is_bf16, right_is_bf16),
            Some(Arithmetic::F32) => Arithmetic::F32,
            Some(_) => self.simd.pairs_for(left_is_bf16, right_is_bf16),
        }
    }

    /// Bytes of an element of such a packed operand, at most: beside one of either type.
    pub(crate) fn packed_bytes(&self, dtype: DType) -> usize {
        let is_bf16 = dtype == DType::Bf16;
        let beside = |other| self.arithmetic_for(is_bf16, other).packed_bytes(is_bf16);
        beside(false).max(beside(true))
    }

    /// Number of threads.
    pub fn thread_count(&self) -> usize {
        self.threads
    }

    /// The instruction set.
    pub fn level(&self) -> simd::Level {
        self.simd.level()
    }

    /// What this machine asks of block sizes.
    pub fn cache(&self) -> Cache {
        // Blocks that suit both arithmetics: which one a product takes depends on the types of its operands.
        let tiles = [Arithmetic::F32, Arithmetic::Bf16].map(|a| self.simd.tile_shape(a));
        let [(f32_rows, f32_columns), (bf16_rows, bf16_columns)] = tiles;
        let row_multiple = lcm(f32_rows, bf16_rows);
        let column_multiple = lcm(f32_columns, bf16_columns);
        Cache {
            bytes: cache::level_2_bytes(),
            threads: self.threads,
            row_multiple,
            column_multiple,
            packed_f32_bytes: self.packed_bytes(DType::F32),
            panel_elements: PANEL_ELEMENTS_PER_THREAD,
            chunk_bytes: self.threads * CHUNK_BYTES_PER_THREAD,
            stored_bytes: STORED_BYTES_PER_THREAD,
            operations_per_byte: OPERATIONS_PER_BYTE,
        }
    }

    /// Runs `program`, with its input and output arrays bound by name.
    ///
    /// # Errors
    /// An array is missing or has another shape or type than the program declares. Outputs are
    /// then not written.
    pub fn run<K: Kernel + Sync>(
        &self,
        program: &Program<K>,
        inputs: &[(&str, ArrayRef<'_>)],
        outputs: Vec<(&str, ArrayMut<'_>)>,
    ) -> Result<(), CpuError> {
        run::run(self, program, inputs, outputs)
    }
}

/// Packed rows of `x` stream from the last-level cache once per block of columns.
const PANEL_ELEMENTS_PER_THREAD: usize = 1 << 20;

/// A chunk of delta that two products read back should stay in the last-level cache.
const CHUNK_BYTES_PER_THREAD: usize = 8 << 20;

/// Both passes in one may hold no more.
const STORED_BYTES_PER_THREAD: usize = 48 << 20;

/// A thread makes 130 GFLOP/s of f32 products and packs about 4 GB/s: of 1024 tokens, 1024 hidden, 32768 words, storing
/// the logits of 128, 256 and 352 rows took 1.16, 0.98 and 0.77 of the time of computing them again.
const OPERATIONS_PER_BYTE: usize = 32;

/// Why a program cannot run.
#[derive(Clone, PartialEq, Debug, Error)]
#[non_exhaustive]
pub enum CpuError {
    /// An input or output is not bound.
    #[error("{program}: no array {array} was passed")]
    Missing {
        /// Program.
        program: &'static str,
        /// Array.
        array: &'static str,
    },
    /// An array has another shape or type.
    #[error(
        "{program}: array {array} must be {expected_dtype}{expected:?}, got {got_dtype}{got:?}"
    )]
    Shape {
        /// Program.
        program: &'static str,
        /// Array.
        array: &'static str,
        /// Declared type.
        expected_dtype: DType,
        /// Declared shape.
        expected: Vec<usize>,
        /// Type passed.
        got_dtype: DType,
        /// Shape passed.
        got: Vec<usize>,
    },
    /// An array is not what its slice can hold.
    #[error(transparent)]
    Array(#[from] ArrayError),
    /// An index map that depends on scalars left its array.
    #[error("{kernel}: block {block:?} of {operand} is outside its {counts:?} blocks")]
    BlockOutside {
        /// Kernel.
        kernel: String,
        /// Operand.
        operand: &'static str,
        /// Block indices.
        block: Vec<i64>,
        /// Number of blocks along each dimension.
        counts: Vec<usize>,
    },
    /// Groups have more rows than there are, or fewer than none.
    #[error(transparent)]
    Groups(#[from] GroupsError),
    /// The operands of a product do not fit each other.
    #[error("{kernel}: {error}")]
    Product {
        /// Kernel.
        kernel: String,
        /// What does not fit.
        error: GemmError,
    },
}
