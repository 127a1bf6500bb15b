module @streaming_forward {
  func.func @streaming_forward(%arg0: i32, %arg1: i32, %arg2: i32, %x: memref<1x{b}x2048xbf16, #tpu.memory_space<vmem>>, %lab: memref<1x{b}x1xi32, #tpu.memory_space<vmem>>, %loss: memref<1x{b}x1xf32, #tpu.memory_space<vmem>>, %logp: memref<1x{b}x1xf32, #tpu.memory_space<vmem>>, %lse: memref<1x{b}x1xf32, #tpu.memory_space<vmem>>, %m: memref<{b}xf32, #tpu.memory_space<vmem>>, %l: memref<{b}xf32, #tpu.memory_space<vmem>>, %c: memref<{b}xf32, #tpu.memory_space<vmem>>) attributes {dimension_semantics = [#tpu.dimension_semantics<parallel>, #tpu.dimension_semantics<parallel>, #tpu.dimension_semantics<arbitrary>], iteration_bounds = array<i64: 1, {steps}, 75>, scalar_prefetch = 0 : i64, scratch_operands = 3 : i64, tpu.core_type = #tpu.core_type<tc>, window_params = [{transform_indices = @transform_0, window_bounds = array<i64: 1, {b}, 2048>}, {transform_indices = @transform_1, window_bounds = array<i64: 1, {b}, 1>}, {transform_indices = @transform_2, window_bounds = array<i64: 1, {b}, 1>}, {transform_indices = @transform_3, window_bounds = array<i64: 1, {b}, 1>}, {transform_indices = @transform_4, window_bounds = array<i64: 1, {b}, 1>}]} {
    %broadcast_in_dim3A = arith.constant dense<0.000000e+00> : vector<{b}x2048xf32>
    %cst = arith.constant dense<0.000000e+00> : vector<1x{b}x1xf32>
    %cst_0 = arith.constant dense<-9.99999968E+37> : vector<{b}xf32>
    %eq3A = arith.constant 74 : i32
    %reduce_max3A = arith.constant dense<0xFF800000> : vector<{b}xf32>
    %cst_1 = arith.constant dense<0.000000e+00> : vector<{b}xf32>
    %mul3A = arith.constant 2048 : i32
    %c0 = arith.constant 0 : index
    %c0_i32 = arith.constant 0 : i32
    %eq3A_2 = arith.cmpi eq, %arg2, %c0_i32 : i32
    scf.if %eq3A_2 {
      tpu.vector_store %m[%c0], %cst_0 {strides = array<i32>} : memref<{b}xf32, #tpu.memory_space<vmem>>, vector<{b}xf32>, 
      tpu.vector_store %l[%c0], %cst_1 {strides = array<i32>} : memref<{b}xf32, #tpu.memory_space<vmem>>, vector<{b}xf32>, 
      tpu.vector_store %c[%c0], %cst_1 {strides = array<i32>} : memref<{b}xf32, #tpu.memory_space<vmem>>, vector<{b}xf32>, 
      tpu.vector_store %loss[%c0, %c0, %c0], %cst {strides = array<i32>} : memref<1x{b}x1xf32, #tpu.memory_space<vmem>>, vector<1x{b}x1xf32>, 
      tpu.vector_store %logp[%c0, %c0, %c0], %cst {strides = array<i32>} : memref<1x{b}x1xf32, #tpu.memory_space<vmem>>, vector<1x{b}x1xf32>, 
      tpu.vector_store %lse[%c0, %c0, %c0], %cst {strides = array<i32>} : memref<1x{b}x1xf32, #tpu.memory_space<vmem>>, vector<1x{b}x1xf32>, 
    }
    %get3A = vector.load %x[%c0, %c0, %c0] : memref<1x{b}x2048xbf16, #tpu.memory_space<vmem>>, vector<1x{b}x2048xbf16>
    %get3A_3 = vector.shape_cast %get3A : vector<1x{b}x2048xbf16> to vector<{b}x2048xbf16>
    %convert_element_type3A = arith.extf %get3A_3 : vector<{b}x2048xbf16> to vector<{b}x2048xf32>
    %get3A_4 = vector.load %lab[%c0, %c0, %c0] : memref<1x{b}x1xi32, #tpu.memory_space<vmem>>, vector<1x{b}x1xi32>
    %get3A_5 = vector.shape_cast %get3A_4 : vector<1x{b}x1xi32> to vector<{b}xi32>
    %mul3A_6 = arith.muli %arg2, %mul3A : i32
    %sub3A = vector.broadcast %mul3A_6 : i32 to vector<{b}xi32>
    %sub3A_7 = arith.subi %get3A_5, %sub3A : vector<{b}xi32>
    %iota3A = tpu.iota {dimensions = array<i32: 1>} : vector<{b}x2048xi32>
    %get3A_8 = vector.load %c[%c0] : memref<{b}xf32, #tpu.memory_space<vmem>>, vector<{b}xf32>
    %broadcast_in_dim3A_9 = vector.shape_cast %sub3A_7 : vector<{b}xi32> to vector<{b}x1xi32>
    %eq3A_10 = vector.broadcast %broadcast_in_dim3A_9 : vector<{b}x1xi32> to vector<{b}x2048xi32>
    %eq3A_11 = arith.cmpi eq, %iota3A, %eq3A_10 : vector<{b}x2048xi32>
    %select_n3A = arith.select %eq3A_11, %convert_element_type3A, %broadcast_in_dim3A : vector<{b}x2048xi1>, vector<{b}x2048xf32>
    %reduce_sum3A = vector.multi_reduction <add>, %select_n3A, %cst_1 [1] : vector<{b}x2048xf32> to vector<{b}xf32>
    %add3A = arith.addf %get3A_8, %reduce_sum3A : vector<{b}xf32>
    tpu.vector_store %c[%c0], %add3A {strides = array<i32>} : memref<{b}xf32, #tpu.memory_space<vmem>>, vector<{b}xf32>, 
    %get3A_12 = vector.load %m[%c0] : memref<{b}xf32, #tpu.memory_space<vmem>>, vector<{b}xf32>
    %reduce_max3A_13 = vector.multi_reduction <maximumf>, %convert_element_type3A, %reduce_max3A [1] : vector<{b}x2048xf32> to vector<{b}xf32>
    %max3A = arith.maximumf %get3A_12, %reduce_max3A_13 : vector<{b}xf32>
    %get3A_14 = vector.load %l[%c0] : memref<{b}xf32, #tpu.memory_space<vmem>>, vector<{b}xf32>
    %get3A_15 = vector.load %m[%c0] : memref<{b}xf32, #tpu.memory_space<vmem>>, vector<{b}xf32>
    %sub3A_16 = arith.subf %get3A_15, %max3A : vector<{b}xf32>
    %exp3A = math.exp %sub3A_16 : vector<{b}xf32>
    %mul3A_17 = arith.mulf %get3A_14, %exp3A : vector<{b}xf32>
    %broadcast_in_dim3A_18 = vector.shape_cast %max3A : vector<{b}xf32> to vector<{b}x1xf32>
    %sub3A_19 = vector.broadcast %broadcast_in_dim3A_18 : vector<{b}x1xf32> to vector<{b}x2048xf32>
    %sub3A_20 = arith.subf %convert_element_type3A, %sub3A_19 : vector<{b}x2048xf32>
    %exp3A_21 = math.exp %sub3A_20 : vector<{b}x2048xf32>
    %reduce_sum3A_22 = vector.multi_reduction <add>, %exp3A_21, %cst_1 [1] : vector<{b}x2048xf32> to vector<{b}xf32>
    %add3A_23 = arith.addf %mul3A_17, %reduce_sum3A_22 : vector<{b}xf32>
    tpu.vector_store %l[%c0], %add3A_23 {strides = array<i32>} : memref<{b}xf32, #tpu.memory_space<vmem>>, vector<{b}xf32>, 
    tpu.vector_store %m[%c0], %max3A {strides = array<i32>} : memref<{b}xf32, #tpu.memory_space<vmem>>, vector<{b}xf32>, 
    %eq3A_24 = arith.cmpi eq, %arg2, %eq3A : i32
    scf.if %eq3A_24 {
      %get3A_25 = vector.load %m[%c0] : memref<{b}xf32, #tpu.memory_space<vmem>>, vector<{b}xf32>
      %get3A_26 = vector.load %l[%c0] : memref<{b}xf32, #tpu.memory_space<vmem>>, vector<{b}xf32>
      %log3A = math.log %get3A_26 : vector<{b}xf32>
      %add3A_27 = arith.addf %get3A_25, %log3A : vector<{b}xf32>
      %swap3A = vector.shape_cast %add3A_27 : vector<{b}xf32> to vector<1x{b}x1xf32>
      tpu.vector_store %lse[%c0, %c0, %c0], %swap3A {strides = array<i32>} : memref<1x{b}x1xf32, #tpu.memory_space<vmem>>, vector<1x{b}x1xf32>, 
      %get3A_28 = vector.load %c[%c0] : memref<{b}xf32, #tpu.memory_space<vmem>>, vector<{b}xf32>
      %sub3A_29 = arith.subf %add3A_27, %get3A_28 : vector<{b}xf32>
      %swap3A_30 = vector.shape_cast %sub3A_29 : vector<{b}xf32> to vector<1x{b}x1xf32>
      tpu.vector_store %loss[%c0, %c0, %c0], %swap3A_30 {strides = array<i32>} : memref<1x{b}x1xf32, #tpu.memory_space<vmem>>, vector<1x{b}x1xf32>, 
      %get3A_31 = vector.load %c[%c0] : memref<{b}xf32, #tpu.memory_space<vmem>>, vector<{b}xf32>
      %sub3A_32 = arith.subf %get3A_31, %add3A_27 : vector<{b}xf32>
      %swap3A_33 = vector.shape_cast %sub3A_32 : vector<{b}xf32> to vector<1x{b}x1xf32>
      tpu.vector_store %logp[%c0, %c0, %c0], %swap3A_33 {strides = array<i32>} : memref<1x{b}x1xf32, #tpu.memory_space<vmem>>, vector<1x{b}x1xf32>, 
    }
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
    %c0_i32 = arith.constant 0 : i32
    return %arg0, %arg1, %c0_i32 : i32, i32, i32
  }
}
