//! Modules as text.
//!
//! Three forms of the same module:
//!
//! * pretty, as MLIR prints it and people read it ([`Module::to_pretty`]);
//! * generic, every operation as `"name"(operands) {attributes} : (types) -> types`, which any
//!   reader of MLIR takes ([`Module::to_generic`]);
//! * stable, what the TPU compiler takes as the body of a kernel: generic, operations renamed
//!   `stable_mosaic.*`, and the version of the vocabulary on the module ([`Module::to_stable`]).
//!
//! The same module always gives the same bytes. An operation that does not fit its custom form is
//! printed generically also in the pretty form, so that every module can be printed.

mod names;
mod pretty;
mod value;

use std::fmt::Write;

use self::names::Names;
use super::ir::{Attribute, AttributeName, Block, Module, Op, Region, Type, Value};
use super::version::{self, VersionError};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Pretty,
    Generic,
    Stable(u32),
}

impl Module {
    /// The form people read.
    pub fn to_pretty(&self) -> String {
        Printer::print(self, Form::Pretty)
    }

    /// The form every reader of MLIR takes.
    pub fn to_generic(&self) -> String {
        Printer::print(self, Form::Generic)
    }

    /// The form the TPU compiler takes, in a version of its vocabulary; see
    /// [`version::SUPPORTED`].
    ///
    /// # Errors
    ///
    /// If the version is unknown, or the module uses what it does not have.
    pub fn to_stable(&self, version: u32) -> Result<String, VersionError> {
        let mut module = self.clone();
        version::downgrade(&mut module, version)?;
        Ok(Printer::print(&module, Form::Stable(version)))
    }

    /// The text of a type.
    pub fn type_text(&self, ty: Type) -> String {
        let mut out = String::new();
        value::ty(self, ty, &mut out);
        out
    }

    /// The text of an attribute.
    pub fn attribute_text(&self, attribute: Attribute) -> String {
        let mut out = String::new();
        value::attribute(self, attribute, &mut out);
        out
    }
}

struct Printer<'m> {
    module: &'m Module,
    names: Names,
    form: Form,
    out: String,
    indent: usize,
}

impl<'m> Printer<'m> {
    fn print(module: &'m Module, form: Form) -> String {
        let names = Names::new(module, form == Form::Pretty);
        let mut p = Self {
            module,
            names,
            form,
            out: String::new(),
            indent: 0,
        };
        p.op(module.root());
        p.out
    }

    fn push(&mut self, text: &str) {
        self.out.push_str(text);
    }

    /// An operation, indented, with its line end.
    fn op(&mut self, op: Op) {
        self.out.extend(std::iter::repeat_n(' ', self.indent));
        let results = self.module.results(op);
        if let Some(first) = results.first() {
            let name = self.names.values[first.index()].clone();
            let name = name.trim_end_matches("#0");
            match results.len() {
                1 => self.push(&format!("%{name} = ")),
                n => self.push(&format!("%{name}:{n} = ")),
            }
        }
        if self.form != Form::Pretty || !self.custom(op) {
            self.generic(op);
        }
        self.out.push('\n');
    }

    fn generic(&mut self, op: Op) {
        let m = self.module;
        let name = m.op_name(op);
        let prefix = match self.form {
            Form::Stable(_) if op != m.root() => "stable_mosaic.",
            _ => "",
        };
        self.push(&format!("\"{prefix}{name}\"("));
        self.values(m.operands(op));
        self.push(")");
        if !m.successors(op).is_empty() {
            let blocks: Vec<_> = m
                .successors(op)
                .iter()
                .map(|&b| format!("^bb{}", self.names.block(b)))
                .collect();
            self.push(&format!("[{}]", blocks.join(", ")));
        }
        let attributes: Vec<_> = m.attributes(op).iter().collect();
        let version = match self.form {
            Form::Stable(v) if op == m.root() => Some(v),
            _ => None,
        };
        // In the pretty form, what belongs to the operation itself stands in angle brackets.
        let inherent = self.form == Form::Pretty && name.starts_with("tpu.");
        if inherent && !attributes.is_empty() {
            self.push(" <");
            self.dictionary(&attributes);
            self.push(">");
        }
        if !m.regions(op).is_empty() {
            self.push(" (");
            for (i, &r) in m.regions(op).iter().enumerate() {
                self.push(if i > 0 { ", " } else { "" });
                self.region(r, false);
            }
            self.push(")");
        }
        if (!attributes.is_empty() && !inherent) || version.is_some() {
            self.push(" ");
            self.dictionary(&attributes);
            if let Some(v) = version {
                let comma = if attributes.is_empty() { "" } else { ", " };
                self.out.pop();
                self.push(&format!("{comma}stable_mosaic.version = {v} : i64}}"));
            }
        }
        self.push(" : (");
        let operands: Vec<Type> = m.operands(op).iter().map(|&v| m.value_type(v)).collect();
        self.types(&operands);
        self.push(") -> ");
        let results: Vec<Type> = m.results(op).iter().map(|&v| m.value_type(v)).collect();
        value::results(m, &results, &mut self.out);
    }

    /// `{`, the blocks, `}`. The label of the entry block is left out if it has no arguments or
    /// `bare` says that its arguments are already shown.
    fn region(&mut self, region: Region, bare: bool) {
        let blocks = self.module.blocks(region);
        self.push("{\n");
        for (i, &block) in blocks.iter().enumerate() {
            if i > 0 || (!bare && !self.module.arguments(block).is_empty()) {
                self.label(block);
            }
            self.block(block, false);
        }
        self.out.extend(std::iter::repeat_n(' ', self.indent));
        self.push("}");
    }

    fn label(&mut self, block: Block) {
        self.out.extend(std::iter::repeat_n(' ', self.indent));
        let number = self.names.block(block);
        self.push(&format!("^bb{number}"));
        if !self.module.arguments(block).is_empty() {
            self.push("(");
            self.typed_arguments(block);
            self.push(")");
        }
        self.push(":\n");
    }

    /// `%arg0: i32, %arg1: f32`
    fn typed_arguments(&mut self, block: Block) {
        let m = self.module;
        for (i, &v) in m.arguments(block).iter().enumerate() {
            self.push(if i > 0 { ", " } else { "" });
            self.value(v);
            self.push(": ");
            value::ty(m, m.value_type(v), &mut self.out);
        }
    }

    /// The operations of a block, without the last one if `implicit`.
    fn block(&mut self, block: Block, implicit: bool) {
        self.indent += 2;
        let ops = self.module.block_ops(block);
        for &op in &ops[..ops.len() - usize::from(implicit && !ops.is_empty())] {
            self.op(op);
        }
        self.indent -= 2;
    }

    fn value(&mut self, value: Value) {
        let _ = write!(self.out, "%{}", self.names.values[value.index()]);
    }

    fn values(&mut self, values: &[Value]) {
        for (i, &v) in values.iter().enumerate() {
            self.push(if i > 0 { ", " } else { "" });
            self.value(v);
        }
    }

    fn types(&mut self, types: &[Type]) {
        for (i, &t) in types.iter().enumerate() {
            self.push(if i > 0 { ", " } else { "" });
            value::ty(self.module, t, &mut self.out);
        }
    }

    fn value_types(&mut self, values: &[Value]) {
        let types: Vec<Type> = values.iter().map(|&v| self.module.value_type(v)).collect();
        self.types(&types);
    }

    fn dictionary(&mut self, entries: &[&(AttributeName, Attribute)]) {
        value::dictionary(self.module, entries, &mut self.out);
    }
}
