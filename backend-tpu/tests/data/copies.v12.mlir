"builtin.module"() <{sym_name = "kernel"}> ({
  "stable_mosaic.func.func"() ({
  ^bb0(%arg0: i32, %arg1: memref<1xi32, #tpu.memory_space<smem>>, %arg2: memref<32x128xf32, #tpu.memory_space<any>>, %arg3: memref<32x128xf32, #tpu.memory_space<any>>, %arg4: memref<2x8x128xf32, #tpu.memory_space<vmem>>, %arg5: memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>):
    %0 = "stable_mosaic.arith.constant"() {value = 0 : index} : () -> index
    %1 = "stable_mosaic.memref.load"(%arg1, %0) : (memref<1xi32, #tpu.memory_space<smem>>, index) -> i32
    %2 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
    %3 = "stable_mosaic.arith.subi"(%1, %2) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
    %4 = "stable_mosaic.arith.addi"(%2, %3) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
    %5 = "stable_mosaic.arith.constant"() {value = 1 : i32} : () -> i32
    "stable_mosaic.scf.for"(%2, %4, %5) ({
    ^bb0(%arg6: i32):
      %6 = "stable_mosaic.arith.constant"() {value = 2 : i32} : () -> i32
      %7 = "stable_mosaic.arith.remsi"(%arg6, %6) : (i32, i32) -> i32
      %8 = "stable_mosaic.arith.constant"() {value = 8 : i32} : () -> i32
      %9 = "stable_mosaic.arith.muli"(%arg6, %8) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
      %10 = "stable_mosaic.tpu.memref_slice"(%arg5, %7) {operandSegmentSizes = array<i32: 1, 1, 0>} : (memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>, i32) -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %11 = "stable_mosaic.tpu.memref_squeeze"(%10) : (memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %12 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %13 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %14 = "stable_mosaic.tpu.memref_slice"(%arg4, %7, %12, %13) {operandSegmentSizes = array<i32: 1, 3, 0>} : (memref<2x8x128xf32, #tpu.memory_space<vmem>>, i32, i32, i32) -> memref<1x8x128xf32, #tpu.memory_space<vmem>>
      %15 = "stable_mosaic.tpu.memref_squeeze"(%14) : (memref<1x8x128xf32, #tpu.memory_space<vmem>>) -> memref<8x128xf32, #tpu.memory_space<vmem>>
      %16 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %17 = "stable_mosaic.tpu.memref_slice"(%arg2, %9, %16) {operandSegmentSizes = array<i32: 1, 2, 0>} : (memref<32x128xf32, #tpu.memory_space<any>>, i32, i32) -> memref<8x128xf32, #tpu.memory_space<any>>
      "stable_mosaic.tpu.enqueue_dma"(%17, %15, %11) {operandSegmentSizes = array<i32: 1, 0, 1, 1, 0, 0>, priority = 0 : i32, strict_ordering = false} : (memref<8x128xf32, #tpu.memory_space<any>>, memref<8x128xf32, #tpu.memory_space<vmem>>, memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> ()
      %18 = "stable_mosaic.arith.constant"() {value = 8 : i32} : () -> i32
      %19 = "stable_mosaic.arith.muli"(%arg6, %18) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
      %20 = "stable_mosaic.tpu.memref_slice"(%arg5, %7) {operandSegmentSizes = array<i32: 1, 1, 0>} : (memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>, i32) -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %21 = "stable_mosaic.tpu.memref_squeeze"(%20) : (memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %22 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %23 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %24 = "stable_mosaic.tpu.memref_slice"(%arg4, %7, %22, %23) {operandSegmentSizes = array<i32: 1, 3, 0>} : (memref<2x8x128xf32, #tpu.memory_space<vmem>>, i32, i32, i32) -> memref<1x8x128xf32, #tpu.memory_space<vmem>>
      %25 = "stable_mosaic.tpu.memref_squeeze"(%24) : (memref<1x8x128xf32, #tpu.memory_space<vmem>>) -> memref<8x128xf32, #tpu.memory_space<vmem>>
      %26 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %27 = "stable_mosaic.tpu.memref_slice"(%arg2, %19, %26) {operandSegmentSizes = array<i32: 1, 2, 0>} : (memref<32x128xf32, #tpu.memory_space<any>>, i32, i32) -> memref<8x128xf32, #tpu.memory_space<any>>
      "stable_mosaic.tpu.wait_dma"(%27, %25, %21) {operandSegmentSizes = array<i32: 1, 0, 1, 1, 0, 0>, priority = 0 : i32, strict_ordering = false, wait_target = true} : (memref<8x128xf32, #tpu.memory_space<any>>, memref<8x128xf32, #tpu.memory_space<vmem>>, memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> ()
      %28 = "stable_mosaic.arith.index_cast"(%7) : (i32) -> index
      %29 = "stable_mosaic.arith.constant"() {value = 0 : index} : () -> index
      %30 = "stable_mosaic.arith.constant"() {value = 0 : index} : () -> index
      %31 = "stable_mosaic.vector.load"(%arg4, %28, %29, %30) : (memref<2x8x128xf32, #tpu.memory_space<vmem>>, index, index, index) -> vector<1x8x128xf32>
      %32 = "stable_mosaic.vector.shape_cast"(%31) : (vector<1x8x128xf32>) -> vector<8x128xf32>
      %33 = "stable_mosaic.arith.constant"() {value = 2.000000e+00 : f32} : () -> f32
      %34 = "stable_mosaic.vector.broadcast"(%33) : (f32) -> vector<8x128xf32>
      %35 = "stable_mosaic.arith.mulf"(%32, %34) {fastmath = #arith.fastmath<none>} : (vector<8x128xf32>, vector<8x128xf32>) -> vector<8x128xf32>
      %36 = "stable_mosaic.arith.index_cast"(%7) : (i32) -> index
      %37 = "stable_mosaic.arith.constant"() {value = 0 : index} : () -> index
      %38 = "stable_mosaic.arith.constant"() {value = 0 : index} : () -> index
      %39 = "stable_mosaic.vector.load"(%arg4, %36, %37, %38) : (memref<2x8x128xf32, #tpu.memory_space<vmem>>, index, index, index) -> vector<1x8x128xf32>
      %40 = "stable_mosaic.vector.shape_cast"(%39) : (vector<1x8x128xf32>) -> vector<8x128xf32>
      %41 = "stable_mosaic.vector.shape_cast"(%35) : (vector<8x128xf32>) -> vector<1x8x128xf32>
      "stable_mosaic.tpu.vector_store"(%41, %arg4, %36, %37, %38) {add = false, operandSegmentSizes = array<i32: 1, 1, 3, 0>, strides = array<i32>} : (vector<1x8x128xf32>, memref<2x8x128xf32, #tpu.memory_space<vmem>>, index, index, index) -> ()
      %42 = "stable_mosaic.arith.constant"() {value = 8 : i32} : () -> i32
      %43 = "stable_mosaic.arith.muli"(%arg6, %42) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
      %44 = "stable_mosaic.tpu.memref_slice"(%arg5, %7) {operandSegmentSizes = array<i32: 1, 1, 0>} : (memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>, i32) -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %45 = "stable_mosaic.tpu.memref_squeeze"(%44) : (memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %46 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %47 = "stable_mosaic.tpu.memref_slice"(%arg3, %43, %46) {operandSegmentSizes = array<i32: 1, 2, 0>} : (memref<32x128xf32, #tpu.memory_space<any>>, i32, i32) -> memref<8x128xf32, #tpu.memory_space<any>>
      %48 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %49 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %50 = "stable_mosaic.tpu.memref_slice"(%arg4, %7, %48, %49) {operandSegmentSizes = array<i32: 1, 3, 0>} : (memref<2x8x128xf32, #tpu.memory_space<vmem>>, i32, i32, i32) -> memref<1x8x128xf32, #tpu.memory_space<vmem>>
      %51 = "stable_mosaic.tpu.memref_squeeze"(%50) : (memref<1x8x128xf32, #tpu.memory_space<vmem>>) -> memref<8x128xf32, #tpu.memory_space<vmem>>
      "stable_mosaic.tpu.enqueue_dma"(%51, %47, %45) {operandSegmentSizes = array<i32: 1, 0, 1, 1, 0, 0>, priority = 0 : i32, strict_ordering = false} : (memref<8x128xf32, #tpu.memory_space<vmem>>, memref<8x128xf32, #tpu.memory_space<any>>, memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> ()
      %52 = "stable_mosaic.tpu.memref_slice"(%arg5, %7) {operandSegmentSizes = array<i32: 1, 1, 0>} : (memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>, i32) -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %53 = "stable_mosaic.tpu.memref_squeeze"(%52) : (memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %54 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %55 = "stable_mosaic.tpu.memref_slice"(%arg3, %43, %54) {operandSegmentSizes = array<i32: 1, 2, 0>} : (memref<32x128xf32, #tpu.memory_space<any>>, i32, i32) -> memref<8x128xf32, #tpu.memory_space<any>>
      %56 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %57 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
      %58 = "stable_mosaic.tpu.memref_slice"(%arg4, %7, %56, %57) {operandSegmentSizes = array<i32: 1, 3, 0>} : (memref<2x8x128xf32, #tpu.memory_space<vmem>>, i32, i32, i32) -> memref<1x8x128xf32, #tpu.memory_space<vmem>>
      %59 = "stable_mosaic.tpu.memref_squeeze"(%58) : (memref<1x8x128xf32, #tpu.memory_space<vmem>>) -> memref<8x128xf32, #tpu.memory_space<vmem>>
      "stable_mosaic.tpu.wait_dma"(%59, %55, %53) {operandSegmentSizes = array<i32: 1, 0, 1, 1, 0, 0>, priority = 0 : i32, strict_ordering = false, wait_target = true} : (memref<8x128xf32, #tpu.memory_space<vmem>>, memref<8x128xf32, #tpu.memory_space<any>>, memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> ()
      "stable_mosaic.scf.yield"() : () -> ()
    }) : (i32, i32, i32) -> ()
    "stable_mosaic.func.return"() : () -> ()
  }) {dimension_semantics = [#tpu.dimension_semantics<arbitrary>], function_type = (i32, memref<1xi32, #tpu.memory_space<smem>>, memref<32x128xf32, #tpu.memory_space<any>>, memref<32x128xf32, #tpu.memory_space<any>>, memref<2x8x128xf32, #tpu.memory_space<vmem>>, memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> (), iteration_bounds = array<i64: 1>, scalar_prefetch = 1 : i64, scratch_operands = 2 : i64, sym_name = "kernel", tpu.core_type = #tpu.core_type<tc>, window_params = [{}, {}]} : () -> ()
}) {stable_mosaic.version = 12 : i64} : () -> ()
