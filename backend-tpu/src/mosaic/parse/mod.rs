//! Text to modules.
//!
//! Reads every form that [`super::print`] writes and that MLIR prints for these dialects: the
//! generic form of any operation, the custom forms of the operations that kernels use, aliases
//! (`#map = ...`), and locations, which are skipped. Names of values obey MLIR's scoping. A value
//! must stand before its use in the text.
//!
//! An operation knows the line it was read from. An error says line, column, what was expected and
//! what was found; no input makes the parser panic, and nesting is limited.

mod affine;
mod attribute;
mod lexer;
mod op;
mod pattern;
mod structured;
mod ty;

use std::collections::HashMap;

use thiserror::Error;

use self::lexer::{Lexer, Token};
use super::ir::{Attribute, Block, Module, OpParts, Type, Value};
use super::types::AttributeKind;
use super::version;

/// Why a text is not a module.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}, column {column}: expected {expected}, found {found}")]
#[non_exhaustive]
pub struct ParseError {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// What could have stood there.
    pub expected: String,
    /// What stood there.
    pub found: String,
}

/// How deep regions, types, attributes and expressions may nest.
pub const DEPTH_LIMIT: usize = 64;

type Result<T> = std::result::Result<T, ParseError>;

impl Module {
    /// Reads a module in any of its forms.
    ///
    /// # Errors
    ///
    /// If the text is not a module of these dialects.
    pub fn parse(text: &str) -> Result<Self> {
        let mut parser = Parser::new(text);
        parser.file()?;
        Ok(parser.module)
    }
}

/// Names of values of one region, and whether names outside are visible.
#[derive(Default)]
struct Scope {
    values: HashMap<String, Vec<Value>>,
    blocks: HashMap<String, (Block, bool)>,
    isolated: bool,
}

struct Parser<'t> {
    lexer: Lexer<'t>,
    token: Token,
    start: usize,
    previous_end: usize,
    line: u32,
    line_position: usize,
    module: Module,
    scopes: Vec<Scope>,
    attribute_aliases: HashMap<String, Attribute>,
    type_aliases: HashMap<String, Type>,
    depth: usize,
}

impl<'t> Parser<'t> {
    fn new(text: &'t str) -> Self {
        let mut parser = Self {
            lexer: Lexer::new(text),
            token: Token::End,
            start: 0,
            previous_end: 0,
            line: 1,
            line_position: 0,
            module: Module::new(None),
            scopes: Vec::new(),
            attribute_aliases: HashMap::new(),
            type_aliases: HashMap::new(),
            depth: 0,
        };
        parser.advance();
        parser
    }

    // Tokens.

    fn advance(&mut self) -> Token {
        self.previous_end = self.lexer.position;
        self.lexer.skip_space();
        self.start = self.lexer.position;
        let next = self.lexer.token();
        std::mem::replace(&mut self.token, next)
    }

    /// The line of the current token; keeps count, since tokens only move forward.
    fn current_line(&mut self) -> u32 {
        let passed = &self.lexer.text.as_bytes()[self.line_position..self.start];
        self.line += passed.iter().filter(|&&b| b == b'\n').count() as u32;
        self.line_position = self.start;
        self.line
    }

    fn error_at<T>(&self, position: usize, expected: &str, found: String) -> Result<T> {
        let before = &self.lexer.text[..position];
        let line = before.matches('\n').count() as u32 + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() as u32 + 1;
        Err(ParseError {
            line,
            column,
            expected: expected.into(),
            found,
        })
    }

    fn error<T>(&self, expected: &str) -> Result<T> {
        self.error_at(self.start, expected, self.token.describe())
    }

    fn at(&self, mark: char) -> bool {
        self.token == Token::Mark(mark)
    }

    fn at_word(&self, word: &str) -> bool {
        matches!(&self.token, Token::Word(w) if w == word)
    }

    fn accept(&mut self, mark: char) -> bool {
        let found = self.at(mark);
        if found {
            self.advance();
        }
        found
    }

    fn accept_word(&mut self, word: &str) -> bool {
        let found = self.at_word(word);
        if found {
            self.advance();
        }
        found
    }

    fn expect(&mut self, mark: char) -> Result<()> {
        if self.accept(mark) {
            Ok(())
        } else {
            self.error(&format!("`{mark}`"))
        }
    }

    fn expect_word(&mut self, word: &str) -> Result<()> {
        if self.accept_word(word) {
            Ok(())
        } else {
            self.error(&format!("`{word}`"))
        }
    }

    fn expect_arrow(&mut self) -> Result<()> {
        if self.token != Token::Arrow {
            return self.error("`->`");
        }
        self.advance();
        Ok(())
    }

    fn word(&mut self, expected: &str) -> Result<String> {
        match &self.token {
            Token::Word(_) => match self.advance() {
                Token::Word(w) => Ok(w),
                _ => self.error(expected),
            },
            _ => self.error(expected),
        }
    }

    /// A number with an optional sign.
    fn integer(&mut self) -> Result<i64> {
        let at = self.start;
        let negative = self.accept('-');
        let Token::Integer(text) = &self.token else {
            return self.error("an integer");
        };
        let magnitude = match text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok().map(i128::from),
            None => text.parse::<i128>().ok(),
        };
        let value = magnitude.map(|v| if negative { -v } else { v });
        let fits = |v: i128| {
            i64::try_from(v)
                .or_else(|_| u64::try_from(v).map(|u| u as i64))
                .ok()
        };
        match value.and_then(fits) {
            Some(v) => {
                self.advance();
                Ok(v)
            }
            None => self.error_at(at, "an integer of 64 bits", self.token.describe()),
        }
    }

    /// One more level of nesting around `inner`.
    fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= DEPTH_LIMIT {
            let limit = format!("at most {DEPTH_LIMIT} levels of nesting");
            return self.error(&limit);
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    /// Items separated by commas up to a closing mark, which is consumed.
    fn list<T>(
        &mut self,
        close: char,
        mut item: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut items = Vec::new();
        if self.accept(close) {
            return Ok(items);
        }
        loop {
            items.push(item(self)?);
            if self.accept(close) {
                return Ok(items);
            }
            if !self.accept(',') {
                return self.error(&format!("`,` or `{close}`"));
            }
        }
    }

    /// The text from the current opening mark to the one that closes it, which is consumed;
    /// without both marks, runs of space made one. Strings are taken whole.
    fn balanced(&mut self) -> Result<String> {
        let (start, mut open) = (self.start, Vec::new());
        loop {
            match &self.token {
                Token::Mark(c @ ('<' | '(' | '[' | '{')) => open.push(match c {
                    '<' => '>',
                    '(' => ')',
                    '[' => ']',
                    _ => '}',
                }),
                Token::Mark(c @ ('>' | ')' | ']' | '}')) if open.pop() != Some(*c) => {
                    return self.error("balanced brackets");
                }
                Token::End => return self.error("a closing bracket"),
                Token::Broken(_) => return self.error("a token"),
                _ => {}
            }
            if open.is_empty() {
                break;
            }
            if open.len() > DEPTH_LIMIT {
                return self.error("less nesting");
            }
            self.advance();
        }
        let inner = &self.lexer.text[start + 1..self.start];
        let (mut text, mut quoted, mut escaped, mut space) = (String::new(), false, false, false);
        for c in inner.trim().chars() {
            if c.is_whitespace() && !quoted {
                space = true;
                continue;
            }
            if std::mem::take(&mut space) {
                text.push(' ');
            }
            text.push(c);
            quoted ^= c == '"' && !escaped;
            escaped = quoted && c == '\\' && !escaped;
        }
        self.advance();
        Ok(text)
    }

    // Names.

    fn lookup(&self, name: &str) -> Option<&Vec<Value>> {
        for scope in self.scopes.iter().rev() {
            if let Some(values) = scope.values.get(name) {
                return Some(values);
            }
            if scope.isolated {
                return None;
            }
        }
        None
    }

    fn define(&mut self, position: usize, name: String, values: Vec<Value>) -> Result<()> {
        if self.lookup(&name).is_some() {
            return self.error_at(position, "a new name", format!("`%{name}` again"));
        }
        if let Some(scope) = self.scopes.last_mut() {
            scope.values.insert(name, values);
        }
        Ok(())
    }

    /// `%name` or `%name#1`
    fn operand(&mut self) -> Result<Value> {
        let start = self.start;
        let Token::Value(name) = &self.token else {
            return self.error("a value `%...`");
        };
        let name = name.clone();
        self.advance();
        let Some(values) = self.lookup(&name).cloned() else {
            return self.error_at(start, "a value defined before", format!("`%{name}`"));
        };
        let mut number = None;
        if let Token::Hash(text) = &self.token
            && let Ok(n) = text.parse::<usize>()
        {
            number = Some(n);
            self.advance();
        }
        match values.get(number.unwrap_or(0)) {
            Some(&v) => Ok(v),
            None => {
                let expected = format!("one of the {} results of `%{name}`", values.len());
                self.error_at(start, &expected, format!("number {}", number.unwrap_or(0)))
            }
        }
    }

    fn operands(&mut self) -> Result<Vec<Value>> {
        let mut values = Vec::new();
        while matches!(self.token, Token::Value(_)) {
            values.push(self.operand()?);
            if !self.accept(',') {
                break;
            }
        }
        Ok(values)
    }

    // The file.

    fn aliases(&mut self) -> Result<()> {
        loop {
            match self.token.clone() {
                Token::Hash(name) => {
                    self.advance();
                    self.expect('=')?;
                    let value = self.attribute()?;
                    self.attribute_aliases.insert(name, value);
                }
                Token::Bang(name) => {
                    self.advance();
                    self.expect('=')?;
                    let value = self.ty()?;
                    self.type_aliases.insert(name, value);
                }
                _ => return Ok(()),
            }
        }
    }

    fn file(&mut self) -> Result<()> {
        self.aliases()?;
        let body = self.module.body();
        self.scopes.push(Scope {
            isolated: true,
            ..Scope::default()
        });
        let is_module = self.at_word("module")
            || self.at_word("builtin.module")
            || self.token == Token::Text(b"builtin.module".to_vec());
        if is_module {
            self.module_op()?;
            self.aliases()?;
        } else {
            while self.token != Token::End {
                self.op(body)?;
                self.aliases()?;
            }
        }
        if self.token != Token::End {
            return self.error("the end of the text");
        }
        let root = self.module.root();
        if let Some(attribute) = self.module.remove_attribute(root, "stable_mosaic.version") {
            let kind = self.module.attribute_kind(attribute);
            let written = match kind {
                AttributeKind::Integer { value, .. } => u32::try_from(*value).unwrap_or(u32::MAX),
                _ => u32::MAX,
            };
            if let Err(e) = version::upgrade(&mut self.module, written) {
                return self.error_at(0, "a supported version", e.to_string());
            }
        }
        Ok(())
    }

    /// The outermost module, in its own or the generic form.
    fn module_op(&mut self) -> Result<()> {
        let (root, body) = (self.module.root(), self.module.body());
        let generic = matches!(self.token, Token::Text(_));
        self.advance();
        let mut parts = OpParts::default();
        if generic {
            self.expect('(')?;
            self.expect(')')?;
            if self.accept('<') {
                parts.attributes = self.dictionary()?;
                self.expect('>')?;
            }
            self.expect('(')?;
        } else {
            if let Token::Symbol(name) = self.token.clone() {
                self.advance();
                let name = self.module.attribute(AttributeKind::String(name));
                parts.attributes.push(("sym_name".into(), name));
            }
            if self.accept_word("attributes") {
                parts.attributes.extend(self.dictionary()?);
            }
        }
        self.expect('{')?;
        while !self.accept('}') {
            self.op(body)?;
        }
        if generic {
            self.expect(')')?;
            if self.at('{') {
                parts.attributes.extend(self.dictionary()?);
            }
            self.expect(':')?;
            self.expect('(')?;
            self.expect(')')?;
            self.expect_arrow()?;
            self.expect('(')?;
            self.expect(')')?;
        }
        self.location()?;
        for (name, value) in parts.attributes {
            self.module.set_attribute(root, &name, value);
        }
        Ok(())
    }

    /// `loc(...)`, if there is one.
    fn location(&mut self) -> Result<()> {
        if self.accept_word("loc") {
            if !self.at('(') {
                return self.error("`(`");
            }
            self.balanced()?;
        }
        Ok(())
    }
}
