//! Recorded kernels: valid modules, the same every time, and the same after printing and parsing.

use std::collections::BTreeMap;

use tilecast_core::DType;
use tilecast_core::kernels::linear_ce::{
    Blocks, HeadKernel, Lazy, LinearCe, Options, Reduction, Schedule, Strategy,
};
use tilecast_core::kernels::softmax::{self, LogitsOptions, SoftmaxKernel};
use tilecast_core::kernels::{entropy, grpo, logits_ce};
use tilecast_core::program::{Kernel, Program};
use tilecast_core::target::{Generation, Target};
use tilecast_tpu::lower::{F32Products, LowerError, lower};
use tilecast_tpu::mosaic::{Module, TypeKind, version};
use tilecast_tpu::stablehlo::{EmitError, EmitOptions, emit};

const EVERYTHING: Options = Options {
    soft_cap: Some(30.0),
    z_loss: 1e-4,
    label_smoothing: 0.1,
    ignore_index: Some(-100),
    reduction: Reduction::Mean,
    bias: true,
    weight: true,
    grad_dtype: None,
    delta_dtype: None,
};

fn schedule(blocks: [usize; 3], strategy: Strategy) -> Schedule {
    let [b, h, v] = blocks;
    let blocks = Blocks { b, h, v };
    Schedule {
        chunk_columns: 2 * v,
        cores: 2,
        rows_per_sub_tile: 128,
        ..Schedule::plain(blocks, strategy)
    }
}

/// Ragged and divisible shapes, one and several hidden blocks, plain and with every option.
fn programs() -> Vec<Program<HeadKernel>> {
    let mut programs = Vec::new();
    for (shape, blocks) in [
        ([512, 256, 1024], [256, 128, 256]),
        ([200, 300, 1000], [128, 128, 256]),
        ([40, 100, 70], [128, 100, 128]),
    ] {
        for options in [Options::default(), EVERYTHING] {
            for dtype in [DType::Bf16, DType::F32] {
                let [b, h, v] = shape;
                let problem = LinearCe::new(b, h, v, dtype, options).unwrap();
                for strategy in Strategy::ALL {
                    let schedule = schedule(blocks, strategy);
                    programs.push(problem.forward_and_backward(&schedule).unwrap());
                }
            }
        }
    }
    programs
}

/// Both passes of the ops on logits: ragged and divisible shapes, low and high blocks.
fn softmax_programs(in_place: bool) -> Vec<Program<SoftmaxKernel>> {
    let logits = LogitsOptions {
        temperature: 0.7,
        in_place,
        ..LogitsOptions::default()
    };
    let ce = logits_ce::Options {
        logits,
        ignore_index: Some(-100),
        label_smoothing: 0.1,
        z_loss: 1e-4,
    };
    let policy = grpo::Options {
        logits,
        ratio: grpo::Ratio::Sequence,
        sequence_length: Some(8),
        kl_beta: 0.1,
        mask: true,
        ..grpo::Options::default()
    };
    let target = Target::of(Generation::V6e);
    let mut programs = Vec::new();
    for ([b, v], [block_b, block_v]) in [
        ([256, 1024], [8, 256]),
        ([256, 1000], [64, 512]),
        ([200, 1000], [128, 256]),
        ([40, 70], [128, 128]),
    ] {
        let blocks = softmax::Blocks::for_target(block_b, block_v, target);
        let schedule = softmax::Schedule::new(blocks);
        for dtype in [DType::Bf16, DType::F32] {
            let ce = logits_ce::LogitsCe::new(b, v, dtype, ce).unwrap();
            let entropy = entropy::Entropy::new(b, v, dtype, logits).unwrap();
            let policy = grpo::Grpo::new(b, v, dtype, policy).unwrap();
            programs.extend([
                ce.forward(&schedule).unwrap(),
                ce.backward(&schedule).unwrap(),
                entropy.forward(&schedule).unwrap(),
                entropy.backward(&schedule).unwrap(),
                policy.forward(&schedule).unwrap(),
                policy.backward(&schedule).unwrap(),
            ]);
        }
    }
    programs
}

#[test]
fn every_kernel_is_a_valid_module_and_survives_printing() {
    check_modules(&programs());
    for in_place in [false, true] {
        check_modules(&softmax_programs(in_place));
    }
}

fn check_modules<K: Kernel>(programs: &[Program<K>]) {
    for program in programs {
        for (launch, _) in program.launches() {
            let name = launch.kernel.spec().name();
            for products in [F32Products::Exact, F32Products::Rounded] {
                let module = lower(&launch.kernel, products).unwrap();
                module
                    .verify()
                    .unwrap_or_else(|error| panic!("{name}: {error}"));
                for text in [module.to_pretty(), module.to_generic()] {
                    let read = Module::parse(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
                    assert!(read == module, "{name}");
                }
                let stable = module.to_stable(version::CURRENT).unwrap();
                assert!(Module::parse(&stable).unwrap() == module, "{name}");
            }
        }
    }
}

#[test]
fn ragged_columns_do_not_cut_the_line_of_sub_tiles() {
    let branches = |vocab: usize| -> Vec<usize> {
        let options = Options::default();
        let problem = LinearCe::new(512, 256, vocab, DType::Bf16, options).unwrap();
        let schedule = schedule([256, 256, 512], Strategy::Streaming);
        let program = problem.forward_and_backward(&schedule).unwrap();
        let computes_logits = |name: &str| name.ends_with("forward") || name.ends_with("delta");
        (program.launches().into_iter())
            .filter(|(launch, _)| computes_logits(launch.kernel.spec().name()))
            .map(|(launch, _)| lower(&launch.kernel, F32Products::Exact).unwrap())
            .map(|module| module.to_pretty().matches("scf.if").count())
            .collect()
    };
    let whole = branches(1024);
    assert_eq!(whole.len(), 2);
    assert_eq!(branches(1000), whole);
}

/// Of sub-tiles of 256 columns, those of the last block that end before the vocabulary does have no mask in any block,
/// and the one in which it ends has one for the second of its two groups of 128.
#[test]
fn columns_are_masked_that_overhang_in_some_block() {
    let masks = |vocab: usize, shape: &str| {
        let problem = LinearCe::new(512, 256, vocab, DType::Bf16, Options::default()).unwrap();
        let schedule = Schedule {
            lazy: Some(Lazy {
                columns: 256,
                keeps_logits: true,
                exact_rows: 0,
                stores_labels: false,
            }),
            ..schedule([256, 256, 768], Strategy::Streaming)
        };
        let program = problem.forward(&schedule).unwrap();
        let module = lower(&program.launches()[0].0.kernel, F32Products::Exact).unwrap();
        let selection = format!(" : vector<{shape}xi1>, vector<{shape}xf32>");
        module.to_pretty().matches(&selection).count()
    };
    let [whole, ragged] = [1536, 768 + 512 + 150].map(|vocab| masks(vocab, "256x128"));
    assert_eq!(ragged, whole + 1);
    assert_eq!(masks(768 + 512 + 150, "256x256"), 0);
}

/// Of the windows, only `x` of what makes logits has one buffer if it is asked for.
#[test]
fn x_has_one_buffer_where_it_is_asked_for() {
    let problem = LinearCe::new(512, 256, 1024, DType::Bf16, Options::default()).unwrap();
    for (x_in_one_buffer, modes) in [([false; 2], [0; 4]), ([true; 2], [1, 1, 0, 0])] {
        let schedule = Schedule {
            x_in_one_buffer,
            ..schedule([128, 256, 256], Strategy::Streaming)
        };
        let program = problem.forward_and_backward(&schedule).unwrap();
        let launches = program.launches();
        let synchronous = launches.iter().map(|(launch, _)| {
            let text = lower(&launch.kernel, F32Products::Exact)
                .unwrap()
                .to_pretty();
            text.matches("pipeline_mode<synchronous>").count()
        });
        assert_eq!(synchronous.collect::<Vec<_>>(), modes);
    }
}

/// Shapes of what is copied of `dw`, each as often as copies to and from it, and waits for these, name it.
fn copies_of_dw(vocab: usize, v: usize) -> BTreeMap<[i64; 2], [usize; 2]> {
    const ROWS: usize = 128;
    const HIDDEN: usize = 256;
    // Two row blocks for each of the cores: what the first writes the second reads.
    let problem = LinearCe::new(4 * ROWS, HIDDEN, vocab, DType::Bf16, Options::default()).unwrap();
    let schedule = schedule([ROWS, HIDDEN, v], Strategy::Combined);
    let program = problem.forward_and_backward(&schedule).unwrap();
    let launches = program.launches();
    let (launch, _) = (launches.iter())
        .find(|(launch, _)| launch.kernel.spec().name().ends_with("combined"))
        .expect("one kernel makes both gradients");
    let module = lower(&launch.kernel, F32Products::Exact).unwrap();
    let mut shapes = BTreeMap::new();
    module.walk(module.root(), &mut |op| {
        let of = ["tpu.enqueue_dma", "tpu.wait_dma"].map(|name| name == module.op_name(op));
        let Some(kind) = of.iter().position(|&is| is) else {
            return;
        };
        let [from, to] = [0, 1].map(|i| match module.value_kind(module.operands(op)[i]) {
            TypeKind::Memref { shape, .. } => <[i64; 2]>::try_from(shape.as_slice()).unwrap(),
            other => panic!("a copy of {other:?}"),
        });
        assert_eq!(from, to);
        // Blocks of dx have fewer rows.
        if from[0] == HIDDEN as i64 {
            shapes.entry(from).or_insert([0; 2])[kind] += 1;
        }
    });
    shapes
}

#[test]
fn of_the_last_columns_of_dw_is_copied_what_there_is_in_whole_rows_of_lanes() {
    let shapes = |vocab, v| -> Vec<_> { copies_of_dw(vocab, v).into_keys().collect() };
    assert_eq!(shapes(1152, 384), [[256, 384]], "no block overhangs");
    assert_eq!(shapes(1000, 384), [[256, 256], [256, 384]]);
    assert_eq!(shapes(900, 384), [[256, 256], [256, 384]]);
    assert_eq!(shapes(896, 384), [[256, 128], [256, 384]]);
    for (vocab, columns) in [(1, 128), (70, 128), (128, 128), (130, 256)] {
        assert_eq!(shapes(vocab, 384), [[256, columns]], "one block of {vocab}");
    }
}

/// A wait that names another shape would take the bytes of another copy for those that it waits for.
#[test]
fn what_overhangs_is_copied_and_waited_for_as_often_as_a_whole_block() {
    let each: Vec<_> = copies_of_dw(1000, 384).into_values().collect();
    assert_eq!(each[0], each[1]);
    assert_eq!(copies_of_dw(1152, 384)[&[256, 384]], each[1]);
    let [copies, waits] = each[0];
    assert!(copies > 0 && waits > 0);
}

/// What a sum over rows loads at a time stays in registers: of a tile at once the compiler would spill most.
#[test]
fn sums_over_rows_take_a_tile_in_slices() {
    let problem = LinearCe::new(2048, 256, 5376, DType::Bf16, EVERYTHING).unwrap();
    let schedule = schedule([1024, 256, 1792], Strategy::Streaming);
    let program = problem.forward_and_backward(&schedule).unwrap();
    let launches = program.launches();
    let sum = |name: &str| name.ends_with("dbias");
    let (launch, _) = (launches.iter())
        .find(|(launch, _)| sum(launch.kernel.spec().name()))
        .expect("a bias has a gradient");
    let module = lower(&launch.kernel, F32Products::Exact).unwrap();
    let text = module.to_pretty();
    // Of 1024 x 1792 elements, in the first step of a column block and in those after it.
    assert_eq!(text.matches(", vector<16x1024xbf16>\n").count(), 2 * 64);
    assert_eq!(text.matches(", vector<16x768xbf16>\n").count(), 2 * 64);
    assert_eq!(text.matches(", vector<1024x").count(), 0);
}

#[test]
fn emission_is_deterministic() {
    for program in programs().iter().step_by(5) {
        let options = EmitOptions::default();
        assert_eq!(
            emit(program, &options).unwrap(),
            emit(program, &options).unwrap()
        );
    }
}

#[test]
fn a_program_takes_its_inputs_and_returns_its_outputs_in_order() {
    let problem = LinearCe::new(256, 128, 512, DType::Bf16, EVERYTHING).unwrap();
    let schedule = schedule([128, 128, 256], Strategy::Streaming);
    let program = problem.forward_and_backward(&schedule).unwrap();
    let text = emit(&program, &EmitOptions::default()).unwrap();
    let signature = text.lines().nth(1).unwrap();
    assert_eq!(
        signature.trim(),
        "func.func public @main(%x: tensor<256x128xbf16>, %w: tensor<128x512xbf16>, \
         %bias: tensor<512xf32>, %labels: tensor<256xi32>, %weight: tensor<256xf32>, \
         %d_loss: tensor<1xf32>, %d_lse: tensor<256xf32>) -> (tensor<256xf32>, tensor<1xf32>, \
         tensor<256x128xbf16>, tensor<128x512xbf16>, tensor<512xf32>) {"
    );
    // One custom call for the forward pass, four in the loop over chunks.
    assert_eq!(text.matches("@tpu_custom_call").count(), 5);
    assert_eq!(text.matches("stablehlo.while").count(), 1);
}

/// Copies are checked as they run only if that is asked for.
#[test]
fn copies_are_checked_where_that_is_asked_for() {
    let problem = LinearCe::new(256, 128, 512, DType::Bf16, Options::default()).unwrap();
    let program = problem.forward(&schedule([128, 128, 256], Strategy::Streaming));
    let text = |bounds_checks| {
        let options = EmitOptions {
            bounds_checks,
            ..EmitOptions::default()
        };
        emit(program.as_ref().unwrap(), &options).unwrap()
    };
    let unchecked = r", \22disable_bounds_checks\22: true";
    assert_eq!(text(false).matches(unchecked).count(), 1);
    assert_eq!(text(true), text(false).replace(unchecked, ""));
}

/// The gradients of a loop over chunks begin as memory that holds anything: zeros would be written to all of it before.
#[test]
fn gradients_of_chunks_begin_as_memory_of_any_content() {
    let problem = LinearCe::new(256, 128, 512, DType::Bf16, Options::default()).unwrap();
    let schedule = schedule([128, 128, 128], Strategy::Streaming);
    let program = problem.backward(&schedule).unwrap();
    let text = emit(&program, &EmitOptions::default()).unwrap();
    // Delta, the f32 sum of `dx`, and `dw`.
    for ty in ["256x256xbf16", "256x128xf32", "128x512xbf16"] {
        let begin = format!("stablehlo.custom_call @AllocateBuffer() : () -> tensor<{ty}>");
        assert_eq!(text.matches(&begin).count(), 1, "{ty}");
        assert!(
            !text.contains(&format!("dense<0.0> : tensor<{ty}>")),
            "{ty}"
        );
    }
}

/// What is updated in place is one parameter and one result in the same memory, for the module and for
/// its custom call.
#[test]
fn a_gradient_in_place_gives_its_logits_away() {
    let logits = LogitsOptions {
        in_place: true,
        ..LogitsOptions::default()
    };
    let op = entropy::Entropy::new(256, 512, DType::Bf16, logits).unwrap();
    let blocks = softmax::Blocks::for_target(128, 256, Target::of(Generation::V5e));
    let program = op.backward(&softmax::Schedule::new(blocks)).unwrap();
    let text = emit(&program, &EmitOptions::default()).unwrap();
    assert_eq!(
        text.lines().nth(1).unwrap().trim(),
        "func.func public @main(%logits: tensor<256x512xbf16> {tf.aliasing_output = 0 : i32}, \
         %lse: tensor<256xf32>, %entropy: tensor<256xf32>, %d_entropy: tensor<256xf32>) -> \
         (tensor<256x512xbf16>) {"
    );
    let alias = "output_tuple_indices = [], operand_index = 0, operand_tuple_indices = []";
    assert_eq!(text.matches(alias).count(), 1);
}

#[test]
fn blocks_that_have_no_lowering_are_errors_that_say_what_to_do() {
    let problem = LinearCe::new(512, 128, 512, DType::F32, Options::default()).unwrap();
    let message = |blocks| {
        let program = problem
            .forward(&schedule(blocks, Strategy::Combined))
            .unwrap();
        match emit(&program, &EmitOptions::default()) {
            Err(EmitError::Lower(error @ LowerError::Unsupported { .. })) => error.to_string(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(
        message([100, 128, 128]),
        "linear_ce_forward: a block of 100 rows: per-row values are transposed 128 at a time, so \
         the token block must be a multiple of 128"
    );
    assert_eq!(
        message([128, 128, 100]),
        "linear_ce_forward: a block of 100 columns: the vocabulary block must be a multiple of 128"
    );
}
