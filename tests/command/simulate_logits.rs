//! `tilecast simulate` and `tilecast tune` on the ops on given logits.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::{Ran, tilecast};

const OPS: [&str; 3] = ["logits-ce", "grpo", "entropy"];

const SHAPE: &str = "--target v6e --tokens 512 --vocab 5000";

fn ran(folder: &Path, line: &str) -> Ran {
    tilecast(folder, line.split(' '))
}

fn document(line: &str) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let ran = ran(folder.path(), &format!("{line} --json"));
    assert_eq!((ran.code, &ran.stderr[..]), (Some(0), ""), "{line}");
    ran.json()
}

fn keys(value: &Value) -> Vec<&String> {
    value.as_object().unwrap().keys().collect()
}

#[test]
fn documents_have_the_fields_of_those_of_the_head() {
    let head = "--target v6e --tokens 512 --hidden 256 --vocab 5000";
    for (command, list) in [("simulate", "kernels"), ("tune", "results")] {
        let of_head = document(&format!("{command} linear-ce {head}"));
        for op in OPS {
            let found = document(&format!("{command} {op} {SHAPE}"));
            assert_eq!(keys(&found), keys(&of_head), "{command} {op}");
            assert_eq!(keys(&found[list][0]), keys(&of_head[list][0]), "{op}");
            assert_eq!(found["shape"]["vocab"], 5000);
            assert!(found["shape"]["hidden"].is_null() && found["strategy"].is_null());
            assert!(found[list][0]["blocks"]["h"].is_null());
        }
    }
}

#[test]
fn an_answer_names_both_kernels_and_both_places_of_the_gradient() {
    let folder = tempfile::tempdir().unwrap();
    for op in OPS {
        let line = format!("simulate {op} {SHAPE} --blocks 64,1024 --trace trace.json");
        let ran = ran(folder.path(), &line);
        assert_eq!((ran.code, &ran.stderr[..]), (Some(0), ""), "{op}");
        let first = ran.stdout.lines().next().unwrap();
        assert_eq!(first, format!("{op} on v6e, bf16: B=512 V=5000: fits"));
        for part in [
            "forward 64,1024; backward 64,1024\n",
            "VMEM of softmax_statistics",
            "VMEM of softmax_gradient",
            "--in-place",
            "log-probabilities and their gradient stored in f32",
            "at the rate of HBM",
        ] {
            assert!(ran.stdout.contains(part), "{op}: {part}: {}", ran.stdout);
        }
        let trace = fs::read_to_string(folder.path().join("trace.json")).unwrap();
        let trace: Value = serde_json::from_str(&trace).unwrap();
        assert!(!trace["traceEvents"].as_array().unwrap().is_empty());
    }
}

#[test]
fn in_place_saves_the_gradient() {
    let used = |document: &Value| document["hbm"]["used_bytes"].as_u64().unwrap();
    for op in OPS {
        let [apart, over] =
            ["", " --in-place"].map(|more| document(&format!("simulate {op} {SHAPE}{more}")));
        let logits = 512 * 5000_u64.next_multiple_of(128) * 2;
        assert_eq!(used(&apart) - used(&over), logits, "{op}");
        let other = |document: &Value| document["other_place_hbm"]["used_bytes"].as_u64();
        assert_eq!(other(&apart), Some(used(&over)), "{op}");
        assert_eq!(other(&over), Some(used(&apart)), "{op}");
    }
}

#[test]
fn every_block_that_was_tried_is_ranked_and_written() {
    let folder = tempfile::tempdir().unwrap();
    for op in OPS {
        let line = format!("tune {op} {SHAPE} --csv tried.csv --html tried.html");
        let ran = ran(folder.path(), &line);
        assert_eq!((ran.code, &ran.stderr[..]), (Some(0), ""), "{op}");
        assert!(
            ran.stdout.contains("First against second"),
            "{}",
            ran.stdout
        );
        let document = document(&format!("tune {op} {SHAPE}"));
        let tried = document["counts"]["tried"].as_u64().unwrap();
        let csv = fs::read_to_string(folder.path().join("tried.csv")).unwrap();
        assert_eq!(csv.lines().count() as u64, tried + 1, "{op}");
        let html = fs::read_to_string(folder.path().join("tried.html")).unwrap();
        assert!(html.contains(&format!("{op} block sizes on v6e")));
        // The best is what simulate takes.
        let line = format!("simulate {op} {SHAPE} --json");
        let simulated = crate::tilecast(folder.path(), line.split(' ')).json();
        let best = document["best"]["time_s"].as_f64().unwrap();
        assert!(best <= simulated["total"]["time_s"].as_f64().unwrap());
    }
}

#[test]
fn too_large_blocks_are_named_with_some_that_fit() {
    let folder = tempfile::tempdir().unwrap();
    let line =
        "simulate logits-ce --target v4 --tokens 4096 --vocab 151936 --dtype f32 --blocks 512,8192";
    let large = ran(folder.path(), line);
    assert_eq!(large.code, Some(3));
    let (_, hint) = large.stdout.split_once("nearest that fit").unwrap();
    let blocks = hint.split_once("--backward-blocks ").unwrap().1;
    let blocks = blocks.lines().next().unwrap();
    let line = line.replace("512,8192", blocks);
    assert_eq!(ran(folder.path(), &line).code, Some(0), "{line}");
}

#[test]
fn logits_that_no_chip_holds_are_named_with_what_helps() {
    let folder = tempfile::tempdir().unwrap();
    let line = "simulate logits-ce --target v5e --tokens 65536 --vocab 151936 --dtype f32";
    let large = ran(folder.path(), line);
    assert_eq!(large.code, Some(3));
    let reason = large.stdout.lines().nth(2).unwrap();
    assert!(reason.contains("`d_logits`, 37.09 GiB"), "{reason}");
    assert!(reason.contains("over the logits") && !reason.contains("streaming"));
}

#[test]
fn options_and_blocks_of_the_head_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for command in ["simulate", "tune"] {
        for (more, word) in [
            ("--hidden 8", "--hidden"),
            ("--strategy streaming", "--strategy"),
            ("--chips 2", "--chips"),
            ("--blocks 128,128,128", "give two"),
        ] {
            let refused = ran(folder.path(), &format!("{command} entropy {SHAPE} {more}"));
            assert_eq!(refused.code, Some(2), "{command} {more}");
            assert!(refused.stderr.contains(word), "{}", refused.stderr);
            assert_eq!(refused.stdout, "");
        }
    }
}
