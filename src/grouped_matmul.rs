//! The grouped matrix product of a mixture of experts, as a call on borrowed slices.

use tilecast_core::DType;
use tilecast_core::kernels::grouped_matmul::{self as kernel, Schedule};
use tilecast_cpu::Cpu;
use tilecast_cpu::array::{ArrayError, ArrayMut, ArrayRef, Data};

use crate::linear_ce::{Error, Matrix, Values, vector};

/// The weights of all experts, f32 or bf16, `[E,I,O]`, of any strides.
#[derive(Clone, Debug)]
pub struct Weights<'a> {
    array: ArrayRef<'a>,
}

impl<'a> Weights<'a> {
    /// `[experts, inputs, outputs]`, without gaps.
    ///
    /// # Errors
    /// The slice has fewer elements.
    pub fn new(data: impl Into<Data<'a>>, dims: [usize; 3]) -> Result<Self, ArrayError> {
        let array = ArrayRef::new(data, &dims)?;
        Ok(Self { array })
    }

    /// Element `(e, i, o)` is at `e * strides[0] + i * strides[1] + o * strides[2]`. Experts stored as `[E,O,I]`, as
    /// layers of `PyTorch` are, are `[E,I,O]` with strides `[O * I, 1, I]`.
    ///
    /// # Errors
    /// The last element lies beyond the slice.
    pub fn with_strides(
        data: impl Into<Data<'a>>,
        dims: [usize; 3],
        strides: [usize; 3],
    ) -> Result<Self, ArrayError> {
        let array = ArrayRef::with_strides(data, &dims, &strides)?;
        Ok(Self { array })
    }
}

/// Rows `x [T,I]`, sorted by expert, each times the weights of its expert, `w [E,I,O]`: the first `group_sizes[0]` rows
/// belong to expert 0, the next `group_sizes[1]` to expert 1, and so on. Rows behind the last group have no expert:
/// their results are 0. Chain options, then call [`GroupedMatmul::forward`] and [`GroupedMatmul::backward`].
///
/// ```
/// use tilecast::{Matrix, grouped_matmul};
///
/// # fn main() -> Result<(), tilecast::Error> {
/// // Three rows of two inputs; the first is of expert 0, the others of expert 1.
/// let x = [1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0];
/// let w = [1.0_f32, 1.0, 10.0, -10.0]; // two experts, two inputs, one output
/// let product = grouped_matmul::new(
///     Matrix::new(&x[..], 3, 2)?,
///     grouped_matmul::Weights::new(&w[..], [2, 2, 1])?,
///     &[1, 2],
/// );
/// assert_eq!(product.forward()?.to_f32(), [3.0, -10.0, -10.0]);
///
/// let gradients = product.backward(Matrix::new(&[1.0_f32, 1.0, 1.0][..], 3, 1)?)?;
/// assert_eq!(gradients.dw.to_f32(), [1.0, 2.0, 8.0, 10.0]);
/// # Ok(())
/// # }
/// ```
pub fn new<'a>(x: Matrix<'a>, w: Weights<'a>, group_sizes: &'a [i32]) -> GroupedMatmul<'a> {
    GroupedMatmul {
        x,
        w,
        group_sizes,
        out_dtype: None,
        schedule: None,
        cpu: Cpu::new(),
    }
}

/// A product to compute; see [`new`].
#[derive(Clone, Debug)]
pub struct GroupedMatmul<'a> {
    x: Matrix<'a>,
    w: Weights<'a>,
    group_sizes: &'a [i32],
    out_dtype: Option<DType>,
    schedule: Option<Schedule>,
    cpu: Cpu,
}

/// Gradients of the inputs.
#[derive(Clone, PartialEq, Debug)]
pub struct Gradients {
    /// `[T,I]`
    pub dx: Values,
    /// `[E,I,O]`
    pub dw: Values,
}

impl GroupedMatmul<'_> {
    /// Type of the results: that of the inputs by default, or f32.
    pub fn out_dtype(mut self, dtype: DType) -> Self {
        self.out_dtype = Some(dtype);
        self
    }

    /// Block sizes; by default chosen for this machine.
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        self.schedule = Some(schedule);
        self
    }

    /// Where to run: number of threads, instruction set.
    pub fn on(mut self, cpu: Cpu) -> Self {
        self.cpu = cpu;
        self
    }

    /// The product, `[T,O]`.
    ///
    /// # Errors
    /// Shapes or types that disagree, sizes of groups that are negative or more than there are rows: all found before
    /// anything is computed.
    pub fn forward(&self) -> Result<Values, Error> {
        let problem = self.problem()?;
        let dims = [problem.rows(), problem.outputs()];
        let mut y = Values::zeros(problem.out_dtype(), dims[0] * dims[1]);
        self.forward_into(y.as_array(&dims)?)?;
        Ok(y)
    }

    /// Like [`GroupedMatmul::forward`], into memory of the caller, of any strides.
    ///
    /// # Errors
    /// As for [`GroupedMatmul::forward`], and if the output has another shape or type.
    pub fn forward_into(&self, y: ArrayMut<'_>) -> Result<(), Error> {
        let problem = self.problem()?;
        let program = problem.forward(&self.schedule_for(&problem))?;
        self.cpu.run(&program, &self.inputs()?, vec![("y", y)])?;
        Ok(())
    }

    /// The gradients for the cotangent `dy [T,O]`, of the type of the inputs.
    ///
    /// # Errors
    /// As for [`GroupedMatmul::forward`].
    pub fn backward(&self, dy: Matrix<'_>) -> Result<Gradients, Error> {
        let problem = self.problem()?;
        let rows = [problem.rows(), problem.inputs()];
        let weights = [problem.experts(), problem.inputs(), problem.outputs()];
        let zeros = |dims: &[usize]| Values::zeros(problem.out_dtype(), dims.iter().product());
        let (mut dx, mut dw) = (zeros(&rows), zeros(&weights));
        self.backward_into(dy, dx.as_array(&rows)?, dw.as_array(&weights)?)?;
        Ok(Gradients { dx, dw })
    }

    /// Like [`GroupedMatmul::backward`], into memory of the caller, of any strides.
    ///
    /// # Errors
    /// As for [`GroupedMatmul::forward`], and if an output has another shape or type.
    pub fn backward_into(
        &self,
        dy: Matrix<'_>,
        dx: ArrayMut<'_>,
        dw: ArrayMut<'_>,
    ) -> Result<(), Error> {
        let problem = self.problem()?;
        let mut inputs = self.inputs()?;
        inputs.push(("dy", dy.array));
        let program = problem.backward(&self.schedule_for(&problem))?;
        let outputs = vec![("dx", dx), ("dw", dw)];
        self.cpu.run(&program, &inputs, outputs)?;
        Ok(())
    }

    /// The op on these shapes.
    fn problem(&self) -> Result<kernel::GroupedMatmul, Error> {
        let ([rows, inputs], dtype) = (self.x.dims(), self.x.array.dtype());
        let of_w = self.w.array.dims();
        let mismatch = |what, got: &dyn ToString, with, expected: &dyn ToString| Error::Mismatch {
            what,
            got: got.to_string(),
            with,
            expected: expected.to_string(),
        };
        if of_w[1] != inputs {
            let (what, with) = ("the number of inputs of w", "the number of columns of x");
            return Err(mismatch(what, &of_w[1], with, &inputs));
        }
        let w_dtype = self.w.array.dtype();
        if w_dtype != dtype {
            return Err(mismatch("the type of w", &w_dtype, "that of x", &dtype));
        }
        let sizes = [rows, of_w[0], inputs, of_w[2]];
        let out_dtype = self.out_dtype.unwrap_or(dtype);
        let problem = kernel::GroupedMatmul::new(sizes, dtype, out_dtype)?;
        problem.check_sizes(self.group_sizes)?;
        Ok(problem)
    }

    fn schedule_for(&self, problem: &kernel::GroupedMatmul) -> Schedule {
        let chosen = || Schedule::for_cache(problem, &self.cpu.cache());
        self.schedule.unwrap_or_else(chosen)
    }

    fn inputs(&self) -> Result<Vec<(&'static str, ArrayRef<'_>)>, Error> {
        Ok(vec![
            ("x", self.x.array.clone()),
            ("w", self.w.array.clone()),
            ("group_sizes", vector(self.group_sizes)?),
        ])
    }
}
