//! Attributes.

use super::lexer::Token;
use super::{Parser, Result};
use crate::mosaic::FloatKind;
use crate::mosaic::ir::{Attribute, AttributeName, Type};
use crate::mosaic::types::{AttributeKind, DYNAMIC, Signedness, TypeKind};

impl Parser<'_> {
    pub(super) fn attribute(&mut self) -> Result<Attribute> {
        self.nested(Self::attribute_inner)
    }

    fn make(&mut self, kind: AttributeKind) -> Attribute {
        self.module.attribute(kind)
    }

    fn attribute_inner(&mut self) -> Result<Attribute> {
        let kind = match self.token.clone() {
            Token::Mark('[') => {
                self.advance();
                AttributeKind::Array(self.list(']', Self::attribute)?)
            }
            Token::Mark('{') => AttributeKind::Dictionary(sorted(self.dictionary()?)),
            Token::Mark('-') | Token::Integer(_) | Token::Float(_) => return self.number(),
            Token::Text(bytes) => {
                self.advance();
                AttributeKind::String(String::from_utf8_lossy(&bytes).into_owned())
            }
            Token::Symbol(_) => AttributeKind::Symbol(self.symbol()?),
            Token::Hash(name) => return self.hash(name),
            Token::Word(word) => match word.as_str() {
                "true" | "false" => {
                    self.advance();
                    AttributeKind::Bool(word == "true")
                }
                "unit" => {
                    self.advance();
                    AttributeKind::Unit
                }
                "dense" => return self.dense(),
                "array" => return self.dense_array(),
                "affine_map" => {
                    self.advance();
                    self.expect('<')?;
                    let map = self.affine_map()?;
                    self.expect('>')?;
                    AttributeKind::AffineMap(map)
                }
                "loc" => {
                    self.location()?;
                    AttributeKind::Opaque("loc(unknown)".into())
                }
                "strided" | "affine_set" | "dense_resource" | "opaque" | "sparse" => {
                    self.advance();
                    if !self.at('<') {
                        return self.error("`<`");
                    }
                    let mut text = format!("{word}<{}>", self.balanced()?);
                    if matches!(word.as_str(), "dense_resource" | "sparse" | "opaque")
                        && self.accept(':')
                    {
                        let ty = self.ty()?;
                        text = format!("{text} : {}", self.module.type_text(ty));
                    }
                    AttributeKind::Opaque(text)
                }
                _ if self.at_type() => AttributeKind::Type(self.ty()?),
                _ => return self.error("an attribute"),
            },
            _ if self.at_type() => AttributeKind::Type(self.ty()?),
            _ => return self.error("an attribute"),
        };
        Ok(self.make(kind))
    }

    /// `#alias`, `#dialect.name`, `#dialect.name<...>`
    fn hash(&mut self, name: String) -> Result<Attribute> {
        self.advance();
        if let Some(&a) = self.attribute_aliases.get(&name) {
            return Ok(a);
        }
        let body = if self.at('<') {
            Some(self.balanced()?)
        } else {
            None
        };
        if body.is_none() && !name.contains('.') {
            return self.error_at(
                self.previous_end,
                "an attribute defined before",
                format!("`#{name}`"),
            );
        }
        Ok(self.make(AttributeKind::Dialect { name, body }))
    }

    /// `@a::@b`
    pub(super) fn symbol(&mut self) -> Result<String> {
        let mut path = Vec::new();
        loop {
            let Token::Symbol(name) = &self.token else {
                return self.error("a symbol `@...`");
            };
            path.push(name.clone());
            self.advance();
            if !self.at(':') || !self.lexer.text[self.start..].starts_with("::") {
                return Ok(path.join("::"));
            }
            self.advance();
            self.advance();
        }
    }

    /// `{a = 1, b}`; a name may stand once.
    pub(super) fn dictionary(&mut self) -> Result<Vec<(AttributeName, Attribute)>> {
        self.expect('{')?;
        let mut seen = std::collections::HashSet::new();
        self.list('}', |p| {
            let start = p.start;
            let name = match p.token.clone() {
                Token::Word(w) => w,
                Token::Text(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                _ => return p.error("the name of an attribute"),
            };
            p.advance();
            if !seen.insert(name.clone()) {
                return p.error_at(start, "a new name", format!("`{name}` again"));
            }
            let value = if p.accept('=') {
                p.attribute()?
            } else {
                p.make(AttributeKind::Unit)
            };
            Ok((name.into(), value))
        })
    }

    /// A number with its type; `i64` or `f64` if none is given.
    fn number(&mut self) -> Result<Attribute> {
        let start = self.start;
        let negative = self.accept('-');
        let token = self.token.clone();
        match token {
            Token::Float(text) => {
                self.advance();
                let ty = if self.accept(':') {
                    self.ty()?
                } else {
                    self.module.ty(TypeKind::Float(FloatKind::F64))
                };
                let TypeKind::Float(kind) = *self.module.type_kind(ty) else {
                    return self.error_at(start, "a float type", self.module.type_text(ty));
                };
                let text = if negative { format!("-{text}") } else { text };
                match kind.parse(&text) {
                    Some(bits) => Ok(self.make(AttributeKind::Float { bits, ty })),
                    None => self.error_at(start, "a number", text),
                }
            }
            Token::Integer(text) => {
                let value = self.integer()?;
                let value = if negative {
                    value.wrapping_neg()
                } else {
                    value
                };
                let ty = if self.accept(':') {
                    self.ty()?
                } else {
                    self.module.ty(TypeKind::Integer {
                        width: 64,
                        sign: Signedness::Signless,
                    })
                };
                match *self.module.type_kind(ty) {
                    TypeKind::Float(kind) => {
                        let fits = kind.bits() == 64 || (value as u64) >> kind.bits() == 0;
                        if negative || !text.starts_with("0x") || !fits {
                            return self.error_at(
                                start,
                                "a float, or its bits in hexadecimal",
                                text,
                            );
                        }
                        Ok(self.make(AttributeKind::Float {
                            bits: value as u64,
                            ty,
                        }))
                    }
                    TypeKind::Integer { width: 1, .. } => {
                        Ok(self.make(AttributeKind::Bool(value != 0)))
                    }
                    TypeKind::Integer { .. } | TypeKind::Index => {
                        Ok(self.make(AttributeKind::Integer { value, ty }))
                    }
                    _ => self.error_at(start, "a type of numbers", self.module.type_text(ty)),
                }
            }
            _ => self.error("a number"),
        }
    }

    /// The bits of one number, `true` or `false`, of a type.
    fn scalar(&mut self, ty: Type) -> Result<u64> {
        let kind = self.module.type_kind(ty).clone();
        if let TypeKind::Float(kind) = kind {
            let start = self.start;
            let negative = self.accept('-');
            let token = self.token.clone();
            let bits = match &token {
                Token::Float(text) => {
                    let text = if negative {
                        format!("-{text}")
                    } else {
                        text.clone()
                    };
                    kind.parse(&text)
                }
                Token::Integer(text) if !negative => text
                    .strip_prefix("0x")
                    .and_then(|hex| u64::from_str_radix(hex, 16).ok())
                    .filter(|b| kind.bits() == 64 || b >> kind.bits() == 0),
                _ => None,
            };
            let Some(bits) = bits else {
                return self.error_at(
                    start,
                    "a float, or its bits in hexadecimal",
                    token.describe(),
                );
            };
            self.advance();
            return Ok(bits);
        }
        if self.at_word("true") || self.at_word("false") {
            let value = self.at_word("true");
            self.advance();
            return Ok(u64::from(value));
        }
        Ok(self.integer()? as u64)
    }

    /// `array<i64: 1, 2>`
    fn dense_array(&mut self) -> Result<Attribute> {
        self.advance();
        self.expect('<')?;
        let element = self.ty()?;
        if !matches!(
            self.module.type_kind(element),
            TypeKind::Integer { .. } | TypeKind::Float(_)
        ) {
            return self.error("an integer or float type");
        }
        let values = if self.accept(':') {
            self.list('>', |p| p.scalar(element).map(|v| v as i64))?
        } else {
            self.expect('>')?;
            Vec::new()
        };
        Ok(self.make(AttributeKind::DenseArray { element, values }))
    }

    /// `dense<0.0> : vector<8xf32>`. The type stands last, so it is read first.
    fn dense(&mut self) -> Result<Attribute> {
        self.advance();
        if !self.at('<') {
            return self.error("`<`");
        }
        let body = (self.start, self.lexer.position);
        self.balanced()?;
        self.expect(':')?;
        let ty = self.ty()?;
        let after = (self.start, self.previous_end);
        let kind = self.module.type_kind(ty).clone();
        let Some(element) = kind.element() else {
            let text = self.lexer.text[body.0..after.1].trim();
            let kind = AttributeKind::Opaque(format!("dense{text}"));
            return Ok(self.make(kind));
        };
        let shape = kind.shape().unwrap_or(&[]).to_vec();
        let count = shape
            .iter()
            .try_fold(1_i64, |a, &n| a.checked_mul(n).filter(|&p| p >= 0));
        let count = match count.and_then(|n| usize::try_from(n).ok()) {
            Some(n) if !shape.contains(&DYNAMIC) => n,
            _ => return self.error_at(body.0, "a fixed shape", self.module.type_text(ty)),
        };
        self.lexer.position = body.1;
        self.advance();
        let mut values = Vec::new();
        if let Token::Text(bytes) = self.token.clone() {
            let width = match self.module.type_kind(element) {
                TypeKind::Float(k) => k.bits() as usize / 8,
                TypeKind::Integer { width, .. } => *width as usize / 8,
                _ => 8,
            };
            values = match raw_bytes(&bytes, width) {
                Some(values) => values,
                None => return self.error("bytes in hexadecimal"),
            };
            self.advance();
        } else if !self.at('>') {
            self.elements(element, &mut values)?;
        }
        self.expect('>')?;
        if values.len() != count && !(values.len() == 1 && count > 0) {
            let found = format!("{} values", values.len());
            return self.error_at(body.0, &format!("{count} values or one for all"), found);
        }
        if values.windows(2).all(|w| w[0] == w[1]) {
            values.truncate(1);
        }
        self.lexer.position = after.0;
        self.advance();
        self.previous_end = after.1;
        Ok(self.make(AttributeKind::DenseElements { ty, values }))
    }

    fn elements(&mut self, element: Type, values: &mut Vec<u64>) -> Result<()> {
        if !self.accept('[') {
            values.push(self.scalar(element)?);
            return Ok(());
        }
        self.nested(|p| p.list(']', |p| p.elements(element, values)).map(|_| ()))
    }
}

pub(super) fn sorted(mut list: Vec<(AttributeName, Attribute)>) -> Vec<(AttributeName, Attribute)> {
    list.sort_by(|a, b| a.0.cmp(&b.0));
    list
}

/// `0x` and little-endian bytes.
fn raw_bytes(text: &[u8], width: usize) -> Option<Vec<u64>> {
    let hex = std::str::from_utf8(text).ok()?.strip_prefix("0x")?;
    let digits: Option<Vec<u64>> = hex.chars().map(|c| c.to_digit(16).map(u64::from)).collect();
    let bytes: Vec<u64> = digits?
        .chunks(2)
        .map(|d| d.iter().fold(0, |a, x| a * 16 + x))
        .collect();
    if width == 0 || !bytes.len().is_multiple_of(width) {
        return None;
    }
    Some(
        bytes
            .chunks(width)
            .map(|c| c.iter().rev().fold(0_u64, |a, b| a << 8 | b))
            .collect(),
    )
}
