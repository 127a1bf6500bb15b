module @kernel {
  func.func @kernel(%arg0: memref<1xi32, #tpu.memory_space<smem>>, %arg1: memref<8x256xf32, #tpu.memory_space<vmem>>, %arg2: memref<8x128xi32, #tpu.memory_space<vmem>>, %arg3: memref<32x128xf8E4M3FN, #tpu.memory_space<vmem>>, %arg4: memref<8x256xf32, #tpu.memory_space<vmem>>, %arg5: memref<32x128xbf16, #tpu.memory_space<vmem>>, %arg6: memref<3xf32, #tpu.memory_space<smem>>, %arg7: memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>) attributes {dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 1 : i64, tpu.core_type = #tpu.core_type<tc>} {
    %c0 = arith.constant 0 : index
    %c0_0 = arith.constant 0 : index
    %0 = vector.load %arg1[%c0, %c0_0] : memref<8x256xf32, #tpu.memory_space<vmem>>, vector<8x256xf32>
    %1 = tpu.iota {dimensions = array<i32: 0>} : vector<8x256xi32>
    %c0_1 = arith.constant 0 : index
    %2 = memref.load %arg0[%c0_1] : memref<1xi32, #tpu.memory_space<smem>>
    %3 = vector.broadcast %2 : i32 to vector<8x256xi32>
    %4 = arith.cmpi slt, %1, %3 : vector<8x256xi32>
    %c0_2 = arith.constant 0 : index
    %c0_3 = arith.constant 0 : index
    %5 = vector.load %arg4[%c0_2, %c0_3] : memref<8x256xf32, #tpu.memory_space<vmem>>, vector<8x256xf32>
    %6 = vector.shape_cast %5 : vector<8x256xf32> to vector<8x256xf32>
    %7 = vector.shape_cast %0 : vector<8x256xf32> to vector<8x256xf32>
    %8 = vector.shape_cast %4 : vector<8x256xi1> to vector<8x256xi1>
    tpu.vector_store %arg4[%c0_2, %c0_3], %7 masked %8 {strides = array<i32>} : memref<8x256xf32, #tpu.memory_space<vmem>>, vector<8x256xf32>, vector<8x256xi1>
    %9 = vector.extract_strided_slice %0 offsets = [0, 0], sizes = [8, 128], strides = [1, 1] : vector<8x256xf32> to vector<8x128xf32>
    %10 = tpu.reciprocal %9 {approx = true} : vector<8x128xf32> -> vector<8x128xf32>
    %c0_4 = arith.constant 0 : index
    %c0_5 = arith.constant 0 : index
    %11 = vector.load %arg4[%c0_4, %c0_5] : memref<8x256xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
    tpu.vector_store %arg4[%c0_4, %c0_5], %10 {strides = array<i32>} : memref<8x256xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>, 
    %12 = vector.extract_strided_slice %0 offsets = [0, 0], sizes = [8, 128], strides = [1, 1] : vector<8x256xf32> to vector<8x128xf32>
    %c0_6 = arith.constant 0 : index
    %c0_7 = arith.constant 0 : index
    %13 = vector.load %arg2[%c0_6, %c0_7] : memref<8x128xi32, #tpu.memory_space<vmem>>, vector<8x128xi32>
    %c0_i32 = arith.constant 0 : i32
    %14 = vector.broadcast %c0_i32 : i32 to vector<8x128xi32>
    %15 = arith.cmpi slt, %13, %14 : vector<8x128xi32>
    %c128_i32 = arith.constant 128 : i32
    %16 = vector.broadcast %c128_i32 : i32 to vector<8x128xi32>
    %17 = arith.addi %13, %16 : vector<8x128xi32>
    %18 = arith.select %15, %17, %13 : vector<8x128xi1>, vector<8x128xi32>
    %19 = vector.shape_cast %18 : vector<8x128xi32> to vector<8x128x1xi32>
    %20 = vector.shape_cast %19 : vector<8x128x1xi32> to vector<8x128xi32>
    %21 = tpu.dynamic_gather %12[%20] in [1] : vector<8x128xf32>, vector<8x128xi32> -> vector<8x128xf32>
    %c0_8 = arith.constant 0 : index
    %c128 = arith.constant 128 : index
    %22 = vector.load %arg4[%c0_8, %c128] : memref<8x256xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
    tpu.vector_store %arg4[%c0_8, %c128], %21 {strides = array<i32>} : memref<8x256xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>, 
    %c0_9 = arith.constant 0 : index
    %c0_10 = arith.constant 0 : index
    %23 = tpu.strided_load %arg2[%c0_9, %c0_10] {strides = array<i32: 2, 1>} : memref<8x128xi32, #tpu.memory_space<vmem>>, vector<4x128xi32>
    %24 = arith.sitofp %23 : vector<4x128xi32> to vector<4x128xf32>
    %25 = vector.shape_cast %24 : vector<4x128xf32> to vector<1x4x128xf32>
    %cst = arith.constant dense<0.000000e+00> : vector<1xf32>
    %26 = vector.multi_reduction <add>, %25, %cst [1, 2] : vector<1x4x128xf32> to vector<1xf32>
    %27 = vector.shape_cast %26 : vector<1xf32> to vector<1x1x1xf32>
    %28 = vector.extract %27[0, 0, 0] : f32 from vector<1x1x1xf32>
    %c0_11 = arith.constant 0 : index
    %29 = memref.load %arg6[%c0_11] : memref<3xf32, #tpu.memory_space<smem>>
    memref.store %28, %arg6[%c0_11] : memref<3xf32, #tpu.memory_space<smem>>
    %cst_12 = arith.constant 1.000000e+00 : f32
    %30 = vector.broadcast %cst_12 : f32 to vector<8x256xf32>
    %31 = arith.cmpf ogt, %0, %30 : vector<8x256xf32>
    %cst_13 = arith.constant 1.000000e+00 : f32
    %cst_14 = arith.constant 0.000000e+00 : f32
    %32 = vector.broadcast %cst_13 : f32 to vector<8x256xf32>
    %33 = vector.broadcast %cst_14 : f32 to vector<8x256xf32>
    %34 = arith.select %31, %32, %33 : vector<8x256xi1>, vector<8x256xf32>
    %35 = vector.shape_cast %34 : vector<8x256xf32> to vector<1x8x256xf32>
    %cst_15 = arith.constant dense<0xFF800000> : vector<1xf32>
    %36 = vector.multi_reduction <maximumf>, %35, %cst_15 [1, 2] : vector<1x8x256xf32> to vector<1xf32>
    %37 = vector.shape_cast %36 : vector<1xf32> to vector<1x1x1xf32>
    %38 = vector.extract %37[0, 0, 0] : f32 from vector<1x1x1xf32>
    %cst_16 = arith.constant 0.000000e+00 : f32
    %39 = arith.cmpf ogt, %38, %cst_16 : f32
    %40 = vector.shape_cast %0 : vector<8x256xf32> to vector<1x8x256xf32>
    %cst_17 = arith.constant dense<0xFF800000> : vector<1xf32>
    %41 = vector.multi_reduction <maximumf>, %40, %cst_17 [1, 2] : vector<1x8x256xf32> to vector<1xf32>
    %42 = vector.shape_cast %41 : vector<1xf32> to vector<1x1x1xf32>
    %43 = vector.extract %42[0, 0, 0] : f32 from vector<1x1x1xf32>
    %44 = vector.shape_cast %0 : vector<8x256xf32> to vector<1x8x256xf32>
    %cst_18 = arith.constant dense<0x7F800000> : vector<1xf32>
    %45 = vector.multi_reduction <minimumf>, %44, %cst_18 [1, 2] : vector<1x8x256xf32> to vector<1xf32>
    %46 = vector.shape_cast %45 : vector<1xf32> to vector<1x1x1xf32>
    %47 = vector.extract %46[0, 0, 0] : f32 from vector<1x1x1xf32>
    %48 = arith.select %39, %43, %47 : f32
    %c1 = arith.constant 1 : index
    %49 = memref.load %arg6[%c1] : memref<3xf32, #tpu.memory_space<smem>>
    memref.store %48, %arg6[%c1] : memref<3xf32, #tpu.memory_space<smem>>
    %c0_19 = arith.constant 0 : index
    %50 = memref.load %arg0[%c0_19] : memref<1xi32, #tpu.memory_space<smem>>
    %51 = arith.sitofp %50 : i32 to f32
    %c2 = arith.constant 2 : index
    %52 = memref.load %arg6[%c2] : memref<3xf32, #tpu.memory_space<smem>>
    memref.store %51, %arg6[%c2] : memref<3xf32, #tpu.memory_space<smem>>
    %c0_20 = arith.constant 0 : index
    %c0_21 = arith.constant 0 : index
    %53 = vector.load %arg3[%c0_20, %c0_21] : memref<32x128xf8E4M3FN, #tpu.memory_space<vmem>>, vector<32x128xf8E4M3FN>
    %54 = arith.extf %53 : vector<32x128xf8E4M3FN> to vector<32x128xf32>
    %cst_22 = arith.constant 0.333333343 : f32
    %55 = vector.broadcast %cst_22 : f32 to vector<32x128xf32>
    %56 = arith.mulf %54, %55 : vector<32x128xf32>
    %57 = arith.truncf %56 : vector<32x128xf32> to vector<32x128xbf16>
    %cst_23 = arith.constant 1.500000e+00 : bf16
    %58 = vector.broadcast %cst_23 : bf16 to vector<32x128xbf16>
    %59 = arith.addf %57, %58 : vector<32x128xbf16>
    %c0_24 = arith.constant 0 : index
    %c0_25 = arith.constant 0 : index
    %60 = vector.load %arg5[%c0_24, %c0_25] : memref<32x128xbf16, #tpu.memory_space<vmem>>, vector<32x128xbf16>
    tpu.vector_store %arg5[%c0_24, %c0_25], %59 {strides = array<i32>} : memref<32x128xbf16, #tpu.memory_space<vmem>>, vector<32x128xbf16>, 
    %c1_i32 = arith.constant 1 : i32
    tpu.sem_signal %arg7, %c1_i32 : memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>
    %c1_i32_26 = arith.constant 1 : i32
    %true = arith.constant true
    tpu.sem_wait %arg7, %c1_i32_26 : memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>
    %cst_27 = arith.constant -3.000000e+00 : f32
    %cst_28 = arith.constant 3.000000e+00 : f32
    %61 = vector.broadcast %cst_27 : f32 to vector<8x256xf32>
    %62 = arith.maximumf %61, %0 : vector<8x256xf32>
    %63 = vector.broadcast %cst_28 : f32 to vector<8x256xf32>
    %64 = arith.minimumf %63, %62 : vector<8x256xf32>
    %65 = arith.fptosi %64 : vector<8x256xf32> to vector<8x256xi32>
    %66 = math.absi %65 : vector<8x256xi32>
    %67 = math.ctpop %66 : vector<8x256xi32>
    %68 = arith.trunci %67 : vector<8x256xi32> to vector<8x256xi8>
    %69 = math.absi %65 : vector<8x256xi32>
    %70 = arith.extui %68 : vector<8x256xi8> to vector<8x256xi32>
    %71 = arith.addi %70, %69 : vector<8x256xi32>
    %72 = math.ctpop %65 : vector<8x256xi32>
    %73 = arith.addi %71, %72 : vector<8x256xi32>
    %c0_29 = arith.constant 0 : index
    %c0_30 = arith.constant 0 : index
    %74 = vector.load %arg5[%c0_29, %c0_30] : memref<32x128xbf16, #tpu.memory_space<vmem>>, vector<8x128xbf16>
    %75 = vector.shape_cast %74 : vector<8x128xbf16> to vector<8x128xbf16>
    %76 = arith.sitofp %73 : vector<8x256xi32> to vector<8x256xf32>
    %77 = math.sqrt %76 : vector<8x256xf32>
    %78 = math.floor %77 : vector<8x256xf32>
    %79 = arith.truncf %78 : vector<8x256xf32> to vector<8x256xbf16>
    %80 = vector.extract_strided_slice %79 offsets = [0, 0], sizes = [8, 128], strides = [1, 1] : vector<8x256xbf16> to vector<8x128xbf16>
    %81 = arith.addf %75, %80 : vector<8x128xbf16>
    %c0_31 = arith.constant 0 : index
    %c0_32 = arith.constant 0 : index
    %82 = vector.load %arg5[%c0_31, %c0_32] : memref<32x128xbf16, #tpu.memory_space<vmem>>, vector<8x128xbf16>
    tpu.vector_store %arg5[%c0_31, %c0_32], %81 {strides = array<i32>} : memref<32x128xbf16, #tpu.memory_space<vmem>>, vector<8x128xbf16>, 
    %c0_33 = arith.constant 0 : index
    %83 = memref.load %arg0[%c0_33] : memref<1xi32, #tpu.memory_space<smem>>
    %c0_i32_34 = arith.constant 0 : i32
    %84 = arith.cmpi sgt, %83, %c0_i32_34 : i32
    %true_35 = arith.constant true
    %85 = arith.xori %84, %true_35 : i1
    %c0_i32_36 = arith.constant 0 : i32
    return
  }
}
