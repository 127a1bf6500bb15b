module @kernel {
  func.func @kernel(%arg0: memref<2x128x256xf32, #tpu.memory_space<vmem>>, %arg1: memref<2x128x256xf32, #tpu.memory_space<vmem>>, %arg2: memref<128x128xi8, #tpu.memory_space<vmem>>, %arg3: memref<128x128xi8, #tpu.memory_space<vmem>>, %arg4: memref<2x128x128xf32, #tpu.memory_space<vmem>>, %arg5: memref<128x128xi32, #tpu.memory_space<vmem>>) attributes {dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>} {
    %c0 = arith.constant 0 : index
    %c0_0 = arith.constant 0 : index
    %c0_1 = arith.constant 0 : index
    %0 = vector.load %arg0[%c0, %c0_0, %c0_1] : memref<2x128x256xf32, #tpu.memory_space<vmem>>, vector<2x128x256xf32>
    %c0_2 = arith.constant 0 : index
    %c0_3 = arith.constant 0 : index
    %c0_4 = arith.constant 0 : index
    %1 = vector.load %arg1[%c0_2, %c0_3, %c0_4] : memref<2x128x256xf32, #tpu.memory_space<vmem>>, vector<2x128x256xf32>
    %cst = arith.constant dense<0.000000e+00> : vector<2x128x128xf32>
    %2 = tpu.matmul %0, %1, %cst {dimension_numbers = #tpu.dot_dimension_numbers<[2], [2], [1], [1], [0, 0, 0, 1, 1, 1], [0], [0]>, precision = #tpu.contract_precision<fp32>, transpose_lhs_hint = false} : vector<2x128x256xf32>, vector<2x128x256xf32>, vector<2x128x128xf32> -> vector<2x128x128xf32>
    %c0_5 = arith.constant 0 : index
    %c0_6 = arith.constant 0 : index
    %c0_7 = arith.constant 0 : index
    %3 = vector.load %arg4[%c0_5, %c0_6, %c0_7] : memref<2x128x128xf32, #tpu.memory_space<vmem>>, vector<2x128x128xf32>
    tpu.vector_store %arg4[%c0_5, %c0_6, %c0_7], %2 {strides = array<i32>} : memref<2x128x128xf32, #tpu.memory_space<vmem>>, vector<2x128x128xf32>, 
    %c0_8 = arith.constant 0 : index
    %c0_9 = arith.constant 0 : index
    %4 = vector.load %arg2[%c0_8, %c0_9] : memref<128x128xi8, #tpu.memory_space<vmem>>, vector<128x128xi8>
    %c0_10 = arith.constant 0 : index
    %c0_11 = arith.constant 0 : index
    %5 = vector.load %arg3[%c0_10, %c0_11] : memref<128x128xi8, #tpu.memory_space<vmem>>, vector<128x128xi8>
    %cst_12 = arith.constant dense<0> : vector<128x128xi32>
    %6 = tpu.matmul %4, %5, %cst_12 {dimension_numbers = #tpu.dot_dimension_numbers<[1], [0], [0], [1], [0, 0, 1, 1], [], []>, transpose_lhs_hint = false} : vector<128x128xi8>, vector<128x128xi8>, vector<128x128xi32> -> vector<128x128xi32>
    %c0_13 = arith.constant 0 : index
    %c0_14 = arith.constant 0 : index
    %7 = vector.load %arg5[%c0_13, %c0_14] : memref<128x128xi32, #tpu.memory_space<vmem>>, vector<128x128xi32>
    tpu.vector_store %arg5[%c0_13, %c0_14], %6 {strides = array<i32>} : memref<128x128xi32, #tpu.memory_space<vmem>>, vector<128x128xi32>, 
    return
  }
}
