//! Modules run for their numbers: hand-written kernels here, faults and kernels of Pallas below.

mod faults;
mod pallas;

use half::bf16;
use tilecast_core::DType;
use tilecast_tpu::mosaic::Module;

use super::{Array, Data, ExecuteError, Fault, Options, run};

/// Numbers in `[-1, 1)`, the same every time.
fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    (0..count)
        .map(|_| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((z ^ (z >> 31)) >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
        })
        .collect()
}

fn f32s(data: Vec<f32>, dims: &[usize]) -> Array {
    Array::new(data, dims).unwrap()
}

fn i32s(data: Vec<i32>, dims: &[usize]) -> Array {
    Array::new(data, dims).unwrap()
}

/// The array rounded to bf16.
fn bf16s(data: &[f32], dims: &[usize]) -> Array {
    let data: Vec<bf16> = data.iter().map(|&x| bf16::from_f32(x)).collect();
    Array::new(data, dims).unwrap()
}

/// Runs a kernel of one output.
fn run_one(
    text: &str,
    inputs: &[&Array],
    dtype: DType,
    dims: &[usize],
) -> Result<Array, ExecuteError> {
    let module = Module::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let mut output = Array::undefined(dtype, dims);
    run(&module, inputs, &mut [&mut output], &Options::default())?;
    Ok(output)
}

/// A kernel without a grid: `body` on `x` and `y`, two 8 x 128 f32 windows, `o`, a third one, the
/// HBM array `%h` of 16 x 128, scratch `%s` of 8 x 128 and a DMA semaphore `%d`.
fn small(body: &str) -> String {
    let tile = "memref<8x128xf32, #tpu.memory_space<vmem>>";
    format!(
        "module @small {{
  func.func @small(%x: {tile}, %y: {tile}, %h: memref<16x128xf32, #tpu.memory_space<hbm>>, \
         %o: {tile}, %s: {tile}, \
         %d: memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) attributes {{\
         dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 2 : i64, \
         tpu.core_type = #tpu.core_type<tc>}} {{
    %c0 = arith.constant 0 : index
    %z = arith.constant 0 : i32
    %one = arith.constant 1 : i32
{body}
    return
  }}
}}"
    )
}

fn run_small(body: &str) -> Result<Vec<f32>, ExecuteError> {
    let count = 8 * 128;
    let x = f32s((0..count).map(|i| i as f32).collect(), &[8, 128]);
    let y = f32s(vec![2.0; count], &[8, 128]);
    let h = f32s(numbers(2 * count, 3), &[16, 128]);
    Ok(run_one(&small(body), &[&x, &y, &h], DType::F32, &[8, 128])?.to_f32())
}

/// A kernel that writes 16 rows of bf16 as words to `%o`, of `load`: those that it reads as words of `%x`.
fn words(load: &str) -> Result<Array, ExecuteError> {
    let vmem = "#tpu.memory_space<vmem>";
    let (held, seen) = (
        format!("memref<8x128xi32, {vmem}>"),
        format!("memref<16x128xbf16, {vmem}>"),
    );
    let text = format!(
        "module @words {{
  func.func @words(%x: {held}, %o: {held}) attributes {{dimension_semantics = [], \
         scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %from = tpu.memref_bitcast %x : {held} -> {seen}
    %to = tpu.memref_bitcast %o : {held} -> {seen}
{load}
    return
  }}
}}"
    );
    let x = (0..8 * 128).map(|i| i << 16 | (1000 + i)).collect();
    run_one(&text, &[&i32s(x, &[8, 128])], DType::I32, &[8, 128])
}

#[test]
fn words_are_pairs_of_rows_of_narrow_elements() {
    let copy = |rows: usize, from: &str, to: &str| {
        format!(
            "    %v{from} = vector.load %from[%{from}, %c0] : memref<16x128xbf16, #tpu.memory_space<vmem>>, \
             vector<{rows}x128xbf16>
    tpu.vector_store %to[%{to}, %c0], %v{from} {{strides = array<i32>}} : \
             memref<16x128xbf16, #tpu.memory_space<vmem>>, vector<{rows}x128xbf16>,
"
        )
    };
    let word = |i: i32| i << 16 | (1000 + i);
    let same = words(&copy(16, "c0", "c0")).unwrap();
    assert_eq!(same.data(), &Data::I32((0..8 * 128).map(word).collect()));
    // Rows 4 to 7 are words of rows 2 and 3.
    let moved = words(&(copy(16, "c0", "c0") + &copy(4, "c4", "c0"))).unwrap();
    let Data::I32(moved) = moved.data() else {
        panic!("{moved:?}")
    };
    assert_eq!(moved[..256], (256..512).map(word).collect::<Vec<_>>());
    assert_eq!(moved[256..], (256..1024).map(word).collect::<Vec<_>>());
    // Half of a word.
    for refused in [
        copy(4, "c1", "c0"),
        copy(1, "c0", "c0"),
        copy(4, "c0", "c1"),
    ] {
        let fault = words(&refused).unwrap_err();
        assert!(fault.to_string().contains("a part of a word"), "{fault}");
    }
}

/// The fault of a run and the line it is at.
fn fault(body: &str) -> (String, u32, Fault) {
    match run_small(body) {
        Err(ExecuteError::Fault(located)) => (located.op.clone(), located.line, located.fault),
        other => panic!("{other:?}"),
    }
}

/// The line of `body` that holds `word`, as [`small`] places it.
fn line(body: &str, word: &str) -> u32 {
    let text = small(body);
    let at = text.lines().position(|line| line.contains(word));
    at.expect("the word occurs") as u32 + 1
}

const LOAD_X: &str = "    %a = vector.load %x[%c0, %c0] : \
    memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>\n";

fn store(value: &str, memory: &str) -> String {
    format!(
        "    tpu.vector_store %{memory}[%c0, %c0], %{value} {{strides = array<i32>}} : \
         memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>,\n"
    )
}

#[test]
fn elements_are_computed_in_the_order_of_the_text() {
    let body = [
        LOAD_X,
        "    %b = arith.addf %a, %a : vector<8x128xf32>\n",
        "    %t = arith.truncf %b : vector<8x128xf32> to vector<8x128xbf16>\n",
        "    %e = arith.extf %t : vector<8x128xbf16> to vector<8x128xf32>\n",
        &store("e", "o"),
    ]
    .concat();
    let expected: Vec<f32> = (0..1024)
        .map(|i| bf16::from_f32(2.0 * i as f32).to_f32())
        .collect();
    assert_eq!(run_small(&body).unwrap(), expected);
}

#[test]
fn integers_wrap_and_loops_carry_values() {
    let body = "    %ten = arith.constant 10 : i32
    %big = arith.constant 2000000000 : i32
    %sum = scf.for %i = %z to %ten step %one iter_args(%c = %big) -> (i32)  : i32 {
      %n = arith.addi %c, %big : i32
      scf.yield %n : i32
    }
    %f = arith.sitofp %sum : i32 to f32
    %v = vector.broadcast %f : f32 to vector<8x128xf32>\n"
        .to_owned()
        + &store("v", "o");
    let expected = 2_000_000_000_i32.wrapping_mul(11) as f32;
    assert_eq!(run_small(&body).unwrap(), vec![expected; 1024]);
}

#[test]
fn what_nothing_wrote_is_nan() {
    let scratch = "    %a = vector.load %s[%c0, %c0] : \
        memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>\n";
    let values = run_small(&(scratch.to_owned() + &store("a", "o"))).unwrap();
    assert!(values.iter().all(|x| x.is_nan()));
    let values = run_small("").unwrap();
    assert!(
        values.iter().all(|x| x.is_nan()),
        "an output never stored to"
    );
}

fn slice(name: &str, row: &str) -> String {
    format!(
        "    %{name} = tpu.memref_slice %h[%{row}, %z] : memref<16x128xf32, #tpu.memory_space<hbm>> \
         -> memref<8x128xf32, #tpu.memory_space<hbm>>\n"
    )
}

fn dma(op: &str, source: &str) -> String {
    format!(
        "    tpu.{op} source(%{source} : memref<8x128xf32, #tpu.memory_space<hbm>>) \
         target(%s : memref<8x128xf32, #tpu.memory_space<vmem>>) \
         target_semaphore(%d : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>){}\n",
        if op == "wait_dma" {
            " {wait_target = true}"
        } else {
            ""
        }
    )
}

const LOAD_S: &str = "    %r = vector.load %s[%c0, %c0] : \
    memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>\n";

#[test]
fn a_copy_is_there_after_the_wait() {
    let row = "    %row = arith.constant 8 : i32\n";
    let body = [
        row,
        &slice("p", "row"),
        &dma("enqueue_dma", "p"),
        &dma("wait_dma", "p"),
        LOAD_S,
        &store("r", "o"),
    ]
    .concat();
    assert_eq!(run_small(&body).unwrap(), numbers(2048, 3)[1024..]);
}

/// `x w` in blocks of 128, `x [200, 256]` and `w [256, 300]`, masked along the depth of 256.
fn matmul(dtype: &str, precision: &str, semantics: &str) -> String {
    mixed_matmul([dtype; 2], precision, semantics)
}

fn mixed_matmul(dtypes: [&str; 2], precision: &str, semantics: &str) -> String {
    let [operand, right] =
        dtypes.map(|dtype| format!("memref<128x128x{dtype}, #tpu.memory_space<vmem>>"));
    let [vector, right_vector] = dtypes.map(|dtype| format!("vector<128x128x{dtype}>"));
    let f32 = "vector<128x128xf32>";
    let out = "memref<128x128xf32, #tpu.memory_space<vmem>>";
    let window = |i: u32| {
        format!("{{transform_indices = @transform_{i}, window_bounds = array<i64: 128, 128>}}")
    };
    let windows = [window(0), window(1), window(2)].join(", ");
    let transform = |i: u32, rows: &str, columns: &str| {
        format!(
            "  func.func @transform_{i}(%i: i32, %j: i32, %k: i32) -> (i32, i32) {{
    return %{rows}, %{columns} : i32, i32
  }}\n"
        )
    };
    let transforms = transform(0, "i", "k") + &transform(1, "k", "j") + &transform(2, "i", "j");
    format!(
        "module @matmul {{
  func.func @matmul(%i: i32, %j: i32, %k: i32, %x: {operand}, %w: {right}, %o: {out}) attributes {{dimension_semantics = [#tpu.dimension_semantics<{semantics}>, #tpu.dimension_semantics<{semantics}>, #tpu.dimension_semantics<arbitrary>], iteration_bounds = array<i64: 2, 3, 2>, scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>, window_params = [{windows}]}} {{
    %c0 = arith.constant 0 : index
    %z = arith.constant 0 : i32
    %first = arith.cmpi eq, %k, %z : i32
    %cst = arith.constant dense<0.000000e+00> : {f32}
    scf.if %first {{
      tpu.vector_store %o[%c0, %c0], %cst {{strides = array<i32>}} : {out}, {f32},
    }}
    %a = vector.load %x[%c0, %c0] : {operand}, {vector}
    %b = vector.load %w[%c0, %c0] : {right}, {right_vector}
    %p = tpu.matmul %a, %b, %cst {{dimension_numbers = #tpu.dot_dimension_numbers<[1], [0], [0], [1], [0, 0, 1, 1], [], []>{precision}, transpose_lhs_hint = false}} : {vector}, {right_vector}, {f32} -> {f32}
    %old = vector.load %o[%c0, %c0] : {out}, {f32}
    %new = arith.addf %old, %p : {f32}
    tpu.vector_store %o[%c0, %c0], %new {{strides = array<i32>}} : {out}, {f32},
    return
  }}
{transforms}}}"
    )
}

const EXACT: &str = ", precision = #tpu.contract_precision<fp32>";

/// `x w` in f64, and the sums of magnitudes.
fn product(x: &[f32], w: &[f32], [m, k, n]: [usize; 3]) -> Vec<[f64; 2]> {
    let mut out = vec![[0.0; 2]; m * n];
    for i in 0..m {
        for l in 0..k {
            for j in 0..n {
                let term = f64::from(x[i * k + l]) * f64::from(w[l * n + j]);
                out[i * n + j][0] += term;
                out[i * n + j][1] += term.abs();
            }
        }
    }
    out
}

#[test]
fn products_are_rounded_as_their_precision_says() {
    let sizes = [200, 256, 300];
    let [m, k, n] = sizes;
    let (x, w) = (numbers(m * k, 1), numbers(k * n, 2));
    let rounded = |values: &[f32]| -> Vec<f32> {
        values.iter().map(|&x| bf16::from_f32(x).to_f32()).collect()
    };
    let narrow = product(&rounded(&x), &rounded(&w), sizes);
    let wide = product(&x, &w, sizes);
    let three = ", precision = #tpu.contract_precision<bf16x3>";
    // Unit roundoff of the sum in f32, and of what three products leave out.
    let (sum, left_out) = (2.0_f64.powi(-21), 2.0_f64.powi(-15));
    let array = |dtype, values: &[f32], dims: &[usize]| match dtype {
        "bf16" => bf16s(values, dims),
        _ => f32s(values.to_vec(), dims),
    };
    for (dtypes, precision, expected, unit) in [
        (["f32", "f32"], "", &narrow, sum),
        (["f32", "f32"], EXACT, &wide, sum),
        (["f32", "f32"], three, &wide, left_out),
        (["bf16", "bf16"], "", &narrow, sum),
        (["f32", "bf16"], "", &narrow, sum),
        (["bf16", "f32"], "", &narrow, sum),
    ] {
        let arrays = [array(dtypes[0], &x, &[m, k]), array(dtypes[1], &w, &[k, n])];
        let text = mixed_matmul(dtypes, precision, "parallel");
        let got = run_one(&text, &[&arrays[0], &arrays[1]], DType::F32, &[m, n]).unwrap();
        for (i, (got, [value, size])) in got.to_f32().into_iter().zip(expected).enumerate() {
            let error = (f64::from(got) - value).abs();
            assert!(
                error <= unit * size,
                "{dtypes:?}{precision} {i}: {got}, not {value}"
            );
        }
    }
}

#[test]
fn the_order_of_parallel_steps_does_not_matter() {
    let [m, k, n] = [200, 256, 300];
    let (x, w) = (
        f32s(numbers(m * k, 1), &[m, k]),
        f32s(numbers(k * n, 2), &[k, n]),
    );
    let module = Module::parse(&matmul("f32", EXACT, "parallel")).unwrap();
    let run = |parallel_order| {
        let mut out = Array::undefined(DType::F32, &[m, n]);
        let options = Options {
            parallel_order,
            ..Options::default()
        };
        run(&module, &[&x, &w], &mut [&mut out], &options).unwrap();
        out
    };
    let plain = run(None);
    assert!(plain.to_f32().iter().all(|x| x.is_finite()));
    for seed in 0..5 {
        assert_eq!(run(Some(seed)), plain);
    }
}
