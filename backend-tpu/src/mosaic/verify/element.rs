//! Operations on elements: arithmetic, comparisons, selections, casts, constants.

use super::{Check, Checked, Problem};
use crate::mosaic::ir::Type;
use crate::mosaic::syntax::{CMPF, CMPI, Results, syntax};
use crate::mosaic::types::{AttributeKind, Signedness};

impl Check<'_> {
    pub(super) fn element(self) -> Checked {
        match self.name() {
            "arith.constant" => self.constant(),
            "arith.cmpi" | "arith.cmpf" => self.compare(),
            "arith.select" => self.select(),
            name => match syntax(name) {
                Some(s) if s.results == Results::Same(0) => self.elementwise(),
                Some(s) if s.results == Results::Listed => self.cast(),
                _ => Ok(()),
            },
        }
    }

    fn constant(self) -> Checked {
        let ty = self.result_type()?;
        match self.attribute_kind("value")? {
            AttributeKind::Bool(_) => self.type_must(self.is_int(ty, 1), "the result", "i1", ty),
            AttributeKind::Integer { ty: t, .. }
            | AttributeKind::Float { ty: t, .. }
            | AttributeKind::DenseElements { ty: t, .. } => self.same_type("the result", *t, ty),
            AttributeKind::Opaque(_) => Ok(()),
            _ => Err(self.bad("value", "a number or dense elements")),
        }
    }

    /// Whether the operation is for floats, by its name.
    fn wants_floats(self) -> Option<bool> {
        let name = self.name();
        if matches!(
            name,
            "arith.addf" | "arith.subf" | "arith.mulf" | "arith.divf" | "arith.remf"
        ) || matches!(name, "arith.negf" | "arith.maximumf" | "arith.minimumf")
            || matches!(name, "arith.maxnumf" | "arith.minnumf")
        {
            return Some(true);
        }
        if name.starts_with("math.") {
            let integers = ["math.absi", "math.ctlz", "math.cttz", "math.ctpop"];
            return Some(!integers.contains(&name));
        }
        name.starts_with("arith.").then_some(false)
    }

    fn elementwise(self) -> Checked {
        let ty = self.operand_type(0)?;
        for i in 1..self.operands().len() {
            self.same_type("an operand", ty, self.operand_type(i)?)?;
        }
        self.same_type("the result", ty, self.result_type()?)?;
        match self.wants_floats() {
            Some(true) => self.type_must(self.is_float(ty), "an operand", "of floats", ty),
            Some(false) => self.type_must(self.is_integer(ty), "an operand", "of integers", ty),
            None => Ok(()),
        }
    }

    fn compare(self) -> Checked {
        let ints = self.name() == "arith.cmpi";
        let limit = if ints { CMPI.len() } else { CMPF.len() } as i64;
        let (m, op) = (self.m, self.op);
        let predicate = m.integer_attribute_of(op, "predicate", 64, Signedness::Signless);
        if !predicate.is_some_and(|number| (0..limit).contains(&number)) {
            return Err(self.bad("predicate", "a known predicate, an i64"));
        }
        let ty = self.operand_type(0)?;
        self.same_type("an operand", ty, self.operand_type(1)?)?;
        if ints {
            self.type_must(self.is_integer(ty), "an operand", "of integers", ty)?;
        } else {
            self.type_must(self.is_float(ty), "an operand", "of floats", ty)?;
        }
        self.bits_of_shape("the result", self.result_type()?, ty)
    }

    /// That `bits` is `i1` in the shape of `of`.
    fn bits_of_shape(self, what: &'static str, bits: Type, of: Type) -> Checked {
        let fits =
            self.shape_of(bits) == self.shape_of(of) && self.is_int(self.element_of(bits), 1);
        self.type_must(fits, what, "i1 in the shape of the operands", bits)
    }

    fn select(self) -> Checked {
        let (condition, ty) = (self.operand_type(0)?, self.operand_type(1)?);
        self.same_type("an operand", ty, self.operand_type(2)?)?;
        self.same_type("the result", ty, self.result_type()?)?;
        if self.is_int(condition, 1) {
            return Ok(());
        }
        self.bits_of_shape("the condition", condition, ty)
    }

    fn cast(self) -> Checked {
        let (from, to) = (self.operand_type(0)?, self.result_type()?);
        if self.shape_of(from) != self.shape_of(to) {
            return Err(self.wrong_type("the result", "of the shape of the operand", to));
        }
        let widths = (self.bits(from), self.bits(to));
        let (a, b) = (self.element_of(from), self.element_of(to));
        let index = |t| *self.m.type_kind(t) == crate::mosaic::TypeKind::Index;
        let ints = self.is_integer(a) && self.is_integer(b) && !index(a) && !index(b);
        let floats = self.is_float(a) && self.is_float(b);
        let (fits, expected) = match self.name() {
            "arith.extf" => (floats && widths.0 < widths.1, "a wider float"),
            "arith.truncf" => (floats && widths.0 > widths.1, "a narrower float"),
            "arith.extsi" | "arith.extui" => (ints && widths.0 < widths.1, "a wider integer"),
            "arith.trunci" => (ints && widths.0 > widths.1, "a narrower integer"),
            "arith.sitofp" | "arith.uitofp" => (
                self.is_integer(a) && !index(a) && self.is_float(b),
                "a float from an integer",
            ),
            "arith.fptosi" | "arith.fptoui" => (
                self.is_float(a) && self.is_integer(b) && !index(b),
                "an integer from a float",
            ),
            "arith.index_cast" | "arith.index_castui" => (
                index(a) != index(b) && self.is_integer(a) && self.is_integer(b),
                "an index from an integer, or the reverse",
            ),
            "arith.bitcast" => (
                widths.0.is_some() && widths.0 == widths.1,
                "of the same width",
            ),
            _ => return Ok(()),
        };
        if fits {
            Ok(())
        } else {
            Err(self.mismatch(expected, from, to))
        }
    }

    fn mismatch(self, expected: &str, from: Type, to: Type) -> Problem {
        let expected = format!("{expected} ({})", self.m.type_text(from));
        self.wrong_type("the result", &expected, to)
    }
}
