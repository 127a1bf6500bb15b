"builtin.module"() <{sym_name = "kernel"}> ({
  "stable_mosaic.func.func"() ({
  ^bb0(%arg6: i32, %arg7: i32, %arg8: memref<1x8x128xbf16, #tpu.memory_space<vmem>>, %arg9: memref<8x128xf32, #tpu.memory_space<vmem>>, %arg10: memref<1x8x128xf32, #tpu.memory_space<vmem>>):
    %8 = "stable_mosaic.arith.constant"() {value = 128 : i32} : () -> i32
    %9 = "stable_mosaic.arith.muli"(%arg7, %8) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
    %10 = "stable_mosaic.arith.constant"() {value = 300 : i32} : () -> i32
    %11 = "stable_mosaic.arith.subi"(%10, %9) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
    %12 = "stable_mosaic.tpu.iota"() {dimensions = array<i32: 1>} : () -> vector<8x128xi32>
    %13 = "stable_mosaic.vector.broadcast"(%11) : (i32) -> vector<8x128xi32>
    %14 = "stable_mosaic.arith.cmpi"(%12, %13) {predicate = 2 : i64} : (vector<8x128xi32>, vector<8x128xi32>) -> vector<8x128xi1>
    %15 = "stable_mosaic.arith.constant"() {value = 0 : index} : () -> index
    %16 = "stable_mosaic.arith.constant"() {value = 0 : index} : () -> index
    %17 = "stable_mosaic.arith.constant"() {value = 0 : index} : () -> index
    %18 = "stable_mosaic.vector.load"(%arg8, %15, %16, %17) : (memref<1x8x128xbf16, #tpu.memory_space<vmem>>, index, index, index) -> vector<1x8x128xbf16>
    %19 = "stable_mosaic.vector.shape_cast"(%18) : (vector<1x8x128xbf16>) -> vector<8x128xbf16>
    %20 = "stable_mosaic.arith.extf"(%19) : (vector<8x128xbf16>) -> vector<8x128xf32>
    %21 = "stable_mosaic.arith.constant"() {value = 0.000000e+00 : f32} : () -> f32
    %22 = "stable_mosaic.vector.broadcast"(%21) : (f32) -> vector<8x128xf32>
    %23 = "stable_mosaic.arith.select"(%14, %20, %22) : (vector<8x128xi1>, vector<8x128xf32>, vector<8x128xf32>) -> vector<8x128xf32>
    %24 = "stable_mosaic.arith.constant"() {value = 0 : index} : () -> index
    %25 = "stable_mosaic.arith.constant"() {value = 0 : index} : () -> index
    %26 = "stable_mosaic.vector.load"(%arg9, %24, %25) : (memref<8x128xf32, #tpu.memory_space<vmem>>, index, index) -> vector<8x128xf32>
    %27 = "stable_mosaic.arith.mulf"(%23, %26) {fastmath = #arith.fastmath<none>} : (vector<8x128xf32>, vector<8x128xf32>) -> vector<8x128xf32>
    %28 = "stable_mosaic.arith.constant"() {value = 0 : index} : () -> index
    %29 = "stable_mosaic.arith.constant"() {value = 0 : index} : () -> index
    %30 = "stable_mosaic.arith.constant"() {value = 0 : index} : () -> index
    %31 = "stable_mosaic.vector.load"(%arg10, %28, %29, %30) : (memref<1x8x128xf32, #tpu.memory_space<vmem>>, index, index, index) -> vector<1x8x128xf32>
    %32 = "stable_mosaic.vector.shape_cast"(%31) : (vector<1x8x128xf32>) -> vector<8x128xf32>
    %33 = "stable_mosaic.vector.shape_cast"(%27) : (vector<8x128xf32>) -> vector<1x8x128xf32>
    "stable_mosaic.tpu.vector_store"(%33, %arg10, %28, %29, %30) {add = false, operandSegmentSizes = array<i32: 1, 1, 3, 0>, strides = array<i32>} : (vector<1x8x128xf32>, memref<1x8x128xf32, #tpu.memory_space<vmem>>, index, index, index) -> ()
    "stable_mosaic.func.return"() : () -> ()
  }) {dimension_semantics = [#tpu.dimension_semantics<arbitrary>, #tpu.dimension_semantics<arbitrary>], function_type = (i32, i32, memref<1x8x128xbf16, #tpu.memory_space<vmem>>, memref<8x128xf32, #tpu.memory_space<vmem>>, memref<1x8x128xf32, #tpu.memory_space<vmem>>) -> (), iteration_bounds = array<i64: 2, 3>, scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, sym_name = "kernel", tpu.core_type = #tpu.core_type<tc>, window_params = [{transform_indices = @transform_0, window_bounds = array<i64: 1, 8, 128>}, {transform_indices = @transform_1, window_bounds = array<i64: 8, 128>, window_kind = #tpu.element_window<[0, 0], [0, 0]>}, {transform_indices = @transform_2, window_bounds = array<i64: 1, 8, 128>}]} : () -> ()
  "stable_mosaic.func.func"() ({
  ^bb0(%arg4: i32, %arg5: i32):
    %6 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
    %7 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
    "stable_mosaic.func.return"(%arg4, %6, %arg5) : (i32, i32, i32) -> ()
  }) {function_type = (i32, i32) -> (i32, i32, i32), sym_name = "transform_0"} : () -> ()
  "stable_mosaic.func.func"() ({
  ^bb0(%arg2: i32, %arg3: i32):
    %2 = "stable_mosaic.arith.constant"() {value = 8 : i32} : () -> i32
    %3 = "stable_mosaic.arith.muli"(%arg2, %2) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
    %4 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
    %5 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
    "stable_mosaic.func.return"(%3, %4) : (i32, i32) -> ()
  }) {function_type = (i32, i32) -> (i32, i32), sym_name = "transform_1"} : () -> ()
  "stable_mosaic.func.func"() ({
  ^bb0(%arg0: i32, %arg1: i32):
    %0 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
    %1 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
    "stable_mosaic.func.return"(%arg0, %0, %arg1) : (i32, i32, i32) -> ()
  }) {function_type = (i32, i32) -> (i32, i32, i32), sym_name = "transform_2"} : () -> ()
}) {stable_mosaic.version = 18 : i64} : () -> ()
