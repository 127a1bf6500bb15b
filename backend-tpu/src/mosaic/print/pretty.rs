//! The custom forms: patterns of [`crate::mosaic::syntax`], and by hand what has regions.

use super::{Printer, value};
use crate::mosaic::ir::{Attribute, Block, Op, Region, Value};
use crate::mosaic::syntax::{self, CMPF, CMPI, Results, Syntax};
use crate::mosaic::types::{AttributeKind, Signedness, TypeKind};

impl Printer<'_> {
    /// Prints the custom form; false, and nothing printed, if the operation does not fit one.
    pub(super) fn custom(&mut self, op: Op) -> bool {
        let mark = self.out.len();
        let m = self.module;
        let name = m.op_name(op);
        let done = match name {
            "builtin.module" => self.module_op(op),
            "func.func" => self.function(op),
            "scf.if" => self.scf_if(op),
            "scf.for" => self.scf_for(op),
            "scf.while" => self.scf_while(op),
            _ => match syntax::syntax(name) {
                Some(s) if m.regions(op).is_empty() && m.successors(op).is_empty() => {
                    self.push(name.strip_prefix("func.").unwrap_or(name));
                    self.pattern(op, s)
                }
                _ => None,
            },
        };
        if done.is_none() {
            self.out.truncate(mark);
        }
        done.is_some()
    }

    fn pattern(&mut self, op: Op, s: &Syntax) -> Option<()> {
        let m = self.module;
        let groups = s.split(m, op)?;
        let results = m.results(op);
        let first = |g: usize| groups.get(g)?.first().map(|&v| m.value_type(v));
        let inferred = match s.results {
            Results::None => results.is_empty(),
            Results::Listed => results.len() == 1,
            _ if results.len() != 1 => false,
            Results::Same(g) => first(g) == Some(m.value_type(results[0])),
            Results::Element => m.type_kind(first(0)?).element() == Some(m.value_type(results[0])),
            Results::Bool => {
                let (from, to) = (m.type_kind(first(0)?), m.value_kind(results[0]));
                let bit = TypeKind::Integer {
                    width: 1,
                    sign: Signedness::Signless,
                };
                from.shape() == to.shape() && to.element().map_or(to, |e| m.type_kind(e)) == &bit
            }
        };
        inferred.then_some(())?;
        for &(name, _) in s.defaults {
            m.attribute_of(op, name)?;
        }
        self.format(op, s, s.pattern, &groups)
    }

    fn format(&mut self, op: Op, s: &Syntax, pattern: &str, groups: &[Vec<Value>]) -> Option<()> {
        let m = self.module;
        let mut rest = pattern;
        while let Some(c) = rest.chars().next() {
            let digit = |text: &str| text.chars().nth(1)?.to_digit(10).map(|d| d as usize);
            match c {
                '$' => {
                    self.values(&groups[digit(rest)?]);
                    rest = &rest[2..];
                }
                'T' => {
                    self.value_types(&groups[digit(rest)?]);
                    rest = &rest[2..];
                }
                'R' => {
                    self.value_types(m.results(op));
                    rest = &rest[1..];
                }
                '?' => {
                    let end = syntax::section_end(rest)?;
                    if !groups[digit(rest)?].is_empty() {
                        self.format(op, s, &rest[3..end], groups)?;
                    }
                    rest = &rest[end + 1..];
                }
                '{' => {
                    let end = rest.find('}')?;
                    self.directive(op, s, &rest[1..end], groups)?;
                    rest = &rest[end + 1..];
                }
                _ => {
                    self.out.push(c);
                    rest = &rest[c.len_utf8()..];
                }
            }
        }
        Some(())
    }

    fn directive(&mut self, op: Op, s: &Syntax, text: &str, groups: &[Vec<Value>]) -> Option<()> {
        let m = self.module;
        let (what, name) = text.split_once(':').unwrap_or((text, ""));
        match what {
            "a" => {
                let shown = s.shown();
                self.attribute_dictionary(op, |name, value| {
                    shown.contains(&name)
                        || (s.segments && name == "operandSegmentSizes")
                        || s.defaults
                            .iter()
                            .any(|d| d.0 == name && syntax::is_default(m, d.1, value))
                });
            }
            "i" | "si" => {
                let sign = if what == "i" {
                    Signedness::Signless
                } else {
                    Signedness::Signed
                };
                let value = m.integer_attribute_of(op, name, 32, sign)?;
                self.push(&value.to_string());
            }
            "l" | "l32" => {
                let width = if what == "l" { 64 } else { 32 };
                let values = m.dense_array_of(op, name, width)?;
                let list: Vec<_> = values.iter().map(ToString::to_string).collect();
                self.push(&format!("[{}]", list.join(", ")));
            }
            "ar" => {
                let attribute = m.attribute_of(op, name)?;
                matches!(m.attribute_kind(attribute), AttributeKind::Array(_)).then_some(())?;
                value::attribute(m, attribute, &mut self.out);
            }
            "s" => match m.attribute_kind_of(op, name)? {
                AttributeKind::String(text) => value::quoted(text, &mut self.out),
                _ => return None,
            },
            "k" => match m.attribute_kind_of(op, name)? {
                AttributeKind::Dialect {
                    name,
                    body: Some(body),
                } if name == "vector.kind"
                    && !body.is_empty()
                    && body.bytes().all(|b| b.is_ascii_lowercase()) =>
                {
                    self.push(&format!("<{body}>"));
                }
                _ => return None,
            },
            "fm" => self.flags(op, "fastmath", "fastmath")?,
            "of" => self.flags(op, "overflowFlags", "overflow")?,
            "pi" | "pf" => {
                let number = m.integer_attribute_of(op, "predicate", 64, Signedness::Signless)?;
                let number = usize::try_from(number).ok()?;
                let names: &[&str] = if what == "pi" { &CMPI } else { &CMPF };
                self.push(names.get(number)?);
            }
            "v" => {
                let attribute = m.attribute_of(op, "value")?;
                let ty = m.value_type(*m.results(op).first()?);
                let same = match m.attribute_kind(attribute) {
                    AttributeKind::Bool(_) => {
                        matches!(m.type_kind(ty), TypeKind::Integer { width: 1, .. })
                    }
                    AttributeKind::Integer { ty: t, .. }
                    | AttributeKind::Float { ty: t, .. }
                    | AttributeKind::DenseElements { ty: t, .. } => *t == ty,
                    _ => return None,
                };
                same.then_some(())?;
                value::attribute(m, attribute, &mut self.out);
            }
            "sel" => {
                let condition = *groups[0].first()?;
                if !matches!(m.value_kind(condition), TypeKind::Integer { width: 1, .. }) {
                    self.value_types(&[condition]);
                    self.push(", ");
                }
                self.value_types(&groups[1]);
            }
            _ => return None,
        }
        Some(())
    }

    fn flags(&mut self, op: Op, attribute: &str, word: &str) -> Option<()> {
        match self.module.attribute_kind_of(op, attribute)? {
            AttributeKind::Dialect {
                name,
                body: Some(body),
            } if *name == format!("arith.{word}") => {
                if body != "none" {
                    self.push(&format!(" {word}<{body}>"));
                }
                Some(())
            }
            _ => None,
        }
    }

    /// ` {name = value}` without those to skip; nothing if none remain.
    fn attribute_dictionary(&mut self, op: Op, skip: impl Fn(&str, Attribute) -> bool) {
        let m = self.module;
        let rest: Vec<_> = m
            .attributes(op)
            .iter()
            .filter(|a| !skip(&a.0, a.1))
            .collect();
        if !rest.is_empty() {
            self.push(" ");
            self.dictionary(&rest);
        }
    }

    fn module_op(&mut self, op: Op) -> Option<()> {
        let m = self.module;
        let plain = m.operands(op).is_empty() && m.results(op).is_empty();
        let [region] = *m.regions(op) else {
            return None;
        };
        (plain && m.blocks(region).len() == 1).then_some(())?;
        self.push("module");
        match m.attribute_kind_of(op, "sym_name") {
            Some(AttributeKind::String(name)) => {
                self.push(" ");
                value::symbol(name, &mut self.out);
            }
            Some(_) => return None,
            None => {}
        }
        if m.attributes(op).iter().any(|a| a.0 != "sym_name") {
            self.push(" attributes");
            self.attribute_dictionary(op, |name, _| name == "sym_name");
        }
        self.push(" ");
        self.region(region, false);
        Some(())
    }

    fn function(&mut self, op: Op) -> Option<()> {
        let m = self.module;
        let hidden = ["sym_name", "function_type", "sym_visibility"];
        let AttributeKind::String(name) = m.attribute_kind_of(op, "sym_name")? else {
            return None;
        };
        let AttributeKind::Type(ty) = m.attribute_kind_of(op, "function_type")? else {
            return None;
        };
        let TypeKind::Function { inputs, results } = m.type_kind(*ty) else {
            return None;
        };
        let [region] = *m.regions(op) else {
            return None;
        };
        let entry = *m.blocks(region).first()?;
        let arguments = m.arguments(entry);
        let fits = arguments.len() == inputs.len()
            && arguments
                .iter()
                .zip(inputs)
                .all(|(&v, &t)| m.value_type(v) == t)
            && m.operands(op).is_empty()
            && m.results(op).is_empty()
            && ["arg_attrs", "res_attrs"]
                .iter()
                .all(|a| m.attribute_of(op, a).is_none());
        fits.then_some(())?;
        self.push("func.func ");
        if let Some(visibility) = m.attribute_of(op, "sym_visibility") {
            let AttributeKind::String(v) = m.attribute_kind(visibility) else {
                return None;
            };
            matches!(v.as_str(), "private" | "public" | "nested").then_some(())?;
            self.push(&format!("{v} "));
        }
        value::symbol(name, &mut self.out);
        self.push("(");
        self.typed_arguments(entry);
        self.push(")");
        if !results.is_empty() {
            self.push(" -> ");
            value::results(m, results, &mut self.out);
        }
        if m.attributes(op).iter().any(|a| !hidden.contains(&&*a.0)) {
            self.push(" attributes");
            self.attribute_dictionary(op, |name, _| hidden.contains(&name));
        }
        self.push(" ");
        self.region(region, true);
        Some(())
    }

    /// The `scf.yield` that a block ends in; where there is none, the parser adds one.
    fn last_yield(&self, block: Block) -> Option<Op> {
        let &last = self.module.block_ops(block).last()?;
        (self.module.op_name(last) == "scf.yield").then_some(last)
    }

    /// A region of one block that ends in `scf.yield`, left out if it yields nothing.
    fn loop_body(&mut self, region: Region) -> Option<()> {
        let m = self.module;
        let [block] = *m.blocks(region) else {
            return None;
        };
        let last = self.last_yield(block)?;
        let implicit = m.operands(last).is_empty();
        (!implicit || m.attributes(last).is_empty()).then_some(())?;
        self.push("{\n");
        self.block(block, implicit);
        self.out.extend(std::iter::repeat_n(' ', self.indent));
        self.push("}");
        Some(())
    }

    fn scf_if(&mut self, op: Op) -> Option<()> {
        let m = self.module;
        let [then, otherwise] = *m.regions(op) else {
            return None;
        };
        let [_] = *m.operands(op) else { return None };
        self.push("scf.if ");
        self.values(m.operands(op));
        if !m.results(op).is_empty() {
            self.push(" -> (");
            self.value_types(m.results(op));
            self.push(")");
        }
        self.push(" ");
        m.arguments(m.blocks(then).first().copied()?)
            .is_empty()
            .then_some(())?;
        self.loop_body(then)?;
        if let Some(&block) = m.blocks(otherwise).first() {
            m.arguments(block).is_empty().then_some(())?;
            self.push(" else ");
            self.loop_body(otherwise)?;
        }
        self.attribute_dictionary(op, |_, _| false);
        Some(())
    }

    fn scf_for(&mut self, op: Op) -> Option<()> {
        let m = self.module;
        let [region] = *m.regions(op) else {
            return None;
        };
        let [lower, upper, step, ref inits @ ..] = *m.operands(op) else {
            return None;
        };
        let entry = *m.blocks(region).first()?;
        let [iv, ref carried @ ..] = *m.arguments(entry) else {
            return None;
        };
        let same = |a: Value, b: Value| m.value_type(a) == m.value_type(b);
        let fits = carried.len() == inits.len()
            && m.results(op).len() == inits.len()
            && carried.iter().zip(inits).all(|(&a, &b)| same(a, b))
            && m.results(op).iter().zip(inits).all(|(&a, &b)| same(a, b))
            && [lower, upper, step].iter().all(|&v| same(v, iv));
        fits.then_some(())?;
        self.push("scf.for ");
        for (text, value) in [("", iv), (" = ", lower), (" to ", upper), (" step ", step)] {
            self.push(text);
            self.value(value);
        }
        self.push(" ");
        if !inits.is_empty() {
            self.push("iter_args(");
            self.assignments(carried, inits);
            self.push(") -> (");
            self.value_types(inits);
            self.push(") ");
        }
        if *m.value_kind(iv) != TypeKind::Index {
            self.push(" : ");
            self.value_types(&[iv]);
            self.push(" ");
        }
        self.loop_body(region)?;
        self.attribute_dictionary(op, |_, _| false);
        Some(())
    }

    /// `%arg0 = %a, %arg1 = %b`
    fn assignments(&mut self, names: &[Value], values: &[Value]) {
        for (i, (&name, &value)) in names.iter().zip(values).enumerate() {
            self.push(if i > 0 { ", " } else { "" });
            self.value(name);
            self.push(" = ");
            self.value(value);
        }
    }

    fn scf_while(&mut self, op: Op) -> Option<()> {
        let m = self.module;
        let [before, after] = *m.regions(op) else {
            return None;
        };
        let ([entry], [body]) = (m.blocks(before), m.blocks(after)) else {
            return None;
        };
        self.last_yield(*body)?;
        let (arguments, inits) = (m.arguments(*entry), m.operands(op));
        let fits = arguments.len() == inits.len()
            && arguments
                .iter()
                .zip(inits)
                .all(|(&a, &b)| m.value_type(a) == m.value_type(b));
        fits.then_some(())?;
        self.push("scf.while ");
        if !inits.is_empty() {
            self.push("(");
            self.assignments(arguments, inits);
            self.push(") ");
        }
        self.push(": (");
        self.value_types(inits);
        self.push(") -> ");
        let results: Vec<_> = m.results(op).iter().map(|&v| m.value_type(v)).collect();
        value::results(m, &results, &mut self.out);
        self.push(" ");
        self.region(before, true);
        self.push(" do ");
        self.region(after, false);
        if !m.attributes(op).is_empty() {
            self.push(" attributes");
            self.attribute_dictionary(op, |_, _| false);
        }
        Some(())
    }
}
