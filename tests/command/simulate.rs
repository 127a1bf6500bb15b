//! `tilecast simulate` on an op, on the text of its kernel, and as a trace.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::{Ran, tilecast};

const OP: &str =
    "linear-ce --target v5e --tokens 512 --hidden 256 --vocab 1024 --blocks 128,128,256";

fn simulate(folder: &Path, line: &str) -> Ran {
    tilecast(folder, ["simulate"].into_iter().chain(line.split(' ')))
}

/// A folder with `kernel.mlir`, the forward pass of [`OP`].
fn kernel() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let emit = format!("emit {OP} --pass forward --format mosaic --output kernel.mlir");
    let ran = tilecast(folder.path(), emit.split(' '));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    folder
}

fn keys(value: &Value) -> Vec<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

#[test]
fn the_answer_comes_first_and_everything_follows() {
    let folder = tempfile::tempdir().unwrap();
    let ran = simulate(folder.path(), OP);
    assert_eq!((ran.code, &ran.stderr[..]), (Some(0), ""));
    let first = ran.stdout.lines().next().unwrap();
    assert_eq!(first, "linear-ce on v5e, bf16: B=512 H=256 V=1024: fits");
    let mut at = 0;
    for part in [
        "bound by",
        "VMEM: linear_ce_",
        "is within its limit",
        "Each unit alone",
        "VMEM of linear_ce_forward",
        "register spills",
        "HBM of a chip",
        "Assumptions",
        "tilecast validate",
    ] {
        let found = ran.stdout[at..].find(part);
        at += found.unwrap_or_else(|| panic!("no {part:?} after byte {at} of {}", ran.stdout));
    }
}

#[test]
fn the_text_of_a_kernel_gets_the_report_that_the_op_gets() {
    let folder = kernel();
    let path = folder.path();
    let of_op = simulate(path, &format!("{OP} --pass forward --json")).json();
    let ran = simulate(path, "--mosaic kernel.mlir --target v5e --json");
    assert_eq!((ran.code, &ran.stderr[..]), (Some(0), ""));
    let of_text = ran.json();
    assert!(of_text["op"].is_null());
    for key in [
        "op", "target", "dtype", "shape", "verdict", "kernels", "hbm", "total",
    ] {
        assert!(keys(&of_text).contains(&key), "{key}");
    }
    let [op, text] = [&of_op["kernels"][0], &of_text["kernels"][0]];
    assert_eq!(keys(op), keys(text));
    for key in [
        "name",
        "cycles_per_core",
        "grid_steps",
        "time_s",
        "bounds_s",
        "bottleneck",
    ] {
        assert_eq!(op[key], text[key], "{key}");
    }
    for key in [
        "used_bytes",
        "limit_bytes",
        "margin_bytes",
        "fit_probability",
    ] {
        assert_eq!(op["vmem"][key], text["vmem"][key], "{key}");
    }
    let spills = |kernel: &Value| {
        let terms = kernel["vmem"]["terms"].as_array().unwrap();
        let spills: Vec<&Value> = terms
            .iter()
            .filter(|term| term["kind"] == "spill")
            .collect();
        assert_eq!(spills.len(), 1, "{kernel}");
        spills[0]["bytes"].as_u64().unwrap()
    };
    assert_eq!(spills(op), spills(text));
    // `pallas_call(debug=True)` prints a line before the module.
    let module = fs::read_to_string(path.join("kernel.mlir")).unwrap();
    fs::write(
        path.join("printed.txt"),
        format!("\nThe kernel is:\n{module}"),
    )
    .unwrap();
    let printed = simulate(path, "--mosaic printed.txt --target v5e --json").json();
    assert_eq!(printed["kernels"], of_text["kernels"]);
    let ran = simulate(path, "--mosaic kernel.mlir --target v5e");
    assert!(
        ran.stdout.starts_with("linear_ce_forward on v5e: fits\n"),
        "{}",
        ran.stdout
    );
}

#[test]
fn a_limit_that_windows_exceed_is_exit_code_3_and_certain() {
    let folder = kernel();
    let ran = simulate(
        folder.path(),
        "--mosaic kernel.mlir --target v5e --vmem-limit-kib 64 --json",
    );
    assert_eq!(ran.code, Some(3));
    let kernel = &ran.json()["kernels"][0];
    assert_eq!(kernel["verdict"], "vmem_oom");
    assert_eq!(kernel["vmem"]["fit_probability"], 0.0);
    assert!(kernel["vmem"]["margin_bytes"].as_i64().unwrap() < 0);
    assert!(kernel["time_s"].is_null() && kernel["cycles_per_core"].is_null());
}

#[test]
fn a_verdict_that_spills_may_turn_comes_with_a_probability() {
    let folder = kernel();
    let path = folder.path();
    let kernel = simulate(path, "--mosaic kernel.mlir --target v5e --json").json();
    let used = kernel["kernels"][0]["vmem"]["used_bytes"].as_u64().unwrap();
    let line = format!(
        "--mosaic kernel.mlir --target v5e --vmem-limit-kib {}",
        used.div_ceil(1024)
    );
    let ran = simulate(path, &line);
    assert_eq!(ran.code, Some(0), "{}", ran.stdout);
    let words = "register spills are an estimate: it fits with probability 0.";
    assert!(ran.stdout.contains(words), "{}", ran.stdout);
    let json = simulate(path, &format!("{line} --json")).json();
    let vmem = &json["kernels"][0]["vmem"];
    assert!((0..1024).contains(&vmem["margin_bytes"].as_i64().unwrap()));
    let probability = vmem["fit_probability"].as_f64().unwrap();
    assert!((0.5..0.995).contains(&probability), "{probability}");
    let with_room = simulate(
        path,
        "--mosaic kernel.mlir --target v5e --vmem-limit-kib 131072",
    );
    assert!(
        !with_room.stdout.contains("probability"),
        "{}",
        with_room.stdout
    );
}

#[test]
fn an_operation_without_a_cost_is_named_with_its_line() {
    let folder = kernel();
    let path = folder.path();
    let text = fs::read_to_string(path.join("kernel.mlir")).unwrap();
    let (line, exp) = (text.lines().enumerate())
        .find(|(_, line)| line.contains("math.exp "))
        .unwrap();
    let unknown = exp.replace("math.exp ", "math.lgamma ");
    fs::write(path.join("unknown.mlir"), text.replacen(exp, &unknown, 1)).unwrap();
    let ran = simulate(path, "--mosaic unknown.mlir --target v5e --trace out.json");
    assert_eq!((ran.code, &ran.stdout[..]), (Some(2), ""));
    let named = format!("line {}", line + 1);
    assert!(
        ran.stderr.contains("math.lgamma") && ran.stderr.contains(&named),
        "{named}: {}",
        ran.stderr
    );
    assert!(!path.join("out.json").exists());
}

#[test]
fn wrong_requests_are_refused_by_name() {
    let folder = kernel();
    let path = folder.path();
    fs::write(path.join("not.mlir"), "hello").unwrap();
    fs::write(path.join("not.json"), "{\"bound\": [1]}").unwrap();
    fs::write(path.join("binary"), [0xff, 0xfe]).unwrap();
    for (line, words) in [
        ("--target v5e", "--mosaic"),
        (
            "linear-ce --target v5e --hidden 256 --vocab 1024",
            "--tokens",
        ),
        (
            "linear-ce --target v5e --tokens 4 --mosaic kernel.mlir",
            "--mosaic",
        ),
        ("--mosaic kernel.mlir --target v5e --chips 2", "--chips"),
        ("--mosaic kernel.mlir --target v5e --pass forward", "--pass"),
        ("--mosaic kernel.mlir --target v5e --z-loss 1", "--z-loss"),
        ("--mosaic kernel.mlir", "--target"),
        ("--mosaic missing.mlir --target v5e", "missing.mlir"),
        ("--mosaic not.mlir --target v5e", "not.mlir"),
        ("--mosaic binary --target v5e", "is not text"),
        (
            "--mosaic kernel.mlir --target v5e --scalars not.json",
            "bound",
        ),
        (
            "--mosaic kernel.mlir --target v5e --trace nowhere/out.json",
            "nowhere",
        ),
    ] {
        let ran = simulate(path, line);
        assert_eq!((ran.code, &ran.stdout[..]), (Some(2), ""), "{line}");
        assert!(ran.stderr.contains(words), "{line}: {}", ran.stderr);
    }
}

#[test]
fn a_trace_has_a_process_for_each_kernel() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let ran = simulate(
        path,
        &format!("{OP} --strategy streaming --trace out.json --json"),
    );
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let kernels = ran.json()["kernels"].as_array().unwrap().clone();
    assert_eq!(kernels.len(), 4);
    let trace: Value = serde_json::from_slice(&fs::read(path.join("out.json")).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let named = |kind: &str| -> Vec<(&Value, &str)> {
        let events = events.iter().filter(|event| event["name"] == kind);
        events
            .map(|event| (&event["pid"], event["args"]["name"].as_str().unwrap()))
            .collect()
    };
    let processes = named("process_name");
    assert_eq!(processes.len(), kernels.len());
    for (i, (kernel, &(id, name))) in kernels.iter().zip(&processes).enumerate() {
        assert_eq!(
            (id, name),
            (&Value::from(i), kernel["name"].as_str().unwrap())
        );
    }
    let rows = named("thread_name");
    for row in [
        "compute",
        "busy: MXU",
        "waits",
        "copies of x",
        "copies of w",
    ] {
        assert!(
            rows.iter().any(|&(id, name)| id == 0 && name == row),
            "{row}: {rows:?}"
        );
    }
    for event in events.iter().filter(|event| event["ph"] == "X") {
        assert!(event["ts"].as_f64().unwrap() >= 0.0 && event["dur"].as_f64().unwrap() >= 0.0);
    }
}

#[test]
fn scalars_that_are_not_given_are_named_with_the_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let emit =
        format!("emit {OP} --pass backward --strategy streaming --format mosaic --output k.mlir");
    let ran = tilecast(path, emit.split(' '));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let words = "1 prefetched scalars are not given (--scalars)";
    let ran = simulate(path, "--mosaic k.linear_ce_dx.mlir --target v5e");
    assert!(
        ran.stdout.lines().nth(2).unwrap().starts_with(words),
        "{}",
        ran.stdout
    );
    fs::write(path.join("given.json"), r#"{"prefetched": [[0, 0]]}"#).unwrap();
    let line = "--mosaic k.linear_ce_dx.mlir --target v5e --scalars given.json";
    let ran = simulate(path, line);
    assert_eq!((ran.code, ran.stdout.contains(words)), (Some(0), false));
}
