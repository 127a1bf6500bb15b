//! Each rule of the verifier: a module that keeps it, and the same module with one thing changed.
//!
//! The rules for operations are data, in `mosaic_verify.rules`.

use tilecast_tpu::mosaic::{Module, Problem, VerifyError};

/// A kernel around one body. The grid is 4 x 2; `%i`, `%j` are its indices.
fn kernel(body: &str) -> String {
    format!(
        r#"module @kernel {{
  func.func @kernel(%i: i32, %j: i32, %n: memref<1xi32, #tpu.memory_space<smem>>, %x: memref<8x128xf32, #tpu.memory_space<vmem>>, %y: memref<16x128xf32, #tpu.memory_space<any>>, %b: memref<2x8x128xf32, #tpu.memory_space<vmem>>, %s: memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>, %r: memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>) attributes {{dimension_semantics = [#tpu.dimension_semantics<parallel>, #tpu.dimension_semantics<arbitrary>], iteration_bounds = array<i64: 4, 2>, scalar_prefetch = 1 : i64, scratch_operands = 3 : i64, tpu.core_type = #tpu.core_type<tc>, window_params = [{{transform_indices = @window, window_bounds = array<i64: 8, 128>}}, {{}}]}} {{
    %c0 = arith.constant 0 : index
    %z = arith.constant 0 : i32
    %f = arith.constant 0.0 : f32
    %t = arith.constant true
    %v = vector.load %x[%c0, %c0] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
    %h = arith.truncf %v : vector<8x128xf32> to vector<8x128xbf16>
    %k = tpu.iota {{dimensions = array<i32: 1>}} : vector<8x128xi32>
    %m = arith.cmpi slt, %k, %k : vector<8x128xi32>
{body}
    return
  }}
  func.func @window(%i: i32, %j: i32, %n: memref<1xi32, #tpu.memory_space<smem>>) -> (i32, i32) {{
    return %i, %j : i32, i32
  }}
}}
"#
    )
}

/// Line of the first line of the body.
const BODY_LINE: u32 = 11;

fn verify(text: &str) -> Result<(), VerifyError> {
    Module::parse(text)
        .unwrap_or_else(|e| panic!("{e}\n{text}"))
        .verify()
}

/// A body that keeps the rules, and what to change in it: from, to, what the verifier then says.
type Rule<'t> = (String, Vec<[&'t str; 3]>);

fn rules(text: &str) -> Vec<Rule<'_>> {
    let mut rules: Vec<Rule<'_>> = vec![(String::new(), Vec::new())];
    for line in text
        .lines()
        .filter(|l| !l.starts_with('#') && !l.is_empty())
    {
        if let Some(change) = line.strip_prefix('|') {
            let change: Vec<&str> = change.split('|').collect();
            let change = change.try_into().expect("from|to|says");
            rules.last_mut().unwrap().1.push(change);
            continue;
        }
        if !rules.last().unwrap().1.is_empty() {
            rules.push((String::new(), Vec::new()));
        }
        let body = &mut rules.last_mut().unwrap().0;
        body.push_str(line);
        body.push('\n');
    }
    rules
}

#[test]
fn each_rule_accepts_and_rejects() {
    let mut wrong = Vec::new();
    let rules = rules(include_str!("mosaic_verify.rules"));
    assert!(rules.len() > 50);
    for (body, changes) in &rules {
        if let Err(e) = verify(&kernel(body)) {
            wrong.push(format!("rejected: {e}\n  {body}"));
        }
        for [from, to, says] in changes {
            let (from, to) = (from.replace("\\n", "\n"), to.replace("\\n", "\n"));
            assert!(body.contains(&from), "{from} in {body}");
            match verify(&kernel(&body.replace(&from, &to))) {
                Ok(()) => wrong.push(format!("accepted with {to:?}: {body}")),
                Err(e) if e.to_string().contains(says) && e.line >= BODY_LINE => {}
                Err(e) => wrong.push(format!("{e}\n  instead of {says:?}: {body}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What can be wrong with the kernel's function and its windows.
#[test]
fn kernel_and_windows() {
    let good = kernel("");
    assert_eq!(verify(&good), Ok(()));
    for (from, to, says) in [
        (
            "scalar_prefetch = 1",
            "scalar_prefetch = 2",
            "must be 8, is 9",
        ),
        (
            "scratch_operands = 3",
            "scratch_operands = 2",
            "must be 8, is 7",
        ),
        (
            "iteration_bounds = array<i64: 4, 2>",
            "iteration_bounds = array<i64: 4>",
            "dimension semantics must be 1, is 2",
        ),
        (
            "iteration_bounds = array<i64: 4, 2>",
            "iteration_bounds = array<i64: 4, -2>",
            "sizes of grid axes",
        ),
        (
            "<parallel>, #tpu.dimension_semantics<arbitrary>",
            "<arbitrary>, #tpu.dimension_semantics<parallel>",
            "parallel axes must stand before",
        ),
        ("<parallel>, ", "<sometimes>, ", "a list of semantics"),
        ("@window, ", "@windows, ", "there is no function @windows"),
        (
            "window_bounds = array<i64: 8, 128>",
            "window_bounds = array<i64: 8, 256>",
            "the size of a window must be 128, is 256",
        ),
        (
            "window_bounds = array<i64: 8, 128>",
            "window_bounds = array<i64: 128>",
            "the rank of a window must be 2, is 1",
        ),
        (
            "window_bounds",
            "pipeline_mode = #tpu.pipeline_mode<triple>, window_bounds",
            "known pipeline modes",
        ),
        (
            "window_params = [{",
            "window_params = [{}, {",
            "must be 8, is 9",
        ),
        (
            "(i32, i32) {\n    return %i, %j : i32, i32",
            "i32 {\n    return %i : i32",
            "results of a window's function must be 2, is 1",
        ),
        (
            "(%i: i32, %j: i32, %n: memref<1xi32, #tpu.memory_space<smem>>) ->",
            "(%i: i32, %j: i32) ->",
            "arguments of a window's function must be 3, is 2",
        ),
        (
            "(%i: i32, %j: i32, %n: memref<1xi32, #tpu.memory_space<smem>>) ->",
            "(%i: i32, %j: i32, %n: i32) ->",
            "an argument of a window's function",
        ),
        (
            "    return %i, %j : i32, i32",
            "    return %i : i32",
            "a returned value must be 2, is 1",
        ),
        (
            "func.func @window(",
            "func.func @kernel(",
            "two functions have the same name",
        ),
        (
            "%n: memref<1xi32, #tpu.memory_space<smem>>, %x",
            "%n: memref<1xi32, #tpu.memory_space<vmem>>, %x",
            "a memref in SMEM",
        ),
    ] {
        assert!(good.contains(from), "{from}");
        let error = verify(&good.replacen(from, to, 1)).expect_err(to);
        assert!(error.to_string().contains(says), "{to}: {error}");
    }
}

/// Errors name the operation and its line.
#[test]
fn errors_point_at_the_operation() {
    let error = verify(&kernel("    %a = arith.addf %k, %k : vector<8x128xi32>")).unwrap_err();
    assert_eq!((error.name.as_str(), error.line), ("arith.addf", BODY_LINE));
    assert!(matches!(error.problem, Problem::Type { .. }));
    assert_eq!(
        error.to_string(),
        "line 11: arith.addf: an operand must be of floats, is vector<8x128xi32>"
    );
}

/// Uses before definitions cannot be written in text, only built.
#[test]
fn definitions_come_before_uses() {
    use tilecast_tpu::mosaic::{Builder, OpParts};
    let mut b = Builder::new("order");
    let i32_type = b.int_type(32);
    let mut first = None;
    b.function("f", &[i32_type], &[], |b, arguments| {
        first = Some(arguments[0]);
        let condition = b.int(1, 1);
        let mut inner = None;
        b.when(condition, |b| inner = Some(b.int(2, 32)));
        let inner = inner.unwrap();
        b.binary("arith.addi", inner, inner);
        // Made, but put in place after its use.
        let value = b.i32_attribute(1);
        let parts = OpParts {
            results: vec![i32_type],
            attributes: vec![("value".into(), value)],
            ..OpParts::default()
        };
        let late = b.module_mut().new_op("arith.constant", parts);
        let value = b.module().results(late)[0];
        b.binary("arith.addi", value, value);
        let block = b.block();
        b.module_mut().append(block, late);
        Vec::new()
    });
    b.function("g", &[], &[], |b, _| {
        let other = first.unwrap();
        b.binary("arith.addi", other, other);
        Vec::new()
    });
    let errors = b.finish().verify_all();
    let problems: Vec<_> = errors.iter().map(|e| &e.problem).collect();
    assert_eq!(
        problems,
        [
            &Problem::NotVisible { operand: 0 },
            &Problem::UseBeforeDefinition { operand: 0 },
            &Problem::NotVisible { operand: 0 }
        ]
    );
}

/// A value of one branch is not there after the branches meet.
#[test]
fn definitions_dominate_uses() {
    let text = |used: &str| {
        format!(
            r#"func.func @f(%c: i1) {{
  %a = "x.make"() : () -> i32
  "cf.cond_br"(%c)[^bb1, ^bb2] : (i1) -> ()
^bb1:
  %b = "x.make"() : () -> i32
  "cf.br"()[^bb2] : () -> ()
^bb2:
  "x.use"({used}) : (i32) -> ()
  return
}}"#
        )
    };
    assert_eq!(verify(&text("%a")), Ok(()));
    let error = verify(&text("%b")).unwrap_err();
    assert_eq!(error.problem, Problem::UseBeforeDefinition { operand: 0 });
    assert_eq!(error.line, 8);
}
