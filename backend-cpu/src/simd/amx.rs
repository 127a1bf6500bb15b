//! AMX: products of `bf16` tiles, 16 x 32 by 32 x 16, in one instruction.
//!
//! A tile register holds sixteen rows of 64 bytes. One `tdpbf16ps` takes sixteen rows of sixteen words (pairs of
//! depths) from the left and sixteen depth words of sixteen columns from the right, and adds 256 sums: the work of
//! sixteen `vdpbf16ps`, in sixteen cycles. Four registers of sums, two left and two right ones make a block of 32 x 32
//! results with as many loads as products.
//!
//! The intrinsics are not stable, so the loop is assembly. A tile register is defined only inside one block of it:
//! registers are set up, used and stored there.

use std::arch::asm;
use std::arch::x86_64::__cpuid_count;
use std::sync::OnceLock;

use super::microkernel::Strip;

/// Rows and columns of a block of results.
pub(super) const BLOCK: usize = 32;
/// Depth words in a tile register.
pub(super) const TILE_WORDS: usize = 16;
/// Depth words of a slice: 32 KiB of a right panel, which stay in L1 while left panels pass by it.
pub(super) const SLICE_WORDS: usize = 256;
/// Columns of a tile register of results, and its rows.
const TILE: usize = 16;

/// Whether the machine has AMX with `bf16` and the system lets this process use it.
pub(super) fn is_available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| {
        const AMX_BF16: u32 = 1 << 22;
        const AMX_TILE: u32 = 1 << 24;
        let has = __cpuid_count(7, 0).edx;
        has & AMX_BF16 != 0 && has & AMX_TILE != 0 && request_permission()
    })
}

/// Asks Linux for the tile registers, 8 KiB of state that it saves only for processes that asked
/// (<https://docs.kernel.org/arch/x86/xstate.html>). Once asked, it holds for all threads.
#[cfg(target_os = "linux")]
fn request_permission() -> bool {
    const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
    const XTILEDATA: libc::c_long = 18;
    // SAFETY: the system call takes two numbers and touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XTILEDATA) == 0 }
}

/// Other systems are not asked.
#[cfg(not(target_os = "linux"))]
fn request_permission() -> bool {
    false
}

/// What `ldtilecfg` reads: for each of eight registers, bytes of a row and rows.
#[repr(C, align(64))]
struct Configuration {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

/// All registers whole.
const WHOLE: Configuration = {
    let mut configuration = Configuration {
        palette: 1,
        start_row: 0,
        reserved: [0; 14],
        row_bytes: [0; 16],
        rows: [0; 16],
    };
    let mut i = 0;
    while i < 8 {
        configuration.row_bytes[i] = 64;
        configuration.rows[i] = TILE as u8;
        i += 1;
    }
    configuration
};

/// Multiplies one strip of `bf16` pairs. Left panels hold [`TILE_WORDS`] words of each lane together; the depth is a
/// multiple of that.
///
/// # Safety
///
/// [`is_available`] must have said so.
pub(super) unsafe fn multiply(strip: Strip<'_>) {
    // SAFETY: the caller says that the machine has the instructions; the operand is a valid configuration.
    unsafe { asm!("ldtilecfg [{}]", in(reg) &WHOLE, options(nostack, readonly)) };
    for (i, first_row) in (0..strip.rows).step_by(BLOCK).enumerate() {
        let rows = BLOCK.min(strip.rows - first_row);
        let (lhs, rhs) = (strip.lhs, strip.rhs);
        let parts = (0..lhs.parts).flat_map(|left| (0..rhs.parts).map(move |right| (left, right)));
        let products = parts.map(|(left, right)| [lhs.part(i, left), rhs.part(0, right)]);
        let out = &mut strip.out[first_row * strip.row_stride..];
        if rows == BLOCK && strip.columns == BLOCK {
            // SAFETY: configured above.
            unsafe { sum(out, strip.row_stride, products, strip.accumulate) };
            continue;
        }
        let mut scratch = [0.0; BLOCK * BLOCK];
        // SAFETY: configured above.
        unsafe { sum(&mut scratch, BLOCK, products, false) };
        for (row, sums) in scratch.chunks_exact(BLOCK).enumerate().take(rows) {
            let out = &mut out[row * strip.row_stride..][..strip.columns];
            for (out, sum) in out.iter_mut().zip(sums) {
                *out = if strip.accumulate { *out + sum } else { *sum };
            }
        }
    }
    // SAFETY: as for the configuration. Without it the system would save the registers at every switch of threads.
    unsafe { asm!("tilerelease", options(nostack, nomem)) };
}

/// One block of results: the sum of the products of panels, after what is there, to accumulate.
///
/// # Safety
///
/// The machine has AMX and the registers are configured whole.
unsafe fn sum<'a>(
    out: &mut [f32],
    row_stride: usize,
    products: impl Iterator<Item = [&'a [f32]; 2]>,
    accumulate: bool,
) {
    assert!(out.len() >= (BLOCK - 1) * row_stride + BLOCK);
    for (i, [lhs, rhs]) in products.enumerate() {
        assert!(lhs.len() == rhs.len() && lhs.len().is_multiple_of(BLOCK * TILE_WORDS));
        let out = out.as_mut_ptr();
        // SAFETY: of machine and registers the caller says so; the assertions are the rest of what `block` asks.
        unsafe { block(out, row_stride, lhs, rhs, accumulate || i > 0) };
    }
}

/// One block of results over the whole depth of `lhs` and `rhs`, equally long panels. Tiles of `lhs` are loaded with the hint
/// that they are not needed again soon, which leaves L1 to `rhs`. While products run, results of the block below are asked for, two
/// rows in the time of a group, since no processor sees that far ahead; beyond the end that does nothing.
///
/// # Safety
///
/// The machine has AMX, the registers are configured whole, `out` may be written (and read, to accumulate) at
/// [`BLOCK`] rows of as many values, `row_stride` apart, and the panels have whole groups of [`TILE_WORDS`].
unsafe fn block(out: *mut f32, row_stride: usize, lhs: &[f32], rhs: &[f32], accumulate: bool) {
    // SAFETY: the loop reads 2048 bytes of each panel per group of depth words; prefetches read nothing; the rest is what the
    // caller says.
    unsafe {
        asm!(
            "test {accumulate}, {accumulate}",
            "jz 2f",
            "tileloadd tmm0, [{out} + {stride}]",
            "tileloadd tmm1, [{out} + {stride} + 64]",
            "tileloadd tmm2, [{below} + {stride}]",
            "tileloadd tmm3, [{below} + {stride} + 64]",
            "jmp 3f",
            "2:",
            "tilezero tmm0",
            "tilezero tmm1",
            "tilezero tmm2",
            "tilezero tmm3",
            "3:",
            "test {groups}, {groups}",
            "jz 5f",
            "4:",
            "tileloadd tmm6, [{rhs} + {rhs_stride}]",
            "tileloaddt1 tmm4, [{lhs} + {lhs_stride}]",
            "tileloadd tmm7, [{rhs} + {rhs_stride} + 64]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tileloaddt1 tmm5, [{lhs} + {lhs_stride} + 1024]",
            "prefetcht0 [{next}]",
            "prefetcht0 [{next} + 64]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "prefetcht0 [{next} + {stride}]",
            "prefetcht0 [{next} + {stride} + 64]",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "lea {next}, [{next} + 2 * {stride}]",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "add {lhs}, 2048",
            "add {rhs}, 2048",
            "dec {groups}",
            "jnz 4b",
            "5:",
            "tilestored [{out} + {stride}], tmm0",
            "tilestored [{out} + {stride} + 64], tmm1",
            "tilestored [{below} + {stride}], tmm2",
            "tilestored [{below} + {stride} + 64], tmm3",
            accumulate = in(reg) usize::from(accumulate),
            out = in(reg) out,
            below = in(reg) out.wrapping_add(TILE * row_stride),
            stride = in(reg) row_stride * size_of::<f32>(),
            next = inout(reg) out.wrapping_add(BLOCK * row_stride) => _,
            lhs = inout(reg) lhs.as_ptr() => _,
            lhs_stride = in(reg) 64_usize,
            rhs = inout(reg) rhs.as_ptr() => _,
            rhs_stride = in(reg) 128_usize,
            groups = inout(reg) lhs.len() / (BLOCK * TILE_WORDS) => _,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        );
    }
}

/// The products of `iterations` depth words of a block, from registers alone.
///
/// # Safety
///
/// [`is_available`] must have said so.
pub(super) unsafe fn peak(iterations: u64) {
    // SAFETY: the caller says that the machine has the instructions; nothing but registers is touched.
    unsafe {
        asm!(
            "ldtilecfg [{configuration}]",
            "tilezero tmm0",
            "tilezero tmm1",
            "tilezero tmm2",
            "tilezero tmm3",
            "tilezero tmm4",
            "tilezero tmm5",
            "tilezero tmm6",
            "tilezero tmm7",
            "test {groups}, {groups}",
            "jz 3f",
            "2:",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "dec {groups}",
            "jnz 2b",
            "3:",
            "tilerelease",
            configuration = in(reg) &WHOLE,
            groups = inout(reg) iterations.div_ceil(TILE_WORDS as u64) => _,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        );
    }
}
