//! `tilecast run` on right input: names, types, shapes and values of what it writes.

mod interpreted;

use std::fs;
use std::path::Path;

use safetensors::Dtype;
use tempfile::TempDir;
use tilecast::core::kernels::linear_ce::{LinearCe, reference};
use tilecast::{DType, Options, Reduction};

use crate::files::{Read, Tensor, decode, encode};
use crate::logits::assert_same;
use crate::{Ran, tilecast};

const B: usize = 13;
const H: usize = 21;
const V: usize = 75;

/// Values that are the same every time and have no pattern that a block could hide.
fn values(len: usize, seed: f64, scale: f64) -> Vec<f32> {
    let value = |i| scale * (12.9898 * (i as f64 + seed)).sin();
    (0..len)
        .map(|i| half::bf16::from_f64(value(i)).to_f32())
        .collect()
}

/// Inputs, all of whose values bf16 holds exactly.
struct Problem {
    x: Vec<f32>,
    w: Vec<f32>,
    labels: Vec<i32>,
    weight: Vec<f32>,
    bias: Vec<f32>,
    d_loss: Vec<f32>,
    d_lse: Vec<f32>,
}

impl Problem {
    fn new() -> Self {
        Self {
            x: values(B * H, 0.1, 1.0),
            w: values(H * V, 0.2, 0.7),
            labels: (0..B as i32)
                .map(|i| if i % 5 == 2 { -100 } else { i * 17 % V as i32 })
                .collect(),
            weight: values(B, 0.3, 1.0).iter().map(|w| w.abs()).collect(),
            bias: values(V, 0.4, 0.5),
            d_loss: values(B, 0.5, 1.0),
            d_lse: values(B, 0.6, 1.0),
        }
    }

    fn tensors(&self, bf16: bool) -> Vec<Tensor> {
        let matrix = if bf16 { Tensor::bf16 } else { Tensor::f32 };
        let labels: Vec<i64> = self.labels.iter().map(|&label| label.into()).collect();
        vec![
            matrix("x", &[B, H], &self.x),
            Tensor::f32("bias", &[V], &self.bias),
            Tensor::i64("labels", &labels),
            matrix("w", &[H, V], &self.w),
            Tensor::f32("weight", &[B], &self.weight),
            Tensor::f32("d_loss", &[B], &self.d_loss),
            Tensor::f32("d_lse", &[B], &self.d_lse),
        ]
    }

    /// loss, lse, dx, dw, dbias with the options of [`OPTIONS`].
    fn exact(&self) -> [Vec<f64>; 5] {
        let options = Options {
            soft_cap: Some(6.0),
            z_loss: 0.01,
            label_smoothing: 0.1,
            ignore_index: Some(-100),
            reduction: Reduction::None,
            bias: true,
            weight: true,
            grad_dtype: None,
            delta_dtype: None,
        };
        let problem = LinearCe::new(B, H, V, DType::F32, options).unwrap();
        let wide = |data: &[f32]| data.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
        let inputs = reference::Inputs {
            x: wide(&self.x),
            w: wide(&self.w),
            bias: wide(&self.bias),
            labels: self.labels.clone(),
            weight: wide(&self.weight),
        };
        let forward = reference::forward(&problem, &inputs);
        let (d_loss, d_lse) = (wide(&self.d_loss), wide(&self.d_lse));
        let backward = reference::backward(&problem, &inputs, &d_loss, &d_lse);
        [
            forward.loss,
            forward.lse,
            backward.dx,
            backward.dw,
            backward.dbias,
        ]
    }
}

const OPTIONS: [&str; 8] = [
    "--soft-cap",
    "6",
    "--z-loss",
    "0.01",
    "--label-smoothing",
    "0.1",
    "--ignore-index",
    "-100",
];

struct Folder {
    folder: TempDir,
}

impl Folder {
    fn new(tensors: &[Tensor]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("in"), encode(tensors)).unwrap();
        Self { folder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn run(&self, backend: &str, options: &[&str]) -> Ran {
        let arguments = [
            "run",
            "linear-ce",
            "--backend",
            backend,
            "--input",
            "in",
            "--output",
            "out",
        ];
        tilecast(self.path(), arguments.iter().chain(options))
    }

    /// Runs, and reads what came out.
    fn results(&self, backend: &str, options: &[&str]) -> Vec<(String, Read)> {
        let ran = self.run(backend, options);
        assert_eq!((ran.code, &ran.stderr[..]), (Some(0), ""), "{options:?}");
        assert_eq!(ran.stdout.lines().count(), 1, "{}", ran.stdout);
        decode(&self.path().join("out"))
    }
}

/// Compares with a tolerance that is a share of the largest exact value.
fn assert_close(name: &str, got: &Read, exact: &[f64], share: f64) {
    assert_eq!(got.values.len(), exact.len(), "{name}");
    let largest = exact.iter().fold(0.0_f64, |max, x| max.max(x.abs()));
    for (i, (&got, &exact)) in got.values.iter().zip(exact).enumerate() {
        let error = (f64::from(got) - exact).abs();
        assert!(
            error <= share * largest,
            "{name}[{i}]: got {got}, exact {exact}"
        );
    }
}

fn assert_results(results: &[(String, Read)], exact: &[Vec<f64>; 5], gradients: Dtype, share: f64) {
    let expected = [
        ("dbias", Dtype::F32, vec![V], &exact[4], share),
        ("dw", gradients, vec![H, V], &exact[3], share),
        ("dx", gradients, vec![B, H], &exact[2], share),
        ("loss", Dtype::F32, vec![B], &exact[0], 2e-6),
        ("lse", Dtype::F32, vec![B], &exact[1], 2e-6),
    ];
    assert_eq!(results.len(), expected.len());
    for ((name, got), (expected, dtype, shape, exact, share)) in results.iter().zip(expected) {
        assert_eq!(
            (&name[..], got.dtype, &got.shape),
            (expected, dtype, &shape)
        );
        assert_close(name, got, exact, share);
    }
}

#[test]
fn f32_results_are_those_of_the_reference() {
    let problem = Problem::new();
    let folder = Folder::new(&problem.tensors(false));
    let exact = problem.exact();
    for options in [
        &[][..],
        &[
            "--strategy",
            "combined",
            "--threads",
            "3",
            "--blocks",
            "8,16,32",
        ],
        &[
            "--strategy",
            "streaming",
            "--blocks",
            "8,16,32",
            "--backward-blocks",
            "4,8,16",
            "--chunk-columns",
            "32",
        ],
        &["--level", "portable", "--grad-dtype", "f32"],
    ] {
        let results = folder.results("cpu", &[&OPTIONS[..], options].concat());
        assert_results(&results, &exact, Dtype::F32, 1e-5);
    }
    assert_results(
        &folder.results("reference", &OPTIONS),
        &exact,
        Dtype::F32,
        1e-6,
    );
}

#[test]
fn bf16_gradients_are_the_rounded_ones_of_the_reference() {
    let problem = Problem::new();
    let folder = Folder::new(&problem.tensors(true));
    let exact = problem.exact();
    let combined = folder.results("cpu", &[&OPTIONS[..], &["--strategy", "combined"]].concat());
    assert_results(&combined, &exact, Dtype::BF16, 1.0 / 256.0);
    let reference = folder.results("reference", &OPTIONS);
    assert_results(&reference, &exact, Dtype::BF16, 1.0 / 256.0);
    let options = ["--strategy", "combined", "--grad-dtype", "f32"];
    let wide = folder.results("cpu", &[&OPTIONS[..], &options].concat());
    assert_results(&wide, &exact, Dtype::F32, 1e-5);
}

#[test]
fn a_pass_writes_its_own_results_only() {
    let folder = Folder::new(&Problem::new().tensors(false));
    let both = folder.results("cpu", &OPTIONS);
    for (pass, expected) in [
        ("forward", &["loss", "lse"][..]),
        ("backward", &["dbias", "dw", "dx"]),
    ] {
        let results = folder.results("cpu", &[&OPTIONS[..], &["--pass", pass]].concat());
        let names: Vec<&str> = results.iter().map(|(name, _)| &name[..]).collect();
        assert_eq!(names, expected);
        for result in &results {
            assert!(both.contains(result), "{}", result.0);
        }
    }
}

#[test]
fn a_reduced_loss_is_a_scalar_and_takes_a_scalar_cotangent() {
    for shape in [&[][..], &[1]] {
        let mut tensors = Problem::new().tensors(false);
        tensors.retain(|tensor| tensor.name != "d_loss");
        let plain = Folder::new(&tensors);
        tensors.push(Tensor::f32("d_loss", shape, &[2.0]));
        let doubled = Folder::new(&tensors);
        let options = [&OPTIONS[..], &["--reduction", "mean"]].concat();
        let loss = |results: &[(String, Read)]| results.iter().position(|(name, _)| name == "loss");
        let results = doubled.results("cpu", &options);
        let got = &results[loss(&results).unwrap()].1;
        assert_eq!((&got.shape[..], got.values.len()), (&[][..], 1));
        let of = |backend| doubled.results(backend, &options);
        for ((name, cpu), (_, exact)) in of("cpu").iter().zip(of("reference")) {
            let exact: Vec<f64> = exact.values.iter().map(|&x| x.into()).collect();
            assert_close(name, cpu, &exact, 1e-5);
        }
        assert_ne!(plain.results("cpu", &options), results);
    }
}

#[test]
fn values_that_are_not_numbers_go_through() {
    let problem = Problem::new();
    let mut tensors = problem.tensors(false);
    let mut x = problem.x.clone();
    x[2 * H] = f32::NAN;
    tensors[0] = Tensor::f32("x", &[B, H], &x);
    let folder = Folder::new(&tensors);
    for backend in ["cpu", "sim", "reference"] {
        let results = folder.results(backend, &OPTIONS);
        let lse = &results.iter().find(|(name, _)| name == "lse").unwrap().1;
        let strange: Vec<usize> = (0..B).filter(|&i| lse.values[i].is_nan()).collect();
        assert_eq!(strange, [2], "{backend}");
    }
}

#[test]
fn json_says_what_ran() {
    let folder = Folder::new(&Problem::new().tensors(false));
    let options = [
        "--json",
        "--threads",
        "1",
        "--blocks",
        "8,16,32",
        "--strategy",
        "combined",
    ];
    let json = folder.run("cpu", &[&OPTIONS[..], &options].concat()).json();
    assert_eq!(json["op"], "linear-ce");
    assert_eq!(json["shape"]["vocab"], V);
    assert_eq!(json["threads"], 1);
    assert_eq!(json["strategy"], "combined");
    assert_eq!(
        json["backward_blocks"],
        serde_json::json!({ "b": 8, "h": 16, "v": 32 })
    );
    assert!(json["tokens_per_s"].as_f64().unwrap() > 0.0);
}

#[test]
fn stored_logits_give_the_results_of_the_reference() {
    let problem = Problem::new();
    let exact = problem.exact();
    let folder = Folder::new(&problem.tensors(false));
    let options = [&OPTIONS[..], &["--store-logits"]].concat();
    assert_results(&folder.results("cpu", &options), &exact, Dtype::F32, 1e-5);
    let json = folder
        .run("cpu", &[&options[..], &["--json"]].concat())
        .json();
    assert_eq!(json["strategy"], "stored");
    assert!(
        json["both_s"].is_number() && json["forward_s"].is_null(),
        "{json}"
    );
    let forward = [&options[..], &["--pass", "forward", "--json"]].concat();
    let json = folder.run("cpu", &forward).json();
    assert!(
        json["both_s"].is_null() && json["forward_s"].is_number(),
        "{json}"
    );
    let blocks = [&options[..], &["--blocks", "8,16,32"]].concat();
    assert_eq!(folder.run("cpu", &blocks).code, Some(2));
}

#[test]
fn storing_is_asked_for_in_bf16_too_and_where_there_is_no_place_nothing_is_stored() {
    let folder = Folder::new(&Problem::new().tensors(true));
    let results = |backend, options: &[&str]| {
        let options = [&["--ignore-index", "-100"], options].concat();
        let mut results = folder.results(backend, &options);
        // The sum of delta itself, in f32: as far off as delta.
        results.retain(|(name, _)| name != "dbias");
        results
    };
    let exact = results("reference", &[]);
    for delta in [&[][..], &["--delta-dtype", "f32"]] {
        let found = results("cpu", &[&["--store-logits"], delta].concat());
        assert_same(&found, &exact, 2e-2);
    }
}

#[test]
fn the_input_can_be_the_output_and_nothing_else_is_left() {
    let folder = Folder::new(&Problem::new().tensors(false));
    let arguments = [
        "run",
        "linear-ce",
        "--backend",
        "cpu",
        "--input",
        "in",
        "--output",
        "in",
    ];
    let ran = tilecast(folder.path(), arguments.iter().chain(&OPTIONS));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(decode(&folder.path().join("in")).len(), 5);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_tensor_nobody_reads_is_pointed_out() {
    let mut tensors = Problem::new().tensors(false);
    tensors.push(Tensor::f32("wieght", &[B], &[0.0; B]));
    let ran = Folder::new(&tensors).run("cpu", &OPTIONS);
    assert_eq!(ran.code, Some(0));
    assert!(ran.stderr.contains("wieght"), "{}", ran.stderr);
}
