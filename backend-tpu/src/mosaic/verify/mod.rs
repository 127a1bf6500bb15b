//! What the dialects demand of a module.
//!
//! A text that parses may still be nonsense: an addition of different types, a matrix product whose
//! contracted sizes differ, a value used before it is made, a window without the function that
//! places it. The compiler rejects such modules, with messages that name its internals; this
//! verifier rejects them first and says where. The rules are those of the dialects' own verifiers as
//! far as kernels meet them (jaxlib's `tpu_ops.td`, `tpu_ops.cc`; MLIR's arith, vector, memref and
//! scf); operations that are not known are only checked for the order of definitions and uses.
//!
//! | file | rules |
//! |---|---|
//! | here | definitions before uses, visibility, terminators |
//! | `control` | functions, calls of regions, loops, conditionals |
//! | `kernel` | grid, windows, scalar prefetch, scratch |
//! | `element` | element-wise operations, comparisons, casts, constants |
//! | `vector` | shapes: broadcast, reduction, matrix product, transposition, ... |
//! | `memory` | loads, stores, slices, copies, semaphores |

mod control;
mod element;
mod kernel;
mod memory;
mod scope;
mod vector;

use std::collections::HashSet;

use thiserror::Error;

use super::ir::{Module, Op, Type, Value};
use super::syntax;
use super::types::{AttributeKind, Signedness, TypeKind};

/// A rule that an operation breaks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}{name}: {problem}", if *.line > 0 { format!("line {}: ", .line) } else { String::new() })]
#[non_exhaustive]
pub struct VerifyError {
    /// The operation.
    pub op: Op,
    /// Its name.
    pub name: String,
    /// Line of the text it was read from, 0 if none.
    pub line: u32,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong with an operation.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Problem {
    /// A number of things is not what it must be.
    #[error("{what} must be {expected}, is {found}")]
    Count {
        /// What is counted or measured.
        what: &'static str,
        /// What it must be.
        expected: i64,
        /// What it is.
        found: i64,
    },
    /// A required attribute is missing.
    #[error("attribute `{name}` is missing")]
    MissingAttribute {
        /// Its name.
        name: &'static str,
    },
    /// An attribute has a value it may not have.
    #[error("attribute `{name}` must be {expected}, is {found}")]
    Attribute {
        /// Its name.
        name: &'static str,
        /// What it may be.
        expected: &'static str,
        /// Its text.
        found: String,
    },
    /// A type is not what it must be.
    #[error("{what} must be {expected}, is {found}")]
    Type {
        /// Whose type.
        what: &'static str,
        /// What it must be.
        expected: String,
        /// The text of the type.
        found: String,
    },
    /// A dimension number beyond the rank.
    #[error("dimension {dimension} of `{name}` is not below the rank {rank}")]
    Dimension {
        /// The attribute that holds it.
        name: &'static str,
        /// The number.
        dimension: i64,
        /// How many dimensions there are.
        rank: usize,
    },
    /// An operand is used before it is made, or not on every way there.
    #[error("operand {operand} is used before it is defined")]
    UseBeforeDefinition {
        /// Its number.
        operand: usize,
    },
    /// An operand is made in a region that is not around the use.
    #[error("operand {operand} is not visible here")]
    NotVisible {
        /// Its number.
        operand: usize,
    },
    /// A name that nothing has.
    #[error("there is no function @{name}")]
    NoFunction {
        /// The name.
        name: String,
    },
    /// Operand and result counts do not fit the declaration of the operation.
    #[error("{operands} operands do not fit its declaration")]
    Operands {
        /// How many there are.
        operands: usize,
    },
    /// Any other rule.
    #[error("{0}")]
    Rule(&'static str),
}

type Checked = Result<(), Problem>;

impl Module {
    /// Checks the rules of the dialects; the first broken one is the error.
    ///
    /// # Errors
    ///
    /// The first operation, in order of the text, that breaks a rule.
    pub fn verify(&self) -> Result<(), VerifyError> {
        self.verify_all().into_iter().next().map_or(Ok(()), Err)
    }

    /// Every operation that breaks a rule, with the first rule it breaks.
    pub fn verify_all(&self) -> Vec<VerifyError> {
        let scopes = scope::Scopes::new(self);
        let mut errors = Vec::new();
        self.walk(self.root(), &mut |op| {
            let check = Check { m: self, op };
            if let Err(problem) = check.all(&scopes) {
                let name = self.op_name(op).to_owned();
                errors.push(VerifyError {
                    op,
                    name,
                    line: self.line(op),
                    problem,
                });
            }
        });
        errors
    }
}

/// One operation and its module.
#[derive(Clone, Copy)]
struct Check<'m> {
    m: &'m Module,
    op: Op,
}

impl<'m> Check<'m> {
    fn all(self, scopes: &scope::Scopes) -> Checked {
        self.definitions(scopes)?;
        self.terminators()?;
        let name = self.m.op_name(self.op);
        if let Some(syntax) = syntax::syntax(name) {
            let operands = self.operands().len();
            syntax
                .split(self.m, self.op)
                .ok_or(Problem::Operands { operands })?;
            let results = i64::from(syntax.results != syntax::Results::None);
            self.count(
                "the number of results",
                results,
                self.results().len() as i64,
            )?;
            self.count(
                "the number of regions",
                0,
                self.m.regions(self.op).len() as i64,
            )?;
        }
        match name.split('.').next() {
            Some("builtin" | "func" | "scf") => self.control(),
            Some("arith" | "math") => self.element(),
            Some("memref") => self.memory(),
            Some("vector") if name.ends_with("load") || name.ends_with("store") => self.memory(),
            Some("vector") => self.vector(),
            Some("tpu") => self.vector().and_then(|()| self.memory()),
            _ => Ok(()),
        }
    }

    // What the operation has.

    fn name(self) -> &'m str {
        self.m.op_name(self.op)
    }

    fn operands(self) -> &'m [Value] {
        self.m.operands(self.op)
    }

    fn results(self) -> &'m [Value] {
        self.m.results(self.op)
    }

    fn operand_type(self, i: usize) -> Result<Type, Problem> {
        let operands = self.operands();
        let found = Problem::Operands {
            operands: operands.len(),
        };
        operands.get(i).map(|&v| self.m.value_type(v)).ok_or(found)
    }

    fn result_type(self) -> Result<Type, Problem> {
        self.results()
            .first()
            .map(|&v| self.m.value_type(v))
            .ok_or(Problem::Count {
                what: "the number of results",
                expected: 1,
                found: 0,
            })
    }

    /// Shape and element type of a vector operand.
    fn vector_operand(self, i: usize) -> Result<(&'m [i64], Type), Problem> {
        self.as_vector("an operand", self.operand_type(i)?)
    }

    fn vector_result(self) -> Result<(&'m [i64], Type), Problem> {
        self.as_vector("the result", self.result_type()?)
    }

    fn as_vector(self, what: &'static str, ty: Type) -> Result<(&'m [i64], Type), Problem> {
        match self.m.type_kind(ty) {
            TypeKind::Vector { shape, element } => Ok((shape, *element)),
            _ => Err(self.wrong_type(what, "a vector", ty)),
        }
    }

    fn as_memref(self, what: &'static str, ty: Type) -> Result<(&'m [i64], Type), Problem> {
        match self.m.type_kind(ty) {
            TypeKind::Memref { shape, element, .. } => Ok((shape, *element)),
            _ => Err(self.wrong_type(what, "a memref", ty)),
        }
    }

    fn integer(self, name: &'static str) -> Result<i64, Problem> {
        self.m
            .integer_attribute(self.op, name)
            .ok_or_else(|| self.bad(name, "an integer"))
    }

    fn integers(self, name: &'static str) -> Result<Vec<i64>, Problem> {
        self.m
            .integers_attribute(self.op, name)
            .ok_or_else(|| self.bad(name, "a list of integers"))
    }

    /// The problem that an attribute is missing or not as it must be.
    fn bad(self, name: &'static str, expected: &'static str) -> Problem {
        match self.m.attribute_of(self.op, name) {
            Some(a) => Problem::Attribute {
                name,
                expected,
                found: self.m.attribute_text(a),
            },
            None => Problem::MissingAttribute { name },
        }
    }

    // Rules that several operations share.

    fn rule(self, holds: bool, text: &'static str) -> Checked {
        if holds {
            Ok(())
        } else {
            Err(Problem::Rule(text))
        }
    }

    fn count(self, what: &'static str, expected: i64, found: i64) -> Checked {
        if expected == found {
            Ok(())
        } else {
            Err(Problem::Count {
                what,
                expected,
                found,
            })
        }
    }

    fn wrong_type(self, what: &'static str, expected: &str, found: Type) -> Problem {
        Problem::Type {
            what,
            expected: expected.into(),
            found: self.m.type_text(found),
        }
    }

    fn same_type(self, what: &'static str, expected: Type, found: Type) -> Checked {
        if expected == found {
            return Ok(());
        }
        Err(self.wrong_type(what, &self.m.type_text(expected), found))
    }

    fn type_must(self, holds: bool, what: &'static str, expected: &str, found: Type) -> Checked {
        if holds {
            Ok(())
        } else {
            Err(self.wrong_type(what, expected, found))
        }
    }

    /// That all are different numbers of dimensions below `rank`.
    fn dimensions(self, name: &'static str, list: &[i64], rank: usize) -> Checked {
        let mut seen = HashSet::new();
        for &dimension in list {
            if usize::try_from(dimension).map_or(true, |d| d >= rank) {
                return Err(Problem::Dimension {
                    name,
                    dimension,
                    rank,
                });
            }
            if !seen.insert(dimension) {
                return Err(self.bad(name, "different dimensions"));
            }
        }
        Ok(())
    }

    /// Element type of a vector or memref, or the type itself.
    fn element_of(self, ty: Type) -> Type {
        self.m.type_kind(ty).element().unwrap_or(ty)
    }

    fn is_float(self, ty: Type) -> bool {
        matches!(self.m.type_kind(self.element_of(ty)), TypeKind::Float(_))
    }

    /// A signless integer, or `index`.
    fn is_integer(self, ty: Type) -> bool {
        matches!(
            self.m.type_kind(self.element_of(ty)),
            TypeKind::Integer {
                sign: Signedness::Signless,
                ..
            } | TypeKind::Index
        )
    }

    fn is_int(self, ty: Type, bits: u32) -> bool {
        *self.m.type_kind(ty)
            == TypeKind::Integer {
                width: bits,
                sign: Signedness::Signless,
            }
    }

    /// Width of an element in bits, where it has one.
    fn bits(self, ty: Type) -> Option<u32> {
        match self.m.type_kind(self.element_of(ty)) {
            TypeKind::Integer { width, .. } => Some(*width),
            TypeKind::Float(kind) => Some(kind.bits()),
            _ => None,
        }
    }

    fn shape_of(self, ty: Type) -> Option<&'m [i64]> {
        self.m.type_kind(ty).shape()
    }

    fn attribute_kind(self, name: &'static str) -> Result<&'m AttributeKind, Problem> {
        self.m
            .attribute_kind_of(self.op, name)
            .ok_or(Problem::MissingAttribute { name })
    }
}
