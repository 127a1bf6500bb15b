module @kernel {
  func.func @kernel(%arg0: i32, %arg1: memref<32x256xf32, #tpu.memory_space<vmem>>, %arg2: memref<32x1xi32, #tpu.memory_space<vmem>>, %arg3: memref<32x1xf32, #tpu.memory_space<vmem>>, %arg4: memref<32x1xf32, #tpu.memory_space<vmem>>) attributes {dimension_semantics = [#tpu.dimension_semantics<arbitrary>], iteration_bounds = array<i64: 2>, scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>, window_params = [{transform_indices = @transform_0, window_bounds = array<i64: 32, 256>}, {transform_indices = @transform_1, window_bounds = array<i64: 32, 1>}, {transform_indices = @transform_2, window_bounds = array<i64: 32, 1>}, {transform_indices = @transform_3, window_bounds = array<i64: 32, 1>}]} {
    %c0_i32 = arith.constant 0 : i32
    %c4_i32 = arith.constant 4 : i32
    %0 = arith.addi %c0_i32, %c4_i32 : i32
    %c1_i32 = arith.constant 1 : i32
    scf.for %arg5 = %c0_i32 to %0 step %c1_i32  : i32 {
      %c8_i32 = arith.constant 8 : i32
      %1 = arith.muli %arg5, %c8_i32 : i32
      %2 = tpu.assume_multiple %1, 8 : i32
      %3 = arith.index_cast %2 : i32 to index
      %c0 = arith.constant 0 : index
      %4 = vector.load %arg1[%3, %c0] : memref<32x256xf32, #tpu.memory_space<vmem>>, vector<8x256xf32>
      %cst = arith.constant dense<0xFF800000> : vector<8xf32>
      %5 = vector.multi_reduction <maximumf>, %4, %cst [1] : vector<8x256xf32> to vector<8xf32>
      %6 = vector.shape_cast %5 : vector<8xf32> to vector<8x1xf32>
      %7 = vector.broadcast %6 : vector<8x1xf32> to vector<8x256xf32>
      %8 = arith.subf %4, %7 : vector<8x256xf32>
      %9 = math.exp %8 : vector<8x256xf32>
      %cst_1 = arith.constant dense<0.000000e+00> : vector<8xf32>
      %10 = vector.multi_reduction <add>, %9, %cst_1 [1] : vector<8x256xf32> to vector<8xf32>
      %11 = vector.shape_cast %10 : vector<8xf32> to vector<8x1xf32>
      %12 = math.log %11 : vector<8x1xf32>
      %13 = arith.addf %6, %12 : vector<8x1xf32>
      %14 = arith.index_cast %2 : i32 to index
      %c0_2 = arith.constant 0 : index
      %15 = vector.load %arg3[%14, %c0_2] : memref<32x1xf32, #tpu.memory_space<vmem>>, vector<8x1xf32>
      tpu.vector_store %arg3[%14, %c0_2], %13 {strides = array<i32>} : memref<32x1xf32, #tpu.memory_space<vmem>>, vector<8x1xf32>, 
      %16 = tpu.iota {dimensions = array<i32: 1>} : vector<8x256xi32>
      %17 = arith.index_cast %2 : i32 to index
      %c0_3 = arith.constant 0 : index
      %18 = vector.load %arg2[%17, %c0_3] : memref<32x1xi32, #tpu.memory_space<vmem>>, vector<8x1xi32>
      %19 = vector.broadcast %18 : vector<8x1xi32> to vector<8x256xi32>
      %20 = arith.cmpi eq, %16, %19 : vector<8x256xi32>
      %cst_4 = arith.constant 0.000000e+00 : f32
      %21 = vector.broadcast %cst_4 : f32 to vector<8x256xf32>
      %22 = arith.select %20, %4, %21 : vector<8x256xi1>, vector<8x256xf32>
      %cst_5 = arith.constant dense<0.000000e+00> : vector<8xf32>
      %23 = vector.multi_reduction <add>, %22, %cst_5 [1] : vector<8x256xf32> to vector<8xf32>
      %24 = vector.shape_cast %23 : vector<8xf32> to vector<8x1xf32>
      %25 = arith.index_cast %2 : i32 to index
      %c0_6 = arith.constant 0 : index
      %26 = vector.load %arg4[%25, %c0_6] : memref<32x1xf32, #tpu.memory_space<vmem>>, vector<8x1xf32>
      tpu.vector_store %arg4[%25, %c0_6], %24 {strides = array<i32>} : memref<32x1xf32, #tpu.memory_space<vmem>>, vector<8x1xf32>, 
    }
    %c4_i32_0 = arith.constant 4 : i32
    return
  }
  func.func @transform_0(%arg0: i32) -> (i32, i32) {
    %c0_i32 = arith.constant 0 : i32
    %c0_i32_0 = arith.constant 0 : i32
    return %arg0, %c0_i32 : i32, i32
  }
  func.func @transform_1(%arg0: i32) -> (i32, i32) {
    %c0_i32 = arith.constant 0 : i32
    %c0_i32_0 = arith.constant 0 : i32
    return %arg0, %c0_i32 : i32, i32
  }
  func.func @transform_2(%arg0: i32) -> (i32, i32) {
    %c0_i32 = arith.constant 0 : i32
    %c0_i32_0 = arith.constant 0 : i32
    return %arg0, %c0_i32 : i32, i32
  }
  func.func @transform_3(%arg0: i32) -> (i32, i32) {
    %c0_i32 = arith.constant 0 : i32
    %c0_i32_0 = arith.constant 0 : i32
    return %arg0, %c0_i32 : i32, i32
  }
}
