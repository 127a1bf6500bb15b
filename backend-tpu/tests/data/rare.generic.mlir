"builtin.module"() <{sym_name = "kernel"}> ({
  "func.func"() <{function_type = (memref<1xi32, #tpu.memory_space<smem>>, memref<8x256xf32, #tpu.memory_space<vmem>>, memref<8x128xi32, #tpu.memory_space<vmem>>, memref<32x128xf8E4M3FN, #tpu.memory_space<vmem>>, memref<8x256xf32, #tpu.memory_space<vmem>>, memref<32x128xbf16, #tpu.memory_space<vmem>>, memref<3xf32, #tpu.memory_space<smem>>, memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>) -> (), sym_name = "kernel"}> ({
  ^bb0(%arg0: memref<1xi32, #tpu.memory_space<smem>>, %arg1: memref<8x256xf32, #tpu.memory_space<vmem>>, %arg2: memref<8x128xi32, #tpu.memory_space<vmem>>, %arg3: memref<32x128xf8E4M3FN, #tpu.memory_space<vmem>>, %arg4: memref<8x256xf32, #tpu.memory_space<vmem>>, %arg5: memref<32x128xbf16, #tpu.memory_space<vmem>>, %arg6: memref<3xf32, #tpu.memory_space<smem>>, %arg7: memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>):
    %0 = "arith.constant"() <{value = 0 : index}> : () -> index
    %1 = "arith.constant"() <{value = 0 : index}> : () -> index
    %2 = "vector.load"(%arg1, %0, %1) : (memref<8x256xf32, #tpu.memory_space<vmem>>, index, index) -> vector<8x256xf32>
    %3 = "tpu.iota"() <{dimensions = array<i32: 0>}> : () -> vector<8x256xi32>
    %4 = "arith.constant"() <{value = 0 : index}> : () -> index
    %5 = "memref.load"(%arg0, %4) : (memref<1xi32, #tpu.memory_space<smem>>, index) -> i32
    %6 = "vector.broadcast"(%5) : (i32) -> vector<8x256xi32>
    %7 = "arith.cmpi"(%3, %6) <{predicate = 2 : i64}> : (vector<8x256xi32>, vector<8x256xi32>) -> vector<8x256xi1>
    %8 = "arith.constant"() <{value = 0 : index}> : () -> index
    %9 = "arith.constant"() <{value = 0 : index}> : () -> index
    %10 = "vector.load"(%arg4, %8, %9) : (memref<8x256xf32, #tpu.memory_space<vmem>>, index, index) -> vector<8x256xf32>
    %11 = "vector.shape_cast"(%10) : (vector<8x256xf32>) -> vector<8x256xf32>
    %12 = "vector.shape_cast"(%2) : (vector<8x256xf32>) -> vector<8x256xf32>
    %13 = "vector.shape_cast"(%7) : (vector<8x256xi1>) -> vector<8x256xi1>
    "tpu.vector_store"(%12, %arg4, %8, %9, %13) <{add = false, operandSegmentSizes = array<i32: 1, 1, 2, 1>, strides = array<i32>}> : (vector<8x256xf32>, memref<8x256xf32, #tpu.memory_space<vmem>>, index, index, vector<8x256xi1>) -> ()
    %14 = "vector.extract_strided_slice"(%2) <{offsets = [0, 0], sizes = [8, 128], strides = [1, 1]}> : (vector<8x256xf32>) -> vector<8x128xf32>
    %15 = "tpu.reciprocal"(%14) <{approx = true, full_range = true}> : (vector<8x128xf32>) -> vector<8x128xf32>
    %16 = "arith.constant"() <{value = 0 : index}> : () -> index
    %17 = "arith.constant"() <{value = 0 : index}> : () -> index
    %18 = "vector.load"(%arg4, %16, %17) : (memref<8x256xf32, #tpu.memory_space<vmem>>, index, index) -> vector<8x128xf32>
    "tpu.vector_store"(%15, %arg4, %16, %17) <{add = false, operandSegmentSizes = array<i32: 1, 1, 2, 0>, strides = array<i32>}> : (vector<8x128xf32>, memref<8x256xf32, #tpu.memory_space<vmem>>, index, index) -> ()
    %19 = "vector.extract_strided_slice"(%2) <{offsets = [0, 0], sizes = [8, 128], strides = [1, 1]}> : (vector<8x256xf32>) -> vector<8x128xf32>
    %20 = "arith.constant"() <{value = 0 : index}> : () -> index
    %21 = "arith.constant"() <{value = 0 : index}> : () -> index
    %22 = "vector.load"(%arg2, %20, %21) : (memref<8x128xi32, #tpu.memory_space<vmem>>, index, index) -> vector<8x128xi32>
    %23 = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %24 = "vector.broadcast"(%23) : (i32) -> vector<8x128xi32>
    %25 = "arith.cmpi"(%22, %24) <{predicate = 2 : i64}> : (vector<8x128xi32>, vector<8x128xi32>) -> vector<8x128xi1>
    %26 = "arith.constant"() <{value = 128 : i32}> : () -> i32
    %27 = "vector.broadcast"(%26) : (i32) -> vector<8x128xi32>
    %28 = "arith.addi"(%22, %27) <{overflowFlags = #arith.overflow<none>}> : (vector<8x128xi32>, vector<8x128xi32>) -> vector<8x128xi32>
    %29 = "arith.select"(%25, %28, %22) : (vector<8x128xi1>, vector<8x128xi32>, vector<8x128xi32>) -> vector<8x128xi32>
    %30 = "vector.shape_cast"(%29) : (vector<8x128xi32>) -> vector<8x128x1xi32>
    %31 = "vector.shape_cast"(%30) : (vector<8x128x1xi32>) -> vector<8x128xi32>
    %32 = "tpu.dynamic_gather"(%19, %31) <{dimensions = array<i32: 1>}> : (vector<8x128xf32>, vector<8x128xi32>) -> vector<8x128xf32>
    %33 = "arith.constant"() <{value = 0 : index}> : () -> index
    %34 = "arith.constant"() <{value = 128 : index}> : () -> index
    %35 = "vector.load"(%arg4, %33, %34) : (memref<8x256xf32, #tpu.memory_space<vmem>>, index, index) -> vector<8x128xf32>
    "tpu.vector_store"(%32, %arg4, %33, %34) <{add = false, operandSegmentSizes = array<i32: 1, 1, 2, 0>, strides = array<i32>}> : (vector<8x128xf32>, memref<8x256xf32, #tpu.memory_space<vmem>>, index, index) -> ()
    %36 = "arith.constant"() <{value = 0 : index}> : () -> index
    %37 = "arith.constant"() <{value = 0 : index}> : () -> index
    %38 = "tpu.strided_load"(%arg2, %36, %37) <{strides = array<i32: 2, 1>}> : (memref<8x128xi32, #tpu.memory_space<vmem>>, index, index) -> vector<4x128xi32>
    %39 = "arith.sitofp"(%38) : (vector<4x128xi32>) -> vector<4x128xf32>
    %40 = "vector.shape_cast"(%39) : (vector<4x128xf32>) -> vector<1x4x128xf32>
    %41 = "arith.constant"() <{value = dense<0.000000e+00> : vector<1xf32>}> : () -> vector<1xf32>
    %42 = "vector.multi_reduction"(%40, %41) <{kind = #vector.kind<add>, reduction_dims = array<i64: 1, 2>}> : (vector<1x4x128xf32>, vector<1xf32>) -> vector<1xf32>
    %43 = "vector.shape_cast"(%42) : (vector<1xf32>) -> vector<1x1x1xf32>
    %44 = "vector.extract"(%43) <{static_position = array<i64: 0, 0, 0>}> : (vector<1x1x1xf32>) -> f32
    %45 = "arith.constant"() <{value = 0 : index}> : () -> index
    %46 = "memref.load"(%arg6, %45) : (memref<3xf32, #tpu.memory_space<smem>>, index) -> f32
    "memref.store"(%44, %arg6, %45) : (f32, memref<3xf32, #tpu.memory_space<smem>>, index) -> ()
    %47 = "arith.constant"() <{value = 1.000000e+00 : f32}> : () -> f32
    %48 = "vector.broadcast"(%47) : (f32) -> vector<8x256xf32>
    %49 = "arith.cmpf"(%2, %48) <{fastmath = #arith.fastmath<none>, predicate = 2 : i64}> : (vector<8x256xf32>, vector<8x256xf32>) -> vector<8x256xi1>
    %50 = "arith.constant"() <{value = 1.000000e+00 : f32}> : () -> f32
    %51 = "arith.constant"() <{value = 0.000000e+00 : f32}> : () -> f32
    %52 = "vector.broadcast"(%50) : (f32) -> vector<8x256xf32>
    %53 = "vector.broadcast"(%51) : (f32) -> vector<8x256xf32>
    %54 = "arith.select"(%49, %52, %53) : (vector<8x256xi1>, vector<8x256xf32>, vector<8x256xf32>) -> vector<8x256xf32>
    %55 = "vector.shape_cast"(%54) : (vector<8x256xf32>) -> vector<1x8x256xf32>
    %56 = "arith.constant"() <{value = dense<0xFF800000> : vector<1xf32>}> : () -> vector<1xf32>
    %57 = "vector.multi_reduction"(%55, %56) <{kind = #vector.kind<maximumf>, reduction_dims = array<i64: 1, 2>}> : (vector<1x8x256xf32>, vector<1xf32>) -> vector<1xf32>
    %58 = "vector.shape_cast"(%57) : (vector<1xf32>) -> vector<1x1x1xf32>
    %59 = "vector.extract"(%58) <{static_position = array<i64: 0, 0, 0>}> : (vector<1x1x1xf32>) -> f32
    %60 = "arith.constant"() <{value = 0.000000e+00 : f32}> : () -> f32
    %61 = "arith.cmpf"(%59, %60) <{fastmath = #arith.fastmath<none>, predicate = 2 : i64}> : (f32, f32) -> i1
    %62 = "vector.shape_cast"(%2) : (vector<8x256xf32>) -> vector<1x8x256xf32>
    %63 = "arith.constant"() <{value = dense<0xFF800000> : vector<1xf32>}> : () -> vector<1xf32>
    %64 = "vector.multi_reduction"(%62, %63) <{kind = #vector.kind<maximumf>, reduction_dims = array<i64: 1, 2>}> : (vector<1x8x256xf32>, vector<1xf32>) -> vector<1xf32>
    %65 = "vector.shape_cast"(%64) : (vector<1xf32>) -> vector<1x1x1xf32>
    %66 = "vector.extract"(%65) <{static_position = array<i64: 0, 0, 0>}> : (vector<1x1x1xf32>) -> f32
    %67 = "vector.shape_cast"(%2) : (vector<8x256xf32>) -> vector<1x8x256xf32>
    %68 = "arith.constant"() <{value = dense<0x7F800000> : vector<1xf32>}> : () -> vector<1xf32>
    %69 = "vector.multi_reduction"(%67, %68) <{kind = #vector.kind<minimumf>, reduction_dims = array<i64: 1, 2>}> : (vector<1x8x256xf32>, vector<1xf32>) -> vector<1xf32>
    %70 = "vector.shape_cast"(%69) : (vector<1xf32>) -> vector<1x1x1xf32>
    %71 = "vector.extract"(%70) <{static_position = array<i64: 0, 0, 0>}> : (vector<1x1x1xf32>) -> f32
    %72 = "arith.select"(%61, %66, %71) : (i1, f32, f32) -> f32
    %73 = "arith.constant"() <{value = 1 : index}> : () -> index
    %74 = "memref.load"(%arg6, %73) : (memref<3xf32, #tpu.memory_space<smem>>, index) -> f32
    "memref.store"(%72, %arg6, %73) : (f32, memref<3xf32, #tpu.memory_space<smem>>, index) -> ()
    %75 = "arith.constant"() <{value = 0 : index}> : () -> index
    %76 = "memref.load"(%arg0, %75) : (memref<1xi32, #tpu.memory_space<smem>>, index) -> i32
    %77 = "arith.sitofp"(%76) : (i32) -> f32
    %78 = "arith.constant"() <{value = 2 : index}> : () -> index
    %79 = "memref.load"(%arg6, %78) : (memref<3xf32, #tpu.memory_space<smem>>, index) -> f32
    "memref.store"(%77, %arg6, %78) : (f32, memref<3xf32, #tpu.memory_space<smem>>, index) -> ()
    %80 = "arith.constant"() <{value = 0 : index}> : () -> index
    %81 = "arith.constant"() <{value = 0 : index}> : () -> index
    %82 = "vector.load"(%arg3, %80, %81) : (memref<32x128xf8E4M3FN, #tpu.memory_space<vmem>>, index, index) -> vector<32x128xf8E4M3FN>
    %83 = "arith.extf"(%82) : (vector<32x128xf8E4M3FN>) -> vector<32x128xf32>
    %84 = "arith.constant"() <{value = 0.333333343 : f32}> : () -> f32
    %85 = "vector.broadcast"(%84) : (f32) -> vector<32x128xf32>
    %86 = "arith.mulf"(%83, %85) <{fastmath = #arith.fastmath<none>}> : (vector<32x128xf32>, vector<32x128xf32>) -> vector<32x128xf32>
    %87 = "arith.truncf"(%86) : (vector<32x128xf32>) -> vector<32x128xbf16>
    %88 = "arith.constant"() <{value = 1.500000e+00 : bf16}> : () -> bf16
    %89 = "vector.broadcast"(%88) : (bf16) -> vector<32x128xbf16>
    %90 = "arith.addf"(%87, %89) <{fastmath = #arith.fastmath<none>}> : (vector<32x128xbf16>, vector<32x128xbf16>) -> vector<32x128xbf16>
    %91 = "arith.constant"() <{value = 0 : index}> : () -> index
    %92 = "arith.constant"() <{value = 0 : index}> : () -> index
    %93 = "vector.load"(%arg5, %91, %92) : (memref<32x128xbf16, #tpu.memory_space<vmem>>, index, index) -> vector<32x128xbf16>
    "tpu.vector_store"(%90, %arg5, %91, %92) <{add = false, operandSegmentSizes = array<i32: 1, 1, 2, 0>, strides = array<i32>}> : (vector<32x128xbf16>, memref<32x128xbf16, #tpu.memory_space<vmem>>, index, index) -> ()
    %94 = "arith.constant"() <{value = 1 : i32}> : () -> i32
    "tpu.sem_signal"(%arg7, %94) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>}> : (memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>, i32) -> ()
    %95 = "arith.constant"() <{value = 1 : i32}> : () -> i32
    %96 = "arith.constant"() <{value = true}> : () -> i1
    "tpu.sem_wait"(%arg7, %95) : (memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>, i32) -> ()
    %97 = "arith.constant"() <{value = -3.000000e+00 : f32}> : () -> f32
    %98 = "arith.constant"() <{value = 3.000000e+00 : f32}> : () -> f32
    %99 = "vector.broadcast"(%97) : (f32) -> vector<8x256xf32>
    %100 = "arith.maximumf"(%99, %2) <{fastmath = #arith.fastmath<none>}> : (vector<8x256xf32>, vector<8x256xf32>) -> vector<8x256xf32>
    %101 = "vector.broadcast"(%98) : (f32) -> vector<8x256xf32>
    %102 = "arith.minimumf"(%101, %100) <{fastmath = #arith.fastmath<none>}> : (vector<8x256xf32>, vector<8x256xf32>) -> vector<8x256xf32>
    %103 = "arith.fptosi"(%102) : (vector<8x256xf32>) -> vector<8x256xi32>
    %104 = "math.absi"(%103) : (vector<8x256xi32>) -> vector<8x256xi32>
    %105 = "math.ctpop"(%104) : (vector<8x256xi32>) -> vector<8x256xi32>
    %106 = "arith.trunci"(%105) <{overflowFlags = #arith.overflow<none>}> : (vector<8x256xi32>) -> vector<8x256xi8>
    %107 = "math.absi"(%103) : (vector<8x256xi32>) -> vector<8x256xi32>
    %108 = "arith.extui"(%106) : (vector<8x256xi8>) -> vector<8x256xi32>
    %109 = "arith.addi"(%108, %107) <{overflowFlags = #arith.overflow<none>}> : (vector<8x256xi32>, vector<8x256xi32>) -> vector<8x256xi32>
    %110 = "math.ctpop"(%103) : (vector<8x256xi32>) -> vector<8x256xi32>
    %111 = "arith.addi"(%109, %110) <{overflowFlags = #arith.overflow<none>}> : (vector<8x256xi32>, vector<8x256xi32>) -> vector<8x256xi32>
    %112 = "arith.constant"() <{value = 0 : index}> : () -> index
    %113 = "arith.constant"() <{value = 0 : index}> : () -> index
    %114 = "vector.load"(%arg5, %112, %113) : (memref<32x128xbf16, #tpu.memory_space<vmem>>, index, index) -> vector<8x128xbf16>
    %115 = "vector.shape_cast"(%114) : (vector<8x128xbf16>) -> vector<8x128xbf16>
    %116 = "arith.sitofp"(%111) : (vector<8x256xi32>) -> vector<8x256xf32>
    %117 = "math.sqrt"(%116) <{fastmath = #arith.fastmath<none>}> : (vector<8x256xf32>) -> vector<8x256xf32>
    %118 = "math.floor"(%117) <{fastmath = #arith.fastmath<none>}> : (vector<8x256xf32>) -> vector<8x256xf32>
    %119 = "arith.truncf"(%118) : (vector<8x256xf32>) -> vector<8x256xbf16>
    %120 = "vector.extract_strided_slice"(%119) <{offsets = [0, 0], sizes = [8, 128], strides = [1, 1]}> : (vector<8x256xbf16>) -> vector<8x128xbf16>
    %121 = "arith.addf"(%115, %120) <{fastmath = #arith.fastmath<none>}> : (vector<8x128xbf16>, vector<8x128xbf16>) -> vector<8x128xbf16>
    %122 = "arith.constant"() <{value = 0 : index}> : () -> index
    %123 = "arith.constant"() <{value = 0 : index}> : () -> index
    %124 = "vector.load"(%arg5, %122, %123) : (memref<32x128xbf16, #tpu.memory_space<vmem>>, index, index) -> vector<8x128xbf16>
    "tpu.vector_store"(%121, %arg5, %122, %123) <{add = false, operandSegmentSizes = array<i32: 1, 1, 2, 0>, strides = array<i32>}> : (vector<8x128xbf16>, memref<32x128xbf16, #tpu.memory_space<vmem>>, index, index) -> ()
    %125 = "arith.constant"() <{value = 0 : index}> : () -> index
    %126 = "memref.load"(%arg0, %125) : (memref<1xi32, #tpu.memory_space<smem>>, index) -> i32
    %127 = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %128 = "arith.cmpi"(%126, %127) <{predicate = 4 : i64}> : (i32, i32) -> i1
    %129 = "arith.constant"() <{value = true}> : () -> i1
    %130 = "arith.xori"(%128, %129) : (i1, i1) -> i1
    %131 = "arith.constant"() <{value = 0 : i32}> : () -> i32
    "func.return"() : () -> ()
  }) {dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 1 : i64, tpu.core_type = #tpu.core_type<tc>} : () -> ()
}) : () -> ()
