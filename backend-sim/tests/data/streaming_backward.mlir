module @streaming_backward {
  func.func @streaming_backward(%arg0: i32, %arg1: i32, %arg2: i32, %x: memref<1x{b}x2048xbf16, #tpu.memory_space<vmem>>, %lab: memref<1x{b}x1xi32, #tpu.memory_space<vmem>>, %lse: memref<1x{b}x1xf32, #tpu.memory_space<vmem>>, %g: memref<1x{b}x1xf32, #tpu.memory_space<vmem>>, %dx: memref<1x{b}x2048xbf16, #tpu.memory_space<vmem>>) attributes {dimension_semantics = [#tpu.dimension_semantics<parallel>, #tpu.dimension_semantics<parallel>, #tpu.dimension_semantics<parallel>], iteration_bounds = array<i64: 1, {steps}, 75>, scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>, window_params = [{transform_indices = @transform_0, window_bounds = array<i64: 1, {b}, 2048>}, {transform_indices = @transform_1, window_bounds = array<i64: 1, {b}, 1>}, {transform_indices = @transform_2, window_bounds = array<i64: 1, {b}, 1>}, {transform_indices = @transform_3, window_bounds = array<i64: 1, {b}, 1>}, {transform_indices = @transform_4, window_bounds = array<i64: 1, {b}, 2048>}]} {
    %mul3A = arith.constant 2048 : i32
    %c0 = arith.constant 0 : index
    %get3A = vector.load %x[%c0, %c0, %c0] : memref<1x{b}x2048xbf16, #tpu.memory_space<vmem>>, vector<1x{b}x2048xbf16>
    %get3A_0 = vector.shape_cast %get3A : vector<1x{b}x2048xbf16> to vector<{b}x2048xbf16>
    %convert_element_type3A = arith.extf %get3A_0 : vector<{b}x2048xbf16> to vector<{b}x2048xf32>
    %get3A_1 = vector.load %lab[%c0, %c0, %c0] : memref<1x{b}x1xi32, #tpu.memory_space<vmem>>, vector<1x{b}x1xi32>
    %get3A_2 = vector.shape_cast %get3A_1 : vector<1x{b}x1xi32> to vector<{b}xi32>
    %mul3A_3 = arith.muli %arg2, %mul3A : i32
    %sub3A = vector.broadcast %mul3A_3 : i32 to vector<{b}xi32>
    %sub3A_4 = arith.subi %get3A_2, %sub3A : vector<{b}xi32>
    %iota3A = tpu.iota {dimensions = array<i32: 1>} : vector<{b}x2048xi32>
    %get3A_5 = vector.load %lse[%c0, %c0, %c0] : memref<1x{b}x1xf32, #tpu.memory_space<vmem>>, vector<1x{b}x1xf32>
    %broadcast_in_dim3A = vector.shape_cast %get3A_5 : vector<1x{b}x1xf32> to vector<{b}x1xf32>
    %sub3A_6 = vector.broadcast %broadcast_in_dim3A : vector<{b}x1xf32> to vector<{b}x2048xf32>
    %sub3A_7 = arith.subf %convert_element_type3A, %sub3A_6 : vector<{b}x2048xf32>
    %exp3A = math.exp %sub3A_7 : vector<{b}x2048xf32>
    %broadcast_in_dim3A_8 = vector.shape_cast %sub3A_4 : vector<{b}xi32> to vector<{b}x1xi32>
    %eq3A = vector.broadcast %broadcast_in_dim3A_8 : vector<{b}x1xi32> to vector<{b}x2048xi32>
    %eq3A_9 = arith.cmpi eq, %iota3A, %eq3A : vector<{b}x2048xi32>
    %convert_element_type3A_10 = arith.uitofp %eq3A_9 : vector<{b}x2048xi1> to vector<{b}x2048xf32>
    %sub3A_11 = arith.subf %exp3A, %convert_element_type3A_10 : vector<{b}x2048xf32>
    %get3A_12 = vector.load %g[%c0, %c0, %c0] : memref<1x{b}x1xf32, #tpu.memory_space<vmem>>, vector<1x{b}x1xf32>
    %broadcast_in_dim3A_13 = vector.shape_cast %get3A_12 : vector<1x{b}x1xf32> to vector<{b}x1xf32>
    %mul3A_14 = vector.broadcast %broadcast_in_dim3A_13 : vector<{b}x1xf32> to vector<{b}x2048xf32>
    %mul3A_15 = arith.mulf %sub3A_11, %mul3A_14 : vector<{b}x2048xf32>
    %convert_element_type3A_16 = arith.truncf %mul3A_15 : vector<{b}x2048xf32> to vector<{b}x2048xbf16>
    %swap3A = vector.shape_cast %convert_element_type3A_16 : vector<{b}x2048xbf16> to vector<1x{b}x2048xbf16>
    tpu.vector_store %dx[%c0, %c0, %c0], %swap3A {strides = array<i32>} : memref<1x{b}x2048xbf16, #tpu.memory_space<vmem>>, vector<1x{b}x2048xbf16>, 
    return
  }
  func.func @transform_0(%arg0: i32, %arg1: i32, %arg2: i32) -> (i32, i32, i32) {
    return %arg0, %arg1, %arg2 : i32, i32, i32
  }
  func.func @transform_1(%arg0: i32, %arg1: i32, %arg2: i32) -> (i32, i32, i32) {
    %c0_i32 = arith.constant 0 : i32
    return %arg0, %arg1, %c0_i32 : i32, i32, i32
  }
  func.func @transform_2(%arg0: i32, %arg1: i32, %arg2: i32) -> (i32, i32, i32) {
    %c0_i32 = arith.constant 0 : i32
    return %arg0, %arg1, %c0_i32 : i32, i32, i32
  }
  func.func @transform_3(%arg0: i32, %arg1: i32, %arg2: i32) -> (i32, i32, i32) {
    %c0_i32 = arith.constant 0 : i32
    return %arg0, %arg1, %c0_i32 : i32, i32, i32
  }
  func.func @transform_4(%arg0: i32, %arg1: i32, %arg2: i32) -> (i32, i32, i32) {
    return %arg0, %arg1, %arg2 : i32, i32, i32
  }
}
