//! [`Signature`]: what a kernel says of itself before its first operation.
//!
//! The arguments of a kernel are, in this order, one index for each axis of its grid, prefetched
//! scalars, operands, scratch. Attributes of the function say how many there are of each, how far each
//! axis goes, and for each operand which block of it a grid step needs: a *window*, with a function
//! from grid indices and scalars to block indices.
//!
//! What is an output is not said: [`Signature::outputs`].

mod reads;

use rustc_hash::FxHashMap;
use thiserror::Error;
use tilecast_tpu::mosaic::signature::first_output;
use tilecast_tpu::mosaic::tpu::{
    DimensionSemantics, ElementWindow, MemorySpace, PipelineMode, memory_space,
};
use tilecast_tpu::mosaic::{Attribute, AttributeKind, Module, Op, TypeKind, Value};

use crate::grid::dependents;

/// Why a module has no signature.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum SignatureError {
    /// No function with a body.
    #[error("the module has no kernel: no function with a body")]
    NoKernel,
    /// The attributes name more or fewer arguments than there are.
    #[error(
        "the kernel has {found} arguments, its attributes name {expected} (grid, scalars, windows, \
         scratch)"
    )]
    Arguments {
        /// Arguments that the attributes name.
        expected: usize,
        /// Arguments of the function.
        found: usize,
    },
    /// A window that cannot be read.
    #[error("argument {index}: {problem}")]
    Window {
        /// Position among scalars and operands.
        index: usize,
        /// What is wrong.
        problem: String,
    },
}

/// A kernel's grid and arguments.
#[derive(Clone, PartialEq, Debug)]
pub struct Signature {
    /// The function.
    pub function: Op,
    /// Steps along each axis of the grid, outermost first; [`DYNAMIC`](tilecast_tpu::mosaic::DYNAMIC) if known only at
    /// run time.
    pub bounds: Vec<i64>,
    /// How the steps of each axis may be ordered; fewer than axes where the kernel does not say.
    pub semantics: Vec<DimensionSemantics>,
    /// Arguments that are grid indices.
    pub indices: Vec<Value>,
    /// Arguments that are prefetched scalars.
    pub scalars: Vec<Value>,
    /// Arguments that stand for arrays.
    pub operands: Vec<Operand>,
    /// Arguments that are memory and semaphores of the kernel.
    pub scratch: Vec<Value>,
}

/// An argument that stands for an array.
#[derive(Clone, PartialEq, Debug)]
pub struct Operand {
    /// The argument.
    pub value: Value,
    /// Where it is; VMEM if the type does not say.
    pub space: MemorySpace,
    /// How it follows the grid; none if the argument is the whole array.
    pub window: Option<Window>,
}

/// How an argument follows the grid.
#[derive(Clone, PartialEq, Debug)]
pub struct Window {
    /// The function from grid indices and scalars to block indices.
    pub map: Op,
    /// For each axis of the grid, whether the block depends on the index along it.
    pub axes: Vec<bool>,
    /// Indices are elements instead of blocks, with this much padding.
    pub elements: Option<ElementWindow>,
    /// How many buffers it has, where the kernel decides.
    pub mode: Option<PipelineMode>,
}

impl Signature {
    /// The signature of the kernel of `module`: the function that has a grid, windows or a core type,
    /// else the first.
    ///
    /// # Errors
    /// No function, attributes that do not match the arguments, a window that is not understood.
    pub fn read(module: &Module) -> Result<Self, SignatureError> {
        let is_kernel = |&function: &Op| {
            let has = |name| module.attribute_of(function, name).is_some();
            has("iteration_bounds") || has("window_params") || has("tpu.core_type")
        };
        let function = (module.functions().find(is_kernel))
            .or_else(|| module.functions().next())
            .ok_or(SignatureError::NoKernel)?;
        let entry = module.entry(function, 0).ok_or(SignatureError::NoKernel)?;
        let arguments = module.arguments(entry);
        let count = |name| {
            let count = module.integer_attribute(function, name).unwrap_or(0);
            usize::try_from(count).unwrap_or(usize::MAX)
        };
        let list = |name| match module.attribute_kind_of(function, name) {
            Some(AttributeKind::Array(list)) => Some(&list[..]),
            _ => None,
        };
        let bounds = module
            .integers_attribute(function, "iteration_bounds")
            .unwrap_or_default();
        let windows = list("window_params");
        let semantics = list("dimension_semantics").unwrap_or_default();
        let (scalars, scratch) = (count("scalar_prefetch"), count("scratch_operands"));
        let expected = [
            bounds.len(),
            scalars,
            windows.map_or(0, <[_]>::len),
            scratch,
        ]
        .iter()
        .fold(0, |sum: usize, &n| sum.saturating_add(n));
        let found = arguments.len();
        if expected > found || (windows.is_some() && expected != found) {
            return Err(SignatureError::Arguments { expected, found });
        }
        let (indices, rest) = arguments.split_at(bounds.len());
        let (scalars, rest) = rest.split_at(scalars);
        let (operands, scratch) = rest.split_at(rest.len() - scratch);
        let axes = bounds.len();
        let operand = |(i, &value): (usize, &Value)| {
            let window = windows.map(|windows| windows[i]);
            let window = window.map(|window| Window::read(module, window, axes));
            let window = window.unwrap_or(Ok(None));
            Ok(Operand {
                value,
                space: memory_space(module, module.value_type(value)).unwrap_or(MemorySpace::Vmem),
                window: window.map_err(|problem| SignatureError::Window {
                    index: scalars.len() + i,
                    problem,
                })?,
            })
        };
        Ok(Self {
            function,
            bounds,
            semantics: (semantics.iter())
                .map_while(|&attribute| DimensionSemantics::read(module, attribute))
                .collect(),
            indices: indices.into(),
            scalars: scalars.into(),
            operands: (operands.iter().enumerate().map(operand)).collect::<Result<_, _>>()?,
            scratch: scratch.into(),
        })
    }

    /// For each axis, whether its steps may run on different cores.
    pub fn parallel(&self) -> Vec<bool> {
        let parallel = |&semantics| semantics != DimensionSemantics::Arbitrary;
        self.semantics.iter().map(parallel).collect()
    }

    /// Whether a window is of another block in another step.
    pub(crate) fn moves(&self, window: &Window) -> bool {
        let mut axes = window.axes.iter().zip(&self.bounds);
        axes.any(|(&follows, &steps)| follows && steps != 1)
    }

    /// Operands from this one on are [outputs](first_output).
    pub fn outputs(&self, module: &Module) -> usize {
        let operands: Vec<Value> = self.operands.iter().map(|operand| operand.value).collect();
        first_output(module, self.function, &operands)
    }

    /// For each value, the argument it is a part or another view of.
    pub fn roots(&self, module: &Module) -> Vec<Option<Value>> {
        let mut roots = vec![None; module.value_count()];
        let operands = self.operands.iter().map(|operand| &operand.value);
        for &value in self.scalars.iter().chain(operands).chain(&self.scratch) {
            roots[value.index()] = Some(value);
        }
        const VIEWS: [&str; 7] = [
            "tpu.memref_slice",
            "tpu.memref_squeeze",
            "tpu.memref_reshape",
            "tpu.memref_bitcast",
            "memref.cast",
            "tpu.reinterpret_cast",
            "tpu.erase_memref_layout",
        ];
        if !module.has_any(&VIEWS) {
            return roots;
        }
        module.walk(self.function, &mut |op| {
            if VIEWS.contains(&module.op_name(op)) {
                let source = module.operands(op).first();
                roots[module.results(op)[0].index()] = source.and_then(|v| roots[v.index()]);
            }
        });
        roots
    }

    /// For each value, whether it is known only at run time: it depends on the index of an axis of
    /// several steps, or on something loaded. Branches on other values are none for the compiler.
    pub(crate) fn varies(&self, module: &Module) -> Vec<bool> {
        let several = |(&value, &steps): (&Value, &i64)| (steps != 1).then_some(value);
        let mut seeds: Vec<Value> = (self.indices.iter().zip(&self.bounds))
            .filter_map(several)
            .collect();
        const LOADS: [&str; 5] = [
            "memref.load",
            "tpu.sem_read",
            "tpu.device_id",
            "tpu.core_id",
            "vector.extract",
        ];
        const LOOPS: [&str; 2] = ["scf.for", "scf.while"];
        if !module.has_any(&LOADS) && !module.has_any(&LOOPS) {
            return dependents(module, self.function, &seeds);
        }
        module.walk(self.function, &mut |op| {
            let loads = LOADS.contains(&module.op_name(op));
            // The index of a rolled loop and what it carries.
            let is_loop = LOOPS.contains(&module.op_name(op));
            if loads || is_loop {
                seeds.extend(module.results(op));
            }
            for &region in module.regions(op).iter().filter(|_| is_loop) {
                for &block in module.blocks(region) {
                    seeds.extend(module.arguments(block));
                }
            }
        });
        dependents(module, self.function, &seeds)
    }

    /// For each value, whether it depends on what a kernel has computed in vectors.
    pub(crate) fn computed(&self, module: &Module) -> Vec<bool> {
        match module.has_any(&[EXTRACT]) {
            true => dependents(module, self.function, &extracted(module, self.function)),
            false => vec![false; module.value_count()],
        }
    }

    /// Prefetched scalars that the kernel stores itself; and the number, where it never stores another in the only
    /// element there is, as in one that says whether a step is the first.
    pub(crate) fn stored_scalars(&self, module: &Module) -> FxHashMap<usize, Option<i64>> {
        const STORE: &str = "memref.store";
        let mut stored = FxHashMap::default();
        if self.scalars.is_empty() || !module.has_any(&[STORE]) {
            return stored;
        }
        let roots = self.roots(module);
        module.walk(self.function, &mut |op| {
            let (STORE, &[value, memory, ..]) = (module.op_name(op), module.operands(op)) else {
                return;
            };
            let root = roots[memory.index()].filter(|root| self.scalars.contains(root));
            let Some(root) = root else { return };
            let single = module.value_kind(root).shape() == Some(&[1]);
            let number = (single.then_some(value))
                .and_then(|value| module.made_by(value, "arith.constant"))
                .and_then(|made| module.integer_attribute(made, "value"));
            let known = stored.entry(root.index()).or_insert(number);
            *known = known.filter(|_| *known == number);
        });
        stored
    }

    /// Scalars that index maps load from places that are not the same in all steps.
    pub(crate) fn looked_up(&self, module: &Module) -> usize {
        let maps = (self.operands.iter())
            .filter_map(|operand| module.entry(operand.window.as_ref()?.map, 0));
        let constant = |&value: &Value| module.made_by(value, "arith.constant").is_some();
        maps.flat_map(|map| module.block_ops(map))
            .filter(|&&op| module.op_name(op) == "memref.load")
            .filter(|&&op| !module.operands(op)[1..].iter().all(constant))
            .count()
    }
}

impl Window {
    /// None for an operand that is there as a whole.
    fn read(module: &Module, attribute: Attribute, axes: usize) -> Result<Option<Self>, String> {
        let AttributeKind::Dictionary(entries) = module.attribute_kind(attribute) else {
            return Ok(None);
        };
        let entry = |name: &str| {
            let found = entries.iter().find(|entry| entry.0 == name);
            found.map(|entry| entry.1)
        };
        let Some(map) = entry("transform_indices") else {
            return Ok(None);
        };
        let map = match module.attribute_kind(map) {
            AttributeKind::Symbol(name) => module
                .function(name)
                .ok_or_else(|| format!("there is no function @{name}"))?,
            _ => return Ok(None),
        };
        let elements = entry("window_kind")
            .map(|kind| ElementWindow::read(module, kind).ok_or("its kind of window is not known"));
        let mode = entry("pipeline_mode")
            .map(|mode| PipelineMode::read(module, mode).ok_or("its pipeline mode is not known"));
        Ok(Some(Self {
            map,
            axes: follows(module, map, axes),
            elements: elements.transpose()?,
            mode: mode.transpose()?,
        }))
    }
}

/// For each of the first arguments of an index map, whether a result depends on it.
fn follows(module: &Module, map: Op, axes: usize) -> Vec<bool> {
    let Some(entry) = module.entry(map, 0) else {
        return vec![false; axes];
    };
    let end = module.block_ops(entry).last();
    let results = end.map_or(&[][..], |&end| module.operands(end));
    let mut follows: Vec<bool> = (module.arguments(entry).iter().take(axes))
        .map(|&index| {
            let depends = dependents(module, map, &[index]);
            results.iter().any(|value| depends[value.index()])
        })
        .collect();
    follows.resize(axes, false);
    follows
}

/// The sizes of a memref, and bits of an element; none for semaphores and what has another size at
/// run time.
pub fn memref(module: &Module, value: Value) -> Option<(Vec<usize>, u32)> {
    let TypeKind::Memref { shape, element, .. } = module.value_kind(value) else {
        return None;
    };
    let bits = match module.type_kind(*element) {
        TypeKind::Float(kind) => kind.bits(),
        TypeKind::Integer { width, .. } => *width,
        TypeKind::Index => 32,
        _ => return None,
    };
    let shape = (shape.iter()).map(|&n| usize::try_from(n).ok());
    Some((shape.collect::<Option<_>>()?, bits))
}

/// Makes a scalar of an element of a vector.
const EXTRACT: &str = "vector.extract";

/// Scalars that are elements of vectors.
fn extracted(module: &Module, function: Op) -> Vec<Value> {
    let mut found = Vec::new();
    module.walk(function, &mut |op| {
        if module.op_name(op) == EXTRACT {
            found.extend(module.results(op));
        }
    });
    found
}
