//! Runs Mosaic modules for their numbers, with the memory of a TPU and none of its forgiveness.
//!
//! [`run`] interprets one kernel: every grid step in turn, windows copied in and out as the
//! pipeline does it, products of bf16 summed in f32. [`program`] runs a whole op, each kernel by way
//! of the text that the compiler would get. What goes unnoticed on hardware until a run is lost is
//! an error here:
//!
//! * memory starts as NaN (the least number, for integers), and so does the part of a window that
//!   overhangs its array, so that what must not be looked at shows;
//! * elements outside of a memory or vector cannot be loaded, stored or sliced;
//! * from the start of a copy until the wait for it, its source cannot be written and its target
//!   not be touched; copies that share a semaphore are complete when all of them are waited for;
//! * a wait for more than was ever started or signalled is a deadlock; a kernel must not end
//!   with a copy in flight or a semaphore that is not zero;
//! * a window cannot show what the same launch has written, which the pipeline may have fetched
//!   before, and two steps of a parallel axis cannot write the same block;
//! * each step along the parallel axes starts with undefined windows and scratch, as if it were the
//!   first of its core, and the order of these steps can be shuffled.
//!
//! # Numbers
//!
//! Floats are computed in f32 and rounded to their type after each operation. `tpu.matmul` rounds f32
//! operands to bf16 unless its `precision` says otherwise, and sums in f32. Functions (`exp`, `log`,
//! `tanh`, reciprocals, also approximate ones) are accurate to f32; those of the hardware are less so.
//!
//! # Limits
//!
//! One device, one TensorCore: copies and signals to others are errors, as are operations that are not
//! known. Work and memory are limited by [`Options::budget`], so that any module that parses ends.

mod access;
mod array;
mod elements;
mod error;
mod expression;
mod grid;
mod leaf;
mod machine;
mod memory;
mod product;
mod program;
mod reductions;
mod shapes;
mod tensor;
#[cfg(test)]
mod tests;
mod view;
mod window;

use tilecast_tpu::lower::F32Products;
use tilecast_tpu::mosaic::{Module, version};

pub use array::{Array, Data};
pub use error::{ExecuteError, Fault, Located};
pub use program::program;

use array::element;
use memory::{Buffer, Memory};
use window::Operand;

/// In which form a kernel is written before it is read back and run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Text {
    /// As the compiler takes it, in a version of its vocabulary; see [`version`].
    Stable(u32),
    /// As people read it.
    Pretty,
}

/// How modules are run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Steps along parallel axes run in the order of this seed, or lexicographically.
    pub parallel_order: Option<u64>,
    /// Element operations that one kernel may take. Memories and vectors are paid for by the element
    /// before they are made, so this bounds what a kernel holds as well.
    pub budget: u64,
    /// For [`program`]: how products of f32 operands are recorded.
    pub products: F32Products,
    /// For [`program`]: the text that is run.
    pub text: Text,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            parallel_order: None,
            // Some minutes.
            budget: 1_000_000_000_000,
            products: F32Products::default(),
            text: Text::Stable(version::CURRENT),
        }
    }
}

/// Runs the kernel of `module`.
///
/// `inputs` are the prefetched scalars and then the input operands, `outputs` the operands after
/// them; what `outputs` hold is not looked at, only their shapes and types.
///
/// ```
/// use tilecast_sim::execute::{Array, Options, run};
/// use tilecast_tpu::mosaic::Builder;
///
/// let mut b = Builder::new("double");
/// let tile = b.f32_vector(&[8, 128]);
/// let window = b.vmem(&[8, 128], tile);
/// b.function("double", &[window, window], &[], |b, refs| {
///     let x = b.load(refs[0], tile);
///     let y = b.binary("arith.addf", x, x);
///     b.store(y, refs[1]);
///     Vec::new()
/// });
/// let x = Array::new(vec![1.5_f32; 8 * 128], &[8, 128])?;
/// let mut y = Array::undefined(tilecast_core::DType::F32, &[8, 128]);
/// run(&b.finish(), &[&x], &mut [&mut y], &Options::default())?;
/// assert_eq!(y.to_f32(), [3.0; 8 * 128]);
/// # Ok::<(), tilecast_sim::execute::ExecuteError>(())
/// ```
///
/// # Errors
/// A module that breaks a rule of the dialects, arrays that do not fit it, and whatever goes
/// wrong while it runs. After an error `outputs` are unchanged.
pub fn run(
    module: &Module,
    inputs: &[&Array],
    outputs: &mut [&mut Array],
    options: &Options,
) -> Result<(), ExecuteError> {
    module.verify()?;
    let mut memory = Memory::default();
    let mut operands = Vec::new();
    let arrays = inputs.iter().copied().map(|array| (array, false));
    let written = outputs.iter().map(|array| (&**array, true));
    for (i, (array, output)) in arrays.chain(written).enumerate() {
        let (dims, ty) = (array.dims().to_vec(), element(array.dtype()));
        let cells = match output {
            true => ty.undefined(dims.iter().product()),
            false => array.cells(),
        };
        let name = format!("argument {i}");
        let array = memory.add(Buffer::new(name, ty, dims.clone(), cells, output));
        operands.push(Operand {
            array,
            dims,
            output,
        });
    }
    let memory = grid::run(module, memory, &operands, options)?;
    let results = memory.buffers.iter().skip(inputs.len());
    for (array, result) in outputs.iter_mut().zip(results) {
        **array = Array::from_cells(array.dtype(), &result.shape, &result.cells);
    }
    Ok(())
}
