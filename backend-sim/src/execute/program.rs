//! Runs whole programs: kernels by way of their printed text, the steps around them plainly.

use std::collections::HashMap;
use std::rc::Rc;

use tilecast_core::program::{ArrayId, Kernel, Launch, LoopCounter, Program, Role, Step};
use tilecast_tpu::lower::{Argument, lower, operand_type, signature, stored};
use tilecast_tpu::mosaic::Module;

use super::array::{Array, element};
use super::error::ExecuteError;
use super::expression::evaluate;
use super::grid;
use super::memory::{Buffer, Memory};
use super::tensor::{Cells, Element, rows, strides};
use super::window::Operand;
use super::{Options, Text};

/// Runs `program` on `inputs`, which are found by name, and returns its outputs by name.
///
/// Each kernel is lowered, written as [`Options::text`] says, read back and interpreted: what is
/// run is what the compiler gets. The steps around the kernels are computed in f32, totals in f64.
///
/// # Errors
/// An input that is missing or of another shape or type, a kernel without lowering, and whatever
/// goes wrong inside of a kernel.
pub fn program<K: Kernel>(
    program: &Program<K>,
    inputs: &[(&str, &Array)],
    options: &Options,
) -> Result<Vec<(&'static str, Array)>, ExecuteError> {
    let mut memory = Memory::default();
    for array in program.arrays() {
        let (dtype, dims) = stored(array.dtype, &array.dims, array.packed);
        let cells = match array.role {
            Role::Input | Role::InPlace => {
                let found = inputs.iter().find(|(name, _)| *name == array.name);
                let (program, name) = (program.name, array.name);
                let missing = ExecuteError::Missing {
                    program,
                    array: name,
                };
                let (_, passed) = found.ok_or(missing)?;
                if passed.dims() != array.dims || passed.dtype() != array.dtype {
                    return Err(ExecuteError::Shape {
                        program,
                        array: name,
                        expected_dtype: array.dtype,
                        expected: array.dims.clone(),
                        got_dtype: passed.dtype(),
                        got: passed.dims().into(),
                    });
                }
                passed.cells()
            }
            _ => element(dtype).undefined(dims.iter().product()),
        };
        let name = array.name.into();
        memory.add(Buffer::new(name, element(dtype), dims, cells, false));
    }
    let mut runner = Runner {
        name: program.name,
        options,
        memory,
        modules: HashMap::new(),
    };
    runner.steps(program.steps(), 0)?;
    let arrays = program.arrays().iter().zip(&runner.memory.buffers);
    Ok(arrays
        .filter(|(array, _)| matches!(array.role, Role::Output | Role::InPlace))
        .map(|(array, buffer)| {
            (
                array.name,
                Array::from_cells(array.dtype, &array.dims, &buffer.cells),
            )
        })
        .collect())
}

struct Runner<'o> {
    name: &'static str,
    options: &'o Options,
    /// The arrays of the program, in order.
    memory: Memory,
    /// The module of each launch, by its address.
    modules: HashMap<usize, Rc<Module>>,
}

impl Runner<'_> {
    fn steps<K: Kernel>(&mut self, steps: &[Step<K>], counter: i64) -> Result<(), ExecuteError> {
        for step in steps {
            match step {
                Step::Launch(launch) => self.launch(launch, counter)?,
                Step::Loop { count, body } => {
                    for counter in 0..*count as i64 {
                        self.steps(body, counter)?;
                    }
                }
                Step::Map { to, value } => {
                    let arrays = &self.memory.buffers;
                    let (len, element) =
                        (arrays[to.index()].cells.len(), arrays[to.index()].element);
                    let result: Result<Vec<f32>, String> = (0..len)
                        .map(|i| Ok(element.round(evaluate(value, arrays, i, len)?)))
                        .collect();
                    let result = result.map_err(|problem| self.problem(problem))?;
                    self.set(*to, result);
                }
                Step::Total { from, to } => {
                    let groups = self.memory.buffers[to.index()].cells.len();
                    let from = self.real(*from)?;
                    let sums = from.chunks(from.len() / groups).map(|group| {
                        let sum: f64 = group.iter().map(|&x| f64::from(x)).sum();
                        sum as f32
                    });
                    let sums = sums.collect();
                    self.set(*to, sums);
                }
                Step::Gather { from, to } => self.gather(*from, *to)?,
                Step::Visits { sizes, groups, to } => {
                    let sizes = self.integers(*sizes)?;
                    let sizes: Vec<i32> = sizes.iter().map(|&size| size as i32).collect();
                    let tables = groups.tables(&sizes);
                    let tables = tables.map_err(|error| self.problem(error.to_string()))?;
                    for (to, table) in to.iter().zip(tables) {
                        let table = table.into_iter().map(i64::from).collect();
                        self.memory.buffers[to.index()].cells = Cells::Int(table);
                    }
                }
            }
        }
        Ok(())
    }

    fn problem(&self, problem: String) -> ExecuteError {
        let program = self.name;
        ExecuteError::Step { program, problem }
    }

    fn real(&self, array: ArrayId) -> Result<&[f32], ExecuteError> {
        let array = &self.memory.buffers[array.index()];
        match &array.cells {
            Cells::Float(data) => Ok(data),
            Cells::Int(_) => Err(self.problem(format!("{} is not real", array.name))),
        }
    }

    fn integers(&self, array: ArrayId) -> Result<&[i64], ExecuteError> {
        let array = &self.memory.buffers[array.index()];
        match &array.cells {
            Cells::Int(data) => Ok(data),
            Cells::Float(_) => Err(self.problem(format!("{} is not of integers", array.name))),
        }
    }

    fn set(&mut self, array: ArrayId, values: Vec<f32>) {
        self.memory.buffers[array.index()].cells = Cells::Float(values);
    }

    /// `to = from`, summed over leading dimensions, cut and rounded.
    fn gather(&mut self, from: ArrayId, to: ArrayId) -> Result<(), ExecuteError> {
        let arrays = &self.memory.buffers;
        let (mut dims, target) = (&arrays[from.index()].shape[..], &arrays[to.index()].shape);
        let element = arrays[to.index()].element;
        let data = self.real(from)?;
        let leading = dims.len().saturating_sub(target.len());
        let parts: usize = dims[..leading].iter().product();
        dims = &dims[leading..];
        if dims.len() != target.len() || dims.iter().zip(target).any(|(from, to)| from < to) {
            let names = [from, to].map(|array| arrays[array.index()].name.clone());
            return Err(self.problem(format!("{} does not hold all of {}", names[0], names[1])));
        }
        let (size, steps) = (dims.iter().product::<usize>(), strides(dims));
        let mut sums = Vec::new();
        rows(target, [&steps], [0], &mut |[start]| {
            let length = target.last().copied().unwrap_or(1);
            for i in start..start + length {
                let sum: f32 = (0..parts).map(|part| data[part * size + i]).sum();
                sums.push(element.round(sum));
            }
        });
        self.set(to, sums);
        Ok(())
    }

    fn launch<K: Kernel>(&mut self, launch: &Launch<K>, counter: i64) -> Result<(), ExecuteError> {
        let spec = launch.kernel.spec();
        let module = self.module(launch)?;
        let arrays = self.memory.buffers.len();
        let mut operands = Vec::new();
        let mut scalars = launch
            .scalars
            .iter()
            .map(|value| value.evaluate(&|LoopCounter| counter));
        for scalar in spec.scalars() {
            let values: Vec<i64> = scalars.by_ref().take(scalar.len).collect();
            let (dims, name) = (vec![values.len()], scalar.name.into());
            let cells = Cells::Int(values);
            let buffer = Buffer::new(name, Element::Int(32), dims.clone(), cells, false);
            let array = self.memory.add(buffer);
            let output = false;
            operands.push(Operand {
                array,
                dims,
                output,
            });
        }
        for (table, id) in spec.tables().iter().zip(&launch.tables) {
            operands.push(Operand {
                array: id.index(),
                dims: vec![table.len()],
                output: false,
            });
        }
        for argument in signature(spec) {
            let buffer = argument.buffer();
            let position = spec.operands().position(|(id, ..)| id == buffer);
            let id = position.and_then(|position| launch.operands.get(position));
            let unknown = || self.problem(format!("{} has operands without arrays", spec.name()));
            let array = id.ok_or_else(unknown)?.index();
            let (_, dims) = operand_type(&spec.buffers()[buffer.index()].buffer);
            let output = matches!(argument, Argument::Output(_));
            operands.push(Operand {
                array,
                dims,
                output,
            });
        }
        let mut memory = std::mem::take(&mut self.memory);
        for (i, buffer) in memory.buffers.iter_mut().enumerate() {
            buffer.writable = operands
                .iter()
                .any(|operand| operand.output && operand.array == i);
        }
        self.memory = grid::run(&module, memory, &operands, self.options)?;
        self.memory.buffers.truncate(arrays);
        Ok(())
    }

    /// The module of a launch, read from its text.
    fn module<K: Kernel>(&mut self, launch: &Launch<K>) -> Result<Rc<Module>, ExecuteError> {
        let address = std::ptr::from_ref(launch).addr();
        if let Some(module) = self.modules.get(&address) {
            return Ok(module.clone());
        }
        let module = lower(&launch.kernel, self.options.products)?;
        let text = match self.options.text {
            Text::Stable(version) => module.to_stable(version)?,
            Text::Pretty => module.to_pretty(),
        };
        let module = Module::parse(&text).map_err(|error| ExecuteError::Parse {
            kernel: launch.kernel.spec().name().into(),
            error,
        })?;
        module.verify()?;
        let module = Rc::new(module);
        self.modules.insert(address, module.clone());
        Ok(module)
    }
}
