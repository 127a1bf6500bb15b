module @kernel {
  func.func @kernel(%arg0: i32, %arg1: i32, %arg2: memref<1x8x128xbf16, #tpu.memory_space<vmem>>, %arg3: memref<8x128xf32, #tpu.memory_space<vmem>>, %arg4: memref<1x8x128xf32, #tpu.memory_space<vmem>>) attributes {dimension_semantics = [#tpu.dimension_semantics<arbitrary>, #tpu.dimension_semantics<arbitrary>], iteration_bounds = array<i64: 2, 3>, scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>, window_params = [{transform_indices = @transform_0, window_bounds = array<i64: 1, 8, 128>}, {transform_indices = @transform_1, window_bounds = array<i64: 8, 128>, window_kind = #tpu.element_window<[0, 0], [0, 0]>}, {transform_indices = @transform_2, window_bounds = array<i64: 1, 8, 128>}]} {
    %c128_i32 = arith.constant 128 : i32
    %0 = arith.muli %arg1, %c128_i32 : i32
    %c300_i32 = arith.constant 300 : i32
    %1 = arith.subi %c300_i32, %0 : i32
    %2 = tpu.iota {dimensions = array<i32: 1>} : vector<8x128xi32>
    %3 = vector.broadcast %1 : i32 to vector<8x128xi32>
    %4 = arith.cmpi slt, %2, %3 : vector<8x128xi32>
    %c0 = arith.constant 0 : index
    %c0_0 = arith.constant 0 : index
    %c0_1 = arith.constant 0 : index
    %5 = vector.load %arg2[%c0, %c0_0, %c0_1] : memref<1x8x128xbf16, #tpu.memory_space<vmem>>, vector<1x8x128xbf16>
    %6 = vector.shape_cast %5 : vector<1x8x128xbf16> to vector<8x128xbf16>
    %7 = arith.extf %6 : vector<8x128xbf16> to vector<8x128xf32>
    %cst = arith.constant 0.000000e+00 : f32
    %8 = vector.broadcast %cst : f32 to vector<8x128xf32>
    %9 = arith.select %4, %7, %8 : vector<8x128xi1>, vector<8x128xf32>
    %c0_2 = arith.constant 0 : index
    %c0_3 = arith.constant 0 : index
    %10 = vector.load %arg3[%c0_2, %c0_3] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
    %11 = arith.mulf %9, %10 : vector<8x128xf32>
    %c0_4 = arith.constant 0 : index
    %c0_5 = arith.constant 0 : index
    %c0_6 = arith.constant 0 : index
    %12 = vector.load %arg4[%c0_4, %c0_5, %c0_6] : memref<1x8x128xf32, #tpu.memory_space<vmem>>, vector<1x8x128xf32>
    %13 = vector.shape_cast %12 : vector<1x8x128xf32> to vector<8x128xf32>
    %14 = vector.shape_cast %11 : vector<8x128xf32> to vector<1x8x128xf32>
    tpu.vector_store %arg4[%c0_4, %c0_5, %c0_6], %14 {strides = array<i32>} : memref<1x8x128xf32, #tpu.memory_space<vmem>>, vector<1x8x128xf32>, 
    return
  }
  func.func @transform_0(%arg0: i32, %arg1: i32) -> (i32, i32, i32) {
    %c0_i32 = arith.constant 0 : i32
    %c0_i32_0 = arith.constant 0 : i32
    return %arg0, %c0_i32, %arg1 : i32, i32, i32
  }
  func.func @transform_1(%arg0: i32, %arg1: i32) -> (i32, i32) {
    %c8_i32 = arith.constant 8 : i32
    %0 = arith.muli %arg0, %c8_i32 : i32
    %c0_i32 = arith.constant 0 : i32
    %c0_i32_0 = arith.constant 0 : i32
    return %0, %c0_i32 : i32, i32
  }
  func.func @transform_2(%arg0: i32, %arg1: i32) -> (i32, i32, i32) {
    %c0_i32 = arith.constant 0 : i32
    %c0_i32_0 = arith.constant 0 : i32
    return %arg0, %c0_i32, %arg1 : i32, i32, i32
  }
}
