module @kernel {
  func.func @kernel(%arg0: memref<2xi32, #tpu.memory_space<smem>>, %arg1: memref<8x128xf32, #tpu.memory_space<vmem>>, %arg2: memref<8x128xf32, #tpu.memory_space<vmem>>) attributes {dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>} {
    %c0 = arith.constant 0 : index
    %c0_0 = arith.constant 0 : index
    %0 = vector.load %arg1[%c0, %c0_0] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
    %c0_i32 = arith.constant 0 : i32
    %cst = arith.constant 0.000000e+00 : f32
    %1:3 = scf.while (%arg3 = %c0_i32, %arg4 = %cst, %arg5 = %0) : (i32, f32, vector<8x128xf32>) -> (i32, f32, vector<8x128xf32>) {
      %c0_4 = arith.constant 0 : index
      %8 = memref.load %arg0[%c0_4] : memref<2xi32, #tpu.memory_space<smem>>
      %9 = arith.cmpi slt, %arg3, %8 : i32
      %cst_5 = arith.constant 1.000000e+02 : f32
      %10 = arith.cmpf olt, %arg4, %cst_5 : f32
      %11 = arith.andi %9, %10 : i1
      scf.condition(%11) %arg3, %arg4, %arg5 : i32, f32, vector<8x128xf32>
    } do {
    ^bb0(%arg3: i32, %arg4: f32, %arg5: vector<8x128xf32>):
      %cst_4 = arith.constant 5.000000e-01 : f32
      %8 = vector.broadcast %cst_4 : f32 to vector<8x128xf32>
      %9 = arith.mulf %arg5, %8 : vector<8x128xf32>
      %cst_5 = arith.constant 1.000000e+00 : f32
      %10 = vector.broadcast %cst_5 : f32 to vector<8x128xf32>
      %11 = arith.addf %arg5, %10 : vector<8x128xf32>
      %12 = math.rsqrt %11 : vector<8x128xf32>
      %13 = arith.addf %9, %12 : vector<8x128xf32>
      %c1_i32 = arith.constant 1 : i32
      %14 = arith.addi %arg3, %c1_i32 : i32
      %cst_6 = arith.constant 1.500000e+00 : f32
      %15 = arith.addf %arg4, %cst_6 : f32
      scf.yield %14, %15, %13 : i32, f32, vector<8x128xf32>
    }
    %c1 = arith.constant 1 : index
    %2 = memref.load %arg0[%c1] : memref<2xi32, #tpu.memory_space<smem>>
    %c2_i32 = arith.constant 2 : i32
    %3 = arith.cmpi sgt, %2, %c2_i32 : i32
    %4 = arith.extui %3 : i1 to i32
    %c0_i32_1 = arith.constant 0 : i32
    %5 = arith.cmpi ne, %4, %c0_i32_1 : i32
    %6 = scf.if %5 -> (vector<8x128xf32>) {
      scf.yield %1#2 : vector<8x128xf32>
    } else {
      %cst_4 = arith.constant 0.000000e+00 : f32
      %8 = vector.broadcast %cst_4 : f32 to vector<8x128xf32>
      %9 = arith.subf %8, %1#2 : vector<8x128xf32>
      scf.yield %9 : vector<8x128xf32>
    }
    %c0_2 = arith.constant 0 : index
    %c0_3 = arith.constant 0 : index
    %7 = vector.load %arg2[%c0_2, %c0_3] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
    tpu.vector_store %arg2[%c0_2, %c0_3], %6 {strides = array<i32>} : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>, 
    return
  }
}
