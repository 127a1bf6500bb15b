"builtin.module"() ({
  "stable_mosaic.func.func"() ({
  ^bb0(%arg0: memref<8x128xf32, #tpu.memory_space<vmem>>, %arg1: memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>, %arg2: memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>):
    %0 = "stable_mosaic.arith.constant"() {value = 1 : i32} : () -> i32
    %1 = "stable_mosaic.arith.constant"() {value = true} : () -> i1
    %2 = "stable_mosaic.arith.constant"() {value = 1 : index} : () -> index
    %3 = "stable_mosaic.vector.load"(%arg0, %2, %2) : (memref<8x128xf32, #tpu.memory_space<vmem>>, index, index) -> vector<8x128xf32>
    %4 = "stable_mosaic.tpu.iota"() {dimensions = array<i32: 0>} : () -> vector<8x128xi32>
    "stable_mosaic.tpu.wait_dma2"(%arg1, %arg0, %arg0) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, strict_ordering = false} : (memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>, memref<8x128xf32, #tpu.memory_space<vmem>>, memref<8x128xf32, #tpu.memory_space<vmem>>) -> ()
    "stable_mosaic.tpu.enqueue_dma"(%arg0, %arg1, %arg0, %arg1, %0) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0, 0>, priority = 0 : i32, strict_ordering = false} : (memref<8x128xf32, #tpu.memory_space<vmem>>, memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>, memref<8x128xf32, #tpu.memory_space<vmem>>, memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>, i32) -> ()
    "stable_mosaic.tpu.sem_signal"(%arg2, %0, %0) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>} : (memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>, i32, i32) -> ()
    %5 = "stable_mosaic.tpu.sem_read"(%arg2) : (memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>) -> i32
    %6 = "stable_mosaic.tpu.device_id"() : () -> i32
    "stable_mosaic.tpu.delay"(%0) : (i32) -> ()
    "stable_mosaic.tpu.matmul_push_rhs"(%3) {mxu_index = 0 : i32, staging_register = 0 : i32, transpose = false} : (vector<8x128xf32>) -> ()
    "stable_mosaic.tpu.matmul_acc_lhs"(%3) {acc = 0 : i32, mxu_index = 0 : i32} : (vector<8x128xf32>) -> ()
    %7 = "stable_mosaic.tpu.matmul_pop"() {acc = 0 : i32, mxu_index = 0 : i32} : () -> vector<8x128xf32>
    %8 = "stable_mosaic.tpu.all_reduce"(%3) {dim = 0 : i64, kind = #tpu.reduction_kind<maxf>} : (vector<8x128xf32>) -> vector<8x128xf32>
    %9 = "stable_mosaic.vector.load"(%arg0, %2, %2) : (memref<8x128xf32, #tpu.memory_space<vmem>>, index, index) -> vector<1x128xf32>
    %10 = "stable_mosaic.vector.shape_cast"(%9) : (vector<1x128xf32>) -> vector<128xf32>
    %11 = "stable_mosaic.vector.reduction"(%10) {fastmath = #arith.fastmath<none>, kind = #vector.kind<add>} : (vector<128xf32>) -> f32
    %12 = "stable_mosaic.math.fma"(%3, %3, %3) {fastmath = #arith.fastmath<none>} : (vector<8x128xf32>, vector<8x128xf32>, vector<8x128xf32>) -> vector<8x128xf32>
    %13 = "stable_mosaic.vector.bitcast"(%3) : (vector<8x128xf32>) -> vector<8x128xi32>
    %14 = "stable_mosaic.arith.negf"(%3) {fastmath = #arith.fastmath<none>} : (vector<8x128xf32>) -> vector<8x128xf32>
    %15 = "stable_mosaic.arith.trunci"(%4) {overflowFlags = #arith.overflow<none>} : (vector<8x128xi32>) -> vector<8x128xi16>
    "stable_mosaic.cf.assert"(%1) {msg = "no"} : (i1) -> ()
    %16 = "stable_mosaic.tpu.broadcast_in_sublanes"(%3) {lane = 3 : i32} : (vector<8x128xf32>) -> vector<8x128xf32>
    %17 = "stable_mosaic.tpu.stochastic_convert"(%3, %4) : (vector<8x128xf32>, vector<8x128xi32>) -> vector<8x128xbf16>
    %18 = "stable_mosaic.tpu.dynamic_rotate"(%3, %0) {dimension = 1 : si32, stride = 1 : si32, stride_dimension = 0 : si32} : (vector<8x128xf32>, i32) -> vector<8x128xf32>
    %19 = "stable_mosaic.tpu.vector_load"(%arg0, %2, %2) {operandSegmentSizes = array<i32: 1, 2, 0>, strides = array<i32>} : (memref<8x128xf32, #tpu.memory_space<vmem>>, index, index) -> vector<8x128xf32>
    "stable_mosaic.tpu.strided_store"(%3, %arg0, %2, %2) {strides = array<i32: 1, 1>} : (vector<8x128xf32>, memref<8x128xf32, #tpu.memory_space<vmem>>, index, index) -> ()
    %20 = "stable_mosaic.tpu.pack_elementwise"(%3, %3) {target_type = bf16} : (vector<8x128xf32>, vector<8x128xf32>) -> vector<8x128xi32>
    %21 = "stable_mosaic.tpu.unpack_elementwise"(%20) {index = 1 : i32, source_type = bf16} : (vector<8x128xi32>) -> vector<8x128xf32>
    %22 = "stable_mosaic.tpu.assume_multiple"(%2) {multiple = 1 : i32} : (index) -> index
    "stable_mosaic.func.return"() : () -> ()
  }) {function_type = (memref<8x128xf32, #tpu.memory_space<vmem>>, memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>, memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>) -> (), sym_name = "f"} : () -> ()
}) {stable_mosaic.version = 18 : i64} : () -> ()
