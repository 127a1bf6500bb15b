//! The custom forms of operations with regions: functions, conditionals, loops.

use super::lexer::Token;
use super::{Parser, Result};
use crate::mosaic::ir::{OpParts, Region, Type, Value};
use crate::mosaic::types::{AttributeKind, TypeKind};

impl Parser<'_> {
    /// `private @name(%arg0: i32) -> i32 attributes {...} {...}`
    pub(super) fn function(&mut self) -> Result<OpParts> {
        let mut parts = OpParts::default();
        for visibility in ["private", "public", "nested"] {
            if self.accept_word(visibility) {
                let value = self
                    .module
                    .attribute(AttributeKind::String(visibility.into()));
                parts.attributes.push(("sym_visibility".into(), value));
                break;
            }
        }
        let name = self.symbol()?;
        let name = self.module.attribute(AttributeKind::String(name));
        parts.attributes.push(("sym_name".into(), name));
        self.expect('(')?;
        let mut arguments = Vec::new();
        let inputs = self.list(')', |p| {
            if !matches!(p.token, Token::Value(_)) {
                return p.ty();
            }
            let argument = p.typed_argument()?;
            let ty = argument.2;
            arguments.push(argument);
            Ok(ty)
        })?;
        let results = if self.token == Token::Arrow {
            self.advance();
            self.result_types()?
        } else {
            Vec::new()
        };
        let count = inputs.len();
        let ty = self.module.ty(TypeKind::Function { inputs, results });
        let ty = self.module.attribute(AttributeKind::Type(ty));
        parts.attributes.push(("function_type".into(), ty));
        if self.accept_word("attributes") {
            let start = self.start;
            for (name, value) in self.dictionary()? {
                if parts.attributes.iter().any(|a| a.0 == name) {
                    return self.error_at(start, "each attribute once", format!("`{name}` again"));
                }
                parts.attributes.push((name, value));
            }
        }
        let region = if self.at('{') {
            if arguments.len() != count {
                return self.error("names for all arguments, or no body");
            }
            self.region(arguments, true)?
        } else {
            self.module.new_region()
        };
        parts.regions.push(region);
        Ok(parts)
    }

    /// Adds the `scf.yield` that the text leaves out.
    fn close(&mut self, region: Region) {
        let block = match self.module.blocks(region).last() {
            Some(&b) => b,
            None => self.module.new_block(region, &[]),
        };
        let closed = self
            .module
            .block_ops(block)
            .last()
            .is_some_and(|&o| self.module.op_name(o) == "scf.yield");
        if !closed {
            let op = self.module.new_op("scf.yield", OpParts::default());
            self.module.append(block, op);
        }
    }

    fn trailing_attributes(&mut self, parts: &mut OpParts) -> Result<()> {
        if self.at('{') {
            parts.attributes = self.dictionary()?;
        }
        Ok(())
    }

    /// `(T, U)` or one type after `->`, if there is one.
    fn arrow_types(&mut self) -> Result<Vec<Type>> {
        if self.token != Token::Arrow {
            return Ok(Vec::new());
        }
        self.advance();
        self.result_types()
    }

    pub(super) fn scf_if(&mut self) -> Result<OpParts> {
        let mut parts = OpParts {
            operands: vec![self.operand()?],
            ..OpParts::default()
        };
        parts.results = self.arrow_types()?;
        let then = self.region(Vec::new(), false)?;
        self.close(then);
        let otherwise = if self.accept_word("else") {
            let region = self.region(Vec::new(), false)?;
            self.close(region);
            region
        } else {
            self.module.new_region()
        };
        parts.regions = vec![then, otherwise];
        self.trailing_attributes(&mut parts)?;
        Ok(parts)
    }

    /// `%arg0 = %a, %arg1 = %b)`
    fn assignments(&mut self) -> Result<Vec<(usize, String, Value)>> {
        self.list(')', |p| {
            let start = p.start;
            let Token::Value(name) = p.token.clone() else {
                return p.error("an argument `%...`");
            };
            p.advance();
            p.expect('=')?;
            Ok((start, name, p.operand()?))
        })
    }

    pub(super) fn scf_for(&mut self) -> Result<OpParts> {
        let mut parts = OpParts::default();
        let start = self.start;
        let Token::Value(iv) = self.token.clone() else {
            return self.error("the loop variable");
        };
        self.advance();
        for (i, word) in ["=", "to", "step"].into_iter().enumerate() {
            if i == 0 {
                self.expect('=')?;
            } else {
                self.expect_word(word)?;
            }
            parts.operands.push(self.operand()?);
        }
        let mut carried = Vec::new();
        if self.accept_word("iter_args") {
            self.expect('(')?;
            carried = self.assignments()?;
            let at = self.start;
            parts.results = self.arrow_types()?;
            let inits: Vec<Value> = carried.iter().map(|c| c.2).collect();
            self.check_types(at, &inits, &parts.results)?;
            parts.operands.extend(inits);
        }
        let ty = if self.accept(':') {
            self.ty()?
        } else {
            self.module.ty(TypeKind::Index)
        };
        self.check_types(start, &parts.operands[..3], &[ty; 3])?;
        let mut arguments = vec![(start, iv, ty)];
        arguments.extend(
            carried
                .into_iter()
                .map(|(at, name, v)| (at, name, self.module.value_type(v))),
        );
        let body = self.region(arguments, false)?;
        self.close(body);
        parts.regions = vec![body];
        self.trailing_attributes(&mut parts)?;
        Ok(parts)
    }

    pub(super) fn scf_while(&mut self) -> Result<OpParts> {
        let mut parts = OpParts::default();
        let assigned = if self.accept('(') {
            self.assignments()?
        } else {
            Vec::new()
        };
        self.expect(':')?;
        let start = self.start;
        let ty = self.function_type()?;
        let TypeKind::Function { inputs, results } = self.module.type_kind(ty).clone() else {
            return self.error("a function type");
        };
        parts.operands = assigned.iter().map(|a| a.2).collect();
        self.check_types(start, &parts.operands, &inputs)?;
        parts.results = results;
        let arguments = assigned
            .into_iter()
            .zip(inputs)
            .map(|((at, name, _), ty)| (at, name, ty))
            .collect();
        let before = self.region(arguments, false)?;
        self.expect_word("do")?;
        let after = self.region(Vec::new(), false)?;
        self.close(after);
        parts.regions = vec![before, after];
        if self.accept_word("attributes") {
            parts.attributes = self.dictionary()?;
        }
        Ok(parts)
    }
}
