//! What the ops on logits refuse, and what they say of it.

use super::*;

/// Refused with exit code 2 and words, and nothing is written.
fn refuse(op: &str, tensors: &[Tensor], more: &[&str], words: &[&str]) {
    let folder = Folder::new(tensors);
    let ran = folder.run(op, "cpu", &[options(op), more].concat());
    assert_refused(&ran, &format!("{op} {more:?}"), words);
    let left = fs::read_dir(folder.0.path()).unwrap().count();
    assert_eq!(left, 1, "{op} {more:?} left a file behind");
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
