"builtin.module"() ({
  "func.func"() <{function_type = (memref<8x128xf32, #tpu.memory_space<vmem>>, memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>, memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>) -> (), sym_name = "f"}> ({
  ^bb0(%arg0: memref<8x128xf32, #tpu.memory_space<vmem>>, %arg1: memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>, %arg2: memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>):
    %0 = "arith.constant"() <{value = 1 : i32}> : () -> i32
    %1 = "arith.constant"() <{value = true}> : () -> i1
    %2 = "arith.constant"() <{value = 1 : index}> : () -> index
    %3 = "vector.load"(%arg0, %2, %2) : (memref<8x128xf32, #tpu.memory_space<vmem>>, index, index) -> vector<8x128xf32>
    %4 = "tpu.iota"() <{dimensions = array<i32: 0>}> : () -> vector<8x128xi32>
    "tpu.wait_dma2"(%arg1, %arg0, %arg0) <{operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, strict_ordering = false}> : (memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>, memref<8x128xf32, #tpu.memory_space<vmem>>, memref<8x128xf32, #tpu.memory_space<vmem>>) -> ()
    "tpu.enqueue_dma"(%arg0, %arg1, %arg0, %arg1, %0) <{operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0, 0>, priority = 0 : i32, strict_ordering = false}> : (memref<8x128xf32, #tpu.memory_space<vmem>>, memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>, memref<8x128xf32, #tpu.memory_space<vmem>>, memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>, i32) -> ()
    "tpu.sem_signal"(%arg2, %0, %0) <{operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>}> : (memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>, i32, i32) -> ()
    %5 = "tpu.sem_read"(%arg2) : (memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>) -> i32
    %6 = "tpu.device_id"() : () -> i32
    "tpu.delay"(%0) : (i32) -> ()
    "tpu.matmul_push_rhs"(%3) <{mxu_index = 0 : i32, staging_register = 0 : i32, transpose = false}> : (vector<8x128xf32>) -> ()
    "tpu.matmul_acc_lhs"(%3) <{acc = 0 : i32, mxu_index = 0 : i32}> : (vector<8x128xf32>) -> ()
    %7 = "tpu.matmul_pop"() <{acc = 0 : i32, mxu_index = 0 : i32}> : () -> vector<8x128xf32>
    %8 = "tpu.all_reduce"(%3) <{dim = 0 : i64, kind = #tpu.reduction_kind<maxf>}> : (vector<8x128xf32>) -> vector<8x128xf32>
    %9 = "vector.load"(%arg0, %2, %2) : (memref<8x128xf32, #tpu.memory_space<vmem>>, index, index) -> vector<1x128xf32>
    %10 = "vector.shape_cast"(%9) : (vector<1x128xf32>) -> vector<128xf32>
    %11 = "vector.reduction"(%10) <{fastmath = #arith.fastmath<none>, kind = #vector.kind<add>}> : (vector<128xf32>) -> f32
    %12 = "math.fma"(%3, %3, %3) <{fastmath = #arith.fastmath<none>}> : (vector<8x128xf32>, vector<8x128xf32>, vector<8x128xf32>) -> vector<8x128xf32>
    %13 = "vector.bitcast"(%3) : (vector<8x128xf32>) -> vector<8x128xi32>
    %14 = "arith.negf"(%3) <{fastmath = #arith.fastmath<none>}> : (vector<8x128xf32>) -> vector<8x128xf32>
    %15 = "arith.trunci"(%4) <{overflowFlags = #arith.overflow<none>}> : (vector<8x128xi32>) -> vector<8x128xi16>
    "cf.assert"(%1) <{msg = "no"}> : (i1) -> ()
    %16 = "tpu.broadcast_in_sublanes"(%3) <{lane = 3 : i32}> : (vector<8x128xf32>) -> vector<8x128xf32>
    %17 = "tpu.stochastic_convert"(%3, %4) : (vector<8x128xf32>, vector<8x128xi32>) -> vector<8x128xbf16>
    %18 = "tpu.dynamic_rotate"(%3, %0) <{dimension = 1 : si32, stride = 1 : si32, stride_dimension = 0 : si32}> : (vector<8x128xf32>, i32) -> vector<8x128xf32>
    %19 = "tpu.vector_load"(%arg0, %2, %2) <{operandSegmentSizes = array<i32: 1, 2, 0>, strides = array<i32>}> : (memref<8x128xf32, #tpu.memory_space<vmem>>, index, index) -> vector<8x128xf32>
    "tpu.strided_store"(%3, %arg0, %2, %2) <{strides = array<i32: 1, 1>}> : (vector<8x128xf32>, memref<8x128xf32, #tpu.memory_space<vmem>>, index, index) -> ()
    %20 = "tpu.pack_elementwise"(%3, %3) <{target_type = bf16}> : (vector<8x128xf32>, vector<8x128xf32>) -> vector<8x128xi32>
    %21 = "tpu.unpack_elementwise"(%20) <{index = 1 : i32, source_type = bf16}> : (vector<8x128xi32>) -> vector<8x128xf32>
    %22 = "tpu.assume_multiple"(%2) <{multiple = 1 : i32}> : (index) -> index
    "func.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
