use clap::Parser;
use serde_json::Value;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

fn document(line: &str) -> Value {
    let words = ["simulate"].into_iter().chain(line.split(' '));
    let Line { args } = Line::try_parse_from(words).unwrap();
    let problem = args.problem.0.unwrap();
    let request = request(
        problem.problem().unwrap(),
        &problem,
        args.target,
        args.vmem_limit_kib,
    )
    .unwrap();
    let rows = tilecast::sim::tune::tune(
        &request,
        &space(&problem.schedule, &request).unwrap(),
        || (),
    )
    .unwrap();
    let strategies = strategies(&problem.schedule, request.kernel_structure());
    Simulation::new(args.op.unwrap(), &request, &rows[0], &strategies)
        .unwrap()
        .document()
}

fn keys(value: &Value) -> Vec<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

const V4: &str = "linear-ce --target v4 --tokens 65536 --hidden 512 --vocab 128256";

#[test]
fn the_document_has_the_fields_of_the_contract_whether_it_fits_or_not() {
    for blocks in ["1024,512,1024", "1024,512,4096"] {
        let document = document(&format!("{V4} --blocks {blocks}"));
        assert_eq!(
            keys(&document),
            [
                "op",
                "target",
                "dtype",
                "shape",
                "chips",
                "verdict",
                "reason",
                "hint",
                "strategy",
                "chunk_columns",
                "kernels",
                "array_operations",
                "hbm",
                "other_place_hbm",
                "unfused_hbm",
                "total",
                "expected_error",
                "assumptions",
            ]
        );
        assert_eq!(keys(&document["shape"]), ["tokens", "hidden", "vocab"]);
        assert_eq!(
            keys(&document["hbm"]),
            ["used_bytes", "capacity_bytes", "terms"]
        );
        assert_eq!(keys(&document["hbm"]["terms"][0]), ["name", "bytes"]);
        assert_eq!(
            keys(&document["total"]),
            ["time_s", "time_range_s", "tokens_per_s"]
        );
        let kernels = document["kernels"].as_array().unwrap();
        assert!(kernels.len() >= 2);
        for kernel in kernels {
            assert_eq!(
                keys(kernel),
                [
                    "name",
                    "pass",
                    "blocks",
                    "verdict",
                    "reason",
                    "vmem",
                    "cycles_per_core",
                    "grid_steps",
                    "launches",
                    "time_s",
                    "time_range_s",
                    "tokens_per_s",
                    "mxu_fraction",
                    "hbm_traffic_bytes",
                    "bounds_s",
                    "bottleneck",
                    "assumptions",
                ]
            );
            assert_eq!(keys(&kernel["blocks"]), ["b", "h", "v"]);
            assert_eq!(
                keys(&kernel["vmem"]),
                [
                    "used_bytes",
                    "limit_bytes",
                    "capacity_bytes",
                    "margin_bytes",
                    "fit_probability",
                    "terms"
                ]
            );
            assert_eq!(
                keys(&kernel["vmem"]["terms"][0]),
                ["name", "kind", "bytes", "buffers"]
            );
            assert_eq!(
                keys(&kernel["bounds_s"]),
                ["mxu", "vpu", "eup", "xlu", "load_store", "scalar", "hbm"]
            );
            assert_eq!(kernel["time_s"].is_null(), kernel["verdict"] != "fits");
        }
    }
}

#[test]
fn logits_that_do_not_fit_are_named_with_blocks_that_do() {
    let fits = document(&format!("{V4} --blocks 1024,512,1024"));
    assert_eq!(fits["verdict"], "fits");
    // Of 4096 columns the forward kernel fits, for the compiler too (13.70 MiB): its logits never go to memory.
    for (columns, largest, hint) in [
        (
            2048,
            // Two rows to a word.
            "`delta` of 512 x 2048 elements",
            "nearest that fits: --backward-blocks 1024,512,1024",
        ),
        (
            8192,
            "`logits` of 1024 x 8192 elements",
            "nearest that fit: --blocks 1024,512,4096 --backward-blocks 1024,512,1024",
        ),
    ] {
        let over = document(&format!("{V4} --blocks 1024,512,{columns}"));
        assert_eq!(over["verdict"], "vmem_oom");
        assert!(over["reason"].as_str().unwrap().contains(largest));
        assert_eq!(over["hint"], hint);
        assert!(over["total"]["time_s"].is_null());
    }
}

#[test]
fn one_pass_alone_has_only_its_kernels() {
    let document = document(&format!("{V4} --pass forward --blocks 1024,512,1024"));
    let kernels = document["kernels"].as_array().unwrap();
    let names: Vec<&str> = (kernels.iter())
        .filter_map(|kernel| kernel["name"].as_str())
        .collect();
    assert_eq!(names, ["linear_ce_packed", "linear_ce_forward"]);
    assert!(document["strategy"].is_null());
}

#[test]
fn logits_that_are_not_stored_are_reported() {
    let document = document(&format!("{V4} --blocks 1024,512,1024"));
    let terms = document["unfused_hbm"]["terms"].as_array().unwrap();
    let logits = terms
        .iter()
        .find(|term| term["name"] == "logits, f32")
        .unwrap();
    assert_eq!(logits["bytes"], 65536_u64 * 128256 * 4);
}
