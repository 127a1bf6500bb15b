//! The grouped product on the command line.

use std::fs;

use tempfile::TempDir;

use crate::files::Tensor;
use crate::logits::{Folder, assert_refused, assert_same, values};
use crate::{here, tilecast};

const SIZES: [i32; 4] = [5, 0, 9, 3];

/// 20 rows of 4 experts, 24 inputs and 16 outputs; the last three rows have no expert.
fn tensors(bf16: bool) -> Vec<Tensor> {
    let floats = if bf16 { Tensor::bf16 } else { Tensor::f32 };
    vec![
        floats("x", &[20, 24], &values(20 * 24, 0.1, 1.0)),
        floats("w", &[4, 24, 16], &values(4 * 24 * 16, 0.3, 0.5)),
        floats("dy", &[20, 16], &values(20 * 16, 0.7, 1.0)),
        Tensor::i32("group_sizes", &SIZES),
    ]
}

#[test]
fn all_backends_give_the_results_of_the_reference() {
    for bf16 in [false, true] {
        let folder = Folder::new(&tensors(bf16));
        let exact = folder.results("gmm", "reference", &[]);
        let names: Vec<_> = exact.iter().map(|(name, _)| &name[..]).collect();
        assert_eq!(names, ["dw", "dx", "y"]);
        let (_, y) = &exact[2];
        assert!(y.values[17 * 16..].iter().all(|&y| y == 0.0));
        let share = if bf16 { 1.0 / 128.0 } else { 1e-5 };
        for (backend, more) in [
            ("cpu", &["--threads", "3"][..]),
            ("cpu", &["--level", "portable"]),
            ("sim", &[]),
            ("sim", &["--seed", "3", "--target", "v4"]),
        ] {
            assert_same(&folder.results("gmm", backend, more), &exact, share);
        }
        let f32 = folder.results("gmm", "cpu", &["--grad-dtype", "f32"]);
        assert!(
            f32.iter()
                .all(|(_, read)| read.dtype == safetensors::Dtype::F32)
        );
        let forward = folder.results("gmm", "cpu", &["--pass", "forward"]);
        assert_eq!(forward.len(), 1);
    }
}

#[test]
fn sizes_may_be_longer_integers_and_a_missing_cotangent_is_ones() {
    let mut given = tensors(false);
    given.retain(|tensor| !["group_sizes", "dy"].contains(&tensor.name));
    given.push(Tensor::i64("group_sizes", &SIZES.map(i64::from)));
    let ones = Folder::new(&given).results("gmm", "cpu", &[]);
    given.push(Tensor::f32("dy", &[20, 16], &[1.0; 20 * 16]));
    assert_eq!(Folder::new(&given).results("gmm", "cpu", &[]), ones);
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let refuse = |change: Tensor, words: &[&str]| {
        let mut given = tensors(false);
        given.retain(|tensor| tensor.name != change.name);
        given.push(change);
        let ran = Folder::new(&given).run("gmm", "cpu", &[]);
        assert_refused(&ran, "gmm", words);
    };
    refuse(
        Tensor::i32("group_sizes", &[5, 0, 9]),
        &["group_sizes", "[3]", "[4]"],
    );
    refuse(
        Tensor::i32("group_sizes", &[5, 0, 9, 7]),
        &["21 rows", "20"],
    );
    refuse(
        Tensor::i64("group_sizes", &[5, 0, 9, 1 << 40]),
        &["rows", "20"],
    );
    refuse(
        Tensor::i32("group_sizes", &[5, -1, 9, 3]),
        &["group 1", "-1"],
    );
    refuse(
        Tensor::f32("w", &[4, 12, 32], &[0.0; 4 * 24 * 16]),
        &["[4, 12, 32]", "[20, 24]"],
    );
    refuse(
        Tensor::f32("w", &[96, 16], &[0.0; 96 * 16]),
        &["w", "[E, I, O]"],
    );
    refuse(
        Tensor::bf16("dy", &[20, 16], &[0.0; 20 * 16]),
        &["dy is bf16", "x is f32"],
    );
    let folder = Folder::new(&tensors(false));
    let ran = folder.run("gmm", "cpu", &["--soft-cap", "5"]);
    assert_refused(&ran, "gmm", &["--soft-cap", "gmm does not have it"]);
}

const SHAPE: [&str; 8] = [
    "--tokens",
    "4096",
    "--experts",
    "16",
    "--hidden",
    "1024",
    "--out-features",
    "768",
];

#[test]
fn tune_ranks_each_product() {
    let of = |more: &[&'static str]| {
        let arguments = ["tune", "gmm", "--target", "v5e,v6e"];
        tilecast(here(), arguments.iter().chain(&SHAPE).chain(more))
    };
    let ran = of(&["--json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let json = ran.json();
    assert_eq!(json["shape"]["experts"], 16);
    let results = json["results"].as_array().unwrap();
    for target in ["v5e", "v6e"] {
        for product in ["y", "dx", "dw"] {
            let of =
                |one: &&serde_json::Value| one["target"] == target && one["product"] == product;
            let times: Vec<_> = results
                .iter()
                .filter(of)
                .map(|one| one["time_s"].as_f64())
                .collect();
            let fitting: Vec<f64> = times.iter().map_while(|time| *time).collect();
            assert!(
                fitting.is_sorted() && !fitting.is_empty(),
                "{target} {product}"
            );
            assert!(times[fitting.len()..].iter().all(Option::is_none));
        }
    }
    let ran = of(&["--pass", "forward", "--top", "1"]);
    assert_eq!(
        ran.stdout.matches("matrix units").count(),
        2,
        "{}",
        ran.stdout
    );
    let ran = of(&["--vmem-limit-kib", "64"]);
    assert_eq!(ran.code, Some(3), "{}", ran.stdout);
    assert!(ran.stdout.contains("Nothing fits"), "{}", ran.stdout);
}

#[test]
fn modules_are_written_in_the_blocks_that_are_chosen() {
    let folder = TempDir::new().unwrap();
    let emit = |more: &[&'static str]| {
        let arguments = ["emit", "gmm", "--target", "v5p", "--output", "out"];
        tilecast(folder.path(), arguments.iter().chain(&SHAPE).chain(more))
    };
    let ran = emit(&["--format", "stablehlo"]);
    assert_eq!((ran.code, &ran.stderr[..]), (Some(0), ""));
    let text = fs::read_to_string(folder.path().join("out")).unwrap();
    for name in [
        "%group_sizes: tensor<16xi32>",
        "grouped_matmul_dw",
        "grouped_matmul_forward",
    ] {
        assert!(text.contains(name), "{name}");
    }
    let ran = emit(&["--format", "mosaic", "--pass", "backward"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    for kernel in ["dx", "dw"] {
        let text = fs::read_to_string(folder.path().join(format!("out.grouped_matmul_{kernel}")));
        tilecast::tpu::mosaic::Module::parse(&text.unwrap())
            .unwrap()
            .verify()
            .unwrap();
    }
    // Blocks that the backward pass could not have: 768 outputs are no multiple.
    let forward = ["--format", "mosaic", "--pass", "forward", "--blocks"];
    let ran = emit(&[&forward[..], &["256,512,512"]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    // What it gets at run time is written beside it.
    let simulate = ["simulate", "--target", "v5p", "--mosaic", "out"];
    let lacks = |more: &[&'static str]| {
        let ran = tilecast(folder.path(), simulate.iter().chain(more));
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        ran.stdout.contains("scalars are not given")
    };
    assert!(lacks(&[]) && !lacks(&["--scalars", "out.scalars.json"]));
    let ran = emit(&["--format", "mosaic", "--vmem-limit-kib", "64"]);
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
}

#[test]
fn blocks_that_are_given_are_kept() {
    let folder = TempDir::new().unwrap();
    let given = [
        "--blocks",
        "256,512,256",
        "--backward-blocks",
        "128,512,768",
    ];
    let run = |arguments: &[&'static str]| {
        tilecast(folder.path(), arguments.iter().chain(&SHAPE).chain(&given))
    };
    let ran = run(&[
        "emit",
        "gmm",
        "--target",
        "v5e",
        "--format",
        "stablehlo",
        "--output",
        "out",
    ]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    // Parts are chosen.
    for (product, blocks) in [
        ("y 256/", ",512,256"),
        ("dx 128/128", ",512,768"),
        ("dw 128/128", ",512,768"),
    ] {
        let chosen = &ran.stdout;
        assert!(
            chosen.contains(product) && chosen.contains(blocks),
            "{chosen}"
        );
    }
    let ran = run(&["tune", "gmm", "--target", "v5e", "--json"]);
    let json = ran.json();
    let results = json["results"].as_array().unwrap();
    // Rows of 256 have parts of 128 and of 256.
    assert_eq!(results.len(), 4, "{}", ran.stdout);
    let two = tilecast(
        here(),
        ["tune", "gmm", "--target", "v5e", "--blocks", "256,512"]
            .iter()
            .chain(&SHAPE),
    );
    assert_refused(&two, "two numbers", &["--blocks", "give three"]);
    let folder = Folder::new(&tensors(false));
    let ran = folder.run("gmm", "cpu", &["--blocks", "8,8,8"]);
    assert_refused(&ran, "run", &["--blocks", "simulate"]);
}

fn simulate(more: &[&'static str]) -> super::Ran {
    let arguments = ["simulate", "gmm", "--target", "v5e"];
    tilecast(here(), arguments.iter().chain(&SHAPE).chain(more))
}

#[test]
fn simulate_says_what_chips_that_share_the_experts_need() {
    let ran = simulate(&["--json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let one = ran.json();
    let names = |json: &serde_json::Value, list: &str| -> Vec<String> {
        let items = json[list].as_array().unwrap().iter();
        items
            .map(|item| item["name"].as_str().unwrap().into())
            .collect()
    };
    assert_eq!(
        names(&one, "kernels"),
        [
            "grouped_matmul_forward",
            "grouped_matmul_dx",
            "grouped_matmul_dw"
        ]
    );
    assert!(names(&one, "exchanges").is_empty());
    let four = simulate(&["--chips", "4", "--json"]).json();
    assert_eq!(four["device_shape"]["tokens"], 1024);
    assert_eq!(four["device_shape"]["experts"], 4);
    assert_eq!(names(&four, "exchanges"), ["x", "dy", "y", "dx"]);
    let rows_per_s = |json: &serde_json::Value| json["total"]["tokens_per_s"].as_f64().unwrap();
    assert!(rows_per_s(&four) > 2.0 * rows_per_s(&one));
    let ran = simulate(&["--chips", "4"]);
    for words in [
        "fits",
        "Between 4 chips",
        "HBM of a chip",
        "1024 rows and 4 experts each",
    ] {
        assert!(ran.stdout.contains(words), "{words}: {}", ran.stdout);
    }
    let ran = simulate(&["--chips", "5000"]);
    assert_refused(&ran, "more chips than rows", &["4096 rows", "5000 devices"]);
}

#[test]
fn simulate_names_blocks_that_fit_where_those_given_do_not() {
    let large = [
        "--blocks",
        "1024,1024,768",
        "--vmem-limit-kib",
        "4096",
        "--pass",
        "forward",
    ];
    let ran = simulate(&large);
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    for words in [
        "vmem_oom",
        "--vmem-limit-kib",
        "the fastest that fit: y in ",
    ] {
        assert!(ran.stdout.contains(words), "{words}: {}", ran.stdout);
    }
    let ran = simulate(&["--blocks", "1024,1000,768"]);
    assert_refused(&ran, "a block of the sum", &["1000", "1024"]);
}

#[test]
fn simulate_writes_a_trace() {
    let folder = TempDir::new().unwrap();
    let arguments = [
        "simulate",
        "gmm",
        "--target",
        "v5e",
        "--trace",
        "trace.json",
    ];
    let ran = tilecast(folder.path(), arguments.iter().chain(&SHAPE));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let trace = fs::read_to_string(folder.path().join("trace.json")).unwrap();
    let trace: serde_json::Value = serde_json::from_str(&trace).unwrap();
    assert!(!trace["traceEvents"].as_array().unwrap().is_empty());
}

#[test]
fn every_backend_is_checked() {
    let ran = tilecast(here(), ["check", "gmm", "--json", "--seed", "3"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stdout);
    let json = ran.json();
    assert_eq!(json["counts"]["failed"], 0);
    assert_eq!(json["counts"]["cases"], 12);
}
