use super::*;

fn arrays(text: &str, outputs: Option<usize>) -> Result<Signature, SignatureError> {
    signature(&Module::parse(text).unwrap(), outputs)
}

fn shown(arrays: &[ArrayType]) -> Vec<String> {
    arrays.iter().map(ToString::to_string).collect()
}

/// `kernel` with these arguments, attributes and body, and the index maps `functions`.
fn text(arguments: &str, attributes: &str, body: &str, functions: &str) -> String {
    format!(
        "module {{\n func.func @k({arguments}) attributes {{{attributes}}} {{\n {body}\n return\n }}\n {functions}\n}}\n"
    )
}

const VMEM: &str = "#tpu.memory_space<vmem>";

/// A kernel that copies window 0 to window 1, the index map of both being `map`.
fn windowed(grid: &str, map: &str) -> String {
    let window = format!("memref<8x128xf32, {VMEM}>");
    let semantics = vec!["#tpu.dimension_semantics<arbitrary>"; grid.matches(',').count() + 1];
    let entry = "{transform_indices = @map, window_bounds = array<i64: 8, 128>}";
    text(
        &format!("%i: i32, %s: memref<4xi32, #tpu.memory_space<smem>>, %x: {window}, %y: {window}"),
        &format!(
            "dimension_semantics = [{}], iteration_bounds = array<i64: {grid}>, scalar_prefetch = 1 : i64, \
             scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>, window_params = [{entry}, {entry}]",
            semantics.join(", ")
        ),
        &format!(
            "%c0 = arith.constant 0 : index\n %0 = vector.load %x[%c0, %c0] : {window}, vector<8x128xf32>\n \
             tpu.vector_store %y[%c0, %c0], %0 {{strides = array<i32>}} : {window}, vector<8x128xf32>,"
        ),
        &format!(
            "func.func @map(%i: i32, %s: memref<4xi32, #tpu.memory_space<smem>>) -> (i32, i32) {{\n {map}\n }}"
        ),
    )
}

#[test]
fn arrays_hold_the_windows_of_the_grid() {
    let cases = [
        (
            "%c0 = arith.constant 0 : i32\n return %i, %c0 : i32, i32",
            "tensor<40x128xf32>",
        ),
        (
            "%c2 = arith.constant 2 : i32\n %a = arith.muli %i, %c2 : i32\n return %a, %c2 : i32, i32",
            "tensor<72x384xf32>",
        ),
        (
            "%c4 = arith.constant 4 : i32\n %a = arith.subi %c4, %i : i32\n return %a, %i : i32, i32",
            "tensor<40x640xf32>",
        ),
        (
            "%c3 = arith.constant 3 : i32\n %a = arith.divsi %i, %c3 : i32\n %b = arith.remsi %i, %c3 : i32\n \
             return %a, %b : i32, i32",
            "tensor<16x384xf32>",
        ),
        (
            "%c0 = arith.constant 0 : i32\n %c2 = arith.constant 2 : i32\n %p = arith.cmpi eq, %i, %c2 : i32\n \
             %a = arith.select %p, %c0, %i : i32\n return %a, %c0 : i32, i32",
            "tensor<40x128xf32>",
        ),
        // What a scalar holds is not known.
        (
            "%j = arith.index_cast %i : i32 to index\n \
             %a = memref.load %s[%j] : memref<4xi32, #tpu.memory_space<smem>>\n return %a, %i : i32, i32",
            "tensor<8x640xf32>",
        ),
    ];
    for (map, expected) in cases {
        let found = arrays(&windowed("5", map), None).unwrap();
        assert_eq!(found.name, "k");
        assert_eq!(shown(&found.scalars), ["tensor<4xi32>"], "{map}");
        assert_eq!(shown(&found.inputs), [expected], "{map}");
        assert_eq!(shown(&found.outputs), [expected], "{map}");
        assert_eq!(found.dynamic_axes, 0);
    }
}

#[test]
fn an_axis_known_only_at_run_time_is_an_operand_and_counts_one_step() {
    let map = "%c0 = arith.constant 0 : i32\n return %i, %c0 : i32, i32";
    let found = arrays(&windowed("-9223372036854775808", map), None).unwrap();
    assert_eq!(found.dynamic_axes, 1);
    assert_eq!(shown(&found.outputs), ["tensor<8x128xf32>"]);
}

#[test]
fn an_index_map_that_is_not_understood_is_an_error_that_names_it() {
    let map = "%a = arith.shli %i, %i : i32\n return %a, %i : i32, i32";
    let error = arrays(&windowed("5", map), None).unwrap_err();
    assert_eq!(
        error.to_string(),
        "argument 2 of @k cannot be passed as an array: its index map @map has arith.shli, whose range is not known"
    );
}

/// A window of an input is loaded and stored to mask it; one of an output is stored first.
#[test]
fn a_masked_input_is_an_input() {
    let window = format!("memref<8x128xf32, {VMEM}>");
    let load = |name: &str, from: &str| {
        format!("{name} = vector.load %{from}[%c0, %c0] : {window}, vector<8x128xf32>\n ")
    };
    let store = |to: &str| {
        format!(
            "tpu.vector_store %{to}[%c0, %c0], %0 {{strides = array<i32>}} : {window}, vector<8x128xf32>,\n "
        )
    };
    let counts = |body: &[String]| {
        let body = format!("%c0 = arith.constant 0 : index\n {}", body.concat());
        let attributes = "dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, \
                          tpu.core_type = #tpu.core_type<tc>";
        let arguments = format!("%x: {window}, %y: {window}, %z: {window}");
        let found = arrays(&text(&arguments, attributes, &body, ""), None).unwrap();
        (found.inputs.len(), found.outputs.len())
    };
    let x = load("%0", "x");
    // Masked, then two outputs; the second adds to what it has.
    let added = load("%1", "z");
    assert_eq!(
        counts(&[x.clone(), store("x"), store("y"), store("z"), added]),
        (1, 2)
    );
    // An output that is read back later.
    assert_eq!(
        counts(&[x.clone(), store("y"), load("%1", "y"), store("z")]),
        (1, 2)
    );
    // Masked, in front of what is only read.
    assert_eq!(counts(&[x.clone(), store("x"), store("z")]), (2, 1));
    // Nothing but what it has loaded before.
    let all = ["x", "y", "z"].map(|name| load(&format!("%{name}0"), name));
    assert_eq!(
        counts(&[x, all.concat(), store("x"), store("y"), store("z")]),
        (0, 3)
    );
}

/// Without windows, operands are whole arrays; what is written is written through views.
#[test]
fn outputs_begin_with_the_first_operand_that_is_written() {
    let any = "#tpu.memory_space<any>";
    let array = format!("memref<16x128xbf16, {any}>");
    let arguments = format!(
        "%x: {array}, %y: {array}, %z: {array}, %s: memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>"
    );
    let attributes = "dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 1 : i64, \
                      tpu.core_type = #tpu.core_type<tc>";
    let part = format!("memref<8x128xbf16, {any}>");
    let copy = format!(
        "%c0 = arith.constant 0 : i32\n \
         %a = tpu.memref_slice %x[%c0, %c0] : {array} -> {part}\n \
         %b = tpu.memref_slice %y[%c0, %c0] : {array} -> {part}\n \
         tpu.enqueue_dma source(%a : {part}) target(%b : {part}) \
         target_semaphore(%s : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>)"
    );
    let copies = text(&arguments, attributes, &copy, "");
    let counts =
        |outputs| arrays(&copies, outputs).map(|found| (found.inputs.len(), found.outputs.len()));
    assert_eq!(counts(None), Ok((1, 2)));
    assert_eq!(counts(Some(1)), Ok((2, 1)));
    assert_eq!(counts(Some(3)), Ok((0, 3)));
    for outputs in [0, 4] {
        let error = counts(Some(outputs)).unwrap_err().to_string();
        let expected =
            format!("{outputs} outputs of @k are not possible: it has 3 operands; give 1 to 3");
        assert_eq!(error, expected);
    }
    let nothing = text(&arguments, attributes, "", "");
    let error = arrays(&nothing, None).unwrap_err();
    assert!(
        matches!(error, SignatureError::NoOutput { operands: 3, .. }),
        "{error}"
    );
    assert_eq!(arrays(&nothing, Some(1)).unwrap().outputs.len(), 1);

    let many = attributes.replace("scratch_operands = 1", "scratch_operands = 5");
    let error = arrays(&text(&arguments, &many, "", ""), None).unwrap_err();
    assert!(
        matches!(
            error,
            SignatureError::Arguments {
                found: 4,
                expected: 5,
                ..
            }
        ),
        "{error}"
    );
    let semaphore = attributes.replace("scratch_operands = 1", "scratch_operands = 0");
    let error = arrays(&text(&arguments, &semaphore, "", ""), Some(1)).unwrap_err();
    assert!(
        matches!(error, SignatureError::Operand { index: 3, .. }),
        "{error}"
    );
}

#[test]
fn a_module_without_a_function_has_no_kernel() {
    let error = arrays("module {\n}\n", None).unwrap_err();
    assert_eq!(error, SignatureError::NoKernel);
}
