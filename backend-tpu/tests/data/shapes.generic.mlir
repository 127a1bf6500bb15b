"builtin.module"() <{sym_name = "kernel"}> ({
  "func.func"() <{function_type = (memref<8x256xf32, #tpu.memory_space<vmem>>, memref<1xi32, #tpu.memory_space<smem>>, memref<8x256xf32, #tpu.memory_space<vmem>>, memref<256x8xi32, #tpu.memory_space<vmem>>) -> (), sym_name = "kernel"}> ({
  ^bb0(%arg0: memref<8x256xf32, #tpu.memory_space<vmem>>, %arg1: memref<1xi32, #tpu.memory_space<smem>>, %arg2: memref<8x256xf32, #tpu.memory_space<vmem>>, %arg3: memref<256x8xi32, #tpu.memory_space<vmem>>):
    %0 = "arith.constant"() <{value = 0 : index}> : () -> index
    %1 = "arith.constant"() <{value = 0 : index}> : () -> index
    %2 = "vector.load"(%arg0, %0, %1) : (memref<8x256xf32, #tpu.memory_space<vmem>>, index, index) -> vector<8x256xf32>
    %3 = "vector.extract_strided_slice"(%2) <{offsets = [0, 128], sizes = [8, 128], strides = [1, 1]}> : (vector<8x256xf32>) -> vector<8x128xf32>
    %4 = "vector.extract_strided_slice"(%2) <{offsets = [0, 0], sizes = [8, 128], strides = [1, 1]}> : (vector<8x256xf32>) -> vector<8x128xf32>
    %5 = "tpu.concatenate"(%3, %4) <{dimension = 1 : i32}> : (vector<8x128xf32>, vector<8x128xf32>) -> vector<8x256xf32>
    %6 = "arith.constant"() <{value = 1 : i32}> : () -> i32
    %7 = "tpu.dynamic_rotate"(%5, %6) <{dimension = 1 : si32}> : (vector<8x256xf32>, i32) -> vector<8x256xf32>
    %8 = "arith.constant"() <{value = 3 : i32}> : () -> i32
    %9 = "tpu.dynamic_rotate"(%5, %8) <{dimension = 0 : si32}> : (vector<8x256xf32>, i32) -> vector<8x256xf32>
    %10 = "arith.addf"(%7, %9) <{fastmath = #arith.fastmath<none>}> : (vector<8x256xf32>, vector<8x256xf32>) -> vector<8x256xf32>
    %11 = "arith.constant"() <{value = 5.000000e-01 : f32}> : () -> f32
    %12 = "vector.broadcast"(%11) : (f32) -> vector<8x256xf32>
    %13 = "arith.cmpf"(%2, %12) <{fastmath = #arith.fastmath<none>, predicate = 2 : i64}> : (vector<8x256xf32>, vector<8x256xf32>) -> vector<8x256xi1>
    %14 = "arith.constant"() <{value = -5.000000e-01 : f32}> : () -> f32
    %15 = "vector.broadcast"(%14) : (f32) -> vector<8x256xf32>
    %16 = "arith.cmpf"(%5, %15) <{fastmath = #arith.fastmath<none>, predicate = 4 : i64}> : (vector<8x256xf32>, vector<8x256xf32>) -> vector<8x256xi1>
    %17 = "arith.ori"(%13, %16) : (vector<8x256xi1>, vector<8x256xi1>) -> vector<8x256xi1>
    %18 = "arith.constant"() <{value = 0.000000e+00 : f32}> : () -> f32
    %19 = "vector.broadcast"(%18) : (f32) -> vector<8x256xf32>
    %20 = "arith.subf"(%19, %2) <{fastmath = #arith.fastmath<none>}> : (vector<8x256xf32>, vector<8x256xf32>) -> vector<8x256xf32>
    %21 = "arith.select"(%17, %10, %20) : (vector<8x256xi1>, vector<8x256xf32>, vector<8x256xf32>) -> vector<8x256xf32>
    %22 = "arith.constant"() <{value = dense<0xFF800000> : vector<256xf32>}> : () -> vector<256xf32>
    %23 = "vector.multi_reduction"(%5, %22) <{kind = #vector.kind<maximumf>, reduction_dims = array<i64: 0>}> : (vector<8x256xf32>, vector<256xf32>) -> vector<256xf32>
    %24 = "vector.shape_cast"(%23) : (vector<256xf32>) -> vector<1x256xf32>
    %25 = "vector.broadcast"(%24) : (vector<1x256xf32>) -> vector<8x256xf32>
    %26 = "arith.addf"(%21, %25) <{fastmath = #arith.fastmath<none>}> : (vector<8x256xf32>, vector<8x256xf32>) -> vector<8x256xf32>
    %27 = "arith.constant"() <{value = 0 : index}> : () -> index
    %28 = "arith.constant"() <{value = 0 : index}> : () -> index
    %29 = "vector.load"(%arg2, %27, %28) : (memref<8x256xf32, #tpu.memory_space<vmem>>, index, index) -> vector<8x256xf32>
    "tpu.vector_store"(%26, %arg2, %27, %28) <{add = false, operandSegmentSizes = array<i32: 1, 1, 2, 0>, strides = array<i32>}> : (vector<8x256xf32>, memref<8x256xf32, #tpu.memory_space<vmem>>, index, index) -> ()
    %30 = "tpu.bitcast"(%2) : (vector<8x256xf32>) -> vector<8x256xi32>
    %31 = "arith.constant"() <{value = 3 : i32}> : () -> i32
    %32 = "vector.broadcast"(%31) : (i32) -> vector<8x256xi32>
    %33 = "arith.shrsi"(%30, %32) : (vector<8x256xi32>, vector<8x256xi32>) -> vector<8x256xi32>
    %34 = "arith.constant"() <{value = 7 : i32}> : () -> i32
    %35 = "vector.broadcast"(%34) : (i32) -> vector<8x256xi32>
    %36 = "arith.andi"(%33, %35) : (vector<8x256xi32>, vector<8x256xi32>) -> vector<8x256xi32>
    %37 = "arith.constant"() <{value = 3 : i32}> : () -> i32
    %38 = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %39 = "arith.cmpi"(%37, %38) <{predicate = 0 : i64}> : (i32, i32) -> i1
    %40 = "arith.constant"() <{value = 1 : i32}> : () -> i32
    %41 = "arith.select"(%39, %40, %37) : (i1, i32, i32) -> i32
    %42 = "vector.broadcast"(%41) : (i32) -> vector<8x256xi32>
    %43 = "arith.remsi"(%36, %42) : (vector<8x256xi32>, vector<8x256xi32>) -> vector<8x256xi32>
    %44 = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %45 = "vector.broadcast"(%44) : (i32) -> vector<8x256xi32>
    %46 = "arith.cmpi"(%43, %45) <{predicate = 1 : i64}> : (vector<8x256xi32>, vector<8x256xi32>) -> vector<8x256xi1>
    %47 = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %48 = "vector.broadcast"(%47) : (i32) -> vector<8x256xi32>
    %49 = "arith.cmpi"(%43, %48) <{predicate = 2 : i64}> : (vector<8x256xi32>, vector<8x256xi32>) -> vector<8x256xi1>
    %50 = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %51 = "arith.cmpi"(%41, %50) <{predicate = 2 : i64}> : (i32, i32) -> i1
    %52 = "vector.broadcast"(%51) : (i1) -> vector<8x256xi1>
    %53 = "vector.broadcast"(%52) : (vector<8x256xi1>) -> vector<8x256xi1>
    %54 = "arith.xori"(%49, %53) : (vector<8x256xi1>, vector<8x256xi1>) -> vector<8x256xi1>
    %55 = "arith.andi"(%54, %46) : (vector<8x256xi1>, vector<8x256xi1>) -> vector<8x256xi1>
    %56 = "vector.broadcast"(%41) : (i32) -> vector<8x256xi32>
    %57 = "arith.addi"(%43, %56) <{overflowFlags = #arith.overflow<none>}> : (vector<8x256xi32>, vector<8x256xi32>) -> vector<8x256xi32>
    %58 = "arith.select"(%55, %57, %43) : (vector<8x256xi1>, vector<8x256xi32>, vector<8x256xi32>) -> vector<8x256xi32>
    %59 = "arith.constant"() <{value = 1 : i32}> : () -> i32
    %60 = "vector.broadcast"(%59) : (i32) -> vector<8x256xi32>
    %61 = "arith.cmpi"(%58, %60) <{predicate = 0 : i64}> : (vector<8x256xi32>, vector<8x256xi32>) -> vector<8x256xi1>
    %62 = "arith.constant"() <{value = 0 : index}> : () -> index
    %63 = "memref.load"(%arg1, %62) : (memref<1xi32, #tpu.memory_space<smem>>, index) -> i32
    %64 = "vector.broadcast"(%63) : (i32) -> vector<8x256xi32>
    %65 = "arith.muli"(%36, %64) <{overflowFlags = #arith.overflow<none>}> : (vector<8x256xi32>, vector<8x256xi32>) -> vector<8x256xi32>
    %66 = "arith.constant"() <{value = 5 : i32}> : () -> i32
    %67 = "vector.broadcast"(%66) : (i32) -> vector<8x256xi32>
    %68 = "arith.xori"(%36, %67) : (vector<8x256xi32>, vector<8x256xi32>) -> vector<8x256xi32>
    %69 = "arith.select"(%61, %65, %68) : (vector<8x256xi1>, vector<8x256xi32>, vector<8x256xi32>) -> vector<8x256xi32>
    %70 = "tpu.transpose"(%69) <{permutation = array<i64: 1, 0>}> : (vector<8x256xi32>) -> vector<256x8xi32>
    %71 = "tpu.reduce_index"(%2) <{axis = 1 : i32, kind = #tpu.reduction_kind<arg_max>}> : (vector<8x256xf32>) -> vector<8xi32>
    %72 = "vector.shape_cast"(%71) : (vector<8xi32>) -> vector<1x8xi32>
    %73 = "vector.broadcast"(%72) : (vector<1x8xi32>) -> vector<256x8xi32>
    %74 = "arith.addi"(%70, %73) <{overflowFlags = #arith.overflow<none>}> : (vector<256x8xi32>, vector<256x8xi32>) -> vector<256x8xi32>
    %75 = "arith.constant"() <{value = 0 : index}> : () -> index
    %76 = "arith.constant"() <{value = 0 : index}> : () -> index
    %77 = "vector.load"(%arg3, %75, %76) : (memref<256x8xi32, #tpu.memory_space<vmem>>, index, index) -> vector<256x8xi32>
    "tpu.vector_store"(%74, %arg3, %75, %76) <{add = false, operandSegmentSizes = array<i32: 1, 1, 2, 0>, strides = array<i32>}> : (vector<256x8xi32>, memref<256x8xi32, #tpu.memory_space<vmem>>, index, index) -> ()
    "func.return"() : () -> ()
  }) {dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>} : () -> ()
}) : () -> ()
