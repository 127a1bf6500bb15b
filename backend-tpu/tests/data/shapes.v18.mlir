"builtin.module"() <{sym_name = "kernel"}> ({
  "stable_mosaic.func.func"() ({
  ^bb0(%arg0: memref<8x256xf32, #tpu.memory_space<vmem>>, %arg1: memref<1xi32, #tpu.memory_space<smem>>, %arg2: memref<8x256xf32, #tpu.memory_space<vmem>>, %arg3: memref<256x8xi32, #tpu.memory_space<vmem>>):
    %0 = "stable_mosaic.arith.constant"() {value = 0 : index} : () -> index
    %1 = "stable_mosaic.arith.constant"() {value = 0 : index} : () -> index
    %2 = "stable_mosaic.vector.load"(%arg0, %0, %1) : (memref<8x256xf32, #tpu.memory_space<vmem>>, index, index) -> vector<8x256xf32>
    %3 = "stable_mosaic.vector.extract_strided_slice"(%2) {offsets = [0, 128], sizes = [8, 128], strides = [1, 1]} : (vector<8x256xf32>) -> vector<8x128xf32>
    %4 = "stable_mosaic.vector.extract_strided_slice"(%2) {offsets = [0, 0], sizes = [8, 128], strides = [1, 1]} : (vector<8x256xf32>) -> vector<8x128xf32>
    %5 = "stable_mosaic.tpu.concatenate"(%3, %4) {dimension = 1 : i32} : (vector<8x128xf32>, vector<8x128xf32>) -> vector<8x256xf32>
    %6 = "stable_mosaic.arith.constant"() {value = 1 : i32} : () -> i32
    %7 = "stable_mosaic.tpu.dynamic_rotate"(%5, %6) {dimension = 1 : si32} : (vector<8x256xf32>, i32) -> vector<8x256xf32>
    %8 = "stable_mosaic.arith.constant"() {value = 3 : i32} : () -> i32
    %9 = "stable_mosaic.tpu.dynamic_rotate"(%5, %8) {dimension = 0 : si32} : (vector<8x256xf32>, i32) -> vector<8x256xf32>
    %10 = "stable_mosaic.arith.addf"(%7, %9) {fastmath = #arith.fastmath<none>} : (vector<8x256xf32>, vector<8x256xf32>) -> vector<8x256xf32>
    %11 = "stable_mosaic.arith.constant"() {value = 5.000000e-01 : f32} : () -> f32
    %12 = "stable_mosaic.vector.broadcast"(%11) : (f32) -> vector<8x256xf32>
    %13 = "stable_mosaic.arith.cmpf"(%2, %12) {fastmath = #arith.fastmath<none>, predicate = 2 : i64} : (vector<8x256xf32>, vector<8x256xf32>) -> vector<8x256xi1>
    %14 = "stable_mosaic.arith.constant"() {value = -5.000000e-01 : f32} : () -> f32
    %15 = "stable_mosaic.vector.broadcast"(%14) : (f32) -> vector<8x256xf32>
    %16 = "stable_mosaic.arith.cmpf"(%5, %15) {fastmath = #arith.fastmath<none>, predicate = 4 : i64} : (vector<8x256xf32>, vector<8x256xf32>) -> vector<8x256xi1>
    %17 = "stable_mosaic.arith.ori"(%13, %16) : (vector<8x256xi1>, vector<8x256xi1>) -> vector<8x256xi1>
    %18 = "stable_mosaic.arith.constant"() {value = 0.000000e+00 : f32} : () -> f32
    %19 = "stable_mosaic.vector.broadcast"(%18) : (f32) -> vector<8x256xf32>
    %20 = "stable_mosaic.arith.subf"(%19, %2) {fastmath = #arith.fastmath<none>} : (vector<8x256xf32>, vector<8x256xf32>) -> vector<8x256xf32>
    %21 = "stable_mosaic.arith.select"(%17, %10, %20) : (vector<8x256xi1>, vector<8x256xf32>, vector<8x256xf32>) -> vector<8x256xf32>
    %22 = "stable_mosaic.arith.constant"() {value = dense<0xFF800000> : vector<256xf32>} : () -> vector<256xf32>
    %23 = "stable_mosaic.vector.multi_reduction"(%5, %22) {kind = #vector.kind<maximumf>, reduction_dims = array<i64: 0>} : (vector<8x256xf32>, vector<256xf32>) -> vector<256xf32>
    %24 = "stable_mosaic.vector.shape_cast"(%23) : (vector<256xf32>) -> vector<1x256xf32>
    %25 = "stable_mosaic.vector.broadcast"(%24) : (vector<1x256xf32>) -> vector<8x256xf32>
    %26 = "stable_mosaic.arith.addf"(%21, %25) {fastmath = #arith.fastmath<none>} : (vector<8x256xf32>, vector<8x256xf32>) -> vector<8x256xf32>
    %27 = "stable_mosaic.arith.constant"() {value = 0 : index} : () -> index
    %28 = "stable_mosaic.arith.constant"() {value = 0 : index} : () -> index
    %29 = "stable_mosaic.vector.load"(%arg2, %27, %28) : (memref<8x256xf32, #tpu.memory_space<vmem>>, index, index) -> vector<8x256xf32>
    "stable_mosaic.tpu.vector_store"(%26, %arg2, %27, %28) {add = false, operandSegmentSizes = array<i32: 1, 1, 2, 0>, strides = array<i32>} : (vector<8x256xf32>, memref<8x256xf32, #tpu.memory_space<vmem>>, index, index) -> ()
    %30 = "stable_mosaic.tpu.bitcast"(%2) : (vector<8x256xf32>) -> vector<8x256xi32>
    %31 = "stable_mosaic.arith.constant"() {value = 3 : i32} : () -> i32
    %32 = "stable_mosaic.vector.broadcast"(%31) : (i32) -> vector<8x256xi32>
    %33 = "stable_mosaic.arith.shrsi"(%30, %32) : (vector<8x256xi32>, vector<8x256xi32>) -> vector<8x256xi32>
    %34 = "stable_mosaic.arith.constant"() {value = 7 : i32} : () -> i32
    %35 = "stable_mosaic.vector.broadcast"(%34) : (i32) -> vector<8x256xi32>
    %36 = "stable_mosaic.arith.andi"(%33, %35) : (vector<8x256xi32>, vector<8x256xi32>) -> vector<8x256xi32>
    %37 = "stable_mosaic.arith.constant"() {value = 3 : i32} : () -> i32
    %38 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
    %39 = "stable_mosaic.arith.cmpi"(%37, %38) {predicate = 0 : i64} : (i32, i32) -> i1
    %40 = "stable_mosaic.arith.constant"() {value = 1 : i32} : () -> i32
    %41 = "stable_mosaic.arith.select"(%39, %40, %37) : (i1, i32, i32) -> i32
    %42 = "stable_mosaic.vector.broadcast"(%41) : (i32) -> vector<8x256xi32>
    %43 = "stable_mosaic.arith.remsi"(%36, %42) : (vector<8x256xi32>, vector<8x256xi32>) -> vector<8x256xi32>
    %44 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
    %45 = "stable_mosaic.vector.broadcast"(%44) : (i32) -> vector<8x256xi32>
    %46 = "stable_mosaic.arith.cmpi"(%43, %45) {predicate = 1 : i64} : (vector<8x256xi32>, vector<8x256xi32>) -> vector<8x256xi1>
    %47 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
    %48 = "stable_mosaic.vector.broadcast"(%47) : (i32) -> vector<8x256xi32>
    %49 = "stable_mosaic.arith.cmpi"(%43, %48) {predicate = 2 : i64} : (vector<8x256xi32>, vector<8x256xi32>) -> vector<8x256xi1>
    %50 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
    %51 = "stable_mosaic.arith.cmpi"(%41, %50) {predicate = 2 : i64} : (i32, i32) -> i1
    %52 = "stable_mosaic.vector.broadcast"(%51) : (i1) -> vector<8x256xi1>
    %53 = "stable_mosaic.vector.broadcast"(%52) : (vector<8x256xi1>) -> vector<8x256xi1>
    %54 = "stable_mosaic.arith.xori"(%49, %53) : (vector<8x256xi1>, vector<8x256xi1>) -> vector<8x256xi1>
    %55 = "stable_mosaic.arith.andi"(%54, %46) : (vector<8x256xi1>, vector<8x256xi1>) -> vector<8x256xi1>
    %56 = "stable_mosaic.vector.broadcast"(%41) : (i32) -> vector<8x256xi32>
    %57 = "stable_mosaic.arith.addi"(%43, %56) {overflowFlags = #arith.overflow<none>} : (vector<8x256xi32>, vector<8x256xi32>) -> vector<8x256xi32>
    %58 = "stable_mosaic.arith.select"(%55, %57, %43) : (vector<8x256xi1>, vector<8x256xi32>, vector<8x256xi32>) -> vector<8x256xi32>
    %59 = "stable_mosaic.arith.constant"() {value = 1 : i32} : () -> i32
    %60 = "stable_mosaic.vector.broadcast"(%59) : (i32) -> vector<8x256xi32>
    %61 = "stable_mosaic.arith.cmpi"(%58, %60) {predicate = 0 : i64} : (vector<8x256xi32>, vector<8x256xi32>) -> vector<8x256xi1>
    %62 = "stable_mosaic.arith.constant"() {value = 0 : index} : () -> index
    %63 = "stable_mosaic.memref.load"(%arg1, %62) : (memref<1xi32, #tpu.memory_space<smem>>, index) -> i32
    %64 = "stable_mosaic.vector.broadcast"(%63) : (i32) -> vector<8x256xi32>
    %65 = "stable_mosaic.arith.muli"(%36, %64) {overflowFlags = #arith.overflow<none>} : (vector<8x256xi32>, vector<8x256xi32>) -> vector<8x256xi32>
    %66 = "stable_mosaic.arith.constant"() {value = 5 : i32} : () -> i32
    %67 = "stable_mosaic.vector.broadcast"(%66) : (i32) -> vector<8x256xi32>
    %68 = "stable_mosaic.arith.xori"(%36, %67) : (vector<8x256xi32>, vector<8x256xi32>) -> vector<8x256xi32>
    %69 = "stable_mosaic.arith.select"(%61, %65, %68) : (vector<8x256xi1>, vector<8x256xi32>, vector<8x256xi32>) -> vector<8x256xi32>
    %70 = "stable_mosaic.tpu.transpose"(%69) {permutation = array<i64: 1, 0>} : (vector<8x256xi32>) -> vector<256x8xi32>
    %71 = "stable_mosaic.tpu.reduce_index"(%2) {axis = 1 : i32, kind = #tpu.reduction_kind<arg_max>} : (vector<8x256xf32>) -> vector<8xi32>
    %72 = "stable_mosaic.vector.shape_cast"(%71) : (vector<8xi32>) -> vector<1x8xi32>
    %73 = "stable_mosaic.vector.broadcast"(%72) : (vector<1x8xi32>) -> vector<256x8xi32>
    %74 = "stable_mosaic.arith.addi"(%70, %73) {overflowFlags = #arith.overflow<none>} : (vector<256x8xi32>, vector<256x8xi32>) -> vector<256x8xi32>
    %75 = "stable_mosaic.arith.constant"() {value = 0 : index} : () -> index
    %76 = "stable_mosaic.arith.constant"() {value = 0 : index} : () -> index
    %77 = "stable_mosaic.vector.load"(%arg3, %75, %76) : (memref<256x8xi32, #tpu.memory_space<vmem>>, index, index) -> vector<256x8xi32>
    "stable_mosaic.tpu.vector_store"(%74, %arg3, %75, %76) {add = false, operandSegmentSizes = array<i32: 1, 1, 2, 0>, strides = array<i32>} : (vector<256x8xi32>, memref<256x8xi32, #tpu.memory_space<vmem>>, index, index) -> ()
    "stable_mosaic.func.return"() : () -> ()
  }) {dimension_semantics = [], function_type = (memref<8x256xf32, #tpu.memory_space<vmem>>, memref<1xi32, #tpu.memory_space<smem>>, memref<8x256xf32, #tpu.memory_space<vmem>>, memref<256x8xi32, #tpu.memory_space<vmem>>) -> (), scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, sym_name = "kernel", tpu.core_type = #tpu.core_type<tc>} : () -> ()
}) {stable_mosaic.version = 18 : i64} : () -> ()
