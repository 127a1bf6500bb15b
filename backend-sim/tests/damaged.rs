//! Damaged texts of our own kernels: whatever still parses and verifies runs, and is judged, to a result or an error.
//!
//! One token at a time is dropped or replaced; what becomes of it is interpreted on small arrays with a budget a little
//! above what the sound kernel takes, and judged by the model for one target after the other. Nothing may panic, an
//! integer that overflows included; the budget keeps loops, grids and shapes that became enormous from taking time or
//! memory, and the model must not run through them.

#[path = "../../backend-tpu/tests/tokens/mod.rs"]
mod tokens;

use std::panic::catch_unwind;

use half::bf16;
use tilecast_core::DType;
use tilecast_core::kernels::linear_ce::{
    Blocks, HeadKernel, LinearCe, Options as Ce, Schedule, Strategy,
};
use tilecast_core::program::{Kernel, Launch, LoopCounter, Program};
use tilecast_core::target::{TARGETS, Target};
use tilecast_sim::execute::{Array, ExecuteError, Options, run};
use tilecast_sim::grid::Scalars;
use tilecast_sim::judge::{JudgeError, judge, trace};
use tilecast_tpu::lower::{Argument, F32Products, lower, operand_type, signature};
use tilecast_tpu::mosaic::Module;
use tilecast_tpu::mosaic::version::CURRENT;
use tokens::tokens;

/// Element operations: more than any of the sound kernels needs.
const BUDGET: u64 = 40_000_000;

/// Texts tried for each form of each kernel.
const SAMPLES: usize = 500;

/// In place of anything else.
const WORDS: [&str; 13] = [
    "(",
    "}",
    "%0",
    "%arg0",
    "f32",
    "i1",
    "vector<2xf32>",
    "memref<1x1xf32>",
    "scf.if",
    "tpu.matmul",
    "arith.divsi",
    "tpu.concatenate",
    "index",
];

/// In place of a number.
const NUMBERS: [&str; 8] = [
    "0",
    "1",
    "-1",
    "3",
    "2147483647",
    "2147483648",
    "9223372036854775807",
    "-9223372036854775808",
];

/// A kernel with arrays to run it on.
struct Sample {
    name: String,
    texts: [String; 2],
    inputs: Vec<Array>,
    outputs: Vec<Array>,
}

fn array(dtype: DType, dims: &[usize]) -> Array {
    let len = dims.iter().product::<usize>();
    let real = |i: usize| (i * 37 % 19) as f32 / 19.0 - 0.5;
    let array = match dtype {
        DType::I32 => Array::new((0..len as i32).collect::<Vec<_>>(), dims),
        DType::F32 => Array::new((0..len).map(real).collect::<Vec<_>>(), dims),
        DType::Bf16 => {
            let values = (0..len).map(|i| bf16::from_f32(real(i)));
            Array::new(values.collect::<Vec<_>>(), dims)
        }
    };
    array.unwrap()
}

fn sample(launch: &Launch<HeadKernel>) -> Sample {
    let spec = launch.kernel.spec();
    let module = lower(&launch.kernel, F32Products::Exact).unwrap();
    let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
    let mut scalars = launch.scalars.iter();
    for scalar in spec.scalars() {
        let values = scalars.by_ref().take(scalar.len);
        let values = values.map(|value| value.evaluate(&|LoopCounter| 0) as i32);
        inputs.push(Array::new(values.collect::<Vec<_>>(), &[scalar.len]).unwrap());
    }
    for argument in signature(spec) {
        let buffer = &spec.buffers()[argument.buffer().index()].buffer;
        let (dtype, dims) = operand_type(buffer);
        let array = array(dtype, &dims);
        match argument {
            Argument::Output(_) => outputs.push(array),
            _ => inputs.push(array),
        }
    }
    Sample {
        name: spec.name().into(),
        texts: [module.to_pretty(), module.to_stable(CURRENT).unwrap()],
        inputs,
        outputs,
    }
}

/// Every kernel of the op: two column blocks, ragged in all directions, every option.
fn samples() -> Vec<Sample> {
    let mut found: Vec<Sample> = Vec::new();
    for (strategy, dtype) in Strategy::ALL.into_iter().zip([DType::F32, DType::Bf16]) {
        let options = Ce {
            soft_cap: Some(6.0),
            z_loss: 1e-2,
            label_smoothing: 0.1,
            ignore_index: Some(3),
            bias: true,
            weight: true,
            ..Ce::default()
        };
        let problem = LinearCe::new(9, 10, 140, dtype, options).unwrap();
        let blocks = Blocks {
            b: 128,
            h: 128,
            v: 128,
        };
        let schedule = Schedule {
            chunk_columns: 256,
            ..Schedule::plain(blocks, strategy)
        };
        let programs: [Program<HeadKernel>; 2] = [
            problem.forward(&schedule).unwrap(),
            problem.backward(&schedule).unwrap(),
        ];
        for program in &programs {
            found.extend(program.launches().iter().map(|(launch, _)| sample(launch)));
        }
    }
    found
}

/// How far a text got.
#[derive(PartialEq, Debug)]
enum End {
    Unreadable,
    Invalid,
    Failed,
    Done,
}

fn interpret(text: &str, sample: &Sample) -> End {
    let Ok(module) = Module::parse(text) else {
        return End::Unreadable;
    };
    let inputs: Vec<&Array> = sample.inputs.iter().collect();
    let mut outputs = sample.outputs.clone();
    let mut outputs: Vec<&mut Array> = outputs.iter_mut().collect();
    let options = Options {
        budget: BUDGET,
        ..Options::default()
    };
    match run(&module, &inputs, &mut outputs, &options) {
        Ok(()) => End::Done,
        Err(ExecuteError::Invalid(_)) => End::Invalid,
        Err(_) => End::Failed,
    }
}

/// Judges what the interpreter takes, for a target.
fn judged(text: &str, target: &'static Target) -> End {
    let Ok(module) = Module::parse(text) else {
        return End::Unreadable;
    };
    let scalars = Scalars::default();
    match judge(&module, target, &scalars, None) {
        Ok(_) => trace(&module, target, &scalars, "damaged", 2).map_or(End::Failed, |_| End::Done),
        Err(JudgeError::Invalid(_)) => End::Invalid,
        Err(_) => End::Failed,
    }
}

/// What a token may be taken for.
#[derive(Clone, Copy, PartialEq)]
enum Class {
    Number,
    Value,
    Operation,
    Other,
}

fn class(token: &str) -> Class {
    match token.as_bytes()[0] {
        b'0'..=b'9' => Class::Number,
        b'%' => Class::Value,
        _ if token.contains('.') => Class::Operation,
        _ => Class::Other,
    }
}

/// What token `at` becomes: nothing, something hostile, or another token of its class.
fn damaged<'t>(tokens: &[&'t str], at: usize, choice: usize) -> &'t str {
    let class_of_it = class(tokens[at]);
    match (choice % 4, class_of_it) {
        (0, _) => "",
        (1, Class::Number) | (2, Class::Number) => NUMBERS[choice / 4 % NUMBERS.len()],
        (1, _) => WORDS[choice / 4 % WORDS.len()],
        _ => {
            let siblings = tokens.iter().filter(|token| class(token) == class_of_it);
            let siblings: Vec<&str> = siblings.copied().collect();
            siblings[(at * 31 + choice * 7919) % siblings.len()]
        }
    }
}

#[test]
fn a_damaged_token_is_an_error_or_another_kernel_and_never_a_panic() {
    let mut failures = Vec::new();
    let none = || [End::Unreadable, End::Invalid, End::Failed, End::Done].map(|end| (end, 0));
    let mut ends = [none(), none()];
    let count = |ends: &mut [(End, usize)], end: End| {
        let same = ends.iter_mut().filter(|(other, _)| *other == end);
        same.for_each(|(_, count)| *count += 1);
    };
    for sample in samples() {
        for (form, text) in sample.texts.iter().enumerate() {
            assert_eq!(interpret(text, &sample), End::Done, "{}", sample.name);
            let places = tokens(text);
            let all: Vec<&str> = places
                .iter()
                .map(|&(start, end)| &text[start..end])
                .collect();
            // Consecutive samples are a few tokens apart and differ in what replaces the token.
            let stride = (all.len() / SAMPLES).max(1) | 1;
            // Numbers are what still parses; each form gets a few more of them.
            let numbers = (0..all.len()).filter(|&at| class(all[at]) == Class::Number);
            let numbers: Vec<usize> = numbers.collect();
            let more = numbers.iter().copied().step_by(numbers.len() / 100 + 1);
            let sampled = (form..all.len()).step_by(stride).chain(more);
            for (choice, at) in sampled.enumerate() {
                let (start, end) = places[at];
                let with = damaged(&all, at, choice);
                let changed = format!("{} {with} {}", &text[..start], &text[end..]);
                let target = &TARGETS[choice % TARGETS.len()];
                let both = || [interpret(&changed, &sample), judged(&changed, target)];
                match catch_unwind(both) {
                    Ok(found) => (ends.iter_mut().zip(found)).for_each(|(e, end)| count(e, end)),
                    Err(_) => failures.push(format!(
                        "{}, form {form}: {:?} at byte {start} replaced by {with:?}",
                        sample.name,
                        &text[start..end]
                    )),
                }
            }
        }
    }
    eprintln!("{ends:?}");
    assert!(
        failures.is_empty(),
        "{} panics:\n{}",
        failures.len(),
        failures.join("\n")
    );
    // The sample is worth something only if it gets into every part.
    assert!(
        ends.as_flattened().iter().all(|(_, count)| *count > 0),
        "{ends:?}"
    );
}

/// What costs time or memory without end is stopped by the budget, before the memory is taken.
#[test]
fn enormous_grids_memories_and_vectors_use_up_the_budget() {
    let kernel = |bounds: &str, semantics: &str, scratch: &str, body: &str| {
        format!(
            "module {{ func.func @k(%i: i32, %s: memref<{scratch}, #tpu.memory_space<vmem>>) attributes {{\
             dimension_semantics = [#tpu.dimension_semantics<{semantics}>], iteration_bounds = array<i64: {bounds}>, \
             scalar_prefetch = 0 : i64, scratch_operands = 1 : i64, window_params = [], tpu.core_type = #tpu.core_type<tc>}} {{ \
             {body} return }} }}"
        )
    };
    let constant = "%c = arith.constant dense<0.0> : vector<16384x16384xf32>";
    let forever =
        "%t = arith.constant true scf.while : () -> () { scf.condition(%t) } do { scf.yield }";
    for (name, text) in [
        ("grid", kernel("268435456", "arbitrary", "8x128xf32", "")),
        ("parallel", kernel("268435456", "parallel", "8x128xf32", "")),
        ("scratch", kernel("1", "arbitrary", "16384x16384xf32", "")),
        ("vector", kernel("1", "arbitrary", "8x128xf32", constant)),
        ("loop", kernel("1", "arbitrary", "8x128xf32", forever)),
    ] {
        let module = Module::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let options = Options {
            budget: 100_000,
            ..Options::default()
        };
        let error = run(&module, &[], &mut [], &options).unwrap_err();
        assert!(
            error.to_string().contains("budget of 100000"),
            "{name}: {error}"
        );
        let sound = kernel("1", "arbitrary", "8x128xf32", "");
        run(&Module::parse(&sound).unwrap(), &[], &mut [], &options).unwrap();
    }
}
