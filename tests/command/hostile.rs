//! Wrong requests: each is refused with exit code 2 and a message, and nothing is written.

use std::fs;

use crate::files::{Tensor, encode, with_header};
use crate::tilecast;

const B: usize = 4;
const H: usize = 8;
const V: usize = 16;

/// A right set of tensors, with some replaced or added.
fn tensors(changes: Vec<Tensor>) -> Vec<Tensor> {
    let mut tensors = vec![
        Tensor::f32("x", &[B, H], &[0.5; B * H]),
        Tensor::f32("w", &[H, V], &[0.25; H * V]),
        Tensor::i32("labels", &[0, 1, 2, 3]),
    ];
    for change in changes {
        tensors.retain(|tensor| tensor.name != change.name);
        tensors.push(change);
    }
    tensors
}

fn without(name: &str) -> Vec<u8> {
    let mut tensors = tensors(vec![]);
    tensors.retain(|tensor| tensor.name != name);
    encode(&tensors)
}

fn with(change: Tensor) -> Vec<u8> {
    encode(&tensors(vec![change]))
}

fn zeros(name: &'static str, dtype: &'static str, shape: &[usize]) -> Tensor {
    let size = match dtype {
        "F64" | "I64" => 8,
        "F32" | "I32" => 4,
        "F16" | "BF16" => 2,
        _ => 1,
    };
    let len: usize = shape.iter().product();
    Tensor::raw(name, dtype, shape, vec![0; len * size])
}

fn one(dtype: &str, shape: &str, offsets: &str, data: usize) -> Vec<u8> {
    let header =
        format!(r#"{{"x":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}}}"#);
    with_header(&header, &vec![0; data], None)
}

/// Refuses the request, with a message that has all of `words`.
fn refuse(name: &str, content: Option<&[u8]>, options: &[&str], words: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    if let Some(content) = content {
        fs::write(folder.path().join("in"), content).unwrap();
    }
    let mut arguments = vec!["run", "linear-ce"];
    for (option, value) in [("--backend", "cpu"), ("--input", "in"), ("--output", "out")] {
        if !options.contains(&option) {
            arguments.extend([option, value]);
        }
    }
    arguments.extend(options);
    let ran = tilecast(folder.path(), &arguments);
    assert_eq!(ran.code, Some(2), "{name}: {}", ran.stderr);
    assert!(!ran.stderr.contains("panicked"), "{name}: {}", ran.stderr);
    assert!(ran.stderr.contains("error"), "{name}: {}", ran.stderr);
    for word in words {
        assert!(
            ran.stderr.contains(word),
            "{name}: no `{word}` in {}",
            ran.stderr
        );
    }
    let left = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(
        left,
        usize::from(content.is_some()),
        "{name} left a file behind"
    );
}

fn refuse_file(name: &str, content: &[u8], words: &[&str]) {
    refuse(name, Some(content), &[], words);
}

#[test]
fn files_that_are_not_what_they_claim() {
    let good = encode(&tensors(vec![]));
    refuse("no file", None, &[], &["in"]);
    refuse_file("empty", b"", &["0 bytes"]);
    refuse_file("shorter than its length", &good[..5], &["5 bytes"]);
    refuse_file("truncated header", &good[..60], &["truncated"]);
    refuse_file("truncated data", &good[..good.len() - 7], &["truncated"]);
    refuse_file(
        "more data than tensors",
        &[&good[..], &[0; 8]].concat(),
        &["follow the header"],
    );
    refuse_file(
        "not a tensor file",
        &[b"PK\x03\x04".as_slice(), &[7; 256]].concat(),
        &["header"],
    );
    for claimed in [1 << 63, u64::MAX, 1_000_000_000_000, good.len() as u64 + 3] {
        let file = with_header("{}", &good, Some(claimed));
        refuse_file("length that lies", &file, &[&claimed.to_string()]);
    }
    refuse_file(
        "length too short",
        &with_header("{}  ", &[], Some(1)),
        &["header is invalid"],
    );
    refuse_file(
        "not JSON",
        &with_header("{x", &[], None),
        &["header is invalid"],
    );
    refuse_file(
        "a list",
        &with_header("[]", &[], None),
        &["header is invalid"],
    );
    refuse_file(
        "not UTF-8",
        &[&2_u64.to_le_bytes()[..], &[0xff, 0xfe]].concat(),
        &["header is invalid"],
    );
    let deep = format!("{{\"x\":{}", "[".repeat(100_000));
    refuse_file(
        "deeply nested",
        &with_header(&deep, &[], None),
        &["header is invalid"],
    );
    refuse_file("no tensors", &with_header("{}", &[], None), &["x", "none"]);
}

#[test]
fn tensors_that_are_not_where_they_claim() {
    refuse_file(
        "past the end",
        &one("F32", "[4,8]", "[0,128]", 64),
        &["128", "64"],
    );
    refuse_file("backwards", &one("F32", "[4,8]", "[128,0]", 128), &["x"]);
    refuse_file(
        "a hole before",
        &one("F32", "[4,8]", "[8,136]", 136),
        &["x"],
    );
    refuse_file(
        "larger than its data",
        &one("F32", "[1048576,1048576]", "[0,128]", 128),
        &["header is invalid"],
    );
    refuse_file(
        "overflow",
        &one("F32", "[1099511627776,1099511627776]", "[0,0]", 0),
        &["header is invalid"],
    );
    refuse_file(
        "overflow in bits",
        &one(
            "U8",
            "[18446744073709551615]",
            "[0,18446744073709551615]",
            0,
        ),
        &["header"],
    );
    refuse_file(
        "overflow of offsets",
        &one(
            "F32",
            "[4]",
            "[18446744073709551600,18446744073709551616]",
            0,
        ),
        &["header"],
    );
    refuse_file(
        "negative",
        &one("F32", "[-1,8]", "[0,128]", 128),
        &["header is invalid"],
    );
    refuse_file(
        "unknown type",
        &one("F33", "[4,8]", "[0,128]", 128),
        &["F33"],
    );
    let entry = |begin: usize| {
        format!(
            r#"{{"dtype":"F32","shape":[4,8],"data_offsets":[{begin},{}]}}"#,
            begin + 128
        )
    };
    let both = |second| format!(r#"{{"x":{},"w":{}}}"#, entry(0), entry(second));
    refuse_file(
        "overlap",
        &with_header(&both(64), &[0; 192], None),
        &["header is invalid"],
    );
    refuse_file(
        "the same place",
        &with_header(&both(0), &[0; 128], None),
        &["header is invalid"],
    );
    let twice = format!(r#"{{"x":{},"x":{}}}"#, entry(0), entry(128));
    refuse_file(
        "the same name",
        &with_header(&twice, &[0; 256], None),
        &["header is invalid"],
    );
    // Sizes below one byte let offsets climb until a sum of them wraps around to the size of the file.
    let huge = 1_u64 << 61;
    let entries: Vec<String> = (0..8_u64)
        .map(|i| {
            let (begin, len) = (i * (huge - 1), huge - 1);
            let shape = 2 * len;
            format!(
                r#""t{i}":{{"dtype":"F4","shape":[{shape}],"data_offsets":[{begin},{}]}}"#,
                begin + len
            )
        })
        .collect();
    let header = format!("{{{}}}", entries.join(","));
    refuse_file(
        "offsets that wrap",
        &with_header(&header, &[], None),
        &["truncated"],
    );
}

#[test]
fn tensors_of_the_wrong_kind() {
    for name in ["x", "w", "labels"] {
        refuse_file(name, &without(name), &[name, "missing"]);
    }
    for (change, words) in [
        (
            zeros("w", "F32", &[H + 1, V]),
            &["w is [9, 16]", "x is [4, 8]"][..],
        ),
        (zeros("w", "F32", &[V, H]), &["w is [16, 8]"]),
        (zeros("x", "F32", &[H]), &["x is [8]", "[B, H]"]),
        (zeros("x", "F32", &[1, B, H]), &["x is [1, 4, 8]", "[B, H]"]),
        (zeros("w", "F32", &[]), &["w is []", "[H, V]"]),
        (zeros("labels", "I32", &[B - 1]), &["labels", "[3]", "[4]"]),
        (
            zeros("labels", "I32", &[B, 1]),
            &["labels", "[4, 1]", "[4]"],
        ),
        (
            zeros("labels", "F32", &[B]),
            &["labels is F32", "I32 or I64"],
        ),
        (zeros("x", "F64", &[B, H]), &["x is F64", "F32 or BF16"]),
        (zeros("x", "BF16", &[B, H]), &["w is F32", "x is BF16"]),
        (zeros("w", "U8", &[H, V]), &["w is U8"]),
        (zeros("x", "F32", &[0, H]), &["tokens is 0", "at least 1"]),
        (zeros("w", "F32", &[H, 0]), &["vocab is 0", "at least 1"]),
        (zeros("weight", "F32", &[B - 1]), &["weight", "[3]", "[4]"]),
        (zeros("weight", "I32", &[B]), &["weight is I32", "F32"]),
        (zeros("bias", "F32", &[V + 1]), &["bias", "[17]", "[16]"]),
        (zeros("d_loss", "F32", &[]), &["d_loss", "[]", "[4]"]),
        (zeros("d_loss", "F32", &[B + 1]), &["d_loss", "[5]", "[4]"]),
        (zeros("d_lse", "F64", &[B]), &["d_lse is F64"]),
    ] {
        let name = format!("{} {} {:?}", change.name, change.dtype, change.shape);
        refuse_file(&name, &with(change), words);
    }
    let d_loss = with(zeros("d_loss", "F32", &[B]));
    refuse(
        "d_loss per token",
        Some(&d_loss),
        &["--reduction", "mean"],
        &["[4]", "[] or [1]"],
    );
}

#[test]
fn labels_outside_the_vocabulary() {
    for label in [V as i64, 1 << 40, -7, i64::MIN, i64::MAX, (1 << 32) + 2] {
        let file = with(Tensor::i64("labels", &[0, label, 1, 2]));
        let words = [&format!("label {label} of token 1")[..], "0..16"];
        refuse_file("label", &file, &words);
        refuse(
            "label, not ignored",
            Some(&file),
            &["--ignore-index", "-100"],
            &words,
        );
    }
}

#[test]
fn options_out_of_range() {
    let good = encode(&tensors(vec![]));
    for (option, value, words) in [
        ("--backend", "abacus", &["abacus", "reference"][..]),
        ("--reduction", "median", &["median", "mean"]),
        ("--pass", "sideways", &["sideways", "backward"]),
        ("--strategy", "wishful", &["wishful", "streaming"]),
        ("--grad-dtype", "i4", &["i4", "bf16"]),
        ("--grad-dtype", "bf16", &["gradients", "bf16"]),
        ("--level", "avx9000", &["avx9000", "portable"]),
        ("--blocks", "16,16", &["2 numbers"]),
        ("--blocks", "0,16,32", &["b is `0`"]),
        ("--blocks", "-1,16,32", &["b is `-1`"]),
        ("--blocks", "a,b,c", &["b is `a`"]),
        (
            "--blocks",
            "16,16,99999999999999999999",
            &["v is `99999999999999999999`", "2147483647"],
        ),
        ("--blocks", "2147483647,2147483647,2147483647", &[]),
        ("--blocks", "1,1,2147483647", &["memory"]),
        ("--blocks", "2147483647,1,1", &["memory"]),
        ("--backward-blocks", "16,0,32", &["h is `0`"]),
        ("--soft-cap", "-1", &["soft cap is -1", "at least"]),
        ("--soft-cap", "nan", &["soft cap is NaN"]),
        ("--soft-cap", "wide", &["wide"]),
        ("--z-loss", "nan", &["z-loss", "NaN"]),
        ("--z-loss", "-0.5", &["-0.5", "not negative"]),
        ("--label-smoothing", "1.5", &["1.5", "[0, 1]"]),
        ("--ignore-index", "1.5", &["1.5"]),
        ("--threads", "0", &["0", "1"]),
        ("--threads", "-1", &["-1"]),
        ("--threads", "many", &["many"]),
        ("--threads", "100000", &["100000"]),
        ("--chunk-columns", "0", &["0"]),
        ("--output", "missing/out", &["no folder missing"]),
        ("--output", ".", &["not a file"]),
        ("--output", "-", &["standard output", "./-"]),
        ("--input", ".", &["regular file"]),
    ] {
        refuse(
            &format!("{option} {value}"),
            Some(&good),
            &[option, value],
            words,
        );
    }
}

#[test]
fn an_output_that_was_there_survives_a_refusal() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("in"), without("labels")).unwrap();
    fs::write(folder.path().join("out"), "earlier").unwrap();
    let arguments = [
        "run",
        "linear-ce",
        "--backend",
        "cpu",
        "--input",
        "in",
        "--output",
        "out",
    ];
    assert_eq!(tilecast(folder.path(), arguments).code, Some(2));
    assert_eq!(
        fs::read_to_string(folder.path().join("out")).unwrap(),
        "earlier"
    );
}

#[cfg(unix)]
#[test]
fn an_output_that_is_no_file_is_not_replaced_by_one() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("in"), encode(&tensors(vec![]))).unwrap();
    let socket = folder.path().join("out");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let arguments = [
        "run",
        "linear-ce",
        "--backend",
        "cpu",
        "--input",
        "in",
        "--output",
        "out",
    ];
    let ran = tilecast(folder.path(), arguments);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("not a file"), "{}", ran.stderr);
    assert!(!socket.metadata().unwrap().is_file());
}
