//! What a kernel is called with: the arrays it reads and those it writes.
//!
//! A module says less than its caller knew. Its arguments are, in this order, one grid index for each
//! axis, prefetched scalars, inputs, outputs and scratch; but
//!
//! * **which operands are outputs** is not said. They come last, and a kernel writes all of them, by a store or a copy;
//!   so they are taken to be what comes after the last operand that it does not write. An input may be written, too, to
//!   mask what lies beyond its end: what the kernel loads before it stores there is an input if others follow. That is
//!   wrong for a kernel that adds to an output as it was, which is why the number can be given ([`first_output`]);
//! * **how large an array is** of which the kernel sees windows is not said either. The windows that the
//!   grid visits must lie in it, so it is taken to be the smallest array of whole windows that holds them.
//!   Where the index map reads a prefetched scalar, which only the run knows, the scalar is taken to be 0,
//!   and so is everything about a grid axis whose size only the run knows, but for one step.

use std::fmt;

use thiserror::Error;

use super::bounds::{Range, results_of};
use super::ir::{Module, Op, Type, Value};
use super::tpu::ElementWindow;
use super::types::{AttributeKind, DYNAMIC, TypeKind};
use super::{Attribute, AttributeName, Definition};

/// The arrays of a kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signature {
    /// Name of the function.
    pub name: String,
    /// Grid axes whose size is an operand, an `i32` each, before all others.
    pub dynamic_axes: usize,
    /// Prefetched scalars.
    pub scalars: Vec<ArrayType>,
    /// Arrays that are read.
    pub inputs: Vec<ArrayType>,
    /// Arrays that are written.
    pub outputs: Vec<ArrayType>,
}

/// Type of an array in HBM; shown as StableHLO writes it, `tensor<8x128xf32>`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArrayType {
    /// Sizes of the dimensions.
    pub dims: Vec<i64>,
    /// Type of an element, as MLIR spells it.
    pub element: String,
}

impl fmt::Display for ArrayType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims: String = self.dims.iter().map(|n| format!("{n}x")).collect();
        write!(f, "tensor<{dims}{}>", self.element)
    }
}

/// Why the arrays of a kernel cannot be told.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum SignatureError {
    /// There is no function in the module.
    #[error("the module has no kernel: give the text of one Mosaic module, with its func.func")]
    NoKernel,
    /// The arguments are not what the attributes of the function say.
    #[error(
        "@{kernel} has {found} arguments, but its attributes speak of {expected} or more: {grid} grid axes, \
         {scalars} prefetched scalars, {windows} windows, {scratch} scratch operands"
    )]
    Arguments {
        /// Name of the function.
        kernel: String,
        /// Number of arguments.
        found: usize,
        /// Number that the attributes speak of.
        expected: usize,
        /// Grid axes.
        grid: usize,
        /// `scalar_prefetch`.
        scalars: usize,
        /// `window_params`.
        windows: usize,
        /// `scratch_operands`.
        scratch: usize,
    },
    /// No operand is written.
    #[error(
        "@{kernel} writes none of its {operands} operands where that can be seen; say how many of the last are outputs"
    )]
    NoOutput {
        /// Name of the function.
        kernel: String,
        /// Number of operands.
        operands: usize,
    },
    /// More outputs than operands, or none.
    #[error(
        "{outputs} outputs of @{kernel} are not possible: it has {operands} operands; give 1 to {operands}"
    )]
    Outputs {
        /// Name of the function.
        kernel: String,
        /// The number asked for.
        outputs: usize,
        /// Number of operands.
        operands: usize,
    },
    /// An operand is not an array.
    #[error("argument {index} of @{kernel} cannot be passed as an array: {problem}")]
    Operand {
        /// Name of the function.
        kernel: String,
        /// Position among the arguments.
        index: usize,
        /// Why not.
        problem: String,
    },
}

/// The arrays of the kernel in `module`; the last `outputs` operands are outputs, by default those from
/// [`first_output`] on.
///
/// # Errors
/// [`SignatureError`] names the argument and what is not known about it.
pub fn signature(module: &Module, outputs: Option<usize>) -> Result<Signature, SignatureError> {
    let kernel = Kernel::find(module)?;
    let operands = kernel.operands.len();
    let count = match outputs {
        Some(count) if (1..=operands).contains(&count) => count,
        Some(outputs) => {
            return Err(SignatureError::Outputs {
                kernel: kernel.name,
                outputs,
                operands,
            });
        }
        None => match operands - first_output(module, kernel.function, &kernel.operands) {
            0 => {
                return Err(SignatureError::NoOutput {
                    kernel: kernel.name,
                    operands,
                });
            }
            count => count,
        },
    };
    let scalars = (0..kernel.scalars.len()).map(|i| kernel.scalar(i));
    let scalars = scalars.collect::<Result<_, _>>()?;
    let arrays = (0..operands).map(|i| kernel.array(i));
    let mut inputs = arrays.collect::<Result<Vec<_>, _>>()?;
    let outputs = inputs.split_off(operands - count);
    Ok(Signature {
        dynamic_axes: kernel.grid.iter().filter(|&&n| n == DYNAMIC).count(),
        scalars,
        inputs,
        outputs,
        name: kernel.name,
    })
}

/// The first of the operands of a kernel that is an output, as far as its body tells; their number if none is.
pub fn first_output(module: &Module, function: Op, operands: &[Value]) -> usize {
    let mut written = vec![false; operands.len()];
    let mut loaded_first = vec![false; operands.len()];
    module.walk(function, &mut |op| {
        let number = |memory: Value| {
            let memory = whole(module, memory);
            operands.iter().position(|&operand| operand == memory)
        };
        if let Some(i) = written_by(module, op).and_then(number) {
            written[i] = true;
        } else if module.op_name(op).ends_with("load") {
            let loaded = module.operands(op).first();
            if let Some(i) = loaded.and_then(|&memory| number(memory)) {
                loaded_first[i] |= !written[i];
            }
        }
    });
    let last_read = written.iter().rposition(|written| !written);
    let first = last_read.map_or(0, |i| i + 1);
    if first == operands.len() {
        // One that is not written at all may be an output for all that, behind others.
        return written.iter().position(|&written| written).unwrap_or(first);
    }
    match loaded_first[first..].iter().position(|&loaded| !loaded) {
        Some(masked) => first + masked,
        None => first,
    }
}

/// The function that is the kernel, with its arguments by what they are.
struct Kernel<'m> {
    module: &'m Module,
    function: Op,
    name: String,
    grid: Vec<i64>,
    scalars: Vec<Value>,
    operands: Vec<Value>,
    /// One for each operand, or none at all.
    windows: Vec<Attribute>,
}

impl<'m> Kernel<'m> {
    fn find(module: &'m Module) -> Result<Self, SignatureError> {
        let is_kernel = |&function: &Op| {
            let names = ["iteration_bounds", "window_params", "tpu.core_type"];
            let has = |name: &&str| module.attribute_of(function, name).is_some();
            names.iter().any(has)
        };
        let function = module.functions().find(is_kernel);
        let function = function.or_else(|| module.functions().next());
        let function = function.ok_or(SignatureError::NoKernel)?;
        let entry = module.entry(function, 0).ok_or(SignatureError::NoKernel)?;
        let name = module.string_attribute(function, "sym_name");
        let name = name.unwrap_or("kernel").to_owned();
        let grid = module.integers_attribute(function, "iteration_bounds");
        let grid = grid.unwrap_or_default();
        let count = |name| {
            let count = module.integer_attribute(function, name).unwrap_or(0);
            usize::try_from(count).unwrap_or(usize::MAX)
        };
        let (scalars, scratch) = (count("scalar_prefetch"), count("scratch_operands"));
        let windows = match module.attribute_kind_of(function, "window_params") {
            Some(AttributeKind::Array(windows)) => windows.clone(),
            _ => Vec::new(),
        };
        let arguments = module.arguments(entry);
        let parts = [grid.len(), scalars, windows.len(), scratch];
        let expected = parts.iter().fold(0_usize, |sum, &n| sum.saturating_add(n));
        let fits = match windows.is_empty() {
            true => expected <= arguments.len(),
            false => expected == arguments.len(),
        };
        if !fits {
            return Err(SignatureError::Arguments {
                kernel: name,
                found: arguments.len(),
                expected,
                grid: grid.len(),
                scalars,
                windows: windows.len(),
                scratch,
            });
        }
        let (_, rest) = arguments.split_at(grid.len());
        let (scalars, rest) = rest.split_at(scalars);
        Ok(Self {
            module,
            function,
            name,
            scalars: scalars.to_vec(),
            operands: rest[..rest.len() - scratch].to_vec(),
            grid,
            windows,
        })
    }

    fn scalar(&self, i: usize) -> Result<ArrayType, SignatureError> {
        self.array_type(self.grid.len() + i, self.scalars[i], None)
    }

    fn array(&self, i: usize) -> Result<ArrayType, SignatureError> {
        let index = self.grid.len() + self.scalars.len() + i;
        let window = self.windows.get(i).map(|&w| self.module.attribute_kind(w));
        let dims = match window {
            Some(AttributeKind::Dictionary(entries)) => self
                .extent(entries)
                .map_err(|problem| self.wrong(index, problem))?,
            _ => None,
        };
        self.array_type(index, self.operands[i], dims)
    }

    fn wrong(&self, index: usize, problem: String) -> SignatureError {
        SignatureError::Operand {
            kernel: self.name.clone(),
            index,
            problem,
        }
    }

    /// The smallest array that holds all windows; none if the operand is the array.
    fn extent(&self, window: &[(AttributeName, Attribute)]) -> Result<Option<Vec<i64>>, String> {
        let module = self.module;
        let entry = |name: &str| window.iter().find(|(n, _)| n == name).map(|(_, a)| *a);
        let Some(transform) = entry("transform_indices") else {
            return Ok(None);
        };
        let bounds = entry("window_bounds").and_then(|a| module.integers(a));
        let bounds = bounds.ok_or("its window has no window_bounds")?;
        let padding = match entry("window_kind") {
            None => None,
            Some(kind) => {
                let kind = ElementWindow::read(module, kind);
                Some(kind.ok_or("its kind of window is not known")?)
            }
        };
        let AttributeKind::Symbol(name) = module.attribute_kind(transform) else {
            return Err("its transform_indices is not a symbol".into());
        };
        let function = module
            .function(name)
            .ok_or(format!("there is no @{name}"))?;
        let axes = self.grid.iter().map(|&n| match n {
            DYNAMIC => Range::of(0),
            n => Range::up_to(n.saturating_sub(1)),
        });
        let indices = results_of(module, function, axes)
            .map_err(|op| format!("its index map @{name} has {op}, whose range is not known"))?;
        if indices.len() != bounds.len() {
            let (found, expected) = (indices.len(), bounds.len());
            return Err(format!("@{name} returns {found} indices, not {expected}"));
        }
        let ends = indices.iter().zip(&bounds).enumerate();
        let ends = ends.map(|(d, (index, &size))| match &padding {
            None => index.last.max(0).saturating_add(1).saturating_mul(size),
            Some(padding) => {
                let pad = |list: &[i64]| list.get(d).copied().unwrap_or(0);
                let around = pad(&padding.pad_low).saturating_add(pad(&padding.pad_high));
                let end = index.last.max(0).saturating_add(size);
                end.saturating_sub(around).max(1)
            }
        });
        Ok(Some(ends.collect()))
    }

    fn array_type(
        &self,
        index: usize,
        value: Value,
        dims: Option<Vec<i64>>,
    ) -> Result<ArrayType, SignatureError> {
        let TypeKind::Memref { shape, element, .. } = self.module.value_kind(value) else {
            return Err(self.wrong(index, "it is not a memref".into()));
        };
        let dims = dims.unwrap_or_else(|| shape.clone());
        if let Some(size) = dims.iter().find(|&&n| n < 0) {
            let size = match *size {
                DYNAMIC => "known only at run time".to_owned(),
                size => size.to_string(),
            };
            return Err(self.wrong(index, format!("a dimension is {size}")));
        }
        let element = element_text(self.module, *element)
            .ok_or_else(|| self.wrong(index, "its elements are not numbers".into()))?;
        Ok(ArrayType { dims, element })
    }
}

fn element_text(module: &Module, element: Type) -> Option<String> {
    match module.type_kind(element) {
        // Kernels have no unsigned memory; the same bits are signless to the caller too.
        TypeKind::Integer { width, .. } => Some(format!("i{width}")),
        TypeKind::Float(kind) => Some(kind.name().into()),
        _ => None,
    }
}

fn is_memory(module: &Module, value: Value) -> bool {
    matches!(module.value_kind(value), TypeKind::Memref { .. })
}

/// The memory that an operation writes.
fn written_by(module: &Module, op: Op) -> Option<Value> {
    const TARGET_GROUP: usize = 2;
    let operands = module.operands(op);
    let name = module.op_name(op);
    if name.ends_with("store") || name.contains("_store_") {
        return operands.iter().copied().find(|&v| is_memory(module, v));
    }
    if name != "tpu.enqueue_dma" {
        return None;
    }
    // Source, its semaphore, target, ...
    let sizes = module.integers_attribute(op, "operandSegmentSizes")?;
    let before: i64 = sizes.iter().take(TARGET_GROUP).sum();
    operands.get(usize::try_from(before).ok()?).copied()
}

/// The memory of which this one is a part or another view.
fn whole(module: &Module, mut memory: Value) -> Value {
    while let Definition::Result(op, _) = module.definition(memory) {
        let source = module.operands(op).first();
        match source.copied().filter(|&v| is_memory(module, v)) {
            Some(source) => memory = source,
            None => break,
        }
    }
    memory
}

#[cfg(test)]
mod tests;
