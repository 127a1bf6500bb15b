//! Runs the kernel of a module over its grid: windows, their copies, the order of steps.

use std::collections::HashMap;

use tilecast_tpu::mosaic::tpu::{MemorySpace, memory_space};
use tilecast_tpu::mosaic::{self as ir, Module, Op, Type};

use crate::signature::{self, Signature};

use super::Options;
use super::error::{ExecuteError, Fault};
use super::machine::Machine;
use super::memory::{Buffer, Memory};
use super::tensor::{LIMIT, Value, elements, shape_of};
use super::window::{Operand, Rectangle, Window};

/// A kernel and its signature.
struct Kernel<'m> {
    module: &'m Module,
    function: Op,
    signature: Signature,
    /// Axes before the first whose steps must run in order.
    parallel: usize,
}

impl<'m> Kernel<'m> {
    fn read(module: &'m Module) -> Result<Self, ExecuteError> {
        let signature = Signature::read(module)?;
        let parallel = signature.parallel();
        let parallel = parallel.iter().take_while(|&&parallel| parallel).count();
        Ok(Self {
            module,
            function: signature.function,
            parallel: parallel.min(signature.bounds.len()),
            signature,
        })
    }

    fn argument<T>(&self, index: usize, result: Result<T, Fault>) -> Result<T, ExecuteError> {
        result.map_err(|fault| ExecuteError::Argument {
            index,
            problem: fault.to_string(),
        })
    }
}

/// What a kernel gets for each argument after the grid indices.
struct Run<'m> {
    machine: Machine<'m>,
    kernel: Kernel<'m>,
    arguments: Vec<Value>,
    windows: Vec<Window>,
    /// Memories that are undefined at first.
    scratch: Vec<usize>,
    /// For each array, the parts written back so far and by which parallel step.
    written: HashMap<usize, Vec<Rectangle>>,
    parallel_step: usize,
}

/// Runs the kernel of `module`. The first memories are the arrays; they are given back, changed.
pub(super) fn run(
    module: &Module,
    memory: Memory,
    operands: &[Operand],
    options: &Options,
) -> Result<Memory, ExecuteError> {
    let kernel = Kernel::read(module)?;
    let arrays = memory.buffers.len();
    let machine = Machine::new(module, memory, options.budget);
    let mut run = Run::new(kernel, machine, operands)?;
    run.all(options)?;
    let mut memory = run.machine.memory;
    memory.buffers.truncate(arrays);
    Ok(memory)
}

impl<'m> Run<'m> {
    fn new(
        kernel: Kernel<'m>,
        machine: Machine<'m>,
        operands: &[Operand],
    ) -> Result<Self, ExecuteError> {
        let signature = kernel.signature.clone();
        let expected = signature.scalars.len() + signature.operands.len();
        if expected != operands.len() {
            return Err(ExecuteError::Argument {
                index: operands.len(),
                problem: format!(
                    "{} arrays were passed, the kernel has {expected} scalars and operands",
                    operands.len()
                ),
            });
        }
        let mut run = Self {
            machine,
            arguments: Vec::new(),
            windows: Vec::new(),
            scratch: Vec::new(),
            written: HashMap::new(),
            parallel_step: 0,
            kernel,
        };
        run.machine.bounds.clone_from(&signature.bounds);
        let ty = |value: &ir::Value| run.kernel.module.value_type(*value);
        let given = signature.scalars.iter().map(|value| (ty(value), None));
        let array = (signature.operands.iter())
            .map(|operand| (ty(&operand.value), operand.window.as_ref()));
        let arguments: Vec<_> = given.chain(array).collect();
        let scratch: Vec<Type> = signature.scratch.iter().map(ty).collect();
        for (index, ((ty, window), operand)) in arguments.into_iter().zip(operands).enumerate() {
            run.bind(index, ty, window, operand)?;
        }
        for (i, ty) in scratch.into_iter().enumerate() {
            let index = operands.len() + i;
            let number = run.local(index, ty, format!("scratch {i}"))?;
            run.scratch.push(number);
            let view = run.machine.memory.whole(number);
            let view = run.kernel.argument(index, view)?;
            run.arguments.push(view.into());
        }
        Ok(run)
    }

    /// A memory of its own for an argument.
    fn local(&mut self, index: usize, ty: Type, name: String) -> Result<usize, ExecuteError> {
        let module = self.kernel.module;
        let buffer = shape_of(module, ty).and_then(|(shape, element)| {
            self.machine.spend(elements(&shape)? as u64)?;
            Buffer::undefined(name, element, &shape)
        });
        let buffer = self.kernel.argument(index, buffer)?;
        Ok(self.machine.memory.add(buffer))
    }

    fn bind(
        &mut self,
        index: usize,
        ty: Type,
        window: Option<&signature::Window>,
        operand: &Operand,
    ) -> Result<(), ExecuteError> {
        let module = self.kernel.module;
        let wrong = |problem: String| ExecuteError::Argument { index, problem };
        let (shape, element) = self.kernel.argument(index, shape_of(module, ty))?;
        let array = &self.machine.memory.buffers[operand.array];
        if array.element != element {
            let text = module.type_text(ty);
            return Err(wrong(format!(
                "the array is {}, the kernel takes {text}",
                array.element
            )));
        }
        let transform = window.map(|window| window.map);
        let sizes_fit = match transform {
            Some(_) => operand.dims.len() == shape.len(),
            None => operand.dims == shape,
        };
        if !sizes_fit {
            let (dims, text) = (&operand.dims, module.type_text(ty));
            return Err(wrong(format!(
                "the array has the shape {dims:?}, the kernel takes {text}"
            )));
        }
        let space = memory_space(module, ty);
        let in_place = matches!(space, Some(MemorySpace::Any | MemorySpace::Hbm));
        if in_place && transform.is_none() {
            let view = self.machine.memory.whole(operand.array);
            let view = view.and_then(|view| view.reshape(&shape));
            let view = self.kernel.argument(index, view)?;
            self.arguments.push(view.into());
            return Ok(());
        }
        let local = self.local(index, ty, format!("window {index}"))?;
        let view = self.machine.memory.whole(local);
        self.arguments
            .push(self.kernel.argument(index, view)?.into());
        if index < self.kernel.signature.scalars.len() {
            // Index maps read them before any window shows anything.
            let cells = self.machine.memory.buffers[operand.array].cells.clone();
            self.machine.memory.buffers[local].cells = cells;
            return Ok(());
        }
        let padding = window.and_then(|window| window.elements.clone());
        self.windows.push(Window {
            operand: operand.clone(),
            local,
            shape,
            transform,
            padding,
            shown: None,
            number: index,
        });
        Ok(())
    }

    /// All steps.
    fn all(&mut self, options: &Options) -> Result<(), ExecuteError> {
        let function = self.kernel.function;
        let sizes: Option<Vec<usize>> = self
            .kernel
            .signature
            .bounds
            .iter()
            .map(|&n| usize::try_from(n).ok())
            .collect();
        let dynamic = Fault::Unsupported("a grid known only at run time".into());
        let sizes = sizes.ok_or_else(|| self.machine.at(function, dynamic))?;
        let (outer, inner) = sizes.split_at(self.kernel.parallel);
        let count =
            |sizes: &[usize]| elements(sizes).map_err(|fault| self.machine.at(function, fault));
        let (parallel, sequential) = (count(outer)?, count(inner)?);
        // The order of the steps is held in memory.
        let spent = self.machine.spend(parallel as u64);
        spent.map_err(|fault| self.machine.at(function, fault))?;
        for (i, place) in order(parallel, options.parallel_order)
            .into_iter()
            .enumerate()
        {
            self.parallel_step = place;
            // A parallel step may be the first of its core.
            if i > 0 {
                let scratch = self
                    .scratch
                    .iter()
                    .chain(self.windows.iter().map(|w| &w.local));
                for &buffer in scratch.collect::<Vec<_>>() {
                    let made = self.machine.poison(buffer);
                    made.map_err(|fault| self.machine.at(function, fault))?;
                }
            }
            for step in 0..sequential {
                let mut at = point(place, outer);
                at.extend(point(step, inner));
                self.step(at)?;
            }
            self.finish(function)?;
        }
        Ok(())
    }

    fn finish(&mut self, function: Op) -> Result<(), ExecuteError> {
        for i in 0..self.windows.len() {
            self.write_back(i)?;
            self.windows[i].shown = None;
        }
        let finished = self.machine.memory.check_finished();
        finished.map_err(|fault| self.machine.at(function, fault))
    }

    fn step(&mut self, at: Vec<i64>) -> Result<(), ExecuteError> {
        let function = self.kernel.function;
        self.machine.step.clone_from(&at);
        let spent = self.machine.spend(1);
        spent.map_err(|fault| self.machine.at(function, fault))?;
        let grid: Vec<Value> = at.iter().map(|&i| Machine::number(i)).collect();
        let mut starts = Vec::new();
        for i in 0..self.windows.len() {
            starts.push(self.start(i, &grid)?);
        }
        let moved = |run: &Self, i: usize| run.windows[i].shown.as_ref() != Some(&starts[i]);
        for i in (0..starts.len())
            .filter(|&i| moved(self, i))
            .collect::<Vec<_>>()
        {
            self.write_back(i)?;
        }
        for (i, start) in starts.into_iter().enumerate() {
            if self.windows[i].shown.as_ref() != Some(&start) {
                self.show(i, start)?;
            }
        }
        let memories = self.machine.memory.buffers.len();
        let arguments = grid
            .into_iter()
            .chain(self.arguments.iter().cloned())
            .collect();
        self.machine.call(function, arguments)?;
        let released = self.machine.memory.release(memories);
        released.map_err(|fault| self.machine.at(function, fault))
    }

    /// First element of what a window must show.
    fn start(&mut self, i: usize, grid: &[Value]) -> Result<Vec<i64>, ExecuteError> {
        let Some(transform) = self.windows[i].transform else {
            return Ok(vec![0; self.windows[i].shape.len()]);
        };
        let scalars = &self.arguments[..self.kernel.signature.scalars.len()];
        let arguments = grid.iter().chain(scalars).cloned().collect();
        let indices = self.machine.call(transform, arguments)?;
        let indices: Result<Vec<i64>, Fault> = indices
            .iter()
            .map(|index| index.tensor()?.one_int())
            .collect();
        let window = &self.windows[i];
        let start = indices.and_then(|indices| window.start(&indices));
        start.map_err(|fault| self.machine.at(transform, fault))
    }

    /// Copies a block in, or makes the window undefined if it is an output.
    fn show(&mut self, i: usize, start: Vec<i64>) -> Result<(), ExecuteError> {
        let window = &self.windows[i];
        let op = window.transform.unwrap_or(self.kernel.function);
        let made = self.machine.poison(window.local);
        made.map_err(|fault| self.machine.at(op, fault))?;
        if !window.operand.output {
            let written = self.written.get(&window.operand.array);
            let stale = written.is_some_and(|parts| {
                parts
                    .iter()
                    .any(|part| part.overlaps(&start, &window.shape))
            });
            let copied = match stale {
                true => Err(Fault::Pipeline(format!(
                    "window {} shows elements from {start:?} on, which this launch has written: \
                     they may have been fetched before",
                    window.number
                ))),
                false => window.copy(&mut self.machine, &start, false),
            };
            copied.map_err(|fault| self.machine.at(op, fault))?;
        }
        self.windows[i].shown = Some(start);
        Ok(())
    }

    /// Copies what an output window shows to its array.
    fn write_back(&mut self, i: usize) -> Result<(), ExecuteError> {
        let window = &self.windows[i];
        let Some(start) = window.shown.clone().filter(|_| window.operand.output) else {
            return Ok(());
        };
        let op = window.transform.unwrap_or(self.kernel.function);
        let written = self.written.entry(window.operand.array).or_default();
        let spent = self.machine.spend(written.len() as u64);
        spent.map_err(|fault| self.machine.at(op, fault))?;
        let mine = self.parallel_step;
        let other =
            |part: &&Rectangle| part.parallel_step != mine && part.overlaps(&start, &window.shape);
        if written.iter().any(|part| other(&part)) {
            let fault = Fault::Pipeline(format!(
                "window {} writes elements from {start:?} on, which another step of a parallel \
                 axis has written",
                window.number
            ));
            return Err(self.machine.at(op, fault));
        }
        let known = written
            .iter()
            .any(|part| part.start == start && part.size == window.shape);
        if !known {
            written.push(Rectangle {
                start: start.clone(),
                size: window.shape.clone(),
                parallel_step: mine,
            });
        }
        let copied = window.copy(&mut self.machine, &start, true);
        copied.map_err(|fault| self.machine.at(op, fault))
    }
}

/// Grid indices of step number `step`, the last axis innermost.
fn point(mut step: usize, sizes: &[usize]) -> Vec<i64> {
    let mut at: Vec<i64> = Vec::new();
    for &size in sizes.iter().rev() {
        at.push((step % size) as i64);
        step /= size;
    }
    at.reverse();
    at
}

/// The order of parallel steps: as numbered, or shuffled by a seed.
fn order(count: usize, seed: Option<u64>) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count.min(LIMIT)).collect();
    let Some(mut state) = seed else { return order };
    // SplitMix64 (Steele, Lea and Flood 2014) and the shuffle of Fisher and Yates.
    let mut random = |below: usize| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % below as u64) as usize
    };
    for i in (1..order.len()).rev() {
        order.swap(i, random(i + 1));
    }
    order
}
