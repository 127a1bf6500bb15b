//! What a kernel needs against what a target has, as a ledger of terms.
//!
//! The sum alone does not help anyone whose block sizes do not fit: the ledger says which window or
//! scratch buffer costs what, so that the error can name the largest.
//!
//! VMEM follows the compiler's own accounting: every window times its buffers (two when the block
//! changes between steps, so that a copy can run ahead, else one), every scratch buffer, each
//! [padded](padding) to the target's tiles. Register spills, which the compiler adds, cannot be known from a
//! spec; a ledger is exact for windows and scratch and a lower bound for the whole.
//!
//! How vectors are laid out on a TPU is decided here: per-row windows are `[1, b]` rows (4 KiB for
//! 1024 f32; a `[b, 1]` column would take 512 KiB), while per-row scratch is `[b, 128]`, one value
//! across the lanes, so that it meets the rows of a tile without a transpose in every step.

pub mod padding;

use alloc::vec::Vec;

use crate::DType;
use crate::program::{Kernel, Program, Role};
use crate::spec::{Blocked, Buffer, KernelSpec, Layout};
use crate::target::Target;
use padding::{PaddingError, padded_bytes, window_bytes};

/// What a term of a VMEM ledger is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TermKind {
    /// Buffers of a window.
    Window,
    /// Memory of the kernel.
    Scratch,
    /// Memory that the compiler adds to rearrange values.
    Internal,
    /// Where registers are kept that do not fit; decided by the compiler's register allocation.
    Spills,
}

impl TermKind {
    /// The name used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Window => "window",
            Self::Scratch => "scratch",
            Self::Internal => "internal",
            Self::Spills => "spill",
        }
    }
}

/// One allocation in VMEM.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Term {
    /// Buffer.
    pub name: &'static str,
    /// Window or scratch.
    pub kind: TermKind,
    /// Elements along each dimension of one buffer.
    pub shape: Vec<usize>,
    /// Bytes of all buffers together, padded.
    pub bytes: u64,
    /// Number of buffers.
    pub buffers: usize,
}

/// The VMEM of one kernel on one core.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VmemLedger {
    /// The allocations, in declaration order.
    pub terms: Vec<Term>,
    /// What the compiler allows: the given limit, or the target's default; bytes.
    pub limit_bytes: u64,
    /// What a kernel could use at most with a raised limit; bytes.
    pub capacity_bytes: u64,
}

impl VmemLedger {
    /// The ledger of `spec` on `target`, against `limit_bytes` or the target's default limit. A
    /// limit above the capacity acts as the capacity.
    ///
    /// # Errors
    /// A buffer whose padded size overflows.
    pub fn new(
        spec: &KernelSpec,
        target: &Target,
        limit_bytes: Option<u64>,
    ) -> Result<Self, PaddingError> {
        let mut terms = Vec::new();
        for named in spec.buffers() {
            let (kind, shape, bytes, buffers) = match &named.buffer {
                Buffer::Window {
                    layout, operand, ..
                } => {
                    let buffers = if spec.varies(operand) && !operand.one_buffer {
                        2
                    } else {
                        1
                    };
                    let shape = window_shape(*layout, operand);
                    let bytes = window_bytes(&shape, operand.dtype, buffers, target)?;
                    (TermKind::Window, shape, bytes, buffers)
                }
                Buffer::Scratch {
                    dtype,
                    layout,
                    shape,
                } => {
                    let shape = scratch_shape(*layout, shape, target);
                    let bytes = padded_bytes(&shape, *dtype, target)?;
                    (TermKind::Scratch, shape, bytes, 1)
                }
                buffer @ Buffer::Stats { rows, .. } => {
                    let shape = scratch_shape(Layout::Rows, &[*rows], target);
                    let bytes = padded_bytes(&shape, DType::F32, target)?;
                    let values = buffer.values_per_row();
                    let all = bytes.saturating_mul(values as u64);
                    (TermKind::Scratch, shape, all, values)
                }
                Buffer::Hbm { .. } | Buffer::Semaphore => continue,
            };
            terms.push(Term {
                name: named.name,
                kind,
                shape,
                bytes,
                buffers,
            });
        }
        let capacity_bytes = target.vmem_usable_bytes.value;
        let limit = limit_bytes.unwrap_or(target.default_vmem_limit_bytes.value);
        Ok(Self {
            terms,
            limit_bytes: limit.min(capacity_bytes),
            capacity_bytes,
        })
    }

    /// Sum of the terms, bytes.
    pub fn used_bytes(&self) -> u64 {
        self.terms
            .iter()
            .fold(0, |sum, term| sum.saturating_add(term.bytes))
    }

    /// Sum of the windows, bytes.
    pub fn window_bytes(&self) -> u64 {
        let windows = (self.terms.iter()).filter(|term| term.kind == TermKind::Window);
        windows.fold(0, |sum, term| sum.saturating_add(term.bytes))
    }

    /// Whether the sum is within the limit, inclusive as the compiler's check is.
    pub fn fits(&self) -> bool {
        self.used_bytes() <= self.limit_bytes
    }

    /// The largest term.
    pub fn largest(&self) -> Option<&Term> {
        self.terms.iter().max_by_key(|term| term.bytes)
    }
}

/// One array in HBM.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HbmTerm {
    /// Array.
    pub name: &'static str,
    /// Padded bytes.
    pub bytes: u64,
    /// Who owns it.
    pub role: Role,
}

/// The HBM that a program's arrays need on one chip.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HbmLedger {
    /// Inputs, outputs and temporaries, all taken to be alive at once.
    pub terms: Vec<HbmTerm>,
    /// HBM of a chip, bytes.
    pub capacity_bytes: u64,
}

impl HbmLedger {
    /// The ledger of the arrays of `programs`; an array that several have by the same name, inputs
    /// and outputs only, counts once.
    ///
    /// # Errors
    /// An array whose padded size overflows.
    pub fn new<'a, K: Kernel + 'a>(
        programs: impl IntoIterator<Item = &'a Program<K>>,
        target: &Target,
    ) -> Result<Self, PaddingError> {
        let mut terms: Vec<HbmTerm> = Vec::new();
        for (i, program) in programs.into_iter().enumerate() {
            for array in program.arrays() {
                let shared = i > 0
                    && array.role != Role::Temporary
                    && terms.iter().any(|term| term.name == array.name);
                if shared {
                    continue;
                }
                terms.push(HbmTerm {
                    name: array.name,
                    bytes: padded_bytes(&array.dims, array.dtype, target)?,
                    role: array.role,
                });
            }
        }
        Ok(Self {
            terms,
            capacity_bytes: target.hbm_bytes.value,
        })
    }

    /// Sum of the terms, bytes.
    pub fn used_bytes(&self) -> u64 {
        self.terms
            .iter()
            .fold(0, |sum, term| sum.saturating_add(term.bytes))
    }

    /// Sum of the temporaries, bytes.
    pub fn temporary_bytes(&self) -> u64 {
        let temporary = |term: &&HbmTerm| term.role == Role::Temporary;
        self.terms
            .iter()
            .filter(temporary)
            .map(|term| term.bytes)
            .sum()
    }

    /// Whether the sum is within the capacity.
    pub fn fits(&self) -> bool {
        self.used_bytes() <= self.capacity_bytes
    }
}

/// The shape a window's block has in VMEM.
fn window_shape(layout: Layout, operand: &Blocked) -> Vec<usize> {
    match layout {
        Layout::Tile => operand.block.clone(),
        Layout::Rows | Layout::Columns => [1, operand.block[0]].into(),
    }
}

/// The shape a scratch buffer has in VMEM.
fn scratch_shape(layout: Layout, shape: &[usize], target: &Target) -> Vec<usize> {
    match layout {
        Layout::Tile => shape.into(),
        Layout::Rows => [shape[0], target.lanes.value].into(),
        Layout::Columns => [1, shape[0]].into(),
    }
}
