//! Modules that Pallas lowers to, read and written: the same text, the same module, in every form.
//!
//! The texts under `data/` are lowered from `own_kernels.py` by `mosaic_tool.py data`.

use std::fs;
use std::path::{Path, PathBuf};

use tilecast_tpu::mosaic::version::{CURRENT, SUPPORTED, VersionError};
use tilecast_tpu::mosaic::{AttributeKind, Module, ParseError};

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

/// Name and text of each file with this ending and no other.
fn files(ending: &str) -> Vec<(String, String)> {
    let mut found: Vec<_> = fs::read_dir(data())
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter_map(|p| {
            let name = p.file_name()?.to_str()?.strip_suffix(ending)?.to_owned();
            (!name.contains('.')).then(|| (name, fs::read_to_string(&p).unwrap()))
        })
        .collect();
    found.sort();
    assert!(!found.is_empty(), "no *{ending} in {}", data().display());
    found
}

fn read(name: &str) -> String {
    fs::read_to_string(data().join(name)).unwrap()
}

/// The text without the names of values and the lines of the module itself, which depend on the
/// printer.
fn without_names(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[1..lines.len() - 1]
        .iter()
        .map(|line| {
            let mut parts = line.split('%');
            let first = parts.next().unwrap_or("").to_owned();
            parts.fold(first, |mut out, part| {
                let end = |c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-');
                out.push('%');
                out.push_str(&part[part.find(end).unwrap_or(part.len())..]);
                out
            })
        })
        .collect()
}

#[test]
fn pretty_text_comes_back_to_the_byte() {
    for (name, text) in files(".mlir") {
        let module = Module::parse(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(module.to_pretty(), text, "{name}");
        assert_eq!(module.verify(), Ok(()), "{name}");
    }
}

#[test]
fn every_form_holds_the_same_module() {
    for (name, text) in files(".mlir") {
        let module = Module::parse(&text).unwrap();
        for other in [
            read(&format!("{name}.generic.mlir")),
            read(&format!("{name}.v18.mlir")),
        ] {
            assert_eq!(Module::parse(&other).unwrap(), module, "{name}");
        }
        for written in [
            module.to_pretty(),
            module.to_generic(),
            module.to_stable(CURRENT).unwrap(),
        ] {
            assert_eq!(
                Module::parse(&written).unwrap(),
                module,
                "{name}:\n{written}"
            );
        }
    }
}

#[test]
fn stable_text_is_that_of_the_compilers_own_writer() {
    for (ending, version) in [(".v18.mlir", 18), (".v12.mlir", 12)] {
        for (name, text) in files(ending) {
            let module = Module::parse(&text).unwrap();
            let ours = without_names(&module.to_stable(version).unwrap());
            for (a, b) in ours.iter().zip(&without_names(&text)) {
                assert_eq!(a, b, "{name} version {version}");
            }
        }
    }
}

#[test]
fn versions_between_are_read_back() {
    let module = Module::parse(&read("copies.mlir")).unwrap();
    for version in SUPPORTED {
        let text = module.to_stable(version).unwrap();
        assert!(text.contains(&format!("stable_mosaic.version = {version} : i64")));
        assert_eq!(Module::parse(&text).unwrap(), module);
    }
    assert_eq!(
        module.to_stable(11),
        Err(VersionError::Unknown { version: 11 })
    );
    assert_eq!(
        module.to_stable(19),
        Err(VersionError::Unknown { version: 19 })
    );
}

#[test]
fn what_a_version_lacks_is_an_error() {
    let mut module = Module::parse(&read("tiled_matmul.mlir")).unwrap();
    let mut product = None;
    module.walk(module.root(), &mut |op| {
        if module.op_name(op) == "tpu.matmul" {
            product = Some(op);
        }
    });
    let product = product.unwrap();
    let yes = module.attribute(AttributeKind::Bool(true));
    module.set_attribute(product, "transpose_lhs_hint", yes);
    assert!(module.to_stable(13).is_ok());
    let error = module.to_stable(12).unwrap_err();
    assert!(
        matches!(
            error,
            VersionError::Newer {
                needed: 13,
                version: 12,
                ..
            }
        ),
        "{error}"
    );
}

fn body(text: &str) -> String {
    format!("func.func @f(%arg0: i32, %arg1: vector<8x128xf32>) {{\n{text}\n  return\n}}\n")
}

fn rejected(text: &str) -> ParseError {
    match Module::parse(text) {
        Ok(m) => panic!("accepted:\n{text}\nas\n{}", m.to_pretty()),
        Err(e) => e,
    }
}

/// Every kind of attribute and type, aliases, locations, blocks: what the kernels do not show.
#[test]
fn rare_syntax_survives() {
    let text = r##"#map = affine_map<(d0, d1)[s0] -> (d0 * 8 + s0, (d1 floordiv 2) mod 4, -d0 + 3)>
#loc = loc("file.py":3:4)
!sem = !tpu.dma_semaphore
module @"odd name" attributes {a.b = unit, c} {
  func.func private @f(%a: memref<8x?xf32, #map>, %s: memref<!sem, 4 : i32> loc(#loc)) -> (i32, f32) attributes {x = [1, 2.5, 0x7FF0000000000000 : f64, 7 : i8, "q\22\\", @g::@h, [], {}, i8, vector<2xi1>], y = dense<[[1, 2], [3, 4]]> : vector<2x2xi16>, z = array<i64>, u = #foo.bar<a -> b, "<">, v = dense<"0x0000803F00000040"> : vector<2xf32>} {
    %0:2 = "foo.pair"(%a) {k = #llvm.thing<x = 1>, t = !quant.any<i8:f32>} : (memref<8x?xf32, #map>) -> (i32, f32) loc(unknown)
    "cf.br"(%0#0)[^bb1] : (i32) -> ()
  ^bb1(%x: i32):
    %c = "bar.cond"() : () -> i1
    "cf.cond_br"(%c, %x)[^bb1, ^bb2] {operandSegmentSizes = array<i32: 1, 1, 0>} : (i1, i32) -> ()
  ^bb2:  // a comment
    %y = arith.addi %x, %x overflow<nsw, nuw> : i32
    %z = arith.mulf %0#1, %0#1 fastmath<contract> {note = 1 : si32} : f32
    return %y, %z : i32, f32
  }
}
#loc1 = loc("x")
"##;
    let module = Module::parse(text).unwrap();
    assert_eq!(module.verify(), Ok(()));
    for again in [
        module.to_pretty(),
        module.to_generic(),
        module.to_stable(CURRENT).unwrap(),
    ] {
        assert_eq!(Module::parse(&again).unwrap(), module, "{again}");
    }
    let pretty = module.to_pretty();
    for kept in [
        "affine_map<(d0, d1)[s0] -> (d0 * 8 + s0, (d1 floordiv 2) mod 4, d0 * -1 + 3)>",
        "#foo.bar<a -> b, \"<\">",
        "!quant.any<i8:f32>",
        "dense<[1.000000e+00, 2.000000e+00]> : vector<2xf32>",
        "dense<[[1, 2], [3, 4]]> : vector<2x2xi16>",
        "overflow<nsw, nuw>",
        "[1, 2.500000e+00, 0x7FF0000000000000 : f64, 7 : i8, ",
        "@g::@h",
    ] {
        assert!(pretty.contains(kept), "{kept} in\n{pretty}");
    }
}

#[test]
fn the_pretty_form_is_not_taken_where_it_would_lose_a_type() {
    let predicate = r#""arith.cmpi"(%arg0, %arg0) {predicate = 0 : i32} : (i32, i32) -> i1"#;
    let segments = concat!(
        r#""tpu.vector_load"(%arg2, %arg3, %arg3) {operandSegmentSizes = array<i64: 1, 2, 0>, strides = array<i32>} : "#,
        "(memref<8x128xf32, #tpu.memory_space<vmem>>, index, index) -> vector<8x128xf32>",
    );
    for (operation, kept) in [
        (predicate, "{predicate = 0 : i32}"),
        (segments, "operandSegmentSizes = array<i64: 1, 2, 0>"),
    ] {
        let arguments =
            "%arg0: i32, %arg2: memref<8x128xf32, #tpu.memory_space<vmem>>, %arg3: index";
        let text = format!("func.func @f({arguments}) {{\n  %0 = {operation}\n  return\n}}\n");
        let module = Module::parse(&text).unwrap();
        let pretty = module.to_pretty();
        assert!(pretty.contains(kept), "{pretty}");
        assert_eq!(Module::parse(&pretty).unwrap(), module, "{pretty}");
        let error = module.verify().unwrap_err().to_string();
        assert!(error.contains(&operation[1..10]), "{error}");
    }
}

#[test]
fn a_loop_whose_body_yields_nothing_is_written_in_full() {
    let text = r#"func.func @f(%c: i1) {
  "scf.while"() ({
    "scf.condition"(%c) : (i1) -> ()
  }, {
    "foo.bar"() : () -> ()
  }) : () -> ()
  return
}
"#;
    let module = Module::parse(text).unwrap();
    let pretty = module.to_pretty();
    assert_eq!(Module::parse(&pretty).unwrap(), module, "{pretty}");
}

#[test]
fn errors_say_where_and_what() {
    let e = rejected(&body("  %0 = arith.addi %arg0, %arg9 : i32"));
    assert_eq!((e.line, e.column), (2, 26));
    assert_eq!(e.expected, "a value defined before");
    assert_eq!(e.found, "`%arg9`");
    let e = rejected(&body("  %0 = arith.addi %arg0, %arg0 : i64"));
    assert_eq!((e.line, e.column), (2, 34));
    assert_eq!(
        e.to_string(),
        "line 2, column 34: expected an operand of type i64, found i32"
    );
    let e = rejected(&body("  %0 = arith.cmpi lt, %arg0, %arg0 : i32"));
    assert!(e.expected.contains("slt"), "{e}");
}

#[test]
fn wrong_texts_are_rejected() {
    for (text, expected) in [
        ("%arg0 = arith.constant 1 : i32", "a new name"),
        ("%0 = arith.frob %arg0 : i32", "custom form is known"),
        ("%0:2 = arith.addi %arg0, %arg0 : i32", "1 results"),
        ("%0 = arith.constant 1 : f32", "hexadecimal"),
        ("%0 = arith.constant 0x1FFFFFFFF : f32", "hexadecimal"),
        (
            "%0 = arith.constant dense<[1, 2]> : vector<3xi32>",
            "3 values",
        ),
        (
            "%0 = arith.constant dense<1> : vector<99999999999999999999xi32>",
            "64 bits",
        ),
        (
            "%0 = tpu.iota {dimensions = array<i32: 0>, dimensions = array<i32: 1>} : vector<8xi32>",
            "new name",
        ),
        (
            "%0 = \"a.b\"() {x = #unknown} : () -> i32",
            "attribute defined before",
        ),
        (
            "%0 = \"a.b\"() {x = \"unclosed} : () -> i32",
            "an attribute",
        ),
        (
            "\"a.b\"()[^nowhere] : () -> ()",
            "every block to be defined",
        ),
        ("%0 = \"a.b\"(%arg0) : () -> i32", "types of 1 operands"),
        ("%0 = \"a.b\"() : () -> i9999", "1 to 64 bits"),
        ("%0 = \"a.b\"() : () -> vector<4?xf32>", "`x` after a size"),
        (
            "scf.for %i = %arg0 to %arg0 step %arg0 { }",
            "of type index",
        ),
        ("%0 = tpu.matmul %arg1, %arg1 : vector<8x128xf32>", "`,`"),
    ] {
        let error = rejected(&body(text));
        assert!(error.expected.contains(expected), "{text}: {error}");
    }
    assert!(rejected("module { ").found.contains("end of the text"));
    assert!(
        rejected("module {} module {}")
            .expected
            .contains("end of the text")
    );
    let old = "\"builtin.module\"() ({}) {stable_mosaic.version = 3 : i64} : () -> ()";
    assert!(rejected(old).found.contains("version 3"));
}

#[test]
fn nesting_is_limited() {
    let deep = |open: &str, inner: &str, close: &str, n: usize| {
        format!("{}{inner}{}", open.repeat(n), close.repeat(n))
    };
    for n in [2000, 200_000] {
        for attribute in [
            deep("[", "1", "]", n),
            deep("{a = ", "1", "}", n),
            deep("vector<1x", "i1", ">", n),
            format!("affine_map<(d0) -> ({})>", deep("(", "d0", ")", n)),
            format!("affine_map<(d0) -> ({})>", deep("-", "d0", "", n)),
            format!("affine_map<(d0) -> (d0{})>", " + d0".repeat(n)),
            deep("() -> (", "i1", ")", n),
            format!("dense<{}> : vector<1xi32>", deep("[", "1", "]", n)),
            format!("#a.b<{}>", deep("<", "1", ">", n)),
        ] {
            rejected(&body(&format!("\"a.b\"() {{x = {attribute}}} : () -> ()")));
        }
        rejected(&body(&deep("\"a.b\"() ({ ", "", " }) : () -> ()", n)));
        rejected(&body(&deep("scf.if %arg0 { ", "", " }", n)));
    }
}
