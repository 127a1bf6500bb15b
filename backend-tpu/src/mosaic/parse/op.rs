//! Operations: their results, the generic form, regions and blocks.

use super::lexer::Token;
use super::{Parser, Result, Scope};
use crate::mosaic::ir::{Block, Op, OpParts, Region, Type, Value};
use crate::mosaic::syntax;

/// Names and positions of results: `%a, %b:2 =`.
type ResultNames = Vec<(usize, String, usize)>;

impl Parser<'_> {
    /// One operation, put at the end of `block`.
    pub(super) fn op(&mut self, block: Block) -> Result<Op> {
        let line = self.current_line();
        let mut names: ResultNames = Vec::new();
        while let Token::Value(name) = self.token.clone() {
            let start = self.start;
            self.advance();
            let count = if self.accept(':') { self.integer()? } else { 1 };
            if !(1..=4096).contains(&count) {
                return self.error_at(start, "1 to 4096 results", count.to_string());
            }
            names.push((start, name, count as usize));
            if !self.accept(',') {
                self.expect('=')?;
                break;
            }
        }
        let total = names.iter().map(|n| n.2).sum();
        let start = self.start;
        let (name, mut parts) = match self.token.clone() {
            Token::Text(bytes) => {
                self.advance();
                let name = String::from_utf8_lossy(&bytes).into_owned();
                let name = name
                    .strip_prefix("stable_mosaic.")
                    .unwrap_or(&name)
                    .to_owned();
                let parts = self.generic(&name)?;
                (name, parts)
            }
            Token::Word(word) => {
                self.advance();
                let name = if word.contains('.') {
                    word
                } else {
                    format!("func.{word}")
                };
                let parts = self.custom(&name, start, total)?;
                (name, parts)
            }
            _ => return self.error("an operation"),
        };
        self.location()?;
        if parts.results.len() != total && !(names.is_empty() && total == 0) {
            let found = format!("names for {total}");
            return self.error_at(start, &format!("{} results", parts.results.len()), found);
        }
        parts.line = line;
        let op = self.module.new_op(&name, parts);
        self.module.append(block, op);
        let mut results = self.module.results(op).to_vec().into_iter();
        for (start, name, count) in names {
            let values: Vec<Value> = results.by_ref().take(count).collect();
            self.define(start, name, values)?;
        }
        Ok(op)
    }

    /// What follows the quoted name.
    fn generic(&mut self, name: &str) -> Result<OpParts> {
        let mut parts = OpParts::default();
        self.expect('(')?;
        let start = self.start;
        parts.operands = self.list(')', Self::operand)?;
        if self.accept('[') {
            parts.successors = self.list(']', Self::successor)?;
        }
        if self.accept('<') {
            parts.attributes = self.dictionary()?;
            self.expect('>')?;
        }
        if self.accept('(') {
            let isolated = name == "func.func" || name == "builtin.module";
            parts.regions = self.list(')', |p| p.region(Vec::new(), isolated))?;
        }
        if self.at('{') {
            let at = self.start;
            for (name, value) in self.dictionary()? {
                if parts.attributes.iter().any(|a| a.0 == name) {
                    return self.error_at(at, "each attribute once", format!("`{name}` again"));
                }
                parts.attributes.push((name, value));
            }
        }
        self.expect(':')?;
        self.expect('(')?;
        let types = self.list(')', Self::ty)?;
        self.check_types(start, &parts.operands, &types)?;
        self.expect_arrow()?;
        parts.results = self.result_types()?;
        let name = self.module.name(name);
        syntax::add_defaults(&mut self.module, name, &mut parts);
        Ok(parts)
    }

    /// That the types written for operands are theirs.
    pub(super) fn check_types(&self, start: usize, values: &[Value], types: &[Type]) -> Result<()> {
        if values.len() != types.len() {
            let expected = format!("types of {} operands", values.len());
            return self.error_at(start, &expected, format!("{} types", types.len()));
        }
        for (&v, &t) in values.iter().zip(types) {
            let actual = self.module.value_type(v);
            if actual != t {
                let expected = format!("an operand of type {}", self.module.type_text(t));
                return self.error_at(start, &expected, self.module.type_text(actual));
            }
        }
        Ok(())
    }

    fn successor(&mut self) -> Result<Block> {
        let Token::Block(name) = self.token.clone() else {
            return self.error("a block `^...`");
        };
        self.advance();
        self.block_named(name, false)
    }

    /// The block of that name in the current region, made on first mention.
    fn block_named(&mut self, name: String, defines: bool) -> Result<Block> {
        let Some(scope) = self.scopes.last_mut() else {
            return self.error("a region");
        };
        if let Some((block, defined)) = scope.blocks.get_mut(&name) {
            let block = *block;
            if std::mem::replace(defined, *defined || defines) && defines {
                return self.error_at(self.previous_end, "a new block", format!("`^{name}` again"));
            }
            return Ok(block);
        }
        let Some(&(entry, _)) = scope.blocks.get("") else {
            return self.error("a region");
        };
        let region = self.module.block_region(entry);
        let block = self.module.new_block(region, &[]);
        if let Some(scope) = self.scopes.last_mut() {
            scope.blocks.insert(name, (block, defines));
        }
        Ok(block)
    }

    /// `{ operations and blocks }`. `arguments` are those of the entry block, named elsewhere.
    pub(super) fn region(
        &mut self,
        arguments: Vec<(usize, String, Type)>,
        isolated: bool,
    ) -> Result<Region> {
        let region = self.module.new_region();
        self.expect('{')?;
        if arguments.is_empty() && self.accept('}') {
            return Ok(region);
        }
        self.scopes.push(Scope {
            isolated,
            ..Scope::default()
        });
        let result = self.nested(|p| p.blocks(region, arguments));
        self.scopes.pop();
        result.map(|()| region)
    }

    fn blocks(&mut self, region: Region, arguments: Vec<(usize, String, Type)>) -> Result<()> {
        let mut block = self.module.new_block(region, &[]);
        if let Some(scope) = self.scopes.last_mut() {
            scope.blocks.insert(String::new(), (block, true));
        }
        let mut fresh = arguments.is_empty();
        for (start, name, ty) in arguments {
            let value = self.module.new_argument(block, ty);
            self.define(start, name, vec![value])?;
        }
        while !self.accept('}') {
            let Token::Block(name) = self.token.clone() else {
                self.op(block)?;
                fresh = false;
                continue;
            };
            self.advance();
            if std::mem::take(&mut fresh) {
                // The label of the entry block itself.
                if let Some(scope) = self.scopes.last_mut() {
                    scope.blocks.insert(name, (block, true));
                }
            } else {
                block = self.block_named(name, true)?;
                self.module.move_block_last(block);
            }
            if self.accept('(') {
                for (start, name, ty) in self.list(')', Self::typed_argument)? {
                    let value = self.module.new_argument(block, ty);
                    self.define(start, name, vec![value])?;
                }
            }
            self.expect(':')?;
        }
        let missing = self.scopes.last().and_then(|s| {
            s.blocks
                .iter()
                .filter(|b| !b.1.1)
                .map(|b| b.0.clone())
                .min()
        });
        match missing {
            Some(name) => self.error_at(
                self.previous_end,
                "every block to be defined",
                format!("`^{name}`"),
            ),
            None => Ok(()),
        }
    }

    /// `%name: type`
    pub(super) fn typed_argument(&mut self) -> Result<(usize, String, Type)> {
        let start = self.start;
        let Token::Value(name) = self.token.clone() else {
            return self.error("an argument `%...`");
        };
        self.advance();
        self.expect(':')?;
        let ty = self.ty()?;
        self.location()?;
        Ok((start, name, ty))
    }
}
