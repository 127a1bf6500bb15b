//! Affine maps.

use std::collections::HashMap;

use super::lexer::Token;
use super::{Parser, Result};
use crate::mosaic::affine::{AffineExpr, AffineMap, AffineOp};

type Names = HashMap<String, AffineExpr>;

impl Parser<'_> {
    /// `(d0, d1)[s0] -> (d0 + s0)`
    pub(super) fn affine_map(&mut self) -> Result<AffineMap> {
        let mut names = Names::new();
        self.expect('(')?;
        let dims = self.list(')', |p| p.word("a dimension"))?;
        let symbols = if self.accept('[') {
            self.list(']', |p| p.word("a symbol"))?
        } else {
            Vec::new()
        };
        for (i, name) in dims.iter().enumerate() {
            names.insert(name.clone(), AffineExpr::Dim(i as u32));
        }
        for (i, name) in symbols.iter().enumerate() {
            names.insert(name.clone(), AffineExpr::Symbol(i as u32));
        }
        if names.len() != dims.len() + symbols.len() {
            return self.error("different names for dimensions and symbols");
        }
        self.expect_arrow()?;
        self.expect('(')?;
        let results = self.list(')', |p| p.affine_sum(&names))?;
        Ok(AffineMap {
            dims: dims.len() as u32,
            symbols: symbols.len() as u32,
            results,
        })
    }

    fn affine_sum(&mut self, names: &Names) -> Result<AffineExpr> {
        let mut sum = self.affine_product(names)?;
        let mut terms = 0;
        loop {
            let negative = self.at('-');
            if !self.accept('+') && !self.accept('-') {
                return Ok(sum);
            }
            let term = self.affine_product(names)?;
            let term = match term {
                AffineExpr::Constant(c) if negative => AffineExpr::Constant(c.wrapping_neg()),
                t if negative => {
                    AffineExpr::Binary(AffineOp::Mul, t.into(), AffineExpr::Constant(-1).into())
                }
                t => t,
            };
            sum = AffineExpr::Binary(AffineOp::Add, sum.into(), term.into());
            terms = self.bounded(terms)?;
        }
    }

    fn affine_product(&mut self, names: &Names) -> Result<AffineExpr> {
        let mut product = self.affine_atom(names)?;
        let mut factors = 0;
        loop {
            let op = if self.accept('*') {
                AffineOp::Mul
            } else if self.accept_word("mod") {
                AffineOp::Mod
            } else if self.accept_word("floordiv") {
                AffineOp::FloorDiv
            } else if self.accept_word("ceildiv") {
                AffineOp::CeilDiv
            } else {
                return Ok(product);
            };
            let factor = self.affine_atom(names)?;
            product = AffineExpr::Binary(op, product.into(), factor.into());
            factors = self.bounded(factors)?;
        }
    }

    /// Long chains nest as deep as parentheses do.
    fn bounded(&self, count: usize) -> Result<usize> {
        if count < super::DEPTH_LIMIT {
            Ok(count + 1)
        } else {
            self.error("a shorter expression")
        }
    }

    fn affine_atom(&mut self, names: &Names) -> Result<AffineExpr> {
        match self.token.clone() {
            Token::Integer(_) => Ok(AffineExpr::Constant(self.integer()?)),
            Token::Mark('-') => {
                self.advance();
                let inner = self.nested(|p| p.affine_atom(names))?;
                Ok(match inner {
                    AffineExpr::Constant(c) => AffineExpr::Constant(c.wrapping_neg()),
                    e => {
                        AffineExpr::Binary(AffineOp::Mul, e.into(), AffineExpr::Constant(-1).into())
                    }
                })
            }
            Token::Mark('(') => {
                self.advance();
                let inner = self.nested(|p| p.affine_sum(names))?;
                self.expect(')')?;
                Ok(inner)
            }
            Token::Word(name) => match names.get(&name) {
                Some(e) => {
                    let e = e.clone();
                    self.advance();
                    Ok(e)
                }
                None => self.error("a dimension or symbol of this map"),
            },
            _ => self.error("an affine expression"),
        }
    }
}
