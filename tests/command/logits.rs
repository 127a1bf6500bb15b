//! The ops on given logits: what `run` reads and writes, what `emit` writes, and what is refused.

mod refused;

use std::fs;

use safetensors::Dtype;
use tempfile::TempDir;

use crate::files::{Read, Tensor, decode, encode};
use crate::{Ran, tilecast};

pub(crate) const B: usize = 12;
pub(crate) const V: usize = 75;
const OPS: [&str; 3] = ["logits-ce", "grpo", "entropy"];

/// Values that bf16 holds exactly.
pub(crate) fn values(len: usize, seed: f64, scale: f64) -> Vec<f32> {
    let value = |i| scale * (12.9898 * (i as f64 + seed)).sin();
    (0..len)
        .map(|i| half::bf16::from_f64(value(i)).to_f32())
        .collect()
}

/// Everything that `op` may read.
pub(crate) fn tensors(op: &str, bf16: bool) -> Vec<Tensor> {
    let matrix = if bf16 { Tensor::bf16 } else { Tensor::f32 };
    let labels: Vec<i64> = (0..B as i64).map(|i| i * 17 % V as i64).collect();
    let vector = |name, seed| Tensor::f32(name, &[B], &values(B, seed, 1.0));
    let mut tensors = vec![matrix("logits", &[B, V], &values(B * V, 0.1, 3.0))];
    match op {
        "logits-ce" => tensors.extend([
            Tensor::i64("labels", &labels),
            vector("d_loss", 0.2),
            vector("d_logp", 0.3),
            vector("d_lse", 0.4),
        ]),
        "grpo" => {
            let mask: Vec<f32> = (0..B).map(|i| f32::from(i % 5 != 2)).collect();
            let old: Vec<f32> = values(B, 0.5, 0.5).iter().map(|x| x - 5.0).collect();
            tensors.extend([
                Tensor::i64("labels", &labels),
                vector("advantage", 0.6),
                Tensor::f32("old_logp", &[B], &old),
                Tensor::f32("ref_logp", &[B], &old),
                Tensor::f32("mask", &[B], &mask),
                Tensor::f32("d_loss", &[], &[2.0]),
                vector("d_logp", 0.7),
                vector("d_ratio", 0.8),
                vector("d_entropy", 0.9),
            ]);
        }
        _ => tensors.push(vector("d_entropy", 0.2)),
    }
    tensors
}

/// Options with which `op` reads all of it.
pub(crate) fn options(op: &str) -> &'static [&'static str] {
    match op {
        "logits-ce" => &[
            "--temperature",
            "0.7",
            "--label-smoothing",
            "0.1",
            "--z-loss",
            "0.01",
            "--ignore-index",
            "17",
        ],
        "grpo" => &[
            "--temperature",
            "0.7",
            "--variant",
            "grpo",
            "--ratio",
            "sequence",
            "--sequence-length",
            "4",
            "--clip-low",
            "0.1",
            "--clip-high",
            "0.28",
            "--clip-two-sided",
            "3",
            "--kl-beta",
            "0.04",
        ],
        _ => &["--temperature", "0.7"],
    }
}

pub(crate) struct Folder(pub(crate) TempDir);

impl Folder {
    pub(crate) fn new(tensors: &[Tensor]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("in"), encode(tensors)).unwrap();
        Self(folder)
    }

    pub(crate) fn run(&self, op: &str, backend: &str, options: &[&str]) -> Ran {
        let arguments = ["run", op, "--backend", backend, "--input", "in", "--output"];
        let arguments = arguments.iter().chain(&["out"]);
        tilecast(self.0.path(), arguments.chain(options))
    }

    pub(crate) fn results(&self, op: &str, backend: &str, options: &[&str]) -> Vec<(String, Read)> {
        let ran = self.run(op, backend, options);
        assert_eq!((ran.code, &ran.stderr[..]), (Some(0), ""), "{options:?}");
        assert_eq!(ran.stdout.lines().count(), 1, "{}", ran.stdout);
        decode(&self.0.path().join("out"))
    }
}

/// Same names, types and shapes, and values up to a share of the largest.
pub(crate) fn assert_same(results: &[(String, Read)], exact: &[(String, Read)], share: f32) {
    assert_eq!(results.len(), exact.len());
    for ((name, got), (exact_name, exact)) in results.iter().zip(exact) {
        assert_eq!(
            (name, got.dtype, &got.shape),
            (exact_name, exact.dtype, &exact.shape)
        );
        let rounded = ["d_logits", "dx", "dw", "y"].contains(&&name[..]);
        let share = if rounded { share } else { 1e-5 };
        let largest = exact
            .values
            .iter()
            .fold(1e-3_f32, |max, x| max.max(x.abs()));
        for (i, (&got, &exact)) in got.values.iter().zip(&exact.values).enumerate() {
            let close = (got - exact).abs() <= share * largest;
            assert!(close, "{name}[{i}]: got {got}, exact {exact}");
        }
    }
}

pub(crate) fn assert_refused(ran: &Ran, what: &str, words: &[&str]) {
    assert_eq!(ran.code, Some(2), "{what}: {}", ran.stderr);
    assert!(!ran.stderr.contains("panicked"), "{what}: {}", ran.stderr);
    for word in ["error"].iter().chain(words) {
        assert!(
            ran.stderr.contains(word),
            "{what}: no `{word}` in {}",
            ran.stderr
        );
    }
}

#[test]
fn all_backends_give_the_results_of_the_reference() {
    for op in OPS {
        for bf16 in [false, true] {
            let folder = Folder::new(&tensors(op, bf16));
            let exact = folder.results(op, "reference", options(op));
            let share = if bf16 { 1.0 / 128.0 } else { 1e-5 };
            for (backend, more) in [
                ("cpu", &["--blocks", "5,16", "--threads", "3"][..]),
                ("cpu", &["--level", "portable"]),
                ("sim", &[]),
                (
                    "sim",
                    &["--blocks", "128,256", "--seed", "3", "--target", "v4"],
                ),
            ] {
                let results = folder.results(op, backend, &[options(op), more].concat());
                assert_same(&results, &exact, share);
            }
        }
    }
}

#[test]
fn names_types_and_shapes_of_what_is_written() {
    for (op, forward) in [
        ("logits-ce", &["logp", "loss", "lse"][..]),
        (
            "grpo",
            &["entropy", "is_clipped", "logp", "loss", "lse", "ratio"],
        ),
        ("entropy", &["entropy", "lse"]),
    ] {
        let folder = Folder::new(&tensors(op, true));
        let pass = |pass| folder.results(op, "cpu", &[options(op), &["--pass", pass]].concat());
        let found = pass("forward");
        let names: Vec<&str> = found.iter().map(|(name, _)| &name[..]).collect();
        assert_eq!(names, forward);
        for (name, read) in &found {
            let shape = if (op, &name[..]) == ("grpo", "loss") {
                vec![]
            } else {
                vec![B]
            };
            assert_eq!((read.dtype, &read.shape), (Dtype::F32, &shape), "{name}");
        }
        let found = pass("backward");
        let [(name, gradient)] = &found[..] else {
            panic!("{op}: {found:?}")
        };
        assert_eq!((&name[..], gradient.dtype), ("d_logits", Dtype::BF16));
        assert_eq!(gradient.shape, [B, V]);
        let wide = [options(op), &["--grad-dtype", "f32"]].concat();
        let found = folder.results(op, "cpu", &wide);
        assert_eq!(found[0].0, "d_logits");
        assert_eq!(found[0].1.dtype, Dtype::F32);
    }
}

/// Ones for what the op is for, zeros for the rest; and what may be missing.
#[test]
fn what_is_missing_has_its_default() {
    let zeros = |name| Tensor::f32(name, &[B], &[0.0; B]);
    for (op, first, others) in [
        (
            "logits-ce",
            Tensor::f32("d_loss", &[B], &[1.0; B]),
            vec![zeros("d_logp"), zeros("d_lse")],
        ),
        ("entropy", Tensor::f32("d_entropy", &[B], &[1.0; B]), vec![]),
        (
            "grpo",
            Tensor::f32("d_loss", &[1], &[1.0]),
            vec![
                zeros("d_logp"),
                zeros("d_ratio"),
                zeros("d_entropy"),
                Tensor::f32("mask", &[B], &[1.0; B]),
            ],
        ),
    ] {
        let mut least = tensors(op, false);
        least.retain(|tensor| !tensor.name.starts_with("d_") && tensor.name != "mask");
        let missing = Folder::new(&least).results(op, "cpu", options(op));
        least.push(first);
        least.extend(others);
        let given = Folder::new(&least).results(op, "cpu", options(op));
        assert_eq!(missing, given, "{op}");
    }
}

#[test]
fn json_says_what_ran() {
    let folder = Folder::new(&tensors("grpo", false));
    let options = [options("grpo"), &["--json", "--blocks", "3,32"]].concat();
    let json = folder.run("grpo", "cpu", &options).json();
    assert_eq!(json["op"], "grpo");
    assert_eq!(
        json["shape"],
        serde_json::json!({ "tokens": B, "vocab": V })
    );
    assert_eq!(json["blocks"], serde_json::json!({ "b": 3, "v": 32 }));
    assert_eq!(json["backward_blocks"], json["blocks"]);
    assert!(
        json["loss"].is_number() && json["backward_s"].is_number(),
        "{json}"
    );
}

#[test]
fn modules_of_both_passes_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let emit = |op: &str, more: &[&str]| {
        let line = format!("emit {op} --target v5e --tokens 300 --vocab 1000 --output out.mlir");
        tilecast(folder.path(), line.split(' ').chain(more.iter().copied()))
    };
    for op in OPS {
        let ran = emit(op, &["--format", "stablehlo", "--in-place"]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert!(
            ran.stdout.contains("forward ") && ran.stdout.contains(", backward "),
            "{}",
            ran.stdout
        );
        let text = fs::read_to_string(folder.path().join("out.mlir")).unwrap();
        assert_eq!(text.matches("stablehlo.custom_call").count(), 2, "{op}");
        assert!(
            text.contains("%logits: tensor<300x1000xbf16> {tf.aliasing_output"),
            "{op}"
        );
        assert!(
            !text.contains("%lse: "),
            "{op}: what the forward pass gives is no parameter"
        );
        fs::remove_file(folder.path().join("out.mlir")).unwrap();
        for (more, words) in [
            (&["--hidden", "8"][..], &["--hidden", "linear-ce"][..]),
            (&["--blocks", "256,1000"], &["multiple of 128"]),
            (&["--temperature", "nan"], &["NaN"]),
            (&["--tokens", "0"], &["--tokens"]),
        ] {
            let ran = emit(op, &[&["--format", "mosaic"], more].concat());
            assert_refused(&ran, op, words);
            assert_eq!(
                fs::read_dir(folder.path()).unwrap().count(),
                0,
                "{op} {more:?}"
            );
        }
    }
}
