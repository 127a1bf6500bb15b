//! Kernels that Pallas lowered, from the texts that the parser is tested on.

use super::*;

macro_rules! text {
    ($name:literal) => {
        include_str!(concat!(
            "../../../../backend-tpu/tests/data/",
            $name,
            ".mlir"
        ))
    };
}

pub(super) const WHILE: &str = text!("while_loop");
pub(super) const SHAPES: &str = text!("shapes");
pub(super) const COPIES: &str = text!("copies");

#[test]
fn a_tiled_matmul_with_bf16_operands() {
    let (x, w) = (numbers(256 * 256, 1), numbers(256 * 256, 2));
    let arrays = [bf16s(&x, &[256, 256]), bf16s(&w, &[256, 256])];
    let (x, w) = (arrays[0].to_f32(), arrays[1].to_f32());
    let inputs = [&arrays[0], &arrays[1]];
    let out = run_one(text!("tiled_matmul"), &inputs, DType::Bf16, &[256, 256]).unwrap();
    let expected = product(&x, &w, [256; 3]);
    for (got, [value, size]) in out.to_f32().into_iter().zip(expected) {
        let error = (f64::from(got) - value).abs();
        assert!(
            error <= value.abs() / 256.0 + size * 2.0_f64.powi(-21),
            "{got}, not {value}"
        );
    }
}

#[test]
fn copies_of_a_number_of_blocks_known_at_run_time() {
    let x = numbers(32 * 128, 1);
    let array = f32s(x.clone(), &[32, 128]);
    let out = |blocks| {
        let count = i32s(vec![blocks], &[1]);
        run_one(COPIES, &[&count, &array], DType::F32, &[32, 128]).map(|a| a.to_f32())
    };
    let doubled: Vec<f32> = x.iter().map(|x| 2.0 * x).collect();
    assert_eq!(out(4).unwrap(), doubled);
    let half = out(2).unwrap();
    assert_eq!(half[..16 * 128], doubled[..16 * 128]);
    assert!(half[16 * 128..].iter().all(|x| x.is_nan()));
    assert!(
        matches!(out(5), Err(ExecuteError::Fault(_))),
        "a block past the end"
    );
}

#[test]
fn logsumexp_by_sub_tiles() {
    let x = numbers(64 * 256, 1);
    let labels: Vec<i32> = (0..64).map(|i| (i * 37) % 256).collect();
    let module = Module::parse(text!("logsumexp")).unwrap();
    let column = || Array::undefined(DType::F32, &[64, 1]);
    let (mut lse, mut picked) = (column(), column());
    let inputs = [
        &f32s(x.clone(), &[64, 256]),
        &i32s(labels.clone(), &[64, 1]),
    ];
    run(
        &module,
        &inputs,
        &mut [&mut lse, &mut picked],
        &Options::default(),
    )
    .unwrap();
    for (i, row) in x.chunks(256).enumerate() {
        let sum: f64 = row.iter().map(|&x| f64::from(x).exp()).sum();
        assert!((f64::from(lse.to_f32()[i]) - sum.ln()).abs() < 1e-5);
        assert_eq!(picked.to_f32()[i], row[labels[i] as usize]);
    }
}

#[test]
fn windows_that_overhang_and_windows_in_elements() {
    let (x, y) = (numbers(2 * 8 * 300, 1), numbers(16 * 128, 2));
    let (x, y) = (bf16s(&x, &[2, 8, 300]), f32s(y, &[16, 128]));
    let out = run_one(text!("ragged"), &[&x, &y], DType::F32, &[2, 8, 300])
        .unwrap()
        .to_f32();
    let (x, y) = (x.to_f32(), y.to_f32());
    for (i, got) in out.into_iter().enumerate() {
        let (row, column) = (i / 300, i % 300);
        assert_eq!(got, x[i] * y[row * 128 + column % 128]);
    }
}

#[test]
fn a_while_loop() {
    let x: Vec<f32> = numbers(1024, 1).iter().map(|x| x.abs()).collect();
    let out = |count, sign| {
        let numbers = i32s(vec![count, sign], &[2]);
        let x = f32s(x.clone(), &[8, 128]);
        run_one(WHILE, &[&numbers, &x], DType::F32, &[8, 128])
            .unwrap()
            .to_f32()
    };
    let step = |x: f32| x * 0.5 + 1.0 / (x + 1.0).sqrt();
    let expected: Vec<f32> = x.iter().map(|&x| step(step(step(x)))).collect();
    assert_eq!(out(3, 3), expected);
    let negative: Vec<f32> = expected.iter().map(|x| 0.0 - x).collect();
    assert_eq!(out(3, 0), negative);
}

#[test]
fn rotations_reductions_and_integers() {
    let x = numbers(8 * 256, 1);
    let module = Module::parse(SHAPES).unwrap();
    let mut reals = Array::undefined(DType::F32, &[8, 256]);
    let mut integers = Array::undefined(DType::I32, &[256, 8]);
    let inputs = [&f32s(x.clone(), &[8, 256]), &i32s(vec![3], &[1])];
    run(
        &module,
        &inputs,
        &mut [&mut reals, &mut integers],
        &Options::default(),
    )
    .unwrap();
    let swapped = |r: usize, c: usize| x[r * 256 + (c + 128) % 256];
    for (r, row) in reals.to_f32().chunks(256).enumerate() {
        for (c, &got) in row.iter().enumerate() {
            let rotated = swapped(r, (c + 255) % 256) + swapped((r + 5) % 8, c);
            let far = x[r * 256 + c] > 0.5 || swapped(r, c) < -0.5;
            let value = if far { rotated } else { 0.0 - x[r * 256 + c] };
            let largest = (0..8).map(|r| swapped(r, c)).fold(f32::MIN, f32::max);
            assert_eq!(got, value + largest, "{r} {c}");
        }
    }
    for (i, got) in integers.to_f32().into_iter().enumerate() {
        let (c, r) = (i / 8, i % 8);
        let bits = (x[r * 256 + c].to_bits() as i32 >> 3) & 7;
        let value = if bits % 3 == 1 { bits * 3 } else { bits ^ 5 };
        let row = &x[r * 256..][..256];
        let largest = (0..256).fold(0, |best, i| if row[i] > row[best] { i } else { best });
        assert_eq!(got, (value + largest as i32) as f32, "{c} {r}");
    }
}

/// `emit_pipeline`: windows that the kernel copies itself, two buffers each.
#[test]
fn a_pipeline_inside_of_a_kernel() {
    let (x, y) = (numbers(256 * 256, 1), numbers(64 * 256, 2));
    let inputs = [&f32s(x.clone(), &[256, 256]), &f32s(y.clone(), &[64, 256])];
    let out = run_one(text!("pipeline"), &inputs, DType::F32, &[256, 256])
        .unwrap()
        .to_f32();
    for (i, got) in out.into_iter().enumerate() {
        let (row, column) = (i / 256, i % 256);
        assert_eq!(
            got,
            x[i].tanh() + y[row % 64 * 256 + column],
            "{row} {column}"
        );
    }
}
