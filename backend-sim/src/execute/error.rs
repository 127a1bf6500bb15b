//! What can go wrong when a module runs, and where.

use thiserror::Error;
use tilecast_core::DType;
use tilecast_tpu::lower::LowerError;
use tilecast_tpu::mosaic::version::VersionError;
use tilecast_tpu::mosaic::{ParseError, VerifyError};

use crate::signature::SignatureError;

/// Why a module or a program did not run to its end.
#[derive(Clone, PartialEq, Debug, Error)]
#[non_exhaustive]
pub enum ExecuteError {
    /// The module breaks a rule of the dialects.
    #[error(transparent)]
    Invalid(#[from] VerifyError),
    /// The kernel's signature cannot be read.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// An array does not fit the kernel it is passed to.
    #[error("argument {index} of the kernel: {problem}")]
    Argument {
        /// Its number, counted from the first prefetched scalar.
        index: usize,
        /// What is wrong.
        problem: String,
    },
    /// Elements and dimensions of an array do not fit each other.
    #[error("{len} elements for an array of shape {dims:?}")]
    Array {
        /// Number of elements.
        len: usize,
        /// Dimensions.
        dims: Vec<usize>,
    },
    /// An operation failed.
    #[error(transparent)]
    Fault(#[from] Box<Located>),
    /// A program needs an input that was not passed.
    #[error("{program}: input {array} is missing")]
    Missing {
        /// Program.
        program: &'static str,
        /// Array.
        array: &'static str,
    },
    /// An input has another shape or type than the program says.
    #[error("{program}: {array} is {got_dtype}{got:?}, it must be {expected_dtype}{expected:?}")]
    Shape {
        /// Program.
        program: &'static str,
        /// Array.
        array: &'static str,
        /// Type declared.
        expected_dtype: DType,
        /// Shape declared.
        expected: Vec<usize>,
        /// Type passed.
        got_dtype: DType,
        /// Shape passed.
        got: Vec<usize>,
    },
    /// A step around the kernels uses arrays it cannot use.
    #[error("{program}: {problem}")]
    Step {
        /// Program.
        program: &'static str,
        /// What is wrong.
        problem: String,
    },
    /// A kernel has no lowering.
    #[error(transparent)]
    Lower(#[from] LowerError),
    /// A kernel cannot be written as the compiler takes it.
    #[error(transparent)]
    Version(#[from] VersionError),
    /// What was written for a kernel cannot be read.
    #[error("the text of {kernel} does not parse: {error}")]
    Parse {
        /// Kernel.
        kernel: String,
        /// Why.
        error: ParseError,
    },
}

/// A fault and where it happened.
#[derive(Clone, PartialEq, Debug, Error)]
#[error("{}{op}{}: {fault}", at_line(*.line), at_step(.step))]
pub struct Located {
    /// The operation.
    pub op: String,
    /// Line of the text it was read from, 0 if none.
    pub line: u32,
    /// Grid indices; empty outside of a grid.
    pub step: Vec<i64>,
    /// What went wrong.
    pub fault: Fault,
}

fn at_line(line: u32) -> String {
    match line {
        0 => String::new(),
        line => format!("line {line}: "),
    }
}

fn at_step(step: &[i64]) -> String {
    match step {
        [] => String::new(),
        step => format!(" at grid step {step:?}"),
    }
}

/// What an operation did wrong.
#[derive(Clone, PartialEq, Debug, Error)]
#[non_exhaustive]
pub enum Fault {
    /// The interpreter does not know the operation.
    #[error("the operation is not known")]
    UnknownOp,
    /// The interpreter knows the operation but not in this form.
    #[error("{0} is not supported")]
    Unsupported(String),
    /// The operation contradicts itself or its operands.
    #[error("{0}")]
    Malformed(&'static str),
    /// Elements outside of a memory or vector.
    #[error("elements {start:?} to {end:?} are outside of {memory}, which has the shape {shape:?}")]
    OutOfBounds {
        /// The memory.
        memory: String,
        /// First element, along each dimension.
        start: Vec<i64>,
        /// One past the last element.
        end: Vec<i64>,
        /// Shape of the memory.
        shape: Vec<usize>,
    },
    /// Memory is used while a copy reads or writes it.
    #[error("{access} {memory}, which the copy started at line {copy_line} {copy}")]
    Race {
        /// `reads` or `writes`.
        access: &'static str,
        /// The memory.
        memory: String,
        /// Line of the operation that started the copy.
        copy_line: u32,
        /// What the copy does: `is still reading` or `is still writing`.
        copy: &'static str,
    },
    /// A block is copied in that this launch has written, or written twice in parallel.
    #[error("{0}")]
    Pipeline(String),
    /// A wait for what never comes.
    #[error("waits for {wanted} on {semaphore}, to which {there} will ever come")]
    Deadlock {
        /// The semaphore.
        semaphore: String,
        /// Bytes of copies, or the count of a plain semaphore.
        wanted: u64,
        /// What has been signalled or started and not yet consumed.
        there: u64,
    },
    /// The kernel ends before a copy or with a semaphore that is not zero.
    #[error("ends {0}")]
    Unfinished(String),
    /// A write to an array that is only an input.
    #[error("writes to {memory}, which is not an output")]
    ReadOnly {
        /// The memory.
        memory: String,
    },
    /// A check of the kernel failed.
    #[error("assertion failed: {0}")]
    Assertion(String),
    /// More work than [`Options::budget`](super::Options::budget) allows.
    #[error("the budget of {budget} element operations is used up")]
    Budget {
        /// The budget.
        budget: u64,
    },
    /// A vector or memory too large to hold.
    #[error("a shape of more than {limit} elements")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
}
