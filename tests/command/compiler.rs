//! `compile` and `run --backend tpu`: what is refused before libtpu is asked, and what libtpu says. The latter needs
//! `TILECAST_LIBTPU`, the file libtpu.so.

use std::path::PathBuf;

use super::files::{Tensor, encode};
use super::{here, tilecast};

const SHAPE: [&str; 6] = ["--tokens", "512", "--hidden", "256", "--vocab", "1024"];
const TARGET: [&str; 2] = ["--target", "v5e"];

fn kernel() -> String {
    let path = here().join("backend-tpu/tests/data/tiled_matmul.mlir");
    path.to_str().expect("the path is UTF-8").to_owned()
}

/// Runs `compile` with a libtpu that may not exist.
fn compile(libtpu: &str, arguments: &[&str]) -> super::Ran {
    let rest = ["--libtpu", libtpu].into_iter().chain(TARGET);
    tilecast(
        here(),
        ["compile"]
            .into_iter()
            .chain(arguments.iter().copied())
            .chain(rest),
    )
}

#[test]
fn one_module_is_compiled_with_the_options_it_has() {
    let kernel = kernel();
    let mosaic = ["--mosaic", &kernel];
    let cases: [(&[&str], &str); 6] = [
        (&[], "<OP|--mosaic <FILE>|--stablehlo <FILE>>"),
        (&["linear-ce"], "--tokens"),
        (
            &["--stablehlo", "a", "--mosaic", "b"],
            "cannot be used with",
        ),
        (&[mosaic[0], mosaic[1], "--tokens", "8"], "--tokens"),
        (&[mosaic[0], mosaic[1], "--soft-cap", "3"], "--soft-cap"),
        (&["--stablehlo", "a", "--outputs", "1"], "--outputs"),
    ];
    for (arguments, named) in cases {
        let ran = compile("libtpu.so", arguments);
        assert_eq!(ran.code, Some(2), "{arguments:?}");
        assert!(ran.stderr.contains(named), "{arguments:?}: {}", ran.stderr);
    }
}

#[test]
fn a_tpu_needs_libtpu() {
    let arguments = "run linear-ce --backend tpu --input a --output b";
    let ran = tilecast(here(), arguments.split(' '));
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("--libtpu"), "{}", ran.stderr);
}

/// Refused before libtpu is looked for.
#[test]
fn options_of_another_backend() {
    for (line, words) in [
        (
            "run linear-ce --backend cpu --libtpu a",
            ["--libtpu", "backend tpu"],
        ),
        (
            "run linear-ce --backend tpu --libtpu a --threads 2",
            ["--threads", "backend cpu"],
        ),
        (
            "run linear-ce --backend tpu --libtpu a --seed 1",
            ["--seed", "backend sim"],
        ),
        (
            "run linear-ce --backend tpu --libtpu a --chunk-columns 128",
            ["--chunk-columns", "backend cpu"],
        ),
        (
            "check --backends cpu,tpu",
            ["check has no backend tpu", "run --backend tpu"],
        ),
    ] {
        let files = match line.starts_with("run") {
            true => " --input a --output b",
            false => "",
        };
        let ran = tilecast(here(), format!("{line}{files}").split(' '));
        assert_eq!(ran.code, Some(2), "{line}: {}", ran.stderr);
        for word in words {
            assert!(ran.stderr.contains(word), "{line}: {}", ran.stderr);
        }
    }
}

/// The compiler, if there is one for this test.
fn libtpu() -> Option<String> {
    let path = std::env::var_os("TILECAST_LIBTPU").map(PathBuf::from);
    match path {
        Some(path) => path.to_str().map(str::to_owned),
        _ => {
            println!("skipped: needs TILECAST_LIBTPU, the file libtpu.so");
            None
        }
    }
}

#[test]
fn an_op_is_compiled_in_its_blocks() {
    let Some(libtpu) = libtpu() else { return };
    let mut arguments: Vec<&str> = ["linear-ce", "--json", "--pass", "forward"].into();
    arguments.extend(SHAPE);
    arguments.extend(["--blocks", "128,256,512"]);
    let ran = compile(&libtpu, &arguments);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let report = ran.json();
    assert_eq!(report["status"], "ok");
    assert_eq!(
        report["blocks"],
        serde_json::json!({ "b": 128, "h": 256, "v": 512 })
    );
    assert_eq!(report["backward_blocks"], serde_json::Value::Null);
    assert_eq!(report["kernels"].as_array().unwrap().len(), 1);
    assert!(report["used_bytes"].as_u64().unwrap() <= report["limit_bytes"].as_u64().unwrap());
}

#[test]
fn a_kernel_is_compiled_alone_and_what_it_lacks_is_exact() {
    let Some(libtpu) = libtpu() else { return };
    let kernel = kernel();
    let run = |limit_kib| {
        compile(
            &libtpu,
            &["--mosaic", &kernel, "--json", "--vmem-limit-kib", limit_kib],
        )
    };
    let ran = run("16384");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let fits = ran.json();
    assert_eq!(
        fits["arrays"]["outputs"],
        serde_json::json!(["tensor<256x256xbf16>"])
    );
    let ran = run("64");
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    let too_large = ran.json();
    assert_eq!(too_large["status"], "vmem_oom");
    assert_eq!(too_large["used_bytes_exact"], true);
    assert_eq!(too_large["used_bytes"], fits["used_bytes"]);
    assert_eq!(too_large["limit_bytes"], 64 << 10);
}

/// On a machine with a TPU there is nothing to test here.
#[test]
fn a_machine_without_a_tpu_says_so() {
    let Some(libtpu) = libtpu() else { return };
    let devices = std::fs::read_dir("/dev").into_iter().flatten().flatten();
    let accelerators =
        devices.filter(|entry| entry.file_name().to_string_lossy().starts_with("accel"));
    if accelerators.count() > 0 || std::fs::exists("/dev/vfio").unwrap_or(true) {
        println!("skipped: this machine may have a TPU");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let tensors = [
        Tensor::f32("x", &[2, 3], &[0.5; 6]),
        Tensor::f32("w", &[3, 4], &[0.25; 12]),
        Tensor::i32("labels", &[1, 3]),
    ];
    std::fs::write(folder.path().join("in.safetensors"), encode(&tensors)).unwrap();
    let line = format!(
        "run linear-ce --backend tpu --libtpu {libtpu} --timeout 300 --input in.safetensors --output out.safetensors"
    );
    let ran = tilecast(folder.path(), line.split(' '));
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(
        ran.stderr
            .starts_with("error: no TPU was found on this machine"),
        "{}",
        ran.stderr
    );
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    assert!(!folder.path().join("out.safetensors").exists());
}
