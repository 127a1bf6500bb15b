//! Runs the product on tensors in memory, on one backend or another.

use std::time::Instant;

use half::bf16;
use tilecast::core::kernels::grouped_matmul::{Blocks, GroupedMatmul, Schedule, reference};
use tilecast::grouped_matmul::{self, Weights};
use tilecast::sim::execute::{self, Array};
use tilecast::sim::experts::program;
use tilecast::{Cpu, DType, Matrix, Values};

use crate::cli::args::Pass;
use crate::cli::error::CliError;
use crate::cli::inputs::Floats;
use crate::cli::tensors::Tensor;

/// What is computed from.
#[derive(Clone, Debug)]
pub(crate) struct Inputs {
    pub(crate) op: GroupedMatmul,
    pub(crate) x: Floats,
    pub(crate) w: Floats,
    pub(crate) sizes: Vec<i32>,
    pub(crate) dy: Floats,
}

/// Results by name, and how long they took.
pub(crate) struct Results {
    pub(crate) arrays: Vec<(&'static str, Array)>,
    pub(crate) seconds: f64,
}

/// The smallest blocks that all TPUs take, for the interpreter.
pub(crate) fn smallest(op: &GroupedMatmul) -> Schedule {
    let [rows, side] = [128, 128];
    let block = |size: usize| match size.is_multiple_of(side) {
        true => side,
        false => size,
    };
    Schedule::of(Blocks {
        rows,
        part: rows,
        inputs: block(op.inputs()),
        outputs: block(op.outputs()),
        at_once: None,
    })
}

impl Inputs {
    /// Dimensions of `x` or `dx`, `w` or `dw`, `y` or `dy`.
    fn dims(&self) -> [Vec<usize>; 3] {
        let op = &self.op;
        let (rows, experts) = (op.rows(), op.experts());
        let (inputs, outputs) = (op.inputs(), op.outputs());
        [
            vec![rows, inputs],
            vec![experts, inputs, outputs],
            vec![rows, outputs],
        ]
    }

    /// Names and dimensions of the results that are asked for.
    fn wanted(&self, pass: Pass) -> Vec<(&'static str, Vec<usize>)> {
        let [x, w, y] = self.dims();
        let mut wanted = Vec::new();
        if pass.forward() {
            wanted.push(("y", y));
        }
        if pass.backward() {
            wanted.extend([("dx", x), ("dw", w)]);
        }
        wanted
    }

    /// The results that are asked for, in order.
    fn results(
        &self,
        pass: Pass,
        floats: impl Iterator<Item = Floats>,
        seconds: f64,
    ) -> Result<Results, CliError> {
        let named = self.wanted(pass).into_iter().zip(floats);
        let arrays = named.map(|((name, dims), floats)| Ok((name, owned(floats, &dims)?)));
        let arrays = arrays.collect::<Result<_, CliError>>()?;
        Ok(Results { arrays, seconds })
    }

    /// On this machine.
    ///
    /// # Errors
    /// Whatever the op refuses.
    pub(crate) fn on_cpu(&self, cpu: &Cpu, pass: Pass) -> Result<Results, CliError> {
        let op = &self.op;
        let dims = [op.experts(), op.inputs(), op.outputs()];
        let w = match &self.w {
            Floats::F32(data) => Weights::new(&data[..], dims),
            Floats::Bf16(data) => Weights::new(&data[..], dims),
        };
        let w = w.map_err(CliError::invalid)?;
        let product = grouped_matmul::new(matrix(&self.x, op.rows(), op.inputs())?, w, &self.sizes);
        let product = product.out_dtype(op.out_dtype()).on(cpu.clone());
        let dy = matrix(&self.dy, op.rows(), op.outputs())?;
        let start = Instant::now();
        let mut found = Vec::new();
        if pass.forward() {
            found.push(product.forward().map_err(CliError::invalid)?);
        }
        if pass.backward() {
            let gradients = product.backward(dy).map_err(CliError::invalid)?;
            found.extend([gradients.dx, gradients.dw]);
        }
        let seconds = start.elapsed().as_secs_f64();
        let floats = found.into_iter().map(|values| match values {
            Values::F32(data) => Floats::F32(data),
            Values::Bf16(data) => Floats::Bf16(data),
        });
        self.results(pass, floats, seconds)
    }

    /// By the interpreter.
    ///
    /// # Errors
    /// Whatever the interpreter refuses.
    pub(crate) fn on_sim(
        &self,
        schedule: &Schedule,
        options: &execute::Options,
        pass: Pass,
    ) -> Result<Results, CliError> {
        let [x, w, y] = self.dims();
        let x = owned(self.x.clone(), &x)?;
        let w = owned(self.w.clone(), &w)?;
        let dy = owned(self.dy.clone(), &y)?;
        let sizes = Array::new(self.sizes.clone(), &[self.sizes.len()]);
        let sizes = sizes.map_err(CliError::failure)?;
        let passed = [("x", &x), ("w", &w), ("dy", &dy), ("group_sizes", &sizes)];
        let program = program(&self.op, schedule, pass.into())?;
        let start = Instant::now();
        let arrays = execute::program(&program, &passed, options)?;
        let seconds = start.elapsed().as_secs_f64();
        Ok(Results { arrays, seconds })
    }

    /// By definition, in f64.
    ///
    /// # Errors
    /// None; as the others.
    pub(crate) fn with_reference(&self, pass: Pass) -> Result<Results, CliError> {
        let [x, w, dy] = [&self.x, &self.w, &self.dy].map(Floats::widened);
        let start = Instant::now();
        let mut found = Vec::new();
        if pass.forward() {
            found.push(reference::forward(&self.op, &x, &w, &self.sizes));
        }
        if pass.backward() {
            let (dx, dw) = reference::backward(&self.op, [&x, &w, &dy], &self.sizes);
            found.extend([dx, dw]);
        }
        let seconds = start.elapsed().as_secs_f64();
        let floats = found.into_iter().map(|data| match self.op.out_dtype() {
            DType::Bf16 => Floats::Bf16(data.into_iter().map(bf16::from_f64).collect()),
            _ => Floats::F32(data.into_iter().map(|x| x as f32).collect()),
        });
        self.results(pass, floats, seconds)
    }
}

fn matrix(floats: &Floats, rows: usize, columns: usize) -> Result<Matrix<'_>, CliError> {
    match floats {
        Floats::F32(data) => Matrix::new(&data[..], rows, columns),
        Floats::Bf16(data) => Matrix::new(&data[..], rows, columns),
    }
    .map_err(CliError::invalid)
}

fn owned(elements: Floats, dims: &[usize]) -> Result<Array, CliError> {
    match elements {
        Floats::F32(data) => Array::new(data, dims),
        Floats::Bf16(data) => Array::new(data, dims),
    }
    .map_err(CliError::failure)
}

impl Results {
    /// To be written to a file.
    pub(crate) fn tensors(&self) -> Vec<Tensor<'_>> {
        (self.arrays.iter())
            .map(|(name, array)| Tensor::of_array(name, array, array.dims()))
            .collect()
    }
}
