// picked[0, j] = x[labels[0, j], j], by a native gather along sublanes: TPU v4 has none.
"builtin.module"() ({
  "func.func"() ({
  ^bb0(%x: memref<8x128xf32, #tpu.memory_space<vmem>>, %labels: memref<1x128xi32, #tpu.memory_space<vmem>>, %picked: memref<1x128xf32, #tpu.memory_space<vmem>>):
    %zero = "arith.constant"() {value = 0 : index} : () -> index
    %tile = "vector.load"(%x, %zero, %zero) : (memref<8x128xf32, #tpu.memory_space<vmem>>, index, index) -> vector<8x128xf32>
    %row = "vector.load"(%labels, %zero, %zero) : (memref<1x128xi32, #tpu.memory_space<vmem>>, index, index) -> vector<1x128xi32>
    %rows = "vector.broadcast"(%row) : (vector<1x128xi32>) -> vector<8x128xi32>
    %gathered = "tpu.dynamic_gather"(%tile, %rows) {dimensions = array<i32: 0>} : (vector<8x128xf32>, vector<8x128xi32>) -> vector<8x128xf32>
    %result = "vector.extract_strided_slice"(%gathered) {offsets = [0, 0], sizes = [1, 128], strides = [1, 1]} : (vector<8x128xf32>) -> vector<1x128xf32>
    "tpu.vector_store"(%result, %picked, %zero, %zero) {add = false, operandSegmentSizes = array<i32: 1, 1, 2, 0>, strides = array<i32>} : (vector<1x128xf32>, memref<1x128xf32, #tpu.memory_space<vmem>>, index, index) -> ()
    "func.return"() : () -> ()
  }) {function_type = (memref<8x128xf32, #tpu.memory_space<vmem>>, memref<1x128xi32, #tpu.memory_space<vmem>>, memref<1x128xf32, #tpu.memory_space<vmem>>) -> (), sym_name = "gather", tpu.core_type = #tpu.core_type<tc>} : () -> ()
}) {sym_name = "gather"} : () -> ()
