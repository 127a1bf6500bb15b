//! Types.

use super::lexer::Token;
use super::{Parser, Result};
use crate::mosaic::FloatKind;
use crate::mosaic::ir::Type;
use crate::mosaic::types::{DYNAMIC, Signedness, TypeKind};

/// Widths of integer types beyond this are not types of the dialect.
const INTEGER_BITS: std::ops::RangeInclusive<u32> = 1..=64;

impl Parser<'_> {
    pub(super) fn ty(&mut self) -> Result<Type> {
        self.nested(Self::ty_inner)
    }

    /// Whether a type can start here.
    pub(super) fn at_type(&self) -> bool {
        match &self.token {
            Token::Bang(_) | Token::Mark('(') => true,
            Token::Word(w) => {
                matches!(
                    w.as_str(),
                    "index" | "vector" | "memref" | "tensor" | "none" | "complex" | "tuple"
                ) || FloatKind::from_name(w).is_some()
                    || integer(w).is_some()
            }
            _ => false,
        }
    }

    fn ty_inner(&mut self) -> Result<Type> {
        let kind = match self.token.clone() {
            Token::Mark('(') => return self.function_type(),
            Token::Bang(name) => {
                self.advance();
                if let Some(&t) = self.type_aliases.get(&name) {
                    return Ok(t);
                }
                match name.as_str() {
                    "tpu.semaphore" => TypeKind::Semaphore,
                    "tpu.dma_semaphore" => TypeKind::DmaSemaphore,
                    _ if self.at('<') => TypeKind::Opaque(format!("!{name}<{}>", self.balanced()?)),
                    _ => TypeKind::Opaque(format!("!{name}")),
                }
            }
            Token::Word(word) => {
                let shaped = matches!(word.as_str(), "vector" | "memref");
                if shaped {
                    return self.shaped(&word);
                }
                if let Some(kind) = FloatKind::from_name(&word) {
                    self.advance();
                    TypeKind::Float(kind)
                } else if let Some((width, sign)) = integer(&word) {
                    if !INTEGER_BITS.contains(&width) {
                        return self.error("an integer type of 1 to 64 bits");
                    }
                    self.advance();
                    TypeKind::Integer { width, sign }
                } else {
                    match word.as_str() {
                        "index" => {
                            self.advance();
                            TypeKind::Index
                        }
                        "none" => {
                            self.advance();
                            TypeKind::Opaque(word)
                        }
                        "tensor" | "complex" | "tuple" => {
                            self.advance();
                            if !self.at('<') {
                                return self.error("`<`");
                            }
                            TypeKind::Opaque(format!("{word}<{}>", self.balanced()?))
                        }
                        _ => return self.error("a type"),
                    }
                }
            }
            _ => return self.error("a type"),
        };
        Ok(self.module.ty(kind))
    }

    /// `vector<...>` or `memref<...>`
    fn shaped(&mut self, word: &str) -> Result<Type> {
        self.advance();
        if !self.at('<') {
            return self.error("`<`");
        }
        let shape = self.shape(word == "memref")?;
        let element = self.ty()?;
        let kind = if word == "vector" {
            TypeKind::Vector { shape, element }
        } else {
            let mut parts = [None, None];
            let mut count = 0;
            while count < 2 && self.accept(',') {
                parts[count] = Some(self.attribute()?);
                count += 1;
            }
            // One attribute alone is the space, unless it is of a kind that only describes layouts.
            let [mut layout, mut space] = parts;
            if count == 1 && !layout.is_some_and(|a| self.is_layout(a)) {
                (layout, space) = (None, layout);
            }
            TypeKind::Memref {
                shape,
                element,
                layout,
                space,
            }
        };
        self.expect('>')?;
        Ok(self.module.ty(kind))
    }

    fn is_layout(&self, attribute: crate::mosaic::Attribute) -> bool {
        use crate::mosaic::types::AttributeKind as A;
        match self.module.attribute_kind(attribute) {
            A::AffineMap(_) => true,
            A::Dialect { name, .. } => name == "tpu.tiled",
            A::Opaque(text) => text.starts_with("strided<"),
            _ => false,
        }
    }

    /// The dimensions after `<`, up to and without the element type.
    fn shape(&mut self, dynamic: bool) -> Result<Vec<i64>> {
        // The current token is `<`: what follows is read by characters.
        let mut shape = Vec::new();
        self.lexer.position = self.start + 1;
        loop {
            self.lexer.skip_space();
            let start = self.lexer.position;
            let size = if self.lexer.peek_char() == Some('?') {
                self.lexer.position += 1;
                if !dynamic {
                    return self.error_at(start, "a fixed size", "`?`".into());
                }
                DYNAMIC
            } else {
                let digits = self.lexer.take_while(|c| c.is_ascii_digit());
                if digits.is_empty() {
                    break;
                }
                match digits.parse() {
                    Ok(n) => n,
                    Err(_) => return self.error_at(start, "a size of 64 bits", digits.into()),
                }
            };
            if self.lexer.peek_char() != Some('x') {
                let found = self
                    .lexer
                    .peek_char()
                    .map_or("the end".into(), |c| format!("`{c}`"));
                return self.error_at(self.lexer.position, "`x` after a size", found);
            }
            self.lexer.position += 1;
            shape.push(size);
        }
        self.advance();
        Ok(shape)
    }

    pub(super) fn function_type(&mut self) -> Result<Type> {
        self.expect('(')?;
        let inputs = self.list(')', Self::ty)?;
        self.expect_arrow()?;
        let results = self.result_types()?;
        Ok(self.module.ty(TypeKind::Function { inputs, results }))
    }

    /// One type, or several in parentheses.
    pub(super) fn result_types(&mut self) -> Result<Vec<Type>> {
        if self.accept('(') {
            return self.list(')', Self::ty);
        }
        Ok(vec![self.ty()?])
    }
}

/// Width and sign of `i32`, `si32`, `ui8`.
fn integer(word: &str) -> Option<(u32, Signedness)> {
    let (sign, digits) = if let Some(rest) = word.strip_prefix("si") {
        (Signedness::Signed, rest)
    } else if let Some(rest) = word.strip_prefix("ui") {
        (Signedness::Unsigned, rest)
    } else {
        (Signedness::Signless, word.strip_prefix('i')?)
    };
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if !plain {
        return None;
    }
    Some((digits.parse().unwrap_or(u32::MAX), sign))
}
