//! Programs run on arrays that are found by their names.

use half::bf16;
use tilecast::core::program::{Kernel, Program, Role};
use tilecast::{ArrayMut, DType};
use tilecast_cpu::array::ArrayRef;
use tilecast_sim::execute::{self, Array};

use super::{Column, Outputs};
use crate::OnCpu;

/// Runs a program on labels and on what `find` has; arrays of type bf16 are rounded to it.
pub(crate) fn run<'d, K: Kernel + Sync>(
    column: Column,
    program: &Program<K>,
    labels: &[i32],
    find: &dyn Fn(&str) -> &'d [f32],
) -> Result<Outputs, String> {
    match column {
        Column::Cpu(on) => on_cpu(on, program, labels, find),
        Column::Simulated => simulated(program, labels, find).map_err(|error| error.to_string()),
    }
}

fn narrow(values: &[f32]) -> Vec<bf16> {
    values.iter().map(|&x| bf16::from_f32(x)).collect()
}

fn on_cpu<'d, K: Kernel + Sync>(
    on: OnCpu,
    program: &Program<K>,
    labels: &[i32],
    find: &dyn Fn(&str) -> &'d [f32],
) -> Result<Outputs, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let is_narrow = |array: &&tilecast::core::program::Array| {
        (array.role, array.dtype) == (Role::Input, DType::Bf16)
    };
    let narrowed: Vec<_> = (program.arrays().iter().filter(is_narrow))
        .map(|array| (array.name, narrow(find(array.name))))
        .collect();
    let mut inputs = Vec::new();
    let (mut f32s, mut bf16s) = (Vec::new(), Vec::new());
    for array in program.arrays() {
        let (name, dims) = (array.name, &array.dims[..]);
        let len = dims.iter().product();
        match (array.role, array.dtype) {
            (Role::Temporary, _) => {}
            (Role::Input, DType::I32) => inputs.push((name, ArrayRef::new(labels, dims))),
            (Role::Input, DType::F32) => inputs.push((name, ArrayRef::new(find(name), dims))),
            (Role::Input, DType::Bf16) => {
                let (_, values) = (narrowed.iter().find(|(of, _)| *of == name)).expect("narrowed");
                inputs.push((name, ArrayRef::new(&values[..], dims)));
            }
            (Role::InPlace, DType::F32) => f32s.push((name, dims, find(name).to_vec())),
            (Role::InPlace, _) => bf16s.push((name, dims, narrow(find(name)))),
            (Role::Output, DType::F32) => f32s.push((name, dims, vec![f32::NAN; len])),
            (Role::Output, _) => bf16s.push((name, dims, vec![bf16::NAN; len])),
        }
    }
    let inputs: Vec<_> = (inputs.into_iter())
        .map(|(name, array)| Ok((name, array.map_err(|e| text(&e))?)))
        .collect::<Result<_, String>>()?;
    let mut outputs = Vec::new();
    for (name, dims, values) in &mut f32s {
        outputs.push((
            *name,
            ArrayMut::new(&mut values[..], dims).map_err(|e| text(&e))?,
        ));
    }
    for (name, dims, values) in &mut bf16s {
        outputs.push((
            *name,
            ArrayMut::new(&mut values[..], dims).map_err(|e| text(&e))?,
        ));
    }
    let cpu = on.cpu()?;
    cpu.run(program, &inputs, outputs).map_err(|e| text(&e))?;
    let widened = bf16s.into_iter().map(|(name, _, values)| {
        let values = values.into_iter().map(bf16::to_f32).collect();
        (name, values)
    });
    let exact = f32s.into_iter().map(|(name, _, values)| (name, values));
    Ok(exact.chain(widened).collect())
}

fn simulated<'d, K: Kernel>(
    program: &Program<K>,
    labels: &[i32],
    find: &dyn Fn(&str) -> &'d [f32],
) -> Result<Outputs, Box<dyn std::error::Error>> {
    let mut arrays = Vec::new();
    for array in program.arrays() {
        let (name, dims) = (array.name, &array.dims[..]);
        let passed = match (array.role, array.dtype) {
            (Role::Temporary | Role::Output, _) => continue,
            (_, DType::I32) => Array::new(labels.to_vec(), dims)?,
            (_, DType::Bf16) => Array::new(narrow(find(name)), dims)?,
            (_, DType::F32) => Array::new(find(name).to_vec(), dims)?,
        };
        arrays.push((name, passed));
    }
    let inputs: Vec<_> = arrays.iter().map(|(name, array)| (*name, array)).collect();
    let outputs = execute::program(program, &inputs, &execute::Options::default())?;
    let widened = outputs
        .into_iter()
        .map(|(name, array)| (name, array.to_f32()));
    Ok(widened.collect())
}
