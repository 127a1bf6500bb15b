module @kernel {
  func.func @kernel(%arg0: i32, %arg1: memref<1xi32, #tpu.memory_space<smem>>, %arg2: memref<32x128xf32, #tpu.memory_space<any>>, %arg3: memref<32x128xf32, #tpu.memory_space<any>>, %arg4: memref<2x8x128xf32, #tpu.memory_space<vmem>>, %arg5: memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) attributes {dimension_semantics = [#tpu.dimension_semantics<arbitrary>], iteration_bounds = array<i64: 1>, scalar_prefetch = 1 : i64, scratch_operands = 2 : i64, tpu.core_type = #tpu.core_type<tc>, window_params = [{}, {}]} {
    %c0 = arith.constant 0 : index
    %0 = memref.load %arg1[%c0] : memref<1xi32, #tpu.memory_space<smem>>
    %c0_i32 = arith.constant 0 : i32
    %1 = arith.subi %0, %c0_i32 : i32
    %2 = arith.addi %c0_i32, %1 : i32
    %c1_i32 = arith.constant 1 : i32
    scf.for %arg6 = %c0_i32 to %2 step %c1_i32  : i32 {
      %c2_i32 = arith.constant 2 : i32
      %3 = arith.remsi %arg6, %c2_i32 : i32
      %c8_i32 = arith.constant 8 : i32
      %4 = arith.muli %arg6, %c8_i32 : i32
      %5 = tpu.memref_slice %arg5[%3] : memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %6 = tpu.memref_squeeze %5 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %c0_i32_0 = arith.constant 0 : i32
      %c0_i32_1 = arith.constant 0 : i32
      %7 = tpu.memref_slice %arg4[%3, %c0_i32_0, %c0_i32_1] : memref<2x8x128xf32, #tpu.memory_space<vmem>> -> memref<1x8x128xf32, #tpu.memory_space<vmem>>
      %8 = tpu.memref_squeeze %7 : memref<1x8x128xf32, #tpu.memory_space<vmem>> -> memref<8x128xf32, #tpu.memory_space<vmem>>
      %c0_i32_2 = arith.constant 0 : i32
      %9 = tpu.memref_slice %arg2[%4, %c0_i32_2] : memref<32x128xf32, #tpu.memory_space<any>> -> memref<8x128xf32, #tpu.memory_space<any>>
      tpu.enqueue_dma source(%9 : memref<8x128xf32, #tpu.memory_space<any>>) target(%8 : memref<8x128xf32, #tpu.memory_space<vmem>>) target_semaphore(%6 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>)
      %c8_i32_3 = arith.constant 8 : i32
      %10 = arith.muli %arg6, %c8_i32_3 : i32
      %11 = tpu.memref_slice %arg5[%3] : memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %12 = tpu.memref_squeeze %11 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %c0_i32_4 = arith.constant 0 : i32
      %c0_i32_5 = arith.constant 0 : i32
      %13 = tpu.memref_slice %arg4[%3, %c0_i32_4, %c0_i32_5] : memref<2x8x128xf32, #tpu.memory_space<vmem>> -> memref<1x8x128xf32, #tpu.memory_space<vmem>>
      %14 = tpu.memref_squeeze %13 : memref<1x8x128xf32, #tpu.memory_space<vmem>> -> memref<8x128xf32, #tpu.memory_space<vmem>>
      %c0_i32_6 = arith.constant 0 : i32
      %15 = tpu.memref_slice %arg2[%10, %c0_i32_6] : memref<32x128xf32, #tpu.memory_space<any>> -> memref<8x128xf32, #tpu.memory_space<any>>
      tpu.wait_dma source(%15 : memref<8x128xf32, #tpu.memory_space<any>>) target(%14 : memref<8x128xf32, #tpu.memory_space<vmem>>) target_semaphore(%12 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) {wait_target = true}
      %16 = arith.index_cast %3 : i32 to index
      %c0_7 = arith.constant 0 : index
      %c0_8 = arith.constant 0 : index
      %17 = vector.load %arg4[%16, %c0_7, %c0_8] : memref<2x8x128xf32, #tpu.memory_space<vmem>>, vector<1x8x128xf32>
      %18 = vector.shape_cast %17 : vector<1x8x128xf32> to vector<8x128xf32>
      %cst = arith.constant 2.000000e+00 : f32
      %19 = vector.broadcast %cst : f32 to vector<8x128xf32>
      %20 = arith.mulf %18, %19 : vector<8x128xf32>
      %21 = arith.index_cast %3 : i32 to index
      %c0_9 = arith.constant 0 : index
      %c0_10 = arith.constant 0 : index
      %22 = vector.load %arg4[%21, %c0_9, %c0_10] : memref<2x8x128xf32, #tpu.memory_space<vmem>>, vector<1x8x128xf32>
      %23 = vector.shape_cast %22 : vector<1x8x128xf32> to vector<8x128xf32>
      %24 = vector.shape_cast %20 : vector<8x128xf32> to vector<1x8x128xf32>
      tpu.vector_store %arg4[%21, %c0_9, %c0_10], %24 {strides = array<i32>} : memref<2x8x128xf32, #tpu.memory_space<vmem>>, vector<1x8x128xf32>, 
      %c8_i32_11 = arith.constant 8 : i32
      %25 = arith.muli %arg6, %c8_i32_11 : i32
      %26 = tpu.memref_slice %arg5[%3] : memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %27 = tpu.memref_squeeze %26 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %c0_i32_12 = arith.constant 0 : i32
      %28 = tpu.memref_slice %arg3[%25, %c0_i32_12] : memref<32x128xf32, #tpu.memory_space<any>> -> memref<8x128xf32, #tpu.memory_space<any>>
      %c0_i32_13 = arith.constant 0 : i32
      %c0_i32_14 = arith.constant 0 : i32
      %29 = tpu.memref_slice %arg4[%3, %c0_i32_13, %c0_i32_14] : memref<2x8x128xf32, #tpu.memory_space<vmem>> -> memref<1x8x128xf32, #tpu.memory_space<vmem>>
      %30 = tpu.memref_squeeze %29 : memref<1x8x128xf32, #tpu.memory_space<vmem>> -> memref<8x128xf32, #tpu.memory_space<vmem>>
      tpu.enqueue_dma source(%30 : memref<8x128xf32, #tpu.memory_space<vmem>>) target(%28 : memref<8x128xf32, #tpu.memory_space<any>>) target_semaphore(%27 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>)
      %31 = tpu.memref_slice %arg5[%3] : memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %32 = tpu.memref_squeeze %31 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %c0_i32_15 = arith.constant 0 : i32
      %33 = tpu.memref_slice %arg3[%25, %c0_i32_15] : memref<32x128xf32, #tpu.memory_space<any>> -> memref<8x128xf32, #tpu.memory_space<any>>
      %c0_i32_16 = arith.constant 0 : i32
      %c0_i32_17 = arith.constant 0 : i32
      %34 = tpu.memref_slice %arg4[%3, %c0_i32_16, %c0_i32_17] : memref<2x8x128xf32, #tpu.memory_space<vmem>> -> memref<1x8x128xf32, #tpu.memory_space<vmem>>
      %35 = tpu.memref_squeeze %34 : memref<1x8x128xf32, #tpu.memory_space<vmem>> -> memref<8x128xf32, #tpu.memory_space<vmem>>
      tpu.wait_dma source(%35 : memref<8x128xf32, #tpu.memory_space<vmem>>) target(%33 : memref<8x128xf32, #tpu.memory_space<any>>) target_semaphore(%32 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) {wait_target = true}
    }
    return
  }
}
