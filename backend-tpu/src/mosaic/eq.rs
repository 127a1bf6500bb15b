//! When two modules say the same.
//!
//! Handles of different modules cannot be compared, nor do the names of values matter. The walk
//! pairs the operations of both modules in order and records which value of the one stands for
//! which value of the other; types and attributes are compared by structure.

use std::collections::HashMap;

use super::ir::{Attribute, Block, Module, Op, Type, Value};
use super::types::{AttributeKind as A, TypeKind as T};

impl PartialEq for Module {
    fn eq(&self, other: &Self) -> bool {
        let mut pairs = Pairs {
            a: self,
            b: other,
            values: HashMap::new(),
            blocks: HashMap::new(),
        };
        pairs.ops(self.root(), other.root())
    }
}

impl Eq for Module {}

struct Pairs<'m> {
    a: &'m Module,
    b: &'m Module,
    values: HashMap<Value, Value>,
    blocks: HashMap<Block, Block>,
}

impl Pairs<'_> {
    fn ops(&mut self, x: Op, y: Op) -> bool {
        let (a, b) = (self.a, self.b);
        if a.op_name(x) != b.op_name(y)
            || a.regions(x).len() != b.regions(y).len()
            || a.successors(x).len() != b.successors(y).len()
            || !all(a.operands(x), b.operands(y), |&v, &w| {
                self.values.get(&v) == Some(&w)
            })
            || !all(a.results(x), b.results(y), |&v, &w| self.value_types(v, w))
            || !all(a.attributes(x), b.attributes(y), |v, w| {
                v.0 == w.0 && self.attrs(v.1, w.1)
            })
        {
            return false;
        }
        if !all(a.successors(x), b.successors(y), |v, w| {
            self.blocks.get(v) == Some(w)
        }) {
            return false;
        }
        for (&r, &s) in a.regions(x).iter().zip(b.regions(y)) {
            if a.blocks(r).len() != b.blocks(s).len() {
                return false;
            }
            self.blocks
                .extend(a.blocks(r).iter().copied().zip(b.blocks(s).iter().copied()));
            for (&c, &d) in a.blocks(r).iter().zip(b.blocks(s)) {
                let same = all(a.arguments(c), b.arguments(d), |&v, &w| {
                    self.value_types(v, w)
                });
                if !same || a.block_ops(c).len() != b.block_ops(d).len() {
                    return false;
                }
                let arguments = a
                    .arguments(c)
                    .iter()
                    .copied()
                    .zip(b.arguments(d).iter().copied());
                self.values.extend(arguments);
                for (&o, &p) in a.block_ops(c).iter().zip(b.block_ops(d)) {
                    if !self.ops(o, p) {
                        return false;
                    }
                }
            }
        }
        self.values.extend(
            a.results(x)
                .iter()
                .copied()
                .zip(b.results(y).iter().copied()),
        );
        true
    }

    fn value_types(&self, x: Value, y: Value) -> bool {
        self.types(self.a.value_type(x), self.b.value_type(y))
    }

    fn types(&self, x: Type, y: Type) -> bool {
        let optional = |p: Option<Attribute>, q: Option<Attribute>| match (p, q) {
            (None, None) => true,
            (Some(p), Some(q)) => self.attrs(p, q),
            _ => false,
        };
        match (self.a.type_kind(x), self.b.type_kind(y)) {
            (
                T::Vector { shape, element },
                T::Vector {
                    shape: s,
                    element: e,
                },
            ) => shape == s && self.types(*element, *e),
            (
                T::Memref {
                    shape,
                    element,
                    layout,
                    space,
                },
                T::Memref {
                    shape: s,
                    element: e,
                    layout: l,
                    space: p,
                },
            ) => {
                shape == s
                    && self.types(*element, *e)
                    && optional(*layout, *l)
                    && optional(*space, *p)
            }
            (
                T::Function { inputs, results },
                T::Function {
                    inputs: i,
                    results: r,
                },
            ) => {
                all(inputs, i, |&p, &q| self.types(p, q))
                    && all(results, r, |&p, &q| self.types(p, q))
            }
            (p, q) => p == q,
        }
    }

    fn attrs(&self, x: Attribute, y: Attribute) -> bool {
        match (self.a.attribute_kind(x), self.b.attribute_kind(y)) {
            (A::Integer { value, ty }, A::Integer { value: v, ty: t }) => {
                value == v && self.types(*ty, *t)
            }
            (A::Float { bits, ty }, A::Float { bits: v, ty: t }) => {
                bits == v && self.types(*ty, *t)
            }
            (A::Type(p), A::Type(q)) => self.types(*p, *q),
            (A::Array(p), A::Array(q)) => all(p, q, |&p, &q| self.attrs(p, q)),
            (A::Dictionary(p), A::Dictionary(q)) => {
                all(p, q, |p, q| p.0 == q.0 && self.attrs(p.1, q.1))
            }
            (
                A::DenseArray { element, values },
                A::DenseArray {
                    element: e,
                    values: v,
                },
            ) => values == v && self.types(*element, *e),
            (A::DenseElements { ty, values }, A::DenseElements { ty: t, values: v }) => {
                values == v && self.types(*ty, *t)
            }
            (p, q) => p == q,
        }
    }
}

fn all<X, Y>(x: &[X], y: &[Y], mut same: impl FnMut(&X, &Y) -> bool) -> bool {
    x.len() == y.len() && x.iter().zip(y).all(|(x, y)| same(x, y))
}
