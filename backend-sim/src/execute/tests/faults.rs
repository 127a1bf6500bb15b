//! What a kernel must not do, each with the operation and the line that does it.

use super::*;

#[test]
fn elements_outside_of_a_memory() {
    let row = "    %r = arith.constant 4 : index\n";
    let load = "    %a = vector.load %x[%r, %c0] : \
        memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>\n";
    let body = [row, load].concat();
    let found = fault(&body);
    assert_eq!(
        (&*found.0, found.1),
        ("vector.load", line(&body, "vector.load"))
    );
    assert_eq!(
        found.2.to_string(),
        "elements [4, 0] to [12, 128] are outside of window 0, which has the shape [8, 128]"
    );

    let body = format!("    %far = arith.constant 9 : i32\n{}", slice("p", "far"));
    let (op, at, found) = fault(&body);
    assert_eq!(
        (&*op, at),
        ("tpu.memref_slice", line(&body, "memref_slice"))
    );
    assert!(matches!(found, Fault::OutOfBounds { start, .. } if start == [9, 0]));

    let before = "    %m = arith.constant -1 : index\n".to_owned()
        + &LOAD_X.replace("[%c0, %c0]", "[%m, %c0]");
    assert!(matches!(fault(&before).2, Fault::OutOfBounds { .. }));
    let stored = LOAD_X.to_owned() + row + &store("a", "o").replace("[%c0, %c0]", "[%r, %c0]");
    assert!(matches!(fault(&stored).2, Fault::OutOfBounds { .. }));
}

#[test]
fn memory_used_while_it_is_copied() {
    let start = [slice("p", "z"), dma("enqueue_dma", "p")].concat();
    let body = [&start, LOAD_S, &dma("wait_dma", "p")].concat();
    let (op, at, found) = fault(&body);
    assert_eq!((&*op, at), ("vector.load", line(&body, "vector.load")));
    let copy_line = line(&body, "enqueue_dma");
    assert_eq!(
        found.to_string(),
        format!("reads scratch 0, which the copy started at line {copy_line} is still writing")
    );

    let stores = [LOAD_X, &start, &store("a", "s")].concat();
    assert!(matches!(
        fault(&stores).2,
        Fault::Race {
            access: "writes",
            ..
        }
    ));
    let twice = [&start, dma("enqueue_dma", "p").as_str()].concat();
    assert!(matches!(
        fault(&twice).2,
        Fault::Race {
            access: "writes",
            ..
        }
    ));

    // The source may be read, not written.
    let local = |op| dma(op, "x").replace("memory_space<hbm>", "memory_space<vmem>");
    let (out, wait) = (local("enqueue_dma"), local("wait_dma"));
    let reads = [&out, LOAD_X, &wait, LOAD_S, &store("r", "o")].concat();
    assert_eq!(run_small(&reads).unwrap()[5], 5.0);
    let writes = [LOAD_X, &out, &store("a", "x"), &wait].concat();
    assert!(matches!(
        fault(&writes).2,
        Fault::Race {
            access: "writes",
            copy: "is still reading",
            ..
        }
    ));
}

/// Two copies on one semaphore may complete in any order: one wait is not enough for either.
#[test]
fn copies_that_share_a_semaphore_need_all_their_waits() {
    let second = |op| dma(op, "q").replace("%s :", "%y :");
    let start = [
        "    %row = arith.constant 8 : i32\n",
        &slice("p", "z"),
        &slice("q", "row"),
        &dma("enqueue_dma", "p"),
        &second("enqueue_dma"),
        &dma("wait_dma", "p"),
    ]
    .concat();
    let early = [&start, LOAD_S, &second("wait_dma")].concat();
    assert!(matches!(
        fault(&early).2,
        Fault::Race {
            access: "reads",
            ..
        }
    ));
    let late = [&start, &second("wait_dma"), LOAD_S, &store("r", "o")].concat();
    assert_eq!(run_small(&late).unwrap(), numbers(2048, 3)[..1024]);
}

#[test]
fn waits_for_what_never_comes_and_copies_nobody_waits_for() {
    let p = slice("p", "z");
    let (op, _, found) = fault(&[&*p, &dma("wait_dma", "p")].concat());
    assert_eq!(op, "tpu.wait_dma");
    assert!(matches!(
        found,
        Fault::Deadlock {
            wanted: 4096,
            there: 0,
            ..
        }
    ));
    let once = [
        &*p,
        &dma("enqueue_dma", "p"),
        &dma("wait_dma", "p"),
        &dma("wait_dma", "p"),
    ];
    assert!(matches!(fault(&once.concat()).2, Fault::Deadlock { .. }));
    let (op, _, found) = fault(&[&*p, &dma("enqueue_dma", "p")].concat());
    assert_eq!(op, "func.func");
    assert!(matches!(found, Fault::Unfinished(_)));
}

#[test]
fn writes_to_an_input() {
    let p = slice("p", "z");
    let back = "    tpu.enqueue_dma source(%x : memref<8x128xf32, #tpu.memory_space<vmem>>) \
        target(%p : memref<8x128xf32, #tpu.memory_space<hbm>>) \
        target_semaphore(%d : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>)\n";
    let (op, _, found) = fault(&[&*p, back].concat());
    assert_eq!(op, "tpu.enqueue_dma");
    assert_eq!(
        found.to_string(),
        "writes to argument 2, which is not an output"
    );
}

#[test]
fn operations_that_are_not_known() {
    let body = "    %u = \"tpu.mystery\"() : () -> i32\n";
    let (op, at, found) = fault(body);
    assert_eq!((&*op, at), ("tpu.mystery", line(body, "mystery")));
    assert_eq!(found, Fault::UnknownOp);
}

#[test]
fn work_without_end() {
    let body = "    %true = arith.constant true
    scf.while : () -> () {
      scf.condition(%true)
    } do {
      scf.yield
    }\n";
    let module = Module::parse(&small(body)).unwrap();
    let tile = f32s(vec![0.0; 1024], &[8, 128]);
    let array = f32s(vec![0.0; 2048], &[16, 128]);
    let mut out = Array::undefined(DType::F32, &[8, 128]);
    let options = Options {
        budget: 10_000,
        ..Options::default()
    };
    let error = run(&module, &[&tile, &tile, &array], &mut [&mut out], &options).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("the budget of 10000 element operations is used up")
    );
}

#[test]
fn division_by_zero_and_failed_assumptions() {
    let zero = "    %q = arith.divsi %one, %z : i32\n";
    assert!(fault(zero).2.to_string().contains("division by 0"));
    let multiple = "    %p = arith.addi %one, %one : i32
    %q = tpu.assume_multiple %p, 8 : i32\n";
    assert_eq!(
        fault(multiple).2,
        Fault::Assertion("2 is not a multiple of 8".into())
    );
}

#[test]
fn arrays_that_do_not_fit() {
    let module = Module::parse(&small("")).unwrap();
    let tile = f32s(vec![0.0; 1024], &[8, 128]);
    let array = f32s(vec![0.0; 2048], &[16, 128]);
    let mut out = Array::undefined(DType::F32, &[8, 128]);
    let mut attempt =
        |inputs: &[&Array]| run(&module, inputs, &mut [&mut out], &Options::default()).unwrap_err();
    assert!(matches!(
        attempt(&[&tile, &tile]),
        ExecuteError::Argument { .. }
    ));
    assert!(matches!(
        attempt(&[&tile, &array, &array]),
        ExecuteError::Argument { index: 1, .. }
    ));
    let integers = i32s(vec![0; 1024], &[8, 128]);
    let error = attempt(&[&tile, &integers, &array]).to_string();
    assert!(
        error.contains("the array is i32, the kernel takes memref<8x128xf32"),
        "{error}"
    );
    assert!(Array::new(vec![0.0_f32; 3], &[2, 2]).is_err());
}

fn operands() -> [Array; 2] {
    [
        f32s(numbers(200 * 256, 1), &[200, 256]),
        f32s(numbers(256 * 300, 2), &[256, 300]),
    ]
}

/// The fault of a product, and its grid step.
fn product_fault(text: &str) -> (Vec<i64>, Fault) {
    let [x, w] = operands();
    match run_one(text, &[&x, &w], DType::F32, &[200, 300]) {
        Err(ExecuteError::Fault(located)) => (located.step.clone(), located.fault),
        other => panic!("{other:?}"),
    }
}

/// A block of the grid that lies outside of the array: block indices were meant as elements.
#[test]
fn blocks_outside_of_the_array() {
    let text = matmul("f32", EXACT, "parallel").replace(
        "(%i: i32, %j: i32, %k: i32) -> (i32, i32) {
    return %i, %k",
        "(%i: i32, %j: i32, %k: i32) -> (i32, i32) {
    %b = arith.constant 128 : i32
    %s = arith.muli %i, %b : i32
    return %s, %k",
    );
    let (step, found) = product_fault(&text);
    assert_eq!(step, [1, 0, 0]);
    assert!(matches!(found, Fault::OutOfBounds { .. }));
}

/// A depth that is said to be parallel: two steps write one block.
#[test]
fn parallel_steps_that_write_the_same_block() {
    let semantics = "#tpu.dimension_semantics<arbitrary>], iteration";
    let text = matmul("f32", EXACT, "parallel")
        .replace(semantics, &semantics.replace("arbitrary", "parallel"));
    let (_, found) = product_fault(&text);
    assert!(matches!(found, Fault::Pipeline(_)), "{found}");
}

/// The overhanging part of a window is NaN: a sum over a depth that nothing masks shows it.
#[test]
fn what_overhangs_is_nan() {
    let (m, k, n) = (128, 200, 128);
    let text = matmul("f32", EXACT, "arbitrary").replace("i64: 2, 3, 2", "i64: 1, 1, 2");
    let (x, w) = (
        f32s(numbers(m * k, 1), &[m, k]),
        f32s(numbers(k * n, 2), &[k, n]),
    );
    let out = run_one(&text, &[&x, &w], DType::F32, &[m, n]).unwrap();
    assert!(out.to_f32().iter().all(|x| x.is_nan()));
}

/// Precision that the compiler has not for operands of different types.
#[test]
fn exact_products_of_different_types() {
    let [x, w] = operands();
    let w = bf16s(&w.to_f32(), &[256, 300]);
    let text = mixed_matmul(["f32", "bf16"], EXACT, "parallel");
    let error = run_one(&text, &[&x, &w], DType::F32, &[200, 300]).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("tpu.matmul at grid step [0, 0, 0]: precision fp32")
    );
}

/// Changing any one word of a kernel may make it wrong, and must not panic.
#[test]
fn mutilated_kernels_do_not_panic() {
    let body = [
        LOAD_X,
        &slice("p", "z"),
        &dma("enqueue_dma", "p"),
        &dma("wait_dma", "p"),
        LOAD_S,
        "    %b = arith.addf %a, %r : vector<8x128xf32>\n",
        &store("b", "o"),
    ]
    .concat();
    let tile = f32s(vec![1.0; 1024], &[8, 128]);
    let square = f32s(vec![1.0; 128 * 128], &[128, 128]);
    let texts: [(&str, Vec<Array>, Vec<Array>); 5] = [
        (
            &small(&body),
            vec![
                tile.clone(),
                tile.clone(),
                f32s(vec![1.0; 2048], &[16, 128]),
            ],
            vec![tile.clone()],
        ),
        (
            &matmul("f32", "", "parallel").replace("i64: 2, 3, 2", "i64: 1, 1, 1"),
            vec![square.clone(), square.clone()],
            vec![square],
        ),
        (
            pallas::WHILE,
            vec![i32s(vec![3, 3], &[2]), tile.clone()],
            vec![tile],
        ),
        (
            pallas::SHAPES,
            vec![f32s(numbers(2048, 1), &[8, 256]), i32s(vec![3], &[1])],
            vec![
                f32s(vec![0.0; 2048], &[8, 256]),
                i32s(vec![0; 2048], &[256, 8]),
            ],
        ),
        (
            pallas::COPIES,
            vec![i32s(vec![4], &[1]), f32s(numbers(4096, 1), &[32, 128])],
            vec![f32s(vec![0.0; 4096], &[32, 128])],
        ),
    ];
    let options = Options {
        budget: 5_000_000,
        ..Options::default()
    };
    for (text, inputs, outputs) in texts {
        let ends = [' ', ',', '<', '>', '[', ']', '%', 'x', '\n'];
        let words: Vec<&str> = text.split_inclusive(&ends[..]).collect();
        let inputs: Vec<&Array> = inputs.iter().collect();
        let mut finished = 0;
        for i in 0..words.len() {
            for replacement in ["", "0", "8x", "-1", "bf16>", "c0, "] {
                let mut changed = words.clone();
                changed[i] = replacement;
                let Ok(module) = Module::parse(&changed.concat()) else {
                    continue;
                };
                let mut outputs = outputs.clone();
                let mut outputs: Vec<&mut Array> = outputs.iter_mut().collect();
                finished += usize::from(run(&module, &inputs, &mut outputs, &options).is_ok());
            }
        }
        assert!(finished > 0, "not every word matters");
    }
}
