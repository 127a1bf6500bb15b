// Operations that the kernels of own_kernels.py do not show, in the generic form; `mosaic_tool.py
// data` writes the other forms to data/forms.*.
"builtin.module"() ({
  "func.func"() ({
  ^bb0(%x: memref<8x128xf32, #tpu.memory_space<vmem>>, %s: memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>, %r: memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>):
    %z = "arith.constant"() {value = 1 : i32} : () -> i32
    %t = "arith.constant"() {value = true} : () -> i1
    %c = "arith.constant"() {value = 1 : index} : () -> index
    %v = "vector.load"(%x, %c, %c) : (memref<8x128xf32, #tpu.memory_space<vmem>>, index, index) -> vector<8x128xf32>
    %i = "tpu.iota"() {dimensions = array<i32: 0>} : () -> vector<8x128xi32>
    "tpu.wait_dma2"(%s, %x, %x) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>} : (memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>, memref<8x128xf32, #tpu.memory_space<vmem>>, memref<8x128xf32, #tpu.memory_space<vmem>>) -> ()
    "tpu.enqueue_dma"(%x, %s, %x, %s, %z) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0, 0>} : (memref<8x128xf32, #tpu.memory_space<vmem>>, memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>, memref<8x128xf32, #tpu.memory_space<vmem>>, memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>, i32) -> ()
    "tpu.sem_signal"(%r, %z, %z) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>} : (memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>, i32, i32) -> ()
    %rd = "tpu.sem_read"(%r) : (memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>) -> i32
    %d = "tpu.device_id"() : () -> i32
    "tpu.delay"(%z) : (i32) -> ()
    "tpu.matmul_push_rhs"(%v) {mxu_index = 0 : i32} : (vector<8x128xf32>) -> ()
    "tpu.matmul_acc_lhs"(%v) {mxu_index = 0 : i32, acc = 0 : i32} : (vector<8x128xf32>) -> ()
    %p = "tpu.matmul_pop"() {mxu_index = 0 : i32, acc = 0 : i32} : () -> vector<8x128xf32>
    %a = "tpu.all_reduce"(%v) {dim = 0 : i64, kind = #tpu.reduction_kind<maxf>} : (vector<8x128xf32>) -> vector<8x128xf32>
    %v8 = "vector.load"(%x, %c, %c) : (memref<8x128xf32, #tpu.memory_space<vmem>>, index, index) -> vector<1x128xf32>
    %q = "vector.shape_cast"(%v8) : (vector<1x128xf32>) -> vector<128xf32>
    %e = "vector.reduction"(%q) {kind = #vector.kind<add>} : (vector<128xf32>) -> f32
    %f = "math.fma"(%v, %v, %v) : (vector<8x128xf32>, vector<8x128xf32>, vector<8x128xf32>) -> vector<8x128xf32>
    %b = "vector.bitcast"(%v) : (vector<8x128xf32>) -> vector<8x128xi32>
    %n = "arith.negf"(%v) : (vector<8x128xf32>) -> vector<8x128xf32>
    %tr = "arith.trunci"(%i) : (vector<8x128xi32>) -> vector<8x128xi16>
    "cf.assert"(%t) {msg = "no"} : (i1) -> ()
    %u = "tpu.broadcast_in_sublanes"(%v) {lane = 3 : i32} : (vector<8x128xf32>) -> vector<8x128xf32>
    %st = "tpu.stochastic_convert"(%v, %i) : (vector<8x128xf32>, vector<8x128xi32>) -> vector<8x128xbf16>
    %dr = "tpu.dynamic_rotate"(%v, %z) {dimension = 1 : si32, stride = 1 : si32, stride_dimension = 0 : si32} : (vector<8x128xf32>, i32) -> vector<8x128xf32>
    %vl = "tpu.vector_load"(%x, %c, %c) {strides = array<i32>, operandSegmentSizes = array<i32: 1, 2, 0>} : (memref<8x128xf32, #tpu.memory_space<vmem>>, index, index) -> vector<8x128xf32>
    "tpu.strided_store"(%v, %x, %c, %c) {strides = array<i32: 1, 1>} : (vector<8x128xf32>, memref<8x128xf32, #tpu.memory_space<vmem>>, index, index) -> ()
    %pk = "tpu.pack_elementwise"(%v, %v) {target_type = bf16} : (vector<8x128xf32>, vector<8x128xf32>) -> vector<8x128xi32>
    %un = "tpu.unpack_elementwise"(%pk) {index = 1 : i32, source_type = bf16} : (vector<8x128xi32>) -> vector<8x128xf32>
    %am = "tpu.assume_multiple"(%c) {multiple = 1 : i32} : (index) -> index
    "func.return"() : () -> ()
  }) {function_type = (memref<8x128xf32, #tpu.memory_space<vmem>>, memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>, memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>) -> (), sym_name = "f"} : () -> ()
}) : () -> ()
