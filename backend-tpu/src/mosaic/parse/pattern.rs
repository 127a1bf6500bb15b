//! The custom forms that are patterns; see [`crate::mosaic::syntax`].

use super::lexer::Token;
use super::{Parser, Result};
use crate::mosaic::ir::{OpParts, Type, Value};
use crate::mosaic::syntax::{self, CMPF, CMPI, Results, Syntax};
use crate::mosaic::types::{AttributeKind, Signedness, TypeKind};

/// What has been read of one operation.
struct State<'s> {
    syntax: &'s Syntax,
    groups: Vec<Vec<Value>>,
    results: Vec<Type>,
    result_count: usize,
    parts: OpParts,
}

impl Parser<'_> {
    /// What follows the name of an operation that is not quoted.
    pub(super) fn custom(&mut self, name: &str, start: usize, results: usize) -> Result<OpParts> {
        match name {
            "func.func" => return self.function(),
            "scf.if" => return self.scf_if(),
            "scf.for" => return self.scf_for(),
            "scf.while" => return self.scf_while(),
            _ => {}
        }
        let Some(syntax) = syntax::syntax(name) else {
            let expected = "an operation whose custom form is known, or the generic form";
            return self.error_at(start, expected, format!("`{name}`"));
        };
        let mut state = State {
            syntax,
            groups: vec![Vec::new(); syntax.groups.len()],
            results: Vec::new(),
            result_count: results.max(1),
            parts: OpParts::default(),
        };
        self.pattern(&mut state, syntax.pattern)?;
        self.finish(name, start, state)
    }

    fn finish(&mut self, name: &str, start: usize, state: State<'_>) -> Result<OpParts> {
        let State {
            syntax,
            groups,
            results,
            mut parts,
            ..
        } = state;
        let first = |g: usize| groups.get(g).and_then(|v: &Vec<Value>| v.first().copied());
        let inferred = match syntax.results {
            Results::None => Some(Vec::new()),
            Results::Listed => Some(results),
            Results::Same(g) => first(g).map(|v| vec![self.module.value_type(v)]),
            Results::Element => first(0)
                .and_then(|v| self.module.value_kind(v).element())
                .map(|element| vec![element]),
            Results::Bool => first(0).map(|v| {
                let bit = self.module.ty(TypeKind::Integer {
                    width: 1,
                    sign: Signedness::Signless,
                });
                match self.module.value_kind(v).clone() {
                    TypeKind::Vector { shape, .. } => {
                        vec![self.module.ty(TypeKind::Vector {
                            shape,
                            element: bit,
                        })]
                    }
                    _ => vec![bit],
                }
            }),
        };
        let Some(results) = inferred else {
            return self.error_at(start, "operands that give the result a type", name.into());
        };
        parts.results = results;
        if syntax.segments {
            let sizes = groups.iter().map(|g| g.len() as i64).collect();
            let attribute = self.integers(32, sizes);
            parts
                .attributes
                .push(("operandSegmentSizes".into(), attribute));
        }
        parts.operands = groups.into_iter().flatten().collect();
        let mut names: Vec<&str> = parts.attributes.iter().map(|a| &*a.0).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|w| w[0] == w[1]) {
            return self.error_at(
                start,
                "each attribute once",
                format!("`{}` again", twice[0]),
            );
        }
        let name = self.module.name(name);
        syntax::add_defaults(&mut self.module, name, &mut parts);
        Ok(parts)
    }

    fn integers(&mut self, width: u32, values: Vec<i64>) -> crate::mosaic::Attribute {
        let element = self.module.ty(TypeKind::Integer {
            width,
            sign: Signedness::Signless,
        });
        self.module
            .attribute(AttributeKind::DenseArray { element, values })
    }

    fn pattern(&mut self, state: &mut State<'_>, pattern: &str) -> Result<()> {
        let mut rest = pattern;
        while let Some(c) = rest.chars().next() {
            let group = || {
                rest.as_bytes()
                    .get(1)
                    .map_or(0, |&b| usize::from(b.wrapping_sub(b'0')))
            };
            match c {
                '$' => {
                    let g = group();
                    state.groups[g] = if state.syntax.groups.as_bytes()[g] == b'*' {
                        self.operands()?
                    } else {
                        vec![self.operand()?]
                    };
                    rest = &rest[2..];
                }
                'T' => {
                    let values = state.groups[group()].clone();
                    self.types_of(&values)?;
                    rest = &rest[2..];
                }
                'R' => {
                    for i in 0..state.result_count {
                        if i > 0 {
                            self.expect(',')?;
                        }
                        let ty = self.ty()?;
                        state.results.push(ty);
                    }
                    rest = &rest[1..];
                }
                '?' => {
                    let end = syntax::section_end(rest).unwrap_or(rest.len() - 1);
                    let inner = &rest[3..end];
                    if !state.groups[group()].is_empty() || self.at_literal(inner.trim_start()) {
                        self.pattern(state, inner)?;
                    }
                    rest = &rest[end + 1..];
                }
                '{' => {
                    let end = rest.find('}').unwrap_or(rest.len() - 1);
                    self.directive(state, &rest[1..end])?;
                    rest = &rest[end + 1..];
                }
                ' ' => rest = &rest[1..],
                '-' => {
                    self.expect_arrow()?;
                    rest = &rest[2..];
                }
                _ if c.is_ascii_lowercase() => {
                    let end = rest
                        .find(|c: char| !c.is_ascii_lowercase() && c != '_')
                        .unwrap_or(rest.len());
                    self.expect_word(&rest[..end])?;
                    rest = &rest[end..];
                }
                _ => {
                    self.expect(c)?;
                    rest = &rest[1..];
                }
            }
        }
        Ok(())
    }

    /// Whether the current token is what a section starts with.
    fn at_literal(&self, section: &str) -> bool {
        match section.chars().next() {
            Some('$') => matches!(self.token, Token::Value(_)),
            Some(c) if c.is_ascii_lowercase() => {
                let end = section
                    .find(|c: char| !c.is_ascii_lowercase() && c != '_')
                    .unwrap_or(section.len());
                self.at_word(&section[..end])
            }
            Some(c) => self.at(c),
            None => false,
        }
    }

    fn types_of(&mut self, values: &[Value]) -> Result<()> {
        for (i, &v) in values.iter().enumerate() {
            if i > 0 {
                self.expect(',')?;
            }
            let start = self.start;
            let ty = self.ty()?;
            self.check_types(start, &[v], &[ty])?;
        }
        Ok(())
    }

    fn directive(&mut self, state: &mut State<'_>, text: &str) -> Result<()> {
        let (what, name) = text.split_once(':').unwrap_or((text, ""));
        let (name, attribute) = match what {
            "a" => {
                if self.at('{') {
                    let dictionary = self.dictionary()?;
                    state.parts.attributes.extend(dictionary);
                }
                return Ok(());
            }
            "i" | "si" => {
                let value = self.integer()?;
                let sign = if what == "i" {
                    Signedness::Signless
                } else {
                    Signedness::Signed
                };
                let ty = self.module.ty(TypeKind::Integer { width: 32, sign });
                (name, AttributeKind::Integer { value, ty })
            }
            "l" | "l32" => {
                self.expect('[')?;
                let values = self.list(']', Self::integer)?;
                let attribute = self.integers(if what == "l" { 64 } else { 32 }, values);
                state
                    .parts
                    .attributes
                    .push((name.to_owned().into(), attribute));
                return Ok(());
            }
            "ar" => {
                self.expect('[')?;
                (name, AttributeKind::Array(self.list(']', Self::attribute)?))
            }
            "s" => match self.token.clone() {
                Token::Text(bytes) => {
                    self.advance();
                    (
                        name,
                        AttributeKind::String(String::from_utf8_lossy(&bytes).into_owned()),
                    )
                }
                _ => return self.error("a string"),
            },
            "k" => {
                self.expect('<')?;
                let body = self.word("a kind of reduction")?;
                self.expect('>')?;
                (
                    name,
                    AttributeKind::Dialect {
                        name: "vector.kind".into(),
                        body: Some(body),
                    },
                )
            }
            "fm" | "of" => {
                let (word, name) = if what == "fm" {
                    ("fastmath", "fastmath")
                } else {
                    ("overflow", "overflowFlags")
                };
                if !self.accept_word(word) {
                    return Ok(());
                }
                if !self.at('<') {
                    return self.error("`<`");
                }
                let body = Some(self.balanced()?);
                (
                    name,
                    AttributeKind::Dialect {
                        name: format!("arith.{word}"),
                        body,
                    },
                )
            }
            "pi" | "pf" => {
                let names: &[&str] = if what == "pi" { &CMPI } else { &CMPF };
                let number = match &self.token {
                    Token::Word(w) => names.iter().position(|n| n == w),
                    _ => None,
                };
                let Some(number) = number else {
                    return self.error(&format!("one of {}", names.join(", ")));
                };
                self.advance();
                let ty = self.module.ty(TypeKind::Integer {
                    width: 64,
                    sign: Signedness::Signless,
                });
                (
                    "predicate",
                    AttributeKind::Integer {
                        value: number as i64,
                        ty,
                    },
                )
            }
            "v" => {
                let start = self.start;
                let attribute = self.attribute()?;
                let ty = match *self.module.attribute_kind(attribute) {
                    AttributeKind::Bool(_) => self.module.ty(TypeKind::Integer {
                        width: 1,
                        sign: Signedness::Signless,
                    }),
                    AttributeKind::Integer { ty, .. }
                    | AttributeKind::Float { ty, .. }
                    | AttributeKind::DenseElements { ty, .. } => ty,
                    _ => {
                        let found = self.module.attribute_text(attribute);
                        return self.error_at(start, "a number or dense elements", found);
                    }
                };
                state.results.push(ty);
                state.parts.attributes.push(("value".into(), attribute));
                return Ok(());
            }
            "sel" => {
                let start = self.start;
                let ty = self.ty()?;
                if self.accept(',') {
                    self.check_types(start, &state.groups[0], &[ty])?;
                    let values = state.groups[1].clone();
                    return self.types_of(&values);
                }
                return self.check_types(start, &state.groups[1], &[ty]);
            }
            _ => return self.error("a known pattern"),
        };
        let attribute = self.module.attribute(attribute);
        state
            .parts
            .attributes
            .push((name.to_owned().into(), attribute));
        Ok(())
    }
}
