//! [`Program`]: an op as a list of kernel launches and the array operations around them.
//!
//! A kernel sees one block at a time; an op sees whole arrays. What is left for the op is small and
//! the same for every backend: which launches, in which order, over which temporaries; a loop over
//! chunks; arithmetic on per-token vectors; sums of partial results. A CPU backend runs the
//! list, a TPU backend writes it as one StableHLO module, a simulator adds up its memory and time.

use alloc::string::String;
use alloc::vec::Vec;

use thiserror::Error;

use crate::DType;
use crate::expr::{Expr, Int};
use crate::groups::Groups;
use crate::ops::TileOps;
use crate::spec::{Affine, KernelSpec, SpecError};

/// One grid step of a kernel, for any backend.
pub trait Kernel {
    /// Grid, operands and memory.
    fn spec(&self) -> &KernelSpec;

    /// What happens at one grid step.
    fn body<T: TileOps>(&self, t: &T);
}

/// The number of an array in its [`Program`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ArrayId(usize);

impl ArrayId {
    /// Position in [`Program::arrays`].
    pub const fn index(self) -> usize {
        self.0
    }
}

impl From<ArrayId> for Expr<ArrayId> {
    fn from(array: ArrayId) -> Self {
        Expr::leaf(array)
    }
}

impl From<ArrayId> for Int<ArrayId> {
    fn from(array: ArrayId) -> Self {
        Int::leaf(array)
    }
}

/// Who owns an array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Passed in, not changed.
    Input,
    /// Passed out, written completely.
    Output,
    /// Passed in and out: what it held is read, and overwritten.
    InPlace,
    /// Allocated for the run, undefined at first.
    Temporary,
}

/// An array of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Array {
    /// Name, by which inputs and outputs are found.
    pub name: &'static str,
    /// Element type.
    pub dtype: DType,
    /// Dimensions, row-major; a scalar is `[1]`.
    pub dims: Vec<usize>,
    /// Who owns it.
    pub role: Role,
    /// Whether a TPU holds it in [pairs of rows](crate::spec::Blocked::packed).
    pub packed: bool,
}

impl Array {
    /// Size without padding, in bytes.
    pub fn bytes(&self) -> u64 {
        let elements: u64 = self.dims.iter().map(|&n| n as u64).product();
        elements * self.dtype.size_bytes() as u64
    }
}

/// The counter of the loop around a launch; 0 outside a loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoopCounter;

/// A kernel and what it is run on.
#[derive(Clone, Debug)]
pub struct Launch<K> {
    /// The kernel.
    pub kernel: K,
    /// One array for each operand of its spec, in order. An aliased pair names one array twice.
    pub operands: Vec<ArrayId>,
    /// One value for each scalar of its spec, in order.
    pub scalars: Vec<Affine<LoopCounter>>,
    /// One array for each table of its spec, in order.
    pub tables: Vec<ArrayId>,
}

/// One step of a program.
#[derive(Clone, Debug)]
pub enum Step<K> {
    /// Runs a kernel.
    Launch(Launch<K>),
    /// Runs steps `count` times; launches see the counter.
    Loop {
        /// Number of iterations.
        count: usize,
        /// What is repeated.
        body: Vec<Step<K>>,
    },
    /// `to[i] = value(i)`, on vectors. A leaf of fewer elements stands for equal groups of consecutive
    /// `i`: one element for all, one per sequence for its tokens.
    Map {
        /// The result, a vector.
        to: ArrayId,
        /// The value of its elements.
        value: Expr<ArrayId>,
    },
    /// Each element of `to` is the sum of an equal group of consecutive elements of `from`, on
    /// vectors: of all of them if there is one, of the tokens of a sequence if there is one for each.
    Total {
        /// A vector.
        from: ArrayId,
        /// A vector whose length divides that of `from`.
        to: ArrayId,
    },
    /// `to = from`, cut to the shape of `to` and rounded to its element type. Where `from` has more
    /// dimensions, summed over those leading dimensions first.
    Gather {
        /// At least as large as `to` in every dimension that both have.
        from: ArrayId,
        /// The result.
        to: ArrayId,
    },
    /// Says which rows of which group the steps of a kernel work on: fills the [tables](Groups) of groups whose sizes
    /// are known now.
    Visits {
        /// `i32`, one for each group.
        sizes: ArrayId,
        /// Rows, groups and blocks of rows.
        groups: Groups,
        /// The tables, in the order of [`Groups::lengths`].
        to: [ArrayId; 5],
    },
}

/// Why a program cannot be built.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// A kernel's spec is invalid.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A launch passes the wrong number of arrays or scalars.
    #[error("{kernel} takes {expected} arrays, scalars and tables, {got} were passed")]
    OperandCount {
        /// Kernel.
        kernel: String,
        /// Number its spec declares.
        expected: usize,
        /// Number passed.
        got: usize,
    },
    /// A launch passes an array of another shape or type.
    #[error(
        "{kernel}: operand {operand} is {expected_dtype}{expected:?}, array {array} is {got_dtype}{got:?}"
    )]
    OperandMismatch {
        /// Kernel.
        kernel: String,
        /// Operand.
        operand: &'static str,
        /// Array.
        array: &'static str,
        /// Type the spec declares.
        expected_dtype: DType,
        /// Shape the spec declares.
        expected: Vec<usize>,
        /// Type passed.
        got_dtype: DType,
        /// Shape passed.
        got: Vec<usize>,
    },
    /// A launch passes a table of another length or type, or a step computes one.
    #[error("{user}: {array} must be i32[{len}], got {got_dtype}{got:?}")]
    Table {
        /// Kernel, or step.
        user: String,
        /// Array.
        array: &'static str,
        /// Length it must have.
        len: usize,
        /// Type of the array.
        got_dtype: DType,
        /// Its shape.
        got: Vec<usize>,
    },
    /// A vector does not divide another into equal groups.
    #[error(
        "{array} has {len} elements, which do not divide the {of_len} of {of} into equal groups"
    )]
    Uneven {
        /// The shorter vector.
        array: &'static str,
        /// Its length.
        len: usize,
        /// The longer one.
        of: &'static str,
        /// Its length.
        of_len: usize,
    },
}

/// An op: arrays and the steps that compute the outputs from the inputs.
#[derive(Clone, Debug)]
pub struct Program<K> {
    /// Name for reports.
    pub name: &'static str,
    arrays: Vec<Array>,
    steps: Vec<Step<K>>,
}

impl<K: Kernel> Program<K> {
    /// An empty program.
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            arrays: Vec::new(),
            steps: Vec::new(),
        }
    }

    /// All arrays, by [`ArrayId`].
    pub fn arrays(&self) -> &[Array] {
        &self.arrays
    }

    /// The steps, in order.
    pub fn steps(&self) -> &[Step<K>] {
        &self.steps
    }

    /// Every launch and how often it runs, in order of first execution.
    pub fn launches(&self) -> Vec<(&Launch<K>, u64)> {
        fn visit<'a, K>(steps: &'a [Step<K>], times: u64, found: &mut Vec<(&'a Launch<K>, u64)>) {
            for step in steps {
                match step {
                    Step::Launch(launch) => found.push((launch, times)),
                    Step::Loop { count, body } => visit(body, times * *count as u64, found),
                    _ => {}
                }
            }
        }
        let mut found = Vec::new();
        visit(&self.steps, 1, &mut found);
        found
    }

    /// The array of one of these roles that has a name, which only temporaries share.
    pub fn find(&self, name: &str, roles: &[Role]) -> Option<ArrayId> {
        let is_it = |array: &Array| array.name == name && roles.contains(&array.role);
        self.arrays.iter().position(is_it).map(ArrayId)
    }

    /// Adds an array.
    pub fn array<const N: usize>(
        &mut self,
        role: Role,
        name: &'static str,
        dtype: DType,
        dims: [usize; N],
    ) -> ArrayId {
        self.arrays.push(Array {
            name,
            dtype,
            dims: dims.into(),
            role,
            packed: false,
        });
        ArrayId(self.arrays.len() - 1)
    }

    /// Adds an array between kernels, in bf16 and [pairs of rows](crate::spec::Blocked::packed).
    pub fn packed_array(&mut self, name: &'static str, dims: [usize; 2]) -> ArrayId {
        let array = self.array(Role::Temporary, name, DType::Bf16, dims);
        self.arrays[array.0].packed = true;
        array
    }

    /// Adds a step.
    ///
    /// # Errors
    /// A launch in the step does not fit its kernel's spec.
    pub fn push(&mut self, step: Step<K>) -> Result<(), ProgramError> {
        self.check(&step, 1)?;
        self.steps.push(step);
        Ok(())
    }

    /// Checks a step of a loop of `count` rounds.
    fn check(&self, step: &Step<K>, count: usize) -> Result<(), ProgramError> {
        match step {
            Step::Launch(launch) => self.check_launch(launch, count),
            Step::Loop { count, body } => body.iter().try_for_each(|step| self.check(step, *count)),
            Step::Map { to, value } => {
                let mut checked = Ok(());
                value.for_each_leaf(&mut |&leaf| {
                    if checked.is_ok() {
                        checked = self.check_groups(leaf, *to);
                    }
                });
                checked
            }
            Step::Total { from, to } => self.check_groups(*to, *from),
            Step::Gather { .. } => Ok(()),
            Step::Visits { sizes, groups, to } => {
                let lengths = groups.lengths();
                let tables = to.iter().zip(lengths);
                [(sizes, groups.count())]
                    .into_iter()
                    .chain(tables)
                    .try_for_each(|(&array, len)| self.check_table("visits", array, len))
            }
        }
    }

    fn check_table(&self, user: &str, array: ArrayId, len: usize) -> Result<(), ProgramError> {
        let array = &self.arrays[array.0];
        if array.dtype == DType::I32 && array.dims == [len] {
            return Ok(());
        }
        Err(ProgramError::Table {
            user: user.into(),
            array: array.name,
            len,
            got_dtype: array.dtype,
            got: array.dims.clone(),
        })
    }

    fn check_groups(&self, groups: ArrayId, of: ArrayId) -> Result<(), ProgramError> {
        let [groups, of] = [groups, of].map(|id| &self.arrays[id.0]);
        let [len, of_len] = [groups, of].map(|array| array.dims[0]);
        if of_len.is_multiple_of(len) {
            return Ok(());
        }
        Err(ProgramError::Uneven {
            array: groups.name,
            len,
            of: of.name,
            of_len,
        })
    }

    fn check_launch(&self, launch: &Launch<K>, count: usize) -> Result<(), ProgramError> {
        let spec = launch.kernel.spec();
        let scalars: usize = spec.scalars().iter().map(|operand| operand.len).sum();
        let tables = spec.tables().len();
        let expected = spec.operands().count() + scalars + tables;
        let got = launch.operands.len() + launch.scalars.len() + launch.tables.len();
        if expected != got || scalars != launch.scalars.len() || tables != launch.tables.len() {
            return Err(ProgramError::OperandCount {
                kernel: spec.name().into(),
                expected,
                got,
            });
        }
        for ((_, buffer, operand), id) in spec.operands().zip(&launch.operands) {
            let array = &self.arrays[id.0];
            let operand_type = (operand.dtype, operand.packed);
            if operand.dims != array.dims || operand_type != (array.dtype, array.packed) {
                return Err(ProgramError::OperandMismatch {
                    kernel: spec.name().into(),
                    operand: buffer.name,
                    array: array.name,
                    expected_dtype: operand.dtype,
                    expected: operand.dims.clone(),
                    got_dtype: array.dtype,
                    got: array.dims.clone(),
                });
            }
        }
        for (table, &id) in spec.tables().iter().zip(&launch.tables) {
            self.check_table(spec.name(), id, table.len())?;
        }
        let counter = Some((0, count as i64 - 1));
        Ok(spec.check_launch(&|position| launch.scalars[position].range(&|LoopCounter| counter))?)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;
    use crate::spec::{BlockIndex, Blocked, Semantics, SpecBuilder};

    struct Nothing(KernelSpec);

    impl Kernel for Nothing {
        fn spec(&self) -> &KernelSpec {
            &self.0
        }

        fn body<T: TileOps>(&self, _: &T) {}
    }

    /// The blocks of a launch are those of its scalars, and of all rounds of the loop that it is in.
    #[test]
    fn blocks_beyond_an_array_are_refused_where_scalars_choose_them() {
        let mut spec = SpecBuilder::new("reads");
        let columns = spec.axis("columns", 2, Semantics::Arbitrary);
        let first = spec.scalars("first", 1);
        let block = BlockIndex::from(columns) + first.at(0);
        spec.input_tile(
            "w",
            Blocked::new(
                DType::F32,
                [8, 640],
                [8, 128],
                [BlockIndex::Constant(0), block],
            ),
        );
        let spec = spec.build().unwrap();
        let refused = |scalar: Affine<LoopCounter>, count| {
            let mut program = Program::new("test");
            let w = program.array(Role::Input, "w", DType::F32, [8, 640]);
            let launch = Step::Launch(Launch {
                kernel: Nothing(spec.clone()),
                operands: alloc::vec![w],
                scalars: alloc::vec![scalar],
                tables: Vec::new(),
            });
            let body = alloc::vec![launch];
            let pushed = program.push(Step::Loop { count, body });
            pushed.err().map(|error| error.to_string())
        };
        let counter = || Affine::Variable(LoopCounter);
        assert_eq!(refused(counter(), 4), None);
        assert_eq!(refused((counter() * 2).at_most(3), 9), None);
        let message = "reads: the index map of w covers blocks 0 to 5 along dimension 1, but the array has blocks 0 to 4";
        assert_eq!(refused(counter(), 5).as_deref(), Some(message));
        let message = "reads: the index map of w covers blocks -1 to 0 along dimension 1, but the array has blocks 0 to 4";
        assert_eq!(refused(Affine::Constant(-1), 1).as_deref(), Some(message));
    }
}
