module @kernel {
  func.func @kernel(%arg0: memref<8x256xf32, #tpu.memory_space<vmem>>, %arg1: memref<1xi32, #tpu.memory_space<smem>>, %arg2: memref<8x256xf32, #tpu.memory_space<vmem>>, %arg3: memref<256x8xi32, #tpu.memory_space<vmem>>) attributes {dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>} {
    %c0 = arith.constant 0 : index
    %c0_0 = arith.constant 0 : index
    %0 = vector.load %arg0[%c0, %c0_0] : memref<8x256xf32, #tpu.memory_space<vmem>>, vector<8x256xf32>
    %1 = vector.extract_strided_slice %0 offsets = [0, 128], sizes = [8, 128], strides = [1, 1] : vector<8x256xf32> to vector<8x128xf32>
    %2 = vector.extract_strided_slice %0 offsets = [0, 0], sizes = [8, 128], strides = [1, 1] : vector<8x256xf32> to vector<8x128xf32>
    %3 = tpu.concatenate %1, %2 in 1 : vector<8x128xf32>, vector<8x128xf32> -> vector<8x256xf32>
    %c1_i32 = arith.constant 1 : i32
    %4 = tpu.dynamic_rotate %3 by %c1_i32 dim 1 : vector<8x256xf32>, i32 -> vector<8x256xf32>
    %c3_i32 = arith.constant 3 : i32
    %5 = tpu.dynamic_rotate %3 by %c3_i32 dim 0 : vector<8x256xf32>, i32 -> vector<8x256xf32>
    %6 = arith.addf %4, %5 : vector<8x256xf32>
    %cst = arith.constant 5.000000e-01 : f32
    %7 = vector.broadcast %cst : f32 to vector<8x256xf32>
    %8 = arith.cmpf ogt, %0, %7 : vector<8x256xf32>
    %cst_1 = arith.constant -5.000000e-01 : f32
    %9 = vector.broadcast %cst_1 : f32 to vector<8x256xf32>
    %10 = arith.cmpf olt, %3, %9 : vector<8x256xf32>
    %11 = arith.ori %8, %10 : vector<8x256xi1>
    %cst_2 = arith.constant 0.000000e+00 : f32
    %12 = vector.broadcast %cst_2 : f32 to vector<8x256xf32>
    %13 = arith.subf %12, %0 : vector<8x256xf32>
    %14 = arith.select %11, %6, %13 : vector<8x256xi1>, vector<8x256xf32>
    %cst_3 = arith.constant dense<0xFF800000> : vector<256xf32>
    %15 = vector.multi_reduction <maximumf>, %3, %cst_3 [0] : vector<8x256xf32> to vector<256xf32>
    %16 = vector.shape_cast %15 : vector<256xf32> to vector<1x256xf32>
    %17 = vector.broadcast %16 : vector<1x256xf32> to vector<8x256xf32>
    %18 = arith.addf %14, %17 : vector<8x256xf32>
    %c0_4 = arith.constant 0 : index
    %c0_5 = arith.constant 0 : index
    %19 = vector.load %arg2[%c0_4, %c0_5] : memref<8x256xf32, #tpu.memory_space<vmem>>, vector<8x256xf32>
    tpu.vector_store %arg2[%c0_4, %c0_5], %18 {strides = array<i32>} : memref<8x256xf32, #tpu.memory_space<vmem>>, vector<8x256xf32>, 
    %20 = tpu.bitcast %0 : vector<8x256xf32> -> vector<8x256xi32>
    %c3_i32_6 = arith.constant 3 : i32
    %21 = vector.broadcast %c3_i32_6 : i32 to vector<8x256xi32>
    %22 = arith.shrsi %20, %21 : vector<8x256xi32>
    %c7_i32 = arith.constant 7 : i32
    %23 = vector.broadcast %c7_i32 : i32 to vector<8x256xi32>
    %24 = arith.andi %22, %23 : vector<8x256xi32>
    %c3_i32_7 = arith.constant 3 : i32
    %c0_i32 = arith.constant 0 : i32
    %25 = arith.cmpi eq, %c3_i32_7, %c0_i32 : i32
    %c1_i32_8 = arith.constant 1 : i32
    %26 = arith.select %25, %c1_i32_8, %c3_i32_7 : i32
    %27 = vector.broadcast %26 : i32 to vector<8x256xi32>
    %28 = arith.remsi %24, %27 : vector<8x256xi32>
    %c0_i32_9 = arith.constant 0 : i32
    %29 = vector.broadcast %c0_i32_9 : i32 to vector<8x256xi32>
    %30 = arith.cmpi ne, %28, %29 : vector<8x256xi32>
    %c0_i32_10 = arith.constant 0 : i32
    %31 = vector.broadcast %c0_i32_10 : i32 to vector<8x256xi32>
    %32 = arith.cmpi slt, %28, %31 : vector<8x256xi32>
    %c0_i32_11 = arith.constant 0 : i32
    %33 = arith.cmpi slt, %26, %c0_i32_11 : i32
    %34 = vector.broadcast %33 : i1 to vector<8x256xi1>
    %35 = vector.broadcast %34 : vector<8x256xi1> to vector<8x256xi1>
    %36 = arith.xori %32, %35 : vector<8x256xi1>
    %37 = arith.andi %36, %30 : vector<8x256xi1>
    %38 = vector.broadcast %26 : i32 to vector<8x256xi32>
    %39 = arith.addi %28, %38 : vector<8x256xi32>
    %40 = arith.select %37, %39, %28 : vector<8x256xi1>, vector<8x256xi32>
    %c1_i32_12 = arith.constant 1 : i32
    %41 = vector.broadcast %c1_i32_12 : i32 to vector<8x256xi32>
    %42 = arith.cmpi eq, %40, %41 : vector<8x256xi32>
    %c0_13 = arith.constant 0 : index
    %43 = memref.load %arg1[%c0_13] : memref<1xi32, #tpu.memory_space<smem>>
    %44 = vector.broadcast %43 : i32 to vector<8x256xi32>
    %45 = arith.muli %24, %44 : vector<8x256xi32>
    %c5_i32 = arith.constant 5 : i32
    %46 = vector.broadcast %c5_i32 : i32 to vector<8x256xi32>
    %47 = arith.xori %24, %46 : vector<8x256xi32>
    %48 = arith.select %42, %45, %47 : vector<8x256xi1>, vector<8x256xi32>
    %49 = tpu.transpose %48, [1, 0] : vector<8x256xi32> -> vector<256x8xi32>
    %50 = tpu.reduce_index %0 {axis = 1 : i32, kind = #tpu.reduction_kind<arg_max>} : vector<8x256xf32> -> vector<8xi32>
    %51 = vector.shape_cast %50 : vector<8xi32> to vector<1x8xi32>
    %52 = vector.broadcast %51 : vector<1x8xi32> to vector<256x8xi32>
    %53 = arith.addi %49, %52 : vector<256x8xi32>
    %c0_14 = arith.constant 0 : index
    %c0_15 = arith.constant 0 : index
    %54 = vector.load %arg3[%c0_14, %c0_15] : memref<256x8xi32, #tpu.memory_space<vmem>>, vector<256x8xi32>
    tpu.vector_store %arg3[%c0_14, %c0_15], %53 {strides = array<i32>} : memref<256x8xi32, #tpu.memory_space<vmem>>, vector<256x8xi32>, 
    return
  }
}
