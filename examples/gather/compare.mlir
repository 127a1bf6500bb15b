// picked[0, j] = x[labels[0, j], j], by comparing an iota with the labels: every generation compiles it.
"builtin.module"() ({
  "func.func"() ({
  ^bb0(%x: memref<8x128xf32, #tpu.memory_space<vmem>>, %labels: memref<1x128xi32, #tpu.memory_space<vmem>>, %picked: memref<1x128xf32, #tpu.memory_space<vmem>>):
    %zero = "arith.constant"() {value = 0 : index} : () -> index
    %tile = "vector.load"(%x, %zero, %zero) : (memref<8x128xf32, #tpu.memory_space<vmem>>, index, index) -> vector<8x128xf32>
    %row = "vector.load"(%labels, %zero, %zero) : (memref<1x128xi32, #tpu.memory_space<vmem>>, index, index) -> vector<1x128xi32>
    %rows = "vector.broadcast"(%row) : (vector<1x128xi32>) -> vector<8x128xi32>
    %iota = "tpu.iota"() {dimensions = array<i32: 0>} : () -> vector<8x128xi32>
    %hit = "arith.cmpi"(%iota, %rows) {predicate = 0 : i64} : (vector<8x128xi32>, vector<8x128xi32>) -> vector<8x128xi1>
    %nothing = "arith.constant"() {value = dense<0.000000e+00> : vector<8x128xf32>} : () -> vector<8x128xf32>
    %kept = "arith.select"(%hit, %tile, %nothing) : (vector<8x128xi1>, vector<8x128xf32>, vector<8x128xf32>) -> vector<8x128xf32>
    %start = "arith.constant"() {value = dense<0.000000e+00> : vector<128xf32>} : () -> vector<128xf32>
    %sum = "vector.multi_reduction"(%kept, %start) {kind = #vector.kind<add>, reduction_dims = array<i64: 0>} : (vector<8x128xf32>, vector<128xf32>) -> vector<128xf32>
    %result = "vector.shape_cast"(%sum) : (vector<128xf32>) -> vector<1x128xf32>
    "tpu.vector_store"(%result, %picked, %zero, %zero) {add = false, operandSegmentSizes = array<i32: 1, 1, 2, 0>, strides = array<i32>} : (vector<1x128xf32>, memref<1x128xf32, #tpu.memory_space<vmem>>, index, index) -> ()
    "func.return"() : () -> ()
  }) {function_type = (memref<8x128xf32, #tpu.memory_space<vmem>>, memref<1x128xi32, #tpu.memory_space<vmem>>, memref<1x128xf32, #tpu.memory_space<vmem>>) -> (), sym_name = "compare", tpu.core_type = #tpu.core_type<tc>} : () -> ()
}) {sym_name = "compare"} : () -> ()
