module {
  func.func @f(%arg0: memref<8x128xf32, #tpu.memory_space<vmem>>, %arg1: memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>, %arg2: memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>) {
    %c1_i32 = arith.constant 1 : i32
    %true = arith.constant true
    %c1 = arith.constant 1 : index
    %0 = vector.load %arg0[%c1, %c1] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
    %1 = tpu.iota {dimensions = array<i32: 0>} : vector<8x128xi32>
    tpu.wait_dma2 semaphore(%arg1 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%arg0 : memref<8x128xf32, #tpu.memory_space<vmem>>) dst(%arg0 : memref<8x128xf32, #tpu.memory_space<vmem>>)
    tpu.enqueue_dma source(%arg0 : memref<8x128xf32, #tpu.memory_space<vmem>>) target(%arg0 : memref<8x128xf32, #tpu.memory_space<vmem>>) source_semaphore(%arg1 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) target_semaphore(%arg1 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) device_id(%c1_i32)
    tpu.sem_signal %arg2, %c1_i32 device_id %c1_i32 : memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>
    %2 = tpu.sem_read %arg2 : memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>> -> i32
    %3 = tpu.device_id : i32
    tpu.delay %c1_i32
    tpu.matmul_push_rhs %0 {mxu_index = 0 : i32} : vector<8x128xf32>
    tpu.matmul_acc_lhs 0, %0 {mxu_index = 0 : i32} : vector<8x128xf32>
    %4 = tpu.matmul_pop 0 {mxu_index = 0 : i32} : vector<8x128xf32>
    %5 = tpu.all_reduce %0 {dim = 0 : i64, kind = #tpu.reduction_kind<maxf>} : vector<8x128xf32> -> vector<8x128xf32>
    %6 = vector.load %arg0[%c1, %c1] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<1x128xf32>
    %7 = vector.shape_cast %6 : vector<1x128xf32> to vector<128xf32>
    %8 = vector.reduction <add>, %7 : vector<128xf32> into f32
    %9 = math.fma %0, %0, %0 : vector<8x128xf32>
    %10 = vector.bitcast %0 : vector<8x128xf32> to vector<8x128xi32>
    %11 = arith.negf %0 : vector<8x128xf32>
    %12 = arith.trunci %1 : vector<8x128xi32> to vector<8x128xi16>
    cf.assert %true, "no"
    %13 = tpu.broadcast_in_sublanes %0, 3 : vector<8x128xf32> -> vector<8x128xf32>
    %14 = tpu.stochastic_convert %0, %1 : vector<8x128xf32>, vector<8x128xi32> -> vector<8x128xbf16>
    %15 = tpu.dynamic_rotate %0 by %c1_i32 dim 1 {stride = 1 : si32, stride_dimension = 0 : si32} : vector<8x128xf32>, i32 -> vector<8x128xf32>
    %16 = tpu.vector_load %arg0[%c1, %c1] {strides = array<i32>} : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>, 
    tpu.strided_store %arg0[%c1, %c1], %0 {strides = array<i32: 1, 1>} : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
    %17 = tpu.pack_elementwise %0, %0 {target_type = bf16} : vector<8x128xf32>, vector<8x128xf32> -> vector<8x128xi32>
    %18 = tpu.unpack_elementwise %17, 1 {source_type = bf16} : vector<8x128xi32> -> vector<8x128xf32>
    %19 = tpu.assume_multiple %c1, 1 : index
    return
  }
}
