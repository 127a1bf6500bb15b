//! The interpreter as a backend of `run`.

use super::*;

/// What the interpreter multiplies: operands in f32, or delta rounded to bf16.
#[test]
fn interpreted_kernels_give_the_results_of_the_reference() {
    let problem = Problem::new();
    let exact = problem.exact();
    let folder = Folder::new(&problem.tensors(false));
    for options in [
        &[][..],
        &["--strategy", "combined", "--seed", "7", "--target", "v4"],
        &[
            "--blocks",
            "256,128,128",
            "--backward-blocks",
            "128,128,256",
            "--chunk-columns",
            "256",
        ],
    ] {
        let results = folder.results("sim", &[&OPTIONS[..], options].concat());
        assert_results(&results, &exact, Dtype::F32, 1e-5);
    }
    let folder = Folder::new(&problem.tensors(true));
    let results = folder.results("sim", &OPTIONS);
    assert_results(&results, &exact, Dtype::BF16, 1.0 / 128.0);
    let results = folder.results("sim", &[&OPTIONS[..], &["--grad-dtype", "f32"]].concat());
    assert_results(&results, &exact, Dtype::F32, 1.0 / 256.0);
}

/// Same names, types and shapes, whatever is asked for.
#[test]
fn the_interpreter_writes_the_tensors_of_the_cpu() {
    let mut tensors = Problem::new().tensors(false);
    tensors.retain(|tensor| !["d_loss", "bias"].contains(&tensor.name));
    let folder = Folder::new(&tensors);
    for options in [
        &["--reduction", "mean"][..],
        &["--reduction", "sum", "--pass", "forward"],
        &["--reduction", "mean", "--pass", "backward"],
    ] {
        let options = [&OPTIONS[..], options].concat();
        let (cpu, sim) = (
            folder.results("cpu", &options),
            folder.results("sim", &options),
        );
        assert_eq!(cpu.len(), sim.len());
        for ((name, cpu), (sim_name, sim)) in cpu.iter().zip(&sim) {
            assert_eq!(
                (name, cpu.dtype, &cpu.shape),
                (sim_name, sim.dtype, &sim.shape)
            );
            let close: Vec<f64> = cpu.values.iter().map(|&x| x.into()).collect();
            assert_close(name, sim, &close, 2e-5);
        }
    }
}

#[test]
fn json_says_what_was_interpreted() {
    let folder = Folder::new(&Problem::new().tensors(false));
    let options = [&OPTIONS[..], &["--json", "--seed", "3"]].concat();
    let json = folder.run("sim", &options).json();
    assert_eq!(json["backend"], "sim");
    assert_eq!((&json["target"], &json["seed"]), (&"v5e".into(), &3.into()));
    let blocks = serde_json::json!({ "b": 128, "h": 128, "v": 128 });
    assert_eq!(
        (&json["blocks"], &json["backward_blocks"]),
        (&blocks, &blocks)
    );
    assert!(json["threads"].is_null() && json["level"].is_null());
}

/// Refused with a reason and a way out, and nothing written.
#[test]
fn what_the_interpreter_does_not_take() {
    let folder = Folder::new(&Problem::new().tensors(false));
    let large = Folder::new(&[
        Tensor::f32("x", &[1, 1], &[1.0]),
        Tensor::f32("w", &[1, 400_000], &vec![0.0; 400_000]),
        Tensor::i64("labels", &[0]),
    ]);
    let blocks = ["--blocks", "1024,1024,1024"];
    for (folder, backend, options, code, words) in [
        (
            &folder,
            "sim",
            &["--blocks", "8,128,128"][..],
            2,
            &["block 8", "multiple of 128"][..],
        ),
        (
            &folder,
            "sim",
            &["--backward-blocks", "128,128,50"],
            2,
            &["block 50", "multiple of 128"],
        ),
        (
            &folder,
            "sim",
            &["--blocks", "128,128,75"],
            2,
            &["75 columns", "multiple of 128"],
        ),
        (
            &folder,
            "sim",
            &["--blocks", "128,128,524288"],
            3,
            &["VMEM", "smaller blocks"],
        ),
        (
            &folder,
            "sim",
            &["--threads", "2"],
            2,
            &["--threads", "backend cpu"],
        ),
        (
            &folder,
            "sim",
            &["--level", "portable"],
            2,
            &["--level", "backend cpu"],
        ),
        (&folder, "sim", &["--target", "v99"], 2, &["v99", "v5e"]),
        (
            &folder,
            "cpu",
            &["--target", "v4"],
            2,
            &["--target", "backend sim"],
        ),
        (
            &folder,
            "reference",
            &["--seed", "1"],
            2,
            &["--seed", "backend sim"],
        ),
        // Four products of 1024 x 1024 x 400384.
        (
            &large,
            "sim",
            &blocks,
            2,
            &["1679332212736", "100000000000", "--backend cpu"],
        ),
    ] {
        let ran = folder.run(backend, &[&OPTIONS[..], options].concat());
        assert_eq!(ran.code, Some(code), "{options:?}: {}", ran.stderr);
        for word in words {
            assert!(
                ran.stderr.contains(word),
                "{options:?}: {word}: {}",
                ran.stderr
            );
        }
        assert!(!folder.path().join("out").exists(), "{options:?}");
    }
}
