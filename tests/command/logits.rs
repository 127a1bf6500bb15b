//! The ops on given logits: what `run` reads and writes, what `emit` writes, and what is refused.

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
        let rounded = ["d_logits", "dx", "dw"].contains(&&name[..]);
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

/// Refused with exit code 2 and words, and nothing is written.
fn refuse(op: &str, tensors: &[Tensor], more: &[&str], words: &[&str]) {
    let folder = Folder::new(tensors);
    let ran = folder.run(op, "cpu", &[options(op), more].concat());
    assert_refused(&ran, &format!("{op} {more:?}"), words);
    let left = fs::read_dir(folder.0.path()).unwrap().count();
    assert_eq!(left, 1, "{op} {more:?} left a file behind");
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

fn changed(op: &str, change: Tensor) -> Vec<Tensor> {
    let mut tensors = tensors(op, false);
    tensors.retain(|tensor| tensor.name != change.name);
    tensors.push(change);
    tensors
}

fn zeros(name: &'static str, dtype: &'static str, shape: &[usize]) -> Tensor {
    let size = if matches!(dtype, "F64" | "I64") { 8 } else { 4 };
    let len: usize = shape.iter().product();
    Tensor::raw(name, dtype, shape, vec![0; len * size])
}

#[test]
fn tensors_that_are_missing() {
    for (op, names) in [
        ("logits-ce", &["logits", "labels"][..]),
        (
            "grpo",
            &["logits", "labels", "advantage", "old_logp", "ref_logp"],
        ),
        ("entropy", &["logits"]),
    ] {
        for name in names {
            let mut tensors = tensors(op, false);
            tensors.retain(|tensor| tensor.name != *name);
            refuse(op, &tensors, &[], &[name, "missing", op]);
        }
    }
    let mut policy = tensors("grpo", false);
    policy.retain(|tensor| tensor.name != "old_logp");
    refuse("grpo", &policy, &[], &["--on-policy"]);
    let folder = Folder::new(&policy);
    folder.results("grpo", "cpu", &[options("grpo"), &["--on-policy"]].concat());
}

#[test]
fn tensors_of_the_wrong_kind() {
    for (op, change, words) in [
        (
            "entropy",
            zeros("logits", "F32", &[B]),
            &["logits is [12]", "[B, V]"][..],
        ),
        ("entropy", zeros("logits", "F32", &[1, B, V]), &["[B, V]"]),
        (
            "entropy",
            zeros("logits", "F64", &[B, V]),
            &["logits is F64", "F32 or BF16"],
        ),
        (
            "entropy",
            zeros("logits", "F32", &[0, V]),
            &["tokens is 0", "at least 1"],
        ),
        (
            "entropy",
            zeros("logits", "F32", &[B, 0]),
            &["vocab is 0", "at least 1"],
        ),
        (
            "entropy",
            zeros("d_entropy", "F32", &[B + 1]),
            &["d_entropy", "[13]", "[12]"],
        ),
        (
            "logits-ce",
            zeros("labels", "I32", &[B - 1]),
            &["labels", "[11]", "row of logits"],
        ),
        (
            "logits-ce",
            zeros("labels", "F32", &[B]),
            &["labels is F32", "I32 or I64"],
        ),
        (
            "logits-ce",
            zeros("d_loss", "F32", &[]),
            &["d_loss", "[]", "[12]"],
        ),
        (
            "logits-ce",
            zeros("d_logp", "I32", &[B]),
            &["d_logp is I32", "F32"],
        ),
        (
            "logits-ce",
            zeros("d_lse", "F32", &[B, 1]),
            &["d_lse", "[12, 1]"],
        ),
        (
            "grpo",
            zeros("advantage", "F32", &[B / 4]),
            &["advantage", "[3]", "[12]"],
        ),
        ("grpo", zeros("old_logp", "F64", &[B]), &["old_logp is F64"]),
        ("grpo", zeros("mask", "I32", &[B]), &["mask is I32"]),
        (
            "grpo",
            zeros("d_loss", "F32", &[B]),
            &["d_loss", "[] or [1]"],
        ),
        (
            "grpo",
            Tensor::f32("mask", &[B], &[0.5; B]),
            &["mask", "0.5", "0 or 1"],
        ),
        (
            "grpo",
            Tensor::f32("mask", &[B], &[f32::NAN; B]),
            &["mask", "NaN"],
        ),
    ] {
        refuse(op, &changed(op, change), &[], words);
    }
    for label in [V as i64, -1, i64::MAX, (1 << 32) + 2] {
        let mut labels = [0; B];
        // A token that counts: the mask leaves out others.
        labels[1] = label;
        for op in ["logits-ce", "grpo"] {
            let words = [&format!("label {label} of token 1")[..], "0..75"];
            refuse(
                op,
                &changed(op, Tensor::i64("labels", &labels)),
                &[],
                &words,
            );
        }
    }
}

#[test]
fn options_out_of_range_or_of_another_op() {
    for (op, option, value, words) in [
        (
            "entropy",
            "--temperature",
            "nan",
            &["temperature is NaN"][..],
        ),
        ("entropy", "--temperature", "0", &["temperature is 0"]),
        ("entropy", "--temperature", "-1", &["temperature is -1"]),
        ("entropy", "--grad-dtype", "bf16", &["gradient", "bf16"]),
        ("entropy", "--blocks", "8,16,32", &["3 numbers", "two"]),
        ("entropy", "--blocks", "0,16", &["b is `0`"]),
        ("entropy", "--blocks", "16", &["1 numbers"]),
        ("entropy", "--blocks", "65536,2147483647", &["memory"]),
        (
            "entropy",
            "--z-loss",
            "0.1",
            &["--z-loss", "logits-ce", "entropy does not"],
        ),
        ("entropy", "--variant", "grpo", &["--variant", "grpo"]),
        ("entropy", "--soft-cap", "3", &["--soft-cap", "linear-ce"]),
        (
            "entropy",
            "--strategy",
            "combined",
            &["--strategy", "linear-ce"],
        ),
        ("entropy", "--target", "v4", &["--target", "backend sim"]),
        ("logits-ce", "--z-loss", "nan", &["z-loss", "NaN"]),
        ("logits-ce", "--label-smoothing", "1.5", &["1.5", "[0, 1]"]),
        (
            "logits-ce",
            "--reduction",
            "mean",
            &["--reduction", "linear-ce"],
        ),
        ("logits-ce", "--chunk-columns", "8", &["--chunk-columns"]),
        ("grpo", "--clip-low", "nan", &["lower clip is NaN"]),
        ("grpo", "--clip-low", "1.5", &["lower clip is 1.5"]),
        ("grpo", "--clip-high", "nan", &["upper clip is NaN"]),
        (
            "grpo",
            "--clip-two-sided",
            "0.5",
            &["two-sided clip is 0.5"],
        ),
        ("grpo", "--kl-beta", "nan", &["KL term is NaN"]),
        ("grpo", "--kl-beta", "-1", &["KL term is -1"]),
        ("grpo", "--sequence-length", "5", &["tokens is 12", "5"]),
        (
            "grpo",
            "--sequence-length",
            "0",
            &["length of a sequence is 0"],
        ),
        (
            "grpo",
            "--tokens-in-batch",
            "nan",
            &["tokens in the batch is NaN"],
        ),
        ("grpo", "--max-length", "0", &["maximal length is 0"]),
        ("grpo", "--variant", "ppo", &["ppo", "dr_grpo"]),
        ("grpo", "--ratio", "both", &["both", "sequence"]),
        (
            "grpo",
            "--ignore-index",
            "-100",
            &["--ignore-index", "logits-ce"],
        ),
    ] {
        // An option that is given twice is refused for that.
        let given = options(op).chunks(2).filter(|pair| pair[0] != option);
        let given: Vec<&str> = given.flatten().copied().chain([option, value]).collect();
        let folder = Folder::new(&tensors(op, false));
        let ran = folder.run(op, "cpu", &given);
        assert_refused(&ran, &format!("{op} {option} {value}"), words);
        assert_eq!(fs::read_dir(folder.0.path()).unwrap().count(), 1);
    }
    let folder = Folder::new(&tensors("grpo", false));
    let ran = folder.run("grpo", "cpu", &["--variant", "cispo", "--kl-beta", "0.1"]);
    assert_refused(&ran, "cispo", &["--clip-high"]);
    let ran = folder.run("grpo", "tpu", &["--libtpu", "libtpu.so"]);
    assert_refused(&ran, "tpu", &["--backend tpu", "not available"]);
}

#[test]
fn what_the_interpreter_does_not_take() {
    let folder = Folder::new(&tensors("entropy", false));
    for (blocks, code, words) in [
        ("8,128", 2, &["tokens is 12", "128"][..]),
        ("128,100", 2, &["multiple of 128"]),
        ("128,1048576", 3, &["VMEM", "smaller blocks"]),
        (
            "8388608,128",
            2,
            &["reads of a logit", "500000000", "--backend cpu"],
        ),
    ] {
        let ran = folder.run("entropy", "sim", &["--blocks", blocks]);
        assert_eq!(ran.code, Some(code), "{blocks}: {}", ran.stderr);
        for word in words {
            assert!(
                ran.stderr.contains(word),
                "{blocks}: {word}: {}",
                ran.stderr
            );
        }
        assert!(!folder.0.path().join("out").exists(), "{blocks}");
    }
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
