//! Grouped matrix product: the layers of a mixture of experts.
//!
//! Tokens are sorted by the expert that they go to, and each expert multiplies its own rows by its own weights. With
//! rows `x [T,I]`, weights `w [E,I,O]` and `group_sizes [E]`, of which the rows of expert `e` are those from the sum of
//! the sizes before `e` on:
//!
//! ```text
//! y_t  = x_t w_e(t)                  0 for rows behind those of the last expert
//! dx_t = dy_t w_e(t)^T               likewise
//! dw_e = sum over the rows t of e of x_t^T dy_t          0 for experts without rows
//! ```
//!
//! This is `jax.lax.ragged_dot` and its gradients. Sums are f32. How a fixed grid visits groups of any sizes is in
//! [`groups`](crate::groups); a number that is not finite stays with the rows of its expert, for rows of others are
//! replaced by 0 behind a product, not multiplied by it.
//!
//! Letters are those of the op: `T` rows (tokens times experts per token), `E` experts, `I` inputs, `O` outputs.

mod blocks;
pub mod reference;
mod rows;
mod weights;

use alloc::vec::Vec;

use thiserror::Error;

pub use self::blocks::{Blocks, Schedule};
pub use self::rows::RowProduct;
pub use self::weights::WeightProduct;
use crate::DType;
use crate::groups::{Groups, GroupsError};
use crate::ops::{Contract, TileOps};
use crate::program::{ArrayId, Kernel, Launch, Program, ProgramError, Role, Step};
use crate::spec::{KernelSpec, SpecError};

/// Why a grouped product cannot be computed.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum GroupedError {
    /// A size is 0, or too large to count.
    #[error("{what} is {size}; it must be at least 1 and less than 2^30")]
    Size {
        /// Which.
        what: &'static str,
        /// Its value.
        size: usize,
    },
    /// A type that is not computed with.
    #[error("{what} is {dtype}; it must be f32 or bf16")]
    DType {
        /// Of what.
        what: &'static str,
        /// The type.
        dtype: DType,
    },
    /// A block is 0, or what it must divide is no multiple of it.
    #[error("the block of {what} is {block}; {rule} ({size})")]
    Block {
        /// Of what.
        what: &'static str,
        /// Block.
        block: usize,
        /// What it must be.
        rule: &'static str,
        /// The size that the rule is about.
        size: usize,
    },
    /// Sizes of groups that the rows do not have.
    #[error(transparent)]
    Groups(#[from] GroupsError),
    /// Not one size for each group.
    #[error("there are {got} group sizes for {experts} experts")]
    Sizes {
        /// Sizes.
        got: usize,
        /// Experts.
        experts: usize,
    },
    /// A kernel's spec is refused.
    #[error(transparent)]
    Program(#[from] ProgramError),
}

impl From<SpecError> for GroupedError {
    fn from(error: SpecError) -> Self {
        Self::Program(error.into())
    }
}

/// The op on given shapes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupedMatmul {
    rows: usize,
    experts: usize,
    inputs: usize,
    outputs: usize,
    dtype: DType,
    out_dtype: DType,
}

impl GroupedMatmul {
    /// The op for `x [rows, inputs]` and `w [experts, inputs, outputs]` of type `dtype`, whose results are of type
    /// `out_dtype`.
    ///
    /// # Errors
    /// A size of 0, or of 2^30 and more; a type other than f32 and bf16.
    pub fn new(
        [rows, experts, inputs, outputs]: [usize; 4],
        dtype: DType,
        out_dtype: DType,
    ) -> Result<Self, GroupedError> {
        let sizes = [rows, experts, inputs, outputs];
        let names = ["rows", "experts", "inputs", "outputs"];
        for (what, size) in names.into_iter().zip(sizes) {
            if size == 0 || size >= 1 << 30 {
                return Err(GroupedError::Size { what, size });
            }
        }
        for (what, dtype) in [
            ("the type of x and w", dtype),
            ("the type of the results", out_dtype),
        ] {
            if dtype == DType::I32 {
                return Err(GroupedError::DType { what, dtype });
            }
        }
        Ok(Self {
            rows,
            experts,
            inputs,
            outputs,
            dtype,
            out_dtype,
        })
    }

    /// Rows of `x`.
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// Groups of rows, and matrices of weights.
    pub const fn experts(&self) -> usize {
        self.experts
    }

    /// Columns of `x`.
    pub const fn inputs(&self) -> usize {
        self.inputs
    }

    /// Columns of `y`.
    pub const fn outputs(&self) -> usize {
        self.outputs
    }

    /// Type of `x`, `w` and `dy`.
    pub const fn dtype(&self) -> DType {
        self.dtype
    }

    /// Type of `y`, `dx` and `dw`.
    pub const fn out_dtype(&self) -> DType {
        self.out_dtype
    }

    /// Checks the sizes of the groups.
    ///
    /// # Errors
    /// Not one for each expert, one that is negative, more rows than there are.
    pub fn check_sizes(&self, sizes: &[i32]) -> Result<(), GroupedError> {
        if sizes.len() != self.experts {
            let (got, experts) = (sizes.len(), self.experts);
            return Err(GroupedError::Sizes { got, experts });
        }
        Ok(self.groups(self.rows)?.check(sizes)?)
    }

    /// The forward pass: `x`, `w`, `group_sizes` to `y`.
    ///
    /// # Errors
    /// Blocks that do not fit, or that the specs refuse.
    pub fn forward(&self, schedule: &Schedule) -> Result<Program<GroupedKernel>, GroupedError> {
        let products = [(Product::Y, schedule.forward)];
        GroupedProgram::of("grouped_matmul forward", self, &products)
    }

    /// The backward pass: `x`, `w`, `group_sizes`, `dy` to `dx`, `dw`.
    ///
    /// # Errors
    /// Blocks that do not fit, or that the specs refuse.
    pub fn backward(&self, schedule: &Schedule) -> Result<Program<GroupedKernel>, GroupedError> {
        let products = [(Product::Dx, schedule.dx), (Product::Dw, schedule.dw)];
        GroupedProgram::of("grouped_matmul backward", self, &products)
    }

    /// Both passes in one program, for a cotangent that is known before: `x`, `w`, `group_sizes`, `dy` to `y`, `dx`,
    /// `dw`.
    ///
    /// # Errors
    /// Blocks that do not fit, or that the specs refuse.
    pub fn forward_and_backward(
        &self,
        schedule: &Schedule,
    ) -> Result<Program<GroupedKernel>, GroupedError> {
        let products = [
            (Product::Y, schedule.forward),
            (Product::Dx, schedule.dx),
            (Product::Dw, schedule.dw),
        ];
        GroupedProgram::of("grouped_matmul", self, &products)
    }

    /// One product alone.
    ///
    /// # Errors
    /// Blocks that do not fit, or that the spec refuses.
    pub fn product(
        &self,
        product: Product,
        blocks: Blocks,
    ) -> Result<Program<GroupedKernel>, GroupedError> {
        GroupedProgram::of(product.name(), self, &[(product, blocks)])
    }

    fn groups(&self, block: usize) -> Result<Groups, GroupedError> {
        Ok(Groups::new(self.rows, self.experts, block)?)
    }
}

/// The products of the op.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Product {
    /// `y = x w`
    Y,
    /// `dx = dy w^T`
    Dx,
    /// `dw = x^T dy`
    Dw,
}

impl Product {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Y, Self::Dx, Self::Dw];

    /// The name of its kernel.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Y => "grouped_matmul_forward",
            Self::Dx => "grouped_matmul_dx",
            Self::Dw => "grouped_matmul_dw",
        }
    }

    /// What it multiplies, and its result.
    const fn operands(self) -> [&'static str; 3] {
        match self {
            Self::Y => ["x", "w", "y"],
            Self::Dx => ["dy", "w", "dx"],
            Self::Dw => ["x", "dy", "dw"],
        }
    }

    fn reads(self, input: &str) -> bool {
        input == GROUP_SIZES || self.operands()[..2].contains(&input)
    }
}

/// The input that says how many rows each group has.
const GROUP_SIZES: &str = "group_sizes";

/// The kernels of the op.
#[derive(Clone, Debug)]
pub enum GroupedKernel {
    /// Rows by the weights of their groups.
    Rows(RowProduct),
    /// Rows by rows, summed over each group.
    Weights(WeightProduct),
}

impl Kernel for GroupedKernel {
    fn spec(&self) -> &KernelSpec {
        match self {
            Self::Rows(kernel) => kernel.spec(),
            Self::Weights(kernel) => kernel.spec(),
        }
    }

    fn body<T: TileOps>(&self, t: &T) {
        match self {
            Self::Rows(kernel) => kernel.body(t),
            Self::Weights(kernel) => kernel.body(t),
        }
    }
}

/// A program being built, and the tables that it has so far.
struct GroupedProgram<'o> {
    op: &'o GroupedMatmul,
    program: Program<GroupedKernel>,
    /// Tables by the block of rows that they are of.
    tables: Vec<(usize, [ArrayId; 5])>,
}

impl<'o> GroupedProgram<'o> {
    /// The program of some products. All programs have the inputs in one order: those of the forward pass, then the
    /// cotangent.
    fn of(
        name: &'static str,
        op: &'o GroupedMatmul,
        products: &[(Product, Blocks)],
    ) -> Result<Program<GroupedKernel>, GroupedError> {
        let mut new = Self {
            op,
            program: Program::new(name),
            tables: Vec::new(),
        };
        for input in ["x", "w", GROUP_SIZES, "dy"] {
            let reads = |(product, _): &(Product, Blocks)| product.reads(input);
            if products.iter().any(reads) {
                new.array(input);
            }
        }
        for &(product, blocks) in products {
            new.add(product, blocks)?;
        }
        Ok(new.program)
    }

    /// Adds a product, and the arrays that it is of.
    fn add(&mut self, product: Product, blocks: Blocks) -> Result<(), GroupedError> {
        let op = self.op;
        blocks.check(match product {
            Product::Y => Some(("inputs", op.inputs, blocks.inputs)),
            Product::Dx => Some(("outputs", op.outputs, blocks.outputs)),
            Product::Dw => None,
        })?;
        let name = product.name();
        let rows = |contract| RowProduct::new(name, op, contract, blocks).map(GroupedKernel::Rows);
        let kernel = match product {
            Product::Y => rows(Contract::NN)?,
            Product::Dx => rows(Contract::NT)?,
            Product::Dw => GroupedKernel::Weights(WeightProduct::new(name, op, blocks)?),
        };
        let operands = product.operands().map(|name| self.array(name));
        self.launch(kernel, operands, blocks.rows)
    }

    /// The array of a name, declared if it is not yet.
    fn array(&mut self, name: &'static str) -> ArrayId {
        let op = self.op;
        let (role, dtype) = match name {
            GROUP_SIZES => (Role::Input, DType::I32),
            "x" | "w" | "dy" => (Role::Input, op.dtype),
            _ => (Role::Output, op.out_dtype),
        };
        if let Some(known) = self.program.find(name, &[role]) {
            return known;
        }
        let program = &mut self.program;
        match name {
            GROUP_SIZES => program.array(role, name, dtype, [op.experts]),
            "w" | "dw" => program.array(role, name, dtype, [op.experts, op.inputs, op.outputs]),
            "x" | "dx" => program.array(role, name, dtype, [op.rows, op.inputs]),
            _ => program.array(role, name, dtype, [op.rows, op.outputs]),
        }
    }

    /// Launches a kernel that works on blocks of so many rows.
    fn launch(
        &mut self,
        kernel: GroupedKernel,
        operands: [ArrayId; 3],
        block: usize,
    ) -> Result<(), GroupedError> {
        let known = self.tables.iter().find(|(of, _)| *of == block);
        let tables = match known {
            Some((_, tables)) => *tables,
            None => self.visits(block)?,
        };
        self.program.push(Step::Launch(Launch {
            kernel,
            operands: operands.into(),
            scalars: Vec::new(),
            tables: tables.into(),
        }))?;
        Ok(())
    }

    fn visits(&mut self, block: usize) -> Result<[ArrayId; 5], GroupedError> {
        let groups = self.op.groups(block)?;
        let [group, in_block, first, end, opens] = groups.lengths();
        let mut table = |name, len| (self.program).array(Role::Temporary, name, DType::I32, [len]);
        let to = [
            table("group", group),
            table("block", in_block),
            table("first", first),
            table("end", end),
            table("opens", opens),
        ];
        let sizes = self.array(GROUP_SIZES);
        self.program.push(Step::Visits { sizes, groups, to })?;
        self.tables.push((block, to));
        Ok(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn inputs_are_in_one_order() {
        let (op, schedule) = (op(), blocks(16, 8, 12));
        let inputs = |program: Program<GroupedKernel>| -> Vec<&'static str> {
            let arrays = program.arrays().iter();
            let inputs = arrays.filter(|array| array.role == Role::Input);
            inputs.map(|array| array.name).collect()
        };
        assert_eq!(
            inputs(op.forward(&schedule).unwrap()),
            ["x", "w", "group_sizes"]
        );
        let all = ["x", "w", "group_sizes", "dy"];
        assert_eq!(inputs(op.backward(&schedule).unwrap()), all);
        assert_eq!(inputs(op.forward_and_backward(&schedule).unwrap()), all);
    }

    fn op() -> GroupedMatmul {
        GroupedMatmul::new([100, 4, 24, 36], DType::F32, DType::F32).unwrap()
    }

    fn blocks(rows: usize, inputs: usize, outputs: usize) -> Schedule {
        Schedule::of(Blocks {
            rows,
            part: 8,
            inputs,
            outputs,
            at_once: None,
        })
    }

    #[test]
    fn what_cannot_be_computed_is_named() {
        let error = |sizes, dtype| {
            let refused = GroupedMatmul::new(sizes, dtype, DType::F32);
            refused.unwrap_err().to_string()
        };
        let message = "experts is 0; it must be at least 1 and less than 2^30";
        assert_eq!(error([8, 0, 8, 8], DType::F32), message);
        let message = "the type of x and w is i32; it must be f32 or bf16";
        assert_eq!(error([8, 2, 8, 8], DType::I32), message);
        let error = |sizes: &[i32]| op().check_sizes(sizes).unwrap_err().to_string();
        assert_eq!(error(&[1, 2, 3]), "there are 3 group sizes for 4 experts");
        assert_eq!(
            error(&[50, 50, 0, 1]),
            "the groups have 101 rows together, there are 100"
        );
    }

    #[test]
    fn blocks_of_the_sum_divide_it() {
        assert!(op().forward(&blocks(16, 8, 16)).is_ok());
        let refused = op().forward(&blocks(16, 16, 16)).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "the block of inputs is 16; what is summed over must be a multiple of it (24)"
        );
        let refused = op().backward(&blocks(16, 8, 16)).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "the block of outputs is 16; what is summed over must be a multiple of it (36)"
        );
        let refused = op().forward(&blocks(20, 8, 12)).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "the block of rows is 20; it must be a multiple of its parts (8)"
        );
    }

    /// Both launches of the backward pass in blocks of the same rows share their tables.
    #[test]
    fn tables_are_made_once() {
        let visits = |program: &Program<GroupedKernel>| {
            let is_visits = |step: &&Step<_>| matches!(step, Step::Visits { .. });
            program.steps().iter().filter(is_visits).count()
        };
        let same = blocks(16, 8, 12);
        assert_eq!(visits(&op().backward(&same).unwrap()), 1);
        let different = Schedule {
            dw: Blocks {
                rows: 32,
                ..same.dw
            },
            ..same
        };
        assert_eq!(visits(&op().backward(&different).unwrap()), 2);
    }
}
