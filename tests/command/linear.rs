//! The ops on the logits of a head: the same tensors as for given logits, but for the logits.

use std::fs;

use serde_json::json;

use crate::files::Tensor;
use crate::logits::{B, Folder, V, assert_refused, assert_same, options, tensors, values};
use crate::tilecast;

const H: usize = 19;
/// With the op on given logits.
const OPS: [(&str, &str); 2] = [("linear-grpo", "grpo"), ("linear-entropy", "entropy")];

/// Everything that the op may read.
fn of_head(of: &str, bf16: bool, bias: bool) -> Vec<Tensor> {
    let matrix = if bf16 { Tensor::bf16 } else { Tensor::f32 };
    let mut found = tensors(of, false);
    found.retain(|tensor| tensor.name != "logits");
    found.push(matrix("x", &[B, H], &values(B * H, 0.1, 1.0)));
    found.push(matrix("w", &[H, V], &values(H * V, 0.3, 0.7)));
    if bias {
        found.push(Tensor::f32("bias", &[V], &values(V, 0.7, 1.0)));
    }
    found
}

#[test]
fn all_backends_give_the_results_of_the_reference() {
    for (op, of) in OPS {
        for bf16 in [false, true] {
            let folder = Folder::new(&of_head(of, bf16, bf16));
            let options = [options(of), &["--soft-cap", "5"]].concat();
            let exact = folder.results(op, "reference", &options);
            let names: Vec<_> = exact.iter().map(|(name, _)| &name[..]).collect();
            let gradients: &[&str] = if bf16 {
                &["dbias", "dw", "dx"]
            } else {
                &["dw", "dx"]
            };
            assert!(
                gradients.iter().all(|name| names.contains(name)),
                "{names:?}"
            );
            assert!(!names.contains(&"d_logits"));
            let share = if bf16 { 1.0 / 128.0 } else { 2e-5 };
            for (backend, more) in [
                ("cpu", &["--blocks", "5,7,16", "--threads", "3"][..]),
                ("cpu", &["--level", "portable", "--strategy", "combined"]),
                ("sim", &[]),
                (
                    "sim",
                    &["--blocks", "128,128,256", "--seed", "3", "--target", "v4"],
                ),
            ] {
                // In bf16, what the bias gradient adds up would be rounded.
                let more = [more, &["--delta-dtype", "f32"]].concat();
                let results = folder.results(op, backend, &[&options[..], &more].concat());
                // The matrix unit rounds delta where it meets bf16.
                let share = if backend == "sim" { 2.0 * share } else { share };
                assert_same(&results, &exact, share);
            }
        }
    }
}

#[test]
fn json_says_what_ran() {
    let folder = Folder::new(&of_head("grpo", false, false));
    let options = [options("grpo"), &["--json", "--blocks", "3,8,32"]].concat();
    let json = folder.run("linear-grpo", "cpu", &options).json();
    assert_eq!(json["op"], "linear-grpo");
    assert_eq!(
        json["shape"],
        json!({ "tokens": B, "hidden": H, "vocab": V })
    );
    assert_eq!(json["blocks"], json!({ "b": 3, "h": 8, "v": 32 }));
    assert_eq!(json["strategy"], "streaming");
    assert!(json["loss"].is_number(), "{json}");
}

#[test]
fn what_does_not_fit_is_refused() {
    let refuse = |change: Tensor, more: &[&str], words: &[&str]| {
        let mut tensors = of_head("grpo", false, true);
        tensors.retain(|tensor| tensor.name != change.name);
        tensors.push(change);
        let folder = Folder::new(&tensors);
        let ran = folder.run("linear-grpo", "cpu", &[options("grpo"), more].concat());
        assert_refused(&ran, "linear-grpo", words);
        assert!(!folder.0.path().join("out").exists());
    };
    let w = |rows: usize| Tensor::f32("w", &[rows, V], &values(rows * V, 0.3, 1.0));
    refuse(w(H - 1), &[], &["w is [18, 75]", "x is [12, 19]"]);
    let bias = Tensor::f32("bias", &[V - 1], &values(V - 1, 0.3, 1.0));
    refuse(bias, &[], &["bias", "[74]", "[75]"]);
    refuse(w(H), &["--soft-cap", "0"], &["soft cap is 0"]);
    refuse(w(H), &["--max-length", "0"], &["maximal length is 0"]);
    refuse(w(H), &["--blocks", "8,16"], &["2 numbers", "three"]);
    refuse(w(H), &["--z-loss", "0.1"], &["--z-loss", "linear-ce"]);
    refuse(
        w(H),
        &["--reduction", "mean"],
        &["--reduction", "linear-ce"],
    );
    let labels = Tensor::i32("labels", &[V as i32; B]);
    refuse(labels, &[], &["label 75 of token 0", "0..75"]);
    let mut tensors = of_head("grpo", false, false);
    tensors.retain(|tensor| tensor.name != "w");
    let ran = Folder::new(&tensors).run("linear-grpo", "cpu", options("grpo"));
    let words = [
        "tensor w is missing",
        "x, w, labels, advantage and old_logp",
    ];
    assert_refused(&ran, "without w", &words);
}

/// Both passes, with every option that adds to a kernel; no array of them has all logits.
#[test]
fn modules_of_both_passes_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let emit = |op: &str, more: &str| {
        let line = format!(
            "emit {op} --target v5e --tokens 300 --hidden 200 --vocab 1700 --output out.mlir {more}"
        );
        tilecast(folder.path(), line.split(' '))
    };
    for (op, kernel) in [
        ("linear-grpo", "linear_grpo"),
        ("linear-entropy", "linear_entropy"),
    ] {
        let more = "--format stablehlo --strategy streaming --bias --soft-cap 30 --temperature 0.7";
        let ran = emit(op, more);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let text = fs::read_to_string(folder.path().join("out.mlir")).unwrap();
        for part in ["forward", "delta", "dx", "dw", "dbias"] {
            assert!(text.contains(&format!("{kernel}_{part}")), "{op}: {part}");
        }
        for whole in ["300x1700x", "384x1700x", "300x1792x", "384x1792x"] {
            assert!(!text.contains(whole), "{op}: {whole}");
        }
        let ran = emit(op, "--format mosaic --in-place");
        assert_refused(&ran, op, &["--in-place", "logits-ce"]);
        let words = ["--weight", "linear-ce"];
        assert_refused(&emit(op, "--format mosaic --weight"), op, &words);
    }
}

#[test]
fn simulate_and_tune_know_the_head() {
    let folder = tempfile::tempdir().unwrap();
    let run = |line: &str| tilecast(folder.path(), line.split(' '));
    for (op, _) in OPS {
        let shape = "--target v5e --tokens 1024 --hidden 512 --vocab 5000 --json";
        let json = run(&format!("simulate {op} {shape} --strategy streaming")).json();
        assert_eq!(
            (&json["op"], &json["verdict"]),
            (&json!(op), &json!("fits"))
        );
        assert_eq!(
            json["shape"],
            json!({ "tokens": 1024, "hidden": 512, "vocab": 5000 })
        );
        let kernels = json["kernels"].as_array().unwrap();
        let names: Vec<_> = kernels
            .iter()
            .map(|k| k["name"].as_str().unwrap())
            .collect();
        let parts = names.iter().map(|name| name.rsplit('_').next().unwrap());
        assert_eq!(parts.collect::<Vec<_>>(), ["forward", "delta", "dx", "dw"]);
        let blocks = "--blocks 256,256,512 --backward-blocks 256,256,512";
        let json = run(&format!("tune {op} {shape} {blocks}")).json();
        assert_eq!(
            json["best"]["blocks"],
            json!({ "b": 256, "h": 256, "v": 512 })
        );
        assert!(json["best"]["strategy"].is_string(), "{json}");
    }
}

#[test]
fn a_program_is_written_for_one_device() {
    let folder = tempfile::tempdir().unwrap();
    let line = "emit linear-ce --target v7x --tokens 300 --hidden 200 --vocab 1700 --chips 2 --format mosaic --output out.mlir";
    let refused = tilecast(folder.path(), line.split(' '));
    assert_eq!(refused.code, Some(2));
    assert!(
        refused.stderr.contains("--chips 2") && refused.stderr.contains("--tokens"),
        "{}",
        refused.stderr
    );
    assert!(!folder.path().join("out.mlir").exists());
}
