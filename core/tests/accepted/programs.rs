//! What makes a program valid.

use tilecast_core::DType;
use tilecast_core::expr::Expr;
use tilecast_core::kernels::linear_ce::HeadError;
use tilecast_core::ops::TileOps;
use tilecast_core::program::{Kernel, Launch, Program, ProgramError, Role, Step};
use tilecast_core::spec::{Blocked, KernelSpec, Semantics};

use Semantics::{Arbitrary, Parallel};

use crate::{F32, with_axis};

/// Copies `x` to `y`.
#[derive(Clone, Debug)]
struct Copy {
    spec: KernelSpec,
}

impl Copy {
    fn new() -> Result<Self, ProgramError> {
        let (mut spec, i) = with_axis(4, Parallel);
        spec.scalars("first", 2);
        let operand = || Blocked::new(F32, [32, 8], [8, 8], [i.into(), 0.into()]);
        spec.input_tile("x", operand());
        spec.output_tile("y", operand());
        Ok(Self {
            spec: spec.build()?,
        })
    }
}

impl Kernel for Copy {
    fn spec(&self) -> &KernelSpec {
        &self.spec
    }

    fn body<T: TileOps>(&self, _t: &T) {}
}

/// What a program says of a launch of [`Copy`] on `x` and `y` of the given types and shapes.
fn launch(
    x: (DType, [usize; 2]),
    arrays: usize,
    scalars: usize,
    in_loop: bool,
) -> Result<(), ProgramError> {
    let mut program = Program::new("p");
    let x = program.array(Role::Input, "input", x.0, x.1);
    let y = program.array(Role::Output, "output", F32, [32, 8]);
    let launch = Step::Launch(Launch {
        kernel: Copy::new()?,
        operands: [x, y, y].into_iter().take(arrays).collect(),
        scalars: vec![0.into(); scalars],
        tables: Vec::new(),
    });
    let step = match in_loop {
        true => Step::Loop {
            count: 3,
            body: vec![launch],
        },
        false => launch,
    };
    program.push(step)?;
    assert_eq!(program.launches()[0].1, if in_loop { 3 } else { 1 });
    Ok(())
}

#[test]
fn launches_pass_what_the_spec_declares() {
    let x = (F32, [32, 8]);
    for in_loop in [false, true] {
        assert_eq!(launch(x, 2, 2, in_loop), Ok(()));
        let refused = |x, arrays, scalars| {
            let error = launch(x, arrays, scalars, in_loop).unwrap_err();
            error.to_string()
        };
        let count = |got| format!("k takes 4 arrays, scalars and tables, {got} were passed");
        assert_eq!(refused(x, 1, 2), count(3));
        assert_eq!(refused(x, 3, 2), count(5));
        assert_eq!(refused(x, 2, 1), count(3));
        // One array for one scalar: the sum is right, the kinds are not.
        assert_eq!(refused(x, 3, 1), count(4));
        assert_eq!(
            refused((F32, [32, 9]), 2, 2),
            "k: operand x is f32[32, 8], array input is f32[32, 9]"
        );
        assert_eq!(
            refused((DType::Bf16, [32, 8]), 2, 2),
            "k: operand x is f32[32, 8], array input is bf16[32, 8]"
        );
    }
}

#[test]
fn an_invalid_spec_is_an_invalid_program_in_the_same_words() {
    let error = with_axis(0, Arbitrary).0.build().unwrap_err();
    let words = error.to_string();
    let program = ProgramError::from(error.clone());
    assert_eq!(program, ProgramError::Spec(error.clone()));
    assert_eq!(program.to_string(), words);
    let op = HeadError::from(error.clone());
    assert_eq!(op, HeadError::Program(ProgramError::Spec(error)));
    assert_eq!(op.to_string(), words);
}

#[test]
fn steps_without_launches_are_accepted() {
    let mut program = Program::<Copy>::new("p");
    let from = program.array(Role::Input, "from", F32, [4]);
    let to = program.array(Role::Output, "to", F32, [4]);
    let total = program.array(Role::Output, "total", F32, [1]);
    let value = Expr::from(from) * 2.0;
    program.push(Step::Map { to, value }).unwrap();
    program.push(Step::Total { from, to: total }).unwrap();
    program.push(Step::Gather { from, to }).unwrap();
    assert_eq!((program.steps().len(), program.launches().len()), (3, 0));
    assert_eq!(program.arrays()[from.index()].bytes(), 16);
}
