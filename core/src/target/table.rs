//! The table: one row per figure, one column per generation.
//!
//! To add a figure, add a row. To add a generation, extend `Generation`, `COUNT` and `NAMES`; the
//! compiler then asks for the new column of every row.

use super::figure::{Figure, NamedFigure, Status, derived, documented, row, unknown};
use super::{COUNT, Generation, LANES, NAMES};
use Status::{Calibrated, Derived, Documented};

// Published sources.
const TPU_INFO: &str = "jax/_src/tpu_info.py at cec06d116c";
const CLOUD: &str = "docs.cloud.google.com/tpu/docs, page of the generation";
const PLATFORM_INFO: &str = "openxla/xla xla/benchmarks/core/platform_info.py at acb91cba";
const CANONICALIZE: &str =
    "jax canonicalize_mosaic.cc at 43d14afad3~1, bf16_ops_min_supported_versions";
const SCALING_BOOK: &str = "jax-ml/scaling-book tpus.md at 0819a7d";
const PALLAS_DETAILS: &str = "jax docs/pallas/tpu/details.rst";

// What the compiler was seen to do. Nothing here was timed on hardware.
const OCCUPANCY: &str = "TPU compiler occupancy table, libtpu 0.0.51";
const SCHEDULES: &str = "TPU compiler schedules of probe kernels, libtpu 0.0.51";
const VMEM_REPORT: &str = "TPU compiler VMEM reports, libtpu 0.0.51";
const COPY_FIT: &str = "fit to libtpu 0.0.51 static simulation of streaming kernels";
const NO_V4_COPIES: &str = "libtpu 0.0.51 has no copy model for v4";
const UNPUBLISHED: &str = "not published";

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Declares [`Target`], [`TARGETS`] and [`Target::figures`] from rows of
/// `name: type, "unit" = figures of all targets;`.
macro_rules! table {
    ($( $(#[doc = $doc:literal])+ $name:ident: $ty:ty, $unit:literal = $row:expr; )+) => {
        /// One TPU generation. Every figure has unit, status and source.
        #[derive(Clone, PartialEq, Debug)]
        #[non_exhaustive]
        pub struct Target {
            /// The generation.
            pub generation: Generation,
            /// The name used on the command line and in reports: `v4`, `v5e`, `v5p`, `v6e`, `v7x`.
            pub name: &'static str,
            /// Other names of the same target.
            pub aliases: &'static [&'static str],
            $( $(#[doc = $doc])+ pub $name: Figure<$ty>, )+
        }

        /// All targets, oldest generation first.
        pub static TARGETS: [Target; COUNT] =
            [column(0), column(1), column(2), column(3), column(4)];

        const fn column(i: usize) -> Target {
            $(
                #[allow(non_upper_case_globals)]
                const $name: [Figure<$ty>; COUNT] = $row;
            )+
            let (name, aliases) = NAMES[i].split_first().expect("every target has a name");
            Target {
                generation: Generation::ALL[i],
                name,
                aliases,
                $( $name: $name[i].in_unit($unit), )+
            }
        }

        impl Target {
            /// Every figure of the target by name, in the order of the table.
            pub fn figures(&self) -> impl ExactSizeIterator<Item = NamedFigure> + use<> {
                [ $( NamedFigure::new(stringify!($name), concat!($($doc),+), self.$name), )+ ]
                    .into_iter()
            }
        }
    };
}

// Columns: v4, v5e, v5p, v6e, v7x.
table! {
    // ---- The chip ----

    /// TensorCores of a chip.
    tensorcores: usize, "cores" = row(Documented, [2, 1, 2, 1, 2], TPU_INFO);
    /// Whether one device drives all cores of the chip and splits a parallel grid axis among them.
    megacore: bool, "yes/no" = row(Documented, [true, false, true, false, false], TPU_INFO);
    /// Clock of a core, default setting.
    clock_hz: f64, "Hz" = [
        derived(1.05e9, "275e12 FLOP/s / (2 cores x 65536 MAC/cycle x 2 FLOP/MAC), rounded"),
        documented(1.5e9, PLATFORM_INFO),
        documented(1.75e9, PLATFORM_INFO),
        documented(1.75e9, PLATFORM_INFO),
        documented(1.9e9, "openxla/xla platform_info.py at acb91cba, default P-state P3 of P0..P7"),
    ];
    /// Clock of a core at which the published peak holds.
    peak_clock_hz: f64, "Hz" = [
        derived(1.05e9, "275e12 FLOP/s / (2 cores x 65536 MAC/cycle x 2 FLOP/MAC), rounded"),
        documented(1.5e9, PLATFORM_INFO),
        documented(1.75e9, PLATFORM_INFO),
        documented(1.75e9, PLATFORM_INFO),
        documented(2.2e9, "openxla/xla platform_info.py at acb91cba, highest P-state P7"),
    ];
    /// Peak bf16 rate of the chip, at the peak clock.
    peak_bf16_flops_per_s: f64, "FLOP/s" =
        row(Documented, [2.75e14, 1.97e14, 4.59e14, 9.18e14, 2.307e15], CLOUD);
    /// HBM of the chip.
    hbm_bytes: u64, "bytes" = [
        documented(32 * GIB, CLOUD),
        derived(16 * GIB, "docs say 16 GB, read as GiB because JAX tpu_info.py says 17.2e9 bytes"),
        documented(95 * GIB, "docs.cloud.google.com/tpu/docs/v5p; JAX tpu_info.py: 103e9 bytes"),
        derived(32 * GIB, "docs say 32 GB, read as GiB because JAX tpu_info.py says 34.4e9 bytes"),
        documented(192 * GIB, CLOUD),
    ];
    /// HBM bandwidth of the chip.
    hbm_bytes_per_s: f64, "bytes/s" = [
        documented(1.2e12, "docs.cloud.google.com/tpu/docs/v4; JAX tpu_info.py: 1.23e12"),
        documented(8.19e11, "docs.cloud.google.com/tpu/docs/v5e; JAX tpu_info.py: 8.2e11"),
        documented(2.765e12, "docs.cloud.google.com/tpu/docs/v5p; conflict: JAX tpu_info.py 2.46e12"),
        documented(1.638e12, "docs.cloud.google.com/tpu/docs/v6e; JAX tpu_info.py: 1.64e12"),
        documented(7.38e12, "docs.cloud.google.com/tpu/docs/tpu7x; JAX tpu_info.py: 7.40e12"),
    ];
    /// Links to neighbouring chips (ICI).
    ici_links: usize, "links" = [
        derived(6, "3D torus, docs.cloud.google.com/tpu/docs/v4"),
        documented(4, CLOUD),
        derived(6, "3D torus, docs.cloud.google.com/tpu/docs/v5p"),
        documented(4, CLOUD),
        derived(6, "3D torus, docs.cloud.google.com/tpu/docs/tpu7x"),
    ];
    /// Bandwidth of one link in one direction.
    ici_link_bytes_per_s: f64, "bytes/s" =
        row(Documented, [4.5e10, 4.5e10, 9e10, 9e10, 9e10], SCALING_BOOK);

    // ---- Memories of a core ----

    /// VMEM of a core, physical size.
    vmem_bytes: u64, "bytes" =
        row(Documented, [16 * MIB, 128 * MIB, 64 * MIB, 128 * MIB, 64 * MIB], TPU_INFO);
    /// VMEM of a core that a kernel can use when its limit is raised as far as it goes.
    vmem_usable_bytes: u64, "bytes" = [
        Figure::new(Calibrated, 16 * MIB, VMEM_REPORT),
        Figure::new(Calibrated, 128 * MIB, VMEM_REPORT),
        Figure::new(Calibrated, 64 * MIB - 64 * KIB, USABLE_64),
        Figure::new(Calibrated, 128 * MIB - 64 * KIB, USABLE_128),
        Figure::new(Calibrated, 64 * MIB - 64 * KIB, USABLE_64),
    ];
    /// VMEM limit of a kernel that does not set its own. Usage equal to the limit passes.
    default_vmem_limit_bytes: u64, "bytes" = [
        Figure::new(Calibrated, 16 * MIB, VMEM_REPORT),
        Figure::new(Calibrated, 16 * MIB, LIMIT_V5),
        Figure::new(Calibrated, 16 * MIB, LIMIT_V5),
        Figure::new(Calibrated, 32 * MIB, VMEM_REPORT),
        Figure::new(Calibrated, 32 * MIB, VMEM_REPORT),
    ];
    /// Scratch that the compiler adds to a kernel that needs it (seen only on v4, for relayouts of
    /// single rows and vectors), and drops otherwise.
    internal_scratch_bytes: u64, "bytes" =
        row(Calibrated, [36 * KIB, 36 * KIB, 36 * KIB, 36 * KIB, 72 * KIB],
            "TPU compiler VMEM reports, libtpu 0.0.51; XLA platform_info.py: 72 KiB from v5e on");
    /// A window's buffers together round up to a multiple of this.
    vmem_window_granule_bytes: u64, "bytes" = row(Calibrated, [KIB; COUNT], VMEM_REPORT);
    /// Scalar memory of a core.
    smem_bytes: u64, "bytes" = row(Documented, [MIB; COUNT], TPU_INFO);

    // ---- Vector registers and tiles ----

    /// Lanes of a vector register: elements along the minor dimension of a tile.
    lanes: usize, "lanes" = row(Documented, [LANES; COUNT], TPU_INFO);
    /// Sublanes of a vector register: 32-bit rows of a tile.
    sublanes: usize, "sublanes" = row(Documented, [8; COUNT], TPU_INFO);
    /// Size of a vector register, and of a spill slot.
    vreg_bytes: u64, "bytes" = [
        documented(4096, PALLAS_DETAILS),
        documented(4096, PALLAS_DETAILS),
        documented(4096, PALLAS_DETAILS),
        documented(4096, PALLAS_DETAILS),
        derived(4096, "128 lanes x 8 sublanes x 4 bytes"),
    ];
    /// Vector registers of a core.
    vregs: Option<usize>, "registers" = [
        documented(Some(32), SCALING_BOOK),
        derived(Some(64), "taken equal to v5p; notes in T-K-233/Modeling-Google-TPU agree"),
        documented(Some(64), SCALING_BOOK),
        unknown(UNPUBLISHED),
        unknown(UNPUBLISHED),
    ];
    /// Rows of the tile of a bf16 buffer whose rows they divide; else it is `sublanes` at most.
    bf16_tile_rows: usize, "rows" =
        row(Documented, [8, 8, 8, 8, 16], "jax/_src/tpu_info.py at cec06d116c, get_sublane_tiling");
    /// Whether vector arithmetic (add, multiply, max, exp, tanh, log) takes bf16; if not, it is
    /// done in f32.
    native_bf16_vectors: bool, "yes/no" =
        row(Documented, [false, false, false, true, true], CANONICALIZE);

    // ---- Matrix units ----

    /// Matrix units of a core.
    mxu_count: usize, "units" = row(Documented, [4, 4, 4, 2, 2], TPU_INFO);
    /// Rows and columns of a matrix unit; contraction and output columns pad to a multiple of it.
    mxu_dim: usize, "elements" = row(Documented, [128, 128, 128, 256, 256], TPU_INFO);
    /// Multiply-adds per cycle of all matrix units of a core, bf16 operands.
    mxu_macs_per_cycle: u64, "MAC/cycle" =
        row(Derived, [65536, 65536, 65536, 262144, 262144],
            "mxu_count x mxu_dim^2 x 16 rows / vmatmul_bf16_cycles");
    /// Cycles that 16 bf16 rows hold a matrix unit.
    vmatmul_bf16_cycles: u64, "cycles" = row(Calibrated, [16, 16, 16, 8, 8], OCCUPANCY);
    /// Cycles that 8 f32 rows hold a matrix unit, per pass.
    vmatmul_f32_cycles: u64, "cycles" = row(Calibrated, [8, 8, 8, 4, 4], OCCUPANCY);
    /// Cycles to push 16 bf16 rows of weights into a matrix unit.
    matpush_bf16_cycles: u64, "cycles" = row(Calibrated, [8, 4, 4, 4, 4], OCCUPANCY);
    /// Cycles to push 8 f32 rows of weights into a matrix unit.
    matpush_f32_cycles: u64, "cycles" = row(Calibrated, [8, 2, 2, 2, 2], OCCUPANCY);
    /// Passes of an f32 product at default precision (operands rounded to bf16).
    f32_default_passes: u64, "passes" = row(Calibrated, [1; COUNT], SCHEDULES);
    /// Passes of an f32 product at high precision (three bf16 products).
    f32_high_passes: u64, "passes" = row(Calibrated, [3; COUNT], SCHEDULES);
    /// Passes of an f32 product at highest precision (six bf16 products).
    f32_highest_passes: u64, "passes" = row(Calibrated, [6; COUNT], SCHEDULES);
    /// Cycles of one block product beyond `passes x macs / mxu_macs_per_cycle`.
    matmul_overhead_cycles: u64, "cycles" =
        row(Calibrated, [180, 173, 182, 272, 290],
            "TPU compiler schedules, libtpu 0.0.51: 128^3 to 1024x512x1024, residual under 55 cycles");

    // ---- Vector and scalar units ----

    /// Vector ALU operations per cycle.
    valu_slots: u64, "registers/cycle" = row(Calibrated, [2, 4, 4, 4, 4], OCCUPANCY);
    /// Transcendental operations (exp, log, tanh, 1/x, 1/sqrt) per cycle.
    eup_per_cycle: f64, "registers/cycle" = row(Calibrated, [0.5, 1.0, 1.0, 1.0, 1.0], OCCUPANCY);
    /// Registers loaded from VMEM per cycle.
    vector_loads_per_cycle: u64, "registers/cycle" = row(Calibrated, [1, 3, 3, 3, 3], OCCUPANCY);
    /// Registers stored to VMEM per cycle.
    vector_stores_per_cycle: u64, "registers/cycle" = row(Calibrated, [1, 1, 1, 2, 2], OCCUPANCY);
    /// Registers loaded and stored per cycle, together.
    vector_accesses_per_cycle: u64, "registers/cycle" = [
        derived(2, "loads + stores per cycle; no joint limit seen"),
        derived(4, "loads + stores per cycle; no joint limit seen"),
        derived(4, "loads + stores per cycle; no joint limit seen"),
        Figure::new(Calibrated, 4, OCCUPANCY),
        Figure::new(Calibrated, 4, OCCUPANCY),
    ];
    /// Results taken from the matrix, transcendental and cross-lane units per cycle.
    result_pops_per_cycle: u64, "registers/cycle" = row(Calibrated, [2; COUNT], OCCUPANCY);
    /// Cross-lane units of a core.
    xlu_count: u64, "units" =
        row(Calibrated, [2, 3, 3, 2, 2],
            "TPU compiler occupancy table, libtpu 0.0.51; scaling book: 2 on v5p");
    /// Cycles that a lane reduction, transpose or broadcast holds a cross-lane unit.
    xlu_hold_cycles: u64, "cycles" = row(Calibrated, [8, 9, 9, 4, 4], OCCUPANCY);
    /// Scalar operations per cycle.
    scalar_slots: u64, "operations/cycle" = row(Calibrated, [2; COUNT], OCCUPANCY);
    /// Bundles between a branch and its effect.
    branch_delay_cycles: u64, "cycles" = row(Calibrated, [1, 4, 4, 4, 6], OCCUPANCY);

    // ---- Grid steps and copies ----

    /// Cycles of a grid step with one input and one output window, beyond the kernel's own.
    grid_step_cycles: u64, "cycles" = row(Calibrated, [64, 64, 89, 88, 91], SCHEDULES);
    /// Cycles of a grid step for each further operand.
    grid_step_operand_cycles: u64, "cycles" =
        row(Calibrated, [20; COUNT], "TPU compiler schedules, libtpu 0.0.51: 15 to 25 seen");
    /// Cycles from the issue of a copy from HBM to VMEM to the end of its wait, beyond the bytes'.
    hbm_to_vmem_latency_cycles: Option<u64>, "cycles" = copies([1116, 643, 527, 650]);
    /// Cycles from the issue of a copy from VMEM to HBM to the end of its wait, beyond the bytes'.
    vmem_to_hbm_latency_cycles: Option<u64>, "cycles" = copies([476, 638, 477, 630]);
    /// Rate of one copy between HBM and VMEM. The cycles are those of `peak_clock_hz`.
    dma_bytes_per_cycle: Option<f64>, "bytes/cycle" = copies([491.0, 1251.0, 776.0, 1688.0]);
    /// Unit in which copies are sized.
    dma_granule_bytes: u64, "bytes" = row(Calibrated, [512, 32, 32, 32, 32], SCHEDULES);
}

const USABLE_64: &str =
    "TPU compiler, libtpu 0.0.51: `Used 64.81M of 63.94M vmem. Exceeded by 896.0K` at 64.8125 MiB";
const USABLE_128: &str = "TPU compiler, libtpu 0.0.51: `Used 128.07M of 127.94M vmem. \
                          Exceeded by 136.0K` at 128 MiB + 72 KiB";
const LIMIT_V5: &str =
    "TPU compiler VMEM reports, libtpu 0.0.51; conflict: XLA platform_info.py 32 MiB";

/// A row of the copy model: nothing for v4, then v5e, v5p, v6e, v7x.
const fn copies<T: Copy>(values: [T; COUNT - 1]) -> [Figure<Option<T>>; COUNT] {
    let mut figures = [unknown(NO_V4_COPIES); COUNT];
    let mut i = 1;
    while i < COUNT {
        figures[i] = Figure::new(Calibrated, Some(values[i - 1]), COPY_FIT);
        i += 1;
    }
    figures
}
