//! The text of types and attributes.

use std::fmt::Write;

use crate::mosaic::ir::{Attribute, AttributeName, Module, Type};
use crate::mosaic::types::{AttributeKind as A, DYNAMIC, Signedness, TypeKind as T};

pub(super) fn ty(m: &Module, t: Type, out: &mut String) {
    let _ = match m.type_kind(t) {
        T::Index => write!(out, "index"),
        T::Integer { width, sign } => {
            let prefix = match sign {
                Signedness::Signless => "",
                Signedness::Signed => "s",
                Signedness::Unsigned => "u",
            };
            write!(out, "{prefix}i{width}")
        }
        T::Float(kind) => write!(out, "{}", kind.name()),
        T::Vector { shape, element } => {
            out.push_str("vector<");
            dims(shape, out);
            ty(m, *element, out);
            write!(out, ">")
        }
        T::Memref {
            shape,
            element,
            layout,
            space,
        } => {
            out.push_str("memref<");
            dims(shape, out);
            ty(m, *element, out);
            for a in [layout, space].into_iter().flatten() {
                out.push_str(", ");
                attribute(m, *a, out);
            }
            write!(out, ">")
        }
        T::Function { inputs, results: r } => {
            out.push('(');
            for (i, &t) in inputs.iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                ty(m, t, out);
            }
            out.push_str(") -> ");
            results(m, r, out);
            Ok(())
        }
        T::Semaphore => write!(out, "!tpu.semaphore"),
        T::DmaSemaphore => write!(out, "!tpu.dma_semaphore"),
        T::Opaque(text) => write!(out, "{text}"),
    };
}

fn dims(shape: &[i64], out: &mut String) {
    for &n in shape {
        let _ = if n == DYNAMIC {
            write!(out, "?x")
        } else {
            write!(out, "{n}x")
        };
    }
}

/// Result types of a function type: parentheses unless there is exactly one, not a function.
pub(super) fn results(m: &Module, types: &[Type], out: &mut String) {
    if let [one] = types
        && !matches!(m.type_kind(*one), T::Function { .. })
    {
        return ty(m, *one, out);
    }
    out.push('(');
    for (i, &t) in types.iter().enumerate() {
        out.push_str(if i > 0 { ", " } else { "" });
        ty(m, t, out);
    }
    out.push(')');
}

pub(super) fn attribute(m: &Module, a: Attribute, out: &mut String) {
    write_attribute(m, a, false, out);
}

pub(super) fn dictionary(m: &Module, entries: &[&(AttributeName, Attribute)], out: &mut String) {
    out.push('{');
    for (i, (name, value)) in entries.iter().map(|e| (&e.0, e.1)).enumerate() {
        out.push_str(if i > 0 { ", " } else { "" });
        if is_bare_name(name) {
            out.push_str(name);
        } else {
            quoted(name, out);
        }
        if *m.attribute_kind(value) != A::Unit {
            out.push_str(" = ");
            attribute(m, value, out);
        }
    }
    out.push('}');
}

fn is_bare_name(name: &str) -> bool {
    let mut chars = name.chars();
    chars
        .next()
        .is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$'))
}

/// Within arrays, `i64` and `f64` are understood.
fn write_attribute(m: &Module, a: Attribute, elide: bool, out: &mut String) {
    let suffix = |out: &mut String, t: Type, elided: bool| {
        if !elided {
            out.push_str(" : ");
            ty(m, t, out);
        }
    };
    match m.attribute_kind(a) {
        A::Unit => out.push_str("unit"),
        A::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        A::Integer { value, ty: t } => {
            let i64_type = T::Integer {
                width: 64,
                sign: Signedness::Signless,
            };
            let _ = write!(out, "{value}");
            suffix(out, *t, elide && *m.type_kind(*t) == i64_type);
        }
        A::Float { bits, ty: t } => {
            // Bits in hexadecimal would be read as an integer.
            let start = out.len();
            scalar(m, *bits, *t, out);
            let bare = *m.type_kind(*t) == T::Float(crate::mosaic::FloatKind::F64);
            let decimal = !out[start..].starts_with("0x");
            suffix(out, *t, elide && bare && decimal);
        }
        A::String(s) => quoted(s, out),
        A::Type(t) => ty(m, *t, out),
        A::Array(list) => {
            out.push('[');
            for (i, &x) in list.iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                write_attribute(m, x, true, out);
            }
            out.push(']');
        }
        A::Dictionary(entries) => dictionary(m, &entries.iter().collect::<Vec<_>>(), out),
        A::DenseArray { element, values } => {
            out.push_str("array<");
            ty(m, *element, out);
            for (i, &v) in values.iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { ": " });
                scalar(m, v as u64, *element, out);
            }
            out.push('>');
        }
        A::DenseElements { ty: t, values } => {
            out.push_str("dense<");
            let shape = m.type_kind(*t).shape().unwrap_or(&[]).to_vec();
            let element = m.type_kind(*t).element().unwrap_or(*t);
            match values.as_slice() {
                [one] => scalar(m, *one, element, out),
                many => elements(m, many, &shape, element, out),
            }
            out.push('>');
            suffix(out, *t, false);
        }
        A::Symbol(name) => symbol(name, out),
        A::AffineMap(map) => {
            let _ = write!(out, "affine_map<{map}>");
        }
        A::Dialect { name, body } => {
            let _ = match body {
                Some(body) => write!(out, "#{name}<{body}>"),
                None => write!(out, "#{name}"),
            };
        }
        A::Opaque(text) => out.push_str(text),
    }
}

fn elements(m: &Module, values: &[u64], shape: &[i64], element: Type, out: &mut String) {
    let Some((&n, rest)) = shape.split_first() else {
        return values.iter().for_each(|&v| scalar(m, v, element, out));
    };
    out.push('[');
    let chunk = values.len().checked_div(n.max(0) as usize).unwrap_or(0);
    if chunk > 0 {
        for (i, part) in values.chunks(chunk).enumerate() {
            out.push_str(if i > 0 { ", " } else { "" });
            elements(m, part, rest, element, out);
        }
    }
    out.push(']');
}

fn scalar(m: &Module, bits: u64, t: Type, out: &mut String) {
    let _ = match m.type_kind(t) {
        T::Float(kind) => write!(out, "{}", kind.to_text(bits)),
        T::Integer { width: 1, .. } => write!(out, "{}", bits & 1 == 1),
        T::Integer {
            sign: Signedness::Unsigned,
            ..
        } => write!(out, "{bits}"),
        _ => write!(out, "{}", bits as i64),
    };
}

/// `@name`, `@"odd name"`, nested by `::`.
pub(super) fn symbol(name: &str, out: &mut String) {
    for (i, part) in name.split("::").enumerate() {
        out.push_str(if i > 0 { "::@" } else { "@" });
        if is_bare_name(part) {
            out.push_str(part);
        } else {
            quoted(part, out);
        }
    }
}

pub(super) fn quoted(text: &str, out: &mut String) {
    out.push('"');
    for byte in text.bytes() {
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            0x20..=0x7E => out.push(byte as char),
            _ => {
                let _ = write!(out, "\\{byte:02X}");
            }
        }
    }
    out.push('"');
}
