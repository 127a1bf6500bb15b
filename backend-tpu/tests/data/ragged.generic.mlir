"builtin.module"() <{sym_name = "kernel"}> ({
  "func.func"() <{function_type = (i32, i32, memref<1x8x128xbf16, #tpu.memory_space<vmem>>, memref<8x128xf32, #tpu.memory_space<vmem>>, memref<1x8x128xf32, #tpu.memory_space<vmem>>) -> (), sym_name = "kernel"}> ({
  ^bb0(%arg6: i32, %arg7: i32, %arg8: memref<1x8x128xbf16, #tpu.memory_space<vmem>>, %arg9: memref<8x128xf32, #tpu.memory_space<vmem>>, %arg10: memref<1x8x128xf32, #tpu.memory_space<vmem>>):
    %8 = "arith.constant"() <{value = 128 : i32}> : () -> i32
    %9 = "arith.muli"(%arg7, %8) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
    %10 = "arith.constant"() <{value = 300 : i32}> : () -> i32
    %11 = "arith.subi"(%10, %9) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
    %12 = "tpu.iota"() <{dimensions = array<i32: 1>}> : () -> vector<8x128xi32>
    %13 = "vector.broadcast"(%11) : (i32) -> vector<8x128xi32>
    %14 = "arith.cmpi"(%12, %13) <{predicate = 2 : i64}> : (vector<8x128xi32>, vector<8x128xi32>) -> vector<8x128xi1>
    %15 = "arith.constant"() <{value = 0 : index}> : () -> index
    %16 = "arith.constant"() <{value = 0 : index}> : () -> index
    %17 = "arith.constant"() <{value = 0 : index}> : () -> index
    %18 = "vector.load"(%arg8, %15, %16, %17) : (memref<1x8x128xbf16, #tpu.memory_space<vmem>>, index, index, index) -> vector<1x8x128xbf16>
    %19 = "vector.shape_cast"(%18) : (vector<1x8x128xbf16>) -> vector<8x128xbf16>
    %20 = "arith.extf"(%19) : (vector<8x128xbf16>) -> vector<8x128xf32>
    %21 = "arith.constant"() <{value = 0.000000e+00 : f32}> : () -> f32
    %22 = "vector.broadcast"(%21) : (f32) -> vector<8x128xf32>
    %23 = "arith.select"(%14, %20, %22) : (vector<8x128xi1>, vector<8x128xf32>, vector<8x128xf32>) -> vector<8x128xf32>
    %24 = "arith.constant"() <{value = 0 : index}> : () -> index
    %25 = "arith.constant"() <{value = 0 : index}> : () -> index
    %26 = "vector.load"(%arg9, %24, %25) : (memref<8x128xf32, #tpu.memory_space<vmem>>, index, index) -> vector<8x128xf32>
    %27 = "arith.mulf"(%23, %26) <{fastmath = #arith.fastmath<none>}> : (vector<8x128xf32>, vector<8x128xf32>) -> vector<8x128xf32>
    %28 = "arith.constant"() <{value = 0 : index}> : () -> index
    %29 = "arith.constant"() <{value = 0 : index}> : () -> index
    %30 = "arith.constant"() <{value = 0 : index}> : () -> index
    %31 = "vector.load"(%arg10, %28, %29, %30) : (memref<1x8x128xf32, #tpu.memory_space<vmem>>, index, index, index) -> vector<1x8x128xf32>
    %32 = "vector.shape_cast"(%31) : (vector<1x8x128xf32>) -> vector<8x128xf32>
    %33 = "vector.shape_cast"(%27) : (vector<8x128xf32>) -> vector<1x8x128xf32>
    "tpu.vector_store"(%33, %arg10, %28, %29, %30) <{add = false, operandSegmentSizes = array<i32: 1, 1, 3, 0>, strides = array<i32>}> : (vector<1x8x128xf32>, memref<1x8x128xf32, #tpu.memory_space<vmem>>, index, index, index) -> ()
    "func.return"() : () -> ()
  }) {dimension_semantics = [#tpu.dimension_semantics<arbitrary>, #tpu.dimension_semantics<arbitrary>], iteration_bounds = array<i64: 2, 3>, scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>, window_params = [{transform_indices = @transform_0, window_bounds = array<i64: 1, 8, 128>}, {transform_indices = @transform_1, window_bounds = array<i64: 8, 128>, window_kind = #tpu.element_window<[0, 0], [0, 0]>}, {transform_indices = @transform_2, window_bounds = array<i64: 1, 8, 128>}]} : () -> ()
  "func.func"() <{function_type = (i32, i32) -> (i32, i32, i32), sym_name = "transform_0"}> ({
  ^bb0(%arg4: i32, %arg5: i32):
    %6 = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %7 = "arith.constant"() <{value = 0 : i32}> : () -> i32
    "func.return"(%arg4, %6, %arg5) : (i32, i32, i32) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (i32, i32) -> (i32, i32), sym_name = "transform_1"}> ({
  ^bb0(%arg2: i32, %arg3: i32):
    %2 = "arith.constant"() <{value = 8 : i32}> : () -> i32
    %3 = "arith.muli"(%arg2, %2) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
    %4 = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %5 = "arith.constant"() <{value = 0 : i32}> : () -> i32
    "func.return"(%3, %4) : (i32, i32) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (i32, i32) -> (i32, i32, i32), sym_name = "transform_2"}> ({
  ^bb0(%arg0: i32, %arg1: i32):
    %0 = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %1 = "arith.constant"() <{value = 0 : i32}> : () -> i32
    "func.return"(%arg0, %0, %arg1) : (i32, i32, i32) -> ()
  }) : () -> ()
}) : () -> ()
