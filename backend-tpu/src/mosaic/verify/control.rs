//! Modules, functions, loops, conditionals.

use std::collections::HashSet;

use super::{Check, Checked, Problem};
use crate::mosaic::ir::{Block, Op, Region, Type, Value};
use crate::mosaic::types::{AttributeKind, TypeKind};

impl<'m> Check<'m> {
    pub(super) fn control(self) -> Checked {
        match self.name() {
            "builtin.module" => self.module(),
            "func.func" => self.function().and_then(|()| self.kernel()),
            "func.return" => self.returns(),
            "scf.if" => self.scf_if(),
            "scf.for" => self.scf_for(),
            "scf.while" => self.scf_while(),
            "scf.yield" => self.parent(&["scf.if", "scf.for", "scf.while"]),
            "scf.condition" => self.parent(&["scf.while"]),
            _ => Ok(()),
        }
    }

    fn module(self) -> Checked {
        let mut names = HashSet::new();
        for f in self.m.functions() {
            let name = self.m.string_attribute(f, "sym_name");
            self.rule(names.insert(name), "two functions have the same name")?;
        }
        Ok(())
    }

    /// The operation around this one.
    fn around(self) -> Option<Op> {
        self.m
            .region_op(self.m.block_region(self.m.op_block(self.op)?))
    }

    fn parent(self, allowed: &[&str]) -> Checked {
        let fits = self
            .around()
            .is_some_and(|o| allowed.contains(&self.m.op_name(o)));
        self.rule(fits, "stands in the wrong kind of region")
    }

    fn types_match(self, what: &'static str, expected: &[Type], found: &[Value]) -> Checked {
        self.count(what, expected.len() as i64, found.len() as i64)?;
        for (&t, &v) in expected.iter().zip(found) {
            self.same_type(what, t, self.m.value_type(v))?;
        }
        Ok(())
    }

    fn types(self, values: &[Value]) -> Vec<Type> {
        values.iter().map(|&v| self.m.value_type(v)).collect()
    }

    pub(super) fn function_type(self) -> Result<(&'m [Type], &'m [Type]), Problem> {
        if let AttributeKind::Type(ty) = self.attribute_kind("function_type")?
            && let TypeKind::Function { inputs, results } = self.m.type_kind(*ty)
        {
            return Ok((inputs, results));
        }
        Err(self.bad("function_type", "a function type"))
    }

    fn function(self) -> Checked {
        self.m
            .string_attribute(self.op, "sym_name")
            .ok_or_else(|| self.bad("sym_name", "a string"))?;
        let (inputs, _) = self.function_type()?;
        self.count(
            "the number of regions",
            1,
            self.m.regions(self.op).len() as i64,
        )?;
        match self.m.entry(self.op, 0) {
            Some(entry) => self.types_match("an argument", inputs, self.m.arguments(entry)),
            None => Ok(()),
        }
    }

    fn returns(self) -> Checked {
        self.parent(&["func.func"])?;
        match self.around() {
            Some(op) => {
                let (_, results) = Check { m: self.m, op }.function_type()?;
                self.types_match("a returned value", results, self.operands())
            }
            None => Ok(()),
        }
    }

    /// The only block of a region.
    fn single_block(self, region: Region) -> Result<Block, Problem> {
        match *self.m.blocks(region) {
            [block] => Ok(block),
            _ => Err(Problem::Rule("a region must have one block")),
        }
    }

    /// What the last operation of a block hands on, if it is of that name.
    fn last(self, block: Block, name: &str) -> Result<&'m [Value], Problem> {
        match self.m.block_ops(block).last() {
            Some(&o) if self.m.op_name(o) == name => Ok(self.m.operands(o)),
            _ => Err(Problem::Rule("a region ends in the wrong operation")),
        }
    }

    fn regions<const N: usize>(self) -> Result<[Region; N], Problem> {
        let found = self.m.regions(self.op);
        <[Region; N]>::try_from(found).map_err(|_| Problem::Count {
            what: "the number of regions",
            expected: N as i64,
            found: found.len() as i64,
        })
    }

    fn scf_if(self) -> Checked {
        self.count("the number of operands", 1, self.operands().len() as i64)?;
        let condition = self.operand_type(0)?;
        self.type_must(self.is_int(condition, 1), "the condition", "i1", condition)?;
        let results = self.types(self.results());
        let [then, otherwise] = self.regions()?;
        let empty = self.m.blocks(otherwise).is_empty();
        self.rule(
            !empty || results.is_empty(),
            "has results but no else branch",
        )?;
        for region in [then, otherwise] {
            if region == otherwise && empty {
                continue;
            }
            let block = self.single_block(region)?;
            self.types_match("an argument of a branch", &[], self.m.arguments(block))?;
            self.types_match("a yielded value", &results, self.last(block, "scf.yield")?)?;
        }
        Ok(())
    }

    fn scf_for(self) -> Checked {
        let [lower, upper, step, ref inits @ ..] = *self.operands() else {
            return Err(Problem::Operands {
                operands: self.operands().len(),
            });
        };
        let ty = self.m.value_type(lower);
        self.type_must(self.is_integer(ty), "a bound", "an integer", ty)?;
        self.same_type("a bound", ty, self.m.value_type(upper))?;
        self.same_type("the step", ty, self.m.value_type(step))?;
        let carried = self.types(inits);
        self.types_match("a result", &carried, self.results())?;
        let [body] = self.regions()?;
        let block = self.single_block(body)?;
        let mut arguments = vec![ty];
        arguments.extend(&carried);
        self.types_match(
            "an argument of the body",
            &arguments,
            self.m.arguments(block),
        )?;
        self.types_match("a yielded value", &carried, self.last(block, "scf.yield")?)
    }

    fn scf_while(self) -> Checked {
        let inits = self.types(self.operands());
        let results = self.types(self.results());
        let [before, after] = self.regions()?;
        let (before, after) = (self.single_block(before)?, self.single_block(after)?);
        self.types_match(
            "an argument of the condition",
            &inits,
            self.m.arguments(before),
        )?;
        let Some((&condition, handed)) = self.last(before, "scf.condition")?.split_first() else {
            return Err(Problem::Rule("the condition decides nothing"));
        };
        let ty = self.m.value_type(condition);
        self.type_must(self.is_int(ty, 1), "the condition", "i1", ty)?;
        self.types_match("a value handed to the body", &results, handed)?;
        self.types_match("an argument of the body", &results, self.m.arguments(after))?;
        self.types_match("a yielded value", &inits, self.last(after, "scf.yield")?)
    }
}
