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

use super::format::Arithmetic;
use super::microkernel::{Slice, Strip};
use super::word::SPLIT_PARTS;

/// Rows and columns of a block of results.
pub(super) const BLOCK: usize = 32;
/// Depth words in a tile register.
pub(super) const TILE_WORDS: usize = 16;
/// Depth words of a slice, of all parts of a right panel: 32 KiB, which stay in L1 while left panels pass by it, or 96
/// KiB of split operands. Those are loaded half as often for a product and may come from L2, while sums pass through
/// memory, too, to be added.
pub(super) const fn slice_words(arithmetic: Arithmetic) -> usize {
    match arithmetic {
        Arithmetic::Split => 256 * SPLIT_PARTS,
        _ => 256,
    }
}
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

/// Multiplies `bf16` pairs. Left panels hold [`TILE_WORDS`] words of each lane together; the depth is a multiple of
/// that.
///
/// # Safety
///
/// [`is_available`] must have said so.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn multiply(mut strip: Strip<'_>) {
    // SAFETY: the caller says that the machine has the instructions; the operand is a valid configuration.
    unsafe { asm!("ldtilecfg [{}]", in(reg) &WHOLE, options(nostack, readonly)) };
    let mut scratch = [0.0; BLOCK * BLOCK];
    for panel in 0..strip.right_panels(BLOCK) {
        // SAFETY: configured above.
        unsafe { multiply_panel(strip.of_right_panel(panel, BLOCK), &mut scratch) };
    }
    // SAFETY: as for the configuration. Without it the system would save the registers at every switch of threads.
    unsafe { asm!("tilerelease", options(nostack, nomem)) };
}

/// Multiplies what has one right panel; `scratch` is for results that do not go to their place at once.
///
/// # Safety
///
/// [`is_available`] must have said so, and the registers are configured whole.
#[target_feature(enable = "avx512f")]
unsafe fn multiply_panel(strip: Strip<'_>, scratch: &mut [f32; BLOCK * BLOCK]) {
    let is_split = strip.lhs.parts * strip.rhs.parts > 1;
    for (i, first_row) in (0..strip.rows).step_by(BLOCK).enumerate() {
        let rows = BLOCK.min(strip.rows - first_row);
        let operands = [strip.lhs.starting_at(i), strip.rhs];
        let out = &mut strip.out[first_row * strip.row_stride..];
        // What is there is added to the sum of all products of parts, once: a sum over many calls would round each of
        // them to its own size.
        if rows == BLOCK && strip.columns == BLOCK && !(strip.accumulate && is_split) {
            let below = out.as_ptr().wrapping_add(BLOCK * strip.row_stride);
            let soon = (below, strip.row_stride);
            // SAFETY: as the caller says.
            unsafe { sum(out, strip.row_stride, operands, strip.accumulate, soon) };
            continue;
        }
        let soon = (out.as_ptr(), strip.row_stride);
        // SAFETY: as above.
        unsafe { sum(scratch, BLOCK, operands, false, soon) };
        for (row, sums) in scratch.chunks_exact(BLOCK).enumerate().take(rows) {
            let out = &mut out[row * strip.row_stride..][..strip.columns];
            for (out, sum) in out.iter_mut().zip(sums) {
                *out = if strip.accumulate { *out + sum } else { *sum };
            }
        }
    }
}

/// One block of results: the product of the first panels of two operands, after what is there, to accumulate. Meanwhile
/// the rows at `soon`, so far apart, are asked for.
///
/// # Safety
///
/// The machine has AMX and the registers are configured whole.
unsafe fn sum(
    out: &mut [f32],
    row_stride: usize,
    operands: [Slice<'_>; 2],
    accumulate: bool,
    soon: (*const f32, usize),
) {
    let [lhs, rhs] = operands;
    assert!(out.len() >= (BLOCK - 1) * row_stride + BLOCK);
    assert!(lhs.len == rhs.len && lhs.len.is_multiple_of(BLOCK * TILE_WORDS));
    for operand in operands {
        assert!([1, SPLIT_PARTS].contains(&operand.parts));
        assert!(operand.part(0, operand.parts - 1).len() == operand.len);
    }
    let out = out.as_mut_ptr();
    // SAFETY: of machine and registers the caller says so; the assertions are the rest of what `block` asks.
    unsafe {
        match (lhs.parts, rhs.parts) {
            (1, 1) => block::<false, false>(out, row_stride, operands, accumulate, soon),
            (_, 1) => block::<true, false>(out, row_stride, operands, accumulate, soon),
            (1, _) => block::<false, true>(out, row_stride, operands, accumulate, soon),
            _ => block::<true, true>(out, row_stride, operands, accumulate, soon),
        }
    }
}

/// Loads the rows of a part of the left panel, with the hint that they are not needed again soon, which leaves L1 to
/// the right one.
macro_rules! load_left {
    () => {
        "tileloaddt1 tmm4, [{lhs} + {line}]
         tileloaddt1 tmm5, [{lhs} + {line} + 1024]"
    };
}

/// Loads the columns of a part of the right panel.
macro_rules! load_right {
    () => {
        "tileloadd tmm6, [{rhs} + 2 * {line}]
         tileloadd tmm7, [{rhs} + 2 * {line} + 64]"
    };
}

/// Adds the products of what is loaded. Meanwhile the part of the operand at that pointer, if one is given, is asked for
/// that belongs to the next group.
macro_rules! add_products {
    () => {
        "tdpbf16ps tmm0, tmm4, tmm6
         tdpbf16ps tmm1, tmm4, tmm7
         tdpbf16ps tmm2, tmm5, tmm6
         tdpbf16ps tmm3, tmm5, tmm7"
    };
    ($operand:literal) => {
        concat!(
            "tdpbf16ps tmm0, tmm4, tmm6\n",
            ask_for!($operand, "0, 64, 128, 192, 256, 320, 384, 448"),
            "tdpbf16ps tmm1, tmm4, tmm7\n",
            ask_for!($operand, "512, 576, 640, 704, 768, 832, 896, 960"),
            "tdpbf16ps tmm2, tmm5, tmm6\n",
            ask_for!($operand, "1024, 1088, 1152, 1216, 1280, 1344, 1408, 1472"),
            "tdpbf16ps tmm3, tmm5, tmm7\n",
            ask_for!($operand, "1536, 1600, 1664, 1728, 1792, 1856, 1920, 1984"),
        )
    };
}

/// Asks for lines of the next group of an operand.
macro_rules! ask_for {
    ($operand:literal, $lines:literal) => {
        concat!(
            ".irp line, ",
            $lines,
            "\n",
            "prefetcht0 [{",
            $operand,
            "} + 2048 + \\line]\n",
            ".endr\n",
        )
    };
}

/// One block of results over the whole depth of a left and a right panel, of which those that are `SPLIT_...` have
/// parts. Meanwhile the rows at `next` are asked for, two in the time of a group, since no processor sees that far
/// ahead; beyond the end that does nothing.
///
/// All products of parts of a group of words come together: what is loaded meets all that it is multiplied by. Six
/// products take seven loads of operands so; in turn, each over the whole depth, they would take twelve, which L2
/// cannot give in time. A product of tiles is rounded to the size of a sum once, not at each of its 32 depths, so that
/// six of them still round a fifth as often as multiply-adds do.
///
/// Each group has one scalar addition that nothing needs. Without any floating-point operation beside them, products of
/// tiles that are not all zeros are issued at a lower rate: on a Xeon 24 of them with their loads took 157 ns, with an
/// addition or a multiplication of any width now and then 141; integer operations, shuffles and empty instructions
/// change nothing. Only with that does it help to ask for the parts of the next group, too.
///
/// # Safety
///
/// The machine has AMX, the registers are configured whole, `out` may be written (and read, to accumulate) at [`BLOCK`]
/// rows of as many values, `row_stride` apart, and the operands are equally long and have whole groups of
/// [`TILE_WORDS`].
unsafe fn block<const SPLIT_LEFT: bool, const SPLIT_RIGHT: bool>(
    out: *mut f32,
    row_stride: usize,
    operands: [Slice<'_>; 2],
    accumulate: bool,
    (next, next_stride): (*const f32, usize),
) {
    let [lhs, rhs] = operands.map(|operand| operand.panels.as_ptr());
    let [left_bytes, right_bytes] = operands.map(|operand| operand.part_stride * size_of::<f32>());
    // SAFETY: each loop reads 2048 bytes of a part of a panel per group of depth words; prefetches read nothing; the
    // rest is what the caller says.
    unsafe {
        asm!(
            "vxorps xmm0, xmm0, xmm0",
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
            // The last left part meets the first right one, the one before it the first two, and the first all three.
            ".if {split_left}",
            "lea {lhs}, [{lhs} + 2 * {left}]",
            load_left!(),
            load_right!(),
            add_products!("lhs"),
            "sub {lhs}, {left}",
            load_left!(),
            add_products!("lhs"),
            ".if {split_right}",
            "add {rhs}, {right}",
            load_right!(),
            add_products!("rhs"),
            "sub {lhs}, {left}",
            load_left!(),
            add_products!("lhs"),
            "add {rhs}, {right}",
            load_right!(),
            add_products!("rhs"),
            "sub {rhs}, {right}",
            "sub {rhs}, {right}",
            ".else",
            "sub {lhs}, {left}",
            ".endif",
            ".elseif {split_right}",
            "lea {rhs}, [{rhs} + 2 * {right}]",
            load_left!(),
            load_right!(),
            add_products!("rhs"),
            "sub {rhs}, {right}",
            load_right!(),
            add_products!("rhs"),
            "sub {rhs}, {right}",
            ".endif",
            // First parts, of which one side may be there already.
            ".if {split_right} || !{split_left}",
            load_right!(),
            ".endif",
            ".if !{split_right}",
            load_left!(),
            ".endif",
            ".if {split_left} || {split_right}",
            add_products!("rhs"),
            ".else",
            add_products!(),
            ".endif",
            "prefetcht0 [{next}]",
            "prefetcht0 [{next} + 64]",
            "prefetcht0 [{next} + {next_stride}]",
            "prefetcht0 [{next} + {next_stride} + 64]",
            "lea {next}, [{next} + 2 * {next_stride}]",
            "vaddss xmm0, xmm0, xmm0",
            "add {lhs}, 2048",
            "add {rhs}, 2048",
            "dec {groups}",
            "jnz 4b",
            "5:",
            "tilestored [{out} + {stride}], tmm0",
            "tilestored [{out} + {stride} + 64], tmm1",
            "tilestored [{below} + {stride}], tmm2",
            "tilestored [{below} + {stride} + 64], tmm3",
            split_left = const SPLIT_LEFT as usize,
            split_right = const SPLIT_RIGHT as usize,
            accumulate = in(reg) usize::from(accumulate),
            out = in(reg) out,
            below = in(reg) out.wrapping_add(TILE * row_stride),
            stride = in(reg) row_stride * size_of::<f32>(),
            next = inout(reg) next => _,
            next_stride = in(reg) next_stride * size_of::<f32>(),
            lhs = inout(reg) lhs => _,
            left = in(reg) left_bytes,
            rhs = inout(reg) rhs => _,
            right = in(reg) right_bytes,
            line = in(reg) 64_usize,
            groups = inout(reg) operands[0].len / (BLOCK * TILE_WORDS) => _,
            out("xmm0") _,
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
            add_products!(),
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
