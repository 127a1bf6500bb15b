//! Records a kernel as a Mosaic module.
//!
//! The kernel's body runs once, with symbols for grid indices; every primitive appends the
//! operations that do it. The result is one function with a grid, a window for each operand and a
//! small function for each window's index map: what Pallas makes of a `pallas_call`.

mod copies;
mod emitter;
mod masks;
mod memory;
mod recording;
mod scalar;
mod softmax;
mod tile_ops;
mod vectors;

use std::cell::{Cell, RefCell};

use thiserror::Error;
use tilecast_core::DType;
use tilecast_core::program::Kernel;
use tilecast_core::spec::{
    Access, Affine, Blocked, Buffer, KernelSpec, Layout, MapVariable, Semantics,
};

use tilecast_core::target::LANES;
use tilecast_core::view::BufferId;

use crate::mosaic::tpu::MemorySpace;
use crate::mosaic::{AttributeKind, Module, Region, Value};
use emitter::{Element, Emitter};
use recording::{Recording, Slot, Symbols};
pub use scalar::Scalar;
pub use tile_ops::{Condition, Recorder};

/// Why a kernel cannot be recorded.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum LowerError {
    /// The kernel uses something that has no lowering.
    #[error("{kernel}: {what}")]
    Unsupported {
        /// Kernel.
        kernel: String,
        /// What it is, and what to do instead.
        what: String,
    },
}

/// How products of f32 operands are computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum F32Products {
    /// To f32 accuracy: six passes of the matrix unit.
    #[default]
    Exact,
    /// Operands rounded to bf16: one pass, what JAX does unless told otherwise.
    Rounded,
}

/// Records `kernel`.
///
/// # Errors
/// [`LowerError`] names what has no lowering.
pub fn lower(kernel: &impl Kernel, products: F32Products) -> Result<Module, LowerError> {
    Ok(lower_part(kernel, products, usize::MAX)?.module)
}

/// A kernel of which loops that are written out were cut short.
#[derive(Debug)]
pub struct Part {
    /// The kernel, with all of its operands, memory, grid and index maps.
    pub module: Module,
    /// The most iterations that a loop has which is written out, were it not cut.
    pub iterations: usize,
    /// For each axis of the grid, whether the kernel asks how many steps it has. One that does not is recorded
    /// alike with any number of them, but for one step, whose index is 0.
    pub sizes_read: Vec<bool>,
}

/// Records `kernel` with at most the first `most` iterations of each loop that is [written
/// out](tilecast_core::ops::Unroll::Full). The result computes less than the kernel: it is for looking at how the
/// kernel grows with such loops.
///
/// # Errors
/// As for [`lower`].
pub fn lower_part(
    kernel: &impl Kernel,
    products: F32Products,
    most: usize,
) -> Result<Part, LowerError> {
    let spec = kernel.spec();
    let emit = Emitter::new(spec.name());
    let region = emit.start_function();
    let symbols = declare_symbols(&emit, spec);
    let slots = declare_slots(&emit, spec);
    let recording = Recording {
        emit,
        spec,
        symbols,
        slots,
        exact_f32: products == F32Products::Exact,
        most_iterations: most,
        iterations: Cell::new(0),
        sizes_read: RefCell::new(vec![false; spec.grid().len()]),
        error: RefCell::new(None),
    };
    record(kernel, &recording);
    let Recording {
        emit,
        error,
        iterations,
        sizes_read,
        ..
    } = recording;
    if let Some(error) = error.into_inner() {
        return Err(error);
    }
    Ok(Part {
        module: finish(emit, region, spec),
        iterations: iterations.get(),
        sizes_read: sizes_read.into_inner(),
    })
}

/// The module of a kernel of that spec that does nothing: its arguments, grid and index maps.
pub fn outline(spec: &KernelSpec) -> Module {
    let emit = Emitter::new(spec.name());
    let region = emit.start_function();
    declare_symbols(&emit, spec);
    declare_slots(&emit, spec);
    finish(emit, region, spec)
}

/// A function of its own: the recording is borrowed for as long as the symbols live.
fn record(kernel: &impl Kernel, recording: &Recording<'_>) {
    kernel.body(&Recorder(recording));
}

/// Grid indices, scalar operands and tables: the first arguments of the kernel and of its index maps.
fn declare_symbols(emit: &Emitter, spec: &KernelSpec) -> Symbols {
    let i32 = emit.i32();
    let grid = spec.grid().iter().map(|_| emit.argument(i32)).collect();
    let prefetched =
        |len| emit.argument(emit.memref(&[len], Element::Of(DType::I32), MemorySpace::Smem));
    let scalars = spec.scalars().iter().map(|of| prefetched(of.len)).collect();
    let tables = spec
        .tables()
        .iter()
        .map(|of| prefetched(of.len()))
        .collect();
    Symbols {
        grid,
        scalars,
        tables,
    }
}

/// An array argument of the recorded function, between the scalars and the scratch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Argument {
    /// An input window.
    Input(BufferId),
    /// What an output held before, for outputs of which a launch writes only some blocks. The
    /// kernel does not look at it; it is there to be the same memory as the output.
    Before(BufferId),
    /// An output window, or an array the kernel writes by copies.
    Output(BufferId),
}

impl Argument {
    /// The buffer whose memory it is.
    pub const fn buffer(self) -> BufferId {
        match self {
            Self::Input(buffer) | Self::Before(buffer) | Self::Output(buffer) => buffer,
        }
    }
}

/// The array arguments in the order of the dialect: inputs, then outputs.
pub fn signature(spec: &KernelSpec) -> Vec<Argument> {
    let is_input = |buffer: &Buffer| {
        let input = Access::Input;
        matches!(buffer, Buffer::Window { access, .. } if *access == input)
    };
    let depends_on_scalar = |operand: &Blocked| {
        // A table that an output follows goes through all blocks, a scalar does not.
        let scalar = |v| matches!(v, MapVariable::Scalar(..));
        operand.map.iter().any(|index| index.depends_on(&scalar))
    };
    let inputs = (spec.operands())
        .filter(|(_, named, _)| is_input(&named.buffer))
        .map(|(id, ..)| Argument::Input(id));
    let outputs = || {
        spec.operands()
            .filter(|(_, named, _)| !is_input(&named.buffer))
    };
    let before = outputs()
        .filter(|(_, _, operand)| depends_on_scalar(operand))
        .map(|(id, ..)| Argument::Before(id));
    inputs
        .chain(before)
        .chain(outputs().map(|(id, ..)| Argument::Output(id)))
        .collect()
}

/// The memory of every buffer, as arguments in the order of the dialect: arrays, then scratch.
fn declare_slots(emit: &Emitter, spec: &KernelSpec) -> Vec<Slot> {
    let buffers = spec.buffers();
    let mut slots = vec![None; buffers.len()];
    for argument in signature(spec) {
        let i = argument.buffer().index();
        if let Argument::Before(_) = argument {
            let (dtype, dims) = operand_type(&buffers[i].buffer);
            emit.argument(emit.memref(&dims, Element::Of(dtype), MemorySpace::Any));
        } else {
            slots[i] = Some(declare_slot(emit, &buffers[i].buffer));
        }
    }
    for (slot, named) in slots.iter_mut().zip(buffers) {
        slot.get_or_insert_with(|| declare_slot(emit, &named.buffer));
    }
    // Operations follow the last argument.
    for (slot, named) in slots.iter_mut().zip(buffers) {
        let (Some(Slot::Tile { memref, dtype }), Some(operand)) = (slot, named.buffer.operand())
        else {
            continue;
        };
        if operand.block.len() > 2 {
            *memref = emit.memref_tile(*memref);
        }
        if operand.packed {
            *memref = emit.memref_bitcast(*memref, tile_of(&operand.block), *dtype);
        }
    }
    slots.into_iter().flatten().collect()
}

fn declare_slot(emit: &Emitter, buffer: &Buffer) -> Slot {
    let argument =
        |shape: &[usize], element, space| emit.argument(emit.memref(shape, element, space));
    match buffer {
        Buffer::Window {
            layout, operand, ..
        } => {
            let dtype = operand.dtype;
            let shape = match layout {
                Layout::Tile => &operand.block[..],
                Layout::Rows | Layout::Columns => &[1, operand.block[0]],
            };
            let (held, shape) = stored(dtype, shape, operand.packed);
            let memref = argument(&shape, Element::Of(held), MemorySpace::Vmem);
            match layout {
                Layout::Tile => Slot::Tile { memref, dtype },
                Layout::Rows => Slot::RowWindow { memref },
                Layout::Columns => Slot::Columns { memref },
            }
        }
        Buffer::Hbm { operand } => Slot::Hbm {
            memref: argument(&operand.dims, Element::Of(operand.dtype), MemorySpace::Hbm),
        },
        Buffer::Scratch {
            dtype,
            layout,
            shape,
        } => {
            let dtype = *dtype;
            let argument = |shape: &[usize]| argument(shape, Element::Of(dtype), MemorySpace::Vmem);
            match layout {
                Layout::Tile => Slot::Tile {
                    memref: argument(shape),
                    dtype,
                },
                Layout::Rows => Slot::RowScratch {
                    memref: argument(&[shape[0], LANES]),
                },
                Layout::Columns => Slot::Columns {
                    memref: argument(&[1, shape[0]]),
                },
            }
        }
        Buffer::Stats { rows, entropy } => {
            let lanes = || argument(&[*rows, LANES], Element::Of(DType::F32), MemorySpace::Vmem);
            Slot::Stats {
                max: lanes(),
                sum: lanes(),
                moment: entropy.then(lanes),
            }
        }
        Buffer::Semaphore => Slot::Semaphore {
            memref: argument(&[], Element::DmaSemaphore, MemorySpace::Semaphore),
        },
    }
}

/// The module whose kernel has the recorded block.
fn finish(emit: Emitter, region: Region, spec: &KernelSpec) -> Module {
    finish_function(&emit, region, spec);
    for (i, argument) in signature(spec).into_iter().enumerate() {
        if let Some((layout, operand)) = window(spec, argument) {
            transform(&emit, i, layout, operand, spec);
        }
    }
    emit.finish()
}

/// Wraps the recorded block into the function, with the attributes that describe its pipeline.
fn finish_function(emit: &Emitter, region: Region, spec: &KernelSpec) {
    let semantics = spec.grid().iter().map(|axis| {
        let semantics = match axis.semantics {
            Semantics::Parallel => "parallel",
            Semantics::Arbitrary => "arbitrary",
        };
        emit.dialect("tpu.dimension_semantics", semantics)
    });
    let semantics = AttributeKind::Array(semantics.collect());
    let bounds: Vec<usize> = spec.grid().iter().map(|axis| axis.size).collect();
    let arguments = signature(spec);
    let windows = arguments.iter().enumerate().map(|(i, argument)| {
        let Some((layout, operand)) = window(spec, *argument) else {
            return emit.attribute(AttributeKind::Dictionary(Vec::new()));
        };
        let (_, block) = stored(operand.dtype, &operand.block, operand.packed);
        let block = outer_dims(layout, &block);
        let transform = emit.attribute(AttributeKind::Symbol(transform_name(i)));
        let mode = (operand.one_buffer).then(|| {
            (
                "pipeline_mode".into(),
                emit.dialect("tpu.pipeline_mode", "synchronous"),
            )
        });
        let others = [
            ("transform_indices".into(), transform),
            ("window_bounds".into(), emit.integers(64, &block)),
        ];
        emit.attribute(AttributeKind::Dictionary(
            mode.into_iter().chain(others).collect(),
        ))
    });
    let windows = AttributeKind::Array(windows.collect());
    let prefetched = spec.scalars().len() + spec.tables().len();
    let operands = spec.grid().len() + prefetched + arguments.len();
    let scratch = emit.arguments().len() - operands;
    let attributes = [
        ("dimension_semantics", emit.attribute(semantics)),
        ("iteration_bounds", emit.integers(64, &bounds)),
        ("scalar_prefetch", emit.i64_attribute(prefetched)),
        ("scratch_operands", emit.i64_attribute(scratch)),
        ("tpu.core_type", emit.dialect("tpu.core_type", "tc")),
        ("window_params", emit.attribute(windows)),
    ];
    emit.finish_function(spec.name(), region, &[], &attributes);
}

/// The window of an argument that has one.
fn window(spec: &KernelSpec, argument: Argument) -> Option<(Layout, &Blocked)> {
    match (argument, &spec.buffers()[argument.buffer().index()].buffer) {
        (Argument::Before(_), _) => None,
        (
            _,
            Buffer::Window {
                layout, operand, ..
            },
        ) => Some((*layout, operand)),
        _ => None,
    }
}

fn transform_name(operand: usize) -> String {
    format!("transform_{operand}")
}

/// The function of an index map: grid indices and scalars to block indices.
fn transform(emit: &Emitter, i: usize, layout: Layout, operand: &Blocked, spec: &KernelSpec) {
    let region = emit.start_function();
    let symbols = declare_symbols(emit, spec);
    let mut indices = Vec::new();
    if layout != Layout::Tile {
        indices.push(emit.i32_constant(0));
    }
    let variable = |variable| match variable {
        MapVariable::Axis(axis) => symbols.grid[axis.index()],
        MapVariable::Scalar(operand, position) => {
            let position = emit.index_constant(position);
            emit.load_scalar(symbols.scalars[operand.operand()], position)
        }
        MapVariable::Element(table, axis) => {
            let position = emit.to_index(symbols.grid[axis.index()]);
            emit.load_scalar(symbols.tables[table.table()], position)
        }
    };
    indices.extend(
        operand
            .map
            .iter()
            .map(|index| block_index(emit, index, &variable)),
    );
    emit.finish_function(&transform_name(i), region, &indices, &[]);
}

fn block_index(
    emit: &Emitter,
    index: &Affine<MapVariable>,
    variable: &impl Fn(MapVariable) -> Value,
) -> Value {
    let value = |index| block_index(emit, index, variable);
    match index {
        Affine::Constant(constant) => emit.i32_constant(*constant),
        Affine::Variable(v) => variable(*v),
        Affine::Sum(a, b) => emit.same("arith.addi", &[value(a), value(b)]),
        Affine::Scaled(a, factor) => {
            emit.same("arith.muli", &[value(a), emit.i32_constant(*factor)])
        }
        Affine::AtMost(a, limit) => {
            emit.same("arith.minsi", &[value(a), emit.i32_constant(*limit)])
        }
    }
}

/// Element type and dimensions of an operand as the custom call sees it.
pub fn operand_type(buffer: &Buffer) -> (DType, Vec<usize>) {
    let operand = buffer.operand().expect("arguments are operands");
    let (dtype, dims) = stored(operand.dtype, &operand.dims, operand.packed);
    match buffer {
        Buffer::Window { layout, .. } => (dtype, outer_dims(*layout, &dims)),
        _ => (dtype, dims),
    }
}

/// Element type and dimensions, of an array or of a block of it, in memory: of one in [pairs of rows](Blocked::packed)
/// those of its words.
pub fn stored(dtype: DType, dims: &[usize], packed: bool) -> (DType, Vec<usize>) {
    let mut dims = dims.to_vec();
    if !packed {
        return (dtype, dims);
    }
    if let [.., rows, _] = &mut dims[..] {
        *rows = rows.div_ceil(2);
    }
    (DType::I32, dims)
}

/// The last two dimensions of a block.
fn tile_of(block: &[usize]) -> &[usize] {
    &block[block.len() - 2..]
}

/// Dimensions as the custom call sees them: a vector is one row of a matrix there.
fn outer_dims(layout: Layout, dims: &[usize]) -> Vec<usize> {
    match layout {
        Layout::Tile => dims.into(),
        Layout::Rows | Layout::Columns => vec![1, dims[0]],
    }
}
