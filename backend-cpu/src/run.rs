//! Runs a program: launches in order, and the array operations between them.

use half::bf16;
use tilecast_core::program::{ArrayId, Kernel, Launch, LoopCounter, Program, Role, Step};

use crate::array::{ArrayMut, ArrayRef, Data, DataMut};
use crate::elements::Elements;
use crate::evaluate::{Leaves, STRIP, evaluate};
use crate::launch::{Kept, Passed, launch};
use crate::storage::{Bound, share};
use crate::{Cpu, CpuError};

/// Runs `program` with its arrays bound by name.
pub(crate) fn run<K: Kernel + Sync>(
    cpu: &Cpu,
    program: &Program<K>,
    inputs: &[(&str, ArrayRef<'_>)],
    outputs: Vec<(&str, ArrayMut<'_>)>,
) -> Result<(), CpuError> {
    let mut outputs: Vec<_> = outputs.into_iter().map(Some).collect();
    let mut temporaries: Vec<Elements> = program
        .arrays()
        .iter()
        .filter(|array| array.role == Role::Temporary)
        .map(|array| {
            let len = array.dims.iter().product();
            match cpu.poison {
                true => Elements::poisoned(array.dtype, len),
                false => Elements::zeroed(array.dtype, len),
            }
        })
        .collect();
    let mut next_temporary = temporaries.iter_mut();
    let mut arrays = Vec::new();
    for array in program.arrays() {
        let missing = || CpuError::Missing {
            program: program.name,
            array: array.name,
        };
        let bound = match array.role {
            Role::Input => {
                let found = inputs.iter().find(|(name, _)| *name == array.name);
                Bound::Input(found.ok_or_else(missing)?.1.clone())
            }
            Role::Output | Role::InPlace => {
                let named = |output: &&mut Option<(&str, ArrayMut<'_>)>| {
                    output.as_ref().is_some_and(|(name, _)| *name == array.name)
                };
                let found = outputs.iter_mut().find(named).and_then(Option::take);
                Bound::Output(found.ok_or_else(missing)?.1, array.role)
            }
            Role::Temporary => {
                let elements = next_temporary.next().expect("one for each temporary");
                let bound = ArrayMut::new(elements.as_data_mut(), &array.dims)?;
                Bound::Output(bound, array.role)
            }
        };
        let found = bound.as_ref();
        if found.dims() != array.dims || found.dtype() != array.dtype {
            return Err(CpuError::Shape {
                program: program.name,
                array: array.name,
                expected_dtype: array.dtype,
                expected: array.dims.clone(),
                got_dtype: found.dtype(),
                got: found.dims().into(),
            });
        }
        arrays.push(bound);
    }
    for step in program.steps() {
        steps(
            cpu,
            std::slice::from_ref(step),
            &mut arrays,
            0,
            &mut [Kept::default()],
        )?;
    }
    Ok(())
}

/// Runs steps of a program, each with what it left when a loop ran it before.
fn steps<K: Kernel + Sync>(
    cpu: &Cpu,
    steps_: &[Step<K>],
    arrays: &mut [Bound<'_>],
    counter: i64,
    kept: &mut [Kept],
) -> Result<(), CpuError> {
    for (step, kept) in steps_.iter().zip(kept) {
        match step {
            Step::Launch(Launch {
                kernel,
                operands,
                scalars,
                tables,
            }) => {
                let scalars = scalars
                    .iter()
                    .map(|scalar| scalar.evaluate(&|LoopCounter| counter))
                    .collect();
                let tables = tables.iter().map(|&id| integers(arrays, id)).collect();
                let shared = share(arrays, operands, kernel.spec());
                let storage = |id: &ArrayId| shared[id.index()].as_ref();
                let operands: Vec<_> = (operands.iter())
                    .map(|id| storage(id).expect("every operand is shared"))
                    .collect();
                let passed = Passed { scalars, tables };
                launch(cpu, kernel, &operands, &passed, kept)?;
            }
            Step::Loop { count, body } => {
                let mut kept: Vec<_> = body.iter().map(|_| Kept::default()).collect();
                for counter in 0..*count as i64 {
                    steps(cpu, body, arrays, counter, &mut kept)?;
                }
            }
            Step::Map { to, value } => {
                let len = arrays[to.index()].as_ref().dims()[0];
                for start in (0..len).step_by(STRIP) {
                    let mut strip = [0.0; STRIP];
                    let strip = &mut strip[..STRIP.min(len - start)];
                    evaluate(cpu.simd, value, &Arrays { arrays, start, len }, strip);
                    let array = arrays[to.index()].as_mut();
                    for (i, value) in strip.iter().enumerate() {
                        set(array, &[start + i], *value);
                    }
                }
            }
            Step::Total { from, to } => {
                let groups = arrays[to.index()].as_ref().dims()[0];
                for group in 0..groups {
                    // f64: the sum of a million losses must not lose the last ones.
                    let array = arrays[from.index()].as_ref();
                    let len = array.dims()[0] / groups;
                    let elements = group * len..(group + 1) * len;
                    let sum: f64 = elements.map(|i| f64::from(get(&array, &[i]))).sum();
                    set(arrays[to.index()].as_mut(), &[group], sum as f32);
                }
            }
            Step::Gather { from, to } => {
                let both = arrays.get_disjoint_mut([from.index(), to.index()]);
                let [from, to] = both.expect("a gather has two arrays");
                gather(&from.as_ref(), to.as_mut());
            }
            Step::Visits { sizes, groups, to } => {
                let tables = groups.tables(&integers(arrays, *sizes))?;
                for (to, table) in to.iter().zip(&tables) {
                    let DataMut::I32(data) = &mut arrays[to.index()].as_mut().data else {
                        panic!("a table is of integers")
                    };
                    data.copy_from_slice(table);
                }
            }
        }
    }
    Ok(())
}

/// The elements of a vector of integers.
fn integers(arrays: &[Bound<'_>], id: ArrayId) -> Vec<i32> {
    let array = arrays[id.index()].as_ref();
    let Data::I32(data) = array.data else {
        panic!("a real array where integers are read")
    };
    let len = array.dims()[0];
    (0..len)
        .map(|i| data[array.geometry.offset(&[i])])
        .collect()
}

/// `to = from`, cut, rounded, and summed over the leading dimensions that `to` does not have.
fn gather(from: &ArrayRef<'_>, to: &mut ArrayMut<'_>) {
    let dims = to.as_ref().dims().to_vec();
    let leading = &from.dims()[..from.dims().len() - dims.len()];
    let parts: usize = leading.iter().product();
    let (&columns, outer) = dims.split_last().expect("outputs have dimensions");
    let rows: usize = outer.iter().product();
    let mut sums = vec![0.0_f32; columns];
    for row in 0..rows {
        let mut index = index_of(row, outer);
        index.push(0);
        sums.fill(0.0);
        for part in 0..parts {
            let mut source = index_of(part, leading);
            source.extend(&index);
            let Data::F32(data) = from.data else {
                panic!("partial results are f32")
            };
            let data = &data[from.geometry.offset(&source)..];
            sums.iter_mut().zip(data).for_each(|(sum, x)| *sum += x);
        }
        store_row(to, &index, &sums);
    }
}

/// The index of element `n`, in order of rows, of an array of these dimensions.
fn index_of(n: usize, dims: &[usize]) -> Vec<usize> {
    let mut index = vec![0; dims.len()];
    let mut rest = n;
    for (i, &dim) in dims.iter().enumerate().rev() {
        index[i] = rest % dim;
        rest /= dim;
    }
    index
}

fn store_row(to: &mut ArrayMut<'_>, index: &[usize], row: &[f32]) {
    let start = to.geometry.offset(index);
    let stride = to.geometry.strides.last().copied().unwrap_or(1).max(1);
    match &mut to.data {
        DataMut::F32(data) => {
            let to = data[start..].iter_mut().step_by(stride);
            to.zip(row).for_each(|(to, from)| *to = *from);
        }
        DataMut::Bf16(data) => {
            let to = data[start..].iter_mut().step_by(stride);
            to.zip(row)
                .for_each(|(to, from)| *to = bf16::from_f32(*from));
        }
        DataMut::I32(_) => panic!("gradients are not integers"),
    }
}

fn get(array: &ArrayRef<'_>, index: &[usize]) -> f32 {
    let i = array.geometry.offset(index);
    match array.data {
        Data::F32(data) => data[i],
        Data::Bf16(data) => data[i].to_f32(),
        Data::I32(_) => panic!("an integer array in a real expression"),
    }
}

fn set(array: &mut ArrayMut<'_>, index: &[usize], value: f32) {
    let i = array.geometry.offset(index);
    match &mut array.data {
        DataMut::F32(data) => data[i] = value,
        DataMut::Bf16(data) => data[i] = bf16::from_f32(value),
        DataMut::I32(_) => panic!("a real value for an integer array"),
    }
}

/// Whole arrays as leaves; each element of a shorter one stands for a group of elements.
struct Arrays<'t, 'a> {
    arrays: &'t [Bound<'a>],
    start: usize,
    /// Elements of the result.
    len: usize,
}

impl Arrays<'_, '_> {
    /// Which element of a vector stands at position `i` of the strip.
    fn element(&self, array: &ArrayRef<'_>, i: usize) -> usize {
        (self.start + i) / (self.len / array.dims()[0])
    }
}

impl Leaves<ArrayId> for Arrays<'_, '_> {
    fn load(&self, leaf: &ArrayId, out: &mut [f32]) {
        let array = self.arrays[leaf.index()].as_ref();
        for (i, out) in out.iter_mut().enumerate() {
            *out = get(&array, &[self.element(&array, i)]);
        }
    }

    fn load_int(&self, leaf: &ArrayId, out: &mut [i32]) {
        let array = self.arrays[leaf.index()].as_ref();
        let Data::I32(data) = array.data else {
            panic!("a real array in an integer comparison")
        };
        for (i, out) in out.iter_mut().enumerate() {
            *out = data[array.geometry.offset(&[self.element(&array, i)])];
        }
    }
}
