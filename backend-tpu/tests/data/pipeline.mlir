module @kernel {
  func.func @kernel(%arg0: memref<256x256xf32, #tpu.memory_space<any>>, %arg1: memref<64x256xf32, #tpu.memory_space<any>>, %arg2: memref<256x256xf32, #tpu.memory_space<any>>) attributes {dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>} {
    "tpu.region"() ({
      %alloca = memref.alloca() : memref<2x64x128xf32, #tpu.memory_space<vmem>>
      %0 = tpu.sem_alloc : memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %alloca_0 = memref.alloca() : memref<2x64x128xf32, #tpu.memory_space<vmem>>
      %1 = tpu.sem_alloc : memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %alloca_1 = memref.alloca() : memref<2x64x128xf32, #tpu.memory_space<vmem>>
      %2 = tpu.sem_alloc : memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %c0_i32 = arith.constant 0 : i32
      %c0_i32_2 = arith.constant 0 : i32
      %3 = arith.addi %c0_i32, %c0_i32_2 : i32
      %c0_i32_3 = arith.constant 0 : i32
      %c0_i32_4 = arith.constant 0 : i32
      %4 = arith.addi %c0_i32_3, %c0_i32_4 : i32
      %c0_i32_5 = arith.constant 0 : i32
      %c1_i32 = arith.constant 1 : i32
      %5 = arith.addi %c0_i32_5, %c1_i32 : i32
      %true = arith.constant true
      %c0_i32_6 = arith.constant 0 : i32
      %6 = arith.select %true, %5, %c0_i32_6 : i32
      %c2_i32 = arith.constant 2 : i32
      %7 = arith.cmpi eq, %6, %c2_i32 : i32
      %c0_i32_7 = arith.constant 0 : i32
      %8 = arith.select %7, %c0_i32_7, %6 : i32
      %c0_i32_8 = arith.constant 0 : i32
      %c1_i32_9 = arith.constant 1 : i32
      %9 = arith.addi %c0_i32_8, %c1_i32_9 : i32
      %c0_i32_10 = arith.constant 0 : i32
      %10 = arith.select %7, %9, %c0_i32_10 : i32
      %c4_i32 = arith.constant 4 : i32
      %11 = arith.cmpi eq, %10, %c4_i32 : i32
      %c0_i32_11 = arith.constant 0 : i32
      %12 = arith.select %11, %c0_i32_11, %10 : i32
      %c0_i32_12 = arith.constant 0 : i32
      %13 = arith.addi %12, %c0_i32_12 : i32
      %c0_i32_13 = arith.constant 0 : i32
      %14 = arith.addi %8, %c0_i32_13 : i32
      %c0_i32_14 = arith.constant 0 : i32
      %c1_i32_15 = arith.constant 1 : i32
      %15 = arith.subi %c0_i32_14, %c1_i32_15 : i32
      %true_16 = arith.constant true
      %c0_i32_17 = arith.constant 0 : i32
      %16 = arith.select %true_16, %15, %c0_i32_17 : i32
      %c-1_i32 = arith.constant -1 : i32
      %17 = arith.cmpi eq, %16, %c-1_i32 : i32
      %c1_i32_18 = arith.constant 1 : i32
      %18 = arith.select %17, %c1_i32_18, %16 : i32
      %c0_i32_19 = arith.constant 0 : i32
      %c1_i32_20 = arith.constant 1 : i32
      %19 = arith.subi %c0_i32_19, %c1_i32_20 : i32
      %c0_i32_21 = arith.constant 0 : i32
      %20 = arith.select %17, %19, %c0_i32_21 : i32
      %c-1_i32_22 = arith.constant -1 : i32
      %21 = arith.cmpi eq, %20, %c-1_i32_22 : i32
      %c3_i32 = arith.constant 3 : i32
      %22 = arith.select %21, %c3_i32, %20 : i32
      %c1_i32_23 = arith.constant 1 : i32
      %23 = arith.addi %8, %c1_i32_23 : i32
      %true_24 = arith.constant true
      %24 = arith.select %true_24, %23, %8 : i32
      %c2_i32_25 = arith.constant 2 : i32
      %25 = arith.cmpi eq, %24, %c2_i32_25 : i32
      %c0_i32_26 = arith.constant 0 : i32
      %26 = arith.select %25, %c0_i32_26, %24 : i32
      %c1_i32_27 = arith.constant 1 : i32
      %27 = arith.addi %12, %c1_i32_27 : i32
      %28 = arith.select %25, %27, %12 : i32
      %c4_i32_28 = arith.constant 4 : i32
      %29 = arith.cmpi eq, %28, %c4_i32_28 : i32
      %c0_i32_29 = arith.constant 0 : i32
      %30 = arith.select %29, %c0_i32_29, %28 : i32
      %c0_i32_30 = arith.constant 0 : i32
      %31 = arith.addi %22, %c0_i32_30 : i32
      %c0_i32_31 = arith.constant 0 : i32
      %32 = arith.addi %18, %c0_i32_31 : i32
      %c0_i32_32 = arith.constant 0 : i32
      %33 = arith.addi %30, %c0_i32_32 : i32
      %c0_i32_33 = arith.constant 0 : i32
      %34 = arith.addi %26, %c0_i32_33 : i32
      "tpu.trace_start"() <{level = 10 : i32, message = "ep_initialize_0"}> : () -> ()
      %c0_i32_34 = arith.constant 0 : i32
      %c2_i32_35 = arith.constant 2 : i32
      %35 = arith.remui %c0_i32_34, %c2_i32_35 : i32
      %c64_i32 = arith.constant 64 : i32
      %36 = arith.muli %c64_i32, %3 : i32
      %c128_i32 = arith.constant 128 : i32
      %37 = arith.muli %c128_i32, %4 : i32
      %38 = tpu.memref_slice %0[%35] : memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %39 = tpu.memref_squeeze %38 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %c0_i32_36 = arith.constant 0 : i32
      %c0_i32_37 = arith.constant 0 : i32
      %40 = tpu.memref_slice %alloca[%35, %c0_i32_36, %c0_i32_37] : memref<2x64x128xf32, #tpu.memory_space<vmem>> -> memref<1x64x128xf32, #tpu.memory_space<vmem>>
      %41 = tpu.memref_squeeze %40 : memref<1x64x128xf32, #tpu.memory_space<vmem>> -> memref<64x128xf32, #tpu.memory_space<vmem>>
      %42 = tpu.memref_slice %arg0[%36, %37] : memref<256x256xf32, #tpu.memory_space<any>> -> memref<64x128xf32, #tpu.memory_space<any>>
      tpu.enqueue_dma source(%42 : memref<64x128xf32, #tpu.memory_space<any>>) target(%41 : memref<64x128xf32, #tpu.memory_space<vmem>>) target_semaphore(%39 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>)
      %c0_i32_38 = arith.constant 0 : i32
      %c1_i32_39 = arith.constant 1 : i32
      %43 = arith.addi %c0_i32_38, %c1_i32_39 : i32
      %c0_i32_40 = arith.constant 0 : i32
      %c2_i32_41 = arith.constant 2 : i32
      %44 = arith.remui %c0_i32_40, %c2_i32_41 : i32
      %c128_i32_42 = arith.constant 128 : i32
      %45 = arith.muli %c128_i32_42, %4 : i32
      %46 = tpu.memref_slice %1[%44] : memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %47 = tpu.memref_squeeze %46 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %c0_i32_43 = arith.constant 0 : i32
      %c0_i32_44 = arith.constant 0 : i32
      %48 = tpu.memref_slice %alloca_0[%44, %c0_i32_43, %c0_i32_44] : memref<2x64x128xf32, #tpu.memory_space<vmem>> -> memref<1x64x128xf32, #tpu.memory_space<vmem>>
      %49 = tpu.memref_squeeze %48 : memref<1x64x128xf32, #tpu.memory_space<vmem>> -> memref<64x128xf32, #tpu.memory_space<vmem>>
      %c0_i32_45 = arith.constant 0 : i32
      %50 = tpu.memref_slice %arg1[%c0_i32_45, %45] : memref<64x256xf32, #tpu.memory_space<any>> -> memref<64x128xf32, #tpu.memory_space<any>>
      tpu.enqueue_dma source(%50 : memref<64x128xf32, #tpu.memory_space<any>>) target(%49 : memref<64x128xf32, #tpu.memory_space<vmem>>) target_semaphore(%47 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>)
      %c0_i32_46 = arith.constant 0 : i32
      %c1_i32_47 = arith.constant 1 : i32
      %51 = arith.addi %c0_i32_46, %c1_i32_47 : i32
      "tpu.trace_stop"() : () -> ()
      %c0_i32_48 = arith.constant 0 : i32
      %c0_i32_49 = arith.constant 0 : i32
      %c0_i32_50 = arith.constant 0 : i32
      %c0_i32_51 = arith.constant 0 : i32
      %c0_i32_52 = arith.constant 0 : i32
      %c0_i32_53 = arith.constant 0 : i32
      %c0_i32_54 = arith.constant 0 : i32
      %c8_i32 = arith.constant 8 : i32
      %52 = arith.addi %c0_i32_54, %c8_i32 : i32
      %c1_i32_55 = arith.constant 1 : i32
      %53:8 = scf.for %arg3 = %c0_i32_54 to %52 step %c1_i32_55 iter_args(%arg4 = %43, %arg5 = %c0_i32_48, %arg6 = %51, %arg7 = %c0_i32_49, %arg8 = %c0_i32_50, %arg9 = %c0_i32_51, %arg10 = %c0_i32_52, %arg11 = %c0_i32_53) -> (i32, i32, i32, i32, i32, i32, i32, i32)  : i32 {
        %c0_i32_99 = arith.constant 0 : i32
        %103 = arith.cmpi eq, %arg3, %c0_i32_99 : i32
        %c7_i32 = arith.constant 7 : i32
        %104 = arith.cmpi eq, %arg3, %c7_i32 : i32
        %c0_i32_100 = arith.constant 0 : i32
        %105 = arith.addi %arg10, %c0_i32_100 : i32
        %c0_i32_101 = arith.constant 0 : i32
        %106 = arith.addi %arg11, %c0_i32_101 : i32
        %c1_i32_102 = arith.constant 1 : i32
        %107 = arith.addi %arg11, %c1_i32_102 : i32
        %true_103 = arith.constant true
        %108 = arith.select %true_103, %107, %arg11 : i32
        %c2_i32_104 = arith.constant 2 : i32
        %109 = arith.cmpi eq, %108, %c2_i32_104 : i32
        %c0_i32_105 = arith.constant 0 : i32
        %110 = arith.select %109, %c0_i32_105, %108 : i32
        %c1_i32_106 = arith.constant 1 : i32
        %111 = arith.addi %arg10, %c1_i32_106 : i32
        %112 = arith.select %109, %111, %arg10 : i32
        %c4_i32_107 = arith.constant 4 : i32
        %113 = arith.cmpi eq, %112, %c4_i32_107 : i32
        %c0_i32_108 = arith.constant 0 : i32
        %114 = arith.select %113, %c0_i32_108, %112 : i32
        %c0_i32_109 = arith.constant 0 : i32
        %115 = arith.addi %114, %c0_i32_109 : i32
        %c0_i32_110 = arith.constant 0 : i32
        %116 = arith.addi %110, %c0_i32_110 : i32
        %c1_i32_111 = arith.constant 1 : i32
        %117 = arith.subi %arg11, %c1_i32_111 : i32
        %true_112 = arith.constant true
        %118 = arith.select %true_112, %117, %arg11 : i32
        %c-1_i32_113 = arith.constant -1 : i32
        %119 = arith.cmpi eq, %118, %c-1_i32_113 : i32
        %c1_i32_114 = arith.constant 1 : i32
        %120 = arith.select %119, %c1_i32_114, %118 : i32
        %c1_i32_115 = arith.constant 1 : i32
        %121 = arith.subi %arg10, %c1_i32_115 : i32
        %122 = arith.select %119, %121, %arg10 : i32
        %c-1_i32_116 = arith.constant -1 : i32
        %123 = arith.cmpi eq, %122, %c-1_i32_116 : i32
        %c3_i32_117 = arith.constant 3 : i32
        %124 = arith.select %123, %c3_i32_117, %122 : i32
        %c1_i32_118 = arith.constant 1 : i32
        %125 = arith.addi %110, %c1_i32_118 : i32
        %true_119 = arith.constant true
        %126 = arith.select %true_119, %125, %110 : i32
        %c2_i32_120 = arith.constant 2 : i32
        %127 = arith.cmpi eq, %126, %c2_i32_120 : i32
        %c0_i32_121 = arith.constant 0 : i32
        %128 = arith.select %127, %c0_i32_121, %126 : i32
        %c1_i32_122 = arith.constant 1 : i32
        %129 = arith.addi %114, %c1_i32_122 : i32
        %130 = arith.select %127, %129, %114 : i32
        %c4_i32_123 = arith.constant 4 : i32
        %131 = arith.cmpi eq, %130, %c4_i32_123 : i32
        %c0_i32_124 = arith.constant 0 : i32
        %132 = arith.select %131, %c0_i32_124, %130 : i32
        %c0_i32_125 = arith.constant 0 : i32
        %133 = arith.addi %124, %c0_i32_125 : i32
        %c0_i32_126 = arith.constant 0 : i32
        %134 = arith.addi %120, %c0_i32_126 : i32
        %c0_i32_127 = arith.constant 0 : i32
        %135 = arith.addi %132, %c0_i32_127 : i32
        %c0_i32_128 = arith.constant 0 : i32
        %136 = arith.addi %128, %c0_i32_128 : i32
        %137 = arith.cmpi ne, %105, %115 : i32
        %138 = arith.cmpi ne, %106, %116 : i32
        %139 = arith.ori %137, %138 : i1
        %c7_i32_129 = arith.constant 7 : i32
        %140 = arith.cmpi sge, %arg3, %c7_i32_129 : i32
        %true_130 = arith.constant true
        %141 = arith.xori %140, %true_130 : i1
        %142 = arith.andi %139, %141 : i1
        %true_131 = arith.constant true
        %143 = arith.andi %142, %true_131 : i1
        %144 = arith.extui %143 : i1 to i32
        %c0_i32_132 = arith.constant 0 : i32
        %145 = arith.cmpi ne, %144, %c0_i32_132 : i32
        scf.if %145 {
          "tpu.trace_start"() <{level = 10 : i32, message = "ep_copy_in"}> : () -> ()
          %c2_i32_175 = arith.constant 2 : i32
          %252 = arith.remui %arg4, %c2_i32_175 : i32
          %c64_i32_176 = arith.constant 64 : i32
          %253 = arith.muli %c64_i32_176, %115 : i32
          %c128_i32_177 = arith.constant 128 : i32
          %254 = arith.muli %c128_i32_177, %116 : i32
          %255 = tpu.memref_slice %0[%252] : memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
          %256 = tpu.memref_squeeze %255 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
          %c0_i32_178 = arith.constant 0 : i32
          %c0_i32_179 = arith.constant 0 : i32
          %257 = tpu.memref_slice %alloca[%252, %c0_i32_178, %c0_i32_179] : memref<2x64x128xf32, #tpu.memory_space<vmem>> -> memref<1x64x128xf32, #tpu.memory_space<vmem>>
          %258 = tpu.memref_squeeze %257 : memref<1x64x128xf32, #tpu.memory_space<vmem>> -> memref<64x128xf32, #tpu.memory_space<vmem>>
          %259 = tpu.memref_slice %arg0[%253, %254] : memref<256x256xf32, #tpu.memory_space<any>> -> memref<64x128xf32, #tpu.memory_space<any>>
          tpu.enqueue_dma source(%259 : memref<64x128xf32, #tpu.memory_space<any>>) target(%258 : memref<64x128xf32, #tpu.memory_space<vmem>>) target_semaphore(%256 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>)
          "tpu.trace_stop"() : () -> ()
        } else {
        }
        %true_133 = arith.constant true
        %146 = arith.andi %142, %true_133 : i1
        %c1_i32_134 = arith.constant 1 : i32
        %147 = arith.addi %arg4, %c1_i32_134 : i32
        %148 = arith.select %146, %147, %arg4 : i32
        %149 = arith.cmpi ne, %106, %116 : i32
        %c7_i32_135 = arith.constant 7 : i32
        %150 = arith.cmpi sge, %arg3, %c7_i32_135 : i32
        %true_136 = arith.constant true
        %151 = arith.xori %150, %true_136 : i1
        %152 = arith.andi %149, %151 : i1
        %true_137 = arith.constant true
        %153 = arith.andi %152, %true_137 : i1
        %154 = arith.extui %153 : i1 to i32
        %c0_i32_138 = arith.constant 0 : i32
        %155 = arith.cmpi ne, %154, %c0_i32_138 : i32
        scf.if %155 {
          "tpu.trace_start"() <{level = 10 : i32, message = "ep_copy_in"}> : () -> ()
          %c2_i32_175 = arith.constant 2 : i32
          %252 = arith.remui %arg6, %c2_i32_175 : i32
          %c128_i32_176 = arith.constant 128 : i32
          %253 = arith.muli %c128_i32_176, %116 : i32
          %254 = tpu.memref_slice %1[%252] : memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
          %255 = tpu.memref_squeeze %254 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
          %c0_i32_177 = arith.constant 0 : i32
          %c0_i32_178 = arith.constant 0 : i32
          %256 = tpu.memref_slice %alloca_0[%252, %c0_i32_177, %c0_i32_178] : memref<2x64x128xf32, #tpu.memory_space<vmem>> -> memref<1x64x128xf32, #tpu.memory_space<vmem>>
          %257 = tpu.memref_squeeze %256 : memref<1x64x128xf32, #tpu.memory_space<vmem>> -> memref<64x128xf32, #tpu.memory_space<vmem>>
          %c0_i32_179 = arith.constant 0 : i32
          %258 = tpu.memref_slice %arg1[%c0_i32_179, %253] : memref<64x256xf32, #tpu.memory_space<any>> -> memref<64x128xf32, #tpu.memory_space<any>>
          tpu.enqueue_dma source(%258 : memref<64x128xf32, #tpu.memory_space<any>>) target(%257 : memref<64x128xf32, #tpu.memory_space<vmem>>) target_semaphore(%255 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>)
          "tpu.trace_stop"() : () -> ()
        } else {
        }
        %true_139 = arith.constant true
        %156 = arith.andi %152, %true_139 : i1
        %c1_i32_140 = arith.constant 1 : i32
        %157 = arith.addi %arg6, %c1_i32_140 : i32
        %158 = arith.select %156, %157, %arg6 : i32
        %159 = arith.cmpi ne, %105, %133 : i32
        %160 = arith.cmpi ne, %106, %134 : i32
        %161 = arith.ori %159, %160 : i1
        %c9_i32 = arith.constant 9 : i32
        %162 = arith.cmpi sge, %arg3, %c9_i32 : i32
        %true_141 = arith.constant true
        %163 = arith.xori %162, %true_141 : i1
        %164 = arith.andi %161, %163 : i1
        %165 = arith.ori %164, %103 : i1
        %166 = arith.cmpi ne, %105, %133 : i32
        %167 = arith.cmpi ne, %106, %134 : i32
        %168 = arith.ori %166, %167 : i1
        %169 = arith.ori %168, %103 : i1
        %c0_i32_142 = arith.constant 0 : i32
        %170 = arith.cmpi sge, %arg3, %c0_i32_142 : i32
        %171 = arith.andi %169, %170 : i1
        %172 = arith.extui %171 : i1 to i32
        %c0_i32_143 = arith.constant 0 : i32
        %173 = arith.cmpi ne, %172, %c0_i32_143 : i32
        scf.if %173 {
          "tpu.trace_start"() <{level = 10 : i32, message = "ep_wait_in"}> : () -> ()
          %c64_i32_175 = arith.constant 64 : i32
          %252 = arith.muli %c64_i32_175, %105 : i32
          %c128_i32_176 = arith.constant 128 : i32
          %253 = arith.muli %c128_i32_176, %106 : i32
          %c2_i32_177 = arith.constant 2 : i32
          %254 = arith.remui %arg5, %c2_i32_177 : i32
          %255 = tpu.memref_slice %0[%254] : memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
          %256 = tpu.memref_squeeze %255 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
          %c0_i32_178 = arith.constant 0 : i32
          %c0_i32_179 = arith.constant 0 : i32
          %257 = tpu.memref_slice %alloca[%254, %c0_i32_178, %c0_i32_179] : memref<2x64x128xf32, #tpu.memory_space<vmem>> -> memref<1x64x128xf32, #tpu.memory_space<vmem>>
          %258 = tpu.memref_squeeze %257 : memref<1x64x128xf32, #tpu.memory_space<vmem>> -> memref<64x128xf32, #tpu.memory_space<vmem>>
          %259 = tpu.memref_slice %arg0[%252, %253] : memref<256x256xf32, #tpu.memory_space<any>> -> memref<64x128xf32, #tpu.memory_space<any>>
          tpu.wait_dma source(%259 : memref<64x128xf32, #tpu.memory_space<any>>) target(%258 : memref<64x128xf32, #tpu.memory_space<vmem>>) target_semaphore(%256 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) {wait_target = true}
          "tpu.trace_stop"() : () -> ()
        } else {
        }
        %174 = arith.cmpi ne, %106, %134 : i32
        %175 = arith.ori %174, %103 : i1
        %c0_i32_144 = arith.constant 0 : i32
        %176 = arith.cmpi sge, %arg3, %c0_i32_144 : i32
        %177 = arith.andi %175, %176 : i1
        %178 = arith.extui %177 : i1 to i32
        %c0_i32_145 = arith.constant 0 : i32
        %179 = arith.cmpi ne, %178, %c0_i32_145 : i32
        scf.if %179 {
          "tpu.trace_start"() <{level = 10 : i32, message = "ep_wait_in"}> : () -> ()
          %c128_i32_175 = arith.constant 128 : i32
          %252 = arith.muli %c128_i32_175, %106 : i32
          %c2_i32_176 = arith.constant 2 : i32
          %253 = arith.remui %arg7, %c2_i32_176 : i32
          %254 = tpu.memref_slice %1[%253] : memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
          %255 = tpu.memref_squeeze %254 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
          %c0_i32_177 = arith.constant 0 : i32
          %c0_i32_178 = arith.constant 0 : i32
          %256 = tpu.memref_slice %alloca_0[%253, %c0_i32_177, %c0_i32_178] : memref<2x64x128xf32, #tpu.memory_space<vmem>> -> memref<1x64x128xf32, #tpu.memory_space<vmem>>
          %257 = tpu.memref_squeeze %256 : memref<1x64x128xf32, #tpu.memory_space<vmem>> -> memref<64x128xf32, #tpu.memory_space<vmem>>
          %c0_i32_179 = arith.constant 0 : i32
          %258 = tpu.memref_slice %arg1[%c0_i32_179, %252] : memref<64x256xf32, #tpu.memory_space<any>> -> memref<64x128xf32, #tpu.memory_space<any>>
          tpu.wait_dma source(%258 : memref<64x128xf32, #tpu.memory_space<any>>) target(%257 : memref<64x128xf32, #tpu.memory_space<vmem>>) target_semaphore(%255 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) {wait_target = true}
          "tpu.trace_stop"() : () -> ()
        } else {
        }
        %180 = arith.cmpi ne, %105, %133 : i32
        %181 = arith.cmpi ne, %106, %134 : i32
        %182 = arith.ori %180, %181 : i1
        %183 = arith.ori %182, %103 : i1
        %c0_i32_146 = arith.constant 0 : i32
        %184 = arith.cmpi sge, %arg3, %c0_i32_146 : i32
        %185 = arith.andi %183, %184 : i1
        %186 = arith.extui %185 : i1 to i32
        %c0_i32_147 = arith.constant 0 : i32
        %187 = arith.cmpi ne, %186, %c0_i32_147 : i32
        scf.if %187 {
        } else {
        }
        %c2_i32_148 = arith.constant 2 : i32
        %188 = arith.remui %arg5, %c2_i32_148 : i32
        %c2_i32_149 = arith.constant 2 : i32
        %189 = arith.remui %arg7, %c2_i32_149 : i32
        %c2_i32_150 = arith.constant 2 : i32
        %190 = arith.remui %arg8, %c2_i32_150 : i32
        "tpu.trace_start"() <{level = 10 : i32, message = "ep_run_kernel"}> : () -> ()
        %191 = arith.index_cast %188 : i32 to index
        %c0 = arith.constant 0 : index
        %c0_151 = arith.constant 0 : index
        %192 = vector.load %alloca[%191, %c0, %c0_151] : memref<2x64x128xf32, #tpu.memory_space<vmem>>, vector<1x64x128xf32>
        %193 = vector.shape_cast %192 : vector<1x64x128xf32> to vector<64x128xf32>
        %194 = math.tanh %193 : vector<64x128xf32>
        %195 = arith.index_cast %189 : i32 to index
        %c0_152 = arith.constant 0 : index
        %c0_153 = arith.constant 0 : index
        %196 = vector.load %alloca_0[%195, %c0_152, %c0_153] : memref<2x64x128xf32, #tpu.memory_space<vmem>>, vector<1x64x128xf32>
        %197 = vector.shape_cast %196 : vector<1x64x128xf32> to vector<64x128xf32>
        %198 = arith.addf %194, %197 : vector<64x128xf32>
        %199 = arith.index_cast %190 : i32 to index
        %c0_154 = arith.constant 0 : index
        %c0_155 = arith.constant 0 : index
        %200 = vector.load %alloca_1[%199, %c0_154, %c0_155] : memref<2x64x128xf32, #tpu.memory_space<vmem>>, vector<1x64x128xf32>
        %201 = vector.shape_cast %200 : vector<1x64x128xf32> to vector<64x128xf32>
        %202 = vector.shape_cast %198 : vector<64x128xf32> to vector<1x64x128xf32>
        tpu.vector_store %alloca_1[%199, %c0_154, %c0_155], %202 {strides = array<i32>} : memref<2x64x128xf32, #tpu.memory_space<vmem>>, vector<1x64x128xf32>, 
        "tpu.trace_stop"() : () -> ()
        %203 = arith.cmpi ne, %105, %115 : i32
        %204 = arith.cmpi ne, %106, %116 : i32
        %205 = arith.ori %203, %204 : i1
        %206 = arith.ori %205, %104 : i1
        %207 = arith.extui %206 : i1 to i32
        %c0_i32_156 = arith.constant 0 : i32
        %208 = arith.cmpi ne, %207, %c0_i32_156 : i32
        scf.if %208 {
        } else {
        }
        %false = arith.constant false
        %209 = arith.andi %206, %false : i1
        %210 = arith.cmpi ne, %106, %116 : i32
        %211 = arith.ori %210, %104 : i1
        %212 = arith.extui %211 : i1 to i32
        %c0_i32_157 = arith.constant 0 : i32
        %213 = arith.cmpi ne, %212, %c0_i32_157 : i32
        scf.if %213 {
        } else {
        }
        %false_158 = arith.constant false
        %214 = arith.andi %211, %false_158 : i1
        %215 = arith.cmpi ne, %105, %115 : i32
        %216 = arith.cmpi ne, %106, %116 : i32
        %217 = arith.ori %215, %216 : i1
        %218 = arith.ori %217, %104 : i1
        %219 = arith.extui %218 : i1 to i32
        %c0_i32_159 = arith.constant 0 : i32
        %220 = arith.cmpi ne, %219, %c0_i32_159 : i32
        scf.if %220 {
          "tpu.trace_start"() <{level = 10 : i32, message = "ep_copy_out"}> : () -> ()
          %c2_i32_175 = arith.constant 2 : i32
          %252 = arith.remui %arg8, %c2_i32_175 : i32
          %c64_i32_176 = arith.constant 64 : i32
          %253 = arith.muli %c64_i32_176, %105 : i32
          %c128_i32_177 = arith.constant 128 : i32
          %254 = arith.muli %c128_i32_177, %106 : i32
          %255 = tpu.memref_slice %2[%252] : memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
          %256 = tpu.memref_squeeze %255 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
          %257 = tpu.memref_slice %arg2[%253, %254] : memref<256x256xf32, #tpu.memory_space<any>> -> memref<64x128xf32, #tpu.memory_space<any>>
          %c0_i32_178 = arith.constant 0 : i32
          %c0_i32_179 = arith.constant 0 : i32
          %258 = tpu.memref_slice %alloca_1[%252, %c0_i32_178, %c0_i32_179] : memref<2x64x128xf32, #tpu.memory_space<vmem>> -> memref<1x64x128xf32, #tpu.memory_space<vmem>>
          %259 = tpu.memref_squeeze %258 : memref<1x64x128xf32, #tpu.memory_space<vmem>> -> memref<64x128xf32, #tpu.memory_space<vmem>>
          tpu.enqueue_dma source(%259 : memref<64x128xf32, #tpu.memory_space<vmem>>) target(%257 : memref<64x128xf32, #tpu.memory_space<any>>) target_semaphore(%256 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>)
          "tpu.trace_stop"() : () -> ()
        } else {
        }
        %true_160 = arith.constant true
        %221 = arith.andi %218, %true_160 : i1
        %c1_i32_161 = arith.constant 1 : i32
        %222 = arith.addi %arg8, %c1_i32_161 : i32
        %223 = arith.select %221, %222, %arg8 : i32
        %224 = arith.cmpi ne, %105, %133 : i32
        %225 = arith.cmpi ne, %106, %134 : i32
        %226 = arith.ori %224, %225 : i1
        %c1_i32_162 = arith.constant 1 : i32
        %227 = arith.cmpi sge, %arg3, %c1_i32_162 : i32
        %228 = arith.andi %226, %227 : i1
        %229 = arith.extui %228 : i1 to i32
        %c0_i32_163 = arith.constant 0 : i32
        %230 = arith.cmpi ne, %229, %c0_i32_163 : i32
        scf.if %230 {
          "tpu.trace_start"() <{level = 10 : i32, message = "ep_wait_out"}> : () -> ()
          %c2_i32_175 = arith.constant 2 : i32
          %252 = arith.remui %arg9, %c2_i32_175 : i32
          %c64_i32_176 = arith.constant 64 : i32
          %253 = arith.muli %c64_i32_176, %133 : i32
          %c128_i32_177 = arith.constant 128 : i32
          %254 = arith.muli %c128_i32_177, %134 : i32
          %255 = tpu.memref_slice %2[%252] : memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
          %256 = tpu.memref_squeeze %255 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
          %257 = tpu.memref_slice %arg2[%253, %254] : memref<256x256xf32, #tpu.memory_space<any>> -> memref<64x128xf32, #tpu.memory_space<any>>
          %c0_i32_178 = arith.constant 0 : i32
          %c0_i32_179 = arith.constant 0 : i32
          %258 = tpu.memref_slice %alloca_1[%252, %c0_i32_178, %c0_i32_179] : memref<2x64x128xf32, #tpu.memory_space<vmem>> -> memref<1x64x128xf32, #tpu.memory_space<vmem>>
          %259 = tpu.memref_squeeze %258 : memref<1x64x128xf32, #tpu.memory_space<vmem>> -> memref<64x128xf32, #tpu.memory_space<vmem>>
          tpu.wait_dma source(%259 : memref<64x128xf32, #tpu.memory_space<vmem>>) target(%257 : memref<64x128xf32, #tpu.memory_space<any>>) target_semaphore(%256 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) {wait_target = true}
          "tpu.trace_stop"() : () -> ()
        } else {
        }
        %true_164 = arith.constant true
        %231 = arith.andi %228, %true_164 : i1
        %c1_i32_165 = arith.constant 1 : i32
        %232 = arith.addi %arg9, %c1_i32_165 : i32
        %233 = arith.select %231, %232, %arg9 : i32
        %234 = arith.cmpi ne, %105, %115 : i32
        %235 = arith.cmpi ne, %106, %116 : i32
        %236 = arith.ori %234, %235 : i1
        %237 = arith.ori %236, %104 : i1
        %c1_i32_166 = arith.constant 1 : i32
        %238 = arith.addi %arg5, %c1_i32_166 : i32
        %239 = arith.select %237, %238, %arg5 : i32
        %240 = arith.cmpi ne, %106, %116 : i32
        %241 = arith.ori %240, %104 : i1
        %c1_i32_167 = arith.constant 1 : i32
        %242 = arith.addi %arg7, %c1_i32_167 : i32
        %243 = arith.select %241, %242, %arg7 : i32
        %c1_i32_168 = arith.constant 1 : i32
        %244 = arith.addi %arg11, %c1_i32_168 : i32
        %true_169 = arith.constant true
        %245 = arith.select %true_169, %244, %arg11 : i32
        %c2_i32_170 = arith.constant 2 : i32
        %246 = arith.cmpi eq, %245, %c2_i32_170 : i32
        %c0_i32_171 = arith.constant 0 : i32
        %247 = arith.select %246, %c0_i32_171, %245 : i32
        %c1_i32_172 = arith.constant 1 : i32
        %248 = arith.addi %arg10, %c1_i32_172 : i32
        %249 = arith.select %246, %248, %arg10 : i32
        %c4_i32_173 = arith.constant 4 : i32
        %250 = arith.cmpi eq, %249, %c4_i32_173 : i32
        %c0_i32_174 = arith.constant 0 : i32
        %251 = arith.select %250, %c0_i32_174, %249 : i32
        scf.yield %148, %239, %158, %243, %223, %233, %251, %247 : i32, i32, i32, i32, i32, i32, i32, i32
      }
      %c8_i32_56 = arith.constant 8 : i32
      %c1_i32_57 = arith.constant 1 : i32
      %54 = arith.subi %53#7, %c1_i32_57 : i32
      %true_58 = arith.constant true
      %55 = arith.select %true_58, %54, %53#7 : i32
      %c-1_i32_59 = arith.constant -1 : i32
      %56 = arith.cmpi eq, %55, %c-1_i32_59 : i32
      %c1_i32_60 = arith.constant 1 : i32
      %57 = arith.select %56, %c1_i32_60, %55 : i32
      %c1_i32_61 = arith.constant 1 : i32
      %58 = arith.subi %53#6, %c1_i32_61 : i32
      %59 = arith.select %56, %58, %53#6 : i32
      %c-1_i32_62 = arith.constant -1 : i32
      %60 = arith.cmpi eq, %59, %c-1_i32_62 : i32
      %c3_i32_63 = arith.constant 3 : i32
      %61 = arith.select %60, %c3_i32_63, %59 : i32
      %c0_i32_64 = arith.constant 0 : i32
      %62 = arith.addi %61, %c0_i32_64 : i32
      %c0_i32_65 = arith.constant 0 : i32
      %63 = arith.addi %57, %c0_i32_65 : i32
      %c1_i32_66 = arith.constant 1 : i32
      %64 = arith.addi %57, %c1_i32_66 : i32
      %true_67 = arith.constant true
      %65 = arith.select %true_67, %64, %57 : i32
      %c2_i32_68 = arith.constant 2 : i32
      %66 = arith.cmpi eq, %65, %c2_i32_68 : i32
      %c0_i32_69 = arith.constant 0 : i32
      %67 = arith.select %66, %c0_i32_69, %65 : i32
      %c1_i32_70 = arith.constant 1 : i32
      %68 = arith.addi %61, %c1_i32_70 : i32
      %69 = arith.select %66, %68, %61 : i32
      %c4_i32_71 = arith.constant 4 : i32
      %70 = arith.cmpi eq, %69, %c4_i32_71 : i32
      %c0_i32_72 = arith.constant 0 : i32
      %71 = arith.select %70, %c0_i32_72, %69 : i32
      %c0_i32_73 = arith.constant 0 : i32
      %72 = arith.addi %71, %c0_i32_73 : i32
      %c0_i32_74 = arith.constant 0 : i32
      %73 = arith.addi %67, %c0_i32_74 : i32
      %c1_i32_75 = arith.constant 1 : i32
      %74 = arith.subi %57, %c1_i32_75 : i32
      %true_76 = arith.constant true
      %75 = arith.select %true_76, %74, %57 : i32
      %c-1_i32_77 = arith.constant -1 : i32
      %76 = arith.cmpi eq, %75, %c-1_i32_77 : i32
      %c1_i32_78 = arith.constant 1 : i32
      %77 = arith.select %76, %c1_i32_78, %75 : i32
      %c1_i32_79 = arith.constant 1 : i32
      %78 = arith.subi %61, %c1_i32_79 : i32
      %79 = arith.select %76, %78, %61 : i32
      %c-1_i32_80 = arith.constant -1 : i32
      %80 = arith.cmpi eq, %79, %c-1_i32_80 : i32
      %c3_i32_81 = arith.constant 3 : i32
      %81 = arith.select %80, %c3_i32_81, %79 : i32
      %c1_i32_82 = arith.constant 1 : i32
      %82 = arith.addi %67, %c1_i32_82 : i32
      %true_83 = arith.constant true
      %83 = arith.select %true_83, %82, %67 : i32
      %c2_i32_84 = arith.constant 2 : i32
      %84 = arith.cmpi eq, %83, %c2_i32_84 : i32
      %c0_i32_85 = arith.constant 0 : i32
      %85 = arith.select %84, %c0_i32_85, %83 : i32
      %c1_i32_86 = arith.constant 1 : i32
      %86 = arith.addi %71, %c1_i32_86 : i32
      %87 = arith.select %84, %86, %71 : i32
      %c4_i32_87 = arith.constant 4 : i32
      %88 = arith.cmpi eq, %87, %c4_i32_87 : i32
      %c0_i32_88 = arith.constant 0 : i32
      %89 = arith.select %88, %c0_i32_88, %87 : i32
      %c0_i32_89 = arith.constant 0 : i32
      %90 = arith.addi %81, %c0_i32_89 : i32
      %c0_i32_90 = arith.constant 0 : i32
      %91 = arith.addi %77, %c0_i32_90 : i32
      %c0_i32_91 = arith.constant 0 : i32
      %92 = arith.addi %89, %c0_i32_91 : i32
      %c0_i32_92 = arith.constant 0 : i32
      %93 = arith.addi %85, %c0_i32_92 : i32
      "tpu.trace_start"() <{level = 10 : i32, message = "ep_finalize_0"}> : () -> ()
      %c2_i32_93 = arith.constant 2 : i32
      %94 = arith.remui %53#5, %c2_i32_93 : i32
      %c64_i32_94 = arith.constant 64 : i32
      %95 = arith.muli %c64_i32_94, %62 : i32
      %c128_i32_95 = arith.constant 128 : i32
      %96 = arith.muli %c128_i32_95, %63 : i32
      %97 = tpu.memref_slice %2[%94] : memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %98 = tpu.memref_squeeze %97 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %99 = tpu.memref_slice %arg2[%95, %96] : memref<256x256xf32, #tpu.memory_space<any>> -> memref<64x128xf32, #tpu.memory_space<any>>
      %c0_i32_96 = arith.constant 0 : i32
      %c0_i32_97 = arith.constant 0 : i32
      %100 = tpu.memref_slice %alloca_1[%94, %c0_i32_96, %c0_i32_97] : memref<2x64x128xf32, #tpu.memory_space<vmem>> -> memref<1x64x128xf32, #tpu.memory_space<vmem>>
      %101 = tpu.memref_squeeze %100 : memref<1x64x128xf32, #tpu.memory_space<vmem>> -> memref<64x128xf32, #tpu.memory_space<vmem>>
      tpu.wait_dma source(%101 : memref<64x128xf32, #tpu.memory_space<vmem>>) target(%99 : memref<64x128xf32, #tpu.memory_space<any>>) target_semaphore(%98 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) {wait_target = true}
      "tpu.trace_stop"() : () -> ()
      %c1_i32_98 = arith.constant 1 : i32
      %102 = arith.addi %53#5, %c1_i32_98 : i32
      tpu.yield
    }) : () -> ()
    return
  }
}
