//! One page with the block sizes of every target: heat maps, the front of time against VMEM, and the
//! ledger of each configuration. It needs no network: data, style and script are in it.

use std::io::{self, Write};

use serde_json::{Value, json};
use tilecast::sim::kernel::Bounds;
use tilecast::sim::memory::VmemLedger;
use tilecast::sim::problem::Problem;

use super::super::args::Op;
use super::super::report::{assumptions, headline};
use super::{Tuned, counts_text, explain, row_json};

const PAGE: &str = include_str!("page.html");

/// Writes the page.
pub(super) fn write(mut to: impl Write, op: Op, tuned: &[Tuned<impl Problem>]) -> io::Result<()> {
    let names: Vec<&str> = (tuned.iter())
        .map(|tuned| tuned.request.target().name)
        .collect();
    let title = format!("{} block sizes on {}", op.name(), names.join(", "));
    let data = json!({
        "bounds": Bounds::default().named().map(|(name, _)| name),
        "targets": tuned.iter().map(|tuned| target(op, tuned)).collect::<Vec<_>>(),
    });
    let mut rest = PAGE;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after.split_once("}}").unwrap_or((after, ""));
        to.write_all(before.as_bytes())?;
        match name {
            "title" => to.write_all(escaped(&title).as_bytes())?,
            "data" => to.write_all(script_json(&data).as_bytes())?,
            _ => unreachable!("the page has no other placeholder"),
        }
        rest = after;
    }
    to.write_all(rest.as_bytes())
}

fn target(op: Op, tuned: &Tuned<impl Problem>) -> Value {
    let Tuned { request, rows, .. } = tuned;
    json!({
        "name": request.target().name,
        "headline": headline(op, request),
        "counts": counts_text(tuned),
        "notes": explain::sentences(tuned),
        "assumptions": assumptions(request),
        "default_limit_bytes": request.target().default_vmem_limit_bytes.value,
        "rows": rows.iter().map(|row| {
            let mut cell = row_json(request.target(), row);
            for key in ["blocks", "backward_blocks"] {
                let blocks = &cell[key];
                if blocks.is_object() {
                    cell[key] = json!([blocks["b"], blocks["h"], blocks["v"]]);
                }
            }
            cell["bounds"] = json!(row.bounds.named().map(|(_, seconds)| seconds));
            cell["ledgers"] = row.ledgers.iter().map(|(name, vmem)| ledger(name, vmem)).collect();
            cell
        }).collect::<Vec<_>>(),
    })
}

fn ledger(kernel: &str, vmem: &VmemLedger) -> Value {
    let terms = vmem.terms.iter().map(|term| {
        json!({
            "name": term.name,
            "kind": term.kind.name(),
            "bytes": term.bytes,
            "buffers": term.buffers,
        })
    });
    json!({
        "kernel": kernel,
        "used_bytes": vmem.used_bytes(),
        "terms": terms.collect::<Vec<_>>(),
    })
}

/// Text between tags.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// JSON in which nothing can end the element around it.
fn script_json(value: &Value) -> String {
    value
        .to_string()
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_end_the_element_around_it() {
        let hostile = "</script><!-- & \u{2028}\"";
        let text = script_json(&json!({ "name": hostile }));
        assert!(!text.contains(['<', '>', '&']), "{text}");
        let back: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(back["name"], hostile);
        assert_eq!(escaped("a<b> & c"), "a&lt;b&gt; &amp; c");
    }

    #[test]
    fn the_page_asks_for_nothing_from_outside() {
        for outside in [
            "http:", "https:", "src=", "url(", "@import", "import(", "fetch(",
        ] {
            let rest = PAGE.replace("http://www.w3.org/2000/svg", "");
            assert!(!rest.contains(outside), "{outside}");
        }
    }
}
