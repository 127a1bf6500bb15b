"builtin.module"() <{sym_name = "kernel"}> ({
  "func.func"() <{function_type = (memref<2x128x256xf32, #tpu.memory_space<vmem>>, memref<2x128x256xf32, #tpu.memory_space<vmem>>, memref<128x128xi8, #tpu.memory_space<vmem>>, memref<128x128xi8, #tpu.memory_space<vmem>>, memref<2x128x128xf32, #tpu.memory_space<vmem>>, memref<128x128xi32, #tpu.memory_space<vmem>>) -> (), sym_name = "kernel"}> ({
  ^bb0(%arg0: memref<2x128x256xf32, #tpu.memory_space<vmem>>, %arg1: memref<2x128x256xf32, #tpu.memory_space<vmem>>, %arg2: memref<128x128xi8, #tpu.memory_space<vmem>>, %arg3: memref<128x128xi8, #tpu.memory_space<vmem>>, %arg4: memref<2x128x128xf32, #tpu.memory_space<vmem>>, %arg5: memref<128x128xi32, #tpu.memory_space<vmem>>):
    %0 = "arith.constant"() <{value = 0 : index}> : () -> index
    %1 = "arith.constant"() <{value = 0 : index}> : () -> index
    %2 = "arith.constant"() <{value = 0 : index}> : () -> index
    %3 = "vector.load"(%arg0, %0, %1, %2) : (memref<2x128x256xf32, #tpu.memory_space<vmem>>, index, index, index) -> vector<2x128x256xf32>
    %4 = "arith.constant"() <{value = 0 : index}> : () -> index
    %5 = "arith.constant"() <{value = 0 : index}> : () -> index
    %6 = "arith.constant"() <{value = 0 : index}> : () -> index
    %7 = "vector.load"(%arg1, %4, %5, %6) : (memref<2x128x256xf32, #tpu.memory_space<vmem>>, index, index, index) -> vector<2x128x256xf32>
    %8 = "arith.constant"() <{value = dense<0.000000e+00> : vector<2x128x128xf32>}> : () -> vector<2x128x128xf32>
    %9 = "tpu.matmul"(%3, %7, %8) <{dimension_numbers = #tpu.dot_dimension_numbers<[2], [2], [1], [1], [0, 0, 0, 1, 1, 1], [0], [0]>, precision = #tpu.contract_precision<fp32>, transpose_lhs = false, transpose_lhs_hint = false, transpose_rhs = false}> : (vector<2x128x256xf32>, vector<2x128x256xf32>, vector<2x128x128xf32>) -> vector<2x128x128xf32>
    %10 = "arith.constant"() <{value = 0 : index}> : () -> index
    %11 = "arith.constant"() <{value = 0 : index}> : () -> index
    %12 = "arith.constant"() <{value = 0 : index}> : () -> index
    %13 = "vector.load"(%arg4, %10, %11, %12) : (memref<2x128x128xf32, #tpu.memory_space<vmem>>, index, index, index) -> vector<2x128x128xf32>
    "tpu.vector_store"(%9, %arg4, %10, %11, %12) <{add = false, operandSegmentSizes = array<i32: 1, 1, 3, 0>, strides = array<i32>}> : (vector<2x128x128xf32>, memref<2x128x128xf32, #tpu.memory_space<vmem>>, index, index, index) -> ()
    %14 = "arith.constant"() <{value = 0 : index}> : () -> index
    %15 = "arith.constant"() <{value = 0 : index}> : () -> index
    %16 = "vector.load"(%arg2, %14, %15) : (memref<128x128xi8, #tpu.memory_space<vmem>>, index, index) -> vector<128x128xi8>
    %17 = "arith.constant"() <{value = 0 : index}> : () -> index
    %18 = "arith.constant"() <{value = 0 : index}> : () -> index
    %19 = "vector.load"(%arg3, %17, %18) : (memref<128x128xi8, #tpu.memory_space<vmem>>, index, index) -> vector<128x128xi8>
    %20 = "arith.constant"() <{value = dense<0> : vector<128x128xi32>}> : () -> vector<128x128xi32>
    %21 = "tpu.matmul"(%16, %19, %20) <{dimension_numbers = #tpu.dot_dimension_numbers<[1], [0], [0], [1], [0, 0, 1, 1], [], []>, transpose_lhs = false, transpose_lhs_hint = false, transpose_rhs = false}> : (vector<128x128xi8>, vector<128x128xi8>, vector<128x128xi32>) -> vector<128x128xi32>
    %22 = "arith.constant"() <{value = 0 : index}> : () -> index
    %23 = "arith.constant"() <{value = 0 : index}> : () -> index
    %24 = "vector.load"(%arg5, %22, %23) : (memref<128x128xi32, #tpu.memory_space<vmem>>, index, index) -> vector<128x128xi32>
    "tpu.vector_store"(%21, %arg5, %22, %23) <{add = false, operandSegmentSizes = array<i32: 1, 1, 2, 0>, strides = array<i32>}> : (vector<128x128xi32>, memref<128x128xi32, #tpu.memory_space<vmem>>, index, index) -> ()
    "func.return"() : () -> ()
  }) {dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>} : () -> ()
}) : () -> ()
