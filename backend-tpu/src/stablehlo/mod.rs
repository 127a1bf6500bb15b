//! Writes a program as a StableHLO module whose kernels are TPU custom calls ([`emit`]), or one kernel of
//! anybody's as a module that calls it ([`wrap`]).
//!
//! Kernels become `tpu_custom_call`s that carry their Mosaic text; the steps around them (sums,
//! arithmetic on per-token vectors, the loop over chunks) become StableHLO operations, which XLA
//! fuses and schedules. Inputs and outputs of the module are those of the program, in order; a
//! scalar is a tensor of one element. An array that is updated in place is both an input and an
//! output, and declared to share its memory.
//!
//! Two things differ from the program. Per-row and per-column arrays enter a kernel as one row of a
//! matrix. And an output of which a launch writes only some blocks (its index map depends on a
//! scalar) is passed in as well, in the same memory: a custom call owns its whole result.

mod call;
mod expression;
mod visits;
mod wrap;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::ops::Range;

use thiserror::Error;
use tilecast_core::DType;
use tilecast_core::program::{Array, ArrayId, Kernel, Launch, LoopCounter, Program, Role, Step};
use tilecast_core::spec::{Affine, Buffer};

use crate::lower::{Argument, F32Products, LowerError, lower, operand_type, signature, stored};
use crate::mosaic::version::{self, VersionError};
use call::Call;

pub use wrap::{WrapError, wrap};

/// How a program is written.
#[derive(Clone, Debug)]
pub struct EmitOptions {
    /// Products of f32 operands.
    pub products: F32Products,
    /// What each kernel may use of VMEM, bytes; `None` leaves the compiler's default.
    pub vmem_limit_bytes: Option<u64>,
    /// Whether each copy of a block is checked against the bounds of its array as it runs, which halts a TPU where it
    /// is beyond them. A check takes a step up to 43 cycles for each window (libtpu 0.0.51). Here a
    /// [program](tilecast_core::program) is refused whose windows may leave their arrays, and the interpreter refuses
    /// any other copy that does.
    pub bounds_checks: bool,
    /// Version of the Mosaic vocabulary, see [`version`].
    pub mosaic_version: u32,
}

impl Default for EmitOptions {
    fn default() -> Self {
        Self {
            products: F32Products::default(),
            vmem_limit_bytes: None,
            bounds_checks: false,
            mosaic_version: version::CURRENT,
        }
    }
}

/// Why a program cannot be written.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum EmitError {
    /// A kernel has no lowering.
    #[error(transparent)]
    Lower(#[from] LowerError),
    /// A kernel cannot be written in the version asked for.
    #[error(transparent)]
    Version(#[from] VersionError),
}

/// The StableHLO text of `program`. The same program gives the same bytes.
///
/// # Errors
/// [`EmitError`] names the kernel and what it uses that has no lowering.
pub fn emit<K: Kernel>(program: &Program<K>, options: &EmitOptions) -> Result<String, EmitError> {
    let mut writer = Writer {
        options,
        arrays: program.arrays(),
        values: vec![None; program.arrays().len()],
        text: String::new(),
        next: 0,
        indent: 2,
    };
    let of_roles = |roles: [Role; 2]| {
        let arrays = program.arrays().iter().enumerate();
        arrays.filter(move |(_, array)| roles.contains(&array.role))
    };
    let results = || of_roles([Role::Output, Role::InPlace]);
    let mut parameters = Vec::new();
    for (i, array) in of_roles([Role::Input, Role::InPlace]) {
        let name = format!("%{}", array.name);
        // What is updated in place is the memory of a result: the caller gives it away.
        let result = results().position(|(result, _)| result == i);
        let donated = result.map_or(String::new(), |result| {
            format!(" {{tf.aliasing_output = {result} : i32}}")
        });
        let ty = tensor(array.dtype, &array.dims);
        parameters.push(format!("{name}: {ty}{donated}"));
        writer.values[i] = Some(name);
    }
    writer.steps(program.steps(), None)?;
    let values: Vec<String> = results()
        .map(|(i, _)| {
            writer.values[i]
                .clone()
                .expect("programs write all outputs")
        })
        .collect();
    let results: Vec<String> = results()
        .map(|(_, array)| tensor(array.dtype, &array.dims))
        .collect();
    let (results, values) = (results.join(", "), values.join(", "));
    Ok(format!(
        "module @{} {{\n  func.func public @main({}) -> ({results}) {{\n{}    return {values} : {results}\n  }}\n}}\n",
        program.name.replace(' ', "_"),
        parameters.join(", "),
        writer.text,
    ))
}

struct Writer<'p> {
    options: &'p EmitOptions,
    arrays: &'p [Array],
    /// The current value of each array.
    values: Vec<Option<String>>,
    text: String,
    next: usize,
    indent: usize,
}

impl Writer<'_> {
    fn line(&mut self, line: &str) {
        let indent = 2 * self.indent;
        writeln!(self.text, "{:indent$}{line}", "").expect("strings grow");
    }

    fn name(&mut self) -> String {
        self.next += 1;
        format!("%{}", self.next - 1)
    }

    /// `%n = operation`
    fn value(&mut self, operation: &str) -> String {
        let name = self.name();
        self.line(&format!("{name} = {operation}"));
        name
    }

    fn tensor(&self, array: ArrayId) -> String {
        let array = &self.arrays[array.index()];
        let (dtype, dims) = stored(array.dtype, &array.dims, array.packed);
        tensor(dtype, &dims)
    }

    /// The value of an array; if nothing has been written to it, memory that holds anything, as `lax.empty` of JAX asks
    /// for it. What writes a part of an array has to be given it whole, and no kernel reads what none has written, so
    /// zeros would be a pass over the gradient of the head for nothing.
    fn current(&mut self, array: ArrayId) -> String {
        if let Some(value) = &self.values[array.index()] {
            return value.clone();
        }
        let ty = self.tensor(array);
        self.value(&format!(
            "stablehlo.custom_call @AllocateBuffer() : () -> {ty}"
        ))
    }

    fn steps<K: Kernel>(
        &mut self,
        steps: &[Step<K>],
        counter: Option<&str>,
    ) -> Result<(), EmitError> {
        for step in steps {
            match step {
                Step::Launch(launch) => self.launch(launch, counter)?,
                Step::Loop { count, body } => self.repeat(*count, body)?,
                Step::Map { to, value } => {
                    let ty = self.tensor(*to);
                    let value = self.expression(value, &ty, *to);
                    self.values[to.index()] = Some(value);
                }
                Step::Total { from, to } => {
                    let (value, ty) = (self.current(*from), self.tensor(*from));
                    let [len, groups] = [from, to].map(|array| self.arrays[array.index()].dims[0]);
                    let grouped = tensor(DType::F32, &[groups, len / groups]);
                    let value = self.reshape(&value, &ty, &grouped);
                    let to_type = self.tensor(*to);
                    let total = self.sum(&value, 1..2, &grouped, &to_type);
                    self.values[to.index()] = Some(total);
                }
                Step::Gather { from, to } => self.gather(*from, *to),
                Step::Visits { sizes, groups, to } => {
                    let sizes = self.current(*sizes);
                    let tables = self.visits(&sizes, *groups);
                    for (to, table) in to.iter().zip(tables) {
                        self.values[to.index()] = Some(table);
                    }
                }
            }
        }
        Ok(())
    }

    /// Sum over dimensions.
    fn sum(&mut self, value: &str, over: Range<usize>, from: &str, to: &str) -> String {
        let dimensions: Vec<String> = over.map(|dimension| dimension.to_string()).collect();
        let dimensions = dimensions.join(", ");
        let zero = self.value("stablehlo.constant dense<0.0> : tensor<f32>");
        self.value(&format!(
            "stablehlo.reduce({value} init: {zero}) applies stablehlo.add across dimensions = [{dimensions}] : ({from}, tensor<f32>) -> {to}"
        ))
    }

    fn gather(&mut self, from: ArrayId, to: ArrayId) {
        let mut value = self.current(from);
        let (source, target) = (&self.arrays[from.index()], &self.arrays[to.index()]);
        let mut dims = source.dims.clone();
        if dims.len() > target.dims.len() {
            let before = tensor(DType::F32, &dims);
            let leading = dims.len() - target.dims.len();
            dims.drain(..leading);
            value = self.sum(&value, 0..leading, &before, &tensor(DType::F32, &dims));
        }
        if dims != target.dims {
            let limits: Vec<String> = target.dims.iter().map(|n| format!("0:{n}")).collect();
            let (before, after) = (tensor(DType::F32, &dims), tensor(DType::F32, &target.dims));
            let limits = limits.join(", ");
            value = self.value(&format!(
                "stablehlo.slice {value} [{limits}] : ({before}) -> {after}"
            ));
        }
        if target.dtype != DType::F32 {
            let (before, after) = (tensor(DType::F32, &target.dims), self.tensor(to));
            value = self.value(&format!(
                "stablehlo.convert {value} : ({before}) -> {after}"
            ));
        }
        self.values[to.index()] = Some(value);
    }

    /// A `while` that carries every array its body writes.
    fn repeat<K: Kernel>(&mut self, count: usize, body: &[Step<K>]) -> Result<(), EmitError> {
        let mut written = BTreeSet::new();
        collect_written(body, &mut written);
        let carried: Vec<ArrayId> = written.into_iter().collect();
        let mut initial = vec![self.value("stablehlo.constant dense<0> : tensor<i32>")];
        let mut types = vec!["tensor<i32>".to_owned()];
        for &array in &carried {
            initial.push(self.current(array));
            types.push(self.tensor(array));
        }
        let inside: Vec<String> = initial.iter().map(|_| self.name()).collect();
        let result = self.name();
        let pairs: Vec<String> = inside
            .iter()
            .zip(&initial)
            .map(|(inside, initial)| format!("{inside} = {initial}"))
            .collect();
        let (pairs, all_types) = (pairs.join(", "), types.join(", "));
        let arity = types.len();
        self.line(&format!(
            "{result}:{arity} = stablehlo.while({pairs}) : {all_types}"
        ));
        self.line("cond {");
        self.indent += 1;
        let counter = inside[0].clone();
        let limit = self.value(&format!("stablehlo.constant dense<{count}> : tensor<i32>"));
        let more = self.value(&format!(
            "stablehlo.compare LT, {counter}, {limit}, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>"
        ));
        self.line(&format!("stablehlo.return {more} : tensor<i1>"));
        self.indent -= 1;
        self.line("} do {");
        self.indent += 1;
        for (array, inside) in carried.iter().zip(&inside[1..]) {
            self.values[array.index()] = Some(inside.clone());
        }
        self.steps(body, Some(&counter))?;
        let one = self.value("stablehlo.constant dense<1> : tensor<i32>");
        let mut next = vec![self.value(&format!("stablehlo.add {counter}, {one} : tensor<i32>"))];
        for &array in &carried {
            next.push(self.current(array));
        }
        self.line(&format!(
            "stablehlo.return {} : {all_types}",
            next.join(", ")
        ));
        self.indent -= 1;
        self.line("}");
        for (i, array) in carried.iter().enumerate() {
            self.values[array.index()] = Some(format!("{result}#{}", i + 1));
        }
        Ok(())
    }

    fn launch<K: Kernel>(
        &mut self,
        launch: &Launch<K>,
        counter: Option<&str>,
    ) -> Result<(), EmitError> {
        let spec = launch.kernel.spec();
        let mut operands = Vec::new();
        let mut types = Vec::new();
        let mut scalars = launch.scalars.iter();
        for operand in spec.scalars() {
            let (value, ty) = self.scalars(scalars.by_ref().take(operand.len), counter);
            operands.push(value);
            types.push(ty);
        }
        for &table in &launch.tables {
            operands.push(self.current(table));
            types.push(self.tensor(table));
        }
        // Where each operand of the spec is passed in, and which results it is.
        let array_of = |buffer| {
            let position = spec.operands().position(|(id, ..)| id == buffer);
            launch.operands[position.expect("arguments are operands")]
        };
        let mut passed_at = vec![None; spec.buffers().len()];
        let mut results = Vec::new();
        for argument in signature(spec) {
            let buffer = argument.buffer();
            if argument == Argument::Output(buffer) {
                results.push(buffer);
                continue;
            }
            let array = array_of(buffer);
            let (value, ty) = (self.current(array), self.tensor(array));
            let outer = outer_type(&spec.buffers()[buffer.index()].buffer);
            passed_at[buffer.index()] = Some(operands.len());
            operands.push(self.reshape(&value, &ty, &outer));
            types.push(outer);
        }
        let mut aliases = Vec::new();
        for (i, &buffer) in results.iter().enumerate() {
            let in_place = spec.aliases().iter().find(|(_, output)| *output == buffer);
            let source = in_place.map_or(buffer, |(input, _)| *input);
            if let Some(operand) = passed_at[source.index()] {
                aliases.push((i, operand));
            }
        }
        let result_types: Vec<String> = results
            .iter()
            .map(|buffer| outer_type(&spec.buffers()[buffer.index()].buffer))
            .collect();
        let module = lower(&launch.kernel, self.options.products)?;
        let body = module.to_stable(self.options.mosaic_version)?;
        let name = self.name();
        let call = Call {
            kernel: spec.name(),
            body: &body,
            vmem_limit_bytes: self.options.vmem_limit_bytes,
            bounds_checks: self.options.bounds_checks,
            operands: &operands,
            operand_types: &types,
            result_types: &result_types,
            aliases: &aliases,
        };
        self.line(&call.statement(&name));
        for (i, (buffer, outer)) in results.iter().zip(&result_types).enumerate() {
            let value = call.result(&name, i);
            let array = array_of(*buffer);
            let ty = self.tensor(array);
            self.values[array.index()] = Some(self.reshape(&value, outer, &ty));
        }
        Ok(())
    }

    fn reshape(&mut self, value: &str, from: &str, to: &str) -> String {
        if from == to {
            return value.into();
        }
        self.value(&format!("stablehlo.reshape {value} : ({from}) -> {to}"))
    }

    /// A scalar operand: its values side by side.
    fn scalars<'a>(
        &mut self,
        values: impl Iterator<Item = &'a Affine<LoopCounter>>,
        counter: Option<&str>,
    ) -> (String, String) {
        let one = "tensor<1xi32>";
        let parts: Vec<String> = values
            .map(|value| {
                let value = self.affine(value, counter);
                self.reshape(&value, "tensor<i32>", one)
            })
            .collect();
        if let [part] = &parts[..] {
            return (part.clone(), one.into());
        }
        let ty = format!("tensor<{}xi32>", parts.len());
        let types = vec![one; parts.len()].join(", ");
        let list = parts.join(", ");
        let value = self.value(&format!(
            "stablehlo.concatenate {list}, dim = 0 : ({types}) -> {ty}"
        ));
        (value, ty)
    }

    fn affine(&mut self, value: &Affine<LoopCounter>, counter: Option<&str>) -> String {
        let constant = |writer: &mut Self, value: i64| {
            writer.value(&format!("stablehlo.constant dense<{value}> : tensor<i32>"))
        };
        let (name, a, b) = match value {
            Affine::Constant(value) => return constant(self, *value),
            Affine::Variable(LoopCounter) => {
                return match counter {
                    Some(counter) => counter.into(),
                    None => constant(self, 0),
                };
            }
            Affine::Sum(a, b) => ("add", self.affine(a, counter), self.affine(b, counter)),
            Affine::Scaled(a, factor) => {
                ("multiply", self.affine(a, counter), constant(self, *factor))
            }
            Affine::AtMost(a, limit) => {
                ("minimum", self.affine(a, counter), constant(self, *limit))
            }
        };
        self.value(&format!("stablehlo.{name} {a}, {b} : tensor<i32>"))
    }
}

fn collect_written<K: Kernel>(steps: &[Step<K>], written: &mut BTreeSet<ArrayId>) {
    for step in steps {
        match step {
            Step::Launch(launch) => {
                let spec = launch.kernel.spec();
                for argument in signature(spec) {
                    if let Argument::Output(buffer) = argument {
                        let position = spec.operands().position(|(id, ..)| id == buffer);
                        written.insert(launch.operands[position.expect("outputs are operands")]);
                    }
                }
            }
            Step::Loop { body, .. } => collect_written(body, written),
            Step::Visits { to, .. } => written.extend(to),
            Step::Map { to, .. } | Step::Total { to, .. } | Step::Gather { to, .. } => {
                written.insert(*to);
            }
        }
    }
}

/// `tensor<8x128xf32>`
fn tensor(dtype: DType, dims: &[usize]) -> String {
    let dims: String = dims.iter().map(|n| format!("{n}x")).collect();
    format!("tensor<{dims}{dtype}>")
}

/// The type of a kernel's operand as the custom call sees it.
fn outer_type(buffer: &Buffer) -> String {
    let (dtype, dims) = operand_type(buffer);
    tensor(dtype, &dims)
}
