//! The VMEM of a kernel as the compiler counts it, from its module.
//!
//! | what | how much |
//! |---|---|
//! | window of an operand | its block, [padded](tilecast_core::budget::padding), twice if its index map depends on an axis of several steps |
//! | scratch | padded, once; nothing if what is stored is only read where the value is still at hand |
//! | memory allocated in the body | as much as is alive at once |
//! | internal scratch | a fixed amount, where the target needs it to rearrange rows; a register for each that spreads rows |
//! | register spills | from outside: only a model of the registers knows |
//!
//! The compiler knows no more of how often a block changes than whether its map reads the index: `i // 2`
//! has two buffers, and so has an index that each core sees one value of. A core that runs one step
//! needs one buffer of everything. `pipeline_mode` `synchronous` has one.
//!
//! The check against the limit is inclusive.
//!
//! # How sure the verdict is
//!
//! Windows and scratch are counted, spills are estimated. So near the limit a verdict is a matter of
//! probability: that of the registers which are needed at once being no more than the file and the
//! VMEM left over hold. The estimate is wrong by a [factor](SPILL_ERROR) rather than by an amount, and its errors
//! have longer tails than a normal variable's: their logarithm is taken to be a logistic one. Where the
//! estimate cannot turn the verdict, the probability is near 0 or 1; [`is_open`] tells.

mod internal;

use std::f64::consts::PI;

use thiserror::Error;
use tilecast_core::DType;
use tilecast_core::budget::padding::{PaddingError, padded_bytes, window_bytes};
use tilecast_core::budget::{self, TermKind};
use tilecast_core::spec::KernelSpec;
use tilecast_core::target::Target;
use tilecast_tpu::mosaic::tpu::{MemorySpace, PipelineMode, memory_space};
use tilecast_tpu::mosaic::{Block, DYNAMIC, Module, TypeKind, Value};

use crate::grid::Grid;
use crate::signature::{Operand, Signature, memref};
use crate::verdict::{Largest, vmem_reason};

pub(crate) use internal::internal_depends_on_body;

/// Standard deviation of the logarithm of the registers that a kernel needs at once over those
/// predicted.
///
/// Measured against the spill slots of libtpu 0.0.51 in kernels that spill or were said to, all targets: 0.23 in 1398
/// of this library that nothing was fitted to, 0.17 in 309 of JAX and Tokamax. What counts is how many need no more
/// than there is room for: `e^0.4`, `e^0.6` and `e^0.8` times the registers predicted hold 97, 99 and 99 % of the
/// former and 96, 98 and 100 % of the latter, and 81, 90 and 95 % of a logistic variable of this deviation.
pub const SPILL_ERROR: f64 = 0.5;

/// The scale of a logistic variable of that deviation: sqrt(3) / pi of it.
const SPILL_SCALE: f64 = SPILL_ERROR * 1.732_050_807_568_877_2 / PI;

/// How likely a kernel fits a limit that is ours to choose, if there is as much VMEM.
pub const FIT_PROBABILITY: f64 = 0.9;

/// What a limit leaves beyond the prediction where it is ours to choose, bytes: at most a tenth of all VMEM.
///
/// Of 1,988 kernels of this library on the five targets, bf16 and f32, exact and rounded products, the compiler used at
/// most 2.5 MiB beyond the prediction, spills of registers included, on v7x (libtpu 0.0.51). Of the 396 on v4, where a
/// tenth is 1.6 MiB and every MiB that blocks may have makes them faster, it was 0.84 MiB.
pub fn room_bytes(target: &Target) -> u64 {
    (4 << 20).min(target.vmem_usable_bytes.value / 10)
}

/// The limit to compile a kernel with where it may be raised, bytes: what leaves the [room](room_bytes) beyond the
/// `used_bytes` that are predicted and is not below the `likely_bytes`, in whole KiB; at least the default, at most
/// what there is.
pub fn raised_limit(target: &Target, used_bytes: u64, likely_bytes: u64) -> u64 {
    let capacity = target.vmem_usable_bytes.value;
    let wanted = used_bytes
        .saturating_add(room_bytes(target))
        .max(likely_bytes)
        .min(capacity)
        .next_multiple_of(1 << 10);
    wanted
        .max(target.default_vmem_limit_bytes.value)
        .min(capacity)
}

/// Whether a verdict may turn that comes with this [probability](VmemLedger::fit_probability) to fit: where
/// the other one has at least 0.5 %.
pub fn is_open(fit_probability: f64) -> bool {
    (0.005..0.995).contains(&fit_probability)
}

/// Why a kernel has no ledger.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// A buffer without a size.
    #[error("{name}: {error}")]
    Padding {
        /// Buffer.
        name: String,
        /// Why.
        error: PaddingError,
    },
    /// A buffer of elements whose tiles are not known.
    #[error("{name} is {ty}; only elements of 16 and 32 bits are supported")]
    Element {
        /// Buffer.
        name: String,
        /// Its type.
        ty: String,
    },
}

/// One allocation in VMEM.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Term {
    /// What the compiler would call it: `operand 0`, `scratch 1`.
    pub name: String,
    /// What it is.
    pub kind: TermKind,
    /// Elements along each dimension of one buffer.
    pub shape: Vec<usize>,
    /// Bytes of all buffers together, padded.
    pub bytes: u64,
    /// Number of buffers.
    pub buffers: usize,
}

/// The VMEM of a kernel on one core.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VmemLedger {
    /// The allocations.
    pub terms: Vec<Term>,
    /// What the compiler allows: the given limit, or the target's default; bytes.
    pub limit_bytes: u64,
    /// What a kernel could use at most with a raised limit; bytes.
    pub capacity_bytes: u64,
    /// What the spills were computed from; none where they were not.
    pub registers: Option<Registers>,
}

/// The vector registers of a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Registers {
    /// Most that are needed at once.
    pub needed: u64,
    /// Those that the core has for them.
    pub held: u64,
    /// Size of one, bytes.
    pub bytes: u64,
}

impl Registers {
    /// Bytes of VMEM for those that the core has not.
    pub fn spill_bytes(&self) -> u64 {
        let slots = self.needed.saturating_sub(self.held);
        slots.saturating_mul(self.bytes)
    }
}

/// The allocations of a kernel, whatever its grid.
#[derive(Clone, Debug)]
pub struct Allocations {
    target: &'static Target,
    /// The operands in VMEM, by their number.
    windows: Vec<(usize, Vec<usize>, DType)>,
    /// Scratch arguments by the number of their value; none for what is not in VMEM.
    scratch: Vec<(usize, Result<Option<Term>, MemoryError>)>,
    /// What the body and the compiler allocate.
    others: Vec<Term>,
}

impl Allocations {
    /// Those of the kernel of `module`.
    ///
    /// # Errors
    /// A buffer whose padded size overflows or whose elements are not known.
    pub fn read(
        module: &Module,
        signature: &Signature,
        target: &'static Target,
    ) -> Result<Self, MemoryError> {
        let mut windows = Vec::new();
        for (i, operand) in signature.operands.iter().enumerate() {
            if operand.space == MemorySpace::Vmem {
                let (shape, dtype) = buffer(module, operand.value, &format!("operand {i}"))?;
                windows.push((i, shape, dtype));
            }
        }
        let scratch = |(i, &value): (usize, &Value)| {
            let term = scratch(module, value, format!("scratch {i}"), target);
            (value.index(), term)
        };
        let mut others = match module.entry(signature.function, 0) {
            Some(entry) => allocations(module, entry, target)?,
            None => Vec::new(),
        };
        others.extend(internal::terms(module, signature, target));
        Ok(Self {
            target,
            windows,
            scratch: signature.scratch.iter().enumerate().map(scratch).collect(),
            others,
        })
    }

    /// The ledger on a core that runs `grid`, register spills left out, against `limit_bytes` or the target's
    /// default limit. `is_dropped` tells the scratch arguments that the compiler drops, by the number of
    /// their value.
    ///
    /// # Errors
    /// As for [`Self::read`].
    pub fn ledger(
        &self,
        signature: &Signature,
        grid: &Grid,
        is_dropped: impl Fn(usize) -> bool,
        limit_bytes: Option<u64>,
    ) -> Result<VmemLedger, MemoryError> {
        let target = self.target;
        let mut terms = Vec::with_capacity(self.windows.len() + self.scratch.len());
        for (i, shape, dtype) in &self.windows {
            let name = format!("operand {i}");
            let buffers = buffers(signature, grid, &signature.operands[*i]);
            let bytes = window_bytes(shape, *dtype, buffers, target);
            terms.push(Term {
                kind: TermKind::Window,
                bytes: bytes.map_err(|error| padding(&name, error))?,
                shape: shape.clone(),
                buffers,
                name,
            });
        }
        for (_, term) in self.scratch.iter().filter(|(value, _)| !is_dropped(*value)) {
            terms.extend(term.clone()?);
        }
        terms.extend(self.others.iter().cloned());
        let capacity_bytes = target.vmem_usable_bytes.value;
        let limit = limit_bytes.unwrap_or(target.default_vmem_limit_bytes.value);
        Ok(VmemLedger {
            terms,
            limit_bytes: limit.min(capacity_bytes),
            capacity_bytes,
            registers: None,
        })
    }
}

impl VmemLedger {
    /// The windows, in the order of the operands.
    pub(crate) fn windows(&self) -> impl Iterator<Item = &Term> {
        let is_window = |term: &&Term| term.kind == TermKind::Window;
        self.terms.iter().filter(is_window)
    }

    /// The ledger of a kernel that has no module yet, from its specification.
    ///
    /// # Errors
    /// A buffer whose padded size overflows.
    pub fn of_spec(
        spec: &KernelSpec,
        target: &Target,
        limit_bytes: Option<u64>,
    ) -> Result<Self, MemoryError> {
        let ledger = budget::VmemLedger::new(spec, target, limit_bytes)
            .map_err(|error| padding(spec.name(), error))?;
        let term = |term: budget::Term| Term {
            name: term.name.into(),
            kind: term.kind,
            shape: term.shape,
            bytes: term.bytes,
            buffers: term.buffers,
        };
        Ok(Self {
            terms: ledger.terms.into_iter().map(term).collect(),
            limit_bytes: ledger.limit_bytes,
            capacity_bytes: ledger.capacity_bytes,
            registers: None,
        })
    }

    /// The ledger with the slots that spilled registers are stored to; a term of 0 bytes if there are
    /// none.
    #[must_use]
    pub fn with_spills(mut self, registers: Registers) -> Self {
        self.terms.push(Term {
            name: "register spills".into(),
            kind: TermKind::Spills,
            shape: Vec::new(),
            bytes: registers.spill_bytes(),
            buffers: 1,
        });
        self.registers = Some(registers);
        self
    }

    /// Sum of the terms, bytes.
    pub fn used_bytes(&self) -> u64 {
        let add = |sum: u64, term: &Term| sum.saturating_add(term.bytes);
        self.terms.iter().fold(0, add)
    }

    /// Sum of the terms that are no estimate, bytes.
    fn counted_bytes(&self) -> u64 {
        let is_counted = |term: &&Term| term.kind != TermKind::Spills;
        let add = |sum: u64, term: &Term| sum.saturating_add(term.bytes);
        self.terms.iter().filter(is_counted).fold(0, add)
    }

    /// What is left of the limit, or, negative, what is missing; bytes.
    pub fn margin_bytes(&self) -> i64 {
        let bytes = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        bytes(self.limit_bytes) - bytes(self.used_bytes())
    }

    /// How likely it is that the compiler finds the sum within the limit.
    pub fn fit_probability(&self) -> f64 {
        self.fit_probability_within(self.limit_bytes)
    }

    /// [`Self::fit_probability`] of another limit.
    pub(crate) fn fit_probability_within(&self, limit_bytes: u64) -> f64 {
        let counted = self.counted_bytes();
        if counted > limit_bytes {
            return 0.0;
        }
        let Some(Registers {
            needed,
            held,
            bytes,
        }) = self.registers
        else {
            return f64::from(u8::from(self.used_bytes() <= limit_bytes));
        };
        let room = held.saturating_add((limit_bytes - counted) / bytes.max(1));
        let over = needed.max(1) as f64 / room.max(1) as f64;
        1.0 / (1.0 + over.powf(1.0 / SPILL_SCALE))
    }

    /// The least limit with which it is so likely, bytes; the [sum](Self::used_bytes) where nothing of that is an
    /// estimate.
    pub(crate) fn limit_for_probability(&self, probability: f64) -> u64 {
        let Some(Registers {
            needed,
            held,
            bytes,
        }) = self.registers
        else {
            return self.used_bytes();
        };
        let over = (1.0 / probability - 1.0).powf(SPILL_SCALE);
        let room = (needed.max(1) as f64 / over).ceil() as u64;
        let slots = room.saturating_sub(held);
        (self.counted_bytes()).saturating_add(slots.saturating_mul(bytes))
    }

    /// Whether the sum is within the limit, inclusive as the compiler's check is.
    pub fn fits(&self) -> bool {
        self.used_bytes() <= self.limit_bytes
    }

    /// Why it does not fit, and what helps; `None` if it fits.
    pub fn reason(&self, target: &Target) -> Option<String> {
        let largest = self.largest().map(|term| Largest {
            kind: term.kind,
            name: &term.name,
            shape: &term.shape,
            bytes: term.bytes,
        });
        let sizes = [self.used_bytes(), self.limit_bytes, self.capacity_bytes];
        vmem_reason(sizes, largest, target)
    }

    /// The largest term.
    pub fn largest(&self) -> Option<&Term> {
        self.terms.iter().max_by_key(|term| term.bytes)
    }
}

/// Bytes of one copy of an operand's block, padded as it is in VMEM.
///
/// # Errors
/// As for [`Allocations::read`].
pub fn block_bytes(
    module: &Module,
    operand: &Operand,
    target: &Target,
) -> Result<u64, MemoryError> {
    let (shape, dtype) = buffer(module, operand.value, "a window")?;
    let bytes = padded_bytes(&shape, dtype, target).map_err(|error| padding("a window", error))?;
    Ok(bytes.next_multiple_of(target.dma_granule_bytes.value))
}

/// Buffers of an operand: two if its block changes from step to step.
pub(crate) fn buffers(signature: &Signature, grid: &Grid, operand: &Operand) -> usize {
    // Steps of all cores together; but a core that runs one step has no pipeline.
    let many = signature.bounds.contains(&DYNAMIC) || grid.steps() != 1;
    match &operand.window {
        Some(window) if window.mode == Some(PipelineMode::Synchronous) => 1,
        Some(window) if many && signature.moves(window) => 2,
        _ => 1,
    }
}

/// Shape and type of a buffer. All elements of a size are laid out alike.
fn buffer(module: &Module, value: Value, name: &str) -> Result<(Vec<usize>, DType), MemoryError> {
    let (shape, bits) = memref(module, value).unwrap_or_default();
    let dtype = match bits {
        32 => DType::F32,
        16 => DType::Bf16,
        _ => {
            return Err(MemoryError::Element {
                name: name.into(),
                ty: module.type_text(module.value_type(value)),
            });
        }
    };
    Ok((shape, dtype))
}

/// The term of a memref of the kernel's own; none if it is not in VMEM.
fn scratch(
    module: &Module,
    value: Value,
    name: String,
    target: &Target,
) -> Result<Option<Term>, MemoryError> {
    let space = memory_space(module, module.value_type(value));
    let is_memory = matches!(module.value_kind(value), TypeKind::Memref { .. });
    if !is_memory || !matches!(space, None | Some(MemorySpace::Vmem)) {
        return Ok(None);
    }
    let (shape, dtype) = buffer(module, value, &name)?;
    let bytes = padded_bytes(&shape, dtype, target).map_err(|error| padding(&name, error))?;
    Ok(Some(Term {
        name,
        kind: TermKind::Scratch,
        shape,
        bytes,
        buffers: 1,
    }))
}

/// Memory that a block allocates: its own, and of the regions inside it those that need most, one
/// after the other.
fn allocations(module: &Module, block: Block, target: &Target) -> Result<Vec<Term>, MemoryError> {
    let mut own = Vec::new();
    let mut largest: Vec<Term> = Vec::new();
    let sum = |terms: &[Term]| terms.iter().map(|term| term.bytes).sum::<u64>();
    for &op in module.block_ops(block) {
        if matches!(module.op_name(op), "memref.alloca" | "memref.alloc") {
            let name = match module.line(op) {
                0 => "allocation in the body".into(),
                line => format!("allocation in line {line}"),
            };
            own.extend(scratch(module, module.results(op)[0], name, target)?);
        }
        for &region in module.regions(op) {
            for &inner in module.blocks(region) {
                let terms = allocations(module, inner, target)?;
                if sum(&terms) > sum(&largest) {
                    largest = terms;
                }
            }
        }
    }
    own.extend(largest);
    Ok(own)
}

fn padding(name: &str, error: PaddingError) -> MemoryError {
    MemoryError::Padding {
        name: name.into(),
        error,
    }
}

#[cfg(test)]
mod tests;
