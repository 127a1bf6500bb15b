"builtin.module"() <{sym_name = "kernel"}> ({
  "stable_mosaic.func.func"() ({
  ^bb0(%arg0: memref<256x256xf32, #tpu.memory_space<any>>, %arg1: memref<64x256xf32, #tpu.memory_space<any>>, %arg2: memref<256x256xf32, #tpu.memory_space<any>>):
    "stable_mosaic.tpu.region"() ({
      %0 = "stable_mosaic.memref.alloca"() {operandSegmentSizes = array<i32: 0, 0>} : () -> memref<2x64x128xf32, #tpu.memory_space<vmem>>
      %1 = "stable_mosaic.tpu.sem_alloc"() : () -> memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %2 = "stable_mosaic.memref.alloca"() {operandSegmentSizes = array<i32: 0, 0>} : () -> memref<2x64x128xf32, #tpu.memory_space<vmem>>
      %3 = "stable_mosaic.tpu.sem_alloc"() : () -> memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %4 = "stable_mosaic.memref.alloca"() {operandSegmentSizes = array<i32: 0, 0>} : () -> memref<2x64x128xf32, #tpu.memory_space<vmem>>
      %5 = "stable_mosaic.tpu.sem_alloc"() : () -> memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %6 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %7 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %8 = "stable_mosaic.arith.addi"(%6, %7) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
      %9 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %10 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %11 = "stable_mosaic.arith.addi"(%9, %10) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
      %12 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %13 = "stable_mosaic.arith.constant"() {value = 1 : i32} : () -> i32
      %14 = "stable_mosaic.arith.addi"(%12, %13) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
      %15 = "stable_mosaic.arith.constant"() {value = true} : () -> i1
      %16 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %17 = "stable_mosaic.arith.select"(%15, %14, %16) : (i1, i32, i32) -> i32
      %18 = "stable_mosaic.arith.constant"() {value = 2 : i32} : () -> i32
      %19 = "stable_mosaic.arith.cmpi"(%17, %18) {predicate = 0 : i64} : (i32, i32) -> i1
      %20 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %21 = "stable_mosaic.arith.select"(%19, %20, %17) : (i1, i32, i32) -> i32
      %22 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %23 = "stable_mosaic.arith.constant"() {value = 1 : i32} : () -> i32
      %24 = "stable_mosaic.arith.addi"(%22, %23) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
      %25 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %26 = "stable_mosaic.arith.select"(%19, %24, %25) : (i1, i32, i32) -> i32
      %27 = "stable_mosaic.arith.constant"() {value = 4 : i32} : () -> i32
      %28 = "stable_mosaic.arith.cmpi"(%26, %27) {predicate = 0 : i64} : (i32, i32) -> i1
      %29 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %30 = "stable_mosaic.arith.select"(%28, %29, %26) : (i1, i32, i32) -> i32
      %31 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %32 = "stable_mosaic.arith.addi"(%30, %31) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
      %33 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %34 = "stable_mosaic.arith.addi"(%21, %33) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
      %35 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %36 = "stable_mosaic.arith.constant"() {value = 1 : i32} : () -> i32
      %37 = "stable_mosaic.arith.subi"(%35, %36) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
      %38 = "stable_mosaic.arith.constant"() {value = true} : () -> i1
      %39 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %40 = "stable_mosaic.arith.select"(%38, %37, %39) : (i1, i32, i32) -> i32
      %41 = "stable_mosaic.arith.constant"() {value = -1 : i32} : () -> i32
      %42 = "stable_mosaic.arith.cmpi"(%40, %41) {predicate = 0 : i64} : (i32, i32) -> i1
      %43 = "stable_mosaic.arith.constant"() {value = 1 : i32} : () -> i32
      %44 = "stable_mosaic.arith.select"(%42, %43, %40) : (i1, i32, i32) -> i32
      %45 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %46 = "stable_mosaic.arith.constant"() {value = 1 : i32} : () -> i32
      %47 = "stable_mosaic.arith.subi"(%45, %46) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
      %48 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %49 = "stable_mosaic.arith.select"(%42, %47, %48) : (i1, i32, i32) -> i32
      %50 = "stable_mosaic.arith.constant"() {value = -1 : i32} : () -> i32
      %51 = "stable_mosaic.arith.cmpi"(%49, %50) {predicate = 0 : i64} : (i32, i32) -> i1
      %52 = "stable_mosaic.arith.constant"() {value = 3 : i32} : () -> i32
      %53 = "stable_mosaic.arith.select"(%51, %52, %49) : (i1, i32, i32) -> i32
      %54 = "stable_mosaic.arith.constant"() {value = 1 : i32} : () -> i32
      %55 = "stable_mosaic.arith.addi"(%21, %54) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
      %56 = "stable_mosaic.arith.constant"() {value = true} : () -> i1
      %57 = "stable_mosaic.arith.select"(%56, %55, %21) : (i1, i32, i32) -> i32
      %58 = "stable_mosaic.arith.constant"() {value = 2 : i32} : () -> i32
      %59 = "stable_mosaic.arith.cmpi"(%57, %58) {predicate = 0 : i64} : (i32, i32) -> i1
      %60 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %61 = "stable_mosaic.arith.select"(%59, %60, %57) : (i1, i32, i32) -> i32
      %62 = "stable_mosaic.arith.constant"() {value = 1 : i32} : () -> i32
      %63 = "stable_mosaic.arith.addi"(%30, %62) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
      %64 = "stable_mosaic.arith.select"(%59, %63, %30) : (i1, i32, i32) -> i32
      %65 = "stable_mosaic.arith.constant"() {value = 4 : i32} : () -> i32
      %66 = "stable_mosaic.arith.cmpi"(%64, %65) {predicate = 0 : i64} : (i32, i32) -> i1
      %67 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %68 = "stable_mosaic.arith.select"(%66, %67, %64) : (i1, i32, i32) -> i32
      %69 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %70 = "stable_mosaic.arith.addi"(%53, %69) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
      %71 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %72 = "stable_mosaic.arith.addi"(%44, %71) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
      %73 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %74 = "stable_mosaic.arith.addi"(%68, %73) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
      %75 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %76 = "stable_mosaic.arith.addi"(%61, %75) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
      "stable_mosaic.tpu.trace_start"() {level = 10 : i32, message = "ep_initialize_0"} : () -> ()
      %77 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %78 = "stable_mosaic.arith.constant"() {value = 2 : i32} : () -> i32
      %79 = "stable_mosaic.arith.remui"(%77, %78) : (i32, i32) -> i32
      %80 = "stable_mosaic.arith.constant"() {value = 64 : i32} : () -> i32
      %81 = "stable_mosaic.arith.muli"(%80, %8) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
      %82 = "stable_mosaic.arith.constant"() {value = 128 : i32} : () -> i32
      %83 = "stable_mosaic.arith.muli"(%82, %11) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
      %84 = "stable_mosaic.tpu.memref_slice"(%1, %79) {operandSegmentSizes = array<i32: 1, 1, 0>} : (memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>, i32) -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %85 = "stable_mosaic.tpu.memref_squeeze"(%84) : (memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %86 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %87 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %88 = "stable_mosaic.tpu.memref_slice"(%0, %79, %86, %87) {operandSegmentSizes = array<i32: 1, 3, 0>} : (memref<2x64x128xf32, #tpu.memory_space<vmem>>, i32, i32, i32) -> memref<1x64x128xf32, #tpu.memory_space<vmem>>
      %89 = "stable_mosaic.tpu.memref_squeeze"(%88) : (memref<1x64x128xf32, #tpu.memory_space<vmem>>) -> memref<64x128xf32, #tpu.memory_space<vmem>>
      %90 = "stable_mosaic.tpu.memref_slice"(%arg0, %81, %83) {operandSegmentSizes = array<i32: 1, 2, 0>} : (memref<256x256xf32, #tpu.memory_space<any>>, i32, i32) -> memref<64x128xf32, #tpu.memory_space<any>>
      "stable_mosaic.tpu.enqueue_dma"(%90, %89, %85) {operandSegmentSizes = array<i32: 1, 0, 1, 1, 0, 0>, priority = 0 : i32, strict_ordering = false} : (memref<64x128xf32, #tpu.memory_space<any>>, memref<64x128xf32, #tpu.memory_space<vmem>>, memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> ()
      %91 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %92 = "stable_mosaic.arith.constant"() {value = 1 : i32} : () -> i32
      %93 = "stable_mosaic.arith.addi"(%91, %92) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
      %94 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %95 = "stable_mosaic.arith.constant"() {value = 2 : i32} : () -> i32
      %96 = "stable_mosaic.arith.remui"(%94, %95) : (i32, i32) -> i32
      %97 = "stable_mosaic.arith.constant"() {value = 128 : i32} : () -> i32
      %98 = "stable_mosaic.arith.muli"(%97, %11) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
      %99 = "stable_mosaic.tpu.memref_slice"(%3, %96) {operandSegmentSizes = array<i32: 1, 1, 0>} : (memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>, i32) -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %100 = "stable_mosaic.tpu.memref_squeeze"(%99) : (memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %101 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %102 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %103 = "stable_mosaic.tpu.memref_slice"(%2, %96, %101, %102) {operandSegmentSizes = array<i32: 1, 3, 0>} : (memref<2x64x128xf32, #tpu.memory_space<vmem>>, i32, i32, i32) -> memref<1x64x128xf32, #tpu.memory_space<vmem>>
      %104 = "stable_mosaic.tpu.memref_squeeze"(%103) : (memref<1x64x128xf32, #tpu.memory_space<vmem>>) -> memref<64x128xf32, #tpu.memory_space<vmem>>
      %105 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %106 = "stable_mosaic.tpu.memref_slice"(%arg1, %105, %98) {operandSegmentSizes = array<i32: 1, 2, 0>} : (memref<64x256xf32, #tpu.memory_space<any>>, i32, i32) -> memref<64x128xf32, #tpu.memory_space<any>>
      "stable_mosaic.tpu.enqueue_dma"(%106, %104, %100) {operandSegmentSizes = array<i32: 1, 0, 1, 1, 0, 0>, priority = 0 : i32, strict_ordering = false} : (memref<64x128xf32, #tpu.memory_space<any>>, memref<64x128xf32, #tpu.memory_space<vmem>>, memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> ()
      %107 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %108 = "stable_mosaic.arith.constant"() {value = 1 : i32} : () -> i32
      %109 = "stable_mosaic.arith.addi"(%107, %108) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
      "stable_mosaic.tpu.trace_stop"() : () -> ()
      %110 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %111 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %112 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %113 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %114 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %115 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %116 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %117 = "stable_mosaic.arith.constant"() {value = 8 : i32} : () -> i32
      %118 = "stable_mosaic.arith.addi"(%116, %117) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
      %119 = "stable_mosaic.arith.constant"() {value = 1 : i32} : () -> i32
      %120:8 = "stable_mosaic.scf.for"(%116, %118, %119, %93, %110, %109, %111, %112, %113, %114, %115) ({
      ^bb0(%arg3: i32, %arg4: i32, %arg5: i32, %arg6: i32, %arg7: i32, %arg8: i32, %arg9: i32, %arg10: i32, %arg11: i32):
        %213 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
        %214 = "stable_mosaic.arith.cmpi"(%arg3, %213) {predicate = 0 : i64} : (i32, i32) -> i1
        %215 = "stable_mosaic.arith.constant"() {value = 7 : i32} : () -> i32
        %216 = "stable_mosaic.arith.cmpi"(%arg3, %215) {predicate = 0 : i64} : (i32, i32) -> i1
        %217 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
        %218 = "stable_mosaic.arith.addi"(%arg10, %217) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
        %219 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
        %220 = "stable_mosaic.arith.addi"(%arg11, %219) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
        %221 = "stable_mosaic.arith.constant"() {value = 1 : i32} : () -> i32
        %222 = "stable_mosaic.arith.addi"(%arg11, %221) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
        %223 = "stable_mosaic.arith.constant"() {value = true} : () -> i1
        %224 = "stable_mosaic.arith.select"(%223, %222, %arg11) : (i1, i32, i32) -> i32
        %225 = "stable_mosaic.arith.constant"() {value = 2 : i32} : () -> i32
        %226 = "stable_mosaic.arith.cmpi"(%224, %225) {predicate = 0 : i64} : (i32, i32) -> i1
        %227 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
        %228 = "stable_mosaic.arith.select"(%226, %227, %224) : (i1, i32, i32) -> i32
        %229 = "stable_mosaic.arith.constant"() {value = 1 : i32} : () -> i32
        %230 = "stable_mosaic.arith.addi"(%arg10, %229) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
        %231 = "stable_mosaic.arith.select"(%226, %230, %arg10) : (i1, i32, i32) -> i32
        %232 = "stable_mosaic.arith.constant"() {value = 4 : i32} : () -> i32
        %233 = "stable_mosaic.arith.cmpi"(%231, %232) {predicate = 0 : i64} : (i32, i32) -> i1
        %234 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
        %235 = "stable_mosaic.arith.select"(%233, %234, %231) : (i1, i32, i32) -> i32
        %236 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
        %237 = "stable_mosaic.arith.addi"(%235, %236) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
        %238 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
        %239 = "stable_mosaic.arith.addi"(%228, %238) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
        %240 = "stable_mosaic.arith.constant"() {value = 1 : i32} : () -> i32
        %241 = "stable_mosaic.arith.subi"(%arg11, %240) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
        %242 = "stable_mosaic.arith.constant"() {value = true} : () -> i1
        %243 = "stable_mosaic.arith.select"(%242, %241, %arg11) : (i1, i32, i32) -> i32
        %244 = "stable_mosaic.arith.constant"() {value = -1 : i32} : () -> i32
        %245 = "stable_mosaic.arith.cmpi"(%243, %244) {predicate = 0 : i64} : (i32, i32) -> i1
        %246 = "stable_mosaic.arith.constant"() {value = 1 : i32} : () -> i32
        %247 = "stable_mosaic.arith.select"(%245, %246, %243) : (i1, i32, i32) -> i32
        %248 = "stable_mosaic.arith.constant"() {value = 1 : i32} : () -> i32
        %249 = "stable_mosaic.arith.subi"(%arg10, %248) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
        %250 = "stable_mosaic.arith.select"(%245, %249, %arg10) : (i1, i32, i32) -> i32
        %251 = "stable_mosaic.arith.constant"() {value = -1 : i32} : () -> i32
        %252 = "stable_mosaic.arith.cmpi"(%250, %251) {predicate = 0 : i64} : (i32, i32) -> i1
        %253 = "stable_mosaic.arith.constant"() {value = 3 : i32} : () -> i32
        %254 = "stable_mosaic.arith.select"(%252, %253, %250) : (i1, i32, i32) -> i32
        %255 = "stable_mosaic.arith.constant"() {value = 1 : i32} : () -> i32
        %256 = "stable_mosaic.arith.addi"(%228, %255) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
        %257 = "stable_mosaic.arith.constant"() {value = true} : () -> i1
        %258 = "stable_mosaic.arith.select"(%257, %256, %228) : (i1, i32, i32) -> i32
        %259 = "stable_mosaic.arith.constant"() {value = 2 : i32} : () -> i32
        %260 = "stable_mosaic.arith.cmpi"(%258, %259) {predicate = 0 : i64} : (i32, i32) -> i1
        %261 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
        %262 = "stable_mosaic.arith.select"(%260, %261, %258) : (i1, i32, i32) -> i32
        %263 = "stable_mosaic.arith.constant"() {value = 1 : i32} : () -> i32
        %264 = "stable_mosaic.arith.addi"(%235, %263) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
        %265 = "stable_mosaic.arith.select"(%260, %264, %235) : (i1, i32, i32) -> i32
        %266 = "stable_mosaic.arith.constant"() {value = 4 : i32} : () -> i32
        %267 = "stable_mosaic.arith.cmpi"(%265, %266) {predicate = 0 : i64} : (i32, i32) -> i1
        %268 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
        %269 = "stable_mosaic.arith.select"(%267, %268, %265) : (i1, i32, i32) -> i32
        %270 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
        %271 = "stable_mosaic.arith.addi"(%254, %270) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
        %272 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
        %273 = "stable_mosaic.arith.addi"(%247, %272) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
        %274 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
        %275 = "stable_mosaic.arith.addi"(%269, %274) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
        %276 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
        %277 = "stable_mosaic.arith.addi"(%262, %276) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
        %278 = "stable_mosaic.arith.cmpi"(%218, %237) {predicate = 1 : i64} : (i32, i32) -> i1
        %279 = "stable_mosaic.arith.cmpi"(%220, %239) {predicate = 1 : i64} : (i32, i32) -> i1
        %280 = "stable_mosaic.arith.ori"(%278, %279) : (i1, i1) -> i1
        %281 = "stable_mosaic.arith.constant"() {value = 7 : i32} : () -> i32
        %282 = "stable_mosaic.arith.cmpi"(%arg3, %281) {predicate = 5 : i64} : (i32, i32) -> i1
        %283 = "stable_mosaic.arith.constant"() {value = true} : () -> i1
        %284 = "stable_mosaic.arith.xori"(%282, %283) : (i1, i1) -> i1
        %285 = "stable_mosaic.arith.andi"(%280, %284) : (i1, i1) -> i1
        %286 = "stable_mosaic.arith.constant"() {value = true} : () -> i1
        %287 = "stable_mosaic.arith.andi"(%285, %286) : (i1, i1) -> i1
        %288 = "stable_mosaic.arith.extui"(%287) : (i1) -> i32
        %289 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
        %290 = "stable_mosaic.arith.cmpi"(%288, %289) {predicate = 1 : i64} : (i32, i32) -> i1
        "stable_mosaic.scf.if"(%290) ({
          "stable_mosaic.tpu.trace_start"() {level = 10 : i32, message = "ep_copy_in"} : () -> ()
          %505 = "stable_mosaic.arith.constant"() {value = 2 : i32} : () -> i32
          %506 = "stable_mosaic.arith.remui"(%arg4, %505) : (i32, i32) -> i32
          %507 = "stable_mosaic.arith.constant"() {value = 64 : i32} : () -> i32
          %508 = "stable_mosaic.arith.muli"(%507, %237) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
          %509 = "stable_mosaic.arith.constant"() {value = 128 : i32} : () -> i32
          %510 = "stable_mosaic.arith.muli"(%509, %239) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
          %511 = "stable_mosaic.tpu.memref_slice"(%1, %506) {operandSegmentSizes = array<i32: 1, 1, 0>} : (memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>, i32) -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
          %512 = "stable_mosaic.tpu.memref_squeeze"(%511) : (memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
          %513 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
          %514 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
          %515 = "stable_mosaic.tpu.memref_slice"(%0, %506, %513, %514) {operandSegmentSizes = array<i32: 1, 3, 0>} : (memref<2x64x128xf32, #tpu.memory_space<vmem>>, i32, i32, i32) -> memref<1x64x128xf32, #tpu.memory_space<vmem>>
          %516 = "stable_mosaic.tpu.memref_squeeze"(%515) : (memref<1x64x128xf32, #tpu.memory_space<vmem>>) -> memref<64x128xf32, #tpu.memory_space<vmem>>
          %517 = "stable_mosaic.tpu.memref_slice"(%arg0, %508, %510) {operandSegmentSizes = array<i32: 1, 2, 0>} : (memref<256x256xf32, #tpu.memory_space<any>>, i32, i32) -> memref<64x128xf32, #tpu.memory_space<any>>
          "stable_mosaic.tpu.enqueue_dma"(%517, %516, %512) {operandSegmentSizes = array<i32: 1, 0, 1, 1, 0, 0>, priority = 0 : i32, strict_ordering = false} : (memref<64x128xf32, #tpu.memory_space<any>>, memref<64x128xf32, #tpu.memory_space<vmem>>, memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> ()
          "stable_mosaic.tpu.trace_stop"() : () -> ()
          "stable_mosaic.scf.yield"() : () -> ()
        }, {
          "stable_mosaic.scf.yield"() : () -> ()
        }) : (i1) -> ()
        %291 = "stable_mosaic.arith.constant"() {value = true} : () -> i1
        %292 = "stable_mosaic.arith.andi"(%285, %291) : (i1, i1) -> i1
        %293 = "stable_mosaic.arith.constant"() {value = 1 : i32} : () -> i32
        %294 = "stable_mosaic.arith.addi"(%arg4, %293) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
        %295 = "stable_mosaic.arith.select"(%292, %294, %arg4) : (i1, i32, i32) -> i32
        %296 = "stable_mosaic.arith.cmpi"(%220, %239) {predicate = 1 : i64} : (i32, i32) -> i1
        %297 = "stable_mosaic.arith.constant"() {value = 7 : i32} : () -> i32
        %298 = "stable_mosaic.arith.cmpi"(%arg3, %297) {predicate = 5 : i64} : (i32, i32) -> i1
        %299 = "stable_mosaic.arith.constant"() {value = true} : () -> i1
        %300 = "stable_mosaic.arith.xori"(%298, %299) : (i1, i1) -> i1
        %301 = "stable_mosaic.arith.andi"(%296, %300) : (i1, i1) -> i1
        %302 = "stable_mosaic.arith.constant"() {value = true} : () -> i1
        %303 = "stable_mosaic.arith.andi"(%301, %302) : (i1, i1) -> i1
        %304 = "stable_mosaic.arith.extui"(%303) : (i1) -> i32
        %305 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
        %306 = "stable_mosaic.arith.cmpi"(%304, %305) {predicate = 1 : i64} : (i32, i32) -> i1
        "stable_mosaic.scf.if"(%306) ({
          "stable_mosaic.tpu.trace_start"() {level = 10 : i32, message = "ep_copy_in"} : () -> ()
          %493 = "stable_mosaic.arith.constant"() {value = 2 : i32} : () -> i32
          %494 = "stable_mosaic.arith.remui"(%arg6, %493) : (i32, i32) -> i32
          %495 = "stable_mosaic.arith.constant"() {value = 128 : i32} : () -> i32
          %496 = "stable_mosaic.arith.muli"(%495, %239) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
          %497 = "stable_mosaic.tpu.memref_slice"(%3, %494) {operandSegmentSizes = array<i32: 1, 1, 0>} : (memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>, i32) -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
          %498 = "stable_mosaic.tpu.memref_squeeze"(%497) : (memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
          %499 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
          %500 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
          %501 = "stable_mosaic.tpu.memref_slice"(%2, %494, %499, %500) {operandSegmentSizes = array<i32: 1, 3, 0>} : (memref<2x64x128xf32, #tpu.memory_space<vmem>>, i32, i32, i32) -> memref<1x64x128xf32, #tpu.memory_space<vmem>>
          %502 = "stable_mosaic.tpu.memref_squeeze"(%501) : (memref<1x64x128xf32, #tpu.memory_space<vmem>>) -> memref<64x128xf32, #tpu.memory_space<vmem>>
          %503 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
          %504 = "stable_mosaic.tpu.memref_slice"(%arg1, %503, %496) {operandSegmentSizes = array<i32: 1, 2, 0>} : (memref<64x256xf32, #tpu.memory_space<any>>, i32, i32) -> memref<64x128xf32, #tpu.memory_space<any>>
          "stable_mosaic.tpu.enqueue_dma"(%504, %502, %498) {operandSegmentSizes = array<i32: 1, 0, 1, 1, 0, 0>, priority = 0 : i32, strict_ordering = false} : (memref<64x128xf32, #tpu.memory_space<any>>, memref<64x128xf32, #tpu.memory_space<vmem>>, memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> ()
          "stable_mosaic.tpu.trace_stop"() : () -> ()
          "stable_mosaic.scf.yield"() : () -> ()
        }, {
          "stable_mosaic.scf.yield"() : () -> ()
        }) : (i1) -> ()
        %307 = "stable_mosaic.arith.constant"() {value = true} : () -> i1
        %308 = "stable_mosaic.arith.andi"(%301, %307) : (i1, i1) -> i1
        %309 = "stable_mosaic.arith.constant"() {value = 1 : i32} : () -> i32
        %310 = "stable_mosaic.arith.addi"(%arg6, %309) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
        %311 = "stable_mosaic.arith.select"(%308, %310, %arg6) : (i1, i32, i32) -> i32
        %312 = "stable_mosaic.arith.cmpi"(%218, %271) {predicate = 1 : i64} : (i32, i32) -> i1
        %313 = "stable_mosaic.arith.cmpi"(%220, %273) {predicate = 1 : i64} : (i32, i32) -> i1
        %314 = "stable_mosaic.arith.ori"(%312, %313) : (i1, i1) -> i1
        %315 = "stable_mosaic.arith.constant"() {value = 9 : i32} : () -> i32
        %316 = "stable_mosaic.arith.cmpi"(%arg3, %315) {predicate = 5 : i64} : (i32, i32) -> i1
        %317 = "stable_mosaic.arith.constant"() {value = true} : () -> i1
        %318 = "stable_mosaic.arith.xori"(%316, %317) : (i1, i1) -> i1
        %319 = "stable_mosaic.arith.andi"(%314, %318) : (i1, i1) -> i1
        %320 = "stable_mosaic.arith.ori"(%319, %214) : (i1, i1) -> i1
        %321 = "stable_mosaic.arith.cmpi"(%218, %271) {predicate = 1 : i64} : (i32, i32) -> i1
        %322 = "stable_mosaic.arith.cmpi"(%220, %273) {predicate = 1 : i64} : (i32, i32) -> i1
        %323 = "stable_mosaic.arith.ori"(%321, %322) : (i1, i1) -> i1
        %324 = "stable_mosaic.arith.ori"(%323, %214) : (i1, i1) -> i1
        %325 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
        %326 = "stable_mosaic.arith.cmpi"(%arg3, %325) {predicate = 5 : i64} : (i32, i32) -> i1
        %327 = "stable_mosaic.arith.andi"(%324, %326) : (i1, i1) -> i1
        %328 = "stable_mosaic.arith.extui"(%327) : (i1) -> i32
        %329 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
        %330 = "stable_mosaic.arith.cmpi"(%328, %329) {predicate = 1 : i64} : (i32, i32) -> i1
        "stable_mosaic.scf.if"(%330) ({
          "stable_mosaic.tpu.trace_start"() {level = 10 : i32, message = "ep_wait_in"} : () -> ()
          %480 = "stable_mosaic.arith.constant"() {value = 64 : i32} : () -> i32
          %481 = "stable_mosaic.arith.muli"(%480, %218) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
          %482 = "stable_mosaic.arith.constant"() {value = 128 : i32} : () -> i32
          %483 = "stable_mosaic.arith.muli"(%482, %220) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
          %484 = "stable_mosaic.arith.constant"() {value = 2 : i32} : () -> i32
          %485 = "stable_mosaic.arith.remui"(%arg5, %484) : (i32, i32) -> i32
          %486 = "stable_mosaic.tpu.memref_slice"(%1, %485) {operandSegmentSizes = array<i32: 1, 1, 0>} : (memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>, i32) -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
          %487 = "stable_mosaic.tpu.memref_squeeze"(%486) : (memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
          %488 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
          %489 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
          %490 = "stable_mosaic.tpu.memref_slice"(%0, %485, %488, %489) {operandSegmentSizes = array<i32: 1, 3, 0>} : (memref<2x64x128xf32, #tpu.memory_space<vmem>>, i32, i32, i32) -> memref<1x64x128xf32, #tpu.memory_space<vmem>>
          %491 = "stable_mosaic.tpu.memref_squeeze"(%490) : (memref<1x64x128xf32, #tpu.memory_space<vmem>>) -> memref<64x128xf32, #tpu.memory_space<vmem>>
          %492 = "stable_mosaic.tpu.memref_slice"(%arg0, %481, %483) {operandSegmentSizes = array<i32: 1, 2, 0>} : (memref<256x256xf32, #tpu.memory_space<any>>, i32, i32) -> memref<64x128xf32, #tpu.memory_space<any>>
          "stable_mosaic.tpu.wait_dma"(%492, %491, %487) {operandSegmentSizes = array<i32: 1, 0, 1, 1, 0, 0>, priority = 0 : i32, strict_ordering = false, wait_target = true} : (memref<64x128xf32, #tpu.memory_space<any>>, memref<64x128xf32, #tpu.memory_space<vmem>>, memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> ()
          "stable_mosaic.tpu.trace_stop"() : () -> ()
          "stable_mosaic.scf.yield"() : () -> ()
        }, {
          "stable_mosaic.scf.yield"() : () -> ()
        }) : (i1) -> ()
        %331 = "stable_mosaic.arith.cmpi"(%220, %273) {predicate = 1 : i64} : (i32, i32) -> i1
        %332 = "stable_mosaic.arith.ori"(%331, %214) : (i1, i1) -> i1
        %333 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
        %334 = "stable_mosaic.arith.cmpi"(%arg3, %333) {predicate = 5 : i64} : (i32, i32) -> i1
        %335 = "stable_mosaic.arith.andi"(%332, %334) : (i1, i1) -> i1
        %336 = "stable_mosaic.arith.extui"(%335) : (i1) -> i32
        %337 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
        %338 = "stable_mosaic.arith.cmpi"(%336, %337) {predicate = 1 : i64} : (i32, i32) -> i1
        "stable_mosaic.scf.if"(%338) ({
          "stable_mosaic.tpu.trace_start"() {level = 10 : i32, message = "ep_wait_in"} : () -> ()
          %468 = "stable_mosaic.arith.constant"() {value = 128 : i32} : () -> i32
          %469 = "stable_mosaic.arith.muli"(%468, %220) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
          %470 = "stable_mosaic.arith.constant"() {value = 2 : i32} : () -> i32
          %471 = "stable_mosaic.arith.remui"(%arg7, %470) : (i32, i32) -> i32
          %472 = "stable_mosaic.tpu.memref_slice"(%3, %471) {operandSegmentSizes = array<i32: 1, 1, 0>} : (memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>, i32) -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
          %473 = "stable_mosaic.tpu.memref_squeeze"(%472) : (memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
          %474 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
          %475 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
          %476 = "stable_mosaic.tpu.memref_slice"(%2, %471, %474, %475) {operandSegmentSizes = array<i32: 1, 3, 0>} : (memref<2x64x128xf32, #tpu.memory_space<vmem>>, i32, i32, i32) -> memref<1x64x128xf32, #tpu.memory_space<vmem>>
          %477 = "stable_mosaic.tpu.memref_squeeze"(%476) : (memref<1x64x128xf32, #tpu.memory_space<vmem>>) -> memref<64x128xf32, #tpu.memory_space<vmem>>
          %478 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
          %479 = "stable_mosaic.tpu.memref_slice"(%arg1, %478, %469) {operandSegmentSizes = array<i32: 1, 2, 0>} : (memref<64x256xf32, #tpu.memory_space<any>>, i32, i32) -> memref<64x128xf32, #tpu.memory_space<any>>
          "stable_mosaic.tpu.wait_dma"(%479, %477, %473) {operandSegmentSizes = array<i32: 1, 0, 1, 1, 0, 0>, priority = 0 : i32, strict_ordering = false, wait_target = true} : (memref<64x128xf32, #tpu.memory_space<any>>, memref<64x128xf32, #tpu.memory_space<vmem>>, memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> ()
          "stable_mosaic.tpu.trace_stop"() : () -> ()
          "stable_mosaic.scf.yield"() : () -> ()
        }, {
          "stable_mosaic.scf.yield"() : () -> ()
        }) : (i1) -> ()
        %339 = "stable_mosaic.arith.cmpi"(%218, %271) {predicate = 1 : i64} : (i32, i32) -> i1
        %340 = "stable_mosaic.arith.cmpi"(%220, %273) {predicate = 1 : i64} : (i32, i32) -> i1
        %341 = "stable_mosaic.arith.ori"(%339, %340) : (i1, i1) -> i1
        %342 = "stable_mosaic.arith.ori"(%341, %214) : (i1, i1) -> i1
        %343 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
        %344 = "stable_mosaic.arith.cmpi"(%arg3, %343) {predicate = 5 : i64} : (i32, i32) -> i1
        %345 = "stable_mosaic.arith.andi"(%342, %344) : (i1, i1) -> i1
        %346 = "stable_mosaic.arith.extui"(%345) : (i1) -> i32
        %347 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
        %348 = "stable_mosaic.arith.cmpi"(%346, %347) {predicate = 1 : i64} : (i32, i32) -> i1
        "stable_mosaic.scf.if"(%348) ({
          "stable_mosaic.scf.yield"() : () -> ()
        }, {
          "stable_mosaic.scf.yield"() : () -> ()
        }) : (i1) -> ()
        %349 = "stable_mosaic.arith.constant"() {value = 2 : i32} : () -> i32
        %350 = "stable_mosaic.arith.remui"(%arg5, %349) : (i32, i32) -> i32
        %351 = "stable_mosaic.arith.constant"() {value = 2 : i32} : () -> i32
        %352 = "stable_mosaic.arith.remui"(%arg7, %351) : (i32, i32) -> i32
        %353 = "stable_mosaic.arith.constant"() {value = 2 : i32} : () -> i32
        %354 = "stable_mosaic.arith.remui"(%arg8, %353) : (i32, i32) -> i32
        "stable_mosaic.tpu.trace_start"() {level = 10 : i32, message = "ep_run_kernel"} : () -> ()
        %355 = "stable_mosaic.arith.index_cast"(%350) : (i32) -> index
        %356 = "stable_mosaic.arith.constant"() {value = 0 : index} : () -> index
        %357 = "stable_mosaic.arith.constant"() {value = 0 : index} : () -> index
        %358 = "stable_mosaic.vector.load"(%0, %355, %356, %357) : (memref<2x64x128xf32, #tpu.memory_space<vmem>>, index, index, index) -> vector<1x64x128xf32>
        %359 = "stable_mosaic.vector.shape_cast"(%358) : (vector<1x64x128xf32>) -> vector<64x128xf32>
        %360 = "stable_mosaic.math.tanh"(%359) {fastmath = #arith.fastmath<none>} : (vector<64x128xf32>) -> vector<64x128xf32>
        %361 = "stable_mosaic.arith.index_cast"(%352) : (i32) -> index
        %362 = "stable_mosaic.arith.constant"() {value = 0 : index} : () -> index
        %363 = "stable_mosaic.arith.constant"() {value = 0 : index} : () -> index
        %364 = "stable_mosaic.vector.load"(%2, %361, %362, %363) : (memref<2x64x128xf32, #tpu.memory_space<vmem>>, index, index, index) -> vector<1x64x128xf32>
        %365 = "stable_mosaic.vector.shape_cast"(%364) : (vector<1x64x128xf32>) -> vector<64x128xf32>
        %366 = "stable_mosaic.arith.addf"(%360, %365) {fastmath = #arith.fastmath<none>} : (vector<64x128xf32>, vector<64x128xf32>) -> vector<64x128xf32>
        %367 = "stable_mosaic.arith.index_cast"(%354) : (i32) -> index
        %368 = "stable_mosaic.arith.constant"() {value = 0 : index} : () -> index
        %369 = "stable_mosaic.arith.constant"() {value = 0 : index} : () -> index
        %370 = "stable_mosaic.vector.load"(%4, %367, %368, %369) : (memref<2x64x128xf32, #tpu.memory_space<vmem>>, index, index, index) -> vector<1x64x128xf32>
        %371 = "stable_mosaic.vector.shape_cast"(%370) : (vector<1x64x128xf32>) -> vector<64x128xf32>
        %372 = "stable_mosaic.vector.shape_cast"(%366) : (vector<64x128xf32>) -> vector<1x64x128xf32>
        "stable_mosaic.tpu.vector_store"(%372, %4, %367, %368, %369) {add = false, operandSegmentSizes = array<i32: 1, 1, 3, 0>, strides = array<i32>} : (vector<1x64x128xf32>, memref<2x64x128xf32, #tpu.memory_space<vmem>>, index, index, index) -> ()
        "stable_mosaic.tpu.trace_stop"() : () -> ()
        %373 = "stable_mosaic.arith.cmpi"(%218, %237) {predicate = 1 : i64} : (i32, i32) -> i1
        %374 = "stable_mosaic.arith.cmpi"(%220, %239) {predicate = 1 : i64} : (i32, i32) -> i1
        %375 = "stable_mosaic.arith.ori"(%373, %374) : (i1, i1) -> i1
        %376 = "stable_mosaic.arith.ori"(%375, %216) : (i1, i1) -> i1
        %377 = "stable_mosaic.arith.extui"(%376) : (i1) -> i32
        %378 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
        %379 = "stable_mosaic.arith.cmpi"(%377, %378) {predicate = 1 : i64} : (i32, i32) -> i1
        "stable_mosaic.scf.if"(%379) ({
          "stable_mosaic.scf.yield"() : () -> ()
        }, {
          "stable_mosaic.scf.yield"() : () -> ()
        }) : (i1) -> ()
        %380 = "stable_mosaic.arith.constant"() {value = false} : () -> i1
        %381 = "stable_mosaic.arith.andi"(%376, %380) : (i1, i1) -> i1
        %382 = "stable_mosaic.arith.cmpi"(%220, %239) {predicate = 1 : i64} : (i32, i32) -> i1
        %383 = "stable_mosaic.arith.ori"(%382, %216) : (i1, i1) -> i1
        %384 = "stable_mosaic.arith.extui"(%383) : (i1) -> i32
        %385 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
        %386 = "stable_mosaic.arith.cmpi"(%384, %385) {predicate = 1 : i64} : (i32, i32) -> i1
        "stable_mosaic.scf.if"(%386) ({
          "stable_mosaic.scf.yield"() : () -> ()
        }, {
          "stable_mosaic.scf.yield"() : () -> ()
        }) : (i1) -> ()
        %387 = "stable_mosaic.arith.constant"() {value = false} : () -> i1
        %388 = "stable_mosaic.arith.andi"(%383, %387) : (i1, i1) -> i1
        %389 = "stable_mosaic.arith.cmpi"(%218, %237) {predicate = 1 : i64} : (i32, i32) -> i1
        %390 = "stable_mosaic.arith.cmpi"(%220, %239) {predicate = 1 : i64} : (i32, i32) -> i1
        %391 = "stable_mosaic.arith.ori"(%389, %390) : (i1, i1) -> i1
        %392 = "stable_mosaic.arith.ori"(%391, %216) : (i1, i1) -> i1
        %393 = "stable_mosaic.arith.extui"(%392) : (i1) -> i32
        %394 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
        %395 = "stable_mosaic.arith.cmpi"(%393, %394) {predicate = 1 : i64} : (i32, i32) -> i1
        "stable_mosaic.scf.if"(%395) ({
          "stable_mosaic.tpu.trace_start"() {level = 10 : i32, message = "ep_copy_out"} : () -> ()
          %455 = "stable_mosaic.arith.constant"() {value = 2 : i32} : () -> i32
          %456 = "stable_mosaic.arith.remui"(%arg8, %455) : (i32, i32) -> i32
          %457 = "stable_mosaic.arith.constant"() {value = 64 : i32} : () -> i32
          %458 = "stable_mosaic.arith.muli"(%457, %218) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
          %459 = "stable_mosaic.arith.constant"() {value = 128 : i32} : () -> i32
          %460 = "stable_mosaic.arith.muli"(%459, %220) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
          %461 = "stable_mosaic.tpu.memref_slice"(%5, %456) {operandSegmentSizes = array<i32: 1, 1, 0>} : (memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>, i32) -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
          %462 = "stable_mosaic.tpu.memref_squeeze"(%461) : (memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
          %463 = "stable_mosaic.tpu.memref_slice"(%arg2, %458, %460) {operandSegmentSizes = array<i32: 1, 2, 0>} : (memref<256x256xf32, #tpu.memory_space<any>>, i32, i32) -> memref<64x128xf32, #tpu.memory_space<any>>
          %464 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
          %465 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
          %466 = "stable_mosaic.tpu.memref_slice"(%4, %456, %464, %465) {operandSegmentSizes = array<i32: 1, 3, 0>} : (memref<2x64x128xf32, #tpu.memory_space<vmem>>, i32, i32, i32) -> memref<1x64x128xf32, #tpu.memory_space<vmem>>
          %467 = "stable_mosaic.tpu.memref_squeeze"(%466) : (memref<1x64x128xf32, #tpu.memory_space<vmem>>) -> memref<64x128xf32, #tpu.memory_space<vmem>>
          "stable_mosaic.tpu.enqueue_dma"(%467, %463, %462) {operandSegmentSizes = array<i32: 1, 0, 1, 1, 0, 0>, priority = 0 : i32, strict_ordering = false} : (memref<64x128xf32, #tpu.memory_space<vmem>>, memref<64x128xf32, #tpu.memory_space<any>>, memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> ()
          "stable_mosaic.tpu.trace_stop"() : () -> ()
          "stable_mosaic.scf.yield"() : () -> ()
        }, {
          "stable_mosaic.scf.yield"() : () -> ()
        }) : (i1) -> ()
        %396 = "stable_mosaic.arith.constant"() {value = true} : () -> i1
        %397 = "stable_mosaic.arith.andi"(%392, %396) : (i1, i1) -> i1
        %398 = "stable_mosaic.arith.constant"() {value = 1 : i32} : () -> i32
        %399 = "stable_mosaic.arith.addi"(%arg8, %398) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
        %400 = "stable_mosaic.arith.select"(%397, %399, %arg8) : (i1, i32, i32) -> i32
        %401 = "stable_mosaic.arith.cmpi"(%218, %271) {predicate = 1 : i64} : (i32, i32) -> i1
        %402 = "stable_mosaic.arith.cmpi"(%220, %273) {predicate = 1 : i64} : (i32, i32) -> i1
        %403 = "stable_mosaic.arith.ori"(%401, %402) : (i1, i1) -> i1
        %404 = "stable_mosaic.arith.constant"() {value = 1 : i32} : () -> i32
        %405 = "stable_mosaic.arith.cmpi"(%arg3, %404) {predicate = 5 : i64} : (i32, i32) -> i1
        %406 = "stable_mosaic.arith.andi"(%403, %405) : (i1, i1) -> i1
        %407 = "stable_mosaic.arith.extui"(%406) : (i1) -> i32
        %408 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
        %409 = "stable_mosaic.arith.cmpi"(%407, %408) {predicate = 1 : i64} : (i32, i32) -> i1
        "stable_mosaic.scf.if"(%409) ({
          "stable_mosaic.tpu.trace_start"() {level = 10 : i32, message = "ep_wait_out"} : () -> ()
          %442 = "stable_mosaic.arith.constant"() {value = 2 : i32} : () -> i32
          %443 = "stable_mosaic.arith.remui"(%arg9, %442) : (i32, i32) -> i32
          %444 = "stable_mosaic.arith.constant"() {value = 64 : i32} : () -> i32
          %445 = "stable_mosaic.arith.muli"(%444, %271) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
          %446 = "stable_mosaic.arith.constant"() {value = 128 : i32} : () -> i32
          %447 = "stable_mosaic.arith.muli"(%446, %273) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
          %448 = "stable_mosaic.tpu.memref_slice"(%5, %443) {operandSegmentSizes = array<i32: 1, 1, 0>} : (memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>, i32) -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
          %449 = "stable_mosaic.tpu.memref_squeeze"(%448) : (memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
          %450 = "stable_mosaic.tpu.memref_slice"(%arg2, %445, %447) {operandSegmentSizes = array<i32: 1, 2, 0>} : (memref<256x256xf32, #tpu.memory_space<any>>, i32, i32) -> memref<64x128xf32, #tpu.memory_space<any>>
          %451 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
          %452 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
          %453 = "stable_mosaic.tpu.memref_slice"(%4, %443, %451, %452) {operandSegmentSizes = array<i32: 1, 3, 0>} : (memref<2x64x128xf32, #tpu.memory_space<vmem>>, i32, i32, i32) -> memref<1x64x128xf32, #tpu.memory_space<vmem>>
          %454 = "stable_mosaic.tpu.memref_squeeze"(%453) : (memref<1x64x128xf32, #tpu.memory_space<vmem>>) -> memref<64x128xf32, #tpu.memory_space<vmem>>
          "stable_mosaic.tpu.wait_dma"(%454, %450, %449) {operandSegmentSizes = array<i32: 1, 0, 1, 1, 0, 0>, priority = 0 : i32, strict_ordering = false, wait_target = true} : (memref<64x128xf32, #tpu.memory_space<vmem>>, memref<64x128xf32, #tpu.memory_space<any>>, memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> ()
          "stable_mosaic.tpu.trace_stop"() : () -> ()
          "stable_mosaic.scf.yield"() : () -> ()
        }, {
          "stable_mosaic.scf.yield"() : () -> ()
        }) : (i1) -> ()
        %410 = "stable_mosaic.arith.constant"() {value = true} : () -> i1
        %411 = "stable_mosaic.arith.andi"(%406, %410) : (i1, i1) -> i1
        %412 = "stable_mosaic.arith.constant"() {value = 1 : i32} : () -> i32
        %413 = "stable_mosaic.arith.addi"(%arg9, %412) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
        %414 = "stable_mosaic.arith.select"(%411, %413, %arg9) : (i1, i32, i32) -> i32
        %415 = "stable_mosaic.arith.cmpi"(%218, %237) {predicate = 1 : i64} : (i32, i32) -> i1
        %416 = "stable_mosaic.arith.cmpi"(%220, %239) {predicate = 1 : i64} : (i32, i32) -> i1
        %417 = "stable_mosaic.arith.ori"(%415, %416) : (i1, i1) -> i1
        %418 = "stable_mosaic.arith.ori"(%417, %216) : (i1, i1) -> i1
        %419 = "stable_mosaic.arith.constant"() {value = 1 : i32} : () -> i32
        %420 = "stable_mosaic.arith.addi"(%arg5, %419) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
        %421 = "stable_mosaic.arith.select"(%418, %420, %arg5) : (i1, i32, i32) -> i32
        %422 = "stable_mosaic.arith.cmpi"(%220, %239) {predicate = 1 : i64} : (i32, i32) -> i1
        %423 = "stable_mosaic.arith.ori"(%422, %216) : (i1, i1) -> i1
        %424 = "stable_mosaic.arith.constant"() {value = 1 : i32} : () -> i32
        %425 = "stable_mosaic.arith.addi"(%arg7, %424) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
        %426 = "stable_mosaic.arith.select"(%423, %425, %arg7) : (i1, i32, i32) -> i32
        %427 = "stable_mosaic.arith.constant"() {value = 1 : i32} : () -> i32
        %428 = "stable_mosaic.arith.addi"(%arg11, %427) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
        %429 = "stable_mosaic.arith.constant"() {value = true} : () -> i1
        %430 = "stable_mosaic.arith.select"(%429, %428, %arg11) : (i1, i32, i32) -> i32
        %431 = "stable_mosaic.arith.constant"() {value = 2 : i32} : () -> i32
        %432 = "stable_mosaic.arith.cmpi"(%430, %431) {predicate = 0 : i64} : (i32, i32) -> i1
        %433 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
        %434 = "stable_mosaic.arith.select"(%432, %433, %430) : (i1, i32, i32) -> i32
        %435 = "stable_mosaic.arith.constant"() {value = 1 : i32} : () -> i32
        %436 = "stable_mosaic.arith.addi"(%arg10, %435) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
        %437 = "stable_mosaic.arith.select"(%432, %436, %arg10) : (i1, i32, i32) -> i32
        %438 = "stable_mosaic.arith.constant"() {value = 4 : i32} : () -> i32
        %439 = "stable_mosaic.arith.cmpi"(%437, %438) {predicate = 0 : i64} : (i32, i32) -> i1
        %440 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
        %441 = "stable_mosaic.arith.select"(%439, %440, %437) : (i1, i32, i32) -> i32
        "stable_mosaic.scf.yield"(%295, %421, %311, %426, %400, %414, %441, %434) : (i32, i32, i32, i32, i32, i32, i32, i32) -> ()
      }) : (i32, i32, i32, i32, i32, i32, i32, i32, i32, i32, i32) -> (i32, i32, i32, i32, i32, i32, i32, i32)
      %121 = "stable_mosaic.arith.constant"() {value = 8 : i32} : () -> i32
      %122 = "stable_mosaic.arith.constant"() {value = 1 : i32} : () -> i32
      %123 = "stable_mosaic.arith.subi"(%120#7, %122) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
      %124 = "stable_mosaic.arith.constant"() {value = true} : () -> i1
      %125 = "stable_mosaic.arith.select"(%124, %123, %120#7) : (i1, i32, i32) -> i32
      %126 = "stable_mosaic.arith.constant"() {value = -1 : i32} : () -> i32
      %127 = "stable_mosaic.arith.cmpi"(%125, %126) {predicate = 0 : i64} : (i32, i32) -> i1
      %128 = "stable_mosaic.arith.constant"() {value = 1 : i32} : () -> i32
      %129 = "stable_mosaic.arith.select"(%127, %128, %125) : (i1, i32, i32) -> i32
      %130 = "stable_mosaic.arith.constant"() {value = 1 : i32} : () -> i32
      %131 = "stable_mosaic.arith.subi"(%120#6, %130) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
      %132 = "stable_mosaic.arith.select"(%127, %131, %120#6) : (i1, i32, i32) -> i32
      %133 = "stable_mosaic.arith.constant"() {value = -1 : i32} : () -> i32
      %134 = "stable_mosaic.arith.cmpi"(%132, %133) {predicate = 0 : i64} : (i32, i32) -> i1
      %135 = "stable_mosaic.arith.constant"() {value = 3 : i32} : () -> i32
      %136 = "stable_mosaic.arith.select"(%134, %135, %132) : (i1, i32, i32) -> i32
      %137 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %138 = "stable_mosaic.arith.addi"(%136, %137) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
      %139 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %140 = "stable_mosaic.arith.addi"(%129, %139) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
      %141 = "stable_mosaic.arith.constant"() {value = 1 : i32} : () -> i32
      %142 = "stable_mosaic.arith.addi"(%129, %141) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
      %143 = "stable_mosaic.arith.constant"() {value = true} : () -> i1
      %144 = "stable_mosaic.arith.select"(%143, %142, %129) : (i1, i32, i32) -> i32
      %145 = "stable_mosaic.arith.constant"() {value = 2 : i32} : () -> i32
      %146 = "stable_mosaic.arith.cmpi"(%144, %145) {predicate = 0 : i64} : (i32, i32) -> i1
      %147 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %148 = "stable_mosaic.arith.select"(%146, %147, %144) : (i1, i32, i32) -> i32
      %149 = "stable_mosaic.arith.constant"() {value = 1 : i32} : () -> i32
      %150 = "stable_mosaic.arith.addi"(%136, %149) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
      %151 = "stable_mosaic.arith.select"(%146, %150, %136) : (i1, i32, i32) -> i32
      %152 = "stable_mosaic.arith.constant"() {value = 4 : i32} : () -> i32
      %153 = "stable_mosaic.arith.cmpi"(%151, %152) {predicate = 0 : i64} : (i32, i32) -> i1
      %154 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %155 = "stable_mosaic.arith.select"(%153, %154, %151) : (i1, i32, i32) -> i32
      %156 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %157 = "stable_mosaic.arith.addi"(%155, %156) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
      %158 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %159 = "stable_mosaic.arith.addi"(%148, %158) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
      %160 = "stable_mosaic.arith.constant"() {value = 1 : i32} : () -> i32
      %161 = "stable_mosaic.arith.subi"(%129, %160) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
      %162 = "stable_mosaic.arith.constant"() {value = true} : () -> i1
      %163 = "stable_mosaic.arith.select"(%162, %161, %129) : (i1, i32, i32) -> i32
      %164 = "stable_mosaic.arith.constant"() {value = -1 : i32} : () -> i32
      %165 = "stable_mosaic.arith.cmpi"(%163, %164) {predicate = 0 : i64} : (i32, i32) -> i1
      %166 = "stable_mosaic.arith.constant"() {value = 1 : i32} : () -> i32
      %167 = "stable_mosaic.arith.select"(%165, %166, %163) : (i1, i32, i32) -> i32
      %168 = "stable_mosaic.arith.constant"() {value = 1 : i32} : () -> i32
      %169 = "stable_mosaic.arith.subi"(%136, %168) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
      %170 = "stable_mosaic.arith.select"(%165, %169, %136) : (i1, i32, i32) -> i32
      %171 = "stable_mosaic.arith.constant"() {value = -1 : i32} : () -> i32
      %172 = "stable_mosaic.arith.cmpi"(%170, %171) {predicate = 0 : i64} : (i32, i32) -> i1
      %173 = "stable_mosaic.arith.constant"() {value = 3 : i32} : () -> i32
      %174 = "stable_mosaic.arith.select"(%172, %173, %170) : (i1, i32, i32) -> i32
      %175 = "stable_mosaic.arith.constant"() {value = 1 : i32} : () -> i32
      %176 = "stable_mosaic.arith.addi"(%148, %175) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
      %177 = "stable_mosaic.arith.constant"() {value = true} : () -> i1
      %178 = "stable_mosaic.arith.select"(%177, %176, %148) : (i1, i32, i32) -> i32
      %179 = "stable_mosaic.arith.constant"() {value = 2 : i32} : () -> i32
      %180 = "stable_mosaic.arith.cmpi"(%178, %179) {predicate = 0 : i64} : (i32, i32) -> i1
      %181 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %182 = "stable_mosaic.arith.select"(%180, %181, %178) : (i1, i32, i32) -> i32
      %183 = "stable_mosaic.arith.constant"() {value = 1 : i32} : () -> i32
      %184 = "stable_mosaic.arith.addi"(%155, %183) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
      %185 = "stable_mosaic.arith.select"(%180, %184, %155) : (i1, i32, i32) -> i32
      %186 = "stable_mosaic.arith.constant"() {value = 4 : i32} : () -> i32
      %187 = "stable_mosaic.arith.cmpi"(%185, %186) {predicate = 0 : i64} : (i32, i32) -> i1
      %188 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %189 = "stable_mosaic.arith.select"(%187, %188, %185) : (i1, i32, i32) -> i32
      %190 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %191 = "stable_mosaic.arith.addi"(%174, %190) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
      %192 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %193 = "stable_mosaic.arith.addi"(%167, %192) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
      %194 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %195 = "stable_mosaic.arith.addi"(%189, %194) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
      %196 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %197 = "stable_mosaic.arith.addi"(%182, %196) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
      "stable_mosaic.tpu.trace_start"() {level = 10 : i32, message = "ep_finalize_0"} : () -> ()
      %198 = "stable_mosaic.arith.constant"() {value = 2 : i32} : () -> i32
      %199 = "stable_mosaic.arith.remui"(%120#5, %198) : (i32, i32) -> i32
      %200 = "stable_mosaic.arith.constant"() {value = 64 : i32} : () -> i32
      %201 = "stable_mosaic.arith.muli"(%200, %138) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
      %202 = "stable_mosaic.arith.constant"() {value = 128 : i32} : () -> i32
      %203 = "stable_mosaic.arith.muli"(%202, %140) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
      %204 = "stable_mosaic.tpu.memref_slice"(%5, %199) {operandSegmentSizes = array<i32: 1, 1, 0>} : (memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>, i32) -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %205 = "stable_mosaic.tpu.memref_squeeze"(%204) : (memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %206 = "stable_mosaic.tpu.memref_slice"(%arg2, %201, %203) {operandSegmentSizes = array<i32: 1, 2, 0>} : (memref<256x256xf32, #tpu.memory_space<any>>, i32, i32) -> memref<64x128xf32, #tpu.memory_space<any>>
      %207 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %208 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %209 = "stable_mosaic.tpu.memref_slice"(%4, %199, %207, %208) {operandSegmentSizes = array<i32: 1, 3, 0>} : (memref<2x64x128xf32, #tpu.memory_space<vmem>>, i32, i32, i32) -> memref<1x64x128xf32, #tpu.memory_space<vmem>>
      %210 = "stable_mosaic.tpu.memref_squeeze"(%209) : (memref<1x64x128xf32, #tpu.memory_space<vmem>>) -> memref<64x128xf32, #tpu.memory_space<vmem>>
      "stable_mosaic.tpu.wait_dma"(%210, %206, %205) {operandSegmentSizes = array<i32: 1, 0, 1, 1, 0, 0>, priority = 0 : i32, strict_ordering = false, wait_target = true} : (memref<64x128xf32, #tpu.memory_space<vmem>>, memref<64x128xf32, #tpu.memory_space<any>>, memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> ()
      "stable_mosaic.tpu.trace_stop"() : () -> ()
      %211 = "stable_mosaic.arith.constant"() {value = 1 : i32} : () -> i32
      %212 = "stable_mosaic.arith.addi"(%120#5, %211) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
      "stable_mosaic.tpu.yield"() : () -> ()
    }) : () -> ()
    "stable_mosaic.func.return"() : () -> ()
  }) {dimension_semantics = [], function_type = (memref<256x256xf32, #tpu.memory_space<any>>, memref<64x256xf32, #tpu.memory_space<any>>, memref<256x256xf32, #tpu.memory_space<any>>) -> (), scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, sym_name = "kernel", tpu.core_type = #tpu.core_type<tc>} : () -> ()
}) {stable_mosaic.version = 12 : i64} : () -> ()
