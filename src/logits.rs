//! What the calls on given logits share.

use tilecast_core::kernels::softmax::{Logits, Schedule, SoftmaxKernel};
use tilecast_core::program::{Kernel, Program};
use tilecast_cpu::Cpu;
use tilecast_cpu::array::{ArrayMut, ArrayRef};

use crate::linear_ce::{Error, Matrix, Values};

/// Where and how a call runs.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) schedule: Option<Schedule>,
    pub(crate) cpu: Cpu,
}

/// Logits to differentiate, and where their gradient goes.
pub(crate) enum Place<'a> {
    /// Into memory of its own.
    Into(Matrix<'a>, ArrayMut<'a>),
    /// Over the logits.
    Over(ArrayMut<'a>),
}

impl Place<'_> {
    pub(crate) fn in_place(&self) -> bool {
        matches!(self, Self::Over(_))
    }

    pub(crate) fn logits(&self) -> ArrayRef<'_> {
        match self {
            Self::Into(logits, _) => logits.array.clone(),
            Self::Over(logits) => logits.as_ref(),
        }
    }
}

impl Setting {
    pub(crate) fn new() -> Self {
        Self {
            schedule: None,
            cpu: Cpu::new(),
        }
    }

    pub(crate) fn schedule_for(&self, logits: &Logits) -> Schedule {
        self.schedule.unwrap_or_else(|| {
            let cpu = &self.cpu;
            Schedule::for_cache(logits, cpu.thread_count(), cpu.cache().bytes)
        })
    }

    /// Runs a forward pass to vectors of the given lengths.
    pub(crate) fn forward<'i, const N: usize>(
        &self,
        program: &Program<SoftmaxKernel>,
        logits: &Matrix<'i>,
        mut inputs: Vec<(&'static str, ArrayRef<'i>)>,
        outputs: [(&'static str, usize); N],
    ) -> Result<[Vec<f32>; N], Error> {
        inputs.push(("logits", logits.array.clone()));
        run_to_vectors(&self.cpu, program, &inputs, outputs, Vec::new())
    }

    /// Runs a backward pass.
    pub(crate) fn backward<'i>(
        &self,
        program: &Program<SoftmaxKernel>,
        place: Place<'i>,
        mut inputs: Vec<(&'static str, ArrayRef<'i>)>,
    ) -> Result<(), Error> {
        let output = match place {
            Place::Into(logits, out) => {
                inputs.push(("logits", logits.array));
                ("d_logits", out)
            }
            Place::Over(logits) => ("logits", logits),
        };
        Ok(self.cpu.run(program, &inputs, vec![output])?)
    }
}

/// Runs a program that puts out vectors, of these names and lengths.
pub(crate) fn run_to_vectors<K: Kernel + Sync, const N: usize>(
    cpu: &Cpu,
    program: &Program<K>,
    inputs: &[(&'static str, ArrayRef<'_>)],
    outputs: [(&'static str, usize); N],
    others: Vec<(&'static str, ArrayMut<'_>)>,
) -> Result<[Vec<f32>; N], Error> {
    let mut results = outputs.map(|(_, len)| vec![0.0; len]);
    let mut bound = others;
    for ((name, len), result) in outputs.iter().zip(&mut results) {
        bound.push((*name, ArrayMut::new(&mut result[..], &[*len])?));
    }
    cpu.run(program, inputs, bound)?;
    Ok(results)
}

/// The dimensions of logits, which are a matrix.
pub(crate) fn shape(logits: &ArrayRef<'_>) -> Result<[usize; 2], Error> {
    logits.dims().try_into().map_err(|_| Error::Mismatch {
        what: "the number of dimensions of the logits",
        got: logits.dims().len().to_string(),
        with: "that of a matrix",
        expected: "2".into(),
    })
}

/// A gradient of the shape of the logits, in the type asked for.
pub(crate) fn gradient_for(logits: &Logits) -> (Values, [usize; 2]) {
    let dims = [logits.tokens(), logits.vocab()];
    (Values::zeros(logits.grad_dtype(), dims[0] * dims[1]), dims)
}

/// A given vector, or one of equal elements.
pub(crate) fn or_filled(given: Option<&[f32]>, value: f32, len: usize) -> Vec<f32> {
    given.map_or_else(|| vec![value; len], <[f32]>::to_vec)
}

/// The builder methods that every call on logits has.
macro_rules! common_options {
    () => {
        /// Divides the logits by a temperature.
        pub fn temperature(mut self, temperature: f32) -> Self {
            self.options.logits.temperature = temperature;
            self
        }

        /// Type of the gradient: that of the logits by default, or f32.
        pub fn grad_dtype(mut self, dtype: $crate::DType) -> Self {
            self.options.logits.grad_dtype = Some(dtype);
            self
        }

        /// Block sizes; by default chosen for this machine.
        pub fn schedule(mut self, schedule: tilecast_core::kernels::softmax::Schedule) -> Self {
            self.setting.schedule = Some(schedule);
            self
        }

        /// Where to run: number of threads, instruction set.
        pub fn on(mut self, cpu: tilecast_cpu::Cpu) -> Self {
            self.setting.cpu = cpu;
            self
        }
    };
}
pub(crate) use common_options;

/// The three forms of a backward pass on logits, made of the op's `problem`, `filled` cotangents and `backward_inputs`.
macro_rules! backward_forms {
    ($cotangents:ident) => {
        /// The gradient of the logits, from what [`Self::forward`] returned.
        ///
        /// # Errors
        /// As for [`Self::forward`], and a cotangent of another length.
        pub fn backward(
            &self,
            logits: $crate::Matrix<'_>,
            forward: &Forward,
            cotangents: $cotangents<'_>,
        ) -> Result<$crate::Values, $crate::Error> {
            let problem = self.problem(&logits.array, false)?;
            let (mut gradient, dims) = $crate::logits::gradient_for(problem.logits());
            let out = gradient.as_array(&dims)?;
            let place = $crate::logits::Place::Into(logits, out);
            self.backward_at(place, forward, cotangents)?;
            Ok(gradient)
        }

        /// Like [`Self::backward`], into memory of the caller, of any strides.
        ///
        /// # Errors
        /// As for [`Self::backward`], and an output of another shape or type.
        pub fn backward_into<'d>(
            &self,
            logits: $crate::Matrix<'d>,
            forward: &Forward,
            cotangents: $cotangents<'_>,
            out: $crate::ArrayMut<'d>,
        ) -> Result<(), $crate::Error> {
            let place = $crate::logits::Place::Into(logits, out);
            self.backward_at(place, forward, cotangents)
        }

        /// Like [`Self::backward`], over the logits themselves.
        ///
        /// # Errors
        /// As for [`Self::backward`], and a gradient of another type than the logits.
        pub fn backward_in_place(
            &self,
            logits: $crate::ArrayMut<'_>,
            forward: &Forward,
            cotangents: $cotangents<'_>,
        ) -> Result<(), $crate::Error> {
            let place = $crate::logits::Place::Over(logits);
            self.backward_at(place, forward, cotangents)
        }

        fn backward_at(
            &self,
            place: $crate::logits::Place<'_>,
            forward: &Forward,
            cotangents: $cotangents<'_>,
        ) -> Result<(), $crate::Error> {
            let problem = self.problem(&place.logits(), place.in_place())?;
            let cotangents = self.filled(cotangents, problem.logits().tokens());
            let inputs = self.backward_inputs(forward, &cotangents)?;
            let program = problem.backward(&self.setting.schedule_for(problem.logits()))?;
            self.setting.backward(&program, place, inputs)
        }
    };
}
pub(crate) use backward_forms;
