"builtin.module"() <{sym_name = "kernel"}> ({
  "func.func"() <{function_type = (memref<256x256xf32, #tpu.memory_space<any>>, memref<64x256xf32, #tpu.memory_space<any>>, memref<256x256xf32, #tpu.memory_space<any>>) -> (), sym_name = "kernel"}> ({
  ^bb0(%arg0: memref<256x256xf32, #tpu.memory_space<any>>, %arg1: memref<64x256xf32, #tpu.memory_space<any>>, %arg2: memref<256x256xf32, #tpu.memory_space<any>>):
    "tpu.region"() ({
      %0 = "memref.alloca"() <{operandSegmentSizes = array<i32: 0, 0>}> : () -> memref<2x64x128xf32, #tpu.memory_space<vmem>>
      %1 = "tpu.sem_alloc"() : () -> memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %2 = "memref.alloca"() <{operandSegmentSizes = array<i32: 0, 0>}> : () -> memref<2x64x128xf32, #tpu.memory_space<vmem>>
      %3 = "tpu.sem_alloc"() : () -> memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %4 = "memref.alloca"() <{operandSegmentSizes = array<i32: 0, 0>}> : () -> memref<2x64x128xf32, #tpu.memory_space<vmem>>
      %5 = "tpu.sem_alloc"() : () -> memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %6 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %7 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %8 = "arith.addi"(%6, %7) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %9 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %10 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %11 = "arith.addi"(%9, %10) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %12 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %13 = "arith.constant"() <{value = 1 : i32}> : () -> i32
      %14 = "arith.addi"(%12, %13) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %15 = "arith.constant"() <{value = true}> : () -> i1
      %16 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %17 = "arith.select"(%15, %14, %16) : (i1, i32, i32) -> i32
      %18 = "arith.constant"() <{value = 2 : i32}> : () -> i32
      %19 = "arith.cmpi"(%17, %18) <{predicate = 0 : i64}> : (i32, i32) -> i1
      %20 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %21 = "arith.select"(%19, %20, %17) : (i1, i32, i32) -> i32
      %22 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %23 = "arith.constant"() <{value = 1 : i32}> : () -> i32
      %24 = "arith.addi"(%22, %23) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %25 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %26 = "arith.select"(%19, %24, %25) : (i1, i32, i32) -> i32
      %27 = "arith.constant"() <{value = 4 : i32}> : () -> i32
      %28 = "arith.cmpi"(%26, %27) <{predicate = 0 : i64}> : (i32, i32) -> i1
      %29 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %30 = "arith.select"(%28, %29, %26) : (i1, i32, i32) -> i32
      %31 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %32 = "arith.addi"(%30, %31) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %33 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %34 = "arith.addi"(%21, %33) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %35 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %36 = "arith.constant"() <{value = 1 : i32}> : () -> i32
      %37 = "arith.subi"(%35, %36) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %38 = "arith.constant"() <{value = true}> : () -> i1
      %39 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %40 = "arith.select"(%38, %37, %39) : (i1, i32, i32) -> i32
      %41 = "arith.constant"() <{value = -1 : i32}> : () -> i32
      %42 = "arith.cmpi"(%40, %41) <{predicate = 0 : i64}> : (i32, i32) -> i1
      %43 = "arith.constant"() <{value = 1 : i32}> : () -> i32
      %44 = "arith.select"(%42, %43, %40) : (i1, i32, i32) -> i32
      %45 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %46 = "arith.constant"() <{value = 1 : i32}> : () -> i32
      %47 = "arith.subi"(%45, %46) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %48 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %49 = "arith.select"(%42, %47, %48) : (i1, i32, i32) -> i32
      %50 = "arith.constant"() <{value = -1 : i32}> : () -> i32
      %51 = "arith.cmpi"(%49, %50) <{predicate = 0 : i64}> : (i32, i32) -> i1
      %52 = "arith.constant"() <{value = 3 : i32}> : () -> i32
      %53 = "arith.select"(%51, %52, %49) : (i1, i32, i32) -> i32
      %54 = "arith.constant"() <{value = 1 : i32}> : () -> i32
      %55 = "arith.addi"(%21, %54) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %56 = "arith.constant"() <{value = true}> : () -> i1
      %57 = "arith.select"(%56, %55, %21) : (i1, i32, i32) -> i32
      %58 = "arith.constant"() <{value = 2 : i32}> : () -> i32
      %59 = "arith.cmpi"(%57, %58) <{predicate = 0 : i64}> : (i32, i32) -> i1
      %60 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %61 = "arith.select"(%59, %60, %57) : (i1, i32, i32) -> i32
      %62 = "arith.constant"() <{value = 1 : i32}> : () -> i32
      %63 = "arith.addi"(%30, %62) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %64 = "arith.select"(%59, %63, %30) : (i1, i32, i32) -> i32
      %65 = "arith.constant"() <{value = 4 : i32}> : () -> i32
      %66 = "arith.cmpi"(%64, %65) <{predicate = 0 : i64}> : (i32, i32) -> i1
      %67 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %68 = "arith.select"(%66, %67, %64) : (i1, i32, i32) -> i32
      %69 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %70 = "arith.addi"(%53, %69) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %71 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %72 = "arith.addi"(%44, %71) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %73 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %74 = "arith.addi"(%68, %73) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %75 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %76 = "arith.addi"(%61, %75) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      "tpu.trace_start"() <{level = 10 : i32, message = "ep_initialize_0"}> : () -> ()
      %77 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %78 = "arith.constant"() <{value = 2 : i32}> : () -> i32
      %79 = "arith.remui"(%77, %78) : (i32, i32) -> i32
      %80 = "arith.constant"() <{value = 64 : i32}> : () -> i32
      %81 = "arith.muli"(%80, %8) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %82 = "arith.constant"() <{value = 128 : i32}> : () -> i32
      %83 = "arith.muli"(%82, %11) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %84 = "tpu.memref_slice"(%1, %79) <{operandSegmentSizes = array<i32: 1, 1, 0>}> : (memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>, i32) -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %85 = "tpu.memref_squeeze"(%84) : (memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %86 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %87 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %88 = "tpu.memref_slice"(%0, %79, %86, %87) <{operandSegmentSizes = array<i32: 1, 3, 0>}> : (memref<2x64x128xf32, #tpu.memory_space<vmem>>, i32, i32, i32) -> memref<1x64x128xf32, #tpu.memory_space<vmem>>
      %89 = "tpu.memref_squeeze"(%88) : (memref<1x64x128xf32, #tpu.memory_space<vmem>>) -> memref<64x128xf32, #tpu.memory_space<vmem>>
      %90 = "tpu.memref_slice"(%arg0, %81, %83) <{operandSegmentSizes = array<i32: 1, 2, 0>}> : (memref<256x256xf32, #tpu.memory_space<any>>, i32, i32) -> memref<64x128xf32, #tpu.memory_space<any>>
      "tpu.enqueue_dma"(%90, %89, %85) <{operandSegmentSizes = array<i32: 1, 0, 1, 1, 0, 0, 0>, priority = 0 : i32, strict_ordering = false}> : (memref<64x128xf32, #tpu.memory_space<any>>, memref<64x128xf32, #tpu.memory_space<vmem>>, memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> ()
      %91 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %92 = "arith.constant"() <{value = 1 : i32}> : () -> i32
      %93 = "arith.addi"(%91, %92) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %94 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %95 = "arith.constant"() <{value = 2 : i32}> : () -> i32
      %96 = "arith.remui"(%94, %95) : (i32, i32) -> i32
      %97 = "arith.constant"() <{value = 128 : i32}> : () -> i32
      %98 = "arith.muli"(%97, %11) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %99 = "tpu.memref_slice"(%3, %96) <{operandSegmentSizes = array<i32: 1, 1, 0>}> : (memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>, i32) -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %100 = "tpu.memref_squeeze"(%99) : (memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %101 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %102 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %103 = "tpu.memref_slice"(%2, %96, %101, %102) <{operandSegmentSizes = array<i32: 1, 3, 0>}> : (memref<2x64x128xf32, #tpu.memory_space<vmem>>, i32, i32, i32) -> memref<1x64x128xf32, #tpu.memory_space<vmem>>
      %104 = "tpu.memref_squeeze"(%103) : (memref<1x64x128xf32, #tpu.memory_space<vmem>>) -> memref<64x128xf32, #tpu.memory_space<vmem>>
      %105 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %106 = "tpu.memref_slice"(%arg1, %105, %98) <{operandSegmentSizes = array<i32: 1, 2, 0>}> : (memref<64x256xf32, #tpu.memory_space<any>>, i32, i32) -> memref<64x128xf32, #tpu.memory_space<any>>
      "tpu.enqueue_dma"(%106, %104, %100) <{operandSegmentSizes = array<i32: 1, 0, 1, 1, 0, 0, 0>, priority = 0 : i32, strict_ordering = false}> : (memref<64x128xf32, #tpu.memory_space<any>>, memref<64x128xf32, #tpu.memory_space<vmem>>, memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> ()
      %107 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %108 = "arith.constant"() <{value = 1 : i32}> : () -> i32
      %109 = "arith.addi"(%107, %108) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      "tpu.trace_stop"() : () -> ()
      %110 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %111 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %112 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %113 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %114 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %115 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %116 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %117 = "arith.constant"() <{value = 8 : i32}> : () -> i32
      %118 = "arith.addi"(%116, %117) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %119 = "arith.constant"() <{value = 1 : i32}> : () -> i32
      %120:8 = "scf.for"(%116, %118, %119, %93, %110, %109, %111, %112, %113, %114, %115) ({
      ^bb0(%arg3: i32, %arg4: i32, %arg5: i32, %arg6: i32, %arg7: i32, %arg8: i32, %arg9: i32, %arg10: i32, %arg11: i32):
        %213 = "arith.constant"() <{value = 0 : i32}> : () -> i32
        %214 = "arith.cmpi"(%arg3, %213) <{predicate = 0 : i64}> : (i32, i32) -> i1
        %215 = "arith.constant"() <{value = 7 : i32}> : () -> i32
        %216 = "arith.cmpi"(%arg3, %215) <{predicate = 0 : i64}> : (i32, i32) -> i1
        %217 = "arith.constant"() <{value = 0 : i32}> : () -> i32
        %218 = "arith.addi"(%arg10, %217) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %219 = "arith.constant"() <{value = 0 : i32}> : () -> i32
        %220 = "arith.addi"(%arg11, %219) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %221 = "arith.constant"() <{value = 1 : i32}> : () -> i32
        %222 = "arith.addi"(%arg11, %221) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %223 = "arith.constant"() <{value = true}> : () -> i1
        %224 = "arith.select"(%223, %222, %arg11) : (i1, i32, i32) -> i32
        %225 = "arith.constant"() <{value = 2 : i32}> : () -> i32
        %226 = "arith.cmpi"(%224, %225) <{predicate = 0 : i64}> : (i32, i32) -> i1
        %227 = "arith.constant"() <{value = 0 : i32}> : () -> i32
        %228 = "arith.select"(%226, %227, %224) : (i1, i32, i32) -> i32
        %229 = "arith.constant"() <{value = 1 : i32}> : () -> i32
        %230 = "arith.addi"(%arg10, %229) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %231 = "arith.select"(%226, %230, %arg10) : (i1, i32, i32) -> i32
        %232 = "arith.constant"() <{value = 4 : i32}> : () -> i32
        %233 = "arith.cmpi"(%231, %232) <{predicate = 0 : i64}> : (i32, i32) -> i1
        %234 = "arith.constant"() <{value = 0 : i32}> : () -> i32
        %235 = "arith.select"(%233, %234, %231) : (i1, i32, i32) -> i32
        %236 = "arith.constant"() <{value = 0 : i32}> : () -> i32
        %237 = "arith.addi"(%235, %236) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %238 = "arith.constant"() <{value = 0 : i32}> : () -> i32
        %239 = "arith.addi"(%228, %238) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %240 = "arith.constant"() <{value = 1 : i32}> : () -> i32
        %241 = "arith.subi"(%arg11, %240) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %242 = "arith.constant"() <{value = true}> : () -> i1
        %243 = "arith.select"(%242, %241, %arg11) : (i1, i32, i32) -> i32
        %244 = "arith.constant"() <{value = -1 : i32}> : () -> i32
        %245 = "arith.cmpi"(%243, %244) <{predicate = 0 : i64}> : (i32, i32) -> i1
        %246 = "arith.constant"() <{value = 1 : i32}> : () -> i32
        %247 = "arith.select"(%245, %246, %243) : (i1, i32, i32) -> i32
        %248 = "arith.constant"() <{value = 1 : i32}> : () -> i32
        %249 = "arith.subi"(%arg10, %248) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %250 = "arith.select"(%245, %249, %arg10) : (i1, i32, i32) -> i32
        %251 = "arith.constant"() <{value = -1 : i32}> : () -> i32
        %252 = "arith.cmpi"(%250, %251) <{predicate = 0 : i64}> : (i32, i32) -> i1
        %253 = "arith.constant"() <{value = 3 : i32}> : () -> i32
        %254 = "arith.select"(%252, %253, %250) : (i1, i32, i32) -> i32
        %255 = "arith.constant"() <{value = 1 : i32}> : () -> i32
        %256 = "arith.addi"(%228, %255) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %257 = "arith.constant"() <{value = true}> : () -> i1
        %258 = "arith.select"(%257, %256, %228) : (i1, i32, i32) -> i32
        %259 = "arith.constant"() <{value = 2 : i32}> : () -> i32
        %260 = "arith.cmpi"(%258, %259) <{predicate = 0 : i64}> : (i32, i32) -> i1
        %261 = "arith.constant"() <{value = 0 : i32}> : () -> i32
        %262 = "arith.select"(%260, %261, %258) : (i1, i32, i32) -> i32
        %263 = "arith.constant"() <{value = 1 : i32}> : () -> i32
        %264 = "arith.addi"(%235, %263) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %265 = "arith.select"(%260, %264, %235) : (i1, i32, i32) -> i32
        %266 = "arith.constant"() <{value = 4 : i32}> : () -> i32
        %267 = "arith.cmpi"(%265, %266) <{predicate = 0 : i64}> : (i32, i32) -> i1
        %268 = "arith.constant"() <{value = 0 : i32}> : () -> i32
        %269 = "arith.select"(%267, %268, %265) : (i1, i32, i32) -> i32
        %270 = "arith.constant"() <{value = 0 : i32}> : () -> i32
        %271 = "arith.addi"(%254, %270) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %272 = "arith.constant"() <{value = 0 : i32}> : () -> i32
        %273 = "arith.addi"(%247, %272) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %274 = "arith.constant"() <{value = 0 : i32}> : () -> i32
        %275 = "arith.addi"(%269, %274) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %276 = "arith.constant"() <{value = 0 : i32}> : () -> i32
        %277 = "arith.addi"(%262, %276) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %278 = "arith.cmpi"(%218, %237) <{predicate = 1 : i64}> : (i32, i32) -> i1
        %279 = "arith.cmpi"(%220, %239) <{predicate = 1 : i64}> : (i32, i32) -> i1
        %280 = "arith.ori"(%278, %279) : (i1, i1) -> i1
        %281 = "arith.constant"() <{value = 7 : i32}> : () -> i32
        %282 = "arith.cmpi"(%arg3, %281) <{predicate = 5 : i64}> : (i32, i32) -> i1
        %283 = "arith.constant"() <{value = true}> : () -> i1
        %284 = "arith.xori"(%282, %283) : (i1, i1) -> i1
        %285 = "arith.andi"(%280, %284) : (i1, i1) -> i1
        %286 = "arith.constant"() <{value = true}> : () -> i1
        %287 = "arith.andi"(%285, %286) : (i1, i1) -> i1
        %288 = "arith.extui"(%287) : (i1) -> i32
        %289 = "arith.constant"() <{value = 0 : i32}> : () -> i32
        %290 = "arith.cmpi"(%288, %289) <{predicate = 1 : i64}> : (i32, i32) -> i1
        "scf.if"(%290) ({
          "tpu.trace_start"() <{level = 10 : i32, message = "ep_copy_in"}> : () -> ()
          %505 = "arith.constant"() <{value = 2 : i32}> : () -> i32
          %506 = "arith.remui"(%arg4, %505) : (i32, i32) -> i32
          %507 = "arith.constant"() <{value = 64 : i32}> : () -> i32
          %508 = "arith.muli"(%507, %237) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
          %509 = "arith.constant"() <{value = 128 : i32}> : () -> i32
          %510 = "arith.muli"(%509, %239) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
          %511 = "tpu.memref_slice"(%1, %506) <{operandSegmentSizes = array<i32: 1, 1, 0>}> : (memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>, i32) -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
          %512 = "tpu.memref_squeeze"(%511) : (memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
          %513 = "arith.constant"() <{value = 0 : i32}> : () -> i32
          %514 = "arith.constant"() <{value = 0 : i32}> : () -> i32
          %515 = "tpu.memref_slice"(%0, %506, %513, %514) <{operandSegmentSizes = array<i32: 1, 3, 0>}> : (memref<2x64x128xf32, #tpu.memory_space<vmem>>, i32, i32, i32) -> memref<1x64x128xf32, #tpu.memory_space<vmem>>
          %516 = "tpu.memref_squeeze"(%515) : (memref<1x64x128xf32, #tpu.memory_space<vmem>>) -> memref<64x128xf32, #tpu.memory_space<vmem>>
          %517 = "tpu.memref_slice"(%arg0, %508, %510) <{operandSegmentSizes = array<i32: 1, 2, 0>}> : (memref<256x256xf32, #tpu.memory_space<any>>, i32, i32) -> memref<64x128xf32, #tpu.memory_space<any>>
          "tpu.enqueue_dma"(%517, %516, %512) <{operandSegmentSizes = array<i32: 1, 0, 1, 1, 0, 0, 0>, priority = 0 : i32, strict_ordering = false}> : (memref<64x128xf32, #tpu.memory_space<any>>, memref<64x128xf32, #tpu.memory_space<vmem>>, memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> ()
          "tpu.trace_stop"() : () -> ()
          "scf.yield"() : () -> ()
        }, {
          "scf.yield"() : () -> ()
        }) : (i1) -> ()
        %291 = "arith.constant"() <{value = true}> : () -> i1
        %292 = "arith.andi"(%285, %291) : (i1, i1) -> i1
        %293 = "arith.constant"() <{value = 1 : i32}> : () -> i32
        %294 = "arith.addi"(%arg4, %293) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %295 = "arith.select"(%292, %294, %arg4) : (i1, i32, i32) -> i32
        %296 = "arith.cmpi"(%220, %239) <{predicate = 1 : i64}> : (i32, i32) -> i1
        %297 = "arith.constant"() <{value = 7 : i32}> : () -> i32
        %298 = "arith.cmpi"(%arg3, %297) <{predicate = 5 : i64}> : (i32, i32) -> i1
        %299 = "arith.constant"() <{value = true}> : () -> i1
        %300 = "arith.xori"(%298, %299) : (i1, i1) -> i1
        %301 = "arith.andi"(%296, %300) : (i1, i1) -> i1
        %302 = "arith.constant"() <{value = true}> : () -> i1
        %303 = "arith.andi"(%301, %302) : (i1, i1) -> i1
        %304 = "arith.extui"(%303) : (i1) -> i32
        %305 = "arith.constant"() <{value = 0 : i32}> : () -> i32
        %306 = "arith.cmpi"(%304, %305) <{predicate = 1 : i64}> : (i32, i32) -> i1
        "scf.if"(%306) ({
          "tpu.trace_start"() <{level = 10 : i32, message = "ep_copy_in"}> : () -> ()
          %493 = "arith.constant"() <{value = 2 : i32}> : () -> i32
          %494 = "arith.remui"(%arg6, %493) : (i32, i32) -> i32
          %495 = "arith.constant"() <{value = 128 : i32}> : () -> i32
          %496 = "arith.muli"(%495, %239) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
          %497 = "tpu.memref_slice"(%3, %494) <{operandSegmentSizes = array<i32: 1, 1, 0>}> : (memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>, i32) -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
          %498 = "tpu.memref_squeeze"(%497) : (memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
          %499 = "arith.constant"() <{value = 0 : i32}> : () -> i32
          %500 = "arith.constant"() <{value = 0 : i32}> : () -> i32
          %501 = "tpu.memref_slice"(%2, %494, %499, %500) <{operandSegmentSizes = array<i32: 1, 3, 0>}> : (memref<2x64x128xf32, #tpu.memory_space<vmem>>, i32, i32, i32) -> memref<1x64x128xf32, #tpu.memory_space<vmem>>
          %502 = "tpu.memref_squeeze"(%501) : (memref<1x64x128xf32, #tpu.memory_space<vmem>>) -> memref<64x128xf32, #tpu.memory_space<vmem>>
          %503 = "arith.constant"() <{value = 0 : i32}> : () -> i32
          %504 = "tpu.memref_slice"(%arg1, %503, %496) <{operandSegmentSizes = array<i32: 1, 2, 0>}> : (memref<64x256xf32, #tpu.memory_space<any>>, i32, i32) -> memref<64x128xf32, #tpu.memory_space<any>>
          "tpu.enqueue_dma"(%504, %502, %498) <{operandSegmentSizes = array<i32: 1, 0, 1, 1, 0, 0, 0>, priority = 0 : i32, strict_ordering = false}> : (memref<64x128xf32, #tpu.memory_space<any>>, memref<64x128xf32, #tpu.memory_space<vmem>>, memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> ()
          "tpu.trace_stop"() : () -> ()
          "scf.yield"() : () -> ()
        }, {
          "scf.yield"() : () -> ()
        }) : (i1) -> ()
        %307 = "arith.constant"() <{value = true}> : () -> i1
        %308 = "arith.andi"(%301, %307) : (i1, i1) -> i1
        %309 = "arith.constant"() <{value = 1 : i32}> : () -> i32
        %310 = "arith.addi"(%arg6, %309) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %311 = "arith.select"(%308, %310, %arg6) : (i1, i32, i32) -> i32
        %312 = "arith.cmpi"(%218, %271) <{predicate = 1 : i64}> : (i32, i32) -> i1
        %313 = "arith.cmpi"(%220, %273) <{predicate = 1 : i64}> : (i32, i32) -> i1
        %314 = "arith.ori"(%312, %313) : (i1, i1) -> i1
        %315 = "arith.constant"() <{value = 9 : i32}> : () -> i32
        %316 = "arith.cmpi"(%arg3, %315) <{predicate = 5 : i64}> : (i32, i32) -> i1
        %317 = "arith.constant"() <{value = true}> : () -> i1
        %318 = "arith.xori"(%316, %317) : (i1, i1) -> i1
        %319 = "arith.andi"(%314, %318) : (i1, i1) -> i1
        %320 = "arith.ori"(%319, %214) : (i1, i1) -> i1
        %321 = "arith.cmpi"(%218, %271) <{predicate = 1 : i64}> : (i32, i32) -> i1
        %322 = "arith.cmpi"(%220, %273) <{predicate = 1 : i64}> : (i32, i32) -> i1
        %323 = "arith.ori"(%321, %322) : (i1, i1) -> i1
        %324 = "arith.ori"(%323, %214) : (i1, i1) -> i1
        %325 = "arith.constant"() <{value = 0 : i32}> : () -> i32
        %326 = "arith.cmpi"(%arg3, %325) <{predicate = 5 : i64}> : (i32, i32) -> i1
        %327 = "arith.andi"(%324, %326) : (i1, i1) -> i1
        %328 = "arith.extui"(%327) : (i1) -> i32
        %329 = "arith.constant"() <{value = 0 : i32}> : () -> i32
        %330 = "arith.cmpi"(%328, %329) <{predicate = 1 : i64}> : (i32, i32) -> i1
        "scf.if"(%330) ({
          "tpu.trace_start"() <{level = 10 : i32, message = "ep_wait_in"}> : () -> ()
          %480 = "arith.constant"() <{value = 64 : i32}> : () -> i32
          %481 = "arith.muli"(%480, %218) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
          %482 = "arith.constant"() <{value = 128 : i32}> : () -> i32
          %483 = "arith.muli"(%482, %220) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
          %484 = "arith.constant"() <{value = 2 : i32}> : () -> i32
          %485 = "arith.remui"(%arg5, %484) : (i32, i32) -> i32
          %486 = "tpu.memref_slice"(%1, %485) <{operandSegmentSizes = array<i32: 1, 1, 0>}> : (memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>, i32) -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
          %487 = "tpu.memref_squeeze"(%486) : (memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
          %488 = "arith.constant"() <{value = 0 : i32}> : () -> i32
          %489 = "arith.constant"() <{value = 0 : i32}> : () -> i32
          %490 = "tpu.memref_slice"(%0, %485, %488, %489) <{operandSegmentSizes = array<i32: 1, 3, 0>}> : (memref<2x64x128xf32, #tpu.memory_space<vmem>>, i32, i32, i32) -> memref<1x64x128xf32, #tpu.memory_space<vmem>>
          %491 = "tpu.memref_squeeze"(%490) : (memref<1x64x128xf32, #tpu.memory_space<vmem>>) -> memref<64x128xf32, #tpu.memory_space<vmem>>
          %492 = "tpu.memref_slice"(%arg0, %481, %483) <{operandSegmentSizes = array<i32: 1, 2, 0>}> : (memref<256x256xf32, #tpu.memory_space<any>>, i32, i32) -> memref<64x128xf32, #tpu.memory_space<any>>
          "tpu.wait_dma"(%492, %491, %487) <{operandSegmentSizes = array<i32: 1, 0, 1, 1, 0, 0, 0>, priority = 0 : i32, strict_ordering = false, wait_target = true}> : (memref<64x128xf32, #tpu.memory_space<any>>, memref<64x128xf32, #tpu.memory_space<vmem>>, memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> ()
          "tpu.trace_stop"() : () -> ()
          "scf.yield"() : () -> ()
        }, {
          "scf.yield"() : () -> ()
        }) : (i1) -> ()
        %331 = "arith.cmpi"(%220, %273) <{predicate = 1 : i64}> : (i32, i32) -> i1
        %332 = "arith.ori"(%331, %214) : (i1, i1) -> i1
        %333 = "arith.constant"() <{value = 0 : i32}> : () -> i32
        %334 = "arith.cmpi"(%arg3, %333) <{predicate = 5 : i64}> : (i32, i32) -> i1
        %335 = "arith.andi"(%332, %334) : (i1, i1) -> i1
        %336 = "arith.extui"(%335) : (i1) -> i32
        %337 = "arith.constant"() <{value = 0 : i32}> : () -> i32
        %338 = "arith.cmpi"(%336, %337) <{predicate = 1 : i64}> : (i32, i32) -> i1
        "scf.if"(%338) ({
          "tpu.trace_start"() <{level = 10 : i32, message = "ep_wait_in"}> : () -> ()
          %468 = "arith.constant"() <{value = 128 : i32}> : () -> i32
          %469 = "arith.muli"(%468, %220) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
          %470 = "arith.constant"() <{value = 2 : i32}> : () -> i32
          %471 = "arith.remui"(%arg7, %470) : (i32, i32) -> i32
          %472 = "tpu.memref_slice"(%3, %471) <{operandSegmentSizes = array<i32: 1, 1, 0>}> : (memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>, i32) -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
          %473 = "tpu.memref_squeeze"(%472) : (memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
          %474 = "arith.constant"() <{value = 0 : i32}> : () -> i32
          %475 = "arith.constant"() <{value = 0 : i32}> : () -> i32
          %476 = "tpu.memref_slice"(%2, %471, %474, %475) <{operandSegmentSizes = array<i32: 1, 3, 0>}> : (memref<2x64x128xf32, #tpu.memory_space<vmem>>, i32, i32, i32) -> memref<1x64x128xf32, #tpu.memory_space<vmem>>
          %477 = "tpu.memref_squeeze"(%476) : (memref<1x64x128xf32, #tpu.memory_space<vmem>>) -> memref<64x128xf32, #tpu.memory_space<vmem>>
          %478 = "arith.constant"() <{value = 0 : i32}> : () -> i32
          %479 = "tpu.memref_slice"(%arg1, %478, %469) <{operandSegmentSizes = array<i32: 1, 2, 0>}> : (memref<64x256xf32, #tpu.memory_space<any>>, i32, i32) -> memref<64x128xf32, #tpu.memory_space<any>>
          "tpu.wait_dma"(%479, %477, %473) <{operandSegmentSizes = array<i32: 1, 0, 1, 1, 0, 0, 0>, priority = 0 : i32, strict_ordering = false, wait_target = true}> : (memref<64x128xf32, #tpu.memory_space<any>>, memref<64x128xf32, #tpu.memory_space<vmem>>, memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> ()
          "tpu.trace_stop"() : () -> ()
          "scf.yield"() : () -> ()
        }, {
          "scf.yield"() : () -> ()
        }) : (i1) -> ()
        %339 = "arith.cmpi"(%218, %271) <{predicate = 1 : i64}> : (i32, i32) -> i1
        %340 = "arith.cmpi"(%220, %273) <{predicate = 1 : i64}> : (i32, i32) -> i1
        %341 = "arith.ori"(%339, %340) : (i1, i1) -> i1
        %342 = "arith.ori"(%341, %214) : (i1, i1) -> i1
        %343 = "arith.constant"() <{value = 0 : i32}> : () -> i32
        %344 = "arith.cmpi"(%arg3, %343) <{predicate = 5 : i64}> : (i32, i32) -> i1
        %345 = "arith.andi"(%342, %344) : (i1, i1) -> i1
        %346 = "arith.extui"(%345) : (i1) -> i32
        %347 = "arith.constant"() <{value = 0 : i32}> : () -> i32
        %348 = "arith.cmpi"(%346, %347) <{predicate = 1 : i64}> : (i32, i32) -> i1
        "scf.if"(%348) ({
          "scf.yield"() : () -> ()
        }, {
          "scf.yield"() : () -> ()
        }) : (i1) -> ()
        %349 = "arith.constant"() <{value = 2 : i32}> : () -> i32
        %350 = "arith.remui"(%arg5, %349) : (i32, i32) -> i32
        %351 = "arith.constant"() <{value = 2 : i32}> : () -> i32
        %352 = "arith.remui"(%arg7, %351) : (i32, i32) -> i32
        %353 = "arith.constant"() <{value = 2 : i32}> : () -> i32
        %354 = "arith.remui"(%arg8, %353) : (i32, i32) -> i32
        "tpu.trace_start"() <{level = 10 : i32, message = "ep_run_kernel"}> : () -> ()
        %355 = "arith.index_cast"(%350) : (i32) -> index
        %356 = "arith.constant"() <{value = 0 : index}> : () -> index
        %357 = "arith.constant"() <{value = 0 : index}> : () -> index
        %358 = "vector.load"(%0, %355, %356, %357) : (memref<2x64x128xf32, #tpu.memory_space<vmem>>, index, index, index) -> vector<1x64x128xf32>
        %359 = "vector.shape_cast"(%358) : (vector<1x64x128xf32>) -> vector<64x128xf32>
        %360 = "math.tanh"(%359) <{fastmath = #arith.fastmath<none>}> : (vector<64x128xf32>) -> vector<64x128xf32>
        %361 = "arith.index_cast"(%352) : (i32) -> index
        %362 = "arith.constant"() <{value = 0 : index}> : () -> index
        %363 = "arith.constant"() <{value = 0 : index}> : () -> index
        %364 = "vector.load"(%2, %361, %362, %363) : (memref<2x64x128xf32, #tpu.memory_space<vmem>>, index, index, index) -> vector<1x64x128xf32>
        %365 = "vector.shape_cast"(%364) : (vector<1x64x128xf32>) -> vector<64x128xf32>
        %366 = "arith.addf"(%360, %365) <{fastmath = #arith.fastmath<none>}> : (vector<64x128xf32>, vector<64x128xf32>) -> vector<64x128xf32>
        %367 = "arith.index_cast"(%354) : (i32) -> index
        %368 = "arith.constant"() <{value = 0 : index}> : () -> index
        %369 = "arith.constant"() <{value = 0 : index}> : () -> index
        %370 = "vector.load"(%4, %367, %368, %369) : (memref<2x64x128xf32, #tpu.memory_space<vmem>>, index, index, index) -> vector<1x64x128xf32>
        %371 = "vector.shape_cast"(%370) : (vector<1x64x128xf32>) -> vector<64x128xf32>
        %372 = "vector.shape_cast"(%366) : (vector<64x128xf32>) -> vector<1x64x128xf32>
        "tpu.vector_store"(%372, %4, %367, %368, %369) <{add = false, operandSegmentSizes = array<i32: 1, 1, 3, 0>, strides = array<i32>}> : (vector<1x64x128xf32>, memref<2x64x128xf32, #tpu.memory_space<vmem>>, index, index, index) -> ()
        "tpu.trace_stop"() : () -> ()
        %373 = "arith.cmpi"(%218, %237) <{predicate = 1 : i64}> : (i32, i32) -> i1
        %374 = "arith.cmpi"(%220, %239) <{predicate = 1 : i64}> : (i32, i32) -> i1
        %375 = "arith.ori"(%373, %374) : (i1, i1) -> i1
        %376 = "arith.ori"(%375, %216) : (i1, i1) -> i1
        %377 = "arith.extui"(%376) : (i1) -> i32
        %378 = "arith.constant"() <{value = 0 : i32}> : () -> i32
        %379 = "arith.cmpi"(%377, %378) <{predicate = 1 : i64}> : (i32, i32) -> i1
        "scf.if"(%379) ({
          "scf.yield"() : () -> ()
        }, {
          "scf.yield"() : () -> ()
        }) : (i1) -> ()
        %380 = "arith.constant"() <{value = false}> : () -> i1
        %381 = "arith.andi"(%376, %380) : (i1, i1) -> i1
        %382 = "arith.cmpi"(%220, %239) <{predicate = 1 : i64}> : (i32, i32) -> i1
        %383 = "arith.ori"(%382, %216) : (i1, i1) -> i1
        %384 = "arith.extui"(%383) : (i1) -> i32
        %385 = "arith.constant"() <{value = 0 : i32}> : () -> i32
        %386 = "arith.cmpi"(%384, %385) <{predicate = 1 : i64}> : (i32, i32) -> i1
        "scf.if"(%386) ({
          "scf.yield"() : () -> ()
        }, {
          "scf.yield"() : () -> ()
        }) : (i1) -> ()
        %387 = "arith.constant"() <{value = false}> : () -> i1
        %388 = "arith.andi"(%383, %387) : (i1, i1) -> i1
        %389 = "arith.cmpi"(%218, %237) <{predicate = 1 : i64}> : (i32, i32) -> i1
        %390 = "arith.cmpi"(%220, %239) <{predicate = 1 : i64}> : (i32, i32) -> i1
        %391 = "arith.ori"(%389, %390) : (i1, i1) -> i1
        %392 = "arith.ori"(%391, %216) : (i1, i1) -> i1
        %393 = "arith.extui"(%392) : (i1) -> i32
        %394 = "arith.constant"() <{value = 0 : i32}> : () -> i32
        %395 = "arith.cmpi"(%393, %394) <{predicate = 1 : i64}> : (i32, i32) -> i1
        "scf.if"(%395) ({
          "tpu.trace_start"() <{level = 10 : i32, message = "ep_copy_out"}> : () -> ()
          %455 = "arith.constant"() <{value = 2 : i32}> : () -> i32
          %456 = "arith.remui"(%arg8, %455) : (i32, i32) -> i32
          %457 = "arith.constant"() <{value = 64 : i32}> : () -> i32
          %458 = "arith.muli"(%457, %218) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
          %459 = "arith.constant"() <{value = 128 : i32}> : () -> i32
          %460 = "arith.muli"(%459, %220) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
          %461 = "tpu.memref_slice"(%5, %456) <{operandSegmentSizes = array<i32: 1, 1, 0>}> : (memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>, i32) -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
          %462 = "tpu.memref_squeeze"(%461) : (memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
          %463 = "tpu.memref_slice"(%arg2, %458, %460) <{operandSegmentSizes = array<i32: 1, 2, 0>}> : (memref<256x256xf32, #tpu.memory_space<any>>, i32, i32) -> memref<64x128xf32, #tpu.memory_space<any>>
          %464 = "arith.constant"() <{value = 0 : i32}> : () -> i32
          %465 = "arith.constant"() <{value = 0 : i32}> : () -> i32
          %466 = "tpu.memref_slice"(%4, %456, %464, %465) <{operandSegmentSizes = array<i32: 1, 3, 0>}> : (memref<2x64x128xf32, #tpu.memory_space<vmem>>, i32, i32, i32) -> memref<1x64x128xf32, #tpu.memory_space<vmem>>
          %467 = "tpu.memref_squeeze"(%466) : (memref<1x64x128xf32, #tpu.memory_space<vmem>>) -> memref<64x128xf32, #tpu.memory_space<vmem>>
          "tpu.enqueue_dma"(%467, %463, %462) <{operandSegmentSizes = array<i32: 1, 0, 1, 1, 0, 0, 0>, priority = 0 : i32, strict_ordering = false}> : (memref<64x128xf32, #tpu.memory_space<vmem>>, memref<64x128xf32, #tpu.memory_space<any>>, memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> ()
          "tpu.trace_stop"() : () -> ()
          "scf.yield"() : () -> ()
        }, {
          "scf.yield"() : () -> ()
        }) : (i1) -> ()
        %396 = "arith.constant"() <{value = true}> : () -> i1
        %397 = "arith.andi"(%392, %396) : (i1, i1) -> i1
        %398 = "arith.constant"() <{value = 1 : i32}> : () -> i32
        %399 = "arith.addi"(%arg8, %398) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %400 = "arith.select"(%397, %399, %arg8) : (i1, i32, i32) -> i32
        %401 = "arith.cmpi"(%218, %271) <{predicate = 1 : i64}> : (i32, i32) -> i1
        %402 = "arith.cmpi"(%220, %273) <{predicate = 1 : i64}> : (i32, i32) -> i1
        %403 = "arith.ori"(%401, %402) : (i1, i1) -> i1
        %404 = "arith.constant"() <{value = 1 : i32}> : () -> i32
        %405 = "arith.cmpi"(%arg3, %404) <{predicate = 5 : i64}> : (i32, i32) -> i1
        %406 = "arith.andi"(%403, %405) : (i1, i1) -> i1
        %407 = "arith.extui"(%406) : (i1) -> i32
        %408 = "arith.constant"() <{value = 0 : i32}> : () -> i32
        %409 = "arith.cmpi"(%407, %408) <{predicate = 1 : i64}> : (i32, i32) -> i1
        "scf.if"(%409) ({
          "tpu.trace_start"() <{level = 10 : i32, message = "ep_wait_out"}> : () -> ()
          %442 = "arith.constant"() <{value = 2 : i32}> : () -> i32
          %443 = "arith.remui"(%arg9, %442) : (i32, i32) -> i32
          %444 = "arith.constant"() <{value = 64 : i32}> : () -> i32
          %445 = "arith.muli"(%444, %271) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
          %446 = "arith.constant"() <{value = 128 : i32}> : () -> i32
          %447 = "arith.muli"(%446, %273) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
          %448 = "tpu.memref_slice"(%5, %443) <{operandSegmentSizes = array<i32: 1, 1, 0>}> : (memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>, i32) -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
          %449 = "tpu.memref_squeeze"(%448) : (memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
          %450 = "tpu.memref_slice"(%arg2, %445, %447) <{operandSegmentSizes = array<i32: 1, 2, 0>}> : (memref<256x256xf32, #tpu.memory_space<any>>, i32, i32) -> memref<64x128xf32, #tpu.memory_space<any>>
          %451 = "arith.constant"() <{value = 0 : i32}> : () -> i32
          %452 = "arith.constant"() <{value = 0 : i32}> : () -> i32
          %453 = "tpu.memref_slice"(%4, %443, %451, %452) <{operandSegmentSizes = array<i32: 1, 3, 0>}> : (memref<2x64x128xf32, #tpu.memory_space<vmem>>, i32, i32, i32) -> memref<1x64x128xf32, #tpu.memory_space<vmem>>
          %454 = "tpu.memref_squeeze"(%453) : (memref<1x64x128xf32, #tpu.memory_space<vmem>>) -> memref<64x128xf32, #tpu.memory_space<vmem>>
          "tpu.wait_dma"(%454, %450, %449) <{operandSegmentSizes = array<i32: 1, 0, 1, 1, 0, 0, 0>, priority = 0 : i32, strict_ordering = false, wait_target = true}> : (memref<64x128xf32, #tpu.memory_space<vmem>>, memref<64x128xf32, #tpu.memory_space<any>>, memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> ()
          "tpu.trace_stop"() : () -> ()
          "scf.yield"() : () -> ()
        }, {
          "scf.yield"() : () -> ()
        }) : (i1) -> ()
        %410 = "arith.constant"() <{value = true}> : () -> i1
        %411 = "arith.andi"(%406, %410) : (i1, i1) -> i1
        %412 = "arith.constant"() <{value = 1 : i32}> : () -> i32
        %413 = "arith.addi"(%arg9, %412) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %414 = "arith.select"(%411, %413, %arg9) : (i1, i32, i32) -> i32
        %415 = "arith.cmpi"(%218, %237) <{predicate = 1 : i64}> : (i32, i32) -> i1
        %416 = "arith.cmpi"(%220, %239) <{predicate = 1 : i64}> : (i32, i32) -> i1
        %417 = "arith.ori"(%415, %416) : (i1, i1) -> i1
        %418 = "arith.ori"(%417, %216) : (i1, i1) -> i1
        %419 = "arith.constant"() <{value = 1 : i32}> : () -> i32
        %420 = "arith.addi"(%arg5, %419) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %421 = "arith.select"(%418, %420, %arg5) : (i1, i32, i32) -> i32
        %422 = "arith.cmpi"(%220, %239) <{predicate = 1 : i64}> : (i32, i32) -> i1
        %423 = "arith.ori"(%422, %216) : (i1, i1) -> i1
        %424 = "arith.constant"() <{value = 1 : i32}> : () -> i32
        %425 = "arith.addi"(%arg7, %424) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %426 = "arith.select"(%423, %425, %arg7) : (i1, i32, i32) -> i32
        %427 = "arith.constant"() <{value = 1 : i32}> : () -> i32
        %428 = "arith.addi"(%arg11, %427) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %429 = "arith.constant"() <{value = true}> : () -> i1
        %430 = "arith.select"(%429, %428, %arg11) : (i1, i32, i32) -> i32
        %431 = "arith.constant"() <{value = 2 : i32}> : () -> i32
        %432 = "arith.cmpi"(%430, %431) <{predicate = 0 : i64}> : (i32, i32) -> i1
        %433 = "arith.constant"() <{value = 0 : i32}> : () -> i32
        %434 = "arith.select"(%432, %433, %430) : (i1, i32, i32) -> i32
        %435 = "arith.constant"() <{value = 1 : i32}> : () -> i32
        %436 = "arith.addi"(%arg10, %435) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %437 = "arith.select"(%432, %436, %arg10) : (i1, i32, i32) -> i32
        %438 = "arith.constant"() <{value = 4 : i32}> : () -> i32
        %439 = "arith.cmpi"(%437, %438) <{predicate = 0 : i64}> : (i32, i32) -> i1
        %440 = "arith.constant"() <{value = 0 : i32}> : () -> i32
        %441 = "arith.select"(%439, %440, %437) : (i1, i32, i32) -> i32
        "scf.yield"(%295, %421, %311, %426, %400, %414, %441, %434) : (i32, i32, i32, i32, i32, i32, i32, i32) -> ()
      }) : (i32, i32, i32, i32, i32, i32, i32, i32, i32, i32, i32) -> (i32, i32, i32, i32, i32, i32, i32, i32)
      %121 = "arith.constant"() <{value = 8 : i32}> : () -> i32
      %122 = "arith.constant"() <{value = 1 : i32}> : () -> i32
      %123 = "arith.subi"(%120#7, %122) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %124 = "arith.constant"() <{value = true}> : () -> i1
      %125 = "arith.select"(%124, %123, %120#7) : (i1, i32, i32) -> i32
      %126 = "arith.constant"() <{value = -1 : i32}> : () -> i32
      %127 = "arith.cmpi"(%125, %126) <{predicate = 0 : i64}> : (i32, i32) -> i1
      %128 = "arith.constant"() <{value = 1 : i32}> : () -> i32
      %129 = "arith.select"(%127, %128, %125) : (i1, i32, i32) -> i32
      %130 = "arith.constant"() <{value = 1 : i32}> : () -> i32
      %131 = "arith.subi"(%120#6, %130) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %132 = "arith.select"(%127, %131, %120#6) : (i1, i32, i32) -> i32
      %133 = "arith.constant"() <{value = -1 : i32}> : () -> i32
      %134 = "arith.cmpi"(%132, %133) <{predicate = 0 : i64}> : (i32, i32) -> i1
      %135 = "arith.constant"() <{value = 3 : i32}> : () -> i32
      %136 = "arith.select"(%134, %135, %132) : (i1, i32, i32) -> i32
      %137 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %138 = "arith.addi"(%136, %137) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %139 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %140 = "arith.addi"(%129, %139) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %141 = "arith.constant"() <{value = 1 : i32}> : () -> i32
      %142 = "arith.addi"(%129, %141) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %143 = "arith.constant"() <{value = true}> : () -> i1
      %144 = "arith.select"(%143, %142, %129) : (i1, i32, i32) -> i32
      %145 = "arith.constant"() <{value = 2 : i32}> : () -> i32
      %146 = "arith.cmpi"(%144, %145) <{predicate = 0 : i64}> : (i32, i32) -> i1
      %147 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %148 = "arith.select"(%146, %147, %144) : (i1, i32, i32) -> i32
      %149 = "arith.constant"() <{value = 1 : i32}> : () -> i32
      %150 = "arith.addi"(%136, %149) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %151 = "arith.select"(%146, %150, %136) : (i1, i32, i32) -> i32
      %152 = "arith.constant"() <{value = 4 : i32}> : () -> i32
      %153 = "arith.cmpi"(%151, %152) <{predicate = 0 : i64}> : (i32, i32) -> i1
      %154 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %155 = "arith.select"(%153, %154, %151) : (i1, i32, i32) -> i32
      %156 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %157 = "arith.addi"(%155, %156) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %158 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %159 = "arith.addi"(%148, %158) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %160 = "arith.constant"() <{value = 1 : i32}> : () -> i32
      %161 = "arith.subi"(%129, %160) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %162 = "arith.constant"() <{value = true}> : () -> i1
      %163 = "arith.select"(%162, %161, %129) : (i1, i32, i32) -> i32
      %164 = "arith.constant"() <{value = -1 : i32}> : () -> i32
      %165 = "arith.cmpi"(%163, %164) <{predicate = 0 : i64}> : (i32, i32) -> i1
      %166 = "arith.constant"() <{value = 1 : i32}> : () -> i32
      %167 = "arith.select"(%165, %166, %163) : (i1, i32, i32) -> i32
      %168 = "arith.constant"() <{value = 1 : i32}> : () -> i32
      %169 = "arith.subi"(%136, %168) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %170 = "arith.select"(%165, %169, %136) : (i1, i32, i32) -> i32
      %171 = "arith.constant"() <{value = -1 : i32}> : () -> i32
      %172 = "arith.cmpi"(%170, %171) <{predicate = 0 : i64}> : (i32, i32) -> i1
      %173 = "arith.constant"() <{value = 3 : i32}> : () -> i32
      %174 = "arith.select"(%172, %173, %170) : (i1, i32, i32) -> i32
      %175 = "arith.constant"() <{value = 1 : i32}> : () -> i32
      %176 = "arith.addi"(%148, %175) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %177 = "arith.constant"() <{value = true}> : () -> i1
      %178 = "arith.select"(%177, %176, %148) : (i1, i32, i32) -> i32
      %179 = "arith.constant"() <{value = 2 : i32}> : () -> i32
      %180 = "arith.cmpi"(%178, %179) <{predicate = 0 : i64}> : (i32, i32) -> i1
      %181 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %182 = "arith.select"(%180, %181, %178) : (i1, i32, i32) -> i32
      %183 = "arith.constant"() <{value = 1 : i32}> : () -> i32
      %184 = "arith.addi"(%155, %183) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %185 = "arith.select"(%180, %184, %155) : (i1, i32, i32) -> i32
      %186 = "arith.constant"() <{value = 4 : i32}> : () -> i32
      %187 = "arith.cmpi"(%185, %186) <{predicate = 0 : i64}> : (i32, i32) -> i1
      %188 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %189 = "arith.select"(%187, %188, %185) : (i1, i32, i32) -> i32
      %190 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %191 = "arith.addi"(%174, %190) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %192 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %193 = "arith.addi"(%167, %192) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %194 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %195 = "arith.addi"(%189, %194) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %196 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %197 = "arith.addi"(%182, %196) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      "tpu.trace_start"() <{level = 10 : i32, message = "ep_finalize_0"}> : () -> ()
      %198 = "arith.constant"() <{value = 2 : i32}> : () -> i32
      %199 = "arith.remui"(%120#5, %198) : (i32, i32) -> i32
      %200 = "arith.constant"() <{value = 64 : i32}> : () -> i32
      %201 = "arith.muli"(%200, %138) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %202 = "arith.constant"() <{value = 128 : i32}> : () -> i32
      %203 = "arith.muli"(%202, %140) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %204 = "tpu.memref_slice"(%5, %199) <{operandSegmentSizes = array<i32: 1, 1, 0>}> : (memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>, i32) -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %205 = "tpu.memref_squeeze"(%204) : (memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %206 = "tpu.memref_slice"(%arg2, %201, %203) <{operandSegmentSizes = array<i32: 1, 2, 0>}> : (memref<256x256xf32, #tpu.memory_space<any>>, i32, i32) -> memref<64x128xf32, #tpu.memory_space<any>>
      %207 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %208 = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %209 = "tpu.memref_slice"(%4, %199, %207, %208) <{operandSegmentSizes = array<i32: 1, 3, 0>}> : (memref<2x64x128xf32, #tpu.memory_space<vmem>>, i32, i32, i32) -> memref<1x64x128xf32, #tpu.memory_space<vmem>>
      %210 = "tpu.memref_squeeze"(%209) : (memref<1x64x128xf32, #tpu.memory_space<vmem>>) -> memref<64x128xf32, #tpu.memory_space<vmem>>
      "tpu.wait_dma"(%210, %206, %205) <{operandSegmentSizes = array<i32: 1, 0, 1, 1, 0, 0, 0>, priority = 0 : i32, strict_ordering = false, wait_target = true}> : (memref<64x128xf32, #tpu.memory_space<vmem>>, memref<64x128xf32, #tpu.memory_space<any>>, memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> ()
      "tpu.trace_stop"() : () -> ()
      %211 = "arith.constant"() <{value = 1 : i32}> : () -> i32
      %212 = "arith.addi"(%120#5, %211) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      "tpu.yield"() : () -> ()
    }) : () -> ()
    "func.return"() : () -> ()
  }) {dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>} : () -> ()
}) : () -> ()
